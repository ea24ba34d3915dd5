#include "sizes.h"

#include <string.h>

#include "query.h"

typedef struct {
    const PassContext *ctx;
    const IrFunc *func;
    IrCase *of;
} Sizes;

static bool size_leaf(void *context, const Aff *leaf, int64_t *value) {
    Sizes *s = context;
    if (leaf->kind != AFF_SYM || case_symbol(s->of, leaf, value)) return leaf->kind == AFF_SYM;
    for (unsigned i = 0; i < s->func->param_count; i++) {
        const IrParam *p = &s->func->params[i];
        if (p->kind != IR_PARAM_SYMBOL || !p->derived || strcmp(p->name, leaf->name) != 0) continue;
        if (p->derived->kind != AFF_SYM || strcmp(p->derived->name, p->name) != 0) return aff_eval(p->derived, size_leaf, s, value);
        *value = s->ctx->target->sms;
        return strcmp(p->name, "num_sms") == 0;
    }
    return false;
}

size_t sizes_asked(const PassContext *ctx) {
    return ctx->module->case_count;
}

bool size_at_plain(const PassContext *ctx, size_t asked, const Aff *e, int64_t *value) {
    return aff_eval(e, case_symbol, &ctx->module->cases[asked], value);
}

bool size_at(const PassContext *ctx, const IrFunc *func, size_t asked, const Aff *e, int64_t *value) {
    Sizes sizes = {ctx, func, &ctx->module->cases[asked]};
    return aff_eval(e, size_leaf, &sizes, value);
}

int64_t size_most(const PassContext *ctx, const IrFunc *func, const Aff *e) {
    int64_t most = 0, value;
    for (size_t i = 0; i < sizes_asked(ctx); i++)
        if (size_at(ctx, func, i, e, &value) && value > most) most = value;
    return most;
}

double size_weight(const PassContext *ctx, const IrFunc *func, size_t asked, double least) {
    double most = least;
    for (unsigned i = 0; i < func->body->arg_count; i++) {
        const IrType *t = func->body->args[i]->type;
        double elements = 1;
        int64_t extent;
        if (t->kind != IR_TYPE_TENSOR) continue;
        for (unsigned a = 0; a < t->rank; a++) elements *= size_at_plain(ctx, asked, t->extents[a], &extent) ? (double)extent : 1;
        most = elements > most ? elements : most;
    }
    return most;
}

bool step_is_asked_for(const PassContext *ctx, const IrFunc *func, const Aff *used) {
    int64_t value;
    if (aff_is_const(used, &value)) return value == 1;
    for (size_t i = 0; i < sizes_asked(ctx); i++)
        if (size_at(ctx, func, i, used, &value) && value == 1) return true;
    return false;
}
