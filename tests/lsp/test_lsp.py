#!/usr/bin/env python3
"""Transcripts of the language server: test_lsp.py SKETCHC. Each test talks to a server of its own."""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from client import Client, apply, example, position

URI = "file:///work.sketch"
SKETCHC = sys.argv[1]
PATIENCE = 400 if os.environ.get("SANITIZED") else 100  # seconds a test may take
STRIDE = """sketch s {
    symbols: M;
    tensors: X[M]: f32; Y[M]: f32;
    constexpr: T = 8;
    for i in range(0, ceil(M, T)):
        x = alloc([T])
        load(X[i:i+T] -> x)
        y = exp(x)
        store(y -> Y[i*T:(i+1)*T])
}
"""


def opened(text, **options):
    c = Client(SKETCHC, **options)
    c.open(URI, text)
    return c


def compiler_says(text):
    done = subprocess.run([SKETCHC, "-", "-t", "openmp", "-D", "T=8", "--diagnostics=json"], input=text, capture_output=True, text=True)
    return done.stderr


def test_lifecycle():
    c = Client(SKETCHC, initialize=False)
    assert c.request("textDocument/hover", {}, error=True)["code"] == -32002
    assert c.request("initialize", {})["capabilities"]["positionEncoding"] == "utf-16"
    assert c.request("initialize", {}, error=True)["code"] == -32600
    assert c.request("no/such", {}, error=True)["code"] == -32601
    assert c.request("textDocument/hover", {"textDocument": {"uri": "file:///no"}}, error=True)["code"] == -32602
    assert c.end() == 0
    c = Client(SKETCHC)
    c.notify("exit", None)
    assert c.process.wait(timeout=20) == 1


def test_bad_frames():
    c = Client(SKETCHC)
    c.send_raw(b"{not json")
    assert c.read()["error"]["code"] == -32700
    c.send_raw(b"[]")
    assert c.read()["error"]["code"] == -32600
    # A message that is too long is left aside, whole, and told; the next one is answered.
    c.send_raw(b" " * 9000000)
    assert "more than 8 MiB" in c.read()["error"]["message"]
    c.send_raw(b"[]")
    assert c.read()["error"]["code"] == -32600
    c.process.stdin.write(b"Content-Length: 99999999999\r\n\r\n")
    c.process.stdin.flush()
    assert c.process.wait(timeout=20) == 1


def test_diagnostics_and_fix():
    c = opened(STRIDE)
    found = c.published(URI, 1)
    assert len(found) == 1 and found[0]["severity"] == 1, found
    assert found[0]["code"] in compiler_says(STRIDE), "the command line says the same"
    span = found[0]["range"]
    actions = c.request("textDocument/codeAction", {"textDocument": {"uri": URI}, "range": span, "context": {"diagnostics": found}})
    assert len(actions) == 1 and actions[0]["kind"] == "quickfix"
    fixed = apply(STRIDE, actions[0]["edit"]["changes"][URI])
    assert "X[i*T:(i+1)*T]" in fixed.replace(" ", ""), fixed
    c.change(URI, 2, {"text": fixed})
    assert c.published(URI, 2) == []
    c.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
    assert c.end() == 0 and c.diagnostics[URI]["diagnostics"] == []


def test_fixes():
    """A missing constexpr, a mistaken name, operation and hint: each fix leaves no such mistake."""
    text = STRIDE.replace("X[i:i+T]", "X[i*T:(i+1)*T]").replace("    constexpr: T = 8;\n", "").replace("T", "TILE")
    for wrong, code in ((text, "E0201"), (STRIDE.replace("i:i+T", "i*T:(i+1)*T").replace("store(y", "store(yy"), "E0201"),
                        (STRIDE.replace("i:i+T", "i*T:(i+1)*T").replace("exp(x", "exq(x"), "E0202"),
                        (STRIDE.replace("i:i+T", "i*T:(i+1)*T").replace("[T])", '[T], llm_hint=["fastst"])'), "W0601")):
        c = opened(wrong)
        found = [d for d in c.published(URI, 1) if d["code"] == code]
        assert found, wrong
        actions = c.request("textDocument/codeAction", {"textDocument": {"uri": URI}, "range": found[0]["range"], "context": {"diagnostics": found}})
        action = next(a for a in actions if a["diagnostics"][0]["code"] == code)
        c.change(URI, 2, {"text": apply(wrong, action["edit"]["changes"][URI])})
        assert code not in [d["code"] for d in c.published(URI, 2)], (code, action)
        assert c.end() == 0


def test_alloc_hints():
    """What the command line says of the hints of allocs."""
    text = STRIDE.replace("i:i+T", "i*T:(i+1)*T").replace("[T])", '[T], llm_hint=["fast", "accumulator"])')
    c = opened(text)
    found = c.published(URI, 1)
    done = subprocess.run([SKETCHC, "-", "-t", "cuda", "--diagnostics=json"], input=text, capture_output=True, text=True)
    said = [d["code"] for d in json.loads(done.stderr)["diagnostics"]]
    assert found and set(d["code"] for d in found) <= set(said), (found, said)
    assert c.end() == 0


def test_hints_of_loops():
    """What passes say of hints comes behind the diagnostics, at the hint; edits and errors end the work on it."""
    text = example("softmax").replace('@llm_hint("parallel", "coreidx")', '@llm_hint("vectorize")\n    @llm_hint("parallel", "coreidx")')
    c = opened(text, refresh=True)
    c.change(URI, 2, {"text": text + "# a comment\n"})
    c.asked("workspace/inlayHint/refresh")
    found = [d for d in c.diagnostics[URI]["diagnostics"] if "vectorize" in d["message"]]
    assert c.diagnostics[URI]["version"] == 2 and len(found) == 1 and found[0]["severity"] == 3 and found[0]["code"] == "N0610", found
    assert found[0]["range"]["start"] == dict(zip(("line", "character"), position(text, '"vectorize"'))), found
    assert "Not followed on sm_80: vector widths follow" in c.at("hover", URI, *position(text, '"vectorize"', 2))["contents"]["value"]
    assert "Followed on sm_80." in c.at("hover", URI, *position(text, '"parallel"', 2))["contents"]["value"]
    c.change(URI, 3, {"text": text + "x = (\n"})
    assert {d["severity"] for d in c.published(URI, 3)} == {1}, "an error leaves nothing to compile"
    c.change(URI, 4, {"text": text.replace("vectorize", "persistent")})
    c.asked("workspace/inlayHint/refresh")
    assert any("persistent" in d["message"] for d in c.diagnostics[URI]["diagnostics"])
    assert c.end() == 0


def test_options():
    """The target that is compiled for."""
    c = opened(example("scale"), refresh=True, options={"target": "openmp"})
    c.asked("workspace/inlayHint/refresh")
    assert head_of(c).startswith("time: not known"), head_of(c)
    assert c.end() == 0
    c = opened(example("matmul_bf16"), refresh=True, options={"arch": "sm_90a"})
    c.asked("workspace/inlayHint/refresh")
    assert "(3 stages of 16384)" in head_of(c) and "floor" in head_of(c), head_of(c)
    for form, word in (("cuda", "wgmma"), ("kernel", "tma.load"), ("c", "#pragma omp")):
        shown = c.request("workspace/executeCommand", {"command": "sketchc.show", "arguments": [
            {"uri": URI, "form": form, "position": {"line": 25, "character": 0}}]})
        assert shown["ok"] and word in shown["text"], (form, shown["text"][:300])
    assert c.end() == 0
    c = opened(example("scale"), refresh=True, options={"arch": "sm_1"})
    c.asked("workspace/inlayHint/refresh")
    assert [d for d in c.diagnostics[URI]["diagnostics"] if "sm_1" in d["message"]]
    assert c.end() == 0


EVERYTHING = {"start": {"line": 0, "character": 0}, "end": {"line": 9999, "character": 0}}


def inlays(c):
    return [h["label"] for h in c.request("textDocument/inlayHint", {"textDocument": {"uri": URI}, "range": EVERYTHING})]


def head_of(c):
    """The hint at the sketch's name."""
    return next(h for h in inlays(c) if not h.startswith((": ", "x ")))


def test_hover():
    text = example("softmax")
    c = opened(text)

    def hover(needle, skip=0):
        return c.at("hover", URI, *position(text, needle, skip))["contents"]["value"]

    assert "f32[N]" in hover("row = alloc") and "that of `X`" in hover("row = alloc")
    assert "registers on a GPU; asked for: shared memory" in hover("row = alloc")
    assert "reduce_max(" in hover("reduce_max") and "largest" in hover("reduce_max")
    assert "f32[M, N]" in hover("X[m,") and "only read" in hover("X[m,")
    assert "Trip count" in hover("m in range") and "independent" in hover("m in range")
    assert "cores" in hover('"coreidx"').lower()
    c.diagnosed_twice(URI)
    said = subprocess.run([SKETCHC, "-", "-t", "cuda", "--explain", "--json", "-q"], input=text, capture_output=True, text=True).stdout
    full = json.loads(said)["cases"][-1]
    shown = hover("softmax_whole_row implements")
    assert f"| full | {1e6 * full['seconds']:.1f} us | {full['percent']:.0f} % |" in shown and full["launches"][0]["text"] in shown, shown
    assert c.at("hover", URI, 0, 3) is None
    assert c.end() == 0


def test_inlay_hints():
    text = example("softmax")
    c = opened(text, options={"arch": "sm_90a"})
    c.diagnosed_twice(URI)
    labels, head = inlays(c), head_of(c)
    assert ": f32[N]" in labels and "x M" in labels, labels
    assert head.startswith("full: ") and "of the floor, device memory" in head and "blocks an SM (by registers)" in head, head
    assert "bytes of shared memory" in head
    assert c.end() == 0


def test_completion():
    text = STRIDE.replace("y = exp(x)", "y = ex")
    c = opened(text)

    def labels(t, needle, skip):
        c.change(URI, 5, {"text": t})
        return [i["label"] for i in c.at("completion", URI, *position(t, needle, skip))["items"]]

    names = labels(text, "y = ex", 6)
    assert {"exp", "x", "X", "T", "M", "i", "num_sms", "for"} <= set(names) and "y" not in names, names
    hints = labels('sketch s {\n    @llm_hint("pa\n}\n', 'hint("', 6)
    assert "parallel" in hints and "pipeline" in hints and "exp" not in hints
    contexts = labels('sketch s {\n    @llm_hint("parallel", "\n}\n', ', "', 3)
    assert "coreidx" in contexts and "pipeline" not in contexts
    assert "input_cache" in labels('sketch s {\n    a = alloc([4], llm_hint=["\n}\n', '=["', 3)
    assert "bf16" in labels("sketch s {\n    tensors: X[4]: b\n}\n", "]: b", 4)
    assert c.end() == 0


def test_signature_help():
    text = STRIDE.replace("y = exp(x)", "y = where(x, max(x, ")
    c = opened(text)
    help_ = c.at("signatureHelp", URI, *position(text, "max(x, ", 7))
    assert help_["signatures"][0]["label"].startswith("max(a, b") and help_["activeParameter"] == 1
    help_ = c.at("signatureHelp", URI, *position(text, "where(x, ", 9))
    assert help_["signatures"][0]["label"].startswith("where(") and help_["activeParameter"] == 1
    assert c.at("signatureHelp", URI, 0, 0) is None
    assert c.end() == 0


def test_navigation():
    text = example("softmax")
    c = opened(text)
    here = c.at("definition", URI, *position(text, "row - peak"))
    assert here["range"]["start"] == dict(zip(("line", "character"), position(text, "row = alloc")))
    assert c.at("definition", URI, *position(text, "implements row_softmax", 12))["range"]["start"]["line"] == 1
    uses = c.at("references", URI, *position(text, "peak = "), context={"includeDeclaration": False})
    assert len(uses) == 1
    assert len(c.at("documentHighlight", URI, *position(text, "peak = "))) == 2
    assert c.at("definition", URI, 0, 0) is None
    assert c.end() == 0


def test_rename():
    text = example("softmax")
    c = opened(text)
    where = position(text, "weight = exp")
    edits = c.at("rename", URI, *where, newName="e_x")["changes"][URI]
    renamed = apply(text, edits)
    assert renamed.count("e_x") == text.count("weight") and "weight" not in renamed
    c.change(URI, 2, {"text": renamed})
    assert [d for d in c.published(URI, 2) if d["severity"] == 1] == []
    # A tensor that the operator and the sketch share by name goes along in both, and in the cases.
    tensor = apply(renamed, c.at("rename", URI, *position(renamed, "X[m,"), newName="Input")["changes"][URI])
    c.change(URI, 3, {"text": tensor})
    assert [d for d in c.published(URI, 3) if d["severity"] == 1] == [], c.published(URI, 3)
    assert "Input: normal" in tensor and "Input[M, N]" in tensor
    for bad in ("for", "1x", "a b", "", "total"):
        line, character = position(tensor, "e_x = exp")
        c.request("textDocument/rename", {"textDocument": {"uri": URI}, "position": {"line": line, "character": character},
                                          "newName": bad}, error=True)
    assert c.at("prepareRename", URI, 0, 0) is None
    assert c.end() == 0


EQUATIONS = """operator decay {
    symbols: B, T;
    tensors: X[B, T]: f32, Y[B, T]: f32, Z[B]: f32;
    values: S[B, T]: f32;
    S[b, t] = X[b, t] * 2
    H = linear_scan(0.5, S, axis=1)
    G[b, t in 0:T - 1] = H[b, t + 1] - S[b, t]
    Y = H
    Z = sum(G[:, 0:T - 1], axis=1)
}
"""


def test_intermediates():
    """Declared and inferred ones, slices of them, indices on them."""
    c = opened(EQUATIONS.replace("B, T;", "B, T, T >= 1;", 1))
    text = EQUATIONS.replace("B, T;", "B, T, T >= 1;", 1)

    def at(method, needle, skip=0, **more):
        return c.at(method, URI, *position(text, needle, skip), **more)

    assert [d for d in c.published(URI, 1) if d["severity"] == 1] == []
    assert "f32[B, T]" in at("hover", "S[b, t]\n")["contents"]["value"] and "linear_scan(" in at("hover", "linear_scan")["contents"]["value"]
    assert "f32[B, T - 1]" in at("hover", "G[:")["contents"]["value"], at("hover", "G[:")
    assert at("definition", "S[b, t]\n")["range"]["start"]["line"] == 3 and at("definition", "G[:")["range"]["start"]["line"] == 6
    names = {i["label"] for i in at("completion", "Z = sum(G", 9)["items"]}
    assert {"S", "H", "G", "linear_scan", "values"} <= names, names
    for old, new, needle in (("S", "Scaled", "S, axis=1"), ("G", "Steps", "G[:")):
        text = apply(text, at("rename", needle, newName=new)["changes"][URI])
        c.change(URI, len(text), {"text": text})
        assert [d for d in c.published(URI, len(text)) if d["severity"] == 1] == [] and not re.search(rf"\b{old}\b", text), text
    legend = c.capabilities["semanticTokensProvider"]["legend"]["tokenTypes"]
    tokens = decoded(c.request("textDocument/semanticTokens/full", {"textDocument": {"uri": URI}})["data"], legend)
    assert (3, 4, 6, "keyword") in [t[:4] for t in tokens], tokens
    assert c.end() == 0


def test_symbols_and_folding():
    text = example("softmax")
    c = opened(text)
    document = {"textDocument": {"uri": URI}}
    symbols = c.request("textDocument/documentSymbol", document)
    assert [s["name"] for s in symbols] == ["row_softmax", "softmax_whole_row"]
    assert "full" in [s["name"] for s in symbols[0]["children"]]
    folds = c.request("textDocument/foldingRange", document)
    assert len(folds) >= 3 and all(f["endLine"] > f["startLine"] for f in folds)
    assert c.end() == 0


def decoded(data, names):
    tokens, line, character = [], 0, 0
    for i in range(0, len(data), 5):
        line += data[i]
        character = data[i + 1] if data[i] else character + data[i + 1]
        tokens.append((line, character, data[i + 2], names[data[i + 3]], data[i + 4]))
    return tokens


def test_semantic_tokens():
    text = "# ünï\n" + example("softmax")
    c = opened(text)
    legend = c.capabilities["semanticTokensProvider"]["legend"]["tokenTypes"]
    tokens = decoded(c.request("textDocument/semanticTokens/full", {"textDocument": {"uri": URI}})["data"], legend)
    lines = text.split("\n")
    spelt = {(lines[l][ch:ch + n], kind) for l, ch, n, kind, _ in tokens}
    assert {("# ünï", "comment"), ("sketch", "keyword"), ("exp", "function"), ("f32", "type"), ("row", "variable"),
            ("M", "enumMember"), ("X", "parameter"), ("65537", "number"), ('"coreidx"', "decorator")} <= spelt, spelt
    ends = [(l, ch + n) for l, ch, n, _, _ in tokens]
    assert all((a[0], a[1]) >= e for a, e in zip(tokens[1:], ends)), "tokens do not overlap"
    assert c.end() == 0


def test_semantic_tokens_of_a_part():
    """A range has the tokens of all that touch it; a delta makes of what was known what a fresh server says."""
    text = "# ünï\n" + example("softmax")
    c = opened(text)
    document = {"textDocument": {"uri": URI}}
    kinds = c.capabilities["semanticTokensProvider"]["legend"]["tokenTypes"]
    full = c.request("textDocument/semanticTokens/full", document)
    line = position(text, "peak = ")[0]
    part = c.request("textDocument/semanticTokens/range", {**document, "range": {
        "start": {"line": line, "character": 0}, "end": {"line": line + 1, "character": 0}}})
    of_line = [t for t in decoded(full["data"], kinds) if t[0] == line]
    assert len(of_line) > 3 and decoded(part["data"], kinds) == of_line, part
    known, data = full["resultId"], full["data"]
    for version, (old, new) in enumerate((("peak", "top"), ("exp(", "f(g, "), ("# ünï\n", ""), ("", "")), 2):
        text = text.replace(old, new) if old else text
        c.change(URI, version, {"text": text})
        delta = c.request("textDocument/semanticTokens/full/delta", {**document, "previousResultId": known})
        assert len(delta["edits"]) == (1 if old else 0), delta["edits"]
        for e in delta["edits"]:
            assert len(e["data"]) < len(data) or old.startswith("#")
            data = data[:e["start"]] + e["data"] + data[e["start"] + e["deleteCount"]:]
        fresh = opened(text)
        assert data == fresh.request("textDocument/semanticTokens/full", document)["data"]
        assert fresh.end() == 0
        known = delta["resultId"]
    unknown = c.request("textDocument/semanticTokens/full/delta", {**document, "previousResultId": "no such"})
    assert unknown["data"] == data, "who knows nothing is told all"
    assert c.end() == 0


def test_resolve():
    """Completion gives names and forms, the text of an operation comes when it is looked at."""
    text = STRIDE.replace("y = exp(x)", "y = ex")
    c = opened(text)
    items = {i["label"]: i for i in c.at("completion", URI, *position(text, "y = ex", 6))["items"]}
    whole = c.request("completionItem/resolve", items["exp"])
    assert "documentation" not in items["exp"] and "e to the power x" in whole["documentation"]["value"], whole
    assert {k: whole[k] for k in ("label", "kind", "detail")} == {k: items["exp"][k] for k in ("label", "kind", "detail")}
    assert "documentation" not in c.request("completionItem/resolve", items["x"])
    assert c.end() == 0


def test_workspace_symbols():
    c = opened(example("softmax"))
    c.open("file:///other.sketch", example("scale"))

    def found(query):
        return {(s["name"], s["location"]["uri"]) for s in c.request("workspace/symbol", {"query": query})}

    assert {("row_softmax", URI), ("softmax_whole_row", URI), ("scale", "file:///other.sketch"), ("scale_tiled", "file:///other.sketch")} == found("")
    assert found("ROWSM") == {("row_softmax", URI)} and found("tiled") == {("scale_tiled", "file:///other.sketch")} and found("zz") == set()
    assert c.end() == 0


def test_implementation():
    """From an operator to its sketches, and from a sketch to those beside it."""
    text = example("softmax")
    again = text + "\n" + text[text.index("sketch softmax"):].replace("softmax_whole_row", "second")
    c = opened(again)
    for needle in ("row_softmax {", "second implements"):
        places = c.at("implementation", URI, *position(again, needle))
        assert [p["range"]["start"] for p in places] == [dict(zip(("line", "character"), position(again, n)))
                                                         for n in ("softmax_whole_row implements", "second implements")], places
    assert c.at("implementation", URI, *position(again, "peak = ")) is None
    assert c.end() == 0


def test_selection_range():
    """Word, statement, loop, block, file: each holds the one before it."""
    text = example("softmax")
    c = opened(text)
    line, character = position(text, "row - peak", 1)
    at = {"line": line, "character": character}
    chain = c.request("textDocument/selectionRange", {"textDocument": {"uri": URI}, "positions": [at, {"line": 0, "character": 0}]})
    assert len(chain) == 2 and chain[1]["range"]["start"] == {"line": 0, "character": 0} and "parent" not in chain[1]
    spans, node = [], chain[0]
    while node:
        spans.append(node["range"])
        node = node.get("parent")
    lines = text.split("\n")
    taken = [lines[s["start"]["line"]][s["start"]["character"]:s["end"]["character"]] for s in spans[:2]]
    assert taken[0] == "row" and taken[1].startswith("weight = exp(row - peak"), taken
    starts = [lines[s["start"]["line"]][s["start"]["character"]:].split(" ")[0] for s in spans[2:]]
    assert starts[-2:] == ["sketch", "#"] and any(s in ("for", '@llm_hint("parallel",') for s in starts), starts

    def order(p):
        return p["line"], p["character"]

    for inner, outer in zip(spans, spans[1:]):
        assert order(outer["start"]) <= order(inner["start"]) and order(inner["end"]) <= order(outer["end"]), spans
    assert c.end() == 0


def test_formatting():
    messy = "sketch s{\n  symbols:M\n  for i in range( M ):\n      a=1 # c\n}\n"
    c = opened(messy)
    document = {"textDocument": {"uri": URI}, "options": {}}
    tidy = apply(messy, c.request("textDocument/formatting", document))
    want = subprocess.run([SKETCHC, "fmt", "-"], input=messy, capture_output=True, text=True).stdout
    assert tidy == want and "a = 1  # c" in tidy
    c.change(URI, 2, {"text": tidy})
    assert c.request("textDocument/formatting", document) == []
    c.change(URI, 3, {"text": "sketch s {\n  x = (\n}\n"})
    assert c.request("textDocument/formatting", document, error=True)["code"] == -32803
    assert c.end() == 0


def test_show():
    text = example("softmax")
    c = opened(text)

    def show(form, **more):
        return c.request("workspace/executeCommand", {"command": "sketchc.show", "arguments": [
            {"uri": URI, "form": form, "position": {"line": 25, "character": 0}, **more}]})

    code = show("cuda")
    assert code["ok"] and "__global__" in code["text"]
    lines = code["text"].split("\n")
    assert code["lines"] and all(f".sketch:{source + 1}" in lines[at] for at, source in code["lines"])
    assert "tile.reduce" in show("tile")["text"] and "shuffle" in show("kernel")["text"] and "#pragma omp" in show("c")["text"]
    forms = [("tile", "tile.reduce", "reduce_max"), ("kernel", "mem.store", "store("), ("graph", "graph.reduce", "Y = softmax")]
    ptx = show("ptx")
    assert ptx["ok"] or "LLVM" in ptx["text"], ptx["text"]
    assert not any(word in ptx["text"] for word in (".loc", ".file", "$L__tmp", ".section"))
    for form, op, line in forms + [("ptx", "st.global", "store(")] * ptx["ok"]:
        shown, where = show(form), position(text, line)[0]
        at = [i for i, word in enumerate(shown["text"].split("\n")) if op in word]
        said = [max((p for p in shown["lines"] if p[0] <= i), key=lambda p: p[0])[1] for i in at]
        assert said and where in said, (form, said, where)
    c.request("workspace/executeCommand", {"command": "rm", "arguments": []}, error=True)
    c.change(URI, 2, {"text": STRIDE})
    assert not show("cuda")["ok"] and "error" in show("cuda")["text"]
    assert c.end() == 0


def test_cancel():
    c = opened(example("softmax"))
    work = [json.dumps({"jsonrpc": "2.0", "id": 100 + i, "method": "textDocument/semanticTokens/full",
                        "params": {"textDocument": {"uri": URI}}}) for i in range(20)]
    work.append(json.dumps({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 119}}))
    c.process.stdin.write(b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(w), w.encode()) for w in work))
    c.process.stdin.flush()
    assert "result" in c.answer(100)
    assert c.answer(119)["error"]["code"] == -32800
    assert c.end() == 0


def random_edit(rng, text):
    pieces = ["\n", " ", "x", "(", ")", "[i*T]", "# ünï 𝄞", "for i in range(3):\n    y = x\n", "load(", "->", "}", "{", '"', "=", "tensors: Z[M]: f32;"]
    a = rng.randrange(len(text) + 1)
    b = min(len(text), a + rng.choice([0, 0, 0, 1, 3, 40]))
    new = rng.choice(pieces) if rng.random() < 0.8 else ""
    place = [dict(zip(("line", "character"), (text.count("\n", 0, p), len(text[text.rfind("\n", 0, p) + 1:p].encode("utf-16-le")) // 2)))
             for p in (a, b)]
    return text[:a] + new + text[b:], {"range": {"start": place[0], "end": place[1]}, "text": new}


def test_random_edits():
    """Edits one by one come to the same text: seen through semantic tokens and diagnostics of a fresh server."""
    rng = random.Random(7)
    text = "# 𝄞 ünï\n" + example("softmax")
    c = opened(text)
    for version in range(2, 300):
        text, change = random_edit(rng, text)
        if not text:
            text = "sketch s {\n}\n"
            change = {"text": text}
        c.change(URI, version, change)
        if version % 60 == 0:
            fresh = opened(text)
            assert c.published(URI, version) == fresh.published(URI, 1)
            tokens = {"textDocument": {"uri": URI}}
            full = c.request("textDocument/semanticTokens/full", tokens)
            assert full["data"] == fresh.request("textDocument/semanticTokens/full", tokens)["data"]
            fresh.end()
    assert c.end() == 0


def test_utf8_positions():
    text = "sketch s {\n    # ünï\n    x = 'ü'; y = undefined_name\n}\n"
    for utf8, encoding in ((True, "utf-8"), (False, "utf-16-le")):
        c = opened(text, utf8=utf8)
        found = [d for d in c.published(URI, 1) if "undefined_name" in d["message"]]
        assert found[0]["range"]["start"]["character"] == position(text, "undefined_name", 0, encoding)[1], found
        assert c.end() == 0


def too_long(*_):
    raise TimeoutError(f"no end within {PATIENCE} s")


def main():
    signal.signal(signal.SIGALRM, too_long)
    tests = [(name, f) for name, f in sorted(globals().items()) if name.startswith("test_")]
    failed = 0
    print(f"1..{len(tests)}")
    for number, (name, f) in enumerate(tests, 1):
        signal.alarm(PATIENCE)
        try:
            f()
            print(f"ok {number} - {name}")
        except Exception as e:  # noqa: BLE001 - one failing test must not hide the others
            failed += 1
            print(f"not ok {number} - {name}")
            print("#", type(e).__name__, str(e)[:1500].replace("\n", "\n# "))
            import traceback
            print("#", traceback.format_exc().splitlines()[-4])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
