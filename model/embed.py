"""Writes target_data.h: the documents of docspec/targets/ as C string literals.

usage: embed.py OUTPUT FILE.json ..."""
import pathlib
import sys


def literal(data: bytes) -> str:
    escaped = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in data)
    return f'"{escaped}"'


rows = []
for path in map(pathlib.Path, sys.argv[2:]):
    data = path.read_bytes()
    lines = "\n     ".join(literal(line) for line in data.splitlines(keepends=True))
    rows.append(f'    {{"{path.stem}", {len(data)},\n     {lines}}},\n')
pathlib.Path(sys.argv[1]).write_text(
    "static const struct {\n    const char *name;\n    size_t size;\n    const char *text;\n"
    "} target_documents[] = {\n" + "".join(rows) + "};\n")
