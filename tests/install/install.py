#!/usr/bin/env python3
"""What `meson install` puts in place is complete: a program that knows the installed files only,
found by pkg-config, builds and runs; the library shows its interface and nothing else.

    install.py BUILD_ROOT VERSION"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

EXAMPLE = pathlib.Path(__file__).with_name("example.c")


def output(*command, **options) -> str:
    run = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **options)
    if run.returncode:
        sys.exit(f"{shlex.join(map(str, command))}: status {run.returncode}\n{run.stdout}{run.stderr}")
    return run.stdout


def find_one(root: pathlib.Path, pattern: str) -> pathlib.Path:
    found = sorted(root.rglob(pattern))
    if not found:
        sys.exit(f"no {pattern} was installed")
    return found[0]


def check_library(library: pathlib.Path, version: str) -> None:
    soname = re.search(r"\(SONAME\).*\[(.*)\]", output("readelf", "-dW", library))[1]
    if soname != "libsketchc.so." + version.split(".")[0]:
        sys.exit(f"the soname is {soname}")
    exported = [line.split()[-1] for line in output("nm", "-D", "--defined-only", library).splitlines()]
    strangers = [name for name in exported if not name.startswith("sketchc_")]
    if strangers or not exported:
        sys.exit(f"{len(strangers)} symbols beside sketchc_* are exported: {strangers[:5]}")
    print(f"{len(exported)} symbols, soname {soname}")


def main() -> None:
    build, version = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        output("meson", "install", "-C", build, "--no-rebuild", "--destdir", root)
        module = find_one(root, "sketchc.pc")
        env = dict(os.environ, PKG_CONFIG_PATH=str(module.parent), PKG_CONFIG_SYSROOT_DIR=str(root))
        if output("pkg-config", "--modversion", "sketchc", env=env).strip() != version:
            sys.exit("pkg-config tells another version")
        flags = shlex.split(output("pkg-config", "--cflags", "--libs", "sketchc", env=env))
        program = root / "example"
        compiler = shlex.split(os.environ.get("CC", "cc"))
        output(*compiler, "-std=c17", "-Wall", "-Wextra", "-Werror", "-pedantic", EXAMPLE, "-pthread", "-o", program, *flags)
        library = find_one(root, "libsketchc.so")
        check_library(library.resolve(), version)
        print(output(program, env=dict(os.environ, LD_LIBRARY_PATH=str(library.parent))).strip())
        for name in ("sketchc.h", "sketchc", "sketch-opt", "sketchc.1", "sketchc.bash", "_sketchc",
                     "sketchc.fish", "sm_90a.json", "LICENSE"):
            print(find_one(root, name).relative_to(root))


if __name__ == "__main__":
    main()
