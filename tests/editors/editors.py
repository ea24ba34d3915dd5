#!/usr/bin/env python3
"""The real editors on a wrong file: editors.py nvim|nvim-new|vim-syntax|emacs SKETCHC. Status 77: the editor is not here."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EDITORS = ROOT / "tools" / "editors"
WRONG = """sketch s {
    symbols: M;
    tensors: X[M]: f32; Y[M]: f32;
    constexpr: T = 8;
    for i in range(0, ceil(M, T)):
        x=alloc( [T] )
        load(X[i:i+T] -> x)
        y = exp(x)
        store(y -> Y[i*T:(i+1)*T])
}
"""


def skip(program):
    print(f"{program} is not installed")
    sys.exit(77)


def run(command, sketchc, file, **env):
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home, "XDG_STATE_HOME": home,
               "XDG_CACHE_HOME": home, "SKETCHC": str(sketchc), "SKETCHC_TEST_FILE": str(file), **env}
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=150)
    print(done.stdout[-3000:])
    return done.returncode


def nvim(sketchc, file, new=False):
    program = shutil.which("nvim") or skip("nvim")
    command = [program, "--headless", "-u", "NONE", "-i", "NONE", "--cmd", f"set runtimepath^={EDITORS / 'nvim'}",
               "-c", "luafile " + str(ROOT / "tests/editors/nvim_test.lua")]
    return run(command, sketchc, file, **({"SKETCHC_TEST_NEW": "1"} if new else {}))


def vim_syntax(sketchc, file):
    """The word under each of these is coloured as said, in a real editor."""
    program = shutil.which("nvim") or shutil.which("vim") or skip("vim")
    expected = {"sketch": "sketchBlock", "symbols": "sketchSection", "f32": "sketchType", "alloc": "sketchCall", "for": "sketchControl"}
    checks = "".join(f"call cursor(1, 1) | call search('\\<{word}\\>', 'c') | "
                     f"if synIDattr(synID(line('.'), col('.'), 1), 'name') !=# '{group}' | cquit 1 | endif\n"
                     for word, group in expected.items())
    script = pathlib.Path(file).with_suffix(".vim")
    script.write_text(f"set runtimepath^={EDITORS / 'vim'}\nfiletype plugin indent on\nsyntax on\nedit {file}\n"
                      f"if &filetype !=# 'sketch' | cquit 2 | endif\n{checks}"
                      "normal! G\ncall append('$', ['sketch t {', 'for i in range(3):', 'x = 1', '}'])\nnormal! 11GVG=\n"
                      "if getline(12) !=# '    for i in range(3):' || getline(13) !=# '        x = 1' | cquit 3 | endif\nqall!\n")
    return run([program, "--headless" if program.endswith("nvim") else "-es", "-u", "NONE", "-i", "NONE", "-S", script], sketchc, file)


def emacs(sketchc, file):
    program = shutil.which("emacs") or skip("emacs")
    probe = subprocess.run([program, "--batch", "--eval", "(progn (package-initialize) (require 'eglot))"], capture_output=True)
    if probe.returncode:
        skip("eglot")
    return run([program, "--batch", "-L", str(EDITORS / "emacs"), "-l", str(ROOT / "tests/editors/emacs_test.el")], sketchc, file)


def main():
    which, sketchc = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "wrong.sketch"
        file.write_text(WRONG)
        tests = {"nvim": nvim, "nvim-new": lambda s, f: nvim(s, f, True), "vim-syntax": vim_syntax, "emacs": emacs}
        return tests[which](sketchc, file)


if __name__ == "__main__":
    sys.exit(main())
