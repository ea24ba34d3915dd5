#!/usr/bin/env python3
"""`sketchc grammar` against the parser, by a matcher that reads the printed grammar.

    check.py gbnf|ebnf SKETCHC MATCHER RANDOM_PRINT [--mutants N] [--random N]

Accepted: every formatted example, every sketch of the tests that parses, random sketches, all as `sketchc fmt` writes
them. Refused, at the line of an error: the goldens of syntax errors that are not about indentation or
characters. Mutants of examples (a token left out, doubled or exchanged) are refused where the parser reports such an
error, and accepted where it finds none and the formatter leaves them as they are."""
import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORES = len(os.sched_getaffinity(0))
SYNTAX = {"E0101", "E0104", "E0106", "E0107", "E0108"}
# Indentation, characters; and numbers beyond 64 bits, which no grammar counts.
OTHER = {"E0102", "E0103", "E0105", "E0005", "W0101"}
TOKEN = re.compile(r"#[^\n]*|\"[^\"\n]*\"|\w+|->|\.\.|\*\*|//|<<|>>|[=!<>+*/-]=|[^\s\w]")


# Names in the language, none in the grammar: words that open declarations where a `:` follows.
OPENS = re.compile(r"\b(symbols|tensors|scalars|constexpr)\b(?!:)")


class Check:
    def __init__(self, arguments):
        self.form, self.sketchc, self.matcher, self.print = arguments.form, arguments.sketchc, arguments.matcher, arguments.random_print
        self.folder = tempfile.TemporaryDirectory()
        self.grammar = pathlib.Path(self.folder.name) / "grammar"
        text = subprocess.run([self.sketchc, "grammar", f"--format={self.form}"], capture_output=True, text=True, check=True).stdout
        self.grammar.write_text(text)
        self.failures = []

    def formatted(self, text):
        """(the text as `sketchc fmt` writes it, codes of errors)"""
        done = subprocess.run([self.sketchc, "fmt", "-", "--diagnostics=json"], input=text, capture_output=True, text=True)
        codes = {d["code"] for d in json.loads(done.stderr)["diagnostics"]} if done.stderr.strip() else set()
        return done.stdout if done.returncode == 0 else None, codes

    def verdicts(self, texts):
        """Per text None when accepted, else the line of the first character that nothing derives."""
        names = []
        for i, text in enumerate(texts):
            names.append(pathlib.Path(self.folder.name) / f"{i}.sketch")
            names[-1].write_text(text)

        def match(part):
            done = subprocess.run([self.matcher, self.form, self.grammar, *part], capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"the matcher: {done.stderr}")
            return [None if line.startswith("accepted") else int(line.split(":")[-2]) for line in done.stdout.splitlines()]
        with ThreadPoolExecutor(CORES) as pool:
            found = [line for lines in pool.map(match, (names[i:i + 200] for i in range(0, len(names), 200))) for line in lines]
        assert len(found) == len(texts)
        return found

    def expect_accepted(self, what, texts):
        for name, text, line in zip(texts, texts.values(), self.verdicts(list(texts.values()))):
            if line:
                self.failures.append(f"{what}: {name} is refused in line {line}: {text.splitlines()[line - 1] if line <= len(text.splitlines()) else 'the end'}")
        print(f"{what}: {len(texts)} accepted")

    def sketches(self):
        files = sorted((ROOT / "examples").glob("*.sketch")) + sorted((ROOT / "tests").rglob("*.sketch"))
        with ThreadPoolExecutor(CORES) as pool:
            results = list(pool.map(lambda f: self.formatted(f.read_bytes().decode("utf-8", "replace")), files))
        texts = {}
        for file, (text, codes) in zip(files, results):
            if file.parent.name == "examples":
                assert text == file.read_text(), f"{file} is not formatted"
            if text and text.isascii() or file.parent.name == "examples":
                texts[file.name] = text
        self.expect_accepted("sketches", texts)
        return [f.read_text() for f in files if f.parent.name == "examples"]

    def random_sketches(self, count):
        def one(seed):
            return self.formatted(subprocess.run([self.print, str(seed)], capture_output=True, text=True).stdout)[0]
        with ThreadPoolExecutor(CORES) as pool:
            self.expect_accepted("random", dict(enumerate(pool.map(one, range(count)))))

    def goldens(self):
        count = 0
        for golden in sorted((ROOT / "tests/diag").glob("*.sketch.err")):
            found = re.findall(r":(\d+):\d+: error\[(\w+)\]", golden.read_text())
            if not SYNTAX & {code for _, code in found} or OTHER & {code for _, code in found}:
                continue
            file = golden.with_suffix("")
            line = self.verdicts([file.read_text()])[0]
            # A line end that came too early is seen at the line behind it; what was never closed, wherever it shows.
            lines = {int(at) + k for at, code in found for k in (0, 1)}
            if line is None or (line not in lines and "E0104" not in golden.read_text()):
                self.failures.append(f"{file.name}: refused in line {line}, errors in {sorted(lines)}")
            count += 1
        print(f"goldens: {count} refused")
        if not count:
            self.failures.append("no golden was looked at")

    def mutants(self, examples, count):
        rng = random.Random(20261122)
        texts = []
        while len(texts) < count:
            text = rng.choice(examples)
            tokens = [m for m in TOKEN.finditer(text) if not m[0].startswith("#")]
            at = rng.choice(tokens)
            new = rng.choice([None, "", at[0] + at[0], rng.choice(tokens)[0], rng.choice(tokens)[0]])
            if new is None:  # a token more
                new = f"{rng.choice(tokens)[0]} {at[0]}"
            texts.append(text[:at.start()] + new + text[at.end():])
        with ThreadPoolExecutor(CORES) as pool:
            results = list(pool.map(self.formatted, texts))
        refused = accepted = 0
        for text, (after, codes), line in zip(texts, results, self.verdicts(texts)):
            if codes & SYNTAX and not codes & OTHER:
                refused += 1
                if line is None:
                    self.failures.append(f"accepted, yet {sorted(codes)}:\n{text}")
            elif after == text and not OPENS.search(text):
                accepted += 1
                if line is not None:
                    self.failures.append(f"refused in line {line}, yet the parser takes it:\n{text}")
        print(f"mutants: {refused} refused as by the parser, {accepted} accepted")
        if not (refused and accepted):
            self.failures.append("the mutants show nothing")


def main():
    p = argparse.ArgumentParser()
    for name in ("form", "sketchc", "matcher", "random_print"):
        p.add_argument(name)
    p.add_argument("--mutants", type=int, default=200)
    p.add_argument("--random", type=int, default=20)
    arguments = p.parse_args()
    check = Check(arguments)
    examples = check.sketches()
    check.random_sketches(arguments.random)
    check.goldens()
    check.mutants(examples, arguments.mutants)
    for failure in check.failures[:10]:
        print("not ok:", failure)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
