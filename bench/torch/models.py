#!/usr/bin/env python3
"""Models (zoo.py) through eager, torch.compile and torch.compile(backend="sketchc"): whether ours is right, how long each takes.

    models.py [--only resnet50,gpt2-training] [--device cuda|cpu] [--small] [--ways eager,compile,sketchc] [--trials 20]
              [--nested eager|inductor] [--slower leave|take] [--no-check] [--out FILE.jsonl]

Ways: eager, compile, compile-graphs (mode reduce-overhead), compile-tuned (mode max-autotune), sketchc, sketchc-graphs, sketchc-tuned (options for the same).
Each way has a model of its own with the same weights. A step of a "training" entry is forward and backward, of "decode" one token with the cache.
Right: results, gradients and caches are off a reference (float64; float32 for models in bf16) at most four times as far as eager's, and eight
roundings more, as norms over a tensor. Times are interleaved, the L2 cache is flushed before each: `ms` is the median between events on
the GPU, `host_us` until the call returns, `kernels_ms` the sum of a step's kernels by torch's profiler. TF32 is allowed to all ways. One
JSON line a model goes to --out, one for people to standard output."""
import argparse
import contextlib
import copy
import json
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools" / "torch"), str(pathlib.Path(__file__).resolve().parent)]
import torch  # noqa: E402
import zoo  # noqa: E402

import sketchc.backend as backend  # noqa: E402

WAYS = {"eager": None, "compile": {}, "compile-graphs": {"mode": "reduce-overhead"}, "compile-tuned": {"mode": "max-autotune"},
        "sketchc": {"backend": "sketchc"}, "sketchc-graphs": {"backend": "sketchc", "options": {"graphs": True}},
        "sketchc-tuned": {"backend": "sketchc", "options": {"tune": True, "graphs": True}}}


# ---- One step ----

class Step:
    """A way's model and the function that is timed."""

    def __init__(self, entry, model, inputs, way, options):
        self.entry, self.model, self.inputs = entry, copy.deepcopy(model), inputs
        given = None if WAYS[way] is None else dict(WAYS[way])
        if given and "backend" in given:
            given["options"] = {"loud": False, "nested": options.nested, "slower": options.slower, **given.get("options", {})}
        self.called = self.model if given is None else torch.compile(self.model, **given)

    def forward(self):
        cast = torch.autocast(self.inputs[0].device.type, dtype=self.entry.dtype) if self.entry.autocast else contextlib.nullcontext()
        with cast:
            return self.called(*self.inputs)

    def __call__(self):
        if self.entry.kind != "training":
            with torch.no_grad():
                return self.forward()
        for p in self.model.parameters():
            p.grad = None
        result = self.forward()
        result.sum().backward()
        return result.detach()

    def results(self):
        """What a step leaves: its result, gradients, buffers."""
        result = self()
        left = [p.grad for p in self.model.parameters() if p.grad is not None] if self.entry.kind == "training" else []
        return [t.detach().clone() for t in [result, *left, *self.model.buffers()]]


def reference(entry, model, inputs, options):
    """The step by eager in a type of more digits."""
    wide = torch.float32 if entry.dtype != torch.float32 and not options.small else torch.float64
    given = tuple(x.to(wide) if x.is_floating_point() else x for x in inputs)
    plain = copy.copy(entry)
    plain.autocast = False
    allowed = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    try:
        return Step(plain, copy.deepcopy(model).to(wide), given, "eager", options).results()
    finally:
        torch.set_float32_matmul_precision(allowed[0])
        torch.backends.cudnn.allow_tf32 = allowed[1]


def distance(a, b):
    """Of two tensors, over the norm of the second."""
    a, b = a.double(), b.double()
    return float((a - b).norm() / b.norm().clamp(min=1e-30))


def held(ours, eager, exact):
    """The largest part of the bound that a tensor takes."""
    worst = 0.0
    for a, b, c in zip(ours, eager, exact, strict=True):
        if not a.is_floating_point():
            worst = max(worst, 0.0 if torch.equal(a, b) else float("inf"))
            continue
        found = distance(a, c) / (4 * distance(b, c) + 8 * torch.finfo(b.dtype).eps)
        worst = max(worst, found if found == found else float("inf"))  # NaN is no distance
    return worst


# ---- Times ----

class Clock:
    """Milliseconds and host microseconds of a call, the L2 cache flushed before."""

    def __init__(self, device):
        self.cuda = torch.device(device).type == "cuda"
        self.flush = torch.empty(64 << 20, dtype=torch.int32, device=device) if self.cuda else None

    def __call__(self, function):
        if self.cuda:
            self.flush.zero_()
            torch.cuda.synchronize()
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
        start = time.perf_counter()
        function()
        host = time.perf_counter() - start
        if not self.cuda:
            return host * 1e3, host * 1e6
        last.record()
        torch.cuda.synchronize()
        return first.elapsed_time(last), host * 1e6


def timed(steps, options):
    clock, found = Clock(options.device), {name: [] for name in steps}
    for _ in range(3):
        for step in steps.values():
            clock(step)
    for _ in range(options.trials):
        for name, step in steps.items():
            found[name].append(clock(step))
    return {name: [statistics.median(column) for column in zip(*pairs, strict=True)] for name, pairs in found.items()}


def kernels(step):
    """The sum of the kernels of a step, in ms."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        step()
        torch.cuda.synchronize()
    return sum(e.self_device_time_total for e in found.key_averages()) / 1e3


# ---- One model ----

def of_report(row, report):
    row["whole"] = report.whole
    row["regions"] = sum(len(g.regions) for g in report.graphs)
    row["left"] = sorted({f"{op}: {why}" for g in report.graphs for op, why in g.left.values()})
    row["refused"] = sorted({backend.first_line(r.diagnostic)[:200] for g in report.graphs for r in g.refusals})


def run(name, options):
    torch._dynamo.reset()
    entry = zoo.ENTRIES[name]
    row = {"model": name, "kind": entry.kind, "device": options.device, "size": "small" if options.small else "full"}
    weights = torch.float32 if entry.autocast or options.device == "cpu" else entry.dtype
    model, inputs = entry.made(row["size"], options.device, weights)
    steps, firsts = {}, {}
    for way in options.ways:
        try:
            step, start = Step(entry, model, inputs, way, options), time.perf_counter()
            with backend.reporting() as report:
                firsts[way] = step.results()
            row.setdefault("first_s", {})[way] = time.perf_counter() - start
            if way == "sketchc":
                of_report(row, report)
            steps[way] = step
        except Exception as error:
            row.setdefault("exceptions", {})[way] = f"{type(error).__name__}: {str(error)[-600:]}"
    if options.check:
        check(row, entry, model, inputs, firsts, options)
    firsts.clear()
    found = timed(steps, options)
    row["ms"], row["host_us"] = ({way: pair[k] for way, pair in found.items()} for k in range(2))
    if options.device == "cuda":
        row["kernels_ms"] = {way: kernels(step) for way, step in steps.items()}
    return row


def check(row, entry, model, inputs, firsts, options):
    if "eager" not in firsts:
        return
    exact = reference(entry, model, inputs, options)
    row["bound"] = {way: held(made, firsts["eager"], exact) for way, made in firsts.items()}


def line(row):
    bound = row.get("bound", {}).get("sketchc")
    right = "not checked" if bound is None else f"right, {bound:.2f} of the bound" if bound <= 1 else f"WRONG, {bound:.3g} of the bound"
    times = "".join(f", {way} {ms:.3f} ms" for way, ms in row["ms"].items())
    more = "".join(f"\n    {way} FAILED {text.splitlines()[0][:160]}" for way, text in row.get("exceptions", {}).items())
    left = "".join(f"\n    left: {text[:160]}" for text in row.get("left", []))
    return f"{row['model']:18} {right}, {row.get('regions', 0)} regions{times}{more}{left}"


def parsed():
    names = lambda t: [n for n in t.split(",") if n]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=names, default=list(zoo.ENTRIES))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--ways", type=names, default=["eager", "compile", "sketchc"])
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--nested", default="eager")
    parser.add_argument("--slower", default="leave")
    parser.add_argument("--no-check", dest="check", action="store_false")
    parser.add_argument("--out", type=pathlib.Path)
    return parser.parse_args()


def main():
    options = parsed()
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    failed = 0
    for name in options.only:
        try:
            row = run(name, options)
            print(line(row), flush=True)
        except Exception as error:
            row = {"model": name, "exception": f"{type(error).__name__}: {str(error)[-600:]}"}
            print(f"{name:18} FAILED {row['exception'].splitlines()[0][:200]}", flush=True)
        failed += "exception" in row or "exceptions" in row or row.get("bound", {}).get("sketchc", 0) > 1
        if options.out:
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
