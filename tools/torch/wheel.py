#!/usr/bin/env python3
"""Makes the wheel: the package, and a libsketchc.so with what it needs beside the C library, stripped. The same files make the same bytes.

    wheel.py LIBSKETCHC FOLDER          the wheel's path on standard output

It is also the backend of pyproject.toml (PEP 517), which takes the library from SKETCHC_LIBRARY or build/libsketchc.so."""
import base64
import ctypes
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
# What every Linux of the wheel's tag has, and what is carried along.
GIVEN = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
CARRIED = {"libcjson.so.1"}


def _output(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


def _needed(library):
    return set(re.findall(r"\(NEEDED\).*\[(.*?)\]", _output("readelf", "-dW", library))) - GIVEN


def _tag(library):
    """manylinux_2_36_x86_64: the newest version of glibc's symbols that the library uses."""
    versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)", _output("readelf", "-VW", library))
    major, minor = max((int(a), int(b)) for a, b in versions)
    return f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"


def _version(library):
    c = ctypes.CDLL(str(library))
    c.sketchc_version.restype = ctypes.c_char_p
    return c.sketchc_version().decode()


def _carried(library):
    """Paths of the libraries that this one loads and that come along."""
    needed = _needed(library)
    if needed - CARRIED:
        sys.exit(f"a wheel cannot carry what {library} needs: {sorted(needed - CARRIED)}")
    lines = _output("ldd", library).splitlines()
    return {name: pathlib.Path(line.split("=>")[1].split()[0]) for line in lines for name in needed if line.split()[0] == name}


def _stripped(path):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["strip", "-o", file.name, str(path)], check=True)
        return pathlib.Path(file.name).read_bytes()


def _metadata(project, version):
    return (f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\nSummary: {project['description']}\n"
            f"License: {project['license']}\nRequires-Python: {project['requires-python']}\n")


def _entry_points(project):
    groups = project.get("entry-points", {})
    return "".join(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in rows.items()) for group, rows in groups.items())


def _files(library, info, tag, project, version):
    """What the wheel holds by path."""
    files = {f"sketchc/{p.relative_to(HERE / 'sketchc')}": p.read_bytes()
             for p in sorted((HERE / "sketchc").rglob("*")) if p.suffix in (".py", ".pyi") or p.name == "py.typed"}
    files["sketchc/lib/libsketchc.so"] = _stripped(library)
    for name, path in sorted(_carried(library).items()):
        files[f"sketchc/lib/{name}"] = _stripped(path)
    files[f"{info}/METADATA"] = _metadata(project, version).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: sketchc\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    files[f"{info}/entry_points.txt"] = _entry_points(project).encode()
    licence = HERE.parents[1] / "LICENSE"
    if licence.is_file():
        files[f"{info}/LICENSE"] = licence.read_bytes()
    return files


def _record(files, info):
    def digest(data):
        return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    rows = [f"{name},sha256={digest(data)},{len(data)}\n" for name, data in files.items()]
    return "".join([*rows, f"{info}/RECORD,,\n"]).encode()


def make(library, folder):
    """The path of the wheel."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    library = pathlib.Path(library).resolve()
    version, tag = _version(library), _tag(library)
    info = f"sketchc-{version}.dist-info"
    files = _files(library, info, tag, project, version)
    files[f"{info}/RECORD"] = _record(files, info)
    path = pathlib.Path(folder) / f"sketchc-{version}-{tag}.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.external_attr, entry.compress_type = 0o100644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return path


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517."""
    library = os.environ.get("SKETCHC_LIBRARY") or HERE.parents[1] / "build" / "libsketchc.so"
    return make(library, wheel_directory).name


if __name__ == "__main__":
    print(make(*sys.argv[1:3]))
