/* How a search begins: the operator, the naive form, the standard sketch and the designs. */
#include "conductor.h"
#include "contrast.h"
#include "retrieve.h"
#include "rules.h"
#include "search_internal.h"
#include "search_start_internal.h"

#include <stdlib.h>
#include <string.h>

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

bool search_take_operator(Loop *l) {
    Str text, name;
    str_init(&text);
    str_init(&name);
    if (search_read_operator(l->s.options, &text, &name, &l->result->error)) l->s.operator_text = search_copy(text.data, text.len);
    snprintf(l->s.name, sizeof l->s.name, "%s", name.data);
    str_release(&text);
    str_release(&name);
    return l->s.operator_text != NULL;
}

/* The naive design of that style, after a run that chooses the case; SIZE_MAX: there is none, or it does not run. */
static size_t try_naive(Loop *l, Proposer *rules, unsigned style) {
    ProposerRequest r = search_request_of(l, NULL, style);
    unsigned repeated = l->result->last.repeated;
    size_t at = search_ask(l, rules, &r, sketchc_design_name(style), SIZE_MAX, ARM_DESIGN, 0);
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

void search_say_too_late(Loop *l) {
    str_printf(&l->result->error, "no sketch of %s was verified within %g s; a longer --search-time gives it time (%s)\n", l->s.name,
               search_time_limit(l->s.options),
               l->reached[0] ? l->reached : "the compiler's own sketch was still being compiled, or run for the first time");
    if (!l->own.len) return;
    str_append(&l->result->error, "the compiler's own sketch is given, not verified\n");
    str_append(&l->result->file, l->own.data);
}

/* The baseline: the first naive design that compiles and runs. Where the compiler's own sketch runs it has part of the time and may
 * be left out; else it chooses the case. */
static bool take_naive(Loop *l, Proposer *rules) {
    double now = seconds_now(), limit = l->standard == SIZE_MAX ? l->end : now + (l->deadline - now) / 2;
    for (unsigned i = 0; i < sketchc_design_count() && sketchc_design_is_naive(i) && !search_cancelled(l); i++) {
        size_t at = try_naive(l, rules, i);
        if (at == SIZE_MAX) continue;
        l->s.list[at].naive = true;
        search_begin_run(l);
        search_evaluate(&l->s, at, limit);
        search_account(l, &l->s.list[at]);
        if (l->s.list[at].same) at = l->s.list[at].same_as;
        l->s.list[at].naive = true;
        l->result->last.naive_seconds = l->s.list[at].result.seconds;
        snprintf(l->result->case_name, sizeof l->result->case_name, "%s", l->s.case_name);
        search_report(l, false);
        if (candidate_runs(&l->s.list[at])) return true;
    }
    if (l->standard != SIZE_MAX) return true;
    if (search_cancelled(l))
        str_append(&l->result->error, "interrupted before a sketch had run\n");
    else if (search_is_late(l))
        search_say_too_late(l);
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
    size_t at = made ? search_add(l, block.data, "default", SIZE_MAX, ARM_DESIGN, 0) : SIZE_MAX;
    str_release(&block);
    double reserve = search_time_limit(s->options) / SHARE;
    if (at != SIZE_MAX && search_choose_case(s, &s->list[at])) {
        Candidate *c = &s->list[at];
        double begin = seconds_now();
        search_begin_run(l);
        snprintf(l->result->case_name, sizeof l->result->case_name, "%s", s->case_name);
        snprintf(l->reached, sizeof l->reached, "the compiler's own sketch ran, %.4g ms at %s, but its verification had not ended",
                 1e3 * c->result.seconds, s->case_name);
        if (search_prove(s, c)) l->standard = at;
        double took = 1.5 * (seconds_now() - begin) + 3 * REMEASURED * c->result.seconds * 12;
        if (took > reserve) reserve = took;
    }
    if (at != SIZE_MAX) search_account(l, &s->list[at]);
    if (at != SIZE_MAX && s->list[at].judged && candidate_failure(&s->list[at])) l->own.len = 0;
    search_report(l, false);
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

bool search_take_start(Loop *l, Proposer *rules) {
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
        requests[i] = search_request_of(l, NULL, i);
        requests[i].examples = found.examples;
        requests[i].example_count = found.count;
        proposer_reply_init(&replies[i]);
    }
    more->propose(more, requests, PER_ROUND, replies);
    for (unsigned i = 0; i < PER_ROUND; i++) {
        search_take_reply(l, more, &requests[i], &replies[i], more->name, SIZE_MAX, ARM_MORE, i % SEARCH_ISLANDS);
        proposer_reply_release(&replies[i]);
    }
    retrieved_release(&found);
}

void search_take_designs(Loop *l, Proposer *rules) {
    size_t from = l->s.count;
    for (size_t i = 0; i < l->s.options->seed_count; i++) {
        const SearchSeed *seed = &l->s.options->seeds[i];
        search_add(l, seed->sketch, seed->source, SIZE_MAX, ARM_MORE, (unsigned)i % SEARCH_ISLANDS);
    }
    for (unsigned i = 0; i < sketchc_design_count(); i++) {
        ProposerRequest r = search_request_of(l, NULL, i);
        if (!sketchc_design_is_naive(i)) search_ask(l, rules, &r, sketchc_design_name(i), SIZE_MAX, ARM_DESIGN, i % SEARCH_ISLANDS);
    }
    if (l->s.options->more && !l->s.options->asked && seconds_now() < l->deadline) take_first(l);
    search_judge_new(l, from);
}

bool search_place(const SearchOptions *options, Pool *pool, SearchPlace *place) {
    SearchResult result = {0};
    Loop l = {.s = {.options = options, .run = -1, .pool = pool}, .result = &result, .start = seconds_now(), .standard = SIZE_MAX};
    Search *s = &l.s;
    Proposer *rules = proposer_rules_create();
    str_init(&result.error);
    s->list = calloc(sketchc_design_count(), sizeof *s->list);
    bool ok = false;
    if (s->list && rules && search_take_operator(&l))
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
