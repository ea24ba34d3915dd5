"""Starting a search (`sketchc --propose --json`) and reading what came of it; for the programs beside this one."""
import json
import pathlib
import subprocess
import time


def propose(sketchc, operator: pathlib.Path, options: list, best, limit: float | None = None,
            before: list | None = None) -> tuple[int, float, dict, str]:
    """Exit status (124: not done after `limit` seconds), seconds, the result ({}: none) and what was said on standard error."""
    command = [*(before or []), sketchc, "-q", "--propose", operator, "--json", "-o", best, *options]
    begin = time.monotonic()
    try:
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace", timeout=limit, check=False)
    except subprocess.TimeoutExpired as late:
        return 124, time.monotonic() - begin, {}, f"timed out after {late.timeout:.0f} s"
    return done.returncode, time.monotonic() - begin, json.loads(done.stdout or "{}"), done.stderr
