"""bench/kernel.py opens and runs a kernel through libsketchc: its structures are those of sketchc.h, and one of another length
is refused.

    kernel_python.py LIBSKETCHC SKETCHC SKETCH"""
import array
import ctypes
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import kernel  # noqa: E402


class Tensor:
    """As much of a tensor as a kernel is bound to."""

    def __init__(self, values):
        self.values = array.array("f", values)
        self.data_ptr = lambda: self.values.buffer_info()[0]
        self.numel = lambda: len(self.values)
        self.element_size = lambda: self.values.itemsize


def main():
    library, sketchc, sketch = (pathlib.Path(a) for a in sys.argv[1:])
    opened = kernel.Library(library)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "scale.ska"
        subprocess.run([sketchc, sketch, "-t", "openmp", "--emit=artifact", "-q", "-o", path], check=True)
        artifact = opened.read(path)
    x, y = Tensor(range(1000)), Tensor([0] * 1000)
    run = kernel.Kernel(opened, artifact, {"N": 1000}, {"X": x, "Y": y}, {})
    run()
    run.close()
    assert list(y.values) == [2 * i + 1 for i in range(1000)], list(y.values)[:8]
    options = kernel.RunOptions(size=ctypes.sizeof(kernel.RunOptions) - 8)
    handle, message = ctypes.c_void_p(), ctypes.c_char_p()
    status = opened.c.sketchc_kernel_open(artifact, ctypes.byref(options), None, ctypes.c_size_t(0), ctypes.byref(handle), ctypes.byref(message))
    assert status and b"another version" in message.value, (status, message.value)
    print("1000 elements, options of another length refused")


main()
