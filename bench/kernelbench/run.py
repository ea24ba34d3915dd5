#!/usr/bin/env python3
"""Times the problems of level1.py on a GPU where PyTorch is installed, in one process: the kernel by
PTX, the kernel by CUDA C, PyTorch eager (convolutions also with cuDNN's benchmark mode, `eager_benchmark`),
torch.compile, the ceilings and, but for full sizes in f32, a copy that moves as many bytes (`copy_as_many`), interleaved sample by sample,
and compares every element of both kernels' results with PyTorch's.

    run.py LIBSKETCHC ARTIFACTS OUT.json [--only ID,...] [--case full] [--samples 5] [--compile]
           [--seconds 80] [--variant f16] [--drawn SEED [--matrix]]

ARTIFACTS holds 023_softmax.ptx.ska and .cu.ska (bench/gpu_artifacts.sh). The L2 cache is flushed by
reading 256 MB before each sample. Problems that do not fit in --seconds are left out and listed.

--compile: torch.compile's code is made beforehand, problems side by side in --workers processes, into
caches in a folder of this run; which of its configurations is best is found out later, alone.
--variant: ten problems with tensors of f16 or bf16 (level1.py --variant made the artifacts); the results
are held against PyTorch's in f32, rounded once. --drawn: the problems of drawn.py, with --matrix those of drawn_matrix.py; where their functions
make more than the tolerance of a rounding, both results are held against float64."""
import argparse
import concurrent.futures
import contextlib
import fcntl
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from kernel import Kernel, Library  # noqa: E402 (bench/kernel.py)
from convolutions import PLAIN as CONVOLUTIONS, SIZES  # noqa: E402
from drawn import draw, tensor_bytes  # noqa: E402
from drawn_matrix import draw as draw_matrix  # noqa: E402
from level1 import PROBLEMS, VARIED  # noqa: E402

FORMS = ("ptx", "cu")
NAMES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


# ---- The problems in PyTorch: inputs by name, the reference from them ----

def rand(*shape, dtype=torch.float32):
    return torch.rand(*shape, device="cuda", dtype=dtype)


def matrix(s, d):
    return {"X": rand(s["M"], s["N"], dtype=d)}


def image(s, d):
    return {"X": rand(s["B"], s["C"], s["H"], s["W"], dtype=d)}


def pair(s, d):
    return {"X": rand(s["M"], s["N"], dtype=d).mul_(0.37), "T": rand(s["M"], s["N"], dtype=d)}


def signs(n, d):
    return torch.randint(0, 2, (n,), device="cuda").to(d) * 2 - 1


def affine(names, shape):
    return lambda s, d: {"X": rand(*[s[k] for k in names], dtype=d), shape[1]: rand(*[s[k] for k in shape[0]], dtype=d), "Z": rand(*[s[k] for k in shape[0]], dtype=d)}


def volume(s, d):
    return {"X": rand(s["B"], s["C"], s["D"], s["H"], s["W"], dtype=d)}


TORCH = {
    4: (lambda s, d: {"A": rand(s["M"], s["K"], dtype=d), "B": rand(s["K"], 1, dtype=d)}, lambda A, B: torch.matmul(A, B)),
    5: (matrix, lambda X: X * 3.14),
    12: (lambda s, d: {"A": rand(s["M"], dtype=d), "B": rand(s["M"], s["N"], dtype=d)}, lambda A, B: A[:, None] * B),
    19: (matrix, torch.relu), 20: (matrix, lambda X: F.leaky_relu(X, 0.01)), 21: (matrix, torch.sigmoid), 22: (matrix, torch.tanh),
    23: (matrix, lambda X: torch.softmax(X, 1)), 24: (matrix, lambda X: torch.log_softmax(X, 1)),
    25: (matrix, lambda X: X * torch.sigmoid(X)), 26: (matrix, F.gelu), 27: (matrix, torch.selu), 28: (matrix, F.hardsigmoid),
    29: (matrix, F.softplus), 30: (matrix, lambda X: X / (1 + torch.abs(X))), 31: (matrix, F.elu), 32: (matrix, F.hardtanh),
    33: (affine("BCHW", ("C", "S")), lambda X, S, Z: F.batch_norm(X, None, None, S, Z, training=True)),
    34: (image, F.instance_norm),
    35: (affine("BGPHW", ("GP", "S")),
         lambda X, S, Z: F.group_norm(X.flatten(1, 2), X.shape[1], S.flatten(), Z.flatten())),
    36: (image, lambda X: X / torch.sqrt(torch.mean(X ** 2, dim=1, keepdim=True) + 1e-5)),
    37: (image, lambda X: X / torch.norm(X, p="fro")),
    38: (matrix, lambda X: X / torch.mean(torch.abs(X), dim=1, keepdim=True)),
    39: (matrix, lambda X: X / torch.norm(X, p=2, dim=1, keepdim=True)),
    40: (affine("BCHW", ("CHW", "G")), lambda X, G, Z: F.layer_norm(X, X.shape[1:], G, Z)),
    41: (lambda s, d: {"X": rand(s["B"], s["C"], s["L"], dtype=d)}, lambda X: F.max_pool1d(X, 8, 1, 4, 3)),
    42: (image, lambda X: F.max_pool2d(X, 4, 1, 1, 1)), 43: (volume, lambda X: F.max_pool3d(X, 3, 2, 1, 3)),
    44: (lambda s, d: {"X": rand(s["B"], s["C"], s["L"], dtype=d)}, lambda X: F.avg_pool1d(X, 8, 1, 4)),
    45: (image, lambda X: F.avg_pool2d(X, 11)), 46: (volume, lambda X: F.avg_pool3d(X, 3, 2, 1)),
    88: (matrix, lambda X: 0.5 * X * (1 + torch.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * torch.pow(X, 3))))),
    89: (matrix, lambda X: torch.cumsum(X, 1)), 90: (matrix, lambda X: torch.cumprod(X, 1)),
    91: (matrix, lambda X: torch.cumsum(X.flip(1), 1).flip(1)),
    92: (matrix, lambda X: torch.cat((torch.zeros_like(X[:, :1]), torch.cumsum(X[:, :-1], 1)), 1)),
    93: (lambda s, d: {**matrix(s, d), "K": torch.randint(0, 2, (s["M"], s["N"]), device="cuda", dtype=torch.uint8).bool()},
         lambda X, K: torch.cumsum(X * K, 1)),
    94: (pair, lambda X, T: torch.mean((X - T) ** 2)),
    95: (lambda s, d: {**matrix(s, d), "T": torch.randint(0, s["N"], (s["M"],), device="cuda")}, F.cross_entropy),
    96: (pair, F.smooth_l1_loss),
    98: (lambda s, d: {k: torch.softmax(v, 1) for k, v in pair(s, d).items()}, lambda X, T: F.kl_div(torch.log(X), T, reduction="batchmean")),
    99: (lambda s, d: {k: rand(s["M"], s["N"], dtype=d) for k in "APQ"}, lambda A, P, Q: F.triplet_margin_loss(A, P, Q)),
    100: (lambda s, d: {**matrix(s, d), "T": signs(s["N"], d)}, lambda X, T: torch.mean(torch.clamp(1 - X * T, min=0))),
}
for number, call in {47: lambda X: torch.sum(X, 1, keepdim=True), 48: lambda X: torch.mean(X, 1), 49: lambda X: torch.max(X, 1)[0],
                     51: lambda X: torch.argmax(X, 1), 52: lambda X: torch.argmin(X, 1), 53: lambda X: torch.min(X, 1)[0]}.items():
    TORCH[number] = (lambda s, d: {"X": rand(s["B"], s["K"], s["N"], dtype=d)}, call)
for number in (1, 2, 7, 8, 9, 6):
    TORCH[number] = (lambda s, d: {"A": rand(s["M"], s["K"], dtype=d), "B": rand(s["K"], s["N"], dtype=d)}, torch.matmul)


def symmetric(n, d):
    x = rand(n, n, dtype=d)
    return (x + x.T) / 2


def triangles(cut):
    return lambda s, d: {k: cut(rand(s["N"], s["N"], dtype=d)) for k in "AB"}, lambda A, B: cut(torch.matmul(A, B))


TORCH |= {
    3: (lambda s, d: {"A": rand(s["P"], s["M"], s["K"], dtype=d), "B": rand(s["P"], s["K"], s["N"], dtype=d)}, torch.bmm),
    10: (lambda s, d: {"A": rand(s["P"], s["M"], s["K"], dtype=d), "B": rand(s["K"], s["N"], dtype=d)}, torch.matmul),
    11: (lambda s, d: {"A": rand(s["P"], s["Q"], s["M"], s["K"], dtype=d), "B": rand(s["K"], s["N"], dtype=d)}, lambda A, B: torch.einsum("bijl,lk->bijk", A, B)),
    13: (lambda s, d: {k: symmetric(s["M"], d) for k in "AB"}, torch.matmul),
    14: triangles(torch.triu), 15: triangles(torch.tril),
    16: (lambda s, d: {"A": rand(s["K"], s["M"], dtype=d), "B": rand(s["K"], s["N"], dtype=d)}, lambda A, B: torch.matmul(A.T, B)),
    17: (lambda s, d: {"A": rand(s["M"], s["K"], dtype=d), "B": rand(s["N"], s["K"], dtype=d)}, lambda A, B: torch.matmul(A, B.T)),
    18: (lambda s, d: {"A": rand(s["K"], s["M"], dtype=d), "B": rand(s["N"], s["K"], dtype=d)}, lambda A, B: torch.matmul(A.T, B.T)),
}


# ---- Convolutions ----

def weights(*shape, per):
    """As PyTorch begins: uniform within one over the root of how many products a result sums."""
    return (rand(*shape) * 2 - 1) / math.sqrt(per)


def convolution(call, sizes, taps, groups=1, transposed=False, bias=False, **more):
    def make(s, d):
        inner, results = s["C"] * groups, s["O"] * groups
        per = s["C"] * math.prod(taps)
        shape = (inner, s["O"], *taps) if transposed else (results, s["C"], *taps)
        inputs = {"X": rand(s["B"], inner, *[s[k] for k in sizes], dtype=d), "F": weights(*shape, per=per)}
        return {**inputs, "Z": weights(results, per=per)} if bias else inputs

    return make, lambda X, F, Z=None: call(X, F, Z, groups=groups, **more)


def depthwise(taps):
    return (lambda s, d: {"X": rand(s["B"], s["C"], s["H"], s["W"], dtype=d), "F": weights(s["C"], 1, *taps, per=math.prod(taps))},
            lambda X, F: torch.conv2d(X, F, groups=len(F)))


for number, (name, (_, channels, _), sizes, taps, more) in CONVOLUTIONS.items():
    dim = len(sizes)
    call = getattr(F, f"conv{'_transpose' * ('transposed' in more)}{dim}d")
    names = {"more": "output_padding"}
    TORCH[number] = convolution(call, SIZES[dim], taps if isinstance(taps, tuple) else (taps,) * dim, **{names.get(k, k): v for k, v in more.items()})
TORCH |= {
    59: convolution(F.conv3d, "DHW", (3, 3, 1)),
    82: depthwise((3, 3)), 83: depthwise((3, 1)), 84: depthwise((3, 3)), 85: depthwise((3, 7)),
    86: (lambda s, d: {"X": rand(s["B"], s["C"], s["H"], s["W"], dtype=d), "G": weights(s["C"], 1, 3, 3, per=9), "F": weights(s["O"], s["C"], 1, 1, per=s["C"])},
         lambda X, G, F: torch.conv2d(torch.conv2d(X, G, padding=1, groups=len(G)), F)),
    87: convolution(F.conv2d, "HW", (1, 1)),
}
TORCH[97] = (lambda s, d: {k: rand(s["B"], s["H"], s["L"], s["D"], dtype=d) for k in "QKV"}, F.scaled_dot_product_attention)
SCALARS = {5: {"s": 3.14}}
RESULT = {**{n: "C" for n in range(1, 19)}, 5: "Y", 97: "O", **{n: "L" for n in (94, 95, 96, 98, 99, 100)}}
# Of an element rounded to the type once on each side.
ULP = {"f32": 0, "f16": 2 ** -10, "bf16": 2 ** -7}
# Bytes a second of a copy and of reading: what floors are made of, as those of the data file.
COPY, READ = 4.279e12, 4.576e12


def problems_of(options):
    if not options.drawn:
        return PROBLEMS
    return (draw_matrix if options.matrix else draw)(options.drawn)


def torch_of(p):
    """(sizes, dtype -> inputs, the function) of a problem in PyTorch."""
    if "reference" not in p:
        return TORCH[p.get("base", p["id"])]

    def make(sizes, dtype):
        return {name: rand(*[sizes[e] for e in extents.split()], dtype=dtype) * 2 - 1 for name, extents in p["inputs"].items()}

    return make, eval(p["reference"], {"torch": torch, "F": F})


def result_of(p):
    return "Y" if "reference" in p else RESULT.get(p.get("base", p["id"]), "Y")


def scalars_of(p):
    return SCALARS.get(p.get("base", p["id"]), {})


def size_of(*tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


# Largest |kernel - PyTorch| / (|PyTorch| + mean |PyTorch|) taken for right: both sides round; sums and
# scans of many terms, in any order, and what divides by them differ by more than one rounding.
# Convolutions: PyTorch rounds factors to 11 bits, and so do the sketches; against the mean of the results that are not 0, since
# those of a transposed one between its strides are.
TOLERANCE = {"convolution": 5e-3, "depthwise": 5e-3, "elementwise": 2e-6, "windows": 2e-6, "columns": 2e-5, "losses": 2e-5, "rows": 5e-5}
# A drawn function may be so steep at its argument (a logarithm beside 1, a root beside 0) that a rounding becomes more than that. What is
# beyond the tolerance then is right where it is no further from float64 than this many times PyTorch's result in the same precision.
TIMES_EAGER = 2


def difference(got, want, nonzero=False):
    """(largest difference over magnitude, elements that differ in being NaN or infinite), in pieces that fit."""
    got, want = got.reshape(-1), want.reshape(-1)
    if not want.is_floating_point():
        return float((got != want).sum()), 0
    piece, worst, odd = 1 << 27, 0.0, 0
    wide = torch.promote_types(want.dtype, torch.float32)
    step = 2 ** -24 if want.dtype is torch.float16 else 0  # between subnormals: neighbours are both right
    count, total = 0, 0.0
    for i in range(0, len(want), piece):
        finite = want[i:i + piece].isfinite()
        size = want[i:i + piece].abs().masked_fill_(~finite, 0)
        count += int(size.count_nonzero() if nonzero else finite.sum())
        total += float(size.sum(dtype=torch.float64))
    mean = total / max(1, count) + 1e-30
    for i in range(0, len(want), piece):
        a, b = got[i:i + piece].to(wide), want[i:i + piece].to(wide)
        odd += int(((a.isnan() != b.isnan()) | ((a.isinf() | b.isinf()) & (a != b))).sum())
        apart = ((a - b).abs() - step).clamp_(min=0)
        worst = max(worst, float((apart / (b.abs() + mean)).nan_to_num_(0).max()))
    return worst, odd


# ---- Time ----

class Clock:
    def __init__(self):
        self.flush = torch.zeros(64 << 20, device="cuda")
        self.copies = [torch.zeros(256 << 20, device="cuda") for _ in range(2)]  # 1 GiB each
        self.empty = torch.zeros(1, device="cuda")

    def ceilings(self):
        """name -> (call, bytes moved)."""
        a, b = self.copies
        size = a.numel() * 4
        return {"copy": (lambda: b.copy_(a), 2 * size), "read": (lambda: a.sum(), size), "fill": (lambda: b.zero_(), size),
                "null": (lambda: self.empty.zero_(), 0)}

    def copy_of(self, moved):
        """A copy that moves as many bytes, 2 GiB at most: how near a plain kernel of that size comes to the rate of a long one."""
        a, b = (t[:max(1, min(moved // 8, t.numel()))] for t in self.copies)
        return lambda: b.copy_(a)

    def settle(self):
        """Until memory is at its rate, for half a second at most: for up to 50 ms after a pause it is at nine tenths of it."""
        copy, moved = self.ceilings()["copy"]
        until = time.time() + 0.5
        took = 1.0
        while took > 1.02 * moved / COPY and time.time() < until:
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            for _ in range(40):
                copy()
            begin.record()
            copy()
            end.record()
            torch.cuda.synchronize()
            took = begin.elapsed_time(end) * 1e-3

    def interleaved(self, calls, samples):
        """Seconds of each call, `samples` times, one after the other in turn; the first round is not counted."""
        times = {name: [] for name in calls}
        self.settle()
        copy = self.ceilings()["copy"][0]
        for turn in range(samples + 1):
            events = {}
            copy()  # half a millisecond in which what follows is queued: the first call's launches are not waited for on the host
            for name, call in calls.items():
                self.flush.sum()
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                begin.record()
                call()
                end.record()
                events[name] = (begin, end)
            torch.cuda.synchronize()
            if turn:
                for name, (begin, end) in events.items():
                    times[name].append(begin.elapsed_time(end) * 1e-3)
        return times


@contextlib.contextmanager
def precision_of(p):
    """Products of f32 matrices by PyTorch in tf32 where the operator asks for it."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = "precision: tf32" in p["text"]
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def fastest_of_cudnn(call):
    """The call in the mode in which cuDNN times its algorithms for a shape first (in the round that is not counted) and takes the fastest."""

    def timed():
        torch.backends.cudnn.benchmark = True
        try:
            return call()
        finally:
            torch.backends.cudnn.benchmark = False

    return timed


def channels_last(tensors):
    """Images and their weights with channels innermost in memory."""
    forms = {4: torch.channels_last, 5: torch.channels_last_3d}
    return {name: t.contiguous(memory_format=forms[t.dim()]) if t.dim() in forms else t for name, t in tensors.items()}


class Rounding:
    """What a convolution's factors were rounded to, told by the error of the first image's results (Frobenius norm, over float64's): about 1e-7 in f32, 3e-4 of
    factors of 11 bits."""

    def __init__(self, reference, inputs):
        first = {name: (t[:1] if name == "X" else t).double() for name, t in inputs.items()}
        self.exact = reference(*first.values())

    def of(self, result):
        return float((result[:1].double() - self.exact).norm() / self.exact.norm())


class Run:
    def __init__(self, options):
        self.options = options
        self.library = Library(options.library)
        self.clock = Clock()
        self.problems = problems_of(options)
        self.floors = json.loads((pathlib.Path(__file__).parent / "floors.json").read_text())["problems"]
        self.began = time.time()

    def warm(self, numbers):
        """All code through the compilers, side by side, into the cache: opened at the smallest case."""

        def one(number, form):
            p = self.problems[number]
            try:
                inputs, output = self.data(p, p["cases"]["small"])
                Kernel(self.library, self.artifact(p, form), p["cases"]["small"], {**inputs, result_of(p): output}, scalars_of(p)).close()
            except Exception as error:  # told here, and again where it is timed
                print(p["file"], form, repr(error)[:300], flush=True)

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda pair: one(*pair), [(n, f) for n in numbers for f in FORMS]))
        torch.cuda.synchronize()
        print(f"code loaded in {time.time() - self.began:.1f} s", flush=True)

    def artifact(self, p, form):
        return self.library.read(self.options.artifacts / p["file"].replace(".sketch", f".{form}.ska"))

    def data(self, p, sizes):
        make, reference = torch_of(p)
        torch.manual_seed(p["id"])
        dtype = NAMES[self.options.variant]
        inputs = make(sizes, dtype)
        wide = [t.float() if t.dtype is dtype else t for t in inputs.values()]
        want = reference(*wide).contiguous()
        return inputs, want.to(dtype) if want.is_floating_point() else want

    def tolerance(self, p):
        drawn = 4 if "reference" in p else 1  # up to four functions, each of which rounds
        return drawn * TOLERANCE.get(p["kind"], 5e-5) + ULP[self.options.variant]

    def apart_from_float64(self, p, inputs, *results):
        """The largest differences of results, and of PyTorch's in the precision that the operator asks for, over the magnitude from the same function of the
        same inputs in float64."""
        with torch.no_grad(), precision_of(p):
            eager = torch_of(p)[1](*inputs.values()).contiguous()
            exact = torch_of(p)[1](*[t.double() if t.is_floating_point() else t for t in inputs.values()]).contiguous()
        return [difference(r, exact, p["group"] == "convolution") for r in (*results, eager)]

    def floor(self, p, moved, written, null):
        full = self.options.case == "full" and self.options.variant == "f32" and not self.options.drawn
        seconds = self.floors[str(p["id"])]["floor_ms"] * 1e-3 if full else moved / (READ if written * 50 < moved else COPY)
        return max(seconds, null)

    def problem(self, p):
        sizes = p["cases"][self.options.case]
        with torch.no_grad():
            inputs, want = self.data(p, sizes)
        entry = {"id": p["id"], "name": p["name"], "group": p["group"], "kind": p["kind"], "case": self.options.case, "sizes": sizes, "kernels": {}, "seconds": {}}
        calls, kernels, outputs = {}, [], {}
        for form in FORMS:
            output = torch.empty_like(want).fill_(float("nan") if want.is_floating_point() else -7)
            try:
                kernel = Kernel(self.library, self.artifact(p, form), sizes, {**inputs, result_of(p): output}, scalars_of(p))
                kernels.append(kernel)
                kernel()
                torch.cuda.synchronize()
            except (RuntimeError, OSError) as error:
                entry["kernels"][form] = {"error": str(error)}
                print(p["file"], form, str(error)[:300], flush=True)
                continue
            worst, odd = difference(output, want, p["group"] == "convolution")
            right = odd == 0 and worst <= (self.tolerance(p) if want.is_floating_point() else 0)
            entry["kernels"][form] = {**kernel.info, "worst": worst, "odd": odd, "verified": right}
            if not right and "reference" in p and want.is_floating_point():
                (mine, odd), (eager, eager_odd) = self.apart_from_float64(p, inputs, output)
                right = odd == eager_odd == 0 and mine <= TIMES_EAGER * eager
                entry["kernels"][form] |= {"apart_from_float64": mine, "eager_apart_from_float64": eager, "verified": right}
            calls[form] = kernel
            outputs[form] = output
            del output
        reference = torch_of(p)[1]
        rounding = Rounding(reference, inputs) if p["group"] == "convolution" and not self.options.drawn else None
        if rounding:
            entry["rounding"] = {form: rounding.of(output) for form, output in outputs.items()}
        outputs.clear()
        written, moved = size_of(want), size_of(want, *inputs.values())
        del want
        with torch.no_grad():
            calls["eager"] = lambda: reference(*inputs.values())
            if p["group"] == "convolution":
                calls["eager_benchmark"] = fastest_of_cudnn(calls["eager"])
            if self.options.compile:
                torch._dynamo.reset()  # its limit of recompilations counts over problems
                compiled = torch.compile(reference, dynamic=False)
                calls["compile"] = lambda: compiled(*inputs.values())
                compiled(*inputs.values())
            if rounding:
                last = channels_last(inputs)
                calls["eager_channels_last"] = lambda: reference(*last.values())
                calls["benchmark_channels_last"] = fastest_of_cudnn(calls["eager_channels_last"])
                for name in [n for n in calls if n not in FORMS]:
                    entry["rounding"][name] = rounding.of(calls[name]())
                del rounding
            if moved <= 2 * size_of(self.clock.copies[0]) and (self.options.drawn or self.options.case != "full" or self.options.variant != "f32"):
                calls["copy_as_many"] = self.clock.copy_of(moved)
            ceilings = self.clock.ceilings()
            times = self.clock.interleaved({**calls, **{n: c for n, (c, _) in ceilings.items()}}, self.options.samples)
        for kernel in kernels:
            kernel.close()
        entry["samples"] = {k: [round(x, 9) for x in v] for k, v in times.items()}
        entry["seconds"] = {k: statistics.median(v) for k, v in times.items()}
        entry["ceilings_gb_per_s"] = {n: moved / entry["seconds"][n] * 1e-9 for n, (_, moved) in ceilings.items() if moved}
        entry["bytes"] = moved
        entry["floor_s"] = self.floor(p, moved, written, entry["seconds"]["null"])
        self.line(entry)
        return entry

    def line(self, e):
        s = e["seconds"]
        best = min(s.get("eager", 9), s.get("compile", 9))
        text = f"{e['id']:3} {e['name']:16}"
        for form in FORMS:
            k = e["kernels"].get(form, {})
            if "error" in k:
                text += f" {form} none"
                continue
            text += f" {form} {s[form] * 1e3:8.4f} ms"
            text += f" {s[form] / e['floor_s']:5.2f}x" if "floor_s" in e else f" {e['bytes'] / s[form] * 1e-9:5.0f}"
            text += "" if k["verified"] else f" WRONG {k['worst']:.1e}/{k['odd']}"
        text += f" eager {s['eager'] * 1e3:8.4f}" + "".join(f" {name} {s[key] * 1e3:8.4f}" for name, key in (("benchmark", "eager_benchmark"), ("compile", "compile")) if key in s)
        text += f" floor {e['floor_s'] * 1e3:.4f}" if "floor_s" in e else ""
        text += " by " + e["kernels"]["ptx"]["products"] if e["kernels"].get("ptx", {}).get("products") else ""
        text += " copy {copy:.0f} read {read:.0f} fill {fill:.0f}".format(**e["ceilings_gb_per_s"])
        for l in e["kernels"].get("ptx", {}).get("launches", []):
            text += f" | {l['entry']} t{l['threads']} g{l['grid'][0]} c{l['cluster'][0]} r{l.get('registers')} l{l.get('local_bytes')} b{l.get('blocks_per_sm')} s{l['shared_bytes']}"
        print(text + f" (best {best * 1e3:.4f})", flush=True)


def summary(entries):
    groups = {}
    for e in entries:
        for form in FORMS:
            if "floor_s" in e and e["kernels"].get(form, {}).get("verified"):
                groups.setdefault((e["group"], form), []).append(e["seconds"][form] / e["floor_s"])
    for (group, form), ratios in sorted(groups.items()):
        print(f"{group:20} {form}: geometric mean over the floor {math.exp(statistics.fmean(map(math.log, ratios))):.3f} of {len(ratios)}")


# ---- torch.compile beforehand ----

def compile_here(options, numbers):
    """In a process of its own: torch.compile's code of the problems into the caches."""
    import torch._dynamo
    problems = problems_of(options)
    with open(os.environ["TORCHINDUCTOR_CACHE_DIR"] + "/memory.lock", "w") as lock:
        for number in numbers:
            p = problems[number]
            make, reference = torch_of(p)
            try:
                room_for(p, lock)
                inputs = make(p["cases"][options.case], NAMES[options.variant])
                torch._dynamo.reset()
                with torch.no_grad():
                    torch.compile(reference, dynamic=False)(*inputs.values())
                torch.cuda.synchronize()
            except Exception as error:  # compiled where it is timed, then
                print(number, "not compiled beforehand:", repr(error)[:200], flush=True)
            inputs = None
            torch.cuda.empty_cache()


def room_for(p, lock):
    """Waits until a problem's memory is free and takes it; the allocator keeps it until it is emptied."""
    need = 3 * tensor_bytes(p["text"], p["cases"]["full"])[0] + (2 << 30)
    need = min(need, 100 << 30, torch.cuda.mem_get_info()[1] * 3 // 4)  # the rest holds the other processes' contexts
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        while torch.cuda.mem_get_info()[0] < need + (2 << 30):
            time.sleep(0.05)
        torch.empty(need, dtype=torch.uint8, device="cuda")
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)


def compile_beforehand(options, numbers):
    folder = tempfile.mkdtemp(prefix="compile-", dir=options.out.resolve().parent)
    os.environ |= {"TORCHINDUCTOR_CACHE_DIR": folder, "TRITON_CACHE_DIR": folder + "/triton", "TORCHINDUCTOR_FX_GRAPH_CACHE": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    began = time.time()
    shares = [numbers[i::options.workers] for i in range(options.workers)]
    workers = [subprocess.Popen([sys.executable, *sys.argv, "--compile-only", ",".join(map(str, share))]) for share in shares if share]
    for worker in workers:
        try:
            worker.wait(timeout=max(1, began + options.compile_seconds - time.time()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
    for tuned in pathlib.Path(folder).rglob("*.best_config"):  # found beside other processes
        tuned.unlink()
    print(f"torch.compile's code made in {time.time() - began:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("artifacts", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--case", default="full")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--variant", default="f32", choices=NAMES)
    parser.add_argument("--drawn", type=int, default=0)
    parser.add_argument("--matrix", action="store_true", help="with --drawn: the problems of drawn_matrix.py")
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--compile-seconds", type=float, default=90, help="what is not compiled beforehand by then is where it is timed")
    parser.add_argument("--compile-only", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    table = problems_of(options)
    numbers = [int(n) for n in options.only.split(",")] if options.only else [n for n in table if options.variant == "f32" or n in VARIED]
    if options.compile_only:
        compile_here(options, [int(n) for n in options.compile_only.split(",")])
        return 0
    if options.compile:
        compile_beforehand(options, numbers)
    run = Run(options)
    run.warm(numbers)
    entries, left = [], []
    for number in numbers:
        if time.time() - run.began > options.seconds:
            left.append(number)
            continue
        try:
            entries.append(run.problem(table[number]))
        except Exception as error:  # one problem does not end the run
            entries.append({"id": number, "name": table[number]["name"], "group": table[number]["group"], "error": str(error), "kernels": {}})
            print(number, "failed:", repr(error)[:300], flush=True)
        torch.cuda.empty_cache()
    result = {"format": "sketchc.kernelbench 1", "device": torch.cuda.get_device_name(), "torch": torch.__version__, "sketchc": run.library.c.sketchc_version().decode(),
              "case": options.case, "variant": options.variant, "drawn": options.drawn, "left_out": left, "problems": entries}
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    summary(entries)
    if left:
        print("left out for time:", left)
    wrong = [e["id"] for e in entries if not all(k.get("verified") for k in e["kernels"].values()) or not e["kernels"]]
    print(f"{len(entries)} problems, not verified: {wrong or 'none'}, {time.time() - run.began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
