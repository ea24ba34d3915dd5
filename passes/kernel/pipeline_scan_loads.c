/* Pass pipeline_scan_loads: a loop whose threads wait for each other in a scan loads its next chunk before it scans this one.
 *
 * what:   in a loop that `lower_to_threads` marked as scanning, take the maps that only load global memory that the kernel does not
 *         write, at indices that depend on the loop's index and on values from outside. They are executed for the first iteration before
 *         the loop, and for the next iteration at the start of each one; the loop carries their fragments. Beyond the last iteration
 *         nothing is loaded. This is done only if the blocks of the largest case are fewer than half of those that the device runs at
 *         once: with more blocks, other blocks load while this one scans, and need the registers.
 * needs:  kernel level, before fuse_elementwise, cuda
 * keeps:  values
 * breaks: nothing
 * source: software pipelining of a loop of one stage (Rau)
 *
 *     for(%lo, %N, %s) (%i) {                       %first = map [16] { yield(mem.load(%X, f(%lo))) }
 *       %x = map [16] { yield(mem.load(%X, f(%i))) }  for(%lo, %N, %s, %first) (%i, %x) {
 *       ...                                      =>     %next = map [16] { yield(mem.load(%X, f(%i + %s))) }
 *     }                                                 ...
 *                                                       yield(%next)
 */
#include <string.h>

#include "analysis/analysis.h"

enum {
    MOST_CARRIED = 4, /* maps of loads that are carried: room */
    MOST_BYTES = 128  /* of a thread's registers that a chunk in flight may take: 32 (note 33) */
};

typedef struct {
    PassContext *ctx;
    IrOp *loop;
    IrFunc *func;
    unsigned count;
    IrOp *maps[MOST_CARRIED];
} ScanLoads;

/* Can the value be made again for another iteration: from the loop's number, what is outside of it, and index arithmetic? */
static bool is_of_number(const ScanLoads *a, const IrValue *v) {
    const IrOp *op = v->def;
    if (!is_inside_op(home_of(v), a->loop)) return true;
    if (!op) return v == a->loop->regions[0]->args[0];
    if (op->region_count || !ir_has_trait(op, IR_PURE)) return false;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (!is_of_number(a, op->operands[i])) return false;
    return true;
}

static bool is_read_only(const ScanLoads *a, const IrValue *pointer) {
    if (pointer->def || pointer->block != a->func->body || pointer->type->space != IR_SPACE_GLOBAL) return false;
    for (const IrUse *use = pointer->uses; use; use = use->next)
        if (use->op->opcode != IR_MEM_LOAD || use->index != 0) return false;
    return true;
}

/* A map that loads under masks, and does nothing else. */
static bool only_loads(const ScanLoads *a, const IrOp *map) {
    int64_t bytes = 0;
    bool loads = false;
    if (map->opcode != IR_MAP || !map->result_count) return false;
    for (const IrOp *op = map->regions[0]->first; op; op = op->next) {
        if (is_terminator(op)) continue;
        bool load = op->opcode == IR_MEM_LOAD && op->operand_count == 4 && is_read_only(a, op->operands[0]);
        if (!load && (op->region_count || !ir_has_trait(op, IR_PURE))) return false;
        for (unsigned i = 0; i < op->operand_count; i++)
            if (!is_inside_op(home_of(op->operands[i]), map) && !is_of_number(a, op->operands[i])) return false;
        loads |= load;
    }
    for (unsigned i = 0; i < map->result_count; i++) {
        const IrType *t = map->results[i].type;
        int64_t elements = 1;
        for (unsigned d = 0; d < t->rank; d++) elements *= ir_type_extent(t, d);
        bytes += elements * (int64_t)dtype_size(t->dtype);
    }
    return loads && bytes <= MOST_BYTES;
}

static void collect(ScanLoads *a) {
    for (IrOp *op = a->loop->regions[0]->first; op; op = op->next)
        if (only_loads(a, op) && op->result_count == 1 && a->count < MOST_CARRIED) a->maps[a->count++] = op;
}

/* Are the blocks of the largest case fewer than half of those that run at once? */
static bool leaves_places(const PassContext *ctx, const IrFunc *f) {
    const Aff *grid = ir_func_aff(f, IR_FN_GRID_X);
    int64_t most = grid ? size_most(ctx, f, grid) : 0, threads = 32 * ir_func_int(f, IR_FN_NUM_WARPS, 1);
    return most && 2 * most * threads <= (int64_t)ctx->target->sms * ctx->target->threads_sm;
}

/* Loads only where `inside` is true. */
static void limit_loads(IrOp *map, IrValue *inside) {
    for (IrOp *op = map->regions[0]->first; op; op = op->next) {
        if (op->opcode != IR_MEM_LOAD) continue;
        IrBuilder b = ir_builder_before(op);
        ir_set_operand(op, 2, ir_binary(&b, IR_AND, op->operands[2], inside));
    }
}

/* What an op is made of within the loop, and the op, at the builder; `map` says what the loop's number is. */
static void clone_with(const ScanLoads *a, IrBuilder *b, const IrOp *op, IrValueMap *map);

static void clone_operand(const ScanLoads *a, IrBuilder *b, const IrValue *v, IrValueMap *map) {
    if (!v->def || v->def->block != a->loop->regions[0] || ir_value_map_get(map, (IrValue *)v) != v) return;
    clone_with(a, b, v->def, map);
}

static void clone_with(const ScanLoads *a, IrBuilder *b, const IrOp *op, IrValueMap *map) {
    for (unsigned i = 0; i < op->operand_count; i++) clone_operand(a, b, op->operands[i], map);
    for (unsigned r = 0; r < op->region_count; r++)
        for (const IrOp *inner = op->regions[r]->first; inner; inner = inner->next)
            for (unsigned i = 0; i < inner->operand_count; i++) clone_operand(a, b, inner->operands[i], map);
    ir_op_clone(b, op, map);
}

/* The loads of iteration `number`, if there is one. */
static void loads_at(const ScanLoads *a, IrBuilder *b, IrValue *number, IrValue **loaded) {
    IrValueMap *map = ir_value_map_create(a->ctx->scratch);
    IrValue *inside = ir_binary(b, IR_LT, ir_const_index(b, 0), ir_binary(b, IR_SUB, a->loop->operands[1], number));
    ir_value_map_set(map, a->loop->regions[0]->args[0], number);
    for (unsigned i = 0; i < a->count; i++) {
        clone_with(a, b, a->maps[i], map);
        loaded[i] = ir_value_map_get(map, &a->maps[i]->results[0]);
        limit_loads(loaded[i]->def, inside);
    }
}

static void rotate(ScanLoads *a) {
    IrOp *old = a->loop;
    IrBlock *body = old->regions[0];
    unsigned carried = old->operand_count - 3;
    IrBuilder b = ir_builder_before(old);
    b.span = old->span;
    IrValue **inits = ARENA_ARRAY(a->ctx->scratch, IrValue *, carried + a->count), *next[MOST_CARRIED];
    for (unsigned i = 0; i < carried; i++) inits[i] = old->operands[3 + i];
    loads_at(a, &b, old->operands[0], inits + carried);
    IrOp *loop = ir_for(&b, old->operands[0], old->operands[1], old->operands[2], carried + a->count, inits, body->args[0]->name);
    for (const IrAttr *at = old->attrs; at; at = at->next)
        if (strcmp(at->key, "scans") != 0) ir_attr_copy(loop, old, at->key);
    IrBlock *to = loop->regions[0];
    IrBuilder in = ir_builder_at_end(to);
    IrValueMap *map = ir_value_map_create(a->ctx->scratch);
    for (unsigned i = 0; i <= carried; i++) ir_value_map_set(map, body->args[i], to->args[i]);
    in.span = old->span;
    loads_at(a, &in, ir_binary(&in, IR_ADD, to->args[0], old->operands[2]), next);
    for (unsigned i = 0; i < a->count; i++) ir_value_map_set(map, &a->maps[i]->results[0], to->args[1 + carried + i]);
    for (IrOp *op = body->first; op; op = op->next) {
        bool loaded = false;
        for (unsigned i = 0; i < a->count; i++) loaded |= op == a->maps[i];
        if (loaded || is_terminator(op)) continue;
        in.span = op->span;
        ir_op_clone(&in, op, map);
    }
    IrValue **last = ARENA_ARRAY(a->ctx->scratch, IrValue *, carried + a->count);
    for (unsigned i = 0; i < carried; i++) last[i] = ir_value_map_get(map, body->last->operands[i]);
    for (unsigned i = 0; i < a->count; i++) last[carried + i] = next[i];
    ir_yield(&in, carried + a->count, last);
    for (unsigned i = 0; i < carried; i++) {
        loop->results[i].name = old->results[i].name;
        ir_replace_uses(&old->results[i], &loop->results[i]);
    }
    ir_op_erase(old);
}

bool pass_pipeline_scan_loads(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        if (f->level != IR_LEVEL_KERNEL || !leaves_places(ctx, f)) continue;
        OpList ops = ops_collect(ctx->scratch, f->body);
        for (size_t i = 0; i < ops.len; i++) {
            ScanLoads a = {.ctx = ctx, .loop = ops.data[i], .func = f};
            if (a.loop->opcode != IR_FOR || !ir_attr_bool(a.loop, "scans")) continue;
            collect(&a);
            if (a.count) rotate(&a);
        }
    }
    return true;
}
