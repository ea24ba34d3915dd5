/* The structural rules of an artifact, for those read from a file and those made in memory. */
#include "artifact_internal.h"

#include <string.h>

typedef struct {
    const Artifact *a;
    Arena *scratch;
    const char *error; /* the first finding */
} Check;

static void fail(Check *c, const char *format, ...) PRINTF_LIKE(2, 3);
static void fail(Check *c, const char *format, ...) {
    if (c->error) return;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    c->error = arena_strdup(c->scratch, text);
}

/* Names become C identifiers, file names and environment: a closed alphabet. */
static bool is_name(const char *s) {
    if (!s || !*s || strlen(s) > ARTIFACT_MAX_NAME) return false;
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || *s == '_')) return false;
    return true;
}

static bool is_identifier(const char *s) {
    return is_name(s) && !(*s >= '0' && *s <= '9');
}

/* An architecture is passed to compilers: it may not look like an option or a path. */
static bool is_arch(const char *s) {
    if (!s || !*s || strlen(s) > ARTIFACT_MAX_NAME || *s == '-' || *s == '.') return false;
    return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-") == strlen(s);
}

static const ArtifactParam *find_symbol(const Artifact *a, const char *name) {
    int i = artifact_find_param(a, name);
    return i >= 0 && a->params[i].kind == ARTIFACT_SYMBOL ? &a->params[i] : NULL;
}

/* `before`: a derived symbol may use only symbols declared before it. */
static void check_formula(Check *c, const Aff *e, const char *what, size_t before) {
    if (c->error) return;
    if (e->kind == AFF_VAR) fail(c, "%s uses a variable that is no symbol", what);
    if (e->kind == AFF_SYM && !artifact_is_launch_constant(e->name)) {
        const ArtifactParam *symbol = find_symbol(c->a, e->name);
        if (!symbol)
            fail(c, "%s uses the unknown symbol '%.64s'", what, e->name);
        else if ((size_t)(symbol - c->a->params) >= before)
            fail(c, "%s uses the symbol '%.64s' before its declaration", what, e->name);
    }
    for (size_t i = 0; i < e->count && !c->error; i++) check_formula(c, e->args[i], what, before);
}

static void need_formula(Check *c, const Aff *e, const char *what) {
    if (!e)
        fail(c, "%s is missing", what);
    else
        check_formula(c, e, what, SIZE_MAX);
}

/* The machine's limits: what passes makes a map wherever the addresses are aligned. */
static void check_map(Check *c, const ArtifactParam *p) {
    const ArtifactParam *t = p->tensor < c->a->param_count ? &c->a->params[p->tensor] : NULL;
    bool tensor = t && t->kind == ARTIFACT_TENSOR && t->rank == p->rank, workspace = t && t->kind == ARTIFACT_WORKSPACE;
    if ((!tensor && !workspace) || t->dtype != p->dtype || !p->rank || p->rank > ARTIFACT_MAP_RANK) {
        fail(c, "the map '%s' is of no tensor of its rank and dtype", p->name);
        return;
    }
    for (unsigned i = 0; i < p->rank && workspace && !c->error; i++) need_formula(c, p->extents[i], "an extent");
    bool swizzle = p->swizzle == 0 || p->swizzle == 32 || p->swizzle == 64 || p->swizzle == 128;
    size_t bytes = p->box[p->rank - 1] * dtype_size(p->dtype);
    if (!swizzle || bytes % 16 || (p->swizzle && bytes > p->swizzle)) fail(c, "the map '%s' has rows that do not fit its swizzle", p->name);
    if (p->joined > 1 && (p->joined > 256 || p->rank < 2)) fail(c, "the map '%s' joins rows that there are not", p->name);
    if (p->tf32 && p->dtype != DTYPE_F32) fail(c, "the map '%s' rounds to tf32 what is no f32", p->name);
    for (unsigned i = 0; i < p->rank; i++)
        if (p->box[i] < 1 || p->box[i] > 256) fail(c, "the box of the map '%s' is out of range", p->name);
}

static void check_param(Check *c, size_t index) {
    const ArtifactParam *p = &c->a->params[index];
    if (!is_identifier(p->name)) {
        fail(c, "parameter %zu has no valid name", index);
        return;
    }
    if ((unsigned)p->kind >= ARTIFACT_PARAM_KIND_COUNT) fail(c, "parameter '%s' is of no known kind", p->name);
    if (artifact_find_param(c->a, p->name) != (int)index) fail(c, "parameter '%s' is declared twice", p->name);
    bool of_launch = p->kind == ARTIFACT_SYMBOL && p->derived && p->derived->kind == AFF_SYM && strcmp(p->derived->name, p->name) == 0;
    if (artifact_is_launch_constant(p->name) && !of_launch) fail(c, "parameter '%s' has a reserved name", p->name);
    if (index > 0 && c->a->params[index - 1].kind > p->kind)
        fail(c, "parameter '%s' is out of order (tensors, symbols, scalars, workspaces, maps)", p->name);
    if (p->graph_name && !is_identifier(p->graph_name)) fail(c, "parameter '%s' has no valid name in the operator", p->name);
    bool typed = p->kind != ARTIFACT_SYMBOL;
    if (typed && (p->dtype <= DTYPE_NONE || p->dtype >= DTYPE_COUNT)) fail(c, "parameter '%s' has no valid dtype", p->name);
    if (c->error) return;
    if (p->kind == ARTIFACT_TENSOR) {
        if (!artifact_direction_name(p->direction) || p->rank > ARTIFACT_MAX_RANK)
            fail(c, "tensor '%s' has a direction or rank out of range", p->name);
        for (unsigned i = 0; i < p->rank && !c->error; i++) need_formula(c, p->extents[i], "an extent");
        for (unsigned i = 0; p->strided && i < p->rank && !c->error; i++) need_formula(c, p->strides[i], "a stride");
    }
    if (p->kind == ARTIFACT_SYMBOL && p->derived) check_formula(c, p->derived, "a derived symbol", index);
    if (p->kind == ARTIFACT_WORKSPACE) need_formula(c, p->elements, "a workspace's size");
    if (p->kind == ARTIFACT_MAP) check_map(c, p);
}

static void check_version(Check *c, const ArtifactStep *s, const ArtifactVersion *v) {
    const Artifact *a = c->a;
    if (!is_identifier(v->entry)) fail(c, "step '%s' has an entry without a valid name", s->name);
    if (v->guard) check_formula(c, v->guard, "a guard", SIZE_MAX);
    if (v->pointer_align > ARTIFACT_MAX_ALIGN || (v->pointer_align & (v->pointer_align - 1)))
        fail(c, "step '%s' wants addresses aligned to %u bytes (a power of two up to 256)", s->name, v->pointer_align);
    for (int i = 0; i < 3 && !c->error; i++) need_formula(c, v->grid[i], "a grid extent");
    if (!c->error) need_formula(c, v->shared_bytes, "the shared memory's size");
    if (v->block_threads < 1 || v->block_threads > 1024)
        fail(c, "step '%s' wants %u threads a block (1 to 1024)", s->name, v->block_threads);
    for (int i = 0; i < 3; i++)
        if (v->cluster[i] < 1 || v->cluster[i] > 16) fail(c, "step '%s' has a cluster out of range", s->name);
    if (!c->error && v->cluster[0] * v->cluster[1] * v->cluster[2] > 16) fail(c, "step '%s' has a cluster of more than 16 blocks", s->name);
    if (v->max_registers > 255) fail(c, "step '%s' has a register cap above 255", s->name);
    if (v->arg_count > ARTIFACT_MAX_PARAMS) fail(c, "step '%s' has too many arguments", s->name);
    for (size_t i = 0; i < v->arg_count && !c->error; i++)
        if (v->args[i] >= a->param_count) fail(c, "step '%s' has an argument that is no parameter", s->name);
}

static void check_step(Check *c, const ArtifactStep *s) {
    if (!is_name(s->name)) {
        fail(c, "a step has no valid name");
        return;
    }
    if (s->kind == ARTIFACT_KERNEL) {
        if (s->version_count < 1 || s->version_count > ARTIFACT_MAX_VERSIONS)
            fail(c, "step '%s' has %zu versions (1 to %d)", s->name, s->version_count, ARTIFACT_MAX_VERSIONS);
        for (size_t i = 0; i < s->version_count && !c->error; i++) check_version(c, s, &s->versions[i]);
    } else if (s->kind == ARTIFACT_MEMSET) {
        if (s->param >= c->a->param_count || s->byte > 255)
            fail(c, "step '%s' fills nothing valid", s->name);
        else if (c->a->params[s->param].kind != ARTIFACT_TENSOR && c->a->params[s->param].kind != ARTIFACT_WORKSPACE)
            fail(c, "step '%s' fills what is no memory", s->name);
    } else {
        fail(c, "step '%s' is of no known kind", s->name);
    }
}

static void check_blobs(Check *c) {
    const Artifact *a = c->a;
    for (size_t i = 0; i < a->blob_count && !c->error; i++) {
        const ArtifactBlob *b = &a->blobs[i];
        if ((unsigned)b->kind >= ARTIFACT_BLOB_KIND_COUNT) {
            fail(c, "code %zu is of no known kind", i);
            return;
        }
        bool cpu = b->kind == ARTIFACT_C || b->kind == ARTIFACT_SO;
        bool text = b->kind == ARTIFACT_C || b->kind == ARTIFACT_PTX || b->kind == ARTIFACT_CUDA_C;
        if (cpu != (a->target == ARTIFACT_CPU))
            fail(c, "code of kind %s is not for the target %s", artifact_blob_kind_name(b->kind), artifact_target_name(a->target));
        if (!is_arch(b->arch)) fail(c, "code %zu has no valid architecture", i);
        if (text && memchr(b->data, 0, b->size)) fail(c, "%s text holds a NUL byte", artifact_blob_kind_name(b->kind));
    }
}

static void check_counts(Check *c) {
    const Artifact *a = c->a;
    if (!is_identifier(a->name)) fail(c, "the artifact has no valid name");
    if ((unsigned)a->target >= ARTIFACT_TARGET_COUNT) fail(c, "the target is unknown");
    if (!is_arch(a->arch)) fail(c, "the architecture is not valid");
    if (!a->tool_version || strlen(a->tool_version) > ARTIFACT_MAX_NAME) fail(c, "the tool version is not valid");
    if (a->param_count > ARTIFACT_MAX_PARAMS) fail(c, "more than %d parameters", ARTIFACT_MAX_PARAMS);
    if (a->step_count > ARTIFACT_MAX_STEPS) fail(c, "more than %d steps", ARTIFACT_MAX_STEPS);
    if (a->blob_count > ARTIFACT_MAX_BLOBS) fail(c, "more than %d code blobs", ARTIFACT_MAX_BLOBS);
    if (a->constraint_count > ARTIFACT_MAX_STEPS) fail(c, "more than %d constraints", ARTIFACT_MAX_STEPS);
    if (a->constexpr_count > ARTIFACT_MAX_PARAMS) fail(c, "more than %d constexprs", ARTIFACT_MAX_PARAMS);
}

const char *artifact_check(const Artifact *a, Arena *scratch) {
    Check c = {a, scratch, NULL};
    check_counts(&c);
    for (size_t i = 0; i < a->constexpr_count && !c.error; i++)
        if (!is_identifier(a->constexprs[i].name) || !a->constexprs[i].value) fail(&c, "a constexpr has no valid name or value");
    /* Names first: formulas look parameters up by name. */
    for (size_t i = 0; i < a->param_count && !c.error; i++)
        if (!a->params[i].name) fail(&c, "parameter %zu has no name", i);
    for (size_t i = 0; i < a->param_count && !c.error; i++) check_param(&c, i);
    for (size_t i = 0; i < a->constraint_count && !c.error; i++) need_formula(&c, a->constraints[i].expr, "a constraint");
    for (size_t i = 0; i < a->step_count && !c.error; i++) check_step(&c, &a->steps[i]);
    if (!c.error) check_blobs(&c);
    return c.error;
}
