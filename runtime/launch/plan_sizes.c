/* What follows from one set of sizes, and its launch. */
#include "launch_internal.h"

#include "memory.h"

#include <string.h>

static RtError set_sizes(Binding *b, const RtSizes *sizes) {
    return binding_set_all(b, sizes->symbols, sizes->symbol_count, sizes->scalars, sizes->scalar_count);
}

static void place_workspaces(RtPlan *p) {
    const Artifact *a = p->launcher->a;
    p->offsets = ARENA_ARRAY(p->arena, uint64_t, a->param_count + 1);
    for (size_t i = 0; i < a->param_count; i++) {
        if (a->params[i].kind != ARTIFACT_WORKSPACE) continue;
        p->offsets[i] = p->workspace;
        p->workspace += (p->binding.bytes[i] + RT_WORKSPACE_ALIGN - 1) / RT_WORKSPACE_ALIGN * RT_WORKSPACE_ALIGN;
    }
}

static RtError choose_steps(RtPlan *p) {
    const Artifact *a = p->launcher->a;
    p->steps = ARENA_ARRAY(p->arena, Choice, a->step_count + 1);
    p->align = 1;
    for (unsigned i = 0; i < a->step_count; i++) {
        Choice *c = &p->steps[i];
        c->step = &a->steps[i];
        if (c->step->kind != ARTIFACT_KERNEL) continue;
        RT_TRY(plan_versions(&p->binding, i, c->launches, &c->count));
        if (c->launches[0].version->pointer_align > p->align) p->align = c->launches[0].version->pointer_align;
    }
    return rt_ok();
}

static RtError fill_plan(RtPlan *p, const RtSizes *sizes) {
    RtLauncher *l = p->launcher;
    binding_init(&p->binding, p->arena, l->a, l->device.num_sms, l->device.num_cores);
    RT_TRY(set_sizes(&p->binding, &l->fixed));
    RT_TRY(set_sizes(&p->binding, sizes));
    RT_TRY(binding_complete(&p->binding));
    place_workspaces(p);
    return choose_steps(p);
}

RtError rt_plan_make(RtLauncher *l, const RtSizes *sizes, RtPlan **plan) {
    Arena *arena = arena_create();
    RtPlan *p = arena_alloc(arena, sizeof *p);
    *p = (RtPlan){.arena = arena, .launcher = l};
    RtError e = fill_plan(p, sizes);
    *plan = rt_failed(&e) ? NULL : p;
    if (rt_failed(&e)) arena_destroy(arena);
    return e;
}

void rt_plan_free(RtPlan *plan) {
    if (plan) arena_destroy(plan->arena);
}

RtLauncher *rt_plan_launcher(const RtPlan *plan) {
    return plan->launcher;
}

uint64_t rt_plan_workspace(const RtPlan *plan) {
    return plan->workspace;
}

unsigned rt_plan_shape(const RtPlan *plan, size_t tensor, int64_t *extents, int64_t *strides) {
    unsigned param = plan->launcher->tensors[tensor];
    const ArtifactParam *p = &plan->launcher->a->params[param];
    int64_t packed = 1;
    for (unsigned d = p->rank; d-- > 0;) {
        extents[d] = plan->binding.extents[param][d];
        strides[d] = p->strided ? plan->binding.places[param].strides[d] : packed;
        packed *= extents[d];
    }
    return p->rank;
}

/* ---- Launch ---- */

/* All bits that any address has. */
static uint64_t fill_addresses(const RtPlan *p, void *const *pointers, const void *workspace, uint64_t *addresses) {
    const RtLauncher *l = p->launcher;
    uint64_t bits = 0;
    for (size_t i = 0; i < l->tensor_count; i++) bits |= addresses[l->tensors[i]] = (uint64_t)(uintptr_t)pointers[i];
    if (!p->workspace) return bits;
    for (size_t i = 0; i < l->a->param_count; i++)
        if (l->a->params[i].kind == ARTIFACT_WORKSPACE) addresses[i] = (uint64_t)(uintptr_t)workspace + p->offsets[i];
    return bits | (uint64_t)(uintptr_t)workspace;
}

static const Launch *choose(const RtPlan *p, const Choice *c, const uint64_t *addresses, bool aligned) {
    for (size_t i = 0; i < c->count; i++)
        if ((aligned && i == 0) || plan_is_aligned(p->launcher->a, c->launches[i].version, addresses)) return &c->launches[i];
    return NULL;
}

/* `before`: the last kernel of this launch. */
static RtError run_kernel(const RtPlan *p, const Choice *c, const uint64_t *addresses, bool aligned, const Launch **before) {
    Device *d = &p->launcher->device;
    const Launch *chosen = choose(p, c, addresses, aligned);
    if (!chosen)
        return rt_error(RT_LAUNCH_FAILED, "no version of the kernel '%s' takes tensors at these addresses: it wants multiples of %u bytes",
                        c->step->name, c->launches[0].version->pointer_align);
    if (chosen->skip) return rt_ok();
    Launch launch = *chosen;
    launch.dependent = launch.version->dependent && *before && !(*before)->version->cooperative;
    *before = chosen;
    return d->ops->launch(d, p->launcher->program, &launch, &p->binding, addresses);
}

RtError rt_plan_launch(const RtPlan *p, void *const *pointers, void *workspace, void *stream) {
    const RtLauncher *l = p->launcher;
    Device *d = &p->launcher->device;
    uint64_t addresses[ARTIFACT_MAX_PARAMS];
    if (p->workspace && !workspace)
        return rt_error(RT_BAD_INPUT, "%s wants a workspace of %llu bytes at these sizes", l->a->name, (unsigned long long)p->workspace);
    bool aligned = fill_addresses(p, pointers, workspace, addresses) % p->align == 0;
    const Launch *before = NULL;
    d->ops->use_stream(d, stream);
    for (size_t i = 0; i < l->a->step_count; i++) {
        const Choice *c = &p->steps[i];
        if (c->step->kind == ARTIFACT_KERNEL) {
            RT_TRY(run_kernel(p, c, addresses, aligned, &before));
        } else {
            RT_TRY(d->ops->fill(d, addresses[c->step->param], c->step->byte, p->binding.bytes[c->step->param]));
            before = NULL;
        }
    }
    return rt_ok();
}
