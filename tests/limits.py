#!/usr/bin/env python3
"""Holds where thresholds stand: in front of a file's first function, each with its reason.

A threshold is a number of an enum without a name. Its reason is a comment on its line, or one above the enum, which then speaks of
all of its numbers."""
import argparse
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["passes", "graph", "emit", "model", "search"]
COMMENT = r"/\*(?:(?!\*/).)*\*/"
ENUM = re.compile(rf"^({COMMENT}\n)?enum \{{(.*?)\}};?([^\n]*)\n", re.M | re.S)
NUMBER = re.compile(rf"\b([A-Z][A-Z0-9_]*) = -?[\d(][^,/\n]*?(?: *({COMMENT}),?|, *({COMMENT})|,|$|\n)", re.S)
FUNCTION = re.compile(r"^[a-zA-Z][^;{}()=]*\([^;{}]*\) \{\n", re.M)


def problems_of(name: str, text: str) -> list[str]:
    found, first = [], FUNCTION.search(text)
    for enum in ENUM.finditer(text):
        numbers = list(NUMBER.finditer(enum[2].rstrip()))
        if first and name.endswith(".c") and enum.start() > first.start() and numbers:
            found.append(f"{name}: {numbers[0][1]} stands behind the first function")
        above = enum[1] or text[:enum.start()].endswith("*/\n")
        if not above and "/*" not in enum[3]:
            found += [f"{name}: {n[1]} has no reason" for n in numbers if not n[2] and not n[3]]
    return found


def check(root: pathlib.Path) -> list[str]:
    return [problem for folder in FOLDERS for f in sorted((root / folder).rglob("*.[ch]"))
            for problem in problems_of(str(f.relative_to(root)), f.read_text())]


SELF_TEST = {  # a file's text: what is wrong with it
    "enum {\n    A = 1, /* why */\n    B = 2 /* why */\n};\n": [],
    "enum { A = 1 /* why */, B = 2 /* why */ };\n": [],
    "enum {\n    A = 1, /* why */\n    B = 2\n};\n": ["B has no reason"],
    "enum { A = 1, B = 2 };\n": ["A has no reason", "B has no reason"],
    "/* Why. */\nenum { A = 1, B = 2 };\n": [],
    "enum { A = 1 }; /* why */\n": [],
    "enum { FIRST, SECOND };\n": [],
    "static int f(void) {\n    return 1;\n}\n\n/* Why. */\nenum { A = 1 };\n": ["A stands behind the first function"],
}


def self_test() -> list[str]:
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for i, (text, want) in enumerate(SELF_TEST.items()):
            source = pathlib.Path(folder) / str(i) / "passes/p.c"
            source.parent.mkdir(parents=True)
            source.write_text(text)
            got = [problem.split(": ")[1] for problem in check(pathlib.Path(folder) / str(i))]
            if got != want:
                wrong.append(f"{text!r}: wanted {want}, got {got}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--self-test", action="store_true")
    problems = self_test() if parser.parse_args().self_test else check(ROOT)
    print("\n".join(problems) if problems else "the thresholds have their place and reason")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
