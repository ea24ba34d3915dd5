#!/usr/bin/env python3
"""Operators and sketches written from docs/language.md alone: each verifies on the processor, and each compiles to PTX
that ptxas takes. Prints a table with processor seconds; times are told, never judged. What is judged is how much PTX there is: of so many
lines compiler and assembler together take about two seconds. The short run takes a sixth of the files each day.

    run.py verify|assemble SKETCHC FOLDER"""
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import daily

LIMIT = 100  # seconds of one program; only against one that hangs
SKIP = 77
MOST_LINES = 20000  # of PTX; the 18,224 of smoothed_cross_entropy took 1.5 s


def used() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def run(command: list) -> tuple[int, float, str]:
    began = used()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return 124, used() - began, f"not done in {LIMIT} s"
    return done.returncode, used() - began, done.stdout + done.stderr


def main() -> int:
    what, sketchc, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    if what == "assemble" and not shutil.which("ptxas"):
        print("skipped: no ptxas")
        return SKIP
    files = daily.drawn(sorted(f for kind in ("operators", "sketches") for f in (folder / kind).glob("*.sketch")), 8)
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        ptx, cubin = f"{scratch}/a.ptx", f"{scratch}/a.cubin"
        steps = {"verify": [[sketchc, "verify", "-q", "-t", "openmp"]],
                 "assemble": [[sketchc, "-q", "-t", "nvptx", "--arch=sm_90a", "-o", ptx],
                              ["ptxas", "-arch=sm_90a", ptx, "-o", cubin]]}[what]
        for file in files:
            row = []
            for number, step in enumerate(steps):
                status, seconds, text = run(step + [str(file)] if number == 0 else step)
                row.append(f"{status:3} {seconds:7.2f} s")
                if status:
                    failed += 1
                    row.append(text[:2000])
                    break
            lines = pathlib.Path(ptx).read_text().count("\n") if what == "assemble" else 0
            if lines:
                row.append(f"{lines:6} lines")
            if lines > MOST_LINES:
                failed += 1
                row.append(f"are more than {MOST_LINES}")
            print(f"{file.stem:28}", *row, flush=True)
    print(f"{len(files)} files, {failed} failed")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
