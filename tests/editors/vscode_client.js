// The extension in Node, with a stub of the editor's API, against the real server: vscode_client.js BUNDLE SKETCHC.
"use strict";
const Module = require("module");
const path = require("path");
const [bundle, sketchc] = process.argv.slice(2).map((p) => path.resolve(p));

const TEXT = `sketch s {
    symbols: M;
    tensors: X[M]: f32; Y[M]: f32;
    constexpr: T = 8;
    for i in range(0, ceil(M, T)):
        x = alloc([T])
        load(X[i:i+T] -> x)
        store(x -> Y[i*T:(i+1)*T])
}
`;
const FIXED = TEXT.replace("X[i:i+T]", "X[i*T:(i+1)*T]");

// Whatever the client asks of the API and the test does not care about: callable, constructible, any member.
const cache = new Map();
function anything(name) {
  if (cache.has(name)) return cache.get(name);
  const base = /\.[A-Z]\w*$/.test(name) ? class { constructor(...args) { Object.assign(this, { args }); } } : function () { return { dispose() {} }; };
  const made = new Proxy(base, {
    get(target, key) {
      if (typeof key === "symbol" || key === "then" || key in target) return target[key];
      return anything(`${name}.${key}`);
    },
  });
  cache.set(name, made);
  return made;
}

class EventEmitter {
  constructor() {
    this.listeners = [];
    this.event = (f, self) => {
      this.listeners.push(self ? f.bind(self) : f);
      return { dispose() {} };
    };
  }
  fire(value) {
    return Promise.all(this.listeners.map((f) => f(value)));
  }
  dispose() {}
}
class Position {
  constructor(line, character) { Object.assign(this, { line, character }); }
}
class Range {
  constructor(a, b, c, d) {
    [this.start, this.end] = a instanceof Position ? [a, b] : [new Position(a, b), new Position(c, d)];
  }
}
class Uri {
  static parse(text) { return new Uri(text); }
  static file(p) { return new Uri(`file://${p}`); }
  static from({ scheme, path: p, query }) { return Object.assign(new Uri(`${scheme}:${p}?${encodeURIComponent(query)}`), { query }); }
  constructor(text) { Object.assign(this, { text, scheme: text.split(":")[0], path: text.replace(/^\w+:(\/\/)?/, "").split("?")[0] }); }
  get fsPath() { return this.path; }
  toString() { return this.text; }
  with() { return this; }
}
class Diagnostic {
  constructor(range, message, severity) { Object.assign(this, { range, message, severity }); }
}

const document = {
  uri: Uri.file("/work.sketch"), languageId: "sketch", version: 1, isClosed: false, text: TEXT,
  getText() { return this.text; },
};
const opened = new EventEmitter(), changed = new EventEmitter(), commands = new Map();
const diagnostics = new Map();
let arrived = () => {};
const known = {
  version: "1.90.0", EventEmitter, Position, Range, Uri, Diagnostic,
  Disposable: class { constructor(f) { this.dispose = f; } static from() { return { dispose() {} }; } },
  CancellationTokenSource: class { constructor() { this.token = { isCancellationRequested: false, onCancellationRequested: () => ({ dispose() {} }) }; } cancel() {} dispose() {} },
  DiagnosticSeverity: { Error: 0, Warning: 1, Information: 2, Hint: 3 },
  env: { appName: "test", language: "en" },
  commands: {
    registerCommand(name, f) { commands.set(name, f); return { dispose() {} }; },
    executeCommand: async () => undefined,
  },
  languages: new Proxy({
    match: (selector, d) => (d.languageId === "sketch" ? 10 : 0),
    createDiagnosticCollection: () => ({
      set(uri, list) { diagnostics.set(uri.toString(), list); arrived(); }, delete() {}, clear() {}, dispose() {}, has: () => false,
    }),
  }, { get: (t, k) => (k in t ? t[k] : () => ({ dispose() {} })) }),
  window: new Proxy({
    createOutputChannel: () => ({ append: (x) => process.stderr.write(x), appendLine: (x) => process.stderr.write(x + "\n"), show() {}, dispose() {} }),
    visibleTextEditors: [], activeTextEditor: undefined, tabGroups: { all: [], onDidChangeTabs: () => ({ dispose() {} }) },
    createTextEditorDecorationType: () => ({ dispose() {} }),
    showErrorMessage: async (m) => { throw new Error(m); },
  }, { get: (t, k) => (k in t ? t[k] : () => ({ dispose() {} })) }),
  workspace: new Proxy({
    textDocuments: [document], notebookDocuments: [], workspaceFolders: undefined,
    getConfiguration: () => ({ get: (key, otherwise) => (key === "command" ? sketchc : otherwise) }),
    onDidOpenTextDocument: opened.event, onDidChangeTextDocument: changed.event,
    createFileSystemWatcher: () => anything("vscode.workspace.watcher"),
  }, { get: (t, k) => (k in t ? t[k] : () => ({ dispose() {} })) }),
};
const stub = new Proxy(known, { get: (t, k) => (k in t ? t[k] : anything(`vscode.${String(k)}`)) });
const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? stub : load(name, ...rest));

function check(condition, text) {
  if (!condition) throw new Error(text);
}

function nextDiagnostics() {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("no diagnostics came")), 20000);
    arrived = () => { clearTimeout(timer); resolve(diagnostics.get(document.uri.toString())); };
  });
}

async function main() {
  const extension = require(bundle);
  const first = nextDiagnostics();
  await extension.activate({ subscriptions: [] });
  const found = await first;
  check(found.length === 1 && /the loop counts tiles/.test(found[0].message), `found ${JSON.stringify(found)}`);
  check(commands.has("sketchc.showBeside"), "the command is missing");

  const next = nextDiagnostics();
  document.text = FIXED;
  document.version = 2;
  await changed.fire({ document, reason: undefined, contentChanges: [{ range: new Range(6, 13, 6, 21), rangeLength: 8, text: "X[i*T:(i+1)*T]" }] });
  check((await next).length === 0, "the fixed text has a diagnostic");

  const uri = extension.viewUri(document, { line: 5, character: 0 }, "cuda");
  const text = await extension.views.provideTextDocumentContent(uri);
  check(text.includes("__global__"), "no CUDA was shown");
  const lines = extension.views.linesOf(uri, 6);
  check(lines.length > 0 && text.split("\n")[lines[0][0]].includes(":7"), `lines of the load: ${JSON.stringify(lines)}`);
  await extension.deactivate();
  console.log("ok");
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
