/* sketch-opt: reads text IR, verifies it, runs passes over it, prints it. The developer's tool for
 * every stage between front end and emitter. */
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "passes.h"
#include "rewrite.h"

typedef struct {
    const char *passes, *rewrite, *arch, *input;
    bool deterministic, strict_hints, help, quiet, time_report;
    PassOptions options;
} Command;

enum { EXIT_MISTAKE = 1, EXIT_USAGE = 2, EXIT_BUG = 5 };

static const char usage[] =
    "usage: sketch-opt [OPTIONS] FILE|-\n"
    "Reads text IR, verifies it, runs passes over it and prints the result.\n"
    "  --passes=A,B           run these passes, in order (default: none)\n"
    "  --rewrite=NAME|all     first apply this rewrite to the graph functions, or all (graph/rewrite/rewrites.def)\n"
    "  --arch=NAME            the target that passes see (default: sm_80)\n"
    "  --print-ir-after=A|all print the IR after these passes, to standard error\n"
    "  --stop-after=A         stop after this pass\n"
    "  --verify-each          verify after every pass, and that the IR reads back as printed\n"
    "  --deterministic        passes keep results independent of the order of atomics\n"
    "  --strict-hints         a hint that cannot be honoured is an error\n"
    "  --quiet                print no IR at the end\n"
    "  -ftime-report          print the time of each pass to standard error\n"
    "  --help                 print this text\n";

/* ---- Command line ---- */

static bool option_value(const char *arg, const char *name, const char **value) {
    size_t length = strlen(name);
    if (strncmp(arg, name, length) != 0 || arg[length] != '=') return false;
    *value = arg + length + 1;
    return true;
}

static bool option_flag(const char *arg, const char *name, bool *flag) {
    if (strcmp(arg, name) != 0) return false;
    *flag = true;
    return true;
}

static bool parse_argument(Command *c, const char *arg) {
    if (option_value(arg, "--passes", &c->passes) || option_value(arg, "--rewrite", &c->rewrite) || option_value(arg, "--arch", &c->arch) ||
        option_value(arg, "--print-ir-after", &c->options.print_after) || option_value(arg, "--stop-after", &c->options.stop_after))
        return true;
    if (option_flag(arg, "--verify-each", &c->options.verify_each) || option_flag(arg, "--deterministic", &c->deterministic) ||
        option_flag(arg, "--strict-hints", &c->strict_hints) || option_flag(arg, "--help", &c->help) ||
        option_flag(arg, "--quiet", &c->quiet) || option_flag(arg, "-ftime-report", &c->time_report))
        return true;
    if (arg[0] == '-' && arg[1]) return false;
    if (c->input) return false;
    c->input = arg;
    return true;
}

/* ---- Work ---- */

/* Which rewrites were applied, and how often, goes to the dump. */
static void run_rewrites(const Command *c, IrModule *m, Str *dump) {
    for (IrFunc *f = m->first; c->rewrite && f; f = f->next) {
        if (f->level != IR_LEVEL_GRAPH) continue;
        RewriteOptions options = {.only = strcmp(c->rewrite, "all") == 0 ? NULL : c->rewrite};
        RewriteCounts counts = rewrite_graph(m->arena, f, &options);
        str_printf(dump, "%s: ", f->name);
        rewrite_counts_print(&counts, dump);
        str_append_char(dump, '\n');
    }
}

static bool run_passes(const Command *c, PassContext *ctx, Str *dump, PassReport *report) {
    const PassId *passes = NULL;
    size_t count = 0;
    Arena *arena = ctx->module->arena;
    PassOptions options = c->options;
    options.round_trip = options.verify_each;
    options.dump = dump;
    run_rewrites(c, ctx->module, dump);
    if (c->passes && !pipeline_parse(arena, ctx->diags, c->passes, &passes, &count)) return false;
    ctx->target = target_find(arena, ctx->diags, c->arch ? c->arch : "sm_80");
    return ctx->target && passes_run(ctx, passes, count, &options, report);
}

static bool process(const Command *c, const Str *text, Arena *unit, DiagList *diags) {
    PassContext ctx = {.diags = diags, .deterministic = c->deterministic, .strict_hints = c->strict_hints};
    ctx.module = ir_parse(unit, diags, c->input, text->data, text->len);
    if (!ctx.module) return false;
    Str dump, out;
    PassReport report;
    str_init(&dump);
    str_init(&out);
    pass_report_init(&report);
    bool ok = run_passes(c, &ctx, &dump, &report);
    if (ok && !c->quiet) ir_print(ctx.module, &out);
    if (c->time_report) pass_report_print(&report, &dump);
    fputs(dump.data, stderr);
    fputs(out.data, stdout);
    pass_report_release(&report);
    str_release(&dump);
    str_release(&out);
    return ok;
}

static int status_of(const DiagList *diags, bool ok) {
    if (ok) return 0;
    for (const Diag *d = diags->first; d; d = d->next)
        if (d->severity == SEVERITY_BUG && d->id != DIAG_ir_invalid && d->id != DIAG_pass_failed) return EXIT_BUG;
    return EXIT_MISTAKE;
}

static int work(const Command *c) {
    Str text, messages;
    str_init(&text);
    str_init(&messages);
    if (!file_read(c->input, 64 << 20, &text)) {
        fprintf(stderr, "sketch-opt: cannot read %s\n", c->input);
        str_release(&text);
        return EXIT_MISTAKE;
    }
    Arena *unit = arena_create();
    SourceMap *sources = source_map_create(unit);
    DiagList diags;
    diag_list_init(&diags, unit, sources);
    bool ok = process(c, &text, unit, &diags);
    diag_render_text(&diags, false, &messages);
    fputs(messages.data, stderr);
    int status = status_of(&diags, ok);
    str_release(&text);
    str_release(&messages);
    arena_destroy(unit);
    return fflush(stdout) == 0 && !ferror(stdout) ? status : EXIT_MISTAKE;
}

int main(int argc, char **argv) {
    Command c = {0};
    fail_without_memory("sketch-opt");
    for (int i = 1; i < argc; i++) {
        if (parse_argument(&c, argv[i])) continue;
        fprintf(stderr, "sketch-opt: unexpected argument %s\n%s", argv[i], usage);
        return EXIT_USAGE;
    }
    if (c.help) {
        fputs(usage, stdout);
        return 0;
    }
    if (!c.input) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    return work(&c);
}
