"""Every row of the table of operations against eager, in float32 and float64; sizes as numbers and as symbols; gradients of windows."""
import inspect

import common
import samples
import torch
from common import backend, daily

from sketchc import operations

SETS = {"maps": samples.MAPS, "views": samples.VIEWS, "folds": samples.FOLDS, "writes": samples.WRITES, "windows": samples.WINDOWS}
reached = set()
# Rows that torch 2.13 does not leave in graphs, on the CPU or at all: it takes them apart before, and other versions and devices do not.
NOT_REACHED = {
    "_adaptive_avg_pool3d", "_adaptive_avg_pool3d_backward", "_fused_rms_norm", "convert_element_type", "iota", "_unsafe_index",
    "_unsafe_view", "adaptive_avg_pool1d", "addcdiv", "alias", "all", "arange", "avg_pool1d", "broadcast_to", "chunk", "clamp_max",
    "clamp_min", "detach", "dot", "flatten", "floor_divide", "frac", "full", "lift_fresh", "lift_fresh_copy", "log_sigmoid", "max_pool1d",
    "max_pool2d", "max_pool3d", "mv", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "reshape", "rms_norm",
    "scalar_tensor", "select_scatter", "sgn", "sigmoid_backward", "split", "split_with_sizes_copy", "square", "t", "tanh_backward", "to", "transpose",
    "true_divide", "upsample_nearest1d", "upsample_nearest2d", "zeros", "zeros_like", "_to_copy",
}


def names_of(function):
    return list(inspect.signature(function).parameters)


def parts(table, count):
    """The table's samples, `count` to a graph."""
    items = list(table.items())
    return [dict(items[k:k + count]) for k in range(0, len(items), count)]


def joined(part, dtype):
    """One function of all inputs that the part's samples need, and these."""
    made = samples.inputs(dtype)
    names = sorted({n for f in part.values() for n in names_of(f)})

    def function(*tensors):
        given = dict(zip(names, tensors, strict=True))
        return [f(*[given[n] for n in names_of(f)]) for f in part.values()]
    return function, [made[n] for n in names]


def check(part, dtype, **options):
    function, given = joined(part, dtype)
    with torch.no_grad():
        ours, report = common.compiled(function, *given, whole=False, loud=False, **options)
        eager, exact = function(*given), function(*common.wide(given))
    for name, a, b, c in zip(part, ours, eager, exact, strict=True):
        common.hold(f"{name}, {dtype}", a, b, c)
    if not report.whole:
        raise common.Doubtful(f"{', '.join(part)}: not all was taken\n{report}")
    for region in report.graphs[0].regions:
        reached.update(region.operations)


def check_set(name, dtype, count=6, without=(), **options):
    failed = []
    for part in parts({key: f for key, f in SETS[name].items() if key not in without}, count):
        try:
            check(part, dtype, **options)
        except Exception as error:
            failed.append(f"{', '.join(part)}: {type(error).__name__} {str(error)[:1500]}")
    if failed:
        raise common.Doubtful("\n".join(failed))


def test_maps():
    check_set("maps", torch.float32)


def test_views():
    check_set("views", torch.float32)


def test_folds():
    check_set("folds", torch.float32)


def test_writes():
    check_set("writes", torch.float32)


def test_windows():
    check_set("windows", torch.float32)


NOT_DOUBLE = ("sort",)  # left to torch: NaN is the largest


def test_double():
    for name in SETS:
        check_set(name, torch.float64, count=12, without=NOT_DOUBLE)


# Torch's shape function says float32 of statistics that its kernel gives in the input's type; it has no such pooling in 3 dimensions.
NOT_NARROW = ("training batch norm", "avg pool, 1d 3d")


def check_narrow(dtype):
    """A third of the samples a day, all of them by --long; other days have other ones for each type."""
    failed = []
    items = [(name, f) for table in SETS.values() for name, f in table.items() if name not in NOT_NARROW]
    for part in parts(dict(daily.drawn(items, 3)), 6):
        try:
            check(part, dtype)
        except Exception as error:
            failed.append(f"{', '.join(part)}: {type(error).__name__} {str(error)[:1500]}")
    if failed:
        raise common.Doubtful("\n".join(failed))


def test_float16():
    check_narrow(torch.float16)


def test_bfloat16():
    check_narrow(torch.bfloat16)


def check_gradient(name):
    torch.manual_seed(3)
    function = samples.WINDOWS[name]
    weighted, _ = samples.gradient(function)
    made = samples.inputs(torch.float32)
    given = [made[n] for n in names_of(function)]

    def gradients(function, given):
        given = [g.clone().requires_grad_() for g in given]
        return torch.autograd.grad(function(*given), given)
    torch._dynamo.reset()
    with backend.reporting() as report:
        ours = gradients(torch.compile(weighted, backend="sketchc", fullgraph=True), given)
    common.hold(name, ours, gradients(weighted, given), gradients(weighted, common.wide(given)))
    if not report.whole:
        raise common.Doubtful(f"{name}: not all was taken\n{report}")
    for graph in report.graphs:
        for region in graph.regions:
            reached.update(region.operations)


def test_gradients():
    failed = []
    for name in samples.GRADIENTS:
        try:
            check_gradient(name)
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__} {str(error)[:1200]}")
    if failed:
        raise common.Doubtful("\n".join(failed))


def test_every_row_is_reached():
    """Runs last: what the tests above have compiled."""
    rows = {name.split(".")[1] for name in operations.ROWS}
    missing = rows - reached - NOT_REACHED
    assert not missing, f"rows that no sample reaches: {sorted(missing)}"


if __name__ == "__main__":
    common.main(globals())
