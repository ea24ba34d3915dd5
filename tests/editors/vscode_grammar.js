// The TextMate grammar over sketches, by the engine that VS Code uses: vscode_grammar.js EXTENSION FILE...
"use strict";
const fs = require("fs");
const path = require("path");
const [extension, ...files] = process.argv.slice(2);
const { createRequire } = require("module");
const from = createRequire(path.resolve(extension, "package.json"));
const { Registry, parseRawGrammar, INITIAL } = from("vscode-textmate");
const oniguruma = from("vscode-oniguruma");

// The words that the grammar must know, and the scope of each.
const EXPECTED = {
  "storage.type.block": ["operator", "sketch", "implements", "case"],
  "keyword.control": ["for", "in", "if"],
  "keyword.other.section": ["symbols", "tensors"],
  "support.type": ["f32", "f16", "i32"],
  "support.function": ["alloc", "load", "store", "range"],
  "keyword.operator.arrow": ["->"],
};

function check(condition, text) {
  if (!condition) throw new Error(text);
}

async function main() {
  const wasm = fs.readFileSync(from.resolve("vscode-oniguruma/release/onig.wasm"));
  await oniguruma.loadWASM(wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.byteLength));
  const file = path.resolve(extension, "syntaxes/sketch.tmLanguage.json");
  const registry = new Registry({
    onigLib: Promise.resolve({ createOnigScanner: (p) => new oniguruma.OnigScanner(p), createOnigString: (s) => new oniguruma.OnigString(s) }),
    loadGrammar: async () => parseRawGrammar(fs.readFileSync(file, "utf8"), file),
  });
  const grammar = await registry.loadGrammar("source.sketch");
  const seen = new Map();
  let lines = 0;
  for (const name of files) {
    let state = INITIAL;
    for (const line of fs.readFileSync(name, "utf8").split("\n")) {
      const result = grammar.tokenizeLine(line, state);
      state = result.ruleStack;
      lines += 1;
      check(state.depth === 1, `${name}: a line leaves a rule open: ${line}`);
      const comment = line.indexOf("#");
      for (const token of result.tokens) {
        const text = line.slice(token.startIndex, token.endIndex), scope = token.scopes[token.scopes.length - 1];
        if (comment >= 0 && token.startIndex > comment) check(scope.startsWith("comment"), `${name}: not a comment: ${text}`);
        for (const [start, words] of Object.entries(EXPECTED))
          if (words.includes(text.trim()) && scope.startsWith(start)) seen.set(text.trim(), scope);
      }
    }
  }
  for (const words of Object.values(EXPECTED)) for (const word of words) check(seen.has(word), `${word} is not coloured anywhere`);
  console.log(`${files.length} files, ${lines} lines`);
}

main().catch((error) => { console.error(error); process.exit(1); });
