#!/usr/bin/env python3
"""The page in headless Chromium: browser.py SKETCHC FOLDER. Status 77: there is no Chromium.

A click holds a line and its counterparts, pointing marks them, nothing is wider than a narrow window; and pictures of the page,
light and dark, wide and narrow, which stay in FOLDER to be looked at."""
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Run behind the page's own script; what it finds stands in an attribute of the document.
PROBE = """<script>
(() => {
    const of = (pane, l) => document.querySelector(`#${pane} li[data-l="${l}"]`);
    const has = (name, l) => ["source", "tile", "kernel"].filter((p) => of(p, l) && of(p, l).classList.contains(name)).join(" ");
    const say = {};
    say.start = has("held", LINE);
    of("tile", LINE).dispatchEvent(new MouseEvent("click", {bubbles: true}));
    say.again = has("held", LINE);
    of("kernel", LINE).dispatchEvent(new MouseEvent("click", {bubbles: true}));
    say.held = has("held", LINE);
    of("source", LINE).dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
    say.over = has("on", LINE);
    document.querySelector("h1").dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
    say.away = has("on", LINE);
    const pane = of("kernel", LINE).parentNode, at = of("tile", LINE).getBoundingClientRect(), box = of("tile", LINE).parentNode.getBoundingClientRect();
    say.seen = at.top >= box.top && at.bottom <= box.bottom;
    const width = () => document.querySelector("#kernel").getBoundingClientRect().width, before = width();
    document.querySelector("#kernel button").click();
    say.widened = width() > before || before > innerWidth - 100;
    document.querySelector("#kernel button").click();
    say.narrowed = width() === before;
    say.cut = [...document.querySelectorAll(".facts:not(:has(svg)) .scroll")].filter((e) => e.scrollWidth > e.clientWidth).length;
    say.wide = document.documentElement.scrollWidth > innerWidth;
    say.cells = document.querySelectorAll("svg rect").length;
    document.documentElement.setAttribute("data-probe", Object.entries(say).map(([k, v]) => `${k}=${v}`).join(";"));
})();
</script>"""


def chromium(arguments, limit=120):
    program = next((p for p in ("chromium", "chromium-browser", "google-chrome") if shutil.which(p)), None)
    if not program:
        print("chromium is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home}
        return subprocess.run([program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={home}/u", *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env, timeout=limit).stdout


def pixels(path):
    """(width, height, brightness of every 16th pixel of every 16th row) of a PNG as Chromium writes it."""
    data = path.read_bytes()
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert data[:4] == b"\x89PNG" and depth == 8 and kind in (2, 6)
    at, body, step = 8, b"", 3 if kind == 2 else 4
    while at < len(data):
        size = struct.unpack(">I", data[at:at + 4])[0]
        if data[at + 4:at + 8] == b"IDAT":
            body += data[at + 8:at + 8 + size]
        at += 12 + size
    raw, stride, last, found = zlib.decompress(body), width * step, bytearray(width * step), []
    for y in range(height):
        sort, row = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride if sort else 0):
            a, b, c = row[i - step] if i >= step else 0, last[i], last[i - step] if i >= step else 0
            p = abs(b - c), abs(a - c), abs(a + b - 2 * c)
            row[i] = (row[i] + (a, b, (a + b) // 2, a if p[0] <= p[1] and p[0] <= p[2] else b if p[1] <= p[2] else c)[sort - 1]) & 255
        last = row
        if y % 16 == 0:
            found += [sum(row[x:x + 3]) // 3 for x in range(0, stride, 16 * step)]
    return width, height, found


def main():
    sketchc, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    example = ROOT / "examples/softmax.sketch"
    line = next(i for i, t in enumerate(example.read_text().splitlines(), 1) if "reduce_max" in t)
    text = subprocess.run([str(sketchc), "explain", str(example), "--html", "-q"], capture_output=True, text=True, check=True).stdout
    page = (folder / "page.html").resolve()
    page.write_text(text)
    probed = (folder / "probed.html").resolve()
    probe = PROBE.replace("LINE", str(line)) + "</body>"
    probed.write_text(text.replace("</body>", probe))
    # The longest tables: versions with conditions, buffers with stages.
    staged = (folder / "staged.html").resolve()
    matmul = ROOT / "examples/matmul_f16.sketch"
    text = subprocess.run([str(sketchc), "explain", str(matmul), "--html", "-q", "--arch=sm_90a"], capture_output=True, text=True, check=True).stdout
    load = next(i for i, t in enumerate(matmul.read_text().splitlines(), 1) if "load(A" in t)
    staged.write_text(text.replace("</body>", PROBE.replace("LINE", str(load)) + "</body>"))
    dom = chromium(["--dump-dom", "--window-size=1600,1000", f"file://{staged}"])
    assert "cut=0;" in dom, "a table is cut off in a wide window"
    all_panes = "source tile kernel"
    for size in ("1600,1000", "520,900"):
        dom = chromium(["--dump-dom", f"--window-size={size}", f"file://{probed}#L{line}"])
        found = re.search(r'data-probe="([^"]*)"', dom)
        assert found, "the probe did not run"
        say = dict(part.split("=") for part in found[1].split(";"))
        print(size, say)
        assert say["start"] == all_panes, "#L of the address holds the line"
        assert say["again"] == "" and say["held"] == all_panes, "a click lets go, another holds"
        assert say["over"] == all_panes and say["away"] == "", "pointing marks the counterparts"
        assert say["widened"] == "true" and say["narrowed"] == "true", "a heading widens its pane, and back"
        assert say["seen"] == "true", "the counterpart came into sight"
        assert say["wide"] == "false", "the page is wider than its window"
        assert int(say["cells"]) >= 256, "layouts are drawn"
    brightness = {}
    for theme, size in (("light", "1200,800"), ("dark", "1200,800"), ("light", "520,800"), ("dark", "520,800")):
        picture = folder / f"{theme}-{size.split(',')[0]}.png"
        picture.unlink(missing_ok=True)
        chromium([f"--screenshot={picture.resolve()}", f"--window-size={size}", f"--blink-settings=preferredColorScheme={int(theme == 'light')}",
                  f"file://{page}#L{line}"])
        width, height, found = pixels(picture)
        assert f"{width},{height}" == size and len(set(found)) > 8, "an empty picture"
        brightness[theme, size] = sorted(found)[len(found) // 2]
    print(brightness)
    assert all(v > 200 if theme == "light" else v < 60 for (theme, _), v in brightness.items()), "light is not light or dark not dark"
    return 0


if __name__ == "__main__":
    sys.exit(main())
