/* Reading `.ska`. Nothing in the file is trusted: sizes are checked before use, every field has a
 * type and a range, formulas may name declared symbols only (artifact_check). */
#include "artifact_internal.h"
#include "json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Artifact *a;
    Arena *arena;
    const unsigned char *blobs; /* what follows the header */
    size_t blobs_size;
    const char *error; /* the first finding; later reads give harmless values */
} Reader;

static void fail(Reader *r, const char *format, ...) PRINTF_LIKE(2, 3);
static void fail(Reader *r, const char *format, ...) {
    if (r->error) return;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    r->error = arena_strdup(r->arena, text);
}

static uint64_t get_le(const unsigned char *in, unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)in[i] << (8 * i);
    return value;
}

/* ---- Fields ---- */

static const char *get_string(Reader *r, const Json *object, const char *key, bool optional) {
    const Json *item = json_get(object, key);
    if (!item && optional) return NULL;
    const char *text = json_string(item, NULL);
    if (!text || strlen(text) > SKA_MAX_TEXT) {
        fail(r, "the field '%s' is missing or no text of sensible length", key);
        return "";
    }
    return arena_strdup(r->arena, text);
}

static uint64_t to_uint(Reader *r, const Json *item, const char *what, uint64_t limit) {
    int64_t v = -1;
    if (!json_int(item, &v) || v < 0 || (uint64_t)v > limit) {
        fail(r, "the field '%s' is missing or out of range", what);
        return 0;
    }
    return (uint64_t)v;
}

static uint64_t get_uint(Reader *r, const Json *object, const char *key, uint64_t limit) {
    return to_uint(r, json_get(object, key), key, limit);
}

static bool get_bool(Reader *r, const Json *object, const char *key) {
    const Json *item = json_get(object, key);
    if (json_kind(item) != JSON_BOOL) fail(r, "the field '%s' is missing or neither true nor false", key);
    return json_bool(item, false);
}

static const Json *get_array(Reader *r, const Json *object, const char *key, size_t limit, size_t *count) {
    const Json *item = json_get(object, key);
    *count = 0;
    if (json_kind(item) != JSON_ARRAY || json_count(item) > limit) {
        fail(r, "the field '%s' is missing, no list, or longer than %zu", key, limit);
        return NULL;
    }
    *count = json_count(item);
    return item;
}

static const Aff *to_formula(Reader *r, const Json *item, const char *what) {
    size_t error_at = 0;
    const char *text = json_string(item, NULL);
    if (!text || strlen(text) > SKA_MAX_FORMULA) {
        fail(r, "the formula '%s' is missing or too long", what);
        return aff_const(r->a->affs, 0);
    }
    const Aff *e = aff_parse(r->a->affs, text, NULL, NULL, &error_at);
    if (e) return e;
    fail(r, "the formula '%s' is not valid at byte %zu: %.80s", what, error_at, text);
    return aff_const(r->a->affs, 0);
}

static const Aff *get_formula(Reader *r, const Json *object, const char *key, bool optional) {
    const Json *item = json_get(object, key);
    return !item && optional ? NULL : to_formula(r, item, key);
}

/* ---- Parts ---- */

static ArtifactParamKind to_param_kind(Reader *r, const char *name) {
    for (unsigned i = 0; i < ARTIFACT_PARAM_KIND_COUNT; i++)
        if (strcmp(artifact_param_kind_name((ArtifactParamKind)i), name) == 0) return (ArtifactParamKind)i;
    fail(r, "'%.40s' is no kind of parameter", name);
    return ARTIFACT_SYMBOL;
}

static unsigned to_direction(Reader *r, const char *name) {
    for (unsigned d = ARTIFACT_IN; d <= ARTIFACT_INOUT; d++)
        if (strcmp(artifact_direction_name(d), name) == 0) return d;
    fail(r, "'%.40s' is no direction", name);
    return ARTIFACT_IN;
}

static void read_tensor(Reader *r, const Json *item, ArtifactParam *p) {
    size_t count;
    const Json *extents = get_array(r, item, "extents", ARTIFACT_MAX_RANK, &count), *e;
    p->direction = to_direction(r, get_string(r, item, "direction", false));
    for (e = json_first(extents); e; e = json_next(e)) p->extents[p->rank++] = to_formula(r, e, "extents");
    p->strided = json_get(item, "strides") != NULL;
    if (!p->strided) return;
    const Json *strides = get_array(r, item, "strides", ARTIFACT_MAX_RANK, &count);
    if (count != p->rank) fail(r, "the tensor '%.64s' has %zu strides for %u extents", p->name, count, p->rank);
    unsigned i = 0;
    for (e = json_first(strides); e; e = json_next(e)) p->strides[i++] = to_formula(r, e, "strides");
}

static void read_map(Reader *r, const Json *item, ArtifactParam *p) {
    size_t count;
    const Json *box = get_array(r, item, "box", ARTIFACT_MAP_RANK, &count), *e;
    p->tensor = (unsigned)get_uint(r, item, "tensor", ARTIFACT_MAX_PARAMS);
    p->swizzle = (unsigned)get_uint(r, item, "swizzle", 128);
    for (e = json_first(box); e; e = json_next(e)) p->box[p->rank++] = (unsigned)to_uint(r, e, "box", 256);
    if (json_get(item, "tf32")) p->tf32 = get_bool(r, item, "tf32");
    if (json_get(item, "joined")) p->joined = (unsigned)get_uint(r, item, "joined", 256);
    if (!json_get(item, "extents")) return;
    const Json *extents = get_array(r, item, "extents", ARTIFACT_MAP_RANK, &count);
    if (count != p->rank) fail(r, "the map '%.64s' has %zu extents for %u axes", p->name, count, p->rank);
    unsigned i = 0;
    for (e = json_first(extents); e && i < p->rank; e = json_next(e)) p->extents[i++] = to_formula(r, e, "extents");
}

static void read_param(Reader *r, const Json *item, ArtifactParam *p) {
    p->kind = to_param_kind(r, get_string(r, item, "kind", false));
    p->name = get_string(r, item, "name", false);
    p->graph_name = get_string(r, item, "graph", true);
    p->fallback = NAN;
    if (p->kind != ARTIFACT_SYMBOL) {
        const char *dtype = get_string(r, item, "dtype", false);
        if (!dtype_find(dtype, &p->dtype)) fail(r, "'%.40s' is no dtype", dtype);
    }
    if (p->kind == ARTIFACT_TENSOR) read_tensor(r, item, p);
    if (p->kind == ARTIFACT_SYMBOL) p->derived = get_formula(r, item, "derived", true);
    if (p->kind == ARTIFACT_WORKSPACE) p->elements = get_formula(r, item, "elements", false);
    if (p->kind == ARTIFACT_MAP) read_map(r, item, p);
    if (p->kind == ARTIFACT_SCALAR) {
        const char *text = get_string(r, item, "default", true);
        if (text && !parse_double(text, &p->fallback)) fail(r, "the default '%.40s' is no number", text);
    }
}

static void read_triple(Reader *r, const Json *object, const char *key, unsigned out[3]) {
    size_t count, i = 0;
    const Json *list = get_array(r, object, key, 3, &count), *e;
    if (count != 3) fail(r, "the field '%s' has not three values", key);
    for (e = json_first(list); e; e = json_next(e)) out[i++] = (unsigned)to_uint(r, e, key, 1024);
}

static void read_version(Reader *r, const Json *item, ArtifactVersion *v) {
    size_t count, i = 0;
    const Json *e, *grid = get_array(r, item, "grid", 3, &count);
    if (count != 3) fail(r, "a grid has not three extents");
    for (e = json_first(grid); e; e = json_next(e)) v->grid[i++] = to_formula(r, e, "grid");
    v->entry = get_string(r, item, "entry", false);
    v->guard = get_formula(r, item, "guard", true);
    if (json_get(item, "align")) v->pointer_align = (unsigned)get_uint(r, item, "align", ARTIFACT_MAX_ALIGN);
    v->shared_bytes = get_formula(r, item, "shared", false);
    v->block_threads = (unsigned)get_uint(r, item, "threads", 1024);
    v->max_registers = (unsigned)get_uint(r, item, "registers", 255);
    v->cooperative = get_bool(r, item, "cooperative");
    if (json_get(item, "dependent")) v->dependent = get_bool(r, item, "dependent");
    read_triple(r, item, "cluster", v->cluster);
    const Json *args = get_array(r, item, "args", ARTIFACT_MAX_PARAMS, &v->arg_count);
    unsigned *indices = ARENA_ARRAY(r->arena, unsigned, v->arg_count + 1);
    i = 0;
    for (e = json_first(args); e; e = json_next(e)) indices[i++] = (unsigned)to_uint(r, e, "args", ARTIFACT_MAX_PARAMS);
    v->args = indices;
}

static void read_step(Reader *r, const Json *item, ArtifactStep *s) {
    const char *kind = get_string(r, item, "kind", false);
    s->name = get_string(r, item, "name", false);
    if (strcmp(kind, "memset") == 0) {
        s->kind = ARTIFACT_MEMSET;
        s->param = (unsigned)get_uint(r, item, "param", ARTIFACT_MAX_PARAMS);
        s->byte = (unsigned)get_uint(r, item, "byte", 255);
        return;
    }
    if (strcmp(kind, "kernel") != 0) fail(r, "'%.40s' is no kind of step", kind);
    s->kind = ARTIFACT_KERNEL;
    const Json *e, *list = get_array(r, item, "versions", ARTIFACT_MAX_VERSIONS, &s->version_count);
    s->versions = ARENA_ARRAY(r->arena, ArtifactVersion, s->version_count + 1);
    size_t i = 0;
    for (e = json_first(list); e; e = json_next(e)) read_version(r, e, &s->versions[i++]);
}

/* Copies [offset, offset + size) of the part after the header, NUL-terminated. */
static const unsigned char *read_bytes(Reader *r, const Json *item, size_t *size) {
    uint64_t offset = get_uint(r, item, "offset", r->blobs_size);
    uint64_t length = get_uint(r, item, "size", r->blobs_size);
    *size = 0;
    if (r->error || length > r->blobs_size - offset) {
        fail(r, "code lies outside the file");
        return (const unsigned char *)"";
    }
    *size = (size_t)length;
    return (const unsigned char *)arena_strndup(r->arena, (const char *)r->blobs + offset, *size);
}

static void read_blobs(Reader *r, const Json *root) {
    Artifact *a = r->a;
    size_t size, i = 0;
    const Json *graph = json_get(root, "graph"), *sketch = json_get(root, "sketch"), *e;
    if (graph) {
        a->graph = (const char *)read_bytes(r, graph, &size);
        if (strlen(a->graph) != size) fail(r, "the operator's text holds a NUL byte");
    }
    if (sketch) {
        a->sketch = (const char *)read_bytes(r, sketch, &size);
        if (strlen(a->sketch) != size) fail(r, "the sketch's text holds a NUL byte");
    }
    const Json *list = get_array(r, root, "blobs", ARTIFACT_MAX_BLOBS, &a->blob_count);
    a->blobs = ARENA_ARRAY(r->arena, ArtifactBlob, a->blob_count + 1);
    for (e = json_first(list); e; e = json_next(e)) {
        ArtifactBlob *b = &a->blobs[i++];
        const char *kind = get_string(r, e, "kind", false);
        if (!artifact_blob_kind_find(kind, &b->kind)) fail(r, "'%.40s' is no kind of code", kind);
        b->arch = get_string(r, e, "arch", false);
        b->data = read_bytes(r, e, &b->size);
    }
}

static void read_lists(Reader *r, const Json *root) {
    Artifact *a = r->a;
    const Json *e, *list = get_array(r, root, "constexprs", ARTIFACT_MAX_PARAMS, &a->constexpr_count);
    a->constexprs = ARENA_ARRAY(r->arena, ArtifactConstexpr, a->constexpr_count + 1);
    size_t i = 0;
    for (e = json_first(list); e; e = json_next(e)) {
        a->constexprs[i].name = get_string(r, e, "name", false);
        a->constexprs[i++].value = get_string(r, e, "value", false);
    }
    list = get_array(r, root, "params", ARTIFACT_MAX_PARAMS, &a->param_count);
    a->params = ARENA_ARRAY(r->arena, ArtifactParam, a->param_count + 1);
    i = 0;
    for (e = json_first(list); e; e = json_next(e)) read_param(r, e, &a->params[i++]);
    list = get_array(r, root, "constraints", ARTIFACT_MAX_STEPS, &a->constraint_count);
    a->constraints = ARENA_ARRAY(r->arena, ArtifactConstraint, a->constraint_count + 1);
    i = 0;
    for (e = json_first(list); e; e = json_next(e)) {
        a->constraints[i].expr = get_formula(r, e, "expr", false);
        a->constraints[i].equal = get_bool(r, e, "equal");
        a->constraints[i++].text = get_string(r, e, "text", false);
    }
    list = get_array(r, root, "steps", ARTIFACT_MAX_STEPS, &a->step_count);
    a->steps = ARENA_ARRAY(r->arena, ArtifactStep, a->step_count + 1);
    i = 0;
    for (e = json_first(list); e; e = json_next(e)) read_step(r, e, &a->steps[i++]);
}

static void read_root(Reader *r, const Json *root) {
    Artifact *a = r->a;
    a->tool_version = get_string(r, root, "tool", false);
    a->name = get_string(r, root, "name", false);
    a->arch = get_string(r, root, "arch", false);
    const char *target = get_string(r, root, "target", false);
    if (strcmp(target, "cpu") == 0)
        a->target = ARTIFACT_CPU;
    else if (strcmp(target, "cuda") == 0)
        a->target = ARTIFACT_CUDA;
    else
        fail(r, "the target '%.40s' is unknown", target);
    if (json_get(root, "unordered")) a->unordered = get_bool(r, root, "unordered");
    read_lists(r, root);
    read_blobs(r, root);
    if (!r->error) r->error = artifact_check(a, r->arena);
}

/* The fixed part; gives the header's size, or 0 with the error set. */
static size_t check_fixed(Reader *r, const unsigned char *data, size_t size) {
    if (size < SKA_FIXED || memcmp(data, artifact_magic, SKA_MAGIC_SIZE) != 0) {
        fail(r, "this is not an artifact (.ska)");
        return 0;
    }
    uint64_t format = get_le(data + 8, 4), header = get_le(data + 12, 4), total = get_le(data + 16, 8);
    unsigned char sum[16];
    if (format != ARTIFACT_FORMAT)
        fail(r, "the artifact's format is %llu, this program reads %d", (unsigned long long)format, ARTIFACT_FORMAT);
    else if (total != size)
        fail(r, "the artifact is cut short or too long: %zu bytes, %llu were written", size, (unsigned long long)total);
    else if (header < 2 || header > SKA_MAX_HEADER || header > size - SKA_FIXED)
        fail(r, "the artifact's header has a size out of range");
    if (r->error) return 0;
    artifact_checksum(data, size, sum);
    if (memcmp(sum, data + SKA_CHECKED_PREFIX, sizeof sum) != 0) fail(r, "the artifact is damaged: its checksum does not match");
    return r->error ? 0 : (size_t)header;
}

Artifact *artifact_read(Arena *arena, const void *data, size_t size, const char **error) {
    Reader r = {.arena = arena};
    r.a = ARENA_NEW(arena, Artifact);
    r.a->arena = arena;
    r.a->affs = aff_ctx_create(arena);
    size_t header = check_fixed(&r, data, size);
    if (header) {
        const char *text = (const char *)data + SKA_FIXED;
        r.blobs = (const unsigned char *)text + header;
        r.blobs_size = size - SKA_FIXED - header;
        char why[128];
        JsonLimits limits = {.bytes = SKA_MAX_HEADER, .depth = 8, .values = 100000};
        Json *root = json_read(text, header, &limits, why);
        if (json_kind(root) == JSON_OBJECT)
            read_root(&r, root);
        else
            fail(&r, "the artifact's header is no JSON object: %s", root ? "another value" : why);
        json_release(root);
    }
    *error = r.error;
    return r.error ? NULL : r.a;
}
