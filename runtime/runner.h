/* Runs a plan's tasks one after the other in workers and collects a record of each. A task that
 * takes its worker down is blamed, and the rest get another worker. The artifact's code runs in a
 * process beside the worker (remote.h), which judges what that one hands back. */
#ifndef RUNTIME_RUNNER_H
#define RUNTIME_RUNNER_H

#include "verdict/verify_plan.h"
#include "worker.h"

typedef struct {
    RtError error; /* why nothing could be set up */
    char device[128];
    char how[RT_NAME];
    unsigned kernel_count;
    RtKernelInfo kernels[RT_MAX_KERNELS];
} RunnerInfo;

typedef struct Runner Runner;
struct Runner {
    TaskPlan plan;
    bool fences;            /* between pages that nothing may touch, where the device has them: not for what is timed */
    size_t record_size;     /* plain data, without pointers */
    unsigned char *records; /* one a task */
    RunnerInfo info;
    /* Child: fills the record; false: the device is lost and the process must end. */
    bool (*run)(Runner *r, size_t task, void *record);
    /* Parent: makes a record from the pipe safe to use; false: it is nonsense. */
    bool (*accept)(Runner *r, size_t task, void *record);
    /* Parent: the task ended like this, without a record of its own (SKIPPED: never begun). */
    void (*blame)(Runner *r, size_t task, const RtError *error, void *record);
    /* state */
    size_t next;  /* the first task not yet begun */
    bool running; /* task next - 1 was begun and has no record */
    WorkerChannel *channel;
    Device device;
    Program *program;
};

RtError runner_run(Runner *r);
void *runner_record(Runner *r, size_t task);
/* Child: what follows may take this long, and is called so. */
void runner_phase(Runner *r, double seconds, const char *what);
/* Child: one launch within the time limit. */
RtError runner_launch(Runner *r, Session *s, const char *what);

#endif
