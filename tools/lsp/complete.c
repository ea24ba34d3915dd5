/* Completion: by what stands before the cursor, since the line at hand seldom parses. */
#include "lsp_internal.h"

#include <ctype.h>
#include <string.h>

/* Kinds of the protocol. */
enum { ITEM_FUNCTION = 3, ITEM_VARIABLE = 6, ITEM_PROPERTY = 10, ITEM_KEYWORD = 14, ITEM_TYPE = 25, ITEM_CONSTANT = 21 };

typedef enum { WANT_NAMES, WANT_LOOP_HINTS, WANT_CONTEXTS, WANT_ALLOC_HINTS, WANT_DTYPES } Want;

typedef struct {
    Request *r;
    bool first;
} Items;

static void put_item(Items *items, const char *label, int kind, const char *detail, const char *text) {
    Str *out = &items->r->out;
    put_next(out, &items->first);
    str_append(out, "{\"label\":");
    str_append_json(out, label);
    str_printf(out, ",\"kind\":%d", kind);
    if (detail && *detail) {
        str_append(out, ",\"detail\":");
        str_append_json(out, detail);
    }
    if (text) {
        str_append(out, ",\"documentation\":");
        str_append_json(out, text);
    }
    str_append(out, "}");
}

static size_t line_start(const Document *d, size_t offset) {
    while (offset > 0 && d->text.data[offset - 1] != '\n') offset--;
    return offset;
}

static bool line_has(const Document *d, size_t begin, size_t end, const char *word) {
    size_t length = strlen(word);
    for (size_t i = begin; i + length <= end; i++)
        if (memcmp(d->text.data + i, word, length) == 0) return true;
    return false;
}

/* Whether the cursor is inside a string of its line. */
static bool in_string(const Document *d, size_t begin, size_t end) {
    char quote = 0;
    for (size_t i = begin; i < end; i++) {
        char c = d->text.data[i];
        if (quote ? c == quote : c == '"' || c == '\'') quote = quote ? 0 : c;
    }
    return quote != 0;
}

static Want wanted(const Document *d, size_t offset) {
    size_t begin = line_start(d, offset), at = offset;
    if (in_string(d, begin, offset)) {
        bool loop = line_has(d, begin, offset, "@llm_hint");
        if (loop) return line_has(d, begin, offset, ",") ? WANT_CONTEXTS : WANT_LOOP_HINTS;
        return WANT_ALLOC_HINTS;
    }
    while (at > begin && (isalnum((unsigned char)d->text.data[at - 1]))) at--;
    while (at > begin && d->text.data[at - 1] == ' ') at--;
    bool behind_colon = at > begin + 1 && d->text.data[at - 1] == ':' && strchr("])abcdefghijklmnopqrstuvwxyz_", d->text.data[at - 2]);
    bool declares =
        line_has(d, begin, offset, "tensors") || line_has(d, begin, offset, "scalars") || d->text.data[at > 1 ? at - 2 : 0] == ']';
    if ((behind_colon && declares) || line_has(d, at > 6 ? at - 6 : 0, at, "dtype=")) return WANT_DTYPES;
    return WANT_NAMES;
}

static void put_dtypes(Items *items) {
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT; t++) put_item(items, dtype_name((Dtype)t), ITEM_TYPE, NULL, NULL);
}

static void put_hints(Items *items, Want want) {
#define LOOP_HINT(id, text, argument, summary)                                                                                             \
    if (want == WANT_LOOP_HINTS) put_item(items, text, ITEM_PROPERTY, argument, summary);
#define PARALLEL_CONTEXT(id, text, summary)                                                                                                \
    if (want == WANT_CONTEXTS) put_item(items, text, ITEM_PROPERTY, NULL, summary);
#define ALLOC_HINT(text, place, wish, summary)                                                                                             \
    if (want == WANT_ALLOC_HINTS) put_item(items, text, ITEM_PROPERTY, NULL, summary);
#include "hints.def"
}

static void put_operations(Items *items, const Document *d) {
    for (int id = 1; id < BUILTIN_COUNT; id++) {
        const BuiltinInfo *info = builtin_info((BuiltinId)id);
        BuiltinParam params[BUILTIN_MAX_PARAMS];
        size_t count = builtin_params((BuiltinId)id, d->arena, params);
        Str form;
        str_init(&form);
        str_append(&form, "(");
        for (size_t i = 0; i < count; i++) str_printf(&form, "%s%s%s", i ? ", " : "", params[i].name, params[i].is_attribute ? "=" : "");
        str_append(&form, ")");
        put_item(items, info->name, ITEM_FUNCTION, form.data, NULL);
        str_release(&form);
    }
}

/* The declarations of the block around the cursor that stand before it, the last of each name. */
static void put_names(Items *items, const Document *d, size_t offset) {
    const Block *block = document_block_at(d, offset);
    Map *seen = map_create(d->arena);
    for (size_t i = d->occurrences.len; i-- > 0;) {
        const Occurrence *o = &d->occurrences.data[i];
        if (o->kind != OCC_NAME || !o->is_definition || o->block != block) continue;
        if (o->span.begin >= offset || map_get(seen, o->decl->name)) continue;
        map_set(seen, d->arena, o->decl->name, (void *)(uintptr_t)o->decl);
        Str detail;
        str_init(&detail);
        describe_type(&o->decl->type, &detail);
        put_item(items, o->decl->name, ITEM_VARIABLE, detail.data, NULL);
        str_release(&detail);
    }
}

static void put_words(Items *items) {
    static const char *const keywords[] = {"for",       "in",    "if",       "elif",      "else",       "and",     "or",      "not",
                                           "true",      "false", "operator", "sketch",    "implements", "symbols", "tensors", "scalars",
                                           "constexpr", "view",  "case",     "precision", "values",     "require", "use"};
    static const char *const constants[] = {"num_cores", "num_sms", "warp_size", "simd_width"};
    for (size_t i = 0; i < COUNT_OF(keywords); i++) put_item(items, keywords[i], ITEM_KEYWORD, NULL, NULL);
    for (size_t i = 0; i < COUNT_OF(constants); i++) put_item(items, constants[i], ITEM_CONSTANT, NULL, NULL);
}

/* The text of an operation is asked for when it is looked at. */
void lsp_completion_resolve(Request *r) {
    const char *label = json_get_string(r->params, "label", "");
    int64_t kind = json_get_int(r->params, "kind", ITEM_VARIABLE);
    BuiltinId id = kind == ITEM_FUNCTION ? builtin_find(label, strlen(label)) : BUILTIN_NONE;
    Str text;
    str_init(&text);
    if (id != BUILTIN_NONE) describe_operation(id, &text);
    str_append(&r->out, "{\"label\":");
    str_append_json(&r->out, label);
    str_printf(&r->out, ",\"kind\":%lld", (long long)kind);
    const char *detail = json_get_string(r->params, "detail", ""), *known = json_get_string(r->params, "documentation", "");
    if (*detail) {
        str_append(&r->out, ",\"detail\":");
        str_append_json(&r->out, detail);
    }
    if (text.len || *known) {
        str_printf(&r->out, ",\"documentation\":{\"kind\":\"%s\",\"value\":", text.len ? "markdown" : "plaintext");
        str_append_json(&r->out, text.len ? text.data : known);
        str_append(&r->out, "}");
    }
    str_append(&r->out, "}");
    str_release(&text);
}

void lsp_completion(Request *r) {
    Document *d = request_document(r);
    if (!d) return;
    size_t offset = request_offset(r, d);
    Items items = {.r = r, .first = true};
    str_append(&r->out, "{\"isIncomplete\":false,\"items\":[");
    Want want = wanted(d, offset);
    if (want == WANT_DTYPES) {
        put_dtypes(&items);
    } else if (want != WANT_NAMES) {
        put_hints(&items, want);
    } else {
        put_names(&items, d, offset);
        put_operations(&items, d);
        put_words(&items);
    }
    str_append(&r->out, "]}");
}
