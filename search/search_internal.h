/* Shared by the files of the search. */
#ifndef SEARCH_SEARCH_INTERNAL_H
#define SEARCH_SEARCH_INTERNAL_H

#include "mutate.h"
#include "pool.h"
#include "search.h"
#include "sketchc.h"

/* Candidates of a search, all in memory; populations that exchange their best (not measured); arms of the bandit. */
enum { SEARCH_CANDIDATES = 4096, SEARCH_ISLANDS = 2, ARM_DESIGN = MUTATION_COUNT, ARM_MORE, ARM_COUNT };

typedef struct {
    char *sketch; /* the block in the one style; malloc'ed */
    char *file;   /* operator and block; malloc'ed */
    Hash128 identity;
    char code[33]; /* of its code (sketchc_artifact_identity); "" not known */
    bool same;     /* code of an earlier one, number same_as of the list, which the status names: not timed */
    size_t same_as;
    bool same_before;   /* so it was in a search that the store knows; another search may meet it first */
    const char *source; /* a style, a mutation, a proposer's name; static */
    size_t parent;      /* SIZE_MAX: none */
    unsigned arm, children, island;
    bool naive, judged, stored, counted;
    double ended;         /* when it had been judged, on the clock of the search */
    uint64_t verify_seed; /* of the data and sizes of its complete verification; 0: none here */
    int64_t call;         /* the question it answers, in the store; 0: none */
    Str artifact;         /* until it is in the store; "" none */
    StoreResult result;   /* status "ok": compiled, small cases right, timed */
} Candidate;

typedef struct {
    const SearchOptions *options;
    char *operator_text;
    char name[64];                     /* the operator's */
    char case_name[64], case_key[192]; /* case_key: with what -D gives, as the store knows it */
    char device[128], arch[32];        /* as reports call them */
    char *machine;                     /* in words; null: not known */
    Str given;                         /* what -D gives */
    char why[256];                     /* why the last naive sketch did not run; "" not known */
    bool why_machine;                  /* the machine lacks something */
    bool why_usage;                    /* other options would do */
    double baseline;                   /* seconds of the compiler's own sketch, measured in this search; 0: not yet, or it does not run */
    double baseline_before;            /* when the store's times were measured, where that was under another load; else 0 */
    double deadline;                   /* seconds_now: what runs then is ended; 0: none */
    int64_t run;                       /* of the store; negative: none */
    Candidate *list;
    size_t count;
    uint64_t random, drawn; /* drawn: the seed of complete verifications, which nobody could know before */
    PoolOptions pool_options;
    Pool *pool; /* the judges; the search itself has one thread */
    struct {
        unsigned tried;
        double gain;
    } arms[ARM_COUNT];
} Search;

void candidate_release(Candidate *c);
bool candidate_runs(const Candidate *c);
FailureKind candidate_failure(const Candidate *c);
StoreKey search_key(const Search *s, const char *sketch);
/* The fastest that runs, of one island or of all (SEARCH_ISLANDS); SIZE_MAX: none. */
size_t search_best(const Search *s, unsigned island);

/* strategies.c */
size_t strategy_parent(Search *s, unsigned island);
unsigned strategy_arm(Search *s);

/* evaluate.c. What is found in the store is not run. Candidates from number `from` on that are not yet judged: compiled,
 * small cases checked, timed. What was not done at `deadline` (seconds_now; 0: none) stays not judged. */
void search_evaluate(Search *s, size_t from, double deadline);
/* All declared cases and ragged sizes, with data and sizes that nobody could know before. */
bool search_verify_all(Search *s, Candidate *c);
/* What has run to choose the case: verified so and timed, in this order. Where time ends between them it has the time of the one launch
 * that chose the case. False: it is not right, or the time was over before (then it is not judged). */
bool search_prove(Search *s, Candidate *c);
/* The artifact as bytes, into the store. */
void search_keep_artifact(Search *s, const Candidate *c);
/* Its time at all cases but the one that the search is about, into the store, unless they are there. */
void search_time_shapes(Search *s, const Candidate *c);
/* Seconds; 0: it could not be timed. */
double search_time(Search *s, const Candidate *c, unsigned samples);
/* The case with the most bytes, by one launch of each; the device's name; the cases, into the store. */
bool search_choose_case(Search *s, Candidate *c);
/* The file in the one style into `text`, "" when it does not parse; false: not known, the search was stopped. */
bool search_format(const Search *s, const char *file, StoreResult *r, Str *text);

#endif
