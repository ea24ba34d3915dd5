#!/usr/bin/env python3
"""Products of matrices on a GPU where PyTorch is installed: kernels by PTX and by CUDA C and what PyTorch calls (cuBLAS,
cuBLASLt), in one process, in turn; every result compared with PyTorch's.

    gemm.py SKETCHC LIBSKETCHC OUT.json [--only WORD,...] [--rounds 20] [--seconds 150] [--arch sm_90a] [--also TARGET.json]
            [--shapes NAME,...]
    gemm.py --write FOLDER          the sketches alone

Factors are small integers first, whose sums are exact: results must be equal bit for bit. Then they are normal (bytes: all
values); the error of both against float64 is told, and both are timed: a sample is a row of launches of about 2 ms, candidates in
turn, their order turned each round. --also: once more through PTX for that target document (form "also"). Figures are medians over the rounds; the share of the baseline is the median of the
rounds' shares."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from timing import in_turn

FORMS = {"ptx": "nvptx", "cu": "cuda"}
BURST = 2e-3  # seconds

SKETCH = """# Made by bench/gemm.py.
operator {name} {{
    symbols: M, N, K;
    tensors: A[{a}]: {dtype}; B[{b}]: {dtype}; C[M, N]: {result};
{precision}    C = matmul(A, B{flags})
    case small {{ M=200, N=136, K=136; A: {data}; B: {data} }}
    case even {{ M=384, N=512, K=640; A: {data}; B: {data} }}
}}
sketch {name}_tiled implements {name} {{
    symbols: M, N, K;
    tensors: A[{a}]: {dtype}; B[{b}]: {dtype}; C[M, N]: {result};
    constexpr: BM = {tile[0]}; BN = {tile[1]}; BK = {tile[2]};
    @llm_hint("parallel", "grididx.y")
{swizzle}    for i in range(0, ceil(M, BM)):
        @llm_hint("parallel", "grididx.x")
        for j in range(0, ceil(N, BN)):
            acc = alloc([BM, BN], dtype={sums}, init=0)
            @llm_hint("pipeline", stages={stages})
            for k in range(0, ceil(K, BK)):
                a = alloc([{ta}])
                b = alloc([{tb}])
                load(A[{sa}] -> a)
                load(B[{sb}] -> b)
                gemm(a, b, acc{flags}{asked})
            store(acc -> C[i*BM:(i+1)*BM, j*BN:(j+1)*BN])
}}
"""


def product(dtype, order, tile, sizes, result=None, stages=4, swizzle=0, arch="", name=""):
    """order: n or t for each factor; swizzle: 0: the compiler's choice; name: what tells it from the others."""
    result = result or dtype
    name = "_".join(filter(None, [dtype, order, f"to_{result}" if result != dtype else "", name, arch]))
    return {"name": name, "dtype": dtype, "order": order, "tile": tile, "sizes": sizes, "result": result, "stages": stages,
            "swizzle": swizzle, "arch": arch}


BOTH = (4096, 8192)
PRODUCTS = [
    *[product(d, o, (128, 256, 64), BOTH) for d in ("f16", "bf16") for o in ("nn", "nt", "tn", "tt")],
    *[product("f16", "nt", (128, 256, 64), BOTH, swizzle=s, name=f"group{s}") for s in (8, 16)],
    *[product("f16", o, (128, 256, 64), BOTH, result="f32") for o in ("nn", "nt")],
    product("f16", "nn", (128, 128, 32), (4096,), stages=3, arch="sm_80"),
    product("bf16", "nt", (128, 128, 32), (4096,), stages=3, arch="sm_80"),
    product("i8", "nt", (128, 128, 64), (4096,), result="i32", stages=3, arch="sm_80"),
    product("f8e4m3", "nt", (128, 256, 128), BOTH, result="bf16"),
    product("f8e4m3", "nt", (128, 128, 128), BOTH, result="bf16", name="tile128"),
    product("i8", "nt", (128, 256, 128), BOTH, result="i32"),
    product("i8", "nt", (128, 128, 128), BOTH, result="i32", name="tile128"),
]
# Tiles of 128 x 256: 131, 132, 133, 264 and 265 of them, from 1 to 5 and more steps of 64 along k; then ragged ones and such whose rows are
# not 16-byte aligned.
SHAPES = [(128 * tiles, 256, k) for tiles in (131, 132, 133, 264, 265) for k in (16, 64, 128, 192, 256, 320)]
SHAPES += [(128 * 133 - 5, 504, k) for k in (48, 144, 272)] + [(4000, 4016, 80), (777, 1040, 1040), (300, 333, 77), (1, 16, 16)]


def text_of(p):
    swap = [letter == "t" for letter in p["order"]]
    slices = {"M": "i*BM:(i+1)*BM", "N": "j*BN:(j+1)*BN", "K": "k*BK:(k+1)*BK"}
    axes = ["KM" if swap[0] else "MK", "NK" if swap[1] else "KN"]
    shape, tile, cut = ([", ".join(form(letter) for letter in pair) for pair in axes]
                        for form in (str, lambda letter: "B" + letter, slices.get))
    flags = (", trans_a=true" if swap[0] else "") + (", trans_b=true" if swap[1] else "")
    narrow = p["dtype"].startswith("f8")
    return SKETCH.format(
        name=p["name"], dtype=p["dtype"], result=p["result"], tile=p["tile"], stages=p["stages"], flags=flags,
        precision="    precision: f8;\n" if narrow else "", asked=", precision=f8" if narrow else "",
        data="randint(-128, 128)" if p["dtype"] == "i8" else "normal(0, 1)", sums="i32" if p["dtype"] == "i8" else "f32",
        swizzle=f"    @llm_hint(\"swizzle\", group={p['swizzle']})\n" if p["swizzle"] else "",
        a=shape[0], b=shape[1], ta=tile[0], tb=tile[1], sa=cut[0], sb=cut[1])


def write_sketches(products, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for p in products:
        (folder / f"{p['name']}.sketch").write_text(text_of(p))


class Run:
    def __init__(self, options):
        global torch, Kernel, Library
        import torch
        from kernel import Kernel, Library
        self.options, self.began = options, time.time()
        self.library = Library(options.library)
        self.forms = {**FORMS, **({"also": "nvptx"} if options.also else {})}
        self.loads = {}
        self.types = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "i8": torch.int8, "i32": torch.int32,
                      "f8e4m3": torch.float8_e4m3fn}
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False

    # ---- Code ----

    def compile(self, products, folder):
        """Starts compiling and loading all; what takes the longest (emulated 8-bit floats) first."""
        write_sketches(products, folder)
        pool = concurrent.futures.ThreadPoolExecutor(14)
        for p in sorted(products, key=lambda p: not p["dtype"].startswith("f8")):
            self.loads[p["name"]] = {form: pool.submit(self.load, p, form, folder) for form in self.forms if form != "also" or not p["arch"]}

    def load(self, p, form, folder):
        out = folder / f"{p['name']}.{form}.ska"
        target = [f"--target-file={self.options.also}"] if form == "also" else [f"--arch={p['arch'] or self.options.arch}"]
        command = [self.options.sketchc, folder / f"{p['name']}.sketch", "-t", self.forms[form], "-q", "--emit=artifact", *target, "-o", out]
        if not self.options.made or not out.exists():
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError("not compiled: " + done.stderr[-300:])
        sizes = (256, 256, 256)
        self.open(p, form, sizes, *self.factors(p, sizes, False), torch.empty(sizes[:2], device="cuda", dtype=self.types[p["result"]])).close()

    def ready(self, p):
        return [load.done() and not load.exception() for load in self.loads[p["name"]].values()]

    def wait(self, products):
        for p in products:
            for load in self.loads[p["name"]].values():
                concurrent.futures.wait([load], max(1, self.began + self.options.seconds - time.time()))
        print(f"{len(products)} products loaded after {time.time() - self.began:.1f} s", flush=True)

    def open(self, p, form, sizes, a, b, c):
        artifact = self.library.read(self.options.folder / f"{p['name']}.{form}.ska")
        return Kernel(self.library, artifact, dict(zip("MNK", sizes)), {"A": a, "B": b, "C": c}, {})

    # ---- Data ----

    def factors(self, p, sizes, exact):
        torch.manual_seed(sum(sizes))
        m, n, k = sizes
        made = []
        for shape in ((k, m) if p["order"][0] == "t" else (m, k), (n, k) if p["order"][1] == "t" else (k, n)):
            if p["dtype"] == "i8":
                made.append(torch.randint(-128, 128, shape, device="cuda", dtype=torch.int8))
            else:
                x = torch.randint(-2, 3, shape, device="cuda").float() if exact else torch.randn(shape, device="cuda")
                made.append(x.to(self.types[p["dtype"]]))
        return made

    def baseline(self, p, a, b):
        left, right = (x.t() if letter == "t" else x for x, letter in zip((a, b), p["order"]))
        if p["dtype"] == "i8":
            return lambda: torch._int_mm(left, right)
        if p["dtype"] == "f8e4m3":
            one = torch.ones((), device="cuda")
            return lambda: torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=self.types[p["result"]], use_fast_accum=True)
        if p["result"] != p["dtype"]:
            return lambda: torch.mm(left, right, out_dtype=self.types[p["result"]])
        return lambda: torch.matmul(left, right)

    def error(self, p, a, b, results):
        """Frobenius norm of each result's error over that of the product in float64."""
        left, right = (x.double().t() if letter == "t" else x.double() for x, letter in zip((a, b), p["order"]))
        want = left @ right
        norm = want.norm()
        return {name: float((r.double() - want).norm() / norm) for name, r in results.items()}

    # ---- One product ----

    def measure(self, p, side):
        entry = {**{k: p[k] for k in ("name", "dtype", "order", "tile", "result", "stages", "swizzle")}, "arch": p["arch"] or self.options.arch,
                 "side": side, "kernels": {}}
        sizes = (side, side, side)
        a, b = self.factors(p, sizes, True)
        calls = {"baseline": self.baseline(p, a, b)}
        want, kernels, outputs = calls["baseline"](), {}, {}
        for form, load in self.loads[p["name"]].items():
            try:
                load.result(0)
                outputs[form] = torch.zeros_like(want)
                kernels[form] = self.open(p, form, sizes, a, b, outputs[form])
                kernels[form]()
                torch.cuda.synchronize()
            except (RuntimeError, OSError, concurrent.futures.TimeoutError) as error:
                entry["kernels"][form] = {"error": repr(error)[:300]}
                continue
            equal = bool(torch.equal(outputs[form], want))
            entry["kernels"][form] = {"equal": equal, "launches": kernels[form].info.get("launches")}
            calls[form] = kernels[form]
        for x, y in zip((a, b), self.factors(p, sizes, False)):
            x.copy_(y)
        for form, call in kernels.items():
            call()
        results = {**{form: outputs[form] for form in kernels}, "baseline": calls["baseline"]()}
        entry["same_bits"] = all(bool(torch.equal(outputs[form], results[next(iter(kernels))])) for form in kernels)
        entry["error"] = self.error(p, a, b, results)
        del want, results
        self.time(entry, calls)
        for kernel in kernels.values():
            kernel.close()
        return entry

    def shapes(self, p):
        """Results at other shapes against the exact product, through float64: all sums here are whole numbers."""
        odd = []
        for sizes in SHAPES:
            a, b = self.factors(p, sizes, True)
            left, right = (x.double().t() if letter == "t" else x.double() for x, letter in zip((a, b), p["order"]))
            want = (left @ right).to(self.types[p["result"]])
            for form in FORMS:
                c = torch.full_like(want, 77)
                kernel = self.open(p, form, sizes, a, b, c)
                kernel()
                torch.cuda.synchronize()
                kernel.close()
                if not torch.equal(c, want):
                    odd.append(f"{form} {sizes}: {int((c != want).sum())} of {c.numel()} differ")
        print(f"{p['name']} at {len(SHAPES)} shapes: {odd or 'equal'}", flush=True)
        return {"name": p["name"], "shapes": SHAPES, "differ": odd}

    def time(self, entry, calls):
        times = in_turn(torch, calls, BURST, self.options.rounds, first=3)
        work = 2 * entry["side"] ** 3
        entry["samples"] = {name: [round(t, 9) for t in ts] for name, ts in times.items()}
        entry["tflop_per_s"] = {name: work / statistics.median(ts) * 1e-12 for name, ts in times.items()}
        entry["share"] = {name: statistics.median(s / t for s, t in zip(times["baseline"], ts)) for name, ts in times.items()}


def line(e):
    text = f"{e['side']} {e['name']:24}"
    for name, rate in e["tflop_per_s"].items():
        text += f" {name} {rate:7.1f}" + (f" ({e['share'][name]:.3f})" if name != "baseline" else "")
    kernels = {**e["kernels"]}
    text += "".join(f" {form} {'equal' if k.get('equal') else k.get('error', 'DIFFERENT')}" for form, k in kernels.items())
    text += " same bits" if e.get("same_bits") else " BITS DIFFER"
    return text + " error " + " ".join(f"{n} {v:.2e}" for n, v in e["error"].items())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("sketchc", nargs="?")
    parser.add_argument("library", nargs="?", type=pathlib.Path)
    parser.add_argument("out", nargs="?", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--shapes", default="", help="products, by whole names, that are compared at other shapes, too")
    parser.add_argument("--also", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("gemm"), help="where sketches and artifacts go")
    parser.add_argument("--made", action="store_true", help="artifacts that lie in the folder are taken as they are")
    options = parser.parse_args()
    products = [p for p in PRODUCTS if not options.only or any(word in p["name"] for word in options.only.split(","))]
    if options.write:
        write_sketches(products, options.write)
        return 0
    run = Run(options)
    run.compile(products, options.folder)
    entries, left = [], []
    slow = [p for p in products if p["dtype"].startswith("f8")]
    fast = [p for p in products if p not in slow]
    order = [(side, p) for group in (fast, slow) for side in BOTH for p in group if side in p["sizes"]]
    run.wait(fast)
    for side, p in order:
        if slow and p is slow[0] and side == BOTH[0]:
            run.wait(slow)
        if time.time() - run.began > options.seconds:
            left.append(f"{side} {p['name']}")
            continue
        try:
            entries.append(run.measure(p, side))
            print(line(entries[-1]), flush=True)
        except Exception as error:  # one product does not end the run
            entries.append({"name": p["name"], "side": side, "error": repr(error)[:500], "kernels": {}})
            print(side, p["name"], "failed:", repr(error)[:300], flush=True)
        torch.cuda.empty_cache()
    shapes = []
    for name in filter(None, options.shapes.split(",")):
        p = next((p for p in products if p["name"] == name), None)
        if not p or time.time() - run.began > options.seconds or not all(run.ready(p)):
            left.append(f"other shapes of {name}")
        else:
            try:
                shapes.append(run.shapes(p))
            except RuntimeError as error:
                shapes.append({"name": p["name"], "differ": [str(error)]})
                print(p["name"], "at other shapes:", str(error)[:300], flush=True)
    result = {"format": "sketchc.gemm 1", "device": torch.cuda.get_device_name(), "torch": torch.__version__,
              "sketchc": run.library.c.sketchc_version().decode(), "left_out": left, "products": entries, "shapes": shapes}
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    wrong = [f"{e['side']} {e['name']}" for e in entries
             if not e.get("same_bits") or not all(k.get("equal") for k in e["kernels"].values())]
    wrong += [s["name"] for s in shapes if s["differ"]]
    print(f"{len(entries)} products, {len(shapes)} at other shapes, not verified: {wrong or 'none'}, left out: {left or 'none'}, {time.time() - run.began:.0f} s")
    sys.stdout.flush()
    os._exit(1 if wrong else 0)  # what still loads is left


if __name__ == "__main__":
    sys.exit(main())
