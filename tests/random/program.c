#include "generate_internal.h"

#include <string.h>

/* ---- Forms ---- */

bool form_join(const Form *a, const Form *b, Form *joined) {
    const Form *longer = a->rank >= b->rank ? a : b, *shorter = longer == a ? b : a;
    unsigned lead = longer->rank - shorter->rank;
    Form result = *longer;
    for (unsigned i = 0; i < shorter->rank; i++) {
        if (shorter->dims[i].axis != longer->dims[lead + i].axis) return false;
        result.dims[lead + i].full |= shorter->dims[i].full;
    }
    *joined = result;
    return true;
}

bool form_joins(const Form *a, const Form *b) {
    Form ignored;
    return form_join(a, b, &ignored);
}

bool form_same(const Form *a, const Form *b) {
    if (a->rank != b->rank) return false;
    for (unsigned i = 0; i < a->rank; i++)
        if (a->dims[i].axis != b->dims[i].axis || a->dims[i].full != b->dims[i].full) return false;
    return true;
}

void form_fold(Form *form, unsigned at, bool keepdim) {
    if (keepdim) {
        form->dims[at].full = false;
        return;
    }
    form->rank--;
    for (unsigned i = at; i < form->rank; i++) form->dims[i] = form->dims[i + 1];
}

/* ---- Programs ---- */

void program_live(const RandomProgram *p, bool live[MAX_NODES]) {
    memset(live, 0, MAX_NODES * sizeof *live);
    for (unsigned i = 0; i < p->result_count; i++) live[p->results[i].node] = true;
    for (unsigned i = p->node_count; i-- > 0;)
        for (unsigned k = 0; live[i] && k < p->nodes[i].operand_count; k++) live[p->nodes[i].operands[k]] = true;
}

unsigned program_folded(const RandomProgram *p) {
    for (unsigned i = 0; i < p->rank; i++)
        if (p->axes[i].folded) return i;
    return MAX_AXES;
}

bool program_form_complete(const RandomProgram *p, const Form *form) {
    for (unsigned i = 0; i < p->rank; i++) {
        bool found = p->axes[i].walk == WALK_WHOLE || p->axes[i].folded;
        for (unsigned k = 0; k < form->rank && !found; k++) found = form->dims[k].axis == i && form->dims[k].full;
        if (!found) return false;
    }
    return true;
}

bool node_is_bare(const Node *n) {
    return n->kind == NODE_NUMBER || n->kind == NODE_SCALAR || n->kind == NODE_EXTENT || n->kind == NODE_COUNT || n->kind == NODE_IOTA ||
           n->kind == NODE_RANDOM;
}

bool node_is_square(const RandomProgram *p, const Node *n) {
    const Axis *axes[2];
    if (n->form.rank < 2) return false;
    for (unsigned i = 0; i < 2; i++) {
        const Dim *dim = &n->form.dims[n->form.rank - 2 + i];
        axes[i] = &p->axes[dim->axis];
        if (!dim->full || axes[i]->walk != WALK_WHOLE || !axes[i]->constant) return false;
    }
    return axes[0]->extent == axes[1]->extent;
}

bool node_is_indexed(const Node *n) {
    return n->kind == NODE_GATHER || n->kind == NODE_WINDOW;
}

bool program_is_valid(const RandomProgram *p) {
    bool live[MAX_NODES];
    program_live(p, live);
    for (unsigned i = 0; i < p->result_count; i++) {
        const Result *r = &p->results[i];
        if (!program_form_complete(p, &p->nodes[r->node].form)) return false;
        if (r->kind == STORE_IN_PLACE && (!live[r->axis] || i + 1 < p->result_count || r->node == r->axis)) return false;
    }
    for (unsigned i = 0; i < p->node_count; i++) {
        const Node *n = &p->nodes[i];
        bool found = !live[i] || !node_is_indexed(n);
        if (live[i] && n->kind == NODE_REPEAT && n->swapped && !node_is_square(p, n)) return false;
        for (unsigned k = 0; k < p->result_count; k++) found = found || (p->results[k].node == i && p->results[k].kind == STORE_WHOLE);
        if (!found) return false;
    }
    return p->cut == MAX_NODES || (live[p->cut] && program_form_complete(p, &p->nodes[p->cut].form));
}

bool program_is_unordered(const RandomProgram *p) {
    for (unsigned i = 0; i < p->result_count; i++) {
        const Result *r = &p->results[i];
        bool meets = r->kind == STORE_SCATTER || (r->kind == STORE_MODE && r->dropped);
        if (meets && r->mode == BUILTIN_ADD && dtype_is_float(r->dtype)) return true;
    }
    return false;
}

/* ---- Sizes ---- */

static void draw_extents(const RandomProgram *p, Rng *rng, int64_t most, ProgramSizes *sizes) {
    for (unsigned i = 0; i < p->axis_count; i++) {
        const Axis *axis = &p->axes[i];
        int64_t tile = axis->walk == WALK_TILES ? axis->tile : 16;
        unsigned kind = rng_below(rng, 10);
        int64_t e = kind < 3   ? tile + rng_below(rng, 3) - 1
                    : kind < 5 ? 2 * tile + rng_below(rng, 3) - 1
                               : rng_extent(rng, axis->walk == WALK_ONE ? 17 : most);
        if (p->biased && axis->walk == WALK_WHOLE && rng_chance(rng, 40)) e = 1 + rng_below(rng, 4); /* rows of few lanes */
        if (e == 0 && rng_chance(rng, 70)) e = 1 + rng_below(rng, 5);
        if (axis->most && e > axis->most) e = rng_extent(rng, axis->most);
        sizes->extents[i] = axis->constant ? axis->extent : e > most ? most : e;
    }
}

static int64_t elements(const RandomProgram *p, const ProgramSizes *sizes) {
    int64_t n = 1;
    for (unsigned i = 0; i < p->axis_count; i++) n *= sizes->extents[i] > 0 ? sizes->extents[i] : 1;
    return n;
}

void program_sizes(const RandomProgram *p, unsigned number, int64_t most_elements, ProgramSizes *sizes) {
    Rng rng = {.state = p->seed * 31 + number};
    int64_t most = most_elements < 8192 ? most_elements : 8192;
    *sizes = (ProgramSizes){0};
    draw_extents(p, &rng, most, sizes);
    while (elements(p, sizes) > most_elements && most > 1) {
        most = most * 2 / 3;
        for (unsigned i = 0; i < p->axis_count; i++)
            if (!p->axes[i].constant && sizes->extents[i] > most) sizes->extents[i] = most;
    }
}
