/* The file form: what is written is read back, and no damaged file is taken or crashes the reader.
 */
#include "artifact/artifact_internal.h"
#include "check.h"

#include <math.h>

static const Aff *formula(Artifact *a, const char *text) {
    size_t at;
    const Aff *e = aff_parse(a->affs, text, NULL, NULL, &at);
    CHECK(e != NULL);
    return e;
}

static void add_params(Artifact *a) {
    a->param_count = 8;
    a->params = ARENA_ARRAY(a->arena, ArtifactParam, a->param_count);
    a->params[0] = (ArtifactParam){.kind = ARTIFACT_TENSOR,
                                   .name = "X",
                                   .graph_name = "Input",
                                   .dtype = DTYPE_F32,
                                   .direction = ARTIFACT_IN,
                                   .rank = 2,
                                   .extents = {formula(a, "B"), formula(a, "2*F + 1")}};
    a->params[1] = (ArtifactParam){
        .kind = ARTIFACT_TENSOR, .name = "Y", .dtype = DTYPE_BF16, .direction = ARTIFACT_OUT, .rank = 1, .extents = {formula(a, "OH")}};
    a->params[2] = (ArtifactParam){.kind = ARTIFACT_SYMBOL, .name = "B"};
    a->params[3] = (ArtifactParam){.kind = ARTIFACT_SYMBOL, .name = "F"};
    a->params[4] = (ArtifactParam){.kind = ARTIFACT_SYMBOL, .name = "OH", .derived = formula(a, "B // 2 + F")};
    a->params[5] = (ArtifactParam){.kind = ARTIFACT_SCALAR, .name = "eps", .dtype = DTYPE_F32, .fallback = 1e-5};
    a->params[6] = (ArtifactParam){.kind = ARTIFACT_WORKSPACE, .name = "w", .dtype = DTYPE_F64, .elements = formula(a, "B*num_sms")};
    a->params[7] = (ArtifactParam){.kind = ARTIFACT_MAP, .name = "X_box", .dtype = DTYPE_F32, .rank = 2, .box = {8, 32}, .swizzle = 128};
}

static void add_steps(Artifact *a) {
    static const unsigned args[] = {0, 1, 2, 3, 5};
    a->step_count = 2;
    a->steps = ARENA_ARRAY(a->arena, ArtifactStep, 2);
    ArtifactVersion *v = ARENA_ARRAY(a->arena, ArtifactVersion, 2);
    for (int i = 0; i < 2; i++)
        v[i] = (ArtifactVersion){.entry = i ? "k_slow" : "k_fast",
                                 .guard = i ? NULL : formula(a, "1 - B % 4"),
                                 .pointer_align = i ? 0 : 16,
                                 .grid = {formula(a, "ceildiv(B, 8)"), formula(a, "min(F, 16)"), formula(a, "1")},
                                 .block_threads = 256,
                                 .shared_bytes = formula(a, "1024"),
                                 .cluster = {1, 1, 1},
                                 .dependent = i == 1,
                                 .max_registers = 128,
                                 .arg_count = 5,
                                 .args = args};
    a->steps[0] = (ArtifactStep){.kind = ARTIFACT_MEMSET, .name = "clear", .param = 6, .byte = 0};
    a->steps[1] = (ArtifactStep){.kind = ARTIFACT_KERNEL, .name = "main", .version_count = 2, .versions = v};
}

static Artifact *sample(Arena *arena) {
    static const ArtifactConstexpr constexprs[] = {{"TILE", "64"}, {"eps", "1e-05"}};
    static const unsigned char cubin[] = {0x7f, 'E', 'L', 'F', 0, 1, 2, 0};
    static const char ptx[] = ".version 8.0\n";
    Artifact *a = ARENA_NEW(arena, Artifact);
    *a = (Artifact){.arena = arena,
                    .affs = aff_ctx_create(arena),
                    .name = "sample",
                    .target = ARTIFACT_CUDA,
                    .arch = "sm_80",
                    .tool_version = "0.1.0",
                    .constexpr_count = 2};
    a->constexprs = ARENA_ARRAY(arena, ArtifactConstexpr, 2);
    memcpy(a->constexprs, constexprs, sizeof constexprs);
    add_params(a);
    a->constraint_count = 1;
    a->constraints = ARENA_NEW(arena, ArtifactConstraint);
    *a->constraints = (ArtifactConstraint){formula(a, "B % 2"), true, "B % 2 == 0 \"and\" \xc3\xa9"};
    add_steps(a);
    a->blob_count = 2;
    a->blobs = ARENA_ARRAY(arena, ArtifactBlob, 2);
    a->blobs[0] = (ArtifactBlob){ARTIFACT_PTX, "sm_80", (const unsigned char *)ptx, sizeof ptx - 1};
    a->blobs[1] = (ArtifactBlob){ARTIFACT_CUBIN, "sm_90a", cubin, sizeof cubin};
    a->graph = "sketchc.ir 1\n";
    return a;
}

static void test_round_trip(void) {
    Arena *arena = arena_create();
    Str first, second;
    const char *error = "";
    str_init(&first);
    str_init(&second);
    Artifact *a = sample(arena);
    CHECK(artifact_check(a, arena) == NULL);
    artifact_write(a, &first);
    Artifact *b = artifact_read(arena, first.data, first.len, &error);
    CHECK_STR(error ? error : "", "");
    CHECK(b != NULL);
    artifact_write(b, &second);
    CHECK(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    CHECK(b->param_count == 8 && b->params[7].box[1] == 32 && b->params[7].swizzle == 128 && b->params[5].fallback == 1e-5 &&
          b->params[1].dtype == DTYPE_BF16);
    CHECK_STR(b->params[0].graph_name, "Input");
    CHECK(b->steps[1].versions[0].guard && !b->steps[1].versions[1].guard);
    CHECK(b->blobs[1].size == 8 && b->blobs[1].data[4] == 0 && b->blobs[1].data[5] == 1);
    CHECK_STR(b->graph, "sketchc.ir 1\n");
    CHECK_STR(b->constraints[0].text, "B % 2 == 0 \"and\" \xc3\xa9");
    str_release(&first);
    str_release(&second);
    arena_destroy(arena);
}

/* A workspace has a size alone: a map of it brings the extents. */
static void test_map_of_workspace(void) {
    Arena *arena = arena_create();
    Str text;
    const char *error = "";
    str_init(&text);
    Artifact *a = sample(arena);
    a->params[7] =
        (ArtifactParam){.kind = ARTIFACT_MAP, .name = "w_box", .dtype = DTYPE_F64, .rank = 2, .tensor = 6, .box = {8, 16}, .swizzle = 128};
    CHECK_STR(artifact_check(a, arena), "an extent is missing");
    for (unsigned i = 0; i < 2; i++) a->params[7].extents[i] = formula(a, i ? "num_sms" : "B");
    CHECK(artifact_check(a, arena) == NULL);
    a->params[7].joined = 257;
    CHECK_STR(artifact_check(a, arena), "the map 'w_box' joins rows that there are not");
    a->params[7].joined = 4;
    CHECK(artifact_check(a, arena) == NULL);
    artifact_write(a, &text);
    Artifact *b = artifact_read(arena, text.data, text.len, &error);
    CHECK_STR(error ? error : "", "");
    CHECK(b && b->params[7].joined == 4 && b->params[0].joined == 0);
    CHECK(b && b->params[7].tensor == 6 && b->params[7].rank == 2 && b->params[7].extents[0] && b->params[7].extents[1]);
    str_release(&text);
    arena_destroy(arena);
}

static const char *refusal(Artifact *a) {
    const char *error = artifact_check(a, a->arena);
    return error ? error : "accepted";
}

static void test_checks(void) {
    Arena *arena = arena_create();
    Artifact *a = sample(arena);
    a->params[0].extents[0] = formula(a, "Q");
    CHECK(strstr(refusal(a), "unknown symbol 'Q'"));
    a = sample(arena);
    a->params[4].derived = formula(a, "OH + 1");
    CHECK(strstr(refusal(a), "before its declaration"));
    a = sample(arena);
    a->params[5].name = "X";
    CHECK(strstr(refusal(a), "declared twice"));
    a = sample(arena);
    a->steps[1].versions[0].entry = "k; rm";
    CHECK(strstr(refusal(a), "valid name"));
    a = sample(arena);
    a->arch = "-fplugin=x";
    CHECK(strstr(refusal(a), "architecture"));
    a = sample(arena);
    a->blobs[0].kind = ARTIFACT_C;
    CHECK(strstr(refusal(a), "not for the target cuda"));
    a = sample(arena);
    a->steps[1].versions[1].block_threads = 1025;
    CHECK(strstr(refusal(a), "1025 threads"));
    a = sample(arena);
    a->steps[0].param = 2;
    CHECK(strstr(refusal(a), "no memory"));
    a = sample(arena);
    a->params[7].box[1] = 64;
    CHECK(strstr(refusal(a), "do not fit its swizzle"));
    a = sample(arena);
    a->params[7].tensor = 2;
    CHECK(strstr(refusal(a), "no tensor of its rank and dtype"));
    a = sample(arena);
    a->params[7].box[0] = 257;
    CHECK(strstr(refusal(a), "out of range"));
    arena_destroy(arena);
}

/* Every single damaged byte and every shorter file is refused. */
static void test_damage(void) {
    Arena *arena = arena_create();
    Str file;
    const char *error;
    str_init(&file);
    artifact_write(sample(arena), &file);
    for (size_t i = 0; i < file.len; i++) {
        file.data[i] = (char)(file.data[i] ^ 0x20);
        CHECK(artifact_read(arena, file.data, file.len, &error) == NULL && error);
        file.data[i] = (char)(file.data[i] ^ 0x20);
        CHECK(artifact_read(arena, file.data, i, &error) == NULL && error);
    }
    file.data[8] = 2;
    CHECK(artifact_read(arena, file.data, file.len, &error) == NULL);
    CHECK_STR(error, "the artifact's format is 2, this program reads 1");
    str_release(&file);
    arena_destroy(arena);
}

static uint64_t random_state = 0x9e3779b97f4a7c15u;
static size_t below(size_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state % n);
}

/* Damage behind a right checksum: the reader must end with an artifact that passes its own checks,
 * or an error. Run under the sanitizers this finds reads out of bounds. */
static void test_fuzz(void) {
    static const char bits[] = "0123456789-{}[]\",:eE.\\u\0()*/%+BFXY";
    Str file;
    size_t taken = 0;
    str_init(&file);
    for (int round = 0; round < 20000; round++) {
        Arena *arena = arena_create();
        const char *error;
        file.len = 0;
        artifact_write(sample(arena), &file);
        for (size_t n = 1 + below(4); n > 0; n--) {
            size_t at = SKA_FIXED + below(file.len - SKA_FIXED);
            file.data[at] = below(4) ? bits[below(sizeof bits)] : (char)below(256);
        }
        artifact_checksum((unsigned char *)file.data, file.len, (unsigned char *)file.data + SKA_CHECKED_PREFIX);
        Artifact *a = artifact_read(arena, file.data, file.len, &error);
        CHECK((a != NULL) != (error != NULL));
        if (a) taken += artifact_check(a, arena) == NULL;
        arena_destroy(arena);
    }
    CHECK(taken > 0); /* else the damage never got past the parser */
    str_release(&file);
}

/* The header, for the check against its schema. */
static void print_header(void) {
    Arena *arena = arena_create();
    Str file;
    str_init(&file);
    artifact_write(sample(arena), &file);
    size_t size = 0;
    for (int i = 0; i < 4; i++) size |= (size_t)(unsigned char)file.data[12 + i] << (8 * i);
    fwrite(file.data + SKA_FIXED, 1, size, stdout);
    str_release(&file);
    arena_destroy(arena);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "json") == 0) {
        print_header();
        return 0;
    }
    test_round_trip();
    test_map_of_workspace();
    test_checks();
    test_damage();
    test_fuzz();
    return 0;
}
