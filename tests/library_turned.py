#!/usr/bin/env python3
"""Holds the sketches of library/ for a right factor that lies column by column in step with those for one that lies row by row.

NAME_turned.sketch is NAME.sketch with the axes of B, and of what is made of B, the other way round. Without the order of axes, of loops and of
what is broadcast along them, both have the same statements.

    library_turned.py               all of library/
    library_turned.py --self-test   a statement that only one of them has is found"""
import collections
import pathlib
import re
import sys

LIBRARY = pathlib.Path(__file__).resolve().parent.parent / "library"
# What the order of axes changes: the text, and what stands for it in both.
ORDER = [(r"_turned\b", ""), (r"matmul\(A, B, trans_b=true\)", "A @ B"), (r", trans_[ab]=true", ""), (r"\baxis=[01]\b", "axis=?"),
         (r"\breshape\(([^()]+), \[\w+, 1\]\)", r"\1"), (r"ceil\(N, 64\)\*64", "N"), (r"\bC[TL]\b", "C?")]


ALLOC = re.compile(r"\s*\w+ = alloc\(")  # counts once: a load may reuse a tile
NEAR = 3  # statements in front of a transpose in which its operand is made


def without_transposes(lines: list[str]) -> list[str]:
    """A tile that is loaded and transposed is loaded the other way round."""
    kept: list[str] = []
    for line in lines:
        if found := re.fullmatch(r"\s*(\w+) = transpose\((\w+)\)", line):
            kept[-NEAR:] = [re.sub(rf"\b{found[2]}\b", found[1], near) for near in kept[-NEAR:]]
        else:
            kept.append(line)
    return kept


def statements(text: str) -> collections.Counter:
    """How often each statement is there."""
    text = re.sub(r"^#.*\n", "", text, flags=re.M)
    lines, depth = [""], 0
    for line in text.splitlines():
        lines[-1] += " " + line.strip()
        depth += sum(line.count(c) for c in "([") - sum(line.count(c) for c in ")]")
        if not depth:
            lines.append("")
    lines = without_transposes(lines)
    for pattern, stands_for in ORDER:
        lines = [re.sub(pattern, stands_for, line) for line in lines]
    every, once = [], set()
    for line in lines:
        pieces = "".join(sorted(re.split(r"([\[\],;:]|->|\s+)", line))).strip()
        (once.add if ALLOC.match(line) else every.append)(pieces)
    return collections.Counter([*every, *once])


def differences(plain: str, turned: str) -> list[str]:
    one, other = statements(plain), statements(turned)
    return [f"only {where}, {count} times: {line}" for where, more, less in (("row by row", one, other), ("column by column", other, one))
            for line, count in (more - less).items()]


def check() -> list[str]:
    pairs = [(f.with_name(f.name.replace("_turned", "")), f) for f in sorted(LIBRARY.glob("*_turned.sketch"))]
    return [f"{turned.name}: {d}" for plain, turned in pairs for d in differences(plain.read_text(), turned.read_text())]


def self_test() -> list[str]:
    plain = "constexpr: BM = 128;\nload(B[p, c*CK:(c+1)*CK, n*T:(n+1)*T] -> x)\nmost = max(abs(x), axis=0)\ngemm(a, b, part)\n"
    turned = "constexpr: BM = 128;\nload(B[p, n*T:(n+1)*T, c*CK:(c+1)*CK] -> x)\nmost = max(abs(x), axis=1)\ngemm(a, b, part, trans_b=true)\n"
    wrong = [f"in step, and found: {d}" for d in differences(plain, turned)]
    wrong += [f"in step, and found: {d}" for d in differences("x = alloc([BK, BN])\nload(B -> x)\nw = transpose(x)\n", "w = alloc([BN, BK])\nload(B -> w)\n")]
    for old, new in (("BM = 128", "BM = 64"), ("abs(x)", "x"), ("gemm(a, b, part)\n", ""), ("c*CK", "(c-1)*CK")):
        if not differences(plain.replace(old, new), turned):
            wrong.append(f"not found: {new or 'without'} {old}")
    return wrong


def main() -> int:
    problems = self_test() if sys.argv[1:] == ["--self-test"] else check()
    print("\n".join(problems) if problems else "the turned sketches are in step")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
