/* Pass prefetch_rows: blocks that process several rows, one after the other, load the next row into shared memory while they work on
 * this one.
 *
 * what:   a fragment that a loop over iterations carries, loaded at the end of each iteration for the next one, leaves the
 *         registers: each thread copies its own lanes, asynchronously, to places of its own in shared memory, and reads
 *         them back at the start of the next iteration. No other thread accesses these places, so that no barrier is needed. The copies are
 *         issued only if there is a next iteration: after the iteration's first reduction if many elements need transcendental functions,
 *         otherwise as soon as the row is read back. Absent lanes get the value that the load gives them.
 *         In kernels whose blocks synchronise with others, loads that depend on the iteration's number alone are copied ahead in the same way,
 *         directly after the block's arrival: no one waits for these copies, and they overlap the wait.
 * needs:  kernel level, before fuse_elementwise, target cuda with cp.async; a kernel with the attribute `resident` (one block
 *         fills a multiprocessor) or `meeting`; room in the block's shared memory
 * keeps:  values, order of effects within an iteration
 * breaks: shared_bytes
 * source: double buffering; docs/decisions/pipelining.md
 *
 *   %x = map { load(%X, %m) }                          map { async.copy(%X, %m, own) }; async.commit
 *   for(%m, ..., %x) (%i, %row) {                      for(%m, ...) (%i) {
 *     ... barrier ... store                    =>        async.wait; %row = map { load(own) }
 *     %n = map { load(%X, %i + step) }                   ... barrier ...
 *     yield(%n)                                          if (%i + step < ...) map { async.copy(%X, %i + step, own) }
 *                                                        async.commit ... store
 *   }                                                  }; async.wait
 */
#include "analysis/analysis.h"
#include "gpu.h"
#include "pipelined_consumer.h"
#include "prefetch_internal.h"

#include <string.h>

enum { COPIED = 4 /* the least that cp.async takes, and twice and four times that */ };

static bool is_of_iteration(const Prefetch *a, const IrBlock *block) {
    return block == a->loop->regions[0] || (a->part && block == a->part);
}

/* ---- Which loops ---- */

static bool is_read_only(const IrValue *pointer) {
    if (pointer->def || pointer->type->kind != IR_TYPE_PTR) return false;
    for (const IrUse *u = pointer->uses; u; u = u->next)
        if (u->index != 0 || (u->op->opcode != IR_MEM_LOAD && u->op->opcode != IR_ASYNC_COPY)) return false;
    return true;
}

IrOp *prefetch_load_of(const IrOp *map) {
    if (!map || map->opcode != IR_MAP || map->result_count != 1) return NULL;
    const IrOp *yield = map->regions[0]->last;
    IrOp *load = yield->operands[0]->def;
    if (!load || load->opcode != IR_MEM_LOAD || load->block != map->regions[0] || !is_read_only(load->operands[0])) return NULL;
    for (const IrOp *op = map->regions[0]->first; op != yield; op = op->next)
        if (op != load && (!ir_has_trait(op, IR_PURE) || op->region_count)) return NULL;
    const IrValue *other = load->operand_count > 3 ? load->operands[3] : NULL;
    return other && (!other->def || other->def->opcode != IR_CONST) ? NULL : load;
}

static bool has_one_use(const IrValue *v) {
    return v->uses && !v->uses->next;
}

/* Can the value be had anywhere in the loop's body: index arithmetic of its number and of what stands outside? */
static bool is_movable(const Prefetch *a, const IrValue *v) {
    if (v == a->number || !is_inside(home_of(v), a->loop->regions[0])) return true;
    if (!v->def || !is_of_iteration(a, v->def->block) || !ir_has_trait(v->def, IR_PURE) || v->def->region_count) return false;
    for (unsigned i = 0; i < v->def->operand_count; i++)
        if (!is_movable(a, v->def->operands[i])) return false;
    return true;
}

bool prefetch_map_is_movable(const Prefetch *a, const IrOp *map) {
    for (const IrOp *op = map->regions[0]->first; op; op = op->next)
        for (unsigned i = 0; i < op->operand_count; i++)
            if (home_of(op->operands[i]) != map->regions[0] && !is_movable(a, op->operands[i])) return false;
    return true;
}

/* The same index of the two maps? */
static bool is_same_index(void *ctx, const IrValue *v, const IrValue *w) {
    const Row *row = ctx;
    return !v->def && !w->def && home_of(v) == row->first->regions[0] && home_of(w) == row->next->regions[0] && v->index == w->index;
}

/* Are the same lanes absent at every iteration, with the same constant in their place? */
static bool has_same_absent(const Row *row, const IrOp *load, const IrOp *again) {
    if (load->operand_count < 3 || again->operand_count < 3) return load->operand_count == again->operand_count;
    const IrAttr *c = ir_attr(load->operands[3]->def, "value"), *d = ir_attr(again->operands[3]->def, "value");
    bool same = c->kind == d->kind && (c->kind == IR_ATTR_FLOAT ? c->number == d->number : c->integer == d->integer);
    return same && ir_equivalent(load->operands[2], again->operands[2], is_same_index, (void *)row);
}

static void measure(Row *row, const IrOp *load) {
    const IrAttr *extents = ir_attr(row->first, "extents");
    for (size_t i = 0; i < extents->count; i++) row->pieces *= extents->ints[i];
    const IrType *type = load->results[0].type;
    row->width = type->width > 1 ? type->width : 1;
    row->size = (int64_t)dtype_size(type->dtype);
}

static bool is_copied(const Row *row) {
    int64_t bytes = row->width * row->size;
    return bytes == COPIED || bytes == 2 * COPIED || bytes == 4 * COPIED;
}

static bool read_row(const Prefetch *a, unsigned index, Row *row) {
    const IrValue *first = a->loop->operands[3 + index], *next = a->loop->regions[0]->last->operands[index];
    *row = (Row){.index = index, .first = first->def, .next = next->def, .pieces = 1};
    const IrOp *load = prefetch_load_of(row->first), *again = prefetch_load_of(row->next);
    if (!load || !again || a->loop->results[index].uses || !has_one_use(first) || !has_one_use(next)) return false;
    if (row->next->block != a->loop->regions[0] || !prefetch_map_is_movable(a, row->next)) return false;
    if (load->results[0].type != again->results[0].type) return false;
    const IrAttr *extents = ir_attr(row->first, "extents"), *others = ir_attr(row->next, "extents");
    if (extents->count != others->count || memcmp(extents->ints, others->ints, extents->count * sizeof *extents->ints) != 0) return false;
    measure(row, load);
    row->alike = has_same_absent(row, load, again);
    return is_copied(row);
}

static bool is_carried(const Row *row) {
    return row->first != row->next;
}

bool prefetch_read_own(const Prefetch *a, IrOp *map, Row *row) {
    const IrOp *load = prefetch_load_of(map);
    *row = (Row){.first = map, .next = map, .pieces = 1};
    if (!load || !prefetch_map_is_movable(a, map)) return false;
    measure(row, load);
    return is_copied(row);
}

static int64_t bytes_of(const Prefetch *a, const Row *row) {
    return row->pieces * row->width * row->size * a->threads;
}

void prefetch_keep_row(Prefetch *a, Row row, int64_t *used) {
    const Target *t = a->ctx->target;
    int64_t bytes = bytes_of(a, &row), room = t->shared_bytes_sm / ir_func_int(a->func, IR_FN_MIN_BLOCKS, 1) - SYSTEM_BYTES;
    if (*used + bytes > (room < t->shared_bytes_block ? room : t->shared_bytes_block)) return;
    const IrType *type = ir_type_ptr(a->func->module, row.first->results[0].type->dtype, IR_SPACE_SHARED);
    IrBuilder b = ir_builder_before(is_carried(&row) ? row.first : a->loop);
    IrOp *pointer = ir_op_create(&b, IR_SHARED_PTR, 0, NULL, 1, &type);
    ir_attr_set_int(pointer, "offset", *used);
    ir_attr_set_int(pointer, "bytes", bytes);
    ir_attr_set_str(pointer, "name", "ahead");
    row.shared = ir_result(pointer, 0);
    *used += whole_lines(bytes);
    a->rows[a->count++] = row;
}

static void find_rows(Prefetch *a) {
    int64_t used = whole_lines(ir_func_int(a->func, IR_FN_SHARED_BYTES, 0));
    size_t maps = 0;
    Row row;
    for (const IrOp *op = a->loop->regions[0]->first; op; op = op->next) maps += op->opcode == IR_MAP;
    a->rows = ARENA_ARRAY(a->ctx->scratch, Row, a->loop->result_count + maps + 1);
    for (unsigned i = 0; i < a->loop->result_count; i++)
        if (read_row(a, i, &row)) prefetch_keep_row(a, row, &used);
    for (IrOp *op = a->loop->regions[0]->first; op && a->meets; op = op->next)
        if (prefetch_read_own(a, op, &row)) prefetch_keep_row(a, row, &used);
    if (a->count) ir_func_set_int(a->func, IR_FN_SHARED_BYTES, used);
}

/* ---- Copies ---- */

static IrValue *times(IrBuilder *b, IrValue *v, int64_t k) {
    return ir_binary(b, IR_MUL, v, ir_const_index(b, k));
}

/* Where a piece is, in elements: the threads' pieces of one number stand side by side. */
static IrValue *place(const Prefetch *a, const Row *row, IrBuilder *outer, IrBuilder *b, const IrOp *map) {
    const IrAttr *extents = ir_attr(row->first, "extents");
    IrValue *thread = ir_binary(outer, IR_ADD, times(outer, ir_special(outer, IR_SPECIAL_WARP), WARP), ir_special(outer, IR_SPECIAL_LANE)),
            *number = NULL;
    for (size_t i = 0; i < extents->count; i++) {
        IrValue *at = map->regions[0]->args[i];
        number = number ? ir_binary(b, IR_ADD, times(b, number, extents->ints[i]), at) : at;
    }
    return ir_binary(b, IR_ADD, times(outer, thread, row->width), times(b, number, a->threads * row->width));
}

IrOp *prefetch_like(const Row *row, IrBuilder *b, bool result) {
    const IrAttr *extents = ir_attr(row->first, "extents");
    const IrType *type = row->first->results[0].type;
    return ir_map(b, (unsigned)extents->count, extents->ints, result, &type);
}

static void store_other(const Row *row, IrBuilder *b, const IrOp *other, IrValue *to) {
    const IrType *type = ir_type_vec(b->module, other->results[0].type->dtype, (unsigned)row->width);
    IrOp *fill = ir_op_create(b, IR_CONST, 0, NULL, 1, &type);
    ir_attr_copy(fill, other, "value");
    IrValue *operands[3] = {ir_result(fill, 0), row->shared, to};
    ir_attr_set_int(ir_op_create(b, IR_MEM_STORE, 3, operands, 0, NULL), "align", row->width * row->size);
}

/* One piece; `others`: where the mask is false, what stands for absent lanes is stored. */
static void copy_piece(const Row *row, IrBuilder *b, const IrOp *load, IrValueMap *values, IrValue *to, bool others) {
    IrValue *mask = load->operand_count > 2 ? ir_value_map_get(values, load->operands[2]) : NULL;
    IrBuilder in = *b;
    if (mask) {
        IrOp *branch = ir_op_create(b, IR_IF, 1, &mask, 0, NULL);
        in = ir_builder_at_end(branch->regions[0]);
        in.span = b->span;
        if (others) {
            IrBuilder out = ir_builder_at_end(branch->regions[1]);
            out.span = b->span;
            store_other(row, &out, load->operands[3]->def, to);
            ir_yield(&out, 0, NULL);
        }
    }
    int64_t bytes = row->width * row->size;
    IrValue *operands[5] = {load->operands[0], ir_value_map_get(values, load->operands[1]), row->shared, to, ir_const_index(&in, bytes)};
    ir_attr_set_int(ir_op_create(&in, IR_ASYNC_COPY, 5, operands, 0, NULL), "bytes", bytes);
    if (mask) ir_yield(&in, 0, NULL);
}

void prefetch_make_again(const Prefetch *a, IrBuilder *b, IrValueMap *values, IrValue *v) {
    if (!v->def || !is_of_iteration(a, v->def->block) || ir_value_map_get(values, v) != v) return;
    for (unsigned i = 0; i < v->def->operand_count; i++) prefetch_make_again(a, b, values, v->def->operands[i]);
    ir_op_clone(b, v->def, values);
}

void prefetch_copy_row(const Prefetch *a, const Row *row, IrBuilder *b, const IrOp *map, IrValue *number, bool others) {
    IrValueMap *values = ir_value_map_create(a->ctx->scratch);
    ir_value_map_set(values, a->number, number);
    const IrOp *load = prefetch_load_of(map);
    b->span = map->span;
    for (const IrOp *op = map->regions[0]->first; op; op = op->next)
        for (unsigned i = 0; i < op->operand_count; i++) prefetch_make_again(a, b, values, op->operands[i]);
    IrOp *copies = prefetch_like(row, b, false);
    IrBuilder in = ir_builder_at_end(copies->regions[0]), outer = ir_builder_before(copies);
    in.span = outer.span = map->span;
    for (unsigned i = 0; i < map->regions[0]->arg_count; i++)
        ir_value_map_set(values, map->regions[0]->args[i], copies->regions[0]->args[i]);
    for (const IrOp *op = map->regions[0]->first; op != map->regions[0]->last; op = op->next)
        if (op != load) ir_op_clone(&in, op, values);
    copy_piece(row, &in, load, values, place(a, row, &outer, &in, copies), others);
    ir_yield(&in, 0, NULL);
}

IrValue *prefetch_read_back(const Prefetch *a, const Row *row, IrBuilder *b) {
    IrOp *map = prefetch_like(row, b, true);
    IrBuilder in = ir_builder_at_end(map->regions[0]), outer = ir_builder_before(map);
    in.span = outer.span = b->span;
    IrValue *operands[2] = {row->shared, place(a, row, &outer, &in, map)};
    const IrType *type = prefetch_load_of(row->first)->results[0].type;
    IrOp *load = ir_op_create(&in, IR_MEM_LOAD, 2, operands, 1, &type);
    ir_attr_set_int(load, "align", row->width * row->size);
    IrValue *value = ir_result(load, 0);
    ir_yield(&in, 1, &value);
    return ir_result(map, 0);
}

void prefetch_wait_for_all(IrBuilder *b) {
    ir_attr_set_int(ir_op_create(b, IR_ASYNC_WAIT, 0, NULL, 0, NULL), "pending", 0);
}

/* ---- The loop ---- */

static bool is_ahead(const Prefetch *a, unsigned index) {
    for (unsigned i = 0; i < a->count; i++)
        if (is_carried(&a->rows[i]) && a->rows[i].index == index) return true;
    return false;
}

/* The loop without the rows. */
static IrOp *shorter_loop(const Prefetch *a) {
    IrOp *old = a->loop;
    IrValue **kept = ARENA_ARRAY(a->ctx->scratch, IrValue *, old->result_count + 1);
    unsigned n = 0;
    for (unsigned i = 0; i < old->result_count; i++)
        if (!is_ahead(a, i)) kept[n++] = old->operands[3 + i];
    IrBuilder b = ir_builder_before(old);
    b.span = old->span;
    IrBlock *from = old->regions[0];
    IrOp *loop = ir_for(&b, old->operands[0], old->operands[1], old->operands[2], n, kept, from->args[0]->name);
    loop->attrs = old->attrs;
    IrBlock *to = loop->regions[0];
    ir_replace_uses(from->args[0], to->args[0]);
    IrOp *yield = from->last;
    n = 0;
    for (unsigned i = 0; i < old->result_count; i++) {
        if (is_ahead(a, i)) continue;
        kept[n] = yield->operands[i];
        ir_replace_uses(from->args[1 + i], to->args[1 + n]);
        ir_replace_uses(&old->results[i], &loop->results[n++]);
    }
    for (IrOp *op = from->first, *next; op != yield; op = next) {
        next = op->next;
        ir_op_move_to_end(op, to);
    }
    IrBuilder end = ir_builder_at_end(to);
    ir_yield(&end, n, kept);
    return loop;
}

/* Behind the first reduction, whose last barrier is the cluster's where there is one, and the map that combines its partials: copies
 * that wait for memory hold up no access of shared memory that all blocks wait for, and what a thread has read back is in registers. */
static IrOp *behind_reduction(const Prefetch *a, IrBlock *body) {
    IrScope scope = ir_func_cluster(a->func) > 1 ? IR_SCOPE_CLUSTER : IR_SCOPE_BLOCK;
    IrOp *op = body->first;
    while (op && !is_barrier(op, scope)) op = op->next;
    while (op && op->opcode != IR_MAP) op = op->next;
    return op ? op->next : body->first;
}

/* What of an iteration decides where its copies are issued. */
typedef struct {
    bool functions; /* of many elements, not of what is reduced alone */
    bool fences;    /* the cluster's barriers, which wait for copies, too */
} Iteration;

static void look_at_iteration(void *context, IrOp *op) {
    Iteration *iteration = context;
    const IrOp *map = op->block->parent;
    const IrAttr *extents = map && map->opcode == IR_MAP && ir_math_info(op->opcode) ? ir_attr(map, "extents") : NULL;
    for (size_t i = 0; extents && i < extents->count; i++) iteration->functions |= extents->ints[i] > 1;
    iteration->fences |= is_barrier(op, IR_SCOPE_CLUSTER);
}

/* Where the copies of an iteration are issued: as soon as the row is read back, so that memory has work while the reduction waits, and in
 * front of its barriers, past which assemblers move no copy (ptxas put them behind the exponentials of all elements). Where the
 * reduction's barrier fences: behind it, if exponentials keep the multiprocessor busy from there on. */
static IrOp *copies_before(const Prefetch *a, IrBlock *body, IrOp *read) {
    if (a->meets) return a->meets->next; /* nobody waits for the copies; they are under way while this block waits */
    Iteration iteration = {0};
    ir_walk(body, look_at_iteration, &iteration);
    return iteration.functions && iteration.fences ? behind_reduction(a, body) : read;
}

static IrValue *next_iteration(const Prefetch *a, IrBuilder *b) {
    return ir_binary(b, IR_ADD, a->loop->regions[0]->args[0], a->loop->operands[2]);
}

/* Where there is a next iteration. */
static IrBuilder if_next(const Prefetch *a, IrBuilder *b, IrValue *next) {
    IrValue *exists = ir_binary(b, IR_LT, next, a->loop->operands[1]);
    return ir_builder_at_end(ir_op_create(b, IR_IF, 1, &exists, 0, NULL)->regions[0]);
}

/* The first iteration's rows. */
static void copy_first_rows(const Prefetch *a) {
    IrBuilder before = ir_builder_before(a->loop);
    IrValue *begin = a->loop->operands[0];
    for (unsigned i = 0; i < a->count; i++) {
        bool carried = is_carried(&a->rows[i]);
        IrBuilder b = ir_builder_before(carried ? a->rows[i].first : a->loop);
        prefetch_copy_row(a, &a->rows[i], &b, a->rows[i].first, begin, true);
    }
    ir_op_create(&before, IR_ASYNC_COMMIT, 0, NULL, 0, NULL);
}

/* In each iteration the next one's rows. */
static void copy_next_rows(const Prefetch *a, IrOp *before) {
    IrBuilder issue = ir_builder_before(before);
    IrValue *number = a->loop->regions[0]->args[0], *next = next_iteration(a, &issue);
    IrBuilder inside = if_next(a, &issue, next);
    for (unsigned i = 0; i < a->count; i++)
        prefetch_copy_row(a, &a->rows[i], &inside, a->rows[i].next, is_carried(&a->rows[i]) ? number : next, !a->rows[i].alike);
    ir_yield(&inside, 0, NULL);
    ir_op_create(&issue, IR_ASYNC_COMMIT, 0, NULL, 0, NULL);
}

static void copy_ahead(Prefetch *a) {
    copy_first_rows(a);
    IrOp *begin = a->loop->regions[0]->first;
    IrBuilder head = ir_builder_before(begin);
    head.span = a->loop->span;
    prefetch_wait_for_all(&head);
    for (unsigned i = 0; i < a->count; i++) {
        const Row *r = &a->rows[i];
        IrValue *old = is_carried(r) ? a->loop->regions[0]->args[1 + r->index] : &r->first->results[0],
                *row = prefetch_read_back(a, r, &head);
        row->name = old->name;
        ir_replace_uses(old, row);
    }
    copy_next_rows(a, copies_before(a, a->loop->regions[0], begin));
    IrOp *loop = shorter_loop(a);
    ir_op_erase(a->loop->regions[0]->last);
    ir_op_erase(a->loop);
    for (unsigned i = 0; i < a->count; i++) {
        ir_op_erase(a->rows[i].first);
        if (is_carried(&a->rows[i])) ir_op_erase(a->rows[i].next);
    }
    IrBuilder after = ir_builder_after(loop);
    prefetch_wait_for_all(&after);
}

typedef struct {
    bool async;
} Seen;

static void look(void *context, IrOp *op) {
    Seen *s = context;
    s->async |= op->opcode == IR_ASYNC_COMMIT || op->opcode == IR_ASYNC_WAIT;
}

static IrOp *arrival_in(const IrBlock *body) {
    IrOp *op = body->first;
    while (op && op->opcode != IR_GRID_BARRIER_ARRIVE) op = op->next;
    return op;
}

static void prefetch_rows(PassContext *ctx, IrFunc *f) {
    Seen seen = {0};
    bool meets = ir_func_has(f, IR_FN_MEETING);
    if ((!ir_func_int(f, IR_FN_RESIDENT, 0) && !meets) || ir_func_has(f, IR_FN_PIPELINED_CONSUMER) ||
        !target_has(ctx->target, TARGET_CP_ASYNC))
        return;
    ir_walk(f->body, look, &seen);
    if (seen.async) return; /* groups are counted there */
    for (IrOp *op = f->body->first; op; op = op->next) {
        if (op->opcode != IR_FOR || (!op->result_count && !meets)) continue;
        Prefetch a = {
            .ctx = ctx, .func = f, .loop = op, .threads = WARP * ir_func_int(f, IR_FN_NUM_WARPS, 1), .number = op->regions[0]->args[0]};
        if (meets) a.meets = arrival_in(op->regions[0]);
        find_rows(&a);
        if (a.count) copy_ahead(&a);
        return;
    }
}

bool pass_prefetch_rows(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next)
        if (f->level == IR_LEVEL_KERNEL) prefetch_rows(ctx, f);
    return true;
}
