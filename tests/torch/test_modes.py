"""Modes of torch.compile: regions that are measured, graphs that are replayed; DDP; gradients' modes. A CUDA graph is played by a stand-in here, which
runs its function again on the tensors that it holds, as a graph does."""
import contextlib
import tempfile

import common
import torch
from common import backend
from torch import nn

from sketchc import modes


class Perceptron(nn.Module):
    """Of a class of its own: behind DDP's hooks torch compiles no frame of torch.nn's."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(7, 12), nn.ReLU(), nn.LayerNorm(12), nn.Linear(12, 3))

    def forward(self, x):
        return self.layers(x)


def perceptron():
    torch.manual_seed(1)
    return Perceptron()


def test_measured():
    """All ways are timed at the first call, the fastest stays, and the report says so."""
    model, x = perceptron(), torch.randn(4, 7)
    torch._dynamo.reset()
    with torch.no_grad(), backend.reporting() as report:
        fast = torch.compile(model, backend="sketchc", mode="max-autotune-no-cudagraphs")
        for _ in range(2):
            common.hold("measured", fast(x), model(x), perceptron().double()(x.double()))
    region = report.graphs[0].regions[0]
    assert len(region.measured) == 2 and region.chosen == min(region.measured, key=region.measured.get), region.measured
    assert f"{region.chosen} stays" in str(report), str(report)


def test_the_fastest_stays():
    class Way(nn.Module):
        def __init__(self, rounds):
            super().__init__()
            self.rounds, self.calls = rounds, 0

        def forward(self, x):
            self.calls += 1
            if self.rounds is None:
                raise RuntimeError("not here")
            for _ in range(self.rounds):
                x = x + 1
            return x
    ways = {"slow": Way(2000), "fast": Way(1), "broken": Way(None)}
    tuned = modes.Tuned(dict(ways), region := backend.Region("region", []))
    for _ in range(3):
        tuned(torch.zeros(1))
    assert region.chosen == "fast" and set(region.measured) == {"slow", "fast"}
    assert ways["slow"].calls == modes.WARM + modes.RUNS and ways["fast"].calls == modes.WARM + modes.RUNS + 3


class Stand(modes._Capture):
    """A graph without a GPU."""

    def _record(self, function):
        made, held = function(list(self.held)), self.held

        class Graph:
            def replay(self):
                for old, new in zip(made, function(list(held)), strict=True):
                    old.copy_(new)
        self.graph, self.results = Graph(), made


@contextlib.contextmanager
def stand_in():
    real = modes._Capture, modes._all_on_gpu
    modes._Capture, modes._all_on_gpu = Stand, lambda args: True
    try:
        yield
    finally:
        modes._Capture, modes._all_on_gpu = real


def test_replayed():
    """Weights are read where they lie, inputs copied; results are the caller's; other shapes and moved weights get graphs of their own."""
    calls = []

    def function(args):
        calls.append(len(args))
        return [args[0] * args[1]]
    weight = torch.full((3,), 2.0)
    with stand_in():
        replayed, kept = modes.Replayed(function), []
        for k in range(5):
            x = torch.full((3,), float(k))
            kept.append(replayed([x, weight])[0])
        weight.mul_(10)
        kept.append(replayed([torch.ones(3), weight])[0])
        assert [float(t[0]) for t in kept] == [0, 2, 4, 6, 8, 20], kept
        capture, = replayed.captures.values()
        assert capture.held[1] is weight and capture.held[0] is not x
        assert float(replayed([torch.ones(3), torch.full((3,), 7.0)])[0][0]) == 7
        assert float(replayed([torch.ones(5), torch.full((5,), 3.0)])[0][0]) == 3 and len(replayed.captures) == 1


def test_an_input_with_gaps():
    """What counts on the strides, as inductor's code does, has them in each call."""
    with stand_in():
        replayed = modes.Replayed(lambda args: [args[0].as_strided((3,), (4,)) * 1])
        for k in range(4):
            x = torch.arange(12.0).view(3, 4) + k
            assert torch.equal(replayed([x[:, ::2]])[0], x[:, 0]), k


def test_a_graph_that_cannot_be_captured():
    class Refused(modes._Capture):
        def _record(self, function):
            raise RuntimeError("waits for the GPU")
    with stand_in():
        modes._Capture = Refused
        replayed = modes.Replayed(lambda args: [args[0] + 1])
        made = [float(replayed([torch.zeros(1)])[0]) for _ in range(4)]
    assert made == [1] * 4 and len(replayed.refused) == 1


def test_modes_are_checked():
    for mode in ("fastest", "MAX"):
        try:
            backend.Options(mode=mode)
        except ValueError as error:
            assert "reduce-overhead" in str(error)
            continue
        raise AssertionError(f"{mode} was taken")
    assert backend.Options(mode="max-autotune").graphs and not backend.Options({"tune": True}).graphs


def test_reduce_overhead_on_a_processor():
    """Nothing to capture: it computes."""
    model, x = perceptron(), torch.randn(4, 7)
    torch._dynamo.reset()
    with torch.inference_mode():
        fast = torch.compile(model, backend="sketchc", mode="reduce-overhead")
        for _ in range(3):
            assert torch.allclose(fast(x), model(x), atol=1e-6)


def test_one_process_of_ddp():
    """Gradients go through gloo's hooks, and are eager's."""
    model, x = perceptron(), torch.randn(4, 7)
    with tempfile.NamedTemporaryFile() as file:
        torch.distributed.init_process_group("gloo", init_method=f"file://{file.name}", rank=0, world_size=1)
        try:
            torch._dynamo.reset()
            wrapped = torch.nn.parallel.DistributedDataParallel(perceptron())
            with backend.reporting() as report:
                torch.compile(wrapped, backend="sketchc")(x).square().sum().backward()
        finally:
            torch.distributed.destroy_process_group()
    model(x).square().sum().backward()
    exact = perceptron().double()
    exact(x.double()).square().sum().backward()
    for a, b, c in zip(wrapped.module.parameters(), model.parameters(), exact.parameters(), strict=True):
        common.hold("a gradient", a.grad, b.grad, c.grad)
    assert report.whole and any(g.name == "backward" for g in report.graphs), str(report)


if __name__ == "__main__":
    common.main(globals())
