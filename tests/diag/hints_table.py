"""Walks frontend/hints.def: each hint is followed, visibly, or reported with the reason.

A row of CASES holds the hint's line and what shows that it counts:
  changes   the code differs from the one without the hint, and --strict-hints takes it
  holds     --strict-hints takes it (a place that cannot be missed)
  reported  a note with that reason, an error under --strict-hints, and no word of it in the sketch
            `holds_in`, where it is true of the tile
A row of the table without a case fails.

Use: hints_table.py hints.def sketchc"""
import os
import re
import subprocess
import sys
import tempfile

LOOPS = """sketch s {
    symbols: M, N, K;
    tensors: A[M, K]: f16; B[K, N]: f16; C[M, N]: f32;

    OUTER
    for i in range(0, ceil(M, 64)):
        @llm_hint("parallel")
        for j in range(0, ceil(N, 64)):
            c = alloc([64, 64], init=0, dtype=f32)
            INNER
            for k in range(0, ceil(K, 32)):
                a = alloc([64, 32])
                b = alloc([32, 64])
                load(A[i*64:(i+1)*64, k*32:(k+1)*32] -> a)
                load(B[k*32:(k+1)*32, j*64:(j+1)*64] -> b)
                gemm(a, b, c)
            store(c -> C[i*64:(i+1)*64, j*64:(j+1)*64])
}
"""
ROWS = """sketch s {
    symbols: M;
    tensors: X[M, 64]: f32; Y[M, 64]: f32; Z[M]: f32;

    @llm_hint("parallel", "grididx.x")
    for i in range(0, ceil(M, 8)):
        x = alloc([8, 64]IN)
        t = alloc([8, 64]TEMP)
        z = alloc([8], init=0SUM)
        load(X[i*8:(i+1)*8, :] -> x)
        mul(x, 2, t)
        store(t -> Y[i*8:(i+1)*8, :])
        for k in range(3):
            s = sum(t, axis=1)
            add(z, s, z)
        store(z -> Z[i*8:(i+1)*8])
}
"""
MEMORY = """sketch s {
    symbols: M;
    tensors: X[M]: f32; Y[M]: f32;

    w = alloc([M], dtype=f32HINT)
    for i in range(0, ceil(M, 64)):
        x = alloc([64])
        load(X[i*64:(i+1)*64] -> x)
        store(x -> w[i*64:(i+1)*64])
    for i in range(0, ceil(M, 64)):
        y = alloc([64])
        load(w[i*64:(i+1)*64] -> y)
        store(y -> Y[i*64:(i+1)*64])
}
"""
WORKSPACE = "the tile is a workspace, in global memory"


def loop(where, hint):
    def source(hinted):
        lines = {"OUTER": "", "INNER": ""}
        lines[where] = f"@llm_hint({hint})" if hinted else ""
        if where == "INNER":
            lines["OUTER"] = '@llm_hint("parallel")'
        return re.sub("OUTER|INNER", lambda m: lines[m[0]], LOOPS)

    return source


def parallel(hint):
    """The outer loop; without the hint it is told to run in order."""
    return lambda hinted: loop("OUTER", hint if hinted else '"unroll", factor=1')(True)


def alloc(text, slot, name):
    def source(hinted):
        text_of = f', llm_hint="{name}"' if hinted else ""
        return re.sub("IN\\)|TEMP\\)|SUM\\)|HINT\\)",
                      lambda m: (text_of if m[0] == slot + ")" else "") + ")", text)

    return source


def context(name):
    return loop("OUTER", f'"parallel", "{name}"')


def place(name):
    return ("reported", "cuda", alloc(MEMORY, "HINT", name), WORKSPACE, alloc(ROWS, "IN", name))


def role(name, wrong, reason, right, target="cuda"):
    return ("reported", target, alloc(ROWS, wrong, name), reason, alloc(*right, name))


AXIS = "share the tiles of the body"
CASES = {
    "parallel": ("changes", "cuda", parallel('"parallel"')),
    "pipeline": ("changes", "cuda", loop("INNER", '"pipeline", stages=4')),
    "unroll": ("changes", "cuda", loop("INNER", '"unroll", factor=4')),
    "swizzle": ("changes", "cuda", loop("OUTER", '"swizzle", group=4')),
    "vectorize": ("reported", "cuda", loop("INNER", '"vectorize", width=4'), "layouts and alignment"),
    "split_k": ("reported", "cuda", loop("INNER", '"split_k", factor=4'), "parts of K follow"),
    "cluster": ("reported", "cuda", loop("OUTER", '"cluster", size=2'), "do not form clusters"),
    "persistent": ("reported", "cuda", loop("OUTER", '"persistent"'), "only gemms whose factors the copy engine brings"),
    "grididx": ("changes", "cuda", parallel('"parallel", "grididx.x"')),
    "coreidx": ("changes", "openmp", parallel('"parallel", "coreidx"')),
    "threadidx": ("reported", "cuda", context("threadidx"), AXIS),
    "warp": ("reported", "cuda", context("warp"), AXIS),
    "simd": ("reported", "cuda", context("simd"), AXIS),
    "fastest": place("fastest"),
    "l0c": place("l0c"),
    "fast": place("fast"),
    "l1_buffer": place("l1_buffer"),
    "ub": place("ub"),
    "medium": place("medium"),
    "slow": ("holds", "cuda", alloc(MEMORY, "HINT", "slow")),
    "accumulator": role("accumulator", "TEMP", "no loop updates the tile", (ROWS, "SUM")),
    "input_cache": role("input_cache", "TEMP", "no load fills the tile", (ROWS, "IN")),
    "output_buffer": role("output_buffer", "IN", "the tile is not stored", (ROWS, "TEMP")),
    "temp_workspace": role("temp_workspace", "SUM", "lives through all iterations", (ROWS, "TEMP")),
    "shared_between_threads": role("shared_between_threads", "TEMP", "a core keeps its tiles",
                                   (MEMORY, "HINT"), "openmp"),
}


class Compiler:
    def __init__(self, sketchc, folder):
        self.sketchc, self.folder = sketchc, folder

    def run(self, source, target, *options):
        path, out = os.path.join(self.folder, "s.sketch"), os.path.join(self.folder, "out")
        with open(path, "w") as f:
            f.write(source)
        done = subprocess.run([self.sketchc, path, "-t", target, "-o", out, *options],
                              capture_output=True, text=True, timeout=120)
        code = ""
        if done.returncode == 0:
            with open(out) as f:
                code = "".join(line for line in f if not line.startswith("//"))
        return done.returncode, code, done.stderr


def about(stderr, name, reason):
    return any(f'hint "{name}" is not followed' in line and reason in line for line in stderr.splitlines())


def check(compiler, name, kind, target, source, reason="", holds_in=None):
    """What is wrong with the row, or nothing."""
    rc, code, stderr = compiler.run(source(True), target)
    strict, _, refusal = compiler.run(source(True), target, "--strict-hints")
    if rc != 0:
        return f"does not compile: {stderr}"
    if kind == "reported":
        if not about(stderr, name, reason) or strict == 0 or "error[E0610]" not in refusal:
            return f"is not reported for {reason!r}: {stderr}{refusal}"
        held = compiler.run(holds_in(True), target, "--strict-hints") if holds_in else (0, "", "")
        return f"is reported where it holds: {held[2]}" if held[0] else ""
    if strict != 0:
        return f"is not followed: {refusal}"
    if kind == "changes" and compiler.run(source(False), target)[1] == code:
        return "changes nothing in the code"
    return ""


def main():
    table, sketchc = sys.argv[1:]
    with open(table) as f:
        names = re.findall(r'^(?:LOOP_HINT|PARALLEL_CONTEXT)\(\w+, "(\w+)"|^ALLOC_HINT\("(\w+)"', f.read(), re.M)
    names = [a or b for a, b in names]
    failures = [f"{n}: no such row of the table" for n in CASES if n not in names]
    with tempfile.TemporaryDirectory() as folder:
        compiler = Compiler(sketchc, folder)
        for name in names:
            fault = check(compiler, name, *CASES[name]) if name in CASES else "has no case in this test"
            if fault:
                failures.append(f"{name}: {fault}")
    print(f"{len(names)} hints, {len(failures)} failures")
    print("\n".join(failures))
    return 1 if failures or len(names) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
