#!/usr/bin/env python3
"""A search by rules on a small operator: the winner's file verifies by itself, a search that finds its results in
the store repeats exactly, to the same file and figures; what another build of sketchc found out does not count.

    search.py SKETCHC [STORE]     STORE: the build has one"""
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import schema_check  # noqa: E402
from common import ELEMENTS, OPERATOR  # noqa: E402

# Threads that wait for others without taking the processor from them.
ENVIRONMENT = dict(os.environ, OMP_WAIT_POLICY="passive")


def propose(sketchc: str, folder: pathlib.Path, out: str, *options: str) -> tuple[int, list[dict]]:
    done = subprocess.run([sketchc, "-q", "--propose", folder / "op.sketch", "-t", "openmp", "-o", folder / out,
                           "--progress=json", "--json", "--seed=3", *options],
                          text=True, check=False, capture_output=True, env=ENVIRONMENT)
    lines = [json.loads(line) for line in (done.stderr + done.stdout).splitlines() if line.startswith("{")]
    return done.returncode, lines


def verified(sketchc: str, file: pathlib.Path) -> bool:
    return subprocess.run([sketchc, "-q", "verify", file, "-t", "openmp", "--no-ragged"], check=False,
                          stdout=subprocess.DEVNULL).returncode == 0


def compiles(sketchc: str, text: str) -> bool:
    return subprocess.run([sketchc, "-q", "-t", "openmp", "--emit=c", "-"], check=False, text=True, input=text, stdout=subprocess.DEVNULL).returncode == 0


def told(sketchc: str, kept: list[str], lines: list[dict]) -> list[str]:
    """What it says follows the schema, and the store holds the run with every candidate that was judged."""
    schema = json.loads((ROOT / "docs/schemas/search.schema.json").read_text())
    problems = [p for line in lines for p in schema_check.check(line, schema, schema, "line")]
    last = [line for line in lines if line["kind"] == "progress"][-1]
    if not kept:
        return problems

    def rows(*words: str) -> list[dict]:
        done = subprocess.run([sketchc, "db", "query", *words, "--json", *kept], text=True, check=True, capture_output=True)
        return [json.loads(line) for line in done.stdout.splitlines()]
    runs, trials = rows("runs"), rows("trials")
    failed = sum(t["status"] != "ok" and not t["status"].startswith("same code as candidate ") for t in trials)
    if len(runs) != 1 or runs[0]["tried"] != last["tried"] or not runs[0]["ended"] or not runs[0]["winner"]:
        problems.append(f"runs: {runs}")
    if len(trials) != last["tried"] - last["repeated"] or failed > sum(last["failures"].values()):
        problems.append(f"trials: {trials}\n{last}")
    if [t["at"] for t in trials if t["at"] <= 0] or not runs[0]["environment"].count("sketchc"):
        problems.append(f"trials without a time, or no environment: {trials}")
    ran = {t["hash"] for t in trials if t["status"] in ("ok", "slow")}
    if {a["hash"] for a in rows("artifacts")} != ran or runs[0]["winner"] not in ran:
        problems.append(f"not the artifacts of all that ran: {rows('artifacts')}, {ran}")
    shapes = rows("shapes")
    if [s["case"] for s in shapes] != ["ragged", "large"] or [s for s in shapes if s["seconds"] <= 0 or s["naive_seconds"] <= 0]:
        problems.append(f"winner and naive were not timed at all cases: {shapes}")
    return problems


def refused(sketchc: str, folder: pathlib.Path) -> list[str]:
    """Numbers that are none, or out of their limits, are told."""
    problems = []
    for option in ("--candidates=many", "--candidates=0", "--workers=0", "--workers=1e9", "--search-time=soon", "--repairs=-1"):
        done = subprocess.run([sketchc, "--propose", folder / "op.sketch", option], text=True, check=False, capture_output=True)
        if done.returncode != 2 or f"{option.split('=')[0]} wants a number" not in done.stderr:
            problems.append(f"{option}: status {done.returncode}: {done.stderr}")
    return problems + no_use(sketchc, folder)


def no_use(sketchc: str, folder: pathlib.Path) -> list[str]:
    """What cannot be done is said before the search, with a place and a remedy."""
    nowhere = folder / "nowhere" / "best.sketch"
    cases = [(["--emit=artifact"], 2, "--emit has no meaning with --propose", "when you compile that"),
             ([f"--output={nowhere}"], 2, f"cannot write {nowhere}", "name a file in a folder that is there"),
             (["--cassette-mode=replay"], 2, "--cassette-mode=replay wants", "--cassette=FILE"),
             ([f"--cassette={folder / 'tape'}"], 2, "--cassette is about answers", "--proposer=command:PROGRAM"),
             (["--alone"], 2, "--alone is about answers", "--model=NAME"),
             (["-t", "openmp", "--arch=sm_80"], 2, "--arch=sm_80 does not go with -t openmp", "E0901"),
             (["-D", "M=3"], 2, "-D M", "no symbol, scalar or constexpr"),
             (["-D", "N=many"], 2, "`many` is no size", "an integer of at least 0")]
    problems = []
    for options, status, what, remedy in cases:
        done = subprocess.run([sketchc, "--propose", folder / "op.sketch", *options], text=True, check=False, capture_output=True)
        if done.returncode != status or what not in done.stderr or remedy not in done.stderr or not done.stderr.startswith(("sketchc: ", str(folder))):
            problems.append(f"{options}: status {done.returncode}: {done.stderr}")
    from_input = subprocess.run([sketchc, "--propose", "-"], text=True, check=False, capture_output=True, input=OPERATOR)
    if from_input.returncode != 2 or "name one in place of standard input" not in from_input.stderr:
        problems.append(f"-: status {from_input.returncode}: {from_input.stderr}")
    # A disk that is full loses nothing: the sketch is printed, and that it is not in the file is said.
    full = subprocess.run([sketchc, "-q", "--propose", folder / "op.sketch", "-t", "openmp", "--candidates=1", "--search-time=600", "-o", "/dev/full"],
                          text=True, check=False, capture_output=True, env=ENVIRONMENT)
    if full.returncode != 2 or "cannot write /dev/full" not in full.stderr or not full.stdout.startswith("operator add_one"):
        problems.append(f"-o /dev/full: status {full.returncode}: {full.stderr}{full.stdout}")
    short = subprocess.run([sketchc, "-q", "--propose", folder / "op.sketch", "-t", "openmp", "--search-time=0.001"],
                           text=True, check=False, capture_output=True, env=ENVIRONMENT)
    # The floor is the answer where there was no time, and the status says that nothing was verified.
    if short.returncode != 3 or "sketch add_one" not in short.stdout or "the compiler's own sketch is given, not verified" not in short.stderr \
            or "was verified within 0.001 s; a longer --search-time gives it time (the compiler's own sketch " not in short.stderr or not compiles(sketchc, short.stdout):
        problems.append(f"--search-time=0.001: status {short.returncode}: {short.stderr}{short.stdout}")
    with open("/dev/full", "w") as out:
        done = subprocess.run([sketchc, "-q", "--propose", folder / "op.sketch", "-t", "openmp", "--candidates=1", "--search-time=600"],
                              text=True, check=False, stdout=out, stderr=subprocess.PIPE, env=ENVIRONMENT)
    if done.returncode != 2 or "-o FILE names a file" not in done.stderr:
        problems.append(f"> /dev/full: status {done.returncode}: {done.stderr}")
    return problems


def other_load(sketchc: str, folder: pathlib.Path, kept: list[str], run: int) -> list[str]:
    """Times that were measured when the baseline took another time are measured again."""
    with sqlite3.connect(folder / "a.db") as store:
        if store.execute("SELECT count(*) FROM measurement WHERE baseline <= 0").fetchone()[0] > 4:  # those at the other case
            return ["measurements without the baseline's time"]
        store.execute("UPDATE measurement SET baseline = 1000 * baseline")
    store.close()
    done = subprocess.run([sketchc, "--propose", folder / "op.sketch", "-t", "openmp", "-o", folder / "again.sketch", "--candidates=1",
                           "--search-time=600", "--seed=3", *kept], text=True, check=False, capture_output=True, env=ENVIRONMENT)
    rows = subprocess.run([sketchc, "db", "query", "trials", "--json", *kept], text=True, check=True, capture_output=True).stdout
    timed = [t for t in map(json.loads, rows.splitlines()) if t["run"] == run and t["status"] == "ok"]
    if done.returncode or "when the store's times were measured: they are measured again" not in done.stderr or not timed \
            or any(t["known"] for t in timed):
        return [f"times of another load: status {done.returncode}: {done.stderr}{timed}"]
    return []


def main() -> int:
    sketchc, *store = sys.argv[1:]
    problems = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "op.sketch").write_text(OPERATOR)
        kept = [f"--store={folder / 'a.db'}"] if store else []
        limits = ["--candidates=5", "--search-time=600", "--workers=1"]
        problems += refused(sketchc, folder)
        status, first = propose(sketchc, folder, "one.sketch", *limits, *kept)
        if status or not first or first[-1].get("kind") != "search" or not first[-1]["verified"]:
            problems.append(f"status {status}: {first[-1:]}")
        # Nothing is given out that is slower than what plain compiling makes.
        if not problems and not 0 < first[-1]["best_s"] <= first[-1]["default_s"]:
            problems.append(f"slower than the compiler's own sketch: {first[-1]}")
        # Each case's reference was evaluated for the first candidate alone: the others, all of which ran at all its elements, met it again.
        reference, run = first[-1]["reference"], first[-1]["run"]
        if run < 3 or reference["past"] or reference["reused"] < (run - 1) * ELEMENTS or not reference["evaluated"]:
            problems.append(f"{run} candidates, and of the reference: {reference}")
        if not problems and not verified(sketchc, folder / "one.sketch"):
            problems.append("the winner's file does not verify")
        problems = problems or told(sketchc, kept, first)
        if store and not problems:
            # Where the machine does other work than before the times are measured again, as they should be: until two searches meet one load.
            for runs in range(2, 30):
                status, second = propose(sketchc, folder, "two.sketch", *limits, *kept)
                if status or not second[-1]["measured_again"]:
                    break
                first = second
                (folder / "two.sketch").replace(folder / "one.sketch")
            same = [[{k: v for k, v in line.items() if k not in ("elapsed_s", "per_s", "naive_s", "best_s")} for line in lines
                     if line["kind"] == "progress"] for lines in (first, second)]
            if status or same[0] != same[1] or len(same[0]) < 2:
                problems.append(f"with the results in the store the search went another way:\n{same[0]}\n{same[1]}")
            files = [(folder / f).read_text() for f in ("one.sketch", "two.sketch")]
            figures = [{k: line[-1].get(k) for k in ("winner", "best_s", "naive_s")} for line in (first, second)]
            if files[0] != files[1] or figures[0] != figures[1]:
                problems.append(f"with the results in the store the search ended otherwise:\n{figures}\n{files}")
            problems += other_load(sketchc, folder, kept, runs + 1)
            # Another build: its program is one byte longer.
            other = folder / "sketchc"
            other.write_bytes(pathlib.Path(sketchc).read_bytes() + b"\0")
            other.chmod(0o755)
            propose(str(other), folder, "three.sketch", "--candidates=1", "--search-time=600", *kept)
            rows = subprocess.run([sketchc, "db", "query", "trials", "--json", *kept], text=True, check=True, capture_output=True)
            known = {run: [t["known"] for t in map(json.loads, rows.stdout.splitlines()) if t["run"] == run] for run in (runs, runs + 2)}
            if not all(known[runs]) or not known[runs + 2] or any(known[runs + 2]):
                problems.append(f"what another build found out counts, or its own does not: {known}")
            best = subprocess.run([sketchc, "db", "best", "--json", *kept], text=True, check=False, capture_output=True)
            if best.returncode or json.loads(best.stdout)["operator"] != "add_one":
                problems.append(f"db best: {best.stdout}{best.stderr}")
    print("\n".join(problems) if problems else "searched, repeated")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
