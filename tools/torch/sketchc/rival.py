"""What torch should take for a graph, by the table of the machine that our kernels' times are predicted from.

An operation takes as long as its bytes or its multiply-adds need, whichever is longer, at the part of the machine's rate that torch's
libraries reach by REACHED, and no less than a launch. Eager mode runs each by itself. Inductor joins what stands between products:
of these operations only what comes from outside and what goes there is moved."""
import math
import operator

import torch

from .importer_text import expression, hint_of
from .splitter import base_name, is_free

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "mv", "dot")
CONVOLUTIONS = ("convolution", "convolution_backward")
# Parts of a rate of an H200. Estimated from times of level 2's problems (bench/results/2026-11-28-level-2 and 2026-11-28-torch, torch 2.11):
# SGEMM, 49 of 59 TFLOPS; cuDNN's convolutions in tf32, in f32 (which it takes where the channels are few), and transposed ones. Assumed, not
# measured: products on tensor cores (cuBLAS in bf16), and the memory of a map.
REACHED = {"f32": 0.83, "products": 0.75, "forward": 0.42, "transposed": 0.25, "few": 0.3, "memory": 0.9}
FEW_CHANNELS = {3: 8, 4: 8, 5: 4}  # of a filter of so many axes: up to here cuDNN's convolution multiplied in f32
ROW = 1.5e-9                       # seconds a row of a layer norm in eager mode, which gives each a block
LANES, FLOAT64 = 32, 16  # of an instruction; multiply-adds in 16 bits for one in float64


def _tensors(value):
    return [v for v in (value if isinstance(value, list | tuple) else [value]) if isinstance(v, torch.Tensor)]


def _number(size):
    found = hint_of(size)
    if found is None:
        raise ValueError(f"the size {expression(size)} is not known")
    return int(found)


def _elements(fake):
    count = 1
    for size in fake.shape:
        count *= _number(size)
    return count


def _bytes(fake):
    return _elements(fake) * fake.element_size()


def _results(node):
    """Of several results those that are taken."""
    value = node.meta.get("val")
    if not isinstance(value, list | tuple):
        return _tensors(value)
    return _tensors([value[n.args[1]] for n in node.users if n.target is operator.getitem])


def _operands(node):
    return [fake for n in node.all_input_nodes for fake in _tensors(n.meta.get("val"))]


def multiply_adds(node):
    """Of a product or a convolution; 0 of others."""
    name = base_name(node)
    if name in PRODUCTS:
        a = node.args[1 if name in ("addmm", "baddbmm") else 0].meta["val"]
        return _elements(node.meta["val"]) * _number(a.shape[-1])
    if name not in CONVOLUTIONS:
        return 0
    if name == "convolution":
        x, weight, transposed, made = node.args[0], node.args[1], node.args[6], node.meta["val"]
        return _convolved(x.meta["val"] if transposed else made, weight.meta["val"])
    grad, x, weight, transposed, wanted = node.args[0], node.args[1], node.args[2], node.args[7], node.args[10]
    return (wanted[0] + wanted[1]) * _convolved((x if transposed else grad).meta["val"], weight.meta["val"])


def _convolved(elements, weight):
    """Each element of one side meets a filter's elements of one of its first axis."""
    return _elements(elements) * (_elements(weight) // _number(weight.shape[0]))


def _filter(node):
    """Of a convolution: its filter, and whether it is transposed."""
    if base_name(node) == "convolution":
        return node.args[1].meta["val"], node.args[6]
    return node.args[2].meta["val"], node.args[7]


def _has_few_channels(node):
    weight, transposed = _filter(node)
    channels = hint_of(weight.shape[0 if transposed else 1])
    return channels is not None and int(channels) <= FEW_CHANNELS.get(weight.dim(), 0)


def rounds(node):
    """Does torch round the factors of this product, or convolution, from float32 to tf32 on a GPU?"""
    if base_name(node) not in CONVOLUTIONS:
        return torch.get_float32_matmul_precision() != "highest"
    return torch.backends.cudnn.allow_tf32 and not _has_few_channels(node)


def _part(node, wide):
    """What torch's library reaches of the machine's rate for this product, or convolution."""
    if base_name(node) not in CONVOLUTIONS:
        return REACHED["f32" if wide else "products"]
    backward = base_name(node) == "convolution_backward"
    return REACHED["few" if wide else "forward" if _filter(node)[1] == backward else "transposed"]


def _rate(node, machine):
    """Multiply-adds a second that torch's library reaches for this operation."""
    dtype = _tensors(node.meta["val"])[0].dtype
    if dtype == torch.float64:
        return machine["products"] / FLOAT64 * REACHED["products"]
    wide = dtype == torch.float32 and not rounds(node)
    rate = machine["instructions"] * LANES if wide else machine["products"] / (2 if dtype == torch.float32 else 1)
    return rate * _part(node, wide)


def _moving(count, machine):
    return count / (machine["copy"] * REACHED["memory"])


def _convolution_moves(node, machine):
    """What eager mode adds to a convolution: to tensor cores its tensors go channels last, and back, and a bias is a map behind it."""
    made = sum(map(_bytes, _results(node)))
    moved = sum(map(_bytes, _operands(node))) + made if rounds(node) else 0
    biased = base_name(node) == "convolution" and node.args[2] is not None
    return _moving(2 * (moved + (made if biased else 0)), machine)


def _alone(node, machine, way):
    moved = sum(map(_bytes, _operands(node) + _results(node)))
    work = multiply_adds(node)
    least = max(_moving(moved, machine), work / _rate(node, machine) if work else 0, machine["launch"])
    if way != "eager":
        return least
    if base_name(node) == "native_layer_norm":
        return max(least, ROW * _elements(_results(node)[0]) / math.prod(map(_number, node.args[1])))
    return least + (_convolution_moves(node, machine) if base_name(node) in CONVOLUTIONS else 0)


def _joined(nodes, machine):
    """Operations that inductor makes few kernels of: each tensor from outside is read once, and written is what somebody outside reads."""
    own = set(nodes)
    inside = lambda n: n in own or n.op == "call_function" and (n.target is operator.getitem or is_free(n))  # noqa: E731
    read = {n for node in nodes for n in node.all_input_nodes if not inside(n)}
    written = [n for n in nodes if any(not inside(u) for u in n.users)]
    moved = sum(_bytes(f) for n in read for f in _tensors(n.meta.get("val"))) + sum(_bytes(f) for n in written for f in _results(n))
    return max(_moving(moved, machine), machine["launch"])


def seconds(graph, machine, way="eager"):
    """What eager mode or inductor should take for the graph; None where a size is not known."""
    busy = [n for n in graph.nodes if n.op == "call_function" and not is_free(n)]
    heavy = [n for n in busy if base_name(n) in PRODUCTS + CONVOLUTIONS]
    others = [n for n in busy if n not in heavy]
    try:
        if way == "eager":
            return sum(_alone(n, machine, way) for n in busy)
        return sum(_alone(n, machine, way) for n in heavy) + (_joined(others, machine) if others else 0)
    except ValueError:
        return None


LOSES = 1.02  # so many times as long as torch


def lost(graph, region, way):
    """Why a region is left to torch: it is predicted to take longer here. None: it is not, or nothing is predicted."""
    found = region.prediction()
    cases = found["cases"] if found else []
    if not cases or not cases[0]["known"] or "machine" not in found:
        return None
    own, theirs = cases[0]["seconds"], seconds(graph, found["machine"], way)
    if theirs is None or own <= LOSES * theirs:
        return None
    mode = "in eager mode" if way == "eager" else f"by {way}"
    return f"predicted to take {own * 1e3:.3g} ms here and {theirs * 1e3:.3g} ms {mode}"
