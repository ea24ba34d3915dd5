#!/usr/bin/env python3
"""The examples in documents are true. In README.md and docs/*.md (of these the short run takes a third each day, and README.md):

  ```sketch    is a complete file: it compiles for openmp and cuda; with an operator and a case it is
               also verified on this processor
  ```console   `$ COMMAND` lines run in the root of the sources and succeed; the lines up to the next
               one are their output, where a line `...` stands for any lines and `...` in a line for
               any text

    docs_examples.py SOURCE_ROOT BUILD_ROOT"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import daily

BLOCK = re.compile(r"^```(sketch|console)\n(.*?)^```", re.M | re.S)


def matches(want: str, got: str) -> bool:
    pattern = re.escape(want.strip()).replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, got.strip(), re.S) is not None


def commands(block: str) -> list[tuple[str, str]]:
    parts = re.split(r"^\$ (.*)\n", block, flags=re.M)
    return list(zip(parts[1::2], parts[2::2]))


def run_console(block: str, source: pathlib.Path, env: dict) -> list[str]:
    problems = []
    for command, want in commands(block):
        run = subprocess.run(["bash", "-c", command], cwd=source, env=env, text=True, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        if run.returncode:
            problems.append(f"$ {command}: status {run.returncode}\n{run.stdout}")
        elif not matches(want, run.stdout):
            problems.append(f"$ {command} prints\n{run.stdout}\nbut the document says\n{want}")
    return problems


def sketch_commands(block: str, build: pathlib.Path, path: pathlib.Path) -> list[list]:
    found = [[build / "sketchc", path, "-t", target, "-o", path.with_suffix(".out")]
             for target in ("openmp", "cuda")]
    if re.search(r"^operator ", block, re.M) and re.search(r"^ +case ", block, re.M):
        found.append([build / "sketchc", "verify", path, "-t", "openmp"])
    return found


def run_sketch(block: str, build: pathlib.Path, folder: pathlib.Path) -> list[str]:
    path = folder / "example.sketch"
    path.write_text(block)
    problems = []
    env = dict(os.environ, XDG_CACHE_HOME=str(folder))
    for command in sketch_commands(block, build, path):
        run = subprocess.run(command, text=True, capture_output=True, check=False, env=env)
        if run.returncode:
            problems.append(f"{' '.join(map(str, command))}: status {run.returncode}\n"
                            f"{block}{run.stdout[-2000:]}{run.stderr}")
    return problems


def main() -> int:
    source, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    assert matches("a ... c\n...\nd", "a b c\n1\n2\nd\n") and not matches("a", "b")
    assert commands("$ x\n1\n2\n$ y\n") == [("x", "1\n2\n"), ("y", "")]
    problems, count = [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # The documents say build/, wherever this build stands.
        env = dict(os.environ, XDG_CACHE_HOME=str(folder), PATH=f"{build}:{os.environ['PATH']}")
        for document in [source / "README.md", *daily.drawn(sorted((source / "docs").glob("*.md")), 3)]:
            for kind, block in BLOCK.findall(document.read_text()):
                count += 1
                block = block.replace("build/sketch", f"{build}/sketch") if kind == "console" else block
                found = (run_console(block, source, env) if kind == "console"
                         else run_sketch(block, build, folder))
                problems += [f"{document.name}: {p.replace(str(build), 'build')}" for p in found]
    print("\n".join(problems) if problems else f"{count} examples")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
