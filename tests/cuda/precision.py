#!/usr/bin/env python3
"""How exact split products of f32 are, on the CPU: the error's Frobenius norm over the result's, against float64, at most a share of that of
one sum of fused multiply-adds, which is what cuBLAS's SGEMM has where it does not cut K.

    precision.py SKETCHC DRIVER_FOLDER LEVEL1_FOLDER

The driver (products.c) cuts off behind every 8 products; an H200 behind every 16, with two bits more than f32 has: its errors on
numbers of one sign are 0.85 of these at K = 64."""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
# (problem, whether A is transposed, how numbers are drawn, M, N, K, share). Wide numbers go in three parts of bf16, in sums of 32 that are cut, too: at most one sum's error.
CASES = (("007_small_k_matmul", False, "uniform", 32, 40, 128, 0.85), ("007_small_k_matmul", False, "normal", 32, 40, 128, 0.85),
         ("007_small_k_matmul", False, "uniform", 32, 40, 64, 1.05), ("016_transposed_a_matmul", True, "wide", 16, 24, 1024, 1.0))


def drawn(how, *shape):
    """As bench/precision.py draws them."""
    rng = np.random.default_rng(sum(shape))
    if how == "uniform":
        return rng.random(shape, dtype=np.float32)
    power = rng.uniform(-24, 24, shape) if how == "wide" else 0
    return (rng.standard_normal(shape) * np.exp2(power)).astype(np.float32)


def one_sum(a, b):
    """Fused: the product of two f32 is exact in float64."""
    acc = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        acc = (acc + np.outer(a[:, k].astype(float), b[k].astype(float))).astype(np.float32)
    return acc


def error(got, exact):
    return np.linalg.norm(got - exact) / np.linalg.norm(exact)


def share(sketchc, driver, sketch, transposed, how, m, n, k):
    a, b = drawn(how, m, k), drawn(how, k, n)
    with tempfile.TemporaryDirectory() as name:
        files = {tensor: pathlib.Path(name) / f"{tensor}.npy" for tensor in "ABC"}
        np.save(files["A"], np.ascontiguousarray(a.T) if transposed else a)
        np.save(files["B"], b)
        env = dict(os.environ, LD_LIBRARY_PATH=driver, PATH=f"{HERE}:{os.environ['PATH']}")
        subprocess.run([sketchc, "run", sketch, "-t", "cuda", "--arch=sm_90a", "-q", "--no-cache", f"--in=A={files['A']}", f"--in=B={files['B']}",
                        f"--out=C={files['C']}"], check=True, env=env)
        exact = a.astype(float) @ b.astype(float)
        return error(np.load(files["C"]), exact) / error(one_sum(a, b), exact)


def main():
    sketchc, driver, folder = sys.argv[1:4]
    bad = []
    for problem, transposed, how, m, n, k, most in CASES:
        got = share(sketchc, driver, pathlib.Path(folder) / f"{problem}.sketch", transposed, how, m, n, k)
        print(f"{problem} {how} K={k}: {got:.3f} of one sum's error, at most {most}")
        if not got <= most:
            bad.append(problem)
    return bool(bad)


sys.exit(main())
