/* Sketches made by rules: sketchc_design, and the one that stands in where a file has none. */
#include "api_internal.h"

#include "memory.h"
#include "build.h"
#include "design.h"
#include "frontend.h"

#include <string.h>

size_t sketchc_design_count(void) {
    return design_style_count();
}
const char *sketchc_design_name(size_t style) {
    return style < design_style_count() ? design_style(style)->name : NULL;
}
bool sketchc_design_is_naive(size_t style) {
    return style < design_style_count() && design_style(style)->naive;
}

static IrFunc *graph_of(const IrModule *module) {
    IrFunc *graph = module->first;
    while (graph && graph->level != IR_LEVEL_GRAPH) graph = graph->next;
    return graph;
}

/* The operator's block, then the sketch; false where the style does not fit. */
static bool design_text(sketchc_unit *unit, IrModule *module, const sketchc_options *options, size_t style, bool copies,
                        Str *out) {
    const Block *op = unit->file->op;
    const SourceFile *source = source_file(unit->sources, op->span.file);
    DesignError error = {0};
    DesignOptions own = {.vectors = options->target && strcmp(options->target, "openmp") == 0, .copies = copies};
    IrFunc *graph = graph_of(module);
    if (!graph) return false;
    str_append_n(out, source->text + op->span.begin, op->span.end - op->span.begin);
    str_append(out, "\n\n");
    if (design_sketch(unit->arena, graph, design_style(style), &own, out, &error)) return true;
    Span at = error.at.end ? error.at : op->name_span;
    diag_report(&unit->diags, DIAG_no_design, at, op->name, design_style(style)->name, error.what);
    return false;
}

static char *formatted(const sketchc_unit *unit, const Str *text, size_t *size) {
    char *result = NULL;
    sketchc_unit *own = sketchc_unit_create(unit->path, text->data, text->len);
    if (own) sketchc_format(own, &result, size);
    sketchc_unit_destroy(own);
    return result;
}

/* ---- Why there is none ---- */

static const Diag *first_error(const sketchc_unit *unit) {
    const Diag *d = unit->diags.first;
    while (d && d->severity != SEVERITY_ERROR) d = d->next;
    return d;
}

/* The last equation that gives the tensor a value. */
static const Stmt *equation_of(const Block *op, const char *name, size_t length) {
    const Stmt *found = NULL;
    for (size_t i = 0; i < op->body.count; i++) {
        const Stmt *s = op->body.data[i];
        for (size_t k = 0; s->action == ACTION_EQUATION && k < s->target_count; k++)
            if (s->targets[k]->kind == DECL_TENSOR && strlen(s->targets[k]->name) == length &&
                memcmp(s->targets[k]->name, name, length) == 0)
                found = s;
    }
    return found;
}

/* Whose nest is it? The first store to a result behind the place tells. */
static Span equation_behind(const Block *op, const char *text) {
    for (const char *at = strstr(text, " -> "); at; at = strstr(at, " -> ")) {
        at += 4;
        const Stmt *s = equation_of(op, at, strcspn(at, "[) \n"));
        if (s) return s->span;
    }
    return SPAN_NONE;
}

/* What the error says, once for all styles that it stops. */
static void add_reason(sketchc_unit *unit, size_t style, Span at, const char *what) {
    DesignReason **end = &unit->reasons;
    while (*end && (strcmp((*end)->what, what) != 0 || (*end)->at.begin != at.begin)) end = &(*end)->next;
    if (!*end) {
        *end = ARENA_NEW(unit->arena, DesignReason);
        **end = (DesignReason){.at = at, .what = what, .first = design_style(style)->name};
    }
    (*end)->styles++;
}

/* `tried` compiled a text that was designed for the operator of `unit`, or designed it. */
static void add_reason_of(sketchc_unit *unit, const sketchc_unit *tried, size_t style, bool designed) {
    const Diag *d = first_error(tried);
    if (!d) return;
    const Block *op = unit->file->op;
    const SourceFile *source = d->span.end && designed ? source_file(tried->sources, d->span.file) : NULL;
    Span at = source ? equation_behind(op, source->text + d->span.begin) : designed ? SPAN_NONE : d->span;
    const char *code = diag_code(d->id);
    at.file = at.end ? op->span.file : 0; /* the same text, of another unit */
    const char *what = d->id == DIAG_no_design ? strstr(d->text, ": ") : NULL;
    bool of_style = what && at.begin == op->name_span.begin; /* it does not suit any such operator */
    if (what) what = arena_strdup(unit->arena, what + 2);
    if (!of_style) add_reason(unit, style, at, what ? what : arena_printf(unit->arena, "%s (%s)", d->text, code));
}

void api_report_reasons(sketchc_unit *unit, Diag *diag) {
    const Block *op = unit->file->op;
    for (const DesignReason *r = unit->reasons; r; r = r->next) {
        const char *others = r->styles > 1 ? arena_printf(unit->arena, " and %u others", r->styles - 1) : "";
        diag_note(&unit->diags, diag, r->at.end ? r->at : op->name_span, "the style %s%s: %s", r->first, others, r->what);
    }
}

/* ---- Lowering ---- */

/* Is the code more than the target, or a limit below that, takes? */
static bool is_too_large(const sketchc_unit *unit) {
    const Diag *d = first_error(unit);
    return d && (d->id == DIAG_kernel_too_large || d->id == DIAG_tile_too_large);
}

/* Does the text lower to kernels for the target? `most_ops`: of that many operations at most; `large`: why not, may be null. */
static bool lowers(sketchc_unit *unit, const sketchc_options *options, size_t style, const char *text, size_t size, int64_t most_ops,
                   bool *large) {
    sketchc_options own = *options;
    char *data = NULL;
    size_t length;
    own.passes = own.print_ir_after = own.stop_after = NULL;
    own.on_reproducer = NULL;
    own.sketch = NULL;
    sketchc_unit *tried = sketchc_unit_create(unit->path, text, size);
    if (tried) tried->most_ops = most_ops;
    bool ok = tried && sketchc_emit(tried, &own, "kernel", &data, &length) == SKETCHC_OK;
    sketchc_free(data);
    if (tried && large) *large = !ok && is_too_large(tried);
    if (tried && !ok && unit->file) add_reason_of(unit, tried, style, true);
    sketchc_unit_destroy(tried);
    return ok;
}

/* Where tensors are updated in place and that does not lower, what they hold is copied first, if that does. */
static void design_into(sketchc_unit *unit, IrModule *module, const sketchc_options *options, size_t style, Str *out) {
    IrFunc *graph = graph_of(module);
    if (!design_text(unit, module, options, style, false, out)) return;
    if (!design_updates(unit->arena, graph) || lowers(unit, options, style, out->data, out->len, 0, NULL)) return;
    Str copies;
    str_init(&copies);
    if (design_text(unit, module, options, style, true, &copies) && lowers(unit, options, style, copies.data, copies.len, 0, NULL)) {
        str_release(out);
        str_init(out);
        str_append_n(out, copies.data, copies.len);
    }
    str_release(&copies);
}

static void check_and_design(sketchc_unit *unit, const sketchc_options *options, size_t style, Str *out) {
    if (!api_check(unit, options)) return;
    if (!unit->file->op) {
        diag_report(&unit->diags, DIAG_no_sketch, SPAN_NONE);
        return;
    }
    IrModule *module = api_build(unit);
    if (module) design_into(unit, module, options, style, out);
}

typedef struct {
    sketchc_unit *unit;
    const sketchc_options *options;
    size_t style;
    char **text;
    size_t *size;
} DesignCall;

static void design_call(void *call) {
    static const sketchc_options none = {.size = sizeof none};
    DesignCall *d = call;
    Str out;
    char *text = NULL;
    str_init(&out);
    check_and_design(d->unit, d->options ? d->options : &none, d->style, &out);
    bool well = api_status(d->unit) == SKETCHC_OK;
    if (well) text = formatted(d->unit, &out, d->size);
    if (well && !text) {
        text = api_string(&out); /* what does not parse is shown as it is */
        *d->size = out.len;
    }
    *d->text = text;
    str_release(&out);
}

sketchc_status sketchc_design(sketchc_unit *unit, const sketchc_options *options, size_t style,
                              char **text, size_t *size) {
    DesignCall d = {unit, options, style, text, size};
    *text = NULL;
    *size = 0;
    if (style >= design_style_count()) return SKETCHC_USAGE_ERROR;
    return api_call(unit, design_call, &d) ? api_status(unit) : SKETCHC_OUT_OF_MEMORY;
}

/* ---- A file without a sketch ---- */

/* What is tried first: blocks for products, rows for the rest; naive ones at the end. */
static size_t first_style(const IrModule *module) {
    const char *name = "rows";
    for (const IrFunc *f = module->first; f; f = f->next)
        for (const IrOp *op = f->body->first; op; op = op->next)
            if (design_is_contraction(op) || op->opcode == IR_GRAPH_TRANSPOSE)
                name = "blocks";
    size_t i = 0;
    while (i + 1 < design_style_count() && strcmp(design_style(i)->name, name) != 0) i++;
    return i;
}

static void free_text(void *text) {
    sketchc_free(*(char **)text);
}

static bool take(sketchc_unit *unit, const char *text, size_t size) {
    unit->designed = arena_strndup(unit->arena, text, size);
    unit->designed_size = size;
    return true;
}

/* The style that the options name; reports why it cannot be. */
static bool design_named(sketchc_unit *unit, const sketchc_options *options, IrModule *module) {
    const char *name = options->design;
    size_t style = 0, size = 0;
    while (style < design_style_count() && strcmp(design_style(style)->name, name) != 0) style++;
    if (style == design_style_count()) {
        diag_report(&unit->diags, DIAG_bad_option, SPAN_NONE,
                    arena_printf(unit->arena, "sketches are not designed in a style \"%s\"", name));
        return false;
    }
    Str out;
    str_init(&out);
    design_into(unit, module, options, style, &out);
    char *text = unit->diags.error_count ? NULL : formatted(unit, &out, &size);
    MemoryUndo drop;
    memory_push(&drop, free_text, &text);
    bool made = text && take(unit, text, size);
    memory_pop(&drop);
    sketchc_free(text);
    str_release(&out);
    return made;
}

/* When a style's turn is: the naive ones come last, and nests of their own for folds where one nest for all has too much code. */
static size_t turn_of(size_t style, size_t first, bool large) {
    const DesignStyle *s = design_style(style);
    return style == first ? 0 : s->naive ? 3 : large && s->staging >= STAGE_FOLDED ? 1 : 2;
}

static bool design_one(sketchc_unit *unit, const sketchc_options *options, size_t style, int64_t most_ops, bool *large) {
    size_t size = 0;
    char *text = NULL;
    sketchc_unit *own = sketchc_unit_create(unit->path, unit->text, unit->size);
    MemoryUndo drop;
    memory_push(&drop, free_text, &text);
    bool drawn = own && sketchc_design(own, options, style, &text, &size) == SKETCHC_OK;
    if (own && !drawn) add_reason_of(unit, own, style, false);
    bool made = drawn && lowers(unit, options, style, text, size, most_ops, large) && take(unit, text, size);
    memory_pop(&drop);
    sketchc_free(text);
    sketchc_unit_destroy(own);
    return made;
}

/* The first style, in the order of preference, whose code is no larger than that; 0: than any code may be. `large`: another one has more. */
static bool design_any(sketchc_unit *unit, const sketchc_options *options, size_t first, int64_t most_ops, bool *large) {
    bool first_large = false;
    *large = false;
    unit->reasons = NULL;
    for (size_t turn = 0; turn < 4; turn++)
        for (size_t i = 0; i < design_style_count(); i++) {
            bool more = false;
            if (turn_of(i, first, first_large) != turn) continue;
            if (design_one(unit, options, i, most_ops, &more)) return true;
            *large |= more;
            if (turn == 0) first_large = more;
        }
    return false;
}

/* Operations of all kernels together, after unrolling, that an assembler takes in a second or two: where a style has more, another one does with loops what that
 * one unrolls. Those of a product are several to one instruction of a matrix unit. Where no style has so few, some style may have less than all others. */
enum { MODEST_OPS = 32000, MODEST_PRODUCT_OPS = 100000, STEPS_OF_LIMIT = 4 };

static bool design_modestly(sketchc_unit *unit, const sketchc_options *options, size_t first) {
    int64_t most = strcmp(design_style(first)->name, "blocks") == 0 ? MODEST_PRODUCT_OPS : MODEST_OPS;
    bool large; /* else a higher limit changes nothing */
    if (design_any(unit, options, first, most, &large)) return true;
    if (large && design_any(unit, options, first, STEPS_OF_LIMIT * most, &large)) return true;
    return large && design_any(unit, options, first, 0, &large);
}

bool api_design_missing(sketchc_unit *unit, const sketchc_options *options, IrModule *module) {
    size_t first = first_style(module);
    if (options->design) return design_named(unit, options, module);
    return design_modestly(unit, options, first);
}
