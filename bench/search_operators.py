#!/usr/bin/env python3
"""Searches without a model for each of bench/operators (or --operators) on this machine's processor, and what came of it: seconds,
winner, times of naive sketch and winner (measured in turns at the largest case), their geometric mean.

    search_operators.py SKETCHC [--operators=FOLDER]... [--seconds=S] [--seed=N] [--jobs=N --cores=N] [--total=S] [--out=FOLDER]
                        [--from=LINES]... [OPERATOR...]

With --jobs, so many searches run side by side, each on --cores cores of its own. What has not begun after --total seconds is
left out and told. --out keeps the winners, lines.txt, lines `OPERATOR STATUS SECONDS JSON`, and table.md, written as they come;
the command repeated searches only for what lines.txt has no winner of. --from reads such lines in place of searching."""
import argparse
import json
import math
import os
import pathlib
import queue
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from proposing import propose

OPERATORS = pathlib.Path(__file__).resolve().parent / "operators"


def search(args, file: pathlib.Path, cores: list[int]) -> tuple[int, float, dict]:
    best = args.out / f"{file.stem}.best.sketch" if args.out else "/dev/null"
    options = ["-t", "openmp", f"--search-time={args.seconds}", f"--seed={args.seed}", *args.options.split()]
    before = ["taskset", "-c", ",".join(map(str, cores))] if cores else []
    status, took, result, said = propose(args.sketchc, file, options, best, before=before)
    if status:
        print(f"{file.stem}: {said}", file=sys.stderr)
    return status, took, result


def search_all(args, files: list[pathlib.Path], results: dict[str, tuple[int, float, dict]]) -> None:
    """On groups of cores that no two searches share. Lines are written as they come."""
    mine, groups, begin = sorted(os.sched_getaffinity(0)), queue.SimpleQueue(), time.monotonic()
    if args.jobs * args.cores > len(mine):
        sys.exit(f"{args.jobs} times {args.cores} cores: there are {len(mine)}")
    for i in range(args.jobs):
        groups.put(mine[i * args.cores:(i + 1) * args.cores])

    def one(file):
        group = groups.get()
        if not args.total or time.monotonic() - begin < args.total:
            results[file.stem] = status, took, result = search(args, file, group)
            if args.out:
                with open(args.out / "lines.txt", "a", encoding="utf-8") as lines:
                    lines.write(f"{file.stem} {status} {took:.2f} {json.dumps(result)}\n")
                (args.out / "table.md").write_text("\n".join(table(dict(results))) + "\n", encoding="utf-8")
        else:
            print(f"{file.stem}: not begun, the time was up", file=sys.stderr)
        groups.put(group)

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(one, files))


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
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cores", type=int, default=0)
    parser.add_argument("--total", type=float, default=0)
    parser.add_argument("--options", default="", help="more of sketchc's, in one word")
    parser.add_argument("--operators", dest="folders", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--from", dest="lines", type=pathlib.Path, action="append", default=[])
    args = parser.parse_intermixed_args()
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
    files = [f for folder in args.folders or [OPERATORS] for f in sorted(folder.glob("*.sketch"))]
    files = [f for f in files if not args.operators or f.stem in args.operators]
    if args.lines:
        results, files = {name: row for lines in args.lines for name, row in read(lines).items()}, []
    else:
        kept = args.out / "lines.txt" if args.out else None
        results = {name: row for name, row in read(kept).items() if not row[0]} if kept and kept.exists() else {}
        search_all(args, [f for f in files if f.stem not in results], results)
    print("\n".join(table(results)))
    return 0 if len(results) >= len(files) and all(status == 0 for status, _, _ in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
