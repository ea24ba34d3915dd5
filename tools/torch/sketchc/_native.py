"""libsketchc through ctypes: where it is found, its structures and functions (include/sketchc.h), and nothing else."""
import ctypes
import json
import os
import pathlib
from ctypes import POINTER, c_bool, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint8, c_uint16, c_uint64, c_void_p

API_VERSION = 2  # of the header that this file was written by
MAX_RANK = 8
WORKSPACE_ALIGN = 256

OK, SOURCE_ERROR, USAGE_ERROR, VERIFY_FAILED, MISSING, BUG, OUT_OF_MEMORY = range(7)
STATUS_NAMES = {1: "source error", 2: "usage error", 3: "verification failed", 4: "missing", 5: "bug of sketchc", 6: "out of memory",
                124: "time limit", 130: "interrupted"}


class Define(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class Symbol(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_int64)]


class Scalar(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_double)]


class File(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("path", c_char_p)]


class Options(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("target", c_char_p), ("arch", c_char_p), ("target_file", c_char_p), ("sketch", c_char_p),
                ("defines", POINTER(Define)), ("define_count", c_size_t), ("strict_hints", c_bool), ("deterministic", c_bool),
                ("verify_each", c_bool), ("passes", c_char_p), ("print_ir_after", c_char_p), ("stop_after", c_char_p), ("fault", c_char_p),
                ("on_reproducer", c_void_p), ("context", c_void_p), ("design", c_char_p), ("on_progress", c_void_p),
                ("progress_context", c_void_p), ("check", c_bool),
                ("library", c_void_p), ("library_count", c_size_t)]


class RunOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("seed", c_uint64), ("time_limit_s", c_double), ("max_bytes", c_uint64), ("case_name", c_char_p),
                ("symbols", POINTER(Symbol)), ("symbol_count", c_size_t), ("scalars", POINTER(Scalar)), ("scalar_count", c_size_t),
                ("cache_dir", c_char_p), ("no_ragged", c_bool), ("warm", c_bool), ("samples", c_uint), ("device", c_uint),
                ("threads", c_uint), ("exact", c_bool), ("baseline", c_char_p), ("give_up_s", c_double), ("defines", POINTER(Define)),
                ("define_count", c_size_t), ("on_progress", c_void_p), ("progress_context", c_void_p)]


class DLDevice(ctypes.Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


class DLDataType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device", DLDevice), ("ndim", c_int32), ("dtype", DLDataType), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


_MESSAGE = POINTER(c_void_p)
# Name: (result, arguments). Texts that the caller frees are c_void_p.
_FUNCTIONS = {
    "sketchc_version": (c_char_p, []),
    "sketchc_api_version": (c_uint, []),
    "sketchc_llvm_version": (c_char_p, []),
    "sketchc_free": (None, [c_void_p]),
    "sketchc_unit_create": (c_void_p, [c_char_p, c_char_p, c_size_t]),
    "sketchc_unit_destroy": (None, [c_void_p]),
    "sketchc_emit": (c_int, [c_void_p, POINTER(Options), c_char_p, POINTER(c_void_p), POINTER(c_size_t)]),
    "sketchc_diagnostics": (c_void_p, [c_void_p, c_char_p]),
    "sketchc_predict": (c_int, [c_void_p, POINTER(Options), c_char_p, POINTER(c_void_p)]),
    "sketchc_explain_page": (c_int, [c_void_p, POINTER(Options), POINTER(c_void_p), POINTER(c_size_t)]),
    "sketchc_explain": (c_char_p, [c_char_p]),
    "sketchc_native_arch": (c_void_p, [c_char_p]),
    "sketchc_cache_info": (c_void_p, [c_char_p]),
    "sketchc_artifact_read": (c_int, [c_char_p, c_size_t, POINTER(c_void_p), _MESSAGE]),
    "sketchc_artifact_destroy": (None, [c_void_p]),
    "sketchc_verify": (c_int, [c_void_p, POINTER(RunOptions), c_char_p, POINTER(c_void_p)]),
    "sketchc_bench": (c_int, [c_void_p, POINTER(RunOptions), c_char_p, POINTER(c_void_p)]),
    "sketchc_launcher_open": (c_int, [c_void_p, POINTER(RunOptions), POINTER(c_void_p), _MESSAGE]),
    "sketchc_launcher_close": (None, [c_void_p]),
    "sketchc_launcher_info": (c_void_p, [c_void_p]),
    "sketchc_plan_create": (c_int, [c_void_p, POINTER(Symbol), c_size_t, POINTER(Scalar), c_size_t, POINTER(c_void_p), _MESSAGE]),
    "sketchc_plan_destroy": (None, [c_void_p]),
    "sketchc_plan_workspace": (c_uint64, [c_void_p]),
    "sketchc_plan_shape": (c_int, [c_void_p, c_size_t, POINTER(c_int64), POINTER(c_int64)]),
    "sketchc_plan_check": (c_int, [c_void_p, POINTER(POINTER(DLTensor)), c_size_t, c_void_p, c_uint64, _MESSAGE]),
}
# pointers: the addresses as bytes.
_LAUNCH = (c_int, [c_void_p, c_char_p, c_size_t, c_void_p, c_void_p, _MESSAGE])


def _candidates():
    """Where the library may be, the first that is there counts."""
    here = pathlib.Path(__file__).resolve().parent
    given = os.environ.get("SKETCHC_LIBRARY")
    if given:
        return [pathlib.Path(given)]
    tree = here.parents[2]  # a checkout: tools/torch/sketchc
    return [here / "lib" / "libsketchc.so", tree / "build" / "libsketchc.so"]


def find_library() -> pathlib.Path:
    """The library's path; `OSError` names the places that were looked at."""
    places = _candidates()
    for place in places:
        if place.is_file():
            return place
    raise OSError("libsketchc.so is not at " + ", ".join(map(str, places)) + "; set SKETCHC_LIBRARY to its path")


def _declare(library, name, signature):
    function = getattr(library, name)
    function.restype, function.argtypes = signature
    return function


class Library:
    """The functions of one libsketchc, with their types. `launch` lets other threads of Python run, `launch_held` does not."""

    def __init__(self, path=None):
        self.path = pathlib.Path(path) if path else find_library()
        # What a wheel carries along is loaded first, so that the library finds it by its name.
        self._carried = [ctypes.CDLL(str(p)) for p in sorted(self.path.parent.glob("*.so.*")) if self.path.parent.name == "lib"]
        self._c = ctypes.CDLL(str(self.path))
        for name, signature in _FUNCTIONS.items():
            setattr(self, name.removeprefix("sketchc_"), _declare(self._c, name, signature))
        self.launch = _declare(self._c, "sketchc_plan_launch", _LAUNCH)
        self.launch_held = _declare(ctypes.PyDLL(str(self.path)), "sketchc_plan_launch", _LAUNCH)
        if self.api_version() < API_VERSION:
            raise OSError(f"{self.path} has version {self.api_version()} of the interface, this package wants {API_VERSION}")

    def text(self, memory) -> str:
        """A text that the caller owns, which is freed."""
        if not memory:
            return ""
        text = ctypes.string_at(memory).decode("utf-8", "replace")
        self.free(memory)
        return text

    def json(self, memory):
        return json.loads(self.text(memory) or "null")


_library = None


def library() -> Library:
    """The library, opened at the first call."""
    global _library
    if _library is None:
        _library = Library()
    return _library
