/* What the files of runtime/launch/ share. */
#ifndef RUNTIME_LAUNCH_LAUNCH_INTERNAL_H
#define RUNTIME_LAUNCH_LAUNCH_INTERNAL_H

#include "device.h"
#include "launch.h"

#include <pthread.h>

enum { PLANS_KEPT = 64 }; /* of a launcher: one for each remainder of a hash of the sizes */

/* Where a symbol's value stands in the tensors of a call. */
typedef struct {
    unsigned symbol; /* parameter */
    unsigned tensor, axis;
    bool stride;
} Source;

struct RtLauncher {
    Arena *arena;
    const Artifact *a;
    Device device;
    Program *program;
    unsigned ordinal; /* of the device */
    pthread_mutex_t lock;
    size_t tensor_count, source_count;
    unsigned *tensors; /* parameters, by position */
    Source *sources;
    RtSizes fixed;
    RtPlan *kept[PLANS_KEPT];
};

/* The versions of a step that may run at these sizes, in order of preference; the first that the addresses allow runs. */
typedef struct {
    const ArtifactStep *step;
    size_t count;
    Launch launches[ARTIFACT_MAX_VERSIONS];
} Choice;

struct RtPlan {
    Arena *arena;
    RtLauncher *launcher;
    Binding binding;
    Choice *steps;
    uint64_t *offsets; /* by parameter: of a workspace in the block */
    uint64_t workspace;
    uint64_t align; /* what each address has to be a multiple of for the first choice of all steps */
    int64_t *key;   /* values of the launcher's sources */
};

#endif
