#!/usr/bin/env python3
"""No input crashes or hangs the compiler: each of these ends within a second of processor time as a
clear error, a status 1 and a short message that names the file.   garbage.py SKETCHC [SECONDS]

SECONDS: more than 1 under the sanitizers, which mark 300 kB of the parser's stack as left at each error: a tenth of the errors."""
import os
import pathlib
import random
import resource
import sys
import tempfile

from common import environment, run

HEAD = "sketch s {\nsymbols: N;\ntensors: X[N]: f32; Y[N]: f32;\n"
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
LONGEST_MESSAGE = 100_000


def nested(opening: str, count: int) -> bytes:
    return (HEAD + "x = " + opening * count).encode()


def inputs() -> dict[str, bytes]:
    source = random.Random(1)
    tokens = ["for", "in", "range", "(", ")", "{", "}", "[", "]", ":", ";", ",", "->", "=", "x", "1", "\n",
              "    ", "@llm_hint", "\"", "sketch", "operator", "case", "#", "view", "0.5"]
    return {
        "empty": b"",
        "wrong line": HEAD.encode() + b"for i in range(N)\n    load(X[i -> x)\n}\n",
        "nul bytes": HEAD.encode() + b"\0\0\0",
        "1 MB of random bytes": source.randbytes(1_000_000),
        "1 MB of random tokens": " ".join(source.choices(tokens, k=330_000)).encode()[:1_000_000],
        "1 MB in one line": b"x" * 1_000_000,
        "1 MB of line ends": b"\n" * 1_000_000,
        "many errors": b"@\n" * (500_000 if SECONDS <= 1 else 50_000),
        "more than 1 MiB": HEAD.encode() + b"#" * (1 << 20) + b"\n}\n",
        "100,000 parentheses": nested("(", 100_000),
        "100,000 brackets": nested("[", 100_000),
        "100,000 signs": nested("-", 100_000),
        "100,000 terms": nested("1 + ", 100_000),
        "100,000 braces": b"{" * 100_000,
        "100,000 levels": HEAD.encode() + b"".join(
            b" " * min(d, 400) + b"if 1:\n" for d in range(2000)),
        "string without end": (HEAD + '@llm_hint("parallel\nfor').encode(),
        "latin-1": HEAD.encode() + "größe = 1\n}".encode("latin-1"),
        "huge number": (HEAD + "x = " + "9" * 100_000 + "\n}").encode(),
        "huge name": (HEAD + "x" * 500_000 + " = 1\n}").encode(),
        "rank 100": b"sketch s {\ntensors: X[" + b", ".join([b"2"] * 100) + b"]: f32;\n}",
        "2^63 elements": b"sketch s {\ntensors: X[2147483648, 4294967296]: f32;\n}",
    }


def processor_seconds() -> float:
    """Of the programs run so far: the wall's time depends on what else the machine does."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def check(sketchc: str, name: str, data: bytes, folder: pathlib.Path) -> str | None:
    path = folder / "input.sketch"
    path.write_bytes(data)
    begin = processor_seconds()
    result = run([sketchc, path.name, "-t", "openmp", "-o", folder / "out"], environment(folder), folder)
    seconds = processor_seconds() - begin
    message = result.stderr.decode(errors="replace")
    if result.returncode != 1:
        return f"{name}: status {result.returncode}: {message[:300]}"
    if seconds > SECONDS:
        return f"{name}: {seconds:.1f} s of processor time"
    if "error" not in message or len(message) > LONGEST_MESSAGE:
        return f"{name}: a message of {len(message)} bytes: {message[:200]}"
    if (folder / "out").exists():
        return f"{name}: it left an output"
    return None


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        problems = [check(os.path.abspath(sys.argv[1]), name, data, pathlib.Path(folder)) for name, data in inputs().items()]
    found = [p for p in problems if p]
    print("\n".join(found) if found else f"{len(problems)} inputs end as a clear error within {SECONDS:g} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
