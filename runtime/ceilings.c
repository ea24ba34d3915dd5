/* `calibrate`: what the device's memory gives to kernels that do nothing else. Kept in the user's
 * cache by device and driver, so that it is measured once. */
#include "ceilings.h"
#include "worker.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 7 };
#define UNIT ((uint64_t)1 << 24)
/* Well beyond the caches, and no longer than need be. */
#define GPU_BYTES (64 * UNIT)
#define CPU_BYTES (4 * UNIT)

/* ---- Measuring ---- */

typedef struct {
    Device *d;
    uint64_t from, to, bytes;
} Buffers;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The median of the rounds, the cache flushed before each. */
static RtError time_stream(const Buffers *b, StreamKind kind, double *seconds) {
    const TimedWork work = {.kind = TIME_STREAM, .flush = true, .stream = kind, .to = b->to, .from = b->from, .bytes = b->bytes};
    double times[ROUNDS], seen;
    for (int i = -1; i < ROUNDS; i++) RT_TRY(device_time(b->d, &work, &times[i < 0 ? 0 : i], &seen));
    qsort(times, ROUNDS, sizeof *times, by_value);
    *seconds = times[ROUNDS / 2];
    return rt_ok();
}

static RtError measure(const Buffers *b, RtCeilings *c) {
    double copy, read, fill, bytes = (double)b->bytes;
    RT_TRY(b->d->ops->fill(b->d, b->from, 1, b->bytes));
    RT_TRY(b->d->ops->fill(b->d, b->to, 2, b->bytes));
    RT_TRY(time_stream(b, STREAM_COPY, &copy));
    RT_TRY(time_stream(b, STREAM_READ, &read));
    RT_TRY(time_stream(b, STREAM_FILL, &fill));
    RT_TRY(time_stream(b, STREAM_NOTHING, &c->null_s));
    c->copy_gb_per_s = 2 * bytes / copy * 1e-9;
    c->read_gb_per_s = bytes / read * 1e-9;
    c->fill_gb_per_s = bytes / fill * 1e-9;
    return rt_ok();
}

static RtError measure_all(Device *d, RtCeilings *c) {
    uint64_t most = strncmp(d->arch, "sm_", 3) == 0 ? GPU_BYTES : CPU_BYTES;
    Buffers b = {.d = d, .bytes = d->free_bytes / 8 / UNIT * UNIT};
    if (b.bytes > most) b.bytes = most;
    if (b.bytes < UNIT) return rt_error(RT_MISSING, "too little free memory to measure with");
    rt_copy(c->device, sizeof c->device, d->name);
    c->bytes = b.bytes;
    RtError e = d->ops->alloc(d, b.bytes, &b.from);
    if (!rt_failed(&e)) e = d->ops->alloc(d, b.bytes, &b.to);
    if (!rt_failed(&e)) e = measure(&b, c);
    if (b.to) d->ops->release(d, b.to);
    if (b.from) d->ops->release(d, b.from);
    return e;
}

/* ---- Keeping ---- */

/* The form of the record, and of how it is measured: another one is measured anew. */
enum { RECORD_FORMAT = 1 };
#define SUFFIX "ceilings"

static Hash128 key_of(const Device *d) {
    return hash128(d->name, strlen(d->name), (Hash128){0x63656c, RECORD_FORMAT});
}

static bool recall(const Cache *cache, const Device *d, RtCeilings *c) {
    Str data;
    str_init(&data);
    bool ok = cache_get(cache, key_of(d), SUFFIX, &data) && data.len == sizeof *c;
    if (ok) memcpy(c, data.data, sizeof *c);
    str_release(&data);
    c->device[sizeof c->device - 1] = '\0';
    return ok && c->copy_gb_per_s > 0 && c->read_gb_per_s > 0;
}

bool ceilings_recall(const Device *d, const char *cache_dir, RtCeilings *c) {
    Cache cache;
    cache_open(&cache, cache_dir);
    return recall(&cache, d, c);
}

RtError ceilings_measure(Device *d, const char *cache_dir, RtCeilings *c) {
    Cache cache;
    cache_open(&cache, cache_dir);
    memset(c, 0, sizeof *c); /* with its padding: the record's bytes */
    RT_TRY(measure_all(d, c));
    cache_put(&cache, key_of(d), SUFFIX, c, sizeof *c);
    return rt_ok();
}

/* ---- In a worker ---- */

typedef struct {
    const RtOptions *options;
    ArtifactTarget target;
    bool told;
    struct {
        RtError error;
        RtCeilings ceilings;
    } answer;
} Calibration;

static void work(void *ctx, WorkerChannel *channel) {
    Calibration *c = ctx;
    Device d;
    worker_phase(channel, 60, "starting the device");
    c->answer.error = device_open(&d, c->target, c->options->device);
    if (!rt_failed(&c->answer.error)) {
        worker_phase(channel, 120, "measuring");
        c->answer.error = ceilings_measure(&d, c->options->cache_dir, &c->answer.ceilings);
    }
    worker_send(channel, &c->answer, sizeof c->answer);
}

static bool receive(void *ctx, const void *data, size_t size) {
    Calibration *c = ctx;
    if (size != sizeof c->answer) return false;
    memcpy(&c->answer, data, size);
    c->answer.ceilings.device[sizeof c->answer.ceilings.device - 1] = '\0';
    c->answer.error.text[RT_TEXT - 1] = '\0';
    return c->told = (unsigned)c->answer.error.status < RT_STATUS_COUNT;
}

RtError rt_calibrate(bool cpu, const RtOptions *options, RtCeilings *ceilings) {
    Calibration c = {.options = options, .target = cpu ? ARTIFACT_CPU : ARTIFACT_CUDA};
    RtError e = worker_run(&(WorkerSpec){.work = work, .receive = receive, .ctx = &c});
    *ceilings = c.answer.ceilings;
    return rt_failed(&e) || !c.told ? e : c.answer.error;
}

void rt_ceilings_json(const RtCeilings *c, const RtError *error, Str *out) {
    str_append(out, "{\"format\":1,\"kind\":\"calibration\",\"status\":");
    str_append_json(out, rt_status_name(error->status));
    str_append(out, ",\"text\":");
    str_append_json(out, error->text);
    str_append(out, ",\"device\":");
    str_append_json(out, c->device);
    str_printf(out,
               ",\"copy_gb_per_s\":%.1f,\"read_gb_per_s\":%.1f,\"fill_gb_per_s\":%.1f,"
               "\"null_s\":%.9f,\"bytes\":%llu}\n",
               c->copy_gb_per_s, c->read_gb_per_s, c->fill_gb_per_s, c->null_s, (unsigned long long)c->bytes);
}

void rt_ceilings_text(const RtCeilings *c, const RtError *error, Str *out) {
    if (error->status != RT_OK)
        str_printf(out, "%s: %s\n", rt_status_name(error->status), error->text);
    else
        str_printf(out,
                   "%s\ncopy  %8.1f GB/s, both directions together\nread  %8.1f GB/s\nfill  %8.1f "
                   "GB/s\nempty launch %.2f us\n",
                   c->device, c->copy_gb_per_s, c->read_gb_per_s, c->fill_gb_per_s, c->null_s * 1e6);
}
