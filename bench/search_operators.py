#!/usr/bin/env python3
"""Searches without a model for each of bench/operators (or --operators) on this machine's processor, and what came of it: seconds,
winner, times of naive sketch and winner (measured in turns at the largest case), their geometric mean.

    search_operators.py SKETCHC [--operators=FOLDER] [--seconds=S] [--out=FOLDER] [--from=LINES] [OPERATOR...]

--from reads lines `OPERATOR STATUS SECONDS JSON` of a run elsewhere in place of searching."""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import time

OPERATORS = pathlib.Path(__file__).resolve().parent / "operators"


def search(sketchc: str, file: pathlib.Path, seconds: float, out: pathlib.Path | None) -> tuple[int, float, dict]:
    begin = time.monotonic()
    best = out / f"{file.stem}.best.sketch" if out else "/dev/null"
    done = subprocess.run([sketchc, "-q", "--propose", file, "-t", "openmp", "--json", f"--search-time={seconds}",
                           "-o", best], text=True, check=False, stdout=subprocess.PIPE)
    return done.returncode, time.monotonic() - begin, json.loads(done.stdout or "{}")


def read(lines: pathlib.Path) -> dict[str, tuple[int, float, dict]]:
    found = {}
    for line in lines.read_text().splitlines():
        words = line.split(None, 3)
        if len(words) == 4 and words[3].startswith("{"):
            result, _ = json.JSONDecoder().raw_decode(words[3])
            found[words[0]] = (int(words[1]), float(words[2]), result)
    return found


def table(results: dict[str, tuple[int, float, dict]]) -> list[str]:
    rows, speedups = ["| operator | seconds | naive ms | best ms | speedup | winner | verified |",
                      "| --- | ---: | ---: | ---: | ---: | --- | --- |"], []
    for name, (status, took, r) in sorted(results.items()):
        if status or not r:
            rows.append(f"| {name} | {took:.0f} | | | | status {status} | no |")
            continue
        speedups.append(r["naive_s"] / r["best_s"])
        rows.append(f"| {name} | {took:.0f} | {1e3 * r['naive_s']:.3f} | {1e3 * r['best_s']:.3f} | {speedups[-1]:.2f} | "
                    f"{r['winner']} | {'yes' if r['verified'] else 'no'} |")
    mean = math.exp(sum(map(math.log, speedups)) / len(speedups)) if speedups else 0
    fast = ", ".join(f"fast_{p:g} {sum(s >= p for s in speedups) / len(results):.2f}" for p in (1, 1.5, 2)) if results else ""
    rows += ["", f"{len(speedups)} of {len(results)} found; geometric mean {mean:.2f}, least {min(speedups, default=0):.2f}, {fast}, "
             f"slowest search {max((t for _, t, _ in results.values()), default=0):.0f} s"]
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sketchc")
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--operators", dest="folder", type=pathlib.Path, default=OPERATORS)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--from", dest="lines", type=pathlib.Path, action="append", default=[])
    args = parser.parse_args()
    results = {name: row for lines in args.lines for name, row in read(lines).items()}
    files = [] if args.lines else sorted(args.folder.glob("*.sketch"))
    for file in files:
        if not args.operators or file.stem in args.operators:
            results[file.stem] = search(args.sketchc, file, args.seconds, args.out)
    print("\n".join(table(results)))
    return 0 if all(status == 0 for status, _, _ in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
