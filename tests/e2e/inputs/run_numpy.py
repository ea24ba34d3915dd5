"""sketchc run on arrays made by numpy.   run_numpy.py SKETCHC FOLDER"""
import pathlib
import subprocess
import sys

import numpy as np

sketchc, folder = sys.argv[1], pathlib.Path(sys.argv[2])
examples = pathlib.Path(__file__).resolve().parents[3] / "examples"
random = np.random.default_rng(1)


def run(file, inputs, output, status=0, *more):
    command = [sketchc, "run", str(file), *more]
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
        command.append(f"--in={name}={folder / name}.npy")
    target = folder / f"{output}.out.npy"
    target.unlink(missing_ok=True)
    result = subprocess.run([*command, f"--out={output}={target}"], capture_output=True, text=True)
    assert result.returncode == status, (command, result.returncode, result.stdout, result.stderr)
    assert status or not result.stdout, result.stdout
    return np.load(target) if status == 0 else result.stderr


def close(got, want, dtype, tolerance):
    assert got.dtype == dtype and got.shape == want.shape, (got.dtype, got.shape)
    assert np.allclose(got, want, rtol=tolerance, atol=tolerance), np.abs(got - want).max()


x = random.standard_normal((2, 7, 33, 5), dtype=np.float32)
norm = x / np.sqrt((x.astype(np.float64) ** 2).mean(axis=1, keepdims=True) + 1e-5)
cpu = ("-t", "openmp")
close(run(examples / "rmsnorm.sketch", {"X": x}, "Y", 0, *cpu), norm, np.float32, 1e-6)
subprocess.run([sketchc, examples / "rmsnorm.sketch", *cpu, "--emit=artifact", "-o", folder / "r.ska"], check=True)
close(run(folder / "r.ska", {"X": x}, "Y"), norm, np.float32, 1e-6)

rows = random.standard_normal((5, 1031), dtype=np.float32)
power = np.exp(rows - rows.max(axis=1, keepdims=True))
close(run(examples / "softmax.sketch", {"X": rows}, "Y", 0, "-q", *cpu), power / power.sum(axis=1, keepdims=True), np.float32, 1e-6)

a, b = (random.standard_normal(s).astype(np.float16) for s in ((29, 31), (31, 33)))
product = a.astype(np.float64) @ b.astype(np.float64)
got = run(examples / "matmul_f16.sketch", {"A": a, "B": b}, "C", 0, "-q", *cpu)
assert np.allclose(got.astype(np.float64), product, rtol=2e-3, atol=2e-3), np.abs(got - product).max()

# bf16 travels as raw u16.
raw = [(m.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for m in (a, b)]
real = [(r.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for r in raw]
got = run(examples / "matmul_bf16.sketch", {"A": raw[0], "B": raw[1]}, "C", 0, "-q", *cpu)
got = got if got.dtype != np.uint16 else (got.astype(np.uint32) << 16).view(np.float32)
assert np.allclose(got, real[0] @ real[1], rtol=1e-2, atol=2e-2)

# A design may see tensors in another shape (a map of all elements one after the other): files have the operator's.
(folder / "halves.sketch").write_text("""operator halves {
    symbols: M, N;
    tensors: X[M, N]: f32; Z[M, N]: f32; Y[M, 2, N]: f32; T[M, N]: f32;
    Z = Z + X
    T = X * 2
    Y[i, k, j] = X[i, j] + k
}
""")
for output, want in (("T", 2 * rows), ("Z", rows + 1), ("Y", np.stack([rows, rows + 1], axis=1))):
    close(run(folder / "halves.sketch", {"X": rows, "Z": np.ones_like(rows)}, output, 0, "-q", *cpu), want, np.float32, 1e-6)
(folder / "double.sketch").write_text("operator double { symbols: M, N; tensors: X[M, N]: f32, W[M, N]: f32, Y[M, N]: f32; Y = X * 2 + W }")
close(run(folder / "double.sketch", {"X": rows, "W": rows}, "Y", 0, "-q", *cpu), 3 * rows, np.float32, 1e-6)
message = run(folder / "double.sketch", {"X": rows, "W": rows[1:]}, "Y", 1, "-q", *cpu)
assert "M" in message and "5" in message and "4" in message, message
message = run(folder / "double.sketch", {"X": rows, "W": rows[0]}, "Y", 1, "-q", *cpu)
assert "[1031]" in message, message

# Tensors with strides: files have no gaps, memory has; strides that nothing sets leave none.
for spread in ([], ["-D", "LDA=40"]):
    got = run(examples / "matmul_strided.sketch", {"A": a.astype(np.float32), "B": b.astype(np.float32)}, "C", 0, "-q", *spread, *cpu)
    close(got, product.astype(np.float32), np.float32, 1e-4)
message = run(examples / "matmul_strided.sketch", {"A": a.astype(np.float32), "B": b.astype(np.float32)}, "C", 1, "-q", "-D", "LDA=30", *cpu)
assert "LDA >= K" in message, message

for wrong, words in (({"X": x.astype(np.float64)}, ("X", "f32", "<f8")), ({"X": x[0]}, ("X", "rank", "3", "4"))):
    message = run(folder / "r.ska", wrong, "Y", 1)
    assert all(w in message for w in words), message
message = run(examples / "matmul_f16.sketch", {"A": a, "B": b[:-1]}, "C", 1, "-q", *cpu)
assert "31" in message and "30" in message, message
message = run(folder / "r.ska", {"Z": x}, "Y", 2)
assert "Z" in message, message
print("ok")
