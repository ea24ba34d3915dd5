/* Pass rematerialize_final_reduction: each block of a step recomputes the small reduction that it needs, so that the step that computed it
 * is not launched.
 *
 * what:   step F reduces only workspaces that earlier steps wrote, and stores single elements V[r]; one later step B alone loads V[r'].
 *         B gets a sibling that recomputes V[r'] where it needs it, which saves one launch. The sibling is used if a block of F reduces
 *         at most FINISH_LANES numbers and all blocks of B run at once. The sizes of the launch decide which grids are empty: those of F
 *         and B, or that of the sibling. The sibling is made only if a case has such a size.
 * needs:  tile functions in state open, after split_reduction; target cuda
 * keeps:  values but for the order in which floats are summed; names
 * breaks: steps are numbered anew
 * source: recomputation in place of a barrier (fusion of a producer into its consumer)
 *
 *     @finish: parallel(0, M) (%r) { %s = tile.reduce(tile.load(%W, %r, 0, N)); tile.store(%s, %V, %r) }
 *     @map:    parallel(0, M) (%m) { %x = tile.load(%X, %m, ..); %v = tile.load(%V, %m); tile.store(f(%x, %v), ..) }
 *  => @chosen:   parallel(0, M) (%m) { %x = tile.load(%X, %m, ..); %s = tile.reduce(tile.load(%W, %m, 0, N)); tile.store(f(%x, %s), ..) }
 */
#include <string.h>

#include "tile/split.h"

/* FINISH_LANES 0: no step is repeated. BLOCKS a multiprocessor run at once. */
enum { FINISH_LANES = 256, BLOCKS = 8, MOST_VALUES = 4 };

typedef struct {
    PassContext *ctx;
    IrFunc *finish, *map;
    OpList ops; /* of the finish */
    const IrOp *stores[MOST_VALUES];
    unsigned count;
    IrValue *row;     /* of the finish: the loop's number that the stores are indexed by; null: a constant */
    const Aff *lanes; /* that a block of the finish folds */
    const Aff *used;
} Rematerialize;

/* ---- The finish ---- */

static const Aff *lanes_of(const IrModule *m, const IrType *t) {
    const Aff *lanes = aff_const(m->affs, 1);
    for (unsigned i = 0; i < t->rank; i++) lanes = aff_mul(m->affs, lanes, t->extents[i]);
    return lanes;
}

static bool is_plain(const IrOp *op) {
    return op->opcode == IR_CONST || op->opcode == IR_TILE_BROADCAST || op->opcode == IR_TILE_REDUCE || ir_has_trait(op, IR_ELEMENTWISE) ||
           is_scalar_arithmetic(op);
}

static bool take_load(Rematerialize *n, const IrOp *load) {
    const IrType *t = load->results[0].type;
    AffCtx *c = n->ctx->module->affs;
    if (is_stored_to(load->operands[0]) || load->operands[0]->def || ir_attr(load, "steps") || slice_gathers(load)) return false;
    if (t->rank > 1 || (t->rank && !aff_over_symbols(t->extents[0]))) return false;
    n->lanes = aff_max(c, n->lanes, lanes_of(n->ctx->module, t));
    return true;
}

static bool take_store(Rematerialize *n, const IrOp *store) {
    if (store->operand_count != 3) return false;
    const IrValue *memory = store->operands[1], *index = store->operands[2];
    int64_t at;
    if (n->count == MOST_VALUES || memory->def || n->finish->params[memory->index].kind != IR_PARAM_WORKSPACE || memory->type->strides)
        return false;
    if (memory->uses->next || store->operands[0]->type->rank || !slice_is(store, "p")) return false;
    if (n->count && index != n->stores[0]->operands[2]) return false;
    if (index->def && !aff_is_const(ir_aff_of(n->ctx->module, (IrValue *)index), &at)) return false;
    n->row = index->def ? NULL : (IrValue *)index;
    n->stores[n->count++] = store;
    return true;
}

static bool read_finish(Rematerialize *n) {
    n->ops = ops_collect(n->ctx->scratch, n->finish->body);
    n->count = 0;
    n->lanes = aff_const(n->ctx->module->affs, 0);
    bool folds = false;
    for (size_t i = 0; i < n->ops.len; i++) {
        const IrOp *op = n->ops.data[i];
        if (is_terminator(op)) continue;
        folds |= op->opcode == IR_TILE_REDUCE;
        if (op->opcode == IR_PARALLEL && aff_over_symbols(loop_trips(n->ctx->module, op))) continue;
        if (op->opcode == IR_TILE_LOAD    ? !take_load(n, op)
            : op->opcode == IR_TILE_STORE ? !take_store(n, op)
                                          : !is_plain(op) || op->region_count)
            return false;
    }
    return folds && n->count && is_plain_nest(&n->ops, n->stores[0]->block);
}

/* ---- The step behind it ---- */

/* The load of V in a function; null: it does something else with it, or loads it twice. */
static IrOp *load_of_value(const IrFunc *func, const char *name) {
    const IrValue *memory = param_named(func, name);
    const IrUse *use = memory ? memory->uses : NULL;
    if (!use || use->next || use->op->opcode != IR_TILE_LOAD || use->index != 0 || ir_attr(use->op, "pad")) return NULL;
    return use->op->results[0].type->rank || !slice_is(use->op, "p") ? NULL : use->op;
}

static const char *value_name(const Rematerialize *n, unsigned i) {
    return n->finish->params[n->stores[i]->operands[1]->index].name;
}

static bool uses(const IrFunc *func, const char *name) {
    const IrValue *memory = param_named(func, name);
    return memory && memory->uses;
}

/* The only step that uses what is stored, and it comes later. */
static IrFunc *only_user(const Rematerialize *n) {
    IrFunc *user = NULL;
    for (IrFunc *g = n->ctx->module->first; g; g = g->next)
        for (unsigned i = 0; i < n->count && g->level == IR_LEVEL_TILE && g != n->finish; i++) {
            if (!uses(g, value_name(n, i))) continue;
            if ((user && user != g) || g->state != IR_STATE_OPEN || ir_step_order(g) <= ir_step_order(n->finish)) return NULL;
            user = g;
        }
    return user;
}

/* Loops of the finish beside that over rows say for which sizes it is; the step behind it must have them, too. */
static bool same_conditions(const Rematerialize *n, const OpList *ops) {
    IrModule *m = n->ctx->module;
    for (size_t i = 0; i < n->ops.len; i++) {
        const IrOp *loop = n->ops.data[i];
        bool found = loop->opcode != IR_PARALLEL || loop->regions[0]->args[0] == n->row;
        for (size_t k = 0; k < ops->len && !found; k++)
            found = ops->data[k]->opcode == IR_PARALLEL && loop_trips(m, ops->data[k]) == loop_trips(m, loop);
        if (!found) return false;
    }
    return true;
}

/* Does a step between the two write what the finish loads? */
static bool is_written_between(const Rematerialize *n, const char *name) {
    int64_t from = ir_step_order(n->finish), to = ir_step_order(n->map);
    for (const IrFunc *g = n->ctx->module->first; g; g = g->next) {
        int64_t step = ir_step_order(g);
        const IrValue *memory = step > from && step < to ? param_named(g, name) : NULL;
        if (memory && is_stored_to((IrValue *)memory)) return true;
    }
    return false;
}

static bool reads_map(Rematerialize *n) {
    IrModule *m = n->ctx->module;
    AffCtx *c = m->affs;
    OpList ops = ops_collect(n->ctx->scratch, n->map->body);
    const IrOp *first = load_of_value(n->map, value_name(n, 0));
    const Aff *blocks = parallel_iterations(m, &ops);
    if (!first || !blocks || !is_plain_nest(&ops, first->block) || !same_conditions(n, &ops)) return false;
    for (size_t i = 0; i < ops.len; i++)
        if (ir_has_trait(ops.data[i], IR_ALONG) || ops.data[i]->opcode == IR_TILE_GEMM || ops.data[i]->opcode == IR_TILE_ARG) return false;
    for (unsigned i = 0; i < n->count; i++) {
        IrOp *load = load_of_value(n->map, value_name(n, i));
        if (!load || load->block != first->block || ir_aff_of(m, load->operands[1]) != ir_aff_of(m, first->operands[1])) return false;
        if (!n->row && ir_aff_of(m, load->operands[1]) != ir_aff_of(m, n->stores[0]->operands[2])) return false;
    }
    for (size_t i = 0; i < n->ops.len; i++) { /* what it loads must be seen here as there, and not be stored to, nor on the way */
        const IrOp *load = n->ops.data[i];
        if (load->opcode != IR_TILE_LOAD) continue;
        const IrValue *memory = load->operands[0], *here = param_named(n->map, n->finish->params[memory->index].name);
        if (is_written_between(n, n->finish->params[memory->index].name)) return false;
        if (here && (is_stored_to((IrValue *)here) || (here->uses && here->type != memory->type))) return false;
    }
    const Aff *one = aff_const(c, 1), *little = aff_sub(c, aff_const(c, FINISH_LANES + 1), n->lanes);
    const Aff *few = aff_sub(c, aff_const(c, BLOCKS * n->ctx->target->sms + 1), blocks);
    n->used = aff_max(c, aff_const(c, 0), aff_min(c, one, aff_min(c, little, few)));
    return true;
}

/* ---- The sibling ---- */

/* Symbols that are computed once a launch, and memory, as the finish has them. */
static void add_params(const Rematerialize *n, IrFunc *func, bool memory) {
    for (unsigned i = 0; i < n->finish->param_count; i++) {
        const IrParam *p = &n->finish->params[i];
        const IrValue *arg = param_named(n->finish, p->name);
        IrValue *here = param_named(func, p->name);
        if (p->kind == IR_PARAM_SYMBOL && p->derived)
            func_add_symbol(func, (DerivedSymbol){aff_sym(n->ctx->module->affs, p->name), p->derived});
        if (!memory || p->kind != IR_PARAM_WORKSPACE || !arg || !arg->uses) continue;
        if (!here) func_add_workspace(func, p->name, p->type ? p->type : arg->type, p->elements);
        here = param_named(func, p->name);
        func->params[here->index].elements = p->elements;
        if (here->type != arg->type) param_see_as(func, here, arg->type);
    }
}

/* Does the op, or one inside of it, use one of the values? */
static bool needs_value(const Rematerialize *n, IrOp *const *loads, const IrOp *op) {
    for (unsigned i = 0; i < n->count; i++)
        for (const IrUse *use = loads[i]->results[0].uses; use; use = use->next)
            if (use->op == op || is_inside_op(use->op->block, op)) return true;
    return false;
}

/* As few lanes as there are at such sizes. */
static void bound_lanes(const Rematerialize *n, IrFunc *func) {
    end_folds(n->ctx, func);
    for (;;) {
        Axes *axes = axes_analyse(n->ctx->scratch, func);
        size_t index = 0;
        while (index < axes_count(axes) && axes_class(axes, index)->constant >= 0) index++;
        if (index == axes_count(axes)) return;
        axes_set_extent(axes, index, FINISH_LANES);
    }
}

static void make_sibling(const Rematerialize *n, IrFunc *func) {
    IrValueMap *map = ir_value_map_create(n->ctx->scratch);
    IrOp *loads[MOST_VALUES], *before;
    for (unsigned i = 0; i < n->count; i++) loads[i] = load_of_value(func, value_name(n, i));
    for (before = loads[0]->block->first; !needs_value(n, loads, before);) before = before->next;
    for (unsigned i = 0; i < n->finish->param_count; i++) {
        IrValue *arg = param_named(n->finish, n->finish->params[i].name), *here = param_named(func, n->finish->params[i].name);
        if (arg && here) ir_value_map_set(map, arg, here);
    }
    if (n->row) ir_value_map_set(map, n->row, loads[0]->operands[1]);
    IrBuilder b = ir_builder_before(before);
    for (size_t i = 0; i < n->ops.len; i++) {
        IrOp *op = n->ops.data[i];
        if (op->region_count || is_terminator(op) || op->opcode == IR_TILE_STORE) continue;
        b.span = op->span;
        ir_op_clone(&b, op, map);
    }
    for (unsigned i = 0; i < n->count; i++) ir_replace_uses(&loads[i]->results[0], ir_value_map_get(map, n->stores[i]->operands[0]));
    remove_unused(n->ctx->scratch, func->body);
    bound_lanes(n, func);
}

static void repeat(const Rematerialize *n) {
    IrModule *m = n->ctx->module;
    int64_t step = ir_step_order(n->map);
    DerivedSymbol chosen = derived_symbol(m, "remat", n->used);
    const Aff *apart = aff_sub(m->affs, aff_const(m->affs, 1), chosen.name);
    IrFunc *func = ir_func_clone(n->map, n->map->name);
    steps_make_room(m, step, 1);
    step_name(func, step_new_name(m, n->map->name, "remat"), step + 1);
    add_params(n, func, true);
    add_params(n, n->map, false);
    func_add_symbol(func, chosen);
    func_add_symbol(n->map, chosen);
    func_add_symbol(n->finish, chosen);
    make_sibling(n, func);
    step_repeat(func, chosen.name, "remat");
    step_repeat(n->map, apart, "apart");
    step_repeat(n->finish, apart, "apart");
}

bool pass_rematerialize_final_reduction(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f && FINISH_LANES && ctx->target->sms; f = f->next) {
        if (f->level != IR_LEVEL_TILE || f->state != IR_STATE_OPEN) continue;
        Rematerialize n = {.ctx = ctx, .finish = f};
        if (!read_finish(&n) || !(n.map = only_user(&n)) || !reads_map(&n)) continue;
        if (step_is_asked_for(ctx, f, n.used)) repeat(&n);
    }
    return true;
}
