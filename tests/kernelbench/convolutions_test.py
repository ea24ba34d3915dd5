#!/usr/bin/env python3
"""Convolutions that are none of the problems: what bench/kernelbench/convolutions.py writes for them is verified on the processor.

    convolutions_test.py SKETCHC KERNELBENCH_FOLDER"""
import pathlib
import subprocess
import sys
import tempfile


def main():
    sketchc, folder = sys.argv[1:3]
    sys.path.insert(0, folder)
    from convolutions import Convolution
    # Marks of rows that f16 does not hold, along one strided axis; channels that are no multiple of 8 and more than a step takes.
    marked = Convolution("marked", 1, 4, 3, stride=2, results=32)
    uneven = Convolution("uneven", 2, 100, 3, padding=1, results=32)
    bad = [] if "load(G[o, :, 0:104] -> f, pad=0)" in uneven.sketch() else ["columns that nothing sets"]
    with tempfile.TemporaryDirectory() as name:
        for c, sizes, data in ((marked, "B=1, C=4, L=4200, O=5", "X: normal(0, 20)"), (uneven, "B=1, C=100, H=5, W=7, O=3", "X: uniform(0, 1)")):
            file = pathlib.Path(name) / f"{c.name}.sketch"
            file.write_text(f"operator {c.name} {{\n{c.head()}\n\n{c.equation()}\n\n    case small {{ {sizes}; {data}; F: uniform(-1, 1) }}\n}}\n{c.sketch()}")
            done = subprocess.run([sketchc, "verify", file, "-t", "openmp", "--no-ragged", "-q"], capture_output=True, text=True)
            if done.returncode:
                bad.append(f"{c.name}: status {done.returncode}\n{done.stdout[-800:]}{done.stderr[-800:]}")
    print("\n".join(bad))
    return bool(bad)


sys.exit(main())
