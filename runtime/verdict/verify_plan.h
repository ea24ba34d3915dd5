/* What verify and bench run: the operator's cases and ragged sizes, and their input data. */
#ifndef RUNTIME_VERDICT_VERIFY_PLAN_H
#define RUNTIME_VERDICT_VERIFY_PLAN_H

#include "session.h"
#include "verify.h"

typedef struct {
    char name[RT_NAME];
    const Sizes *sizes;  /* the operator's, complete; null: `skip` says why */
    const IrCase *own;   /* the case whose sizes they are; null: derived from it */
    const IrCase *data;  /* whose generators are used; may be null */
    const char *special; /* the operator's name of the tensor that holds special values along `axis`; null: none */
    unsigned axis;
    bool beyond;      /* of integers: beyond the case's range */
    uint64_t scalars; /* other than 0: scalars have other values than the case gives them, drawn by this */
    bool trial;       /* of the sizes that no case declares: is launched on small whole numbers, too */
    bool named;       /* asked for by --case: never too large */
    char skip[RT_TEXT];
} Task;

typedef struct {
    const Artifact *a;
    const RtOptions *options;
    Arena *arena;
    const IrModule *module;
    const IrFunc *graph;
    size_t count;
    Task *tasks;
    const IrModule *sketch; /* its tile functions; null: the artifact has none */
    BranchMap *branches;    /* of them; null likewise */
} TaskPlan;

/* Parses the operator and lists the tasks. */
RtError task_plan_create(TaskPlan *plan, Arena *arena, const Artifact *a, const RtOptions *options, bool ragged);
/* Appends one; there is room for it. */
Task *task_plan_add(TaskPlan *plan, const char *name, const Sizes *sizes, const IrCase *data);
/* What is varied beside sizes (verify_values.c): from task `ragged` on some are launched on whole numbers, too, and some with other scalars; tasks with
 * special values are added. */
void task_plan_vary(TaskPlan *plan, size_t ragged);
/* Another value of a scalar, drawn by `bits`: of the same sign and nearer to 0, so that it stays in a range that begins there; in place of 0 one below 1, of a
 * whole number below 2 the next. */
double task_other_scalar(Dtype dtype, double own, uint64_t bits);
/* Binds a task's sizes to the artifact's symbols. BAD_INPUT: the sizes do not fit this artifact. */
RtError task_bind(const TaskPlan *plan, const Task *task, Binding *b);
/* SKIPPED when the tensors need more than the options or the device allow. */
RtError task_check_size(const TaskPlan *plan, const Task *task, const Device *d, const Binding *b);

/* A tensor parameter's data: null when it is only written. Also its shape in the operator. */
typedef struct {
    bool read;
    Shape shape;
    InputSpec spec;
} TaskInput;
RtError task_inputs(const TaskPlan *plan, const Task *task, Arena *arena, const Binding *b, TaskInput **inputs);
/* Writes the data into the session's buffers. `only_inout`: just those that a launch changed. */
RtError task_upload(Session *s, const TaskInput *inputs, bool only_inout, unsigned threads);
const char *task_graph_name(const ArtifactParam *p);

/* Extents at which ragged sizes are taken (verify_sizes.c): integers among the constexprs, which are
 * the sketch's tile sizes, and those at which a kernel version's guard changes. */
size_t task_tile_sizes(const Artifact *a, const Sizes *base, int64_t *tiles, size_t limit);
/* Reads the sketch's tile functions, if the artifact has them. */
RtError task_read_sketch(TaskPlan *plan);
/* Sizes beside the cases: ragged ones, then those that the sketch's numbers suggest and that are drawn, then such as
 * take branches on sizes that none of these takes. */
SizeList task_more_sizes(TaskPlan *plan, int64_t max_elements);
/* The ways, by site, that the sketch's branches go at the sizes of a task. */
void task_walk_branches(const TaskPlan *plan, const Sizes *sizes, const IrCase *own, uint8_t *seen);

#endif
