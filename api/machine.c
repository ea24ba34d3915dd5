/* What this machine has: tools, devices, the cache. */
#include "api_internal.h"

#include "memory.h"
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

typedef void (*Probe)(RtTool *tool);

static const struct {
    const char *name, *use;
    Probe probe;
} probes[] = {
    {"cc", "builds the C of -t openmp to run it", rt_probe_cc},
    {"cuda", "runs kernels on a GPU", rt_probe_cuda},
    {"ptxas", "assembles PTX", rt_probe_ptxas},
    {"nvcc", "compiles CUDA C", rt_probe_nvcc},
    {"nvrtc", "compiles CUDA C where nvcc is missing", rt_probe_nvrtc},
};

/* Of a secret only whether there is one. */
static const char *shown(EnvId id) {
    const char *value = env_get(id);
    return value && env_is_secret(id) ? "set" : value;
}

static void doctor_text(Str *out) {
    for (size_t i = 0; i < COUNT_OF(probes); i++) {
        RtTool tool = {0};
        probes[i].probe(&tool);
        str_printf(out, "%-8s %s  %s%s%s  (%s)\n", probes[i].name, tool.found ? "found  " : "missing", tool.path,
                   tool.path[0] && tool.version[0] ? ", " : "", tool.version, probes[i].use);
    }
    str_printf(out, "%-8s %s\n", "llvm", sketchc_llvm_version() ? sketchc_llvm_version() : "not built in: no -t nvptx");
    for (unsigned i = 0; i < ENV_COUNT; i++) {
        const char *value = shown((EnvId)i);
        str_printf(out, "%-19s %s  (%s)\n", env_name((EnvId)i), value ? value : "not set", env_use((EnvId)i));
    }
}

static void doctor_json(Str *out) {
    str_append(out, "{\"format\": 1, \"kind\": \"doctor\", \"llvm\": ");
    if (sketchc_llvm_version())
        str_append_json(out, sketchc_llvm_version());
    else
        str_append(out, "null");
    str_append(out, ", \"tools\": [");
    for (size_t i = 0; i < COUNT_OF(probes); i++) {
        RtTool tool = {0};
        probes[i].probe(&tool);
        str_printf(out, "%s{\"name\": \"%s\", \"found\": %s, \"path\": ", i ? ", " : "", probes[i].name, tool.found ? "true" : "false");
        str_append_json(out, tool.path);
        str_append(out, ", \"version\": ");
        str_append_json(out, tool.version);
        str_append(out, "}");
    }
    str_append(out, "], \"environment\": {");
    for (unsigned i = 0; i < ENV_COUNT; i++) {
        const char *value = shown((EnvId)i);
        str_printf(out, "%s\"%s\": ", i ? ", " : "", env_name((EnvId)i));
        if (value)
            str_append_json(out, value);
        else
            str_append(out, "null");
    }
    str_append(out, "}}\n");
}

typedef struct {
    bool json;
    char *text;
    char arch[32];
    bool found;
    uint64_t count;
} Asked;

static bool is_json(const char *format) {
    return format && strcmp(format, "json") == 0;
}

static void doctor_call(void *call) {
    Asked *a = call;
    Str out;
    str_init(&out);
    if (a->json)
        doctor_json(&out);
    else
        doctor_text(&out);
    a->text = api_string(&out);
    str_release(&out);
}

char *sketchc_doctor(const char *format) {
    Asked a = {.json = is_json(format)};
    return memory_guard(doctor_call, &a) ? a.text : NULL;
}

static void arch_call(void *call) {
    Asked *a = call;
    a->found = rt_native_arch(a->arch);
}

char *sketchc_native_arch(const char *target) {
    if (strcmp(target, "openmp") == 0) {
#if defined(__x86_64__)
        __builtin_cpu_init();
        bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512dq");
        bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        return v4 ? strdup("x86-64-v4") : v3 ? strdup("x86-64-v3") : NULL;
#else
        return NULL;
#endif
    }
    Asked a = {.json = false};
    if (!memory_guard(arch_call, &a) || !a.found) return NULL;
    if (strcmp(a.arch, "sm_90") == 0) return strdup("sm_90a");
    if (strcmp(a.arch, "sm_100") == 0) return strdup("sm_100a");
    return strdup("sm_80");
}

static void info_call(void *call) {
    Asked *a = call;
    RtCacheInfo info = {0};
    bool found = rt_cache_info(NULL, &info);
    Str out;
    str_init(&out);
    if (a->json) {
        str_append(&out, "{\"format\": 1, \"kind\": \"cache\", \"folder\": ");
        str_append_json(&out, found ? info.dir : "");
        str_printf(&out, ", \"entries\": %llu, \"bytes\": %llu, \"limit\": %llu}\n", (unsigned long long)info.entries,
                   (unsigned long long)info.bytes, (unsigned long long)info.limit);
    } else if (!found) {
        str_append(&out, "there is no cache yet\n");
    } else {
        str_printf(&out, "%s: %llu entries, %llu of %llu bytes\n", info.dir, (unsigned long long)info.entries,
                   (unsigned long long)info.bytes, (unsigned long long)info.limit);
    }
    a->text = api_string(&out);
    str_release(&out);
}

char *sketchc_cache_info(const char *format) {
    Asked a = {.json = is_json(format)};
    return memory_guard(info_call, &a) ? a.text : NULL;
}

static void clear_call(void *call) {
    ((Asked *)call)->count = rt_cache_clear(NULL);
}

uint64_t sketchc_cache_clear(void) {
    Asked a = {.json = false};
    return memory_guard(clear_call, &a) ? a.count : 0;
}
