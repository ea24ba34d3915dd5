/* Operations: arguments sorted to parameters, and the type rules of builtins.def. */
#include "analyzer.h"
#include "sema_internal.h"

#include <string.h>

/* ---- Arguments ---- */

static void unknown_operation(Sema *s, Expr *e) {
    const char *names[BUILTIN_COUNT];
    for (int id = 1; id < BUILTIN_COUNT; id++) names[id - 1] = builtin_info((BuiltinId)id)->name;
    const char *close = closest_name(e->u.call.callee, names, BUILTIN_COUNT - 1);
    Diag *d = diag_report(s->diags, DIAG_unknown_operation, e->u.call.callee_span, e->u.call.callee);
    const char *instead = foreign_operation(e->u.call.callee);
    if (instead) {
        diag_note(s->diags, d, SPAN_NONE, "%s", instead);
    } else if (close) {
        diag_note(s->diags, d, SPAN_NONE, "did you mean `%s`?", close);
        diag_fix(s->diags, d, e->u.call.callee_span, close, "use the operation of this name");
    }
}

static int find_param(const CallInfo *info, const char *name) {
    for (size_t i = 0; i < info->param_count; i++)
        if (strcmp(info->params[i].name, name) == 0) return (int)i;
    return -1;
}

/* "its form is mul(a, b, dst)" */
static void note_form(Sema *s, Diag *d, const CallInfo *info) {
    const char *text = builtin_info(info->id)->name, *gap = "(";
    for (size_t i = 0; i < info->param_count; i++, gap = ", ") {
        const BuiltinParam *p = &info->params[i];
        text = arena_printf(s->arena, "%s%s%s%s", text, p->is_output && info->id <= BUILTIN_STORE ? " -> " : gap, p->name,
                            p->is_attribute  ? "="
                            : p->is_variadic ? ", ..."
                                             : "");
    }
    diag_note(s->diags, d, SPAN_NONE, "its form is %s)", text);
}

static void unknown_argument(Sema *s, const CallInfo *info, const Arg *arg) {
    const char *names[BUILTIN_MAX_PARAMS];
    size_t count = 0;
    for (size_t i = 0; i < info->param_count; i++)
        if (info->params[i].is_attribute) names[count++] = info->params[i].name; /* the others go without a name */
    const char *usual = foreign_argument(arg->name);
    const char *close = usual && find_param(info, usual) >= 0 ? usual : closest_name(arg->name, names, count);
    const BuiltinInfo *row = builtin_info(info->id);
    Diag *d = diag_report(s->diags, DIAG_unknown_argument, arg->name_span, row->name, arg->name);
    note_form(s, d, info);
    if (!close) return;
    diag_note(s->diags, d, SPAN_NONE, "did you mean `%s`?", close);
    diag_fix(s->diags, d, arg->name_span, close, "use the argument of this name");
}

/* The parameter that the next positional argument is for, -1 when there are too many. */
static int next_param(const CallInfo *info, bool *taken, bool outputs, bool inputs) {
    for (size_t i = 0; i < info->param_count; i++) {
        bool is_output = info->params[i].is_output;
        if ((is_output ? outputs : inputs) && (!taken[i] || info->params[i].is_variadic)) return (int)i;
    }
    return -1;
}

static bool place_argument(Sema *s, CallInfo *info, const Arg *arg, bool with_outputs, bool has_arrow, Expr **slots, bool *taken) {
    bool outputs = arg->is_output || (with_outputs && !has_arrow);
    int at = arg->name ? find_param(info, arg->name) : next_param(info, taken, outputs, !arg->is_output);
    const BuiltinInfo *row = builtin_info(info->id);
    if (at < 0 && arg->name) {
        unknown_argument(s, info, arg);
        return false;
    }
    if (at < 0 || (taken[at] && !info->params[at].is_variadic)) {
        Diag *d = at < 0
                      ? sema_error(s, DIAG_bad_argument, arg->value->span, "`%s` takes no more arguments", row->name)
                      : sema_error(s, DIAG_bad_argument, arg->value->span, "`%s` of `%s` is given twice", info->params[at].name, row->name);
        note_form(s, d, info);
        return false;
    }
    taken[at] = true;
    slots[at] = arg->value;
    return true;
}

/* store(Y[0:8] <- y): read as a comparison with -y. */
static void note_arrow(Sema *s, Diag *d, const Expr *e, const CallInfo *info) {
    const Args *args = &e->u.call.args;
    const Expr *only = args->count ? args->data[0].value : NULL;
    if ((info->id != BUILTIN_LOAD && info->id != BUILTIN_STORE) || !only || only->kind != EXPR_BINARY) return;
    const Expr *b = only->u.oper.b;
    if (only->u.oper.op != OPER_LT || b->kind != EXPR_UNARY || b->u.oper.op != OPER_NEG) return;
    diag_note(s->diags, d, SPAN_NONE, "the arrow points to where it goes: %s(%s -> %s)", builtin_info(info->id)->name,
              sema_source_text(s, b->u.oper.a->span), sema_source_text(s, only->u.oper.a->span));
}

static bool report_missing(Sema *s, Expr *e, const CallInfo *info, const bool *taken, bool with_outputs) {
    for (size_t i = 0; i < info->param_count; i++) {
        const BuiltinParam *p = &info->params[i];
        if (taken[i] || p->is_optional || (p->is_output && !with_outputs)) continue;
        const BuiltinInfo *row = builtin_info(info->id);
        Diag *d = diag_report(s->diags, DIAG_missing_argument, e->span, row->name, p->name);
        note_form(s, d, info);
        note_arrow(s, d, e, info);
        if (p->accumulates) diag_note(s->diags, d, SPAN_NONE, "`%s` adds to its destination, so it has no value of its own", row->name);
        return true;
    }
    return false;
}

/* The operands of a variadic first parameter. In call form without an arrow the last positional
 * argument is the destination. */
static void gather_operands(Sema *s, Expr *e, const CallInfo *info, bool with_outputs, bool has_arrow, bool *taken) {
    const Args *args = &e->u.call.args;
    if (!info->param_count || !info->params[0].is_variadic) return;
    e->many = ARENA_ARRAY(s->arena, Expr *, args->count + 1);
    e->many_count = 0;
    for (size_t i = 0; i < args->count; i++)
        if (!args->data[i].name && !args->data[i].is_output) e->many[e->many_count++] = args->data[i].value;
    if (!e->many_count) return;
    if (with_outputs && !has_arrow && !taken[1] && e->many_count > 1) {
        e->bound[1] = e->many[--e->many_count];
        taken[1] = true;
    }
    e->bound[0] = e->many[0];
}

/* `max(x, axis=1)` and `max(x)` fold, as in PyTorch; `max(a, b)` compares. */
static BuiltinId called(const Expr *e, bool with_outputs) {
    const Args *args = &e->u.call.args;
    BuiltinId id = builtin_find(e->u.call.callee, strlen(e->u.call.callee));
    bool folds = args->count == 1 && !with_outputs;
    for (size_t i = 0; i < args->count; i++) {
        const char *name = args->data[i].name;
        folds |= name && (strcmp(name, "axis") == 0 || strcmp(name, "keepdim") == 0);
    }
    if (!folds || (id != BUILTIN_MAX && id != BUILTIN_MIN)) return id;
    return id == BUILTIN_MAX ? BUILTIN_REDUCE_MAX : BUILTIN_REDUCE_MIN;
}

bool sema_bind_call(Sema *s, Expr *e, bool with_outputs, CallInfo *info) {
    const Args *args = &e->u.call.args;
    bool taken[BUILTIN_MAX_PARAMS] = {false}, has_arrow = false;
    info->id = e->builtin = called(e, with_outputs);
    if (!info->id) {
        unknown_operation(s, e);
        return false;
    }
    info->param_count = builtin_params(info->id, s->arena, info->params);
    e->bound = ARENA_ARRAY(s->arena, Expr *, info->param_count + 1);
    e->bound_count = info->param_count;
    for (size_t i = 0; i < args->count; i++) has_arrow |= args->data[i].is_output;
    for (size_t i = 0; i < args->count; i++)
        if (!place_argument(s, info, &args->data[i], with_outputs, has_arrow, e->bound, taken)) return false;
    gather_operands(s, e, info, with_outputs, has_arrow, taken);
    if (report_missing(s, e, info, taken, with_outputs || info->id == BUILTIN_GEMM)) return false;
    info->outputs = ARENA_ARRAY(s->arena, Expr *, BUILTIN_MAX_PARAMS);
    for (size_t i = 0; i < info->param_count; i++) {
        if (!info->params[i].is_output) continue;
        info->outputs[info->output_count++] = e->bound[i];
        e->bound[i] = NULL;
    }
    return true;
}

Expr *sema_argument(const Expr *e, const CallInfo *info, const char *name) {
    int at = find_param(info, name);
    return at < 0 || (size_t)at >= e->bound_count ? NULL : e->bound[at];
}

bool sema_dtype_arg(Sema *s, Expr *e, Dtype *dtype) {
    const char *name = e->kind == EXPR_NAME                                          ? e->u.name.name
                       : e->kind == EXPR_CONST && e->u.constant.kind == CONST_STRING ? e->u.constant.s
                                                                                     : NULL;
    e->type = (Type){.kind = TYPE_STRING};
    if (name && dtype_find(name, dtype)) return true;
    *dtype = sema_dtype(s, name ? name : sema_source_text(s, e->span), e->span);
    return false;
}

/* ---- All ---- */

/* What has no type rule has no value either; only pad gets here. */
static void no_value(Sema *s, Expr *e, const BuiltinInfo *row) {
    sema_error(s, DIAG_bad_call_place, e->span, "`%s` has no value of its own; in index notation stands %s(X, 0)[i, j]", row->name,
               row->name);
    sema_set_error(e);
}

void sema_apply(Sema *s, Expr *e, const CallInfo *info) {
    const BuiltinInfo *row = builtin_info(e->builtin);
    ANALYZER_ASSUME(e->bound[0] || row->rule == RULE_OTHER || row->rule == RULE_IOTA ||
                    row->rule == RULE_RANDOM); /* a call without its first operand is reported before */
    if (row->rule != RULE_OTHER && row->rule != RULE_IOTA && row->rule != RULE_RANDOM && !sema_check_value_kinds(s, e, row->name)) {
        sema_set_error(e);
        return;
    }
    switch (row->rule) {
    case RULE_UNARY:
    case RULE_UNARY_REAL:
    case RULE_BINARY:
    case RULE_BINARY_REAL:
    case RULE_TERNARY:
    case RULE_COMPARE:
    case RULE_LOGIC:
    case RULE_BITS:
    case RULE_WHERE:
        sema_elementwise(s, e, row);
        break;
    case RULE_CAST:
        sema_cast(s, e, info);
        break;
    case RULE_REDUCE:
    case RULE_REDUCE_REAL:
    case RULE_ARG_REDUCE:
        sema_reduce(s, e, info, row);
        break;
    case RULE_COUNT:
        sema_count_lanes(s, e, info, row);
        break;
    case RULE_DEFINED:
        sema_define(s, e);
        break;
    case RULE_SAME_SHAPE:
        sema_keep_shape(s, e, info, row);
        break;
    case RULE_LINEAR_SCAN:
        sema_linear_scan(s, e, info);
        break;
    case RULE_GEMM:
    case RULE_MATMUL:
    case RULE_DOT:
        sema_product(s, e, info, row);
        break;
    case RULE_CONV:
        sema_conv(s, e, info);
        break;
    case RULE_TRANSPOSE:
        sema_transpose(s, e, info);
        break;
    case RULE_RESHAPE:
    case RULE_BROADCAST:
        sema_reshape(s, e, row);
        break;
    case RULE_TOPK:
    case RULE_CONCAT:
    case RULE_IOTA:
    case RULE_RANDOM:
        sema_apply_axes(s, e, info);
        break;
    case RULE_OTHER:
    case RULE_NONE:
        if (e->builtin == BUILTIN_CEIL)
            sema_ceil_rule(s, e);
        else
            no_value(s, e, row);
    }
}

/* Types the operands that are values; attributes are read by the rules. */
static bool check_inputs(Sema *s, Expr *e, const CallInfo *info) {
    const BuiltinRule rule = builtin_info(info->id)->rule;
    bool good = true;
    for (size_t i = 0; i < info->param_count; i++) {
        if (!e->bound[i] || info->params[i].is_attribute) continue;
        if (i == 1 && (rule == RULE_RESHAPE || rule == RULE_BROADCAST)) continue;
        if (rule == RULE_IOTA || (rule == RULE_RANDOM && sema_is_shape(e->bound[i]))) continue;
        good &= sema_expr(s, e->bound[i])->kind != TYPE_ERROR;
    }
    for (size_t i = 0; i < e->many_count; i++) good &= sema_expr(s, e->many[i])->kind != TYPE_ERROR;
    return good;
}

void sema_call_bound(Sema *s, Expr *e, const CallInfo *info) {
    if (check_inputs(s, e, info))
        sema_apply(s, e, info);
    else
        sema_set_error(e);
}

static bool is_index_form(Sema *s, const Expr *e) {
    if (s->block->kind != BLOCK_OPERATOR || e->u.call.args.count < 2) return false;
    for (size_t i = 0; i < e->u.call.args.count; i++)
        if (e->u.call.args.data[i].name) return false;
    const Arg *first = &e->u.call.args.data[0];
    if (first->name || first->value->decl) return false; /* a name of a definition */
    if (first->value->kind == EXPR_IN) return true;
    if (first->value->kind == EXPR_TUPLE) return true;
    return first->value->kind == EXPR_NAME && !sema_find(s, first->value->u.name.name);
}

void sema_call(Sema *s, Expr *e) {
    CallInfo info = {0};
    BuiltinId id = builtin_find(e->u.call.callee, strlen(e->u.call.callee));
    BuiltinClass class = id ? builtin_info(id)->class : CLASS_NONE;
    bool reduces = class == CLASS_REDUCE || id == BUILTIN_MAX || id == BUILTIN_MIN;
    if (reduces && is_index_form(s, e)) {
        e->builtin = id == BUILTIN_MAX ? BUILTIN_REDUCE_MAX : id == BUILTIN_MIN ? BUILTIN_REDUCE_MIN : id;
        sema_index_call(s, e);
        return;
    }
    if (class == CLASS_CORE || class == CLASS_DATA || id == BUILTIN_RANGE) {
        Diag *d = diag_report(s->diags, DIAG_bad_call_place, e->span, arena_printf(s->arena, "`%s` is no value", e->u.call.callee));
        const char *instead = foreign_operation(e->u.call.callee);
        if (id == BUILTIN_LOAD)
            diag_note(s->diags, d, SPAN_NONE,
                      "make a tile of the slice's shape and load into it: x = alloc([...]), then "
                      "load(TENSOR[...] -> x)");
        else
            diag_note(s->diags, d, SPAN_NONE, "%s", instead ? instead : builtin_info(id)->summary);
        sema_set_error(e);
        return;
    }
    if (!sema_bind_call(s, e, false, &info)) {
        for (size_t i = 0; !id && i < e->u.call.args.count; i++) /* what a name=value would mean nobody knows */
            if (!e->u.call.args.data[i].name) sema_expr(s, e->u.call.args.data[i].value);
        sema_set_error(e);
        return;
    }
    sema_call_bound(s, e, &info);
}
