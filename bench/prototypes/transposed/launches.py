#!/usr/bin/env python3
"""Durations of each launch of problems of level1.py, and what it moves through device memory and L2.

    launches.py REPO LIBSKETCHC ARTIFACTS FORM ID,...

Under ncu, at full size, clocks as they are; FORM: ptx or cu."""
import argparse
import csv
import io
import os
import pathlib
import subprocess
import sys

METRICS = ["gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_sectors_op_read.sum", "lts__t_sectors_op_write.sum",
           "smsp__inst_executed.sum", "launch__registers_per_thread", "launch__grid_size", "launch__block_size"]


def launch(repo, library, artifacts, form, only):
    sys.path.insert(0, f"{repo}/bench/kernelbench")
    sys.argv = sys.argv[:1]
    import dram
    dram.launch_all(argparse.Namespace(library=pathlib.Path(library), artifacts=pathlib.Path(artifacts), only=only, form=form, samples=1, seconds=100, compile=False, workers=1))


def main():
    if len(sys.argv) == 7:
        return launch(*sys.argv[1:6])
    report = f"/tmp/launches_{os.getpid()}.ncu-rep"
    command = ["ncu", "--metrics", ",".join(METRICS), "--profile-from-start", "off", "--clock-control", "none", "--export", report, "-f", sys.executable, __file__, *sys.argv[1:6], "run"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    print(*[line for line in done.stdout.splitlines() if line.startswith('{"id"') and "error" in line], sep="\n", end="")
    page = subprocess.run(["ncu", "--import", report, "--csv", "--page", "raw", "--print-units", "base"], capture_output=True, text=True)
    text = page.stdout.splitlines()
    start = next((i for i, line in enumerate(text) if line.startswith('"ID"')), None)
    if start is None:
        print(done.stdout[-1500:], done.stderr[-1500:], page.stdout[-500:], page.stderr[-500:])
        return 1
    rows = list(csv.reader(io.StringIO("\n".join(text[start:]))))
    at, name = [rows[0].index(m) for m in METRICS], rows[0].index("Kernel Name")
    print(f"{'kernel':50} {'us':>9} {'read':>7} {'written':>7} {'L2 read':>7} {'L2 wr.':>7} MB; million instructions, registers, blocks, threads")
    for row in rows[2:]:
        v = [float(row[i].replace(",", "")) for i in at]
        print(f"{row[name][-50:]:50} {v[0] * 1e-3:9.1f} {v[1] * 1e-6:7.0f} {v[2] * 1e-6:7.0f} {v[3] * 32e-6:7.0f} {v[4] * 32e-6:7.0f} {v[5] * 1e-6:6.1f} {v[6]:.0f} {v[7]:.0f} {v[8]:.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
