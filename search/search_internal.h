/* Shared by the files of the search. */
#ifndef SEARCH_SEARCH_INTERNAL_H
#define SEARCH_SEARCH_INTERNAL_H

#include "mutate.h"
#include "search.h"
#include "sketchc.h"

#include <pthread.h>

enum { SEARCH_CANDIDATES = 4096, SEARCH_ISLANDS = 2, ARM_DESIGN = MUTATION_COUNT, ARM_MORE, ARM_COUNT };

typedef struct {
    char *sketch;     /* the block in the one style; malloc'ed */
    char *file;       /* operator and block; malloc'ed */
    Hash128 identity;
    const char *source; /* a style, a mutation, a proposer's name; static */
    size_t parent;      /* SIZE_MAX: none */
    unsigned arm, children, island;
    bool naive, judged, stored, counted;
    double ended; /* when it had been judged, on the clock of the search */
    StoreResult result; /* status "ok": compiled, small cases right, timed */
} Candidate;

typedef struct {
    const SearchOptions *options;
    char *operator_text;
    char name[64]; /* the operator's */
    char case_name[64];
    char device[128], arch[32]; /* as reports call them */
    int64_t run;      /* of the store; negative: none */
    Candidate *list;
    size_t count;
    uint64_t random;
    pthread_mutex_t timing; /* launches of one search are timed one at a time */
    struct {
        unsigned tried;
        double gain;
    } arms[ARM_COUNT];
} Search;

bool candidate_runs(const Candidate *c);
FailureKind candidate_failure(const Candidate *c);
StoreKey search_key(const Search *s, const char *sketch);
/* The fastest that runs, of one island or of all (SEARCH_ISLANDS); SIZE_MAX: none. */
size_t search_best(const Search *s, unsigned island);

/* strategies.c */
size_t strategy_parent(Search *s, unsigned island);
unsigned strategy_arm(Search *s);

/* evaluate.c: compiles, checks small cases, times; what is found in the store is not run. Thread-safe for
 * different candidates; timing is exclusive. */
void search_evaluate(Search *s, Candidate *c);
/* All declared cases and ragged sizes. */
bool search_verify_all(Search *s, Candidate *c);
/* The artifact as bytes, into the store. */
void search_keep_artifact(Search *s, const Candidate *c);
/* Seconds; 0: it could not be timed. */
double search_time(Search *s, const Candidate *c, unsigned samples);
/* The case with the most bytes, by one launch of each; the device's name; the cases, into the store. */
bool search_choose_case(Search *s, Candidate *c);

#endif
