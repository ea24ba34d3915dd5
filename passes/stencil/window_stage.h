/* Shared by window_stage.c and window_misaligned.c: the box of what a block's threads read. */
#ifndef PASSES_STENCIL_WINDOW_STAGE_H
#define PASSES_STENCIL_WINDOW_STAGE_H

#include "gpu.h"
#include "window_internal.h"

enum {
    LANE_BITS = 5, /* of a thread's number in its warp */
    WARP_BITS = 5, /* of a warp's number in its block */
    MAX_MEMBERS = WINDOW_VARS + LANE_BITS + WARP_BITS,
    MAX_AXES = 4,         /* of the box */
    MAX_STEP = 3,         /* of its contiguous one: a sector has two elements of these */
    MAX_PIECES = 32,      /* that a thread loads */
    OFTEN = 3,            /* each element is loaded, where boxes are worth it */
    MAX_BYTES = 48 << 10, /* of the box: four on a multiprocessor */
    PIECE_ELEMENTS = 4    /* elements of a piece of a misaligned box */
};

/* A number of the window, or a bit of the thread's. */
typedef struct {
    const Aff *stride;
    int64_t count, scale, slope[WINDOW_ATOMS];
    int axis; /* -1: nothing changes with it */
} Member;

typedef struct {
    const Aff *step;
    int64_t extent, start, pitch; /* start: the index at all numbers 0 */
    int64_t slope[WINDOW_ATOMS];
} Axis;

struct WindowStage {
    Window w;
    IrValue *lane, *warp, *shared, *place; /* place: where in `shared` the box begins; null: in front */
    IrValue *lines;                        /* of the last variable so many are copied; null: all */
    unsigned warp_bits, member_count, axis_count;
    Member members[MAX_MEMBERS];           /* the window's variables, bits of lane, bits of warp */
    Axis axes[MAX_AXES];                   /* the contiguous one first */
    const Aff *base, *fixed[WINDOW_ATOMS]; /* of the element at index 0 everywhere */
    int64_t piece, shift, pieces;          /* elements of an access; in front of a row; accesses of a row */
    bool misaligned;                       /* shift is 0 */
    WindowMemory *memory;
};

static inline int64_t element_size(const WindowStage *s) {
    return (int64_t)dtype_size(s->w.load->results[0].type->dtype);
}

static inline bool is_multiple(AffFacts *facts, const Aff *e, int64_t n) {
    return aff_known_divisor(facts, e, n) % n == 0;
}

static inline IrValue *add(IrBuilder *b, IrValue *a, IrValue *c) {
    return a ? ir_binary(b, IR_ADD, a, c) : c;
}

static inline IrValue *times(IrBuilder *b, IrValue *a, int64_t k) {
    return ir_binary(b, IR_MUL, a, ir_const_index(b, k));
}

static inline IrValue *and_of(IrBuilder *b, IrValue *a, IrValue *c) {
    return a ? ir_binary(b, IR_AND, a, c) : c;
}

static inline IrValue *at_least_zero(IrBuilder *b, IrValue *v) {
    return ir_binary(b, IR_LE, ir_const_index(b, 0), v);
}

/* The expression, for that thread; null: something else differs between threads. */
const Aff *window_at_thread(WindowStage *s, const Aff *e, int64_t lane, int64_t warp);
/* Does what stands where the tensor ends have no bits? */
bool window_pads_zeros(const WindowStage *s);

/* ---- Misaligned boxes ---- */

/* May the lines be copied in the pieces that they lie in? */
bool window_may_be_misaligned(const WindowStage *s, AffFacts *facts);
/* Misaligned: the conditions on the line, and on the last element of the piece where it may lie in front of the line; *left: so many
 * of its elements, and of those that the misalignment moves in front of it, are not behind the line's end, null: all. index[0]: of the first one,
 * but for the misalignment. */
IrValue *window_misaligned_mask(const WindowStage *s, IrBuilder *outer, IrBuilder *b, IrValue *const *index, IrValue *misalignment,
                                IrValue **left);
/* Of a piece of a misaligned box. */
IrValue *window_misaligned_valid(const WindowStage *s, IrBuilder *b, IrValue *left, IrValue *misalignment);
/* Of reading a misaligned box: where the line of the fragment's index 0 lies in memory, which is less than a number of pieces off. */
IrValue *window_misaligned_line(WindowStage *s, IrBuilder *b, const Window *inner, IrValue *line, const int *along, const int64_t *weight);
/* The misalignment of the line that the fragment's indices lie in. along[a]: the axis of the box that a's are along. */
IrValue *window_misaligned_at(IrBuilder *outer, IrBuilder *b, const Window *inner, IrValue *first, IrValue *const *index, const int *along);
/* What a piece has in front of its line, or behind it where no zeros are asked for, was copied with it. */
IrValue *window_misaligned_columns(const WindowStage *s, IrBuilder *outer, IrBuilder *b, const Window *inner, IrValue *const *index);

/* ---- Shared by window_stage.c and window_stage_code.c ---- */

/* How the block's threads share a row's pieces and the rows along the longest axis; other axes are a thread's own. */
typedef struct {
    int64_t across, down, steps_across, steps_down;
    unsigned rows; /* the axis; 0: there is one row */
} Deal;

/* As many threads as a row has pieces, or a power of two of them: what leaves each the fewest. */
Deal window_stage_deal_of(const WindowStage *s);
/* Elements of one box, with what pads its rows. */
int64_t window_stage_box_elements(const WindowStage *s);
/* The same, copied element by element: at the edges of a tensor pieces of a misaligned box would have what is beside it. */
WindowStage window_stage_elements_of(const WindowStage *s);
/* Boxes of one kernel lie in one place, behind what else it has in shared memory. */
int64_t window_stage_place_of(const WindowMemory *memory, IrFunc *f);

#endif
