/* The search: candidates from proposers, judged by compiler, verifier and clock, until a limit. What is best is
 * verified in all cases and ragged sizes before it is given out. Given the same results of measurement (a store
 * repeats them) a seed gives the same search. */
#ifndef SEARCH_SEARCH_H
#define SEARCH_SEARCH_H

#include "book.h"
#include "conductor.h"
#include "proposer.h"
#include "sketchc.h"
#include "store/store.h"

typedef struct SearchProgress {
    unsigned tried, verified, repeated, round;
    double best_seconds, naive_seconds, elapsed;
    const char *best_name;  /* of the proposer's way: a style or mutation */
    double percent_of_roof; /* of the best; 0: not known */
    unsigned failures[FAILURE_COUNT];
    unsigned asking; /* questions on their way */
    unsigned calls;  /* questions to models and programs that were answered */
    int64_t tokens_in, tokens_out;
    double cost;  /* negative: not known */
    bool answers; /* first answers are judged, and mended; the search comes after them */
    bool done;
} SearchProgress;

/* A sketch that is there before the search begins. */
typedef struct {
    const char *sketch, *source; /* source: who wrote it; static */
} SearchSeed;

typedef struct SearchOptions {
    const char *path, *text; /* the file with the operator */
    size_t size;
    const char *target, *arch;
    const sketchc_define *defines; /* -D: constexprs, and sizes for all cases; part of the place where results belong */
    size_t define_count;
    const char *strategy; /* a row of strategies.def; null: islands */
    uint64_t seed;
    unsigned max_candidates;  /* 0: 48 */
    unsigned workers;         /* candidates that are judged at one time; 0: 2 */
    const char *const *judge; /* starts a judge: a program that calls pool_serve(search_work); see pool.h */
    unsigned plateau;         /* rounds without a better one that end it; 0: 4 */
    double since;             /* seconds_now: from then on the time counts; 0: from the beginning of the search */
    double time_limit_s;      /* 0: 20; of all, the first run and the last verification, too */
    double target_speedup;    /* over the naive sketch; 0: none */
    Proposer *more;           /* asked beside the rules; null */
    bool asked;               /* it was asked for first sketches before; these are `seeds` */
    const SearchSeed *seeds;
    size_t seed_count;
    const SearchProgress *before; /* of that: calls, tokens and cost are added to; null */
    const int64_t *calls;         /* of that, in the store: they become this run's */
    size_t call_count;
    const struct Embedder *embedder;   /* null: the built-in embedding */
    const struct Describer *describer; /* null: nobody describes operators */
    Store *store;                      /* null: nothing is kept */
    const char *environment;           /* key of the store: JSON, versions of compilers and drivers; null */
    const atomic_int *cancel;          /* may be null */
    void (*progress)(void *context, const SearchProgress *progress);
    void *context;
} SearchOptions;

typedef struct SearchResult {
    bool found, complete; /* complete: verified in all cases */
    bool usage;           /* not found, as the command line asks for what cannot be */
    Str file; /* operator and winner, formatted: compiles and verifies by itself. Not found: empty, or with the compiler's own sketch,
                             which time was too short to verify */
    Str error;
    char case_name[64], winner[64];
    BookCounts reference; /* elements of the operator: evaluated, and met again by another judge */
    uint64_t verify_seed; /* `sketchc verify --seed` with it repeats the complete verification; 0: it was in the store */
    double naive_seconds, default_seconds, best_seconds; /* interleaved at the end, at the largest case; default: of the sketch that the
                                                            compiler makes where a file has none; 0: it does not run */
    double baseline_before, baseline; /* the store's times were measured when the compiler's own sketch took so long, and are not compared,
                                         as it took `baseline` in this search; baseline_before 0: they are */
    SearchProgress last;
} SearchResult;

/* What plain compiling makes of the operator with these options; false: nothing. */
bool search_standard_sketch(const SearchOptions *options, const char *operator_text, Str *sketch);
bool search_strategy_known(const char *name);
/* The operator of the options' file in the one style, as the store knows it, and its name; false with diagnostics in `error`. */
bool search_read_operator(const SearchOptions *options, Str *operator_text, Str *operator_name, Str *error);
/* Where results of a search with these options belong: the case that is timed, the device and its architecture as reports call them;
 * from a run of a naive sketch, which `pool` judges. False: none runs here. */
typedef struct {
    char case_name[64], case_key[192], device[128], arch[32]; /* case_key: with what -D gives, as the store knows it */
} SearchPlace;
struct Pool;
bool search_place(const SearchOptions *options, struct Pool *pool, SearchPlace *place);
/* `result` is initialised here and released by search_result_release. */
void search_run(const SearchOptions *options, SearchResult *result);
void search_result_release(SearchResult *result);

#endif
