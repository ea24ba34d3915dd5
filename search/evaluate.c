/* Judging for the search: quickly while it runs, completely for what is given out. */
#include "conductor.h"
#include "search_internal.h"

#include "json.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL_BYTES = 1 << 20, SAMPLES = 7 };
static const double quick_limit_s = 10;

static sketchc_artifact *compile(const Search *s, const Candidate *c, char *status, size_t size) {
    sketchc_options options = {
        .size = sizeof options, .target = s->options->target, .arch = s->options->arch};
    sketchc_artifact *artifact = NULL;
    sketchc_unit *unit = sketchc_unit_create("candidate.sketch", c->file, strlen(c->file));
    sketchc_status done = unit ? sketchc_compile(unit, &options, &artifact) : SKETCHC_BUG;
    if (done) snprintf(status, size, "%s", done == SKETCHC_BUG ? "bug" : "compile");
    sketchc_unit_destroy(unit);
    return artifact;
}

/* The status of the first case that is not well; "ok" when all are that were not skipped. */
static void read_status(const char *report, char *status, size_t size) {
    char error[128];
    Json *root = report ? json_read(report, strlen(report), NULL, error) : NULL;
    snprintf(status, size, "%s", root ? "ok" : "bug");
    for (const Json *item = json_first(json_get(root, "cases")); item; item = json_next(item)) {
        const char *text = json_get_string(item, "status", "bug");
        if (strcmp(text, "ok") == 0 || strcmp(text, "skipped") == 0) continue;
        snprintf(status, size, "%.31s", text);
        break;
    }
    json_release(root);
}

/* One case's time; the launches are checked, so a wrong result has none. */
static double timed(Search *s, const sketchc_artifact *artifact, unsigned samples, double *noise,
                    char *status, size_t size) {
    sketchc_run_options run = {.size = sizeof run,
                               .seed = s->options->seed,
                               .time_limit_s = quick_limit_s,
                               .case_name = s->case_name,
                               .samples = samples};
    char *report = NULL, error[128];
    pthread_mutex_lock(&s->timing);
    sketchc_bench(artifact, &run, "json", &report);
    pthread_mutex_unlock(&s->timing);
    read_status(report, status, size);
    Json *root = report ? json_read(report, strlen(report), NULL, error) : NULL;
    const Json *item = json_first(json_get(root, "cases"));
    double seconds = strcmp(status, "ok") == 0 ? json_get_number(item, "median_s", 0) : 0;
    *noise = json_get_number(item, "noise", 0);
    json_release(root);
    sketchc_free(report);
    return seconds;
}

double search_time(Search *s, const Candidate *c, unsigned samples, double *noise, char *status,
                   size_t size) {
    sketchc_artifact *artifact = compile(s, c, status, size);
    double seconds = artifact ? timed(s, artifact, samples, noise, status, size) : 0;
    sketchc_artifact_destroy(artifact);
    return seconds;
}

static StoreKey key_of(const Search *s, const Candidate *c) {
    return (StoreKey){.definition = s->operator_text,
                      .sketch = c->sketch,
                      .target = s->options->target,
                      .device = s->options->device ? s->options->device : "",
                      .case_name = s->case_name};
}

static void judge(Search *s, Candidate *c) {
    char *status = c->result.status, *report = NULL;
    size_t size = sizeof c->result.status;
    sketchc_artifact *artifact = compile(s, c, status, size);
    if (!artifact) return;
    sketchc_run_options run = {.size = sizeof run,
                               .seed = s->options->seed,
                               .time_limit_s = quick_limit_s,
                               .max_bytes = SMALL_BYTES,
                               .no_ragged = true};
    sketchc_verify(artifact, &run, "json", &report);
    read_status(report, status, size);
    sketchc_free(report);
    if (strcmp(status, "ok") == 0)
        c->result.seconds = timed(s, artifact, SAMPLES, &c->result.noise, status, size);
    sketchc_artifact_destroy(artifact);
}

void search_evaluate(Search *s, Candidate *c) {
    StoreKey key = key_of(s, c);
    if (s->options->store && store_find(s->options->store, &key, &c->result)) {
        c->judged = c->stored = true;
        return;
    }
    judge(s, c);
    c->judged = true;
}

bool search_verify_all(Search *s, Candidate *c) {
    char *report = NULL;
    if (c->result.complete) return true;
    sketchc_artifact *artifact = compile(s, c, c->result.status, sizeof c->result.status);
    if (!artifact) return false;
    sketchc_run_options run = {
        .size = sizeof run, .seed = s->options->seed, .time_limit_s = quick_limit_s};
    sketchc_verify(artifact, &run, "json", &report);
    Str text;
    str_init(&text);
    FailureKind failure =
        report ? conductor_read_report(report, s->operator_text, &text) : FAILURE_BUG;
    c->result.complete = failure == FAILURE_NONE;
    if (failure) snprintf(c->result.status, sizeof c->result.status, "%s", failure_name(failure));
    str_release(&text);
    sketchc_free(report);
    sketchc_artifact_destroy(artifact);
    return c->result.complete;
}

bool search_choose_case(Search *s, Candidate *c) {
    char *report = NULL, error[128];
    double most = -1;
    sketchc_artifact *artifact = compile(s, c, c->result.status, sizeof c->result.status);
    if (!artifact) return false;
    sketchc_run_options run = {
        .size = sizeof run, .seed = s->options->seed, .time_limit_s = quick_limit_s, .samples = 1};
    sketchc_bench(artifact, &run, "json", &report);
    Json *root = report ? json_read(report, strlen(report), NULL, error) : NULL;
    for (const Json *item = json_first(json_get(root, "cases")); item; item = json_next(item)) {
        double bytes = json_get_number(item, "bytes", 0);
        bool ok = strcmp(json_get_string(item, "status", ""), "ok") == 0;
        if (!ok || bytes <= most) continue;
        most = bytes;
        snprintf(s->case_name, sizeof s->case_name, "%.63s", json_get_string(item, "name", ""));
    }
    json_release(root);
    sketchc_free(report);
    sketchc_artifact_destroy(artifact);
    return most >= 0;
}
