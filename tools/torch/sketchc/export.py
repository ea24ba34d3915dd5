"""Shared objects with a C interface of kernels for processors: a program that links one needs neither Python nor libsketchc.

    python3 -m sketchc.export --abi=c|tvm-ffi FILE -o NAME.so      FILE: an artifact (.ska), a sketch or an operator

Written are NAME.so, NAME.h (abi c) and NAME.c, from which the system's compiler made the former. abi c: functions NAME and
NAME_workspace, which the header describes. abi tvm-ffi: __tvm_ffi_NAME of apache-tvm-ffi 0.1: tensors in order of declaration, results
among them, then scalars, then the symbols that no extent tells.

`sketchc.export(subject, path)` is `export` below; a torch.export.ExportedProgram becomes one kernel with its weights beside it (program.py).
"""
import argparse
import ast
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import types

from . import _native
from .arrays import DTYPES
from .errors import Error
from .kernel import Kernel, compile

_C_TYPES = {"f64": "double", "f32": "float", "i64": "int64_t", "i32": "int32_t", "i16": "int16_t", "i8": "int8_t", "u64": "uint64_t",
            "u32": "uint32_t", "u16": "uint16_t", "u8": "uint8_t", "bool": "uint8_t"}

_PRELUDE = """
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Division of sizes rounds down. */
static inline int64_t plan_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static inline int64_t plan_mod(int64_t a, int64_t b) { return a - plan_div(a, b) * b; }
static inline int64_t plan_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t plan_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t plan_ceildiv(int64_t a, int64_t b) { return -plan_div(-a, b); }
"""

_TVM = """
/* ---- apache-tvm-ffi: its structures as version 0.1 declares them ---- */

#include <dlfcn.h>

typedef struct {
    void *data;
    struct { int32_t type, id; } device;
    int32_t ndim;
    struct { uint8_t code, bits; uint16_t lanes; } dtype;
    const int64_t *shape, *strides;
    uint64_t byte_offset;
} PlanTensor;
typedef struct {
    int32_t type_index;
    uint32_t padding;
    union { int64_t integer; double number; char *object; } value;
} PlanAny;
enum { PLAN_INT = 1, PLAN_BOOL = 2, PLAN_FLOAT = 3, PLAN_DLTENSOR = 7, PLAN_TENSOR = 70, PLAN_OBJECT_HEAD = 24 };

static int plan_fail(const char *kind, const char *text, const char *name, long long value) {
    char message[256];
    void *symbol = dlsym(RTLD_DEFAULT, "TVMFFIErrorSetRaisedFromCStr");
    void (*raise)(const char *, const char *);
    snprintf(message, sizeof message, text, name, value);
    memcpy(&raise, &symbol, sizeof raise);
    if (symbol) raise(kind, message);
    return -1;
}

static const PlanTensor *plan_tensor(const PlanAny *a) {
    const char *at = a->value.object;
    if (a->type_index == PLAN_TENSOR) at += PLAN_OBJECT_HEAD;
    return a->type_index == PLAN_TENSOR || a->type_index == PLAN_DLTENSOR ? (const PlanTensor *)(const void *)at : NULL;
}

static double plan_number(const PlanAny *a) {
    return a->type_index == PLAN_FLOAT ? a->value.number : (double)a->value.integer;
}

/* That a tensor is what it has to be, in memory without gaps. */
static int plan_check(const PlanTensor *t, const char *name, unsigned code, unsigned bits, int rank, const int64_t *shape) {
    int64_t packed = 1;
    if (t->device.type != 1 && t->device.type != 3) return plan_fail("ValueError", "'%s' has to be on the CPU (device type %lld)", name, t->device.type);
    if (t->dtype.code != code || t->dtype.bits != bits || t->dtype.lanes != 1) return plan_fail("TypeError", "'%s' has another dtype, of %lld bits", name, t->dtype.bits);
    for (int i = 0; i < rank; i++)
        if (t->shape[i] != shape[i]) return plan_fail("ValueError", "'%s' has another extent than the tensors before it tell: %lld", name, t->shape[i]);
    for (int i = rank; i-- > 0; packed *= shape[i])
        if (t->strides && shape[i] > 1 && t->strides[i] != packed) return plan_fail("ValueError", "'%s' is not contiguous along axis %lld", name, i);
    return 0;
}
"""


class _Plan:
    """What an artifact says of its launch."""

    def __init__(self, data):
        size = int.from_bytes(data[12:16], "little")
        self.plan = json.loads(data[40:40 + size])
        base = (40 + size + 15) // 16 * 16
        if self.plan["target"] != "cpu":
            raise Error("only kernels for processors are exported; those for GPUs are launched through libsketchc", _native.USAGE_ERROR)
        blobs = [b for b in self.plan["blobs"] if b["kind"] == "c"]
        if not blobs:
            raise Error("the artifact holds no C", _native.SOURCE_ERROR)
        self.code = data[base + blobs[0]["offset"]:base + blobs[0]["offset"] + blobs[0]["size"]].decode()
        self.arch = blobs[0]["arch"]
        self.params = self.plan["params"]
        self.names = [re.sub(r"\W", "_", p["name"]) for p in self.params]

    def of(self, kind):
        return [i for i, p in enumerate(self.params) if p["kind"] == kind]

    def symbols(self):
        """Those that a caller gives."""
        return [i for i in self.of("symbol") if "derived" not in self.params[i]]

    # -- formulas --

    def formula(self, text):
        return self._print(ast.parse(text, mode="eval").body)

    def _print(self, node):
        if isinstance(node, ast.Constant):
            return f"INT64_C({node.value})"
        if isinstance(node, ast.Name):
            return {"num_sms": "(int64_t)omp_get_num_procs()", "num_cores": "(int64_t)omp_get_num_procs()"}.get(node.id, f"s_{node.id}")
        if isinstance(node, ast.UnaryOp):
            return f"(-{self._print(node.operand)})"
        if isinstance(node, ast.Call):
            return f"plan_{node.func.id}({', '.join(map(self._print, node.args))})"
        left, right = self._print(node.left), self._print(node.right)
        calls = {ast.FloorDiv: "plan_div", ast.Mod: "plan_mod"}
        if type(node.op) in calls:
            return f"{calls[type(node.op)]}({left}, {right})"
        return f"({left} {({ast.Add: '+', ast.Sub: '-', ast.Mult: '*'})[type(node.op)]} {right})"


def _pointer(param):
    kind = _C_TYPES.get(param["dtype"], "void")
    return ("const " if param["direction"] == "in" else "") + kind + " *"


def _signature(plan, name):
    tensors = [_pointer(plan.params[i]) + "t_" + plan.names[i] for i in plan.of("tensor")]
    symbols = ["int64_t s_" + plan.names[i] for i in plan.symbols()]
    scalars = [f"{_C_TYPES.get(plan.params[i]['dtype'], 'float')} v_{plan.names[i]}" for i in plan.of("scalar")]
    return f"int {name}({', '.join([*tensors, *symbols, *scalars, 'void *workspace'])})"


def _size_signature(plan, name):
    return f"int64_t {name}_workspace({', '.join('int64_t s_' + plan.names[i] for i in plan.symbols()) or 'void'})"


def _header(plan, name):
    shapes = [f"{plan.params[i]['name']}[{', '.join(plan.params[i].get('extents', []))}]: {plan.params[i]['dtype']}, {plan.params[i]['direction']}"
              for i in plan.of("tensor")]
    lines = "\n".join(f" *   {s}" for s in shapes)
    return f"""/* {plan.plan['name']}, made by sketchc {plan.plan['tool']} for {plan.arch}. */
#ifndef {name.upper()}_H
#define {name.upper()}_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {{
#endif

/* Bytes of a launch's workspace at these sizes, 0: none; -1: sizes that the kernel does not take. */
{_size_signature(plan, name)};
/* Tensors are contiguous, row by row; of those without a C type (f16, bf16, f8) the bits:
{lines}
 * The workspace is the caller's, aligned to 256 bytes. 0: done; 1: sizes that the kernel does not take, or no workspace where one is wanted;
 * 2: no version of the code takes these addresses; else what a kernel returned. Nothing is allocated. */
{_signature(plan, name)};

#ifdef __cplusplus
}}
#endif
#endif
"""


def _sizes(plan):
    """Statements that check the symbols, and derive others."""
    out = [f"    if (s_{plan.names[i]} < 0) return FAILED;" for i in plan.symbols()]
    for i in plan.of("symbol"):
        derived = plan.params[i].get("derived")
        if derived and plan.params[i]["name"] not in ("num_sms", "num_cores"):
            out += [f"    const int64_t s_{plan.names[i]} = {plan.formula(derived)};", f"    (void)s_{plan.names[i]};"]
    for c in plan.plan["constraints"]:
        out.append(f"    if (!({plan.formula(c['expr'])} {'==' if c['equal'] else '>='} 0)) return FAILED;")
    return out


def _bytes(plan, i):
    param = plan.params[i]
    size = DTYPES[param["dtype"]][1] // 8
    if param["kind"] == "workspace":
        return f"({plan.formula(param['elements'])}) * {size}"
    return " * ".join([f"INT64_C({size})", *[plan.formula(e) for e in param["extents"]]])


def _workspaces(plan):
    out = ["    int64_t used = 0;"]
    for i in plan.of("workspace"):
        out += [f"    const int64_t o_{plan.names[i]} = used;", f"    used += ({_bytes(plan, i)} + 255) / 256 * 256;",
                f"    (void)o_{plan.names[i]};"]
    return out


def _argument(plan, i):
    param, name = plan.params[i], plan.names[i]
    if param["kind"] == "tensor":
        return f"(void *)(uintptr_t)t_{name}"
    return {"symbol": f"s_{name}", "scalar": f"v_{name}"}.get(param["kind"], f"((char *)workspace + o_{name})")


def _step(plan, step):
    if step["kind"] == "memset":
        return [f"    memset({_argument(plan, step['param'])}, {step['byte']}, (size_t)({_bytes(plan, step['param'])}));"]
    out = ["    status = 2;"]
    for at, version in enumerate(step["versions"]):
        conditions = [f"{plan.formula(version['guard'])} > 0"] if version.get("guard") else []
        align = version.get("align", 1)
        for i in version["args"]:
            if align > 1 and plan.params[i]["kind"] in ("tensor", "workspace"):
                conditions.append(f"(uintptr_t){_argument(plan, i)} % {align} == 0")
        call = f"status = plan_kernel_{version['entry']}({', '.join(_argument(plan, i) for i in version['args'])});"
        out.append(f"    {'else ' if at else ''}if ({' && '.join(conditions) or '1'}) {call}")
    return [*out, "    if (status) return status;"]


def _launch(plan, name):
    visible = '__attribute__((visibility("default"))) '
    size = [f"{visible}{_size_signature(plan, name)};", f"{_size_signature(plan, name)} {{", "#define FAILED -1", *_sizes(plan), *_workspaces(plan),
            "    return used;", "#undef FAILED", "}"]
    run = [f"{visible}{_signature(plan, name)};", f"{_signature(plan, name)} {{", "#define FAILED 1", "    int status = 0;", *_sizes(plan),
           *_workspaces(plan), "    if (used && !workspace) return 1;"]
    for step in plan.plan["steps"]:
        run += _step(plan, step)
    return "\n".join([*size, "", *run, "    return status;", "#undef FAILED", "}"]) + "\n"


def _tvm_symbols(plan):
    """Where a symbol's value comes from: tensor and axis, or None: an argument."""
    found = {}
    for i in plan.symbols():
        places = [(t, d) for t in plan.of("tensor") for d, e in enumerate(plan.params[t]["extents"]) if e == plan.params[i]["name"]]
        found[i] = places[0] if places else None
    return found


def _tvm(plan, name):
    tensors, scalars, sources = plan.of("tensor"), plan.of("scalar"), _tvm_symbols(plan)
    loose = [i for i, place in sources.items() if place is None]
    count = len(tensors) + len(scalars) + len(loose)
    out = [f'__attribute__((visibility("default"))) int __tvm_ffi_{name}(void *self, const PlanAny *args, int32_t n, PlanAny *result);',
           f"int __tvm_ffi_{name}(void *self, const PlanAny *args, int32_t n, PlanAny *result) {{", "    (void)self;",
           f'    if (n != {count}) return plan_fail("TypeError", "%s takes {count} arguments, given are %lld", "{name}", n);']
    for at, i in enumerate(tensors):
        own, rank = plan.names[i], len(plan.params[i]["extents"])
        out += [f"    const PlanTensor *p_{own} = plan_tensor(&args[{at}]);",
                f'    if (!p_{own}) return plan_fail("TypeError", "\'%s\' is no tensor (type %lld)", "{own}", args[{at}].type_index);',
                f'    if (p_{own}->ndim != {rank}) return plan_fail("ValueError", "\'%s\' has rank {rank}, the given tensor has rank %lld", "{own}", p_{own}->ndim);']
    for i, place in sources.items():
        value = f"p_{plan.names[place[0]]}->shape[{place[1]}]" if place else f"args[{len(tensors) + len(scalars) + loose.index(i)}].value.integer"
        out.append(f"    const int64_t s_{plan.names[i]} = {value};")
    out += [f"    const double v_{plan.names[i]} = plan_number(&args[{len(tensors) + at}]);" for at, i in enumerate(scalars)]
    sizes = ", ".join("s_" + plan.names[i] for i in plan.symbols())
    out += [f"    const int64_t bytes = {name}_workspace({sizes});",
            f'    if (bytes < 0) return plan_fail("ValueError", "%s does not take these sizes%.0lld", "{name}", 0);', "#define FAILED -1",
            *[line for line in _sizes(plan) if "const int64_t" in line or "(void)" in line], "#undef FAILED"]
    for i in tensors:
        code, bits = DTYPES[plan.params[i]["dtype"]]
        shape = ", ".join(map(plan.formula, plan.params[i]["extents"])) or "0"
        out.append(f"    if (plan_check(p_{plan.names[i]}, \"{plan.names[i]}\", {code}, {bits}, {len(plan.params[i]['extents'])}, "
                   f"(const int64_t[]){{{shape}}})) return -1;")
    data = [f"(void *)((char *)p_{plan.names[i]}->data + p_{plan.names[i]}->byte_offset)" for i in tensors]
    values = [f"({_C_TYPES.get(plan.params[i]['dtype'], 'float')})v_{plan.names[i]}" for i in scalars]
    arguments = ", ".join([*data, *["s_" + plan.names[i] for i in plan.symbols()], *values, "workspace"])
    out += ["    void *workspace = bytes ? aligned_alloc(256, (size_t)bytes) : NULL;",
            f"    int status = bytes && !workspace ? -1 : {name}({arguments});", "    free(workspace);", "    memset(result, 0, sizeof *result);",
            f'    return status ? plan_fail("RuntimeError", "%s returned %lld", "{name}", status) : 0;', "}"]
    return "\n".join(out) + "\n"


def _renamed(plan):
    """The kernels' code; a kernel may be called as the shared object is."""
    entries = [v["entry"] for step in plan.plan["steps"] for v in step.get("versions", [])]
    return ("".join(f"#define {e} plan_kernel_{e}\n" for e in entries) + plan.code + "\n" + "".join(f"#undef {e}\n" for e in entries))


def source(data, name, abi="c"):
    """The C of an artifact's bytes: its kernels and the functions around them, and the header."""
    plan = _Plan(data)
    if any("strides" in p for p in plan.params):
        raise Error("kernels whose tensors have strides are not exported", _native.USAGE_ERROR)
    text = _renamed(plan) + _PRELUDE + _launch(plan, name)
    return text + (_TVM + _tvm(plan, name) if abi == "tvm-ffi" else ""), _header(plan, name)


def export(subject, path, *, abi="c", **options):
    """Writes the shared object `path`, its C and, for abi "c", its header, whose paths are returned. subject: a Kernel, or what `compile`
    takes, with its options (`arch` counts: "x86-64-v3" runs on more machines than this one); or a torch.export.ExportedProgram, for which its
    weights are written, too, and where each stands (`precision`: of its products)."""
    if type(subject).__name__ == "ExportedProgram":
        from .program import export_program
        return export_program(subject, path, abi=abi, **options)
    if abi not in ("c", "tvm-ffi"):
        raise Error(f'abi is "c" or "tvm-ffi", not {abi!r}', _native.USAGE_ERROR)
    kernel = subject if isinstance(subject, Kernel) else compile(subject, target="cpu", **options)
    path = pathlib.Path(path)
    name = re.sub(r"\W", "_", path.stem)
    text, header = source(kernel.artifact, name, abi)
    code, written = path.with_suffix(".c"), [path, path.with_suffix(".c")]
    code.write_text(text)
    if abi == "c":
        path.with_suffix(".h").write_text(header)
        written.append(path.with_suffix(".h"))
    compiler = shlex.split(os.environ.get("CC", "cc"))
    command = [*compiler, "-std=gnu17", "-O3", f"-march={kernel.arch}", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fopenmp", "-fPIC",
               "-shared", "-fvisibility=hidden", "-Wl,-Bsymbolic", "-o", str(path), str(code), "-lm", "-ldl"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise Error(f"{shlex.join(command)}: {run.stderr[:2000]}", _native.BUG)
    return written


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="sketchc.export", description="a shared object of a kernel for processors")
    parser.add_argument("file")
    parser.add_argument("--abi", default="c", choices=["c", "tvm-ffi"])
    parser.add_argument("--arch")
    parser.add_argument("-o", "--output", required=True)
    given = parser.parse_args(arguments)
    try:
        for path in export(given.file, given.output, abi=given.abi, **({"arch": given.arch} if given.arch else {})):
            print(path)
    except Error as error:
        sys.exit(f"{error}")


class _Callable(types.ModuleType):
    """This module as the function."""

    def __call__(self, subject, path, **options):
        return export(subject, path, **options)


sys.modules[__name__].__class__ = _Callable

if __name__ == "__main__":
    main()
