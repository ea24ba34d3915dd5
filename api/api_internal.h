/* Shared by the files that implement sketchc.h. */
#ifndef API_API_INTERNAL_H
#define API_API_INTERNAL_H

#include "artifact.h"
#include "ast.h"
#include "cost.h"
#include "design.h"
#include "diag.h"
#include "ir.h"
#include "passes.h"
#include "sketchc.h"
#include "target.h"
#include "targets.h"

/* Why a way to design a sketch fails: one for each place and text. */
typedef struct DesignReason {
    Span at;
    const char *what, *first; /* the first style */
    unsigned styles;          /* how many it stops */
    struct DesignReason *next;
} DesignReason;

/* A style's sketch for an operator, lowered for the target. */
typedef struct {
    size_t style;
    const char *text; /* in the unit's arena; null: the style does not fit, or does not lower */
    size_t size;
    bool large;     /* it has more code than the limit */
    int64_t ops;    /* that were lowered to */
    double seconds; /* of all cases together by the cost model; negative: not known */
    double floor_s; /* of their bytes */
} DesignTrial;

/* Which style was taken, and which would have been next. */
typedef struct {
    const char *style, *next;     /* null: none, or not known */
    const char *rewrites;         /* what was done to its graph first; null: nothing */
    double seconds, next_seconds; /* as a trial's */
} DesignChoice;

struct sketchc_unit {
    Arena *source_arena; /* lives as long as the unit */
    const char *path, *text;
    size_t size;
    Arena *arena; /* of the last call; null before the first */
    SourceMap *sources;
    DiagList diags;
    File *file;
    const char *designed; /* stands for the text where it has no sketch; null: not made */
    size_t designed_size;
    int64_t most_ops;            /* PassContext has it; 0: no limit of its own */
    const sketchc_options *told; /* of the lowering that runs */
    const char *style;           /* of the design that is tried in this unit; null: none is */
    bool trial;                  /* of a style among others: one whose blocks do not fit the cases is none */
    DesignReason *reasons;       /* why there is none; of the last call */
    DesignChoice choice;         /* of `designed` */
    DesignRegions regions;       /* the same */
    Str dump, times;
    PassReport report; /* of the last lowering; holds its reproducer */
    IrPlaces *places;  /* where the last IR that was printed has its ops; null: not wanted */
};

/* For each line of a text the line of the source that it comes from, from 1; 0: none. */
typedef struct {
    uint32_t *data;
    size_t len, cap;
} LineMap;

struct sketchc_artifact {
    Arena *arena;
    Artifact *artifact;
};

/* A call's view of the options, with defaults filled in. */
typedef struct {
    sketchc_options given;
    const Target *target;
    EmitTargetId emitter;
    bool line_directives; /* PTX is to name lines of the source, for api_lines_of_code */
} Compile;

/* Tells the caller what begins: the style that is tried, what, and its name. */
void api_progress(const sketchc_unit *unit, const sketchc_options *options, const char *what, const char *name);
void api_tell_pass(void *unit, const char *name); /* by unit->told */

/* The files stand on each other in this order, of which tests/include_rules.py allows no other: unit, build, require, lower, predict_case,
 * own_library, use, design, choose, then compile, predict, page and the rest of the interface. */

/* Reports a wrong use of the interface; false. */
bool api_usage(sketchc_unit *unit, const char *text);
/* Parses and checks into the unit's fresh arena. */
bool api_check(sketchc_unit *unit, const sketchc_options *options);
/* As api_check; a file with an operator and no sketch gets one by the rules of the pass `design`, where one fits. `options` are
 * those of a call. */
bool api_check_with_sketch(sketchc_unit *unit, const sketchc_options *options);
/* What was tried in vain, as notes of the error. */
void api_report_reasons(sketchc_unit *unit, Diag *diag);
/* Makes unit->designed for an operator that has no sketch; false when no style fits (choose.c). */
bool api_design_missing(sketchc_unit *unit, const sketchc_options *options, IrModule *module);
/* A copy of the operator's graph, in the module, rewritten as designs of the style read it; null: there is no operator. *rewrites, where it is
 * asked for, says by what, null: by nothing. The caller removes the copy. */
IrFunc *api_rewritten(sketchc_unit *unit, IrModule *module, const sketchc_options *options, size_t style, const char **rewrites);
/* The same text alone. */
const char *api_rewrites(sketchc_unit *unit, IrModule *module, const sketchc_options *options, size_t style);
/* The style that the options name; reports why it cannot be. */
bool api_design_named(sketchc_unit *unit, const sketchc_options *options, IrModule *module);
/* Designs and lowers trial->style, of at most so many operations (0: no limit of its own), and fills the rest. */
void api_design_try(sketchc_unit *unit, const sketchc_options *options, int64_t most_ops, DesignTrial *trial);
/* The same, of the style with this number. */
bool api_design_in(sketchc_unit *unit, const sketchc_options *options, IrModule *module, size_t style);
/* The files of the options' library that are such, in the unit's arena (own_library.c). */
const LibraryFile *api_own_library(sketchc_unit *unit, const sketchc_options *options, size_t *count);
/* What the unit's sketch uses, and what the target has, for a design; the rest of the options stays (use.c). */
void api_design_options(sketchc_unit *unit, const sketchc_options *options, DesignOptions *own);
/* The style in which the sketches are printed that unit->file->used names, or the style that it names; false after a report. */
bool api_use_style(sketchc_unit *unit, const sketchc_options *options, size_t *style);
/* Designs once more, in the unit itself, what it has chosen, for its regions. */
void api_design_regions(sketchc_unit *unit, const sketchc_options *options, IrModule *module, size_t style);
bool api_design_take(sketchc_unit *unit, const char *text, size_t size); /* true */
/* The module as the front end built it; null with errors. */
IrModule *api_build(sketchc_unit *unit);
/* Does all hold that the checked sketch requires? Reports what does not (require.c). */
bool api_meets_requires(sketchc_unit *unit, const Compile *c, const IrModule *module);
/* Lowers a built module to kernel level. */
bool api_lower(sketchc_unit *unit, const Compile *c, IrModule *module);
/* Is the target that the options name, or else the first, one for processors? */
bool api_for_processor(const sketchc_options *options);
/* Target and emitter for a form of output, which may be null. */
bool api_target(sketchc_unit *unit, const sketchc_options *options, const char *form, Compile *c);
/* The constexprs of a checked sketch (or null) with the values that were taken; how many. */
size_t api_constexprs(Arena *arena, const Block *sketch, const ArtifactConstexpr **list);
/* `implements op(X=A)`: where the operator's names are others. Symbols follow from the shapes. */
size_t api_renames(Arena *arena, const Block *sketch, const ArtifactRename **list);
/* One comment, in lines of at most 100 columns: what the code was made from. */
void api_head_comment(sketchc_unit *unit, const Target *target, const char *leader, Str *out);
/* Code for the target, below a comment that says from what it was made. */
bool api_code(sketchc_unit *unit, const Compile *c, const IrModule *kernels, const char *form, Str *out);
/* The form of code that is the target's. */
const char *api_form(const Compile *c);
/* Drops the functions of other levels. */
void api_keep_level(IrModule *module, unsigned level);
/* Which lines of the source the lines of printed IR, and of emitted code, come from (lines.c). In the unit's arena. The
 * directives that PTX says them by are taken out of the text. */
uint32_t api_line_of(const sketchc_unit *unit, Span span); /* 0: no place */
void api_lines_of_ir(sketchc_unit *unit, const Str *text, const IrPlaces *places, LineMap *lines);
void api_lines_of_code(sketchc_unit *unit, const Compile *c, Str *text, LineMap *lines);
/* That there is nothing to lower. */
void api_report_no_sketch(sketchc_unit *unit);
/* One HTML page about the checked unit: source, IR and code with their lines linked, layouts, launches (page.c). */
void api_page(sketchc_unit *unit, const Compile *c, Str *out);
/* One launch of a case by the cost model, and all of them (predict.c). */
typedef struct {
    const IrFunc *kernel;
    CostLaunch launch;
    CostEstimate estimate;
    double floor_s;        /* of its own bytes */
    int64_t rows_together; /* in which tiles are taken by the compiler's choice; 0: row after row, or as the sketch says */
} PredictedLaunch;
typedef struct {
    bool known;
    double seconds, floor_s, percent; /* floor: each tensor moved once; percent: floor_s of seconds */
    struct {
        PredictedLaunch *data;
        size_t len, cap;
    } launches;
} Prediction;
void api_predict_case(IrModule *kernels, const CostMachine *machine, const Target *target, const IrCase *sizes, Arena *arena,
                      Prediction *prediction);
/* Fills the trial's times from the module's cases, where all are known. */
void api_predict_cases(IrModule *kernels, const Target *target, Arena *arena, DesignTrial *trial);
/* What the sketch keeps in stages in shared memory (buffers.c); none on processors. */
typedef struct {
    const char *kernel, *name;
    unsigned stages;
    int64_t stage_bytes;
} Buffer;
typedef struct {
    Buffer *data;
    size_t len, cap;
} Buffers;
void api_buffers(sketchc_unit *unit, const Compile *c, Buffers *buffers);
/* The built sketch lowered down to a pass, reported on nowhere: the real lowering says the same. Null: it failed. */
IrModule *api_lower_to(sketchc_unit *unit, const Compile *c, PassId pass);
/* Pictures of the layouts of a module whose tiles have some; nothing where none has (pictures.c). */
void api_pictures(sketchc_unit *unit, const IrModule *module, Str *out);
/* What --explain and the page tell of the regions of a designed sketch (regions.c); nothing where there are none. */
size_t api_region_of(const sketchc_unit *unit, const IrFunc *kernel); /* their number: it is of none */
void api_regions_text(const sketchc_unit *unit, Str *out);
void api_region_times(const sketchc_unit *unit, const Prediction *p, Str *out); /* of a case */
void api_regions_json(const sketchc_unit *unit, Str *out);
void api_regions_picture(const sketchc_unit *unit, Str *out);
Artifact *api_artifact(sketchc_unit *unit, const Compile *c, Arena *arena);
sketchc_status api_status(const sketchc_unit *unit);
/* Drops what the unit's last call made, then does the work of this one, in an arena of its own. False: out of memory, and nothing
 * of the call is left. */
bool api_call(sketchc_unit *unit, void (*work)(void *call), void *call);
char *api_string(const Str *s); /* malloc'ed copy, never null */

#endif
