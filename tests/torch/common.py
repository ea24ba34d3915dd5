"""What the tests of the torch backend share: how results are held against torch's own, and how a test program runs.

A program is called as PROGRAM LIBSKETCHC PACKAGE_FOLDER [NAME...]; without torch it ends with 77, a skip."""
import importlib.util
import os
import sys
import time
import traceback

if importlib.util.find_spec("torch") is None:
    print("torch is not installed")
    sys.exit(77)
os.environ["SKETCHC_LIBRARY"] = sys.argv[1]
sys.path.insert(0, sys.argv[2])
import torch  # noqa: E402
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


def hold(name, ours, eager, exact, moved=None, times=4):
    """Ours may be off the result in double precision `times` as far as torch's own in the same type, and eight roundings of the
    largest element further (four times: sums in another order; eight: functions of up to 3 ulps behind each other). `moved`: the exact result
    of inputs and parameters that are off by some roundings each, which is as far as any result may be off; where it is further than torch's it counts."""
    moved = tensors(exact if moved is None else moved)
    for k, (a, b, c, m) in enumerate(zip(tensors(ours), tensors(eager), tensors(exact), moved, strict=True)):
        if a.dtype != b.dtype or a.shape != b.shape:
            raise Doubtful(f"{name}, result {k}: {a.dtype} {tuple(a.shape)} in place of {b.dtype} {tuple(b.shape)}")
        if not a.is_floating_point():
            if not torch.equal(a, b):
                raise Doubtful(f"{name}, result {k}: {int((a != b).sum())} of {a.numel()} elements differ")
            continue
        _hold_floats(f"{name}, result {k}", a.detach().double(), b.detach().double(), c.detach().double(),
                     m.detach().double(), torch.finfo(a.dtype).eps, times)


def _hold_floats(name, a, b, c, m, eps, times):
    same = (a == b) | (a.isnan() & b.isnan())
    finite = c.isfinite() & b.isfinite()
    if bool((~same & ~finite).any()):
        raise Doubtful(f"{name}: infinities or NaN differ")
    if not bool(finite.any()):
        return
    own = torch.maximum((b - c)[finite].abs().max(), (m - c)[finite].abs().max().nan_to_num(0))
    allowed = times * own + 8 * eps * c[finite].abs().max()
    worst = (a - c)[finite].abs().max()
    if not worst <= allowed:
        raise Doubtful(f"{name}: off by {worst:.3g}, where {allowed:.3g} is allowed and torch, or some roundings, are off by {own:.3g}")


def compiled(function, *inputs, whole=True, **options):
    """Results of the compiled function, its report; with `whole` nothing may have been left or refused."""
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
