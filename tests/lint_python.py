#!/usr/bin/env python3
"""ruff finds nothing in the Python files by ruff.toml.

    lint_python.py ROOT         status 77 where ruff is not there (tests/requirements.txt names it)
    lint_python.py --self-test  an unused name is found"""
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

CONFIG = pathlib.Path(__file__).resolve().parent.parent / "ruff.toml"


def lint(folder: pathlib.Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "ruff", "check", "--no-cache", "--config", CONFIG, folder], capture_output=True, text=True,
                          check=False)


def self_test() -> int:
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "unused.py").write_text("import os\n")
        found = lint(pathlib.Path(folder))
    print(found.stdout[-400:])
    return 0 if found.returncode == 1 and "F401" in found.stdout else 1


def main() -> int:
    if not importlib.util.find_spec("ruff"):
        print("ruff is not installed")
        return 77
    if sys.argv[1] == "--self-test":
        return self_test()
    found = lint(pathlib.Path(sys.argv[1]))
    print(found.stdout[-4000:], found.stderr[-1000:])
    return found.returncode


if __name__ == "__main__":
    sys.exit(main())
