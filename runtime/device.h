/* A place where kernels run: the CPU or one CUDA device behind one table of functions. Only the
 * worker process holds one. Addresses are u64: host or device pointers. */
#ifndef RUNTIME_DEVICE_H
#define RUNTIME_DEVICE_H

#include "runtime_internal.h"

typedef struct Device Device;
typedef struct Program Program; /* an artifact's code, loaded */

/* What a device's plain kernels do with memory: `calibrate` times them. */
typedef enum { STREAM_COPY, STREAM_READ, STREAM_FILL, STREAM_NOTHING, STREAM_KINDS } StreamKind;

/* The launches of one call, in order. */
typedef struct {
    Program *program;
    const Binding *binding;
    const uint64_t *addresses; /* by parameter */
    const Launch *launches;
    size_t count;
} LaunchList;

/* What is timed: launches, a copy within the device, or a plain kernel. */
typedef struct TimedWork {
    enum { TIME_LAUNCHES, TIME_COPY, TIME_STREAM } kind;
    bool flush;               /* the last-level cache, before */
    LaunchList list;          /* LAUNCHES */
    StreamKind stream;        /* STREAM */
    uint64_t to, from, bytes; /* COPY, STREAM */
} TimedWork;

typedef struct {
    RtError (*alloc)(Device *d, uint64_t bytes, uint64_t *address);
    /* Null where a device has none: memory between pages that nothing may touch, at its start or (at_end) behind the last
     * multiple of `align` bytes; on the other side FENCE_ROOM bytes lie between. The address is the first byte. */
    RtError (*alloc_fenced)(Device *d, uint64_t bytes, uint64_t align, bool at_end, uint64_t *address);
    void (*release)(Device *d, uint64_t address);
    RtError (*upload)(Device *d, uint64_t to, const void *from, uint64_t bytes);
    RtError (*download)(Device *d, void *to, uint64_t from, uint64_t bytes);
    RtError (*copy)(Device *d, uint64_t to, uint64_t from, uint64_t bytes); /* within the device */
    RtError (*fill)(Device *d, uint64_t to, unsigned byte, uint64_t bytes);
    /* A kernel that moves and nothing else; bytes a multiple of 16 KiB. */
    RtError (*stream)(Device *d, StreamKind kind, uint64_t to, uint64_t from, uint64_t bytes);
    RtError (*load)(Device *d, const Artifact *a, const RtOptions *options, Program **program);
    void (*unload)(Device *d, Program *p);
    /* Starts one kernel. pointers: by the version's args, tensors and workspaces in order. */
    RtError (*launch)(Device *d, Program *p, const Launch *l, const Binding *b, const uint64_t *addresses);
    RtError (*sync)(Device *d);
    void (*use_stream)(Device *d, void *stream); /* CUDA: where launches go from now on */
    RtError (*time_begin)(Device *d);
    RtError (*time_end)(Device *d, double *seconds); /* waits */
    /* Null where the code is in this process: all of device_time there. `seen`: by a clock that the code cannot reach. */
    RtError (*timed)(Device *d, const struct TimedWork *w, double *seconds, double *seen);
    RtError (*flush)(Device *d); /* evicts the last-level cache by reading */
    RtError (*close)(Device *d);
} DeviceOps;

struct Device {
    const DeviceOps *ops;
    void *impl;
    int64_t num_sms, num_cores;
    uint64_t memory_bytes; /* in all */
    uint64_t free_bytes;   /* at opening */
    char name[128];
    char arch[32];  /* "sm_90", "x86-64" */
    bool fences;    /* alloc_fenced works */
    uint64_t fault; /* where an invalid access ended that process; 0: not known */
};
enum { FENCE_ROOM = 64 << 10, FENCE_BYTES = 1 << 20 };

struct Program {
    void *impl;
    char how[RT_NAME]; /* "c by cc" */
    unsigned kernel_count;
    RtKernelInfo kernels[RT_MAX_KERNELS];
};

/* Starts all launches, without waiting. */
RtError device_launch_all(Device *d, const LaunchList *list);
/* Seconds that the work took by the device's own clock, and (`seen`) at most, by the clock of the process that judges; 0: that
 * is the same one. */
RtError device_time(Device *d, const TimedWork *w, double *seconds, double *seen);
RtError device_open(Device *d, ArtifactTarget target, unsigned ordinal);
RtError device_open_cpu(Device *d);
RtError device_open_cuda(Device *d, unsigned ordinal);
/* Fills `bytes` at `to` with repetitions of a pattern. */
RtError device_fill_pattern(Device *d, uint64_t to, uint64_t bytes, const void *pattern, uint64_t pattern_bytes);

#endif
