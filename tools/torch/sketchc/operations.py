"""The table of operations: one row for each overload of ATen that becomes text, with its meaning.

A row of `MAPS` is a template, lane by lane: {0}, {1} are the operands, other names the call's arguments (their defaults stand in the
row). A row of `ROWS` is a function of (text, node's value, arguments). What has no row, or whose row raises NotTaken, goes to the
nested backend."""
import torch

from . import importer_folds, importer_views, importer_windows, importer_writes
from .importer_text import NARROW, TYPES, NotTaken, Value, kind_of, number_of

NUMBERS = (Value, int, float, bool, torch.SymInt, torch.SymFloat)
EIGHT = (torch.float8_e4m3fn, torch.float8_e5m2)
OUT, JOIN = "the result's type", "the join of the operands' types"


class Map:
    """An operation lane by lane. `names` are the arguments in ATen's order, operands first; `operands` says how many are operands;
    `computed` the type in which it is computed."""

    def __init__(self, template, names="x", computed=OUT, floats=False, **defaults):
        self.template, self.names, self.computed, self.floats, self.defaults = template, names.split(), computed, floats, defaults

    def __call__(self, text, out, *args, **kwargs):
        named = self._named(args, kwargs)
        dtype = self._type(named.values(), out.dtype)
        if self.floats and kind_of(dtype) != 2:
            raise NotTaken("of integers")
        if not any(isinstance(v, Value) and v.number is None for v in named.values()):
            first = next(n for n, v in named.items() if isinstance(v, Value))
            named[first] = text.tensor(named[first])
        template = self.template(named) if callable(self.template) else self.template
        expr = template.format(**{n: text.operand(v, dtype, rounded=self.computed == JOIN) for n, v in named.items() if isinstance(v, NUMBERS)})
        return text.shaped(expr, named.values(), out.shape, out.dtype)

    def _named(self, args, kwargs):
        named = dict(self.defaults)
        named.update(zip(self.names, args, strict=False))
        named.update((k, v) for k, v in kwargs.items() if k in named or k in self.names)
        return named

    def _type(self, values, out):
        if self.computed == OUT:
            return out
        return joined([v for v in values if isinstance(v, NUMBERS)])


def joined(values):
    """torch's type of an operation on one or two of these, by its rules for tensors with axes, tensors without, and numbers."""
    samples = [torch.empty((1,) * min(v.rank, 1), dtype=v.dtype) if isinstance(v, Value) else v for v in values]
    return samples[0].dtype if len(samples) == 1 else torch.result_type(*samples)


def _with_alpha(plain, scaled):
    return lambda named: plain if named.get("alpha", 1) == 1 else scaled


def _power(named):
    known = {2: "{a} * {a}", 3: "{a} * {a} * {a}", 1: "{a}", 0.5: "sqrt({a})", -0.5: "rsqrt({a})", -1: "1 / {a}"}
    b = named["b"]
    if isinstance(b, Value):
        if all(not isinstance(x, Value) or kind_of(x.dtype) != 2 for x in (named["a"], b)):
            raise NotTaken("a power of integers")  # computed by floats
        return "{a} ** {b}"
    if b in known and (isinstance(named["a"], Value) and (kind_of(named["a"].dtype) == 2 or b in (1, 2, 3))):
        return known[b]
    if kind_of(named["a"].dtype) != 2:
        raise NotTaken("a power of integers")
    return "{a} ** {b}"


def _gelu(named):
    return "gelu_tanh({x})" if named.get("approximate") == "tanh" else "gelu({x})"


def _clamp(named):
    low, high = named.get("low"), named.get("high")
    if low is None:
        return "min({x}, {high})"
    return "max({x}, {low})" if high is None else "min(max({x}, {low}), {high})"


def _quotient(named):
    mode = named.get("rounding_mode")
    whole = all(not isinstance(v, Value) or kind_of(v.dtype) != 2 for v in named.values())
    if mode == "floor":
        return _whole("{a} // {b}")(named)
    if mode == "trunc" and not whole:
        return "trunc({a} / {b})"
    if mode is None:
        return "{a} / {b}"
    raise NotTaken("a quotient of integers that is cut off")


def _whole(template):
    """An operation of integers alone: torch finds it from a remainder of floats that is exact, which the language has not."""
    def chosen(named):
        if any(isinstance(v, float | torch.SymFloat) or (isinstance(v, Value) and kind_of(v.dtype) == 2) for v in named.values()):
            raise NotTaken("an exact remainder of floats")
        return template
    return chosen


def _lerp(named):
    """From the end that is nearer, as torch's."""
    near, far = "{a} + {w} * ({b} - {a})", "{b} - ({b} - {a}) * (1 - {w})"
    if isinstance(named["w"], int | float):
        return near if abs(named["w"]) < 0.5 else far
    return f"where(abs({{w}}) < 0.5, {near}, {far})"


def _sign(named):
    return "where({x} != {x}, 0, sign({x}))" if kind_of(named["x"].dtype) == 2 else "sign({x})"


def _softplus(named):
    beta, threshold = named["beta"], named["threshold"]
    scaled = "{x}" if beta == 1 else "({x} * {beta})"
    whole = f"softplus({scaled})" if beta == 1 else f"softplus({scaled}) / {{beta}}"
    return whole if threshold >= 20 else f"where({scaled} > {{threshold}}, {{x}}, {whole})"


def _elu(named):
    if named["scale"] == 1 and named["input_scale"] == 1:
        return "max({x}, 0) + {alpha} * expm1(min({x}, 0))"
    return "{scale} * (max({x}, 0) + {alpha} * expm1(min({x}, 0) * {input_scale}))"


def _truth(template):
    return Map(template, "a b", JOIN)


_MAPS = {
    "add": Map(_with_alpha("{a} + {b}", "{a} + {alpha} * {b}"), "a b", alpha=1),
    "sub": Map(_with_alpha("{a} - {b}", "{a} - {alpha} * {b}"), "a b", alpha=1),
    "rsub": Map(_with_alpha("{b} - {a}", "{b} - {alpha} * {a}"), "a b alpha", alpha=1),
    "mul": Map("{a} * {b}", "a b"),
    "div.Tensor div.Scalar true_divide": Map("{a} / {b}", "a b"),
    "div.Tensor_mode div.Scalar_mode": Map(_quotient, "a b", rounding_mode=None),
    "floor_divide": Map(_whole("{a} // {b}"), "a b"),
    "remainder": Map(_whole("{a} % {b}"), "a b"),
    "pow.Tensor_Scalar pow.Tensor_Tensor": Map(_power, "a b"),
    "pow.Scalar": Map("{a} ** {b}", "a b", floats=True),
    "maximum": Map("max({a}, {b})", "a b"),
    "minimum": Map("min({a}, {b})", "a b"),
    "fmax": Map("maxnum({a}, {b})", "a b"),
    "fmin": Map("minnum({a}, {b})", "a b"),
    "clamp": Map(_clamp, "x low high"),
    "clamp_min": Map("max({x}, {low})", "x low"),
    "clamp_max": Map("min({x}, {high})", "x high"),
    "addcmul": Map("{a} + {value} * {b} * {c}", "a b c", value=1),
    "addcdiv": Map("{a} + {value} * {b} / {c}", "a b c", value=1, floats=True),
    "lerp": Map(_lerp, "a b w", floats=True),
    "abs": Map("abs({x})"),
    "neg": Map("-{x}"),
    "sign sgn": Map(_sign),
    "square": Map("{x} * {x}"),
    "reciprocal": Map("1 / {x}"),
    "exp": Map("exp({x})"),
    "exp2": Map("exp2({x})"),
    "expm1": Map("expm1({x})"),
    "log": Map("log({x})"),
    "log2": Map("log2({x})"),
    "log10": Map("log({x}) * 0.43429448190325183"),
    "log1p": Map("log1p({x})"),
    "sqrt": Map("sqrt({x})"),
    "rsqrt": Map("rsqrt({x})"),
    "sin": Map("sin({x})"),
    "cos": Map("cos({x})"),
    "tan": Map("tan({x})"),
    "atan": Map("atan({x})"),
    "sinh": Map("sinh({x})"),
    "cosh": Map("cosh({x})"),
    "tanh": Map("tanh({x})"),
    "erf": Map("erf({x})"),
    "floor": Map("floor({x})"),
    "ceil": Map("ceiling({x})"),
    "round.default": Map("round({x})"),
    "trunc": Map("trunc({x})"),
    "frac": Map("{x} - trunc({x})"),
    "sigmoid": Map("sigmoid({x})"),
    "log_sigmoid": Map("log_sigmoid({x})"),
    "relu": Map("relu({x})"),
    "leaky_relu": Map("max({x}, 0) + {slope} * min({x}, 0)", "x slope", slope=0.01),
    "elu": Map(_elu, "x alpha scale input_scale", alpha=1.0, scale=1.0, input_scale=1.0),
    "gelu": Map(_gelu, "x", approximate="none"),
    "silu": Map("silu({x})"),
    "mish": Map("mish({x})"),
    "softplus": Map(_softplus, "x beta threshold", beta=1, threshold=20),
    "hardsigmoid": Map("hard_sigmoid({x})"),
    "hardswish": Map("hard_swish({x})"),
    "hardtanh": Map("min(max({x}, {low}), {high})", "x low high", low=-1.0, high=1.0),
    "threshold": Map("where({x} <= {limit}, {value}, {x})", "x limit value"),
    "threshold_backward": Map("where({x} <= {limit}, 0, {grad})", "grad x limit"),
    "sigmoid_backward": Map("{grad} * {y} * (1 - {y})", "grad y"),
    "tanh_backward": Map("{grad} * (1 - {y} * {y})", "grad y"),
    "logaddexp": Map("logaddexp({a}, {b})", "a b"),
    "eq": _truth("{a} == {b}"),
    "ne": _truth("{a} != {b}"),
    "lt": _truth("{a} < {b}"),
    "le": _truth("{a} <= {b}"),
    "gt": _truth("{a} > {b}"),
    "ge": _truth("{a} >= {b}"),
    "isnan": Map("{x} != {x}", "x", JOIN),
    "isinf": Map("abs({x}) == inf", "x", JOIN, floats=True),
    "bitwise_and": Map("{a} & {b}", "a b"),
    "bitwise_or": Map("{a} | {b}", "a b"),
    "bitwise_xor": Map("{a} ^ {b}", "a b"),
    "bitwise_not": Map("~{x}", "x"),
    "logical_and": Map("{a} and {b}", "a b"),
    "logical_or": Map("{a} or {b}", "a b"),
    "logical_xor": Map("{a} ^ {b}", "a b"),
    "logical_not": Map("not {x}", "x"),
}


def where(text, out, condition, a, b):
    if kind_of(condition.dtype) != 0:
        raise NotTaken("a condition that is no truth value")
    if condition.number is not None:
        condition = text.tensor(condition)
    expr = f"where({condition.text}, {text.operand(a, out.dtype)}, {text.operand(b, out.dtype)})"
    return text.shaped(_typed(expr, a, b, out), [condition, a, b], out.shape, out.dtype)


def _typed(expr, a, b, out):
    """Two numbers have no type of their own."""
    numbers = [not isinstance(v, Value) or v.number is not None for v in (a, b)]
    return f"cast({expr}, dtype={TYPES[out.dtype]})" if all(numbers) else expr


def nan_to_num(text, out, x, nan=None, posinf=None, neginf=None):
    limits = torch.finfo(x.dtype) if kind_of(x.dtype) == 2 else None
    if limits is None:
        return x
    literal = [text.literal(v, x.dtype) for v in (nan or 0.0, limits.max if posinf is None else posinf,
                                                  limits.min if neginf is None else neginf)]
    expr = "where({0} != {0}, {1}, where({0} == inf, {2}, where({0} == -inf, {3}, {0})))".format(x.text, *literal)
    return text.fresh(expr, x.shape, x.dtype)


def same_value(text, out, x, *args, **kwargs):
    return x


def converted(text, out, x, *args, **kwargs):
    if out.dtype in EIGHT and x.dtype != out.dtype:
        raise NotTaken("to 8 bits, which torch's versions round beyond the range in several ways")
    if x.number is not None:
        return Value("", out.shape, out.dtype, number=number_of(x.number, x.dtype, out.dtype))
    return x if x.dtype == out.dtype and (x.exact or x.dtype not in NARROW) else text.cast(x, out.dtype)


_FUNCTIONS = {
    "where.self where.ScalarOther where.ScalarSelf": where,
    "nan_to_num": nan_to_num,
    "clone alias detach lift_fresh_copy lift_fresh": same_value,
    "_to_copy to prims.convert_element_type": converted,
}


def _overloads():
    """All rows by the name of an overload, `aten.add.Tensor`: a name without an overload stands for all of them, one without a library is
    ATen's."""
    table = {}
    for source in (_MAPS, _FUNCTIONS, importer_views.ROWS, importer_folds.ROWS, importer_windows.ROWS, importer_writes.ROWS):
        for names, row in source.items():
            for name in names.split():
                table[name if name.startswith("prims.") else f"aten.{name}"] = row
    return table


ROWS = _overloads()


def row_of(target):
    """The row of an overload, or None."""
    name = str(target)
    return ROWS.get(name) or ROWS.get(name.rsplit(".", 1)[0])
