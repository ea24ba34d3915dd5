#!/usr/bin/env python3
"""The pictures of docs/decisions, printed from text.

    pictures.py            writes each picture beside this file
    pictures.py --check    fails where a picture is not what this file prints"""
import pathlib
import sys
from html import escape

HERE = pathlib.Path(__file__).resolve().parent
FILLS = {"plain": "#f6f8fa", "blue": "#d6e8ff", "green": "#d7f5dd", "orange": "#ffe7cc", "red": "#ffd9d9", "grey": "#e5e7eb", "none": "none"}


class Picture:
    """Boxes, text and arrows. A light background of its own, so that dark pages can be read, too."""

    def __init__(self, width: int, height: int, title: str):
        self.size, self.title, self.parts = (width, height), title, []

    def text(self, x: float, y: float, words: str, size: int = 13, anchor: str = "middle", mono: bool = False):
        font = ' font-family="monospace"' if mono else ""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"{font}>{escape(words)}</text>')

    def box(self, x: float, y: float, w: float, h: float, words: str = "", fill: str = "plain", size: int = 13):
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="3" fill="{FILLS[fill]}" stroke="#57606a"/>')
        lines = words.split("\n") if words else []
        for i, line in enumerate(lines):
            self.text(x + w / 2, y + h / 2 + size * (0.35 + 1.25 * (i - (len(lines) - 1) / 2)), line, size)

    def arrow(self, x1: float, y1: float, x2: float, y2: float, words: str = "", dashed: bool = False):
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.parts.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="#24292f" marker-end="url(#tip)"{dash}/>')
        if words:
            self.text((x1 + x2) / 2, (y1 + y2) / 2 - 5, words, 11)

    def svg(self) -> str:
        w, h = self.size
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" font-family="sans-serif" fill="#24292f">',
            f"<title>{escape(self.title)}</title>",
            '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto"><path d="M0,0 L7,3 L0,6 z"/></marker></defs>',
            f'<rect width="{w}" height="{h}" fill="#ffffff"/>', *self.parts, "</svg>", ""])


def ir_levels() -> Picture:
    p = Picture(860, 200, "A program goes from graph level through three states of tile level to kernel level")
    names = [("operator", "graph level\nwhole tensors", "blue"), ("sketch", "tile, open\nsymbolic extents", "green"), ("", "tile, static\nconstant extents", "green"),
             ("", "tile, mapped\nlayouts, buffers", "green"), ("", "kernel level\none thread", "orange")]
    for i, (_, words, fill) in enumerate(names):
        p.box(10 + 172 * i, 70, 130, 50, words, fill)
    for i, words in enumerate(["design", "split_\npasses", "assign_\nlayouts", "lower_to_\nthreads"]):
        x = 10 + 172 * i + 130
        p.arrow(x, 95, x + 40, 95, dashed=i == 0)
        for k, line in enumerate(words.split("\n")):
            p.text(x + 20, 50 + 14 * k, line, 11)
    p.arrow(75, 30, 75, 68)
    p.text(75, 22, "operator", 12)
    p.arrow(247, 30, 247, 68)
    p.text(247, 22, "sketch", 12)
    p.arrow(75, 120, 75, 158)
    p.text(10, 175, "reference and its error bounds (verify/)", 12, "start")
    for i, words in enumerate(["CUDA C", "PTX", "C, OpenMP"]):
        p.arrow(763, 120, 670 + 70 * i, 158)
        p.text(670 + 70 * i, 175, words, 12)
    p.text(345, 150, "on a CPU, static tiles go to lower_to_threads directly", 12, "start")
    p.arrow(419, 122, 419, 138, dashed=True)
    return p


def layout() -> Picture:
    p = Picture(800, 250, "Thread 1 of warp 2 holds row 2, columns 4 to 7 of the tile")
    left, top, w, h = 90, 40, 86, 20
    for lane in range(8):
        name = f"lane {lane}" if lane < 7 else "... lane 31"
        p.text(left + w * lane + w / 2, top - 8, name, 11)
    for row in range(8):
        p.text(left - 8, top + h * row + 15, f"warp {row}", 11, "end")
        for lane in range(8):
            mine = row == 2 and lane == 1
            p.box(left + w * lane, top + h * row, w, h, "4 5 6 7" if mine else "", "orange" if mine else "blue" if row == 2 else "plain", 11)
    p.text(left, 222, "A box is 4 columns: register bits step by 1 and 2 columns, lane bits by 4, 8, 16, 32, 64, warp bits by 1, 2, 4 rows.", 12, "start")
    p.text(left, 240, "#dist<[8, 128], register=[(0, 1)*2], lane=[(0, 4)*5], warp=[(1, 0)*3]>", 12, "start", mono=True)
    return p


def presence() -> Picture:
    p = Picture(700, 170, "A tile of 8 lanes at 8 of a row of 13 elements: five lanes are present")
    for i in range(13):
        p.box(30 + 38 * i, 30, 38, 30, str(i), "blue" if i < 8 else "green")
    p.text(30, 20, "tensor X[13]", 12, "start")
    for i in range(8):
        p.box(30 + 38 * (8 + i), 80, 38, 30, f"X[{8 + i}]" if i < 5 else "", "green" if i < 5 else "grey", 11)
    p.text(20, 100, "load(X[8 : 16] -> x)", 12, "start", mono=True)
    p.arrow(334, 130, 524, 130)
    p.text(429, 146, "present: [0, min(8, 13 - 8)) = [0, 5)", 12)
    p.text(581, 130, "absent", 12)
    return p


def barriers() -> Picture:
    p = Picture(800, 190, "Between two barriers each cell of shared memory knows who wrote and who read it")
    for x in (150, 420, 690):
        p.box(x, 30, 10, 120, "", "grey")
        p.text(x + 5, 22, "barrier", 11)
    for i in range(6):
        p.box(190 + 35 * i, 50, 35, 26, f"t{i}", "orange", 11)
        p.box(460 + 35 * i, 50, 35, 26, f"t{5 - i}", "green", 11)
    p.text(295, 98, "thread i writes cell i", 12)
    p.text(565, 98, "thread 5 - i reads cell i", 12)
    p.text(295, 122, "cell i: written by i", 12)
    p.text(565, 122, "cell i: read by 5 - i", 12)
    p.text(295, 142, "the next write by another", 11)
    p.text(295, 156, "thread here is an error", 11)
    p.text(75, 95, "all threads of", 12)
    p.text(75, 111, "the block at once", 12)
    p.text(400, 178, "a barrier that all threads pass empties the cells; a copy in flight holds its cells until it is waited for", 12)
    return p


def pipelining() -> Picture:
    p = Picture(800, 210, "A ring of three stages: copies run two iterations ahead of the products")
    w, left = 84, 120
    for i in range(8):
        p.text(left + w * i + w / 2, 20, "fill" if i < 2 else f"k = {i - 2}", 12)
    for stage in range(3):
        p.text(left - 10, 52 + 38 * stage, f"stage {stage}", 12, "end")
    for k in range(6):
        stage, slot = k % 3, k
        p.box(left + w * slot, 32 + 38 * stage, w, 15, f"copy {k}", "blue", 10)
        p.box(left + w * slot + w, 32 + 38 * stage, w, 15, "in flight", "plain", 10)
        p.box(left + w * (slot + 2), 32 + 38 * stage, w, 15, f"multiply {k}", "orange", 10)
    for i in range(2, 8):
        p.arrow(left + w * i, 165, left + w * i, 150)
    p.text(left + w * 2, 182, "each iteration: wait for its stage, one barrier, issue the copy two ahead, multiply", 12, "start")
    p.text(left + w * 2, 200, "the barrier also shows that the stage which was read last is free", 12, "start")
    return p


def rows() -> Picture:
    p = Picture(860, 150, "By length a row belongs to a part of a warp, a block, a cluster, many blocks, or goes in chunks")
    kinds = [("part of a warp", "to 1,024", "group_rows", "blue"), ("a block", "to 32,768", "row_plan", "green"), ("a cluster", "to 393,216", "row_plan", "green"),
             ("many blocks", "to 4 million", "cooperative_row_reduction", "orange"), ("in chunks,", "any", "split_passes", "grey")]
    widths = [110, 140, 160, 220, 150]
    x = 20
    for (words, length, name, fill), w in zip(kinds, widths, strict=True):
        p.box(x, 40, w, 44, words + ("\nread again" if words.endswith(",") else ""), fill)
        p.text(x + w / 2, 32, length, 12)
        p.text(x + w / 2, 102, name, 11, mono=True)
        x += w + 10
    p.text(20, 18, "f32 elements of a row that is needed again after its reduction", 12, "start")
    p.text(20, 134, "rows too few for the machine: split_reduction, cluster_scan, split_k divide each row among blocks", 12, "start")
    return p


def windows() -> Picture:
    p = Picture(760, 250, "Neighbouring windows share elements; a box in shared memory rolls down the rows")
    for r in range(7):
        for c in range(12):
            fill = "orange" if r == 1 and c < 12 else "blue" if r in (2, 3) else "green" if r == 4 else "plain"
            p.box(40 + 24 * c, 30 + 26 * r, 24, 26, "", fill)
    p.text(40, 22, "tensor: a block's columns", 12, "start")
    notes = [(1, "left the window: dropped"), (2, "combined before: carried as partial results"), (3, "combined before: carried as partial results"),
             (4, "new line: in shared memory, combined now"), (5, "next line: being copied (cp.async)"), (6, "the one after: being copied")]
    for r, words in notes:
        p.text(345, 48 + 26 * r, words, 12, "start")
    p.box(88, 82, 72, 78, "", "none")
    p.box(112, 82, 72, 78, "", "none")
    p.text(40, 232, "windows of two neighbours (3 x 3) share six of nine elements; the loop over rows moves both down by one", 12, "start")
    return p


def split_product() -> Picture:
    p = Picture(720, 230, "Three of the four products of parts are made; the fourth is below the bound")
    p.box(40, 90, 60, 60, "x", "plain", 16)
    p.text(115, 125, "= s (", 15, "start")
    p.box(155, 95, 110, 24, "h: 11 bits", "blue", 12)
    p.box(155, 123, 110, 24, "l: next 11 bits", "green", 12)
    p.text(272, 125, ")  = s (h + l / 2048)", 13, "start")
    for i, a in enumerate(["Ah", "Al"]):
        p.text(470, 88 + 62 * i, a, 14)
        for k, b in enumerate(["Bh", "Bl"]):
            if i == 0:
                p.text(535 + 100 * k, 45, b, 14)
            last = i and k
            words = "left out\n2^-22" if last else "main sum,\nof 64 steps" if not (i or k) else "small sum\n2^-11"
            p.box(490 + 100 * k, 55 + 62 * i, 92, 54, words, "grey" if last else "blue" if not (i or k) else "green", 12)
    p.text(40, 205, "s: a power of two for each row of A (column of B), so that f16 holds the row; rows that it cannot hold are marked", 12, "start")
    return p


def search() -> Picture:
    p = Picture(820, 210, "Proposers hand text to judges; the clock decides; the store remembers")
    for i, words in enumerate(["rules: designs,\nmutations", "a model", "a program,\na recording"]):
        p.box(20, 20 + 60 * i, 130, 46, words, "blue", 12)
        p.arrow(150, 43 + 60 * i, 218, 100)
    p.text(190, 45, "text", 12)
    p.box(220, 75, 120, 50, "search\nrounds of six", "plain")
    p.arrow(340, 100, 408, 100)
    p.box(410, 30, 130, 36, "judge: compile", "green", 12)
    p.box(410, 82, 130, 36, "judge: verify", "green", 12)
    p.box(410, 134, 130, 36, "side by side", "grey", 12)
    p.arrow(540, 100, 598, 100)
    p.box(600, 75, 100, 50, "clock\none at a time", "orange")
    p.arrow(650, 125, 650, 160)
    p.box(590, 162, 120, 36, "store (SQLite)", "grey", 12)
    p.arrow(588, 180, 282, 180, dashed=True)
    p.arrow(280, 180, 280, 128, dashed=True)
    p.text(430, 195, "results, in the order of candidates", 12)
    p.arrow(700, 100, 750, 100)
    p.text(755, 96, "answer,", 12, "start")
    p.text(755, 112, "verified", 12, "start")
    return p


PICTURES = {"ir-levels": ir_levels, "layout": layout, "presence": presence, "barriers": barriers, "pipelining": pipelining, "rows": rows,
            "windows": windows, "split-product": split_product, "search": search}


def main() -> int:
    stale = []
    for name, draw in PICTURES.items():
        path, text = HERE / f"{name}.svg", draw().svg()
        if "--check" in sys.argv[1:]:
            stale += [] if path.is_file() and path.read_text() == text else [path.name]
        else:
            path.write_text(text)
    stale += [path.name for path in sorted(HERE.glob("*.svg")) if path.stem not in PICTURES]
    print("not what pictures.py prints: " + ", ".join(stale) if stale else f"{len(PICTURES)} pictures")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
