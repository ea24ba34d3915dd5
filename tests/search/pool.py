#!/usr/bin/env python3
"""Runs test_pool in a folder of its own; nothing of the judges is left behind.

    pool.py TEST_POOL COUNT EVERY"""
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
        status = subprocess.run([tool, work, *counts], check=False, env=dict(os.environ, TMPDIR=str(temporary))).returncode
        left = [p.name for p in temporary.iterdir()]
    if left:
        print(f"left behind: {left}")
    return 1 if status or left else 0


if __name__ == "__main__":
    sys.exit(main())
