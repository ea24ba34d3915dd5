"""The convolutions of KernelBench level 1, for level1.py.

A convolution is a sum over the window's taps of products [O, C] x [C, positions], whose right factor is a slice of the input that each tap
shifts: no patches are written anywhere. PyTorch multiplies in tf32, which keeps 11 bits of a factor; so does f16, whose tensor cores take
either order of a factor. So the input is brought into f16 once, scaled by 2^10, and the weights, scaled by a power of two an output
channel. A row of the input with an infinity, a NaN, or a number that f16 does not keep 11 bits of (outside of [2^-24, 63]), and such a
channel of the weights, go by a last launch that has nothing to do otherwise. Where the input is strided along the last axis, the first
launch sorts it by phases; a transposed convolution is gathered by phases of the result, some of them side by side in a tile; where it has
no stride and no padding, its rows stand so far apart that results lie one behind the other. docs/notes/013-convolutions.md has the
reasons."""
import math

from matrix import SPREAD, deeper, lines, nest

LEAST, MOST = "5.9604645e-08", 63  # what f16 keeps to 11 bits once multiplied by 2^10
MOST_PRODUCTS = 7  # in flight at once
LEAST_DEPTH = 16  # of a product, where there are few channels; 0: as deep as for the most channels
SOME_DEPTH = 32  # and where there are some; 0: none between
NARROW = (5, 3)  # rows whose tiles have so many places for so many results are taken as planes; (): always tiles of rows
FEW_RESULTS = 32  # columns of a tile where there are few results; 128: as many as for the most results
SOME_RESULTS, MANY_RESULTS = 64, 128  # and where there are more; both 128: two sizes of tiles, as the sketch's most results have it
FEW_CHANNELS = (8, 16)  # of a column of which TAPS_OF_ROW neighbours are multiplied at once; (): columns hold their own channels alone
TAPS_OF_ROW = 4
DEALT = 8  # blocks among which neighbouring rows of the last launch are dealt
TOGETHER = 128  # columns of a tile in which phases of more axes than the last lie side by side; 0: each phase has tiles of its own
TWO_BLOCKS = 112 << 10  # bytes of shared memory of one of two blocks on a multiprocessor
LETTERS = {1: "x", 2: "yx", 3: "zyx"}
SIZES = {1: "L", 2: "HW", 3: "DHW"}


class Axis:
    """One spatial axis: letter, extent of the input and of the result, and taps, stride, padding, dilation."""

    def __init__(self, letter, size, taps, stride, padding, dilation, transposed, more):
        self.letter, self.size, self.taps, self.stride, self.padding, self.dilation = letter, size, taps, stride, padding, dilation
        self.out, self.transposed, self.pace = "O" + size, transposed, str(dilation)
        reach = dilation * (taps - 1)
        if transposed:
            self.extent = f"({size} - 1) * {stride} + {reach + 1 + more - 2 * padding}" if stride > 1 else f"{size} + {reach - 2 * padding}"
            self.least = 1
        else:
            self.extent = f"({size} + {2 * padding - reach - 1}) // {stride} + 1" if stride > 1 else f"{size} + {2 * padding - reach}"
            self.least = max(1, reach + 1 - 2 * padding)
        self.extent = self.extent.replace("+ -", "- ").replace(" + 0", "")
        self.common = math.gcd(dilation, stride) if transposed else 1
        self.step = stride // self.common if transposed else 1  # from a tap of a phase to the next one
        self.most = -(-taps // self.step)  # taps of a phase, at most
        self.packed = False

    def extent_at(self, size):
        """How many neighbours of the result lie along the axis in one tile's row, of one phase."""
        reach = self.dilation * (self.taps - 1)
        return size if self.transposed else (size + 2 * self.padding - reach - 1) // self.stride + 1

    def symbol(self):
        return f"{self.out} = {self.extent}"

    # What the operator says.
    def index(self, tap):
        at = self.letter if self.stride == 1 or self.transposed else f"{self.stride}*{self.letter}"
        if not self.transposed:
            return plus(at, f"{self.dilation}*{tap}" if self.dilation > 1 else tap, -self.padding)
        inner = self.gathered(tap)
        return f"({inner})//{self.stride}" if self.stride > 1 else inner

    def gathered(self, tap):
        return plus(f"{self.letter}", "", self.padding) + f" - {self.dilation}*{tap}"

    def meets(self, tap):
        return f"({self.gathered(tap)}) % {self.stride} == 0"

    # What the sketch says: of phase p, tap number m is tap first + m * step, found shift - m * dilation / common behind.
    def first(self, phase):
        if self.step == 1:
            return "0"
        inverse = pow(self.dilation // self.common, -1, self.step)
        whole = f"({phase} + {self.padding})" + (f" // {self.common}" if self.common > 1 else "")
        return f"({whole} * {inverse}) % {self.step}"

    def shift(self, phase):
        if self.stride == 1:
            return str(self.padding)
        return f"({phase} + {self.padding} - {self.dilation} * ({self.first(phase)})) // {self.stride}"

    def runs(self, phase):
        """1 where the phase has taps, else 0."""
        return f"(1 - min(({phase} + {self.padding}) % {self.common}, 1))" if self.common > 1 else ""

    def exact(self, phase):
        """How many taps the phase has, if any."""
        return f"({self.taps + self.step - 1} - {self.first(phase)}) // {self.step}" if self.step > 1 else str(self.taps)

    # All phases side by side: shift number m is `top` - m * `gap`, of any phase that has a tap there.
    def pack(self):
        found = sorted({(p + self.padding - self.dilation * t) // self.stride for p in range(self.stride) for t in range(self.taps)
                        if (p + self.padding - self.dilation * t) % self.stride == 0})
        self.packed, self.top = True, found[-1]
        self.gap = math.gcd(*[self.top - d for d in found]) or 1
        self.most = (self.top - found[0]) // self.gap + 1

    def tap_of(self, phase, number):
        """The tap of a phase at a shift; beyond the taps where there is none."""
        far = self.padding - self.stride * self.top
        if self.dilation == 1:
            return plus(phase, f"({number}) * {self.stride * self.gap}", far)
        before = max(0, -(far // self.dilation))
        whole = plus(phase, f"({number}) * {self.stride * self.gap}", far + before * self.dilation)
        return plus(f"({whole}) // {self.dilation} + ({whole}) % {self.dilation} * {self.taps + before}", "", -before)


def plus(*terms):
    text = " + ".join(str(t) for t in terms if t not in ("", 0))
    return text.replace("+ -", "- ")


def digits(number, extents):
    """`number` in mixed radix, the last digit fastest."""
    found, after = [], 1
    for i in range(len(extents) - 1, -1, -1):
        text = number if after == 1 else f"{number} // {after}"
        if extents[i] == 1:
            text = "0"
        elif i and any(e > 1 for e in extents[:i]):
            text = f"{text} % {extents[i]}"
        found.append(text)
        after *= extents[i]
    return found[::-1]


def under(conditions, loops):
    """Loops that run where all conditions on sizes hold that are not None."""
    conditions = [c for c in conditions if c]
    return f"    if {' and '.join(conditions)}:\n{deeper(loops)}" if conditions else loops


class Convolution:
    def __init__(self, name, dim, channels, taps, stride=1, padding=0, dilation=1, transposed=False, more=0, groups=1, bias=False, results=128, sizes=None):
        every = lambda v: (v,) * dim if isinstance(v, int) else v  # noqa: E731
        self.name, self.dim, self.groups, self.transposed, self.bias, self.channels = name, dim, groups, transposed, bias, channels
        self.axes = [Axis(*a) for a in zip(LETTERS[dim], SIZES[dim], every(taps), every(stride), every(padding), every(dilation), (transposed,) * dim, every(more))]
        self.last, self.outer = self.axes[-1], self.axes[:-1]
        self.inner = 1 if transposed else self.last.stride  # phases of the input along the last axis
        self.joined = self.join()
        self.merged = bool(self.joined)
        self.inner_taps = math.prod(a.taps for a in self.joined)
        if self.merged:
            self.inner = 1
        self.flat = transposed and dim > 1 and all(a.stride == 1 and a.padding == 0 for a in self.axes)
        # Rows of the prepared input are as long as the result's: positions are those of a plane, a tap along the last outer axis is rows further on.
        self.plane = self.merged and dim > 1 and (self.outer[-1] in self.joined or self.outer[-1].stride == 1)
        self.pack(results)
        self.phases = [a.stride if transposed and not a.packed else 1 for a in self.axes]
        self.phased = transposed and any(a.stride > 1 for a in self.axes)
        self.depth = next(d for d in (16, 32, 64) if d >= min(64, channels * self.inner_taps))
        self.tile = self.columns_of_tile(results * self.side)
        self.positions = 64 if dim > 1 and not self.flat and not self.plane and sizes and self.last.extent_at(sizes[-1]) <= 64 else 128
        self.letters = [a.letter for a in self.axes]
        self.taps = [a.most for a in self.axes] if transposed else [a.taps for a in self.axes]
        self.taps = [1 if a in self.joined else t for a, t in zip(self.axes, self.taps)]
        self.count = math.prod(self.taps)
        single = self.count == 1 and not self.merged  # columns that hold taps are prepared whole
        if single:
            self.depth //= 2  # a loop over channels, so that there is one to copy ahead in
        self.cut = single or channels > self.depth and not self.merged
        self.few = self.of_few_channels()
        self.planes = [Planes(self)] if Planes.fit(self) else []
        if self.side > 1:  # two blocks of a multiprocessor, each with a tile of the result in shared memory, too
            free = TWO_BLOCKS - self.tile * (self.positions + 4) * 4
            self.stages = max(2, min(self.stages, free // (2 * self.depth * (self.tile + self.positions))))

    def of_few_channels(self):
        """Forms for launches with few channels, where the sketch is made for few itself."""
        a = self.last
        plain = not self.transposed and not self.merged and self.inner == 1 and self.dim > 1 and a.taps > 1 and self.channels <= 2 * max(FEW_CHANNELS, default=0)
        return [Rows(self, w, below) for below, w in zip((0,) + FEW_CHANNELS, FEW_CHANNELS) if below < self.channels] if plain else []

    def many_channels(self):
        """Under what condition columns hold their own channels alone: None: always; "": never."""
        if not self.few:
            return None
        return f"{self.all_channels()} > {self.few[-1].width}" if self.channels > self.few[-1].width else ""

    def at_once(self, depth):
        """Taps of one iteration: of few channels several, so that less of it is waiting."""
        fitting = [n for n in range(1, MOST_PRODUCTS + 1) if self.count % n == 0 and n < self.count and n * depth <= 64]
        return 1 if self.phased or self.cut else max(fitting, default=1)

    def by_channels(self):
        """Depths of a product, each behind the condition on channels under which it has no more zeros than it must."""
        least = LEAST_DEPTH
        if self.few:
            return [(self.many_channels(), "BK", self.depth)]
        if not least or self.cut or self.side > 1 or self.depth <= least:
            return [(None, "BK", self.depth)]
        channels = f"{self.inner_taps} * C" if self.merged else self.all_channels()
        if not self.some_depth():
            return [(f"{channels} <= {least}", "LK", least), (f"{channels} > {least}", "BK", self.depth)]
        some = SOME_DEPTH
        return [(f"{channels} <= {least}", "LK", least), (f"{channels} > {least} and {channels} <= {some}", "SK", some), (f"{channels} > {some}", "BK", self.depth)]

    def some_depth(self):
        return SOME_DEPTH > LEAST_DEPTH > 0 and self.depth > SOME_DEPTH and not (self.few or self.merged or self.cut or self.side > 1)

    def by_results(self, few=True):
        """Columns of a tile, each behind the condition on results. Fewer columns ask for less of what all tiles read. few: whether there are tiles for few results."""
        if self.side > 1 or self.tile <= FEW_RESULTS:
            return [(None, "BM")]
        o, some = self.all_results(), SOME_RESULTS
        least, more = ([(f"{o} <= {FEW_RESULTS}", "LM")], f"{o} > {FEW_RESULTS}") if few else ([], None)
        if some == MANY_RESULTS or self.tile not in (some, MANY_RESULTS):
            return least + [(more, "BM")]
        # Tiles of as many as there may be, where they are not more than a seventh emptier.
        narrow, wide = (f"4 * ceil({o}, {some}) {than} 7 * ceil({o}, {MANY_RESULTS})" for than in ("<", ">="))
        return least + [(" and ".join(filter(None, [more, narrow])), "SM"), (wide, "WM")]

    def results_constants(self):
        some = self.some_depth() or any(size == "SK" for p in self.planes for _, size, _ in p.by_channels())
        return f"SK = {SOME_DEPTH}, " * some + f"SM = {SOME_RESULTS}, WM = {MANY_RESULTS}, " * ("WM" in [size for _, size in self.by_results()])

    def pack(self, results):
        """Phases of the last axes are side by side in a tile's columns, as far as they fit there: results that are neighbours in memory."""
        self.side = 1
        for a in reversed(self.axes):
            if not self.transposed or not TOGETHER or (a is not self.last and a.stride > 1 and results * self.side * a.stride > TOGETHER):
                break
            if a.stride > 1:
                a.pack()
                self.side *= a.stride

    def columns_of_tile(self, rows):
        """Whole results of all phases, and as few beyond the last one as there can be."""
        step = math.lcm(8, self.side)
        return min(range(step, max(step, 128) + 1, step), key=lambda n: (-(-rows // n) * n, -n))

    def join(self):
        """The axes, the last ones, whose taps a column of the prepared input has all: of fewer channels than one instruction multiplies."""
        joined = []
        for a in self.axes[::-1]:
            taps = a.taps * math.prod(j.taps for j in joined)
            if self.transposed or self.channels >= 16 or self.channels * taps > 64:
                break
            if joined and ((a.stride, a.padding) != (1, 0) or math.prod(o.taps for o in self.axes) * a.taps <= MOST_PRODUCTS * taps):
                break  # what is left out of a column is few taps already
            joined.insert(0, a)
        return joined

    # ---- Sizes and tensors ----

    def symbols(self):
        own = ", ".join(["B, C"] + [a.size for a in self.axes] + ["O"] + [a.symbol() for a in self.axes])
        return own + "".join(f", {a.size} >= {a.least}" for a in self.axes) + f", C <= {self.channels // self.groups}"

    def all_channels(self):
        return f"{self.groups}*C" if self.groups > 1 else "C"

    def all_results(self):
        return f"{self.groups}*O" if self.groups > 1 else "O"

    def rows(self):
        """Of the weights: results, and of each the phases that are side by side."""
        return f"{self.side}*{self.all_results()}" if self.side > 1 else self.all_results()

    def sides(self, row):
        """The phase along each axis of a row of the weights; 0 where phases are not side by side."""
        return digits(row, [a.stride if a.packed else 1 for a in self.axes])

    def tensors(self, flat=False):
        shape = ", ".join([a.size for a in self.axes])
        taps = ", ".join(str(a.taps) for a in self.axes)
        out = [a.out for a in self.axes]
        if flat:
            out = [" * ".join(out)] if self.flat else out[:-2] + self.of_plane(*out[-2:])
        out = ", ".join(out)
        weights = f"{self.all_channels()}, O" if self.transposed else "O, C"
        bias = " Z[O]: f32;" if self.bias else ""
        return f"X[B, {self.all_channels()}, {shape}]: f32; F[{weights}, {taps}]: f32;{bias} Y[B, {self.all_results()}, {out}]: f32;"

    def of_plane(self, row, column):
        """Both axes, or what they are where planes are taken as one."""
        return [f"{row} * {column}"] if self.plane else [row, column]

    def head(self):
        return f"    symbols: {self.symbols()};\n    tensors: {self.tensors()}\n    precision: tf32;"

    def equation(self):
        taps = ["qrs"[3 - self.dim + i] for i in range(self.dim)]
        loops = "".join(f", {t} in 0:{a.taps}" for t, a in zip(taps, self.axes))
        at = ", ".join(a.index(t) for t, a in zip(taps, self.axes))
        outside = self.transposed or any(a.padding for a in self.axes)
        x = "pad(X, 0)" if outside else "X"
        channel = "o // O * C + c" if self.groups > 1 else "c"
        weight = f"{channel}, {'o % O' if self.groups > 1 else 'o'}" if self.transposed else "o, c"
        f = "pad(F, 0)" if self.groups > 1 else "F"
        product = f"{x}[n, {channel}, {at}] * {f}[{weight}, {', '.join(taps)}]"
        meets = [a.meets(t) for t, a in zip(taps, self.axes) if self.transposed and a.stride > 1]
        if meets:
            product = f"where({' and '.join(meets)}, {product}, 0)"
        c = "c in 0:C" if self.groups > 1 else "c"
        return f"    Y[n, o, {', '.join(self.letters)}] = sum({c}{loops}, {product})" + (" + Z[o]" if self.bias else "")

    # ---- The sketch ----

    def weights_view(self):
        """G[output channel, tap, input channel] of all phases; 0 where a channel is of another group."""
        number = math.prod(self.phases) * self.count
        found = digits("e", self.phases + self.taps)
        phase, tap = found[:self.dim], found[self.dim:]
        if self.transposed:
            at = [a.tap_of(q, t) if a.packed else f"{a.first(p)} + ({t}) * {a.step}" if a.stride > 1 else t
                  for a, p, t, q in zip(self.axes, phase, tap, self.sides(f"o % {self.side}"))]
            result = f"o // {self.side}" if self.side > 1 else "o"
            channel, result = "c", f"{result} - c // C * O" if self.groups > 1 else result
            text = f"view G[o: {self.rows()}, e: {number}, c: {self.all_channels()}] = F[{channel}, {result}, {', '.join(at)}] pad 0;"
        elif self.merged:
            at = tap[:self.dim - len(self.joined)] + self.joined_taps()
            text = f"view G[o: O, e: {number}, c: {self.inner_taps} * C] = F[o, c % C, {', '.join(at)}] pad 0;"
        else:
            text = f"view G[o: O, e: {number}, c: C] = F[o, c, {', '.join(tap)}];"
        return text

    def joined_taps(self):
        """Of a joined axis each, the tap that number c of a column is of."""
        return [t.replace("c // C // 1", "c // C") for t in digits("c // C", [a.taps for a in self.joined])]

    def rows_of(self, phase, var, first):
        """Where tap number `var` finds the row or column `first` of the result's phase, along each axis of the input as it lies prepared."""
        found = []
        for a, p, t, at in zip(self.axes, phase, digits(var, self.taps), first):
            if a.packed:
                found.append(plus(at, "", a.top) + f" - ({t})" + (f" * {a.gap}" if a.gap > 1 else ""))
            elif self.transposed:
                found.append(f"{at} + {a.shift(p)} - ({t})" + (f" * {a.dilation // a.common}" if a.dilation // a.common > 1 else ""))
            elif a in self.joined:
                found.append(at)
            elif a is self.last and self.inner > 1:
                found.append(f"{at} + ({a.dilation} * ({t}) - {a.padding}) // {a.stride}")
            else:
                step = f"({t}) * {a.pace}" if a.dilation > 1 else t
                found.append((f"{at} * {a.stride}" if a.stride > 1 else at) + f" + {step}" + (f" - {a.padding}" if a.padding else ""))
        return found

    def lowest_rows(self, phase, first):
        """The first row of the input that a row of the result needs and how many, along each axis but the last."""
        found = []
        for a, p, at in zip(self.outer, phase, first):
            if a.packed:
                found.append((plus(at, "", a.top - (a.most - 1) * a.gap), (a.most - 1) * a.gap + 1))
            elif self.transposed:
                step = a.dilation // a.common
                found.append((f"{at} + {a.shift(p)} - {(a.most - 1) * step}", (a.most - 1) * step + 1))
            else:
                found.append(((f"{at} * {a.stride}" if a.stride > 1 else at) + (f" - {a.padding}" if a.padding else ""), (a.taps - 1) * a.dilation + 1))
        return found

    def by_taps(self):
        """Whether the weights lie tap by tap for the last launch, too: where its taps are the product's."""
        return self.inner == 1 and not self.merged

    def kept(self):
        """Extents of the input as it lies prepared, behind the channels."""
        if self.flat:
            return [" * ".join([self.axes[0].size] + [a.out for a in self.axes[1:]])]
        width = self.last.out if self.merged else f"ceil({self.last.size}, {self.inner})" if self.inner > 1 else self.last.size
        rows = [a.out if a in self.joined else a.size for a in self.outer]
        return rows[:-1] + self.of_plane(rows[-1], width) if rows else [width]

    def marks(self):
        return ", ".join(["B"] + [a.size for a in self.outer] + (["ceil(L, MT)"] if self.dim == 1 else []))

    def sketch(self):
        channels = f"{self.inner_taps} * C" if self.merged else self.all_channels()
        # The copy engine takes twice as long for rows of which a part is outside of the tensor.
        channels = f"ceil({channels}, 16) * 16" if self.inner == 1 else f"ceil({channels}, 8) * 8"
        phases = f"{self.inner} * " if self.inner > 1 else ""
        views = self.weights_view() + "\n"
        if self.flat:
            shape = ", ".join(f"{a.letter}: {a.size if a is self.axes[0] else a.out}" for a in self.axes)
            place = self.axes[0].letter
            for a in self.axes[1:]:
                place = f"({place}) * {a.out} + {a.letter}" if a is not self.axes[1] else f"{place} * {a.out} + {a.letter}"
            views += f"view XP[n: B, {shape}, c: {channels}] = XH[n, {place}, c];\n"
            shape = ", ".join(f"{a.letter}: {a.out}" for a in self.axes)
            views += f"view YP[n: B, o: {self.all_results()}, {shape}] = Y[n, o, {place}];\n"
        if self.phased:
            axes, at = "", []
            for a, p, q in zip(self.axes, self.phases, self.sides(f"o % {self.side}")):
                axes += (f", p{a.letter}: {p}" if p > 1 else "") + f", {a.letter}: " + self.steps(a)
                at.append(plus(f"{a.letter} * {a.stride}", q) if a.packed else f"{a.letter} * {p} + p{a.letter}" if p > 1 else a.letter)
            result = f"o // {self.side}" if self.side > 1 else "o"
            views += f"view YP[n: B, o: {self.rows()}{axes}] = Y[n, {result}, {', '.join(at)}];\n"
        if self.side > 1 and self.dim > 1:
            axes, at = "", []
            for a in self.outer:
                axes += f", p{a.letter}: {a.stride}, {a.letter}: {self.steps(a)}" if a.stride > 1 else f", {a.letter}: {a.out}"
                at.append(f"{a.letter} * {a.stride} + p{a.letter}" if a.stride > 1 else a.letter)
            views += f"view YL[n: B, o: {self.all_results()}{axes}, x: {self.last.out}] = Y[n, o, {', '.join(at)}, x];\n"
        if self.merged:
            extents = [a.out if a in self.joined else a.size for a in self.outer] + [self.last.out]
            rest = ", ".join(f"{a.letter}: {e}" for a, e in zip(self.axes, extents))
            at = [a.letter for a in self.axes[:self.dim - len(self.joined)]]
            at += [f"{a.letter} * {a.stride} + {t} * {a.pace} - {a.padding}".replace(" * 1 ", " ").replace(" - 0", "") for a, t in zip(self.joined, self.joined_taps())]
            views += f"view XP[n: B, {rest}, c: {channels}] = X[n, c % C, {', '.join(at)}] pad 0;\n"
            if self.plane:
                place = "".join(f"{a.letter}, " for a in self.outer[:-1]) + f"{self.outer[-1].letter} * {self.last.out} + x"
                shape = ", ".join(f"{a.letter}: {a.out}" for a in self.axes)
                views += f"view YL[n: B, o: {self.all_results()}, {shape}] = Y[n, o, {place}];\n"
        elif self.inner > 1:
            views += f"view XP[n: B, {'' .join(f'{a.letter}: {a.size}, ' for a in self.outer)}x: ceil({self.last.size}, {self.inner}) * {self.inner}, c: {channels}] = "
            views += f"XH[n, {''.join(f'{a.letter}, ' for a in self.outer)}x // {self.inner}, x % {self.inner} * {channels} + c];\n"
        wide = "MT = 1024, " if self.dim == 1 else ""
        views += "".join(f.views() for f in self.few + self.planes)
        own = self.many_channels() != ""
        prepared = f"    XH = alloc([B, {', '.join(self.kept())}, {phases}{channels}], dtype=f16)\n" if own else ""
        turned = f"    FH = alloc([{math.prod(self.phases) * self.count}, {self.rows()}, {channels}], dtype=f16)\n" if own else ""
        text = f"""
sketch {self.name}_product implements {self.name} {{
    symbols: {self.symbols()};
    tensors: {self.tensors(self.flat or self.plane)}
    constexpr: BM = {self.tile}, LM = {min(self.tile, FEW_RESULTS)}, {self.results_constants()}BN = {self.positions}, BK = {self.depth}, LK = {min(self.depth, LEAST_DEPTH)}, ST = {self.stages}, CB = {next(d for d in (16, 32, 64) if d >= min(self.channels, 64))}, T = {self.columns()}, {wide}FM = 64, FN = 64, FK = 16, RG = {self.group}, RS = {DEALT};
{lines(views, 1)}
{prepared}{"".join(f.workspaces() for f in self.few + self.planes)}    XW = alloc([{self.marks()}], dtype=i32)
{f"    XS = alloc([B], dtype=i32){chr(10)}" if self.dim == 3 else ""}{turned}    FS = alloc([{self.rows()}])
    FW = alloc([{self.rows()}], dtype=i32)
{f"    FF = alloc([{math.prod(self.phases) * self.count}, {self.rows()}, {channels}]){chr(10)}" if self.by_taps() else ""}"""
        wide = self.wide()
        few = [under([f.condition()], f.prepare_weights() + f.prepare_input()) for f in self.few]
        if own and self.few:
            few.append(under([self.many_channels(), wide], self.prepare_weights() + self.prepare_input()))
        elif own:
            few.append(self.prepare_weights() + under([wide], self.prepare_input()))
        few += [under(p.conditions(), (self.prepare_weights() if self.few else "") + p.prepare_input()) for p in self.planes]
        few += [under([results, f.condition()], f.product(columns)) for f in self.few for results, columns in self.by_results()]
        few += [p.product() for p in self.planes]
        return text + self.clear() + "".join(few) + (self.product() if own else "") + self.rest() + "}\n"

    def wide(self):
        """Under what condition tiles are of rows; None: always."""
        return self.planes[0].condition("<=") if self.planes else None

    stages, group = 3, 32

    def columns(self):
        """Of a tile that prepares the input: 64 bytes of a channel, 128 where there are few channels."""
        return 32 if self.merged or self.channels <= 16 else 16

    def clear(self):
        """No mark anywhere."""
        inner = self.outer[-1].size if self.dim > 1 else "ceil(L, MT)"
        loops = ["n in range(B)"] + [f"{a.letter} in range({a.size})" for a in self.outer[:-1]] + [f"m in range(ceil({inner}, 256))"]
        text = nest(loops, f"none = alloc([256], dtype=i32, init=0)\nstore(none -> XW[{', '.join(['n'] + [a.letter for a in self.outer[:-1]])}, m*256:(m+1)*256])")
        return text + (nest(["n in range(ceil(B, 256))"], "none = alloc([256], dtype=i32, init=0)\nstore(none -> XS[n*256:(n+1)*256])") if self.dim == 3 else "")

    def prepare_weights(self):
        width = "BK" if not self.cut else str(-(-self.channels // 16) * 16)
        return self.weights("G", "FH", math.prod(self.phases) * self.count, width)

    def weights(self, view, target, taps, width, more=""):
        return nest([f"o in range({self.rows()})"], f"""f = alloc([{taps}, {width}])
load({view}[o, :, 0:{width}] -> f, pad=0)
most = max(max(abs(f), axis=1), axis=0)
least = min(min(where(f == 0, inf, abs(f)), axis=1), axis=0)
e = where(most > 0, floor(log2(most)), 0)
fine = most == 0 or (most < 1e18 and most > 1e-18 and least * {SPREAD} >= most)
wide = cast(where(fine, 0, 1), i32)
store(wide -> FW[o])
s = exp2(e - 24)
store(s -> FS[o])
h = cast(f * exp2(14 - e), f16)
store(h -> {target}[:, o, 0:{width}])""" + (f"\n{more}" if more else f"\nstore(f -> FF[:, o, 0:{width}])" * self.by_taps()))

    def prepare_input(self):
        if not self.merged:
            return self.prepared("BK")
        return "".join(under([where], self.prepared(depth)) for where, depth, _ in self.by_channels())

    def prepared(self, depth):
        """Channels last, by tiles of 64 bytes along the columns: each access of a warp takes whole sectors on both sides. Channels last, so that a tap's shift moves whole rows of the factor: where a box begins along its rows is a multiple of 16 bytes."""
        a = self.last
        columns = a.out if self.flat or self.merged else self.kept()[-1]
        outer = [f"{o.letter} in range({o.out if self.flat and o is not self.axes[0] or o in self.joined else o.size})" for o in self.outer]
        loops = ["n in range(B)"] + outer + [f"t in range(0, ceil({columns}, T))"]
        at = "".join(f"{o.letter}, " for o in self.outer)
        x, turned, tile = f"X[n, q*CB:(q+1)*CB, {at}t*T:(t+1)*T]", "transpose(x, [1, 0])", "CB, T"
        if self.inner > 1:
            columns = f"{columns} * {self.inner}"
            loops[-1] = f"t in range(0, ceil({columns}, T))"
        target = f"{'XP' if self.flat or self.inner > 1 else 'XH'}[n, {at}t*T:(t+1)*T, q*CB:(q+1)*CB]"
        if self.merged:
            x, turned, target, tile = f"XP[n, {at}t*T:(t+1)*T, 0:{depth}]", "x", f"XH[n, {at}t*T:(t+1)*T, 0:{depth}]", f"T, {depth}"
            if self.plane:  # rows lie one behind the other; that stores keep to theirs is plain but not proved
                row = f"{self.outer[-1].letter}*{a.out}"
                target = f"XH[n, {at[:-3]}{row}+t*T:min({row}+(t+1)*T, {row}+{a.out}), 0:{depth}], unique=true"
        if not self.merged:
            loops.insert(1, f"q in range(0, ceil({self.all_channels()}, CB))")
        mark = ("t*T" + f"*{a.stride}" * (self.merged and a.stride > 1) + "//MT") if self.dim == 1 else ""  # by places of the input
        mark = ", ".join(["n"] + [o.letter for o in self.outer] + ([f"min({mark}, ceil(L, MT) - 1)"] if mark else []))
        return self.turned_input(loops, tile, x, turned, target, mark)

    def turned_input(self, loops, tile, x, turned, target, mark):
        """A tile of the input, rounded and marked; what is turned so that channels come last."""
        body = f"""x = alloc([{tile}])
load({x} -> x, pad=0)
most = max(max(abs(x), axis=1), axis=0)
least = min(min(where(x == 0, inf, abs(x)), axis=1), axis=0)
wide = cast(where(most < {MOST} and least >= {LEAST}, 0, 1), i32)
if wide > 0:
    store(wide -> XW[{mark}], mode=max){f"{chr(10)}    store(wide -> XS[n], mode=max)" if self.dim == 3 else ""}
h = cast({turned} * 1024, f16)
store(h -> {target})"""
        return nest(loops, body)

    def tiles(self, columns, rows):
        """The loops over tiles of the result: phases, rows, columns, channels; and the phases' names, the rows' and the column's."""
        loops, phase = ["n in range(B)"], []
        for a, p in zip(self.axes, self.phases):
            phase.append("p" + a.letter if p > 1 else "0")
            if p > 1:
                loops.append(f"p{a.letter} in range({p})")
        loops += [f"{a.letter} in range({self.steps(a)})" for a in self.outer]
        loops += [f"x in range(0, ceil({self.steps(self.last)}, {columns}))", f"o in range(0, ceil({self.rows()}, {rows}))"]
        return loops, phase

    def steps(self, a):
        """Results of one phase along an axis."""
        return f"ceil({a.out}, {a.stride})" if self.transposed and a.stride > 1 else a.out

    def result(self, columns, rows, name="Y", place=None):
        """The tile's place in the result, along the axes as `place` says."""
        place = place or {a: a.letter for a in self.axes}
        at = "".join(f"p{a.letter}, " * (s > 1) + f"{place[a]}, " for a, s in zip(self.outer, self.phases)) + "px, " * (self.phases[-1] > 1)
        x = place[self.last]
        return f"{'YP' if self.phased else name}[n, o*{rows}:(o+1)*{rows}, {at}{x}*{columns}:({x}+1)*{columns}]"

    def trips(self, phase):
        """A phase has no more taps along the first axis than it has, 0 along each axis or as many as any phase."""
        runs = [a.runs(p) for a, p in zip(self.axes, phase) if self.transposed and not a.packed and a.runs(p)]
        first, count = self.axes[0], self.count
        if self.phases[0] > 1 and first.step > 1 and not self.cut:
            runs.append(f"({first.exact(phase[0])})")
            count //= self.taps[0]
        return " * ".join([str(count)] * (count > 1 or not runs) + runs)

    def tap(self, phase, var):
        number = " + ".join([f"{p} * {math.prod(self.phases[i + 1:]) * self.count}" for i, p in enumerate(phase) if p != "0"] + [var])
        return number

    def factor(self, phase, tap, channel):
        """The slice of the prepared input that tap number `tap` multiplies."""
        at = self.rows_of(phase, tap, [a.letter for a in self.outer] + ["x*BN"])
        rows = "".join(f"{r}, " for r in at[:-1])
        begin, end = at[-1], at[-1].replace("x*BN", "(x+1)*BN", 1)
        if self.plane:
            rows = "".join(f"{r}, " for r in at[:-2])
            further = "" if self.outer[-1] in self.joined else f" + ({at[-2].removeprefix(self.outer[-1].letter + ' + ')}) * {self.last.out}"
            begin, end = begin + further, end + further
        if self.inner > 1:
            first = f"({self.last.dilation} * ({digits(tap, self.taps)[-1]}) - {self.last.padding}) % {self.inner} * ceil({self.all_channels()}, 8) * 8"
            channel = ":".join(f"{first} + {c}" for c in channel.split(":"))
        return f"XH[n, {rows}{begin}:{end}, {channel}]"

    def product(self):
        forms = [(r, c) for c in self.by_channels() for r in self.by_results(c[1] != "LK" or not self.some_depth())]  # no tiles that are small both ways
        forms.sort(key=lambda form: ("LM", "SM", "WM", "BM").index(form[0][1]))
        return "".join(under([results, channels, self.wide()], self.product_by(columns, depth, size)) for (results, columns), (channels, depth, size) in forms)

    def product_by(self, columns, depth, size):
        """In tiles of so many columns and so deep; size: of the depth."""
        whole = f"ceil({self.all_channels()}, BK)" if self.cut else ""
        if self.flat:
            total = " * ".join(a.out for a in self.axes)
            loops, phase = ["n in range(B)", f"x in range(0, ceil({total}, BN))", f"o in range(0, ceil({self.all_results()}, {columns}))"], ["0"] * self.dim
        else:
            loops, phase = self.tiles("BN", columns)
        if self.plane:
            row = next(i for i, loop in enumerate(loops) if loop.startswith(f"{self.outer[-1].letter} in"))
            loops[row:row + 2] = [f"x in range(0, ceil({self.outer[-1].out} * {self.last.out}, BN))"]
        trips, tap, channel = self.trips(phase), "k", f"0:{depth}"
        if whole:
            trips, tap, channel = f"{trips} * {whole}", f"k % {self.count}", f"k // {self.count} * BK:(k // {self.count} + 1) * BK"
            if self.count == 1:
                trips, tap, channel = whole, "0", "k*BK:(k+1)*BK"
        taps, many = [tap], self.at_once(size)
        if many > 1:
            trips, taps = self.count // many, [f"(k * {many} + {i})" for i in range(many)]

        def x(tap):
            if not self.flat:
                return self.factor(phase, tap, channel)
            back = ""
            for a, t in zip(self.axes, digits(tap, self.taps)):
                step = f"({t}) * {a.dilation}" if a.dilation > 1 else f"({t})"
                back = f"({back}) * {a.out} + {step}" if back else step
            return f"XH[n, x*BN - ({back}):(x+1)*BN - ({back}), {channel}]"

        products = "".join(f"""    f{i} = alloc([{columns}, {depth}])
    load(FH[{self.tap(phase, t)}, o*{columns}:(o+1)*{columns}, {channel}] -> f{i}, pad=0)
    v{i} = alloc([BN, {depth}])
    load({x(t)} -> v{i}, pad=0)
    gemm(v{i}, f{i}, acc, trans_b=true)
""" for i, t in zip([""] if many == 1 else range(many), taps))
        return self.multiplied(loops, columns, trips, products)

    def multiplied(self, loops, columns, trips, products, stored=None):
        epilogue = f"s = alloc([{columns}])\nload(FS[o*{columns}:(o+1)*{columns}] -> s{', pad=0' * (self.side > 1)})\nacc *= s\n"  # a tile is reshaped whole
        if self.bias:
            epilogue += f"z = alloc([{columns}])\nload(Z[o*{columns}:(o+1)*{columns}] -> z)\nacc += z\n"
        return nest(loops, f"""acc = alloc([BN, {columns}], init=0)
@llm_hint("pipeline", stages=ST)
for k in range({trips}):
{products}{epilogue}{stored or self.stored(columns)}""")

    def stored(self, columns):
        """What is stored of a tile; of phases side by side a row of each result, in which they take turns."""
        if self.side == 1:
            place = f"Y[n, o*{columns}:(o+1)*{columns}, x*BN:(x+1)*BN]" if self.flat else self.result("BN", columns)
            place = place.replace(f"{self.outer[-1].letter}, x*", "x*") if self.plane else place
            return f"turned = transpose(acc, [1, 0])\nstore(turned -> {place})"
        results, last = self.tile // self.side, self.last.stride
        some = "".join(f"{a.stride}, " for a in self.outer if a.packed and a.stride > 1)
        n = some.count(",") + 1
        at = "".join((f"0:{a.stride}, {a.letter}, " if a.packed else f"p{a.letter}, {a.letter}, ") if a.stride > 1 else f"{a.letter}, " for a in self.outer)
        return f"""turned = transpose(acc, [1, 0])
apart = reshape(turned, [{results}, {some}{last}, BN])
lined = reshape(transpose(apart, [{"".join(f"{i}, " for i in range(n))}{n + 1}, {n}]), [{results}, {some}BN*{last}])
store(lined -> {"YL" if self.dim > 1 else "Y"}[n, o*{results}:(o+1)*{results}, {at}x*BN*{last}:(x+1)*BN*{last}])"""

    def rest(self):
        """The tiles of which f16 does not keep enough. RS blocks look at the marks of RS*RG rows (in one dimension, tiles) at once, and only where one is set each
        looks at its own: every RS-th, as one number marks neighbours. Of three dimensions RS blocks share the planes, too, and look first at a mark of the whole image:
        blocks that have nothing to do are then few."""
        loops, phase = self.tiles("FN", "FM")
        grouped = self.axes[-2 if self.dim > 1 else -1]
        at = next(i for i, loop in enumerate(loops) if loop.startswith(f"{grouped.letter} in"))
        extent = loops[at][loops[at].index("range(") + 6:-1].removeprefix("0, ")
        loops[at:at + 1] = [f"g in range(ceil({extent}, RS*RG))", "i in range(RS)"]
        place = {a: "(g*RS*RG+i+j*RS)" if a is grouped else a.letter for a in self.axes}
        if self.dim == 3:
            planes = self.steps(self.outer[0])
            at = loops.index(f"z in range({planes})")
            loops[at] = "h in range(RS)"
            place[self.outer[0]] = "(h+e*RS)"

        def marks(first, many, name):
            """Of `many` rows or tiles from `first` on: the largest, as `wide`."""
            if self.dim == 1:
                begin, a = f"{first}*FN", self.last
                shift, gap = (a.top, a.gap) if a.packed else (a.shift(phase[-1]), a.dilation // a.common)
                low = f"({begin} + {shift} - {(a.most - 1) * gap})" if self.transposed else f"({begin} * {a.stride} - {a.padding})"
                reach = 64 * many + (a.most - 1) * gap if self.transposed else 64 * many * a.stride + (a.taps - 1) * a.dilation
                count = -(-reach // 1024) + 2  # a tile's mark may stand one before
                return f"{name} = alloc([{count}], dtype=i32)\nload(XW[n, {low} // MT - 1:{low} // MT + {count - 1}] -> {name}, pad=0)\nwide = max({name}, axis=0)\n"
            low = self.lowest_rows(phase, [place[a] for a in self.outer[:-1]] + [first])
            low[-1] = low[-1][0], low[-1][1] + (many - 1) * (1 if self.transposed else grouped.stride)
            shape = ", ".join(str(count) for _, count in low)
            where = ", ".join(f"{begin}:{begin} + {count}" for begin, count in low)
            return f"{name} = alloc([{shape}], dtype=i32)\nload(XW[n, {where}] -> {name}, pad=0)\nwide = " + "max(" * len(low) + name + "".join(f", axis={i})" for i in range(len(low) - 1, -1, -1)) + "\n"

        row = [place[a] for a in self.outer]
        x = place[self.last]
        rows = self.rows_of(phase, "k", row + [f"{x}*FN"])
        begin, end = rows[-1], rows[-1].replace(f"{x}*FN", f"({x}+1)*FN", 1)
        lead, count = "".join(f"{r}, " for r in rows[:-1]), self.trips(phase)
        weights, channels = f"G[o*FM:(o+1)*FM, {self.tap(phase, 'k')}, c*FK:(c+1)*FK]", self.all_channels()
        if self.by_taps():
            weights = f"FF[{self.tap(phase, 'k')}, o*FM:(o+1)*FM, c*FK:(c+1)*FK]"
        if self.inner > 1 or self.merged:
            a, taps = self.last, [a.taps for a in self.axes]
            t = digits("k", taps)[-1]
            count = str(math.prod(taps))
            shift = f"({t}) * {a.pace} - {a.padding}".replace(" - 0", "")
            stride = f"*{a.stride}" if a.stride > 1 else ""
            begin, end = f"{x}*FN{stride} + {shift}", f"({x}+1)*FN{stride} + {shift}" + (f":{a.stride}" if stride else "")
            lead = "".join(f"{place[o]} * {o.stride} + ({d}) * {o.dilation} - {o.padding}, " for o, d in zip(self.outer, digits("k", taps)))
            weights = f"F[o*FM:(o+1)*FM, c*FK:(c+1)*FK, {', '.join(digits('k', taps))}]"
        bias = "    z = alloc([FM])\n    load(Z[o*FM:(o+1)*FM] -> z)\n    acc += reshape(z, [FM, 1])\n" if self.bias else ""
        tile = f"""{marks(place[grouped], 1, "wx")}if max(wide, worst) > 0:
    acc = alloc([FM, FN], init=0)
    for c in range(0, ceil({channels}, FK)):
        for k in range({count}):
            f = alloc([FM, FK])
            load({weights} -> f, pad=0)
            v = alloc([FK, FN])
            load(X[n, c*FK:(c+1)*FK, {lead}{begin}:{end}] -> v, pad=0)
            gemm(f, v, acc, precision="tf32")
{bias}    store(acc -> {self.result("FN", "FM", "YP" if self.flat else "YL" if self.plane else "Y", place)})
"""
        weights = "wf = alloc([FM], dtype=i32)\nload(FW[o*FM:(o+1)*FM] -> wf, pad=0)\nworst = max(wf, axis=0)\n"
        seen, folded = marks("(g*RS*RG)", DEALT * self.group, "ws").split("wide = ")
        rows = f"""if max(wide, worst) > 0:
    for j in range(RG):
{lines(tile, 2)}"""
        if self.dim < 3:  # both are on their way at once: most blocks do nothing else
            load, worst = weights.split("worst = ")
            return nest(loops, f"{load}{seen}worst = {worst}wide = {folded}{rows}")
        rows = f"{seen}wide = {folded}{rows}"
        return nest(loops, f"""wi = alloc([], dtype=i32)
load(XS[n] -> wi)
{weights}if max(wi, worst) > 0:
    for e in range(ceil({planes} - h, RS)):
{lines(rows, 2)}""")


class Rows:
    """A convolution's form for `width` channels at most: of TAPS_OF_ROW columns that neighbouring taps meet, the channels are one row of
    the product's factor, and of the weights, with zeros for what is no tap. The copy engine takes 2 clocks for a row of 32 bytes and 4 for one of 128.
    Where the neighbours lie side by side, the rows are views of the input, which overlap; of a dilated one they are written each."""

    def __init__(self, c, width, below):
        self.c, self.width, self.below, self.row = c, width, below, width * TAPS_OF_ROW
        self.apart = c.last.dilation > 1
        self.taps = [a.taps for a in c.outer] + [-(-c.last.taps // TAPS_OF_ROW)]  # the last: groups of them
        self.input, self.view, self.weights = f"X{width}", f"X{width}" if self.apart else f"XR{width}", f"F{width}"
        self.positions = plus(c.last.out, (self.taps[-1] - 1) * TAPS_OF_ROW * c.last.dilation)

    def condition(self):
        channels = self.c.all_channels()
        return " and ".join([f"{channels} > {self.below}"] * (self.below > 0) + [f"{channels} <= {self.width}"] * (self.below == 0 or self.c.channels > self.width))

    def views(self):
        c = self.c
        tap = digits("e", self.taps)
        last = plus(f"{tap[-1]} * {TAPS_OF_ROW}" if tap[-1] != "0" else "", f"c // {self.width}")
        text = f"view G{self.width}[o: O, e: {math.prod(self.taps)}, c: {self.row}] = F[o, c % {self.width}, {', '.join(tap[:-1] + [last])}] pad 0;\n"
        outer, at = "".join(f"{a.letter}: {a.size}, " for a in c.outer), "".join(f"{a.letter}, " for a in c.outer)
        if self.apart:
            x = plus("x", f"c // {self.width} * {c.last.pace}", -c.last.padding)
            return text + f"view XV{self.width}[n: B, {outer}x: {self.positions}, c: {self.row}] = X[n, c % {self.width}, {at}{x}] pad 0;\n"
        return text + f"view {self.view}[n: {self.images()}, {outer}x: {self.positions}, c: {self.row}] = {self.input}[n, {at}x + c // {self.width}, c % {self.width}];\n"

    def images(self):
        """As many as there are; none where the form is not taken."""
        channels = f"max({self.c.all_channels()}, 1)"
        return f"B * (min(1, {self.width} // {channels})" + (f" - min(1, {self.below} // {channels})" if self.below else "") + ")"

    def workspaces(self):
        c = self.c
        sizes = "".join(f"{a.size}, " for a in c.outer)
        columns = self.positions if self.apart else plus(self.positions, TAPS_OF_ROW - 1)
        return (f"    {self.input} = alloc([{self.images()}, {sizes}{columns}, {self.row if self.apart else self.width}], dtype=f16)\n"
                f"    {self.weights} = alloc([{math.prod(self.taps)}, {c.rows()}, {self.row}], dtype=f16)\n")

    def prepare_weights(self):
        kept = f"g = alloc([{self.c.count}, 16])\nload(G[o, :, 0:16] -> g, pad=0)\nstore(g -> FF[:, o, 0:16])"
        return self.c.weights(f"G{self.width}", self.weights, math.prod(self.taps), self.row, kept)

    def prepare_input(self):
        c, t = self.c, "t*32:(t+1)*32"
        columns = self.positions if self.apart else plus(self.positions, TAPS_OF_ROW - 1)
        loops = ["n in range(B)"] + [f"{o.letter} in range({o.size})" for o in c.outer] + [f"t in range(0, ceil({columns}, 32))"]
        at = "".join(f"{o.letter}, " for o in c.outer)
        mark = ", ".join(["n"] + [o.letter for o in c.outer])
        if self.apart:
            return c.turned_input(loops, f"32, {self.row}", f"XV{self.width}[n, {at}{t}, :]", "x", f"{self.input}[n, {at}{t}, :]", mark)
        shifted = f"t*32 - {c.last.padding}:(t+1)*32 - {c.last.padding}" if c.last.padding else t
        return c.turned_input(loops, f"{self.width}, 32", f"X[n, 0:{self.width}, {at}{shifted}]", "transpose(x, [1, 0])", f"{self.input}[n, {at}{t}, :]", mark)

    def product(self, columns):
        c = self.c
        loops, phase = c.tiles("BN", columns)
        tap = digits("k", self.taps)
        at = []
        for a, t in zip(c.outer, tap):
            step = f"({t}) * {a.pace}" if a.dilation > 1 else t
            at.append((f"{a.letter} * {a.stride}" if a.stride > 1 else a.letter) + f" + {step}" + (f" - {a.padding}" if a.padding else ""))
        begin, end = (plus(x, f"({tap[-1]}) * {TAPS_OF_ROW * c.last.dilation}" if tap[-1] != "0" else "") for x in ("x*BN", "(x+1)*BN"))
        factors = f"""    f = alloc([{columns}, {self.row}])
    load({self.weights}[k, o*{columns}:(o+1)*{columns}, :] -> f, pad=0)
    v = alloc([BN, {self.row}])
    load({self.view}[n, {''.join(f'{r}, ' for r in at)}{begin}:{end}, :] -> v, pad=0)
    gemm(v, f, acc, trans_b=true)
"""
        return c.multiplied(loops, columns, math.prod(self.taps), factors)


class Planes:
    """A convolution's form for rows that tiles fit badly: what is multiplied lies row by row with as many columns of zeros between two
    rows as taps reach beyond either end, so that a tile is of neighbours whatever row they are in, and a tap shifts all of them alike.
    Places that are between two rows of the result are multiplied, too, and not stored."""

    def __init__(self, c):
        self.c = c
        a, reach = c.last, c.last.dilation * (c.last.taps - 1)
        self.between = max(0, reach - a.padding) if c.transposed else max(a.padding, 2 * a.padding - reach)
        self.width = f"({plus(a.size, self.between)})" if self.between else a.size

    @staticmethod
    def fit(c):
        plain = NARROW and c.dim == 2 and not c.merged and not c.flat and c.inner == 1 and c.side == 1 and not c.phased and not c.cut
        return plain and all(a.stride == 1 for a in c.axes) and c.many_channels() != ""  # forms for few channels are faster

    def condition(self, than=">"):
        most, least = NARROW
        return f"{least * self.c.positions} * ceil({self.c.last.out}, {self.c.positions}) {than} {most} * {self.width}"

    def conditions(self):
        """Beside those on channels and results."""
        return [self.c.many_channels(), self.condition()]

    def images(self):
        """As many as there are; none where the form is not taken."""
        (most, least), c = NARROW, self.c
        many = f" * min(1, {c.all_channels()} // {c.few[-1].width + 1})" if c.few else ""
        return f"B * min(1, {least * c.positions} * ceil({c.last.out}, {c.positions}) // ({most} * {self.width} + 1)){many}"

    def channels(self):
        least = min(self.c.depth, SOME_DEPTH or self.c.depth)
        return f"ceil({self.c.all_channels()}, {least}) * {least}"

    def views(self):
        c, row = self.c, self.c.axes[0]
        return (f"view XQ[n: {self.images()}, y: {row.size}, x: {self.width}, c: {self.channels()}] = XN[n, y * {self.width} + x, c];\n"
                f"view YN[n: B, o: {c.all_results()}, p: {row.out} * {self.width}] = Y[n, o, p // {self.width}, p % {self.width}];\n")

    def workspaces(self):
        return f"    XN = alloc([{self.images()}, {self.c.outer[0].size} * {self.width}, {self.channels()}], dtype=f16)\n"

    def prepare_input(self):
        loops = ["n in range(B)", f"q in range(0, ceil({self.c.all_channels()}, CB))", f"y in range({self.c.outer[0].size})", f"t in range(0, ceil({self.width}, T))"]
        at = "y, t*T:(t+1)*T"
        return self.c.turned_input(loops, "CB, T", f"X[n, q*CB:(q+1)*CB, {at}]", "transpose(x, [1, 0])", f"XQ[n, {at}, q*CB:(q+1)*CB]", "n, y")

    def by_channels(self):
        """Depths of a product and the constant that each is, behind conditions on channels."""
        c, depth = self.c.all_channels(), self.c.depth
        if not SOME_DEPTH or depth <= SOME_DEPTH:
            return [(None, "BK", depth)]
        return [(f"{c} <= {SOME_DEPTH}", "SK", SOME_DEPTH), (f"{c} > {SOME_DEPTH}", "BK", depth)]

    def product(self):
        return "".join(under([results, channels, *self.conditions()], self.product_by(columns, depth, size))
                       for results, columns in self.c.by_results() for channels, depth, size in self.by_channels())

    def shifted(self, tap):
        """How many places tap number `tap` finds its factor further on."""
        rows, columns = (f"({t}) * {a.dilation}" if a.dilation > 1 else f"({t})" for a, t in zip(self.c.axes, digits(tap, self.c.taps)))
        before = [a.padding for a in self.c.axes]
        if self.c.transposed:
            return f"({before[0]} - {rows}) * {self.width} + {before[1]} - {columns}"
        return f"({rows} - {before[0]}) * {self.width} + {columns} - {before[1]}".replace(" - 0", "")

    def product_by(self, columns, depth, size):
        c = self.c
        loops = ["n in range(B)", f"x in range(0, ceil({c.outer[0].out} * {self.width}, BN))", f"o in range(0, ceil({c.all_results()}, {columns}))"]
        many = c.at_once(size)
        taps = ["k"] if many == 1 else [f"(k * {many} + {i})" for i in range(many)]
        products = "".join(f"""    f{i} = alloc([{columns}, {depth}])
    load(FH[{t}, o*{columns}:(o+1)*{columns}, 0:{depth}] -> f{i}, pad=0)
    v{i} = alloc([BN, {depth}])
    load(XN[n, x*BN + {self.shifted(t)}:(x+1)*BN + {self.shifted(t)}, 0:{depth}] -> v{i}, pad=0)
    gemm(v{i}, f{i}, acc, trans_b=true)
""" for i, t in zip([""] if many == 1 else range(many), taps))
        return c.multiplied(loops, columns, c.count // many, products, f"turned = transpose(acc, [1, 0])\nstore(turned -> YN[n, o*{columns}:(o+1)*{columns}, x*BN:(x+1)*BN])")


DEPTHWISE = """
sketch {name}_windows implements {name} {{
    symbols: {symbols};
    tensors: X[B*C, H, W]: f32; F[C, {kh}, {kw}]: f32; Y[B*C, OH, OW]: f32;
    constexpr: R = {rows}, T = 128;

    @llm_hint("parallel", "coreidx")
    for p in range(B*C):
        @llm_hint("parallel", "coreidx")
        for y in range(0, ceil(OH, R)):
            @llm_hint("parallel", "coreidx")
            for x in range(0, ceil(OW, T)):
                w = alloc([R, T], init=0, llm_hint=["fastest", "accumulator"])
                for s in range({kw}):
                    @llm_hint("unroll")
                    for r in range({kh}):
                        f = alloc([])
                        load(F[p % C, r, s] -> f, pad=0)
                        v = alloc([R, T], llm_hint=["fast", "input_cache"])
                        load(X[p, y*R + r:(y+1)*R + r, x*T + s:(x+1)*T + s] -> v, pad=0)
                        fma(v, f, w, dst=w)
                store(w -> Y[p, y*R:(y+1)*R, x*T:(x+1)*T])
}}
"""

# A product of all channels at each place, of the input or of each channel's windows; nothing is shifted, so channels may stay first.
POINTWISE = """
sketch {name}_product implements {name} {{
    symbols: B, C, H, W, O, C <= 64;
    tensors: X[B, C, H, W]: f32; {windows}F[O, C]: f32; Y[B, O, H, W]: f32;
    constexpr: BM = 128, BN = 128, BK = 32, ST = 3, R = 16, T = 64, FM = 64, FN = 64, FK = 32;

    XH = alloc([B, C, H, ceil(W, 8) * 8], dtype=f16)
    XW = alloc([B, ceil(H, R)], dtype=i32)
    FH = alloc([O, ceil(C, 8) * 8], dtype=f16)
    FS = alloc([O])
    FW = alloc([O], dtype=i32)
    @llm_hint("parallel", "coreidx")
    for n in range(B):
        @llm_hint("parallel", "coreidx")
        for y in range(ceil(H, R)):
            none = alloc([], dtype=i32, init=0)
            store(none -> XW[n, y])
    @llm_hint("parallel", "coreidx")
    for o in range(O):
        f = alloc([64])
        load(F[o, 0:64] -> f, pad=0)
        most = max(abs(f), axis=0)
        least = min(where(f == 0, inf, abs(f)), axis=0)
        e = where(most > 0, floor(log2(most)), 0)
        fine = most == 0 or (most < 1e18 and most > 1e-18 and least * {spread} >= most)
        wide = cast(where(fine, 0, 1), i32)
        store(wide -> FW[o])
        s = exp2(e - 24)
        store(s -> FS[o])
        h = cast(f * exp2(14 - e), f16)
        store(h -> FH[o, 0:64])
    @llm_hint("parallel", "coreidx")
    for n in range(B):
        @llm_hint("parallel", "coreidx")
        for c in range(C):
            @llm_hint("parallel", "coreidx")
            for y in range(0, ceil(H, R)):
                @llm_hint("parallel", "coreidx")
                for x in range(0, ceil(W, T)):
{prepared}                    inside = iota([R, T], axis=1) + x * T < W
                    u = where(inside, w, 0)
                    most = max(max(abs(u), axis=1), axis=0)
                    least = min(min(where(u == 0, inf, abs(u)), axis=1), axis=0)
                    wide = cast(where(most < {most} and least >= {least}, 0, 1), i32)
                    if wide > 0:
                        store(wide -> XW[n, y], mode=max)
                    h = cast(u * 1024, f16)
                    store(h -> XH[n, c, y*R:(y+1)*R, x*T:(x+1)*T])
    @llm_hint("parallel", "coreidx")
    for n in range(B):
        @llm_hint("parallel", "coreidx")
        for y in range(H):
            @llm_hint("parallel", "coreidx")
            for x in range(0, ceil(W, BN)):
                @llm_hint("parallel", "coreidx")
                for o in range(0, ceil(O, BM)):
                    acc = alloc([BM, BN], init=0)
                    @llm_hint("pipeline", stages=ST)
                    for k in range(ceil(C, BK)):
                        f = alloc([BM, BK])
                        load(FH[o*BM:(o+1)*BM, k*BK:(k+1)*BK] -> f, pad=0)
                        v = alloc([BK, BN])
                        load(XH[n, k*BK:(k+1)*BK, y, x*BN:(x+1)*BN] -> v, pad=0)
                        gemm(f, v, acc)
                    s = alloc([BM])
                    load(FS[o*BM:(o+1)*BM] -> s)
                    acc = acc * reshape(s, [BM, 1])
                    store(acc -> Y[n, o*BM:(o+1)*BM, y, x*BN:(x+1)*BN])
    @llm_hint("parallel", "coreidx")
    for n in range(B):
        @llm_hint("parallel", "coreidx")
        for m in range(ceil(H, R)):
            @llm_hint("parallel", "coreidx")
            for x in range(0, ceil(W, FN)):
                @llm_hint("parallel", "coreidx")
                for o in range(0, ceil(O, FM)):
                    wx = alloc([], dtype=i32)
                    load(XW[n, m] -> wx)
                    wf = alloc([FM], dtype=i32)
                    load(FW[o*FM:(o+1)*FM] -> wf, pad=0)
                    wide = max(wx, max(wf, axis=0))
                    if wide > 0:
                        for j in range(R):
                            acc = alloc([FM, FN], init=0)
                            for k in range(0, ceil(C, FK)):
{again}                                f = alloc([FM, FK])
                                load(F[o*FM:(o+1)*FM, k*FK:(k+1)*FK] -> f, pad=0)
                                gemm(f, v, acc, precision="bf16x3")
                            store(acc -> Y[n, o*FM:(o+1)*FM, m*R+j, x*FN:(x+1)*FN])
}}
"""

# What the product has: the windows' sums, or the input.
OF_WINDOWS = ("""                    w = alloc([R, T], init=0, llm_hint=["fastest", "accumulator"])
                    for r in range(3):
                        @llm_hint("unroll")
                        for s in range(3):
                            v = alloc([R, T], llm_hint=["fast", "input_cache"])
                            load(X[n, c, y*R + r - 1:(y+1)*R + r - 1, x*T + s - 1:(x+1)*T + s - 1] -> v, pad=0)
                            g = alloc([])
                            load(G[c, r, s] -> g)
                            fma(v, g, w, dst=w)
""", """                                v = alloc([FK, FN], init=0)
                                for r in range(3):
                                    for s in range(3):
                                        u = alloc([FK, FN])
                                        load(X[n, k*FK:(k+1)*FK, m*R + j + r - 1, x*FN + s - 1:(x+1)*FN + s - 1] -> u, pad=0)
                                        g = alloc([FK])
                                        load(G[k*FK:(k+1)*FK, r, s] -> g, pad=0)
                                        v += u * reshape(g, [FK, 1])
""")
# Nothing is read twice: the copy that brings the input brings it to the product, which rounds it. The weights stay for R tiles, the next
# tile's input is on its way.
ALONE = """
sketch {name}_tiled implements {name} {{
    symbols: B, C, H, W, O, C <= 64;
    tensors: X[B, C, H*W]: f32; F[O, C]: f32; Y[B, O, H*W]: f32;
    constexpr: BM = 128, BN = 128, BK = 64, R = 1, ST = 1;

    @llm_hint("parallel", "coreidx")
    for n in range(B):
        @llm_hint("parallel", "coreidx")
        for o in range(0, ceil(O, BM)):
            @llm_hint("parallel", "coreidx")
            for p in range(0, ceil(H*W, BN*R)):
                f = alloc([BM, BK])
                load(F[o*BM:(o+1)*BM, 0:BK] -> f, pad=0)
                @llm_hint("pipeline", stages=ST)
                for j in range(R):
                    x = alloc([BK, BN])
                    load(X[n, 0:BK, (p*R+j)*BN:(p*R+j+1)*BN] -> x, pad=0)
                    acc = alloc([BM, BN], init=0)
                    gemm(f, x, acc, precision="tf32")
                    store(acc -> Y[n, o*BM:(o+1)*BM, (p*R+j)*BN:(p*R+j+1)*BN])
}}
"""

PLAIN = {  # id: (dimensions, name, B C O, sizes, taps, and the rest)
    50: ("conv_2d_11x11_strided", (256, 3, 96), (224, 224), 11, dict(stride=4, padding=2, bias=True)),
    54: ("conv_3d", (16, 3, 64), (64, 64, 64), 3, {}),
    55: ("conv_2d_wide", (8, 64, 128), (512, 1024), 3, {}),
    56: ("conv_2d_5x7", (8, 64, 128), (512, 256), (5, 7), {}),
    57: ("conv_transposed_2d", (8, 64, 64), (1024, 1024), 3, dict(transposed=True)),
    58: ("conv_transposed_3d_3x5x7", (16, 32, 16), (16, 32, 64), (3, 5, 7), dict(transposed=True)),
    60: ("conv_3d_3x5x7", (16, 3, 64), (64, 64, 64), (3, 5, 7), {}),
    61: ("conv_transposed_3d", (8, 48, 48), (64, 64, 64), 3, dict(transposed=True)),
    62: ("conv_2d_5x9", (8, 32, 64), (512, 512), (5, 9), {}),
    63: ("conv_2d", (16, 16, 128), (1024, 1024), 3, {}),
    64: ("conv_transposed_1d", (64, 128, 128), (65536,), 3, dict(transposed=True)),
    65: ("conv_transposed_2d_3x7", (8, 64, 64), (512, 512), (3, 7), dict(transposed=True)),
    66: ("conv_3d_flat_3x5x7", (8, 3, 64), (16, 128, 128), (3, 5, 7), {}),
    67: ("conv_1d", (32, 64, 128), (131072,), 3, {}),
    68: ("conv_transposed_3d_3x5x5", (16, 32, 64), (64, 64, 64), (3, 5, 5), dict(transposed=True)),
    69: ("conv_transposed_2d_3x5", (64, 64, 128), (128, 256), (3, 5), dict(transposed=True)),
    70: ("conv_transposed_3d_large", (8, 48, 24), (96, 96, 96), 3, dict(transposed=True)),
    71: ("conv_transposed_2d_wide", (8, 32, 32), (512, 1024), 3, dict(transposed=True)),
    72: ("conv_transposed_3d_grouped", (8, 32, 32), (12, 24, 48), (3, 5, 7), dict(transposed=True, stride=2, padding=(1, 2, 3), more=1, groups=4)),
    73: ("conv_transposed_3d_strided", (4, 32, 32), (32, 64, 128), 3, dict(transposed=True, stride=2, padding=1)),
    74: ("conv_transposed_1d_dilated", (32, 32, 64), (131072,), 5, dict(transposed=True, dilation=3)),
    75: ("conv_transposed_2d_grouped", (16, 32, 64), (128, 256), (3, 5), dict(transposed=True, stride=(2, 3), padding=(1, 2), dilation=(2, 1), groups=4)),
    76: ("conv_1d_strided", (64, 64, 128), (524280,), 3, dict(stride=3, dilation=4)),
    77: ("conv_transposed_3d_dilated", (16, 32, 64), (16, 32, 32), 3, dict(transposed=True, stride=2, padding=1, dilation=2)),
    78: ("conv_transposed_2d_padded", (8, 32, 32), (512, 1024), (3, 7), dict(transposed=True, padding=(1, 3))),
    79: ("conv_transposed_1d_strided", (16, 32, 64), (131072,), 3, dict(transposed=True, stride=2, padding=1, dilation=2)),
    80: ("conv_2d_dilated", (8, 32, 64), (512, 512), (5, 9), dict(padding=(2, 4), dilation=(2, 3))),
    81: ("conv_transposed_2d_dilated", (16, 32, 64), (64, 128), 3, dict(transposed=True, stride=5, padding=1, dilation=2)),
}


def fill(add, dims):
    depthwise(add, dims)
    with_inner_axis(add, dims)
    for number, (name, (batch, channels, results), sizes, taps, more) in PLAIN.items():
        dim, groups = len(sizes), more.get("groups", 1)
        c = Convolution(name, dim, channels, taps, results=results, sizes=sizes, **more)
        names = " ".join(["B C O", *SIZES[dim]])
        least = [a.least for a in c.axes]
        part = [max(s // 4, l) for s, l in zip(sizes, least)]
        ragged = [max(9 + 2 * i, l + 2) for i, l in zip(range(dim - 1), least)] + [max(least[-1] + 6, {1: 1301, 2: 151, 3: 77}[dim])]
        small = [l + 2 for l in least[:-1]] + [least[-1] + 20]
        data = f"X: uniform(0, 1); F: uniform({-bound(c):.4f}, {bound(c):.4f})" + ("; Z: uniform(-0.05, 0.05)" if c.bias else "")
        few = min(3, channels)
        add(number, name, "convolution", "convolution", c.head(), c.equation(), c.sketch(),
            dims(names, (batch, channels // groups, results // groups, *sizes), (2, channels // groups, results // groups, *part),
                 (2, few + 2 if channels > 3 else few, 11, *ragged), (1, few, 5, *small)), data)


def depthwise(add, dims):
    for number, name, sizes, kh, kw in ((82, "conv_depthwise_2d", (16, 64, 512, 512), 3, 3), (83, "conv_depthwise_2d_column", (64, 8, 512, 512), 3, 1),
                                        (84, "conv_depthwise_2d_wide", (64, 128, 256, 512), 3, 3), (85, "conv_depthwise_2d_3x7", (32, 128, 128, 256), 3, 7)):
        symbols = f"B, C, H, W, OH = H - {kh - 1}, OW = W - {kw - 1}, H >= {kh}, W >= {kw}"
        limit = 1 / math.sqrt(kh * kw)
        add(number, name, "depthwise", "convolution", f"    symbols: {symbols};\n    tensors: X[B, C, H, W]: f32; F[C, 1, {kh}, {kw}]: f32; Y[B, C, OH, OW]: f32;\n    precision: tf32;",
            f"    Y[n, c, y, x] = sum(r in 0:{kh}, s in 0:{kw}, X[n, c, y + r, x + s] * F[c, 0, r, s])",
            DEPTHWISE.format(name=name, symbols=symbols, kh=kh, kw=kw, rows=64 if kw == 1 else 32),
            dims("B C H W", sizes, (2, *sizes[1:]), (3, 5, 97, 89), (2, 3, 13, 17)), f"X: uniform(0, 1); F: uniform({-limit:.4f}, {limit:.4f})")
    for number, name, sizes, windows, (prepared, again), taps, equation in (
            (86, "conv_separable_2d", (16, 64, 512, 512, 128), "G[C, {}3, 3]: f32; ", OF_WINDOWS, "; G: uniform(-0.3333, 0.3333)", "conv2d(conv2d(X, G, padding=1, groups=C), F)"),
            (87, "conv_pointwise_2d", (16, 64, 1024, 1024, 128), "", ("", ""), "", "conv2d(X, F)")):
        add(number, name, "convolution", "convolution",
            f"    symbols: B, C, H, W, O, C <= 64;\n    tensors: X[B, C, H, W]: f32; {windows.format('1, ')}F[O, C, 1, 1]: f32; Y[B, O, H, W]: f32;\n    precision: tf32;",
            f"    Y = {equation}", (POINTWISE if windows else ALONE).format(name=name, spread=SPREAD, most=MOST, least=LEAST, windows=windows.format(""), prepared=prepared, again=again),
            dims("B C H W O", sizes, (1, 64, 256, 512, 128), (2, 5, 37, 89, 11), (1, 3, 7, 17, 5)), "X: uniform(0, 1)" + taps + "; F: uniform(-0.125, 0.125)")


def with_inner_axis(add, dims):
    """Windows along the first two of three axes: to the sketch the last two are one, along which taps are W apart."""
    name = "conv_3d_3x3x1"
    operator = Convolution(name, 3, 3, (3, 3, 1), results=64)
    c = Convolution(name, 2, 3, 3, dilation=(1, 2), results=64)
    for a, size, out in zip(c.axes, ("D", "(H*W)"), ("OD", "(OH*W)")):
        a.size, a.out = size, out
    c.last.pace, c.plane = "W", False  # rows are long
    c.symbols = operator.symbols
    c.tensors = lambda flat=False: "X[B, C, D, H*W]: f32; F[O, C, 3, 3]: f32; Y[B, O, OD, OH*W]: f32;"
    text = c.sketch().replace("OW = W, ", "")
    add(59, name, "convolution", "convolution", operator.head(), operator.equation(), text,
        dims("B C O D H W", (16, 3, 64, 256, 256, 10), (2, 3, 64, 64, 64, 10), (2, 3, 11, 9, 13, 11), (1, 3, 5, 4, 5, 7)),
        f"X: uniform(0, 1); F: uniform({-bound(operator):.4f}, {bound(operator):.4f})")


def bound(c):
    """Of PyTorch's first weights."""
    taps = math.prod(a.taps for a in c.axes)
    return 1 / math.sqrt(taps * c.channels / c.groups)
