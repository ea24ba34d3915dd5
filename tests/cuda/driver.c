/* libcuda.so.1 without a GPU: what runtime/cuda/cuda_driver.def names, on the machine of machine.h. A module is a shared
 * library that ./nvcc made. From the environment: CUDA_CPU_SEED (of the orders), CUDA_CPU_SMS, CUDA_CPU_MEMORY (bytes). */
#define _GNU_SOURCE
#include "cuda/cuda_driver.h"
#include "maps.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    INVALID_VALUE = 1,
    NOT_INITIALIZED = 3,
    INVALID_CONTEXT = 201,
    INVALID_IMAGE = 200,
    NOT_FOUND = 500,
    SHARED_USUAL = 48 << 10,
    SHARED_MOST = 227 << 10
};

static int64_t setting(const char *name, int64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoll(text, NULL, 0) : otherwise;
}

/* ---- The device ---- */

static pid_t started; /* the process that called cuInit; one that it forks cannot use CUDA, as with the true driver */

EXPORT CUresult cuInit(unsigned flags) {
    if (started && started != getpid()) return NOT_INITIALIZED;
    started = getpid();
    machine.random = (uint64_t)setting("CUDA_CPU_SEED", 1);
    return flags ? INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version) {
    *version = 13000;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **text) {
    *text = error == INVALID_VALUE   ? "CUDA_ERROR_INVALID_VALUE"
            : error == INVALID_IMAGE ? "CUDA_ERROR_INVALID_IMAGE"
            : error == NOT_FOUND     ? "CUDA_ERROR_NOT_FOUND"
                                     : "CUDA_ERROR_OUT_OF_MEMORY";
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text) {
    *text = "refused by the CUDA machine on the CPU";
    return error ? CUDA_SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuDeviceGetCount(int *count) {
    *count = 1;
    return started == getpid() ? CUDA_SUCCESS : NOT_INITIALIZED;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = ordinal;
    return ordinal ? INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
    snprintf(name, (size_t)size, "CUDA on the CPU");
    return device ? INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    switch (attribute) {
    case CUDA_DEV_SMS:
        *value = (int)setting("CUDA_CPU_SMS", 3);
        break;
    case CUDA_DEV_L2_BYTES:
        *value = 1 << 20;
        break;
    case CUDA_DEV_THREADS_SM:
        *value = 2048;
        break;
    case CUDA_DEV_MAJOR:
        *value = 9;
        break;
    case CUDA_DEV_MINOR:
        *value = 0;
        break;
    case CUDA_DEV_COOPERATIVE:
        *value = 1;
        break;
    case CUDA_DEV_SHARED_OPTIN:
        *value = SHARED_MOST;
        break;
    default:
        return INVALID_VALUE;
    }
    return device ? INVALID_VALUE : CUDA_SUCCESS;
}

static uint64_t memory_bytes(void) {
    return (uint64_t)setting("CUDA_CPU_MEMORY", (int64_t)1 << 30);
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    *bytes = memory_bytes();
    return device ? INVALID_VALUE : CUDA_SUCCESS;
}

static int nothing;

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    *context = (CUcontext)(void *)&nothing;
    return device ? INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    return device ? INVALID_VALUE : CUDA_SUCCESS;
}

static CUcontext current;

EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
    current = context;
    return context ? CUDA_SUCCESS : INVALID_VALUE;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
    *device = 0;
    return current ? CUDA_SUCCESS : INVALID_CONTEXT;
}

/* ---- Memory ---- */

EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
    *available = *total = memory_bytes();
    return CUDA_SUCCESS;
}

/* What a kernel finds that was launched before those ahead of it were over: memory as it was before the first of them, until it
 * has waited for them. */
typedef struct {
    unsigned char *data, *before, *after;
    size_t bytes;
} Piece;

static struct {
    Piece *pieces;
    size_t count;
    bool kept; /* `before` is what was there ahead of the last launch that waited for all, and of those early ones since */
} history;

static void forget_history(void) {
    for (size_t i = 0; i < history.count; i++) {
        free(history.pieces[i].before);
        history.pieces[i].before = NULL;
    }
    history.kept = false;
}

static unsigned char *copy_of(const Piece *p) {
    unsigned char *copy = malloc(p->bytes);
    if (copy) memcpy(copy, p->data, p->bytes);
    return copy;
}

static void keep_history(void) {
    forget_history();
    history.kept = true;
    for (size_t i = 0; i < history.count && history.kept; i++)
        history.kept = (history.pieces[i].before = copy_of(&history.pieces[i])) != NULL;
}

static bool turn_back(void) {
    for (size_t i = 0; i < history.count; i++) {
        Piece *p = &history.pieces[i];
        if (!(p->after = copy_of(p))) return false;
        memcpy(p->data, p->before, p->bytes);
    }
    return true;
}

static void turn_forward(void) {
    for (size_t i = 0; i < history.count; i++) {
        Piece *p = &history.pieces[i];
        if (memcmp(p->data, p->before, p->bytes) != 0) cpu_fault("memory was written before the launch ahead was waited for");
        memcpy(p->data, p->after, p->bytes);
        free(p->after);
        p->after = NULL;
    }
}

static bool note_piece(void *data, size_t bytes) {
    forget_history();
    Piece *grown = realloc(history.pieces, (history.count + 1) * sizeof *grown);
    if (!grown) return false;
    history.pieces = grown;
    history.pieces[history.count++] = (Piece){.data = data, .bytes = bytes};
    return true;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    enum { ALIGN = 512 };
    void *p = NULL;
    if (!bytes || posix_memalign(&p, ALIGN, bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
    memset(p, POISON, bytes);
    if (!note_piece(p, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = (uintptr_t)p;
    return CUDA_SUCCESS;
}

static void *at(CUdeviceptr address) {
    return (void *)(uintptr_t)address;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
    forget_history();
    for (size_t i = 0; i < history.count; i++)
        if (history.pieces[i].data == at(address)) history.pieces[i--] = history.pieces[--history.count];
    free(at(address));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    (void)stream;
    forget_history();
    memcpy(at(to), from, bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    memcpy(to, at(from), bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    (void)stream;
    forget_history();
    memmove(at(to), at(from), bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t count, CUstream stream) {
    (void)stream;
    forget_history();
    memset(at(to), byte, count);
    return CUDA_SUCCESS;
}

/* ---- Streams and events: all is done when its call returns ---- */

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    (void)flags;
    *stream = (CUstream)(void *)&nothing;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream) {
    (void)stream;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
    (void)stream;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags) {
    (void)flags;
    *event = (CUevent)(void *)&nothing;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
    (void)event, (void)stream;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventSynchronize(CUevent event) {
    (void)event;
    return CUDA_SUCCESS;
}

/* No time is measured. */
EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to) {
    (void)from, (void)to;
    *milliseconds = 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event) {
    (void)event;
    return CUDA_SUCCESS;
}

/* ---- Modules ---- */

typedef struct Function {
    const Kernel *kernel;
    int dynamic_shared; /* that it may ask for */
    struct Function *next;
} Function;

struct CUmod_st {
    void *library;
    Function *functions; /* those that were asked for */
};

/* The sections' table stands at the file's end. */
static size_t image_bytes(const void *image) {
    Elf64_Ehdr head;
    if (memcmp(image, ELFMAG, SELFMAG) != 0) return 0;
    memcpy(&head, image, sizeof head);
    return head.e_shoff + (size_t)head.e_shnum * head.e_shentsize;
}

static void *open_image(const void *image, size_t bytes) {
    char path[64];
    int fd = memfd_create("kernel", MFD_CLOEXEC);
    if (fd < 0 || write(fd, image, bytes) != (ssize_t)bytes) return NULL;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    close(fd);
    return library;
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, int *options, void **values) {
    (void)count, (void)options, (void)values;
    size_t bytes = image_bytes(image);
    Dl_info self;
    /* A module finds the machine's functions by their names. */
    if (!dladdr(&nothing, &self) || !dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL)) return INVALID_IMAGE;
    CUmodule m = calloc(1, sizeof *m);
    if (!m) return CUDA_ERROR_OUT_OF_MEMORY;
    if (!bytes || !(m->library = open_image(image, bytes))) {
        free(m);
        return INVALID_IMAGE;
    }
    *module = m;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleUnload(CUmodule module) {
    dlclose(module->library);
    for (Function *f = module->functions, *next; f; f = next) {
        next = f->next;
        free(f);
    }
    free(module);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    char symbol[256];
    snprintf(symbol, sizeof symbol, "%s_on_cpu", name);
    const Kernel *kernel = dlsym(module->library, symbol);
    if (!kernel) return NOT_FOUND;
    Function *f = malloc(sizeof *f);
    if (!f) return CUDA_ERROR_OUT_OF_MEMORY;
    *f = (Function){kernel, SHARED_USUAL, module->functions};
    module->functions = f;
    *function = (CUfunction)(void *)f;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
    const Function *f = (const void *)function;
    *value = attribute == CUDA_FUNC_MAX_THREADS ? f->kernel->threads : 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    Function *f = (void *)function;
    if (attribute == CUDA_FUNC_MAX_DYNAMIC_SHARED) f->dynamic_shared = value;
    return attribute == CUDA_FUNC_MAX_DYNAMIC_SHARED && value > SHARED_MOST ? INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_threads, size_t shared_bytes) {
    (void)function, (void)block_threads, (void)shared_bytes;
    *blocks = 1;
    return CUDA_SUCCESS;
}

/* ---- Launches ---- */

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra) {
    const Function *f = (const void *)function;
    MachineLaunch l = {
        .kernel = f->kernel, .parameters = parameters, .threads = config->block[0], .cluster = 1, .shared_bytes = config->shared_bytes};
    unsigned long long blocks = 1;
    bool early = false;
    if (extra) return INVALID_VALUE;
    for (int i = 0; i < 3; i++) blocks *= l.grid[i] = config->grid[i];
    for (unsigned i = 0; i < config->attribute_count; i++) {
        const CUlaunchAttribute *a = &config->attributes[i];
        if (a->id == CUDA_LAUNCH_COOPERATIVE) l.cooperative = a->value.cooperative;
        if (a->id == CUDA_LAUNCH_DEPENDENT) early = a->value.dependent;
        if (a->id == CUDA_LAUNCH_CLUSTER) {
            if (a->value.cluster.y != 1 || a->value.cluster.z != 1) return INVALID_VALUE;
            l.cluster = a->value.cluster.x;
        }
    }
    if (!blocks || config->block[1] != 1 || config->block[2] != 1 || !l.threads || l.threads > MAX_BLOCK) return INVALID_VALUE;
    if (l.threads != (unsigned)f->kernel->threads || l.cluster != (unsigned)f->kernel->cluster) return INVALID_VALUE;
    if (l.cluster > MAX_CLUSTER || l.grid[0] % l.cluster || l.shared_bytes > (unsigned)f->dynamic_shared) return INVALID_VALUE;
    if (!early) keep_history();
    if (early && history.kept && turn_back()) l.over = turn_forward;
    machine_run(&l);
    return CUDA_SUCCESS;
}

/* CUDA's rules for a tiled map without interleaving. */
EXPORT CUresult cuTensorMapEncodeTiled(void *map, int dtype, unsigned rank, void *base, const uint64_t *extents, const uint64_t *strides,
                                       const unsigned *box, const unsigned *element_strides, int interleave, int swizzle, int l2_promotion,
                                       int fill) {
    static const unsigned sizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4};
    enum { PIECE = 16, MOST_BOX = 256, TYPE_TF32 = 11 };
    if (dtype < 0 || dtype >= (int)COUNT_OF(sizes) || rank < 1 || rank > MAP_RANK) return INVALID_VALUE;
    if (interleave || swizzle < 0 || swizzle > 3 || fill || l2_promotion < 0 || l2_promotion > 3) return INVALID_VALUE;
    TensorMap m = {.magic = MAP_MAGIC, .rank = (uint16_t)rank, .size = (uint16_t)sizes[dtype], .base = (uintptr_t)base};
    m.tf32 = dtype == TYPE_TF32;
    m.swizzle = swizzle ? (uint16_t)(PIECE << swizzle) : 0;
    if (m.base % PIECE || (uintptr_t)map % 64) return INVALID_VALUE;
    for (unsigned i = 0; i < rank; i++) {
        if (!extents[i] || extents[i] > (uint64_t)1 << 32 || !box[i] || box[i] > MOST_BOX || element_strides[i] != 1) return INVALID_VALUE;
        m.extents[i] = (uint32_t)(extents[i] - (extents[i] >> 32));
        m.box[i] = (uint16_t)box[i];
        if (i + 1 == rank) break;
        if (strides[i] % PIECE || strides[i] >= (uint64_t)1 << 40) return INVALID_VALUE;
        m.strides[i] = strides[i];
    }
    unsigned row = m.box[0] * m.size;
    if (row % PIECE || (m.swizzle && row > m.swizzle)) return INVALID_VALUE;
    memset(map, 0, 128);
    memcpy(map, &m, sizeof m);
    return CUDA_SUCCESS;
}
