#!/usr/bin/env python3
"""One example: its form, its result on the processor at its cases and (half of the examples each day) ragged sizes, the GPU's
pass pipeline interpreted at its case `small`, and PTX and CUDA C that NVIDIA's own tools take: of a third of the examples each day.

    example.py FILE SKETCHC PASS_CHECK"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import daily

MAX_BYTES = 400_000   # of a case or a ragged size: larger ones are for the GPU runs
INTERPRETED = 60_000  # elements of a case that the interpreter is asked for
CASE = re.compile(r"^    case (\w+) \{ (.*) \}$", re.M)
HEAD = re.compile(r"\A# [^\n]*\.\n(# [^\n]*\n)*(constexpr|operator \w+ \{\n)")


def form_problems(text: str) -> list[str]:
    """What is unlike the other examples."""
    problems = []
    if not HEAD.match(text):
        problems.append("it does not begin with a sentence in a comment, then the operator")
    if not re.search(r"^}\n\nsketch \w+ implements \w+(\(.*\))? \{\n", text, re.M):
        problems.append("no sketch that implements the operator stands behind it")
    if not any(name == "small" for name, _ in CASE.findall(text)):
        problems.append("no case is called small, in the form `case small { M=5, N=7; X: normal(0, 1) }`")
    if not text.isascii() or max(map(len, text.splitlines())) > 100:
        problems.append("a line has more than 100 columns, or is not ASCII")
    return problems


def small_sizes(text: str) -> str:
    """The symbols of the case small, as pass_check takes them."""
    settings = dict(CASE.findall(text))["small"].split(";")[0]
    scalars = re.findall(r"(\w+)\s*:", "".join(re.findall(r"scalars:([^;]*(?:;|\n))", text)))
    pairs = re.findall(r"(\w+)\s*=\s*(\d+)\b(?!\.)", settings)
    return ",".join(f"{name}={value}" for name, value in pairs if name not in scalars)


def run(command: list, **keywords) -> subprocess.CompletedProcess:
    return subprocess.run([str(part) for part in command], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **keywords)


class Example:
    def __init__(self, file: pathlib.Path, sketchc: str, pass_check: str, folder: str) -> None:
        self.file, self.sketchc, self.pass_check = file, sketchc, pass_check
        self.folder = pathlib.Path(folder)
        self.text = file.read_text()
        self.env = dict(os.environ, XDG_CACHE_HOME=folder, LC_ALL="C")
        homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
        self.env["PATH"] = os.pathsep.join([os.environ["PATH"], *(f"{h}/bin" for h in homes if h)])
        self.problems = form_problems(self.text)

    def report(self, what: str, command: list, done: subprocess.CompletedProcess) -> None:
        name = [pathlib.Path(command[0]).name, *command[1:]]
        self.problems.append(f"{what}: {' '.join(map(str, name))}: status {done.returncode}\n{done.stdout[-3000:]}")

    def must(self, what: str, command: list) -> str:
        done = run(command, env=self.env, timeout=600)
        if done.returncode:
            self.report(what, command, done)
        return "" if done.returncode else done.stdout

    def format(self) -> None:
        self.must("format", [self.sketchc, "fmt", "--check", self.file])

    def verify(self) -> None:
        ragged = daily.draws(self.file.stem, 2)
        out = self.must("verify", [self.sketchc, "verify", self.file, "-t", "openmp", "--seed=1",
                                   f"--max-bytes={MAX_BYTES}", *([] if ragged else ["--no-ragged"])])
        if out and not (re.search(r"^ok +small ", out, re.M) and (re.search(r"^ok +ragged ", out, re.M) or not ragged)):
            self.problems.append(f"small or ragged sizes were not verified:\n{out}")

    def interpret(self) -> None:
        for arch in ("sm_80", "sm_90a"):
            self.must(f"passes for {arch}", [self.pass_check, self.written_out(arch), f"--arch={arch}",
                                             small_sizes(self.text)])

    def written_out(self, arch: str) -> pathlib.Path:
        """The file; where its sketch consists of `use`, another one with the sketch that this stands for."""
        if not re.search(r"^    use ", self.text, re.M):
            return self.file
        text = self.must("use", [self.sketchc, "-q", self.file, "-t", "nvptx", f"--arch={arch}", "--emit=sketch"])
        file = self.folder / f"{arch}.sketch"
        file.write_text(text)
        return file

    def compile_c(self) -> None:
        code = self.folder / "openmp.c"
        self.must("openmp", [self.sketchc, "-q", self.file, "-t", "openmp", "-o", code])
        if code.exists() and shutil.which("gcc"):
            self.must("gcc", ["gcc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-fopenmp",
                              "-fsyntax-only", code])

    def assemble(self) -> None:
        taken = daily.draws(self.file.stem, 3)
        for arch in ("sm_80", "sm_90a"):
            for target, suffix, tool in (("nvptx", "ptx", "ptxas"), ("cuda", "cu", "nvcc")):
                code = self.folder / f"{arch}.{suffix}"
                command = [self.sketchc, "-q", self.file, "-t", target, f"--arch={arch}", "-o", code]
                path = shutil.which(tool, path=self.env["PATH"])
                if not self.emitted(f"{target} for {arch}", command):
                    continue
                # nvcc is slow; both architectures have one CUDA C but for the gemm's instructions.
                if taken and path and (tool == "ptxas" or arch == "sm_90a"):
                    extra = [] if tool == "ptxas" else ["-cubin", "-fmad=false", "-Werror", "all-warnings"]
                    self.must(tool, [path, f"-arch={arch}", *extra, code, "-o", self.folder / "cubin"])

    def emitted(self, what: str, command: list) -> bool:
        done = run(command, env=self.env, timeout=600)
        if done.returncode and "E0732" not in done.stdout:  # a build without LLVM makes no PTX
            self.report(what, command, done)
        return not done.returncode


def main() -> int:
    file = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        example = Example(file, *sys.argv[2:4], folder)
        example.format()
        example.verify()
        example.interpret()
        example.compile_c()
        if not os.environ.get("SANITIZED"):  # there is nothing of ours in CUDA's compilers
            example.assemble()
    print("\n".join(example.problems) if example.problems else f"{file.stem}: verified")
    return 1 if example.problems else 0


if __name__ == "__main__":
    sys.exit(main())
