#!/usr/bin/env python3
"""What of the emitted kernels can be told without running them, over examples/ and bench/kernelbench/level1:

    static_test.py conflicts SKETCHC ALLOWED FILE_OR_FOLDER...
        bank conflicts of shared memory: of every version that a case launches (sm_90a), each access of each warp at the
        addresses that its threads compute, in the middle block and the loops' middle iterations (--explain --json)
    static_test.py spills SKETCHC ALLOWED FILE_OR_FOLDER...
        registers that ptxas spills in the versions that the cases `full` launch, listed with their registers. Where there is no
        ptxas every file becomes PTX all the same; under the sanitizers (SANITIZED) every fourth one does, the others CUDA C: most of
        the time of PTX is LLVM's, where there is nothing of ours

The short run looks at a sixth of the files each day (tests/daily.py), a ninth under the sanitizers. ALLOWED names what may be there, a line each: `conflict KERNEL OP DEGREE reason` or `spill KERNEL BYTES reason`; KERNEL may
hold *. What it names and is not there any more fails too, where all files are looked at. Status 77 without LLVM (or ptxas)."""
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import daily


def files_of(names):
    paths = [pathlib.Path(n) for n in names]
    return [f for p in paths for f in (sorted(p.glob("*.sketch")) if p.is_dir() else [p])]


def allowances(path, kind):
    """[(kernel pattern, the words between, the number)]"""
    rows = []
    for line in pathlib.Path(path).read_text().splitlines():
        words = line.split()
        if words and words[0] == kind:
            count = 4 if kind == "conflict" else 3
            assert len(words) > count, f"no reason: {line}"
            rows.append((words[1], words[2:count - 1], int(words[count - 1])))
    return rows


def explained(sketchc, file):
    done = subprocess.run([sketchc, file, "-t", "nvptx", "--arch=sm_90a", "--explain", "--json", "-q"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{file}: status {done.returncode} {done.stderr[:500]}")
    return json.loads(done.stdout)["cases"]


def assembles():
    return bool(shutil.which("ptxas")) and not os.environ.get("SANITIZED")  # there is nothing of ours in ptxas


def conflicts(sketchc, file):
    found = {}
    for case in explained(sketchc, file):
        for launch in case["launches"]:
            for c in launch["conflicts"]:
                key = (launch["entry"], c["op"])
                found[key] = max(found.get(key, (0,)), (c["degree"], f"{file}:{c['line']}", round(c["bytes"] / max(1, launch["shared"]), 3)))
    return {key: value for key, value in found.items()}


def symbols_of(entry, named):
    """The kernel's symbol: its name, cut where that is long; or all that it may be, where cut names are alike and end in a hash of the whole."""
    whole = [n for n in named if entry.startswith(n)]
    hashed = [n for n in named if re.search(r"_[0-9a-f]{8}$", n) and entry.startswith(n[:-9])]
    if not whole and not hashed:
        raise RuntimeError(f"no entry for {entry} among {named}")
    return [max(whole, key=len)] if whole else hashed


def spills(sketchc, file):
    with tempfile.TemporaryDirectory() as folder:
        ptx = f"{folder}/k.ptx"
        target = "cuda" if os.environ.get("SANITIZED") and int(file.name[:3]) % 4 else "nvptx"
        done = subprocess.run([sketchc, file, "-t", target, "--arch=sm_90a", "-q", "-o", ptx], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{file}: status {done.returncode}\n{done.stderr[:800]}")
        if not assembles():
            return {}
        full = next((c for c in explained(sketchc, file) if c["name"] == "full"), None)
        entries = sorted({l["entry"] for l in full["launches"]}) if full else []
        if not entries:
            return {}
        named = re.findall(r"\.entry (\w+)\(", pathlib.Path(ptx).read_text())
        entries = sorted({n for e in entries for n in symbols_of(e, named)})
        chosen = [a for e in entries for a in ("--entry", e)]
        done = subprocess.run(["ptxas", "-v", "-arch=sm_90a", *chosen, ptx, "-o", "/dev/null"], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{file}: {done.stderr[:800]}")
    found = {}
    for entry, text in re.findall(r"Compiling entry function '(\w+)'(.*?)(?=Compiling entry|\Z)", done.stderr, re.S):
        stores, loads = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", text).groups()
        registers = int(re.search(r"Used (\d+) registers", text)[1])
        if entry in entries:
            found[(entry,)] = (max(int(stores), int(loads)), str(file), registers)
    return found


def main():
    what, sketchc, allowed, *names = sys.argv[1:]
    probe = subprocess.run([sketchc, files_of(names)[0], "-t", "nvptx", "-q", "-o", "/dev/null"], capture_output=True, text=True)
    if "E0732" in probe.stderr:
        print("needs llvm")
        return 77
    look, kind = (conflicts, "conflict") if what == "conflicts" else (spills, "spill")
    rows, used, bad, seen = allowances(allowed, kind), set(), [], {}
    files = daily.drawn(files_of(names), 9 if os.environ.get("SANITIZED") else 6)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for found in pool.map(lambda f: look(sketchc, f), files):
            seen |= found
    if what == "spills" and not assembles():
        print(f"{len(files)} files become PTX or CUDA C" if shutil.which("ptxas") else "needs ptxas")
        return 0 if shutil.which("ptxas") else 77
    for (kernel, *rest), (number, place, more) in sorted(seen.items()):
        if what == "spills":
            print(f"{kernel:56} {more:4} registers, {number} bytes spilled")
        if number == 0:
            continue
        match = [i for i, (pattern, words, most) in enumerate(rows) if fnmatch.fnmatch(kernel, pattern) and words == rest and number <= most]
        used |= set(match)
        if not match:
            bad.append(f"{place}: {kernel}: {what} {' '.join(rest)} {number} ({more})")
    bad += [f"{allowed}: {rows[i]} is not there any more" for i in range(len(rows)) if i not in used and len(files) == len(files_of(names))]
    print("\n".join(bad) or f"{len(seen)} {what} looked at, {len(used)} allowed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
