/* Reads a printed grammar and says of texts whether it derives them, by Earley's method: an oracle that shares
 * nothing with what printed the grammar.
 *
 *     grammar_match gbnf|ebnf GRAMMAR FILE...     a line a file: `accepted FILE`, or `refused FILE:LINE:COLUMN`,
 *                                                 the place of the first character that nothing derives
 *
 * Status 0 unless the grammar cannot be read. */
#include "support.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- Grammars: productions of character sets and rules ---- */

typedef struct {
    bool is_rule;
    unsigned rule;
    uint64_t set[4]; /* of bytes */
} Symbol;

typedef struct {
    unsigned rule, count;
    Symbol *symbols;
} Production;

typedef struct {
    const char *name; /* null: made for a repetition */
    bool is_defined, is_empty_allowed;
    VEC(unsigned) productions;
} Rule;

typedef struct {
    Arena *arena;
    bool ebnf;
    const char *at;
    VEC(Rule) rules;
    VEC(Production) productions;
} Grammar;

typedef struct {
    Symbol *data;
    size_t len, cap;
} Sequence;

static void fail(const Grammar *g, const char *what) {
    fprintf(stderr, "grammar_match: %s at: %.60s\n", what, g->at);
    exit(2);
}

static unsigned rule_named(Grammar *g, const char *name) {
    for (unsigned i = 0; name && i < g->rules.len; i++)
        if (g->rules.data[i].name && strcmp(g->rules.data[i].name, name) == 0) return i;
    Rule r = {.name = name};
    VEC_PUSH(g->arena, &g->rules, r);
    return (unsigned)g->rules.len - 1;
}

static void add_production(Grammar *g, unsigned rule, const Sequence *s) {
    Production p = {rule, (unsigned)s->len, s->data};
    VEC_PUSH(g->arena, &g->rules.data[rule].productions, (unsigned)g->productions.len);
    VEC_PUSH(g->arena, &g->productions, p);
    g->rules.data[rule].is_defined = true;
}

/* ---- The two notations ---- */

static void skip_blank(Grammar *g) {
    for (;;) {
        while (isspace((unsigned char)*g->at)) g->at++;
        if (!g->ebnf && *g->at == '#') {
            g->at += strcspn(g->at, "\n");
        } else if (g->ebnf && strncmp(g->at, "/*", 2) == 0) {
            const char *end = strstr(g->at, "*/");
            if (!end) fail(g, "a comment does not end");
            g->at = end + 2;
        } else {
            return;
        }
    }
}

static size_t name_length(const char *text) {
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || text[n] == '-') n++;
    return n;
}

/* Whether a rule's head `name ::=` stands here. */
static bool at_head(const Grammar *g) {
    const char *p = g->at + name_length(g->at);
    while (*p == ' ') p++;
    return p != g->at && strncmp(p, "::=", 3) == 0;
}

static unsigned read_hex(Grammar *g, int most) {
    unsigned value = 0;
    for (int i = 0; i < most && isxdigit((unsigned char)*g->at); i++, g->at++)
        value = value * 16 + (unsigned)(isdigit((unsigned char)*g->at) ? *g->at - '0' : (*g->at | 32) - 'a' + 10);
    if (value > 255) fail(g, "a character beyond a byte");
    return value;
}

/* One character, as the notation spells it inside strings and classes. */
static unsigned read_character(Grammar *g, bool in_class) {
    if (!*g->at || *g->at == '\n') fail(g, "a string or class does not end");
    if (g->ebnf && in_class && strncmp(g->at, "#x", 2) == 0) {
        g->at += 2;
        return read_hex(g, 6);
    }
    if (g->ebnf || *g->at != '\\') return (unsigned char)*g->at++;
    char c = g->at[1];
    g->at += 2;
    if (c == 'x') return read_hex(g, 2);
    if (!strchr("nrt\\\"[]", c)) fail(g, "an escape that the notation has not");
    return c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : (unsigned char)c;
}

static Symbol symbol_of(unsigned c) {
    Symbol s = {0};
    s.set[c / 64] |= UINT64_C(1) << (c % 64);
    return s;
}

static Symbol read_class(Grammar *g) {
    Symbol s = {0};
    g->at++;
    bool negated = *g->at == '^';
    g->at += negated;
    while (*g->at != ']') {
        unsigned low = read_character(g, true), high = low;
        if (*g->at == '-' && g->at[1] != ']') {
            g->at++;
            high = read_character(g, true);
        }
        for (unsigned c = low; c <= high; c++) s.set[c / 64] |= UINT64_C(1) << (c % 64);
    }
    g->at++;
    for (int i = 0; negated && i < 4; i++) s.set[i] = ~s.set[i];
    return s;
}

static void read_alternatives(Grammar *g, unsigned rule);

/* x?, x*, x+ as rules of their own, left-recursive. */
static Symbol repeated(Grammar *g, const Symbol *parts, size_t count, char sign) {
    Symbol self = {.is_rule = true, .rule = rule_named(g, NULL)};
    Sequence empty = {0}, once = {0}, again = {0};
    VEC_PUSH(g->arena, &again, self);
    for (size_t i = 0; i < count; i++) {
        VEC_PUSH(g->arena, &once, parts[i]);
        VEC_PUSH(g->arena, &again, parts[i]);
    }
    if (sign != '*') add_production(g, self.rule, &once);
    if (sign != '+') add_production(g, self.rule, &empty);
    if (sign != '?') add_production(g, self.rule, &again);
    return self;
}

static void read_string(Grammar *g, Sequence *s) {
    char quote = *g->at++;
    while (*g->at != quote) VEC_PUSH(g->arena, s, symbol_of(read_character(g, false)));
    g->at++;
}

static bool read_item(Grammar *g, Sequence *s) {
    skip_blank(g);
    Sequence item = {0};
    if (*g->at == '"' || (g->ebnf && *g->at == '\'')) {
        read_string(g, &item);
    } else if (*g->at == '[') {
        VEC_PUSH(g->arena, &item, read_class(g));
    } else if (g->ebnf && strncmp(g->at, "#x", 2) == 0) {
        VEC_PUSH(g->arena, &item, symbol_of(read_character(g, true)));
    } else if (*g->at == '(') {
        g->at++;
        Symbol group = {.is_rule = true, .rule = rule_named(g, NULL)};
        read_alternatives(g, group.rule);
        if (*g->at++ != ')') fail(g, "a group does not end");
        VEC_PUSH(g->arena, &item, group);
    } else if (name_length(g->at) && !at_head(g)) {
        size_t n = name_length(g->at);
        Symbol named = {.is_rule = true, .rule = rule_named(g, arena_strndup(g->arena, g->at, n))};
        g->at += n;
        VEC_PUSH(g->arena, &item, named);
    } else {
        return false;
    }
    if (*g->at && strchr("?*+", *g->at)) {
        Symbol r = repeated(g, item.data, item.len, *g->at++);
        VEC_PUSH(g->arena, s, r);
        return true;
    }
    for (size_t i = 0; i < item.len; i++) VEC_PUSH(g->arena, s, item.data[i]);
    return true;
}

static void read_alternatives(Grammar *g, unsigned rule) {
    for (;;) {
        Sequence s = {0};
        while (read_item(g, &s)) {
        }
        add_production(g, rule, &s);
        if (*g->at != '|') return;
        g->at++;
    }
}

static void find_empty(Grammar *g) {
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < g->productions.len; i++) {
            const Production *p = &g->productions.data[i];
            bool empty = !g->rules.data[p->rule].is_empty_allowed;
            for (unsigned k = 0; k < p->count && empty; k++)
                empty = p->symbols[k].is_rule && g->rules.data[p->symbols[k].rule].is_empty_allowed;
            if (empty) changed = g->rules.data[p->rule].is_empty_allowed = true;
        }
    }
}

static void read_grammar(Grammar *g, const char *text) {
    g->at = text;
    rule_named(g, "root");
    for (skip_blank(g); *g->at; skip_blank(g)) {
        if (!at_head(g)) fail(g, "no rule stands");
        size_t n = name_length(g->at);
        unsigned rule = rule_named(g, arena_strndup(g->arena, g->at, n));
        if (g->rules.data[rule].is_defined) fail(g, "a rule stands twice");
        g->at = strstr(g->at, "::=") + 3;
        read_alternatives(g, rule);
    }
    for (size_t i = 0; i < g->rules.len; i++)
        if (!g->rules.data[i].is_defined) {
            fprintf(stderr, "grammar_match: %s is defined nowhere\n", g->rules.data[i].name);
            exit(2);
        }
    find_empty(g);
}

/* ---- Earley ---- */

typedef struct {
    uint32_t production, dot, origin;
} Item;

typedef struct {
    Item *data;
    size_t len, cap;
} Items;

typedef struct {
    const Grammar *g;
    Items *sets;     /* one for each place between characters */
    uint32_t *table; /* of the set at work: hash to item + 1 */
    size_t table_size;
    uint32_t *predicted; /* rule to the last set that it was predicted in, + 1 */
} Earley;

static bool known(Earley *e, const Items *set, Item item) {
    uint64_t h = item.production * UINT64_C(0x9e3779b97f4a7c15) ^ item.dot * UINT64_C(0xc2b2ae3d27d4eb4f) ^
                 item.origin * UINT64_C(0x165667b19e3779f9);
    for (size_t slot = (h ^ h >> 29) % e->table_size;; slot = (slot + 1) % e->table_size) {
        if (!e->table[slot]) {
            e->table[slot] = (uint32_t)set->len + 1;
            return false;
        }
        if (memcmp(&set->data[e->table[slot] - 1], &item, sizeof item) == 0) return true;
    }
}

static void push(Items *set, Item item) {
    if (set->len == set->cap) {
        set->cap = set->cap ? 2 * set->cap : 64;
        set->data = realloc(set->data, set->cap * sizeof *set->data);
        if (!set->data) abort();
    }
    set->data[set->len++] = item;
}

static void clear_table(Earley *e, size_t wanted) {
    if (wanted * 4 > e->table_size) {
        e->table_size = wanted * 8;
        e->table = realloc(e->table, e->table_size * sizeof *e->table);
        if (!e->table) abort();
    }
    memset(e->table, 0, e->table_size * sizeof *e->table);
}

static void add(Earley *e, Items *set, Item item) {
    if (set->len * 2 > e->table_size) { /* full: the table is made anew */
        clear_table(e, set->len);
        Items all = *set;
        set->len = 0;
        for (size_t i = 0; i < all.len; i++) {
            (void)known(e, set, all.data[i]);
            set->len++;
        }
    }
    if (!known(e, set, item)) push(set, item);
}

/* Predicts and completes in set `at` until nothing is new. */
static void close_set(Earley *e, uint32_t at) {
    const Grammar *g = e->g;
    Items *set = &e->sets[at];
    for (size_t i = 0; i < set->len; i++) {
        Item item = set->data[i];
        const Production *p = &g->productions.data[item.production];
        if (item.dot < p->count) {
            const Symbol *s = &p->symbols[item.dot];
            if (!s->is_rule) continue;
            const Rule *r = &g->rules.data[s->rule];
            if (r->is_empty_allowed) add(e, set, (Item){item.production, item.dot + 1, item.origin});
            if (e->predicted[s->rule] == at + 1) continue;
            e->predicted[s->rule] = at + 1;
            for (size_t k = 0; k < r->productions.len; k++) add(e, set, (Item){r->productions.data[k], 0, at});
            continue;
        }
        for (size_t k = 0; k < e->sets[item.origin].len; k++) {
            Item from = e->sets[item.origin].data[k];
            const Production *q = &g->productions.data[from.production];
            if (from.dot < q->count && q->symbols[from.dot].is_rule && q->symbols[from.dot].rule == p->rule)
                add(e, set, (Item){from.production, from.dot + 1, from.origin});
        }
    }
}

static void scan_byte(Earley *e, uint32_t at, unsigned char c) {
    Items *next = &e->sets[at + 1];
    for (size_t i = 0; i < e->sets[at].len; i++) {
        Item item = e->sets[at].data[i];
        const Production *p = &e->g->productions.data[item.production];
        if (item.dot == p->count || p->symbols[item.dot].is_rule) continue;
        if (p->symbols[item.dot].set[c / 64] >> (c % 64) & 1) add(e, next, (Item){item.production, item.dot + 1, item.origin});
    }
}

/* The first byte that nothing derives, the length when the text stops too early, -1 when it is derived. */
static long match(const Grammar *g, const Str *text) {
    Earley e = {.g = g, .table_size = 1 << 12};
    e.sets = calloc(text->len + 1, sizeof *e.sets);
    e.table = calloc(e.table_size, sizeof *e.table);
    e.predicted = calloc(g->rules.len, sizeof *e.predicted);
    if (!e.sets || !e.table || !e.predicted) abort();
    const Rule *root = &g->rules.data[0];
    for (size_t k = 0; k < root->productions.len; k++) add(&e, &e.sets[0], (Item){root->productions.data[k], 0, 0});
    e.predicted[0] = 1;
    long place = -1;
    for (uint32_t at = 0; at <= text->len && place < 0; at++) {
        close_set(&e, at);
        if (at == text->len) break;
        clear_table(&e, 64);
        scan_byte(&e, at, (unsigned char)text->data[at]);
        if (!e.sets[at + 1].len) place = (long)at;
    }
    bool complete = false;
    for (size_t i = 0; place < 0 && i < e.sets[text->len].len; i++) {
        Item item = e.sets[text->len].data[i];
        const Production *p = &g->productions.data[item.production];
        complete |= p->rule == 0 && item.origin == 0 && item.dot == p->count;
    }
    for (size_t i = 0; i <= text->len; i++) free(e.sets[i].data);
    free(e.sets);
    free(e.table);
    free(e.predicted);
    return place >= 0 ? place : complete ? -1 : (long)text->len;
}

static void report(const char *path, const Str *text, long place) {
    if (place < 0) {
        printf("accepted %s\n", path);
        return;
    }
    unsigned line = 1, column = 1;
    for (long i = 0; i < place; i++) {
        column = text->data[i] == '\n' ? 1 : column + 1;
        line += text->data[i] == '\n';
    }
    printf("refused %s:%u:%u\n", path, line, column);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    Grammar g = {.arena = arena_create(), .ebnf = strcmp(argv[1], "ebnf") == 0};
    Str text;
    str_init(&text);
    if (!file_read(argv[2], 1 << 20, &text)) return 2;
    read_grammar(&g, arena_strdup(g.arena, text.data));
    for (int i = 3; i < argc; i++) {
        str_release(&text);
        str_init(&text);
        if (!file_read(argv[i], 1 << 20, &text)) return 2;
        report(argv[i], &text, match(&g, &text));
    }
    str_release(&text);
    arena_destroy(g.arena);
    return 0;
}
