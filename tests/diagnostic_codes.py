#!/usr/bin/env python3
"""Diagnostic codes are never reused: every code that was ever given out stands in
tests/diag/codes.txt with its name, and support/diags.def may only agree with it or add to it.
--update appends new codes; a code that is gone keeps its line."""
import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parent
LIST = TESTS / "diag/codes.txt"
ROW = re.compile(r'^DIAG\(\s*(\w+)\s*,\s*"([^"]*)"\s*,\s*(\w+)', re.M)
LETTERS = {"SEVERITY_ERROR": "E", "SEVERITY_WARNING": "W", "SEVERITY_NOTE": "N", "SEVERITY_BUG": "B"}


def read_list(text: str) -> list[tuple[str, str]]:
    return [tuple(line.split()) for line in text.splitlines() if line and not line.startswith("#")]


def compare(rows: list[tuple[str, str, str]], given: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """What is wrong, and the lines to append."""
    problems, new = [], []
    names, seen = dict(given), set()
    if len(names) != len(given):
        problems.append("codes.txt holds a code twice")
    for name, code, severity in rows:
        if not re.fullmatch(r"[EWNB]\d{4}", code) or LETTERS.get(severity) != code[0]:
            problems.append(f"{name}: the code {code} does not fit {severity}")
        if code in seen:
            problems.append(f"{name}: the code {code} stands in diags.def twice")
        seen.add(code)
        if code not in names:
            new.append(f"{code} {name}")
        elif names[code] != name:
            problems.append(f"{name}: {code} was given to {names[code]}; take a new code")
    return problems, new


def self_test() -> None:
    given = [("E0001", "a"), ("E0002", "gone")]
    assert compare([("a", "E0001", "SEVERITY_ERROR")], given) == ([], [])
    assert compare([("b", "W0003", "SEVERITY_WARNING")], given) == ([], ["W0003 b"])
    for row in (("b", "E0002", "SEVERITY_ERROR"), ("a", "E0001", "SEVERITY_NOTE"),
                ("a", "E1", "SEVERITY_ERROR")):
        assert compare([row], given)[0], row
    assert compare([("a", "E0001", "SEVERITY_ERROR")] * 2, given)[0]
    assert compare([], given + given)[0]


def main() -> int:
    self_test()
    rows = ROW.findall((TESTS.parent / "support/diags.def").read_text())
    text = LIST.read_text() if LIST.exists() else ""
    problems, new = compare(rows, read_list(text))
    if new and "--update" in sys.argv:
        LIST.parent.mkdir(exist_ok=True)
        LIST.write_text(text + "".join(line + "\n" for line in new))
        new = []
    if new:
        problems.append("not in tests/diag/codes.txt (tests/diagnostic_codes.py --update adds "
                        "them): " + ", ".join(new))
    print("\n".join(problems) if problems else f"{len(rows)} codes")
    return 1 if problems or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
