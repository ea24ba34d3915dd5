/* Kernel-level IR through both GPU emitters: kernel_tool FILE.skir ARCH assemble|run|cuda|pack PREFIX.
 *
 * assemble: PTX by ptxas, CUDA C by nvcc, for ARCH; no device is needed.
 * run: on the device, on small integers: both must equal what the file's graph function says, bit for bit.
 * cuda: so, with CUDA C alone, for a driver that takes no PTX (tests/cuda).
 * pack: PREFIX.ptx.ska and PREFIX.cu.ska, assembled for ARCH, for sketchc verify on a machine without compilers.
 *
 * Exits with 77 and a sentence where there is no assembler, or no device for ARCH. */
#include "../unit/show.h"
#include "artifact.h"
#include "emit.h"
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77, LIMIT = 1 << 24 };

typedef struct {
    Arena *arena;
    DiagList diags;
    IrModule *module;
    const char *arch;
} Unit;

static Artifact *of_blob(Unit *u, ArtifactBlobKind kind, const Str *code) {
    ArtifactBlob blob = {kind, u->arch, (const unsigned char *)code->data, code->len};
    ArtifactSpec spec = {.kernels = u->module,
                         .graph = u->module,
                         .name = "one",
                         .arch = u->arch,
                         .tool_version = "test",
                         .target = ARTIFACT_CUDA,
                         .blob_count = 1,
                         .blobs = &blob};
    const char *error = "";
    Artifact *a = artifact_from_module(u->arena, &spec, &error);
    if (!a) fprintf(stderr, "%s\n", error);
    return a;
}

static Artifact *pack(Unit *u, ArtifactBlobKind kind) {
    Str code;
    str_init(&code);
    EmitOptions options = {.arch = u->arch};
    bool ok = kind == ARTIFACT_PTX ? emit_ptx(u->module, &options, &code, &u->diags) : emit_cuda(u->module, &options, &code, &u->diags);
    Artifact *a = ok ? of_blob(u, kind, &code) : NULL;
    if (!ok) show_diags(&u->diags), fprintf(stderr, "the emitter refuses the kernel\n");
    str_release(&code);
    return a;
}

static int assemble(const Artifact *a, const char *how, Str *cubin) {
    RtError e = rt_cubin(a, "", cubin);
    if (e.status != RT_OK) printf("%s: %s: %s\n", how, rt_status_name(e.status), e.text);
    return e.status == RT_OK ? 0 : e.status == RT_MISSING ? SKIPPED : 1;
}

/* The cubin in an artifact of its own, where there is a path for it. */
static int keep(Unit *u, const Artifact *a, const char *how, const char *path) {
    Str cubin, file;
    str_init(&cubin);
    str_init(&file);
    int status = assemble(a, how, &cubin);
    Artifact *packed = status == 0 && path ? of_blob(u, ARTIFACT_CUBIN, &cubin) : NULL;
    if (packed) artifact_write(packed, &file);
    if (status == 0 && path && (!packed || !file_write_atomic(path, file.data, file.len, 0644))) status = 1;
    str_release(&file);
    str_release(&cubin);
    return status;
}

static int verify(Unit *u, const Artifact *a, const char *how, char digest[33]) {
    RtOptions options = {.cache_dir = "", .exact = true, .no_ragged = true, .time_limit_s = 20};
    RtVerifyReport r = rt_verify(a, &options, u->arena);
    bool ok = r.error.status == RT_OK && r.passed == 1;
    if (!ok) {
        Str text;
        str_init(&text);
        rt_verify_text(a, &r, true, &text);
        printf("%s: %s: %s\n%s", how, rt_status_name(r.error.status), r.error.text, text.data);
        str_release(&text);
        return r.error.status == RT_MISSING ? SKIPPED : 1;
    }
    memcpy(digest, r.verdicts[0].digest, 33);
    return 0;
}

/* Whether the device runs code for `arch`: the letter asks for this very one. */
static bool has_device(const char *arch) {
    char native[32];
    RtTool cuda;
    rt_probe_cuda(&cuda);
    if (!cuda.found || !rt_native_arch(native)) {
        printf("no GPU: %s\n", cuda.version);
        return false;
    }
    int want = atoi(arch + 3), have = atoi(native + 3);
    bool fits = strchr(arch + 3, 'a') ? want == have : want <= have;
    if (!fits) printf("the device is %s, the kernel for %s\n", native, arch);
    return fits;
}

static int check_cuda(Unit *u) {
    char digest[33];
    if (!has_device(u->arch)) return SKIPPED;
    Artifact *a = pack(u, ARTIFACT_CUDA_C);
    return a ? verify(u, a, "CUDA C", digest) : 1;
}

static int check(Unit *u, bool on_device, const char *prefix) {
    static const struct {
        ArtifactBlobKind kind;
        const char *name, *ending;
    } codes[] = {{ARTIFACT_PTX, "PTX", "ptx"}, {ARTIFACT_CUDA_C, "CUDA C", "cu"}};
    char digests[COUNT_OF(codes)][33] = {""};
    int worst = 0;
    if (on_device && !has_device(u->arch)) return SKIPPED;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        Artifact *a = pack(u, codes[i].kind);
        const char *path = prefix ? arena_printf(u->arena, "%s.%s.ska", prefix, codes[i].ending) : NULL;
        int status = !a ? 1 : on_device ? verify(u, a, codes[i].name, digests[i]) : keep(u, a, codes[i].name, path);
        if (status && worst != 1) worst = status;
    }
    if (worst || !on_device || strcmp(digests[0], digests[1]) == 0) return worst;
    printf("PTX and CUDA C differ\n");
    return 1;
}

int main(int argc, char **argv) {
    if (argc < 4 || (argc == 5) != (strcmp(argv[3], "pack") == 0)) return 2;
    Unit u = {.arena = arena_create(), .arch = argv[2]};
    Str text;
    str_init(&text);
    diag_list_init(&u.diags, u.arena, source_map_create(u.arena));
    if (file_read(argv[1], LIMIT, &text)) u.module = ir_parse(u.arena, &u.diags, argv[1], text.data, text.len);
    if (!u.module) show_diags(&u.diags);
    int status = !u.module ? 2 : strcmp(argv[3], "cuda") == 0 ? check_cuda(&u) : check(&u, strcmp(argv[3], "run") == 0, argv[4]);
    str_release(&text);
    arena_destroy(u.arena);
    return status;
}
