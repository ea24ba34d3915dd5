#include "nvrtc.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct NvrtcProgram_ *NvrtcProgram;
typedef struct {
    int (*version)(int *major, int *minor);
    int (*create)(NvrtcProgram *program, const char *source, const char *name, int headers, const char *const *texts,
                  const char *const *names);
    int (*destroy)(NvrtcProgram *program);
    int (*compile)(NvrtcProgram program, int count, const char *const *options);
    int (*log_size)(NvrtcProgram program, size_t *size);
    int (*log)(NvrtcProgram program, char *log);
    int (*cubin_size)(NvrtcProgram program, size_t *size);
    int (*cubin)(NvrtcProgram program, char *cubin);
} Nvrtc;

static const struct {
    size_t offset;
    const char *symbol;
} entries[] = {
    {offsetof(Nvrtc, version), "nvrtcVersion"},
    {offsetof(Nvrtc, create), "nvrtcCreateProgram"},
    {offsetof(Nvrtc, destroy), "nvrtcDestroyProgram"},
    {offsetof(Nvrtc, compile), "nvrtcCompileProgram"},
    {offsetof(Nvrtc, log_size), "nvrtcGetProgramLogSize"},
    {offsetof(Nvrtc, log), "nvrtcGetProgramLog"},
    {offsetof(Nvrtc, cubin_size), "nvrtcGetCUBINSize"},
    {offsetof(Nvrtc, cubin), "nvrtcGetCUBIN"},
};

static void *open_library(char *name, size_t size) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    const char *home = env_get(ENV_CUDA_HOME), *dirs[3] = {"", home && home[0] == '/' ? home : NULL, "/usr/local/cuda"};
    for (size_t d = 0; d < COUNT_OF(dirs); d++)
        for (size_t i = 0; dirs[d] && i < COUNT_OF(names); i++) {
            snprintf(name, size, "%s%s%s", dirs[d], dirs[d][0] ? "/lib64/" : "", names[i]);
            void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
            if (library) return library;
        }
    return NULL;
}

static bool open_nvrtc(Nvrtc *n, char *name, size_t size) {
    void *library = open_library(name, size);
    for (size_t i = 0; library && i < COUNT_OF(entries); i++) {
        void *symbol = dlsym(library, entries[i].symbol);
        if (!symbol) return false;
        memcpy((char *)n + entries[i].offset, &symbol, sizeof symbol);
    }
    return library != NULL;
}

bool nvrtc_probe(char *library, size_t size, int *major, int *minor) {
    Nvrtc n;
    return open_nvrtc(&n, library, size) && n.version(major, minor) == 0;
}

static RtError log_error(const Nvrtc *n, NvrtcProgram program) {
    size_t size = 0;
    RtError e = rt_error(RT_BUILD_FAILED, "NVRTC refused the code");
    char *log = n->log_size(program, &size) == 0 && size ? rt_alloc(size + 1) : NULL;
    if (log && n->log(program, log) == 0) {
        log[size] = '\0';
        e = rt_error(RT_BUILD_FAILED, "NVRTC refused the code: %.400s", log);
    }
    free(log);
    return e;
}

static RtError take_cubin(const Nvrtc *n, NvrtcProgram program, Str *cubin) {
    size_t size = 0;
    char *data = n->cubin_size(program, &size) == 0 && size ? rt_alloc(size) : NULL;
    bool ok = data && n->cubin(program, data) == 0;
    if (ok) str_append_n(cubin, data, size);
    free(data);
    return ok ? rt_ok() : rt_error(RT_BUILD_FAILED, "NVRTC made no cubin for this architecture");
}

RtError nvrtc_compile(const char *source, const char *arch, unsigned max_registers, Str *cubin) {
    Nvrtc n;
    NvrtcProgram program;
    char name[1024], arch_flag[64], cap_flag[64], include_flag[1100];
    const char *home = env_get(ENV_CUDA_HOME);
    if (!open_nvrtc(&n, name, sizeof name)) return rt_error(RT_MISSING, "neither nvcc nor NVRTC is found");
    snprintf(arch_flag, sizeof arch_flag, "--gpu-architecture=%s", arch);
    snprintf(cap_flag, sizeof cap_flag, "--maxrregcount=%u", max_registers);
    snprintf(include_flag, sizeof include_flag, "--include-path=%s/include", home && home[0] == '/' ? home : "/usr/local/cuda");
    const char *flags[] = {arch_flag,         "--std=c++17",      "--fmad=false", "--ftz=false",
                           "--prec-div=true", "--prec-sqrt=true", include_flag,   cap_flag};
    if (n.create(&program, source, "kernel.cu", 0, NULL, NULL) != 0) return rt_error(RT_BUILD_FAILED, "NVRTC cannot take the code");
    RtError e;
    if (n.compile(program, (int)COUNT_OF(flags) - (max_registers ? 0 : 1), flags) != 0)
        e = log_error(&n, program);
    else
        e = take_cubin(&n, program, cubin);
    n.destroy(&program);
    return e;
}
