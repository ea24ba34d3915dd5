"""What the short run draws: of things that repeat a way through the code, a part each day, all of them within so many
days. The day's seed (SKETCHC_TEST_SEED, scripts/test --seed=N) chooses; --long takes all.

Tests say how often in their suites: `half`, `third`, `quarter` (tests/run.py draws among those of one suite). Scripts
that look at many files draw among them by drawn()."""
import os
import zlib

RATES = {"half": 2, "third": 3, "quarter": 4}


def part(things: list, rate: int, seed: int) -> list:
    """Every rate-th, another one a day; never none of some."""
    return things[seed % min(rate, len(things))::rate] if things else []


def seed_of(text: str) -> int:
    return int(text) if text.isdigit() else sum(text.encode())


def draws(name: str, rate: int) -> bool:
    """One thing alone, whose place among its kind its name decides."""
    seed = seed_of(os.environ.get("SKETCHC_TEST_SEED", "1"))
    return os.environ.get("SKETCHC_TEST_LONG") == "1" or (zlib.crc32(name.encode()) + seed) % rate == 0


def drawn(things, rate: int) -> list:
    things = list(things)
    if os.environ.get("SKETCHC_TEST_LONG") == "1" or rate == 1:
        return things
    seed = os.environ.get("SKETCHC_TEST_SEED", "1")
    chosen = part(things, rate, seed_of(seed))
    print(f"{len(chosen)} of {len(things)} drawn by seed {seed}")
    return chosen


def left_out(tests: list[tuple[str, set[str]]], seed: str) -> set[str]:
    """Of (name, suites) of all tests the names that this seed does not draw."""
    out = set()
    for suite, rate in RATES.items():
        names = sorted(name for name, suites in tests if suite in suites)
        out |= set(names) - set(part(names, rate, seed_of(seed)))
    return out


def self_check() -> None:
    """Every one is drawn within as many days as the rate says, and one a day of two."""
    things = [f"t{i}" for i in range(7)]
    for rate in RATES.values():
        days = [part(things, rate, 20000 + day) for day in range(rate)]
        assert sorted(sum(days, [])) == things and all(days), days
    assert [len(part(["a", "b"], 3, day)) for day in range(4)] == [1, 1, 1, 1]
    tests = [("a", {"half"}), ("b", {"half"}), ("c", {"unit"})]
    assert [left_out(tests, str(day)) for day in (4, 5)] == [{"b"}, {"a"}]
