#!/usr/bin/env python3
"""What a library may not do: end the process, write to the standard streams, follow the locale, run a
shell, keep state between calls.

    library_rules.py SOURCE_ROOT [ARCHIVE...]

Sources are searched for the calls, the archives' data sections for writable variables."""
import pathlib
import re
import subprocess
import sys

FOLDERS = ["support", "ir", "frontend", "model", "passes", "graph", "emit", "verify", "runtime", "api", "search",
           "llm"]
# (what, why not, sources that may and their reason)
CALLS = [
    (r"\b(?:exit|_exit|_Exit|quick_exit)\s*\(", "ends the process",
     {"support/child.c": "the child's own process", "runtime/remote.c": "the artifact's own process"}),
    (r"\babort\s*\(", "ends the process",
     {"support/memory.c": "out of memory outside of any memory_try", "ir/op.c": "a caller's bug would corrupt the IR",
      "ir/affine_of.c": "the same"}),
    (r"\b(?:stdout|stderr)\b|\b(?:printf|puts|putchar|perror|vprintf)\s*\(", "writes to a standard stream", {}),
    (r"\bsetlocale\s*\(", "changes the locale of the whole process", {}),
    (r"\b(?:strtod|strtof|strtold|atof)\s*\(", "reads numbers by the locale", {"support/number.c": "under the C locale"}),
    (r"\b(?:secure_)?getenv\s*\(", "is not in the table of environment variables",
     {"support/environment.c": "the table", "passes/plant.h": "builds with planted faults only"}),
    (r"\b(?:system|popen)\s*\(", "runs a shell", {}),
    (r"\b(?:gets|strcpy|strcat|sprintf|vsprintf|tmpnam|mktemp)\s*\(", "is unsafe", {}),
    (r"\b(?:strtok|localtime|gmtime|rand|srand|setenv|putenv)\s*\(", "is not for several threads",
     {"runtime/runner.c": "in a process of its own, ahead of its threads"}),
]
STATE = {"innermost": "support/memory.c: a thread's way out where memory runs out", "memory_refuse": "support/memory.c: a test's hook",
         "memory_program_ends": "support/memory.c: the driver's way to end",
         "parse_lock": "support/json.c: a lock", "empty_text": "support/str.c: never written to",
         "ptx_once": "emit/ptx/ptx.c: LLVM is initialised once a process", "ptx_escape": "emit/ptx/ptx.c: a "
         "thread's way out of LLVM", "ptx_reason": "emit/ptx/ptx.c: the same",
         "fault_place": "runtime/remote.c: a signal handler's, in the artifact's own process",
         "book": "support/shared/book.c: in the processes of a search, joined once as they begin", "book_fd": "support/shared/book.c: the same"}
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def strip(text: str) -> str:
    """Without comments and literals, with the same lines."""
    return COMMENT_OR_STRING.sub(lambda m: " " + "\n" * m.group().count("\n"), text)


def check_text(name: str, text: str) -> list[str]:
    problems = []
    for number, line in enumerate(strip(text).splitlines(), 1):
        for pattern, reason, exceptions in CALLS:
            match = re.search(pattern, line)
            if match and not any(name.startswith(e) for e in exceptions):
                problems.append(f"{name}:{number}: {match.group().strip('( ')} {reason}")
    return problems


def check_sources(root: pathlib.Path) -> list[str]:
    return [problem for folder in FOLDERS if (root / folder).is_dir()
            for file in sorted((root / folder).rglob("*")) if file.suffix in (".c", ".h")
            for problem in check_text(str(file.relative_to(root)), file.read_text(errors="replace"))]


def check_state(archive: str) -> list[str]:
    """Objects in writable sections; .data.rel.ro is constant after loading."""
    table = subprocess.run(["objdump", "-t", archive], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^\S+ .{7} ?\s*(\.(?:data|bss|tdata|tbss)\S*)\s+\S+\s+(?:\.hidden )?(\S+)$", table, re.M)
    return [f"{pathlib.Path(archive).name}: {name} is a variable that outlives calls"
            for section, name in names
            if not section.startswith(".data.rel.ro") and name != section and name.split(".")[0] not in STATE]


def self_test() -> None:
    assert check_text("ir/x.c", "int a(void) {\n  exit(1);\n}") == ["ir/x.c:2: exit ends the process"]
    assert check_text("ir/x.c", 'f(stderr, "x");') and check_text("ir/x.c", "strtod (x);")
    assert not check_text("ir/x.c", '/* exit(1)\n */ f("printf(\\"");  // abort()')
    assert not check_text("support/memory.c", "abort();") and not check_text("ir/x.c", "str_printf(s);")


def main() -> int:
    self_test()
    problems = check_sources(pathlib.Path(sys.argv[1]))
    for archive in sys.argv[2:]:
        problems += check_state(archive)
    print("\n".join(problems) if problems else "the libraries keep to themselves")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
