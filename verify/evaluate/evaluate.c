#include "evaluate_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void read_memory(const Node *node, size_t count, const int64_t *flat, Lanes *out) {
    const unsigned char *data = node->input->data;
    Dtype dtype = node->shape.dtype;
    size_t size = dtype_size(dtype);
    if (dtype == DTYPE_F32) {
        const float *floats = node->input->data;
        for (size_t l = 0; l < count; l++) out->v[l] = floats[flat[l]];
    } else if (node->is_real) {
        for (size_t l = 0; l < count; l++) out->v[l] = dtype_read(dtype, data + (size_t)flat[l] * size);
    } else {
        for (size_t l = 0; l < count; l++) out->i[l] = dtype_read_int(dtype, data + (size_t)flat[l] * size);
    }
}

static Lanes *evaluate_input(Frame *frame, const Node *node) {
    int64_t *flat = stack_alloc(frame->run, LANES * sizeof *flat);
    Lanes *out = lanes_create(frame->run, frame->count);
    out->certain = true;
    frame_flatten(frame, &node->shape, flat);
    if (node->input->data) {
        read_memory(node, frame->count, flat, out);
    } else if (node->is_real) {
        input_values(node->input->spec, frame->count, flat, out->v);
    } else {
        for (size_t l = 0; l < frame->count; l++) out->i[l] = input_value_int(node->input->spec, flat[l]);
    }
    return out;
}

static Lanes *evaluate_splat(Frame *frame, const Node *node) {
    Lanes *out = lanes_create(frame->run, frame->count);
    out->certain = true;
    if (node->kind == NODE_INDEX) memcpy(out->i, frame->index[node->axis], frame->count * sizeof *out->i);
    for (size_t l = 0; l < frame->count && node->kind != NODE_INDEX; l++) {
        if (node->is_real)
            out->v[l] = node->value;
        else
            out->i[l] = node->integer;
    }
    return out;
}

static Lanes *evaluate_iota(Frame *frame, const Node *node) {
    Lanes *out = lanes_create(frame->run, frame->count);
    out->certain = true;
    for (size_t l = 0; l < frame->count; l++) {
        int64_t at = frame->index[node->axis][l];
        if (node->is_real)
            out->v[l] = dtype_round(node->shape.dtype, (double)at);
        else
            out->i[l] = scalar_wrap(node->shape.dtype, at);
    }
    return out;
}

static Lanes *evaluate_random(Frame *frame, const Node *node) {
    const Lanes *seed = evaluate_node(frame, node->operands[0]);
    const Lanes *offset = evaluate_node(frame, node->operands[1]);
    int64_t *flat = stack_alloc(frame->run, LANES * sizeof *flat);
    Lanes *out = lanes_create(frame->run, frame->count);
    frame_flatten(frame, &node->shape, flat);
    for (size_t l = 0; l < frame->count; l++) {
        int64_t at = (int64_t)((uint64_t)offset->i[l] + (uint64_t)flat[l]);
        out->v[l] = random_uniform(node->shape.dtype, seed->i[l], at);
    }
    return out;
}

static Lanes *evaluate_lanewise(Frame *frame, const Node *node) {
    const Lanes *operands[3] = {NULL, NULL, NULL};
    for (unsigned i = 0; i < node->operand_count; i++) operands[i] = evaluate_node(frame, node->operands[i]);
    Lanes *out = lanes_create(frame->run, frame->count);
    lanes_compute(frame->run->ev, node, operands, frame->count, out);
    groups_judge(frame->run, node, operands, frame->count, out);
    return out;
}

const Lanes *evaluate_node(Frame *frame, const Node *node) {
    if (frame->done[node->id]) return frame->done[node->id];
    const Lanes *out = NULL;
    switch (node->kind) {
    case NODE_SPLAT:
    case NODE_INDEX:
        out = evaluate_splat(frame, node);
        break;
    case NODE_INPUT:
        out = evaluate_input(frame, node);
        break;
    case NODE_LANEWISE:
        out = evaluate_lanewise(frame, node);
        break;
    case NODE_MOVE:
        out = evaluate_move(frame, node);
        break;
    case NODE_RESHAPE:
        out = evaluate_reshape(frame, node);
        break;
    case NODE_FLIP:
        out = evaluate_flip(frame, node);
        break;
    case NODE_CONCAT:
        out = evaluate_concat(frame, node);
        break;
    case NODE_IOTA:
        out = evaluate_iota(frame, node);
        break;
    case NODE_RANDOM:
        out = evaluate_random(frame, node);
        break;
    case NODE_SCAN:
        out = evaluate_scan(frame, node);
        break;
    case NODE_SORT:
        out = evaluate_sort(frame, node);
        break;
    case NODE_ELEMENT:
        out = evaluate_element(frame, node);
        break;
    case NODE_REDUCE:
        out = evaluate_reduction(frame, node);
        break;
    case NODE_BODY:
        out = evaluate_node(frame, node->operands[0]);
        break;
    }
    frame->done[node->id] = (Lanes *)(uintptr_t)out;
    return out;
}

/* ---- Runs ---- */

Evaluator *evaluator_create(Arena *arena, const IrFunc *f, const EvalBinding *binding, const char **error) {
    Evaluator *ev = evaluator_build(arena, f, binding, error);
    if (ev) evaluator_identify(ev, f);
    if (!ev || !binding->trial) return ev;
    EvalBinding *ordinary = ARENA_NEW(arena, EvalBinding);
    *ordinary = *binding;
    ordinary->exact = ordinary->trial = false;
    ev->ordinary = evaluator_build(arena, f, ordinary, error);
    return ev->ordinary ? ev : NULL;
}

unsigned evaluator_output_count(const Evaluator *ev) {
    return ev->output_count;
}

bool evaluator_sums(const Evaluator *ev) {
    return ev->sums;
}

bool evaluator_is_mean(const Evaluator *ev, unsigned output) {
    const Node *node = ev->outputs[output];
    while (node->kind == NODE_MOVE || node->kind == NODE_RESHAPE || (node->kind == NODE_LANEWISE && node->opcode == IR_CAST))
        node = node->operands[0];
    return node->kind == NODE_REDUCE && node->reduce == REDUCE_MEAN;
}

double evaluator_longest_sum(const Evaluator *ev) {
    return ev->longest;
}

bool eval_run_is_beyond(const EvalRun *run) {
    return run->beyond;
}

const Shape *evaluator_output(const Evaluator *ev, unsigned output) {
    return &ev->output_shapes[output];
}

EvalRun *eval_run_create(const Evaluator *ev) {
    EvalRun *run = calloc(1, sizeof *run);
    if (!run) return NULL;
    run->ev = ev;
    run->memos = calloc(ev->node_count + 1, sizeof *run->memos);
    run->caches = calloc(ev->node_count + 1, sizeof *run->caches);
    if (run->memos && run->caches) return run;
    free(run->memos);
    free(run->caches);
    free(run);
    return NULL;
}

void eval_run_destroy(EvalRun *run) {
    if (!run) return;
    for (unsigned i = 0; i < run->ev->node_count; i++) free(run->memos[i].entries);
    free(run->memos);
    eval_run_destroy(run->ordinary);
    row_caches_destroy(run);
    stack_destroy(run);
    free(run);
}

static void store_real(const Evaluator *ev, const Node *node, double v, double e, double *value, double *bound) {
    Dtype dtype = node->shape.dtype;
    double u = dtype_unit_roundoff(dtype), largest = dtype_max(dtype);
    bool stored = u <= node->unit || node->kind == NODE_INPUT || node->kind == NODE_SPLAT;
    /* What rounds to the largest number still is one; just half of its last place above it goes either way. What is stored already was
     * judged so. */
    double reach = stored ? fabs(v) : fabs(v) + e;
    bool over = isfinite(v) && reach - largest >= ldexp(u, ilogb(largest));
    if (e == 0 && (ev->exact || !isfinite(dtype_round(dtype, v))))
        v = dtype_round(dtype, v), over = false;
    else if (!stored && isfinite(v))
        e += BOUND_SLACK * u * fabs(v) + dtype_min_normal(dtype) * u;
    if (over) {
        bool certain = fabs(v) - e - largest > ldexp(u, ilogb(largest));
        if (certain) v = dtype_round(dtype, copysign(INFINITY, v));
        e = certain ? 0 : e == 0 ? 0 : INFINITY;
        if (!certain && e == 0) v = dtype_round(dtype, v);
    }
    *value = isinf(v) ? dtype_round(dtype, v) : v; /* f8e4m3 has none */
    *bound = e;
}

static uint8_t way_of(const Lanes *lanes, size_t l, bool undecided, double bound) {
    if (!undecided || bound == INFINITY || !(lanes->tie[l] & LANE_STEP)) return EVAL_EITHER;
    if (bound != lanes->e[l]) return EVAL_STEP; /* rounded once more */
    return lanes->tie[l] & LANE_UP ? EVAL_STEP_UP : lanes->tie[l] & LANE_DOWN ? EVAL_STEP_DOWN : EVAL_STEP;
}

/* False when an element hangs on a read outside of a tensor. */
static bool store_results(const EvalRun *run, const Node *node, const Lanes *lanes, size_t count, size_t at, EvalResult *result) {
    bool inside = true;
    for (size_t l = 0; l < count; l++) {
        if (node->is_real) {
            store_real(run->ev, node, lanes->v[l], lanes->e[l], &result->value[at + l], &result->bound[at + l]);
            if (isnan(lanes->v[l]) && (lanes->tie[l] & LANE_OVER)) result->bound[at + l] = INFINITY;
        } else {
            result->integer[at + l] = lanes->i[l];
            bool two = node->shape.dtype == DTYPE_BOOL; /* either outcome is all there is */
            result->bound[at + l] = lanes->e[l] > 0 && (two || !(lanes->tie[l] & LANE_STEP)) ? INFINITY : lanes->e[l];
        }
        bool undecided = (lanes->tie[l] & LANE_TIE) || result->bound[at + l] == INFINITY;
        result->undecided[at + l] = undecided;
        if (result->way) result->way[at + l] = way_of(lanes, l, undecided, result->bound[at + l]);
        inside &= !(lanes->tie[l] & LANE_OUTSIDE);
    }
    return inside;
}

/* Where a trial has no exact result the ordinary bounds are all that can be asked for, but of a mean of whole numbers. */
static void judge_ordinarily(EvalRun *run, unsigned output, size_t lanes, size_t at, const int64_t *flat, EvalResult *result) {
    int64_t which[LANES], integer[LANES];
    size_t places[LANES], n = 0;
    double value[LANES], bound[LANES];
    bool undecided[LANES];
    uint8_t way[LANES];
    EvalResult own = {value, integer, bound, undecided, way};
    for (size_t l = 0; l < lanes; l++)
        if (result->bound[at + l] != 0 || result->undecided[at + l]) places[n] = at + l, which[n++] = flat[at + l];
    if (n && !run->ordinary) run->ordinary = eval_run_create(run->ev->ordinary);
    if (!n || !run->ordinary) return; /* the tighter bounds stay */
    eval_elements(run->ordinary, output, n, which, &own);
    bool mean = evaluator_is_mean(run->ev, output);
    for (size_t k = 0; k < n; k++) {
        if (mean && result->bound[places[k]] < bound[k]) continue;
        if (run->ev->outputs[output]->is_real)
            result->value[places[k]] = value[k]; /* NOLINT(*uninitialized.Assign): eval_run has set it */
        else
            result->integer[places[k]] = integer[k];
        result->bound[places[k]] = bound[k];
        result->undecided[places[k]] = undecided[k];
        if (result->way) result->way[places[k]] = way[k];
    }
}

bool eval_elements(EvalRun *run, unsigned output, size_t count, const int64_t *flat, EvalResult *result) {
    const Node *node = run->ev->outputs[output];
    bool inside = true;
    for (size_t at = 0; at < count; at += LANES) {
        size_t lanes = count - at < LANES ? count - at : LANES;
        StackMark mark = stack_mark(run);
        int64_t *index[VERIFY_MAX_RANK];
        Frame *frame = frame_create(run, lanes);
        index_arrays(run, node->shape.rank, index);
        shape_unflatten(&node->shape, flat + at, lanes, index);
        for (unsigned d = 0; d < node->shape.rank; d++) frame->index[d] = index[d];
        inside &= store_results(run, node, evaluate_node(frame, node), lanes, at, result);
        stack_release(run, mark);
        if (run->ev->ordinary) judge_ordinarily(run, output, lanes, at, flat, result);
    }
    return inside;
}

bool eval_run(EvalRun *run, unsigned output, size_t count, const int64_t *flat, EvalResult *result) {
    return (run->ev->recorded ? eval_recorded : eval_elements)(run, output, count, flat, result);
}
