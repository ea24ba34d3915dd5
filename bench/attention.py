#!/usr/bin/env python3
"""Attention on a GPU where PyTorch is installed: kernels by PTX and by CUDA C and the backends of scaled_dot_product_attention, in one
process, in turn; results compared with attention in f32.

    attention.py SKETCHC LIBSKETCHC OUT.json [--only WORD,...] [--rounds 12] [--seconds 200] [--arch sm_90a] [--folder FOLDER] [--made]
    attention.py --write FOLDER     the sketches alone

4 batches of 32 heads of 4096 rows, heads of 64 to 256, f16 and bf16, all rows or those up to one's own (causal), tiles and stages by
name: bf16_128_causal_128x64_2 is head 128, tiles of 128 rows and 64 columns, 2 stages. A result is right when its largest difference
from attention in f32 is at most twice that of the worst backend. The share is the fastest backend's time over the kernel's, median over the rounds.
--made: artifacts that lie in the folder are taken as they are."""
import argparse
import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import sys
import time

from timing import in_turn

FORMS = {"ptx": "nvptx", "cu": "cuda"}
HEADS, ROWS = 4 * 32, 4096
BURST = 4e-3  # seconds

SKETCH = """# Made by bench/attention.py.
operator {name} {{
    symbols: H, S, D, D <= {head};
    tensors: Q[H, S, D]: {dtype}; K[H, S, D]: {dtype}; V[H, S, D]: {dtype}; O[H, S, D]: {dtype};
    A = matmul(Q, K, trans_b=true) / sqrt(D)
{masked}    O = matmul(cast(softmax({scores}, axis=2), dtype={dtype}), V)
    case small {{ H=2, S=33, D={head}; Q: normal(0, 1); K: normal(0, 1); V: normal(0, 1) }}
    case full {{ H=128, S=4096, D={head}; Q: normal(0, 1); K: normal(0, 1); V: normal(0, 1) }}
}}
sketch {name}_online implements {name} {{
    symbols: H, S, D, D <= {head};
    tensors: Q[H, S, D]: {dtype}; K[H, S, D]: {dtype}; V[H, S, D]: {dtype}; O[H, S, D]: {dtype};
    constexpr: BM = {rows}, BN = {columns}, BD = {head};
    @llm_hint("parallel", "grididx.y")
    for h in range(H):
        @llm_hint("parallel", "grididx.x")
        for i in range(0, ceil(S, BM)):
            q = alloc([BM, BD])
            load(Q[h, i*BM:(i+1)*BM, 0:BD] -> q)
            peak = alloc([BM, 1], init=-1e30)
            total = alloc([BM, 1], init=0)
            out = alloc([BM, BD], init=0)
            @llm_hint("pipeline", stages={stages})
            for j in range(0, {bound}):
                k = alloc([BN, BD])
                v = alloc([BN, BD])
                load(K[h, j*BN:(j+1)*BN, 0:BD] -> k)
                load(V[h, j*BN:(j+1)*BN, 0:BD] -> v)
                s = alloc([BM, BN], init=0)
                gemm(q, k, s, trans_b=true)
{mask}                s = s * (1.4426950408889634 / sqrt(D))
                higher = max(peak, reduce_max(s, axis=1, keepdim=true))
                scale = exp2(peak - higher)
                p = exp2(s - higher)
                total = total * scale + reduce_sum(p, axis=1, keepdim=true)
                out = out * scale
                w = cast(p, dtype={dtype})
                gemm(w, v, out)
                peak = higher
            y = out / total
            store(y -> O[h, i*BM:(i+1)*BM, 0:BD])
}}
"""
MASKED = "    M = where(iota([S, S], axis=1) <= iota([S, S], axis=0), A, -inf)\n"
MASK = """                row = iota([BM, BN], axis=0) + i * BM
                column = iota([BM, BN], axis=1) + j * BN
                s = where(column <= row, s, -inf)
"""
TILES = {128: ((128, 64, 2), (128, 64, 3), (128, 96, 3), (128, 128, 2), (128, 128, 3), (64, 64, 3)), 256: ((128, 64, 2), (128, 80, 2)), 96: ((128, 128, 3),), 64: ((128, 64, 3), (128, 64, 4), (128, 128, 3))}
PROBLEMS = [{"dtype": dtype, "head": head, "causal": causal, "tile": tile,
             "name": f"{dtype}_{head}_{'causal' if causal else 'all'}_{tile[0]}x{tile[1]}_{tile[2]}"}
            for dtype, head in (("bf16", 128), ("f16", 64), ("bf16", 256), ("bf16", 96)) for causal in (False, True) for tile in TILES[head]]


def text_of(p):
    rows, columns, stages = p["tile"]
    causal = p["causal"]
    bound = "min(ceil(S, BN), ceil((i + 1) * BM, BN))" if causal else "ceil(S, BN)"
    return SKETCH.format(name="attention_" + p["name"], dtype=p["dtype"], head=p["head"], rows=rows, columns=columns, stages=stages,
                         bound=bound, mask=MASK if causal else "", masked=MASKED if causal else "", scores="M" if causal else "A")


def write_sketches(problems, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for p in problems:
        (folder / f"{p['name']}.sketch").write_text(text_of(p))


class Run:
    def __init__(self, options):
        global torch, Kernel, Library
        import torch
        from kernel import Kernel, Library
        self.options, self.library = options, Library(options.library)
        self.types = {"f16": torch.float16, "bf16": torch.bfloat16}

    def compile(self, p, form):
        out = self.options.folder / f"{p['name']}.{form}.ska"
        if not self.options.made or not out.exists():
            command = [self.options.sketchc, self.options.folder / f"{p['name']}.sketch", "-t", FORMS[form], f"--arch={self.options.arch}", "-q",
                       "--emit=artifact", "-o", out]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError("not compiled: " + done.stderr[-300:])
        return self.library.read(out)

    def backends(self, p, tensors):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        q, k, v = (t.reshape(4, 32, ROWS, p["head"]) for t in tensors)

        def call(backend):
            def run():
                with sdpa_kernel(backend):
                    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=p["causal"])
            return run

        found = {}
        for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION), ("efficient", SDPBackend.EFFICIENT_ATTENTION)):
            try:
                call(backend)()
                found[name] = call(backend)
            except RuntimeError as error:
                print(f"{p['name']}: no {name}: {str(error)[:100]}")
        if not found:
            raise RuntimeError("no backend of scaled_dot_product_attention takes this problem")
        return found

    def reference(self, p, tensors):
        """In f32, the weights rounded as the operator rounds them, a head at a time."""
        q, k, v = tensors
        out = torch.empty(q.shape, device="cuda")
        later = torch.ones(ROWS, ROWS, device="cuda", dtype=torch.bool).triu(1) if p["causal"] else None
        for h in range(q.shape[0]):
            scores = q[h].float() @ k[h].float().t() / p["head"] ** 0.5
            if later is not None:
                scores.masked_fill_(later, float("-inf"))
            out[h] = torch.softmax(scores, 1).to(q.dtype).float() @ v[h].float()
        return out

    def measure(self, p, loads):
        torch.manual_seed(p["head"])
        tensors = [torch.randn(HEADS, ROWS, p["head"], device="cuda").to(self.types[p["dtype"]]) for _ in range(3)]
        calls = self.backends(p, tensors)
        bases, outputs, kernels = list(calls), {}, {}
        entry = {**p, "kernels": {}}
        for form, load in loads.items():
            try:
                outputs[form] = torch.full_like(tensors[0], float("nan"))
                named = {**dict(zip("QKV", tensors)), "O": outputs[form]}
                kernels[form] = calls[form] = Kernel(self.library, load.result(), {"H": HEADS, "S": ROWS, "D": p["head"]}, named, {})
                calls[form]()
                torch.cuda.synchronize()
            except (RuntimeError, OSError) as error:
                calls.pop(form, None)
                entry["kernels"][form] = {"error": repr(error)[:300], "right": False}
        want = self.reference(p, tensors)
        worst = {name: float((calls[name]().reshape(want.shape).float() - want).abs().max()) for name in bases}
        for form in kernels.keys() & calls.keys():
            error = float((outputs[form].float() - want).abs().max())
            entry["kernels"][form] = {"worst": error, "right": error <= 2 * max(worst.values())}
        entry["same_bits"] = len(outputs) == len(FORMS) and torch.equal(*outputs.values())
        entry["worst"] = worst
        del want
        self.time(entry, calls, bases)
        for kernel in kernels.values():
            kernel.close()
        return entry

    def time(self, entry, calls, bases):
        times = in_turn(torch, calls, BURST, self.options.rounds, first=2)
        work = 4 * HEADS * ROWS * ROWS * entry["head"] / (2 if entry["causal"] else 1)
        best = min(bases, key=lambda name: statistics.median(times[name]))
        entry["samples"] = {name: [round(t, 9) for t in ts] for name, ts in times.items()}
        entry["tflop_per_s"] = {name: work / statistics.median(ts) * 1e-12 for name, ts in times.items()}
        entry["fastest"] = best
        entry["share"] = {name: statistics.median(b / t for b, t in zip(times[best], ts)) for name, ts in times.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("sketchc", nargs="?")
    parser.add_argument("library", nargs="?", type=pathlib.Path)
    parser.add_argument("out", nargs="?", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("attention"), help="where sketches and artifacts go")
    parser.add_argument("--made", action="store_true")
    options = parser.parse_args()
    problems = [p for p in PROBLEMS if not options.only or any(word in p["name"] for word in options.only.split(","))]
    if options.write:
        write_sketches(problems, options.write)
        return 0
    if not options.out:
        parser.error("SKETCHC, LIBSKETCHC and OUT.json are needed")
    began, run = time.time(), Run(options)
    write_sketches(problems, options.folder)
    pool = concurrent.futures.ThreadPoolExecutor(14)
    loads = {p["name"]: {form: pool.submit(run.compile, p, form) for form in FORMS} for p in problems}
    entries, left = [], []
    for p in problems:
        if time.time() - began > options.seconds:
            left.append(p["name"])
            continue
        try:
            entry = run.measure(p, loads[p["name"]])
            print(p["name"], " ".join(f"{n} {r:.0f} TFLOP/s ({entry['share'][n]:.3f})" for n, r in entry["tflop_per_s"].items()),
                  "same bits" if entry["same_bits"] else "BITS DIFFER", flush=True)
        except Exception as error:  # one problem does not end the run
            entry = {**p, "error": repr(error)[:500], "kernels": {}}
            print(p["name"], "failed:", repr(error)[:300], flush=True)
        entries.append(entry)
        torch.cuda.empty_cache()
    result = {"format": "sketchc.attention 1", "device": torch.cuda.get_device_name(), "torch": torch.__version__,
              "sketchc": run.library.c.sketchc_version().decode(), "left_out": left, "problems": entries}
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    wrong = [e["name"] for e in entries if not e["kernels"] or not all(k["right"] for k in e["kernels"].values())]
    print(f"{len(entries)} problems, not right: {wrong or 'none'}, left out: {left or 'none'}, {time.time() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
