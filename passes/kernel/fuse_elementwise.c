/* Pass fuse_elementwise: neighbouring maps over the same extents become one.
 *
 * what:   two maps of a block with equal extents and only pure ops between them are merged when the
 *         second reads the first's results at its own index alone; a fragment that nothing else reads
 *         disappears. On a GPU maps stay apart if fusion would put masked stores, or sines, between the loads of a small map: the
 *         branches would make each load wait for the one before.
 *         If a map computes so many elements that they fill the registers, and a second map stores them in pieces under masks, both
 *         become one loop that computes each piece directly before its store: the first store does not wait for the last element.
 *         A map without results that evaluates many transcendental functions becomes a loop over groups of rows, because straight-line
 *         code that runs once is limited by instruction fetch. If a kernel's register limit is set for several blocks per
 *         multiprocessor, a map that copies many elements from shared to global memory becomes a loop over groups of ROWS_AT_ONCE rows as well: the
 *         addresses of all elements at once would not fit into registers.
 * needs:  kernel level.
 * keeps:  values; the order of effects per index. Accesses of one pointer are not interleaved.
 * breaks: nothing.
 * source: loop fusion of elementwise producers and consumers.
 *
 *   %a = map [64] (%i) { yield(f(%i)) }                     %b = map [64] (%i) { yield(g(f(%i))) }
 *   %b = map [64] (%j) { yield(g(frag.get(%a, %j))) }  =>
 */
#include "analysis/analysis.h"
#include "plant.h"

#include <string.h>

enum {
    LOADED = 32 /* iterations of a map whose loads are kept in registers */
};
enum {
    LEAST_UNROLLED = 64, /* iterations of a map that becomes a loop */
    ROWS_AT_ONCE = 16,   /* rows of an iteration of that loop */
    MOST_AXES = 16       /* of a map: room */
};
/* A map that evaluates more than MOST_FUNCTIONS functions and keeps nothing in registers becomes a loop (MOST_FUNCTIONS = INT32_MAX turns it off). An iteration
 * evaluates at most MOST_AT_ONCE functions, of at least LEAST_AT_ONCE lanes. If the map reads shared memory, as after a scan, and stands in a loop over chunks
 * that evaluates as many again, the limit is FEW_FUNCTIONS, and an iteration evaluates FEW_AT_ONCE. The loads of an iteration are in flight together. */
enum { MOST_FUNCTIONS = 20, FEW_FUNCTIONS = 12, MOST_AT_ONCE = 16, FEW_AT_ONCE = 8, LEAST_AT_ONCE = 4 };

typedef struct {
    PassContext *ctx;
    IrModule *module;
    bool changed;
} Fuse;

static bool same_extents(const IrOp *a, const IrOp *b) {
    const IrAttr *x = ir_attr(a, "extents"), *y = ir_attr(b, "extents");
    return x->count == y->count && memcmp(x->ints, y->ints, x->count * sizeof *x->ints) == 0;
}

/* An instruction says by its results whether it reads through its pointer or writes. */
static bool does(const IrOp *op, unsigned trait) {
    if (op->opcode == IR_ATOM && op->operands[0]->type->kind == IR_TYPE_PTR) return trait & (op->result_count ? IR_READS : IR_WRITES);
    return ir_has_trait(op, trait);
}

/* Does `op`, somewhere in a region, touch memory through `pointer` (null: any) with `trait`? */
static bool touches(const IrOp *op, const IrValue *pointer, unsigned trait) {
    for (unsigned r = 0; r < op->region_count; r++)
        for (const IrOp *inner = op->regions[r] ? op->regions[r]->first : NULL; inner; inner = inner->next) {
            if (inner->region_count && touches(inner, pointer, trait)) return true;
            if (!does(inner, trait) || inner->opcode == IR_YIELD) continue;
            if (!pointer) return true;
            for (unsigned i = 0; i < inner->operand_count; i++)
                if (inner->operands[i] == pointer) return true;
        }
    return false;
}

static bool writes_what_is_accessed(const IrOp *a, const IrOp *b) {
    for (const IrOp *op = a->regions[0]->first; op; op = op->next) {
        if (op->region_count && touches(op, NULL, IR_WRITES)) return true;
        if (!does(op, IR_WRITES)) continue;
        for (unsigned i = 0; i < op->operand_count; i++)
            if (op->operands[i]->type->kind == IR_TYPE_PTR && touches(b, op->operands[i], IR_READS | IR_WRITES)) return true;
    }
    return false;
}

static bool is_zero(const IrValue *v) {
    return v->def && v->def->opcode == IR_CONST && ir_attr_int(v->def, "value", 1) == 0;
}

/* Does the map make exponentials of few bits? Their argument is made with them (math_exp.c). */
static bool makes_powers(const IrOp *map) {
    for (const IrOp *op = map->regions[0]->first; op; op = op->next)
        if ((op->opcode == IR_EXP || op->opcode == IR_EXP2) && ir_attr(op, "bits")) return true;
    return false;
}

/* Along an axis of extent 1 the index is 0, whatever it is called. */
static bool is_own_index(const IrOp *get, const IrOp *map) {
    const IrBlock *body = map->regions[0];
    const IrAttr *extents = ir_attr(map, "extents");
    if (get->block != body || get->operand_count != body->arg_count + 1) return false;
    for (unsigned i = 0; i < body->arg_count; i++)
        if (get->operands[i + 1] != body->args[i] && (extents->ints[i] != 1 || !is_zero(get->operands[i + 1]) || !makes_powers(map)))
            return false;
    return true;
}

/* Every use of `first`'s results inside `second` reads the element of its own index. */
static bool reads_own_index(const IrOp *first, const IrOp *second) {
    for (unsigned r = 0; r < first->result_count; r++) {
        const IrValue *v = &first->results[r];
        unsigned width = first->regions[0]->last->operands[r]->type->width;
        for (const IrUse *u = v->uses; u; u = u->next) {
            const IrBlock *block = u->op->block;
            while (block->parent && block->parent != second) block = block->parent->block;
            if (!block->parent) continue;
            bool whole = u->op->opcode == IR_FRAG_GET && u->index == 0 && u->op->results[0].type->width == width;
            if (width != 1 || !whole || !is_own_index(u->op, second)) return false;
        }
    }
    return true;
}

/* A map that neither touches memory nor reads what the other one made. */
static bool computes_without(const IrOp *map, const IrOp *other) {
    if (map->opcode != IR_MAP) return false;
    for (const IrOp *op = map->regions[0]->first; op; op = op->next) {
        if (op->region_count || !(is_terminator(op) || ir_has_trait(op, IR_PURE))) return false;
        for (unsigned i = 0; i < op->operand_count; i++)
            if (op->operands[i]->def == other) return false;
    }
    return true;
}

/* The ops between the two can go before the first. */
static bool hoistable(const IrOp *first, const IrOp *second) {
    for (const IrOp *op = first->next; op != second; op = op->next) {
        if (op && computes_without(op, first)) continue;
        if (!op || !ir_has_trait(op, IR_PURE) || op->region_count) return false;
        for (unsigned i = 0; i < op->operand_count; i++)
            if (op->operands[i]->def == first) return false;
    }
    return true;
}

static bool accesses_global(const IrOp *map, IrOpcode access, bool masked) {
    for (const IrOp *op = map->regions[0]->first; op; op = op->next) {
        unsigned pointer = access == IR_MEM_STORE;
        if (op->opcode == access && op->operands[pointer]->type->space == IR_SPACE_GLOBAL && (!masked || op->operand_count > pointer + 2))
            return true;
    }
    return false;
}

/* Sines, which branch where an argument is large (math_trig.c). */
static bool computes_sines(const IrOp *map) {
    for (const IrOp *op = map->regions[0]->first; op; op = op->next) {
        bool angle = op->opcode == IR_SIN || op->opcode == IR_COS || op->opcode == IR_TAN;
        if (angle && dtype_bits(op->results[0].type->dtype) <= 32) return true;
    }
    return false;
}

/* A branch around each store, as compilers write a mask, or in each sine, and each load would wait for the one before: loads that a
 * thread's registers hold stay ahead. */
static bool branches_between_loads(const Fuse *f, const IrOp *first, const IrOp *second) {
    const IrAttr *extents = ir_attr(first, "extents");
    int64_t iterations = 1;
    for (size_t i = 0; i < extents->count; i++) iterations *= extents->ints[i];
    if (f->ctx->target->kind != TARGET_CUDA || iterations <= 1 || iterations > LOADED) return false;
    if (computes_sines(first) && accesses_global(second, IR_MEM_LOAD, false)) return true;
    return accesses_global(first, IR_MEM_LOAD, false) && (accesses_global(second, IR_MEM_STORE, true) || computes_sines(second));
}

static bool fusible(const Fuse *f, const IrOp *first, const IrOp *second) {
    return same_extents(first, second) && !branches_between_loads(f, first, second) && hoistable(first, second) &&
           (reads_own_index(first, second) || PLANTED(18)) && !writes_what_is_accessed(first, second) &&
           !writes_what_is_accessed(second, first);
}

static bool used_outside(const IrValue *v, const IrOp *second) {
    for (const IrUse *u = v->uses; u; u = u->next) {
        const IrBlock *block = u->op->block;
        while (block->parent && block->parent != second) block = block->parent->block;
        if (!block->parent) return true;
    }
    return false;
}

/* The body of `from` becomes that of `to`, which has none yet: nothing is copied, however long it is by now. */
static IrBlock *hand_over_body(IrOp *from, IrOp *to) {
    IrBlock *body = from->regions[0], *empty = to->regions[0];
    to->regions[0] = body;
    body->parent = to;
    from->regions[0] = empty;
    empty->parent = from;
    return body;
}

/* The ops of `second` behind those of `first` in `body`; what it read of first's results is at hand there. */
static void append_body(IrBlock *body, const IrOp *first, IrValue *const *made, IrOp *second) {
    IrBlock *from = second->regions[0];
    for (unsigned i = 0; i < from->arg_count; i++) {
        if (!body->args[i]->name) body->args[i]->name = from->args[i]->name;
        ir_replace_uses(from->args[i], body->args[i]);
    }
    for (IrOp *op = from->first, *next; op != from->last; op = next) {
        next = op->next;
        if (op->opcode == IR_FRAG_GET && op->operands[0]->def == first) {
            ir_replace_uses(&op->results[0], made[op->operands[0]->index]);
            ir_op_erase(op);
        } else {
            ir_op_move_to_end(op, body);
        }
    }
}

static IrOp *merge(Fuse *f, IrOp *first, IrOp *second) {
    while (first->next != second) ir_op_move_before(first->next, first);
    const IrAttr *extents = ir_attr(first, "extents");
    unsigned most = first->result_count + second->result_count, count = 0;
    const IrType **types = ARENA_ARRAY(f->ctx->scratch, const IrType *, most + 1);
    IrValue **old = ARENA_ARRAY(f->ctx->scratch, IrValue *, most + 1);
    IrValue **yields = ARENA_ARRAY(f->ctx->scratch, IrValue *, most + 1);
    IrValue **made = ARENA_ARRAY(f->ctx->scratch, IrValue *, first->result_count + 1);
    IrOp *first_yield = first->regions[0]->last;
    for (unsigned r = 0; r < first->result_count; r++) {
        made[r] = first_yield->operands[r];
        if (!used_outside(&first->results[r], second)) continue;
        yields[count] = made[r];
        old[count++] = &first->results[r];
    }
    unsigned kept = count;
    for (unsigned r = 0; r < second->result_count; r++) old[count++] = &second->results[r];
    for (unsigned i = 0; i < count; i++) types[i] = old[i]->type;
    IrBuilder b = ir_builder_after(second);
    b.span = second->span;
    IrOp *map = ir_map(&b, (unsigned)extents->count, extents->ints, count, types);
    IrBlock *body = hand_over_body(first, map);
    ir_op_erase(first_yield);
    append_body(body, first, made, second);
    for (unsigned i = 0; i < count; i++) {
        if (i >= kept) yields[i] = second->regions[0]->last->operands[old[i]->index];
        map->results[i].name = old[i]->name;
    }
    IrBuilder inner = ir_builder_at_end(body);
    inner.span = second->span;
    ir_yield(&inner, count, yields);
    for (unsigned i = 0; i < count; i++) ir_replace_uses(old[i], ir_result(map, i));
    ir_op_erase(second);
    ir_op_erase(first);
    f->changed = true;
    return map;
}

static IrOp *next_map(const IrOp *op) {
    IrOp *next = op->next;
    while (next && ir_has_trait(next, IR_PURE) && !next->region_count) next = next->next;
    return next && next->opcode == IR_MAP ? next : NULL;
}

static bool makes_functions(const IrOp *map) {
    for (const IrOp *op = map->regions[0]->first; op; op = op->next)
        if (ir_math_info(op->opcode)) return true;
    return false;
}

static bool reads_shared(const IrOp *map) {
    for (const IrOp *op = map->regions[0]->first; op; op = op->next)
        if (op->opcode == IR_MEM_LOAD && op->operands[0]->type->space == IR_SPACE_SHARED) return true;
    return false;
}

/* Behind maps that compute something else: one that keeps nothing and makes functions of what this one reads from shared memory, which may take
 * groups once it reads that itself. */
static IrOp *functions_behind(const IrOp *op) {
    IrOp *next = next_map(op);
    while (next && computes_without(next, op)) next = next_map(next);
    return next && !next->result_count && reads_shared(op) && makes_functions(next) ? next : NULL;
}

static void fuse_block(Fuse *f, IrBlock *block) {
    for (IrOp *op = block->first; op; op = op->next) {
        for (unsigned r = 0; r < op->region_count; r++)
            if (op->regions[r] && op->opcode != IR_MAP) fuse_block(f, op->regions[r]);
        while (op->opcode == IR_MAP) {
            IrOp *next = next_map(op);
            if (next && !fusible(f, op, next) && f->ctx->target->kind == TARGET_CUDA) next = functions_behind(op);
            if (!next || !fusible(f, op, next)) break;
            op = merge(f, op, next);
        }
    }
}

/* ---- Register loops: a map's rows in groups, one group an iteration ---- */

/* Does the map only bring elements from shared memory to global memory, so many that addresses of all at once fill registers? */
static bool takes_register_loop(const IrOp *map) {
    const IrAttr *extents = ir_attr(map, "extents");
    int64_t all = 1;
    bool shared = false;
    for (size_t i = 0; i < extents->count; i++) all *= extents->ints[i];
    if (map->result_count || extents->count > MOST_AXES || all < LEAST_UNROLLED) return false;
    if (extents->ints[0] <= ROWS_AT_ONCE || extents->ints[0] % ROWS_AT_ONCE) return false;
    for (const IrOp *op = map->regions[0]->first; op; op = op->next) {
        if (op->region_count || op->opcode == IR_FRAG_GET) return false;
        if (op->opcode == IR_MEM_LOAD) {
            if (op->operands[0]->type->space != IR_SPACE_SHARED) return false;
            shared = true;
        } else if (op->opcode != IR_MEM_STORE && !ir_has_trait(op, IR_PURE)) {
            return is_terminator(op) ? shared : false;
        }
    }
    return shared;
}

/* Does the map only load from global memory? */
static bool is_loads(const IrOp *map) {
    for (const IrOp *op = map->regions[0]->first; op; op = op->next) {
        bool load = op->opcode == IR_MEM_LOAD && op->operands[0]->type->space == IR_SPACE_GLOBAL;
        if (op->region_count || op->opcode == IR_FRAG_GET || !(load || is_terminator(op) || ir_has_trait(op, IR_PURE))) return false;
    }
    return map->result_count == 1;
}

/* May what `get` reads be loaded in the map's register loop, row by row? */
static bool is_loaded_for(const IrOp *get, const IrOp *map) {
    const IrOp *loads = get->operands[0]->def;
    if (!loads || loads->opcode != IR_MAP || loads->block != map->block || !is_loads(loads) || get->operands[1] != map->regions[0]->args[0])
        return false;
    const IrAttr *loaded = ir_attr(loads, "extents"), *made = ir_attr(map, "extents");
    if (!loaded->count || loaded->count > MOST_AXES || loaded->ints[0] != made->ints[0] || !hoistable(loads, map)) return false;
    for (const IrUse *use = loads->results[0].uses; use; use = use->next)
        if (use->op->block != map->regions[0] || use->op->opcode != IR_FRAG_GET || use->op->operands[1] != get->operands[1]) return false;
    return true;
}

/* Does it read the same element in every iteration? */
static bool is_fixed(const IrOp *get) {
    for (unsigned i = 1; i < get->operand_count; i++)
        if (!get->operands[i]->def || get->operands[i]->def->opcode != IR_CONST) return false;
    return true;
}

/* The rows of an iteration of the register loop; 0: there is none. *loads: the map that loads for this one alone, if there is one. */
static int64_t rows_for_functions(const IrOp *map, IrOp **loads) {
    const IrAttr *extents = ir_attr(map, "extents");
    int64_t all = 1, functions = 0, round = MOST_AT_ONCE, first = extents->count ? extents->ints[0] : 1;
    bool in_block = true; /* what other rows load is as it was when the map stores */
    if (map->result_count || !extents->count || extents->count > MOST_AXES) return 0;
    for (size_t i = 0; i < extents->count; i++) all *= extents->ints[i];
    for (const IrOp *op = map->regions[0]->first; op; op = op->next) {
        functions += ir_math_info(op->opcode) != NULL;
        if (op->region_count) return 0;
        in_block &= op->opcode != IR_MEM_STORE || op->operands[1]->type->space == IR_SPACE_SHARED;
        if (op->opcode != IR_FRAG_GET || is_fixed(op)) continue;
        if ((*loads && *loads != op->operands[0]->def) || !is_loaded_for(op, map)) return 0;
        *loads = op->operands[0]->def;
    }
    bool few = functions * all <= MOST_FUNCTIONS;
    if ((few && (functions * all <= FEW_FUNCTIONS || !reads_shared(map))) || (*loads && !in_block)) return 0;
    while (round && (first % round || round * (all / first) * functions > (few ? FEW_AT_ONCE : MOST_AT_ONCE))) round--;
    return round * (all / first) >= LEAST_AT_ONCE ? round : 0;
}

/* Row `i` of the map becomes row `first + i`, but where it is read from `loads`, which is cut likewise. */
static void cut_rows(IrOp *map, IrValue *first, int64_t rows, const IrOp *loads) {
    const IrAttr *extents = ir_attr(map, "extents");
    IrBlock *body = map->regions[0];
    IrBuilder inner = first->def && first->def->block == body ? ir_builder_after(first->def) : ir_builder_before(body->first);
    inner.span = map->span;
    IrValue *own = body->args[0], *index = ir_binary(&inner, IR_ADD, first, own);
    ir_replace_uses(own, index);
    ir_set_operand(index->def, index->def->operands[0] == first ? 1 : 0, own);
    for (const IrUse *use = loads ? loads->results[0].uses : NULL; use; use = use->next) ir_set_operand(use->op, 1, own);
    int64_t shorter[MOST_AXES];
    for (size_t i = 0; i < extents->count; i++) shorter[i] = i ? extents->ints[i] : rows;
    ir_attr_set_ints(map, "extents", extents->count, shorter);
}

/* map [32, 2] (%i, %j) { f(%i, %j) }  =>  for (%r < 2) { map [16, 2] (%i, %j) { f(16 %r + %i, %j) } }, and what is loaded for it alone before it */
static void make_register_loop(IrOp *map, int64_t rows, IrOp *loads) {
    while (loads && loads->next != map) ir_op_move_before(loads->next, loads);
    IrBuilder b = ir_builder_before(loads ? loads : map);
    b.span = map->span;
    IrOp *loop = ir_for(&b, ir_const_index(&b, 0), ir_const_index(&b, ir_attr(map, "extents")->ints[0] / rows), ir_const_index(&b, 1), 0,
                        NULL, "round");
    ir_attr_set_int(loop, "unroll", 1);
    IrBuilder in = ir_builder_at_end(loop->regions[0]);
    if (loads) ir_op_move_to_end(loads, loop->regions[0]);
    ir_op_move_to_end(map, loop->regions[0]);
    ir_yield(&in, 0, NULL);
    IrBuilder before = ir_builder_before(loads ? loads : map->regions[0]->first);
    before.span = map->span;
    IrValue *first = ir_binary(&before, IR_MUL, loop->regions[0]->args[0], ir_const_index(&before, rows));
    cut_rows(map, first, rows, loads);
    if (!loads) return;
    const IrType *old = loads->results[0].type;
    int64_t extents[MOST_AXES];
    for (unsigned i = 0; i < old->rank; i++)
        extents[i] = i ? ir_type_extent(old, i) : ir_type_extent(old, 0) / (ir_attr(loads, "extents")->ints[0] / rows);
    loads->results[0].type = ir_type_frag(b.module, old->dtype, old->rank, extents);
    cut_rows(loads, first, rows, NULL);
}

static void roll_block(const IrFunc *func, IrBlock *block) {
    for (IrOp *op = block->first, *next; op; op = next) {
        next = op->next;
        for (unsigned r = 0; r < op->region_count; r++)
            if (op->regions[r] && op->opcode != IR_MAP) roll_block(func, op->regions[r]);
        if (op->opcode != IR_MAP) continue;
        bool many = ir_func_int(func, IR_FN_MIN_BLOCKS, 1) > 1 && takes_register_loop(op);
        IrOp *loads = NULL;
        int64_t rows = many ? ROWS_AT_ONCE : rows_for_functions(op, &loads);
        if (rows) make_register_loop(op, rows, many ? NULL : loads);
    }
}

/* ---- Piece by piece ---- */

/* The store of a map that does nothing else, under a mask, to global memory; null: there is more. */
static IrOp *masked_store_of(const IrOp *map) {
    IrOp *store = NULL;
    if (map->result_count) return NULL;
    for (IrOp *op = map->regions[0]->first; op; op = op->next) {
        if (is_terminator(op)) continue;
        if (op->opcode == IR_MEM_STORE && !store)
            store = op;
        else if (!ir_has_trait(op, IR_PURE) || op->region_count)
            return NULL;
    }
    return store && store->operand_count > 3 && store->operands[1]->type->space == IR_SPACE_GLOBAL ? store : NULL;
}

static bool is_arithmetic(const IrOp *map) {
    for (const IrOp *op = map->regions[0]->first; op; op = op->next)
        if (!is_terminator(op) && (!ir_has_trait(op, IR_PURE) || op->region_count)) return false;
    return map->result_count == 1;
}

/* Does `second` store by rows of more elements than one what `first` makes for it alone, so many that they fill registers? */
static bool stores_rows_of(const IrOp *first, const IrOp *second) {
    const IrOp *store = masked_store_of(second);
    const IrAttr *made = ir_attr(first, "extents"), *stored = ir_attr(second, "extents");
    if (!store || !is_arithmetic(first) || made->count < 2 || stored->count < 1 || made->ints[0] != stored->ints[0] || made->ints[0] < 2)
        return false;
    int64_t elements = 1;
    for (size_t i = 0; i < made->count; i++) elements *= made->ints[i];
    const IrUse *use = first->results[0].uses;
    if (elements < LEAST_UNROLLED || !use || use->next || use->index) return false;
    const IrOp *get = use->op;
    return get->opcode == IR_FRAG_GET && get->block == second->regions[0] && store->operands[0] == &get->results[0] &&
           get->operands[1] == second->regions[0]->args[0];
}

/* The map's first index becomes the loop's number. */
static void take_row(IrOp *map, IrOp *loop) {
    const IrAttr *extents = ir_attr(map, "extents");
    int64_t one[MOST_AXES] = {1};
    ir_op_move_to_end(map, loop->regions[0]);
    ir_replace_uses(map->regions[0]->args[0], loop->regions[0]->args[0]);
    for (size_t i = 1; i < extents->count; i++) one[i] = extents->ints[i];
    ir_attr_set_ints(map, "extents", extents->count, one);
}

/* map [24, 4] (%i, %j) { yield(f(%i, %j)) }; map [24] (%i) { store(row %i) }  =>  for (%r < 24) { map [1, 4] ...; map [1] { store(row 0) } } */
static void store_row_by_row(Fuse *f, IrOp *first, IrOp *second) {
    while (first->next != second) ir_op_move_before(first->next, first);
    const IrAttr *extents = ir_attr(first, "extents");
    const IrType *old = first->results[0].type;
    IrBuilder b = ir_builder_after(second);
    b.span = second->span;
    IrOp *get = first->results[0].uses->op;
    IrOp *loop = ir_for(&b, ir_const_index(&b, 0), ir_const_index(&b, extents->ints[0]), ir_const_index(&b, 1), 0, NULL, "row");
    ir_attr_set_int(loop, "unroll", -1);
    take_row(first, loop);
    take_row(second, loop);
    first->results[0].type = ir_type_frag(f->module, old->dtype, (unsigned)extents->count, ir_attr(first, "extents")->ints);
    IrBuilder in = ir_builder_before(get), end = ir_builder_at_end(loop->regions[0]);
    ir_set_operand(get, 1, ir_const_index(&in, 0));
    ir_yield(&end, 0, NULL);
}

static void sink_block(Fuse *f, IrBlock *block) {
    for (IrOp *op = block->first, *next; op; op = next) {
        for (unsigned r = 0; r < op->region_count; r++)
            if (op->regions[r] && op->opcode != IR_MAP) sink_block(f, op->regions[r]);
        next = op->next;
        IrOp *second = op->opcode == IR_MAP ? next_map(op) : NULL;
        if (!second || ir_attr(op, "extents")->count > MOST_AXES || !stores_rows_of(op, second) || !hoistable(op, second)) continue;
        next = second->next;
        store_row_by_row(f, op, second);
    }
}

bool pass_fuse_elementwise(PassContext *ctx) {
    for (IrFunc *func = ctx->module->first; func; func = func->next) {
        Fuse f = {.ctx = ctx, .module = ctx->module};
        if (func->level != IR_LEVEL_KERNEL) continue;
        fuse_block(&f, func->body);
        if (ctx->target->kind != TARGET_CUDA) continue;
        fuse_block(&f, func->body); /* what functions_behind looks for is one map by now */
        sink_block(&f, func->body);
        roll_block(func, func->body);
    }
    return true;
}
