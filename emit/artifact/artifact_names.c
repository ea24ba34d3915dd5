#include "artifact_internal.h"

#include <string.h>

static const char *const target_names[ARTIFACT_TARGET_COUNT] = {"cpu", "cuda"};
static const char *const param_names[ARTIFACT_PARAM_KIND_COUNT] = {"tensor", "symbol", "scalar", "workspace", "map"};
static const char *const blob_names[ARTIFACT_BLOB_KIND_COUNT] = {"ptx", "cubin", "cuda", "c", "so"};
static const char *const step_names[ARTIFACT_STEP_KIND_COUNT] = {"kernel", "memset"};
static const char *const direction_names[] = {NULL, "in", "out", "inout"};

const char *artifact_target_name(ArtifactTarget target) {
    return (unsigned)target < ARTIFACT_TARGET_COUNT ? target_names[target] : NULL;
}

const char *artifact_param_kind_name(ArtifactParamKind kind) {
    return (unsigned)kind < ARTIFACT_PARAM_KIND_COUNT ? param_names[kind] : NULL;
}

const char *artifact_step_kind_name(ArtifactStepKind kind) {
    return (unsigned)kind < ARTIFACT_STEP_KIND_COUNT ? step_names[kind] : NULL;
}

const char *artifact_direction_name(unsigned direction) {
    return direction < COUNT_OF(direction_names) ? direction_names[direction] : NULL;
}

const char *artifact_blob_kind_name(ArtifactBlobKind kind) {
    return (unsigned)kind < ARTIFACT_BLOB_KIND_COUNT ? blob_names[kind] : NULL;
}

bool artifact_blob_kind_find(const char *name, ArtifactBlobKind *kind) {
    for (unsigned i = 0; i < ARTIFACT_BLOB_KIND_COUNT; i++)
        if (strcmp(blob_names[i], name) == 0) {
            *kind = (ArtifactBlobKind)i;
            return true;
        }
    return false;
}

int artifact_find_param(const Artifact *a, const char *name) {
    for (size_t i = 0; i < a->param_count; i++)
        if (strcmp(a->params[i].name, name) == 0) return (int)i;
    return -1;
}

bool artifact_is_launch_constant(const char *name) {
    return strcmp(name, "num_sms") == 0 || strcmp(name, "num_cores") == 0;
}
