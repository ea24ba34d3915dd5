#!/usr/bin/env python3
"""Every diagnostic that the front end reports has a golden in tests/diag (the limits below, whose
inputs are generated, have theirs in tests/unit/frontend/test_limits.c)."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GENERATED = {"source_too_large", "too_many_errors", "flow_limit"}


def main() -> int:
    rows = re.findall(r'^DIAG\(\s*(\w+)\s*,\s*"(\w+)"', (ROOT / "support/diags.def").read_text(), re.M)
    codes = dict(rows)
    used = set()
    for file in sorted((ROOT / "frontend").iterdir()):
        if file.suffix in (".c", ".re", ".y") and not file.name.startswith("build"):
            used |= set(re.findall(r"\bDIAG_([a-z]\w*)", file.read_text()))
    goldens = "".join(f.read_text() for f in (ROOT / "tests/diag").glob("*.err"))
    limits = (ROOT / "tests/unit/frontend/test_limits.c").read_text()
    missing = [n for n in sorted(used)
               if not (f'"{codes[n]}"' in limits if n in GENERATED else f"[{codes[n]}]" in goldens)]
    for name in missing:
        print(f"{codes[name]} ({name}) has no test")
    print(f"{len(used)} diagnostics of the front end, {len(missing)} without a test")
    return 1 if missing or not used else 0


if __name__ == "__main__":
    sys.exit(main())
