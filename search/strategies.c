/* Whom the next candidate is made from, and in which way. Decisions depend on results and the seed
 * alone. */
#include "search_internal.h"

#include <math.h>
#include <string.h>

enum { MOST_CHILDREN = 4 }; /* proposals made of one candidate: then others have their turn (not measured) */

bool candidate_runs(const Candidate *c) {
    return c->judged && c->result.seconds > 0 && strcmp(c->result.status, "ok") == 0;
}

FailureKind candidate_failure(const Candidate *c) {
    return failure_of_result(c->result.status);
}

static bool belongs(const Candidate *c, unsigned island) {
    return candidate_runs(c) && !c->naive && (island == SEARCH_ISLANDS || c->island == island);
}

size_t search_best(const Search *s, unsigned island) {
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < s->count; i++)
        if (belongs(&s->list[i], island) && (best == SIZE_MAX || s->list[i].result.seconds < s->list[best].result.seconds)) best = i;
    return best;
}

static size_t parent_greedy(Search *s, unsigned island) {
    (void)island;
    return search_best(s, SEARCH_ISLANDS);
}

static size_t parent_random(Search *s, unsigned island) {
    size_t count = 0, pick;
    (void)island;
    for (size_t i = 0; i < s->count; i++) count += belongs(&s->list[i], SEARCH_ISLANDS);
    if (!count) return SIZE_MAX;
    pick = mutate_random(&s->random) % count;
    for (size_t i = 0;; i++)
        if (belongs(&s->list[i], SEARCH_ISLANDS) && !pick--) return i;
}

static size_t parent_tree(Search *s, unsigned island) {
    size_t best = SIZE_MAX;
    (void)island;
    for (size_t i = 0; i < s->count; i++) {
        const Candidate *c = &s->list[i];
        if (!belongs(c, SEARCH_ISLANDS) || c->children >= MOST_CHILDREN) continue;
        if (best == SIZE_MAX || c->result.seconds < s->list[best].result.seconds) best = i;
    }
    return best == SIZE_MAX ? search_best(s, SEARCH_ISLANDS) : best;
}

/* Mostly the island's elite; one time in four any of its own, for what the elite lacks. */
static size_t parent_islands(Search *s, unsigned island) {
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++) count += belongs(&s->list[i], island);
    if (!count) return search_best(s, SEARCH_ISLANDS);
    if (mutate_random(&s->random) % 4) return search_best(s, island);
    size_t pick = mutate_random(&s->random) % count;
    for (size_t i = 0;; i++)
        if (belongs(&s->list[i], island) && !pick--) return i;
}

static const struct {
    const char *name;
    size_t (*parent)(Search *s, unsigned island);
} strategies[] = {
#define STRATEGY(name, parent, summary) {name, parent},
#include "strategies.def"
#undef STRATEGY
};

static size_t find(const char *name) {
    size_t i = 0;
    while (name && i < COUNT_OF(strategies) && strcmp(strategies[i].name, name) != 0) i++;
    return i;
}

bool search_strategy_known(const char *name) {
    return !name || find(name) < COUNT_OF(strategies);
}

size_t strategy_parent(Search *s, unsigned island) {
    return strategies[find(s->options->strategy)].parent(s, island);
}

/* The mutation with the highest upper bound of its mean gain; each is tried once first. */
static unsigned best_arm(const Search *s) {
    unsigned total = 1, best = 0;
    double highest = -1;
    for (unsigned i = 0; i < MUTATION_COUNT; i++) total += s->arms[i].tried;
    for (unsigned i = 0; i < MUTATION_COUNT; i++) {
        if (!s->arms[i].tried) return i;
        double n = s->arms[i].tried, bound = s->arms[i].gain / n + 0.3 * sqrt(log(total) / n);
        if (bound > highest) {
            highest = bound;
            best = i;
        }
    }
    return best;
}

unsigned strategy_arm(Search *s) {
    if (s->options->strategy && strcmp(s->options->strategy, "bandit") == 0) return best_arm(s);
    /* Numbers first: half of all changes. */
    if (mutate_random(&s->random) % 2) return MUTATION_TUNE;
    return (unsigned)(mutate_random(&s->random) % MUTATION_COUNT);
}
