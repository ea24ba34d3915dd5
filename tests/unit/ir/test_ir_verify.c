/* What the verifier rejects, and with which words; what it must accept stands in tests/ir. */
#include "ir_reader.h"

/* The first finding ends with `message`, and it is the only one. */
static void rejects(const char *header, const char *body, const char *message) {
    Reader r = read_func(header, body);
    bool ok = ir_verify(r.m, &r.diags);
    const char *text = r.diags.first ? r.diags.first->text : "";
    size_t got = strlen(text), want = strlen(message);
    if (ok || got < want || strcmp(text + got - want, message) != 0 || r.diags.error_count != 1) {
        Str out;
        str_init(&out);
        diag_render_text(&r.diags, false, &out);
        fprintf(stderr, "%s\nwant: %s\ngot:\n%s", body, message, out.data);
        exit(1);
    }
    CHECK(r.diags.first->severity == SEVERITY_BUG);
    arena_destroy(r.arena);
}

static void accepts(const char *header, const char *body) {
    Reader r = read_func(header, body);
    if (!ir_verify(r.m, &r.diags)) {
        fprintf(stderr, "%s\nis rejected: %s\n", body, r.diags.first->text);
        exit(1);
    }
    arena_destroy(r.arena);
}

static const char kernel[] = "kernel (tensor %X: ptr<f32, global> in, symbol %N: index, scalar %s: f32, scalar %c: bool)";
static const char graph[] = "graph (tensor %X: tensor<[M, N] x f32> in, symbol %M: index, symbol %N: index)";
static const char open[] = "tile open (tensor %X: tensor<[M, N] x f32> in, symbol %M: index, symbol %N: index, scalar %s: f32)";
static const char mapped[] = "tile mapped (tensor %X: tensor<[M, N] x f16> in, symbol %M: index, symbol %N: index)";

static void test_structure(void) {
    rejects(kernel, "for(%N, %N, %N) (%i: index) {\n%a = add(%i, %i) : index\nyield()\n}\n%b = add(%a, %a) : index",
            "operand 0 is not defined before this op, or inside a region that has ended");
    rejects(kernel, "for(%N, %N, %N) (%i: index) {\n}", "a region does not end with yield");
    rejects(kernel, "for(%N, %N, %N) (%i: index) {\nyield()\nyield()\n}", "stands in the middle of a region");
    rejects(kernel, "return()", "stands in the middle of a region");
    rejects(kernel, "yield()", "stands in the middle of a region");
    rejects(kernel, "%t = tile.iota() {axis = 0} : frag<[2] x i32>", "this op does not exist at the function's level");
    rejects(open, "async.commit()", "this op exists in state mapped only");
    rejects(kernel, "%t = const() {value = 0.0} : tile<[8] x f32>", "a value of this kind of type does not exist at this level");
    rejects(open, "%t = const() {value = 0.0} : tile<[Q] x f32>", "an affine expression mentions Q, which is no symbol of the function");
    rejects(mapped, "%t = const() {value = 0.0} : tile<[N] x f32>", "extent 0 is not constant");
    rejects("kernel (scalar %s: index)", "", "parameter s has a type of the wrong kind");
    rejects("kernel (tensor %X: tensor<[8] x f32> in)", "", "parameter X has a type of the wrong kind");
    rejects("graph (symbol %N: index)\nrequire M - N >= 0\n", "", "an affine expression mentions M, which is no symbol of the function");
}

static void test_types(void) {
    rejects(kernel, "%a = add(%s, %N) : f32", "operand 1 does not have the type of the others");
    rejects(kernel, "%a = lt(%N, %N) : index", "the result is not bool in the operands' shape");
    rejects(kernel, "%a = select(%N, %s, %s) : f32", "the condition is not bool in the result's shape");
    rejects(kernel, "%a = add(%s, %s) : vec<4 x f32>", "scalars give a shape here; broadcast is an op of its own");
    rejects(kernel, "%a = add(%c, %c) : bool", "the op does not exist for bool");
    rejects(kernel, "%a = sqrt(%N) : index", "the op does not exist for i64");
    rejects(kernel, "%a = shl(%s, %s) : f32", "the op does not exist for f32");
    rejects(kernel, "%a = const() {value = 1.0} : index", "value is an int for ints, index and bool, a float for floats");
    rejects(kernel, "%a = const() : index", "the attribute value is missing");
    rejects(kernel, "%a = neg(%s) {speed = 3} : f32", "neg has no attribute speed");
    rejects(kernel, "barrier() {scope = 3}", "the attribute scope is of kind int, not word");
    rejects(kernel, "%a = bitcast(%s) : vec<2 x f32>", "bitcast keeps the number of bits");
    rejects(kernel, "%v = const() {value = 0.0} : vec<4 x f32>\n%a = cast(%v) : f16", "a cast keeps the shape");
    rejects(open,
            "%t = const() {value = 0.0} : tile<[8] x f32>\n%u = const() {value = 0.0} : tile<[M] x f32>\n"
            "%a = mul(%t, %u) : tile<[8] x f32>",
            "operand 1 does not have the type of the others");
    accepts(open, "%t = const() {value = 0.0} : tile<[8] x f32>\n%a = mul(%s, %t) : tile<[8] x f32>\n"
                  "%b = lt(%t, %s) : tile<[8] x bool>\n%d = select(%b, %s, %t) : tile<[8] x f32>");
}

static void test_control(void) {
    rejects(kernel, "for(%N, %N, %N) {hints = [\"vectorise\"]} (%i: index) {\nyield()\n}", "vectorise is no hint (ir/enums.def)");
    rejects(kernel, "for(%N, %N, %N) {hints = [\"cluster=2\"]} (%i: index) {\nyield()\n}", "cluster=2 is no hint (ir/enums.def)");
    accepts(kernel, "for(%N, %N, %N) {hints = [\"vectorize\", \"swizzle=4\"]} (%i: index) {\nyield()\n}");
    rejects(kernel, "%z = const() {value = 0} : index\nfor(%N, %N, %z) (%i: index) {\nyield()\n}", "the step is not positive");
    rejects(kernel, "%r = for(%N, %N, %N, %s) : f32 (%i: index) {\nyield(%s)\n}", "as many arguments as carried values, and the index");
    rejects(kernel, "%r = for(%N, %N, %N, %s) : f32 (%i: index, %x: f32) {\nyield(%i)\n}",
            "yielded value 0 has another type than the result");
    rejects(kernel, "%r = for(%N, %N, %N, %s) : f32 (%i: index, %x: bool) {\nyield(%s)\n}", "carried value 0 changes its type");
    rejects(kernel, "if(%s) {\nyield()\n} {}", "the condition is a bool scalar");
    rejects(kernel, "%r = if(%c) : f32 {\nyield(%s)\n} {\nyield()\n}", "a region does not yield 1 values");
    accepts(kernel, "if(%c) {\nyield()\n} {}");
}

static void test_graph(void) {
    rejects(graph, "%a = graph.reduce(%X) {kind = \"add\", axes = [2]} : tensor<[M] x f32>", "axes: there is no axis 2");
    rejects(graph, "%a = graph.reduce(%X) {kind = \"add\", axes = [1, 1]} : tensor<[M] x f32>", "axes: axis 1 stands twice");
    rejects(graph, "%a = graph.reduce(%X) {kind = \"add\", axes = [1]} : tensor<[N] x f32>", "result axis 0 does not fit");
    rejects(graph, "%a = graph.reduce(%X) {kind = \"linear\", axes = [1]} : tensor<[M] x f32>",
            "this kind of reduction does not exist here");
    rejects(graph, "%a = graph.broadcast(%X) {axes = [1, 0]} : tensor<[M, N] x f32>", "axis 0 is neither 1 nor as large as the result's");
    rejects(graph, "%a = graph.transpose(%X) {perm = [1, 0]} : tensor<[M, N] x f32>", "result axis 0 does not fit");
    rejects(graph, "%a = graph.contract(%X, %X) {batch_a = [], batch_b = [], sum_a = [1], sum_b = [0]} : tensor<[M, N] x f32>",
            "the contracted extents differ");
    rejects(graph,
            "%a = graph.generic(%M) {outer = 1} : tensor<[N] x f32> (%i: index) {\n"
            "%e = graph.element(%X, %i, %i) : f32\nyield(%e)\n}",
            "extent 0 differs from its operand");
    rejects(graph,
            "%a = graph.generic(%M) {outer = 0} : tensor<[] x f32> (%i: index) {\n"
            "%e = graph.element(%X, %i, %i) : f32\nyield(%e)\n}",
            "what is reduced needs a kind: add, mul, max, min, mean, and, or");
    rejects(graph, "%e = graph.element(%X, %M, %M) : f32", "stands inside graph.generic");
}

static void test_tiles(void) {
    rejects(open, "%a = tile.load(%X, %M, %N) {axes = \"rr\"} : tile<[8, 8] x f32>", "the slice needs 5 operands");
    rejects(open, "%a = tile.load(%X, %M, %N) {axes = \"r\"} : tile<[8] x f32>",
            "axes has a letter r, p or g for each axis of what is sliced");
    rejects(open, "%a = tile.load(%X, %M, %N, %M) {axes = \"rp\"} : tile<[8, 8] x f32>",
            "the result has the slice's rank and the tensor's dtype");
    rejects(open, "%a = tile.load(%X, %M, %N, %M) {axes = \"rp\"} : tile<[8] x f16>",
            "the result has the slice's rank and the tensor's dtype");
    rejects(open, "%a = tile.load(%X, %M, %N) {axes = \"pp\"} : f32\ntile.store(%a, %X, %M, %N) {axes = \"pp\", mode = \"mul\"}",
            "mode is set, add, max or min");
    rejects(open, "%a = const() {value = 0.0} : tile<[8, 4] x f32>\n%b = tile.gemm(%a, %a, %a) : tile<[8, 4] x f32>",
            "the contracted extents differ");
    accepts(open, "%a = const() {value = 0.0} : tile<[8, 4] x f32>\n%c = const() {value = 0.0} : tile<[8, 8] x f32>\n"
                  "%b = tile.gemm(%a, %a, %c) {trans_b = true} : tile<[8, 8] x f32>");
    rejects(mapped,
            "%b = buf.alloc() : buf<2 x [8] x f16, shared>\n%s = const() {value = 2} : index\n"
            "%a = buf.load(%b, %s) : tile<[8] x f16>",
            "there is no such stage");
    rejects(mapped,
            "%b = buf.alloc() : buf<2 x [8] x f16, shared>\n%s = const() {value = 1} : index\n"
            "%a = buf.load(%b, %s) : tile<[4] x f16>",
            "tile and buffer differ in shape or dtype");
}

static void test_axes(void) {
    rejects(graph, "%a = graph.scan(%X) {kind = \"add\", axis = 2} : tensor<[M, N] x f32>", "there is no such axis");
    rejects(graph, "%a = graph.scan(%X) {kind = \"mean\", axis = 0} : tensor<[M, N] x f32>",
            "a scan is of kind add, mul, max, min or linear");
    rejects(graph, "%a = graph.arg(%X) {kind = \"max\", axis = 0} : tensor<[N] x i32>", "gives indices of type i64");
    rejects(graph, "%a = graph.arg(%X) {kind = \"max\", axis = 0} : tensor<[M] x i64>", "result axis 0 does not fit");
    rejects(graph, "%a, %i = graph.sort(%X) {axis = 0} : tensor<[M, N] x f32>, tensor<[M, N] x i32>",
            "the indices are i64 in the operand's shape");
    rejects(graph, "%a = graph.concat(%X, %X) {axis = 0} : tensor<[M, N] x f32>", "the result is not as long as the operands together");
    rejects(graph, "%a = graph.concat(%X, %X) {axis = 0} : tensor<[2*M, M] x f32>", "axis 1 does not fit");
    rejects(graph, "%a = graph.iota() {axis = 0} : tensor<[M] x f32>", "iota gives integers");
    rejects(graph, "%a = graph.random(%M, %M) : tensor<[M] x i32>", "random gives floats");
    rejects(graph, "%a = graph.reduce(%X) {kind = \"or\", axes = [1]} : tensor<[M] x f32>", "and, or work on bool and integers");
    rejects(open, "%x = tile.load(%X, %M, %N) {axes = \"pp\"} : tile<[] x f32>\n%a = tile.flip(%x) {axis = 0} : tile<[] x f32>",
            "there is no such axis");
    rejects(open, "%x = const() {value = 0.0} : tile<[8, 8] x f32>\n%a = tile.extract(%x, %M) {axes = \"pp\"} : tile<[] x f32>",
            "the slice needs 3 operands");
    rejects(open, "%x = const() {value = 0.0} : tile<[8, 8] x f32>\n%a = tile.extract(%x, %M, %M) {axes = \"pp\"} : tile<[8] x f32>",
            "the result has the slice's rank and the tile's dtype");
    rejects(open, "%x = const() {value = 0.0} : tile<[8, 8] x f32>\n%a = tile.insert(%x, %x, %M, %M) {axes = \"pp\"} : tile<[8, 8] x f32>",
            "the part has the slice's rank and the tile's dtype");
    rejects(open,
            "%x = const() {value = 0.0} : tile<[8, 4] x f32>\n%i = const() {value = 0} : tile<[3] x i32>\n"
            "%a = tile.gather(%x, %i) {axis = 1} : tile<[3, 8] x f32>",
            "result axis 0 does not fit");
    rejects(open, "%x = const() {value = 0.0} : tile<[8] x f32>\n%a = tile.scalar(%x) : f32", "reads a tile of rank 0");
}

static void test_kernel(void) {
    rejects(kernel, "%f = map() {extents = [2, 4]} : frag<[2, 4] x f32> (%i: index) {\nyield(%s)\n}",
            "the region takes an index for each extent");
    rejects(kernel,
            "%v = const() {value = 0.0} : vec<4 x f32>\n"
            "%f = map() {extents = [2]} : frag<[2] x f32> (%i: index) {\nyield(%v)\n}",
            "result 0: extent 0 is not 8");
    rejects(kernel, "%a = mem.load(%X, %N, %c) : f32", "a mask comes with the other value");
    rejects(kernel, "%a = mem.load(%X, %N) {align = 12} : f32", "align is a power of two up to 128");
    rejects(kernel, "%a = mem.load(%X, %N) : vec<2 x f16>", "the value is a scalar or vec of the pointer's dtype");
    rejects(kernel, "mem.store(%s, %X, %N, %s)", "the mask is a bool scalar");
    rejects(kernel, "%a = shuffle.xor(%s) {mask = 32} : f32", "mask is from 1 to 31");
    rejects(kernel, "%a = pack(%s, %s) : vec<4 x f32>", "the vec has a lane for each operand");
    rejects(kernel, "%a = extract(%s) {lane = 1} : f32", "there is no such lane");
    rejects(kernel, "%a = atom(%s) {name = \"ldmatrix.x4\"} : vec<4 x u32>", "too few operands");
    rejects(kernel, "atom(%s) {name = \"stmatrix.x4\"}", "too few operands");
    rejects(kernel, "barrier() {scope = \"warpgroup\"}", "the function's warps make no whole warpgroups");
    rejects(kernel, "%a = atom(%s) {name = \"fma\"} : f32", "fma is no instruction of atoms.def");
    rejects(kernel, "%p = shared.ptr() {offset = 2, bytes = 4} : ptr<f32, shared>", "the offset is not aligned to the element");
    rejects(kernel, "async.wait() {pending = -1}", "pending is from 0 to 63");
}

static void test_collectives(void) {
    const char *lane = "%l = special() {name = \"lane\"} : index\n%c1 = lt(%l, %N) : bool\n"
                       "if(%c1) {\nbarrier() {scope = \"warp\"}\nyield()\n} {}";
    const char *warp = "%l = special() {name = \"warp\"} : index\n%c1 = lt(%l, %N) : bool\n"
                       "if(%c1) {\nbarrier() {scope = \"block\"}\nyield()\n} {}";
    const char *loop = "%l = special() {name = \"tid.x\"} : index\nfor(%l, %N, %N) (%i: index) {\n"
                       "%a = shuffle.xor(%s) {mask = 1} : f32\nyield()\n}";
    rejects(kernel, lane, "all threads of the warp must reach this op, but an enclosing `if` depends on the lane");
    rejects(kernel, warp, "all threads of the block must reach this op, but an enclosing `if` depends on the warp");
    rejects(kernel, loop, "all threads of the warp must reach this op, but an enclosing `for` depends on the lane");
    accepts(kernel, "%l = special() {name = \"warp\"} : index\n%c1 = lt(%l, %N) : bool\n"
                    "if(%c1) {\nbarrier() {scope = \"warp\"}\nyield()\n} {}");
    accepts(kernel, "%l = special() {name = \"ctaid.x\"} : index\n%c1 = lt(%l, %N) : bool\n"
                    "if(%c1) {\nbarrier() {scope = \"block\"}\nyield()\n} {}");
}

static const char engine[] = "kernel (tensor %A: ptr<f16, global> in of tensor<[M, K] x f16>, symbol %M: index, symbol %K: index, "
                             "map %A_box: ptr<f16, map> of A [64, 64] swizzle 128)";
static const char shared[] = "%z = const() {value = 0} : index\n"
                             "%a = shared.ptr() {offset = 0, bytes = 8192, align = 1024} : ptr<f16, shared>\n"
                             "%f = shared.ptr() {offset = 8192, bytes = 8} : ptr<u64, shared>\n"
                             "%acc = map() {extents = [1, 4]} : frag<[1, 4] x f32> (%i: index, %j: index) {\n"
                             "%o = const() {value = 0.0} : f32\nyield(%o)\n}\n";

/* Two groups, the second of new accumulators. */
static const char twice[] = "%n = wgmma(%a, %z, %a, %z, %acc) {swizzle = [128, 128], lead = [0, 0]} : frag<[1, 4] x f32>\n"
                            "wgmma.commit()\n"
                            "%p = wgmma(%a, %z, %a, %z) {swizzle = [128, 128], lead = [0, 0]} : frag<[1, 4] x f32>\n"
                            "wgmma.commit()\n";

static void engine_rejects(const char *body, const char *message) {
    char text[2048];
    snprintf(text, sizeof text, "%s%s", shared, body);
    rejects(engine, text, message);
}

static void test_meet(void) {
    static const char together[] = "kernel (symbol %M: index, workspace %C: ptr<i32, global> of tensor<[M] x i32> elements M, "
                                   "workspace %W: ptr<f32, global> of tensor<[M] x f32> elements M) {num_warps = 1, cooperative = 1}";
    static const char apart[] = "kernel (symbol %M: index, workspace %C: ptr<i32, global> of tensor<[M] x i32> elements M) {num_warps = 1}";
    accepts(together, "grid_barrier.arrive(%C, %M)\ngrid_barrier.wait(%C, %M, %M)");
    rejects(together, "grid_barrier.arrive(%W, %M)", "the counters are i32 of global memory");
    rejects(apart, "grid_barrier.arrive(%C, %M)", "blocks wait for each other in cooperative launches only");
    rejects(together, "grid_barrier.wait(%W, %M, %M)", "the counters are i32 of global memory");
    rejects(together, "%o = const() {value = 1.0} : f32\ngrid_barrier.wait(%C, %M, %o)", "index and count are indices");
    rejects(apart, "grid_barrier.wait(%C, %M, %M)", "blocks wait for each other in cooperative launches only");
    rejects(together,
            "%l = special() {name = \"lane\"} : index\n%i = lt(%l, %M) : bool\nif(%i) {\ngrid_barrier.wait(%C, %M, %M)\nyield()\n} {}",
            "all threads of the block must reach this op, but an enclosing `if` depends on the lane");
    rejects(together,
            "%i = lt(%M, %M) : bool\n%o = const() {value = 1.0} : f32\n%x = mem.load(%W, %M, %i, %o) {predicated = true} : f32\n"
            "mem.store(%x, %W, %M)",
            "a predicated load is of memory that is only read");
    accepts(together, "%x = mem.load(%W, %M) {peeks = true} : f32\nmem.store(%x, %W, %M) {publishes = true}\n%y = mem.load(%W, %M) {awaits "
                      "= true} : f32");
    rejects(together, "%x = mem.load(%W, %M) {awaits = true} : f32\nmem.store(%x, %W, %M)",
            "what blocks tell each other is published and awaited by every access");
    rejects(together, "%x = mem.load(%W, %M) : f32\nmem.store(%x, %W, %M) {publishes = true}",
            "what blocks tell each other is published and awaited by every access");
    rejects(together, "%x = mem.load(%C, %M) {awaits = true} : i32", "blocks publish and await single f32 in global memory");
    rejects(apart, "%o = const() {value = 1} : i32\nmem.store(%o, %C, %M) {publishes = true}",
            "blocks publish and await single f32 in global memory");
    rejects("kernel (symbol %M: index, workspace %W: ptr<f32, global> of tensor<[M] x f32> elements M) {num_warps = 1}",
            "%x = mem.load(%W, %M) {awaits = true} : f32", "blocks wait for each other in cooperative launches only");
}

static void test_steps_wait(void) {
    static const char early[] = "kernel (symbol %M: index) {num_warps = 1, dependent = 1}";
    static const char plain[] = "kernel (symbol %M: index) {num_warps = 1}";
    accepts(early, "steps.wait()");
    accepts(plain, "steps.release()");
    rejects(early, "%i = lt(%M, %M) : bool\nif(%i) {\nsteps.release()\nyield()\n} {}",
            "a step releases the one behind it in the function's own block");
    rejects(plain, "steps.wait()", "the function is not launched before the steps ahead of it are over");
    rejects(early, "steps.wait()\nsteps.wait()", "a step waits once");
    rejects(early, "%i = lt(%M, %M) : bool\nif(%i) {\nsteps.wait()\nyield()\n} {}", "a step waits for others in the function's own block");
}

static void test_sends(void) {
    static const char cluster[] = "kernel (symbol %M: index) {num_warps = 2, cluster = [2, 1, 1]}",
                      none[] = "kernel (symbol %M: index) {num_warps = 2}";
#define PLACES                                                                                                                             \
    "%p = shared.ptr() {offset = 0, bytes = 8} : ptr<f32, shared>\n%b = shared.ptr() {offset = 8, bytes = 8} : ptr<u64, shared>\n"         \
    "%h = shared.ptr() {offset = 16, bytes = 8} : ptr<f16, shared>\n%x = const() {value = 1.0} : f32\n%y = const() {value = 1.0} : f16\n"
    accepts(cluster, PLACES "cluster.begin(%b)\ncluster.begun()\ncluster.send(%x, %p, %M, %b)\ncluster.meet(%b) {bytes = 8, number = 31}");
    accepts(none, "%a = special() {name = \"ctaid.x\", backwards = true} : index");
    rejects(cluster, "%a = special() {name = \"clusterid.x\", backwards = true} : index", "clusters are not counted from the last");
    rejects(none, "cluster.begin()", "the function has no clusters");
    rejects(none, "cluster.begun()", "the function has no clusters");
    rejects(cluster, PLACES "cluster.begin(%p)", "the barrier is u64 of shared memory");
    rejects(cluster, PLACES "cluster.send(%y, %h, %M, %b)", "the value is one of 4 or 8 bytes");
    rejects(cluster, PLACES "cluster.send(%x, %p, %M, %p)", "the barrier is u64 of shared memory");
    rejects(cluster, PLACES "cluster.send(%x, %p, %M, %b, %M)", "the mask is a bool scalar");
    rejects(cluster, PLACES "cluster.meet(%b) {bytes = 0, number = 0}", "some bytes come");
    rejects(cluster, PLACES "cluster.meet(%b) {bytes = 8, number = 32}", "barriers are numbered from 0 to 31");
    rejects(cluster, PLACES "cluster.begun()\ncluster.send(%x, %p, %M, %b)", "no cluster.begin makes the barrier");
    rejects(cluster, PLACES "cluster.meet(%b) {bytes = 8, number = 0}", "no cluster.begin makes the barrier");
    rejects(cluster, PLACES "cluster.begin(%b)\ncluster.meet(%b) {bytes = 8, number = 0}\ncluster.meet(%b) {bytes = 8, number = 1}",
            "a barrier has one number, of its own");
    rejects(cluster,
            PLACES "%c = shared.ptr() {offset = 24, bytes = 8} : ptr<u64, shared>\ncluster.begin(%b, %c)\n"
                   "cluster.meet(%b) {bytes = 8, number = 0}\ncluster.meet(%c) {bytes = 8, number = 0}",
            "a barrier has one number, of its own");
    rejects(cluster,
            PLACES "cluster.begin(%b)\n%w = special() {name = \"ctaid.x\"} : index\n%i = lt(%w, %M) : bool\nif(%i) {\ncluster.meet(%b) "
                   "{bytes = 8, number = 0}\nyield()\n} {}",
            "all threads of the cluster must reach this op, but an enclosing `if` depends on the block");
#undef PLACES
}

static void test_engine(void) {
    char text[2048];
    snprintf(text, sizeof text,
             "%smbar.init(%%f, %%z) {arrivals = 1}\nmbar.expect(%%f, %%z) {bytes = 8192}\n"
             "tma.load(%%A_box, %%a, %%z, %%f, %%z, %%z, %%z)\nmbar.wait(%%f, %%z, %%z)\nwgmma.fence()\n"
             "%%n = wgmma(%%a, %%z, %%a, %%z, %%acc) {swizzle = [128, 128], lead = [0, 8192], trans_b = true} : frag<[1, 4] x f32>\n"
             "wgmma.commit()\n%%d = wgmma.wait(%%n) {pending = 0} : frag<[1, 4] x f32>\nmbar.drop(%%f, %%z)",
             shared);
    accepts(engine, text);
    engine_rejects("mbar.init(%a, %z) {arrivals = 1}", "names a barrier by a shared pointer to u64 and an offset");
    engine_rejects("mbar.init(%f, %z) {arrivals = 0}", "a phase has an arrival at least");
    engine_rejects("mbar.expect(%f, %z) {bytes = 1048576}", "a phase counts less than 2^20 bytes");
    engine_rejects("tma.load(%A_box, %a, %z, %f, %z, %z)", "has a coordinate for each axis of the tensor");
    engine_rejects("tma.load(%A, %a, %z, %f, %z, %z, %z)", "reads through a tensor map of the function");
    engine_rejects("tma.load(%A_box, %a, %z, %f, %z, %z, %z) {multicast = true}", "the function has no clusters");
    engine_rejects("mbar.arrive(%f, %z, %z)", "the function has no clusters");
    engine_rejects("mbar.arrive(%f, %z, %f)", "the rank is an index");
    engine_rejects("%n = wgmma(%a, %z, %a, %z, %acc) {swizzle = [16, 128], lead = [0, 0]} : frag<[1, 4] x f32>",
                   "a swizzle is of 32, 64 or 128 bytes");
    engine_rejects("%n = wgmma(%f, %z, %f, %z, %acc) {swizzle = [128, 128], lead = [0, 0]} : frag<[1, 4] x f32>",
                   "no instruction multiplies these into such accumulators");
    engine_rejects("%d = wgmma.wait(%acc) {pending = 8} : frag<[1, 4] x f32>", "pending is from 0 to 7");
    snprintf(text, sizeof text, "%s%s%s", shared, twice, "%d = wgmma.wait(%n) {pending = 1, done = true} : frag<[1, 4] x f32>");
    accepts(engine, text);
    snprintf(text, sizeof text, "%s%s", twice, "%d = wgmma.wait(%n) {pending = 2, done = true} : frag<[1, 4] x f32>");
    engine_rejects(text, "2 groups in flight, but 1 are newer than these accumulators");
    snprintf(text, sizeof text, "%s%s", twice, "%d = wgmma.wait(%p) {pending = 1, done = true} : frag<[1, 4] x f32>");
    engine_rejects(text, "1 groups in flight, but 0 are newer than these accumulators");
    engine_rejects("%d = wgmma.wait(%acc) {pending = 0, done = true} : frag<[1, 4] x f32>", "done is for a product of the same block");
    engine_rejects("%l = special() {name = \"warp\"} : index\n%c = lt(%l, %M) : bool\nif(%c) {\nwgmma.fence()\nyield()\n} {}",
                   "all threads of the block must reach this op, but an enclosing `if` depends on the warp");
    rejects("kernel (tensor %A: ptr<f16, global> in, map %m: ptr<f16, map> of B [8, 8] swizzle 0)", "",
            "the map m is of no tensor of the function");
    rejects("kernel (tensor %A: ptr<f16, global> in, map %m: ptr<f32, map> of A [8, 8] swizzle 0)", "",
            "the map m has another dtype than its tensor");
    rejects("kernel (tensor %A: ptr<f16, global> in, map %m: ptr<f16, map> of A [8, 64] swizzle 64)", "",
            "a row of the box of the map m is a multiple of 16 bytes, and within the swizzle");
    accepts("kernel (tensor %A: ptr<f16, global> in of tensor<[M, 16] x f16>, symbol %M: index, map %m: ptr<f16, map> of A [8, 64] swizzle "
            "128 joined 4)",
            "");
    rejects("kernel (tensor %A: ptr<f16, global> in, map %m: ptr<f16, map> of A [8] swizzle 0 joined 4)", "",
            "the map m joins rows of a tensor of one axis");
    rejects(mapped,
            "%z = const() {value = 0} : index\n%full = mbar.alloc() {arrivals = 1} : buf<2 x [1] x u64, shared>\n"
            "%b = buf.alloc() {tma = 128} : buf<2 x [64, 64] x f16, shared>\n%w = const() {value = 64} : index\n"
            "%t = tma.copy(%X, %b, %z, %b, %z, %z, %w, %z, %w) {axes = \"rr\", extents = [64, 64]} : token",
            "operand 3 is no ring of barriers");
}

/* Damage that text cannot express. */
static void test_damage(void) {
    Reader r = read_func(kernel, "%a = add(%s, %s) : f32\n%b = add(%a, %s) : f32");
    IrValue *b = find_value(r.m->first, "b");
    CHECK(ir_verify(r.m, &r.diags));
    ir_op_move_before(b->def, find_value(r.m->first, "a")->def);
    CHECK(!ir_verify(r.m, &r.diags));
    arena_destroy(r.arena);
}

int main(void) {
    test_structure();
    test_types();
    test_control();
    test_graph();
    test_tiles();
    test_axes();
    test_kernel();
    test_collectives();
    test_meet();
    test_steps_wait();
    test_sends();
    test_engine();
    test_damage();
    return 0;
}
