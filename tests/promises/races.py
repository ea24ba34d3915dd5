#!/usr/bin/env python3
"""No race in the OpenMP output: ThreadSanitizer watches it run.

    races.py SKETCHC RANDOM_PRINT EXAMPLES [--long]

The C of examples, at their case `small`, and of random sketches is compiled by clang with -fsanitize=thread
and run by `sketchc verify` on four threads; LLVM's OpenMP runtime tells the sanitizer of its
synchronisation through archer. First a sketch whose claim unique=true is false shows that a race is reported.
Status 77: clang, its sanitizer or LLVM's OpenMP runtime is missing."""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

RACE = """operator sums {
    symbols: M;
    tensors: X[M]: f32, Y[7]: f32;
    Y = Y + 0 * sum(X, axis=0)
    case small { M=4000; X: normal(0, 1) }
}

sketch sums_that_meet implements sums {
    symbols: M;
    tensors: X[M]: f32, Y[7]: f32;
    @llm_hint("parallel", "coreidx")
    for i in range(M):
        x = alloc([1])
        load(X[i:i+1] -> x, pad=0)
        store(x -> Y[i % 7:i % 7 + 1], unique=true)
}
"""
# One for each way of sharing: rows, tiles, grids of two axes, updates in memory, workspaces, scans, products.
SHORT = ("scale", "softmax_tiled", "sum_axis0", "scatter_add", "histogram", "batch_norm_train", "cumsum", "matmul_f16")


def tools():
    """The compiler, its sanitizer's library and archer; or what is missing."""
    for clang in ("clang-22", "clang"):
        path = shutil.which(clang)
        if not path:
            continue
        folder = pathlib.Path(path).resolve().parent.parent / "lib"
        archer = folder / "libarcher.so"
        sanitizer = sorted(folder.glob("clang/*/lib/*/libclang_rt.tsan-x86_64.so")) + sorted(folder.glob("clang/*/lib/*/libclang_rt.tsan.so"))
        if archer.exists() and sanitizer:
            return path, sanitizer[0], archer
    return None


def verify(sketchc, found, sketch, folder, options):
    clang, sanitizer, archer = found
    env = dict(os.environ, CC=f"{clang} -fsanitize=thread -shared-libsan", LD_PRELOAD=str(sanitizer), OMP_TOOL_LIBRARIES=str(archer),
               TSAN_OPTIONS=f"exitcode=66 ignore_noninstrumented_modules=1 log_path={folder}/race", OMP_NUM_THREADS="4", XDG_CACHE_HOME=folder)
    return subprocess.run([sketchc, "verify", "-t", "openmp", "-q", sketch, "--no-ragged", "--json", *options], env=env,
                          capture_output=True, text=True, timeout=280)


def races(folder):
    """What the processes of the last run reported, wherever the kernel ran."""
    found = [path.read_text(errors="replace") for path in pathlib.Path(folder).glob("race.*[0-9]")]
    for path in pathlib.Path(folder).glob("race.*[0-9]"):
        path.unlink()
    return [text for text in found if "ThreadSanitizer" in text]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sketchc")
    parser.add_argument("random_print")
    parser.add_argument("examples", type=pathlib.Path)
    parser.add_argument("--long", action="store_true")
    options = parser.parse_args()
    found = tools()
    if not found:
        print("needs clang-22, libclang-rt-22-dev, libomp-22-dev")
        return 77
    bad = watched = 0
    with tempfile.TemporaryDirectory() as folder:
        planted = pathlib.Path(folder, "race.sketch")
        planted.write_text(RACE)
        done = verify(options.sketchc, found, planted, folder, [])
        if not races(folder):
            print("the planted race is not reported:", done.stdout[-500:], done.stderr[-500:])
            return 1
        names = sorted(p.stem for p in options.examples.glob("*.sketch")) if options.long else SHORT
        for name in names:
            done = verify(options.sketchc, found, options.examples / f"{name}.sketch", folder, ["--case=small"])
            watched += 1
            reports = races(folder)
            if done.returncode or reports:
                bad += 1
                print(f"{name}: status {done.returncode}: {done.stdout[-1500:]} {done.stderr[-300:]}", *reports)
        # What a random sketch gives is judged elsewhere; here it has to run and not to race.
        for seed in range(1, 101 if options.long else 6):
            sketch = pathlib.Path(folder, f"random{seed}.sketch")
            sketch.write_text(subprocess.run([options.random_print, str(seed)], capture_output=True, text=True, check=True).stdout)
            done = verify(options.sketchc, found, sketch, folder, [])
            ran = re.search(r'"status":\s*"ok"', done.stdout) is not None
            watched += ran
            if races(folder):
                bad += 1
                print(f"random sketch {seed}: {done.stdout[-1500:]} {done.stderr[-300:]}")
    print(f"figure: race-free-openmp {watched - bad} of {watched} sketches under ThreadSanitizer, the planted race reported")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
