/* Parses a graph from text and binds it, for the tests of verify/. */
#ifndef TESTS_UNIT_VERIFY_GRAPH_H
#define TESTS_UNIT_VERIFY_GRAPH_H
#include "check.h"
#include "show.h"
#include "verify.h"

static inline IrModule *graph_parse(Arena *arena, const char *text) {
    SourceMap *sources = source_map_create(arena);
    DiagList diags;
    diag_list_init(&diags, arena, sources);
    IrModule *m = ir_parse(arena, &diags, "graph.skir", text, strlen(text));
    if (!m || diags.error_count || !ir_verify(m, &diags)) {
        show_diags(&diags);
        exit(1);
    }
    return m;
}

static inline const Sizes *graph_sizes(Arena *arena, const IrFunc *f, size_t count, const SymbolValue *values) {
    Sizes given = {count, ARENA_ARRAY(arena, SymbolValue, count + 1)};
    if (count) memcpy(given.values, values, count * sizeof *values);
    const char *error = "";
    const Sizes *sizes = sizes_bind(arena, f, &given, &error);
    if (!sizes) fprintf(stderr, "%s\n", error);
    CHECK(sizes);
    return sizes;
}

/* Every tensor parameter that is read gets data from `generator`; buffers are filled when asked. */
static inline Evaluator *graph_bind(Arena *arena, const IrFunc *f, const Sizes *sizes, const char *generator, bool in_memory, bool exact,
                                    EvalInput **inputs) {
    EvalInput *list = ARENA_ARRAY(arena, EvalInput, f->param_count + 1);
    size_t count = 0;
    for (unsigned i = 0; i < f->param_count; i++) {
        if (f->params[i].kind != IR_PARAM_TENSOR) continue;
        EvalInput *in = &list[count++];
        InputSpec *spec = ARENA_NEW(arena, InputSpec);
        const char *error = NULL;
        CHECK(shape_of(sizes, f->params[i].name, f->body->args[i]->type, &in->shape));
        CHECK(input_spec_init(spec, 11, &in->shape, generator, 0, NULL, &error));
        in->spec = spec;
        if (!in_memory) continue;
        size_t bytes = (size_t)in->shape.elements * dtype_size(in->shape.dtype);
        void *data = arena_alloc(arena, bytes + 16);
        input_fill(spec, data, 0, in->shape.elements, 1);
        in->data = data;
    }
    EvalBinding *binding = ARENA_NEW(arena, EvalBinding);
    *binding = (EvalBinding){.sizes = sizes, .input_count = count, .inputs = list, .exact = exact};
    const char *error = NULL;
    Evaluator *ev = evaluator_create(arena, f, binding, &error);
    if (!ev) fprintf(stderr, "%s\n", error);
    CHECK(ev);
    if (inputs) *inputs = list;
    return ev;
}

/* The tensor parameters in order read these buffers. */
static inline Evaluator *graph_bind_data(Arena *arena, const IrFunc *f, const Sizes *sizes, const void *const *data, bool exact) {
    EvalInput *list = ARENA_ARRAY(arena, EvalInput, f->param_count + 1);
    size_t count = 0;
    for (unsigned i = 0; i < f->param_count; i++) {
        if (f->params[i].kind != IR_PARAM_TENSOR) continue;
        list[count].data = data[count];
        CHECK(shape_of(sizes, f->params[i].name, f->body->args[i]->type, &list[count].shape));
        count++;
    }
    EvalBinding *binding = ARENA_NEW(arena, EvalBinding);
    *binding = (EvalBinding){.sizes = sizes, .input_count = count, .inputs = list, .exact = exact};
    const char *error = NULL;
    Evaluator *ev = evaluator_create(arena, f, binding, &error);
    if (!ev) fprintf(stderr, "%s\n", error);
    CHECK(ev);
    return ev;
}

static inline EvalResult graph_all(Arena *arena, Evaluator *ev, unsigned output) {
    size_t n = (size_t)evaluator_output(ev, output)->elements;
    int64_t *flat = ARENA_ARRAY(arena, int64_t, n + 1);
    for (size_t i = 0; i < n; i++) flat[i] = (int64_t)i;
    EvalResult r = {ARENA_ARRAY(arena, double, n + 1), ARENA_ARRAY(arena, int64_t, n + 1), ARENA_ARRAY(arena, double, n + 1),
                    ARENA_ARRAY(arena, bool, n + 1), ARENA_ARRAY(arena, uint8_t, n + 1)};
    EvalRun *run = eval_run_create(ev);
    CHECK(eval_run(run, output, n, flat, &r));
    eval_run_destroy(run);
    return r;
}
#endif
