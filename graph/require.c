/* require: conditions, read by precedence from their tokens; require.h says what they are. */
#include "require.h"

#include "dtype.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    bool known;
    int64_t n;
} Value;

typedef struct {
    const LibraryLine *line;
    const RequireWords *words;
    const char *unknown; /* the first word that is not */
    size_t at;
} Reader;

static Value read_or(Reader *r);

static bool takes(Reader *r, const char *text) {
    bool is = library_is(r->line, r->at, text);
    r->at += is;
    return is;
}

static const char *next(Reader *r) {
    return r->at < r->line->count ? r->line->tokens[r->at++].text : "";
}

/* ---- What joins two values ---- */

static bool divides(Value a, Value b, Value *result) {
    *result = (Value){a.known && b.known && b.n != 0, 0};
    return result->known;
}

static int64_t floor_of(int64_t a, int64_t b) {
    int64_t q = b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
    return b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static Value wrapped(Value a, Value b, uint64_t n) {
    return (Value){a.known && b.known, (int64_t)n};
}

static Value product_of(char sign, Value a, Value b) {
    Value result;
    if (sign == '*') return wrapped(a, b, (uint64_t)a.n * (uint64_t)b.n);
    if (divides(a, b, &result)) {
        int64_t q = floor_of(a.n, b.n);
        result.n = sign == '/' ? q : (int64_t)((uint64_t)a.n - (uint64_t)q * (uint64_t)b.n);
    }
    return result;
}

static Value compared(const char *sign, Value a, Value b) {
    bool less = a.n < b.n, equal = a.n == b.n, negated = sign[0] == '!';
    bool holds = sign[0] == '<' ? less || (sign[1] && equal) : sign[0] == '>' ? !less && (sign[1] || !equal) : equal != negated;
    return (Value){a.known && b.known, holds};
}

/* ---- By precedence ---- */

/* min(a, b), max(a, b), ceil(a, b). */
static Value read_call(Reader *r, const char *name) {
    Value a = read_or(r), b = {0}, result;
    if (takes(r, ",")) b = read_or(r);
    takes(r, ")");
    if (strcmp(name, "ceil") != 0) return (Value){a.known && b.known, (strcmp(name, "min") == 0) == (a.n < b.n) ? a.n : b.n};
    if (divides(a, b, &result)) result.n = (int64_t)(0 - (uint64_t)floor_of((int64_t)(0 - (uint64_t)a.n), b.n));
    return result;
}

static bool is_operation(const char *name) {
    return strcmp(name, "min") == 0 || strcmp(name, "max") == 0 || strcmp(name, "ceil") == 0;
}

static Value read_word(Reader *r, const char *name) {
    Dtype dtype;
    Value v = {0};
    const char *argument = NULL;
    bool called = takes(r, "(");
    if (called && is_operation(name)) return read_call(r, name);
    if (called) argument = next(r);
    if (called) takes(r, ")");
    if (strcmp(name, "true") == 0 || strcmp(name, "false") == 0) return (Value){true, name[0] == 't'};
    if (!called && dtype_find(name, &dtype)) return (Value){true, dtype};
    v.known = r->words->value(r->words->context, name, argument, &v.n);
    if (!v.known && !r->unknown) r->unknown = name;
    return v;
}

static Value read_single(Reader *r) {
    if (takes(r, "-")) {
        Value v = read_single(r);
        return (Value){v.known, (int64_t)(0 - (uint64_t)v.n)};
    }
    if (takes(r, "(")) {
        Value v = read_or(r);
        takes(r, ")");
        return v;
    }
    const char *text = next(r);
    return library_is_word(text) ? read_word(r, text) : (Value){*text != 0, strtoll(text, NULL, 0)};
}

static Value read_product(Reader *r) {
    Value a = read_single(r);
    for (;;) {
        char sign = takes(r, "*") ? '*' : takes(r, "//") ? '/' : takes(r, "%") ? '%' : 0;
        if (!sign) return a;
        a = product_of(sign, a, read_single(r));
    }
}

static Value read_sum(Reader *r) {
    Value a = read_product(r);
    for (;;) {
        bool plus = takes(r, "+"), minus = !plus && takes(r, "-");
        if (!plus && !minus) return a;
        Value b = read_product(r);
        a = wrapped(a, b, plus ? (uint64_t)a.n + (uint64_t)b.n : (uint64_t)a.n - (uint64_t)b.n);
    }
}

static Value read_comparison(Reader *r) {
    static const char *const signs[] = {"==", "!=", "<=", ">=", "<", ">"};
    Value a = read_sum(r);
    for (size_t i = 0; i < COUNT_OF(signs); i++)
        if (takes(r, signs[i])) return compared(signs[i], a, read_sum(r));
    return a;
}

static Value read_not(Reader *r) {
    if (!takes(r, "not")) return read_comparison(r);
    Value v = read_not(r);
    return (Value){v.known, !v.n};
}

/* One side may decide where the other is not known. */
static Value read_and(Reader *r) {
    Value a = read_not(r);
    while (takes(r, "and")) {
        Value b = read_not(r);
        bool no = (a.known && !a.n) || (b.known && !b.n);
        a = (Value){no || (a.known && b.known), !no};
    }
    return a;
}

static Value read_or(Reader *r) {
    Value a = read_and(r);
    while (takes(r, "or")) {
        Value b = read_and(r);
        bool yes = (a.known && a.n) || (b.known && b.n);
        a = (Value){yes || (a.known && b.known), yes};
    }
    return a;
}

RequireResult require_holds(const LibraryLine *condition, const RequireWords *words, const char **unknown) {
    Reader r = {.line = condition, .words = words};
    Value v = read_or(&r);
    *unknown = v.known ? NULL : r.unknown;
    return !v.known ? REQUIRE_UNKNOWN : v.n ? REQUIRE_HOLDS : REQUIRE_FAILS;
}
