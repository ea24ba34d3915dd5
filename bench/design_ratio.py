#!/usr/bin/env python3
"""How far operators without a sketch are from the sketches of KernelBench level 1, as the cost model says for sm_90a at the case `full`.

    design_ratio.py SKETCHC [NUMBER...]                 a table: the time of the sketch, of the design that is chosen and of the best style; means by group
    design_ratio.py SKETCHC --json FILE [--before FILE] the same, written to a file; the means beside those of an older one
    design_ratio.py SKETCHC --hold FILE [--update]      the ratchet: status 1 where a ratio that FILE has is larger now; --update writes smaller ones

A ratio is the design's time over the sketch's: 1 is as fast. What several operators make together (operators_fused/) has no sketch: it is held
against the time that its bytes take. A style that takes longer than CPU_SECONDS to compile counts as one that does not."""
import argparse
import concurrent.futures
import json
import math
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "kernelbench"), str(HERE.parent / "tests")]
import daily  # noqa: E402
from level1 import GROUPS, PROBLEMS  # noqa: E402

CPU_SECONDS = 10
NEAR = 0.9  # of the sketch's speed
SLACK = 1.01  # of a ratio, before it counts as larger
STYLES = re.compile(r'^STYLE\("(\w+)"', re.M)


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))


def predict(sketchc, file, *options):
    """The prediction of the case `full`; None where there is none."""
    done = subprocess.run([sketchc, file, "-t", "nvptx", "--arch=sm_90a", "--explain", "--json", "-q", *options],
                          capture_output=True, text=True, check=False, preexec_fn=limit)
    if done.returncode:
        return None
    report = json.loads(done.stdout)
    full = next(c for c in report["cases"] if c["name"] == "full")
    return {"seconds": full["seconds"], "floor": full["floor_s"], "style": report.get("design", {}).get("style")} if full["known"] else None


def operators(numbers):
    """Name, group, file with its sketch (None: there is none), its operator alone."""
    for number, p in PROBLEMS.items():
        if not numbers or number in numbers:
            file = HERE / "kernelbench/level1" / p["file"]
            yield p["file"].removesuffix(".sketch"), p["group"], file, file.read_text().split("\nsketch ")[0] + "\n"
    for file in sorted(HERE.glob("operators_fused/*.sketch")) if not numbers else []:
        yield file.stem, "fused", None, file.read_text()


def measure(sketchc, what, styles, folder):
    name, group, file, text = what
    alone = folder / f"{name}.sketch"
    alone.write_text(text)
    chosen = predict(sketchc, alone)
    by_style = {s: p["seconds"] for s in styles if (p := predict(sketchc, alone, f"--design={s}"))}
    against = predict(sketchc, file)["seconds"] if file else chosen["floor"] if chosen else None
    row = {"name": name, "group": group, "sketch": against, "design": chosen and chosen["seconds"], "style": chosen and chosen["style"],
           "ratio": chosen and chosen["seconds"] / against}
    if by_style:
        row["best"] = min(by_style, key=by_style.get)
        row["best_ratio"] = by_style[row["best"]] / against if against else None
    return row


def measure_all(sketchc, numbers, styles):
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda what: measure(sketchc, what, styles, pathlib.Path(folder)), operators(numbers)))


def rounded(row):
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}


def mean(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


def cell(value, form="{:.3g}"):
    return form.format(value) if value else "-"


def table(rows):
    print("| operator | sketch ms | design ms | ratio | style | best style | its ratio |\n| --- | --- | --- | --- | --- | --- | --- |")
    for r in rows:
        print(f"| {r['name']} | {cell(r['sketch'] and r['sketch'] * 1e3, '{:.4g}')} | {cell(r['design'] and r['design'] * 1e3, '{:.4g}')} | {cell(r['ratio'])} "
              f"| {r['style'] or '-'} | {r.get('best', '-')} | {cell(r.get('best_ratio'))} |")


def summary(rows):
    """By group: how many, how many designed, the geometric mean of their ratios, how many near the sketch."""
    for group in [*(g for g in GROUPS if any(r["group"] == g for r in rows)), "all", "fused"]:
        of = [r for r in rows if r["group"] == group or (group == "all" and r["group"] != "fused")]
        ratios = [r["ratio"] for r in of if r["ratio"]]
        if of:
            yield group, len(of), len(ratios), mean(ratios), sum(1 / q >= NEAR for q in ratios)


def means(rows, older):
    before = {group: rest for group, *rest in summary(older)}
    print("\n| group | operators | designed | geometric mean | within 0.9 |" + " before |" * 2 * bool(older) + "\n| --- | --- | --- | --- | --- |" + " --- |" * 2 * bool(older))
    for group, count, made, ratio, near in summary(rows):
        then = before.get(group)
        print(f"| {group} | {count} | {made} | {cell(ratio)} | {near} |" + (f" {cell(then[2])} of {then[1]} | {then[3]} |" if then else ""))


def hold(sketchc, path, update):
    """The file: a number of level 1 and its ratio a line. Half of them each day (tests/daily.py)."""
    lines = [line.split() for line in path.read_text().splitlines() if line and line[0] != "#"]
    held = {int(number): float(ratio) for number, ratio in lines}
    held = held if update else {n: held[n] for n in daily.drawn(list(held), 2)}
    with tempfile.TemporaryDirectory() as folder:
        now = {number: measure(sketchc, what, [], pathlib.Path(folder))["ratio"] or math.inf
               for number in held for what in operators([number])}
    worse = [n for n in held if now[n] > held[n] * SLACK]
    for n in held:
        print(f"{PROBLEMS[n]['name']} ({n}): {now[n]:.3f}, was {held[n]:.3f}{' LARGER' if n in worse else ''}")
    if update:
        head = "".join(line + "\n" for line in path.read_text().splitlines() if line.startswith("#"))
        path.write_text(head + "".join(f"{n} {math.ceil(1000 * min(now[n], held[n])) / 1000:.3f}\n" for n in held))
    return 1 if worse or not held else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sketchc")
    parser.add_argument("numbers", type=int, nargs="*")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--hold", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--chosen", action="store_true", help="not every style, only the one that is chosen")
    a = parser.parse_args()
    if a.hold:
        return hold(a.sketchc, a.hold, a.update)
    styles = [] if a.chosen else STYLES.findall((HERE.parent / "graph/design_styles.def").read_text())
    rows = [rounded(r) for r in measure_all(a.sketchc, a.numbers, styles)]
    table(rows)
    means(rows, json.loads(a.before.read_text()) if a.before else [])
    if a.json:
        a.json.write_text("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
