#!/usr/bin/env python3
"""The memory-bound problems of KernelBench level 1, its products of matrices (matrix.py), convolutions (convolutions.py) and attention (self_attention.py) as one table, and what makes the files of
level1/ from it: an operator (what is computed, at which sizes) and a sketch. The sketches of one
kind are one text here; only names, axes and operations differ. They state tiles and hints; threads,
vector widths, layouts, stages and clusters are the compiler's.

    level1.py SKETCHC          writes level1/*.sketch, in the one style by SKETCHC fmt
    level1.py SKETCHC --check  status 1 when a file is not what the table says
    level1.py --list           id, name, kind, group, sizes of the full case
    level1.py SKETCHC --variant f16|bf16 FOLDER
                               writes FOLDER/*.sketch: ten of the problems (VARIED) with tensors of that type

Cases: `full` is KernelBench's size, `part` a 64th of it, `ragged` has odd extents, `small` is what
the tests run. `data` is the distribution KernelBench draws from, as far as a case can say it.
BatchNorm here normalises by the batch's statistics as in training and leaves the running ones out."""
import pathlib
import re
import subprocess
import sys

import convolutions
import matrix
import self_attention

VARIED = (4, 21, 23, 26, 36, 39, 44, 47, 89, 94)  # shown in f16 and bf16 too
# What the aims are stated for, in the order of the report.
GROUPS = ("elementwise", "softmax and norms", "reductions", "losses", "scans", "pooling", "products", "matmul", "convolution", "attention")
UNBOUND = ("matmul", "convolution", "attention")  # by something else than memory

ELEMENTWISE = """
sketch {name}_tiled implements {name} {{
    symbols: M, N;
    tensors: X[M*N]: f32; Y[M*N]: f32;{extra}
    constexpr: T = 1024;

    @llm_hint("parallel", "coreidx")
    for i in range(0, ceil(M*N, T)):
        x = alloc([T], llm_hint=["fast", "input_cache"])
        load(X[i*T:(i+1)*T] -> x)
        y = {tile}
        store(y -> Y[i*T:(i+1)*T])
}}
"""

ROWS = """
sketch {name}_rows implements {name} {{
    symbols: {symbols};
    tensors: X[{rows}, {length}]: f32; Y[{rows}, {length}]: f32;{constexpr}

    @llm_hint("parallel", "coreidx")
    for m in range({rows}):
        x = alloc([{length}], llm_hint=["fast", "input_cache"])
        load(X[m, :] -> x)
        {tile}
        store(y -> Y[m, :])
}}
"""

# Rows of a whole image: sums of parts of each row, shifted as below, the sums of the parts, the rows scaled. Columns are
# the outer loop, so that weights are read once, and the second pass goes backwards: it begins with what the first one read last.
LAYER_NORM = """
sketch {name}_parts implements {name} {{
    symbols: B, C, H, W;
    tensors: X[B, C*H*W]: f32; G[C*H*W]: f32; Z[C*H*W]: f32; Y[B, C*H*W]: f32;
    constexpr: eps, P = 8192, T = 2048;

    sums = alloc([B, ceil(C*H*W, P)])
    squares = alloc([B, ceil(C*H*W, P)])
    centre = alloc([B])
    scale = alloc([B])
    @llm_hint("parallel", "coreidx")
    for t in range(0, ceil(C*H*W, P)):
        @llm_hint("parallel", "coreidx")
        for i in range(B):
            k = alloc([])
            load(X[i, 0] -> k, pad=0)
            x = alloc([P], llm_hint=["fast", "input_cache"])
            load(X[i, t*P:(t+1)*P] -> x)
            d = x - k
            p = sum(d, axis=0)
            q = sum(d * d, axis=0)
            store(p -> sums[i, t])
            store(q -> squares[i, t])
    @llm_hint("parallel", "coreidx")
    for i in range(B):
        k = alloc([])
        load(X[i, 0] -> k, pad=0)
        p = alloc([ceil(C*H*W, P)], llm_hint=["fast", "input_cache"])
        load(sums[i, :] -> p)
        q = alloc([ceil(C*H*W, P)], llm_hint=["fast", "input_cache"])
        load(squares[i, :] -> q)
        m = sum(p, axis=0) / (C*H*W)
        u = k + m
        r = 1 / sqrt(max(sum(q, axis=0) / (C*H*W) - m * m, 0) + eps)
        store(u -> centre[i])
        store(r -> scale[i])
    @llm_hint("parallel", "coreidx")
    for s in range(0, ceil(C*H*W, T)):
        @llm_hint("parallel", "coreidx")
        for i in range(B):
            t = ceil(C*H*W, T) - 1 - s
            u = alloc([])
            load(centre[i] -> u)
            r = alloc([])
            load(scale[i] -> r)
            x = alloc([T], llm_hint=["fast", "input_cache"])
            load(X[i, t*T:(t+1)*T] -> x)
            g = alloc([T], llm_hint=["fast", "input_cache"])
            load(G[t*T:(t+1)*T] -> g)
            z = alloc([T], llm_hint=["fast", "input_cache"])
            load(Z[t*T:(t+1)*T] -> z)
            y = (x - u) * r * g + z
            store(y -> Y[i, t*T:(t+1)*T])
}}
"""

# Statistics over rows that lie apart (or do not fit a block): sums of each row shifted by one of its
# elements, so that the variance loses no digits; the sums of the rows; the rows scaled.
STATISTICS = """
sketch {name}_parts implements {name} {{
    symbols: {symbols};
    tensors: X[{outer}, {inner}, H*W]: f32; S[{weights}]: f32; Z[{weights}]: f32; Y[{outer}, {inner}, H*W]: f32;
    constexpr: eps, T = {tile};

    sums = alloc([{groups}, {members}])
    squares = alloc([{groups}, {members}])
    centre = alloc([{groups}])
    scale = alloc([{groups}])
    @llm_hint("parallel", "coreidx")
    for i in range({outer}):
        @llm_hint("parallel", "coreidx")
        for j in range({inner}):
            k = alloc([])
            load(X[{first}, 0] -> k, pad=0)
            x = alloc([H*W], llm_hint=["fast", "input_cache"])
            load(X[i, j, :] -> x)
            d = x - k
            p = sum(d, axis=0)
            q = sum(d * d, axis=0)
            store(p -> sums[{group}, {member}])
            store(q -> squares[{group}, {member}])
    @llm_hint("parallel", "coreidx")
    for g in range({groups}):
        k = alloc([])
        load(X[{group_first}, 0] -> k, pad=0)
        p = alloc([{members}], llm_hint=["fast", "input_cache"])
        load(sums[g, :] -> p)
        q = alloc([{members}], llm_hint=["fast", "input_cache"])
        load(squares[g, :] -> q)
        m = sum(p, axis=0) / ({members} * H * W)
        u = k + m
        r = 1 / sqrt(max(sum(q, axis=0) / ({members} * H * W) - m * m, 0) + eps)
        store(u -> centre[g])
        store(r -> scale[g])
    @llm_hint("parallel", "coreidx")
    for i in range({outer}):
        @llm_hint("parallel", "coreidx")
        for j in range({inner}):
            @llm_hint("parallel", "coreidx")
            for t in range(0, ceil(H*W, T)):
                u = alloc([])
                load(centre[{group}] -> u)
                r = alloc([])
                load(scale[{group}] -> r)
                s = alloc([])
                load(S[{weight}] -> s, pad=0)
                z = alloc([])
                load(Z[{weight}] -> z, pad=0)
                x = alloc([T], llm_hint=["fast", "input_cache"])
                load(X[i, j, t*T:(t+1)*T] -> x)
                y = (x - u) * (r * s) + z
                store(y -> Y[i, j, t*T:(t+1)*T])
}}
"""

CHANNELS = """
sketch {name}_tiled implements {name} {{
    symbols: B, C, H, W;
    tensors: X[B, C, H*W]: f32; Y[B, C, H*W]: f32;
    constexpr: eps, T = 256;

    @llm_hint("parallel", "coreidx")
    for b in range(B):
        @llm_hint("parallel", "coreidx")
        for j in range(0, ceil(H*W, T)):
            x = alloc([C, T], llm_hint=["fast", "input_cache"])
            load(X[b, :, j*T:(j+1)*T] -> x)
            y = {tile}
            store(y -> Y[b, :, j*T:(j+1)*T])
}}
"""

WHOLE_NORM = """
sketch {name}_parts implements {name} {{
    symbols: B, C, H, W;
    tensors: X[B*C, H*W]: f32; Y[B*C, H*W]: f32;
    constexpr: T = 1024;

    part = alloc([B*C])
    norm = alloc([1])
    @llm_hint("parallel", "coreidx")
    for m in range(B*C):
        x = alloc([H*W], llm_hint=["fast", "input_cache"])
        load(X[m, :] -> x)
        p = sum(x * x, axis=0)
        store(p -> part[m])
    for i in range(1):
        p = alloc([B*C], llm_hint=["fast", "input_cache"])
        load(part -> p)
        n = sqrt(sum(p, axis=0))
        store(n -> norm[i])
    @llm_hint("parallel", "coreidx")
    for m in range(B*C):
        @llm_hint("parallel", "coreidx")
        for j in range(0, ceil(H*W, T)):
            x = alloc([T], llm_hint=["fast", "input_cache"])
            load(X[m, j*T:(j+1)*T] -> x)
            n = alloc([])
            load(norm[0] -> n)
            y = x / n
            store(y -> Y[m, j*T:(j+1)*T])
}}
"""

# Windows by loops: each of a window's elements is a tile of shifted, strided slices.
POOL_1D = """
sketch {name}_windows implements {name} {{
    symbols: B, C, L, OL = {ol}, L >= {least};
    tensors: X[B*C, L]: f32; Y[B*C, OL]: f32;
    constexpr: T = 2048;

    @llm_hint("parallel", "coreidx")
    for p in range(B*C):
        @llm_hint("parallel", "coreidx")
        for x in range(0, ceil(OL, T)):
            w = alloc([T], init={pad}, llm_hint=["fastest", "accumulator"])
            @llm_hint("unroll")
            for r in range({k}):
                v = alloc([T], llm_hint=["fast", "input_cache"])
                load(X[p, {xs}] -> v, pad={pad})
                {combine}
{scaled}            store(w -> Y[p, x*T:(x+1)*T])
}}
"""

POOL_2D = """
sketch {name}_windows implements {name} {{
    symbols: B, C, H, W, OH = {oh}, OW = {ow}, H >= {least}, W >= {least};
    tensors: X[B*C, H, W]: f32; Y[B*C, OH, OW]: f32;
    constexpr: Z = {chunk}, T = {tile};

    @llm_hint("parallel", "coreidx")
    for p in range(B*C):
        @llm_hint("parallel", "coreidx")
        for t in range(0, ceil(OH, Z)):
            @llm_hint("parallel", "coreidx")
            for x in range(0, ceil(OW, T)):
                for y in range(0, min(Z, OH - t*Z)):
                    w = alloc([T], init={pad}, llm_hint=["fastest", "accumulator"])
                    for r in range({k}):
                        @llm_hint("unroll")
                        for s in range({k}):
                            v = alloc([T], llm_hint=["fast", "input_cache"])
                            load(X[p, {ys}, {xs}] -> v, pad={pad})
                            {combine}
{scaled}                    store(w -> Y[p, t*Z+y, x*T:(x+1)*T])
}}
"""

POOL_3D = """
sketch {name}_windows implements {name} {{
    symbols: B, C, D, H, W, OD = {od}, OH = {oh}, OW = {ow}, D >= {least}, H >= {least}, W >= {least};
    tensors: X[B*C, D, H, W]: f32; Y[B*C, OD, OH, OW]: f32;
    constexpr: Z = {chunk}, R = 16, T = 64;

    @llm_hint("parallel", "coreidx")
    for p in range(B*C):
        @llm_hint("parallel", "coreidx")
        for t in range(0, ceil(OD, Z)):
            @llm_hint("parallel", "coreidx")
            for y in range(0, ceil(OH, R)):
                @llm_hint("parallel", "coreidx")
                for x in range(0, ceil(OW, T)):
                    for z in range(0, min(Z, OD - t*Z)):
                        w = alloc([R, T], init={pad}, llm_hint=["fastest", "accumulator"])
                        for q in range({k}):
                            for r in range({k}):
                                @llm_hint("unroll")
                                for s in range({k}):
                                    v = alloc([R, T], llm_hint=["fast", "input_cache"])
                                    load(X[p, {zs}, {ys}, {xs}] -> v, pad={pad})
                                    {combine}
{scaled}                        store(w -> Y[p, t*Z+z, y*R:(y+1)*R, x*T:(x+1)*T])
}}
"""

COLUMNS = """
sketch {name}_tiled implements {name} {{
    symbols: B, K, N;
    tensors: X[B, K, N]: f32; Y[B, N]: {dtype};
    constexpr: T = 128;

    @llm_hint("parallel", "coreidx")
    for b in range(B):
        @llm_hint("parallel", "coreidx")
        for j in range(0, ceil(N, T)):
            x = alloc([K, T], llm_hint=["fast", "input_cache"])
            load(X[b, :, j*T:(j+1)*T] -> x)
            y = {tile}
            store(y -> Y[b, j*T:(j+1)*T])
}}
"""

# Few columns of few rows: narrow tiles, of which one block holds each whole, in one launch.
FOLDED_COLUMNS = """
sketch {name}_tiled implements {name} {{
    symbols: B, K, N;
    tensors: X[B, K, N]: f32; Y[B, N]: {dtype};
    constexpr: T = 128, S = 16, KS = 512, few = 8192;

    if K > KS or B * N > few:
        @llm_hint("parallel", "coreidx")
        for b in range(B):
            @llm_hint("parallel", "coreidx")
            for j in range(0, ceil(N, T)):
                x = alloc([K, T], llm_hint=["fast", "input_cache"])
                load(X[b, :, j*T:(j+1)*T] -> x)
                y = {tile}
                store(y -> Y[b, j*T:(j+1)*T])
    else:
        @llm_hint("parallel", "coreidx")
        for b in range(B):
            @llm_hint("parallel", "coreidx")
            for j in range(0, ceil(N, S)):
                x = alloc([K, S], llm_hint=["fast", "input_cache"])
                load(X[b, :, j*S:(j+1)*S] -> x)
                y = {tile}
                store(y -> Y[b, j*S:(j+1)*S])
}}
"""

MASKED = """
sketch {name}_rows implements {name} {{
    symbols: M, N;
    tensors: X[M, N]: f32; K[M, N]: bool; Y[M, N]: f32;

    @llm_hint("parallel", "coreidx")
    for m in range(M):
        x = alloc([N], llm_hint=["fast", "input_cache"])
        load(X[m, :] -> x)
        k = alloc([N], llm_hint=["fast", "input_cache"])
        load(K[m, :] -> k)
        y = {tile}
        store(y -> Y[m, :])
}}
"""

LOSS = """
sketch {name}_rows implements {name} {{
    symbols: M, N;
    tensors: {tensors}; L[1]: f32;{constexpr}

    part = alloc([M])
    @llm_hint("parallel", "coreidx")
    for m in range(M):
{loads}        p = {tile}
        store(p -> part[m])
    for i in range(1):
        p = alloc([M], llm_hint=["fast", "input_cache"])
        load(part -> p)
        loss = sum(p, axis=0) / {count}
        store(loss -> L[i])
}}
"""

MATVEC = """
sketch {name}_rows implements {name} {{
    symbols: M, K;
    tensors: A[M, K]: f32; B[K]: f32; C[M]: f32;
    constexpr: R = 4;

    @llm_hint("parallel", "coreidx")
    for i in range(0, ceil(M, R)):
        a = alloc([R, K], llm_hint=["fast", "input_cache"])
        load(A[i*R:(i+1)*R, :] -> a)
        b = alloc([K], llm_hint=["fast", "input_cache"])
        load(B -> b)
        c = sum(a * b, axis=1)
        store(c -> C[i*R:(i+1)*R])
}}
"""

DIAGONAL = """
sketch {name}_tiled implements {name} {{
    symbols: M, N;
    tensors: A[M]: f32; B[M, N]: f32; C[M, N]: f32;
    constexpr: T = 1024;

    @llm_hint("parallel", "coreidx")
    for i in range(M):
        @llm_hint("parallel", "coreidx")
        for j in range(0, ceil(N, T)):
            a = alloc([])
            load(A[i] -> a)
            b = alloc([T], llm_hint=["fast", "input_cache"])
            load(B[i, j*T:(j+1)*T] -> b)
            c = a * b
            store(c -> C[i, j*T:(j+1)*T])
}}
"""

PROBLEMS = {}


def problem(number, name, kind, group, head, equations, sketch, cases, data, title="KernelBench level 1, problem {}. Made by level1.py.", others=()):
    """head: the declarations of the operator. cases: name -> sizes. data: the tensors' distributions. others: (name, sizes, data) of more cases."""
    assert group in GROUPS

    own_title = title.format(number)

    def text(cases, title=own_title):
        all_cases = [(case, sizes, data) for case, sizes in cases.items()] + list(others)
        case_lines = "".join(f"    case {case} {{ {', '.join(f'{k}={v}' for k, v in sizes.items())}; {data} }}\n" for case, sizes, data in all_cases)
        return f"# {title}\noperator {name} {{\n{head}\n\n{equations}\n\n{case_lines}}}\n{sketch}"

    return {"id": number, "name": name, "kind": kind, "group": group, "cases": cases, "file": f"{number:03}_{name}.sketch",
            "text": text(cases), "at": text}


def add(number, *rest, **more):
    assert number not in PROBLEMS
    PROBLEMS[number] = problem(number, *rest, **more)


def in_type(text, dtype):
    """The text with tensors of `dtype` for those of f32. Tiles that are loaded from them are of f32, as what is computed."""
    tensors = set(re.findall(r"(\b[A-Za-z]\w*)\[[^\]]*\]: f32", text))
    tiles = {tile for tensor, tile in re.findall(r"load\((\w+)(?:\[.*\])? -> (\w+)", text) if tensor in tensors}
    text = re.sub(r"(\b[A-Za-z]\w*\[[^\]]*\]): f32", rf"\1: {dtype}", text)
    for tile in tiles:
        text = re.sub(rf"(\b{tile} = alloc\(\[[^\]]*\])", r"\1, dtype=f32", text)
    if "_windows implements" in text:  # a block reads as many bytes
        text = text.replace("T = 2048;", "T = 4096;")
    return text


def dims(names, *rows):
    return dict(zip(("full", "part", "ragged", "small"), (dict(zip(names.split(), r)) for r in rows)))


def elementwise():
    cases = dims("M N", (4096, 393216), (64, 393216), (61, 65537), (5, 1021))

    def one(number, name, equation, cases=cases, extra_operator="", extra_sketch=""):
        add(number, name, "elementwise", "elementwise" if number != 5 else "products",
            f"    symbols: M, N;\n    tensors: X[M, N]: f32; Y[M, N]: f32;{extra_operator}",
            f"    Y = {equation}", ELEMENTWISE.format(name=name, extra=extra_sketch, tile=re.sub(r"\bX\b", "x", equation)), cases, "X: uniform(0, 1)")

    one(5, "scale", "X * s", dims("M N", (65536, 16384), (1024, 16384), (331, 1021), (5, 1021)),
        "\n    scalars: s: f32 = 3.14;", "\n    scalars: s: f32;")
    one(19, "relu", "relu(X)")
    one(20, "leaky_relu", "leaky_relu(X, negative_slope=0.01)")
    one(21, "sigmoid", "sigmoid(X)")
    one(22, "tanh", "tanh(X)")
    one(25, "swish", "X * sigmoid(X)")
    one(26, "gelu", "gelu(X)")
    one(27, "selu", "selu(X)")
    one(28, "hard_sigmoid", "hard_sigmoid(X)")
    one(29, "softplus", "softplus(X)")
    one(30, "softsign", "X / (1 + abs(X))")
    one(31, "elu", "elu(X, alpha=1.0)")
    one(32, "hard_tanh", "clamp(X, -1, 1)")
    one(88, "gelu_tanh", "gelu_tanh(X)", dims("M N", (8192, 8192), (128, 8192), (61, 4099), (5, 1021)))


def row_problem(number, name, equations, tile, cases, symbols="M, N", shape="M, N", rows="M", length="N", eps=None):
    group = "scans" if "cum" in name else "softmax and norms"
    add(number, name, "rows", group,
        f"    symbols: {symbols};\n    tensors: X[{shape}]: f32; Y[{shape}]: f32;" + (f"\n    constexpr: eps = {eps};" if eps else ""),
        equations, ROWS.format(name=name, symbols=symbols, rows=rows, length=length, tile=tile,
                               constexpr="\n    constexpr: eps;" if eps else ""), cases, "X: uniform(0, 1)")


def deviation(axes):
    """The equations of D, deviations from the mean over `axes`, and V, their mean square."""

    def mean(of):
        for axis in axes:
            of = f"mean({of}, axis={axis}, keepdim=true)"
        return of

    return f"    D = X - {mean('X')}\n    V = {mean('D * D')}\n"


def in_rows(sketch):
    """Rows that a block or a cluster holds are read once."""
    head, loops = parted(sketch)
    few = """    @llm_hint("parallel", "coreidx")
    for i in range(B):
        x = alloc([C*H*W], llm_hint=["fast", "input_cache"])
        load(X[i, :] -> x)
        g = alloc([C*H*W], llm_hint=["fast", "input_cache"])
        load(G -> g)
        z = alloc([C*H*W], llm_hint=["fast", "input_cache"])
        load(Z -> z)
        d = x - mean(x, axis=0)
        y = d / sqrt(mean(d * d, axis=0) + eps) * g + z
        store(y -> Y[i, :])
"""
    return chosen(head.replace("T = 2048;", "T = 2048, held = 65536;"), "C * H * W > held", loops, few)


def norms():
    long_rows = dims("M N", (4096, 393216), (64, 393216), (7, 65521), (5, 1021))
    row_problem(23, "softmax", "    Y = softmax(X, axis=1)", "y = softmax(x, axis=0)", long_rows)
    row_problem(24, "log_softmax", "    Y = log_softmax(X, axis=1)", "y = log_softmax(x, axis=0)", long_rows)
    odd_rows = dims("M N", (32768, 65535), (512, 65535), (7, 32749), (5, 1021))
    row_problem(38, "l1_norm", "    Y = X / mean(abs(X), axis=1, keepdim=true)", "y = x / mean(abs(x), axis=0)", odd_rows)
    row_problem(39, "l2_norm", "    Y = X / sqrt(sum(X * X, axis=1, keepdim=true))", "y = x / sqrt(sum(x * x, axis=0))", odd_rows)
    image = dims("B C H W", (112, 64, 512, 512), (7, 16, 512, 512), (3, 5, 97, 89), (2, 3, 13, 17))
    row_problem(34, "instance_norm",
                deviation((3, 2)) + "    Y = D / sqrt(V + eps)",
                "d = x - mean(x, axis=0)\n        y = d / sqrt(mean(d * d, axis=0) + eps)",
                image, "B, C, H, W", "B, C, H, W", "B*C", "H*W", "1e-5")
    head = "    symbols: B, C, H, W;\n    tensors: X[B, C, H, W]: f32; {}Y[B, C, H, W]: f32;"
    data = "X: uniform(0, 1){}"
    add(33, "batch_norm", "parts", "softmax and norms", head.format("S[C]: f32; Z[C]: f32; ") + "\n    constexpr: eps = 1e-5;",
        deviation((3, 2, 0)) + "    Y = D / sqrt(V + eps) * reshape(S, [C, 1, 1]) + reshape(Z, [C, 1, 1])",
        STATISTICS.format(name="batch_norm", tile=1024, symbols="B, C, H, W", outer="B", inner="C", weights="C", groups="C", members="B", first="0, j",
                          group="j", member="i", group_first="0, g", weight="j"), dims("B C H W", (64, 64, 512, 512), (8, 8, 512, 512), (3, 5, 97, 89), (2, 3, 13, 17)),
        data.format("; S: uniform(0.5, 1.5); Z: uniform(-1, 1)"))
    add(35, "group_norm", "parts", "softmax and norms",
        "    symbols: B, G, P, H, W;\n    tensors: X[B, G, P, H, W]: f32; S[G, P]: f32; Z[G, P]: f32; Y[B, G, P, H, W]: f32;\n    constexpr: eps = 1e-5;",
        deviation((4, 3, 2)) + "    Y = D / sqrt(V + eps) * reshape(S, [G, P, 1, 1]) + reshape(Z, [G, P, 1, 1])",
        STATISTICS.format(name="group_norm", tile=4096, symbols="B, G, P, H, W", outer="B*G", inner="P", weights="G, P", groups="B*G", members="P",
                          first="i, 0", group="i", member="j", group_first="g, 0", weight="i % G, j"),
        dims("B G P H W", (112, 8, 8, 512, 512), (7, 2, 8, 512, 512), (3, 2, 5, 97, 89), (2, 3, 2, 13, 17)), data.format("; S: uniform(0.5, 1.5); Z: uniform(-1, 1)"))
    add(36, "rms_norm", "channels", "softmax and norms", head.format("") + "\n    constexpr: eps = 1e-5;",
        "    Y = X / sqrt(mean(X * X, axis=1, keepdim=true) + eps)",
        CHANNELS.format(name="rms_norm", tile="x / sqrt(mean(x * x, axis=0, keepdim=true) + eps)"), image, data.format(""))
    add(37, "frobenius_norm", "parts", "softmax and norms", head.format(""), "    Y = X / sqrt(sum(X * X))",
        WHOLE_NORM.format(name="frobenius_norm"), image, data.format(""))
    add(40, "layer_norm", "weighted parts", "softmax and norms",
        "    symbols: B, C, H, W;\n    tensors: X[B, C, H, W]: f32; G[C, H, W]: f32; Z[C, H, W]: f32; Y[B, C, H, W]: f32;\n    constexpr: eps = 1e-5;",
        deviation((3, 2, 1)) + "    Y = D / sqrt(V + eps) * G + Z",
        in_rows(LAYER_NORM.format(name="layer_norm")), dims("B C H W", (16, 64, 256, 256), (4, 64, 64, 64), (3, 5, 61, 89), (2, 3, 13, 17)),
        data.format("; G: uniform(0.5, 1.5); Z: uniform(-1, 1)"))


def deeper(text):
    return "".join(f"    {line}\n" for line in text.splitlines())


def chosen(head, condition, loops, few):
    """One sketch whose loops are chosen by sizes: `loops` where the condition holds."""
    return f"{head}    if {condition}:\n{deeper(loops)}    else:\n{deeper(few)}}}\n"


def parted(sketch):
    at = sketch.index("    @llm_hint")
    return sketch[:at], sketch[at:sketch.rindex("}")]


def by_columns(sketch):
    """Few columns of results take smaller tiles, of fewer lanes that are absent."""
    head, loops = parted(sketch)
    few = re.sub(r"\bT\b", "TS", re.sub(r"\bR\b", "RS", loops))
    head = head.replace("R = 16, T = 64;", "R = 16, T = 64, RS = 8, TS = 32;").replace(", T = 64;", ", T = 64, TS = 32;")
    return chosen(head, "OW > TS", loops, few)


def window_problem(number, name, reduce, rank, k, stride, padding, dilation, cases, **more):
    """Output extents and window positions from kernel, stride, padding, dilation."""
    axes = "DHW"[3 - rank:] if rank > 1 else "L"
    least = dilation * (k - 1) + 1 - 2 * padding

    def extent(axis):
        free = 2 * padding - dilation * (k - 1) - 1
        inner = f"{axis} {'-' if free < 0 else '+'} {abs(free)}" if free else axis
        return f"({inner}) // {stride} + 1" if stride > 1 else f"{axis} {'-' if free + 1 < 0 else '+'} {abs(free + 1)}" if free + 1 else axis

    def at(i, r):
        text = (f"{stride}*{i}" if stride > 1 else i) + " + " + (f"{dilation}*{r}" if dilation > 1 else r)
        return text + f" - {padding}" if padding else text

    windows = dict(zip("zyx"[3 - rank:], "qrs"[3 - rank:] if rank > 1 else "r"))
    inside = ", ".join(["b, c"] + [at(i, r) for i, r in windows.items()])
    ranges = ", ".join(f"{r} in 0:{k}" for r in windows.values())
    pad = "-inf" if reduce == "max" else "0"
    average = f" / {k ** rank}" if reduce == "sum" else ""
    derived = ", ".join(f"O{a} = {extent(a)}" for a in axes)
    lowest = ", ".join(f"{a} >= {max(least, 1)}" for a in axes)
    head = (f"    symbols: B, C, {', '.join(axes)}, {derived}, {lowest};\n"
            f"    tensors: X[B, C, {', '.join(axes)}]: f32; Y[B, C, {', '.join('O' + a for a in axes)}]: f32;")
    source = f"pad(X, {pad})"
    equation = f"    Y[b, c, {', '.join(windows)}] = {reduce}({ranges}, {source}[{inside}]){average}"
    words = {"name": name, "reduce": reduce, "k": k, "pad": pad, "least": max(least, 1)}
    words["combine"] = "w = max(w, v)" if reduce == "max" else "w += v"
    words["scaled"] = f"{' ' * (8 + 4 * rank + 4 * (rank > 1))}w /= {k ** rank}\n" if reduce == "sum" else ""

    def across(i, tile, r):
        shift = (f" + {dilation}*{r}" if dilation > 1 else f" + {r}") + (f" - {padding}" if padding else "")
        first, last = f"{i}*{tile}", f"({i} + 1)*{tile}"
        if stride > 1:
            return f"{stride}*{first}{shift}:{stride}*{last}{shift}:{stride}"
        return f"{first}{shift}:{last}{shift}"

    words["xs"] = across("x", "T", windows["x"])
    if rank == 2:
        # A block walks down the rows; what it reads in front of its first row should be few of its rows. Longer walks, of which thousands
        # go on at once, are slower: what they touch lies in so many pages of memory.
        before = max(0, dilation * (k - 1) + 1 - stride)
        words |= {"ys": at("(t*Z + y)" if stride > 1 else "t*Z + y", "r"), "chunk": -(-max(16, 4 * before) // stride), "tile": 128 if stride == 1 else 64}
    if rank > 2:
        words["ys"] = across("y", "R", windows["y"])
        # A block walks along z; what it reads in front of its first plane should be few of its planes.
        words["zs"] = at("(t*Z + z)", "q")
        words["chunk"] = 16 if dilation == 1 else 32
    words |= {f"o{a.lower()}": extent(a) for a in axes}
    sketch = {1: POOL_1D, 2: POOL_2D, 3: POOL_3D}[rank].format(**words)
    if rank > 2 or (rank > 1 and stride > 1):
        sketch = by_columns(sketch)
    return problem(number, name, "windows", "pooling", head, equation, sketch, cases, "X: uniform(0, 1)", **more)


def pooling():
    def one(number, *rest):
        PROBLEMS[number] = window_problem(number, *rest)

    one(41, "max_pool1d", "max", 1, 8, 1, 4, 3, dims("B C L", (64, 192, 65536), (8, 24, 65536), (3, 5, 4099), (2, 3, 301)))
    one(42, "max_pool2d", "max", 2, 4, 1, 1, 1, dims("B C H W", (32, 64, 512, 512), (4, 8, 512, 512), (2, 3, 101, 131), (1, 2, 23, 71)))
    one(43, "max_pool3d", "max", 3, 3, 2, 1, 3, dims("B C D H W", (16, 32, 128, 128, 128), (2, 4, 128, 128, 128), (2, 3, 31, 37, 41), (1, 2, 9, 11, 23)))
    one(44, "avg_pool1d", "sum", 1, 8, 1, 4, 1, dims("B C L", (64, 128, 65536), (8, 16, 65536), (3, 5, 4099), (2, 3, 301)))
    one(45, "avg_pool2d", "sum", 2, 11, 11, 0, 1, dims("B C H W", (16, 64, 2048, 2048), (2, 8, 2048, 2048), (2, 3, 301, 331), (1, 2, 47, 171)))
    one(46, "avg_pool3d", "sum", 3, 3, 2, 1, 1, dims("B C D H W", (16, 32, 128, 128, 256), (2, 4, 128, 128, 256), (2, 3, 31, 37, 41), (1, 2, 9, 11, 23)))


def reductions():
    cases = dims("B K N", (128, 4096, 4095), (2, 4096, 4095), (3, 509, 1021), (2, 37, 203))

    def one(number, name, operation, dtype="f32", keep=""):
        add(number, name, "columns", "reductions",
            f"    symbols: B, K, N;\n    tensors: X[B, K, N]: f32; Y[B, {'1, ' if keep else ''}N]: {dtype};",
            f"    Y = {operation}(X, axis=1{keep})", (FOLDED_COLUMNS if dtype == "f32" else COLUMNS).format(name=name, dtype=dtype, tile=f"{operation}(x, axis=0)"), cases, "X: uniform(0, 1)")

    one(47, "sum_axis1", "reduce_sum", keep=", keepdim=true")
    one(48, "mean_axis1", "reduce_mean")
    one(49, "max_axis1", "reduce_max")
    one(51, "argmax_axis1", "argmax", "i64")
    one(52, "argmin_axis1", "argmin", "i64")
    one(53, "min_axis1", "reduce_min")


def scans():
    cases = dims("M N", (32768, 32768), (512, 32768), (7, 32749), (5, 1021))
    for number, name, operation, option in ((89, "cumsum", "cumsum", ""), (90, "cumprod", "cumprod", ""),
                                            (91, "cumsum_reverse", "cumsum", ", reverse=true"), (92, "cumsum_exclusive", "cumsum", ", exclusive=true")):
        row_problem(number, name, f"    Y = {operation}(X, axis=1{option})", f"y = {operation}(x, axis=0{option})", cases)
    add(93, "masked_cumsum", "rows", "scans", "    symbols: M, N;\n    tensors: X[M, N]: f32; K[M, N]: bool; Y[M, N]: f32;",
        "    Y = cumsum(where(K, X, 0), axis=1)", MASKED.format(name="masked_cumsum", tile="cumsum(where(k, x, 0), axis=0)"), cases,
        "X: uniform(0, 1); K: randint(0, 2)")


def losses():
    def one(number, name, tensors, equation, loads, tile, count, cases, data, constexpr=""):
        text = "; ".join(f"{t}: {d}" for t, d in tensors.items())
        lines = "".join(f"        {l}\n" for l in loads)
        names = ", ".join(part.split(" = ")[0] for part in constexpr.split(", ")) if constexpr else ""
        add(number, name, "losses", "losses",
            f"    symbols: M, N;\n    tensors: {text}; L[1]: f32;" + (f"\n    constexpr: {constexpr};" if constexpr else ""),
            f"    L = reshape({equation}, [1])",
            LOSS.format(name=name, tensors=text, constexpr=f"\n    constexpr: {names};" if names else "", loads=lines, tile=tile, count=count), cases, data)

    def row(tile, tensor):
        return [f'{tile} = alloc([N], llm_hint=["fast", "input_cache"])', f"load({tensor}[m, :] -> {tile})"]

    square = dims("M N", (32768, 32768), (512, 32768), (61, 4099), (5, 1021))
    one(94, "mse_loss", {"X[M, N]": "f32", "T[M, N]": "f32"}, "mean(square(X - T))", row("x", "X") + row("t", "T"),
        "sum(square(x - t), axis=0)", "(M * N)", square, "X: uniform(0, 0.5); T: uniform(0, 1)")
    huber = "where(abs({d}) < 1, 0.5 * {d} * {d}, abs({d}) - 0.5)"
    one(96, "huber_loss", {"X[M, N]": "f32", "T[M, N]": "f32"}, f"mean({huber.format(d='(X - T)')})", row("x", "X") + row("t", "T") + ["d = x - t"],
        f"sum({huber.format(d='d')}, axis=0)", "(M * N)", square, "X: uniform(0, 0.5); T: uniform(0, 1)")
    one(95, "cross_entropy", {"X[M, N]": "f32", "T[M]": "i64"},
        "mean(logsumexp(X, axis=1)) - mean(i, pad(X, 0)[i, T[i]])",
        row("x", "X") + ["t = alloc([])", "load(T[m] -> t)", "v = alloc([])", "load(X[m, t] -> v, pad=0)"],
        "logsumexp(x, axis=0) - v", "M", dims("M N", (32768, 4096), (512, 4096), (61, 4096), (5, 4096)), "X: uniform(0, 1); T: randint(0, N)")
    one(98, "kl_div", {"X[M, N]": "f32", "T[M, N]": "f32"}, "sum(T * (log(T) - log(X))) / M", row("x", "X") + row("t", "T"),
        "sum(t * (log(t) - log(x)), axis=0)", "M", dims("M N", (16384, 16384), (256, 16384), (61, 4099), (5, 1021)), "X: softmax(); T: softmax()")
    def distance(a, b, axis):
        return f"sqrt(sum(square({a} - {b} + eps), axis={axis}))"
    one(99, "triplet_loss", {"A[M, N]": "f32", "P[M, N]": "f32", "Q[M, N]": "f32"},
        f"mean(relu({distance('A', 'P', 1)} - {distance('A', 'Q', 1)} + margin))",
        row("a", "A") + row("p_row", "P") + row("q_row", "Q"),
        f"relu({distance('a', 'p_row', 0)} - {distance('a', 'q_row', 0)} + margin)", "M",
        dims("M N", (32768, 8192), (512, 8192), (61, 4099), (5, 1021)), "A: uniform(0, 0.5); P: uniform(0, 1); Q: uniform(0, 1)", "margin = 1.0, eps = 1e-6")
    one(100, "hinge_loss", {"X[M, N]": "f32", "T[N]": "f32"}, "mean(relu(1 - X * T))",
        row("x", "X") + ['t = alloc([N], llm_hint=["fast", "input_cache"])', "load(T -> t)"],
        "sum(relu(1 - x * t), axis=0)", "(M * N)", square, "X: uniform(0, 1); T: uniform(-1, 1)")


def products():
    add(4, "matvec", "products", "products", "    symbols: M, K;\n    tensors: A[M, K]: f32; B[K, 1]: f32; C[M, 1]: f32;", "    C = A @ B",
        MATVEC.format(name="matvec"), dims("M K", (2048, 1048576), (32, 1048576), (7, 65521), (5, 1021)), "A: uniform(0, 1); B: uniform(0, 1)")
    add(12, "diagonal", "products", "products", "    symbols: M, N;\n    tensors: A[M]: f32; B[M, N]: f32; C[M, N]: f32;", "    C[i, j] = A[i] * B[i, j]",
        DIAGONAL.format(name="diagonal"), dims("M N", (4096, 4096), (512, 512), (61, 4099), (5, 1021)), "A: uniform(0, 1); B: uniform(0, 1)")


for fill in (elementwise, norms, pooling, reductions, scans, losses, products):
    fill()
matrix.fill(add, dims)
convolutions.fill(add, dims)
self_attention.fill(add, dims)
PROBLEMS = dict(sorted(PROBLEMS.items()))


def formatted(sketchc, text):
    done = subprocess.run([sketchc, "fmt", "-"], input=text, capture_output=True, text=True, check=True)
    return done.stdout


def main():
    folder = pathlib.Path(__file__).parent / "level1"
    if "--list" in sys.argv:
        for p in PROBLEMS.values():
            print(p["id"], p["name"], p["kind"], p["group"], p["cases"]["full"], sep="\t")
        return 0
    if "--variant" in sys.argv:
        dtype, target = sys.argv[sys.argv.index("--variant") + 1:][:2]
        pathlib.Path(target).mkdir(parents=True, exist_ok=True)
        for number in VARIED:
            (pathlib.Path(target) / PROBLEMS[number]["file"]).write_text(formatted(sys.argv[1], in_type(PROBLEMS[number]["text"], dtype)))
        return 0
    stale = []
    for p in PROBLEMS.values():
        path, text = folder / p["file"], formatted(sys.argv[1], p["text"])
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(path.name)
    extra = {p.name for p in folder.glob("*.sketch")} - {p["file"] for p in PROBLEMS.values()}
    if stale or extra:
        print("not as level1.py has them:", *stale, *sorted(extra))
    return 1 if stale or extra else 0


if __name__ == "__main__":
    sys.exit(main())
