#!/usr/bin/env python3
"""What needs a GPU, from artifacts made elsewhere: verifies each through PTX and through CUDA C,
compares the outputs bit for bit at every case and ragged size, runs the tools of compute-sanitizer at
the smallest case, times the largest.

    gpu_check.py SKETCHC ARTIFACT_FOLDER OUT_FOLDER [--do verify,sanitize,bench] [--only NAME,...] [--jobs N]
                 [--unordered FILE] [--suppress FILE] [--tools memcheck,...]

ARTIFACT_FOLDER holds NAME.ptx.ska and NAME.cu.ska. Artifacts that add floats in memory, in no fixed
order, are verified and not compared bit for bit, nor are those that --unordered lists, a line each:
NAME REASON. --suppress lists `TOOL NAME reason` for findings of compute-sanitizer that are known not to
be faults. Under the sanitizer up to --batch artifacts whose smallest cases have one name run in one
process; each of a batch that is not clean runs again by itself.
Writes gpu_check.json (a summary) and gpu_check.log (every failure) into OUT_FOLDER; the status is 1
when anything failed."""
import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import threading
import time

FORMS = ("ptx", "cu")
LOCK = threading.Lock()


def run(command, limit):
    start = time.time()
    try:
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace", timeout=limit)
    except subprocess.TimeoutExpired as late:
        done = subprocess.CompletedProcess(command, 124, str(late.stdout or ""), "timed out")
    return done, time.time() - start


def report_of(done):
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"cases": []}


def read_table(path, columns):
    rows = {}
    for line in path.read_text().splitlines() if path else []:
        words = line.split(None, columns)
        if words and not line.startswith("#"):
            rows[tuple(words[:columns])] = words[columns] if len(words) > columns else ""
    return rows


class Check:
    def __init__(self, options):
        self.options = options
        self.log = []
        self.entries = {}
        self.end = time.monotonic() + options.seconds
        self.not_begun = []
        self.unordered = read_table(options.unordered, 1)
        self.suppressed = read_table(options.suppress, 2)

    def fail(self, text):
        with LOCK:
            self.log.append(text)
            print("FAILED", text[:700], flush=True)

    def verify(self, name, form):
        path = self.options.folder / f"{name}.{form}.ska"
        done, seconds = run([self.options.sketchc, "verify", path, "--json", "--time-limit=100", *self.options.verify_option],
                            self.options.limit)
        report = report_of(done)
        refused = [c for c in report["cases"] if self.options.random and c["check"] == "undecided"]
        for case in report["cases"]:
            if case["status"] not in ("ok", "skipped") and case not in refused:
                self.fail(f"verify {name}.{form} {case['name']} {case['sizes']}: {case['status']} {case['check']} {case['text']}")
        if done.returncode and not any(c["status"] not in ("ok", "skipped") for c in report["cases"]):
            self.fail(f"verify {name}.{form}: status {done.returncode} {done.stdout[-300:]} {done.stderr[-500:]}")
        return {"status": done.returncode, "refused": len(refused), "passed": report.get("passed", 0), "failed": report.get("failed", 0),
                "skipped": report.get("skipped", 0), "seconds": round(seconds, 1),
                "worst_ratio": max((c["worst_ratio"] for c in report["cases"] if isinstance(c["worst_ratio"], float)), default=0),
                "cases": {f"{c['name']} {c['sizes']}": c for c in report["cases"] if c["status"] == "ok"}}

    def compare(self, name, reports):
        if (name,) in self.unordered:
            return {"not_compared": self.unordered[(name,)]}
        if b'"unordered":true' in (self.options.folder / f"{name}.ptx.ska").read_bytes():
            return {"not_compared": "adds floats in memory"}
        first, second = (reports[f]["cases"] for f in FORMS)
        same = different = 0
        for key in first.keys() & second.keys():
            if first[key]["digest"] == second[key]["digest"]:
                same += 1
            else:
                different += 1
                self.fail(f"bits {name} {key}: PTX and CUDA C differ")
        return {"same": same, "different": different}

    def smallest_case(self, name, reports):
        cases = [c for c in reports["ptx"]["cases"].values() if not c["name"].startswith("ragged")]
        return min(cases, key=lambda c: c["elements"])["name"] if cases else None

    def late(self, what):
        late = time.monotonic() > self.end
        if late:
            self.not_begun.append(what)
        return late

    def clean(self, tool, case, artifacts):
        """Whether `tool` finds nothing in the artifacts' runs of `case`, what it printed, and the seconds."""
        files = [self.options.folder / f"{name}.{form}.ska" for name, form in artifacts]
        done, seconds = run(["compute-sanitizer", "--tool", tool, "--target-processes", "all", "--error-exitcode", "99",
                             self.options.sketchc, "verify", *files, f"--case={case}", "--no-ragged", "--time-limit=200"], 240)
        text = done.stdout + done.stderr
        return done.returncode == 0 and ("ERROR SUMMARY: 0 errors" in text or "0 hazards displayed" in text), text, seconds

    def sanitize(self, tool, case, artifacts):
        if self.late(f"{tool} {' '.join('.'.join(a) for a in artifacts)}"):
            return
        clean, text, seconds = self.clean(tool, case, artifacts)
        if not clean and len(artifacts) > 1:
            for artifact in artifacts:
                self.sanitize(tool, case, [artifact])
            return
        for name, form in artifacts:
            result = {"clean": clean, "case": case, "seconds": round(seconds / len(artifacts), 1)}
            if not clean and (tool, name) in self.suppressed:
                result = {"suppressed": self.suppressed[(tool, name)]}
            elif not clean:
                self.fail(f"{tool} {name}.{form} {case}: {text[-1200:]}")
            with LOCK:
                self.entries[name][f"{tool}_{form}"] = result
        print(f"{tool} {case}: {'clean' if clean else 'not clean'} in {seconds:.1f} s: {' '.join('.'.join(a) for a in artifacts)}", flush=True)

    def sanitize_all(self, pool):
        """The artifacts that were verified, by their smallest cases."""
        by_case = {}
        for name, entry in sorted(self.entries.items()):
            if entry["case"]:
                by_case.setdefault(entry["case"], []).extend((name, form) for form in FORMS)
        size = self.options.batch
        batches = [(tool, case, artifacts[i:i + size]) for case, artifacts in by_case.items()
                   for i in range(0, len(artifacts), size) for tool in self.options.tools.split(",")]
        list(pool.map(lambda batch: self.sanitize(*batch), sorted(batches, key=lambda b: -len(b[2]))))

    def verify_both(self, name):
        if self.late(f"verify {name}"):
            return
        reports = {form: self.verify(name, form) for form in FORMS}
        entry = {"bits": self.compare(name, reports), "case": self.smallest_case(name, reports)}
        for form in FORMS:
            reports[form].pop("cases")
            entry[f"verify_{form}"] = reports[form]
        with LOCK:
            self.entries[name] = entry
            print(f"{name:28} passed {[reports[f]['passed'] for f in FORMS]} {entry['bits']} "
                  f"{[reports[f]['seconds'] for f in FORMS]} s", flush=True)

    def bench(self, name):
        for form in FORMS:
            done, _ = run([self.options.sketchc, "bench", self.options.folder / f"{name}.{form}.ska", "--json", "--time-limit=100",
                           *self.options.bench_option], 200)
            report = report_of(done)
            timed = [c for c in report["cases"] if c["status"] == "ok"]
            if not timed:
                self.fail(f"bench {name}.{form}: {report.get('text', '')} {done.stderr[-300:]}")
                continue
            largest = max(timed, key=lambda c: c["bytes"])
            self.entries.setdefault(name, {})[f"bench_{form}"] = {**largest, "kernels": report["kernels"]}
            print(f"{name:28} {form} {largest['sizes']}: {largest['median_s'] * 1e3:.4f} ms {largest['gb_per_s']:.0f} GB/s "
                  f"{largest['percent_of_copy']:.0f} % of copy {largest['tflop_per_s']:.1f} TFLOP/s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sketchc")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--do", default="verify,sanitize,bench")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="what has not begun by then is left out and told")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tools", default="memcheck,racecheck,synccheck,initcheck")
    parser.add_argument("--random", action="store_true", help="artifacts of random sketches: cases whose results hang on near "
                        "ties are counted as refused")
    parser.add_argument("--unordered", type=pathlib.Path)
    parser.add_argument("--suppress", type=pathlib.Path)
    parser.add_argument("--verify-option", action="append", default=[])
    parser.add_argument("--bench-option", action="append", default=[])
    options = parser.parse_args()
    check = Check(options)
    smi, _ = run(["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem", "--format=csv,noheader"], 60)
    names = sorted({p.name.removesuffix(".ptx.ska") for p in options.folder.glob("*.ptx.ska")})
    names = [n for n in names if not options.only or n in options.only.split(",")]
    if "verify" in options.do:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(check.verify_both, names))
            if "sanitize" in options.do:
                check.sanitize_all(pool)
    if "bench" in options.do:
        for name in names:
            check.bench(name)
    summary = {"format": "sketchc.gpu_check 2", "device": smi.stdout.strip(), "failures": len(check.log), "not_begun": check.not_begun,
               "artifacts": len(names), "entries": dict(sorted(check.entries.items()))}
    (options.out / "gpu_check.json").write_text(json.dumps(summary, indent=1) + "\n")
    (options.out / "gpu_check.log").write_text("\n".join(check.log) + "\n")
    passed = sum(e.get(f"verify_{f}", {}).get("passed", 0) for e in check.entries.values() for f in FORMS)
    same = sum(e.get("bits", {}).get("same", 0) for e in check.entries.values())
    refused = sum(e.get(f"verify_{f}", {}).get("refused", 0) for e in check.entries.values() for f in FORMS)
    print(f"{len(names)} artifacts, {passed} verdicts passed, {refused} refused, {same} comparisons bit for bit, failures: {len(check.log)}, "
          f"not begun: {len(check.not_begun)}")
    return 1 if check.log else 0


if __name__ == "__main__":
    sys.exit(main())
