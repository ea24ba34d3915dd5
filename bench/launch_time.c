/* Processor time of a launch: through a plan, through sketchc_launch with its checks, and, on a GPU, of the driver's own launch of a
 * kernel that does nothing.
 *
 *     cc -std=c17 -O2 -Iinclude bench/launch_time.c -o launch_time -Lbuild -lsketchc -ldl
 *     launch_time ARTIFACT.ska [N]         every symbol gets the value N (1), every tensor room for N * N * 8 bytes and more
 */
#include "sketchc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 64, BATCH = 500, ROUNDS = 200, ROOM = 1 << 20 };

typedef struct {
    void *library;
    int (*malloc_)(unsigned long long *address, size_t bytes);
    int (*wait)(void);
    int (*load)(void **module, const void *image);
    int (*find)(void **function, void *module, const char *name);
    int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                  void *stream, void **parameters, void **extra);
} Cuda;

static void find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
}

static Cuda open_cuda(void) {
    Cuda c = {.library = dlopen("libcuda.so.1", RTLD_NOW)};
    if (!c.library) return c;
    find(c.library, "cuMemAlloc_v2", &c.malloc_);
    find(c.library, "cuCtxSynchronize", &c.wait);
    find(c.library, "cuModuleLoadData", &c.load);
    find(c.library, "cuModuleGetFunction", &c.find);
    find(c.library, "cuLaunchKernel", &c.launch);
    return c;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

typedef struct {
    const Cuda *cuda; /* null: on the CPU */
    sketchc_launcher *launcher;
    sketchc_plan *plan;
    void *pointers[MOST], *workspace, *function;
    const sketchc_dltensor *tensors[MOST];
    size_t count;
    uint64_t bytes;
    char *message;
} Case;

static int by_plan(Case *c) {
    return sketchc_plan_launch(c->plan, c->pointers, c->count, c->workspace, NULL, &c->message);
}

static int by_tensors(Case *c) {
    return sketchc_launch(c->launcher, c->tensors, c->count, c->workspace, c->bytes, NULL, &c->message);
}

static int by_driver(Case *c) {
    int n = 1;
    void *parameters[1] = {&n};
    return c->cuda->launch(c->function, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL);
}

static int smaller(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median over batches, each of which fits into the driver's queue. */
static void report(const char *what, int (*call)(Case *c), Case *c) {
    double times[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        double begin = now();
        for (int j = 0; j < BATCH; j++)
            if (call(c) != 0) {
                printf("%s: failed: %s\n", what, c->message ? c->message : "");
                return;
            }
        times[i] = (now() - begin) / BATCH;
        if (c->cuda) c->cuda->wait();
    }
    qsort(times, ROUNDS, sizeof *times, smaller);
    printf("%-18s %7.0f ns (fastest batch %.0f)\n", what, times[ROUNDS / 2], times[0]);
}

static sketchc_artifact *read_artifact(const char *path) {
    static char data[1 << 24];
    FILE *f = fopen(path, "rb");
    size_t size = f ? fread(data, 1, sizeof data, f) : 0;
    sketchc_artifact *artifact;
    char *message;
    if (f) fclose(f);
    if (sketchc_artifact_read(data, size, &artifact, &message) == SKETCHC_OK) return artifact;
    fprintf(stderr, "%s: %s\n", path, message ? message : "cannot be read");
    exit(1);
}

/* The symbols' names, by the launcher's description. */
static size_t read_symbols(const char *info, int64_t value, sketchc_symbol *symbols) {
    size_t n = 0;
    const char *at = strstr(info, "\"symbols\":["), *end = strstr(info, "\"scalars\":[");
    while (at && n < MOST && (at = strstr(at, "{\"name\":\"")) && at < end) {
        at += strlen("{\"name\":\"");
        symbols[n++] = (sketchc_symbol){strndup(at, strcspn(at, "\"")), value};
    }
    return n;
}

static void give_memory(Case *c, size_t i, bool gpu) {
    unsigned long long address = 0;
    if (gpu)
        c->cuda->malloc_(&address, ROOM);
    else
        address = (uintptr_t)calloc(ROOM, 1);
    c->pointers[i] = (void *)(uintptr_t)address;
}

static void describe(Case *c, size_t i, const char *info, bool gpu) {
    static int64_t shapes[MOST][SKETCHC_MAX_RANK];
    static sketchc_dltensor tensors[MOST];
    (void)info;
    tensors[i].ndim = sketchc_plan_shape(c->plan, i, shapes[i], NULL);
    tensors[i].data = c->pointers[i];
    tensors[i].shape = shapes[i];
    tensors[i].device.type = gpu ? 2 : 1;
    tensors[i].dtype.code = 2, tensors[i].dtype.bits = 32, tensors[i].dtype.lanes = 1; /* f32 */
    c->tensors[i] = &tensors[i];
}

static void find_function(Case *c) {
    static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing(.param .u32 n) { ret; }\n";
    void *module;
    if (c->cuda->load(&module, ptx) != 0 || c->cuda->find(&c->function, module, "nothing") != 0) c->function = NULL;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    sketchc_artifact *artifact = read_artifact(arguments[1]);
    Cuda cuda = open_cuda();
    Case c = {0};
    sketchc_symbol symbols[MOST];
    if (sketchc_launcher_open(artifact, NULL, &c.launcher, &c.message) != SKETCHC_OK) return fprintf(stderr, "%s\n", c.message), 1;
    char *info = sketchc_launcher_info(c.launcher);
    bool gpu = strstr(info, "\"target\":\"cuda\"") != NULL;
    if (gpu) c.cuda = &cuda;
    size_t n = read_symbols(info, count > 2 ? atoll(arguments[2]) : 1, symbols);
    if (sketchc_plan_create(c.launcher, symbols, n, NULL, 0, &c.plan, &c.message) != SKETCHC_OK)
        return fprintf(stderr, "%s\n", c.message), 1;
    c.count = sketchc_launcher_tensor_count(c.launcher);
    for (size_t i = 0; i < c.count; i++) give_memory(&c, i, gpu);
    for (size_t i = 0; i < c.count; i++) describe(&c, i, info, gpu);
    c.bytes = sketchc_plan_workspace(c.plan);
    give_memory(&c, c.count, gpu);
    c.workspace = c.pointers[c.count];
    printf("%s\n", info);
    report("plan", by_plan, &c);
    report("tensors, checked", by_tensors, &c);
    if (gpu) find_function(&c);
    if (c.function) report("cuLaunchKernel", by_driver, &c);
    sketchc_free(info);
    return 0;
}
