/* judge_sketch in a judge's process: orders and judgements as JSON. */
#include "judge_apart.h"

#include "json.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_TEXTS = 8 }; /* texts of one answer that the child hands to its parent; each call here names fewer */

/* ---- Judgements ---- */

/* The texts of a judgement, by name. */
static size_t texts_of(const Judgement *of, Str **texts, const char **names) {
    static const char *const all[] = {"sketch", "outcome", "diagnostics", "explanation", "verdict", "roof"};
    Judgement *j = (Judgement *)(uintptr_t)of; /* one list serves both directions */
    Str *const fields[] = {&j->sketch, &j->outcome, &j->diagnostics, &j->explanation, &j->verdict, &j->roof};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        texts[i] = fields[i];
        names[i] = all[i];
    }
    return COUNT_OF(all);
}

void judgement_write(const Judgement *j, bool artifact, Str *out) {
    Str *texts[MOST_TEXTS];
    const char *names[MOST_TEXTS];
    size_t count = texts_of(j, texts, names);
    str_printf(out, "{\"failure\":%d,\"fixes\":%u,\"first_line\":%u,\"lo\":\"%llu\",\"hi\":\"%llu\",\"case\":", (int)j->failure, j->fixes,
               j->first_line, (unsigned long long)j->identity.lo, (unsigned long long)j->identity.hi);
    str_append_json(out, j->case_name);
    str_append_member_number(out, "seconds", j->seconds);
    str_append_member_number(out, "noise", j->noise);
    str_append_member_number(out, "samples", j->measured.samples);
    str_append_member_number(out, "bytes", j->measured.bytes);
    str_append_member_number(out, "flops", j->measured.flops);
    str_append_member_number(out, "percent_of_roof", j->measured.percent_of_roof);
    str_append_member_number(out, "roof_bytes", j->measured.roof_bytes);
    str_append_member(out, "device", j->device);
    str_append_member(out, "code", j->code);
    str_printf(out, ",\"told_drawn\":%s,\"same\":%s", j->told_drawn ? "true" : "false", j->same ? "true" : "false");
    str_append_member(out, "arch", j->arch);
    if (artifact && j->artifact.len && j->artifact.len <= SEARCH_ARTIFACT_LIMIT && j->failure == FAILURE_NONE) {
        str_append(out, ",\"artifact\":\"");
        str_append_base64(out, j->artifact.data, j->artifact.len);
        str_append_char(out, '"');
    }
    for (size_t i = 0; i < count; i++) {
        str_printf(out, ",\"%s\":", names[i]);
        str_append_json_n(out, texts[i]->data, texts[i]->len);
    }
    str_append_char(out, '}');
}

static uint64_t whole(const Json *root, const char *name) {
    return strtoull(json_get_string(root, name, "0"), NULL, 10);
}

bool judgement_read(const char *answer, size_t size, Judgement *j) {
    char error[128];
    Str *texts[MOST_TEXTS];
    const char *names[MOST_TEXTS];
    size_t count = texts_of(j, texts, names);
    Json *root = json_read(answer, size, NULL, error);
    int64_t failure = json_get_int(root, "failure", -1);
    bool ok = failure >= 0 && failure < FAILURE_COUNT;
    if (ok) j->failure = (FailureKind)failure;
    j->fixes = (unsigned)json_get_int(root, "fixes", 0);
    j->first_line = (unsigned)json_get_int(root, "first_line", 0);
    j->identity = (Hash128){whole(root, "lo"), whole(root, "hi")};
    j->seconds = json_get_number(root, "seconds", 0);
    j->noise = json_get_number(root, "noise", 0);
    if (j->seconds > 0)
        j->measured = (StoreResult){.status = "ok",
                                    .complete = true,
                                    .seconds = j->seconds,
                                    .noise = j->noise,
                                    .samples = (unsigned)json_get_int(root, "samples", 0),
                                    .bytes = json_get_number(root, "bytes", 0),
                                    .flops = json_get_number(root, "flops", 0),
                                    .percent_of_roof = json_get_number(root, "percent_of_roof", 0),
                                    .roof_bytes = json_get_number(root, "roof_bytes", 0)};
    snprintf(j->case_name, sizeof j->case_name, "%.63s", json_get_string(root, "case", ""));
    snprintf(j->device, sizeof j->device, "%.127s", json_get_string(root, "device", ""));
    snprintf(j->code, sizeof j->code, "%.32s", json_get_string(root, "code", ""));
    j->same = json_get_bool(root, "same", false);
    j->told_drawn = json_get_bool(root, "told_drawn", false);
    snprintf(j->arch, sizeof j->arch, "%.31s", json_get_string(root, "arch", ""));
    if (!str_read_base64(&j->artifact, json_get_string(root, "artifact", ""))) {
        str_release(&j->artifact);
        str_init(&j->artifact);
    }
    for (size_t i = 0; ok && i < count; i++) str_append(texts[i], json_get_string(root, names[i], ""));
    json_release(root);
    return ok;
}

/* ---- The search's side ---- */

static void put_order(const JudgeOptions *o, const char *sketch, Str *out) {
    str_printf(out, "{\"seed\":\"%llu\",\"samples\":%u,\"measure\":%s,\"roof\":%s,\"keep\":%s", (unsigned long long)o->seed, o->samples,
               o->measure ? "true" : "false", o->roof ? "true" : "false", o->keep ? "true" : "false");
    str_printf(out, ",\"drawn\":\"%llu\"", (unsigned long long)o->drawn);
    str_append_member_number(out, "time_limit_s", o->time_limit_s);
    str_append_member(out, "task", "sketch");
    str_append_member(out, "file", sketch);
    str_append_member(out, "operator", o->operator_text);
    str_append_member(out, "operator_name", o->operator_name);
    str_append_member(out, "target", o->target);
    str_append_member(out, "arch", o->arch);
    str_append_member(out, "target_file", o->target_file);
    str_append_member(out, "case", o->case_name);
    str_append_member(out, "codes", o->codes);
    conductor_put_defines(o->defines, o->define_count, out);
    str_append_char(out, '}');
}

/* The judge did not come to an answer. */
static void blame(const PoolJob *job, const char *sketch, Judgement *j) {
    j->failure = job->outcome == POOL_NOT_RUN ? FAILURE_MACHINE : job->outcome == POOL_HUNG ? failure_of_hang(job->why) : FAILURE_BUG;
    str_append(&j->sketch, sketch);
    str_append(&j->outcome, job->why[0] ? job->why : "the judge said nothing");
    str_append(&j->verdict, job->why);
}

bool judge_apart(Pool *pool, const JudgeOptions *o, const char *sketch, const atomic_int *cancel, Judgement *j) {
    Str order;
    char error[128];
    str_init(&order);
    put_order(o, sketch, &order);
    PoolJob job = {.request = order.data, .size = order.len};
    pool_run(pool, &job, 1, o->deadline, cancel);
    Json *root = job.outcome == POOL_DONE ? json_read(job.answer.data, job.answer.len, NULL, error) : NULL;
    const char *text = json_get_string(root, "text", "");
    if (!root || !judgement_read(text, strlen(text), j)) blame(&job, sketch, j);
    json_release(root);
    str_release(&job.answer);
    str_release(&order);
    return job.outcome != POOL_NOT_RUN;
}

/* ---- The judge's side ---- */

void judge_order(const Json *order, ChildChannel *channel, Str *text) {
    sketchc_define defines[CONDUCTOR_MOST_DEFINES];
    JudgeOptions o = {.target = json_get_string(order, "target", NULL),
                      .arch = json_get_string(order, "arch", NULL),
                      .target_file = json_get_string(order, "target_file", NULL),
                      .operator_name = json_get_string(order, "operator_name", NULL),
                      .operator_text = json_get_string(order, "operator", ""),
                      .seed = whole(order, "seed"),
                      .drawn = whole(order, "drawn"),
                      .time_limit_s = json_get_number(order, "time_limit_s", 0),
                      .case_name = json_get_string(order, "case", NULL),
                      .codes = json_get_string(order, "codes", NULL),
                      .samples = (unsigned)json_get_int(order, "samples", 0),
                      .measure = json_get_bool(order, "measure", false),
                      .roof = json_get_bool(order, "roof", false),
                      .keep = json_get_bool(order, "keep", false),
                      .defines = defines,
                      .define_count = conductor_read_defines(order, defines),
                      .channel = channel};
    Judgement j;
    judgement_init(&j);
    judge_sketch(&o, json_get_string(order, "file", ""), &j);
    judgement_write(&j, true, text);
    judgement_release(&j);
}
