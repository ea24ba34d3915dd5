"""times.py LIBRARY: each variant of multicast.cu: results against cuBLAS's, clusters at once, multiprocessors in use; then all in turn."""
import ctypes
import statistics
import sys

import torch

NAMES = ["block", "B", "B, arrivals", "B later, arrivals", "B by warps, arrivals", "B by warps later, arrivals", "B, arrivals and waits",
         "B later, arrivals and waits", "B by warps, arrivals and waits", "B by warps later, arrivals and waits", "A by warps, arrivals and waits",
         "A by warps later, arrivals and waits", "cluster alone"]
library = ctypes.CDLL(sys.argv[1])
stream = torch.cuda.current_stream().cuda_stream
clusters = ctypes.c_int(0)


def call(variant, a, b, c, seen=None):
    pointers = [ctypes.c_void_p(x.data_ptr()) if x is not None else None for x in (a, b, c)]
    status = library.run(variant, *pointers, a.shape[0], b.shape[0], a.shape[1], ctypes.c_void_p(seen.data_ptr() if seen is not None else 0), -1,
                         ctypes.byref(clusters), ctypes.c_void_p(stream))
    if status:
        raise RuntimeError(f"{NAMES[variant]}: status {status}")


def once(elapsed, f, repeat):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    f()
    begin.record()
    for _ in range(repeat):
        f()
    end.record()
    end.synchronize()
    elapsed.append(begin.elapsed_time(end) / repeat)


for size in (4096, 8192):
    a, b = (torch.randn(size, size, device="cuda").half() for _ in range(2))
    c = torch.empty(size, size, device="cuda", dtype=torch.half)
    want = a @ b.T
    for variant, name in enumerate(NAMES):
        seen = torch.zeros(264, dtype=torch.int64, device="cuda")
        c.zero_()
        call(variant, a, b, c, seen)
        torch.cuda.synchronize()
        used = len({place for place, _ in seen.view(132, 2).tolist()})
        right = bool((c.float() - want.float()).abs().max() < 1)
        print(f"{size} {name:38} {'right' if right else 'WRONG'}, {clusters.value} clusters at once, {used} multiprocessors", flush=True)
    forms = {"cuBLAS": lambda: torch.matmul(a, b.T, out=c), **{name: lambda v=v: call(v, a, b, c) for v, name in enumerate(NAMES)}}
    times = {name: [] for name in forms}
    for r in range(10):
        for name in list(forms)[::1 if r % 2 else -1]:
            once(times[name], forms[name], 10 if size == 4096 else 2)
    for name, ts in times.items():
        share = statistics.median(x / y for x, y in zip(times["cuBLAS"], ts))
        print(f"{size} {name:38} {statistics.median(ts) * 1e3:8.1f} us, {share:.3f} of cuBLAS", flush=True)
