#include "device.h"

RtError device_open(Device *d, ArtifactTarget target, unsigned ordinal) {
    return target == ARTIFACT_CUDA ? device_open_cuda(d, ordinal) : device_open_cpu(d);
}

RtError device_launch_all(Device *d, const LaunchList *list) {
    const Binding *b = list->binding;
    for (size_t i = 0; i < list->count; i++) {
        const Launch *l = &list->launches[i];
        unsigned param = l->step->param;
        if (l->skip) continue;
        if (l->step->kind == ARTIFACT_MEMSET)
            RT_TRY(d->ops->fill(d, list->addresses[param], l->step->byte, b->bytes[param]));
        else
            RT_TRY(d->ops->launch(d, list->program, l, b, list->addresses));
    }
    return rt_ok();
}

static RtError start_work(Device *d, const TimedWork *w) {
    switch (w->kind) {
    case TIME_LAUNCHES:
        return device_launch_all(d, &w->list);
    case TIME_COPY:
        return d->ops->copy(d, w->to, w->from, w->bytes);
    case TIME_STREAM:
        return d->ops->stream(d, w->stream, w->to, w->from, w->bytes);
    }
    return rt_error(RT_BUG, "no such work");
}

RtError device_time(Device *d, const TimedWork *w, double *seconds, double *seen) {
    *seen = 0;
    if (d->ops->timed) return d->ops->timed(d, w, seconds, seen);
    if (w->flush) RT_TRY(d->ops->flush(d));
    RT_TRY(d->ops->time_begin(d));
    RT_TRY(start_work(d, w));
    return d->ops->time_end(d, seconds);
}

/* By doubling: each copy is from what is filled already. */
RtError device_fill_pattern(Device *d, uint64_t to, uint64_t bytes, const void *pattern, uint64_t pattern_bytes) {
    uint64_t done = bytes < pattern_bytes ? bytes : pattern_bytes;
    if (done) RT_TRY(d->ops->upload(d, to, pattern, done));
    while (done < bytes) {
        uint64_t n = bytes - done < done ? bytes - done : done;
        RT_TRY(d->ops->copy(d, to + done, to, n));
        done += n;
    }
    return rt_ok();
}
