"""What torch should take for a graph, by the table of the machine that our kernels' times are predicted from.

An operation takes as long as its bytes or its multiply-adds need, whichever is longer, at the part of the machine's rate that torch's
libraries reach by REACHED, and no less than a launch. Eager mode runs each by itself. Inductor joins what stands between products:
of these operations only what comes from outside and what goes there is moved."""
import operator

import torch

from .importer_text import expression, hint_of
from .splitter import base_name, is_free

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "mv", "dot")
CONVOLUTIONS = ("convolution", "convolution_backward")
# Parts of a rate of an H200. Estimated from single times of level 2 (bench/results/2026-11-28-level-2, torch 2.11): SGEMM, 49 of 59 TFLOPS,
# and cuDNN's convolutions in tf32, as eager calls them and, channels last, as inductor does. Assumed, not measured: products on tensor cores
# (cuBLAS in bf16), and the memory of a map.
REACHED = {"f32": 0.83, "products": 0.75, "convolutions": {"eager": 0.22, "inductor": 0.5}, "memory": 0.9}
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


def _rate(node, machine, way):
    """Multiply-adds a second that torch's library reaches for this operation."""
    convolved = base_name(node) in CONVOLUTIONS
    dtype = _tensors(node.meta["val"])[0].dtype
    if dtype == torch.float64:
        return machine["products"] / FLOAT64 * REACHED["products"]
    tf32 = torch.backends.cudnn.allow_tf32 if convolved else torch.get_float32_matmul_precision() != "highest"
    if dtype == torch.float32 and not tf32:
        return machine["instructions"] * LANES * REACHED["f32"]
    part = REACHED["convolutions"][way] if convolved else REACHED["products"]
    return machine["products"] * part / (2 if dtype == torch.float32 else 1)


def _moving(count, machine):
    return count / (machine["copy"] * REACHED["memory"])


def _alone(node, machine, way):
    moved = sum(map(_bytes, _operands(node) + _results(node)))
    work = multiply_adds(node)
    return max(_moving(moved, machine), work / _rate(node, machine, way) if work else 0, machine["launch"])


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
