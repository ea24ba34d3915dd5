/* Rows ahead in pipelined consumers, for prefetch_rows: items that are mapped an iteration behind their sums. */
#include "analysis/analysis.h"
#include "gpu.h"
#include "pipelined_consumer.h"
#include "prefetch_internal.h"

/* ---- Items that are mapped an iteration behind their sums ---- */

/* A map of each of the two parts. */
typedef struct {
    const PipelinedConsumer *consumer;
    const IrOp *map, *other;
} MapPair;

/* The item of each part, or the same index of the two maps? */
static bool is_same_in_parts(void *ctx, const IrValue *v, const IrValue *w) {
    const MapPair *p = ctx;
    if (v == p->consumer->coming && w == p->consumer->item) return true;
    return !v->def && !w->def && home_of(v) == p->map->regions[0] && home_of(w) == p->other->regions[0] && v->index == w->index;
}

static bool loads_the_same(const PipelinedConsumer *consumer, const IrOp *map, const IrOp *other) {
    const IrOp *load = prefetch_load_of(map), *again = prefetch_load_of(other);
    MapPair pair = {consumer, map, other};
    if (load->operand_count != again->operand_count || map->results[0].type != other->results[0].type || !ir_attrs_equal(map, other))
        return false;
    for (unsigned i = 0; i < load->operand_count; i++)
        if (!ir_equivalent(load->operands[i], again->operands[i], is_same_in_parts, &pair)) return false;
    return true;
}

static void enter_part(Prefetch *a, const PipelinedConsumer *consumer, bool second) {
    a->part = (second ? consumer->second : consumer->first)->regions[0];
    a->number = second ? consumer->item : consumer->coming;
}

/* The first part's row that the map loads, too. */
static Row *summed_row(Prefetch *a, const PipelinedConsumer *consumer, const IrOp *map) {
    for (unsigned i = 0; i < a->count; i++)
        if (!a->rows[i].mapped && loads_the_same(consumer, a->rows[i].first, map)) return &a->rows[i];
    return NULL;
}

static void find_consumer_rows(Prefetch *a, const PipelinedConsumer *consumer, bool second, int64_t *used) {
    enter_part(a, consumer, second);
    for (IrOp *op = a->part->first; op; op = op->next) {
        Row row;
        if (op->opcode != IR_MAP || !prefetch_read_own(a, op, &row)) continue;
        Row *summed = second ? summed_row(a, consumer, op) : NULL;
        if (second) row.mapped = op;
        if (summed)
            summed->mapped = op;
        else
            prefetch_keep_row(a, row, used);
    }
}

/* What an iteration loads, if there is one of that number. */
static void copy_iteration(Prefetch *a, const PipelinedConsumer *consumer, IrBuilder *b, IrValue *iteration) {
    IrValue *exists = ir_binary(b, IR_LT, iteration, consumer->iterations);
    IrBuilder in = ir_builder_at_end(ir_op_create(b, IR_IF, 1, &exists, 0, NULL)->regions[0]);
    IrValue *item = ir_binary(&in, IR_ADD, consumer->block, ir_binary(&in, IR_MUL, iteration, consumer->blocks));
    for (unsigned i = 0; i < a->count; i++) {
        enter_part(a, consumer, a->rows[i].first == a->rows[i].mapped);
        prefetch_copy_row(a, &a->rows[i], &in, a->rows[i].first, item, true);
    }
    ir_yield(&in, 0, NULL);
    ir_op_create(b, IR_ASYNC_COMMIT, 0, NULL, 0, NULL);
}

/* A fragment of what stands for nothing: the first iteration maps nothing. */
static IrValue *nothing(const Row *row, IrBuilder *b) {
    IrOp *map = prefetch_like(row, b, true);
    IrBuilder in = ir_builder_at_end(map->regions[0]);
    const IrType *type = prefetch_load_of(row->first)->results[0].type;
    IrOp *zero = ir_op_create(&in, IR_CONST, 0, NULL, 1, &type);
    if (dtype_is_float(type->dtype))
        ir_attr_set_float(zero, "value", 0);
    else
        ir_attr_set_int(zero, "value", 0);
    IrValue *value = ir_result(zero, 0);
    ir_yield(&in, 1, &value);
    return ir_result(map, 0);
}

/* The loop with the fragments that are mapped an iteration later. */
static IrOp *longer_loop(const Prefetch *a, IrValue **inits, IrValue **next, unsigned carried) {
    IrOp *old = a->loop;
    IrBuilder b = ir_builder_before(old);
    b.span = old->span;
    IrBlock *from = old->regions[0];
    IrOp *loop = ir_for(&b, old->operands[0], old->operands[1], old->operands[2], carried, inits, from->args[0]->name);
    IrBlock *to = loop->regions[0];
    ir_replace_uses(from->args[0], to->args[0]);
    for (IrOp *op = from->first, *after; op != from->last; op = after) {
        after = op->next;
        ir_op_move_to_end(op, to);
    }
    IrBuilder end = ir_builder_at_end(to);
    ir_yield(&end, carried, next);
    return loop;
}

/* What the second part needs comes from the iteration before. */
static void carry_rows(Prefetch *a, IrValue **next) {
    IrValue **inits = ARENA_ARRAY(a->ctx->scratch, IrValue *, a->count + 1);
    unsigned carried = 0;
    IrBuilder before = ir_builder_before(a->loop);
    for (unsigned i = 0; i < a->count; i++)
        if (a->rows[i].mapped) inits[carried++] = nothing(&a->rows[i], &before);
    IrOp *old = a->loop;
    a->loop = longer_loop(a, inits, next, carried);
    carried = 0;
    for (unsigned i = 0; i < a->count; i++) {
        if (!a->rows[i].mapped) continue;
        IrValue *row = a->loop->regions[0]->args[1 + carried++];
        row->name = a->rows[i].mapped->results[0].name;
        ir_replace_uses(&a->rows[i].mapped->results[0], row);
    }
    ir_op_erase(old->regions[0]->last);
    ir_op_erase(old);
}

/* The first part reads what was copied for it. */
static void sum_from_place(const Prefetch *a, const Row *row) {
    IrBuilder b = ir_builder_before(row->first);
    b.span = row->first->span;
    IrValue *old = ir_result(row->first, 0), *value = prefetch_read_back(a, row, &b);
    value->name = old->name;
    ir_replace_uses(old, value);
}

/* The load of a map that waits for one element of another block, and does nothing else; null: it is another map. */
static IrOp *awaited_by(const IrOp *map) {
    IrOp *load = NULL;
    if (map->opcode != IR_MAP || map->result_count != 1) return NULL;
    for (IrOp *op = map->regions[0]->first; op; op = op->next) {
        if (op->opcode == IR_MEM_LOAD && !load && ir_attr_bool(op, "awaits"))
            load = op;
        else if (!is_terminator(op) && (!ir_has_trait(op, IR_PURE) || op->region_count))
            return NULL;
    }
    return load && map->regions[0]->last->operands[0] == &load->results[0] ? load : NULL;
}

/* The map awaits only what `early` has not seen: 0, or -0, which is there at once. */
static void await_rest(IrOp *map, IrOp *load, IrValue *early) {
    IrBlock *body = map->regions[0];
    IrBuilder b = ir_builder_before(load);
    IrValue **operands = ARENA_ARRAY(b.module->arena, IrValue *, body->arg_count + 1);
    const IrType *type = load->results[0].type;
    operands[0] = early;
    for (unsigned i = 0; i < body->arg_count; i++) operands[1 + i] = body->args[i];
    IrValue *seen = ir_result(ir_op_create(&b, IR_FRAG_GET, body->arg_count + 1, operands, 1, &type), 0);
    IrOp *zero = ir_op_create(&b, IR_CONST, 0, NULL, 1, &type);
    ir_attr_set_float(zero, "value", 0);
    IrValue *absent = ir_binary(&b, IR_EQ, seen, ir_result(zero, 0));
    if (load->operand_count > 2) absent = ir_binary(&b, IR_AND, load->operands[2], absent);
    IrValue *all[4] = {load->operands[0], load->operands[1], absent, seen};
    IrOp *rest = ir_op_create(&b, IR_MEM_LOAD, 4, all, 1, &type);
    ir_attr_copy(rest, load, "align");
    ir_attr_set_bool(rest, "awaits", true);
    ir_replace_uses(&load->results[0], ir_result(rest, 0));
    ir_op_erase(load);
}

/* A look at what the iteration awaits, before it does anything else: mostly all of it is there, and has come when the sums are made. */
static void look_early(Prefetch *a, const PipelinedConsumer *consumer) {
    IrBlock *body = a->loop->regions[0];
    IrBuilder b = ir_builder_before(body->first);
    IrValue *before = ir_binary(&b, IR_MAX, ir_binary(&b, IR_SUB, body->args[0], ir_const_index(&b, 1)), ir_const_index(&b, 0));
    IrValue *item = ir_binary(&b, IR_ADD, consumer->block, ir_binary(&b, IR_MUL, before, consumer->blocks));
    enter_part(a, consumer, true);
    for (IrOp *op = consumer->second->regions[0]->first; op; op = op->next) {
        IrOp *load = awaited_by(op);
        if (!load || !prefetch_map_is_movable(a, op)) continue;
        IrValueMap *values = ir_value_map_create(a->ctx->scratch);
        ir_value_map_set(values, a->number, item);
        b.span = op->span;
        for (const IrOp *in = op->regions[0]->first; in; in = in->next)
            for (unsigned i = 0; i < in->operand_count; i++) prefetch_make_again(a, &b, values, in->operands[i]);
        IrOp *early = ir_op_clone(&b, op, values);
        IrOp *look = awaited_by(early);
        ir_attr_remove(look, "awaits");
        ir_attr_set_bool(look, "peeks", true);
        await_rest(op, load, ir_result(early, 0));
    }
}

/* Copies to shared memory are issued when an iteration has read what the one before left there: its sums, and what the next iteration maps. */
void prefetch_for_consumer(PassContext *ctx, IrFunc *f, PipelinedConsumer *consumer) {
    int64_t used = whole_lines(ir_func_int(f, IR_FN_SHARED_BYTES, 0));
    Prefetch a = {.ctx = ctx, .func = f, .loop = consumer->loop, .threads = WARP * ir_func_int(f, IR_FN_NUM_WARPS, 1)};
    OpList ops = ops_collect(ctx->scratch, consumer->loop->regions[0]);
    a.rows = ARENA_ARRAY(ctx->scratch, Row, ops.len + 1);
    look_early(&a, consumer);
    find_consumer_rows(&a, consumer, false, &used);
    find_consumer_rows(&a, consumer, true, &used);
    if (!a.count) return;
    ir_func_set_int(f, IR_FN_SHARED_BYTES, used);
    IrBlock *body = a.loop->regions[0];
    IrBuilder before = ir_builder_before(a.loop), head = ir_builder_before(body->first), end = ir_builder_before(body->last);
    IrValue **next = ARENA_ARRAY(ctx->scratch, IrValue *, a.count + 1);
    unsigned carried = 0;
    copy_iteration(&a, consumer, &before, ir_const_index(&before, 0));
    prefetch_wait_for_all(&head);
    for (unsigned i = 0; i < a.count; i++) {
        const Row *r = &a.rows[i];
        if (r->first != r->mapped) sum_from_place(&a, r);
        if (r->mapped) next[carried++] = prefetch_read_back(&a, r, &end);
    }
    copy_iteration(&a, consumer, &end, ir_binary(&end, IR_ADD, body->args[0], ir_const_index(&end, 1)));
    carry_rows(&a, next);
    for (unsigned i = 0; i < a.count; i++) {
        if (a.rows[i].mapped && a.rows[i].mapped != a.rows[i].first) ir_op_erase(a.rows[i].mapped);
        ir_op_erase(a.rows[i].first);
    }
    consumer->loop = a.loop;
    IrBuilder after = ir_builder_after(a.loop);
    prefetch_wait_for_all(&after);
}
