// The client of the language server, and the view of the code beside the source.
"use strict";
const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

const FORMS = ["cuda", "ptx", "c", "kernel", "tile", "graph"];
const SCHEME = "sketchc-view";

let client;

// Documents of SCHEME hold what the server returned last; the query says for which source and form.
class Views {
  constructor() {
    this.changed = new vscode.EventEmitter();
    this.onDidChange = this.changed.event;
    this.results = new Map();
  }

  key(uri) {
    return uri.toString();
  }

  async fetch(uri) {
    const { source, position, form } = JSON.parse(uri.query);
    const result = await client.sendRequest("workspace/executeCommand", {
      command: "sketchc.show", arguments: [{ uri: source, position, form }],
    });
    this.results.set(this.key(uri), result);
    return result;
  }

  async provideTextDocumentContent(uri) {
    return (await this.fetch(uri)).text;
  }

  // Lines of the view that come from a line of the source.
  linesOf(uri, sourceLine) {
    const result = this.results.get(this.key(uri));
    if (!result) return [];
    const lines = result.text.split("\n").length;
    return result.lines.flatMap(([at, source], i) => {
      const end = i + 1 < result.lines.length ? result.lines[i + 1][0] : lines;
      return source === sourceLine ? [[at, end - 1]] : [];
    });
  }
}

const views = new Views();

function viewUri(document, position, form) {
  const query = JSON.stringify({ source: document.uri.toString(), position, form });
  return vscode.Uri.from({ scheme: SCHEME, path: `${document.uri.path}.${form === "cuda" ? "cu" : form}`, query });
}

async function showBeside() {
  const editor = vscode.window.activeTextEditor;
  if (!editor || editor.document.languageId !== "sketch") return undefined;
  const form = await vscode.window.showQuickPick(FORMS, { placeHolder: "What to show" });
  if (!form) return undefined;
  const at = editor.selection.active;
  const uri = viewUri(editor.document, { line: at.line, character: at.character }, form);
  const document = await vscode.workspace.openTextDocument(uri);
  await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true });
  return uri;
}

// The lines of each open view that belong to the cursor's line stand out.
function follow(event, decoration) {
  const source = event.textEditor.document.uri.toString();
  for (const editor of vscode.window.visibleTextEditors) {
    const uri = editor.document.uri;
    if (uri.scheme !== SCHEME || JSON.parse(uri.query).source !== source) continue;
    const ranges = views.linesOf(uri, event.selections[0].active.line);
    editor.setDecorations(decoration, ranges.map(([from, to]) => new vscode.Range(from, 0, to, 0)));
    if (ranges.length) editor.revealRange(new vscode.Range(ranges[0][0], 0, ranges[0][1], 0));
  }
}

function refresh(document) {
  for (const other of vscode.workspace.textDocuments) {
    if (other.uri.scheme === SCHEME && JSON.parse(other.uri.query).source === document.uri.toString()) views.changed.fire(other.uri);
  }
}

async function activate(context) {
  const settings = vscode.workspace.getConfiguration("sketchc");
  const command = settings.get("command", "sketchc");
  const initializationOptions = { target: settings.get("target", "cuda"), arch: settings.get("arch", "") };
  const server = { command, args: ["lsp"], transport: TransportKind.stdio };
  client = new LanguageClient("sketchc", "sketchc", server, { documentSelector: [{ language: "sketch" }], initializationOptions });
  const decoration = vscode.window.createTextEditorDecorationType({ isWholeLine: true, backgroundColor: new vscode.ThemeColor("editor.findMatchHighlightBackground") });
  context.subscriptions.push(
    client,
    decoration,
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, views),
    vscode.commands.registerCommand("sketchc.showBeside", showBeside),
    vscode.window.onDidChangeTextEditorSelection((event) => follow(event, decoration)),
    vscode.workspace.onDidSaveTextDocument(refresh),
  );
  await client.start();
}

function deactivate() {
  return client ? client.stop() : undefined;
}

module.exports = { activate, deactivate, views, viewUri };
