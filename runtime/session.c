#include "session.h"
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 4 << 20 };

static bool has_memory(const Artifact *a, size_t i) {
    return a->params[i].kind == ARTIFACT_TENSOR || a->params[i].kind == ARTIFACT_WORKSPACE;
}

static RtError make_buffer(Session *s, unsigned i) {
    unsigned char zone[GUARD_BYTES];
    Device *d = s->device;
    uint64_t bytes = s->binding->bytes[i];
    RtError e = d->ops->alloc(d, bytes + 2 * GUARD_BYTES, &s->bases[i]);
    if (rt_failed(&e)) {
        s->bases[i] = 0;
        return e;
    }
    s->addresses[i] = s->bases[i] + GUARD_BYTES;
    guard_fill(zone, sizeof zone);
    RT_TRY(d->ops->upload(d, s->bases[i], zone, sizeof zone));
    RT_TRY(d->ops->upload(d, s->addresses[i] + bytes, zone, sizeof zone));
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
    if (!rt_failed(&e))
        placement_collect(&s->binding->places[i], dtype_size(s->a->params[i].dtype), memory, elements);
    free(memory);
    return e;
}

RtError session_open(Session *s, Arena *arena, Device *d, Program *p, Binding *b) {
    *s = (Session){.device = d, .program = p, .a = b->a, .binding = b};
    s->bases = ARENA_ARRAY(arena, uint64_t, b->a->param_count + 1);
    s->addresses = ARENA_ARRAY(arena, uint64_t, b->a->param_count + 1);
    s->rounds = ARENA_ARRAY(arena, unsigned, b->a->param_count + 1);
    /* Before memory is made, in case that nothing fits; then with its addresses. */
    RT_TRY(plan_launches(b, arena, NULL, &s->launches, &s->launch_count));
    for (unsigned i = 0; i < b->a->param_count; i++)
        if (has_memory(b->a, i)) RT_TRY(make_buffer(s, i));
    RT_TRY(plan_launches(b, arena, s->addresses, &s->launches, &s->launch_count));
    return plan_check_overlap(b, s->addresses);
}

void session_close(Session *s) {
    for (size_t i = 0; s->bases && i < s->a->param_count; i++)
        if (s->bases[i]) s->device->ops->release(s->device, s->bases[i]);
    s->bases = NULL;
}

RtError session_start(Session *s) {
    Device *d = s->device;
    for (size_t i = 0; i < s->launch_count; i++) {
        const Launch *l = &s->launches[i];
        if (l->skip) continue;
        if (l->step->kind == ARTIFACT_MEMSET)
            RT_TRY(d->ops->fill(d, s->addresses[l->step->param], l->step->byte,
                                s->binding->bytes[l->step->param]));
        else
            RT_TRY(d->ops->launch(d, s->program, l, s->binding, s->addresses));
    }
    return rt_ok();
}

RtError session_launch(Session *s) {
    RT_TRY(session_start(s));
    return s->device->ops->sync(s->device);
}

static RtError check_zone(Session *s, unsigned i, uint64_t address, const char *where) {
    unsigned char zone[GUARD_BYTES];
    RT_TRY(s->device->ops->download(s->device, zone, address, sizeof zone));
    int64_t at = guard_find_damage(zone, sizeof zone);
    if (at < 0) return rt_ok();
    long long distance = address < s->addresses[i] ? GUARD_BYTES - (long long)at : (long long)at;
    return rt_error(RT_OUT_OF_BOUNDS, "memory %lld bytes %s '%s' was written", distance, where,
                    s->a->params[i].name);
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
        RT_TRY(check_zone(s, i, s->bases[i], "before"));
        RT_TRY(check_zone(s, i, s->addresses[i] + s->binding->bytes[i], "past the end of"));
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
               index ? count == 1 ? "index value outside of its axis" : "index values outside of their axis"
                     : count == 1 ? "integer division by zero" : "integer divisions by zero",
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
