/* A launcher: an artifact's code on a device, and where the sizes of a call stand in its tensors. */
#include "launch_internal.h"

#include "memory.h"

#include <string.h>

static const char *copy_name(Arena *arena, const char *name) {
    return arena_printf(arena, "%s", name);
}

/* The options' names may be gone when a plan is made. */
static void keep_fixed(RtLauncher *l, const RtOptions *o) {
    RtSymbol *symbols = ARENA_ARRAY(l->arena, RtSymbol, o->symbol_count + 1);
    RtScalar *scalars = ARENA_ARRAY(l->arena, RtScalar, o->scalar_count + 1);
    for (size_t i = 0; i < o->symbol_count; i++) symbols[i] = (RtSymbol){copy_name(l->arena, o->symbols[i].name), o->symbols[i].value};
    for (size_t i = 0; i < o->scalar_count; i++) scalars[i] = (RtScalar){copy_name(l->arena, o->scalars[i].name), o->scalars[i].value};
    l->fixed = (RtSizes){symbols, o->symbol_count, scalars, o->scalar_count};
}

static void list_tensors(RtLauncher *l) {
    l->tensors = ARENA_ARRAY(l->arena, unsigned, l->a->param_count + 1);
    for (unsigned i = 0; i < l->a->param_count; i++)
        if (l->a->params[i].kind == ARTIFACT_TENSOR) l->tensors[l->tensor_count++] = i;
}

/* Whether a call's tensors have to say what the symbol is. */
static bool is_open(const RtLauncher *l, unsigned symbol) {
    for (size_t i = 0; i < l->fixed.symbol_count; i++)
        if (strcmp(l->fixed.symbols[i].name, l->a->params[symbol].name) == 0) return false;
    for (size_t i = 0; i < l->source_count; i++)
        if (l->sources[i].symbol == symbol) return false;
    return !l->a->params[symbol].derived;
}

static void add_source(RtLauncher *l, const Aff *formula, unsigned tensor, unsigned axis, bool stride) {
    int symbol = formula->kind == AFF_SYM ? artifact_find_param(l->a, formula->name) : -1;
    if (symbol < 0 || l->a->params[symbol].kind != ARTIFACT_SYMBOL || !is_open(l, (unsigned)symbol)) return;
    l->sources[l->source_count++] = (Source){(unsigned)symbol, tensor, axis, stride};
}

static void list_sources(RtLauncher *l) {
    l->sources = ARENA_ARRAY(l->arena, Source, l->a->param_count + 1);
    for (int strides = 0; strides < 2; strides++)
        for (unsigned t = 0; t < l->tensor_count; t++) {
            const ArtifactParam *p = &l->a->params[l->tensors[t]];
            for (unsigned d = 0; d < p->rank && (!strides || p->strided); d++)
                add_source(l, strides ? p->strides[d] : p->extents[d], t, d, strides != 0);
        }
}

static RtError open_launcher(RtLauncher *l, const RtOptions *options) {
    keep_fixed(l, options);
    list_tensors(l);
    list_sources(l);
    RT_TRY(device_open(&l->device, l->a->target, options->device));
    return l->device.ops->load(&l->device, l->a, options, &l->program);
}

static void close_undone(void *launcher) {
    rt_launcher_close(launcher);
}

RtError rt_launcher_open(const Artifact *a, const RtOptions *options, RtLauncher **launcher) {
    *launcher = NULL;
    RtLauncher *l = memory_alloc(sizeof *l);
    l->arena = arena_create();
    l->a = a;
    l->ordinal = options->device;
    pthread_mutex_init(&l->lock, NULL);
    MemoryUndo undo;
    memory_push(&undo, close_undone, l);
    RtError e = open_launcher(l, options);
    memory_pop(&undo);
    if (rt_failed(&e))
        rt_launcher_close(l);
    else
        *launcher = l;
    return e;
}

void rt_launcher_close(RtLauncher *l) {
    if (!l) return;
    Device *d = &l->device;
    for (size_t i = 0; i < PLANS_KEPT; i++) rt_plan_free(l->kept[i]);
    if (d->impl) {
        d->ops->sync(d);
        if (l->program) d->ops->unload(d, l->program);
        d->ops->close(d);
    }
    pthread_mutex_destroy(&l->lock);
    arena_destroy(l->arena);
    memory_free(l);
}

void rt_launcher_lock(RtLauncher *l) {
    pthread_mutex_lock(&l->lock);
}

void rt_launcher_unlock(RtLauncher *l) {
    pthread_mutex_unlock(&l->lock);
}

bool rt_launcher_is_reentrant(const RtLauncher *l) {
    return l->a->target == ARTIFACT_CPU;
}

size_t rt_launcher_tensors(const RtLauncher *l) {
    return l->tensor_count;
}

int rt_launcher_find(const RtLauncher *l, const char *name) {
    for (int by_graph = 0; by_graph < 2; by_graph++)
        for (size_t i = 0; i < l->tensor_count; i++) {
            const ArtifactParam *p = &l->a->params[l->tensors[i]];
            const char *own = by_graph ? p->graph_name : p->name;
            if (own && strcmp(own, name) == 0) return (int)i;
        }
    return -1;
}
