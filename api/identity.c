/* When two artifacts are one: the same code, whatever the sketch is called and whatever comments say. */
#include "api_internal.h"

#include "memory.h"

#include <string.h>

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}

/* The comment that begins there, with its line's end where it fills the line; 0: none does. Generated code has no text in quotes in which
 * one could seem to begin. */
static size_t comment_at(const char *text, bool at_line_begin) {
    if (strncmp(text, "//", 2) == 0) {
        size_t n = strcspn(text, "\n");
        return n + (at_line_begin && text[n]);
    }
    const char *end = strncmp(text, "/*", 2) == 0 ? strstr(text + 2, "*/") : NULL;
    return end ? (size_t)(end - text) + 2 : 0;
}

/* Names that begin with the sketch's own begin with another one, comments are left out. */
static char *without_names(Arena *arena, const char *text, const char *name) {
    size_t length = strlen(name), n = 0;
    char *out = ARENA_ARRAY(arena, char, strlen(text) + 1);
    for (const char *p = text; *p;) {
        size_t comment = comment_at(p, p == text || p[-1] == '\n');
        bool own = length && strncmp(p, name, length) == 0 && (p == text || !is_word(p[-1])) && (p[length] == '_' || !is_word(p[length]));
        if (own) out[n++] = '@';
        if (own || comment)
            p += own ? length : comment;
        else
            out[n++] = *p++;
    }
    out[n] = '\0';
    return out;
}

static ArtifactStep *steps_without_names(Arena *arena, const Artifact *a) {
    ArtifactStep *steps = ARENA_ARRAY(arena, ArtifactStep, a->step_count + 1);
    for (size_t i = 0; i < a->step_count; i++) {
        ArtifactStep *s = &steps[i];
        *s = a->steps[i];
        if (s->name) s->name = without_names(arena, s->name, a->name);
        s->versions = ARENA_ARRAY(arena, ArtifactVersion, s->version_count + 1);
        for (size_t k = 0; k < s->version_count; k++) {
            s->versions[k] = a->steps[i].versions[k];
            s->versions[k].entry = without_names(arena, s->versions[k].entry, a->name);
        }
    }
    return steps;
}

static ArtifactBlob *blobs_without_names(Arena *arena, const Artifact *a) {
    ArtifactBlob *blobs = ARENA_ARRAY(arena, ArtifactBlob, a->blob_count + 1);
    for (size_t i = 0; i < a->blob_count; i++) {
        ArtifactBlob *b = &blobs[i];
        *b = a->blobs[i];
        if (b->kind == ARTIFACT_CUBIN || b->kind == ARTIFACT_SO) continue;
        char *text = without_names(arena, (const char *)b->data, a->name);
        b->data = (const unsigned char *)text;
        b->size = strlen(text);
    }
    return blobs;
}

typedef struct {
    const Artifact *artifact;
    char *identity;
} Identity;

static void identity_call(void *call) {
    Identity *i = call;
    Arena *arena = arena_create();
    Artifact plain = *i->artifact;
    Str bytes;
    str_init(&bytes);
    plain.steps = steps_without_names(arena, i->artifact);
    plain.blobs = blobs_without_names(arena, i->artifact);
    plain.name = "artifact";
    plain.graph = plain.sketch = NULL;
    plain.constexpr_count = 0;
    artifact_write(&plain, &bytes);
    hash128_hex(hash128(bytes.data, bytes.len, (Hash128){0, 0}), i->identity);
    str_release(&bytes);
    arena_destroy(arena);
}

sketchc_status sketchc_artifact_identity(const sketchc_artifact *artifact, char identity[33]) {
    identity[0] = '\0';
    bool done = memory_guard(identity_call, &(Identity){artifact->artifact, identity});
    return done ? SKETCHC_OK : SKETCHC_OUT_OF_MEMORY;
}
