"""PyTorch's own samples (OpInfo) of every operation that has a row, in float32: results agree with eager's, or the report lists what was left.

The short run draws a few operations a day and two graphs of samples of each, --long runs all; names of operations on the command
line run these. It ends with 77, a skip, where torch's own tests cannot be imported (they need expecttest and NumPy)."""
import contextlib
import os
import sys
import warnings

import common
import torch
from common import backend, daily

from sketchc import operations

warnings.filterwarnings("ignore")
try:
    from torch.testing._internal.common_methods_invocations import op_db
except ImportError as error:
    print(f"torch's samples cannot be imported: {error}")
    sys.exit(77)

# Operations that torch takes apart into rows that have no samples of their own.
ABOVE = {"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
         "softmax", "log_softmax", "batch_norm", "instance_norm", "pad", "interpolate", "linear", "scaled_dot_product_attention", "__getitem__",
         "avg_pool2d", "matmul", "mse_loss", "cross_entropy", "glu"}
RATE = 40    # an operation is drawn once in so many days
TOGETHER = 8  # samples of one graph
# Results that are no function of the operands: memory that nobody has written, or a choice of several that torch leaves open.
OPEN = {"empty", "empty_like", "new_empty", "new_empty_strided"}


def sampled():
    """OpInfo by the names of rows; an operation of torch.nn.functional stands under its last name."""
    rows = {name.split(".")[1] for name in operations.ROWS}
    found = {}
    for info in op_db:
        for name in {info.name.split(".")[-1], info.aten_name or ""} & (rows | ABOVE) - OPEN:
            if torch.float32 in info.dtypes:
                found.setdefault(name, []).append(info)
    return found


class Call:
    """One sample: a function of its tensors."""

    def __init__(self, info, sample):
        self.info, self.text = info, sample.summary()[:200]
        self.flat, self.spec = torch.utils._pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.places = [k for k, v in enumerate(self.flat) if isinstance(v, torch.Tensor)]
        self.given = [self.flat[k].detach() for k in self.places]

    def run(self, given):
        flat = list(self.flat)
        for k, t in zip(self.places, given, strict=True):
            flat[k] = t
        args, kwargs = torch.utils._pytree.tree_unflatten(flat, self.spec)
        return self.info.op(*args, **kwargs)

    def expected(self):
        """Results of eager and of double precision; None where eager refuses one of them."""
        with contextlib.suppress(RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
            return self.run([t.clone() for t in self.given]), self.run(common.wide(self.given))
        return None


def joined(calls):
    def function(*tensors):
        results, begin = [], 0
        for call in calls:
            results.append(call.run(tensors[begin:begin + len(call.given)]))
            begin += len(call.given)
        return results
    return function, [t.clone() for call in calls for t in call.given]


def check(calls, expected):
    """What was left, by operation; Doubtful where a result is."""
    function, given = joined(calls)
    torch._dynamo.reset()
    with torch.no_grad(), backend.reporting() as report:
        ours = torch.compile(function, backend="sketchc", options={"loud": False})(*given)
    for call, result, (eager, exact) in zip(calls, ours, expected, strict=True):
        common.hold(f"{call.info.name} of {call.text}", result, eager, exact)
    return {f"{operation}: {why}" for graph in report.graphs for operation, why in graph.left.values()}


def check_operation(name, infos, most):
    """Number of samples, what was left of them, and failures."""
    count, left, failed = 0, set(), []
    calls = [Call(info, sample) for info in infos for sample in info.sample_inputs("cpu", torch.float32)]
    for begin in range(0, len(calls), TOGETHER)[:most]:
        pairs = [(call, e) for call in calls[begin:begin + TOGETHER] if (e := call.expected()) is not None]
        count += len(pairs)
        try:
            left |= check([c for c, _ in pairs], [e for _, e in pairs]) if pairs else set()
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__} {str(error)[:700]}")
    return count, left, failed


def main():
    found = sampled()
    names = sys.argv[3:] or daily.drawn(sorted(found), RATE)
    most = None if os.environ.get("SKETCHC_TEST_LONG") == "1" else 2
    failures, total = [], 0
    for name in names:
        count, left, failed = check_operation(name, found[name], most)
        total += count
        failures += failed
        print(f"{'FAIL' if failed else 'ok' if count else 'nothing compared for'} {name}: {count} samples" + "".join(f"\n  left: {line}" for line in sorted(left)), flush=True)
    print("\n".join(failures))
    print(f"{total} samples of {len(names)} operations, {len(failures)} graphs fail")
    return 1 if failures or not total else 0


if __name__ == "__main__":
    sys.exit(main())
