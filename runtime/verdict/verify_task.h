/* One task of `verify`, in the child: what its parts share (verify_run.c, verify_exact.c). */
#ifndef RUNTIME_VERDICT_VERIFY_TASK_H
#define RUNTIME_VERDICT_VERIFY_TASK_H

#include "reference.h"
#include "runner.h"

typedef struct {
    Runner *r;
    const Task *task;
    Arena *arena;
    Binding binding;
    Session session;
    TaskInput *inputs;
    EvalBinding *operands;
    Evaluator *evaluator;
    Verdict verdict;
    Reference reference;
    void **first; /* by parameter: outputs after the first launch */
    void **kept;  /* inputs that the reference reads */
    size_t kept_count;
    double exact_share; /* of exact data: how many are not forced to 0; 0: as the generator has them */
} OneTask;

bool one_task_is_output(const Artifact *a, size_t i);
/* The elements of parameter i in new memory. */
RtError one_task_download(OneTask *t, size_t i, void **data);
/* The operator's operands: data in memory when they are small, else made element by element. `exact`, `trial` and `fault` are the caller's.
 */
RtError one_task_operands(OneTask *t, const TaskInput *inputs, bool keep, EvalBinding **binding);
/* The number of parameter i among the evaluator's outputs. */
RtError one_task_find_output(const OneTask *t, size_t i, unsigned *output);
/* Whether the bounds of `right` tell wrong results from right ones. `others`: data of another seed. By fault: the worst of all outputs, and
 * one that has it. */
RtError one_task_power(OneTask *t, const TaskInput *others, const Evaluator *right, const EvalBinding *operands, PowerOutcome *worst,
                       const char **where);

/* Thins small whole numbers until the operator's sums of them are exact: of --exact and of trials. */
RtError exact_thin(OneTask *t, TaskInput *inputs);
/* A third launch, of declared cases and some other sizes, on small whole numbers whose sums are exact, so that each term shows. *decides: an element was compared for equality, and
 * each wrong way would have been seen. */
RtError exact_trial(OneTask *t, bool *decides);

#endif
