#!/usr/bin/env python3
"""Runs test_pool in a folder of its own; nothing of the judges is left behind, also not by a search that was killed before.

    pool.py TEST_POOL COUNT EVERY"""
import fcntl
import os
import pathlib
import subprocess
import sys
import tempfile


def main() -> int:
    tool, *counts = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        work, temporary = pathlib.Path(name) / "work", pathlib.Path(name) / "tmp"
        work.mkdir()
        temporary.mkdir()
        held = temporary / "sketchc-pool-held"
        for folder in (held, temporary / "sketchc-pool-killed", temporary / "sketchc-pool-new", temporary / "other"):
            (folder / "0").mkdir(parents=True)
            if folder.name.endswith(("held", "killed")):
                (folder / "lock").touch()
        lock = os.open(held / "lock", os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        status = subprocess.run([tool, work, *counts], check=False, env=dict(os.environ, TMPDIR=str(temporary))).returncode
        left = sorted(p.name for p in temporary.iterdir())
    wanted = ["other", "sketchc-pool-held", "sketchc-pool-new"]
    if left != wanted:
        print(f"left behind: {left}, not {wanted}")
    return 1 if status or left != wanted else 0


if __name__ == "__main__":
    sys.exit(main())
