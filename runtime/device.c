#include "device.h"

RtError device_open(Device *d, ArtifactTarget target, unsigned ordinal) {
    return target == ARTIFACT_CUDA ? device_open_cuda(d, ordinal) : device_open_cpu(d);
}

/* By doubling: each copy is from what is filled already. */
RtError device_fill_pattern(Device *d, uint64_t to, uint64_t bytes, const void *pattern,
                            uint64_t pattern_bytes) {
    uint64_t done = bytes < pattern_bytes ? bytes : pattern_bytes;
    if (done) RT_TRY(d->ops->upload(d, to, pattern, done));
    while (done < bytes) {
        uint64_t n = bytes - done < done ? bytes - done : done;
        RT_TRY(d->ops->copy(d, to + done, to, n));
        done += n;
    }
    return rt_ok();
}
