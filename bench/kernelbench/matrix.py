"""The products of matrices of KernelBench level 1, for level1.py.

PyTorch multiplies them in f32. Here each factor is split first: x = s (h + l / 2048) with h and l in f16 and s a power of two
for each row of the left factor and each column of the right one, so that h is at most 2^15; 22 bits of every x above 2^-28 of
its row's largest are kept. Three of the four products of the parts run on tensor cores: h h' of 64 steps along K (32 where K is short)
into a sum of its own that is added in f32 (what tensor cores cut off of it grows with the sum), the two small ones into another. A row or column with an infinity, a NaN or numbers further apart
than 2^25 sqrt(K), and K below 64, go by f32 in a last launch that has nothing to do otherwise.

An |x| of 2^-s of its row's largest, s from 28 on, is off by 2^(s-26) units of 2^-24; f32's bound is 2 sqrt(K) of them, of which both
factors together take at most half."""

import copy
import re

SPREAD = 2 ** 28  # of sums whose length is not known
SPREAD_ROOT = 2 ** 25  # times sqrt(K)
# Marks of rows: 0 where f16 holds a row, else by its spread. Three parts in bf16 hold a product of a row and a column whose marks add up to at most HELD,
# so that the least product of two numbers scaled by 2^50 is above 2^-102.
SPANS = ((2, 50, 50), (4, 100, 55))  # mark, powers of two whose sum is the widest spread
BEYOND, HELD = 8, 4
PARTS = (0, 1, 2)
TILES = ("BM = 128, BN = 128, BK = 64, ST = 3, BT = 64, BS = 32, SS = 3, WK = 32, WS = 4, F = 128, FN = 64, FR = 32, FD = 2, G = 16, GB = 8, "
         "CK = 128, CC = 32, T = 32, MK = 128, MB = 264, FB = 1056, PM = 1024")
LEAST_DEEP = 256  # below, SGEMM's sums are so short that those of 64 products are less exact on tensor cores
LEAST_K = 64  # below, what the parts leave out may be more than f32's bound: 12 units against 2 sqrt(K)


def lines(text, depth):
    return "" if not text else "".join("    " * depth + line + "\n" if line else "\n" for line in text.strip("\n").split("\n"))


def nest(loops, body, hint="coreidx"):
    """Parallel loops around the body: `loops` from the outermost one; hint names a kind of loop, or a list one a loop."""
    text, hints = "", hint if isinstance(hint, list) else [hint] * len(loops)
    for depth, (loop, kind) in enumerate(zip(loops, hints), 1):
        text += lines(f'@llm_hint("parallel", "{kind}")\nfor {loop}:', depth)
    return text + lines(body, len(loops) + 1)


def deeper(text):
    return "".join("    " + line + "\n" if line else "\n" for line in text.rstrip("\n").split("\n"))


class Factor:
    """name: of the tensor. rows: what is not summed. k_last: K runs along the rows. lead: of a batch, (index, extent)."""

    scaled = True  # what is summed has scales and marks of its own
    in_parts = True  # what is too wide for f16 is multiplied in three parts of bf16
    before_f32 = after_f32 = ""  # of a left factor: lines around a sum in f32 of row of tiles {i}

    def __init__(self, name, rows, tile, index, k_last, lead=None, keep="", k="K"):
        self.name, self.rows, self.tile, self.index, self.k_last, self.lead, self.keep, self.k = name, rows, tile, index, k_last, lead, keep, k
        self.at = f"{lead[0]}, " if lead else ""
        self.extents = f"{lead[1]}, " if lead else ""
        self.loops = [f"{lead[0]} in range({lead[1]})"] if lead else []

    def shape(self):
        return self.extents + (f"{self.rows}, {self.k}" if self.k_last else f"{self.k}, {self.rows}")

    def workspaces(self):
        n, even = self.name, lambda size: f"ceil({size}, 8) * 8"  # by columns tiles of T are stored, of whole lines of the L2 cache
        shape = f"{self.rows}, {even(self.k)}" if self.k_last else f"{even(self.k)}, ceil({self.rows}, 64) * 64"
        text = "".join(f"{n}{part} = alloc([{self.extents}{shape}], dtype=f16)\n" for part in "HL")
        if self.in_parts:
            text += f"R{n} = alloc([{self.extents}ceil({self.rows}, F)], dtype=i32)\n"
            text += "".join(f"{n}{part} = alloc([{self.extents}{shape}], dtype=bf16)\n" for part in PARTS)
        text += f"S{n} = alloc([{self.extents}{even(self.rows)}])\nW{n} = alloc([{self.extents}{self.rows}], dtype=i32)\n"
        if not self.k_last:
            text += "".join(f"{p}{n} = alloc([{self.extents}ceil({self.k}, CK), {self.rows}])\n" for p in "PQ")
        return text

    def scale(self):
        return f"""e = where(most > 0, floor(log2(most)), 0)
scales = most < 1e18 and most > 1e-18
fine = most == 0 or (scales and least * {SPREAD_ROOT} * sqrt(cast({self.k}, f32)) >= most)
wide = where(fine, 0, {self.mark()})
s = exp2(e - 14)
"""

    def mark(self):
        text = str(BEYOND)
        for mark, up, down in reversed(SPANS):
            text = f"where(scales and least * {2.0 ** up} >= most * {2.0 ** -down}, {mark}, {text})"
        return text

    def parts(self, at):
        return f"""h = cast(x, f16)
l = cast((x - cast(h, f32)) * 2048, f16)
store(h -> {self.name}H[{self.at}{at}])
store(l -> {self.name}L[{self.at}{at}])"""

    def made_f32(self, variable, tile):
        """What the factor of a sum in f32 is made of its loaded tile by."""
        kept = self.kept(self.tile_of(tile, "G").split(", "), "k * G", f"{self.index} * {tile}")
        return kept.replace("x = ", f"{variable} = ").replace(", x, 0)", f", {variable}, 0)")

    def split(self):
        return self.split_rows() if self.k_last else self.split_columns()

    def kept(self, shape, k, row):
        """Zeros where `keep`, a comparison of k and row, does not hold."""
        if not self.keep:
            return ""
        axes = (1, 0) if self.k_last and len(shape) > 1 else (0, 1)
        at = lambda axis, first: f"iota([{', '.join(shape)}], axis={axis})" + (f" + {first}" if first else "")  # noqa: E731
        row_at = at(axes[1], row) if len(shape) > 1 else row
        return f"x = where({at(axes[0], k)} {self.keep} {row_at}, x, 0)\n"

    def split_rows(self):
        n, width = self.name, f"ceil({self.k}, 8) * 8"
        return nest(self.loops + [f"m in range({self.rows})"], f"""x = alloc([{width}], llm_hint=["fast", "input_cache"])
load({n}[{self.at}m, 0:{width}] -> x, pad=0)
{self.kept([width], "", "m")}most = max(abs(x), axis=0)
least = min(where(x == 0, inf, abs(x)), axis=0)
{self.scale()}store(s -> S{n}[{self.at}m])
store(wide -> W{n}[{self.at}m])
x *= exp2(14 - e)
{self.parts("m, :")}""")

    def split_columns(self):
        """Largest and least of CK rows, then of all, then the parts."""
        n, a, r, kept = self.name, self.at, "n*T:(n+1)*T", self.kept(["CK", "T"], "c * CK", "n * T")
        load = f"load({n}[{a}c*CK:(c+1)*CK, {r}] -> x{{}})\n"
        blocks = [f"c in range(0, ceil({self.k}, CK))", f"n in range(0, ceil({self.rows}, T))"]
        text = nest(self.loops + blocks, f"""x = alloc([CK, T])
{load.format("")}{kept}most = max(abs(x), axis=0)
least = min(where(x == 0, inf, abs(x)), axis=0)
store(most -> P{n}[{a}c, {r}])
store(least -> Q{n}[{a}c, {r}])""")
        text += nest(self.loops + [blocks[1]], f"""most = alloc([T], init=0)
least = alloc([T], init=inf)
for c in range(0, ceil(ceil({self.k}, CK), CC)):
    x = alloc([CC, T])
    y = alloc([CC, T])
    load(P{n}[{a}c*CC:(c+1)*CC, {r}] -> x)
    load(Q{n}[{a}c*CC:(c+1)*CC, {r}] -> y)
    most = max(most, max(x, axis=0))
    least = min(least, min(y, axis=0))
{self.scale()}store(s -> S{n}[{a}{r}])
store(wide -> W{n}[{a}{r}])""")
        return text + nest(self.loops + blocks, f"""s = alloc([T])
load(S{n}[{a}{r}] -> s)
x = alloc([CK, T])
{load.format(", pad=0")}{kept}x /= s
{self.parts(f"c*CK:(c+1)*CK, {r}")}""")

    def cut(self, part, tile, depth):
        i, k = f"{self.index}*{tile}:({self.index}+1)*{tile}", f"k*{depth}:(k+1)*{depth}"
        return f"{self.name}{part}[{self.at}{f'{i}, {k}' if self.k_last else f'{k}, {i}'}]"

    def tile_of(self, tile, depth):
        return f"{tile}, {depth}" if self.k_last else f"{depth}, {tile}"


def product(name, a, b, symbols, result, steps=("0", "ceil(K, {})"), tiles=TILES):
    """The whole sketch. steps: the first of K's tiles and the last one's successor, by the depth of a tile and the tile."""
    main, rest = products(a, b, a.loops, "C", steps, depths=by_length(a.k))
    return f"""
sketch {name}_split implements {name} {{
    symbols: {symbols};
    tensors: A[{a.shape()}]: f32; B[{b.shape()}]: f32; C[{result}]: f32;
    constexpr: {tiles};

{lines(a.workspaces() + b.workspaces() + f"marks = alloc([{a.lead[1] if a.lead else 1}], dtype=i32)", 1)}{a.split()}{b.split()}{main}{rest}}}
"""


def by_length(k, least=None):
    """The tiles of products: by K, a tile's depth, its stages and columns. Where K is short a tile is mostly waited for and stored, so that two blocks of half the
    columns share a multiprocessor. least: shorter K goes another way, and no `else` says so."""
    if least is None:
        return [(f"if {k} < {LEAST_DEEP}", "BS", "SS", "BT"), ("else", "BK", "ST", "BN")]
    return [(f"if {k} >= {least} and {k} < {LEAST_DEEP}", "BS", "SS", "BT"), (f"if {k} >= {LEAST_DEEP}", "BK", "ST", "BN")]


def products(a, b, loops, result, steps, done="", depths=((None, "BK", "ST", "BN"),), chunk=("0", "ceil({}, CK)")):
    """The loops over tiles that multiply the parts, and those that multiply otherwise what has to be. done: a line that finishes the sums. depths: of the
    tiles along K, their stages and the columns, each behind the condition on sizes under which it runs. chunk: the first of K's tiles of CK and the last
    one's successor that marks are of."""
    flags = ("" if a.k_last else ", trans_a=true") + (", trans_b=true" if b.k_last else "")
    at = a.at
    tiles = lambda m, n: loops + [f"i in range(0, ceil({a.rows}, {m}))", f"j in range(0, ceil({b.rows}, {n}))"]  # noqa: E731
    hints = ["grididx.z"] * len(loops) + ["grididx.y", "grididx.x"]

    def main(depth, stages, columns):
        scales = each_scaled(a, b, a.at, "S", "s", "BM", columns)
        loads = "".join(f"    {v} = alloc([{f.tile_of(t, depth)}])\n    load({f.cut(p, t, depth)} -> {v})\n"
                        for f, t, v, p in ((a, "BM", "ah", "H"), (a, "BM", "al", "L"), (b, columns, "bh", "H"), (b, columns, "bl", "L")))
        begin, end = (s.format(depth, "BM", columns) for s in steps)
        return nest(tiles("BM", columns), f"""acc = alloc([BM, {columns}], init=0)
low = alloc([BM, {columns}], init=0)
@llm_hint("pipeline", stages={stages})
for k in range({begin}, {end}):
{loads}    high = alloc([BM, {columns}], init=0)
    gemm(ah, bh, high{flags})
    gemm(al, bh, low{flags})
    gemm(ah, bl, low{flags})
    acc += high
{scales}acc += low / 2048
acc = acc * reshape(sa, [BM, 1]){" * sb" if b.scaled else ""}
{done}store(acc -> {result}[{at}i*BM:(i+1)*BM, j*{columns}:(j+1)*{columns}])""", hints)

    each = "".join(f"    {where}:\n{deeper(main(*depth))}" if where else main(*depth) for where, *depth in depths)
    rest = by_parts(a, b, at, flags, loops, steps, result, done, [c.format(a.k) for c in chunk]) if a.in_parts else ""
    return each, rest + by_f32(a, b, at, flags, loops, steps, result, done)


def each_scaled(a, b, lead, kind, variable, rows, columns):
    """Loads what is kept of each row of a and each column of b: of `kind` S, scales, or W, marks."""
    those = [(f, variable + side, tile) for f, side, tile in ((a, "a", rows), (b, "b", columns)) if f.scaled]
    return "".join(f"{v} = alloc([{tile}])\n" for _, v, tile in those) +         "".join(f"load({kind}{f.name}[{lead}{f.index}*{tile}:({f.index}+1)*{tile}] -> {v})\n" for f, v, tile in those)


def worst_mark(f, at, variable):
    """The worst mark of all rows of a factor; those of tiles where they are kept."""
    name, count = (f"R{f.name}", f"ceil({f.rows}, F)") if f.in_parts else (f"W{f.name}", f.rows)
    return f"""{variable} = alloc([], dtype=i32, init=0)
for q in range(0, ceil({count}, PM)):
    m = alloc([PM])
    load({name}[{at}q*PM:(q+1)*PM] -> m)
    {variable} = max({variable}, max(m, axis=0))
"""


def tile_marks(a, b, at, loops):
    """One launch that keeps the worst mark of each F rows of a and F columns of b."""
    own = lambda f, index: f"""w = alloc([F])
load(W{f.name}[{at}{index}*F:({index}+1)*F] -> w)
worst = max(w, axis=0)
store(worst -> R{f.name}[{at}{index}], unique=true)
"""  # noqa: E731
    count = f"ceil({a.rows}, F)"
    return nest(loops + [f"r in range({count} + ceil({b.rows}, F))"], f"if r < {count}:\n{lines(own(a, 'r'), 1)}else:\n{lines(own(b, f'(r - {count})'), 1)}")


def marks_sum(a, b, at, kind, rows, columns, row, column, name):
    """The worst marks of `rows` rows of a and `columns` columns of b, added; kind W: of rows, R: of tiles of F."""
    x, y = copy.copy(a), copy.copy(b)
    x.index, y.index = row, column
    return each_scaled(x, y, at, kind, name, rows, columns) + "{} = " + " + ".join(f"max({name}{side}, axis=0)" for side in ("ab" if b.scaled else "a")) + "\n"


def tile_mark(a, b, at, row, column):
    """Of one tile of F x F."""
    if not a.in_parts:
        return marks_sum(a, b, at, "W", "F", "F", row, column, "w").format("own")
    return f"""wa = alloc([], dtype=i32)
wb = alloc([], dtype=i32)
load(RA[{at}{row}] -> wa, pad=0)
load(RB[{at}{column}] -> wb, pad=0)
own = wa + wb
"""


def marked_tiles(a, b, at, loops, least, body):
    """MB blocks go through the tiles of F x F and do those whose worst marks together are above `least`: without a mark each only reads that there is none. A step
    is FD tiles of FD x FD, no two in one row or column of tiles: what one marked row asks for is shared among blocks."""
    row, column = "(gi*FD+d)", "(gj*FD+(d+s)%FD)"
    group = marks_sum(a, b, at, "R", "FD", "FD", "gi", "gj", "m").format("wide")
    return nest(loops + ["g in range(MB)"], f"""some = alloc([], dtype=i32)
load({all_marks(at)} -> some)
if some > {least}:
    for t in range(g, ceil({a.rows}, F*FD) * ceil({b.rows}, F*FD) * FD, MB):
        s = t % FD
        gi = t // FD // ceil({b.rows}, F*FD)
        gj = t // FD % ceil({b.rows}, F*FD)
{lines(group, 2)}        if wide > {least}:
            for d in range(FD):
                if {row} < ceil({a.rows}, F) and {column} < ceil({b.rows}, F):
{lines(tile_mark(a, b, at, row, column), 5)}                    if own > {least}:
{lines(body(row, column), 6)}""")


def small_tiles(a, b, at, loops, least, body):
    """As marked_tiles, FB blocks and tiles of FR x FN, so that one row is shared by many blocks."""
    some = f"some = alloc([], dtype=i32)\nload({all_marks(at)} -> some)\n" if a.in_parts else worst_mark(a, at, "some")
    if b.scaled and not a.in_parts:
        some += worst_mark(b, at, "more") + "some += more\n"
    count = f"ceil({b.rows}, FN)"
    return nest(loops + ["g in range(FB)"], f"""{some}if some > {least}:
    for t in range(g, ceil({a.rows}, FR) * {count}, FB):
{lines(tile_mark(a, b, at, f"(t // {count} // (F // FR))", f"(t % {count} // (F // FN))"), 2)}        if own > {least}:
{lines(marks_sum(a, b, at, "W", "FR", "FN", f"(t // {count})", f"(t % {count})", "x").format("here"), 3)}            if here > {least}:
{lines(body(f"(t // {count})", f"(t % {count})"), 4)}""")


def all_marks(at):
    return f"marks[{at[:-2]}]" if at else "marks[0]"


def steps_at(steps, row, column, depth, rows, columns):
    return (re.sub(r"\bi\b", row, re.sub(r"\bj\b", column, s.format(depth, rows, columns))) for s in steps)


def by_parts(a, b, at, flags, loops, steps, result, done, chunk):
    """The tiles with a row or column too wide for f16, also those that go by f32 behind: x = x0 + x1 + x2 in bf16, which has f32's range, scaled so that the largest is 2^50. Six of the nine
    products of the parts are made, those above 2^-24. The parts are made where there is a mark at all."""
    first, last = chunk
    count, first = (last, "") if first == "0" else (f"({last} - {first})", f"{first} + ")
    make = ""
    for f, other in ((a, "mb"), (b, "ma")):
        size = "[F, CK]" if f.k_last else "[CK, F]"
        rows, ks = "tr*F:(tr+1)*F", "tk*CK:(tk+1)*CK"
        cut = f"[{at}{f'{rows}, {ks}' if f.k_last else f'{ks}, {rows}'}]"
        kept = f.kept(size[1:-1].split(", "), "tk * CK", "tr * F")
        stores = "".join(f"store(x{p} -> {f.name}{p}{cut}, unique=true)\n" for p in PARTS)
        make += f"""for t in range(g, ceil({f.rows}, F) * {count}, MK):
    tr = t // {count}
    tk = {first}t % {count}
    own = alloc([], dtype=i32)
    load(R{f.name}[{at}tr] -> own, pad=0)
    if {other} + own > 0:
        u = alloc([F])
        load(S{f.name}[{at}{rows}] -> u)
        x = alloc({size})
        load({f.name}{cut} -> x, pad=0)
{lines(kept, 2)}        x *= {"reshape(" if f.k_last else ""}{2.0 ** 36} / u{", [F, 1])" if f.k_last else ""}
        x0 = cast(x, bf16)
        x -= cast(x0, f32)
        x1 = cast(x, bf16)
        x2 = cast(x - cast(x1, f32), bf16)
{lines(stores, 2)}"""
    worst = f"""{worst_mark(a, at, "ma")}{worst_mark(b, at, "mb")}some = ma + mb
if g == 0:
    store(some -> {all_marks(at)}, unique=true)
"""
    text = tile_marks(a, b, at, loops) + nest(loops + ["g in range(MK)"], f"{worst}if some > 0:\n{lines(make, 1)}")

    def body(row, column):
        x, y = copy.copy(a), copy.copy(b)
        x.index, y.index = row, column
        begin, end = steps_at(steps, row, column, "WK", "F", "F")
        loads = "".join(f"    {v}{p} = alloc([{f.tile_of('F', 'WK')}])\n    load({f.cut(p, 'F', 'WK')} -> {v}{p})\n" for f, v in ((x, "a"), (y, "b")) for p in PARTS)
        return f"""acc = alloc([F, F], init=0)
low = alloc([F, F], init=0)
@llm_hint("pipeline", stages=WS)
for k in range({begin}, {end}):
{loads}    high = alloc([F, F], init=0)
    gemm(a0, b0, high{flags})
    gemm(a0, b1, low{flags})
    gemm(a1, b0, low{flags})
    gemm(a1, b1, low{flags})
    gemm(a0, b2, low{flags})
    gemm(a2, b0, low{flags})
    acc += high
{each_scaled(x, y, at, "S", "s", "F", "F")}ra = reshape(sa, [F, 1])
acc += low
large = abs(acc) >= 1
acc = where(large, acc * {2.0 ** -72}, acc) * max(ra, sb) * min(ra, sb)
acc = where(large, acc, acc * {2.0 ** -72})
{done}store(acc -> {result}[{at}{row}*F:({row}+1)*F, {column}*F:({column}+1)*F], unique=true)"""

    return text + marked_tiles(a, b, at, loops, 0, body)


def by_f32(a, b, at, flags, loops, steps, result, done):
    """The tiles that have to go by f32. Sums of GB G products each are added, which is more exact than one long sum; FN columns at a
    time, so that both sums fit into the registers of half a multiprocessor. Where K is short they are all; else small ones, so that one row is shared
    by many blocks."""
    def body(tile):
        def tiles(row, column):
            begin, end = steps_at(steps, row, column, "G", tile, "FN")
            x, y = copy.copy(a), copy.copy(b)
            x.index, y.index = row, column
            return f"""{a.before_f32.format(i=row, tile=tile)}
acc = alloc([{tile}, FN], init=0)
for q in range({begin}, {end}, GB):
    part = alloc([{tile}, FN], init=0)
    @llm_hint("pipeline", stages=3)
    for k in range(q, min(q + GB, {end})):
        a = alloc([{x.tile_of(tile, "G")}])
        b = alloc([{y.tile_of("FN", "G")}])
        load({x.cut("", tile, "G")} -> a)
        load({y.cut("", "FN", "G")} -> b)
{lines(x.made_f32("a", tile) + y.made_f32("b", "FN"), 2)}        gemm(a, b, part{flags})
    acc += part
{a.after_f32.format(i=row, tile=tile) + done}store(acc -> {result}[{at}{row}*{tile}:({row}+1)*{tile}, {column}*FN:({column}+1)*FN], unique=true)"""
        return tiles

    whole = nest(loops + [f"i in range(0, ceil({a.rows}, F))", f"j in range(0, ceil({b.rows}, FN))"], body("F")("i", "j"))
    marked = small_tiles(a, b, at, loops, HELD if a.in_parts else 0, body("FR"))
    return f"    if {a.k} < {LEAST_K}:\n{deeper(whole)}    else:\n{deeper(marked)}"


def short(name):
    """K may be so short that f32 has little to do beside writing the result, and what the parts leave out is more than its bound (LEAST_K): one
    step takes all of it then, and 32 sums a thread leave room for two blocks, of which one multiplies while the other stores. Else as the others."""
    a, b = Factor("A", "M", "BM", "i", True), Factor("B", "N", "BN", "j", False)
    text = nest(["i in range(0, ceil(M, BM))", "j in range(0, ceil(N, SN))"], """acc = alloc([BM, SN], init=0)
@llm_hint("pipeline", stages=2)
for k in range(0, ceil(K, SK)):
    a = alloc([BM, SK])
    b = alloc([SK, SN])
    load(A[i*BM:(i+1)*BM, k*SK:(k+1)*SK] -> a)
    load(B[k*SK:(k+1)*SK, j*SN:(j+1)*SN] -> b)
    gemm(a, b, acc)
store(acc -> C[i*BM:(i+1)*BM, j*SN:(j+1)*SN])""", ["grididx.y", "grididx.x"])
    main, rest = products(a, b, a.loops, "C", ("0", "ceil(K, {})"), depths=by_length("K", LEAST_K))
    return f"""
sketch {name}_split implements {name} {{
    symbols: M, N, K;
    tensors: A[M, K]: f32; B[K, N]: f32; C[M, N]: f32;
    constexpr: {TILES}, SN = 64, SK = 32;

{lines(a.workspaces() + b.workspaces() + "marks = alloc([1], dtype=i32)", 1)}    if K < {LEAST_K}:
{deeper(text)}    else:
{deeper(a.split() + b.split())}{main}    if K >= {LEAST_K}:
{deeper(rest)}}}
"""


def deep(name):
    """K in chunks, each with scales of its own, whose products are added last."""
    a, b = Factor("A", "M", "BM", "i", True), Factor("B", "N", "BN", "j", False)
    chunks, even = "ceil(K, KC)", "ceil(K, 8) * 8"
    in_parts = "".join(f"    A{p} = alloc([M, {even}], dtype=bf16)\n    B{p} = alloc([{even}, ceil(N, 64) * 64], dtype=bf16)\n" for p in PARTS)
    text = f"""
sketch {name}_split implements {name} {{
    symbols: M, N, K;
    tensors: A[M, K]: f32; B[K, N]: f32; C[M, N]: f32;
    constexpr: {TILES.replace("MK = 128, MB = 264, FB = 1056", "MK = 2, MB = 2, FB = 16")}, KC = 2048, SD = 5, R = 64;

    AH = alloc([M, {even}], dtype=f16)
    AL = alloc([M, {even}], dtype=f16)
    BH = alloc([{even}, ceil(N, 64) * 64], dtype=f16)
    BL = alloc([{even}, ceil(N, 64) * 64], dtype=f16)
{in_parts}    SA = alloc([{chunks}, ceil(M, 8) * 8])
    SB = alloc([{chunks}, ceil(N, 8) * 8])
    WA = alloc([{chunks}, M], dtype=i32)
    WB = alloc([{chunks}, N], dtype=i32)
    RA = alloc([{chunks}, ceil(M, F)], dtype=i32)
    RB = alloc([{chunks}, ceil(N, F)], dtype=i32)
    marks = alloc([{chunks}], dtype=i32)
    sums = alloc([{chunks}, M, ceil(N, 4) * 4])
"""
    text += nest([f"c in range({chunks})", "m in range(M)"], f"""x = alloc([KC], llm_hint=["fast", "input_cache"])
load(A[m, c*KC:(c+1)*KC] -> x, pad=0)
most = max(abs(x), axis=0)
least = min(where(x == 0, inf, abs(x)), axis=0)
{a.scale()}store(s -> SA[c, m])
store(wide -> WA[c, m])
x *= exp2(14 - e)
{a.parts("m, c*KC:(c+1)*KC")}""")
    block = "c*(KC//CK)+q"
    text += nest([f"c in range({chunks})", "n in range(0, ceil(N, T))"], f"""most = alloc([T], init=0)
least = alloc([T], init=inf)
for q in range(0, min(KC // CK, ceil(K - c*KC, CK))):
    x = alloc([CK, T])
    load(B[({block})*CK:({block}+1)*CK, n*T:(n+1)*T] -> x)
    most = max(most, max(abs(x), axis=0))
    least = min(least, min(where(x == 0, inf, abs(x)), axis=0))
{b.scale()}store(s -> SB[c, n*T:(n+1)*T])
store(wide -> WB[c, n*T:(n+1)*T])""")
    text += nest(["q in range(0, ceil(K, CK))", "n in range(0, ceil(N, T))"], f"""s = alloc([T])
load(SB[q // (KC // CK), n*T:(n+1)*T] -> s)
x = alloc([CK, T])
load(B[q*CK:(q+1)*CK, n*T:(n+1)*T] -> x, pad=0)
x /= s
{b.parts("q*CK:(q+1)*CK, n*T:(n+1)*T")}""")
    a.at = b.at = "c, "
    steps = ("c*(KC//{0})", "min((c+1)*(KC//{0}), ceil(K, {0}))")
    main, rest = products(a, b, [f"c in range({chunks})"], "sums", steps, depths=[(None, "BS", "SD", "BN")],  # SGEMM's sums are short here, too
                          chunk=("c*(KC//CK)", "min((c+1)*(KC//CK), ceil({}, CK))"))
    text += re.sub(r"\b([AB][HL012]?)\[c, ", r"\1[", main + rest)
    text += nest(["m in range(M)", "t in range(0, ceil(N, R))"], f"""x = alloc([{chunks}, R])
load(sums[:, m, t*R:(t+1)*R] -> x)
y = sum(x, axis=0)
store(y -> C[m, t*R:(t+1)*R])""")
    return text + "}\n"


UNIFORM = "A: uniform(0, 1); B: uniform(0, 1)"
# Rows that go in three parts, some that do, and some that go by f32.
SPREADS = (("wide", "wide(-24, 24)", "normal(0, 1)"), ("wider", "uniform(0, 1)", "wide(-60, 40)"), ("widest", "wide(-120, 60)", "wide(-100, 40)"))


def fill(add, dims):
    def one(number, name, head, equation, sketch, cases, data=UNIFORM, kind="split"):
        others = [(case, cases["small"], f"A: {a}; B: {b}") for case, a, b in SPREADS]
        add(number, name, kind, "matmul", head, equation, sketch, cases, data, others=others)

    def matrix(number, name, cases, a_last=True, b_last=False, data=UNIFORM, tiles=TILES):
        a, b = Factor("A", "M", "BM", "i", a_last), Factor("B", "N", "BN", "j", b_last)
        left, right = "A" if a_last else "transpose(A, [1, 0])", "transpose(B, [1, 0])" if b_last else "B"
        one(number, name, f"    symbols: M, N, K;\n    tensors: A[{a.shape()}]: f32; B[{b.shape()}]: f32; C[M, N]: f32;",
            f"    C = {left} @ {right}", product(name, a, b, "M, N, K", "M, N", tiles=tiles), cases, data)

    def triangle(number, name, below, cases):
        a, b = Factor("A", "N", "BM", "i", True, keep="<=" if below else ">=", k="N"), Factor("B", "N", "BN", "j", False, keep=">=" if below else "<=", k="N")
        steps = ("j * ({2} // {0})", "min(ceil(N, {0}), (i + 1) * ({1} // {0}))") if below else ("i * ({1} // {0})", "min(ceil(N, {0}), (j + 1) * ({2} // {0}))")
        text = product(name, a, b, "N", "N, N", steps)
        keep = "<=" if below else ">="
        one(number, name, "    symbols: N;\n    tensors: A[N, N]: f32; B[N, N]: f32; C[N, N]: f32;",
            f"    L = iota([N, N], axis=1) {keep} iota([N, N], axis=0)\n    C = matmul(where(L, A, 0), where(L, B, 0))",
            text, cases, UNIFORM.replace("uniform", "tril" if below else "triu"))

    matrix(1, "square_matmul", dims("M N K", (4096, 4096, 4096), (1024, 1024, 1024), (333, 421, 517), (37, 45, 133)))
    matrix(2, "standard_matmul", dims("M N K", (2048, 4096, 8192), (512, 1024, 2048), (131, 259, 1031), (37, 45, 133)))
    one(6, "deep_matmul", "    symbols: M, N, K;\n    tensors: A[M, K]: f32; B[K, N]: f32; C[M, N]: f32;", "    C = A @ B", deep("deep_matmul"),
        dims("M N K", (256, 256, 524288), (256, 256, 8192), (131, 133, 16411), (19, 21, 4139)))
    matrix(7, "small_k_matmul", dims("M N K", (32768, 32768, 64), (4096, 4096, 64), (517, 521, 64), (41, 37, 64)),
           tiles=TILES.replace("WK = 32, WS = 4", "WK = 16, WS = 6"))
    matrix(8, "irregular_matmul", dims("M N K", (8205, 5921, 2949), (2051, 1481, 737), (333, 421, 517), (37, 45, 133)))
    one(9, "tall_skinny_matmul", "    symbols: M, N, K;\n    tensors: A[M, K]: f32; B[K, N]: f32; C[M, N]: f32;", "    C = A @ B",
        short("tall_skinny_matmul"), dims("M N K", (32768, 32768, 32), (4096, 4096, 32), (517, 521, 67), (41, 37, 32)))
    matrix(13, "symmetric_matmul", dims("M N K", (4096, 4096, 4096), (1024, 1024, 1024), (421, 421, 421), (73, 73, 73)))
    matrix(16, "transposed_a_matmul", dims("M N K", (2048, 4096, 8192), (512, 1024, 2048), (131, 259, 1031), (37, 45, 133)), a_last=False)
    matrix(17, "transposed_b_matmul", dims("M N K", (2048, 4096, 8192), (512, 1024, 2048), (131, 259, 1031), (37, 45, 133)), b_last=True)
    matrix(18, "transposed_both_matmul", dims("M N K", (2048, 4096, 8192), (512, 1024, 2048), (131, 259, 1031), (37, 45, 133)), a_last=False, b_last=True)
    squares = dims("N", (4096,), (1024,), (421,), (101,))
    triangle(14, "upper_triangular_matmul", False, squares)
    triangle(15, "lower_triangular_matmul", True, squares)

    a, b = Factor("A", "M", "BM", "i", True, ("p", "P")), Factor("B", "N", "BN", "j", False, ("p", "P"))
    text = product("batched_matmul", a, b, "P, M, N, K", "P, M, N", tiles=TILES.replace("MK = 128, MB = 264, FB = 1056", "MK = 8, MB = 8, FB = 32"))
    one(3, "batched_matmul", "    symbols: P, M, N, K;\n    tensors: A[P, M, K]: f32; B[P, K, N]: f32; C[P, M, N]: f32;", "    C = A @ B",
        text, dims("P M N K", (128, 512, 2048, 1024), (2, 512, 2048, 1024), (3, 131, 259, 517), (2, 37, 45, 67)))
    for number, name, lead, cases in (
            (10, "matmul_3d", "P", dims("P M N K", (16, 1024, 768, 2048), (4, 256, 768, 512), (3, 131, 257, 517), (2, 19, 45, 67))),
            (11, "matmul_4d", "P, Q", dims("P Q M N K", (8, 256, 512, 768, 256), (2, 16, 512, 768, 256), (2, 3, 67, 257, 261), (2, 2, 9, 45, 67)))):
        rows = lead.replace(", ", "*") + "*M"
        a, b = Factor("A", rows, "BM", "i", True), Factor("B", "N", "BN", "j", False)
        one(number, name, f"    symbols: {lead}, M, N, K;\n    tensors: A[{lead}, M, K]: f32; B[K, N]: f32; C[{lead}, M, N]: f32;", "    C = A @ B",
            product(name, a, b, f"{lead}, M, N, K", f"{rows}, N"), cases)
