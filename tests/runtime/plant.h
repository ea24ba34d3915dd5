/* Hand-written C kernels wrapped in artifacts: Y = 2 X over [N, M] f32. */
#ifndef TESTS_RUNTIME_PLANT_H
#define TESTS_RUNTIME_PLANT_H
#include "../unit/check.h"
#include "runtime.h"

#include <math.h>

#define PLANT_GRAPH                                                                                                                        \
    "sketchc.ir 1\n"                                                                                                                       \
    "case @small {N = 5, M = 7; X = normal(0.0, 1.0)}\n"                                                                                   \
    "case @tiles {N = 64, M = 33}\n"                                                                                                       \
    "case @empty {N = 0, M = 4}\n"                                                                                                         \
    "func @twice graph (tensor %X: tensor<[N, M] x f32> in, symbol %N: index, symbol %M: index) "                                          \
    "{\n"                                                                                                                                  \
    "    %Y = add(%X, %X) : tensor<[N, M] x f32>\n"                                                                                        \
    "    return(%Y) {names = [\"Y\"]}\n"                                                                                                   \
    "}\n"

static inline const Aff *plant_formula(Artifact *a, const char *text) {
    size_t at;
    const Aff *e = aff_parse(a->affs, text, NULL, NULL, &at);
    CHECK(e != NULL);
    return e;
}

/* The body is that of `int plant(const float *X, float *Y, int64_t N, int64_t M)`. */
static inline Artifact *plant(Arena *arena, const char *body) {
    static const unsigned args[] = {0, 1, 2, 3};
    Artifact *a = ARENA_NEW(arena, Artifact);
    *a = (Artifact){.arena = arena,
                    .affs = aff_ctx_create(arena),
                    .name = "plant",
                    .target = ARTIFACT_CPU,
                    .arch = "native",
                    .tool_version = "test",
                    .graph = PLANT_GRAPH};
    a->param_count = 4;
    a->params = ARENA_ARRAY(arena, ArtifactParam, 4);
    a->params[0] = (ArtifactParam){.kind = ARTIFACT_TENSOR, .name = "X", .dtype = DTYPE_F32, .direction = ARTIFACT_IN, .rank = 2};
    a->params[1] = (ArtifactParam){.kind = ARTIFACT_TENSOR, .name = "Y", .dtype = DTYPE_F32, .direction = ARTIFACT_OUT, .rank = 2};
    for (int i = 0; i < 2; i++) {
        a->params[i].extents[0] = plant_formula(a, "N");
        a->params[i].extents[1] = plant_formula(a, "M");
    }
    a->params[2] = (ArtifactParam){.kind = ARTIFACT_SYMBOL, .name = "N"};
    a->params[3] = (ArtifactParam){.kind = ARTIFACT_SYMBOL, .name = "M"};
    ArtifactVersion *v = ARENA_NEW(arena, ArtifactVersion);
    const Aff *one = plant_formula(a, "1");
    *v = (ArtifactVersion){.entry = "plant",
                           .grid = {one, one, one},
                           .block_threads = 1,
                           .shared_bytes = plant_formula(a, "0"),
                           .cluster = {1, 1, 1},
                           .arg_count = 4,
                           .args = args};
    a->step_count = 1;
    a->steps = ARENA_NEW(arena, ArtifactStep);
    a->steps[0] = (ArtifactStep){.kind = ARTIFACT_KERNEL, .name = "plant", .version_count = 1, .versions = v};
    char *source = arena_printf(
        arena,
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
        "#include <sys/mman.h>\n#include <sys/socket.h>\n#include <sys/stat.h>\n#include <unistd.h>\n"
        "int plant(float *X, float *Y, int64_t N, int64_t M);\n"
        "int plant(float *X, float *Y, int64_t N, int64_t M) {\n%s\n}\n",
        body);
    a->blob_count = 1;
    a->blobs = ARENA_NEW(arena, ArtifactBlob);
    a->blobs[0] = (ArtifactBlob){ARTIFACT_C, "native", (const unsigned char *)source, strlen(source)};
    const char *error = artifact_check(a, arena);
    CHECK_STR(error ? error : "", "");
    return a;
}

/* A pipe among its descriptors, or more than one socket: `channels` is more than 1. */
#define PLANT_LOOKS_FOR_CHANNELS                                                                                                           \
    "struct stat s; int channels = 0;\n"                                                                                                   \
    "for (int fd = 3; fd < 1024; fd++)\n"                                                                                                  \
    "    if (fstat(fd, &s) == 0) channels += S_ISFIFO(s.st_mode) ? 2 : S_ISSOCK(s.st_mode);\n"

#define PLANT_GOOD                                                                                                                         \
    "#pragma omp parallel for\n"                                                                                                           \
    "for (int64_t i = 0; i < N * M; i++) Y[i] = X[i] + X[i];\n"                                                                            \
    "return 0;"
#endif
