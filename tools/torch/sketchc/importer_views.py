"""Rows of the table that move elements: views, joins, parts, indexing, and tensors made of numbers."""
import torch

from .importer_text import TYPES, NotTaken, Value, axis_of, expression, kind_of, number_of, product, same, same_shape


def _indices(rank):
    return [f"i{k}" for k in range(rank)]


def _read(value, indices, pad=None):
    """An element of a value; with `pad` that number stands outside of it."""
    if value.number is not None:
        raise NotTaken("a part of a tensor that is one number")
    name = value.text if pad is None else f"pad({value.text}, {pad})"
    return f"{name}[{', '.join(indices)}]" if value.rank else name


def moved(text, x, shape, indices, guard=None):
    """x seen through index arithmetic: `indices` gives x's index for each of its axes, i0, i1, ... are the result's."""
    if x.number is not None:
        return Value("", shape, x.dtype, number=x.number)
    return text.notation(_indices(len(shape)), shape, _read(x, indices), x.dtype, exact=x.exact)


def reshape(text, out, x, *args, **kwargs):
    if x.number is not None:
        return Value("", out.shape, x.dtype, number=x.number)
    if same_shape(x.shape, out.shape):
        return x
    if not out.shape:  # of one element
        return text.fresh(f"reduce_sum({x.text})", (), x.dtype, exact=x.exact)
    if not x.shape:
        return text.fresh(f"broadcast({x.text}, {text.dims(out.shape)})", out.shape, x.dtype, exact=x.exact)
    return text.fresh(f"reshape({x.text}, {text.dims(out.shape)})", out.shape, x.dtype, exact=x.exact)


def expand(text, out, x, *args, **kwargs):
    if x.number is not None:
        return Value("", out.shape, x.dtype, number=x.number)
    if same_shape(x.shape, out.shape):
        return x
    return text.fresh(f"broadcast({x.text}, {text.dims(out.shape)})", out.shape, x.dtype, exact=x.exact)


def permute(text, out, x, dims):
    axes = [axis_of(d, x.rank) for d in dims]
    if x.number is not None or axes == list(range(x.rank)):
        return Value(x.text, out.shape, x.dtype, x.number, x.exact)
    return text.fresh(f"transpose({x.text}, axes={axes})", out.shape, x.dtype, exact=x.exact)


def transpose(text, out, x, a, b):
    axes = list(range(x.rank))
    if x.rank:
        a, b = axis_of(a, x.rank), axis_of(b, x.rank)
        axes[a], axes[b] = b, a
    return permute(text, out, x, axes)


def transpose_matrix(text, out, x):
    return permute(text, out, x, list(range(x.rank))[::-1])


def _bound(value, size):
    """A bound of a slice: negative ones count from the end, and beyond the end is the end."""
    if isinstance(value, int) and isinstance(size, int):
        return min(max(value + size if value < 0 else value, 0), size)
    return size + value if isinstance(value, int) and value < 0 else value


def part(text, out, x, dim=0, start=None, end=None, step=1):
    axis = axis_of(dim, x.rank)
    start = _bound(start or 0, x.shape[axis])
    if same_shape(out.shape, x.shape):
        return x
    indices = _indices(x.rank)
    indices[axis] = _affine(text, indices[axis], step, start)
    return moved(text, x, out.shape, indices)


def _affine(text, index, step, start):
    scaled = index if step == 1 else f"{text.size(step)} * {index}"
    return scaled if isinstance(start, int) and start == 0 else f"{scaled} + {text.size(start)}"


def select(text, out, x, dim, index):
    axis = axis_of(dim, x.rank)
    if isinstance(index, int) and index < 0:
        index = x.shape[axis] + index
    indices = _indices(x.rank - 1)
    indices.insert(axis, text.size(index))
    return moved(text, x, out.shape, indices)


def concat(text, out, tensors, dim=0):
    kept = [t for t in tensors if not (t.rank == 1 and len(out.shape) != 1)]
    kept = [t for t in kept if not same(t.shape[axis_of(dim, t.rank)], 0)]
    if len(kept) == 1:
        return kept[0]
    if any(kind_of(t.dtype) != kind_of(out.dtype) for t in kept):
        raise NotTaken("a join of several types")
    names = ", ".join(text.tensor(t).text for t in kept)
    axis = axis_of(dim, len(out.shape))
    return text.fresh(f"concat({names}, axis={axis})", out.shape, out.dtype, exact=all(t.exact for t in kept))


class _Shape:
    """Shape and type of a result that is a part of a call's."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(shape), dtype


def stack(text, out, tensors, dim=0):
    axis = axis_of(dim, len(out.shape))
    shape = list(out.shape)
    shape[axis] = 1
    parts = [reshape(text, _Shape(shape, t.dtype), t) for t in tensors]
    return concat(text, out, parts, axis)


def split(text, out, x, size_or_sizes, dim=0):
    """As many parts as the graph's node has values, each made where it is taken."""
    axis = axis_of(dim, x.rank)
    lengths = [part_.shape[axis] for part_ in out]
    starts = [0]
    for length in lengths[:-1]:
        starts.append(starts[-1] + length)
    return [lambda p=p, s=s: part(text, p, x, axis, s) for p, s in zip(out, starts, strict=True)]


def unbind(text, out, x, dim=0):
    return [lambda p=p, k=k: select(text, p, x, dim, k) for k, p in enumerate(out)]


def flip(text, out, x, dims):
    indices = _indices(x.rank)
    for dim in dims:
        axis = axis_of(dim, x.rank)
        indices[axis] = f"{text.size(x.shape[axis])} - 1 - {indices[axis]}"
    return moved(text, x, out.shape, indices)


def roll(text, out, x, shifts, dims=()):
    if not dims:
        raise NotTaken("of all axes as one")
    indices = _indices(x.rank)
    for shift, dim in zip(_list(shifts), _list(dims), strict=True):
        axis = axis_of(dim, x.rank)
        size = x.shape[axis]
        indices[axis] = f"({indices[axis]} + {text.size(-shift % size)}) % {text.size(size)}"
    return moved(text, x, out.shape, indices)


def _list(value):
    return list(value) if isinstance(value, list | tuple) else [value]


def repeat(text, out, x, repeats):
    missing = len(out.shape) - x.rank
    indices = [f"i{k + missing} % {text.size(size)}" for k, size in enumerate(x.shape)]
    return moved(text, x, out.shape, indices)


def padded(text, out, x, pads, value=0):
    """constant_pad_nd: pairs from the last axis on."""
    if x.number is not None:
        raise NotTaken("of a number")
    indices = _indices(x.rank)
    for k in range(len(pads) // 2):
        axis = x.rank - 1 - k
        indices[axis] = f"{indices[axis]} - {text.size(pads[2 * k])}"
    expr = _read(x, indices, text.literal(value, x.dtype))
    return text.notation(_indices(x.rank), out.shape, expr, x.dtype)


def slice_scatter(text, out, x, source, dim=0, start=None, end=None, step=1):
    axis = axis_of(dim, x.rank)
    if step != 1:
        raise NotTaken("a step")
    start = _bound(start or 0, x.shape[axis])
    x, source = text.tensor(x), text.tensor(source)
    indices = _indices(x.rank)
    index, begin, end = indices[axis], text.size(start), text.size(start + source.shape[axis])
    inner = [*indices]
    inner[axis] = f"{index} - {begin}"
    expr = f"where({index} >= {begin} and {index} < {end}, {_read(source, inner, 0)}, {_read(x, indices)})"
    return text.notation(indices, out.shape, expr, x.dtype)


def select_scatter(text, out, x, source, dim, index):
    axis = axis_of(dim, x.rank)
    index = index + x.shape[axis] if isinstance(index, int) and index < 0 else index
    x, source = text.tensor(x), text.tensor(source)
    indices = _indices(x.rank)
    inner = indices[:axis] + indices[axis + 1:]
    expr = f"where({indices[axis]} == {text.size(index)}, {_read(source, inner)}, {_read(x, indices)})"
    return text.notation(indices, out.shape, expr, x.dtype)


def triangle(compare):
    def row(text, out, x, diagonal=0):
        x = text.tensor(x)
        indices = _indices(x.rank)
        condition = f"{indices[-1]} - {indices[-2]} {compare} {text.size(diagonal)}"
        expr = f"where({condition}, {_read(x, indices)}, {text.literal(0, x.dtype)})"
        return text.notation(indices, out.shape, expr, x.dtype, exact=x.exact)
    return row


def diagonal(text, out, x, offset=0, dim1=0, dim2=1):
    a, b = axis_of(dim1, x.rank), axis_of(dim2, x.rank)
    indices = _indices(x.rank - 2)
    last = f"i{x.rank - 2}"
    for axis, shift in sorted(((a, max(-offset, 0)), (b, max(offset, 0)))):
        indices.insert(axis, f"{last} + {shift}")
    return moved(text, x, out.shape, indices)


# ---- Indexing by data ----

def _wrapped(text, index, size):
    """An index that may count from the end."""
    return f"where({index} < 0, {index} + {text.size(size)}, {index})"


def gather(text, out, x, dim, index, **_):
    x, index = text.tensor(x), text.tensor(index)
    if not x.rank or not index.rank:
        raise NotTaken("without axes")
    indices = _indices(x.rank)
    read = list(indices)
    read[axis_of(dim, x.rank)] = _read(index, indices)
    return text.notation(indices, out.shape, _read(x, read), x.dtype, exact=x.exact)


def embedding(text, out, weight, index, padding_idx=-1, *_):
    index = text.tensor(index)
    indices = _indices(len(out.shape))
    expr = _read(weight, [_read(index, indices[:-1]), indices[-1]])
    return text.notation(indices, out.shape, expr, weight.dtype, exact=weight.exact)


def index_select(text, out, x, dim, index):
    x, index = text.tensor(x), text.tensor(index)
    if not x.rank:
        return x
    axis = axis_of(dim, x.rank)
    indices = _indices(x.rank)
    read = list(indices)
    read[axis] = _read(index, [indices[axis]] if index.rank else [])
    return text.notation(indices, out.shape, _read(x, read), x.dtype, exact=x.exact)


def index_tensor(text, out, x, parts):
    """x[I, J, :]: indices of integers for leading or neighbouring axes, which broadcast to one block of axes."""
    x = text.tensor(x)
    taken = [k for k, p in enumerate(parts) if p is not None]
    if not taken or taken != list(range(taken[0], taken[-1] + 1)) or any(kind_of(parts[k].dtype) != 1 for k in taken):
        raise NotTaken("by truth values, or by axes that are no neighbours")
    block = max(parts[k].rank for k in taken)
    indices = _indices(len(out.shape))
    before, own = indices[:taken[0]], indices[taken[0]:taken[0] + block]
    read = list(before)
    for k in taken:
        read.append(_wrapped(text, _broadcast_read(text.tensor(parts[k]), own), x.shape[k]))
    read += indices[taken[0] + block:]
    return text.notation(indices, out.shape, _read(x, read), x.dtype, exact=x.exact)


def _broadcast_read(index, own):
    own = own[len(own) - index.rank:]
    return _read(index, ["0" if same(size, 1) else name for name, size in zip(own, index.shape, strict=True)])


# ---- Tensors made of numbers ----

def full(text, out, shape, number, **_):
    return Value("", out.shape, out.dtype, number=number_of(number, out.dtype))


def full_like(text, out, x, number, **_):
    return Value("", out.shape, out.dtype, number=number_of(number, out.dtype))


def new_full(text, out, x, shape, number, **_):
    return Value("", out.shape, out.dtype, number=number_of(number, out.dtype))


def of_number(number):
    return lambda text, out, *args, **kwargs: Value("", out.shape, out.dtype, number=number)


def scalar_tensor(text, out, number, **_):
    return Value("", out.shape, out.dtype, number=number_of(number, out.dtype))


def count(text, out, start, step):
    """start, start + step, ... along one axis."""
    dtype = out.dtype
    computed = TYPES[torch.int64 if kind_of(dtype) == 1 else torch.float64 if dtype == torch.float64 else torch.float32]
    expr = f"iota({text.dims(out.shape)}, dtype={computed})"
    wide = torch.int64 if kind_of(dtype) == 1 else torch.float32
    if not (isinstance(step, int | float) and step == 1):
        expr = f"{expr} * {text.literal(step, wide)}"
    if not (isinstance(start, int | float) and start == 0):
        expr = f"{expr} + {text.literal(start, wide)}"
    if TYPES[dtype] != computed:
        expr = f"cast({expr}, dtype={TYPES[dtype]})"
    return text.fresh(expr, out.shape, dtype, exact=True)


def iota(text, out, length, start=0, step=1, **_):
    return count(text, out, start, step)


def arange(text, out, *args, **kwargs):
    numbers = list(args)
    start = 0 if len(numbers) == 1 else numbers[0]
    return count(text, out, start, numbers[2] if len(numbers) > 2 else kwargs.get("step", 1))


def nearest(text, out, x, size=None, *scales, scale_factors=None, **named):
    """Upsampling where each axis is longer by a whole factor; `scales` are what the caller asked for, one for each axis."""
    scales = list(scales) + list(named.values()) if scale_factors is None else [scale_factors]
    scales = scales[0] if len(scales) == 1 and isinstance(scales[0], list | tuple) else scales
    scales = scales or [None] * (x.rank - 2)
    indices = _indices(x.rank)
    for axis in range(2, x.rank):
        a, b = out.shape[axis], x.shape[axis]
        if isinstance(a, int) and isinstance(b, int) and a % b:
            raise NotTaken("a factor that is not whole")
        if not isinstance(a, int) or not isinstance(b, int):
            raise NotTaken("a factor of symbolic sizes")
        if not _divides(a, b, scales[axis - 2], x.dtype):
            raise NotTaken("a factor that is not what the sizes say")
        indices[axis] = f"i{axis} // {a // b}"
    return moved(text, x, out.shape, indices)


def _divides(length, size, scale, dtype):
    """Whether torch reads the elements i // (length // size) of an axis: it multiplies i by a rounded quotient."""
    if scale is not None and not isinstance(scale, int | float):
        return False
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    step = torch.tensor(1 / scale if scale else size / length, dtype=wide)
    places = torch.arange(length)
    return torch.equal((places.to(wide) * step).floor().long().clamp(max=size - 1), places // (length // size))


def reflected(text, out, x, pads):
    """reflection_pad: pairs from the last axis on."""
    indices = _indices(x.rank)
    for k in range(len(pads) // 2):
        axis = x.rank - 1 - k
        size = text.size(x.shape[axis])
        away = f"({indices[axis]} - {text.size(pads[2 * k])})"
        indices[axis] = f"min(max({away}, -{away}), 2 * ({size} - 1) - max({away}, -{away}))"
    read = _read(x, indices, text.literal(0, x.dtype))  # inside always, which the compiler does not see
    return text.notation(_indices(x.rank), out.shape, read, x.dtype, exact=x.exact)


def pixel_shuffle(text, out, x, factor):
    c, h, w = f"i1 * {factor * factor} + i2 % {factor} * {factor} + i3 % {factor}", f"i2 // {factor}", f"i3 // {factor}"
    if x.rank != 4:
        raise NotTaken("of other ranks")
    return moved(text, x, out.shape, ["i0", c, h, w])


ROWS = {
    "view.default _unsafe_view reshape squeeze unsqueeze flatten": reshape,
    "expand broadcast_to": expand,
    "permute": permute,
    "transpose.int": transpose,
    "t": transpose_matrix,
    "slice.Tensor": part,
    "select.int": select,
    "cat": concat,
    "stack": stack,
    "split.Tensor split_with_sizes split_with_sizes_copy chunk": split,
    "unbind.int": unbind,
    "flip": flip,
    "roll": roll,
    "repeat": repeat,
    "constant_pad_nd": padded,
    "slice_scatter": slice_scatter,
    "select_scatter": select_scatter,
    "tril": triangle("<="),
    "triu": triangle(">="),
    "diagonal": diagonal,
    "gather": gather,
    "embedding": embedding,
    "index_select": index_select,
    "index.Tensor _unsafe_index.Tensor": index_tensor,
    "full": full,
    "full_like": full_like,
    "new_full": new_full,
    "zeros zeros_like new_zeros": of_number(0),
    "ones ones_like new_ones": of_number(1),
    "scalar_tensor": scalar_tensor,
    "arange.default arange.start arange.start_step": arange,
    "prims.iota": iota,
    "upsample_nearest2d.default upsample_nearest2d.vec upsample_nearest1d.default": nearest,
    "reflection_pad1d reflection_pad2d reflection_pad3d": reflected,
    "pixel_shuffle": pixel_shuffle,
}


def size_number(size):
    """A size as a plain number where it is one."""
    return size if isinstance(size, int) else expression(size)


__all__ = ["ROWS", "moved", "product", "reshape"]
