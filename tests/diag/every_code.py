#!/usr/bin/env python3
"""Every diagnostic of support/diags.def has a golden of its text: an .err file in tests/diag or
tests/emit/unsupported. Those that need what a golden cannot bring about (a fault of ours, a tool
that is missing, a kernel of a million operations) name the test that does."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ELSEWHERE = {
    "kernel_too_large": "tests/pass/check_limits/kernel_too_large.skir",
    "barrier_missing": "tests/pass/check_barriers/missing.skir",
    "backend_failed": "tests/e2e/llvm_fatal.test",
    "no_backend": "tests/e2e/missing_llvm.test",
    "no_tool": "tests/e2e/cubin_tools.test",
    "tool_failed": "tests/e2e/cubin_tools.test",
    "round_trip": "tests/unit/passes/test_build.c",
    "pass_state": "tests/e2e/passes.test",
    "unknown_use": "tests/e2e/use_unfit.test",
    "unfit_use": "tests/e2e/use_unfit.test",
    "unmet_require": "tests/e2e/use_unfit.test",
}
# 16 MiB of code come from sketches only that take minutes to compile.
UNREACHED = {"code_too_large"}


def main() -> int:
    rows = dict(re.findall(r'^DIAG\(\s*(\w+)\s*,\s*"(\w+)"', (ROOT / "support/diags.def").read_text(), re.M))
    files = [*(ROOT / "tests/diag").glob("*.err"), *(ROOT / "tests/emit/unsupported").glob("*.err")]
    goldens = "".join(file.read_text() for file in files)
    missing = []
    for name, code in rows.items():
        if name in ELSEWHERE:
            has = code in (ROOT / ELSEWHERE[name]).read_text()
        else:
            has = name in UNREACHED or f"[{code}]" in goldens
        if not has:
            missing.append(f"{code} ({name}) has no golden")
        if f"[{code}]" in goldens and name in ELSEWHERE.keys() | UNREACHED:
            missing.append(f"{code} ({name}) has a golden: take it off the list")
    unknown = (ELSEWHERE.keys() | UNREACHED) - rows.keys()
    missing += [f"{name} is no diagnostic" for name in sorted(unknown)]
    print("\n".join([*missing, f"{len(rows)} diagnostics, {len(missing)} without a golden"]))
    return 1 if missing or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
