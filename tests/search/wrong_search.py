#!/usr/bin/env python3
"""The wrong sketches of tests/verify/wrong.py in searches: a program proposes them, and none wins.

    wrong_search.py SKETCHC [--all] [--table]

Each is an answer by itself, which is verified completely and refused for a fault of its own. In a search of its operator it is a candidate beside designs and
other wrong ones: none of these is verified, and the winner is none of them. The short run takes one operator every other day. Says of each kind what caught it, at which
sizes; --table as the rows of a page."""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/verify")]
import daily  # noqa: E402
import wrong  # noqa: E402

SEED = 22
HEAD = "sketch s implements"
NOT_VERIFIED = 3
FIRST = 6  # sketches that a search asks for before its rounds
# Each call gives the next of the sketches beside it, the last one again and again.
AGENT = """#!/bin/sh
cat > /dev/null
i=0
while [ -e "$0.$((i + 1)).sketch" ] && ! mkdir "$0.$i.taken" 2> /dev/null; do i=$((i + 1)); done
cat "$0.$i.sketch"
"""
# Kinds of failure (search/failures.def) that say that a result is wrong.
FAULTS = ("numerical", "memory", "race", "crash", "evasion")
CAUGHT = re.compile(r"at (.*?): (\w+(?: \(\w+\))?)")
Row = collections.namedtuple("Row", "operator kind fault sizes search")


def split(text: str) -> tuple[str, str]:
    operator, sketch = text.split(HEAD, 1)
    return operator, sketch


class Operator:
    """An operator with its wrong sketches; the name of each says its kind."""

    def __init__(self, sketchc: str, folder: pathlib.Path, name: str):
        self.sketchc, self.folder, self.name = sketchc, folder, name
        self.wrong = {f"w{i}": kind for i, kind in enumerate(k for k, row in wrong.WRONG.items() if row[0] == name)}
        folder.mkdir()
        (folder / "op.sketch").write_text(split(wrong.text_of(name, None))[0])

    def agent(self, name: str, sketches: list[str]) -> str:
        """A program that proposes these."""
        file = self.folder / name
        file.write_text(AGENT)
        file.chmod(0o755)
        for i, sketch in enumerate(sketches):
            text = split(wrong.text_of(self.name, wrong.WRONG[self.wrong[sketch]][1:]))[1]
            pathlib.Path(f"{file}.{i}.sketch").write_text(f"sketch {sketch} implements{text}")
        return f"--proposer=command:{file}"

    def propose(self, *options: str) -> subprocess.CompletedProcess:
        return subprocess.run([self.sketchc, "-q", "--propose", self.folder / "op.sketch", "-t", "openmp", "--json", "--repairs=0",
                               f"--seed={SEED}", *options], text=True, check=False, capture_output=True, env=dict(os.environ, OMP_WAIT_POLICY="passive"))

    def answer(self, sketch: str) -> dict:
        """What is said of it where it is the only answer; nothing is given out."""
        out = self.folder / f"{sketch}.out"
        done = self.propose(self.agent(sketch, [sketch]), "--alone", "--candidates=1", "-o", out)
        if done.returncode != NOT_VERIFIED or out.exists():
            return {"failure": f"status {done.returncode}, {out.name} {'is there' if out.exists() else 'is not'}", "outcome": done.stderr[-300:]}
        return json.loads(done.stdout[done.stdout.find("{"):])["candidates"][0]

    def search(self, part: list[str]) -> tuple[dict[str, dict], list[str]]:
        """Those that were candidates of a search, by their names, and what went wrong."""
        store = f"--store={self.folder / part[0]}.db"
        agent = self.agent(f"{part[0]}-on", part)
        done = self.propose(agent, "--strategy=islands", "--candidates=1", "--search-time=900", store, "-o", self.folder / "out")
        if done.returncode:
            return {}, [f"{self.name}: status {done.returncode}: {done.stderr[-300:]}"]
        end = json.loads(done.stdout)
        listed = subprocess.run([self.sketchc, "db", "query", "trials", "--json", store], text=True, check=True, capture_output=True).stdout
        trials = {re.match(r"sketch (\w+)", t["sketch"])[1]: t for t in map(json.loads, listed.splitlines()) if t["source"] == "command"}
        given = re.search(r"^sketch (\w+)", (self.folder / "out").read_text(), re.M)[1]
        problems = [f"{self.name}: {self.wrong[name]}: verified" for name, t in trials.items() if t["verified"]]
        if end["winner"] == "command" or given in self.wrong or not end["verified"]:
            problems.append(f"{self.name}: {end['winner']} won ({given}), verified {end['verified']}")
        if set(trials) != set(part):
            problems.append(f"{self.name}: of {part} only {sorted(trials)} were candidates")
        return trials, problems

    def check(self) -> tuple[list[Row], list[str]]:
        names, trials, problems, rows = list(self.wrong), {}, [], []
        for at in range(0, len(names), FIRST):
            found, more = self.search(names[at:at + FIRST])
            trials |= found
            problems += more
        for sketch, kind in self.wrong.items():
            answer = self.answer(sketch)
            if answer["failure"] not in FAULTS:
                problems.append(f"{self.name}: {kind}: {answer['failure']}: {answer['outcome']}")
            sizes, fault = CAUGHT.search(answer["outcome"]).groups() if CAUGHT.search(answer["outcome"]) else ("", answer["failure"])
            rows.append(Row(self.name, kind, fault, sizes, trials.get(sketch, {"status": "no candidate"})["status"]))
        return rows, problems


def main() -> int:
    sketchc = os.path.abspath(sys.argv[1])
    names = list(wrong.OPERATORS) if "--all" in sys.argv else daily.drawn(list(wrong.OPERATORS), len(wrong.OPERATORS))
    form = "| {} | {} | {} | {} | {} |" if "--table" in sys.argv else "{}: {}: {} at {}; in a search: {}"
    count, problems = 0, []
    print(f"--seed={SEED}")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            rows, found = Operator(sketchc, pathlib.Path(folder, name), name).check()
            print("\n".join(form.format(*row) for row in rows), flush=True)
            problems += found
            count += len(rows)
    print("\n".join(problems))
    print(f"figure: wrong_kinds_that_win_no_search {count} kinds, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
