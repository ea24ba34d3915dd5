/* Reductions over the warps of a block and the blocks of a cluster, for lower_to_threads. */
#include "analysis/analysis.h"
#include "lower_internal.h"
#include "lower_reduce_internal.h"
#include "plant.h"

#include <string.h>

/* Row-major offset of the kept coordinates in the scratch array; *elements its size. */
static IrValue *scratch_offset(Lower *x, IrBuilder *b, const Reduction *r, IrValue *const *index, int64_t *elements) {
    IrValue *offset = NULL;
    *elements = 1;
    for (unsigned a = r->kept.rank; a-- > 0; *elements *= r->kept.padded[a]) {
        IrValue *at = index_add(b, dist_base(x, &r->kept, a), dist_local(b, &r->kept, a, index));
        if (at) offset = index_add(b, offset, index_mul_const(b, at, *elements));
    }
    return offset ? offset : ir_const_index(b, 0);
}

/* The number of this warp among those that share a result: its reduced bits, packed. */
static IrValue *partial_number(Lower *x, int64_t bits) {
    Dist pack = {.rank = 1};
    int64_t weight = 1;
    for (unsigned p = 0; p < 5; p++)
        if (bits >> p & 1) {
            pack.terms[pack.term_count++] = (DistTerm){DIST_WARP, p, 1, 0, weight};
            weight *= 2;
        }
    return dist_base(x, &pack, 0);
}

/* Of the threads that hold one partial, the first; null: there is one. */
static IrValue *first_holder(Lower *x, const Reduction *r) {
    Dist pack = {.rank = 1};
    int64_t lanes = lower_reduced_bits(r, DIST_LANE) | r->from.free_lanes, warps = r->from.free_warps & (x->num_warps - 1);
    if (lanes) pack.terms[pack.term_count++] = (DistTerm){DIST_LANE, 0, lanes, 0, 1};
    if (warps) pack.terms[pack.term_count++] = (DistTerm){DIST_WARP, 0, warps, 0, 1};
    IrValue *number = dist_base(x, &pack, 0);
    return number ? ir_binary(&x->b, IR_EQ, number, ir_const_index(&x->b, 0)) : NULL;
}

/* Does the reduction cross threads of that kind? */
static bool crosses(const IrOp *op, DistSource source) {
    Dist d = dist_of(op->operands[0]->type);
    const IrAttr *axes = ir_attr(op, "axes");
    for (unsigned i = 0; i < d.term_count; i++)
        for (size_t k = 0; d.terms[i].source == source && k < axes->count; k++)
            if (d.terms[i].axis == axes->ints[k]) return true;
    return false;
}

/* Do the blocks of a cluster send their partials of it to each other? Behind a barrier of each block, which needs warps that meet. */
static bool is_sent(const Lower *x, const IrOp *op) {
    Dtype dtype = op->results[0].type->dtype;
    size_t size = dtype_size(dtype);
    return SENDS && x->meetings + 2 <= MOST_MEETINGS && (size == 4 || size == 8) && crosses(op, DIST_BLOCK) && crosses(op, DIST_WARP);
}

/* Partials stand in memory of their own. Must a barrier come before they are written, since an earlier run of
 * the same code may still read them? Another reduction of the same block, or a wider step of this one by barriers, has a
 * barrier after every read. */
static bool may_be_read(const Lower *x, const IrOp *op, DistSource source) {
    if (x->b.block == x->to->body) return false;
    if (source == DIST_WARP && crosses(op, DIST_BLOCK) && !is_sent(x, op)) return false;
    for (const IrOp *other = op->block->first; other; other = other->next)
        if (other != op && other->opcode == IR_TILE_REDUCE && crosses(other, source)) return false;
    return true;
}

IrValue *lower_reduce_warps(Lower *x, const Reduction *r, IrValue *frag) {
    int64_t bits = lower_reduced_bits(r, DIST_WARP);
    if (!bits) return frag;
    int64_t partials = (int64_t)1 << __builtin_popcountll((unsigned long long)bits), elements = 1;
    for (unsigned a = 0; a < r->kept.rank; a++) elements *= r->kept.padded[a];
    IrValue *shared = lower_shared(x, r->dtype, partials * elements, "partials");
    IrValue *number = partial_number(x, bits), *index[DIST_MAX_DIMS];
    IrValue *mask = first_holder(x, r);
    IrBuilder inner;
    if (may_be_read(x, r->op, DIST_WARP)) lower_barrier(x);
    dist_map(x, &r->kept, 1, DTYPE_NONE, &inner, index);
    IrValue *offset = scratch_offset(x, &inner, r, index, &elements);
    offset = index_add(&inner, index_mul_const(&inner, number, elements), offset);
    IrValue *stored[4] = {lower_kept_get(x, &inner, r, frag, index), shared, offset, mask};
    ir_op_create(&inner, IR_MEM_STORE, mask ? 4 : 3, stored, 0, NULL);
    ir_yield(&inner, 0, NULL);
    lower_barrier(x);
    IrOp *map = dist_map(x, &r->kept, 1, r->dtype, &inner, index);
    offset = scratch_offset(x, &inner, r, index, &elements);
    IrValue *sum = NULL;
    const IrType *type = ir_type_scalar(x->module, r->dtype);
    for (int64_t i = 0; i < partials; i++) {
        IrValue *loaded[2] = {shared, index_add(&inner, offset, ir_const_index(&inner, i * elements))};
        IrValue *v = ir_result(ir_op_create(&inner, IR_MEM_LOAD, 2, loaded, 1, &type), 0);
        sum = sum ? ir_binary(&inner, r->combine, sum, v) : v;
    }
    ir_yield(&inner, 1, &sum);
    return ir_result(map, 0);
}

static void cluster_barrier(Lower *x) {
    if (PLANTED(5)) return;
    build_barrier(&x->b, IR_SCOPE_CLUSTER);
}

/* A block's memory may be written once it runs: it says so where the body begins, with nothing on its way that this would wait for, and
 * the others look before the first op of the body that does. */
static void start_cluster(Lower *x) {
    if (x->cluster_begin) return;
    IrBuilder first = ir_builder_before(x->anchor);
    x->cluster_begin = ir_op_create(&first, IR_CLUSTER_BEGIN, 0, NULL, 0, NULL);
    const IrBlock *block = x->b.block;
    IrOp *outer = NULL;
    for (; block != x->to->body; block = outer->block) outer = block->parent;
    IrBuilder b = outer ? ir_builder_before(outer) : x->b;
    if (!PLANTED(5)) ir_op_create(&b, IR_CLUSTER_BEGUN, 0, NULL, 0, NULL);
}

/* What the blocks of a cluster combine. */
typedef struct {
    IrValue *shared, *mask, *number; /* partials of all blocks; who writes (null: all); this block's rank */
    int64_t elements;                /* of a block */
} BlockPartials;

static IrValue *partial_place(Lower *x, IrBuilder *b, const Reduction *r, const BlockPartials *p, IrValue *const *index) {
    int64_t elements = p->elements;
    IrValue *offset = scratch_offset(x, b, r, index, &elements);
    return index_add(b, index_mul_const(b, p->number, elements), offset);
}

static void begin_with(Lower *x, IrValue *barrier) {
    IrOp *old = x->cluster_begin;
    IrValue *barriers[MOST_MEETINGS];
    for (unsigned i = 0; i < old->operand_count; i++) barriers[i] = old->operands[i];
    barriers[old->operand_count] = barrier;
    IrBuilder b = ir_builder_after(barrier->def);
    x->cluster_begin = ir_op_create(&b, IR_CLUSTER_BEGIN, old->operand_count + 1, barriers, 0, NULL);
    ir_op_erase(old);
}

static IrValue *barrier_of_sends(Lower *x) {
    IrValue *barrier = lower_shared(x, DTYPE_U64, 1, "arrived");
    begin_with(x, barrier);
    return barrier;
}

static void meet(Lower *x, IrValue *barrier, int64_t bytes) {
    if (PLANTED(5)) return;
    IrOp *op = ir_op_create(&x->b, IR_CLUSTER_MEET, 1, &barrier, 0, NULL);
    ir_attr_set_int(op, "bytes", bytes);
    ir_attr_set_int(op, "number", x->meetings++);
}

/* All blocks have read what this reduction sent last: they say so behind a barrier of theirs that came since, the one of the warps. */
static void meet_readers(Lower *x, const BlockPartials *p) {
    IrValue *barrier = barrier_of_sends(x), *seen = lower_shared(x, DTYPE_I32, x->cluster, "seen");
    IrValue *first = ir_binary(&x->b, IR_EQ, lower_thread(x), ir_const_index(&x->b, 0));
    IrValue *zero = ir_const_int(&x->b, ir_type_scalar(x->module, DTYPE_I32), 0);
    ir_op_create(&x->b, IR_CLUSTER_SEND, 5, (IrValue *[]){zero, seen, p->number, barrier, first}, 0, NULL);
    meet(x, barrier, x->cluster * (int64_t)dtype_size(DTYPE_I32));
}

IrValue *lower_found_by_blocks(Lower *x, IrValue *value) {
    Dist rank = {.rank = 1, .term_count = 1, .terms = {{DIST_BLOCK, 0, x->cluster - 1, 0, 1}}};
    BlockPartials p = {.elements = 1, .number = dist_base(x, &rank, 0)};
    p.shared = lower_shared(x, value->type->dtype, x->cluster, "block_totals");
    start_cluster(x);
    if (x->b.block != x->to->body) meet_readers(x, &p);
    IrValue *barrier = barrier_of_sends(x), *first = ir_binary(&x->b, IR_EQ, lower_thread(x), ir_const_index(&x->b, 0));
    ir_op_create(&x->b, IR_CLUSTER_SEND, 5, (IrValue *[]){value, p.shared, p.number, barrier, first}, 0, NULL);
    meet(x, barrier, x->cluster * (int64_t)dtype_size(value->type->dtype));
    return p.shared;
}

/* Another reduction between two runs of this one says that all have read. */
static void send_partials(Lower *x, const Reduction *r, const BlockPartials *p, IrValue *frag) {
    if (may_be_read(x, r->op, DIST_BLOCK)) meet_readers(x, p);
    IrValue *barrier = barrier_of_sends(x), *index[DIST_MAX_DIMS];
    IrBuilder inner;
    dist_map(x, &r->kept, 1, DTYPE_NONE, &inner, index);
    IrValue *operands[5] = {lower_kept_get(x, &inner, r, frag, index), p->shared, partial_place(x, &inner, r, p, index), barrier, p->mask};
    ir_op_create(&inner, IR_CLUSTER_SEND, p->mask ? 5 : 4, operands, 0, NULL);
    ir_yield(&inner, 0, NULL);
    meet(x, barrier, x->cluster * p->elements * (int64_t)dtype_size(r->dtype));
}

static void write_partials(Lower *x, const Reduction *r, const BlockPartials *p, IrValue *frag) {
    if (may_be_read(x, r->op, DIST_BLOCK)) cluster_barrier(x);
    IrBuilder inner;
    const IrType *theirs = ir_type_ptr(x->module, r->dtype, IR_SPACE_CLUSTER);
    IrValue **places = ARENA_ARRAY(x->ctx->scratch, IrValue *, (size_t)x->cluster), *index[DIST_MAX_DIMS];
    for (int64_t i = 0; i < x->cluster; i++)
        places[i] = ir_result(ir_op_create(&x->b, IR_CLUSTER_PTR, 2, (IrValue *[]){p->shared, ir_const_index(&x->b, i)}, 1, &theirs), 0);
    dist_map(x, &r->kept, 1, DTYPE_NONE, &inner, index);
    IrValue *offset = partial_place(x, &inner, r, p, index), *value = lower_kept_get(x, &inner, r, frag, index);
    for (int64_t i = 0; i < x->cluster; i++)
        ir_op_create(&inner, IR_MEM_STORE, p->mask ? 4 : 3, (IrValue *[]){value, places[i], offset, p->mask}, 0, NULL);
    ir_yield(&inner, 0, NULL);
    cluster_barrier(x);
}

IrValue *lower_reduce_blocks(Lower *x, const Reduction *r, IrValue *frag) {
    int64_t bits = lower_reduced_bits(r, DIST_BLOCK);
    if (!bits) return frag;
    if (bits != x->cluster - 1) {
        lower_error(x, r->op, "a reduction over some of a cluster's blocks");
        return frag;
    }
    BlockPartials p = {.elements = 1};
    for (unsigned a = 0; a < r->kept.rank; a++) p.elements *= r->kept.padded[a];
    p.shared = lower_shared(x, r->dtype, x->cluster * p.elements, "block_partials");
    Dist own = r->kept, rank = {.rank = 1, .term_count = 1, .terms = {{DIST_BLOCK, 0, x->cluster - 1, 0, 1}}};
    own.used_blocks = x->cluster - 1;
    p.mask = owner_mask(x, &own), p.number = dist_base(x, &rank, 0);
    start_cluster(x);
    if (is_sent(x, r->op))
        send_partials(x, r, &p, frag);
    else
        write_partials(x, r, &p, frag);
    IrBuilder inner;
    IrValue *index[DIST_MAX_DIMS];
    const IrType *type = ir_type_scalar(x->module, r->dtype);
    IrOp *map = dist_map(x, &r->kept, 1, r->dtype, &inner, index);
    int64_t elements = p.elements;
    IrValue *offset = scratch_offset(x, &inner, r, index, &elements), *sum = NULL;
    for (int64_t i = 0; i < x->cluster; i++) {
        IrValue *loaded[2] = {p.shared, index_add(&inner, offset, ir_const_index(&inner, i * elements))};
        IrValue *v = ir_result(ir_op_create(&inner, IR_MEM_LOAD, 2, loaded, 1, &type), 0);
        sum = sum ? ir_binary(&inner, r->combine, sum, v) : v;
    }
    ir_yield(&inner, 1, &sum);
    return ir_result(map, 0);
}

const Rep *lower_found_before(Lower *x, const IrOp *op) {
    const IrAttr *axes = ir_attr(op, "axes");
    for (const IrUse *use = op->operands[0]->uses; use; use = use->next) {
        const IrOp *other = use->op;
        if (other == op || other->opcode != IR_TILE_REDUCE || other->block != op->block) continue;
        const Rep *rep = lower_rep(x, (IrValue *)&other->results[0]);
        const IrAttr *own = ir_attr(other, "axes");
        if (!rep || ir_op_kind(other) != ir_op_kind(op)) continue;
        if (ir_attr_bool(other, "apart") != ir_attr_bool(op, "apart")) continue;
        if (own->count == axes->count && memcmp(own->ints, axes->ints, axes->count * sizeof *axes->ints) == 0) return rep;
    }
    return NULL;
}
