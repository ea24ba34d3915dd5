#!/usr/bin/env python3
"""The page of `sketchc explain FILE --html`, as a parser of HTML sees it: page.py SKETCHC."""
import html.parser
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKETCHC = sys.argv[1]
VOID = {"meta", "br", "rect", "link", "img"}


class Page(html.parser.HTMLParser):
    """Panes by id: [(line of the source or None, text)]; what is fetched from elsewhere; that tags close."""

    def __init__(self, text):
        super().__init__()
        self.panes, self.fetched, self.open, self.tags, self.text, self.cells = {}, [], [], [], [], []
        self.pane = self.line = None
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        self.tags.append((tag, a))
        self.fetched += [v for k, v in a.items() if k in ("src", "href", "data")]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "section" and a.get("class") == "pane":
            self.pane = self.panes.setdefault(a["id"], [])
        if tag == "td":
            self.cells.append("")
        if tag == "li":
            self.line = [int(a["data-l"]) if "data-l" in a else None, ""]

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()
        if tag == "li":
            self.pane.append(tuple(self.line))
            self.line = None

    def handle_data(self, data):
        self.text.append(data)
        if "td" in self.open:
            self.cells[-1] += data
        if self.line:
            self.line[1] += data


def run(*arguments, **options):
    return subprocess.run([SKETCHC, *map(str, arguments)], capture_output=True, text=True, **options)


def page(name, *options):
    done = run("explain", ROOT / f"examples/{name}.sketch", "--html", "-q", *options)
    assert done.returncode == 0, done.stderr
    return Page(done.stdout), done.stdout


def emitted(name, form, *options):
    return run(ROOT / f"examples/{name}.sketch", f"--emit={form}", "-q", *options).stdout.splitlines()


def main():
    softmax, text = page("softmax")
    assert page("softmax")[1] == text, "the same input, other bytes"
    assert not softmax.fetched and "http" not in text and "@import" not in text and "url(" not in text, "the page fetches something"
    source = (ROOT / "examples/softmax.sketch").read_text().splitlines()
    assert list(softmax.panes) == ["source", "tile", "kernel", "code"]
    assert [t for _, t in softmax.panes["source"]] == source
    assert [n for n, _ in softmax.panes["source"]] == list(range(1, len(source) + 1))
    for pane, form in (("tile", "tile"), ("kernel", "kernel"), ("code", "cuda")):
        assert [t for _, t in softmax.panes[pane]] == emitted("softmax", form, "-t", "cuda"), f"{pane} is not what --emit={form} prints"
    line = next(i for i, t in enumerate(source, 1) if "reduce_max" in t)
    for pane, word in (("tile", 'kind = "max"'), ("kernel", "max("), ("code", "max_f32(")):
        assert any(n == line and word in t for n, t in softmax.panes[pane]), f"{pane}: reduce_max is not linked"
    line = next(i for i, t in enumerate(source, 1) if "load(" in t)
    assert any(n == line and "tile.load" in t for n, t in softmax.panes["tile"])
    titles = [t for t in softmax.text if t.startswith("element ")]
    assert "element 5: warp 0, lane 1, register 1" in titles, titles[:8]  # four elements a lane
    said = [t.strip() for t in run(ROOT / "examples/softmax.sketch", "--explain", "-q", "-t", "cuda").stdout.splitlines()]
    launches = [name + ": " + why.split(", ", 1)[1] for name, why in (t.split(": ", 1) for t in said if t.startswith("softmax_"))]
    assert len(launches) == 8 and all(t in softmax.cells for t in launches), "the prediction is that of --explain"
    assert "not known" not in softmax.cells
    assert "8, by threads" in softmax.text, "2,048 threads of a multiprocessor hold 8 blocks of 256"
    # A tile of a matrix product: the accumulators as mma.sync has them.
    matmul, _ = page("matmul_bf16")
    titles = [t for t in matmul.text if t.startswith("row ")]
    assert "row 1, column 2: warp 0, lane 5, register 0" in titles, titles[30:40]
    assert "&" not in "".join(t for _, t in matmul.panes["code"] if "unsigned" in t and "&amp;" in t), "escaped twice"
    staged, _ = page("matmul_bf16", "--arch=sm_90a")
    assert any("a: 3 × 8192" in t for t in staged.cells), "buffers and their stages"
    assert "K <= 2147221503, M <= 2147221503, N <= 2147221503, K % 8 == 0, N % 8 == 0, N > 0, M > 0, K > 0" in staged.cells, "when a version runs"
    assert "N <= 4096, N % 4 == 0" in softmax.cells and "always" in softmax.cells, "when a version runs"
    # Other targets: C for a processor, of which nothing is predicted; PTX.
    for target, word in (("openmp", "#pragma omp"), ("nvptx", ".entry")):
        other = run("explain", ROOT / "examples/scale.sketch", "--html", "-q", "-t", target)
        if target == "nvptx" and other.returncode == 4:
            continue  # built without LLVM
        assert other.returncode == 0, other.stderr
        panes = Page(other.stdout)
        code = [t for _, t in panes.panes["code"]]
        assert any(word in t for t in code) and ("not known" in panes.cells) == (target == "openmp")
        assert code == emitted("scale", "ptx" if target == "nvptx" else "c", "-t", target), "line directives change nothing"
        store = next(i for i, t in enumerate((ROOT / "examples/scale.sketch").read_text().splitlines(), 1) if "store(" in t)
        assert any(n == store and ("st.global" in t or "Y[at]" in t) for n, t in panes.panes["code"]), (target, "no line is linked to store")
    hostile = "# </script><b>&amp;\noperator o {\n    symbols: N;\n    tensors: X[N]: f32; Y[N]: f32;\n    Y = X\n}\n" + \
              (ROOT / "examples/scale.sketch").read_text().split("}\n\n", 1)[1].replace("implements scale", "implements o")
    assert Page(run("explain", "-", "--html", "-q", input=hostile).stdout).panes["source"][0][1] == "# </script><b>&amp;"
    # An operator alone: the sketch that was designed for it is what the lines are of.
    alone = "operator o {\n    symbols: N;\n    tensors: X[N]: f32; Y[N]: f32;\n    Y = exp(X)\n}\n"
    designed = Page(run("explain", "-", "--html", "-q", input=alone).stdout)
    line = next(i for i, t in designed.panes["source"] if "exp(" in t and i > 5)
    assert any(n == line and "exp(" in t for n, t in designed.panes["tile"]) and "designed by rules" in "".join(designed.text)
    # Mistakes are said as elsewhere.
    wrong = run("explain", "-", "--html", input="sketch s {\n    x = (\n}\n")
    assert wrong.returncode == 1 and "error[E" in wrong.stderr and not wrong.stdout
    assert run("explain", "--html").returncode == 2 and run("explain", "E0101").returncode == 0
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
