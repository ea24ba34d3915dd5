"""A torch.export.ExportedProgram as a shared object for processors, with its weights beside it."""
import json
import pathlib
import re

import torch

from . import importer
from .backend import Options, decompositions
from .errors import Error
from .importer_text import TYPES, NotTaken, expression
from .kernel import compile as compile_kernel

ALIGNED = 64  # bytes, of each weight in the file


def operator_of(program, name="model", precision=None):
    """The program as one operator: an importer.Imported. Error where an operation is left, or a buffer is written."""
    program = program.run_decompositions(decompositions())
    signature = program.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate:
        raise Error(f"the program writes {', '.join([*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()])}: export it in eval()", 2)
    _check_taken(program.graph)
    try:
        return program, importer.import_graph(program.graph_module, name, precision or Options().precision_of(program.graph))
    except NotTaken as error:
        raise Error(f"{error.node}: {error}", 1) from error


def _check_taken(graph):
    left = {f"{n.target}: {why}" for n in graph.nodes if n.op == "call_function" and (why := importer.refusal(n))}
    if left:
        raise Error("an operator has no " + "; ".join(sorted(left)), 1)


def _weights(program, imported):
    """Name in the program, name in the operator, tensor: in the order of the inputs."""
    signature = program.graph_signature
    named = {**signature.inputs_to_parameters, **signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    found = []
    for node, binding in zip(program.graph.find_nodes(op="placeholder"), imported.inputs, strict=True):
        own = named.get(node.name)
        if own is None or not isinstance(binding, importer.Binding):
            continue
        tensor = program.state_dict[own] if own in program.state_dict else program.constants[own]
        tensor = tensor.detach().cpu()
        found.append((own, binding, tensor.permute(binding.order) if binding.order else tensor))
    return found


def _described(binding, imported):
    """Sizes that are symbols by the operator's names."""
    named = {size: name for name, size in imported.symbols.items()}
    sizes = [size if isinstance(size, int) else str(expression(size).subs(named)) for size in binding.held_shape()]
    return {"tensor": binding.name, "dtype": TYPES[binding.dtype], "shape": sizes, **({"axes": binding.order} if binding.order else {})}


def write_weights(program, imported, path):
    """PATH.weights, all bytes with each tensor at a multiple of 64, and PATH.json, which says where, and what the inputs and results are."""
    listed, data = [], bytearray()
    for own, binding, tensor in _weights(program, imported):
        data += bytes(-len(data) % ALIGNED)
        raw = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        listed.append({"name": own, **_described(binding, imported), "offset": len(data), "bytes": len(raw)})
        data += raw
    held = {w["tensor"] for w in listed}
    inputs = [_described(b, imported) for b in imported.inputs if isinstance(b, importer.Binding) and b.name not in held]
    whole = {"weights": listed, "inputs": inputs, "results": [_described(b, imported) for b in imported.outputs if b is not None]}
    path.with_suffix(".weights").write_bytes(data)
    path.with_suffix(".json").write_text(json.dumps(whole, indent=1) + "\n")
    return [path.with_suffix(".weights"), path.with_suffix(".json")]


def header_of(name, written):
    """Where each weight stands in the file, for programs in C: NAME_TENSOR and NAME_WEIGHT_BYTES."""
    told = json.loads(written.with_suffix(".json").read_text())
    lines = [f"    {name.upper()}_{w['tensor']} = {w['offset']}, /* {w['name']}: {w['dtype']}{w['shape']} */" for w in told["weights"]]
    lines.append(f"    {name.upper()}_WEIGHT_BYTES = {max((w['offset'] + w['bytes'] for w in told['weights']), default=0)}")
    return "\n".join([f"/* Where the tensors of {name}.weights begin. */", f"#ifndef {name.upper()}_WEIGHTS_H", f"#define {name.upper()}_WEIGHTS_H", "enum {",
                      *lines, "};", "#endif", ""])


def export_program(program, path, *, abi="c", precision=None, **options):
    """What `export` writes for the program as one kernel, and NAME.weights, NAME.json and NAME_weights.h; the paths."""
    from .export import export
    path = pathlib.Path(path)
    name = re.sub(r"\W", "_", path.stem)
    program, imported = operator_of(program, name, precision)
    kernel = compile_kernel(imported.text, target="cpu", **options)
    written = export(kernel, path, abi=abi) + write_weights(program, imported, path)
    header = path.with_name(f"{path.stem}_weights.h")
    header.write_text(header_of(name, path))
    return [*written, header]
