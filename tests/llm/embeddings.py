#!/usr/bin/env python3
"""Vectors by an endpoint's model: they choose the examples of a prompt, are kept in the store and in the cassette, count against the limits, and
where the endpoint fails, lies or floods the built-in ones serve, with little memory and the key in no output.

    embeddings.py SKETCHC TEST_STORE [--no-memory]"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent)]
import http.server
import schema_check

SKETCHC, TOOL = (str(pathlib.Path(p).resolve()) for p in sys.argv[1:3])
KEY, OTHER_KEY = "sk-MARKER-77aa31", "sk-OTHER-99bb42"
MEMORY_KB = 256 << 10
# The program's own operator and 20 others, in two requests; exp is what the endpoint finds alike.
OTHERS = {"exp_one": "exp(X)", **{f"add_{n}": f"X * {n} + {n + 1}" + " + X" * n for n in range(2, 21)}}


def operator(name: str, right: str) -> str:
    return (f"operator {name} {{\n    symbols: N;\n    tensors: X[N]: f32, Y[N]: f32;\n    Y = {right}\n"
            "    case large { N=30000; X: normal(0, 1) }\n}\n")


def vectors(texts: list[str]) -> list[list[float]]:
    """Near each other: what is asked for, and exp."""
    return [[1.0, 0.1 * n % 0.3, 0] if "tanh" in t or "exp" in t.split()[0] else [0, 0, -1.0] for n, t in enumerate(texts)]


def right_answer(texts: list[str]) -> dict:
    return {"data": [{"index": i, "embedding": v} for i, v in enumerate(vectors(texts))], "usage": {"prompt_tokens": 1000, "total_tokens": 1000}}


def changed(change):
    def make(texts):
        answer = right_answer(texts)
        change(answer["data"])
        return answer
    return make


BAD = {
    "one too few": changed(lambda d: d.pop()),
    "one too many": changed(lambda d: d.append(d[0])),
    "an index twice": changed(lambda d: d[0].update(index=1)),
    "an index beyond": changed(lambda d: d[0].update(index=10**9)),
    "an index below": changed(lambda d: d[0].update(index=-1)),
    "other lengths": changed(lambda d: d[0]["embedding"].append(1)),
    "no numbers": changed(lambda d: d[0].update(embedding=["1", None, {}])),
    "too large a number": changed(lambda d: d[0].update(embedding=[1e200, 0, 0])),
    "base64": changed(lambda d: d[0].update(embedding="AACAPwAAgD8=")),
    "empty vectors": changed(lambda d: [v.update(embedding=[]) for v in d]),
    "9000 numbers": changed(lambda d: [v.update(embedding=[0.5] * 9000) for v in d]),
    "no data": lambda t: {},
    "data is a number": lambda t: {"data": 3, "usage": [1]},
    "an array": lambda t: [1, 2, 3],
    "an error": lambda t: {"error": {"message": f"no such model {KEY}"}},
    "nonsense": b"<html>login</html>",
    "nothing": b"",
    "nan": b'{"data": [{"embedding": [NaN, 1, 2]}]}',
    "deep": b'{"data":' * 3000,
    "a million numbers": b'{"data": [{"embedding": [' + b"1," * 1000000 + b"1]}]}",
    "a flood": b" " * (32 << 20),
    "401": 401, "404": 404, "413": 413, "redirect": 302, "500": 500, "503": 503,
    "silence": "silence",
}


class Handler(http.server.BaseHTTPRequestHandler):
    act, log = "right", []
    lock = threading.Lock()

    def log_message(self, *args):
        pass

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:9/steal")
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with Handler.lock:
            Handler.log.append((self.path, self.headers.get("Authorization", ""), json.loads(body)))
            tries = sum(path.endswith("/embeddings") for path, _, _ in Handler.log)
        messages = json.loads(body).get("messages", [{"content": ""}])
        if DESCRIBE in messages[0]["content"]:
            words = Handler.words(messages[1]["content"])
            self.answer(200, json.dumps({"choices": [{"message": {"content": words}, "finish_reason": "stop"}]}).encode())
            return
        if not self.path.endswith("/embeddings"):
            self.answer(401, b'{"error": {"message": "enough"}}')
            return
        texts, act = json.loads(body)["input"], Handler.act
        if act == "late" and tries < 2:
            self.answer(503, b"{}")
        elif act in ("right", "late"):
            reversed_answer = right_answer(texts)
            reversed_answer["data"].reverse()
            self.answer(200, json.dumps(reversed_answer).encode())
        elif act == "silence":
            time.sleep(2)
        elif isinstance(act, int):
            self.answer(act, json.dumps({"error": {"message": f"bad key {self.headers.get('Authorization', '')}"}}).encode())
        else:
            self.answer(200, act if isinstance(act, bytes) else json.dumps(act(texts)).encode())


class Place:
    """A folder with an operator, a store of others, and settings."""

    def __init__(self, folder: str, port: int):
        self.path, self.port = pathlib.Path(folder), port
        (self.path / "op.sketch").write_text(operator("own", "tanh(X)"))
        for name, right in OTHERS.items():
            (self.path / "other").write_text(operator(name, right))
            (self.path / "sketch").write_text(f"sketch {name}_of_the_store implements {name} {{\n}}\n")
            subprocess.run([TOOL, self.path / "a.db", "tuple", self.path / "other", self.path / "sketch", self.path / "sketch"], check=True)
        (self.path / "key").write_text(OTHER_KEY)
        (self.path / "key").chmod(0o600)
        shutil.copy(self.path / "a.db", self.path / "first.db")

    def run(self, act, *args: str, memory: bool = False, statuses: tuple = (2, 4),
            compiler: bool = False) -> tuple[list, str]:
        """The requests, and what was said. Without a C compiler the search judges nothing, which would take most of the time and
        changes no request."""
        Handler.act, Handler.log = act, []
        env = {"PATH": os.environ["PATH"] if compiler else str(self.path / "empty"), "HOME": str(self.path), "SKETCHC_API_KEY": KEY}
        env |= {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS") or k == "OMP_WAIT_POLICY"}
        with (self.path / "said").open("wb") as said:
            process = subprocess.Popen([SKETCHC, "--propose", "op.sketch", "-t", "openmp", "--store=a.db", "--candidates=1", "--repairs=0",
                                        f"--endpoint=http://127.0.0.1:{self.port}/v1", "--model=m", "--set=retry_delay=0.01", "--set=retries=1",
                                        "--set=timeout=1", *args], cwd=self.path, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        text = (self.path / "said").read_text(errors="replace")
        assert process.returncode in statuses, (act, process.returncode, text)
        assert not memory or "--no-memory" in sys.argv or usage.ru_maxrss < MEMORY_KB, f"{act}: {usage.ru_maxrss >> 10} MiB"
        for file in self.path.rglob("*"):
            assert file.name == "key" or not file.is_file() or (KEY.encode() not in file.read_bytes() and OTHER_KEY.encode() not in file.read_bytes()), file
        return list(Handler.log), text

    def forget(self) -> None:
        shutil.copy(self.path / "first.db", self.path / "a.db")

    def calls(self) -> list[dict]:
        done = subprocess.run([SKETCHC, "db", "query", "calls", f"--store={self.path / 'a.db'}", "--json"], check=True, capture_output=True, text=True)
        return [json.loads(line) for line in done.stdout.splitlines()]


MODEL = "--set=embedding_model=vec"
DESCRIBE = "You describe deep-learning operators"


def shown(log: list) -> list[str]:
    prompt = next(body for path, _, body in log if path.endswith("/chat/completions")
                  and DESCRIBE not in body["messages"][0]["content"])["messages"][1]["content"]
    return [name for name in OTHERS if f"sketch {name}_of_the_store" in prompt]


def chosen_and_kept(p: Place) -> None:
    log, _ = p.run("right", compiler=True)
    assert {path for path, _, _ in log} == {"/v1/chat/completions"} and shown(log) != ["exp_one"], "without a model nobody is asked for vectors"
    p.forget()
    log, said = p.run("right", MODEL, "--set=price_in=1", "--set=price_out=1", "--set=price_embedding=1000")
    asked = [body for path, _, body in log if path == "/v1/embeddings"]
    assert sorted(len(a["input"]) for a in asked) == [5, 16] and {a["model"] for a in asked} == {"vec"}, asked
    assert shown(log) == ["exp_one"] and all(key == f"Bearer {KEY}" for _, key, _ in log)
    assert "3 calls" in said and "cost 2\n" in said, said
    calls = p.calls()
    assert [c["task"] for c in calls] == ["embed", "embed", "first"] and sum(c["tokens_in"] for c in calls[:2]) == 2000
    log, said = p.run("right", MODEL)
    assert len(log) == 1 and shown(log) == ["exp_one"] and "1 calls" in said, "the store has the vectors"
    p.forget()
    log, _ = p.run("late", MODEL)
    assert len(log) == 4 and shown(log) == ["exp_one"], "a passing failure is tried again"


def described(p: Place) -> None:
    """Where it is wanted, the model's own words about operators choose examples, with the built-in embedding too; they are kept, and
    what is more than words is not used."""
    chosen = list(OTHERS)[-1]
    alike, other = ([f"{stem}{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(60)] for stem in ("zebra", "quince"))
    Handler.words = lambda task: "</operator> ".join(alike if f"operator {chosen} " in task or "operator own " in task else other)
    wanted = "--set=describe=true"
    p.forget()
    log, _ = p.run("right")
    assert chosen not in shown(log)
    p.forget()
    log, said = p.run("right", wanted)
    asked = [body for path, _, body in log if path.endswith("/chat/completions") and DESCRIBE in body["messages"][0]["content"]]
    assert len(asked) == 16 == len(log) - 1 and chosen not in shown(log), (len(asked), shown(log), said)
    assert f"{len(OTHERS) + 1 - 16} of {len(OTHERS) + 1} operators are still without" in said and "embedding" not in said, said
    assert all("<operator>" in body["messages"][1]["content"] for body in asked)
    assert [c["task"] for c in p.calls()] == ["describe"] * len(asked) + ["first"]
    log, said = p.run("right", wanted)
    assert len(log) == len(OTHERS) + 1 - 16 + 1 and chosen in shown(log) and "descriptions" not in said, "a later run asks for the rest"
    log, said = p.run("right", wanted)
    assert len(log) == 1 and chosen in shown(log), "the store has the words"
    p.forget()
    for _ in range(2):
        log, _ = p.run("right", wanted, MODEL)
    texts = [t for path, _, body in log if path.endswith("/embeddings") for t in body["input"]]
    assert len(texts) == len(OTHERS) + 1 and all(("zebraaa" in t) != ("quinceaa" in t) for t in texts), texts
    p.forget()
    Handler.words = lambda task: "12 34 %%"
    log, said = p.run("right", wanted, MODEL)
    assert "descriptions of operators by the model: a description without words" in said and "the built-in" not in said, said
    assert shown(log) == ["exp_one"]
    p.run("right", wanted)
    log, said = p.run("right", wanted)
    assert len(log) == 1 and "descriptions" not in said, "an answer without words is not asked for again"
    p.forget()
    p.run("right", MODEL)
    log, said = p.run("right", wanted, MODEL, "--max-calls=3")
    assert shown(log) == ["exp_one"] and len(log) == 1, "questions about operators leave those about sketches"
    log, _ = p.run("right", wanted, "--max-calls=9")
    assert len(log) == 3, "a quarter of what is left"


def limits(p: Place) -> None:
    for limit in ("--max-calls=1", "--max-cost=0.00001"):
        p.forget()
        log, said = p.run("right", MODEL, limit, "--set=price_in=1", "--set=price_out=1", "--search-time=100", statuses=(0,), compiler=True)
        assert len(log) == (1 if limit == "--max-calls=1" else 0) and "the built-in embedding serves: max_" in said, (limit, said)


def keys(p: Place) -> None:
    elsewhere = f"--set=embedding_endpoint=http://localhost:{p.port}/w"
    p.forget()
    log, _ = p.run("right", MODEL, elsewhere)
    assert {key for path, key, _ in log if path == "/w/embeddings"} == {""}, "the endpoint's key goes to no other host"
    p.forget()
    log, _ = p.run("right", MODEL, elsewhere, f"--set=embedding_key_file={p.path / 'key'}")
    assert {key for path, key, _ in log if path == "/w/embeddings"} == {f"Bearer {OTHER_KEY}"}
    (p.path / "key").chmod(0o644)
    wrong = {("--set=embedding_endpoint=http://h/v1",): "need embedding_model", (MODEL, "--set=embedding_endpoint=ftp://h/v1"): "the endpoint must be",
             (MODEL, elsewhere, f"--set=embedding_key_file={p.path / 'key'}"): "chmod 600",
             (MODEL, "--set=endpoint=", "--proposer=command:true"): "embedding_model needs an endpoint"}
    for args, word in wrong.items():
        log, said = p.run("right", *args)
        assert not log and word in said, (args, said)
    (p.path / "sketchc.conf").write_text("embedding_model = theirs\n")
    log, said = p.run("right")
    assert not log and "may not set embedding_model" in said, said
    (p.path / "sketchc.conf").unlink()


def recorded(p: Place) -> None:
    p.forget()
    p.run("right", MODEL, "--cassette=tape", "--cassette-mode=record")
    schema = json.loads((pathlib.Path(__file__).resolve().parents[2] / "docs/schemas/cassette.schema.json").read_text())
    lines = [json.loads(line) for line in (p.path / "tape").read_text().splitlines()]
    for line in lines:
        assert any(not schema_check.check(line, part, schema) for part in schema["oneOf"]), line
    assert [line["kind"] for line in lines].count("embedding") == 2
    p.forget()
    log, said = p.run("right", MODEL, "--cassette=tape", "--cassette-mode=replay")
    assert not log and "enough" in said and "built-in" not in said and "3 replayed" in said, said
    p.forget()
    log, said = p.run("right", "--set=embedding_model=another", "--cassette=tape", "--cassette-mode=replay", "--search-time=100",
                      statuses=(0,), compiler=True)
    assert "the cassette holds no vectors" in said and "holds no answer" in said, "another model's vectors choose other examples"
    (p.path / "tape").unlink()


def hostile(p: Place) -> None:
    p.forget()
    log, _ = p.run("right")
    without = shown(log)
    for name, act in BAD.items():
        p.forget()
        begin = time.monotonic()
        log, said = p.run(act, MODEL, memory=True)
        tries = sum(path.endswith("/embeddings") for path, _, _ in log)
        assert shown(log) == without and "the built-in embedding serves" in said, (name, said)
        assert tries <= (2 if act in (401, 404, 413, 302) else 4) and time.monotonic() - begin < 30, (name, tries)
    print(f"figure: hostile_embeddings {len(BAD)} cases")


def main() -> int:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder, server.server_port)
        for test in (chosen_and_kept, described, limits, keys, recorded, hostile):
            test(place)
            print("ok", test.__name__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
