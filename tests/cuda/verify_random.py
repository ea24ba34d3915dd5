#!/usr/bin/env python3
"""Random sketches (tests/random) verified through CUDA C on the CPU, with real data and with small integers bit for bit.

    verify_random.py SKETCHC DRIVER_FOLDER RANDOM_CHECK [--seed=1] [--count=40] [--arch=sm_80,sm_90a] [--jobs=N]"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import verify


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("sketchc")
    parser.add_argument("folder")
    parser.add_argument("random_check")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--arch", default="sm_80,sm_90a")
    parser.add_argument("--jobs", default="1")
    options = parser.parse_args(arguments)
    random_check, status = os.path.abspath(options.random_check), 0
    for arch in options.arch.split(","):
        with tempfile.TemporaryDirectory() as place:
            made = subprocess.run([random_check, "--seed=%d" % options.seed, "--count=%d" % options.count, "--jobs=" + options.jobs,
                                   "--artifacts=" + place, "--arch=" + arch], cwd=place, capture_output=True, text=True, check=False)
            files = sorted(str(f) for f in pathlib.Path(place).glob("*.cu.ska"))
            if made.returncode or not files:
                print(made.stdout[-2000:] + made.stderr[-2000:])
                status = 1
            for flags in ([], ["--exact"]) if files else ():
                print(arch, *flags)
                status |= verify.main([options.sketchc, options.folder, "--seed=%d" % options.seed, "--arch=" + arch, "--no-ragged",
                                       "--jobs=" + options.jobs, "--time-limit=120", *files, "--", *flags])
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
