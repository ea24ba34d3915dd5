/* A pool of judges. A judge is a program of its own (started anew, so with one thread and nobody's locks) that forks
 * a process for each job and tells how it ended: a job that hangs, crashes or eats memory is a result of that job, and
 * what it damaged is gone with it. No job sees a process that another one has used. */
#ifndef SEARCH_POOL_H
#define SEARCH_POOL_H

#include "child.h"

typedef enum {
    POOL_NOT_RUN,   /* cancelled, out of time, or no judge can be started: says nothing of the job */
    POOL_DONE,      /* `answer` holds what the job answered */
    POOL_CRASHED,   /* a signal, an exit, nonsense */
    POOL_HUNG,      /* a phase took longer than it may */
    POOL_TOO_LARGE, /* more memory than it may have */
    POOL_KILLED     /* twice from outside, as the system does when memory runs out */
} PoolOutcome;

typedef struct {
    const char *request;
    size_t size;
    PoolOutcome outcome;
    Str answer;    /* initialised by pool_run; the caller's to release */
    char why[320]; /* one line, "" when DONE */
    unsigned tries;
    double ended; /* seconds_now */
} PoolJob;

typedef struct {
    const char *const *argv; /* starts a judge: a program that calls pool_serve. NULL-terminated */
    unsigned slots;          /* jobs at one time; 0: 2, at most 64 */
    uint64_t memory_limit;   /* bytes that a job may have in main memory; 0: 4 GiB */
} PoolOptions;

typedef struct Pool Pool;

/* `options` and what it points to must outlive the pool. Null when out of memory; judges are started when needed. */
Pool *pool_create(const PoolOptions *options);
/* All jobs, or until *cancel (may be null) or the time `deadline` (seconds_now; 0: none): what runs then is ended at
 * once and was NOT_RUN. */
void pool_run(Pool *pool, PoolJob *jobs, size_t count, double deadline, const atomic_int *cancel);
void pool_destroy(Pool *pool); /* null is allowed */

/* ---- In the judge ---- */

/* Does one job; may call child_phase. What it returns in `answer` goes back. */
typedef void (*PoolWork)(const char *request, size_t size, ChildChannel *channel, Str *answer);
/* Serves standard input until its other end is closed. To be called before the process has other threads. */
void pool_serve(PoolWork work);

#endif
