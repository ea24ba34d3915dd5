/* A sketch through every layer: passes, C, artifact, file and back, and verified on the CPU at its
 * cases up to a size and at ragged ones. Usage: test FILE.sketch NAME=VALUE... */
#include "../unit/check.h"
#include "../unit/show.h"
#include "artifact.h"
#include "build.h"
#include "emit.h"
#include "passes.h"
#include "runtime.h"

typedef struct {
    Arena *arena;
    SourceMap *sources;
    DiagList diags;
} Unit;

static IrModule *build(Unit *u, const char *path, size_t count, const FrontendDefine *defines) {
    Str text;
    str_init(&text);
    CHECK(file_read(path, 1 << 20, &text));
    File *file = frontend_parse(u->arena, u->sources, source_add(u->sources, path, text.data, text.len), &u->diags);
    FrontendOptions options = {.defines = defines, .define_count = count};
    bool ok = frontend_check(u->arena, file, &options, &u->diags);
    IrModule *m = ok ? frontend_build(u->arena, u->sources, file, &u->diags) : NULL;
    if (!m) show_diags(&u->diags);
    CHECK(m);
    str_release(&text);
    return m;
}

static void lower(Unit *u, IrModule *m, const Target *target) {
    size_t count;
    const PassId *passes = pipeline_for(target->kind, &count);
    PassContext ctx = {.module = m, .target = target, .diags = &u->diags};
    PassOptions options = {0};
    PassReport report;
    pass_report_init(&report);
    bool ok = passes_run(&ctx, passes, count, &options, &report);
    if (!ok) show_diags(&u->diags);
    CHECK(ok);
    pass_report_release(&report);
}

static Artifact *pack(Unit *u, IrModule *m, const Target *target, size_t count, const FrontendDefine *defines) {
    Str code;
    EmitOptions options = {.arch = target->name};
    str_init(&code);
    bool ok = emit_openmp(m, &options, &code, &u->diags);
    if (!ok) show_diags(&u->diags);
    CHECK(ok);
    ArtifactBlob blob = {ARTIFACT_C, "native", (const unsigned char *)code.data, code.len};
    ArtifactConstexpr *taken = ARENA_ARRAY(u->arena, ArtifactConstexpr, count + 1);
    for (size_t i = 0; i < count; i++) taken[i] = (ArtifactConstexpr){defines[i].name, defines[i].value};
    ArtifactSpec spec = {.kernels = m,
                         .graph = m,
                         .name = "test",
                         .arch = target->name,
                         .tool_version = "test",
                         .target = ARTIFACT_CPU,
                         .constexpr_count = count,
                         .constexprs = taken,
                         .blob_count = 1,
                         .blobs = &blob};
    const char *error = NULL;
    Artifact *a = artifact_from_module(u->arena, &spec, &error);
    CHECK_STR(error ? error : "", "");
    str_release(&code);
    return a;
}

static Artifact *through_file(Unit *u, const Artifact *a) {
    Str file;
    const char *error = NULL;
    str_init(&file);
    artifact_write(a, &file);
    Artifact *b = artifact_read(u->arena, file.data, file.len, &error);
    CHECK_STR(error ? error : "", "");
    str_release(&file);
    return b;
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    Unit u = {.arena = arena_create()};
    FrontendDefine *defines = ARENA_ARRAY(u.arena, FrontendDefine, (size_t)argc);
    size_t count = 0;
    for (int i = 2; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        CHECK(equals);
        *equals = '\0';
        defines[count++] = (FrontendDefine){argv[i], equals + 1};
    }
    u.sources = source_map_create(u.arena);
    diag_list_init(&u.diags, u.arena, u.sources);
    const Target *target = target_find(u.arena, &u.diags, "x86-64-v3");
    CHECK(target);
    IrModule *m = build(&u, argv[1], count, defines);
    lower(&u, m, target);
    Artifact *a = through_file(&u, pack(&u, m, target, count, defines));
    RtOptions options = {.cache_dir = "", .max_bytes = (uint64_t)8 << 20};
    RtVerifyReport report = rt_verify(a, &options, u.arena);
    Str text;
    str_init(&text);
    rt_verify_text(a, &report, true, &text);
    fputs(text.data, stdout);
    CHECK(report.error.status == RT_OK && report.passed >= 4);
    str_release(&text);
    arena_destroy(u.arena);
    return 0;
}
