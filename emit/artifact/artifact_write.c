#include "artifact_internal.h"

#include <math.h>
#include <string.h>

const unsigned char artifact_magic[SKA_MAGIC_SIZE] = {0x89, 'S', 'K', 'A', '\r', '\n', 0x1a, '\n'};

static void put_le(unsigned char *out, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) out[i] = (unsigned char)(value >> (8 * i));
}

void artifact_checksum(const unsigned char *data, size_t size, unsigned char out[16]) {
    Hash128 prefix = hash128(data, SKA_CHECKED_PREFIX, (Hash128){0, 0});
    Hash128 hash = hash128(data + SKA_FIXED, size - SKA_FIXED, prefix);
    put_le(out, hash.lo, 8);
    put_le(out + 8, hash.hi, 8);
}

static void put_key(Str *s, const char *key) {
    str_printf(s, "\"%s\":", key);
}

static void put_string(Str *s, const char *key, const char *text) {
    put_key(s, key);
    str_append_json(s, text);
}

static void put_formula_text(Str *s, const Aff *e) {
    Str text;
    str_init(&text);
    aff_print(e, &text);
    str_append_json(s, text.data);
    str_release(&text);
}

static void put_formula(Str *s, const char *key, const Aff *e) {
    put_key(s, key);
    put_formula_text(s, e);
}

static void put_formulas(Str *s, const char *key, unsigned count, const Aff *const *list) {
    str_append_char(s, ',');
    put_key(s, key);
    str_append_char(s, '[');
    for (unsigned i = 0; i < count; i++) {
        if (i) str_append_char(s, ',');
        put_formula_text(s, list[i]);
    }
    str_append_char(s, ']');
}

static void put_param(Str *s, const ArtifactParam *p) {
    str_append_char(s, '{');
    put_string(s, "kind", artifact_param_kind_name(p->kind));
    str_append_char(s, ',');
    put_string(s, "name", p->name);
    if (p->graph_name) {
        str_append_char(s, ',');
        put_string(s, "graph", p->graph_name);
    }
    if (p->kind != ARTIFACT_SYMBOL) {
        str_append_char(s, ',');
        put_string(s, "dtype", dtype_name(p->dtype));
    }
    if (p->kind == ARTIFACT_TENSOR) {
        str_append_char(s, ',');
        put_string(s, "direction", artifact_direction_name(p->direction));
        put_formulas(s, "extents", p->rank, p->extents);
        if (p->strided) put_formulas(s, "strides", p->rank, p->strides);
    }
    if (p->kind == ARTIFACT_SYMBOL && p->derived) {
        str_append_char(s, ',');
        put_formula(s, "derived", p->derived);
    }
    if (p->kind == ARTIFACT_WORKSPACE) {
        str_append_char(s, ',');
        put_formula(s, "elements", p->elements);
    }
    if (p->kind == ARTIFACT_MAP) {
        str_printf(s, ",\"tensor\":%u,\"swizzle\":%u,\"box\":[", p->tensor, p->swizzle);
        for (unsigned i = 0; i < p->rank; i++) str_printf(s, "%s%u", i ? "," : "", p->box[i]);
        str_append_char(s, ']');
        if (p->extents[0]) put_formulas(s, "extents", p->rank, p->extents);
        if (p->tf32) str_append(s, ",\"tf32\":true");
        if (p->joined > 1) str_printf(s, ",\"joined\":%u", p->joined);
    }
    if (p->kind == ARTIFACT_SCALAR && !isnan(p->fallback)) {
        str_append(s, ",\"default\":\"");
        str_append_double(s, p->fallback);
        str_append_char(s, '"');
    }
    str_append_char(s, '}');
}

static void put_version(Str *s, const ArtifactVersion *v) {
    str_append_char(s, '{');
    put_string(s, "entry", v->entry);
    if (v->guard) {
        str_append_char(s, ',');
        put_formula(s, "guard", v->guard);
    }
    if (v->pointer_align) str_printf(s, ",\"align\":%u", v->pointer_align);
    str_append(s, ",\"grid\":[");
    for (int i = 0; i < 3; i++) {
        if (i) str_append_char(s, ',');
        put_formula_text(s, v->grid[i]);
    }
    str_printf(s, "],\"threads\":%u,", v->block_threads);
    put_formula(s, "shared", v->shared_bytes);
    str_printf(s, ",\"cluster\":[%u,%u,%u],\"cooperative\":%s,%s\"registers\":%u,\"args\":[", v->cluster[0], v->cluster[1], v->cluster[2],
               v->cooperative ? "true" : "false", v->dependent ? "\"dependent\":true," : "", v->max_registers);
    for (size_t i = 0; i < v->arg_count; i++) str_printf(s, "%s%u", i ? "," : "", v->args[i]);
    str_append(s, "]}");
}

static void put_step(Str *s, const ArtifactStep *step) {
    str_append_char(s, '{');
    put_string(s, "kind", artifact_step_kind_name(step->kind));
    str_append_char(s, ',');
    put_string(s, "name", step->name);
    if (step->kind == ARTIFACT_MEMSET) {
        str_printf(s, ",\"param\":%u,\"byte\":%u}", step->param, step->byte);
        return;
    }
    str_append(s, ",\"versions\":[");
    for (size_t i = 0; i < step->version_count; i++) {
        if (i) str_append_char(s, ',');
        put_version(s, &step->versions[i]);
    }
    str_append(s, "]}");
}

static void put_plan(Str *s, const Artifact *a) {
    str_append(s, "\"constexprs\":[");
    for (size_t i = 0; i < a->constexpr_count; i++) {
        str_append(s, i ? ",{" : "{");
        put_string(s, "name", a->constexprs[i].name);
        str_append_char(s, ',');
        put_string(s, "value", a->constexprs[i].value);
        str_append_char(s, '}');
    }
    str_append(s, "],\n\"params\":[");
    for (size_t i = 0; i < a->param_count; i++) {
        if (i) str_append(s, ",\n");
        put_param(s, &a->params[i]);
    }
    str_append(s, "],\n\"constraints\":[");
    for (size_t i = 0; i < a->constraint_count; i++) {
        str_append(s, i ? ",{" : "{");
        put_formula(s, "expr", a->constraints[i].expr);
        str_printf(s, ",\"equal\":%s,", a->constraints[i].equal ? "true" : "false");
        put_string(s, "text", a->constraints[i].text ? a->constraints[i].text : "");
        str_append_char(s, '}');
    }
    str_append(s, "],\n\"steps\":[");
    for (size_t i = 0; i < a->step_count; i++) {
        if (i) str_append(s, ",\n");
        put_step(s, &a->steps[i]);
    }
    str_append(s, "],\n");
}

static size_t align_up(size_t n) {
    return (n + SKA_ALIGN - 1) / SKA_ALIGN * SKA_ALIGN;
}

/* Offsets count from the end of the header, so that they do not depend on its own length. */
static void put_header(Str *s, const Artifact *a) {
    size_t offset = 0;
    str_append_char(s, '{');
    put_string(s, "tool", a->tool_version);
    str_append_char(s, ',');
    put_string(s, "name", a->name);
    str_append_char(s, ',');
    put_string(s, "target", artifact_target_name(a->target));
    str_append_char(s, ',');
    put_string(s, "arch", a->arch);
    if (a->unordered) str_append(s, ",\"unordered\":true");
    str_append(s, ",\n");
    put_plan(s, a);
    if (a->graph) {
        str_printf(s, "\"graph\":{\"offset\":0,\"size\":%zu},\n", strlen(a->graph));
        offset = align_up(strlen(a->graph));
    }
    if (a->sketch) {
        str_printf(s, "\"sketch\":{\"offset\":%zu,\"size\":%zu},\n", offset, strlen(a->sketch));
        offset += align_up(strlen(a->sketch));
    }
    str_append(s, "\"blobs\":[");
    for (size_t i = 0; i < a->blob_count; i++) {
        const ArtifactBlob *b = &a->blobs[i];
        str_append(s, i ? ",{" : "{");
        put_string(s, "kind", artifact_blob_kind_name(b->kind));
        str_append_char(s, ',');
        put_string(s, "arch", b->arch);
        str_printf(s, ",\"offset\":%zu,\"size\":%zu}", offset, b->size);
        offset += align_up(b->size);
    }
    str_append(s, "]}\n");
}

static void put_padded(Str *s, const void *data, size_t size, size_t base) {
    if (size) str_append_n(s, data, size);
    while ((s->len - base) % SKA_ALIGN) str_append_char(s, '\0');
}

void artifact_write(const Artifact *a, Str *out) {
    Str header;
    str_init(&header);
    put_header(&header, a);
    while ((SKA_FIXED + header.len) % SKA_ALIGN) str_append_char(&header, ' ');

    size_t base = out->len;
    unsigned char fixed[SKA_FIXED] = {0};
    str_append_n(out, (const char *)fixed, sizeof fixed);
    put_padded(out, header.data, header.len, base);
    if (a->graph) put_padded(out, a->graph, strlen(a->graph), base);
    if (a->sketch) put_padded(out, a->sketch, strlen(a->sketch), base);
    for (size_t i = 0; i < a->blob_count; i++) put_padded(out, a->blobs[i].data, a->blobs[i].size, base);

    unsigned char *file = (unsigned char *)out->data + base;
    memcpy(file, artifact_magic, SKA_MAGIC_SIZE);
    put_le(file + 8, ARTIFACT_FORMAT, 4);
    put_le(file + 12, header.len, 4);
    put_le(file + 16, out->len - base, 8);
    artifact_checksum(file, out->len - base, file + SKA_CHECKED_PREFIX);
    str_release(&header);
}
