/* The copy engine, barriers that count its bytes, and products of warpgroups, each as late as the program
 * allows: a copy lands when its phase is waited for and its place holds NaNs until then, and what a product
 * reads, in shared memory or in registers, may not change before it is waited for. Swizzles and fragments are those of the PTX ISA ("Shared Memory
 * Matrix Layout", "Register Fragments for wgmma.mma_async.m64nNk16", "m64nNk32"). */
#include "interpret_internal.h"
#include "wgmma.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 4 * WARP, ROWS = 64, DEPTH = 32, PENDING_BYTE = 0xff };

/* ---- Barriers ---- */

static Barrier *find_barrier(Machine *m, const Memory *memory, int64_t at) {
    for (size_t i = 0; i < m->barriers.len; i++)
        if (m->barriers.data[i].memory == memory && m->barriers.data[i].at == at) return &m->barriers.data[i];
    return NULL;
}

/* In the memory of the thread's block. */
static int64_t barrier_place(Machine *m, const Inst *inst, unsigned operand, size_t thread) {
    return memory_address(m, inst->operands[operand], inst->operands[operand + 1]->cells[thread].i, 8, 8, thread);
}

static Barrier *barrier_at(Machine *m, Memory *memory, int64_t at) {
    Barrier *b = find_barrier(m, memory, at);
    if (!b) machine_trap(m, "there is no barrier at this place");
    return b;
}

static Barrier *need_barrier(Machine *m, const Inst *inst, unsigned operand, size_t thread) {
    return barrier_at(m, inst->operands[operand]->memory, barrier_place(m, inst, operand, thread));
}

/* How far it is from the thread's block to the one of that rank. */
static int64_t way_to(Machine *m, int64_t rank, size_t thread) {
    if (rank < 0 || rank >= (int64_t)m->blocks) machine_trap(m, "the cluster has no block of rank %lld", (long long)rank);
    memory_need_begun(m);
    return (rank - (int64_t)(thread / m->block_threads)) * m->shared_block;
}

static void run_init(Machine *m, Inst *inst, const uint8_t *active) {
    if (m->threads == 1) return;
    for (size_t t = 0; t < m->threads; t++) {
        if (!active[t]) continue;
        Barrier b = {.memory = inst->operands[0]->memory, .at = barrier_place(m, inst, 0, t)};
        b.arrivals = ir_attr_int(inst->op, "arrivals", 1);
        b.fences = ARENA_ARRAY(m->arena, uint32_t, m->blocks);
        b.ended_fences = ARENA_ARRAY(m->arena, uint32_t, m->blocks);
        if (find_barrier(m, b.memory, b.at)) machine_trap(m, "a barrier is made where there is one");
        memory_note(m, b.memory, b.at, 8, t, true);
        VEC_PUSH(m->arena, &m->barriers, b);
    }
}

static void run_drop(Machine *m, Inst *inst, const uint8_t *active) {
    if (m->threads == 1) return;
    for (size_t t = 0; t < m->threads; t++) {
        if (!active[t]) continue;
        Barrier *b = need_barrier(m, inst, 0, t);
        memory_note(m, b->memory, b->at, 8, t, true);
        *b = m->barriers.data[--m->barriers.len];
    }
}

/* What other threads did before is no race: they, or this thread, waited for the phase. */
static void land(Machine *m, const Barrier *b) {
    size_t kept = 0;
    for (size_t i = 0; i < m->boxes.len; i++) {
        PendingCopy *c = &m->boxes.data[i];
        if (c->group != b->at) {
            m->boxes.data[kept++] = *c;
            continue;
        }
        memcpy(c->memory->data + c->offset, c->data, (size_t)c->bytes);
        memory_landed(m, c->memory, c->offset, c->bytes);
        free(c->data);
    }
    m->boxes.len = kept;
}

static bool end_phase(Machine *m, Barrier *b) {
    if (b->arrived < b->arrivals || b->bytes != b->copied) return false;
    land(m, b);
    b->arrived = b->bytes = b->copied = 0;
    b->phase++;
    b->ended = b->begun;
    b->ended_apart = b->apart, b->ended_some = b->some;
    b->apart = b->some = false;
    memcpy(b->ended_fences, b->fences, m->blocks * sizeof *b->fences);
    return true;
}

/* Do all warps of the thread's block come here together? */
static bool all_warps(const Machine *m, const uint8_t *active, size_t thread) {
    size_t begin = thread / m->block_threads * m->block_threads;
    for (size_t w = begin; w < begin + m->block_threads; w += WARP) {
        bool any = false;
        for (size_t t = w; t < w + WARP; t++) any = any || active[t];
        if (!any) return false;
    }
    return true;
}

/* What the warps have done until now is done for who waits for the phase: of their other lanes, too. */
static void run_arrive(Machine *m, Inst *inst, const uint8_t *active) {
    if (m->threads == 1) return;
    const Slot *rank = inst->op->operand_count == 3 ? inst->operands[2] : NULL;
    m->arrivals++;
    for (size_t t = 0; t < m->threads; t++) {
        if (!active[t]) continue;
        int64_t way = rank ? way_to(m, rank->cells[t].i, t) : 0;
        Barrier *b = barrier_at(m, inst->operands[0]->memory, barrier_place(m, inst, 0, t) + way);
        if (b->arrived == b->arrivals && !end_phase(m, b)) machine_trap(m, "more arrivals than the phase has");
        if (!b->arrived++) b->begun = m->arrivals;
        b->apart |= !rank;
        if (rank && !all_warps(m, active, t)) b->some = true;
        b->fences[t / m->block_threads] = m->block_barriers[t / m->block_threads];
        memory_note(m, b->memory, b->at, 8, t, false);
    }
}

static void run_expect(Machine *m, Inst *inst, const uint8_t *active) {
    for (size_t t = 0; t < m->threads && m->threads > 1; t++) {
        if (!active[t]) continue;
        Barrier *b = need_barrier(m, inst, 0, t);
        if (b->arrived == b->arrivals && !end_phase(m, b)) machine_trap(m, "more arrivals than the phase has");
        b->arrived++;
        b->bytes += ir_attr_int(inst->op, "bytes", 0);
    }
}

static void run_wait(Machine *m, Inst *inst, const uint8_t *active) {
    for (size_t t = 0; t < m->threads && m->threads > 1; t++) {
        if (!active[t]) continue;
        Barrier *b = need_barrier(m, inst, 0, t);
        int64_t parity = inst->operands[2]->cells[t].i;
        memory_note(m, b->memory, b->at, 8, t, false);
        if ((b->phase & 1) == parity && !end_phase(m, b)) machine_trap(m, "waits for a phase that does not end");
        if (!b->ended_some && m->behind[t] < b->ended) m->behind[t] = b->ended;
        if (!b->ended_apart && !b->ended_some && m->behind_all[t] < b->ended) m->behind_all[t] = b->ended;
        if (b->ended_some && !m->behind_fence) m->behind_fence = ARENA_ARRAY(m->arena, uint32_t, m->threads * m->blocks);
        for (size_t k = 0; k < m->blocks && b->ended_some && !b->ended_apart; k++)
            if (m->behind_fence[t * m->blocks + k] < b->ended_fences[k]) m->behind_fence[t * m->blocks + k] = b->ended_fences[k];
    }
}

/* ---- Copies ---- */

static int64_t swizzled(int64_t at, int64_t bytes) {
    return at ^ (at >> 7 & (bytes / 16 - 1)) << 4;
}

/* An f32 to the nearest tf32; infinities and NaNs stay. */
static void round_even(unsigned char *element) {
    uint32_t bits;
    memcpy(&bits, element, sizeof bits);
    if ((bits & 0x7f800000) == 0x7f800000) return;
    bits = (bits + 0xfff + (bits >> 13 & 1)) & TF32_BITS;
    memcpy(element, &bits, sizeof bits);
}

/* The box at the thread's coordinates, row after row; zero outside of the tensor. */
static unsigned char *read_box(Machine *m, const Inst *inst, const IrTensorMap *map, size_t thread, int64_t *bytes) {
    const IrType *tensor = NULL;
    memory_check(m, inst->operands[0]->memory, 0, 0, 1);
    int64_t extents[IR_MAP_RANK], lane[IR_MAP_RANK] = {0}, count = 1, size = (int64_t)dtype_size(inst->operands[0]->dtype);
    for (unsigned i = 0; i < m->f->param_count; i++)
        if (strcmp(m->f->params[i].name, map->tensor) == 0) tensor = m->f->params[i].type;
    for (unsigned a = 0; a < map->rank; a++) {
        if (!tensor || !sizes_eval(m->sizes, tensor->extents[a], &extents[a])) machine_trap(m, "the tensor of the map has no shape");
        if (!extents[a]) machine_trap(m, "a tensor without elements has no map");
        count *= map->box[a];
    }
    unsigned char *data = calloc((size_t)count, (size_t)size);
    if (!data) machine_trap(m, "out of memory");
    for (int64_t e = 0; e < count; e++) {
        int64_t flat = 0;
        bool inside = true;
        for (unsigned a = 0; a < map->rank; a++) {
            int64_t at = inst->operands[5 + a]->cells[thread].i + lane[a], end = extents[a];
            if (map->joined > 1 && a + 1 == map->rank) end *= map->joined;
            if (map->joined > 1 && a + 2 == map->rank) end -= map->joined - 1;
            inside = inside && at >= 0 && at < end;
            flat = flat * extents[a] + at;
        }
        if (inside) memcpy(data + e * size, inst->operands[0]->memory->data + flat * size, (size_t)size);
        if (map->tf32) round_even(data + e * size);
        for (unsigned a = map->rank; a-- > 0 && ++lane[a] == map->box[a];) lane[a] = 0;
    }
    *bytes = count * size;
    return data;
}

/* The box is on its way to a place that the barrier counts its bytes for. */
static void send_box(Machine *m, Memory *memory, int64_t at, const unsigned char *placed, int64_t bytes, Barrier *b, size_t thread) {
    unsigned char *own = malloc((size_t)bytes);
    if (!own) machine_trap(m, "out of memory");
    memcpy(own, placed, (size_t)bytes);
    PendingCopy copy = {.data = own, .memory = memory, .offset = at, .bytes = bytes, .group = b->at, .thread = thread};
    VEC_PUSH(m->arena, &m->boxes, copy); /* the machine's from here on, should a trap come */
    memory_note(m, memory, at, bytes, thread, true);
    memset(memory->data + at, PENDING_BYTE, (size_t)bytes);
    b->copied += bytes;
}

void async_free_box(Machine *m) {
    for (unsigned i = 0; i < 2; i++) {
        free(m->box[i]);
        m->box[i] = NULL;
    }
}

static void run_tma_load(Machine *m, Inst *inst, const uint8_t *active) {
    const IrTensorMap *map = &m->f->params[inst->op->operands[0]->index].map;
    const Slot *to = inst->operands[1];
    bool multicast = ir_attr_bool(inst->op, "multicast");
    for (size_t t = 0; t < m->threads; t++) {
        if (!active[t]) continue;
        int64_t bytes, home = (int64_t)(t / m->block_threads), place = barrier_place(m, inst, 3, t);
        unsigned char *data = m->box[0] = read_box(m, inst, map, t, &bytes), *placed = m->box[1] = calloc(1, (size_t)bytes);
        if (!placed) machine_trap(m, "out of memory");
        int64_t at = memory_address(m, to, inst->operands[2]->cells[t].i, bytes, map->swizzle ? map->swizzle * 8 : 128, t);
        int64_t in_block = at - home * m->shared_block;
        for (int64_t k = 0; k < bytes; k++) placed[map->swizzle ? swizzled(in_block + k, map->swizzle) - in_block : k] = data[k];
        for (int64_t rank = 0; rank < (int64_t)m->blocks; rank++) {
            if (rank != home && !multicast) continue;
            int64_t way = rank == home ? 0 : way_to(m, rank, t);
            send_box(m, to->memory, at + way, placed, bytes, barrier_at(m, inst->operands[3]->memory, place + way), t);
        }
        async_free_box(m);
    }
}

void async_check_end(Machine *m) {
    if (m->boxes.len) machine_trap(m, "a block of a cluster ends while boxes are on their way to it");
}

/* ---- Products ---- */

/* Where a factor's elements lie. */
typedef struct {
    const Slot *registers; /* the fragment that has them, from element `start` of each thread's on; null: they are in memory */
    Memory *memory;
    Dtype dtype;
    int64_t start, swizzle, lead; /* start: in its block's memory */
    int64_t home;                 /* where that begins */
    bool across;
    int64_t depth; /* elements along k */
} View;

static View view_of(Machine *m, const Inst *inst, unsigned which, size_t first) {
    const Slot *ptr = inst->operands[2 * which], *offset = inst->operands[2 * which + 1];
    View v = {.memory = ptr->memory, .dtype = ptr->dtype, .across = ir_attr_bool(inst->op, which ? "trans_b" : "trans_a")};
    if (inst->op->operands[2 * which]->type->kind == IR_TYPE_FRAG) {
        v.registers = ptr;
        v.depth = 32 / (int64_t)dtype_size(ptr->dtype);
        v.start = offset->cells[first].i;
        return v;
    }
    v.swizzle = ir_attr(inst->op, "swizzle")->ints[which];
    v.lead = ir_attr(inst->op, "lead")->ints[which];
    v.depth = 32 / (int64_t)dtype_size(ptr->dtype);
    v.start = ptr->offset + offset->cells[first].i * (int64_t)dtype_size(ptr->dtype);
    v.home = (int64_t)(first / m->block_threads) * m->shared_block;
    for (size_t t = first; t < first + GROUP; t++)
        if (offset->cells[t].i != offset->cells[first].i) machine_trap(m, "threads of a warpgroup name different factors");
    if (v.start % 16) machine_trap(m, "a factor does not begin at a multiple of 16 bytes");
    return v;
}

/* What the group's threads hold of 64 rows, laid out as accumulators. */
static void read_registers(const View *v, size_t first, double a[ROWS][DEPTH]) {
    const Slot *s = v->registers;
    for (size_t t = 0; t < GROUP; t++)
        for (int64_t e = 0; e < v->depth / 2; e++) {
            const Cell *cell = &s->cells[(first + t) * s->n + (size_t)(v->start + e)];
            a[t / WARP * 16 + t % WARP / 4 + (size_t)(e / 2 % 2 * 8)][e / 4 * 8 + (int64_t)(t % 4 * 2) + e % 2] = cell->f;
        }
}

/* Element (along, k): along M of a, N of b. */
static double element(Machine *m, const View *v, int64_t along, int64_t k, size_t thread) {
    int64_t size = (int64_t)dtype_size(v->dtype), across = v->swizzle / size, at = v->start;
    at += v->across ? along / across * v->lead + k * v->swizzle + along % across * size : along * v->swizzle + k * size;
    at = v->home + swizzled(at, v->swizzle);
    memory_check(m, v->memory, at, size, size);
    memory_note(m, v->memory, at, size, thread, false);
    uint32_t word;
    if (v->dtype != DTYPE_F32) return dtype_read(v->dtype, v->memory->data + at);
    return tf32_read(*(uint32_t *)memcpy(&word, v->memory->data + at, sizeof word));
}

typedef struct {
    double a[ROWS][DEPTH], b[256][DEPTH];
} Factors;

static Hash128 read_factors(Machine *m, const View v[2], int64_t columns, size_t first, Factors *f) {
    memset(f, 0, sizeof *f);
    if (v[0].registers) read_registers(&v[0], first, f->a);
    for (int64_t k = 0; k < v->depth; k++) {
        for (int64_t i = 0; i < ROWS && !v[0].registers; i++) f->a[i][k] = element(m, &v[0], i, k, first);
        for (int64_t j = 0; j < columns; j++) f->b[j][k] = element(m, &v[1], j, k, first);
    }
    return hash128(f, sizeof *f, (Hash128){0, 0});
}

static void need_group(Machine *m, const uint8_t *active, size_t first) {
    for (size_t t = first; t < first + GROUP; t++)
        if (t >= m->threads || active[t] != active[first]) machine_trap(m, "a warpgroup's instruction under divergent control");
}

struct Product {
    const Inst *inst;
    View view[2];
    Hash128 read;
    int64_t columns, batch;
    size_t first;
};

double interpret_cut_sum(const double *terms, size_t count, int bits) {
    double largest = 0, sum = 0;
    for (size_t i = 0; i < count; i++) largest = fabs(terms[i]) > largest ? fabs(terms[i]) : largest;
    double unit = largest > 0 && isfinite(largest) ? ldexp(1, ilogb(largest) + 1 - bits) : 0;
    for (size_t i = 0; i < count; i++) sum += unit > 0 ? trunc(terms[i] / unit) * unit : terms[i];
    return sum;
}

/* acc + the row of a times the column of b: integers wrap, floats are cut. */
static Cell product(Cell acc, const Wgmma *kind, const double *a, const double *b) {
    bool real = dtype_is_float(kind->acc);
    double terms[DEPTH + 1] = {real ? acc.f : 0}, sum = 0;
    for (size_t k = 0; k < DEPTH; k++) terms[k + 1] = a[k] * b[k];
    if (real && kind->sums < 24) return (Cell){.f = (float)interpret_cut_sum(terms, DEPTH + 1, kind->sums)};
    if (real) return (Cell){.f = tensor_core_sum((float)acc.f, terms + 1, kind->depth, 32 / kind->depth)};
    for (size_t k = 0; k <= DEPTH; k++) sum += terms[k];
    return (Cell){.i = (int32_t)(uint32_t)(acc.i + (int64_t)sum)};
}

static void run_wgmma(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *acc = inst->op->operand_count == 5 ? inst->operands[4] : NULL;
    Slot *r = inst->results[0];
    const Wgmma *kind = wgmma_find(inst->operands[0]->dtype, r->dtype);
    Factors *f = ARENA_NEW(m->arena, Factors);
    for (size_t first = 0; first < m->threads; first += GROUP) {
        need_group(m, active, first);
        if (!active[first]) continue;
        Product p = {.inst = inst, .columns = (int64_t)r->n * 2, .first = first, .batch = m->open_batch[first / GROUP]};
        for (unsigned i = 0; i < 2; i++) p.view[i] = view_of(m, inst, i, first);
        p.read = read_factors(m, p.view, p.columns, first, f);
        for (size_t t = 0; t < GROUP; t++)
            for (size_t e = 0; e < r->n; e++) {
                size_t row = t / WARP * 16 + t % WARP / 4 + e / 2 % 2 * 8, column = e / 4 * 8 + t % 4 * 2 + e % 2;
                r->cells[(first + t) * r->n + e] =
                    product(acc ? acc->cells[(first + t) * acc->n + e] : (Cell){.i = 0}, kind, f->a[row], f->b[column]);
            }
        Product *kept = ARENA_NEW(m->arena, Product);
        *kept = p;
        VEC_PUSH(m->arena, &m->products, kept);
    }
}

static void run_batch(Machine *m, Inst *inst, const uint8_t *active) {
    (void)inst;
    for (size_t first = 0; first < m->threads; first += GROUP) {
        need_group(m, active, first);
        m->open_batch[first / GROUP] += active[first];
    }
}

static void finish(Machine *m, const Product *p) {
    Factors *f = calloc(1, sizeof *f);
    if (!f) machine_trap(m, "out of memory");
    Hash128 now = read_factors(m, p->view, p->columns, p->first, f);
    free(f);
    if (now.lo != p->read.lo || now.hi != p->read.hi) machine_trap(m, "a factor is overwritten while its product is in flight");
}

static void run_product_wait(Machine *m, Inst *inst, const uint8_t *active) {
    int64_t pending = ir_attr_int(inst->op, "pending", 0);
    slot_copy(m, inst->results[0], inst->operands[0], active);
    if (m->threads == 1) return;
    size_t kept = 0;
    for (size_t first = 0; first < m->threads; first += GROUP) need_group(m, active, first);
    for (size_t i = 0; i < m->products.len; i++) {
        Product *p = m->products.data[i];
        if (active[p->first] && p->batch < m->open_batch[p->first / GROUP] - pending)
            finish(m, p);
        else
            m->products.data[kept++] = p;
        if (ir_attr_bool(inst->op, "done") && kept && m->products.data[kept - 1] == p && p->inst->op == inst->op->operands[0]->def)
            machine_trap(m, "accumulators are used while their product is in flight");
    }
    m->products.len = kept;
}

static void run_nothing(Machine *m, Inst *inst, const uint8_t *active) {
    (void)m, (void)inst, (void)active; /* mbar.alloc: made when the function was decoded; wgmma.fence: ops follow each other */
}

InstRun interpret_async_op(IrOpcode op) {
    switch (op) {
    case IR_MBAR_INIT:
        return run_init;
    case IR_MBAR_DROP:
        return run_drop;
    case IR_MBAR_EXPECT:
        return run_expect;
    case IR_MBAR_WAIT:
        return run_wait;
    case IR_MBAR_ARRIVE:
        return run_arrive;
    case IR_TMA_LOAD:
        return run_tma_load;
    case IR_WGMMA:
        return run_wgmma;
    case IR_WGMMA_COMMIT:
        return run_batch;
    case IR_WGMMA_WAIT:
        return run_product_wait;
    case IR_WGMMA_FENCE:
    case IR_MBAR_ALLOC:
        return run_nothing;
    default:
        return NULL;
    }
}
