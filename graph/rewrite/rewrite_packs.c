/* Factors of a convolution in the order in which a product of matrices reads them.
 *
 *   Y[n, o, y, x] = sum(c, r in 0:R, s in 0:S) X[n, c, y+r, x+s] * F[o, c, r, s]
 *
 * becomes, with the taps e = r*S + s as one index and the tensors XP and FP stored first,
 *
 *   XP[n, y, x, c] = X[n, c, y, x];   FP[e, o, c] = F[o, c, e // S, e % S]
 *   Y[n, o, y, x] = sum(c, e in 0:R*S) XP[n, y + e // S, x + e % S, c] * FP[e, o, c]
 *
 * so that for each tap both factors are rows of consecutive elements along what is summed: as copies bring them and tensor cores take them. */
#include "rewrite_internal.h"

#include "notation.h"
#include "query.h"

/* Taps of a window, each of which becomes code of the sketch or a plane in memory: 512 are a window of 8 by 8 by 8 (not measured). Axes of
 * what is written, taps among them; a larger rank stays as it is. */
enum { MOST_TAPS = 512, MOST_RANK = 12 };
/* Elements along the sum in a tile of a packed factor: 64 halves are a row of 128 bytes, as TMA and wgmma swizzle it; 8 are the 16 bytes
 * that one copy takes. */
enum { LANES = 64, LEAST_LANES = 8 };
enum { FEW_CHANNELS = 8, MOST_CHANNELS = 64 }; /* with the taps in them: they take some while there are fewer, and no more than the most */

typedef struct {
    IrFunc *f;
    IrModule *m;
    IrOp *op;
    unsigned outer;
    IrValue **args;
    IrOp *window, *weights; /* elements of the two factors */
    int64_t lanes;          /* of tiles along the sum, in which factors are stored */
    bool second;            /* the window is the second factor */
    IrValue *sum;           /* the index that both are read along */
} Packer;

static bool names(const Packer *p, const IrOp *element, const IrValue *arg) {
    for (unsigned i = 1; i < element->operand_count; i++)
        if (aff_depends_on(ir_aff_of(p->m, element->operands[i]), arg)) return true;
    return false;
}

/* By how much the expression grows with the taps, at least; 0: with none. */
static int64_t least_by_tap(const Packer *p, const Aff *e) {
    int64_t least = 0, by;
    for (unsigned k = p->outer; k < p->op->operand_count; k++) {
        if (p->args[k] == p->sum || !aff_depends_on(e, p->args[k])) continue;
        if (!notation_slope(p->m, e, p->args[k], &by)) by = 1;
        by = by < 0 ? -by : by;
        if (!least || by < least) least = by;
    }
    return least;
}

/* Does it move with the index of the result, further than between two taps? A phase beside taps that are multiplied by the number of phases does not. */
static bool moves(const Packer *p, const Aff *e, unsigned k, int64_t by_tap) {
    int64_t by, extent;
    if (!aff_depends_on(e, p->args[k]) || !notation_slope(p->m, e, p->args[k], &by)) return false;
    return !aff_is_const(ir_aff_of(p->m, p->op->operands[k]), &extent) || (by < 0 ? -by : by) * (extent - 1) >= by_tap;
}

/* Does an axis of what the element reads move with an index of the result and with a tap? */
static bool is_window(const Packer *p, const IrOp *element) {
    for (unsigned i = 1; i < element->operand_count; i++) {
        const Aff *e = ir_aff_of(p->m, element->operands[i]);
        int64_t by_tap = least_by_tap(p, e);
        for (unsigned k = 0; by_tap && k < p->outer; k++)
            if (moves(p, e, k, by_tap)) return true;
    }
    return false;
}

static bool is_number(const IrValue *index) {
    const IrOp *op = index->def;
    return !op || (op->opcode != IR_GRAPH_ELEMENT && op->opcode != IR_CAST);
}

/* A tensor's element at indices that are no data, of a tensor that is no such factor yet. */
static IrOp *plain_element(IrValue *v) {
    if (v->def && v->def->opcode == IR_CAST) v = v->def->operands[0];
    IrOp *e = v->def;
    if (!e || e->opcode != IR_GRAPH_ELEMENT || e->operand_count > MOST_RANK) return NULL;
    if (e->operands[0]->def && ir_attr_int(e->operands[0]->def, "stored", 0)) return NULL;
    for (unsigned i = 1; i < e->operand_count; i++)
        if (!is_number(e->operands[i])) return NULL;
    return e;
}

static IrOp *product_of(const IrOp *op) {
    IrOp *term = op->regions[0]->last->operands[0]->def;
    if (term && term->opcode == IR_SELECT) term = term->operands[1]->def;
    return term && term->opcode == IR_MUL ? term : NULL;
}

/* Does one axis of what the element reads grow with the index, and with no tap? */
static bool runs_along(const Packer *p, const IrOp *element, const IrValue *arg) {
    unsigned found = 0;
    int64_t by;
    for (unsigned i = 1; i < element->operand_count; i++) {
        const Aff *e = ir_aff_of(p->m, element->operands[i]);
        if (!aff_depends_on(e, arg)) continue;
        bool plain = notation_slope(p->m, e, arg, &by) && by == 1;
        for (unsigned k = p->outer; k < p->op->operand_count; k++) plain &= p->args[k] == arg || !aff_depends_on(e, p->args[k]);
        found += plain ? 1 : 2;
    }
    return found == 1;
}

/* The index that both factors are read along; of several the one that is longest, as far as is known. */
static bool find_sum(Packer *p) {
    int64_t most = 0, extent;
    for (unsigned i = p->outer; i < p->op->operand_count; i++) {
        if (!runs_along(p, p->window, p->args[i]) || !runs_along(p, p->weights, p->args[i])) continue;
        if (!aff_is_const(ir_aff_of(p->m, p->op->operands[i]), &extent)) extent = INT64_MAX;
        if (extent > most) most = extent, p->sum = p->args[i];
    }
    return p->sum != NULL;
}

/* An index of the result that the weights are read along and the window is not. */
static IrValue *find_column(const Packer *p) {
    for (unsigned i = 0; i < p->outer; i++)
        if (runs_along(p, p->weights, p->args[i]) && !names(p, p->window, p->args[i])) return p->args[i];
    return NULL;
}

static bool find_factors(Packer *p) {
    const IrOp *mul = product_of(p->op);
    if (!mul) return false;
    IrOp *a = plain_element(mul->operands[0]), *b = plain_element(mul->operands[1]);
    for (unsigned turn = 0; a && b && turn < 2; turn++) {
        p->window = turn ? b : a;
        p->weights = turn ? a : b;
        p->second = turn;
        p->sum = NULL;
        if (find_sum(p) && is_window(p, p->window) && !is_window(p, p->weights) && find_column(p)) return true;
    }
    return false;
}

static bool find(Packer *p, IrFunc *f, IrOp *op) {
    if (op->opcode != IR_GRAPH_GENERIC || ir_op_kind(op) != IR_KIND_ADD || op->operand_count > NOTATION_ARGS) return false;
    *p = (Packer){.f = f, .m = f->module, .op = op, .outer = (unsigned)ir_attr_int(op, "outer", 0), .args = op->regions[0]->args};
    return find_factors(p);
}

/* ---- Taps as one index ---- */

/* What becomes of the taps: some go into the sum with the channels, where these are few; the others are one index. */
typedef struct {
    uint32_t inside; /* a bit for each index of the notation */
    int64_t inner, outer;
    unsigned count; /* of indices in `outer` */
} Taps;

static bool tap_extent(const Packer *p, unsigned i, int64_t *extent) {
    return p->args[i] != p->sum && aff_is_const(ir_aff_of(p->m, p->op->operands[i]), extent) && *extent >= 1;
}

/* The extent of the sum in the case where it is longest; 0: not known. */
static int64_t longest_sum(const Packer *p) {
    unsigned i = p->outer;
    while (p->args[i] != p->sum) i++;
    return case_most(p->m, ir_aff_of(p->m, p->op->operands[i]));
}

/* Has the factor an axis that is the sum's index and ends with it? Then zeros stand behind its end; of a group the next one's elements do. */
static bool ends_with_sum(const Packer *p, const IrOp *element) {
    const Aff *index = aff_var(p->m->affs, p->sum, p->sum->name), *extent = ir_aff_of(p->m, p->op->operands[p->sum->index]);
    for (unsigned i = 1; i < element->operand_count; i++)
        if (ir_aff_of(p->m, element->operands[i]) == index && element->operands[0]->type->extents[i - 1] == extent) return true;
    return false;
}

static bool find_taps(const Packer *p, Taps *t) {
    const IrAttr *pad = ir_attr(p->window, "pad");
    bool open = (pad && pad->number != 0) || !ends_with_sum(p, p->window) || !ends_with_sum(p, p->weights);
    int64_t channels = open ? 0 : longest_sum(p), extent;
    *t = (Taps){.inner = 1, .outer = 1};
    for (unsigned i = p->op->operand_count; i-- > p->outer;) {
        if (p->args[i] == p->sum) continue;
        if (!tap_extent(p, i, &extent) || t->outer > MOST_TAPS / extent) return false;
        bool few = channels && channels * t->inner < FEW_CHANNELS && channels * t->inner * extent <= MOST_CHANNELS && !t->count;
        if (few) t->inside |= (uint32_t)1 << i;
        if (few)
            t->inner *= extent;
        else
            t->outer *= extent, t->count++;
    }
    return true;
}

/* An index is one digit of a number: the last taps are the lowest ones. */
static const Aff *next_digit(const Packer *p, unsigned i, const Aff **left, bool last) {
    AffCtx *c = p->m->affs;
    const Aff *extent = ir_aff_of(p->m, p->op->operands[i]), *digit = last ? *left : aff_mod(c, *left, extent);
    *left = aff_floordiv(c, *left, extent);
    return digit;
}

/* Taps in the sum lie behind the channels, which are what is left of it. */
static void mean_taps(const Packer *p, const Taps *t, Notation *n, const Aff *sum, const Aff *all) {
    unsigned counted = 0;
    for (unsigned i = p->op->operand_count; i-- > p->outer;) {
        if (p->args[i] == p->sum) continue;
        bool inside = t->inside >> i & 1;
        n->meaning[i] = next_digit(p, i, inside ? &sum : &all, !inside && ++counted == t->count);
    }
    for (unsigned i = p->outer; i < p->op->operand_count; i++)
        if (p->args[i] == p->sum) n->meaning[i] = sum;
}

/* Rows of whole pieces of 16 bytes, as copies take them. Behind the last channel both factors are 0. */
static const Aff *whole_pieces(const Packer *p, const Aff *extent) {
    const Aff *piece = aff_const(p->m->affs, (int64_t)(16 / dtype_size(p->window->results[0].type->dtype)));
    return aff_mul(p->m->affs, aff_ceildiv(p->m->affs, extent, piece), piece);
}

/* The notation over (the result's indices, the sum with the taps in it, all other taps). */
static IrOp *merge_taps(Packer *p, const Taps *t) {
    IrValue *extents[NOTATION_ARGS];
    AffCtx *c = p->m->affs;
    unsigned n = 0;
    IrBuilder b = ir_builder_before(p->op);
    b.span = p->op->span;
    for (; n < p->outer; n++) extents[n] = p->op->operands[n];
    for (unsigned i = p->outer; i < p->op->operand_count; i++)
        if (p->args[i] == p->sum) extents[n] = p->op->operands[i];
    /* NOLINTNEXTLINE(*CallAndMessage): one of the arguments is the sum */
    if (t->inside) extents[n] = ir_aff_emit(&b, whole_pieces(p, aff_mul(c, ir_aff_of(p->m, extents[n]), aff_const(c, t->inner))));
    n++;
    if (t->count) extents[n++] = ir_const_index(&b, t->outer);
    IrOp *to = notation_create(&b, p->op->results[0].type->dtype, n, extents, p->outer);
    ir_set_kind(to, IR_KIND_ADD);
    Notation again = {.m = p->m, .from = p->op->regions[0], .map = ir_value_map_create(p->m->arena)};
    for (unsigned i = 0; i < p->outer; i++) again.meaning[i] = notation_arg(to, p->args[i]->name);
    const Aff *sum = notation_arg(to, "j");
    mean_taps(p, t, &again, sum, t->count ? notation_arg(to, "e") : NULL);
    notation_copy(to, &again, p->op->span);
    ir_replace_uses(&p->op->results[0], ir_result(to, 0));
    ir_op_erase(p->op);
    return to;
}

/* The factors of the notation that was merged. */
static void find_again(Packer *p, IrOp *op) {
    p->op = op;
    p->args = op->regions[0]->args;
    p->sum = p->args[p->outer];
    const IrOp *mul = product_of(op);
    p->window = plain_element(mul->operands[p->second]);
    p->weights = plain_element(mul->operands[!p->second]);
}

/* ---- The factors ---- */

/* Notation without a fold over these extents, whose value is stored; `at` gets its indices. */
static IrOp *begin_stored(Packer *p, unsigned rank, IrValue *const *extents, Dtype dtype, IrValue **at) {
    IrBuilder b = ir_builder_before(p->op);
    b.span = p->op->span;
    IrOp *pack = notation_create(&b, dtype, rank, extents, rank);
    ir_attr_set_int(pack, "stored", p->lanes);
    for (unsigned i = 0; i < rank; i++) at[i] = ir_region_add_arg(pack->regions[0], ir_type_index(p->m), NULL);
    return pack;
}

/* Its body is the element at these indices; `pad`: outside it is 0. */
static IrValue *end_stored(IrOp *pack, const IrOp *element, IrValue *const *index, bool pad) {
    IrValue *operands[MOST_RANK + 1] = {element->operands[0]};
    const IrType *scalar = element->results[0].type;
    IrBuilder b = ir_builder_at_end(pack->regions[0]);
    b.span = pack->span;
    for (unsigned i = 1; i < element->operand_count; i++) operands[i] = index[i - 1];
    IrValue *v = ir_result(ir_op_create(&b, IR_GRAPH_ELEMENT, element->operand_count, operands, 1, &scalar), 0);
    const IrAttr *own = ir_attr(element, "pad");
    if (pad) ir_attr_set_float(v->def, "pad", own ? own->number : 0);
    ir_yield(&b, 1, &v);
    return ir_result(pack, 0);
}

/* The element is read from another tensor. */
static void read_stored(IrOp *element, IrValue *tensor, unsigned rank, IrValue *const *index, bool keep_pad) {
    IrValue *operands[MOST_RANK + 1] = {tensor};
    const IrType *scalar = element->results[0].type;
    IrBuilder b = ir_builder_before(element);
    b.span = element->span;
    for (unsigned i = 0; i < rank; i++) operands[i + 1] = index[i];
    IrOp *to = ir_op_create(&b, IR_GRAPH_ELEMENT, rank + 1, operands, 1, &scalar);
    const IrAttr *pad = ir_attr(element, "pad");
    if (pad && keep_pad) ir_attr_set_float(to, "pad", pad->number);
    ir_replace_uses(&element->results[0], ir_result(to, 0));
    ir_op_erase(element);
}

/* The one index of the result that an index expression is made of; NULL: none, or several. */
static IrValue *only_outer(const Packer *p, const Aff *e, IrValue **extent) {
    IrValue *found = NULL;
    for (unsigned i = 0; i < p->outer; i++) {
        if (!aff_depends_on(e, p->args[i])) continue;
        if (found) return NULL;
        found = p->args[i];
        *extent = p->op->operands[i];
    }
    return found;
}

/* An axis of the tensor that the window becomes. */
typedef struct {
    IrValue *extent, *index; /* where the notation reads it */
    const IrValue *outer;    /* stands for this index of the result; null: for an axis of the tensor that the window was */
} WindowAxis;

/* Axes of the window's tensor stay, but for those that move with the sum: there the indices of the result are its axes. The sum is the last. */
static unsigned window_axes(const Packer *p, IrBuilder *b, WindowAxis *axes) {
    const IrOp *e = p->window;
    unsigned n = 0;
    for (unsigned i = 1; i < e->operand_count; i++) {
        const Aff *at = ir_aff_of(p->m, e->operands[i]);
        IrValue *extent = NULL, *outer = aff_depends_on(at, p->sum) ? only_outer(p, at, &extent) : NULL;
        if (outer)
            axes[n++] = (WindowAxis){extent, outer, outer};
        else if (!aff_depends_on(at, p->sum))
            axes[n++] = (WindowAxis){ir_aff_emit(b, e->operands[0]->type->extents[i - 1]), e->operands[i], NULL};
    }
    axes[n++] = (WindowAxis){p->op->operands[p->sum->index], p->sum, p->sum};
    return n;
}

/* The tensor with the sum behind all axes. `filled`: its last elements are 0. */
static void pack_window(Packer *p, bool filled) {
    IrOp *e = p->window;
    IrValue *extents[MOST_RANK + 1], *args[MOST_RANK + 1], *own[MOST_RANK], *index[MOST_RANK + 1];
    WindowAxis axes[MOST_RANK + 1];
    Notation again = {.m = p->m, .from = p->op->regions[0], .map = ir_value_map_create(p->m->arena)};
    IrBuilder b = ir_builder_before(p->op);
    b.span = p->op->span;
    unsigned n = window_axes(p, &b, axes), k = 0;
    for (unsigned i = 0; i < n; i++) extents[i] = axes[i].extent, index[i] = axes[i].index;
    IrOp *pack = begin_stored(p, n, extents, e->results[0].type->dtype, args);
    for (unsigned i = 0; i < p->op->operand_count; i++) {
        again.meaning[i] = aff_const(p->m->affs, 0);
        for (unsigned j = 0; j < n; j++)
            if (axes[j].outer == p->args[i]) again.meaning[i] = aff_var(p->m->affs, args[j], "i");
    }
    b = ir_builder_at_end(pack->regions[0]);
    b.span = p->op->span;
    for (unsigned i = 1; i < e->operand_count; i++) {
        const Aff *at = ir_aff_of(p->m, e->operands[i]);
        bool moves = aff_depends_on(at, p->sum);
        own[i - 1] = moves ? notation_index(&b, &again, e->operands[i]) : args[k];
        IrValue *none = NULL;
        k += !moves || only_outer(p, at, &none);
    }
    read_stored(e, end_stored(pack, e, own, filled || ir_attr(e, "pad")), n, index, true);
}

/* ---- Weights ---- */

/* Axes of the tensor that the packed weights are: indices of the notation, or all taps as one number. */
typedef struct {
    unsigned rank;
    IrValue *extents[MOST_RANK], *index[MOST_RANK], *args[MOST_RANK];
    const IrValue *named[MOST_RANK]; /* the notation's index; null: the taps */
} WeightAxes;

/* Does an axis of the weights move with taps alone? */
static bool is_tap_axis(const Packer *p, unsigned operand) {
    const Aff *e = ir_aff_of(p->m, p->weights->operands[operand]);
    int64_t extent;
    bool taps = false;
    for (unsigned i = p->outer; i < p->op->operand_count; i++) taps |= p->args[i] != p->sum && aff_depends_on(e, p->args[i]);
    return taps && aff_is_const(p->weights->operands[0]->type->extents[operand - 1], &extent);
}

/* Is the index named where no taps are? */
static bool is_named(const Packer *p, const IrValue *arg, bool numbered) {
    for (unsigned i = 1; i < p->weights->operand_count; i++)
        if (!(numbered && is_tap_axis(p, i)) && aff_depends_on(ir_aff_of(p->m, p->weights->operands[i]), arg)) return true;
    return false;
}

/* Taps that stay apart, as those of phases: which of the kernel's elements it is, in one number. */
static void add_number(Packer *p, WeightAxes *w) {
    AffCtx *c = p->m->affs;
    const IrType *t = p->weights->operands[0]->type;
    const Aff *number = aff_const(c, 0), *extent = aff_const(c, 1);
    for (unsigned i = 1; i < p->weights->operand_count; i++) {
        if (!is_tap_axis(p, i)) continue;
        number = aff_add(c, aff_mul(c, number, t->extents[i - 1]), ir_aff_of(p->m, p->weights->operands[i]));
        extent = aff_mul(c, extent, t->extents[i - 1]);
    }
    IrBuilder b = ir_builder_before(p->op), inside = ir_builder_before(p->weights);
    w->extents[0] = ir_aff_emit(&b, extent);
    w->index[0] = ir_aff_emit(&inside, number);
    w->rank = 1;
}

/* Taps and phases first, then the column, then the sum. */
static void add_named(Packer *p, WeightAxes *w, bool numbered) {
    const IrValue *column = find_column(p);
    for (unsigned turn = 0; turn < 3; turn++)
        for (unsigned i = 0; i < p->op->operand_count; i++) {
            unsigned own_turn = p->args[i] == p->sum ? 2 : p->args[i] == column ? 1 : 0;
            if (own_turn != turn || !is_named(p, p->args[i], numbered)) continue;
            w->named[w->rank] = p->args[i];
            w->extents[w->rank] = p->op->operands[i];
            w->index[w->rank++] = p->args[i];
        }
}

/* The index of the weights' axes over those of the packed tensor. */
static void weight_index(Packer *p, const WeightAxes *w, IrBuilder *b, bool numbered, IrValue **own) {
    AffCtx *c = p->m->affs;
    const IrOp *e = p->weights;
    Notation again = {.m = p->m, .from = p->op->regions[0], .map = ir_value_map_create(p->m->arena)};
    for (unsigned i = 0; i < p->op->operand_count; i++) {
        again.meaning[i] = aff_const(c, 0);
        for (unsigned k = 0; k < w->rank; k++)
            if (w->named[k] == p->args[i]) again.meaning[i] = aff_var(c, w->args[k], "i");
    }
    const Aff *left = numbered ? aff_var(c, w->args[0], "e") : NULL;
    for (unsigned i = e->operand_count; i-- > 1;) {
        const Aff *extent = e->operands[0]->type->extents[i - 1];
        bool tap = numbered && is_tap_axis(p, i);
        own[i - 1] = tap ? ir_aff_emit(b, aff_mod(c, left, extent)) : notation_index(b, &again, e->operands[i]);
        if (tap) left = aff_floordiv(c, left, extent);
    }
}

static void pack_weights(Packer *p, bool numbered) {
    WeightAxes w = {0};
    IrValue *own[MOST_RANK];
    if (numbered) add_number(p, &w);
    add_named(p, &w, numbered);
    IrOp *pack = begin_stored(p, w.rank, w.extents, p->weights->results[0].type->dtype, w.args);
    IrBuilder b = ir_builder_at_end(pack->regions[0]);
    b.span = p->op->span;
    weight_index(p, &w, &b, numbered, own);
    read_stored(p->weights, end_stored(pack, p->weights, own, true), w.rank, w.index, false);
}

static unsigned count_named(const Packer *p, const IrOp *element) {
    unsigned n = 0;
    for (unsigned i = 0; i < p->op->operand_count; i++) n += names(p, element, p->args[i]);
    return n;
}

/* Does each axis of the window that moves with what is summed move with one index of the result at most, and with no tap that stays outside of the sum? */
static bool has_places(const Packer *p, uint32_t inside) {
    for (unsigned i = 1; i < p->window->operand_count; i++) {
        const Aff *e = ir_aff_of(p->m, p->window->operands[i]);
        bool summed = aff_depends_on(e, p->sum), tapped = false;
        unsigned outers = 0;
        for (unsigned k = 0; k < p->op->operand_count; k++) {
            if (p->args[k] == p->sum || !aff_depends_on(e, p->args[k])) continue;
            outers += k < p->outer;
            summed |= inside >> k & 1;
            tapped |= k >= p->outer && !(inside >> k & 1);
        }
        if (summed && (outers > 1 || tapped)) return false;
    }
    return true;
}

bool rewrite_packs(Rewriter *r, IrOp *op) {
    Packer p;
    if (!find(&p, r->f, op) || count_named(&p, p.weights) >= MOST_RANK) return false;
    Taps taps = {0};
    p.lanes = LANES;
    bool bounded = op->regions[0]->last->operands[0]->def->opcode == IR_SELECT; /* taps whose number differs by phase stay apart */
    bool merges = !bounded && find_taps(&p, &taps);
    if (!merges) taps = (Taps){0};
    if (!has_places(&p, taps.inside)) return false;
    if (merges && (taps.count > 1 || taps.inside)) {
        int64_t channels = longest_sum(&p) * taps.inner;
        for (p.lanes = LEAST_LANES; p.lanes < LANES && p.lanes < channels;) p.lanes *= 2;
        if (!taps.inside) p.lanes = LANES;
        find_again(&p, merge_taps(&p, &taps));
    }
    pack_window(&p, taps.inside != 0);
    pack_weights(&p, bounded);
    return true;
}
