/* Text form of layouts. */
#include <string.h>

#include "layout_internal.h"

static const char *const dim_names[LAYOUT_DIMS] = {"register", "lane", "warp", "block", "offset"};

/* ---- Printing ---- */

static bool doubles(const Layout *l, LayoutDim dim, unsigned b) {
    for (unsigned k = 0; k < l->rank; k++)
        if (layout_basis(l, dim, b + 1)[k] != 2 * layout_basis(l, dim, b)[k]) return false;
    return true;
}

static void print_bases(const Layout *l, LayoutDim dim, Str *out) {
    for (unsigned b = 0, run; b < l->in_bits[dim]; b += run) {
        run = 1;
        while (b + run < l->in_bits[dim] && doubles(l, dim, b + run - 1)) run++;
        if (b) str_append(out, ", ");
        str_append_char(out, '(');
        for (unsigned k = 0; k < l->rank; k++) str_printf(out, k ? ", %u" : "%u", (unsigned)layout_basis(l, dim, b)[k]);
        str_append_char(out, ')');
        if (run > 1) str_printf(out, "*%u", run);
    }
}

static bool ascending(const Layout *l) {
    for (unsigned i = 1; i < l->repeat_count; i++)
        if (l->repeat_order[i] < l->repeat_order[i - 1]) return false;
    return true;
}

void layout_print(const Layout *l, Str *out) {
    str_append(out, l->is_memory ? "#memory<[" : "#dist<[");
    for (unsigned k = 0; k < l->rank; k++) str_printf(out, k ? ", %lld" : "%lld", (long long)l->extents[k]);
    str_append_char(out, ']');
    for (unsigned dim = 0; dim < LAYOUT_DIMS; dim++) {
        if (!l->in_bits[dim]) continue;
        str_printf(out, ", %s=[", dim_names[dim]);
        print_bases(l, (LayoutDim)dim, out);
        str_append_char(out, ']');
    }
    if (!ascending(l)) {
        str_append(out, ", repeats=[");
        for (unsigned i = 0; i < l->repeat_count; i++) str_printf(out, i ? ", %u" : "%u", l->repeat_order[i]);
        str_append_char(out, ']');
    }
    str_append_char(out, '>');
}

/* ---- Parsing ---- */

typedef struct {
    const char *text;
    size_t at;
} Parser;

static bool accept(Parser *p, const char *token) {
    while (p->text[p->at] == ' ') p->at++;
    size_t n = strlen(token);
    if (strncmp(p->text + p->at, token, n) != 0) return false;
    p->at += n;
    return true;
}

static bool parse_number(Parser *p, int64_t *value) {
    while (p->text[p->at] == ' ') p->at++;
    size_t at = p->at;
    *value = 0;
    for (; p->text[at] >= '0' && p->text[at] <= '9' && *value <= UINT32_MAX; at++) *value = *value * 10 + (p->text[at] - '0');
    if (at == p->at || *value > UINT32_MAX) return false;
    p->at = at;
    return true;
}

/* Numbers up to `close`; more than `limit` are a mistake. */
static bool parse_numbers(Parser *p, const char *close, unsigned limit, int64_t *values, unsigned *count) {
    *count = 0;
    if (accept(p, close)) return true;
    do {
        if (*count == limit || !parse_number(p, &values[*count])) return false;
        ++*count;
    } while (accept(p, ","));
    return accept(p, close);
}

static bool parse_basis(Parser *p, LayoutDraft *d, LayoutDim dim) {
    int64_t values[LAYOUT_RANK_LIMIT] = {0}, run = 1;
    unsigned count;
    if (!accept(p, "(") || !parse_numbers(p, ")", d->rank, values, &count) || count != d->rank) return false;
    if (accept(p, "*") && (!parse_number(p, &run) || run > LAYOUT_BITS_LIMIT)) return false;
    for (int64_t i = 0; i < run; i++) {
        uint32_t coordinate[LAYOUT_RANK_LIMIT];
        for (unsigned k = 0; k < d->rank; k++) {
            if (values[k] << i > UINT32_MAX) return false;
            coordinate[k] = (uint32_t)(values[k] << i);
        }
        layout_draft_push(d, dim, coordinate);
    }
    return !d->overflow;
}

static bool parse_repeats(Parser *p, LayoutDraft *d) {
    int64_t axes[LAYOUT_RANK_LIMIT];
    unsigned count, seen = 0;
    if (!parse_numbers(p, "]", LAYOUT_RANK_LIMIT, axes, &count) || count != d->repeat_count) return false;
    for (unsigned i = 0; i < count; i++) {
        if (axes[i] >= d->rank || d->repeat[axes[i]] == 1 || (seen >> axes[i] & 1)) return false;
        seen |= 1u << axes[i];
        d->repeat_order[i] = (unsigned)axes[i];
    }
    return true;
}

static bool parse_dim(Parser *p, LayoutDraft *d) {
    for (unsigned dim = 0; dim < LAYOUT_DIMS; dim++) {
        size_t begin = p->at;
        if (!accept(p, dim_names[dim])) continue;
        if ((dim == LAYOUT_OFFSET) != d->is_memory || d->in_bits[dim]) {
            p->at = begin;
            return false;
        }
        if (!accept(p, "=") || !accept(p, "[")) return false;
        do
            if (!parse_basis(p, d, (LayoutDim)dim)) return false;
        while (accept(p, ","));
        return accept(p, "]");
    }
    return accept(p, "repeats") && accept(p, "=") && accept(p, "[") && parse_repeats(p, d);
}

static bool parse_draft(Parser *p, LayoutDraft *d) {
    int64_t extents[LAYOUT_RANK_LIMIT];
    unsigned rank;
    bool is_memory = accept(p, "#memory");
    if ((!is_memory && !accept(p, "#dist")) || !accept(p, "<") || !accept(p, "[")) return false;
    if (!parse_numbers(p, "]", LAYOUT_RANK_LIMIT, extents, &rank) || !layout_draft_init(d, is_memory, rank, extents)) return false;
    while (accept(p, ","))
        if (!parse_dim(p, d)) return false;
    return accept(p, ">");
}

const Layout *layout_parse(LayoutCtx *c, const char *text, size_t *end) {
    Parser p = {text, 0};
    LayoutDraft d;
    const Layout *l = parse_draft(&p, &d) ? layout_draft_finish(c, &d) : NULL;
    *end = p.at;
    return l;
}
