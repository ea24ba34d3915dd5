/* Code loaded once, launched with pointers that are known at the launch only: docs/decisions/launch.md.
 *
 * A launcher holds the code of an artifact on a device; a plan holds what follows from one set of sizes. A launch of a plan allocates
 * nothing, on the host neither, waits for nothing and keeps no pointer, so that a CUDA graph may capture it. Workspaces are parts of one
 * block of the caller's. */
#ifndef RUNTIME_LAUNCH_LAUNCH_H
#define RUNTIME_LAUNCH_LAUNCH_H

#include "runtime.h"

typedef struct RtLauncher RtLauncher;
typedef struct RtPlan RtPlan;

enum { RT_WORKSPACE_ALIGN = 256 };

/* A tensor as DLPack describes it: codes of devices and dtypes are DLPack's, strides count elements and may be null. */
typedef struct {
    const void *data;
    int32_t device_type, device_id;
    uint8_t code, bits;
    uint16_t lanes;
    int32_t rank;
    const int64_t *extents, *strides;
    uint64_t byte_offset;
} RtTensor;

typedef struct {
    const RtSymbol *symbols;
    size_t symbol_count;
    const RtScalar *scalars;
    size_t scalar_count;
} RtSizes;

/* The options' symbols and scalars count for every plan, its device, cache_dir for the code. `a` must outlive the launcher. */
RtError rt_launcher_open(const Artifact *a, const RtOptions *options, RtLauncher **launcher);
/* Waits for what was launched last. Plans of the caller's have to be freed before. Null is allowed. */
void rt_launcher_close(RtLauncher *l);
/* docs/schemas/launcher.schema.json */
void rt_launcher_json(const RtLauncher *l, Str *out);
/* Calls between these two do not run at the same time in two threads: what changes the launcher is to stand there. */
void rt_launcher_lock(RtLauncher *l);
void rt_launcher_unlock(RtLauncher *l);

/* Whether threads may be in rt_plan_launch at the same time without the lock: on the CPU. */
bool rt_launcher_is_reentrant(const RtLauncher *l);

/* ---- Plans ---- */

/* What the launcher's own symbols and scalars do not say `sizes` must. */
RtError rt_plan_make(RtLauncher *l, const RtSizes *sizes, RtPlan **plan);
void rt_plan_free(RtPlan *plan);
RtLauncher *rt_plan_launcher(const RtPlan *plan);
uint64_t rt_plan_workspace(const RtPlan *plan); /* bytes of the block, 0: none is needed */
size_t rt_launcher_tensors(const RtLauncher *l);
int rt_launcher_find(const RtLauncher *l, const char *name); /* a tensor's position by the sketch's or the operator's name; -1 */
/* Extents and strides in elements of a tensor; ARTIFACT_MAX_RANK of each at most. Its rank. */
unsigned rt_plan_shape(const RtPlan *plan, size_t tensor, int64_t *extents, int64_t *strides);
/* `pointers`: by position, each where the tensor's first element is. Nothing is checked but what the choice of code asks for. */
RtError rt_plan_launch(const RtPlan *plan, void *const *pointers, void *workspace, void *stream);

/* ---- Launches that take their sizes from tensors ---- */

/* The plan for the tensors' shapes that was used before; null: there is none yet (the error is OK), or they fit none. */
RtPlan *rt_launcher_seen(RtLauncher *l, const RtTensor *tensors, size_t count, RtError *error);
/* Makes it, and keeps it for later. It belongs to the launcher, until another one takes its place. */
RtError rt_launcher_learn(RtLauncher *l, const RtTensor *tensors, size_t count, RtPlan **plan);
/* Device, dtype, shape, strides, alignment of each; that no tensor overlaps one that is written. */
RtError rt_plan_check(const RtPlan *plan, const RtTensor *tensors, const void *workspace, uint64_t workspace_bytes);
RtError rt_plan_launch_tensors(const RtPlan *plan, const RtTensor *tensors, void *workspace, void *stream);

#endif
