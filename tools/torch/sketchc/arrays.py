"""Tensors of NumPy, torch, CuPy and of whatever else speaks DLPack, behind one set of functions.

No library is imported here before a tensor of it is seen. What a `Family` answers:

- `key(x)`: what a plan depends on, hashable: shape, dtype, strides, device.
- `pointer(x)`: the address of the first element.
- `describe(x)`: shape, strides in elements, DLPack's code and bits, device type and number.
- `maker(shape, dtype, like)`: what makes a new contiguous tensor beside `like`, not initialised, at each call.
- `contiguous(x)`: the tensor itself, or a copy without gaps.
- `stream(x)`: what tells the current stream of the tensor's device, a number, at each call.
- `under(x)`: what makes of a stream, a number, a context in which new tensors beside `x` lie in that stream's memory.
- `flaw(x, written)`: why the elements may not be read (or written, too) where they lie; None if they may.
"""
import contextlib
import ctypes
import functools
import sys

# What the language calls a dtype: DLPack's code and bits.
DTYPES = {"f64": (2, 64), "f32": (2, 32), "f16": (2, 16), "bf16": (4, 16), "f8e4m3": (10, 8), "f8e5m2": (12, 8), "i64": (0, 64),
          "i32": (0, 32), "i16": (0, 16), "i8": (0, 8), "u64": (1, 64), "u32": (1, 32), "u16": (1, 16), "u8": (1, 8), "bool": (6, 8)}
_NUMPY = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
          "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8",
          "bool": "bool"}
_NAMES = {name: short for short, name in _NUMPY.items()}
CPU, CUDA = 1, 2
_address, _from_buffer = ctypes.addressof, ctypes.c_char.from_buffer


class NumPy:
    """ndarrays. bfloat16 and float8 are those of ml_dtypes where it is installed, else raw bits in uint16 and uint8, which are taken always."""

    def __init__(self, numpy):
        self.numpy = numpy
        self._dtypes = {}

    def key(self, x):
        return x.shape, x.dtype, x.strides, x.flags.writeable

    def flaw(self, x, written):
        return "is written, the given array is read-only" if written and not x.flags.writeable else None

    def pointer(self, x):
        try:
            return _address(_from_buffer(x))
        except (TypeError, ValueError):  # read only, with gaps, or empty
            return x.__array_interface__["data"][0]

    def describe(self, x):
        size = x.itemsize
        short = _NAMES.get(x.dtype.name) if x.dtype.isnative else None
        code, bits = DTYPES.get(short, (3, size * 8))
        strides = [s // size if s % size == 0 else -1 for s in x.strides] if size else [1] * x.ndim
        return x.shape, strides, code, bits, CPU, 0

    def raw(self, dtype):
        """Whether elements of the dtype may travel as unsigned integers here: NumPy has none of its own."""
        return dtype in ("bf16", "f8e4m3", "f8e5m2")

    def _find(self, dtype):
        found = self._dtypes.get(dtype)
        if found is None:
            found = self._dtypes[dtype] = self._look_up(dtype)
        return found

    def _look_up(self, dtype):
        try:
            return self.numpy.dtype(_NUMPY[dtype])
        except TypeError:
            pass
        try:
            import ml_dtypes  # registers its dtypes with NumPy
            return self.numpy.dtype(getattr(ml_dtypes, _NUMPY[dtype]))
        except ImportError:
            return self.numpy.dtype(f"uint{DTYPES[dtype][1]}")

    def maker(self, shape, dtype, like):
        return functools.partial(self.numpy.empty, shape, self._find(dtype))

    def contiguous(self, x):
        return self.numpy.ascontiguousarray(x).reshape(x.shape)

    def stream(self, x):
        return int

    def under(self, x):
        return contextlib.nullcontext


class Torch:
    """torch's tensors on the CPU and on CUDA devices, of strided layout."""

    def __init__(self, torch):
        self.torch = torch
        names = {**_NUMPY, "f8e4m3": "float8_e4m3fn"}
        self._dtypes = {short: getattr(torch, name) for short, name in names.items() if hasattr(torch, name)}
        self._codes = {dtype: DTYPES[short] for short, dtype in self._dtypes.items()}
        # The public way to ask for the stream makes an object; this one is what Triton's launcher uses.
        self._raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)

    def key(self, x):
        return x.shape, x.dtype, x.stride(), x.device, x.is_neg()

    def flaw(self, x, written):
        return "is a view that torch negates as it reads: give its resolve_neg()" if x.is_neg() else None

    def pointer(self, x):
        return x.data_ptr()

    def describe(self, x):
        code, bits = self._codes.get(x.dtype, (3, x.element_size() * 8))
        on = {"cpu": CPU, "cuda": CUDA}.get(x.device.type, 12)
        return tuple(x.shape), x.stride(), code, bits, on, x.device.index or 0

    def raw(self, dtype):
        return False

    def maker(self, shape, dtype, like):
        return functools.partial(self.torch.empty, shape, dtype=self._dtypes[dtype], device=like.device)

    def contiguous(self, x):
        return x.resolve_neg().contiguous()

    def stream(self, x):
        if x.device.type != "cuda":
            return int
        index, cuda = x.device.index, self.torch.cuda
        return functools.partial(self._raw_stream, index) if self._raw_stream else lambda: cuda.current_stream(index).cuda_stream

    def under(self, x):
        device, cuda = x.device, self.torch.cuda
        return lambda stream: cuda.stream(cuda.ExternalStream(stream, device))


_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


class Generic:
    """Tensors of a library that speaks DLPack and the array API (CuPy among them)."""

    def key(self, x):
        return x.shape, x.dtype, getattr(x, "strides", None), str(getattr(x, "device", ""))

    def flaw(self, x, written):
        return None

    def _tensor(self, x):
        from . import _native
        capsule = x.__dlpack__()
        return _native.DLTensor.from_address(_capsule_pointer(capsule, b"dltensor")), capsule

    def pointer(self, x):
        tensor, _capsule = self._tensor(x)
        return (tensor.data or 0) + tensor.byte_offset

    def describe(self, x):
        tensor, _capsule = self._tensor(x)
        n = tensor.ndim
        shape = tuple(tensor.shape[:n])
        strides = list(tensor.strides[:n]) if tensor.strides else packed(shape)
        return shape, strides, tensor.dtype.code, tensor.dtype.bits, tensor.device.type, tensor.device.id

    def raw(self, dtype):
        return False

    def _namespace(self, x):
        return x.__array_namespace__() if hasattr(x, "__array_namespace__") else sys.modules[type(x).__module__.partition(".")[0]]

    def maker(self, shape, dtype, like):
        space = self._namespace(like)
        return functools.partial(space.empty, shape, dtype=getattr(space, _NUMPY[dtype]))

    def contiguous(self, x):
        return self._namespace(x).ascontiguousarray(x)

    def stream(self, x):
        if x.__dlpack_device__()[0] != CUDA:
            return int
        cuda = getattr(self._namespace(x), "cuda", None) or sys.modules[type(x).__module__.partition(".")[0]].cuda
        return lambda: cuda.get_current_stream().ptr

    def under(self, x):
        cuda = getattr(self._namespace(x), "cuda", None)
        return getattr(cuda, "ExternalStream", contextlib.nullcontext)


def packed(shape):
    """Strides in elements of a tensor without gaps."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return strides


FAMILIES = {}  # by the type of a tensor


def family(x):
    """How tensors of the type of `x` are handled; None where it is no tensor."""
    kind = type(x)
    found = FAMILIES.get(kind)
    if found is None:
        found = _make(kind)
        if found is not None:
            FAMILIES[kind] = found
    return found


def _same(kind, *arguments):
    """One object for all types of a library, so that tensors of one call can be told to be of one."""
    for made in FAMILIES.values():
        if type(made) is kind:
            return made
    return kind(*arguments)


def _make(kind):
    roots = {base.__module__.partition(".")[0] for base in kind.__mro__}
    if "torch" in roots and hasattr(kind, "data_ptr"):
        return _same(Torch, sys.modules["torch"])
    if "numpy" in roots and hasattr(kind, "__array_interface__") and hasattr(kind, "strides"):
        return _same(NumPy, sys.modules["numpy"])
    return _same(Generic) if hasattr(kind, "__dlpack__") else None
