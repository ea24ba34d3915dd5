#!/usr/bin/env python3
"""The f32 products of KernelBench level 1 on data of all spreads: time beside PyTorch in f32 (cuBLAS SGEMM, tf32 off), interleaved, and
the error's Frobenius norm against float64 beside SGEMM's.

    spreads.py LIBSKETCHC ARTIFACTS OUT.json [--older ARTIFACTS] [--only ID,...] [--case full] [--rounds 7] [--seconds 200]

Products split into halves are fast where the numbers of a row lie near each other; this shows what the others cost.

    uniform   between 0 and 1, as KernelBench does
    normal    of variance 1
    tiny      uniform, one number of one row of A is 1e-12
    softmax   A is the softmax along K of normal numbers times 10
    wide      of either sign, 2 to a power between -24 and 24 for each number by itself
    infinite  uniform, one number of A is an infinity

--older: artifacts of another state, timed in turn with these."""
import argparse
import json
import math
import pathlib
import statistics
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "kernelbench"))
import run as bench  # noqa: E402 (bench/kernelbench/run.py)
from kernel import Kernel  # noqa: E402
from level1 import PROBLEMS  # noqa: E402
from timing import in_turn  # noqa: E402

DATA = ("uniform", "normal", "tiny", "softmax", "wide", "infinite")


def uniform(*shape, dtype=torch.float32):
    return torch.rand(*shape, device="cuda", dtype=dtype)


def normal(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def wide(*shape, dtype=torch.float32):
    return (torch.randn(*shape, device="cuda").sign_() * torch.exp2(torch.rand(*shape, device="cuda") * 48 - 24)).to(dtype)


def inputs_of(number, make, sizes, data):
    bench.rand = {"normal": normal, "wide": wide}.get(data, uniform)
    torch.manual_seed(7)
    inputs = make(sizes, torch.float32)
    left = inputs["A"]
    along = max(d for d in range(left.dim()) if left.shape[d] == sizes.get("K", sizes.get("N")))
    if data == "softmax":
        soft = torch.softmax(torch.randn_like(left) * 10, along)
        left.copy_(torch.triu(soft) if number == 14 else torch.tril(soft) if number == 15 else soft)
    if data in ("tiny", "infinite"):
        left.view(-1)[0] = 1e-12 if data == "tiny" else math.inf
    return inputs


def problem(library, options, p, data):
    sizes, (make, reference) = p["cases"][options.case], bench.torch_of(p)
    inputs = inputs_of(p["id"], make, sizes, data)
    kernels, results = {}, {"sgemm": reference(*inputs.values()).contiguous()}
    for kind, folder in (("", options.artifacts), ("older_", options.older)):
        for form in bench.FORMS if folder else ():
            name = kind + form
            results[name] = torch.full_like(results["sgemm"], -7)
            kernels[name] = Kernel(library, library.read(folder / p["file"].replace(".sketch", f".{form}.ska")), sizes,
                                   {**inputs, "C": results[name]}, {})
    calls = {"sgemm": lambda: reference(*inputs.values()), **kernels}
    samples = in_turn(torch, calls, 0.01, options.rounds, 2)
    double = reference(*(t.double() for t in inputs.values()))
    norm = float(double[double.isfinite()].norm())
    entry = {"id": p["id"], "name": p["name"], "sizes": sizes, "data": data, "seconds": {}, "spread": {}, "error": {}, "odd": {}}
    for name, result in results.items():
        entry["seconds"][name] = statistics.median(samples[name])
        entry["spread"][name] = [min(samples[name]), max(samples[name])]
        fit = double.isfinite()
        entry["error"][name] = float((result.double() - double)[fit].norm()) / norm
        same = torch.where(fit, result.isfinite(), (result == double) | (result.isnan() & double.isnan()))
        entry["odd"][name] = int((~same).sum())  # where one is finite and the other is not
    for kernel in kernels.values():
        kernel.close()
    return entry


def main():
    parser = argparse.ArgumentParser()
    for name in ("library", "artifacts", "out"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--older", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--case", default="full")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=math.inf, help="what has not begun by then is left out and told")
    options = parser.parse_args()
    options.variant, options.drawn, options.matrix = "f32", 0, False
    torch.backends.cuda.matmul.allow_tf32 = False
    began = time.time()
    numbers = [int(n) for n in options.only.split(",")] if options.only else [n for n, p in PROBLEMS.items() if p["group"] == "matmul"]
    problems = bench.Run(options)
    problems.warm(numbers)
    entries, left = [], []
    for data in DATA:
        for number in numbers:
            if time.time() - began > options.seconds:
                left.append([number, data])
                continue
            torch.cuda.empty_cache()
            try:
                e = problem(problems.library, options, PROBLEMS[number], data)
            except Exception as error:  # told; the others go on
                print(number, data, repr(error)[:300], flush=True)
                left.append([number, data])
                continue
            entries.append(e)
            words = " ".join(f"{k} {v * 1e3:.3f}" for k, v in e["seconds"].items())
            wrong = {k: v for k, v in e["odd"].items() if v}
            ours = max(e["error"][f] for f in bench.FORMS)
            print(f"{number:3} {e['name']:24} {data:8} ms {words}; of sgemm's time {max(e['seconds'][f] for f in bench.FORMS) / e['seconds']['sgemm']:.2f}"
                  f" error {ours / e['error']['sgemm'] if e['error']['sgemm'] else math.nan:.2f} {wrong or ''}", flush=True)
    options.out.write_text(json.dumps({"format": "sketchc.spreads 1", "device": torch.cuda.get_device_name(), "torch": torch.__version__,
                                       "case": options.case, "left_out": left, "problems": entries}, indent=1) + "\n")
    print("left out:", left or "none", f"; {time.time() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
