#!/usr/bin/env python3
"""Holds the columns "who sets" and "who reads" of ir/func_attrs.def against the C sources.

    tests/func_attrs.py            fails where a column differs from what the sources do
    tests/func_attrs.py --update   writes the columns anew

Who sets: the sources with ir_func_set_*(f, IR_FN_ID, ...). Who reads: the folders of all other
uses of IR_FN_ID, and of the functions that ask for one attribute."""
import argparse
import collections
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = "ir/func_attrs.def"
FOLDERS = ["api", "emit", "frontend", "graph", "ir", "model", "passes", "runtime", "verify"]
ROW = re.compile(r'^(IR_FN_\w+_ROW\((\w+), "\w+", [^,"]+, )"([^"]*)", "([^"]*)"', re.M)
SETS = re.compile(r"\bir_func_set_\w+\((?:[^,;]|\([^)]*\))+?, ([^,;]*(?:\bIR_FN_\w+)[^,;]*),")
NAME = re.compile(r"\bIR_FN_(\w+)")
ASKS = {"ir_func_cluster": "CLUSTER", "ir_func_is_cuda": "TARGET", "ir_step_name": "KERNEL", "ir_step_is_set": "KERNEL", "ir_step_order": "STEP", "is_same_kernel": "KERNEL"}


def uses(root: pathlib.Path) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Of each attribute: the sources that set it, the folders that read it."""
    setters, readers = collections.defaultdict(set), collections.defaultdict(set)
    for source in sorted(f for folder in FOLDERS for f in (root / folder).rglob("*.c")):
        text = source.read_text()
        for call in SETS.finditer(text):
            for name in NAME.findall(call[1]):
                setters[name].add(source.stem)
        for name in NAME.findall(SETS.sub("", text)):
            readers[name].add(str(source.parent.relative_to(root)))
        for function, name in ASKS.items():
            if f"{function}(" in text:
                readers[name].add(str(source.parent.relative_to(root)))
    return setters, readers


def written(root: pathlib.Path) -> str:
    """The table as the sources have it."""
    setters, readers = uses(root)
    return ROW.sub(lambda row: f'{row[1]}"{" ".join(sorted(setters[row[2]])) or "nobody"}", '
                               f'"{" ".join(sorted(readers[row[2]])) or "nobody"}"',
                   (root / TABLE).read_text())


def problems(root: pathlib.Path) -> list[str]:
    table = (root / TABLE).read_text()
    rows = zip(ROW.finditer(table), ROW.finditer(written(root)))
    found = [f"{TABLE}: {old[2]} is set by '{new[3]}' and read by '{new[4]}', not by '{old[3]}' and "
             f"'{old[4]}'; tests/func_attrs.py --update" for old, new in rows if old[0] != new[0]]
    dead = [f"{TABLE}: nobody reads {row[2]}; the row goes" for row in ROW.finditer(written(root))
            if row[4] == "nobody"]
    return found + dead


def self_test() -> list[str]:
    """A table with a stale row, a dead row and one that is right."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {
                TABLE: 'IR_FN_INT_ROW(A, "a", T, "one", "emit", "")\nIR_FN_INT_ROW(B, "b", T, "x", "y", "")\n'
                       'IR_FN_INT_ROW(C, "c", T, "nobody", "nobody", "")\n',
                "passes/one.c": "ir_func_set_int(g(f), IR_FN_A, 1); ir_func_set_int(f, x ? IR_FN_A : IR_FN_B, 2);",
                "emit/two.c": "ir_func_int(f, IR_FN_A, 0); ir_func_has(f, IR_FN_B)"}.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text)
        found = problems(root)
    fits = len(found) == 2 and "B is set by 'one' and read by 'emit'" in found[0] and "reads C" in found[1]
    return [] if fits else [f"self-test: {found}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.update:
        (ROOT / TABLE).write_text(written(ROOT))
    found = self_test() if args.self_test else problems(ROOT)
    print("\n".join(found) if found else "the columns of ir/func_attrs.def hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
