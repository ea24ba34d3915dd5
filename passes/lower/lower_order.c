/* Order of accesses to one tensor on a GPU: tile ops follow each other, threads do not. Where a
 * thread may touch an element that another thread of the block wrote, or write one that another
 * reads, a barrier stands before the access. */
#include "analysis/analysis.h"
#include "lower_internal.h"

#include <string.h>

static unsigned tensor_operand(const IrOp *op) {
    return op->opcode == IR_TILE_STORE;
}

static bool is_access(const IrUse *u) {
    switch (u->op->opcode) {
    case IR_TILE_LOAD:
    case IR_TILE_STORE:
    case IR_BUF_COPY:
        return u->index == tensor_operand(u->op);
    default:
        return false;
    }
}

static const IrType *accessed_tile(const IrOp *op) {
    if (op->opcode == IR_BUF_COPY) return NULL;
    const IrType *t = op->opcode == IR_TILE_STORE ? op->operands[0]->type : op->results[0].type;
    return t->kind == IR_TYPE_TILE ? t : NULL;
}

/* Do both ops give each thread the same elements? */
static bool same_elements(IrModule *m, const IrOp *a, const IrOp *b) {
    const IrType *s = accessed_tile(a), *t = accessed_tile(b);
    unsigned i = tensor_operand(a) + 1, k = tensor_operand(b) + 1;
    if (!s || !t || !is_same_tensor(m, a->operands[i - 1], b->operands[k - 1]) || !slices_alike(a, b)) return false;
    if (ir_attr(a, "steps") || ir_attr(b, "steps")) return false;
    for (; i < a->operand_count && k < b->operand_count; i++, k++)
        if (a->operands[i] != b->operands[k]) return false;
    Dist p = dist_of(s), q = dist_of(t);
    return dist_equal(&p, &q);
}

/* ---- One access against itself in other iterations ---- */

typedef struct {
    IrModule *module;
    const IrValue *variable;
    const Aff *next;
    bool known; /* all else is the same in every iteration of every loop around */
} Shift;

static bool is_fixed(const IrValue *v) {
    return v->def && (v->def->opcode == IR_SPECIAL || v->def->opcode == IR_CONST);
}

static const Aff *shift_leaf(void *ctx, const Aff *leaf) {
    Shift *s = ctx;
    if (leaf->kind != AFF_VAR) return NULL;
    const IrValue *v = (const IrValue *)(uintptr_t)leaf->var;
    if (v == s->variable) return s->next;
    s->known = s->known && is_fixed(v);
    return NULL;
}

/* How far `begin` moves from one iteration of `loop` to the next; false when that is not known, or
 * when `begin` depends on anything else that changes. */
static bool movement(IrModule *m, IrValue *begin, const IrOp *loop, int64_t *distance) {
    AffCtx *c = m->affs;
    const Aff *at = ir_aff_of(m, begin);
    IrValue *variable = loop->regions[0]->args[0];
    Shift s = {m, variable, aff_add(c, ir_aff_of(m, variable), ir_aff_of(m, loop->operands[2])), true};
    const Aff *next = aff_substitute(c, at, shift_leaf, &s);
    return s.known && aff_is_const(aff_sub(c, next, at), distance);
}

/* Does the slice either not move with the loop, or leave its elements behind altogether? */
static bool moves_apart(Lower *x, const IrOp *op, const IrOp *loop) {
    IrSlice s = ir_slice(op);
    const IrType *tile = accessed_tile(op);
    bool still = true;
    for (unsigned i = 0; i < s.rank; i++) {
        const IrSliceAxis *axis = &s.axes[i];
        int64_t distance, span = axis->letter == IR_LETTER_RANGE && tile ? ir_type_extent(tile, (unsigned)axis->axis) : 1;
        bool known = axis->letter != IR_LETTER_GATHER && movement(x->module, op->operands[axis->operand], loop, &distance);
        if (known && (distance >= span || -distance >= span)) return true;
        still = still && known && distance == 0;
    }
    return still;
}

static bool keeps_to_itself(Lower *x, const IrOp *op) {
    if (!accessed_tile(op) && op->opcode != IR_TILE_STORE) return false;
    if (ir_slice(op).gather_axis >= 0) return false; /* an index may come twice */
    for (const IrOp *loop = op->block->parent; loop; loop = loop->block->parent)
        if (loop->opcode == IR_FOR && !ir_attr_bool(loop, "independent") && !moves_apart(x, op, loop)) return false;
    return true;
}

/* ---- All accesses of a tensor ---- */

static bool holds_copies(const IrOp *op) {
    const IrType *t = accessed_tile(op);
    if (!t) return true;
    Dist d = dist_of(t);
    return d.free_lanes || d.free_warps;
}

/* Updates by one operation may come in any order. */
static bool commutes(const IrOp *a, const IrOp *b) {
    IrKind mode = a->opcode == IR_TILE_STORE ? ir_op_mode(a) : IR_KIND_SET;
    return mode != IR_KIND_SET && b->opcode == IR_TILE_STORE && mode == ir_op_mode(b);
}

typedef struct {
    Lower *x;
    const IrOp *first;
    bool stored, loaded, same;
} Order;

/* The accesses of a tensor, and those through views of it. */
static void note_accesses(Order *o, const IrValue *tensor) {
    for (const IrUse *u = tensor->uses; u; u = u->next) {
        if (u->op->opcode == IR_VIEW) note_accesses(o, &u->op->results[0]);
        if (!is_access(u)) continue;
        if (!o->first) o->first = u->op;
        o->stored = o->stored || u->op->opcode == IR_TILE_STORE;
        o->loaded = o->loaded || u->op->opcode != IR_TILE_STORE;
        bool free = !o->x->ctx->deterministic && commutes(o->first, u->op);
        o->same =
            o->same && (free || ((u->op == o->first || same_elements(o->x->module, u->op, o->first)) && keeps_to_itself(o->x, u->op)));
    }
}

static bool needs_order(Lower *x, IrValue *tensor) {
    Order o = {.x = x, .same = true};
    note_accesses(&o, memory_of(tensor));
    return o.stored && (!o.same || (o.loaded && holds_copies(o.first)));
}

void lower_order(Lower *x, const IrOp *op) {
    if (x->gpu && needs_order(x, op->operands[tensor_operand(op)])) lower_barrier(x);
}
