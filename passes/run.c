/* The runner: verification, dumps, timing, stopping and the reproducer, so that no pass does them.
 */
#include "passes.h"

#include <string.h>
#include <time.h>

void pass_report_init(PassReport *report) {
    *report = (PassReport){0};
    str_init(&report->reproducer);
}

void pass_report_release(PassReport *report) {
    str_release(&report->reproducer);
}

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void pass_report_print(const PassReport *report, Str *out) {
    double total = report->verify_seconds;
    for (unsigned i = 0; i < PASS_COUNT; i++) total += report->seconds[i];
    double scale = total > 0 ? 100 / total : 0;
    str_printf(out, "%10s %6s  %s\n", "ms", "%", "pass");
    for (unsigned i = 0; i < PASS_COUNT; i++)
        if (report->runs[i])
            str_printf(out, "%10.3f %6.1f  %s (%u)\n", 1e3 * report->seconds[i], scale * report->seconds[i], pass_info((PassId)i)->name,
                       report->runs[i]);
    str_printf(out, "%10.3f %6.1f  verify\n", 1e3 * report->verify_seconds, scale * report->verify_seconds);
    str_printf(out, "%10.3f %6.1f  all\n", 1e3 * total, 100.0);
}

/* Is `name` one of the names in `list` (commas between), or is the list "all"? */
static bool list_names(const char *list, const char *name) {
    if (!list) return false;
    if (strcmp(list, "all") == 0) return true;
    size_t length = strlen(name);
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        if (n == length && strncmp(p, name, n) == 0) return true;
        p += n + (p[n] == ',');
    }
    return false;
}

static void write_reproducer(const PassContext *ctx, const PassId *passes, size_t count, Str *out) {
    Str body;
    str_init(&body);
    ir_print(ctx->module, &body);
    const char *end_of_header = strchr(body.data, '\n');
    size_t header = end_of_header ? (size_t)(end_of_header - body.data) + 1 : 0;
    str_append_n(out, body.data, header);
    str_printf(out, "# repeat with: sketch-opt --arch=%s --passes=", ctx->target ? ctx->target->name : "?");
    for (size_t i = 0; i < count; i++) str_printf(out, "%s%s", i ? "," : "", pass_info(passes[i])->name);
    str_append(out, " FILE\n");
    str_append(out, body.data + header);
    str_release(&body);
}

static bool verify(PassContext *ctx, PassReport *report) {
    double start = now_seconds();
    bool ok = ir_verify(ctx->module, ctx->diags);
    report->verify_seconds += now_seconds() - start;
    return ok;
}

static bool round_trips(PassContext *ctx, const char *after) {
    Str first, second;
    str_init(&first);
    str_init(&second);
    ir_print(ctx->module, &first);
    Arena *arena = arena_create();
    IrModule *again = arena ? ir_parse(arena, ctx->diags, after, first.data, first.len) : NULL;
    bool ok = again != NULL;
    if (again) {
        ir_print(again, &second);
        ok = strcmp(first.data, second.data) == 0;
    }
    if (!ok) diag_report(ctx->diags, DIAG_round_trip, SPAN_NONE, after);
    arena_destroy(arena);
    str_release(&first);
    str_release(&second);
    return ok;
}

unsigned pass_state_of(const IrFunc *func) {
    if (func->level == IR_LEVEL_GRAPH) return 0;
    return func->level == IR_LEVEL_KERNEL ? PASS_STATE_KERNEL : 1u << func->state;
}

static const char *state_name(unsigned state) {
    return state == PASS_STATE_OPEN     ? "tile open"
           : state == PASS_STATE_STATIC ? "tile static"
           : state == PASS_STATE_MAPPED ? "tile mapped"
                                        : "kernel";
}

static void list_states(unsigned states, Str *out) {
    for (unsigned state = 1; state <= PASS_STATE_KERNEL; state <<= 1)
        if (states & state) str_printf(out, "%s%s", out->len ? " or " : "", state_name(state));
}

/* A function in none of the states; null: there is none. */
static const IrFunc *outside(const IrModule *m, unsigned states) {
    const IrFunc *f = m->first;
    while (f && (!pass_state_of(f) || (pass_state_of(f) & states))) f = f->next;
    return f;
}

/* Is the module one that the pass takes? */
static bool takes(PassContext *ctx, const PassInfo *info) {
    const IrFunc *f = outside(ctx->module, info->needs);
    if (!f) return true;
    Str list;
    str_init(&list);
    list_states(info->needs, &list);
    diag_report(ctx->diags, DIAG_pass_state, SPAN_NONE, info->name, list.data, f->name, state_name(pass_state_of(f)));
    str_release(&list);
    return false;
}

/* Did the pass leave the module as its row says? */
static bool leaves(PassContext *ctx, const PassInfo *info) {
    const IrFunc *f = info->leaves ? outside(ctx->module, info->leaves) : NULL;
    if (f)
        diag_report(ctx->diags, DIAG_pass_failed, SPAN_NONE, info->name, "it leaves a function in a state that passes.def does not name");
    return !f;
}

static bool run_one(PassContext *ctx, PassId id, PassReport *report) {
    const PassInfo *info = pass_info(id);
    if (!takes(ctx, info)) return false;
    Arena *scratch = arena_create();
    unsigned errors = ctx->diags->error_count;
    ctx->scratch = scratch;
    report->running = info->name;
    double start = now_seconds();
    bool ok = info->run(ctx);
    report->seconds[id] += now_seconds() - start;
    report->runs[id]++;
    report->running = NULL;
    ctx->scratch = NULL;
    arena_destroy(scratch);
    if (!ok && ctx->diags->error_count == errors) diag_report(ctx->diags, DIAG_pass_failed, SPAN_NONE, info->name, "it gave no reason");
    return ok && leaves(ctx, info);
}

static bool check(PassContext *ctx, const char *after, bool verify_it, const PassOptions *options, PassReport *report) {
    if (verify_it && !verify(ctx, report)) {
        diag_report(ctx->diags, DIAG_pass_failed, SPAN_NONE, after, "the verifier rejects its result");
        return false;
    }
    return !options->round_trip || round_trips(ctx, after);
}

bool passes_run(PassContext *ctx, const PassId *passes, size_t count, const PassOptions *options, PassReport *report) {
    write_reproducer(ctx, passes, count, &report->reproducer);
    if (options->on_reproducer) options->on_reproducer(options->context, report->reproducer.data, report->reproducer.len);
    if (!check(ctx, "input", true, options, report)) return false;
    for (size_t i = 0; i < count; i++) {
        const char *name = pass_info(passes[i])->name;
        bool last = i + 1 == count || (options->stop_after && strcmp(options->stop_after, name) == 0);
        if (options->on_pass) options->on_pass(options->pass_context, name);
        bool ok = run_one(ctx, passes[i], report);
        if (options->dump && list_names(options->print_after, name)) {
            str_printf(options->dump, "# after %s\n", name);
            ir_print(ctx->module, options->dump);
        }
        if (!ok || !check(ctx, name, options->verify_each || last, options, report)) return false;
        report->done++;
        if (last) {
            report->stopped = i + 1 < count;
            break;
        }
    }
    return true;
}
