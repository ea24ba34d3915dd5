#!/usr/bin/env python3
"""The page of `sketchc report` about searches in which names look like HTML: it is well formed, fetches and runs nothing, and says
what the store holds. With a FOLDER also in headless Chromium (status 77: there is none): nothing is wider than the window, nothing of a name was
taken for HTML, light is light and dark is dark; the pictures stay in FOLDER to be looked at.

    report.py SKETCHC TEST_STORE [FOLDER]"""
import html.parser
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/explain"))
from browser import chromium, pixels  # noqa: E402

VOID = {"meta", "circle", "path"}
OPTIONAL = {"p", "td", "th", "tr", "thead", "tbody"}  # HTML closes these by itself
PROBE = """<script>(() => {
    const wide = document.documentElement.scrollWidth > innerWidth, cut = [...document.querySelectorAll("svg.chart text")].filter((t) => {
        const a = t.getBoundingClientRect(), b = t.closest("svg").getBoundingClientRect();
        return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1; }).length;
    const count = (what) => document.querySelectorAll(what).length;
    document.documentElement.setAttribute("data-probe", `wide=${wide};cut=${cut};img=${count("img")};b=${count("pre b")};charts=${count("svg.chart")};trees=${count("svg.tree")}`);
})();</script>"""


class Reader(html.parser.HTMLParser):
    """Tags in balance, their names, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.names, self.wrong, self.text = [], set(), [], []

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.wrong += [f"{tag} {name}={value}" for name, value in attrs if name.startswith("on") or name in ("src", "href") and not value.startswith("#run")]
        if tag not in VOID and tag not in OPTIONAL:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in OPTIONAL or tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}>")

    def handle_data(self, data):
        self.text.append(data)


def make(sketchc: str, tool: str, folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    store, page = folder / "samples.db", folder / "report.html"
    for old in folder.glob("samples.db*"):
        old.unlink()
    subprocess.run([tool, store, "sample"], check=True)
    subprocess.run([sketchc, "report", store, "-o", page], check=True)
    return store, page


def check_text(sketchc: str, store: pathlib.Path, page: pathlib.Path) -> None:
    text = page.read_text()
    reader = Reader()
    reader.feed(text)
    assert not reader.wrong and not reader.open, (reader.wrong, reader.open)
    assert not reader.names & {"script", "img", "link", "iframe", "object", "b><img"}, reader.names
    assert "url(" not in text and "@import" not in text and "://" not in text, "the page fetches something"
    said = "".join(reader.text)
    assert "onerror='document.title=1'" in said and "&amp;" in said, "hostile names are shown as they are"
    assert text.count("class=chart") == 6 and text.count("class=tree") == 4, "curves, bandwidths, one roofline; a tree for each search"
    trials = [json.loads(line) for line in subprocess.run([sketchc, "db", "query", "trials", f"--store={store}", "--json"], text=True,
              check=True, capture_output=True).stdout.splitlines()]
    assert text.count("<tr class=won>") == 2 and text.count("<tr class=") == len(trials), "a row for each candidate"
    lost = sum(t["status"] != "ok" for t in trials)
    assert text.count("<tr class=lost>") == lost > 0
    first = [t for t in trials if t["run"] == 1 and t["status"] == "ok"]
    best, naive = min(t["seconds"] for t in first), first[0]["seconds"]
    assert f"speedup <b>{naive / best:.2f}&times;" in text and f"{1e3 * best:.4g} ms" in text
    assert "not known" in said and "6 calls" in said and "18 calls" in said and "cost" in said
    check_figures(sketchc, store, text, said)


def check_figures(sketchc: str, store: pathlib.Path, text: str, said: str) -> None:
    """pass@k, repairs, robustness, fast_p and the geometric mean, each worked out here from what the store says."""
    def rows(view: str) -> list[dict]:
        done = subprocess.run([sketchc, "db", "query", view, f"--store={store}", "--json"], text=True, check=True, capture_output=True)
        return [json.loads(line) for line in done.stdout.splitlines()]
    calls = rows("calls")
    assert len(calls) == 18 and {c["task"] for c in calls} == {"first", "repair"}
    first = [c for c in calls if c["task"] == "first" and c["status"] == "proposed" and c["operator"] == "product"]
    right, count = sum(c["verified"] for c in first), len(first)
    assert (right, count) == (1, 3)
    at_two = 1 - math.comb(count - right, 2) / math.comb(count, 2)
    for row in ("<td>product<td>openmp", "<td><b>mean</b><td><td><td>"):
        line = next(line for line in text.splitlines() if row in line)
        assert f"<td class=number>{right / count:.3f}<td class=number>{at_two:.3f}<td class=number>&ndash;" in line, line
    assert f"{right} of {count}<td class=number>{right + 1} of {count}" in text, "a chain that was mended twice counts once"
    # The pane of a search with a winner: half as fast at the small case, as fast as it was at the large one.
    shapes = [s for s in rows("shapes") if s["operator"] == "softmax_rows"]
    speedups = [s["naive_seconds"] / s["seconds"] for s in shapes]
    assert len(shapes) == 2 and min(speedups) == 0.5
    mean = math.prod(speedups) ** (1 / len(speedups))
    assert f"Robustness, over naive: {mean:.3g}× in the geometric mean, 0.5× at the worst size, which is {0.5 / max(speedups):.2g} of the best one;" \
        " 100 % of the cases ran." in said, said
    runs = [r for r in rows("runs") if r["verified"]]
    gains = [r["naive_seconds"] / r["best_seconds"] for r in runs]
    assert f"<b>{math.prod(gains) ** (1 / len(gains)):.2f}&times;" in text
    assert f"<b>{100 * sum(g >= 2 for g in gains) / 4:.0f} %</b><span>fast<sub>2</sub>" in text and "<b>4</b><span>operators" in text


def check_browser(page: pathlib.Path, folder: pathlib.Path) -> None:
    probed = folder / "probed.html"
    probed.write_text(page.read_text().replace("</body>", PROBE + "</body>"))
    for size in ("1400,1000", "480,900"):
        found = re.search(r'data-probe="([^"]*)"', chromium(["--dump-dom", f"--window-size={size}", f"file://{probed.resolve()}"]))
        assert found, "the probe did not run"
        print(size, found[1])
        assert found[1] == "wide=false;cut=0;img=0;b=0;charts=6;trees=4", found[1]
    for theme, size in (("light", "1400,2400"), ("dark", "1400,2400"), ("light", "480,1600")):
        picture = folder / f"report-{theme}-{size.split(',')[0]}.png"
        picture.unlink(missing_ok=True)
        chromium([f"--screenshot={picture.resolve()}", f"--window-size={size}", f"--blink-settings=preferredColorScheme={int(theme == 'light')}",
                  f"file://{page.resolve()}"])
        width, height, found = pixels(picture)
        middle = sorted(found)[len(found) // 2]
        assert f"{width},{height}" == size and len(set(found)) > 8, "an empty picture"
        assert middle > 200 if theme == "light" else middle < 60, f"{theme} is not {theme}"


def main() -> int:
    sketchc, tool = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else name)
        folder.mkdir(parents=True, exist_ok=True)
        store, page = make(sketchc, tool, folder)
        check_text(sketchc, store, page)
        if len(sys.argv) > 3:
            check_browser(page, folder)
    print("the page is whole")
    return 0


if __name__ == "__main__":
    sys.exit(main())
