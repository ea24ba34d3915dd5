#!/usr/bin/env python3
"""What export-dataset writes follows its schema, and a tuple verifies again: as text and as the artifact that came out of the store.

    dataset.py SKETCHC TEST_STORE"""
import base64
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import schema_check  # noqa: E402
from common import OPERATOR  # noqa: E402


def make(sketchc: str, tool: str, folder: pathlib.Path) -> tuple[str, bytes]:
    """A store with one result; its sketch and artifact."""
    (folder / "operator").write_text(OPERATOR)
    whole = subprocess.run([sketchc, "--emit=sketch", "-t", "openmp", folder / "operator"], text=True, check=True,
                           stdout=subprocess.PIPE).stdout
    sketch = whole[whole.index("\nsketch ") + 1:]
    (folder / "sketch").write_text(sketch)
    subprocess.run([sketchc, "--emit=artifact", "-t", "openmp", folder / "operator", "-o", folder / "artifact"], check=True)
    subprocess.run([tool, folder / "a.db", "tuple", folder / "operator", folder / "sketch", folder / "artifact"], check=True)
    return sketch, (folder / "artifact").read_bytes()


def main() -> int:
    sketchc, tool = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        sketch, artifact = make(sketchc, tool, folder)
        subprocess.run([sketchc, "export-dataset", folder / "a.db", "-o", folder / "tuples"], check=True)
        lines = [json.loads(line) for line in (folder / "tuples").read_text().splitlines()]
        schema = json.loads((ROOT / "docs/schemas/dataset.schema.json").read_text())
        problems = [p for line in lines for p in schema_check.check(line, schema, schema, "tuple")]
        assert len(lines) == 1 and not problems, (lines, problems)
        line = lines[0]
        assert (line["operator"], line["definition"], line["sketch"], line["seconds"]) == ("add_one", OPERATOR, sketch, 0.25)
        assert base64.b64decode(line["artifact"], validate=True) == artifact
        (folder / "again.sketch").write_text(line["definition"] + "\n" + line["sketch"])
        (folder / "again.ska").write_bytes(base64.b64decode(line["artifact"]))
        for again in (["-t", "openmp", folder / "again.sketch"], [folder / "again.ska"]):
            subprocess.run([sketchc, "-q", "verify", "--no-ragged", *again], check=True)
    print("a tuple verifies again, as text and as artifact")
    return 0


if __name__ == "__main__":
    sys.exit(main())
