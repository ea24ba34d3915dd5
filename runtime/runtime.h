/* From an artifact to a checked and timed result, in a disposable worker process. The library
 * never exits and never prints; every outcome is a status (statuses.def) with a sentence.
 *
 * rt_run, rt_verify and rt_bench fork a worker, which holds what judges (inputs, reference, hashes,
 * guard zones), and beside it a process that loads and executes the code and hands back bytes: a
 * kernel that hangs, faults or aborts becomes a status, and none can write its own verdict. The
 * calling process must not have initialised CUDA before. */
#ifndef RUNTIME_RUNTIME_H
#define RUNTIME_RUNTIME_H

#include "artifact.h"
#include "support.h"

typedef enum {
#define RT_STATUS(id, name, code, summary) RT_##id,
#include "statuses.def"
#undef RT_STATUS
    RT_STATUS_COUNT
} RtStatus;
const char *rt_status_name(RtStatus status); /* "input_modified" */
int rt_status_exit_code(RtStatus status);

enum { RT_TEXT = 512, RT_NAME = 72 };
typedef struct {
    RtStatus status;
    char text[RT_TEXT]; /* a sentence; "" when there is nothing to add */
} RtError;
RtError rt_ok(void);
RtError rt_error(RtStatus status, const char *format, ...) PRINTF_LIKE(2, 3);
static inline bool rt_failed(const RtError *e) {
    return e->status != RT_OK;
}

typedef struct {
    const char *name;
    int64_t value;
} RtSymbol;
typedef struct {
    const char *name;
    double value;
} RtScalar;
typedef struct {
    const char *name, *path;
} RtFile;

/* All zero is the default of each. */
typedef struct {
    uint64_t seed;
    double time_limit_s;   /* per case; 0: 60 */
    uint64_t max_bytes;    /* tensor bytes of a case; 0: a quarter of the device's memory (CPU: of
                              the available main memory). A larger case is skipped visibly */
    const char *case_name; /* only these cases (never skipped for their size), commas between; null: all */
    size_t symbol_count;   /* override a case's symbols; for run: symbols no tensor binds */
    const RtSymbol *symbols;
    size_t scalar_count;
    const RtScalar *scalars;
    const char *cache_dir;   /* null: $XDG_CACHE_HOME/sketchc or ~/.cache/sketchc; "": no cache */
    bool no_ragged;          /* verify: the declared cases only */
    bool exact;              /* verify: inputs are small integers, and what the operator makes of them without
                   rounding must be met bit for bit */
    bool warm;               /* bench: leave the L2 cache warm between samples */
    const char *baseline;    /* bench: a command that answers the protocol of docs/cli.md; null: none */
    unsigned samples;        /* bench: 0: as many as fit into about a second, 10 to 100 */
    double give_up_s;        /* bench: a case of which two launches in turn take longer is SLOW and timed
                              once; 0: none */
    const char *peak_arch;   /* bench: the described machine's architecture, sm_90a; null: none is */
    double peak_gb_per_s;    /* its memory's highest figure */
    double peak_products_sm; /* 16-bit multiply-adds a second of a multiprocessor; 0: not known */
    double peak_cache_bytes;
    unsigned device;  /* CUDA ordinal */
    unsigned threads; /* for the reference and inputs; 0: all */
    /* In the calling process: what now begins, such as "3 of 20, small: the first launch"; null: nobody asks. */
    void (*on_progress)(void *context, const char *doing);
    void *progress_context;
} RtOptions;

/* ---- run ---- */

/* Runs the artifact once on .npy files; symbols are bound from the inputs' shapes and the options.
 * Outputs (also inouts) are written to `outputs`' paths, each replaced atomically. An inout tensor
 * needs an input. Guard zones, poisoned outputs and input hashes are checked as in verify. */
RtError rt_run(const Artifact *a, const RtOptions *options, size_t input_count, const RtFile *inputs, size_t output_count,
               const RtFile *outputs);

/* ---- verify ---- */

/* What the worker found for one case. Plain data: it travels through a pipe. */
typedef struct {
    RtStatus status;
    char name[RT_NAME];   /* case name; "ragged 3" for derived sizes */
    char sizes[256];      /* "B=2 F=7" */
    char check[RT_NAME];  /* the named check that decided, "" when passed */
    char text[RT_TEXT];   /* what was found where, or why it was skipped */
    char tensor[RT_NAME]; /* worst output tensor */
    double worst_ratio;   /* largest |error| / bound */
    double rms_ratio;     /* rms of |error| / bound */
    double max_error;
    uint64_t compared;  /* elements compared with the reference */
    uint64_t elements;  /* elements of the outputs */
    uint64_t unknown;   /* elements without a bound: what came out is other than the reference, or no number */
    uint64_t undecided; /* elements at a discontinuity where either outcome passes */
    bool sampled;       /* compared on samples, not everywhere */
    bool by_naive;      /* an output with its naive form, compiled; where that differs by more than `within`, by the evaluator */
    double within;      /* in roundings of the output's dtype */
    double hidden_element, hidden_tile; /* chance that one wrong element, and a wrong tile, is at no sample */
    int64_t tile[2];                    /* rows and columns of that tile */
    char why_sampled[RT_NAME];          /* why the naive form was not used */
    bool paper_rule, kernelbench_rule;  /* the two published rules, reported beside ours */
    char digest[33];                    /* of the outputs' bytes, in hexadecimal: equal digests, equal bits */
    double seconds;
} RtVerdict;

typedef struct {
    RtError error; /* why nothing could be verified, or the worst case's status */
    size_t count, passed, failed, skipped;
    RtVerdict *verdicts;  /* arena */
    size_t missing_count; /* branches on sizes of which a way was gone at no verified size, each a sentence with its place */
    const char **missing; /* arena */
} RtVerifyReport;
/* Runs every fitting case and derived ragged sizes; a passing report has at least one passed case,
 * none failed and no branch on sizes that was not taken: else it is INCOMPLETE. */
RtVerifyReport rt_verify(const Artifact *a, const RtOptions *options, Arena *arena);

/* ---- bench ---- */

typedef struct {
    RtStatus status;
    char name[RT_NAME];
    char sizes[256];
    char text[RT_TEXT];
    unsigned samples;
    double median_s, p5_s, p95_s;
    double noise;   /* (p95 - p5) / median */
    double first_s; /* first launch, cold start included */
    uint64_t bytes; /* each input read once, each output written once */
    double flops;   /* of contractions; 0: none */
    double gb_per_s, tflop_per_s;
    double copy_gb_per_s; /* measured in the same run, interleaved; 0: not measured */
    double percent_of_copy;
    double percent_of_read, null_s; /* by the calibration; 0: not measured */
    double baseline_s, speedup;     /* median of the baseline, in turn with ours; 0: none */
    double baseline_noise;
    bool warm;
    bool checked; /* the timed result was compared with the untimed one */
} RtTiming;

typedef struct {
    char entry[RT_NAME];
    int registers, shared_bytes, local_bytes, max_threads, blocks_per_sm;
    int threads;      /* of a block, as launched */
    double occupancy; /* part of a multiprocessor's threads that fit; 0: not known */
} RtKernelInfo;

enum { RT_MAX_KERNELS = 16 };
typedef struct {
    RtError error;
    char device[128];   /* "NVIDIA H200 (sm_90)", "x86-64 ..., 8 threads" */
    char code[RT_NAME]; /* how the code was loaded: "ptx by ptxas", "c by cc" */
    size_t count;
    RtTiming *timings; /* arena */
    unsigned kernel_count;
    RtKernelInfo kernels[RT_MAX_KERNELS];
} RtBenchReport;
RtBenchReport rt_bench(const Artifact *a, const RtOptions *options, Arena *arena);

/* What multiplies matrices, by the artifact's text: "f16 into f32 by wgmma, tf32 into f32 by mma.sync"; "multiply-adds" where the operator
 * has such a product and no tensor core does it; else empty. */
void rt_products(const Artifact *a, Str *out);

/* ---- calibrate ---- */

typedef struct {
    char device[128];
    double copy_gb_per_s, read_gb_per_s, fill_gb_per_s; /* copy: both directions together */
    double null_s;                                      /* an empty launch */
    uint64_t bytes;                                     /* that were moved in one direction */
} RtCeilings;
/* Measures the device in a worker and keeps the result in the cache, where bench finds it. */
RtError rt_calibrate(bool cpu, const RtOptions *options, RtCeilings *ceilings);
void rt_ceilings_json(const RtCeilings *ceilings, const RtError *error, Str *out);
void rt_ceilings_text(const RtCeilings *ceilings, const RtError *error, Str *out);

/* ---- in the caller's process, on the caller's buffers ---- */

typedef struct {
    const char *name;
    uint64_t address, bytes; /* device memory; host memory on the CPU */
} RtBuffer;
typedef struct RtKernel RtKernel;
/* Binds symbols and scalars of the options and a buffer of the exact size to each tensor, makes the
 * workspaces, chooses the launches for the addresses and loads the code. The device's primary
 * context becomes the calling thread's. `a` must outlive the kernel. */
RtError rt_kernel_open(const Artifact *a, const RtOptions *options, const RtBuffer *buffers, size_t count, RtKernel **kernel);
/* Puts all steps on a CUDA stream (null: the default stream) of the current context; on the CPU
 * returns when done. */
RtError rt_kernel_launch(RtKernel *kernel, void *stream);
/* The launches, with registers and occupancy: docs/schemas/kernel.schema.json. */
void rt_kernel_json(const RtKernel *kernel, Str *out);
void rt_kernel_close(RtKernel *kernel); /* null is allowed; waits for what was launched last */

/* ---- output: one JSON object each, docs/schemas/{run,verify_report,bench}.schema.json ---- */

void rt_run_json(const Artifact *a, const RtError *error, Str *out);
void rt_verify_json(const Artifact *a, const RtVerifyReport *report, Str *out);
void rt_bench_json(const Artifact *a, const RtBenchReport *report, Str *out);
/* The same for people, one line a case; of the ragged sizes without `verbose` only those that did not
 * pass, and a line that sums up the others. */
void rt_verify_text(const Artifact *a, const RtVerifyReport *report, bool verbose, Str *out);
void rt_bench_text(const Artifact *a, const RtBenchReport *report, Str *out);

/* ---- code ---- */

/* The artifact's code as a cubin for its architecture, by ptxas or nvcc (else NVRTC); no device is
 * needed. `cubin` is initialised. */
RtError rt_cubin(const Artifact *a, const char *cache_dir, Str *cubin);

/* ---- cache ---- */

typedef struct {
    char dir[1024];
    uint64_t entries, bytes, limit;
} RtCacheInfo;
bool rt_cache_info(const char *cache_dir, RtCacheInfo *info); /* false: there is none yet */
/* Removes every entry; the number removed. */
uint64_t rt_cache_clear(const char *cache_dir);

/* ---- doctor ---- */

typedef struct {
    bool found;
    char path[1024];   /* "" when not found */
    char version[256]; /* or what is missing */
} RtTool;
void rt_probe_cc(RtTool *tool);
void rt_probe_ptxas(RtTool *tool);
void rt_probe_nvcc(RtTool *tool);
void rt_probe_nvrtc(RtTool *tool);
/* Initialises the driver in a worker; version is "NVIDIA H200, sm_90, driver 13.0". */
void rt_probe_cuda(RtTool *tool);
/* The architecture of device 0 ("sm_90"), or false. For --arch=native. In a worker; where this process has started CUDA, here, of its
 * current device. */
bool rt_native_arch(char arch[32]);

#endif
