#!/usr/bin/env python3
"""The forty operators of bench/operators, or the ten of bench/operators_further or bench/operators_afterwards (written when the
designs of 2026-11-23 were done): their form, and that the compiler takes each.

    operators.py FOLDER SKETCHC [FURTHER]     FURTHER: the forty's folder; FOLDER has ten others"""
import pathlib
import re
import subprocess
import sys

# The paper's eight categories, then the two that are ours; at least so many files of each.
CATEGORIES = {"elementwise": 4, "reduction": 4, "normalisation": 4, "manipulation": 4, "matmul": 4,
              "indexing": 4, "sorting": 3, "fused": 4, "convolution": 3, "loss": 3}
FURTHER = dict.fromkeys(list(CATEGORIES)[:8], 1)  # of the ten that were written when the compiler was done
HEAD = re.compile(r"\A# (\w+): [A-Z][^\n]*\.\noperator (\w+) \{\n")
CASES = ["aligned", "ragged", "thin", "large"]  # one size for static shapes, the others dynamic


def problems_of(file: pathlib.Path, sketchc: str, seen: dict[str, int]) -> list[str]:
    text = file.read_text()
    head = HEAD.match(text)
    if not head or head[1] not in CATEGORIES:
        return ["it does not begin with a category and a sentence, then the operator"]
    seen[head[1]] = seen.get(head[1], 0) + 1
    problems = []
    if head[2] != file.stem:
        problems.append(f"the operator is called {head[2]}")
    if re.search(r"^sketch\b", text, re.M):
        problems.append("there is a sketch in it")
    if re.findall(r"^    case (\w+) ", text, re.M) != CASES:
        problems.append(f"its cases are not {', '.join(CASES)}")
    for command in (["fmt", "--check"], ["--emit=graph", "-o", "/dev/null"]):
        done = subprocess.run([sketchc, *command, file], text=True, check=False, capture_output=True)
        if done.returncode or done.stderr:
            problems.append(f"{' '.join(command)}: status {done.returncode}\n{done.stderr}")
    return problems


def main() -> int:
    files = sorted(pathlib.Path(sys.argv[1]).glob("*.sketch"))
    further = len(sys.argv) > 3
    categories, count = (FURTHER, 10) if further else (CATEGORIES, 40)
    seen: dict[str, int] = {}
    bad = [f"{f.name}: {p}" for f in files for p in problems_of(f, sys.argv[2], seen)]
    bad += [f"{name}: {seen.get(name, 0)} files, at least {least} are wanted"
            for name, least in categories.items() if seen.get(name, 0) < least]
    if len(files) != count:
        bad.append(f"{len(files)} operators, not {count}")
    bad += [f"{f.name}: there is one of that name among the forty" for f in files
            if further and (pathlib.Path(sys.argv[3]) / f.name).exists()]
    print("\n".join(bad) if bad else f"{len(files)} operators in {len(seen)} categories")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
