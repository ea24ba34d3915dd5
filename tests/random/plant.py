#!/usr/bin/env python3
"""Plants each fault of passes/plant.h and shows that random programs find it.

    plant.py RANDOM_CHECK [--only N,...] [--cpu-seconds 300] [--parallel N] [--quick HINTS]

RANDOM_CHECK is tests/random/random_check of a build configured with -Dplant=-1, which takes the fault's
number from SKETCHC_PLANT. Each fault has to be found by the compiled OpenMP output or by the interpreter
after a pass, from seed 1 on, within the CPU time; without a fault nothing may be found. With --quick the
program that found a fault before, by the file HINTS (`fault check seed` lines), is tried alone first. Prints
a line for each and a figure; the status is 1 when one stays hidden."""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

# How a fault is looked for: the OpenMP output against the reference; the interpreter after every pass for
# all targets, or for one GPU alone, which is cheaper where only GPUs have what is wrong.
CHECKS = {"run": [], "passes": ["--passes"], "gpu": ["--passes", "--arch=sm_80"]}
# Number: what is wrong, and which checks are asked in turn.
FAULTS = {
    1: ("mask dropped from accesses past the end", ("run",)),
    2: ("mask of absent lanes dropped from stores", ("run",)),
    3: ("wrong stride of the first axis", ("run",)),
    4: ("trip count off by one", ("run",)),
    5: ("barrier missing", ("gpu",)),
    6: ("wrong identity of max", ("run",)),
    7: ("stale stage of a ring", ("gpu",)),
    8: ("operands of a subtraction swapped", ("run",)),
    9: ("presence ends one lane late", ("run",)),
    10: ("copies are not left to their owner", ("gpu",)),
    11: ("absent lanes not filled", ("run",)),
    12: ("chunks start one element late", ("run",)),
    13: ("aligned version without its guard", ("gpu",)),
    14: ("guard of the whole-row version too wide", ("run",)),
    15: ("arrays share storage while both are needed", ("run",)),
    16: ("a step of the butterfly missing", ("gpu",)),
    17: ("order of the grid's axes wrong", ("gpu",)),
    18: ("maps merged that read each other's other lanes", ("run", "gpu")),
    19: ("absent lanes counted as present", ("run",)),
    20: ("absent lanes take part in reductions", ("run",)),
}
BATCH = 32


def check(program, fault, name, seed, count):
    """(What the first failure says, or None; the CPU seconds.)"""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, f"--seed={seed}", f"--count={count}", "--jobs=1", "--most-failures=0", "--stop", f"--out={folder}"]
        child = subprocess.Popen(command + CHECKS[name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                 env=dict(os.environ, SKETCHC_PLANT=str(fault)))
        out = child.stdout.read()
        _, _, used = os.wait4(child.pid, 0)
    lines = [line for line in out.splitlines() if line.startswith("seed ")]
    return (lines[0] if lines else None), used.ru_utime + used.ru_stime


def search(program, fault, checks, limit, hint):
    """(What found it: check, seed, text; or None), CPU seconds, sketches."""
    spent, sketches = 0.0, 0
    if hint:
        found, used = check(program, fault, hint[0], hint[1], 1)
        spent, sketches = spent + used, sketches + 1
        if found:
            return (hint[0], hint[1], found), spent, sketches
    seed = 1
    while spent < limit:
        for name in checks:
            found, used = check(program, fault, name, seed, BATCH)
            spent += used
            if found:
                at = int(re.match(r"seed (\d+)", found)[1])
                return (name, at, found), spent, sketches + at - seed + 1
            sketches += BATCH
        seed += BATCH
    return None, spent, sketches


def read_hints(path):
    rows = [line.split() for line in open(path) if line.strip() and not line.startswith("#")] if path else []
    return {int(fault): (name, int(seed)) for fault, name, seed in rows}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--only", default="")
    parser.add_argument("--cpu-seconds", type=float, default=300)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--quick", default="")
    options = parser.parse_args()
    numbers = [int(n) for n in options.only.split(",") if n] or list(FAULTS)
    hints = read_hints(options.quick)
    # Without a fault the same programs must pass.
    clean = [check(options.program, 0, *hint, 1)[0] for hint in hints.values()] or \
            [check(options.program, 0, name, 1, BATCH)[0] for name in CHECKS]
    if any(clean):
        print("without a fault:", *[c for c in clean if c])
        return 1
    found_count = 0
    with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
        runs = {n: pool.submit(search, options.program, n, FAULTS[n][1], options.cpu_seconds, hints.get(n)) for n in numbers}
        for number, run in runs.items():
            found, seconds, sketches = run.result()
            found_count += found is not None
            how = f"found by {found[0]} with seed {found[1]}" if found else "NOT FOUND"
            print(f"{number:2} {FAULTS[number][0]}: {how}, {sketches} sketches, {seconds:.1f} CPU s"
                  f"{': ' + found[2][:160] if found else ''}", flush=True)
    print(f"figure: planted-pass-faults-found {found_count} of {len(numbers)}")
    return 0 if found_count == len(numbers) else 1


if __name__ == "__main__":
    sys.exit(main())
