#!/usr/bin/env python3
"""Several operators in one without a sketch (operators_fused/): what the compiler designs beside PyTorch eager and torch.compile.

    operators_fused.py OUT.json SKETCHC [OLDER_SKETCHC...]     on a machine with a GPU and PyTorch

Times are medians in seconds, the L2 cache flushed by reading before each launch on both sides; null: refused, wrong, or not done in
LIMIT_S. PyTorch's f32 products are full f32 (its default), f16 ones f16."""
import json
import pathlib
import re
import statistics
import subprocess
import sys

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S, SAMPLES, FLUSH_BYTES = 60, 20, 256 << 20


def rand(*shape, dtype=torch.float32, scale=1.0):
    return (torch.randn(*shape, device="cuda") * scale).to(dtype)


def half(*shape, scale=1.0):
    return rand(*shape, dtype=torch.float16, scale=scale)


def gate(x, w):
    v, i = torch.topk(torch.softmax((x @ w).float(), 1), 2, 1)
    return v / v.sum(1, keepdim=True), i


def norm_concat_pool(x, s, z):
    return torch.cat((x, F.batch_norm(x, None, None, s, z, training=True)), 1), F.avg_pool2d(x, 2)


def group_norm_swish(a, b, w, z, s):
    return F.silu(F.silu(F.group_norm(a @ b, 256, w, z)) * s)


EAGER = {
    "batch_norm_concat_pool": (norm_concat_pool, lambda: (rand(32, 64, 128, 128), rand(64), rand(64))),
    "conv_map": (lambda x, f, z, r: F.relu(F.conv2d(x, f, z, padding=1)) + r,
                 lambda: (rand(16, 64, 128, 128), rand(128, 64, 3, 3, scale=0.05), rand(128), rand(16, 128, 128, 128))),
    "gemm_gelu_softmax": (lambda a, b, c: torch.softmax(F.gelu(a @ b + c), 1),
                          lambda: (rand(1024, 8192), rand(8192, 8192, scale=0.01), rand(8192))),
    "gemm_group_norm_swish": (group_norm_swish, lambda: (rand(1024, 8192), rand(8192, 8192, scale=0.01), rand(8192), rand(8192), rand(8192))),
    "layer_norm_linear": (lambda x, w, z, b, c: F.linear(F.layer_norm(x, (1024,), w, z), b, c),
                          lambda: (rand(8192, 1024), rand(1024), rand(1024), rand(1024, 1024, scale=0.03), rand(1024))),
    "moe_gate": (gate, lambda: (half(16384, 4096), half(4096, 64, scale=0.02))),
    "product_map": (lambda a, b, c, r: F.gelu((a @ b).float() + c) + r,
                    lambda: (half(4096, 1024), half(1024, 4096, scale=0.05), rand(4096), rand(4096, 4096))),
    "rms_norm_linear": (lambda x, w, b: (F.rms_norm(x, (4096,), w) @ b).float(),
                        lambda: (half(4096, 4096), half(4096), half(4096, 4096, scale=0.02))),
    "softmax_cross_entropy": (lambda x, t: (torch.softmax(x, 1), F.cross_entropy(x, t, reduction="none")),
                              lambda: (rand(16384, 4096, scale=2), torch.randint(0, 4096, (16384,), device="cuda"))),
}


def time_torch(call, inputs):
    flush = torch.empty(FLUSH_BYTES // 4, device="cuda")
    for _ in range(3):
        call(*inputs)
    times = []
    for _ in range(SAMPLES):
        flush.sum()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call(*inputs)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def time_ours(sketchc, file):
    try:
        done = subprocess.run([sketchc, "bench", file, "-t", "nvptx", "--case=full", f"--samples={SAMPLES}", "--json", "-q"],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    found = re.search(r'"median_s": ?([0-9.eE+-]+)', done.stdout)
    return float(found[1]) if done.returncode == 0 and found else None


def main():
    out, *compilers = sys.argv[1:]
    result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "samples": SAMPLES, "operators": []}
    for name, (call, make) in EAGER.items():
        inputs = make()
        row = {"name": name, "ours": [time_ours(c, HERE / "operators_fused" / f"{name}.sketch") for c in compilers],
               "eager": time_torch(call, inputs), "compile": time_torch(torch.compile(call), inputs)}
        result["operators"].append(row)
        print(name, row["ours"], row["eager"], row["compile"], flush=True)
        del inputs
        torch.cuda.empty_cache()
    pathlib.Path(out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
