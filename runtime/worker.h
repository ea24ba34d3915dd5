/* A disposable process that runs work and reports in frames (child.h). The parent never loads or runs a
 * kernel; a child that hangs, faults or aborts becomes a status. */
#ifndef RUNTIME_WORKER_H
#define RUNTIME_WORKER_H

#include "runtime_internal.h"

#include "child.h"

typedef ChildChannel WorkerChannel; /* the child's end */
typedef struct {                    /* as in ChildSpec */
    void (*work)(void *ctx, WorkerChannel *channel);
    bool (*receive)(void *ctx, const void *data, size_t size);
    void *ctx;
    void (*begins)(void *ctx, const char *what);
} WorkerSpec;

/* Runs the work to its end. OK when the child ended by returning; HANG, FAULT, ABORT, MISSING (no
 * process, killed from outside) or BUG with a sentence otherwise. */
RtError worker_run(const WorkerSpec *spec);
RtError worker_status(const ChildEnd *end); /* the same of a child's end */

/* Child: sends one frame, up to CHILD_MAX_FRAME bytes. */
void worker_send(WorkerChannel *channel, const void *data, size_t size);
/* Child: what follows may take this long (and is called so in the status when it does not end).
 * Without it a phase may take WORKER_PATIENCE seconds. */
enum { WORKER_PATIENCE = CHILD_PATIENCE };
void worker_phase(WorkerChannel *channel, double seconds, const char *what);

#endif
