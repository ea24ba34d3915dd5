"""The models of bench/torch/zoo.py at small sizes against eager: results, gradients and what a step writes into buffers.

The short run draws one model a day, --long runs all; names of models on the command line run these."""
import copy
import pathlib
import sys

import common
import torch
from common import backend, daily

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "torch"))
import zoo  # noqa: E402

RATE = 9
# What goes to the nested backend, by model: operations. No other may.
LEFT = {}


def step(entry, model, inputs):
    """Its result, gradients and buffers."""
    if entry.kind != "training":
        with torch.no_grad():
            return [model(*inputs).clone(), *[b.clone() for b in model.buffers()]]
    result = model(*inputs)
    (result * torch.linspace(0.5, 1, result.numel(), dtype=result.dtype).view(result.shape)).sum().backward()
    return [result.detach(), *[p.grad for p in model.parameters()], *model.buffers()]


def wide_step(entry, model, *inputs):
    return step(entry, copy.deepcopy(model).double(), common.wide(inputs))


def rounded(entry, model, inputs):
    """The step in double precision with the roundings of float32, of its weights, too."""
    def run(inputs, state):
        own = copy.deepcopy(model).double()
        own.load_state_dict(state)
        return step(entry, own, inputs)
    return common.rounded(run, [inputs, model.state_dict()], torch.finfo(torch.float32).eps, draws=2)


def check(name):
    entry = zoo.ENTRIES[name]
    model, inputs = entry.made("small")
    if entry.kind != "training":
        model.eval()
    torch._dynamo.reset()
    ours = copy.deepcopy(model)
    with backend.reporting() as report:
        made = step(entry, torch.compile(ours, backend="sketchc", fullgraph=True, options={"loud": False}), inputs)
    common.hold(name, made, step(entry, copy.deepcopy(model), inputs), wide_step(entry, model, *inputs), rounded(entry, model, inputs))
    left = {operation for graph in report.graphs for operation, _ in graph.left.values()}
    assert left == set(LEFT.get(name, ())) and any(g.regions for g in report.graphs), f"{name}:\n{report}"


def main():
    names, failed = sys.argv[3:] or daily.drawn(zoo.ENTRIES, RATE), 0
    for name in names:
        try:
            check(name)
            print(f"ok {name}", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAIL {name}: {type(error).__name__} {str(error)[:1500]}")
    print(f"{len(names) - failed} of {len(names)} models agree")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
