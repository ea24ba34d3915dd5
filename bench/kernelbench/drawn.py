#!/usr/bin/env python3
"""Problems that nobody chose: shapes and operators drawn by a seed, to tell what the compiler does in
general from what it was looked at for. The sketches are level1.py's texts, untouched.

    drawn.py SKETCHC FOLDER [--seed 20261123]   writes FOLDER/*.sketch, for run.py --drawn SEED
    drawn.py --list [--seed N]                  id, name, group, sizes, MB

Twelve shapes: a problem of each group bound by memory, then five more of any, none twice; bytes of all
tensors log-uniform in 0.1 to 8 GB, extents log-uniform in RANGES, the first as what is left; half of
them with odd extents, half with a last extent that is a multiple of 16 and others of 4.

Four operators, no two of one form, at such sizes:

    chain   Y = u(b(u(u(X)), V)): two to four functions, and a tensor V along rows, columns or both
    fold    Y[m] = u(r(u(X) [* V], axis=1)): a sum, mean, maximum, minimum with what is before and behind it
    norm    Y = u(n(X)): softmax, deviation, scale by a mean square or mean size, along the last axis
            or along the one before it
    scan    Y = u(cumsum(u(X), axis=1)), also reverse or exclusive
    window  largest or mean of 2 to 7 elements an axis, one or two axes, stride, padding, dilation"""
import argparse
import pathlib
import random
import re

from level1 import CHANNELS, PROBLEMS, ROWS, UNBOUND, formatted, problem, window_problem

SEED = 20261123
LEAST, MOST = 0.1e9, 8e9  # bytes
SHAPES = 12
FIRST = 1001  # the first's id
# Extents of the axes behind the first, by the problem's symbols.
RANGES = {
    "M N": {"N": (256, 1 << 19)},
    "M K": {"K": (1024, 1 << 20)},
    "B K N": {"K": (64, 1 << 14), "N": (64, 1 << 14)},
    "B C H W": {"C": (8, 256), "H": (16, 1024), "W": (16, 1024)},
    "B G P H W": {"G": (2, 32), "P": (2, 16), "H": (16, 1024), "W": (16, 1024)},
    "B C L": {"C": (8, 256), "L": (1024, 1 << 18)},
    "B C D H W": {"C": (8, 64), "D": (16, 256), "H": (16, 256), "W": (16, 256)},
    "channels": {"C": (8, 128), "H": (16, 1024), "W": (16, 1024)},
}
# A function as sketches write it, as PyTorch does.
FUNCTIONS = [("relu({})", "torch.relu({})"), ("tanh({})", "torch.tanh({})"), ("sigmoid({})", "torch.sigmoid({})"), ("exp(-abs({}))", "torch.exp(-torch.abs({}))"),
             ("sqrt(abs({}))", "torch.sqrt(torch.abs({}))"), ("gelu({})", "F.gelu({})"), ("square({})", "torch.square({})"), ("sin({})", "torch.sin({})"),
             ("log(1 + abs({}))", "torch.log(1 + torch.abs({}))"), ("({} * 0.5 + 1)", "({} * 0.5 + 1)"), ("clamp({}, 0.1, 0.9)", "torch.clamp({}, 0.1, 0.9)")]
PAIRS = [("{} + {}", "{} + {}"), ("{} * {}", "{} * {}"), ("{} - {}", "{} - {}"), ("max({}, {})", "torch.maximum(*torch.broadcast_tensors({}, {}))")]

CHAIN = """
sketch {name}_tiled implements {name} {{
    symbols: M, N;
    tensors: X[M, N]: f32; V[{shape}]: f32; Y[M, N]: f32;
    constexpr: T = 1024;

    @llm_hint("parallel", "coreidx")
    for i in range(M):
        @llm_hint("parallel", "coreidx")
        for j in range(0, ceil(N, T)):
            x = alloc([T], llm_hint=["fast", "input_cache"])
            load(X[i, j*T:(j+1)*T] -> x)
            v = alloc([{tile}], llm_hint=["fast", "input_cache"])
            load(V[{at}] -> v)
            y = {body}
            store(y -> Y[i, j*T:(j+1)*T])
}}
"""

FOLD = """
sketch {name}_rows implements {name} {{
    symbols: M, N;
    tensors: X[M, N]: f32; {weights}Y[M]: f32;

    @llm_hint("parallel", "coreidx")
    for m in range(M):
        x = alloc([N], llm_hint=["fast", "input_cache"])
        load(X[m, :] -> x)
{loads}        y = {body}
        store(y -> Y[m])
}}
"""


def tensor_bytes(text, sizes):
    """Of all tensors of the operator, at the sizes, and of those it writes: (all, written)."""
    head = text.split("\n\n")[0]
    values = dict(sizes)
    for name, derived in re.findall(r"(\w+) = ([^,;]+)", re.search(r"symbols: ([^;]*);", head)[1]):
        values[name] = eval(derived, {}, values)
    wide = {"f32": 4, "i64": 8, "bool": 1, "f16": 2, "bf16": 2}
    found = [(name, eval("*".join(f"({e})" for e in extents.split(",")), {}, values) * wide[dtype])
             for name, extents, dtype in re.findall(r"\b([A-Z]\w*)\[([^\]]*)\]: (\w+)", re.search(r"tensors: ([^\n]*)", head)[1])]
    return sum(b for _, b in found), found[-1][1]


def log_uniform(rng, low, high):
    return round(low * (high / low) ** rng.random())


def draw_sizes(rng, names, ranges, text, odd):
    """Extents that make the drawn number of bytes; the first name's is what is left."""
    while True:
        target = LEAST * (MOST / LEAST) ** rng.random()
        sizes = {names[0]: 1}
        for name in names[1:]:
            size = log_uniform(rng, *ranges[name])
            step = 16 if name == names[-1] else 4
            sizes[name] = size | 1 if odd else max(step, size // step * step)
        one = tensor_bytes(text, sizes)[0]
        if one <= target:
            first = max(1, round(target / one))
            sizes[names[0]] = first | 1 if odd else first
            if LEAST <= tensor_bytes(text, sizes)[0] <= MOST:
                return sizes


def drawn_shape(rng, number, base, odd):
    names = list(base["cases"]["full"])
    ranges = RANGES["channels" if base["kind"] == "channels" else " ".join(names)]
    sizes = draw_sizes(rng, names, ranges, base["text"], odd)
    cases = {"full": sizes, "small": base["cases"]["small"]}
    return {**base, "id": number, "base": base["id"], "cases": cases, "file": f"{number}_{base['name']}.sketch",
            "text": base["at"](cases, f"Drawn: problem {base['id']} of level 1 at another shape. Made by drawn.py.")}


# ---- Operators ----

def wrapped(functions, form, text):
    for f in functions:
        text = f[form].format(text)
    return text


def finish(rng, number, name, kind, group, tensors, equation, sketch, names, ranges, reference, inputs, odd, small):
    """tensors: text behind `tensors:`. inputs: name -> the extents' names, for run.py."""
    head = f"    symbols: {', '.join(names)};\n    tensors: {tensors};"
    data = "; ".join(f"{t}: uniform(-1, 1)" for t in inputs)
    made = problem(number, name, kind, group, head, f"    Y = {equation}", sketch, {"small": small}, data, "Drawn operator. Made by drawn.py.")
    cases = {"full": draw_sizes(rng, names, ranges, made["text"], odd), "small": small}
    return {**made, "cases": cases, "text": made["at"](cases), "file": f"{number}_{name}.sketch", "reference": reference, "inputs": inputs}


def chain(rng, number, odd):
    before, behind = rng.choices(FUNCTIONS, k=rng.randint(1, 2)), rng.choices(FUNCTIONS, k=rng.randint(1, 2))
    pair, along = rng.choice(PAIRS), rng.choice(["rows", "columns", "both"])
    shape, tile, at, view = {"rows": ("N", "T", "j*T:(j+1)*T", "V"), "columns": ("M", "", "i", "reshape(V, [M, 1])"),
                             "both": ("M, N", "T", "i, j*T:(j+1)*T", "V")}[along]

    def body(form, x, v):
        return wrapped(behind, form, "(" + pair[form].format(wrapped(before, form, x), v) + ")")

    name = f"chain_{along}"
    return finish(rng, number, name, "elementwise", "elementwise", f"X[M, N]: f32; V[{shape}]: f32; Y[M, N]: f32", body(0, "X", view),
                  CHAIN.format(name=name, shape=shape, tile=tile, at=at, body=body(0, "x", "v")), ["M", "N"], RANGES["M N"],
                  "lambda X, V: " + body(1, "X", "V[:, None]" if along == "columns" else "V"), {"X": "M N", "V": shape.replace(",", "")}, odd, {"M": 5, "N": 1021})


def fold(rng, number, odd):
    before, behind = rng.choice(FUNCTIONS), rng.choice(FUNCTIONS)
    form, weighted = rng.choice(["sum", "mean", "max", "min"]), rng.random() < 0.5
    scale = " / N" if form == "sum" else ""  # keeps what follows in the range where it is not constant

    def body(x, v, axis):
        inner = wrapped([before], 0, x) + (f" * {v}" if weighted else "")
        return wrapped([behind], 0, f"reduce_{form}({inner}, axis={axis}){scale}")

    inner = wrapped([before], 1, "X") + (" * V" if weighted else "")
    folded = {"sum": "torch.sum({}, 1) / X.shape[1]", "mean": "torch.mean({}, 1)", "max": "torch.amax({}, 1)", "min": "torch.amin({}, 1)"}[form].format(inner)
    name, weights = f"fold_{form}", "V[N]: f32; " if weighted else ""
    loads = '        v = alloc([N], llm_hint=["fast", "input_cache"])\n        load(V -> v)\n' if weighted else ""
    return finish(rng, number, name, "losses", "reductions", f"X[M, N]: f32; {weights}Y[M]: f32", body("X", "V", 1),
                  FOLD.format(name=name, weights=weights, loads=loads, body=body("x", "v", 0)), ["M", "N"], RANGES["M N"],
                  f"lambda X{', V' if weighted else ''}: " + wrapped([behind], 1, folded), {"X": "M N", **({"V": "N"} if weighted else {})}, odd, {"M": 5, "N": 1021})


NORMS = {"softmax": ("softmax({0}, axis={1})", "torch.softmax({0}, {1})"),
         "deviation": ("({0} - mean({0}, axis={1}, keepdim=true))", "({0} - torch.mean({0}, {1}, keepdim=True))"),
         "square_scale": ("({0} / sqrt(mean({0} * {0}, axis={1}, keepdim=true) + 0.001))", "({0} / torch.sqrt(torch.mean({0} * {0}, {1}, keepdim=True) + 0.001))"),
         "size_scale": ("({0} / (mean(abs({0}), axis={1}, keepdim=true) + 0.001))", "({0} / (torch.mean(torch.abs({0}), {1}, keepdim=True) + 0.001))")}


def norm(rng, number, odd):
    form, behind, last = rng.choice(sorted(NORMS)), rng.choice(FUNCTIONS), rng.random() < 0.5
    name = f"norm_{form}_{'last' if last else 'before_last'}"
    reference = "lambda X: " + wrapped([behind], 1, NORMS[form][1].format("X", 1))
    whole, tile = (wrapped([behind], 0, NORMS[form][0].format(x, axis)) for x, axis in (("X", 1), ("x", 0)))
    if last:
        sketch = ROWS.format(name=name, symbols="M, N", rows="M", length="N", tile=f"y = {tile}", constexpr="")
        return finish(rng, number, name, "rows", "softmax and norms", "X[M, N]: f32; Y[M, N]: f32", whole, sketch, ["M", "N"], RANGES["M N"], reference,
                      {"X": "M N"}, odd, {"M": 5, "N": 1021})
    sketch = CHANNELS.format(name=name, tile=tile).replace("    constexpr: eps, T = 256;", "    constexpr: T = 256;")
    return finish(rng, number, name, "channels", "softmax and norms", "X[B, C, H, W]: f32; Y[B, C, H, W]: f32", whole, sketch, ["B", "C", "H", "W"],
                  RANGES["channels"], reference, {"X": "B C H W"}, odd, {"B": 2, "C": 3, "H": 13, "W": 17})


def scan(rng, number, odd):
    before, behind = rng.choice(FUNCTIONS), rng.choice([f for f in FUNCTIONS if "sin" not in f[0]])  # of a long sum's sine no digit holds
    way = rng.choice(["", ", reverse=true", ", exclusive=true"])
    name = "scan" + {"": "", ", reverse=true": "_reverse", ", exclusive=true": "_exclusive"}[way]
    whole, tile = (wrapped([behind], 0, f"cumsum({wrapped([before], 0, x)}, axis={axis}{way})") for x, axis in (("X", 1), ("x", 0)))
    summed = {"": "torch.cumsum({}, 1)", ", reverse=true": "torch.cumsum(({}).flip(1), 1).flip(1)",
              ", exclusive=true": "(lambda x: torch.cat((torch.zeros_like(x[:, :1]), torch.cumsum(x[:, :-1], 1)), 1))({})"}[way].format(wrapped([before], 1, "X"))
    return finish(rng, number, name, "rows", "scans", "X[M, N]: f32; Y[M, N]: f32", whole,
                  ROWS.format(name=name, symbols="M, N", rows="M", length="N", tile=f"y = {tile}", constexpr=""), ["M", "N"], RANGES["M N"],
                  "lambda X: " + wrapped([behind], 1, summed), {"X": "M N"}, odd, {"M": 5, "N": 1021})


def window(rng, number, odd):
    rank, reduce, k = rng.randint(1, 2), rng.choice(["max", "sum"]), rng.randint(2, 7)
    stride, padding, dilation = rng.randint(1, 3), rng.randint(0, k // 2), rng.randint(1, 3) if reduce == "max" else 1
    name = f"window_{reduce}_{rank}d"
    names, small = (["B", "C", "L"], {"B": 2, "C": 3, "L": 301}) if rank == 1 else (["B", "C", "H", "W"], {"B": 1, "C": 2, "H": 47, "W": 71})
    made = window_problem(number, name, reduce, rank, k, stride, padding, dilation, {"small": small}, title="Drawn operator. Made by drawn.py.")
    cases = {"full": draw_sizes(rng, names, RANGES[" ".join(names)], made["text"], odd), "small": small}
    call = f"F.max_pool{rank}d(X, {k}, {stride}, {padding}, {dilation})" if reduce == "max" else f"F.avg_pool{rank}d(X, {k}, {stride}, {padding})"
    return {**made, "cases": cases, "text": made["at"](cases), "file": f"{number}_{name}.sketch", "reference": f"lambda X: {call}", "inputs": {"X": " ".join(names)}}


FORMS = (chain, fold, norm, scan, window)


def draw(seed=SEED):
    """id -> problem, as level1.PROBLEMS."""
    rng = random.Random(seed)
    memory_bound = [p for p in PROBLEMS.values() if p["group"] not in UNBOUND]
    groups = sorted({p["group"] for p in memory_bound})
    bases = [rng.choice([p for p in memory_bound if p["group"] == group]) for group in groups]
    bases += rng.sample([p for p in memory_bound if p not in bases], SHAPES - len(bases))
    parity = [True, False] * (SHAPES // 2)
    rng.shuffle(parity)
    made = [drawn_shape(rng, FIRST + i, base, odd) for i, (base, odd) in enumerate(zip(bases, parity))]
    parity = [True, True, False, False]
    rng.shuffle(parity)
    made += [form(rng, FIRST + SHAPES + i, odd) for i, (form, odd) in enumerate(zip(rng.sample(FORMS, 4), parity))]
    return {p["id"]: p for p in made}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sketchc", nargs="?")
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    for p in draw(options.seed).values():
        if options.list:
            print(p["id"], p["name"], p["group"], p["cases"]["full"], f"{tensor_bytes(p['text'], p['cases']['full'])[0] * 1e-6:.0f}", sep="\t")
        else:
            options.folder.mkdir(parents=True, exist_ok=True)
            (options.folder / p["file"]).write_text(formatted(options.sketchc, p["text"]))


if __name__ == "__main__":
    main()
