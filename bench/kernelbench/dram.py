#!/usr/bin/env python3
"""What the kernels of level1.py move through device memory, by ncu, against what the cost model says of the plan.

    dram.py LIBSKETCHC ARTIFACTS PREDICTIONS.json OUT.json [--only ID,...] [--form ptx] [--seconds 100]
    dram.py --read RAW.csv                      prints what a page of ncu's raw values has

PREDICTIONS.json is report.py --predict's. One process runs each problem once at full size under ncu with two
counters, dram__bytes_read.sum and dram__bytes_write.sum: one pass, nothing replayed; what the L2 cache holds
of the launch before is dropped first, so that the inputs are read and the outputs of earlier launches are not
counted. What a kernel leaves in the L2 cache is not written yet when it ends: up to its 60 MB are missing."""
import argparse
import csv
import io
import json
import pathlib
import subprocess
import sys

READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
UNITS = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
LIMIT = 1.03


def parse(text):
    """[(kernel, bytes read, bytes written)] of ncu --csv --page raw: a line of names, one of units, then a line a launch."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    rows = list(csv.reader(io.StringIO("\n".join(lines[start:]))))
    at = {name: rows[0].index(name) for name in ("Kernel Name", READ, WRITTEN)}
    scale = {name: UNITS[rows[1][at[name]]] for name in (READ, WRITTEN)}
    return [(row[at["Kernel Name"]], *(float(row[at[name]].replace(",", "")) * scale[name] for name in (READ, WRITTEN))) for row in rows[2:] if len(row) == len(rows[0])]


def launch_all(options):
    """Under ncu: each problem once between the marks; a line of JSON each tells its launches."""
    import torch
    from run import Run, result_of, scalars_of, torch_of
    from kernel import Kernel

    options.drawn, options.variant, options.case = 0, "f32", "full"
    run = Run(options)
    cuda = torch.cuda.cudart()
    for number in numbers_of(options):
        p = run.problems[number]
        try:
            make, reference = torch_of(p)
            with torch.no_grad():
                small = make(p["cases"]["small"], torch.float32)
                like = reference(*small.values())
                inputs = make(p["cases"]["full"], torch.float32)
                with torch.device("meta"):
                    shape = reference(*[t.to("meta") for t in inputs.values()])
            output = torch.empty(shape.shape, dtype=like.dtype, device="cuda")
            kernel = Kernel(run.library, run.artifact(p, options.form), p["cases"]["full"], {**inputs, result_of(p): output}, scalars_of(p))
            torch.cuda.synchronize()
            cuda.cudaProfilerStart()
            kernel()
            torch.cuda.synchronize()
            cuda.cudaProfilerStop()
            print(json.dumps({"id": number, "launches": [l["entry"] for l in kernel.info["launches"]]}), flush=True)
            kernel.close()
        except Exception as error:
            print(json.dumps({"id": number, "error": repr(error)[:300]}), flush=True)
        inputs = output = kernel = None
        torch.cuda.empty_cache()


def numbers_of(options):
    from level1 import PROBLEMS
    return [int(n) for n in options.only.split(",")] if options.only else [n for n, p in PROBLEMS.items() if p["group"] not in ("matmul", "attention")]


def profile(options):
    """({id: launches}, the parsed page)."""
    report = options.out.with_suffix(".ncu-rep")
    report.unlink(missing_ok=True)
    command = ["ncu", "--metrics", f"{READ},{WRITTEN}", "--profile-from-start", "off", "--cache-control", "all", "--clock-control", "none",
               "--export", str(report), sys.executable, __file__, *sys.argv[1:], "--under-ncu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            text = child.communicate(timeout=options.seconds)[0]
        except subprocess.TimeoutExpired:
            child.terminate()
            text = child.communicate()[0]
    told = [json.loads(line) for line in text.splitlines() if line.startswith('{"id"')]
    page = subprocess.run(["ncu", "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"], capture_output=True, text=True)
    report.unlink(missing_ok=True)
    if not told or page.returncode:
        print(text[-2000:], page.stdout[-1000:], page.stderr[-1000:])
    return told, parse(page.stdout)


def compare(told, launches, predictions):
    """A row a problem: what was counted and what the plan has, in bytes."""
    rows = []
    for entry in told:
        if "error" in entry:
            rows.append(entry)
            continue
        mine = [l for l in launches if l[0] in entry["launches"]]  # no two problems' kernels have one name
        plan = predictions.get(str(entry["id"]), {}).get("launches", [])
        row = {"id": entry["id"], "read": sum(l[1] for l in mine), "written": sum(l[2] for l in mine), "launches": [list(l) for l in mine],
               "plan_read": sum(l["read"] for l in plan), "plan_written": sum(l["written"] for l in plan)}
        planned = row["plan_read"] + row["plan_written"]
        row["of_plan"] = (row["read"] + row["written"]) / planned if planned else None
        rows.append(row)
    return rows


def main():
    if sys.argv[1:2] == ["--read"]:
        for kernel, read, written in parse(pathlib.Path(sys.argv[2]).read_text()):
            print(f"{kernel:60} {read * 1e-6:10.1f} {written * 1e-6:10.1f} MB")
        return 0
    parser = argparse.ArgumentParser()
    for name in ("library", "artifacts", "predictions", "out"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--form", default="ptx")
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--under-ncu", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.under_ncu:
        launch_all(options)
        return 0
    rows = compare(*profile(options), json.loads(options.predictions.read_text()))
    options.out.write_text(json.dumps({"format": "sketchc.dram 1", "form": options.form, "limit": LIMIT, "problems": rows}, indent=1) + "\n")
    over = []
    for row in rows:
        if row.get("of_plan") is None:
            print(row["id"], row.get("error", "no plan"))
            continue
        print(f"{row['id']:3} read {row['read'] * 1e-6:9.1f} of {row['plan_read'] * 1e-6:9.1f} MB, written {row['written'] * 1e-6:9.1f} of {row['plan_written'] * 1e-6:9.1f}: {row['of_plan']:.3f}")
        if row["of_plan"] > LIMIT:
            over.append(row["id"])
    print(f"{len(rows)} problems, more than {LIMIT} of the plan's bytes: {over or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
