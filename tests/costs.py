"""What tests cost, for tests/run.py: processor seconds by test and suite, the slowest, and how long the rest will take.

Two sources: the last line that tests/tools/timed writes to a test's standard error, and, of a test that is many,
its lines `# processor seconds: N NAME`. A build folder keeps the table of its last run; tests/slowest-BUILD.txt
(`--keep-slowest`) serves until there is one."""
import collections
import json
import os
import pathlib
import re
import sys
import threading
import time

WHOLE = re.compile(r"^processor seconds: ([\d.]+)$", re.M)
PART = re.compile(r"^# processor seconds: ([\d.]+) (.+)$", re.M)
ENDED = re.compile(r"^\s*\d+/\d+ (.+?)\s+([A-Z]+)\s+[\d.]+s")
GOOD = {"OK", "SKIP", "EXPECTEDFAIL"}
SLOWEST = 40
SURE = 0.1  # of the work, from which on its own speed tells how long the rest takes
USUAL = 0.3  # processor seconds of a test that no table names


def seconds_of(entry: dict) -> float | None:
    """None: the test was ended from outside, or ran without the wrapper."""
    found = WHOLE.findall(entry.get("stderr") or "")
    return float(found[-1]) if found else None


def without_suites(name: str) -> str:
    """`sketchc:pass+plain / files` and `sketchc:pass / files` are one test: how often it is drawn may have changed."""
    return re.sub(r"\+\S+(?= / )", "", name)


def parts_of(entry: dict) -> list[tuple[str, float]]:
    return [(name, float(s)) for s, name in PART.findall(entry.get("stdout") or "")]


def suite_of(name: str) -> str:
    """`sketchc:pass+plain / files` is of the suite `pass`."""
    return name.split(":")[-1].split(" / ")[0].split("+")[0] if " / " in name else "none"


def table_of(entries: list[dict]) -> dict[str, float]:
    return {e["name"]: s for e in entries if (s := seconds_of(e)) is not None}


def slowest(entries: list[dict]) -> list[tuple[str, float]]:
    """Tests, and of a test that is many its slowest parts, below each other."""
    rows = list(table_of(entries).items())
    for entry in entries:
        rows += [(f"{entry['name']}/{name}", s) for name, s in parts_of(entry)]
    return sorted(rows, key=lambda row: -row[1])[:SLOWEST]


def by_suite(entries: list[dict]) -> list[tuple[str, float, int]]:
    sums, counts = collections.Counter(), collections.Counter()
    for name, s in table_of(entries).items():
        sums[suite_of(name)] += s
        counts[suite_of(name)] += 1
    return [(suite, s, counts[suite]) for suite, s in sums.most_common()]


def lines_of(entries: list[dict]) -> list[str]:
    total = sum(table_of(entries).values())
    lines = [f"{s:9.2f}  {name}" for name, s in slowest(entries)]
    suites = [f"{s:9.2f}  {suite} ({count})" for suite, s, count in by_suite(entries)]
    return ["processor seconds of the slowest:", *lines, "processor seconds by suite (tests):", *suites,
            f"{total:9.2f}  all"]


def kept_table(root: pathlib.Path, build: str) -> pathlib.Path:
    return root / f"tests/slowest-{build}.txt"


def read_known(root: pathlib.Path, build: str) -> dict[str, float]:
    last = root / build / "test-costs.json"
    if last.exists():
        return json.loads(last.read_text())
    kept = kept_table(root, build)
    rows = [line.split(None, 1) for line in kept.read_text().splitlines()] if kept.exists() else []
    return {name: float(s) for s, name in rows}


def write_known(root: pathlib.Path, build: str, entries: list[dict]) -> None:
    """What this run measured replaces what was known of the same tests."""
    path = root / build / "test-costs.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(known | table_of(entries), indent=0))


def keep_slowest(root: pathlib.Path, build: str, entries: list[dict]) -> None:
    rows = sorted(table_of(entries).items(), key=lambda row: -row[1])[:SLOWEST]
    kept_table(root, build).write_text("".join(f"{s:.2f} {name}\n" for name, s in rows))


class Progress:
    """A line a minute (on a terminal: one line, rewritten) of how much is done and how long the rest may take. Until a tenth is done, as
    many processor seconds are expected a second as there are cores: the first tests are long ones, which count when they end."""

    def __init__(self, names: list[str], known: dict[str, float], out=sys.stdout, clock=time.monotonic) -> None:
        known = {without_suites(name): s for name, s in known.items()}
        self.weights = {name: known.get(without_suites(name), USUAL) for name in names}
        self.all = sum(self.weights.values()) or 1.0
        self.out, self.clock = out, clock
        self.begin = self.said = self.last = clock()
        self.count, self.done, self.failed = 0, 0.0, 0
        self.over = threading.Event()

    def line(self) -> str:
        part = min(self.done / self.all, 1.0)
        text = f"{self.count} of {len(self.weights)} tests, {100 * part:.0f} % of the work"
        if part < 1:
            minutes = self.seconds_left(part) / 60
            text += f", about {minutes:.0f} min left" if minutes >= 1 else ", less than a minute left"
        return text + (f", {self.failed} failed" if self.failed else "")

    def seconds_left(self, part: float) -> float:
        rate = self.done / max(self.last - self.begin, 1e-3) if part >= SURE else os.cpu_count() or 1
        return (self.all - self.done) / rate - (self.clock() - self.last)

    def ended(self, printed: str) -> None:
        """One line of what meson prints: `12/985 sketchc:unit / map   OK   0.02s`."""
        match = ENDED.match(printed)
        if not match:
            return
        name, result = match.groups()
        self.count += 1
        self.last = self.clock()
        self.done += self.weights.get(name, USUAL)
        if result not in GOOD:
            self.failed += 1
            self.say(f"{result}: {name}")
        self.tell()

    def say(self, text: str) -> None:
        clear = "\r\033[K" if self.out.isatty() else ""
        print(f"{clear}{text}", file=self.out, flush=True)

    def tell(self) -> None:
        now = self.clock()
        if self.out.isatty():
            print(f"\r\033[K{self.line()}", end="", file=self.out, flush=True)
        elif now - self.said >= 60:
            self.said = now
            print(self.line(), file=self.out, flush=True)

    def end(self) -> None:
        self.over.set()
        if self.out.isatty():
            print("\r\033[K", end="", file=self.out, flush=True)


def tell_often(progress: Progress) -> None:
    """While a long test runs, too; ends with the program."""
    def tell() -> None:
        while not progress.over.wait(5):
            progress.tell()
    threading.Thread(target=tell, daemon=True).start()


def self_check() -> None:
    """The sums and the estimate, at a clock of its own."""
    entries = [{"name": "x:pass+plain / files", "stdout": "1..1\n# processor seconds: 1.50 a.skir\nok 1 - a.skir\n",
                "stderr": "noise\nprocessor seconds: 2.00\n"}, {"name": "x:unit / map", "stderr": "processor seconds: 0.25\n"},
               {"name": "x:unit / killed"}]
    assert slowest(entries) == [("x:pass+plain / files", 2.0), ("x:pass+plain / files/a.skir", 1.5), ("x:unit / map", 0.25)]
    assert by_suite(entries) == [("pass", 2.0, 1), ("unit", 0.25, 1)]
    times = iter([0.0, 300.0, 300.0, 300.0, 300.0, 300.0])
    import io
    progress = Progress(["x:unit / map", "x:unit / long"], {"x:unit+half / map": 1.0, "x:unit / long": 3.0}, io.StringIO(),
                        lambda: next(times))
    progress.ended("1/2 x:unit / map      FAIL     0.02s   exit status 1")
    progress.ended("not a line of meson's")
    said = progress.out.getvalue()
    assert said == "FAIL: x:unit / map\n1 of 2 tests, 25 % of the work, about 15 min left, 1 failed\n", said
    begun = Progress(["x:unit / map"], {"x:unit / map": 600.0 * (os.cpu_count() or 1)}, io.StringIO(), iter([0.0, 60.0]).__next__)
    assert begun.line() == "0 of 1 tests, 0 % of the work, about 9 min left", begun.line()
