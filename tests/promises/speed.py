#!/usr/bin/env python3
"""How fast sketchc compiles, and in how much memory.   speed.py SKETCHC SOURCE_ROOT llvm|no-llvm"""
import os
import pathlib
import sys
import tempfile

from common import LONG, Promises, environment, peak_mb, wall_ms

LINES = 10000


def long_sketch(lines: int) -> str:
    """A valid sketch of that many lines, of statements like those of real ones."""
    head = ["sketch long {", "symbols: N;", "tensors: X[N, 64]: f32; Y[N, 64]: f32;",
            "constexpr: T = 8;", "for i in range(ceil(N, T)):", "    x = alloc([T, 64])",
            "    load(X[i*T : (i+1)*T, 0:64] -> x)"]
    body = [f"    x = x * {k % 7 + 1} + {k % 5}.5" for k in range(lines - len(head) - 2)]
    return "\n".join(head + body + ["    store(x -> Y[i*T : (i+1)*T, 0:64])", "}"]) + "\n"


def main() -> int:
    sketchc, root, llvm = os.path.abspath(sys.argv[1]), *sys.argv[2:4]
    times = 100 if LONG else 15
    promises = Promises()
    with tempfile.TemporaryDirectory() as folder:
        env = environment(folder)
        rmsnorm = [sketchc, f"{root}/examples/rmsnorm.sketch", "-o", f"{folder}/out"]
        promises.hold_ms("rmsnorm_to_c", wall_ms([*rmsnorm, "-t", "openmp"], env, folder, times), 20)
        last = "openmp"
        if llvm == "llvm":
            promises.hold_ms("rmsnorm_to_ptx", wall_ms([*rmsnorm, "-t", "nvptx"], env, folder, times), 60)
            last = "nvptx"
        promises.hold("rmsnorm_peak_memory", peak_mb([*rmsnorm, "-t", last], env, folder), 200, "MB")
        path = pathlib.Path(folder) / "long.sketch"
        path.write_text(long_sketch(LINES))
        parse = [sketchc, path, "--emit=ast", "-o", f"{folder}/tree"]
        promises.hold_ms("parse_10000_lines", wall_ms(parse, env, folder, times), 100)
    return promises.end()


if __name__ == "__main__":
    sys.exit(main())
