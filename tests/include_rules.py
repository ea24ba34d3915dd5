#!/usr/bin/env python3
"""Holds the include table of the architecture: which folder may include and call which, and which
words one source alone may use.

Checked are the #include lines of every C source, the -I paths that the build gives to each
compilation (a folder that is not on the path cannot be included by accident), and the symbols of
the objects that the build made: a function is called only where its header may be included."""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# folder: the folders whose headers it may include (its own always); "folder/header.h" is one header
RULES = {
    "support": [],
    "include": [],
    "ir": ["support"],
    "frontend": ["ir", "support"],
    "model": ["ir", "support"],
    "graph": ["ir", "support"],
    "passes": ["ir", "model", "support"],
    # Levels of passes: each also has what passes/ has, and the headers of passes/ itself.
    "passes/analysis": [],
    "passes/grid": ["passes/analysis"],
    "passes/tile": ["passes/analysis", "passes/grid"],
    "passes/reduce": ["passes/analysis", "passes/grid", "passes/tile"],
    "passes/gemm": ["passes/analysis"],
    "passes/numeric": ["passes/analysis"],
    "passes/lower": ["passes/analysis"],
    "passes/kernel": ["passes/analysis"],
    "passes/stencil": ["passes/analysis"],
    "passes/check": ["passes/analysis"],
    "emit": ["ir", "support"],
    "verify": ["ir", "support"],
    "runtime": ["emit/artifact.h", "verify", "ir", "support"],
    "api": ["include", "support", "ir", "frontend", "graph", "model", "passes", "emit", "verify",
            "runtime"],
    "search": ["include", "support"],
    "llm": ["include", "search", "support"],
    "tools": ["include", "support"],  # support: strings and files of the command line
    "bench": ["include"],
    "examples": ["include"],
}
INTERNALS = ["support", "ir", "frontend", "graph", "model", "passes", "emit", "verify", "runtime",
             "api", "include"]
PASS_LEVELS = [folder for folder in RULES if folder.startswith("passes/")]
# Single sources that may include more.
EXTRA = {
    "passes/run.c": PASS_LEVELS,
    "passes/pipeline.c": PASS_LEVELS,
    "tools/sketchc.c": ["search", "llm"],
    "tools/ask": ["search", "llm"],
    "tools/sketch-opt.c": INTERNALS,
    "tools/lsp": INTERNALS,
}
# Headers from outside and where they may be included.
FOREIGN = [
    (r"llvm-c/.*|llvm/.*", ["emit/ptx"]),
    (r"mlir-c/.*", ["emit/mlir"]),
    (r"cjson/.*|cJSON\.h", ["support/json.c"]),
    (r"curl/.*", ["llm"]),
    (r"sqlite3\.h|libpq-fe\.h", ["search"]),
    (r"cuda.*\.h|nvrtc\.h|nvml\.h", []),  # the driver is opened at run time
]
# Words that one source alone of a folder may use: folder, source, words, why.
WORDS = [("passes/", "passes/analysis/sizes.c", r"\b(IrCase|case_count|case_symbol)\b",
          "passes/analysis/sizes.h gives the sizes to optimise for"),
         *[(folder, "ir/plan.c", r"\bIR_FN_(STEP|KERNEL)\b", "ir/plan.h has the steps, their names and their order")
           for folder in ("passes/", "emit/", "api/", "model/", "verify/", "ir/")],
         ("emit/", "ir/plan.c", r"\bis_same_kernel\b|level [!=]= IR_LEVEL_KERNEL",
          "emitters walk the plan (ir/plan.h)"),
         *[(folder, "ir/enums.h", r'strcmp\(ir_attr_str\(|ir_attr\(\w+, "hints"\)',
            "words of attributes are enums (ir/enums.h) and letters of slices predicates (ir/query.h)")
           for folder in ("passes/", "graph/", "emit/", "model/")],
         *[(folder, "model/gpu.h", r"\b(WARP|WARPGROUP|BANKS|BANK_BYTES|PIECE_BYTES|LINE_BYTES|SYSTEM_BYTES) = \d",
            "model/gpu.h gives its value") for folder in ("passes/", "model/")]]
NO_CIRCLE = ["api"]  # folders in which no file calls what calls it
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def folder_of(path: str) -> str:
    """The folder of the table that the path lies in: two levels where the table has them."""
    parts = path.split("/")
    deep = "/".join(parts[:2])
    return deep if deep in RULES else parts[0]


def sources(root: pathlib.Path) -> list[str]:
    return sorted({str(f.relative_to(root)) for folder in RULES if (root / folder).is_dir()
                   for f in (root / folder).rglob("*")
                   if f.suffix in (".c", ".h", ".def", ".y", ".re")})


def rules_of(folder: str) -> list[str]:
    """What may be included from a folder, itself first; of a level what its parent may, too."""
    parent = folder.split("/")[0]
    return [folder, *RULES[folder], *([parent, *RULES[parent]] if parent != folder else [])]


def allowed(source: str) -> list[str]:
    more = [folder for prefix, folders in EXTRA.items() if source.startswith(prefix)
            for folder in folders]
    return [*rules_of(folder_of(source)), *more]


def resolve(root: pathlib.Path, source: str, name: str, known: list[str]) -> str | None:
    """The file of this project that `#include "name"` means, own folder first."""
    own = pathlib.PurePosixPath(source).parent / name
    if (root / own).is_file():
        return str(own)
    found = [s for s in known if s.endswith("/" + name)]
    return found[0] if found else None


def check_foreign(source: str, name: str) -> list[str]:
    return [f"{source} includes <{name}>, which belongs in {places or 'no source'}"
            for pattern, places in FOREIGN
            if re.fullmatch(pattern, name) and not any(source.startswith(p) for p in places)]


def check_words(root: pathlib.Path, source: str) -> list[str]:
    """What one source alone may name in a folder."""
    text = (root / source).read_text(errors="replace")
    return [f"{source} names {found[0]}: {why}" for folder, home, pattern, why in WORDS
            if source.startswith(folder) and source != home and (found := re.search(pattern, text))]


def check_source(root: pathlib.Path, source: str, known: list[str]) -> list[str]:
    problems = []
    for kind, name in INCLUDE.findall((root / source).read_text(errors="replace")):
        target = resolve(root, source, name, known)
        if kind == "<" or not target:
            problems += check_foreign(source, name)
            continue
        if ".." in name:
            problems.append(f"{source} includes by a path with ..: {name}")
        if folder_of(target) not in allowed(source) and target not in allowed(source):
            problems.append(f"{source} includes {target}: {folder_of(source)}/ may include "
                            f"{', '.join(allowed(source))} only")
        internal = pathlib.PurePosixPath(target).stem.endswith("_internal")
        if internal and folder_of(target) != folder_of(source):
            problems.append(f"{source} includes {target}, which is private to its folder")
    return problems


def closure(folders: list[str]) -> set[str]:
    """What may be on the path: a header that a folder may include brings its own includes."""
    seen: set[str] = set()
    todo = [folder_of(f) for f in folders]
    while todo:
        folder = todo.pop()
        if folder not in seen:
            seen.add(folder)
            todo += [folder_of(f) for f in RULES.get(folder, [])]
    return seen


def check_paths(root: pathlib.Path, build: pathlib.Path) -> list[str]:
    problems = set()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        directory = pathlib.Path(entry["directory"])
        source = (directory / entry["file"]).resolve()
        if not source.is_relative_to(root) or source.is_relative_to(build):
            continue
        source_name = str(source.relative_to(root))
        if folder_of(source_name) not in RULES:
            continue
        may = closure(allowed(source_name))
        for path in re.findall(r"(?:^|\s)'?\"?-I\s*([^\s'\"]+)", entry["command"]):
            folder = (directory / path).resolve()
            base = build if folder.is_relative_to(build) else root
            if not folder.is_relative_to(base):
                continue
            name = folder_of(str(folder.relative_to(base)))
            if name == ".":
                problems.add(f"{source_name}: the root of the sources is on the include path")
            elif name in RULES and name not in may:
                problems.add(f"{source_name}: {name}/ is on the include path of "
                             f"{folder_of(source_name)}/")
    return sorted(problems)


def objects(root: pathlib.Path, build: pathlib.Path) -> dict[str, str]:
    """Of each source of the table that the build has compiled: the object, of several the last."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        directory = pathlib.Path(entry["directory"])
        source, made = (directory / entry["file"]).resolve(), directory / entry.get("output", "")
        if source.is_relative_to(root) and not source.is_relative_to(build) and made.is_file():
            name = str(source.relative_to(root))
            if folder_of(name) in RULES:
                found[name] = str(made)
    return found


def symbols(made: dict[str, str]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Where each global symbol is defined, and which source uses which."""
    sources_of = {made_file: source for source, made_file in made.items()}
    listed = subprocess.run(["nm", "-A", "-g", *sources_of], capture_output=True, text=True, check=True)
    defined, used = {}, []
    for line in listed.stdout.splitlines():
        made_file, rest = line.split(":", 1)
        *_, kind, name = rest.split()
        if kind == "U":
            used.append((sources_of[made_file], name))
        else:
            defined[name] = sources_of[made_file]
    return defined, used


def check_calls(root: pathlib.Path, build: pathlib.Path) -> list[str]:
    defined, used = symbols(objects(root, build))
    problems = check_circles(defined, used)
    for source, name in used:
        home = defined.get(name)
        if home and not may_call(source, home):
            problems.append(f"{source} uses {name} of {home}: {folder_of(source)}/ may use "
                            f"{', '.join(allowed(source))} only")
    return problems


def check_circles(defined: dict[str, str], used: list[tuple[str, str]]) -> list[str]:
    """No two files of a folder of NO_CIRCLE need each other, by whatever way around."""
    calls: dict[str, set[str]] = collections.defaultdict(set)
    for source, name in used:
        home = defined.get(name)
        if home and home != source and folder_of(home) == folder_of(source) and folder_of(home) in NO_CIRCLE:
            calls[source].add(home)
    reach = {source: set(homes) for source, homes in calls.items()}
    for _ in reach:
        for homes in reach.values():
            homes |= set().union(*(reach.get(home, set()) for home in homes))
    circle = sorted(source for source, homes in reach.items() if source in homes)
    return [f"{', '.join(circle)} call each other in a circle"] if circle else []


def may_call(source: str, home: str) -> bool:
    """`include` declares what api/, search/ and llm/ define; a header stands for the sources beside it."""
    may = allowed(source)
    return (folder_of(home) in may or any(m.startswith(folder_of(home) + "/") for m in may)
            or ("include" in may and folder_of(home) in ("api", "search", "llm")))


def check(root: pathlib.Path, build: pathlib.Path | None) -> list[str]:
    known = sources(root)
    problems = [p for source in known for p in check_source(root, source, known) + check_words(root, source)]
    return problems + (check_paths(root, build) + check_calls(root, build) if build else [])


SELF_TEST = {  # source: (text, a part of the complaint or None)
    "support/a.h": ("", None),
    "support/a_internal.h": ("", None),
    "support/a.c": ('#include "a_internal.h"\n#include <stdio.h>\n', None),
    "support/up.c": ('#include "b.h"\n', "may include support only"),
    "ir/b.h": ('#include "a.h"\n', None),
    "ir/peek.c": ('#include "a_internal.h"\n', "private to its folder"),
    "emit/artifact.h": ("", None),
    "emit/other.h": ("", None),
    "emit/ptx/ptx.c": ('#include <llvm-c/Core.h>\n', None),
    "emit/c.c": ('#include <llvm-c/Core.h>\n', "belongs in"),
    "runtime/r.c": ('#include "artifact.h"\n', None),
    "runtime/s.c": ('#  include "other.h"\n', "includes emit/other.h"),
    "search/t.c": ('#include "b.h"\n', "includes ir/b.h"),
    "passes/analysis/n.h": ("", None),
    "passes/lower/l.h": ("", None),
    "passes/lower/l.c": ('#include "analysis/n.h"\n#include "b.h"\n', None),
    "passes/kernel/k.c": ('#include "lower/l.h"\n', "includes passes/lower/l.h"),
    "passes/analysis/sizes.c": ("m->case_count\n", None),
    "passes/kernel/cases.c": ("m->case_count\n", "gives the sizes to optimise for"),
    "passes/kernel/warp.c": ("enum { WARP = 32 };\n", "gives its value"),
    "ir/up.c": ('#include "analysis/n.h"\n', "includes passes/analysis/n.h"),
    "tools/sketchc.c": ('#include "b.h"\n', "includes ir/b.h"),
    "tools/sketch-opt.c": ('#include "b.h"\n', None),
    "frontend/dots.c": ('#include "../ir/b.h"\n', "path with .."),
}


def self_test() -> list[str]:
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        commands = []
        for name, (text, _) in SELF_TEST.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        for name, path in (("support/a.c", "ir"), ("ir/peek.c", "support"), ("ir/b2.c", ".")):
            commands.append({"directory": str(root), "file": name, "command": f"cc -I{path} -c"})
        (root / "build").mkdir()
        (root / "build/compile_commands.json").write_text(json.dumps(commands))
        problems = check(root, None)
        for name, (_, want) in SELF_TEST.items():
            found = [p for p in problems if p.startswith(name + " ")]
            if bool(found) != bool(want) or (want and want not in found[0]):
                wrong.append(f"{name}: wanted {want}, got {found}")
        paths = check_paths(root, root / "build")
        if len(paths) != 2 or "ir/b2.c" not in paths[0] or "support/a.c" not in paths[1]:
            wrong.append(f"include paths: {paths}")
    files = {"a": "api/a.c", "b": "api/b.c", "c": "api/c.c", "d": "api/d.c"}
    circle = check_circles(files, [("api/a.c", "b"), ("api/b.c", "c"), ("api/c.c", "a"), ("api/d.c", "a")])
    if circle != ["api/a.c, api/b.c, api/c.c call each other in a circle"] or check_circles(files, [("api/a.c", "b")]):
        wrong.append(f"circles: {circle}")
    return wrong + self_test_calls()


def self_test_calls() -> list[str]:
    """Two levels of passes and the IR, compiled: only the call between the levels is complained of."""
    texts = {"ir/b.c": "void b(void); void b(void) {}",
             "passes/lower/l.c": "void b(void); void l(void); void l(void) { b(); }",
             "passes/kernel/k.c": "void b(void); void l(void); void k(void); void k(void) { l(); b(); }"}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        commands = []
        for name, text in texts.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text + "\n")
            made = name.replace("/", "_") + ".o"
            subprocess.run(["cc", "-c", str(root / name), "-o", str(root / made)], check=True)
            commands.append({"directory": str(root), "file": name, "output": made, "command": "cc"})
        (root / "build").mkdir()
        (root / "build/compile_commands.json").write_text(json.dumps(commands))
        calls = check_calls(root, root / "build")
    fits = len(calls) == 1 and calls[0].startswith("passes/kernel/k.c uses l of passes/lower/l.c")
    return [] if fits else [f"calls: {calls}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    problems = self_test() if args.self_test else check(ROOT, args.build and args.build.resolve())
    print("\n".join(problems) if problems else "the include table holds")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
