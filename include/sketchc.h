/* libsketchc: compile .sketch files, run, verify and time the kernels.
 *
 * Handles are opaque. The library never exits, never prints, keeps no global state: calls on
 * different handles may run in different threads. Text and bytes that a call returns through
 * `char **` belong to the caller and are freed with sketchc_free. Structs that callers fill start
 * with `size`, set to sizeof the struct, so that later versions may add fields at the end.
 *
 * Where memory runs out, calls with a status return SKETCHC_OUT_OF_MEMORY (workers of run, verify and bench: SKETCHC_MISSING), others
 * null or 0. Not within LLVM, of nvptx: its own allocations end the process when they fail, and nothing in C can prevent that.
 *
 * A pointer may be null where its comment says so, and besides: options (the defaults), path and format of a call ("text"),
 * message, a list whose count is 0, and what is destroyed, closed or freed. No other may.
 *
 * An artifact, or a sketch that is run, verified or timed, is code that runs as the calling user: worker processes guard against
 * faults and against a verdict that is forged, and hide the environment, but they are no sandbox. */
#ifndef SKETCHC_H
#define SKETCHC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SKETCHC_API __attribute__((visibility("default")))
#else
#define SKETCHC_API
#endif

/* Version of this interface, which rises when something is added; a program needs a library whose sketchc_api_version is not below
 * the one that it was compiled with. 2: sketchc_launcher, sketchc_plan. */
#define SKETCHC_API_VERSION 2

/* Statuses are the driver's exit codes. */
typedef enum {
    SKETCHC_OK = 0,
    SKETCHC_SOURCE_ERROR = 1, /* diagnostics say what and where */
    SKETCHC_USAGE_ERROR = 2,
    SKETCHC_VERIFY_FAILED = 3,
    SKETCHC_MISSING = 4,       /* a tool, device or library that this machine lacks */
    SKETCHC_BUG = 5,           /* ours; diagnostics carry a reproducer where there is one */
    SKETCHC_OUT_OF_MEMORY = 6, /* nothing of the call is left, results are null; handles can be used again, a unit has no diagnostics */
    SKETCHC_TIME_LIMIT = 124,
    SKETCHC_INTERRUPTED = 130
} sketchc_status;

SKETCHC_API const char *sketchc_version(void); /* "0.1.0" */
SKETCHC_API unsigned sketchc_api_version(void);
SKETCHC_API const char *sketchc_llvm_version(void); /* null: built without the PTX target */
SKETCHC_API void sketchc_free(void *memory);

/* ---- Compiling ---- */

typedef struct sketchc_unit sketchc_unit;

typedef struct {
    const char *name, *value;
} sketchc_define;

typedef struct {
    size_t size;                   /* sizeof(sketchc_options) */
    const char *target;            /* "nvptx" (default; without LLVM "cuda"), "cuda", "openmp" */
    const char *arch;              /* "sm_80", "sm_90a", ..., "x86-64-v3"; null: the target's default */
    const char *target_file;       /* text of a target document that replaces the built-in one; null: none */
    const char *sketch;            /* which sketch of the file; null: the first */
    const sketchc_define *defines; /* -D NAME=VALUE */
    size_t define_count;
    bool strict_hints, deterministic, verify_each;
    const char *passes; /* a list that replaces the pipeline; null: the pipeline */
    const char *print_ir_after, *stop_after;
    const char *fault; /* tests only: a planted fault; null */
    /* Called before the passes run with the text IR that repeats them, for a crash handler; the text
     * lives until the unit's next call. May be null. */
    void (*on_reproducer)(void *context, const char *text, size_t size);
    void *context;
    const char *design; /* the style of the sketch that is made where the file has none; null: chosen */
    /* Called in the calling thread as a step of the work begins, with a word about it, "pass simplify"; it must return soon. May be null. */
    void (*on_progress)(void *context, const char *doing);
    void *progress_context;
    bool check;                 /* run and verify report index values outside of their axis and integer divisions by zero */
    const char *const *library; /* texts of files with an operator and a sketch of a product: the user's own library */
    size_t library_count;
} sketchc_options;

/* The library's sketches that are part of the program: name and text; null behind the last. */
SKETCHC_API const char *sketchc_library_name(size_t index);
SKETCHC_API const char *sketchc_library_text(size_t index);

/* Why the text is no file of a library: null: it is one. The caller frees it. */
SKETCHC_API char *sketchc_library_refuses(const char *text);

/* A unit holds one source text (copied) and all that is made from it. `path` is shown in
 * diagnostics. Null when out of memory. */
SKETCHC_API sketchc_unit *sketchc_unit_create(const char *path, const char *text, size_t size);
SKETCHC_API void sketchc_unit_destroy(sketchc_unit *unit);

/* Parses and checks; sketchc_compile and sketchc_emit do so by themselves. */
SKETCHC_API sketchc_status sketchc_check(sketchc_unit *unit, const sketchc_options *options);

/* Output forms: "ast", "graph", "tile" (as built), "kernel" (after all passes), "llvm", "ptx",
 * "cubin" (by CUDA's tools), "cuda", "c", "artifact"; null: the target's code. Without a target a form
 * of code chooses one. On success *data holds `size` bytes, with a NUL behind them. A
 * unit may be emitted several times, with different options. */
SKETCHC_API sketchc_status sketchc_emit(sketchc_unit *unit, const sketchc_options *options, const char *form, char **data, size_t *size);

/* As sketchc_emit for forms that are text (*data is NUL-terminated); (*lines)[i] is the line of the source, from 1, that line i
 * of the text comes from, 0 where it comes from none. The caller frees both. */
SKETCHC_API sketchc_status sketchc_emit_lines(sketchc_unit *unit, const sketchc_options *options, const char *form, char **data,
                                              uint32_t **lines, size_t *line_count);

/* One self-contained HTML page about the sketch: source, tile IR, kernel IR and code side by side with their lines linked,
 * layouts as pictures, launches. *text is NUL-terminated, the caller frees it. */
SKETCHC_API sketchc_status sketchc_explain_page(sketchc_unit *unit, const sketchc_options *options, char **text, size_t *size);

/* How long the kernels should take at each case by the cost model of the target: the binding roof, the
 * predicted part of the floor (each tensor moved once at the ceilings), and why. "text" or "json"
 * (docs/schemas/prediction.schema.json). Where the target's ceilings are not known (processors), it says so. */
SKETCHC_API sketchc_status sketchc_predict(sketchc_unit *unit, const sketchc_options *options, const char *format, char **report);

/* The source in the one style of .sketch files; *text is NUL-terminated, caller frees. A source that does not parse is
 * SKETCHC_SOURCE_ERROR, with diagnostics. */
SKETCHC_API sketchc_status sketchc_format(sketchc_unit *unit, char **text, size_t *size);

/* The grammar of sketches in that style, made from the parser's, for decoders that take one: "gbnf" (llama.cpp's notation) or
 * "ebnf" (the W3C's). Four spaces a level, at most 9 blocks one in another. Static; null for another form. */
SKETCHC_API const char *sketchc_grammar(const char *form);

/* ---- Design: sketches for an operator, made by rules ---- */

/* The ways in which a sketch can be designed, from 0. The first are naive: one output tile, no hints;
 * they are what others are compared with. */
SKETCHC_API size_t sketchc_design_count(void);
SKETCHC_API const char *sketchc_design_name(size_t style);
SKETCHC_API bool sketchc_design_is_naive(size_t style);
/* A file of its own, formatted: the unit's operator and a sketch OPERATOR_STYLE for it. The same operator
 * and style give the same text. Some styles do not fit some operators: then SKETCHC_SOURCE_ERROR, or a
 * text that fails to compile. *text is NUL-terminated, caller frees. */
SKETCHC_API sketchc_status sketchc_design(sketchc_unit *unit, const sketchc_options *options, size_t style, char **text, size_t *size);

/* Diagnostics of the last call: "text", "color" (text with terminal colours), "json", "sarif";
 * "brief", "brief-color": as "text", "color", but one line for all hints that are not followed. */
SKETCHC_API char *sketchc_diagnostics(const sketchc_unit *unit, const char *format);
SKETCHC_API unsigned sketchc_error_count(const sketchc_unit *unit);
/* What --print-ir-after wrote, and the times of -ftime-report; "" when nothing was asked for. */
SKETCHC_API char *sketchc_ir_dump(const sketchc_unit *unit);
SKETCHC_API char *sketchc_time_report(const sketchc_unit *unit);
/* After SKETCHC_BUG: text IR and the command that repeats it; null otherwise. */
SKETCHC_API char *sketchc_reproducer(const sketchc_unit *unit);

/* The explanation of a diagnostic code ("E0101"), or null. Static. */
SKETCHC_API const char *sketchc_explain(const char *code);

/* ---- Artifacts: run, verify, time ---- */

typedef struct sketchc_artifact sketchc_artifact;

/* Compiles `unit` to an artifact. */
SKETCHC_API sketchc_status sketchc_compile(sketchc_unit *unit, const sketchc_options *options, sketchc_artifact **artifact);
/* Reads the bytes of a .ska file; on failure *message says why (caller frees). */
SKETCHC_API sketchc_status sketchc_artifact_read(const void *data, size_t size, sketchc_artifact **artifact, char **message);
SKETCHC_API void sketchc_artifact_destroy(sketchc_artifact *artifact);
/* 32 digits and a NUL, equal for artifacts with the same code and launches: names of sketches, comments, constexprs and the operator's
 * cases make no difference. */
SKETCHC_API sketchc_status sketchc_artifact_identity(const sketchc_artifact *artifact, char identity[33]);

typedef struct {
    const char *name;
    int64_t value;
} sketchc_symbol;
typedef struct {
    const char *name;
    double value;
} sketchc_scalar;
typedef struct {
    const char *name, *path;
} sketchc_file;

typedef struct {
    size_t size; /* sizeof(sketchc_run_options) */
    uint64_t seed;
    double time_limit_s;   /* of one case; 0: 60 */
    uint64_t max_bytes;    /* larger cases are skipped; 0: a quarter of the device's memory */
    const char *case_name; /* only this one or these, commas between, never skipped for their size; null: all */
    const sketchc_symbol *symbols;
    size_t symbol_count;
    const sketchc_scalar *scalars;
    size_t scalar_count;
    const char *cache_dir; /* null: the user's; "": none */
    bool no_ragged;        /* verify: declared cases only */
    bool warm;             /* bench: leave the cache warm between samples */
    unsigned samples;      /* bench; 0: chosen */
    unsigned device, threads;
    bool exact;                    /* verify: inputs are small integers; what can be exact must be met bit for bit */
    const char *baseline;          /* bench: a command that speaks the protocol of docs/cli.md; null: none */
    double give_up_s;              /* bench: a case whose launches take longer is "slow" and not timed to the end; 0: none */
    const sketchc_define *defines; /* symbols and scalars as text, for callers that do not know which a name is; also constexprs
                                      that the artifact was compiled with, at the same value. Of equal names the last counts. A
                                      name that there is not, or a value that is none, is SKETCHC_USAGE_ERROR */
    size_t define_count;
    void (*on_progress)(void *context, const char *doing); /* as in sketchc_options: "3 of 20, ragged 2: the first launch" */
    void *progress_context;
} sketchc_run_options;

/* Each runs in a disposable process and returns, besides the status, a report: "text", "verbose"
 * (sketchc_verify: a line for every ragged size) or "json" (docs/schemas/). The calling process must not have initialised CUDA. */
SKETCHC_API sketchc_status sketchc_run(const sketchc_artifact *artifact, const sketchc_run_options *options, const sketchc_file *inputs,
                                       size_t input_count, const sketchc_file *outputs, size_t output_count, const char *format,
                                       char **report);
SKETCHC_API sketchc_status sketchc_verify(const sketchc_artifact *artifact, const sketchc_run_options *options, const char *format,
                                          char **report);
SKETCHC_API sketchc_status sketchc_bench(const sketchc_artifact *artifact, const sketchc_run_options *options, const char *format,
                                         char **report);

/* ---- In the caller's process ----
 * For programs that hold their data already: nothing is copied, checked or timed, and a kernel that
 * faults takes the process's CUDA context with it. One thread at a time for each kernel. */

typedef struct sketchc_kernel sketchc_kernel;

typedef struct {
    const char *name; /* a tensor's, the sketch's or the operator's */
    void *data;       /* contiguous; device memory, host memory with -t openmp */
    uint64_t bytes;   /* exactly the tensor's; with strides from its first element to its last */
} sketchc_buffer;

/* Loads the code for one set of sizes (options->symbols, ->scalars) and buffers, on
 * options->device, whose primary context becomes the calling thread's; workspaces are made. The
 * artifact must outlive the kernel. On failure *message says why (caller frees). */
SKETCHC_API sketchc_status sketchc_kernel_open(const sketchc_artifact *artifact, const sketchc_run_options *options,
                                               const sketchc_buffer *buffers, size_t buffer_count, sketchc_kernel **kernel, char **message);
/* Puts the kernel's launches on a CUstream (null: the default stream) and returns; on the CPU runs them. */
SKETCHC_API sketchc_status sketchc_kernel_launch(sketchc_kernel *kernel, void *stream, char **message);
/* JSON: the launches with grid, block, cluster, registers and occupancy (docs/schemas/kernel.schema.json). */
SKETCHC_API char *sketchc_kernel_info(const sketchc_kernel *kernel);
/* Waits for the last launch. Null is allowed. */
SKETCHC_API void sketchc_kernel_close(sketchc_kernel *kernel);

/* ---- Launches whose pointers are known at the launch only ----
 * A launcher holds an artifact's code, loaded once; a plan what follows from one set of sizes. A launch of a plan allocates nothing, waits
 * for nothing and keeps no pointer: a CUDA graph may capture it. docs/decisions/launch.md. An argument that is null where none may
 * be is SKETCHC_USAGE_ERROR with a message. */

typedef struct sketchc_launcher sketchc_launcher;
typedef struct sketchc_plan sketchc_plan;

enum { SKETCHC_MAX_RANK = 8, SKETCHC_WORKSPACE_ALIGN = 256 };

/* Laid out as DLPack's DLTensor (versions 0.2 to 1.x), to which a pointer may be cast. */
typedef struct {
    void *data;
    struct {
        int32_t type, id; /* 1: CPU, 2: CUDA, 3: host memory of CUDA, 13: managed */
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits; /* 0: int, 1: unsigned, 2: float, 4: bfloat, 6: bool, 10: f8e4m3, 12: f8e5m2 */
        uint16_t lanes;     /* 1 */
    } dtype;
    const int64_t *shape;
    const int64_t *strides; /* in elements; null: contiguous */
    uint64_t byte_offset;
} sketchc_dltensor;

/* Loads the code on options->device, whose primary context becomes the calling thread's. The options' symbols and scalars count for
 * every plan. The artifact must outlive the launcher. On failure *message says why (caller frees). */
SKETCHC_API sketchc_status sketchc_launcher_open(const sketchc_artifact *artifact, const sketchc_run_options *options,
                                                 sketchc_launcher **launcher, char **message);
/* Waits for what was launched last on the CPU or the last stream, which must still exist; the context must be current. */
SKETCHC_API void sketchc_launcher_close(sketchc_launcher *launcher);
/* JSON: tensors, symbols and scalars in the order of the sketch (docs/schemas/launcher.schema.json). */
SKETCHC_API char *sketchc_launcher_info(const sketchc_launcher *launcher);
SKETCHC_API size_t sketchc_launcher_tensor_count(const sketchc_launcher *launcher);
/* A tensor's position by the sketch's or the operator's name; -1: there is none. */
SKETCHC_API int sketchc_launcher_tensor(const sketchc_launcher *launcher, const char *name);

/* A plan for sizes: values for all symbols and scalars that neither the launcher nor a default gives. Microseconds; not
 * while a stream is captured where it is the first. Of a plan whose launcher is closed nothing but sketchc_plan_destroy may be called. */
SKETCHC_API sketchc_status sketchc_plan_create(sketchc_launcher *launcher, const sketchc_symbol *symbols, size_t symbol_count,
                                               const sketchc_scalar *scalars, size_t scalar_count, sketchc_plan **plan, char **message);
SKETCHC_API void sketchc_plan_destroy(sketchc_plan *plan);
/* Bytes of memory that a launch wants besides the tensors, beginning at a multiple of SKETCHC_WORKSPACE_ALIGN; 0: none. Launches that may
 * run at the same time need one each. */
SKETCHC_API uint64_t sketchc_plan_workspace(const sketchc_plan *plan);
/* Shape and strides (in elements; may be null) of a tensor by its position, SKETCHC_MAX_RANK of each at most. Its rank; -1: no such tensor. */
SKETCHC_API int sketchc_plan_shape(const sketchc_plan *plan, size_t tensor, int64_t *shape, int64_t *strides);
/* Launches on a CUstream (null: the default stream) of the current context, on the CPU runs. pointers: where each tensor's first element
 * is, by position. What they point to is not checked. On the CPU any number of threads may launch a plan at the same time, on
 * a GPU those of one launcher wait for each other. */
SKETCHC_API sketchc_status sketchc_plan_launch(const sketchc_plan *plan, void *const *pointers, size_t pointer_count, void *workspace,
                                               void *stream, char **message);

/* Whether a plan may be launched with these tensors, by position, and this workspace: device, dtype, shape, strides and alignment of each,
 * and that none overlaps one that is written. For callers that check once and launch often. */
SKETCHC_API sketchc_status sketchc_plan_check(const sketchc_plan *plan, const sketchc_dltensor *const *tensors, size_t tensor_count,
                                              const void *workspace, uint64_t workspace_bytes, char **message);

/* As sketchc_plan_launch for tensors by position, of which device, dtype, shape, strides and alignment are checked, and that none
 * overlaps one that is written. Sizes are those of the tensors: the plan for them is made at the first launch and kept, the
 * last 64 of a launcher at most. Calls on one launcher wait for each other, on the CPU, too. */
SKETCHC_API sketchc_status sketchc_launch(sketchc_launcher *launcher, const sketchc_dltensor *const *tensors, size_t tensor_count,
                                          void *workspace, uint64_t workspace_bytes, void *stream, char **message);
/* What sketchc_launch wants as a workspace for these tensors, whose data are not looked at. */
SKETCHC_API sketchc_status sketchc_launch_workspace(sketchc_launcher *launcher, const sketchc_dltensor *const *tensors, size_t tensor_count,
                                                    uint64_t *bytes, char **message);

/* ---- This machine ---- */

/* What sketchc found: compilers, CUDA tools, devices, the cache. "text" or "json". */
SKETCHC_API char *sketchc_doctor(const char *format);
/* The machine in a few words, by the target's document and, of a processor, by what this one says of itself: "8 cores, vectors of 64
 * bytes, ..."; null when there is no such target. Caller frees. */
SKETCHC_API char *sketchc_machine(const sketchc_options *options);
/* The architecture that --arch=native means for a target; null when there is none. Caller frees. A GPU is asked in a process of its own;
 * where this one has started CUDA, which a fork could not use, it is asked here, and the current context's device counts. */
SKETCHC_API char *sketchc_native_arch(const char *target);
/* Measures what a device's memory gives (copy, read, fill, an empty launch) and keeps it in the cache,
 * where sketchc_bench finds it. target: "openmp" for the processor, else the GPU. "text" or "json"
 * (docs/schemas/calibration.schema.json). */
SKETCHC_API sketchc_status sketchc_calibrate(const char *target, const sketchc_run_options *options, const char *format, char **report);
/* The kernel cache: "text" or "json" of its folder, entries and bytes; or empties it. */
SKETCHC_API char *sketchc_cache_info(const char *format);
SKETCHC_API uint64_t sketchc_cache_clear(void);

#ifdef __cplusplus
}
#endif
#endif
