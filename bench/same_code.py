#!/usr/bin/env python3
"""Says whether two builds of the compiler emit the same code, byte for byte.

    bench/same_code.py hash SKETCHC OUT.json [--jobs=N] [--artifacts] [--renamed=MAP]
    bench/same_code.py compare BEFORE.json AFTER.json [--report=FILE.md]

`hash` compiles every .sketch file under version control, and every sketch in it, to CUDA C, PTX
and C with OpenMP (with --artifacts also to artifacts for OpenMP), and writes one hash for each:
of the code, or of the diagnostics where the file is refused. `compare` lists what differs and
ends with status 1 if anything does. With a map of names, of lines `OLD NEW`, a name that is not
distinguished from another is written as the first of them, with any number behind it gone, before
the hash is made, and white space does not count: both builds are hashed with the same map."""
import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FORMS = {"cuda": ["-t", "cuda", "--arch=sm_90a"], "ptx": ["-t", "nvptx", "--arch=sm_90a"],
         "ptx sm_80": ["-t", "nvptx", "--arch=sm_80"], "c": ["-t", "openmp", "--arch=x86-64-v3"]}
ARTIFACT = {"artifact": ["-t", "openmp", "--arch=x86-64-v3", "--emit=artifact"]}
SKETCH = re.compile(r"^\s*sketch\s+(\w+)", re.M)
LIMIT_S = 600


def sketch_files() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.sketch"], cwd=ROOT, check=True,
                            capture_output=True, text=True)
    return listed.stdout.split()


def jobs_of(path: str, forms: dict[str, list[str]]) -> list[tuple[str, list[str]]]:
    """The compilations of one file: a name and the command's options for each."""
    names = SKETCH.findall((ROOT / path).read_text(errors="replace")) or [""]
    return [(f"{path} {name} {form}".replace("  ", " "),
             [*options, *([f"--sketch={name}"] if name else []), path])
            for name in dict.fromkeys(names) for form, options in forms.items()]


def read_map(path: str | None) -> list[tuple[re.Pattern, str]]:
    """Of each line: what finds either name, alone or as the last part of a longer one, and the name to write."""
    if not path:
        return []
    lines = [line.split() for line in pathlib.Path(path).read_text().splitlines() if line and line[0] != "#"]
    return [(re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, names))})(?:_?\d+)?(?![A-Za-z0-9])"), names[0]) for names in lines]


def normal(text: bytes, names: list[tuple[re.Pattern, str]]) -> bytes:
    if not names:
        return text
    changed = text.decode(errors="replace")
    for pattern, name in names:
        changed = pattern.sub(name, changed)
    return " ".join(changed.split()).encode()


def emitted_hash(sketchc: str, options: list[str], names: list[tuple[re.Pattern, str]] = ()) -> str:
    with tempfile.NamedTemporaryFile() as out:
        try:
            done = subprocess.run([sketchc, "compile", *options, "-o", out.name], cwd=ROOT,
                                  capture_output=True, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            return "time"
        text = pathlib.Path(out.name).read_bytes() if done.returncode == 0 else done.stderr
    return f"{done.returncode} {hashlib.sha256(normal(text, names)).hexdigest()[:24]}"


def hash_all(args: argparse.Namespace) -> int:
    sketchc = str(pathlib.Path(args.sketchc).resolve())
    names = read_map(args.renamed)
    forms = FORMS | (ARTIFACT if args.artifacts else {})
    work = [job for path in sketch_files() for job in jobs_of(path, forms)]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        hashes = list(pool.map(lambda job: emitted_hash(sketchc, job[1], names), work))
    table = {name: value for (name, _), value in zip(work, hashes)}
    pathlib.Path(args.out).write_text(json.dumps(table, indent=0, sort_keys=True) + "\n")
    print(f"{len(table)} compilations, {sum(v.startswith('0') for v in hashes)} with code")
    return 0


def compare(args: argparse.Namespace) -> int:
    before, after = (json.loads(pathlib.Path(p).read_text()) for p in (args.before, args.after))
    both = sorted(before.keys() & after.keys())
    differ = [name for name in both if before[name] != after[name]]
    lines = [f"{len(both)} compilations compared, {len(differ)} differ, "
             f"{len(before.keys() ^ after.keys())} in one list alone."]
    coded = sum(before[name].startswith("0") for name in both)
    lines.append(f"{coded} of them give code, the others the same diagnostics.")
    print("\n".join(lines + differ))
    if args.report:
        pathlib.Path(args.report).write_text("\n".join(lines + differ) + "\n")
    return 1 if differ else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("hash")
    one.add_argument("sketchc")
    one.add_argument("out")
    one.add_argument("--jobs", type=int, default=2)
    one.add_argument("--artifacts", action="store_true")
    one.add_argument("--renamed")
    one.set_defaults(do=hash_all)
    two = commands.add_parser("compare")
    two.add_argument("before")
    two.add_argument("after")
    two.add_argument("--report")
    two.set_defaults(do=compare)
    args = parser.parse_args()
    return args.do(args)


if __name__ == "__main__":
    sys.exit(main())
