/* Scans and sorts: an element depends on its whole row, so a row is worked out at once and kept. */
#include "evaluate_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_ELEMENTS = 1 << 22, CACHE_ROWS = 1 << 18 };

/* ---- The rows kept ---- */

static void cache_clear(RowCache *cache) {
    for (size_t i = 0; i < cache->count; i++) free(cache->rows[i].memory);
    cache->count = 0;
    cache->elements = 0;
    for (size_t i = 0; i < cache->memo.capacity; i++) cache->memo.entries[i].key = -1;
    cache->memo.count = 0;
}

void row_caches_destroy(EvalRun *run) {
    for (unsigned i = 0; i < run->ev->node_count; i++) {
        cache_clear(&run->caches[i]);
        free(run->caches[i].rows);
        free(run->caches[i].memo.entries);
    }
    free(run->caches);
}

static Row row_create(int64_t n) {
    size_t count = (size_t)n + 1, wide = count * sizeof(double);
    char *memory = eval_resize(NULL, 3 * wide + 2 * count);
    Row row = {.memory = memory, .v = (double *)(void *)memory};
    row.e = (double *)(void *)(memory + wide);
    row.index = (int64_t *)(void *)(memory + 2 * wide);
    row.tie = (uint8_t *)memory + 3 * wide;
    row.index_tie = row.tie + count;
    return row;
}

static Row *cache_add(RowCache *cache, int64_t key, int64_t n) {
    if (cache->elements + n > CACHE_ELEMENTS || cache->count >= CACHE_ROWS) cache_clear(cache);
    if (cache->count == cache->capacity) {
        cache->capacity = cache->capacity ? 2 * cache->capacity : 64;
        cache->rows = eval_resize(cache->rows, cache->capacity * sizeof *cache->rows);
    }
    bool found;
    memo_make_room(&cache->memo, 1);
    MemoEntry *entry = memo_find(&cache->memo, key, &found);
    *entry = (MemoEntry){.key = key, .i = (int64_t)cache->count, .pending = -1};
    cache->memo.count++;
    cache->elements += n;
    cache->rows[cache->count] = row_create(n);
    return &cache->rows[cache->count++];
}

static const Row *cache_find(RowCache *cache, int64_t key) {
    bool found = false;
    const MemoEntry *entry = cache->memo.capacity ? memo_find(&cache->memo, key, &found) : NULL;
    return found ? &cache->rows[entry->i] : NULL;
}

/* ---- Reading a row of the operand ---- */

typedef struct {
    EvalRun *run;
    const Node *node;
    int64_t at[VERIFY_MAX_RANK]; /* of the row; the axis's is not looked at */
    int64_t n;
} RowWork;

/* Positions [begin, begin + count) of an operand's row, `reverse`: counted from its end. */
static const Lanes *read_row(const RowWork *w, unsigned operand, int64_t begin, size_t count, bool reverse) {
    Frame *frame = frame_create(w->run, count);
    int64_t *index[VERIFY_MAX_RANK];
    index_arrays(w->run, w->node->shape.rank, index);
    for (unsigned d = 0; d < w->node->shape.rank; d++) {
        for (size_t l = 0; l < count; l++) {
            int64_t along = begin + (int64_t)l;
            index[d][l] = d != w->node->axis ? w->at[d] : reverse ? w->n - 1 - along : along;
        }
        frame->index[d] = index[d];
    }
    return evaluate_node(frame, w->node->operands[operand]);
}

/* ---- Scan ---- */

static void scan_row(const RowWork *w, Row *row) {
    const Node *node = w->node;
    Acc acc = acc_identity(node);
    Repeats repeats;
    if (sum_repeats(node)) {
        repeats_begin(&repeats, node);
        acc.repeats = &repeats;
    }
    for (int64_t begin = 0; begin < w->n; begin += LANES) {
        size_t count = w->n - begin < LANES ? (size_t)(w->n - begin) : LANES;
        StackMark mark = stack_mark(w->run);
        const Lanes *terms = read_row(w, 0, begin, count, node->reverse);
        for (size_t l = 0; l < count; l++) {
            int64_t along = begin + (int64_t)l, at = node->reverse ? w->n - 1 - along : along;
            MemoEntry done;
            if (!node->exclusive) acc_take(&acc, node, terms, l);
            acc_finish(w->run, node, &acc, &done);
            if (node->exclusive) acc_take(&acc, node, terms, l);
            row->i[at] = done.i; /* the same bytes for floats */
            row->e[at] = done.e;
            row->tie[at] = (uint8_t)((done.e == INFINITY ? LANE_TIE : 0) | done.flags);
        }
        stack_release(w->run, mark);
    }
}

/* ---- Linear recurrences ---- */

/* What is known of h = a * h + b behind some steps, in any order of combining pairs (docs/notes/001-error-bounds.md). */
typedef struct {
    double h, error;     /* of what a and b are off by */
    double magnitude;    /* the same of absolute values, less infinite ones */
    double worst;        /* magnitudes of all steps, each brought here by the |a| behind it: where each step's rounding ends */
    double run, squares; /* the same of the last run of equal pairs, and of the runs before the sum of squares: steps of a random walk */
    double flushed;      /* halves of the smallest denormal, of products of a that meet the largest magnitude so far */
    double most, span;   /* that magnitude; the largest product of neighbouring |a| that ends here */
    double since;        /* the least that |a| multiply to since h is infinite */
    double a, b;
    bool begun, fractional, lost; /* lost: a product of neighbours, or a partial h, is beyond the largest number, in some order */
    uint8_t flags;
} Recurrence;

/* One step, of a lane of a (null: of a factor 0, as what it begins from is) and of b. */
static void recur(Recurrence *r, const Node *node, const Lanes *bs, const Lanes *as, size_t l) {
    double a = as ? as->v[l] : 0, b = bs->v[l], size = fabs(a), ea = as ? as->e[l] : 0;
    bool equal = r->begun && a == r->a && b == r->b;
    double magnitude = size * r->magnitude + (isinf(b) ? 0 : fabs(b));
    r->flags |= ((as ? as->tie[l] : 0) | bs->tie[l]) & LANE_PAST;
    r->error = product_error(a, ea, r->h, r->error) + bs->e[l];
    r->since = isinf(r->h) ? r->since * fmax(size - ea, 0) : 1;
    r->h = a * r->h + b;
    r->worst = r->begun ? size * r->worst + magnitude : 0;
    r->squares = size * size * (equal ? r->squares : r->squares + r->run * r->run);
    r->run = equal ? size * r->run + magnitude : magnitude;
    r->flushed = size * r->flushed + (r->begun ? node->tiny * (2 + r->most) : 0);
    r->most = fmax(r->most, magnitude);
    r->span = size * fmax(r->span, 1);
    r->magnitude = magnitude;
    r->lost |= fmax(r->span, r->most) > node->largest * (1 + node->unit) || (isinf(r->h) && r->since < 2 * node->tiny);
    r->fractional |= a != rint(a) || b != rint(b);
    r->a = a, r->b = b, r->begun = true;
}

static double recurrence_bound(const Evaluator *ev, const Node *node, const Recurrence *r) {
    double u = BOUND_SLACK * node->unit + 0x1p-53;
    if (isnan(r->h)) return r->error == INFINITY ? INFINITY : 0; /* 0 * inf of what may be another number is no certain NaN */
    if (r->lost) return INFINITY;
    bool exact = r->error == 0 && !r->fractional && fmax(r->magnitude, r->span) * node->unit <= 1;
    if (ev->exact && exact && fmax(r->most, 1) * node->unit <= 1) return 0;
    double rounding = fmin(3 * r->worst, 8 * r->magnitude + 4 * sqrt(r->squares + r->run * r->run));
    return error_settle(node, r->h, r->error + u * rounding + r->flushed, 0);
}

static void linear_row(const RowWork *w, Row *row) {
    const Node *node = w->node;
    Recurrence r = {0};
    if (node->operand_count > 2) recur(&r, node, read_row(w, 2, 0, 1, false), NULL, 0);
    for (int64_t begin = 0; begin < w->n; begin += LANES) {
        size_t count = w->n - begin < LANES ? (size_t)(w->n - begin) : LANES;
        StackMark mark = stack_mark(w->run);
        const Lanes *b = read_row(w, 0, begin, count, node->reverse), *a = read_row(w, 1, begin, count, node->reverse);
        for (size_t l = 0; l < count; l++) {
            int64_t along = begin + (int64_t)l, at = node->reverse ? w->n - 1 - along : along;
            if (!node->exclusive) recur(&r, node, b, a, l);
            row->v[at] = r.h;
            row->e[at] = recurrence_bound(w->run->ev, node, &r);
            row->tie[at] = (uint8_t)((row->e[at] == INFINITY ? LANE_TIE : 0) | r.flags);
            if (node->exclusive) recur(&r, node, b, a, l);
        }
        stack_release(w->run, mark);
    }
}

/* ---- Sort ---- */

typedef struct {
    union {
        double v;
        int64_t i;
    };
    double e;
    int64_t index;
    uint8_t flags;
} Item;

static int by_real(const Item *x, const Item *y) {
    if (isnan(x->v) || isnan(y->v)) return isnan(x->v) - isnan(y->v);
    return (x->v > y->v) - (x->v < y->v);
}

static int by_signed(const Item *x, const Item *y) {
    return (x->i > y->i) - (x->i < y->i);
}

static int by_unsigned(const Item *x, const Item *y) {
    uint64_t a = (uint64_t)x->i, b = (uint64_t)y->i;
    return (a > b) - (a < b);
}

/* Stable by bottom-up merging; descending keeps NaN last and equals in order. */
static void merge_sort(Item *items, Item *other, size_t n, int (*order)(const Item *, const Item *), bool descending, bool is_real) {
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            size_t mid = lo + width < n ? lo + width : n, hi = mid + width < n ? mid + width : n;
            size_t a = lo, b = mid;
            for (size_t to = lo; to < hi; to++) {
                int c = a < mid && b < hi ? order(&items[a], &items[b]) : 0;
                bool nan = c && is_real && (isnan(items[a].v) || isnan(items[b].v));
                bool second = a == mid || (b < hi && (descending && !nan ? c < 0 : c > 0));
                other[to] = second ? items[b++] : items[a++];
            }
        }
        memcpy(items, other, n * sizeof *items);
    }
}

/* Neighbours whose intervals meet may stand in any order: each place then holds some value of the
 * run of such neighbours, off by at most the largest error among them, and its index is undecided.
 */
static void settle_run(const Item *items, size_t begin, size_t end, Row *row) {
    double largest = 0;
    for (size_t k = begin; k < end; k++) largest = fmax(largest, items[k].e);
    for (size_t k = begin; k < end; k++) {
        row->i[k] = items[k].i; /* the same bytes for floats */
        row->index[k] = items[k].index;
        row->e[k] = largest;
        row->tie[k] = items[k].flags | (largest == INFINITY ? LANE_TIE : 0);
        row->index_tie[k] = (items[k].flags & LANE_PAST) | (end - begin > 1 && largest > 0 ? LANE_TIE : 0);
    }
}

static bool meets(const Node *node, const Item *a, double reach, const Item *b) {
    if (a->e == 0 && b->e == 0 && reach == 0) return false;
    if (!node->operands[0]->is_real) return true;
    return fabs(a->v - b->v) <= reach + b->e || !isfinite(reach + b->e);
}

static void settle_items(const Node *node, const Item *items, size_t n, Row *row) {
    for (size_t begin = 0, end; begin < n; begin = end) {
        double reach = items[begin].e;
        for (end = begin + 1; end < n && meets(node, &items[end - 1], reach, &items[end]); end++) reach = fmax(reach, items[end].e);
        settle_run(items, begin, end, row);
    }
}

static void sort_row(const RowWork *w, Row *row) {
    const Node *node = w->node, *from = node->operands[0];
    size_t n = (size_t)w->n;
    Item *items = eval_resize(NULL, (2 * n + 1) * sizeof *items);
    for (int64_t begin = 0; begin < w->n; begin += LANES) {
        size_t count = w->n - begin < LANES ? (size_t)(w->n - begin) : LANES;
        StackMark mark = stack_mark(w->run);
        const Lanes *read = read_row(w, 0, begin, count, false);
        for (size_t l = 0; l < count; l++)
            items[begin + (int64_t)l] = (Item){.i = read->i[l], .e = read->e[l], .index = begin + (int64_t)l, .flags = read->tie[l]};
        stack_release(w->run, mark);
    }
    merge_sort(items, items + n, n,
               from->is_real                        ? by_real
               : dtype_is_signed(from->shape.dtype) ? by_signed
                                                    : by_unsigned,
               node->reverse, from->is_real);
    settle_items(node, items, n, row);
    free(items);
}

/* ---- Frames ---- */

static int64_t row_key(const Frame *frame, const Node *node, size_t l) {
    int64_t key = 0;
    for (unsigned d = 0; d < node->shape.rank; d++)
        if (d != node->axis) key = key * node->shape.extents[d] + frame->index[d][l];
    return key;
}

static const Row *row_of(Frame *frame, const Node *node, size_t l, void (*work)(const RowWork *, Row *)) {
    int64_t key = row_key(frame, node, l);
    const Row *known = cache_find(&frame->run->caches[node->rows], key);
    if (known) return known;
    RowWork w = {.run = frame->run, .node = node, .n = node->shape.extents[node->axis]};
    for (unsigned d = 0; d < node->shape.rank; d++) w.at[d] = frame->index[d][l];
    Row *row = cache_add(&frame->run->caches[node->rows], key, w.n);
    work(&w, row);
    return row;
}

static const Lanes *read_rows(Frame *frame, const Node *node, void (*work)(const RowWork *, Row *)) {
    Lanes *out = lanes_create(frame->run, frame->count);
    for (size_t l = 0; l < frame->count; l++) {
        const Row *row = row_of(frame, node, l, work);
        int64_t at = frame->index[node->axis][l];
        out->i[l] = node->second ? row->index[at] : row->i[at]; /* the same bytes for floats */
        out->tie[l] = node->second ? row->index_tie[at] : row->tie[at];
        bool undecided = out->tie[l] & LANE_TIE;
        out->e[l] = !node->second ? row->e[at] : undecided ? INFINITY : 0;
    }
    return out;
}

const Lanes *evaluate_scan(Frame *frame, const Node *node) {
    return read_rows(frame, node, node->operand_count > 1 ? linear_row : scan_row);
}

const Lanes *evaluate_sort(Frame *frame, const Node *node) {
    return read_rows(frame, node, sort_row);
}
