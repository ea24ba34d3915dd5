/* Rotated rows, for rows that begin at unaligned addresses: see `rotated` in docs/ir.md. `rotation` is the distance, in elements, from a
 * multiple of 16 bytes to the row's begin. Place c of the tile holds lane c - rotation, or lane c - rotation + extent if that is negative. So
 * places from multiples of V elements on correspond to addresses that are multiples of 16 bytes: each 16-byte piece is one access, except
 * the piece with the row's begin and the piece with its end. */
#include "analysis/analysis.h"
#include "lower_internal.h"

bool is_rotated(const Lower *x, const Dist *dist) {
    return x->rotated > 1 && dist->rank == 1 && dist->extents[0] == x->row_lanes;
}

static bool all_known(Lower *x, const Aff *e) {
    if (e->kind == AFF_VAR) return lower_rep(x, (IrValue *)(uintptr_t)e->var) != NULL;
    for (size_t i = 0; i < e->count; i++)
        if (!all_known(x, e->args[i])) return false;
    return true;
}

/* The element of memory where the slice begins. */
static const Aff *first_element(IrModule *m, IrOp *op) {
    IrSlice slice = ir_slice(op);
    const Aff *sum = aff_const(m->affs, 0);
    for (unsigned i = 0; i < slice.rank; i++) {
        const Aff *at = ir_aff_of(m, op->operands[slice.axes[i].operand]);
        sum = aff_add(m->affs, sum, aff_mul(m->affs, at, ir_type_stride(m, op->operands[slice.base]->type, i)));
    }
    return sum;
}

/* Every row is rotated as the first one that is stored: what is written matters most. */
static void choose_rotation(Lower *x, IrOp *op) {
    const Aff *first = first_element(x->module, op);
    for (IrOp *store = op; store; store = store->next) {
        if (store->opcode != IR_TILE_STORE || !is_tile(store->operands[0])) continue;
        Dist dist = dist_of(store->operands[0]->type);
        if (!is_rotated(x, &dist)) continue;
        const Aff *stored = first_element(x->module, store);
        if (all_known(x, stored)) first = stored;
        break;
    }
    x->rotated_from = first;
    x->rotation = lower_aff(x, &x->b, aff_mod(x->module->affs, first, aff_const(x->module->affs, x->rotated)));
    x->rotation->name = "rotation";
}

int64_t rotated_width(Lower *x, IrOp *op, const AccessPlan *s, const Dist *dist) {
    unsigned last = s->rank - 1;
    if (!x->rotation) choose_rotation(x, op);
    if (s->tile_axis[last] < 0 || s->stride[last] != aff_const(x->module->affs, 1)) return 1;
    if (ir_aff_of(x->module, s->begin[last]) != aff_const(x->module->affs, 0)) return 1; /* not the row from its first lane */
    if ((int64_t)dtype_size(s->type->dtype) * x->rotated > x->vector_bytes || dist_vector(dist, 0, x->rotated) < x->rotated) return 1;
    const Aff *first = first_element(x->module, op);
    if (first == x->rotated_from) return x->rotated;
    const Aff *apart = aff_sub(x->module->affs, first, x->rotated_from);
    return aff_known_divisor(s->facts, apart, x->rotated) % x->rotated ? 1 : x->rotated;
}

/* The guard keeps it within row_lanes, from above; the bits say so, and 32-bit arithmetic does. */
IrValue *rotated_limit(Lower *x, const Aff *limit) {
    int64_t bits = 1;
    while (bits <= x->row_lanes) bits *= 2;
    IrValue *lanes = lower_aff(x, &x->b, limit);
    if (!x->at || !aff_prove_nonneg(ir_facts_at(x->ctx->scratch, x->at), limit))
        lanes = ir_binary(&x->b, IR_MAX, lanes, ir_const_index(&x->b, 0));
    return ir_binary(&x->b, IR_AND, lanes, ir_const_index(&x->b, bits - 1));
}

/* The lane that place `index` holds. */
IrValue *rotated_lane(Lower *x, IrBuilder *b, const Dist *dist, IrValue *const *index) {
    IrValue *place = index_add(b, dist_base(x, dist, 0), dist_local(b, dist, 0, index));
    IrValue *lane = ir_binary(b, IR_SUB, place ? place : ir_const_index(b, 0), x->rotation);
    IrValue *wrapped = ir_binary(b, IR_ADD, lane, ir_const_index(b, x->row_lanes));
    return ir_select(b, ir_binary(b, IR_LT, lane, ir_const_index(b, 0)), wrapped, lane);
}

/* `limit` lanes are present: does place `index` hold one of them? The places of a thread are a few constants, so that
 * a comparison each with what is computed once costs less than their lanes. */
IrValue *rotated_present(Lower *x, IrBuilder *b, const Dist *dist, IrValue *const *index, IrValue *limit) {
    IrBuilder *outer = &x->b;
    IrValue *base = dist_base(x, dist, 0), *local = dist_local(b, dist, 0, index), *begin = x->rotation;
    if (base) begin = ir_binary(outer, IR_SUB, begin, base);
    if (!local) local = ir_const_index(b, 0);
    IrValue *end = ir_binary(outer, IR_ADD, begin, limit);
    IrValue *wrapped = ir_binary(outer, IR_SUB, end, ir_const_index(outer, x->row_lanes));
    IrValue *behind = ir_binary(b, IR_AND, ir_binary(b, IR_LE, begin, local), index_less(b, local, end));
    return ir_binary(b, IR_OR, behind, index_less(b, local, wrapped));
}

/* The places of the thread that hold whole pieces, all within the first `limit` lanes: from *begin to before *end. */
static void whole_places(Lower *x, const Dist *dist, IrValue *limit, IrValue **begin, IrValue **end) {
    IrBuilder *b = &x->b;
    IrValue *base = dist_base(x, dist, 0);
    *begin = base ? ir_binary(b, IR_SUB, x->rotation, base) : x->rotation;
    *end = ir_binary(b, IR_ADD, *begin, ir_binary(b, IR_SUB, limit, ir_const_index(b, x->rotated - 1)));
}

/* Whether the piece that begins at place `local` of the thread is one access. */
IrValue *rotated_whole(Lower *x, IrBuilder *b, const Dist *dist, IrValue *local, IrValue *limit) {
    IrValue *begin, *end;
    whole_places(x, dist, limit, &begin, &end);
    return ir_binary(b, IR_AND, ir_binary(b, IR_LE, begin, local), index_less(b, local, end));
}

/* The bits of a place that the number of the thread decides; 0: they are mixed with those of its own places. */
static int64_t thread_bits(const Dist *dist) {
    int64_t threads = 0, own = 0;
    for (unsigned i = 0; i < dist->term_count; i++) threads |= dist->terms[i].mask * dist->terms[i].stride;
    for (unsigned i = 0; i < dist->dim_count; i++)
        for (unsigned s = 0; s < dist->dims[i].sub_count; s++) {
            const DistSub *sub = &dist->dims[i].subs[s];
            int64_t most = 1;
            while (most < sub->extent) most *= 2;
            own |= (most - 1) * sub->stride;
        }
    return threads & own ? 0 : threads;
}

/* Opens an `if` of the threads that hold the row's begin or its end; null: any thread may. */
static IrOp *edge_holders(Lower *x, const Dist *dist, IrValue *tail, unsigned results, const IrType *const *types) {
    IrBuilder *b = &x->b;
    int64_t bits = thread_bits(dist);
    IrValue *base = dist_base(x, dist, 0);
    if (!bits || !base) return NULL;
    IrValue *first = ir_binary(b, IR_EQ, base, ir_const_index(b, 0));
    IrValue *last = ir_binary(b, IR_EQ, base, ir_binary(b, IR_AND, tail, ir_const_index(b, bits)));
    IrValue *any = ir_binary(b, IR_OR, first, last);
    return ir_op_create(b, IR_IF, 1, &any, results, types);
}

RotatedEdges rotated_edges(Lower *x, const Dist *dist, IrValue *limit, unsigned results, const IrType *const *types) {
    IrBuilder *b = &x->b;
    IrValue *base = dist_base(x, dist, 0), *zero = ir_const_index(b, 0);
    IrValue *end = ir_binary(b, IR_ADD, limit, x->rotation), *tail = ir_binary(b, IR_AND, end, ir_const_index(b, -x->rotated));
    RotatedEdges e = {.dist = dist, .limit = limit};
    e.place[0] = base ? ir_binary(b, IR_SUB, zero, base) : zero;
    e.place[1] = base ? ir_binary(b, IR_SUB, tail, base) : tail;
    e.first[0] = ir_binary(b, IR_SUB, zero, x->rotation);
    e.first[1] = ir_binary(b, IR_SUB, tail, x->rotation);
    e.branch = edge_holders(x, dist, tail, results, types);
    e.saved = *b;
    if (e.branch) *b = ir_builder_at_end(e.branch->regions[0]);
    b->span = e.saved.span;
    return e;
}

void rotated_edges_end(Lower *x, const RotatedEdges *e) {
    if (e->branch) x->b = e->saved;
}

/* The lane that place j of the piece at the row's begin (0) or end (1) holds; *mask: it is one of the row's. */
IrValue *rotated_edge_lane(Lower *x, IrBuilder *b, const RotatedEdges *e, unsigned which, IrValue *j, IrValue **mask) {
    IrValue *lane = ir_binary(b, IR_ADD, e->first[which], j);
    if (which == 0) {
        IrValue *wrapped = ir_binary(b, IR_ADD, lane, ir_const_index(b, x->row_lanes));
        lane = ir_select(b, index_less(b, lane, ir_const_index(b, 0)), wrapped, lane);
    }
    *mask = index_less(b, lane, e->limit);
    if (which == 1) *mask = mask_and(b, ir_binary(b, IR_LE, ir_const_index(b, 0), lane), *mask); /* of a row within one piece */
    return lane;
}

/* Is place `index` of the thread in that piece? *j: which place of the piece. */
IrValue *rotated_in_edge(Lower *x, IrBuilder *b, const RotatedEdges *e, unsigned which, IrValue *const *index, IrValue **j) {
    IrValue *at[DIST_MAX_DIMS];
    unsigned last = e->dist->dim_count - 1;
    for (unsigned i = 0; i <= last; i++) at[i] = index[i];
    *j = ir_binary(b, IR_MOD, index[last], ir_const_index(b, x->rotated));
    dist_piece(b, e->dist, x->rotated, at);
    IrValue *local = dist_local(b, e->dist, 0, at);
    return ir_binary(b, IR_EQ, local ? local : ir_const_index(b, 0), e->place[which]);
}
