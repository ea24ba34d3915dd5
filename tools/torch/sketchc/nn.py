"""Layers to swap in: parameters, names and shapes as torch.nn's, computed by this compiler, forward and backward.

    import sketchc.nn
    model.norm = sketchc.nn.RMSNorm(4096).to(model.norm.weight)
    model.norm.load_state_dict(old.state_dict())

Each is compiled at its first call for a shape, by torch.compile(backend="sketchc"); within a model that is compiled itself it is a part of
that graph. What the language cannot hold (complex numbers, ...) raises, as anywhere in the backend, or stays with torch."""
import functools
import math

import torch
import torch.nn.functional as F

from . import backend  # noqa: F401  registers itself

ACTIVATIONS = {None: lambda x: x, "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
               "sigmoid": torch.sigmoid, "tanh": torch.tanh}


def _compiled(function):
    """The function by this backend; compiled when it is called first."""
    made = torch.compile(function, backend="sketchc", dynamic=None)

    @functools.wraps(function)
    def call(*args, **named):
        return function(*args, **named) if torch.compiler.is_compiling() else made(*args, **named)
    return call


@_compiled
def rms_norm(x, weight, eps):
    """x / sqrt(mean(x^2) + eps) * weight over the last axis, in float32 at least; eps: None for torch's own, which goes with the type."""
    return F.rms_norm(x, x.shape[-1:], weight, eps)


@_compiled
def layer_norm(x, weight, bias, eps, shape=None):
    """Over the last axes, whose extents are `shape`: without it over one."""
    return F.layer_norm(x, x.shape[-1:] if shape is None else shape, weight, bias, eps)


@_compiled
def linear(x, weight, bias, activation=None):
    """activation(x @ weight.T + bias); activation: a name of ACTIVATIONS."""
    return ACTIVATIONS[activation](F.linear(x, weight, bias))


@_compiled
def swiglu(x, gate, up, down):
    """down(silu(gate x) * up x), three weights without biases."""
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


@_compiled
def attention(query, key, value, mask=None, causal=False, scale=None):
    """softmax(query key^T scale + mask) value over [batch, heads, length, size]; keys and values may have fewer heads, each of which serves as
    many of the queries'. mask: truth values (true is seen) or numbers that are added. causal: of equal lengths, later places are not seen. What sees
    nothing is 0, as torch has it."""
    repeats = query.shape[1] // key.shape[1]
    if repeats != 1:
        key, value = (t.repeat_interleave(repeats, 1) for t in (key, value))
    scores = query @ key.transpose(2, 3) * (1 / math.sqrt(query.shape[3]) if scale is None else scale)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).triu(1), float("-inf"))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    wide = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    return _weights(wide, mask is not None).to(query.dtype) @ value


def _weights(scores, masked):
    """Softmax of each row; of one that a mask has throughout, whose softmax is no number, zeros, and so are its gradients."""
    if not masked:
        return scores.softmax(-1)
    blind = (scores == float("-inf")).all(-1, keepdim=True)
    return scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)


class RMSNorm(torch.nn.Module):
    """As torch.nn.RMSNorm over the last axis."""

    def __init__(self, width, eps=None):
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)


class LayerNorm(torch.nn.LayerNorm):
    """torch.nn.LayerNorm."""

    def forward(self, x):
        return layer_norm(x, self.weight, self.bias, self.eps, self.normalized_shape)


class Linear(torch.nn.Linear):
    """torch.nn.Linear with an activation behind it: relu, gelu, gelu_tanh, silu, sigmoid or tanh."""

    def __init__(self, entering, leaving, bias=True, activation=None):
        super().__init__(entering, leaving, bias)
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation is one of {', '.join(a for a in ACTIVATIONS if a)}, not {activation!r}")
        self.activation = activation

    def forward(self, x):
        return linear(x, self.weight, self.bias, self.activation)


class SwiGLU(torch.nn.Module):
    """A gated layer as Llama's, three projections called gate_proj, up_proj and down_proj."""

    def __init__(self, width, inner):
        super().__init__()
        self.gate_proj, self.up_proj = (torch.nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down_proj = torch.nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return swiglu(x, self.gate_proj.weight, self.up_proj.weight, self.down_proj.weight)


class Attention(torch.nn.Module):
    """Attention of given queries, keys and values, as scaled_dot_product_attention with enable_gqa."""

    def __init__(self, causal=False, scale=None):
        super().__init__()
        self.causal, self.scale = causal, scale

    def forward(self, query, key, value, mask=None):
        return attention(query, key, value, mask, self.causal, self.scale)
