#!/usr/bin/env python3
"""The limit of time of a search holds on an operator whose launches and reference take far longer, and where a program that is asked never answers: what runs then is
ended, with all that it started.

    limit.py SKETCHC

Processor time is what is measured, of the search and of everything that it started, which cannot be more than the time that it took on all processors; other work on the
machine makes it less."""
import ctypes
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

import common

LIMIT_S = 3
GRACE_S = 1.5 + 1  # the pool's, for judges to end what they run; and to start with
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: whose parent ends is this process's
NOT_VERIFIED = 3
# Tens of seconds for the naive form of the case, and minutes for the reference.
OPERATOR = """operator slow {
    symbols: M, N, K;
    tensors: A[M, K]: f32, B[K, N]: f32, C[M, N]: f32;
    C = softmax(A @ B, axis=1)
    case only { M=3000, N=3000, K=9000; A: normal(0, 1); B: normal(0, 1) }
}
"""


def wait_for_all() -> None:
    """Ends where nobody is left; one that the search has left running has meson's time."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def used() -> float:
    of = resource.getrusage(resource.RUSAGE_CHILDREN)
    return of.ru_utime + of.ru_stime


def check(sketchc: str, folder: pathlib.Path, options: list[str]) -> list[str]:
    before = used()
    done = subprocess.run([sketchc, "-q", "--propose", folder / "op.sketch", "-t", "openmp", f"--search-time={LIMIT_S}", *options], text=True,
                          check=False, capture_output=True)
    wait_for_all()
    spent, most = used() - before, (LIMIT_S + GRACE_S) * len(os.sched_getaffinity(0))
    print(f"{' '.join(options)}: {spent:.1f} s of processors, {most:.1f} s at most")
    problems = [] if spent <= most else [f"{options}: {spent:.1f} s of processors, {most:.1f} s at most"]
    # The compiler's own sketch, and that it was not verified.
    said = "given, not verified" in done.stderr and re.search(r"^sketch \w+ implements slow", done.stdout, re.M)
    if done.returncode != NOT_VERIFIED or not said:
        problems.append(f"{options}: status {done.returncode}: {done.stderr}{done.stdout}")
    return problems


def check_asked(sketchc: str, folder: pathlib.Path, options: list[str]) -> list[str]:
    """The program is ended with the search: else this waits for ever. A machine with other work needs more time to come to ask it, and to verify what is given out."""
    asked, agent = folder / "asked", folder / "agent"
    agent.write_text(f"#!/bin/sh\n: > {asked}\nexec sleep 1000000\n")
    agent.chmod(0o755)
    (folder / "small.sketch").write_text(common.OPERATOR)
    (folder / "sketchc.conf").write_text("timeout = 86400\n")
    asked.unlink(missing_ok=True)
    said = "the program was never asked"
    for seconds in (10, 40, 160):
        done = subprocess.run([sketchc, "-q", "--propose", folder / "small.sketch", "-t", "openmp", f"--proposer=command:{agent}", f"--search-time={seconds}",
                               *options], text=True, check=False, capture_output=True, cwd=folder)
        wait_for_all()
        if asked.exists():
            said = f"asked: status {done.returncode}: {done.stderr}{done.stdout}"
            if done.returncode == 0 and "sketch add_one" in done.stdout:
                return []
            if done.returncode != NOT_VERIFIED:
                break
    return [f"{options}: {said}"]


def main() -> int:
    sketchc = os.path.abspath(sys.argv[1])
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "op.sketch").write_text(OPERATOR)
        problems = check(sketchc, folder, []) + check(sketchc, folder, ["--workers=4"])
        problems += check_asked(sketchc, folder, ["--strategy=islands"]) + check_asked(sketchc, folder, [])
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
