#!/usr/bin/env python3
"""One allocation is refused at each of many places in turn: a request of the language server gets an error and the next is answered;
outside of requests, and in other commands, the program says that memory ran out and ends with status 6. Never a signal.

    memory.py SKETCHC"""
import json
import pathlib
import subprocess
import sys

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "rmsnorm.sketch"
URI = "file:///a.sketch"
NO_MEMORY = 6
REQUESTS = ["textDocument/hover", "textDocument/semanticTokens/full", "textDocument/documentSymbol", "textDocument/formatting"]


def frame(message: dict) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def session(text: str) -> bytes:
    document = {"uri": URI, "languageId": "sketch", "version": 1, "text": text}
    at = {"textDocument": {"uri": URI}, "position": {"line": 8, "character": 6}, "options": {}}
    messages = [{"id": 1, "method": "initialize", "params": {}}, {"method": "textDocument/didOpen", "params": {"textDocument": document}}]
    messages += [{"id": i, "method": method, "params": at} for i, method in enumerate(REQUESTS * 2, 2)]
    return b"".join(map(frame, [*messages, {"id": 99, "method": "shutdown"}, {"method": "exit"}]))


def answers(out: bytes) -> dict:
    found = {}
    while out:
        head, _, rest = out.partition(b"\r\n\r\n")
        size = int(head.split(b":")[1])
        message, out = json.loads(rest[:size]), rest[size:]
        if "id" in message and "method" not in message:
            found[message["id"]] = message
    return found


def run(command: list, number: int, given: bytes) -> subprocess.CompletedProcess:
    done = subprocess.run([*command, f"--plant-fault=memory:{number}"], input=given, capture_output=True, timeout=60)
    assert done.returncode in (0, NO_MEMORY), (command, number, done.returncode, done.stderr[-300:])
    assert done.returncode == 0 or b"out of memory" in done.stderr, (command, number, done.stderr[-300:])
    return done


def check_server(sketchc: str) -> tuple[int, int]:
    ended = refused = 0
    given = session(EXAMPLE.read_text())
    for number in [*range(1, 30), *range(30, 600, 7)]:
        done = run([sketchc, "lsp", "--stdio"], number, given)
        ended += done.returncode == NO_MEMORY
        if done.returncode:
            continue
        found = answers(done.stdout)
        failed = [i for i, m in found.items() if m.get("error", {}).get("message") == "out of memory"]
        assert len(found) == 2 + 2 * len(REQUESTS), (number, sorted(found))
        assert len(failed) <= 1 and all("result" in m for i, m in found.items() if i not in failed), (number, found)
        refused += len(failed)
    return ended, refused


def main() -> None:
    sketchc = sys.argv[1]
    ended, refused = check_server(sketchc)
    print(f"server: {ended} ends with status {NO_MEMORY}, {refused} requests refused")
    assert ended and refused > 5
    text = EXAMPLE.read_bytes()
    for command in (["fmt", "-"], ["-t", "openmp", "-"], ["config"], ["grammar"], ["explain", "--html", "-"]):
        statuses = [run([sketchc, *command], number, text).returncode for number in (1, 2, 3, 5, 9, 40, 100)]
        print(*command, statuses)
        assert command == ["grammar"] or NO_MEMORY in statuses


if __name__ == "__main__":
    main()
