#!/usr/bin/env python3
"""Every file of tests/ takes part in some test, as the build knows its tests: the build reads each meson.build, a
target compiles each C file, and each other file stands on a test's command line, or a program or a file of RUN lines
that does names it (modules it imports, data it opens), or, where it is no program, its folder stands there.

    every_file_runs.py SOURCE_ROOT BUILD_ROOT
    every_file_runs.py --self-test"""
import json
import pathlib
import re
import sys
import tempfile

PROGRAMS = {".py", ".sh", ".js", ".lua", ".el"}
RUN_FILES = {".sketch", ".skir", ".test"}  # as tests/filecheck.py has them
FROM_OUTSIDE = {"lsan.supp", "requirements.txt", "requirements-torch.txt", "slowest-build.txt", "slowest-build-asan.txt"}  # scripts/setup, scripts/test and tests/run.py name them
NAMING = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|\bRUN:.*|^\s*(?:import|from)\s.*|\btests/\S+", re.M)
WORD = re.compile(r"[\w.+/-]+")


class Tree:
    def __init__(self, root: pathlib.Path, build: pathlib.Path):
        def read(name: str) -> list:
            return json.loads((build / f"meson-info/intro-{name}.json").read_text())

        root = root.resolve()
        self.tests = root / "tests"
        self.files = sorted(f for f in self.tests.rglob("*") if f.is_file() and "__pycache__" not in f.parts
                            and not f.name.startswith(".") and not f.name.endswith("~"))
        arguments = {pathlib.Path(a.split("=")[-1]).resolve() for test in read("tests") for a in test["cmd"]
                     if a.split("=")[-1].startswith("/")}
        self.folders = {a for a in arguments if self.tests in a.parents and a.is_dir()}
        self.used = {a for a in arguments if a.is_file()}
        self.used |= {pathlib.Path(f).resolve() for f in read("buildsystem_files")}
        self.used |= {pathlib.Path(s).resolve() for target in read("targets") for group in target["target_sources"]
                      for s in group.get("sources", [])}
        self.used |= {f for f in self.files if f.suffix in RUN_FILES and self.in_folder(f)}
        fresh = [f for f in self.used if {self.tests, root / "scripts"} & set(f.parents)]
        while fresh:
            named = self.named_in(fresh.pop())
            self.used |= named
            fresh += named

    def in_folder(self, file: pathlib.Path) -> bool:
        return bool(self.folders & set(file.parents))

    def named_in(self, file: pathlib.Path) -> set[pathlib.Path]:
        """Of those that are not known to be used: modules of any folder; files of its own folder and below, of other folders with the folder's name."""
        if file.name == "meson.build":  # what comes of its lists stands in the targets and tests
            return set()
        text = file.read_text(errors="replace")
        words = {word for part in NAMING.findall(text) for word in WORD.findall(part)}
        names = {part for word in words for part in word.split("/")}

        def named(f: pathlib.Path) -> bool:
            if f.suffix == ".py" and f.stem in names:
                return True
            near = file.parent in f.parents or f.suffix in PROGRAMS | {".h"}
            return f.name != "meson.build" and (near and f.name in names or f"{f.parent.name}/{f.name}" in text)

        return {f for f in self.files if f not in self.used and named(f)}

    def problem(self, file: pathlib.Path) -> str | None:
        if file in self.used or file.name in FROM_OUTSIDE:
            return None
        if file.name == "meson.build":
            return "no subdir() reaches it, so the tests of its folder never run"
        if file.suffix in PROGRAMS:
            return "no test runs it"
        if file.suffix in (".c", ".h"):
            return "no target compiles it"
        return None if self.in_folder(file) else "no test reads it"

    def problems(self) -> list[str]:
        return [f"{file.relative_to(self.tests.parent)}: {problem}" for file in self.files
                if (problem := self.problem(file))]


def self_test() -> int:
    """A small tree in which one file of each kind has fallen out of the build."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        lost = {"tests/lost/meson.build": "test('a')", "tests/lost.c": "", "tests/lost.py": "", "tests/data/lost.json": "",
                "tests/lost/case.sketch": "", "tests/run/lost.py": ""}
        kept = {"tests/meson.build": "# 'lost.py'", "tests/a.c": '#include "a.h"', "tests/a.h": "", "tests/all.py":
                "from helper import x\nopen('input.json')", "tests/helper.py": "", "tests/data/input.json": "",
                "tests/run/case.test": "# RUN: %sketchc %s | golden case.txt", "tests/run/case.txt": "",
                "tests/one.skir": "", "tests/run/inputs/b.sketch": ""}
        for name, text in (lost | kept).items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        info = root / "build/meson-info"
        info.mkdir(parents=True)
        tests = [{"cmd": [f"{root}/build/../tests/all.py", f"{root}/tests/run", f"--graph={root}/tests/one.skir"]}]
        targets = [{"target_sources": [{"sources": [f"{root}/tests/a.c"]}, {"linker": []}]}]
        for name, value in {"tests": tests, "targets": targets,
                            "buildsystem_files": [f"{root}/tests/meson.build"]}.items():
            (info / f"intro-{name}.json").write_text(json.dumps(value))
        found = {p.split(":")[0] for p in Tree(root, root / "build").problems()}
    for name in sorted(found ^ set(lost)):
        print(f"{name}: {'found, though a test uses it' if name in found else 'not found'}")
    return 1 if found != set(lost) else 0


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    tree = Tree(*map(pathlib.Path, sys.argv[1:3]))
    problems = tree.problems()
    print(*problems, sep="\n")
    print(f"{len(tree.files)} files of tests/, {len(problems)} of no test")
    return 1 if problems or not tree.files else 0


if __name__ == "__main__":
    sys.exit(main())
