/* Uniformity: over which group of threads a scalar is the same. Nothing makes a value more uniform
 * than what it is computed from, so it is the least uniform leaf that the value reaches. */

#include "ir_internal.h"

typedef struct {
    Arena *arena;
    PointerTable seen;
    VEC(const IrValue *) work;
    IrUniformity result;
} Search;

static void reach(Search *s, const IrValue *v) {
    if (pointer_table_find(&s->seen, v)) return;
    pointer_table_put(&s->seen, v, s);
    VEC_PUSH(s->arena, &s->work, v);
}

static void lower(Search *s, IrUniformity u) {
    if (u > s->result) s->result = u;
}

static IrUniformity special_uniformity(IrSpecial special) {
    if (special == IR_SPECIAL_CLUSTERID_X) return IR_UNIFORM_CLUSTER;
    if (ir_is_block_number(special) || special == IR_SPECIAL_CLUSTER_RANK) return IR_UNIFORM_BLOCK;
    if (ir_is_block_count(special)) return IR_UNIFORM_GRID;
    if (special == IR_SPECIAL_WARP) return IR_UNIFORM_WARP;
    return IR_UNIFORM_LANE; /* lane, tid.x */
}

static void reach_yielded(Search *s, const IrBlock *region, unsigned index) {
    const IrOp *last = region->last;
    if (last && last->opcode == IR_YIELD && index < last->operand_count) reach(s, last->operands[index]);
}

/* Arguments: of functions the same everywhere; loop variables as the bounds; carried values as what
 * comes in and what is yielded. */
static void visit_argument(Search *s, const IrValue *v) {
    const IrOp *parent = v->block->parent;
    if (!parent) return;
    if (parent->opcode == IR_PARALLEL) lower(s, IR_UNIFORM_BLOCK);
    if (parent->opcode != IR_FOR && parent->opcode != IR_PARALLEL) return;
    for (unsigned i = 0; i < 3 && i < parent->operand_count; i++) reach(s, parent->operands[i]);
    if (!v->index || parent->opcode != IR_FOR) return;
    if (v->index + 2 < parent->operand_count) reach(s, parent->operands[v->index + 2]);
    reach_yielded(s, v->block, v->index - 1);
}

static void visit_result(Search *s, const IrValue *v) {
    const IrOp *op = v->def;
    if (op->opcode == IR_UNIFORM || op->opcode == IR_TILE_SCALAR) {
        lower(s, IR_UNIFORM_BLOCK);
        return;
    }
    if (op->opcode == IR_SPECIAL) lower(s, special_uniformity(ir_op_special(op)));
    if (op->opcode == IR_SHUFFLE_XOR || op->opcode == IR_ATOM) lower(s, IR_UNIFORM_LANE);
    /* Of a loop only the bounds and this result's own chain count, of the rest every operand. */
    bool loop = op->opcode == IR_FOR;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (!loop || i < 3 || i == v->index + 3) reach(s, op->operands[i]);
    if (op->opcode == IR_FOR || op->opcode == IR_IF || op->opcode == IR_MAP)
        for (unsigned i = 0; i < op->region_count; i++) reach_yielded(s, op->regions[i], v->index);
}

IrUniformity ir_uniformity(IrValue *value) {
    Search s = {.arena = arena_create(), .result = IR_UNIFORM_GRID};
    s.seen = pointer_table(s.arena);
    reach(&s, value);
    while (s.work.len && s.result != IR_UNIFORM_LANE) {
        const IrValue *v = s.work.data[--s.work.len];
        if (v->def)
            visit_result(&s, v);
        else
            visit_argument(&s, v);
    }
    arena_destroy(s.arena);
    return s.result;
}
