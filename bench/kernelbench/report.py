#!/usr/bin/env python3
"""Makes docs/performance.md from raw results of run.py.

    report.py FOLDER [--older FOLDER] [--later FOLDER] [--beside FOLDER] [--predict SKETCHC]     prints the page
    report.py FOLDER --predict SKETCHC --predict-only         writes predictions.json alone

FOLDER (under bench/results/) holds kernelbench.json, and when there are any convolutions.json (which counts as a part of it), compile.json (a run with
--compile, where kernelbench.json is of one without), part.json, ragged.json, drawn.json, drawn_matrix.json, precision.json, gemm.json, attention.json, f16.json,
bf16.json, dram.json,
before.json (an earlier state of the compiler) and
predictions.json, which --predict writes: what the cost model says of every problem. What is not there is taken
from the older folder; its kernelbench.json is `before`. Problems in NAME_again.json, of a state a little later, stand
in place of those in NAME.json where they were timed beside the same others. The later folder holds some of these files of a later state,
measured in part: a table of its own at the page's end. The one named by --beside holds spreads.json (bench/spreads.py) and rounded.json (convolutions by run.py
--compile, with what each side's factors were rounded to): tables of their own."""
import argparse
import concurrent.futures
import json
import math
import pathlib
import statistics
import subprocess
import sys

from level1 import GROUPS, PROBLEMS, UNBOUND

AIMS = {"elementwise": 1.02, "softmax and norms": 1.15, "reductions": 1.08, "losses": 1.08, "scans": 1.15, "pooling": 1.20, "products": 1.08, "matmul": 0.60, "convolution": 2.00, "attention": 0.59}
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
        also = path.parent / "convolutions.json"  # a run of their own
        if name == "kernelbench.json" and also.exists():
            self.raw["problems"] += json.loads(also.read_text())["problems"]
        self.by_id = {p["id"]: p for p in self.raw["problems"] if "seconds" in p}
        again = path.with_name(path.stem + "_again.json")
        self.again = []
        for p in json.loads(again.read_text())["problems"] if again.exists() else []:
            before = self.by_id.get(p["id"], {}).get("seconds", {})
            if "seconds" in p and set(before) - {"copy_as_many"} <= set(p["seconds"]):
                self.by_id[p["id"]] = p
                self.again.append(f"{p['name']} ({p['id']})")

    def ratio(self, number, form):
        p = self.by_id.get(number)
        verified = p and (form not in FORMS or p["kernels"].get(form, {}).get("verified"))
        return p["seconds"][form] / p["floor_s"] if verified and form in p["seconds"] else None


def predict(sketchc, folder):
    level1 = pathlib.Path(__file__).parent / "level1"

    def one(p):
        done = subprocess.run([sketchc, level1 / p["file"], "-t", "nvptx", "--arch=sm_90a", "--explain", "--json", "-q"], capture_output=True, text=True)
        return p["id"], next(c for c in json.loads(done.stdout)["cases"] if c["name"] == "full") if done.returncode == 0 else None

    with concurrent.futures.ThreadPoolExecutor() as pool:
        found = {number: case for number, case in pool.map(one, PROBLEMS.values()) if case}
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


def against(now, compiled, number, form):
    """How many times as fast as the better of eager and torch.compile; over the floor, each in its own run."""
    best = min((r for r in (now.ratio(number, "eager"), compiled.ratio(number, "compile")) if r), default=None)
    ours = now.ratio(number, form)
    return best / ours if best and ours else None


def slower(now, compiled):
    """A sentence for each path: which problems bound by memory are more than 2 % slower than the better."""
    numbers = [n for n, p in PROBLEMS.items() if p["group"] not in UNBOUND and n in now.by_id]
    for form, name in zip(FORMS, ("PTX", "CUDA C")):
        ratios = {n: against(now, compiled, n, form) for n in numbers}
        behind = sorted(((r, n) for n, r in ratios.items() if r and r < 1 / 1.02))
        print(f"{name}: {len(behind)} of {len(numbers)} problems bound by memory are more than 2 % slower than the better of eager and torch.compile"
              + (": " + ", ".join(f"{PROBLEMS[n]['name']} {r:.2f}" for r, n in behind) if behind else "") + ".\n")


def convolutions(now):
    """A sentence for each path: convolutions against eager, and against eager in cuDNN's benchmark mode."""
    for form, name in zip(FORMS, ("PTX", "CUDA C")):
        words = []
        for other, what in (("eager", "eager"), ("eager_benchmark", "eager in cuDNN's benchmark mode")):
            both = {n: (now.ratio(n, other), now.ratio(n, form)) for n, p in PROBLEMS.items() if p["group"] == "convolution"}
            ratios = {n: theirs / ours for n, (theirs, ours) in both.items() if theirs and ours}
            if ratios:
                behind = sorted((r, n) for n, r in ratios.items() if r < 0.8)
                words.append(f"{mean(ratios.values()):.2f} times as fast as {what} in the geometric mean of {len(ratios)}, {len(behind)} slower than 0.8 of it"
                             + (" (" + ", ".join(f"{PROBLEMS[n]['name']} {r:.2f}" for r, n in behind) + ")" if behind else ""))
        if words:
            print(f"{name}, convolutions: {'; '.join(words)}.\n")


BESIDE = (("eager", "eager"), ("eager_benchmark", "cuDNN's benchmark mode"), ("eager_channels_last", "eager, channels last"),
          ("benchmark_channels_last", "benchmark mode, channels last"), ("compile", "torch.compile"))
IN_F32 = 1e-5  # relative errors of sums of f32 factors lie below, of factors of 11 bits above


def bits(error):
    return "-" if error is None else "f32" if error < IN_F32 else "11 bits"


def rounded_convolutions(path):
    """Convolutions with the precision of both sides, like beside like."""
    if not path.exists():
        return
    raw = json.loads(path.read_text())
    rows = [p for p in raw["problems"] if "rounding" in p]
    print(f"\n## Convolutions, with the precision of both sides\n\nOn {raw.get('device', 'the same card')}; ms, and what the factors were rounded to, told by the error against float64 (`rounding` in "
          f"`{path.parent.name}/{path.name}`). The kernels round to 11 bits, as TF32 does; cuDNN chooses full f32 for some shapes of its own accord.\n")
    print("| id | problem | PTX | CUDA C | " + " | ".join(what for _, what in BESIDE) + " | over eager | over the fastest of 11 bits |\n|" + " --- |" * (6 + len(BESIDE)))
    over, fair, dense = [], [], []
    for p in rows:
        ours = max(p["seconds"][f] for f in FORMS if f in p["seconds"])
        there = {k: p["seconds"][k] for k, _ in BESIDE if k in p["seconds"]}
        alike = [v for k, v in there.items() if p["rounding"].get(k, 0) >= IN_F32]
        over.append(there["eager"] / ours)
        fair += [min(alike) / ours] if alike else []
        dense += [there["eager"] / ours] if p["rounding"].get("eager", 0) >= IN_F32 else []
        cells = [f"{p['seconds'][f] * 1e3:.3g} {bits(p['rounding'].get(f))}" if f in p["seconds"] else "-" for f in FORMS]
        cells += [f"{there[k] * 1e3:.3g} {bits(p['rounding'].get(k))}" if k in there else "-" for k, _ in BESIDE]
        print(f"| {p['id']} | {p['name']} | " + " | ".join(cells) + f" | {over[-1]:.2f} | {f'{fair[-1]:.2f}' if alike else '-'} |")
    print(f"\nGeometric means, the slower of PTX and CUDA C: {mean(over):.2f} times eager over {len(over)}; {mean(dense):.2f} over the {len(dense)} whose eager form rounds as the kernels do; "
          f"{mean(fair):.2f} of the fastest form of PyTorch that does, over {len(fair)}.")


def spreads(path):
    """f32 products on data of all spreads, bench/spreads.py."""
    if not path.exists():
        return
    raw = json.loads(path.read_text())
    kinds = list(dict.fromkeys(p["data"] for p in raw["problems"]))
    print(f"\n## f32 products on data of other spreads\n\nOn {raw['device']}, SGEMM's time over the slower of PTX and CUDA C, in brackets the kernel's ms and the larger error over SGEMM's (Frobenius norm, float64); "
          "what the data are stands in `bench/spreads.py`. Times of the other tables are of uniform data.\n")
    print("| id | problem | " + " | ".join(kinds) + " |\n|" + " --- |" * (2 + len(kinds)))
    by = {}
    for p in raw["problems"]:
        by.setdefault((p["id"], p["name"]), {})[p["data"]] = p
    means = {k: [] for k in kinds}
    for (number, name), row in sorted(by.items()):
        cells = []
        for kind in kinds:
            p = row.get(kind)
            if not p:
                cells.append("-")
                continue
            ours = max(p["seconds"][f] for f in FORMS)
            means[kind].append(p["seconds"]["sgemm"] / ours)
            error = max(p["error"][f] for f in FORMS) / p["error"]["sgemm"] if p["error"]["sgemm"] and p["error"]["sgemm"] == p["error"]["sgemm"] else None
            cells.append(f"{means[kind][-1]:.2f} ({ours * 1e3:.3g}, {text(error)})")
        print(f"| {number} | {name} | " + " | ".join(cells) + " |")
    print("\nGeometric means: " + ", ".join(f"{k} {mean(v):.2f}" for k, v in means.items()) + ".")


def ratio_of(p, form):
    return p["seconds"][form] / p["floor_s"] if p["kernels"].get(form, {}).get("verified") and "floor_s" in p else None


def reached(now, group, form):
    return mean(r for r in (now.ratio(n, form) for n, p in PROBLEMS.items() if p["group"] == group) if r) if any(
        now.ratio(n, form) for n, p in PROBLEMS.items() if p["group"] == group) else None


def other_table(title, words, results, now):
    """Problems of another run, each against its group's aim and what the group reached at full size in f32."""
    if not results.by_id:
        return
    print(f"\n## {title}\n\n{words}\n")
    print("| id | problem | group | sizes | GB | PTX ms | of the floor | CUDA C | eager | a copy of as many bytes | of what the group reached, PTX | CUDA C | of its aim |")
    print("| --- " * 13 + "|")
    near = {form: 0 for form in FORMS}
    aimed = 0
    by_group = {}
    for p in results.by_id.values():
        ratios = {form: ratio_of(p, form) for form in FORMS}
        base = {form: reached(now, p["group"], form) for form in FORMS}
        shares = {form: ratios[form] / base[form] if ratios[form] and base[form] else None for form in FORMS}
        for form in FORMS:
            near[form] += bool(shares[form] and shares[form] <= 1.1)
        best = min((r for r in ratios.values() if r), default=None)
        aimed += bool(best and best <= 1.1 * AIMS[p["group"]])
        by_group.setdefault(p["group"], []).append(ratios)
        wrong = "" if all(p["kernels"].get(f, {}).get("verified") for f in FORMS) else " **not verified**"
        print(f"| {p['id']} | {p['name']}{wrong} | {p['group']} | {', '.join(f'{k}={v}' for k, v in p['sizes'].items())} | {p['bytes'] * 1e-9:.2f} | {text(p['seconds'].get('ptx', 0) * 1e3, '{:.4g}')} "
              f"| {text(ratios['ptx'])} | {text(ratios['cu'])} | {text(p['seconds']['eager'] / p['floor_s'])} | {text(p['seconds'].get('copy_as_many', 0) / p['floor_s'] if p['bytes'] <= 2 << 30 else 0)} | {text(shares['ptx'])} | {text(shares['cu'])} | {text(best / AIMS[p['group']] if best else 0)} |")
    good = sum(all(p["kernels"].get(f, {}).get("verified") for f in FORMS) for p in results.by_id.values())
    print(f"\n{good} of {len(results.by_id)} verified on every element through PTX and CUDA C; within 10 % of what the group reached: {near['ptx']} through PTX, {near['cu']} through CUDA C; "
          f"within 10 % of the group's aim by the better path: {aimed}.")
    means = [(group, [mean(r[form] for r in rows) if all(r[form] for r in rows) else None for form in FORMS]) for group, rows in by_group.items()]
    print("\nIn the geometric mean, PTX / CUDA C (aim): " + ", ".join(f"{group} {text(a)} / {text(b)} ({AIMS[group]:.2f})" for group, (a, b) in means) + ".")


def matrix_table(results, now):
    """Drawn problems that memory does not bind: against PyTorch eager, and what their group is at full size."""
    if not results.by_id:
        return
    print(f"\n## Drawn products, convolutions and attention\n\nTwelve shapes and four operators that a seed ({results.raw.get('drawn')}) drew (`bench/kernelbench/drawn_matrix.py`); eager over the kernel's time, and over "
          "the same of its group at full size in the geometric mean. PyTorch multiplies f32 matrices in f32, convolutions in tf32; the four operators ask for tf32.\n")
    print("| id | problem | group | sizes | PTX ms | CUDA C ms | eager ms | eager / PTX | eager / CUDA C | of the group's, PTX | CUDA C | products |\n" + "| --- " * 12 + "|")

    def gain(p, form):
        return p["seconds"]["eager"] / p["seconds"][form] if p["kernels"].get(form, {}).get("verified") else None
    for p in results.by_id.values():
        gains = [gain(p, f) for f in FORMS]
        usual = [mean(g for q in now.by_id.values() if q["group"] == p["group"] and (g := gain(q, f))) for f in FORMS]
        shares = [g / u if g and u else None for g, u in zip(gains, usual)]
        wrong = "" if all(gains) else " **not verified**"
        times = [text(p["seconds"].get(f, 0) * 1e3, "{:.4g}") for f in (*FORMS, "eager")]
        print(f"| {p['id']} | {p['name']}{wrong} | {p['group']} | {', '.join(f'{k}={v}' for k, v in p['sizes'].items())} | " + " | ".join(times + [text(x) for x in gains + shares] + [p["kernels"].get("ptx", {}).get("products", "")]) + " |")


def precision_table(folder):
    path = folder / "precision.json"
    if not path.exists():
        return
    raw = json.loads(path.read_text())
    print("\n## Errors of f32 products\n\nThe Frobenius norm of the error over the result's, against products of the same numbers in float64, beside PyTorch in f32 (cuBLAS SGEMM, tf32 off); the largest error of an element over its "
          "bound 2 sqrt(K) 2^-24 |A||B| where it was taken. Numbers between 0 and 1, of variance 1, and of variance 1 times 2 to a power between -24 and 24 (`bench/precision.py`).\n")
    print("| id | problem | data | PTX | CUDA C | SGEMM | PTX over SGEMM | worst of the bound: PTX | SGEMM | products |\n" + "| --- " * 10 + "|")
    for p in raw["problems"]:
        e, w = p["error"], p["worst"]
        print(f"| {p['id']} | {p['name']} | {p['data']} | {e['ptx']:.2e} | {e['cu']:.2e} | {e['sgemm']:.2e} | {e['ptx'] / e['sgemm']:.2f} | {text(w['ptx'], '{:.3f}')} | {text(w['sgemm'], '{:.3f}')} | {p['products']['ptx']} |")


def dram_words(folder, older):
    path = folder / "dram.json"
    earlier = "" if path.exists() or not older else ", in the earlier state"
    path = older / "dram.json" if earlier else path
    if not path.exists():
        return
    raw = json.loads(path.read_text())
    rows = [r for r in raw["problems"] if r.get("of_plan")]
    if not rows:
        return
    over = [r for r in rows if r["of_plan"] > raw["limit"]]
    print(f"\nBytes of device memory that ncu counts (`bench/kernelbench/dram.py`, the kernels through {'PTX' if raw['form'] == 'ptx' else 'CUDA C'}) against the plan's{earlier}: {len(rows)} problems, "
          f"{mean(r['of_plan'] for r in rows):.3f} in the geometric mean, the most {max(r['of_plan'] for r in rows):.3f} ({PROBLEMS[max(rows, key=lambda r: r['of_plan'])['id']]['name']}); "
          f"above {raw['limit']}: " + (", ".join(f"{PROBLEMS[r['id']]['name']} {r['of_plan']:.3f}" for r in over) or "none") + ".")


def spill_words(now):
    for form, name in zip(FORMS, ("PTX", "CUDA C")):
        found = [(max(l.get("local_bytes", 0) for l in launches), p["name"]) for n, p in now.by_id.items()
                 if (launches := [l for l in p["kernels"].get(form, {}).get("launches", []) if l["grid"][0]])]
        some = sorted((f for f in found if f[0]), reverse=True)
        print(f"\nThrough {name} {len(found) - len(some)} of {len(found)} have kernels without local memory; bytes a thread of the others: "
              + (", ".join(f"{what} {count}" for count, what in some) or "none") + ".")


def problem_table(now, compiled, predicted):
    told = any("products" in p["kernels"].get("ptx", {}) for p in now.by_id.values())  # older results do not say what multiplied
    print("| id | problem | floor ms | PTX ms | of the floor | CUDA C | eager | cuDNN's benchmark mode | compile | better / PTX | better / CUDA C | worst | registers, spills | predicted, binds |" + " products |" * told)
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |" + " --- |" * told)
    for number, problem in PROBLEMS.items():
        p = now.by_id.get(number)
        if not p and not any(n in now.by_id for n, q in PROBLEMS.items() if q["group"] == problem["group"]):
            continue
        if not p:
            print(f"| {number} | {problem['name']} | not run |" + " |" * (11 + told))
            continue
        kernel = p["kernels"].get("ptx", {})
        launches = kernel.get("launches", [])
        better = [against(now, compiled, number, f) for f in FORMS]
        guess = predicted.get(str(number), {})
        why = max(guess["launches"], key=lambda l: l["seconds"])["roof"] if guess.get("known") else "not known"
        cost = f"{guess['seconds'] * 1e3:.3g} ms, {why}" if guess.get("known") else "not known"
        verified = all(p["kernels"].get(f, {}).get("verified") for f in FORMS)
        print(f"| {number} | {problem['name']} | {p['floor_s'] * 1e3:.4g} | {text(p['seconds'].get('ptx', 0) * 1e3, '{:.4g}')} | {text(now.ratio(number, 'ptx'))} "
              f"| {text(now.ratio(number, 'cu'))} | {text(now.ratio(number, 'eager'))} | {text(now.ratio(number, 'eager_benchmark'))} | {text(compiled.ratio(number, 'compile'))} "
              f"| {text(better[0])} | {text(better[1])} | {kernel.get('worst', 0):.1e}{'' if verified else ' **not verified**'} "
              f"| {', '.join(text(l.get('registers'), '{}') for l in launches)}; {max((l.get('local_bytes', 0) for l in launches), default=0)} | {cost} |" + f" {kernel.get('products', '')} |" * told)


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


def library_tables(folder):
    """What bench/gemm.py and bench/attention.py measured beside cuBLAS and scaled_dot_product_attention."""
    path = folder / "gemm.json"
    if path.exists():
        print("\n## Products beside cuBLAS\n\nSquare matrices, in turn with cuBLAS (f8: cuBLASLt with fast accumulation) in one process (`bench/gemm.py`); TFLOP/s and, in brackets, "
              "cuBLAS's time over the kernel's, medians. Every element of both results was compared.\n")
        print("| side | product | tile, stages | cuBLAS | PTX | CUDA C | error against float64: kernel, cuBLAS |\n| --- | --- | --- | --- | --- | --- | --- |")
        for p in json.loads(path.read_text())["products"]:
            rate, share, error = p["tflop_per_s"], p["share"], p["error"]
            wrong = "" if all(k["equal"] for k in p["kernels"].values()) else " **not verified**"
            print(f"| {p['side']} | {p['name']}{wrong} | {'x'.join(map(str, p['tile']))}, {p['stages']} | {rate['baseline']:.0f} | "
                  + " | ".join(f"{rate[f]:.0f} ({share[f]:.3f})" for f in FORMS) + f" | {error['ptx']:.1e}, {error['baseline']:.1e} |")
    path = folder / "attention.json"
    if path.exists():
        print("\n## Attention beside scaled_dot_product_attention\n\nBatch 4, 32 heads, 4,096 rows, in turn with its backends in one process (`bench/attention.py`); TFLOP/s and, in brackets, of the "
              "fastest's.\n")
        print("| type, head, rows | tile, stages | cuDNN | flash | efficient | PTX | CUDA C |\n| --- | --- | --- | --- | --- | --- | --- |")
        for p in json.loads(path.read_text())["problems"]:
            rate, share = p["tflop_per_s"], p["share"]
            wrong = "" if all(k["right"] for k in p["kernels"].values()) else " **not verified**"
            print(f"| {p['dtype']}, {p['head']}, {'causal' if p['causal'] else 'all'}{wrong} | {p['tile'][0]} x {p['tile'][1]}, {p['tile'][2]} | "
                  + " | ".join(text(rate.get(b), "{:.0f}") for b in ("cudnn", "flash", "efficient")) + " | " + " | ".join(f"{rate[f]:.0f} ({share[f]:.3f})" for f in FORMS) + " |")


def later_table(folder, later):
    """What a later run measured, each problem against this page's."""
    readme = later / "README.md"
    print(f"\n## Measured again since\n\nA later state of the compiler, measured in part (`{'/'.join(later.parts[-3:])}`"
          + (f": {readme.read_text().splitlines()[0].lstrip('# ')}" if readme.exists() else "") + "). The same machine's kind, the same way.\n")
    print("| case | id | problem | PTX ms, above | now | of the floor | CUDA C ms, above | now | of the floor | eager ms |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, case in (("kernelbench", "full"), ("drawn", "drawn"), ("f16", "f16"), ("bf16", "bf16"), ("part", "a 64th"), ("ragged", "odd extents")):
        before = Results(folder, f"{name}.json").by_id
        for number, p in Results(later, f"{name}.json").by_id.items():
            cells = []
            for form in FORMS:
                old = before[number]["seconds"].get(form) if number in before else None
                cells += [text(old and old * 1e3, "{:.4g}"), text(p["seconds"].get(form, 0) * 1e3, "{:.4g}"), text(ratio_of(p, form))]
            wrong = "" if all(p["kernels"].get(f, {}).get("verified") for f in FORMS) else " **not verified**"
            print(f"| {case} | {number} | {p['name']}{wrong} | {' | '.join(cells)} | {text(p['seconds'].get('eager', 0) * 1e3, '{:.4g}')} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--later", type=pathlib.Path)
    parser.add_argument("--older", type=pathlib.Path)
    parser.add_argument("--beside", type=pathlib.Path)
    parser.add_argument("--predict")
    parser.add_argument("--predict-only", action="store_true")
    options = parser.parse_args()
    if options.predict:
        predict(options.predict, options.folder)
    if options.predict_only:
        return 0
    now, compiled = (Results(options.folder, f"{n}.json", options.older) for n in ("kernelbench", "compile"))
    beside = any("compile" in p["seconds"] for p in now.by_id.values())
    if beside:
        compiled = now
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
    print("\n`before`: an earlier state of the compiler. " + ("torch.compile was timed in turn with the others. " if beside else
          "torch.compile is from a run of its own, whose kernels were that state's. ") + "`better / PTX`: how many times as fast as the better of eager and torch.compile.\n")
    if now.again:
        print(f"Measured again, beside the same others, in a state a little later (the folder's README): {', '.join(now.again)}.\n")
    slower(now, compiled)
    convolutions(now)
    problem_table(now, compiled, predicted)
    spill_words(now)
    model_error(now, predicted)
    dram_words(options.folder, options.older)
    for name, what in (("part", "a 64th of the size"), ("ragged", "odd extents")):
        other = Results(options.folder, f"{name}.json", options.older)
        if other.by_id:
            good = sum(all(k.get("verified") for k in p["kernels"].values()) and len(p["kernels"]) == 2 for p in other.by_id.values())
            when = "" if (options.folder / f"{name}.json").exists() else ", in the earlier state"
            line = f"\nAt {what}{when}: {good} of {len(other.by_id)} verified on every element through PTX and CUDA C"
            for form, path in zip(FORMS, ("PTX", "CUDA C")):
                times = [(p["seconds"].get(form, 9) / max(p["bytes"] / 4.279e12, p["seconds"]["null"]), p["name"]) for p in other.by_id.values()]
                beyond = sorted(((r, n) for r, n in times if r > 2), reverse=True)
                line += f"; {len(times) - len(beyond)} through {path} within twice the larger of their bytes at the rate of a copy and an empty launch"
                line += f" (beyond: {', '.join(f'{n} {r:.1f}' for r, n in beyond)})" if beyond else ""
            print(line + ".")
    drawn = Results(options.folder, "drawn.json")
    other_table("Drawn shapes and operators", f"Twelve shapes and four operators that a seed ({drawn.raw.get('drawn')}) drew after the passes froze (`bench/kernelbench/drawn.py`); floors from bytes.", drawn, now)
    matrix_table(Results(options.folder, "drawn_matrix.json"), now)
    precision_table(options.folder)
    library_tables(options.folder)
    for dtype in ("f16", "bf16"):
        other_table(f"Ten problems in {dtype}", "Tensors of that type, computed in f32, full sizes; results against PyTorch's in f32, rounded once.", Results(options.folder, f"{dtype}.json"), now)
    if options.beside:
        spreads(options.beside / "spreads.json")
        rounded_convolutions(options.beside / "rounded.json")
    if options.later:
        later_table(options.folder, options.later)
    return 0


if __name__ == "__main__":
    sys.exit(main())
