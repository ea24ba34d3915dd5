#!/usr/bin/env python3
"""KernelBench level 1 without sketches: what the compiler designs for each operator beside the sketches and PyTorch eager.

    operators_alone.py measure SKETCHC LIBSKETCHC OUT     on a machine with a GPU and PyTorch: OUT/design.json and OUT/sketch.json
    operators_alone.py table OUT TABLE.csv                medians and spreads of both, and the means by group on standard output

`measure` takes each operator without its sketch, compiles artifacts of both forms side by side and has kernelbench/run.py time and
compare them, eager in turn with each."""
import concurrent.futures
import csv
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FORMS = {"ptx": "nvptx", "cu": "cuda"}
NEAR = 0.9  # of the sketch's speed


def compile_one(job):
    sketchc, file, form, out = job
    done = subprocess.run([sketchc, file, "-t", FORMS[form], f"--arch={os.environ.get('ARCH', 'sm_90a')}", "--emit=artifact", "-q",
                           "-o", out], stderr=subprocess.DEVNULL, timeout=200, check=False)
    if done.returncode:
        print(f"{file}: not compiled")


def measure(sketchc, library, out):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        jobs = []
        for kind in ("operators", "design", "sketch"):
            pathlib.Path(folder, kind).mkdir()
        for file in sorted((HERE / "kernelbench/level1").glob("*.sketch")):
            alone = pathlib.Path(folder, "operators", file.name)
            alone.write_text(file.read_text().split("\nsketch ")[0] + "\n")
            jobs += [(sketchc, what, form, pathlib.Path(folder, kind, f"{file.stem}.{form}.ska"))
                     for kind, what in (("design", alone), ("sketch", file)) for form in FORMS]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_one, jobs))
        for kind in ("design", "sketch"):
            subprocess.run([sys.executable, HERE / "kernelbench/run.py", library, pathlib.Path(folder, kind), out / f"{kind}.json",
                            "--case", "full", "--samples", "5", "--seconds", "250"], check=True)


def problems(file):
    return {p["id"]: p for p in json.loads(file.read_text())["problems"]}


def best(problem, names):
    return min((problem["seconds"][n] for n in names if problem["seconds"].get(n)), default=None)


def spread(problem, form):
    samples = sorted(problem.get("samples", {}).get(form, []))
    return round((samples[-1] - samples[0]) / samples[len(samples) // 2], 4) if samples else None


def row(design, sketch):
    eager = best(design, [n for n in design["seconds"] if n.startswith("eager")])
    verified = all(k.get("verified") for k in design["kernels"].values()) and bool(design["kernels"])
    return {"id": sketch["id"], "name": sketch["name"], "group": sketch["group"], "verified": verified,
            **{f"{kind}_{form}_us": round(1e6 * p["seconds"][form], 2) if p["seconds"].get(form) else ""
               for kind, p in (("design", design), ("sketch", sketch)) for form in FORMS},
            "spread": spread(design, "ptx"), "eager_us": round(1e6 * eager, 2),
            "design_over_sketch": ratio(best(design, FORMS), best(sketch, FORMS)), "design_over_eager": ratio(best(design, FORMS), eager)}


def ratio(a, b):
    return round(a / b, 3) if a and b else ""


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def table(out, file):
    designs, sketches = (problems(pathlib.Path(out, f"{kind}.json")) for kind in ("design", "sketch"))
    rows = [row(designs[i], sketches[i]) for i in sorted(sketches) if i in designs]
    with open(file, "w", newline="") as f:
        writer = csv.DictWriter(f, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    timed = [r for r in rows if r["verified"] and r["design_over_sketch"]]
    for group in [*dict.fromkeys(r["group"] for r in timed), "all"]:
        some = [r for r in timed if group in (r["group"], "all")]
        print(f"| {group} | {len(some)} | {mean([r['design_over_sketch'] for r in some]):.2f} | "
              f"{sum(r['design_over_sketch'] <= 1 / NEAR for r in some)} | {mean([r['design_over_eager'] for r in some]):.2f} |")


if __name__ == "__main__":
    {"measure": measure, "table": table}[sys.argv[1]](*sys.argv[2:])
