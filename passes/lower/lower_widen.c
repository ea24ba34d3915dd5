/* Tiles stored in wider pieces than their threads hold: lanes of a warp exchange what they hold first.
 *
 * The accumulators of the tensor cores lie in pairs of columns; a quad's four threads together hold 32 bytes and
 * more of a row. layout_widen says which lane bits change places with which register bits; each such swap is one
 * shuffle for every two words:
 *
 *   lane bit 0 keeps word 0 and sends word 1, lane bit 1 keeps word 1 and sends word 0
 *
 * Where no wide piece is to be had, since rows begin anywhere, the same swaps make lanes neighbours along the row (layout_gather):
 * a store of single elements then touches one or two lines, where it touched a piece of eight.
 */
#include "analysis/distribution_make.h"
#include "analyzer.h"
#include "lower_internal.h"

#include <string.h>

static int64_t min_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The fragment's indices with those bits that come from other lanes as dimensions of their own. */
static bool read_dims(Widening *w, const Dist *own) {
    if (w->to.dim_count + w->count > DIST_MAX_DIMS) return false;
    w->from = w->to;
    w->from.term_count = own->term_count;
    memcpy(w->from.terms, own->terms, sizeof own->terms);
    for (unsigned i = 0; i < w->count; i++)
        w->from.dims[w->from.dim_count++] = (DistDim){2, 1, {{2, w->swaps[i].axis, w->swaps[i].stride}}};
    return true;
}

bool widening_find(Lower *x, const IrType *tile, unsigned axis, int64_t width, Widening *w) {
    LayoutCtx *layouts = ir_module_layouts(x->module);
    if (!tile->layout || tile->dtype == DTYPE_BOOL) return false;
    const Layout *l = layout_widen(layouts, tile->layout, axis, (unsigned)width, w->swaps, &w->count);
    if (!l || !w->count || !dist_can_read(l)) return false;
    const IrType *type = ir_type_tile(x->module, tile->dtype, tile->rank, tile->extents, l);
    Dist own = dist_of(tile);
    w->width = width;
    w->to = dist_of(type);
    int64_t size = (int64_t)dtype_size(tile->dtype), low = width >> w->count;
    w->word = size >= 4 ? 1 : min_of(low, 4 / size);
    int64_t words = layout_register_count(l) / w->word * (size > 4 ? 2 : 1);
    w->cost = layout_register_count(l) / width * layout_warp_lines(l, axis, (unsigned)size) + words / 2 * w->count;
    return dist_vector(&w->to, axis, width) == width && read_dims(w, &own);
}

bool gathering_find(Lower *x, const IrType *tile, unsigned axis, Widening *w) {
    LayoutCtx *layouts = ir_module_layouts(x->module);
    if (!tile->layout || tile->dtype == DTYPE_BOOL) return false;
    const Layout *l = layout_gather(layouts, tile->layout, axis, w->swaps, &w->count);
    if (!l || !dist_can_read(l)) return false;
    const IrType *type = ir_type_tile(x->module, tile->dtype, tile->rank, tile->extents, l);
    Dist own = dist_of(tile);
    w->width = (int64_t)1 << w->count;
    w->word = 1;
    w->to = dist_of(type);
    const DistDim *last = &w->to.dims[w->to.dim_count - 1];
    if (!last->sub_count || last->subs[last->sub_count - 1].extent % w->width) return false; /* a group is one run */
    int64_t size = (int64_t)dtype_size(tile->dtype), elements = layout_register_count(l);
    w->cost = elements * layout_warp_lines(l, axis, (unsigned)size) + elements * (size > 4 ? 2 : 1) / 2 * w->count;
    return read_dims(w, &own);
}

bool widening_pays(const Widening *w, const IrType *tile, unsigned axis, int64_t width) {
    const Layout *l = tile->layout;
    return w->cost < layout_register_count(l) / width * layout_warp_lines(l, axis, (unsigned)dtype_size(tile->dtype));
}

/* ---- Code ---- */

static Dtype word_type(Dtype element, int64_t count) {
    switch (count * (int64_t)dtype_size(element)) {
    case 1:
        return DTYPE_U8;
    case 2:
        return DTYPE_U16;
    default:
        return DTYPE_U32;
    }
}

static IrValue *bits_as(IrBuilder *b, IrValue *v, const IrType *type) {
    return v->type == type ? v : ir_result(ir_op_create(b, IR_BITCAST, 1, &v, 1, &type), 0);
}

/* Word `at` of a group as this thread holds it: its low bits count words of a piece, the rest say which piece. */
static IrValue *own_word(Lower *x, IrBuilder *b, const Rep *rep, const Widening *w, IrValue *const *index, int64_t at) {
    IrValue *from[DIST_MAX_DIMS];
    int64_t low = (w->width >> w->count) / w->word, piece = at / low;
    unsigned dims = w->to.dim_count;
    ANALYZER_ASSUME(dims > 0);
    for (unsigned i = 0; i < dims; i++) from[i] = index[i];
    if (w->to.dims[dims - 1].extent == w->width) from[dims - 1] = ir_const_index(b, 0);
    from[dims - 1] = index_add(b, from[dims - 1], ir_const_index(b, at % low * w->word));
    for (unsigned i = 0; i < w->count; i++) from[dims + i] = ir_const_index(b, piece >> i & 1);
    IrValue *v = rep_get(x, b, rep, &w->from, from, w->word);
    if (dtype_size(v->type->dtype) >= 4) return v;
    return bits_as(b, v, ir_type_scalar(x->module, word_type(v->type->dtype, w->word)));
}

/* The words of the two pieces `low` words apart change places between lanes. */
static void exchange(Lower *x, IrBuilder *b, const Widening *w, unsigned swap, IrValue **first, IrValue **second) {
    IrValue *high = w->high[swap];
    IrValue *got = lower_shuffle(x, b, ir_select(b, high, *first, *second), (int64_t)1 << w->swaps[swap].lane);
    *first = ir_select(b, high, got, *first);
    *second = ir_select(b, high, *second, got);
}

void widening_begin(Lower *x, Widening *w) {
    for (unsigned i = 0; i < w->count; i++) {
        Dist lane = {.rank = 1, .term_count = 1, .terms = {{DIST_LANE, w->swaps[i].lane, 1, 0, 1}}};
        w->high[i] = ir_binary(&x->b, IR_NE, dist_base(x, &lane, 0), ir_const_index(&x->b, 0));
    }
}

static int64_t exchanged_words(Lower *x, IrBuilder *b, const Rep *rep, const Widening *w, IrValue *const *index, IrValue **words) {
    int64_t count = w->width / w->word, low = count >> w->count;
    for (int64_t i = 0; i < count; i++) words[i] = own_word(x, b, rep, w, index, i);
    for (unsigned s = 0; s < w->count; s++)
        for (int64_t i = 0; i < count; i++)
            if (!(i & low << s)) exchange(x, b, w, s, &words[i], &words[i + (low << s)]);
    return count;
}

void gathering_get(Lower *x, IrBuilder *b, const Rep *rep, const Widening *w, IrValue *const *index, IrValue **elements) {
    int64_t count = exchanged_words(x, b, rep, w, index, elements);
    for (int64_t i = 0; i < count; i++) elements[i] = bits_as(b, elements[i], ir_type_scalar(x->module, rep->value->type->dtype));
}

IrValue *widening_get(Lower *x, IrBuilder *b, const Rep *rep, const Widening *w, IrValue *const *index) {
    IrValue *words[WIDENING_MAX];
    int64_t count = exchanged_words(x, b, rep, w, index, words);
    /* NOLINTNEXTLINE(*NullDereference): there is a word */
    const IrType *packed = ir_type_vec(x->module, words[0]->type->dtype, (unsigned)count);
    IrValue *pack = ir_result(ir_op_create(b, IR_PACK, (unsigned)count, words, 1, &packed), 0);
    return bits_as(b, pack, ir_type_vec(x->module, rep->value->type->dtype, (unsigned)w->width));
}
