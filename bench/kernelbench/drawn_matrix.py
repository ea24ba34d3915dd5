#!/usr/bin/env python3
"""As drawn.py, of what tensor cores do: products, convolutions and attention at shapes that nobody chose, and products with
something behind them.

    drawn_matrix.py SKETCHC FOLDER [--seed 20261123]   writes FOLDER/*.sketch, for run.py --drawn SEED --matrix
    drawn_matrix.py --list [--seed N]                  id, name, group, sizes, GFLOP, MB

Twelve shapes: seven products, four convolutions, attention, none twice. Multiply-adds of a problem are log-uniform in 2^30 to 2^38,
extents log-uniform in RANGES, the first as what is left; half of them with odd extents, half with multiples of 8. Channels of a
convolution are at most those that its sketch is made for. All tensors together take at most 8 GB.

Four operators of f32 tensors with `precision=tf32`, one of each form, at such sizes; each factor in either order of its axes:

    tail   Y = u(A B + V): V along rows, along columns or whole
    gated  Y = u(A B) * (A V)
    fold   Y[m] = r(u(A B), axis=1): a sum, largest or least of each row, in parts of 128 columns
    twin   Y = u(A B + V W): two products of their own depths"""
import argparse
import math
import pathlib
import random
import re

from convolutions import PLAIN
from drawn import FUNCTIONS, MOST, SEED, log_uniform, tensor_bytes, wrapped
from level1 import PROBLEMS, formatted, problem

LEAST_ADDS, MOST_ADDS = 2 ** 30, 2 ** 38
FIRST = 1101
PRODUCTS, CONVOLUTIONS = 7, 4
SQUARE = (13, 14, 15)  # one extent: symmetric, triangles
TRIANGLE = "operator square {\n    symbols: {0};\n    tensors: A[{0}, {0}]: f32; B[{0}, {0}]: f32; C[{0}, {0}]: f32;\n\n"
WIDE, DEEP = (64, 1 << 14), (64, 1 << 15)
RANGES = {"M": WIDE, "N": WIDE, "K": DEEP, "P": (2, 64), "Q": (2, 32), "B": (1, 64), "O": (8, 512), "H": (16, 512), "W": (16, 512), "D": (16, 64)}
OTHERS = {"attention": {"H": (4, 64), "L": (64, 2048), "D": (32, 1024)}, "1": {"L": (1024, 1 << 18)}, "3": {"H": (16, 64), "W": (16, 64)}}


def multiply_adds(text, sizes):
    """Of an operator's products: the first tensor's extents and each further factor's that are new in it."""
    head = text.split("\n\n")[0]
    values = dict(sizes)
    for name, derived in re.findall(r"(\w+) = ([^,;]+)", re.search(r"symbols: ([^;]*);", head)[1]):
        values[name] = eval(derived, {}, values)
        if values[name] <= 0:
            return 0
    shapes = dict(re.findall(r"\b([A-Z])\[([^\]]*)\]", re.search(r"tensors: ([^\n]*)", head)[1]))

    def extent(names):
        return math.prod(eval(n, {}, values) for n in names)
    split = {t: [n.strip() for n in s.split(",")] for t, s in shapes.items()}
    if "F" in split:  # each result, or each element of the input of a transposed one, meets the weights of its group
        transposed = "transpose" in re.search(r"operator (\w+)", head)[1]
        places = extent(split["X"][:1] + split["X" if transposed else "Y"][2:])
        return places * extent(split["F"])
    if "Q" in split:
        return 2 * extent(split["Q"]) * values["L"]
    names = sorted({n for t in "AB" for n in split[t]})
    second = extent(sorted({n for t in "VW" for n in split[t]})) if "W" in split else 0
    return extent(names * 3 if len(names) == 1 else names) + second


def draw_sizes(rng, names, ranges, text, odd, most=None):
    most = most or {}
    while True:
        target = LEAST_ADDS * (MOST_ADDS / LEAST_ADDS) ** rng.random()
        sizes = {names[0]: 1}
        for name in names[1:]:
            size = log_uniform(rng, *ranges[name])
            size = size | 1 if odd else max(8, size // 8 * 8)
            sizes[name] = min(size, most[name]) if name in most else size
        one, (low, high) = multiply_adds(text, sizes), ranges[names[0]]
        first = round(target ** (1 / 3)) if len(names) == 1 else round(target / one) if one else 0
        if not low <= first <= high:
            continue
        sizes[names[0]] = first | 1 if odd else first // 8 * 8 if low >= 8 else first
        if tensor_bytes(text, sizes)[0] <= MOST:
            return sizes


def drawn_shape(rng, number, base, odd):
    names = list(base["cases"]["full"])
    square = base["id"] in SQUARE
    if square:
        names = names[:1]
    ranges, most = dict(RANGES), {}
    if base["group"] == "attention":
        ranges |= OTHERS["attention"]
    if base["group"] == "convolution":
        ranges |= OTHERS.get(str(len(set(names) & set("DHWL"))), {})
        channels = int(re.search(r"C <= (\d+)", base["text"])[1])
        ranges["C"], most = (max(1, channels // 4), channels), {"C": channels}
    sizes = draw_sizes(rng, names, ranges, TRIANGLE.replace("{0}", names[0]) if square else base["text"], odd, most)
    sizes = {n: sizes[names[0] if square else n] for n in base["cases"]["full"]}
    cases = {"full": sizes, "small": base["cases"]["small"]}
    return {**base, "id": number, "base": base["id"], "cases": cases, "file": f"{number}_{base['name']}.sketch",
            "text": base["at"](cases, f"Drawn: problem {base['id']} of level 1 at another shape. Made by drawn_matrix.py.")}


# ---- Operators ----

class Factor:
    """Stored with K along its rows (`last`) or across them. tile: BM or BN, index: of the tile."""

    def __init__(self, rng, name, rows, depth, tile, index):
        self.name, self.rows, self.depth, self.tile, self.index, self.last = name, rows, depth, tile, index, rng.random() < 0.5

    def order(self, rows, depth):
        return f"{rows}, {depth}" if self.last else f"{depth}, {rows}"

    def tensor(self):
        return f"{self.name}[{self.order(self.rows, self.depth)}]: f32; "

    def load(self):
        at = self.order(f"{self.index}*{self.tile}:({self.index}+1)*{self.tile}", "k*BK:(k+1)*BK")
        v = self.name.lower()
        return f"            {v} = alloc([{self.order(self.tile, 'BK')}])\n            load({self.name}[{at}] -> {v})\n"


def flags(a, b):
    return ("" if a.last else ", trans_a=true") + (", trans_b=true" if b.last else "")


def torch_product(a, b):
    return f"({a.name if a.last else a.name + '.T'} @ {b.name + '.T' if b.last else b.name})"


def loop(result, pairs):
    """Sums of products of one depth, in one loop."""
    loads = "".join(f.load() for f in dict.fromkeys(f for pair in pairs for f in pair))
    sums = "".join(f"        {r} = alloc([BM, BN], init=0)\n" for r in result)
    gemms = "".join(f"            gemm({a.name.lower()}, {b.name.lower()}, {r}{flags(a, b)}, precision=tf32)\n" for r, (a, b) in zip(result, pairs))
    return f"""{sums}        @llm_hint("pipeline", stages=3)
        for k in range(0, ceil({pairs[0][0].depth}, BK)):
{loads}{gemms}"""


def made(rng, number, name, factors, others, body, tail, equation, result, reference, names, odd, more=""):
    tensors = "".join(f.tensor() for f in factors) + others
    head = f"    symbols: {', '.join(names)};\n    tensors: {tensors}Y[{result}]: f32;\n    precision: tf32;"
    sketch = f"""
sketch {name}_tiled implements {name} {{
    symbols: {', '.join(names)};
    tensors: {tensors}Y[{result}]: f32;
    constexpr: BM = 128, BN = 128, BK = 32;

{more.split('|')[0]}    @llm_hint("parallel", "grididx.y")
    for i in range(0, ceil(M, BM)):
        @llm_hint("parallel", "grididx.x")
        for j in range(0, ceil(N, BN)):
{re.sub('^', '    ', body + tail, flags=re.M).rstrip()}
{more.split('|')[1] if more else ''}}}
"""
    inputs = {t: shape.replace(",", "") for t, shape in re.findall(r"(\w)\[([^\]]*)\]: f32", tensors)}
    data = "; ".join(f"{t}: uniform(-1, 1)" for t in inputs)
    small = dict(zip(names, (37, 45, 133, 70)))
    p = problem(number, name, "convolution", "matmul", head, f"    Y = {equation}", sketch, {"small": small}, data, "Drawn operator. Made by drawn_matrix.py.")
    ranges = {**RANGES, "L": DEEP}
    cases = {"full": draw_sizes(rng, names, ranges, p["text"], odd), "small": small}
    return {**p, "cases": cases, "text": p["at"](cases), "file": f"{number}_{name}.sketch", "reference": reference, "inputs": inputs}


def product_of(a, b):
    return f"matmul({a.name}, {b.name}{flags(a, b)})"


STORE = "store({} -> Y[i*BM:(i+1)*BM, j*BN:(j+1)*BN])\n"


def two(rng):
    return Factor(rng, "A", "M", "K", "BM", "i"), Factor(rng, "B", "N", "K", "BN", "j")


def tail(rng, number, odd):
    (a, b), u = two(rng), rng.choice(FUNCTIONS)
    along = rng.choice(["rows", "columns", "both"])
    shape, tile, at, view, whole, torch_view = {
        "rows": ("N", "BN", "j*BN:(j+1)*BN", "v", "V", "V"), "columns": ("M", "BM", "i*BM:(i+1)*BM", "reshape(v, [BM, 1])", "reshape(V, [M, 1])", "V[:, None]"),
        "both": ("M, N", "BM, BN", "i*BM:(i+1)*BM, j*BN:(j+1)*BN", "v", "V", "V")}[along]
    end = f"        v = alloc([{tile}])\n        load(V[{at}] -> v)\n        y = {wrapped([u], 0, f'(c + {view})')}\n        " + STORE.format("y")
    return made(rng, number, f"product_tail_{along}", [a, b], f"V[{shape}]: f32; ", loop(["c"], [(a, b)]), end, wrapped([u], 0, f"({product_of(a, b)} + {whole})"),
                "M, N", "lambda A, B, V: " + wrapped([u], 1, f"({torch_product(a, b)} + {torch_view})"), ["M", "N", "K"], odd)


def gated(rng, number, odd):
    (a, b), u = two(rng), rng.choice(FUNCTIONS)
    v = Factor(rng, "V", "N", "K", "BN", "j")
    end = f"        y = {wrapped([u], 0, 'c')} * d\n        " + STORE.format("y")
    return made(rng, number, "product_gated", [a, b, v], "", loop(["c", "d"], [(a, b), (a, v)]), end, f"{wrapped([u], 0, product_of(a, b))} * {product_of(a, v)}",
                "M, N", f"lambda A, B, V: {wrapped([u], 1, torch_product(a, b))} * {torch_product(a, v)}", ["M", "N", "K"], odd)


def fold(rng, number, odd):
    (a, b), u, form = two(rng), rng.choice(FUNCTIONS), rng.choice(["sum", "max", "min"])
    value = wrapped([u], 0, "c")
    end = f"        y = reduce_{form}({value}, axis=1)\n        store(y -> parts[i*BM:(i+1)*BM, j])\n"
    more = f"""    parts = alloc([M, ceil(N, BN)])
|    @llm_hint("parallel", "coreidx")
    for m in range(M):
        p = alloc([ceil(N, BN)], llm_hint=["fast", "input_cache"])
        load(parts[m, :] -> p)
        y = reduce_{form}(p, axis=0){' / N' if form == 'sum' else ''}
        store(y -> Y[m])
"""
    folded = {"sum": "torch.mean({}, 1)", "max": "torch.amax({}, 1)", "min": "torch.amin({}, 1)"}[form].format(wrapped([u], 1, torch_product(a, b)))
    whole = f"reduce_{form}({wrapped([u], 0, product_of(a, b))}, axis=1)" + (" / N" if form == "sum" else "")
    return made(rng, number, f"product_fold_{form}", [a, b], "", loop(["c"], [(a, b)]), end, whole, "M", f"lambda A, B: {folded}", ["M", "N", "K"], odd, more)


def twin(rng, number, odd):
    (a, b), u = two(rng), rng.choice(FUNCTIONS)
    v, w = Factor(rng, "V", "M", "L", "BM", "i"), Factor(rng, "W", "N", "L", "BN", "j")
    end = f"        y = {wrapped([u], 0, '(c + d)')}\n        " + STORE.format("y")
    return made(rng, number, "product_twin", [a, b, v, w], "", loop(["c"], [(a, b)]) + loop(["d"], [(v, w)]), end, wrapped([u], 0, f"({product_of(a, b)} + {product_of(v, w)})"),
                "M, N", "lambda A, B, V, W: " + wrapped([u], 1, f"({torch_product(a, b)} + {torch_product(v, w)})"), ["M", "N", "K", "L"], odd)


def draw(seed=SEED):
    """id -> problem, as level1.PROBLEMS."""
    rng = random.Random(seed)
    products = [p for p in PROBLEMS.values() if p["group"] == "matmul"]
    convolutions = [p for p in PROBLEMS.values() if p["group"] == "convolution" and p["id"] in PLAIN]
    bases = rng.sample(products, PRODUCTS) + rng.sample(convolutions, CONVOLUTIONS) + [PROBLEMS[97]]
    parity = [True, False] * (len(bases) // 2)
    rng.shuffle(parity)
    found = [drawn_shape(rng, FIRST + i, base, odd) for i, (base, odd) in enumerate(zip(bases, parity))]
    parity = [True, True, False, False]
    rng.shuffle(parity)
    found += [form(rng, FIRST + len(bases) + i, odd) for i, (form, odd) in enumerate(zip((tail, gated, fold, twin), parity))]
    return {p["id"]: p for p in found}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sketchc", nargs="?")
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    for p in draw(options.seed).values():
        if options.list:
            full = p["cases"]["full"]
            print(p["id"], p["name"], p["group"], full, f"{2e-9 * multiply_adds(p['text'], full):.0f}", f"{tensor_bytes(p['text'], full)[0] * 1e-6:.0f}", sep="\t")
        else:
            options.folder.mkdir(parents=True, exist_ok=True)
            (options.folder / p["file"]).write_text(formatted(options.sketchc, p["text"]))


if __name__ == "__main__":
    main()
