/* One artifact at one set of sizes on one device: buffers with guard zones, and launches. */
#ifndef RUNTIME_SESSION_H
#define RUNTIME_SESSION_H

#include "device.h"

enum { GUARD_BYTES = FENCE_ROOM };

typedef struct {
    Device *device;
    Program *program;
    const Artifact *a;
    Binding *binding; /* complete */
    Launch *launches;
    size_t launch_count;
    uint64_t *bases;          /* by parameter: the allocation; 0: none */
    uint64_t *before, *after; /* by parameter: bytes of the guard zones on both sides */
    bool at_end;              /* fences, where the device has them, are right behind the buffers, else right before them */
    uint64_t *addresses;      /* by parameter: the first element */
    unsigned round;           /* of the poison, set by the user before a launch */
    unsigned *rounds;         /* by parameter: of the poison that it was filled with */
} Session;

/* Plans the launches and allocates; buffers have poisoned contents and intact guard zones. */
RtError session_open(Session *s, Arena *arena, Device *d, Program *p, Binding *b);
void session_close(Session *s);
/* New buffers, with the fences on the other side; contents are lost. */
RtError session_turn(Session *s, Arena *arena);
/* A tensor's elements in row-major order to their places in the buffer, and back. */
RtError session_upload(Session *s, unsigned param, const void *elements);
RtError session_download(Session *s, unsigned param, void *elements);
/* Poison of the round for outputs and workspaces, so that what is not written shows. */
RtError session_poison(Session *s, unsigned param);
/* All steps in order, then waits. A device fault is FAULT. */
RtError session_launch(Session *s);
RtError session_start(Session *s); /* the same without waiting */
/* The same, timed (device_time). */
RtError session_time(Session *s, bool flush, double *seconds, double *seen);
/* OUT_OF_BOUNDS names the tensor and where, when a guard zone was changed, or what strides leave out. */
RtError session_check_guards(Session *s);
/* What the last launch counted of what the language defines away (--check), as a sentence; "" without such counts. */
RtError session_counts(Session *s, char *text, size_t size);
/* Hash of a buffer's bytes, read back in pieces. */
RtError session_hash(Session *s, unsigned param, Hash128 *hash);

#endif
