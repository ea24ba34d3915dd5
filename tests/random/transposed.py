#!/usr/bin/env python3
"""Random transposed convolutions: one to three dimensions, strides, dilations, paddings and output paddings, the condition of divisibility written in several
ways, and something made of the result. Rules design their sketches, solved for the taps; `verify` compares what those give with the reference.

    transposed.py SKETCHC COUNT [SEED]    operators of the seeds from SEED (1) on, half of them each day (tests/daily.py); each in the style that is chosen and in one other
    transposed.py --print SEED            the operator of a seed"""
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import daily

REFUSED = (1,)  # exit statuses
STYLES = ("packed_short", "rows", "columns", "packed_wide", "squares", "packed_narrow", "naive_rows")
UPDATES = ("Y = Z", "Y = relu(Z)", "Y = Z * 0.5 + R", "Y[n, o, {at}] = max(Z[n, o, {at}] + R[n, o, {at}], -1)")


class Dimension:
    def __init__(self, rng, axis):
        self.x, self.k, self.size = "xyz"[axis], "rst"[axis], "LHW"[axis]
        self.stride, self.dilation = rng.choice([1, 2, 2, 3, 4, 5]), rng.choice([1, 1, 2, 3, 4])
        self.taps = rng.randint(1, 5)
        span = self.dilation * (self.taps - 1)
        self.padding = rng.randint(0, span)
        self.more = rng.randint(0, self.stride - 1)
        self.form = rng.randrange(3)
        self.value = rng.randint(1, 7) + max(0, (2 * self.padding - span + self.stride - 1) // self.stride)

    def output(self):
        constant = self.dilation * (self.taps - 1) + 1 - 2 * self.padding + self.more
        return f"({self.size} - 1) * {self.stride} + {constant}"

    def at(self):
        return f"({self.x} + {self.padding} - {self.dilation} * {self.k})"

    def condition(self):
        forms = (self.at(), f"({self.dilation} * {self.k} - {self.padding} - {self.x})", f"({self.x} - {self.dilation} * {self.k} + {self.padding})")
        return f"{forms[self.form]} % {self.stride} == 0"


def operator(seed):
    rng = random.Random(seed)
    dims = [Dimension(rng, i) for i in range(rng.choice([1, 1, 2, 2, 3]))]
    if len(dims) == 3:
        for d in dims:
            d.taps = min(d.taps, 3)
            d.padding = min(d.padding, d.dilation * (d.taps - 1))
    update, groups = rng.choice(UPDATES), rng.choice([1, 1, 2, 3])
    last = 70 if len(dims) == 1 else 20
    sizes = [d.size for d in dims]
    outs = [f"O{d.size}" for d in dims]
    at = ", ".join(d.x for d in dims)
    within = ", ".join(f"{d.x} in 0:O{d.size}" for d in dims)
    need = ", ".join(f"{d.output()} >= 1" for d in dims)
    conditions = " and ".join(d.condition() for d in dims if d.stride > 1)
    read = ", ".join(f"{d.at()}//{d.stride}" for d in dims)
    result = ", ".join(outs)
    x, f = ("o//O*C + c", "o//O*C + c, o%O") if groups > 1 else ("c", "c, o")
    weights = "pad(F, 0)" if groups > 1 else "F"
    term = f"pad(X, 0)[n, {x}, {read}] * {weights}[{f}, {', '.join(d.k for d in dims)}]"
    many = f"{groups}*" if groups > 1 else ""
    residual = f" R[B, {many}O, {result}]: f32;" if "R" in update else ""
    return f"""operator transposed {{
    symbols: B, C, O, {", ".join(sizes)}, {", ".join(f"O{d.size} = {d.output()}" for d in dims)}, {need};
    tensors: X[B, {many}C, {", ".join(sizes)}]: f32; F[{many}C, O, {", ".join(str(d.taps) for d in dims)}]: f32;{residual} Y[B, {many}O, {result}]: f32;
    Z[n in 0:B, o in 0:{many}O, {within}] = sum(c in 0:C, {", ".join(f"{d.k} in 0:{d.taps}" for d in dims)},
        {f"where({conditions}, {term}, 0)" if conditions else term})
    {update.format(at=at)}
    case a {{ B=2, C=3, O=5, {", ".join(f"{d.size}={d.value}" for d in dims)}; X: normal(0, 1); F: normal(0, 1) }}
    case b {{ B=1, C=35, O=33, {", ".join([f"{d.size}={d.value}" for d in dims[:-1]] + [f"{sizes[-1]}={last}"])}; X: normal(0, 1); F: normal(0, 1) }}
}}
"""


def run(sketchc, *arguments):
    return subprocess.run([sketchc, *arguments], capture_output=True, text=True, check=False)


def is_refused(done):
    return done.returncode in REFUSED and "error[E" in done.stderr


def check(sketchc, seed, folder):
    """What is wrong with the operator of the seed (an empty list: nothing), and how many of its sketches store by phase."""
    file = folder / f"{seed}.sketch"
    file.write_text(operator(seed))
    wrong, phases = [], 0
    for options in ([], [f"--design={STYLES[seed % len(STYLES)]}"]):
        made = run(sketchc, file, "-t", "openmp", "--emit=sketch", *options)
        if made.returncode:
            if not options or not is_refused(made):
                wrong.append(f"{options}: no sketch: status {made.returncode}: {made.stderr[:400]}")
            continue
        phases += " = Y[" in made.stdout
        done = run(sketchc, "verify", file, "-t", "openmp", "--no-ragged", *options)
        if options and is_refused(done):
            continue  # a style that was not chosen need not lower
        if done.returncode or " 0 failed" not in done.stdout:
            wrong.append(f"{options}: {done.stdout[-800:]}{done.stderr[-400:]}")
    return wrong, phases


def main():
    if sys.argv[1] == "--print":
        print(operator(int(sys.argv[2])), end="")
        return 0
    sketchc, count, first = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1
    failed = phases = 0
    seeds = daily.drawn(range(first, first + count), 2)
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            wrong, stored = check(sketchc, seed, pathlib.Path(folder))
            phases += stored
            failed += bool(wrong)
            for text in wrong:
                print(f"seed {seed}: {text}\n{operator(seed)}")
    print(f"{len(seeds)} operators, {failed} wrong, {phases} sketches that store by phase")
    return 1 if failed or (len(seeds) >= 4 and not phases) else 0


if __name__ == "__main__":
    sys.exit(main())
