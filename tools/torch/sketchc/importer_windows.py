"""Rows of the table that slide windows: convolutions in 1 to 3 dimensions with their gradients, pooling with its gradients."""
import torch

from .importer_text import NotTaken, kind_of, of_tensors, product, same

PLACES, TAPS = "zyx", "qrs"


class _Windows:
    """Sizes of a window along each of d axes, in index notation: places z, y, x (the last ones for fewer axes) and taps q, r, s."""

    def __init__(self, text, rank, kernel, stride, padding, dilation):
        self.text, self.rank = text, rank
        self.places, self.taps = list(PLACES[3 - rank:]), list(TAPS[:rank])
        self.kernel, self.stride, self.padding, self.dilation = (self._each(v) for v in (kernel, stride, padding, dilation))

    def _each(self, value):
        value = list(value) if isinstance(value, list | tuple) else [value]
        return value * self.rank if len(value) == 1 else value

    def forward(self, places=None, padding=None):
        """The index that tap and place read: y * stride + r * dilation - padding."""
        padding = self.padding if padding is None else padding
        return [_sum(_times(s, p), _times(d, t), -pad)
                for p, t, s, d, pad in zip(places or self.places, self.taps, self.stride, self.dilation, padding, strict=True)]

    def backward(self):
        """Which place of the window reads this index by this tap, and when one does: (y + padding - r * dilation) / stride."""
        away = [_sum(p, pad, minus=_times(d, t)) for p, t, d, pad in zip(self.places, self.taps, self.dilation, self.padding, strict=True)]
        guards = [f"({a}) % {s} == 0" for a, s in zip(away, self.stride, strict=True) if s != 1]
        return [a if s == 1 else f"({a}) // {s}" for a, s in zip(away, self.stride, strict=True)], " and ".join(guards)

    def tap_ranges(self):
        return ", ".join(f"{t} in 0:{self.text.size(k)}" for t, k in zip(self.taps, self.kernel, strict=True))

    def place_ranges(self, sizes):
        return ", ".join(f"{p} in 0:{self.text.size(s)}" for p, s in zip(self.places, sizes, strict=True))

    def unpadded(self):
        return all(isinstance(p, int) and p == 0 for p in self.padding)


def _times(factor, name):
    return name if factor == 1 else f"{factor} * {name}"


def _sum(*terms, minus=None):
    """A sum of names and numbers, without zeros."""
    names = [t for t in terms if isinstance(t, str)]
    number = sum(t for t in terms if not isinstance(t, str))
    tail = "" if number == 0 else f" + {number}" if number > 0 else f" - {-number}"
    return " + ".join(names) + tail + (f" - {minus}" if minus else "")


def _read(value, indices, pad=None):
    name = value.text if pad is None else f"pad({value.text}, {pad})"
    return f"{name}[{', '.join(indices)}]"


class _Channels:
    """Which channels a group reads. `o` is a channel of the side with `outer` ones, `c` counts within a group of the other side."""

    def __init__(self, text, groups, outer, inner):
        self.groups, self.outer, self.inner = groups, outer // groups, inner // groups
        self.range = f"c in 0:{text.size(self.inner)}"

    def other(self, o="o"):
        """The other side's channel number."""
        if self.groups == 1:
            return "c"
        group = o if self.outer == 1 else f"{o} // {self.outer}"
        return group if self.inner == 1 else f"({group}) * {self.inner} + c"

    def own(self, o="o"):
        """This side's channel within its group."""
        return o if self.groups == 1 else "0" if self.outer == 1 else f"{o} % {self.outer}"


def convolution(text, out, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    x, weight = text.factor(x), text.factor(weight)
    if x.rank == len(weight.shape) - 1:
        raise NotTaken("without a batch")
    windows = _Windows(text, x.rank - 2, weight.shape[2:], stride, padding, dilation)
    channels = _Channels(text, groups, out.shape[1], x.shape[1])
    make = _spread if transposed else _slide
    value = make(text, windows, channels, out.shape, x, weight)
    if bias is None:
        return value
    return text.fresh(f"{value.text} + reshape({bias.text}, {text.dims([bias.shape[0]] + [1] * windows.rank)})", out.shape, out.dtype)


def _slide(text, windows, channels, shape, x, weight):
    """V[n, o, y] = sum(c, r, X[n, c, y * stride + r * dilation - padding] * F[o, c, r])."""
    factor = _read(x, ["n", channels.other(), *windows.forward()], None if windows.unpadded() else 0)
    kernel = _read(weight, ["o", "c" if channels.inner != 1 or channels.groups == 1 else "0", *windows.taps])
    return _summed(text, windows, channels, shape, x.dtype, f"{factor} * {kernel}")


def _spread(text, windows, channels, shape, x, weight):
    """V[n, o, y] = sum(c, r, X[n, c, (y + padding - r * dilation) / stride] * F[c, o, r]) where this is a whole number."""
    places, guard = windows.backward()
    factor = _read(x, ["n", channels.other(), *places], 0)
    kernel = _read(weight, [channels.other(), channels.own(), *windows.taps])
    expr = f"{factor} * {kernel}"
    return _summed(text, windows, channels, shape, x.dtype, f"where({guard}, {expr}, 0)" if guard else expr)


def _summed(text, windows, channels, shape, dtype, expr):
    ranges = windows.tap_ranges() if channels.inner == 1 and channels.groups != 1 else f"{channels.range}, {windows.tap_ranges()}"
    return text.notation(["n", "o", *windows.places], shape, f"sum({ranges}, {expr})", dtype)


def convolution_backward(text, out, grad, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask):
    grad, x, weight = text.factor(grad), text.factor(x), text.factor(weight)
    windows = _Windows(text, x.rank - 2, weight.shape[2:], stride, padding, dilation)

    def of_input():
        channels = _Channels(text, groups, x.shape[1], grad.shape[1])
        return (_slide if transposed else _spread)(text, windows, channels, x.shape, grad, weight)

    def of_weight():
        return _weight_gradient(text, windows, groups, weight.shape, *((grad, x) if transposed else (x, grad)))

    def of_bias():
        axes = [k for k in range(grad.rank) if k != 1]
        return text.fresh(f"sum({grad.text}, axis={axes})", [grad.shape[1]], grad.dtype)
    return [of_input, of_weight, of_bias]


def _weight_gradient(text, windows, groups, shape, image, places):
    """G[o, c, r] = sum(n, y, image[n, c, y * stride + r * dilation - padding] * places[n, o, y])."""
    per_group = places.shape[1] // groups
    group = "o" if per_group == 1 else f"(o // {per_group})"
    channel = "c" if groups == 1 else f"{group} * {text.size(shape[1])} + c" if not same(shape[1], 1) else group
    factor = _read(image, ["n", channel, *windows.forward()], None if windows.unpadded() else 0)
    expr = f"sum(n in 0:{text.size(image.shape[0])}, {windows.place_ranges(places.shape[2:])}, {factor} * {_read(places, ['n', 'o', *windows.places])})"
    return text.notation(["o", "c", *windows.taps], shape, expr, image.dtype)


# ---- Pooling ----

def _pool(text, x, kernel, stride, padding, dilation=1):
    rank = len(kernel) if isinstance(kernel, list | tuple) else 1
    stride = stride if not isinstance(stride, list | tuple) or len(stride) else kernel
    windows = _Windows(text, rank, kernel, stride, padding, dilation)
    lead = [f"n{k}" for k in range(x.rank - rank)]
    return windows, lead


def max_pool(text, out, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    windows, lead = _pool(text, x, kernel, stride, padding, dilation)
    least = "-inf" if kind_of(x.dtype) == 2 else str(torch.iinfo(x.dtype).min)
    safe = windows.unpadded() and not ceil_mode
    shape = out[0].shape if isinstance(out, list | tuple) else out.shape

    def values():
        read = _read(x, [*lead, *windows.forward()], None if safe else least)
        return text.notation([*lead, *windows.places], shape, f"max({windows.tap_ranges()}, {read})", x.dtype)

    def indices():
        return _where_largest(text, windows, lead, x, values(), safe)
    return [values, indices] if isinstance(out, list | tuple) else values()


def _where_largest(text, windows, lead, x, largest, safe):
    """The largest element's number within its plane: of equal ones the first, of NaN the last; never one of the padding."""
    sizes, flat, guard = x.shape[-windows.rank:], "0", ""
    for index, size in zip(windows.forward(), sizes, strict=True):
        flat = f"({index})" if flat == "0" else f"({flat}) * {text.size(size)} + ({index})"
        guard += "" if safe else f"({index}) >= 0 and ({index}) < {text.size(size)} and "
    names = [*lead, *windows.places]
    read = _read(x, [*lead, *windows.forward()], None if safe else 0)
    top, taps = f"{largest.text}[{', '.join(names)}]", windows.tap_ranges()
    first = f"min({taps}, where({guard}{read} == {top}, {flat}, {text.size(product(sizes))}))"
    if kind_of(x.dtype) == 2:
        last = f"max({taps}, where({guard}{read} != {read}, {flat}, -1))"
        first = f"where({top} != {top}, {last}, {first})"
    return text.notation(names, largest.shape, f"cast({first}, dtype=i64)", torch.int64, exact=True)


def max_pool_backward(text, out, grad, x, kernel, stride, padding, dilation, ceil_mode, indices):
    """Each element gathers the gradients of the windows whose largest it was."""
    windows, lead = _pool(text, x, kernel, stride, padding, dilation)
    places, guard = windows.backward()
    flat = ""
    for place, size in zip(windows.places, x.shape[-windows.rank:], strict=True):
        flat = f"({flat}) * {text.size(size)} + {place}" if flat else place
    names = [*lead, *places]
    own = f"{_read(indices, names, -1)} == {flat}"
    condition = f"{guard} and {own}" if guard else own
    expr = f"sum({windows.tap_ranges()}, where({condition}, {_read(grad, names, 0)}, 0))"
    return text.notation([*lead, *windows.places], x.shape, expr, x.dtype)


def avg_pool(text, out, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    windows, lead = _pool(text, x, kernel, stride, padding)
    plain = windows.unpadded() and not ceil_mode
    read = _read(x, [*lead, *windows.forward()], None if plain else 0)
    divisor = _divisor(text, windows, x, ceil_mode, count_include_pad, divisor_override)
    names = [*lead, *windows.places]
    return text.notation(names, out.shape, f"sum({windows.tap_ranges()}, {read}) / {divisor}", x.dtype)


def _divisor(text, windows, x, ceil_mode, count_include_pad, divisor_override):
    """How many elements a window counts, as an expression of its place."""
    if divisor_override:
        return str(divisor_override)
    if (windows.unpadded() or count_include_pad) and not ceil_mode:
        count = 1
        for k in windows.kernel:
            count *= k
        return str(count)
    return "(" + " * ".join(_counted(text, windows, k, size, count_include_pad) for k, size in enumerate(x.shape[-windows.rank:])) + ")"


def _counted(text, windows, k, size, count_include_pad):
    pad, kernel = windows.padding[k], windows.kernel[k]
    first = _sum(_times(windows.stride[k], windows.places[k]), -pad)
    end = f"min({first} + {kernel}, {text.size(size + pad)})"
    return f"({end} - ({first}))" if count_include_pad else f"(min({end}, {text.size(size)}) - max({first}, 0))"


def avg_pool_backward(text, out, grad, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
    windows, lead = _pool(text, x, kernel, stride, padding)
    if ceil_mode or not (windows.unpadded() or count_include_pad):
        raise NotTaken("windows of several sizes")
    places, guard = windows.backward()
    divisor = _divisor(text, windows, x, ceil_mode, count_include_pad, divisor_override)
    read = _read(grad, [*lead, *places], 0)
    expr = f"sum({windows.tap_ranges()}, {f'where({guard}, {read}, 0)' if guard else read}) / {divisor}"
    return text.notation([*lead, *windows.places], x.shape, expr, x.dtype)


# ---- Adaptive pooling: windows from floor(i * H / O) to ceil((i + 1) * H / O) ----

def _adaptive(text, out, x, size):
    rank = len(size)
    pairs = list(zip(out.shape[-rank:], x.shape[-rank:], strict=True))
    if not all(isinstance(s, int) for pair in pairs for s in pair):
        raise NotTaken("of symbolic sizes")
    windows = _Windows(text, rank, [_longest(o, h) for o, h in pairs], 1, 0, 1)
    starts = [f"{p} * {h} // {o}" for p, (o, h) in zip(windows.places, pairs, strict=True)]
    ends = [f"(({p} + 1) * {h} + {o - 1}) // {o}" for p, (o, h) in zip(windows.places, pairs, strict=True)]
    lead = [f"n{k}" for k in range(x.rank - rank)]
    return windows, lead, starts, ends, all(h % o == 0 for o, h in pairs)


def _longest(o, h):
    return max(-(-(i + 1) * h // o) - i * h // o for i in range(o))


def adaptive_avg_pool(text, out, x, size):
    windows, lead, starts, ends, even = _adaptive(text, out, x, size)
    places = [f"{s} + {t}" for s, t in zip(starts, windows.taps, strict=True)]
    read = _read(x, [*lead, *places], None if even else 0)
    count = " * ".join(f"({e} - {s})" for s, e in zip(starts, ends, strict=True))
    if not even:
        inside = " and ".join(f"{p} < {e}" for p, e in zip(places, ends, strict=True))
        read = f"where({inside}, {read}, 0)"
    else:
        count = " * ".join(map(str, windows.kernel))
    names = [*lead, *windows.places]
    return text.notation(names, out.shape, f"sum({windows.tap_ranges()}, {read}) / ({count})", x.dtype)


def adaptive_avg_pool_backward(text, out, grad, x):
    rank = {"aten._adaptive_avg_pool2d_backward.default": 2, "aten._adaptive_avg_pool3d_backward.default": 3}[str(text.node.target)]
    sizes = list(zip(grad.shape[-rank:], x.shape[-rank:], strict=True))
    if not all(isinstance(s, int) for pair in sizes for s in pair) or any(h % o for o, h in sizes):
        raise NotTaken("windows of several sizes")
    names = [f"i{k}" for k in range(x.rank)]
    ratios = [1] * (x.rank - rank) + [h // o for o, h in sizes]
    read = [n if r == 1 else f"{n} // {r}" for n, r in zip(names, ratios, strict=True)]
    count = 1
    for ratio in ratios:
        count *= ratio
    return text.notation(names, x.shape, f"{_read(grad, read)} / {count}", x.dtype)


ROWS = of_tensors({
    "convolution": convolution,
    "convolution_backward": convolution_backward,
    "max_pool2d_with_indices.default max_pool3d_with_indices.default max_pool1d max_pool2d max_pool3d": max_pool,
    "max_pool2d_with_indices_backward max_pool3d_with_indices_backward": max_pool_backward,
    "avg_pool1d avg_pool2d avg_pool3d": avg_pool,
    "avg_pool2d_backward avg_pool3d_backward": avg_pool_backward,
    "adaptive_avg_pool1d _adaptive_avg_pool2d _adaptive_avg_pool3d": adaptive_avg_pool,
    "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward": adaptive_avg_pool_backward,
})

__all__ = ["ROWS"]
