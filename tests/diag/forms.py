#!/usr/bin/env python3
"""Text, JSON and SARIF say the same of every sketch here: the driver's JSON and SARIF follow their
schemas and name the codes of its text, in order, at the same lines.

    forms.py SKETCHC TESTS_DIAG"""
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from schema_check import check  # noqa: E402

SCHEMAS = {"json": ROOT / "docs/schemas/diagnostics.schema.json", "sarif": ROOT / "tests/sarif.schema.json"}
HEAD = re.compile(r"^(?:[^:\n]+:(\d+):\d+|sketchc): (?:internal error|error|warning|note)\[(\w+)\]:", re.M)


def report(sketchc: str, file: pathlib.Path, form: str) -> str:
    given = re.search(r"^# ARGS: (.*)$", file.read_text(errors="replace"), re.M)
    args = given[1].split() if given else ["-t", "openmp"]
    run = subprocess.run([sketchc, file.name, *args, "-v", f"--diagnostics={form}", "-o", "/dev/null"], cwd=file.parent,
                         check=False, text=True, errors="replace", capture_output=True, timeout=120)
    return run.stderr


def in_json(value: dict) -> list[tuple[int, str]]:
    return [(d["location"]["begin"]["line"] if d["location"] else 0, d["code"]) for d in value["diagnostics"]]


def in_sarif(value: dict) -> list[tuple[int, str]]:
    found = []
    for result in value["runs"][0]["results"]:
        places = result.get("locations") or [{}]
        region = places[0].get("physicalLocation", {}).get("region", {})
        found.append((region.get("startLine", 0), result["ruleId"]))
    return found


def problems_of(sketchc: str, file: pathlib.Path) -> list[str]:
    text = report(sketchc, file, "text")
    want = [(int(line or 0), code) for line, code in HEAD.findall(text)]
    problems = []
    for form, read in (("json", in_json), ("sarif", in_sarif)):
        output = report(sketchc, file, form)
        if not want and not output.strip():
            continue
        try:
            value = json.loads(output)
        except json.JSONDecodeError as error:
            problems.append(f"{file.name}: {form}: {error}: {output[:200]!r}")
            continue
        schema = json.loads(SCHEMAS[form].read_text())
        problems += [f"{file.name}: {form}: {p}" for p in check(value, schema, schema)]
        if not problems and sorted(read(value)) != sorted(want):
            problems.append(f"{file.name}: {form} says {read(value)}, the text {want}")
    return problems


def main() -> int:
    sketchc, folder = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2])
    files = sorted(folder.glob("*.sketch"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        problems = [p for found in pool.map(lambda f: problems_of(sketchc, f), files) for p in found]
    print("\n".join([*problems, f"{len(files)} sketches, {len(problems)} problems"]))
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
