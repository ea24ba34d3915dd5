"""Cuts a graph into regions: what the table of operations takes, and what goes to the nested backend.

Each node has a level. A step from a taken node to a nested one, or back, raises it by one, so no path leaves a level and comes back to
it: the nodes of a level are convex."""
import operator

import torch
from torch.fx.passes.split_module import split_module

from .importer import refusal

HEAVY = ("convolution", "convolution_backward", "mm", "addmm", "bmm", "baddbmm")
FREE = ("view", "_unsafe_view", "reshape", "expand", "permute", "transpose", "t", "slice", "select", "squeeze", "unsqueeze", "split",
        "split_with_sizes", "unbind", "alias", "detach", "full", "full_like", "scalar_tensor", "zeros", "ones", "lift_fresh_copy")
CONTINUED = 16  # products of one region


def base_name(node):
    """`mm` of aten.mm.default."""
    return str(node.target).split(".")[1] if "." in str(node.target) else str(node.target)


def is_free(node):
    return node.op != "call_function" or node.target is operator.getitem or base_name(node) in FREE


def _is_size(node):
    return isinstance(node.meta.get("val"), torch.SymInt | int | float | bool | torch.SymBool | torch.SymFloat)


class Decision:
    """Who computes a node: `taken`, or else `reason`."""

    def __init__(self, refused):
        self.refused, self.reasons = refused, {}

    def taken(self, node):
        if node.target is operator.getitem:
            return self.taken(node.args[0])
        if node not in self.reasons:
            self.reasons[node] = self.refused.get(node.name) or refusal(node)
        return self.reasons[node] is None


def _is_random(node):
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def levels(graph, decision, apart=()):
    """The level of each node that calls something: even ones are taken. `apart`: nodes that the nested backend gets in any case. Random
    ones keep their order."""
    found, drawn = {}, -1
    for node in graph.nodes:
        if node.op not in ("call_function", "call_module", "call_method"):
            continue
        before = [found[n] for n in node.all_input_nodes if n in found]
        taken = node not in apart and not _is_size(node) and decision.taken(node)
        least = max(before, default=-1)
        found[node] = least + (least % 2 if taken else 1 - least % 2)
        if _is_random(node):
            drawn = found[node] = max(found[node], drawn)
    return found


def _is_view(node):
    """Whether the node's value is memory of its first operand's."""
    if node.target is operator.getitem:
        return _is_view(node.args[0])
    returns = getattr(getattr(node.target, "_schema", None), "returns", ())
    return any(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def _views_apart(graph, found):
    """Results of the graph, and operands of nested nodes, that are views of a region's values become views in the nested backend, which
    share memory and have strides as in eager: copies of the nodes, which are returned."""
    made = {}

    def copy(node):
        if found.get(node, 1) % 2 or not _is_view(node):
            return node
        if node not in made:
            with graph.inserting_after(node):
                made[node] = graph.node_copy(node, copy)
        return made[node]
    seen = [n for n in graph.nodes if found.get(n, 1) % 2 == 0 and _is_view(n)]
    for node in seen:
        for user in list(node.users):
            if user.op == "output" or found.get(user, 0) % 2:
                user.replace_input_with(node, copy(node))
    for node in reversed(seen):
        if not node.users:
            graph.erase_node(node)
    return set(made.values())


def _parts(found):
    """The region of each node: its level; levels of many products are cut in front of every CONTINUED-th one."""
    heavy, result = {}, {}
    for node, level in found.items():
        if node.target is operator.getitem:
            result[node] = result[node.args[0]]
            continue
        heavy[level] = heavy.get(level, 0) + (base_name(node) in HEAVY)
        result[node] = (level, max(heavy[level] - 1, 0) // CONTINUED if level % 2 == 0 else 0)
    return result


def _free_regions(parts, found):
    """Regions that would only copy: their views cost nothing in the nested backend."""
    busy = {parts[n] for n in found if not is_free(n)}
    return {part for part in set(parts.values()) if part not in busy}


def split(gm, refused):
    """The graph as a GraphModule of submodules, the names of those that are taken, and why the others' nodes are not.
    `refused`: names of nodes that a row or the compiler did not take, with the reason."""
    decision = Decision(refused)
    found = levels(gm.graph, decision)
    apart = _views_apart(gm.graph, found)
    found = levels(gm.graph, decision, apart) if apart else found
    parts = _parts(found)
    free = _free_regions(parts, found)
    numbers = {part: k for k, part in enumerate(sorted(set(parts.values())))}
    taken = {numbers[parts[n]] for n in found if found[n] % 2 == 0 and parts[n] not in free}
    whole = divide(gm, {n: numbers[part] for n, part in parts.items()})
    left = {n.name: (str(n.target), why) for n, why in decision.reasons.items() if why}
    return whole, [f"submod_{k}" for k in sorted(taken)], left


def halves(gm, node):
    """The graph cut in front of a node (behind it, where it is the first that calls)."""
    called = [n for n in gm.graph.nodes if n.op not in ("placeholder", "get_attr", "output")]
    place = called.index(node) if node in called else len(called) // 2
    first = next(k for k, n in enumerate(called) if not is_free(n))
    place = _beside_parts(called, place if place > first else first + 1, first)
    return divide(gm, {n: int(k >= place) for k, n in enumerate(called)})


def _beside_parts(called, place, first):
    """A place behind `first` that parts no call from the items of its result: in front of the call, or else behind its last item."""
    before = place
    while called[before].target is operator.getitem:
        before -= 1
    if before > first:
        return before
    while called[place].target is operator.getitem:
        place += 1
    return place


def divide(gm, numbers):
    """`submod_N` for each number, in an order in which they can run."""
    _mend_meta(gm)
    whole = split_module(gm, gm, lambda node: numbers.get(node, 0))
    _put_in_order(whole)
    return whole


def _put_in_order(whole):
    """Parts run by their numbers, also where none of them reads another's results: random operations depend on it."""
    end = whole.graph.output_node()
    for call in sorted(whole.graph.find_nodes(op="call_module"), key=lambda n: int(n.target.removeprefix("submod_"))):
        items = [n for n in call.users if n.target is operator.getitem]
        for node in [call, *items]:
            end.prepend(node)
    whole.recompile()


def _mend_meta(gm):
    """Constants are inputs of the regions, so they need a shape and type."""
    for node in gm.graph.find_nodes(op="get_attr"):
        if "val" not in node.meta:
            target = gm
            for name in node.target.split("."):
                target = getattr(target, name)
            if isinstance(target, torch.Tensor):
                node.meta["val"] = target
