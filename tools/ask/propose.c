/* --propose: asks for sketches of an operator, judges each, sends failures back, keeps the best. */
#include "ask.h"

#include "conductor.h"
#include "fail.h"
#include "judge_apart.h"
#include "llm.h"
#include "retrieve.h"
#include "search.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPERATOR_LIMIT = 1 << 20, CANDIDATE_LIMIT = 1000 };

/* ---- Settings ---- */

static bool set_flags(LlmConfig *config, const CommandLine *line, Str *error) {
    static const struct {
        OptionId option;
        const char *name;
    } flags[] = {{OPTION_PROPOSER, "proposer"},           {OPTION_PRESET, "preset"},
                 {OPTION_ENDPOINT, "endpoint"},           {OPTION_MODEL, "model"},
                 {OPTION_MAX_CALLS, "max_calls"},         {OPTION_MAX_TOKENS, "max_tokens"},
                 {OPTION_MAX_COST, "max_cost"},           {OPTION_CASSETTE, "cassette"},
                 {OPTION_CASSETTE_MODE, "cassette_mode"}, {OPTION_CASSETTE_MATCH, "cassette_match"}};
    bool ok = true;
    for (size_t i = 0; i < line->given.len; i++) {
        const GivenOption *g = &line->given.data[i];
        for (size_t k = 0; k < COUNT_OF(flags); k++)
            if (flags[k].option == g->id)
                ok &= llm_config_set(config, flags[k].name, g->value, LLM_FROM_FLAG, option_table[g->id].name, error);
        if (g->id != OPTION_SET) continue;
        char name[64] = {0};
        size_t n = strcspn(g->value, "=");
        if (!g->value[n] || n >= sizeof name) {
            str_append(error, "--set wants NAME=VALUE\n");
            ok = false;
            continue;
        }
        memcpy(name, g->value, n);
        ok &= llm_config_set(config, name, g->value + n + 1, LLM_FROM_FLAG, "set", error);
    }
    return ok;
}

LlmConfig *read_settings(const CommandLine *line) {
    char folder[4096];
    Str error;
    str_init(&error);
    LlmConfig *config = llm_config_create();
    bool trust = option_given(line, OPTION_TRUST_PROJECT);
    bool ok = llm_config_load(config, getcwd(folder, sizeof folder), trust, &error);
    ok = set_flags(config, line, &error) && ok;
    llm_config_finish(config);
    if (!ok) fprintf(stderr, "sketchc: %s", error.data);
    str_release(&error);
    if (ok) return config;
    llm_config_destroy(config);
    return NULL;
}

int command_config(const CommandLine *line) {
    if (line->operands.len) return fail(SKETCHC_USAGE_ERROR, "config takes no file");
    LlmConfig *config = read_settings(line);
    if (!config) return SKETCHC_USAGE_ERROR;
    Str out;
    str_init(&out);
    if (option_given(line, OPTION_VERBOSE))
        llm_settings_reference(&out);
    else
        llm_config_show(config, option_given(line, OPTION_SHOW_ORIGIN), &out);
    int status = ask_write_text(line, &out);
    str_release(&out);
    llm_config_destroy(config);
    return status;
}

/* ---- A run ---- */

/* Why an answer could not be judged, and what the next question says of it. */
typedef enum { REMARK_NONE, REMARK_NOTHING, REMARK_CUT, REMARK_REPEATED } Remark;
static const struct {
    const char *what, *advice;
} remarks[] = {
    [REMARK_NOTHING] = {"it held no sketch block", "The last answer held no `sketch` block. Answer with one whole block in a "
                                                   "code fence."},
    [REMARK_CUT] = {"it ended before its sketch block did", "The last answer ended before its sketch block did. Answer shortly, with one "
                                                            "whole block."},
    [REMARK_REPEATED] = {"its sketch was tried before", "The last answer was a sketch that had been tried before. Change what the "
                                                        "diagnostics or the verdict speak of."}};

/* One first answer and what repairs made of it. */
typedef struct {
    ProposerCandidate failed;
    Judgement *tried; /* one a round in which there was a sketch to judge; the last is mended */
    Hash128 *asked;   /* identities of what was answered there, before fix-its */
    ProposerCandidate *history;
    size_t tried_count;
    Remark remark; /* on the last answer */
    unsigned attempt, round;
    int64_t chain; /* its first question, in the store; 0: none */
    bool open;     /* goes back for repair */
    bool known;    /* what came of the last answer is the store's, nothing was run */
} Line;

typedef struct {
    Hash128 identity;
    char code[33];           /* "" not compiled, or of an earlier one */
    unsigned attempt, round; /* whose answer it was */
    bool right;              /* verified */
} Seen;

typedef struct {
    const CommandLine *line;
    const sketchc_options *compile;
    const char *path;
    JudgeOptions judge;
    Proposer *proposer;
    PoolOptions pool_options;
    Pool *pool;
    const atomic_int *cancel; /* set by Ctrl-C */
    Str operator_name, operator_text, best, report, winner;
    Str definition, environment; /* the operator as the store knows it; versions of compilers */
    Store *store;                /* null: nothing is kept */
    SearchPlace place;           /* where its results belong; device "" when that is not known */
    bool placed;                 /* it was looked for */
    VEC(int64_t) calls;          /* of the store */
    SearchProgress progress;
    double start;
    double best_seconds, naive_seconds, default_seconds, time_limit_s;
    Arena *arena;
    VEC(SearchSeed) right; /* verified answers */
    Retrieved similar;     /* what the store has of similar operators */
    unsigned judged, verified, equal;
    Seen *seen;
    size_t seen_count;
    char *machine;              /* in words; null: not known */
    ProposerCandidate standard; /* the compiler's own sketch; its sketch null: there is none, or --alone */
    Judgement own;              /* of that */
    Str given;                  /* what -D gives, in words */
    Str codes;                  /* of those that were judged, with commas */
    bool final;                 /* asking again is of no use */
    ProposerStatus last;
} Run;

static bool is_interrupted(const Run *run) {
    return atomic_load((atomic_int *)(uintptr_t)run->cancel);
}

static unsigned count_option(const CommandLine *line, OptionId id, unsigned otherwise) {
    double n;
    const char *text = option_value(line, id);
    return text && parse_double(text, &n) && n >= 0 && n <= CANDIDATE_LIMIT ? (unsigned)n : otherwise;
}

/* False: a number among the options is none, and somebody was told. */
static bool check_numbers(const CommandLine *line) {
    static const struct {
        OptionId option;
        double least, most;
    } limits[] = {{OPTION_CANDIDATES, 1, CANDIDATE_LIMIT},
                  {OPTION_REPAIRS, 0, CANDIDATE_LIMIT},
                  {OPTION_SAMPLE, 1, CANDIDATE_LIMIT},
                  {OPTION_WORKERS, 1, 64},
                  {OPTION_SEARCH_TIME, 1e-3, 1e6}};
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        double n;
        const char *text = option_value(line, limits[i].option);
        if (!text || (parse_double(text, &n) && n >= limits[i].least && n <= limits[i].most)) continue;
        fail(SKETCHC_USAGE_ERROR, "--%s wants a number from %g to %g, not \"%s\"", option_table[limits[i].option].name, limits[i].least,
             limits[i].most, text);
        return false;
    }
    return true;
}

/* False: something was asked for that --propose has no use for, and somebody was told. */
static bool check_line(const CommandLine *line, const LlmConfig *config, const char *path) {
    static const OptionId useless[] = {OPTION_EMIT, OPTION_EXPLAIN, OPTION_DESIGN, OPTION_SKETCH, OPTION_PASSES, OPTION_STOP_AFTER};
    const char *mode = option_value(line, OPTION_CASSETTE_MODE);
    for (size_t i = 0; i < COUNT_OF(useless); i++)
        if (option_given(line, useless[i])) {
            fail(SKETCHC_USAGE_ERROR,
                 "--%s has no meaning with --propose, which writes a sketch (-o best.sketch): give it when you compile that",
                 option_table[useless[i]].name);
            return false;
        }
    size_t defines = 0;
    for (size_t i = 0; i < line->given.len; i++) defines += line->given.data[i].id == OPTION_DEFINE;
    if (defines > CONDUCTOR_MOST_DEFINES) {
        fail(SKETCHC_USAGE_ERROR, "--propose takes at most %d -D", CONDUCTOR_MOST_DEFINES);
        return false;
    }
    if (strcmp(path, "-") == 0) {
        fail(SKETCHC_USAGE_ERROR, "--propose reads the operator's file more than once: name one in place of standard input");
        return false;
    }
    if (mode && strcmp(mode, "replay") == 0 && !llm_config_get(config, LLM_CASSETTE)[0]) {
        fail(SKETCHC_USAGE_ERROR, "--cassette-mode=replay wants --cassette=FILE, a recording");
        return false;
    }
    if ((option_given(line, OPTION_CASSETTE) || option_given(line, OPTION_ALONE)) && !llm_wanted(config) &&
        !option_given(line, OPTION_EXPLAIN_PROMPT)) {
        fail(SKETCHC_USAGE_ERROR,
             "%s is about answers, and nobody is asked: add --model=NAME with --preset or --endpoint, or "
             "--proposer=command:PROGRAM",
             option_given(line, OPTION_ALONE) ? "--alone" : "--cassette");
        return false;
    }
    return ask_check_output(line);
}

/* What is known of a sketch; a new entry where it was not seen before. */
static Seen *seen_of(Run *run, Hash128 identity, bool *known) {
    *known = true;
    for (size_t i = 0; i < run->seen_count; i++)
        if (run->seen[i].identity.lo == identity.lo && run->seen[i].identity.hi == identity.hi) return &run->seen[i];
    *known = false;
    run->seen[run->seen_count] = (Seen){.identity = identity};
    return &run->seen[run->seen_count++];
}

static void say(const Run *run, const Line *l, const char *status, const char *text) {
    if (!option_given(run->line, OPTION_QUIET))
        fprintf(stderr, "%scandidate %u.%u: %s%s%.300s%s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", l->attempt + 1, l->round, status,
                text[0] ? ": " : "", text, l->known ? " (known)" : "");
}

/* ---- What the store keeps of it ---- */

/* Once, when there is something to judge: a run of the naive sketch says where results belong. */
static void find_place(Run *run) {
    SearchOptions o = {.path = run->path,
                       .text = run->operator_text.data,
                       .size = run->operator_text.len,
                       .target = run->judge.target,
                       .arch = run->judge.arch,
                       .seed = run->judge.seed,
                       .defines = run->judge.defines,
                       .define_count = run->judge.define_count,
                       .cancel = run->cancel,
                       .store = run->store};
    if (run->store && !run->placed && search_place(&o, run->pool, &run->place)) run->judge.case_name = run->place.case_name;
    run->placed = true;
}

static StoreKey key_of(const Run *run, const char *sketch) {
    return (StoreKey){.definition = run->definition.data,
                      .sketch = sketch,
                      .target = run->judge.target,
                      .arch = run->place.arch,
                      .device = run->place.device,
                      .environment = run->environment.data,
                      .case_name = run->place.case_key};
}

/* As the store knows it: in the one style, or as it is where it does not parse. */
static void store_form(const Run *run, const char *sketch, Str *out) {
    if (!sketch_in_style(run->operator_text.data, sketch, out)) str_append(out, sketch);
}

/* A verdict is found by the sketch alone: it holds where inputs, limit of time and target are those of every run. */
static bool is_usual(const Run *run) {
    return !run->judge.target_file && !run->judge.define_count && !option_given(run->line, OPTION_SEED) &&
           !option_given(run->line, OPTION_TIME_LIMIT);
}

/* Is the answer's sketch known, also as one that failed, hung or crashed? Then it is not run again. */
static bool find_verdict(const Run *run, const char *answer, Judgement *j) {
    Str sketch;
    if (!run->place.device[0] || !is_usual(run)) return false;
    str_init(&sketch);
    store_form(run, answer, &sketch);
    StoreKey key = key_of(run, sketch.data);
    char *text = store_find_verdict(run->store, &key);
    bool known = text && judgement_read(text, strlen(text), j);
    free(text);
    str_release(&sketch);
    return known;
}

/* What was said of the answer, and of the sketch that was judged (fix-its may lie between): result, time, artifact. Failures under other
 * conditions than the usual ones say nothing of other runs, times of code for another target document neither. */
static void keep_result(const Run *run, const Judgement *j, const char *answer, const char *sketch) {
    StoreKey key = key_of(run, sketch);
    StoreResult failed = {0};
    Str asked, verdict;
    if (!run->place.device[0] && j->failure == FAILURE_NONE) { /* no naive sketch runs, this one does */
        key.arch = j->arch;
        key.device = j->device;
        key.case_name = j->case_name;
    }
    if (run->judge.target_file || (j->failure && !is_usual(run))) return;
    if (!key.device[0] || j->failure == FAILURE_MACHINE || (j->failure == FAILURE_NONE && j->seconds <= 0)) return;
    snprintf(failed.status, sizeof failed.status, "%s", failure_name(j->failure));
    StoreResult right = j->measured;
    right.baseline = run->own.seconds; /* 0 with --alone: a search measures it again */
    store_put(run->store, &key, j->failure ? &failed : &right, run->proposer->name, NULL);
    if (j->artifact.len && !j->failure) store_put_artifact(run->store, &key, j->artifact.data, j->artifact.len);
    if (!is_usual(run)) return;
    str_init(&asked);
    str_init(&verdict);
    store_form(run, answer, &asked);
    judgement_write(j, false, &verdict);
    key.sketch = asked.data;
    store_put_verdict(run->store, &key, verdict.data, run->proposer->name);
    str_release(&asked);
    str_release(&verdict);
}

/* An answer: what it cost and what came of it. `j`: null where there was nothing to judge. */
static void keep_call(Run *run, Line *l, const ProposerReply *reply, const char *outcome, const Judgement *j, bool before) {
    Str sketch;
    if (!run->store) return;
    str_init(&sketch);
    if (j) store_form(run, j->sketch.data, &sketch);
    StoreCall call = proposer_call(run->proposer->detail[0] ? run->proposer->detail : run->proposer->name, reply);
    call.task = l->round ? "repair" : "first";
    call.definition = run->definition.data;
    call.target = run->judge.target;
    call.sketch = j ? sketch.data : NULL;
    call.outcome = outcome;
    call.verified = before || (j && j->failure == FAILURE_NONE);
    call.chain = l->chain;
    call.round = l->round;
    int64_t number = store_put_call(run->store, -1, &call);
    if (number > 0) VEC_PUSH(run->arena, &run->calls, number);
    if (number > 0 && !l->chain) l->chain = number;
    if (j && !l->known) keep_result(run, j, reply->sketch.data, sketch.data);
    str_release(&sketch);
}

/* ---- Answers ---- */

static void show_progress(Run *run, size_t asking) {
    SearchProgress *p = &run->progress;
    LlmTotals t;
    llm_totals(run->proposer, &t);
    p->answers = true;
    p->asking = (unsigned)asking;
    p->calls = t.calls;
    p->tokens_in = t.tokens_in;
    p->tokens_out = t.tokens_out;
    p->cost = t.cost;
    p->tried = run->judged + run->equal;
    p->verified = run->verified;
    p->repeated = run->equal;
    p->elapsed = seconds_now() - run->start;
    p->best_seconds = run->best.len ? run->best_seconds : 0;
    p->best_name = run->best.len ? run->proposer->name : "";
    ask_progress(run->line, p);
}

/* `before`: an equal sketch was verified. */
static void note(Run *run, Line *l, const ProposerReply *reply, const char *failure, const char *outcome, const Judgement *j, bool before) {
    bool verified = j && j->failure == FAILURE_NONE;
    str_printf(&run->report, "%s{\"candidate\": %u, \"round\": %u, \"reply\": \"%s\", \"outcome\": ", run->report.len ? ",\n  " : "",
               l->attempt + 1, l->round, proposer_status_name(reply->status));
    str_append_json(&run->report, outcome);
    str_printf(&run->report, ", \"failure\": \"%s\", \"verified\": %s, \"fixes\": %u, \"median_s\": ", failure, verified ? "true" : "false",
               j ? j->fixes : 0);
    str_append_double(&run->report, verified ? j->seconds : 0);
    str_printf(&run->report, ", \"tokens_in\": %lld, \"tokens_out\": %lld, \"replayed\": %s, \"known\": %s}", (long long)reply->tokens_in,
               (long long)reply->tokens_out, reply->replayed ? "true" : "false", j && l->known ? "true" : "false");
    bool failed = strcmp(failure, "none") != 0;
    say(run, l, failed ? failure : outcome, failed ? outcome : "");
    keep_call(run, l, reply, verified ? "ok" : failure, j, before);
    if (j && j->failure) run->progress.failures[j->failure]++;
}

static void keep_best(Run *run, const Judgement *j) {
    if (run->best.len && j->seconds >= run->best_seconds) return;
    str_release(&run->best);
    str_init(&run->best);
    str_append(&run->best, j->sketch.data);
    run->best_seconds = j->seconds;
}

/* What a repair is of use for: the sketch's own faults. */
static bool can_be_repaired(FailureKind kind) {
    return kind != FAILURE_NONE && kind != FAILURE_MACHINE && kind != FAILURE_POWER && kind != FAILURE_REFERENCE;
}

/* An answer without a sketch may go back as well, unless nobody answered. */
static void judge_nothing(Run *run, Line *l, const ProposerReply *reply) {
    if (reply->status == PROPOSED_NOTHING) l->remark = REMARK_NOTHING;
    if (reply->status == PROPOSED_TRUNCATED) l->remark = REMARK_CUT;
    l->open = l->remark != REMARK_NONE;
    note(run, l, reply, "no sketch", reply->error.data, NULL, false);
}

/* What a line itself tried goes back with a remark; what another one tried is left to that one. */
static void judge_repeated(Run *run, Line *l, const Seen *seen, const ProposerReply *reply, const char *how) {
    Hash128 identity = seen->identity;
    for (size_t i = 0; i < l->tried_count && !l->open; i++) l->open = l->asked[i].lo == identity.lo && l->asked[i].hi == identity.hi;
    l->remark = REMARK_REPEATED;
    run->equal++;
    note(run, l, reply, "repeated", how, NULL, seen->right);
}

/* Equal code is one candidate. False: it is the first. */
static bool judge_same_code(Run *run, Line *l, Seen *seen, const ProposerReply *reply, Judgement *j) {
    char how[64];
    const Seen *first = run->seen;
    while (j->code[0] && first < run->seen + run->seen_count && strcmp(first->code, j->code) != 0) first++;
    if (!j->code[0] || first == run->seen + run->seen_count) {
        snprintf(seen->code, sizeof seen->code, "%s", j->code);
        str_printf(&run->codes, "%s%s", run->codes.len ? "," : "", j->code);
        return false;
    }
    seen->right = first->right;
    snprintf(how, sizeof how, SAME_CODE "%u.%u", first->attempt + 1, first->round);
    judgement_release(j);
    judgement_init(j);
    judge_repeated(run, l, first, reply, how);
    l->tried_count--; /* what is mended is the last of another code */
    return true;
}

static void judge_reply(Run *run, Line *l, ProposerReply *reply) {
    Hash128 identity;
    l->open = l->known = false;
    l->remark = REMARK_NONE;
    run->last = reply->status;
    if (proposer_status_is_final(reply->status)) run->final = true;
    if (!reply->sketch.len) {
        judge_nothing(run, l, reply);
        return;
    }
    sketch_identity(run->operator_text.data, reply->sketch.data, &identity);
    bool known;
    Seen *seen = seen_of(run, identity, &known);
    if (known) {
        judge_repeated(run, l, seen, reply, "equal to an earlier one");
        return;
    }
    Judgement *j = &l->tried[l->tried_count];
    l->asked[l->tried_count++] = identity;
    find_place(run);
    seen->attempt = l->attempt;
    seen->round = l->round;
    run->judge.codes = run->codes.data;
    l->known = find_verdict(run, reply->sketch.data, j);
    if (!run->judge.drawn) run->judge.drawn = seed_drawn();
    if (!l->known && !judge_apart(run->pool, &run->judge, reply->sketch.data, run->cancel, j)) run->final = true;
    if (j->told_drawn) run->judge.drawn = 0;
    if (judge_same_code(run, l, seen, reply, j)) return;
    run->judged++;
    run->verified += j->failure == FAILURE_NONE;
    l->open = can_be_repaired(j->failure);
    if (j->failure == FAILURE_NONE) {
        SearchSeed seed = {arena_strdup(run->arena, j->sketch.data), run->proposer->name};
        VEC_PUSH(run->arena, &run->right, seed);
        keep_best(run, j);
    }
    seen->right = j->failure == FAILURE_NONE;
    note(run, l, reply, failure_name(j->failure), j->outcome.data, j, false);
}

static ProposerRequest design_request(const Run *run, unsigned attempt) {
    return (ProposerRequest){.task = PROPOSE_DESIGN,
                             .operator_name = run->operator_name.data,
                             .operator_text = run->operator_text.data,
                             .target = run->judge.target,
                             .arch = run->judge.arch,
                             .machine = run->machine,
                             .given = run->given.data,
                             .standard = run->standard.sketch ? &run->standard : NULL,
                             .seed = run->judge.seed,
                             .examples = run->similar.examples,
                             .example_count = run->similar.count,
                             .attempt = attempt,
                             .deadline = run->judge.deadline,
                             .cancel = run->cancel};
}

/* What failed last, and before it. */
static void repair_request(Line *l, ProposerRequest *request) {
    request->task = PROPOSE_REPAIR;
    request->failure = remarks[l->remark].what;
    if (l->tried_count) {
        size_t last = l->tried_count - 1;
        for (size_t i = 0; i < last; i++)
            l->history[i] = (ProposerCandidate){.sketch = l->tried[i].sketch.data, .outcome = l->tried[i].outcome.data};
        conductor_repair_request(&l->tried[last], &l->failed, request);
        request->history = l->history;
        request->history_count = last;
    }
    if (l->remark) request->strategy = remarks[l->remark].advice;
}

/* One question for each open line, side by side. */
static void ask_round(Run *run, Line *lines, unsigned count, unsigned round) {
    ProposerRequest *requests = calloc(count, sizeof *requests);
    ProposerReply *replies = calloc(count, sizeof *replies);
    Line **asked = calloc(count, sizeof *asked);
    size_t n = 0;
    for (unsigned i = 0; requests && replies && asked && i < count; i++) {
        Line *l = &lines[i];
        if (!l->open) continue;
        l->round = round;
        requests[n] = design_request(run, l->attempt);
        if (round) repair_request(l, &requests[n]);
        proposer_reply_init(&replies[n]);
        asked[n++] = l;
    }
    run->progress.round = round;
    if (n) show_progress(run, n);
    if (n) run->proposer->propose(run->proposer, requests, n, replies);
    for (size_t i = 0; i < n; i++) {
        if (!is_interrupted(run)) judge_reply(run, asked[i], &replies[i]);
        show_progress(run, 0);
        proposer_reply_release(&replies[i]);
    }
    free(requests);
    free(replies);
    free(asked);
}

static bool line_init(Line *l, unsigned attempt, unsigned repairs) {
    *l = (Line){.attempt = attempt, .open = true};
    l->tried = calloc(repairs + 1, sizeof *l->tried);
    l->asked = calloc(repairs + 1, sizeof *l->asked);
    l->history = calloc(repairs + 1, sizeof *l->history);
    for (unsigned i = 0; l->tried && i <= repairs; i++) judgement_init(&l->tried[i]);
    return l->tried && l->asked && l->history;
}

static void line_release(Line *l, unsigned repairs) {
    for (unsigned i = 0; l->tried && i <= repairs; i++) judgement_release(&l->tried[i]);
    free(l->tried);
    free(l->asked);
    free(l->history);
}

static bool is_over(const Run *run) {
    return run->final || is_interrupted(run) || (run->judge.deadline > 0 && seconds_now() >= run->judge.deadline);
}

/* Of the time that was asked for the answers have a half, where a search follows. */
static void set_deadline(Run *run) {
    double limit = 0;
    const char *text = option_value(run->line, OPTION_SEARCH_TIME);
    if (text && parse_double(text, &limit)) run->judge.deadline = run->start + (option_given(run->line, OPTION_ALONE) ? 0.95 : 0.5) * limit;
}

static void search(Run *run, unsigned candidates, unsigned repairs) {
    Line *lines = calloc(candidates, sizeof *lines);
    run->seen = calloc((size_t)candidates * (repairs + 1), sizeof *run->seen);
    bool ok = lines && run->seen;
    unsigned first = count_option(run->line, OPTION_SAMPLE, 1);
    if (first) first--;
    for (unsigned i = 0; ok && i < candidates; i++) ok = line_init(&lines[i], first + i, repairs);
    for (unsigned round = 0; ok && round <= repairs && !is_over(run); round++) ask_round(run, lines, candidates, round);
    for (unsigned i = 0; lines && i < candidates; i++) line_release(&lines[i], repairs);
    free(run->seen);
    free(lines);
}

/* ---- With the compiler's own sketches ---- */

/* The store, and how it calls the operator. */
static bool prepare_store(Run *run) {
    const char *path = option_value(run->line, OPTION_STORE);
    SearchOptions o = {.path = run->path,
                       .text = run->operator_text.data,
                       .size = run->operator_text.len,
                       .target = run->judge.target,
                       .arch = run->compile->arch,
                       .defines = run->judge.defines,
                       .define_count = run->judge.define_count};
    Str name, error;
    if (!path) return true;
    if (!(run->store = ask_open_store(path, false))) return false;
    str_init(&name);
    str_init(&error);
    /* What has no design has no style of its own. */
    if (!search_read_operator(&o, &run->definition, &name, &error)) str_append(&run->definition, run->operator_text.data);
    str_release(&name);
    str_release(&error);
    ask_environment(&run->environment);
    run->judge.keep = true;
    return true;
}

/* What the compiler makes by itself, shown to whoever is asked; `timed`: judged before. */
static void take_standard(Run *run, bool timed) {
    SearchOptions o = {
        .target = run->judge.target, .arch = run->judge.arch, .defines = run->judge.defines, .define_count = run->judge.define_count};
    JudgeOptions judge = run->judge;
    Str sketch;
    if (option_given(run->line, OPTION_ALONE)) return;
    str_init(&sketch);
    judge.roof = true;
    if (search_standard_sketch(&o, run->operator_text.data, &sketch)) {
        if (timed) judge_apart(run->pool, &judge, sketch.data, run->cancel, &run->own);
        if (run->own.failure == FAILURE_NONE)
            run->standard = (ProposerCandidate){.sketch = arena_strdup(run->arena, sketch.data), .outcome = "Not timed", .verified = timed};
        if (timed && run->standard.sketch)
            run->standard.outcome = arena_printf(run->arena, "%.*s. %.*s", (int)run->own.outcome.len, run->own.outcome.data,
                                                 (int)run->own.roof.len, run->own.roof.data);
    }
    str_release(&sketch);
}

/* Examples from the store, before anyone is asked. */
static void find_similar(Run *run) {
    RetrieveOptions o = {.operator_text = run->definition.data, .target = run->judge.target};
    LlmEmbedding vectors = {.proposer = run->proposer, .store = run->store, .cancel = run->cancel};
    Embedder embedder;
    Describer describer;
    if (!run->store || option_given(run->line, OPTION_ALONE)) return;
    str_init(&vectors.error);
    str_init(&vectors.undescribed);
    if (llm_embedder(&vectors, &embedder)) o.embedder = &embedder;
    if (llm_describer(&vectors, &describer)) o.describer = &describer;
    retrieve_examples(run->store, &o, &run->similar);
    ask_say_vectors(run->line, &vectors);
    str_release(&vectors.error);
    str_release(&vectors.undescribed);
}

/* The verified answers go on in a search beside designs and what the store knows; its winner is verified completely. */
static int go_on(Run *run) {
    SearchOptions options = {.more = run->final ? NULL : run->proposer,
                             .asked = true,
                             .since = run->judge.deadline > 0 ? run->start : 0,
                             .seeds = run->right.data,
                             .seed_count = run->right.len,
                             .before = &run->progress,
                             .calls = run->calls.data,
                             .call_count = run->calls.len,
                             .store = run->store};
    SearchResult result;
    int status = search_by_line(run->line, run->compile, run->path, run->judge.seed, &options, &result);
    if (status) return status;
    /* A search that was broken off has its fastest, verified at small cases; answers were verified in all. */
    if (result.found && (result.complete || !run->best.len)) {
        str_release(&run->best);
        str_init(&run->best);
        proposer_extract_sketch(result.file.data, result.file.len, &run->best, NULL);
        str_append(&run->winner, result.winner);
        run->best_seconds = result.best_seconds;
        run->naive_seconds = result.naive_seconds;
        run->default_seconds = ask_own_seconds(&result);
        ask_say_found(run->line, &result, "");
    } else if (!result.found && !run->best.len && !is_interrupted(run)) {
        fprintf(stderr, "sketchc: %s", result.error.data);
        if (result.file.len && !ask_write_sketch(run->line, &result.file)) status = SKETCHC_VERIFY_FAILED;
    }
    search_result_release(&result);
    return status;
}

/* ---- Results ---- */

static void join(const Run *run, Str *text) {
    str_printf(text, "%s\n%s", run->operator_text.data, run->best.data);
    sketchc_unit *unit = sketchc_unit_create("best.sketch", text->data, text->len);
    char *formatted = NULL;
    size_t size;
    if (unit && sketchc_format(unit, &formatted, &size) == SKETCHC_OK) {
        str_release(text);
        str_init(text);
        str_append_n(text, formatted, size);
    }
    sketchc_free(formatted);
    sketchc_unit_destroy(unit);
}

static int write_best(const Run *run) {
    Str text;
    str_init(&text);
    join(run, &text);
    int status = ask_write_sketch(run->line, &text);
    str_release(&text);
    return status;
}

/* Nobody answered a single question. */
static void say_unanswered(const Run *run, const LlmTotals *t) {
    if (!t->calls || t->failures < t->calls || option_given(run->line, OPTION_QUIET) || is_interrupted(run)) return;
    fprintf(stderr,
            "sketchc: no question was answered by %s: is it there, and is it the one you mean? `sketchc config --show-origin` says "
            "what is asked%s\n",
            run->proposer->detail[0] ? run->proposer->detail : run->proposer->name,
            run->best.len ? "; the compiler's own sketches were searched without it" : "");
}

static void report(const Run *run) {
    LlmTotals t;
    llm_totals(run->proposer, &t);
    if (!option_given(run->line, OPTION_QUIET)) {
        fprintf(stderr,
                "%u judged, %u verified, %u equal; %u calls (%u requests, %u replayed, %u equal "
                "prompts), tokens %lld in "
                "(%lld cached), %lld out",
                run->judged, run->verified, run->equal, t.calls, t.tries, t.replayed, t.equal_prompts, (long long)t.tokens_in,
                (long long)t.tokens_cached, (long long)t.tokens_out);
        if (t.other_prompts) fprintf(stderr, ", %u answers that were recorded for another prompt", t.other_prompts);
        if (t.cost >= 0) fprintf(stderr, ", cost %.6g", t.cost);
        fputs("\n", stderr);
    }
    if (is_interrupted(run) && !run->best.len) fprintf(stderr, "sketchc: interrupted before a sketch was verified\n");
    say_unanswered(run, &t);
    if (!option_given(run->line, OPTION_JSON)) return;
    Str out;
    str_init(&out);
    str_append(&out, "{\"format\": 1, \"kind\": \"propose\", \"operator\": ");
    str_append_json(&out, run->operator_name.data);
    str_append(&out, ", \"proposer\": ");
    str_append_json(&out, run->proposer->name);
    str_printf(&out,
               ", \"judged\": %u, \"verified\": %u, \"equal\": %u, \"calls\": %u, \"requests\": "
               "%u, \"replayed\": %u, "
               "\"equal_prompts\": %u, \"other_prompts\": %u, \"tokens_in\": %lld, \"tokens_cached\": %lld, "
               "\"tokens_out\": %lld, \"cost\": ",
               run->judged, run->verified, run->equal, t.calls, t.tries, t.replayed, t.equal_prompts, t.other_prompts,
               (long long)t.tokens_in, (long long)t.tokens_cached, (long long)t.tokens_out);
    str_append_double(&out, t.cost);
    str_append(&out, ", \"best_s\": ");
    str_append_double(&out, run->best.len ? run->best_seconds : 0);
    str_append(&out, ", \"naive_s\": ");
    str_append_double(&out, run->naive_seconds);
    str_append(&out, ", \"default_s\": ");
    str_append_double(&out, run->default_seconds);
    str_append(&out, ", \"winner\": ");
    str_append_json(&out, run->winner.len ? run->winner.data : run->best.len ? run->proposer->name : "");
    str_printf(&out, ", \"candidates\": [\n  %s]}\n", run->report.data);
    fputs(out.data, stdout);
    str_release(&out);
}

/* The worst that can be said when nothing was found. */
static int status_of(const Run *run) {
    if (run->best.len) return 0;
    if (is_interrupted(run)) return SKETCHC_INTERRUPTED;
    if (run->judged) return SKETCHC_VERIFY_FAILED;
    return run->last == PROPOSER_REJECTED ? SKETCHC_USAGE_ERROR : SKETCHC_MISSING;
}

/* Broken off before an answer was right: what was found is the compiler's own sketch. */
static void keep_standard(Run *run) {
    if (!is_interrupted(run) || run->best.len || !run->standard.verified || run->own.seconds <= 0) return;
    str_append(&run->best, run->standard.sketch);
    str_append(&run->winner, "default");
    run->best_seconds = run->default_seconds = run->own.seconds;
    if (!option_given(run->line, OPTION_QUIET))
        fprintf(stderr, "default: %.4g ms at %s, the compiler's own; interrupted before an answer was verified\n", 1e3 * run->own.seconds,
                run->own.case_name);
}

static int run_all(Run *run, const LlmConfig *config) {
    Str error;
    str_init(&error);
    int status = 0;
    if (llm_wanted(config) && !(run->proposer = llm_proposer_create(config, &error))) status = fail(SKETCHC_USAGE_ERROR, "%s", error.data);
    str_release(&error);
    if (status) return status;
    if (!run->proposer || option_given(run->line, OPTION_STRATEGY)) {
        status = command_search(run->line, run->compile, run->path, run->judge.seed, run->proposer);
        proposer_destroy(run->proposer);
        return status;
    }
    unsigned candidates = count_option(run->line, OPTION_CANDIDATES, 4), repairs = count_option(run->line, OPTION_REPAIRS, 3);
    run->pool_options = (PoolOptions){.argv = judge_command, .slots = 1};
    run->cancel = catch_interrupts();
    if (!(run->pool = pool_create(&run->pool_options))) {
        proposer_destroy(run->proposer);
        return fail(SKETCHC_MISSING, "no folder for temporary files can be made: TMPDIR says where they go");
    }
    if (!prepare_store(run)) {
        pool_destroy(run->pool);
        proposer_destroy(run->proposer);
        return ask_store_status();
    }
    set_deadline(run);
    find_similar(run);
    take_standard(run, true);
    search(run, candidates ? candidates : 1, repairs);
    pool_destroy(run->pool);
    keep_standard(run);
    bool nobody = run->last == PROPOSER_REJECTED && !run->judged;
    if (!nobody && !is_interrupted(run) && !option_given(run->line, OPTION_ALONE)) status = go_on(run);
    retrieved_release(&run->similar);
    ask_close_store(run->line, run->store);
    if (!status) status = status_of(run);
    if (run->best.len && !status) status = write_best(run);
    report(run);
    if (!status && is_interrupted(run)) status = SKETCHC_INTERRUPTED;
    proposer_destroy(run->proposer);
    return status;
}

static int explain(Run *run, const LlmConfig *config) {
    Str fixed, task, why;
    str_init(&fixed);
    str_init(&task);
    str_init(&why);
    take_standard(run, false);
    ProposerRequest request = design_request(run, 0);
    request.token_budget = (size_t)llm_config_number(config, LLM_PROMPT_TOKENS, 12000);
    llm_prompt(&request, &fixed, &task, &why);
    printf("==== documents ====\n%s==== fixed ====\n%s==== task ====\n%s", why.data, fixed.data, task.data);
    str_release(&fixed);
    str_release(&task);
    str_release(&why);
    return 0;
}

/* The operator alone must be sound; its mistakes are the user's. */
static int read_operator(Run *run, const char *path) {
    Str text;
    str_init(&text);
    int status = 0;
    if (!file_read(path, OPERATOR_LIMIT, &text))
        status = fail(SKETCHC_USAGE_ERROR, "cannot read %s: %s", path, strerror(errno));
    else if (!proposer_extract_operator(text.data, text.len, &run->operator_text, &run->operator_name))
        status = fail(SKETCHC_SOURCE_ERROR, "%s holds no operator", path);
    str_release(&text);
    if (status) return status;
    sketchc_unit *unit = sketchc_unit_create(path, run->operator_text.data, run->operator_text.len);
    /* Target and -D, too, are the command line's: what is wrong with them is said before the search. */
    sketchc_options options = {.size = sizeof options,
                               .target = run->judge.target,
                               .arch = run->compile->arch,
                               .target_file = run->compile->target_file,
                               .defines = run->compile->defines,
                               .define_count = run->compile->define_count};
    char *graph = NULL;
    size_t size;
    status = unit ? (int)sketchc_emit(unit, &options, "graph", &graph, &size) : SKETCHC_BUG;
    char *diagnostics = status && unit ? sketchc_diagnostics(unit, "text") : NULL;
    if (diagnostics) fputs(diagnostics, stderr);
    sketchc_free(diagnostics);
    sketchc_free(graph);
    sketchc_unit_destroy(unit);
    return status;
}

int command_propose(Arena *arena, const CommandLine *line, const sketchc_options *compile, const char *path, uint64_t seed,
                    double time_limit_s) {
    Run run = {.line = line,
               .compile = compile,
               .path = path,
               .arena = arena,
               .progress = {.cost = -1, .best_name = ""},
               .start = seconds_now(),
               .judge = {.target = compile->target ? compile->target : "openmp",
                         .arch = compile->arch,
                         .target_file = compile->target_file,
                         .seed = seed,
                         .defines = compile->defines,
                         .define_count = compile->define_count,
                         .time_limit_s = time_limit_s,
                         .measure = true}};
    Str *texts[] = {&run.operator_name, &run.operator_text, &run.best,  &run.report, &run.winner,
                    &run.definition,    &run.environment,   &run.codes, &run.given};
    for (size_t i = 0; i < COUNT_OF(texts); i++) str_init(texts[i]);
    /* What is judged here is made for this machine, and whoever is asked is told of the same. */
    sketchc_options here = *compile;
    char *native = here.arch || here.target_file ? NULL : sketchc_native_arch(run.judge.target);
    if (native) here.arch = arena_strdup(arena, native);
    sketchc_free(native);
    run.compile = &here;
    run.judge.arch = here.arch ? here.arch : strcmp(run.judge.target, "openmp") == 0 ? "x86-64-v3" : "sm_80";
    sketchc_options described = {
        .size = sizeof described, .target = run.judge.target, .arch = run.judge.arch, .target_file = here.target_file};
    run.machine = sketchc_machine(&described);
    conductor_name_defines(run.judge.defines, run.judge.define_count, &run.given);
    judgement_init(&run.own);
    LlmConfig *config = read_settings(line);
    int status = config && check_numbers(line) && check_line(line, config, path) ? read_operator(&run, path) : SKETCHC_USAGE_ERROR;
    run.judge.operator_name = run.operator_name.data;
    run.judge.operator_text = run.operator_text.data;
    if (!status) status = option_given(line, OPTION_EXPLAIN_PROMPT) ? explain(&run, config) : run_all(&run, config);
    llm_config_destroy(config);
    judgement_release(&run.own);
    sketchc_free(run.machine);
    for (size_t i = 0; i < COUNT_OF(texts); i++) str_release(texts[i]);
    return status;
}
