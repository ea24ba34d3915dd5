/* The generated tables of the documents: between `<!-- generated: NAME -->` and
 * `<!-- end of generated: NAME -->` stands what the `.def` file of that name says today.
 *   doc_tables FILE...            fails when a table is stale
 *   doc_tables --update FILE...   rewrites them */
#include "check.h"
#include "support.h"

static void cell(Str *out, const char *text) {
    for (; *text; text++) {
        if (*text == '|') str_append_char(out, '\\');
        str_append_char(out, *text == '\n' ? ' ' : *text);
    }
}

/* A message without its printf directives. */
static void message(Str *out, const char *format) {
    Str plain;
    str_init(&plain);
    for (const char *at = format; *at; at++) {
        if (*at != '%' || at[1] == '%') {
            str_append_char(&plain, *at);
            at += *at == '%';
            continue;
        }
        at += strcspn(at, "sducxX");
        str_append(&plain, "...");
    }
    cell(out, plain.data);
    str_release(&plain);
}

typedef struct {
    const char *name, *signature, *rule, *ir, *summary;
} Operation;

static void print_rule(Str *out, const char *rule) {
#define TYPE_RULE(id, shape, type)                                                                                                         \
    if (strcmp(rule, #id) == 0) str_printf(out, "%s | %s", shape, type);
#include "../../../frontend/type_rules.def"
#undef TYPE_RULE
}

static void operation(Str *out, const Operation *row) {
    str_printf(out, "| `%s` | %s%s%s | ", row->name, *row->signature ? "`" : "", row->signature, *row->signature ? "`" : "");
    print_rule(out, row->rule);
    str_append(out, " | ");
    cell(out, row->summary);
    if (*row->ir == '=') str_printf(out, " Defined as `%s`.", row->ir + 2);
    str_append(out, " |\n");
}

/* One group of rows, the part of the table's name after "operations-". */
static void print_operations(Str *out, const char *group) {
    bool is_inside = false;
    size_t before = out->len;
    str_append(out, "| name | parameters | shape | type | meaning |\n");
    str_append(out, "| --- | --- | --- | --- | --- |\n");
    size_t head = out->len;
#define BUILTIN_GROUP(name) is_inside = strcmp(group, #name) == 0;
#define BUILTIN(id, name, signature, rule, class, ir, summary)                                                                             \
    if (is_inside) operation(out, &(Operation){name, signature, #rule, ir, summary});
#include "../../../frontend/builtins.def"
#undef BUILTIN
    CHECK(out->len > head && head > before); /* an unknown group would print an empty table */
}

static const char *builtin_name(const char *wanted) {
#define BUILTIN(id, name, signature, rule, class, ir, summary)                                                                             \
    if (strcmp(wanted, #id) == 0) return name;
#include "../../../frontend/builtins.def"
#undef BUILTIN
    return wanted;
}

static void print_aliases(Str *out) {
    str_append(out, "| other name | operation |\n| --- | --- |\n");
#define BUILTIN(id, name, signature, rule, class, ir, summary)
#define BUILTIN_ALIAS(name, id) str_printf(out, "| `%s` | `%s` |\n", name, builtin_name(#id));
#include "../../../frontend/builtins.def"
#undef BUILTIN
}

static void oper(Str *out, const char *text, const char *id) {
    str_append(out, "| `");
    cell(out, text);
    str_printf(out, "` | `%s` |\n", builtin_name(id));
}

static void print_operators(Str *out) {
    str_append(out, "| operator | operation |\n| --- | --- |\n");
#define OPER(id, text, builtin) oper(out, text, #builtin);
#include "../../../frontend/opers.def"
#undef OPER
}

static void print_dtypes(Str *out) {
    str_append(out, "| type | bits | in C | in .npy files |\n| --- | --- | --- | --- |\n");
#define DTYPE(id, spelling, bits, class, c, cuda, npy)                                                                                     \
    str_printf(out, "| `%s` | %d | `%s` | `", spelling, bits, c);                                                                          \
    cell(out, npy);                                                                                                                        \
    str_append(out, "` |\n");
#include "../../../support/dtypes.def"
#undef DTYPE
}

static void print_hints(Str *out) {
    str_append(out, "| hint | stands | argument | meant |\n| --- | --- | --- | --- |\n");
#define LOOP_HINT(id, name, argument, summary)                                                                                             \
    str_printf(out, "| `%s` | before a loop | %s%s%s | %s |\n", name, *argument ? "`" : "", argument, *argument ? "=N`" : "", summary);
#define PARALLEL_CONTEXT(id, name, summary) str_printf(out, "| `%s` | context of `parallel` | | %s |\n", name, summary);
#define ALLOC_HINT(name, place, wish, summary) str_printf(out, "| `%s` | `llm_hint=` of `alloc` | | %s |\n", name, summary);
#include "../../../frontend/hints.def"
}

static void diagnostic(Str *out, const char *name, const char *code, const char *format, const char *explanation) {
    str_printf(out, "| %s | `%s` | ", code, name);
    message(out, format);
    str_append(out, " | ");
    cell(out, explanation);
    str_append(out, " |\n");
}

static int by_code(const void *a, const void *b) {
    const char *const *x = a, *const *y = b;
    return strcmp(x[1], y[1]);
}

/* In the order of their codes. */
static void print_diagnostics(Str *out) {
    const char *rows[][4] = {
#define DIAG(id, code, severity, format, explanation) {#id, code, format, explanation},
#include "../../../support/diags.def"
#undef DIAG
    };
    qsort(rows, COUNT_OF(rows), sizeof rows[0], by_code);
    str_append(out, "| code | name | message | explanation |\n| --- | --- | --- | --- |\n");
    for (size_t i = 0; i < COUNT_OF(rows); i++) diagnostic(out, rows[i][0], rows[i][1], rows[i][2], rows[i][3]);
}

#define BUILTIN_GROUP(name)                                                                                                                \
    static void print_##name(Str *out) {                                                                                                   \
        print_operations(out, #name);                                                                                                      \
    }
#define BUILTIN(id, name, signature, rule, class, ir, summary)
#include "../../../frontend/builtins.def"
#undef BUILTIN

static const struct {
    const char *name;
    void (*print)(Str *out);
} TABLES[] = {
    {"aliases", print_aliases}, {"operators", print_operators},     {"dtypes", print_dtypes},
    {"hints", print_hints},     {"diagnostics", print_diagnostics},
#define BUILTIN_GROUP(name) {"operations-" #name, print_##name},
#define BUILTIN(id, name, signature, rule, class, ir, summary)
#include "../../../frontend/builtins.def"
#undef BUILTIN
};

/* The text with one table renewed; false where the text has no such table. */
static bool renew(Str *text, size_t table) {
    char begin_mark[64], end_mark[64];
    snprintf(begin_mark, sizeof begin_mark, "<!-- generated: %s -->\n", TABLES[table].name);
    snprintf(end_mark, sizeof end_mark, "<!-- end of generated: %s -->\n", TABLES[table].name);
    const char *begin = strstr(text->data, begin_mark);
    if (!begin) return false;
    const char *end = strstr(begin, end_mark);
    CHECK(end);
    Str fresh;
    str_init(&fresh);
    str_append_n(&fresh, text->data, (size_t)(begin - text->data) + strlen(begin_mark));
    TABLES[table].print(&fresh);
    str_append(&fresh, end);
    str_release(text);
    *text = fresh;
    return true;
}

static bool is_stale(const char *path, bool update) {
    Str text, fresh;
    str_init(&text);
    str_init(&fresh);
    CHECK(file_read(path, 1 << 20, &text));
    str_append(&fresh, text.data);
    size_t count = 0;
    for (size_t i = 0; i < COUNT_OF(TABLES); i++) count += renew(&fresh, i);
    CHECK(count > 0);
    bool stale = strcmp(fresh.data, text.data) != 0;
    if (stale && update) CHECK(file_write_atomic(path, fresh.data, fresh.len, 0644));
    str_release(&text);
    str_release(&fresh);
    return stale;
}

int main(int argc, char **argv) {
    bool update = argc > 1 && strcmp(argv[1], "--update") == 0;
    int stale = 0;
    CHECK(argc > 1 + update);
    for (int i = 1 + update; i < argc; i++) {
        if (!is_stale(argv[i], update) || update) continue;
        fprintf(stderr, "%s is stale; run %s --update %s\n", argv[i], argv[0], argv[i]);
        stale++;
    }
    return stale > 0;
}
