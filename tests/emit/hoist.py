#!/usr/bin/env python3
"""Moves the allocs of sketches out of their loops: the code must be the same, byte for byte.

An alloc without a value makes no difference to the loop that it stands in or above: each iteration overwrites
the tile before it reads it, which is what makes it private. Of each sketch every such alloc is moved as far
out as its shape and its name allow, above the loop and on its line, so that line numbers stay.

  hoist.py --compiler SKETCHC [--target openmp ...] FILE...
"""
import argparse, concurrent.futures, pathlib, re, subprocess, sys, tempfile

ALLOC = re.compile(r"^(\s*)([A-Za-z_]\w*) = alloc\((.*)\)\s*$")


def indent_of(line):
    return len(line) - len(line.lstrip())


def blocks_of(lines, first, last):
    """For each line of a sketch's body the header lines around it, outermost first."""
    around, stack = {}, []
    for i in range(first, last):
        text = lines[i].strip()
        if not text or text.startswith("#"):
            continue
        while stack and indent_of(lines[i]) <= indent_of(lines[stack[-1]]):
            stack.pop()
        around[i] = list(stack)
        if re.match(r"(for|if|elif|else)\b.*:\s*(#.*)?$", text):
            stack.append(i)
    return around


def statement_above(lines, header):
    """Where a statement may stand before a header: above its hints, before the `if` of an `else`."""
    while re.match(r"\s*(elif|else)\b", lines[header]):
        header -= 1
        while not (re.match(r"\s*(if|elif)\b", lines[header]) and indent_of(lines[header]) <= indent_of(lines[header + 1])):
            header -= 1
    while lines[header - 1].strip().startswith("@"):
        header -= 1
    return header


def names_defined(lines, first, last):
    text = "\n".join(lines[first:last])
    found = set(re.findall(r"\bfor (\w+) in\b", text))
    for names in re.findall(r"(?m)^\s*((?:\w+, )*\w+) = ", text):
        found |= set(names.split(", "))
    for names in re.findall(r"; (\w+) = ", text):
        found.add(names)
    return found


def end_of_block(lines, at, indent, last):
    for i in range(at + 1, last):
        if lines[i].strip() and indent_of(lines[i]) < indent:
            return i
    return last


def place_for(lines, at, around, first, last):
    """The outermost header above which the alloc of line `at` may stand; None: it stays."""
    _, name, arguments = ALLOC.match(lines[at]).groups()
    if "init" in arguments:
        return None
    for header in around.get(at, []):
        above = statement_above(lines, header)
        scope_end = end_of_block(lines, above, indent_of(lines[above]), last)
        others = names_defined(lines, above, at) | names_defined(lines, at + 1, scope_end)
        shape = set(re.findall(r"[A-Za-z_]\w*", arguments))
        clash = name in others or shape & names_defined(lines, above, at)
        if not clash:
            return above
    return None


def hoist(text):
    lines = text.split("\n")
    moves = []
    for first, line in enumerate(lines):
        if not line.startswith("sketch"):
            continue
        last = next(i for i in range(first, len(lines)) if lines[i].startswith("}"))
        around = blocks_of(lines, first + 1, last)
        for at in range(first + 1, last):
            above = place_for(lines, at, around, first, last) if ALLOC.match(lines[at]) else None
            if above is not None:
                moves.append((at, above))
    statements = {}
    for at, above in moves:
        statements.setdefault(above, []).append(lines[at].strip())
        lines[at] = ""
    for above, allocs in statements.items():
        indent = lines[above][: indent_of(lines[above])]
        lines[above] = indent + "; ".join(allocs + [lines[above].strip()])
    return "\n".join(lines), len(moves)


def emit(compiler, path, target):
    result = subprocess.run([compiler, path.name, "-t", target], cwd=path.parent, capture_output=True, timeout=120)
    return result.returncode, result.stdout, result.stderr.decode(errors="replace")


def differs(compiler, file, targets, may_refuse):
    """(what is wrong or "", how many allocs moved); a sketch that a target refuses has to be refused both ways."""
    changed, moved = hoist(file.read_text())
    if not moved:
        return "", 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / file.name
        path.write_text(changed)
        for target in targets:
            before, after = emit(compiler, file, target), emit(compiler, path, target)
            if before[0] != 0 and not may_refuse:
                return f"{file} for {target}: the sketch as it stands is no example: " + before[2][:600], moved
            if before[:2] != after[:2]:
                first = next((b + b"\n" + a for b, a in zip(before[1].splitlines(), after[1].splitlines()) if a != b), b"")
                return f"{file} for {target}: " + (first.decode() or after[2][:600]), moved
    return "", moved


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True, type=pathlib.Path)
    parser.add_argument("--target", action="append")
    parser.add_argument("--least", type=int, default=1, help="allocs that must have been moved in all")
    parser.add_argument("--may-refuse", action="store_true", help="sketches that a target cannot compile are no fault")
    parser.add_argument("--print", action="store_true")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    if options.print:
        for file in options.files:
            print(hoist(file.read_text())[0])
        return 0
    total, wrong = 0, 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        tasks = [pool.submit(differs, options.compiler.resolve(), f.resolve(), options.target or ["openmp", "cuda", "nvptx"], options.may_refuse) for f in options.files]
        for task in tasks:
            fault, moved = task.result()
            total += moved
            if fault:
                wrong += 1
                print(fault)
    print(f"figure: allocs_moved {total} allocs")
    if total < options.least:
        print(f"{options.least} allocs were to be moved at least")
        return 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
