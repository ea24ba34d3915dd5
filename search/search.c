/* search.h: rounds of candidates, which workers judge side by side and which are taken in order. */
#include "conductor.h"
#include "contrast.h"
#include "retrieve.h"
#include "rules.h"
#include "search_internal.h"
#include "search_start_internal.h"

#include <stdlib.h>
#include <string.h>

double search_time_limit(const SearchOptions *o) {
    return o->time_limit_s > 0 ? o->time_limit_s : 20;
}

bool search_cancelled(const Loop *l) {
    const atomic_int *flag = l->s.options->cancel;
    return flag && atomic_load((atomic_int *)flag);
}

bool search_is_late(const Loop *l) {
    return seconds_now() >= l->end;
}

/* ---- Candidates ---- */

char *search_copy(const char *text, size_t size) {
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
        c->file = search_copy(text.data, text.len);
        c->sketch = search_copy(block.data, block.len);
        c->identity = identity_of(block.data);
    }
    for (size_t i = 0; i < COUNT_OF(all); i++) str_release(all[i]);
    return known && c->file && c->sketch;
}

size_t search_add(Loop *l, const char *sketch, const char *source, size_t parent, unsigned arm, unsigned island) {
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

ProposerRequest search_request_of(const Loop *l, const ProposerCandidate *parent, unsigned attempt) {
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

size_t search_take_reply(Loop *l, const Proposer *from, const ProposerRequest *r, const ProposerReply *reply, const char *source,
                         size_t parent, unsigned arm, unsigned island) {
    size_t at = reply->sketch.len ? search_add(l, reply->sketch.data, source, parent, arm, island) : SIZE_MAX;
    if (arm == ARM_MORE) note_call(l, from, r, reply, at);
    return at;
}

size_t search_ask(Loop *l, Proposer *from, const ProposerRequest *r, const char *source, size_t parent, unsigned arm, unsigned island) {
    ProposerReply reply;
    proposer_reply_init(&reply);
    from->propose(from, r, 1, &reply);
    size_t at = search_take_reply(l, from, r, &reply, source, parent, arm, island);
    proposer_reply_release(&reply);
    return at;
}

/* ---- Judging ---- */

void search_account(Loop *l, Candidate *c) {
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

void search_begin_run(Loop *l) {
    Search *s = &l->s;
    StoreKey key = search_key(s, "");
    if (s->options->store && s->run < 0) s->run = store_run_begin(s->options->store, &key, strategy_of(s), s->options->seed);
    for (size_t i = 0; s->run >= 0 && i < s->options->call_count; i++) store_adopt_call(s->options->store, s->run, s->options->calls[i]);
}

void search_report(Loop *l, bool done) {
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

void search_judge_new(Loop *l, size_t from) {
    Search *s = &l->s;
    search_evaluate(s, from, l->deadline);
    for (size_t i = from; i < s->count; i++) search_account(l, &s->list[i]);
    search_report(l, false);
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
    ProposerRequest r = search_request_of(l, NULL, (unsigned)mutate_random(&l->s.random));
    r.parents = contrast.list;
    r.parent_count = contrast.count;
    r.strategy = contrast.analysis.data;
    r.roof = contrast.roof.data;
    size_t at = search_ask(l, more, &r, more->name, parent, ARM_MORE, island);
    contrast_release(&contrast);
    return at;
}

static size_t ask_rules(Loop *l, Proposer *rules, unsigned arm, unsigned island, size_t parent) {
    Candidate *p = &l->s.list[parent];
    ProposerCandidate shown = {.sketch = p->sketch, .outcome = p->result.status, .verified = true, .seconds = p->result.seconds};
    ProposerRequest r = search_request_of(l, &shown, (unsigned)mutate_random(&l->s.random));
    r.strategy = mutation_name((Mutation)arm);
    return search_ask(l, rules, &r, r.strategy, parent, arm, island);
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
    search_judge_new(l, from);
}

static bool enough(const Loop *l, unsigned idle) {
    const SearchOptions *o = l->s.options;
    const SearchProgress *p = &l->result->last;
    bool fast = o->target_speedup > 0 && p->best_seconds > 0 && p->naive_seconds / p->best_seconds >= o->target_speedup;
    return search_cancelled(l) || fast || l->s.count >= (o->max_candidates ? o->max_candidates : 48) ||
           idle >= (o->plateau ? o->plateau : 4) || seconds_now() + l->pace > l->deadline;
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
    for (int i = 0; i < REMEASURED && !search_cancelled(l) && !search_is_late(l); i++)
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
    if (c->result.complete && !search_cancelled(l) && !search_is_late(l)) search_time_shapes(&l->s, c);
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
    for (int i = 0; i < FINALISTS && !search_is_late(l) && (c = fastest_left(s, false)); i++) {
        if (search_verify_all(s, c)) return c;
        if (search_cancelled(l) || search_is_late(l)) break; /* it was not judged */
        if (strcmp(c->result.status, "ok") == 0) snprintf(c->result.status, sizeof c->result.status, "wrong");
        c->stored = false;
        l->result->last.failures[candidate_failure(c)]++;
        search_account(l, c);
    }
    return standard && standard->result.complete ? standard : NULL;
}

/* A search that was cancelled gives what it has; what ended by the limit of time is given out when it is verified only. */
static void finish(Loop *l) {
    Search *s = &l->s;
    Candidate *naive = fastest_left(s, true), *standard = l->standard == SIZE_MAX ? NULL : &s->list[l->standard];
    Candidate *c = search_cancelled(l) ? NULL : verified_one(l, standard);
    bool settled = c && !search_cancelled(l);
    if (!c && search_cancelled(l)) c = fastest_left(s, false);
    if (!c) {
        end_run(l, NULL);
        if (search_cancelled(l))
            str_append(&l->result->error, "interrupted before a candidate was verified\n");
        else if (search_is_late(l))
            search_say_too_late(l);
        else
            str_append(&l->result->error, "no candidate was verified\n");
        return;
    }
    if (settled) c = settle(l, naive, standard, c);
    if (l->result->naive_seconds <= 0 && naive) l->result->naive_seconds = naive->result.seconds;
    if (l->result->default_seconds <= 0 && standard) l->result->default_seconds = standard->result.seconds;
    if (l->result->best_seconds <= 0) l->result->best_seconds = c->result.seconds;
    c->stored = false;
    search_account(l, c);
    keep(l, c);
    end_run(l, c);
    if (naive && naive != c && c->result.complete && !search_cancelled(l) && !search_is_late(l)) search_time_shapes(s, naive);
}

void search_run(const SearchOptions *options, SearchResult *result) {
    *result = (SearchResult){0};
    str_init(&result->file);
    str_init(&result->error);
    Loop l = {
        .s = {.options = options, .random = options->seed, .run = -1}, .result = result, .start = seconds_now(), .standard = SIZE_MAX};
    l.end = l.deadline = l.s.deadline =
        (options->since > 0 ? options->since : l.start) + 0.95 * search_time_limit(options); /* what runs is to be ended, too */
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
    if (l.s.list && l.s.pool && rules && search_take_operator(&l) && search_take_start(&l, rules)) {
        search_take_designs(&l, rules);
        improve(&l, rules);
        finish(&l);
        search_report(&l, true);
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

void search_result_release(SearchResult *result) {
    str_release(&result->file);
    str_release(&result->error);
}
