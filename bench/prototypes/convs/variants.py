"""Sketches of other designs, from bench/kernelbench/convolutions.py: variants.py REPO OUT writes OUT/VARIANT/NNN_name.sketch."""
import pathlib
import re
import sys

REPO, OUT = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
sys.path.insert(0, str(REPO / "bench" / "kernelbench"))
import convolutions  # noqa: E402
from convolutions import PLAIN, Convolution, nest  # noqa: E402


class Kept(Convolution):
    """The weights of all taps stay in registers for RT tiles one behind the other: rows, or in one dimension tiles along the axis."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.at_once = 1
        self.stages = 2 if self.depth * self.count > 96 else 3

    def join(self):
        return [self.axes[-1]] if self.channels == 16 else super().join()

    def product(self):
        loops, phase = self.tiles("BN", "BM")
        turning = self.axes[-2 if self.dim > 1 else -1]
        at = next(i for i, loop in enumerate(loops) if loop.startswith(f"{turning.letter} in"))
        loops[at] = f"t in range(ceil({turning.out}, 16))" if self.dim > 1 else f"t in range(0, ceil({turning.out}, 16*BN))"
        text = "s = alloc([BM])\nload(FS[o*BM:(o+1)*BM] -> s)\n"
        text += "".join(f"f{k} = alloc([BM, BK])\nload(FH[{k}, o*BM:(o+1)*BM, 0:BK] -> f{k}, pad=0)\n" for k in range(self.count))
        text += '@llm_hint("pipeline", stages=ST)\nfor j in range(16):\n    acc = alloc([BM, BN], init=0)\n'
        for k in range(self.count):
            text += f"    v{k} = alloc([BN, BK])\n    load({self.turned(self.factor(phase, str(k), '0:BK'))} -> v{k}, pad=0)\n    gemm(f{k}, v{k}, acc, trans_b=true)\n"
        text += f"    acc *= reshape(s, [BM, 1])\n    store(acc -> {self.turned(self.result('BN', 'BM'))})"
        return nest(loops, text)

    def turned(self, slice_):
        """The row, or the tile, that is number j of this block's."""
        if self.dim == 1:
            return slice_.replace("x*BN", "(t*16+j)*BN").replace("(x+1)*BN", "(t*16+j+1)*BN")
        return re.sub(r"\b%s\b" % self.axes[-2].letter, "(t*16+j)", slice_)


class Rows(Convolution):
    """Channels are the rows of the product's tile, positions its columns."""

    def product(self):
        text = super().product().replace("acc = alloc([BN, BM]", "acc = alloc([BM, BN]").replace("acc *= s", "acc *= reshape(s, [BM, 1])").replace("acc += z", "acc += reshape(z, [BM, 1])")
        text = re.sub(r"gemm\(v(\d*), f(\d*), acc", r"gemm(f\1, v\2, acc", text)
        return re.sub(r" *turned = transpose\(acc, \[1, 0\]\)\n", "", text).replace("store(turned ->", "store(acc ->")


class Joined(Convolution):
    """Taps of the last axis alone in a column, whatever the channels."""

    def join(self):
        return [self.axes[-1]]


class Wide(Convolution):
    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.positions = 128


def made(kind, number):
    convolutions.Convolution = kind
    added = {}
    try:
        convolutions.fill(lambda n, name, *rest: added.setdefault(n, (name, rest)), lambda *a: a)
    finally:
        convolutions.Convolution = Convolution
    return added[number][0], added[number][1][4]  # (group, kind, head, equation, sketch, ...)


def write(variant, number, sketch=None, change=lambda text: text):
    file = next((REPO / "bench" / "kernelbench" / "level1").glob(f"{number:03}_*.sketch"))
    text = file.read_text()
    if sketch:
        text = text[:text.index("\nsketch ")] + sketch
    (OUT / variant).mkdir(parents=True, exist_ok=True)
    (OUT / variant / file.name).write_text(change(text))


for number in (54, 59, 63, 67, 74, 76):
    write("kept", number, made(Kept, number)[1])
for number in (54, 59, 62, 63, 80):
    write("rows", number, made(Rows, number)[1])
for number in (54, 63):
    write("joined", number, made(Joined, number)[1])
write("wide54", 54, made(Wide, 54)[1])
for number in (50, 54, 55, 59, 60, 62, 63, 66, 67, 76, 80, 86, 87):
    write("now", number)
write("pointwise64", 87, change=lambda t: t.replace("BN = 128", "BN = 64"))
write("pointwise_alone", 87, change=lambda t: t.replace("R = 8", "R = 1").replace("stages=ST", "stages=1"))
assert PLAIN
