/* CUDA C to a cubin by NVRTC, opened at run time: for machines without nvcc. */
#ifndef RUNTIME_CUDA_NVRTC_H
#define RUNTIME_CUDA_NVRTC_H

#include "runtime_internal.h"

/* MISSING when there is no NVRTC; BUILD_FAILED with the first lines of its log. */
RtError nvrtc_compile(const char *source, const char *arch, unsigned max_registers, Str *cubin);
/* "libnvrtc.so.13" and its version. */
bool nvrtc_probe(char *library, size_t size, int *major, int *minor);

#endif
