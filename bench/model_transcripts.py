#!/usr/bin/env python3
"""Transcripts of a model in the loop: recorded, told of in figures, replayed.

    model_transcripts.py record SKETCHC ROOT [--seed=S] [--operators=12] [--samples=4] [--repairs=3] [--open=48]
                                [--timeout=SECONDS] [--only=OPERATOR,...]
    model_transcripts.py summary ROOT                      # again; prints the table
    model_transcripts.py pack ROOT FOLDER NAME             # what is kept: FOLDER/NAME.jsonl and FOLDER/NAME.json
    model_transcripts.py page FOLDER FILE.md               # the tables, between the marks in FILE.md
    model_transcripts.py replay SKETCHC FOLDER [--chains=N] [--seed=S]

record draws operators of bench/operators by the seed, without those that compute the same as a file of examples/ or a
document of docspec/, and writes ROOT/draw.json before the first prompt. Each (operator, sample) is a chain of its own: one
`sketchc --propose OPERATOR -t openmp --candidates=1 --sample=K --repairs=R` with its own cassette ROOT/tapes/OPERATOR-K.jsonl
and its own folder ROOT/OPERATOR-K/, in which bench/mailbox.py leaves prompts (0000.prompt, 0001.prompt, ...) and waits for
answers (0000.answer, ..., put there by renaming a finished file). A chain is one first answer and, while it is not verified
in all declared cases and ragged sizes, up to R repairs. When it has ended there is ROOT/OPERATOR-K/done. Up to --open
chains wait for answers at one time. What was begun is taken up again: an answer that is recorded is not asked for twice.
At the end ROOT/summary.json has the outcome of each round, pass@1 and pass@4 (Eq. 4 of the AKG Kernel Agent paper, exact),
the fraction that repairs reached, bytes, tokens (reported, else a fourth of the bytes), equal prompts and times.

pack joins the cassettes: call lines as they are, texts once. replay repeats N chains drawn by the seed with no network and nobody to
ask, and compiles all other sketches; outcomes must be the recorded ones. It prints how many prompts differ from the recorded."""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent
OPERATORS = HERE / "operators"
BEGIN, END = "<!-- transcripts -->", "<!-- end of transcripts -->"


# ---- Drawing ----

def operator_block(text: str) -> str:
    """The first operator block, its cases and comments taken out."""
    text = re.sub(r"#[^\n]*", "", text)
    begin = re.search(r"^\s*operator\s+\w+\s*\{", text, re.M)
    if not begin:
        return ""
    depth, at = 1, begin.end()
    while depth and at < len(text):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return re.sub(r"\bcase\s+\w+\s*\{[^}]*\}", "", text[begin.end():at - 1])


def meaning(text: str) -> str:
    """What an operator computes, whatever its names, types and constraints are: two of the same meaning are one task."""
    block = re.sub(r"^\s*symbols:.*$", "", operator_block(text), flags=re.M)
    block = re.sub(r":\s*(?:f|bf|i|u)\d\w*|:\s*bool", "", block)
    names: dict[str, str] = {}
    words = []
    for word in re.findall(r"[A-Za-z_]\w*|\d+\.?\d*(?:e-?\d+)?|\S", block):
        words.append(names.setdefault(word, f"n{len(names)}") if word[0].isalpha() or word[0] == "_" else word)
    return " ".join(w for w in words if w not in ",;")


def called(text: str) -> list[str]:
    return re.findall(r"([A-Za-z_]\w*)\(", operator_block(text))


def known_operators() -> dict[tuple, str]:
    found = {}
    for path in sorted([*(SOURCE / "examples").glob("*.sketch"), *(SOURCE / "docspec/documents").glob("*.md")]):
        found.setdefault((meaning(path.read_text()), *called(path.read_text())), str(path.relative_to(SOURCE)))
    return found


def draw(args: argparse.Namespace) -> dict:
    known, eligible, excluded = known_operators(), [], {}
    for path in sorted(OPERATORS.glob("*.sketch")):
        same = known.get((meaning(path.read_text()), *called(path.read_text())))
        if same:
            excluded[path.stem] = same
        else:
            eligible.append(path.stem)
    chosen = sorted(random.Random(args.seed).sample(eligible, min(args.operators, len(eligible))))
    if args.only:
        chosen = args.only.split(",")
    commit = subprocess.run(["git", "-C", SOURCE, "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    version = subprocess.run([args.sketchc, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return {"format": 1, "kind": "draw", "seed": args.seed, "time": int(time.time()), "commit": commit, "version": version,
            "target": "openmp", "operators": chosen, "samples": args.samples, "repairs": args.repairs,
            "drawn_from": eligible, "excluded": excluded}


# ---- Chains ----

def environment(empty: pathlib.Path) -> dict[str, str]:
    """Nobody's settings, documents or keys."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SKETCHC_", "OPENAI_", "XDG_"))}
    return env | {"XDG_CONFIG_HOME": str(empty), "XDG_DATA_HOME": str(empty)}


def propose(sketchc: str, operator: str, sample: int, repairs: int, empty: pathlib.Path, *more: str) -> dict:
    done = subprocess.run([sketchc, "-q", "--propose", OPERATORS / f"{operator}.sketch", "-t", "openmp", "--arch=x86-64-v3", "--json", "--alone", "--candidates=1",
                           f"--sample={sample}", f"--repairs={repairs}", "--time-limit=180", *more],
                          cwd=SOURCE, env=environment(empty), text=True, check=False, capture_output=True)
    if not done.stdout.startswith("{"):
        return {"status": done.returncode, "error": done.stderr[-2000:], "candidates": []}
    return json.loads(done.stdout) | {"status": done.returncode}


def run_chain(args: argparse.Namespace, root: pathlib.Path, operator: str, sample: int) -> None:
    name = f"{operator}-{sample}"
    folder, tape, report = root / name, root / "tapes" / f"{name}.jsonl", root / "reports" / f"{name}.json"
    if report.exists():
        return
    folder.mkdir(exist_ok=True)
    begin = time.time()
    result = propose(args.sketchc, operator, sample, args.repairs, root / "empty", f"--cassette={tape}",
                     f"--cassette-mode={'auto' if tape.exists() else 'record'}", f"--set=timeout={args.timeout}",
                     f"--proposer=command:{sys.executable} {HERE / 'mailbox.py'} {folder}", "-o", str(root / "best" / f"{name}.sketch"))
    if "error" in result:
        sys.exit(f"{name}: status {result['status']}: {result['error']}")
    result |= {"begun": begin, "seconds": time.time() - begin}
    report.with_suffix(".tmp").write_text(json.dumps(result, indent=1) + "\n")
    report.with_suffix(".tmp").rename(report)
    (folder / "done").write_text(f"{result['status']}\n")
    print(name, "verified" if any(c["verified"] for c in result["candidates"]) else "not verified",
          len(result["candidates"]), "rounds", flush=True)


def record(args: argparse.Namespace) -> int:
    root = args.root.resolve()
    if " " in str(root) or " " in str(HERE):
        sys.exit("paths with spaces cannot be told to a proposer")
    for part in ("tapes", "reports", "best", "empty"):
        (root / part).mkdir(parents=True, exist_ok=True)
    if not (root / "draw.json").exists():
        (root / "draw.json").write_text(json.dumps(draw(args), indent=1) + "\n")
    drawn = json.loads((root / "draw.json").read_text())
    args.repairs = drawn["repairs"]
    chains = [(o, k) for k in range(1, drawn["samples"] + 1) for o in drawn["operators"]]
    print(f"{len(chains)} chains of {', '.join(drawn['operators'])}", flush=True)
    with concurrent.futures.ThreadPoolExecutor(args.open) as pool:
        for f in [pool.submit(run_chain, args, root, o, k) for o, k in chains]:
            f.result()
    return summary(args)


# ---- Figures ----

def calls_of(tape: pathlib.Path) -> tuple[dict[str, str], list[str]]:
    """Texts by hash (their lines), and the lines of calls."""
    texts, calls = {}, []
    for line in tape.read_text().splitlines() if tape.exists() else []:
        value = json.loads(line)
        if value["kind"] == "text":
            texts[value["hash"]] = line
        else:
            calls.append(line)
    return texts, calls


def tokens(reported: int, size: int) -> int:
    return reported if reported >= 0 else (size + 3) // 4


def chain_figures(report: dict, texts: dict[str, str], calls: list[str], operator: str, sample: int) -> dict:
    rounds = []
    for candidate, line in zip(report["candidates"], calls):
        call = json.loads(line)
        prompt = json.loads(texts[call["fixed"]])["bytes"] + call["task_bytes"]
        keep = ("round", "reply", "failure", "outcome", "verified", "fixes", "median_s")
        rounds.append({k: candidate[k] for k in keep} |
                      {"prompt": call["prompt"], "prompt_bytes": prompt, "answer_bytes": call["answer_bytes"],
                       "tokens_in": tokens(call["tokens_in"], prompt), "tokens_out": tokens(call["tokens_out"], call["answer_bytes"]),
                       "seconds": call["seconds"]})
    return {"operator": operator, "sample": sample, "rounds": rounds, "seconds": report.get("seconds", 0),
            "complete": len(report["candidates"]) == len(calls) > 0}


def pass_at(k: int, counts: list[tuple[int, int]]) -> float:
    """Eq. 4: the mean over tasks of 1 - C(n - c, k) / C(n, k), n samples of which c are right."""
    usable = [1 - math.comb(n - c, k) / math.comb(n, k) for n, c in counts if n >= k]
    return sum(usable) / len(usable) if usable else 0.0


def figures(drawn: dict, chains: list[dict]) -> dict:
    first, final = [], []
    for operator in drawn["operators"]:
        own = [c for c in chains if c["operator"] == operator]
        first.append((len(own), sum(bool(c["rounds"]) and c["rounds"][0]["verified"] for c in own)))
        final.append((len(own), sum(any(r["verified"] for r in c["rounds"]) for c in own)))
    rounds = [r for c in chains for r in c["rounds"]]
    prompts = [r["prompt"] for r in rounds]
    failures: dict[str, int] = {}
    for r in rounds:
        if not r["verified"]:
            failures[r["failure"]] = failures.get(r["failure"], 0) + 1
    n = drawn["samples"]
    return {"chains": len(chains), "complete": sum(c["complete"] for c in chains), "calls": len(rounds),
            "equal_prompts": len(prompts) - len(set(prompts)),
            "pass_1": pass_at(1, first), f"pass_{n}": pass_at(n, first),
            "repaired_pass_1": pass_at(1, final), f"repaired_pass_{n}": pass_at(n, final),
            "verified_by_round": [sum(len(c["rounds"]) > i and c["rounds"][i]["verified"] for c in chains) for i in range(drawn["repairs"] + 1)],
            "failures": dict(sorted(failures.items())),
            "prompt_bytes": sum(r["prompt_bytes"] for r in rounds), "answer_bytes": sum(r["answer_bytes"] for r in rounds),
            "tokens_in": sum(r["tokens_in"] for r in rounds), "tokens_out": sum(r["tokens_out"] for r in rounds),
            "answer_seconds": sum(r["seconds"] for r in rounds)}


def collect(root: pathlib.Path) -> tuple[dict, dict[str, str], list[str]]:
    """The summary, and what a joint cassette holds."""
    drawn, chains, texts, calls = json.loads((root / "draw.json").read_text()), [], {}, []
    for operator in drawn["operators"]:
        for sample in range(1, drawn["samples"] + 1):
            report = root / "reports" / f"{operator}-{sample}.json"
            own, lines = calls_of(root / "tapes" / f"{operator}-{sample}.jsonl")
            if not report.exists():
                continue
            texts |= own
            calls += lines
            chains.append(chain_figures(json.loads(report.read_text()), texts, lines, operator, sample))
    return {"format": 1, "kind": "transcripts", "draw": drawn, "figures": figures(drawn, chains), "chains": chains}, texts, calls


def table(result: dict) -> list[str]:
    drawn, f = result["draw"], result["figures"]
    n = drawn["samples"]
    day = time.strftime("%Y-%m-%d", time.gmtime(drawn["time"]))
    lines = [f"Recorded {day}: {len(drawn['operators'])} operators drawn from {len(drawn['drawn_from'])} by seed {drawn['seed']}, {n} first answers each, "
             f"at most {drawn['repairs']} repairs, judged on OpenMP in all declared cases and ragged sizes.", "",
             "| figure | first answers | with repairs |", "| --- | ---: | ---: |",
             f"| pass@1 | {f['pass_1']:.3f} | {f['repaired_pass_1']:.3f} |", f"| pass@{n} | {f[f'pass_{n}']:.3f} | {f[f'repaired_pass_{n}']:.3f} |", "",
             f"{f['chains']} chains, {f['calls']} calls; verified in round 0, 1, ...: {', '.join(map(str, f['verified_by_round']))}. "
             f"Prompts {f['tokens_in']} tokens ({f['prompt_bytes']} bytes), answers {f['tokens_out']} tokens ({f['answer_bytes']} bytes); "
             f"tokens that nobody reported are a fourth of the bytes. {f['equal_prompts']} prompts had been sent before, byte for byte. "
             f"What failed: {', '.join(f'{k} {v}' for k, v in f['failures'].items()) or 'nothing'}.", "",
             "| operator | first answers right | right after repairs | calls | tokens in | tokens out |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for operator in drawn["operators"]:
        own = [c for c in result["chains"] if c["operator"] == operator]
        rounds = [r for c in own for r in c["rounds"]]
        lines.append(f"| {operator} | {sum(bool(c['rounds']) and c['rounds'][0]['verified'] for c in own)} of {len(own)} | "
                     f"{sum(any(r['verified'] for r in c['rounds']) for c in own)} of {len(own)} | {len(rounds)} | "
                     f"{sum(r['tokens_in'] for r in rounds)} | {sum(r['tokens_out'] for r in rounds)} |")
    return lines


def summary(args: argparse.Namespace) -> int:
    result, _, _ = collect(args.root.resolve())
    (args.root / "summary.json").write_text(json.dumps(result, indent=1) + "\n")
    print("\n".join(table(result)))
    return 0


def pack(args: argparse.Namespace) -> int:
    result, texts, calls = collect(args.root.resolve())
    args.folder.mkdir(parents=True, exist_ok=True)
    (args.folder / f"{args.name}.jsonl").write_text("".join(line + "\n" for line in [*texts.values(), *calls]))
    (args.folder / f"{args.name}.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0


def page(args: argparse.Namespace) -> int:
    text = args.file.read_text()
    parts = [p for summary_file in sorted(args.folder.glob("*.json")) for p in [*table(json.loads(summary_file.read_text())), ""]]
    body = "\n".join(parts).rstrip() if parts else "None is recorded yet."
    head, rest = text.split(BEGIN, 1)
    new = head + BEGIN + "\n" + body + "\n" + END + rest.split(END, 1)[1]
    if args.check and new != text:
        sys.exit(f"{args.file} is stale: {sys.argv[0]} page {args.folder} {args.file}")
    args.file.write_text(new)
    return 0


# ---- Replaying ----

def told(rounds: list[dict]) -> list[tuple]:
    return [(r["round"], r["reply"], r["failure"], r["verified"], r["fixes"]) for r in rounds]


def replay_chain(sketchc: str, tape: pathlib.Path, drawn: dict, chain: dict, empty: pathlib.Path) -> int:
    """The number of prompts that are no longer what they were."""
    again = propose(sketchc, chain["operator"], chain["sample"], drawn["repairs"], empty, f"--cassette={tape}", "--cassette-mode=replay",
                    "--cassette-match=order", "-o", "/dev/null")
    name = f"{tape.stem}: {chain['operator']}-{chain['sample']}"
    assert told(again["candidates"]) == told(chain["rounds"]), (name, "recorded", chain["rounds"], "now", again)
    assert again["requests"] == 0 and again["replayed"] == len(chain["rounds"]), (name, again)
    return again["other_prompts"]


def last_sketch(answer: str) -> str | None:
    found = re.findall(r"^[ \t]*(sketch\b[^\n{]*\{.*?^[ \t]*\})", answer, re.S | re.M)
    return found[-1] if found else None


def compile_chain(sketchc: str, chain: dict, answers: list[str], folder: pathlib.Path) -> int:
    """Sketches that compiled do so, others do not; what fix-its mended is left out. How many were looked at."""
    text, count = (OPERATORS / f"{chain['operator']}.sketch").read_text(), 0
    for r, answer in zip(chain["rounds"], answers):
        sketch = last_sketch(answer)
        if not sketch or r["fixes"] or r["reply"] != "proposed" or r["failure"] in ("no sketch", "repeated", "machine"):
            continue
        file = folder / "one.sketch"
        file.write_text(text + "\n" + sketch + "\n")
        done = subprocess.run([sketchc, file, "-t", "openmp", "-o", "/dev/null"], capture_output=True, text=True, check=False)
        failed = re.match(r"[EB]\d{4}:", r["outcome"]) is not None
        assert (done.returncode != 0) == failed, (chain["operator"], chain["sample"], r, done.stderr[-1000:])
        count += 1
    return count


def replay(args: argparse.Namespace) -> int:
    tapes = sorted(args.folder.glob("*.jsonl"))
    if not tapes:
        print("no transcripts are recorded")
        return 77
    for tape in tapes:
        result = json.loads(tape.with_suffix(".json").read_text())
        chains, (_, lines) = result["chains"], calls_of(tape)
        assert sum(len(c["rounds"]) for c in chains) == len(lines), f"{tape}: calls and outcomes do not fit"
        answers, at = [], 0
        for c in chains:
            answers.append([json.loads(line)["answer"] for line in lines[at:at + len(c["rounds"])]])
            at += len(c["rounds"])
        drawn = set(random.Random(args.seed).sample(range(len(chains)), min(args.chains, len(chains))))
        differ = compiled = 0
        with tempfile.TemporaryDirectory() as folder:
            for i, chain in enumerate(chains):
                if i in drawn:
                    differ += replay_chain(args.sketchc, tape, result["draw"], chain, pathlib.Path(folder))
                else:
                    compiled += compile_chain(args.sketchc, chain, answers[i], pathlib.Path(folder))
        print(f"{tape.stem}: {len(drawn)} of {len(chains)} chains replayed as recorded, {compiled} sketches of the others compiled; "
              f"{differ} prompts differ from the recorded ones")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(required=True)

    def verb(name: str, run, *operands: str) -> argparse.ArgumentParser:
        p = verbs.add_parser(name)
        p.set_defaults(run=run)
        for operand in operands:
            p.add_argument(operand, type=str if operand in ("sketchc", "name") else pathlib.Path)
        return p

    p = verb("record", record, "sketchc", "root")
    for option, default in (("seed", 1), ("operators", 12), ("samples", 4), ("repairs", 3), ("open", 48), ("timeout", 7200)):
        p.add_argument(f"--{option}", type=int, default=default)
    p.add_argument("--only")
    verb("summary", summary, "root")
    verb("pack", pack, "root", "folder", "name")
    p = verb("page", page, "folder", "file")
    p.add_argument("--check", action="store_true")
    p = verb("replay", replay, "sketchc", "folder")
    p.add_argument("--chains", type=int, default=3)
    p.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if "sketchc" in args:
        args.sketchc = str(pathlib.Path(args.sketchc).resolve())
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
