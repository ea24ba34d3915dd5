/* One CUDA device behind the device interface. Memory copies are synchronous; kernels, fills and
 * device copies go to one stream of our own. */
#include "device_cuda.h"
#include "analyzer.h"
#include "stream_kernels.h"

#include <stdlib.h>
#include <string.h>

#define CU(call, what) RT_TRY(cuda_check(c->cu, c->cu->call, what))

static Cuda *cuda_of(Device *d) {
    return d->impl;
}

static RtError gpu_alloc(Device *d, uint64_t bytes, uint64_t *address) {
    Cuda *c = cuda_of(d);
    CUdeviceptr p = 0;
    CU(MemAlloc(&p, bytes ? bytes : 1), "allocating device memory");
    *address = p;
    return rt_ok();
}

static void gpu_release(Device *d, uint64_t address) {
    cuda_of(d)->cu->MemFree(address);
}

static RtError gpu_sync(Device *d) {
    Cuda *c = cuda_of(d);
    CU(StreamSynchronize(c->stream), "running the kernel");
    return rt_ok();
}

static void gpu_use_stream(Device *d, void *stream) {
    cuda_of(d)->stream = stream;
}

/* On our own stream: a synchronous copy from pageable memory returns when the bytes are staged, and
 * a launch on a non-blocking stream would not wait for them to arrive. */
static RtError gpu_upload(Device *d, uint64_t to, const void *from, uint64_t bytes) {
    Cuda *c = cuda_of(d);
    if (bytes) CU(MemcpyHtoDAsync(to, from, bytes, c->stream), "copying to the device");
    return gpu_sync(d);
}

static RtError gpu_download(Device *d, void *to, uint64_t from, uint64_t bytes) {
    Cuda *c = cuda_of(d);
    RT_TRY(gpu_sync(d));
    if (bytes) CU(MemcpyDtoH(to, from, bytes), "copying from the device");
    return rt_ok();
}

static RtError gpu_copy(Device *d, uint64_t to, uint64_t from, uint64_t bytes) {
    Cuda *c = cuda_of(d);
    if (bytes) CU(MemcpyDtoDAsync(to, from, bytes, c->stream), "copying on the device");
    return rt_ok();
}

static RtError gpu_fill(Device *d, uint64_t to, unsigned byte, uint64_t bytes) {
    Cuda *c = cuda_of(d);
    if (bytes) CU(MemsetD8Async(to, (unsigned char)byte, bytes, c->stream), "filling device memory");
    return rt_ok();
}

/* ---- Launch ---- */

typedef union {
    CUdeviceptr pointer;
    int64_t symbol;
    unsigned char scalar[8];
} Argument;

/* A tensor map as the driver encodes it. */
typedef struct {
    _Alignas(64) unsigned char bytes[128];
} TensorMap;

static int map_dtype(Dtype dtype) {
    switch (dtype) {
    case DTYPE_F16:
        return CUDA_MAP_F16;
    case DTYPE_BF16:
        return CUDA_MAP_BF16;
    case DTYPE_F32:
        return CUDA_MAP_F32;
    case DTYPE_F64:
        return CUDA_MAP_F64;
    default:
        break;
    }
    static const int words[] = {CUDA_MAP_U8, CUDA_MAP_U16, CUDA_MAP_U32, CUDA_MAP_U64};
    return words[__builtin_ctzll(dtype_size(dtype))];
}

static int map_swizzle(unsigned bytes) {
    return bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0;
}

/* The driver counts axes from the innermost one. A tensor without an element has no map: versions
 * that read through one ask for elements in their guard. */
static RtError encode_map(Cuda *c, const Binding *b, const ArtifactParam *p, uint64_t address, TensorMap *map) {
    const ArtifactParam *tensor = &b->a->params[p->tensor];
    const Aff *const *shape = tensor->kind == ARTIFACT_WORKSPACE ? p->extents : tensor->extents;
    uint64_t extents[ARTIFACT_MAP_RANK], strides[ARTIFACT_MAP_RANK], stride = dtype_size(p->dtype);
    unsigned box[ARTIFACT_MAP_RANK], ones[ARTIFACT_MAP_RANK];
    memset(map, 0, sizeof *map);
    for (unsigned i = 0; i < p->rank; i++) {
        unsigned axis = p->rank - 1 - i;
        int64_t extent;
        if (!binding_eval(b, shape[axis], &extent) || extent < 0)
            return rt_error(RT_LAUNCH_FAILED, "an extent of '%s' is out of range", tensor->name);
        if (!extent) return rt_ok();
        extents[i] = (uint64_t)extent;
        strides[i] = stride *= (uint64_t)extent; /* of the next axis outwards */
        box[i] = p->box[axis];
        ones[i] = 1;
    }
    ANALYZER_ASSUME(p->joined <= 1 || p->rank > 1); /* artifact_check.c */
    if (p->joined > 1) {                            /* strides stay the tensor's */
        if (extents[1] < p->joined) return rt_ok();
        extents[0] *= p->joined;
        extents[1] -= p->joined - 1;
    }
    enum { INTERLEAVE_NONE = 0, L2_PROMOTION_256 = 3, FILL_ZEROS = 0 };
    CU(TensorMapEncodeTiled(map, p->tf32 ? CUDA_MAP_TF32 : map_dtype(p->dtype), p->rank, (void *)(uintptr_t)address, extents, strides, box,
                            ones, INTERLEAVE_NONE, map_swizzle(p->swizzle), L2_PROMOTION_256, FILL_ZEROS),
       "describing a tensor to the copy engine");
    return rt_ok();
}

/* Maps of the launch, in `maps`, which has room for those of any. */
static RtError fill_maps(Cuda *c, const Launch *l, const Binding *b, const uint64_t *addresses, void **parameters, TensorMap *maps) {
    for (size_t i = 0; i < l->version->arg_count; i++) {
        const ArtifactParam *p = &b->a->params[l->version->args[i]];
        if (p->kind != ARTIFACT_MAP) continue;
        RT_TRY(encode_map(c, b, p, addresses[p->tensor], maps));
        parameters[i] = maps++;
    }
    return rt_ok();
}

static void fill_arguments(const Launch *l, const Binding *b, const uint64_t *addresses, Argument *arguments, void **parameters) {
    for (size_t i = 0; i < l->version->arg_count; i++) {
        unsigned p = l->version->args[i];
        const ArtifactParam *param = &b->a->params[p];
        if (param->kind == ARTIFACT_SYMBOL)
            arguments[i].symbol = b->symbols[p];
        else if (param->kind == ARTIFACT_SCALAR)
            dtype_write(param->dtype, arguments[i].scalar, b->scalars[p]);
        else
            arguments[i].pointer = addresses[p];
        parameters[i] = &arguments[i];
    }
}

static unsigned fill_attributes(const Launch *l, CUlaunchAttribute attributes[CUDA_LAUNCH_ATTRIBUTES]) {
    const ArtifactVersion *v = l->version;
    unsigned n = 0;
    memset(attributes, 0, CUDA_LAUNCH_ATTRIBUTES * sizeof *attributes);
    if (l->dependent) {
        attributes[n].id = CUDA_LAUNCH_DEPENDENT;
        attributes[n++].value.dependent = 1;
    }
    if (v->cooperative) {
        attributes[n].id = CUDA_LAUNCH_COOPERATIVE;
        attributes[n++].value.cooperative = 1;
    }
    if (v->cluster[0] * v->cluster[1] * v->cluster[2] > 1) {
        attributes[n].id = CUDA_LAUNCH_CLUSTER;
        attributes[n].value.cluster.x = v->cluster[0];
        attributes[n].value.cluster.y = v->cluster[1];
        attributes[n++].value.cluster.z = v->cluster[2];
    }
    return n;
}

/* What a kernel must ask for before it is launched, once: the driver takes as long for it as for a launch. */
static RtError allow(Cuda *c, Program *p, const Launch *l, CUfunction f) {
    const ArtifactVersion *v = l->version;
    uint32_t *asked = cuda_program_asked(p, l->step_index, l->version_index);
    uint32_t needed = l->shared_bytes > 48 * 1024 ? l->shared_bytes : 1;
    if (*asked >= needed) return rt_ok();
    if (needed > 1) CU(FuncSetAttribute(f, CUDA_FUNC_MAX_DYNAMIC_SHARED, (int)l->shared_bytes), "asking for shared memory");
    if (v->cluster[0] * v->cluster[1] * v->cluster[2] > 8)
        CU(FuncSetAttribute(f, CUDA_FUNC_NON_PORTABLE_CLUSTER, 1), "asking for a large cluster");
    *asked = needed;
    return rt_ok();
}

static RtError gpu_launch(Device *d, Program *p, const Launch *l, const Binding *b, const uint64_t *addresses) {
    Cuda *c = cuda_of(d);
    Argument arguments[ARTIFACT_MAX_PARAMS];
    void *parameters[ARTIFACT_MAX_PARAMS + 1];
    CUlaunchAttribute attributes[CUDA_LAUNCH_ATTRIBUTES];
    CUfunction f = cuda_program_entry(p, l->step_index, l->version_index);
    const ArtifactVersion *v = l->version;
    if ((int64_t)l->shared_bytes > c->shared_limit)
        return rt_error(RT_LAUNCH_FAILED, "'%s' needs %u bytes of shared memory, the device gives a block %d", v->entry, l->shared_bytes,
                        c->shared_limit);
    RT_TRY(allow(c, p, l, f));
    fill_arguments(l, b, addresses, arguments, parameters);
    CUlaunchConfig config = {.grid = {l->grid[0], l->grid[1], l->grid[2]},
                             .block = {v->block_threads, 1, 1},
                             .shared_bytes = l->shared_bytes,
                             .stream = c->stream,
                             .attributes = attributes,
                             .attribute_count = fill_attributes(l, attributes)};
    TensorMap maps[ARTIFACT_MAX_PARAMS];
    RtError e = fill_maps(c, l, b, addresses, parameters, maps);
    if (!rt_failed(&e)) e = cuda_check(c->cu, c->cu->LaunchKernelEx(&config, f, parameters, NULL), "launching");
    if (rt_failed(&e)) return rt_error(e.status, "'%s': %.400s", v->entry, e.text);
    return rt_ok();
}

/* ---- Time ---- */

static RtError gpu_time_begin(Device *d) {
    Cuda *c = cuda_of(d);
    CU(EventRecord(c->begin, c->stream), "recording an event");
    return rt_ok();
}

static RtError gpu_time_end(Device *d, double *seconds) {
    Cuda *c = cuda_of(d);
    float ms = 0;
    CU(EventRecord(c->end, c->stream), "recording an event");
    CU(EventSynchronize(c->end), "running the kernel");
    CU(EventElapsedTime(&ms, c->begin, c->end), "reading the time");
    *seconds = (double)ms * 1e-3;
    return rt_ok();
}

/* Reads n 16-byte words, each thread every (grid size)th; the sum is stored where it cannot be, so
 * that the loads stay. Reading leaves no dirty lines whose write-back the kernel would pay for. */
static const char flush_ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                                ".visible .entry sketchc_flush(.param .u64 base, .param .u64 words) {\n"
                                ".reg .pred %p<3>;\n.reg .b32 %r<12>;\n.reg .b64 %rd<12>;\n"
                                "ld.param.u64 %rd1, [base];\nld.param.u64 %rd2, [words];\ncvta.to.global.u64 %rd1, %rd1;\n"
                                "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\nmov.u32 %r4, %nctaid.x;\n"
                                "mul.wide.u32 %rd3, %r1, %r2;\ncvt.u64.u32 %rd4, %r3;\nadd.u64 %rd3, %rd3, %rd4;\n"
                                "mul.wide.u32 %rd5, %r4, %r2;\nmov.u32 %r9, 0;\n"
                                "LOOP:\nsetp.ge.u64 %p1, %rd3, %rd2;\n@%p1 bra DONE;\n"
                                "shl.b64 %rd6, %rd3, 4;\nadd.u64 %rd7, %rd1, %rd6;\n"
                                "ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd7];\n"
                                "xor.b32 %r9, %r9, %r5;\nxor.b32 %r9, %r9, %r6;\nxor.b32 %r9, %r9, %r7;\nxor.b32 %r9, %r9, "
                                "%r8;\n"
                                "add.u64 %rd3, %rd3, %rd5;\nbra LOOP;\n"
                                "DONE:\nsetp.ne.u32 %p2, %r9, 0x5a5a5a5a;\n@%p2 bra END;\nst.global.u32 [%rd1], "
                                "%r9;\nEND:\nret;\n}\n";

static RtError prepare_flush(Cuda *c) {
    c->flush_bytes = c->l2_bytes > (16u << 20) ? 2 * c->l2_bytes : (uint64_t)32 << 20;
    CU(MemAlloc(&c->flush, c->flush_bytes), "allocating the flush buffer");
    CU(MemsetD8Async(c->flush, 0, c->flush_bytes, c->stream), "filling the flush buffer");
    RT_TRY(cuda_module(c, flush_ptx, 0, &c->flush_module));
    CU(ModuleGetFunction(&c->flush_kernel, c->flush_module, "sketchc_flush"), "finding the flush kernel");
    return rt_ok();
}

static RtError gpu_flush(Device *d) {
    Cuda *c = cuda_of(d);
    if (!c->flush_kernel) RT_TRY(prepare_flush(c));
    uint64_t words = c->flush_bytes / 16;
    void *parameters[] = {&c->flush, &words};
    CUlaunchConfig config = {.grid = {(unsigned)d->num_sms * 4, 1, 1}, .block = {256, 1, 1}, .stream = c->stream};
    CU(LaunchKernelEx(&config, c->flush_kernel, parameters, NULL), "flushing the cache");
    return rt_ok();
}

/* ---- Plain kernels ---- */

static RtError prepare_streams(Cuda *c) {
    static const char *const names[STREAM_KINDS] = {"sketchc_copy", "sketchc_read", "sketchc_fill", "sketchc_nothing"};
    RT_TRY(cuda_module(c, stream_ptx, 0, &c->stream_module));
    for (int i = 0; i < STREAM_KINDS; i++)
        CU(ModuleGetFunction(&c->stream_kernels[i], c->stream_module, names[i]), "finding a plain kernel");
    return rt_ok();
}

static RtError gpu_stream(Device *d, StreamKind kind, uint64_t to, uint64_t from, uint64_t bytes) {
    Cuda *c = cuda_of(d);
    if (!c->stream_module) RT_TRY(prepare_streams(c));
    uint64_t words = kind == STREAM_NOTHING ? 1 : bytes / 16, block = kind == STREAM_READ ? 1024 : 256;
    void *parameters[] = {&to, &from, &words};
    CUlaunchConfig config = {.grid = {(unsigned)((words + block - 1) / block), 1, 1}, .block = {256, 1, 1}, .stream = c->stream};
    CU(LaunchKernelEx(&config, c->stream_kernels[kind], parameters, NULL), "launching");
    return rt_ok();
}

/* ---- Opening ---- */

static RtError gpu_close(Device *d) {
    Cuda *c = cuda_of(d);
    if (!c) return rt_ok();
    if (c->flush) c->cu->MemFree(c->flush);
    if (c->flush_module) c->cu->ModuleUnload(c->flush_module);
    if (c->stream_module) c->cu->ModuleUnload(c->stream_module);
    if (c->begin) c->cu->EventDestroy(c->begin);
    if (c->end) c->cu->EventDestroy(c->end);
    if (c->own_stream) c->cu->StreamDestroy(c->own_stream);
    if (c->context) c->cu->DevicePrimaryCtxRelease(c->device);
    free(c);
    d->impl = NULL;
    return rt_ok();
}

static const DeviceOps gpu_ops = {
    .alloc = gpu_alloc,
    .release = gpu_release,
    .upload = gpu_upload,
    .download = gpu_download,
    .copy = gpu_copy,
    .fill = gpu_fill,
    .stream = gpu_stream,
    .load = cuda_load,
    .unload = cuda_unload,
    .launch = gpu_launch,
    .sync = gpu_sync,
    .use_stream = gpu_use_stream,
    .time_begin = gpu_time_begin,
    .time_end = gpu_time_end,
    .flush = gpu_flush,
    .close = gpu_close,
};

static RtError describe(Device *d, Cuda *c) {
    char name[96] = "";
    int sms = 0, l2 = 0;
    size_t available = 0, total = 0;
    CU(DeviceGetName(name, sizeof name, c->device), "asking the device");
    CU(DeviceGetAttribute(&sms, CUDA_DEV_SMS, c->device), "asking the device");
    CU(DeviceGetAttribute(&l2, CUDA_DEV_L2_BYTES, c->device), "asking the device");
    CU(DeviceGetAttribute(&c->major, CUDA_DEV_MAJOR, c->device), "asking the device");
    CU(DeviceGetAttribute(&c->minor, CUDA_DEV_MINOR, c->device), "asking the device");
    CU(DeviceGetAttribute(&c->threads_sm, CUDA_DEV_THREADS_SM, c->device), "asking the device");
    CU(DeviceGetAttribute(&c->shared_limit, CUDA_DEV_SHARED_OPTIN, c->device), "asking the device");
    CU(MemGetInfo(&available, &total), "asking for the device's memory");
    CU(DriverGetVersion(&c->driver_version), "asking the driver");
    d->num_sms = d->num_cores = sms;
    d->memory_bytes = total;
    d->free_bytes = available;
    c->l2_bytes = l2 > 0 ? (uint64_t)l2 : 0;
    name[sizeof name - 1] = '\0';
    snprintf(d->arch, sizeof d->arch, "sm_%d%d", c->major, c->minor);
    snprintf(d->name, sizeof d->name, "%s, %s, driver %d.%d", name, d->arch, c->driver_version / 1000, c->driver_version % 1000 / 10);
    return rt_ok();
}

static RtError open_device(Device *d, Cuda *c, unsigned ordinal) {
    int count = 0;
    CU(Init(0), "starting CUDA");
    CU(DeviceGetCount(&count), "counting devices");
    if (ordinal >= (unsigned)count) return rt_error(RT_MISSING, "there is no CUDA device %u (of %d)", ordinal, count);
    CU(DeviceGet(&c->device, (int)ordinal), "opening the device");
    CU(DevicePrimaryCtxRetain(&c->context, c->device), "opening the device");
    CU(CtxSetCurrent(c->context), "opening the device");
    CU(StreamCreate(&c->own_stream, CUDA_STREAM_NON_BLOCKING), "making a stream");
    c->stream = c->own_stream;
    CU(EventCreate(&c->begin, 0), "making an event");
    CU(EventCreate(&c->end, 0), "making an event");
    return describe(d, c);
}

RtError device_open_cuda(Device *d, unsigned ordinal) {
    Cuda *c = calloc(1, sizeof *c);
    if (!c) return rt_error(RT_MISSING, "out of memory");
    *d = (Device){.ops = &gpu_ops, .impl = c};
    c->cu = &c->functions;
    RtError e = cuda_driver_open(&c->functions);
    if (rt_failed(&e)) {
        free(c);
        d->impl = NULL;
        return e;
    }
    e = open_device(d, c, ordinal);
    if (!rt_failed(&e)) return e;
    if (e.status == RT_LAUNCH_FAILED) e.status = RT_MISSING; /* a driver without a device */
    gpu_close(d);
    return e;
}
