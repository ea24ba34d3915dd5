/* The store: what searches have learnt, in one SQLite file. A result is acknowledged when its call has returned
 * true: it is on disk then (WAL, synchronous=FULL), whatever happens to the process. Several processes may use
 * one file. Content is the key: the same sketch for the same target on the same device is found again, also when
 * it failed, hung or crashed, so that nothing is run twice. */
#ifndef SEARCH_STORE_H
#define SEARCH_STORE_H

#include "support.h"

typedef struct Store Store;

/* Opens or makes the file; null with *message (malloc'ed, caller frees) when it cannot be. A build without
 * SQLite always answers null. */
Store *store_open(const char *path, char **message);
void store_close(Store *store); /* null is allowed */

/* What was tried: the sketch, on which machine. */
typedef struct {
    const char *definition; /* the operator's text */
    const char *sketch;     /* the sketch's text */
    const char *target, *device;
    const char *case_name;  /* the case that is timed */
} StoreKey;

typedef struct {
    char status[32];  /* "ok", or the kind of failure */
    bool complete;    /* verified in all cases and ragged sizes */
    double seconds, noise; /* 0: not timed */
} StoreResult;

/* False: not known. */
bool store_find(Store *store, const StoreKey *key, StoreResult *result);
/* Adds or replaces; `source` says who proposed it, `parent` the sketch it came from (null: none). */
bool store_put(Store *store, const StoreKey *key, const StoreResult *result, const char *source, const char *parent);

/* Appends a report: "query" (all results), "best" (the fastest verified of each operator, target and device),
 * as text or JSON lines; "export" (JSON lines with the texts). False for another name or an error. */
bool store_report(Store *store, const char *what, bool json, Str *out);
/* Drops failures and all but the fastest 100 results of each operator, and gives the space back. Returns how
 * many results went, negative on an error. */
int64_t store_gc(Store *store);
/* 0 when SQLite finds the file whole. */
int store_check(Store *store);

#endif
