#!/usr/bin/env python3
"""Searches without a model for the operators of bench/operators_gpu on a GPU; then the start (what the compiler designs for an
operator by itself, without a search) and the winner are timed anew at the largest case, in turns.

    search_gpu.py SKETCHC OUT [--target=cuda] [--seconds=60] [--total=S] [--seed=1] [--candidates=48] [--workers=4] [--rounds=5]
                  [--options=WORDS] [--operators=FOLDER] [OPERATOR...]

CUDA C (the default) needs no LLVM: sketchc compiles it by nvcc or NVRTC. --seconds is the limit of one search; verifying the winner
in all cases and the turns come behind it (--rest seconds or so). --total: what is left of so many seconds is shared among the operators
that are left, and where nothing is left none begins. They are taken in the order given. OUT gets, anew after each operator,
search_gpu.json (times, texts of start and winner, the curve), report.html (sketchc report: curves, rooflines, lineage) and table.md;
search_gpu.db is the store, so that the command repeated goes on. All are small.

Met is what ends at least 5 % faster than the start in every turn, or at 97 % of the floor: of a copy of the same bytes timed in turn, or
of the calibrated rate of reading where less than a tenth of the bytes is written."""
import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from proposing import propose

OPERATORS = pathlib.Path(__file__).resolve().parent / "operators_gpu"
MARGIN, FLOOR = 0.05, 97  # faster than the start by so much, or at so many per cent of the floor
DTYPE_BYTES = {"64": 8, "32": 4, "16": 2, "8": 1, "l": 1}


def run(command: list, limit: float) -> subprocess.CompletedProcess:
    try:
        return subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace", timeout=limit, check=False)
    except subprocess.TimeoutExpired as late:
        return subprocess.CompletedProcess(command, 124, "", f"timed out after {late.timeout:.0f} s")


def rows(args, store: pathlib.Path, view: str) -> list[dict]:
    done = run([args.sketchc, "db", "query", view, f"--store={store}", "--json"], 60)
    return [json.loads(line) for line in done.stdout.splitlines()]


def written_share(definition: str, sizes: str) -> float:
    """The part of the tensors' bytes that the operator writes; 0.5 where that cannot be told."""
    values = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", sizes)}
    read = written = 0
    try:
        for name, shape, dtype in re.findall(r"(\w+)\[([^\]]*)\]: (\w+)", definition):
            bits = re.search(r"64|32|16|8|l", dtype)
            size = DTYPE_BYTES[bits.group()] * math.prod(int(eval(e, {"__builtins__": {}}, values)) for e in shape.split(","))
            is_output = re.search(rf"^ *{name}(\[[^\]]*\])? = ", definition, re.M)
            read, written = (read, written + size) if is_output else (read + size, written)
    except (AttributeError, NameError, SyntaxError, TypeError):
        return 0.5
    return written / (read + written) if read + written else 0.5


def limit_of(args, left: int) -> float:
    """Seconds for the next search; none or less: the time is up."""
    if not args.total:
        return args.seconds
    return min(args.seconds, (args.begin + args.total - time.monotonic()) / left - args.rest)


def search(args, file: pathlib.Path, store: pathlib.Path, best: pathlib.Path, seconds: float) -> tuple[dict, str]:
    options = ["-t", args.target, f"--search-time={seconds:.0f}", f"--seed={args.seed}", f"--candidates={args.candidates}",
               f"--workers={args.workers}", f"--store={store}", *args.options.split()]
    left = args.begin + args.total - time.monotonic() if args.total else math.inf
    status, _, result, said = propose(args.sketchc, file, options, best, min(6 * seconds + 300, left))
    return {} if status else result, said


def time_once(args, file: pathlib.Path, case: str) -> dict:
    done = run([args.sketchc, "bench", file, "-t", args.target, f"--case={case}", "--samples=15", "--time-limit=20", "--json", "-q"], 90)
    try:
        found = json.loads(done.stdout)["cases"][0]
    except (ValueError, KeyError, IndexError):
        return {"status": "bug", "text": done.stderr[-500:]}
    return found


def in_turns(args, files: dict[str, pathlib.Path], case: str) -> dict:
    """Medians over the rounds, the spread of the rounds, and what the whole launch reaches of the roof."""
    found: dict[str, list[dict]] = {name: [] for name in files}
    for turn in range(args.rounds):
        for name in list(files) if turn % 2 == 0 else list(files)[::-1]:
            if found[name] and found[name][0]["status"] != "ok":
                continue
            found[name].append(time_once(args, files[name], case))
    result = {}
    for name, taken in found.items():
        times = [t["median_s"] for t in taken if t["status"] == "ok"]
        if not times:
            result[name] = {"status": taken[0]["status"], "text": taken[0].get("text", "")}
            continue
        middle = statistics.median(times)
        result[name] = {"status": "ok", "seconds": middle, "rounds": times, "spread": (max(times) - min(times)) / middle,
                        "percent_of_copy": statistics.median(t.get("percent_of_copy", 0) for t in taken),
                        "percent_of_read": statistics.median(t.get("percent_of_read", 0) for t in taken),
                        "gb_per_s": statistics.median(t.get("gb_per_s", 0) for t in taken),
                        "tflop_per_s": statistics.median(t.get("tflop_per_s", 0) for t in taken)}
    return result


def curve(trials: list[dict]) -> list[list]:
    points, best = [], math.inf
    for t in sorted(trials, key=lambda t: t["at"]):
        if t["status"] == "ok" and 0 < t["seconds"] < best:
            best = t["seconds"]
            points.append([t["number"], round(t["at"], 2), best, t["source"]])
    return points


def one(args, file: pathlib.Path, store: pathlib.Path, folder: pathlib.Path, seconds: float) -> dict:
    begin, start, best = time.monotonic(), folder / f"{file.stem}.start.sketch", folder / f"{file.stem}.best.sketch"
    designed = run([args.sketchc, file, "-t", args.target, "--emit=sketch", "-q", "-o", start], 60)
    result, said = search(args, file, store, best, seconds)
    if not result or designed.returncode:
        return {"status": "no winner", "text": (designed.stderr + said)[-2000:]}
    searched = time.monotonic() - begin
    run_row = [r for r in rows(args, store, "runs") if r["operator"] == file.stem][-1]
    trials = [t for t in rows(args, store, "trials") if t["run"] == run_row["run"]]
    # Whatever has no parent is there before the first round: naive, then the designs.
    designs = [t for t in trials if t["status"] == "ok" and t["seconds"] > 0 and not t["parent"] and not t["source"].startswith("naive")]
    times = in_turns(args, {"start": start, "winner": best}, result["case"])
    text = start.read_text(encoding="utf-8")
    entry = {"status": "ok", "search": result, "limit_s": seconds, "searched_s": searched, "whole_s": time.monotonic() - begin,
             "device": run_row["device"], "case": result["case"], "sizes": run_row["sizes"], "times": times, "curve": curve(trials),
             "candidates": len(trials), "best_design": min(designs, key=lambda t: t["seconds"], default={}).get("source", ""),
             "best_design_s": min((t["seconds"] for t in designs), default=0), "start_text": text,
             "winner_text": best.read_text(encoding="utf-8"), "failures": sorted({t["status"] for t in trials} - {"ok"})}
    if times["winner"]["status"] == "ok":
        ok = times["start"]["status"] == "ok"
        entry["over_naive"] = result["naive_s"] / result["best_s"]
        entry["over_start"] = times["start"]["seconds"] / times["winner"]["seconds"] if ok else 0
        entry["beyond_noise"] = ok and all(w < s for s, w in zip(times["start"]["rounds"], times["winner"]["rounds"]))
        entry["written_share"] = written_share(text, run_row["sizes"])
        entry["floor"] = "percent_of_copy" if entry["written_share"] >= 0.1 else "percent_of_read"
        entry["met"] = (entry["over_start"] >= 1 / (1 - MARGIN) and entry["beyond_noise"]) or times["winner"][entry["floor"]] >= FLOOR
    return entry


def table(results: dict[str, dict]) -> str:
    lines = ["| operator | start us | winner us | winner over start | spread, start and winner | over naive | % of copy | % of read | TFLOP/s | winner | met |",
             "| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | --- | --- |"]
    for name, r in results.items():
        if "over_start" not in r:
            lines.append(f"| {name} | | | | | | | | | {r['status']} | no |")
            continue
        t, w = r["times"], r["times"]["winner"]
        us = [f"{1e6 * t[k]['seconds']:.1f}" if t[k]["status"] == "ok" else t[k]["status"] for k in ("start", "winner")]
        spread = ", ".join(f"{100 * t[k].get('spread', 0):.1f} %" for k in ("start", "winner"))
        lines.append(f"| {name} | {' | '.join(us)} | {r['over_start']:.2f} | {spread} | {r['over_naive']:.2f} | {w['percent_of_copy']:.0f} | "
                     f"{w['percent_of_read']:.0f} | {w['tflop_per_s']:.1f} | {r['search']['winner']} | {'yes' if r['met'] else 'no'} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sketchc")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--operators", dest="folder", type=pathlib.Path, default=OPERATORS)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--total", type=float, default=0)
    parser.add_argument("--rest", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--candidates", type=int, default=48)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--options", default="", help="more of sketchc's, in one word")
    args = parser.parse_intermixed_args()
    args.out.mkdir(parents=True, exist_ok=True)
    files = [args.folder / f"{name}.sketch" for name in args.operators] or sorted(args.folder.glob("*.sketch"))
    if not files or not all(f.is_file() for f in files):
        sys.exit("search_gpu.py: no such operator")
    args.begin, results, store = time.monotonic(), {}, args.out / "search_gpu.db"
    with tempfile.TemporaryDirectory() as folder:
        for i, file in enumerate(files):
            seconds = limit_of(args, len(files) - i)
            if seconds <= 0:
                results[file.stem] = {"status": "not begun: the time was up"}
                continue
            try:
                results[file.stem] = one(args, file, store, pathlib.Path(folder), seconds)
            except (OSError, LookupError, ValueError) as bad:  # the other operators' results are worth more than this place
                results[file.stem] = {"status": "no result", "text": repr(bad)}
            print(table({file.stem: results[file.stem]}).splitlines()[-1], flush=True)
            if results[file.stem]["status"] != "ok":
                print(results[file.stem].get("text", ""), file=sys.stderr, flush=True)
            (args.out / "search_gpu.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
            (args.out / "table.md").write_text(table(results), encoding="utf-8")
            run([args.sketchc, "report", store, "-o", args.out / "report.html"], 60)
    print(table(results))
    return 0 if all(r.get("met") for r in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
