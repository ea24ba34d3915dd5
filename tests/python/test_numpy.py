"""The Python package over NumPy's arrays.

    test_numpy.py LIBSKETCHC PACKAGE_FOLDER"""
import os
import tempfile

import checks
import numpy as np
from checks import refused

checks.use_package()
import sketchc  # noqa: E402

SCALE = "operator scale { symbols: N; tensors: X[N]: f32; Y[N]: f32; Y = 2 * X + 1 }"
ROWS = "operator rows { symbols: M, N; tensors: X[M, N]: f32; Y[M]: f32; Y = sum(X, axis=1) }"
TWO = """operator two { symbols: N; tensors: A[N]: f32; P[N]: f32; B[N]: f32; Q[N]: f32; scalars: s: f32 = 2.0;
    P = A + s * B
    Q = A - B }"""
UPDATE = "operator update { symbols: N; tensors: X[N]: f32; A[N]: f32; A = A + X }"


def compiled(text, **options):
    return sketchc.compile(text, target="cpu", **options)


def test_sizes_follow_from_the_shapes():
    kernel = compiled(SCALE)
    for n in (1, 7, 1000, 0):
        x = np.arange(n, dtype="float32")
        assert np.array_equal(kernel(x), 2 * x + 1)
    rows = compiled(ROWS, sizes=[{"M": 4, "N": 8}, {"M": 3, "N": 5}])
    x = np.arange(35, dtype="float32").reshape(5, 7)
    assert np.array_equal(rows(x), x.sum(axis=1)) and rows(x).shape == (5,)


def test_sizes_are_cases():
    before = [SCALE, ROWS, SCALE[:-2] + ";  # 2 } X\n  # }\n}\n", "# operator x {\n" + SCALE.replace("; Y = ", '\n    Y = ') + "\n"]
    for text in before:
        with_case = sketchc.kernel.with_sizes(text, [{"N": 5}, {"N": 7}] if "M" not in text else [{"M": 1, "N": 5}, {"M": 2, "N": 7}])
        assert with_case.count("\n") == text.count("\n") and with_case.count("case given") == 2, with_case
        compiled(with_case)
    assert sketchc.kernel.with_sizes("sketch s { }", {"N": 1}) == "sketch s { }"


def test_several_results_scalars_and_names():
    kernel = compiled(TWO)
    a, b = np.arange(10, dtype="float32"), np.ones(10, "float32")
    p, q = kernel(a, b)
    assert np.array_equal(p, a + 2) and np.array_equal(q, a - 1)
    p, q = kernel(B=b, A=a, s=3)
    assert np.array_equal(p, a + 3) and np.array_equal(q, a - 1)
    own = np.empty(10, "float32"), np.empty(10, "float32")
    p, q = kernel(a, b, out=own)
    assert kernel.scalars == {"s": 2.0}  # the operator's, which the designed sketch leaves to it
    assert p is own[0] and q is own[1] and np.array_equal(p, a + 2)
    refused("no input, symbol or scalar 't'", kernel, a, b, t=1)
    refused("B missing", kernel, a)
    refused("given twice", kernel, a, A=b)
    refused("2 outputs, `out` has 1", kernel, a, b, out=p)


def test_what_does_not_fit_is_refused():
    kernel, x = compiled(SCALE), np.arange(8, dtype="float32")
    refused("'X' is f32, the given tensor has elements of float64", kernel, x.astype("float64"))
    refused("'X' is f32", kernel, x.astype(">f4"))
    refused("it is not contiguous", kernel, x[::2])
    refused("has rank 1, the given tensor has rank 2", kernel, x.reshape(2, 4))
    refused("is no tensor", kernel, 3.0)
    refused("takes 1 tensors", kernel, x, x)
    refused("overlaps", kernel, x, out=x)
    shifted = np.frombuffer(bytearray(33), dtype="uint8")[1:].view("float32")
    refused("does not begin at a multiple of the 4 bytes", kernel, shifted)
    kernel(x)
    refused("does not begin at a multiple of the 4 bytes", kernel, shifted)  # of sizes that ran before
    a, b = x, np.ones(7, "float32")
    refused("'B' is [8] at these sizes, the given array is [7]", compiled(TWO), a, b)


def test_copies_of_what_has_gaps():
    kernel, x = compiled(SCALE, strided="copy"), np.arange(8, dtype="float32")
    assert np.array_equal(kernel(x[::2]), 2 * x[::2] + 1)


def test_outputs_of_the_caller():
    kernel, x = compiled(SCALE), np.arange(8, dtype="float32")
    y = np.empty(8, "float32")
    for _ in range(2):
        assert kernel(x, out=y) is y and np.array_equal(y, 2 * x + 1)
        y[:] = 0
    refused("overlaps", kernel, x, out=x)
    long = np.arange(16, dtype="float32")
    refused("overlaps", kernel, long[:8], out=long[4:12])
    refused("has strides [1]", kernel, x, out=long[::2])
    refused("'Y' is [8]", kernel, x, out=long)
    kernel(np.frombuffer(x.tobytes(), "float32"), out=y)  # read only
    assert np.array_equal(y, 2 * x + 1)


def test_what_is_read_only_is_not_written():
    """Neither in a first call nor where the same shapes were written before."""
    kernel, update, kept = compiled(SCALE), compiled(UPDATE), bytes(16)
    x, y, fixed = np.ones(4, "float32"), np.zeros(4, "float32"), np.frombuffer(kept, "float32")
    for _ in range(2):
        refused("'Y' is written, the given array is read-only", kernel, x, out=fixed)
        refused("'Y' is written", kernel.prepare, x, out=fixed)
        refused("'A' is written", update, x, fixed)
        assert kept == bytes(16)
        kernel(x, out=y)
        update(x, y)
        update(fixed, y)
    y.setflags(write=False)
    refused("'Y' is written", kernel, x, out=y)
    assert np.array_equal(y, x * 4)


def test_in_place():
    kernel, a, x = compiled(UPDATE), np.ones(5, "float32"), np.arange(5, dtype="float32")
    assert kernel(x, a) is None and np.array_equal(a, x + 1)
    refused("overlaps", kernel, a, a)


def test_prepared():
    kernel, x = compiled(SCALE), np.arange(100, dtype="float32")
    launch = kernel.prepare(x)
    x += 1
    launch()
    assert np.array_equal(launch.outputs[0], 2 * x + 1)


def test_workspaces():
    kernel = compiled("operator chain { symbols: M, K, N; tensors: A[M, K]: f32; B[K, N]: f32; C[N, M]: f32; Y[M, M]: f32; Y = (A @ B) @ C }")
    for m in (4, 9, 4):
        a, b, c = (np.random.default_rng(i).normal(size=size).astype("float32") for i, size in enumerate([(m, 50), (50, 6), (6, m)]))
        launch = kernel.prepare(a, b, c)
        launch()
        assert np.allclose(kernel(a, b, c), a @ b @ c, atol=1e-4) and np.array_equal(launch.outputs[0], kernel(a, b, c))
    assert all(plan.workspace > 0 for plan in kernel._plans.values()) and len(kernel._plans) == 2


def test_dtypes():
    for name, dtype in [("f64", "float64"), ("f16", "float16"), ("i32", "int32"), ("i64", "int64"), ("u8", "uint8")]:
        kernel = compiled(f"operator plus {{ symbols: N; tensors: X[N]: {name}; Y[N]: {name}; Y = X + X }}")
        x = np.arange(60).astype(dtype)
        y = kernel(x)
        assert y.dtype == x.dtype and np.array_equal(y, x + x), name
    kernel = compiled("operator less { symbols: N; tensors: X[N]: f32; Y[N]: bool; Y = X < 3 }")
    assert kernel(np.arange(6, dtype="float32")).tolist() == [True] * 3 + [False] * 3
    kernel = compiled("operator plus { symbols: N; tensors: X[N]: bf16; Y[N]: bf16; Y = X + X }")
    bits = np.array([0x3F80, 0x4000], "uint16")  # 1, 2
    assert np.asarray(kernel(bits)).view("uint16").tolist() == [0x4000, 0x4080]


def test_diagnostics():
    error = refused("^", compiled, SCALE.replace("2 * X", "2 * Z"), kind=sketchc.CompileError)
    assert "`Z` is not declared" in str(error) and error.status == 1
    assert [d["code"] for d in error.diagnostics] == ["E0201"]
    refused("case given", compiled, SCALE, sizes={"K": 3}, kind=sketchc.CompileError)


def test_artifacts():
    kernel, x = compiled(SCALE), np.ones(3, "float32")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "scale.ska")
        kernel.save(path)
        again = sketchc.compile(path)
    assert np.array_equal(again(x), kernel(x)) and repr(again) == repr(kernel)
    refused("", sketchc.compile, b"no artifact", kind=sketchc.Error)


checks.run(globals())
