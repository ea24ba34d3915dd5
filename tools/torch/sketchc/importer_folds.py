"""Rows of the table that fold axes: reductions, scans, norms, products of matrices."""
import torch

from .importer_text import TYPES, NotTaken, Value, axis_of, kind_of, of_tensors, product
from .importer_views import gather, reshape


class _Result:
    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(shape), dtype


def _axes(dims, rank):
    """Axes of an argument `dim`: none of them means all."""
    if dims is None or (isinstance(dims, list | tuple) and not dims):
        return list(range(rank))
    return sorted(axis_of(d, rank) for d in (dims if isinstance(dims, list | tuple) else [dims]))


def _axis_text(axes):
    return f"axis={axes[0] if len(axes) == 1 else axes}"


def fold(text, expr, function, x, axes, keepdim, dtype, extra=""):
    """function(expr) along axes of x's shape."""
    if not x.rank:
        return text.fresh(expr, (), dtype)
    shape = [1 if k in axes else s for k, s in enumerate(x.shape) if keepdim or k not in axes]
    if not shape:
        return text.fresh(f"{function}({expr})", (), dtype)
    keep = ", keepdim=true" if keepdim else ""
    return text.fresh(f"{function}({expr}, {_axis_text(axes)}{keep}{extra})", shape, dtype)


def _converted(text, x, dtype):
    """Text of x in the type that a fold sums in."""
    x = text.tensor(x)
    floats = kind_of(x.dtype) == kind_of(dtype) == 2 and torch.float64 not in (x.dtype, dtype)
    return x.text if x.dtype == dtype or floats else f"cast({x.text}, dtype={TYPES[dtype]})"


def reduction(function):
    """sum, mean, prod: (x, dims, keepdim, dtype=)."""
    def row(text, out, x, dims=None, keepdim=False, **_):
        return fold(text, _converted(text, x, out.dtype), function, x, _axes(dims, x.rank), keepdim, out.dtype)
    return row


def extreme(function):
    """amax, amin; max and min of everything."""
    def row(text, out, x, dims=None, keepdim=False):
        return fold(text, text.tensor(x).text, function, x, _axes(dims, x.rank), keepdim, out.dtype)
    return row


def extreme_with_index(function, search):
    def row(text, out, x, dim, keepdim=False):
        x = text.tensor(x)
        axes = _axes(dim, x.rank)
        index = (lambda: fold(text, x.text, search, x, axes, keepdim, torch.int64)) if x.rank else (lambda: Value("", (), torch.int64, number=0))
        return [lambda: fold(text, x.text, function, x, axes, keepdim, x.dtype), index]
    return row


def search(function):
    def row(text, out, x, dim=None, keepdim=False):
        x = text.tensor(x)
        if not x.rank:
            return Value("", (), torch.int64, number=0)
        if dim is None and keepdim:
            raise NotTaken("all axes, kept")
        if dim is None and x.rank != 1:
            x = reshape(text, _Result([product(x.shape)], x.dtype), x)
        return fold(text, x.text, function, x, _axes(0 if dim is None else dim, x.rank), keepdim, torch.int64)
    return row


def truth(function):
    def row(text, out, x, dims=None, keepdim=False):
        x = text.tensor(x)
        expr = x.text if kind_of(x.dtype) == 0 else f"({x.text} != 0)"
        if isinstance(dims, list | tuple) and not dims:  # no axis, where other folds mean all of them
            return text.fresh(expr, x.shape, torch.bool)
        return fold(text, expr, function, x, _axes(dims, x.rank), keepdim, torch.bool)
    return row


def _moments(text, x, axes, correction):
    """The mean, and the variance of which `correction` degrees are gone, both with their axes kept."""
    x = text.tensor(x)
    average = fold(text, x.text, "mean", x, axes, True, x.dtype)
    away = text.fresh(f"{x.text} - {average.text}", x.shape, x.dtype)
    count = product([x.shape[k] for k in axes])
    if correction == 0:
        spread = fold(text, f"{away.text} * {away.text}", "mean", x, axes, True, x.dtype)
    else:
        total = fold(text, f"{away.text} * {away.text}", "sum", x, axes, True, x.dtype)
        spread = text.fresh(f"{total.text} / {_left(text, count, correction)}", total.shape, x.dtype)
    return average, away, spread


def _left(text, count, correction):
    """Degrees of freedom, of which there are no fewer than none."""
    left = text.size(count - correction) if not isinstance(count, int) else str(max(count - correction, 0))
    return left if isinstance(count, int) or correction <= 1 else f"max({left}, 0)"


def _shaped(text, value, axes, keepdim):
    if keepdim:
        return value
    return reshape(text, _Result([s for k, s in enumerate(value.shape) if k not in axes], value.dtype), value)


def _degrees(correction):
    if correction is not None and not isinstance(correction, int):
        if int(correction) != correction:
            raise NotTaken("a part of a degree of freedom")
        return int(correction)
    return 1 if correction is None else correction


def variance(text, out, x, dims=None, *, correction=None, keepdim=False):
    axes = _axes(dims, x.rank)
    return _shaped(text, _moments(text, x, axes, _degrees(correction))[2], axes, keepdim)


def deviation(text, out, x, dims=None, *, correction=None, keepdim=False):
    axes = _axes(dims, x.rank)
    spread = _moments(text, x, axes, _degrees(correction))[2]
    return _shaped(text, text.fresh(f"sqrt({spread.text})", spread.shape, x.dtype), axes, keepdim)


def variance_and_mean(text, out, x, dims=None, *, correction=None, keepdim=False):
    axes = _axes(dims, x.rank)
    average, _, spread = _moments(text, x, axes, _degrees(correction))
    return [lambda: _shaped(text, spread, axes, keepdim), lambda: _shaped(text, average, axes, keepdim)]


def scan(function):
    def row(text, out, x, dim, **_):
        if not x.rank:
            return text.fresh(_converted(text, x, out.dtype), (), out.dtype)
        expr = f"{function}({_converted(text, x, out.dtype)}, axis={axis_of(dim, x.rank)})"
        return text.fresh(expr, x.shape, out.dtype)
    return row


def norm(text, out, x, order=2, dims=None, keepdim=False, **_):
    axes = _axes(dims, x.rank)
    x = Value(_converted(text, x, out.dtype), x.shape, out.dtype)
    if order == 2:
        total = fold(text, f"{x.text} * {x.text}", "sum", x, axes, keepdim, x.dtype)
        return text.fresh(f"sqrt({total.text})", total.shape, x.dtype)
    if order == 1:
        return fold(text, f"abs({x.text})", "sum", x, axes, keepdim, x.dtype)
    if order == float("inf"):
        return fold(text, f"abs({x.text})", "reduce_max", x, axes, keepdim, x.dtype)
    raise NotTaken(f"of order {order}")


def along_axis(function):
    """softmax, log_softmax."""
    def row(text, out, x, dim, *_, **__):
        x = text.tensor(x)
        if not x.rank:
            return text.fresh(f"{x.text} - {x.text}" + (" + 1" if function == "softmax" else ""), (), out.dtype)
        return text.fresh(f"{function}({x.text}, axis={axis_of(dim, x.rank)})", x.shape, out.dtype)
    return row


def logsumexp(text, out, x, dims, keepdim=False):
    return fold(text, x.text, "logsumexp", x, _axes(dims, x.rank), keepdim, out.dtype)


def largest(text, out, x, k, dim=-1, largest=True, sorted=True):
    if not x.rank:
        return [x, Value("", (), torch.int64, number=0)]
    axis = axis_of(dim, x.rank)
    if not largest or not isinstance(k, int) or not isinstance(x.shape[axis], int) or x.shape[axis] > 4096:
        raise NotTaken("the smallest, or of a long axis")
    if x.dtype == torch.float64:
        raise NotTaken("of doubles, among which NaN is the largest")
    x = text.tensor(x)
    values, indices = f"T{len(text.lines)}", f"T{len(text.lines)}i"
    text._line(f"{values}, {indices} = topk({with_nan_largest(x)}, {k}, axis={axis})")
    places = Value(indices, out[1].shape, torch.int64)
    if kind_of(x.dtype) != 2:
        return [lambda: Value(values, out[0].shape, x.dtype), lambda: places]
    return [lambda: gather(text, out[0], x, axis, places), lambda: places]


def with_nan_largest(x):
    """Keys that order as torch orders: NaN as infinity, in a type that has room below it for infinity."""
    if kind_of(x.dtype) != 2:
        return x.text
    return f"where({x.text} != {x.text}, inf, min(cast({x.text}, dtype=f64), 1e300))"


# ---- Norms ----

def _scaled(text, value, weight, bias, shape):
    """value * weight + bias, whose axes line up with `shape`."""
    for sign, parameter in (("*", weight), ("+", bias)):
        if parameter is not None:
            parameter = reshape(text, _Result(shape, parameter.dtype), parameter)
            value = text.fresh(f"{value.text} {sign} {parameter.text}", value.shape, value.dtype)
    return value


def _normalised(text, x, axes, eps):
    average, away, spread = _moments(text, x, axes, 0)
    inverse = text.fresh(f"rsqrt({spread.text} + {text.literal(eps, x.dtype)})", spread.shape, x.dtype)
    return text.fresh(f"{away.text} * {inverse.text}", x.shape, x.dtype), average, inverse, spread


def layer_norm(text, out, x, shape, weight=None, bias=None, eps=1e-5):
    axes = list(range(x.rank - len(shape), x.rank))
    value, average, inverse, _ = _normalised(text, x, axes, eps)
    return [lambda: _scaled(text, value, weight, bias, shape), lambda: average, lambda: inverse]


def group_norm(text, out, x, weight, bias, n, channels, inner, groups, eps):
    folded = reshape(text, _Result([n, groups, channels // groups * inner], x.dtype), text.tensor(x))
    value, average, inverse, _ = _normalised(text, folded, [2], eps)
    whole = reshape(text, _Result(x.shape, x.dtype), value)
    flat = [n, groups]
    return [lambda: _scaled(text, whole, weight, bias, [channels] + [1] * (x.rank - 2)),
            lambda: reshape(text, _Result(flat, x.dtype), average), lambda: reshape(text, _Result(flat, x.dtype), inverse)]


def _channels(x):
    return [k for k in range(x.rank) if k != 1], [x.shape[1]] + [1] * (x.rank - 2)


def batch_norm_training(text, out, x, weight, bias, *rest):
    """Batch statistics; with running ones these are further results (functional), which the graph writes back."""
    mean, var = (rest[0], rest[1]) if len(rest) == 5 else (None, None)
    momentum, eps = rest[-2], rest[-1]
    axes, shape = _channels(x)
    value, average, inverse, spread = _normalised(text, x, axes, eps)
    flat = [x.shape[1]]
    results = [lambda: _scaled(text, value, weight, bias, shape),
               lambda: reshape(text, _Result(flat, x.dtype), average), lambda: reshape(text, _Result(flat, x.dtype), inverse)]
    if mean is None:
        return results
    count = product([x.shape[k] for k in axes])
    return [*results, lambda: _running(text, mean, average, "1.0", momentum),
            lambda: _running(text, var, spread, f"{text.size(count)} / ({text.size(count)} - 1.0)", momentum)]


def _running(text, old, value, factor, momentum):
    new = reshape(text, _Result(old.shape, value.dtype), value)
    scaled = new.text if factor == "1.0" else f"{new.text} * ({factor})"
    return text.fresh(f"{old.text} * {1 - momentum!r} + {scaled} * {momentum!r}", old.shape, old.dtype)


def batch_norm_training_flag(text, out, x, weight, bias, mean, var, training, momentum, eps):
    """_native_batch_norm_legit_functional."""
    if training:
        return batch_norm_training(text, out, x, weight, bias, mean, var, True, momentum, eps)
    return batch_norm_running(text, out, x, weight, bias, mean, var, momentum, eps)


def batch_norm_no_stats(text, out, x, weight, bias, training, momentum, eps):
    return batch_norm_training(text, out, x, weight, bias, momentum, eps)


def batch_norm_running(text, out, x, weight, bias, mean, var, momentum, eps):
    _, shape = _channels(x)
    mean, var = (reshape(text, _Result(shape, v.dtype), v) for v in (mean, var))
    value = text.fresh(f"({x.text} - {mean.text}) * rsqrt({var.text} + {text.literal(eps, x.dtype)})", x.shape, x.dtype)
    none = Value("", (0,), x.dtype, number=0)
    return [lambda: _scaled(text, value, weight, bias, shape), lambda: none, lambda: none, lambda: mean, lambda: var]


def rms_norm(text, out, x, shape, weight=None, eps=None):
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    axes = list(range(x.rank - len(shape), x.rank))
    square = fold(text, f"{x.text} * {x.text}", "mean", x, axes, True, x.dtype)
    inverse = text.fresh(f"rsqrt({square.text} + {text.literal(eps, x.dtype)})", square.shape, x.dtype)
    value = text.fresh(f"{x.text} * {inverse.text}", x.shape, x.dtype)
    scaled = _scaled(text, value, weight, None, shape)
    return [lambda: scaled, lambda: inverse] if isinstance(out, list | tuple) else scaled


# ---- Products of matrices ----

def matmul(text, a, b, shape, dtype, transposed=False):
    a, b = text.factor(a), text.factor(b)
    if kind_of(dtype) == 0:
        raise NotTaken("of truth values")
    trans = ", trans_b=true" if transposed else ""
    return text.fresh(f"matmul({a.text}, {b.text}{trans})", shape, dtype)


def mm(text, out, a, b, **_):
    return matmul(text, a, b, out.shape, out.dtype)


def addmm(text, out, bias, a, b, *, beta=1, alpha=1):
    value = matmul(text, a, b, out.shape, out.dtype)
    scaled = value.text if alpha == 1 else f"{text.literal(alpha, out.dtype)} * {value.text}"
    if beta == 0:
        return text.fresh(scaled, out.shape, out.dtype)
    added = text.operand(bias, out.dtype)
    added = added if beta == 1 else f"{text.literal(beta, out.dtype)} * {added}"
    return text.fresh(f"{scaled} + {added}", out.shape, out.dtype)


def matrix_vector(text, out, a, b):
    return matmul(text, a, b, out.shape, out.dtype)


ROWS = of_tensors({
    "sum": reduction("sum"),
    "mean": reduction("mean"),
    "prod": reduction("prod"),
    "amax max.default": extreme("reduce_max"),
    "amin min.default": extreme("reduce_min"),
    "max.dim": extreme_with_index("reduce_max", "argmax"),
    "min.dim": extreme_with_index("reduce_min", "argmin"),
    "argmax": search("argmax"),
    "argmin": search("argmin"),
    "any": truth("any"),
    "all": truth("all"),
    "var.correction": variance,
    "std.correction": deviation,
    "var_mean.correction": variance_and_mean,
    "cumsum": scan("cumsum"),
    "cumprod": scan("cumprod"),
    "linalg_vector_norm": norm,
    "_softmax": along_axis("softmax"),
    "_log_softmax": along_axis("log_softmax"),
    "logsumexp": logsumexp,
    "topk": largest,
    "native_layer_norm": layer_norm,
    "native_group_norm": group_norm,
    "_native_batch_norm_legit_functional": batch_norm_training_flag,
    "_native_batch_norm_legit.no_stats": batch_norm_no_stats,
    "_native_batch_norm_legit_no_training": batch_norm_running,
    "rms_norm _fused_rms_norm": rms_norm,
    "mm.default bmm.default": mm,
    "addmm.default baddbmm.default": addmm,
    "mv dot": matrix_vector,
})

__all__ = ["ROWS"]
