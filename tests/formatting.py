#!/usr/bin/env python3
"""All C sources are as clang-format makes them by .clang-format: its major version is VERSION (Debian 12), others format otherwise.

    formatting.py ROOT          status 77 where that version is not there
    formatting.py --self-test   a file that is not so is found"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

VERSION = 14


def formatter() -> str | None:
    for name in (f"clang-format-{VERSION}", "clang-format"):
        told = subprocess.run([name, "--version"], capture_output=True, text=True, check=False).stdout if shutil.which(name) else ""
        if re.search(rf"version {VERSION}\.", told):
            return name
    return None


def badly_formatted(program: str, root: pathlib.Path, files: list[str]) -> list[str]:
    done = subprocess.run([program, "--dry-run", "-Werror", *files], cwd=root, capture_output=True, text=True, check=False)
    return sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M)))


def self_test(program: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / ".clang-format").write_text((pathlib.Path(__file__).parent.parent / ".clang-format").read_text())
        (root / "good.c").write_text("int main(void) {\n    return 0;\n}\n")
        (root / "bad.c").write_text("int main( void )\n{ return 0; }\n")
        found = badly_formatted(program, root, ["good.c", "bad.c"])
    return [] if found == ["bad.c"] else [f"found {found}"]


def main() -> int:
    program = formatter()
    if not program:
        print(f"clang-format {VERSION} is not installed")
        return 77
    if sys.argv[1] == "--self-test":
        problems = self_test(program)
    else:
        root = pathlib.Path(sys.argv[1])
        listed = subprocess.run(["git", "ls-files", "*.c", "*.h"], cwd=root, capture_output=True, text=True, check=True).stdout.split()
        problems = badly_formatted(program, root, [f for f in listed if (root / f).is_file()])
    print("\n".join(problems) if problems else "all C sources are formatted")
    if problems:
        print(f"remedy: {program} -i on each")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
