#!/usr/bin/env python3
"""Chains recorded from a program that answers, their figures, their replay; and the transcripts of models that are kept.

    transcripts.py SKETCHC SOURCE_ROOT"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

SKETCHC = str(pathlib.Path(sys.argv[1]).resolve())
ROOT = pathlib.Path(sys.argv[2]).resolve()
DRIVER = ROOT / "bench/model_transcripts.py"
KEPT = ROOT / "tests/llm/transcripts"
OPERATOR = "reverse_rows"
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "tests"))
import model_transcripts
import schema_check


def drive(*args, status: int = 0) -> str:
    done = subprocess.run([sys.executable, DRIVER, *map(str, args)], capture_output=True, text=True, check=False, timeout=220)
    assert done.returncode == status, (args, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def answers() -> dict[str, list[str]]:
    """What the answerer says in the rounds of sample 1, 2, ...: right at once; nothing, then right; wrong, the same, then right."""
    made = subprocess.run([SKETCHC, ROOT / f"bench/operators/{OPERATOR}.sketch", "-t", "openmp", "--emit=sketch", "--design=columns"],
                          capture_output=True, text=True, check=True).stdout
    right = "A plan.\n```sketch\n" + made[made.index("\nsketch ") + 1:] + "```\n"
    wrong = re.sub(r"store\((\w+) ->", r"z = \1 + 1; store(z ->", right, count=1)
    unknown = re.sub(r"store\((\w+) ->", r"z = frobnicate(\1); store(z ->", right, count=1)
    assert wrong != right != unknown
    return {"1": [right], "2": ["No idea.", unknown, right], "3": [wrong, wrong, right]}


def answer(folder: pathlib.Path, texts: dict[str, list[str]], over: threading.Event) -> None:
    """Sees the prompts alone."""
    while not over.is_set():
        for prompt in folder.glob(f"{OPERATOR}-*/*.prompt"):
            reply = prompt.with_suffix(".answer")
            if reply.exists():
                continue
            said = texts[prompt.parent.name.rsplit("-", 1)[1]]
            draft = prompt.with_suffix(".draft")
            draft.write_text(said[min(int(prompt.stem), len(said) - 1)])
            draft.rename(reply)
        time.sleep(0.1)


def outcomes(chain: dict) -> list[str]:
    return [r["failure"] for r in chain["rounds"]]


def check_prompts(folder: pathlib.Path) -> None:
    """What a repair is told."""
    second = (folder / f"{OPERATOR}-2/0001.prompt").read_text(), (folder / f"{OPERATOR}-2/0002.prompt").read_text()
    assert "Your last answer could not be used: it held no sketch block." in second[0]
    assert "This sketch failed, syntax" in second[1] and "<explanation>" in second[1]
    place = re.search(r"candidate\.sketch:(\d+):", second[1])
    assert place and re.search(rf"^ *{place[1]} \| .*frobnicate\(", second[1], re.M), "the diagnostics' line numbers are those of the shown sketch"
    third = (folder / f"{OPERATOR}-3/0001.prompt").read_text(), (folder / f"{OPERATOR}-3/0002.prompt").read_text()
    assert "This sketch failed, numerical" in third[0] and "<verdict>\nat " in third[0] and ": got " in third[0], third[0][-1500:]
    assert "had been tried before" in third[1] and third[1].count("This sketch failed") == 1


def own_chains(folder: pathlib.Path) -> None:
    over, texts = threading.Event(), answers()
    thread = threading.Thread(target=answer, args=(folder / "root", texts, over))
    thread.start()
    try:
        drive("record", SKETCHC, folder / "root", "--samples=3", f"--only={OPERATOR}", "--timeout=100")
    finally:
        over.set()
        thread.join()
    result = json.loads((folder / "root/summary.json").read_text())
    figures, chains = result["figures"], result["chains"]
    assert [outcomes(c) for c in chains] == [["none"], ["no sketch", "syntax", "none"], ["numerical", "repeated", "none"]], chains
    assert all((folder / f"root/{OPERATOR}-{k}/done").read_text() == "0\n" for k in (1, 2, 3))
    assert figures["calls"] == 7 and figures["equal_prompts"] == 2 and figures["verified_by_round"] == [1, 0, 2, 0], figures
    assert abs(figures["pass_1"] - 1 / 3) < 1e-9 and figures["pass_3"] == 1 and figures["repaired_pass_1"] == 1, figures
    check_prompts(folder / "root")
    # Taken up again, nobody is asked: there is nobody.
    (folder / f"root/reports/{OPERATOR}-3.json").unlink()
    drive("record", SKETCHC, folder / "root")
    drive("pack", folder / "root", folder / "kept", "own")
    schema = json.loads((ROOT / "docs/schemas/cassette.schema.json").read_text())
    lines = (folder / "kept/own.jsonl").read_text().splitlines()
    for line in lines:
        assert any(not schema_check.check(json.loads(line), part, schema) for part in schema["oneOf"]), line[:300]
    assert len({json.loads(x)["hash"] for x in lines if '"kind": "text"' in x}) == sum('"kind": "text"' in x for x in lines)
    told = drive("replay", SKETCHC, folder / "kept", "--chains=1", "--seed=3")
    assert "1 of 3 chains replayed as recorded" in told and " 0 prompts differ" in told, told
    # A recording from before a change of the documents: the same outcomes, and the prompts that differ are counted.
    tape = (folder / "kept/own.jsonl").read_text()
    (folder / "kept/own.jsonl").write_text(re.sub(r'"prompt": "[0-9a-f]{4}', '"prompt": "0000', tape))
    told = drive("replay", SKETCHC, folder / "kept", "--chains=1", "--seed=3")
    assert re.search(r"[1-9] prompts differ", told), told
    # An answer that is another one than was judged is found.
    (folder / "kept/own.jsonl").write_text(tape.replace("No idea.", "sketch s implements reverse_rows { }"))
    drive("replay", SKETCHC, folder / "kept", "--chains=3", status=1)


def estimator() -> None:
    assert model_transcripts.pass_at(1, [(4, 1), (4, 4)]) == 0.625
    assert abs(model_transcripts.pass_at(2, [(4, 1)]) - 0.5) < 1e-12 and model_transcripts.pass_at(4, [(4, 1), (4, 0)]) == 0.5
    one = "operator a {\n    symbols: M, M >= 1;\n    tensors: X[M]: f32, Y[M]: f32;\n    Y = exp(X) + 1 # x\n    case c { M=3 }\n}\n"
    assert model_transcripts.meaning(one) == model_transcripts.meaning(one.replace("X", "Q").replace("f32", "f16"))
    assert model_transcripts.meaning(one) != model_transcripts.meaning(one.replace("+ 1", "+ 2"))


def main() -> int:
    estimator()
    with tempfile.TemporaryDirectory() as folder:
        own_chains(pathlib.Path(folder))
    print("ok own chains")
    drive("page", KEPT, ROOT / "docs/models.md", "--check")
    if list(KEPT.glob("*.jsonl")):
        print(drive("replay", SKETCHC, KEPT, "--chains=3"), end="")
    else:
        print("no transcripts of models are kept in tests/llm/transcripts: none replayed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
