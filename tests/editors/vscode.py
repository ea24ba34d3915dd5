#!/usr/bin/env python3
"""The VS Code extension: packaged by npm, its grammar over the examples, its client against the real server.

    vscode.py SKETCHC FOLDER      FOLDER keeps the installed packages between runs

Status 77: node or npm are not here, or no registry of packages can be reached."""
import json
import pathlib
import shutil
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tools" / "editors" / "vscode"
WANTED = {"extension/package.json", "extension/language-configuration.json", "extension/dist/extension.js",
          "extension/syntaxes/sketch.tmLanguage.json", "extension/snippets/sketch.json", "extension/readme.md"}


def run(command, folder, limit=300):
    done = subprocess.run([str(c) for c in command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=limit)
    print(done.stdout[-3000:])
    return done


def install(folder):
    npm = shutil.which("npm")
    if not npm or not shutil.which("node"):
        print("npm is not installed")
        sys.exit(77)
    version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip()
    if int(version.lstrip("v").split(".")[0]) < 20:
        print(f"node {version} is older than 20, which the packaging tool needs")
        sys.exit(77)
    for name in ("src", "syntaxes", "snippets"):
        shutil.rmtree(folder / name, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    for item in SOURCE.iterdir():
        if item.name in ("node_modules", "dist") or item.suffix == ".vsix":
            continue
        (shutil.copytree if item.is_dir() else shutil.copy)(item, folder / item.name)
    done = run([npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"], folder)
    if done.returncode and any(code in done.stdout for code in ("ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT", "EAI_AGAIN", "ENETUNREACH")):
        print("no registry of packages can be reached")
        sys.exit(77)
    assert done.returncode == 0, "npm ci failed"
    return npm


def main():
    sketchc, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    npm = install(folder)
    assert run([npm, "run", "--silent", "package"], folder).returncode == 0, "packaging failed"
    with zipfile.ZipFile(folder / "sketchc.vsix") as package:
        names = set(package.namelist())
        manifest = json.loads(package.read("extension/package.json"))
    assert WANTED <= names, f"missing in the package: {WANTED - names}"
    assert not [n for n in names if "node_modules" in n], "packages travel in the bundle, not beside it"
    matcher = manifest["contributes"]["problemMatchers"][0]["pattern"]["regexp"]
    wrong = subprocess.run([str(sketchc), "-", "-t", "openmp"], input="sketch s {\n    x = y\n}\n", capture_output=True, text=True)
    script = "const [r, l] = process.argv.slice(1); process.exit(l.split('\\n').some((x) => new RegExp(r).test(x)) ? 0 : 1)"
    assert run(["node", "-e", script, matcher, wrong.stderr], folder).returncode == 0, "the problem matcher reads no error"
    examples = sorted((ROOT / "examples").glob("*.sketch"))
    assert run(["node", ROOT / "tests/editors/vscode_grammar.js", folder, *examples], folder).returncode == 0, "grammar"
    assert run(["node", ROOT / "tests/editors/vscode_client.js", folder / "dist/extension.js", sketchc], folder).returncode == 0, "client"
    return 0


if __name__ == "__main__":
    sys.exit(main())
