/* conv2d of whole tensors, x[N, C, H, W] and weight[O, C / groups, R, S]. */
#include "sema_internal.h"

static const Aff *add_const(Sema *s, const Aff *a, int64_t value) {
    return aff_add(s->aff, a, aff_const(s->aff, value));
}

static bool check_rank(Sema *s, const Expr *operand, unsigned rank, const char *axes) {
    if (operand->type.kind == TYPE_TENSOR && operand->type.rank == rank) return true;
    sema_error(s, DIAG_bad_operand, operand->span, "`conv2d` needs a tensor %s here, not %s", axes, sema_type_text(s, &operand->type));
    return false;
}

static bool check_place(Sema *s, const Expr *e) {
    if (s->block->kind == BLOCK_OPERATOR) return true;
    Diag *d = sema_error(s, DIAG_bad_call_place, e->span, "`conv2d` is of whole tensors");
    diag_note(s->diags, d, SPAN_NONE,
              "in a sketch it is a product: see the patches of X as a matrix, `view A[n: N, y: OH, "
              "x: OW, q: C*R*S] = X[n, q//(R*S), y+q//S%%R, x+q%%S] pad 0`, load tiles of it and "
              "of the weights, and multiply them with gemm");
    return false;
}

static bool check_operands(Sema *s, Expr *e) {
    const Expr *x = e->bound[0], *weight = e->bound[1], *bias = e->bound[2];
    if (!check_rank(s, x, 4, "[N, C, H, W]") || !check_rank(s, weight, 4, "[O, C / groups, R, S]") ||
        (bias && !check_rank(s, bias, 1, "[O]")))
        return false;
    sema_factor_types(s, e);
    x = e->bound[0], weight = e->bound[1];
    if (x->type.dtype == weight->type.dtype && x->type.dtype != DTYPE_BOOL) return true;
    if (x->type.dtype == DTYPE_BOOL && weight->type.dtype == DTYPE_BOOL) {
        sema_error(s, DIAG_bad_operand, x->span, "`conv2d` needs numbers, not %s", sema_type_text(s, &x->type));
        return false;
    }
    Diag *d = diag_report(s->diags, DIAG_product_types, e->span, "conv2d", dtype_name(x->type.dtype), dtype_name(weight->type.dtype));
    diag_note(s->diags, d, SPAN_NONE, "convert one of them: `cast(%s, dtype=%s)`", sema_source_text(s, weight->span),
              dtype_name(x->type.dtype));
    return false;
}

/* One integer for both axes or a pair, rows first; both stay when it is absent. */
static bool read_pair(Sema *s, const Expr *e, const CallInfo *info, const char *name, int64_t least, int64_t pair[2]) {
    enum { LARGEST = 1 << 20 };
    Expr *arg = sema_argument(e, info, name);
    if (!arg) return true;
    bool is_list = sema_is_shape(arg);
    if (is_list && arg->u.list.count != 2) {
        sema_error(s, DIAG_bad_argument, arg->span, "%s= is an integer or a pair, (rows, columns)", name);
        return false;
    }
    for (size_t i = 0; i < 2; i++) {
        Expr *item = is_list ? arg->u.list.items[i] : arg;
        if (!sema_const_int(s, item, name, &pair[i])) return false;
        if (pair[i] >= least && pair[i] <= LARGEST) continue;
        sema_error(s, DIAG_bad_argument, item->span, "%s= is %lld or more%s", name, (long long)least,
                   pair[i] > LARGEST ? ", and at most 2^20" : "");
        return false;
    }
    if (is_list) arg->type = (Type){.kind = TYPE_LIST};
    return true;
}

/* The output channels of one group are O / groups; null when that is not whole, after a report. */
static const Aff *group_width(Sema *s, const Expr *e, const Expr *arg, const Aff *groups) {
    const Aff *outputs = e->bound[1]->type.shape[0];
    int64_t count;
    if (sema_same_extent(s, groups, outputs)) return aff_const(s->aff, 1);
    if (!aff_is_const(groups, &count)) {
        sema_error(s, DIAG_bad_argument, arg->span, "groups= is a constant, or the number of output channels, %s",
                   sema_aff_text(s, outputs));
        return NULL;
    }
    if (count >= 1 && aff_prove_eq(s->facts, aff_mod(s->aff, outputs, groups), aff_const(s->aff, 0)))
        return aff_floordiv(s->aff, outputs, groups);
    const char *text = sema_aff_text(s, outputs);
    bool known = aff_is_const(outputs, &(int64_t){0});
    Diag *d =
        sema_error(s, DIAG_bad_argument, arg->span, "groups=%lld is not known to divide the %s output channels", (long long)count, text);
    if (count >= 1 && !known)
        diag_note(s->diags, d, SPAN_NONE, "state it as a constraint of the symbols: %s %% %lld == 0", text, (long long)count);
    return NULL;
}

static bool read_groups(Sema *s, const Expr *e, const CallInfo *info, Window *w) {
    const Type *x = &e->bound[0]->type, *weight = &e->bound[1]->type;
    Expr *arg = sema_argument(e, info, "groups");
    const Aff *groups = arg ? sema_scalar(s, arg, "groups") : aff_const(s->aff, 1);
    if (!groups) return false;
    w->group_width = arg ? group_width(s, e, arg, groups) : weight->shape[0];
    if (!w->group_width) return false;
    const Aff *channels = aff_mul(s->aff, groups, weight->shape[1]);
    if (sema_same_extent(s, x->shape[1], channels)) return true;
    Diag *d = diag_report(s->diags, DIAG_product_extents, e->span, "conv2d", sema_aff_text(s, x->shape[1]), sema_aff_text(s, channels));
    diag_note(s->diags, d, SPAN_NONE, "x has %s channels; groups times the weight's second axis is %s", sema_aff_text(s, x->shape[1]),
              sema_aff_text(s, channels));
    return false;
}

/* (H + 2*p - d*(R-1) - 1) // s + 1; null after a report when the window may be the larger. */
static const Aff *result_extent(Sema *s, const Expr *e, const Window *w, unsigned i) {
    const Aff *size = e->bound[0]->type.shape[2 + i], *window = e->bound[1]->type.shape[2 + i];
    const Aff *reach = aff_mul(s->aff, aff_const(s->aff, w->dilation[i]), add_const(s, window, -1));
    const Aff *room = add_const(s, aff_sub(s->aff, size, reach), 2 * w->padding[i] - 1);
    const Aff *extent = aff_simplify(s->facts, add_const(s, aff_floordiv(s->aff, room, aff_const(s->aff, w->stride[i])), 1));
    int64_t known;
    if (aff_prove_nonneg(s->facts, extent)) return extent;
    if (aff_is_const(extent, &known)) {
        sema_error(s, DIAG_bad_extent, e->span, "the window is larger than the padded %s of x", i ? "columns" : "rows");
        return NULL;
    }
    Diag *d = sema_error(s, DIAG_bad_extent, e->span, "the result's %s number %s, which may be negative", i ? "columns" : "rows",
                         sema_aff_text(s, extent));
    diag_note(s->diags, d, SPAN_NONE, "state that the window fits: symbols: %s >= %s", sema_aff_text(s, size),
              sema_aff_text(s, add_const(s, reach, 1 - 2 * w->padding[i])));
    return NULL;
}

static bool check_bias(Sema *s, const Expr *e) {
    const Expr *bias = e->bound[2];
    const Aff *outputs = e->bound[1]->type.shape[0];
    if (!bias || sema_same_extent(s, bias->type.shape[0], outputs)) return true;
    sema_error(s, DIAG_bad_operand, bias->span, "the bias has %s elements for %s output channels", sema_aff_text(s, bias->type.shape[0]),
               sema_aff_text(s, outputs));
    return false;
}

static bool read_window(Sema *s, const Expr *e, const CallInfo *info, Window *w) {
    return read_pair(s, e, info, "stride", 1, w->stride) && read_pair(s, e, info, "padding", 0, w->padding) &&
           read_pair(s, e, info, "dilation", 1, w->dilation) && read_groups(s, e, info, w);
}

void sema_conv(Sema *s, Expr *e, const CallInfo *info) {
    Window *w = ARENA_NEW(s->arena, Window);
    *w = (Window){.stride = {1, 1}, .dilation = {1, 1}};
    const Aff **shape = ARENA_ARRAY(s->arena, const Aff *, AST_MAX_RANK);
    if (!check_place(s, e) || !check_operands(s, e) || !check_bias(s, e) || !read_window(s, e, info, w) ||
        !(shape[2] = result_extent(s, e, w, 0)) || !(shape[3] = result_extent(s, e, w, 1))) {
        sema_set_error(e);
        return;
    }
    const Type *x = &e->bound[0]->type;
    bool small_int = dtype_is_int(x->dtype) && dtype_size(x->dtype) < 4;
    shape[0] = x->shape[0];
    shape[1] = e->bound[1]->type.shape[0];
    e->window = w;
    e->compute = small_int ? DTYPE_I32 : dtype_temporary(x->dtype);
    e->type = (Type){.kind = TYPE_TENSOR, .rank = 4, .shape = shape, .dtype = e->compute};
    if (e->bound[2]) e->type.dtype = dtype_temporary(dtype_join(e->compute, e->bound[2]->type.dtype));
}
