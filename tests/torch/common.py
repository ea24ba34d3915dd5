"""What the tests of the torch backend share: how results are held against torch's own, and how a test program runs.

A program is called as PROGRAM LIBSKETCHC PACKAGE_FOLDER [NAME...]; without torch it ends with 77, a skip."""
import copy
import importlib.util
import os
import pathlib
import sys
import time
import traceback

if importlib.util.find_spec("torch") is None:
    print("torch is not installed")
    sys.exit(77)
os.environ["SKETCHC_LIBRARY"] = sys.argv[1]
sys.path[:0] = [sys.argv[2], str(pathlib.Path(__file__).resolve().parent.parent)]
import daily  # noqa: E402, F401
import torch  # noqa: E402
from torch._decomp import decomposition_table  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_flatten, tree_map  # noqa: E402

import sketchc.backend as backend  # noqa: E402

torch.set_num_threads(1)


class Doubtful(AssertionError):
    """A result is further away than rounding explains."""


def tensors(tree):
    return [t for t in tree_flatten(tree)[0] if isinstance(t, torch.Tensor)]


def wide(tree):
    """The same values with floats in double precision."""
    return tree_map(lambda t: t.detach().double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t, tree)


# Operations without a rounding; those that only make constants, or copy.
EXACT = {"zeros", "ones", "full", "arange", "scalar_tensor", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "empty",
         "empty_like", "new_empty", "new_empty_strided", "fill_", "zero_", "clone", "copy_", "_to_copy", "lift_fresh_copy", "cat", "stack", "where", "relu",
         "threshold_backward", "flip", "roll", "gather", "index", "constant_pad_nd", "neg", "sign", "amax", "amin", "maximum", "minimum", "clamp",
         "max_pool2d_with_indices", "max_pool2d_with_indices_backward", "linspace", "rand", "bernoulli"}


class Rounded(TorchDispatchMode):
    """What runs within, in double precision, is rounded after each operation as if its type were one of this eps: each element of each
    result is off by eps / 2, the largest rounding, to a side that is drawn. Composite operations are taken apart by torch's table, so
    that means, deviations and quotients within norms are rounded, too.

    So a result that is 0 in exact arithmetic, as the gradient of a bias ahead of a batch norm, is off by what its terms are off, whose
    errors are not independent: each channel's rounded mean stands in all of them. Torch's own result in one type says little about
    that: it is one draw of a rounding, which may be near 0."""

    def __init__(self, eps, seed):
        super().__init__()
        self.eps, self.drawn = eps, torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in decomposition_table:
            with self:
                made = decomposition_table[func](*args, **kwargs)
            if made is not NotImplemented:
                return made
        made = func(*args, **kwargs)
        views = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
        name = func._schema.name.split("::")[1]
        if name in ("sum", "mean") and made.is_floating_point():
            made.add_(self.of_partial_sums(made, *args, **kwargs) / (args[0].numel() / max(made.numel(), 1) if name == "mean" else 1))
        if name == "convolution_backward" and made[2] is not None:      # of the bias: a sum of the first operand
            made[2].add_(self.of_partial_sums(made[2], args[0], [d for d in range(args[0].dim()) if d != 1]))
        if not views and name not in EXACT:
            for t in tensors(made):
                self.round(t)
        return made

    def signs(self, shape):
        return self.eps / 2 * (2 * torch.randint(0, 2, shape, generator=self.drawn) - 1)

    def round(self, t):
        if t.is_floating_point():
            t.mul_(1 + self.signs(t.shape))

    def of_partial_sums(self, made, x, dims=None, keepdim=False, **_):
        """What the roundings of a sum's partial sums, terms added in order, come to."""
        dims = sorted({d % x.dim() for d in ([dims] if isinstance(dims, int) else dims or range(x.dim()))}) if x.dim() else []
        left = [d for d in range(x.dim()) if d not in dims]
        partial = x.permute(left + dims).reshape([x.shape[d] for d in left] + [-1]).cumsum(-1)
        return (partial * self.signs(partial.shape)).sum(-1).reshape(made.shape)


DRAWS = 4  # so that of two roundings, each the largest one, all draws have other signs than a kernel in one case of 256


def rounded(function, given, eps, draws=DRAWS):
    """What `function(*given)` is in double precision with roundings of this eps, also those of its inputs: a result of each draw."""
    results = []
    for seed in range(draws):
        mode, inputs = Rounded(eps, seed), copy.deepcopy(wide(given))
        with torch.no_grad():
            for t in tensors(inputs):
                mode.round(t)
        with mode:
            results.append(function(*inputs))
    return results


def hold(name, ours, eager, exact, moved=()):
    """Ours may be off the result in double precision four times as far as torch's own in the same type, and eight roundings of the
    largest element further (four times: sums in another order; eight: functions of up to 3 ulps behind each other). `moved`: results of
    `rounded`; where one of them is further off than torch's own, it counts in its place. A float16 or bfloat16 is computed in float32,
    whose roundings are nothing beside its own: one rounding further, not eight."""
    moved = list(zip(*map(tensors, moved), strict=True)) or [()] * len(tensors(exact))
    for k, (a, b, c, m) in enumerate(zip(tensors(ours), tensors(eager), tensors(exact), moved, strict=True)):
        if a.dtype != b.dtype or a.shape != b.shape:
            raise Doubtful(f"{name}, result {k}: {a.dtype} {tuple(a.shape)} in place of {b.dtype} {tuple(b.shape)}")
        if not a.is_floating_point():
            if not torch.equal(a, b):
                raise Doubtful(f"{name}, result {k}: {int((a != b).sum())} of {a.numel()} elements differ")
            continue
        _hold_floats(f"{name}, result {k}", *(t.detach().double() for t in (a, b, c)), [t.detach().double() for t in m], torch.finfo(a.dtype).eps)


def _hold_floats(name, a, b, c, moved, eps):
    same = (a == b) | (a.isnan() & b.isnan())
    finite = c.isfinite() & b.isfinite()
    if bool((~same & ~finite).any()):
        raise Doubtful(f"{name}: infinities or NaN differ")
    if not bool(finite.any()):
        return
    own = max(float((t - c)[finite].abs().max().nan_to_num(0)) for t in (b, *moved))
    allowed = 4 * own + (8 if eps < 1e-6 else 0.5) * eps * c[finite].abs().max()
    worst = (a - c)[finite].abs().max()
    if not worst <= allowed:
        raise Doubtful(f"{name}: off by {worst:.3g}, where {allowed:.3g} is allowed and torch, or some roundings, are off by {own:.3g}")


def compiled(function, *inputs, whole=True, **options):
    """Results of the compiled function, its report; with `whole` nothing may have been left to the nested backend. A region may have been refused and cut in two."""
    torch._dynamo.reset()
    named = {k: options.pop(k) for k in ("dynamic",) if k in options}
    with backend.reporting() as report:
        result = torch.compile(function, backend="sketchc", fullgraph=True, options=options, **named)(*inputs)
    if whole and not (report.whole and any(g.regions for g in report.graphs)):
        raise Doubtful(f"not all was taken:\n{report}")
    return result, report


def main(globals_):
    """Runs the functions called test_*, those named on the command line only where there are some."""
    wanted, failed = sys.argv[3:], 0
    for name, function in list(globals_.items()):
        if not name.startswith("test_") or (wanted and name not in wanted):
            continue
        start = time.process_time()
        try:
            function()
        except Exception:
            failed += 1
            print(f"FAIL {name}")
            print(traceback.format_exc()[-3000:])
            continue
        print(f"ok {name} {time.process_time() - start:.1f} s")
    sys.exit(1 if failed else 0)
