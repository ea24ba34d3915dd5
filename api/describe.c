/* The machine in words, for whoever writes sketches for it. */
#include "api_internal.h"

#include <unistd.h>

static void put_bytes(Str *out, int64_t bytes) {
    if (bytes >= 1 << 20 && bytes % (1 << 20) == 0)
        str_printf(out, "%lld MiB", (long long)(bytes >> 20));
    else
        str_printf(out, "%lld KiB", (long long)(bytes >> 10));
}

/* What this processor says of itself counts more than what all of its kind have. */
static void describe_cpu(const Target *t, Str *out) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN), l1 = sysconf(_SC_LEVEL1_DCACHE_SIZE), l2 = sysconf(_SC_LEVEL2_CACHE_SIZE),
         l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    str_printf(out, "%ld cores, vectors of %lld bytes, ", cores > 0 ? cores : 1, (long long)t->simd_bytes);
    put_bytes(out, l1 > 0 ? l1 : t->l1_bytes);
    str_append(out, " of L1 and ");
    put_bytes(out, l2 > 0 ? l2 : t->l2_bytes);
    str_append(out, " of L2 a core");
    if (l3 <= 0) return;
    str_append(out, ", ");
    put_bytes(out, l3);
    str_append(out, " of L3");
}

static void describe_gpu(const Target *t, Str *out) {
    if (t->sms > 0) str_printf(out, "%lld multiprocessors, each ", (long long)t->sms);
    str_printf(out, "%lld registers, at most %lld a thread and %lld threads a block, ", (long long)t->registers_sm,
               (long long)t->registers_thread, (long long)t->max_threads_block);
    put_bytes(out, t->shared_bytes_block);
    str_append(out, " of shared memory a block");
    if (t->l2_bytes > 0) {
        str_append(out, ", ");
        put_bytes(out, t->l2_bytes);
        str_append(out, " of L2");
    }
    if (t->copy_gb_s > 0) str_printf(out, "; a copy moves %lld GB/s, reading %lld GB/s", (long long)t->copy_gb_s, (long long)t->read_gb_s);
}

typedef struct {
    sketchc_unit *unit;
    const sketchc_options *options;
    char *text;
} Description;

static void describe_call(void *call) {
    Description *d = call;
    Compile c = {0};
    Str out;
    if (!api_target(d->unit, d->options, NULL, &c)) return;
    str_init(&out);
    if (c.target->kind == TARGET_CPU)
        describe_cpu(c.target, &out);
    else
        describe_gpu(c.target, &out);
    d->text = api_string(&out);
    str_release(&out);
}

char *sketchc_machine(const sketchc_options *options) {
    sketchc_unit *unit = sketchc_unit_create("machine", "", 0);
    Description d = {unit, options, NULL};
    bool done = unit && api_call(unit, describe_call, &d);
    sketchc_unit_destroy(unit);
    return done ? d.text : NULL;
}
