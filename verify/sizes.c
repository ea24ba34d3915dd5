#include "verify.h"

#include <string.h>

static bool lookup_symbol(void *ctx, const Aff *leaf, int64_t *value) {
    const Sizes *sizes = ctx;
    if (leaf->kind != AFF_SYM) return false;
    for (size_t i = 0; i < sizes->count; i++) {
        if (strcmp(sizes->values[i].name, leaf->name) != 0) continue;
        *value = sizes->values[i].value;
        return true;
    }
    return false;
}

bool sizes_eval(const Sizes *sizes, const Aff *e, int64_t *value) {
    Sizes copy = *sizes;
    return aff_eval(e, lookup_symbol, &copy, value);
}

/* What num_sms and num_cores are in the interpreter: few, and no divisor of common sizes. */
enum { LAUNCH_CONSTANT = 5 };

static const IrType *declared_type(const IrFunc *f, unsigned i) {
    return f->params[i].type ? f->params[i].type : f->body->args[i]->type;
}

static int64_t packed_stride(const Sizes *bound, const IrType *type) {
    int64_t extents[VERIFY_MAX_RANK], strides[VERIFY_MAX_RANK];
    for (unsigned d = 0; d < type->rank; d++) {
        if (!sizes_eval(bound, type->extents[d], &extents[d])) extents[d] = -1;
        if (!sizes_eval(bound, type->strides[d], &strides[d])) strides[d] = -1;
    }
    return placement_packed_stride(type->rank, extents, strides);
}

/* As a stride: that of a tensor without gaps. */
static bool bind_stride(const IrFunc *f, const Sizes *bound, const char *name, int64_t *value) {
    for (unsigned i = 0; i < f->param_count; i++) {
        const IrType *type = declared_type(f, i);
        if (f->params[i].kind != IR_PARAM_TENSOR || type->kind != IR_TYPE_TENSOR || !type->strides || type->rank > VERIFY_MAX_RANK)
            continue;
        for (unsigned d = type->rank; d-- > 0;) {
            if (type->strides[d]->kind != AFF_SYM || strcmp(type->strides[d]->name, name) != 0) continue;
            *value = packed_stride(bound, type);
            return *value >= 0;
        }
    }
    return false;
}

static bool is_given(const Sizes *given, const IrParam *param, int64_t *value) {
    for (size_t i = 0; i < given->count; i++)
        if (strcmp(given->values[i].name, param->name) == 0) {
            *value = given->values[i].value;
            return true;
        }
    return false;
}

static bool bind_symbol(Arena *arena, const IrFunc *f, const Sizes *given, Sizes *bound, const IrParam *param, const char **error) {
    int64_t value = 0;
    bool found = false;
    bool of_launch = param->derived && param->derived->kind == AFF_SYM && strcmp(param->derived->name, param->name) == 0;
    if (of_launch) {
        found = true;
        value = LAUNCH_CONSTANT;
    } else if (param->derived) {
        found = sizes_eval(bound, param->derived, &value);
    } else {
        found = is_given(given, param, &value) || bind_stride(f, bound, param->name, &value);
    }
    if (!found) *error = arena_printf(arena, "the symbol %s has no value", param->name);
    if (found && value < 0) {
        *error = arena_printf(arena, "the symbol %s is negative: %lld", param->name, (long long)value);
        found = false;
    }
    bound->values[bound->count++] = (SymbolValue){param->name, value};
    return found;
}

static bool check_constraints(Arena *arena, const IrFunc *f, const Sizes *bound, const char **error) {
    for (size_t i = 0; i < f->constraint_count; i++) {
        const IrConstraint *c = &f->constraints[i];
        int64_t value = -1;
        if (sizes_eval(bound, c->expr, &value) && (c->equal ? value == 0 : value >= 0)) continue;
        *error = arena_printf(arena, "the constraint %s does not hold", c->text ? c->text : "");
        return false;
    }
    return true;
}

const Sizes *sizes_bind(Arena *arena, const IrFunc *f, const Sizes *given, const char **error) {
    Sizes *bound = ARENA_NEW(arena, Sizes);
    bound->values = ARENA_ARRAY(arena, SymbolValue, f->param_count + 1);
    for (unsigned pass = 0; pass < 3; pass++) { /* given ones, strides that are not, derived ones */
        for (unsigned i = 0; i < f->param_count; i++) {
            const IrParam *param = &f->params[i];
            int64_t value;
            unsigned when = param->derived ? 2 : is_given(given, param, &value) ? 0 : 1;
            if (param->kind != IR_PARAM_SYMBOL || when != pass) continue;
            if (!bind_symbol(arena, f, given, bound, param, error)) return NULL;
        }
    }
    if (!check_constraints(arena, f, bound, error)) return NULL;
    for (unsigned i = 0; i < f->param_count; i++) {
        Shape shape;
        const IrParam *param = &f->params[i];
        if (param->kind != IR_PARAM_TENSOR || f->body->args[i]->type->kind != IR_TYPE_TENSOR) continue;
        if (shape_of(bound, param->name, f->body->args[i]->type, &shape)) continue;
        *error = arena_printf(arena, "the tensor %s has no valid shape at these sizes", param->name);
        return NULL;
    }
    return bound;
}

bool shape_of(const Sizes *sizes, const char *name, const IrType *type, Shape *shape) {
    bool ranked = type->kind != IR_TYPE_SCALAR && type->kind != IR_TYPE_PTR;
    unsigned rank = ranked ? type->rank : 0;
    if (rank > VERIFY_MAX_RANK) return false;
    *shape = (Shape){.name = name, .dtype = type->dtype, .rank = rank, .elements = 1};
    for (unsigned i = 0; i < rank; i++) {
        int64_t extent;
        if (!sizes_eval(sizes, type->extents[i], &extent) || extent < 0) return false;
        shape->extents[i] = extent;
        if (__builtin_mul_overflow(shape->elements, extent, &shape->elements)) return false;
    }
    return true;
}
