/* What the files of runtime/ share. */
#ifndef RUNTIME_RUNTIME_INTERNAL_H
#define RUNTIME_RUNTIME_INTERNAL_H

#include "runtime.h"
#include "verify.h"

/* ---- status.c ---- */

/* Leaves the calling function with the error, if it is one. */
#define RT_TRY(call)                                                                                                                       \
    do {                                                                                                                                   \
        RtError try_ = (call);                                                                                                             \
        if (rt_failed(&try_)) return try_;                                                                                                 \
    } while (0)
void rt_copy(char *out, size_t size, const char *text); /* cut to fit, NUL-terminated */
double rt_now(void);                                    /* seconds, monotonic */
void *rt_alloc(size_t size);                            /* heap; null when there is none */

/* ---- bind.c: symbols, scalars and sizes of one launch ---- */

typedef struct {
    const Artifact *a;
    int64_t *symbols; /* by parameter index, as all of these */
    bool *bound;
    double *scalars;
    int64_t (*extents)[ARTIFACT_MAX_RANK];
    Placement *places;          /* of tensors with strides */
    uint64_t *elements, *bytes; /* tensors and workspaces; bytes: of memory, with what strides leave out */
    int64_t num_sms, num_cores;
} Binding;
void binding_init(Binding *b, Arena *arena, const Artifact *a, int64_t num_sms, int64_t num_cores);
RtError binding_set_symbol(Binding *b, const char *name, int64_t value);
RtError binding_set_scalar(Binding *b, const char *name, double value);
/* Both, of lists. */
RtError binding_set_all(Binding *b, const RtSymbol *symbols, size_t symbol_count, const RtScalar *scalars, size_t scalar_count);
/* Binds the bare symbols among a tensor's extents; a contradiction names both. */
RtError binding_set_shape(Binding *b, unsigned param, unsigned rank, const int64_t *extents);
/* Derived symbols, constraints, extents and sizes; everything must have a value. */
RtError binding_complete(Binding *b);
/* The extents of a given array agree with the bound ones. */
RtError binding_check_shape(const Binding *b, unsigned param, unsigned rank, const int64_t *extents);
bool binding_eval(const Binding *b, const Aff *e, int64_t *value);
uint64_t binding_element_bytes(const Binding *b, size_t param); /* of the elements alone */
uint64_t binding_tensor_bytes(const Binding *b);                /* memory of all tensors and workspaces */
uint64_t binding_traffic_bytes(const Binding *b);               /* each tensor read or written once */
void binding_print(const Binding *b, char *out, size_t size);   /* "B=2 F=7" */
/* "[2, 7]" */
void rt_print_shape(char *out, size_t size, unsigned rank, const int64_t *extents);

/* ---- plan.c: the steps of one launch, evaluated ---- */

typedef struct {
    const ArtifactStep *step;
    const ArtifactVersion *version; /* KERNEL */
    unsigned step_index, version_index;
    uint32_t grid[3];
    uint32_t shared_bytes;
    bool skip;      /* a zero-size grid */
    bool dependent; /* launched while the kernel of a step before may still run */
} Launch;
/* Addresses by parameter index; null: not known yet, taken as aligned. */
RtError plan_launches(const Binding *b, Arena *arena, const uint64_t *addresses, Launch **launches, size_t *count);
/* Of one step all versions that may run at these sizes, in order of preference, until one that takes any address: ARTIFACT_MAX_VERSIONS
 * at most. */
RtError plan_versions(const Binding *b, unsigned step, Launch *launches, size_t *count);
bool plan_is_aligned(const Artifact *a, const ArtifactVersion *v, const uint64_t *addresses);
/* Memory that a launch reads or writes. */
typedef struct {
    uint64_t begin, end;
    const char *name;
    bool written;
} MemoryRange;
/* What is written must not overlap anything else. */
RtError plan_check_ranges(const MemoryRange *ranges, size_t count);
/* The same of tensors and workspaces; addresses by parameter index. */
RtError plan_check_overlap(const Binding *b, const uint64_t *addresses);

/* ---- npy.c ---- */

typedef struct {
    char descr[16]; /* "<f4" */
    bool fortran;
    unsigned rank;
    int64_t extents[ARTIFACT_MAX_RANK];
    uint64_t elements;
    size_t data_offset;
} NpyHeader;
/* Parses the head of a .npy file; false with a sentence. */
bool npy_parse(const unsigned char *data, size_t size, NpyHeader *header, char error[RT_TEXT]);
typedef struct {
    int fd;
    uint64_t size;
    NpyHeader header;
} NpyFile;
RtError npy_open(NpyFile *file, const char *name, const char *path, Dtype dtype);
RtError npy_read_data(NpyFile *file, const char *path, void *data, uint64_t bytes);
void npy_close(NpyFile *file);
enum { NPY_HEADER = 256 }; /* bytes of a header that npy_print_header writes */
void npy_print_header(char out[NPY_HEADER], Dtype dtype, unsigned rank, const int64_t *extents);

/* ---- cache.c ---- */

typedef struct {
    char dir[1024]; /* "": no cache */
} Cache;
void cache_open(Cache *cache, const char *dir);
/* The payload of an entry; a missing or damaged one is a miss. */
bool cache_get(const Cache *cache, Hash128 key, const char *suffix, Str *payload);
/* The entry's path, whose file begins with the payload. */
void cache_path(const Cache *cache, Hash128 key, const char *suffix, char *out, size_t size);
/* Best effort: a cache that cannot be written is no error. */
void cache_put(const Cache *cache, Hash128 key, const char *suffix, const void *payload, size_t size);

/* ---- tempdir.c: a private folder for compilers' input and output ---- */

typedef struct {
    char path[512];
} TempDir;
RtError temp_dir_create(TempDir *dir);
void temp_dir_file(const TempDir *dir, const char *name, char *out, size_t size);
RtError temp_dir_write(const TempDir *dir, const char *name, const void *data, size_t size);
void temp_dir_remove(TempDir *dir); /* with the files in it */

/* ---- tools.c: looking for compilers ---- */

/* `name` in PATH, then in CUDA_HOME/bin (when `cuda`) and the usual place; an absolute path. */
bool tool_find(const char *name, bool cuda, char *out, size_t size);
/* Mixes the file's identity (path, size, time) into a cache key. */
Hash128 tool_identity(const char *path, Hash128 seed);
/* The system compiler as argv words ($CC may hold several); the number of words, 0 when not found.
 */
enum { TOOL_MAX_WORDS = 16 };
size_t tool_cc(Arena *arena, const char *words[TOOL_MAX_WORDS]);
/* Runs a compiler; a failure becomes `status` with the first lines of its messages. */
RtError tool_run(const char *const *argv, RtStatus status, Str *messages);

#endif
