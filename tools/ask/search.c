/* --propose without a model, or with a strategy: the search. `db`: what its store holds. */
#include "ask.h"

#include "search.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEARCH_OPERATOR_LIMIT = 1 << 20 };

static atomic_int stop;

static void on_interrupt(int number) {
    (void)number;
    if (atomic_exchange(&stop, 1)) _exit(SKETCHC_INTERRUPTED); /* the second time at once */
}

static void catch_interrupts(void) {
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- Progress ---- */

static void print_text(const SearchProgress *p) {
    double speedup = p->best_seconds > 0 ? p->naive_seconds / p->best_seconds : 0;
    fprintf(stderr, "\r%u tried, %u run, %u repeated, %.1f/s; best %.4g ms (%s), %.2fx naive%s",
            p->tried, p->verified, p->repeated, p->elapsed > 0 ? p->tried / p->elapsed : 0,
            1e3 * p->best_seconds, p->best_name, speedup, p->done ? "\n" : "    ");
}

static void print_json(const SearchProgress *p) {
    Str out;
    str_init(&out);
    str_printf(&out,
               "{\"kind\": \"progress\", \"round\": %u, \"tried\": %u, \"run\": %u, \"repeated\": "
               "%u, \"elapsed_s\": ",
               p->round, p->tried, p->verified, p->repeated);
    str_append_double(&out, p->elapsed);
    str_append(&out, ", \"best_s\": ");
    str_append_double(&out, p->best_seconds);
    str_append(&out, ", \"naive_s\": ");
    str_append_double(&out, p->naive_seconds);
    str_append(&out, ", \"best\": ");
    str_append_json(&out, p->best_name);
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

static int write_result(const CommandLine *line, const SearchResult *r) {
    const char *path = option_value(line, OPTION_OUTPUT);
    if (path && strcmp(path, "-") != 0) {
        if (file_write_atomic(path, r->file.data, r->file.len, 0644)) return 0;
        fprintf(stderr, "sketchc: cannot write %s: %s\n", path, strerror(errno));
        return SKETCHC_USAGE_ERROR;
    }
    if (!option_given(line, OPTION_JSON)) fputs(r->file.data, stdout);
    return 0;
}

static void report(const CommandLine *line, const SearchResult *r) {
    Str out;
    if (!option_given(line, OPTION_QUIET))
        fprintf(stderr, "%s: %.4g ms at %s, naive %.4g ms (%.2fx); %u tried, %u run, %.1f s%s\n",
                r->winner, 1e3 * r->best_seconds, r->case_name, 1e3 * r->naive_seconds,
                r->naive_seconds / r->best_seconds, r->last.tried, r->last.verified,
                r->last.elapsed, r->complete ? "" : "; verified at small cases only");
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
    str_printf(&out,
               ", \"verified\": %s, \"tried\": %u, \"run\": %u, \"repeated\": %u, \"elapsed_s\": ",
               r->complete ? "true" : "false", r->last.tried, r->last.verified, r->last.repeated);
    str_append_double(&out, r->last.elapsed);
    str_append(&out, "}\n");
    fputs(out.data, stdout);
    str_release(&out);
}

static bool open_store(const CommandLine *line, Store **store) {
    const char *path = option_value(line, OPTION_STORE);
    char *message = NULL;
    *store = path ? store_open(path, &message) : NULL;
    if (path && !*store)
        fprintf(stderr, "sketchc: cannot open the store %s: %s\n", path, message ? message : "");
    free(message);
    return !path || *store;
}

static int status_of(const CommandLine *line, const SearchResult *r) {
    int status = r->found ? write_result(line, r) : SKETCHC_VERIFY_FAILED;
    if (!r->found) fputs(r->error.data, stderr);
    if (r->found) report(line, r);
    return !status && atomic_load(&stop) ? SKETCHC_INTERRUPTED : status;
}

int command_search(const CommandLine *line, const sketchc_options *compile, const char *path,
                   uint64_t seed, Proposer *more) {
    Str text;
    Store *store = NULL;
    const char *strategy = option_value(line, OPTION_STRATEGY);
    if (!search_strategy_known(strategy)) {
        fprintf(stderr, "sketchc: there is no strategy \"%s\"\n", strategy);
        return SKETCHC_USAGE_ERROR;
    }
    if (!open_store(line, &store)) return SKETCHC_MISSING;
    str_init(&text);
    int status = 0;
    if (!file_read(path, SEARCH_OPERATOR_LIMIT, &text)) {
        fprintf(stderr, "sketchc: cannot read %s: %s\n", path, strerror(errno));
        status = SKETCHC_USAGE_ERROR;
    }
    const char *target = compile->target ? compile->target : "openmp";
    char *native = sketchc_native_arch(target);
    SearchOptions options = {.path = path,
                             .text = text.data,
                             .size = text.len,
                             .target = target,
                             .arch = compile->arch,
                             .strategy = strategy,
                             .seed = seed,
                             .max_candidates = (unsigned)number(line, OPTION_CANDIDATES),
                             .time_limit_s = number(line, OPTION_SEARCH_TIME),
                             .more = more,
                             .store = store,
                             .device = native,
                             .cancel = &stop,
                             .progress = on_progress,
                             .context = (void *)progress_form(line)};
    if (!status) {
        SearchResult result;
        catch_interrupts();
        search_run(&options, &result);
        status = status_of(line, &result);
        search_result_release(&result);
    }
    sketchc_free(native);
    store_close(store);
    str_release(&text);
    return status;
}

/* ---- The store ---- */

int command_db(const CommandLine *line) {
    const char *what = line->operands.len == 1 ? line->operands.data[0] : "";
    Store *store = NULL;
    if (!option_given(line, OPTION_STORE)) {
        fputs("sketchc: db wants --store=FILE\n", stderr);
        return SKETCHC_USAGE_ERROR;
    }
    if (!open_store(line, &store)) return SKETCHC_MISSING;
    int status = 0;
    Str out;
    str_init(&out);
    if (strcmp(what, "gc") == 0) {
        int64_t gone = store_gc(store);
        if (gone < 0) status = SKETCHC_MISSING;
        str_printf(&out, "%lld results dropped\n", (long long)(gone < 0 ? 0 : gone));
    } else if (strcmp(what, "check") == 0) {
        status = store_check(store) ? SKETCHC_VERIFY_FAILED : 0;
        str_append(&out, status ? "the store is damaged\n" : "the store is whole\n");
    } else if (!store_report(store, what, option_given(line, OPTION_JSON), &out)) {
        fputs("sketchc: db knows query, best, export, gc and check\n", stderr);
        status = SKETCHC_USAGE_ERROR;
    }
    fputs(out.data, stdout);
    str_release(&out);
    store_close(store);
    return status;
}
