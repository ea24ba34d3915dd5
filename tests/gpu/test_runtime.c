/* The CUDA half of the runtime on a real device, with hand-written PTX and CUDA C: every loader,
 * the planted faults, time. Needs no LLVM. Without a device it is skipped, with the reason. */
#include "../runtime/plant.h"
#include "cuda/device_cuda.h"
#include "cuda/nvrtc.h"
#include "worker.h"

#define PTX_HEAD                                                                                                                           \
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .align 4 .u32 calls[1] = "                                            \
    "{0};\n"                                                                                                                               \
    ".visible .entry plant(.param .u64 X, .param .u64 Y, .param .u64 N, .param .u64 M) {\n"                                                \
    ".reg .pred %p<6>;\n.reg .f32 %f<6>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<16>;\n"                                                          \
    "ld.param.u64 %rd1, [X];\nld.param.u64 %rd2, [Y];\nld.param.u64 %rd3, [N];\nld.param.u64 "                                             \
    "%rd4, [M];\n"                                                                                                                         \
    "mul.lo.s64 %rd5, %rd3, %rd4;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, "                                           \
    "%tid.x;\n"                                                                                                                            \
    "mul.wide.u32 %rd6, %r1, %r2;\ncvt.u64.u32 %rd7, %r3;\nadd.u64 %rd6, %rd6, %rd7;\n"
#define PTX_LOAD                                                                                                                           \
    "setp.ge.u64 %p1, %rd6, %rd5;\n@%p1 bra END;\nshl.b64 %rd8, %rd6, 2;\nadd.u64 %rd9, %rd1, "                                            \
    "%rd8;\n"                                                                                                                              \
    "add.u64 %rd10, %rd2, %rd8;\nld.global.f32 %f1, [%rd9];\nadd.rn.f32 %f2, %f1, %f1;\n"
#define PTX_TAIL "st.global.f32 [%rd10], %f2;\nEND:\nret;\n}\n"

#define CUDA_SOURCE                                                                                                                        \
    "extern \"C\" __global__ void plant(const float *X, float *Y, long long N, long long M) {\n"                                           \
    "    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"                                                                \
    "    if (i < N * M) Y[i] = X[i] + X[i];\n}\n"
#define CLUSTER_SOURCE                                                                                                                     \
    "extern \"C\" __global__ void plant(const float *X, float *Y, long long N, long long M) {\n"                                           \
    "    unsigned n;\n    asm(\"mov.u32 %0, %%cluster_nctaid.x;\" : \"=r\"(n));\n"                                                         \
    "    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"                                                                \
    "    if (i < N * M) Y[i] = n == 2 ? X[i] + X[i] : 0;\n}\n"

static const struct {
    const char *name, *before, *after;
    RtStatus status;
} plants[] = {
    {"correct", "", "", RT_OK},
    {"zeros", "", "mov.f32 %f2, 0f00000000;\n", RT_MISMATCH},
    {"last tile skipped", "shr.u64 %rd5, %rd5, 4;\nshl.b64 %rd5, %rd5, 4;\n", "", RT_NOT_WRITTEN},
    {"input modified", "", "st.global.f32 [%rd9], %f2;\n", RT_INPUT_MODIFIED},
    {"write past the end", "",
     "setp.ne.u64 %p2, %rd6, 0;\n@%p2 bra L1;\nshl.b64 %rd11, %rd5, 2;\nadd.u64 %rd11, %rd2, "
     "%rd11;\n"
     "st.global.f32 [%rd11], %f2;\nL1:\n",
     RT_OUT_OF_BOUNDS},
    {"skipped from the second launch on",
     "mov.u64 %rd12, calls;\nld.volatile.global.u32 %r4, [%rd12];\nbar.sync 0;\nsetp.ne.u32 %p2, "
     "%r3, 0;\n@%p2 bra L2;\n"
     "add.u32 %r5, %r4, 1;\nst.volatile.global.u32 [%rd12], %r5;\nL2:\nsetp.ne.u32 %p3, %r4, "
     "0;\n@%p3 bra END;\n",
     "", RT_SECOND_LAUNCH},
    {"hang", "", "L3:\nld.volatile.global.f32 %f3, [%rd9];\nsetp.neu.f32 %p2, %f3, 0f7F7FFFFF;\n@%p2 bra L3;\n", RT_HANG},
    {"illegal address", "", "mov.u64 %rd10, 16;\n", RT_FAULT},
    {"misaligned address", "", "add.u64 %rd10, %rd10, 1;\n", RT_FAULT},
    {"trap", "", "trap;\n", RT_FAULT},
};

static Artifact *gpu_plant(Arena *arena, ArtifactBlobKind kind, const char *arch, const char *text) {
    Artifact *a = plant(arena, "return 0;");
    a->target = ARTIFACT_CUDA;
    a->arch = arch;
    a->blobs[0] = (ArtifactBlob){kind, arch, (const unsigned char *)text, strlen(text)};
    a->steps[0].versions[0].grid[0] = plant_formula(a, "ceildiv(N*M, 256)");
    a->steps[0].versions[0].block_threads = 256;
    const char *error = artifact_check(a, arena);
    CHECK_STR(error ? error : "", "");
    return a;
}

static Artifact *ptx_plant(Arena *arena, size_t i) {
    return gpu_plant(arena, ARTIFACT_PTX, "sm_70",
                     arena_printf(arena, "%s%s%s%s%s", PTX_HEAD, plants[i].before, PTX_LOAD, plants[i].after, PTX_TAIL));
}

static void print_report(const char *name, const Artifact *a, const RtVerifyReport *r) {
    Str text;
    str_init(&text);
    rt_verify_text(a, r, true, &text);
    printf("%s: %s\n%s", name, rt_status_name(r->error.status), text.data);
    str_release(&text);
}

static void test_planted(void) {
    for (size_t i = 0; i < COUNT_OF(plants); i++) {
        Arena *arena = arena_create();
        RtOptions options = {.cache_dir = "", .time_limit_s = 3, .no_ragged = true, .case_name = i ? "small" : NULL};
        Artifact *a = ptx_plant(arena, i);
        RtVerifyReport r = rt_verify(a, &options, arena);
        print_report(plants[i].name, a, &r);
        CHECK(r.error.status == plants[i].status);
        arena_destroy(arena);
    }
}

/* CUDA C by nvcc, or by NVRTC where there is no nvcc; a cluster where the device has them. */
static void test_cuda_c(const char *arch) {
    Arena *arena = arena_create();
    RtOptions options = {.cache_dir = ""};
    Artifact *a = gpu_plant(arena, ARTIFACT_CUDA_C, "sm_75", CUDA_SOURCE);
    RtVerifyReport r = rt_verify(a, &options, arena);
    print_report("CUDA C", a, &r);
    CHECK(r.error.status == RT_OK || r.error.status == RT_MISSING);
    int number = atoi(arch + 3);
    if (number < 90) printf("clusters: left out, the device is %s\n", arch);
    if (number >= 90) {
        a = gpu_plant(arena, ARTIFACT_CUDA_C, "sm_90", CLUSTER_SOURCE);
        a->steps[0].versions[0].grid[0] = plant_formula(a, "2*ceildiv(N*M, 512)");
        a->steps[0].versions[0].cluster[0] = 2;
        r = rt_verify(a, &options, arena);
        print_report("cluster", a, &r);
        CHECK(r.error.status == RT_OK || r.error.status == RT_MISSING);
        a->steps[0].versions[0].cluster[0] = 1;
        a->steps[0].versions[0].cooperative = true;
        r = rt_verify(a, &options, arena);
        CHECK(r.error.status == RT_MISMATCH || r.error.status == RT_MISSING); /* launched, not in a cluster */
    }
    a = gpu_plant(arena, ARTIFACT_PTX, "sm_999", ".version 7.0\n.target sm_999\n");
    r = rt_verify(a, &options, arena);
    CHECK(r.error.status == RT_MISSING && strstr(r.error.text, "sm_999"));
    arena_destroy(arena);
}

/* ---- The driver's JIT and NVRTC, which the loaders use only without ptxas and nvcc ---- */

typedef struct {
    RtError jit, nvrtc;
} Loaded;

static void load_both(void *ctx, WorkerChannel *channel) {
    Loaded l;
    Device d;
    CUmodule module;
    Str cubin;
    (void)ctx;
    memset(&l, 0, sizeof l);
    str_init(&cubin);
    l.jit = device_open_cuda(&d, 0);
    if (l.jit.status == RT_OK) l.jit = cuda_module(d.impl, PTX_HEAD PTX_LOAD PTX_TAIL, 32, &module);
    l.nvrtc = nvrtc_compile(CUDA_SOURCE, d.arch, 0, &cubin);
    if (l.nvrtc.status == RT_OK) l.nvrtc = cuda_module(d.impl, cubin.data, 0, &module);
    worker_send(channel, &l, sizeof l);
}

static bool receive_both(void *ctx, const void *data, size_t size) {
    if (size != sizeof(Loaded)) return false;
    memcpy(ctx, data, size);
    return true;
}

static void test_other_loaders(void) {
    Loaded l;
    memset(&l, 0, sizeof l);
    RtError e = worker_run(&(WorkerSpec){.work = load_both, .receive = receive_both, .ctx = &l});
    printf("JIT: %s %s\nNVRTC: %s %s\n", rt_status_name(l.jit.status), l.jit.text, rt_status_name(l.nvrtc.status), l.nvrtc.text);
    CHECK(e.status == RT_OK && l.jit.status == RT_OK);
    CHECK(l.nvrtc.status == RT_OK || l.nvrtc.status == RT_MISSING);
}

static void test_bench(void) {
    Arena *arena = arena_create();
    RtSymbol sizes[2] = {{"N", 16384}, {"M", 16384}};
    RtOptions options = {.cache_dir = "", .symbol_count = 2, .symbols = sizes, .case_name = "tiles"};
    Artifact *a = ptx_plant(arena, 0);
    RtBenchReport r = rt_bench(a, &options, arena);
    Str text;
    str_init(&text);
    rt_bench_text(a, &r, &text);
    printf("%s", text.data);
    CHECK(r.error.status == RT_OK && r.timings[0].checked);
    CHECK(r.kernel_count == 1 && r.kernels[0].registers > 0 && r.kernels[0].blocks_per_sm > 0);
    CHECK(r.timings[0].percent_of_copy > 30 && r.timings[0].percent_of_copy < 150);
    str_release(&text);
    arena_destroy(arena);
}

int main(void) {
    RtTool cuda;
    char arch[32];
    setvbuf(stdout, NULL, _IOLBF, 0);
    rt_probe_cuda(&cuda);
    if (!cuda.found || !rt_native_arch(arch)) {
        printf("no GPU: %s\n", cuda.version);
        return 77;
    }
    printf("%s\n", cuda.version);
    test_planted();
    test_cuda_c(arch);
    test_other_loaders();
    test_bench();
    return 0;
}
