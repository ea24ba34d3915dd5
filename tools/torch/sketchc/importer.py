"""From an FX graph of core ATen operations to the text of one operator.

`import_graph(gm)` gives an `Imported`: the text, and how tensors of the graph become the operator's and back. The operator's tensors
are contiguous; a tensor of the graph whose axes lie in another order in memory (channels_last) is handed over in the order in which
it lies, so nothing is copied."""
import operator
import re

import torch
from torch import fx

from .importer_text import TYPES, NotTaken, OperatorText, Value, expression, hint_of, kind_of
from .operations import row_of


class Binding:
    """A tensor of the graph as one of the operator: `name`, torch's `dtype`, `shape` in the graph, and `order`, the axes in the order
    in which they lie in memory (None: as they are numbered)."""

    def __init__(self, name, fake):
        self.name, self.dtype, self.shape = name, fake.dtype, tuple(fake.shape)
        self.device = fake.device
        self.order = memory_order(fake)

    def held_shape(self):
        return [self.shape[k] for k in self.order] if self.order else list(self.shape)


class Imported:
    """What became of a graph. `inputs` and `outputs` stand in the order of the graph's; an input is a Binding, or the name of a symbol
    (a SymInt), or None (not read); `origins[i]` is the node whose equation stands in line `first_line + i` of `text`; `alone`: the graph returns
    a tensor, not a tuple; `symbols`: the expressions of sizes that are symbols of the text, by name."""

    def __init__(self, name, text, origins, first_line, inputs, outputs, alone, symbols):
        self.name, self.text, self.origins, self.first_line, self.symbols = name, text, origins, first_line, symbols
        self.inputs, self.outputs, self.alone = inputs, outputs, alone

    def place_of(self, symbol):
        """An input and its axis, whose size is this symbol; None where there is none."""
        places = ((k, axis) for k, b in enumerate(self.inputs) if isinstance(b, Binding) for axis, s in enumerate(b.shape)
                  if expression(s) == self.symbols[symbol])
        return next(places, None)

    def node_at(self, line):
        """The node of an equation by its line in the text, counted from 1."""
        k = line - self.first_line
        return self.origins[k] if 0 <= k < len(self.origins) else None


def memory_order(fake):
    """The axes from the longest to the shortest stride where this makes the tensor contiguous, else None: it is copied then."""
    order = _by_stride(fake)
    return order if order != list(range(fake.dim())) and _is_dense(fake, order) else None


def has_gaps(fake):
    """Whether no order of the axes makes this tensor contiguous."""
    return not _is_dense(fake, _by_stride(fake))


def _by_stride(fake):
    strides = [hint_of(s) for s in fake.stride()]
    if None in strides:
        return list(range(fake.dim()))
    return sorted(range(fake.dim()), key=lambda k: (-strides[k], k))


def _is_dense(fake, order):
    """Symbolic sizes and strides count by the numbers that they were found with; without these the tensor counts as contiguous."""
    sizes, strides, length = [hint_of(s) for s in fake.shape], [hint_of(s) for s in fake.stride()], 1
    if None in sizes or None in strides:
        return True
    for k in reversed(order):
        if sizes[k] != 1 and strides[k] != length:
            return False
        length *= sizes[k]
    return True


def inverse(order):
    result = [0] * len(order)
    for place, axis in enumerate(order):
        result[axis] = place
    return result


# ---- Which nodes a row takes ----

def refusal(node):
    """Why a node cannot become text, by its row and types alone; None if it can be tried."""
    if node.op != "call_function":
        return f"a {node.op}"
    if node.target is operator.getitem:
        return None
    if row_of(node.target) is None:
        return "no row in the table of operations"
    for value in _values_of(node):
        reason = _unfit(value)
        if reason:
            return reason
    return None


def _values_of(node):
    """The tensors that a node reads, and those of its results that are taken."""
    value = node.meta.get("val")
    taken = [value[n.args[1]] for n in node.users if n.target is operator.getitem] if isinstance(value, list | tuple) else [value]
    fakes = _flat(taken)
    for argument in node.all_input_nodes:
        fakes += _flat(argument.meta.get("val"))
    return fakes


def _flat(value):
    if isinstance(value, list | tuple):
        return [v for v in value if isinstance(v, torch.Tensor)]
    return [value] if isinstance(value, torch.Tensor) else []


def _unfit(fake):
    if fake.dtype not in TYPES:
        return f"a tensor of {str(fake.dtype).removeprefix('torch.')}"
    if fake.layout != torch.strided:
        return "a tensor that is not strided"
    if fake.dim() > 8:
        return "more than 8 axes"
    if any(isinstance(s, int) and s == 0 for s in fake.shape):
        return "a tensor without elements"
    return None


# ---- The text ----

class _Importer:
    def __init__(self, gm, name, precision, hints):
        self.gm, self.name, self.precision, self.hints = gm, name, precision, hints or {}
        self.text = OperatorText()
        self.declared, self.inputs, self.outputs, self.alone = [], [], [], False

    def run(self):
        self._name_sizes()
        for node in self.gm.graph.nodes:
            self.text.node = node
            getattr(self, node.op)(node)
        return self._finish()

    def _name_sizes(self):
        """A size of an input that is an expression of symbols that no input tells, `1 + (s0 - 1) // 2`, is a symbol of its own."""
        fakes = [n.meta.get("val") for n in self.gm.graph.find_nodes(op="placeholder")]
        told = {expression(f) for f in fakes if isinstance(f, torch.SymInt)}
        sizes = {expression(s) for f in fakes if isinstance(f, torch.Tensor) for s in f.shape if isinstance(s, torch.SymInt)}
        told |= sizes
        for expr in sorted(sizes, key=lambda e: (len(str(e)), str(e))):
            if not expr.is_Symbol and not expr.free_symbols <= told:
                self.text.symbols.setdefault(expr, f"S{len(self.text.symbols)}")

    def placeholder(self, node):
        fake = node.meta.get("val")
        if isinstance(fake, torch.SymInt | torch.SymFloat | int | float):
            self.text.values[node] = fake
            self.inputs.append(fake if isinstance(fake, torch.SymInt) else None)
        elif not isinstance(fake, torch.Tensor):
            raise NotTaken("an input that is no tensor")
        elif not node.users:
            self.inputs.append(None)
        else:
            binding = Binding(f"I{len(self.inputs)}", fake)
            self.inputs.append(binding)
            self.text.values[node] = self._input(binding)

    def _input(self, binding):
        self.declared.append(binding)
        held = Value(binding.name, binding.held_shape(), binding.dtype, exact=True)
        if binding.order is None:
            return held
        return self.text.fresh(f"transpose({held.text}, axes={inverse(binding.order)})", binding.shape, binding.dtype, exact=True)

    def get_attr(self, node):
        target = self.gm
        for part in node.target.split("."):
            target = getattr(target, part)
        if not isinstance(target, torch.Tensor) or target.numel() != 1:
            raise NotTaken("a constant tensor of several elements")
        self.text.values[node] = Value("", target.shape, target.dtype, number=target.item())

    def call_function(self, node):
        if node.target is operator.getitem:
            part = self.text.values[node.args[0]][node.args[1]]
            self.text.values[node] = part() if callable(part) else part
            return
        row = row_of(node.target)
        if row is None:
            raise NotTaken(f"no row for {node.target}")
        args = fx.map_arg(node.args, self.text.values.__getitem__)
        kwargs = fx.map_arg(dict(node.kwargs), self.text.values.__getitem__)
        self.text.values[node] = row(self.text, node.meta["val"], *args, **kwargs)

    def output(self, node):
        self.alone = isinstance(node.args[0], fx.Node)
        for result in [node.args[0]] if self.alone else node.args[0]:
            self.outputs.append(None if result is None else self._output(result))

    def _output(self, node):
        if not isinstance(node, fx.Node):
            raise NotTaken("a result that is no tensor")
        value, fake = self.text.values[node], node.meta["val"]
        if not isinstance(fake, torch.Tensor):
            raise NotTaken("a result that is no tensor")
        self.text.node = node
        sizes = zip(value.shape, fake.shape, strict=False)
        if value.rank != fake.dim() or any(a != b for a, b in sizes if isinstance(a, int) and isinstance(b, int)):
            raise NotTaken("a result of another shape than torch's")
        if has_gaps(fake):
            raise NotTaken("a result with gaps, or overlaps, in memory")
        binding = Binding(f"O{len(self.outputs)}", fake)
        value = self.text.tensor(value) if value.rank else value
        if kind_of(value.dtype) != kind_of(fake.dtype):
            value = self.text.cast(value, fake.dtype)
        if binding.order is not None:
            value = self.text.fresh(f"transpose({value.text}, axes={binding.order})", binding.held_shape(), fake.dtype)
        self.declared.append(binding)
        self.text.store(binding.name, value)
        return binding

    # -- the operator around the equations --

    def _finish(self):
        declared = [f"{b.name}{self.text.dims(b.held_shape())}: {TYPES[b.dtype]}" for b in self.declared if self._used(b)]
        self._check_bound()
        inputs = [self._symbol(v) if isinstance(v, torch.SymInt) else v for v in self.inputs]
        head = [f"operator {self.name} {{"]
        if self.text.symbols:
            head.append(f"    symbols: {', '.join(self._constraints())};")
        head.append(f"    tensors: {'; '.join(declared)};")
        if self.precision:
            head.append(f"    precision: {self.precision};")
        sizes = ", ".join(f"{name}={self.hints[symbol]}" for symbol, name in self.text.symbols.items() if symbol in self.hints)
        tail = [f"    case given {{ {sizes} }}"] if sizes or not self.text.symbols else []
        body = [f"    {line}" for line in self.text.lines]
        whole = "\n".join([*head, *body, *tail, "}", ""])
        symbols = {name: size for size, name in self.text.symbols.items()}
        return Imported(self.name, whole, self.text.origins, len(head) + 1, inputs, self.outputs, self.alone, symbols)

    def _used(self, binding):
        used = binding.name.startswith("O") or any(re.search(rf"\b{binding.name}\b", line) for line in self.text.lines)
        if not used:
            self.inputs = [None if v is binding else v for v in self.inputs]
        return used

    def _check_bound(self):
        """Each symbol is a size of an input, or an input itself: a launch has to know it."""
        known = {expression(v) for v in self.inputs if isinstance(v, torch.SymInt)}
        for binding in self.inputs:
            if isinstance(binding, Binding):
                known.update(expression(s) for s in binding.shape)
        for symbol in self.text.symbols:
            if symbol not in known:
                raise NotTaken(f"the size {symbol} is not to be had from the inputs")

    def _symbol(self, size):
        return self.text.symbols.get(expression(size))

    def _constraints(self):
        return [f"{name} >= 1" for name in self.text.symbols.values()]


def import_graph(gm, name="region", precision=None, hints=None):
    """The operator of a graph whose nodes carry `meta["val"]`. `hints`: sizes of sympy's symbols, for a case. Raises NotTaken."""
    importer = _Importer(gm, name, precision, hints)
    try:
        return importer.run()
    except NotTaken as error:
        error.node = importer.text.node
        raise
