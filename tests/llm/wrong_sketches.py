#!/usr/bin/env python3
"""A model that knows the verifier and proposes wrong sketches of many kinds: none may be accepted.

    wrong_sketches.py SKETCHC

A third of the kinds, all with SKETCHC_TEST_LONG=1. The right sketch of each operator is accepted, so that a rejection means something. Each wrong one has to be
rejected by the stage that it is meant for: the compiler, the verifier, or the reading of its report."""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

OPERATORS = {
    "affine": """operator affine {
    symbols: M, N, N <= 4096;
    tensors: X[M, N]: f32; B[N]: f32; Y[M, N]: f32;
    Y = 2 * X + B
    case small { M=5, N=70; X: normal(0, 1); B: normal(0, 1) }
    case even { M=8, N=64; X: normal(0, 1); B: normal(0, 1) }
}
""",
    "rowsum": """operator rowsum {
    symbols: M, N;
    tensors: X[M, N]: f32; S[M]: f32;
    S = sum(X, axis=1)
    case small { M=5, N=70; X: normal(1, 1) }
    case even { M=64, N=256; X: normal(1, 1) }
}
""",
    "product": """operator product {
    symbols: M, N, K;
    tensors: A[M, K]: f32; B[K, N]: f32; C[M, N]: f32;
    C = A @ B
    case small { M=17, N=20, K=33; A: normal(0, 1); B: normal(0, 1) }
    case even { M=32, N=32, K=512; A: normal(0, 1); B: normal(0, 1) }
}
""",
    "softmax": """operator softmax {
    symbols: M, N;
    tensors: X[M, N]: f32; Y[M, N]: f32;
    Y = softmax(X, axis=1)
    case small { M=9, N=50; X: normal(0, 40) }
    case even { M=16, N=64; X: normal(0, 4) }
}
""",
}
AFFINE = """sketch s implements affine {
    symbols: M, N, N <= 4096;
    tensors: X[M, N]: f32; B[N]: f32; Y[M, N]: f32;
    for i in range(M):
        for j in range(ceil(N, 32)):
            x = alloc([32])
            b = alloc([32])
            load(X[i, j*32:(j+1)*32] -> x)
            load(B[j*32:(j+1)*32] -> b)
            y = 2 * x + b
            store(y -> Y[i, j*32:(j+1)*32])
}
"""
ROWSUM = """sketch s implements rowsum {
    symbols: M, N;
    tensors: X[M, N]: f32; S[M]: f32;
    for i in range(M):
        acc = alloc([32], init=0)
        for j in range(ceil(N, 32)):
            x = alloc([32])
            load(X[i, j*32:(j+1)*32] -> x, pad=0)
            acc += x
        s = sum(acc, axis=0)
        store(s -> S[i])
}
"""
PRODUCT = """sketch s implements product {
    symbols: M, N, K;
    tensors: A[M, K]: f32; B[K, N]: f32; C[M, N]: f32;
    for i in range(ceil(M, 16)):
        for j in range(ceil(N, 16)):
            acc = alloc([16, 16], init=0)
            for k in range(ceil(K, 32)):
                a = alloc([16, 32])
                b = alloc([32, 16])
                load(A[i*16:(i+1)*16, k*32:(k+1)*32] -> a)
                load(B[k*32:(k+1)*32, j*16:(j+1)*16] -> b)
                gemm(a, b, acc)
            store(acc -> C[i*16:(i+1)*16, j*16:(j+1)*16])
}
"""
SOFTMAX = """sketch s implements softmax {
    symbols: M, N;
    tensors: X[M, N]: f32; Y[M, N]: f32;
    for i in range(M):
        x = alloc([N])
        load(X[i, :] -> x)
        e = exp(x - max(x, axis=0))
        y = e / sum(e, axis=0)
        store(y -> Y[i, :])
}
"""
SOFTMAX = SOFTMAX.replace("max(x, axis=0)", "reduce_max(x, axis=0)")
GOOD = {"affine": AFFINE, "rowsum": ROWSUM, "product": PRODUCT, "softmax": SOFTMAX}


def edit(text: str, *pairs: str) -> str:
    for old, new in zip(pairs[::2], pairs[1::2]):
        assert old in text, old
        text = text.replace(old, new)
    return text


WRONG = {  # kind: (operator, sketch)
    "constant zero": ("affine", edit(AFFINE, "y = 2 * x + b", "y = 0 * x + 0 * b")),
    "input as it is": ("affine", edit(AFFINE, "y = 2 * x + b", "y = x + 0 * b")),
    "a term left out": ("affine", edit(AFFINE, "y = 2 * x + b", "y = 2 * x + 0 * b")),
    "a factor a little off": ("affine", edit(AFFINE, "2 * x", "2.00001 * x")),
    "tail left out": ("affine", edit(AFFINE, "ceil(N, 32)", "N // 32")),
    "last row left out": ("affine", edit(AFFINE, "range(M)", "range(max(M - 1, 0))")),
    "first tile only": ("affine", edit(AFFINE, "range(ceil(N, 32))", "range(min(ceil(N, 32), 1))")),
    "every other tile": ("affine", edit(AFFINE, "range(ceil(N, 32))", "range(0, ceil(N, 32), 2)")),
    "tiles of one index": ("affine", edit(AFFINE, "load(X[i, j*32:(j+1)*32] -> x)", "load(X[i, 0:32] -> x)")),
    "shifted by one": ("affine", edit(AFFINE, "load(X[i, j*32:(j+1)*32] -> x)", "load(X[i, j*32+1:(j+1)*32+1] -> x, pad=0)")),
    "rows swapped": ("affine", edit(AFFINE, "load(X[i, j*32", "load(X[M - 1 - i, j*32")),
    "half precision": ("affine", edit(AFFINE, "x = alloc([32])", "x = alloc([32], dtype=f16)")),
    "bfloat results": ("affine", edit(AFFINE, "            y = 2 * x + b", "            y = cast(2 * x + b, dtype=bf16)")),
    "right for the declared cases only": ("affine", edit(AFFINE, "            y = 2 * x + b",
                                                         "            y = 2 * x + b\n            if N != 70:\n                if N != 64:\n                    y = y * 0")),
    "cases of its own choice": ("affine", edit(AFFINE, "N <= 4096", "N <= 64")),
    "divisible sizes only": ("affine", edit(AFFINE, "N <= 4096;", "N <= 4096, N % 32 == 0;")),
    "no operator": ("affine", edit(AFFINE, " implements affine", "")),
    "an operator of its own": ("affine", "operator easy { symbols: M, N; tensors: X[M, N]: f32; Y[M, N]: f32; Y = X }\n"
                               + edit(AFFINE, "implements affine", "implements easy")),
    "the operator again, weaker": ("affine", edit(OPERATORS["affine"], "2 * X + B", "X") + edit(AFFINE, "y = 2 * x + b", "y = x + 0 * b")),
    "brace to end the block early": ("affine", edit(AFFINE, "            y = 2 * x + b", "            y = x }\noperator affine { Y = X }\nsketch t {")),
    "work in the first iteration": ("affine", edit(AFFINE, "            y = 2 * x + b", "            y = 2 * x + b\n            if j > 0:\n                y = x")),
    "writes its input": ("affine", edit(AFFINE, "            store(y -> Y[i, j*32:(j+1)*32])",
                                        "            store(y -> Y[i, j*32:(j+1)*32])\n            store(y -> X[i, j*32:(j+1)*32])")),
    "results added to what was there": ("affine", edit(AFFINE, "Y[i, j*32:(j+1)*32])", "Y[i, j*32:(j+1)*32], mode=add)")),
    "padding counted as data": ("rowsum", edit(ROWSUM, "pad=0", "pad=0.001")),
    "accumulator begins at one": ("rowsum", edit(ROWSUM, "init=0", "init=1")),
    "sum of 16 bits": ("rowsum", edit(ROWSUM, "acc = alloc([32], init=0)", "acc = alloc([32], dtype=f16, init=0)")),
    "mean for sum": ("rowsum", edit(ROWSUM, "sum(acc, axis=0)", "reduce_mean(acc, axis=0)")),
    "last tile for all": ("rowsum", edit(ROWSUM, "acc += x", "acc = x + 0 * acc")),
    "half of each row": ("rowsum", edit(ROWSUM, "range(ceil(N, 32))", "range(ceil(N, 64))")),
    "sum estimated from a sample": ("rowsum", edit(ROWSUM, "range(ceil(N, 32))", "range(min(ceil(N, 32), 2))", "s = sum(acc, axis=0)",
                                                   "s = sum(acc, axis=0) * max(ceil(N, 32), 1) / 2")),
    "race for the total": ("rowsum", edit(ROWSUM, "    for i in range(M):\n", "    @llm_hint(\"parallel\", \"coreidx\")\n    for i in range(M):\n", "store(s -> S[i])", "store(s -> S[0:1])")),
    "factors of 11 bits": ("product", edit(PRODUCT, "gemm(a, b, acc)", "gemm(a, b, acc, precision=tf32)")),
    "factors of 8 bits": ("product", edit(PRODUCT, "gemm(a, b, acc)", "gemm(a, b, acc, precision=bf16)")),
    "accumulator of 16 bits": ("product", edit(PRODUCT, "acc = alloc([16, 16], init=0)", "acc = alloc([16, 16], dtype=f16, init=0)")),
    "last part of K left out": ("product", edit(PRODUCT, "ceil(K, 32)", "K // 32")),
    "one part of K": ("product", edit(PRODUCT, "range(ceil(K, 32))", "range(min(ceil(K, 32), 1))")),
    "a tile of results left out": ("product", edit(PRODUCT, "range(ceil(N, 16))", "range(1, max(ceil(N, 16), 1))")),
    "square sizes assumed": ("product", edit(PRODUCT, "load(A[i*16:(i+1)*16, k*32:(k+1)*32] -> a)", "load(A[i*16:(i+1)*16, k*32:(k+1)*32] -> a)\n                a = a + 0", "range(ceil(M, 16))", "range(ceil(N, 16))")),
    "overflow for large inputs": ("softmax", edit(SOFTMAX, "exp(x - reduce_max(x, axis=0))", "exp(x)")),
    "no division": ("softmax", edit(SOFTMAX, "y = e / sum(e, axis=0)", "y = e / sum(x, axis=0)")),
    "maximum of the first lanes": ("softmax", edit(SOFTMAX, "y = e / sum(e, axis=0)", "y = e / sum(e * e, axis=0)")),
    "uniform weights": ("softmax", edit(SOFTMAX, "e = exp(x - reduce_max(x, axis=0))", "e = exp(0 * x)")),
}


def propose(sketchc: str, folder: pathlib.Path, name: str, operator: str, answer: str) -> tuple[dict, str]:
    home = folder / name.replace(" ", "_").replace(",", "")
    home.mkdir()
    (home / "op.sketch").write_text(OPERATORS[operator])
    (home / "answer.txt").write_text("```sketch\n" + answer + "```\n")
    env = dict(os.environ, HOME=str(home), XDG_CONFIG_HOME=str(home), XDG_DATA_HOME=str(home))
    run = subprocess.run([sketchc, "--propose", "op.sketch", "-t", "openmp", "--json", "--alone", "--candidates=1", "--repairs=0", "-q",
                          f"--proposer=command:cat {home}/answer.txt", "-o", "best.sketch"], cwd=home, env=env, capture_output=True, text=True,
                         timeout=100)
    assert run.returncode in (0, 3), (name, run.returncode, run.stderr)
    assert (run.returncode == 0) == (home / "best.sketch").exists(), name
    return json.loads(run.stdout)["candidates"][0], run.stderr


def main() -> int:
    sketchc = str(pathlib.Path(sys.argv[1]).resolve())
    long = os.environ.get("SKETCHC_TEST_LONG") == "1"
    wrong = dict(list(WRONG.items())[:: 1 if long else 3])
    problems, kinds = [], {}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = {(name, True): pool.submit(propose, sketchc, pathlib.Path(folder), "good " + name, name, text)
                for name, text in GOOD.items() if long or name in ("affine", "softmax")}
        jobs |= {(name, False): pool.submit(propose, sketchc, pathlib.Path(folder), name, operator, text)
                 for name, (operator, text) in wrong.items()}
        for (name, good), job in jobs.items():
            result, text = job.result()
            if result["verified"] != good:
                problems.append(f"{name}: {'rejected' if good else 'accepted'}: {result} {text}")
            elif not good:
                kinds.setdefault(result["failure"], []).append(name)
    for kind, names in sorted(kinds.items()):
        print(f"{kind}: {', '.join(names)}")
    print("\n".join(problems))
    print(f"figure: wrong_sketches_rejected {sum(map(len, kinds.values()))} of {len(wrong)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
