#!/usr/bin/env python3
"""The build's options and the set-up: an older LLVM is refused by name, left out by `auto`, not
looked for by `disabled`; a second scripts/setup takes under 5 s.   options.py SOURCE_ROOT BUILD_ROOT"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

OLD = "14.0.6"


def setup(source: str, folder: pathlib.Path, llvm: str, path: str) -> tuple[int, str]:
    run = subprocess.run(["meson", "setup", f"-Dllvm={llvm}", folder / llvm, source], text=True,
                         capture_output=True, env=dict(os.environ, PATH=path), check=False)
    return run.returncode, run.stdout + run.stderr


def check_llvm(source: str) -> list[str]:
    problems = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for program in ("llvm-config-22", "llvm-config"):
            fake = folder / program
            fake.write_text(f"#!/bin/sh\necho {OLD}\n")
            fake.chmod(0o755)
        path = f"{folder}:{os.environ['PATH']}"
        wanted = {"enabled": (1, f"llvm-config-22 is {OLD}"), "auto": (0, f"llvm-config-22 is {OLD}"),
                  "disabled": (0, "disabled by -Dllvm=disabled")}
        for llvm, (status, message) in wanted.items():
            got, output = setup(source, folder, llvm, path)
            if got != status or message not in output:
                problems.append(f"-Dllvm={llvm} with LLVM {OLD}: status {got}\n{output[-500:]}")
    return problems


def main() -> int:
    source, build = sys.argv[1:3]
    problems = check_llvm(source)
    begin = time.perf_counter()
    again = subprocess.run([f"{source}/scripts/setup", os.path.relpath(build, source)], check=False)
    seconds = time.perf_counter() - begin
    print(f"figure: setup_again {seconds:.2f} s ")
    if again.returncode:
        problems.append(f"scripts/setup a second time: status {again.returncode}, {seconds:.1f} s")
    print("\n".join(problems) if problems else "the options do what they say")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
