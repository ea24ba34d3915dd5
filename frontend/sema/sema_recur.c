/* Recurrences: index notation that reads elements of what it, or an equation behind it, is about to make. An equation makes a whole
 * tensor at once, so that `Y[t] = Y[t - 1]` would read what stood in Y before: almost never what is meant. Works on the syntax
 * alone, before names and ranges are checked, for one error to stand in place of several. */
#include "sema_internal.h"

#include <string.h>

typedef struct {
    Sema *s;
    const Block *op;
    const Expr *left;                /* Y[t, n] */
    const char *index[AST_MAX_RANK]; /* the name that each axis of the left side runs by; null: none */
    unsigned count;
} Equation;

/* How one element that is read lies to the one that is made. */
typedef struct {
    const Expr *at;
    const char *name;
    bool padded_zero;
    unsigned axes; /* that are shifted */
    unsigned axis; /* the last of them */
    int64_t by;    /* along it; 0: by no known number */
} Shift;

typedef VEC(Shift) ShiftVec;

static const Expr *target_of(const Stmt *stmt) {
    return stmt->kind == STMT_ASSIGN && stmt->u.assign.target_count == 1 && stmt->u.assign.value_count == 1 ? stmt->u.assign.targets[0]
                                                                                                            : NULL;
}

static const char *base_name(const Expr *e) {
    const Expr *base = e && e->kind == EXPR_INDEX ? e->u.index.base : e;
    if (base && base->kind == EXPR_CALL && strcmp(base->u.call.callee, "pad") == 0 && base->u.call.args.count)
        base = base->u.call.args.data[0].value;
    return base && base->kind == EXPR_NAME ? base->u.name.name : NULL;
}

static bool mentions(const Expr *e, const char *name) {
    if (!e) return false;
    switch (e->kind) {
    case EXPR_NAME:
        return strcmp(e->u.name.name, name) == 0;
    case EXPR_UNARY:
    case EXPR_BINARY:
        return mentions(e->u.oper.a, name) || mentions(e->u.oper.b, name);
    case EXPR_CALL:
        for (size_t i = 0; i < e->u.call.args.count; i++)
            if (mentions(e->u.call.args.data[i].value, name)) return true;
        return false;
    case EXPR_INDEX:
        for (size_t i = 0; i < e->u.index.count; i++)
            if (mentions(e->u.index.items[i], name)) return true;
        return mentions(e->u.index.base, name);
    default:
        return false;
    }
}

/* Does the index hang on `name` but by what a tensor holds there? X[I[i]] is a gather, which runs nowhere. */
static bool runs_by(const Expr *e, const char *name) {
    if (e->kind == EXPR_INDEX) return false;
    if (e->kind == EXPR_UNARY) return runs_by(e->u.oper.a, name);
    if (e->kind == EXPR_BINARY) return runs_by(e->u.oper.a, name) || runs_by(e->u.oper.b, name);
    return mentions(e, name);
}

/* Does `name` count down in the index? N - 1 - i reverses an axis, which is no recurrence. */
static bool is_reversed(const Expr *e, const char *name) {
    if (e->kind == EXPR_UNARY) return e->u.oper.op == OPER_NEG && mentions(e->u.oper.a, name);
    if (e->kind != EXPR_BINARY) return false;
    if (e->u.oper.op == OPER_SUB && mentions(e->u.oper.b, name)) return true;
    return is_reversed(e->u.oper.a, name) || is_reversed(e->u.oper.b, name);
}

/* The whole number by which an index lies above `name`; false: not so. */
static bool offset_of(const Expr *e, const char *name, int64_t *by) {
    *by = 0;
    if (e->kind == EXPR_NAME) return strcmp(e->u.name.name, name) == 0;
    if (e->kind != EXPR_BINARY || (e->u.oper.op != OPER_ADD && e->u.oper.op != OPER_SUB)) return false;
    const Expr *a = e->u.oper.a, *b = e->u.oper.b;
    int64_t inner;
    if (e->u.oper.op == OPER_ADD && a->kind == EXPR_CONST) a = e->u.oper.b, b = e->u.oper.a;
    if (b->kind != EXPR_CONST || b->u.constant.kind != CONST_INT || !offset_of(a, name, &inner)) return false;
    *by = e->u.oper.op == OPER_ADD ? inner + b->u.constant.i : inner - b->u.constant.i;
    return true;
}

/* The name that an index on the left runs by: t in t and in t + 1. */
static const char *running_name(Sema *s, const Expr *item) {
    if (item->kind == EXPR_NAME) return item->u.name.name;
    if (item->kind == EXPR_UNARY) return running_name(s, item->u.oper.a);
    if (item->kind != EXPR_BINARY) return NULL;
    const char *a = running_name(s, item->u.oper.a);
    return a && !sema_find(s, a) ? a : running_name(s, item->u.oper.b);
}

static Equation equation_of(Sema *s, const Block *op, const Expr *left) {
    Equation q = {.s = s, .op = op, .left = left};
    for (size_t i = 0; i < left->u.index.count && i < AST_MAX_RANK; i++) q.index[q.count++] = running_name(s, left->u.index.items[i]);
    return q;
}

static Shift shift_of(const Equation *q, const Expr *e) {
    Shift shift = {.at = e, .name = base_name(e), .padded_zero = true};
    const Expr *base = e->u.index.base;
    if (base->kind == EXPR_CALL && base->u.call.args.count > 1) {
        const ConstValue *v = &base->u.call.args.data[1].value->u.constant;
        shift.padded_zero = base->u.call.args.data[1].value->kind == EXPR_CONST && (v->kind == CONST_INT ? v->i == 0 : v->f == 0);
    }
    for (unsigned i = 0; i < q->count && i < e->u.index.count; i++) {
        const Expr *item = e->u.index.items[i];
        int64_t to, from;
        if (!q->index[i] || !runs_by(item, q->index[i]) || is_reversed(item, q->index[i])) continue;
        bool known = offset_of(item, q->index[i], &from) && offset_of(q->left->u.index.items[i], q->index[i], &to);
        if (known && from == to) continue;
        shift.axes++;
        shift.axis = i;
        shift.by = known ? from - to : 0;
    }
    return shift;
}

/* All elements of `name` (null: of anything) that are read in e. */
static void collect(const Equation *q, const Expr *e, const char *name, ShiftVec *found) {
    if (!e) return;
    switch (e->kind) {
    case EXPR_UNARY:
    case EXPR_BINARY:
        collect(q, e->u.oper.a, name, found);
        collect(q, e->u.oper.b, name, found);
        return;
    case EXPR_CALL:
        for (size_t i = 0; i < e->u.call.args.count; i++) collect(q, e->u.call.args.data[i].value, name, found);
        return;
    case EXPR_INDEX:
        break;
    default:
        return;
    }
    const char *read = base_name(e);
    if (read && (!name || strcmp(read, name) == 0)) VEC_PUSH(q->s->arena, found, shift_of(q, e));
    for (size_t i = 0; i < e->u.index.count; i++) collect(q, e->u.index.items[i], name, found);
}

static bool reads_itself(Sema *s, const Block *op, const Stmt *stmt, Shift *first) {
    const Expr *left = target_of(stmt);
    const char *name = base_name(left);
    ShiftVec found = {0};
    if (!name || left->kind != EXPR_INDEX) return false;
    Equation q = equation_of(s, op, left);
    collect(&q, stmt->u.assign.values[0], name, &found);
    for (size_t i = 0; i < found.len; i++)
        if (found.data[i].axes) {
            *first = found.data[i];
            for (size_t k = i + 1; k < found.len; k++) /* another axis or another distance: no plain scan */
                if (found.data[k].axes && (found.data[k].axis != first->axis || found.data[k].by != first->by)) first->axes++;
            return true;
        }
    return false;
}

/* ---- What to write ---- */

/* The text of e with X for each X[t, n] of just the left side's indices. */
static bool whole_text(const Equation *q, const Expr *e, Str *out, bool *any) {
    const char *name = base_name(e);
    int64_t by;
    switch (e->kind) {
    case EXPR_CONST:
        str_append(out, sema_source_text(q->s, e->span));
        return true;
    case EXPR_NAME:
        for (unsigned i = 0; i < q->count; i++)
            if (q->index[i] && strcmp(q->index[i], e->u.name.name) == 0) return false;
        str_append(out, e->u.name.name);
        return sema_find(q->s, e->u.name.name) != NULL;
    case EXPR_INDEX:
        if (!name || e->u.index.base->kind != EXPR_NAME || e->u.index.count != q->count) return false;
        for (unsigned i = 0; i < q->count; i++)
            if (!q->index[i] || !offset_of(e->u.index.items[i], q->index[i], &by) || by) return false;
        str_append(out, name);
        return *any = true;
    case EXPR_UNARY:
        if (e->u.oper.op != OPER_NEG) return false;
        str_append(out, "-(");
        if (!whole_text(q, e->u.oper.a, out, any)) return false;
        str_append(out, ")");
        return true;
    case EXPR_BINARY: {
        bool sum = e->u.oper.op == OPER_ADD || e->u.oper.op == OPER_SUB;
        if (sum) str_append(out, "(");
        if (!whole_text(q, e->u.oper.a, out, any)) return false;
        str_printf(out, " %s ", oper_text(e->u.oper.op));
        bool deeper = e->u.oper.b->kind == EXPR_BINARY && e->u.oper.b->u.oper.op != OPER_ADD && e->u.oper.b->u.oper.op != OPER_SUB;
        if (deeper) str_append(out, "(");
        if (!whole_text(q, e->u.oper.b, out, any)) return false;
        if (deeper) str_append(out, ")");
        if (sum) str_append(out, ")");
        return true;
    }
    case EXPR_CALL:
        str_printf(out, "%s(", e->u.call.callee);
        for (size_t i = 0; i < e->u.call.args.count; i++) {
            if (i) str_append(out, ", ");
            if (e->u.call.args.data[i].name) return false;
            if (!whole_text(q, e->u.call.args.data[i].value, out, any)) return false;
        }
        str_append(out, ")");
        return true;
    default:
        return false;
    }
}

typedef struct {
    Str a, b;     /* y = a * before + b */
    bool tensors; /* b has a tensor */
    bool plain;   /* no a: it is 1 */
    unsigned reads;
} Linear;

/* The factors beside the element that is read. */
static bool factors(const Equation *q, const Expr *e, const Expr *read, Linear *l) {
    bool any;
    if (e == read) return true;
    if (e->kind == EXPR_BINARY && e->u.oper.op == OPER_MUL) return factors(q, e->u.oper.a, read, l) && factors(q, e->u.oper.b, read, l);
    if (!l->plain) str_append(&l->a, " * ");
    l->plain = false;
    return whole_text(q, e, &l->a, &any);
}

static bool terms(const Equation *q, const Expr *e, const Shift *at, bool minus, Linear *l) {
    if (e->kind == EXPR_BINARY && (e->u.oper.op == OPER_ADD || e->u.oper.op == OPER_SUB))
        return terms(q, e->u.oper.a, at, minus, l) && terms(q, e->u.oper.b, at, minus ^ (e->u.oper.op == OPER_SUB), l);
    if (mentions(e, at->name)) {
        if (l->reads++) return false;
        if (minus) str_append(&l->a, "-1 * "), l->plain = true;
        bool good = factors(q, e, at->at, l);
        if (minus && l->plain) str_append(&l->a, "1"), l->plain = false;
        return good;
    }
    if (l->b.len)
        str_append(&l->b, minus ? " - " : " + ");
    else if (minus)
        str_append(&l->b, "-");
    return whole_text(q, e, &l->b, &l->tensors);
}

/* Does one equation alone make the tensor? Another one gives it a beginning. */
static bool is_made_once(const Equation *q, const char *name) {
    unsigned count = 0;
    for (size_t i = 0; i < q->op->body.count; i++) {
        const char *made = base_name(target_of(q->op->body.data[i]));
        count += made && strcmp(made, name) == 0;
    }
    return count == 1;
}

static void say_scan(const Equation *q, Diag *d, const Shift *at, const Expr *value) {
    Sema *s = q->s;
    Linear l = {.plain = true};
    const char *reverse = at->by > 0 ? ", reverse=true" : "";
    str_init(&l.a);
    str_init(&l.b);
    bool exact = at->padded_zero && is_made_once(q, at->name) && terms(q, value, at, false, &l) && l.reads == 1 && l.tensors;
    for (unsigned i = 0; i < q->count; i++) exact &= q->left->u.index.items[i]->kind == EXPR_NAME;
    if (exact && l.plain)
        diag_note(s->diags, d, SPAN_NONE, "what runs along an axis is a scan; write `%s = cumsum(%s, axis=%u%s)`, which begins from 0",
                  at->name, l.b.data, at->axis, reverse);
    else if (exact)
        diag_note(s->diags, d, SPAN_NONE,
                  "what runs along an axis is a scan; write `%s = linear_scan(%s, %s, axis=%u%s)`, which begins from 0", at->name, l.a.data,
                  l.b.data, at->axis, reverse);
    else
        diag_note(s->diags, d, SPAN_NONE,
                  "what runs along an axis is a scan: `%s = linear_scan(a, b, axis=%u%s)` is y[t] = a[t] * y[t %s 1] + b[t], where a and b "
                  "do not read "
                  "`%s`; `cumsum`, `cumprod`, `cummax` serve where a + b, a * b or max is all",
                  at->name, at->axis, reverse, at->by > 0 ? "+" : "-", at->name);
    str_release(&l.a);
    str_release(&l.b);
}

static void say_old(Sema *s, Diag *d, const Shift *at) {
    const char *text = sema_source_text(s, at->at->span), *open = strrchr(text, '[');
    diag_note(s->diags, d, SPAN_NONE,
              "if what `%s` held before is meant, name it in an equation before this one, `OLD = %s`, and read `OLD%s`", at->name, at->name,
              open ? open : "[...]");
}

static void report(const Equation *q, const Shift *at, const Expr *value) {
    Sema *s = q->s;
    Diag *d = diag_report(s->diags, DIAG_recurrence, at->at->span, at->name);
    bool scan = at->axes == 1 && (at->by == 1 || at->by == -1);
    if (scan)
        say_scan(q, d, at, value);
    else
        diag_note(s->diags, d, SPAN_NONE,
                  "no operation of an operator makes elements in such an order; a sketch does: a `for` runs in order, and loads what it "
                  "has stored");
    say_old(s, d, at);
}

/* ---- Through other equations ---- */

static bool reads(const Stmt *stmt, const char *name) {
    return stmt->kind == STMT_ASSIGN && stmt->u.assign.value_count == 1 && mentions(stmt->u.assign.values[0], name);
}

/* Does equation `to` take what equation `from` makes, at once or through those between? */
static bool reaches(const Block *op, size_t from, size_t to) {
    const char *name = base_name(target_of(op->body.data[from]));
    if (!name) return false;
    if (reads(op->body.data[to], name)) return true;
    for (size_t i = from + 1; i < to; i++)
        if (reads(op->body.data[i], name) && reaches(op, i, to)) return true;
    return false;
}

/* The equation behind `at`, in index notation, that makes `name` out of what `at` makes; the count of equations: none. */
static size_t maker_behind(const Block *op, size_t at, const char *name) {
    size_t none = op->body.count;
    for (size_t i = 0; i < op->body.count; i++) {
        const Expr *left = target_of(op->body.data[i]);
        const char *made = base_name(left);
        if (!made || strcmp(made, name) != 0) continue;
        return i > at && left->kind == EXPR_INDEX && reaches(op, at, i) ? i : none;
    }
    return none;
}

/* Reads of both neighbours are no order of elements: what was there before is meant. */
static bool reads_both_ways(const ShiftVec *found, const Shift *one) {
    for (size_t i = 0; i < found->len; i++) {
        const Shift *other = &found->data[i];
        if (other->axes && strcmp(other->name, one->name) == 0 && other->axis == one->axis && (other->by > 0) != (one->by > 0)) return true;
    }
    return false;
}

static bool recurs_through_others(Sema *s, const Block *op, size_t at) {
    const Stmt *stmt = op->body.data[at];
    const Expr *left = target_of(stmt);
    ShiftVec found = {0};
    Equation q = equation_of(s, op, left);
    collect(&q, stmt->u.assign.values[0], NULL, &found);
    for (size_t i = 0; i < found.len; i++) {
        const Shift *one = &found.data[i];
        if (!one->axes || !one->by || reads_both_ways(&found, one)) continue;
        size_t maker = maker_behind(op, at, one->name);
        if (maker == op->body.count) continue;
        Diag *d = diag_report(s->diags, DIAG_recurrence, one->at->span, one->name);
        diag_note(s->diags, d, target_of(op->body.data[maker])->span, "this equation makes `%s` out of it", one->name);
        diag_note(s->diags, d, SPAN_NONE,
                  "put the equations into one; y[t] = a[t] * y[t %s 1] + b[t] is `y = linear_scan(a, b, axis=%u%s)`, where a and b do not "
                  "read `%s`",
                  one->by > 0 ? "+" : "-", one->axis, one->by > 0 ? ", reverse=true" : "", one->name);
        say_old(s, d, one);
        return true;
    }
    return false;
}

bool sema_recurs(Sema *s, const Block *op, size_t at) {
    const Stmt *stmt = op->body.data[at];
    const Expr *left = target_of(stmt);
    const char *name = base_name(left);
    Shift shift;
    if (!name || left->kind != EXPR_INDEX) return false;
    if (reads_itself(s, op, stmt, &shift)) {
        Equation q = equation_of(s, op, left);
        report(&q, &shift, stmt->u.assign.values[0]);
        return true;
    }
    for (size_t i = 0; i < op->body.count; i++) { /* `Y[0] = ...` beside a recurrence begins it, which has its error */
        const char *other = base_name(target_of(op->body.data[i]));
        if (i != at && other && strcmp(other, name) == 0 && reads_itself(s, op, op->body.data[i], &shift)) return true;
    }
    return recurs_through_others(s, op, at);
}
