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
    char *json = done && unit ? sketchc_diagnostics(unit, "json") : NULL;
    if (done)
        snprintf(status, size, "%s", failure_name(conductor_compile_failure(done, json, NULL, NULL)));
    sketchc_free(json);
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

/* What a report says of a case beside its time. */
static void read_facts(const Json *item, StoreResult *r) {
    r->noise = json_get_number(item, "noise", 0);
    r->samples = (unsigned)json_get_number(item, "samples", 0);
    r->bytes = json_get_number(item, "bytes", 0);
    r->flops = json_get_number(item, "flops", 0);
    r->percent_of_roof = json_get_number(item, "percent_of_copy", 0);
    r->roof_bytes = 1e9 * json_get_number(item, "copy_gb_per_s", 0);
}

/* One case's time; the launches are checked, so a wrong result has none. */
static void timed(Search *s, const sketchc_artifact *artifact, unsigned samples, StoreResult *r) {
    sketchc_run_options run = {.size = sizeof run,
                               .seed = s->options->seed,
                               .time_limit_s = quick_limit_s,
                               .case_name = s->case_name,
                               .samples = samples};
    char *report = NULL, error[128];
    pthread_mutex_lock(&s->timing);
    sketchc_bench(artifact, &run, "json", &report);
    pthread_mutex_unlock(&s->timing);
    read_status(report, r->status, sizeof r->status);
    Json *root = report ? json_read(report, strlen(report), NULL, error) : NULL;
    const Json *item = json_first(json_get(root, "cases"));
    r->seconds = strcmp(r->status, "ok") == 0 ? json_get_number(item, "median_s", 0) : 0;
    read_facts(item, r);
    json_release(root);
    sketchc_free(report);
}

double search_time(Search *s, const Candidate *c, unsigned samples) {
    StoreResult result = {0};
    sketchc_artifact *artifact = compile(s, c, result.status, sizeof result.status);
    if (artifact) timed(s, artifact, samples, &result);
    sketchc_artifact_destroy(artifact);
    return result.seconds;
}

StoreKey search_key(const Search *s, const char *sketch) {
    return (StoreKey){.definition = s->operator_text,
                      .sketch = sketch,
                      .target = s->options->target,
                      .arch = s->arch,
                      .device = s->device,
                      .environment = s->options->environment,
                      .case_name = s->case_name};
}

void search_keep_artifact(Search *s, const Candidate *c) {
    sketchc_options options = {
        .size = sizeof options, .target = s->options->target, .arch = s->options->arch};
    StoreKey key = search_key(s, c->sketch);
    char *data = NULL;
    size_t size = 0;
    if (!s->options->store) return;
    sketchc_unit *unit = sketchc_unit_create("candidate.sketch", c->file, strlen(c->file));
    if (unit && sketchc_emit(unit, &options, "artifact", &data, &size) == SKETCHC_OK)
        store_put_artifact(s->options->store, &key, data, size);
    sketchc_free(data);
    sketchc_unit_destroy(unit);
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
        timed(s, artifact, SAMPLES, &c->result);
    sketchc_artifact_destroy(artifact);
}

void search_evaluate(Search *s, Candidate *c) {
    StoreKey key = search_key(s, c->sketch);
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
    snprintf(s->device, sizeof s->device, "%.127s", json_get_string(root, "device", ""));
    snprintf(s->arch, sizeof s->arch, "%.31s", json_get_string(root, "arch", ""));
    for (const Json *item = json_first(json_get(root, "cases")); item; item = json_next(item)) {
        if (s->options->store)
            store_put_case(s->options->store, s->operator_text, json_get_string(item, "name", ""),
                           json_get_string(item, "sizes", ""));
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
