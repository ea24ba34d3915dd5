#!/usr/bin/env python3
"""SIGINT, SIGTERM and SIGHUP while a command has a compiler or assembler at work, and at random moments: status 130, and neither
processes nor files are left. A signal that was ignored from the start (nohup) stays ignored.

    interrupted.py SKETCHC SOURCE_ROOT"""
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

# A tool that says so and sleeps; its output lies in the folder of temporary files by then.
TOOL = """#!/bin/sh
echo half > "$TMPDIR/half"
touch {folder}/at-work
sleep 100
"""
SIGNALS = {"INT": signal.SIGINT, "TERM": signal.SIGTERM, "HUP": signal.SIGHUP}


def processes(folder: pathlib.Path) -> list[str]:
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"XDG_CACHE_HOME={folder}\0".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


class Command:
    def __init__(self, words: list[str], slow: bool, ignored: bool = False):
        self.words = words
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        for name in ("tmp", "bin"):
            (self.folder / name).mkdir()
        for name in ("slow-cc", "ptxas", "nvcc"):
            (self.folder / "bin" / name).write_text(TOOL.format(folder=self.folder))
            (self.folder / "bin" / name).chmod(0o755)
        env = dict(os.environ, TMPDIR=str(self.folder / "tmp"), XDG_CACHE_HOME=str(self.folder), OMP_WAIT_POLICY="passive")
        if slow:
            env |= {"CC": str(self.folder / "bin/slow-cc"), "PATH": f"{self.folder / 'bin'}:{env['PATH']}"}
        before = (lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) if ignored else None
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, cwd=self.folder,
                                        preexec_fn=before)

    def until_at_work(self) -> bool:
        end = time.monotonic() + 60
        while not (self.folder / "at-work").exists():
            if time.monotonic() > end or self.process.poll() is not None:
                return False
            time.sleep(0.01)
        return True

    def end(self, name: str, moment: str) -> list[str]:
        self.process.send_signal(SIGNALS[name])
        try:
            status = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = "none"
        left = [p.name for p in (self.folder / "tmp").iterdir()] + processes(self.folder)
        left += [p.name for p in self.folder.iterdir() if p.name not in ("tmp", "bin", "at-work", "sketchc")]
        self.temporary.cleanup()
        what = f"{' '.join(map(str, self.words[1:]))}, {name} {moment}"
        # At random it may have ended, or not have begun.
        fine = (130,) if moment == "at work" else (130, 0, -SIGNALS[name])
        wrong = [] if status in fine else [f"{what}: status {status}"]
        return wrong + [f"{what}: left {left}"] * bool(left)


def main() -> int:
    sketchc, root = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2])
    example = str(root / "examples/scale.sketch")
    draw = random.Random(int(os.environ.get("SKETCHC_TEST_SEED", "1")))
    commands = [[sketchc, "verify", example, "-t", "openmp"], [sketchc, "bench", example, "-t", "openmp"]]
    problems, ended = [], 0
    for words in commands + [[sketchc, example, "-t", "nvptx", "--emit=cubin", "-o", "out.cubin"]]:
        for name in SIGNALS:
            command = Command(words, True)
            if not command.until_at_work():
                if "cubin" in " ".join(words):
                    command.process.wait()
                    continue  # built without LLVM
                problems.append(f"{words}: the tool was not started")
            problems += command.end(name, "at work")
            ended += 1
    for i in range(6):
        command = Command(draw.choice(commands), False)
        time.sleep(draw.uniform(0.0, 0.5))
        problems += command.end(draw.choice(list(SIGNALS)), "at random")
    ignored = Command(commands[0][:1] + ["verify", example, "-t", "openmp", "--case=small", "--no-ragged"], False, True)
    time.sleep(0.1)
    ignored.process.send_signal(signal.SIGHUP)
    if ignored.process.wait() != 0:
        problems.append(f"an ignored SIGHUP ends it: {ignored.process.returncode}")
    ignored.temporary.cleanup()
    if ended < 6:
        problems.append(f"only {ended} commands were ended at work")
    print("\n".join(problems) if problems else f"{ended} commands ended at work, 6 at random")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
