#!/usr/bin/env python3
"""clang-tidy finds nothing in the C files by .clang-tidy: each check that is off there has its reason.

    lint_c.py ROOT BUILD    bugprone-* in a quarter of the files, clang-analyzer-*, which follows paths, in a thirtieth of those in the
                            folders ANALYZED: by the day's seed (tests/daily.py), and in the files of the last commit; in all with --long
    lint_c.py --self-test   faults planted in a file are found

Status 77 where clang-tidy is not there (scripts/test installs it)."""
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import daily

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIDY = "clang-tidy-22"
A_DAY = 30  # one file in so many
TOGETHER = 12  # files of one process
# Whose findings have been looked into; others join as theirs are.
ANALYZED = ("api", "emit", "frontend", "graph", "ir", "llm", "model", "passes", "runtime", "search", "support", "verify")
PLANTED = """int size_of(const char *text);
int size_of(const char *text) {
    int *gone = 0;
    if (text) return (int)sizeof(64);
    return *gone;
}
"""
FOUND = ("bugprone-sizeof-expression", "clang-analyzer-core.NullDereference")


def sources(root: pathlib.Path, build: pathlib.Path) -> list[pathlib.Path]:
    """Those that the build compiles; what it generates is none of ours to write otherwise."""
    commands = json.loads((build / "compile_commands.json").read_text())
    files = {(pathlib.Path(c["directory"]) / c["file"]).resolve() for c in commands}
    return sorted(f for f in files if f.is_relative_to(root) and not f.is_relative_to(build))


def changed(root: pathlib.Path) -> set[pathlib.Path]:
    """By the last commit; none where git, or its parent, is not there."""
    names = subprocess.run(["git", "diff", "--name-only", "HEAD~1", "HEAD", "--", "*.c"], cwd=root, capture_output=True, text=True, check=False)
    return {(root / name).resolve() for name in names.stdout.split("\n") if name}


def check(files: list[pathlib.Path], *options: str) -> str:
    """What clang-tidy says of them, empty if nothing. A warning of the compiler is none: gcc's are errors, clang's others."""
    run = subprocess.run([TIDY, "--quiet", "--extra-arg=-Wno-error", *map(str, files), *options], capture_output=True, text=True, check=False)
    return (run.stdout or run.stderr) if run.returncode else ""


def self_test() -> int:
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "planted.c"
        file.write_text(PLANTED)
        said = check([file], f"--config-file={ROOT / '.clang-tidy'}", "--", "-std=c17")
    missing = [name for name in FOUND if name not in said]
    print(f"not found: {missing}\n{said}" if missing else "the planted faults are found")
    return 1 if missing else 0


def main() -> int:
    if not shutil.which(TIDY):
        print(f"{TIDY} is not installed")
        return 77
    if sys.argv[1] == "--self-test":
        return self_test()
    root, build = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
    every = sources(root, build)
    deep = [f for f in every if f.relative_to(root).parts[0] in ANALYZED]
    deep = sorted(set(daily.drawn(deep, A_DAY)) | (changed(root) & set(deep)))
    orders = [([file], "--checks=-bugprone-*") for file in deep]
    wide = sorted(set(daily.drawn(every, 4)) | (changed(root) & set(every)))
    orders += [(wide[i:i + TOGETHER], "--checks=-clang-analyzer-*") for i in range(0, len(wide), TOGETHER)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = [text for text in pool.map(lambda order: check(order[0], order[1], "-p", str(build)), orders) if text]
    print(*said, sep="\n", end="")
    print(f"{len(wide)} of {len(every)} files, {len(deep)} by paths, {'findings' if said else 'no finding'}")
    return 1 if said or not every else 0


if __name__ == "__main__":
    sys.exit(main())
