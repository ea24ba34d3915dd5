/* Greedy shrinking: each simplification that keeps the failure stays; until none does. */
#include "random.h"

#include <string.h>

enum { MOST_TRIES = 250 };

typedef struct {
    RandomProgram *p;
    bool (*fails)(void *ctx, const RandomProgram *p);
    void *ctx;
    unsigned tries;
} Shrinker;

static bool keep(Shrinker *s, const RandomProgram *smaller) {
    if (s->tries >= MOST_TRIES || memcmp(smaller, s->p, sizeof *smaller) == 0) return false;
    if (!program_is_valid(smaller)) return false;
    s->tries++;
    if (!s->fails(s->ctx, smaller)) return false;
    *s->p = *smaller;
    return true;
}

static bool drop_results(Shrinker *s) {
    bool any = false;
    for (unsigned i = 0; i < s->p->result_count && s->p->result_count > 1; i++) {
        RandomProgram q = *s->p;
        for (unsigned k = i; k + 1 < q.result_count; k++) q.results[k] = q.results[k + 1];
        q.result_count--;
        any |= keep(s, &q);
    }
    return any;
}

static bool same_form(const Form *a, const Form *b) {
    if (a->rank != b->rank) return false;
    for (unsigned i = 0; i < a->rank; i++)
        if (a->dims[i].axis != b->dims[i].axis || a->dims[i].full != b->dims[i].full) return false;
    return true;
}

/* Everything that used `node` uses `by` instead. */
static void replace(RandomProgram *q, unsigned node, unsigned by) {
    for (unsigned i = 0; i < q->node_count; i++)
        for (unsigned k = 0; k < q->nodes[i].operand_count; k++)
            if (q->nodes[i].operands[k] == node && i > by) q->nodes[i].operands[k] = by;
    for (unsigned i = 0; i < q->result_count; i++)
        if (q->results[i].node == node) q->results[i].node = by;
}

static bool drop_nodes(Shrinker *s) {
    bool live[MAX_NODES], any = false;
    program_live(s->p, live);
    for (unsigned i = s->p->node_count; i-- > 0;) {
        for (unsigned by = 0; live[i] && by < i; by++) {
            const Node *n = &s->p->nodes[i], *m = &s->p->nodes[by];
            bool alike = n->dtype == m->dtype || (m->dtype != DTYPE_BOOL && n->dtype != DTYPE_BOOL);
            if (node_is_bare(m) || !alike || !same_form(&n->form, &m->form)) continue;
            RandomProgram q = *s->p;
            replace(&q, i, by);
            if (!keep(s, &q)) continue;
            any = true;
            program_live(s->p, live);
            break;
        }
    }
    return any;
}

static bool simplify_axes(Shrinker *s) {
    bool any = false;
    for (unsigned i = 0; i < s->p->axis_count; i++) {
        RandomProgram q = *s->p;
        q.axes[i].named_tile = q.axes[i].by_step = q.axes[i].clipped = false;
        q.axes[i].hint = 7;
        any |= keep(s, &q);
        q = *s->p;
        q.axes[i].walk = WALK_WHOLE;
        q.axes[i].folded = false;
        any |= keep(s, &q);
        for (unsigned by = 2; by <= 4; by *= 2) {
            q = *s->p;
            if (q.axes[i].tile >= by) q.axes[i].tile /= by;
            any |= keep(s, &q);
            q = *s->p;
            if (q.axes[i].extent >= by) q.axes[i].extent /= by;
            any |= keep(s, &q);
        }
    }
    return any;
}

static bool simplify_style(Shrinker *s) {
    bool any = false, live[MAX_NODES];
    RandomProgram q = *s->p;
    q.cut = MAX_NODES;
    any |= keep(s, &q);
    q = *s->p;
    q.hints = false;
    any |= keep(s, &q);
    q = *s->p;
    q.parallel = false;
    any |= keep(s, &q);
    for (unsigned i = 0; i < s->p->result_count; i++) {
        q = *s->p;
        q.results[i] = (Result){.node = q.results[i].node, .dtype = q.results[i].dtype};
        any |= keep(s, &q);
    }
    program_live(s->p, live);
    for (unsigned i = 0; i < s->p->node_count; i++) {
        if (!live[i] || s->p->nodes[i].style == 0xf1) continue;
        q = *s->p;
        q.nodes[i].style = 0xf1; /* written plainly */
        any |= keep(s, &q);
    }
    for (unsigned i = 0; i < s->p->node_count; i++) {
        if (!live[i] || s->p->nodes[i].kind != NODE_TENSOR) continue;
        q = *s->p;
        if (dtype_is_float(q.nodes[i].dtype)) q.nodes[i].dtype = DTYPE_F32;
        any |= keep(s, &q);
    }
    return any;
}

unsigned program_shrink(RandomProgram *p, bool (*fails)(void *ctx, const RandomProgram *p), void *ctx) {
    Shrinker s = {p, fails, ctx, 0};
    bool any = true;
    while (any && s.tries < MOST_TRIES) {
        any = drop_results(&s);
        any |= drop_nodes(&s);
        any |= simplify_axes(&s);
        any |= simplify_style(&s);
    }
    return s.tries;
}
