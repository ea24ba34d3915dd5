"""Writes files as C strings: page.css becomes page_css.

    embed.py OUTPUT FILE..."""
import pathlib
import sys


def literal(line: str) -> str:
    return '"' + "".join(c if " " <= c < "\x7f" and c not in '"\\\\?' else f"\\{ord(c):03o}" for c in line) + '"'


parts = []
for path in map(pathlib.Path, sys.argv[2:]):
    lines = "\n    ".join(literal(line) for line in path.read_text().splitlines(keepends=True))
    parts.append(f"static const char {path.name.replace('.', '_')}[] =\n    {lines};\n")
pathlib.Path(sys.argv[1]).write_text("".join(parts))
