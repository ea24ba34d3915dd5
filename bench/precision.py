#!/usr/bin/env python3
"""How exact the f32 products of KernelBench level 1 are: the error's Frobenius norm over the result's, against products of the
same numbers in float64, beside that of PyTorch in f32 (cuBLAS SGEMM, tf32 off).

    precision.py LIBSKETCHC ARTIFACTS OUT.json [--only ID,...] [--case full] [--seconds 60]

ARTIFACTS holds 001_square_matmul.ptx.ska and .cu.ska (bench/gpu_artifacts.sh). Numbers are drawn three ways:

    uniform   between 0 and 1, as KernelBench does
    normal    of variance 1: sums cancel
    wide      normal, times 2 to a power between -24 and 24 for each number by itself: most of a sum is in few of its terms

The norm of a sum of K terms says what is typical; `worst` is the largest error over |A||B| of its element, which f32's bound of
2 sqrt(K) 2^-24 is for. It is told for the problems of two axes whose operands are not cut."""
import argparse
import json
import math
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "kernelbench"))
import run as bench  # noqa: E402 (bench/kernelbench/run.py)
from kernel import Kernel  # noqa: E402
from level1 import PROBLEMS  # noqa: E402

PLAIN = (1, 2, 6, 7, 8, 9, 13)  # A [M, K] times B [K, N]
SPREAD = 24


def wide(*shape, dtype=torch.float32):
    power = torch.rand(*shape, device="cuda") * (2 * SPREAD) - SPREAD
    return (torch.randn(*shape, device="cuda") * torch.exp2(power)).to(dtype)


DRAWN = {"uniform": lambda *shape, dtype=torch.float32: torch.rand(*shape, device="cuda", dtype=dtype),
         "normal": lambda *shape, dtype=torch.float32: torch.randn(*shape, device="cuda", dtype=dtype), "wide": wide}


def error(got, exact, bound=None):
    """(Frobenius norm of the difference over that of the result, the largest difference over `bound`)."""
    apart = got.double().sub_(exact)
    relative = float(apart.norm() / exact.norm())
    worst = float((apart.abs_() / bound).nan_to_num_(0).max()) if bound is not None else None
    return relative, worst


def problem(library, options, p, draw):
    sizes, (make, reference) = p["cases"][options.case], bench.torch_of(p)
    torch.manual_seed(p["id"])
    bench.rand = DRAWN[draw]
    inputs = make(sizes, torch.float32)
    entry = {"id": p["id"], "name": p["name"], "case": options.case, "sizes": sizes, "data": draw, "products": {}, "error": {}, "worst": {}}
    results = {"sgemm": reference(*inputs.values()).contiguous()}
    for form in bench.FORMS:
        output = torch.full_like(results["sgemm"], float("nan"))
        kernel = Kernel(library, library.read(options.artifacts / p["file"].replace(".sketch", f".{form}.ska")), sizes, {**inputs, "C": output}, {})
        entry["products"][form] = kernel.info.get("products", "")
        kernel()
        torch.cuda.synchronize()
        kernel.close()
        results[form] = output
    double = [t.double() for t in inputs.values()]
    del inputs
    exact = reference(*double)
    bound = torch.matmul(*(t.abs_() for t in double)) * (2 * math.sqrt(sizes["K"]) * 2 ** -24) if p["id"] in PLAIN else None
    del double
    for name, result in results.items():
        entry["error"][name], entry["worst"][name] = error(result, exact, bound)
    return entry


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("artifacts", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--case", default="full")
    parser.add_argument("--seconds", type=float, default=math.inf, help="what has not begun by then is left out and told")
    options = parser.parse_args()
    options.variant, options.drawn, options.matrix = "f32", 0, False
    torch.backends.cuda.matmul.allow_tf32 = False
    began = time.time()
    numbers = [int(n) for n in options.only.split(",")] if options.only else [n for n, p in PROBLEMS.items() if p["group"] == "matmul"]
    problems = bench.Run(options)
    problems.warm(numbers)
    entries, left, worse = [], [], []
    for number in numbers:
        for draw in DRAWN:
            if time.time() - began > options.seconds:
                left.append([number, draw])
                continue
            e = problem(problems.library, options, PROBLEMS[number], draw)
            torch.cuda.empty_cache()
            entries.append(e)
            share = max(e["error"][f] for f in bench.FORMS) / e["error"]["sgemm"]
            if not share <= 1:
                worse.append([e["name"], draw, round(share, 2)])
            words = " ".join(f"{k} {v:.3e}" for k, v in e["error"].items())
            bounds = "" if e["worst"]["ptx"] is None else " of the bound " + " ".join(f"{k} {v:.3f}" for k, v in e["worst"].items())
            print(f"{number:3} {e['name']:24} {draw:8} {words} of sgemm's {share:.3f}{bounds} ({e['products']['ptx']})", flush=True)
    options.out.write_text(json.dumps({"format": "sketchc.precision 1", "device": torch.cuda.get_device_name(), "torch": torch.__version__,
                                       "case": options.case, "left_out": left, "problems": entries}, indent=1) + "\n")
    print("larger than sgemm's:", worse or "none", "; left out for time:", left or "none", f"; {time.time() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
