/* Software pipelining by half an iteration, for loops whose warpgroups multiply from a ring (tma_pipeline.c), as in attention. The second
 * products of an iteration wait for values computed from its first products; the first products depend on the preceding iteration only
 * through values that are in registers early. So the first products of iteration i + 1 are issued before the second products of i, and the
 * arithmetic between first and second products overlaps the second ones.
 *
 * An iteration is cut into two halves. The second half holds the second products and all ops that depend on them, including through values
 * that the loop carries; the first half holds the rest. Values of the first half that the second half reads are carried to the next
 * iteration. Conversions and broadcasts that only the second half reads move to it, and their operands are carried instead.
 * docs/decisions/pipelining.md; what was measured: docs/notes/025-pingpong.md
 *
 *   for (i = l; i < u; i += s) (%c) {           if (l < u) {
 *     %s = buf.gemm(%q, K[i], 0)                  mbar.wait; %s = buf.gemm(%q, K[l], 0); wgmma.wait; %p = f(%s)
 *     %p = f(%s)                           =>     for (i = l; i < u - s; i += s) (%c, %p) {
 *     %c1 = buf.gemm(cast(%p), V[i], %c)            barrier; copies; mbar.wait; %w = cast(%p)
 *     yield(%c1)                                    %s = buf.gemm(%q, K[i + s], 0); %c1 = buf.gemm(%w, V[i], %c)
 *   }                                               wgmma.wait(%s) {pending = 1}; %p1 = f(%s)
 *                                                   wgmma.wait(%c1) {pending = 0}; yield(%c1, %p1)
 *                                                 }
 *                                                 %c2 = buf.gemm(cast(%p), V[last], %c); wgmma.wait }
 */
#include "gpu.h"
#include "pingpong_internal.h"
#include "stage_internal.h"

/* The switch: 0 leaves every loop as it was. */
enum {
    PINGPONG = 1,
    GIVEN_BACK = 1,       /* 0: a block's barrier an iteration */
    WAITS_BEHIND = 1,     /* 0: ptxas waits before softmax */
    PHASES = 1,           /* 0: a stage arrives as a whole */
    WORK_OF_PHASES = 192, /* multiply-adds for an element between the halves: 256 at head size 128, 128 at 64 */
    FEWEST_STAGES = 3,    /* one is read by the second half, one by the first, one is filled */
    FEWEST_BY_PHASES = 2  /* what the first half has read is filled while the second one reads */
};
enum {
    OTHER_REGISTERS = 28, /* addresses and what softmax keeps */
    LEAST_OTHERS = 24,    /* where few are given */
    MOST_OTHERS = 46,     /* where many are */
    REGISTER_UNIT = 8     /* a thread's come in so many */
};

enum { GROUP_WARPS = WARPGROUP / WARP };

Half pingpong_half_of(const Cut *c, const void *key) {
    uint32_t half;
    return pointer_table_get(&c->half, key, &half) ? (Half)half : FIRST;
}

bool pingpong_is_product(const IrOp *op) {
    return op->opcode == IR_TILE_GEMM || op->opcode == IR_BUF_GEMM;
}

IrValue *pingpong_summand(const IrOp *product) {
    return product->operands[product->opcode == IR_TILE_GEMM ? 2 : 4];
}

/* ---- Whether it fits ---- */

static bool rests_on_body(const Aff *e, const IrBlock *body) {
    if (!e) return false;
    if (e->kind == AFF_VAR && is_inside(home_of((const IrValue *)e->var), body)) return true;
    for (size_t i = 0; i < e->count; i++)
        if (rests_on_body(e->args[i], body)) return true;
    return false;
}

/* What is carried has to have the same lanes in every iteration. */
static bool is_present_alike(PresenceCache *cache, const IrBlock *body, IrValue *v) {
    if (!is_tile(v)) return true;
    Presence p = presence_in(cache, v);
    for (unsigned a = 0; a < p.rank; a++)
        if (rests_on_body(p.axes[a].lo, body) || rests_on_body(p.axes[a].hi, body)) return false;
    return true;
}

static int64_t registers_of(const IrValue *v, int64_t threads) {
    int64_t lanes = 1;
    for (unsigned a = 0; is_tile(v) && a < v->type->rank; a++) lanes *= ir_type_extent(v->type, a);
    lanes = (lanes + threads - 1) / threads;
    return dtype_size(v->type->dtype) == 2 ? (lanes + 1) / 2 : lanes;
}

/* Registers of a thread for sums and factors; what crosses is told apart from what is made in the iteration. */
typedef struct {
    int64_t threads, before, after;
} Registers;

/* ptxas does not let the first products' sums begin where what was made of the last ones lay. */
static Registers count_registers(PassContext *ctx, const Cut *c, IrOp *const *gemms, size_t count) {
    Registers r = {.threads = 2 * gemm_shape(gemms[0]).m};
    for (size_t i = 0; i < count; i++) {
        GemmShape s = gemm_shape(gemms[i]);
        const IrOp *before = gemms[i]->operands[2]->def;
        int64_t sums = before && pingpong_is_product(before) && before->block == c->body ? 0 : s.n / 2;
        int64_t factor = stage_from_registers(ctx, gemms[i]) ? s.k / 4 : 0;
        r.before += sums + factor;
        r.after += sums + (pingpong_is_crossing(c, gemms[i]->operands[0]) ? 0 : factor);
    }
    for (size_t i = 0; i < c->crossing.len; i++) r.after += registers_of(c->crossing.data[i], r.threads);
    return r;
}

/* Blocks that a multiprocessor would hold without pipelining. */
static int64_t blocks_beside(const Target *t, const Registers *r, int64_t bytes) {
    int64_t by_registers = t->registers_sm / (r->threads * (r->before + OTHER_REGISTERS)), by_bytes = t->shared_bytes_sm / bytes;
    int64_t least = by_registers < by_bytes ? by_registers : by_bytes;
    return least > 1 ? least : 1;
}

static bool runs_once(IrModule *m, const IrOp *loop) {
    int64_t trips;
    return aff_is_const(loop_trips(m, loop), &trips) && trips < 2;
}

int64_t pingpong_fit(const Staging *s, const Ring *ring, IrOp *const *gemms, size_t count, int64_t stage_bytes) {
    Cut c;
    const Target *target = s->ctx->target;
    if (!PINGPONG || !ring->loop || ring->persistent.loop || runs_once(s->module, ring->loop)) return 0;
    if (!pingpong_cut_body(s->ctx->scratch, ring->loop->regions[0], &c)) return 0;
    PresenceCache *cache = presence_cache(s->ctx);
    for (size_t i = 0; i < c.crossing.len; i++)
        if (!is_present_alike(cache, c.body, c.crossing.data[i])) return 0;
    for (unsigned i = 1; i < c.body->arg_count; i++)
        if (!is_present_alike(cache, c.body, c.body->args[i])) return 0;
    Registers r = count_registers(s->ctx, &c, gemms, count);
    int64_t blocks = blocks_beside(target, &r, ring->stages * stage_bytes);
    int64_t all = target->registers_sm / (r.threads * blocks) / REGISTER_UNIT * REGISTER_UNIT;
    bool few = all < target->registers_thread;
    return r.after + (few ? LEAST_OTHERS : MOST_OTHERS) <= (few ? all : target->registers_thread) ? blocks : 0;
}

static bool is_late(const Cut *c, const IrOp *gemm) {
    return pingpong_half_of(c, gemm) == SECOND;
}

/* Whether another gemm's factor is the same copy, and of the other half. */
static bool is_of_both(const Cut *c, const Ring *ring, IrOp *const *gemms, size_t k) {
    for (size_t i = 0; i < ring->count; i++)
        if (ring->operands[i].twin == &ring->operands[k] && is_late(c, gemms[i / 2]) != is_late(c, gemms[k / 2])) return true;
    return false;
}

/* Multiply-adds of an iteration for each element that its products leave to arithmetic: where these are few the arithmetic binds, and two
 * warpgroups that wait for one phase keep apart better. */
static bool is_bound_by_products(const Cut *c, IrOp *const *gemms, size_t count) {
    int64_t work = 0, elements = 0;
    for (size_t i = 0; i < count; i++) {
        GemmShape s = gemm_shape(gemms[i]);
        work += s.m * s.n * s.k;
        if (!is_late(c, gemms[i])) elements += s.m * s.n;
    }
    return work >= WORK_OF_PHASES * elements;
}

/* What the first half reads of a stage is free an iteration before the rest is. */
void pingpong_phases(const Staging *s, Ring *ring, IrOp *const *gemms, size_t count) {
    Cut c;
    size_t boxes[STAGE_PHASES] = {0};
    if (!PHASES || !pingpong_cut_body(s->ctx->scratch, ring->loop->regions[0], &c)) return;
    for (size_t k = 0; k < 2 * count; k++) {
        if (ring->operands[k].fill != FILL_AHEAD) continue;
        if (is_of_both(&c, ring, gemms, k)) return;
        boxes[is_late(&c, gemms[k / 2])]++;
    }
    if (!boxes[0] || !boxes[1] || !is_bound_by_products(&c, gemms, count)) return;
    for (size_t k = 0; k < 2 * count; k++) ring->operands[k].late = ring->operands[k].fill == FILL_AHEAD && is_late(&c, gemms[k / 2]);
    ring->phase_count = STAGE_PHASES;
}

bool pingpong_give_back(const Staging *s) {
    return GIVEN_BACK && s->warps.all > GROUP_WARPS;
}

int64_t pingpong_stages(const Ring *ring, int64_t wanted, int64_t room) {
    if (wanted < FEWEST_STAGES) wanted = FEWEST_STAGES;
    if (wanted <= room) return wanted;
    return ring->phase_count == STAGE_PHASES && room >= FEWEST_BY_PHASES ? room : 0;
}

/* ---- The pipelined loop ---- */

typedef struct {
    Staging *s;
    Ring *ring;
    Cut cut;
    IrOp *gemms[2 * STAGE_MAX_RANK]; /* those of a block, in order */
    size_t count;
} Pingpong;

static void clone(Pingpong *t, IrBuilder *b, const IrOp *op, IrValueMap *map) {
    if (op->opcode == IR_TILE_LOAD && !op->results[0].uses) return; /* a factor, which is in shared memory */
    IrOp *copy = ir_op_clone(b, op, map);
    if (pingpong_is_product(copy)) t->gemms[t->count++] = copy;
}

/* Copies of the body's ops of a half from `from` to before `to`. What is free is made for both halves. */
static void clone_half(Pingpong *t, IrBuilder *b, Half half, const IrOp *from, const IrOp *to, IrValueMap *map) {
    for (const IrOp *op = from; op != to; op = op->next)
        if (pingpong_half_of(&t->cut, op) == half) clone(t, b, op, map);
}

static void clone_free(Pingpong *t, IrBuilder *b, IrValueMap *map) {
    clone_half(t, b, FREE, t->cut.body->first, t->cut.body->last, map);
}

static IrValueMap *map_at(Pingpong *t, IrBuilder *b, IrValue *iteration) {
    IrValueMap *map = ir_value_map_create(t->s->ctx->scratch);
    ir_value_map_set(map, t->cut.body->args[0], iteration);
    clone_free(t, b, map);
    return map;
}

/* Behind the last product of the first half. */
static const IrOp *behind_first(const Cut *c) {
    const IrOp *behind = c->body->first;
    for (const IrOp *op = c->body->first; op != c->body->last; op = op->next)
        if (pingpong_is_product(op) && pingpong_half_of(c, op) == FIRST) behind = op->next;
    return behind;
}

static bool is_carried_second(const Pingpong *t, unsigned i) {
    return pingpong_half_of(&t->cut, t->cut.body->args[1 + i]) == SECOND;
}

/* What crosses as a conversion that nothing else reads is made behind the wait for the second products, whose factor lies in the same
 * registers: ptxas serialises products between which a factor's registers are written. */
static void move_late(Pingpong *t, IrBlock *block, IrValueMap *first) {
    for (size_t k = 0; k < t->cut.crossing.len; k++) {
        IrOp *op = ir_value_map_get(first, t->cut.crossing.data[k])->def;
        if (op && op->opcode == IR_CAST && op->block == block && !op->results[0].uses->next) ir_op_move_before(op, block->last);
    }
}

static bool has_phases(const Ring *ring) {
    return ring->phase_count > 1;
}

/* Behind the first half of an iteration the boxes are waited for that its second half reads.
 * ptxas takes a wait for products up over arithmetic and shuffles, as far as the branch before: softmax would begin when the second products
 * have ended. The wait for boxes is such a branch, behind softmax; where they came with the others, it is a second wait, for what has come
 * long ago. */
static void keep_waits_behind(Pingpong *t, IrBlock *block, IrValue *next) {
    IrOp *wait = block->last;
    while (wait->prev->opcode == IR_WGMMA_WAIT) wait = wait->prev;
    if (!has_phases(t->ring) && (!WAITS_BEHIND || wait == block->last)) return;
    IrBuilder b = ir_builder_before(wait);
    b.span = wait->span;
    tma_pipeline_arrived(&b, t->ring, t->ring->phase_count - 1, next);
}

/* Behind the first half of the first iteration, whose second half is not there: what it read alone is given back by the number of the
 * iteration that read it. */
static void begin_phases(Pingpong *t, IrOp *loop) {
    if (!has_phases(t->ring)) return;
    IrBuilder b = ir_builder_before(loop);
    b.span = loop->span;
    tma_pipeline_arrived(&b, t->ring, t->ring->phase_count - 1, t->ring->lower);
    if (t->ring->empty) tma_pipeline_give_back(&b, t->ring, t->ring->lower);
}

/* The copying thread waits until warps have given the stage back; behind the products, it seldom has to. */
static void refill_behind(Pingpong *t, IrOp *product, IrValue *i) {
    IrBuilder b = ir_builder_after(product);
    b.span = product->span;
    tma_pipeline_refill(t->s, &b, t->ring, i);
}

/* One iteration: the second half of i, the first half of i + 1. */
static void fill_loop(Pingpong *t, IrOp *loop) {
    const IrBlock *body = t->cut.body;
    IrBlock *block = loop->regions[0];
    unsigned carried = body->arg_count - 1, total = loop->result_count;
    IrBuilder b = ir_builder_at_end(block);
    b.span = t->ring->loop->span;
    IrValue *i = block->args[0], *next = ir_binary(&b, IR_ADD, i, t->ring->step);
    if (!t->ring->empty) tma_pipeline_refill(t->s, &b, t->ring, i);
    tma_pipeline_arrived(&b, t->ring, 0, next);
    IrValueMap *second = map_at(t, &b, i), *first = map_at(t, &b, next);
    for (unsigned k = 0; k < carried; k++)
        ir_value_map_set(is_carried_second(t, k) ? second : first, body->args[1 + k], block->args[1 + k]);
    for (size_t k = 0; k < t->cut.crossing.len; k++) ir_value_map_set(second, t->cut.crossing.data[k], block->args[1 + carried + k]);
    const IrOp *behind = behind_first(&t->cut);
    t->count = 0;
    clone_half(t, &b, FIRST, body->first, behind, first);
    clone_half(t, &b, SECOND, body->first, body->last, second);
    if (t->ring->empty) refill_behind(t, t->gemms[t->count - 1], i);
    clone_half(t, &b, FIRST, behind, body->last, first);
    IrValue **left = ARENA_ARRAY(t->s->module->arena, IrValue *, total);
    for (unsigned k = 0; k < carried; k++) left[k] = ir_value_map_get(is_carried_second(t, k) ? second : first, body->last->operands[k]);
    for (size_t k = 0; k < t->cut.crossing.len; k++) left[carried + k] = ir_value_map_get(first, t->cut.crossing.data[k]);
    ir_yield(&b, total, left);
    tma_pipeline_waits(block, t->gemms, t->count);
    keep_waits_behind(t, block, next);
    if (t->ring->empty) {
        IrBuilder end = ir_builder_before(block->last);
        tma_pipeline_give_back(&end, t->ring, has_phases(t->ring) ? next : i);
    }
    move_late(t, block, first);
}

/* The loop behind the first half of its first iteration; what it carries begins with what that left. */
static IrOp *begin_loop(Pingpong *t, IrBuilder *b, IrValueMap *first) {
    const Ring *ring = t->ring;
    const IrBlock *body = t->cut.body;
    unsigned carried = body->arg_count - 1;
    size_t crossing = t->cut.crossing.len;
    IrValue **inits = ARENA_ARRAY(t->s->module->arena, IrValue *, carried + crossing);
    for (unsigned k = 0; k < carried; k++)
        inits[k] = is_carried_second(t, k) ? ring->loop->operands[3 + k] : ir_value_map_get(first, body->last->operands[k]);
    for (size_t k = 0; k < crossing; k++) inits[carried + k] = ir_value_map_get(first, t->cut.crossing.data[k]);
    IrValue *upper = ir_binary(b, IR_SUB, ring->upper, ring->step);
    IrOp *loop = ir_for(b, ring->lower, upper, ring->step, (unsigned)(carried + crossing), inits, body->args[0]->name);
    for (unsigned k = 0; k < carried; k++) loop->regions[0]->args[1 + k]->name = body->args[1 + k]->name;
    loop->attrs = ring->loop->attrs;
    loop->span = ring->loop->span;
    return loop;
}

/* The second half of the last iteration. */
static void end_loop(Pingpong *t, IrBuilder *b, IrOp *loop) {
    const Ring *ring = t->ring;
    const IrBlock *body = t->cut.body;
    unsigned carried = body->arg_count - 1;
    IrValue *way = ir_binary(b, IR_SUB, ir_binary(b, IR_SUB, ring->upper, ring->lower), ir_const_index(b, 1));
    IrValue *last = ir_binary(b, IR_MUL, ir_binary(b, IR_FLOORDIV, way, ring->step), ring->step);
    IrValueMap *second = map_at(t, b, ir_binary(b, IR_ADD, ring->lower, last));
    for (unsigned k = 0; k < carried; k++)
        if (is_carried_second(t, k)) ir_value_map_set(second, body->args[1 + k], ir_result(loop, k));
    for (size_t k = 0; k < t->cut.crossing.len; k++)
        ir_value_map_set(second, t->cut.crossing.data[k], ir_result(loop, carried + (unsigned)k));
    t->count = 0;
    clone_half(t, b, SECOND, body->first, body->last, second);
    IrValue **left = ARENA_ARRAY(t->s->module->arena, IrValue *, carried);
    for (unsigned k = 0; k < carried; k++)
        left[k] = is_carried_second(t, k) ? ir_value_map_get(second, body->last->operands[k]) : ir_result(loop, k);
    ir_yield(b, carried, left);
}

void pingpong_make(Staging *s, Ring *ring) {
    IrOp *old = ring->loop;
    IrBlock *body = old->regions[0];
    Pingpong t = {.s = s, .ring = ring};
    pingpong_cut_body(s->ctx->scratch, body, &t.cut);
    const IrType **types = ARENA_ARRAY(s->module->arena, const IrType *, old->result_count);
    for (unsigned i = 0; i < old->result_count; i++) types[i] = old->results[i].type;
    IrBuilder before = ir_builder_before(old);
    before.span = old->span;
    IrValue *runs = ir_binary(&before, IR_LT, ring->lower, ring->upper);
    IrOp *branch = ir_op_create(&before, IR_IF, 1, &runs, old->result_count, types);
    IrBlock *run = branch->regions[0];
    IrBuilder b = ir_builder_at_end(run), otherwise = ir_builder_at_end(branch->regions[1]);
    b.span = old->span;
    ir_yield(&otherwise, old->result_count, old->operands + 3);
    tma_pipeline_arrived(&b, ring, 0, ring->lower);
    IrValueMap *first = map_at(&t, &b, ring->lower);
    for (unsigned k = 1; k < body->arg_count; k++) ir_value_map_set(first, body->args[k], old->operands[2 + k]);
    clone_half(&t, &b, FIRST, body->first, body->last, first);
    IrOp *begun[2 * STAGE_MAX_RANK];
    size_t begun_count = t.count;
    for (size_t i = 0; i < begun_count; i++) begun[i] = t.gemms[i];
    IrOp *loop = begin_loop(&t, &b, first);
    fill_loop(&t, loop);
    end_loop(&t, &b, loop);
    tma_pipeline_waits(run, t.gemms, t.count);
    tma_pipeline_waits(run, begun, begun_count);
    begin_phases(&t, loop);
    for (unsigned i = 0; i < old->result_count; i++) {
        ir_replace_uses(&old->results[i], ir_result(branch, i));
        ir_result(branch, i)->name = old->results[i].name;
    }
    ir_op_erase(old);
    remove_unused(s->ctx->scratch, run);
    ring->loop = loop;
    ring->behind = branch;
}
