"""Exported shared objects: a C program that knows the header only, and apache-tvm-ffi where it is installed.

    test_export.py LIBSKETCHC PACKAGE_FOLDER"""
import ctypes
import pathlib
import subprocess
import tempfile

import checks
import numpy as np
from checks import refused

checks.use_package()
import sketchc  # noqa: E402
import sketchc.export as exporting  # noqa: E402

BLOCK = """operator block {
    symbols: N, C, H, W
    tensors: X[N, C, H, W]: f32; K[C, C, 3, 3]: f32; S[C]: f32; B[C]: f32; Y[N, C, H, W]: f32
    T = conv2d(X, K, padding=1)
    Y[n, c, h, w] = relu(T[n, c, h, w] * S[c] + B[c] + X[n, c, h, w])
}"""
ROWS = """operator rows { symbols: M, N; tensors: X[M, N]: f32; Y[M, N]: f32; Z[M]: f32; scalars: s: f32
    Y = softmax(s * X, axis=1)
    Z = sum(X, axis=1) }"""


def test_a_program_in_c():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        written = exporting.export(BLOCK, folder / "block.so")
        assert [p.name for p in written] == ["block.so", "block.c", "block.h"]
        program = pathlib.Path(__file__).with_name("export_main.c")
        subprocess.run(["cc", "-std=c17", "-Wall", "-Wextra", "-Werror", f"-I{folder}", program, folder / "block.so", "-lm", f"-Wl,-rpath,{folder}",
                        "-o", folder / "program"], check=True)
        done = subprocess.run([folder / "program"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        print(done.stdout, end="")
        needed = subprocess.run(["readelf", "-dW", folder / "block.so"], capture_output=True, text=True, check=True).stdout
        assert "libsketchc" not in needed


def test_workspaces():
    text = "operator chain { symbols: M, K, N; tensors: A[M, K]: f32; B[K, N]: f32; C[N, M]: f32; Y[M, M]: f32; Y = (A @ B) @ C }"
    a, b, c = (np.random.default_rng(i).normal(size=size).astype("float32") for i, size in enumerate([(4, 50), (50, 6), (6, 4)]))
    with tempfile.TemporaryDirectory() as name:
        exporting.export(text, pathlib.Path(name) / "chain.so")
        chain = ctypes.CDLL(str(pathlib.Path(name) / "chain.so"))
    kernel = sketchc.compile(text, target="cpu")
    want, sizes, y = kernel(a, b, c), [ctypes.c_int64(n) for n in (4, 50, 6)], np.empty((4, 4), "float32")
    assert np.allclose(want, a @ b @ c, atol=1e-4)
    chain.chain_workspace.restype = ctypes.c_int64
    needed = chain.chain_workspace(*sizes)
    assert needed > 0 and needed == next(iter(kernel._plans.values())).workspace
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c, y)]
    assert chain.chain(*pointers, *sizes, None) == 1
    block = np.empty(needed + 256, "uint8")
    address = block.ctypes.data
    assert chain.chain(*pointers, *sizes, ctypes.c_void_p(address + -address % 256)) == 0
    assert np.array_equal(y, want)


def test_what_cannot_be_exported():
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "x.so"
        refused("abi is", exporting.export, ROWS, path, abi="rust", kind=sketchc.Error)
        with_strides = ROWS.replace("; scalars: s: f32", "").replace("s * X", "X").replace("\n    Z = sum(X, axis=1)", "").replace(" Z[M]: f32", "")
        with_strides += """
sketch turned implements rows {
    symbols: M, N, S >= N; tensors: X[M, N]: f32 strides(S, 1); Y[M, N]: f32
    for i in range(M):
        x = alloc([N])
        load(X[i, 0:N] -> x)
        y = softmax(x)
        store(y -> Y[i, 0:N])
}"""
        refused("strides are not exported", exporting.export, with_strides, path, kind=sketchc.Error)


def test_tvm_ffi():
    try:
        import tvm_ffi
    except ImportError:
        print("skipped: apache-tvm-ffi is not installed")
        return
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "rows.so"
        exporting.export(ROWS, path, abi="tvm-ffi")
        rows = tvm_ffi.load_module(str(path)).rows
        x = np.random.default_rng(0).normal(size=(5, 33)).astype("float32")
        y, z = np.empty_like(x), np.empty(5, "float32")
        lent = [tvm_ffi.from_dlpack(a) for a in (x, y, z)]
        rows(*lent, 0.5)
        e = np.exp(0.5 * x.astype("float64"))
        assert np.allclose(y, e / e.sum(axis=1, keepdims=True), atol=1e-6) and np.allclose(z, x.sum(axis=1), atol=1e-5)
        refused("takes 4 arguments, given are 3", rows, *lent, kind=TypeError)
        refused("'Z' has another extent", rows, lent[0], lent[1], tvm_ffi.from_dlpack(np.empty(6, "float32")), 0.5, kind=ValueError)
        refused("'X' has another dtype, of 64 bits", rows, tvm_ffi.from_dlpack(x.astype("float64")), *lent[1:], 0.5, kind=TypeError)
        refused("'X' is no tensor", rows, 1, *lent[1:], 0.5, kind=TypeError)
        print("tvm-ffi", tvm_ffi.__version__)


checks.run(globals())
