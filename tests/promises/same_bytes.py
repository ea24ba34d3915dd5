#!/usr/bin/env python3
"""Same input, same bytes: over runs, folders, locales (one with a decimal comma), environments.

    same_bytes.py SKETCHC SOURCE_ROOT TARGET..."""
import os
import pathlib
import shutil
import sys
import tempfile

from common import environment, must_run


def variants(folder: pathlib.Path, locales: pathlib.Path) -> dict[str, tuple[pathlib.Path, dict]]:
    """name: (folder with a copy of the examples, environment)"""
    near, far = folder / "near", folder / ("a rather long name/" * 3) / "far"
    plain = environment(folder / "home1")
    return {
        "first": (near, plain),
        "again": (near, plain),
        "another folder": (far, plain),
        "decimal comma": (near, environment(folder / "home2", LOCPATH=str(locales), LC_NUMERIC="de_DE.UTF-8")
                          | {"LC_ALL": "de_DE.UTF-8"}),
        "another environment": (near, environment(folder / "home3", TZ="Pacific/Chatham", USER="someone",
                                                  COLUMNS="40", MALLOC_PERTURB_="85")),
    }


def main() -> int:
    sketchc, root, *targets = os.path.abspath(sys.argv[1]), *sys.argv[2:]
    examples = pathlib.Path(root) / "examples"
    locales = pathlib.Path(sketchc).parent / "locale"
    sketches = sorted(examples.glob("*.sketch"))
    outputs = [f"-t {t}" for t in targets] + [f"-t {t} --emit=artifact" for t in targets]
    different = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        cases = variants(folder, locales)
        for place, env in cases.values():
            shutil.copytree(examples, place / "examples", dirs_exist_ok=True)
            pathlib.Path(env["HOME"]).mkdir(exist_ok=True)
        for sketch in sketches:
            for output in outputs:
                command = [sketchc, f"examples/{sketch.name}", *output.split(), "-o", folder / "out"]
                bytes_of = {}
                for case, (place, env) in cases.items():
                    must_run(command, env, place)
                    bytes_of[case] = (folder / "out").read_bytes()
                different += [f"{sketch.name} {output}: {case}" for case, data in bytes_of.items()
                              if data != bytes_of["first"] or not data]
    if not (locales / "de_DE.UTF-8").is_dir():
        print("no locale with a decimal comma (scripts/setup makes it)")
        return 77
    print("\n".join(different) if different else
          f"{len(sketches)} sketches x {len(outputs)} outputs x {len(cases)} surroundings are the same")
    return 1 if different or not sketches else 0


if __name__ == "__main__":
    sys.exit(main())
