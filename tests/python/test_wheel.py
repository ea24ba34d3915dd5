"""The wheel: installed into a fresh virtual environment it finds its own library and runs a demo over NumPy, without torch.

    test_wheel.py LIBSKETCHC PACKAGE_FOLDER"""
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

DEMO = """
import sys
import numpy as np
import sketchc
assert sketchc.__file__.startswith(sys.prefix), sketchc.__file__
softmax = sketchc.compile("operator softmax_rows { symbols: M, N; tensors: X[M, N]: f32; Y[M, N]: f32; Y = softmax(X, axis=1) }", target="cpu")
x = np.random.default_rng(0).normal(size=(5, 33)).astype("float32")
e = np.exp(x.astype("float64"))
assert np.allclose(softmax(x), e / e.sum(axis=1, keepdims=True), atol=1e-6)
from sketchc import _native
assert str(_native.library().path).startswith(sys.prefix) and "torch" not in sys.modules
from importlib.metadata import entry_points, version
assert version("sketchc") == sketchc.version()
assert [e.value for e in entry_points(group="torch_dynamo_backends")] == ["sketchc.backend:sketchc"]
print("the demo runs in", sys.prefix)
"""


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        sys.exit(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def lend_numpy(python, folder):
    """The fresh environment sees this one's NumPy, and nothing else of it: the index need not be reached."""
    import numpy
    installed = pathlib.Path(numpy.__file__).parent
    lent = folder / "lent"
    lent.mkdir()
    for name in ("numpy", "numpy.libs"):
        if (installed.parent / name).exists():
            (lent / name).symlink_to(installed.parent / name)
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    (pathlib.Path(packages) / "lent.pth").write_text(f"{lent}\n")


def main():
    library, package = map(pathlib.Path, sys.argv[1:3])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        wheel = pathlib.Path(run(sys.executable, package / "wheel.py", library, folder / "a").strip())
        again = pathlib.Path(run(sys.executable, package / "wheel.py", library, folder / "b").strip())
        assert wheel.name == again.name and wheel.read_bytes() == again.read_bytes(), "two wheels of the same files differ"
        names = zipfile.ZipFile(wheel).namelist()
        assert {"sketchc/__init__.py", "sketchc/__init__.pyi", "sketchc/py.typed", "sketchc/lib/libsketchc.so"} <= set(names), names
        run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
        python = folder / "venv/bin/python3"
        lend_numpy(python, folder)
        run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check", wheel)
        environment = {k: v for k, v in os.environ.items() if k not in ("SKETCHC_LIBRARY", "PYTHONPATH")}
        print(run(python, "-c", DEMO, cwd=folder, env=environment), end="")
        print(f"figure: wheel_size {wheel.stat().st_size / 1e6:.1f} MB")


main()
