/* The driver: reads the command line and files, calls libsketchc, writes what comes back. */
#include "sketchc.h"
#include "ask.h"
#include "crash.h"
#include "diff.h"
#include "fail.h"
#include "library.h"
#include "lsp/lsp.h"
#include "options.h"
#include "progress.h"
#include "supervise.h"
#include "support.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SMALL_BYTES = 4 << 20, SOURCE_LIMIT = 64 << 20, ARTIFACT_LIMIT = 256 << 20 };

typedef struct {
    Arena *arena;
    CommandLine line;
    sketchc_options compile;
    sketchc_run_options run;
    const char *command; /* as it was typed, for a crash's file */
    Progress progress;
} Driver;

static const char *value(const Driver *d, OptionId id) {
    return option_value(&d->line, id);
}
static bool given(const Driver *d, OptionId id) {
    return option_given(&d->line, id);
}

/* ---- Log ---- */

enum { LOG_COMPILE = 1, LOG_PASSES = 2, LOG_RUN = 4 };
static const char *const log_names[] = {"compile", "passes", "run"};

/* The bits of SKETCHC_LOG; a word that means nothing is said once, by check_log. */
static unsigned log_bits(const char **unknown) {
    unsigned bits = 0;
    for (const char *p = env_get(ENV_LOG); p && *p;) {
        size_t n = strcspn(p, ","), i = 0;
        while (i < COUNT_OF(log_names) && (strlen(log_names[i]) != n || strncmp(log_names[i], p, n) != 0)) i++;
        if (i < COUNT_OF(log_names))
            bits |= 1u << i;
        else if (n && unknown)
            *unknown = p;
        p += n + (p[n] == ',');
    }
    return bits;
}

static bool logs(unsigned bit) {
    return log_bits(NULL) & bit;
}

static void check_log(void) {
    const char *unknown = NULL;
    log_bits(&unknown);
    if (unknown) fprintf(stderr, "sketchc: SKETCHC_LOG knows compile, passes and run, not \"%.*s\"\n", (int)strcspn(unknown, ","), unknown);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Options ---- */

/* NAME=VALUE in two. */
static bool split_pair(Driver *d, const char *text, const char **name, const char **rest) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) return false;
    *name = arena_strndup(d->arena, text, (size_t)(equals - text));
    *rest = equals + 1;
    return true;
}

/* Which of constexpr, symbol and scalar the name is the sketch or artifact knows. */
static int read_defines(Driver *d) {
    size_t n = d->line.given.len;
    sketchc_define *defines = ARENA_ARRAY(d->arena, sketchc_define, n + 1);
    for (size_t i = 0; i < n; i++) {
        if (d->line.given.data[i].id != OPTION_DEFINE) continue;
        sketchc_define *p = &defines[d->compile.define_count];
        if (!split_pair(d, d->line.given.data[i].value, &p->name, &p->value))
            return fail(SKETCHC_USAGE_ERROR, "-D wants NAME=VALUE, not \"%s\"", d->line.given.data[i].value);
        d->compile.define_count++;
    }
    d->compile.defines = d->run.defines = defines;
    d->run.define_count = d->compile.define_count;
    return 0;
}

static int read_number(const Driver *d, OptionId id, const char *name, double *number) {
    const char *text = value(d, id);
    if (text && (!parse_double(text, number) || *number < 0 || *number > 9e18))
        return fail(SKETCHC_USAGE_ERROR, "--%s wants a number of at least 0, not \"%s\"", name, text);
    return 0;
}

/* Those of all --case, commas between. */
static const char *read_cases(const Driver *d) {
    const char *names = NULL;
    for (size_t i = 0; i < d->line.given.len; i++) {
        if (d->line.given.data[i].id != OPTION_CASE) continue;
        const char *name = d->line.given.data[i].value;
        names = names ? arena_printf(d->arena, "%s,%s", names, name) : name;
    }
    return names;
}

static int read_run_options(Driver *d) {
    double seed = 0, bytes = 0, limit = 0, samples = 0;
    int bad = read_number(d, OPTION_SEED, "seed", &seed) | read_number(d, OPTION_MAX_BYTES, "max-bytes", &bytes) |
              read_number(d, OPTION_TIME_LIMIT, "time-limit", &limit) | read_number(d, OPTION_SAMPLES, "samples", &samples);
    if (given(d, OPTION_SAMPLES) && samples < 1) bad = fail(SKETCHC_USAGE_ERROR, "--samples wants a number of at least 1");
    if (bad) return SKETCHC_USAGE_ERROR;
    d->run.size = sizeof d->run;
    d->run.seed = (uint64_t)seed;
    d->run.max_bytes = (uint64_t)bytes;
    d->run.time_limit_s = limit;
    d->run.samples = (unsigned)samples;
    d->run.case_name = read_cases(d);
    d->run.no_ragged = given(d, OPTION_NO_RAGGED);
    d->run.exact = given(d, OPTION_EXACT);
    d->run.warm = given(d, OPTION_WARM);
    d->run.baseline = value(d, OPTION_BASELINE);
    d->run.cache_dir = given(d, OPTION_NO_CACHE) ? "" : NULL;
    return 0;
}

static int read_options(Driver *d) {
    d->compile.size = sizeof d->compile;
    d->compile.target = value(d, OPTION_TARGET);
    d->compile.arch = value(d, OPTION_ARCH);
    d->compile.sketch = value(d, OPTION_SKETCH);
    d->compile.design = value(d, OPTION_DESIGN);
    d->compile.strict_hints = given(d, OPTION_STRICT_HINTS);
    d->compile.deterministic = given(d, OPTION_DETERMINISTIC);
    d->compile.check = given(d, OPTION_CHECK);
    d->compile.verify_each = given(d, OPTION_VERIFY_EACH);
    d->compile.passes = value(d, OPTION_PASSES);
    d->compile.print_ir_after = value(d, OPTION_PRINT_IR_AFTER);
    d->compile.stop_after = value(d, OPTION_STOP_AFTER);
    d->compile.fault = value(d, OPTION_FAULT);
    const char *file = value(d, OPTION_TARGET_FILE);
    if (file) {
        Str text;
        str_init(&text);
        if (!file_read(file, SOURCE_LIMIT, &text)) return fail(SKETCHC_USAGE_ERROR, "cannot read %s: %s", file, strerror(errno));
        d->compile.target_file = arena_strdup(d->arena, text.data);
        str_release(&text);
    }
    if (!file && d->compile.arch) d->compile.target_file = own_target(d->arena, d->compile.arch);
    d->compile.library = library_texts(d->arena, value(d, OPTION_LIBRARY), &d->compile.library_count);
    int status = read_defines(d);
    return status ? status : read_run_options(d);
}

/* Where no target is named, code that will run is made for the GPU if there is one. */
static int choose_machine(Driver *d, bool will_run) {
    bool native = d->compile.arch && strcmp(d->compile.arch, "native") == 0;
    if (!will_run && !native) return 0;
    if (!d->compile.target && will_run) {
        char *arch = sketchc_native_arch("nvptx");
        d->compile.target = arch && sketchc_llvm_version() ? "nvptx" : arch ? "cuda" : "openmp";
        sketchc_free(arch);
    }
    if (d->compile.arch && !native) return 0;
    const char *target = d->compile.target ? d->compile.target : "nvptx";
    char *arch = sketchc_native_arch(target);
    if (!arch && native)
        return fail(SKETCHC_MISSING, "--arch=native: this machine has no device for -t %s (sketchc doctor says what it has)", target);
    d->compile.arch = arch ? arena_strdup(d->arena, arch) : NULL;
    sketchc_free(arch);
    return 0;
}

/* ---- Input and output ---- */

static bool wants_color(const Driver *d) {
    const char *color = value(d, OPTION_COLOR), *no_color = env_get(ENV_NO_COLOR);
    if (color && strcmp(color, "auto") != 0) return strcmp(color, "always") == 0;
    return !(no_color && *no_color) && isatty(STDERR_FILENO);
}

static void print_and_free(FILE *to, char *text) {
    if (text) fputs(text, to);
    sketchc_free(text);
}

static void report_diagnostics(const Driver *d, const sketchc_unit *unit) {
    const char *form = value(d, OPTION_DIAGNOSTICS);
    if (!unit) return;
    if (!form) form = "text";
    bool verbose = given(d, OPTION_VERBOSE);
    if (strcmp(form, "text") == 0 && wants_color(d))
        form = verbose ? "color" : "brief-color";
    else if (strcmp(form, "text") == 0 && !verbose)
        form = "brief";
    char *text = sketchc_diagnostics(unit, form);
    bool quiet = given(d, OPTION_QUIET) && !sketchc_error_count(unit);
    if (text && !quiet) fputs(text, stderr);
    sketchc_free(text);
    print_and_free(stderr, sketchc_ir_dump(unit));
    if (given(d, OPTION_TIME_REPORT) || logs(LOG_PASSES)) print_and_free(stderr, sketchc_time_report(unit));
}

static void save_reproducer(const sketchc_unit *unit) {
    char *text = unit ? sketchc_reproducer(unit) : NULL;
    if (!text) return;
    const char *path = "sketchc-bug.skir";
    if (file_write_atomic(path, text, strlen(text), 0600))
        fprintf(stderr, "sketchc: this is a bug of sketchc; %s repeats it, please report it\n", path);
    sketchc_free(text);
}

static int read_source(const char *path, size_t limit, Str *text) {
    if (file_read(path, limit, text)) return 0;
    return fail(errno == EFBIG ? SKETCHC_SOURCE_ERROR : SKETCHC_USAGE_ERROR, "cannot read %s: %s", path, strerror(errno));
}

static int write_output(const Driver *d, const char *data, size_t size) {
    const char *path = value(d, OPTION_OUTPUT);
    if (path && strcmp(path, "-") != 0) {
        if (file_write_atomic(path, data, size, 0644)) return 0;
        return fail(SKETCHC_USAGE_ERROR, "cannot write %s: %s", path, strerror(errno));
    }
    fwrite(data, 1, size, stdout);
    return fail_output(0);
}

/* ---- Commands ---- */

static int one_operand(const Driver *d, const char *what) {
    if (d->line.operands.len == 1) return 0;
    if (!d->line.operands.len) return fail(SKETCHC_USAGE_ERROR, "%s is missing; sketchc --help", what);
    return fail(SKETCHC_USAGE_ERROR, "one %s at a time, please: \"%s\" is too many", what, d->line.operands.data[1]);
}

/* What takes long says what it does, where somebody looks or asked for more words. */
static void watch(Driver *d, const char *command) {
    bool wanted = (isatty(STDERR_FILENO) || given(d, OPTION_VERBOSE)) && !given(d, OPTION_JSON) && !given(d, OPTION_QUIET);
    progress_begin(&d->progress, command, wanted);
    d->compile.on_progress = d->run.on_progress = progress_say;
    d->compile.progress_context = d->run.progress_context = &d->progress;
}

static void wait_as_planted(Driver *d) {
    progress_say(&d->progress, "a planted wait");
    sleep(3);
}

/* The library's work on one source, guarded: a crash in it is ours. Either an output or an
 * artifact. */
static int compile(Driver *d, const char *path, const Str *text, const char *form, Str *out, sketchc_artifact **artifact) {
    sketchc_unit *unit = sketchc_unit_create(strcmp(path, "-") ? path : "<stdin>", text->data, text->len);
    if (!unit) return SKETCHC_OUT_OF_MEMORY;
    char *data = NULL;
    size_t size = 0;
    double start = now();
    d->compile.on_reproducer = crash_have_ir;
    d->compile.context = arena_strdup(d->arena, d->compile.fault ? d->compile.fault : "");
    watch(d, "compile");
    crash_guard(d->command, text->data, text->len);
    if (d->compile.fault && strcmp(d->compile.fault, "abort-early") == 0) abort();
    if (d->compile.fault && strcmp(d->compile.fault, "wait") == 0) wait_as_planted(d);
    int status = artifact                   ? (int)sketchc_compile(unit, &d->compile, artifact)
                 : given(d, OPTION_EXPLAIN) ? (int)sketchc_predict(unit, &d->compile, given(d, OPTION_JSON) ? "json" : "text", &data)
                                            : (int)sketchc_emit(unit, &d->compile, form, &data, &size);
    if (data && !size) size = strlen(data);
    crash_unguard();
    progress_end(&d->progress);
    report_diagnostics(d, unit);
    if (status == SKETCHC_BUG) save_reproducer(unit);
    if (!status && !artifact) str_append_n(out, data, size);
    if (logs(LOG_COMPILE)) fprintf(stderr, "sketchc: compile: %s: status %d, %.3f ms\n", path, status, 1e3 * (now() - start));
    sketchc_free(data);
    sketchc_unit_destroy(unit);
    return status;
}

static bool is_binary(const char *form) {
    return form && (strcmp(form, "artifact") == 0 || strcmp(form, "cubin") == 0);
}

static int command_compile(Driver *d) {
    int status = one_operand(d, "file");
    if (!status && given(d, OPTION_PROPOSE)) {
        if (!d->compile.target) d->compile.target = "openmp";
        status = choose_machine(d, false);
    }
    if (!status && given(d, OPTION_PROPOSE))
        return command_propose(d->arena, &d->line, &d->compile, d->line.operands.data[0], d->run.seed, d->run.time_limit_s);
    const char *form = value(d, OPTION_EMIT), *output = value(d, OPTION_OUTPUT);
    bool to_terminal = (!output || strcmp(output, "-") == 0) && isatty(STDOUT_FILENO);
    if (!status && is_binary(form) && to_terminal) status = fail(SKETCHC_USAGE_ERROR, "--emit=%s is binary; give -o FILE", form);
    if (!status) status = choose_machine(d, false);
    if (status) return status;
    Str text, out;
    str_init(&text);
    str_init(&out);
    const char *path = d->line.operands.data[0];
    status = read_source(path, SOURCE_LIMIT, &text);
    if (!status) status = compile(d, path, &text, form, &out, NULL);
    if (!status) status = write_output(d, out.data, out.len);
    str_release(&out);
    str_release(&text);
    return status;
}

/* The first byte of an artifact's mark is no byte of UTF-8 text. */
static bool is_artifact(const Str *text) {
    return text->len && (unsigned char)text->data[0] == 0x89;
}

/* By its name a kernel's, and no artifact by its bytes. */
static bool is_code(const char *path) {
    static const char *const ends[] = {".ska", ".ptx", ".cu", ".c", ".ll", ".cubin"};
    const char *end = strrchr(path, '.');
    for (size_t i = 0; end && i < COUNT_OF(ends); i++)
        if (!strcmp(end, ends[i])) return true;
    return false;
}

/* What says how to compile has no meaning where that is done. */
static int check_artifact_options(const Driver *d, const char *path) {
    static const OptionId useless[] = {OPTION_TARGET,         OPTION_ARCH,         OPTION_TARGET_FILE,   OPTION_SKETCH,
                                       OPTION_DESIGN,         OPTION_STRICT_HINTS, OPTION_DETERMINISTIC, OPTION_CHECK,
                                       OPTION_PRINT_IR_AFTER, OPTION_VERIFY_EACH,  OPTION_TIME_REPORT};
    for (size_t i = 0; i < COUNT_OF(useless); i++)
        if (given(d, useless[i]))
            return fail(SKETCHC_USAGE_ERROR, "--%s has no meaning with %s, which is compiled already", option_table[useless[i]].name, path);
    return 0;
}

/* A sketch is compiled, an artifact read. */
static int load(Driver *d, const char *path, sketchc_artifact **artifact) {
    Str text;
    str_init(&text);
    int status = read_source(path, ARTIFACT_LIMIT, &text);
    if (!status && is_artifact(&text)) {
        char *message = NULL;
        status = check_artifact_options(d, path);
        if (!status && (status = (int)sketchc_artifact_read(text.data, text.len, artifact, &message)))
            fail(status, "%s: %s", path, message ? message : "out of memory");
        sketchc_free(message);
    } else if (!status && is_code(path)) {
        status = fail(SKETCHC_SOURCE_ERROR,
                      "%s: this is no artifact; write one with `sketchc FILE.sketch --emit=artifact "
                      "-o FILE.ska`, or give the sketch itself",
                      path);
    } else if (!status) {
        status = choose_machine(d, true);
        if (!status) status = compile(d, path, &text, NULL, NULL, artifact);
    }
    str_release(&text);
    return status;
}

static int read_files(Driver *d, OptionId id, const char *name, sketchc_file **files, size_t *count) {
    *files = ARENA_ARRAY(d->arena, sketchc_file, d->line.given.len + 1);
    for (size_t i = 0; i < d->line.given.len; i++) {
        if (d->line.given.data[i].id != id) continue;
        sketchc_file *f = &(*files)[(*count)++];
        if (!split_pair(d, d->line.given.data[i].value, &f->name, &f->path))
            return fail(SKETCHC_USAGE_ERROR, "--%s wants TENSOR=FILE.npy, not \"%s\"", name, d->line.given.data[i].value);
    }
    return 0;
}

static int run_once(Driver *d, const sketchc_artifact *artifact, const char *format, char **report) {
    sketchc_file *inputs, *outputs;
    size_t input_count = 0, output_count = 0;
    int status = read_files(d, OPTION_IN, "in", &inputs, &input_count);
    if (!status) status = read_files(d, OPTION_OUT, "out", &outputs, &output_count);
    if (status) return status;
    return (int)sketchc_run(artifact, &d->run, inputs, input_count, outputs, output_count, format, report);
}

static int execute(Driver *d, const char *path) {
    sketchc_artifact *artifact = NULL;
    int status = load(d, path, &artifact);
    if (status) return status;
    const char *format = given(d, OPTION_JSON) ? "json" : given(d, OPTION_VERBOSE) ? "verbose" : "text";
    char *report = NULL;
    double start = now();
    watch(d, d->line.command == COMMAND_VERIFY ? "verify" : d->line.command == COMMAND_BENCH ? "bench" : "run");
    if (d->line.command == COMMAND_VERIFY)
        status = (int)sketchc_verify(artifact, &d->run, format, &report);
    else if (d->line.command == COMMAND_BENCH)
        status = (int)sketchc_bench(artifact, &d->run, format, &report);
    else
        status = run_once(d, artifact, format, &report);
    progress_end(&d->progress);
    if (logs(LOG_RUN)) fprintf(stderr, "sketchc: run: %s: status %d, %.3f s\n", path, status, now() - start);
    /* What went wrong in `run` belongs to standard error; a report is the output. */
    bool is_message = d->line.command == COMMAND_RUN && !given(d, OPTION_JSON);
    bool quiet = given(d, OPTION_QUIET) && !status && !given(d, OPTION_JSON);
    if (is_message && report && *report)
        fprintf(stderr, "sketchc: %s", report);
    else if (!quiet && report)
        fputs(report, stdout);
    fflush(stdout);
    sketchc_free(report);
    sketchc_artifact_destroy(artifact);
    return status;
}

/* One report a file, in order; the status is the worst. */
static int command_execute(Driver *d) {
    bool once = d->line.command == COMMAND_RUN;
    int status = once || !d->line.operands.len ? one_operand(d, "file") : 0;
    if (status) return status;
    for (size_t i = 0; i < d->line.operands.len; i++) {
        int one = execute(d, d->line.operands.data[i]);
        if (one > status) status = one;
    }
    return status;
}

/* The file in the one style, into `out`. */
static int format_text(Driver *d, const char *path, const Str *text, Str *out) {
    sketchc_unit *unit = sketchc_unit_create(strcmp(path, "-") ? path : "<stdin>", text->data, text->len);
    if (!unit) return SKETCHC_OUT_OF_MEMORY;
    char *data;
    size_t size;
    crash_guard(d->command, text->data, text->len);
    int status = (int)sketchc_format(unit, &data, &size);
    crash_unguard();
    report_diagnostics(d, unit);
    if (!status) str_append_n(out, data, size);
    sketchc_free(data);
    sketchc_unit_destroy(unit);
    return status;
}

static int put_formatted(const Driver *d, const char *path, const Str *from, const Str *to) {
    bool changed = from->len != to->len || memcmp(from->data, to->data, to->len) != 0;
    if (given(d, OPTION_DIFF)) {
        Str diff;
        str_init(&diff);
        diff_lines(path, from, to, &diff);
        fputs(diff.data, stdout);
        str_release(&diff);
    }
    if (given(d, OPTION_CHECK) && changed) {
        if (!given(d, OPTION_DIFF)) printf("%s\n", path);
        return SKETCHC_SOURCE_ERROR;
    }
    if (given(d, OPTION_DIFF) || given(d, OPTION_CHECK)) return 0;
    if (strcmp(path, "-") == 0) return write_output(d, to->data, to->len);
    if (!changed || file_write_atomic(path, to->data, to->len, 0644)) return 0;
    return fail(SKETCHC_USAGE_ERROR, "cannot write %s: %s", path, strerror(errno));
}

static int format_file(Driver *d, const char *path) {
    Str text, out;
    str_init(&text);
    str_init(&out);
    int status = read_source(path, SOURCE_LIMIT, &text);
    if (!status) status = format_text(d, path, &text, &out);
    if (!status) status = put_formatted(d, path, &text, &out);
    str_release(&out);
    str_release(&text);
    return status;
}

static int command_format(Driver *d) {
    if (!d->line.operands.len) return one_operand(d, "file");
    int status = 0;
    for (size_t i = 0; i < d->line.operands.len; i++) {
        int one = format_file(d, d->line.operands.data[i]);
        if (one > status) status = one;
    }
    return status;
}

/* The page about a sketch. Code is CUDA C unless another target is named: PTX does not say its lines. */
static int explain_file(Driver *d, const char *path) {
    Str text;
    str_init(&text);
    if (!d->compile.target) d->compile.target = "cuda";
    int status = choose_machine(d, false);
    if (!status) status = read_source(path, SOURCE_LIMIT, &text);
    sketchc_unit *unit = status ? NULL : sketchc_unit_create(strcmp(path, "-") ? path : "<stdin>", text.data, text.len);
    char *page = NULL;
    size_t size = 0;
    if (!status && !unit) status = SKETCHC_OUT_OF_MEMORY;
    if (unit) {
        watch(d, "explain");
        crash_guard(d->command, text.data, text.len);
        status = (int)sketchc_explain_page(unit, &d->compile, &page, &size);
        crash_unguard();
        progress_end(&d->progress);
        report_diagnostics(d, unit);
    }
    if (!status) status = write_output(d, page, size);
    sketchc_free(page);
    sketchc_unit_destroy(unit);
    str_release(&text);
    return status;
}

static int command_explain(Driver *d) {
    int status = one_operand(d, given(d, OPTION_HTML) ? "file" : "code");
    if (status) return status;
    if (given(d, OPTION_HTML)) return explain_file(d, d->line.operands.data[0]);
    const char *word = d->line.operands.data[0], *text = sketchc_explain(word);
    if (!text && (strchr(word, '.') || strchr(word, '/') || access(word, F_OK) == 0))
        return fail(SKETCHC_USAGE_ERROR,
                    "%s is no diagnostic code such as E0101; of a sketch, `sketchc explain %s --html -o page.html` writes a page, "
                    "`sketchc %s --explain` the predicted times",
                    word, word, word);
    if (!text) return fail(SKETCHC_USAGE_ERROR, "there is no diagnostic code \"%s\"", word);
    puts(text);
    return 0;
}

static int command_grammar(const Driver *d) {
    if (d->line.operands.len) return fail(SKETCHC_USAGE_ERROR, "grammar takes no file");
    const char *form = value(d, OPTION_FORMAT), *text = sketchc_grammar(form ? form : "gbnf");
    return write_output(d, text, strlen(text));
}

static int command_calibrate(Driver *d) {
    if (d->line.operands.len) return fail(SKETCHC_USAGE_ERROR, "calibrate takes no file");
    char *report = NULL;
    int status = (int)sketchc_calibrate(d->compile.target, &d->run, given(d, OPTION_JSON) ? "json" : "text", &report);
    print_and_free(stdout, report);
    return status;
}

static int command_cache(Driver *d) {
    if (d->line.operands.len == 1 && strcmp(d->line.operands.data[0], "clear") == 0) {
        printf("%llu entries removed\n", (unsigned long long)sketchc_cache_clear());
        return 0;
    }
    if (d->line.operands.len) return fail(SKETCHC_USAGE_ERROR, "cache knows only: clear");
    print_and_free(stdout, sketchc_cache_info(given(d, OPTION_JSON) ? "json" : "text"));
    return 0;
}

static int print_version(const Driver *d) {
    const char *llvm = sketchc_llvm_version();
    if (given(d, OPTION_JSON))
        printf("{\"format\": 1, \"kind\": \"version\", \"version\": \"%s\", \"api\": %u, \"llvm\": "
               "%s%s%s}\n",
               sketchc_version(), sketchc_api_version(), llvm ? "\"" : "", llvm ? llvm : "null", llvm ? "\"" : "");
    else
        printf("sketchc %s (%s%s)\n", sketchc_version(), llvm ? "LLVM " : "no PTX target", llvm ? llvm : "");
    return 0;
}

static int print_document(const Driver *d) {
    Str out;
    str_init(&out);
    const char *form = value(d, OPTION_PRINT_DOC);
    bool ok = true;
    if (form)
        ok = options_document(form, sketchc_version(), &out);
    else
        options_help(&out);
    fputs(out.data, stdout);
    str_release(&out);
    return ok ? 0 : fail(SKETCHC_USAGE_ERROR, "--print-doc knows man, bash, zsh, fish");
}

/* Options with a closed set of words take no other; options of other commands are refused. */
static int check_options(const Driver *d) {
    Str error;
    str_init(&error);
    int status = options_check(&d->line, &error) ? 0 : fail(SKETCHC_USAGE_ERROR, "%s", error.data);
    str_release(&error);
    return status;
}

/* Does the command start other programs and make temporary files? --propose has judges that see to that. */
static bool is_supervised(const Driver *d) {
    const char *form = value(d, OPTION_EMIT);
    switch (d->line.command) {
    case COMMAND_RUN:
    case COMMAND_VERIFY:
    case COMMAND_BENCH:
    case COMMAND_CALIBRATE:
    case COMMAND_LIBRARY:
        return true;
    case COMMAND_COMPILE:
        return form && strcmp(form, "cubin") == 0;
    default:
        return false;
    }
}

/* The cases of a file that are small, on the processor: whether it is fit for the library. */
static int verify_small(void *driver, const char *path) {
    Driver *d = driver;
    d->line.command = COMMAND_VERIFY;
    d->line.operands.len = 0;
    VEC_PUSH(d->arena, &d->line.operands, path);
    d->compile.target = "openmp";
    d->run.no_ragged = true;
    if (!d->run.max_bytes) d->run.max_bytes = SMALL_BYTES;
    int status = command_execute(d);
    d->line.command = COMMAND_LIBRARY;
    return status;
}

static int dispatch(Driver *d) {
    if (given(d, OPTION_HELP) || given(d, OPTION_PRINT_DOC)) return print_document(d);
    if (given(d, OPTION_VERSION)) return print_version(d);
    check_log();
    int status = check_options(d);
    if (!status) status = read_options(d);
    if (status) return status;
    if (d->compile.fault && strncmp(d->compile.fault, "memory:", 7) == 0) fail_allocation(strtol(d->compile.fault + 7, NULL, 10));
    if (is_supervised(d)) supervise_from_here();
    switch (d->line.command) {
    case COMMAND_COMPILE:
        return command_compile(d);
    case COMMAND_FMT:
        return command_format(d);
    case COMMAND_LSP:
        return d->line.operands.len ? fail(SKETCHC_USAGE_ERROR, "lsp takes no file") : lsp_serve(STDIN_FILENO, STDOUT_FILENO);
    case COMMAND_GRAMMAR:
        return command_grammar(d);
    case COMMAND_CONFIG:
        return command_config(&d->line);
    case COMMAND_LIBRARY:
        return command_library(d->arena, &d->line, verify_small, d);
    case COMMAND_DB:
        return command_db(&d->line);
    case COMMAND_REPORT:
    case COMMAND_DATASET:
        return command_from_store(&d->line);
    case COMMAND_DOCSPEC:
        return command_docspec(d->arena, &d->line);
    case COMMAND_EXPLAIN:
        return command_explain(d);
    case COMMAND_CALIBRATE:
        return command_calibrate(d);
    case COMMAND_CACHE:
        return command_cache(d);
    case COMMAND_DOCTOR:
        if (d->line.operands.len) return fail(SKETCHC_USAGE_ERROR, "doctor takes no file");
        print_and_free(stdout, sketchc_doctor(given(d, OPTION_JSON) ? "json" : "text"));
        return 0;
    default:
        return command_execute(d);
    }
}

static const char *join_words(Arena *arena, int count, char **words) {
    const char *line = "sketchc";
    for (int i = 1; i < count; i++) line = arena_printf(arena, "%s %s", line, words[i]);
    return line;
}

int main(int argc, char **argv) {
    supervise_prepare();
    fail_without_memory("sketchc");
    if (argc == 2 && strcmp(argv[1], judge_word) == 0) {
        serve_as_judge();
        _exit(0); /* the search does not wait */
    }
    Driver d = {.arena = arena_create()};
    crash_on_interrupt();
    d.command = join_words(d.arena, argc, argv);
    Str error;
    str_init(&error);
    int status = options_parse(d.arena, argc, argv, &d.line, &error) ? dispatch(&d) : fail(SKETCHC_USAGE_ERROR, "%s", error.data);
    if (status == SKETCHC_OUT_OF_MEMORY) fail(status, "out of memory");
    str_release(&error);
    arena_destroy(d.arena);
    return fail_output(status);
}
