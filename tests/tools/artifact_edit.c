/* Reads or replaces the C code of an artifact: artifact_edit get IN.ska prints it, artifact_edit
 * put IN.ska CODE.c OUT.ska writes the artifact again with that code. For tests that plant faults.
 */
#include "artifact.h"

#include <stdio.h>
#include <string.h>

static ArtifactBlob *find_c(Artifact *a) {
    for (size_t i = 0; i < a->blob_count; i++)
        if (a->blobs[i].kind == ARTIFACT_C) return &a->blobs[i];
    return NULL;
}

static int put(Artifact *a, ArtifactBlob *blob, const char *code, const char *path) {
    Str text, out;
    str_init(&text);
    str_init(&out);
    bool ok = file_read(code, (size_t)1 << 24, &text);
    blob->data = (const unsigned char *)text.data;
    blob->size = text.len;
    const char *wrong = ok ? artifact_check(a, a->arena) : "the code cannot be read";
    if (!wrong) artifact_write(a, &out);
    if (!wrong && !file_write_atomic(path, out.data, out.len, 0600)) wrong = "cannot be written";
    if (wrong) fprintf(stderr, "%s: %s\n", path, wrong);
    str_release(&text);
    str_release(&out);
    return wrong ? 1 : 0;
}

static int edit(Arena *unit, const Str *bytes, int argc, char **argv) {
    const char *error = NULL;
    Artifact *a = artifact_read(unit, bytes->data, bytes->len, &error);
    ArtifactBlob *blob = a ? find_c(a) : NULL;
    if (!blob) {
        fprintf(stderr, "%s: %s\n", argv[2], a ? "it holds no C code" : error);
        return 1;
    }
    if (argc == 5) return put(a, blob, argv[3], argv[4]);
    return fwrite(blob->data, 1, blob->size, stdout) == blob->size ? 0 : 1;
}

int main(int argc, char **argv) {
    bool get = argc == 3 && strcmp(argv[1], "get") == 0;
    if (!get && !(argc == 5 && strcmp(argv[1], "put") == 0)) return 2;
    Str bytes;
    str_init(&bytes);
    Arena *unit = arena_create();
    int status = file_read(argv[2], (size_t)1 << 24, &bytes) ? edit(unit, &bytes, argc, argv) : 1;
    arena_destroy(unit);
    str_release(&bytes);
    return status;
}
