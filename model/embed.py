"""Writes a header with files as C string literals: documents of docspec/.

usage: embed.py OUTPUT ARRAY FILE ..."""
import pathlib
import sys


def literal(data: bytes) -> str:
    escaped = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in data)
    return f'"{escaped}"'


rows = []
for path in map(pathlib.Path, sys.argv[3:]):
    data = path.read_bytes()
    lines = "\n     ".join(literal(line) for line in data.splitlines(keepends=True))
    rows.append(f'    {{"{path.stem}", {len(data)},\n     {lines}}},\n')
pathlib.Path(sys.argv[1]).write_text(
    "static const struct {\n    const char *name;\n    size_t size;\n    const char *text;\n"
    f"}} {sys.argv[2]}[] = {{\n" + "".join(rows) + "};\n")
