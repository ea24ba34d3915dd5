/* Live ranges of fragments: a value lives from its definition to its last use in the order of the block that defines it. An operation takes the registers of
 * operands that end at it for its results. The regions of maps and of unrolled loops are straight code. */
#include "registers.h"

enum { CHAIN = 6 }; /* maps, one made of the other, that are followed: bounds the time of a search that forks (not measured) */

/* Bytes of a register of a thread. */
enum { REGISTER_BYTES = 4 };

/* At a position of a block, that of an operation: what lives before and behind it (first as a difference from the position before); what it ends and what it begins. */
typedef struct {
    int64_t through, ends, begins;
} Place;

typedef struct {
    Registers *all;
    const IrBlock *block;
    Place *places;
} Ranges;

static int64_t registers_of(const IrValue *v) {
    const IrType *t = v->type;
    if (t->kind != IR_TYPE_FRAG || t->dtype == DTYPE_BOOL) return 0;
    int64_t bytes = (int64_t)dtype_size(t->dtype);
    for (unsigned d = 0; d < t->rank; d++) bytes *= ir_type_extent(t, d);
    return (bytes + REGISTER_BYTES - 1) / REGISTER_BYTES;
}

static bool is_loop(const IrOp *op) {
    return op->opcode == IR_FOR && ir_attr_int(op, "unroll", 0) >= 0;
}

static const IrBlock *home_block(const IrValue *v) {
    return v->def ? v->def->block : v->block;
}

static bool is_within(const IrBlock *inner, const IrBlock *outer) {
    while (inner && inner != outer) inner = inner->parent ? inner->parent->block : NULL;
    return inner;
}

/* The operation of the block that the use stands in. */
static const IrOp *at_block(const IrOp *op, const IrBlock *block) {
    while (op->block != block) op = op->block->parent;
    return op;
}

/* A map reads what stands in its region once; a loop may read it again. */
static bool ends_at_use(const IrOp *use, const IrOp *at) {
    return use == at || at->opcode == IR_MAP;
}

/* The position of the value's last use in the block. */
static uint32_t last_use(const IrValue *v, const IrBlock *block, bool *ends) {
    uint32_t to = 0;
    *ends = true;
    for (const IrUse *u = v->uses; u; u = u->next) {
        if (!is_within(u->op->block, block)) continue;
        const IrOp *at = at_block(u->op, block);
        if (at->mark > to) to = at->mark, *ends = true;
        if (at->mark == to) *ends = *ends && ends_at_use(u->op, at);
    }
    return to;
}

static bool is_there(const IrValue *v, const IrBlock *block, uint32_t at, int chain);

/* Whether the map only computes, and what it reads is there at position `at` anyway: the assembler moves the computation to its use. */
static bool moves_to_use(const IrOp *map, const IrBlock *block, uint32_t at, int chain) {
    for (const IrOp *op = map->regions[0]->first; op; op = op->next) {
        if (op->region_count || !(ir_has_trait(op, IR_PURE) || op->opcode == IR_YIELD)) return false;
        for (unsigned i = 0; i < op->operand_count; i++)
            if (registers_of(op->operands[i]) && !is_there(op->operands[i], block, at, chain)) return false;
    }
    return true;
}

static bool is_there(const IrValue *v, const IrBlock *block, uint32_t at, int chain) {
    bool ends;
    if (home_block(v) != block || last_use(v, block, &ends) >= at) return true;
    return chain && v->def && v->def->opcode == IR_MAP && moves_to_use(v->def, block, at, chain - 1);
}

static void add_range(Ranges *r, const IrValue *v, uint32_t from) {
    int64_t n = registers_of(v);
    bool ends;
    if (!n) return;
    uint32_t to = last_use(v, r->block, &ends);
    if (to < from) to = from;
    if (v->def && v->def->opcode == IR_MAP && moves_to_use(v->def, r->block, to, CHAIN)) return;
    r->places[from].begins += n;
    if (to == from) return;
    r->places[from + 1].through += n;
    r->places[to + !ends].through -= n;
    if (ends) r->places[to].ends += n;
}

static void add_ranges(Ranges *r) {
    for (unsigned i = 0; i < r->block->arg_count; i++) add_range(r, r->block->args[i], 0);
    for (const IrOp *op = r->block->first; op; op = op->next)
        for (unsigned i = 0; i < op->result_count; i++) add_range(r, &op->results[i], op->mark);
}

/* Of values from outside that the block uses. */
static int64_t used_from_outside(PointerTable *seen, const IrBlock *block, const IrBlock *outer) {
    int64_t n = 0;
    uint32_t any;
    for (const IrOp *op = block->first; op; op = op->next) {
        for (unsigned i = 0; i < op->operand_count; i++) {
            const IrValue *v = op->operands[i];
            if (!registers_of(v) || is_within(home_block(v), outer) || pointer_table_get(seen, v, &any)) continue;
            pointer_table_set(seen, v, 0);
            n += registers_of(v);
        }
        for (unsigned i = 0; i < op->region_count; i++) n += used_from_outside(seen, op->regions[i], outer);
    }
    return n;
}

static int64_t live_at_most(Registers *all, const IrBlock *block);

/* Inside of an operation, beyond what lives through it. */
static int64_t live_inside(Registers *all, const IrOp *op) {
    int64_t most = 0;
    for (unsigned i = 0; i < op->region_count && op->opcode != IR_MAP; i++) {
        int64_t n = live_at_most(all, op->regions[i]);
        if (is_loop(op)) {
            PointerTable seen = pointer_table(all->arena);
            int64_t used = used_from_outside(&seen, op->regions[i], op->regions[i]);
            pointer_table_set(&all->blocks, op->regions[i], (uint32_t)(n + used));
            if (n + used > all->room) n = all->room > used ? all->room - used : 0;
        }
        if (n > most) most = n;
    }
    return most;
}

static int64_t live_at_most(Registers *all, const IrBlock *block) {
    uint32_t count = 0;
    for (IrOp *op = block->first; op; op = op->next) op->mark = ++count;
    Ranges r = {all, block, ARENA_ARRAY(all->arena, Place, count + 2)};
    add_ranges(&r);
    int64_t most = r.places[0].begins;
    for (const IrOp *op = block->first; op; op = op->next) {
        Place *p = &r.places[op->mark];
        p->through += p[-1].through;
        int64_t inside = live_inside(all, op), own = p->ends > p->begins ? p->ends : p->begins;
        if (inside > own) own = inside;
        if (p->through + own > most) most = p->through + own;
    }
    return most;
}

Registers registers_count(Arena *arena, const IrFunc *kernel, int64_t room) {
    Registers all = {pointer_table(arena), room, arena};
    pointer_table_set(&all.blocks, kernel->body, (uint32_t)live_at_most(&all, kernel->body));
    return all;
}

int64_t registers_spilled(const Registers *registers, const IrBlock *block) {
    uint32_t live;
    if (!pointer_table_get(&registers->blocks, block, &live)) return 0;
    return (int64_t)live > registers->room ? (int64_t)live - registers->room : 0;
}
