#!/usr/bin/env python3
"""A proposer for whoever answers by hand or from elsewhere: leaves each prompt in a folder, waits for its answer.

    sketchc --propose op.sketch --cassette=tape --set=timeout=3600 --proposer='command:python3 bench/mailbox.py FOLDER'

NAME.prompt appears whole; the answer is put beside it as NAME.answer, by renaming a finished file. Names are numbers in the order of
asking. Whoever answers sees the prompt alone. Nothing is removed."""
import os
import pathlib
import sys
import time


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    prompt = sys.stdin.buffer.read()
    number = 0
    while True:  # the first free number is taken by creating its file
        try:
            taken = os.open(folder / f"{number:04}.taken", os.O_CREAT | os.O_EXCL)
            os.close(taken)
            break
        except FileExistsError:
            number += 1
    name = f"{number:04}"
    (folder / f"{name}.tmp").write_bytes(prompt)
    (folder / f"{name}.tmp").rename(folder / f"{name}.prompt")
    answer = folder / f"{name}.answer"
    while not answer.exists():
        time.sleep(0.2)
    sys.stdout.buffer.write(answer.read_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
