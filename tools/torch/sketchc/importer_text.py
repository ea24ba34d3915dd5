"""Text of an operator, grown equation by equation: names, sizes, literals and types.

A row of the table (operations.py) sees an `OperatorText` and `Value`s. Sizes are whole numbers or torch's SymInts, with which rows
calculate as with numbers and which become text here alone."""
import math

import torch

TYPES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2", torch.int64: "i64", torch.int32: "i32", torch.int16: "i16",
    torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
}
NARROW = (torch.float16, torch.bfloat16)


class NotTaken(Exception):
    """A row says that it cannot write this call, and why; the node goes to the nested backend."""


def kind_of(dtype):
    """0 for truth values, 1 for integers, 2 for floats: what torch calls the category of a type."""
    return 0 if dtype == torch.bool else 2 if dtype.is_floating_point else 1


def number_of(number, *dtypes):
    """A number as torch holds it in the last of these types, after the others; symbols stay."""
    if isinstance(number, torch.SymInt | torch.SymFloat):
        return number
    held = torch.tensor(number, dtype=torch.float64 if isinstance(number, float) else torch.int64)
    for dtype in dtypes:
        held = held.to(dtype)
    return held.item()


def expression(size):
    """What a size is, for comparisons that must not guard: a number, or sympy's expression of a SymInt or SymFloat."""
    return size.node.expr if isinstance(size, torch.SymInt | torch.SymFloat) else size


def hint_of(size):
    """What a size is in the call that is compiled: None where torch does not know."""
    return size.node.hint if isinstance(size, torch.SymInt) else size


def same(a, b):
    return expression(a) == expression(b)


def same_shape(a, b):
    return len(a) == len(b) and all(map(same, a, b))


def product(sizes):
    result = 1
    for size in sizes:
        result = result * size
    return result


def axis_of(dim, rank):
    return dim + rank if dim < 0 else dim


class Value:
    """A tensor of the graph: its name in the text, shape and torch's type. `number` is set if all its elements are this number;
    `exact` says that the text's type is torch's, and not f32 in place of a narrower float."""

    def __init__(self, text, shape, dtype, number=None, exact=False):
        self.text, self.shape, self.dtype, self.number, self.exact = text, tuple(shape), dtype, number, exact

    @property
    def rank(self):
        return len(self.shape)


class OperatorText:
    """The equations of one operator. `values` maps the graph's nodes to what they became."""

    def __init__(self):
        self.lines, self.origins, self.values, self.symbols, self.node = [], [], {}, {}, None

    # ---- Sizes and literals ----

    def size(self, size):
        """A size as text; `2*s0 + 1` keeps its parentheses where it stands in a product."""
        if isinstance(size, int):
            return str(size)
        return _SizePrinter(self.symbols).text(expression(size))

    def dims(self, shape):
        return "[" + ", ".join(map(self.size, shape)) + "]"

    def literal(self, number, dtype):
        """A number as an element of this type."""
        if isinstance(number, torch.SymInt | torch.SymFloat):
            return f"({self.size(number)})"
        if dtype == torch.bool:
            return "true" if number else "false"
        if kind_of(dtype) == 1:
            return f"({int(number)})" if number < 0 else str(int(number))
        return _float_text(float(number))

    # ---- Equations ----

    def fresh(self, expr, shape, dtype, exact=False):
        """A new intermediate of this value among whole tensors."""
        name = self._name()
        self._line(f"{name} = {expr}")
        return Value(name, shape, dtype, exact=exact)

    def notation(self, indices, shape, expr, dtype, exact=False):
        """A new intermediate in index notation, one index an axis."""
        name = self._name()
        ranges = ", ".join(f"{index} in 0:{self.size(size)}" for index, size in zip(indices, shape, strict=True))
        self._line(f"{name}[{ranges}] = {expr}" if shape else f"{name} = {expr}")
        return Value(name, shape, dtype, exact=exact)

    def store(self, name, value):
        alone = value.number is not None and not value.rank
        self._line(f"{name} = {self._typed(value) if alone else self.tensor(value).text}")

    def _name(self):
        return f"T{len(self.lines)}"

    def _line(self, line):
        self.lines.append(line)
        self.origins.append(self.node)

    # ---- Values ----

    def tensor(self, value):
        """The value as a tensor of its whole shape, also where it is one number throughout."""
        if value.number is None:
            return value
        return self.notation([f"i{k}" for k in range(value.rank)], value.shape, self._typed(value), value.dtype)

    def _typed(self, value):
        """The number of a value, with its type."""
        literal = self.literal(value.number, value.dtype)
        if kind_of(value.dtype) != 2 or value.dtype == torch.float64:
            literal = f"cast({literal}, dtype={TYPES[value.dtype]})"
        return literal

    def operand(self, value, dtype, rounded=False):
        """Text of a value or number as an operand of an operation that computes in this type; `rounded`: as an element of it, also where
        a narrow float is computed in f32."""
        if not isinstance(value, Value):
            return self.literal(number_of(value, dtype) if rounded and dtype in NARROW else value, dtype)
        if dtype in NARROW and not rounded and not value.rank:
            dtype = torch.float32  # of torch's kernels too: a tensor without axes is one of their numbers
        if value.number is not None:
            return self.literal(value.number if value.dtype == dtype else number_of(value.number, value.dtype, dtype), dtype)
        return f"cast({value.text}, dtype={TYPES[dtype]})" if _differs(value.dtype, dtype, rounded) else value.text

    def factor(self, value):
        """A factor of a product, whose two factors must have one type."""
        value = self.tensor(value)
        return value if value.exact or value.dtype not in NARROW else self.cast(value, value.dtype)

    def cast(self, value, dtype):
        return self.fresh(f"cast({value.text}, dtype={TYPES[dtype]})", value.shape, dtype, exact=True)

    def shaped(self, expr, operands, shape, dtype):
        """The result of an operation lane by lane. Where its operands do not reach the whole shape it is broadcast."""
        shapes = [v.shape for v in operands if isinstance(v, Value) and v.number is None]
        if not shapes:
            raise NotTaken("no operand is a tensor")
        if not same_shape(torch_broadcast(shapes), shape):
            expr = f"broadcast({expr}, {self.dims(shape)})"
        return self.fresh(expr, shape, dtype)


def _differs(given, dtype, rounded):
    """Whether an operand of a type is to be cast to the other: the language joins floats itself, to the wider one."""
    if given == dtype:
        return False
    return rounded or kind_of(given) != 2 or kind_of(dtype) != 2 or given == torch.float64


def torch_broadcast(shapes):
    """The shape that these broadcast to, without a guard."""
    result = [1] * max(map(len, shapes))
    for shape in shapes:
        for k, size in enumerate(reversed(shape), 1):
            if not same(size, 1):
                result[-k] = size
    return result


def of_tensors(rows):
    """Rows whose operands are tensors, also those that are one number throughout."""
    def held(row):
        def made(text, out, *args, **kwargs):
            whole = [text.tensor(v) if isinstance(v, Value) else v for v in args]
            return row(text, out, *whole, **kwargs)
        return made
    return {names: held(row) for names, row in rows.items()}


def _float_text(number):
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "(-inf)"
    return f"({number!r})" if number < 0 or math.copysign(1, number) < 0 else repr(number)


class _SizePrinter:
    """Sympy's expressions of sizes in the language: + - * // % min max."""

    def __init__(self, symbols):
        self.symbols = symbols

    def text(self, expr):
        kind = type(expr).__name__
        if expr.is_Symbol or expr in self.symbols:
            return self.symbols.setdefault(expr, f"S{len(self.symbols)}")
        if expr.is_Integer:
            return str(int(expr)) if expr >= 0 else f"({int(expr)})"
        if expr.is_Add:
            return "(" + " + ".join(map(self.text, expr.args)) + ")"
        if expr.is_Mul:
            return "(" + " * ".join(map(self.text, expr.args)) + ")"
        if expr.is_Pow and expr.args[1].is_Integer and expr.args[1] > 0:
            return "(" + " * ".join([self.text(expr.args[0])] * int(expr.args[1])) + ")"
        if kind in ("FloorDiv", "CleanDiv"):
            return f"({self.text(expr.args[0])} // {self.text(expr.args[1])})"
        if kind in ("FloatTrueDiv", "IntTrueDiv"):
            return f"({self.text(expr.args[0])} / {self.text(expr.args[1])})"
        if kind == "ToFloat":
            return self.text(expr.args[0])
        if expr.is_Float:
            return _float_text(float(expr))
        if kind in ("Mod", "PythonMod"):
            return f"({self.text(expr.args[0])} % {self.text(expr.args[1])})"
        if kind in ("Max", "Min"):
            return f"{kind.lower()}({', '.join(map(self.text, expr.args))})"
        raise NotTaken(f"a size that is {expr}")
