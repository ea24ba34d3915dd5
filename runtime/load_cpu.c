#include "load_cpu.h"
#include "memory.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    void *library;
    size_t step_count;
    CpuEntry (*entries)[ARTIFACT_MAX_VERSIONS];
} CpuProgram;

CpuEntry cpu_program_entry(const Program *p, unsigned step, unsigned version) {
    return ((const CpuProgram *)p->impl)->entries[step][version];
}

/* NAME(args...) from the uniform lists; C converts void * and double to the kernel's own types. */
static void print_wrapper(const Artifact *a, const ArtifactVersion *v, Str *out) {
    unsigned pointers = 0, symbols = 0, scalars = 0;
    str_printf(out,
               "\nint %s_invoke(void *const *pointers, const int64_t *symbols, const double *scalars);\n"
               "int %s_invoke(void *const *pointers, const int64_t *symbols, const double *scalars) {\n"
               "    (void)pointers, (void)symbols, (void)scalars;\n    return %s(",
               v->entry, v->entry, v->entry);
    for (size_t i = 0; i < v->arg_count; i++) {
        const ArtifactParam *p = &a->params[v->args[i]];
        str_append(out, i ? ", " : "");
        if (p->kind == ARTIFACT_SYMBOL)
            str_printf(out, "symbols[%u]", symbols++);
        else if (p->kind == ARTIFACT_SCALAR)
            str_printf(out, "(%s)scalars[%u]", dtype_c_name(p->dtype), scalars++);
        else
            str_printf(out, "pointers[%u]", pointers++);
    }
    str_append(out, ");\n}\n");
}

void cpu_print_wrappers(const Artifact *a, const char *source, Str *out) {
    char name[ARTIFACT_MAX_NAME + 16];
    for (size_t i = 0; i < a->step_count; i++)
        for (size_t j = 0; j < a->steps[i].version_count; j++) {
            const ArtifactVersion *v = &a->steps[i].versions[j];
            snprintf(name, sizeof name, "int %s_invoke(", v->entry);
            if (strstr(source, name) || strstr(out->data, name)) continue;
            print_wrapper(a, v, out);
        }
}

static RtError check_arch(const char *arch) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool ok = true;
    if (strcmp(arch, "x86-64-v2") == 0) ok = __builtin_cpu_supports("x86-64-v2");
    if (strcmp(arch, "x86-64-v3") == 0) ok = __builtin_cpu_supports("x86-64-v3");
    if (strcmp(arch, "x86-64-v4") == 0) ok = __builtin_cpu_supports("x86-64-v4");
    if (!ok) return rt_error(RT_MISSING, "the code is for %s, which this processor is not", arch);
#else
    if (strncmp(arch, "x86-64", 6) == 0) return rt_error(RT_MISSING, "the code is for %s, which this processor is not", arch);
#endif
    return rt_ok();
}

/* ---- Compiling ---- */

typedef struct {
    const char *argv[TOOL_MAX_WORDS + 24];
    size_t count;
} Command;

static void push(Command *c, const char *word) {
    c->argv[c->count++] = word;
}

static RtError make_command(Arena *arena, const char *arch, Command *c) {
    const char *words[TOOL_MAX_WORDS];
    size_t n = tool_cc(arena, words);
    if (n == 0) return rt_error(RT_MISSING, "no C compiler: neither $CC nor cc is found");
    for (size_t i = 0; i < n; i++) push(c, words[i]);
    push(c, "-std=c17");
    push(c, "-O3");
    push(c, arena_printf(arena, "-march=%s", arch));
    push(c, "-ffp-contract=off");
    push(c, "-fno-math-errno");
    push(c, "-fno-trapping-math");
    push(c, "-fno-trapping-math");
    push(c, "-fopenmp");
    push(c, "-fPIC");
    push(c, "-shared");
    push(c, "-Wl,-Bsymbolic"); /* a kernel may be named like a function of the C library */
    return rt_ok();
}

/* The device's name stands in for the processor that -march=native means. */
static Hash128 command_key(const Command *c, const char *device, const Str *source) {
    Hash128 key = tool_identity(c->argv[0], (Hash128){0x736f, 1});
    for (size_t i = 1; i < c->count; i++) key = hash128(c->argv[i], strlen(c->argv[i]) + 1, key);
    key = hash128(device, strlen(device) + 1, key);
    return hash128(source->data, source->len, key);
}

static RtError compile(Command *c, const TempDir *dir, const Str *source, char *so, size_t size) {
    char input[640];
    RT_TRY(temp_dir_write(dir, "kernel.c", source->data, source->len));
    temp_dir_file(dir, "kernel.c", input, sizeof input);
    temp_dir_file(dir, "kernel.so", so, size);
    push(c, "-o");
    push(c, so);
    push(c, input);
    push(c, "-lm");
    push(c, NULL);
    return tool_run(c->argv, RT_BUILD_FAILED, NULL);
}

static RtError open_library(const char *path, CpuProgram *p) {
    p->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (p->library) return rt_ok();
    const char *why = dlerror();
    return rt_error(RT_BUILD_FAILED, "the built kernel cannot be loaded: %.300s", why ? why : "no reason given");
}

static void complete_source(const Artifact *a, const ArtifactBlob *blob, Str *source) {
    Str wrappers;
    str_init(&wrappers);
    str_append_n(source, (const char *)blob->data, blob->size);
    cpu_print_wrappers(a, source->data, &wrappers);
    if (wrappers.len) str_printf(source, "\n#include <stdint.h>\n%s", wrappers.data);
    str_release(&wrappers);
}

static void drop_folder(void *dir) {
    temp_dir_remove(dir);
}

static RtError load_source(const Device *d, const Artifact *a, const ArtifactBlob *blob, const Cache *cache, Arena *arena, CpuProgram *p) {
    Command c = {.count = 0};
    TempDir dir = {.path = ""};
    char path[1200];
    Str source, payload;
    RT_TRY(check_arch(blob->arch));
    RT_TRY(make_command(arena, blob->arch, &c));
    str_init(&source);
    str_init(&payload);
    complete_source(a, blob, &source);
    Hash128 key = command_key(&c, d->name, &source);
    RtError e = rt_ok();
    if (cache_get(cache, key, "so", &payload)) {
        cache_path(cache, key, "so", path, sizeof path);
        e = open_library(path, p);
    } else {
        MemoryUndo undo;
        memory_push(&undo, drop_folder, &dir);
        e = temp_dir_create(&dir);
        if (!rt_failed(&e)) e = compile(&c, &dir, &source, path, sizeof path);
        if (!rt_failed(&e)) e = open_library(path, p);
        if (!rt_failed(&e) && file_read(path, (size_t)1 << 30, &payload)) cache_put(cache, key, "so", payload.data, payload.len);
        memory_pop(&undo);
        temp_dir_remove(&dir);
    }
    str_release(&source);
    str_release(&payload);
    return e;
}

static RtError load_object(const ArtifactBlob *blob, CpuProgram *p) {
    TempDir dir;
    char path[640];
    RT_TRY(check_arch(blob->arch));
    RT_TRY(temp_dir_create(&dir));
    RtError e = temp_dir_write(&dir, "kernel.so", blob->data, blob->size);
    temp_dir_file(&dir, "kernel.so", path, sizeof path);
    if (!rt_failed(&e)) e = open_library(path, p);
    temp_dir_remove(&dir);
    return e;
}

static RtError find_entries(const Artifact *a, CpuProgram *p) {
    char name[ARTIFACT_MAX_NAME + 16];
    for (size_t i = 0; i < a->step_count; i++)
        for (size_t j = 0; j < a->steps[i].version_count; j++) {
            snprintf(name, sizeof name, "%s_invoke", a->steps[i].versions[j].entry);
            void *symbol = dlsym(p->library, name);
            if (!symbol) return rt_error(RT_BUILD_FAILED, "the built kernel has no entry '%s'", name);
            memcpy(&p->entries[i][j], &symbol, sizeof symbol); /* ISO C has no such cast */
        }
    return rt_ok();
}

static RtError load_any(const Device *d, const Artifact *a, const RtOptions *options, Arena *arena, CpuProgram *p, char *how) {
    Cache cache;
    cache_open(&cache, options->cache_dir);
    for (size_t i = 0; i < a->blob_count; i++)
        if (a->blobs[i].kind == ARTIFACT_SO) {
            rt_copy(how, RT_NAME, "shared object");
            return load_object(&a->blobs[i], p);
        }
    for (size_t i = 0; i < a->blob_count; i++)
        if (a->blobs[i].kind == ARTIFACT_C) {
            rt_copy(how, RT_NAME, "C by the system compiler");
            return load_source(d, a, &a->blobs[i], &cache, arena, p);
        }
    return rt_error(RT_BAD_ARTIFACT, "the artifact holds no code for the CPU");
}

RtError cpu_load(Device *d, const Artifact *a, const RtOptions *options, Program **program) {
    Program *p = memory_alloc(sizeof *p);
    CpuProgram *impl = memory_alloc(sizeof *impl);
    Arena *arena = arena_create();
    impl->entries = memory_alloc((a->step_count + 1) * sizeof *impl->entries);
    p->impl = impl;
    RtError e = load_any(d, a, options, arena, impl, p->how);
    if (!rt_failed(&e)) e = find_entries(a, impl);
    arena_destroy(arena);
    if (!rt_failed(&e)) {
        *program = p;
        return e;
    }
    memory_free(impl->entries);
    memory_free(impl);
    memory_free(p);
    return e;
}

/* The library stays loaded: libgomp's threads may still run in it, and the process is disposable.
 */
void cpu_unload(Device *d, Program *p) {
    (void)d;
    CpuProgram *impl = p->impl;
    memory_free(impl->entries);
    memory_free(impl);
    memory_free(p);
}
