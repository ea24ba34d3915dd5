/* The CUDA driver, opened at run time: own declarations of what is used, so that neither building
 * nor linking needs CUDA. Layouts and numbers are those of the driver's stable ABI. */
#ifndef RUNTIME_CUDA_CUDA_DRIVER_H
#define RUNTIME_CUDA_CUDA_DRIVER_H

#include "runtime_internal.h"

typedef int CUresult; /* 0: success */
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

enum { CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_NO_DEVICE = 100 };
/* Errors after which the context is lost: the kernel's own doing. */
enum {
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    CUDA_ERROR_ASSERT = 710,
    CUDA_ERROR_HARDWARE_STACK = 714,
    CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
    CUDA_ERROR_MISALIGNED = 716,
    CUDA_ERROR_INVALID_SPACE = 717,
    CUDA_ERROR_INVALID_PC = 718,
    CUDA_ERROR_LAUNCH_FAILED = 719
};
enum {
    CUDA_DEV_SMS = 16,
    CUDA_DEV_L2_BYTES = 38,
    CUDA_DEV_THREADS_SM = 39,
    CUDA_DEV_MAJOR = 75,
    CUDA_DEV_MINOR = 76,
    CUDA_DEV_COOPERATIVE = 95,
    CUDA_DEV_SHARED_OPTIN = 97
};
enum {
    CUDA_FUNC_MAX_THREADS = 0,
    CUDA_FUNC_SHARED = 1,
    CUDA_FUNC_LOCAL = 3,
    CUDA_FUNC_REGISTERS = 4,
    CUDA_FUNC_MAX_DYNAMIC_SHARED = 8,
    CUDA_FUNC_NON_PORTABLE_CLUSTER = 14
};
enum { CUDA_JIT_MAX_REGISTERS = 0, CUDA_JIT_ERROR_LOG = 5, CUDA_JIT_ERROR_LOG_SIZE = 6 };
enum { CUDA_STREAM_NON_BLOCKING = 1 };
enum { /* element types of tensor maps */
       CUDA_MAP_U8 = 0,
       CUDA_MAP_U16 = 1,
       CUDA_MAP_U32 = 2,
       CUDA_MAP_U64 = 4,
       CUDA_MAP_F16 = 6,
       CUDA_MAP_F32 = 7,
       CUDA_MAP_F64 = 8,
       CUDA_MAP_BF16 = 9,
       CUDA_MAP_TF32 = 11
};
enum { CUDA_LAUNCH_COOPERATIVE = 2, CUDA_LAUNCH_CLUSTER = 4, CUDA_LAUNCH_DEPENDENT = 6, CUDA_LAUNCH_ATTRIBUTES = 3 };

typedef struct {
    int id;
    char padding[4];
    union {
        char bytes[64];
        int cooperative, dependent;
        struct {
            unsigned x, y, z;
        } cluster;
    } value;
} CUlaunchAttribute;

typedef struct {
    unsigned grid[3], block[3], shared_bytes;
    CUstream stream;
    CUlaunchAttribute *attributes;
    unsigned attribute_count;
} CUlaunchConfig;

typedef struct {
#define CUDA_ENTRY(name, symbol, parameters) CUresult(*name) parameters;
#include "cuda_driver.def"
#undef CUDA_ENTRY
} CudaDriver;

/* Fills in the driver's functions; MISSING when there is none, or it is too old for an entry. */
RtError cuda_driver_open(CudaDriver *driver);
/* "sm_90" of the current context's device, or of the first one, where this process has started CUDA already; else false. It starts
 * nothing and loads nothing. */
bool cuda_running_arch(char arch[32]);
/* OK, or the error with its name: FAULT, MISSING (out of memory) or LAUNCH_FAILED. */
RtError cuda_check(const CudaDriver *driver, CUresult result, const char *what);

#endif
