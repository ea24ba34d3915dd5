#!/usr/bin/env python3
"""Builds nothing, runs `meson test` and closes with `N passed, N failed[, N skipped]`.

A meson test is one program or script, or many when it speaks TAP (tests/filecheck.py); those are
counted one by one. A skip (exit status 77, or SKIP in TAP) is printed with its reason: the last
line of its output. Where CI is set, a skip of a test in must-not-skip.txt is a failure.

A failed run says first what failed and the command that repeats it, then what the tests wrote. Every run closes
with the processor seconds of its slowest tests and of its suites (costs.py): they are the same on a machine that
does other things, too.

A line `figure: NAME VALUE [UNIT]` in a test's output backs a promise: it is printed at the end and,
by --long, written to bench/results/long/ with seed, time and commit."""
import argparse
import datetime
import fnmatch
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import costs
import daily

ROOT = pathlib.Path(__file__).resolve().parent.parent
TAP = re.compile(r"^(ok|not ok) \d+ - (.*?)(?:\s+# SKIP\s*(.*))?$")
# What CI's machines may lack, and a build without sanitizers (signals, which those take; plain): `needs a, b` of these only is a skip anywhere.
CUDA = {"nvcc", "ptxas", "gpu", "compute-sanitizer", "signals", "plain"}
FIGURE = re.compile(r"^figure: (\S+) (.+)$", re.M)
SHOWN = 60  # lines of a failed test's output
# scripts/test makes the build folders by these.
OPTIONS = {"build": "", "build-asan": "--asan", "build-tsan": "--tsan", "build-nollvm": "--no-llvm"}


def day_of_commit(now: datetime.datetime) -> int:
    """One commit draws the same wherever and whenever it is tested; without git the day of today."""
    told = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(told.stdout or now.timestamp()) // 86400


def commit() -> str:
    run = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True,
                         text=True)
    return run.stdout.strip() or "unknown"


def results_of(entry: dict) -> list[tuple[str, str, str]]:
    """(name, ok|skip|fail, reason) of one meson test."""
    out = entry.get("stdout") or ""
    name = entry["name"].split(" / ")[-1]
    full = f"{costs.suite_of(entry['name'])}/{name}" if " / " in entry["name"] else name
    cases = [TAP.match(line) for line in out.splitlines()] if re.search(r"^1\.\.\d+", out, re.M) else []
    cases = [c for c in cases if c]
    if cases and (entry["result"] in ("OK", "SKIP") or any(c[1] == "not ok" for c in cases)):
        return [(f"{full}/{c[2]}", "fail" if c[1] == "not ok" else "ok" if c[3] is None else "skip",
                 c[3] or "") for c in cases]
    if entry["result"] == "SKIP" and out.startswith("1..0"):
        return []  # a folder without test files is no test
    if entry["result"] == "SKIP":
        lines = out.strip().splitlines()
        return [(full, "skip", lines[-1] if lines else "no reason given")]
    return [(full, "ok" if entry["result"] in ("OK", "EXPECTEDFAIL") else "fail", entry["result"])]


def lacks_cuda_only(reason: str) -> bool:
    return reason.startswith("needs ") and set(reason[6:].split(", ")) <= CUDA


def forbid_skips(results: list[tuple[str, str, str]], patterns: list[str]) -> list[tuple[str, str, str]]:
    return [(name, "fail", f"must not be skipped in CI: {reason}")
            if kind == "skip" and not lacks_cuda_only(reason)
            and any(fnmatch.fnmatch(name, p) for p in patterns)
            else (name, kind, reason) for name, kind, reason in results]


def read_patterns() -> list[str]:
    lines = (ROOT / "tests/must-not-skip.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def write_long(seed: str, seconds: float, results: list, figures: list) -> None:
    now = datetime.datetime.now(datetime.UTC)
    folder = ROOT / "bench/results/long"
    folder.mkdir(parents=True, exist_ok=True)
    record = {"version": 1, "time": now.isoformat(timespec="seconds"), "commit": commit(), "seed": seed,
              "seconds": round(seconds), "passed": sum(k == "ok" for _, k, _ in results),
              "failed": [n for n, k, _ in results if k == "fail"],
              "skipped": {n: r for n, k, r in results if k == "skip"}, "figures": dict(figures)}
    path = folder / f"{now:%Y%m%d-%H%M%S}.json"
    path.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written: {path.relative_to(ROOT)}")


def self_check() -> None:
    """The counting itself: wrong counts would hide failures."""
    tap = {"name": "sketchc:pass / files", "result": "FAIL", "stdout":
           "1..3\nok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP needs gpu\n"}
    assert results_of(tap) == [("pass/files/a", "ok", ""), ("pass/files/b", "fail", ""),
                               ("pass/files/c", "skip", "needs gpu")]
    none = {"name": "x:pass / files", "result": "SKIP", "stdout": "1..0 # SKIP no test files\n"}
    assert results_of(none) == []
    cut = {"name": "x:pass / files", "result": "ERROR", "stdout": "1..3\nok 1 - a\n"}
    assert results_of(cut) == [("pass/files", "fail", "ERROR")]
    assert results_of({"name": "t", "result": "TIMEOUT"}) == [("t", "fail", "TIMEOUT")]
    assert forbid_skips([("unit/a", "skip", "r")], ["unit/*"])[0][1] == "fail"
    assert forbid_skips([("unit/a", "skip", "needs gpu, nvcc")], ["unit/*"])[0][1] == "skip"
    assert forbid_skips([("unit/a", "skip", "needs gpu, llvm")], ["unit/*"])[0][1] == "fail"
    assert forbid_skips([("gpu/a", "skip", "r")], ["unit/*"])[0][1] == "skip"
    assert by_name(["--suite", "pass", "files"]) and not by_name(["--suite", "pass", "--no-suite", "heavy"])


def by_name(words: list[str]) -> bool:
    """Do words for meson name tests? Else they choose suites."""
    values = {"--suite", "--no-suite", "--num-processes", "-j", "--test-args", "--timeout-multiplier", "-t"}
    return any(not word.startswith("-") and before not in values for before, word in zip([""] + words, words))


def chosen(args: argparse.Namespace, seed: str, suites: list[str]) -> tuple[list[str], list[str]]:
    """(The tests as meson lists them, the names to give it: none for all.) What is named runs whatever the day draws."""
    run = subprocess.run(["meson", "test", "-C", args.build, "--no-rebuild", "--list", *suites, *args.meson], cwd=ROOT,
                         capture_output=True, text=True)
    listed = [line.strip() for line in run.stdout.splitlines() if " / " in line]
    if args.long or by_name(args.meson):
        return listed, []
    tests = json.loads((ROOT / args.build / "meson-info/intro-tests.json").read_text())
    out = daily.left_out([(t["name"], {s.split(":")[-1] for s in t["suite"]}) for t in tests], seed)
    stay = [line for line in listed if line.split(" / ")[-1] not in out]
    if len(stay) == len(listed):
        return listed, []
    print(f"{len(listed) - len(stay)} of {len(listed)} tests wait for another day's seed, or --long", flush=True)
    return stay, list(dict.fromkeys(line.split(" / ")[-1] for line in stay))


def wrapper(build: str) -> list[str]:
    timed = ROOT / build / "tests/tools/timed"
    return ["--wrapper", shlex.quote(str(timed))] if timed.exists() else []


def environment(args: argparse.Namespace, seed: str) -> dict[str, str]:
    # Threads that wait take no time from the tests beside them.
    env = dict(os.environ, SKETCHC_TEST_LONG="1" if args.long else "0", SKETCHC_TEST_SEED=seed, OMP_WAIT_POLICY="passive")
    env.setdefault("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1")
    return env


def watch(command: list[str], env: dict[str, str], progress: costs.Progress) -> int:
    """Runs meson, whose lines become the progress; what else it says matters where it ran no test."""
    said = []
    costs.tell_often(progress)
    run = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, errors="replace")
    for line in run.stdout:
        said.append(line)
        progress.ended(line)
    progress.end()
    status = run.wait()
    if not progress.count:
        print(*said[-SHOWN:], sep="", end="")
    return status


def run_meson(args: argparse.Namespace, seed: str) -> tuple[int, list[dict], float]:
    suites = [] if args.long else ["--no-suite", "long"]
    slower = "8" if args.slow else "3"  # of the tests' time limits: a shared machine, a sanitizer
    wrap = wrapper(args.build)
    log = ROOT / args.build / f"meson-logs/testlog{'-timed' if wrap else ''}.json"
    log.unlink(missing_ok=True)
    listed, names = chosen(args, seed, suites)
    progress = costs.Progress(listed, costs.read_known(ROOT, args.build))
    begin = datetime.datetime.now()
    status = watch(["meson", "test", "-C", args.build, "--no-rebuild", "--timeout-multiplier", slower,
                    *wrap, *suites, *args.meson, *names], environment(args, seed), progress)
    seconds = (datetime.datetime.now() - begin).total_seconds()
    entries = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return status, entries, seconds


def repeating(args: argparse.Namespace, seed: str, entry: dict, case: str) -> str:
    """The command that runs a failed test again, and only it."""
    name = entry["name"].split(" / ")[-1]
    words = ["scripts/test", *([OPTIONS[args.build]] if OPTIONS.get(args.build) else []), *(["--long"] if args.long else []),
             f"--seed={seed}", "--", name]
    if " / " in entry["name"]:
        words[-1:] = ["--suite", costs.suite_of(entry["name"]), name]
    only = f"TEST_FILTER={shlex.quote(case)} " if case and name == "files" else ""
    return only + " ".join(map(shlex.quote, words))


def cases_of(entry: dict) -> list[tuple[str, str, str, str]]:
    """results_of with the case's own name, of a test that is many."""
    name = entry["name"].split(" / ")[-1]
    for full, kind, reason in results_of(entry):
        before, found, case = full.partition(f"{name}/")
        yield full, kind, reason, case if found and "/" not in before.rstrip("/") else ""


def tell_failures(args: argparse.Namespace, seed: str, entries: list[dict], forbidden: list) -> None:
    """First all that failed and how to repeat it, then what each wrote."""
    failed = [(entry, full, reason, case) for entry in entries
              for full, kind, reason, case in cases_of(entry) if kind == "fail"]
    for entry, full, reason, case in failed:
        print(f"failed: {full}{': ' + reason if reason else ''}\n    {repeating(args, seed, entry, case)}")
    for full, reason in forbidden:
        print(f"failed: {full}: {reason}")
    for name in dict.fromkeys(entry["name"] for entry, *_ in failed):
        entry = next(e for e in entries if e["name"] == name)
        text = (entry.get("stdout") or "") + (entry.get("stderr") or "")
        lines = [line for line in text.splitlines() if not line.startswith(("ok ", "# processor seconds"))]
        print(f"---- {name}, the last lines:", *lines[-SHOWN:], sep="\n")


def tell(args: argparse.Namespace, seed: str, entries: list[dict], results: list) -> list[tuple[str, str]]:
    """The report; what it returns are the figures."""
    found = {full for entry in entries for full, kind, _ in results_of(entry) if kind == "fail"}
    tell_failures(args, seed, entries, [(n, r) for n, k, r in results if k == "fail" and n not in found])
    figures = [f for entry in entries for f in FIGURE.findall(entry.get("stdout") or "")]
    print(*[f"figure: {name} {value}" for name, value in figures], sep="\n", end="\n" if figures else "")
    for name, kind, reason in results:
        if kind == "skip":
            print(f"skipped: {name}: {reason}")
    table = costs.lines_of(entries)
    (ROOT / args.build / "slowest.txt").write_text("\n".join(table) + "\n")
    print(*table, sep="\n")
    return figures


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="the full counts")
    parser.add_argument("--slow", action="store_true", help="a build with sanitizers")
    parser.add_argument("--build", default="build")
    parser.add_argument("--seed", default=None, help="of what is drawn: in the short run the day of the last commit, in the long one this second")
    parser.add_argument("--keep-slowest", action="store_true", help="the table becomes tests/slowest-BUILD.txt")
    parser.add_argument("meson", nargs="*", help="passed on to meson test, after --")
    return parser.parse_args()


def main() -> int:
    args = parse_arguments()
    self_check()
    costs.self_check()
    daily.self_check()
    now = datetime.datetime.now(datetime.UTC)
    seed = args.seed or (str(int(now.timestamp())) if args.long else str(day_of_commit(now)))
    print(f"seed: {seed} (--seed={seed} repeats what is drawn)", flush=True)
    status, entries, seconds = run_meson(args, seed)
    results = [r for entry in entries for r in results_of(entry)]
    if os.environ.get("CI"):
        results = forbid_skips(results, read_patterns())
    figures = tell(args, seed, entries, results)
    costs.write_known(ROOT, args.build, entries)
    if args.keep_slowest:
        costs.keep_slowest(ROOT, args.build, entries)
    count = {kind: sum(k == kind for _, k, _ in results) for kind in ("ok", "fail", "skip")}
    if status and not count["fail"]:
        count["fail"] = 1
    if args.long:
        write_long(seed, seconds, results, figures)
    tail = f", {count['skip']} skipped" if count["skip"] else ""
    print(f"{count['ok']} passed, {count['fail']} failed{tail}")
    return 1 if count["fail"] or not count["ok"] else 0


if __name__ == "__main__":
    sys.exit(main())
