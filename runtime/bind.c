#include "runtime_internal.h"

#include <math.h>
#include <string.h>

#define MAX_ELEMENTS ((uint64_t)1 << 40)

void binding_init(Binding *b, Arena *arena, const Artifact *a, int64_t num_sms, int64_t num_cores) {
    size_t n = a->param_count + 1;
    *b = (Binding){.a = a, .num_sms = num_sms, .num_cores = num_cores};
    b->symbols = ARENA_ARRAY(arena, int64_t, n);
    b->bound = ARENA_ARRAY(arena, bool, n);
    b->scalars = ARENA_ARRAY(arena, double, n);
    b->extents = arena_alloc_array(arena, n, sizeof *b->extents);
    b->places = ARENA_ARRAY(arena, Placement, n);
    b->elements = ARENA_ARRAY(arena, uint64_t, n);
    b->bytes = ARENA_ARRAY(arena, uint64_t, n);
    for (size_t i = 0; i < a->param_count; i++) b->scalars[i] = a->params[i].kind == ARTIFACT_SCALAR ? a->params[i].fallback : NAN;
}

RtError binding_set_symbol(Binding *b, const char *name, int64_t value) {
    int i = artifact_find_param(b->a, name);
    if (i < 0 || b->a->params[i].kind != ARTIFACT_SYMBOL) return rt_error(RT_BAD_OPTION, "'%.64s' is no symbol of %s", name, b->a->name);
    if (b->a->params[i].derived) return rt_error(RT_BAD_OPTION, "the symbol '%s' is derived from others and cannot be set", name);
    if (value < 0) return rt_error(RT_BAD_INPUT, "the symbol '%s' is %lld; symbols are >= 0", name, (long long)value);
    if (b->bound[i] && b->symbols[i] != value)
        return rt_error(RT_BAD_INPUT, "the symbol '%s' would be both %lld and %lld", name, (long long)b->symbols[i], (long long)value);
    b->symbols[i] = value;
    b->bound[i] = true;
    return rt_ok();
}

RtError binding_set_scalar(Binding *b, const char *name, double value) {
    int i = artifact_find_param(b->a, name);
    if (i < 0 || b->a->params[i].kind != ARTIFACT_SCALAR) return rt_error(RT_BAD_OPTION, "'%.64s' is no scalar of %s", name, b->a->name);
    b->scalars[i] = value;
    b->bound[i] = true;
    return rt_ok();
}

RtError binding_set_all(Binding *b, const RtSymbol *symbols, size_t symbol_count, const RtScalar *scalars, size_t scalar_count) {
    for (size_t i = 0; i < symbol_count; i++) RT_TRY(binding_set_symbol(b, symbols[i].name, symbols[i].value));
    for (size_t i = 0; i < scalar_count; i++) RT_TRY(binding_set_scalar(b, scalars[i].name, scalars[i].value));
    return rt_ok();
}

RtError binding_set_shape(Binding *b, unsigned param, unsigned rank, const int64_t *extents) {
    const ArtifactParam *p = &b->a->params[param];
    if (rank != p->rank) return rt_error(RT_BAD_INPUT, "'%s' has rank %u, the given array has rank %u", p->name, p->rank, rank);
    for (unsigned i = 0; i < rank; i++) {
        const Aff *e = p->extents[i];
        if (e->kind != AFF_SYM || artifact_find_param(b->a, e->name) < 0) continue;
        int symbol = artifact_find_param(b->a, e->name);
        if (b->a->params[symbol].derived) continue; /* checked once it is known */
        RtError error = binding_set_symbol(b, e->name, extents[i]);
        if (!rt_failed(&error)) continue;
        return rt_error(RT_BAD_INPUT, "extent %u of '%s': %.300s", i, p->name, error.text);
    }
    return rt_ok();
}

static bool lookup(void *ctx, const Aff *leaf, int64_t *value) {
    const Binding *b = ctx;
    if (leaf->kind != AFF_SYM) return false;
    int i = artifact_find_param(b->a, leaf->name);
    if (i >= 0 && b->bound[i] && b->a->params[i].kind == ARTIFACT_SYMBOL) {
        *value = b->symbols[i];
        return true;
    }
    if (strcmp(leaf->name, "num_sms") == 0)
        *value = b->num_sms;
    else if (strcmp(leaf->name, "num_cores") == 0)
        *value = b->num_cores;
    else
        return false;
    return true;
}

bool binding_eval(const Binding *b, const Aff *e, int64_t *value) {
    Binding copy = *b;
    return aff_eval(e, lookup, &copy, value);
}

static int64_t packed_stride(const Binding *b, const ArtifactParam *p) {
    int64_t extents[ARTIFACT_MAX_RANK], strides[ARTIFACT_MAX_RANK];
    for (unsigned d = 0; d < p->rank; d++) {
        if (!binding_eval(b, p->extents[d], &extents[d])) extents[d] = -1;
        if (!binding_eval(b, p->strides[d], &strides[d])) strides[d] = -1;
    }
    return placement_packed_stride(p->rank, extents, strides);
}

/* As far as all symbols of it are known. */
static bool constraint_holds(const Binding *b, const ArtifactConstraint *c) {
    int64_t value;
    return !binding_eval(b, c->expr, &value) || (c->equal ? value == 0 : value >= 0);
}

enum { STRIDES_TRIED = 4096 };

/* From `least` on the first value that the constraints allow; `least` when there is none nearby. */
static int64_t allowed_stride(Binding *b, int symbol, int64_t least) {
    for (int64_t value = least; value < least + STRIDES_TRIED; value++) {
        size_t held = 0;
        b->symbols[symbol] = value;
        while (held < b->a->constraint_count && constraint_holds(b, &b->a->constraints[held])) held++;
        if (held == b->a->constraint_count) return value;
    }
    return least;
}

/* A symbol that nothing else gives a value is, as a stride, the least that leaves no element's place to another and
 * that the constraints allow. */
static void bind_strides(Binding *b) {
    for (size_t i = 0; i < b->a->param_count; i++) {
        const ArtifactParam *p = &b->a->params[i];
        for (unsigned d = p->strided ? p->rank : 0; d-- > 0;) {
            int symbol = p->strides[d]->kind == AFF_SYM ? artifact_find_param(b->a, p->strides[d]->name) : -1;
            if (symbol < 0 || b->bound[symbol] || b->a->params[symbol].derived) continue;
            int64_t least = packed_stride(b, p);
            b->bound[symbol] = least >= 0;
            b->symbols[symbol] = least < 0 ? least : allowed_stride(b, symbol, least);
        }
    }
}

static RtError complete_symbols(Binding *b) {
    bind_strides(b);
    for (size_t i = 0; i < b->a->param_count; i++) {
        const ArtifactParam *p = &b->a->params[i];
        if (p->kind == ARTIFACT_SCALAR && isnan(b->scalars[i]) && !b->bound[i])
            return rt_error(RT_BAD_OPTION, "the scalar '%s' has no value and no default", p->name);
        if (p->kind != ARTIFACT_SYMBOL) continue;
        if (!p->derived) {
            if (!b->bound[i]) return rt_error(RT_BAD_OPTION, "no given tensor or option binds the symbol '%s'", p->name);
            continue;
        }
        int64_t value;
        if (!binding_eval(b, p->derived, &value))
            return rt_error(RT_BAD_INPUT, "the derived symbol '%s' overflows at these sizes", p->name);
        if (value < 0) return rt_error(RT_BAD_INPUT, "the derived symbol '%s' is %lld; symbols are >= 0", p->name, (long long)value);
        b->symbols[i] = value;
        b->bound[i] = true;
    }
    return rt_ok();
}

static RtError check_constraints(const Binding *b) {
    for (size_t i = 0; i < b->a->constraint_count; i++) {
        const ArtifactConstraint *c = &b->a->constraints[i];
        int64_t value;
        if (binding_eval(b, c->expr, &value) && (c->equal ? value == 0 : value >= 0)) continue;
        char sizes[256];
        binding_print(b, sizes, sizeof sizes);
        return rt_error(RT_BAD_INPUT, "the constraint '%.120s' does not hold at %s", c->text ? c->text : "", sizes);
    }
    return rt_ok();
}

static RtError place_tensor(Binding *b, size_t i) {
    const ArtifactParam *p = &b->a->params[i];
    int64_t strides[ARTIFACT_MAX_RANK];
    for (unsigned d = 0; d < p->rank; d++)
        if (!binding_eval(b, p->strides[d], &strides[d]) || strides[d] < 0)
            return rt_error(RT_BAD_INPUT, "stride %u of '%s' is negative or overflows at these sizes", d, p->name);
    if (!placement_init(&b->places[i], p->rank, b->extents[i], strides) || (uint64_t)b->places[i].memory > MAX_ELEMENTS)
        return rt_error(RT_BAD_INPUT, "'%s' reaches over more than 2^40 elements of memory", p->name);
    b->bytes[i] = (uint64_t)b->places[i].memory * dtype_size(p->dtype);
    return rt_ok();
}

static RtError size_tensor(Binding *b, size_t i) {
    const ArtifactParam *p = &b->a->params[i];
    uint64_t elements = 1;
    bool fits = true, empty = false;
    for (unsigned d = 0; d < p->rank; d++) {
        int64_t extent;
        if (!binding_eval(b, p->extents[d], &extent) || extent < 0)
            return rt_error(RT_BAD_INPUT, "extent %u of '%s' is negative or overflows at these sizes", d, p->name);
        b->extents[i][d] = extent;
        empty = empty || extent == 0;
        if (__builtin_mul_overflow(elements, (uint64_t)extent, &elements) && !empty) fits = false;
        if (elements > MAX_ELEMENTS && !empty) fits = false;
        if (!fits) elements = MAX_ELEMENTS; /* a later extent may be 0 */
    }
    if (empty)
        elements = 0;
    else if (!fits)
        return rt_error(RT_BAD_INPUT, "'%s' has more than 2^40 elements", p->name);
    b->elements[i] = elements;
    b->bytes[i] = elements * dtype_size(p->dtype);
    return p->strided ? place_tensor(b, i) : rt_ok();
}

static RtError size_workspace(Binding *b, size_t i) {
    const ArtifactParam *p = &b->a->params[i];
    int64_t elements;
    if (!binding_eval(b, p->elements, &elements) || elements < 0 || (uint64_t)elements > MAX_ELEMENTS)
        return rt_error(RT_BAD_INPUT, "the workspace '%s' has a size out of range", p->name);
    b->elements[i] = (uint64_t)elements;
    b->bytes[i] = (uint64_t)elements * dtype_size(p->dtype);
    return rt_ok();
}

RtError binding_complete(Binding *b) {
    RT_TRY(complete_symbols(b));
    RT_TRY(check_constraints(b));
    for (size_t i = 0; i < b->a->param_count; i++) {
        if (b->a->params[i].kind == ARTIFACT_TENSOR) RT_TRY(size_tensor(b, i));
        if (b->a->params[i].kind == ARTIFACT_WORKSPACE) RT_TRY(size_workspace(b, i));
    }
    return rt_ok();
}

void rt_print_shape(char *out, size_t size, unsigned rank, const int64_t *extents) {
    size_t used = (size_t)snprintf(out, size, "[");
    for (unsigned i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%lld", i ? ", " : "", (long long)extents[i]);
    if (used < size) snprintf(out + used, size - used, "]");
}

RtError binding_check_shape(const Binding *b, unsigned param, unsigned rank, const int64_t *extents) {
    const ArtifactParam *p = &b->a->params[param];
    if (rank == p->rank && (rank == 0 || memcmp(extents, b->extents[param], rank * sizeof *extents) == 0)) return rt_ok();
    char want[200], got[200];
    rt_print_shape(want, sizeof want, p->rank, b->extents[param]);
    rt_print_shape(got, sizeof got, rank, extents);
    return rt_error(RT_BAD_INPUT, "'%s' is %s at these sizes, the given array is %s", p->name, want, got);
}

uint64_t binding_element_bytes(const Binding *b, size_t param) {
    return b->elements[param] * dtype_size(b->a->params[param].dtype);
}

uint64_t binding_tensor_bytes(const Binding *b) {
    uint64_t sum = 0;
    for (size_t i = 0; i < b->a->param_count; i++) sum += b->bytes[i];
    return sum;
}

uint64_t binding_traffic_bytes(const Binding *b) {
    uint64_t sum = 0;
    for (size_t i = 0; i < b->a->param_count; i++)
        if (b->a->params[i].kind == ARTIFACT_TENSOR)
            sum += binding_element_bytes(b, i) * (b->a->params[i].direction == ARTIFACT_INOUT ? 2 : 1);
    return sum;
}

void binding_print(const Binding *b, char *out, size_t size) {
    size_t used = 0;
    if (size) out[0] = '\0';
    for (size_t i = 0; i < b->a->param_count && used < size; i++)
        if (b->a->params[i].kind == ARTIFACT_SYMBOL && b->bound[i] && !b->a->params[i].derived)
            used += (size_t)snprintf(out + used, size - used, "%s%s=%lld", used ? " " : "", b->a->params[i].name, (long long)b->symbols[i]);
}
