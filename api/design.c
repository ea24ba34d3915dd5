/* Sketches made by rules: sketchc_design, and a style tried or named where a file has none. */
#include "api_internal.h"

#include "build.h"
#include "design.h"
#include "frontend.h"
#include "memory.h"
#include "rewrite.h"

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

/* A copy of the operator's graph as designs of the style read it. */
static IrFunc *rewritten(sketchc_unit *unit, IrModule *module, const sketchc_options *given, size_t style, RewriteCounts *counts) {
    const DesignStyle *s = design_style(style);
    RewriteOptions options = {.apart = api_for_processor(given), .workspaces = design_by_form(s) || s->staging == STAGE_PACKED};
    IrFunc *graph = graph_of(module), *copy = graph ? ir_func_clone(graph, graph->name) : NULL;
    if (copy) *counts = rewrite_graph(unit->arena, copy, &options);
    return copy;
}

IrFunc *api_rewritten(sketchc_unit *unit, IrModule *module, const sketchc_options *options, size_t style, const char **rewrites) {
    RewriteCounts counts;
    Str text;
    str_init(&text);
    IrFunc *copy = rewritten(unit, module, options, style, &counts);
    if (copy) rewrite_counts_print(&counts, &text);
    if (rewrites) *rewrites = text.len ? arena_strdup(unit->arena, text.data) : NULL;
    str_release(&text);
    return copy;
}

const char *api_rewrites(sketchc_unit *unit, IrModule *module, const sketchc_options *options, size_t style) {
    const char *result = NULL;
    IrFunc *copy = api_rewritten(unit, module, options, style, &result);
    if (copy) ir_func_remove(copy);
    return result;
}

/* What the style asks of the graph; null: it suits, else why not. */
static const char *asked_rewrites(sketchc_unit *unit, IrFunc *graph, const DesignStyle *style) {
    if (style->staging != STAGE_PACKED) return NULL;
    RewriteCounts counts = rewrite_graph(unit->arena, graph, &(RewriteOptions){.only = "packs"});
    rewrite_graph(unit->arena, graph, &(RewriteOptions){.only = "planes", .tile = style->inner});
    return rewrite_counts_all(&counts) ? NULL : "no factor of a product is read through a window";
}

static void report_unfit(sketchc_unit *unit, size_t style, const DesignError *error) {
    const Block *op = unit->file->op, *used = unit->file->used;
    Span at = error->at.end ? error->at : op->name_span;
    if (used)
        diag_report(&unit->diags, DIAG_unfit_use, used->uses[0].span, used->uses[0].name, op->name, error->what);
    else
        diag_report(&unit->diags, DIAG_no_design, at, op->name, design_style(style)->name, error->what);
}

/* The operator's block, then the sketch; false where the style does not fit. */
static bool design_text(sketchc_unit *unit, IrModule *module, const sketchc_options *options, size_t style, bool copies, Str *out) {
    const Block *op = unit->file->op;
    const SourceFile *source = source_file(unit->sources, op->span.file);
    DesignError error = {0};
    DesignOptions own = {.op_name = op->name, .vectors = api_for_processor(options), .copies = copies};
    RewriteCounts counts;
    IrFunc *graph = rewritten(unit, module, options, style, &counts);
    if (!graph) return false;
    own.fitting = unit->trial;
    api_design_options(unit, options, &own);
    own.regions = &unit->regions;
    str_append_n(out, source->text + op->span.begin, op->span.end - op->span.begin);
    str_append(out, "\n\n");
    error.what = asked_rewrites(unit, graph, design_style(style));
    bool made = !error.what && design_sketch(unit->arena, graph, design_style(style), &own, out, &error);
    ir_func_remove(graph);
    if (made) return true;
    report_unfit(unit, style, &error);
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

void api_report_no_sketch(sketchc_unit *unit) {
    const Block *op = unit->file ? unit->file->op : NULL;
    Diag *d = diag_report(&unit->diags, DIAG_no_sketch, op ? op->name_span : SPAN_NONE);
    if (op) api_report_reasons(unit, d);
    if (op) diag_note(&unit->diags, d, SPAN_NONE, "add `sketch %s_tiled implements %s { ... }`, which says how", op->name, op->name);
}

/* ---- Lowering ---- */

/* Is the code more than the target, or a limit below that, takes? */
static bool is_too_large(const sketchc_unit *unit) {
    const Diag *d = first_error(unit);
    return d && (d->id == DIAG_kernel_too_large || d->id == DIAG_tile_too_large);
}

typedef struct {
    sketchc_unit *unit;
    const sketchc_options *options;
    DesignTrial *trial;
} Lower;

static void count_op(void *count, IrOp *op) {
    (void)op;
    ++*(int64_t *)count;
}

static void lower_call(void *call) {
    Lower *l = call;
    Compile c;
    if (!api_check(l->unit, l->options) || !api_target(l->unit, l->options, NULL, &c)) return;
    IrModule *module = api_build(l->unit);
    if (!module) return;
    api_keep_level(module, IR_LEVEL_TILE);
    if (!module->first)
        api_report_no_sketch(l->unit);
    else if (api_lower(l->unit, &c, module))
        api_predict_cases(module, c.target, l->unit->arena, l->trial);
    for (IrFunc *f = module->first; f; f = f->next) ir_walk(f->body, count_op, &l->trial->ops);
}

/* Does the text lower to kernels for the target? Of `most_ops` operations at most. */
static bool lowers(sketchc_unit *unit, const sketchc_options *options, const char *text, size_t size, int64_t most_ops,
                   DesignTrial *trial) {
    sketchc_options own = *options;
    own.passes = own.print_ir_after = own.stop_after = NULL;
    own.on_reproducer = NULL;
    own.sketch = NULL;
    sketchc_unit *tried = sketchc_unit_create(unit->path, text, size);
    if (tried) tried->most_ops = most_ops, tried->style = design_style(trial->style)->name;
    bool ok = tried && api_call(tried, lower_call, &(Lower){tried, &own, trial}) && api_status(tried) == SKETCHC_OK;
    trial->large = tried && !ok && is_too_large(tried);
    if (tried && !ok && unit->file) add_reason_of(unit, tried, trial->style, true);
    sketchc_unit_destroy(tried);
    return ok;
}

/* Where tensors are updated in place and that does not lower, what they hold is copied first, if that does. */
static void design_into(sketchc_unit *unit, IrModule *module, const sketchc_options *options, size_t style, Str *out) {
    IrFunc *graph = graph_of(module);
    if (!design_text(unit, module, options, style, false, out)) return;
    DesignTrial trial = {.style = style};
    if (!design_updates(unit->arena, graph) || lowers(unit, options, out->data, out->len, 0, &trial)) return;
    Str copies;
    str_init(&copies);
    if (design_text(unit, module, options, style, true, &copies) && lowers(unit, options, copies.data, copies.len, 0, &trial)) {
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

sketchc_status sketchc_design(sketchc_unit *unit, const sketchc_options *options, size_t style, char **text, size_t *size) {
    DesignCall d = {unit, options, style, text, size};
    *text = NULL;
    *size = 0;
    if (style >= design_style_count()) return SKETCHC_USAGE_ERROR;
    return api_call(unit, design_call, &d) ? api_status(unit) : SKETCHC_OUT_OF_MEMORY;
}

void api_design_regions(sketchc_unit *unit, const sketchc_options *options, IrModule *module, size_t style) {
    Str text;
    str_init(&text);
    design_text(unit, module, options, style, false, &text);
    str_release(&text);
}

/* ---- A file without a sketch ---- */

static void free_text(void *text) {
    sketchc_free(*(char **)text);
}

bool api_design_take(sketchc_unit *unit, const char *text, size_t size) {
    unit->designed = arena_strndup(unit->arena, text, size);
    unit->designed_size = size;
    return true;
}

bool api_design_named(sketchc_unit *unit, const sketchc_options *options, IrModule *module) {
    const char *name = options->design;
    size_t style = 0;
    while (style < design_style_count() && strcmp(design_style(style)->name, name) != 0) style++;
    if (style < design_style_count()) return api_design_in(unit, options, module, style);
    return api_usage(unit, arena_printf(unit->arena, "sketches are not designed in a style \"%s\"", name));
}

bool api_design_in(sketchc_unit *unit, const sketchc_options *options, IrModule *module, size_t style) {
    size_t size = 0;
    Str out;
    str_init(&out);
    design_into(unit, module, options, style, &out);
    char *text = unit->diags.error_count ? NULL : formatted(unit, &out, &size);
    MemoryUndo drop;
    memory_push(&drop, free_text, &text);
    bool made = text && api_design_take(unit, text, size);
    memory_pop(&drop);
    sketchc_free(text);
    str_release(&out);
    return made;
}

void api_design_try(sketchc_unit *unit, const sketchc_options *options, int64_t most_ops, DesignTrial *trial) {
    char *text = NULL;
    sketchc_unit *own = sketchc_unit_create(unit->path, unit->text, unit->size);
    MemoryUndo drop;
    memory_push(&drop, free_text, &text);
    if (own) own->trial = !options->design && !unit->file->used;
    bool drawn = own && sketchc_design(own, options, trial->style, &text, &trial->size) == SKETCHC_OK;
    if (own && !drawn) add_reason_of(unit, own, trial->style, false);
    if (drawn && lowers(unit, options, text, trial->size, most_ops, trial)) trial->text = arena_strndup(unit->arena, text, trial->size);
    memory_pop(&drop);
    sketchc_free(text);
    sketchc_unit_destroy(own);
}
