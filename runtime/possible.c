#include "possible.h"

#include <math.h>
#include <string.h>

#define GIGA 1e9

/* ---- What has to be done ---- */

/* Ops that use every element of their operands. A choice, an element at an index and an operation that may stop early do not. */
static bool uses_all(const IrOp *op) {
    switch (op->opcode) {
    case IR_CONST:
    case IR_RETURN:
    case IR_GRAPH_BROADCAST:
    case IR_GRAPH_TRANSPOSE:
    case IR_GRAPH_RESHAPE:
    case IR_GRAPH_FLIP:
    case IR_GRAPH_CONTRACT:
        return true;
    case IR_GRAPH_REDUCE:
        return ir_op_kind(op) != IR_KIND_AND && ir_op_kind(op) != IR_KIND_OR;
    default:
        return ir_has_trait(op, IR_ELEMENTWISE) && op->opcode != IR_SELECT;
    }
}

/* Numbers drawn from a range: of zeros, a triangle or the like a kernel may know what it need not read. */
static bool is_drawn(const IrCase *c, const char *tensor) {
    for (size_t k = 0; c && k < c->data_count; k++)
        if (strcmp(c->data[k].tensor, tensor) == 0)
            return strcmp(c->data[k].generator, "uniform") == 0 || strcmp(c->data[k].generator, "normal") == 0;
    return true;
}

/* A tensor of the operator, converted or with its axes in another order. */
static bool is_stored(const IrValue *v) {
    while (v->def && (v->def->opcode == IR_CAST || v->def->opcode == IR_GRAPH_TRANSPOSE)) v = v->def->operands[0];
    return v->def == NULL;
}

static double terms_of(const IrOp *op, const Task *task, Shape *result) {
    Shape a;
    const IrAttr *axes = ir_attr(op, "sum_a");
    double terms = 1;
    if (!axes || !shape_of(task->sizes, "", op->results[0].type, result) || !shape_of(task->sizes, "", op->operands[0]->type, &a)) return 0;
    for (size_t i = 0; i < axes->count; i++)
        if (axes->ints[i] >= 0 && axes->ints[i] < (int64_t)a.rank) terms *= (double)a.extents[axes->ints[i]];
    return terms;
}

static void find_products(const Task *task, const IrOp *op, NecessaryWork *w) {
    Shape result = {0};
    if (!is_stored(op->operands[0]) || !is_stored(op->operands[1])) return;
    w->products = terms_of(op, task, &result);
    w->products *= (double)result.elements;
    unsigned a = dtype_bits(op->operands[0]->type->dtype), b = dtype_bits(op->operands[1]->type->dtype);
    w->factor_bytes = (a < b ? a : b) / 8;
}

/* Sums of sums, and products of products, may be formed by less: only what folds once is held to its terms. */
static void find_terms(const TaskPlan *plan, const Task *task, const Binding *b, NecessaryWork *w) {
    const IrOp *contraction = NULL;
    size_t folds = 0;
    bool all = true;
    for (const IrOp *op = plan->graph->body->first; op; op = op->next) {
        folds += op->opcode == IR_GRAPH_REDUCE || op->opcode == IR_GRAPH_CONTRACT;
        if (op->opcode == IR_GRAPH_CONTRACT) contraction = op;
        all &= uses_all(op);
    }
    const Artifact *a = plan->a;
    double read = 0;
    for (size_t i = 0; i < a->param_count; i++) {
        if (a->params[i].kind != ARTIFACT_TENSOR || !(a->params[i].direction & ARTIFACT_IN)) continue;
        all &= is_drawn(task->data, task_graph_name(&a->params[i]));
        read += (double)binding_element_bytes(b, i);
    }
    if (!all || folds > 1) return;
    w->read = read;
    if (contraction) find_products(task, contraction, w);
}

NecessaryWork possible_work(const TaskPlan *plan, const Task *task, const Binding *b) {
    NecessaryWork w = {0};
    const Artifact *a = plan->a;
    for (size_t i = 0; i < a->param_count; i++)
        if (a->params[i].kind == ARTIFACT_TENSOR && (a->params[i].direction & ARTIFACT_OUT))
            w.written += (double)binding_element_bytes(b, i);
    if (plan->graph) find_terms(plan, task, b, &w);
    return w;
}

/* ---- What can be done ---- */

/* Two stores and two products of 64 bytes a clock, of each core. */
static Peaks processor_peaks(const Device *d, unsigned factor_bytes) {
    double clocks = (double)(d->num_cores > 0 ? d->num_cores : 1) * 6 * GIGA;
    return (Peaks){.bytes = clocks * 128, .products = clocks * 128 / (factor_bytes ? factor_bytes : 1)};
}

static bool is_described(const Device *d, const RtOptions *o) {
    return o->peak_arch && strncmp(d->arch, o->peak_arch, strlen(d->arch)) == 0;
}

Peaks possible_peaks(const Device *d, const RtOptions *o, const RtCeilings *measured, double copy_gb_per_s, unsigned factor_bytes) {
    if (strncmp(d->arch, "sm_", 3) != 0) return processor_peaks(d, factor_bytes);
    double most = fmax(fmax(measured->copy_gb_per_s, measured->read_gb_per_s), fmax(measured->fill_gb_per_s, copy_gb_per_s));
    Peaks p = {.bytes = most * GIGA, .cache = (double)(256 << 20)};
    if (!is_described(d, o)) return p;
    p.bytes = fmax(p.bytes, o->peak_gb_per_s * GIGA);
    p.cache = o->peak_cache_bytes;
    p.products = o->peak_products_sm * (double)d->num_sms * (factor_bytes == 1 ? 2 : 1);
    return p;
}

RtError possible_check(const NecessaryWork *w, const Peaks *p, bool warm, double seconds) {
    double kept = fmax(w->written - p->cache, 0), bytes = warm ? fmax(w->written + w->read - p->cache, 0) : w->read + kept;
    if (p->bytes > 0 && seconds * POSSIBLE_MARGIN * p->bytes < bytes)
        return rt_error(RT_IMPOSSIBLE_TIME, "%.3g bytes have to move, which in %.3g us is %.3g GB/s; the machine moves at most %.4g GB/s",
                        bytes, seconds * 1e6, bytes / seconds / GIGA, p->bytes / GIGA);
    if (p->products > 0 && seconds * POSSIBLE_MARGIN * p->products < w->products)
        return rt_error(RT_IMPOSSIBLE_TIME,
                        "%.3g products have to be added, which in %.3g us is %.3g TFLOP/s; the machine makes at most %.4g TFLOP/s",
                        w->products, seconds * 1e6, 2e-12 * w->products / seconds, 2e-12 * p->products);
    return rt_ok();
}
