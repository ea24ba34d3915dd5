#!/usr/bin/env python3
"""CPU time of sketch to PTX for every example: user and system of the whole process, the best of N runs (on a
machine that does nothing else this is the time on the clock too). Fails if one is over the limit.

    bench/compile_time.py [--sketchc=build/sketchc] [--runs=5] [--limit=250] [FILE.sketch...]"""
import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def milliseconds(sketchc: str, file: pathlib.Path) -> float:
    with subprocess.Popen([sketchc, file, "-t", "nvptx", "-o", "/dev/null"], stderr=subprocess.DEVNULL) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{file}: sketchc ended with {child.returncode}")
    return 1e3 * (usage.ru_utime + usage.ru_stime)


def main() -> int:
    p = argparse.ArgumentParser()
    p.add_argument("--sketchc", default=str(ROOT / "build/sketchc"))
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--limit", type=float, default=250, help="milliseconds")
    p.add_argument("files", nargs="*", type=pathlib.Path)
    a = p.parse_args()
    files = a.files or sorted((ROOT / "examples").glob("*.sketch"))
    times = sorted(((min(milliseconds(a.sketchc, f) for _ in range(a.runs)), f.stem) for f in files), reverse=True)
    print("   ms  example")
    for ms, name in times:
        print(f"{ms:5.0f}  {name}")
    over = sum(ms > a.limit for ms, _ in times)
    median = times[len(times) // 2][0]
    print(f"{len(times)} examples, median {median:.0f} ms, slowest {times[0][0]:.0f} ms, {over} over {a.limit:.0f} ms")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
