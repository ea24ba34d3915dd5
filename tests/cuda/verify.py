#!/usr/bin/env python3
"""Sketches verified through CUDA C on the CPU (README.md): `sketchc verify -t cuda` with a driver that is no GPU's.

    verify.py SKETCHC DRIVER_FOLDER [--arch=sm_80,sm_90a] [--seed=N] [--max-bytes=N] [--jobs=N] [-v] FILE...
              [-- FLAGS OF SKETCHC]

FILE may be followed by sizes, FILE:M=3,N=77 (then alone these are verified), or be an artifact. A line each for what fails, with the command that runs it again; with -v one for each file.
A folder stands for the sketches in it. --sample=K/N: of the files every N-th, from the K-th on;
--sample=day/N: every N-th, others each day (tests/daily.py)."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import daily

REFUSED = ("error[E0723]", "error[E0728]")  # the compiler says that it cannot, which is no wrong result
HERE = pathlib.Path(__file__).resolve().parent


def environment(folder, seed, plant=None):
    env = dict(os.environ, LD_LIBRARY_PATH=str(folder), PATH="%s:%s" % (HERE, os.environ["PATH"]), CUDA_CPU_SEED=str(seed))
    env.pop("CUDA_CPU_PLANT", None)
    if plant:
        env["CUDA_CPU_PLANT"] = plant
    return env


def command(options, arch, path):
    path, _, sizes = str(path).partition(":")
    compiled = str(path).endswith(".ska")  # its target and architecture stand in it
    words = [options.sketchc, "verify", *([] if compiled else ["-t", "cuda"]), "-q", "--no-cache", "--time-limit=%d" % options.time_limit, path]
    if path.endswith(".sketch"):
        words.append("--arch=" + arch)
    if sizes or options.no_ragged:
        words.append("--no-ragged")
    words += ["-D" + x for x in sizes.split(",")] if sizes else ["--max-bytes=%d" % options.max_bytes]
    return words + options.flags


def verify(options, arch, path, plant=None):
    """None when all is well, "refused" by the compiler, "large" where no case has so few bytes, "undecided" where only near ties spoil it,
    else what is wrong."""
    done = subprocess.run(command(options, arch, path), capture_output=True, text=True, errors="replace",
                          env=environment(options.folder, options.seed, plant), check=False)
    if done.returncode == 0:
        return None
    lines = [x for x in (done.stdout + done.stderr).splitlines() if x and not re.match(r"ok|skipped", x)]
    if any(x in done.stdout + done.stderr for x in REFUSED):
        return "refused"
    if "no case was run: its " in done.stdout + done.stderr:
        return "large"
    failures = [x for x in lines if re.match(r"\w+ +\S.*  \w+: ", x)]
    if failures and all("  undecided: " in x for x in failures):
        return "undecided"
    return "status %d: %s" % (done.returncode, " / ".join(lines[:3])[:600])


def has_operator(path):
    """Some have theirs in a file of text IR, which sketchc does not read."""
    return re.search(r"(?m)^(?:sketch \w+ implements|operator )", path.read_text(encoding="utf-8")) is not None


def files_of(names, sample):
    files = []
    for name in map(pathlib.Path, names):
        files += sorted(f for f in name.glob("*.sketch") if has_operator(f)) if name.is_dir() else [name]
    if sample:
        first, step = sample.split("/")
        files = daily.drawn(files, int(step)) if first == "day" else files[int(first) - 1::int(step)]
    return files


def options_of(arguments):
    flags = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, flags = arguments[:at], arguments[at + 1:]
    parser = argparse.ArgumentParser()
    parser.add_argument("sketchc")
    parser.add_argument("folder")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--arch", default="sm_80,sm_90a")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-bytes", type=int, default=100000)
    parser.add_argument("--time-limit", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--sample")
    parser.add_argument("--no-ragged", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args(arguments)
    options.flags = flags
    options.sketchc = os.path.abspath(options.sketchc)
    options.folder = os.path.abspath(options.folder)
    return options


def main(arguments):
    options = options_of(arguments)
    jobs = [(arch, path) for path in files_of(options.files, options.sample) for arch in options.arch.split(",")]
    counts = dict.fromkeys(["ok", "refused", "large", "undecided", "wrong"], 0)

    def one(job):
        begin = time.monotonic()
        return job, verify(options, *job), time.monotonic() - begin

    with tempfile.TemporaryDirectory() as cache, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        os.environ["CUDA_CPU_CACHE"] = cache
        for (arch, path), wrong, seconds in pool.map(one, jobs):
            word = wrong if wrong in counts else "wrong" if wrong else "ok"
            counts[word] += 1
            if options.verbose or word in ("refused", "large", "undecided"):
                print("%s %s: %s (%.1f s)" % (path.name, arch, word, seconds), flush=True)
            if word == "wrong":
                print("%s\n    tests/cuda/verify.py %s %s --seed=%d --arch=%s --max-bytes=%d %s" %
                      (wrong, options.sketchc, options.folder, options.seed, arch, options.max_bytes, path), flush=True)
    print("figure: cuda-on-cpu " + ", ".join("%d %s" % (counts[x], x) for x in counts))
    return 0 if counts["ok"] and not counts["wrong"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
