/* What a launcher is to be called with, as JSON. */
#include "launch_internal.h"

#include <math.h>

static void put_names(const ArtifactParam *p, Str *out) {
    str_append(out, "{\"name\":");
    str_append_json(out, p->name);
    str_append_member(out, "operator_name", p->graph_name ? p->graph_name : p->name);
}

static void put_formulas(const char *key, const Aff *const *formulas, unsigned count, Str *out) {
    str_printf(out, ",\"%s\":[", key);
    for (unsigned i = 0; i < count; i++) {
        Str text;
        str_init(&text);
        aff_print(formulas[i], &text);
        if (i) str_append_char(out, ',');
        str_append_json(out, text.data);
        str_release(&text);
    }
    str_append_char(out, ']');
}

static void put_tensor(const RtLauncher *l, const ArtifactParam *p, Str *out) {
    static const char *const directions[] = {"", "in", "out", "inout"};
    (void)l;
    put_names(p, out);
    str_append_member(out, "dtype", dtype_name(p->dtype));
    str_append_member(out, "direction", directions[p->direction & 3]);
    put_formulas("extents", p->extents, p->rank, out);
    if (p->strided) put_formulas("strides", p->strides, p->rank, out);
    str_append_char(out, '}');
}

static const Source *source_of(const RtLauncher *l, unsigned symbol) {
    for (size_t i = 0; i < l->source_count; i++)
        if (l->sources[i].symbol == symbol) return &l->sources[i];
    return NULL;
}

static void put_symbol(const RtLauncher *l, const ArtifactParam *p, Str *out) {
    const Source *s = source_of(l, (unsigned)(p - l->a->params));
    put_names(p, out);
    if (s) str_printf(out, ",\"tensor\":%u,\"axis\":%u,\"stride\":%s", s->tensor, s->axis, s->stride ? "true" : "false");
    str_append_char(out, '}');
}

static void put_scalar(const RtLauncher *l, const ArtifactParam *p, Str *out) {
    (void)l;
    put_names(p, out);
    str_append_member(out, "dtype", dtype_name(p->dtype));
    if (isfinite(p->fallback)) str_printf(out, ",\"default\":%.17g", p->fallback);
    str_append_char(out, '}');
}

static void put_list(const RtLauncher *l, const char *key, ArtifactParamKind kind,
                     void (*put)(const RtLauncher *, const ArtifactParam *, Str *), Str *out) {
    bool any = false;
    str_printf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < l->a->param_count; i++) {
        const ArtifactParam *p = &l->a->params[i];
        if (p->kind != kind || (kind == ARTIFACT_SYMBOL && p->derived)) continue;
        if (any) str_append_char(out, ',');
        put(l, p, out);
        any = true;
    }
    str_append_char(out, ']');
}

void rt_launcher_json(const RtLauncher *l, Str *out) {
    str_append(out, "{\"format\":1,\"kind\":\"launcher\"");
    str_append_member(out, "name", l->a->name);
    str_append_member(out, "target", artifact_target_name(l->a->target));
    str_append_member(out, "arch", l->a->arch);
    str_append_member(out, "device", l->device.name);
    str_append_member(out, "code", l->program->how);
    put_list(l, "tensors", ARTIFACT_TENSOR, put_tensor, out);
    put_list(l, "symbols", ARTIFACT_SYMBOL, put_symbol, out);
    put_list(l, "scalars", ARTIFACT_SCALAR, put_scalar, out);
    str_append(out, "}\n");
}
