/* Sorts: bitonic, in scratch, of pairs (key, index). The index makes the order total, hence the sort
 * stable; its upper bits are the class of a lane: a number, NaN, absent.
 * One thread that has several lines takes a pair of lanes of all of them at a time, in vectors.
 * source: Batcher's bitonic sort; lines are padded to a power of two with absent lanes. */
#include "analysis/analysis.h"
#include "lower_internal.h"

enum {
    CLASS_SHIFT = 28, /* bits of a tag below its class */
    CLASS_NAN = 1,    /* class of a tag */
    CLASS_ABSENT = 2, /* class of a tag */
    ACROSS_ROWS = 4   /* rows that a processor sorts side by side, at least */
};

typedef struct {
    Lower *x;
    IrOp *op;
    unsigned axis, rank;
    int64_t extents[DIST_MAX_RANK];
    int64_t rows, n, padded; /* padded: a power of two */
    int64_t threads;
    bool across; /* one thread, several lines: lane for lane of all of them, one vector beside the next */
    bool descending;
    const IrType *key, *tag; /* element types in scratch */
    IrValue *keys, *tags;
} Sort;

static IrValue *tag_constant(const Sort *s, IrBuilder *b, int64_t value) {
    return ir_const_int(b, s->tag, value);
}

static IrValue *load(IrBuilder *b, IrValue *memory, IrValue *offset, const IrType *type) {
    IrValue *operands[2] = {memory, offset};
    return ir_result(ir_op_create(b, IR_MEM_LOAD, 2, operands, 1, &type), 0);
}

static void store(IrBuilder *b, IrValue *value, IrValue *memory, IrValue *offset, IrValue *mask) {
    IrValue *operands[4] = {value, memory, offset, mask};
    ir_op_create(b, IR_MEM_STORE, mask ? 4 : 3, operands, 0, NULL);
}

static IrValue *lane_place(const Sort *s, IrBuilder *b, IrValue *row, IrValue *lane) {
    if (s->across) return index_add(b, index_mul_const(b, lane, s->rows), row);
    return index_add(b, index_mul_const(b, row, s->padded), lane);
}

/* Where a lane at tile coordinates lies: lines one after the other, or lane for lane. */
static IrValue *place(const Sort *s, IrBuilder *b, IrValue *const *at) {
    IrValue *row = ir_const_index(b, 0);
    int64_t pitch = 1;
    for (unsigned a = s->rank; a-- > 0;) {
        if (a == s->axis) continue;
        row = index_add(b, row, index_mul_const(b, at[a], pitch));
        pitch *= s->extents[a];
    }
    return lane_place(s, b, row, at[s->axis]);
}

/* Opens `for i in 0..count` shared out to the threads, under `if (i < count)`. The caller ends
 * *body with a yield. */
static IrValue *open_shared_loop(const Sort *s, IrBuilder *b, int64_t count, IrBuilder *body) {
    IrValue *thread = lower_thread(s->x), *none = NULL;
    int64_t rounds = (count + s->threads - 1) / s->threads;
    IrOp *loop = ir_for(b, ir_const_index(b, 0), ir_const_index(b, rounds), ir_const_index(b, 1), 0, &none, NULL);
    IrBuilder in = ir_builder_at_end(loop->regions[0]);
    in.span = b->span;
    IrValue *i = index_mul_const(&in, loop->regions[0]->args[0], s->threads);
    if (thread) i = ir_binary(&in, IR_ADD, i, thread);
    if (rounds * s->threads == count) {
        *body = in;
        return i;
    }
    IrValue *live = index_less(&in, i, ir_const_index(&in, count));
    IrOp *branch = ir_op_create(&in, IR_IF, 1, &live, 0, NULL);
    *body = ir_builder_at_end(branch->regions[0]);
    body->span = b->span;
    ir_yield(&in, 0, NULL);
    return i;
}

/* ---- Filling ---- */

static IrValue *class_of(const Sort *s, IrBuilder *b, IrValue *key, IrValue *present, IrValue *lane) {
    IrValue *tag = ir_cast(b, lane, s->tag);
    IrValue *nan = tag_constant(s, b, (int64_t)CLASS_NAN << CLASS_SHIFT);
    IrValue *absent = tag_constant(s, b, (int64_t)CLASS_ABSENT << CLASS_SHIFT);
    IrValue *class = tag_constant(s, b, 0);
    if (dtype_is_float(s->key->dtype)) class = ir_select(b, ir_binary(b, IR_NE, key, key), nan, class);
    if (present) class = ir_select(b, present, class, absent);
    return ir_binary(b, IR_OR, tag, class);
}

static void put_lanes(Sort *s) {
    Lower *x = s->x;
    IrValue *tile = s->op->operands[0], *index[DIST_MAX_DIMS], *at[DIST_MAX_RANK];
    Dist dist = dist_of(tile->type);
    IrValue *mask = owner_mask(x, &dist);
    IrBuilder inner, saved;
    IrOp *map = dist_map(x, &dist, 1, DTYPE_NONE, &inner, index);
    IrValue *key = rep_get(x, &inner, lower_rep(x, tile), &dist, index, 1);
    saved = x->b;
    x->b = ir_builder_before(map);
    IrValue *present = presence_mask(x, &inner, tile, &dist, index, NULL);
    x->b = saved;
    for (unsigned a = 0; a < s->rank; a++) {
        at[a] = coordinate(x, &inner, &dist, a, index);
        if (dist.padded[a] != dist.extents[a])
            mask = mask_and(&inner, mask, index_less(&inner, at[a], ir_const_index(&inner, dist.extents[a])));
    }
    IrValue *offset = place(s, &inner, at);
    IrValue *tag = class_of(s, &inner, key, present, at[s->axis]);
    store(&inner, key, s->keys, offset, mask);
    store(&inner, tag, s->tags, offset, mask);
    ir_yield(&inner, 0, NULL);
}

/* The rest of each line counts as absent. */
static void put_padding(const Sort *s) {
    int64_t rest = s->padded - s->n;
    IrBuilder in, *b = &s->x->b;
    if (!rest) return;
    IrValue *i = open_shared_loop(s, b, s->rows * rest, &in);
    IrValue *row = ir_binary(&in, IR_FLOORDIV, i, ir_const_index(&in, rest));
    IrValue *lane = ir_binary(&in, IR_MOD, i, ir_const_index(&in, rest));
    lane = ir_binary(&in, IR_ADD, lane, ir_const_index(&in, s->n));
    IrValue *offset = lane_place(s, &in, row, lane);
    IrValue *zero = dtype_is_float(s->key->dtype) ? ir_const_float(&in, s->key, 0) : ir_const_int(&in, s->key, 0);
    IrValue *absent = tag_constant(s, &in, (int64_t)CLASS_ABSENT << CLASS_SHIFT);
    store(&in, zero, s->keys, offset, NULL);
    store(&in, ir_binary(&in, IR_OR, ir_cast(&in, lane, s->tag), absent), s->tags, offset, NULL);
    ir_yield(&in, 0, NULL);
}

/* ---- Sorting ---- */

typedef struct {
    IrValue *key, *tag;
} Pair;

static IrValue *comparable(const Sort *s, IrBuilder *b, IrValue *key) {
    Dtype t = s->key->dtype;
    if (!dtype_is_float(t) || dtype_size(t) >= 4) return key;
    return ir_cast(b, key, ir_type_scalar(s->x->module, DTYPE_F32));
}

/* Does y come before x? */
static IrValue *precedes(const Sort *s, IrBuilder *b, Pair x, Pair y) {
    IrValue *shift = tag_constant(s, b, CLASS_SHIFT);
    IrValue *same = ir_binary(b, IR_EQ, ir_binary(b, IR_SHR, x.tag, shift), ir_binary(b, IR_SHR, y.tag, shift));
    IrValue *kx = comparable(s, b, x.key), *ky = comparable(s, b, y.key);
    if (s->descending) {
        IrValue *swap = kx;
        kx = ky;
        ky = swap;
    }
    IrValue *numbers = ir_binary(b, IR_LT, x.tag, tag_constant(s, b, (int64_t)CLASS_NAN << CLASS_SHIFT));
    same = ir_binary(b, IR_AND, same, numbers);
    IrValue *before = ir_binary(b, IR_AND, same, ir_binary(b, IR_LT, ky, kx));
    IrValue *after = ir_binary(b, IR_AND, same, ir_binary(b, IR_LT, kx, ky));
    IrValue *earlier = ir_binary(b, IR_LT, y.tag, x.tag);
    return ir_binary(b, IR_OR, before, ir_binary(b, IR_AND, earlier, ir_unary(b, IR_NOT, after)));
}

static Pair load_pair(const Sort *s, IrBuilder *b, IrValue *offset) {
    return (Pair){load(b, s->keys, offset, s->key), load(b, s->tags, offset, s->tag)};
}

static void store_pair(const Sort *s, IrBuilder *b, Pair p, IrValue *offset, IrValue *mask) {
    store(b, p.key, s->keys, offset, mask);
    store(b, p.tag, s->tags, offset, mask);
}

/* One step: lanes `distance` apart in blocks of `block` lanes, sorted up and down in turn. */
static void compare_step(const Sort *s, IrBuilder *b, IrValue *block, IrValue *distance) {
    IrBuilder in;
    IrValue *i = open_shared_loop(s, b, s->rows * (s->padded / 2), &in);
    IrValue *low = ir_binary(&in, IR_AND, i, ir_binary(&in, IR_SUB, distance, ir_const_index(&in, 1)));
    /* Lines are a power of two apart, so pairs are numbered over all of them at once. */
    IrValue *first = ir_binary(&in, IR_SUB, index_mul_const(&in, i, 2), low);
    IrValue *second = ir_binary(&in, IR_ADD, first, distance);
    IrValue *lane = ir_binary(&in, IR_AND, first, ir_const_index(&in, s->padded - 1));
    IrValue *up = ir_binary(&in, IR_EQ, ir_binary(&in, IR_AND, lane, block), ir_const_index(&in, 0));
    Pair x = load_pair(s, &in, first), y = load_pair(s, &in, second);
    IrValue *swap = ir_binary(&in, IR_EQ, precedes(s, &in, x, y), up);
    store_pair(s, &in, y, first, swap);
    store_pair(s, &in, x, second, swap);
    ir_yield(&in, 0, NULL);
}

/* The same step for all lines at once. The earlier of a pair goes where its block's direction wants it, so that the lines'
 * loop holds no condition but the choice itself. */
static void compare_step_across(const Sort *s, IrBuilder *b, IrValue *block, IrValue *distance) {
    IrBuilder in;
    IrValue *i = open_shared_loop(s, b, s->padded / 2, &in);
    IrValue *low = ir_binary(&in, IR_AND, i, ir_binary(&in, IR_SUB, distance, ir_const_index(&in, 1)));
    IrValue *near = ir_binary(&in, IR_SUB, index_mul_const(&in, i, 2), low), *far = ir_binary(&in, IR_ADD, near, distance);
    IrValue *up = ir_binary(&in, IR_EQ, ir_binary(&in, IR_AND, near, block), ir_const_index(&in, 0));
    IrValue *first = index_mul_const(&in, ir_select(&in, up, near, far), s->rows);
    IrValue *second = index_mul_const(&in, ir_select(&in, up, far, near), s->rows);
    IrOp *map = ir_map(&in, 1, &s->rows, 0, NULL);
    ir_attr_set_bool(map, "vector", true);
    IrBuilder line = ir_builder_at_end(map->regions[0]);
    line.span = b->span;
    IrValue *row = map->regions[0]->args[0], *at[2] = {index_add(&line, first, row), index_add(&line, second, row)};
    Pair x = load_pair(s, &line, at[0]), y = load_pair(s, &line, at[1]);
    IrValue *swap = precedes(s, &line, x, y);
    Pair earlier = {ir_select(&line, swap, y.key, x.key), ir_select(&line, swap, y.tag, x.tag)};
    Pair later = {ir_select(&line, swap, x.key, y.key), ir_select(&line, swap, x.tag, y.tag)};
    store_pair(s, &line, earlier, at[0], NULL);
    store_pair(s, &line, later, at[1], NULL);
    ir_yield(&line, 0, NULL);
    ir_yield(&in, 0, NULL);
}

static void sort_lines(const Sort *s) {
    IrBuilder *b = &s->x->b;
    IrValue *none = NULL, *zero = ir_const_index(b, 0), *one = ir_const_index(b, 1);
    int64_t levels = __builtin_ctzll((unsigned long long)s->padded);
    IrOp *outer = ir_for(b, zero, ir_const_index(b, levels), one, 0, &none, NULL);
    IrBuilder out = ir_builder_at_end(outer->regions[0]);
    out.span = b->span;
    IrValue *level = outer->regions[0]->args[0];
    IrValue *block = ir_binary(&out, IR_SHL, ir_const_index(&out, 2), level);
    IrOp *inner = ir_for(&out, zero, ir_binary(&out, IR_ADD, level, one), one, 0, &none, NULL);
    IrBuilder in = ir_builder_at_end(inner->regions[0]);
    in.span = b->span;
    IrValue *back = ir_binary(&in, IR_SUB, level, inner->regions[0]->args[0]);
    IrValue *distance = ir_binary(&in, IR_SHL, ir_const_index(&in, 1), back);
    if (s->across)
        compare_step_across(s, &in, block, distance);
    else
        compare_step(s, &in, block, distance);
    build_barrier(&in, IR_SCOPE_BLOCK);
    ir_yield(&in, 0, NULL);
    ir_yield(&out, 0, NULL);
}

/* ---- Results ---- */

static void read_result(const Sort *s, unsigned number) {
    Lower *x = s->x;
    IrValue *result = &s->op->results[number];
    ResultMap r;
    if (!result->uses) return;
    result_map_open(x, result, &r);
    IrBuilder *b = &r.inner;
    for (unsigned a = 0; a < s->rank; a++)
        if (r.dist.padded[a] != r.dist.extents[a]) {
            IrValue *ok = index_less(b, r.at[a], ir_const_index(b, r.dist.extents[a]));
            r.at[a] = ir_select(b, ok, r.at[a], ir_const_index(b, 0));
        }
    IrValue *offset = place(s, b, r.at), *v;
    if (number) {
        v = load(b, s->tags, offset, s->tag);
        v = ir_binary(b, IR_AND, v, tag_constant(s, b, ((int64_t)1 << CLASS_SHIFT) - 1));
        v = ir_cast(b, v, ir_type_scalar(x->module, DTYPE_I64));
    } else {
        v = load(b, s->keys, offset, s->key);
    }
    result_map_close(x, result, &r, v);
}

static Sort sort_of(Lower *x, IrOp *op) {
    const IrType *t = op->operands[0]->type;
    Sort s = {.x = x, .op = op, .rank = t->rank, .rows = 1, .padded = 1};
    s.axis = (unsigned)ir_attr_int(op, "axis", 0);
    s.descending = ir_attr_bool(op, "descending");
    for (unsigned a = 0; a < t->rank; a++) {
        s.extents[a] = ir_type_extent(t, a);
        if (a != s.axis) s.rows *= s.extents[a];
    }
    s.n = s.extents[s.axis];
    while (s.padded < s.n) s.padded *= 2;
    s.threads = x->gpu ? 32 * x->num_warps : 1;
    s.across = !x->gpu && s.rows >= ACROSS_ROWS;
    s.key = ir_type_scalar(x->module, t->dtype);
    s.tag = ir_type_scalar(x->module, DTYPE_I32);
    return s;
}

void lower_sort(Lower *x, IrOp *op) {
    Sort s = sort_of(x, op);
    if (!s.n || !s.rows) {
        IrValue *zero = ir_const_int(&x->b, ir_type_scalar(x->module, DTYPE_I64), 0);
        lower_bind_scalar(x, &op->results[1], zero);
        lower_bind_scalar(x, &op->results[0], ir_cast(&x->b, zero, s.key));
        return;
    }
    scratch_begin(x);
    s.keys = scratch_array(x, s.key->dtype, s.rows * s.padded, "keys");
    s.tags = scratch_array(x, DTYPE_I32, s.rows * s.padded, "tags");
    put_lanes(&s);
    put_padding(&s);
    lower_barrier(x);
    sort_lines(&s);
    for (unsigned i = 0; i < 2; i++) read_result(&s, i);
}
