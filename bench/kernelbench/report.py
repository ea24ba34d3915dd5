#!/usr/bin/env python3
"""Makes docs/performance.md from raw results of run.py.

    report.py FOLDER [--older FOLDER] [--predict SKETCHC]     prints the page

FOLDER (under bench/results/) holds kernelbench.json, and when there are any compile.json (a run with
--compile), part.json, ragged.json, before.json (an earlier state of the compiler) and
predictions.json, which --predict writes: what the cost model says of every problem. What is not there is taken
from the older folder; its kernelbench.json is `before`."""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys

from level1 import GROUPS, PROBLEMS

AIMS = {"elementwise": 1.02, "softmax and norms": 1.15, "reductions": 1.08, "losses": 1.08, "scans": 1.15, "pooling": 1.20, "products": 1.08, "matmul": 0.60, "convolution": 2.00}
FORMS = ("ptx", "cu")


def mean(values):
    values = list(values)
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def text(value, form="{:.2f}"):
    return form.format(value) if value else "-"


class Results:
    def __init__(self, folder, name, older=None):
        path = folder / name
        if older and not path.exists():
            path = older / name
        self.raw = json.loads(path.read_text()) if path.exists() else {"problems": []}
        self.by_id = {p["id"]: p for p in self.raw["problems"] if "seconds" in p}

    def ratio(self, number, form):
        p = self.by_id.get(number)
        verified = p and (form not in FORMS or p["kernels"].get(form, {}).get("verified"))
        return p["seconds"][form] / p["floor_s"] if verified and form in p["seconds"] else None


def predict(sketchc, folder):
    level1 = pathlib.Path(__file__).parent / "level1"
    found = {}
    for p in PROBLEMS.values():
        done = subprocess.run([sketchc, level1 / p["file"], "-t", "nvptx", "--arch=sm_90a", "--explain", "--json", "-q"], capture_output=True, text=True)
        if done.returncode == 0:
            found[p["id"]] = next(c for c in json.loads(done.stdout)["cases"] if c["name"] == "full")
    (folder / "predictions.json").write_text(json.dumps(found, indent=1) + "\n")


def group_table(now, before, compiled):
    print("| group | aim | PTX | CUDA C | before | eager | torch.compile |\n| --- | --- | --- | --- | --- | --- | --- |")
    for group in GROUPS:
        numbers = [n for n, p in PROBLEMS.items() if p["group"] == group]
        if not any(n in now.by_id for n in numbers):
            continue

        def over(results, form):
            ratios = [r for r in (results.ratio(n, form) for n in numbers) if r]
            return (mean(ratios), len(ratios)) if ratios else (None, 0)

        cells = [over(now, "ptx"), over(now, "cu"), over(before, "ptx"), over(now, "eager"), over(compiled, "compile")]
        print(f"| {group} ({len(numbers)}) | {AIMS[group]:.2f} | " + " | ".join(
            text(value, "{:.3f}") + (f" (of {count})" if 0 < count < len(numbers) else "") for value, count in cells) + " |")


def problem_table(now, compiled, predicted):
    print("| id | problem | floor ms | PTX ms | of the floor | CUDA C | eager | compile | against the better | worst | registers, spills | predicted, binds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for number, problem in PROBLEMS.items():
        p = now.by_id.get(number)
        if not p and not any(n in now.by_id for n, q in PROBLEMS.items() if q["group"] == problem["group"]):
            continue
        if not p:
            print(f"| {number} | {problem['name']} | not run |" + " |" * 9)
            continue
        kernel = p["kernels"].get("ptx", {})
        launches = kernel.get("launches", [])
        # Over the floor, each in its own run.
        best = min(r for r in (now.ratio(number, "eager"), compiled.ratio(number, "compile")) if r)
        ours = min((r for r in (now.ratio(number, f) for f in FORMS) if r), default=None)
        guess = predicted.get(str(number), {})
        why = max(guess["launches"], key=lambda l: l["seconds"])["roof"] if guess.get("known") else "not known"
        cost = f"{guess['seconds'] * 1e3:.3g} ms, {why}" if guess.get("known") else "not known"
        verified = all(p["kernels"].get(f, {}).get("verified") for f in FORMS)
        print(f"| {number} | {problem['name']} | {p['floor_s'] * 1e3:.4g} | {text(p['seconds'].get('ptx', 0) * 1e3, '{:.4g}')} | {text(now.ratio(number, 'ptx'))} "
              f"| {text(now.ratio(number, 'cu'))} | {text(now.ratio(number, 'eager'))} | {text(compiled.ratio(number, 'compile'))} "
              f"| {text(best / ours if ours else 0)} | {kernel.get('worst', 0):.1e}{'' if verified else ' **not verified**'} "
              f"| {', '.join(str(l.get('registers')) for l in launches)}; {max((l.get('local_bytes', 0) for l in launches), default=0)} | {cost} |")


def model_error(now, predicted):
    ratios = []
    for number, p in now.by_id.items():
        guess = predicted.get(str(number), {})
        if guess.get("known") and "ptx" in p["seconds"]:
            ratios.append((guess["seconds"] / p["seconds"]["ptx"], number))
    if not ratios:
        return
    errors = sorted(abs(math.log(r)) for r, _ in ratios)
    worst = sorted(ratios, key=lambda r: -abs(math.log(r[0])))[:5]
    close = sum(e < math.log(1.15) for e in errors)
    print(f"\nThe cost model (`--explain`) against these times, {len(ratios)} problems: median error {100 * (math.exp(statistics.median(errors)) - 1):.0f} %, "
          f"{close} within 15 %; predicted over measured is {mean(r for r, _ in ratios):.2f} in the geometric mean. Furthest off: "
          + ", ".join(f"{PROBLEMS[n]['name']} {r:.2f}" for r, n in worst) + ".")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--older", type=pathlib.Path)
    parser.add_argument("--predict")
    options = parser.parse_args()
    if options.predict:
        predict(options.predict, options.folder)
    now, compiled = (Results(options.folder, f"{n}.json", options.older) for n in ("kernelbench", "compile"))
    before = Results(options.older, "kernelbench.json") if options.older else Results(options.folder, "before.json")
    path = options.folder / "predictions.json"
    predicted = json.loads(path.read_text()) if path.exists() else {}
    calibration = json.loads((options.folder / "calibration.json").read_text()) if (options.folder / "calibration.json").exists() else {}
    print("# Performance\n\nMade by `bench/kernelbench/report.py` from the raw results in "
          f"`{'/'.join(options.folder.parts[-3:])}`; do not edit.\n\n## Problems of KernelBench level 1\n")
    print(f"{now.raw.get('device', '')}, PyTorch {now.raw.get('torch', '')}, f32, full sizes. Of each problem the kernel through PTX, the kernel through CUDA C, PyTorch and the "
          "ceilings were timed in turn in one process (`bench/kernelbench/run.py`), the L2 cache flushed before each sample; medians. Numbers are time over the floor: the bytes at "
          "the rate of a copy (4279 GB/s) or of reading (4576 GB/s), or one empty launch. Every element of both results was compared with PyTorch's (column `worst`: the largest difference "
          "over the magnitude). BatchNorm leaves the running statistics out, in both.\n")
    if calibration:
        print("`sketchc calibrate` there: copy {copy_gb_per_s:.0f}, read {read_gb_per_s:.0f}, fill {fill_gb_per_s:.0f} GB/s, empty launch {0:.2f} us.\n".format(calibration["null_s"] * 1e6, **calibration))
    group_table(now, before, compiled)
    print("\n`before`: an earlier state of the compiler. torch.compile is from a run of its own, whose kernels were that state's; `against the better` compares the better path's time over the floor with the better of eager's and torch.compile's.\n")
    problem_table(now, compiled, predicted)
    model_error(now, predicted)
    for name, what in (("part", "a 64th of the size"), ("ragged", "odd extents")):
        other = Results(options.folder, f"{name}.json", options.older)
        if other.by_id:
            good = sum(all(k.get("verified") for k in p["kernels"].values()) and len(p["kernels"]) == 2 for p in other.by_id.values())
            when = "" if (options.folder / f"{name}.json").exists() else ", in the earlier state"
            print(f"\nAt {what}{when}: {good} of {len(other.by_id)} verified on every element through PTX and CUDA C" + (
                f"; {sum(p['seconds'].get('ptx', 9) <= 2 * max(p['bytes'] / 4.279e12, p['seconds']['null']) for p in other.by_id.values())} within twice the larger of their bytes at the rate of a copy and an empty launch." if name == "part" else "."))
    return 0


if __name__ == "__main__":
    sys.exit(main())
