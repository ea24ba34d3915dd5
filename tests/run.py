#!/usr/bin/env python3
"""Runs `meson test` and closes with the line `N passed, N failed, N skipped`.

Each meson test is one program or script; a skip is exit status 77 and is
printed with its reason, so that what a machine lacks is visible."""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main() -> int:
    args = [a for a in sys.argv[1:] if a != "--long"]
    setup = ["--suite", "long"] if "--long" in sys.argv else ["--no-suite", "long"]
    run = subprocess.run(["meson", "test", "-C", "build", "--no-rebuild",
                          "--print-errorlogs", *setup, *args], cwd=ROOT)
    log = ROOT / "build/meson-logs/testlog.json"
    counts = {"OK": 0, "SKIP": 0, "FAIL": 0}
    for line in log.read_text().splitlines() if log.exists() else []:
        result = json.loads(line)
        kind = result["result"]
        counts[kind if kind in ("OK", "SKIP") else "FAIL"] += 1
        if kind == "SKIP":
            reason = (result.get("stdout") or "").strip().splitlines()
            print(f"skipped: {result['name']}: {reason[-1] if reason else 'no reason given'}")
    failed = counts["FAIL"]
    if run.returncode and not failed:
        failed = 1
    tail = f", {counts['SKIP']} skipped" if counts["SKIP"] else ""
    print(f"{counts['OK']} passed, {failed} failed{tail}")
    return 1 if failed or not counts["OK"] else 0


if __name__ == "__main__":
    sys.exit(main())
