#include "runner.h"
#include "remote.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_CRASHES = 3, MAX_RECORD = 4096 };
typedef enum { FRAME_INFO, FRAME_BEGIN, FRAME_RECORD } FrameKind;
typedef struct {
    uint32_t kind, task;
} Head;

void *runner_record(Runner *r, size_t task) {
    return r->records + task * r->record_size;
}

/* ---- Child ---- */

static void send(Runner *r, FrameKind kind, size_t task, const void *data, size_t size) {
    unsigned char frame[sizeof(Head) + MAX_RECORD];
    Head head = {kind, (uint32_t)task};
    memcpy(frame, &head, sizeof head);
    memcpy(frame + sizeof head, data, size);
    worker_send(r->channel, frame, sizeof head + size);
}

/* Threads that wait for each other sleep at once: between the launches of a verification they wait for the judge, and several judges share a
 * machine. What is timed keeps them awake, as a program would have them. */
static void wait_asleep(const Runner *r) {
    if (r->fences) setenv("OMP_WAIT_POLICY", "passive", 0);
}

static RtError set_up(Runner *r) {
    wait_asleep(r);
    worker_phase(r->channel, WORKER_PATIENCE, "loading the code");
    RT_TRY(remote_open(&r->device, r->plan.a, r->plan.options));
    RT_TRY(r->device.ops->load(&r->device, r->plan.a, r->plan.options, &r->program));
    r->device.fences &= r->fences;
    rt_copy(r->info.device, sizeof r->info.device, r->device.name);
    rt_copy(r->info.how, sizeof r->info.how, r->program->how);
    r->info.kernel_count = r->program->kernel_count;
    memcpy(r->info.kernels, r->program->kernels, sizeof r->info.kernels);
    return rt_ok();
}

static void work(void *ctx, WorkerChannel *channel) {
    Runner *r = ctx;
    r->channel = channel;
    r->info.error = set_up(r);
    send(r, FRAME_INFO, 0, &r->info, sizeof r->info);
    while (!rt_failed(&r->info.error) && r->next < r->plan.count) {
        size_t i = r->next++;
        send(r, FRAME_BEGIN, i, "", 0);
        bool go_on = r->run(r, i, runner_record(r, i));
        send(r, FRAME_RECORD, i, runner_record(r, i), r->record_size);
        if (!go_on) return;
    }
}

void runner_phase(Runner *r, double seconds, const char *what) {
    worker_phase(r->channel, seconds, what);
    remote_phase(&r->device, what);
}

RtError runner_launch(Runner *r, Session *s, const char *what) {
    const RtOptions *o = r->plan.options;
    runner_phase(r, o->time_limit_s > 0 ? o->time_limit_s : 60, what);
    RT_TRY(session_launch(s));
    runner_phase(r, WORKER_PATIENCE, "checking the results");
    return rt_ok();
}

/* ---- Parent ---- */

static bool take_info(Runner *r, const void *data, size_t size) {
    if (size != sizeof r->info) return false;
    memcpy(&r->info, data, size);
    r->info.error.text[RT_TEXT - 1] = r->info.device[sizeof r->info.device - 1] = r->info.how[RT_NAME - 1] = '\0';
    if (r->info.kernel_count > RT_MAX_KERNELS) return false;
    for (unsigned i = 0; i < r->info.kernel_count; i++) r->info.kernels[i].entry[RT_NAME - 1] = '\0';
    return (unsigned)r->info.error.status < RT_STATUS_COUNT;
}

/* The task's number and name, or what is done before the first, or what is done before the first. */
static void begins(void *ctx, const char *what) {
    Runner *r = ctx;
    const RtOptions *o = r->plan.options;
    char text[RT_TEXT] = "";
    const Task *task = r->running ? &r->plan.tasks[r->next - 1] : NULL;
    if (!o->on_progress) return;
    if (task) snprintf(text, sizeof text, "%zu of %zu, %s: ", r->next, r->plan.count, task->name);
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s", what);
    o->on_progress(o->progress_context, text);
}

static bool receive(void *ctx, const void *data, size_t size) {
    Runner *r = ctx;
    Head head;
    if (size < sizeof head) return false;
    memcpy(&head, data, sizeof head);
    data = (const char *)data + sizeof head;
    size -= sizeof head;
    if (head.kind == FRAME_INFO) return take_info(r, data, size);
    if (head.kind == FRAME_BEGIN) {
        if (head.task != r->next || r->running || r->next >= r->plan.count) return false;
        r->next++;
        r->running = true;
        begins(r, "preparing");
        return true;
    }
    if (head.kind != FRAME_RECORD || !r->running || head.task != r->next - 1 || size != r->record_size) return false;
    memcpy(runner_record(r, head.task), data, size);
    r->running = false;
    return r->accept(r, head.task, runner_record(r, head.task));
}

RtError runner_run(Runner *r) {
    _Static_assert(sizeof(RunnerInfo) <= MAX_RECORD && sizeof(RtVerdict) <= MAX_RECORD && sizeof(RtTiming) <= MAX_RECORD, "fits a frame");
    unsigned crashes = 0;
    while (r->next < r->plan.count && crashes < MAX_CRASHES) {
        size_t before = r->next;
        RtError e = worker_run(&(WorkerSpec){work, receive, r, begins});
        if (rt_failed(&r->info.error)) return r->info.error;
        if (r->running) {
            if (!rt_failed(&e)) e = rt_error(RT_BUG, "the worker left a case unfinished");
            r->blame(r, r->next - 1, &e, runner_record(r, r->next - 1));
            r->running = false;
        } else if (rt_failed(&e)) {
            return e;
        } else if (r->next == before) {
            return rt_error(RT_BUG, "the worker did nothing");
        }
        if (r->next < r->plan.count) crashes++;
    }
    RtError rest = rt_error(RT_SKIPPED, "left out after %d crashes", MAX_CRASHES);
    for (; r->next < r->plan.count; r->next++) r->blame(r, r->next, &rest, runner_record(r, r->next));
    return rt_ok();
}
