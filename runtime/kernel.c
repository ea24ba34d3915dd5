/* An artifact bound to buffers of the caller, in the caller's process. */
#include "memory.h"
#include "session.h"

#include <stdlib.h>
#include <string.h>

struct RtKernel {
    Arena *arena;
    const Artifact *a;
    Device device;
    Program *program;
    Binding binding;
    Launch *launches;
    size_t launch_count;
    uint64_t *addresses;  /* by parameter */
    uint64_t *workspaces; /* by parameter: what is ours to release; 0: none */
};

static RtError bind_symbols(RtKernel *k, const RtOptions *options) {
    binding_init(&k->binding, k->arena, k->a, k->device.num_sms, k->device.num_cores);
    RT_TRY(binding_set_all(&k->binding, options->symbols, options->symbol_count, options->scalars, options->scalar_count));
    return binding_complete(&k->binding);
}

static const RtBuffer *find_buffer(const RtBuffer *buffers, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(buffers[i].name, name) == 0) return &buffers[i];
    return NULL;
}

/* By the sketch's name of a tensor, or the operator's. */
static RtError bind_tensor(RtKernel *k, unsigned p, const RtBuffer *buffers, size_t count) {
    const ArtifactParam *param = &k->a->params[p];
    const RtBuffer *b = find_buffer(buffers, count, param->name);
    if (!b && param->graph_name) b = find_buffer(buffers, count, param->graph_name);
    if (!b) return rt_error(RT_BAD_INPUT, "no buffer is given for the tensor '%s'", param->name);
    if (b->bytes != k->binding.bytes[p])
        return rt_error(RT_BAD_INPUT, "'%s' has %llu bytes at these sizes, the given buffer has %llu", param->name,
                        (unsigned long long)k->binding.bytes[p], (unsigned long long)b->bytes);
    k->addresses[p] = b->address;
    return rt_ok();
}

static RtError bind_buffers(RtKernel *k, const RtBuffer *buffers, size_t count) {
    size_t tensors = 0;
    for (unsigned i = 0; i < k->a->param_count; i++) {
        ArtifactParamKind kind = k->a->params[i].kind;
        if (kind == ARTIFACT_TENSOR) {
            RT_TRY(bind_tensor(k, i, buffers, count));
            tensors++;
        }
        if (kind != ARTIFACT_WORKSPACE) continue;
        RT_TRY(k->device.ops->alloc(&k->device, k->binding.bytes[i], &k->workspaces[i]));
        k->addresses[i] = k->workspaces[i];
    }
    if (tensors < count) return rt_error(RT_BAD_INPUT, "a buffer is given that '%s' does not have", k->a->name);
    return plan_check_overlap(&k->binding, k->addresses);
}

static RtError open_kernel(RtKernel *k, const RtOptions *options, const RtBuffer *buffers, size_t count) {
    RT_TRY(device_open(&k->device, k->a->target, options->device));
    RT_TRY(bind_symbols(k, options));
    RT_TRY(bind_buffers(k, buffers, count));
    RT_TRY(plan_launches(&k->binding, k->arena, k->addresses, &k->launches, &k->launch_count));
    return k->device.ops->load(&k->device, k->a, options, &k->program);
}

static void close_undone(void *kernel) {
    rt_kernel_close(kernel);
}

RtError rt_kernel_open(const Artifact *a, const RtOptions *options, const RtBuffer *buffers, size_t count, RtKernel **kernel) {
    *kernel = NULL;
    RtKernel *k = memory_alloc(sizeof *k);
    k->arena = arena_create();
    k->a = a;
    k->addresses = ARENA_ARRAY(k->arena, uint64_t, a->param_count + 1);
    k->workspaces = ARENA_ARRAY(k->arena, uint64_t, a->param_count + 1);
    MemoryUndo undo;
    memory_push(&undo, close_undone, k);
    RtError e = open_kernel(k, options, buffers, count);
    memory_pop(&undo);
    if (rt_failed(&e))
        rt_kernel_close(k);
    else
        *kernel = k;
    return e;
}

RtError rt_kernel_launch(RtKernel *k, void *stream) {
    Session s = {.device = &k->device,
                 .program = k->program,
                 .a = k->a,
                 .binding = &k->binding,
                 .launches = k->launches,
                 .launch_count = k->launch_count,
                 .addresses = k->addresses};
    k->device.ops->use_stream(&k->device, stream);
    return session_start(&s);
}

static const RtKernelInfo *find_info(const Program *p, const char *entry) {
    for (unsigned i = 0; i < p->kernel_count; i++)
        if (strcmp(p->kernels[i].entry, entry) == 0) return &p->kernels[i];
    return NULL;
}

static void put_launch(const RtKernel *k, const Launch *l, Str *out) {
    const ArtifactVersion *v = l->version;
    const RtKernelInfo *info = find_info(k->program, v->entry);
    str_append(out, "{\"entry\":");
    str_append_json(out, v->entry);
    str_printf(out,
               ",\"grid\":[%u,%u,%u],\"threads\":%u,\"cluster\":[%u,%u,%u],\"shared_bytes\":%u,"
               "\"cooperative\":%s%s",
               l->grid[0], l->grid[1], l->grid[2], v->block_threads, v->cluster[0], v->cluster[1], v->cluster[2], l->shared_bytes,
               v->cooperative ? "true" : "false", l->dependent ? ",\"dependent\":true" : "");
    if (info)
        str_printf(out, ",\"registers\":%d,\"local_bytes\":%d,\"blocks_per_sm\":%d", info->registers, info->local_bytes,
                   info->blocks_per_sm);
    str_append_char(out, '}');
}

void rt_kernel_json(const RtKernel *k, Str *out) {
    uint64_t workspace = 0;
    for (size_t i = 0; i < k->a->param_count; i++)
        if (k->workspaces[i]) workspace += k->binding.bytes[i];
    str_append(out, "{\"format\":1,\"kind\":\"kernel\",\"device\":");
    str_append_json(out, k->device.name);
    str_append(out, ",\"code\":");
    str_append_json(out, k->program->how);
    Str products;
    str_init(&products);
    rt_products(k->a, &products);
    str_append_member(out, "products", products.len ? products.data : "");
    str_release(&products);
    str_printf(out, ",\"bytes\":%llu,\"workspace_bytes\":%llu,\"launches\":[", (unsigned long long)binding_traffic_bytes(&k->binding),
               (unsigned long long)workspace);
    bool any = false;
    for (size_t i = 0; i < k->launch_count; i++) {
        if (k->launches[i].step->kind != ARTIFACT_KERNEL) continue;
        if (any) str_append_char(out, ',');
        put_launch(k, &k->launches[i], out);
        any = true;
    }
    str_append(out, "]}\n");
}

void rt_kernel_close(RtKernel *k) {
    if (!k) return;
    Device *d = &k->device;
    if (d->impl) {
        d->ops->sync(d);
        if (k->program) d->ops->unload(d, k->program);
        for (size_t i = 0; i < k->a->param_count; i++)
            if (k->workspaces[i]) d->ops->release(d, k->workspaces[i]);
        d->ops->close(d);
    }
    arena_destroy(k->arena);
    memory_free(k);
}
