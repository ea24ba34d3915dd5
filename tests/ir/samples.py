"""The listings of docs/ir-samples: those of existing ops parse and verify; one that begins with
"# needs: ROW ..." is refused for the ops among those rows and for no others.

samples.py SKETCH_OPT FILE..."""
import re
import subprocess
import sys


def missing_ops(message):
    return set(re.findall(r"there is no op `([^`]+)`", message))


def check(tool, path):
    with open(path) as f:
        first = f.readline()
    run = subprocess.run([tool, path], capture_output=True, text=True)
    if not first.startswith("# needs:"):
        return None if run.returncode == 0 else run.stderr
    needs, missing = set(first.split()[2:]), missing_ops(run.stderr)
    if run.returncode == 0 or not missing:
        return "the rows are there: take off the first line"
    if not missing <= needs:
        return f"needs also {sorted(missing - needs)}"
    return None


def main():
    tool, *files = sys.argv[1:]
    failures = [(path, error) for path in files if (error := check(tool, path))]
    for path, error in failures:
        print(f"{path}: {error}")
    return 1 if failures or not files else 0


sys.exit(main())
