/* The CPU as a device: memory is the worker's own, a launch is a call. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "device.h"
#include "load_cpu.h"
#include "verify.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGN = 256, MIN_FLUSH = 64 << 20, MAX_FLUSH = 256 << 20 };

typedef struct Fenced {
    char *pages;
    size_t size;
    uint64_t address;
    struct Fenced *next;
} Fenced;

typedef struct {
    double started;
    unsigned char *flush;
    size_t flush_bytes;
    volatile uint64_t sink;
    Fenced *fenced;
} Cpu;

static void *at(uint64_t address) {
    return (void *)(uintptr_t)address;
}

static RtError cpu_alloc(Device *d, uint64_t bytes, uint64_t *address) {
    void *p = NULL;
    (void)d;
    if (bytes > SIZE_MAX / 2 || posix_memalign(&p, ALIGN, bytes ? bytes : 1) != 0)
        return rt_error(RT_MISSING, "out of memory: %llu bytes", (unsigned long long)bytes);
    *address = (uint64_t)(uintptr_t)p;
    return rt_ok();
}

/* | fence | the buffer, FENCE_ROOM | fence |, or the room first. */
static RtError cpu_alloc_fenced(Device *d, uint64_t bytes, uint64_t align, bool at_end, uint64_t *address) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), inner = (bytes + FENCE_ROOM + align + page - 1) / page * page;
    Fenced *f = bytes < SIZE_MAX / 4 ? calloc(1, sizeof *f) : NULL;
    if (f) f->size = inner + 2 * FENCE_BYTES;
    char *pages = f ? mmap(NULL, f->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) : MAP_FAILED;
    if (pages == MAP_FAILED || mprotect(pages + FENCE_BYTES, inner, PROT_READ | PROT_WRITE) != 0) {
        if (pages != MAP_FAILED) munmap(pages, f->size);
        free(f);
        return rt_error(RT_MISSING, "out of memory: %llu bytes", (unsigned long long)bytes);
    }
    uint64_t first = (uint64_t)(uintptr_t)pages + FENCE_BYTES;
    f->pages = pages;
    f->address = *address = at_end ? (first + inner - bytes) / align * align : first;
    f->next = ((Cpu *)d->impl)->fenced;
    ((Cpu *)d->impl)->fenced = f;
    return rt_ok();
}

static void cpu_release(Device *d, uint64_t address) {
    for (Fenced **at_link = &((Cpu *)d->impl)->fenced; *at_link; at_link = &(*at_link)->next) {
        Fenced *f = *at_link;
        if (f->address != address) continue;
        *at_link = f->next;
        munmap(f->pages, f->size);
        free(f);
        return;
    }
    free(at(address));
}

static RtError cpu_upload(Device *d, uint64_t to, const void *from, uint64_t bytes) {
    (void)d;
    memcpy(at(to), from, bytes);
    return rt_ok();
}

static RtError cpu_download(Device *d, void *to, uint64_t from, uint64_t bytes) {
    (void)d;
    memcpy(to, at(from), bytes);
    return rt_ok();
}

typedef struct {
    char *to;
    const char *from;
} Copy;

static void copy_part(void *ctx, int64_t begin, int64_t end) {
    const Copy *c = ctx;
    memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

/* With all cores: this is also what kernels' bandwidth is compared with. */
static RtError cpu_copy(Device *d, uint64_t to, uint64_t from, uint64_t bytes) {
    Copy copy = {at(to), at(from)};
    (void)d;
    verify_parallel((int64_t)bytes, 8 << 20, 0, copy_part, &copy);
    return rt_ok();
}

static RtError cpu_fill(Device *d, uint64_t to, unsigned byte, uint64_t bytes) {
    (void)d;
    memset(at(to), (int)byte, bytes);
    return rt_ok();
}

typedef struct {
    const char *from;
    uint64_t *sums; /* by part */
    int64_t part;
} Read;

static void read_part(void *ctx, int64_t begin, int64_t end) {
    const Read *r = ctx;
    uint64_t sum = 0, word;
    for (int64_t i = begin; i + 8 <= end; i += 8) {
        memcpy(&word, r->from + i, sizeof word);
        sum ^= word;
    }
    r->sums[begin / r->part] = sum;
}

static void fill_part(void *ctx, int64_t begin, int64_t end) {
    memset(((const Copy *)ctx)->to + begin, 0, (size_t)(end - begin));
}

static RtError cpu_stream(Device *d, StreamKind kind, uint64_t to, uint64_t from, uint64_t bytes) {
    enum { PART = 8 << 20 };
    Copy copy = {at(to), at(from)};
    if (kind == STREAM_COPY) return cpu_copy(d, to, from, bytes);
    if (kind == STREAM_FILL) verify_parallel((int64_t)bytes, PART, 0, fill_part, &copy);
    if (kind != STREAM_READ) return rt_ok();
    Read read = {.from = at(from), .part = PART};
    read.sums = calloc(bytes / PART + 1, sizeof *read.sums);
    if (!read.sums) return rt_error(RT_MISSING, "out of memory");
    verify_parallel((int64_t)bytes, PART, 0, read_part, &read);
    for (uint64_t i = 0; i <= bytes / PART; i++) ((Cpu *)d->impl)->sink ^= read.sums[i];
    free(read.sums);
    return rt_ok();
}

static RtError cpu_launch(Device *d, Program *p, const Launch *l, const Binding *b, const uint64_t *addresses) {
    const ArtifactVersion *v = l->version;
    void *pointers[ARTIFACT_MAX_PARAMS + 1];
    int64_t symbols[ARTIFACT_MAX_PARAMS + 1];
    double scalars[ARTIFACT_MAX_PARAMS + 1];
    size_t pointer_count = 0, symbol_count = 0, scalar_count = 0;
    (void)d;
    for (size_t i = 0; i < v->arg_count; i++) {
        unsigned param = v->args[i];
        switch (b->a->params[param].kind) {
        case ARTIFACT_SYMBOL:
            symbols[symbol_count++] = b->symbols[param];
            break;
        case ARTIFACT_SCALAR:
            scalars[scalar_count++] = b->scalars[param];
            break;
        default:
            pointers[pointer_count++] = at(addresses[param]);
            break;
        }
    }
    int status = cpu_program_entry(p, l->step_index, l->version_index)(pointers, symbols, scalars);
    if (status != 0) return rt_error(RT_LAUNCH_FAILED, "the kernel '%s' returned %d", v->entry, status);
    return rt_ok();
}

static void cpu_use_stream(Device *d, void *stream) {
    (void)d, (void)stream;
}

static RtError cpu_sync(Device *d) {
    (void)d;
    return rt_ok();
}

static RtError cpu_time_begin(Device *d) {
    ((Cpu *)d->impl)->started = rt_now();
    return rt_ok();
}

static RtError cpu_time_end(Device *d, double *seconds) {
    *seconds = rt_now() - ((Cpu *)d->impl)->started;
    return rt_ok();
}

static RtError cpu_flush(Device *d) {
    Cpu *cpu = d->impl;
    if (!cpu->flush) {
        long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
        cpu->flush_bytes = l3 > 0 && l3 < MAX_FLUSH / 2 ? (size_t)l3 * 2 : MAX_FLUSH;
        if (cpu->flush_bytes < MIN_FLUSH) cpu->flush_bytes = MIN_FLUSH;
        cpu->flush = malloc(cpu->flush_bytes);
        if (!cpu->flush) return rt_error(RT_MISSING, "out of memory for flushing the cache");
        memset(cpu->flush, 1, cpu->flush_bytes);
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < cpu->flush_bytes; i += 64) sum += cpu->flush[i];
    cpu->sink = sum;
    return rt_ok();
}

static RtError cpu_close(Device *d) {
    Cpu *cpu = d->impl;
    if (cpu) free(cpu->flush);
    free(cpu);
    d->impl = NULL;
    return rt_ok();
}

static int64_t usable_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? n : 1;
}

static void describe(Device *d) {
    char model[96] = "", line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        line[strcspn(line, "\n")] = '\0'; /* NOLINT(*ArrayBound): within the line */
        rt_copy(model, sizeof model, colon + 1 + (colon[1] == ' '));
        break;
    }
    if (f) fclose(f);
    snprintf(d->name, sizeof d->name, "%s, %lld cores", model[0] ? model : "CPU", (long long)d->num_cores);
#if defined(__x86_64__)
    rt_copy(d->arch, sizeof d->arch, "x86-64");
#elif defined(__aarch64__)
    rt_copy(d->arch, sizeof d->arch, "aarch64");
#else
    rt_copy(d->arch, sizeof d->arch, "unknown");
#endif
}

static uint64_t available_memory(uint64_t otherwise) {
    char line[256];
    unsigned long long kb = 0;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kb) == 1) break;
    if (f) fclose(f);
    return kb ? (uint64_t)kb * 1024 : otherwise;
}

static const DeviceOps cpu_ops = {
    .alloc = cpu_alloc,
    .alloc_fenced = cpu_alloc_fenced,
    .release = cpu_release,
    .upload = cpu_upload,
    .download = cpu_download,
    .copy = cpu_copy,
    .fill = cpu_fill,
    .stream = cpu_stream,
    .load = cpu_load,
    .unload = cpu_unload,
    .launch = cpu_launch,
    .sync = cpu_sync,
    .use_stream = cpu_use_stream,
    .time_begin = cpu_time_begin,
    .time_end = cpu_time_end,
    .flush = cpu_flush,
    .close = cpu_close,
};

RtError device_open_cpu(Device *d) {
    *d = (Device){.ops = &cpu_ops, .impl = calloc(1, sizeof(Cpu))};
    if (!d->impl) return rt_error(RT_MISSING, "out of memory");
    d->num_cores = d->num_sms = usable_cores();
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    d->memory_bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    d->free_bytes = available_memory(d->memory_bytes);
    describe(d);
    return rt_ok();
}
