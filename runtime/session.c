#include "session.h"
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 4 << 20 };

static bool has_memory(const Artifact *a, size_t i) {
    return a->params[i].kind == ARTIFACT_TENSOR || a->params[i].kind == ARTIFACT_WORKSPACE;
}

/* What a kernel may take for granted of an address: what its versions ask for, and whole elements. */
static uint64_t needed_align(const Artifact *a, size_t param) {
    uint64_t most = a->params[param].dtype == DTYPE_NONE ? 1 : dtype_size(a->params[param].dtype);
    for (size_t i = 0; i < a->step_count; i++)
        for (size_t j = 0; j < a->steps[i].version_count; j++)
            if (a->steps[i].versions[j].pointer_align > most) most = a->steps[i].versions[j].pointer_align;
    return most;
}

static RtError alloc_buffer(Session *s, unsigned i) {
    Device *d = s->device;
    uint64_t bytes = s->binding->bytes[i], align = needed_align(s->a, i);
    RtError e;
    if (d->fences) {
        e = d->ops->alloc_fenced(d, bytes, align, s->at_end, &s->bases[i]);
        s->addresses[i] = s->bases[i];
        s->before[i] = s->at_end ? GUARD_BYTES : 0;
        s->after[i] = s->at_end ? (align - bytes % align) % align : GUARD_BYTES;
    } else {
        e = d->ops->alloc(d, bytes + 2 * GUARD_BYTES, &s->bases[i]);
        s->addresses[i] = s->bases[i] + GUARD_BYTES;
        s->before[i] = s->after[i] = GUARD_BYTES;
    }
    if (rt_failed(&e)) s->bases[i] = 0;
    return e;
}

static RtError make_buffer(Session *s, unsigned i) {
    unsigned char zone[GUARD_BYTES];
    Device *d = s->device;
    RT_TRY(alloc_buffer(s, i));
    guard_fill(zone, sizeof zone);
    RT_TRY(d->ops->upload(d, s->addresses[i] - s->before[i], zone, s->before[i]));
    RT_TRY(d->ops->upload(d, s->addresses[i] + s->binding->bytes[i], zone, s->after[i]));
    return session_poison(s, i);
}

RtError session_poison(Session *s, unsigned i) {
    uint64_t bytes = s->binding->bytes[i], n = bytes < PIECE ? bytes : PIECE;
    unsigned char *pattern = rt_alloc(n);
    if (!pattern) return rt_error(RT_MISSING, "out of memory");
    s->rounds[i] = s->round;
    poison_fill_round(s->a->params[i].dtype, s->round, pattern, n);
    RtError e = device_fill_pattern(s->device, s->addresses[i], bytes, pattern, n);
    free(pattern);
    return e;
}

/* With strides: by way of a buffer on this side, in which poison lies between the elements. */
RtError session_upload(Session *s, unsigned i, const void *elements) {
    Device *d = s->device;
    Dtype dtype = s->a->params[i].dtype;
    uint64_t bytes = s->binding->bytes[i];
    if (!s->a->params[i].strided) return d->ops->upload(d, s->addresses[i], elements, bytes);
    void *memory = rt_alloc(bytes);
    if (!memory) return rt_error(RT_MISSING, "out of memory for '%s'", s->a->params[i].name);
    s->rounds[i] = s->round;
    poison_fill_round(dtype, s->round, memory, bytes);
    placement_spread(&s->binding->places[i], dtype_size(dtype), elements, memory);
    RtError e = d->ops->upload(d, s->addresses[i], memory, bytes);
    free(memory);
    return e;
}

RtError session_download(Session *s, unsigned i, void *elements) {
    Device *d = s->device;
    uint64_t bytes = s->binding->bytes[i];
    if (!s->a->params[i].strided) return d->ops->download(d, elements, s->addresses[i], bytes);
    void *memory = rt_alloc(bytes);
    if (!memory) return rt_error(RT_MISSING, "out of memory for '%s'", s->a->params[i].name);
    RtError e = d->ops->download(d, memory, s->addresses[i], bytes);
    if (!rt_failed(&e)) placement_collect(&s->binding->places[i], dtype_size(s->a->params[i].dtype), memory, elements);
    free(memory);
    return e;
}

static RtError make_buffers(Session *s, Arena *arena) {
    for (unsigned i = 0; i < s->a->param_count; i++)
        if (has_memory(s->a, i)) RT_TRY(make_buffer(s, i));
    RT_TRY(plan_launches(s->binding, arena, s->addresses, &s->launches, &s->launch_count));
    return plan_check_overlap(s->binding, s->addresses);
}

RtError session_open(Session *s, Arena *arena, Device *d, Program *p, Binding *b) {
    *s = (Session){.device = d, .program = p, .a = b->a, .binding = b};
    s->bases = ARENA_ARRAY(arena, uint64_t, b->a->param_count + 1);
    s->addresses = ARENA_ARRAY(arena, uint64_t, b->a->param_count + 1);
    s->rounds = ARENA_ARRAY(arena, unsigned, b->a->param_count + 1);
    s->before = ARENA_ARRAY(arena, uint64_t, b->a->param_count + 1);
    s->after = ARENA_ARRAY(arena, uint64_t, b->a->param_count + 1);
    s->at_end = true;
    /* Before memory is made, in case that nothing fits; then with its addresses. */
    RT_TRY(plan_launches(b, arena, NULL, &s->launches, &s->launch_count));
    return make_buffers(s, arena);
}

static void release_buffers(Session *s) {
    for (size_t i = 0; s->bases && i < s->a->param_count; i++) {
        if (s->bases[i]) s->device->ops->release(s->device, s->bases[i]);
        s->bases[i] = 0;
    }
}

void session_close(Session *s) {
    release_buffers(s);
    s->bases = NULL;
}

RtError session_turn(Session *s, Arena *arena) {
    release_buffers(s);
    s->at_end = !s->at_end;
    return make_buffers(s, arena);
}

static LaunchList session_list(const Session *s) {
    return (LaunchList){
        .program = s->program, .binding = s->binding, .addresses = s->addresses, .launches = s->launches, .count = s->launch_count};
}

RtError session_start(Session *s) {
    LaunchList list = session_list(s);
    return device_launch_all(s->device, &list);
}

RtError session_time(Session *s, bool flush, double *seconds, double *seen) {
    return device_time(s->device, &(TimedWork){.kind = TIME_LAUNCHES, .flush = flush, .list = session_list(s)}, seconds, seen);
}

/* An access that ended the process: did it meet a fence, and whose? The next buffer is FENCE_BYTES away at least. */
static RtError explain_fault(const Session *s, const RtError *e) {
    uint64_t at = s->device->fault;
    for (size_t i = 0; i < s->a->param_count && s->device->fences; i++) {
        uint64_t first = s->addresses[i], end = first + s->binding->bytes[i];
        if (!s->bases[i] || at < first - FENCE_BYTES || at >= end + FENCE_BYTES || (at >= first && at < end)) continue;
        return rt_error(RT_OUT_OF_BOUNDS, "memory %llu bytes %s '%s' was read or written",
                        (unsigned long long)(at < first ? first - at : at - end), at < first ? "before" : "past the end of",
                        s->a->params[i].name);
    }
    return *e;
}

RtError session_launch(Session *s) {
    RtError e = session_start(s);
    if (!rt_failed(&e)) e = s->device->ops->sync(s->device);
    return e.status == RT_FAULT && s->device->fault ? explain_fault(s, &e) : e;
}

static RtError check_zone(Session *s, unsigned i, bool behind, const char *where) {
    unsigned char zone[GUARD_BYTES];
    uint64_t size = behind ? s->after[i] : s->before[i];
    RT_TRY(s->device->ops->download(s->device, zone, behind ? s->addresses[i] + s->binding->bytes[i] : s->addresses[i] - size, size));
    int64_t at = guard_find_damage(zone, size);
    if (at < 0) return rt_ok();
    long long distance = behind ? (long long)at : (long long)size - (long long)at;
    return rt_error(RT_OUT_OF_BOUNDS, "memory %lld bytes %s '%s' was written", distance, where, s->a->params[i].name);
}

static RtError check_gaps(Session *s, unsigned i) {
    unsigned char *memory = rt_alloc(s->binding->bytes[i]);
    if (!memory) return rt_error(RT_MISSING, "out of memory");
    RtError e = s->device->ops->download(s->device, memory, s->addresses[i], s->binding->bytes[i]);
    int64_t at = rt_failed(&e) ? -1 : placement_find_stray(&s->binding->places[i], s->a->params[i].dtype, s->rounds[i], memory);
    free(memory);
    if (at >= 0)
        return rt_error(RT_OUT_OF_BOUNDS, "memory between the elements of '%s' was written, %lld elements behind the first",
                        s->a->params[i].name, (long long)at);
    return e;
}

RtError session_check_guards(Session *s) {
    for (unsigned i = 0; i < s->a->param_count; i++) {
        if (!s->bases[i]) continue;
        RT_TRY(check_zone(s, i, false, "before"));
        RT_TRY(check_zone(s, i, true, "past the end of"));
        if (s->a->params[i].strided) RT_TRY(check_gaps(s, i));
    }
    return rt_ok();
}

RtError session_hash(Session *s, unsigned i, Hash128 *hash) {
    unsigned char *piece = rt_alloc(PIECE);
    if (!piece) return rt_error(RT_MISSING, "out of memory");
    RtError e = rt_ok();
    *hash = (Hash128){0, 0};
    for (uint64_t done = 0; done < s->binding->bytes[i] && !rt_failed(&e);) {
        uint64_t n = s->binding->bytes[i] - done < PIECE ? s->binding->bytes[i] - done : PIECE;
        e = s->device->ops->download(s->device, piece, s->addresses[i] + done, n);
        *hash = hash128(piece, n, *hash);
        done += n;
    }
    free(piece);
    return e;
}

/* ---- --check ---- */

/* "3 index values outside of their axis at 12:5"; `name` is sk_count_WHAT_LINE_COLUMN. */
static void put_counts(Str *out, const char *name, int64_t count) {
    char what[16];
    unsigned line, column;
    if (sscanf(name + strlen(IR_COUNTER), "%15[a-z]_%u_%u", what, &line, &column) != 3) return;
    bool index = strcmp(what, "index") == 0;
    str_printf(out, "%s%lld %s at %u:%u", out->len ? ", " : "", (long long)count,
               index        ? count == 1 ? "index value outside of its axis" : "index values outside of their axis"
               : count == 1 ? "integer division by zero"
                            : "integer divisions by zero",
               line, column);
}

RtError session_counts(Session *s, char *text, size_t size) {
    Str out;
    bool counts = false;
    RtError e = rt_ok();
    str_init(&out);
    for (unsigned i = 0; i < s->a->param_count && !rt_failed(&e); i++) {
        const ArtifactParam *p = &s->a->params[i];
        int64_t count = 0;
        if (p->kind != ARTIFACT_WORKSPACE || strncmp(p->name, IR_COUNTER, strlen(IR_COUNTER)) != 0) continue;
        counts = true;
        e = session_download(s, i, &count);
        if (!rt_failed(&e) && count) put_counts(&out, p->name, count);
    }
    if (counts && !out.len) str_append(&out, "no index value outside of its axis, no integer division by zero");
    rt_copy(text, size, out.data ? out.data : "");
    str_release(&out);
    return e;
}
