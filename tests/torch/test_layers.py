"""Layers of sketchc.nn beside torch's own: results and gradients, alone and within a compiled model."""
import copy

import common
import torch
import torch.nn.functional as F
from common import backend, daily
from torch import nn

import sketchc.nn


class Gated(nn.Module):
    """SwiGLU by torch's own layers, with the names of ours."""

    def __init__(self, width, inner):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = (nn.Linear(a, b, bias=False) for a, b in ((width, inner), (width, inner), (inner, width)))

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Attend(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


class LinearGelu(nn.Linear):
    def forward(self, x):
        return F.gelu(super().forward(x))


def heads(count):
    return torch.randn(2, count, 5, 4)


LAYERS = {
    "rms norm": (lambda: sketchc.nn.RMSNorm(6, eps=1e-5), lambda: nn.RMSNorm(6, eps=1e-5), lambda: [torch.randn(3, 6)]),
    "layer norm": (lambda: sketchc.nn.LayerNorm(6), lambda: nn.LayerNorm(6), lambda: [torch.randn(3, 6)]),
    "linear": (lambda: sketchc.nn.Linear(6, 5, activation="gelu"), lambda: LinearGelu(6, 5), lambda: [torch.randn(3, 6)]),
    "swiglu": (lambda: sketchc.nn.SwiGLU(6, 7), lambda: Gated(6, 7), lambda: [torch.randn(3, 6)]),
    "attention": (lambda: sketchc.nn.Attention(causal=True), Attend, lambda: [heads(4), heads(2), heads(2)]),
}


def step(layer, inputs):
    inputs = [x.clone().requires_grad_() for x in inputs]
    result = layer(*inputs)
    (result * torch.linspace(-1, 1, result.numel(), dtype=result.dtype).view(result.shape)).sum().backward()
    return [result.detach(), *[x.grad for x in inputs], *[p.grad for p in layer.parameters()]]


def check(name):
    ours, theirs, inputs = LAYERS[name]
    torch.manual_seed(3)
    theirs, ours, inputs = theirs(), ours(), inputs()
    ours.load_state_dict(theirs.state_dict())
    exact = step(copy.deepcopy(theirs).double(), [x.double() for x in inputs])
    torch._dynamo.reset()
    with backend.reporting() as report:
        made = step(ours, inputs)
    common.hold(name, made, step(theirs, inputs), exact)
    assert report.whole and [g.name for g in report.graphs] == ["forward", "backward"], f"{name}:\n{report}"


def test_layers():
    for name in daily.drawn(LAYERS, 3):
        check(name)


def test_within_a_compiled_model():
    """One graph, of which the layer is a part."""
    model = nn.Sequential(sketchc.nn.RMSNorm(6, eps=1e-5), sketchc.nn.Linear(6, 4, activation="silu"))
    x = torch.randn(3, 6)
    with torch.no_grad():
        made, report = common.compiled(model, x)
        expected = F.silu(F.linear(F.rms_norm(x, (6,), model[0].weight, 1e-5), model[1].weight, model[1].bias))
    assert torch.allclose(made, expected, atol=1e-6) and len(report.graphs) == 1, str(report)


def beside(ours, theirs, *inputs):
    """Results and gradients of two layers with the same parameters, in type, too."""
    torch._dynamo.reset()
    made, eager = (step(layer, inputs) for layer in (ours, theirs))
    for a, b in zip(made, eager, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=2e-2)


def test_an_eps_of_torch_and_its_type():
    """An eps that is not named, of numbers that are about as large; parameters wider than the input."""
    x = torch.randn(3, 6) * 1e-3
    beside(sketchc.nn.RMSNorm(6), nn.RMSNorm(6), x)
    beside(sketchc.nn.RMSNorm(6), nn.RMSNorm(6), torch.randn(3, 6).bfloat16())


def test_a_norm_over_two_axes():
    beside(sketchc.nn.LayerNorm((3, 6)), nn.LayerNorm((3, 6)), torch.randn(2, 3, 6))


def test_attention_that_sees_nothing():
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask[2] = False
    ours, q, k, v = sketchc.nn.Attention(), heads(2), heads(2), heads(2)

    class Masked(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def forward(self, q, k, v):
            return self.function(q, k, v, mask)
    beside(Masked(ours), Masked(F.scaled_dot_product_attention), q, k, v)


def test_an_activation_that_is_unknown():
    try:
        sketchc.nn.Linear(2, 2, activation="step")
    except ValueError as error:
        assert "gelu_tanh" in str(error)
        return
    raise AssertionError("nothing was refused")


if __name__ == "__main__":
    common.main(globals())
