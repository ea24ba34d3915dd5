#!/usr/bin/env python3
"""Same input, same bytes: over runs, folders, locales (one with a decimal comma), environments. The short
run changes all of them at once, of a quarter of the examples each day (a twelfth under the sanitizers), the long one also each by itself.

    same_bytes.py SKETCHC SOURCE_ROOT TARGET..."""
import concurrent.futures
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import daily
from common import LONG, environment, must_run


def variants(folder: pathlib.Path, locales: pathlib.Path) -> dict[str, tuple[pathlib.Path, dict]]:
    """name: (folder with a copy of the examples, environment)"""
    near, far = folder / "near", folder / ("a rather long name/" * 3) / "far"
    plain = environment(folder / "home1")
    comma = {"LOCPATH": str(locales), "LC_NUMERIC": "de_DE.UTF-8", "LC_ALL": "de_DE.UTF-8"}
    other = {"TZ": "Pacific/Chatham", "USER": "someone", "COLUMNS": "40", "MALLOC_PERTURB_": "85"}
    short = {
        "first": (near, plain),
        "everything else": (far, environment(folder / "home2") | comma | other),
    }
    alone = {
        "again": (near, plain),
        "another folder": (far, plain),
        "decimal comma": (near, environment(folder / "home3") | comma),
        "another environment": (near, environment(folder / "home4") | other),
    }
    return short | alone if LONG else short


def differing(command: list, cases: dict, out: pathlib.Path) -> list[str]:
    bytes_of = {}
    for case, (place, env) in cases.items():
        must_run([*command, "-o", out], env, place)
        bytes_of[case] = out.read_bytes()
        out.unlink()
    return [f"{' '.join(command[1:])}: {case}" for case, data in bytes_of.items()
            if data != bytes_of["first"] or not data]


def main() -> int:
    sketchc, root, *targets = os.path.abspath(sys.argv[1]), *sys.argv[2:]
    examples = pathlib.Path(root) / "examples"
    locales = pathlib.Path(sketchc).parent / "locale"
    sketches = daily.drawn(sorted(examples.glob("*.sketch")), 12 if os.environ.get("SANITIZED") else 8)
    outputs = [f"-t {t}" for t in targets] + [f"-t {t} --emit=artifact" for t in targets]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        cases = variants(folder, locales)
        for place, env in cases.values():
            shutil.copytree(examples, place / "examples", dirs_exist_ok=True)
            pathlib.Path(env["HOME"]).mkdir(exist_ok=True)
        commands = [[sketchc, f"examples/{sketch.name}", *output.split()] for sketch in sketches for output in outputs]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(lambda job: differing(job[1], cases, folder / f"out{job[0]}"), enumerate(commands))
            different = [line for lines in found for line in lines]
    if not (locales / "de_DE.UTF-8").is_dir():
        print("no locale with a decimal comma (scripts/setup makes it)")
        return 77
    print("\n".join(different) if different else
          f"{len(sketches)} sketches x {len(outputs)} outputs x {len(cases)} surroundings are the same")
    return 1 if different or not sketches else 0


if __name__ == "__main__":
    sys.exit(main())
