#!/usr/bin/env python3
"""Makes the folder of -Dportable=true: stripped programs, the libraries that Debian has no archive
of beside them, the documents. Fails when a program needs more than that and glibc.

    assemble.py STAMP FOLDER SOURCE_ROOT CC PROGRAM..."""
import pathlib
import re
import shutil
import subprocess
import sys

GLIBC = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
CARRIED = {"libcjson.so.1"}
NEWEST_GLIBC = (2, 36)


def output(*command) -> str:
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


def needed(file: pathlib.Path) -> set[str]:
    return set(re.findall(r"\(NEEDED\).*\[(.*?)\]", output("readelf", "-dW", file)))


def check_glibc(file: pathlib.Path) -> None:
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", output("readelf", "-VW", file))
    newest = max((int(a), int(b)) for a, b in versions)
    if newest > NEWEST_GLIBC:
        sys.exit(f"{file.name} needs glibc {newest[0]}.{newest[1]}")


def main() -> None:
    stamp, folder, root, compiler = sys.argv[1:5]
    target = pathlib.Path(folder)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    libraries: set[str] = set()
    for program in map(pathlib.Path, sys.argv[5:]):
        stripped = target / program.name
        subprocess.run(["strip", "-o", stripped, program], check=True)
        check_glibc(stripped)
        libraries |= needed(stripped) - GLIBC
    if libraries - CARRIED:
        sys.exit(f"a portable build may not need {sorted(libraries - CARRIED)}")
    for name in libraries:
        found = output(compiler, f"-print-file-name={name}").strip()
        shutil.copyfile(pathlib.Path(found).resolve(), target / name)
        (target / name).chmod(0o755)
    shutil.copyfile(f"{root}/LICENSE", target / "LICENSE")
    if pathlib.Path(f"{root}/docspec").is_dir():
        shutil.copytree(f"{root}/docspec", target / "docspec", ignore=shutil.ignore_patterns("meson.build"))
    pathlib.Path(stamp).write_text("\n".join(sorted(f.name for f in target.iterdir())) + "\n")


if __name__ == "__main__":
    main()
