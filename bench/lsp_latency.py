#!/usr/bin/env python3
"""How fast the language server answers on a file of 1,000 lines: lsp_latency.py SKETCHC [EDITS [MEMORY_EDITS]].

Prints the 50th and 95th percentile of the time from an edit to its diagnostics and of completion (at once behind an edit, and
once more), as the client sees it and of the server's own processor time, which other programs do not lengthen; and the
server's resident memory after many random edits."""
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "lsp"))
from client import Client

URI = "file:///long.sketch"


def long_file(lines):
    text = ["sketch long {", "    symbols: N;", "    tensors: X[N]: f32; Y[N]: f32;", "", "    for i in range(ceil(N, 64)):",
            "        x0 = alloc([64])", "        load(X[i*64:(i+1)*64] -> x0)"]
    n = 0
    while len(text) < lines - 2:
        n += 1
        text.append(f"        x{n} = exp(x{n - 1} * 0.5) + max(x{n - 1}, {n})  # step {n}")
    return "\n".join(text + [f"        store(x{n} -> Y[i*64:(i+1)*64])", "}", ""])


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, int(p / 100 * len(values)))]


def cpu_seconds(pid):
    return int(open(f"/proc/{pid}/schedstat").read().split()[0]) * 1e-9


class Clock:
    """Seconds of the wall and of the server's processor, by name."""

    def __init__(self, pid):
        self.pid, self.samples = pid, {}

    def begin(self):
        self.start = time.perf_counter(), cpu_seconds(self.pid)

    def end(self, name):
        wall, cpu = time.perf_counter() - self.start[0], cpu_seconds(self.pid) - self.start[1]
        self.samples.setdefault(name, []).append((wall, cpu))

    def print(self):
        for name, samples in self.samples.items():
            text = [f"{what} p50 {1e3 * percentile(values, 50):.1f} ms, p95 {1e3 * percentile(values, 95):.1f} ms"
                    for what, values in zip(("wall", "processor"), zip(*samples))]
            print(f"figure: {name}: {'; '.join(text)} over {len(samples)} edits")


def resident_mb(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024


def main():
    edits = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    many = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    rng = random.Random(1)
    text = long_file(1000)
    client = Client(sys.argv[1])
    client.open(URI, text)
    client.published(URI, 1)
    clock, version = Clock(client.process.pid), 1
    for _ in range(edits):
        line = rng.randrange(8, 990)
        version += 1
        clock.begin()
        client.change(URI, version, {"range": {"start": {"line": line, "character": 8}, "end": {"line": line, "character": 8}}, "text": "x"})
        client.published(URI, version)
        clock.end("diagnostics after an edit")
        clock.begin()
        client.at("completion", URI, line, 9)
        clock.end("completion")
        version += 1
        clock.begin()
        client.change(URI, version, {"range": {"start": {"line": line, "character": 9}, "end": {"line": line, "character": 9}}, "text": "y"})
        client.at("completion", URI, line, 10)
        clock.end("completion at once behind an edit")
        client.published(URI, version)
        version += 1
        client.change(URI, version, {"range": {"start": {"line": line, "character": 8}, "end": {"line": line, "character": 10}}, "text": ""})
        client.published(URI, version)
    for i in range(many):
        version += 1
        line, at = rng.randrange(8, 990), rng.randrange(20)
        client.change(URI, version, {"range": {"start": {"line": line, "character": at}, "end": {"line": line, "character": at + rng.randrange(3)}},
                                     "text": rng.choice(["", "x", "(", "\n", " ", "#", "tensors:", "é"])})
        if i % 50 == 0:
            client.published(URI, version)
    client.published(URI, version)
    clock.print()
    print(f"figure: resident memory after {3 * edits + many} edits: {resident_mb(client.process.pid):.1f} MB")
    return client.end()


if __name__ == "__main__":
    sys.exit(main())
