/* Rolling windows, for stencil_reuse: a serial loop moves a window along an axis (over the planes of a volume), and partial results over a
 * line of the window (a plane, a row) in one iteration are partial results of the same line in a later iteration.
 *
 * Line k of iteration z lies at S z + D k, so it is line k + S/g of iteration z - D/g, g = gcd(S, D). The loop carries the partial
 * results (fragments) of lines that an earlier iteration has combined. The others, at most S/g an iteration, are read from a
 * ring of boxes in shared memory; the next boxes are copied while one is read.
 *
 *   for(0, Z) (%z) { %w = for(0, 3, %i) (%q, %c) { ... + lines at 2 z + q ... } ... }
 * becomes
 *   %k = line at 0
 *   for(0, Z, %k) (%z, %k) { %a = line at 2 z + 1; %b = line at 2 z + 2; %w = %i + %k + %a + %b; ... yield(%b) }
 *
 * Where an iteration's new lines are few, those of a group of iterations are one box: the loop becomes one over groups
 * (`%group`) around one over a group's iterations.
 *
 * A sketch's sums may be added in any order (note 1). */
#include "gpu.h"
#include "rolling_internal.h"
#include "window_internal.h"

/* ---- The code ---- */

static void barrier(IrBuilder *b) {
    build_barrier(b, IR_SCOPE_BLOCK);
}

static void commit(IrBuilder *b) {
    ir_op_create(b, IR_ASYNC_COMMIT, 0, NULL, 0, NULL);
}

static void wait(IrBuilder *b, int64_t pending) {
    ir_attr_set_int(ir_op_create(b, IR_ASYNC_WAIT, 0, NULL, 0, NULL), "pending", pending);
}

static IrValue *add(IrBuilder *b, IrValue *v, int64_t n) {
    return ir_binary(b, IR_ADD, v, ir_const_index(b, n));
}

static IrValue *variable_of(const IrOp *loop) {
    return loop->regions[0]->args[0];
}

static IrValue *iterations_left(const RollingWindow *r, IrBuilder *b, IrValue *k) {
    return ir_binary(b, IR_SUB, r->total, ir_binary(b, IR_MUL, k, ir_const_index(b, r->group)));
}

/* What the window's loop calls that line. */
static IrValue *number_of(const RollingWindow *r, IrBuilder *b, IrValue *line) {
    return add(b, line, r->w.vars[r->w.var_count - 1].first);
}

static IrOp *map_like(IrBuilder *b, const IrType *type, IrBuilder *in) {
    int64_t extents[WINDOW_VARS];
    for (unsigned i = 0; i < type->rank; i++) extents[i] = ir_type_extent(type, i);
    IrOp *map = ir_map(b, type->rank, extents, 1, &type);
    *in = ir_builder_at_end(map->regions[0]);
    in->span = b->span;
    return map;
}

static IrValue *neutral_fragment(const RollingWindow *r, IrBuilder *b) {
    IrBuilder in;
    IrOp *map = map_like(b, ir_result(r->w.outermost, 0)->type, &in);
    IrValue *value = rolling_neutral_of(&in, r->by);
    ir_yield(&in, 1, &value);
    return ir_result(map, 0);
}

/* The loop, with `count` more values carried, for now through. */
static void carry(RollingWindow *r, IrValue *init, unsigned count) {
    IrOp *old = r->loop;
    IrBuilder b = ir_builder_before(old);
    unsigned before = old->operand_count - 3;
    IrValue **values = ARENA_ARRAY(r->ctx->scratch, IrValue *, before + count);
    for (unsigned i = 0; i < before + count; i++) values[i] = i < before ? old->operands[3 + i] : init;
    IrOp *loop = ir_for(&b, old->operands[0], old->operands[1], old->operands[2], before + count, values, variable_of(old)->name);
    loop->span = old->span;
    loop->attrs = old->attrs;
    if (!ir_attr(loop, "unroll")) ir_attr_set_int(loop, "unroll", 1);
    IrBlock *from = old->regions[0], *to = loop->regions[0];
    while (from->first) ir_op_move_to_end(from->first, to);
    for (unsigned i = 0; i < from->arg_count; i++) ir_replace_uses(from->args[i], to->args[i]);
    for (unsigned i = 0; i < old->result_count; i++) ir_replace_uses(&old->results[i], &loop->results[i]);
    IrOp *yield = to->last;
    for (unsigned i = 0; i < before + count; i++) values[i] = i < before ? yield->operands[i] : to->args[1 + i];
    IrBuilder end = ir_builder_before(yield);
    ir_yield(&end, before + count, values);
    ir_op_erase(yield);
    ir_op_erase(old);
    r->loop = loop;
}

typedef struct {
    IrValue *z, *line; /* of an iteration, null: the loop's own; what the window's loop counts from 0 */
} Place;

/* Copies a line, if there is such an iteration, into that box. */
static void copy_line(const RollingWindow *r, IrBuilder *b, Place p, IrValue *box) {
    IrValue *exists = ir_binary(b, IR_LT, p.z, r->loop->operands[1]);
    IrOp *branch = ir_op_create(b, IR_IF, 1, &exists, 0, NULL);
    IrBuilder in = ir_builder_at_end(branch->regions[0]);
    in.span = b->span;
    WindowIteration iterations[2] = {{variable_of(r->loop), p.z}, {variable_of(r->w.outermost), number_of(r, &in, p.line)}};
    window_stage_copy(r->stage, &in, 2, iterations, box, NULL);
    ir_yield(&in, 0, NULL);
}

/* Lines of a box of groups. */
static int64_t room_of(const RollingWindow *r) {
    return r->group * r->fresh;
}

/* In box `front` of those with the lines in front of the loop. */
static int64_t lines_in_front(const RollingWindow *r, int64_t front) {
    int64_t left = r->kept * r->later - front * room_of(r);
    return left < room_of(r) ? left : room_of(r);
}

/* Line n in front of the loop, as they lie in memory. */
static Place place_at_distance(const RollingWindow *r, IrBuilder *b, IrValue *n) {
    IrValue *later = ir_const_index(b, r->later);
    return (Place){ir_binary(b, IR_MOD, n, later), ir_binary(b, IR_FLOORDIV, n, later)};
}

/* Copies the new lines of that group, as many as there are, into that box; k null: lines in front of the loop. */
static void copy_group(const RollingWindow *r, IrBuilder *b, IrValue *k, int64_t front, IrValue *box) {
    IrValue *zero = ir_const_index(b, 0), *lines;
    if (k)
        lines = ir_binary(b, IR_MUL, iterations_left(r, b, k), ir_const_index(b, r->fresh));
    else
        lines = ir_select(b, ir_binary(b, IR_LT, zero, r->total), ir_const_index(b, lines_in_front(r, front)), zero);
    IrValue *exists = ir_binary(b, IR_LT, zero, lines);
    IrOp *branch = ir_op_create(b, IR_IF, 1, &exists, 0, NULL);
    IrBuilder in = ir_builder_at_end(branch->regions[0]);
    in.span = b->span;
    Place p = {zero, ir_const_index(&in, r->kept)};
    if (!k) p = place_at_distance(r, &in, ir_const_index(&in, front * room_of(r)));
    WindowIteration iterations[3] = {
        {variable_of(r->groups), k ? k : zero}, {variable_of(r->loop), p.z}, {variable_of(r->w.outermost), number_of(r, &in, p.line)}};
    window_stage_copy(r->stage, &in, 3, iterations, box, lines);
    ir_yield(&in, 0, NULL);
}

/* What the window combines of a line, read from that box, of several lines from that one: its nest again. */
static IrValue *combine_line(const RollingWindow *r, IrBuilder *b, Place p, IrValue *box, IrValue *slot) {
    IrValueMap *values = ir_value_map_create(r->ctx->scratch);
    const IrBlock *body = r->w.outermost->regions[0];
    if (p.z) {
        ir_value_map_set(values, variable_of(r->loop), p.z);
        if (r->groups) ir_value_map_set(values, variable_of(r->groups), ir_const_index(b, 0));
        for (const IrOp *op = r->loop->regions[0]->first; op != r->w.outermost; op = op->next)
            if (rolling_is_scalar(r, op)) ir_op_clone(b, op, values);
    }
    ir_value_map_set(values, body->args[0], number_of(r, b, p.line));
    ir_value_map_set(values, body->args[1], neutral_fragment(r, b));
    for (const IrOp *op = body->first; op != body->last; op = op->next) ir_op_clone(b, op, values);
    IrOp *map = ir_value_map_get(values, ir_result(r->w.map, 0))->def;
    Window w;
    int64_t unrolled;
    /* It was a window before it was cloned; else it reads the tensor itself. */
    if (window_find(r->ctx, map, window_load_of(map), r->w.loop_count - 1, &w, &unrolled))
        window_take(&w, window_stage_read(r->stage, &w, box, slot));
    return ir_value_map_get(values, body->last->operands[0]);
}

static IrValue *combine(const RollingWindow *r, IrBuilder *b, IrValue *x, IrValue *y) {
    const IrType *type = x->type, *scalar = ir_type_scalar(r->m, type->dtype);
    IrBuilder in;
    IrOp *map = map_like(b, type, &in);
    IrValue *operands[WINDOW_VARS + 1], *elements[2];
    for (unsigned i = 0; i < type->rank; i++) operands[1 + i] = map->regions[0]->args[i];
    for (unsigned i = 0; i < 2; i++) {
        operands[0] = i ? y : x;
        elements[i] = ir_result(ir_op_create(&in, IR_FRAG_GET, 1 + type->rank, operands, 1, &scalar), 0);
    }
    IrValue *sum = ir_binary(&in, r->by->opcode, elements[0], elements[1]);
    ir_yield(&in, 1, &sum);
    return ir_result(map, 0);
}

/* Lines are numbered in the order in which they are read: those in front of the loop, then those of its iterations. */

static Place place_in_front(const RollingWindow *r, IrBuilder *b, IrValue *n) {
    if (r->groups) return place_at_distance(r, b, n);
    IrValue *kept = ir_const_index(b, r->kept);
    return (Place){ir_binary(b, IR_ADD, r->loop->operands[0], ir_binary(b, IR_FLOORDIV, n, kept)), ir_binary(b, IR_MOD, n, kept)};
}

/* Of new line n counted from that of iteration z. */
static Place place_behind(const RollingWindow *r, IrBuilder *b, IrValue *z, IrValue *n) {
    IrValue *fresh = ir_const_index(b, r->fresh);
    return (Place){ir_binary(b, IR_ADD, z, ir_binary(b, IR_FLOORDIV, n, fresh)), add(b, ir_binary(b, IR_MOD, n, fresh), r->kept)};
}

static Place place_of(const RollingWindow *r, IrBuilder *b, IrValue *n) {
    int64_t count = r->kept * r->later;
    if (!count) return place_behind(r, b, r->loop->operands[0], n);
    IrValue *in_front = ir_binary(b, IR_LT, n, ir_const_index(b, count));
    Place x = place_in_front(r, b, n), y = place_behind(r, b, r->loop->operands[0], add(b, n, -count));
    return (Place){ir_select(b, in_front, x.z, y.z), ir_select(b, in_front, x.line, y.line)};
}

static IrValue *box_of(const RollingWindow *r, IrBuilder *b, IrValue *n) {
    return ir_binary(b, IR_MOD, n, ir_const_index(b, r->boxes));
}

static void copy_ahead(const RollingWindow *r, IrBuilder *b, IrValue *number, IrValue *n, IrValue *z) {
    IrValue *next = add(b, n, r->boxes - 1);
    wait(b, r->boxes - 2);
    barrier(b); /* the box is there; the one before has been read by all */
    copy_line(r, b, z ? place_behind(r, b, z, next) : place_of(r, b, next), box_of(r, b, ir_binary(b, IR_ADD, number, next)));
    commit(b);
}

/* A loop that takes lines from their boxes, one after the other, so that the elements of one at a time are held: `count`
 * of them, the first of which has number `number`, of groups: in the box. z: the iteration that they belong to; null: they stand in front of the
 * loop, behind `first` others. In values[0] they are combined, null: they are not; behind it come the last `last` of them. */
static void take_lines(const RollingWindow *r, IrBuilder *b, int64_t count, int64_t first, IrValue *number, IrValue *z, unsigned last,
                       IrValue **values) {
    unsigned from = values[0] ? 0 : 1;
    for (unsigned i = 0; i < last; i++) values[1 + i] = neutral_fragment(r, b);
    IrOp *loop = ir_for(b, ir_const_index(b, 0), ir_const_index(b, count), ir_const_index(b, 1), 1 - from + last, values + from, "line");
    ir_attr_set_int(loop, "unroll", 1);
    IrBuilder in = ir_builder_at_end(loop->regions[0]);
    in.span = b->span;
    IrValue *n = variable_of(loop), **args = &loop->regions[0]->args[1], *results[MAX_LINES + 1];
    if (!r->groups) copy_ahead(r, &in, number, n, z);
    IrValue *at = ir_binary(&in, IR_ADD, number, n), *box = r->groups ? r->box : box_of(r, &in, at);
    Place own = z ? (Place){NULL, add(&in, n, r->kept)} : place_in_front(r, &in, first ? add(&in, n, first) : n);
    IrValue *line = combine_line(r, &in, own, box, at);
    if (!from) results[0] = combine(r, &in, args[0], line);
    for (unsigned i = 0; i < last; i++) results[1 + i] = i + 1 < last ? args[2 - from + i] : line;
    ir_yield(&in, 1 - from + last, results + from);
    for (unsigned i = from; i <= last; i++) values[i] = ir_result(loop, i - from);
}

/* Box n of the first ones, those with the lines in front of the loop before those of the first groups. */
static void copy_first(const RollingWindow *r, IrBuilder *b, int64_t n) {
    copy_group(r, b, n < r->front ? NULL : ir_const_index(b, n - r->front), n, box_of(r, b, ir_const_index(b, n)));
    commit(b);
}

/* Waits for the next box; behind it the one before is free. */
static void next_box(const RollingWindow *r, IrBuilder *b) {
    wait(b, r->boxes - 2);
    barrier(b);
}

/* The lines in front of the loop, box by box, as they lie in memory, into the places that they are carried in. */
static void take_front(RollingWindow *r, IrBuilder *b, IrValue **carried) {
    for (int64_t front = 0; front < r->front; front++) {
        int64_t first = front * room_of(r), count = lines_in_front(r, front);
        IrValue *values[MAX_LINES + 1] = {NULL};
        next_box(r, b);
        copy_first(r, b, front + r->boxes - 1);
        r->box = box_of(r, b, ir_const_index(b, front));
        take_lines(r, b, count, first, ir_const_index(b, 0), NULL, (unsigned)count, values);
        for (int64_t n = first; n < first + count; n++) carried[n % r->later * r->kept + n / r->later] = values[1 + n - first];
    }
}

/* The first boxes; what the first iterations would have of earlier ones. */
static void begin(RollingWindow *r, IrBuilder *b, IrValue **carried) {
    IrValue *values[MAX_LINES + 1] = {NULL};
    unsigned count = (unsigned)(r->kept * r->later);
    if (b->before->block != r->func->body) barrier(b); /* who reads what was there before is done */
    for (int64_t n = 0; n + 1 < r->boxes; n++) {
        if (r->groups) {
            copy_first(r, b, n);
            continue;
        }
        IrValue *number = ir_const_index(b, n);
        copy_line(r, b, place_of(r, b, number), number);
        commit(b);
    }
    if (r->groups) take_front(r, b, carried);
    if (r->groups || !count) return;
    take_lines(r, b, count, 0, ir_const_index(b, 0), NULL, count, values);
    for (unsigned i = 0; i < count; i++) carried[i] = values[1 + i];
}

/* Enough blocks that some of them copy while others wait at barriers: as many as boxes and registers leave room for. */
static void ask_for_blocks(const RollingWindow *r) {
    const Target *t = r->ctx->target;
    int64_t threads = 32 * ir_func_int(r->func, IR_FN_NUM_WARPS, 1), shared = ir_func_int(r->func, IR_FN_SHARED_BYTES, 0) + SYSTEM_BYTES;
    int64_t registers = r->held > HELD ? REGISTERS + r->held - HELD : REGISTERS;
    int64_t by_registers = t->registers_sm / (registers * threads), by_shared = t->shared_bytes_sm / shared;
    int64_t blocks = by_registers < by_shared ? by_registers : by_shared;
    if (blocks > t->blocks_sm) blocks = t->blocks_sm;
    if (blocks > 1 && !ir_func_has(r->func, IR_FN_MIN_BLOCKS)) ir_func_set_int(r->func, IR_FN_MIN_BLOCKS, blocks);
}

/* The loop, group by group: its number becomes that within a group. */
static void nest(RollingWindow *r) {
    IrOp *old = r->loop;
    IrBuilder b = ir_builder_before(old);
    unsigned count = old->operand_count - 3;
    IrValue *zero = ir_const_index(&b, 0), *one = ir_const_index(&b, 1), *size = ir_const_index(&b, r->group);
    r->total = ir_binary(&b, IR_SUB, old->operands[1], old->operands[0]);
    IrValue *groups = ir_binary(&b, IR_FLOORDIV, add(&b, r->total, r->group - 1), size);
    r->groups = ir_for(&b, zero, groups, one, count, old->operands + 3, "group");
    r->groups->span = old->span;
    ir_attr_set_int(r->groups, "unroll", 1);
    IrBuilder in = ir_builder_at_end(r->groups->regions[0]);
    IrValue *k = variable_of(r->groups), *here = ir_binary(&in, IR_MIN, size, iterations_left(r, &in, k));
    IrOp *loop = ir_for(&in, zero, here, one, count, r->groups->regions[0]->args + 1, variable_of(old)->name);
    loop->span = old->span;
    loop->attrs = old->attrs;
    IrValue **results = ARENA_ARRAY(r->ctx->scratch, IrValue *, count + 1);
    for (unsigned i = 0; i < count; i++) results[i] = ir_result(loop, i);
    ir_yield(&in, count, results);
    IrBlock *from = old->regions[0], *to = loop->regions[0];
    IrBuilder body = ir_builder_at_end(to);
    IrValue *first = ir_binary(&body, IR_ADD, old->operands[0], ir_binary(&body, IR_MUL, k, size));
    IrValue *z = ir_binary(&body, IR_ADD, first, to->args[0]);
    while (from->first) ir_op_move_to_end(from->first, to);
    ir_replace_uses(from->args[0], z);
    for (unsigned i = 0; i < count; i++) ir_replace_uses(from->args[1 + i], to->args[1 + i]);
    for (unsigned i = 0; i < count; i++) ir_replace_uses(&old->results[i], ir_result(r->groups, i));
    ir_op_erase(old);
    r->loop = loop;
}

/* Line k of the iteration: carried, or one of the new ones, of which the last `again` are in taken[1 ...]. */
static IrValue *line_of(const RollingWindow *r, IrValue *const *args, IrValue *const *taken, int64_t again, int64_t k) {
    return k < r->kept ? args[k] : taken[1 + k - (r->lines - again)];
}

static void make_rolling(RollingWindow *r) {
    unsigned before = r->loop->operand_count - 3, count = (unsigned)(r->kept * r->later);
    IrBuilder b = ir_builder_before(r->loop);
    b.span = r->w.map->span;
    carry(r, neutral_fragment(r, &b), count);
    if (r->group) nest(r);
    if (!rolling_finds(r, r->w.map)) return; /* never: nothing of it has changed */
    IrValue *carried[MAX_LINES], *taken[MAX_LINES + 1];
    IrOp *top = r->groups ? r->groups : r->loop;
    b.before = top;
    window_stage_ring(r->stage, &b, r->boxes);
    ask_for_blocks(r);
    begin(r, &b, carried);
    for (unsigned i = 0; i < count; i++) ir_set_operand(top, 3 + before + i, carried[i]);

    if (r->groups) {
        IrBuilder ahead = ir_builder_before(r->loop);
        ahead.span = b.span;
        IrValue *k = variable_of(top), *number = add(&ahead, k, r->front);
        next_box(r, &ahead);
        copy_group(r, &ahead, add(&ahead, k, r->boxes - 1), 0, box_of(r, &ahead, add(&ahead, number, r->boxes - 1)));
        commit(&ahead);
        r->box = box_of(r, &ahead, number);
    }
    IrBuilder in = ir_builder_before(r->w.outermost);
    in.span = b.span;
    IrValue *const *args = &r->loop->regions[0]->args[1 + before], *z = variable_of(r->loop);
    int64_t again = r->kept < r->fresh ? r->kept : r->fresh; /* new lines that later iterations have, too */
    taken[0] = r->w.outermost->operands[3];
    for (int64_t k = 0; k < r->kept; k++) taken[0] = combine(r, &in, taken[0], args[k]);
    IrValue *number = ir_binary(&in, IR_MUL, ir_binary(&in, IR_SUB, z, r->loop->operands[0]), ir_const_index(&in, r->fresh));
    take_lines(r, &in, r->fresh, 0, add(&in, number, r->groups ? 0 : count), z, (unsigned)again, taken);
    ir_replace_uses(ir_result(r->w.outermost, 0), taken[0]);
    IrOp *yield = r->loop->regions[0]->last;
    for (int64_t j = 0; j < r->later; j++)
        for (int64_t k = 0; k < r->kept; k++) {
            IrValue *next = j + 1 < r->later ? args[(j + 1) * r->kept + k] : line_of(r, args, taken, again, k + r->forward);
            ir_set_operand(yield, before + (unsigned)(j * r->kept + k), next);
        }
    ir_op_erase(r->w.outermost);
}

bool window_make_rolling(PassContext *ctx, IrFunc *f) {
    OpList ops = ops_collect(ctx->scratch, f->body);
    for (size_t i = 0; i < ops.len; i++) {
        RollingWindow r = {.ctx = ctx, .m = ctx->module, .func = f};
        if (ops.data[i]->opcode != IR_MAP || !rolling_finds(&r, ops.data[i])) continue;
        make_rolling(&r);
        return true;
    }
    return false;
}
