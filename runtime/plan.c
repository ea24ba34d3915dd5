#include "runtime_internal.h"

/* CUDA's limits; on the CPU a grid is not used. */
static const int64_t grid_limit[3] = {2147483647, 65535, 65535};
/* A block's shared memory; on a processor scratch on a worker's stack, which the compiler limits. */
enum { SHARED_LIMIT = 1 << 20, SCRATCH_LIMIT = 8 << 20 };

bool plan_is_aligned(const Artifact *a, const ArtifactVersion *v, const uint64_t *addresses) {
    for (size_t i = 0; addresses && v->pointer_align > 1 && i < v->arg_count; i++) {
        ArtifactParamKind kind = a->params[v->args[i]].kind;
        if (kind != ARTIFACT_TENSOR && kind != ARTIFACT_WORKSPACE) continue;
        if (addresses[v->args[i]] % v->pointer_align) return false;
    }
    return true;
}

static bool is_licensed(const Binding *b, const ArtifactVersion *v) {
    int64_t value = 1;
    if (v->guard && !binding_eval(b, v->guard, &value)) return false; /* overflow */
    return value > 0;
}

static RtError no_version(const Binding *b, const ArtifactStep *step) {
    char sizes[256];
    binding_print(b, sizes, sizeof sizes);
    return rt_error(RT_LAUNCH_FAILED, "no version of the kernel '%s' fits %s", step->name, sizes);
}

static RtError choose_version(const Binding *b, const uint64_t *addresses, Launch *l) {
    for (size_t i = 0; i < l->step->version_count; i++) {
        const ArtifactVersion *v = &l->step->versions[i];
        if (!is_licensed(b, v) || !plan_is_aligned(b->a, v, addresses)) continue;
        l->version = v;
        l->version_index = (unsigned)i;
        return rt_ok();
    }
    return no_version(b, l->step);
}

static RtError size_launch(const Binding *b, Launch *l) {
    static const char axis[] = "xyz";
    for (int i = 0; i < 3; i++) {
        int64_t value;
        if (!binding_eval(b, l->version->grid[i], &value) || value < 0 || value > grid_limit[i])
            return rt_error(RT_LAUNCH_FAILED, "the grid's %c extent of '%s' is out of range", axis[i], l->version->entry);
        l->grid[i] = (uint32_t)value;
        if (value == 0) l->skip = true;
    }
    int64_t shared, limit = b->a->target == ARTIFACT_CPU ? SCRATCH_LIMIT : SHARED_LIMIT;
    if (!binding_eval(b, l->version->shared_bytes, &shared) || shared < 0 || shared > limit)
        return rt_error(RT_LAUNCH_FAILED, "the shared memory of '%s' is out of range", l->version->entry);
    l->shared_bytes = (uint32_t)shared;
    for (int i = 0; i < 3 && !l->skip; i++)
        if (l->grid[i] % l->version->cluster[i])
            return rt_error(RT_LAUNCH_FAILED, "the grid of '%s' is no multiple of its cluster", l->version->entry);
    return rt_ok();
}

RtError plan_versions(const Binding *b, unsigned step, Launch *launches, size_t *count) {
    const ArtifactStep *s = &b->a->steps[step];
    *count = 0;
    for (unsigned i = 0; i < s->version_count; i++) {
        const ArtifactVersion *v = &s->versions[i];
        if (!is_licensed(b, v)) continue;
        Launch *l = &launches[*count];
        *l = (Launch){.step = s, .step_index = step, .version = v, .version_index = i};
        RT_TRY(size_launch(b, l));
        ++*count;
        if (v->pointer_align <= 1) break; /* what follows never runs */
    }
    return *count ? rt_ok() : no_version(b, s);
}

/* A step that waits itself is launched early behind a kernel of the same launch: what else is in the stream it does not know, and
 * blocks of a cooperative launch must all be resident. */
static void mark_dependent(Launch *list, size_t count) {
    const Launch *before = NULL;
    for (size_t i = 0; i < count; i++) {
        Launch *l = &list[i];
        if (l->skip) continue;
        l->dependent = l->version && l->version->dependent && before && before->version && !before->version->cooperative;
        before = l;
    }
}

RtError plan_launches(const Binding *b, Arena *arena, const uint64_t *addresses, Launch **launches, size_t *count) {
    Launch *list = ARENA_ARRAY(arena, Launch, b->a->step_count + 1);
    for (size_t i = 0; i < b->a->step_count; i++) {
        list[i].step = &b->a->steps[i];
        list[i].step_index = (unsigned)i;
        if (list[i].step->kind != ARTIFACT_KERNEL) continue;
        RT_TRY(choose_version(b, addresses, &list[i]));
        RT_TRY(size_launch(b, &list[i]));
    }
    mark_dependent(list, b->a->step_count);
    *launches = list;
    *count = b->a->step_count;
    return rt_ok();
}

RtError plan_check_ranges(const MemoryRange *ranges, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count && ranges[i].written; j++) {
            const MemoryRange *a = &ranges[i], *b = &ranges[j];
            if (i == j || a->begin >= b->end || b->begin >= a->end || a->begin == a->end || b->begin == b->end) continue;
            return rt_error(RT_BAD_INPUT, "'%s' is written and overlaps '%s'", a->name, b->name);
        }
    return rt_ok();
}

RtError plan_check_overlap(const Binding *b, const uint64_t *addresses) {
    MemoryRange ranges[ARTIFACT_MAX_PARAMS];
    for (size_t i = 0; i < b->a->param_count; i++) {
        const ArtifactParam *p = &b->a->params[i];
        bool written = p->kind == ARTIFACT_WORKSPACE || (p->kind == ARTIFACT_TENSOR && (p->direction & ARTIFACT_OUT));
        ranges[i] = (MemoryRange){addresses[i], addresses[i] + b->bytes[i], p->name, written};
    }
    return plan_check_ranges(ranges, b->a->param_count);
}
