"""The architecture that the library finds where this process has started CUDA: of the driver without a GPU in tests/cuda, which, as the
true one, does not start in a process forked behind that.

Called as test_driver.py LIBSKETCHC PACKAGE_FOLDER LIBCUDA."""
import ctypes
import sys

import checks

checks.use_package()
from sketchc import _native  # noqa: E402


def native(library):
    return library.text(library.native_arch(b"nvptx"))


def test_architecture_behind_a_driver_that_runs():
    library = _native.library()
    driver = ctypes.CDLL(sys.argv[3])
    assert native(library) == "sm_90a"  # loaded, but not started: a process of its own asks
    count = ctypes.c_int()
    assert driver.cuDeviceGetCount(ctypes.byref(count)) != 0, "asking started CUDA here"
    assert driver.cuInit(0) == 0
    assert native(library) == "sm_90a"


if __name__ == "__main__":
    checks.run(globals())
