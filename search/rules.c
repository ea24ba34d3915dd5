/* The deterministic proposer: designs by rules, then mutations of parents. Knows no more than a
 * request says. */
#include "rules.h"
#include "mutate.h"

#include "sketchc.h"

#include <stdlib.h>
#include <string.h>

enum { TRIES = 8 }; /* mutations that are drawn for a proposal until one applies */

/* Design number `attempt` of the operator. */
static void design(const ProposerRequest *r, ProposerReply *reply) {
    if (r->attempt >= sketchc_design_count()) {
        reply->status = PROPOSER_EXHAUSTED;
        return;
    }
    sketchc_options options = {.size = sizeof options, .target = r->target, .arch = r->arch};
    sketchc_unit *unit = sketchc_unit_create("operator.sketch", r->operator_text, strlen(r->operator_text));
    char *text = NULL;
    size_t size = 0;
    bool made = unit && sketchc_design(unit, &options, r->attempt, &text, &size) == SKETCHC_OK &&
                proposer_extract_sketch(text, size, &reply->sketch, NULL);
    if (made) str_append_n(&reply->raw, text, size);
    if (!made) str_printf(&reply->error, "the style %s does not fit", sketchc_design_name(r->attempt));
    reply->status = made ? PROPOSED : PROPOSED_NOTHING;
    sketchc_free(text);
    sketchc_unit_destroy(unit);
}

static void mutate(const ProposerRequest *r, ProposerReply *reply) {
    uint64_t state = r->seed * UINT64_C(0x9e3779b97f4a7c15) + r->attempt;
    Mutation mutation;
    bool named = r->strategy && mutation_find(r->strategy, &mutation), made = false;
    for (int i = 0; i < TRIES && !made; i++) {
        if (!named) mutation = (Mutation)(mutate_random(&state) % MUTATION_COUNT);
        made = mutate_sketch(r->parents[0].sketch, mutation, &state, &reply->sketch);
    }
    reply->status = made ? PROPOSED : PROPOSED_NOTHING;
}

static void propose(Proposer *self, const ProposerRequest *requests, size_t count, ProposerReply *replies) {
    (void)self;
    for (size_t i = 0; i < count; i++) {
        const ProposerRequest *r = &requests[i];
        replies[i].tokens_in = replies[i].tokens_out = 0;
        replies[i].cost = 0;
        if (r->task == PROPOSE_REPAIR)
            replies[i].status = PROPOSER_EXHAUSTED;
        else if (r->parent_count)
            mutate(r, &replies[i]);
        else
            design(r, &replies[i]);
    }
}

static void destroy(Proposer *self) {
    free(self);
}

Proposer *proposer_rules_create(void) {
    Proposer *p = calloc(1, sizeof *p);
    if (p) *p = (Proposer){.name = "design", .detail = "rules", .parallel = 1, .propose = propose, .destroy = destroy};
    return p;
}
