"""Processor time of a kernel's call from Python, in microseconds: over NumPy's and torch's tensors of 16 elements, on a GPU too where
torch has one, beside torch's own operation.

    launch_time.py LIBSKETCHC"""
import os
import pathlib
import sys
import time
import timeit

os.environ["SKETCHC_LIBRARY"] = sys.argv[1]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools/torch"))
import sketchc  # noqa: E402

SCALE = "operator scale { symbols: N; tensors: X[N]: f32; Y[N]: f32; Y = 2 * X + 1 }"


def measure(name, call, wait, number=500, repeat=60):
    """The median of batches that fit into a stream's queue."""
    def batch():
        began = time.process_time()
        for _ in range(number):
            call()
        taken = time.process_time() - began
        wait()
        return taken / number * 1e6
    batch()
    times = sorted(batch() for _ in range(repeat))
    empty = min(timeit.repeat(lambda: None, number=number, repeat=5)) / number * 1e6
    print(f"{name:28s} {times[len(times) // 2] - empty:7.2f} us (least {times[0] - empty:.2f})")


def measure_all(kernel, x, wait, eager):
    import contextlib
    out = kernel(x)
    measure(f"{eager} prepared", kernel.prepare(x), wait)
    measure(f"{eager} call", lambda: kernel(x), wait)
    measure(f"{eager} call, out=", lambda: kernel(x, out=out), wait)
    with contextlib.suppress(TypeError):
        measure(f"{eager} own x * 2", lambda: x * 2, wait)


def main():
    kernel = sketchc.compile(SCALE, target="cpu")
    try:
        import numpy
        measure_all(kernel, numpy.ones(16, "float32"), lambda: None, "numpy")
    except ImportError:
        print("numpy is not installed")
    try:
        import torch
    except ImportError:
        print("torch is not installed")
        return
    torch.set_num_threads(1)
    print("torch", torch.__version__)
    measure_all(kernel, torch.ones(16), lambda: None, "torch cpu")
    if torch.cuda.is_available():
        measure_all(sketchc.compile(SCALE, target="gpu"), torch.ones(16, device="cuda"), torch.cuda.synchronize, "torch cuda")


main()
