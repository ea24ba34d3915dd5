#!/usr/bin/env python3
"""Sizes of the command line are those of a search, where the file has cases and where it has none; whoever is asked is told of them.

    sizes.py SKETCHC"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from common import OPERATOR


def propose(sketchc: str, folder: pathlib.Path, name: str, *options: str) -> dict:
    done = subprocess.run([sketchc, "--propose", folder / name, "-t", "openmp", "-D", "N=5003", "--json", "--search-time=120", "-o",
                           folder / "out.sketch", *options], text=True, check=False, capture_output=True, env=dict(os.environ, OMP_WAIT_POLICY="passive"))
    assert done.returncode == 0, (name, done.returncode, done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    sketchc = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (folder / "cases.sketch").write_text(OPERATOR)
        (folder / "none.sketch").write_text("\n".join(line for line in OPERATOR.splitlines() if " case " not in line) + "\n")
        found = {name: propose(sketchc, folder, f"{name}.sketch", "--candidates=1") for name in ("cases", "none")}
        assert all(f["verified"] and f["best_s"] > 0 for f in found.values()), found
        assert found["none"]["case"] == "given" and found["cases"]["case"] in ("ragged", "large"), found
        # The winner of the file without cases is verified at those sizes, too.
        verify = subprocess.run([sketchc, "verify", folder / "out.sketch", "-t", "openmp", "--no-ragged", "-D", "N=5003"], text=True, check=False,
                                capture_output=True)
        assert verify.returncode == 0 and "N=5003" in verify.stdout, verify
        prompt = subprocess.run([sketchc, "--propose", folder / "none.sketch", "-t", "openmp", "-D", "N=5003", "--explain-prompt"], text=True,
                                check=True, capture_output=True).stdout
        assert "it is verified and timed with N=5003." in prompt, prompt[-800:]
    print("the sizes of the command line were searched at")


if __name__ == "__main__":
    main()
