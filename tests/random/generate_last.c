/* What becomes of a program that is whole but for its results: numbers of its own, so that the rest of a seed's program stays. */
#include "generate_internal.h"

static Rng own_numbers(const RandomProgram *p) {
    return (Rng){(p->seed + 7) * UINT64_C(0x9E3779B97F4A7C15), false};
}

/* A value that may be the factors of a recurrence of node b; b: there is none. */
static unsigned factors_of(const RandomProgram *p, Rng *rng, unsigned b) {
    unsigned found = b, fitting = 0;
    for (unsigned i = 0; i < b; i++) {
        const Node *n = &p->nodes[i];
        bool fits = !node_is_bare(n) && !node_is_indexed(n) && n->dtype == DTYPE_F32 && form_same(&n->form, &p->nodes[b].form);
        if (fits && !rng_below(rng, ++fitting)) found = i;
    }
    return found;
}

void add_recurrences(RandomProgram *p) {
    Rng rng = own_numbers(p);
    for (unsigned i = 0; i < p->node_count; i++) {
        Node *n = &p->nodes[i];
        bool scans = n->kind == NODE_ALONG && builtin_info((BuiltinId)n->op)->class == CLASS_SCAN && n->dtype == DTYPE_F32;
        if (!scans || !rng_chance(&rng, 60)) continue;
        unsigned a = rng_chance(&rng, 70) ? factors_of(p, &rng, i) : i;
        n->op = BUILTIN_LINEAR_SCAN;
        n->number = 0.5;
        if (a == i) continue;
        n->operands[n->operand_count++] = a;
    }
}

/* An input that the result may be written over: each iteration reads the part alone that it writes. */
static bool may_take(const RandomProgram *p, const bool *live, const Node *value, unsigned tensor) {
    const Node *t = &p->nodes[tensor];
    bool whole = t->kind == NODE_TENSOR && live[tensor] && t->data != ~0u;
    return whole && t->dtype == value->dtype && form_same(&t->form, &value->form) && t != value;
}

/* The last result is stored when all others are. */
void add_in_place(RandomProgram *p) {
    Rng rng = own_numbers(p);
    bool live[MAX_NODES];
    Result *last = &p->results[p->result_count - 1];
    const Node *n = &p->nodes[last->node];
    if (p->cut != MAX_NODES || program_folded(p) < MAX_AXES || last->kind != STORE_WHOLE || node_is_indexed(n) || rng_chance(&rng, 30))
        return;
    program_live(p, live);
    for (unsigned i = 0; i < p->node_count; i++) {
        if (!may_take(p, live, n, i)) continue;
        last->kind = STORE_IN_PLACE;
        last->axis = i;
        last->dtype = n->dtype;
        return;
    }
}
