/* Pass lower_to_threads: tile level (static or mapped) to kernel level.
 *
 * what:   each tile becomes a fragment of its distribution (distribution.h), each tile op a `map` over
 *         the fragment; addresses become affine in map indices, lane and warp; presence and tensor
 *         bounds become masks, left out where proved; reductions become register, shuffle and shared
 *         memory steps.
 * needs:  static extents; on a GPU layouts on every tile and no `parallel` left.
 * keeps:  values, order of effects.
 * breaks: tile level: its functions are replaced.
 * source: own; the register/lane/warp decomposition is that of linear layouts (Triton).
 *
 *   %y = mul(%x, %x) : tile<[8, 512] x f32>
 * becomes, on the CPU,
 *   %y = map() {extents = [8, 512]} : frag<[8, 512] x f32> (%i: index, %j: index) {
 *     %a = frag.get(%x, %i, %j) : f32
 *     %b = mul(%a, %a) : f32
 *     yield(%b)
 *   }
 */
#include "analysis/analysis.h"
#include "layout.h"
#include "lower_internal.h"
#include "plant.h"

enum { MANY = 16 }; /* lanes of a thread */

IrValue *interval_mask(Lower *x, IrBuilder *b, const Presence *p, const Dist *dist, IrValue *const *index, const Aff *const *checked) {
    AffCtx *c = x->module->affs;
    AffFacts *facts = aff_facts_create(x->ctx->scratch, c);
    IrValue *mask = NULL;
    for (unsigned a = 0; a < dist->rank; a++) {
        const Aff *hi = p->axes[a].hi;
        bool done = checked && checked[a];
        if (done && hi && aff_prove_le(facts, checked[a], hi)) hi = NULL;
        if (dist->padded[a] > dist->extents[a] && !done) {
            const Aff *extent = aff_const(c, dist->extents[a]);
            hi = hi ? aff_min(c, hi, extent) : extent;
        }
        mask = mask_and(b, mask, lower_bound_mask(x, b, dist, a, p->axes[a].lo, hi, index));
    }
    return mask;
}

/* ---- Ops ---- */

static void lower_scalar_op(Lower *x, IrOp *op) {
    IrValue *operands[8];
    const IrType *types[4];
    for (unsigned i = 0; i < op->operand_count; i++) operands[i] = lower_scalar(x, op->operands[i]);
    for (unsigned i = 0; i < op->result_count; i++) types[i] = op->results[i].type;
    IrOp *copy = ir_op_create(&x->b, op->opcode, op->operand_count, operands, op->result_count, types);
    copy->attrs = op->attrs;
    for (unsigned i = 0; i < op->result_count; i++) lower_bind_scalar(x, &op->results[i], ir_result(copy, i));
}

/* A splat of one scalar: every lane reads it. */
static void lower_const(Lower *x, IrOp *op) {
    if (!is_tile(&op->results[0])) {
        lower_scalar_op(x, op);
        return;
    }
    const IrType *type = ir_type_scalar(x->module, op->results[0].type->dtype);
    IrOp *copy = ir_op_create(&x->b, IR_CONST, 0, NULL, 1, &type);
    copy->attrs = op->attrs;
    lower_bind_scalar(x, &op->results[0], ir_result(copy, 0));
}

static void lower_elementwise(Lower *x, IrOp *op) {
    IrValue *result = &op->results[0], *operands[4], *index[DIST_MAX_DIMS];
    bool all_scalar = true;
    for (unsigned i = 0; i < op->operand_count; i++) {
        Rep *rep = lower_rep(x, op->operands[i]);
        all_scalar = all_scalar && !rep->is_frag;
        operands[i] = rep->value;
    }
    const IrType *scalar = is_tile(result) ? ir_type_scalar(x->module, result->type->dtype) : result->type;
    if (all_scalar) {
        IrOp *copy = ir_op_create(&x->b, op->opcode, op->operand_count, operands, 1, &scalar);
        copy->attrs = op->attrs;
        lower_bind_scalar(x, result, ir_result(copy, 0));
        return;
    }
    Dist dist = dist_of(result->type);
    IrBuilder inner;
    IrOp *map = dist_map(x, &dist, 1, result->type->dtype, &inner, index);
    for (unsigned i = 0; i < op->operand_count; i++) operands[i] = rep_get(x, &inner, lower_rep(x, op->operands[i]), &dist, index, 1);
    if (PLANTED(8) && op->opcode == IR_SUB) {
        IrValue *first = operands[0];
        operands[0] = operands[1]; /* NOLINT(*uninitialized.Assign): a difference has two */
        operands[1] = first;
    }
    IrOp *copy = ir_op_create(&inner, op->opcode, op->operand_count, operands, 1, &scalar);
    copy->attrs = op->attrs;
    IrValue *element = ir_result(copy, 0);
    ir_yield(&inner, 1, &element);
    lower_bind_frag(x, result, ir_result(map, 0), &dist);
}

/* Every thread holds the lane of a rank-0 tile. */
static void lower_single(Lower *x, IrOp *op) {
    const Rep *rep = lower_rep(x, op->operands[0]);
    IrValue *index[DIST_MAX_DIMS], *value;
    for (unsigned i = 0; i < DIST_MAX_DIMS; i++) index[i] = rep->is_frag ? ir_const_index(&x->b, 0) : NULL;
    Dist dist = dist_of(op->operands[0]->type);
    value = rep_get(x, &x->b, rep, &dist, index, 1);
    if (x->gpu) value = ir_unary(&x->b, IR_UNIFORM, value);
    lower_bind_scalar(x, &op->results[0], value);
}

static void lower_broadcast(Lower *x, IrOp *op) {
    Rep rep = *lower_rep(x, op->operands[0]);
    if (rep.is_frag) {
        const IrAttr *axes = ir_attr(op, "axes");
        for (unsigned a = 0; a < rep.dist.rank; a++) {
            int old = rep.axis_map[a];
            if (old < 0) continue;
            bool repeats = ir_type_extent(op->operands[0]->type, (unsigned)old) == 1;
            rep.axis_map[a] = repeats ? -1 : (int)axes->ints[old];
        }
    }
    lower_bind(x, &op->results[0], rep);
}

static void lower_transpose(Lower *x, IrOp *op) {
    if (is_passed_on(op)) return;
    Rep rep = *lower_rep(x, op->operands[0]);
    const IrAttr *perm = ir_attr(op, "perm");
    for (unsigned a = 0; rep.is_frag && a < rep.dist.rank; a++)
        for (unsigned r = 0; r < perm->count; r++)
            if (rep.axis_map[a] == perm->ints[r]) {
                rep.axis_map[a] = (int)r;
                break;
            }
    lower_bind(x, &op->results[0], rep);
}

static void lower_iota(Lower *x, IrOp *op) {
    IrValue *result = &op->results[0], *index[DIST_MAX_DIMS];
    Dist dist = dist_of(result->type);
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0);
    IrBuilder inner;
    IrOp *map = dist_map(x, &dist, 1, result->type->dtype, &inner, index);
    IrValue *at = index_add(&inner, dist_base(x, &dist, axis), dist_local(&inner, &dist, axis, index));
    if (!at) at = ir_const_index(&inner, 0);
    IrValue *element = ir_cast(&inner, at, ir_type_scalar(x->module, result->type->dtype));
    ir_yield(&inner, 1, &element);
    lower_bind_frag(x, result, ir_result(map, 0), &dist);
}

static bool holds_fill(Lower *x, const IrOp *op) {
    const IrAttr *value = ir_attr(op, "value");
    return dtype_is_float(op->results[0].type->dtype) && value->kind == IR_ATTR_FLOAT &&
           absent_holds(x, op->operands[0], ~0u, value->number);
}

/* Absent lanes get a value, unless they hold it. */
static void fill_lanes(Lower *x, IrOp *op) {
    IrValue *result = &op->results[0], *operand = op->operands[0], *index[DIST_MAX_DIMS];
    Rep *rep = lower_rep(x, operand);
    Dist dist = dist_of(result->type);
    IrBuilder inner, saved = x->b;
    IrOp *map = dist_map(x, &dist, 1, result->type->dtype, &inner, index);
    x->b = ir_builder_before(map);
    IrValue *mask = holds_fill(x, op) ? NULL : presence_mask(x, &inner, operand, &dist, index, NULL);
    x->b = saved;
    IrValue *element = rep_get(x, &inner, rep, &dist, index, 1);
    if (mask) {
        const IrType *type = ir_type_scalar(x->module, result->type->dtype);
        IrOp *fill = ir_op_create(&inner, IR_CONST, 0, NULL, 1, &type);
        ir_attr_copy(fill, op, "value");
        element = ir_select(&inner, mask, element, PLANTED(11) ? element : ir_result(fill, 0));
    }
    ir_yield(&inner, 1, &element);
    lower_bind_frag(x, result, ir_result(map, 0), &dist);
}

/* Whether the tile's lanes are all present: one answer for the block. NULL: they are. */
static IrValue *all_present(Lower *x, IrValue *tile, const Dist *dist) {
    Presence p = presence_in(x->presence, tile);
    AffCtx *c = x->module->affs;
    const Aff *room = NULL;
    for (unsigned a = 0; a < dist->rank; a++) {
        const Aff *behind = p.axes[a].hi ? aff_sub(c, p.axes[a].hi, aff_const(c, dist->extents[a])) : NULL;
        const Aff *before = p.axes[a].hi ? aff_sub(c, aff_const(c, 0), p.axes[a].lo) : NULL;
        if (behind) behind = aff_min(c, behind, before), room = room ? aff_min(c, room, behind) : behind;
    }
    return room ? ir_binary(&x->b, IR_LE, ir_const_index(&x->b, 0), lower_aff(x, &x->b, room)) : NULL;
}

/* Many lanes, which are present but in few tiles, are looked at there alone. */
static bool fill_last(Lower *x, IrOp *op) {
    Rep *rep = lower_rep(x, op->operands[0]);
    Dist dist = dist_of(op->results[0].type);
    const IrType *type = dist_frag_type(x->module, &dist, op->results[0].type->dtype);
    int64_t lanes = 1;
    for (unsigned i = 0; i < type->rank; i++) lanes *= ir_type_extent(type, i);
    bool plain = ir_attr_bool(op, "rare") && lanes >= MANY && rep_is_own(rep, &dist);
    IrValue *all = plain ? all_present(x, op->operands[0], &dist) : NULL;
    if (!all) return false;
    IrOp *branch = ir_op_create(&x->b, IR_IF, 1, &all, 1, &type);
    IrBuilder saved = x->b, whole = ir_builder_at_end(branch->regions[0]);
    ir_yield(&whole, 1, &rep->value);
    x->b = ir_builder_at_end(branch->regions[1]);
    fill_lanes(x, op);
    IrValue *filled = lower_rep(x, &op->results[0])->value;
    ir_yield(&x->b, 1, &filled);
    x->b = saved;
    lower_bind_frag(x, &op->results[0], ir_result(branch, 0), &dist);
    return true;
}

static void lower_fill(Lower *x, IrOp *op) {
    if (!fill_last(x, op)) fill_lanes(x, op);
}

/* The kernel value that carries `value` through a loop or out of a branch. */
static IrValue *carried(Lower *x, IrValue *value, const IrType *type) {
    Rep *rep = lower_rep(x, value);
    if (type->kind != IR_TYPE_TILE) return rep->value;
    Dist dist = dist_of(type);
    return rep_materialise(x, rep, &dist, type->dtype);
}

static void bind_carried(Lower *x, IrValue *value, IrValue *kernel) {
    if (is_tile(value)) {
        Dist dist = dist_of(value->type);
        lower_bind_frag(x, value, kernel, &dist);
    } else {
        lower_bind_scalar(x, value, kernel);
    }
}

/* Expands a region's ops, then its yield with the carried types of `op`'s results. */
static void lower_region(Lower *x, IrOp *op, IrBlock *from, IrBlock *to) {
    IrBuilder saved = x->b;
    x->b = ir_builder_at_end(to);
    x->b.span = saved.span;
    lower_block(x, from);
    IrValue **values = ARENA_ARRAY(x->ctx->scratch, IrValue *, op->result_count + 1);
    for (unsigned i = 0; i < op->result_count && !x->failed; i++) values[i] = carried(x, from->last->operands[i], op->results[i].type);
    if (!x->failed) ir_yield(&x->b, op->result_count, values);
    x->b = saved;
}

static void lower_for(Lower *x, IrOp *op) {
    unsigned count = op->operand_count - 3;
    IrBlock *body = op->regions[0];
    IrValue **inits = ARENA_ARRAY(x->ctx->scratch, IrValue *, count + 1);
    for (unsigned i = 0; i < count; i++) inits[i] = carried(x, op->operands[i + 3], op->results[i].type);
    IrOp *loop = ir_for(&x->b, lower_scalar(x, op->operands[0]), lower_scalar(x, op->operands[1]), lower_scalar(x, op->operands[2]), count,
                        inits, body->args[0]->name);
    for (const IrAttr *a = op->attrs; a; a = a->next)
        if (a->kind == IR_ATTR_INT) ir_attr_set_int(loop, a->key, a->integer);
    lower_bind_scalar(x, body->args[0], loop->regions[0]->args[0]);
    for (unsigned i = 0; i < count; i++) bind_carried(x, body->args[i + 1], loop->regions[0]->args[i + 1]);
    lower_region(x, op, body, loop->regions[0]);
    for (unsigned i = 0; i < count; i++) bind_carried(x, &op->results[i], ir_result(loop, i));
}

static void lower_parallel(Lower *x, IrOp *op) {
    IrValue *operands[3];
    for (unsigned i = 0; i < 3; i++) operands[i] = lower_scalar(x, op->operands[i]);
    IrOp *loop = ir_op_create(&x->b, IR_PARALLEL, 3, operands, 0, NULL);
    IrValue *i = ir_region_add_arg(loop->regions[0], ir_type_index(x->module), op->regions[0]->args[0]->name);
    lower_bind_scalar(x, op->regions[0]->args[0], i);
    lower_region(x, op, op->regions[0], loop->regions[0]);
}

static void lower_if(Lower *x, IrOp *op) {
    IrValue *cond = lower_scalar(x, op->operands[0]);
    const IrType **types = ARENA_ARRAY(x->ctx->scratch, const IrType *, op->result_count + 1);
    for (unsigned i = 0; i < op->result_count; i++) {
        types[i] = op->results[i].type;
        if (types[i]->kind != IR_TYPE_TILE) continue;
        Dist dist = dist_of(types[i]);
        types[i] = dist_frag_type(x->module, &dist, types[i]->dtype);
    }
    IrOp *branch = ir_op_create(&x->b, IR_IF, 1, &cond, op->result_count, types);
    for (unsigned r = 0; r < 2; r++)
        if (op->regions[r]->first) lower_region(x, op, op->regions[r], branch->regions[r]);
    for (unsigned i = 0; i < op->result_count; i++) bind_carried(x, &op->results[i], ir_result(branch, i));
}

/* A tile over more blocks than its function's clusters have. */
static bool spans_blocks(const Lower *x, const IrOp *op) {
    for (unsigned i = 0; i < op->result_count; i++) {
        const Layout *l = is_tile(&op->results[i]) ? op->results[i].type->layout : NULL;
        if (l && (int64_t)1 << l->in_bits[LAYOUT_BLOCK] > x->cluster) return true;
    }
    return false;
}

static void lower_op(Lower *x, IrOp *op) {
    x->at = op;
    if (spans_blocks(x, op)) {
        lower_error(x, op, "a tile over several blocks in a kernel without clusters of so many");
        return;
    }
    switch (op->opcode) {
    case IR_CONST:
        lower_const(x, op);
        return;
    case IR_SPECIAL:
        lower_scalar_op(x, op);
        return;
    case IR_FOR:
        lower_for(x, op);
        return;
    case IR_PARALLEL:
        lower_parallel(x, op);
        return;
    case IR_IF:
        lower_if(x, op);
        return;
    case IR_VIEW:
        return; /* its accesses know it */
    case IR_TILE_LOAD:
        lower_load(x, op);
        return;
    case IR_TILE_STORE:
        lower_store(x, op);
        return;
    case IR_TILE_BROADCAST:
        lower_broadcast(x, op);
        return;
    case IR_TILE_SCALAR:
        lower_single(x, op);
        return;
    case IR_TILE_TRANSPOSE:
        lower_transpose(x, op);
        return;
    case IR_TILE_REDUCE:
        lower_reduce(x, op);
        return;
    case IR_TILE_COMBINE:
        lower_combine(x, op);
        return;
    case IR_TILE_FILL:
        lower_fill(x, op);
        return;
    case IR_TILE_IOTA:
        lower_iota(x, op);
        return;
    case IR_TILE_CONVERT:
        lower_convert(x, op);
        return;
    case IR_TILE_GEMM:
        lower_gemm(x, op);
        return;
    case IR_BUF_ALLOC:
    case IR_BUF_COPY:
    case IR_BUF_STORE:
    case IR_BUF_LOAD:
    case IR_BUF_GEMM:
    case IR_BARRIER:
    case IR_ASYNC_COMMIT:
    case IR_ASYNC_WAIT:
        lower_buf_op(x, op);
        return;
    case IR_MBAR_ALLOC:
    case IR_MBAR_DROP:
    case IR_MBAR_EXPECT:
    case IR_MBAR_WAIT:
    case IR_MBAR_ARRIVE:
    case IR_TMA_COPY:
    case IR_WGMMA_WAIT:
        lower_box_op(x, op);
        return;
    default:
        break;
    }
    if (ir_has_trait(op, IR_ELEMENTWISE))
        lower_elementwise(x, op);
    else if (!lower_along(x, op))
        lower_error(x, op, "this operation has no lowering to kernel level yet");
}

void lower_block(Lower *x, IrBlock *block) {
    for (IrOp *op = block->first; op && !x->failed; op = op->next) {
        if (ir_has_trait(op, IR_TERMINATOR)) return;
        x->b.span = op->span;
        lower_op(x, op);
    }
}

/* ---- Functions ---- */

static void create_params(Lower *x) {
    for (unsigned i = 0; i < x->from->param_count; i++) {
        const IrParam *p = &x->from->params[i];
        IrValue *arg = x->from->body->args[i];
        const IrType *type = arg->type;
        if (type->kind == IR_TYPE_TENSOR) type = ir_type_ptr(x->module, type->dtype, IR_SPACE_GLOBAL);
        IrValue *param = ir_func_add_param(x->to, p->kind, p->name, type, p->direction);
        x->to->params[i] = *p;
        if (p->kind == IR_PARAM_TENSOR && !p->type) x->to->params[i].type = arg->type;
        lower_bind_scalar(x, arg, param);
    }
    x->to->attrs = x->from->attrs;
    x->to->guard = PLANTED(13) && ir_func_has(x->from, IR_FN_POINTER_ALIGN) ? NULL : x->from->guard;
    x->to->constraint_count = x->from->constraint_count;
    x->to->constraints = x->from->constraints;
}

/* The first place that an op of the block, or of what it holds, has in the source. */
static Span first_place(const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        Span found = op->span;
        for (unsigned i = 0; !found.end && i < op->region_count; i++) found = first_place(op->regions[i]);
        if (found.end) return found;
    }
    return SPAN_NONE;
}

/* "`a` 65536, `b` 32768": what takes most of a block's shared memory, three at most. */
static const char *largest_shared(Lower *x) {
    const IrOp *taken[3] = {NULL};
    const char *text = "";
    for (unsigned n = 0; n < COUNT_OF(taken); n++) {
        for (const IrOp *op = x->to->body->first; op; op = op->next) {
            bool named = op->opcode == IR_SHARED_PTR && op != taken[0] && op != taken[1] && ir_attr_str(op, "name", NULL);
            if (named && (!taken[n] || ir_attr_int(op, "bytes", 0) > ir_attr_int(taken[n], "bytes", 0))) taken[n] = op;
        }
        if (!taken[n]) break;
        text = arena_printf(x->ctx->diags->arena, "%s%s`%s` %lld", text, n ? ", " : "", ir_attr_str(taken[n], "name", ""),
                            (long long)ir_attr_int(taken[n], "bytes", 0));
    }
    return text;
}

static void check_shared(Lower *x) {
    int64_t most = x->ctx->target->shared_bytes_block;
    if (x->shared_bytes <= most || x->failed) return;
    x->failed = true;
    Span place = first_place(x->from->body);
    if (is_reported(x->ctx, DIAG_not_lowered, place, "bytes of shared memory")) return;
    const char *text = arena_printf(x->ctx->diags->arena, "\"%s\" needs %lld bytes of shared memory, a block has %lld", x->from->name,
                                    (long long)x->shared_bytes, (long long)most);
    Diag *d = diag_report(x->ctx->diags, DIAG_not_lowered, place, text);
    const char *largest = largest_shared(x);
    if (*largest) diag_note(x->ctx->diags, d, SPAN_NONE, "most of it: %s bytes; smaller tiles or fewer stages need less", largest);
}

static bool lower_func(PassContext *ctx, IrFunc *from) {
    if (!check_ranks(ctx, from)) return false;
    Lower x = {.ctx = ctx, .module = ctx->module, .from = from, .presence = presence_cache(ctx)};
    x.to = ir_func_create(ctx->module, from->name, IR_LEVEL_KERNEL);
    x.gpu = ctx->target->kind == TARGET_CUDA;
    x.num_warps = x.gpu ? ir_func_int(from, IR_FN_NUM_WARPS, 4) : 1;
    x.cluster = x.gpu ? ir_func_cluster(from) : 1;
    x.vector_bytes = x.gpu ? ir_func_int(from, IR_FN_VECTOR_BYTES, 16) : 4;
    x.rotated = x.gpu ? ir_func_int(from, IR_FN_ROTATED, 0) : 0;
    x.row_lanes = ir_func_int(from, IR_FN_ROW_LANES, 0);
    create_params(&x);
    x.b = ir_builder_at_end(x.to->body);
    x.anchor = ir_const_index(&x.b, 0)->def;
    lower_block(&x, from->body);
    x.b = ir_builder_at_end(x.to->body);
    ir_op_create(&x.b, IR_RETURN, 0, NULL, 0, NULL);
    scratch_end(&x);
    if (!x.gpu && x.shared_bytes) ir_func_set_int(x.to, IR_FN_SHARED_BYTES, x.shared_bytes);
    if (x.gpu) {
        check_shared(&x);
        ir_func_set_int(x.to, IR_FN_NUM_WARPS, x.num_warps);
        ir_func_set_int(x.to, IR_FN_SHARED_BYTES, x.shared_bytes);
    }
    if (!x.failed) ir_simplify(x.to);
    return !x.failed;
}

bool pass_lower_to_threads(PassContext *ctx) {
    bool ok = true;
    IrFunc *last = ctx->module->last;
    for (IrFunc *f = ctx->module->first, *next; f; f = next) {
        next = f == last ? NULL : f->next;
        if (f->level != IR_LEVEL_TILE) continue;
        ok = lower_func(ctx, f) && ok;
        ir_func_remove(f);
    }
    return ok;
}
