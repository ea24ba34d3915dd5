"""One small kernel for each hardware instruction that kernels use, made from the rows of ir/atoms.def, ir/wgmma.def and
emit/async.def, against the same operation on whole tensors. A row of those tables without a kernel fails.

atoms.py ROOT interpret PASS_CHECK     each interpreted on small integers, equal to the reference evaluator's result (under the
                                       sanitizers a third of them a day)
atoms.py ROOT assemble KERNEL_TOOL     as PTX by ptxas and as CUDA C by nvcc, for the architecture that it needs; half of them a day
atoms.py ROOT run KERNEL_TOOL          on the device: both codes' results equal the reference, and each other, bit for bit
atoms.py ROOT pack KERNEL_TOOL FOLDER [ARCH]   both codes assembled for ARCH (sm_90a), without a device
atoms.py ROOT device SKETCHC FOLDER    as run, of what pack left, on a machine that needs no compilers
atoms.py ROOT cuda KERNEL_TOOL [K/N]   CUDA C alone, with the driver of tests/cuda; of the kernels every N-th from the K-th on
atoms.py ROOT print                    the kernels"""
import concurrent.futures
import functools
import json
import operator
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import daily

SKIPPED = 77
SIZES = {"f16": 2, "bf16": 2, "f32": 4, "i8": 1, "u8": 1, "i32": 4, "f8e4m3": 1, "f8e5m2": 1}
DTYPES = {"s8": "i8", "e4m3": "f8e4m3", "e5m2": "f8e5m2", "tf32": "f32"}  # as PTX calls them


class Kernel:
    """The text of a kernel's body: values are named in the order of their making."""

    def __init__(self):
        self.text, self.count, self.depth = "", 0, 1

    def do(self, line):
        self.text += "    " * self.depth + line + "\n"

    def op(self, text, result="index", storage=""):
        self.count += 1
        self.do(f"%v{self.count}{storage} = {text} : {result}")
        return f"%v{self.count}"

    def const(self, value, result="index"):
        return self.op(f"const() {{value = {value}}}", result)

    def index(self, value):
        return value if isinstance(value, str) else self.const(value)

    def calc(self, op, a, b):
        return self.op(f"{op}({self.index(a)}, {self.index(b)})")

    def add(self, *terms):
        total = self.index(terms[0])
        for term in terms[1:]:
            total = self.calc("add", total, term)
        return total

    def mul(self, a, b):
        return self.calc("mul", a, b)

    def div(self, a, b):
        return self.calc("floordiv", a, b)

    def mod(self, a, b):
        return self.calc("mod", a, b)

    def special(self, name):
        return self.op(f'special() {{name = "{name}"}}')

    def shared(self, dtype, offset, count, align=128):
        return self.op(f"shared.ptr() {{offset = {offset}, bytes = {count * SIZES.get(dtype, 8)}, align = {align}}}", f"ptr<{dtype}, shared>")

    def load(self, pointer, at, dtype, width=1):
        kind = f"vec<{width} x {dtype}>" if width > 1 else dtype
        return self.op(f"mem.load({pointer}, {self.index(at)}) {{align = {width * SIZES[dtype]}}}", kind)

    def store(self, value, pointer, at, align, mask=""):
        self.do(f"mem.store({value}, {pointer}, {self.index(at)}{mask and ', ' + mask}) {{align = {align}}}")

    def begin(self, line):
        self.do(line + " {")
        self.depth += 1

    def end(self, line="}"):
        self.depth -= 1
        self.do(line)

    def barrier(self, scope="block"):
        self.do(f'barrier() {{scope = "{scope}"}}')


class Tensor:
    def __init__(self, name, dtype, *extents):
        self.name, self.dtype, self.extents = name, dtype, extents

    def type(self):
        return f"tensor<[{', '.join(map(str, self.extents))}] x {self.dtype}>"


def file(graph, k, inputs, output, warps=1, shared=0, maps=(), attrs="", blocks=3):
    """The operator and the kernel. graph: its text, whose result is %y."""
    ins = ", ".join(f"tensor %{t.name}: {t.type()} in" for t in inputs)
    params = [f"tensor %{t.name}: ptr<{t.dtype}, global> in of {t.type()}" for t in inputs]
    params += [f"tensor %{output.name}: ptr<{output.dtype}, global> out of {output.type()}", "symbol %P: index", *maps]
    data = ", ".join(f"{t.name} = exact(3)" for t in inputs)
    return f"""sketchc.ir 1

case @small {{P = {blocks}; {data}}}

func @reference graph ({ins}, symbol %P: index) {{
{graph}    return(%y) {{names = ["{output.name}"]}}
}}

func @one kernel ({", ".join(params)}) {{target = "cuda", num_warps = {warps}, grid_x = aff(P), shared_bytes = {shared}{attrs}}} {{
{k.text}    return()
}}
"""


# ---- Products of a warp ----

def mma(name):
    """D + A B of 16 by 8, k with 32 bytes; PTX ISA, "Matrix Fragments for mma.m16n8k*"."""
    acc, factors = name.split(".")[2:4]
    acc, factors = {"s32": "i32"}.get(acc, acc), DTYPES.get(factors, factors)
    packed, depth = 4 // SIZES[factors], int(name.split(".")[1].split("k")[1])
    a, b, d, c = Tensor("A", factors, "P", 16, depth), Tensor("B", factors, "P", 8, depth), Tensor("D", acc, "P", 16, 8), Tensor("C", acc, "P", 16, 8)
    k = Kernel()
    lane, block = k.special("lane"), k.special("ctaid.x")
    group, four = k.div(lane, 4), k.mod(lane, 4)

    def registers(pointer, rows, count):
        words = []
        for r in range(count):
            row = k.add(k.mul(block, rows), group, r % 2 * 8 if rows == 16 else 0)
            column = k.add(k.mul(four, packed), (r // 2 if rows == 16 else r) * 4 * packed)
            words.append(k.op(f"bitcast({k.load(pointer, k.add(k.mul(row, depth), column), factors, packed)})", "u32"))
        return k.op(f"pack({', '.join(words)})", f"vec<{count} x u32>")

    def place(e):
        return k.add(k.mul(k.add(k.mul(block, 16), group, e // 2 * 8), 8), k.mul(four, 2), e % 2)
    left, right = registers("%A", 16, 4), registers("%B", 8, 2)
    sums = k.op(f"pack({', '.join(k.load('%D', place(e), acc) for e in range(4))})", f"vec<4 x {acc}>")
    result = k.op(f'atom({left}, {right}, {sums}) {{name = "{name}"}}', f"vec<4 x {acc}>")
    for e in range(4):
        k.store(k.op(f"extract({result}) {{lane = {e}}}", acc), "%C", place(e), 4)
    return file(product(a, b, d, acc), k, [a, b, d], c)


def product(a, b, d, acc, trans_a=False, trans_b=False):
    """The operator: C[p] = A[p] B[p]^T + D[p], or without D."""
    rows, columns = a.extents[2 if trans_a else 1], b.extents[2 if trans_b else 1]
    result = f"tensor<[P, {rows}, {columns}] x {acc}>"
    sums = f"sum_a = [{1 if trans_a else 2}], sum_b = [{1 if trans_b else 2}]"
    low = ', precision = "f8"' if a.dtype.startswith("f8") else ""
    text = f"    %{'m' if d else 'y'} = graph.contract(%A, %B) {{batch_a = [0], batch_b = [0], {sums}{low}}} : {result}\n"
    return text + (f"    %y = add(%m, %D) : {result}\n" if d else "")


# ---- Matrices of 8 rows of 16 bytes ----

def ldmatrix(name):
    count, turned = int(name[10]), name.endswith(".trans")
    x, y = Tensor("X", "f16", "P", count, 8, 8), Tensor("Y", "f16", "P", count, 8, 8)
    k = Kernel()
    lane, block = k.special("lane"), k.special("ctaid.x")
    rows = k.shared("f16", 0, count * 64)
    row = k.mod(lane, count * 8)
    own = k.load("%X", k.mul(k.add(k.mul(block, count * 8), row), 8), "f16", 8)
    k.store(own, rows, k.mul(row, 8), 16, k.op(f"lt({lane}, {k.const(count * 8)})", "bool"))
    k.barrier("warp")
    words = k.op(f'atom({rows}, {k.mul(row, 8)}) {{name = "{name}"}}', f"vec<{count} x u32>")
    for j in range(count):
        pair = k.op(f"bitcast({k.op(f'extract({words}) {{lane = {j}}}', 'u32')})", "vec<2 x f16>")
        k.store(pair, "%Y", k.add(k.mul(k.add(k.mul(block, count * 8), j * 8, k.div(lane, 4)), 8), k.mul(k.mod(lane, 4), 2)), 4)
    graph = f"    %y = graph.transpose(%X) {{perm = [0, 1, {'3, 2' if turned else '2, 3'}]}} : {y.type()}\n"
    return file(graph, k, [x], y, shared=count * 128)


def stmatrix(name):
    """The way back: words as ldmatrix leaves them, rows into shared memory."""
    count, turned = int(name[10]), name.endswith(".trans")
    x, y = Tensor("X", "f16", "P", count, 8, 8), Tensor("Y", "f16", "P", count, 8, 8)
    k = Kernel()
    lane, block = k.special("lane"), k.special("ctaid.x")
    rows = k.shared("f16", 0, count * 64)
    words = []
    for j in range(count):
        at = k.add(k.mul(k.add(k.mul(block, count * 8), j * 8, k.div(lane, 4)), 8), k.mul(k.mod(lane, 4), 2))
        words.append(k.op(f"bitcast({k.load('%X', at, 'f16', 2)})", "u32"))
    packed = k.op(f"pack({', '.join(words)})", f"vec<{count} x u32>")
    row = k.mod(lane, count * 8)
    k.do(f'atom({rows}, {k.mul(row, 8)}, {packed}) {{name = "{name}"}}')
    k.barrier("warp")
    other = k.calc("xor", row, 9 if count > 1 else 1)
    own = k.load(rows, k.mul(other, 8), "f16", 8)
    k.store(own, "%Y", k.mul(k.add(k.mul(block, count * 8), other), 8), 16, k.op(f"lt({lane}, {k.const(count * 8)})", "bool"))
    graph = f"    %y = graph.transpose(%X) {{perm = [0, 1, {'3, 2' if turned else '2, 3'}]}} : {y.type()}\n"
    return file(graph, k, [x], y, shared=count * 128)


# ---- Copies of a thread ----

def cp_async(size):
    """A row of `size` bytes each thread, of which lane % (words + 1) words are valid; read by the lane that is the other one of a pair."""
    words = size // 4
    x, y = Tensor("X", "f32", "P", 32, words), Tensor("Y", "f32", "P", 32, words)
    k = Kernel()
    lane, block = k.special("lane"), k.special("ctaid.x")
    rows = k.shared("f32", 0, 32 * words)
    at = k.mul(k.add(k.mul(block, 32), lane), words)
    k.do(f"async.copy(%X, {at}, {rows}, {k.mul(lane, words)}, {k.mul(k.mod(lane, words + 1), 4)}) {{bytes = {size}}}")
    k.do("async.commit()")
    k.do("async.wait() {pending = 0}")
    k.barrier()
    other = k.calc("xor", lane, 1)
    row = k.load(rows, k.mul(other, words), "f32", words)
    k.store(row, "%Y", k.mul(k.add(k.mul(block, 32), other), words), size)
    shape = f"[P, 32, {words}]"
    graph = f"""    %lane = graph.iota() {{axis = 1}} : tensor<{shape} x i64>
    %word = graph.iota() {{axis = 2}} : tensor<{shape} x i64>
    %steps = const() {{value = {words + 1}}} : i64
    %many = graph.broadcast(%steps) {{axes = []}} : tensor<{shape} x i64>
    %valid = mod(%lane, %many) : tensor<{shape} x i64>
    %inside = lt(%word, %valid) : tensor<{shape} x bool>
    %none = const() {{value = 0.0}} : f32
    %zero = graph.broadcast(%none) {{axes = []}} : {y.type()}
    %y = select(%inside, %X, %zero) : {y.type()}
"""
    return file(graph, k, [x], y, shared=32 * size)


# ---- The copy engine ----

def make_barrier(k, offset, stages=1, arrivals=1):
    """A barrier that all see, and the block's first thread."""
    full = k.op(f"shared.ptr() {{offset = {offset}, bytes = {8 * stages}}}", "ptr<u64, shared>")
    first = k.op(f"eq({k.special('tid.x')}, {k.const(0)})", "bool")
    k.begin(f"if({first})")
    k.do(f"mbar.init({full}, {k.const(0)}) {{arrivals = {arrivals}}}")
    k.do("yield()")
    k.end("} {}")
    k.barrier()
    return full, first


def copy_boxes(k, full, first, bytes_, boxes, parity=0):
    """boxes: (map, where to, offset, coordinates)."""
    k.begin(f"if({first})")
    zero = k.const(0)
    k.do(f"mbar.expect({full}, {zero}) {{bytes = {bytes_}}}")
    for box, to, offset, at in boxes:
        k.do(f"tma.load({box}, {to}, {k.index(offset)}, {full}, {zero}, {', '.join(k.index(c) for c in at)})")
    k.do("yield()")
    k.end("} {}")
    k.do(f"mbar.wait({full}, {k.const(0)}, {k.const(parity)})")


def swizzled(k, at, swizzle, size):
    """Where the engine puts element `at` of a box: pieces of 16 bytes change places by the line of 128 bytes."""
    if not swizzle:
        return at
    piece, line = 16 // size, 128 // size
    phase = k.calc("and", k.div(at, line), swizzle // 16 - 1)
    return k.calc("xor", at, k.mul(phase, piece))


def tma(dtype, swizzle, rank=2):
    """Boxes that reach beyond the tensor on both sides, where zeros come."""
    size = SIZES[dtype]
    inner = (swizzle or 64) // size
    box = [1, 2, 2, 8][-rank + 1:] + [inner] if rank > 1 else [inner]
    tensor = [3, 3, 3, 11][-rank + 1:] + [inner + 16 // size * 2] if rank > 1 else [inner + 16 // size * 2]
    starts = [0] * (rank - 1) + [-16 // size]
    count = 1
    for extent in box:
        count *= extent
    x, y = Tensor("X", dtype, *tensor), Tensor("Y", dtype, "P", *box)
    k = Kernel()
    lane, block = k.special("lane"), k.special("ctaid.x")
    to = k.shared(dtype, 0, count, 1024)
    full, first = make_barrier(k, count * size)
    # Block p moves by a box along the first axis (of the tensor's only one: by 16 bytes).
    moves = [k.mul(block, box[0] if rank > 1 else 16 // size)] + [k.const(0)] * (rank - 1)
    at = [k.add(m, s) for m, s in zip(moves, starts)]
    copy_boxes(k, full, first, count * size, [("%X_box", to, 0, at)])
    for e in range(0, count, 32):
        place = k.add(lane, e)
        inside = k.op(f"lt({place}, {k.const(count)})", "bool")
        k.begin(f"if({inside})")
        value = k.load(to, swizzled(k, place, swizzle, size), dtype)
        k.store(value, "%Y", k.add(k.mul(block, count), place), size)
        k.do("yield()")
        k.end("} {}")
    names = [f"%i{a}" for a in range(rank)]
    text = f"    %y = graph.generic(%P, {', '.join(f'%e{a}' for a in range(rank))}) {{outer = {rank + 1}}} : {y.type()} (%p: index, {', '.join(n + ': index' for n in names)}) {{\n"
    text += f"        %step = const() {{value = {box[0] if rank > 1 else 16 // size}}} : index\n        %begin = mul(%p, %step) : index\n"
    for a, n in enumerate(names):
        text += f"        %s{a} = const() {{value = {starts[a]}}} : index\n        %c{a} = add({n}, %s{a}) : index\n"
    text += "        %first = add(%c0, %begin) : index\n"
    text += f"        %value = graph.element(%X, {', '.join(['%first'] + [f'%c{a}' for a in range(1, rank)])}) {{pad = 0.0}} : {dtype}\n        yield(%value)\n    }}\n"
    extents = "".join(f"    %e{a} = const() {{value = {box[a]}}} : index\n" for a in range(rank))
    maps = [f"map %X_box: ptr<{dtype}, map> of X [{', '.join(map(str, box))}] swizzle {swizzle}"]
    return file(extents + text, k, [x], y, shared=count * size + 8, maps=maps, blocks=4)


def phases():
    """One barrier through four phases: each copy lands before its own ends."""
    x, y = Tensor("X", "f32", "P", 4, 32), Tensor("Y", "f32", "P", 4, 32)
    k = Kernel()
    lane, block = k.special("lane"), k.special("ctaid.x")
    to = k.shared("f32", 0, 128, 128)
    full, first = make_barrier(k, 512)
    for turn in range(4):
        copy_boxes(k, full, first, 128, [("%X_box", to, turn % 2 * 32, [block, turn, 0])], turn % 2)
        k.store(k.load(to, k.add(lane, turn % 2 * 32), "f32"), "%Y", k.add(k.mul(k.add(k.mul(block, 4), turn), 32), lane), 4)
        k.barrier()
    k.begin(f"if({first})")
    k.do(f"mbar.drop({full}, {k.const(0)})")
    k.do("yield()")
    k.end("} {}")
    graph = f"    %y = graph.transpose(%X) {{perm = [0, 1, 2]}} : {y.type()}\n"
    return file(graph, k, [x], y, shared=520, maps=["map %X_box: ptr<f32, map> of X [1, 1, 32] swizzle 0"])


def exchanged(threads, masks, y):
    """The graph of Y[p, t] = X[p, t xor all masks]."""
    mask = functools.reduce(operator.xor, masks)
    return f"""    %threads = const() {{value = {threads}}} : index
    %y = graph.generic(%P, %threads) {{outer = 2}} : {y.type()} (%p: index, %t: index) {{
        %mask = const() {{value = {mask}}} : index
        %from = xor(%t, %mask) : index
        %value = graph.element(%X, %p, %from) : f32
        yield(%value)
    }}
"""


def arrivals():
    """One barrier that the warps of a block arrive on, through three phases: a thread reads what another warp wrote before it arrived."""
    x, y = Tensor("X", "f32", "P", 64), Tensor("Y", "f32", "P", 64)
    k = Kernel()
    tid, block = k.special("tid.x"), k.special("ctaid.x")
    row = k.shared("f32", 0, 128)
    full, first = make_barrier(k, 512, arrivals=2)
    leads = k.op(f"eq({k.special('lane')}, {k.const(0)})", "bool")
    value, masks = k.load("%X", k.add(k.mul(block, 64), tid), "f32"), (33, 34, 36)
    for turn, mask in enumerate(masks):
        k.store(value, row, k.add(tid, turn % 2 * 64), 4)
        k.barrier("warp")
        k.begin(f"if({leads})")
        k.do(f"mbar.arrive({full}, {k.const(0)})")
        k.do("yield()")
        k.end("} {}")
        k.do(f"mbar.wait({full}, {k.const(0)}, {k.const(turn % 2)})")
        value = k.load(row, k.add(k.calc("xor", tid, mask), turn % 2 * 64), "f32")
    k.store(value, "%Y", k.add(k.mul(block, 64), tid), 4)
    k.barrier()
    k.begin(f"if({first})")
    k.do(f"mbar.drop({full}, {k.const(0)})")
    k.do("yield()")
    k.end("} {}")
    return file(exchanged(64, masks, y), k, [x], y, warps=2, shared=520)


# ---- Rounding to tf32 ----

ROUNDED = 4104  # numbers about it are 4 apart in tf32: X is between -3 and 3, so that there are ties, and some of an even number


def graph_rounded(even):
    """Y: X + ROUNDED, of odd lanes the negative, to a multiple of 4; ties to even multiples or away from zero."""
    kind = "tensor<[P, 4, 32] x i64>"
    text = f"    %whole = cast(%X) : {kind}\n    %lane = graph.iota() {{axis = 2}} : {kind}\n"
    for name, value in (("base", ROUNDED), ("one", 1), ("two", 2), ("four", 4)):
        text += f"    %{name}_s = const() {{value = {value}}} : i64\n    %{name} = graph.broadcast(%{name}_s) {{axes = []}} : {kind}\n"
    steps = [("v", "add(%whole, %base)")]
    if even:
        steps += [("q", "floordiv(%v, %four)"), ("o", "mod(%q, %two)"), ("h", "add(%o, %one)")]
    steps += [("u", f"add(%v, %{'h' if even else 'two'})"), ("n", "floordiv(%u, %four)"), ("r", "mul(%n, %four)"),
              ("odd", "mod(%lane, %two)"), ("back", "mul(%odd, %two)"), ("sign", "sub(%one, %back)"), ("s", "mul(%r, %sign)")]
    for name, op in steps:
        text += f"    %{name} = {op} : {kind}\n"
    return text + "    %y = cast(%s) : tensor<[P, 4, 32] x f32>\n"


def raw_numbers(k, at, lane):
    """X + ROUNDED, of odd lanes the negative."""
    value = k.op(f"add({k.load('%X', at, 'f32')}, {k.const(float(ROUNDED), 'f32')})", "f32")
    minus = k.op(f"mul({value}, {k.const(-1.0, 'f32')})", "f32")
    odd = k.op(f"eq({k.mod(lane, 2)}, {k.const(1)})", "bool")
    return k.op(f"select({odd}, {minus}, {value})", "f32")


def cvt(name):
    x, y = Tensor("X", "f32", "P", 4, 32), Tensor("Y", "f32", "P", 4, 32)
    k = Kernel()
    lane, block = k.special("lane"), k.special("ctaid.x")
    places = [k.add(k.mul(k.add(k.mul(block, 4), r), 32), lane) for r in range(4)]
    words = [k.op(f"bitcast({raw_numbers(k, at, lane)})", "u32") for at in places]
    packed = k.op(f"pack({', '.join(words)})", "vec<4 x u32>")
    rounded = k.op(f'atom({packed}) {{name = "{name}"}}', "vec<4 x u32>")
    for r, at in enumerate(places):
        word = k.op(f"extract({rounded}) {{lane = {r}}}", "u32")
        k.store(k.op(f"bitcast({word})", "f32"), "%Y", at, 4)
    return file(graph_rounded(False), k, [x], y)


def tma_tf32():
    """A launch writes the numbers, the next one's copy engine rounds them."""
    x, y = Tensor("X", "f32", "P", 4, 32), Tensor("Y", "f32", "P", 4, 32)
    write, k = Kernel(), Kernel()
    lane, block = write.special("lane"), write.special("ctaid.x")
    for r in range(4):
        at = write.add(write.mul(write.add(write.mul(block, 4), r), 32), lane)
        write.store(raw_numbers(write, at, lane), "%W", at, 4)
    lane, block = k.special("lane"), k.special("ctaid.x")
    to = k.shared("f32", 0, 128, 128)
    full, first = make_barrier(k, 512)
    copy_boxes(k, full, first, 512, [("%W_box", to, 0, [block, 0, 0])])
    for r in range(4):
        at = k.add(lane, r * 32)
        k.store(k.load(to, at, "f32"), "%Y", k.add(k.mul(block, 128), at), 4)
    text = file(graph_rounded(True), k, [x], y, shared=520, attrs=", step = 1, kernel = \"one\"", maps=["map %W_box: ptr<f32, map> of W [1, 4, 32] swizzle 0 tf32"])
    workspace = f"workspace %W: ptr<f32, global> of {x.type()} elements 128*P"
    text = text.replace("symbol %P: index, map", f"symbol %P: index, {workspace}, map")
    params = f"tensor %X: ptr<f32, global> in of {x.type()}, symbol %P: index, {workspace}"
    first = f"""func @fill kernel ({params}) {{target = "cuda", num_warps = 1, grid_x = aff(P), shared_bytes = 0, step = 0, kernel = "fill"}} {{
{write.text}    return()
}}

"""
    return text.replace("func @one", first + "func @one")


# ---- Products of a warpgroup ----

def wgmma(row, swizzle, columns, trans_a=False, trans_b=False, fresh=False, held=False):
    """D + A B of 64 rows; k as far as the swizzle's rows go. held: A in registers."""
    dtype, acc, depth = row["in"], row["acc"], row["depth"]
    size = SIZES[dtype]
    across = k_extent = swizzle // size  # elements of a block's row
    a = Tensor("A", dtype, "P", *((k_extent, 64) if trans_a else (64, k_extent)))
    b = Tensor("B", dtype, "P", *((k_extent, columns) if trans_b else (columns, k_extent)))
    c, d = Tensor("C", acc, "P", 64, columns), None if fresh else Tensor("D", acc, "P", 64, columns)
    k = Kernel()
    tid, block = k.special("tid.x"), k.special("ctaid.x")
    bytes_a, bytes_b = 64 * k_extent * size, columns * k_extent * size
    room = (bytes_a + 1023) // 1024 * 1024
    buffers = k.shared(dtype, 0, 64 * k_extent, 1024), k.shared(dtype, room, columns * k_extent, 1024)
    full, first = make_barrier(k, room + bytes_b)
    boxes, maps, rows = [], [], {}
    for t, to in list(zip((a, b), buffers))[held:]:
        height, width = t.extents[1:]
        rows[t.name] = height
        maps.append(f"map %{t.name}_box: ptr<{dtype}, map> of {t.name} [1, {height}, {across}] swizzle {swizzle}")
        boxes += [(f"%{t.name}_box", to, at * height, [block, 0, at]) for at in range(0, width, across)]
    copy_boxes(k, full, first, bytes_b if held else bytes_a + bytes_b, boxes)

    registers = columns // 2
    kind, one = f"frag<[1, {registers}] x {acc}>", "!1"  # registers in flight may not be copied

    def place(e, columns=columns):
        row = k.add(k.mul(k.div(tid, 32), 16), k.div(k.mod(tid, 32), 4), k.mul(k.mod(k.div(e, 2), 2), 8))
        column = k.add(k.mul(k.div(e, 4), 8), k.mul(k.mod(tid, 4), 2), k.mod(e, 2))
        return k.add(k.mul(k.add(k.mul(block, 64), row), columns), column)
    sums = None
    if not fresh:
        k.begin(f"%begin{one} = map() {{extents = [1, {registers}]}} : {kind} (%i: index, %e: index)")
        k.do(f"yield({k.load('%D', place('%e'), acc)})")
        k.end()
        sums = "%begin"
    if held:
        k.begin(f"%held = map() {{extents = [1, {k_extent // 2}]}} : frag<[1, {k_extent // 2}] x {dtype}> (%s: index, %h: index)")
        k.do(f"yield({k.load('%A', place('%h', k_extent), dtype)})")
        k.end()
    k.do("wgmma.fence()")
    lead = [rows["A"] * swizzle if trans_a else 0, rows["B"] * swizzle if trans_b else 0]
    flags = (", trans_a = true" if trans_a else "") + (", trans_b = true" if trans_b else "")
    for at in range(0, k_extent, depth):
        offsets = [k.const(at // 2 if held and not t else at * (across if trans else 1)) for t, trans in enumerate((trans_a, trans_b))]
        operands = f"{'%held' if held else buffers[0]}, {offsets[0]}, {buffers[1]}, {offsets[1]}" + (f", {sums}" if sums else "")
        sums = k.op(f"wgmma({operands}) {{swizzle = [{0 if held else swizzle}, {swizzle}], lead = [{lead[0]}, {lead[1]}]{flags}}}", kind, one)
    k.do("wgmma.commit()")
    done = k.op(f"wgmma.wait({sums}) {{pending = 0}}", kind, one)
    k.begin(f"map() {{extents = [1, {registers}]}} (%j: index, %f: index)")
    k.store(k.op(f"frag.get({done}, %j, %f)", acc), "%C", place("%f"), 4)
    k.do("yield()")
    k.end()
    return file(product(a, b, d, acc, trans_a, trans_b), k, [t for t in (a, b, d) if t], c, warps=4, shared=room + bytes_b + 8, maps=maps)


# ---- Lanes, warps, clusters ----

def shuffle(mask):
    x, y = Tensor("X", "f32", "P", 32), Tensor("Y", "f32", "P", 32)
    k = Kernel()
    at = k.add(k.mul(k.special("ctaid.x"), 32), k.special("lane"))
    k.store(k.op(f"shuffle.xor({k.load('%X', at, 'f32')}) {{mask = {mask}}}", "f32"), "%Y", at, 4)
    graph = f"""    %lanes = const() {{value = 32}} : index
    %y = graph.generic(%P, %lanes) {{outer = 2}} : {y.type()} (%p: index, %l: index) {{
        %mask = const() {{value = {mask}}} : index
        %from = xor(%l, %mask) : index
        %value = graph.element(%X, %p, %from) : f32
        yield(%value)
    }}
"""
    return file(graph, k, [x], y)


def warpgroups():
    """Two warpgroups of a block, each by a barrier of its own: a thread reads what another warp of its group wrote, three times over."""
    x, y = Tensor("X", "f32", "P", 256), Tensor("Y", "f32", "P", 256)
    k = Kernel()
    tid, block = k.special("tid.x"), k.special("ctaid.x")
    row = k.shared("f32", 0, 256)
    value = k.load("%X", k.add(k.mul(block, 256), tid), "f32")
    for mask in (33, 66, 20):
        k.store(value, row, tid, 4)
        k.barrier("warpgroup")
        value = k.load(row, k.calc("xor", tid, mask), "f32")
        k.barrier("warpgroup")
    k.store(value, "%Y", k.add(k.mul(block, 256), tid), 4)
    return file(exchanged(256, (33, 66, 20), y), k, [x], y, warps=8, shared=1024)


def cluster():
    """Each block reads what the other one of its pair wrote into its own shared memory."""
    x, y = Tensor("X", "f32", "2*P", 32), Tensor("Y", "f32", "2*P", 32)
    k = Kernel()
    lane, block, rank = k.special("lane"), k.special("ctaid.x"), k.special("cluster.rank")
    row = k.shared("f32", 0, 32)
    at = k.add(k.mul(block, 32), lane)
    k.store(k.load("%X", at, "f32"), row, lane, 4)
    k.barrier("cluster")
    other = k.op(f"cluster.ptr({row}, {k.calc('xor', rank, 1)})", "ptr<f32, cluster>")
    k.store(k.load(other, lane, "f32"), "%Y", at, 4)
    k.barrier("cluster")
    graph = f"""    %two = const() {{value = 2}} : index
    %blocks = mul(%P, %two) : index
    %lanes = const() {{value = 32}} : index
    %y = graph.generic(%blocks, %lanes) {{outer = 2}} : {y.type()} (%b: index, %l: index) {{
        %one = const() {{value = 1}} : index
        %from = xor(%b, %one) : index
        %value = graph.element(%X, %from, %l) : f32
        yield(%value)
    }}
"""
    return file(graph, k, [x], y, shared=128, attrs=", cluster = [2, 1, 1]").replace("grid_x = aff(P)", "grid_x = aff(2*P)")


def multicast(rank):
    """A pair of blocks through one buffer four times over: each copies its half into both, and its two warps give the buffer back to both. X is the
    flat [P, 4, 2, 32] as a tensor of `rank` axes."""
    axes = {1: ["256*P"], 2: ["8*P", 32], 3: ["4*P", 2, 32], 4: ["P", 4, 2, 32], 5: ["P", 2, 2, 2, 32]}[rank]
    x, y = Tensor("X", "f32", *axes), Tensor("Y", "f32", "2*P", 4, 64)
    k = Kernel()
    tid, lane, pair, block = k.special("tid.x"), k.special("lane"), k.special("clusterid.x"), k.special("cluster.rank")
    to = k.shared("f32", 0, 64, 128)
    full, empty = (k.op(f"shared.ptr() {{offset = {256 + 8 * i}, bytes = 8}}", "ptr<u64, shared>") for i in range(2))
    zero = k.const(0)
    first = k.op(f"eq({tid}, {zero})", "bool")
    k.begin(f"if({first})")
    k.do(f"mbar.init({full}, {zero}) {{arrivals = 1}}")
    k.do(f"mbar.init({empty}, {zero}) {{arrivals = 4}}")
    k.do("yield()")
    k.end("} {}")
    k.barrier("cluster")
    half = k.mul(block, 32)
    for turn in range(4):
        k.begin(f"if({first})")
        if turn:
            k.do(f"mbar.wait({empty}, {zero}, {k.const((turn - 1) % 2)})")
        k.do(f"mbar.expect({full}, {zero}) {{bytes = 256}}")
        at = {1: [k.add(k.mul(k.add(k.mul(pair, 4), turn), 64), half)], 2: [k.add(k.mul(k.add(k.mul(pair, 4), turn), 2), block), zero],
              3: [k.add(k.mul(pair, 4), turn), block, zero], 4: [pair, k.const(turn), block, zero],
              5: [pair, k.const(turn // 2), k.const(turn % 2), block, zero]}[rank]
        k.do(f"tma.load(%X_box, {to}, {half}, {full}, {zero}, {', '.join(at)}) {{multicast = true}}")
        k.do("yield()")
        k.end("} {}")
        k.do(f"mbar.wait({full}, {zero}, {k.const(turn % 2)})")
        k.store(k.load(to, tid, "f32"), "%Y", k.add(k.mul(k.add(k.mul(k.add(k.mul(pair, 2), block), 4), turn), 64), tid), 4)
        if turn == 3:
            break
        k.barrier("warp")
        k.begin(f"if({k.op(f'lt({lane}, {k.const(2)})', 'bool')})")
        k.do(f"mbar.arrive({empty}, {zero}, {lane})")
        k.do("yield()")
        k.end("} {}")
    k.barrier("cluster")
    names = ["%b", "%t", "%l"]
    inner = {1: ["at"], 2: ["row", "rest"], 3: ["line", "half", "rest"], 4: ["pair", "t", "half", "rest"], 5: ["pair", "t_high", "t_low", "half", "rest"]}[rank]
    known = {"two": "const() {value = 2}", "four": "const() {value = 4}", "wide": "const() {value = 32}", "all": "const() {value = 64}",
             "pair": "floordiv(%b, %two)", "half": "floordiv(%l, %wide)", "rest": "mod(%l, %wide)", "t_high": "floordiv(%t, %two)", "t_low": "mod(%t, %two)",
             "lines": "mul(%pair, %four)", "line": "add(%lines, %t)", "rows": "mul(%line, %two)", "row": "add(%rows, %half)", "before": "mul(%line, %all)",
             "at": "add(%before, %l)"}
    body = "".join(f"        %{name} = {text} : index\n" for name, text in known.items())
    graph = f"""    %two_ = const() {{value = 2}} : index
    %blocks = mul(%P, %two_) : index
    %turns = const() {{value = 4}} : index
    %lanes = const() {{value = 64}} : index
    %y = graph.generic(%blocks, %turns, %lanes) {{outer = 3}} : {y.type()} ({', '.join(n + ': index' for n in names)}) {{
{body}        %value = graph.element(%X, {', '.join('%' + n for n in inner)}) : f32
        yield(%value)
    }}
"""
    box = [1] * (rank - 1) + [32]
    maps = [f"map %X_box: ptr<f32, map> of X [{', '.join(map(str, box))}] swizzle 0"]
    return file(graph, k, [x], y, warps=2, shared=272, maps=maps, attrs=", cluster = [2, 1, 1]").replace("grid_x = aff(P)", "grid_x = aff(2*P)")


def multicast_boxes():
    """A swizzled tile of 64 rows in four blocks of 64 columns, of which each block of a pair brings 32 rows to both: four boxes each."""
    rows, columns, across = 64, 256, 64
    x, y = Tensor("X", "f16", "P", rows, columns), Tensor("Y", "f16", "2*P", rows, columns)
    k = Kernel()
    tid, pair, block = k.special("tid.x"), k.special("clusterid.x"), k.special("cluster.rank")
    to = k.shared("f16", 0, rows * columns, 1024)
    full = k.op(f"shared.ptr() {{offset = {2 * rows * columns}, bytes = 8}}", "ptr<u64, shared>")
    zero, one = k.const(0), k.const(1)
    first = k.op(f"eq({tid}, {zero})", "bool")
    k.begin(f"if({first})")
    k.do(f"mbar.init({full}, {zero}) {{arrivals = 1}}")
    k.do("yield()")
    k.end("} {}")
    k.barrier("cluster")
    k.begin(f"if({first})")
    k.do(f"mbar.expect({full}, {zero}) {{bytes = {2 * rows * columns}}}")
    row = k.mul(block, rows // 2)
    for c in range(0, columns, across):
        k.do(f"tma.load(%X_box, {to}, {k.add(k.mul(row, across), c * rows)}, {full}, {zero}, {pair}, {row}, {k.const(c)}) {{multicast = true}}")
    k.do("yield()")
    k.end("} {}")
    k.do(f"mbar.wait({full}, {zero}, {zero})")
    base = k.mul(k.add(k.mul(pair, 2), block), rows * columns)
    k.begin(f"for({zero}, {k.const(rows * columns // 128)}, {one}) (%i: index)")
    at = k.add(k.mul("%i", 128), tid)
    row, column = k.div(at, columns), k.mod(at, columns)
    place = k.add(k.mul(k.div(column, across), rows * across), k.mul(row, across), k.mod(column, across))
    k.store(k.load(to, swizzled(k, place, 128, 2), "f16"), "%Y", k.add(base, at), 2)
    k.do("yield()")
    k.end()
    k.barrier("cluster")
    graph = f"""    %two = const() {{value = 2}} : index
    %blocks = mul(%P, %two) : index
    %rows = const() {{value = {rows}}} : index
    %columns = const() {{value = {columns}}} : index
    %y = graph.generic(%blocks, %rows, %columns) {{outer = 3}} : {y.type()} (%b: index, %r: index, %c: index) {{
        %both = const() {{value = 2}} : index
        %p = floordiv(%b, %both) : index
        %value = graph.element(%X, %p, %r, %c) : f16
        yield(%value)
    }}
"""
    maps = [f"map %X_box: ptr<f16, map> of X [1, {rows // 2}, {across}] swizzle 128"]
    return file(graph, k, [x], y, warps=4, shared=2 * rows * columns + 8, maps=maps,
                attrs=", cluster = [2, 1, 1]").replace("grid_x = aff(P)", "grid_x = aff(2*P)")


# ---- The table ----

def rows_of(root, name, pattern):
    text = (root / name).read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = re.findall(pattern, text)
    assert len(found) == len(re.findall(r"^[A-Z]+\(", text, flags=re.M)), f"{name}: rows of another form"
    return found


def kernels(root):
    """(name, architecture, text)."""
    table = []
    for name in rows_of(root, "ir/atoms.def", r'ATOM\(\w+, "([^"]+)"'):
        families = {"mma": mma, "ldmatrix": ldmatrix, "stmatrix": stmatrix, "cvt": cvt}
        make = families.get(name.split(".")[0])
        assert make, f"{name} of ir/atoms.def has no kernel here"
        new = name.startswith("stmatrix") or name.split(".")[-1] in ("e4m3", "e5m2")
        table.append((name, "sm_90a" if new else "sm_80", make(name)))
    table += [(f"cp.async {size}", "sm_80", cp_async(size)) for size in (4, 8, 16)]
    table += [(f"shuffle.xor {mask}", "sm_80", shuffle(mask)) for mask in (1, 16, 31)]
    table += [("barrier warpgroup", "sm_80", warpgroups())]
    for found in rows_of(root, "ir/wgmma.def", r'WGMMA\(\w+, "([^"]+)", "[^"]+", (\w+), (\w+), (\d+), (\d+), \d+, (true|false), \d+, (true|false)\)'):
        name, k_major, registers = found[0], found[5] == "true", found[6] == "true"
        row = {"in": found[1].lower(), "acc": found[2].lower(), "depth": int(found[3])}
        for swizzle in (32, 64, 128):
            table.append((f"{name} {swizzle}", "sm_90a", wgmma(row, swizzle, 32)))
            if k_major:
                continue
            for trans_a, trans_b in ((True, False), (False, True), (True, True)):
                table.append((f"{name} {swizzle}{' ta' * trans_a}{' tb' * trans_b}", "sm_90a", wgmma(row, swizzle, 64, trans_a, trans_b)))
        for swizzle, trans_b in ((32, False), (64, True), (128, False), (128, True)) if registers else ():
            table.append((f"{name} {swizzle} registers{' tb' * trans_b}", "sm_90a", wgmma(row, swizzle, 64, False, trans_b, held=True)))
        if not k_major:  # of the second block the address has its rank above
            text = wgmma(row, 128, 128, False, True).replace("[P, ", "[2*P, ").replace("grid_x = aff(P)", "grid_x = aff(2*P), cluster = [2, 1, 1]")
            table.append((f"{name} 128 tb in a cluster", "sm_90a", text))
        table.append((f"{name} n least", "sm_90a", wgmma(row, 128, max(8, int(found[4])))))
        table.append((f"{name} n 256 new", "sm_90a", wgmma(row, 128, 256, fresh=True)))
    instructions = rows_of(root, "emit/async.def", r"ASYNC\((\w+), (\d+), (BLOCK|CLUSTER), ")
    ranks = {int(axes) for op, axes, reach in instructions if op == "TMA_LOAD" and reach == "BLOCK"}
    wide = {int(axes) for op, axes, reach in instructions if op == "TMA_LOAD" and reach == "CLUSTER"}
    table += [(f"tma.load {rank} axes", "sm_90a", tma("f32", 0, rank)) for rank in sorted(ranks)]
    table += [(f"tma.load {dtype} {swizzle}", "sm_90a", tma(dtype, swizzle)) for dtype in ("u8", "f16", "f32") for swizzle in (32, 64, 128)]
    table += [("tma.load tf32", "sm_90a", tma_tf32()), ("mbar phases", "sm_90a", phases()), ("mbar arrivals", "sm_90a", arrivals()), ("cluster.ptr", "sm_90a", cluster())]
    table += [(f"tma.load multicast {rank} axes", "sm_90a", multicast(rank)) for rank in sorted(wide)]
    table += [("tma.load multicast boxes", "sm_90a", multicast_boxes())]
    marks = {"TMA_LOAD": r"multicast = true", "MBAR_ARRIVE": r"\w+, %\w+, %\w+\)"}
    for op, _, reach in instructions:
        form = re.escape(op.lower().replace("_", ".") + "(") + (".*" + marks[op] if reach == "CLUSTER" else "")
        assert any(re.search(form, text) for _, _, text in table), f"{op} ({reach.lower()}) of emit/async.def is in no kernel here"
    return table


def file_name(name):
    return re.sub(r"\W", "_", name)


def run(command, folder, row):
    """'' or what went wrong; None: skipped."""
    name, arch, text = row
    path = folder / (file_name(name) + ".skir")
    path.write_text(text)
    words = [a.format(arch=arch, file=path, name=file_name(name)) for a in command]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace")
    out = (done.stdout + done.stderr).strip()
    return (name, None if done.returncode == SKIPPED else "" if done.returncode == 0 else out or f"status {done.returncode}", out)


def told(name, error):
    """Each as soon as it is known: a run that is ended says how far it came."""
    if error:
        print(f"not ok {name}\n{error}", flush=True)


def reports(text):
    """JSON objects that follow one another."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text.rstrip()):
        value, at = decoder.raw_decode(text, at + len(text[at:]) - len(text[at:].lstrip()))
        yield value


def digest(report, code):
    case = next((c for c in report["cases"] if c["name"] == "small"), {})
    if case.get("status") == "ok":
        return case["digest"], ""
    return None, f"{code}: {report.get('text', '')} {case.get('status', 'no result')} {case.get('check', '')} {case.get('text', '')}"


def on_device(sketchc, folder, names):
    """Kernels that pack left, all in one process: name, '' or what went wrong."""
    files = [str(folder / f"{file_name(name)}.{code}.ska") for name in names for code in ("ptx", "cu")]
    words = [sketchc, "verify", *files, "--exact", "--no-ragged", "--json", "--time-limit=20"]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace")
    found = list(reports(done.stdout))
    if len(found) != len(files):
        return [(name, (done.stdout + done.stderr)[-2000:]) for name in names] if len(names) == 1 else [
            result for name in names for result in on_device(sketchc, folder, [name])]
    results = []
    for i, name in enumerate(names):
        (first, wrong), (second, also) = digest(found[2 * i], "PTX"), digest(found[2 * i + 1], "CUDA C")
        results.append((name, wrong + also or ("" if first == second else "PTX and CUDA C differ")))
    return results


def device(table, sketchc, folder):
    batches = [[name for name, _, _ in table[i:i + 8]] for i in range(0, len(table), 8)]
    count = failed = 0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for results in pool.map(lambda names: on_device(sketchc, folder, names), batches):
            for name, error in results:
                told(name, error)
                count, failed = count + 1, failed + bool(error)
            print(f"{count - failed} of {count} pass so far", flush=True)
    return 1 if failed else 0


def main():
    root, mode, *program = sys.argv[1:]
    table = kernels(pathlib.Path(root))
    if mode == "print":
        print("\n".join(f"# {name}, {arch}\n{text}" for name, arch, text in table if not program or re.search(program[0], name)))
        return 0
    if mode == "device":
        return device(table, program[0], pathlib.Path(program[1]))
    if mode == "assemble" or (mode == "interpret" and os.environ.get("SANITIZED")):
        table = daily.drawn(table, 3)
    if mode == "cuda" and len(program) > 1:
        first, step = map(int, program.pop().split("/"))
        table = table[first - 1::step]
    kept, arch = program[1:2], program[2:3] or ["sm_90a"]
    program = program[:1]
    commands = {"interpret": program + ["{file}", "--arch={arch}", "--passes=simplify", "--exact", "P=1", "P=3"],
                "assemble": program + ["{file}", "{arch}", "assemble"],
                "pack": program + ["{file}", *arch, "pack", *[f"{k}/{{name}}" for k in kept]],
                "run": program + ["{file}", "{arch}", "run"], "cuda": program + ["{file}", "{arch}", "cuda"]}
    results = []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        jobs = [pool.submit(run, commands[mode], pathlib.Path(folder), row) for row in table]
        for job in concurrent.futures.as_completed(jobs):
            results.append(job.result())
            told(*results[-1][:2])
            if mode == "run" and len(results) % 10 == 0:
                print(f"{len(results)} of {len(table)} have run", flush=True)
    failed = [name for name, error, _ in results if error]
    skipped = [out for _, error, out in results if error is None]
    if skipped:
        print(f"{len(skipped)} of {len(results)} skipped: {skipped[0]}")
    if len(skipped) == len(results):
        print("needs ptxas, nvcc" if mode in ("assemble", "pack") else "needs gpu")
        return SKIPPED
    print(f"{len(results) - len(failed) - len(skipped)} of {len(results)} pass")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
