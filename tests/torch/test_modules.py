"""Models of torch.nn at small sizes, inference and training, against eager."""
import contextlib
import copy
import math

import common
import torch
import torch.nn.functional as F
from common import backend, daily
from torch import nn
from torch.fx.experimental import proxy_tensor

from sketchc import rival


class ConvNet(nn.Module):
    """Two convolutions with pooling, two linear layers."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 6, 3)
        self.third, self.fourth = nn.Linear(6 * 2 * 2, 12), nn.Linear(12, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.avg_pool2d(torch.tanh(self.second(x)), 2)
        return self.fourth(F.gelu(self.third(x.flatten(1))))


class Block(nn.Module):
    """A Llama-style block: RMSNorm, grouped queries, rotary positions, SwiGLU."""

    def __init__(self, width=16, heads=4, groups=2, inner=24):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm, self.norm2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))
        self.q, self.k = nn.Linear(width, width, bias=False), nn.Linear(width, groups * self.size, bias=False)
        self.v, self.o = nn.Linear(width, groups * self.size, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.gate, self.down = (nn.Linear(a, b, bias=False) for a, b in ((width, inner), (width, inner), (inner, width)))

    @staticmethod
    def normed(x, weight):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight

    def turned(self, x):
        half = self.size // 2
        angle = torch.arange(x.shape[2], device=x.device)[:, None] / 100 ** (torch.arange(half, device=x.device) / half)
        cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

    def attend(self, x):
        b, t, _ = x.shape
        q = self.turned(self.q(x).view(b, t, self.heads, self.size).transpose(1, 2))
        k = self.turned(self.k(x).view(b, t, self.groups, self.size).transpose(1, 2))
        v = self.v(x).view(b, t, self.groups, self.size).transpose(1, 2)
        k, v = (y.repeat_interleave(self.heads // self.groups, 1) for y in (k, v))
        scores = q @ k.transpose(2, 3) / self.size ** 0.5
        scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1), float("-inf"))
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))

    def forward(self, x):
        x = x + self.attend(self.normed(x, self.norm))
        y = self.normed(x, self.norm2)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Cell(nn.Module):
    """An LSTM cell over three steps."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(5, 6)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[1], 6)
        for step in x.unbind(0):
            h, c = self.cell(step, (h, c))
        return h


class Residual(nn.Module):
    """A block of ResNet with batch norm."""

    def __init__(self, channels=4):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, channels, 3, 2, 1, bias=False), nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.na, self.nb, self.nc = (nn.BatchNorm2d(channels) for _ in range(3))
        self.short = nn.Conv2d(3, channels, 1, 2, bias=False)

    def forward(self, x):
        y = self.nb(self.b(F.relu(self.na(self.a(x)))))
        return F.adaptive_avg_pool2d(F.relu(y + self.nc(self.short(x))), 1).flatten(1)


class UNet(nn.Module):
    """Down, up by a transposed convolution, joined with what was before."""

    def __init__(self):
        super().__init__()
        self.down, self.deep = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.norm, self.up, self.out = nn.GroupNorm(2, 8), nn.ConvTranspose2d(8, 4, 2, 2), nn.Conv2d(8, 1, 1)

    def forward(self, x):
        first = F.leaky_relu(self.down(x))
        deep = F.silu(self.norm(self.deep(F.max_pool2d(first, 2))))
        return torch.sigmoid(self.out(torch.cat([first, self.up(deep)], 1)))


def perceptron():
    return nn.Sequential(nn.Linear(7, 12), nn.ReLU(), nn.LayerNorm(12), nn.Linear(12, 3), nn.LogSoftmax(-1))


MODELS = {
    "perceptron": (perceptron, (4, 7)),
    "conv net": (ConvNet, (2, 1, 12, 12)),
    "block": (Block, (2, 5, 16)),
    "lstm cell": (Cell, (3, 2, 5)),
    "residual": (Residual, (3, 3, 8, 8)),
    "u-net": (UNet, (2, 2, 8, 8)),
}


def made(name):
    torch.manual_seed(7)
    make, shape = MODELS[name]
    return make(), torch.randn(shape)


def step(model, x):
    """Result, gradients and buffers of a training step."""
    x = x.clone().requires_grad_()
    result = model(x)
    (result * torch.linspace(-1, 1, result.numel(), dtype=result.dtype).view(result.shape)).sum().backward()
    return [result.detach(), x.grad] + [p.grad for p in model.parameters()] + list(model.buffers())


def check_training(name, **options):
    model, x = made(name)
    ours, report = trained(copy.deepcopy(model), x, **options)
    eager = step(copy.deepcopy(model), x)
    exact = step(copy.deepcopy(model).double(), x.double())
    moved = common.rounded(lambda x: step(copy.deepcopy(model).double(), x), [x], torch.finfo(x.dtype).eps)
    common.hold(name, ours, eager, exact, moved)
    return report


def trained(model, x, **options):
    torch._dynamo.reset()
    with backend.reporting() as report:
        result = step(torch.compile(model, backend="sketchc", fullgraph=True, options=options), x)
    return result, report


def check_inference(name, **options):
    model, x = made(name)
    model.eval()
    with torch.no_grad():
        ours, report = common.compiled(model, x, **options)
        common.hold(name, ours, model(x), copy.deepcopy(model).double()(x.double()))
    return report


def test_inference():
    for name in MODELS:
        check_inference(name)


def test_training():
    """Forward and backward; the report says that both were taken."""
    for name in MODELS:
        report = check_training(name)
        kinds = [g.name for g in report.graphs]
        assert kinds == ["forward", "backward"], kinds
        assert all(g.regions for g in report.graphs) and report.whole, f"{name}:\n{report}"


def check_autocast(name, dtype):
    """A training step under autocast; the bound has the roundings of the narrow type after each operation."""
    model, x = made(name)

    def cast_step(model, x):
        with torch.autocast("cpu", dtype=dtype):
            return step(model, x)
    torch._dynamo.reset()
    with backend.reporting() as report:
        ours = cast_step(torch.compile(copy.deepcopy(model), backend="sketchc", fullgraph=True, options={"loud": False}), x)
    eager, exact = cast_step(copy.deepcopy(model), x), step(copy.deepcopy(model).double(), x.double())
    moved = common.rounded(lambda x: step(copy.deepcopy(model).double(), x), [x], torch.finfo(dtype).eps)
    common.hold(f"{name}, {dtype}", ours, eager, exact, moved)
    assert report.whole, f"{name}:\n{report}"


def test_autocast():
    for dtype in (torch.bfloat16, torch.float16):
        for name in daily.drawn(sorted(MODELS), 2):
            check_autocast(name, dtype)


def test_batch_is_a_symbol():
    """One artifact for several batches."""
    model = perceptron()
    torch._dynamo.reset()
    with backend.reporting() as report, torch.no_grad():
        fast = torch.compile(model, backend="sketchc", dynamic=True)
        for batch in (4, 9, 33):
            x = torch.randn(batch, 7)
            common.hold(f"batch {batch}", fast(x), model(x), copy.deepcopy(model).double()(x.double()))
    assert len(report.graphs) == 1 and "symbols: " in report.graphs[0].regions[0].text, str(report)


def test_a_batch_beside_fixed_axes():
    """A sketch that sees the batch and what follows as one axis gets its size from the tensor."""
    def function(x):
        return torch.atan(x.clamp(-1, 1) * 2) + x
    torch._dynamo.reset()
    with backend.reporting() as report, torch.no_grad():
        fast = torch.compile(function, backend="sketchc", dynamic=None)
        for batch in (3, 6):
            x = torch.randn(batch, 4, 17, 15)
            torch._dynamo.mark_dynamic(x, 0)
            common.hold(f"batch {batch}", fast(x), function(x), function(x.double()))
    assert report.whole and len(report.graphs) == 1, str(report)


def test_channels_last_is_not_copied():
    """Inputs whose axes lie in another order are declared as they lie; results lie as torch's do."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    with torch.no_grad():
        ours, report = common.compiled(model, x)
        eager = model(x)
    common.hold("channels last", ours, eager, copy.deepcopy(model).double()(x.double()))
    assert ours.stride() == eager.stride(), (ours.stride(), eager.stride())
    assert "[2, 8, 8, 3]" in report.graphs[0].regions[0].text


def test_gaps_and_repeats():
    def function(a, b):
        return a * 2 + b
    for a, b in ((torch.randn(6, 8)[::2, 1:], torch.randn(7)), (torch.randn(3, 1).expand(3, 7), torch.randn(7, 3).t())):
        ours, _ = common.compiled(function, a, b)
        common.hold("gaps", ours, function(a, b), function(a.double(), b.double()))


def test_what_is_left():
    """An operation without a row goes to the nested backend, with the reason; what stands around it is compiled."""
    def function(x):
        return torch.linalg.det(torch.relu(x) + 1) * 2 + x.sum()
    x = torch.randn(4, 4)
    ours, report = common.compiled(function, x, whole=False, loud=False)
    common.hold("left", ours, function(x), function(x.double()))
    graph = report.graphs[0]
    assert graph.left and len(graph.regions) == 2 and "no row" in str(report), str(report)


def test_what_inductor_computes():
    """Pieces with one result and with several."""
    def one(x):
        return torch.cummax(torch.relu(x) - 1, 1)[0] * 2

    def several(x):
        values, places = torch.cummax(torch.relu(x) - 1, 1)
        return values * 2, places, torch.linalg.det(x.sin()) + 1
    for function in (one, several):
        x = torch.randn(4, 4)
        ours, report = common.compiled(function, x, whole=False, loud=False, nested="inductor")
        common.hold(function.__name__, ours, function(x), function(x.double()))
        assert report.graphs[0].left and report.graphs[0].regions, str(report)


def test_inductor_computes_what_is_predicted_slower():
    """All regions of a training step: operations that inductor knows in pieces only; random numbers are eager's."""
    def step(model, x):
        torch.manual_seed(4)
        result = model(x)
        result.square().sum().backward()
        return [result.detach(), *[p.grad for p in model.parameters()]]
    make = lambda: nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 3), nn.LogSoftmax(1))  # noqa: E731
    torch.manual_seed(3)
    model, x, real = make(), torch.randn(4, 6), rival.lost
    other = copy.deepcopy(model)
    torch._dynamo.reset()
    try:
        rival.lost = lambda *_: "slower"
        with backend.reporting() as report:
            made = step(torch.compile(other, backend="sketchc", options={"nested": "inductor", "loud": False}), x)
    finally:
        rival.lost = real
    for a, b in zip(made, step(model, x), strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)
    assert not any(g.regions for g in report.graphs) and "slower" in str(report), str(report)


def test_options_are_checked():
    """A value that is unknown, or a target that this machine lacks, is an error: not a graph that stays with torch."""
    targets = ["bogus", "CUDA"] + ([] if torch.cuda.is_available() else ["nvptx", "gpu", "cuda"])
    wrong = [("target", value) for value in targets] + [("precision", "bogus"), ("nested", "bogus"), ("nothing", 1)]
    for name, value in wrong:
        try:
            common.compiled(torch.sin, torch.randn(3), loud=False, **{name: value})
        except Exception as error:  # of the kind that torch's compiler wraps it in
            assert not isinstance(error, AssertionError) and name in str(error), str(error)
            continue
        raise AssertionError(f"{name} = {value!r} was taken")
    for name, value in (("target", "cpu"), ("target", "openmp"), ("precision", "bf16x3")):
        common.compiled(torch.sin, torch.randn(3), **{name: value})


def test_views_that_torch_negates():
    def function(z):
        return z.conj().imag * 2 + 1
    z = torch.tensor([1 + 2j, 3 - 4j])
    ours, report = common.compiled(function, z, whole=False, loud=False)
    assert report.graphs[0].regions and torch.equal(ours, function(z)), (ours, str(report))
    ours, _ = common.compiled(lambda y: y * 2, z.conj().imag[:1])
    assert torch.equal(ours, torch.tensor([-4.0])), ours


def test_the_report_predicts():
    """A region's time and its kernels' on a GPU, which need not be there; none on a processor, or of a text that is refused."""
    function = torch.nn.Sequential(nn.Linear(256, 512), nn.ReLU())
    with torch.no_grad():
        _, report = common.compiled(function, torch.randn(1024, 256))
    region = report.graphs[0].regions[0]
    assert region.predicted() is None and "predicted" not in str(report), str(report)
    region.target, region.arch = "nvptx", "sm_90a"
    seconds, kernels = region.predicted()
    assert 1e-6 < seconds < 1e-3 and kernels and all(0 < s <= seconds for _, s in kernels), (seconds, kernels)
    assert f"{seconds * 1e3:.4g} ms predicted" in str(report) and all(k in str(report) for k, _ in kernels), str(report)
    region.text = region.text.replace("operator", "operator operator")
    assert region.predicted() is None


@contextlib.contextmanager
def as_on_a_gpu():
    """Regions are predicted for sm_90a, which need not be there, and run on the processor."""
    real, machine = backend.compile_kernel, backend.Compiler._machine
    backend.Compiler._machine = lambda self, device: ("nvptx", "sm_90a")
    backend.compile_kernel = lambda text, **options: real(text, target="openmp", cache=options["cache"])
    try:
        yield
    finally:
        backend.compile_kernel, backend.Compiler._machine = real, machine


def test_what_is_predicted_to_be_slower_is_left():
    """A chain of maps is one kernel in place of five; a small product is cuBLAS's, unless all is to be taken."""
    def maps(x):
        return torch.sin(x) * 2 + x.exp().sqrt()

    def product(a, b):
        return a @ b
    x, (a, b) = torch.rand(256, 256), torch.randn(2, 256, 256, dtype=torch.bfloat16)
    with as_on_a_gpu(), torch.no_grad():
        _, report = common.compiled(maps, x)
        assert report.whole, str(report)
        ours, report = common.compiled(product, a, b, whole=False, loud=False)
        assert not report.graphs[0].regions and "predicted to take" in str(report), str(report)
        assert torch.equal(ours, a @ b)
        _, report = common.compiled(product, a, b, slower="take")
        assert report.whole, str(report)


def test_what_torch_should_take():
    """By the table of a machine of round numbers; bytes of a map, a product in bf16, and two maps that inductor joins."""
    machine = {"copy": 1e12, "products": 1e15, "instructions": 1e12, "launch": 1e-9}

    def taken(function, inputs, way="eager"):
        graph = proxy_tensor.make_fx(function, tracing_mode="fake")(*inputs).graph
        return rival.seconds(graph, machine, way)
    x, a = torch.empty(1000, 1000), torch.empty(1000, 1000, dtype=torch.bfloat16)
    memory, products = 1e12 * rival.REACHED["memory"], 1e15 * rival.REACHED["products"]
    assert math.isclose(taken(lambda x: x.sin(), (x,)), 8e6 / memory)
    assert math.isclose(taken(lambda x: x.sin().cos(), (x,)), 16e6 / memory)
    assert math.isclose(taken(lambda x: x.sin().cos(), (x,), "inductor"), 8e6 / memory)
    machine["copy"] = 1e18
    assert math.isclose(taken(lambda a: a @ a, (a,)), 1e9 / products)
    image, filters = torch.empty(2, 8, 10, 10, dtype=torch.bfloat16), torch.empty(16, 8, 3, 3, dtype=torch.bfloat16)
    machine["launch"] = 0
    convolved = 2 * 16 * 8 * 8 * 8 * 9 / (1e15 * rival.REACHED["forward"])
    assert math.isclose(taken(lambda x, w: F.conv2d(x, w), (image, filters)), convolved)
    few = 2 * 16 * 8 * 8 * 8 * 9 / (1e12 * rival.LANES * rival.REACHED["few"])
    assert math.isclose(taken(lambda x, w: F.conv2d(x, w), (image.float(), filters.float())), few)
    machine["copy"], many = 1e3, (torch.empty(2, 16, 10, 10), torch.empty(4, 16, 3, 3), torch.empty(4))
    moved = 4 * (2 * 16 * 100 + 4 * 16 * 9 + 4 + 2 * 4 * 64)  # read and written, there and back, and the bias
    assert math.isclose(taken(F.conv2d, many), (3 * moved + 2 * 4 * 2 * 4 * 64) / (1e3 * rival.REACHED["memory"]))
    rows = torch.empty(1000, 10)
    assert taken(lambda x: F.layer_norm(x, (10,)), (rows,)) >= 1000 * rival.ROW


def test_a_refused_call_with_many_results():
    """It is cut from what stands in front of it, not from its results."""
    real = backend.compile_kernel

    def refusing(text, **options):
        if "exp(" in text and "sin(" in text:
            raise backend.Error("error[E0725]: planted", 1)
        return real(text, **options)

    def function(x):
        return [*(torch.exp(torch.sin(x)).unbind(0))]
    x = torch.randn(9, 4)
    backend.compile_kernel = refusing
    try:
        ours, report = common.compiled(function, x, loud=False)
    finally:
        backend.compile_kernel = real
    common.hold("parts", ours, function(x), function(x.double()))
    assert len(report.graphs[0].regions) == 2, str(report)


def test_what_the_compiler_refuses():
    """A region that the compiler refuses is cut smaller until it compiles; its diagnostic stays in the report."""
    real = backend.compile_kernel

    def refusing(text, **options):
        if "tanh" in text:
            raise backend.Error("error[E0725]: planted", 1)
        return real(text, **options)

    def function(x, w):
        return torch.softmax(torch.tanh(x @ w) * 2, -1)
    x, w = torch.randn(3, 4), torch.randn(4, 5)
    backend.compile_kernel = refusing
    try:
        ours, report = common.compiled(function, x, w, whole=False, loud=False)
    finally:
        backend.compile_kernel = real
    common.hold("refused", ours, function(x, w), function(x.double(), w.double()))
    graph = report.graphs[0]
    assert [op for op, _ in graph.left.values()] == ["aten.tanh.default"], str(report)
    assert "planted" in str(report) and len(graph.regions) == 2, str(report)


def test_few_channels_count_fully():
    """cuDNN takes float32 for convolutions of few channels whatever its switch says, so they are not rounded to tf32 here."""
    for make, rounded in ((lambda: nn.Conv2d(3, 4, 3), False), (lambda: nn.Conv2d(16, 4, 3), True), (lambda: nn.Conv3d(8, 4, 3), True),
                          (lambda: nn.ConvTranspose2d(4, 16, 3), False), (lambda: nn.ConvTranspose2d(16, 4, 3), True)):
        model = make()
        torch._dynamo.reset()
        with backend.reporting() as report, torch.no_grad():
            torch.compile(model, backend="sketchc")(torch.randn(1, model.in_channels, *[5] * (model.weight.dim() - 2)))
        assert ("precision: tf32;" in report.graphs[0].regions[0].text) == rounded, f"{model}:\n{report}"


if __name__ == "__main__":
    common.main(globals())
