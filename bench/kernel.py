"""Kernels in artifacts, bound to sizes and tensors of PyTorch, through libsketchc."""
import ctypes
import json


class Symbol(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_int64)]


class Buffer(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("bytes", ctypes.c_uint64)]


class Scalar(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_double)]


class RunOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("seed", ctypes.c_uint64), ("time_limit_s", ctypes.c_double), ("max_bytes", ctypes.c_uint64),
                ("case_name", ctypes.c_char_p), ("symbols", ctypes.POINTER(Symbol)), ("symbol_count", ctypes.c_size_t),
                ("scalars", ctypes.POINTER(Scalar)), ("scalar_count", ctypes.c_size_t), ("cache_dir", ctypes.c_char_p),
                ("no_ragged", ctypes.c_bool), ("warm", ctypes.c_bool), ("samples", ctypes.c_uint), ("device", ctypes.c_uint),
                ("threads", ctypes.c_uint), ("exact", ctypes.c_bool), ("baseline", ctypes.c_char_p), ("give_up_s", ctypes.c_double),
                ("defines", ctypes.c_void_p), ("define_count", ctypes.c_size_t), ("on_progress", ctypes.c_void_p),
                ("progress_context", ctypes.c_void_p)]


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(str(path.resolve()))
        self.files = []  # artifacts may point into them
        for name in ("sketchc_kernel_info", "sketchc_version"):
            getattr(self.c, name).restype = ctypes.c_void_p
        self.c.sketchc_version.restype = ctypes.c_char_p

    def check(self, status, message):
        if status:
            raise RuntimeError(f"status {status}: {(message.value or b'').decode()}")

    def read(self, path):
        data = path.read_bytes()
        self.files.append(data)
        artifact, message = ctypes.c_void_p(), ctypes.c_char_p()
        self.check(self.c.sketchc_artifact_read(data, ctypes.c_size_t(len(data)), ctypes.byref(artifact), ctypes.byref(message)), message)
        return artifact


class Kernel:
    """An artifact bound to sizes and torch tensors."""

    def __init__(self, library, artifact, sizes, tensors, scalars):
        self.library, self.tensors = library, tensors
        symbols = (Symbol * len(sizes))(*[Symbol(k.encode(), v) for k, v in sizes.items()])
        buffers = (Buffer * len(tensors))(*[Buffer(k.encode(), t.data_ptr(), t.numel() * t.element_size()) for k, t in tensors.items()])
        values = (Scalar * len(scalars))(*[Scalar(k.encode(), v) for k, v in scalars.items()])
        options = RunOptions(size=ctypes.sizeof(RunOptions), symbols=symbols, symbol_count=len(sizes), scalars=values, scalar_count=len(scalars))
        self.handle, message = ctypes.c_void_p(), ctypes.c_char_p()
        library.check(library.c.sketchc_kernel_open(artifact, ctypes.byref(options), buffers, ctypes.c_size_t(len(tensors)),
                                                    ctypes.byref(self.handle), ctypes.byref(message)), message)
        text = library.c.sketchc_kernel_info(self.handle)
        self.info = json.loads(ctypes.string_at(text))
        library.c.sketchc_free(ctypes.c_void_p(text))

    def __call__(self, stream=None):
        """On a CUDA stream of PyTorch; without one on the default stream."""
        message = ctypes.c_char_p()
        stream = ctypes.c_void_p(stream.cuda_stream if stream else None)
        self.library.check(self.library.c.sketchc_kernel_launch(self.handle, stream, ctypes.byref(message)), message)

    def close(self):
        self.library.c.sketchc_kernel_close(self.handle)
