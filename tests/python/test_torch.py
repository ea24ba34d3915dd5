"""The Python package over torch's tensors; on a GPU too where torch has one.

    test_torch.py LIBSKETCHC PACKAGE_FOLDER"""
import contextlib
import sys
import threading

import checks
from checks import refused

try:
    import torch
except ImportError:
    print("torch is not installed")
    sys.exit(77)

checks.use_package()
import sketchc  # noqa: E402

SCALE = "operator scale { symbols: N; tensors: X[N]: f32; Y[N]: f32; Y = 2 * X + 1 }"
TWO = """operator two { symbols: M, N; tensors: A[M, N]: f32; B[N]: f32; P[M, N]: f32; Q[M]: f32;
    P = A + B
    Q = sum(A, axis=1) }"""
# Columns lie together in X, rows S elements apart in Y.
TURNED = """operator turned { symbols: M, N; tensors: X[M, N]: f32; Y[M, N]: f32; Y = X + 1 }
sketch turned_rows implements turned {
    symbols: M, N, S >= M, T >= N; tensors: X[M, N]: f32 strides(1, S); Y[M, N]: f32 strides(T, 1)
    @llm_hint("parallel", "coreidx")
    for i in range(M):
        x = alloc([N])
        load(X[i, 0:N] -> x)
        add(x, 1, x)
        store(x -> Y[i, 0:N])
}"""
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def compiled(text, device="cpu", **options):
    return sketchc.compile(text, target="gpu" if device == "cuda" else "cpu", **options)


def test_results_are_tensors_beside_the_inputs():
    for device in DEVICES:
        kernel = compiled(SCALE, device)
        for n in (1, 7, 1000, 0):
            x = torch.randn(n, device=device)
            y = kernel(x)
            assert y.device == x.device and y.dtype == x.dtype and torch.equal(y, 2 * x + 1)
        kernel = compiled(TWO, device)
        a, b = torch.randn(5, 33, device=device), torch.randn(33, device=device)
        p, q = kernel(a, B=b)
        assert torch.equal(p, a + b) and torch.allclose(q, a.sum(1), atol=1e-5)
        own = torch.empty_like(a), torch.empty(5, device=device)
        assert kernel(a, b, out=own)[0] is own[0] and torch.equal(own[0], a + b)


def test_parameters_and_gradients():
    kernel, weight = compiled(SCALE), torch.nn.Parameter(torch.randn(9))
    y = kernel(weight)
    assert not y.requires_grad and torch.equal(y, (2 * weight + 1).detach())


def test_dtypes():
    for name in ("float64", "float16", "bfloat16", "int32", "int64", "uint8"):
        short = {"float64": "f64", "float16": "f16", "bfloat16": "bf16", "int32": "i32", "int64": "i64", "uint8": "u8"}[name]
        kernel = compiled(f"operator plus {{ symbols: N; tensors: X[N]: {short}; Y[N]: {short}; Y = X + X }}")
        x = torch.arange(100).to(getattr(torch, name))
        y = kernel(x)
        assert y.dtype == x.dtype and torch.equal(y, x + x), name
    kernel = compiled("operator cast { symbols: N; tensors: X[N]: f32; Y[N]: f8e4m3; Z[N]: bool; Y = cast(X, f8e4m3)\nZ = X > 2 }")
    x = torch.arange(8.0)
    y, z = kernel(x)
    assert y.dtype == torch.float8_e4m3fn and torch.equal(y.float(), x) and torch.equal(z, x > 2)
    refused("'X' is f32, the given tensor has elements of bfloat16", compiled(SCALE), torch.ones(3, dtype=torch.bfloat16))


def test_strides():
    kernel, x = compiled(SCALE), torch.arange(10.0)
    refused("it is not contiguous", kernel, x[::2])
    assert torch.equal(kernel(x[5:]), 2 * x[5:] + 1)
    assert torch.equal(compiled(SCALE, strided="copy")(x[::2]), 2 * x[::2] + 1)
    a, b = torch.randn(4, 6), torch.randn(6)
    refused("'A' has strides [6, 1] at these sizes, the given tensor has [1, 4]", compiled(TWO), torch.randn(6, 4).t(), b)
    assert torch.equal(compiled(TWO)(a[1:2], b)[0], a[1:2] + b)  # an axis of one element has any stride
    turned = compiled(TURNED)
    for x in (torch.randn(6, 4).t(), torch.randn(6, 9)[:, :4].t()):
        wide = torch.zeros(4, 10)
        y = turned(x, out=wide[:, :6], T=10)
        assert torch.equal(y, x + 1) and not wide[:, 6:].any()
    refused("give `out`", turned, x, T=10)
    refused("'Y' has strides [10, 1] at these sizes, the given tensor has [6, 1]", turned, x, out=torch.zeros(4, 6), T=10)


def test_libraries_are_not_mixed():
    import numpy
    kernel, a, b = compiled(TWO), torch.ones(2, 3), numpy.ones(3, "float32")
    refused("of another library", kernel, a, b)
    assert torch.equal(kernel(a, torch.ones(3))[0], a + 1)
    refused("of another library", kernel, a, b)
    assert kernel(a.numpy(), b)[0].tolist() == (a + 1).tolist()


def test_devices_are_told_apart():
    if "cuda" not in DEVICES:
        refused("has to be on the CPU", compiled(SCALE), torch.ones(3, device="meta"))
        return
    refused("has to be on the CPU, the given tensor is on CUDA device 0", compiled(SCALE), torch.ones(3, device="cuda"))
    refused("has to be on CUDA device 0", compiled(SCALE, "cuda"), torch.ones(3))


def test_architecture_is_that_of_the_running_device():
    """The library asks a process of its own, where CUDA does not start behind torch's: code for sm_80 would run five times as long, unseen."""
    from unittest import mock

    from sketchc import kernel

    for device, arch in enumerate(["sm_90a", "sm_80"]):
        with mock.patch.object(torch.cuda, "is_available", lambda: True), \
                mock.patch.object(torch.cuda, "get_device_capability", lambda d: ((9, 0), (8, 6))[d]):
            assert kernel.Request("nvptx", device=device).arch == arch
            assert kernel.Request("openmp", device=device).arch != arch
            assert kernel.Request("nvptx", arch="sm_80", device=device).arch == "sm_80"


def test_threads():
    kernel, bad = compiled(TWO), []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for n in range(1, 60):
            a, b = torch.randn(n, 8, generator=generator), torch.randn(8, generator=generator)
            if not torch.equal(kernel(a, b)[0], a + b):
                bad.append((seed, n))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not bad, bad[:3]


def test_addresses_are_checked_in_every_call():
    kernel = compiled(SCALE)
    odd = torch.frombuffer(bytearray(101), dtype=torch.float32, offset=1)
    kernel(torch.ones(25))
    for _ in range(2):
        refused("'X' does not begin at a multiple of the 4 bytes", kernel, odd)
    refused("'Y' does not begin", kernel, torch.ones(25), out=odd)
    assert torch.equal(kernel(torch.ones(26)[1:]), torch.full((25,), 3.0))


def test_what_torch_would_negate():
    """A view of an imaginary part holds the elements of the number that was conjugated."""
    negated = torch.tensor([1 + 2j]).conj().imag
    kernel = compiled(SCALE)
    kernel(negated.resolve_neg())
    for _ in range(2):
        refused("'X' is a view that torch negates as it reads", kernel, negated)
        refused("'Y' is a view that torch negates", kernel, torch.ones(1), out=negated)
    copying = compiled(SCALE, strided="copy")
    for z in (negated, torch.tensor([1 + 2j, 3 - 4j]).conj().imag):
        assert z.is_neg() and torch.equal(copying(z), 2 * z + 1)


def test_messages_of_threads():
    """Two launches that fail at once share the place of their message, which is freed once."""
    kernel, x = compiled(SCALE), torch.ones(3)
    kernel(x)
    plan, = kernel._plans.values()
    plan.library.launch(None, None, 1, None, None, plan.arguments[2])
    refused("'plan' is null", plan.fail, 2, kind=sketchc.Error)
    refused("usage error", plan.fail, 2, kind=sketchc.Error)


def test_workspaces_lie_with_the_stream():
    """What a launch on another stream than the current one works in comes from that stream's memory."""
    text = "operator chain { symbols: M, N; tensors: A[M, N]: f32; B[N, M]: f32; Y[M, M]: f32; Y = (A @ B) @ (A @ B) }"
    kernel, seen = compiled(text), []
    kernel(torch.randn(7, 3), torch.randn(3, 7))
    plan, = kernel._plans.values()
    plan.on_gpu, plan.spare, plan.under = True, [], lambda stream: contextlib.nullcontext(seen.append(stream))  # as a GPU's would
    assert plan.workspace and plan.block_of(None) and not seen and plan.block_of(7) and seen == [7]
    if "cuda" not in DEVICES:
        return
    kernel = compiled(text, "cuda")
    a, b, other = torch.randn(70, 30, device="cuda"), torch.randn(30, 70, device="cuda"), torch.cuda.Stream()
    other.wait_stream(torch.cuda.current_stream())
    results = [kernel(a, b, stream=other.cuda_stream) for _ in range(3)]
    torch.cuda.synchronize()
    assert all(torch.allclose(y, (a @ b) @ (a @ b), rtol=1e-3, atol=1e-3) for y in results)


def test_graphs_capture_launches():
    if "cuda" not in DEVICES:
        return
    kernel, x = compiled(SCALE, "cuda"), torch.randn(1000, device="cuda")
    launch = kernel.prepare(x)
    y = kernel(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
        y = kernel(x)
    x.fill_(3)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(launch.outputs[0], 2 * x + 1) and torch.equal(y, 2 * x + 1)


checks.run(globals())
