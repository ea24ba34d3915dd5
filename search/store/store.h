/* The store: what searches have learnt, in one SQLite file. A result is acknowledged when its call has returned
 * true: it is on disk then (WAL, synchronous=FULL), whatever happens to the process. Several processes may use
 * one file. Content is the key: the same sketch for the same target on the same device with the same compilers is
 * found again, also when it failed, hung or crashed, so that nothing is run twice.
 *
 * The tables are in store_schema.c, what can be read of them in store_views.def. */
#ifndef SEARCH_STORE_STORE_H
#define SEARCH_STORE_STORE_H

#include "support.h"

typedef struct Store Store;

/* Opens or makes the file; brings one of an earlier version to this one. Null with *message (malloc'ed, caller
 * frees), which says what to do, when it cannot be: no store, damaged, of a later version, not to be written. Such
 * a file is left as it is. A build without SQLite always answers null. */
bool store_is_built(void); /* false: this build has none */
Store *store_open(const char *path, char **message);
/* As store_open for a file that must be there. */
Store *store_open_existing(const char *path, char **message);
void store_close(Store *store); /* null is allowed */
/* Why something was not written since it was opened, and what may be done; null: all was. Null is allowed. */
const char *store_fault(const Store *store);

/* What was tried: the sketch, on which machine, with which compilers. Null is "". */
typedef struct {
    const char *definition; /* the operator's text */
    const char *sketch;     /* the sketch's text */
    const char *target, *device;
    const char *case_name; /* the case that is timed */
    const char *arch;
    const char *environment; /* JSON: an object of names and versions; see store_environment */
} StoreKey;

typedef struct {
    char status[32];       /* "ok", or the kind of failure */
    bool complete;         /* verified in all cases and ragged sizes */
    double seconds, noise; /* 0: not timed */
    /* Of the timed case; 0: not known. */
    unsigned samples;
    double bytes, flops;    /* each tensor moved once; of the operator */
    double percent_of_roof; /* of the time in which its bytes could be moved */
    double roof_bytes;      /* a second, as measured by copying on the device */
    double baseline;        /* seconds that the compiler's own sketch took in the search that measured it; 0: not known */
} StoreResult;

/* False: not known. */
bool store_find(Store *store, const StoreKey *key, StoreResult *result);
/* Adds a verification or replaces it, and adds the measurement if it is a new one; `source` says who proposed the
 * sketch, `parent` the sketch it came from (null: none). */
bool store_put(Store *store, const StoreKey *key, const StoreResult *result, const char *source, const char *parent);
/* A time at another case of what was verified at key's; only the measurement is kept. */
bool store_put_measurement(Store *store, const StoreKey *key, const StoreResult *result);
/* At how many cases key->sketch was timed on this machine; negative on an error. */
int64_t store_cases_measured(Store *store, const StoreKey *key);
/* What was said of a sketch that was judged in all cases (key->case_name does not matter), for whoever knows how to read it. Malloc'ed;
 * null: not known. */
char *store_find_verdict(Store *store, const StoreKey *key);
bool store_put_verdict(Store *store, const StoreKey *key, const char *text, const char *source);
/* The artifact (.ska) that was verified. */
bool store_put_artifact(Store *store, const StoreKey *key, const void *data, size_t size);
/* The cases of a definition, by name; sizes as in "M=37, N=31". */
bool store_put_case(Store *store, const char *definition, const char *name, const char *sizes);

/* ---- Runs: one search each ---- */

/* The number of the new run; negative on an error. key->sketch does not matter. */
int64_t store_run_begin(Store *store, const StoreKey *key, const char *strategy, uint64_t seed);

/* A candidate of a run, in the order they were taken. */
typedef struct {
    const char *source;
    double at;  /* seconds since the run began */
    bool known; /* found in the store, not run */
} StoreTrial;
bool store_put_trial(Store *store, int64_t run, const StoreKey *key, const StoreResult *result, const StoreTrial *trial);

/* A question to a model or program, what it cost and what came of it; negative: not known. */
typedef struct {
    const char *proposer, *status;
    int64_t tokens_in, tokens_out, tokens_cached;
    double cost, seconds;
    bool replayed;
    const char *task;                /* "first" answer and its "repair", judged in all cases; "design" and "improve" in a search; "embed" */
    const char *definition, *target; /* what was asked for; null: no operator */
    const char *sketch;              /* of the answer, as judged; null: none */
    const char *outcome;             /* "ok", a kind of failure, "no sketch", "repeated"; null: not known yet */
    bool verified;                   /* in all cases */
    int64_t chain;                   /* the call that began it; 0: this one */
    unsigned round;                  /* of repairs */
} StoreCall;
/* Its number; negative on an error. `run` may be negative: of no run yet. */
int64_t store_put_call(Store *store, int64_t run, const StoreCall *call);
/* What came of it later: definition, sketch, outcome, verified. */
bool store_call_result(Store *store, int64_t call, const StoreCall *result);
/* A call of no run yet is of this one. */
bool store_adopt_call(Store *store, int64_t run, int64_t call);

/* ---- Vectors of texts, by someone else's model ---- */

/* Malloc'ed; null: not known. */
double *store_find_vector(Store *store, const char *model, const char *text, size_t *size);
bool store_put_vector(Store *store, const char *model, const char *text, const double *vector, size_t size);

/* An operator's text in words, by someone else's model. Malloc'ed; null: not known. */
char *store_find_description(Store *store, const char *model, const char *definition);
bool store_put_description(Store *store, const char *model, const char *definition, const char *text);

typedef struct {
    unsigned tried, repeated;
    double elapsed, naive_seconds, best_seconds; /* the last two measured in turns */
    bool complete;
} StoreRunEnd;
/* key->sketch is the winner's; null: none. */
bool store_run_end(Store *store, int64_t run, const StoreKey *key, const StoreRunEnd *end);

/* What the last search with this key, strategy and seed found out, of those that tried as many candidates and were won by key->sketch.
 * False: there is none. */
bool store_find_run(Store *store, const StoreKey *key, const char *strategy, uint64_t seed, unsigned tried, StoreRunEnd *end);

/* ---- Reading ---- */

/* One row of a view. Columns are called by the names that the view has for them; what is not there is "" and 0. */
typedef struct StoreRow StoreRow;
const char *store_text(const StoreRow *row, const char *column); /* lives until the visit ends */
const void *store_data(const StoreRow *row, const char *column, size_t *size);
double store_number(const StoreRow *row, const char *column);
int64_t store_integer(const StoreRow *row, const char *column);

/* Visits the rows of a view of store_views.def in its order; those of one run where the view is of runs
 * and `run` is not negative. False for another name or an error. */
bool store_each(Store *store, const char *view, int64_t run, void (*visit)(void *context, const StoreRow *row), void *context);
bool store_view_known(const char *view);
/* Appends the names of the views, with commas. */
void store_view_names(Str *out);
/* Appends a view, a line a row: text, or JSON objects. */
bool store_report(Store *store, const char *view, bool json, Str *out);

/* Drops failures and all but the fastest 100 results of each operator, device and environment, with sketches and artifacts that
 * nothing speaks of any more, and gives the space back. What the best of any operator on any device needs stays: sketch,
 * ancestors, artifact, measurements. Runs and calls stay. Returns how many results went, negative on an error. */
int64_t store_gc(Store *store);
/* 0 when SQLite finds the file whole. */
int store_check(Store *store);

#endif
