"""sketchc from Python: operators and sketches compiled to callables over NumPy, torch, CuPy and other tensors.

    import numpy, sketchc
    scale = sketchc.compile("operator scale { symbols: N; tensors: X[N]: f32; Y[N]: f32; Y = 2 * X + 1 }")
    scale(numpy.ones(1000, "float32"))
"""
from .errors import CompileError, Error, InputError, VerifyError
from .kernel import Kernel, Launch, compile

__all__ = ["CompileError", "Error", "InputError", "Kernel", "Launch", "VerifyError", "compile"]
