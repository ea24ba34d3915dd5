#!/usr/bin/env python3
"""Measures every function of ir/math.def, as emitted for the CPU, against libm in double (f32) and
libquadmath (f64): the greatest error must stay within the bound that the table states.

    functions.py CC SKETCH_OPT EMIT_TOOL SOURCE [--long | --step=N] [--only=NAME,...]
                 [--update=docs/math.md]

Short: every 4,093rd f32 argument, 250,000 f64 arguments; --long: all 2^32 and 16 million; --step=N: every
N-th of f32 and 2^25 / N of f64."""
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

BINARY = {"pow"}
# Where few bits are asked (`bits`): the greatest error, in ulps of f32. 2^-13 is 1,024 to 2,048 of them, 2^-16 is 128 to 256.
NARROW = [("exp", 13, 1400), ("exp", 16, 60), ("exp2", 13, 1400), ("exp2", 16, 60)]
# What is made otherwise where an argument's range is known: lines that make %y of %x, the reference, and the bound of both functions.
COMPOSED = [("log1p_of_exp", "%a = abs(%x) : f32; %n = neg(%a) : f32; %e = exp(%n) : f32; %y = log1p(%e) : f32", 3.5),
            ("log_above_one", "%a = abs(%x) : f32; %o = const() {value = 1.0} : f32; %s = add(%o, %a) : f32; %y = log(%s) : f32", 1),
            ("log_of_root", "%a = abs(%x) : f32; %s = sqrt(%a) : f32; %y = log(%s) : f32", 1)]
FLAGS = ["-std=gnu17", "-O2", "-march=native", "-ftree-vectorize", "-ffp-contract=off",
         "-fno-math-errno", "-fno-trapping-math", "-w"]


def rows(source):
    text = (source / "ir/math.def").read_text()
    pattern = re.compile(r'^MATH2?\((\w+), (\w+), ([\d.]+), ([\d.]+), .*, "([^"]*)", "([^"]*)"\)$', re.M)
    found = [dict(name=m[2], bound={"f32": float(m[3]), "f64": float(m[4])}, domain=m[5], method=m[6])
             for m in pattern.finditer(text)]
    assert len(found) == len(re.findall(r"^MATH2?\(\w+, ", text, re.M)), "unreadable row"
    return found


def kernel(name, dtype, bits=0, lines=None):
    """One lane at a time: the C compiler makes vectors of it."""
    binary = name in BINARY
    second = f"tensor %W: ptr<{dtype}, global> in, " if binary else ""
    load = f"        %w = mem.load(%W, %i) : {dtype}\n" if binary else ""
    operation = f'%y = {name}(%x{", %w" if binary else ""}){f" {{bits = {bits}}}" if bits else ""} : {dtype}'
    return f"""sketchc.ir 1

func @function kernel (tensor %X: ptr<{dtype}, global> in, {second}tensor %Y: ptr<{dtype}, global> out, symbol %N: index) {{kernel = "function", num_warps = 1, grid_x = aff(1)}}
{{
    %k0 = const() {{value = 0}} : index
    %k1 = const() {{value = 1}} : index
    for(%k0, %N, %k1) (%i: index) {{
        %x = mem.load(%X, %i) : {dtype}
{load}        {chr(10).join(lines) if lines else operation}
        mem.store(%y, %Y, %i)
        yield()
    }}
    return()
}}
"""


def emit(tools, folder, name, dtype, bits, lines):
    """The emitted C of a function."""
    ir, low = folder / f"{name}_{dtype}_{bits}.skir", folder / f"{name}_{dtype}_{bits}.low.skir"
    ir.write_text(kernel(name, dtype, bits, lines))
    low.write_text(subprocess.run([tools["opt"], "--arch=x86-64-v3", "--passes=expand_math,simplify", ir], check=True,
                                  capture_output=True, text=True).stdout)
    c = folder / f"{name}_{dtype}_{bits}.c"
    c.write_text(subprocess.run([tools["emit"], low, "-t", "openmp"], check=True,
                                capture_output=True, text=True).stdout)
    return c


def measure(tools, folder, source, name, dtype, step, bits=0, lines=None):
    c, exe = emit(tools, folder, name, dtype, bits, lines), folder / f"{name}_{dtype}_{bits}"
    defines = [f"-DREFERENCE={name}"] + (["-DBINARY"] if name in BINARY else [])
    subprocess.run([tools["cc"], *FLAGS, *defines, source / "tests/math/measure.c", c, "-o", exe,
                    "-lquadmath", "-lm"], check=True)
    arity = "binary" if name in BINARY else "unary"
    run = subprocess.run([exe, dtype, arity, str(step)], capture_output=True, text=True)
    worst, a, b, count = run.stdout.split()
    return dict(name=name, dtype=dtype, worst=float(worst), a=a, b=b, count=int(count))


def table(functions, results):
    """docs/math.md's table; the measured figure is the one of the long run."""
    lines = ["| function | results are numbers for | f32 bound | measured | f64 bound | measured | method |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for f in functions:
        cells = [f"`{f['name']}`", f["domain"]]
        for dtype in ("f32", "f64"):
            cells += [f"{f['bound'][dtype]:g}", f"{results[f['name'], dtype]['worst']:.3f}"]
        lines.append("| " + " | ".join(cells + [f["method"].replace("|", "\\|")]) + " |")
    return "\n".join(lines)


def stated(document, functions):
    """What the document says: its bounds must be the table's, its figures below them."""
    good = True
    for f in functions:
        row = re.search(rf"^\| `{f['name']}` \| .*? \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|",
                        document, re.M)
        if not row:
            print(f"docs/math.md lacks {f['name']}")
            good = False
            continue
        for dtype, bound, figure in (("f32", row[1], row[2]), ("f64", row[3], row[4])):
            if float(bound) != f["bound"][dtype] or float(figure) > float(bound):
                print(f"docs/math.md: {f['name']} {dtype} says {bound} and {figure}")
                good = False
    return good


def main():
    names = [a for a in sys.argv[1:] if not a.startswith("--")]
    options = dict(a[2:].partition("=")[::2] for a in sys.argv[1:] if a.startswith("--"))
    tools, source = dict(cc=names[0], opt=names[1], emit=names[2]), pathlib.Path(names[3])
    functions = rows(source)
    only = options["only"].split(",") if "only" in options else [f["name"] for f in functions]
    long = "long" in options
    jobs = [(f, dtype) for f in functions if f["name"] in only for dtype in ("f32", "f64")]
    good, results = True, {}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        def work(job):
            f, dtype = job
            step = int(options["step"]) * (1 if dtype == "f32" else 128) if "step" in options else (1 if dtype == "f32" and f["name"] not in BINARY else 256) if long else \
                (4093 if dtype == "f32" else 16384)
            return f, measure(tools, pathlib.Path(folder), source, f["name"], dtype, step)
        for f, r in pool.map(work, jobs):
            bound = f["bound"][r["dtype"]]
            ok = r["worst"] <= bound
            good &= ok
            results[r["name"], r["dtype"]] = r
            print(f"{'ok  ' if ok else 'FAIL'} {r['name']:8} {r['dtype']} {r['worst']:8.4f} of {bound:g} "
                  f"ulps at {float.fromhex(r['a']):.9g} ({r['a']})"
                  f"{' ' + r['b'] if r['name'] in BINARY else ''}, {r['count']} arguments", flush=True)
        for name, bits, most in [row for row in NARROW if row[0] in only]:
            r = measure(tools, pathlib.Path(folder), source, name, "f32", 1 if long else 4093, bits)
            good &= r["worst"] <= most
            print(f"{'ok  ' if r['worst'] <= most else 'FAIL'} {name:8} of {bits} bits {r['worst']:8.1f} of {most} ulps at {r['a']}", flush=True)
        for name, lines, most in [row for row in COMPOSED if "only" not in options or row[0] in only]:
            r = measure(tools, pathlib.Path(folder), source, name, "f32", 1 if long else 4093, 0, lines.split("; "))
            good &= r["worst"] <= most
            print(f"{'ok  ' if r['worst'] <= most else 'FAIL'} {name} {r['worst']:8.4f} of {most} ulps at {r['a']}", flush=True)
    document = source / "docs/math.md"
    if "update" in options:
        text = document.read_text()
        head, rest = text.split("<!-- measured -->", 1)
        tail = rest.split("<!-- end of measured -->", 1)[1]
        document.write_text(f"{head}<!-- measured -->\n{table(functions, results)}\n<!-- end of measured -->{tail}")
    elif document.exists():
        good &= stated(document.read_text(), functions)
    return 0 if good else 1


sys.exit(main())
