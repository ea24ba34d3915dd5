#!/usr/bin/env python3
"""Sketches that differ in what the code does not show are one candidate: the later ones are named so, are not timed and win nothing.

    same_code.py SKETCHC"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from common import OPERATOR

# Another comment in each answer: another text, the same code.
AGENT = '''#!/usr/bin/env python3
import os, sys
sys.stdin.read()
print(f"""sketch mine implements add_one {{
    symbols: N;
    tensors: X[N]: f32; Y[N]: f32;
    # answer {os.getpid()}
    for i in range(ceil(N, 96)):
        x = alloc([96])
        load(X[i*96:(i+1)*96] -> x)
        y = x + 1
        store(y -> Y[i*96:(i+1)*96])
}}
""")
'''


def trials(sketchc: str, folder: pathlib.Path, seed: int) -> list[dict]:
    store = f"--store={folder / 'a.db'}"
    done = subprocess.run([sketchc, "-q", "--propose", folder / "op.sketch", "-t", "openmp", "-o", folder / "out.sketch", "--strategy=islands",
                           f"--proposer=command:{folder / 'agent'}", f"--seed={seed}", "--candidates=10", "--search-time=600", "--workers=1", store],
                          text=True, check=False, capture_output=True, env=dict(os.environ, OMP_WAIT_POLICY="passive"))
    assert done.returncode == 0, (done.returncode, done.stderr)
    rows = subprocess.run([sketchc, "db", "query", "trials", "--json", store], text=True, check=True, capture_output=True).stdout
    rows = [json.loads(line) for line in rows.splitlines()]
    return [row for row in rows if row["run"] == rows[-1]["run"]]


def check(rows: list[dict]) -> int:
    """How many were the same."""
    same = [row for row in rows if row["status"].startswith("same code as candidate ")]
    for row in same:
        first = rows[int(row["status"].split()[-1]) - 1]
        assert row["seconds"] == 0 and not row["verified"], row
        assert first["number"] < row["number"] and first["status"] == "ok" and first["seconds"] > 0, (first, row)
    assert len([row for row in rows if row["source"] == "command" and row["seconds"] > 0]) <= 1, rows
    return len(same)


def main() -> None:
    sketchc = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "op.sketch").write_text(OPERATOR)
        (folder / "agent").write_text(AGENT)
        (folder / "agent").chmod(0o755)
        # The second search finds the first one's times in the store and compiles them for their code.
        counts = [check(trials(sketchc, folder, seed)) for seed in (1, 2)]
        assert counts[0] >= 3 and counts[1] >= 1, counts
    print(f"{counts} of the candidates were the code of earlier ones")


if __name__ == "__main__":
    main()
