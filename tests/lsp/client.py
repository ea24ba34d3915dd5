"""A client of the language server for the tests: frames, requests, the diagnostics that were published."""
import json
import pathlib
import subprocess


class Client:
    def __init__(self, sketchc, utf8=False, initialize=True, refresh=False, options=None):
        self.process = subprocess.Popen([str(sketchc), "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number = 0
        self.diagnostics = {}  # uri: the last that were published
        self.publications = {}  # uri: how often
        if initialize:
            asked = {"general": {"positionEncodings": ["utf-8", "utf-16"]}} if utf8 else {}
            if refresh:
                asked["workspace"] = {"inlayHint": {"refreshSupport": True}}
            self.capabilities = self.request("initialize", {"capabilities": asked, "initializationOptions": options})["capabilities"]
            self.notify("initialized", {})

    def send_raw(self, body):
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def send(self, message):
        self.send_raw(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def notify(self, method, params):
        self.send({"method": method, "params": params})

    def read(self):
        length = None
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise EOFError("the server ended")
            if line in (b"\r\n", b"\n"):
                break
            key, value = line.decode().split(":")
            if key.lower() == "content-length":
                length = int(value)
        message = json.loads(self.process.stdout.read(length))
        if message.get("method") == "textDocument/publishDiagnostics":
            uri = message["params"]["uri"]
            self.diagnostics[uri] = message["params"]
            self.publications[uri] = self.publications.get(uri, 0) + 1
        return message

    def asked(self, method):
        """Waits for a request of the server's."""
        message = self.read()
        while message.get("method") != method:
            message = self.read()
        self.send({"id": message["id"], "result": None})

    def diagnosed_twice(self, uri):
        """Waits for the diagnostics that come with what compiling says, or have come while a request was answered."""
        while self.publications.get(uri, 0) < 2:
            self.read()

    def answer(self, number):
        while True:
            message = self.read()
            if message.get("id") == number and "method" not in message:
                return message

    def begin(self, method, params):
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        return self.number

    def request(self, method, params, error=False):
        message = self.answer(self.begin(method, params))
        assert ("error" in message) == error, message
        return message["error"] if error else message["result"]

    def open(self, uri, text):
        self.notify("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "sketch", "version": 1, "text": text}})

    def change(self, uri, version, *changes):
        self.notify("textDocument/didChange", {"textDocument": {"uri": uri, "version": version}, "contentChanges": list(changes)})

    def published(self, uri, version):
        while self.diagnostics.get(uri, {}).get("version") != version:
            self.read()
        return self.diagnostics[uri]["diagnostics"]

    def at(self, method, uri, line, character, **more):
        return self.request("textDocument/" + method, {"textDocument": {"uri": uri},
                            "position": {"line": line, "character": character}, **more})

    def end(self):
        self.request("shutdown", None)
        self.notify("exit", None)
        return self.process.wait(timeout=20)


def position(text, needle, skip=0, encoding="utf-16-le"):
    """Line and character of `needle` in `text`, `skip` characters into it."""
    at = text.index(needle) + skip
    line = text.count("\n", 0, at)
    start = text.rfind("\n", 0, at) + 1
    unit = 2 if encoding.startswith("utf-16") else 1
    return line, len(text[start:at].encode(encoding)) // unit


def apply(text, edits):
    """Text with edits of the protocol (UTF-16 positions)."""
    starts = [0]
    for i, c in enumerate(text):
        if c == "\n":
            starts.append(i + 1)

    def offset(p):
        at, units = starts[p["line"]], 0
        while units < p["character"]:
            units += 2 if ord(text[at]) > 0xffff else 1
            at += 1
        return at

    for e in sorted(edits, key=lambda e: (e["range"]["start"]["line"], e["range"]["start"]["character"]), reverse=True):
        text = text[:offset(e["range"]["start"])] + e["newText"] + text[offset(e["range"]["end"]):]
    return text


def example(name):
    return (pathlib.Path(__file__).resolve().parents[2] / "examples" / f"{name}.sketch").read_text()
