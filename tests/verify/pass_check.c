/* Runs a pipeline pass by pass over a module and interprets the module before and after each pass that changes it:
 * every result must be within the operator's error bound (or exact), with no trap, and the same
 * when independent iterations run in reverse.
 *
 *   pass_check FILE [--graph=FILE.skir] [--op=NAME] [--arch=NAME] [--blocks=N] [--slow] [--ready] [--passes=A,B]
 *              [--exact] [--plant=PASS:OLD=>NEW] [-DNAME=VALUE]... [-v] SIZES...
 *
 * FILE is text IR or, ending in .sketch, an operator with its sketch. *
 * SIZES is M=3,N=77. The reference is the graph function NAME (default: the first) of --graph or of
 * the file itself. --blocks: how many the target holds at a time. --slow: of 1 GB/s and an L2 of 1 KB. --ready: launches and
 * latencies take a nanosecond. --plant edits the text of the module
 * after a pass, to show that the check sees the fault. Under the sanitizers (SANITIZED is set) the first and the last of the sizes are taken:
 * others take the same ways through our code.
 *
 * In the short run (SKETCHC_TEST_LONG is 0) every second module between the first and the last, under the sanitizers every fourth,
 * is interpreted, in one order, the last in both: SKETCHC_TEST_SEED, the day's, draws which. What a pass breaks is still broken at
 * the end: the planted faults are found so, too. All passes run in any case; with --passes every module is interpreted. */
#include "../unit/verify/graph.h"
#include "build.h"
#include "passes.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* An error to meson, which should_fail does not take for a fault that was found: nothing was planted, an option that there is
 * not, a file that is none, a crash. */
enum { NOTHING_PLANTED = 99 };

typedef struct {
    const char *file, *graph, *op, *arch, *blocks, *passes, *plant;
    bool exact, verbose, slow, ready;
    size_t define_count;
    FrontendDefine defines[16];
} Options;

typedef struct {
    Arena *arena;
    const Options *options;
    const Sizes *sizes; /* of the operator */
    Sizes given;        /* of the sketch: symbols of its own, too */
    const IrFunc *graph;
    Evaluator *ev;
    EvalInput *in;
    size_t tensor_count;
    InterpretTensor *tensors;
    bool *is_output;
    void **passed; /* what the last verdict that passed was of, by tensor; null before */
} Run;

static _Noreturn void refuse(const char *what) {
    fprintf(stderr, "pass_check: %s\n", what);
    exit(NOTHING_PLANTED);
}

static IrModule *from_sketch(Arena *arena, DiagList *diags, const Options *o, const char *path, const Str *text) {
    uint32_t source = source_add(diags->sources, path, text->data, text->len);
    File *file = frontend_parse(arena, diags->sources, source, diags);
    FrontendOptions options = {.defines = o->defines, .define_count = o->define_count};
    bool ok = frontend_check(arena, file, &options, diags);
    return ok ? frontend_build(arena, diags->sources, file, diags) : NULL;
}

static IrModule *load(Arena *arena, DiagList *diags, const Options *o, const char *path) {
    Str text;
    str_init(&text);
    IrModule *m = NULL;
    const char *suffix = strrchr(path, '.');
    if (!file_read(path, 64 << 20, &text))
        fprintf(stderr, "cannot read %s\n", path);
    else if (suffix && strcmp(suffix, ".sketch") == 0)
        m = from_sketch(arena, diags, o, path, &text);
    else
        m = ir_parse(arena, diags, path, text.data, text.len);
    str_release(&text);
    return m;
}

/* ---- Memory of a launch ---- */

static unsigned output_number(const Run *r, const char *name) {
    unsigned k = 0;
    while (k < evaluator_output_count(r->ev) && strcmp(evaluator_output(r->ev, k)->name, name) != 0) k++;
    return k;
}

static const EvalInput *input_named(const Run *r, const char *name) {
    for (size_t i = 0; r->in[i].shape.name; i++)
        if (strcmp(r->in[i].shape.name, name) == 0) return &r->in[i];
    return NULL;
}

static void add_tensor(Run *r, const Shape *shape, bool output) {
    size_t bytes = (size_t)shape->elements * dtype_size(shape->dtype);
    r->is_output[r->tensor_count] = output;
    r->tensors[r->tensor_count++] = (InterpretTensor){shape->name, arena_alloc(r->arena, bytes + 16), bytes};
}

static void make_tensors(Run *r) {
    size_t inputs = 0;
    while (r->in[inputs].shape.name) inputs++;
    size_t most = inputs + evaluator_output_count(r->ev);
    r->tensors = ARENA_ARRAY(r->arena, InterpretTensor, most + 1);
    r->is_output = ARENA_ARRAY(r->arena, bool, most + 1);
    for (size_t i = 0; i < inputs; i++) add_tensor(r, &r->in[i].shape, false);
    for (unsigned k = 0; k < evaluator_output_count(r->ev); k++) {
        size_t same = 0;
        const Shape *shape = evaluator_output(r->ev, k);
        while (same < inputs && strcmp(r->tensors[same].name, shape->name) != 0) same++;
        if (same < inputs)
            r->is_output[same] = true; /* inout */
        else
            add_tensor(r, shape, true);
    }
}

static void reset_tensors(Run *r) {
    for (size_t i = 0; i < r->tensor_count; i++) {
        InterpretTensor *t = &r->tensors[i];
        const EvalInput *in = input_named(r, t->name);
        if (!in)
            poison_fill(evaluator_output(r->ev, output_number(r, t->name))->dtype, t->data, t->bytes);
        else
            memcpy(t->data, in->data, t->bytes);
    }
}

/* ---- Judging ---- */

/* The operator's scalars at their defaults, which a sketch need not repeat. */
static size_t default_scalars(const IrFunc *graph, EvalScalar *scalars) {
    size_t count = 0;
    for (unsigned i = 0; i < graph->param_count; i++)
        if (graph->params[i].kind == IR_PARAM_SCALAR && !isnan(graph->params[i].fallback))
            scalars[count++] = (EvalScalar){graph->params[i].name, graph->params[i].fallback};
    return count;
}

static bool launch(Run *r, const IrModule *m, bool reverse, const char *stage) {
    const char *error = NULL;
    Arena *scratch = arena_create();
    EvalScalar *scalars = ARENA_ARRAY(scratch, EvalScalar, r->graph->param_count + 1);
    InterpretArgs args = {.sizes = &r->given,
                          .tensor_count = r->tensor_count,
                          .tensors = r->tensors,
                          .scalar_count = default_scalars(r->graph, scalars),
                          .scalars = scalars,
                          .reverse = reverse};
    reset_tensors(r);
    bool ok = interpret_module(scratch, m, &args, &error);
    if (!ok) printf("%s: trap: %s\n", stage, error);
    arena_destroy(scratch);
    return ok;
}

/* The verdict is a function of these bytes: most passes leave them as they were. */
static bool same_as_passed(const Run *r) {
    bool same = r->passed;
    for (size_t i = 0; same && i < r->tensor_count; i++) same = memcmp(r->passed[i], r->tensors[i].data, r->tensors[i].bytes) == 0;
    return same;
}

static void keep_passed(Run *r) {
    if (!r->passed) {
        r->passed = ARENA_ARRAY(r->arena, void *, r->tensor_count + 1);
        for (size_t i = 0; i < r->tensor_count; i++) r->passed[i] = arena_alloc(r->arena, r->tensors[i].bytes + 1);
    }
    for (size_t i = 0; i < r->tensor_count; i++) memcpy(r->passed[i], r->tensors[i].data, r->tensors[i].bytes);
}

static bool judge(Run *r, const char *stage) {
    Verdict v;
    Str text;
    if (same_as_passed(r) && !r->options->verbose) return true;
    verdict_init(&v, r->arena);
    CompareOptions options = {.threads = 1, .exact = r->options->exact};
    for (size_t i = 0; i < r->tensor_count; i++)
        if (r->is_output[i])
            verdict_check_output(&v, r->ev, output_number(r, r->tensors[i].name), r->tensors[i].data, !input_named(r, r->tensors[i].name),
                                 &options);
        else
            verdict_check_input(&v, input_named(r, r->tensors[i].name)->spec, r->tensors[i].data, 1);
    bool ok = verdict_passed(&v);
    if (ok) keep_passed(r);
    if (ok && !r->options->verbose) return true;
    str_init(&text);
    verdict_print_text(&v, &text);
    printf("%s: %s\n%s", stage, ok ? "passes" : "FAILS", ok ? "" : text.data);
    str_release(&text);
    return ok;
}

/* Are there float sums whose order is free? Then reverse order is judged by the bound. */
static void note_adds(void *ctx, IrOp *op) {
    bool tile = op->opcode == IR_TILE_STORE && strcmp(ir_attr_str(op, "mode", ""), "add") == 0;
    bool kernel = op->opcode == IR_MEM_ATOMIC && strcmp(ir_attr_str(op, "kind", ""), "add") == 0;
    if ((tile || kernel) && dtype_is_float(op->operands[0]->type->dtype)) *(bool *)ctx = true;
}

static bool adds(const IrModule *m) {
    bool found = false;
    for (const IrFunc *f = m->first; f; f = f->next)
        if (f->level != IR_LEVEL_GRAPH) ir_walk(f->body, note_adds, &found);
    return found;
}

static bool same_in_reverse(Run *r, const IrModule *m, const char *stage) {
    Arena *arena = arena_create();
    void **kept = ARENA_ARRAY(arena, void *, r->tensor_count + 1);
    for (size_t i = 0; i < r->tensor_count; i++) {
        kept[i] = arena_alloc(arena, r->tensors[i].bytes + 1);
        memcpy(kept[i], r->tensors[i].data, r->tensors[i].bytes);
    }
    bool ok = launch(r, m, true, stage);
    for (size_t i = 0; ok && i < r->tensor_count; i++) {
        ok = adds(m) || memcmp(kept[i], r->tensors[i].data, r->tensors[i].bytes) == 0;
        if (!ok) printf("%s: %s differs in reverse order\n", stage, r->tensors[i].name);
    }
    arena_destroy(arena);
    return ok && (!adds(m) || judge(r, stage));
}

static bool planted; /* so far; what fails before is no fault that was found */

static bool check_stage(Run *r, const IrModule *m, const char *stage, bool both_orders) {
    return launch(r, m, false, stage) && judge(r, stage) && (!both_orders || same_in_reverse(r, m, stage));
}

static const char *environment(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}

static bool takes_all(const Options *o) {
    return o->passes || strcmp(environment("SKETCHC_TEST_LONG", "1"), "1") == 0;
}

/* Does the day's seed choose the module after this pass? */
static bool drawn(const Run *r, size_t pass) {
    Str text;
    const char *folder = strrchr(r->options->file, '/'); /* of this clone */
    str_init(&text);
    str_printf(&text, "%s %s %s %zu %" PRId64, environment("SKETCHC_TEST_SEED", "1"), folder ? folder : r->options->file, r->options->arch,
               pass, r->given.count ? r->given.values[0].value : 0);
    bool chosen = hash128(text.data, text.len, (Hash128){3, 4}).lo % (getenv("SANITIZED") ? 4 : 2) == 0;
    str_release(&text);
    return chosen;
}

/* ---- Passes ---- */

/* PASS:OLD=>NEW replaces the first OLD in the text of the module after PASS. */
static IrModule *plant_fault(Run *r, DiagList *diags, IrModule *m, const char *pass) {
    const char *plant = r->options->plant;
    size_t length = strlen(pass);
    if (!plant || strncmp(plant, pass, length) != 0 || plant[length] != ':') return m;
    const char *old = plant + length + 1, *is = strstr(old, "=>");
    Str text, edited;
    str_init(&text);
    str_init(&edited);
    ir_print(m, &text);
    char *what = arena_strndup(r->arena, old, (size_t)(is - old));
    char *at = strstr(text.data, what);
    if (!at) {
        printf("nothing to plant: no %s after %s\n%s", what, pass, text.data);
        exit(NOTHING_PLANTED);
    }
    str_append_n(&edited, text.data, (size_t)(at - text.data));
    str_append(&edited, is + 2);
    str_append(&edited, at + strlen(what));
    planted = true;
    m = ir_parse(m->arena, diags, "planted", edited.data, edited.len);
    if (!m) {
        show_diags(diags);
        exit(NOTHING_PLANTED);
    }
    str_release(&text);
    str_release(&edited);
    return m;
}

static uint64_t text_hash(const IrModule *m) {
    Str text;
    str_init(&text);
    ir_print(m, &text);
    uint64_t hash = hash128(text.data, text.len, (Hash128){1, 2}).lo;
    str_release(&text);
    return hash;
}

static bool check_pipeline(Run *r, Arena *unit, DiagList *diags, IrModule *m) {
    const PassId *passes = NULL;
    size_t count = 0;
    PassContext ctx = {.module = m, .diags = diags};
    ctx.target = target_find(unit, diags, r->options->arch);
    if (!ctx.target) refuse(r->options->arch);
    Target target = *ctx.target;
    if (r->options->blocks) target.sms = strtoll(r->options->blocks, NULL, 10), target.blocks_sm = 1, target.l2_bytes = 1;
    if (r->options->slow) target.copy_gb_s = target.read_gb_s = target.fill_gb_s = 1, target.l2_bytes = 1024;
    if (r->options->ready) target.launch_ns = target.latency_ns = 1;
    ctx.target = &target;
    if (!r->options->passes)
        passes = pipeline_for(ctx.target->kind, &count);
    else if (!pipeline_parse(unit, diags, r->options->passes, &passes, &count))
        refuse(r->options->passes);
    bool all = takes_all(r->options);
    if (!check_stage(r, ctx.module, "source", all)) return false;
    uint64_t checked = text_hash(ctx.module);
    for (size_t i = 0; i < count; i++) {
        PassReport report;
        PassOptions none = {.verify_each = true};
        pass_report_init(&report);
        bool ran = passes_run(&ctx, &passes[i], 1, &none, &report);
        pass_report_release(&report);
        const char *name = pass_info(passes[i])->name;
        if (!ran) {
            printf("%s: the pass failed\n", name);
            return false;
        }
        ctx.module = plant_fault(r, diags, ctx.module, name);
        bool end = i + 1 == count;
        if (!all && !end && !drawn(r, i)) continue;
        uint64_t now = text_hash(ctx.module);
        if ((now != checked || (end && !all)) && !check_stage(r, ctx.module, name, all || end)) return false;
        checked = now;
    }
    return true;
}

static void parse_sizes(Run *r, char *text) {
    SymbolValue *values = ARENA_ARRAY(r->arena, SymbolValue, 16);
    size_t count = 0;
    for (char *part = strtok(text, ","); part && count < 16; part = strtok(NULL, ",")) {
        char *is = strchr(part, '=');
        CHECK(is);
        *is = 0;
        values[count++] = (SymbolValue){part, strtoll(is + 1, NULL, 10)};
    }
    r->given = (Sizes){count, values};
    r->sizes = graph_sizes(r->arena, r->graph, count, values);
}

static bool check_sizes(const Options *o, const char *sizes) {
    Arena *unit = arena_create();
    SourceMap *sources = source_map_create(unit);
    DiagList diags;
    diag_list_init(&diags, unit, sources);
    IrModule *m = load(unit, &diags, o, o->file);
    IrModule *g = o->graph ? load(unit, &diags, o, o->graph) : m;
    bool ok = false;
    if (!m || !g) {
        show_diags(&diags);
        refuse(o->file);
    }
    if (m && g) {
        Run r = {.arena = unit, .options = o, .graph = g->first};
        while (r.graph && (r.graph->level != IR_LEVEL_GRAPH || (o->op && strcmp(r.graph->name, o->op) != 0))) r.graph = r.graph->next;
        CHECK(r.graph);
        for (unsigned i = 0; !*sizes && i < r.graph->param_count; i++)
            if (r.graph->params[i].kind == IR_PARAM_SYMBOL) refuse("no sizes");
        parse_sizes(&r, arena_strdup(unit, sizes));
        r.ev = graph_bind(unit, r.graph, r.sizes, o->exact ? "exact" : "normal", true, o->exact, &r.in);
        make_tensors(&r);
        ok = check_pipeline(&r, unit, &diags, m);
    }
    if (!ok || o->verbose) show_diags(&diags);
    if (!ok) printf("%s %s at %s: FAILED\n", o->file, o->arch, sizes);
    arena_destroy(unit);
    return ok;
}

static bool value_of(const char *arg, const char *name, const char **value) {
    size_t length = strlen(name);
    if (strncmp(arg, name, length) != 0) return false;
    *value = arg + length;
    return true;
}

static void on_crash(int number) {
    (void)number;
    _exit(NOTHING_PLANTED);
}

int main(int argc, char **argv) {
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    Options o = {.arch = "sm_80"};
    /* A sanitizer takes them itself. */
    for (size_t i = 0; i < COUNT_OF(crashes) && !getenv("SANITIZED"); i++) signal(crashes[i], on_crash);
    bool ok = true, begun = false;
    const char *last = NULL; /* of the sizes that are not taken yet */
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (value_of(a, "--graph=", &o.graph) || value_of(a, "--op=", &o.op) || value_of(a, "--arch=", &o.arch) ||
            value_of(a, "--blocks=", &o.blocks) || value_of(a, "--passes=", &o.passes) || value_of(a, "--plant=", &o.plant))
            continue;
        if (strncmp(a, "-D", 2) == 0 && strchr(a, '=') && o.define_count < COUNT_OF(o.defines)) {
            char *name = argv[i] + 2, *is = strchr(name, '=');
            *is = 0;
            o.defines[o.define_count++] = (FrontendDefine){name, is + 1};
            continue;
        }
        if (strcmp(a, "--exact") == 0)
            o.exact = true;
        else if (strcmp(a, "-v") == 0)
            o.verbose = true;
        else if (strcmp(a, "--slow") == 0)
            o.slow = true;
        else if (strcmp(a, "--ready") == 0)
            o.ready = true;
        else if (a[0] == '-')
            refuse(a);
        else if (!o.file)
            o.file = a;
        else if (begun && getenv("SANITIZED"))
            last = a;
        else
            ok = check_sizes(&o, a) && ok, begun = true;
    }
    if (last) ok = check_sizes(&o, last) && ok;
    if (!begun) ok = check_sizes(&o, ""); /* a sketch without symbols has no other */
    if (o.plant && !planted) refuse("the pass of --plant did not run");
    return ok ? 0 : 1;
}
