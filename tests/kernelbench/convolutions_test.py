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
    import convolutions
    from convolutions import Convolution
    narrow, convolutions.NARROW = convolutions.NARROW, ()  # tiles of rows, however short these are
    # Marks of rows that f16 does not hold, along one strided axis; channels that are no multiple of 8 and more than a step takes.
    marked = Convolution("marked", 1, 4, 3, stride=2, results=32)
    uneven = Convolution("uneven", 2, 100, 3, padding=1, results=32)
    # Marks of rows in groups, some of them set; several taps an iteration; columns that hold the taps of two axes; tiles no wider than rows.
    grouped = Convolution("grouped", 2, 5, 3, padding=1, results=32)
    sixteen = Convolution("sixteen", 2, 16, (3, 5), results=32)
    several = Convolution("several", 1, 16, 15, dilation=2, results=32)
    # Neighbouring columns that are one row of a box: taps that fill it and taps that do not, in two groups; zeros beside the rows; many results;
    # dilated ones; channels for which there are three forms.
    apart = Convolution("apart", 2, 16, (3, 5), padding=(1, 2), dilation=(1, 3), results=64)
    wider = Convolution("wider", 2, 32, (2, 3), results=64)
    rows = Convolution("rows", 2, 16, (3, 5), padding=(1, 2), results=128)
    whole = Convolution("whole", 3, 16, (2, 1, 4), results=32, sizes=(8, 8, 80))
    joined = Convolution("joined", 3, 3, 3, results=16, sizes=(8, 8, 8))
    # Tiles of positions that cross rows, of planes: padded ones, and of rows that are none of a column's taps.
    crossing = Convolution("crossing", 3, 3, (3, 5, 7), padding=(0, 2, 1), results=16, sizes=(8, 56, 16))
    short = Convolution("short", 2, 32, 3, results=32, sizes=(8, 8))
    # More rows and tiles than the blocks of the last launch that stand together look at; phases of a transposed one; two outer axes.
    dealt = Convolution("dealt", 2, 4, 3, results=32)
    phased = Convolution("phased", 1, 4, 3, stride=2, transposed=True, results=32)
    deep = Convolution("deep", 3, 4, (2, 3, 3), stride=2, transposed=True, results=16, sizes=(8, 8, 8))
    convolutions.NARROW = narrow
    # Rows that tiles fit badly, as planes: channels of two depths; columns of zeros between rows that padding and dilation ask for; transposed, also with more
    # padding than its taps reach, which leaves columns out; one that has forms for few channels.
    planes = Convolution("planes", 2, 64, 3, results=128)
    padded = Convolution("padded", 2, 32, (3, 5), padding=(2, 3), dilation=(1, 2), results=64)
    turned = Convolution("turned", 2, 32, (3, 7), padding=(1, 3), transposed=True, results=32)
    cropped = Convolution("cropped", 2, 20, 3, padding=(1, 3), transposed=True, results=32)
    fewer = Convolution("fewer", 2, 24, 3, results=128)
    crossed = (planes, padded, turned, cropped, fewer)
    forms = {"planes of rows": [len(c.planes) for c in crossed + (short, rows, uneven, dealt)] == [1] * 5 + [0] * 4, "columns between rows": [c.planes[0].between for c in crossed] == [0, 3, 3, 0, 0],
             "depths": [[d for _, _, d in c.by_channels()] for c in (planes, padded, fewer)] == [[16, 32, 64], [32], [32]],
             "products of an iteration": several.at_once(16) == 3, "few channels": [[f.width for f in c.few] for c in (rows, whole, apart, wider, several, uneven)] == [[8, 16]] * 4 + [[]] * 2,
             "rows apart": apart.few[0].apart and not rows.few[0].apart, "columns of a tile": [c for _, c in rows.by_results()] == ["LM", "SM", "WM"], "joined axes": len(joined.joined) == 2 and len(grouped.joined) == 1,
             "positions": short.positions == 64 and sixteen.positions == 128, "planes": joined.plane and crossing.plane and not short.plane}
    bad = [what for what, right in forms.items() if not right]
    bad += [] if "load(G[o, :, 0:112] -> f, pad=0)" in uneven.sketch() else ["columns that nothing sets"]
    with tempfile.TemporaryDirectory() as name:
        for c, sizes, data in ((marked, "B=1, C=4, L=4200, O=5", "X: normal(0, 20)"), (marked, "B=1, C=4, L=70, O=5", "X: uniform(0, 1)"), (marked, "B=1, C=2, L=70, O=5", "X: uniform(0, 1)"), (uneven, "B=1, C=100, H=5, W=7, O=3", "X: uniform(0, 1)"),
                               (grouped, "B=1, C=3, H=70, W=9, O=3", "X: normal(0, 20)"), (sixteen, "B=1, C=13, H=5, W=9, O=3", "X: uniform(0, 1)"),
                               (several, "B=1, C=13, L=50, O=3", "X: uniform(0, 1)"),
                               (apart, "B=1, C=13, H=6, W=9, O=35", "X: normal(0, 20)"), (apart, "B=1, C=7, H=5, W=40, O=3", "X: uniform(0, 1)"),
                               (wider, "B=1, C=6, H=3, W=40, O=3", "X: uniform(0, 1)"), (wider, "B=1, C=11, H=4, W=9, O=130", "X: uniform(0, 1)"), (wider, "B=1, C=19, H=3, W=40, O=3", "X: normal(0, 20)"), 
                               (rows, "B=1, C=7, H=5, W=9, O=11", "X: normal(0, 20)"),
                               (rows, "B=1, C=13, H=6, W=9, O=35", "X: normal(0, 20)"), (rows, "B=2, C=16, H=5, W=140, O=67", "X: uniform(0, 1)"), (whole, "B=1, C=5, D=3, H=3, W=70, O=33", "X: uniform(0, 1)"),
                               (joined, "B=1, C=3, D=4, H=5, W=9, O=3", "X: normal(0, 20)"), (crossing, "B=1, C=3, D=4, H=30, W=11, O=3", "X: normal(0, 20)"),
                               (crossing, "B=2, C=2, D=3, H=9, W=5, O=3", "X: uniform(0, 1)"), (short, "B=1, C=30, H=9, W=7, O=3", "X: uniform(0, 1)"), (dealt, "B=1, C=3, H=280, W=5, O=3", "X: normal(0, 20)"),
                               (phased, "B=1, C=4, L=9000, O=5", "X: normal(0, 20)"), (deep, "B=1, C=3, D=3, H=140, W=5, O=3", "X: normal(0, 20)"),
                               (planes, "B=2, C=37, H=7, W=11, O=70", "X: uniform(0, 1)"), (planes, "B=1, C=21, H=30, W=9, O=5", "X: normal(0, 20)"), (padded, "B=2, C=19, H=9, W=40, O=35", "X: uniform(0, 1)"),
                               (turned, "B=2, C=13, H=9, W=20, O=3", "X: uniform(0, 1)"), (cropped, "B=2, C=13, H=9, W=20, O=3", "X: uniform(0, 1)"), (fewer, "B=2, C=7, H=9, W=20, O=67", "X: uniform(0, 1)"), (fewer, "B=2, C=19, H=9, W=20, O=67", "X: uniform(0, 1)")):
            file = pathlib.Path(name) / f"{c.name}.sketch"
            file.write_text(f"operator {c.name} {{\n{c.head()}\n\n{c.equation()}\n\n    case small {{ {sizes}; {data}; F: uniform(-1, 1) }}\n}}\n{c.sketch()}")
            done = subprocess.run([sketchc, "verify", file, "-t", "openmp", "--no-ragged", "-q"], capture_output=True, text=True)
            if c in (rows, whole, wider):  # the copy engine brings them
                made = subprocess.run([sketchc, file, "-t", "cuda", "--arch=sm_90a", "-q", "-o", "-"], capture_output=True, text=True).stdout
                bad += [f"{c.name}: no map of {f.input} joins rows" for f in c.few if f"tma_load(&{f.input}_box" not in made or f"x{f.row}_joined4, " not in made]
            if c in crossed:  # the copy engine brings what crosses rows, too
                made = subprocess.run([sketchc, file, "-t", "cuda", "--arch=sm_90a", "-q", "-o", "-"], capture_output=True, text=True).stdout
                bad += [] if "tma_load(&XN_box" in made else [f"{c.name}: no tiles that cross rows by the copy engine"]
            if done.returncode:
                bad.append(f"{c.name}: status {done.returncode}\n{done.stdout[-800:]}{done.stderr[-800:]}")
    print("\n".join(bad))
    return bool(bad)


sys.exit(main())
