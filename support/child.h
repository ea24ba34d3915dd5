/* A disposable process that does work and reports in frames. One that hangs, crashes or grows without end is an
 * outcome and harms nobody.
 *
 * The child is a fork: the calling process should have no other thread, whose locks (an allocator's, a library's) the
 * child would find taken for ever. */
#ifndef SUPPORT_CHILD_H
#define SUPPORT_CHILD_H

#include "support.h"

typedef struct ChildChannel ChildChannel; /* the child's end */

typedef struct {
    /* In the child. What it wants to tell it sends; returning ends the child well. */
    void (*work)(void *ctx, ChildChannel *channel);
    /* In the parent, for each frame; false: the frame makes no sense. */
    bool (*receive)(void *ctx, const void *data, size_t size);
    void *ctx;
    bool session;          /* in a session of its own: when it does not end well, all that it started goes too */
    uint64_t memory_limit; /* bytes that the child itself may have in main memory; 0: any */
    /* In the parent, as a phase begins; null: nobody asks. */
    void (*begins)(void *ctx, const char *what);
    const int *stop; /* the child is ended as soon as something can be read here or the other end is closed; null: never */
} ChildSpec;

typedef enum {
    CHILD_WELL, /* by returning */
    CHILD_NOT_STARTED,
    CHILD_TIMED_OUT,
    CHILD_TOO_LARGE,
    CHILD_STOPPED,
    CHILD_NONSENSE, /* it sent what nobody sends: its memory was damaged */
    CHILD_SIGNALED,
    CHILD_EXITED
} ChildEndKind;

/* CHILD_NO_MEMORY: the status of a child whose memory ran out. */
enum { CHILD_NO_MEMORY = 12 };
enum { CHILD_MAX_FRAME = 1 << 16, CHILD_PATIENCE = 900, CHILD_STARVED = 20, CHILD_NAME = 72, CHILD_SAID = 400 };

typedef struct {
    ChildEndKind kind;
    int number;                /* NOT_STARTED: errno; SIGNALED: the signal; EXITED: the status */
    char phase[CHILD_NAME];    /* what it was at, and */
    double seconds;            /* how long that might have taken */
    char said[CHILD_SAID + 1]; /* the end of its standard error, on one line */
} ChildEnd;

/* Runs the work to its end. */
ChildEnd child_run(const ChildSpec *spec);

/* Child: sends one frame, up to CHILD_MAX_FRAME bytes. */
void child_send(ChildChannel *channel, const void *data, size_t size);
/* Child: what follows may take this long (and is called so when it does not end). Without it a phase may
 * take CHILD_PATIENCE seconds. Time in which its threads could run and got no processor does not count, up to CHILD_STARVED times as much. */
void child_phase(ChildChannel *channel, double seconds, const char *what);

#endif
