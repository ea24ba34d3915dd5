/* What stands for each tile-level value, for lower_to_threads; arithmetic of indices; distributions in code. */
#include "analysis/analysis.h"
#include "analyzer.h"
#include "layout.h"
#include "lower_internal.h"
#include "plant.h"

struct RepEntry {
    const IrValue *key;
    Rep rep;
};

/* ---- The table of what stands for each tile-level value ---- */

static size_t table_slot(const Lower *x, const IrValue *key) {
    size_t i = ((uintptr_t)key >> 4) * 0x9E3779B97F4A7C15u >> 20;
    for (i &= x->table_size - 1; x->table[i] && x->table[i]->key != key; i = (i + 1) & (x->table_size - 1)) {
    }
    return i;
}

static void table_grow(Lower *x) {
    RepEntry **old = x->table;
    size_t old_size = x->table_size;
    x->table_size = old_size ? old_size * 2 : 256;
    x->table = ARENA_ARRAY(x->ctx->scratch, RepEntry *, x->table_size);
    for (size_t i = 0; i < old_size; i++)
        if (old[i]) x->table[table_slot(x, old[i]->key)] = old[i];
}

void lower_bind(Lower *x, IrValue *value, Rep rep) {
    if (x->table_used * 2 >= x->table_size) table_grow(x);
    size_t i = table_slot(x, value);
    if (!x->table[i]) {
        x->table[i] = ARENA_NEW(x->ctx->scratch, RepEntry);
        x->table_used++;
    }
    *x->table[i] = (RepEntry){value, rep};
    if (rep.value && !rep.value->name) rep.value->name = value->name;
}

Rep *lower_rep(Lower *x, IrValue *value) {
    RepEntry *entry = x->table_size ? x->table[table_slot(x, value)] : NULL;
    return entry ? &entry->rep : NULL;
}

void lower_bind_scalar(Lower *x, IrValue *value, IrValue *scalar) {
    lower_bind(x, value, (Rep){.value = scalar});
}

void lower_bind_frag(Lower *x, IrValue *value, IrValue *frag, const Dist *dist) {
    Rep rep = {.value = frag, .is_frag = true, .dist = *dist};
    for (unsigned a = 0; a < dist->rank; a++) rep.axis_map[a] = (int)a;
    lower_bind(x, value, rep);
}

IrValue *lower_scalar(Lower *x, IrValue *value) {
    return lower_rep(x, value)->value;
}

void lower_error(Lower *x, const IrOp *op, const char *what) {
    report_unsupported(x->ctx, op->span, arena_printf(x->ctx->diags->arena, "%s: %s", ir_op_info(op->opcode)->name, what));
    x->failed = true;
}

/* ---- Index arithmetic ---- */

IrValue *index_add(IrBuilder *b, IrValue *a, IrValue *c) {
    if (!a) return c;
    return c ? ir_binary(b, IR_ADD, a, c) : a;
}

IrValue *index_mul_const(IrBuilder *b, IrValue *a, int64_t k) {
    return k == 1 ? a : ir_binary(b, IR_MUL, a, ir_const_index(b, k));
}

IrValue *index_less(IrBuilder *b, IrValue *a, IrValue *c) {
    return ir_binary(b, IR_LT, a, c);
}

IrValue *mask_and(IrBuilder *b, IrValue *a, IrValue *c) {
    if (!a) return c;
    return c ? ir_binary(b, IR_AND, a, c) : a;
}

static const Aff *kernel_leaf(void *ctx, const Aff *leaf) {
    Lower *x = ctx;
    if (leaf->kind != AFF_VAR) return NULL;
    Rep *rep = lower_rep(x, (IrValue *)(uintptr_t)leaf->var);
    return rep ? aff_var(x->module->affs, rep->value, leaf->name) : NULL;
}

IrValue *lower_aff(Lower *x, IrBuilder *b, const Aff *e) {
    return ir_aff_emit(b, aff_substitute(x->module->affs, e, kernel_leaf, x));
}

/* ---- Distributions in code ---- */

static IrValue *special(Lower *x, IrValue **cache, IrSpecial which) {
    if (*cache) return *cache;
    IrBuilder entry = ir_builder_before(x->anchor);
    *cache = ir_special(&entry, which);
    (*cache)->name = ir_enum_word(IR_ENUM_SPECIAL, which);
    return *cache;
}

IrValue *dist_base(Lower *x, const Dist *dist, unsigned axis) {
    IrBuilder entry = ir_builder_before(x->anchor);
    IrValue *sum = NULL;
    for (unsigned i = 0; i < dist->term_count; i++) {
        const DistTerm *t = &dist->terms[i];
        if (t->axis != axis) continue;
        static const IrSpecial sources[] = {IR_SPECIAL_LANE, IR_SPECIAL_WARP, IR_SPECIAL_CLUSTER_RANK};
        IrValue **caches[] = {&x->lane, &x->warp, &x->rank};
        int64_t all = (int64_t[]){31, x->num_warps - 1, x->cluster - 1}[t->source];
        IrValue *v = special(x, caches[t->source], sources[t->source]);
        if (t->shift) v = ir_binary(&entry, IR_SHR, v, ir_const_index(&entry, t->shift));
        if (t->mask != all >> t->shift) v = ir_binary(&entry, IR_AND, v, ir_const_index(&entry, t->mask));
        sum = index_add(&entry, sum, index_mul_const(&entry, v, t->stride));
    }
    return sum;
}

IrValue *dist_local(IrBuilder *b, const Dist *dist, unsigned axis, IrValue *const *index) {
    IrValue *sum = NULL;
    for (unsigned i = 0; i < dist->dim_count; i++)
        for (unsigned s = 0; s < dist->dims[i].sub_count; s++) {
            const DistSub *sub = &dist->dims[i].subs[s];
            if (sub->axis != axis || sub->extent == 1) continue;
            IrValue *v = dist_sub_index(b, &dist->dims[i], s, index[i]);
            sum = index_add(b, sum, index_mul_const(b, v, sub->stride));
        }
    return sum;
}

IrOp *dist_map(Lower *x, const Dist *dist, int64_t vector, Dtype result, IrBuilder *inner, IrValue **index) {
    int64_t extents[DIST_MAX_DIMS];
    for (unsigned i = 0; i < dist->dim_count; i++) extents[i] = dist->dims[i].extent;
    ANALYZER_ASSUME(dist->dim_count > 0);
    extents[dist->dim_count - 1] /= vector;
    const IrType *frag = result ? dist_frag_type(x->module, dist, result) : NULL;
    IrOp *map = ir_map(&x->b, dist->dim_count, extents, result ? 1 : 0, &frag);
    *inner = ir_builder_at_end(map->regions[0]);
    inner->span = x->b.span;
    for (unsigned i = 0; i < dist->dim_count; i++) index[i] = map->regions[0]->args[i];
    IrValue **last = &index[dist->dim_count - 1];
    *last = index_mul_const(inner, *last, vector);
    return map;
}

void dist_piece(IrBuilder *b, const Dist *dist, int64_t width, IrValue **index) {
    ANALYZER_ASSUME(dist->dim_count > 0);
    IrValue **last = &index[dist->dim_count - 1];
    bool whole = dist->dims[dist->dim_count - 1].extent == width;
    *last = whole ? ir_const_index(b, 0) : index_mul_const(b, ir_binary(b, IR_FLOORDIV, *last, ir_const_index(b, width)), width);
}

/* How many consecutive lanes along the axis, from a multiple of that number on, are present or absent together. */
static int64_t lanes_alike(Lower *x, const Dist *dist, unsigned axis, const Aff *lo, const Aff *hi) {
    int64_t width = x->gpu && x->at ? dist_vector(dist, axis, 16) : 1;
    if (width == 1) return 1;
    AffFacts *facts = ir_facts_at(x->ctx->scratch, x->at);
    aff_facts_effort(facts, 64);
    while (width > 1 && ((lo && aff_known_divisor(facts, lo, width) % width) || (hi && aff_known_divisor(facts, hi, width) % width)))
        width /= 2;
    return width;
}

IrValue *lower_bound_mask(Lower *x, IrBuilder *b, const Dist *dist, unsigned axis, const Aff *lo, const Aff *hi, IrValue *const *index) {
    int64_t c;
    bool need_lo = lo && !(aff_is_const(lo, &c) && c <= 0);
    bool need_hi = hi && !(aff_is_const(hi, &c) && c >= dist->padded[axis]);
    if (!need_lo && !need_hi) return NULL;
    if (x->rotation && is_rotated(x, dist)) {
        IrValue *present = need_hi ? rotated_present(x, b, dist, index, rotated_limit(x, hi)) : NULL;
        if (!need_lo) return present;
        return mask_and(b, present, ir_binary(b, IR_LE, lower_aff(x, &x->b, lo), rotated_lane(x, b, dist, index)));
    }
    IrValue *at[DIST_MAX_DIMS], *mask = NULL;
    int64_t alike = lanes_alike(x, dist, axis, need_lo ? lo : NULL, need_hi ? hi : NULL);
    for (unsigned i = 0; i < dist->dim_count; i++) at[i] = index[i];
    if (alike > 1) dist_piece(b, dist, alike, at); /* one condition for all of a piece */
    IrValue *base = dist_base(x, dist, axis), *local = dist_local(b, dist, axis, at);
    if (!local) local = ir_const_index(b, 0);
    if (need_hi) {
        IrValue *limit = lower_aff(x, &x->b, hi);
        if (base) limit = ir_binary(&x->b, IR_SUB, limit, base);
        mask = index_less(b, local, limit);
    }
    if (need_lo) {
        IrValue *limit = lower_aff(x, &x->b, lo);
        if (base) limit = ir_binary(&x->b, IR_SUB, limit, base);
        mask = mask_and(b, mask, ir_binary(b, IR_LE, limit, local));
    }
    return mask;
}

IrValue *presence_mask(Lower *x, IrBuilder *b, IrValue *value, const Dist *dist, IrValue *const *index, const Aff *const *checked) {
    Presence p = presence_in(x->presence, value);
    return interval_mask(x, b, &p, dist, index, checked);
}
