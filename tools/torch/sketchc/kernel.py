"""`compile`, and the callable that it returns."""
import ctypes
import functools
import hashlib
import json
import os
import pathlib
import re
import struct
import sys
import tempfile
import textwrap
import threading
from operator import or_

from . import _native, arrays
from .errors import CompileError, Error, InputError

_PLANS = 1024  # sets of sizes that a kernel remembers
_failing = threading.Lock()


def _message(library, status, memory, kind=Error):
    text = library.text(memory.value) or _native.STATUS_NAMES.get(status, f"status {status}")
    raise kind(text, status)


# ---- Source text ----

def read_source(text_or_path):
    """Path and text of an argument: an os.PathLike or a text of one line without braces is a path. A text may stand indented, as in a
    program."""
    if isinstance(text_or_path, str) and ("{" in text_or_path or "\n" in text_or_path):
        return "<text>", textwrap.dedent(text_or_path)
    path = pathlib.Path(text_or_path)
    return str(path), path.read_text(encoding="utf-8")


def _operator_end(text):
    """Behind the last word in the braces of the first operator, comments left aside; -1: there is none."""
    depth, last, inside = 0, 0, False
    for token in re.finditer(r'#[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|\w+|[^\w\s]', text):
        word = token.group()
        if word.startswith("#"):
            continue
        inside = inside or (word == "operator" and depth == 0)
        depth += (word == "{") - (word == "}")
        if word == "}" and depth == 0 and inside:
            return last
        last = token.end()
    return -1


def with_sizes(text, sizes):
    """The text with a case for each set of sizes at the end of its first operator: the sizes that code is made fast for. Lines keep
    their numbers."""
    sets = [sizes] if isinstance(sizes, dict) else list(sizes or ())
    end = _operator_end(text) if sets else -1
    if end < 0:
        return text
    cases = "; ".join(f"case given{i or ''} {{ {', '.join(f'{k}={v}' for k, v in chosen.items())} }}" for i, chosen in enumerate(sets))
    return text[:end] + (" " if text[end - 1] in ";{" else "; ") + cases + text[end:]


# ---- Artifacts ----

def default_target():
    """"nvptx" where torch is imported and has a CUDA device, or CuPy is imported, else "openmp"."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return "nvptx"
    return "nvptx" if "cupy" in sys.modules else "openmp"


def _target_called(name):
    """The library's name of a target; a library without LLVM prints CUDA C for a GPU."""
    name = {"cpu": "openmp", "gpu": "nvptx"}.get(name, name) or default_target()
    return "cuda" if name == "nvptx" and not _native.library().llvm_version() else name


_ARCHITECTURES = {(9, 0): "sm_90a", (10, 0): "sm_100a"}  # as api/machine.c has it; of others sm_80, whose code later ones run


def _running_arch(device):
    """The architecture of a device by torch or CuPy; None: the library is asked, which knows no other device than the current one."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and torch.cuda.is_available():
        return _ARCHITECTURES.get(tuple(torch.cuda.get_device_capability(device)), "sm_80")
    if cupy is not None:
        return _ARCHITECTURES.get(divmod(int(cupy.cuda.Device(device).compute_capability), 10), "sm_80")
    return None


def _native_arch(target, device):
    library = _native.library()
    running = None if target == "openmp" else _running_arch(device)
    return running or library.text(library.native_arch(target.encode())) or None


class Request:
    """What is to be compiled, as the library takes it; without `arch` for the CUDA device `device`."""

    def __init__(self, target=None, arch=None, defines=None, sketch=None, design=None, deterministic=False, check=False, strict_hints=False,
                 device=0):
        self.target = _target_called(target)
        self.arch = arch or _native_arch(self.target, device)
        self.defines = {k: _define_text(v) for k, v in (defines or {}).items()}
        self.sketch, self.design = sketch, design
        self.deterministic, self.check, self.strict_hints = deterministic, check, strict_hints

    def options(self):
        """The structure, and what it points to."""
        pairs = [_native.Define(k.encode(), v.encode()) for k, v in self.defines.items()]
        defines = (_native.Define * len(pairs))(*pairs)
        encode = lambda s: s.encode() if s else None  # noqa: E731
        return _native.Options(size=ctypes.sizeof(_native.Options), target=encode(self.target), arch=encode(self.arch),
                               sketch=encode(self.sketch), design=encode(self.design), defines=defines, define_count=len(pairs),
                               deterministic=self.deterministic, check=self.check, strict_hints=self.strict_hints)

    def key(self, text):
        library = _native.library()
        stat = library.path.stat()
        what = [text, vars(self), library.version().decode(), str(library.path.resolve()), stat.st_size, stat.st_mtime_ns]
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def _define_text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


class Unit:
    """A source text in the library, until the end of a `with`."""

    def __init__(self, path, text):
        self.library, data = _native.library(), text.encode()
        self.handle = self.library.unit_create(path.encode(), data, len(data))
        if not self.handle:
            raise MemoryError("sketchc: out of memory")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.library.unit_destroy(self.handle)

    def check(self, status):
        if status:
            text = self.library.text(self.library.diagnostics(self.handle, b"text")).strip()
            found = self.library.json(self.library.diagnostics(self.handle, b"json")) or {}
            raise CompileError(text or _native.STATUS_NAMES.get(status, str(status)), status, found.get("diagnostics", []))

    def emit(self, request, form):
        data, size = ctypes.c_void_p(), ctypes.c_size_t()
        options = request.options()
        self.check(self.library.emit(self.handle, ctypes.byref(options), form.encode(), ctypes.byref(data), ctypes.byref(size)))
        try:
            return ctypes.string_at(data.value, size.value)
        finally:
            self.library.free(data)


def _cache_folder():
    library = _native.library()
    info = library.json(library.cache_info(b"json")) or {}
    folder = info.get("dir") or info.get("path")
    return pathlib.Path(folder) / "python" if folder else None


def _read_cached(place):
    try:
        return place.read_bytes()
    except OSError:
        return None


def _write_cached(place, data):
    """As a whole or not at all; a cache that cannot be written is no error."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as file:
            file.write(data)
        os.replace(file.name, place)
    except OSError:
        pass


def artifact_bytes(path, text, request, cache=True):
    """The artifact of a source text, from the cache where the same was compiled before by the same library."""
    folder = _cache_folder() if cache else None
    place = folder / (request.key(text) + ".ska") if folder else None
    data = _read_cached(place) if place else None
    if data is None:
        with Unit(path, text) as unit:
            data = unit.emit(request, "artifact")
        if place:
            _write_cached(place, data)
    return data


# ---- Kernels ----

class _Launcher:
    """An artifact's code, loaded."""

    def __init__(self, data, device):
        self.library = library = _native.library()
        self.data, self.artifact, self.handle = data, ctypes.c_void_p(), ctypes.c_void_p()
        message = ctypes.c_void_p()
        status = library.artifact_read(data, len(data), ctypes.byref(self.artifact), ctypes.byref(message))
        if status:
            _message(library, status, message)
        options = _native.RunOptions(size=ctypes.sizeof(_native.RunOptions), device=device)
        status = library.launcher_open(self.artifact, ctypes.byref(options), ctypes.byref(self.handle), ctypes.byref(message))
        if status:
            _message(library, status, message)
        self.info = library.json(library.launcher_info(self.handle))

    def __del__(self):
        if getattr(self, "handle", None):
            self.library.launcher_close(self.handle)
        if getattr(self, "artifact", None):
            self.library.artifact_destroy(self.artifact)


class Tensor:
    """A tensor of a kernel's signature: `name` (the sketch's), `operator_name`, `dtype` ("f32"), `direction` ("in", "out",
    "inout"), `extents` (formulas over the symbols, as text)."""

    def __init__(self, position, fields):
        self.position = position
        self.name, self.operator_name = fields["name"], fields["operator_name"]
        self.dtype, self.direction = fields["dtype"], fields["direction"]
        self.extents, self.strides = fields["extents"], fields.get("strides")

    def __repr__(self):
        return f"{self.operator_name}[{', '.join(self.extents)}]: {self.dtype}"


def _dl_tensor(shape, strides, code, bits, device, index, pointer):
    n = len(shape)
    return _native.DLTensor(pointer, _native.DLDevice(device, index), n, _native.DLDataType(code, bits, 1),
                            (ctypes.c_int64 * n)(*shape), (ctypes.c_int64 * n)(*strides), 0)


class _Plan:
    """What follows from the shapes of one call."""

    def __init__(self, kernel, family, symbols, scalars):
        self.kernel, self.family, self.handle = kernel, family, ctypes.c_void_p()
        self.launcher = launcher = kernel._launcher
        self.library = library = launcher.library
        symbol_list = (_native.Symbol * len(symbols))(*[_native.Symbol(k.encode(), v) for k, v in symbols.items()])
        scalar_list = (_native.Scalar * len(scalars))(*[_native.Scalar(k.encode(), float(v)) for k, v in scalars.items()])
        message = ctypes.c_void_p()
        status = library.plan_create(launcher.handle, symbol_list, len(symbols), scalar_list, len(scalars), ctypes.byref(self.handle),
                                     ctypes.byref(message))
        if status:
            _message(library, status, message, InputError)
        self.workspace = library.plan_workspace(self.handle)
        self.spare = []  # workspaces of earlier calls on the CPU
        self.count = len(kernel.tensors)
        self.pack = struct.Struct(f"{self.count}P").pack
        given = [t.position for t in kernel.inputs + kernel.outputs]
        self.order = None if given == sorted(given) else [given.index(i) for i in range(self.count)]
        self.message = ctypes.c_void_p()
        self.on_gpu = kernel.target != "cpu"
        self.arguments = (self.handle, self.count, ctypes.byref(self.message), library.launch_held if self.on_gpu else library.launch)
        # Tensors over foreign memory may begin anywhere: looked at in every call.
        self.mask = max((arrays.DTYPES[t.dtype][1] // 8 for t in kernel.tensors), default=1) - 1
        self.pairs, self.pairs_out = self._written_pairs()
        self.known_outputs = set()  # keys of the caller's outputs that were checked
        self.makers = []
        self.call = None

    def finish(self, like):
        """What needs a tensor of the call's."""
        self.makers = [self.family.maker(self.shape(t.position)[0], t.dtype, like) for t in self.kernel.outputs]
        if self.workspace:
            self.make_workspace = self.family.maker((self.workspace + _native.WORKSPACE_ALIGN,), "u8", like)
            self.under = self.family.under(like)
        self.stream = self.family.stream(like) if self.on_gpu else None
        self.call = self._no_outputs if any(t.strides for t in self.kernel.outputs) else self._caller()

    def _no_outputs(self, tensors, stream):
        raise InputError(f"{self.kernel.name} writes to memory with strides: give `out`", 2)

    def _written_pairs(self):
        """Places of two tensors of which one is written, with their bytes: among the inputs, and with the caller's outputs."""
        tensors = self.kernel.inputs + self.kernel.outputs
        sizes = [self._bytes(t) for t in tensors]
        pairs = [(i, j, sizes[i], sizes[j]) for i, t in enumerate(tensors) if t.direction != "in"
                 for j in range(len(tensors)) if i != j and sizes[i] and sizes[j]]
        own = len(self.kernel.inputs)
        return [pair for pair in pairs if pair[0] < own and pair[1] < own], pairs

    def _bytes(self, tensor):
        shape, strides = self.shape(tensor.position)
        if 0 in shape:
            return 0
        return (sum((n - 1) * s for n, s in zip(shape, strides)) + 1) * arrays.DTYPES[tensor.dtype][1] // 8

    def __del__(self):
        if getattr(self, "handle", None):
            self.library.plan_destroy(self.handle)

    def shape(self, position):
        """Shape and strides of a tensor."""
        shape, strides = (ctypes.c_int64 * _native.MAX_RANK)(), (ctypes.c_int64 * _native.MAX_RANK)()
        rank = self.library.plan_shape(self.handle, position, shape, strides)
        return tuple(shape[:rank]), tuple(strides[:rank])

    def check(self, tensors):
        """By the library: device, dtype, shape, strides, alignment, overlap. `tensors` in the order of inputs and outputs."""
        described = []
        for tensor, x in zip(self.kernel.inputs + self.kernel.outputs, tensors):
            shape, strides, code, bits, device, index = self.family.describe(x)
            wanted, flaw = arrays.DTYPES[tensor.dtype], self.family.flaw(x, tensor.direction != "in")
            if flaw:
                raise InputError(f"'{tensor.operator_name}' {flaw}", 1)
            if self.family.raw(tensor.dtype) and (code, bits) == (1, wanted[1]):
                code = wanted[0]
            described.append((tensor.position, _dl_tensor(shape, strides, code, bits, device, index, self.family.pointer(x))))
        described.sort(key=lambda pair: pair[0])
        pointers = (ctypes.POINTER(_native.DLTensor) * self.count)(*[ctypes.pointer(t) for _, t in described])
        message = ctypes.c_void_p()
        block = _native.WORKSPACE_ALIGN  # stands for the workspace, which is ours
        bytes_ = self.workspace
        status = self.library.plan_check(self.handle, pointers, self.count, block, bytes_, ctypes.byref(message))
        if status:
            _message(self.library, status, message, InputError)

    def addresses(self, tensors, pairs):
        """Of inputs and outputs, as the library takes them; what may differ from call to call is looked at."""
        found = list(map(self.family.pointer, tensors))
        if pairs and any(found[i] < found[j] + m and found[j] < found[i] + n for i, j, n, m in pairs):
            self.check(tensors)
        if self.mask and functools.reduce(or_, found) & self.mask:
            self.check(tensors)
        return self.pack(*([found[i] for i in self.order] if self.order else found))

    def block(self):
        """A workspace and its address."""
        if self.spare:
            return self.spare.pop()
        memory = self.make_workspace()
        address = self.family.pointer(memory)
        return memory, address + -address % _native.WORKSPACE_ALIGN

    def block_of(self, stream):
        """A workspace for a launch on a stream that the caller names: from the memory of that stream, whose order is the launch's."""
        if not self.on_gpu or stream is None:
            return self.block()
        with self.under(stream):
            return self.block()

    def fail(self, status):
        """Raises what a launch wrote. Threads share the place of the message: only one of them takes what stands there."""
        with _failing:
            taken, self.message.value = ctypes.c_void_p(self.message.value), None
        _message(self.library, status, taken)

    def run(self, tensors, stream, pairs):
        """`tensors`: inputs, then outputs. pairs: those that must not overlap."""
        handle, count, message, launch = self.arguments
        block = self.block_of(stream) if self.workspace else None
        if stream is None and self.stream:
            stream = self.stream()
        if not self.workspace:
            status = launch(handle, self.addresses(tensors, pairs), count, None, stream, message)
        else:
            status = launch(handle, self.addresses(tensors, pairs), count, block[1], stream, message)
            if not self.on_gpu:  # on a GPU the launch is still to run: the allocator of the stream keeps order
                self.spare.append(block)
        if status:
            self.fail(status)

    def _caller(self):
        """The function of inputs and a stream that a call with new results comes down to."""
        if self.workspace or self.pairs or self.order or len(self.makers) != 1:
            return self._call_any
        handle, count, message, launch = self.arguments
        pointer, pack, make, mask, current = self.family.pointer, self.pack, self.makers[0], self.mask, self.stream

        def call(tensors, stream):
            result = make()
            if current and stream is None:
                stream = current()
            addresses = [*map(pointer, tensors), pointer(result)]
            if mask and functools.reduce(or_, addresses) & mask:
                self.check([*tensors, result])
            status = launch(handle, pack(*addresses), count, None, stream, message)
            if status:
                self.fail(status)
            return result
        return call

    def _call_any(self, tensors, stream):
        results = [make() for make in self.makers]
        self.run([*tensors, *results], stream, self.pairs)
        return results[0] if len(results) == 1 else tuple(results) or None


class Launch:
    """A kernel bound to tensors: `launch()` runs it on them again, `outputs` holds the results. It keeps the tensors alive; whoever
    changes where they lie (`resize_`) has to prepare anew."""

    __slots__ = ("outputs", "_arguments", "_launch", "_message", "_plan", "_tensors", "_workspace", "_stream")

    def __init__(self, plan, tensors, outputs):
        handle, count, message, launch = plan.arguments
        plan.check(tensors)
        self._workspace, address = plan.block() if plan.workspace else (None, None)
        self._plan, self._tensors, self.outputs = plan, tensors, outputs
        self._arguments = (handle, plan.addresses(tensors, []), count, address)
        self._launch, self._message = launch, message
        self._stream = plan.stream

    def __call__(self, stream=None):
        if stream is None and self._stream is not None:
            stream = self._stream()
        status = self._launch(*self._arguments, stream, self._message)
        if status:
            self._plan.fail(status)


class Kernel:
    """A compiled operator, called with its input tensors; returns its results.

    `kernel(*inputs, out=None, stream=None, **named)`: inputs by position in the order of the sketch's declarations or by name, and
    scalars and symbols by name; tensors that are updated in place (inout) are inputs. Sizes follow from the shapes, each call may have
    others. Results are new contiguous tensors of the inputs' library on their device, or those given as `out` (a tensor, or a
    sequence of as many as there are outputs). One result is returned alone, several as a tuple, none as None. No gradient is recorded.

    `stream`: a CUstream as a number; None: the current one of torch or CuPy. On a GPU the call returns when the launch is in the stream.

    InputError: number, device, dtype, shape, strides, alignment, overlap of a written tensor. Inputs that are not contiguous are refused, or
    copied where the kernel was compiled with strided="copy" (tensors updated in place never are).
    """

    def __init__(self, data, device=0, strided="error", source=None):
        if strided not in ("error", "copy"):
            raise ValueError('strided is "error" or "copy"')
        self._launcher = _Launcher(data, device)
        info = self._launcher.info
        self.artifact, self.source, self.device = data, source, device
        self.name, self.target, self.arch = info["name"], info["target"], info["arch"]
        self.tensors = [Tensor(i, t) for i, t in enumerate(info["tensors"])]
        self.inputs = [t for t in self.tensors if t.direction != "out"]
        self.outputs = [t for t in self.tensors if t.direction == "out"]
        self.symbols = {s["name"]: s["operator_name"] for s in info["symbols"]}
        self.scalars = {s["name"]: s.get("default") for s in info["scalars"]}
        self.scalar_names = {s["operator_name"]: s["name"] for s in info["scalars"]}
        self.strided = strided
        self._count = len(self.inputs)
        self._plans = {}

    def __repr__(self):
        signature = ", ".join(map(repr, self.inputs))
        return f"<sketchc.Kernel {self.name}({signature}) -> {', '.join(map(repr, self.outputs)) or 'in place'}, {self.target} {self.arch}>"

    def save(self, path):
        """Writes the artifact, which `compile` takes as a path that ends in .ska."""
        pathlib.Path(path).write_bytes(self.artifact)

    # -- arguments --

    def _place_named(self, tensors, named):
        """Inputs in order, symbols and scalars of a call with names."""
        names = {}
        for i, t in enumerate(self.inputs):
            names[t.operator_name] = names[t.name] = i
        placed = dict(enumerate(tensors))
        symbols, scalars = {}, {}
        for name, value in named.items():
            if name in names:
                if names[name] in placed:
                    raise InputError(f"{self.name}: '{name}' is given twice", 2)
                placed[names[name]] = value
            elif name in self.symbols:
                symbols[name] = int(value)
            elif name in self.scalars or name in self.scalar_names:
                scalars[self.scalar_names.get(name, name)] = float(value)
            else:
                raise InputError(f"{self.name} has no input, symbol or scalar '{name}'", 2)
        missing = [t.operator_name for i, t in enumerate(self.inputs) if i not in placed]
        if missing or len(placed) > self._count:
            raise self._wrong_number(len(placed), missing)
        return [placed[i] for i in range(self._count)], symbols, scalars

    def _wrong_number(self, given, missing):
        text = f"{self.name} takes {self._count} tensors ({', '.join(t.operator_name for t in self.inputs)}), given are {given}"
        return InputError(text + (f": {', '.join(missing)} missing" if missing else ""), 2)

    def _family(self, tensors):
        found = None
        for tensor, x in zip(self.inputs, tensors):
            own = arrays.family(x)
            if own is None:
                raise InputError(f"'{tensor.operator_name}' is of type {type(x).__name__}, which is no tensor: neither torch's, "
                                 "NumPy's nor one that speaks DLPack", 2)
            if found not in (None, own):
                raise InputError(f"'{tensor.operator_name}' is of another library than the inputs before it", 2)
            found = own
        return found

    def _symbols_of(self, family, tensors, given):
        """Values of the symbols that the inputs' shapes and strides tell."""
        values = dict(given)
        for tensor, x in zip(self.inputs, tensors):
            shape, strides = family.describe(x)[:2]
            if len(shape) != len(tensor.extents):
                raise InputError(f"'{tensor.operator_name}' has rank {len(tensor.extents)}, the given tensor has rank {len(shape)}", 1)
            for formula, value in [*zip(tensor.extents, shape), *zip(tensor.strides or (), strides)]:
                if formula in self.symbols:
                    values.setdefault(formula, int(value))
        return values

    def _copied(self, family, tensors):
        """Inputs without gaps where the kernel wants them so."""
        return [x if t.strides or t.direction != "in" else family.contiguous(x) for t, x in zip(self.inputs, tensors)]

    def _new_plan(self, family, tensors, key, symbols, scalars):
        plan = _Plan(self, family, self._symbols_of(family, tensors, symbols), scalars)
        plan.finish(tensors[0] if tensors else None)
        if not any(t.strides for t in self.outputs):
            plan.check([*tensors, *[make() for make in plan.makers]])
        if len(self._plans) >= _PLANS:
            self._plans.clear()
        self._plans[key] = plan
        return plan

    def _find(self, tensors, symbols=None, scalars=None):
        """The plan for these inputs, and the inputs as they are launched."""
        family = self._family(tensors)
        if family is None:  # nothing goes in: results are NumPy's
            import numpy
            family = arrays.family(numpy.empty(0))
        if self.strided == "copy":
            tensors = self._copied(family, tensors)
        key = tuple(map(family.key, tensors))
        if symbols or scalars:
            key = (key, tuple(sorted((symbols or {}).items())), tuple(sorted((scalars or {}).items())))
        plan = self._plans.get(key) or self._new_plan(family, tensors, key, symbols or {}, scalars or {})
        return plan, tensors

    def _outputs(self, plan, tensors, out):
        """The caller's outputs."""
        given = list(out) if isinstance(out, (list, tuple)) else [out]
        if len(given) != len(self.outputs):
            raise InputError(f"{self.name} has {len(self.outputs)} outputs, `out` has {len(given)}", 2)
        try:
            key = tuple(map(plan.family.key, given))
        except AttributeError:
            raise InputError("`out` is of another library than the inputs", 2) from None
        if key not in plan.known_outputs:
            plan.check([*tensors, *given])
            plan.known_outputs.add(key)
        return given

    def _bind(self, tensors, named):
        """The plan, and the inputs as they are launched."""
        symbols = scalars = None
        if named or len(tensors) != self._count:
            tensors, symbols, scalars = self._place_named(tensors, named)
        return self._find(list(tensors), symbols, scalars)

    # -- calls --

    def __call__(self, *tensors, out=None, stream=None, **named):
        if not named and tensors:
            family = arrays.FAMILIES.get(type(tensors[0]))
            if family is not None:
                try:
                    plan = self._plans.get(tuple(map(family.key, tensors)))
                except AttributeError:  # a tensor of another library
                    plan = None
                if plan is not None:
                    if out is None:
                        return plan.call(tensors, stream)
                    return self._call_into(plan, list(tensors), out, stream)
        plan, inputs = self._bind(tensors, named)
        if out is None:
            return plan.call(inputs, stream)
        return self._call_into(plan, inputs, out, stream)

    def _call_into(self, plan, inputs, out, stream):
        outputs = self._outputs(plan, inputs, out)
        plan.run(inputs + outputs, stream, plan.pairs_out)
        return outputs[0] if len(outputs) == 1 else tuple(outputs) or None

    def prepare(self, *tensors, out=None, **named) -> Launch:
        """Binds the kernel to these inputs (and `out`, else new outputs): calls of the result only launch."""
        plan, inputs = self._bind(tensors, named)
        outputs = [make() for make in plan.makers] if out is None else self._outputs(plan, inputs, out)
        return Launch(plan, inputs + outputs, outputs)


def compile(text_or_path, *, target=None, arch=None, sizes=None, defines=None, sketch=None, design=None, deterministic=False,
            check=False, device=0, strided="error", cache=True) -> Kernel:
    """Compiles an operator, with or without a sketch, to a callable.

    text_or_path: text of the language, or the path of a .sketch file; a path that ends in .ska, or bytes: an artifact, for which
        nothing is compiled.
    target: "openmp" (or "cpu"), "nvptx" (or "gpu"), "cuda"; None: "nvptx" where torch or CuPy is imported and has a device, else "openmp".
    arch: "sm_90a", "x86-64-v3", ...; None: this machine's, of a GPU the device's.
    sizes: symbols and their values that code is made fast for, a dict or a list of them. Other sizes work, too.
    defines: values of constexprs. sketch: which one of the file. design: the style where the file has no sketch.
    device: the CUDA device's number. strided: "error" or "copy", what is done with inputs that have gaps.
    cache: take the artifact from the cache on disk, and keep it there.

    CompileError with the diagnostics where the source is refused; Error with status 4 where this machine lacks a compiler or a device.
    """
    if isinstance(text_or_path, (bytes, bytearray)) or str(text_or_path).endswith(".ska"):
        data = bytes(text_or_path) if isinstance(text_or_path, (bytes, bytearray)) else pathlib.Path(text_or_path).read_bytes()
        return Kernel(data, device, strided)
    path, text = read_source(text_or_path)
    text = with_sizes(text, sizes)
    request = Request(target, arch, defines, sketch, design, deterministic, check, device=device)
    return Kernel(artifact_bytes(path, text, request, cache), device, strided, text)
