/* grid: the outermost parallel loops become the machine's axis.
 *
 * The nest of `parallel` at the top of a kernel is its grid (tiles between its loops are made in
 * the innermost one); a `parallel` anywhere else, or one whose trip count depends on an outer loop,
 * becomes a serial `for`. For cuda the grid's loops are replaced by arithmetic on one block index,
 * innermost loop fastest; for a processor they stay and the outermost carries `collapse`.
 *
 * Blocks start in the order of their numbers. If the trip count of a serial loop in the kernel grows with the index of a grid loop, blocks
 * are numbered in descending order of that index (of all grid loops, if it is not the innermost one), so that the last blocks to
 * run are short.
 *
 * needs:  tile functions in state static
 * keeps:  everything else
 * breaks: cuda: no `parallel` is left; sets the function attribute grid_x
 * source: loop collapsing
 *
 *     parallel(%c0, %B, %c1) (%b: index) {           %p = special() {name = "ctaid.x"} : index
 *       parallel(%c0, %D, %c128) (%d: index) {  =>   %b = floordiv(%p, ceildiv(D, 128))
 *         ...                                        %d = mul(mod(%p, ceildiv(D, 128)), 128)
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/analysis.h"
#include "plant.h"
#include "tile_order.h"

enum {
    MAX_NEST = 16,    /* parallel loops of a kernel: room */
    LONGEST_FIRST = 1 /* the switch */
};

typedef struct {
    IrOp *loops[MAX_NEST];
    const Aff *trips[MAX_NEST];
    unsigned depth;
} Nest;

static bool reads_constant_data(const IrOp *load) {
    return !is_stored_to(load->operands[0]);
}

/* The only `parallel` of a block whose other ops can be repeated; null when it is no such block. */
static IrOp *only_parallel(const IrBlock *block) {
    IrOp *found = NULL;
    for (IrOp *op = block->first; op; op = op->next) {
        if (op->opcode == IR_PARALLEL && !found)
            found = op;
        else if (!is_terminator(op) && (!is_repeatable(op) || op->region_count || (op->opcode == IR_TILE_LOAD && !reads_constant_data(op))))
            return NULL;
    }
    return found;
}

static bool uses_result_in(const IrOp *op, const IrBlock *block) {
    for (unsigned i = 0; i < op->operand_count; i++)
        if (op->operands[i]->def && op->operands[i]->def->block == block) return true;
    return false;
}

/* Tiles made before the inner loop, and what is read from them, are made in it: more loops are then
 * parallel. */
static void sink_tiles(IrOp *inner) {
    IrBlock *body = inner->regions[0];
    IrOp *first = body->first;
    for (IrOp *op = inner->block->first, *next; op != inner; op = next) {
        next = op->next;
        if (!is_scalar_arithmetic(op) || uses_result_in(op, body)) ir_op_move_before(op, first);
    }
}

static Nest find_nest(PassContext *ctx, IrFunc *f) {
    Nest nest = {0};
    IrModule *m = ctx->module;
    const Aff *zero = aff_const(m->affs, 0);
    for (IrOp *loop = only_parallel(f->body); loop && nest.depth < MAX_NEST; loop = only_parallel(loop->regions[0])) {
        const Aff *trips = loop_trips(m, loop);
        if (!aff_over_symbols(trips) || !aff_over_symbols(ir_aff_of(m, loop->operands[0]))) break;
        if (!aff_prove_nonneg(ir_facts_at(ctx->scratch, loop), trips)) trips = aff_max(m->affs, trips, zero);
        sink_tiles(loop);
        nest.loops[nest.depth] = loop;
        nest.trips[nest.depth++] = trips;
    }
    return nest;
}

static bool in_nest(const Nest *nest, const IrOp *op) {
    for (unsigned i = 0; i < nest->depth; i++)
        if (nest->loops[i] == op) return true;
    return false;
}

/* ---- Serial loops ---- */

static void make_serial(IrOp *loop) {
    IrBuilder b = ir_builder_before(loop);
    IrOp *serial = ir_for(&b, loop->operands[0], loop->operands[1], loop->operands[2], 0, NULL, loop->regions[0]->args[0]->name);
    ir_replace_uses(loop->regions[0]->args[0], serial->regions[0]->args[0]);
    for (IrOp *op = loop->regions[0]->first, *next; op; op = next) {
        next = op->next;
        ir_op_move_to_end(op, serial->regions[0]);
    }
    ir_op_erase(loop);
}

/* ---- cuda ---- */

/* The proof of it would divide products of symbols. */
static void note_bound(IrValue *index, const Aff *trips) {
    IrOp *op = index->def;
    if (op && (op->opcode == IR_FLOORDIV || op->opcode == IR_MOD || op->opcode == IR_ADD)) ir_attr_set_aff(op, "below", trips);
}

/* ---- Swizzle: blocks in groups of rows, so that those that run together share cached data ---- */

/* Numbers a rows x columns grid by groups of `group` rows, column after column within a group. `block`: its
 * number where the grid has no other axis. */
static void swizzle_pair(IrBuilder *b, const Nest *nest, unsigned row, const Aff *group, IrValue **index, IrValue *block) {
    IrValue *rows = ir_aff_emit(b, nest->trips[row]), *columns = ir_aff_emit(b, nest->trips[row + 1]);
    IrValue *number = block;
    if (nest->depth > 2) number = ir_binary(b, IR_ADD, ir_binary(b, IR_MUL, index[row], columns), index[row + 1]);
    IrValue *size = ir_aff_emit(b, group), *blocks = ir_binary(b, IR_MUL, columns, size);
    IrValue *first = ir_binary(b, IR_MUL, ir_binary(b, IR_FLOORDIV, number, blocks), size);
    IrValue *height = ir_binary(b, IR_MIN, ir_binary(b, IR_SUB, rows, first), size);
    height = ir_binary(b, IR_MAX, height, ir_const_index(b, 1));
    IrValue *within = ir_binary(b, IR_MOD, number, blocks);
    index[row] = ir_binary(b, IR_ADD, first, ir_binary(b, IR_MOD, within, height));
    index[row + 1] = ir_binary(b, IR_FLOORDIV, within, height);
    note_bound(index[row], nest->trips[row]);
    note_bound(index[row + 1], nest->trips[row + 1]);
}

/* The order that the sketch states, else the one that is worth it; false: row after row. */
static bool swizzle_nest(PassContext *ctx, IrFunc *f, IrBuilder *b, const Nest *nest, IrValue **index, IrValue *block) {
    bool stated = false;
    for (unsigned i = 0; i < nest->depth; i++) {
        int64_t group = ir_op_swizzle(nest->loops[i]);
        if (!group) continue;
        if (nest->depth < 2) {
            report_hint(ctx, nest->loops[i]->span, "swizzle", "the grid has one axis");
            continue;
        }
        swizzle_pair(b, nest, i + 1 < nest->depth ? i : i - 1, aff_const(ctx->module->affs, group), index, block);
        stated = true;
    }
    if (stated || nest->depth < 2) return stated;
    unsigned row = nest->depth - 2;
    const Aff *group = tile_order_group(ctx, f, nest->loops[row], nest->loops[row + 1], nest->trips[row], nest->trips[row + 1]);
    if (!group) return false;
    swizzle_pair(b, nest, row, group, index, block);
    ir_func_set_aff(f, IR_FN_ORDER, group); /* for whoever explains */
    return true;
}

/* ---- The longest first ---- */

typedef enum { FREE = 0, GROWS = 1, SHRINKS = 2, EITHER = 3 } Growth; /* with a loop's variable */

static Growth opposite(Growth g) {
    return (Growth)((g & GROWS ? SHRINKS : 0) | (g & SHRINKS ? GROWS : 0));
}

static Growth growth(AffCtx *c, const Aff *e, const IrValue *v);

/* A sum that has min(x, y) or its negative: the lesser or the greater of two sums. */
static const Aff *with_least(AffCtx *c, const Aff *e, size_t at, unsigned k) {
    const Aff *least = e->args[at], *by = aff_const(c, e->coefs[at]);
    return aff_add(c, aff_sub(c, e, aff_mul(c, by, least)), aff_mul(c, by, least->args[k]));
}

static Growth growth_of_sum(AffCtx *c, const Aff *e, const IrValue *v) {
    Growth g = FREE;
    for (size_t i = 0; i < e->count; i++)
        if (e->args[i]->kind == AFF_MIN) return growth(c, with_least(c, e, i, 0), v) | growth(c, with_least(c, e, i, 1), v);
    for (size_t i = 0; i < e->count; i++) g |= e->coefs[i] < 0 ? opposite(growth(c, e->args[i], v)) : growth(c, e->args[i], v);
    return g;
}

static Growth growth(AffCtx *c, const Aff *e, const IrValue *v) {
    int64_t by = 0;
    Growth g = FREE;
    switch (e->kind) {
    case AFF_VAR:
        return e->var == v ? GROWS : FREE;
    case AFF_SUM:
        return growth_of_sum(c, e, v);
    case AFF_FLOORDIV:
        g = growth(c, e->args[0], v);
        if (growth(c, e->args[1], v)) return EITHER;
        return !g || (aff_is_const(e->args[1], &by) && by > 0) ? g : EITHER;
    case AFF_MIN:
        return growth(c, e->args[0], v) | growth(c, e->args[1], v);
    default:
        for (size_t i = 0; i < e->count; i++) g |= growth(c, e->args[i], v);
        return g ? EITHER : FREE;
    }
}

/* Does a loop of the innermost body get longer with the variable of a loop of the nest, and none shorter? */
static bool gets_longer(IrModule *m, const Nest *nest, unsigned i) {
    const IrBlock *body = nest->loops[nest->depth - 1]->regions[0];
    Growth g = FREE;
    for (const IrOp *op = body->first; op; op = op->next)
        if (op->opcode == IR_FOR) g |= growth(m->affs, loop_trips(m, op), nest->loops[i]->regions[0]->args[0]);
    return g == GROWS;
}

/* With an outer loop's variable blocks are numbered from the last one on, which costs nothing: the order within its iterations, which turns
 * with it, counts for little. */
static void longest_first(IrModule *m, IrBuilder *b, const Nest *nest, IrOp *number, IrValue **index) {
    if (!LONGEST_FIRST) return;
    unsigned last = nest->depth - 1;
    bool clusters = ir_op_special(number) != IR_SPECIAL_CTAID_X; /* counted from the first alone */
    for (unsigned i = 0; i < last && !clusters; i++)
        if (gets_longer(m, nest, i)) {
            ir_attr_set_bool(number, "backwards", true);
            return;
        }
    if (!gets_longer(m, nest, last)) return;
    IrValue *end = ir_binary(b, IR_SUB, ir_aff_emit(b, nest->trips[last]), ir_const_index(b, 1));
    index[last] = ir_binary(b, IR_SUB, end, index[last]);
}

/* The hint "persistent" of a loop goes on to the number of the block, for the pass that may follow it. */
static void pass_on_persistence(const Nest *nest, IrOp *number) {
    for (unsigned i = 0; i < nest->depth; i++) {
        if (!ir_op_has_hint(nest->loops[i], IR_HINT_PERSISTENT)) continue;
        ir_attr_set_bool(number, "persistent", true);
        number->span = nest->loops[i]->span;
    }
}

/* Is there at most one iteration? */
static bool is_once(const AffFacts *facts, const Aff *trips) {
    int64_t most;
    return aff_upper_bound(facts, trips, &most) && most <= 1;
}

/* Values of the loop variables from the block index, outermost first. */
static void bind_indices(PassContext *ctx, IrFunc *f, const Nest *nest) {
    IrModule *m = ctx->module;
    IrBuilder b = ir_builder_before(nest->loops[0]);
    IrOp *special = ir_op_create(&b, IR_SPECIAL, 0, NULL, 1, (const IrType *[]){ir_type_index(m)});
    int64_t cluster = ir_func_cluster(f); /* its blocks share an iteration */
    ir_set_special(special, cluster > 1 ? IR_SPECIAL_CLUSTERID_X : IR_SPECIAL_CTAID_X);
    pass_on_persistence(nest, special);
    if (ir_func_has(f, IR_FN_BACKWARDS)) ir_attr_set_bool(special, "backwards", true);
    IrValue *rest = &special->results[0], *index[MAX_NEST];
    const Aff *grid = aff_const(m->affs, 1);
    const AffFacts *facts = ir_facts_at(ctx->scratch, nest->loops[0]);
    unsigned first = 0; /* the outermost loop of more than one iteration */
    while (first < nest->depth && is_once(facts, nest->trips[first])) first++;
    for (unsigned i = nest->depth; i-- > 0;) {
        grid = aff_mul(m->affs, grid, nest->trips[i]);
        bool once = is_once(facts, nest->trips[i]);
        IrValue *trips = once ? NULL : ir_aff_emit(&b, nest->trips[i]);
        index[i] = once ? ir_const_index(&b, 0) : i > first ? ir_binary(&b, PLANTED(17) ? IR_FLOORDIV : IR_MOD, rest, trips) : rest;
        rest = i > first && !once ? ir_binary(&b, IR_FLOORDIV, rest, trips) : rest;
        note_bound(index[i], nest->trips[i]);
    }
    /* Steps whose grid may be empty: the block's number is below that of a loop within, and nobody divides by the others. */
    if (first && first < nest->depth && index[first] == &special->results[0]) ir_attr_set_aff(special, "below", nest->trips[first]);
    if (!swizzle_nest(ctx, f, &b, nest, index, &special->results[0])) longest_first(m, &b, nest, special, index);
    for (unsigned i = 0; i < nest->depth; i++) {
        IrValue *lb = ir_aff_emit(&b, ir_aff_of(m, nest->loops[i]->operands[0]));
        IrValue *step = ir_aff_emit(&b, ir_aff_of(m, nest->loops[i]->operands[2]));
        IrValue *value = ir_binary(&b, IR_ADD, lb, ir_binary(&b, IR_MUL, index[i], step));
        IrValue *variable = nest->loops[i]->regions[0]->args[0];
        if (value == &special->results[0] || value->name == NULL) value->name = variable->name;
        ir_replace_uses(variable, value);
    }
    ir_func_set_aff(f, IR_FN_GRID_X, aff_mul(m->affs, grid, aff_const(m->affs, cluster)));
}

/* Moves the bodies out, innermost last, and removes the loops. */
static void flatten(const Nest *nest) {
    for (unsigned i = 0; i < nest->depth; i++) {
        IrOp *loop = nest->loops[i];
        for (IrOp *op = loop->regions[0]->first, *next; op; op = next) {
            next = op->next;
            if (is_terminator(op))
                ir_op_erase(op);
            else
                ir_op_move_before(op, loop);
        }
        ir_op_erase(loop);
    }
}

/* ---- Processor ---- */

static bool depends_on_nest(const IrOp *op, const Nest *nest) {
    for (unsigned k = 0; k < op->operand_count; k++) {
        const IrValue *v = op->operands[k];
        const IrBlock *from = home_of(v);
        for (unsigned i = 0; i < nest->depth; i++)
            if (from == nest->loops[i]->regions[0]) return true;
    }
    return false;
}

/* Arithmetic between the loops of the nest moves in front of it, or behind it when it uses a loop
 * variable, so that the loops touch. */
static void hoist_bounds(const Nest *nest) {
    for (unsigned i = 0; i + 1 < nest->depth; i++) {
        IrOp *inner_first = nest->loops[i + 1]->regions[0]->first;
        for (IrOp *op = nest->loops[i]->regions[0]->first, *next; op != nest->loops[i + 1]; op = next) {
            next = op->next;
            ir_op_move_before(op, depends_on_nest(op, nest) ? inner_first : nest->loops[0]);
        }
    }
}

static void map_to_cores(PassContext *ctx, Nest *nest) {
    IrModule *m = ctx->module;
    for (unsigned i = 1; i < nest->depth; i++) {
        IrBuilder b = ir_builder_before(nest->loops[0]);
        for (unsigned k = 0; k < 3; k++) ir_set_operand(nest->loops[i], k, ir_aff_emit(&b, ir_aff_of(m, nest->loops[i]->operands[k])));
    }
    hoist_bounds(nest);
    for (unsigned i = 0; i < nest->depth; i++) ir_attr_remove(nest->loops[i], "hints"); /* followed, or reported */
    if (nest->depth > 1) ir_attr_set_bool(nest->loops[0], "collapse", true);
}

static void map_func(PassContext *ctx, IrFunc *f) {
    static const IrHint outermost[] = {IR_HINT_PARALLEL, IR_HINT_PERSISTENT};
    Nest nest = find_nest(ctx, f);
    OpList ops = ops_collect(ctx->scratch, f->body);
    for (size_t i = ops.len; i-- > 0;)
        if (ops.data[i]->opcode == IR_PARALLEL && !in_nest(&nest, ops.data[i])) {
            /* Asked to be parallel, not only found to be. */
            for (size_t h = 0; h < COUNT_OF(outermost); h++)
                if (ir_op_has_hint(ops.data[i], outermost[h]))
                    report_hint(ctx, ops.data[i]->span, ir_enum_word(IR_ENUM_HINT, outermost[h]),
                                "inside an iteration of the grid it runs in order");
            make_serial(ops.data[i]);
        }
    bool cuda = ctx->target->kind == TARGET_CUDA;
    ir_func_set_enum(f, IR_FN_TARGET, cuda ? IR_TARGET_CUDA : IR_TARGET_CPU);
    if (!cuda) {
        if (nest.depth) map_to_cores(ctx, &nest);
        return;
    }
    if (nest.depth) {
        bind_indices(ctx, f, &nest);
        flatten(&nest);
    } else {
        ir_func_set_aff(f, IR_FN_GRID_X, aff_const(ctx->module->affs, ir_func_cluster(f)));
    }
}

bool pass_grid(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next)
        if (f->level == IR_LEVEL_TILE && f->state == IR_STATE_STATIC) map_func(ctx, f);
    return true;
}
