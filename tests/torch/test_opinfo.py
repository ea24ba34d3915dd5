"""PyTorch's own samples (OpInfo) of every operation that has a row: results agree with eager's, or what was left stands in fallbacks.txt.

The short run draws a few operations a day and of each two graphs of samples in float32, other ones each day; --long (SKETCHC_TEST_LONG=1) runs all of them in all types. Names of
operations on the command line run these, names of types (float16) in these types. More arguments: --out FILE.json keeps the numbers by type; --survey compiles nothing and
prints what rows leave, as fallbacks.txt has it. It ends with 77, a skip, where torch's own tests cannot be imported (they need expecttest and NumPy)."""
import collections
import contextlib
import json
import os
import pathlib
import random
import re
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
TYPES = ("float32", "float16", "bfloat16", "int64")
FALLBACKS = pathlib.Path(__file__).with_name("fallbacks.txt")
OPEN = {"empty", "empty_like", "new_empty", "new_empty_strided"}


def sampled():
    """OpInfo by the names of rows; an operation of torch.nn.functional stands under its last name."""
    rows = {name.split(".")[1] for name in operations.ROWS}
    found = {}
    for info in op_db:
        for name in {info.name.split(".")[-1], info.aten_name or ""} & (rows | ABOVE) - OPEN:
            if info.dtypes & {getattr(torch, t) for t in TYPES}:
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
        """Results of eager and of double precision; None where eager refuses one of them, or a narrow type does not hold what it computes."""
        with contextlib.suppress(RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
            eager, exact = self.run([t.clone() for t in self.given]), self.run(common.wide(self.given))
            pairs = zip(common.tensors(eager), common.tensors(exact), strict=True)
            return (eager, exact) if all(a.dtype == torch.float32 or _holds(a, c) for a, c in pairs) else None
        return None


def _holds(eager, exact):
    """Whether eager is finite where double precision is."""
    return not eager.is_floating_point() or bool((eager.isfinite() | ~exact.isfinite()).all())


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


class Tally:
    """Of one type: samples that were compared, the graphs that they were in, failures; what was left, by operation."""

    def __init__(self):
        self.samples, self.graphs, self.failed, self.left, self.whole, self.nothing = 0, 0, [], set(), 0, set()

    def numbers(self):
        return {"samples": self.samples, "graphs": self.graphs, "graphs_that_fail": len(self.failed), "graphs_taken_whole": self.whole}


def calls_of(infos, dtype, name, most):
    """Samples in groups; of many some that the day's seed draws."""
    calls = [Call(info, sample) for info in infos if dtype in info.dtypes for sample in info.sample_inputs("cpu", dtype)]
    if most is not None and len(calls) > most * TOGETHER:
        calls = random.Random(f"{name} {os.environ.get('SKETCHC_TEST_SEED', '1')}").sample(calls, most * TOGETHER)
    return [calls[k:k + TOGETHER] for k in range(0, len(calls), TOGETHER)]


def check_operation(name, infos, dtype, most, tally):
    before = len(tally.left)
    for calls in calls_of(infos, dtype, name, most):
        pairs = [(call, e) for call in calls if (e := call.expected()) is not None]
        if not pairs:
            continue
        tally.samples += len(pairs)
        tally.graphs += 1
        try:
            left = check([c for c, _ in pairs], [e for _, e in pairs])
            tally.left |= {f"{name} {line}" for line in left}
            tally.whole += not left
        except Exception as error:
            tally.failed.append(f"{name}, {dtype}: {type(error).__name__} {str(error)[:700]}")
    if len(tally.left) == before:
        tally.nothing.add(name)


def pattern(line):
    """A line of fallbacks.txt: the sampled operation, the one that is left of it, why; # stands for any number of the reason."""
    what, mark, why = line.partition(": ")
    return what + mark + re.sub(r"\d+", "#", why)


def is_new(line, known):
    """What the compiler refuses is printed and not held: the survey has rows alone."""
    name = line.split(" ")[0]
    return bool(known.get(name)) and line not in known[name] and "error[" not in line


def known_fallbacks():
    """Lines by the sampled operation, in float32. One that was never surveyed has none, and is not held."""
    known = collections.defaultdict(set)
    for line in FALLBACKS.read_text().splitlines():
        if line and not line.startswith("# "):
            known[line.split(" ")[0]].add(line)
    return known


def survey():
    """Regions run as they came, so that only tracing and the rows take time."""
    backend.Compiler._region = _imported_only
    common.hold = lambda *args: None


def _imported_only(self, gm):
    try:
        backend.importer.import_graph(gm)
    except backend.NotTaken as error:
        return self._without(gm, error.node, f"{error}")
    return gm


def arguments():
    """Names of operations, types, and the file for the numbers."""
    words = sys.argv[3:]
    out = words.pop(words.index("--out") + 1) if "--out" in words else None
    names = [w for w in words if not w.startswith("--") and w not in TYPES]
    return names, [w for w in words if w in TYPES], out, "--survey" in words


def main():
    found = sampled()
    names, types, out, surveyed = arguments()
    long = os.environ.get("SKETCHC_TEST_LONG") == "1" or surveyed
    types = types or (TYPES if long else TYPES[:1])
    names = names or (sorted(found) if surveyed else daily.drawn(sorted(found), RATE))
    if surveyed:
        survey()
    tallies, known = collections.defaultdict(Tally), known_fallbacks()
    for name in names:
        for dtype in types:
            check_operation(name, found[name], getattr(torch, dtype), None if long else 2, tallies[dtype])
        print(f"{name}: {sum(t.samples for t in tallies.values())} samples so far", flush=True)
    return told(tallies, known, out, surveyed)


def told(tallies, known, out, surveyed):
    left = sorted({pattern(line) for tally in tallies.values() for line in tally.left})
    new = [line for line in sorted(map(pattern, tallies["float32"].left)) if is_new(line, known)]
    failures = [line for tally in tallies.values() for line in tally.failed]
    print("\n".join(f"left: {line}" for line in left + [f"{name} nothing" for tally in tallies.values() for name in sorted(tally.nothing)]))
    print("\n".join(failures))
    if new:
        print("left, and not in fallbacks.txt:\n" + "\n".join(new))
    numbers = {dtype: tally.numbers() for dtype, tally in tallies.items()}
    for dtype, row in numbers.items():
        print(f"{dtype}: " + ", ".join(f"{value} {name}" for name, value in row.items()))
    if out:
        pathlib.Path(out).write_text(json.dumps({"torch": torch.__version__, "types": numbers, "left": left, "failures": failures}, indent=1) + "\n")
    total = sum(row["samples"] for row in numbers.values())
    return 1 if failures or not total or (new and not surveyed) else 0


if __name__ == "__main__":
    sys.exit(main())
