#!/usr/bin/env python3
"""Holds what keeps the code readable at a glance: files of at most 500 lines, functions of a median of at most 10, folders of at most 25 C
files.

    sizes.py                the repository
    sizes.py --self-test    what is too long or too many is found

LONGER lists the files that are longer, with a limit of their own: none joins it, and a file that is cut leaves it."""
import argparse
import collections
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_LINES = 500  # of a file
MEDIAN_LINES = 10  # of the C functions outside of tests/
MOST_FILES = 25  # C files of a folder
ENDINGS = (".c", ".h", ".cu", ".py")
LONGER = {  # file: its lines, at most
    "bench/kernelbench/convolutions.py": 1150,
    "bench/kernelbench/level1.py": 800,
    "bench/kernelbench/level2.py": 600,
    "bench/kernelbench/matrix.py": 550,
    "bench/kernelbench/run.py": 650,
    "bench/prototypes/meeting/meeting.cu": 650,
    "frontend/ast.h": 600,
    "frontend/grammar.py": 650,
    "model/cost_kernel.c": 1000,
    "support/affine.c": 750,
    "support/affine_facts.c": 750,
    "tests/atoms/atoms.py": 850,
    "tests/lsp/test_lsp.py": 600,
    "tests/random/print_sketch.c": 700,
    "tests/unit/verify/test_interpret.c": 750,
    "tools/ask/propose.c": 950,
    "tools/sketchc.c": 700,
    "tools/torch/sketchc/kernel.py": 650,
}
FUNCTION = re.compile(r"^[a-zA-Z][^;{}=]*\) \{\n(.*?)^\}\n", re.M | re.S)


def sources(root: pathlib.Path) -> dict[str, str]:
    """The text of each file under version control; where there is none, of each file."""
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False)
    names = listed.stdout.split("\n") if listed.returncode == 0 else [str(f.relative_to(root)) for f in root.rglob("*")]
    return {name: (root / name).read_text(errors="replace") for name in names if name.endswith(ENDINGS) and (root / name).is_file()}


def check_files(lines: dict[str, int], longer: dict[str, int]) -> list[str]:
    found = [f"{name} has {count} lines, {longer.get(name, MOST_LINES)} at most: cut it along its meaning"
             for name, count in lines.items() if count > longer.get(name, MOST_LINES)]
    return found + [f"{name} stands in LONGER, and is not: {lines.get(name, 0)} lines" for name in longer if lines.get(name, 0) <= MOST_LINES]


def check_functions(texts: dict[str, str]) -> list[str]:
    lengths = [f[0].count("\n") for name, text in texts.items() if name.endswith(".c") and not name.startswith("tests/")
               for f in FUNCTION.finditer(text)]
    median = statistics.median(lengths) if lengths else 0
    return [f"functions have a median of {median:g} lines, {MEDIAN_LINES} at most"] if median > MEDIAN_LINES else []


def check_crowds(names: list[str]) -> list[str]:
    crowds = collections.Counter(name.rpartition("/")[0] for name in names if name.endswith(".c"))
    return [f"{folder}/ has {count} C files; {MOST_FILES} at most: open a folder in it" for folder, count in crowds.items() if count > MOST_FILES]


def check(texts: dict[str, str], longer: dict[str, int]) -> list[str]:
    return check_files({name: text.count("\n") for name, text in texts.items()}, longer) + check_functions(texts) + check_crowds(list(texts))


def self_test() -> list[str]:
    short, long = "int f(void) {\n    return 1;\n}\n", "int f(void) {\n" + "    g();\n" * 20 + "}\n"
    cases = [({"ir/a.c": "\n" * 500}, {}, []), ({"ir/a.c": "\n" * 501}, {}, ["ir/a.c has 501 lines, 500 at most"]),
             ({"ir/a.c": "\n" * 600}, {"ir/a.c": 600}, []), ({"ir/a.c": "\n" * 601}, {"ir/a.c": 600}, ["ir/a.c has 601 lines, 600 at most"]),
             ({"ir/a.c": "\n" * 500}, {"ir/a.c": 600}, ["ir/a.c stands in LONGER"]), ({}, {"ir/gone.c": 600}, ["ir/gone.c stands in LONGER"]),
             ({"ir/a.c": short * 3 + long * 2}, {}, []), ({"ir/a.c": short * 2 + long * 3}, {}, ["functions have a median of 22 lines"]),
             ({f"ir/{i}.c": "" for i in range(25)}, {}, []), ({f"ir/{i}.c": "" for i in range(26)}, {}, ["ir/ has 26 C files"])]
    wrong = []
    for texts, longer, wanted in cases:
        found = check(texts, longer)
        if len(found) != len(wanted) or not all(f.startswith(w) for f, w in zip(found, wanted)):
            wrong.append(f"wanted {wanted}, got {found}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--self-test", action="store_true")
    problems = self_test() if parser.parse_args().self_test else check(sources(ROOT), LONGER)
    print("\n".join(problems) if problems else "files, functions and folders have their sizes")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
