#!/usr/bin/env python3
"""KernelBench's problems through torch.compile(backend="sketchc"): what was taken, whether it is right, how long it takes.

    harness.py --kernelbench DIR --level 1|2|3 [--only 1,5-9] [--device cuda|cpu] [--small] [--out FILE.jsonl]
               [--compare eager,compile,max-autotune] [--trials 10] [--precision tf32x3] [--dtype f32|bf16|f16] [--slower leave|take] [--shard K/N]

DIR is a checkout of ScalingIntelligence/KernelBench. Each problem's Model is built twice with seed 42, the second one compiled by this
backend. Right by KernelBench's rule: five inputs of its seeds, absolute and relative tolerance 1e-4 in f32, 1e-2 in f16 and bf16, no
eval(). Right by ours: against the model in float64, at most four times as far off as eager, and eight roundings of the largest element more.
Times are interleaved with those of --compare, the L2 cache is flushed before each; the mean of --trials counts, as in KernelBench.
--small shrinks the sizes, for processors. One JSON line a problem goes to --out; the table to standard output."""
import argparse
import ast
import copy
import json
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools" / "torch"))
import torch  # noqa: E402

import sketchc.backend as backend  # noqa: E402

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 1e-2, torch.float16: 1e-2}
# Level 2: the output does not depend on the input, is zero throughout, or a constant; or collapses algebraically.
DEGENERATE = {2: {9, 23, 36, 80, 83, 38, 45, 84, 14, 18, 42, 44, 51}}
SEED = 42


# ---- Problems ----

class _Shrink(ast.NodeTransformer):
    """Sizes in assignments at the top of a problem's file, made small: batches to 2, long axes to some tens."""

    def visit_Assign(self, node):
        try:
            value = eval(compile(ast.Expression(node.value), "size", "eval"), {"__builtins__": {}})
        except Exception:
            return node
        name = getattr(node.targets[0], "id", "")
        if isinstance(value, int) and not isinstance(value, bool):
            node.value = ast.copy_location(ast.Constant(shrunk(name, value)), node.value)
        return node

    def visit_FunctionDef(self, node):
        return node

    def visit_ClassDef(self, node):
        return node


def shrunk(name, value):
    name = name.lower()
    if name.startswith("batch") and value > 2:
        return 2
    if name in ("height", "width", "depth", "h", "w", "d") or "length" in name or "size" in name and value >= 32:
        return min(value, 16 + value % 3)
    return value if value <= 64 else 64 if value % 64 == 0 else 60 + value % 5


def load(path, small):
    """The names of a problem's file."""
    tree = ast.parse(path.read_text(), str(path))
    if small:
        tree = ast.fix_missing_locations(_Shrink().visit(tree))
    names = {"__name__": path.stem}
    exec(compile(tree, str(path), "exec"), names)
    return names


def problems(folder, level, only):
    paths = sorted((folder / "KernelBench" / f"level{level}").glob("*.py"), key=lambda p: int(p.name.split("_")[0]))
    return [(number, p) for p in paths if (number := int(p.name.split("_")[0])) in only or not only]


class Problem:
    """One problem's models and inputs, as KernelBench makes them."""

    def __init__(self, path, options):
        self.names, self.device, self.dtype = load(path, options.small), options.device, DTYPES[options.dtype]

    def model(self):
        torch.manual_seed(SEED)
        given = self.names["get_init_inputs"]()
        torch.manual_seed(SEED)
        return self.names["Model"](*given).to(device=self.device, dtype=self.dtype)

    def inputs(self, seed):
        torch.manual_seed(seed)
        return [x.to(device=self.device, dtype=self.dtype) if isinstance(x, torch.Tensor) else x for x in self.names["get_inputs"]()]


def seeds(count):
    torch.manual_seed(SEED)
    return [torch.randint(0, 2**32 - 1, (1,)).item() for _ in range(count)]


# ---- Right or wrong ----

def by_their_rule(problem, model, fast, trials):
    """How many of KernelBench's trials pass, and the largest difference."""
    passed, worst = 0, 0.0
    for seed in seeds(trials):
        given = problem.inputs(seed)
        torch.manual_seed(seed)
        wanted = model(*given)
        torch.manual_seed(seed)
        got = fast(*given)
        tolerance = TOLERANCES[problem.dtype]
        passed += got.shape == wanted.shape and torch.allclose(wanted, got, atol=tolerance, rtol=tolerance)
        worst = max(worst, (wanted.float() - got.float()).abs().max().item())
    return passed, worst


def by_our_rule(problem, model, fast):
    """The error against float64 over what is allowed; None where the model cannot run in float64."""
    exact_model = copy.deepcopy(model).double()
    given = problem.inputs(SEED + 1)
    wide = [x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in given]
    try:
        torch.manual_seed(SEED)
        exact = exact_model(*wide)
    except RuntimeError:  # of memory, or of types
        return None
    torch.manual_seed(SEED)
    ours = (fast(*given).double() - exact).abs().max().item()
    torch.manual_seed(SEED)
    own = (model(*given).double() - exact).abs().max().item()
    allowed = 4 * own + 8 * torch.finfo(problem.dtype).eps * exact.abs().max().item()
    return ours / allowed if allowed else float(ours > 0)


# ---- Times ----

class Clock:
    """Times one call on a device, its L2 cache flushed before."""

    def __init__(self, device):
        self.cuda = torch.device(device).type == "cuda"
        self.flush = torch.empty(64 << 20, dtype=torch.int32, device=device) if self.cuda else None

    def __call__(self, function, given):
        if not self.cuda:
            start = time.perf_counter()
            function(*given)
            return time.perf_counter() - start
        self.flush.zero_()
        torch.cuda.synchronize()
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        function(*given)
        last.record()
        torch.cuda.synchronize()
        return first.elapsed_time(last) / 1000


def timed(functions, given, trials, device):
    """Milliseconds of each function, interleaved."""
    clock, times = Clock(device), {name: [] for name in functions}
    for name, function in functions.items():
        for _ in range(3):
            clock(function, given)
    for _ in range(trials):
        for name, function in functions.items():
            times[name].append(clock(function, given))
    return {name: 1000 * statistics.mean(t) for name, t in times.items()}


def rivals(problem, names):
    """The ways to compare with, each with a model of its own."""
    ways = {"eager": lambda m: m, "compile": torch.compile, "max-autotune": lambda m: torch.compile(m, mode="max-autotune-no-cudagraphs")}
    return {name: ways[name](problem.model()) for name in names}


# ---- One problem ----

def compiled(problem, options):
    """The model through this backend, its report, and how long compiling took."""
    given = {"precision": options.precision, "loud": False, "nested": options.nested, "slower": options.slower}
    fast = torch.compile(problem.model(), backend="sketchc", options={k: v for k, v in given.items() if v is not None})
    start = time.perf_counter()
    with backend.reporting() as report:
        fast(*problem.inputs(SEED))
    return fast, report, time.perf_counter() - start


def run(number, path, options):
    torch._dynamo.reset()
    row = {"level": options.level, "problem": number, "name": path.stem, "degenerate": number in DEGENERATE.get(options.level, ())}
    try:
        problem = Problem(path, options)
        fast, report, row["compile_s"] = compiled(problem, options)
        row["whole"] = report.whole
        row["regions"] = sum(len(g.regions) for g in report.graphs)
        row["left"] = sorted({f"{op}: {why}" for g in report.graphs for op, why in g.left.values()})
        row["refused"] = [backend.first_line(r.diagnostic) for g in report.graphs for r in g.refusals]
        model = problem.model()
        row["passed"], row["difference"] = by_their_rule(problem, model, problem_model(problem, fast), options.correct)
        row["error"] = by_our_rule(problem, model, fast)
        if options.compare:
            row["ms"] = timed({"sketchc": fast, **rivals(problem, options.compare)}, problem.inputs(SEED), options.trials, options.device)
    except Exception as error:
        row["exception"] = f"{type(error).__name__}: {str(error)[-400:]}"
    return row


def problem_model(problem, fast):
    """A model whose buffers are those of a fresh one: the first call, which compiled, has moved running statistics."""
    fresh = problem.model()
    fast._orig_mod.load_state_dict(fresh.state_dict())
    return fast


# ---- The table ----

def line(row, options):
    head = f"{row['problem']:4} {row['name'][:44]:44}"
    if "exception" in row:
        return f"{head} FAILED {row['exception'].splitlines()[0][:100]}"
    right = "right" if row["passed"] == options.correct else f"WRONG by {row['difference']:.2g}"
    own = "" if row["error"] is None else f" {row['error']:.2f} of the bound"
    left = "" if row["whole"] else f", left: {'; '.join(row['left'])[:80]}"
    times = "".join(f", {name} {ms:.3f} ms" for name, ms in row.get("ms", {}).items())
    return f"{head} {right}{own}, {row['regions']} regions{times}{left}"


def closing(rows, options):
    done = [r for r in rows if "exception" not in r]
    yield (f"level {options.level}: {len(rows)} problems, {sum(r['passed'] == options.correct for r in done)} right by KernelBench's rule, "
           f"{sum(r['error'] is not None and r['error'] <= 1 for r in done)} by ours, {sum(r['whole'] for r in done)} taken whole")
    for name in options.compare:
        ratios = [r["ms"][name] / r["ms"]["sketchc"] for r in done if "ms" in r and r["passed"] == options.correct]
        if ratios:
            real = [r["ms"][name] / r["ms"]["sketchc"] for r in done if "ms" in r and r["passed"] == options.correct and not r["degenerate"]]
            means = [statistics.geometric_mean(x) for x in (ratios, real or ratios)]
            yield f"over {name}: {means[0]:.2f} (geometric mean of {len(ratios)}), {means[1]:.2f} without the degenerate ones"


def numbers(text):
    result = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        result |= set(range(int(first), int(last or first) + 1))
    return result


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernelbench", type=pathlib.Path, required=True)
    parser.add_argument("--level", type=int, required=True)
    parser.add_argument("--only", type=numbers, default=set())
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--compare", type=lambda t: [n for n in t.split(",") if n], default=["eager", "compile"])
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--correct", type=int, default=5)
    parser.add_argument("--precision")
    parser.add_argument("--nested", default="eager")
    parser.add_argument("--slower", default="leave")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--shard", default="0/1")
    return parser.parse_args()


def main():
    options = parsed()
    shard, count = map(int, options.shard.split("/"))
    rows = []
    with torch.no_grad():
        for k, (number, path) in enumerate(problems(options.kernelbench, options.level, options.only)):
            if k % count != shard:
                continue
            rows.append(run(number, path, options))
            print(line(rows[-1], options), flush=True)
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    print("\n".join(closing(rows, options)))
    return 0 if all(r.get("passed") == options.correct for r in rows) else 3


if __name__ == "__main__":
    sys.exit(main())
