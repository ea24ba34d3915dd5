/* Windows in shared memory, for stencil_reuse: what the threads of a block read of a tensor, each of them a little
 * beside the others, is one box of it. The block loads the box once, in pieces of 16 bytes where alignment allows, and
 * its threads read it there.
 *
 * A thread's offset is linear in the window's loop indices and in the bits of lane and warp. Indices and bits whose strides are
 * multiples of one step form one axis of the box, if that axis has fewer elements than the product of their extents.
 *
 * Lines that begin anywhere: window_misaligned.c. */
#include "window_stage.h"

/* ---- Threads ---- */

typedef struct {
    const WindowStage *s;
    int64_t lane, warp;
    bool foreign; /* something that differs between threads is neither */
} Thread;

static const Aff *thread_leaf(void *ctx, const Aff *leaf) {
    Thread *t = ctx;
    if (leaf->kind != AFF_VAR) return NULL;
    IrValue *v = (IrValue *)leaf->var;
    const IrOp *def = v->def;
    IrSpecial special = def ? ir_op_special(def) : IR_SPECIAL_NONE;
    if (special == IR_SPECIAL_LANE) return aff_const(t->s->w.m->affs, t->lane);
    if (special == IR_SPECIAL_WARP) return aff_const(t->s->w.m->affs, t->warp);
    t->foreign = t->foreign || ir_uniformity(v) > IR_UNIFORM_BLOCK;
    return NULL;
}

const Aff *window_at_thread(WindowStage *s, const Aff *e, int64_t lane, int64_t warp) {
    Thread t = {s, lane, warp, false};
    e = aff_substitute(s->w.m->affs, e, thread_leaf, &t);
    return t.foreign || e->kind == AFF_OVERFLOW ? NULL : e;
}

/* e = *base + sum of slope * bit; false where it is no such sum for every thread. */
static bool over_threads(WindowStage *s, const Aff *e, const Aff **base, const Aff **slopes) {
    AffCtx *c = s->w.m->affs;
    int64_t warps = (int64_t)1 << s->warp_bits;
    *base = window_at_thread(s, e, 0, 0);
    for (unsigned i = 0; *base && i < LANE_BITS + s->warp_bits; i++) {
        bool lane = i < LANE_BITS;
        const Aff *moved = window_at_thread(s, e, lane ? 1 << i : 0, lane ? 0 : 1 << (i - LANE_BITS));
        if (!moved) return false;
        slopes[i] = aff_sub(c, moved, *base);
    }
    for (int64_t thread = 0; *base && thread < 32 * warps; thread++) {
        if (thread % 32 != 0 && thread >= 32 && thread < 32 * (warps - 1)) continue; /* lanes: of the first and last warp */
        const Aff *sum = *base;
        for (unsigned i = 0; i < LANE_BITS + s->warp_bits; i++)
            if (thread >> i & 1) sum = aff_add(c, sum, slopes[i]); /* NOLINT(*CallAndMessage): set above */
        if (window_at_thread(s, e, thread % 32, thread / 32) != sum) return false;
    }
    return *base;
}

/* ---- The box ---- */

static int64_t lowest(const Member *m) {
    return m->scale < 0 ? m->scale * (m->count - 1) : 0;
}

static int64_t span_of(int64_t scale, int64_t count) {
    return (scale < 0 ? -scale : scale) * (count - 1);
}

/* The member moves along the axis, whose step may become a part of itself. */
static bool join(WindowStage *s, Member *m, int axis) {
    Axis *a = &s->axes[axis];
    int64_t p, q;
    const Aff *step;
    if (!window_common_step(s->w.m->affs, m->stride, a->step, &p, &q, &step)) return false;
    int64_t extent = (a->extent - 1) * q + span_of(p, m->count) + 1;
    if (extent > a->extent * m->count) return false;
    for (unsigned i = 0; i < s->w.atom_count; i++)
        if (a->slope[i] % q != 0 || m->slope[i] % p != 0 || a->slope[i] / q != m->slope[i] / p) return false;
    for (unsigned i = 0; i < s->w.atom_count; i++) a->slope[i] /= q;
    for (unsigned i = 0; i < s->member_count; i++)
        if (s->members[i].axis == axis) s->members[i].scale *= q;
    a->step = step, a->extent = extent;
    m->axis = axis, m->scale = p;
    return true;
}

static bool found_axis(WindowStage *s, Member *m) {
    int64_t stride;
    if (s->axis_count == MAX_AXES) return false;
    Axis *a = &s->axes[s->axis_count];
    m->scale = aff_is_const(m->stride, &stride) && stride < 0 ? -1 : 1;
    *a = (Axis){.step = aff_mul(s->w.m->affs, m->stride, aff_const(s->w.m->affs, m->scale)), .extent = m->count};
    for (unsigned i = 0; i < s->w.atom_count; i++) a->slope[i] = m->slope[i] * m->scale;
    m->axis = (int)s->axis_count++;
    return true;
}

static bool is_still(const WindowStage *s, const Member *m) {
    bool still = m->stride == aff_const(s->w.m->affs, 0);
    for (unsigned i = 0; i < s->w.atom_count; i++) still = still && !m->slope[i];
    return still || m->count == 1;
}

/* Do the lanes of a warp read the same elements? One access brings them from wherever they are. */
static bool is_alike_in_lanes(const WindowStage *s) {
    for (unsigned i = 0; i < LANE_BITS; i++)
        if (!is_still(s, &s->members[s->w.var_count + i])) return false;
    return true;
}

static int64_t constant_stride(const Member *m) {
    int64_t stride;
    if (!aff_is_const(m->stride, &stride)) return INT64_MAX;
    return stride < 0 ? -stride : stride;
}

/* Threads' bits and the map's indices before the loops', small strides first: what lies side by side makes long axes,
 * along which the loops then walk. */
static bool comes_before(const WindowStage *s, unsigned i, unsigned k) {
    bool loop_i = i >= s->w.map_rank && i < s->w.var_count, loop_k = k >= s->w.map_rank && k < s->w.var_count;
    return loop_i != loop_k ? loop_k : constant_stride(&s->members[i]) < constant_stride(&s->members[k]);
}

static bool find_axes(WindowStage *s) {
    bool done[MAX_MEMBERS] = {false};
    for (unsigned n = 0; n < s->member_count; n++) {
        unsigned next = MAX_MEMBERS;
        for (unsigned i = 0; i < s->member_count; i++)
            if (!done[i] && (next == MAX_MEMBERS || comes_before(s, i, next))) next = i;
        Member *m = &s->members[next];
        done[next] = true;
        if (is_still(s, m)) continue;
        for (unsigned a = 0; a < s->axis_count && m->axis < 0; a++) join(s, m, (int)a);
        if (m->axis < 0 && !found_axis(s, m)) return false;
    }
    for (unsigned i = 0; i < s->member_count; i++)
        if (s->members[i].axis >= 0) s->axes[s->members[i].axis].start -= lowest(&s->members[i]);
    return true;
}

/* The axis of neighbours in memory becomes the first; where every second or third element is read, these alone. */
static bool put_contiguous_first(WindowStage *s) {
    int best = -1;
    int64_t least = MAX_STEP + 1;
    for (unsigned a = 0; a < s->axis_count; a++) {
        int64_t step;
        if (!aff_is_const(s->axes[a].step, &step) || step < 1 || step > least) continue;
        if (step < least || (best >= 0 && step <= MAX_STEP && s->axes[a].extent > s->axes[best].extent)) best = (int)a, least = step;
    }
    if (best < 0) return false;
    Axis first = s->axes[best];
    s->axes[best] = s->axes[0];
    s->axes[0] = first;
    for (unsigned i = 0; i < s->member_count; i++) {
        Member *m = &s->members[i];
        if (m->axis == best)
            m->axis = 0;
        else if (m->axis == 0)
            m->axis = best;
    }
    return true;
}

static bool add_members(WindowStage *s) {
    const Window *w = &s->w;
    const Aff *slopes[LANE_BITS + WARP_BITS];
    unsigned bits = LANE_BITS + s->warp_bits;
    if (!over_threads(s, w->base, &s->base, slopes)) return false;
    s->member_count = w->var_count + bits;
    for (unsigned i = 0; i < w->var_count; i++)
        s->members[i] = (Member){.stride = w->vars[i].stride, .count = w->vars[i].count, .axis = -1};
    for (unsigned i = 0; i < bits; i++) s->members[w->var_count + i] = (Member){.stride = slopes[i], .count = 2, .axis = -1};
    for (unsigned a = 0; a < w->atom_count; a++) {
        const WindowAtom *atom = &w->atoms[a];
        if (atom->other ? ir_uniformity(atom->other) > IR_UNIFORM_BLOCK : !over_threads(s, atom->fixed, &s->fixed[a], slopes)) return false;
        for (unsigned i = 0; i < w->var_count; i++) s->members[i].slope[a] = atom->slope[i];
        for (unsigned i = 0; !atom->other && i < bits; i++)
            if (!aff_is_const(slopes[i], &s->members[w->var_count + i].slope[a])) return false;
    }
    return true;
}

/* From all numbers 0 to all indices 0. */
static void to_corner(WindowStage *s) {
    AffCtx *c = s->w.m->affs;
    for (unsigned i = 0; i < s->axis_count; i++) {
        const Axis *x = &s->axes[i];
        s->base = aff_sub(c, s->base, aff_mul(c, x->step, aff_const(c, x->start)));
        for (unsigned a = 0; a < s->w.atom_count; a++)
            if (s->fixed[a]) s->fixed[a] = aff_sub(c, s->fixed[a], aff_const(c, x->slope[a] * x->start));
    }
}

/* ---- Pieces ---- */

/* Are the conditions the same for all elements of a piece? */
static bool alike(const WindowStage *s, AffFacts *facts, int64_t piece, int64_t shift) {
    AffCtx *c = s->w.m->affs;
    for (unsigned a = 0; a < s->w.atom_count; a++) {
        int64_t slope = s->axes[0].slope[a];
        if (!slope) continue;
        for (unsigned i = 1; i < s->axis_count; i++)
            if (s->axes[i].slope[a] % piece != 0) return false;
        const Aff *first = aff_sub(c, s->fixed[a], aff_const(c, slope * shift));
        if (slope < 0) first = aff_add(c, first, aff_const(c, 1));
        if ((slope != 1 && slope != -1) || !is_multiple(facts, first, piece)) return false;
    }
    return true;
}

static bool fits_piece(WindowStage *s, AffFacts *facts, int64_t piece) {
    AffCtx *c = s->w.m->affs;
    for (unsigned i = 1; i < s->axis_count; i++)
        if (!is_multiple(facts, s->axes[i].step, piece)) return false;
    for (s->shift = 0; s->shift < piece; s->shift++)
        if (is_multiple(facts, aff_sub(c, s->base, aff_const(c, s->shift)), piece)) return alike(s, facts, piece, s->shift);
    return false;
}

bool window_stage_is_async(const WindowStage *s) {
    return s->piece * element_size(s) >= 4;
}

static void set_pitches(WindowStage *s, int64_t row) {
    s->axes[0].pitch = 1;
    for (unsigned i = 1; i < s->axis_count; i++) s->axes[i].pitch = row, row *= s->axes[i].extent;
}

/* The most words that lanes of a warp read in one bank at a time. */
static int64_t bank_conflicts(const WindowStage *s) {
    int64_t words[32], most = 0;
    for (unsigned lane = 0; lane < 32; lane++) {
        int64_t at = 0, count = 1;
        for (unsigned i = 0; i < LANE_BITS; i++) {
            const Member *m = &s->members[s->w.var_count + i];
            if (lane >> i & 1 && m->axis >= 0) at += m->scale * s->axes[m->axis].pitch;
        }
        words[lane] = at * element_size(s) / 4;
        for (unsigned k = 0; k < lane; k++) count += words[k] != words[lane] && (words[k] - words[lane]) % 32 == 0;
        most = count > most ? count : most;
    }
    return most;
}

/* Where lanes read several rows, these are so far apart that they lie in different banks, by at most a quarter more. */
static void choose_pitch(WindowStage *s) {
    int64_t row = s->pieces * s->piece, best = row, least = INT64_MAX;
    for (int64_t pitch = row; s->axis_count > 1 && pitch <= row + row / 4; pitch += s->piece) {
        set_pitches(s, pitch);
        int64_t conflicts = bank_conflicts(s);
        if (conflicts < least) best = pitch, least = conflicts;
    }
    set_pitches(s, best);
}

static void choose_piece(WindowStage *s) {
    const IrFunc *f = s->w.outermost->block->func;
    AffFacts *facts = ir_facts_at(s->w.ctx->scratch, s->w.outermost);
    const IrOp *other = s->w.load->operand_count > 3 ? s->w.load->operands[3]->def : NULL;
    s->piece = ir_func_int(f, IR_FN_POINTER_ALIGN, 1) / element_size(s);
    bool constant = s->w.load->operand_count <= 3 || (other && other->opcode == IR_CONST);
    if (!constant) s->piece = 1;
    if (s->axes[0].step != aff_const(s->w.m->affs, 1)) s->piece = 1;
    while (s->piece > 1 && !fits_piece(s, facts, s->piece)) s->piece /= 2;
    if (!window_stage_is_async(s)) s->piece = 1; /* too narrow for cp.async: element by element */
    if (s->piece <= 1) s->piece = 1, s->shift = 0;
    s->misaligned = s->piece == 1 && constant && window_may_be_misaligned(s, facts);
    if (s->misaligned) s->piece = PIECE_ELEMENTS;
    s->pieces = (s->axes[0].extent + (s->misaligned ? PIECE_ELEMENTS - 1 : s->shift) + s->piece - 1) / s->piece;
    choose_pitch(s);
}

static int64_t boxes_of(const WindowStage *s, Deal d) {
    int64_t n = d.steps_across * d.steps_down;
    for (unsigned i = 1; i < s->axis_count; i++) n *= i == d.rows ? 1 : s->axes[i].extent;
    return n;
}

Deal window_stage_deal_of(const WindowStage *s) {
    Deal best = {0}, d = {0};
    for (unsigned i = 1; i < s->axis_count; i++)
        if (!d.rows || s->axes[i].extent > s->axes[d.rows].extent) d.rows = i;
    int64_t threads = (int64_t)32 << s->warp_bits, rows = d.rows ? s->axes[d.rows].extent : 1;
    for (int64_t across = 2 * threads; across >= 8; across /= 2) {
        d.across = across > threads ? s->pieces : across;
        if (d.across > threads) continue;
        d.down = d.rows ? threads / d.across : 1;
        d.steps_across = (s->pieces + d.across - 1) / d.across;
        d.steps_down = (rows + d.down - 1) / d.down;
        if (!best.across || boxes_of(s, d) < boxes_of(s, best)) best = d;
    }
    return best;
}

int64_t window_stage_box_elements(const WindowStage *s) {
    const Axis *last = &s->axes[s->axis_count - 1];
    return s->axis_count == 1 ? s->pieces * s->piece : last->pitch * last->extent;
}

/* ---- Whether ---- */

WindowStage window_stage_elements_of(const WindowStage *s) {
    WindowStage alone = *s;
    alone.piece = 1;
    alone.pieces = s->axes[0].extent;
    return alone;
}

bool window_stage_has_lines(const WindowStage *s) {
    unsigned last = s->w.var_count - 1;
    const Member *lines = &s->members[last];
    bool alone = !s->w.vars[last].value && lines->axis > 0 && lines->scale == 1;
    for (unsigned i = 0; i < s->member_count; i++) alone = alone && (i == last || s->members[i].axis != lines->axis);
    return alone;
}

static IrValue *special(const IrFunc *f, IrSpecial which) {
    for (IrOp *op = f->body->first; op; op = op->next)
        if (ir_op_special(op) == which) return ir_result(op, 0);
    return NULL;
}

/* Do all threads of the block come here together? */
static bool is_together(const IrOp *op) {
    for (op = op->block->parent; op; op = op->block->parent)
        for (unsigned i = 0; i < op->operand_count && i < (op->opcode == IR_IF ? 1 : 3); i++)
            if (ir_uniformity(op->operands[i]) > IR_UNIFORM_BLOCK) return false;
    return true;
}

int64_t window_stage_place_of(const WindowMemory *memory, IrFunc *f) {
    return memory->bytes ? memory->offset : whole_lines(ir_func_int(f, IR_FN_SHARED_BYTES, 0));
}

static bool has_room(const WindowStage *s, IrFunc *f, int64_t bytes) {
    return window_stage_place_of(s->memory, f) + whole_lines(bytes) <= s->w.ctx->target->shared_bytes_block;
}

/* Has a thread results of less than a word side by side (assign_layouts: a window slides), so that lanes of an access to the tensor itself
 * would lie apart? */
static bool has_neighbours(const WindowStage *s) {
    int64_t stride;
    for (unsigned i = 0; i < s->w.map_rank && element_size(s) < BANK_BYTES; i++)
        if (s->w.vars[i].count > 1 && aff_is_const(s->w.vars[i].stride, &stride) && stride == 1) return true;
    return false;
}

WindowStage *window_stage_plan(const Window *w, int64_t each, WindowMemory *memory) {
    IrFunc *f = w->outermost->block->func;
    int64_t warps = ir_func_int(f, IR_FN_NUM_WARPS, 0);
    if (warps < 1 || warps > 1 << WARP_BITS || warps & (warps - 1) || ir_func_cluster(f) > 1 || !is_together(w->outermost)) return NULL;
    WindowStage *s = ARENA_NEW(w->ctx->scratch, WindowStage);
    *s = (WindowStage){.w = *w, .lane = special(f, IR_SPECIAL_LANE), .warp = special(f, IR_SPECIAL_WARP), .memory = memory};
    while (1 << s->warp_bits < warps) s->warp_bits++;
    if (!s->lane || (s->warp_bits && !s->warp) || !add_members(s) || !find_axes(s) || !put_contiguous_first(s)) return NULL;
    if (is_alike_in_lanes(s)) return NULL;
    to_corner(s);
    choose_piece(s);
    int64_t elements = window_stage_box_elements(s), bytes = elements * element_size(s);
    bool often = each * 32 * warps >= (has_neighbours(s) ? 1 : OFTEN) * elements || s->memory->ahead;
    WindowStage alone = s->misaligned && !s->memory->ahead ? window_stage_elements_of(s) : *s; /* of the most pieces */
    return often && bytes <= MAX_BYTES && has_room(s, f, bytes) && boxes_of(&alone, window_stage_deal_of(&alone)) <= MAX_PIECES ? s : NULL;
}
