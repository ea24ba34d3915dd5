#!/usr/bin/env python3
"""The portable build: sizes, and that it runs in an empty root with nothing but glibc.

    portable.py SOURCE_ROOT BUILD_ROOT LLVM       LLVM: auto or disabled

Builds in BUILD_ROOT/portable-LLVM (the long run: -LLVM-long) and compares what it compiles there with what it compiles in the
root of this machine."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

LONG = os.environ.get("SKETCHC_TEST_LONG") == "1"
LIMITS_MB = {"auto": 45, "disabled": 5}
GLIBC = ["/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6",
         "/lib/x86_64-linux-gnu/libm.so.6"]


def build(source: pathlib.Path, folder: pathlib.Path, llvm: str) -> pathlib.Path:
    """What a release would have, in the short run at -O1: what it needs from a machine is judged, not how fast it is; the
    plain build holds the warnings."""
    level = [] if LONG else ["-Doptimization=1", "-Dwerror=false"]
    if not (folder / "build.ninja").exists():
        subprocess.run(["meson", "setup", folder, source, "-Dportable=true", f"-Dllvm={llvm}",
                        "-Dbuildtype=release", *level], check=True, stdout=sys.stderr)
    subprocess.run(["ninja", "-C", folder, "portable.stamp"], check=True, stdout=sys.stderr)
    return folder / "portable"


def make_root(root: pathlib.Path, programs: pathlib.Path, source: pathlib.Path) -> None:
    for library in GLIBC:
        target = root / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(os.path.realpath(library), target)
        target.chmod(0o755)
    shutil.copytree(programs, root / "opt")
    shutil.copytree(source / "examples", root / "examples")
    (root / "tmp").mkdir()
    # glibc finds $ORIGIN by this link; a real /proc would need the right to mount.
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/exe").symlink_to("/opt/sketchc")


def run_inside(root: pathlib.Path, *command: str) -> subprocess.CompletedProcess:
    """As root by chroot, else in a user namespace of its own."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    chroot, unshare = (shutil.which(name, path=path) or name for name in ("chroot", "unshare"))
    prefix = [chroot, str(root)] if os.geteuid() == 0 else [unshare, "-r", chroot, str(root)]
    return subprocess.run([*prefix, *command], capture_output=True, env={"HOME": "/tmp"},
                          stdin=subprocess.DEVNULL, check=False)


def main() -> int:
    source, build_root, llvm = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    programs = build(source, build_root / f"portable-{llvm}{'-long' if LONG else ''}", llvm)
    size = (programs / "sketchc").stat().st_size / 1e6
    print(f"figure: portable_binary_{llvm} {size:.1f} MB (limit {LIMITS_MB[llvm]})")
    if size >= LIMITS_MB[llvm]:
        return 1
    targets = ["openmp", "cuda"] + (["nvptx"] if llvm != "disabled" else [])
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        make_root(root, programs, source)
        probe = run_inside(root, "/opt/sketchc", "--version")
        if probe.returncode and os.geteuid() != 0 and b"unshare" in probe.stderr:
            print("neither root nor user namespaces: no empty root can be entered")
            return 77
        for target in targets:
            arguments = ["examples/rmsnorm.sketch", "-t", target]
            inside = run_inside(root, "/opt/sketchc", *arguments)
            outside = subprocess.run([programs / "sketchc", *arguments], cwd=source,
                                     capture_output=True, check=False)
            if inside.returncode or inside.stdout != outside.stdout or not inside.stdout:
                print(f"{target} in an empty root: exit status {inside.returncode}, "
                      f"{len(inside.stdout)} bytes (outside {len(outside.stdout)}): "
                      f"{inside.stderr.decode(errors='replace')[:1000]}")
                return 1
    print(f"runs in an empty root with glibc alone: {', '.join(targets)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
