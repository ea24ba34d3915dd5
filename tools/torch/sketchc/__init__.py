"""sketchc from Python: operators and sketches compiled to callables over NumPy, torch, CuPy and other tensors.

    import numpy, sketchc
    scale = sketchc.compile("operator scale { symbols: N; tensors: X[N]: f32; Y[N]: f32; Y = 2 * X + 1 }")
    scale(numpy.ones(1000, "float32"))

`compile` gives a `Kernel`; `verify`, `bench` and `explain` say whether it is right, how long it takes and why. Neither NumPy nor torch is
imported before a tensor of theirs is seen.
"""
import os as _os

from . import _native
from .checking import Report, bench, verify
from .checking import explain as _explain_text
from .errors import CompileError, Error, InputError, VerifyError
from .kernel import Kernel, Launch, compile

__all__ = ["CompileError", "Error", "InputError", "Kernel", "Launch", "Report", "VerifyError", "bench", "compile", "explain", "verify",
           "version"]


def __getattr__(name):
    """`sketchc.export` and, where torch is, `sketchc.nn` are imported when they are asked for."""
    if name in ("export", "nn"):
        import importlib
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def version() -> str:
    """The library's version."""
    return _native.library().version().decode()


def explain(subject, *arguments, **options):
    """Of a text or path: `checking.explain`, what its kernels should take and why (a diagnostic's code: what it means). Of a model of
    torch with its inputs: what is compiled and what is left to whom."""
    if isinstance(subject, (str, _os.PathLike)):
        return _explain_text(subject, *arguments, **options)
    from .backend import explain_model
    return explain_model(subject, *arguments, **options)
