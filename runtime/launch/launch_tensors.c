/* Launches that take their sizes from the tensors of the call, and what is checked of these. */
#include "launch_internal.h"

#include <stdio.h>
#include <string.h>

/* DLPack's codes. */
enum { ON_CPU = 1, ON_CUDA = 2, ON_CUDA_HOST = 3, ON_CUDA_MANAGED = 13 };
enum { CODE_INT = 0, CODE_UINT = 1, CODE_FLOAT = 2, CODE_BFLOAT = 4, CODE_BOOL = 6, CODE_F8E4M3FN = 10, CODE_F8E5M2 = 12 };

static uint8_t code_of(Dtype dtype) {
    switch (dtype) {
    case DTYPE_BF16:
        return CODE_BFLOAT;
    case DTYPE_F8E4M3:
        return CODE_F8E4M3FN;
    case DTYPE_F8E5M2:
        return CODE_F8E5M2;
    case DTYPE_BOOL:
        return CODE_BOOL;
    default:
        return dtype_is_float(dtype) ? CODE_FLOAT : dtype_is_signed(dtype) ? CODE_INT : CODE_UINT;
    }
}

static const char *code_name(unsigned code) {
    static const char *const names[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
    return code < COUNT_OF(names) ? names[code] : code == CODE_F8E4M3FN ? "f8e4m3" : code == CODE_F8E5M2 ? "f8e5m2" : "type";
}

static RtError check_dtype(const ArtifactParam *p, const RtTensor *t) {
    if (t->code == code_of(p->dtype) && t->bits == dtype_bits(p->dtype) && t->lanes == 1) return rt_ok();
    return rt_error(RT_BAD_INPUT, "'%s' is %s, the given tensor has elements of %s%u%s", p->name, dtype_name(p->dtype), code_name(t->code),
                    t->bits, t->lanes == 1 ? "" : " in vectors");
}

static bool is_here(const RtLauncher *l, const RtTensor *t, unsigned ordinal) {
    if (t->device_type == ON_CUDA_MANAGED) return true;
    if (l->a->target == ARTIFACT_CPU) return t->device_type == ON_CPU || t->device_type == ON_CUDA_HOST;
    return t->device_type == ON_CUDA && t->device_id == (int32_t)ordinal;
}

static RtError check_device(const RtLauncher *l, const ArtifactParam *p, const RtTensor *t) {
    if (is_here(l, t, l->ordinal)) return rt_ok();
    char wanted[48] = "the CPU";
    if (l->a->target == ARTIFACT_CUDA) snprintf(wanted, sizeof wanted, "CUDA device %u", l->ordinal);
    return rt_error(RT_BAD_INPUT, "'%s' has to be on %s, the given tensor is on %s %d (DLPack's device %d)", p->name, wanted,
                    t->device_type == ON_CUDA  ? "CUDA device"
                    : t->device_type == ON_CPU ? "CPU"
                                               : "another device",
                    t->device_id, t->device_type);
}

static bool has_strides(const RtTensor *t, unsigned rank, const int64_t *extents, const int64_t *strides) {
    for (unsigned d = 0; d < rank; d++)
        if (extents[d] == 0) return true;
    int64_t packed = 1;
    for (unsigned d = rank; d-- > 0;) {
        int64_t given = t->strides ? t->strides[d] : packed;
        if (extents[d] > 1 && given != strides[d]) return false;
        packed *= extents[d];
    }
    return true;
}

static RtError check_strides(const RtPlan *plan, unsigned position, const ArtifactParam *p, const RtTensor *t) {
    int64_t extents[ARTIFACT_MAX_RANK], strides[ARTIFACT_MAX_RANK];
    unsigned rank = rt_plan_shape(plan, position, extents, strides);
    if (has_strides(t, rank, extents, strides)) return rt_ok();
    char want[200], got[200] = "those of a contiguous tensor";
    rt_print_shape(want, sizeof want, rank, strides);
    if (t->strides) rt_print_shape(got, sizeof got, rank, t->strides);
    return rt_error(RT_BAD_INPUT, "'%s' has strides %s at these sizes, the given tensor has %s%s", p->name, want, got,
                    p->strided ? "" : ": it is not contiguous");
}

static const void *first_of(const RtTensor *t) {
    return (const char *)t->data + t->byte_offset;
}

static RtError check_address(const ArtifactParam *p, const RtTensor *t, uint64_t bytes) {
    if (bytes && !t->data) return rt_error(RT_BAD_INPUT, "'%s' has no memory: its data are null", p->name);
    if ((uint64_t)(uintptr_t)first_of(t) % dtype_size(p->dtype) == 0) return rt_ok();
    return rt_error(RT_BAD_INPUT, "'%s' does not begin at a multiple of the %zu bytes of its elements", p->name, dtype_size(p->dtype));
}

static RtError check_tensor(const RtPlan *plan, unsigned position, const RtTensor *t) {
    const RtLauncher *l = plan->launcher;
    unsigned param = l->tensors[position];
    const ArtifactParam *p = &l->a->params[param];
    RT_TRY(check_device(l, p, t));
    RT_TRY(check_dtype(p, t));
    RT_TRY(binding_check_shape(&plan->binding, param, (unsigned)t->rank, t->extents));
    RT_TRY(check_strides(plan, position, p, t));
    return check_address(p, t, plan->binding.bytes[param]);
}

static MemoryRange range_of(const RtPlan *plan, unsigned position, const RtTensor *t) {
    unsigned param = plan->launcher->tensors[position];
    const ArtifactParam *p = &plan->launcher->a->params[param];
    uint64_t begin = (uint64_t)(uintptr_t)first_of(t);
    return (MemoryRange){begin, begin + plan->binding.bytes[param], p->name, (p->direction & ARTIFACT_OUT) != 0};
}

static RtError check_overlap(const RtPlan *plan, const RtTensor *tensors, const void *workspace) {
    MemoryRange ranges[ARTIFACT_MAX_PARAMS + 1];
    size_t n = plan->launcher->tensor_count;
    for (unsigned i = 0; i < n; i++) ranges[i] = range_of(plan, i, &tensors[i]);
    uint64_t begin = (uint64_t)(uintptr_t)workspace;
    if (plan->workspace) ranges[n++] = (MemoryRange){begin, begin + plan->workspace, "the workspace", true};
    return plan_check_ranges(ranges, n);
}

static RtError check_workspace(const RtPlan *plan, const void *workspace, uint64_t bytes) {
    if (!plan->workspace) return rt_ok();
    if (!workspace || bytes < plan->workspace)
        return rt_error(RT_BAD_INPUT, "%s wants a workspace of %llu bytes at these sizes, given are %llu", plan->launcher->a->name,
                        (unsigned long long)plan->workspace, (unsigned long long)(workspace ? bytes : 0));
    if ((uint64_t)(uintptr_t)workspace % RT_WORKSPACE_ALIGN == 0) return rt_ok();
    return rt_error(RT_BAD_INPUT, "the workspace does not begin at a multiple of %d bytes", RT_WORKSPACE_ALIGN);
}

static RtError check_ranks(const RtLauncher *l, const RtTensor *tensors, size_t count) {
    if (count != l->tensor_count) return rt_error(RT_BAD_INPUT, "%s has %zu tensors, given are %zu", l->a->name, l->tensor_count, count);
    for (size_t i = 0; i < count; i++) {
        const ArtifactParam *p = &l->a->params[l->tensors[i]];
        if (tensors[i].rank != (int32_t)p->rank)
            return rt_error(RT_BAD_INPUT, "'%s' has rank %u, the given tensor has rank %d", p->name, p->rank, tensors[i].rank);
        if (p->rank && !tensors[i].extents) return rt_error(RT_BAD_INPUT, "'%s' is given without its extents", p->name);
    }
    return rt_ok();
}

RtError rt_plan_check(const RtPlan *plan, const RtTensor *tensors, const void *workspace, uint64_t workspace_bytes) {
    RT_TRY(check_ranks(plan->launcher, tensors, plan->launcher->tensor_count));
    for (unsigned i = 0; i < plan->launcher->tensor_count; i++) RT_TRY(check_tensor(plan, i, &tensors[i]));
    RT_TRY(check_workspace(plan, workspace, workspace_bytes));
    return check_overlap(plan, tensors, workspace);
}

RtError rt_plan_launch_tensors(const RtPlan *plan, const RtTensor *tensors, void *workspace, void *stream) {
    void *pointers[ARTIFACT_MAX_PARAMS];
    for (size_t i = 0; i < plan->launcher->tensor_count; i++) pointers[i] = (void *)(uintptr_t)first_of(&tensors[i]);
    return rt_plan_launch(plan, pointers, workspace, stream);
}

/* ---- Sizes ---- */

static int64_t stride_of(const RtTensor *t, unsigned axis) {
    if (t->strides) return t->strides[axis];
    int64_t packed = 1;
    for (int32_t d = (int32_t)axis + 1; d < t->rank; d++)
        if (__builtin_mul_overflow(packed, t->extents[d], &packed)) return -1;
    return packed;
}

static RtError read_key(const RtLauncher *l, const RtTensor *tensors, size_t count, int64_t *key) {
    RT_TRY(check_ranks(l, tensors, count));
    for (size_t i = 0; i < l->source_count; i++) {
        const Source *s = &l->sources[i];
        const RtTensor *t = &tensors[s->tensor];
        key[i] = s->stride ? stride_of(t, s->axis) : t->extents[s->axis];
    }
    return rt_ok();
}

static size_t place_of(const RtLauncher *l, const int64_t *key) {
    uint64_t hash = 0;
    for (size_t i = 0; i < l->source_count; i++) hash = (hash ^ (uint64_t)key[i]) * 0x9e3779b97f4a7c15u;
    return (size_t)(hash >> 32) % PLANS_KEPT;
}

RtPlan *rt_launcher_seen(RtLauncher *l, const RtTensor *tensors, size_t count, RtError *error) {
    int64_t key[ARTIFACT_MAX_PARAMS];
    *error = read_key(l, tensors, count, key);
    if (rt_failed(error)) return NULL;
    RtPlan *plan = l->kept[place_of(l, key)];
    return plan && memcmp(plan->key, key, l->source_count * sizeof *key) == 0 ? plan : NULL;
}

RtError rt_launcher_learn(RtLauncher *l, const RtTensor *tensors, size_t count, RtPlan **plan) {
    int64_t key[ARTIFACT_MAX_PARAMS];
    RtSymbol symbols[ARTIFACT_MAX_PARAMS];
    RT_TRY(read_key(l, tensors, count, key));
    for (size_t i = 0; i < l->source_count; i++) symbols[i] = (RtSymbol){l->a->params[l->sources[i].symbol].name, key[i]};
    RT_TRY(rt_plan_make(l, &(RtSizes){.symbols = symbols, .symbol_count = l->source_count}, plan));
    (*plan)->key = ARENA_ARRAY((*plan)->arena, int64_t, l->source_count + 1);
    if (l->source_count) memcpy((*plan)->key, key, l->source_count * sizeof *key);
    RtPlan **kept = &l->kept[place_of(l, key)];
    rt_plan_free(*kept);
    *kept = *plan;
    return rt_ok();
}
