#!/usr/bin/env python3
"""Plants each fault of passes/plant.h and shows that random programs find it.

    plant.py RANDOM_CHECK [--only N,...] [--cpu-seconds 300]

RANDOM_CHECK is tests/random/random_check of a build configured with -Dplant=-1, which takes the fault's
number from SKETCHC_PLANT. Each fault has to be found by the compiled OpenMP output or by the interpreter
after a pass, within the CPU time; without a fault nothing may be found. Prints a line and a figure for
each; the status is 1 when one stays hidden. Status 77: the build has no faults to plant."""
import argparse
import os
import resource
import subprocess
import sys
import tempfile

# Number: what is wrong, and which check is asked first (both are, in turn).
FAULTS = {
    1: ("mask dropped from accesses past the end", "passes"),
    2: ("mask of absent lanes dropped from stores", "passes"),
    3: ("wrong stride of the first axis", "run"),
    4: ("trip count off by one", "run"),
    5: ("barrier missing", "passes"),
    6: ("wrong identity of max", "run"),
    7: ("stale stage of a ring", "passes"),
    8: ("operands of a subtraction swapped", "run"),
    9: ("presence ends one lane late", "run"),
    10: ("copies are not left to their owner", "passes"),
    11: ("absent lanes not filled", "run"),
    12: ("chunks start one element late", "run"),
    13: ("aligned version without its guard", "passes"),
    14: ("guard of the whole-row version too wide", "run"),
    15: ("arrays share storage while both are needed", "run"),
    16: ("a step of the butterfly missing", "passes"),
    17: ("order of the grid's axes wrong", "passes"),
    18: ("maps merged that read each other's other lanes", "passes"),
    19: ("absent lanes counted as present", "run"),
    20: ("absent lanes take part in reductions", "run"),
}
BATCH = 64


def cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def check(program, fault, mode, seed, count):
    """What the first failure says, or None."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, f"--seed={seed}", f"--count={count}", "--most-failures=0", f"--out={folder}"]
        done = subprocess.run(command + (["--passes"] if mode == "passes" else []), capture_output=True, text=True,
                              env=dict(os.environ, SKETCHC_PLANT=str(fault)))
    lines = [line for line in done.stdout.splitlines() if line.startswith("seed ")]
    return lines[0] if lines else None


def search(program, fault, first_mode, limit):
    start, seed = cpu_of_children(), 1
    while cpu_of_children() - start < limit:
        for mode in (first_mode, "run" if first_mode == "passes" else "passes"):
            found = check(program, fault, mode, seed, BATCH)
            if found:
                return found, cpu_of_children() - start
        seed += BATCH
    return None, cpu_of_children() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--only", default="")
    parser.add_argument("--cpu-seconds", type=float, default=300)
    options = parser.parse_args()
    numbers = [int(n) for n in options.only.split(",") if n] or list(FAULTS)
    clean = [check(options.program, 0, mode, 1, BATCH) for mode in ("run", "passes")]
    if any(clean):
        print("without a fault:", *[c for c in clean if c])
        return 1
    found_count = 0
    for number in numbers:
        what, mode = FAULTS[number]
        found, seconds = search(options.program, number, mode, options.cpu_seconds)
        found_count += found is not None
        print(f"{number:2} {what}: {'found' if found else 'NOT FOUND'} in {seconds:.0f} CPU s: {found}", flush=True)
    print(f"figure: planted-pass-faults-found {found_count} of {len(numbers)}")
    return 0 if found_count == len(numbers) else 1


if __name__ == "__main__":
    sys.exit(main())
