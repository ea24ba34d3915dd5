"""Rows of the table that write where numbers in a tensor say, and that sort. The language writes each element once, so an element of the
result looks for its writers: one comparison for each place. Where there are many places, torch's kernels, which go the other way, are left."""
import torch

from .importer_folds import with_nan_largest
from .importer_text import NotTaken, Value, axis_of, kind_of, same
from .importer_views import _broadcast_read, _indices, _read, _wrapped, gather

PLACES = 8         # that are compared with one by one
LOOKS = 1 << 24    # comparisons of one operation whose places are summed over
SORTED = 1024      # of one line


def _element(text, value, indices, dtype):
    """An element of a tensor, or a number, as one of this type."""
    if not isinstance(value, Value):
        return text.literal(value, dtype)
    if value.number is not None:
        return text.literal(value.number, dtype)
    if kind_of(value.dtype) != kind_of(dtype):
        raise NotTaken("a source of another type")
    return _read(value, indices)


def _whole_number(size, what):
    if not isinstance(size, int):
        raise NotTaken(f"{what} that is a symbol")
    return size


def _one_by_one(text, x, indices, number, place, source, add):
    """x's element behind the writers k = 0, 1, ...: the last one at this place counts, or all of them are added."""
    value = _element(text, x, indices, x.dtype)
    for k in range(number):
        value = f"{value} + where({place(k)}, {source(k)}, 0)" if add else f"where({place(k)}, {source(k)}, {value})"
    return value


# ---- scatter ----

def _along(text, x, dim, index):
    """The axis and the number of places of a line; other axes are written whole."""
    axis = axis_of(dim, x.rank)
    if not x.rank or index.rank != x.rank or any(not same(a, b) for k, (a, b) in enumerate(zip(index.shape, x.shape, strict=True)) if k != axis):
        raise NotTaken("into a part of the lines")
    return axis, _whole_number(index.shape[axis], "a number of places")


def _scattered(add):
    """Of places that name one element twice the last one counts, as in torch on a processor; elsewhere torch leaves it open."""
    def row(text, out, x, dim, index, source, **_):
        axis, number = _along(text, x, dim, index)
        index, indices = text.tensor(index), _indices(x.rank)

        def at(k):
            return [*indices[:axis], str(k), *indices[axis + 1:]]
        if number <= PLACES:
            expr = _one_by_one(text, x, indices, number, lambda k: f"{_read(index, at(k))} == {indices[axis]}",
                               lambda k: _element(text, source, at(k), x.dtype), add)
        elif add and _looks(out.shape, number) <= LOOKS:
            found = f"where({_read(index, at('k'))} == {indices[axis]}, {_element(text, source, at('k'), x.dtype)}, 0)"
            expr = f"{_element(text, x, indices, x.dtype)} + sum(k in 0:{number}, {found})"
        else:
            raise NotTaken(f"to {number} places a line: each element would look at all of them")
        return text.notation(indices, out.shape, expr, x.dtype)
    return row


def _looks(shape, number):
    for size in shape:
        number *= _whole_number(size, "a shape")
    return number


def index_put(text, out, x, parts, values, accumulate=False, *_):
    """x[:, i] = v for few whole numbers i along one axis."""
    taken = [k for k, p in enumerate(parts) if p is not None]
    if len(taken) != 1 or parts[taken[0]].rank > 1 or kind_of(parts[taken[0]].dtype) != 1 or parts[taken[0]].dtype == torch.uint8:
        raise NotTaken("by truth values, or along several axes")
    axis, index = taken[0], text.tensor(parts[taken[0]])
    number = _whole_number(index.shape[0], "a number of places") if index.rank else 1
    if number > PLACES:
        raise NotTaken(f"to {number} places: each element would look at all of them")
    indices = _indices(x.rank)

    def source(k):
        own = [*indices[:axis], *([str(k)] if index.rank else []), *indices[axis + 1:]]
        if not isinstance(values, Value) or values.number is not None:
            return _element(text, values, own, x.dtype)
        return _broadcast_read(values, own)

    def place(k):
        return f"{_wrapped(text, _read(index, [str(k)]), x.shape[axis])} == {indices[axis]}"
    if isinstance(values, Value) and kind_of(values.dtype) != kind_of(x.dtype):
        raise NotTaken("a source of another type")
    return text.notation(indices, out.shape, _one_by_one(text, x, indices, number, place, source, accumulate), x.dtype)


def embedding_gradient(text, out, grad, index, words, padding, by_frequency):
    """Rows of the gradient, summed by the word that they belong to."""
    index = text.tensor(index)
    if by_frequency or not index.rank:
        raise NotTaken("scaled by frequency, or of one word")
    if _looks([*out.shape, *index.shape[1:]], _whole_number(index.shape[0], "a shape")) > LOOKS:
        raise NotTaken("sums by the word over many words: each row would look at all of them")
    names = [f"n{k}" for k in range(index.rank)]
    ranges = ", ".join(f"{name} in 0:{text.size(size)}" for name, size in zip(names, index.shape, strict=True))
    wanted = f"{_read(index, names)} == i0" + (f" and i0 != {padding}" if isinstance(padding, int) and padding >= 0 else "")
    return text.notation(["i0", "i1"], out.shape, f"sum({ranges}, where({wanted}, {_element(text, grad, [*names, 'i1'], out.dtype)}, 0))", out.dtype)


# ---- sort ----

def sort(text, out, x, dim=-1, descending=False, **_):
    """As topk of the whole line, which keeps the order of equal elements; in ascending order that of keys that fall as the elements rise."""
    if not x.rank:
        raise NotTaken("without axes")
    axis = axis_of(dim, x.rank)
    number = _whole_number(x.shape[axis], "an axis")
    if number > SORTED or kind_of(x.dtype) == 0 or x.dtype.itemsize == 8 and kind_of(x.dtype) == 2:
        raise NotTaken("of a long axis, of truth values, or of doubles, among which NaN is the largest")
    x = text.tensor(x)
    values, places = f"T{len(text.lines)}", f"T{len(text.lines)}i"
    text._line(f"{values}, {places} = topk({_falling(x, descending)}, {number}, axis={axis})")
    index = Value(places, out[1].shape, out[1].dtype)
    return [lambda: gather(text, out[0], x, axis, index), lambda: index]


def _falling(x, descending):
    if descending:
        return with_nan_largest(x)
    if kind_of(x.dtype) != 2:
        return f"~{x.text}"
    return f"where({x.text} != {x.text}, -inf, max(-cast({x.text}, dtype=f64), -1e300))"


ROWS = {
    "scatter.src scatter.value": _scattered(False),
    "scatter_add": _scattered(True),
    "index_put": index_put,
    "embedding_dense_backward": embedding_gradient,
    "sort.default": sort,
    "sort.stable": lambda text, out, x, *, stable=None, dim=-1, descending=False: sort(text, out, x, dim, descending),
}

__all__ = ["ROWS"]
