/* design: which products go through workspaces.
 *
 * A product inside of another one's loop would be made anew for each of its tiles, and one that is folded again has to be whole. So
 * factors that are made of products have workspaces; of the products that such a factor is made of, one is made in its nest, ahead of all that is done lane by lane. */
#include "design_internal.h"
#include "pointer_table.h"
#include "query.h"

/* Is the value folded again on its way to the results? A factor of a contraction, made of folds, has a workspace of its own. */
static bool feeds_fold(const IrValue *v) {
    for (const IrUse *u = v->uses; u; u = u->next) {
        const IrOp *op = u->op;
        if (op->opcode == IR_GRAPH_CONTRACT) continue;
        while (op->block->parent) op = op->block->parent; /* the notation that reads it */
        if (design_folds(op)) return true;
        for (unsigned i = 0; i < op->result_count; i++)
            if (feeds_fold(&op->results[i])) return true;
    }
    return false;
}

/* Is the value made of folded ones? */
static bool made_by_fold(const IrValue *v) {
    if (!v->def) return false;
    if (design_folds(v->def)) return true;
    for (unsigned i = 0; i < v->def->operand_count; i++)
        if (made_by_fold(v->def->operands[i])) return true;
    return false;
}

/* Contractions that a value is made of, behind no workspace. */
typedef struct {
    const Design *d; /* null: there are no workspaces */
    PointerTable seen;
    OpList found;
} Products;

static void find_products(Products *p, const IrValue *v) {
    uint32_t known;
    if (!v->def || (p->d && design_staged_name(p->d, v)) || pointer_table_get(&p->seen, v->def, &known)) return;
    pointer_table_set(&p->seen, v->def, 1);
    if (design_is_contraction(v->def))
        VEC_PUSH(p->seen.arena, &p->found, v->def);
    else
        for (unsigned i = 0; i < v->def->operand_count; i++) find_products(p, v->def->operands[i]);
}

static OpList products_of(Arena *arena, const Design *d, const IrValue *v) {
    Products p = {.d = d, .seen = pointer_table(arena)};
    find_products(&p, v);
    return p.found;
}

bool design_has_product(const Design *d, const IrValue *v) {
    return products_of(d->arena, d, v).len > 0;
}

bool design_has_inner_products(Arena *arena, const IrFunc *f) {
    for (const IrOp *op = f->body->first; op; op = op->next)
        for (unsigned i = 0; op->opcode == IR_GRAPH_CONTRACT && i < 2; i++) {
            OpList inner = products_of(arena, NULL, op->operands[i]);
            for (size_t k = 0; k < inner.len; k++)
                if (design_is_matrix_product(inner.data[k])) return true;
        }
    return false;
}

/* A factor that is made of folds. Of the products that it is made of the last one is made in its nest, the others go through workspaces. */
static bool stage_factor(Design *d, IrValue *v) {
    if (!made_by_fold(v)) return false;
    OpList inner = products_of(d->arena, d, v);
    const IrOp *kept = NULL;
    for (size_t i = 0; i < inner.len; i++)
        if (!kept || ir_dominates(kept, inner.data[i])) kept = inner.data[i];
    for (size_t i = 0; i < inner.len && !d->error; i++)
        if (inner.data[i] != kept) design_stage(d, &inner.data[i]->results[0]);
    return design_stage(d, v);
}

void design_stage_products(Design *d) {
    bool found = false;
    for (IrOp *op = d->f->body->first; op && !d->error; op = op->next) {
        if (!design_is_product(op)) continue;
        for (unsigned i = 0; op->opcode == IR_GRAPH_CONTRACT && i < 2; i++) found |= stage_factor(d, op->operands[i]);
        if (feeds_fold(&op->results[0])) found |= design_stage(d, &op->results[0]);
    }
    if (!found) design_fail(d, "no product is used again");
}
