/* Sizes that a kernel is verified at beside its cases: ragged ones, those that the numbers in its text suggest, and some from the
 * middle that nobody can guess. */
#include "verify.h"

#include <math.h>
#include <string.h>

typedef struct {
    Arena *arena;
    const IrFunc *f;
    const Sizes *base;
    int64_t max_elements;
    VEC(const Sizes *) found;
    const SizeList *before; /* sizes that are there already; may be null */
} Ragged;

static bool is_free_symbol(const IrFunc *f, const char *name) {
    for (unsigned i = 0; i < f->param_count; i++)
        if (f->params[i].kind == IR_PARAM_SYMBOL && strcmp(f->params[i].name, name) == 0) return !f->params[i].derived;
    return false;
}

static bool small_enough(const Ragged *g, const Sizes *sizes) {
    int64_t total = 0;
    for (unsigned i = 0; i < g->f->param_count; i++) {
        const IrType *type = g->f->body->args[i]->type;
        Shape shape;
        if (type->kind != IR_TYPE_TENSOR) continue;
        if (!shape_of(sizes, NULL, type, &shape)) return false;
        if (__builtin_add_overflow(total, shape.elements, &total)) return false;
    }
    return total <= g->max_elements;
}

static bool same_sizes(const Sizes *a, const Sizes *b) {
    bool same = a->count == b->count;
    for (size_t k = 0; same && k < a->count; k++) same = a->values[k].value == b->values[k].value;
    return same;
}

static bool seen(const Ragged *g, const Sizes *sizes) {
    for (size_t i = 0; i < g->found.len; i++)
        if (same_sizes(g->found.data[i], sizes)) return true;
    for (size_t i = 0; g->before && i < g->before->count; i++)
        if (same_sizes(g->before->sizes[i], sizes)) return true;
    return false;
}

static void offer(Ragged *g, const Sizes *given) {
    const char *error = NULL;
    const Sizes *bound = sizes_bind(g->arena, g->f, given, &error);
    if (!bound || !small_enough(g, bound) || seen(g, bound)) return;
    VEC_PUSH(g->arena, &g->found, bound);
}

/* The others of a variation: at most `cap`, so that the product stays small. */
static void shrink(const Ragged *g, Sizes *sizes, int64_t cap) {
    for (size_t i = 0; i < sizes->count; i++) {
        sizes->values[i] = g->base->values[i];
        if (is_free_symbol(g->f, sizes->values[i].name) && sizes->values[i].value > cap) sizes->values[i].value = cap;
    }
}

static void vary_one(Ragged *g, Sizes *sizes, size_t symbol, int64_t value) {
    static const int64_t caps[] = {INT64_MAX, 64, 37, 16, 3, 1};
    for (size_t i = 0; i < COUNT_OF(caps); i++) {
        size_t before = g->found.len;
        shrink(g, sizes, caps[i]);
        sizes->values[symbol].value = value;
        offer(g, sizes);
        if (g->found.len > before && caps[i] < INT64_MAX) return; /* the largest that fits */
    }
}

static void vary_all(Ragged *g, Sizes *sizes, int64_t value, int64_t step) {
    for (size_t i = 0; i < sizes->count; i++) {
        sizes->values[i] = g->base->values[i];
        if (!is_free_symbol(g->f, sizes->values[i].name)) continue;
        sizes->values[i].value = value;
        value += step;
    }
    offer(g, sizes);
}

SizeList samples_ragged_sizes(Arena *arena, const IrFunc *f, const Sizes *base, size_t tile_count, const int64_t *tiles,
                              int64_t max_elements) {
    static const int64_t plain[] = {0, 1, 2, 3, 7, 31, 127, 257, 1009};
    Ragged g = {.arena = arena, .f = f, .base = base, .max_elements = max_elements};
    Sizes sizes = {base->count, ARENA_ARRAY(arena, SymbolValue, base->count + 1)};
    for (size_t s = 0; s < base->count; s++) {
        if (!is_free_symbol(f, base->values[s].name)) continue;
        for (size_t i = 0; i < COUNT_OF(plain); i++) vary_one(&g, &sizes, s, plain[i]);
        for (size_t i = 0; i < tile_count; i++)
            for (int64_t d = -1; d <= 1; d++)
                if (tiles[i] + d >= 0) vary_one(&g, &sizes, s, tiles[i] + d);
    }
    for (size_t i = 0; i < COUNT_OF(plain); i++) vary_all(&g, &sizes, plain[i], 0);
    vary_all(&g, &sizes, 2, 3); /* 2, 5, 8, ...: all different */
    vary_all(&g, &sizes, 29, 2);
    return (SizeList){g.found.len, g.found.data};
}

/* ---- Sizes that the text suggests, and others ---- */

enum { PAIRS = 512 };
/* Steps of the reference. */
#define MOST_WORK ((double)(1 << 23))

typedef struct {
    size_t symbol;
    int64_t value;
    bool done;
} Pair;

typedef struct {
    Ragged g;
    uint64_t state;
    size_t count, limit; /* of pairs; of sizes */
    Pair pairs[PAIRS];
} Middle;

static uint64_t draw(Middle *m) {
    uint64_t z = m->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Spread evenly over magnitudes. */
static int64_t draw_size(Middle *m, double lo, double hi) {
    double u = (double)(draw(m) >> 11) * 0x1p-53;
    return (int64_t)(lo * exp(u * log(hi / lo)));
}

/* Elements of a value, or what it goes through to make them: of products and index notation all reduced indices, too. */
static double work_of_op(const Ragged *g, const Sizes *bound, const IrOp *op) {
    double work = 1;
    int64_t extent;
    if (op->opcode == IR_GRAPH_GENERIC) {
        for (unsigned i = 0; i < op->operand_count; i++)
            if (sizes_eval(bound, ir_aff_of(g->f->module, op->operands[i]), &extent)) work *= (double)extent;
        return work;
    }
    const IrAttr *summed = op->opcode == IR_GRAPH_CONTRACT ? ir_attr(op, "sum_a") : NULL;
    const IrType *type = op->result_count ? op->results[0].type : NULL, *a = summed ? op->operands[0]->type : NULL;
    for (unsigned d = 0; type && type->kind == IR_TYPE_TENSOR && d < type->rank; d++)
        if (sizes_eval(bound, type->extents[d], &extent)) work *= (double)extent;
    for (size_t i = 0; summed && i < summed->count; i++)
        if (summed->ints[i] >= 0 && summed->ints[i] < a->rank && sizes_eval(bound, a->extents[summed->ints[i]], &extent))
            work *= (double)extent;
    return work;
}

static double work_of(const Ragged *g, const Sizes *given) {
    const char *error = NULL;
    const Sizes *bound = sizes_bind(g->arena, g->f, given, &error);
    double work = 0;
    for (const IrOp *op = g->f->body->first; bound && op; op = op->next) work += work_of_op(g, bound, op);
    return work;
}

static bool has_pair(const SizeList *list, size_t symbol, const char *name, int64_t value) {
    for (size_t i = 0; list && i < list->count; i++) {
        const Sizes *s = list->sizes[i];
        if (symbol < s->count && strcmp(s->values[symbol].name, name) == 0 && s->values[symbol].value == value) return true;
        for (size_t k = 0; k < s->count; k++)
            if (strcmp(s->values[k].name, name) == 0 && s->values[k].value == value) return true;
    }
    return false;
}

static void want(Middle *m, size_t symbol, int64_t value) {
    const char *name = m->g.base->values[symbol].name;
    if (value < 0 || m->count == PAIRS || has_pair(m->g.before, symbol, name, value)) return;
    for (size_t i = 0; i < m->count; i++)
        if (m->pairs[i].symbol == symbol && m->pairs[i].value == value) return;
    m->pairs[m->count++] = (Pair){symbol, value, false};
}

/* Values of another symbol that are still wanted go along where the work allows. */
static int64_t companion(Middle *m, size_t symbol, double room, Pair **taken) {
    for (size_t i = 0; i < m->count; i++) {
        Pair *p = &m->pairs[i];
        if (p->symbol != symbol || p->done || (double)p->value > room) continue;
        *taken = p;
        return p->value;
    }
    return 1 + (int64_t)(draw(m) % 9);
}

static bool offer_pair(Middle *m, Pair *pair, bool alone) {
    Ragged *g = &m->g;
    Sizes sizes = {g->base->count, ARENA_ARRAY(g->arena, SymbolValue, g->base->count + 1)};
    Pair *others[64] = {pair};
    double room = (double)(1 << 20) / (pair->value > 1 ? (double)pair->value : 1);
    size_t before = g->found.len, free_left = 0, count = 1;
    for (size_t i = 0; i < sizes.count; i++) free_left += is_free_symbol(g->f, g->base->values[i].name);
    for (size_t i = 0; i < sizes.count; i++) {
        sizes.values[i] = g->base->values[i];
        if (!is_free_symbol(g->f, sizes.values[i].name)) continue;
        if (i == pair->symbol) {
            sizes.values[i].value = pair->value;
        } else if (alone) {
            if (sizes.values[i].value > 16) sizes.values[i].value = 16;
        } else {
            Pair *taken = NULL;
            double share = pow(room, 1.0 / (double)(free_left > 1 ? free_left - 1 : 1));
            sizes.values[i].value = companion(m, i, share, &taken);
            if (taken && count < COUNT_OF(others)) others[count++] = taken;
        }
    }
    if (work_of(g, &sizes) <= MOST_WORK) offer(g, &sizes);
    if (g->found.len == before) return false;
    for (size_t i = 0; i < count; i++) others[i]->done = true;
    return true;
}

static void offer_pairs(Middle *m) {
    for (size_t i = 0; i < m->count && m->g.found.len < m->limit; i++) {
        Pair *p = &m->pairs[i];
        if (p->done) continue;
        for (unsigned try = 0; try < 4; try++)
            if (offer_pair(m, p, try == 3)) break;
    }
}

static void want_literals(Middle *m, const SizeLiterals *literals, size_t symbol) {
    for (size_t i = 0; i < literals->count; i++) {
        int64_t value = literals->values[i];
        for (int64_t d = -1; d <= 1; d++) want(m, symbol, value + d);
    }
    for (size_t i = 0; i < literals->count; i++) {
        int64_t value = literals->values[i];
        if (value < 8 || value > 4096) continue;
        want(m, symbol, 2 * value);
        want(m, symbol, (3 + (int64_t)(draw(m) % 13)) * value);
    }
}

static void offer_random(Middle *m) {
    Ragged *g = &m->g;
    Sizes sizes = {g->base->count, ARENA_ARRAY(g->arena, SymbolValue, g->base->count + 1)};
    for (size_t i = 0; i < sizes.count; i++) {
        sizes.values[i] = g->base->values[i];
        if (is_free_symbol(g->f, sizes.values[i].name)) sizes.values[i].value = draw_size(m, 2, 2048);
    }
    for (int halved = 0; halved < 12 && work_of(g, &sizes) > MOST_WORK; halved++)
        for (size_t i = 0; i < sizes.count; i++)
            if (is_free_symbol(g->f, sizes.values[i].name)) sizes.values[i].value = 1 + sizes.values[i].value / 2;
    offer(g, &sizes);
}

/* Kernels sort long rows by networks, and slowly: such sizes would take minutes. */
static bool sorts(const IrFunc *f) {
    for (const IrOp *op = f->body->first; op; op = op->next)
        if (op->opcode == IR_GRAPH_SORT) return true;
    return false;
}

/* Each symbol once beyond 2^16, the others as small as may be: a number of 16 bits has been there all around. */
static void offer_beyond(Middle *m, size_t symbol) {
    static const int64_t caps[] = {1, 2, 16};
    Ragged *g = &m->g;
    Sizes sizes = {g->base->count, ARENA_ARRAY(g->arena, SymbolValue, g->base->count + 1)};
    size_t before = g->found.len;
    for (size_t i = 0; i < COUNT_OF(caps) && g->found.len == before; i++) {
        shrink(g, &sizes, caps[i]);
        sizes.values[symbol].value = 65537 + (int64_t)(draw(m) % 1000);
        if (work_of(g, &sizes) <= MOST_WORK) offer(g, &sizes);
    }
}

SizeList samples_middle_sizes(Arena *arena, const IrFunc *f, const Sizes *base, const SizeList *before, const SizeLiterals *literals,
                              int64_t max_elements, uint64_t seed) {
    enum { SUGGESTED = 32, DRAWN_TRIES = 16, DRAWN = 4, DRAWN_EACH = 2 };
    Middle *m = ARENA_NEW(arena, Middle);
    *m = (Middle){.g = {.arena = arena, .f = f, .base = base, .max_elements = max_elements, .before = before},
                  .state = seed ^ UINT64_C(0x6D6964646C65)};
    m->limit = SUGGESTED;
    for (size_t s = 0; s < base->count; s++)
        if (is_free_symbol(f, base->values[s].name)) want_literals(m, literals, s);
    offer_pairs(m);
    m->limit = m->g.found.len + DRAWN_EACH * base->count;
    m->count = 0;
    for (size_t s = 0; s < base->count; s++)
        for (unsigned i = 0; i < DRAWN_EACH && is_free_symbol(f, base->values[s].name); i++) want(m, s, draw_size(m, 300, 32768));
    offer_pairs(m);
    size_t end = m->g.found.len + DRAWN;
    for (unsigned i = 0; i < DRAWN_TRIES && m->g.found.len < end; i++) offer_random(m);
    for (size_t s = 0; s < base->count; s++)
        if (is_free_symbol(f, base->values[s].name) && !sorts(f)) offer_beyond(m, s);
    return (SizeList){m->g.found.len, m->g.found.data};
}

/* ---- Sizes drawn at random for a purpose ---- */

static void draw_value(Middle *m, const SizeLiterals *literals, int64_t *value) {
    uint64_t way = draw(m) % 4;
    int64_t near = literals->count ? literals->values[draw(m) % literals->count] : 1;
    if (way == 0)
        *value = draw_size(m, 1, 64);
    else if (way == 1)
        *value = draw_size(m, 1, 65536);
    else
        *value = near * (way == 2 ? 1 : 1 + (int64_t)(draw(m) % 64)) + (int64_t)(draw(m) % 3) - 1;
    if (*value < 0) *value = 0;
}

const Sizes *samples_draw_sizes(Arena *arena, const IrFunc *f, const Sizes *base, const SizeList *others, const SizeLiterals *literals,
                                int64_t max_elements, uint64_t *state) {
    Middle m = {.g = {.arena = arena, .f = f, .base = base, .max_elements = max_elements}, .state = *state};
    Sizes sizes = {base->count, ARENA_ARRAY(arena, SymbolValue, base->count + 1)};
    const Sizes *from = others->count ? others->sizes[draw(&m) % others->count] : base;
    uint64_t all = draw(&m) % 4;
    for (size_t i = 0; i < sizes.count; i++) {
        sizes.values[i] = base->values[i];
        if (!is_free_symbol(f, sizes.values[i].name)) continue;
        for (size_t k = 0; k < from->count; k++)
            if (strcmp(from->values[k].name, sizes.values[i].name) == 0) sizes.values[i].value = from->values[k].value;
        if (all == 0 || draw(&m) % 3 == 0) draw_value(&m, literals, &sizes.values[i].value);
    }
    *state = m.state;
    if (work_of(&m.g, &sizes) > MOST_WORK) return NULL;
    offer(&m.g, &sizes);
    return m.g.found.len ? m.g.found.data[0] : NULL;
}

bool sizes_are_small(const IrFunc *f, const Sizes *sizes, int64_t max_elements, double max_work) {
    Arena *scratch = arena_create();
    Ragged g = {.arena = scratch, .f = f, .base = sizes, .max_elements = max_elements};
    bool small = small_enough(&g, sizes) && work_of(&g, sizes) <= max_work;
    arena_destroy(scratch);
    return small;
}
