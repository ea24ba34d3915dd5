/* The user's own library: files with an operator that is a product of two matrices, and a sketch of it. */
#include "api_internal.h"

#include "library.h"

#include <string.h>

/* ---- What a file of a library is ---- */

/* The tensor parameter that the value is; null: it is none. */
static const char *param_of(const IrFunc *f, const IrValue *v) {
    for (unsigned i = 0; i < f->param_count; i++)
        if (f->params[i].kind == IR_PARAM_TENSOR && f->body->args[i] == v) return f->params[i].name;
    return NULL;
}

/* The one product of the operator, of two of its tensors, that is its result, but for a cast; null: it is another one. */
static const IrOp *product_of(const IrFunc *f) {
    const IrOp *product = NULL;
    for (const IrOp *op = f->body->first; op && op != f->body->last; op = op->next) {
        if (op->opcode == IR_CAST && product) continue;
        if (product || !design_is_matrix_product(op) || !param_of(f, op->operands[0]) || !param_of(f, op->operands[1])) return NULL;
        product = op;
    }
    return f->body->last && f->body->last->operand_count == 1 ? product : NULL;
}

/* Are the sketch's tensors the two factors and the result, in this order, with symbols for extents? */
static bool has_tensors(const Block *sketch, const IrFunc *f, const IrOp *product) {
    const char *names[] = {param_of(f, product->operands[0]), param_of(f, product->operands[1]), ir_attr(f->body->last, "names")->strs[0]};
    unsigned count = 0;
    for (size_t i = 0; i < sketch->decl_count; i++) {
        const Decl *t = sketch->decls[i];
        if (t->kind != DECL_TENSOR) continue;
        if (count == COUNT_OF(names) || strcmp(t->name, names[count++]) != 0) return false;
        for (size_t k = 0; k < t->dim_count; k++)
            if (t->dims[k]->kind != EXPR_NAME) return false;
    }
    return count == COUNT_OF(names);
}

static const char *misfit(sketchc_unit *unit, const sketchc_options *options) {
    if (!api_check(unit, options)) return "it has errors, which `sketchc FILE` tells";
    const Block *sketch = unit->file->sketch;
    if (!sketch || !unit->file->op || !sketch->name[0]) return "it has no sketch with a name that implements an operator";
    const IrModule *module = api_build(unit);
    const IrFunc *graph = module ? module->first : NULL;
    while (graph && graph->level != IR_LEVEL_GRAPH) graph = graph->next;
    const IrOp *product = graph ? product_of(graph) : NULL;
    if (!product) return "its operator is not one product of two matrices, such as C = A @ B";
    return has_tensors(sketch, graph, product)
               ? NULL
               : "its sketch's tensors are not left factor, right factor and result, with symbols as extents";
}

typedef struct {
    sketchc_unit *unit;
    const char *why;
    bool done;
} Ask;

static void ask_call(void *call) {
    static const sketchc_options none = {.size = sizeof none};
    Ask *a = call;
    a->why = misfit(a->unit, &none);
    a->done = true;
}

char *sketchc_library_refuses(const char *text) {
    Ask ask = {.unit = sketchc_unit_create("library", text, strlen(text))};
    char *why = NULL;
    Str copy;
    str_init(&copy);
    if (ask.unit && api_call(ask.unit, ask_call, &ask) && ask.why) {
        str_append(&copy, ask.why);
        why = api_string(&copy);
    }
    str_release(&copy);
    sketchc_unit_destroy(ask.unit);
    return why;
}

/* ---- Files ---- */

/* The name of the sketch in a formatted text. */
static const char *sketch_name(Arena *arena, const char *text) {
    const char *begin = strstr(text, "\nsketch ") + strlen("\nsketch ");
    return arena_strndup(arena, begin, strcspn(begin, " {"));
}

/* A file in the one style, as the binder reads it; false: it is none of a library. */
static bool read_file(Arena *arena, const char *text, LibraryFile *file) {
    size_t size;
    char *formatted = NULL, *why = sketchc_library_refuses(text);
    sketchc_unit *own = why ? NULL : sketchc_unit_create("library", text, strlen(text));
    bool formed = own && sketchc_format(own, &formatted, &size) == SKETCHC_OK;
    *file = (LibraryFile){.text = formed ? arena_strdup(arena, formatted) : NULL, .own = true};
    if (formed) file->name = sketch_name(arena, file->text);
    sketchc_free(formatted);
    sketchc_free(why);
    sketchc_unit_destroy(own);
    return formed;
}

const LibraryFile *api_own_library(sketchc_unit *unit, const sketchc_options *options, size_t *count) {
    LibraryFile *files = ARENA_ARRAY(unit->arena, LibraryFile, options->library_count + 1);
    *count = 0;
    for (size_t i = 0; i < options->library_count; i++)
        if (read_file(unit->arena, options->library[i], &files[*count])) ++*count;
    return files;
}

const char *sketchc_library_name(size_t index) {
    return index < library_count() ? library_file(index).name : NULL;
}
const char *sketchc_library_text(size_t index) {
    return index < library_count() ? library_file(index).text : NULL;
}
