#!/usr/bin/env python3
"""Everything that needs a GPU, from artifacts made elsewhere: verifies each through PTX and through
CUDA C, compares the two bit for bit, times them, and runs compute-sanitizer.

    gpu_check.py SKETCHC ARTIFACT_FOLDER OUT_FOLDER [--skip verify,bits,bench,sanitize] [--only NAME,...]

ARTIFACT_FOLDER holds NAME.ptx.ska and NAME.cu.ska. Writes gpu_check.json into OUT_FOLDER and prints a
table; the status is 1 when anything failed."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

# Sizes for the comparison bit for bit: tiles whole, ragged, one short, one over, empty.
SIZES = {
    "rmsnorm": [dict(B=2, F=7, D1=33, D2=5), dict(B=1, F=3, D1=8, D2=256), dict(B=3, F=64, D1=9, D2=516),
                dict(B=1, F=1, D1=1, D2=1), dict(B=2, F=5, D1=7, D2=1021)],
    "softmax": [dict(M=3, N=n) for n in (1, 31, 1000, 4096, 8191, 8193, 65537)] + [dict(M=2, N=393216)],
    "matmul": [dict(M=1, N=1, K=1), dict(M=128, N=128, K=32), dict(M=129, N=127, K=33), dict(M=64, N=256, K=8),
               dict(M=300, N=520, K=1000), dict(M=127, N=65, K=96), dict(M=5, N=7, K=0)],
}
SHAPES = {
    "rmsnorm": {"X": ("B", "F", "D1", "D2"), "Y": ("B", "F", "D1", "D2")},
    "softmax": {"X": ("M", "N"), "Y": ("M", "N")},
    "matmul": {"A": ("M", "K"), "B": ("K", "N"), "C": ("M", "N")},
}
SANITIZER_CASE = {"rmsnorm": ["small"], "softmax": ["short_rows", "rows_65537"], "matmul": ["ragged", "small"]}


def family(name):
    return name.split("_")[0]


def run(command, **options):
    start = time.time()
    try:
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    except subprocess.TimeoutExpired as late:
        done = subprocess.CompletedProcess(command, 124, str(late.stdout or ""), "timed out")
    return done, time.time() - start


def random_input(rng, shape, dtype):
    values = rng.standard_normal(shape).astype(np.float32)
    if dtype == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(np.float16 if dtype == "f16" else np.float32)


def same_bits(sketchc, folder, name, log):
    rng = np.random.default_rng(7)
    dtype = name.rsplit("_", 1)[-1] if family(name) == "matmul" else "f32"
    tensors = SHAPES[family(name)]
    output = list(tensors)[-1]
    bad = 0
    for sizes in SIZES[family(name)]:
        with tempfile.TemporaryDirectory() as tmp:
            tmp = pathlib.Path(tmp)
            inputs, results = [], {}
            for tensor, dims in tensors.items():
                if tensor == output:
                    continue
                np.save(tmp / f"{tensor}.npy", random_input(rng, [sizes[d] for d in dims], dtype))
                inputs += [f"--in={tensor}={tmp}/{tensor}.npy"]
            for form in ("ptx", "cu"):
                out = tmp / f"{form}.npy"
                done, _ = run([sketchc, "run", folder / f"{name}.{form}.ska", *inputs, f"--out={output}={out}"])
                if done.returncode:
                    log.append(f"{name}.{form} {sizes}: status {done.returncode}: {(done.stdout + done.stderr).strip()}")
                else:
                    results[form] = np.load(out)
            if len(results) < 2 or results["ptx"].tobytes() != results["cu"].tobytes():
                bad += 1
                log.append(f"{name} {sizes}: PTX and CUDA C differ")
    return {"sizes": len(SIZES[family(name)]), "different": bad}


def sanitize(sketchc, folder, name, form, tool, log):
    clean, seconds = True, 0.0
    for case in SANITIZER_CASE[family(name)]:
        done, took = run(["compute-sanitizer", "--tool", tool, "--target-processes", "all", "--error-exitcode", "99",
                          sketchc, "verify", folder / f"{name}.{form}.ska", f"--case={case}", "--no-ragged",
                          "--time-limit=300"], timeout=300)
        seconds += took
        text = done.stdout + done.stderr
        if done.returncode or not ("ERROR SUMMARY: 0 errors" in text or "0 hazards displayed" in text):
            clean = False
            log.append(f"{tool} {name}.{form} {case}: status {done.returncode}: {text[-1500:]}")
    return {"clean": clean, "cases": SANITIZER_CASE[family(name)], "seconds": round(seconds, 1)}


def json_of(done):
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"raw": (done.stdout + done.stderr)[-2000:]}


def check(options, name, entry, log):
    skip = options.skip.split(",")
    for form in ("ptx", "cu"):
        artifact = options.folder / f"{name}.{form}.ska"
        if "verify" not in skip:
            done, seconds = run([options.sketchc, "verify", artifact, "--json", "--time-limit=200"], timeout=500)
            entry[f"verify_{form}"] = {"status": done.returncode, "seconds": round(seconds, 1), "report": json_of(done)}
            print(f"{name:14} {form:3} verify status {done.returncode} in {seconds:.0f} s", flush=True)
            if done.returncode:
                text = [str(v) for v in json_of(done).get("verdicts", []) if v.get("status") not in ("ok", "skipped")]
                log.append(f"verify {name}.{form}: {len(text)} failed: {text[:4] or done.stdout[-600:]} {done.stderr[-500:]}")
        if "bench" not in skip:
            done, seconds = run([options.sketchc, "bench", artifact, "--json", "--time-limit=200", "--case=full"],
                                timeout=300)
            entry[f"bench_{form}"] = {"status": done.returncode, "report": json_of(done)}
            print(f"{name:14} {form:3} bench {json.dumps(json_of(done))[:900]}", flush=True)
            if done.returncode:
                log.append(f"bench {name}.{form}: status {done.returncode} {done.stderr[-500:]}")
        if "sanitize" not in skip:
            for tool in ("memcheck", "racecheck"):
                entry[f"{tool}_{form}"] = result = sanitize(options.sketchc, options.folder, name, form, tool, log)
                print(f"{name:14} {form:3} {tool} {'clean' if result['clean'] else 'NOT CLEAN'}", flush=True)
    if "bits" not in skip:
        entry["same_bits"] = same_bits(options.sketchc, options.folder, name, log)
        print(f"{name:14}     bits {entry['same_bits']}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sketchc")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--skip", default="")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    report, log = {"format": "sketchc.gpu_check 1"}, []
    smi, _ = run(["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.mem", "--format=csv,noheader"])
    report["device"] = smi.stdout.strip()
    names = sorted({p.name.split(".")[0] for p in options.folder.glob("*.ptx.ska")})
    for name in names:
        if options.only and name not in options.only.split(","):
            continue
        report[name] = {}
        check(options, name, report[name], log)
        (options.out / "gpu_check.json").write_text(json.dumps(report, indent=1))
    (options.out / "gpu_check.log").write_text("\n".join(log) + "\n")
    print("\n".join(line[:900] for line in log))
    print("failures:", len(log))
    return 1 if log else 0


if __name__ == "__main__":
    sys.exit(main())
