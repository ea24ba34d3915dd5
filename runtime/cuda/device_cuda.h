/* A CUDA device: the state that device_cuda.c and load_cuda.c share. */
#ifndef RUNTIME_CUDA_DEVICE_CUDA_H
#define RUNTIME_CUDA_DEVICE_CUDA_H

#include "cuda_driver.h"
#include "device.h"

typedef struct {
    CudaDriver functions;
    const CudaDriver *cu; /* the same */
    CUdevice device;
    CUcontext context;
    CUstream stream, own_stream;
    CUevent begin, end;
    CUdeviceptr flush; /* read between cold samples */
    CUmodule flush_module;
    CUfunction flush_kernel;
    CUmodule stream_module;
    CUfunction stream_kernels[STREAM_KINDS];
    int threads_sm; /* that a multiprocessor holds */
    uint64_t flush_bytes, l2_bytes;
    int major, minor, driver_version;
    int shared_limit; /* dynamic shared memory a block may ask for */
} Cuda;

RtError cuda_load(Device *d, const Artifact *a, const RtOptions *options, Program **program);
void cuda_unload(Device *d, Program *p);
CUfunction cuda_program_entry(const Program *p, unsigned step, unsigned version);
/* The shared memory that a kernel has asked the driver for; 0: it has not been launched. */
uint32_t *cuda_program_asked(Program *p, unsigned step, unsigned version);
/* Module from PTX or cubin; the JIT's messages become the error's text. */
RtError cuda_module(const Cuda *c, const void *image, unsigned max_registers, CUmodule *module);

#endif
