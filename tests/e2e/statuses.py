#!/usr/bin/env python3
"""Exit statuses: the table of docs/cli.md, row by row; output that is lost; every option that takes a value with values that are none.

    statuses.py docs/cli.md SKETCHC lies.sketch"""
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import tempfile

OPERATOR = """operator add_one {
    symbols: N;
    tensors: X[N]: f32, Y[N]: f32;
    Y = X + 1
}
"""
CASE = "    case small { N=33; X: normal(0, 1) }\n}\n"
SKETCH = """sketch tiled implements add_one {
    symbols: N;
    tensors: X[N]: f32, Y[N]: f32;
    for i in range(ceil(N, 64)):
        x = alloc([64])
        load(X[i*64 : (i+1)*64] -> x)
        add(x, 1, x)
        store(x -> Y[i*64 : (i+1)*64])
}
"""
# What may be followed by a number or name that is none, and what is asked for there.
VALUES = {"verify op.ska": ["--seed", "--max-bytes", "--time-limit", "--case"], "bench op.ska": ["--samples"],
          "op.sketch": ["--target", "--arch", "--emit", "--passes", "--print-ir-after", "--stop-after", "--sketch", "--diagnostics"],
          "--propose op.sketch": ["--candidates", "--sample", "--repairs", "--workers", "--search-time", "--strategy", "--proposer",
                                  "--max-calls", "--max-tokens", "--max-cost", "--cassette-mode", "--progress", "--set"],
          "grammar": ["--format"], "doctor": ["--color", "--print-doc"], "config": ["--preset", "--max-calls"]}
NONE = ["", "junk", "-1", "1e999", "99999999999999999999999", "3x"]
# Commands that print, and would lose it.
PRINTERS = ["--help", "--version", "--print-doc=man", "doctor", "explain E0101", "config", "grammar", "cache", "op.sketch -t openmp",
            "op.sketch -t cuda --explain", "fmt --diff messy.sketch", "verify op.ska", "verify op.ska --json", "bench op.ska --samples=1",
            "--propose op.sketch --explain-prompt", "explain --html op.sketch"]


def npy(dtype: str) -> bytes:
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': (4,), }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(4 * int(dtype[-1]))


def prepare(sketchc: str, folder: pathlib.Path, lies: str) -> None:
    (folder / "op.sketch").write_text(OPERATOR.replace("}\n", CASE) + SKETCH)
    (folder / "messy.sketch").write_text(OPERATOR.replace("X + 1", "X  +  1") + SKETCH)
    (folder / "bare.sketch").write_text(OPERATOR)
    (folder / "wrong.sketch").write_text("operator {")
    (folder / "lies.sketch").write_text(pathlib.Path(lies).read_text())
    (folder / "x.npy").write_bytes(npy("<f4"))
    (folder / "wrong.npy").write_bytes(npy("<i8"))
    subprocess.run([sketchc, "op.sketch", "-t", "openmp", "--emit=artifact", "-o", "op.ska"], cwd=folder, check=True)
    (folder / "cut.ska").write_bytes((folder / "op.ska").read_bytes()[:-20])


def run(sketchc: str, folder: pathlib.Path, words: list[str], **more) -> subprocess.CompletedProcess:
    return subprocess.run([sketchc, *words], cwd=folder, check=False, text=True, timeout=60, stdin=subprocess.DEVNULL,
                          **({"stdout": subprocess.PIPE} | more), stderr=subprocess.PIPE)


def table(document: str) -> list[tuple[str, int]]:
    part = pathlib.Path(document).read_text().split("<!-- statuses -->")[1].split("\n\n")[0]
    return [(row[1], int(row[2])) for row in re.finditer(r"^\| `sketchc ([^`]*)` \| (\d+) \|$", part, re.M)]


def main() -> int:
    document, sketchc, lies = sys.argv[1:]
    sketchc = str(pathlib.Path(sketchc).resolve())
    problems, count = [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(sketchc, folder, lies)
        for words, want in table(document):
            done = run(sketchc, folder, shlex.split(words))
            count += 1
            if done.returncode != want or (want and not done.stdout + done.stderr):
                problems.append(f"{words}: status {done.returncode}, the document says {want}: {done.stdout}{done.stderr}")
        for words in PRINTERS:
            with open("/dev/full", "w") as full:
                done = run(sketchc, folder, shlex.split(words), stdout=full)
            count += 1
            if done.returncode != 2 or "cannot write to standard output" not in done.stderr:
                problems.append(f"{words} to a full device: status {done.returncode}: {done.stderr}")
            closed = run(sketchc, folder, shlex.split(words), stdout=None, preexec_fn=lambda: __import__("os").close(1))
            if closed.returncode != 2:
                problems.append(f"{words} with standard output closed: status {closed.returncode}: {closed.stderr}")
        for words, options in VALUES.items():
            for option in options:
                for value in NONE:
                    done = run(sketchc, folder, [*shlex.split(words), f"{option}={value}"])
                    count += 1
                    if done.returncode != 2 or not re.search(re.escape(option.strip("-")) + r"|E0[279]\d\d", done.stdout + done.stderr.replace("_", "-")):
                        problems.append(f"{words} {option}={value}: status {done.returncode}: {done.stdout}{done.stderr}")
    if len(table(document)) < 40:
        problems.append("the table of statuses is not found")
    print("\n".join(problems) if problems else f"{count} commands")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
