#!/usr/bin/env python3
"""What a store's file may be: one of an earlier version is brought to this one and loses nothing; a file that is no store, of
a later version, of another program or damaged is refused with a remedy and stays byte for byte as it is.

    store_file.py SKETCHC"""
import json
import pathlib
import resource
import sqlite3
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def db(sketchc: str, file: pathlib.Path, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sketchc, "db", *words, f"--store={file}"], text=True, check=False, capture_output=True)


def rows(sketchc: str, file: pathlib.Path, *words: str) -> list[dict]:
    done = db(sketchc, file, *words, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def make_first(file: pathlib.Path) -> list[tuple]:
    """A store of the first version; its results."""
    with sqlite3.connect(file) as store:
        store.executescript((HERE / "store_v1.sql").read_text())
        found = store.execute("SELECT k.hash, r.target, r.device, r.case_name, r.status, r.complete, r.seconds, r.noise, k.source,"
                              " k.text, d.text, k.parent FROM result r JOIN sketch k ON k.hash = r.sketch JOIN definition d ON"
                              " d.hash = k.definition ORDER BY k.hash").fetchall()
    store.close()
    return found


def migration(sketchc: str, folder: pathlib.Path) -> None:
    file = folder / "first.db"
    before = make_first(file)
    assert len(before) > 5 and any(r[4] != "ok" for r in before) and any(r[11] for r in before)
    results = {r["hash"]: r for r in rows(sketchc, file, "query")}
    sketches = {r["hash"]: r for r in rows(sketchc, file, "query", "sketches")}
    texts = {r["definition"] for r in rows(sketchc, file, "query", "definitions")}
    assert len(results) == len(before)
    for hash_, target, device, case, status, complete, seconds, noise, source, text, definition, parent in before:
        r = results[hash_]
        assert (r["target"], r["device"], r["case"], r["status"]) == (target, device, case, status)
        assert (r["verified"], r["seconds"], r["noise"], r["source"]) == (bool(complete), seconds, noise, source)
        assert sketches[hash_]["sketch"] == text and sketches[hash_]["parents"] == parent and definition in texts
        assert r["operator"] == definition.split("operator ")[1].split()[0]
    best = rows(sketchc, file, "best")
    fastest = min((r for r in before if r[4] == "ok" and r[5] and r[6] > 0), key=lambda r: r[6])
    assert [b["hash"] for b in best] == [fastest[0]], best
    assert db(sketchc, file, "check").returncode == 0
    assert rows(sketchc, file, "query") == list(results.values()), "opened again, it says the same"


def schema_of(file: pathlib.Path) -> list[tuple]:
    with sqlite3.connect(file) as store:
        found = store.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()
    store.close()
    return found


def second(sketchc: str, folder: pathlib.Path) -> None:
    """Calls of the second version stay, without what it did not know of them; all versions end with the same tables."""
    file, operator = folder / "second.db", folder / "o.sketch"
    with sqlite3.connect(file) as store:
        store.executescript((HERE / "store_v2.sql").read_text())
        before = store.execute("SELECT id, run, proposer, status, seconds, began FROM model_call ORDER BY id").fetchall()
        results = store.execute("SELECT sketch, status, complete, seconds FROM result").fetchall()
    store.close()
    assert len(before) == 6 and results
    calls = rows(sketchc, file, "query", "calls")
    assert [(c["call"], c["run"], c["proposer"], c["status"], c["seconds"], c["began"]) for c in calls] == before
    assert all((c["task"], c["operator"], c["chain"], c["outcome"], c["verified"]) == ("", None, None, "", False) for c in calls), calls
    assert [(r["hash"], r["status"], int(r["verified"]), r["seconds"]) for r in rows(sketchc, file, "query")] == results
    assert len(rows(sketchc, file, "query", "artifacts")) == 1 and db(sketchc, file, "check").returncode == 0
    page = subprocess.run([sketchc, "report", file], text=True, check=True, capture_output=True).stdout
    assert "6 calls" in page and "No model or program was asked for first answers" in page
    # A store that is new; the program that is asked fails at once.
    operator.write_text("operator o {\n symbols: N;\n tensors: X[N]: f32, Y[N]: f32;\n Y = X + 1\n case c { N=8; X: normal(0, 1) }\n}\n")
    subprocess.run([sketchc, "--propose", operator, "-t", "openmp", f"--store={folder / 'new.db'}", "--alone", "--proposer=command:false"],
                   check=False, capture_output=True)
    for one in (file, folder / "first.db"):
        differ = set(schema_of(one)) ^ set(schema_of(folder / "new.db"))
        assert not differ, (one.name, differ)


def later(sketchc: str, folder: pathlib.Path, version: int) -> None:
    """The fourth version is the fifth without the baseline's times, the third without verdicts and descriptions, too: what it holds stays."""
    file, new = folder / f"version{version}.db", folder / "new.db"
    file.write_bytes(new.read_bytes())
    with sqlite3.connect(file) as store:
        store.execute("ALTER TABLE measurement DROP COLUMN baseline")
        for table in ("verdict", "description") if version == 3 else ():
            store.execute(f"DROP TABLE {table}")
        store.execute(f"PRAGMA user_version={version}")
    store.close()
    before = rows(sketchc, new, "query", "calls")
    assert rows(sketchc, file, "query", "calls") == before and before
    assert set(schema_of(file)) == set(schema_of(new)) and db(sketchc, file, "check").returncode == 0


def refused(sketchc: str, file: pathlib.Path, word: str) -> None:
    before = file.read_bytes()
    for command in (["query"], ["gc"]):
        done = db(sketchc, file, *command)
        assert done.returncode == 2 and word in done.stderr and str(file) in done.stderr, (file, done)
    operator = file.parent / "o.sketch"
    operator.write_text("operator o {\n symbols: N;\n tensors: X[N]: f32, Y[N]: f32;\n Y = X + 1\n case c { N=8; X: normal(0, 1) }\n}\n")
    done = subprocess.run([sketchc, "--propose", operator, "-t", "openmp", f"--store={file}"], text=True, check=False,
                          capture_output=True)
    assert done.returncode == 2 and word in done.stderr, (file, done)
    assert file.read_bytes() == before, f"{file} was changed"


def faults(sketchc: str, folder: pathlib.Path) -> None:
    text = folder / "text.db"
    text.write_text("no database\n" * 400)
    refused(sketchc, text, "no store of sketchc")
    other = folder / "other.db"
    with sqlite3.connect(other) as store:
        store.execute("CREATE TABLE bookmarks(address)")
    store.close()
    refused(sketchc, other, "no store of sketchc")
    later = folder / "later.db"
    make_first(later)
    assert db(sketchc, later, "check").returncode == 0
    with sqlite3.connect(later) as store:
        store.execute("PRAGMA journal_mode=DELETE")
        store.execute("PRAGMA user_version=99")
    store.close()
    refused(sketchc, later, "later sketchc")
    damaged = folder / "damaged.db"
    make_first(damaged)
    assert db(sketchc, damaged, "gc").returncode == 0
    with sqlite3.connect(damaged) as store:
        store.execute("PRAGMA journal_mode=DELETE")
    store.close()
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:4096] + bytes(b ^ 0x5A for b in whole[4096:]))
    refused(sketchc, damaged, "damaged")
    damaged.write_bytes(whole[:len(whole) // 2])
    refused(sketchc, damaged, "damaged")
    missing = db(sketchc, folder / "missing.db", "query")
    assert missing.returncode == 2 and "no such store" in missing.stderr and not (folder / "missing.db").exists(), missing
    nowhere = db(sketchc, folder / "missing" / "a.db", "query")
    assert nowhere.returncode == 2, nowhere
    done = subprocess.run([sketchc, "--propose", folder / "o.sketch", "-t", "openmp", f"--store={folder / 'missing' / 'a.db'}"], text=True,
                          check=False, capture_output=True)
    assert done.returncode == 2 and "its folder must be there" in done.stderr and "name another file" in done.stderr, done
    # What stands in the way is named, not that nothing was left to roll back.
    done = subprocess.run([sketchc, "--propose", folder / "o.sketch", "-t", "openmp", f"--store={folder / 'short.db'}"], text=True, check=False,
                          capture_output=True, restore_signals=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
    assert done.returncode == 2 and "the space on the disk" in done.stderr and "rollback" not in done.stderr, done
    unknown = db(sketchc, later, "query", "everything")
    assert unknown.returncode == 2, unknown


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        migration(sys.argv[1], pathlib.Path(name))
        second(sys.argv[1], pathlib.Path(name))
        later(sys.argv[1], pathlib.Path(name), 3)
        later(sys.argv[1], pathlib.Path(name), 4)
        faults(sys.argv[1], pathlib.Path(name))
    print("migrated without loss; six files refused and left alone")
    return 0


if __name__ == "__main__":
    sys.exit(main())
