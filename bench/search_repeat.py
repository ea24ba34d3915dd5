#!/usr/bin/env python3
"""Searches twice from one seed for each operator and compares: all candidates in order with what came of them, winner and its file.

    search_repeat.py SKETCHC [--seed=1] [--candidates=24] [--workers=2] [--out=FILE.json] OPERATOR.sketch...

The second search has the store of the first, as times of measurement do not repeat; no limit of time ends either. What it proposes
is made anew. Exit status 1 where something differs."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from proposing import propose

SAME = ("number", "hash", "source", "status", "seconds")  # whether all cases were verified is known at the end of the first


def trials(sketchc: str, store: pathlib.Path) -> list[list]:
    """Those of each search in the store, in order."""
    done = subprocess.run([sketchc, "db", "query", "trials", f"--store={store}", "--json"], capture_output=True, text=True, check=True)
    found: dict[int, list] = {}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        found.setdefault(row["run"], []).append([row[key] for key in SAME])
    return [found[run] for run in sorted(found)]


def twice(args, operator: pathlib.Path, folder: pathlib.Path) -> dict:
    store = folder / f"{operator.stem}.db"
    options = ["-t", args.target, f"--seed={args.seed}", f"--candidates={args.candidates}", f"--workers={args.workers}",
               "--search-time=3600", f"--store={store}"]
    ends, files = [], []
    for name in ("first", "second"):
        best = folder / f"{operator.stem}.{name}.sketch"
        status, seconds, result, said = propose(args.sketchc, operator, options, best)
        if status:
            return {"same": False, "text": said[-2000:]}
        result.pop("seconds", None)
        ends.append({"took_s": round(seconds, 2), **result})
        files.append(best.read_text(encoding="utf-8"))
    first, second = trials(args.sketchc, store)
    told = [{key: end.get(key) for key in ("winner", "case", "naive_s", "best_s", "verified")} for end in ends]
    return {"same": first == second and files[0] == files[1] and told[0] == told[1], "candidates": len(first), "ends": ends,
            "trials": [dict(zip(SAME, row)) for row in first], "differs_at": next((i for i, (a, b) in enumerate(zip(first, second)) if a != b), None)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sketchc")
    parser.add_argument("operators", nargs="+", type=pathlib.Path)
    parser.add_argument("--target", default="openmp")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--candidates", type=int, default=24)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_intermixed_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for operator in args.operators:
            r = results[operator.stem] = twice(args, operator, pathlib.Path(folder))
            print(f"{operator.stem}: {r.get('candidates', 0)} candidates, " +
                  (f"winner {r['ends'][0]['winner']}, the same twice" if r["same"] else f"differs {r}"), flush=True)
            if args.out:
                args.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"{sum(r['same'] for r in results.values())} of {len(results)} the same twice")
    return 0 if all(r["same"] for r in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
