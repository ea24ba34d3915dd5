/* Types, declarations and operations in words, from the compiler's own tables. */
#include "lsp_internal.h"

#include <string.h>

static void put_aff(const Aff *e, Str *out) {
    if (e)
        aff_print(e, out);
    else
        str_append(out, "?");
}

static void put_shape(const Type *t, Str *out) {
    str_append(out, "[");
    for (unsigned i = 0; i < t->rank; i++) {
        if (i) str_append(out, ", ");
        put_aff(t->shape[i], out);
    }
    str_append(out, "]");
}

void describe_type(const Type *t, Str *out) {
    if (t->kind == TYPE_SCALAR || t->kind == TYPE_TILE || t->kind == TYPE_TENSOR)
        str_append(out, t->dtype ? dtype_name(t->dtype) : "undecided");
    if (t->kind == TYPE_TILE || t->kind == TYPE_TENSOR) put_shape(t, out);
}

int64_t tile_bytes(const Type *t) {
    int64_t count = t->dtype ? (int64_t)dtype_size(t->dtype) : 0;
    for (unsigned i = 0; i < t->rank; i++) {
        int64_t extent;
        if (!t->shape[i] || !aff_is_const(t->shape[i], &extent) || extent < 0 || (extent && count > INT64_MAX / extent)) return 0;
        count *= extent;
    }
    return count;
}

/* ---- Declarations ---- */

static const char *kind_name(DeclKind kind) {
    static const char *const names[] = {
        [DECL_SYMBOL] = "symbol",      [DECL_SCALAR] = "scalar",         [DECL_TENSOR] = "tensor",
        [DECL_VIEW] = "view",          [DECL_CONSTEXPR] = "constexpr",   [DECL_LOCAL] = "local scalar",
        [DECL_TILE] = "tile",          [DECL_LOOP] = "loop variable",    [DECL_INDEX] = "index",
        [DECL_VALUE] = "tensor value", [DECL_PREDEFINED] = "predefined",
    };
    return names[kind];
}

/* What was asked for, and where the tile lies on a GPU. */
static void put_place(const Block *block, const Decl *decl, Str *out) {
    static const char *const asked[] = {[PLACE_FASTEST] = "registers",
                                        [PLACE_FAST] = "shared memory or L1, or faster",
                                        [PLACE_MEDIUM] = "L2 or faster",
                                        [PLACE_SLOW] = "global memory or faster"};
    static const char *const places[] = {
        [PLACE_FASTEST] = "registers", [PLACE_FAST] = "shared memory", [PLACE_MEDIUM] = "L2", [PLACE_SLOW] = "global memory"};
    AllocMachine machine = {.gpu = true};
    const char *why = NULL;
    Place place = frontend_tile_place(block, decl, &machine, &why);
    str_printf(out, "%s on a GPU", places[place]);
    if (why) str_printf(out, " (%s)", why);
    if (decl->place) str_printf(out, "; asked for: %s", asked[decl->place]);
}

static unsigned line_of(const Document *d, Span span) {
    uint32_t line = 0, column = 0;
    source_position(source_file(d->sources, d->file_id), span.begin, &line, &column);
    return line;
}

static bool has_argument(const Expr *call, const char *name) {
    for (size_t i = 0; call && call->kind == EXPR_CALL && i < call->u.call.args.count; i++) {
        const char *given = call->u.call.args.data[i].name;
        if (given && strcmp(given, name) == 0) return true;
    }
    return false;
}

/* Where a tile's type was decided: by dtype=, else by what is first written to it. */
static void put_origin(const Document *d, const Block *block, const Decl *decl, Str *out) {
    const Stmt *site = decl->site;
    bool given = site && site->kind == STMT_ASSIGN && site->u.assign.value_count == 1 && has_argument(site->u.assign.values[0], "dtype");
    const Stmt *write = given || !block ? NULL : first_write(block, decl);
    if (given)
        str_printf(out, "\n\nThe dtype is given by `dtype=` in line %u.", line_of(d, site->span));
    else if (write && write->action == ACTION_LOAD && write->value && write->value->decl)
        str_printf(out, "\n\nThe dtype is that of `%s`, loaded in line %u.", write->value->decl->name, line_of(d, write->span));
    else if (write)
        str_printf(out, "\n\nThe dtype follows from the operation in line %u.", line_of(d, write->span));
}

static void put_tile(const Document *d, const Block *block, const Decl *decl, Str *out) {
    int64_t bytes = tile_bytes(&decl->type);
    str_append(out, "\n\nStorage: ");
    put_place(block, decl, out);
    str_append(out, ". Size: ");
    if (bytes)
        str_printf(out, "%lld bytes.", (long long)bytes);
    else
        str_append(out, "not known before constexprs and symbols are.");
    put_origin(d, block, decl, out);
}

static void put_constexpr(const Decl *decl, Str *out) {
    static const char *const origins[] = {[ORIGIN_UNBOUND] = "not set; give it with `-D`",
                                          [ORIGIN_DEFINE] = "from `-D`",
                                          [ORIGIN_DEFAULT] = "the default",
                                          [ORIGIN_SPACE] = "from the search space",
                                          [ORIGIN_OPERATOR] = "the operator's"};
    str_append(out, "\n\nValue: ");
    if (decl->constant.kind == CONST_INT || decl->constant.kind == CONST_BOOL)
        str_printf(out, "%lld, ", (long long)decl->constant.i);
    else if (decl->constant.kind == CONST_FLOAT) {
        str_append_double(out, decl->constant.f);
        str_append(out, ", ");
    }
    str_printf(out, "%s.", origins[decl->origin]);
}

static void put_loop(const Decl *decl, Str *out) {
    const LoopInfo *info = decl->loop ? decl->loop->loop : NULL;
    if (!info || !info->trips) return;
    str_append(out, "\n\nTrip count: `");
    put_aff(info->trips, out);
    str_printf(out, "`. %s.", info->proved_parallel ? "Its iterations are independent" : "Its iterations run in order");
}

void describe_decl(const Document *d, const Block *block, const Decl *decl, Str *out) {
    static const char *const directions[] = {"", ", only read", ", only written", ", read and written"};
    str_printf(out, "```sketch\n%s: ", decl->name);
    describe_type(&decl->type, out);
    str_printf(out, "\n```\n%s", kind_name(decl->kind));
    if (decl->kind == DECL_TENSOR || decl->kind == DECL_VIEW) str_append(out, directions[decl->direction]);
    switch (decl->kind) {
    case DECL_TILE:
        put_tile(d, block, decl, out);
        break;
    case DECL_CONSTEXPR:
        put_constexpr(decl, out);
        break;
    case DECL_LOOP:
        put_loop(decl, out);
        break;
    case DECL_LOCAL:
    case DECL_SYMBOL:
        if (decl->affine && decl->value) {
            str_append(out, " = `");
            put_aff(decl->affine, out);
            str_append(out, "`");
        }
        break;
    default:
        break;
    }
}

/* ---- Operations and hints ---- */

void describe_operation(BuiltinId id, Str *out) {
    const BuiltinInfo *info = builtin_info(id);
    Arena *arena = arena_create();
    BuiltinParam params[BUILTIN_MAX_PARAMS];
    size_t count = builtin_params(id, arena, params);
    str_printf(out, "```sketch\n%s(", info->name);
    for (size_t i = 0; i < count; i++)
        str_printf(out, "%s%s%s%s", i ? ", " : "", params[i].name, params[i].is_attribute ? "=" : "",
                   params[i].is_attribute && params[i].fallback ? params[i].fallback : "");
    str_printf(out, ")\n```\n%s", info->summary);
    if (builtin_is_defined(id)) str_printf(out, "\n\nDefined as `%s`.", info->ir + 2);
    arena_destroy(arena);
}

const char *hint_summary(const char *name) {
    static const struct {
        const char *name, *summary;
    } rows[] = {
#define LOOP_HINT(id, text, argument, summary) {text, summary},
#define PARALLEL_CONTEXT(id, text, summary) {text, summary},
#define ALLOC_HINT(text, place, wish, summary) {text, summary},
#include "hints.def"
        {"init_zero", "The tile starts as zeros: a meaning, not a hint."},
        {"sliding_window", "The slice below is meant as a sliding window."},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strcmp(rows[i].name, name) == 0) return rows[i].summary;
    return NULL;
}
