/* Text form of affine expressions: printer and parser. */
#include <ctype.h>
#include <string.h>

#include "affine_internal.h"

/* ---- Printing ---- */

static void print_expr(const Aff *e, Str *out);

static uint64_t magnitude_of(int64_t v) {
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

static void print_leaf(const Aff *e, Str *out) {
    if (e->name)
        str_append(out, e->name);
    else
        str_printf(out, "v%u", (unsigned)e->id);
}

static void print_call(const char *name, const Aff *a, const Aff *b, Str *out) {
    str_printf(out, "%s(", name);
    print_expr(a, out);
    str_append(out, ", ");
    print_expr(b, out);
    str_append_char(out, ')');
}

static bool is_bare(const Aff *e) {
    return e->kind == AFF_SYM || e->kind == AFF_VAR || e->kind == AFF_MIN || e->kind == AFF_OVERFLOW ||
           (e->kind == AFF_CONST && e->value >= 0);
}

static void print_operand(const Aff *e, Str *out) {
    if (!is_bare(e)) str_append_char(out, '(');
    print_expr(e, out);
    if (!is_bare(e)) str_append_char(out, ')');
}

/* (x + 7)//8 as ceildiv(x, 8); x is a sum with the constant left out. */
static bool print_ceildiv(const Aff *e, Str *out) {
    int64_t d;
    if (!aff_is_const(e->args[1], &d) || e->args[0]->kind != AFF_SUM || e->args[0]->value != d - 1) return false;
    Aff top = *e->args[0];
    top.value = 0;
    str_append(out, "ceildiv(");
    print_expr(&top, out);
    str_printf(out, ", %lld)", (long long)d);
    return true;
}

static void print_atom(const Aff *e, bool alone, Str *out) {
    if (e->kind == AFF_SYM || e->kind == AFF_VAR) {
        print_leaf(e, out);
        return;
    }
    if (e->kind == AFF_MIN) {
        print_call("min", e->args[0], e->args[1], out);
        return;
    }
    if (e->kind == AFF_OVERFLOW) {
        str_append(out, "overflow()");
        return;
    }
    if (e->kind == AFF_FLOORDIV && print_ceildiv(e, out)) return;
    if (!alone) str_append_char(out, '(');
    print_operand(e->args[0], out);
    str_append(out, e->kind == AFF_MOD ? " % " : "//");
    print_operand(e->args[1], out);
    if (!alone) str_append_char(out, ')');
}

/* 2^63 is no literal of the text form: it is printed as (2^63 - 1) and one more. */
static void print_term(const Aff *term, uint64_t coef, Str *out) {
    if (coef > INT64_MAX) {
        print_term(term, INT64_MAX, out);
        str_append(out, " - ");
        coef = 1;
    }
    if (coef != 1) {
        str_printf(out, "%llu*", (unsigned long long)coef);
    }
    if (term->kind != AFF_PRODUCT) {
        print_atom(term, coef == 1, out);
        return;
    }
    for (size_t i = 0; i < term->count; i++) {
        if (i) str_append_char(out, '*');
        print_atom(term->args[i], false, out);
    }
}

/* A sum with positive terms first, the constant last. */
static void print_poly(const AffPoly *p, Str *out) {
    bool first = true;
    for (int negative = 0; negative < 2; negative++) {
        for (size_t i = 0; i < p->count; i++) {
            if ((p->coefs[i] < 0) != negative) continue;
            if (negative)
                str_append(out, first ? "-" : " - ");
            else if (!first)
                str_append(out, " + ");
            bool unit = p->coefs[i] == -1 && first && p->terms[i]->kind != AFF_PRODUCT;
            if (unit && !is_bare(p->terms[i]))
                print_operand(p->terms[i], out);
            else
                print_term(p->terms[i], magnitude_of(p->coefs[i]), out);
            first = false;
        }
    }
    if (p->constant == 0 && !first) return;
    if (p->constant < 0)
        str_append(out, first ? "-" : " - ");
    else if (!first)
        str_append(out, " + ");
    bool least = p->constant == INT64_MIN;
    str_printf(out, "%llu", (unsigned long long)(magnitude_of(p->constant) - least));
    if (least) str_append(out, " - 1");
}

static bool has_min(const AffPoly *p) {
    for (size_t i = 0; i < p->count; i++)
        if (p->terms[i]->kind == AFF_MIN) return true;
    return false;
}

/* x + min(0, y - x) as min(x, y), x - min(0, x - y) as max(x, y): when x and y hold no min
 * themselves, so that reading it back gives the same form. */
static bool print_folded_min(const Aff *e, Str *out) {
    AffView v = aff_view(&e);
    AffPoly rest, side;
    const Aff *min = NULL, *operands[AFF_MIN_LIMIT];
    int64_t sign = 0;
    aff_poly_init(&rest, v.constant);
    for (size_t i = 0; i < v.count; i++) {
        if (v.terms[i]->kind != AFF_MIN) {
            aff_poly_add(&rest, v.terms[i], v.coefs[i]);
        } else {
            if (min || (v.coefs[i] != 1 && v.coefs[i] != -1)) return false;
            min = v.terms[i];
            sign = v.coefs[i];
        }
    }
    if (!min || (sign == 1 && rest.count == 0 && rest.constant == 0)) return false;
    size_t count = aff_min_operands(min, operands);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 1; pass == 1 && i < count; i++) str_append(out, sign == 1 ? "min(" : "max(");
        for (size_t i = 0; i < count; i++) {
            side = rest;
            aff_poly_add(&side, operands[i], sign);
            if (side.overflow || has_min(&side)) return false;
            if (pass == 0) continue;
            if (i) str_append(out, ", ");
            print_poly(&side, out);
            if (i) str_append_char(out, ')');
        }
    }
    return true;
}

static void print_expr(const Aff *e, Str *out) {
    if (e->kind == AFF_PRODUCT) {
        print_term(e, 1, out);
    } else if (e->kind != AFF_SUM && e->kind != AFF_CONST) {
        print_atom(e, true, out);
    } else if (!print_folded_min(e, out)) {
        AffPoly p;
        aff_poly_init(&p, 0);
        aff_poly_add(&p, e, 1);
        print_poly(&p, out);
    }
}

void aff_print(const Aff *e, Str *out) {
    print_expr(e, out);
}

/* ---- Parsing ---- */

typedef struct {
    AffCtx *c;
    const char *text;
    size_t at;
    unsigned depth;
    const Aff *(*leaf)(void *ctx, const char *name);
    void *ctx;
} Parser;

static const Aff *parse_sum(Parser *p);

static void skip_blanks(Parser *p) {
    while (p->text[p->at] == ' ' || p->text[p->at] == '\t') p->at++;
}

static bool accept(Parser *p, const char *token) {
    skip_blanks(p);
    size_t n = strlen(token);
    if (strncmp(p->text + p->at, token, n) != 0) return false;
    p->at += n;
    return true;
}

static const Aff *parse_number(Parser *p) {
    size_t at = p->at;
    int64_t value = 0;
    for (; isdigit((unsigned char)p->text[at]); at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, p->text[at] - '0', &value)) return NULL;
    p->at = at;
    return aff_const(p->c, value);
}

static bool is_name_char(char ch) {
    return isalnum((unsigned char)ch) || ch == '_' || ch == '.' || ch == '$';
}

static const Aff *apply_call(AffCtx *c, const char *name, const Aff *a, const Aff *b) {
    if (strcmp(name, "min") == 0) return aff_min(c, a, b);
    if (strcmp(name, "max") == 0) return aff_max(c, a, b);
    return aff_ceildiv(c, a, b);
}

static const Aff *parse_call(Parser *p, const char *name) {
    if (strcmp(name, "overflow") == 0) return accept(p, ")") ? aff_add(p->c, aff_const(p->c, INT64_MAX), aff_const(p->c, 1)) : NULL;
    const Aff *a = parse_sum(p);
    if (!a || !accept(p, ",")) return NULL;
    const Aff *b = parse_sum(p);
    if (!b || !accept(p, ")")) return NULL;
    return apply_call(p->c, name, a, b);
}

static const Aff *parse_name(Parser *p) {
    static const char *const calls[] = {"min", "max", "ceildiv", "overflow"};
    char name[256];
    size_t begin = p->at, length = 0;
    while (is_name_char(p->text[begin + length])) length++;
    if (length >= sizeof name) return NULL;
    memcpy(name, p->text + begin, length);
    name[length] = 0;
    p->at = begin + length;
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        if (strcmp(name, calls[i]) == 0 && accept(p, "(")) return parse_call(p, name);
    const Aff *mapped = p->leaf ? p->leaf(p->ctx, name) : NULL;
    return mapped ? mapped : aff_sym(p->c, name);
}

static const Aff *parse_unary(Parser *p) {
    enum { DEPTH_LIMIT = 200 };
    skip_blanks(p);
    char ch = p->text[p->at];
    const Aff *e = NULL;
    if (++p->depth > DEPTH_LIMIT) return NULL;
    if (accept(p, "-")) {
        e = parse_unary(p);
        if (e) e = aff_scale(p->c, e, -1);
    } else if (accept(p, "(")) {
        e = parse_sum(p);
        if (e && !accept(p, ")")) e = NULL;
    } else if (isdigit((unsigned char)ch)) {
        e = parse_number(p);
    } else if (isalpha((unsigned char)ch) || ch == '_' || ch == '$') {
        e = parse_name(p);
    }
    p->depth--;
    return e;
}

static const Aff *parse_product(Parser *p) {
    const Aff *left = parse_unary(p);
    while (left) {
        AffKind op = accept(p, "//") ? AFF_FLOORDIV : accept(p, "%") ? AFF_MOD : accept(p, "*") ? AFF_PRODUCT : AFF_CONST;
        if (op == AFF_CONST) break;
        const Aff *right = parse_unary(p);
        if (!right) return NULL;
        left = op == AFF_FLOORDIV ? aff_floordiv(p->c, left, right)
               : op == AFF_MOD    ? aff_mod(p->c, left, right)
                                  : aff_mul(p->c, left, right);
    }
    return left;
}

static const Aff *parse_sum(Parser *p) {
    const Aff *left = parse_product(p);
    while (left) {
        bool minus = accept(p, "-");
        if (!minus && !accept(p, "+")) break;
        const Aff *right = parse_product(p);
        if (!right) return NULL;
        left = minus ? aff_sub(p->c, left, right) : aff_add(p->c, left, right);
    }
    return left;
}

const Aff *aff_parse(AffCtx *c, const char *text, const Aff *(*leaf)(void *ctx, const char *name), void *ctx, size_t *error_at) {
    Parser p = {.c = c, .text = text, .leaf = leaf, .ctx = ctx};
    const Aff *e = parse_sum(&p);
    skip_blanks(&p);
    if (e && text[p.at] == 0) return e;
    if (error_at) *error_at = p.at;
    return NULL;
}
