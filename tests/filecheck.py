#!/usr/bin/env python3
"""Runs the test files below a folder and reports them as TAP.

A test file is one of two kinds:

  RUN lines   `RUN: COMMAND` after a comment leader (#, // or ;), `\\` continues on the next RUN
              line. Commands run in bash with pipefail in the file's folder. Substituted: %sketchc,
              %sketch-opt, %emit_tool, %sema_dump, %python (with what tests/requirements.txt names),
              %s (this file), %t (a temporary path of this test, its folder exists).
              Helpers: FileCheck; `not CMD` (exits with 1: an error in a file, or nothing found; `not --status=N CMD`:
              with N, which is no crash, no internal error and no time limit); `status N CMD` (exits with exactly N);
              `golden FILE` (standard input equals FILE); `others CMD` (a compiler that is none of ours: runs where
              SANITIZED is not set, else only takes its input); `ragged CMD` (a long verify: every other day, by
              the file's name, at ragged sizes, too; where SANITIZED is set at no ragged sizes and cases up to 10 MB);
              `$(drawn N FILES)`: every N-th file, by the day's seed (tests/daily.py), all of them in the long run;
              N may be $FEW: 3 where SANITIZED is set, else 2.
  goldens     a .sketch file without RUN lines: `sketchc FILE -o %t ARGS` exits with STATUS and
              writes exactly FILE.err to standard error. `ARGS:` (default: none) and
              `STATUS:` (default: 1) are comment lines of the file.

`REQUIRES: a, b` skips the file, with the reason, where a feature is missing: llvm, nvcc, ptxas,
gpu, compute-sanitizer, gcc, signals, plain (no sanitizers). --update-golden (or UPDATE_GOLDEN=1) rewrites goldens."""
import argparse
import collections
import concurrent.futures
import ctypes
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys

import daily

LEADER = r"(?:^|\s)(?:#|//|;)\s*"
VERIFIES = re.compile(LEADER + r"RUN:.* verify ")
SUFFIXES = {".sketch", ".skir", ".test"}
AN_ERROR, OUR_BUG, SANITIZER = 1, 5, 99
SPENT = re.compile(r"\nprocessor seconds: ([\d.]+)\n\Z")  # what tests/tools/timed adds to standard error
PRELUDE = f"""set -o pipefail
not() {{
  local want={AN_ERROR} s
  case "$1" in --status=*) want=${{1#--status=}}; shift;; esac
  "$@"; s=$?
  case "$want" in 0|{OUR_BUG}|{SANITIZER}|12[4-9]|1[3-9]?|2??) echo "not --status=$want: this is no failure to wait for" >&2; return 1;; esac
  [ $s -eq $want ] || {{ echo "exit status $s, not $want" >&2; return 1; }}
}}
status() {{ local want=$1 s; shift; "$@"; s=$?; [ $s -eq $want ] || {{ echo "exit status $s, not $want" >&2; return 1; }}; }}
drawn() {{
  local rate=$1 i=0 f; shift; [ -z "${{DRAW_ALL:-}}" ] || rate=1
  for f; do [ $((i++ % rate)) -ne $((DRAW_SEED % rate)) ] || echo "$f"; done
}}
ragged() {{ "$@" ${{NO_RAGGED:-}}; }}
others() {{ if [ -n "${{SANITIZED:-}}" ]; then cat > /dev/null; else "$@"; fi; }}
golden() {{
  if [ -n "${{UPDATE_GOLDEN:-}}" ]; then cat > "$1"; else diff -u "$1" -; fi
}}
"""


class Skip(Exception):
    pass


def has_gpu() -> bool:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def cuda_folders() -> list[str]:
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    return [f"{home}/bin" for home in homes if home]


def find_features(given: list[str], path: str) -> set[str]:
    features = set(given)
    for program in ("nvcc", "ptxas", "compute-sanitizer", "gcc"):
        if shutil.which(program, path=path):
            features.add(program)
    if has_gpu():
        features.add("gpu")
    return features


def directives(text: str, name: str) -> list[str]:
    found, joined = [], ""
    for line in text.splitlines():
        match = re.search(LEADER + name + r":\s*(.*?)\s*$", line)
        if not match:
            continue
        joined += match.group(1)
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
        else:
            found.append(joined)
            joined = ""
    return found + ([joined] if joined else [])


class Runner:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.path = os.pathsep.join([os.environ.get("PATH", ""), *cuda_folders()])
        self.features = find_features(args.feature, self.path)
        self.programs = {}
        timed = pathlib.Path(args.build) / "tests/tools/timed"
        self.shell_words = [*([str(timed)] if timed.exists() else []), "bash", "-c"]
        self.spent = collections.Counter()  # processor seconds of a file
        for name in args.program:  # NAME in the build folder, or NAME=PATH
            name, _, path = name.partition("=")
            self.programs[name] = path or str(pathlib.Path(args.build) / name)

    def environment(self, folder: pathlib.Path) -> dict[str, str]:
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("SKETCHC_") and k not in ("NO_COLOR", "CLICOLOR_FORCE")}
        env.update(PATH=self.path, LC_ALL="C.UTF-8", TMPDIR=str(folder),
                   XDG_CACHE_HOME=str(folder / "cache"))
        env["DRAW_SEED"] = str(daily.seed_of(os.environ.get("SKETCHC_TEST_SEED", "1")))
        if os.environ.get("SKETCHC_TEST_LONG") == "1":
            env["DRAW_ALL"] = "1"
        env["FEW"] = "3" if os.environ.get("SANITIZED") else "2"
        if os.environ.get("SANITIZED"):
            env["NO_RAGGED"] = "--no-ragged --max-bytes=10000000"
        elif not daily.draws(folder.name, 2):
            env["NO_RAGGED"] = "--no-ragged"
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
            extra = "halt_on_error=1:print_stacktrace=1:" if name == "UBSAN_OPTIONS" else ""
            env[name] = f"{env[name] + ':' if env.get(name) else ''}{extra}exitcode={SANITIZER}"
        if self.args.update_golden:
            env["UPDATE_GOLDEN"] = "1"
        else:
            env.pop("UPDATE_GOLDEN", None)
        return env

    def substitute(self, command: str, file: pathlib.Path, temporary: pathlib.Path) -> str:
        values = {"python": shlex.quote(sys.executable), "s": shlex.quote(file.name), "t": shlex.quote(str(temporary / "t"))}

        def value(match: re.Match) -> str:
            name = match.group(1)
            if name in values:
                return values[name]
            if name not in self.programs:
                raise Skip(f"{name} is not built")
            return shlex.quote(self.programs[name])
        return re.sub(r"%(sketch-opt|sketchc|emit_tool|sema_dump|python|s|t)\b", value, command)

    def shell(self, script: str, cwd: pathlib.Path, temporary: pathlib.Path):
        """Exit status, standard output, standard error; 124 after the time limit."""
        process = subprocess.Popen([*self.shell_words, PRELUDE + script], cwd=cwd, text=True,
                                   errors="backslashreplace", stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=self.environment(temporary), start_new_session=True)
        try:
            out, err = process.communicate(timeout=self.args.timeout)
            for found in SPENT.findall(err):
                self.spent[temporary] += float(found)
            return process.returncode, out, SPENT.sub("", err)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return 124, out, err + f"\nno end within {self.args.timeout} s"

    def run_lines(self, file: pathlib.Path, lines: list[str], temporary: pathlib.Path) -> str | None:
        for line in lines:
            command = self.substitute(line, file, temporary)
            if re.search(r"\bFileCheck\b", command):
                if not shutil.which(self.args.filecheck):
                    raise Skip(f"{self.args.filecheck} (LLVM's tools) is missing")
                command = f'FileCheck() {{ {shlex.quote(self.args.filecheck)} --dump-input-filter=error "$@"; }}\n{command}'
            status, out, err = self.shell(command, file.parent, temporary)
            if status:
                return f"RUN: {line}\nexit status {status}\n{out}\n{err}"
        return None

    def golden(self, file: pathlib.Path, text: str, temporary: pathlib.Path) -> str | None:
        arguments = " ".join(directives(text, "ARGS"))
        want_status = int((directives(text, "STATUS") or ["1"])[0])
        command = self.substitute(f"%sketchc %s -o %t {arguments}", file, temporary)
        status, out, err = self.shell(command, file.parent, temporary)
        if status != want_status:
            return f"exit status {status}, not {want_status}\n{out}\n{err}"
        if out:
            return f"standard output is not empty:\n{out}"
        golden = file.with_name(file.name + ".err")
        if self.args.update_golden:
            golden.write_text(err)
            return None
        if not golden.exists():
            return f"{golden.name} is missing (scripts/test --update-golden makes it):\n{err}"
        if golden.read_text() == err:
            return None
        return f"standard error is not {golden.name}:\n{err}"

    def temporary(self, file: pathlib.Path) -> pathlib.Path:
        return pathlib.Path(self.args.build) / "lit" / self.args.suite / f"{file.relative_to(self.args.folder)}.tmp"

    def seconds(self, file: pathlib.Path) -> float:
        return self.spent[self.temporary(file)]

    def run(self, file: pathlib.Path) -> str | None:
        """None when it passes, else what is wrong. Raises Skip."""
        text = file.read_text(errors="surrogateescape")
        wanted = {f.strip() for line in directives(text, "REQUIRES") for f in line.split(",")}
        missing = sorted(wanted - self.features)
        if missing:
            raise Skip("needs " + ", ".join(missing))
        temporary = self.temporary(file)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        lines = directives(text, "RUN")
        if lines:
            return self.run_lines(file, lines, temporary)
        if file.suffix == ".sketch":
            return self.golden(file, text, temporary)
        return "no RUN line"

    def report(self, file: pathlib.Path) -> tuple[str, str]:
        name = str(file.relative_to(self.args.folder)).replace("#", "_")
        try:
            problem = self.run(file)
        except Skip as skip:
            return f"ok {{}} - {name} # SKIP {skip}", ""
        except Exception as error:  # a broken test file is a failed test, not a broken run
            problem = f"{type(error).__name__}: {error}"
        if problem is None:
            return f"ok {{}} - {name}", ""
        return f"not ok {{}} - {name}", problem


def find_files(folder: pathlib.Path, pattern: str) -> list[pathlib.Path]:
    files = [f for f in folder.rglob("*") if f.suffix in SUFFIXES and f.is_file()]
    hidden = [f for f in files if any(p in ("inputs", "corpus") for p in f.relative_to(folder).parts)]
    return sorted(f for f in files if f not in hidden and pattern in str(f))


def due(files: list[pathlib.Path]) -> list[pathlib.Path]:
    """Where SANITIZED is set, files that verify run every other day: that is most of the time, and the plain build runs them all."""
    if not os.environ.get("SANITIZED") or os.environ.get("SKETCHC_TEST_LONG") == "1":
        return files
    verify = [f for f in files if VERIFIES.search(f.read_text(errors="replace"))]
    chosen = daily.part(verify, 2, daily.seed_of(os.environ.get("SKETCHC_TEST_SEED", "1")))
    return [f for f in files if f not in verify or f in chosen]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--suite", default="files")
    parser.add_argument("--build", default="build")
    parser.add_argument("--program", action="append", default=[])
    parser.add_argument("--feature", action="append", default=[])
    parser.add_argument("--filecheck", default="FileCheck-22")
    parser.add_argument("--filter", default=os.environ.get("TEST_FILTER", ""))
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--update-golden", action="store_true",
                        default=bool(os.environ.get("UPDATE_GOLDEN")))
    args = parser.parse_args()
    args.folder = args.folder.resolve()
    runner = Runner(args)
    files = find_files(args.folder, args.filter)
    files = files if args.filter else due(files)
    print(f"1..{len(files)}" + ("" if files else " # SKIP no test files"), flush=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for number, (file, (line, problem)) in enumerate(zip(files, pool.map(runner.report, files)), 1):
            for text in problem.splitlines()[:80]:
                print("#", text)
            print(f"# processor seconds: {runner.seconds(file):.2f} {file.relative_to(args.folder)}")
            print(line.format(number), flush=True)
            failed += line.startswith("not ok")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
