#!/usr/bin/env python3
"""Searches without a model for the operators of bench/operators_gpu on a GPU; then naive sketch, start (the fastest of the
compiler's own designs, with which a search begins) and winner are timed anew at the largest case, in turns.

    search_gpu.py SKETCHC OUT [--target=cuda] [--seconds=60] [--total=S] [--seed=1] [--candidates=48] [--workers=4] [--rounds=5]
                  [--options=WORDS] [--operators=FOLDER] [OPERATOR...]

CUDA C (the default) needs no LLVM: sketchc compiles it by nvcc or NVRTC. --seconds is the limit of one search; verifying the winner
in all cases and the turns come behind it (about as long again). --total: no search begins after so many seconds in all.
OUT gets, anew after each operator, search_gpu.json (times, texts of start and winner, the curve), report.html (sketchc report: curves,
rooflines, lineage) and table.md; search_gpu.db is the store, so that the command repeated goes on. All are small."""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

OPERATORS = pathlib.Path(__file__).resolve().parent / "operators_gpu"
MARGIN, FLOOR = 0.05, 97  # faster than the start by so much, or at so many per cent of the roof


def run(command: list, limit: float) -> subprocess.CompletedProcess:
    try:
        return subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace", timeout=limit, check=False)
    except subprocess.TimeoutExpired as late:
        return subprocess.CompletedProcess(command, 124, "", f"timed out after {late.timeout:.0f} s")


def rows(args, store: pathlib.Path, view: str) -> list[dict]:
    done = run([args.sketchc, "db", "query", view, f"--store={store}", "--json"], 60)
    return [json.loads(line) for line in done.stdout.splitlines()]


def search(args, file: pathlib.Path, store: pathlib.Path, best: pathlib.Path) -> tuple[dict, str]:
    command = [args.sketchc, "-q", "--propose", file, "-t", args.target, "--json", f"--search-time={args.seconds}",
               f"--seed={args.seed}", f"--candidates={args.candidates}", f"--workers={args.workers}", f"--store={store}", "-o", best]
    done = run(command + args.options.split(), 6 * args.seconds + 300)
    return json.loads(done.stdout) if not done.returncode and done.stdout else {}, done.stderr


def time_once(args, file: pathlib.Path, case: str) -> dict:
    done = run([args.sketchc, "bench", file, "-t", args.target, f"--case={case}", "--samples=15", "--json", "-q"], 120)
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


def one(args, file: pathlib.Path, store: pathlib.Path, folder: pathlib.Path) -> dict:
    begin, best = time.monotonic(), folder / f"{file.stem}.best.sketch"
    result, said = search(args, file, store, best)
    if not result:
        return {"status": "no winner", "text": said[-2000:]}
    run_row = [r for r in rows(args, store, "runs") if r["operator"] == file.stem][-1]
    trials = [t for t in rows(args, store, "trials") if t["run"] == run_row["run"]]
    definition = [d for d in rows(args, store, "definitions") if d["operator"] == file.stem][-1]["definition"]
    right = [t for t in trials if t["status"] == "ok" and t["seconds"] > 0]
    # Whatever has no parent is there before the first round: naive, then the designs.
    designs = [t for t in right if not t["parent"] and not t["source"].startswith("naive")]
    chosen = {"naive": next((t for t in right if t["source"].startswith("naive")), None),
              "start": min(designs, key=lambda t: t["seconds"], default=None)}
    files = {}
    for name, trial in chosen.items():
        if trial:
            files[name] = folder / f"{file.stem}.{name}.sketch"
            files[name].write_text(definition + "\n" + trial["sketch"], encoding="utf-8")
    files["winner"] = best
    searched = time.monotonic() - begin
    times = in_turns(args, files, result["case"])
    entry = {"status": "ok", "search": result, "searched_s": searched, "whole_s": time.monotonic() - begin, "device": run_row["device"],
             "case": result["case"], "sizes": run_row["sizes"], "times": times, "curve": curve(trials), "candidates": len(trials),
             "start_style": chosen["start"]["source"] if chosen["start"] else "",
             "winner_text": best.read_text(encoding="utf-8"), "start_text": chosen["start"]["sketch"] if chosen["start"] else "",
             "failures": sorted({t["status"] for t in trials} - {"ok"})}
    seconds = {name: t["seconds"] for name, t in times.items() if t["status"] == "ok"}
    if "winner" in seconds:
        entry["over_start"] = seconds["start"] / seconds["winner"] if "start" in seconds else 0
        entry["over_naive"] = seconds["naive"] / seconds["winner"] if "naive" in seconds else 0
        pairs = zip(times["start"]["rounds"], times["winner"]["rounds"]) if "start" in seconds else []
        entry["beyond_noise"] = all(winner < start for start, winner in pairs)
        entry["met"] = (entry["over_start"] >= 1 / (1 - MARGIN) and entry["beyond_noise"]) or times["winner"]["percent_of_copy"] >= FLOOR
    return entry


def table(results: dict[str, dict]) -> str:
    lines = ["| operator | naive us | start us | winner us | winner over start | spread | % of copy | TFLOP/s | winner | met |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |"]
    for name, r in results.items():
        if "over_start" not in r:
            lines.append(f"| {name} | | | | | | | | {r['status']} | no |")
            continue
        t = r["times"]
        us = [f"{1e6 * t[k]['seconds']:.1f}" if t.get(k, {}).get("status") == "ok" else "" for k in ("naive", "start", "winner")]
        lines.append(f"| {name} | {' | '.join(us)} | {r['over_start']:.2f} | {100 * t['winner']['spread']:.1f} % | "
                     f"{t['winner']['percent_of_copy']:.0f} | {t['winner']['tflop_per_s']:.1f} | {r['search']['winner']} | "
                     f"{'yes' if r['met'] else 'no'} |")
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
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--candidates", type=int, default=48)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--options", default="", help="more of sketchc's, in one word")
    args = parser.parse_intermixed_args()
    args.out.mkdir(parents=True, exist_ok=True)
    files = [f for f in sorted(args.folder.glob("*.sketch")) if not args.operators or f.stem in args.operators]
    if not files:
        sys.exit("search_gpu.py: no such operator")
    begin, results, store = time.monotonic(), {}, args.out / "search_gpu.db"
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            if args.total and time.monotonic() - begin > args.total:
                results[file.stem] = {"status": "not begun: the time was up"}
                continue
            results[file.stem] = one(args, file, store, pathlib.Path(folder))
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
