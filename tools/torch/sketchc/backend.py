"""torch.compile(model, backend="sketchc"): graphs of AOTAutograd as operators, the rest to a nested backend.

    import sketchc.backend                      # registers the backend; an installed wheel needs no import
    fast = torch.compile(model, backend="sketchc", options={"precision": "tf32"})
    print(sketchc.backend.explain_model(model, x))

Options: `precision` (of products: "f32", "tf32", ...; default: what torch.backends allows), `target` ("openmp", "nvptx", "cuda";
default by the tensors' device), `nested` ("eager" or "inductor"), `slower` ("leave" to the nested backend what is predicted to be slower than it, the default, or
"take"), `tune` (measure regions: of mode="max-autotune"), `graphs` (replay CUDA graphs: of that and of mode="reduce-overhead"), `loud` (a line on standard error for each graph with operations left; default on). All names of torch that are not public stand in this file (and SymInt.node, in importer_text.py)."""
import contextlib
import functools
import logging
import operator

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._dynamo import register_backend
from torch._dynamo.backends.common import aot_autograd
from torch.fx.experimental.proxy_tensor import make_fx

from . import _native, importer, modes, rival, splitter
from .errors import Error
from .importer_text import NotTaken
from .kernel import Request
from .kernel import compile as compile_kernel
from .report import GraphReport, Region, Report, first_line

log = logging.getLogger("sketchc.torch")
_open_reports = []

# Operations with a row of their own, which torch would take apart, ...
KEPT = ("mish", "softplus", "silu", "hardswish", "hardsigmoid", "leaky_relu", "elu", "logsumexp", "gelu", "hardtanh", "stack", "unbind",
        "upsample_nearest2d", "addcmul", "addcdiv", "lerp", "square", "logaddexp", "rsub", "tril", "triu", "std", "reflection_pad1d",
        "reflection_pad2d", "reflection_pad3d", "pixel_shuffle", "roll", "baddbmm", "_softmax", "_log_softmax", "index_select",
        "nan_to_num", "threshold", "threshold_backward", "max_pool2d_with_indices_backward", "embedding_dense_backward")
# ... and those that it takes apart for us although they are no part of the core set's table.
APART = ("native_layer_norm_backward", "native_group_norm_backward", "native_batch_norm_backward", "native_dropout_backward",
         "batch_norm_backward", "_softmax_backward_data", "_log_softmax_backward_data", "nll_loss_forward", "nll_loss_backward",
         "nll_loss2d_forward", "nll_loss2d_backward", "mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
         "binary_cross_entropy_with_logits", "log_sigmoid_forward", "gelu_backward", "silu_backward", "mish_backward",
         "hardswish_backward", "hardsigmoid_backward", "hardtanh_backward", "leaky_relu_backward", "elu_backward", "softplus_backward",
         "slice_backward", "select_backward", "_fused_rms_norm", "_fused_rms_norm_backward", "glu",
         "glu_backward", "cumprod_backward", "l1_loss", "_unsafe_index", "im2col", "col2im", "addmv", "masked_fill", "soft_margin_loss")


def decompositions():
    """torch's table of the core set, without the operations of KEPT, with those of APART."""
    table = dict(core_aten_decompositions())
    apart = [packet for name in APART if (packet := getattr(torch.ops.aten, name, None)) is not None]
    table.update(get_decompositions(apart))
    kept = tuple(f"aten.{name}." for name in KEPT)
    table = {op: how for op, how in table.items() if not f"{op}.".startswith(kept)}
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    if attention in table:
        table[attention] = functools.partial(_attention, table[attention])
        table[torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default] = _attention_gradients
    return table


def _scores(query, key, is_causal, attn_mask, scale):
    """Of queries and keys, masked; the type is wide."""
    scores = query @ key.transpose(2, 3) * (query.shape[3] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).triu(1), float("-inf"))
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, float("-inf")) if attn_mask.dtype == torch.bool else scores + attn_mask
    return scores


def _widened(*tensors):
    wide = torch.float64 if tensors[0].dtype == torch.float64 else torch.float32
    return [t.to(wide) for t in tensors]


def _for_heads(heads, *tensors):
    """Keys or values for each head of the queries."""
    return [t if t.shape[1] == heads else t.repeat_interleave(heads // t.shape[1], 1) for t in tensors]


def _attention(apart, query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    """torch's own pieces of attention, with the logarithms of the sums that its backward operation reads; torch's give another tensor."""
    result, _ = apart(query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)
    query, key = _widened(query, *_for_heads(query.shape[1], key))
    scores = _scores(query, key, is_causal, attn_mask, scale)
    masked = (scores == float("-inf")).all(3)
    return result, scores.logsumexp(3).masked_fill(masked, 0.0)  # as torch has it for a row that is masked throughout


def _attention_gradients(grad, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None):
    """Of queries, keys and values; the weights are computed again. Those of heads that share a key are added."""
    heads, dtype, shared = query.shape[1], query.dtype, key.shape
    grad, query, key, value, out = _widened(grad, query, *_for_heads(heads, key, value), out)
    weights = (_scores(query, key, is_causal, attn_mask, scale) - logsumexp.unsqueeze(3)).exp()
    moved = weights * (grad @ value.transpose(2, 3) - (grad * out).sum(3, keepdim=True)) * (query.shape[3] ** -0.5 if scale is None else scale)
    others = [moved.transpose(2, 3) @ query, weights.transpose(2, 3) @ grad]
    if shared[1] != heads:
        others = [t.reshape(shared[0], shared[1], heads // shared[1], *shared[2:]).sum(2) for t in others]
    return tuple(t.to(dtype) for t in [moved @ key, *others])


# ---- Options ----

class Options:
    """The backend's options, checked."""

    CHOICES = {"precision": ("f64", "f32", "ieee", "tf32x3", "bf16x3", "tf32", "f16", "bf16", "f8"),
               "target": ("openmp", "cpu", "nvptx", "gpu", "cuda"), "nested": ("eager", "inductor"),
               "slower": ("leave", "take")}
    MODES = {None: (), "default": (), "reduce-overhead": ("graphs",), "max-autotune": ("tune", "graphs"), "max-autotune-no-cudagraphs": ("tune",)}

    def __init__(self, given=None, mode=None):
        given = dict(given or {})
        if mode not in self.MODES:
            raise ValueError(f"sketchc: mode is one of {', '.join(m for m in self.MODES if m)}, not {mode!r}")
        self.tune, self.graphs = (given.pop(name, name in self.MODES[mode]) for name in ("tune", "graphs"))
        self.precision, self.target = given.pop("precision", None), given.pop("target", None)
        self.nested, self.loud = given.pop("nested", None) or "eager", given.pop("loud", True)
        self.cache, self.slower = given.pop("cache", True), given.pop("slower", None) or "leave"
        if given:
            raise ValueError(f"sketchc: unknown options {', '.join(given)}; known are precision, target, nested, slower, tune, graphs, loud, cache")
        for name, choices in self.CHOICES.items():
            if getattr(self, name) not in (*choices, None):
                raise ValueError(f"sketchc: {name} is one of {', '.join(choices)}, not {getattr(self, name)!r}")

    def precision_of(self, graph):
        """What products may be rounded to: the option, or the strictest that torch allows any of the graph's products. Where cuDNN was seen
        not to round, ours is not either: results are then as far from eager's as roundings of float32."""
        if self.precision:
            return self.precision
        products = [n for n in graph.nodes if n.op == "call_function" and splitter.base_name(n) in rival.PRODUCTS + rival.CONVOLUTIONS]
        return "tf32" if products and all(map(rival.rounds, products)) else None


def _device(gm):
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        for fake in value if isinstance(value, list | tuple) else [value]:
            if isinstance(fake, torch.Tensor) and fake.device.type != "cpu":
                return fake.device
    return torch.device("cpu")


# ---- A region at run time ----

def _other_shape(tensor, binding):
    """The shape that a kernel gives a tensor of its operator, None if it is the same. A sketch may see neighbouring axes as one."""
    extents, shape = tensor.extents, binding.held_shape()
    if len(extents) == len(shape) and all(not isinstance(s, int) or e == str(s) for e, s in zip(extents, shape, strict=True)):
        return None
    return _open_shape([int(e) if e.isdigit() else e for e in extents], tensor)


def _open_shape(shape, tensor):
    """A shape for `view`, which finds one size that is no number by itself."""
    if sum(not isinstance(s, int) for s in shape) > 1:
        raise Error(f"{tensor.operator_name} is seen as {', '.join(tensor.extents)}", 1)
    return [s if isinstance(s, int) else -1 for s in shape]


def _result(k, tensor, binding):
    """How a result of the graph comes out of the kernel's."""
    back = importer.inverse(binding.order) if binding.order else None
    if _other_shape(tensor, binding) is None:
        return operator.itemgetter(k) if back is None else lambda made: made[k].permute(back)
    shape = _open_shape(binding.held_shape(), tensor)
    return (lambda made: made[k].view(shape)) if back is None else lambda made: made[k].view(shape).permute(back)


class Compiled(torch.nn.Module):
    """A region's kernel behind the calling convention of its graph: tensors and sizes in, a tuple of tensors out."""

    def __init__(self, kernel, imported, device):
        super().__init__()
        self.kernel, self.device, self.alone = kernel, device, imported.alone
        places = {b.name: k for k, b in enumerate(imported.inputs) if isinstance(b, importer.Binding)}
        bindings = {b.name: b for b in imported.inputs if isinstance(b, importer.Binding)}
        self.reads = [(places[t.operator_name], bindings[t.operator_name].order, _other_shape(t, bindings[t.operator_name]))
                      for t in kernel.inputs]
        named = {own: sketch for sketch, own in kernel.symbols.items()}
        self.sizes = [(k, named[name]) for k, name in enumerate(imported.inputs) if isinstance(name, str) and name in named]
        self.axes = self._untold(imported, named)
        written = {t.operator_name: (k, t) for k, t in enumerate(kernel.outputs)}
        self.results = [None if b is None else _result(*written[b.name], b) for b in imported.outputs]

    def _untold(self, imported, named):
        """Symbols that no extent of the kernel's inputs tells, where the sketch sees neighbouring axes as one: place, axis and name."""
        told = {e for t in self.kernel.inputs for e in t.extents} | {name for _, name in self.sizes}
        places = [(imported.place_of(own), name) for own, name in named.items() if name not in told and own in imported.symbols]
        return [(*place, name) for place, name in places if place is not None]

    def forward(self, *args):
        tensors = [self._held(args[k], order, shape) for k, order, shape in self.reads]
        named = {name: args[k] for k, name in self.sizes}
        for k, axis, name in self.axes:
            named[name] = args[k].shape[axis]
        made = self.kernel(*tensors, **named)
        made = made if isinstance(made, tuple) else (made,)
        results = [None if r is None else r(made) for r in self.results]
        return results[0] if self.alone else tuple(results)

    def _held(self, tensor, order, shape):
        """The tensor as it lies in memory; a copy if it has gaps there, or is negated as it is read."""
        if tensor.is_neg():
            tensor = tensor.resolve_neg()
        if order is not None:
            tensor = tensor.permute(order)
        if tensor.device != self.device:
            tensor = tensor.to(self.device)
        tensor = tensor if tensor.is_contiguous() else tensor.contiguous()
        return tensor if shape is None else tensor.view(shape)


# ---- Compiling ----

class Compiler:
    """Makes one graph's callable."""

    def __init__(self, options, report):
        self.options, self.report, self.count = options, report, 0

    def compile(self, gm):
        return self._split(gm, {})

    def _split(self, gm, refused):
        whole, taken, left = splitter.split(gm, refused)
        self.report.left.update(left)
        for name, child in list(whole.named_children()):
            setattr(whole, name, self._region(child) if name in taken else self._nested(child))
        return whole

    def _region(self, gm):
        """A region as a kernel; where it is refused, cut smaller."""
        self.count += 1
        name = f"region{self.count}"
        operations = [splitter.base_name(n) for n in gm.graph.nodes if n.op == "call_function" and n.target is not operator.getitem]
        try:
            imported = importer.import_graph(gm, name, self.options.precision_of(gm.graph))
        except NotTaken as error:
            return self._without(gm, error.node, f"{error}")
        if not any(isinstance(b, importer.Binding) for b in imported.inputs):
            return self._nested(gm)
        device = _device(gm)
        region = Region(name, operations, imported.text, *self._machine(device))
        decided = self.options.slower == "leave" and not self.options.tune
        reason = rival.lost(gm.graph, region, self.options.nested) if decided else None
        if reason and not self.options.target:  # one that is named has to be there even so
            return self._left_whole(gm, reason)
        try:
            made = self._kernel(imported, region, device)
        except Error as error:
            if self.options.target and error.status == _native.MISSING:
                raise Error(f"the target {self.options.target} is asked for: {error}", error.status) from error
            region.diagnostic = str(error)
            self.report.refusals.append(region)
            return self._smaller(gm, imported, error)
        if reason:
            return self._left_whole(gm, reason)
        self.report.regions.append(region)
        return self._tuned(made, gm, imported, region) if self.options.tune else made

    def _tuned(self, made, gm, imported, region):
        """The region in all ways that are measured: in the style that is predicted to be the fastest, in the next one, and by torch."""
        design = (region.prediction() or {}).get("design", {})
        ways = {design.get("style", "sketchc"): made}
        if "next" in design:
            with contextlib.suppress(Error):
                ways[design["next"]] = Compiled(self._compiled(imported, region, made.device, design["next"]), imported, made.device)
        ways[self.options.nested] = self._nested(gm)
        return modes.Tuned(ways, region)

    def _machine(self, device):
        """Target and architecture for tensors of this device."""
        request = Request(self.options.target or ("openmp" if device.type == "cpu" else "nvptx"), device=device.index or 0)
        return request.target, request.arch

    def _kernel(self, imported, region, device):
        region.kernel = self._compiled(imported, region, device)
        region.arch = region.kernel.arch
        return Compiled(region.kernel, imported, device)

    def _compiled(self, imported, region, device, design=None):
        named = {} if design is None else {"design": design}
        return compile_kernel(imported.text, target=region.target, arch=region.arch, device=device.index or 0, cache=self.options.cache, **named)

    def _without(self, gm, node, why):
        """The region without a node that no text could be made of."""
        while node.target is operator.getitem:
            node = node.args[0]
        if node.op != "call_function":
            return self._left_whole(gm, why)
        return self._split(gm, {node.name: why})

    def _smaller(self, gm, imported, error):
        busy = [n for n in gm.graph.nodes if n.op == "call_function" and not splitter.is_free(n)]
        if len(busy) <= 1:
            return self._left_whole(gm, first_line(error))
        whole = splitter.halves(gm, _blamed(imported, error))
        for name, child in list(whole.named_children()):
            free = all(splitter.is_free(n) for n in child.graph.nodes)
            setattr(whole, name, self._nested(child) if free else self._split(child, {}))
        return whole

    def _left_whole(self, gm, why):
        for node in gm.graph.nodes:
            if not splitter.is_free(node):
                self.report.left[node.name] = (str(node.target), why)
        return self._nested(gm)

    def _nested(self, gm):
        if self.options.nested == "eager" or all(map(splitter.is_free, gm.graph.nodes)):
            return gm
        return _by_inductor(gm)


def _by_inductor(gm):
    """The graph, taken apart as inductor's lowerings want it, by inductor; random numbers are eager's."""
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table
    alone = not isinstance(gm.graph.output_node().args[0], list | tuple)
    fakes = [n.meta["val"] for n in gm.graph.find_nodes(op="placeholder")]
    with torch.no_grad(), torch._dynamo.utils.preserve_rng_state(), config.patch(fallback_random=True), _own_tracing(fakes):
        apart = make_fx(_Listed(gm, alone), decomposition_table=select_decomp_table())(*fakes)
        return _Callable(compile_fx_inner(apart, fakes), alone)


@contextlib.contextmanager
def _own_tracing(fakes):
    """Within a graph that is compiled itself: the strides of a part's results are not the graph's, and the graph's constants are real tensors."""
    context, mode = torch._guards.TracingContext.try_get(), torch._guards.detect_fake_mode(fakes)
    changed = [(o, n, v, getattr(o, n)) for o, n, v in ((context, "output_strides", None), (mode, "allow_non_fake_inputs", True)) if o is not None]
    try:
        for owner, name, value, _ in changed:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, _, before in changed:
            setattr(owner, name, before)


class _Listed(torch.nn.Module):
    """A module that returns a list of results, as inductor wants it."""

    def __init__(self, gm, alone):
        super().__init__()
        self.gm, self.alone = gm, alone

    def forward(self, *args):
        made = self.gm(*args)
        return [made] if self.alone else list(made)


class _Callable(torch.nn.Module):
    """A function of a list, as inductor's are, as a module. `alone`: its graph returns the one tensor, not a list."""

    def __init__(self, function, alone):
        super().__init__()
        self.function, self.alone = function, alone

    def forward(self, *args):
        made = self.function(list(args))
        return made[0] if self.alone else made


def _blamed(imported, error):
    """The node whose equation the compiler's first error names."""
    for found in getattr(error, "diagnostics", []):
        line = (found.get("location") or {}).get("line")
        if found.get("severity", "error") == "error" and line:
            return imported.node_at(line)
    return None


def _compiler(name, options):
    def compile_graph(gm, example_inputs):
        report = GraphReport(name)
        for opened in _open_reports:
            opened.graphs.append(report)
        with torch._dynamo.utils.preserve_rng_state():
            made = Compiler(options, report).compile(gm)
        log.info("%s", "\n".join(report.lines()))
        if report.left and options.loud and not _open_reports:
            names = ", ".join(sorted({operation for operation, _ in report.left.values()}))
            log.warning("sketchc: left to the nested backend (%s): %s", options.nested, names)
        made = _boxed(made)
        return modes.Replayed(made) if options.graphs and name == "inference" else made
    return compile_graph


def _boxed(module):
    """What AOTAutograd calls with a list, which it lets us empty."""
    from functorch.compile import make_boxed_func
    return make_boxed_func(module.forward)


def sketchc(gm, example_inputs, *, mode=None, options=None, **_):
    """The backend itself, a function of an FX graph and its inputs."""
    chosen = Options(options, mode)
    return aot_autograd(fw_compiler=_compiler("forward", chosen), bw_compiler=_compiler("backward", chosen),
                        inference_compiler=_compiler("inference", chosen), decompositions=decompositions())(gm, example_inputs)


with contextlib.suppress(Exception):  # another copy of this package did
    register_backend(sketchc, name="sketchc")


@contextlib.contextmanager
def reporting():
    """A Report of all graphs that are compiled within the `with`."""
    report = Report()
    _open_reports.append(report)
    try:
        yield report
    finally:
        _open_reports.remove(report)


def explain_model(model, *inputs, options=None, backward=False, **named):
    """Compiles a model for these inputs, runs it once, and says what was taken, what was left and why: a Report, which prints as text.
    With `backward` the sum of its results is differentiated, so that the backward graph is compiled, too."""
    torch._dynamo.reset()
    with reporting() as report:
        result = torch.compile(model, backend="sketchc", options=options)(*inputs, **named)
        if backward:
            _total(result).backward()
    return report


def _total(result):
    if isinstance(result, torch.Tensor):
        return result.float().sum()
    return sum(_total(r) for r in result if isinstance(r, torch.Tensor) and r.requires_grad)
