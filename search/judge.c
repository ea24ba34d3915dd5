/* Judging a candidate: compile with fix-its, verify, measure. */
#include "conductor.h"
#include "device_lock.h"

#include "json.h"
#include "sketchc.h"

#include <string.h>

enum {
    FIX_ROUNDS = 4,          /* times that fix-its are applied and the text is compiled again */
    TEXT_LIMIT = 6000,       /* bytes of an answer to a model, which pays for each token */
    EXPLAINED = 6,           /* codes of diagnostics that are explained at length in it */
    SKETCH_LIMIT = 256 << 10 /* bytes of a proposal; sketches have some thousands */
};

void judgement_init(Judgement *j) {
    *j = (Judgement){0};
    Str *texts[] = {&j->sketch, &j->outcome, &j->diagnostics, &j->explanation, &j->verdict, &j->roof, &j->artifact};
    for (size_t i = 0; i < COUNT_OF(texts); i++) str_init(texts[i]);
}

void judgement_release(Judgement *j) {
    Str *texts[] = {&j->sketch, &j->outcome, &j->diagnostics, &j->explanation, &j->verdict, &j->roof, &j->artifact};
    for (size_t i = 0; i < COUNT_OF(texts); i++) str_release(texts[i]);
}

static void join(const char *operator_text, const char *sketch, Str *source, size_t *from) {
    str_append(source, operator_text);
    if (source->len && source->data[source->len - 1] != '\n') str_append_char(source, '\n');
    str_append_char(source, '\n');
    *from = source->len;
    str_append(source, sketch);
}

static void append_limited(Str *out, const char *text) {
    size_t size = strlen(text);
    str_append_n(out, text, size < TEXT_LIMIT ? size : TEXT_LIMIT);
    if (size >= TEXT_LIMIT) str_append(out, "\n...\n");
}

/* ---- Identity ---- */

/* Operator and sketch in the one style; where they do not parse, as they are. */
static bool format_joined(const char *operator_text, const char *sketch, Str *joined) {
    size_t from, size;
    char *text = NULL;
    join(operator_text, sketch, joined, &from);
    sketchc_unit *unit = sketchc_unit_create("candidate.sketch", joined->data, joined->len);
    bool ok = unit && sketchc_format(unit, &text, &size) == SKETCHC_OK;
    if (ok) {
        str_release(joined);
        str_init(joined);
        str_append_n(joined, text, size);
    }
    sketchc_free(text);
    sketchc_unit_destroy(unit);
    return ok;
}

bool sketch_identity(const char *operator_text, const char *sketch, Hash128 *identity) {
    Str text;
    str_init(&text);
    bool ok = format_joined(operator_text, sketch, &text);
    *identity = hash128(text.data, text.len, (Hash128){!ok, 0});
    str_release(&text);
    return ok;
}

bool sketch_in_style(const char *operator_text, const char *sketch, Str *block) {
    Str text;
    str_init(&text);
    bool ok = format_joined(operator_text, sketch, &text) && proposer_extract_sketch(text.data, text.len, block, NULL);
    str_release(&text);
    return ok;
}

/* What follows may take so long. */
static void begin_step(const JudgeOptions *o, double seconds, const char *what) {
    if (o->channel) child_phase(o->channel, seconds, what);
}

/* ---- Compiling ---- */

/* The kind is the first error's; the codes of the first few are explained, each once, if one asks. */
static FailureKind read_diagnostics(const char *json, Str *outcome, Str *explanation) {
    char error[128];
    const char *seen[EXPLAINED] = {0};
    size_t count = 0;
    FailureKind kind = FAILURE_BUG;
    Json *root = json_read(json, strlen(json), NULL, error);
    for (const Json *d = json_first(json_get(root, "diagnostics")); d && count < EXPLAINED; d = json_next(d)) {
        const char *code = json_get_string(d, "code", ""), *severity = json_get_string(d, "severity", "");
        if (strcmp(severity, "error") != 0 && strcmp(severity, "bug") != 0) continue;
        bool known = false;
        for (size_t i = 0; i < count; i++) known |= strcmp(seen[i], code) == 0;
        if (!count) kind = failure_of_code(code);
        if (!explanation) break;
        if (!count) {
            str_printf(outcome, "%s: %.300s", code, json_get_string(d, "message", ""));
        }
        const char *text = sketchc_explain(code);
        if (!known && text) str_printf(explanation, "%s: %s\n", code, text);
        if (!known) seen[count++] = code;
    }
    json_release(root);
    return kind;
}

FailureKind conductor_compile_failure(sketchc_status status, const char *json, Str *outcome, Str *explanation) {
    FailureKind kind = json ? read_diagnostics(json, outcome, explanation) : FAILURE_BUG;
    if (status == SKETCHC_BUG) return FAILURE_BUG;
    return status == SKETCHC_MISSING || status == SKETCHC_USAGE_ERROR ? FAILURE_MACHINE : kind;
}

void conductor_name_defines(const sketchc_define *defines, size_t count, Str *out) {
    for (size_t i = 0; i < count; i++) str_printf(out, "%s%s=%s", i ? ", " : "", defines[i].name, defines[i].value);
}

void conductor_put_defines(const sketchc_define *defines, size_t count, Str *out) {
    str_append(out, ",\"defines\":[");
    for (size_t i = 0; i < count; i++) {
        str_append(out, i ? ",{\"name\":" : "{\"name\":");
        str_append_json(out, defines[i].name);
        str_append_member(out, "value", defines[i].value);
        str_append_char(out, '}');
    }
    str_append_char(out, ']');
}

size_t conductor_read_defines(const Json *order, sketchc_define defines[CONDUCTOR_MOST_DEFINES]) {
    size_t count = 0;
    for (const Json *d = json_first(json_get(order, "defines")); d && count < CONDUCTOR_MOST_DEFINES; d = json_next(d))
        defines[count++] = (sketchc_define){json_get_string(d, "name", ""), json_get_string(d, "value", "")};
    return count;
}

sketchc_status conductor_compile(sketchc_unit *unit, const sketchc_options *options, Str *bytes, sketchc_artifact **artifact) {
    if (!bytes) return sketchc_compile(unit, options, artifact);
    char *data = NULL, *message = NULL;
    size_t size = 0;
    sketchc_status status = sketchc_emit(unit, options, "artifact", &data, &size);
    if (status == SKETCHC_OK) {
        str_release(bytes);
        str_init(bytes);
        str_append_n(bytes, data, size);
        status = sketchc_artifact_read(data, size, artifact, &message);
    }
    sketchc_free(message);
    sketchc_free(data);
    return status;
}

/* Compiles once; on failure the unit's diagnostics are left in `json`, which the caller frees. */
static sketchc_status compile_once(const JudgeOptions *o, const Str *source, Judgement *j, sketchc_artifact **artifact, char **json) {
    sketchc_options options = {.size = sizeof options,
                               .target = o->target,
                               .arch = o->arch,
                               .target_file = o->target_file,
                               .defines = o->defines,
                               .define_count = o->define_count};
    sketchc_unit *unit = sketchc_unit_create("candidate.sketch", source->data, source->len);
    if (!unit) return SKETCHC_BUG;
    sketchc_status status = conductor_compile(unit, &options, o->keep ? &j->artifact : NULL, artifact);
    *json = status ? sketchc_diagnostics(unit, "json") : NULL;
    char *text = status ? sketchc_diagnostics(unit, "text") : NULL;
    str_release(&j->diagnostics);
    str_init(&j->diagnostics);
    if (text) append_limited(&j->diagnostics, text);
    sketchc_free(text);
    sketchc_unit_destroy(unit);
    return status;
}

/* False: `j` says what is wrong. */
static bool compile(const JudgeOptions *o, Str *source, size_t from, Judgement *j, sketchc_artifact **artifact) {
    sketchc_status status = SKETCHC_OK;
    char *json = NULL;
    begin_step(o, JUDGE_COMPILE_S, "compiling");
    for (unsigned round = 0; round <= FIX_ROUNDS; round++) {
        sketchc_free(json);
        json = NULL;
        status = compile_once(o, source, j, artifact, &json);
        unsigned fixes = status == SKETCHC_SOURCE_ERROR && json && round < FIX_ROUNDS ? conductor_apply_fixes(json, from, source) : 0;
        j->fixes += fixes;
        if (!fixes) break;
    }
    if (status) {
        j->failure = conductor_compile_failure(status, json, &j->outcome, &j->explanation);
        if (!j->outcome.len) str_append(&j->outcome, "it did not compile");
    }
    sketchc_free(json);
    return !status;
}

/* ---- Verifying and measuring ---- */

/* The product of the sizes, for "M=37, N=31". */
static double volume(const char *sizes) {
    double product = 1, value;
    char text[32];
    for (const char *p = sizes; (p = strchr(p, '=')); p++) {
        size_t n = strspn(p + 1, "0123456789");
        if (!n || n >= sizeof text) continue;
        memcpy(text, p + 1, n);
        text[n] = 0;
        if (parse_double(text, &value)) product *= value > 1 ? value : 1;
    }
    return product;
}

/* The declared case that was verified and has the largest sizes; ragged sizes carry no case's name.
 */
static void choose_case(const char *report, char name[64]) {
    char error[128];
    double largest = -1;
    Json *root = json_read(report, strlen(report), NULL, error);
    for (const Json *item = json_first(json_get(root, "cases")); item; item = json_next(item)) {
        const char *one = json_get_string(item, "name", "");
        double size = volume(json_get_string(item, "sizes", ""));
        bool ok = strcmp(json_get_string(item, "status", ""), "ok") == 0;
        if (!ok || strchr(one, ' ') || size < largest || strlen(one) >= 64) continue;
        largest = size;
        memcpy(name, one, strlen(one) + 1);
    }
    json_release(root);
}

static sketchc_run_options run_options(const JudgeOptions *o) {
    return (sketchc_run_options){.size = sizeof(sketchc_run_options),
                                 .seed = o->seed,
                                 .time_limit_s = o->time_limit_s,
                                 .samples = o->samples,
                                 .defines = o->defines,
                                 .define_count = o->define_count};
}

/* With data and sizes that no earlier answer can have met. */
static void verify_anew(const JudgeOptions *o, const sketchc_artifact *artifact, Judgement *j) {
    sketchc_run_options options = run_options(o);
    char *report = NULL;
    options.seed = o->drawn ? o->drawn : seed_drawn();
    begin_step(o, JUDGE_VERIFY_S + 20 * o->time_limit_s, "verifying");
    sketchc_verify(artifact, &options, "json", &report);
    j->failure = report ? conductor_read_report(report, o->operator_text, &j->verdict) : FAILURE_BUG;
    j->told_drawn = j->failure != FAILURE_NONE;
    if (j->failure) str_printf(&j->verdict, "verified with --seed=%llu\n", (unsigned long long)options.seed);
    sketchc_free(report);
}

static bool verify(const JudgeOptions *o, const sketchc_artifact *artifact, Judgement *j) {
    sketchc_run_options options = run_options(o);
    char *report = NULL;
    /* Each launch has a limit of its own, which is the user's choice. */
    begin_step(o, JUDGE_VERIFY_S + 20 * o->time_limit_s, "verifying");
    sketchc_verify(artifact, &options, "json", &report);
    j->failure = report ? conductor_read_report(report, o->operator_text, &j->verdict) : FAILURE_BUG;
    if (!j->failure) verify_anew(o, artifact, j);
    if (report && !j->failure) choose_case(report, j->case_name);
    sketchc_free(report);
    if (!j->failure) return true;
    str_printf(&j->outcome, "%s: %.*s", failure_name(j->failure), (int)strcspn(j->verdict.data, "\n"), j->verdict.data);
    return false;
}

static void measure(const JudgeOptions *o, const sketchc_artifact *artifact, const char *file, Judgement *j) {
    sketchc_run_options options = run_options(o);
    char *report = NULL, error[128];
    if (o->case_name) snprintf(j->case_name, sizeof j->case_name, "%s", o->case_name);
    options.case_name = j->case_name[0] ? j->case_name : NULL;
    int lock = o->channel ? device_lock(o->target, o->channel) : -1;
    begin_step(o, JUDGE_TIME_S + 20 * o->time_limit_s, "timing");
    sketchc_bench(artifact, &options, "json", &report);
    device_unlock(lock);
    Json *root = report ? json_read(report, strlen(report), NULL, error) : NULL;
    const Json *item = json_first(json_get(root, "cases"));
    const char *status = json_get_string(item, "status", "bug");
    snprintf(j->device, sizeof j->device, "%.127s", json_get_string(root, "device", ""));
    snprintf(j->arch, sizeof j->arch, "%.31s", json_get_string(root, "arch", ""));
    if (strcmp(status, "ok") == 0) {
        j->seconds = json_get_number(item, "median_s", 0);
        j->noise = json_get_number(item, "noise", 0);
        j->measured = (StoreResult){.status = "ok",
                                    .complete = true,
                                    .seconds = j->seconds,
                                    .noise = j->noise,
                                    .samples = (unsigned)json_get_int(item, "samples", 0),
                                    .bytes = json_get_number(item, "bytes", 0),
                                    .flops = json_get_number(item, "flops", 0),
                                    .percent_of_roof = json_get_number(item, "percent_of_copy", 0),
                                    .roof_bytes = 1e9 * json_get_number(item, "copy_gb_per_s", 0)};
        str_printf(&j->outcome, ", %.4g ms at %s", 1e3 * j->seconds, j->case_name);
        if (o->roof) conductor_roof(o, file, j->case_name, j->seconds, json_get_number(item, "percent_of_copy", 0), &j->roof);
    } else {
        j->failure = failure_of_status(status);
        str_printf(&j->outcome, ", but not to be timed: %s: %.200s", status, json_get_string(item, "text", ""));
        str_append(&j->verdict, json_get_string(item, "text", ""));
    }
    json_release(root);
    sketchc_free(report);
}

void judge_sketch(const JudgeOptions *o, const char *sketch, Judgement *j) {
    Str source;
    size_t from;
    sketchc_artifact *artifact = NULL;
    str_init(&source);
    if (strlen(sketch) > SKETCH_LIMIT) {
        j->failure = FAILURE_CAPACITY;
        str_append(&j->outcome, "the sketch is longer than 256 KiB");
        return;
    }
    join(o->operator_text, sketch, &source, &from);
    j->first_line = 1;
    for (size_t i = 0; i < from; i++) j->first_line += source.data[i] == '\n';
    bool ok = compile(o, &source, from, j, &artifact);
    str_append_n(&j->sketch, source.data + from, source.len - from);
    sketch_identity(o->operator_text, j->sketch.data, &j->identity);
    if (ok) sketchc_artifact_identity(artifact, j->code);
    j->same = ok && o->codes && strstr(o->codes, j->code);
    if (j->same) {
        str_append(&j->outcome, "same code as an earlier one");
    } else if (ok && verify(o, artifact, j)) {
        str_append(&j->outcome, "verified");
        if (o->measure) measure(o, artifact, source.data, j);
    }
    sketchc_artifact_destroy(artifact);
    str_release(&source);
}
