#!/usr/bin/env python3
"""KernelBench level 2 (level2.py) on a GPU where PyTorch is installed: operators without sketches, compiled, compared and timed beside PyTorch.

    level2_run.py SKETCHC LIBSKETCHC OUT.json [--only ID,...] [--forms ptx,cu] [--samples 5] [--compile] [--seconds 400] [--longest 2] [--limit 120]
                  [--steps]

Artifacts are compiled side by side first; what needs over --limit seconds, or is predicted to run longer than --longest seconds, is left out and
said to be. All elements are compared with PyTorch's in a higher precision (products of matrices in float64, convolutions in f32 without
tf32): a result is right within a tolerance, or where it is no further off than TIMES_EAGER times PyTorch's own in its default precision
(for convolutions the larger of eager's difference and of one whose factors are rounded to tf32: `tf32_off`).
Problem 66 draws random numbers, PyTorch others: it is compared by `sketchc verify` alone. Times are medians, kernel and PyTorch in turn. --steps: the time of each kernel of
one call by the profiler, ours and PyTorch's."""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))
from kernel import Kernel, Library  # noqa: E402 (bench/kernel.py)
from level2 import PROBLEMS, operator_of  # noqa: E402
from run import Clock, difference  # noqa: E402

TARGETS = {"ptx": "nvptx", "cu": "cuda"}
# Of the difference over magnitude, as run.py has it: convolutions' factors are rounded to 11 bits, by PyTorch where cuDNN finds a tensor core's algorithm.
TOLERANCE, CONVOLUTION_TOLERANCE, TIMES_EAGER = 5e-5, 5e-3, 2
RANDOM = (66,)


def tf32(x):
    """Rounded to the 11 bits that tf32 keeps, to the nearest, ties away from zero."""
    return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


class Torch:
    """The methods of level2.Text by PyTorch; tensors in the order in which Text declares them."""

    def __init__(self, tensors, rounds=False):
        self.tensors, self.at, self.rounds = tensors, 0, rounds

    def tensor(self):
        self.at += 1
        return self.tensors[self.at - 1]

    def let(self, x):
        return x

    def param(self, *shape, like=None, data=None):
        return self.tensor()

    def by_column(self, like):
        return self.tensor()

    def scaled(self, x, *shape):
        return self.tensor(), x

    def other(self, like):
        return self.tensor()

    def linear(self, x, n, groups=0, bias=True):
        return F.linear(x, self.tensor(), self.tensor() if bias else None)

    def conv(self, x, o, k, s=1, p=0, more=0, transposed=False, groups=0, bias=True):
        f, z = self.tensor(), self.tensor() if bias else None
        if self.rounds:
            x, f = tf32(x), tf32(f)
        if not transposed:
            return getattr(F, f"conv{x.dim() - 2}d")(x, f, z, stride=s, padding=p)
        return getattr(F, f"conv_transpose{x.dim() - 2}d")(x, f, z, stride=s, padding=p, output_padding=more)

    def pool(self, kind, x, k):
        if x.dim() == 2:
            return getattr(F, f"{kind}_pool1d")(x[:, None], k, k)[:, 0]
        return getattr(F, f"{kind}_pool{x.dim() - 2}d")(x, k, k)

    def f(self, name, x, **more):
        plain = {"hard_swish": F.hardswish, "mish": F.mish, "gelu": F.gelu, "leaky_relu": F.leaky_relu, "softplus": F.softplus}
        return plain[name](x, **more) if name in plain else getattr(torch, name)(x)

    def clamp(self, x, low, high=None):
        return torch.clamp(x, low, high)

    def least(self, x, other):
        return torch.minimum(x, other if isinstance(other, torch.Tensor) else torch.tensor(other, device=x.device, dtype=x.dtype))

    def swish(self, x):
        return x * torch.sigmoid(x)

    def dropout(self, x, p):
        return F.dropout(x, p)

    def fold(self, kind, x, axes, keep=True):
        if kind in ("max", "min"):
            return getattr(torch, kind)(x, axes, keep)[0]
        return getattr(torch, kind)(x, axes, keep)

    def softmax(self, x, axis):
        return torch.softmax(x, axis)

    def flat(self, x):
        return x.flatten(2)

    def unflat(self, x, like):
        return x.view(like.shape)

    def batch_norm(self, x):
        s, z = self.tensor(), self.tensor()
        return F.batch_norm(x, None, None, s.flatten(), z.flatten(), training=True)

    def instance_norm(self, x):
        return F.instance_norm(x if x.dim() > 2 else x[:, None]).view(x.shape)

    def layer_norm(self, x):
        return F.layer_norm(x, x.shape[-1:], self.tensor(), self.tensor())

    def group_norm(self, x, groups):
        return F.group_norm(x, groups, self.tensor(), self.tensor())


class Problem:
    def __init__(self, number):
        self.number = number
        self.name, _, self.what = PROBLEMS[number]
        self.text = operator_of(number)
        self.file = HERE / f"level2/{number:03}_{self.name}.sketch"

    def draw(self):
        """Inputs by name, in Text's order: X, then what the module has."""
        torch.manual_seed(self.number)
        made = {}
        for declared in self.text.tensors[:-1]:
            name, dims = re.match(r"(\w+)\[(.*)\]", declared).groups()
            shape = [self.text.value_of(d) for d in dims.split(", ") if d]
            kind, a, b = re.match(r"(\w+)\((.*), (.*)\)", self.text.data[name]).groups()
            draw = torch.rand if kind == "uniform" else torch.randn
            scale, shift = (float(b) - float(a), float(a)) if kind == "uniform" else (float(b), float(a))
            made[name] = draw(shape, device="cuda") * scale + shift
        return made

    def call(self, *tensors, rounds=False):
        return self.what(Torch(tensors[1:], rounds), tensors[0])

    def exact(self, tensors, rounds=False):
        """In a higher precision, as far as it is at hand; `rounds`: but for the factors of convolutions, in tf32."""
        before = torch.backends.cudnn.allow_tf32
        torch.backends.cudnn.allow_tf32 = False
        try:
            wide = torch.float32 if self.text.convolves else torch.float64
            return self.call(*[t.to(wide) for t in tensors], rounds=rounds).contiguous()
        finally:
            torch.backends.cudnn.allow_tf32 = before


def compile_one(job):
    options, problem, form, out = job
    began = time.time()
    base = [options.sketchc, problem.file, "-t", TARGETS[form], f"--arch={os.environ.get('ARCH', 'sm_90a')}", "-q"]
    try:
        said = subprocess.run([*base, "--explain", "--json"], capture_output=True, text=True, timeout=options.limit, check=False)
        if said.returncode:
            return problem.number, form, {"error": said.stderr.strip()[:300]}
        report = json.loads(said.stdout)
        full = next(c for c in report["cases"] if c["name"] == "full")
        entry = {"style": report.get("design", {}).get("style"), "predicted_s": full["seconds"], "floor_s": full["floor_s"],
                 "design_wall_s": round(time.time() - began, 2)}
        if not full["known"] or full["seconds"] > options.longest:
            return problem.number, form, {**entry, "error": f"predicted {full['seconds']:.3g} s"}
        done = subprocess.run([*base, "--emit=artifact", "-o", out], capture_output=True, text=True, timeout=options.limit, check=False)
        entry["compile_wall_s"] = round(time.time() - began, 2)
        return problem.number, form, entry if done.returncode == 0 else {**entry, "error": done.stderr.strip()[:300]}
    except subprocess.TimeoutExpired:
        return problem.number, form, {"error": f"not compiled in {options.limit} s"}


class Run:
    def __init__(self, options):
        self.options, self.clock, self.library = options, Clock(), Library(options.library)
        self.began = time.time()

    def kernel(self, p, form, folder, tensors, want):
        output = torch.full_like(want, float("nan"), dtype=torch.float32)
        artifact = self.library.read(folder / f"{p.number}.{form}.ska")
        return Kernel(self.library, artifact, p.text.symbols, {**tensors, "Y": output}, {}), output

    def problem(self, p, compiled, folder):
        entry = {"id": p.number, "name": p.name, "kernels": compiled, "seconds": {}}
        tensors = p.draw()
        inputs = list(tensors.values())
        calls, kernels = {}, []
        with torch.no_grad():
            want = p.exact(inputs)
            eager_off, eager_odd = difference(p.call(*inputs), want)
            entry["eager_off"] = eager_off
            if p.text.convolves:  # cuDNN may have taken an algorithm in f32: what its default precision allows
                eager_off = entry["tf32_off"] = max(eager_off, difference(p.exact(inputs, rounds=True), want)[0])
            tolerance = CONVOLUTION_TOLERANCE if p.text.convolves else TOLERANCE
            for form, about in compiled.items():
                if "error" in about:
                    continue
                try:
                    kernel, output = self.kernel(p, form, folder, tensors, want)
                    kernels.append(kernel)
                    kernel()
                    torch.cuda.synchronize()
                except (RuntimeError, OSError) as error:
                    about["error"] = str(error)[:300]
                    continue
                off, odd = difference(output, want)
                right = odd <= eager_odd and off <= max(tolerance, TIMES_EAGER * eager_off)
                about |= {"off": off, "odd": odd, "verified": None if p.number in RANDOM else right}
                calls[form] = kernel
                del output
            del want
            torch.cuda.empty_cache()
            calls["eager"] = lambda: p.call(*inputs)
            if self.options.compile:
                torch._dynamo.reset()
                compiled_call = torch.compile(p.call, dynamic=False)
                compiled_call(*inputs)
                calls["compile"] = lambda: compiled_call(*inputs)
            times = self.clock.interleaved(calls, self.options.samples)
            if self.options.steps:
                entry["steps"] = {name: steps_of(call) for name, call in calls.items()}
        for kernel in kernels:
            kernel.close()
        entry["seconds"] = {k: statistics.median(v) for k, v in times.items()}
        entry["spread"] = {k: round(max(v) / min(v) - 1, 4) for k, v in times.items()}
        return entry


def steps_of(call):
    """[name, microseconds] of each kernel that one call starts, in order."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    return [[e.name[:80], round(e.time_range.elapsed_us(), 1)] for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]


def say(e):
    s = e["seconds"]
    line = f"{e['id']:3} {e['name']:45}"
    for form, about in e["kernels"].items():
        line += f" {form} {s[form] * 1e3:9.4f} ms ({s['eager'] / s[form]:5.2f}x eager)" if form in s else f" {form} none: {about.get('error', '')[:80]}"
        line += f" WRONG {about['off']:.1e}/{about['odd']}" if about.get("verified") is False else " not compared" if form in s and about["verified"] is None else ""
    print(line + "".join(f" {k} {s[k] * 1e3:9.4f}" for k in ("eager", "compile") if k in s) + f" {e['kernels'][next(iter(e['kernels']))].get('style')}", flush=True)
    for name, steps in e.get("steps", {}).items():
        print(f"      {name}: " + ", ".join(f"{kernel} {us:.0f}" for kernel, us in steps), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sketchc", type=pathlib.Path)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--forms", default="ptx")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--longest", type=float, default=2)
    options = parser.parse_args()
    numbers = [int(n) for n in options.only.split(",")] if options.only else list(PROBLEMS)
    problems = {n: Problem(n) for n in numbers}
    run, entries, left = Run(options), [], []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        jobs = [(options, p, form, folder / f"{n}.{form}.ska") for n, p in problems.items() for form in options.forms.split(",")]
        compiled = {n: {} for n in numbers}
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for number, form, about in pool.map(compile_one, jobs):
                compiled[number][form] = about
        print(f"compiled in {time.time() - run.began:.0f} s", flush=True)
        for number, p in problems.items():
            if time.time() - run.began > options.seconds:
                left.append(number)
                continue
            try:
                entries.append(run.problem(p, compiled[number], folder))
                say(entries[-1])
            except Exception as error:  # one problem does not end the run
                entries.append({"id": number, "name": p.name, "kernels": compiled[number], "seconds": {}, "error": repr(error)[:300]})
                print(number, "failed:", repr(error)[:300], flush=True)
            torch.cuda.empty_cache()
    result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "sketchc": run.library.c.sketchc_version().decode(),
              "samples": options.samples, "left_out": left, "problems": entries}
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    for form in options.forms.split(","):
        for other in ("eager", "compile"):
            ratios = [e["seconds"][other] / e["seconds"][form] for e in entries if e["seconds"].get(form) and other in e["seconds"] and e["kernels"][form]["verified"] is not False]
            if ratios:
                print(f"{form}: {math.exp(statistics.fmean(map(math.log, ratios))):.3f} times the speed of {other} over {len(ratios)}; slower: {sum(r < 1 for r in ratios)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
