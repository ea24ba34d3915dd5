/* design: what stands behind a convolution whose factors are stored.
 *
 * Maps are made in its nest. What folds its elements, reads them through another window or moves them would make the convolution anew for each of its own elements, so
 * there the last map goes to a workspace, and what follows has nests of its own. */
#include "design_internal.h"
#include "pointer_table.h"

bool design_is_packed(const IrOp *op) {
    if (op->opcode != IR_GRAPH_GENERIC || ir_op_kind(op) != IR_KIND_ADD) return false;
    for (const IrOp *inner = op->regions[0]->first; inner; inner = inner->next)
        if (inner->opcode == IR_GRAPH_ELEMENT && design_is_stored(inner->operands[0])) return true;
    return false;
}

/* ---- What a value is made of ---- */

typedef struct {
    const Design *d;
    PointerTable seen;
    bool (*asked)(const IrOp *op);
} Source;

static bool is_made_of(Source *s, const IrValue *v);

static bool operands_are(Source *s, const IrOp *op) {
    for (unsigned i = 0; i < op->operand_count; i++)
        if (is_made_of(s, op->operands[i])) return true;
    for (unsigned r = 0; r < op->region_count; r++)
        for (const IrOp *inner = op->regions[r]->first; inner; inner = inner->next)
            if (operands_are(s, inner)) return true;
    return false;
}

/* Behind no workspace. */
static bool is_made_of(Source *s, const IrValue *v) {
    uint32_t known;
    if (!v->def || design_staged_name(s->d, v) || pointer_table_get(&s->seen, v->def, &known)) return false;
    pointer_table_set(&s->seen, v->def, 1);
    return s->asked(v->def) || operands_are(s, v->def);
}

bool design_has_packed(const Design *d, const IrValue *v) {
    Source s = {.d = d, .seen = pointer_table(d->arena), .asked = design_is_packed};
    return v->def && !design_home(d, v) && (design_is_packed(v->def) || operands_are(&s, v->def));
}

static bool has_fold(const Design *d, const IrValue *v) {
    Source s = {.d = d, .seen = pointer_table(d->arena), .asked = design_folds};
    return is_made_of(&s, v);
}

/* ---- Maps ---- */

typedef struct {
    Design *d;
    PointerTable maps; /* the product, and what is made of it lane by lane */
} Maps;

static bool is_map(const Maps *m, const IrValue *v) {
    uint32_t known;
    return pointer_table_get(&m->maps, v, &known);
}

/* Is it made lane by lane of maps, and of nothing that is folded? */
static bool reads_maps(const Maps *m, const IrOp *op) {
    bool found = false;
    for (unsigned i = 0; i < op->operand_count; i++) {
        bool map = is_map(m, op->operands[i]);
        if (!map && has_fold(m->d, op->operands[i])) return false;
        found |= map;
    }
    return found;
}

static bool notation_reads_maps(const Maps *m, const IrOp *op) {
    bool found = false;
    for (const IrOp *e = op->regions[0]->first; e; e = e->next) {
        if (e->opcode != IR_GRAPH_ELEMENT) continue;
        bool map = is_map(m, e->operands[0]);
        if (map ? !design_is_in_place(m->d, op, e) : has_fold(m->d, e->operands[0])) return false;
        found |= map;
    }
    return found;
}

static bool becomes_map(const Maps *m, const IrOp *op) {
    if (op->opcode == IR_GRAPH_GENERIC) return !ir_attr(op, "kind") && !ir_attr_int(op, "stored", 0) && notation_reads_maps(m, op);
    return ir_has_trait(op, IR_ELEMENTWISE) && op->result_count == 1 && op->results[0].type->kind == IR_TYPE_TENSOR && reads_maps(m, op);
}

/* Do others read the value than maps? */
static bool is_read_further(const Maps *m, const IrValue *v) {
    for (const IrUse *u = v->uses; u; u = u->next) {
        const IrOp *op = u->op;
        while (op->block->parent) op = op->block->parent;
        if (op != m->d->f->body->last && !is_map(m, &op->results[0])) return true;
    }
    return false;
}

static bool is_result(const Maps *m, const IrValue *v) {
    for (const IrUse *u = v->uses; u; u = u->next)
        if (u->op == m->d->f->body->last) return true;
    return false;
}

/* The value that has to be stored: the last map where one alone is read further on, else the product; null: none. */
static IrValue *read_further(Maps *m, IrOp *product) {
    IrValue *last = NULL;
    unsigned count = 0;
    for (IrOp *op = product; op; op = op->next) {
        if (op != product && (op == m->d->f->body->last || !becomes_map(m, op))) continue;
        pointer_table_set(&m->maps, &op->results[0], 1);
    }
    for (IrOp *op = product; op != m->d->f->body->last; op = op->next) {
        if (!is_map(m, &op->results[0]) || (!is_read_further(m, &op->results[0]) && !(count && is_result(m, &op->results[0])))) continue;
        last = &op->results[0];
        count++;
    }
    return count > 1 ? &product->results[0] : last;
}

bool design_stage_windows(Design *d) {
    bool found = false;
    for (IrOp *op = d->f->body->first; op && !d->error; op = op->next) {
        if (!design_is_packed(op)) continue;
        Maps m = {.d = d, .maps = pointer_table(d->arena)};
        IrValue *v = read_further(&m, op);
        if (v && !design_staged_name(d, v)) found |= design_stage(d, v);
    }
    return found;
}
