#!/usr/bin/env python3
"""Verifies a sketch of a bug at some of whose sizes no data show anything; the other cases and sizes count.

    judge.py SKETCHC FILE

The operators of these bugs scale weights of a softmax so that they are rounded to 0 or nearly: a result of 0 is within the bound there (docs/notes/015-relaxed-precision.md), which makes
the case `powerless`. That status alone is excused: a wrong number is wrong, special values included."""
import json
import subprocess
import sys


def main() -> int:
    sketchc, file = sys.argv[1:3]
    done = subprocess.run([sketchc, "verify", "-t", "openmp", "--json", "-q", file], capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    excused = [c for c in report["cases"] if c["status"] == "powerless"]
    bad = [c for c in report["cases"] if c["status"] not in ("ok", "skipped") and c not in excused]
    good = sum(c["status"] == "ok" for c in report["cases"])
    print(f"{good} ok, {len(excused)} excused, {len(bad)} bad", *(json.dumps(c)[:400] for c in bad), sep="\n")
    return 1 if bad or good < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
