/* Nodes that read their operand at other indices. */
#include "evaluate_internal.h"

#include <math.h>
#include <string.h>

void frame_flatten(const Frame *frame, const Shape *shape, int64_t *flat) {
    memset(flat, 0, frame->count * sizeof *flat);
    for (unsigned d = 0; d < shape->rank; d++)
        for (size_t l = 0; l < frame->count; l++) flat[l] = flat[l] * shape->extents[d] + frame->index[d][l];
}

/* Lanes are one behind the other mostly, or all the same: counted on from the lane before, without a division. */
void shape_unflatten(const Shape *shape, const int64_t *flat, size_t count, int64_t **index) {
    for (size_t l = 0; l < count; l++) {
        int64_t rest = flat[l], step = l ? flat[l] - flat[l - 1] : -1;
        bool counts = step == 0 || step == 1;
        for (unsigned d = shape->rank; d-- > 0 && counts;) {
            int64_t next = index[d][l - 1] + step;
            step = next == shape->extents[d];
            index[d][l] = step ? 0 : next;
        }
        for (unsigned d = shape->rank; d-- > 0 && !counts; rest /= shape->extents[d]) index[d][l] = rest % shape->extents[d];
    }
}

void index_arrays(EvalRun *run, unsigned rank, int64_t **arrays) {
    for (unsigned d = 0; d < rank; d++) arrays[d] = stack_alloc(run, LANES * sizeof(int64_t));
}

const Lanes *evaluate_move(Frame *frame, const Node *node) {
    const Node *from = node->operands[0];
    Frame *inner = frame_create(frame->run, frame->count);
    int64_t *zeros = NULL;
    for (unsigned d = 0; d < from->shape.rank; d++) {
        if (node->map[0][d] >= 0) {
            inner->index[d] = frame->index[node->map[0][d]];
            continue;
        }
        if (!zeros) {
            zeros = stack_alloc(frame->run, LANES * sizeof *zeros);
            memset(zeros, 0, LANES * sizeof *zeros);
        }
        inner->index[d] = zeros;
    }
    return evaluate_node(inner, from);
}

const Lanes *evaluate_reshape(Frame *frame, const Node *node) {
    const Node *from = node->operands[0];
    Frame *inner = frame_create(frame->run, frame->count);
    int64_t *flat = stack_alloc(frame->run, LANES * sizeof *flat), *index[VERIFY_MAX_RANK];
    index_arrays(frame->run, from->shape.rank, index);
    frame_flatten(frame, &node->shape, flat);
    shape_unflatten(&from->shape, flat, frame->count, index);
    for (unsigned d = 0; d < from->shape.rank; d++) inner->index[d] = index[d];
    return evaluate_node(inner, from);
}

const Lanes *evaluate_flip(Frame *frame, const Node *node) {
    Frame *inner = frame_create(frame->run, frame->count);
    int64_t *mirrored = stack_alloc(frame->run, LANES * sizeof *mirrored);
    for (size_t l = 0; l < frame->count; l++) mirrored[l] = node->shape.extents[node->axis] - 1 - frame->index[node->axis][l];
    for (unsigned d = 0; d < node->shape.rank; d++) inner->index[d] = frame->index[d];
    inner->index[node->axis] = mirrored;
    return evaluate_node(inner, node->operands[0]);
}

/* The lanes of a frame that fall into one operand of a concat. */
static void concat_part(Frame *frame, const Node *node, const Node *part, int64_t begin, Lanes *out) {
    EvalRun *run = frame->run;
    size_t *lanes = stack_alloc(run, LANES * sizeof *lanes), count = 0;
    int64_t end = begin + part->shape.extents[node->axis], *index[VERIFY_MAX_RANK];
    for (size_t l = 0; l < frame->count; l++) {
        int64_t at = frame->index[node->axis][l];
        if (at >= begin && at < end) lanes[count++] = l;
    }
    if (!count) return;
    Frame *inner = frame_create(run, count);
    index_arrays(run, node->shape.rank, index);
    for (unsigned d = 0; d < node->shape.rank; d++) {
        for (size_t k = 0; k < count; k++) index[d][k] = frame->index[d][lanes[k]] - (d == node->axis ? begin : 0);
        inner->index[d] = index[d];
    }
    const Lanes *read = evaluate_node(inner, part);
    for (size_t k = 0; k < count; k++) {
        out->i[lanes[k]] = read->i[k]; /* the same bytes for floats */
        out->e[lanes[k]] = read->e[k];
        out->tie[lanes[k]] = read->tie[k];
    }
}

const Lanes *evaluate_concat(Frame *frame, const Node *node) {
    Lanes *out = lanes_create(frame->run, frame->count);
    int64_t begin = 0;
    for (unsigned i = 0; i < node->operand_count; i++) {
        concat_part(frame, node, node->operands[i], begin, out);
        begin += node->operands[i]->shape.extents[node->axis];
    }
    return out;
}

/* ---- Elements at computed indices ---- */

typedef struct {
    uint8_t outside[LANES], unsure[LANES], flags[LANES];
    bool certain, beyond; /* the indices all are; a lane is outside */
    bool none; /* an axis has no element: what is read is 0, as a gather's is, since no index could be another (argmax of none is -1) */
} Reach;

/* Lanes outside read element 0. */
static void element_indices(Frame *frame, const Node *node, Frame *inner, Reach *reach) {
    const Node *from = node->operands[0];
    int64_t *index[VERIFY_MAX_RANK];
    memset(reach, 0, sizeof *reach);
    reach->certain = true;
    index_arrays(frame->run, from->shape.rank, index);
    for (unsigned d = 0; d < from->shape.rank; d++) {
        const Lanes *at = evaluate_node(frame, node->operands[d + 1]);
        uint64_t extent = (uint64_t)from->shape.extents[d];
        reach->none |= extent == 0;
        for (size_t l = 0; l < frame->count; l++) {
            bool in = (uint64_t)at->i[l] < extent;
            index[d][l] = in ? at->i[l] : 0;
            reach->outside[l] |= !in;
            reach->beyond |= !in;
        }
        reach->certain &= at->certain;
        for (size_t l = 0; l < frame->count && !at->certain; l++) {
            reach->unsure[l] |= at->e[l] > 0;
            reach->flags[l] |= at->tie[l] & LANE_PAST;
        }
        inner->index[d] = index[d];
    }
}

const Lanes *evaluate_element(Frame *frame, const Node *node) {
    const Node *from = node->operands[0];
    Frame *inner = frame_create(frame->run, frame->count);
    Reach *reach = stack_alloc(frame->run, sizeof *reach);
    element_indices(frame, node, inner, reach);
    Lanes *out = lanes_create(frame->run, frame->count);
    const Lanes *read = from->shape.elements ? evaluate_node(inner, from) : out;
    out->walks = read->walks;
    out->certain = reach->certain && read->certain && (node->padded || reach->none || !reach->beyond);
    for (size_t l = 0; l < frame->count && out->certain && node->is_real; l++) out->v[l] = reach->outside[l] ? node->value : read->v[l];
    for (size_t l = 0; l < frame->count && out->certain && !node->is_real; l++) out->i[l] = reach->outside[l] ? node->integer : read->i[l];
    for (size_t l = 0; l < frame->count && !out->certain; l++) {
        bool outside = reach->outside[l], unsure = reach->unsure[l];
        if (node->is_real)
            out->v[l] = outside ? node->value : read->v[l];
        else
            out->i[l] = outside ? node->integer : read->i[l];
        out->e[l] = unsure ? INFINITY : outside ? 0 : read->e[l];
        unsigned flags = reach->flags[l] | (unsure ? LANE_TIE : 0) | (outside ? 0 : read->tie[l]);
        if (outside && !unsure && !node->padded && !reach->none) flags |= LANE_OUTSIDE;
        out->tie[l] = (uint8_t)flags;
    }
    return out;
}
