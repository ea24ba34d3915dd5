#!/usr/bin/env python3
"""Every test that tests/rulings.md names exists, every section of the reference too, and every row names both.

    rulings.py ROOT | --self-test"""
import pathlib
import re
import sys

ROW = re.compile(r"^\| (.+?) \| (.*?) \| (.*?) \|$")


def anchors(text: str) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", text, re.M)
    return {"#" + re.sub(r"[^a-z0-9_ -]", "", head.lower()).replace(" ", "-") for head in heads}


def mistakes(table: str, sections: set[str], tests: pathlib.Path) -> list[str]:
    found, rows = [], 0
    for line in table.splitlines():
        row = ROW.match(line)
        if not row or row[1] in ("ruling", "---"):
            continue
        rows += 1
        names = re.findall(r"`([^`]+)`", row[2])
        found += [f"{row[1]}: there is no {name}" for name in names if not (tests / name).is_file()]
        if not names:
            found.append(f"{row[1]}: no test holds it")
        if row[3] not in sections:
            found.append(f"{row[1]}: the reference has no section {row[3]}")
    return found if rows else ["the table has no row"]


def self_test() -> None:
    here = pathlib.Path(__file__).parent
    row = "| a | `{}` | {} |"
    assert mistakes(row.format("rulings.py", "#types"), {"#types"}, here) == []
    for wrong in (row.format("no.py", "#types"), row.format("rulings.py", "#tapes"), "| a | none | #types |", ""):
        assert len(mistakes(wrong, {"#types"}, here)) == 1, wrong
    assert anchors("## Index tiles: gather and scatter\n") == {"#index-tiles-gather-and-scatter"}


def main() -> int:
    if sys.argv[1] == "--self-test":
        self_test()
        return 0
    root = pathlib.Path(sys.argv[1])
    found = mistakes((root / "tests/rulings.md").read_text(), anchors((root / "docs/language.md").read_text()),
                     root / "tests")
    print("\n".join(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
