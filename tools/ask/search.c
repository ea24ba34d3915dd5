/* --propose without a model, or with a strategy: the search. */
#include "ask.h"

#include "fail.h"
#include "json.h"
#include "llm.h"
#include "search.h"
#include "work.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { SEARCH_OPERATOR_LIMIT = 1 << 20 };

static atomic_int stop;

static void on_interrupt(int number) {
    (void)number;
    if (atomic_exchange(&stop, 1)) _exit(SKETCHC_INTERRUPTED); /* the second time at once */
}

const atomic_int *catch_interrupts(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_interrupt}, before;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
    return &stop;
}

/* ---- Judges ---- */

const char judge_word[] = "judge-candidates";

void serve_as_judge(void) {
    pool_serve(search_work);
}

const char *const judge_command[] = {"/proc/self/exe", judge_word, NULL};

/* ---- Progress ---- */

static double rate(const SearchProgress *p) {
    return p->elapsed > 0 ? p->tried / p->elapsed : 0;
}

/* As members of an object, or for people. */
static void append_failures(const SearchProgress *p, bool json, Str *out) {
    bool any = false;
    for (FailureKind kind = FAILURE_NONE + 1; kind < FAILURE_COUNT; kind++) {
        if (!p->failures[kind]) continue;
        str_append(out, any ? ", " : "");
        if (json)
            str_printf(out, "\"%s\": %u", failure_name(kind), p->failures[kind]);
        else
            str_printf(out, "%u %s", p->failures[kind], failure_name(kind));
        any = true;
    }
    if (!any && !json) str_append(out, "none");
}

static void append_text(const SearchProgress *p, Str *out) {
    if (p->answers) str_append(out, "answers: ");
    if (p->asking) str_printf(out, "%u asked, ", p->asking);
    str_printf(out, "%u tried (%.1f/s), %u run, %u repeated; ", p->tried, rate(p), p->verified, p->repeated);
    if (p->best_seconds > 0) str_printf(out, "best %.4g ms (%s), ", 1e3 * p->best_seconds, p->best_name);
    if (p->best_seconds > 0 && p->naive_seconds > 0) str_printf(out, "%.2fx naive, ", p->naive_seconds / p->best_seconds);
    if (p->percent_of_roof > 0)
        str_printf(out, "%.0f %% of roof", p->percent_of_roof);
    else
        str_append(out, "roof not known");
    str_append(out, "; failed: ");
    append_failures(p, false, out);
    if (p->calls) str_printf(out, "; %u calls, %lld tokens", p->calls, (long long)(p->tokens_in + p->tokens_out));
    if (p->calls && p->cost >= 0) str_printf(out, ", cost %.4g", p->cost);
    if (p->calls && p->cost < 0) str_append(out, ", cost not known");
}

/* One line, rewritten in place on a terminal and cut at its edge. */
static void print_text(const SearchProgress *p) {
    struct winsize window;
    Str out;
    str_init(&out);
    append_text(p, &out);
    bool terminal = isatty(STDERR_FILENO);
    int width = (int)out.len;
    if (terminal && !p->done && ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1 && width >= window.ws_col)
        width = window.ws_col - 1;
    fprintf(stderr, terminal ? "\r%.*s\033[K%s" : "%.*s%s", width, out.data, terminal && !p->done ? "" : "\n");
    str_release(&out);
}

static void append_number(const char *name, double value, bool known, Str *out) {
    str_printf(out, ", \"%s\": ", name);
    if (known)
        str_append_double(out, value);
    else
        str_append(out, "null");
}

static void print_json(const SearchProgress *p) {
    Str out;
    str_init(&out);
    str_printf(&out,
               "{\"kind\": \"progress\", \"phase\": \"%s\", \"round\": %u, \"asking\": %u, \"tried\": %u, \"run\": %u, "
               "\"repeated\": %u, \"elapsed_s\": ",
               p->answers ? "answers" : "search", p->round, p->asking, p->tried, p->verified, p->repeated);
    str_append_double(&out, p->elapsed);
    append_number("per_s", rate(p), true, &out);
    append_number("best_s", p->best_seconds, true, &out);
    append_number("naive_s", p->naive_seconds, true, &out);
    append_number("percent_of_roof", p->percent_of_roof, p->percent_of_roof > 0, &out);
    str_append(&out, ", \"best\": ");
    str_append_json(&out, p->best_name);
    str_append(&out, ", \"failures\": {");
    append_failures(p, true, &out);
    str_printf(&out, "}, \"calls\": %u, \"tokens_in\": %lld, \"tokens_out\": %lld", p->calls, (long long)p->tokens_in,
               (long long)p->tokens_out);
    append_number("cost", p->cost, p->cost >= 0, &out);
    str_printf(&out, ", \"done\": %s}\n", p->done ? "true" : "false");
    fputs(out.data, stderr);
    str_release(&out);
}

static void on_progress(void *context, const SearchProgress *p) {
    const char *form = context;
    if (strcmp(form, "json") == 0)
        print_json(p);
    else if (strcmp(form, "text") == 0)
        print_text(p);
}

/* ---- The search ---- */

static double number(const CommandLine *line, OptionId id) {
    double value;
    const char *text = option_value(line, id);
    return text && parse_double(text, &value) && value > 0 ? value : 0;
}

static const char *progress_form(const CommandLine *line) {
    const char *form = option_value(line, OPTION_PROGRESS);
    if (form) return form;
    return option_given(line, OPTION_QUIET) || !isatty(STDERR_FILENO) ? "none" : "text";
}

void ask_progress(const CommandLine *line, const SearchProgress *progress) {
    on_progress((void *)progress_form(line), progress);
}

static const char *output_path(const CommandLine *line) {
    const char *path = option_value(line, OPTION_OUTPUT);
    return path && strcmp(path, "-") != 0 ? path : NULL;
}

bool ask_check_output(const CommandLine *line) {
    const char *path = output_path(line), *slash = path ? strrchr(path, '/') : NULL;
    char folder[4096];
    if (!path) return true;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    if (access(folder, W_OK) == 0) return true;
    fprintf(stderr, "sketchc: cannot write %s: its folder %s: %s; name a file in a folder that is there and may be written\n", path, folder,
            strerror(errno));
    return false;
}

int ask_write_sketch(const CommandLine *line, const Str *text) {
    const char *path = output_path(line);
    bool printed = !path && !option_given(line, OPTION_JSON);
    int status = 0;
    if (path && !file_write_atomic(path, text->data, text->len, 0644)) {
        printed = !option_given(line, OPTION_JSON);
        fprintf(stderr, "sketchc: cannot write %s: %s%s\n", path, strerror(errno), printed ? "; the sketch follows" : "");
        status = SKETCHC_USAGE_ERROR;
    }
    if (printed) fwrite(text->data, 1, text->len, stdout);
    return printed ? fail_output(status) : status;
}

double ask_own_seconds(const SearchResult *r) {
    return r->default_seconds > 0 ? r->default_seconds : r->naive_seconds;
}

void ask_say_found(const CommandLine *line, const SearchResult *r, const char *more) {
    double own = ask_own_seconds(r);
    if (option_given(line, OPTION_QUIET)) return;
    fprintf(stderr, "%s: %.4g ms at %s, the compiler's own %.4g ms (%.2fx), naive %.4g ms%s%s\n", r->winner, 1e3 * r->best_seconds,
            r->case_name, 1e3 * own, own / r->best_seconds, 1e3 * r->naive_seconds, more,
            r->complete ? "" : "; verified at small cases only");
}

static void report(const CommandLine *line, const SearchResult *r) {
    Str out;
    char seed[64] = "", more[192];
    if (r->complete && r->verify_seed) snprintf(seed, sizeof seed, "; verified with --seed=%llu", (unsigned long long)r->verify_seed);
    snprintf(more, sizeof more, "; %u tried, %u run, %.1f s%s", r->last.tried, r->last.verified, r->last.elapsed, seed);
    ask_say_found(line, r, more);
    if (!option_given(line, OPTION_JSON)) return;
    str_init(&out);
    str_append(&out, "{\"format\": 1, \"kind\": \"search\", \"winner\": ");
    str_append_json(&out, r->winner);
    str_append(&out, ", \"case\": ");
    str_append_json(&out, r->case_name);
    str_append(&out, ", \"best_s\": ");
    str_append_double(&out, r->best_seconds);
    str_append(&out, ", \"naive_s\": ");
    str_append_double(&out, r->naive_seconds);
    str_append(&out, ", \"default_s\": ");
    str_append_double(&out, ask_own_seconds(r));
    str_printf(&out, ", \"verified\": %s, \"tried\": %u, \"run\": %u, \"repeated\": %u, \"elapsed_s\": ", r->complete ? "true" : "false",
               r->last.tried, r->last.verified, r->last.repeated);
    str_append_double(&out, r->last.elapsed);
    str_printf(&out, ", \"reference\": {\"evaluated\": %llu, \"reused\": %llu, \"past\": %llu}", (unsigned long long)r->reference.computed,
               (unsigned long long)r->reference.found, (unsigned long long)r->reference.past);
    str_printf(&out, ", \"measured_again\": %s", r->baseline_before > 0 ? "true" : "false");
    str_printf(&out, ", \"verify_seed\": %llu}\n", (unsigned long long)r->verify_seed);
    fputs(out.data, stdout);
    str_release(&out);
}

/* Versions change seldom, what a compiler does with every build. */
static void append_build(Str *out) {
    enum { PROGRAM_LIMIT = 1 << 30 };
    char hex[33];
    Str program;
    str_init(&program);
    if (file_read("/proc/self/exe", PROGRAM_LIMIT, &program)) {
        hash128_hex(hash128(program.data, program.len, (Hash128){0, 0}), hex);
        str_append_member(out, "build", hex);
    }
    str_release(&program);
}

void ask_environment(Str *out) {
    char *doctor = sketchc_doctor("json"), error[128];
    Json *root = doctor ? json_read(doctor, strlen(doctor), NULL, error) : NULL;
    const char *llvm = json_get_string(root, "llvm", "");
    str_append(out, "{\"sketchc\": ");
    str_append_json(out, sketchc_version());
    append_build(out);
    str_append(out, ", \"llvm\": ");
    str_append_json(out, llvm);
    for (const Json *t = json_first(json_get(root, "tools")); t; t = json_next(t)) {
        if (!json_get_bool(t, "found", false)) continue;
        str_append(out, ", ");
        str_append_json(out, json_get_string(t, "name", ""));
        str_append(out, ": ");
        str_append_json(out, json_get_string(t, "version", ""));
    }
    str_append(out, "}");
    json_release(root);
    sketchc_free(doctor);
}

static int status_of(const CommandLine *line, const SearchResult *r) {
    int written = r->found || r->file.len ? ask_write_sketch(line, &r->file) : 0;
    int status = r->found || written ? written : r->usage ? SKETCHC_USAGE_ERROR : SKETCHC_VERIFY_FAILED;
    if (!r->found) fprintf(stderr, "sketchc: %s", r->error.data);
    if (r->found) report(line, r);
    return (!status || !r->found) && atomic_load(&stop) ? SKETCHC_INTERRUPTED : status;
}

static int run_search(const CommandLine *line, const char *path, SearchOptions *options, SearchResult *result) {
    Str text, environment;
    str_init(&text);
    str_init(&environment);
    int status = 0;
    if (!file_read(path, SEARCH_OPERATOR_LIMIT, &text)) {
        fprintf(stderr, "sketchc: cannot read %s: %s\n", path, strerror(errno));
        status = SKETCHC_USAGE_ERROR;
    } else {
        if (options->store) ask_environment(&environment);
        options->path = path;
        options->text = text.data;
        options->size = text.len;
        options->environment = environment.data;
        options->context = (void *)progress_form(line);
        options->judge = judge_command;
        catch_interrupts(); /* .cancel */
        search_run(options, result);
    }
    str_release(&environment);
    str_release(&text);
    return status;
}

void ask_say_vectors(const CommandLine *line, const LlmEmbedding *vectors) {
    if (option_given(line, OPTION_QUIET)) return;
    if (vectors->undescribed.len) fprintf(stderr, "sketchc: descriptions of operators by the model: %s\n", vectors->undescribed.data);
    if (vectors->error.len)
        fprintf(stderr, "sketchc: similar operators were sought without the embedding model, the built-in embedding serves: %s\n",
                vectors->error.data);
}

/* Where times of the store are of a machine that did more or less beside. */
static void say_other_load(const CommandLine *line, const SearchResult *r) {
    if (option_given(line, OPTION_QUIET) || r->baseline_before <= 0) return;
    fprintf(stderr,
            "sketchc: the compiler's own sketch takes %.4g ms, and took %.4g ms when the store's times were measured: they are measured "
            "again\n",
            1e3 * r->baseline, 1e3 * r->baseline_before);
}

int search_by_line(const CommandLine *line, const sketchc_options *compile, const char *path, uint64_t seed, SearchOptions *options,
                   SearchResult *result) {
    Store *store = options->store, *own = NULL;
    const char *strategy = option_value(line, OPTION_STRATEGY);
    if (!search_strategy_known(strategy)) {
        fprintf(stderr, "sketchc: there is no strategy \"%s\"\n", strategy);
        return SKETCHC_USAGE_ERROR;
    }
    if (!store && option_given(line, OPTION_STORE) && !(store = own = ask_open_store(option_value(line, OPTION_STORE), false)))
        return ask_store_status();
    options->target = compile->target ? compile->target : "openmp";
    options->arch = compile->arch;
    options->defines = compile->defines;
    options->define_count = compile->define_count;
    options->strategy = strategy;
    options->seed = seed;
    options->time_limit_s = number(line, OPTION_SEARCH_TIME);
    options->workers = (unsigned)number(line, OPTION_WORKERS);
    options->store = store;
    options->cancel = &stop;
    options->progress = on_progress;
    LlmEmbedding vectors = {.proposer = options->more, .store = store, .cancel = &stop};
    Embedder embedder;
    Describer describer;
    str_init(&vectors.error);
    str_init(&vectors.undescribed);
    if (options->more && llm_embedder(&vectors, &embedder)) options->embedder = &embedder;
    if (options->more && llm_describer(&vectors, &describer)) options->describer = &describer;
    int status = run_search(line, path, options, result);
    options->embedder = NULL;
    options->describer = NULL;
    ask_say_vectors(line, &vectors);
    str_release(&vectors.error);
    str_release(&vectors.undescribed);
    if (!status) say_other_load(line, result);
    if (own) ask_close_store(line, own);
    return status;
}

int command_search(const CommandLine *line, const sketchc_options *compile, const char *path, uint64_t seed, Proposer *more) {
    SearchOptions options = {.more = more, .max_candidates = (unsigned)number(line, OPTION_CANDIDATES)};
    SearchResult result;
    int status = search_by_line(line, compile, path, seed, &options, &result);
    if (!status) {
        status = status_of(line, &result);
        search_result_release(&result);
    }
    return status;
}
