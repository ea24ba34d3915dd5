/* Launches whose pointers are known at the launch only. Where nothing allocates, nothing guards: the message of a failed launch is
 * the only memory. */
#include "execute.h"

#include "launch.h"
#include "memory.h"

#include <string.h>

static RtLauncher *launcher_of(const sketchc_launcher *launcher) {
    return (RtLauncher *)(uintptr_t)launcher;
}

static RtPlan *plan_of(const sketchc_plan *plan) {
    return (RtPlan *)(uintptr_t)plan;
}

static sketchc_status told(const RtError *e, char **message) {
    if (message) *message = e->status == RT_OK ? NULL : strdup(e->text);
    return api_status_of(e);
}

static sketchc_status is_null(const char *what, char **message) {
    RtError e = rt_error(RT_BAD_OPTION, "the argument '%s' is null", what);
    return told(&e, message);
}

static sketchc_status without_memory(char **message) {
    if (message) *message = NULL;
    return SKETCHC_OUT_OF_MEMORY;
}

/* ---- Launchers ---- */

typedef struct {
    const Artifact *artifact;
    const sketchc_run_options *options;
    RtLauncher *launcher;
    RtSizes sizes;
    RtPlan *plan;
    const RtTensor *tensors;
    size_t count;
    char *text;
    RtError error;
} Call;

static void open_call(void *call) {
    Call *c = call;
    Arena *arena = arena_create();
    RtOptions o;
    c->error = api_run_options(c->options, c->artifact, arena, &o);
    if (c->error.status == RT_OK) c->error = rt_launcher_open(c->artifact, &o, &c->launcher);
    arena_destroy(arena);
}

sketchc_status sketchc_launcher_open(const sketchc_artifact *artifact, const sketchc_run_options *options, sketchc_launcher **launcher,
                                     char **message) {
    if (!launcher) return is_null("launcher", message);
    *launcher = NULL;
    if (!artifact) return is_null("artifact", message);
    Call c = {.artifact = artifact->artifact, .options = options};
    if (!memory_guard(open_call, &c)) return without_memory(message);
    *launcher = (sketchc_launcher *)c.launcher;
    return told(&c.error, message);
}

void sketchc_launcher_close(sketchc_launcher *launcher) {
    rt_launcher_close(launcher_of(launcher));
}

static void info_call(void *call) {
    Call *c = call;
    Str out;
    str_init(&out);
    rt_launcher_json(c->launcher, &out);
    c->text = api_string(&out);
    str_release(&out);
}

char *sketchc_launcher_info(const sketchc_launcher *launcher) {
    Call c = {.launcher = launcher_of(launcher)};
    return launcher && memory_guard(info_call, &c) ? c.text : NULL;
}

size_t sketchc_launcher_tensor_count(const sketchc_launcher *launcher) {
    return launcher ? rt_launcher_tensors(launcher_of(launcher)) : 0;
}

int sketchc_launcher_tensor(const sketchc_launcher *launcher, const char *name) {
    return launcher && name ? rt_launcher_find(launcher_of(launcher), name) : -1;
}

/* ---- Plans ---- */

static void plan_call(void *call) {
    Call *c = call;
    c->error = rt_plan_make(c->launcher, &c->sizes, &c->plan);
}

sketchc_status sketchc_plan_create(sketchc_launcher *launcher, const sketchc_symbol *symbols, size_t symbol_count,
                                   const sketchc_scalar *scalars, size_t scalar_count, sketchc_plan **plan, char **message) {
    enum { MOST = ARTIFACT_MAX_PARAMS };
    if (!plan) return is_null("plan", message);
    *plan = NULL;
    if (!launcher) return is_null("launcher", message);
    if (!symbols && symbol_count) return is_null("symbols", message);
    if (!scalars && scalar_count) return is_null("scalars", message);
    RtError many = rt_error(RT_BAD_OPTION, "more than %d symbols or scalars are given", MOST);
    if (symbol_count > MOST || scalar_count > MOST) return told(&many, message);
    RtSymbol own[MOST];
    RtScalar values[MOST];
    for (size_t i = 0; i < symbol_count; i++) own[i] = (RtSymbol){symbols[i].name, symbols[i].value};
    for (size_t i = 0; i < scalar_count; i++) values[i] = (RtScalar){scalars[i].name, scalars[i].value};
    Call c = {.launcher = launcher_of(launcher), .sizes = {own, symbol_count, values, scalar_count}};
    if (!memory_guard(plan_call, &c)) return without_memory(message);
    *plan = (sketchc_plan *)c.plan;
    return told(&c.error, message);
}

void sketchc_plan_destroy(sketchc_plan *plan) {
    rt_plan_free(plan_of(plan));
}

uint64_t sketchc_plan_workspace(const sketchc_plan *plan) {
    return plan ? rt_plan_workspace(plan_of(plan)) : 0;
}

int sketchc_plan_shape(const sketchc_plan *plan, size_t tensor, int64_t *shape, int64_t *strides) {
    int64_t extents[SKETCHC_MAX_RANK], steps[SKETCHC_MAX_RANK];
    _Static_assert((int)SKETCHC_MAX_RANK == (int)ARTIFACT_MAX_RANK && (int)SKETCHC_WORKSPACE_ALIGN == (int)RT_WORKSPACE_ALIGN,
                   "the header's limits are the runtime's");
    if (!plan || tensor >= rt_launcher_tensors(rt_plan_launcher(plan_of(plan)))) return -1;
    unsigned rank = rt_plan_shape(plan_of(plan), tensor, extents, steps);
    if (shape) memcpy(shape, extents, rank * sizeof *shape);
    if (strides) memcpy(strides, steps, rank * sizeof *strides);
    return (int)rank;
}

static RtError launch_plan(const RtPlan *plan, void *const *pointers, size_t count, void *workspace, void *stream) {
    RtLauncher *l = rt_plan_launcher(plan);
    if (count != rt_launcher_tensors(l))
        return rt_error(RT_BAD_INPUT, "the kernel has %zu tensors, %zu pointers are given", rt_launcher_tensors(l), count);
    if (rt_launcher_is_reentrant(l)) return rt_plan_launch(plan, pointers, workspace, stream);
    rt_launcher_lock(l);
    RtError e = rt_plan_launch(plan, pointers, workspace, stream);
    rt_launcher_unlock(l);
    return e;
}

sketchc_status sketchc_plan_launch(const sketchc_plan *plan, void *const *pointers, size_t pointer_count, void *workspace, void *stream,
                                   char **message) {
    if (!plan) return is_null("plan", message);
    if (!pointers && pointer_count) return is_null("pointers", message);
    RtError e = launch_plan(plan_of(plan), pointers, pointer_count, workspace, stream);
    return told(&e, message);
}

/* ---- Tensors ---- */

static RtTensor tensor_of(const sketchc_dltensor *t) {
    return (RtTensor){.data = t->data,
                      .device_type = t->device.type,
                      .device_id = t->device.id,
                      .code = t->dtype.code,
                      .bits = t->dtype.bits,
                      .lanes = t->dtype.lanes,
                      .rank = t->ndim,
                      .extents = t->shape,
                      .strides = t->strides,
                      .byte_offset = t->byte_offset};
}

static RtError take_tensors(const RtLauncher *l, const sketchc_dltensor *const *tensors, size_t count, RtTensor *list) {
    if (count != rt_launcher_tensors(l))
        return rt_error(RT_BAD_INPUT, "the kernel has %zu tensors, given are %zu", rt_launcher_tensors(l), count);
    for (size_t i = 0; i < count; i++) {
        if (!tensors[i]) return rt_error(RT_BAD_INPUT, "tensor %zu is null", i);
        list[i] = tensor_of(tensors[i]);
    }
    return rt_ok();
}

static RtError check_plan(const RtPlan *plan, const sketchc_dltensor *const *tensors, size_t count, const void *workspace, uint64_t bytes) {
    RtTensor list[ARTIFACT_MAX_PARAMS];
    RtError e = take_tensors(rt_plan_launcher(plan), tensors, count, list);
    return e.status == RT_OK ? rt_plan_check(plan, list, workspace, bytes) : e;
}

sketchc_status sketchc_plan_check(const sketchc_plan *plan, const sketchc_dltensor *const *tensors, size_t tensor_count,
                                  const void *workspace, uint64_t workspace_bytes, char **message) {
    if (!plan) return is_null("plan", message);
    if (!tensors && tensor_count) return is_null("tensors", message);
    RtError e = check_plan(plan_of(plan), tensors, tensor_count, workspace, workspace_bytes);
    return told(&e, message);
}

static void learn_call(void *call) {
    Call *c = call;
    c->error = rt_launcher_learn(c->launcher, c->tensors, c->count, &c->plan);
}

/* The plan for the tensors' sizes; the lock is held. */
static sketchc_status find_plan(Call *c) {
    c->plan = rt_launcher_seen(c->launcher, c->tensors, c->count, &c->error);
    if (c->plan || c->error.status != RT_OK) return api_status_of(&c->error);
    return memory_guard(learn_call, c) ? api_status_of(&c->error) : SKETCHC_OUT_OF_MEMORY;
}

typedef struct {
    void *workspace, *stream;
    uint64_t workspace_bytes;
} Where;

static RtError launch_found(const Call *c, const Where *p) {
    RtError e = rt_plan_check(c->plan, c->tensors, p->workspace, p->workspace_bytes);
    return e.status == RT_OK ? rt_plan_launch_tensors(c->plan, c->tensors, p->workspace, p->stream) : e;
}

/* where: null where only the plan's workspace is asked for. */
static sketchc_status with_tensors(sketchc_launcher *launcher, const sketchc_dltensor *const *tensors, size_t count, const Where *where,
                                   uint64_t *bytes, char **message) {
    RtTensor list[ARTIFACT_MAX_PARAMS];
    if (!launcher) return is_null("launcher", message);
    if (!tensors && count) return is_null("tensors", message);
    Call c = {.launcher = launcher_of(launcher), .tensors = list, .count = count};
    c.error = take_tensors(c.launcher, tensors, count, list);
    if (c.error.status != RT_OK) return told(&c.error, message);
    rt_launcher_lock(c.launcher);
    sketchc_status status = find_plan(&c);
    if (status == SKETCHC_OK && bytes) *bytes = rt_plan_workspace(c.plan);
    if (status == SKETCHC_OK && where) c.error = launch_found(&c, where);
    rt_launcher_unlock(c.launcher);
    return status == SKETCHC_OUT_OF_MEMORY ? without_memory(message) : told(&c.error, message);
}

sketchc_status sketchc_launch(sketchc_launcher *launcher, const sketchc_dltensor *const *tensors, size_t tensor_count, void *workspace,
                              uint64_t workspace_bytes, void *stream, char **message) {
    Where where = {workspace, stream, workspace_bytes};
    return with_tensors(launcher, tensors, tensor_count, &where, NULL, message);
}

sketchc_status sketchc_launch_workspace(sketchc_launcher *launcher, const sketchc_dltensor *const *tensors, size_t tensor_count,
                                        uint64_t *bytes, char **message) {
    if (!bytes) return is_null("bytes", message);
    *bytes = 0;
    return with_tensors(launcher, tensors, tensor_count, NULL, bytes, message);
}
