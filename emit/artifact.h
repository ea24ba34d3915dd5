/* The artifact: the contract between emitters and runtime. A launch plan with code, and the
 * operator's graph module with its cases as text IR, so that a machine without the compiler can
 * run, verify and time it. On disk: `.ska`, versioned and checksummed.
 * docs/decisions/artifact.md, docs/schemas/artifact.schema.json.
 *
 * Formulas are `Aff` over the artifact's symbols, in its own context. Everything lives in the
 * arena given at creation. Includes support only: the reading half links without IR. */
#ifndef EMIT_ARTIFACT_H
#define EMIT_ARTIFACT_H

#include "affine.h"
#include "dtype.h"
#include "support.h"

/* The format and its bounds, by which a reader refuses a damaged file before it takes memory for it. */
enum {
    ARTIFACT_FORMAT = 1, /* version of the on-disk format; another one is refused */
    ARTIFACT_MAX_RANK = 8,
    ARTIFACT_MAP_RANK = 5,
    ARTIFACT_MAX_PARAMS = 256,
    ARTIFACT_MAX_STEPS = 1024,
    ARTIFACT_MAX_VERSIONS = 4,
    ARTIFACT_MAX_NAME = 64, /* bytes of a name without its NUL */
    ARTIFACT_MAX_BLOBS = 64,
    ARTIFACT_MAX_ALIGN = 256
};

typedef enum { ARTIFACT_CPU, ARTIFACT_CUDA, ARTIFACT_TARGET_COUNT } ArtifactTarget;
typedef enum {
    ARTIFACT_TENSOR,
    ARTIFACT_SYMBOL,
    ARTIFACT_SCALAR,
    ARTIFACT_WORKSPACE,
    ARTIFACT_MAP, /* a tensor map, which the runtime makes at launch */
    ARTIFACT_PARAM_KIND_COUNT
} ArtifactParamKind;
/* Bits of a direction. */
enum { ARTIFACT_IN = 1, ARTIFACT_OUT = 2, ARTIFACT_INOUT = 3 };
typedef enum { ARTIFACT_PTX, ARTIFACT_CUBIN, ARTIFACT_CUDA_C, ARTIFACT_C, ARTIFACT_SO, ARTIFACT_BLOB_KIND_COUNT } ArtifactBlobKind;
typedef enum { ARTIFACT_KERNEL, ARTIFACT_MEMSET, ARTIFACT_STEP_KIND_COUNT } ArtifactStepKind;

typedef struct {
    ArtifactParamKind kind;
    const char *name;
    const char *graph_name; /* TENSOR, SYMBOL, SCALAR: what the operator calls it; null: the same */
    Dtype dtype;            /* TENSOR, SCALAR, WORKSPACE */
    unsigned direction;     /* TENSOR: ARTIFACT_IN, _OUT, _INOUT */
    unsigned rank;          /* TENSOR, MAP */
    const Aff *extents[ARTIFACT_MAX_RANK];
    bool strided; /* TENSOR: it lies in memory by `strides`, in elements; else row-major without gaps */
    const Aff *strides[ARTIFACT_MAX_RANK];
    const Aff *derived;  /* SYMBOL computed from others; itself for num_sms, num_cores; else null */
    const Aff *elements; /* WORKSPACE */
    double fallback;     /* SCALAR: its default; NaN: none, the caller must give it */
    /* MAP: of tensor or workspace number `tensor` (a workspace's extents are the map's), read in boxes of `box` elements along its `rank` axes, in its dtype;
     * 16-byte pieces permuted within `swizzle` bytes; zero outside of the tensor; tf32: f32 rounded to it. joined: rows of the map are so many rows of
     * the tensor, each begins one of them further on (0, 1: rows are the tensor's). */
    unsigned tensor, swizzle, joined;
    bool tf32;
    unsigned box[ARTIFACT_MAP_RANK];
} ArtifactParam;

typedef struct {
    const Aff *expr; /* holds when expr == 0 (equal) or expr >= 0 */
    bool equal;
    const char *text; /* as the user wrote it */
} ArtifactConstraint;

typedef struct {
    const char *name;  /* a constexpr that was taken at compile time */
    const char *value; /* as text: "64", "1e-05", "f16" */
} ArtifactConstexpr;

/* One compiled form of a kernel step. Its arguments are passed by value in order: pointers for
 * tensors and workspaces, int64_t for symbols, the scalar's own dtype for scalars, 128 bytes aligned to
 * 64 for tensor maps. */
typedef struct {
    const char *entry;
    const Aff *guard; /* may run when > 0; null: always */
    /* May run when the addresses of its tensors and workspaces are multiples of so many bytes; 0:
     * always. */
    unsigned pointer_align;
    const Aff *grid[3]; /* x, y, z; CUDA only */
    unsigned block_threads;
    const Aff *shared_bytes; /* dynamic shared memory */
    unsigned cluster[3];     /* 1,1,1: no cluster */
    bool cooperative;
    bool dependent;         /* may begin before the kernel of a step before it is over, and waits for that itself (sm_90 on) */
    unsigned max_registers; /* register cap for ptxas and the driver's JIT; 0: none */
    size_t arg_count;
    const unsigned *args; /* indices into params */
} ArtifactVersion;

typedef struct {
    ArtifactStepKind kind;
    const char *name;
    size_t version_count; /* KERNEL: in order of preference, the first whose guard holds runs */
    ArtifactVersion *versions;
    unsigned param; /* MEMSET: a tensor or workspace, filled with `byte` */
    unsigned byte;
} ArtifactStep;

/* The same kernels in one form of code. The runtime takes the first kind it can load. Text kinds
 * are NUL-terminated beyond `size`. */
typedef struct {
    ArtifactBlobKind kind;
    const char *arch;
    const unsigned char *data;
    size_t size;
} ArtifactBlob;

typedef struct Artifact {
    Arena *arena;
    AffCtx *affs;
    const char *name;
    ArtifactTarget target;
    const char *arch;
    const char *tool_version;
    bool unordered; /* float sums whose terms come in no fixed order: last bits differ by launch */
    size_t constexpr_count;
    ArtifactConstexpr *constexprs;
    size_t param_count;
    ArtifactParam *params; /* in declared order: tensors, symbols, scalars, workspaces, maps */
    size_t constraint_count;
    ArtifactConstraint *constraints;
    size_t step_count;
    ArtifactStep *steps;
    size_t blob_count;
    ArtifactBlob *blobs;
    const char *graph;  /* text IR: the operator (without it `verify` is refused) and the cases; may
                          be null */
    const char *sketch; /* text IR: the tile functions as they were written, for the sizes that verification chooses; may be null */
} Artifact;

const char *artifact_target_name(ArtifactTarget target);
const char *artifact_blob_kind_name(ArtifactBlobKind kind);
bool artifact_blob_kind_find(const char *name, ArtifactBlobKind *kind);
/* Index of a parameter, or -1. */
int artifact_find_param(const Artifact *a, const char *name);

/* ---- File form (artifact_write.c, artifact_read.c) ---- */

/* The `.ska` bytes; the same artifact gives the same bytes. */
void artifact_write(const Artifact *a, Str *out);
/* Reads and checks everything: header, checksum, schema, names, formulas over known symbols,
 * indices, limits. On damage null, with a sentence in `error` (arena). */
Artifact *artifact_read(Arena *arena, const void *data, size_t size, const char **error);
/* The structural checks alone, for an artifact made in memory: null when well formed, else a
 * sentence. */
const char *artifact_check(const Artifact *a, Arena *scratch);

/* ---- From IR (artifact_build.c) ---- */

struct IrModule;
struct IrFunc;
typedef struct {
    const char *param;      /* the sketch's name */
    const char *graph_name; /* the operator's */
} ArtifactRename;
typedef struct {
    const struct IrModule *kernels; /* kernel-level functions; those sharing `kernel` are versions */
    const struct IrFunc *signature; /* the sketch at tile or graph level: tensor extents, declared
                                       order, constraints; null: the first kernel's own */
    const struct IrModule *graph;   /* holds the operator and cases (other functions are left
                                       out; may be `kernels`); may be null */
    const char *sketch;             /* text IR of the tile functions; may be null */
    const char *name, *arch, *tool_version;
    ArtifactTarget target;
    size_t constexpr_count;
    const ArtifactConstexpr *constexprs;
    size_t rename_count; /* tensors and scalars that the operator names otherwise */
    const ArtifactRename *renames;
    size_t blob_count;
    const ArtifactBlob *blobs;
} ArtifactSpec;
/* Copies all it needs. Null with a sentence in `error` when the functions' attributes do not make
 * a plan (a bug of a pass). */
Artifact *artifact_from_module(Arena *arena, const ArtifactSpec *spec, const char **error);

#endif
