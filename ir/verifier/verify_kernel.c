/* Rules of ops of one thread or core. */
#include <string.h>

#include "verify_internal.h"
#include "wgmma.h"

static bool is_lanes(const IrType *t) {
    return t->kind == IR_TYPE_SCALAR && !t->is_index;
}

static bool is_power_of_two(int64_t n) {
    return n > 0 && (n & (n - 1)) == 0;
}

static bool check_special(Verifier *v, const IrOp *op) {
    bool of_cluster = ir_is_of_cluster(ir_op_special(op));
    NEED(v, op, !of_cluster || ir_func_cluster(v->func) > 1, "the function has no clusters");
    NEED(v, op, !ir_attr_bool(op, "backwards") || !of_cluster, "clusters are not counted from the last");
    NEED(v, op, ir_type_is_index(op->results[0].type), "special values are index values");
    return true;
}

/* ---- Fragments ---- */

/* Result extents are the map's, the last one times the width of what is yielded. */
static bool check_map_result(Verifier *v, const IrOp *op, const IrAttr *extents, unsigned i) {
    const IrType *frag = op->results[i].type, *lanes = op->regions[0]->last->operands[i]->type;
    NEED(v, op, frag->kind == IR_TYPE_FRAG && is_lanes(lanes), "result %u is no frag of scalars", i);
    NEED(v, op, frag->dtype == lanes->dtype, "result %u has another dtype than what is yielded", i);
    NEED(v, op, frag->rank == extents->count, "result %u has another rank than the map", i);
    for (unsigned k = 0; k < frag->rank; k++) {
        int64_t want = extents->ints[k] * (k + 1 == frag->rank ? (int64_t)lanes->width : 1);
        NEED(v, op, ir_type_extent(frag, k) == want, "result %u: extent %u is not %lld", i, k, (long long)want);
    }
    return true;
}

static bool check_map(Verifier *v, const IrOp *op) {
    const IrAttr *extents = ir_attr(op, "extents");
    const IrBlock *body = op->regions[0];
    NEED(v, op, extents->count >= 1 && extents->count <= IR_MAX_RANK, "a map has from 1 to %d axes", (int)IR_MAX_RANK);
    int64_t total = 1;
    for (size_t i = 0; i < extents->count; i++) {
        NEED(v, op, extents->ints[i] >= 1 && extents->ints[i] <= (1 << 20), "extents are from 1 to 2^20");
        total *= extents->ints[i];
        NEED(v, op, total <= (1 << 24), "a map has at most 2^24 points");
    }
    NEED(v, op, body->arg_count == extents->count, "the region takes an index for each extent");
    for (unsigned i = 0; i < body->arg_count; i++) NEED(v, op, ir_type_is_index(body->args[i]->type), "the region's arguments are indices");
    if (!body->last || body->last->opcode != IR_YIELD) return false; /* reported */
    NEED(v, op, body->last->operand_count == op->result_count, "the region does not yield %u values", op->result_count);
    for (unsigned i = 0; i < op->result_count; i++)
        if (!check_map_result(v, op, extents, i)) return false;
    return true;
}

static bool check_frag_get(Verifier *v, const IrOp *op) {
    const IrType *frag = op->operands[0]->type, *t = op->results[0].type;
    NEED(v, op, frag->kind == IR_TYPE_FRAG && op->operand_count == frag->rank + 1, "one index for each axis of a frag");
    NEED(v, op, is_lanes(t) && t->dtype == frag->dtype, "the result is a scalar or vec of the frag's dtype");
    NEED(v, op, !frag->rank || (int64_t)t->width <= ir_type_extent(frag, frag->rank - 1), "the vec is wider than the last axis");
    return ir_check_index_operands(v, op, 1);
}

/* ---- Memory ---- */

static bool check_address(Verifier *v, const IrOp *op, unsigned ptr, const IrType *value) {
    const IrType *t = op->operands[ptr]->type;
    int64_t align = ir_attr_int(op, "align", 1);
    NEED(v, op, t->kind == IR_TYPE_PTR, "operand %u is no pointer", ptr);
    NEED(v, op, ir_type_is_index(op->operands[ptr + 1]->type), "the offset is an index");
    NEED(v, op, is_lanes(value) && value->dtype == t->dtype, "the value is a scalar or vec of the pointer's dtype");
    NEED(v, op, is_power_of_two(align) && align <= 128, "align is a power of two up to 128");
    return true;
}

/* An element by which one block tells others something. */
static bool check_told(Verifier *v, const IrOp *op, const IrValue *ptr, const IrType *t) {
    NEED(v, op, t == ir_type_scalar(v->module, DTYPE_F32) && ptr->type->space == IR_SPACE_GLOBAL,
         "blocks publish and await single f32 in global memory");
    NEED(v, op, ir_func_int(v->func, IR_FN_COOPERATIVE, 0), "blocks wait for each other in cooperative launches only");
    for (const IrUse *use = ptr->uses; use; use = use->next) {
        bool tells = use->op->opcode == IR_MEM_STORE
                         ? ir_attr_bool(use->op, "publishes")
                         : use->op->opcode == IR_MEM_LOAD && (ir_attr_bool(use->op, "awaits") || ir_attr_bool(use->op, "peeks"));
        NEED(v, use->op, tells, "what blocks tell each other is published and awaited by every access");
    }
    return true;
}

static bool check_mem_load(Verifier *v, const IrOp *op) {
    const IrType *t = op->results[0].type;
    NEED(v, op, op->operand_count != 3, "a mask comes with the other value");
    for (const IrUse *use = op->operands[0]->uses; use && ir_attr_bool(op, "predicated"); use = use->next)
        NEED(v, op, use->op->opcode != IR_MEM_STORE && use->op->opcode != IR_MEM_ATOMIC,
             "a predicated load is of memory that is only read");
    if (!check_address(v, op, 0, t)) return false;
    if ((ir_attr_bool(op, "awaits") || ir_attr_bool(op, "peeks")) && !check_told(v, op, op->operands[0], t)) return false;
    if (op->operand_count == 2) return true;
    NEED(v, op, ir_type_is_bool(op->operands[2]->type), "the mask is a bool scalar");
    NEED(v, op, op->operands[3]->type == ir_type_scalar(v->module, t->dtype), "the other value is a scalar of the element's dtype");
    return true;
}

static bool check_mem_store(Verifier *v, const IrOp *op) {
    if (!check_address(v, op, 1, op->operands[0]->type)) return false;
    if (ir_attr_bool(op, "publishes") && !check_told(v, op, op->operands[1], op->operands[0]->type)) return false;
    NEED(v, op, op->operand_count == 3 || ir_type_is_bool(op->operands[3]->type), "the mask is a bool scalar");
    return true;
}

/* Of the region, when it is there: the old element in, the new one out. */
static bool check_mem_atomic(Verifier *v, const IrOp *op) {
    if (!check_mem_store(v, op)) return false;
    const IrType *t = op->operands[0]->type;
    const IrBlock *region = op->regions[0];
    IrKind kind = ir_op_kind(op);
    NEED(v, op, kind == IR_KIND_ADD || kind == IR_KIND_MAX || kind == IR_KIND_MIN, "kind is add, max or min");
    NEED(v, op, t->width == 1 && op->operands[1]->type->space == IR_SPACE_GLOBAL, "updates one element of global memory");
    if (!region->last) return true;
    NEED(v, op, region->arg_count == 1 && region->args[0]->type == t, "the region takes the old element");
    NEED(v, op, region->last->operand_count == 1 && region->last->operands[0]->type == t, "the region yields the new element");
    return true;
}

static bool check_shared_ptr(Verifier *v, const IrOp *op) {
    const IrType *t = op->results[0].type;
    int64_t offset = ir_attr_int(op, "offset", -1), bytes = ir_attr_int(op, "bytes", -1);
    NEED(v, op, t->kind == IR_TYPE_PTR && t->space == IR_SPACE_SHARED, "the result is a pointer to shared memory");
    NEED(v, op, offset >= 0 && bytes >= 0 && offset <= INT32_MAX && bytes <= INT32_MAX, "offset and bytes are not negative");
    NEED(v, op, offset % (int64_t)dtype_size(t->dtype) == 0, "the offset is not aligned to the element");
    return true;
}

static bool check_cluster_ptr(Verifier *v, const IrOp *op) {
    const IrType *from = op->operands[0]->type, *t = op->results[0].type;
    NEED(v, op, from->kind == IR_TYPE_PTR && from->space == IR_SPACE_SHARED, "the operand is a pointer to shared memory");
    NEED(v, op, t->kind == IR_TYPE_PTR && t->space == IR_SPACE_CLUSTER && t->dtype == from->dtype,
         "the result is a pointer to a cluster's shared memory of the same dtype");
    NEED(v, op, ir_type_is_index(op->operands[1]->type), "the rank is an index");
    NEED(v, op, ir_func_cluster(v->func) > 1, "the function has no clusters");
    return true;
}

static bool check_cluster_barrier(Verifier *v, const IrOp *op, unsigned operand) {
    const IrType *t = op->operands[operand]->type;
    NEED(v, op, t->kind == IR_TYPE_PTR && t->space == IR_SPACE_SHARED && t->dtype == DTYPE_U64, "the barrier is u64 of shared memory");
    NEED(v, op, ir_func_cluster(v->func) > 1, "the function has no clusters");
    return true;
}

/* The begin makes every barrier; a block that waits at another one waits for ever. */
static bool is_made(const IrValue *barrier) {
    for (const IrUse *use = barrier->uses; use; use = use->next)
        if (use->op->opcode == IR_CLUSTER_BEGIN) return true;
    return false;
}

typedef struct {
    const IrOp *meet;
    bool reached;
    bool other; /* the number is an earlier barrier's, too, or the barrier has two: its phase is one bit of one number */
} Number;

static void look_for_number(void *context, IrOp *op) {
    Number *n = context;
    n->reached |= op == n->meet;
    if (op->opcode != IR_CLUSTER_MEET || n->reached) return;
    n->other |= (op->operands[0] == n->meet->operands[0]) != (ir_attr_int(op, "number", 0) == ir_attr_int(n->meet, "number", 0));
}

static bool check_cluster_meet(Verifier *v, const IrOp *op) {
    int64_t number = ir_attr_int(op, "number", 0);
    NEED(v, op, ir_attr_int(op, "bytes", 0) > 0, "some bytes come");
    NEED(v, op, number >= 0 && number < 32, "barriers are numbered from 0 to 31");
    if (!check_cluster_barrier(v, op, 0)) return false;
    Number same = {.meet = op};
    ir_walk(v->func->body, look_for_number, &same);
    NEED(v, op, !same.other, "a barrier has one number, of its own");
    NEED(v, op, is_made(op->operands[0]), "no cluster.begin makes the barrier");
    return true;
}

static bool check_cluster_begin(Verifier *v, const IrOp *op) {
    NEED(v, op, ir_func_cluster(v->func) > 1, "the function has no clusters");
    for (unsigned i = 0; i < op->operand_count; i++)
        if (!check_cluster_barrier(v, op, i)) return false;
    return true;
}

static bool check_cluster_send(Verifier *v, const IrOp *op) {
    if (!check_address(v, op, 1, op->operands[0]->type)) return false;
    const IrType *t = op->operands[0]->type;
    NEED(v, op, op->operands[1]->type->space == IR_SPACE_SHARED, "the pointer is to shared memory");
    NEED(v, op, t->width == 1 && (dtype_size(t->dtype) == 4 || dtype_size(t->dtype) == 8), "the value is one of 4 or 8 bytes");
    NEED(v, op, op->operand_count == 4 || ir_type_is_bool(op->operands[4]->type), "the mask is a bool scalar");
    if (!check_cluster_barrier(v, op, 3)) return false;
    NEED(v, op, is_made(op->operands[3]), "no cluster.begin makes the barrier");
    return true;
}

static bool check_async_copy(Verifier *v, const IrOp *op) {
    const IrType *from = op->operands[0]->type, *to = op->operands[2]->type;
    int64_t bytes = ir_attr_int(op, "bytes", 0);
    NEED(v, op, from->kind == IR_TYPE_PTR && from->space == IR_SPACE_GLOBAL, "the source is global memory");
    NEED(v, op, to->kind == IR_TYPE_PTR && to->space == IR_SPACE_SHARED, "the destination is shared memory");
    NEED(v, op, from->dtype == to->dtype, "source and destination have one dtype");
    NEED(v, op, bytes == 4 || bytes == 8 || bytes == 16, "bytes is 4, 8 or 16");
    NEED(v, op,
         ir_type_is_index(op->operands[1]->type) && ir_type_is_index(op->operands[3]->type) && ir_type_is_index(op->operands[4]->type),
         "offsets and the count are index values");
    return true;
}

/* ---- The copy engine, products of warpgroups ---- */

static bool is_shared(const IrOp *op, unsigned at) {
    const IrType *t = op->operands[at]->type;
    return t->kind == IR_TYPE_PTR && t->space == IR_SPACE_SHARED && ir_type_is_index(op->operands[at + 1]->type);
}

static bool check_tma_load(Verifier *v, const IrOp *op) {
    const IrValue *map = op->operands[0];
    bool is_map = map->type->kind == IR_TYPE_PTR && map->type->space == IR_SPACE_MAP && !map->def;
    NEED(v, op, is_map, "reads through a tensor map of the function");
    NEED(v, op, op->operand_count == 5 + v->func->params[map->index].map.rank, "has a coordinate for each axis of the tensor");
    NEED(v, op, is_shared(op, 1) && op->operands[1]->type->dtype == map->type->dtype, "copies into shared memory of the tensor's dtype");
    NEED(v, op, is_shared(op, 3) && op->operands[3]->type->dtype == DTYPE_U64, "names a barrier by a shared pointer to u64 and an offset");
    NEED(v, op, !ir_attr_bool(op, "multicast") || ir_func_cluster(v->func) > 1, "the function has no clusters");
    return ir_check_index_operands(v, op, 5);
}

static int64_t frag_elements(const IrType *t) {
    int64_t count = 1;
    for (unsigned i = 0; i < t->rank; i++) count *= ir_type_extent(t, i);
    return count;
}

/* The first factor as a fragment: a thread has a 128th of 64 rows. */
static bool check_registers(Verifier *v, const IrOp *op, const Wgmma *kind) {
    const IrAttr *at = op->operands[1]->def ? ir_attr(op->operands[1]->def, "value") : NULL;
    int64_t step = kind->depth / 2;
    NEED(v, op, kind->registers && !ir_attr_bool(op, "trans_a"), "such a factor does not come from registers");
    NEED(v, op, at && at->kind == IR_ATTR_INT, "a fragment's elements are named by a constant");
    NEED(v, op, at->integer >= 0 && at->integer % step == 0 && at->integer + step <= frag_elements(op->operands[0]->type),
         "the fragment has no %lld elements from %lld on", (long long)step, (long long)at->integer);
    NEED(v, op, !ir_attr(op, "swizzle")->ints[0] && !ir_attr(op, "lead")->ints[0], "registers have no swizzle");
    return true;
}

static bool check_wgmma(Verifier *v, const IrOp *op) {
    const IrType *acc = op->results[0].type;
    const IrAttr *swizzle = ir_attr(op, "swizzle"), *lead = ir_attr(op, "lead");
    bool registers = op->operands[0]->type->kind == IR_TYPE_FRAG;
    NEED(v, op, (registers || is_shared(op, 0)) && is_shared(op, 2) && op->operands[0]->type->dtype == op->operands[2]->type->dtype,
         "the factors are of one dtype, in shared memory");
    NEED(v, op, acc->kind == IR_TYPE_FRAG && (op->operand_count == 4 || op->operands[4]->type == acc),
         "the result has the accumulators' type");
    int64_t sums = frag_elements(acc);
    NEED(v, op, sums >= 4 && sums <= 128 && sums % 4 == 0, "n is a multiple of 8 up to 256");
    const Wgmma *kind = wgmma_find(op->operands[0]->type->dtype, acc->dtype);
    NEED(v, op, kind, "no instruction multiplies these into such accumulators");
    NEED(v, op, !kind->k_major || (!ir_attr_bool(op, "trans_a") && !ir_attr_bool(op, "trans_b")), "such factors are contiguous along k");
    NEED(v, op, swizzle->count == 2 && lead->count == 2, "swizzle and lead are of a and of b");
    if (registers && !check_registers(v, op, kind)) return false;
    for (unsigned i = registers; i < 2; i++) {
        int64_t s = swizzle->ints[i], l = lead->ints[i];
        NEED(v, op, s == 32 || s == 64 || s == 128, "a swizzle is of 32, 64 or 128 bytes");
        NEED(v, op, l >= 0 && l % 16 == 0 && l < 1 << 18, "blocks are a multiple of 16 bytes apart, below 2^18");
    }
    return true;
}

/* ---- Lanes and threads ---- */

static bool check_shuffle(Verifier *v, const IrOp *op) {
    int64_t mask = ir_attr_int(op, "mask", 0);
    NEED(v, op, is_lanes(op->results[0].type) && op->operands[0]->type == op->results[0].type,
         "a shuffle keeps the type of a scalar or vec");
    NEED(v, op, mask >= 1 && mask <= 31, "mask is from 1 to 31");
    return true;
}

static bool check_pack(Verifier *v, const IrOp *op) {
    const IrType *t = op->results[0].type;
    NEED(v, op, is_lanes(t) && t->width == op->operand_count, "the vec has a lane for each operand");
    for (unsigned i = 0; i < op->operand_count; i++)
        NEED(v, op, op->operands[i]->type == ir_type_scalar(v->module, t->dtype), "operand %u is no scalar of the vec's dtype", i);
    return true;
}

static bool check_extract(Verifier *v, const IrOp *op) {
    const IrType *from = op->operands[0]->type;
    int64_t lane = ir_attr_int(op, "lane", -1);
    NEED(v, op, is_lanes(from) && op->results[0].type == ir_type_scalar(v->module, from->dtype), "one lane of a vec");
    NEED(v, op, lane >= 0 && lane < (int64_t)from->width, "there is no such lane");
    return true;
}

/* ---- Hardware instructions ---- */

static const struct {
    const char *results, *operands;
} atoms[IR_ATOM_COUNT] = {
#define ATOM(id, name, results, operands, ptx, is_volatile, version, summary) [IR_ATOM_##id] = {results, operands},
#include "atoms.def"
#undef ATOM
};

/* The class at *cursor (`f32`, `v4.u32`) as a type; null for `shared` and at the end. */
static const IrType *next_class(Verifier *v, const char **cursor, bool *shared) {
    char name[16] = {0};
    const char *s = *cursor + strspn(*cursor, " ");
    size_t length = strcspn(s, " ");
    memcpy(name, s, length < sizeof name ? length : sizeof name - 1);
    *cursor = s + length;
    *shared = strcmp(name, "shared") == 0;
    unsigned width = 1;
    const char *dtype = name;
    if (name[0] == 'v' && name[1] >= '1' && name[1] <= '9') {
        width = 0;
        for (dtype = name + 1; *dtype >= '0' && *dtype <= '9'; dtype++) width = width * 10 + (unsigned)(*dtype - '0');
        dtype += *dtype == '.';
    }
    Dtype t;
    return dtype_find(dtype, &t) ? ir_type_vec(v->module, t, width) : NULL;
}

static bool check_atom_operands(Verifier *v, const IrOp *op, const char *classes) {
    unsigned at = 0;
    while (classes[strspn(classes, " ")]) {
        bool shared = false;
        const IrType *want = next_class(v, &classes, &shared);
        NEED(v, op, at + shared < op->operand_count, "too few operands");
        if (shared) {
            const IrType *ptr = op->operands[at]->type;
            NEED(v, op, ptr->kind == IR_TYPE_PTR && ptr->space == IR_SPACE_SHARED && ir_type_is_index(op->operands[at + 1]->type),
                 "operand %u: a shared pointer and its offset", at);
        } else {
            NEED(v, op, op->operands[at]->type == want, "operand %u does not have the instruction's type", at);
        }
        at += shared ? 2 : 1;
    }
    NEED(v, op, at == op->operand_count, "too many operands");
    return true;
}

static bool check_atom(Verifier *v, const IrOp *op) {
    const IrAtom row = ir_op_atom(op);
    NEED(v, op, atoms[row].results, "%s is no instruction of atoms.def", ir_enum_word(IR_ENUM_ATOM, row));
    unsigned at = 0;
    for (const char *classes = atoms[row].results; classes[strspn(classes, " ")]; at++) {
        bool shared = false;
        const IrType *want = next_class(v, &classes, &shared);
        NEED(v, op, at < op->result_count && op->results[at].type == want, "result %u does not have the instruction's type", at);
    }
    NEED(v, op, at == op->result_count, "too many results");
    return check_atom_operands(v, op, atoms[row].operands);
}

static bool check_meet(Verifier *v, const IrOp *op) {
    const IrType *t = op->operands[0]->type;
    NEED(v, op, t->kind == IR_TYPE_PTR && t->space == IR_SPACE_GLOBAL && t->dtype == DTYPE_I32, "the counters are i32 of global memory");
    for (unsigned i = 1; i < op->operand_count; i++) NEED(v, op, ir_type_is_index(op->operands[i]->type), "index and count are indices");
    NEED(v, op, ir_func_int(v->func, IR_FN_COOPERATIVE, 0), "blocks wait for each other in cooperative launches only");
    return true;
}

static bool check_steps_wait(Verifier *v, const IrOp *op) {
    NEED(v, op, op->block == v->func->body, "a step waits for others in the function's own block");
    NEED(v, op, ir_func_int(v->func, IR_FN_DEPENDENT, 0), "the function is not launched before the steps ahead of it are over");
    for (const IrOp *before = op->prev; before; before = before->prev) NEED(v, op, before->opcode != IR_STEPS_WAIT, "a step waits once");
    return true;
}

static bool check_steps_release(Verifier *v, const IrOp *op) {
    NEED(v, op, op->block == v->func->body, "a step releases the one behind it in the function's own block");
    return true;
}

IrCheck ir_kernel_check(IrOpcode opcode) {
    static const IrCheck checks[IR_OP_COUNT] = {
        [IR_SPECIAL] = check_special,
        [IR_MAP] = check_map,
        [IR_FRAG_GET] = check_frag_get,
        [IR_MEM_LOAD] = check_mem_load,
        [IR_MEM_STORE] = check_mem_store,
        [IR_SHARED_PTR] = check_shared_ptr,
        [IR_ASYNC_COPY] = check_async_copy,
        [IR_SHUFFLE_XOR] = check_shuffle,
        [IR_ATOM] = check_atom,
        [IR_PACK] = check_pack,
        [IR_CLUSTER_PTR] = check_cluster_ptr,
        [IR_CLUSTER_SEND] = check_cluster_send,
        [IR_CLUSTER_BEGIN] = check_cluster_begin,
        [IR_CLUSTER_BEGUN] = check_cluster_begin,
        [IR_CLUSTER_MEET] = check_cluster_meet,
        [IR_EXTRACT] = check_extract,
        [IR_MEM_ATOMIC] = check_mem_atomic,
        [IR_TMA_LOAD] = check_tma_load,
        [IR_WGMMA] = check_wgmma,
        [IR_GRID_BARRIER_WAIT] = check_meet,
        [IR_GRID_BARRIER_ARRIVE] = check_meet,
        [IR_STEPS_WAIT] = check_steps_wait,
        [IR_STEPS_RELEASE] = check_steps_release,
    };
    return checks[opcode];
}
