/* CUDA code to a loaded module: a cubin as it is; PTX through ptxas, else the driver's JIT; CUDA C
 * through nvcc, else NVRTC. What compilers make is cached by content. */
#include "analyzer.h"
#include "device_cuda.h"
#include "nvrtc.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    CUmodule module;
    CUfunction (*entries)[ARTIFACT_MAX_VERSIONS];
    uint32_t (*asked)[ARTIFACT_MAX_VERSIONS];
} CudaProgram;

typedef struct {
    const Cuda *c;
    const Artifact *a;
    Arena *arena;
    Cache cache;
    unsigned max_registers; /* the cap that all kernels share, else 0 */
    char *how;
} Loader;

CUfunction cuda_program_entry(const Program *p, unsigned step, unsigned version) {
    return ((const CudaProgram *)p->impl)->entries[step][version];
}

uint32_t *cuda_program_asked(Program *p, unsigned step, unsigned version) {
    return &((CudaProgram *)p->impl)->asked[step][version];
}

RtError cuda_module(const Cuda *c, const void *image, unsigned max_registers, CUmodule *module) {
    char log[2048] = "";
    int options[3] = {CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_SIZE, CUDA_JIT_MAX_REGISTERS};
    void *values[3] = {log, (void *)(uintptr_t)sizeof log, (void *)(uintptr_t)max_registers};
    CUresult result = c->cu->ModuleLoadDataEx(module, image, max_registers ? 3 : 2, options, values);
    RtError e = cuda_check(c->cu, result, "loading the code");
    if (!rt_failed(&e)) return e;
    log[sizeof log - 1] = '\0';
    return rt_error(e.status == RT_MISSING ? RT_MISSING : RT_BUILD_FAILED, "%.200s %.300s", e.text, log);
}

/* ---- Architectures ---- */

/* sm_90a: number 90, suffix 'a' (runs on 9.0 only). */
static bool parse_arch(const char *text, int *number, char *suffix) {
    if (strncmp(text, "sm_", 3) != 0) return false;
    *number = 0;
    for (text += 3; *text >= '0' && *text <= '9' && *number < 1000; text++) *number = *number * 10 + (*text - '0');
    *suffix = *text;
    return *number > 0;
}

/* The architecture to compile for: the device's, with the suffix the code asks for. */
static RtError choose_arch(const Loader *l, const char *wanted, char arch[32]) {
    int number, device = l->c->major * 10 + l->c->minor;
    char suffix;
    if (!parse_arch(wanted, &number, &suffix)) return rt_error(RT_BAD_ARTIFACT, "'%.32s' is no CUDA architecture", wanted);
    bool bound = suffix == 'a' || suffix == 'f';
    if (number > device || (suffix == 'a' && number != device) || (suffix == 'f' && number / 10 != device / 10))
        return rt_error(RT_MISSING, "the code is for %.16s, the device is sm_%d", wanted, device);
    if (bound)
        snprintf(arch, 32, "sm_%d%c", device, suffix);
    else
        snprintf(arch, 32, "sm_%d", device);
    return rt_ok();
}

/* The `.target` of PTX text. */
static void ptx_target(const char *ptx, const char *otherwise, char arch[32]) {
    const char *at = strstr(ptx, "\n.target ");
    if (!at && strncmp(ptx, ".target ", 8) == 0) at = ptx - 1;
    rt_copy(arch, 32, otherwise);
    if (!at) return;
    at += strlen("\n.target ");
    at += strspn(at, " \t");
    size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (n > 0 && n < 32) {
        memcpy(arch, at, n);
        arch[n] = '\0';
    }
}

/* ---- Compilers ---- */

/* Runs `argv` (which ends in "-o", output, input), by way of the cache. */
static RtError compile(Loader *l, const char *const *argv, const char *input, const ArtifactBlob *blob, const TempDir *dir, Str *cubin) {
    Hash128 key = tool_identity(argv[0], (Hash128){0x6375, 1});
    for (size_t i = 1; strcmp(argv[i], "-o") != 0; i++) key = hash128(argv[i], strlen(argv[i]) + 1, key);
    key = hash128(blob->data, blob->size, key);
    if (cache_get(&l->cache, key, "cubin", cubin)) return rt_ok();
    char path[640];
    temp_dir_file(dir, "kernel.cubin", path, sizeof path);
    RT_TRY(temp_dir_write(dir, input, blob->data, blob->size));
    RT_TRY(tool_run(argv, RT_BUILD_FAILED, NULL));
    if (!file_read(path, (size_t)1 << 30, cubin)) return rt_error(RT_BUILD_FAILED, "%s wrote no code", argv[0]);
    cache_put(&l->cache, key, "cubin", cubin->data, cubin->len);
    return rt_ok();
}

static RtError run_compiler(Loader *l, const char *tool, const char *const *flags, const char *input, const ArtifactBlob *blob,
                            Str *cubin) {
    TempDir dir;
    const char *argv[24] = {tool};
    size_t n = 1;
    char in[640], out[640];
    RT_TRY(temp_dir_create(&dir));
    for (; *flags; flags++) argv[n++] = *flags;
    if (l->max_registers) argv[n++] = arena_printf(l->arena, "--maxrregcount=%u", l->max_registers);
    temp_dir_file(&dir, input, in, sizeof in);
    temp_dir_file(&dir, "kernel.cubin", out, sizeof out);
    argv[n++] = "-o";
    argv[n++] = out;
    argv[n++] = in;
    RtError e = compile(l, argv, input, blob, &dir, cubin);
    temp_dir_remove(&dir);
    return e;
}

static RtError load_ptx(Loader *l, const ArtifactBlob *blob, CUmodule *module) {
    char target[32], arch[32], tool[1024];
    ptx_target((const char *)blob->data, blob->arch, target);
    RT_TRY(choose_arch(l, target, arch));
    if (!tool_find("ptxas", true, tool, sizeof tool)) {
        rt_copy(l->how, RT_NAME, "PTX by the driver");
        return cuda_module(l->c, blob->data, l->max_registers, module);
    }
    const char *flags[] = {arena_printf(l->arena, "-arch=%s", arch), NULL};
    Str cubin;
    str_init(&cubin);
    RtError e = run_compiler(l, tool, flags, "kernel.ptx", blob, &cubin);
    if (!rt_failed(&e)) e = cuda_module(l->c, cubin.data, 0, module);
    str_release(&cubin);
    rt_copy(l->how, RT_NAME, "PTX by ptxas");
    return e;
}

static RtError compile_cuda(Loader *l, const ArtifactBlob *blob, const char *arch, Str *cubin) {
    char tool[1024];
    if (!tool_find("nvcc", true, tool, sizeof tool)) {
        rt_copy(l->how, RT_NAME, "CUDA C by NVRTC");
        return nvrtc_compile((const char *)blob->data, arch, l->max_registers, cubin);
    }
    const char *flags[] = {"-cubin",          "-std=c++17", arena_printf(l->arena, "-arch=%s", arch),
                           "-fmad=false",     "-ftz=false", "-prec-div=true",
                           "-prec-sqrt=true", NULL};
    rt_copy(l->how, RT_NAME, "CUDA C by nvcc");
    return run_compiler(l, tool, flags, "kernel.cu", blob, cubin);
}

static RtError load_cuda_c(Loader *l, const ArtifactBlob *blob, CUmodule *module) {
    char arch[32];
    Str cubin;
    RT_TRY(choose_arch(l, blob->arch, arch));
    str_init(&cubin);
    RtError e = compile_cuda(l, blob, arch, &cubin);
    if (!rt_failed(&e)) e = cuda_module(l->c, cubin.data, 0, module);
    str_release(&cubin);
    return e;
}

/* A cubin runs on devices of its own major version with at least its minor one. */
static RtError load_cubin(Loader *l, const ArtifactBlob *blob, CUmodule *module) {
    int number;
    char suffix;
    if (!parse_arch(blob->arch, &number, &suffix) || number / 10 != l->c->major || number % 10 > l->c->minor ||
        (suffix == 'a' && number % 10 != l->c->minor))
        return rt_error(RT_MISSING, "the cubin is for %.16s, the device is sm_%d%d", blob->arch, l->c->major, l->c->minor);
    rt_copy(l->how, RT_NAME, "cubin");
    return cuda_module(l->c, blob->data, 0, module);
}

static RtError load_blob(Loader *l, const ArtifactBlob *blob, CUmodule *module) {
    switch (blob->kind) {
    case ARTIFACT_CUBIN:
        return load_cubin(l, blob, module);
    case ARTIFACT_PTX:
        return load_ptx(l, blob, module);
    case ARTIFACT_CUDA_C:
        return load_cuda_c(l, blob, module);
    default:
        return rt_error(RT_BAD_ARTIFACT, "the artifact holds no code for CUDA");
    }
}

/* In the artifact's order; a form for which this machine lacks something gives way to the next. */
static RtError load_any(Loader *l, CUmodule *module) {
    RtError e = rt_error(RT_BAD_ARTIFACT, "the artifact holds no code");
    for (size_t i = 0; i < l->a->blob_count; i++) {
        e = load_blob(l, &l->a->blobs[i], module);
        if (e.status != RT_MISSING) return e;
    }
    return e;
}

/* ---- Entries ---- */

static void describe_kernel(const Cuda *c, const ArtifactVersion *v, CUfunction f, RtKernelInfo *info) {
    int64_t shared = 0;
    rt_copy(info->entry, sizeof info->entry, v->entry);
    c->cu->FuncGetAttribute(&info->registers, CUDA_FUNC_REGISTERS, f);
    c->cu->FuncGetAttribute(&info->shared_bytes, CUDA_FUNC_SHARED, f);
    c->cu->FuncGetAttribute(&info->local_bytes, CUDA_FUNC_LOCAL, f);
    c->cu->FuncGetAttribute(&info->max_threads, CUDA_FUNC_MAX_THREADS, f);
    if (aff_is_const(v->shared_bytes, &shared) && shared > 48 * 1024 && shared <= c->shared_limit)
        c->cu->FuncSetAttribute(f, CUDA_FUNC_MAX_DYNAMIC_SHARED, (int)shared);
    info->shared_bytes += (int)shared;
    c->cu->OccupancyBlocks(&info->blocks_per_sm, f, (int)v->block_threads, (size_t)shared);
    info->threads = (int)v->block_threads;
    if (c->threads_sm > 0) info->occupancy = (double)info->blocks_per_sm * v->block_threads / c->threads_sm;
}

static RtError find_entries(const Loader *l, CudaProgram *impl, Program *p) {
    const Cuda *c = l->c;
    for (size_t i = 0; i < l->a->step_count; i++)
        for (size_t j = 0; j < l->a->steps[i].version_count; j++) {
            const ArtifactVersion *v = &l->a->steps[i].versions[j];
            CUresult result = c->cu->ModuleGetFunction(&impl->entries[i][j], impl->module, v->entry);
            RtError e = cuda_check(c->cu, result, "finding the kernel");
            if (rt_failed(&e)) return rt_error(RT_BUILD_FAILED, "the code has no kernel '%s': %.300s", v->entry, e.text);
            if (p->kernel_count < RT_MAX_KERNELS) describe_kernel(c, v, impl->entries[i][j], &p->kernels[p->kernel_count++]);
        }
    return rt_ok();
}

static unsigned shared_register_cap(const Artifact *a) {
    unsigned cap = 0;
    bool first = true;
    for (size_t i = 0; i < a->step_count; i++)
        for (size_t j = 0; j < a->steps[i].version_count; j++) {
            unsigned own = a->steps[i].versions[j].max_registers;
            if (!first && own != cap) return 0;
            cap = own;
            first = false;
        }
    return cap;
}

RtError cuda_load(Device *d, const Artifact *a, const RtOptions *options, Program **program) {
    Program *p = calloc(1, sizeof *p);
    CudaProgram *impl = calloc(1, sizeof *impl);
    Arena *arena = arena_create();
    RtError e = rt_error(RT_MISSING, "out of memory");
    if (impl) impl->entries = calloc(a->step_count + 1, sizeof *impl->entries);
    if (impl) impl->asked = calloc(a->step_count + 1, sizeof *impl->asked);
    if (p && impl && impl->entries && impl->asked) {
        Loader l = {.c = d->impl, .a = a, .arena = arena, .max_registers = shared_register_cap(a), .how = p->how};
        cache_open(&l.cache, options->cache_dir);
        p->impl = impl;
        e = load_any(&l, &impl->module);
        if (!rt_failed(&e)) e = find_entries(&l, impl, p);
    }
    arena_destroy(arena);
    if (!rt_failed(&e)) {
        ANALYZER_ASSUME(p && impl && p->impl == impl); /* else there is an error */
        *program = p;
        return e;
    }
    if (impl && impl->module) ((Cuda *)d->impl)->cu->ModuleUnload(impl->module);
    if (impl) free(impl->entries);
    if (impl) free(impl->asked);
    free(impl);
    free(p);
    return e;
}

void cuda_unload(Device *d, Program *p) {
    CudaProgram *impl = p->impl;
    ((Cuda *)d->impl)->cu->ModuleUnload(impl->module);
    free(impl->entries);
    free(impl->asked);
    free(impl);
    free(p);
}

/* ---- Code without a device ---- */

static RtError assemble(Loader *l, const ArtifactBlob *blob, Str *cubin) {
    char arch[32], tool[1024];
    ptx_target((const char *)blob->data, blob->arch, arch);
    if (!tool_find("ptxas", true, tool, sizeof tool)) return rt_error(RT_MISSING, "ptxas is not in PATH, CUDA_HOME or /usr/local/cuda");
    const char *flags[] = {arena_printf(l->arena, "-arch=%s", arch), NULL};
    return run_compiler(l, tool, flags, "kernel.ptx", blob, cubin);
}

RtError rt_cubin(const Artifact *a, const char *cache_dir, Str *cubin) {
    char how[RT_NAME];
    RtError e = rt_error(RT_BAD_ARTIFACT, "the artifact holds no code for CUDA");
    Loader l = {.a = a, .arena = arena_create(), .max_registers = shared_register_cap(a), .how = how};
    cache_open(&l.cache, cache_dir);
    for (size_t i = 0; i < a->blob_count; i++) {
        const ArtifactBlob *blob = &a->blobs[i];
        if (blob->kind == ARTIFACT_PTX)
            e = assemble(&l, blob, cubin);
        else if (blob->kind == ARTIFACT_CUDA_C)
            e = compile_cuda(&l, blob, blob->arch, cubin);
        else
            continue;
        if (e.status != RT_MISSING) break;
    }
    arena_destroy(l.arena);
    return e;
}
