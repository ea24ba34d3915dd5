#!/usr/bin/env python3
"""Plants each fault of passes/plant.h and shows that random programs find it.

    plant.py RANDOM_CHECK [--only N,...] [--daily] [--cpu-seconds 300] [--parallel N]

RANDOM_CHECK is tests/random/random_check_planted (or random_check of a build configured with -Dplant=-1), which
takes the fault's number from SKETCHC_PLANT. Every fault is looked for alike: programs biased toward what passes
get wrong, batch by batch from seed 1 on, under the interpreter before and after every pass, for a processor
and for a GPU; of every fourth batch the compiled OpenMP output, too. What is found has to be found within the CPU
time, and must not be found in the same program without the fault. Prints a
line for each and a figure; the status is 1 when one stays hidden."""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import daily

# How every fault is looked for, in turn, and in every how many batches: starting a C compiler costs the most.
CHECKS = {"processor": ["--passes", "--arch=x86-64-v3"], "gpu": ["--passes", "--arch=sm_80"], "openmp": []}
EVERY = {"processor": 1, "gpu": 1, "openmp": 4}  # batches
FAULTS = {
    1: "mask dropped from accesses past the end",
    2: "mask of absent lanes dropped from stores",
    3: "wrong stride of the first axis",
    4: "trip count off by one",
    5: "barrier missing",
    6: "wrong identity of max",
    7: "stale stage of a ring",
    8: "operands of a subtraction swapped",
    9: "presence ends one lane late",
    10: "copies are not left to their owner",
    11: "absent lanes not filled",
    12: "chunks start one element late",
    13: "aligned version without its guard",
    14: "guard of the whole-row version too wide",
    15: "arrays share storage while both are needed",
    16: "a step of the butterfly missing",
    17: "order of the grid's axes wrong",
    18: "maps merged that read each other's other lanes",
    19: "absent lanes counted as present",
    20: "absent lanes take part in reductions",
}
SLOW = {4, 14, 15, 19}  # take ten processor seconds and more
BATCH = 16


def check(program, fault, name, seed, count):
    """(What the first failure says, or None; the CPU seconds.)"""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--biased", f"--seed={seed}", f"--count={count}", "--jobs=1", "--most-failures=0", "--stop",
                   f"--out={folder}"]
        child = subprocess.Popen(command + CHECKS[name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                 env=dict(os.environ, SKETCHC_PLANT=str(fault), OMP_NUM_THREADS="1"))
        out = child.stdout.read()
        _, _, used = os.wait4(child.pid, 0)
    lines = [line for line in out.splitlines() if line.startswith("seed ")]
    return (lines[0] if lines else None), used.ru_utime + used.ru_stime


def search(program, fault, limit):
    """(What found it: check, seed, text; or None), CPU seconds, sketches."""
    spent, seed = 0.0, 1
    while spent < limit:
        for name in CHECKS:
            if seed // BATCH % EVERY[name]:
                continue
            found, used = check(program, fault, name, seed, BATCH)
            spent += used
            at = int(re.match(r"seed (\d+)", found)[1]) if found else None
            # A program that fails without the fault, too, shows nothing of it.
            if found and not check(program, 0, name, at, 1)[0]:
                return (name, at, found), spent, at
        seed += BATCH
    return None, spent, seed - 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--only", default="")
    parser.add_argument("--daily", action="store_true", help="a quarter of those that are found within seconds, by the day's seed")
    parser.add_argument("--cpu-seconds", type=float, default=300)
    parser.add_argument("--parallel", type=int, default=1)
    options = parser.parse_args()
    numbers = [int(n) for n in options.only.split(",") if n] or list(FAULTS)
    if options.daily:
        numbers = daily.drawn([n for n in FAULTS if n not in SLOW], 4)
    # Without a fault the same programs must pass.
    clean = [check(options.program, 0, name, 1, BATCH)[0] for name in CHECKS]
    if any(clean):
        print("without a fault:", *[c for c in clean if c])
        return 1
    found_count = 0
    with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
        runs = {n: pool.submit(search, options.program, n, options.cpu_seconds) for n in numbers}
        for number, run in runs.items():
            found, seconds, sketches = run.result()
            found_count += found is not None
            how = f"found by {found[0]} with seed {found[1]}" if found else "NOT FOUND"
            print(f"{number:2} {FAULTS[number]}: {how}, {sketches} sketches, {seconds:.1f} CPU s"
                  f"{': ' + found[2][:160] if found else ''}", flush=True)
    print(f"figure: planted-pass-faults-found {found_count} of {len(numbers)}")
    return 0 if found_count == len(numbers) else 1


if __name__ == "__main__":
    sys.exit(main())
