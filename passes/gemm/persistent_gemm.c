/* Persistent blocks for products: a block that occupies a multiprocessor alone computes several tiles. Its ring of stages continues from
 * one tile to the next, so that the first stages of the next tile are copied while this tile is stored.
 *
 * Iterations are numbered through all tiles of a block: iteration g uses stage g mod S, and issues the copies of
 * iteration g + S - 1. Let S - 1 = q n + r. The first n - r iterations of a tile issue copies for the tile that the block takes q tiles later,
 * the remaining ones for the one after it. So all divisions by n run once, before the first tile.
 *
 *   %m = special() {name = "ctaid.x"}; <index arithmetic of %m>; for (k < n) {...}; tile.store ...
 * becomes
 *   <arithmetic without %m>; n = max(n, 1); q = (S-1) / n; r = (S-1) % n; full = mbar.alloc; ...
 *   for(%m, tiles, gridDim, 0) (%item, %base) {
 *     <index arithmetic>; near = that of tile %item + q gridDim, far = of the tile behind it
 *     for (k < n) { ... copies of iteration k + r of near, or k + r - n of far ... }
 *     tile.store ...; yield(%base + n)
 *   }
 */
#include "stage_internal.h"

enum { OTHER_REGISTERS = 64 /* of a thread, beside its accumulators */ };

/* ---- Whether it fits ---- */

typedef struct {
    unsigned numbers, gemms;
    IrOp *number, *gemm;
} Survey;

static void look(void *context, IrOp *op) {
    Survey *s = context;
    if (op->opcode == IR_TILE_GEMM) s->gemms++, s->gemm = op;
    if (is_number_along_x(op)) s->numbers++, s->number = op;
}

/* Values that were looked at: what is shared is met by many ways. */
static bool is_new(PointerTable *seen, const IrValue *v) {
    uint32_t at;
    if (pointer_table_get(seen, v, &at)) return false;
    pointer_table_set(seen, v, 0);
    return true;
}

static bool depends_on(PointerTable *seen, const IrValue *v, const IrOp *number) {
    if (!v->def || !is_new(seen, v)) return false;
    if (v->def == number) return true;
    for (unsigned i = 0; i < v->def->operand_count; i++)
        if (depends_on(seen, v->def->operands[i], number)) return true;
    return false;
}

/* Whether the value can be had for another tile: arithmetic of the block's number and of loop variables. */
static bool is_arithmetic(PointerTable *seen, const IrValue *v, const IrOp *number) {
    if (!v->def || v->def == number) return v->type->kind == IR_TYPE_SCALAR;
    if (!is_new(seen, v)) return true;
    if (!is_scalar_arithmetic(v->def)) return false;
    for (unsigned i = 0; i < v->def->operand_count; i++)
        if (!is_arithmetic(seen, v->def->operands[i], number)) return false;
    return true;
}

static bool fits(Arena *scratch, const IrFunc *f, const Survey *s) {
    PointerTable known = pointer_table(scratch), free = pointer_table(scratch);
    bool has_grid = ir_func_has(f, IR_FN_GRID_X);
    const IrOp *loop = s->gemms == 1 ? stage_loop(s->gemm->block) : NULL;
    if (s->numbers != 1 || ir_func_cluster(f) != 1 || !has_grid || !loop || loop->block != f->body) return false;
    if (s->number->block != f->body) return false;
    for (unsigned i = 0; i < 3; i++)
        if (!is_arithmetic(&known, loop->operands[i], s->number) || depends_on(&free, loop->operands[i], s->number)) return false;
    for (unsigned i = 0; i < 2; i++) {
        const IrOp *load = s->gemm->operands[i]->def;
        if (!load || load->opcode != IR_TILE_LOAD || load->block != s->gemm->block) return false; /* from registers */
        for (unsigned k = 1; k < load->operand_count; k++)
            if (!is_arithmetic(&known, load->operands[k], s->number)) return false;
    }
    return true;
}

/* Blocks that a multiprocessor holds at once: by the ring's shared memory, threads and registers. */
static int64_t blocks_beside(const Target *t, const IrOp *gemm) {
    GemmShape s = gemm_shape(gemm);
    int64_t threads = 2 * s.m, registers = s.n / 2 + OTHER_REGISTERS;
    int64_t stage = (s.m + s.n) * s.k * (int64_t)dtype_size(s.in), room = t->shared_bytes_block * 9 / 10 / stage;
    int64_t stages = stage_count_wanted(stage_loop(gemm->block));
    int64_t by[] = {t->shared_bytes_sm / ((stages < room ? stages : room) * stage), t->threads_sm / threads,
                    t->registers_sm / (threads * registers)};
    int64_t least = t->blocks_sm;
    for (size_t i = 0; i < COUNT_OF(by); i++) least = by[i] < least ? by[i] : least;
    return least > 1 ? least : 1;
}

/* ---- The loop over tiles ---- */

/* Arithmetic that neither the tile's number nor what moves is in. */
static bool is_common(const IrOp *op, const IrOp *number, const IrBlock *body) {
    if (op == number) return true;
    if (!is_scalar_arithmetic(op) || !op->result_count) return false;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (op->operands[i]->def == number || home_of(op->operands[i]) == body) return false;
    return true;
}

static void move_body(IrFunc *f, const IrOp *number, IrOp *loop) {
    for (IrOp *op = f->body->first, *next; op != loop; op = next) {
        next = op->next;
        if (!is_common(op, number, loop->regions[0])) ir_op_move_to_end(op, loop->regions[0]);
    }
}

static void make_tile_loop(PersistentTiles *t, IrFunc *f, IrOp *number, const IrOp *ring_loop) {
    IrBuilder b = ir_builder_before(f->body->last);
    IrValue *first = &number->results[0], *one = ir_const_index(&b, 1), *zero = ir_const_index(&b, 0);
    IrValue *length = ir_binary(&b, IR_SUB, ring_loop->operands[1], ring_loop->operands[0]), *step = ring_loop->operands[2];
    length = ir_binary(&b, IR_ADD, length, ir_binary(&b, IR_SUB, step, one));
    t->trips = ir_binary(&b, IR_MAX, ir_binary(&b, IR_FLOORDIV, length, step), one);
    t->blocks = ir_special(&b, IR_SPECIAL_NCTAID_X);
    t->tiles = ir_aff_emit(&b, ir_func_aff(f, IR_FN_GRID_X));
    t->loop = ir_for(&b, first, t->tiles, t->blocks, 1, &zero, "item");
    ir_attr_set_bool(t->loop, "independent", true); /* they were blocks of their own */
    IrBlock *body = t->loop->regions[0];
    body->args[1]->name = "done";
    IrBuilder begin = ir_builder_at_end(body);
    t->base = ir_binary(&begin, IR_MAX, body->args[1], zero); /* changes nothing: it says that no number is below 0 */
    t->base->name = "base";
    move_body(f, number, t->loop);
    ir_replace_uses(first, body->args[0]);
    ir_set_operand(t->loop, 0, first);
    IrBuilder end = ir_builder_at_end(body);
    IrValue *base = ir_binary(&end, IR_ADD, t->base, t->trips);
    ir_yield(&end, 1, &base);
}

bool persistent_gemm_make(PassContext *ctx, IrFunc *f, PersistentTiles *tiles) {
    Survey s = {0};
    ir_walk(f->body, look, &s);
    if (!fits(ctx->scratch, f, &s)) return false;
    int64_t beside = blocks_beside(ctx->target, s.gemm);
    bool asked = ir_attr_bool(s.number, "persistent");
    if (beside > 1 && !asked) return false;
    ir_attr_remove(s.number, "persistent");
    AffCtx *affs = ctx->module->affs;
    make_tile_loop(tiles, f, s.number, stage_loop(s.gemm->block));
    const Aff *resident = aff_const(affs, ctx->target->sms * beside);
    ir_func_set_aff(f, IR_FN_GRID_X, aff_min(affs, ir_func_aff(f, IR_FN_GRID_X), resident));
    return true;
}

/* ---- What is fetched for ---- */

/* The values of the tile's number that the load's indices come from. */
static void add_leaves(PointerTable *seen, PersistentTiles *t, IrValue *value) {
    const IrBlock *home = home_of(value);
    if (!is_new(seen, value)) return;
    if (home == t->loop->regions[0])
        VEC_PUSH(seen->arena, &t->leaves, (TileLeaf){.value = value});
    else if (value->def && is_inside(home, t->loop->regions[0]))
        for (unsigned i = 0; i < value->def->operand_count; i++) add_leaves(seen, t, value->def->operands[i]);
}

/* The leaves' values for the tile that the block computes `later` tiles after this one, the last tile's where there is none. */
static IrValue *leaves_of(Staging *s, IrBuilder *b, PersistentTiles *t, IrValue *later, bool far) {
    IrValue *tile = ir_binary(b, IR_ADD, t->loop->regions[0]->args[0], ir_binary(b, IR_MUL, later, t->blocks));
    IrValue *last = ir_binary(b, IR_SUB, t->tiles, ir_const_index(b, 1));
    IrValueMap *map = ir_value_map_create(s->ctx->scratch);
    IrValue *known = ir_binary(b, IR_MAX, ir_binary(b, IR_MIN, tile, last), ir_const_index(b, 0));
    ir_value_map_set(map, t->loop->regions[0]->args[0], known);
    for (size_t i = 0; i < t->leaves.len; i++) {
        IrValue *value = stage_recompute(b, map, t->loop->regions[0], t->leaves.data[i].value);
        *(far ? &t->leaves.data[i].far : &t->leaves.data[i].near) = value;
    }
    return tile;
}

void persistent_gemm_prepare(Staging *s, Ring *ring, IrBuilder *outside) {
    PersistentTiles *t = &ring->persistent;
    IrValue *ahead = ir_const_index(outside, ring->stages - 1);
    t->skipped = ir_binary(outside, IR_FLOORDIV, ahead, t->trips);
    t->rest = ir_binary(outside, IR_MOD, ahead, t->trips);
    PointerTable seen = pointer_table(s->ctx->scratch);
    for (size_t i = 0; i < ring->count; i++) {
        const IrOp *load = ring->operands[i].value->def;
        for (unsigned k = 1; k < load->operand_count; k++) add_leaves(&seen, t, load->operands[k]);
    }
    IrBuilder b = ir_builder_before(ring->loop);
    t->near = leaves_of(s, &b, t, t->skipped, false);
    t->far = leaves_of(s, &b, t, ir_binary(&b, IR_ADD, t->skipped, ir_const_index(&b, 1)), true);
}

StageFetch persistent_gemm_first(IrBuilder *b, const Ring *ring, int64_t number) {
    const PersistentTiles *t = &ring->persistent;
    IrValue *n = ir_const_index(b, number), *later = ir_binary(b, IR_FLOORDIV, n, t->trips);
    StageFetch fetch = {.tile = ir_binary(b, IR_ADD, t->loop->operands[0], ir_binary(b, IR_MUL, later, t->blocks))};
    IrValue *within = ir_binary(b, IR_MUL, ir_binary(b, IR_MOD, n, t->trips), ring->step);
    fetch.iteration = ir_binary(b, IR_ADD, ring->lower, within);
    fetch.exists = ir_binary(b, IR_LT, fetch.tile, t->tiles);
    return fetch;
}

StageFetch persistent_gemm_ahead(IrBuilder *b, Ring *ring, IrValue *i) {
    PersistentTiles *t = &ring->persistent;
    IrValue *within = ir_binary(b, IR_FLOORDIV, ir_binary(b, IR_SUB, i, ring->lower), ring->step);
    IrValue *number = ir_binary(b, IR_ADD, within, t->rest), *beyond = ir_binary(b, IR_LE, t->trips, number);
    IrValue *over = ir_select(b, beyond, t->trips, ir_const_index(b, 0));
    IrValue *there = ir_binary(b, IR_MUL, ir_binary(b, IR_SUB, number, over), ring->step);
    for (size_t k = 0; k < t->leaves.len; k++)
        t->leaves.data[k].there = ir_select(b, beyond, t->leaves.data[k].far, t->leaves.data[k].near);
    IrValue *tile = ir_select(b, beyond, t->far, t->near);
    return (StageFetch){.iteration = ir_binary(b, IR_ADD, ring->lower, there), .exists = ir_binary(b, IR_LT, tile, t->tiles)};
}
