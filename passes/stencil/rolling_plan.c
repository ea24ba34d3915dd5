/* Which loops roll a window, for rolling_window: their groups, their lines, and where boxes lie. */
#include "gpu.h"
#include "rolling_internal.h"
#include "window_internal.h"

/* ---- Which ---- */

typedef struct {
    const RollingWindow *r;
    const Aff *to;
    bool foreign;
} Moved;

static const Aff *moved_leaf(void *ctx, const Aff *leaf) {
    Moved *t = ctx;
    if (leaf->kind != AFF_VAR) return NULL;
    if (leaf->var == t->r->loop->regions[0]->args[0]) return t->to;
    if (is_inside_op(home_of((const IrValue *)leaf->var), t->r->loop)) t->foreign = true;
    return NULL;
}

/* By how much e grows from one iteration to the next; null: that depends on something else of it. */
static const Aff *growth(const RollingWindow *r, const Aff *e) {
    AffCtx *c = r->m->affs;
    IrValue *z = r->loop->regions[0]->args[0];
    Moved t = {r, aff_add(c, aff_var(c, z, z->name), aff_const(c, 1)), false};
    const Aff *d = aff_sub(c, aff_substitute(c, e, moved_leaf, &t), e);
    return t.foreign || d->kind == AFF_OVERFLOW || aff_depends_on(d, z) ? NULL : d;
}

static bool is_plain_loop(IrModule *m, const IrOp *loop) {
    int64_t step;
    return loop && loop->opcode == IR_FOR && aff_is_const(ir_aff_of(m, loop->operands[2]), &step) && step == 1;
}

static bool finds_window(RollingWindow *r, IrOp *map) {
    IrOp *load = window_load_of(map);
    Window w;
    int64_t unrolled;
    r->by = NULL;
    for (unsigned depth = 2; load && depth <= WINDOW_LOOPS && window_find(r->ctx, map, load, depth, &w, &unrolled); depth++) {
        IrOp *by = window_combining(&w);
        if (by) r->w = w, r->by = by, r->unrolled = unrolled;
    }
    if (!r->by) return false;
    r->loop = r->w.outermost->block->parent;
    return is_plain_loop(r->m, r->loop) && r->w.outermost->block == r->loop->regions[0];
}

/* Of a thread. */
static int64_t results_of(const Window *w) {
    int64_t n = 1;
    for (unsigned i = 0; i < w->map_rank; i++) n *= w->vars[i].count;
    return n;
}

/* Does a thread read elements side by side? Boxes then are worth it even where no line is read twice. */
static bool reads_neighbours(const Window *w) {
    int64_t stride;
    for (unsigned i = w->map_rank; i + 1 < w->var_count; i++)
        if (aff_is_const(w->vars[i].stride, &stride) && stride != 0 && w->vars[i].count > 1) return true;
    return false;
}

static bool is_rolling(RollingWindow *r) {
    Window *w = &r->w;
    const WindowVar *line = &w->vars[w->var_count - 1];
    const Aff *stride = growth(r, w->base), *step;
    if (!stride || !window_common_step(r->m->affs, stride, line->stride, &r->forward, &r->later, &step) || r->forward < 1) return false;
    for (unsigned a = 0; a < w->atom_count; a++) {
        int64_t slope;
        if (w->atoms[a].other) {
            if (is_inside_op(home_of(w->atoms[a].other), r->loop)) return false;
            continue;
        }
        const Aff *d = growth(r, w->atoms[a].fixed);
        if (!d || !aff_is_const(d, &slope) || slope * r->later != w->atoms[a].slope[w->var_count - 1] * r->forward) return false;
    }
    r->lines = line->count;
    r->kept = r->lines > r->forward ? r->lines - r->forward : 0;
    r->fresh = r->lines - r->kept;
    if (r->kept * r->later > MAX_LINES || (!r->kept && !reads_neighbours(w))) return false;
    int64_t each = results_of(w);
    return r->kept * r->later * each <= MAX_CARRIED && each * (int64_t)dtype_size(r->by->results[0].type->dtype) <= MAX_CARRIED * 4;
}

bool rolling_is_scalar(const RollingWindow *r, const IrOp *op) {
    if (!ir_has_trait(op, IR_PURE) || op->region_count) return false;
    for (unsigned i = 0; i < op->operand_count; i++) {
        const IrValue *v = op->operands[i];
        if (v == r->loop->regions[0]->args[0] || !is_inside_op(home_of(v), r->loop)) continue;
        if (!v->def || v->def->block != op->block || !rolling_is_scalar(r, v->def)) return false;
    }
    return true;
}

/* Does an op in there use what is made in the iteration by more than index arithmetic? */
static bool uses_scalars(const RollingWindow *r, const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        for (unsigned i = 0; i < op->operand_count; i++) {
            const IrValue *v = op->operands[i];
            if (!v->def || v->def->block != r->loop->regions[0] || v->def == r->w.outermost) continue;
            if (!rolling_is_scalar(r, v->def)) return false;
        }
        for (unsigned i = 0; i < op->region_count; i++)
            if (!uses_scalars(r, op->regions[i])) return false;
    }
    return true;
}

static bool has_neutral(const IrOp *by) {
    Dtype type = by->results[0].type->dtype;
    return (by->opcode == IR_ADD || by->opcode == IR_MUL || by->opcode == IR_MAX || by->opcode == IR_MIN) &&
           (dtype_is_float(type) || dtype_is_signed(type)) && type != DTYPE_BOOL && by->results[0].type->width <= 1;
}

IrValue *rolling_neutral_of(IrBuilder *b, const IrOp *by) {
    const IrType *type = by->results[0].type;
    IrKind kind = by->opcode == IR_MUL   ? IR_KIND_MUL
                  : by->opcode == IR_MAX ? IR_KIND_MAX
                  : by->opcode == IR_MIN ? IR_KIND_MIN
                                         : IR_KIND_ADD;
    return ir_const_float(b, type, by->opcode == IR_ADD && dtype_is_float(type->dtype) ? -0.0 : reduce_identity(kind, type->dtype));
}

/* Do the new lines of successive iterations lie at one distance, and those in front of the loop at that distance, too? It is D where an
 * iteration moves by lines, else, where each has one new line, S. */
static bool is_even(const RollingWindow *r) {
    return r->later == 1 ? r->forward <= r->lines : r->forward == 1;
}

/* Gives the window an axis of the new lines of a group. */
static void add_group(const RollingWindow *r, Window *w, int64_t group) {
    unsigned i = w->var_count++;
    w->vars[i] = (WindowVar){.stride = r->later == 1 ? r->w.vars[i].stride : growth(r, r->w.base), .count = group * r->fresh, .axis = -1};
    for (unsigned a = 0; a < w->atom_count; a++) w->atoms[a].slope[i] /= r->later;
}

static bool plan_boxes(RollingWindow *r, const Window *line, int64_t group) {
    Window w = *line;
    WindowMemory *memory = ARENA_NEW(r->ctx->scratch, WindowMemory);
    *memory = (WindowMemory){.ahead = true};
    if (group) add_group(r, &w, group);
    r->stage = window_stage_plan(&w, 0, memory);
    if (!r->stage || !window_stage_is_async(r->stage) || (group && !window_stage_has_lines(r->stage))) return false;
    int64_t bytes = window_stage_bytes(r->stage), used = ir_func_int(r->func, IR_FN_SHARED_BYTES, 0);
    int64_t warps = group ? ir_func_int(r->func, IR_FN_NUM_WARPS, 1) : RING_WARPS;
    bool three = MAX_BOXES * bytes * RING_WARPS <= MAX_RING_BYTES * warps;
    r->group = group;
    r->front = group ? (r->kept * r->later + group * r->fresh - 1) / (group * r->fresh) : 0;
    r->boxes = three ? MAX_BOXES : 2;
    return (three || !group) && used + 128 + r->boxes * bytes <= r->ctx->target->shared_bytes_block;
}

/* One plan for all boxes: it is asked for where neither the line nor the iteration is a number. Where lines follow each
 * other at one distance and are short, a box has those of several iterations: fewer barriers. */
static bool plan(RollingWindow *r) {
    Window line;
    window_line_of(&r->w, &line);
    if (!window_fits(&line, r->unrolled / r->lines)) return false;
    r->held = 1;
    for (unsigned a = 0; a < line.axis_count; a++) r->held *= line.axes[a].extent;
    r->held += results_of(&line) * (1 + r->kept * r->later);
    if (r->groups) return plan_boxes(r, &line, r->group);
    int64_t front =
        r->loop->block == r->func->body ? MAX_FRONT : 1; /* around again, more boxes in front are beyond what proves the barriers */
    for (int64_t group = MAX_GROUP; is_even(r) && group > 0; group--) {
        int64_t lines = group * r->fresh;
        if (lines > 1 && lines * front >= r->kept * r->later && plan_boxes(r, &line, group)) return true;
    }
    return plan_boxes(r, &line, 0);
}

bool rolling_finds(RollingWindow *r, IrOp *map) {
    if (!finds_window(r, map) || !is_rolling(r) || !has_neutral(r->by) || !uses_scalars(r, r->w.outermost->regions[0])) return false;
    const IrValue *other = r->w.load->operand_count > 3 ? r->w.load->operands[3] : NULL;
    if (other && is_inside_op(home_of(other), r->loop) && (!other->def || other->def->opcode != IR_CONST)) return false;
    return plan(r);
}
