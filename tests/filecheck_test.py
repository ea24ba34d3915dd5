#!/usr/bin/env python3
"""The runner of test files fails where it must: each kind of file, passing and failing."""
import os
import pathlib
import subprocess
import sys
import tempfile

RUNNER = pathlib.Path(__file__).with_name("filecheck.py")
PROGRAM = """#!/bin/bash
case "$*" in *crash*) kill -SEGV $$;; *bug*) exit 5;; esac
cat "$1" > /dev/null || exit 2
echo "$1:1:1: error: no" >&2
exit 1
"""
FILES = {
    "ok.test": "# RUN: true\n# RUN: echo a \\\n# RUN: b | grep 'a b'\n",
    "fails.test": "// RUN: true\n// RUN: false | cat\n",
    "not.test": "; RUN: not false\n; RUN: status 3 bash -c 'exit 3'\n",
    "not_crash.test": "# RUN: not %sketchc crash\n",
    "not_option.test": "# RUN: not bash -c 'exit 2'\n",
    "not_status.test": "# RUN: not --status=2 bash -c 'exit 2'\n",
    "not_other_status.test": "# RUN: not --status=2 false\n",
    "not_status_of_a_crash.test": "# RUN: not --status=139 %sketchc crash\n",
    "not_well.test": "# RUN: not true\n",
    "not_bug.test": "# RUN: not %sketchc bug\n",
    "status.test": "# RUN: status 2 false\n",
    "empty.test": "nothing\n",
    "unbuilt.test": "# RUN: %sketch-opt %s\n",
    "needs.test": "# REQUIRES: gcc, a-feature-of-no-machine\n# RUN: false\n",
    "golden.test": "# RUN: echo x | golden golden.txt\n",
    "golden_bad.test": "# RUN: echo y | golden golden.txt\n",
    "drawn.test": "# RUN: test \"$(echo $(drawn 3 a b c d e f g))\" = 'c f'\n# RUN: test \"$(DRAW_ALL=1; echo $(drawn 3 a b))\" = 'a b'\n",
    "temporary.test": "# RUN: echo z > %t\n# RUN: grep z %t\n",
    "hang.test": "# RUN: sleep 60\n",
    "good.sketch": "x\n", "good.sketch.err": "good.sketch:1:1: error: no\n",
    "stale.sketch": "x\n", "stale.sketch.err": "something else\n",
    "status.sketch": "# STATUS: 0\n", "status.sketch.err": "status.sketch:1:1: error: no\n",
    "new.sketch": "x\n",
}
WANT = {
    "ok": ["ok.test", "not.test", "not_status.test", "golden.test", "drawn.test", "temporary.test", "good.sketch"],
    "skip": ["unbuilt.test", "needs.test"],
    "not ok": ["fails.test", "not_crash.test", "not_bug.test", "not_option.test", "not_other_status.test", "not_status_of_a_crash.test", "not_well.test",
               "status.test", "empty.test",
               "golden_bad.test", "hang.test", "stale.sketch", "status.sketch", "new.sketch"],
}


def run(root: pathlib.Path, *extra: str) -> dict[str, str]:
    out = subprocess.run([sys.executable, RUNNER, root / "files", "--build", root, "--program",
                          "sketchc", "--timeout", "2", *extra], capture_output=True, text=True,
                         env=dict(os.environ, SKETCHC_TEST_SEED="5", SKETCHC_TEST_LONG="0"))
    results = {}
    for line in out.stdout.splitlines():
        if line.startswith(("ok", "not ok")):
            status, name = line.split(" - ")
            kind = "not ok" if status.startswith("not") else "skip" if "# SKIP" in name else "ok"
            results[name.split(" #")[0]] = kind
    assert out.returncode == (1 if "not ok" in results.values() else 0), out
    return results


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "files").mkdir()
        (root / "sketchc").write_text(PROGRAM)
        (root / "sketchc").chmod(0o755)
        for name, text in FILES.items():
            (root / "files" / name).write_text(text)
        (root / "files/golden.txt").write_text("x\n")
        results = run(root)
        for kind, names in WANT.items():
            for name in names:
                assert results.pop(name) == kind, f"{name} is not {kind}"
        assert not results, results
        updated = run(root, "--update-golden", "--filter", ".sketch")
        assert updated["stale.sketch"] == updated["new.sketch"] == "ok"
        assert run(root, "--filter", "new.sketch") == {"new.sketch": "ok"}
    print("all kinds of test file pass, skip and fail as they must")


if __name__ == "__main__":
    main()
