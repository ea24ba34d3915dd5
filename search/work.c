#include "work.h"

#include "conductor.h"
#include "device_lock.h"
#include "json.h"
#include "judge_apart.h"
#include "sketchc.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of a case that is verified while the search goes on; the finalists are verified at larger ones (not measured). */
enum { SMALL_BYTES = 1 << 20 };
static const double quick_limit_s = 10; /* of one launch */

typedef struct {
    const char *task, *file, *operator_text, *target, *arch, *case_name;
    uint64_t seed;
    unsigned samples;
    double give_up_s;
    bool keep; /* the artifact goes back, too */
    ChildChannel *channel;
    const Json *json; /* the whole order */
    sketchc_define defines[CONDUCTOR_MOST_DEFINES];
    size_t define_count;
} Order;

typedef struct {
    char status[32], case_name[64];
    double seconds;
    bool complete;
    char code[33];   /* the code's identity; "" it was not compiled */
    Str text, facts; /* facts: further members of the answer */
    Str artifact;    /* its bytes */
} Outcome;

/* ---- Steps ---- */

static sketchc_artifact *compile(const Order *o, Outcome *out) {
    sketchc_options options = {
        .size = sizeof options, .target = o->target, .arch = o->arch, .defines = o->defines, .define_count = o->define_count};
    sketchc_artifact *artifact = NULL;
    child_phase(o->channel, JUDGE_COMPILE_S, "compiling");
    sketchc_unit *unit = sketchc_unit_create("candidate.sketch", o->file, strlen(o->file));
    sketchc_status done = unit ? conductor_compile(unit, &options, o->keep ? &out->artifact : NULL, &artifact) : SKETCHC_BUG;
    char *json = done && unit ? sketchc_diagnostics(unit, "json") : NULL;
    if (done) {
        Str explanation;
        str_init(&explanation);
        snprintf(out->status, sizeof out->status, "%s", failure_name(conductor_compile_failure(done, json, &out->text, &explanation)));
        str_release(&explanation);
    }
    if (artifact) sketchc_artifact_identity(artifact, out->code);
    sketchc_free(json);
    sketchc_unit_destroy(unit);
    return artifact;
}

/* The status of the first case that is not well; "ok" when all are that were not skipped. */
static void read_status(const Json *report, char status[32]) {
    snprintf(status, 32, "%s", report ? "ok" : "bug");
    for (const Json *item = json_first(json_get(report, "cases")); item; item = json_next(item)) {
        const char *text = json_get_string(item, "status", "bug");
        if (strcmp(text, "ok") == 0 || strcmp(text, "skipped") == 0) continue;
        snprintf(status, 32, "%.31s", text);
        break;
    }
}

static Json *read_report(char *report) {
    char error[128];
    Json *root = report ? json_read(report, strlen(report), NULL, error) : NULL;
    sketchc_free(report);
    return root;
}

static sketchc_run_options run_options(const Order *o) {
    return (sketchc_run_options){.size = sizeof(sketchc_run_options),
                                 .seed = o->seed,
                                 .time_limit_s = quick_limit_s,
                                 .defines = o->defines,
                                 .define_count = o->define_count};
}

static void verify_small(const Order *o, const sketchc_artifact *artifact, Outcome *out) {
    sketchc_run_options run = run_options(o);
    char *report = NULL;
    run.max_bytes = SMALL_BYTES;
    run.no_ragged = true;
    child_phase(o->channel, JUDGE_VERIFY_S, "verifying");
    sketchc_verify(artifact, &run, "json", &report);
    Json *root = read_report(report);
    read_status(root, out->status);
    json_release(root);
}

/* What a report says of a case beside its time. */
static void put_facts(const Json *item, Str *out) {
    str_append_member_number(out, "noise", json_get_number(item, "noise", 0));
    str_append_member_number(out, "samples", json_get_number(item, "samples", 0));
    str_append_member_number(out, "bytes", json_get_number(item, "bytes", 0));
    str_append_member_number(out, "flops", json_get_number(item, "flops", 0));
    str_append_member_number(out, "percent_of_roof", json_get_number(item, "percent_of_copy", 0));
    str_append_member_number(out, "roof_bytes", 1e9 * json_get_number(item, "copy_gb_per_s", 0));
}

/* The report of timing alone on the device. */
static Json *bench(const Order *o, const sketchc_artifact *artifact, const sketchc_run_options *run) {
    char *report = NULL;
    int lock = device_lock(o->target, o->channel);
    child_phase(o->channel, JUDGE_TIME_S, "timing");
    sketchc_bench(artifact, run, "json", &report);
    device_unlock(lock);
    return read_report(report);
}

/* One case's time; the launches are checked, so a wrong result has none. */
static void time_case(const Order *o, const sketchc_artifact *artifact, Outcome *out) {
    sketchc_run_options run = run_options(o);
    run.case_name = o->case_name;
    run.samples = o->samples;
    run.give_up_s = o->give_up_s;
    Json *root = bench(o, artifact, &run);
    read_status(root, out->status);
    const Json *item = json_first(json_get(root, "cases"));
    if (strcmp(out->status, "ok") == 0 || strcmp(out->status, "slow") == 0) out->seconds = json_get_number(item, "median_s", 0);
    /* Its one sample may have been quick: given up it was for longer ones, and is so when this is met again. */
    if (strcmp(out->status, "slow") == 0 && out->seconds < o->give_up_s) out->seconds = o->give_up_s;
    put_facts(item, &out->facts);
    json_release(root);
}

/* ---- Tasks ---- */

static void do_format(const Order *o, Outcome *out) {
    char *text = NULL;
    size_t size = 0;
    child_phase(o->channel, JUDGE_COMPILE_S, "formatting");
    sketchc_unit *unit = sketchc_unit_create("candidate.sketch", o->file, strlen(o->file));
    bool ok = unit && sketchc_format(unit, &text, &size) == SKETCHC_OK;
    snprintf(out->status, sizeof out->status, "%s", ok ? "ok" : "compile");
    if (ok) str_append_n(&out->text, text, size);
    sketchc_free(text);
    sketchc_unit_destroy(unit);
}

/* What code it is, of one whose result is known. */
static void do_code(const Order *o, Outcome *out) {
    sketchc_artifact *artifact = compile(o, out);
    if (artifact) snprintf(out->status, sizeof out->status, "ok");
    sketchc_artifact_destroy(artifact);
}

static void do_check(const Order *o, Outcome *out) {
    sketchc_artifact *artifact = compile(o, out);
    if (artifact) verify_small(o, artifact, out);
    sketchc_artifact_destroy(artifact);
}

static void do_verify(const Order *o, Outcome *out) {
    char *report = NULL;
    sketchc_artifact *artifact = compile(o, out);
    if (!artifact) return;
    sketchc_run_options run = run_options(o);
    child_phase(o->channel, JUDGE_VERIFY_S, "verifying");
    sketchc_verify(artifact, &run, "json", &report);
    FailureKind failure = report ? conductor_read_report(report, o->operator_text, &out->text) : FAILURE_BUG;
    out->complete = failure == FAILURE_NONE;
    snprintf(out->status, sizeof out->status, "%s", failure ? failure_name(failure) : "ok");
    sketchc_free(report);
    sketchc_artifact_destroy(artifact);
}

static void do_time(const Order *o, Outcome *out) {
    sketchc_artifact *artifact = compile(o, out);
    if (artifact) time_case(o, artifact, out);
    sketchc_artifact_destroy(artifact);
}

/* Every case, each with its time: what its size does to it. */
static void do_shapes(const Order *o, Outcome *out) {
    sketchc_artifact *artifact = compile(o, out);
    if (!artifact) return;
    sketchc_run_options run = run_options(o);
    run.samples = o->samples;
    Json *root = bench(o, artifact, &run);
    snprintf(out->status, sizeof out->status, "%s", root ? "ok" : "bug");
    str_append(&out->facts, ",\"shapes\":[");
    const char *between = "";
    for (const Json *item = json_first(json_get(root, "cases")); item; item = json_next(item)) {
        if (strcmp(json_get_string(item, "status", ""), "ok") != 0) continue;
        str_printf(&out->facts, "%s{\"name\":", between);
        str_append_json(&out->facts, json_get_string(item, "name", ""));
        str_append_member_number(&out->facts, "seconds", json_get_number(item, "median_s", 0));
        put_facts(item, &out->facts);
        str_append_char(&out->facts, '}');
        between = ",";
    }
    str_append_char(&out->facts, ']');
    json_release(root);
    sketchc_artifact_destroy(artifact);
}

/* Names and sizes of all cases. */
static void put_cases(const Json *report, Str *out) {
    const char *between = "";
    str_append(out, ",\"cases\":[");
    for (const Json *item = json_first(json_get(report, "cases")); item; item = json_next(item)) {
        str_printf(out, "%s{\"name\":", between);
        str_append_json(out, json_get_string(item, "name", ""));
        str_append_member(out, "sizes", json_get_string(item, "sizes", ""));
        str_append_char(out, '}');
        between = ",";
    }
    str_append_char(out, ']');
}

static void do_choose(const Order *o, Outcome *out) {
    char *report = NULL;
    double most = -1;
    sketchc_artifact *artifact = compile(o, out);
    if (!artifact) return;
    sketchc_run_options run = run_options(o);
    run.samples = 1;
    child_phase(o->channel, JUDGE_TIME_S, "timing");
    sketchc_bench(artifact, &run, "json", &report);
    Json *root = read_report(report);
    const char *why = json_get_string(root, "status", "bug");
    snprintf(out->status, sizeof out->status, "%.31s", strcmp(why, "ok") == 0 ? "bug" : why);
    str_append(&out->text, json_get_string(root, "text", ""));
    str_append_member(&out->facts, "device", json_get_string(root, "device", ""));
    str_append_member(&out->facts, "arch", json_get_string(root, "arch", ""));
    put_cases(root, &out->facts);
    for (const Json *item = json_first(json_get(root, "cases")); item; item = json_next(item)) {
        double bytes = json_get_number(item, "bytes", 0);
        bool ok = strcmp(json_get_string(item, "status", ""), "ok") == 0 && failure_of_status(why) != FAILURE_MACHINE;
        if (!ok || bytes <= most) continue;
        most = bytes;
        out->seconds = json_get_number(item, "median_s", 0);
        snprintf(out->status, sizeof out->status, "ok");
        snprintf(out->case_name, sizeof out->case_name, "%.63s", json_get_string(item, "name", ""));
    }
    json_release(root);
    sketchc_artifact_destroy(artifact);
}

static void do_sketch(const Order *o, Outcome *out) {
    snprintf(out->status, sizeof out->status, "ok");
    judge_order(o->json, o->channel, &out->text);
}

static const struct {
    const char *name;
    void (*run)(const Order *o, Outcome *out);
} tasks[] = {{"format", do_format}, {"code", do_code},     {"check", do_check},   {"verify", do_verify},
             {"time", do_time},     {"choose", do_choose}, {"shapes", do_shapes}, {"sketch", do_sketch}};

/* ---- JSON ---- */

static void put(const Outcome *out, Str *answer) {
    str_append(answer, "{\"status\":");
    str_append_json(answer, out->status);
    str_append_member(answer, "case", out->case_name);
    str_append_member(answer, "code", out->code);
    str_append_member_number(answer, "seconds", out->seconds);
    str_append_member(answer, "text", out->text.data);
    if (out->artifact.len && out->artifact.len <= SEARCH_ARTIFACT_LIMIT && strcmp(out->status, "ok") == 0) {
        str_append(answer, ",\"artifact\":\"");
        str_append_base64(answer, out->artifact.data, out->artifact.len);
        str_append_char(answer, '"');
    }
    str_printf(answer, ",\"complete\":%s%s}", out->complete ? "true" : "false", out->facts.data);
}

void search_work(const char *request, size_t size, ChildChannel *channel, Str *answer) {
    char error[128];
    Json *root = json_read(request, size, NULL, error);
    const char *target = json_get_string(root, "target", NULL), *arch = json_get_string(root, "arch", NULL);
    Order o = {.task = json_get_string(root, "task", ""),
               .file = json_get_string(root, "file", ""),
               .operator_text = json_get_string(root, "operator", ""),
               .target = target ? target : "openmp",
               .arch = arch,
               .case_name = json_get_string(root, "case", NULL),
               .seed = strtoull(json_get_string(root, "seed", "0"), NULL, 10),
               .samples = (unsigned)json_get_int(root, "samples", 0),
               .give_up_s = json_get_number(root, "give_up_s", 0),
               .keep = json_get_bool(root, "keep", false),
               .channel = channel,
               .json = root};
    o.define_count = conductor_read_defines(root, o.defines);
    Outcome out = {.status = "bug"};
    str_init(&out.text);
    str_init(&out.facts);
    str_init(&out.artifact);
    for (size_t i = 0; i < COUNT_OF(tasks); i++)
        if (strcmp(tasks[i].name, o.task) == 0) tasks[i].run(&o, &out);
    put(&out, answer);
    str_release(&out.text);
    str_release(&out.facts);
    str_release(&out.artifact);
    json_release(root);
}
