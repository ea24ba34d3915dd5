/* The naive form, compiled, says of every element what the evaluator says, at each example's smallest case. Usage: test FILE.sketch... */
#include "../unit/check.h"
#include "../unit/show.h"
#include "build.h"
#include "compare_internal.h"
#include "verdict/reference.h"

static Evaluator *bind(Arena *arena, const IrModule *m, const IrCase *c) {
    const IrFunc *f = m->first;
    Sizes given = {c->symbol_count, ARENA_ARRAY(arena, SymbolValue, c->symbol_count + 1)};
    for (size_t i = 0; i < c->symbol_count; i++) given.values[i] = (SymbolValue){c->symbols[i], c->values[i]};
    const char *error = NULL;
    const Sizes *sizes = sizes_bind(arena, f, &given, &error);
    EvalInput *inputs = ARENA_ARRAY(arena, EvalInput, f->param_count + 1);
    EvalBinding *binding = ARENA_NEW(arena, EvalBinding);
    *binding = (EvalBinding){.sizes = sizes, .inputs = inputs};
    for (unsigned i = 0; i < f->param_count; i++) {
        EvalInput *in = &inputs[binding->input_count];
        InputSpec *spec = ARENA_NEW(arena, InputSpec);
        bool empty;
        if (f->params[i].kind != IR_PARAM_TENSOR || !f->body->args[i]->uses) continue;
        CHECK(shape_of(sizes, f->params[i].name, f->body->args[i]->type, &in->shape));
        input_spec_default(spec, 3, &in->shape);
        for (size_t k = 0; k < c->data_count; k++)
            if (strcmp(c->data[k].tensor, f->params[i].name) == 0)
                CHECK(input_spec_of_case(spec, 3, &in->shape, &c->data[k], sizes, &empty, &error));
        void *data = arena_alloc(arena, (size_t)in->shape.elements * dtype_size(in->shape.dtype) + 16);
        input_fill(spec, data, 0, in->shape.elements, 1);
        in->data = data;
        in->spec = spec;
        binding->input_count++;
    }
    Evaluator *ev = evaluator_create(arena, f, binding, &error);
    CHECK_STR(error ? error : "", "");
    return ev;
}

static const IrCase *smallest(const IrModule *m) {
    const IrCase *best = NULL;
    double least = 0;
    for (size_t i = 0; i < m->case_count; i++) {
        double size = 1;
        for (size_t k = 0; k < m->cases[i].symbol_count; k++) size *= (double)m->cases[i].values[k] + 1;
        if (!best || size < least) best = &m->cases[i], least = size;
    }
    return best;
}

/* Of a few thousand elements all that are certain. */
static int64_t compare(const Naive *naive, const Evaluator *ev, unsigned output) {
    enum { MOST = 4096 };
    int64_t flat[MOST], integer[MOST], differ = 0, n = evaluator_output(ev, output)->elements;
    double value[MOST] = {0}, bound[MOST];
    bool undecided[MOST];
    uint8_t way[MOST];
    EvalResult want = {value, integer, bound, undecided, way};
    EvalRun *run = eval_run_create(ev);
    if (n > MOST) n = MOST;
    memset(integer, 0, sizeof integer);
    for (int64_t i = 0; i < n; i++) flat[i] = i;
    eval_run(run, output, (size_t)n, flat, &want);
    for (int64_t i = 0; i < n; i++) differ += !undecided[i] && !naive_agrees(naive, output, i, value[i], integer[i], bound[i]);
    eval_run_destroy(run);
    return differ;
}

int main(int argc, char **argv) {
    int known = 0;
    for (int i = 1; i < argc; i++) {
        Arena *arena = arena_create();
        SourceMap *sources = source_map_create(arena);
        DiagList diags;
        Str text;
        str_init(&text);
        diag_list_init(&diags, arena, sources);
        CHECK(file_read(argv[i], 1 << 20, &text));
        File *file = frontend_parse(arena, sources, source_add(sources, argv[i], text.data, text.len), &diags);
        bool ok = frontend_check(arena, file, &(FrontendOptions){0}, &diags);
        IrModule *m = ok ? frontend_build(arena, sources, file, &diags) : NULL;
        CHECK(m && smallest(m));
        Evaluator *ev = bind(arena, m, smallest(m));
        Reference reference;
        reference_open(&reference, arena, ev, 1);
        printf("%s: %s\n", argv[i], reference.why ? reference.why : "known");
        if (reference.why && strcmp(reference.why, "there is no C compiler") == 0) return 77;
        CHECK(reference.naive);
        for (unsigned k = 0; reference.naive && k < evaluator_output_count(ev); k++) {
            int64_t differ = compare(reference.naive, ev, k);
            if (differ) printf("%s: %s: %lld elements differ\n", argv[i], evaluator_output(ev, k)->name, (long long)differ);
            CHECK(!differ);
        }
        known += reference.naive != NULL;
        reference_close(&reference);
        str_release(&text);
        arena_destroy(arena);
    }
    return known == argc - 1 ? 0 : 1;
}
