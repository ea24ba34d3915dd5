/* Judging for the search: quickly while it runs, completely for what is given out. All of it is done by judges. */
#include "search_internal.h"

#include "json.h"

#include <string.h>

enum {
    SAMPLES = 7, /* launches of a timing: an odd number, so that the median is one of them */
    CLEARLY_SLOWER =
        3, /* times the best: a candidate that takes so long is given up, for no noise of a machine makes up for it (not measured) */
    OTHER_LOAD = 2, /* times: if the baseline's time has changed that much, the machine's load has, and times are taken again */
    AT_ONCE = 64    /* candidates in work, as many as a pool has slots (MOST_SLOTS in pool.c) */
};

/* ---- Orders and answers ---- */

typedef struct {
    const char *task, *file;
    unsigned samples;
    double give_up_s;
    bool keep;     /* the artifact comes back, for the store */
    uint64_t seed; /* 0: the search's */
} Order;

static void put_order(const Search *s, const Order *o, Str *out) {
    const SearchOptions *options = s->options;
    str_printf(out, "{\"seed\":\"%llu\",\"samples\":%u", (unsigned long long)(o->seed ? o->seed : options->seed), o->samples);
    str_append_member_number(out, "give_up_s", o->give_up_s);
    str_printf(out, ",\"keep\":%s", o->keep && options->store ? "true" : "false");
    str_append_member(out, "task", o->task);
    str_append_member(out, "file", o->file);
    str_append_member(out, "operator", s->operator_text);
    str_append_member(out, "target", options->target);
    str_append_member(out, "arch", options->arch);
    if (strcmp(o->task, "shapes") != 0) str_append_member(out, "case", s->case_name[0] ? s->case_name : NULL);
    conductor_put_defines(options->defines, options->define_count, out);
    str_append_char(out, '}');
}

/* What the end of a judge's process says of the candidate; null: nothing. */
static const char *status_of(const PoolJob *job) {
    static const char *const names[] = {[POOL_NOT_RUN] = NULL,
                                        [POOL_DONE] = "ok",
                                        [POOL_CRASHED] = "compiler_crash",
                                        [POOL_HUNG] = "hang",
                                        [POOL_TOO_LARGE] = "compiler_memory",
                                        [POOL_KILLED] = "killed"};
    FailureKind hang = job->outcome == POOL_HUNG ? failure_of_hang(job->why) : FAILURE_TIMEOUT;
    return hang == FAILURE_TIMEOUT ? names[job->outcome] : failure_name(hang);
}

static void read_result(const Json *json, StoreResult *r) {
    *r = (StoreResult){.complete = json_get_bool(json, "complete", false),
                       .seconds = json_get_number(json, "seconds", 0),
                       .noise = json_get_number(json, "noise", 0),
                       .samples = (unsigned)json_get_int(json, "samples", 0),
                       .bytes = json_get_number(json, "bytes", 0),
                       .flops = json_get_number(json, "flops", 0),
                       .percent_of_roof = json_get_number(json, "percent_of_roof", 0),
                       .roof_bytes = json_get_number(json, "roof_bytes", 0)};
}

/* Replaces the result; false: the job was not run, the result is as it was. `root` may be null. */
static bool read_answer(const PoolJob *job, StoreResult *r, Json **root) {
    char error[128];
    const char *status = status_of(job);
    Json *json = job->outcome == POOL_DONE ? json_read(job->answer.data, job->answer.len, NULL, error) : NULL;
    if (status) {
        read_result(json, r);
        snprintf(r->status, sizeof r->status, "%.31s", job->outcome == POOL_DONE ? json_get_string(json, "status", "bug") : status);
    }
    if (root)
        *root = json;
    else
        json_release(json);
    return status;
}

/* One job by itself. */
static bool do_one(const Search *s, const Order *o, StoreResult *r, Json **root) {
    Str request;
    str_init(&request);
    put_order(s, o, &request);
    PoolJob job = {.request = request.data, .size = request.len};
    pool_run(s->pool, &job, 1, s->deadline, s->options->cancel);
    bool known = read_answer(&job, r, root);
    str_release(&job.answer);
    str_release(&request);
    return known;
}

bool search_format(const Search *s, const char *file, StoreResult *r, Str *text) {
    Json *root = NULL;
    bool known = do_one(s, &(Order){.task = "format", .file = file}, r, &root);
    str_append(text, json_get_string(root, "text", ""));
    json_release(root);
    return known;
}

/* ---- Candidates ---- */

StoreKey search_key(const Search *s, const char *sketch) {
    return (StoreKey){.definition = s->operator_text,
                      .sketch = sketch,
                      .target = s->options->target,
                      .arch = s->arch,
                      .device = s->device,
                      .environment = s->options->environment,
                      .case_name = s->case_key};
}

void search_keep_artifact(Search *s, const Candidate *c) {
    sketchc_options options = {.size = sizeof options,
                               .target = s->options->target,
                               .arch = s->options->arch,
                               .defines = s->options->defines,
                               .define_count = s->options->define_count};
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

/* A time that was measured when the machine did other work as well says nothing of this search's. */
static bool is_other_load(const Search *s, const StoreResult *r) {
    if (s->baseline <= 0 || r->seconds <= 0) return false;
    return r->baseline * OTHER_LOAD < s->baseline || r->baseline > OTHER_LOAD * s->baseline;
}

/* Slower than what? What was given up beside a faster one may be wanted here. */
static bool is_known(const Search *s, Candidate *c, double give_up_s) {
    StoreKey key = search_key(s, c->sketch);
    StoreResult r;
    if (!s->options->store || !store_find(s->options->store, &key, &r)) return false;
    c->same_before = strncmp(r.status, SAME_CODE, strlen(SAME_CODE)) == 0;
    if (c->same_before || is_other_load(s, &r)) return false;
    if (strcmp(r.status, "slow") == 0 && !(give_up_s > 0 && r.seconds >= give_up_s)) return false;
    c->result = r;
    c->ended = seconds_now();
    return c->judged = c->stored = true;
}

static double give_up_after(const Search *s) {
    double best = 0;
    for (size_t i = 0; i < s->count; i++) {
        const Candidate *c = &s->list[i];
        if (candidate_runs(c) && (best <= 0 || c->result.seconds < best)) best = c->result.seconds;
    }
    return CLEARLY_SLOWER * best;
}

/* One task for each of the candidates, side by side. done[i] is false: not run, the candidate is as it was. */
static void do_all(Search *s, const Order *o, Candidate *const *of, size_t n, double deadline, bool *done) {
    PoolJob jobs[AT_ONCE];
    Str requests[AT_ONCE];
    for (size_t i = 0; i < n; i++) {
        Order own = *o;
        own.file = of[i]->file;
        str_init(&requests[i]);
        put_order(s, &own, &requests[i]);
        jobs[i] = (PoolJob){.request = requests[i].data, .size = requests[i].len};
    }
    pool_run(s->pool, jobs, n, deadline, s->options->cancel);
    for (size_t i = 0; i < n; i++) {
        Json *root = NULL;
        of[i]->ended = jobs[i].ended;
        done[i] = read_answer(&jobs[i], &of[i]->result, &root);
        const char *code = json_get_string(root, "code", "");
        if (code[0]) snprintf(of[i]->code, sizeof of[i]->code, "%.32s", code);
        if (o->keep && !str_read_base64(&of[i]->artifact, json_get_string(root, "artifact", ""))) of[i]->artifact.len = 0;
        json_release(root);
        str_release(&jobs[i].answer);
        str_release(&requests[i]);
    }
}

/* What was found in the store was not compiled here. */
static void find_codes(Search *s, double deadline) {
    Candidate *of[AT_ONCE];
    StoreResult results[AT_ONCE];
    bool done[AT_ONCE];
    size_t n = 0;
    for (size_t i = 0; i < s->count && n < AT_ONCE; i++)
        if (candidate_runs(&s->list[i]) && !s->list[i].code[0]) of[n++] = &s->list[i];
    for (size_t i = 0; i < n; i++) results[i] = of[i]->result;
    if (n) do_all(s, &(Order){.task = "code"}, of, n, deadline, done);
    for (size_t i = 0; i < n; i++) of[i]->result = results[i];
}

/* The first with this code; the candidate itself where there is none before. */
static const Candidate *first_of_code(const Search *s, const Candidate *c) {
    for (const Candidate *one = s->list; one < c && c->code[0]; one++)
        if (!one->same && strcmp(one->code, c->code) == 0) return one;
    return c;
}

/* Equal code is one candidate: the first has the result and the credit. */
static bool is_same_code(const Search *s, Candidate *c) {
    const Candidate *first = first_of_code(s, c);
    if (first == c) return false;
    c->result = (StoreResult){0};
    snprintf(c->result.status, sizeof c->result.status, SAME_CODE "%zu", (size_t)(first - s->list) + 1);
    c->artifact.len = 0;
    c->same_as = (size_t)(first - s->list);
    return c->same = c->judged = true;
}

/* All are compiled and checked before the first is timed: beside a clock nothing of this search runs. */
static void judge_all(Search *s, Candidate *const *of, size_t n, double give_up_s, double deadline) {
    Candidate *right[AT_ONCE];
    bool done[AT_ONCE];
    size_t count = 0;
    do_all(s, &(Order){.task = "check", .keep = true}, of, n, deadline, done);
    if (n) find_codes(s, deadline);
    for (size_t i = 0; i < n; i++) {
        if (done[i] && is_same_code(s, of[i])) continue;
        of[i]->judged = done[i] && strcmp(of[i]->result.status, "ok") != 0;
        if (done[i] && !of[i]->judged) right[count++] = of[i];
    }
    do_all(s, &(Order){.task = "time", .samples = SAMPLES, .give_up_s = give_up_s}, right, count, deadline, done);
    for (size_t i = 0; i < count; i++) right[i]->judged = done[i];
}

void search_evaluate(Search *s, size_t from, double deadline) {
    double give_up_s = give_up_after(s);
    while (from < s->count) {
        Candidate *of[AT_ONCE];
        size_t n = 0;
        for (; from < s->count && n < AT_ONCE; from++) {
            Candidate *c = &s->list[from];
            if (!c->judged && !is_known(s, c, give_up_s)) of[n++] = c;
        }
        judge_all(s, of, n, give_up_s, deadline);
    }
}

bool search_verify_all(Search *s, Candidate *c) {
    StoreResult r;
    if (c->result.complete) return true;
    c->verify_seed = s->drawn;
    if (!do_one(s, &(Order){.task = "verify", .file = c->file, .seed = c->verify_seed}, &r, NULL)) return false;
    c->result.complete = r.complete;
    memcpy(c->result.status, r.status, sizeof r.status);
    return r.complete;
}

/* Verified before, timed again: how long it takes now says whether the store's times are of the same load. */
static bool prove_known(Search *s, Candidate *c) {
    if (!candidate_runs(c) || !search_verify_all(s, c)) return false;
    s->baseline = search_time(s, c, SAMPLES);
    if (!is_other_load(s, &c->result)) return true;
    s->baseline_before = c->result.baseline;
    c->result.seconds = s->baseline;
    c->stored = false;
    return true;
}

bool search_prove(Search *s, Candidate *c) {
    const StoreResult chosen = c->result;
    bool done;
    if (is_known(s, c, 0)) return prove_known(s, c);
    c->verify_seed = s->drawn;
    do_all(s, &(Order){.task = "verify", .keep = true, .seed = c->verify_seed}, &c, 1, s->deadline, &done);
    c->judged = done;
    if (!done) c->result = chosen;
    if (!done || !c->result.complete) return false;
    StoreResult verified = c->result;
    do_all(s, &(Order){.task = "time", .samples = SAMPLES}, &c, 1, s->deadline, &done);
    bool timed = done && c->result.seconds > 0;
    if (!done) c->result = verified;
    if (!done) c->result.seconds = chosen.seconds;
    if (timed) s->baseline = c->result.seconds;
    return c->result.complete = timed || !done;
}

double search_time(Search *s, const Candidate *c, unsigned samples) {
    StoreResult r = {0};
    do_one(s, &(Order){.task = "time", .file = c->file, .samples = samples}, &r, NULL);
    return r.seconds;
}

void search_time_shapes(Search *s, const Candidate *c) {
    enum { SHAPE_SAMPLES = 5 };
    StoreKey key = search_key(s, c->sketch);
    StoreResult r = {0};
    Json *root = NULL;
    if (!s->options->store || s->options->define_count || store_cases_measured(s->options->store, &key) > 1) return;
    unsigned samples = c->result.seconds < 0.1 ? SHAPE_SAMPLES : 1;
    do_one(s, &(Order){.task = "shapes", .file = c->file, .samples = samples}, &r, &root);
    for (const Json *item = json_first(json_get(root, "shapes")); item; item = json_next(item)) {
        key.case_name = json_get_string(item, "name", "");
        read_result(item, &r);
        if (strcmp(key.case_name, s->case_name) != 0) store_put_measurement(s->options->store, &key, &r);
    }
    json_release(root);
}

bool search_choose_case(Search *s, Candidate *c) {
    Json *root = NULL;
    bool known = do_one(s, &(Order){.task = "choose", .file = c->file}, &c->result, &root);
    snprintf(s->why, sizeof s->why, "%.255s", json_get_string(root, "text", ""));
    s->why_usage = strcmp(c->result.status, "bad_option") == 0;
    s->why_machine = !s->why_usage && failure_of_result(c->result.status) == FAILURE_MACHINE;
    snprintf(s->case_name, sizeof s->case_name, "%.63s", json_get_string(root, "case", ""));
    snprintf(s->device, sizeof s->device, "%.127s", json_get_string(root, "device", ""));
    snprintf(s->arch, sizeof s->arch, "%.31s", json_get_string(root, "arch", ""));
    int used = snprintf(s->case_key, sizeof s->case_key, "%s", s->case_name);
    for (size_t i = 0; i < s->options->define_count && used >= 0 && (size_t)used < sizeof s->case_key; i++)
        used += snprintf(s->case_key + used, sizeof s->case_key - (size_t)used, " %s=%s", s->options->defines[i].name,
                         s->options->defines[i].value);
    /* Declared cases with other sizes are none of the operator's. */
    bool keeps = s->options->store && !s->options->define_count;
    for (const Json *item = json_first(json_get(root, "cases")); item && keeps; item = json_next(item))
        store_put_case(s->options->store, s->operator_text, json_get_string(item, "name", ""), json_get_string(item, "sizes", ""));
    json_release(root);
    return known && s->case_name[0];
}
