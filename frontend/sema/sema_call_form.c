/* Statements that call: allocs, loads, stores, and where their results go. */
#include "sema_internal.h"

#include <string.h>

/* ---- alloc ---- */

static void read_init(Sema *s, Expr *init, Decl *tile) {
    if (sema_expr(s, init)->kind == TYPE_ERROR) return;
    if (init->type.kind != TYPE_SCALAR || init->value.kind == CONST_NONE) {
        sema_error(s, DIAG_not_constant, init->span, "init=");
        return;
    }
    tile->has_init = true;
    tile->init = init->value;
}

void sema_check_alloc(Sema *s, Stmt *stmt, Expr *target, Expr *call) {
    CallInfo info = {0};
    Decl *d = sema_new_decl(s, DECL_TILE, target->u.name.name, target->span);
    d->site = stmt;
    d->type.kind = TYPE_ERROR;
    if (sema_bind_call(s, call, false, &info)) {
        size_t rank;
        const Aff **shape = sema_shape_list(s, call->bound[0], &rank);
        Expr *dtype = sema_argument(call, &info, "dtype"), *init = sema_argument(call, &info, "init");
        Expr *hints = sema_argument(call, &info, "llm_hint");
        if (shape) d->type = (Type){.kind = TYPE_TILE, .rank = (uint8_t)rank, .shape = shape};
        if (dtype && !sema_dtype_arg(s, dtype, &d->type.dtype)) d->type.kind = TYPE_ERROR; /* of which nothing else is said */
        d->hints = hints;
        if (hints) sema_alloc_hints(s, hints, d);
        if (init) read_init(s, init, d);
    }
    d->is_workspace = sema_is_memory(s, d);
    sema_declare(s, d);
    sema_set_target(s, stmt, d, true);
    if (s->loop_depth == 0) sema_views_of(s, d);
    if (d->type.kind != TYPE_ERROR) stmt->action = ACTION_ALLOC;
}

/* ---- Writing tiles ---- */

static bool computes(const Expr *e) {
    const BuiltinInfo *row = builtin_info(e->builtin);
    if (e->kind != EXPR_UNARY && e->kind != EXPR_BINARY && e->kind != EXPR_CALL) return false;
    return row->rule != RULE_COMPARE && row->rule != RULE_LOGIC && row->rule != RULE_CAST && row->rule != RULE_ARG_REDUCE &&
           (row->class == CLASS_ELEMENTWISE || row->class == CLASS_REDUCE || row->class == CLASS_COMPOSITE);
}

/* An operation computes in the join of its operands and its destination, floats in f32 at least:
 * writing the tile rounds (for + - * / sqrt of narrow floats the same value; targets have f32). */
static void join_destination(Sema *s, Expr *e, Dtype dst) {
    sema_widen(s, e, dst);
    if (e->expansion) sema_define_into(s, e, dst);
    if (e->expansion || !computes(e) || e->type.kind == TYPE_SCALAR) return;
    Dtype raw = sema_join_operands(e);
    if (dtype_is_float(e->compute) && !dtype_is_float(raw)) raw = e->compute; /* sqrt of integers */
    e->compute = e->type.dtype = dtype_temporary(dtype_join(raw, dst));
}

static void settle_target(Sema *s, Decl *d, Expr *value) {
    if (builtin_info(value->builtin)->rule == RULE_CAST && value->type.dtype == DTYPE_NONE)
        value->type.dtype = value->compute = d->type.dtype;
    if (d->type.dtype == DTYPE_NONE)
        d->type.dtype = value->type.kind == TYPE_SCALAR ? DTYPE_F32 : value->type.dtype;
    else
        join_destination(s, value, d->type.dtype);
}

/* Whether the value has the tile's shape; a scalar fills a tile where `fills`. */
static bool sema_fits_tile(Sema *s, const Expr *value, const Decl *d, bool fills) {
    if (value->type.kind == TYPE_SCALAR && (fills || d->type.rank == 0)) return true;
    if (value->type.kind == TYPE_TILE && sema_same_shape(s, &value->type, &d->type)) return true;
    Diag *diag =
        diag_report(s->diags, DIAG_target_shape, value->span, sema_type_text(s, &value->type), d->name, sema_type_text(s, &d->type));
    diag_note(s->diags, diag, d->span, "`%s` is made here", d->name);
    if (value->type.kind == TYPE_SCALAR)
        diag_note(s->diags, diag, SPAN_NONE, "to fill the tile with a number: copy(NUMBER, %s), or alloc(..., init=NUMBER)", d->name);
    return false;
}

void sema_write_tile(Sema *s, Stmt *stmt, Decl *d, Expr *value, bool fills) {
    if (!sema_fits_tile(s, value, d, fills)) return;
    if (value->kind == EXPR_NAME && value->type.kind == TYPE_TILE &&
        value->type.dtype == DTYPE_NONE) /* a copy of a tile that nothing gave a type yet */
        value->decl->type.dtype = value->type.dtype = d->type.dtype != DTYPE_NONE ? d->type.dtype : DTYPE_F32;
    settle_target(s, d, value);
    if (value->type.dtype == DTYPE_NONE) {
        sema_error(s, DIAG_missing_dtype, value->span, "cast");
        return;
    }
    sema_set_target(s, stmt, d, false);
    stmt->value = value;
    stmt->action = ACTION_COMPUTE;
}

void sema_make_tile(Sema *s, Stmt *stmt, const Expr *target, Expr *value) {
    Decl *d = sema_new_decl(s, DECL_TILE, target->u.name.name, target->span);
    d->type = value->type;
    d->type.kind = TYPE_TILE;
    d->site = stmt;
    if (d->type.dtype == DTYPE_NONE) d->type.dtype = DTYPE_F32;
    sema_declare(s, d);
    sema_set_target(s, stmt, d, true);
    stmt->value = value;
    stmt->action = ACTION_COMPUTE;
}

/* A tile that stands as destination of a call or a load. */
static Decl *destination(Sema *s, Expr *e, const char *what) {
    if (e->kind == EXPR_INDEX) {
        if (sema_slice(s, e) && e->decl->kind == DECL_TILE)
            sema_error(s, DIAG_bad_target, e->span, "%s goes into a whole tile; a slice of one is written by store", what);
        else if (!sema_is_error(e))
            sema_error(s, DIAG_bad_target, e->span, "%s goes into a tile; a tensor is written by store", what);
        return NULL;
    }
    Decl *d = e->kind == EXPR_NAME ? sema_find(s, e->u.name.name) : NULL;
    if (e->kind == EXPR_NAME && !d) {
        sema_undeclared(s, e->u.name.name, e->span, USE_TILE);
        return NULL;
    }
    if (d && d->type.kind == TYPE_ERROR) return NULL;
    if (!d || d->kind != DECL_TILE) {
        sema_error(s, DIAG_bad_target, e->span, "%s goes into a tile; make one with alloc", what);
        return NULL;
    }
    e->decl = d;
    e->type = d->type;
    return d;
}

/* ---- Call form ---- */

/* A single lane cannot be absent: it lies inside, or pad= says what it is. So for a row of a tile. */
static bool check_single(Sema *s, const Stmt *stmt, const Expr *slice, const Decl *tile) {
    bool of_tile = slice->decl->kind == DECL_TILE && !slice->decl->is_workspace;
    if ((tile->type.rank && !of_tile) || stmt->pad) return true;
    for (size_t i = 0; i < slice->axis_count; i++) {
        const AxisIndex *axis = &slice->axes[i];
        const Aff *dim = slice->decl->type.shape[i];
        if (axis->kind != AXIS_POINT || sema_is_inside(s, axis->start, dim)) continue;
        Diag *d = diag_report(s->diags, DIAG_scalar_presence, axis->span, tile->name, slice->decl->name, sema_aff_text(s, dim));
        Span call = stmt->u.expr.value->span;
        diag_fix(s->diags, d, (Span){call.file, call.end - 1, call.end - 1}, ", pad=0", "say what stands outside");
        return false;
    }
    return true;
}

/* A slice of a tile takes one index tile, and a store none: a tile is no memory that lanes could meet in. */
static bool check_part_indices(Sema *s, const Expr *slice, bool stores) {
    bool of_tile = slice->decl->kind == DECL_TILE && !slice->decl->is_workspace;
    unsigned found = stores;
    for (size_t i = 0; of_tile && i < slice->axis_count; i++) {
        if (slice->axes[i].kind != AXIS_GATHER || found++ == 0) continue;
        Diag *d = diag_report(s->diags, DIAG_tile_slice_index, slice->axes[i].span, slice->decl->name,
                              stores ? "is not stored to by an index tile" : "has one index tile in a slice");
        diag_note(s->diags, d, slice->decl->span, "store it to a workspace, and %s there", stores ? "scatter" : "gather");
        return false;
    }
    return true;
}

static void check_load(Sema *s, Stmt *stmt, Expr *call, const CallInfo *info) {
    Expr *source = call->bound[0], *target = info->outputs[0], *pad = sema_argument(call, info, "pad");
    Decl *d = destination(s, target, "a load");
    Decl *named = source->kind == EXPR_NAME ? sema_find(s, source->u.name.name) : NULL;
    if (pad && sema_expr(s, pad)->kind != TYPE_ERROR && pad->value.kind == CONST_NONE) sema_error(s, DIAG_not_constant, pad->span, "pad=");
    stmt->pad = pad;
    stmt->value = source;
    stmt->into = target;
    if (named && named->kind == DECL_TILE && !named->is_workspace && !pad) {
        sema_expr(s, source);
        if (d && !sema_is_error(source)) sema_write_tile(s, stmt, d, source, false);
        return;
    }
    if (source->kind == EXPR_NAME)
        sema_whole_slice(s, source);
    else if (source->kind == EXPR_INDEX)
        sema_slice(s, source);
    else
        sema_error(s, DIAG_bad_operand, source->span, "load reads a slice of a tensor, TENSOR[a:b, ...]");
    if (!d || !source->decl || sema_is_error(source) || source->type.kind != TYPE_TENSOR) return;
    if (!check_part_indices(s, source, false)) return;
    Decl *from = sema_memory(source->decl);
    from->direction = from->direction == DIR_NONE || from->direction == DIR_IN ? DIR_IN : DIR_INOUT;
    if (!sema_slice_fits(s, source, d, target->span) || !check_single(s, stmt, source, d)) return;
    if (from->type.dtype == DTYPE_NONE) from->type.dtype = DTYPE_F32;
    if (d->type.dtype == DTYPE_NONE) d->type.dtype = from->type.dtype;
    sema_set_target(s, stmt, d, false);
    stmt->action = ACTION_LOAD;
}

static void read_mode(Sema *s, Stmt *stmt, const Expr *mode) {
    static const char *const MODES[] = {"set", "add", "max", "min"};
    const char *text = mode->kind == EXPR_NAME                                             ? mode->u.name.name
                       : mode->kind == EXPR_CONST && mode->u.constant.kind == CONST_STRING ? mode->u.constant.s
                                                                                           : "";
    for (size_t i = 0; i < COUNT_OF(MODES); i++)
        if (strcmp(text, MODES[i]) == 0) {
            stmt->mode = (StoreMode)i;
            return;
        }
    sema_error(s, DIAG_bad_argument, mode->span, "mode= is set, add, max or min");
}

static Decl *stored_tile(Sema *s, Expr *value, const Expr *target) {
    Decl *d = value->kind == EXPR_NAME ? sema_find(s, value->u.name.name) : NULL;
    if (value->kind == EXPR_NAME && sema_expr(s, value)->kind == TYPE_ERROR) return NULL;
    if (d && d->kind == DECL_TILE) return d;
    Diag *diag = sema_error(s, DIAG_bad_operand, value->span, "store writes a tile by its name; compute into one first");
    if (value->kind == EXPR_INDEX && target->kind == EXPR_NAME)
        diag_note(s->diags, diag, SPAN_NONE, "the arrow points to where it goes: store(%s -> %s); a tile is filled by load",
                  sema_source_text(s, target->span), sema_source_text(s, value->span));
    return NULL;
}

/* A tile made of numbers that f64 is added to, or that is stored as f64. */
static void widen_tile(Sema *s, Decl *d, Dtype dtype) {
    Expr name = {.kind = EXPR_NAME, .decl = d, .type = d->type};
    sema_widen(s, &name, dtype);
}

static void check_store(Sema *s, Stmt *stmt, Expr *call, const CallInfo *info) {
    Expr *value = call->bound[0], *target = info->outputs[0];
    Expr *mode = sema_argument(call, info, "mode"), *unique = sema_argument(call, info, "unique");
    Decl *tile = stored_tile(s, value, target);
    if (mode) read_mode(s, stmt, mode);
    if (unique) sema_const_bool(s, unique, "unique=", &stmt->unique);
    if (target->kind == EXPR_NAME)
        sema_whole_slice(s, target);
    else if (target->kind == EXPR_INDEX)
        sema_slice(s, target);
    else
        sema_error(s, DIAG_bad_target, target->span, "store writes a slice of a tensor, TENSOR[a:b, ...]");
    if (!tile || !target->decl || sema_is_error(target) || target->type.kind != TYPE_TENSOR) return;
    Decl *into = sema_memory(target->decl);
    bool first_updates = into->direction == DIR_NONE && stmt->mode != STORE_SET;
    into->direction = into->direction == DIR_IN || into->direction == DIR_INOUT || first_updates ? DIR_INOUT : DIR_OUT;
    for (const Decl *view = target->decl; view->kind == DECL_VIEW; view = view->base) {
        if (sema_view_is_injective(s, view)) continue;
        Diag *d = diag_report(s->diags, DIAG_view_store, target->span, target->decl->name,
                              "two elements of it may be the same element of the tensor");
        diag_note(s->diags, d, view->span, "`%s` is declared here", view->name);
        return;
    }
    if (!check_part_indices(s, target, true) || !sema_slice_fits(s, target, tile, value->span)) return;
    if (tile->type.dtype == DTYPE_NONE) tile->type.dtype = DTYPE_F32;
    if (into->type.dtype == DTYPE_NONE) into->type.dtype = tile->type.dtype;
    if (stmt->mode == STORE_ADD && into->type.dtype == DTYPE_BOOL) {
        sema_error(s, DIAG_bad_argument, mode ? mode->span : stmt->span, "truth values have no sum: mode=max is `or`, mode=min is `and`");
        return;
    }
    widen_tile(s, tile, into->type.dtype);
    value->type.dtype = tile->type.dtype;
    stmt->value = value;
    stmt->into = target;
    stmt->action = ACTION_STORE;
    if (into->kind == DECL_TILE && !into->is_workspace) sema_set_target(s, stmt, into, false);
}

static void check_gemm(Sema *s, Stmt *stmt, Decl *d, Expr *call) {
    if (!sema_same_shape(s, &call->type, &d->type)) {
        sema_fits_tile(s, call, d, false);
        return;
    }
    if (d->type.dtype == DTYPE_NONE) d->type.dtype = call->type.dtype;
    widen_tile(s, d, call->compute);
    call->type.dtype = call->compute = dtype_temporary(dtype_join(call->compute, d->type.dtype));
    sema_set_target(s, stmt, d, false);
    stmt->value = call;
    stmt->action = ACTION_COMPUTE;
}

Type sema_result_type(const Expr *call, size_t i) {
    Type t = call->type;
    if (i) t.dtype = DTYPE_I64;
    return t;
}

/* Several destinations, of one shape each. */
static void check_results(Sema *s, Stmt *stmt, Expr *call, const CallInfo *info) {
    size_t count = info->output_count;
    Decl **targets = ARENA_ARRAY(s->arena, Decl *, count);
    for (size_t i = 0; i < count; i++) {
        targets[i] = destination(s, info->outputs[i], "a result");
        if (!targets[i] || sema_is_error(call)) return;
        Expr result = *call;
        result.type = sema_result_type(call, i);
        if (!sema_fits_tile(s, &result, targets[i], false)) return;
        if (targets[i]->type.dtype == DTYPE_NONE) targets[i]->type.dtype = result.type.dtype;
        for (size_t k = 0; k < i; k++)
            if (targets[k] == targets[i]) {
                sema_error(s, DIAG_bad_target, info->outputs[i]->span, "two results go into one tile");
                return;
            }
    }
    stmt->targets = targets;
    stmt->target_is_new = ARENA_ARRAY(s->arena, bool, count);
    stmt->target_count = count;
    stmt->value = call;
    stmt->action = ACTION_COMPUTE;
}

void sema_check_call(Sema *s, Stmt *stmt, Expr *call) {
    CallInfo info = {0};
    BuiltinId id = builtin_find(call->u.call.callee, strlen(call->u.call.callee));
    BuiltinClass class = id ? builtin_info(id)->class : CLASS_NONE;
    if (id == BUILTIN_ALLOC || class == CLASS_HOST || class == CLASS_DATA) {
        sema_error(s, DIAG_bad_call_place, call->span,
                   id == BUILTIN_ALLOC ? "alloc makes a tile and needs a name: x = alloc(...)"
                                       : "this stands in a size or a case, not alone");
        return;
    }
    if (!sema_bind_call(s, call, true, &info)) return;
    if (id == BUILTIN_LOAD)
        check_load(s, stmt, call, &info);
    else if (id == BUILTIN_STORE)
        check_store(s, stmt, call, &info);
    else if (info.output_count > 1) {
        sema_call_bound(s, call, &info);
        check_results(s, stmt, call, &info);
    } else {
        sema_call_bound(s, call, &info);
        Decl *d = info.output_count ? destination(s, info.outputs[0], "a result") : NULL;
        if (!d || sema_is_error(call)) return;
        if (id == BUILTIN_GEMM)
            check_gemm(s, stmt, d, call);
        else
            sema_write_tile(s, stmt, d, call, true);
    }
}
