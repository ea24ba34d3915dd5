#define _GNU_SOURCE /* close_range */
#include "remote.h"
#include "book.h"
#include "child.h"
#include "memory.h"
#include "worker.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STAGE = 8 << 20, END_MS = 2000 };

typedef enum {
    ASK_OPEN,
    ASK_LOAD,
    ASK_ALLOC,
    ASK_FENCED,
    ASK_RELEASE,
    ASK_UPLOAD,
    ASK_DOWNLOAD,
    ASK_COPY,
    ASK_FILL,
    ASK_LAUNCH,
    ASK_FLUSH,
    ASK_TIME,
    ASK_SYNC,
    ASK_COUNT
} Ask;
typedef struct {
    uint32_t ask, byte;
    uint64_t to, from, bytes;
    Launch launch;  /* step and version by their numbers */
    TimedWork work; /* its launches by their numbers, in the stage */
} Request;
typedef struct {
    RtError error;
    uint64_t value;
    double seconds;
} Answer;

/* Shared by both processes: data on their way, and where the other one's invalid access was. */
typedef struct {
    volatile uint64_t fault;
    unsigned char stage[STAGE];
} Shared;

/* What is told of the device, and of the code once it is loaded. */
typedef struct {
    int64_t num_sms, num_cores;
    uint64_t memory_bytes, free_bytes;
    char name[128], arch[32], how[RT_NAME];
    unsigned kernel_count;
    RtKernelInfo kernels[RT_MAX_KERNELS];
} Facts;

typedef struct {
    const Artifact *a;
    const RtOptions *options;
    int socket;
    pid_t pid;
    Shared *shared;
    char what[RT_NAME];
    RtError end; /* how the process ended, once it has */
} Remote;

static bool transfer(int fd, void *data, size_t size, bool out) {
    for (size_t done = 0; done < size;) {
        char *at = (char *)data + done;
        ssize_t n = out ? send(fd, at, size - done, MSG_NOSIGNAL) : recv(fd, at, size - done, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

/* ---- The other process ---- */

typedef struct {
    Remote *r;
    Device device;
    Program *program;
    Binding binding;
    uint64_t *addresses;
} Server;

static Shared *fault_place;

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    fault_place->fault = (uint64_t)(uintptr_t)info->si_addr;
    signal(number, SIG_DFL); /* the access is made again, and ends the process */
}

static void watch_faults(Shared *shared) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    fault_place = shared;
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

static RtError serve_open(Server *s, Arena *arena) {
    Facts facts;
    memset(&facts, 0, sizeof facts);
    RT_TRY(device_open(&s->device, s->r->a->target, s->r->options->device));
    binding_init(&s->binding, arena, s->r->a, s->device.num_sms, s->device.num_cores);
    s->addresses = ARENA_ARRAY(arena, uint64_t, s->r->a->param_count + 1);
    facts.num_sms = s->device.num_sms;
    facts.num_cores = s->device.num_cores;
    facts.memory_bytes = s->device.memory_bytes;
    facts.free_bytes = s->device.free_bytes;
    rt_copy(facts.name, sizeof facts.name, s->device.name);
    rt_copy(facts.arch, sizeof facts.arch, s->device.arch);
    memcpy(s->r->shared->stage, &facts, sizeof facts);
    return rt_ok();
}

static RtError serve_load(Server *s) {
    Facts facts;
    memset(&facts, 0, sizeof facts);
    RT_TRY(s->device.ops->load(&s->device, s->r->a, s->r->options, &s->program));
    rt_copy(facts.how, sizeof facts.how, s->program->how);
    facts.kernel_count = s->program->kernel_count;
    memcpy(facts.kernels, s->program->kernels, sizeof facts.kernels);
    memcpy(s->r->shared->stage, &facts, sizeof facts);
    return rt_ok();
}

/* A binding's arrays and the addresses, through the stage: one way or the other. What follows them lies behind. */
static unsigned char *pass_binding(unsigned char *stage, Binding *b, uint64_t *addresses, bool out) {
    size_t n = b->a->param_count + 1;
    const struct {
        void *data;
        size_t size;
    } parts[] = {{b->symbols, sizeof *b->symbols}, {b->bound, sizeof *b->bound},   {b->scalars, sizeof *b->scalars},
                 {b->extents, sizeof *b->extents}, {b->places, sizeof *b->places}, {b->elements, sizeof *b->elements},
                 {b->bytes, sizeof *b->bytes},     {addresses, sizeof *addresses}};
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        if (out)
            memcpy(stage, parts[i].data, n * parts[i].size);
        else
            memcpy(parts[i].data, stage, n * parts[i].size);
        stage += n * parts[i].size;
    }
    return stage;
}

static void find_code(const Server *s, Launch *l) {
    l->step = &s->r->a->steps[l->step_index];
    l->version = l->version ? &l->step->versions[l->version_index] : NULL;
}

/* On the processor the cache was flushed before, so that this does not show in the judge's clock. */
static RtError serve_time(Server *s, Request *q, double *seconds) {
    TimedWork *w = &q->work;
    double seen;
    unsigned char *stage = pass_binding(s->r->shared->stage, &s->binding, s->addresses, false);
    Launch *launches = malloc((w->list.count + 1) * sizeof *launches);
    if (!launches) return rt_error(RT_MISSING, "out of memory");
    memcpy(launches, stage, w->list.count * sizeof *launches);
    for (size_t i = 0; i < w->list.count; i++) find_code(s, &launches[i]);
    w->list = (LaunchList){s->program, &s->binding, s->addresses, launches, w->list.count};
    RtError e = device_time(&s->device, w, seconds, &seen);
    free(launches);
    return e;
}

static RtError serve_launch(Server *s, Request *q) {
    Launch *l = &q->launch;
    find_code(s, l);
    pass_binding(s->r->shared->stage, &s->binding, s->addresses, false);
    return s->device.ops->launch(&s->device, s->program, l, &s->binding, s->addresses);
}

static RtError serve_one(Server *s, Request *q, Answer *answer, Arena *arena) {
    Device *d = &s->device;
    if (q->ask != ASK_OPEN && !d->ops) return rt_error(RT_BUG, "no device is open");
    switch ((Ask)q->ask) {
    case ASK_OPEN:
        return serve_open(s, arena);
    case ASK_LOAD:
        return serve_load(s);
    case ASK_ALLOC:
        return d->ops->alloc(d, q->bytes, &answer->value);
    case ASK_FENCED:
        return d->ops->alloc_fenced(d, q->bytes, q->from, q->byte, &answer->value);
    case ASK_RELEASE:
        d->ops->release(d, q->to);
        return rt_ok();
    case ASK_UPLOAD:
        return d->ops->upload(d, q->to, s->r->shared->stage, q->bytes);
    case ASK_DOWNLOAD:
        return d->ops->download(d, s->r->shared->stage, q->from, q->bytes);
    case ASK_COPY:
        return d->ops->copy(d, q->to, q->from, q->bytes);
    case ASK_FILL:
        return d->ops->fill(d, q->to, q->byte, q->bytes);
    case ASK_LAUNCH:
        return serve_launch(s, q);
    case ASK_FLUSH:
        return d->ops->flush(d);
    case ASK_TIME:
        return serve_time(s, q, &answer->seconds);
    case ASK_SYNC:
        return d->ops->sync(d);
    case ASK_COUNT:
        break;
    }
    return rt_error(RT_BUG, "no such request");
}

static void end_without_memory(void *ctx) {
    (void)ctx;
    _exit(CHILD_NO_MEMORY);
}

static void serve(Remote *r, int fd, pid_t parent) {
    MemoryUndo ends; /* the scopes are the judge's */
    memory_push(&ends, end_without_memory, NULL);
    Server s = {.r = r};
    Arena *arena = arena_create();
    Request q;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(5);
    /* What belongs to the judge is out of reach: its reports go by a descriptor that is not here, its reference is not in this memory. */
    book_leave();
    if (dup2(fd, STDERR_FILENO + 1) < 0 || close_range(STDERR_FILENO + 2, ~0u, 0) != 0) _exit(5);
    fd = STDERR_FILENO + 1;
    environment_clean();
    watch_faults(r->shared);
    while (transfer(fd, &q, sizeof q, false)) {
        Answer answer;
        memset(&answer, 0, sizeof answer);
        answer.error = serve_one(&s, &q, &answer, arena);
        if (!transfer(fd, &answer, sizeof answer, true)) break;
    }
    _exit(0);
}

/* ---- The judge ---- */

/* The process is gone, or sent what nobody sends. */
static RtError find_end(Remote *r) {
    int status = 0;
    if (rt_failed(&r->end)) return r->end;
    pid_t got = 0;
    for (int i = 0; i < END_MS && (got = waitpid(r->pid, &status, WNOHANG)) == 0; i++) usleep(1000);
    if (got == 0) {
        kill(r->pid, SIGKILL);
        while (waitpid(r->pid, &status, 0) < 0 && errno == EINTR) {
        }
        r->end = rt_error(RT_FAULT, "the worker's memory was damaged during %s: it sent nonsense", r->what);
        return r->end;
    }
    ChildEnd end = {.kind = WIFSIGNALED(status) ? CHILD_SIGNALED : CHILD_EXITED,
                    .number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)};
    rt_copy(end.phase, sizeof end.phase, r->what);
    r->end = worker_status(&end);
    return r->end;
}

static RtError ask_all(Device *d, const Request *q, Answer *answer) {
    Remote *r = d->impl;
    if (rt_failed(&r->end)) return r->end;
    bool ok = transfer(r->socket, (void *)(uintptr_t)q, sizeof *q, true) && transfer(r->socket, answer, sizeof *answer, false);
    if (!ok || (unsigned)answer->error.status >= RT_STATUS_COUNT) {
        RtError e = find_end(r);
        d->fault = r->shared->fault;
        return e;
    }
    answer->error.text[RT_TEXT - 1] = '\0';
    return answer->error;
}

static RtError ask(Device *d, const Request *q, uint64_t *value) {
    Answer answer = {0};
    RtError e = ask_all(d, q, &answer);
    if (value && !rt_failed(&e)) *value = answer.value;
    return e;
}

static RtError remote_alloc(Device *d, uint64_t bytes, uint64_t *address) {
    return ask(d, &(Request){.ask = ASK_ALLOC, .bytes = bytes}, address);
}

static RtError remote_alloc_fenced(Device *d, uint64_t bytes, uint64_t align, bool at_end, uint64_t *address) {
    return ask(d, &(Request){.ask = ASK_FENCED, .bytes = bytes, .from = align, .byte = at_end}, address);
}

static void remote_release(Device *d, uint64_t address) {
    ask(d, &(Request){.ask = ASK_RELEASE, .to = address}, NULL);
}

static RtError remote_upload(Device *d, uint64_t to, const void *from, uint64_t bytes) {
    Remote *r = d->impl;
    for (uint64_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < STAGE ? bytes - done : STAGE;
        memcpy(r->shared->stage, (const char *)from + done, n);
        RT_TRY(ask(d, &(Request){.ask = ASK_UPLOAD, .to = to + done, .bytes = n}, NULL));
    }
    return rt_ok();
}

static RtError remote_download(Device *d, void *to, uint64_t from, uint64_t bytes) {
    Remote *r = d->impl;
    for (uint64_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < STAGE ? bytes - done : STAGE;
        RT_TRY(ask(d, &(Request){.ask = ASK_DOWNLOAD, .from = from + done, .bytes = n}, NULL));
        memcpy((char *)to + done, r->shared->stage, n);
    }
    return rt_ok();
}

static RtError remote_copy(Device *d, uint64_t to, uint64_t from, uint64_t bytes) {
    return ask(d, &(Request){.ask = ASK_COPY, .to = to, .from = from, .bytes = bytes}, NULL);
}

static RtError remote_fill(Device *d, uint64_t to, unsigned byte, uint64_t bytes) {
    return ask(d, &(Request){.ask = ASK_FILL, .to = to, .byte = byte, .bytes = bytes}, NULL);
}

static RtError remote_launch(Device *d, Program *p, const Launch *l, const Binding *b, const uint64_t *addresses) {
    Remote *r = d->impl;
    Request q = {.ask = ASK_LAUNCH, .launch = *l};
    Binding sent = *b;
    (void)p;
    pass_binding(r->shared->stage, &sent, (uint64_t *)(uintptr_t)addresses, true);
    return ask(d, &q, NULL);
}

/* Launches go with the request, so that the first follows the clock's start at once; a GPU's flush is among its work, behind which the
 * launches are prepared. */
static RtError remote_timed(Device *d, const TimedWork *w, double *seconds, double *seen) {
    Remote *r = d->impl;
    Request q = {.ask = ASK_TIME, .work = *w};
    Answer answer;
    memset(&answer, 0, sizeof answer);
    if (w->flush && r->a->target == ARTIFACT_CPU) {
        RT_TRY(ask(d, &(Request){.ask = ASK_FLUSH}, NULL));
        q.work.flush = false;
    }
    if (w->kind == TIME_LAUNCHES) {
        Binding sent = *w->list.binding;
        unsigned char *stage = pass_binding(r->shared->stage, &sent, (uint64_t *)(uintptr_t)w->list.addresses, true);
        if (w->list.count * sizeof *w->list.launches > (size_t)(r->shared->stage + STAGE - stage))
            return rt_error(RT_LAUNCH_FAILED, "there are too many launches to time");
        memcpy(stage, w->list.launches, w->list.count * sizeof *w->list.launches);
    }
    double start = rt_now();
    RtError e = ask_all(d, &q, &answer);
    *seen = rt_now() - start;
    *seconds = isfinite(answer.seconds) && answer.seconds > 0 ? answer.seconds : 0;
    return e;
}

static RtError remote_sync(Device *d) {
    return ask(d, &(Request){.ask = ASK_SYNC}, NULL);
}

static RtError remote_load(Device *d, const Artifact *a, const RtOptions *options, Program **program) {
    Remote *r = d->impl;
    Program *p = calloc(1, sizeof *p);
    Facts f;
    (void)a, (void)options; /* those of remote_open */
    if (!p) return rt_error(RT_MISSING, "out of memory");
    *program = p;
    remote_phase(d, "loading the code");
    RT_TRY(ask(d, &(Request){.ask = ASK_LOAD}, NULL));
    memcpy(&f, r->shared->stage, sizeof f);
    if (f.kernel_count > RT_MAX_KERNELS) return rt_error(RT_FAULT, "the worker's memory was damaged: it sent nonsense");
    f.how[sizeof f.how - 1] = '\0';
    rt_copy(p->how, sizeof p->how, f.how);
    p->kernel_count = f.kernel_count;
    memcpy(p->kernels, f.kernels, sizeof p->kernels);
    return rt_ok();
}

static void remote_unload(Device *d, Program *p) {
    (void)d, free(p);
}

static RtError remote_close(Device *d) {
    Remote *r = d->impl;
    close(r->socket);
    if (!rt_failed(&r->end)) find_end(r);
    munmap(r->shared, sizeof *r->shared);
    free(r);
    d->impl = NULL;
    return rt_ok();
}

static const DeviceOps remote_ops = {
    .alloc = remote_alloc,
    .alloc_fenced = remote_alloc_fenced,
    .release = remote_release,
    .upload = remote_upload,
    .download = remote_download,
    .load = remote_load,
    .copy = remote_copy,
    .fill = remote_fill,
    .launch = remote_launch,
    .timed = remote_timed,
    .sync = remote_sync,
    .unload = remote_unload,
    .close = remote_close,
};

void remote_phase(Device *d, const char *what) {
    if (d->ops == &remote_ops) rt_copy(((Remote *)d->impl)->what, RT_NAME, what);
}

static RtError start(Remote *r) {
    int ends[2];
    r->shared = mmap(NULL, sizeof *r->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r->shared == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return rt_error(RT_MISSING, "cannot start a worker: %s", strerror(errno));
    pid_t parent = getpid();
    r->pid = fork();
    if (r->pid == 0) serve(r, ends[1], parent);
    int error = errno;
    close(ends[1]);
    r->socket = ends[0];
    return r->pid > 0 ? rt_ok() : rt_error(RT_MISSING, "cannot start a worker: %s", strerror(error));
}

static RtError take_facts(Device *d, const Remote *r) {
    Facts f;
    memcpy(&f, r->shared->stage, sizeof f);
    d->num_sms = f.num_sms;
    d->num_cores = f.num_cores;
    d->memory_bytes = f.memory_bytes;
    d->free_bytes = f.free_bytes;
    f.name[sizeof f.name - 1] = f.arch[sizeof f.arch - 1] = '\0';
    rt_copy(d->name, sizeof d->name, f.name);
    rt_copy(d->arch, sizeof d->arch, f.arch);
    return rt_ok();
}

RtError remote_open(Device *d, const Artifact *a, const RtOptions *options) {
    Remote *r = calloc(1, sizeof *r);
    *d = (Device){.ops = &remote_ops, .impl = r, .fences = a->target == ARTIFACT_CPU};
    if (!r) return rt_error(RT_MISSING, "out of memory");
    *r = (Remote){.a = a, .options = options, .what = "opening the device"};
    RT_TRY(start(r));
    RT_TRY(ask(d, &(Request){.ask = ASK_OPEN}, NULL));
    return take_facts(d, r);
}
