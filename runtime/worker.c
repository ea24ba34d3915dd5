#include "worker.h"

#include <signal.h>
#include <string.h>

void worker_send(WorkerChannel *channel, const void *data, size_t size) {
    child_send(channel, data, size);
}

void worker_phase(WorkerChannel *channel, double seconds, const char *what) {
    child_phase(channel, seconds, what);
}

static RtError signal_status(const ChildEnd *end) {
    const char *what = end->phase;
    switch (end->number) {
    case SIGSEGV:
    case SIGBUS:
        return rt_error(RT_FAULT, "invalid memory access (signal %d) during %s", end->number, what);
    case SIGILL:
        return rt_error(RT_FAULT, "illegal instruction during %s", what);
    case SIGFPE:
        return rt_error(RT_FAULT, "arithmetic trap during %s", what);
    case SIGABRT:
        return rt_error(RT_ABORT, "the worker aborted during %s: %.300s", what, end->said);
    case SIGKILL:
        return rt_error(RT_MISSING, "the worker was killed from outside during %s (out of memory?)", what);
    default:
        return rt_error(RT_ABORT, "the worker was ended by signal %d during %s", end->number, what);
    }
}

RtError worker_status(const ChildEnd *end) {
    switch (end->kind) {
    case CHILD_WELL:
        return rt_ok();
    case CHILD_NOT_STARTED:
        return rt_error(RT_MISSING, "cannot start a worker: %s", strerror(end->number));
    case CHILD_TIMED_OUT:
        return rt_error(RT_HANG, "%s did not end within %g s", end->phase, end->seconds);
    case CHILD_TOO_LARGE:
        return rt_error(RT_MISSING, "the worker took too much memory during %s", end->phase);
    case CHILD_STOPPED:
        return rt_error(RT_INTERRUPTED, "stopped during %s", end->phase);
    case CHILD_NONSENSE:
        return rt_error(RT_FAULT, "the worker's memory was damaged during %s: it sent nonsense", end->phase);
    case CHILD_SIGNALED:
        return signal_status(end);
    case CHILD_EXITED:
        if (end->number == CHILD_NO_MEMORY) return rt_error(RT_MISSING, "out of memory during %s", end->phase);
        break;
    }
    return rt_error(RT_ABORT, "the worker exited with status %d during %s: %.300s", end->number, end->phase, end->said);
}

/* What a worker loads finds no secret in its environment. */
static void work_clean(void *ctx, WorkerChannel *channel) {
    const WorkerSpec *spec = ctx;
    environment_clean();
    spec->work(spec->ctx, channel);
}

static bool receive(void *ctx, const void *data, size_t size) {
    const WorkerSpec *spec = ctx;
    return spec->receive(spec->ctx, data, size);
}

static void begins(void *ctx, const char *what) {
    const WorkerSpec *spec = ctx;
    if (spec->begins) spec->begins(spec->ctx, what);
}

RtError worker_run(const WorkerSpec *spec) {
    WorkerSpec own = *spec;
    ChildEnd end = child_run(&(ChildSpec){.work = work_clean, .receive = receive, .begins = begins, .ctx = &own});
    return worker_status(&end);
}
