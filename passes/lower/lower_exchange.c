/* Tiles through memory that all threads of a block read: what moves lanes between threads at
 * computed coordinates (docs/notes/002-tile-lowering.md, "Effects and barriers").
 *
 * On a GPU a tile is put into scratch in shared memory, between two barriers, and read back at any
 * coordinate; the scratch of one op is free for the next. A CPU reads the tile's fragment in place,
 * unless the op wants memory to work in. */
#include "analysis/analysis.h"
#include "gpu.h"
#include "lower_internal.h"

#include <string.h>

/* ---- Chains of reshapes ---- */

/* A tile that is reshaped, transposed and reshaped again goes through memory once: the last reshape computes where its lanes are in the
 * first one's operand, and those between have no lanes of their own. */
static const IrOp *only_user(const IrOp *op, IrOpcode opcode) {
    const IrUse *u = op->results[0].uses;
    return u && !u->next && u->op->opcode == opcode && u->op->block == op->block ? u->op : NULL;
}

bool is_passed_on(const IrOp *op) {
    if (op && op->opcode == IR_TILE_TRANSPOSE) op = op->operands[0]->def;
    const IrOp *transposed = op && op->opcode == IR_TILE_RESHAPE ? only_user(op, IR_TILE_TRANSPOSE) : NULL;
    return transposed && only_user(transposed, IR_TILE_RESHAPE);
}

/* The tile that is put in memory for `v`. */
static IrValue *chain_source(IrValue *v) {
    while (is_passed_on(v->def)) v = v->def->operands[0];
    return v;
}

/* From a lane of the result to the one of its operand. */
static void source_lane(const IrValue *result, int64_t *at) {
    const IrOp *op = result->def->opcode == IR_TILE_RESHAPE ? result->def : NULL; /* a conversion keeps its lanes */
    while (op) {
        const IrType *from = op->operands[0]->type, *to = op->results[0].type;
        int64_t flat = 0, old[DIST_MAX_RANK];
        /* NOLINTBEGIN(*uninitialized.Assign,*UndefinedBinaryOperatorResult): `at` has a number for each axis */
        for (unsigned a = 0; a < to->rank; a++) flat = flat * ir_type_extent(to, a) + at[a];
        for (unsigned a = from->rank; a-- > 0; flat /= ir_type_extent(from, a)) old[a] = a ? flat % ir_type_extent(from, a) : flat;
        for (unsigned a = 0; op->opcode == IR_TILE_TRANSPOSE && a < from->rank; a++) old[ir_attr(op, "perm")->ints[a]] = at[a];
        /* NOLINTEND(*uninitialized.Assign,*UndefinedBinaryOperatorResult) */
        memcpy(at, old, from->rank * sizeof *at);
        op = is_passed_on(op->operands[0]->def) ? op->operands[0]->def : NULL;
    }
}

/* ---- Lanes of a tile by coordinate ---- */

IrValue *coordinate(Lower *x, IrBuilder *b, const Dist *dist, unsigned axis, IrValue *const *index) {
    IrValue *at = index_add(b, dist_base(x, dist, axis), dist_local(b, dist, axis, index));
    return at ? at : ir_const_index(b, 0);
}

static void set_pitches(Exchange *e, const Dist *dist, int64_t pad) {
    int64_t elements = 1;
    for (unsigned a = e->rank; a-- > 0;) {
        e->pitch[a] = elements;
        elements *= dist->padded[a];
        if (a + 1 == e->rank) elements += pad;
    }
    e->elements = elements;
}

/* ---- Banks of shared memory ---- */

static void first_lane(const Dist *d, int64_t lane, int64_t *at) {
    for (unsigned a = 0; a < d->rank; a++) at[a] = 0;
    for (unsigned i = 0; i < d->term_count; i++)
        if (d->terms[i].source == DIST_LANE) at[d->terms[i].axis] += (lane >> d->terms[i].shift & d->terms[i].mask) * d->terms[i].stride;
}

/* Passes that the memory makes over an access of one element a lane. */
static int64_t passes_of(const Exchange *e, const Dist *dist, const IrValue *read, int64_t size) {
    int64_t words[WARP], most = 0;
    for (int64_t lane = 0; lane < WARP; lane++) {
        int64_t at[DIST_MAX_RANK], offset = 0, same = 1;
        first_lane(dist, lane, at);
        if (read) source_lane(read, at);
        /* NOLINTNEXTLINE(*UndefinedBinaryOperatorResult): first_lane has set them */
        for (unsigned a = 0; a < e->rank; a++) offset += at[a] * e->pitch[a];
        words[lane] = offset * size / BANK_BYTES;
        bool known = false;
        for (int64_t i = 0; i < lane; i++) {
            known = known || words[i] == words[lane];
            bool first = words[i] % BANKS == words[lane] % BANKS;
            for (int64_t k = 0; k < i; k++) first = first && words[k] != words[i];
            same += first;
        }
        if (!known && same > most) most = same;
    }
    return most;
}

/* Rows so far apart, where there is room, that lanes of a warp meet in as few banks as can be, in writing and, where the reader is known, in
 * reading. */
static void choose_pitches(const Lower *x, Exchange *e, const Dist *dist, const IrValue *read, int64_t size) {
    static const int64_t pads[] = {1, 2, 4, 8, 16};
    int64_t last = e->rank ? dist->padded[e->rank - 1] : 0, best = 0;
    /* Columns of a matrix of 2^k columns would lie in one bank. */
    int64_t chosen = x->gpu && e->rank > 1 && last % BANKS == 0;
    for (unsigned i = 0; read && x->gpu && e->rank > 1 && i <= sizeof pads / sizeof *pads; i++) {
        int64_t pad = i ? pads[i - 1] : chosen;
        Dist to = dist_of(read->type);
        set_pitches(e, dist, pad);
        if (i && x->shared_bytes + e->elements * size > x->ctx->target->shared_bytes_block) continue;
        int64_t count = passes_of(e, dist, NULL, size) + passes_of(e, &to, read, size);
        if (best && count >= best) continue;
        best = count, chosen = i ? pad : chosen;
    }
    set_pitches(e, dist, chosen);
}

/* The element of a tile in a map over its own distribution, `fill` (may be null) where absent. */
static IrValue *own_lane(Lower *x, IrBuilder *inner, IrOp *map, IrValue *tile, const Dist *dist, IrValue *const *index, IrValue *fill) {
    IrValue *value = rep_get(x, inner, lower_rep(x, tile), dist, index, 1);
    if (!fill) return value;
    const IrAttr *constant = fill->def && fill->def->opcode == IR_CONST ? ir_attr(fill->def, "value") : NULL;
    bool known = constant && constant->kind == IR_ATTR_FLOAT && dtype_is_float(tile->type->dtype);
    if (!x->present_as && known && absent_holds(x, tile, ~0u, constant->number)) return value;
    IrBuilder saved = x->b;
    x->b = ir_builder_before(map);
    x->b.span = saved.span;
    IrValue *mask = presence_mask(x, inner, x->present_as ? x->present_as : tile, dist, index, NULL);
    x->b = saved;
    return mask ? ir_select(inner, mask, value, fill) : value;
}

/* Elements of less than a word that a thread has side by side go together; 1: they do not, or are words. */
static int64_t words_of(Lower *x, const Exchange *e, IrValue *tile, const Dist *dist) {
    int64_t size = (int64_t)dtype_size(tile->type->dtype), width = x->gpu && e->rank ? dist_vector(dist, e->rank - 1, 16 / size) : 1;
    if (size >= BANK_BYTES || tile->type->dtype == DTYPE_BOOL || !rep_is_own(lower_rep(x, tile), dist)) return 1;
    for (unsigned a = 0; a + 1 < e->rank; a++)
        while (e->pitch[a] % width) width /= 2;
    return width;
}

static void put_in_memory(Lower *x, Exchange *e, IrValue *tile, const Dist *dist, IrValue *fill) {
    IrValue *index[DIST_MAX_DIMS], *owner = owner_mask(x, dist);
    IrBuilder inner;
    e->memory = scratch_array(x, tile->type->dtype, e->elements, "lanes");
    int64_t width = fill || e->first || e->own ? 1 : words_of(x, e, tile, dist);
    IrOp *map = dist_map(x, dist, width, DTYPE_NONE, &inner, index);
    IrValue *offset = ir_const_index(&inner, e->first);
    Dist places = e->own ? dist_in_block(dist) : *dist;
    for (unsigned a = 0; a < e->rank; a++) {
        IrValue *at = coordinate(x, &inner, &places, a, index);
        offset = index_add(&inner, offset, index_mul_const(&inner, at, e->pitch[a]));
    }
    IrValue *value =
        width > 1 ? rep_get(x, &inner, lower_rep(x, tile), dist, index, width) : own_lane(x, &inner, map, tile, dist, index, fill);
    IrValue *operands[4] = {value, e->memory, offset, owner};
    IrOp *store = ir_op_create(&inner, IR_MEM_STORE, owner ? 4 : 3, operands, 0, NULL);
    if (width > 1) ir_attr_set_int(store, "align", width * (int64_t)dtype_size(tile->type->dtype));
    ir_yield(&inner, 0, NULL);
}

static IrValue *filled_frag(Lower *x, IrValue *tile, const Dist *dist, IrValue *fill) {
    IrValue *index[DIST_MAX_DIMS];
    IrBuilder inner;
    if (!fill) return rep_materialise(x, lower_rep(x, tile), dist, tile->type->dtype);
    IrOp *map = dist_map(x, dist, 1, tile->type->dtype, &inner, index);
    IrValue *value = own_lane(x, &inner, map, tile, dist, index, fill);
    ir_yield(&inner, 1, &value);
    return ir_result(map, 0);
}

/* read: the result whose lanes are read, or null. */
static Exchange put(Lower *x, IrValue *tile, IrValue *fill, bool in_memory, const IrValue *read) {
    Exchange e = {.rank = tile->type->rank, .type = ir_type_scalar(x->module, tile->type->dtype)};
    Rep *rep = lower_rep(x, tile);
    Dist dist = dist_of(tile->type);
    if (!rep->is_frag && !fill && !in_memory) {
        e.scalar = rep->value;
        return e;
    }
    choose_pitches(x, &e, &dist, read, (int64_t)dtype_size(tile->type->dtype));
    if (x->gpu || in_memory)
        put_in_memory(x, &e, tile, &dist, fill);
    else
        e.frag = filled_frag(x, tile, &dist, fill);
    return e;
}

Exchange exchange_put(Lower *x, IrValue *tile, IrValue *fill, bool in_memory) {
    return put(x, tile, fill, in_memory, NULL);
}

Dist dist_in_block(const Dist *dist) {
    Dist own = *dist;
    own.term_count = 0;
    for (unsigned i = 0; i < dist->term_count; i++)
        if (dist->terms[i].source != DIST_BLOCK) own.terms[own.term_count++] = dist->terms[i];
    return own;
}

Exchange exchange_put_lines(Lower *x, IrValue *tile, IrValue *fill, int64_t line, int64_t first, bool own) {
    Exchange e = {.rank = tile->type->rank, .type = ir_type_scalar(x->module, tile->type->dtype), .first = first, .own = own};
    Dist dist = dist_of(tile->type);
    e.elements = 1;
    for (unsigned a = e.rank; a-- > 0;) {
        e.pitch[a] = e.elements;
        e.elements *= a + 1 == e.rank ? line : dist.padded[a];
    }
    put_in_memory(x, &e, tile, &dist, fill);
    return e;
}

IrValue *exchange_offset(IrBuilder *b, const Exchange *e, IrValue *const *coordinates) {
    IrValue *offset = ir_const_index(b, e->first);
    for (unsigned a = 0; a < e->rank; a++) offset = index_add(b, offset, index_mul_const(b, coordinates[a], e->pitch[a]));
    return offset;
}

IrValue *exchange_get(IrBuilder *b, const Exchange *e, IrValue *const *coordinates) {
    IrValue *operands[DIST_MAX_DIMS + 1] = {e->frag};
    if (e->scalar) return e->scalar;
    if (e->memory) {
        IrValue *loaded[2] = {e->memory, exchange_offset(b, e, coordinates)};
        return ir_result(ir_op_create(b, IR_MEM_LOAD, 2, loaded, 1, &e->type), 0);
    }
    for (unsigned a = 0; a < e->rank; a++) operands[a + 1] = coordinates[a];
    if (!e->rank) operands[1] = ir_const_index(b, 0);
    unsigned count = e->rank ? e->rank : 1;
    return ir_result(ir_op_create(b, IR_FRAG_GET, count + 1, operands, 1, &e->type), 0);
}

/* ---- Results read from exchanged operands ---- */

static void open_result_map(Lower *x, IrValue *result, ResultMap *r, bool in_block) {
    IrValue *index[DIST_MAX_DIMS];
    r->dist = dist_of(result->type);
    r->map = dist_map(x, &r->dist, 1, result->type->dtype, &r->inner, index);
    Dist places = in_block ? dist_in_block(&r->dist) : r->dist;
    for (unsigned a = 0; a < r->dist.rank; a++) r->at[a] = coordinate(x, &r->inner, &places, a, index);
}

void result_map_open(Lower *x, IrValue *result, ResultMap *r) {
    open_result_map(x, result, r, false);
}

void result_map_open_in_block(Lower *x, IrValue *result, ResultMap *r) {
    open_result_map(x, result, r, true);
}

void result_map_close(Lower *x, IrValue *result, ResultMap *r, IrValue *element) {
    ir_yield(&r->inner, 1, &element);
    lower_bind_frag(x, result, ir_result(r->map, 0), &r->dist);
}

/* A coordinate that may leave the tile: lanes of padding and lanes past a slice read lane 0, which
 * nobody looks at. */
static IrValue *inside(IrBuilder *b, IrValue *at, int64_t extent, bool low) {
    IrValue *ok = index_less(b, at, ir_const_index(b, extent));
    if (low) ok = mask_and(b, ok, ir_binary(b, IR_LE, ir_const_index(b, 0), at));
    return ir_select(b, ok, at, ir_const_index(b, 0));
}

static bool is_padded(const Dist *d) {
    for (unsigned a = 0; a < d->rank; a++)
        if (d->padded[a] != d->extents[a]) return true;
    return false;
}

static bool is_empty(const IrType *t) {
    for (unsigned a = 0; a < t->rank; a++)
        if (ir_type_extent(t, a) == 0) return true;
    return false;
}

/* Nothing to read from: the result's lanes are absent, or there are none. */
static bool bind_nothing(Lower *x, IrOp *op, const IrType *from) {
    if (!is_empty(from)) return false;
    const IrType *type = ir_type_scalar(x->module, op->results[0].type->dtype);
    IrValue *zero = dtype_is_float(type->dtype) ? ir_const_float(&x->b, type, 0) : ir_const_int(&x->b, type, 0);
    for (unsigned i = 0; i < op->result_count; i++) lower_bind_scalar(x, &op->results[i], zero);
    return true;
}

void lower_convert(Lower *x, IrOp *op) {
    IrValue *result = &op->results[0];
    Rep *rep = lower_rep(x, op->operands[0]);
    Dist to = dist_of(result->type), from = dist_of(op->operands[0]->type);
    if (!rep->is_frag || dist_equal(&to, &from)) {
        lower_bind(x, result, *rep);
        return;
    }
    scratch_begin(x);
    Exchange e = put(x, op->operands[0], NULL, false, result);
    lower_barrier(x);
    ResultMap r;
    result_map_open(x, result, &r);
    for (unsigned a = 0; a < to.rank; a++)
        if (to.padded[a] > from.padded[a]) r.at[a] = inside(&r.inner, r.at[a], from.padded[a], false);
    result_map_close(x, result, &r, exchange_get(&r.inner, &e, r.at));
}

/* ---- Movement ---- */

static void reshaped_coordinates(IrBuilder *b, const IrType *from, const IrType *to, IrValue *const *at, IrValue **coordinates) {
    IrValue *flat = ir_const_index(b, 0);
    int64_t pitch = 1;
    for (unsigned a = to->rank; a-- > 0; pitch *= ir_type_extent(to, a)) flat = index_add(b, index_mul_const(b, at[a], pitch), flat);
    for (unsigned a = from->rank; a-- > 0;) {
        int64_t extent = ir_type_extent(from, a);
        IrValue *by = ir_const_index(b, extent);
        coordinates[a] = a ? ir_binary(b, IR_MOD, flat, by) : flat;
        if (a) flat = ir_binary(b, IR_FLOORDIV, flat, by);
    }
}

static void lower_reshape(Lower *x, IrOp *op) {
    IrValue *result = &op->results[0], *coordinates[DIST_MAX_RANK];
    IrValue *from = chain_source(op->operands[0]);
    if (is_passed_on(op) || bind_nothing(x, op, from->type)) return;
    scratch_begin(x);
    Exchange e = put(x, from, NULL, false, result);
    lower_barrier(x);
    ResultMap r;
    result_map_open(x, result, &r);
    for (unsigned a = 0; is_padded(&r.dist) && a < r.dist.rank; a++) r.at[a] = inside(&r.inner, r.at[a], r.dist.extents[a], false);
    for (const IrOp *step = op; step == op || is_passed_on(step); step = step->operands[0]->def) {
        const IrType *type = step->operands[0]->type;
        if (step->opcode == IR_TILE_RESHAPE) reshaped_coordinates(&r.inner, type, step->results[0].type, r.at, coordinates);
        for (unsigned a = 0; step->opcode == IR_TILE_TRANSPOSE && a < type->rank; a++)
            coordinates[ir_attr(step, "perm")->ints[a]] = r.at[a];
        memcpy(r.at, coordinates, type->rank * sizeof *r.at);
    }
    result_map_close(x, result, &r, exchange_get(&r.inner, &e, r.at));
}

static void lower_flip(Lower *x, IrOp *op) {
    IrValue *result = &op->results[0];
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0);
    int64_t extent = ir_type_extent(result->type, axis);
    if (bind_nothing(x, op, result->type)) return;
    scratch_begin(x);
    Exchange e = exchange_put(x, op->operands[0], NULL, false);
    lower_barrier(x);
    ResultMap r;
    result_map_open(x, result, &r);
    for (unsigned a = 0; a < r.dist.rank; a++)
        if (r.dist.padded[a] != r.dist.extents[a]) r.at[a] = inside(&r.inner, r.at[a], r.dist.extents[a], false);
    r.at[axis] = ir_binary(&r.inner, IR_SUB, ir_const_index(&r.inner, extent - 1), r.at[axis]);
    result_map_close(x, result, &r, exchange_get(&r.inner, &e, r.at));
}

static void lower_concat(Lower *x, IrOp *op) {
    IrValue *result = &op->results[0], *value = NULL;
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0), count = op->operand_count;
    if (bind_nothing(x, op, result->type)) return;
    Exchange *e = ARENA_ARRAY(x->ctx->scratch, Exchange, count);
    scratch_begin(x);
    for (unsigned i = 0; i < count; i++)
        if (!is_empty(op->operands[i]->type)) e[i] = exchange_put(x, op->operands[i], NULL, false);
    lower_barrier(x);
    ResultMap r;
    result_map_open(x, result, &r);
    IrBuilder *b = &r.inner;
    for (unsigned a = 0; a < r.dist.rank; a++)
        if (r.dist.padded[a] != r.dist.extents[a]) r.at[a] = inside(b, r.at[a], r.dist.extents[a], false);
    IrValue *along = r.at[axis];
    int64_t begin = 0;
    for (unsigned i = 0; i < count; i++) {
        int64_t extent = ir_type_extent(op->operands[i]->type, axis);
        if (!extent) continue;
        IrValue *start = ir_const_index(b, begin);
        r.at[axis] = inside(b, ir_binary(b, IR_SUB, along, start), extent, true);
        IrValue *lane = exchange_get(b, &e[i], r.at);
        value = value ? ir_select(b, index_less(b, along, start), value, lane) : lane;
        begin += extent;
    }
    result_map_close(x, result, &r, value);
}

/* ---- Slices and indices ---- */

static void extracted_coordinates(Lower *x, IrBuilder *b, const IrOp *op, IrValue *const *at, IrValue **coordinates) {
    const char *letters = ir_attr_str(op, "axes", "");
    unsigned operand = 1, kept = 0;
    for (unsigned i = 0; letters[i]; i++) {
        IrValue *begin = lower_scalar(x, op->operands[operand]);
        operand += letters[i] == IR_LETTER_RANGE ? 2 : 1;
        IrValue *lane = begin;
        if (letters[i] == IR_LETTER_RANGE) {
            int64_t step = slice_step(op, kept);
            lane = index_add(b, begin, index_mul_const(b, at[kept++], step));
        }
        coordinates[i] = inside(b, lane, ir_type_extent(op->operands[0]->type, i), true);
    }
}

static void lower_extract(Lower *x, IrOp *op) {
    IrValue *result = &op->results[0], *coordinates[DIST_MAX_RANK];
    if (bind_nothing(x, op, op->operands[0]->type)) return;
    if (keeps_lanes(op)) {
        lower_convert(x, op);
        return;
    }
    scratch_begin(x);
    Exchange e = exchange_put(x, op->operands[0], NULL, false);
    lower_barrier(x);
    ResultMap r;
    result_map_open(x, result, &r);
    extracted_coordinates(x, &r.inner, op, r.at, coordinates);
    result_map_close(x, result, &r, exchange_get(&r.inner, &e, coordinates));
}

/* Whether an index hits a present lane. */
static IrValue *hits(Lower *x, IrBuilder *b, IrOp *op, unsigned axis, IrValue *lane) {
    PresenceAxis p = presence_in(x->presence, op->operands[0]).axes[axis];
    AffCtx *c = x->module->affs;
    const Aff *extent = aff_const(c, ir_type_extent(op->operands[0]->type, axis));
    IrValue *lo = lower_aff(x, b, p.hi ? aff_max(c, aff_const(c, 0), p.lo) : aff_const(c, 0));
    IrValue *hi = lower_aff(x, b, p.hi ? aff_min(c, p.hi, extent) : extent);
    return mask_and(b, ir_binary(b, IR_LE, lo, lane), index_less(b, lane, hi));
}

static void lower_gather(Lower *x, IrOp *op) {
    IrValue *result = &op->results[0], *coordinates[DIST_MAX_RANK], *indices[DIST_MAX_RANK];
    const IrType *from = op->operands[0]->type, *index = op->operands[1]->type;
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0);
    const IrType *type = ir_type_scalar(x->module, result->type->dtype);
    const IrAttr *pad = ir_attr(op, "pad");
    if (bind_nothing(x, op, from) || bind_nothing(x, op, index)) return;
    scratch_begin(x);
    Exchange values = exchange_put(x, op->operands[0], NULL, false);
    Exchange lanes = exchange_put(x, op->operands[1], NULL, false);
    lower_barrier(x);
    ResultMap r;
    result_map_open(x, result, &r);
    IrBuilder *b = &r.inner;
    for (unsigned a = 0; a < r.dist.rank; a++)
        if (r.dist.padded[a] != r.dist.extents[a]) r.at[a] = inside(b, r.at[a], r.dist.extents[a], false);
    for (unsigned a = 0; a < index->rank; a++) indices[a] = r.at[axis + a];
    IrValue *lane = ir_cast(b, exchange_get(b, &lanes, indices), ir_type_index(x->module));
    IrValue *hit = hits(x, b, op, axis, lane);
    for (unsigned a = 0; a < from->rank; a++)
        coordinates[a] = a < axis ? r.at[a] : a == axis ? ir_select(b, hit, lane, ir_const_index(b, 0)) : r.at[a + index->rank - 1];
    IrValue *value = exchange_get(b, &values, coordinates);
    IrValue *other = ir_const_float(b, type, pad ? pad->number : 0);
    result_map_close(x, result, &r, ir_select(b, hit, value, other));
}

bool lower_along(Lower *x, IrOp *op) {
    switch (op->opcode) {
    case IR_TILE_RESHAPE:
        lower_reshape(x, op);
        return true;
    case IR_TILE_FLIP:
        lower_flip(x, op);
        return true;
    case IR_TILE_CONCAT:
        lower_concat(x, op);
        return true;
    case IR_TILE_EXTRACT:
        lower_extract(x, op);
        return true;
    case IR_TILE_INSERT:
        lower_insert(x, op);
        return true;
    case IR_TILE_GATHER:
        lower_gather(x, op);
        return true;
    case IR_TILE_SCAN:
        lower_scan(x, op);
        return true;
    case IR_TILE_ARG:
        lower_arg(x, op);
        return true;
    case IR_TILE_SORT:
        lower_sort(x, op);
        return true;
    default:
        return false;
    }
}
