/* design: dependences between nests through memory.
 *
 * The graph has a value for what each equation makes; a sketch has one tensor for all values that a
 * name stands for. A nest that stores a result to a tensor that is read, too (inout) ends the life of
 * the value that the caller put there. So nests go in an order in which readers of the old value
 * come before, and what the equations made of it is read back behind. Where that cannot be, because
 * nests wait for each other or a nest reads elements other than those it stores, the results get
 * nests of their own, and where that does not help either the old value is kept in a workspace.
 * A clash is found when a nest is written; the sketch is then written again with the remedy. */
#include "design_internal.h"

#include <string.h>

static IrOp *top_of(IrOp *op) {
    while (op->block->parent) op = op->block->parent;
    return op;
}

/* The result that is stored to the tensor parameter, as a bit; 0: none is, or the parameter is never read. */
static uint64_t bit_of_param(const Design *d, const IrValue *arg) {
    const IrAttr *names = ir_attr(d->f->body->last, "names");
    for (unsigned i = 0; i < d->f->param_count; i++)
        if (d->f->body->args[i] == arg)
            for (size_t k = 0; names && k < names->count; k++)
                if (strcmp(names->strs[k], d->f->params[i].name) == 0) return (uint64_t)1 << k;
    return 0;
}

/* ---- What values are made of ---- */

static uint64_t made_of(const Design *d, const IrValue *v) {
    if (!v->def) return v->block->parent || v->type->kind != IR_TYPE_TENSOR ? 0 : bit_of_param(d, v);
    return d->made_of[top_of(v->def)->mark];
}

static uint64_t operands_made_of(const Design *d, const IrOp *op, const IrOp *top) {
    uint64_t mask = 0;
    for (unsigned i = 0; i < op->operand_count; i++) {
        const IrValue *v = op->operands[i];
        if (!v->def || top_of(v->def) != top) mask |= made_of(d, v);
    }
    for (unsigned r = 0; r < op->region_count; r++)
        for (const IrOp *inner = op->regions[r]->first; inner; inner = inner->next) mask |= operands_made_of(d, inner, top);
    return mask;
}

void design_order_init(Design *d) {
    const IrBlock *body = d->f->body;
    uint32_t count = 0;
    for (IrOp *op = body->first; op; op = op->next) op->mark = count++;
    d->op_count = count;
    d->made_of = ARENA_ARRAY(d->arena, uint64_t, count + 1);
    for (IrOp *op = body->first; op; op = op->next) d->made_of[op->mark] = operands_made_of(d, op, op);
}

/* ---- Where values are read ---- */

/* The results that have been stored and are this value, as bits. */
static uint64_t stored_as(const Design *d, const IrValue *v, uint64_t stored) {
    const IrOp *last = d->f->body->last;
    uint64_t found = 0;
    for (unsigned i = 0; stored && i < last->operand_count; i++)
        if (last->operands[i] == v) found |= stored & (uint64_t)1 << i;
    return found;
}

static bool is_at_work(const Design *d, const IrValue *v) {
    for (unsigned i = 0; d->staging && i < d->staging->count; i++)
        if (d->staging->values[i] == v) return true;
    return false;
}

const char *design_home(const Design *d, const IrValue *v) {
    const char *name = is_at_work(d, v) ? NULL : design_staged_name(d, v);
    const IrAttr *names = ir_attr(d->f->body->last, "names");
    if (name || v->type->kind != IR_TYPE_TENSOR || !(made_of(d, v) & d->overwritten)) return name;
    uint64_t stored = stored_as(d, v, d->stored);
    return stored ? names->strs[__builtin_ctzll(stored)] : NULL;
}

/* Does the nest read what it stores, element for element? */
static bool is_own_element(const Design *d, const Aff *const *index) {
    for (unsigned i = 0; index && i < d->rank; i++)
        if (index[i] != d->place[i]) return false;
    return index != NULL;
}

const char *design_source(Design *d, const IrValue *v, const Aff *const *index) {
    const char *home = design_home(d, v);
    if (home || v->def) return home;
    uint64_t bit = bit_of_param(d, v);
    d->late |= bit & d->overwritten;
    if (bit & d->writes && !is_own_element(d, index)) d->moved |= bit;
    for (unsigned i = 0; i < d->f->param_count; i++)
        if (d->f->body->args[i] == v) return d->f->params[i].name;
    return NULL;
}

/* ---- What the results are made of ---- */

static void find_reads(const IrFunc *f, const IrOp *op, bool *wanted, bool *live) {
    for (unsigned i = 0; i < op->operand_count; i++) {
        const IrValue *v = op->operands[i];
        if (v->def) wanted[top_of(v->def)->mark] = true;
        for (unsigned k = 0; !v->def && k < f->param_count; k++) live[k] |= f->body->args[k] == v;
    }
    for (unsigned r = 0; r < op->region_count; r++)
        for (const IrOp *inner = op->regions[r]->first; inner; inner = inner->next) find_reads(f, inner, wanted, live);
}

/* ---- The order of nests ---- */

typedef struct {
    const Design *d;
    uint64_t stored, found;
    bool *wanted; /* by operation */
} Search;

static void want(Search *s, const IrValue *v) {
    if (v->type->kind != IR_TYPE_TENSOR) {
        if (v->def) s->wanted[top_of(v->def)->mark] = true;
        return;
    }
    if (design_staged_name(s->d, v) || stored_as(s->d, v, s->stored)) return;
    if (v->def)
        s->wanted[v->def->mark] = true;
    else
        s->found |= made_of(s->d, v);
}

static void want_operands(Search *s, const IrOp *op) {
    for (unsigned i = 0; i < op->operand_count; i++) want(s, op->operands[i]);
    for (unsigned r = 0; r < op->region_count; r++)
        for (const IrOp *inner = op->regions[r]->first; inner; inner = inner->next) want_operands(s, inner);
}

bool *design_live_params(Arena *arena, const IrFunc *f) {
    const IrBlock *body = f->body;
    bool *live = ARENA_ARRAY(arena, bool, f->param_count + 1);
    uint32_t count = 0;
    for (IrOp *op = body->first; op; op = op->next) op->mark = count++;
    bool *wanted = ARENA_ARRAY(arena, bool, count + 1);
    wanted[body->last->mark] = true;
    for (const IrOp *op = body->last; op; op = op->prev)
        if (wanted[op->mark]) find_reads(f, op, wanted, live);
    return live;
}

/* Tensors whose first values the results need when the others in `stored` have been stored. */
static uint64_t needs(const Design *d, const DesignResults *r, uint64_t stored) {
    Search s = {.d = d, .stored = stored, .wanted = ARENA_ARRAY(d->arena, bool, d->op_count + 1)};
    for (unsigned i = 0; i < r->count; i++) want(&s, r->values[i]);
    for (const IrOp *op = d->f->body->last; op; op = op->prev)
        if (s.wanted[op->mark]) want_operands(&s, op);
    return s.found;
}

size_t design_next_nest(const Design *d, const DesignResults *nests, size_t count) {
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        uint64_t ends = nests[i].bits & d->inout;
        bool waits = false;
        if (d->stored & nests[i].bits) continue;
        if (first == SIZE_MAX) first = i;
        for (size_t k = 0; k < count && ends && !waits; k++)
            if (k != i && !(d->stored & nests[k].bits)) waits = needs(d, &nests[k], d->stored | nests[i].bits) & ends;
        if (!waits) return i;
    }
    return first;
}

bool design_remedy(Design *d, const DesignResults *nests, size_t count, DesignRemedy *remedy) {
    uint64_t kept = d->late;
    for (size_t i = 0; i < count; i++) {
        uint64_t moved = nests[i].bits & d->moved;
        remedy->apart |= nests[i].bits & d->crowded;
        if (nests[i].count > 1)
            remedy->apart |= moved;
        else
            kept |= moved;
    }
    remedy->kept |= kept;
    return d->late || d->moved || d->crowded;
}
