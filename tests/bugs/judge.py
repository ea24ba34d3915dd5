#!/usr/bin/env python3
"""Verifies a sketch of a bug where some data tell nothing of it; the other cases and sizes count.

    judge.py special|powerless SKETCHC FILE

special: what becomes of infinities and of sums that overflow differs from the operator's, and is not held here. powerless: its results may be 0 (docs/decisions/0019)."""
import json
import subprocess
import sys


def main() -> int:
    what, sketchc, file = sys.argv[1:4]
    done = subprocess.run([sketchc, "verify", "-t", "openmp", "--json", "-q", file], capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    excused = [c for c in report["cases"] if c["status"] != "ok" and (c["name"].split()[0] if what == "special" else c["status"]) == what]
    bad = [c for c in report["cases"] if c["status"] not in ("ok", "skipped") and c not in excused]
    good = sum(c["status"] == "ok" for c in report["cases"])
    print(f"{good} ok, {len(excused)} excused, {len(bad)} bad", *(json.dumps(c)[:400] for c in bad), sep="\n")
    return 1 if bad or good < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
