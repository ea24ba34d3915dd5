#!/usr/bin/env python3
"""Sketches that rules design for operators, on the processor.

    design.py SKETCHC FOLDER CATEGORY...   the operators of those categories: the sketch that is chosen and the
                                           naive one are legal and verified at their small cases
    design.py --long SKETCHC FOLDER        all operators and styles that compile, with ragged sizes"""
import pathlib
import re
import subprocess
import sys

SMALL = ["--max-bytes=700000", "--no-ragged"]
NAIVE = ["naive", "naive_staged", "naive_rows"]
STYLES = re.compile(r'^STYLE\("(\w+)"', re.M)


def run(*command) -> subprocess.CompletedProcess:
    return subprocess.run([str(c) for c in command], text=True, check=False, capture_output=True)


def verify(sketchc: str, file: pathlib.Path, options: list[str]) -> str:
    """"" when verified, else why not."""
    done = run(sketchc, "verify", file, "-t", "openmp", *options)
    if done.returncode == 0 and re.search(r": [1-9]\d* passed, 0 failed", done.stdout):
        return ""
    return f"{file.stem} {' '.join(options)}: status {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}"


def takes(sketchc: str, file: pathlib.Path, style: str) -> bool:
    return run(sketchc, "-q", file, "-t", "openmp", f"--design={style}", "-o", "/dev/null").returncode == 0


def short(sketchc: str, file: pathlib.Path) -> list[str]:
    chosen = run(sketchc, file, "-t", "openmp", "--emit=sketch").stdout
    problems = [verify(sketchc, file, SMALL)]
    if not re.search(rf"^sketch {file.stem}_\w+ implements {file.stem} {{$", chosen, re.M):
        problems.append(f"{file.stem}: no sketch was printed\n{chosen}")
    if f"sketch {file.stem}_naive" in chosen:
        problems.append(f"{file.stem}: no style but naive ones fits")
    naive = next((s for s in NAIVE if takes(sketchc, file, s)), None)
    problems.append(verify(sketchc, file, [f"--design={naive}", *SMALL]) if naive
                    else f"{file.stem}: no naive style fits")
    return problems


def main() -> int:
    long = sys.argv[1] == "--long"
    sketchc, folder, *categories = sys.argv[1 + long:]
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    styles = STYLES.findall((root / "graph/design_styles.def").read_text())
    files = [f for f in sorted(pathlib.Path(folder).glob("*.sketch"))
             if long or f.read_text()[2:].split(":")[0] in categories]
    problems = []
    for file in files:
        if long:
            problems += [verify(sketchc, file, [f"--design={s}", "--max-bytes=40000000"])
                         for s in styles if takes(sketchc, file, s)]
        else:
            problems += short(sketchc, file)
    problems = [p for p in problems if p]
    print("\n".join(problems) if problems else f"{len(files)} operators")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
