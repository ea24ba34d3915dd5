/* Statements: what each one does (its action), and what it makes or writes. */
#include "sema_internal.h"

#include <string.h>

void sema_set_target(Sema *s, Stmt *stmt, Decl *d, bool is_new) {
    stmt->targets = ARENA_ARRAY(s->arena, Decl *, 1);
    stmt->target_is_new = ARENA_ARRAY(s->arena, bool, 1);
    stmt->targets[0] = d;
    stmt->target_is_new[0] = is_new;
    d->number = NULL;
    stmt->target_count = 1;
}

/* ---- Assignment ---- */

static void report_reassigned(Sema *s, const Expr *target, const Decl *d) {
    bool is_local = d->kind == DECL_LOCAL;
    Diag *diag = diag_report(s->diags, DIAG_reassigned, target->span, d->name);
    diag_note(s->diags, diag, d->span, is_local ? "`%s` gets its value here" : "`%s` is declared here", d->name);
    if (d->kind == DECL_TENSOR && (d->direction == DIR_OUT || d->direction == DIR_INOUT))
        diag_note(s->diags, diag, SPAN_NONE, "nothing reads what the equation before gives it");
    if (is_local) diag_note(s->diags, diag, SPAN_NONE, "a value that changes is a tile of rank 0: %s = alloc([])", d->name);
}

/* Whether an equation may say what the tensor holds: the first one, and those behind one whose result is read. */
static bool may_define(const Decl *d) {
    return d && d->kind == DECL_TENSOR && (d->direction == DIR_NONE || d->used);
}

/* From here on only what reads the new value counts as a use. */
static void note_defined(Decl *d) {
    if (d->kind != DECL_TENSOR) return;
    if (d->direction == DIR_NONE) d->direction = d->used ? DIR_INOUT : DIR_OUT;
    d->used = false;
}

static Decl *make_local(Sema *s, const Expr *target, Expr *value) {
    Decl *d = sema_new_decl(s, DECL_LOCAL, target->u.name.name, target->span);
    d->type = value->type;
    d->value = value;
    bool open = value->affine && value->affine->size <= AFF_VIEW_LIMIT;
    d->affine = open ? value->affine : NULL;
    d->constant = value->value;
    if (!d->affine && dtype_is_int(d->type.dtype)) d->affine = aff_var(s->aff, d, d->name);
    sema_declare(s, d);
    return d;
}

/* Several names: scalars only, so that the order of writes never matters. */
static void assign_tuple(Sema *s, Stmt *stmt) {
    size_t count = stmt->u.assign.target_count;
    stmt->targets = ARENA_ARRAY(s->arena, Decl *, count);
    for (size_t i = 0; i < count; i++) sema_expr(s, stmt->u.assign.values[i]);
    for (size_t i = 0; i < count; i++) {
        Expr *target = stmt->u.assign.targets[i], *value = stmt->u.assign.values[i];
        Decl *known = target->kind == EXPR_NAME ? sema_find(s, target->u.name.name) : NULL;
        if (known && known->type.kind == TYPE_ERROR) return;
        if (target->kind != EXPR_NAME || (!sema_is_error(value) && value->type.kind != TYPE_SCALAR)) {
            sema_error(s, DIAG_bad_target, target->span, "several names at once are assigned scalars only");
            return;
        }
        if (known && known->kind != DECL_PREDEFINED) {
            report_reassigned(s, target, known);
            return;
        }
        stmt->targets[i] = make_local(s, target, value);
    }
    stmt->target_count = count;
    stmt->action = ACTION_SCALAR;
}

static bool is_alloc(const Expr *e) {
    return e->kind == EXPR_CALL && builtin_find(e->u.call.callee, strlen(e->u.call.callee)) == BUILTIN_ALLOC;
}

static void assign_one(Sema *s, Stmt *stmt, Expr *target, Expr *value) {
    if (is_alloc(value)) {
        sema_check_alloc(s, stmt, target, value);
        return;
    }
    const Type *t = sema_expr(s, value);
    Decl *known = sema_find(s, target->u.name.name); /* an undeclared one in the value is known now */
    if (known && known->type.kind == TYPE_ERROR) return;
    if (t->kind == TYPE_ERROR) {
        if (!known) make_local(s, target, value); /* so that its uses are not reported */
        return;
    }
    if (t->kind != TYPE_SCALAR && t->kind != TYPE_TILE) {
        sema_error(s, DIAG_bad_operand, value->span, "a name holds a scalar or a tile, not %s", sema_type_text(s, t));
        return;
    }
    if (known && known->kind == DECL_TILE)
        sema_write_tile(s, stmt, known, value, false);
    else if (known && known->kind != DECL_PREDEFINED)
        report_reassigned(s, target, known);
    else if (t->kind == TYPE_TILE)
        sema_make_tile(s, stmt, target, value);
    else {
        sema_set_target(s, stmt, make_local(s, target, value), true);
        stmt->action = ACTION_SCALAR;
    }
}

static bool gives_two(const Expr *e) {
    return e->kind == EXPR_CALL && builtin_find(e->u.call.callee, strlen(e->u.call.callee)) == BUILTIN_TOPK;
}

/* v, i = topk(x, k): new names; whole tensors in an operator. */
static void assign_results(Sema *s, Stmt *stmt, DeclKind kind) {
    Expr *call = stmt->u.assign.values[0];
    size_t count = stmt->u.assign.target_count;
    stmt->targets = ARENA_ARRAY(s->arena, Decl *, count);
    stmt->target_is_new = ARENA_ARRAY(s->arena, bool, count);
    if (sema_expr(s, call)->kind == TYPE_ERROR) return;
    for (size_t i = 0; i < count; i++) {
        Expr *target = stmt->u.assign.targets[i];
        Decl *d = target->kind == EXPR_NAME ? sema_find(s, target->u.name.name) : NULL;
        bool output = kind == DECL_VALUE && may_define(d);
        Type t = sema_result_type(call, i);
        Decl *declared = kind == DECL_VALUE && !d && target->kind == EXPR_NAME ? sema_declared_value(s, target->u.name.name) : NULL;
        const Decl *typed = output ? d : declared;
        if (target->kind != EXPR_NAME || (typed && !sema_same_shape(s, &t, &typed->type))) {
            sema_error(s, DIAG_bad_target, target->span, "a result of `topk` needs a name for %s", sema_type_text(s, &t));
            return;
        }
        if (d && d->kind != DECL_PREDEFINED && !output) {
            report_reassigned(s, target, d);
            return;
        }
        if (output) {
            note_defined(d);
        } else {
            d = declared ? declared : sema_new_decl(s, kind, target->u.name.name, target->span);
            if (!declared) d->type = t;
            if (kind == DECL_TILE) d->type.kind = TYPE_TILE;
            d->site = stmt;
            d->value = kind == DECL_VALUE ? call : NULL;
            sema_declare(s, d);
            if (kind == DECL_VALUE) VEC_PUSH(s->arena, &s->values, d);
            stmt->target_is_new[i] = true;
        }
        stmt->targets[i] = d;
    }
    stmt->target_count = count;
    stmt->value = call;
    stmt->action = kind == DECL_VALUE ? ACTION_EQUATION : ACTION_COMPUTE;
}

static void check_assign(Sema *s, Stmt *stmt) {
    size_t count = stmt->u.assign.target_count;
    Expr *target = stmt->u.assign.targets[0];
    if (count == 2 && stmt->u.assign.value_count == 1 && gives_two(stmt->u.assign.values[0])) {
        assign_results(s, stmt, DECL_TILE);
        return;
    }
    if (count != stmt->u.assign.value_count) {
        sema_error(s, DIAG_bad_target, stmt->span, "%zu names and %zu values", count, stmt->u.assign.value_count);
        return;
    }
    if (count > 1)
        assign_tuple(s, stmt);
    else if (target->kind == EXPR_NAME)
        assign_one(s, stmt, target, stmt->u.assign.values[0]);
    else if (target->kind == EXPR_INDEX)
        sema_error(s, DIAG_bad_target, target->span, "a slice is written by store(tile -> %s)", sema_source_text(s, target->span));
    else if (target->kind != EXPR_ERROR)
        sema_error(s, DIAG_bad_target, target->span, "it is no name");
}

/* ---- Control flow ---- */

static bool read_range(Sema *s, Expr *e, LoopInfo *loop) {
    CallInfo info = {0};
    if (e->kind == EXPR_ERROR) return false;
    if (e->kind != EXPR_CALL || strcmp(e->u.call.callee, "range") != 0) {
        Diag *d = diag_report(s->diags, DIAG_bad_range, e->span);
        diag_note(s->diags, d, SPAN_NONE, "the form is `for i in range(stop):`, also range(start, stop) and range(start, stop, step)");
        return false;
    }
    if (!sema_bind_call(s, e, false, &info)) return false;
    int64_t step = 1;
    Expr *first = e->bound[0], *stop = e->bound[1];
    loop->lo = stop ? sema_scalar(s, first, "the start of a range") : aff_const(s->aff, 0);
    loop->hi = sema_scalar(s, stop ? stop : first, "the end of a range");
    if (e->bound[2] && !sema_const_int(s, e->bound[2], "the step of a range", &step)) return false;
    if (!loop->lo || !loop->hi) return false;
    if (step <= 0) {
        diag_report(s->diags, DIAG_bad_step, e->bound[2]->span);
        return false;
    }
    loop->step = aff_const(s->aff, step);
    const Aff *trips = aff_ceildiv(s->aff, aff_sub(s->aff, loop->hi, loop->lo), loop->step);
    bool known = aff_prove_nonneg(s->facts, trips);
    loop->trips = known ? trips : aff_max(s->aff, trips, aff_const(s->aff, 0));
    return true;
}

static void know_variable(Sema *s, LoopInfo *loop, bool has_range) {
    int64_t step, start;
    s->facts = loop->facts = aff_facts_fork(s->facts);
    if (!has_range) return;
    const Aff *last = aff_sub(s->aff, loop->hi, aff_const(s->aff, 1));
    aff_facts_range(s->facts, loop->var->affine, loop->lo, last);
    if (aff_is_const(loop->step, &step) && step > 1 && aff_is_const(loop->lo, &start) && start % step == 0)
        aff_facts_multiple(s->facts, loop->var->affine, step);
}

static void check_for(Sema *s, Stmt *stmt) {
    LoopInfo *loop = stmt->loop = ARENA_NEW(s->arena, LoopInfo);
    AffFacts *outer = s->facts;
    bool has_range = read_range(s, stmt->u.loop.range, loop);
    sema_loop_hints(s, stmt);
    loop->var = sema_new_decl(s, DECL_LOOP, stmt->u.loop.var, stmt->u.loop.var_span);
    loop->var->type = type_scalar(DTYPE_I64);
    loop->var->type.moves = true;
    loop->var->affine = aff_var(s->aff, loop->var, loop->var->name);
    loop->var->loop = stmt;
    s->block->has_parallel |= loop->parallel != PARALLEL_NONE;
    know_variable(s, loop, has_range);
    VEC_PUSH(s->arena, &s->loops, stmt);
    s->loop_depth++;
    s->stretch++;
    sema_open_scope(s);
    sema_declare(s, loop->var);
    sema_body(s, &stmt->u.loop.body);
    sema_close_scope(s);
    s->loop_depth--;
    s->stretch++;
    s->loops.len--;
    s->facts = outer;
}

/* expr >= 0 inside a branch. Kept apart from s->facts: which lanes are present must not depend on the branch. */
static void guard(Sema *s, const Aff *expr) {
    VEC_PUSH(s->arena, &s->guards, expr);
}

/* What holds where `c` does, or does not: comparisons of numbers that are computed in 64 bits, joined by and, or, not. */
static void assume(Sema *s, const Expr *c, bool holds) {
    Oper op = c->kind == EXPR_BINARY || c->kind == EXPR_UNARY ? c->u.oper.op : OPER_ADD;
    if (op == OPER_NOT) assume(s, c->u.oper.a, !holds);
    if (op == (holds ? OPER_AND : OPER_OR)) {
        assume(s, c->u.oper.a, holds);
        assume(s, c->u.oper.b, holds);
    }
    bool less = op == OPER_LT || op == OPER_LE, strict = op == OPER_LT || op == OPER_GT;
    bool ordered = less || op == OPER_GT || op == OPER_GE, equal = op == (holds ? OPER_EQ : OPER_NE);
    if ((!ordered && !equal) || c->compute != DTYPE_I64) return;
    const Aff *a = c->u.oper.a->affine, *b = c->u.oper.b->affine;
    if (!a || !b) return;
    const Aff *gap = less ? aff_sub(s->aff, b, a) : aff_sub(s->aff, a, b), *one = aff_const(s->aff, 1);
    const Aff *back = aff_sub(s->aff, aff_const(s->aff, 0), gap);
    if (equal || (holds && !strict)) guard(s, gap);
    if (equal || (!holds && strict)) guard(s, back);
    if (!equal && holds && strict) guard(s, aff_sub(s->aff, gap, one));
    if (!equal && !holds && !strict) guard(s, aff_sub(s->aff, back, one));
}

static void check_branch(Sema *s, const Expr *condition, bool holds, Body *body) {
    size_t outer = s->guards.len;
    if (condition->type.kind != TYPE_ERROR) assume(s, condition, holds);
    s->stretch++;
    sema_open_scope(s);
    sema_body(s, body);
    sema_close_scope(s);
    s->stretch++;
    s->guards.len = outer;
}

static void check_if(Sema *s, Stmt *stmt) {
    Expr *c = stmt->u.branch.condition;
    const Type *t = sema_expr(s, c);
    bool is_truth = (t->kind == TYPE_SCALAR || (t->kind == TYPE_TILE && t->rank == 0)) && t->dtype == DTYPE_BOOL;
    if (t->kind != TYPE_ERROR && !is_truth) {
        Diag *d = diag_report(s->diags, DIAG_bad_condition, c->span, sema_type_text(s, t));
        if (t->kind == TYPE_TILE && t->rank)
            diag_note(s->diags, d, SPAN_NONE, "to choose lane by lane, use where(condition, a, b)");
        else
            diag_note(s->diags, d, SPAN_NONE, "compare it with something: `if %s != 0:`", sema_source_text(s, c->span));
    }
    s->loop_depth++; /* what a branch makes is no workspace */
    check_branch(s, c, true, &stmt->u.branch.then_body);
    check_branch(s, c, false, &stmt->u.branch.else_body);
    s->loop_depth--;
}

static void report_unused(Sema *s, const Stmt *stmt) {
    const Expr *value = stmt->u.expr.value;
    const char *name = value->kind == EXPR_NAME ? value->u.name.name : "", *instead = foreign_statement(name, strlen(name));
    diag_note(s->diags, diag_report(s->diags, DIAG_unused_value, stmt->span), SPAN_NONE, "%s",
              instead ? instead : "give it a name, `y = ...`, or leave it out");
}

static void check_stmt(Sema *s, Stmt *stmt) {
    s->stmt = stmt;
    if (stmt->hint_count && stmt->kind != STMT_FOR) sema_other_hints(s, stmt);
    switch (stmt->kind) {
    case STMT_ASSIGN:
        check_assign(s, stmt);
        break;
    case STMT_FOR:
        check_for(s, stmt);
        break;
    case STMT_IF:
        check_if(s, stmt);
        break;
    case STMT_EXPR:
        if (stmt->u.expr.value->kind == EXPR_CALL)
            sema_check_call(s, stmt, stmt->u.expr.value);
        else if (stmt->u.expr.value->kind != EXPR_ERROR)
            report_unused(s, stmt);
        break;
    case STMT_ERROR:
    case STMT_HINT:
        break;
    }
}

void sema_body(Sema *s, Body *body) {
    for (size_t i = 0; i < body->count; i++) check_stmt(s, body->data[i]);
}

/* ---- Operators ---- */

static void define_tensor(Sema *s, Stmt *stmt, Decl *d, Expr *value) {
    bool declared = d->kind == DECL_TENSOR || d->dtype_name;
    if (declared && type_is_shaped(&value->type)) {
        if (!sema_repeats_to(s, &value->type, &d->type)) {
            Diag *diag = diag_report(s->diags, DIAG_target_shape, value->span, sema_type_text(s, &value->type), d->name,
                                     sema_type_text(s, &d->type));
            diag_note(s->diags, diag, d->span, "`%s` is declared here", d->name);
            return;
        }
    }
    note_defined(d);
    if (declared) sema_widen(s, value, d->type.dtype);
    sema_set_target(s, stmt, d, false);
    stmt->value = value;
    stmt->action = ACTION_EQUATION;
}

/* What an equation gives a value is no input any more, which is what views see. */
static void check_unseen(Sema *s, const Expr *target, const Decl *d) {
    if (!d || d->kind != DECL_TENSOR || !sema_is_viewed(s, d->name)) return;
    Diag *diag =
        sema_error(s, DIAG_bad_declaration, target->span, "in an operator a view sees inputs, and this equation makes `%s`", d->name);
    diag_note(s->diags, diag, SPAN_NONE, "what the view gives is an equation too: V[i] = %s[N - 1 - i]", d->name);
}

/* What a recurrence was to make is made all the same, so that its uses are not reported. */
static void give_up_equation(Sema *s, Stmt *stmt) {
    Expr *base = stmt->u.assign.targets[0]->u.index.base, *value = stmt->u.assign.values[0];
    Decl *d = base->kind == EXPR_NAME ? sema_find(s, base->u.name.name) : NULL;
    sema_set_error(value);
    if (d && d->kind == DECL_TENSOR)
        d->direction = DIR_OUT;
    else if (!d && base->kind == EXPR_NAME)
        make_local(s, base, value);
}

static void check_equation(Sema *s, const Block *op, size_t at) {
    Stmt *stmt = op->body.data[at];
    Expr *target = stmt->u.assign.targets[0], *value = stmt->u.assign.values[0];
    if (stmt->u.assign.target_count == 2 && stmt->u.assign.value_count == 1 && gives_two(value)) {
        assign_results(s, stmt, DECL_VALUE);
        return;
    }
    if (stmt->u.assign.target_count > 1 || stmt->u.assign.value_count > 1) {
        if (stmt->u.assign.target_count == stmt->u.assign.value_count)
            assign_tuple(s, stmt);
        else
            sema_error(s, DIAG_bad_target, stmt->span, "as many names as values are needed");
        return;
    }
    if (sema_recurs(s, op, at)) {
        give_up_equation(s, stmt);
        return;
    }
    sema_unwrap_whole(target);
    if (target->kind == EXPR_INDEX) {
        Expr *base = target->u.index.base;
        Decl *d = base->kind == EXPR_NAME ? sema_find(s, base->u.name.name) : NULL;
        if (d && d->type.kind == TYPE_ERROR) return;
        if (d && d->kind == DECL_VALUE) {
            report_reassigned(s, target, d);
            return;
        }
        check_unseen(s, target, d);
        sema_index_equation(s, stmt);
        if (!d) return; /* a new name */
        if (stmt->action == ACTION_EQUATION && !may_define(d))
            report_reassigned(s, target, d);
        else
            note_defined(d);
        return;
    }
    const Type *t = sema_expr(s, value);
    if (target->kind != EXPR_NAME) {
        sema_error(s, DIAG_bad_target, target->span, "it is no name");
        return;
    }
    Decl *known = sema_find(s, target->u.name.name);
    Decl *declared = known ? NULL : sema_declared_value(s, target->u.name.name);
    bool is_tensor = known && known->kind == DECL_TENSOR;
    check_unseen(s, target, known);
    if (t->kind == TYPE_ERROR) {
        if (is_tensor) known->direction = DIR_OUT;
        if (!known) make_local(s, target, value);
        return;
    }
    if (may_define(known))
        define_tensor(s, stmt, known, value);
    else if (known && known->kind != DECL_PREDEFINED)
        report_reassigned(s, target, known);
    else if (t->kind == TYPE_SCALAR && !declared) {
        sema_set_target(s, stmt, make_local(s, target, value), true);
        stmt->action = ACTION_SCALAR;
    } else {
        Decl *d = declared ? declared : sema_new_decl(s, DECL_VALUE, target->u.name.name, target->span);
        if (!declared) d->type = *t;
        d->value = value;
        sema_declare(s, d);
        VEC_PUSH(s->arena, &s->values, d);
        define_tensor(s, stmt, d, value);
    }
}

void sema_equations(Sema *s, Block *op) {
    bool any = false;
    for (size_t i = 0; i < op->body.count; i++) {
        Stmt *stmt = s->stmt = op->body.data[i];
        if (stmt->hint_count) sema_other_hints(s, stmt);
        if (stmt->kind == STMT_ASSIGN)
            check_equation(s, op, i);
        else
            diag_report(s->diags, DIAG_not_an_equation, stmt->span);
        any = true;
    }
    if (!any && !s->had_syntax_errors) diag_report(s->diags, DIAG_no_equation, op->name_span, op->name);
}
