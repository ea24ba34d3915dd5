#!/usr/bin/env python3
"""The problems of bench/kernelbench/level1: every file becomes CUDA C (and, by static_test.py, PTX; in the short run half of them each day), or
its case `small` is verified on the processor (a quarter of them each day), that of products also on data of other spreads (cases `wide`,
`wider`, `widest`).

    level1_test.py cuda|verify SKETCHC FOLDER"""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import daily

PROBLEMS = [*range(1, 101)]


def compile_all(target, sketchc, files):
    def one(file):
        done = subprocess.run([sketchc, "compile", file, "-t", target, "--arch=sm_90a", "-q", "-o", "/dev/null"],
                              capture_output=True, text=True)
        return f"{file.name}: status {done.returncode}\n{done.stderr[:800]}" if done.returncode else None

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return [problem for problem in pool.map(one, files) if problem]


def verify_case(sketchc, files, case, cache, weak):
    """weak: a case whose data tell too little to judge by (tf32's bounds at small sizes) is no fault."""
    done = subprocess.run([sketchc, "verify", *files, "-t", "openmp", f"--case={case}", "--no-ragged", "--json", "-q"],
                          capture_output=True, text=True, env=dict(os.environ, XDG_CACHE_HOME=cache))
    reports, decoder, text = [], json.JSONDecoder(), done.stdout.strip()
    while text:
        report, end = decoder.raw_decode(text)
        reports.append(report)
        text = text[end:].lstrip()
    bad = [f"{file.name}, {case}: {report['passed']} passed: {json.dumps(report['cases'])[:800]}"
           for file, report in zip(files, reports)
           if (report["passed"] != 1 or report["failed"]) and not (weak and {c["status"] for c in report["cases"]} == {"powerless"})]
    if len(reports) != len(files) or done.returncode not in ((0, 3) if weak else (0,)):
        bad.append(f"{case}: {len(reports)} reports, status {done.returncode}\n{done.stderr[-800:]}")
    return bad


def verify_all(sketchc, files, weak=False):
    products = [file for file in files if "case widest " in file.read_text()]
    with tempfile.TemporaryDirectory() as cache:
        bad = verify_case(sketchc, files, "small", cache, weak)
        for case in ("wide", "wider", "widest") if products else ():
            bad += verify_case(sketchc, products, case, cache, weak)
    return bad


def main():
    what, sketchc, folder = sys.argv[1:4]
    files = sorted(pathlib.Path(folder).glob("*.sketch"))
    if [int(file.name[:3]) for file in files] != PROBLEMS:
        print("not the problems that there should be")
        return 1
    if sum("case widest " in file.read_text() for file in files) != 15:
        print("15 products have data of other spreads")
        return 1
    problems = verify_all(sketchc, daily.drawn(files, 6)) if what == "verify" else compile_all(what, sketchc, daily.drawn(files, 2))
    print("\n".join(problems) or f"{len(files)} problems: {what}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
