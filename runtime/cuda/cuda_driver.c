#include "cuda_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const struct {
    size_t offset;
    const char *symbol;
} entries[] = {
#define CUDA_ENTRY(name, symbol, parameters) {offsetof(CudaDriver, name), symbol},
#include "cuda_driver.def"
#undef CUDA_ENTRY
};

_Static_assert(sizeof(CUlaunchAttribute) == 72, "the driver's layout");
_Static_assert(offsetof(CUlaunchAttribute, value) == 8, "the driver's layout");
_Static_assert(offsetof(CUlaunchConfig, stream) == 32 && sizeof(CUlaunchConfig) == 56, "the driver's layout");

static RtError bind_entries(CudaDriver *driver, void *library) {
    for (size_t i = 0; i < COUNT_OF(entries); i++) {
        void *symbol = dlsym(library, entries[i].symbol);
        if (!symbol) return rt_error(RT_MISSING, "the CUDA driver is too old: it has no %s", entries[i].symbol);
        memcpy((char *)driver + entries[i].offset, &symbol, sizeof symbol);
    }
    return rt_ok();
}

/* Called in workers only; the library is never closed. */
RtError cuda_driver_open(CudaDriver *driver) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return rt_error(RT_MISSING, "no CUDA driver: libcuda.so.1 cannot be opened");
    return bind_entries(driver, library);
}

/* Of the context that is current, else of the first device. */
static bool read_arch(const CudaDriver *driver, char arch[32]) {
    CUdevice device = 0;
    int major = 0, minor = 0;
    if (driver->CtxGetDevice(&device) != CUDA_SUCCESS && driver->DeviceGet(&device, 0) != CUDA_SUCCESS) return false;
    if (driver->DeviceGetAttribute(&major, CUDA_DEV_MAJOR, device) != CUDA_SUCCESS) return false;
    if (driver->DeviceGetAttribute(&minor, CUDA_DEV_MINOR, device) != CUDA_SUCCESS) return false;
    snprintf(arch, 32, "sm_%d%d", major, minor);
    return true;
}

bool cuda_running_arch(char arch[32]) {
    CudaDriver driver;
    int count = 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (!library) return false;
    RtError e = bind_entries(&driver, library);
    bool runs = !rt_failed(&e) && driver.DeviceGetCount(&count) == CUDA_SUCCESS && count > 0;
    runs = runs && read_arch(&driver, arch);
    dlclose(library);
    return runs;
}

static RtStatus classify(CUresult result) {
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
    case CUDA_ERROR_NO_DEVICE:
        return RT_MISSING;
    case CUDA_ERROR_LAUNCH_TIMEOUT:
        return RT_HANG;
    case CUDA_ERROR_ASSERT:
        return RT_ABORT;
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_HARDWARE_STACK:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED:
    case CUDA_ERROR_INVALID_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
        return RT_FAULT;
    default:
        return RT_LAUNCH_FAILED;
    }
}

RtError cuda_check(const CudaDriver *driver, CUresult result, const char *what) {
    const char *name = NULL, *text = NULL;
    if (result == CUDA_SUCCESS) return rt_ok();
    if (driver->GetErrorName(result, &name) != CUDA_SUCCESS) name = NULL;
    if (driver->GetErrorString(result, &text) != CUDA_SUCCESS) text = NULL;
    return rt_error(classify(result), "%s: %s (%d): %s", what, name ? name : "unknown CUDA error", result, text ? text : "");
}
