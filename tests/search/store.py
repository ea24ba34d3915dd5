#!/usr/bin/env python3
"""Writers of one store are killed at random times: every result that was acknowledged is there, and the file is
whole. 4 rounds of 1, 4 and 8 writers; --long: 300 rounds.

    store.py [--long] TEST_STORE"""
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time


def one_round(tool: str, file: pathlib.Path, base: int, writers: int, rng: random.Random) -> tuple[str, bool]:
    started = [subprocess.Popen([tool, file, "write", str(base + w), "1000"], stdout=subprocess.PIPE, text=True)
               for w in range(writers)]
    time.sleep(rng.uniform(0.02, 0.3))
    for process in started:
        process.send_signal(signal.SIGKILL)
    said = [process.communicate()[0] for process in started]
    # The last line may be cut: what is not said whole was not acknowledged.
    return "".join(text[:text.rfind("\n") + 1] for text in said), all(p.returncode == -9 for p in started)


def main() -> int:
    long = "--long" in sys.argv
    tool, rng, lines, killed = sys.argv[-1], random.Random(7), "", 0
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "store.db"
        subprocess.run([tool, file, "check"], input="", text=True, check=True, stdout=subprocess.PIPE)
        for n in range(300 if long else 4):
            for writers in (1, 4, 8):
                text, all_killed = one_round(tool, file, 1000 * n + 100 * writers, writers, rng)
                lines += text
                killed += all_killed
        done = subprocess.run([tool, file, "check"], input=lines, text=True, check=False, stdout=subprocess.PIPE)
    print(done.stdout.strip(), f"({killed} rounds in which all writers were killed)")
    # A test in which nothing was written or nobody was killed shows nothing.
    return 1 if done.returncode or not lines or not killed else 0


if __name__ == "__main__":
    sys.exit(main())
