/* Reductions and products. The results wanted by a frame are looked up in the run's memo; the
 * missing ones are computed with either the reduced points or the wanted results as lanes. */
#include "analyzer.h"
#include "evaluate_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    EvalRun *run;
    const Node *node;
    size_t key_count;
    int64_t *key_index[DOMAIN_RANK]; /* by result axis: one per key */
    Acc *acc;
    Repeats *repeats; /* one per key, null: none are counted */
} Work;

Acc acc_identity(const Node *node) {
    Acc acc = {0};
    switch (node->reduce) {
    case REDUCE_MUL:
        acc.sum = acc.most = acc.least = acc.span_most = acc.span_least = 1;
        acc.integer = 1;
        break;
    case REDUCE_MAX:
        acc.sum = -INFINITY;
        acc.integer = scalar_limit(node->shape.dtype, true);
        break;
    case REDUCE_MIN:
        acc.sum = INFINITY;
        acc.integer = scalar_limit(node->shape.dtype, false);
        break;
    case REDUCE_AND:
        acc.integer = scalar_wrap(node->shape.dtype, -1);
        break;
    case REDUCE_ARGMAX:
    case REDUCE_ARGMIN:
        acc.rival = -INFINITY;
        acc.best = -1;
        break;
    default:
        break;
    }
    return acc;
}

static void acc_real(Acc *acc, const Node *node, double v, double e) {
    switch (node->reduce) {
    case REDUCE_ADD:
    case REDUCE_MEAN:
        acc_sum(acc, node, v, e);
        return;
    case REDUCE_MUL:
        acc_multiply(acc, node, v, e);
        break;
    case REDUCE_MAX:
        if (isnan(v) || v > acc->sum) acc->sum = v;
        break;
    default: /* REDUCE_MIN */
        if (isnan(v) || v < acc->sum) acc->sum = v;
    }
    acc->terms++;
    acc->largest_error = fmax(acc->largest_error, e);
}

static void acc_integer(Acc *acc, const Node *node, int64_t v, double e) {
    Dtype dtype = node->shape.dtype;
    bool lower = dtype_is_signed(dtype) ? v < acc->integer : (uint64_t)v < (uint64_t)acc->integer;
    acc->uncertain |= e > 0;
    switch (node->reduce) {
    case REDUCE_MUL:
        acc->integer = (int64_t)((uint64_t)acc->integer * (uint64_t)v);
        break;
    case REDUCE_MAX:
        acc->integer = lower ? acc->integer : v;
        break;
    case REDUCE_MIN:
        acc->integer = lower ? v : acc->integer;
        break;
    case REDUCE_AND:
        acc->decided |= e == 0 && v == 0;
        acc->integer &= v;
        break;
    case REDUCE_OR:
        acc->decided |= e == 0 && v == scalar_wrap(dtype, -1);
        acc->integer |= v;
        break;
    default:
        acc->integer = (int64_t)((uint64_t)acc->integer + (uint64_t)v);
    }
    acc->integer = scalar_wrap(dtype, acc->integer);
}

/* The first NaN, else the first largest (smallest). */
static void acc_arg_real(Acc *acc, double v, double e) {
    bool better = acc->best < 0 || (!isnan(acc->sum) && (isnan(v) || v > acc->sum));
    acc->uncertain |= e == INFINITY; /* it may be NaN, too */
    if (!better) {
        acc->rival = fmax(acc->rival, v + e);
        return;
    }
    if (acc->best >= 0) acc->rival = fmax(acc->rival, acc->sum + acc->error);
    acc->best = acc->terms;
    acc->sum = v;
    acc->error = e;
}

static void acc_arg_integer(Acc *acc, const Node *node, int64_t v, double e) {
    bool is_signed = dtype_is_signed(node->operands[0]->shape.dtype), smaller = node->reduce == REDUCE_ARGMIN;
    int64_t a = smaller ? v : acc->integer, b = smaller ? acc->integer : v;
    bool better = acc->best < 0 || (is_signed ? a < b : (uint64_t)a < (uint64_t)b);
    acc->uncertain |= e > 0;
    if (!better) return;
    acc->best = acc->terms;
    acc->integer = v;
}

static void acc_arg(Acc *acc, const Node *node, const Lanes *terms, size_t l) {
    if (node->operands[0]->is_real)
        acc_arg_real(acc, node->reduce == REDUCE_ARGMIN ? -terms->v[l] : terms->v[l], terms->e[l]);
    else
        acc_arg_integer(acc, node, terms->i[l], terms->e[l]);
    acc->terms++;
}

void acc_take(Acc *acc, const Node *node, const Lanes *terms, size_t l) {
    acc->flags |= terms->tie[l] & LANE_PAST;
    if (node->reduce >= REDUCE_ARGMAX)
        acc_arg(acc, node, terms, l);
    else if (node->is_real)
        acc_real(acc, node, terms->v[l], terms->e[l]);
    else
        acc_integer(acc, node, terms->i[l], terms->e[l]);
}

void acc_finish(EvalRun *run, const Node *node, const Acc *acc, MemoEntry *entry) {
    double v = acc->sum, e = acc->error;
    entry->flags = acc->flags;
    if (node->reduce >= REDUCE_ARGMAX) {
        bool near = acc->rival > acc->sum - acc->error;
        entry->i = acc->best;
        entry->e = near || acc->uncertain ? INFINITY : 0;
        return;
    }
    if (!node->is_real) {
        entry->i = acc->integer;
        entry->e = acc->uncertain && !acc->decided ? INFINITY : 0;
        return;
    }
    switch (node->reduce) {
    case REDUCE_ADD:
    case REDUCE_MEAN:
        e = sum_error(run, node, acc, &v, &entry->walk);
        break;
    case REDUCE_MUL:
        v = acc_product(node, acc, &e);
        break;
    default:
        e = acc->largest_error;
    }
    entry->v = v;
    entry->e = error_settle(node, v, acc->error == INFINITY ? INFINITY : e, 0); /* inf - inf of what is not known is no exact NaN */
}

/* ---- Terms ---- */

static void multiply(const Node *node, const Lanes *a, const Lanes *b, size_t count, Lanes *out) {
    ANALYZER_ASSUME(a && b && a->e && b->e && out->e && a->tie && b->tie && out->tie);
    ANALYZER_ASSUME(node->is_real ? a->v && b->v && out->v : a->i && b->i && out->i);
    for (size_t l = 0; l < count && node->is_real; l++) {
        double x = a->v[l], y = b->v[l], ex = a->e[l], ey = b->e[l];
        out->v[l] = x * y;
        out->e[l] = product_overflows(x, y) ? INFINITY : product_error(x, ex, y, ey);
    }
    for (size_t l = 0; l < count && !node->is_real; l++) {
        out->i[l] = (int64_t)((uint64_t)a->i[l] * (uint64_t)b->i[l]);
        out->e[l] = a->e[l] + b->e[l];
    }
    for (size_t l = 0; l < count; l++) out->tie[l] = a->tie[l] | b->tie[l];
}

static void copy_lanes(const Lanes *from, size_t count, Lanes *to) {
    memcpy(to->i, from->i, count * sizeof *to->i); /* the same bytes for floats */
    memcpy(to->e, from->e, count * sizeof *to->e);
    memcpy(to->tie, from->tie, count * sizeof *to->tie);
}

/* A factor that the precision rounds, or that products by parts may, makes no exact term. Of a product in index notation only
 * the product is at hand, which is no smaller than its factors where these are whole. */
static void round_factors(const Node *node, const Lanes *const *x, size_t count, Lanes *product) {
    double unit = node->unit < 0x1p-30 ? node->unit : fmax(node->input_unit, 0x1p-20);
    ANALYZER_ASSUME(product->e && x[0] && x[0]->v && (node->operand_count < 2 || (x[1] && x[1]->v)));
    for (size_t l = 0; l < count; l++) {
        double largest = fabs(x[0]->v[l]);
        if (node->operand_count == 2) largest = fmax(largest, fabs(x[1]->v[l]));
        if (product->e[l] == 0 && largest * unit > 1) product->e[l] = node->tiny;
    }
}

/* The terms at `count` points, given the result's and the reduced indices. */
static const Lanes *compute_terms(Work *w, const int64_t *const *result, const int64_t *const *reduced, size_t count) {
    const Node *node = w->node;
    const Lanes *lanes[2] = {NULL, NULL};
    for (unsigned t = 0; t < node->operand_count; t++) {
        Frame *frame = frame_create(w->run, count);
        for (unsigned d = 0; d < DOMAIN_RANK; d++)
            frame->index[d] = node->map[t][d] >= 0 ? result[node->map[t][d]] : reduced[-1 - node->map[t][d]];
        lanes[t] = evaluate_node(frame, node->operands[t]);
    }
    bool rounds = w->run->ev->exact && node->is_real && node->contract;
    if (node->operand_count == 1 && !(rounds && node->input_unit > 0)) return lanes[0];
    Lanes *product = lanes_create(w->run, count);
    if (node->operand_count == 1)
        copy_lanes(lanes[0], count, product);
    else
        multiply(node, lanes[0], lanes[1], count, product);
    if (rounds) round_factors(node, lanes, count, product);
    return product;
}

static void splat(int64_t *array, int64_t value, size_t count) {
    for (size_t l = 0; l < count; l++) array[l] = value;
}

/* Fills the reduced indices of positions [begin, begin + count) of the reduced domain. */
static void fill_positions(const Node *node, int64_t begin, size_t count, int64_t *const *out) {
    int64_t at[DOMAIN_RANK] = {0}, rest = begin;
    for (unsigned r = node->reduced_rank; r-- > 0; rest /= node->reduced[r]) at[r] = rest % node->reduced[r];
    for (size_t l = 0; l < count; l++) {
        for (unsigned r = 0; r < node->reduced_rank; r++) out[r][l] = at[r];
        for (unsigned r = node->reduced_rank; r-- > 0;) {
            if (++at[r] < node->reduced[r]) break;
            at[r] = 0;
        }
    }
}

static void domain_arrays(EvalRun *run, unsigned rank, int64_t **arrays) {
    int64_t *unused = stack_alloc(run, LANES * sizeof(int64_t));
    splat(unused, 0, LANES);
    for (unsigned d = 0; d < DOMAIN_RANK; d++) arrays[d] = d < rank ? stack_alloc(run, LANES * sizeof(int64_t)) : unused;
}

/* What an operator that is wrong on purpose makes of a sum's next term: takes it never, once or twice. */
static int times_taken(EvalFault fault, const Node *node, int64_t at) {
    int64_t n = node->reduced_count;
    if (fault == EVAL_MISSING_TENTH) return at < n - (n + 9) / 10;
    return fault == EVAL_DOUBLED_HALF && at >= n / 2 ? 2 : 1;
}

static void accumulate_wrongly(Work *w, Acc *acc, const Lanes *terms, size_t count, bool one) {
    for (size_t l = 0; l < count; l++) {
        Acc *to = one ? acc : &acc[l];
        int times = times_taken(w->run->ev->fault, w->node, to->terms);
        to->flags |= terms->tie[l] & LANE_PAST;
        if (w->node->is_real) {
            acc_sum(to, w->node, times ? times * terms->v[l] : 0, times * terms->e[l]);
        } else {
            acc_integer(to, w->node, times * terms->i[l], terms->e[l]);
            to->terms++;
        }
    }
}

static void accumulate(Work *w, Acc *acc, const Lanes *terms, size_t count, bool one) {
    if (w->run->ev->fault && w->node->reduce <= REDUCE_MEAN) {
        accumulate_wrongly(w, acc, terms, count, one);
        return;
    }
    if (w->node->is_real && w->node->reduce <= REDUCE_MEAN) {
        acc_sum_lanes(acc, w->node, terms, count, one);
        return;
    }
    for (size_t l = 0; l < count; l++) acc_take(one ? acc : &acc[l], w->node, terms, l);
}

/* One result at a time, its reduced points as lanes. */
static void reduce_by_rows(Work *w) {
    const Node *node = w->node;
    StackMark outer = stack_mark(w->run);
    int64_t *result[DOMAIN_RANK], *reduced[DOMAIN_RANK];
    domain_arrays(w->run, node->shape.rank, result);
    domain_arrays(w->run, node->reduced_rank, reduced);
    for (size_t k = 0; k < w->key_count; k++) {
        for (unsigned d = 0; d < node->shape.rank; d++) splat(result[d], w->key_index[d][k], LANES);
        for (int64_t at = 0; at < node->reduced_count; at += LANES) {
            int64_t left = node->reduced_count - at;
            size_t count = left < LANES ? (size_t)left : LANES;
            StackMark mark = stack_mark(w->run);
            fill_positions(node, at, count, reduced);
            const Lanes *terms = compute_terms(w, (const int64_t *const *)result, (const int64_t *const *)reduced, count);
            accumulate(w, &w->acc[k], terms, count, true);
            stack_release(w->run, mark);
        }
    }
    stack_release(w->run, outer);
}

/* All wanted results as lanes, one reduced point after another. */
static void reduce_by_columns(Work *w) {
    const Node *node = w->node;
    StackMark outer = stack_mark(w->run);
    int64_t *reduced[DOMAIN_RANK], one[DOMAIN_RANK][1], *point[DOMAIN_RANK];
    domain_arrays(w->run, node->reduced_rank, reduced);
    for (unsigned r = 0; r < DOMAIN_RANK; r++) point[r] = one[r];
    for (int64_t at = 0; at < node->reduced_count; at++) {
        fill_positions(node, at, 1, point);
        for (unsigned r = 0; r < node->reduced_rank; r++) splat(reduced[r], one[r][0], w->key_count);
        StackMark mark = stack_mark(w->run);
        const Lanes *terms = compute_terms(w, (const int64_t *const *)w->key_index, (const int64_t *const *)reduced, w->key_count);
        accumulate(w, w->acc, terms, w->key_count, false);
        stack_release(w->run, mark);
    }
    stack_release(w->run, outer);
}

/* ---- The memo ---- */

static int64_t result_key(const Frame *frame, const Shape *shape, size_t lane) {
    int64_t flat = 0;
    for (unsigned d = 0; d < shape->rank; d++) flat = flat * shape->extents[d] + frame->index[d][lane];
    return flat;
}

/* Per lane: the key; and the list of keys that have to be computed. */
static void collect_missing(const Frame *frame, Work *w, Memo *memo, int64_t *keys, int64_t *missing) {
    for (size_t l = 0; l < frame->count; l++) {
        bool found;
        keys[l] = result_key(frame, &w->node->shape, l);
        if (l > 0 && keys[l] == keys[l - 1]) continue;
        MemoEntry *entry = memo_find(memo, keys[l], &found);
        if (found) continue;
        *entry = (MemoEntry){.key = keys[l], .pending = (int32_t)w->key_count};
        memo->count++;
        for (unsigned d = 0; d < w->node->shape.rank; d++) w->key_index[d][w->key_count] = frame->index[d][l];
        w->acc[w->key_count] = acc_identity(w->node);
        if (w->repeats) {
            w->acc[w->key_count].repeats = &w->repeats[w->key_count];
            repeats_begin(&w->repeats[w->key_count], w->node);
        }
        missing[w->key_count++] = keys[l];
    }
}

static void compute_missing(Work *w, Memo *memo, const int64_t *missing) {
    if (w->key_count >= 128 || (w->key_count >= 32 && (int64_t)w->key_count * 4 > w->node->reduced_count))
        reduce_by_columns(w);
    else
        reduce_by_rows(w);
    for (size_t k = 0; k < w->key_count; k++) {
        bool found;
        MemoEntry *entry = memo_find(memo, missing[k], &found);
        acc_finish(w->run, w->node, &w->acc[k], entry);
        entry->pending = -1;
    }
}

Lanes *evaluate_reduction(Frame *frame, const Node *node) {
    EvalRun *run = frame->run;
    Lanes *out = lanes_create(run, frame->count);
    Memo *memo = &run->memos[node->id];
    if (node->is_real && node->reduce == REDUCE_ADD) out->walks = stack_alloc(run, LANES * sizeof(SumWalk));
    StackMark mark = stack_mark(run);
    memo_make_room(memo, LANES);
    Work work = {.run = run, .node = node, .acc = stack_alloc(run, LANES * sizeof(Acc))};
    if (sum_repeats(node)) work.repeats = stack_alloc(run, LANES * sizeof(Repeats));
    int64_t *keys = stack_alloc(run, LANES * sizeof *keys);
    int64_t *missing = stack_alloc(run, LANES * sizeof *missing);
    domain_arrays(run, node->shape.rank, work.key_index);
    collect_missing(frame, &work, memo, keys, missing);
    if (work.key_count) compute_missing(&work, memo, missing);
    MemoEntry *entry = NULL;
    for (size_t l = 0; l < frame->count; l++) {
        bool found;
        if (!entry || keys[l] != keys[l - 1]) entry = memo_find(memo, keys[l], &found);
        if (node->is_real)
            out->v[l] = entry->v;
        else
            out->i[l] = entry->i;
        out->e[l] = entry->e;
        if (out->walks) out->walks[l] = entry->walk;
        out->tie[l] = (uint8_t)((entry->e == INFINITY) | entry->flags);
    }
    stack_release(run, mark);
    return out;
}
