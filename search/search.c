/* search.h: rounds of candidates, which workers judge side by side and which are taken in order. */
#include "search_internal.h"

#include "conductor.h"
#include "contrast.h"
#include "retrieve.h"
#include "rules.h"

#include <stdlib.h>
#include <string.h>

/* Chosen by hand; searches that differ in them alone were not compared. */
enum {
    PER_ROUND = 6, /* proposals that are asked for at once */
    MIGRATION = 3, /* rounds from one exchange between islands to the next */
    FINALISTS = 6, /* candidates that are verified in full when the time is over, fastest first, until one is right */
    REMEASURED = 3 /* times that the fastest and the baselines are timed again, in turn, of which the median counts */
};

typedef struct {
    Search s;
    SearchResult *result;
    double start;
    double pace;             /* seconds that one round took at most */
    double end;              /* of all */
    double deadline;         /* of candidates: what is still being judged then is left, and the rest is for the last verification */
    char reached[192];       /* how far the first sketch has come, where it is not verified */
    ProposerCandidate shown; /* the same, as whoever is asked sees it; its sketch null: there is none */
    char shown_outcome[256];
    size_t standard; /* the candidate that the compiler makes by itself; SIZE_MAX: none */
    Str own;         /* that one's file where nothing has said that it is wrong */
} Loop;

static double time_limit(const SearchOptions *o) {
    return o->time_limit_s > 0 ? o->time_limit_s : 20;
}

static bool cancelled(const Loop *l) {
    const atomic_int *flag = l->s.options->cancel;
    return flag && atomic_load((atomic_int *)flag);
}

/* What is of use and no need is left out then. */
static bool is_late(const Loop *l) {
    return seconds_now() >= l->end;
}

/* ---- Candidates ---- */

static char *copy(const char *text, size_t size) {
    char *result = malloc(size + 1);
    if (!result) return NULL;
    memcpy(result, text, size);
    result[size] = '\0';
    return result;
}

/* The same under another name is the same. */
static Hash128 identity_of(const char *sketch) {
    const char *body = strstr(sketch, " implements ");
    if (!body) body = sketch;
    return hash128(body, strlen(body), (Hash128){0, 0});
}

void candidate_release(Candidate *c) {
    free(c->file);
    free(c->sketch);
    str_release(&c->artifact);
}

/* The sketch joined with the operator, in the one style. What the formatter does not survive stays as it is, and is
 * judged by that. */
static bool prepare(const Search *s, const char *sketch, Candidate *c) {
    Str source, block, text;
    Str *all[] = {&source, &block, &text};
    for (size_t i = 0; i < COUNT_OF(all); i++) str_init(all[i]);
    str_printf(&source, "%s\n%s", s->operator_text, sketch);
    bool known = search_format(s, source.data, &c->result, &text);
    if (known && text.len) {
        known = proposer_extract_sketch(text.data, text.len, &block, NULL);
    } else if (known && (known = strcmp(c->result.status, "compile") != 0)) {
        c->judged = true;
        c->ended = seconds_now();
        str_append_n(&text, source.data, source.len);
        str_append(&block, sketch);
    }
    if (known) {
        c->file = copy(text.data, text.len);
        c->sketch = copy(block.data, block.len);
        c->identity = identity_of(block.data);
    }
    for (size_t i = 0; i < COUNT_OF(all); i++) str_release(all[i]);
    return known && c->file && c->sketch;
}

/* SIZE_MAX: it does not parse, or was there before. */
static size_t add(Loop *l, const char *sketch, const char *source, size_t parent, unsigned arm, unsigned island) {
    Search *s = &l->s;
    Candidate c = {.source = source, .parent = parent, .arm = arm, .island = island};
    str_init(&c.artifact);
    l->result->last.tried++;
    if (s->count == SEARCH_CANDIDATES || !prepare(s, sketch, &c)) {
        candidate_release(&c);
        return SIZE_MAX;
    }
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].identity.lo == c.identity.lo && s->list[i].identity.hi == c.identity.hi) {
            l->result->last.repeated++;
            candidate_release(&c);
            return SIZE_MAX;
        }
    s->list[s->count] = c;
    return s->count++;
}

static ProposerRequest request_of(const Loop *l, const ProposerCandidate *parent, unsigned attempt) {
    const Search *s = &l->s;
    return (ProposerRequest){.task = PROPOSE_DESIGN,
                             .operator_name = s->name,
                             .operator_text = s->operator_text,
                             .target = s->options->target,
                             .arch = s->options->arch ? s->options->arch : "",
                             .machine = s->machine,
                             .given = s->given.data,
                             .standard = l->shown.sketch ? &l->shown : NULL,
                             .parents = parent,
                             .parent_count = parent ? 1 : 0,
                             .seed = s->options->seed,
                             .attempt = attempt,
                             .deadline = l->deadline,
                             .cancel = s->options->cancel};
}

/* A question to somebody outside, and what it cost. */
static void note_call(Loop *l, const Proposer *from, const ProposerRequest *r, const ProposerReply *reply, size_t at) {
    SearchProgress *p = &l->result->last;
    Search *s = &l->s;
    p->calls++;
    p->tokens_in += reply->tokens_in > 0 ? reply->tokens_in : 0;
    p->tokens_out += reply->tokens_out > 0 ? reply->tokens_out : 0;
    if (reply->cost >= 0) p->cost = (p->cost > 0 ? p->cost : 0) + reply->cost;
    StoreCall call = proposer_call(from->detail ? from->detail : from->name, reply);
    call.task = r->parent_count ? "improve" : "design";
    call.definition = s->operator_text;
    call.target = s->options->target;
    call.sketch = at == SIZE_MAX ? NULL : s->list[at].sketch;
    call.outcome = at != SIZE_MAX ? NULL : reply->sketch.len ? "repeated" : "no sketch";
    int64_t number = s->options->store ? store_put_call(s->options->store, s->run, &call) : 0;
    if (at != SIZE_MAX && number > 0) s->list[at].call = number;
}

/* What came of the answer to a question. */
static void note_outcome(const Search *s, const Candidate *c) {
    StoreCall result = {.definition = s->operator_text, .sketch = c->sketch, .outcome = c->result.status, .verified = c->result.complete};
    if (c->call > 0) store_call_result(s->options->store, c->call, &result);
}

static size_t take_reply(Loop *l, const Proposer *from, const ProposerRequest *r, const ProposerReply *reply, const char *source,
                         size_t parent, unsigned arm, unsigned island) {
    size_t at = reply->sketch.len ? add(l, reply->sketch.data, source, parent, arm, island) : SIZE_MAX;
    if (arm == ARM_MORE) note_call(l, from, r, reply, at);
    return at;
}

static size_t ask(Loop *l, Proposer *from, const ProposerRequest *r, const char *source, size_t parent, unsigned arm, unsigned island) {
    ProposerReply reply;
    proposer_reply_init(&reply);
    from->propose(from, r, 1, &reply);
    size_t at = take_reply(l, from, r, &reply, source, parent, arm, island);
    proposer_reply_release(&reply);
    return at;
}

/* ---- Judging ---- */

/* What came of one candidate: into the store, and to the arm that made it. */
static void account(Loop *l, Candidate *c) {
    Search *s = &l->s;
    if (!c->judged) return;
    const Candidate *parent = c->parent == SIZE_MAX ? NULL : &s->list[c->parent];
    bool first = !c->counted;
    c->counted = true;
    if (first && candidate_runs(c)) l->result->last.verified++;
    if (first && parent && c->arm < ARM_COUNT) {
        double gain = candidate_runs(c) ? 1 - c->result.seconds / parent->result.seconds : 0;
        s->arms[c->arm].tried++;
        s->arms[c->arm].gain += gain > 0 ? gain : 0;
    }
    FailureKind failure = candidate_failure(c);
    if (first && failure) l->result->last.failures[failure]++;
    if (!s->options->store) return;
    if (!c->stored) c->result.baseline = s->baseline;
    StoreKey key = search_key(s, c->sketch);
    StoreTrial trial = {.source = c->source, .at = c->ended - l->start, .known = c->stored || (c->same && c->same_before)};
    if (!c->stored) store_put(s->options->store, &key, &c->result, c->source, parent ? parent->sketch : NULL);
    if (c->artifact.len) store_put_artifact(s->options->store, &key, c->artifact.data, c->artifact.len);
    str_release(&c->artifact);
    note_outcome(s, c);
    if (first && s->run >= 0) store_put_trial(s->options->store, s->run, &key, &c->result, &trial);
}

static const char *strategy_of(const Search *s) {
    return s->options->strategy ? s->options->strategy : "islands";
}

static void begin_run(Loop *l) {
    Search *s = &l->s;
    StoreKey key = search_key(s, "");
    if (s->options->store && s->run < 0) s->run = store_run_begin(s->options->store, &key, strategy_of(s), s->options->seed);
    for (size_t i = 0; s->run >= 0 && i < s->options->call_count; i++) store_adopt_call(s->options->store, s->run, s->options->calls[i]);
}

static void report(Loop *l, bool done) {
    const Search *s = &l->s;
    SearchProgress *p = &l->result->last;
    size_t best = search_best(s, SEARCH_ISLANDS);
    p->elapsed = seconds_now() - l->start;
    p->best_seconds = best == SIZE_MAX ? 0 : s->list[best].result.seconds;
    p->best_name = best == SIZE_MAX ? "" : s->list[best].source;
    p->percent_of_roof = best == SIZE_MAX ? 0 : s->list[best].result.percent_of_roof;
    p->done = done;
    if (s->options->progress) s->options->progress(s->options->context, p);
}

static void judge_new(Loop *l, size_t from) {
    Search *s = &l->s;
    search_evaluate(s, from, l->deadline);
    for (size_t i = from; i < s->count; i++) account(l, &s->list[i]);
    report(l, false);
}

/* ---- The start ---- */

/* What a designed file holds before its sketch. */
bool search_read_operator(const SearchOptions *o, Str *operator_text, Str *operator_name, Str *error) {
    sketchc_options options = {
        .size = sizeof options, .target = o->target, .arch = o->arch, .defines = o->defines, .define_count = o->define_count};
    sketchc_unit *unit = sketchc_unit_create(o->path, o->text, o->size);
    char *text = NULL;
    size_t size = 0;
    bool ok = false;
    for (size_t i = 0; unit && !ok && i < sketchc_design_count(); i++) {
        sketchc_free(text);
        text = NULL;
        ok = sketchc_design(unit, &options, i, &text, &size) == SKETCHC_OK;
    }
    const char *sketch = ok ? strstr(text, "\nsketch ") : NULL, *name = ok ? strstr(text, "operator ") : NULL;
    if (sketch && name) {
        str_append_n(operator_text, text, (size_t)(sketch - text) + 1);
        name += strlen("operator ");
        str_append_n(operator_name, name, strcspn(name, " {"));
    } else if (unit) {
        char *diagnostics = sketchc_diagnostics(unit, "text");
        str_append(error, diagnostics ? diagnostics : "the operator cannot be read\n");
        sketchc_free(diagnostics);
    }
    sketchc_free(text);
    sketchc_unit_destroy(unit);
    return operator_text->len > 0;
}

static bool take_operator(Loop *l) {
    Str text, name;
    str_init(&text);
    str_init(&name);
    if (search_read_operator(l->s.options, &text, &name, &l->result->error)) l->s.operator_text = copy(text.data, text.len);
    snprintf(l->s.name, sizeof l->s.name, "%s", name.data);
    str_release(&text);
    str_release(&name);
    return l->s.operator_text != NULL;
}

/* The naive design of that style, after a run that chooses the case; SIZE_MAX: there is none, or it does not run. */
static size_t try_naive(Loop *l, Proposer *rules, unsigned style) {
    ProposerRequest r = request_of(l, NULL, style);
    unsigned repeated = l->result->last.repeated;
    size_t at = ask(l, rules, &r, sketchc_design_name(style), SIZE_MAX, ARM_DESIGN, 0);
    if (at == SIZE_MAX && l->standard != SIZE_MAX && l->result->last.repeated > repeated) at = l->standard;
    if (l->standard != SIZE_MAX) return at; /* that one chose the case */
    return at != SIZE_MAX && search_choose_case(&l->s, &l->s.list[at]) ? at : SIZE_MAX;
}

/* Why no naive sketch ran, and what may be done. */
static void say_nothing_runs(const Loop *l, Str *error) {
    const Search *s = &l->s;
    str_printf(error, "no naive sketch of %s runs here for %s%s%s", s->name, s->options->target, s->why[0] ? ": " : "", s->why);
    str_append(error, s->why_usage       ? "\n"
                      : !s->why_machine  ? "; `sketchc verify` of the operator's file says more\n"
                      : s->options->arch ? "; --arch and -t name the machine: leave --arch out for this one\n"
                                         : "; `sketchc doctor` says what this machine has, -t openmp searches on the processor\n");
}

/* The compiler's own sketch is what there is without a search, so that it is an answer, though none that was verified. */
static void say_too_late(Loop *l) {
    str_printf(&l->result->error, "no sketch of %s was verified within %g s; a longer --search-time gives it time (%s)\n", l->s.name,
               time_limit(l->s.options),
               l->reached[0] ? l->reached : "the compiler's own sketch was still being compiled, or run for the first time");
    if (!l->own.len) return;
    str_append(&l->result->error, "the compiler's own sketch is given, not verified\n");
    str_append(&l->result->file, l->own.data);
}

/* The baseline: the first naive design that compiles and runs. Where the compiler's own sketch runs it has part of the time and may
 * be left out; else it chooses the case. */
static bool take_naive(Loop *l, Proposer *rules) {
    double now = seconds_now(), limit = l->standard == SIZE_MAX ? l->end : now + (l->deadline - now) / 2;
    for (unsigned i = 0; i < sketchc_design_count() && sketchc_design_is_naive(i) && !cancelled(l); i++) {
        size_t at = try_naive(l, rules, i);
        if (at == SIZE_MAX) continue;
        l->s.list[at].naive = true;
        begin_run(l);
        search_evaluate(&l->s, at, limit);
        account(l, &l->s.list[at]);
        if (l->s.list[at].same) at = l->s.list[at].same_as;
        l->s.list[at].naive = true;
        l->result->last.naive_seconds = l->s.list[at].result.seconds;
        snprintf(l->result->case_name, sizeof l->result->case_name, "%s", l->s.case_name);
        report(l, false);
        if (candidate_runs(&l->s.list[at])) return true;
    }
    if (l->standard != SIZE_MAX) return true;
    if (cancelled(l))
        str_append(&l->result->error, "interrupted before a sketch had run\n");
    else if (is_late(l))
        say_too_late(l);
    else
        say_nothing_runs(l, &l->result->error);
    l->result->usage = l->s.why_usage;
    return false;
}

bool search_standard_sketch(const SearchOptions *o, const char *operator_text, Str *block) {
    sketchc_options options = {
        .size = sizeof options, .target = o->target, .arch = o->arch, .defines = o->defines, .define_count = o->define_count};
    sketchc_unit *unit = sketchc_unit_create("operator.sketch", operator_text, strlen(operator_text));
    char *text = NULL;
    size_t size = 0;
    bool made =
        unit && sketchc_emit(unit, &options, "sketch", &text, &size) == SKETCHC_OK && proposer_extract_sketch(text, size, block, NULL);
    sketchc_free(text);
    sketchc_unit_destroy(unit);
    return made;
}

/* The floor: nothing that is slower is given out. It is verified at once, so that there is an answer whatever comes, and tells how
 * much time the last verification wants. */
static void take_standard(Loop *l) {
    enum { SHARE = 10 };
    Search *s = &l->s;
    Str block;
    str_init(&block);
    bool made = search_standard_sketch(s->options, s->operator_text, &block);
    if (made) str_printf(&l->own, "%s\n%s", s->operator_text, block.data);
    size_t at = made ? add(l, block.data, "default", SIZE_MAX, ARM_DESIGN, 0) : SIZE_MAX;
    str_release(&block);
    double reserve = time_limit(s->options) / SHARE;
    if (at != SIZE_MAX && search_choose_case(s, &s->list[at])) {
        Candidate *c = &s->list[at];
        double begin = seconds_now();
        begin_run(l);
        snprintf(l->result->case_name, sizeof l->result->case_name, "%s", s->case_name);
        snprintf(l->reached, sizeof l->reached, "the compiler's own sketch ran, %.4g ms at %s, but its verification had not ended",
                 1e3 * c->result.seconds, s->case_name);
        if (search_prove(s, c)) l->standard = at;
        double took = 1.5 * (seconds_now() - begin) + 3 * REMEASURED * c->result.seconds * 12;
        if (took > reserve) reserve = took;
    }
    if (at != SIZE_MAX) account(l, &s->list[at]);
    if (at != SIZE_MAX && s->list[at].judged && candidate_failure(&s->list[at])) l->own.len = 0;
    report(l, false);
    l->deadline = l->end - reserve;
    l->result->baseline_before = s->baseline_before;
    l->result->baseline = s->baseline;
}

/* Each tensor moved once at the rate of a copy is the floor of what is bound by memory. */
static void show_standard(Loop *l) {
    const Search *s = &l->s;
    if (l->standard == SIZE_MAX) return;
    const Candidate *c = &s->list[l->standard];
    const StoreResult *r = &c->result;
    int used = snprintf(l->shown_outcome, sizeof l->shown_outcome, "Verified, %.4g ms at %s", 1e3 * r->seconds, s->case_name);
    if (r->bytes > 0 && r->roof_bytes > 0 && used > 0 && (size_t)used < sizeof l->shown_outcome)
        snprintf(l->shown_outcome + used, sizeof l->shown_outcome - (size_t)used,
                 "; moving each tensor once at the rate of a copy takes %.4g ms", 1e3 * r->bytes / r->roof_bytes);
    l->shown = (ProposerCandidate){.sketch = c->sketch, .outcome = l->shown_outcome, .verified = true, .seconds = r->seconds};
}

static bool take_start(Loop *l, Proposer *rules) {
    take_standard(l);
    show_standard(l);
    return take_naive(l, rules);
}

/* First sketches of somebody outside, who sees similar operators' sketches. */
static void take_first(Loop *l) {
    Proposer *more = l->s.options->more;
    RetrieveOptions o = {.operator_text = l->s.operator_text,
                         .target = l->s.options->target,
                         .embedder = l->s.options->embedder,
                         .describer = l->s.options->describer};
    Retrieved found;
    ProposerRequest requests[PER_ROUND];
    ProposerReply replies[PER_ROUND];
    retrieve_examples(l->s.options->store, &o, &found);
    for (unsigned i = 0; i < PER_ROUND; i++) {
        requests[i] = request_of(l, NULL, i);
        requests[i].examples = found.examples;
        requests[i].example_count = found.count;
        proposer_reply_init(&replies[i]);
    }
    more->propose(more, requests, PER_ROUND, replies);
    for (unsigned i = 0; i < PER_ROUND; i++) {
        take_reply(l, more, &requests[i], &replies[i], more->name, SIZE_MAX, ARM_MORE, i % SEARCH_ISLANDS);
        proposer_reply_release(&replies[i]);
    }
    retrieved_release(&found);
}

static void take_designs(Loop *l, Proposer *rules) {
    size_t from = l->s.count;
    for (size_t i = 0; i < l->s.options->seed_count; i++) {
        const SearchSeed *seed = &l->s.options->seeds[i];
        add(l, seed->sketch, seed->source, SIZE_MAX, ARM_MORE, (unsigned)i % SEARCH_ISLANDS);
    }
    for (unsigned i = 0; i < sketchc_design_count(); i++) {
        ProposerRequest r = request_of(l, NULL, i);
        if (!sketchc_design_is_naive(i)) ask(l, rules, &r, sketchc_design_name(i), SIZE_MAX, ARM_DESIGN, i % SEARCH_ISLANDS);
    }
    if (l->s.options->more && !l->s.options->asked && seconds_now() < l->deadline) take_first(l);
    judge_new(l, from);
}

/* ---- Rounds ---- */

static void migrate(Loop *l) {
    size_t elite[SEARCH_ISLANDS];
    for (unsigned i = 0; i < SEARCH_ISLANDS; i++) elite[i] = search_best(&l->s, i);
    for (unsigned i = 0; i < SEARCH_ISLANDS; i++)
        if (elite[i] != SIZE_MAX) l->s.list[elite[i]].island = (i + 1) % SEARCH_ISLANDS;
}

/* Somebody outside sees good and bad samples of the island and what limits the parent. */
static size_t ask_more(Loop *l, unsigned island, size_t parent) {
    Proposer *more = l->s.options->more;
    Contrast contrast;
    contrast_init(&l->s, island, parent, &contrast);
    ProposerRequest r = request_of(l, NULL, (unsigned)mutate_random(&l->s.random));
    r.parents = contrast.list;
    r.parent_count = contrast.count;
    r.strategy = contrast.analysis.data;
    r.roof = contrast.roof.data;
    size_t at = ask(l, more, &r, more->name, parent, ARM_MORE, island);
    contrast_release(&contrast);
    return at;
}

static size_t ask_rules(Loop *l, Proposer *rules, unsigned arm, unsigned island, size_t parent) {
    Candidate *p = &l->s.list[parent];
    ProposerCandidate shown = {.sketch = p->sketch, .outcome = p->result.status, .verified = true, .seconds = p->result.seconds};
    ProposerRequest r = request_of(l, &shown, (unsigned)mutate_random(&l->s.random));
    r.strategy = mutation_name((Mutation)arm);
    return ask(l, rules, &r, r.strategy, parent, arm, island);
}

static void one_round(Loop *l, Proposer *rules) {
    Search *s = &l->s;
    size_t from = s->count;
    unsigned limit = s->options->max_candidates ? s->options->max_candidates : 48;
    for (unsigned i = 0; i < 4 * PER_ROUND && s->count - from < PER_ROUND && s->count < limit; i++) {
        unsigned island = i % SEARCH_ISLANDS, arm = strategy_arm(s);
        size_t parent = strategy_parent(s, island);
        if (parent == SIZE_MAX) break;
        bool more = s->options->more && i % 3 == 2 && seconds_now() < l->deadline;
        size_t at = more ? ask_more(l, island, parent) : ask_rules(l, rules, arm, island, parent);
        if (at != SIZE_MAX) s->list[parent].children++;
    }
    if (++l->result->last.round % MIGRATION == 0) migrate(l);
    judge_new(l, from);
}

static bool enough(const Loop *l, unsigned idle) {
    const SearchOptions *o = l->s.options;
    const SearchProgress *p = &l->result->last;
    bool fast = o->target_speedup > 0 && p->best_seconds > 0 && p->naive_seconds / p->best_seconds >= o->target_speedup;
    return cancelled(l) || fast || l->s.count >= (o->max_candidates ? o->max_candidates : 48) || idle >= (o->plateau ? o->plateau : 4) ||
           seconds_now() + l->pace > l->deadline;
}

static void improve(Loop *l, Proposer *rules) {
    unsigned idle = 0;
    double best = l->result->last.best_seconds;
    while (!enough(l, idle)) {
        double begin = seconds_now();
        size_t before = l->s.count;
        one_round(l, rules);
        double took = seconds_now() - begin, reached = l->result->last.best_seconds;
        if (took > l->pace) l->pace = took;
        idle = reached > 0 && (best <= 0 || reached < 0.97 * best) ? 0 : idle + 1;
        best = reached;
        if (l->s.count == before && idle > 2) break;
    }
}

/* ---- The end ---- */

/* Median of three. */
static double middle(double *v) {
    for (int i = 0; i < REMEASURED; i++)
        for (int k = i + 1; k < REMEASURED; k++)
            if (v[k] < v[i]) {
                double x = v[i];
                v[i] = v[k];
                v[k] = x;
            }
    return v[REMEASURED / 2];
}

/* Winner and baselines again, in turns, so that what else the machine does meets all. */
static void remeasure(Loop *l, Candidate *const *of, size_t n, double *seconds) {
    double times[3][REMEASURED] = {{0}};
    for (int i = 0; i < REMEASURED && !cancelled(l) && !is_late(l); i++)
        for (size_t k = 0; k < n; k++) times[k][i] = search_time(&l->s, of[k], 9);
    bool all = true; /* times of the search and of its end are not compared */
    for (size_t k = 0; k < n; k++)
        for (int i = 0; i < REMEASURED; i++) all &= times[k][i] > 0;
    for (size_t k = 0; k < n; k++) seconds[k] = all ? middle(times[k]) : of[k]->result.seconds;
}

/* The same search was here before, and this one won: what was measured in turns then. */
static bool won_before(const Loop *l, const Candidate *c) {
    const Search *s = &l->s;
    StoreKey key = search_key(s, c->sketch);
    StoreRunEnd end;
    if (!s->options->store || !store_find_run(s->options->store, &key, strategy_of(s), s->options->seed, l->result->last.tried, &end))
        return false;
    l->result->naive_seconds = end.naive_seconds;
    l->result->best_seconds = end.best_seconds;
    return true;
}

/* The winner beside the naive sketch and the compiler's own: which of them it is. Both were measured before in a search that is
 * repeated, so that it ends as it did. */
static Candidate *settle(Loop *l, Candidate *naive, Candidate *standard, Candidate *c) {
    Candidate *of[3] = {c}, *best = c;
    double seconds[3], least;
    size_t n = 1;
    if (standard && standard != c) of[n++] = standard;
    if (naive && naive != c && naive != standard) of[n++] = naive;
    for (size_t i = 0; i < n; i++)
        if (of[i]->stored && won_before(l, of[i]) && search_verify_all(&l->s, of[i])) {
            l->result->default_seconds = standard ? standard->result.seconds : 0;
            return of[i];
        }
    remeasure(l, of, n, seconds);
    least = seconds[0];
    for (size_t i = 0; i < n; i++) {
        if (of[i] == naive) l->result->naive_seconds = seconds[i];
        if (of[i] == standard) l->result->default_seconds = seconds[i];
        if (seconds[i] >= least || !search_verify_all(&l->s, of[i])) continue;
        least = seconds[i];
        best = of[i];
    }
    l->result->best_seconds = least;
    return best;
}

static Candidate *fastest_left(Search *s, bool naive) {
    Candidate *best = NULL;
    for (size_t i = 0; i < s->count; i++) {
        Candidate *c = &s->list[i];
        if (!candidate_runs(c) || (naive && !c->naive)) continue;
        if (!best || c->result.seconds < best->result.seconds) best = c;
    }
    return best;
}

static void keep(Loop *l, const Candidate *c) {
    str_append(&l->result->file, c->file);
    snprintf(l->result->winner, sizeof l->result->winner, "%s", c->source);
    l->result->found = true;
    l->result->complete = c->result.complete;
    l->result->verify_seed = c->verify_seed;
    if (c->result.complete) search_keep_artifact(&l->s, c);
    /* Of what a page says about sizes nothing is worth a wait. */
    if (c->result.complete && !cancelled(l) && !is_late(l)) search_time_shapes(&l->s, c);
}

static void end_run(Loop *l, const Candidate *winner) {
    const Search *s = &l->s;
    const SearchResult *r = l->result;
    StoreKey key = search_key(s, winner ? winner->sketch : NULL);
    StoreRunEnd end = {.tried = r->last.tried,
                       .repeated = r->last.repeated,
                       .elapsed = seconds_now() - l->start,
                       .naive_seconds = r->naive_seconds,
                       .best_seconds = r->best_seconds,
                       .complete = r->complete};
    if (s->options->store && s->run >= 0) store_run_end(s->options->store, s->run, &key, &end);
}

/* The fastest that is verified completely; null: none was, as far as time went. */
static Candidate *verified_one(Loop *l, Candidate *standard) {
    Search *s = &l->s;
    Candidate *c;
    for (int i = 0; i < FINALISTS && !is_late(l) && (c = fastest_left(s, false)); i++) {
        if (search_verify_all(s, c)) return c;
        if (cancelled(l) || is_late(l)) break; /* it was not judged */
        if (strcmp(c->result.status, "ok") == 0) snprintf(c->result.status, sizeof c->result.status, "wrong");
        c->stored = false;
        l->result->last.failures[candidate_failure(c)]++;
        account(l, c);
    }
    return standard && standard->result.complete ? standard : NULL;
}

/* A search that was cancelled gives what it has; what ended by the limit of time is given out when it is verified only. */
static void finish(Loop *l) {
    Search *s = &l->s;
    Candidate *naive = fastest_left(s, true), *standard = l->standard == SIZE_MAX ? NULL : &s->list[l->standard];
    Candidate *c = cancelled(l) ? NULL : verified_one(l, standard);
    bool settled = c && !cancelled(l);
    if (!c && cancelled(l)) c = fastest_left(s, false);
    if (!c) {
        end_run(l, NULL);
        if (cancelled(l))
            str_append(&l->result->error, "interrupted before a candidate was verified\n");
        else if (is_late(l))
            say_too_late(l);
        else
            str_append(&l->result->error, "no candidate was verified\n");
        return;
    }
    if (settled) c = settle(l, naive, standard, c);
    if (l->result->naive_seconds <= 0 && naive) l->result->naive_seconds = naive->result.seconds;
    if (l->result->default_seconds <= 0 && standard) l->result->default_seconds = standard->result.seconds;
    if (l->result->best_seconds <= 0) l->result->best_seconds = c->result.seconds;
    c->stored = false;
    account(l, c);
    keep(l, c);
    end_run(l, c);
    if (naive && naive != c && c->result.complete && !cancelled(l) && !is_late(l)) search_time_shapes(s, naive);
}

void search_run(const SearchOptions *options, SearchResult *result) {
    *result = (SearchResult){0};
    str_init(&result->file);
    str_init(&result->error);
    Loop l = {
        .s = {.options = options, .random = options->seed, .run = -1}, .result = result, .start = seconds_now(), .standard = SIZE_MAX};
    l.end = l.deadline = l.s.deadline =
        (options->since > 0 ? options->since : l.start) + 0.95 * time_limit(options); /* what runs is to be ended, too */
    result->last.cost = -1;
    if (options->before) {
        result->last.calls = options->before->calls;
        result->last.tokens_in = options->before->tokens_in;
        result->last.tokens_out = options->before->tokens_out;
        result->last.cost = options->before->cost;
    }
    l.s.list = calloc(SEARCH_CANDIDATES, sizeof *l.s.list);
    l.s.pool_options = (PoolOptions){.argv = options->judge, .slots = options->workers};
    l.s.pool = pool_create(&l.s.pool_options);
    str_init(&l.s.given);
    str_init(&l.own);
    l.s.drawn = seed_drawn();
    conductor_name_defines(options->defines, options->define_count, &l.s.given);
    l.s.machine = sketchc_machine(&(sketchc_options){.size = sizeof(sketchc_options), .target = options->target, .arch = options->arch});
    Proposer *rules = proposer_rules_create();
    if (l.s.list && l.s.pool && rules && take_operator(&l) && take_start(&l, rules)) {
        take_designs(&l, rules);
        improve(&l, rules);
        finish(&l);
        report(&l, true);
    }
    result->reference = book_counts();
    for (size_t i = 0; l.s.list && i < l.s.count; i++) candidate_release(&l.s.list[i]);
    proposer_destroy(rules);
    pool_destroy(l.s.pool);
    sketchc_free(l.s.machine);
    str_release(&l.own);
    str_release(&l.s.given);
    free(l.s.list);
    free(l.s.operator_text);
}

bool search_place(const SearchOptions *options, Pool *pool, SearchPlace *place) {
    SearchResult result = {0};
    Loop l = {.s = {.options = options, .run = -1, .pool = pool}, .result = &result, .start = seconds_now(), .standard = SIZE_MAX};
    Search *s = &l.s;
    Proposer *rules = proposer_rules_create();
    str_init(&result.error);
    s->list = calloc(sketchc_design_count(), sizeof *s->list);
    bool ok = false;
    if (s->list && rules && take_operator(&l))
        for (unsigned i = 0; !ok && i < sketchc_design_count() && sketchc_design_is_naive(i); i++) ok = try_naive(&l, rules, i) != SIZE_MAX;
    if (ok) {
        memcpy(place->case_name, s->case_name, sizeof place->case_name);
        memcpy(place->case_key, s->case_key, sizeof place->case_key);
        memcpy(place->device, s->device, sizeof place->device);
        memcpy(place->arch, s->arch, sizeof place->arch);
    }
    for (size_t i = 0; i < s->count; i++) candidate_release(&s->list[i]);
    proposer_destroy(rules);
    str_release(&result.error);
    free(s->list);
    free(s->operator_text);
    return ok;
}

void search_result_release(SearchResult *result) {
    str_release(&result->file);
    str_release(&result->error);
}
