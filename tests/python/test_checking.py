"""verify, bench and explain of the Python package, in a process in which kernels have run.

    test_checking.py LIBSKETCHC PACKAGE_FOLDER"""
import pathlib
import tempfile

import checks
import numpy as np
from checks import refused

checks.use_package()
import sketchc  # noqa: E402

SCALE = """operator scale {
    symbols: N; tensors: X[N]: f32; Y[N]: f32
    Y = 2 * X + 1
    case small { N=100; X: normal(0, 1) }
}
"""
WRONG = SCALE + """sketch wrong implements scale {
    symbols: N; tensors: X[N]: f32; Y[N]: f32
    for i in range(ceil(N, 64)):
        x = alloc([64])
        load(X[i*64:(i+1)*64] -> x)
        mul(x, 3, x)
        store(x -> Y[i*64:(i+1)*64])
}
"""


def test_verify():
    kernel = sketchc.compile(SCALE, target="cpu")
    kernel(np.ones(100000, "float32"))  # OpenMP's threads run in this process from now on
    report = sketchc.verify(kernel, ragged=False)
    assert report.passed and [c["name"] for c in report["cases"]] == ["small"] and "small (N=100): ok" in str(report)
    report = sketchc.verify(SCALE, target="cpu", sizes={"N": 33}, ragged=False)
    assert [c["sizes"] for c in report["cases"]] == ["N=100", "N=33"]


def test_values_and_errors():
    report = sketchc.verify(SCALE.replace("f32\n", "f32; scalars: s: f32 = 1.0\n", 1).replace("2 * X", "s * X"), target="cpu", values={"s": True}, ragged=False)
    assert report.passed
    error = refused("", sketchc.verify, b"no artifact", kind=sketchc.Error)
    assert "Traceback" not in str(error) and error.status


def test_wrong_results():
    error = refused("small (N=100): mismatch", sketchc.verify, WRONG, target="cpu", ragged=False, kind=sketchc.VerifyError)
    assert error.report["failed"] == 1 and not error.report.passed


def test_bench():
    report = sketchc.bench(SCALE, target="cpu", samples=10)
    assert report["cases"][0]["median_s"] > 0 and "GB/s" in str(report)


def test_explain():
    assert "declared" in sketchc.explain("E0201")
    refused("no diagnostic E9999", sketchc.explain, "E9999", kind=sketchc.Error)
    assert "small" in sketchc.explain(SCALE, target="cuda", arch="sm_90a")
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.html"
        assert sketchc.explain(SCALE, target="cuda", arch="sm_90a", html=page) == str(page)
        assert page.read_text().startswith("<!DOCTYPE html>")


checks.run(globals())
