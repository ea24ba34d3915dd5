"""`verify`, `bench` and `explain` of operators and sketches: reports of the library, whose code runs in processes of its own."""
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from . import _native
from .errors import Error, VerifyError
from .kernel import Kernel, Request, Unit, _cache_folder, _define_text, _read_cached, _write_cached, artifact_bytes, read_source, with_sizes


class Report(dict):
    """A report as its schema in docs/schemas has it; `str(report)` is a line for each case. `passed`: its status is "ok"."""

    @property
    def passed(self) -> bool:
        return self.get("status") == "ok"

    def __str__(self):
        head = f"{self['artifact']} on {self['target']} {self['arch']}: {self['status']}" + (f": {self['text']}" if self["text"] else "")
        return "\n".join([head, *map(_case_line, self["cases"])])


def _case_line(case):
    line = f"  {case['name']} ({case['sizes']}): {case['status']}" + (f": {case['text']}" if case["text"] else "")
    if case.get("median_s"):
        line += f", {case['median_s'] * 1e6:.2f} us, {case['gb_per_s']:.0f} GB/s"
    elif "worst_ratio" in case and case["status"] == "ok":
        line += f", largest error {case['worst_ratio']} of the bound"
    return line


def _artifact(subject, sizes, options):
    """The artifact of a kernel, of bytes, or of a source text or path."""
    if isinstance(subject, Kernel):
        return subject.artifact
    if isinstance(subject, (bytes, bytearray)):
        return bytes(subject)
    if str(subject).endswith(".ska"):
        return pathlib.Path(subject).read_bytes()
    path, text = read_source(subject)
    return artifact_bytes(path, with_sizes(text, sizes), Request(**options))


def report_here(kind, data, case=None, device=0, seed=0, samples=0, ragged=True, values=None):
    """Status and text of the JSON report of sketchc_verify or sketchc_bench, in this process."""
    library = _native.library()
    artifact, message, text = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    status = library.artifact_read(data, len(data), ctypes.byref(artifact), ctypes.byref(message))
    if status:
        raise Error(library.text(message.value), status)
    pairs = [_native.Define(k.encode(), _define_text(v).encode()) for k, v in (values or {}).items()]
    defines = (_native.Define * len(pairs))(*pairs)
    options = _native.RunOptions(size=ctypes.sizeof(_native.RunOptions), seed=seed, device=device, samples=samples, no_ragged=not ragged,
                                 case_name=case.encode() if case else None, defines=defines, define_count=len(pairs))
    try:
        status = getattr(library, kind)(artifact, ctypes.byref(options), b"json", ctypes.byref(text))
        return status, library.text(text.value)
    finally:
        library.artifact_destroy(artifact)


def _report_elsewhere(kind, data, options):
    """The library forks: neither CUDA nor OpenMP may have run in the process that calls it, as they may have in this one."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "kernel.ska"
        path.write_bytes(data)
        environment = dict(os.environ, SKETCHC_LIBRARY=str(_native.library().path), PYTHONPATH=os.pathsep.join(sys.path))
        run = subprocess.run([sys.executable, "-c", "from sketchc.checking import main; main()", kind, str(path), json.dumps(options)], capture_output=True,
                             text=True, env=environment, check=False)
    if not run.stdout:
        raise Error(f"the process of the report ended with status {run.returncode}: {run.stderr[-400:]}", run.returncode)
    status, text = run.stdout.split("\n", 1)
    if text.startswith("!"):  # no report
        raise Error(text[1:], int(status))
    return int(status), text


def _report(kind, subject, sizes, run_options, options):
    data = _artifact(subject, sizes, options)
    status, text = _report_elsewhere(kind, data, run_options)
    if not text:
        raise Error(_native.STATUS_NAMES.get(status, str(status)), status)
    return status, Report(json.loads(text))


def verify(subject, *, sizes=None, case=None, seed=0, ragged=True, device=0, values=None, **options) -> Report:
    """Compares a kernel with its operator, in double precision with a bound for each element: at the declared cases, at those of `sizes`, and
    at ragged sizes.

    subject: a Kernel, or what `compile` takes, with its `options` (target, arch, defines, sketch, design, ...).
    case: only this one or these, commas between. ragged=False: no sizes but the declared ones. values: of symbols and scalars.

    VerifyError where results differ, with the report; CompileError; Error with status 4 where nothing can run here.
    """
    run_options = {"case": case, "seed": seed, "ragged": ragged, "device": device, "values": values}
    status, report = _report("verify", subject, sizes, run_options, options)
    if status == _native.VERIFY_FAILED:
        raise VerifyError(str(report), status, report)
    if status:
        raise Error(str(report), status)
    return report


def bench(subject, *, sizes=None, case=None, samples=0, device=0, values=None, **options) -> Report:
    """Times the cases with a cold cache, in turn with a copy of as many bytes; arguments and errors as `verify`."""
    run_options = {"case": case, "samples": samples, "device": device, "values": values}
    status, report = _report("bench", subject, sizes, run_options, options)
    if status:
        raise Error(str(report), status)
    return report


def explain(subject, *, html=None, sizes=None, **options) -> str:
    """What a diagnostic code means ("E0101"), or how long a sketch's kernels should take at its cases, which roof binds, and why.

    html: a path: one page with source, IR and code side by side is written there, and its path returned.
    """
    library = _native.library()
    if isinstance(subject, str) and re.fullmatch(r"[A-Z]\d{4}", subject):
        found = library.explain(subject.encode())
        if not found:
            raise Error(f"there is no diagnostic {subject}", _native.USAGE_ERROR)
        return found.decode()
    path, text = read_source(subject)
    request = Request(**options)
    given, out = request.options(), ctypes.c_void_p()
    with Unit(path, with_sizes(text, sizes)) as unit:
        if html is None:
            unit.check(library.predict(unit.handle, ctypes.byref(given), b"text", ctypes.byref(out)))
            return library.text(out.value)
        size = ctypes.c_size_t()
        unit.check(library.explain_page(unit.handle, ctypes.byref(given), ctypes.byref(out), ctypes.byref(size)))
        pathlib.Path(html).write_text(library.text(out.value), encoding="utf-8")
        return str(html)


def predictions(text, cache=True, **options):
    """What `explain` tells, as docs/schemas/prediction.schema.json has it; from the cache where the same was asked before."""
    request = Request(**options)
    folder = _cache_folder() if cache else None
    place = folder / (request.key(text) + ".json") if folder else None
    data = _read_cached(place) if place else None
    if data is None:
        data = _predicted(text, request)
        if place:
            _write_cached(place, data)
    return json.loads(data)


def _predicted(text, request):
    given, out = request.options(), ctypes.c_void_p()
    with Unit("<text>", text) as unit:
        unit.check(unit.library.predict(unit.handle, ctypes.byref(given), b"json", ctypes.byref(out)))
        return unit.library.text(out.value).encode()


def main():
    kind, path, options = sys.argv[1:]
    try:
        status, text = report_here(kind, pathlib.Path(path).read_bytes(), **json.loads(options))
    except Error as error:
        print(f"{error.status}\n!{error}", end="")
        return
    print(status)
    print(text, end="")


if __name__ == "__main__":
    main()
