/* Which instructions multiply matrices in an artifact's code: the precision that runs, from the text that runs. */
#include "runtime_internal.h"

#include <string.h>

/* The name up to the next point, blank or end. */
static size_t word(const char *s) {
    return strcspn(s, ". \\\n\t{;\"");
}

/* Whole: "f16 into f32" is the end of "bf16 into f32". */
static bool is_listed(const char *list, const char *name) {
    for (const char *at = strstr(list, name); at; at = strstr(at + 1, name))
        if (at == list || at[-1] == ' ') return true;
    return false;
}

/* "f32.f16.f16": sums, left factor, right factor. */
static void put_types(const char *types, const char *how, Str *out) {
    size_t sums = word(types);
    const char *factor = types[sums] == '.' ? types + sums + 1 : types + sums;
    char name[96];
    if (!sums || !word(factor) || sums > 8 || word(factor) > 8) return;
    snprintf(name, sizeof name, "%.*s into %.*s by %s", (int)word(factor), factor, (int)sums, types, how);
    if (out->len && is_listed(out->data, name)) return;
    str_printf(out, "%s%s", out->len ? ", " : "", name);
}

static void scan(const char *text, Str *out) {
    static const struct {
        const char *begin, *types, *how;
    } forms[] = {{"wgmma.mma_async.sync.aligned.m", ".", "wgmma"}, {"mma.sync.aligned.m", ".row.col.", "mma.sync"}};
    for (size_t f = 0; f < COUNT_OF(forms); f++)
        for (const char *at = strstr(text, forms[f].begin); at; at = strstr(at, forms[f].begin)) {
            at += strlen(forms[f].begin);
            const char *types = at + word(at);
            size_t n = strlen(forms[f].types);
            if (strncmp(types, forms[f].types, n) == 0) put_types(types + n, forms[f].how, out);
        }
}

void rt_products(const Artifact *a, Str *out) {
    bool any = false;
    for (size_t i = 0; i < a->blob_count; i++) {
        const ArtifactBlob *b = &a->blobs[i];
        if (b->kind == ARTIFACT_CUBIN || b->kind == ARTIFACT_SO) continue;
        scan((const char *)b->data, out);
        any = true;
    }
    if (any && !out->len && a->graph && strstr(a->graph, "graph.contract")) str_append(out, "multiply-adds");
}
