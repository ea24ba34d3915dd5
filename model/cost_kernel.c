#include "cost_kernel.h"

#include "banks.h"
#include "gpu.h"
#include "registers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SECTOR = 32,            /* bytes of a transaction with L2 and DRAM */
    UNROLLED = 4,           /* iterations of a loop whose loads the assembler has in flight at once (not measured) */
    REGISTERS_ELSE = 20,    /* of a thread for addresses and counters, beside what it holds of tiles (where from is not recorded) */
    REGISTERS_LEAST = 40,   /* of a thread, below which the assembler is not taken to go (where from is not recorded) */
    REGISTERS_FIXED = 8,    /* where the assembler has few: measured, it finds room for the rest of the addresses among the fragments */
    INNER = 8,              /* indices of a map's inner axis that are walked, at most */
    TABLE = 1 << 12,        /* slots of the table of what was priced already; what does not fit is priced again */
    WGMMA_ROWS = 64,        /* of a product that a warpgroup makes */
    FACTOR_BYTES = 32,      /* of a factor of wgmma along k */
    MMA_ADDS = 16 * 8 * 16, /* of 16 bits; of 32 bits half as many cost as much, of 8 bits twice as many */
    UNEVEN_BLOCKS = 32,     /* so many are walked of those whose work differs */
    APART = 4,              /* elements of which at most one is behind another: stored at a distance */
    CVT_ADDS = 8            /* four conversions of an addition and a mask each */
};

#define CACHED 0.6 /* of the L2 cache: what a launch finds there again */

/* An integer value in each thread of the block. */
typedef struct {
    bool known;
    bool by_block; /* made of the block's place in the grid */
    bool fixed;    /* made of constants and indices of maps: a number in the code, where every turn stands by itself */
    int64_t *lanes;
} Lanes;

/* Sectors that the warps touched through one access since the map's inner axis began: the first
 * level's cache still has them. */
typedef struct {
    unsigned epoch;
    unsigned *counts; /* by warp */
    int64_t (*sectors)[INNER * WARP];
} Seen;

/* Accesses to shared memory that may be one: of neighbouring elements, at the inner indices of a
 * map. */
typedef struct {
    int64_t *first; /* by thread: the offset of the first of them */
    double passes, least;
    unsigned degree;
    bool up, down; /* so far each was behind the one before, before it */
} Piece;

/* What a warp stores through one access, all along the map's inner axis. */
typedef struct {
    int64_t at[INNER * WARP]; /* elements */
    size_t count;
    double asked; /* sectors that its instructions ask for */
} Cover;

typedef struct {
    const void *key; /* a value, or an access */
    Lanes lanes;
    Seen *seen;
    Cover *cover;
    Piece *piece;
} Slot;

typedef struct {
    double read, written;   /* bytes that the threads ask for, whole sectors */
    double parts;           /* of those written, in sectors of which a map stores a part */
    double bytes;           /* of the tensor; 0: not known */
    const int64_t *extents; /* of its axes; null: not known */
} Traffic;

typedef struct {
    const CostMachine *machine;
    IrFunc *f;
    CostSymbol symbol;
    void *ctx;
    bool flagged; /* what is behind flags counts too */
    Arena *arena;
    size_t threads;
    double grid;   /* blocks of the launch */
    double blocks; /* of them that the one that is walked stands for */
    double place;  /* of that one in the grid */
    bool uneven;   /* how long a loop runs is made of the block's place */
    Slot *slots;
    size_t slot_count;
    bool *active;    /* by thread: runs what is walked now */
    Traffic *params; /* by parameter */
    CostLaunch *out;
    double times;          /* runs of what is walked now, by a thread */
    double unrolled;       /* those that stand in the code: of maps */
    double run;            /* bytes a thread asked for since it last had to wait */
    double run_times;      /* how often it comes to wait for them */
    bool asynchronous;     /* some of what is in flight needs no registers */
    double ahead;          /* trips of the loop around that asks for its data ahead of time, else 1 */
    double turns;          /* of blocks that go from tile to tile, else 1 */
    unsigned epoch;        /* of the inner axis that is walked */
    int64_t inner, walked; /* index along it, of so many */
    bool barrier;          /* in the loop body that is walked */
    int64_t fragments[2];  /* 32-bit registers of the two largest */
    Registers registers;   /* of all that are live */
} Count;

/* ---- Values ---- */

static Slot *slot_of(Count *c, const void *v) {
    size_t mask = c->slot_count - 1, at = ((uintptr_t)v >> 4) * 0x9e3779b97f4a7c15u >> 20 & mask;
    while (c->slots[at].key && c->slots[at].key != v) at = (at + 1) & mask;
    return &c->slots[at];
}

/* Unknown until set. */
static const Lanes *lanes_of(Count *c, const IrValue *v) {
    return &slot_of(c, v)->lanes;
}

static int64_t *set_lanes(Count *c, const IrValue *v) {
    Slot *s = slot_of(c, v);
    s->key = v;
    if (!s->lanes.lanes) s->lanes.lanes = ARENA_ARRAY(c->arena, int64_t, c->threads);
    s->lanes.known = true;
    s->lanes.by_block = s->lanes.fixed = false;
    return s->lanes.lanes;
}

static void set_all(Count *c, const IrValue *v, int64_t value) {
    int64_t *lanes = set_lanes(c, v);
    for (size_t i = 0; i < c->threads; i++) lanes[i] = value;
}

/* A number in the code. */
static void set_number(Count *c, const IrValue *v, int64_t value) {
    set_all(c, v, value);
    slot_of(c, v)->lanes.fixed = true;
}

static int64_t floor_div(int64_t a, int64_t b) {
    if (b == 0) return 0;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* False: not integer arithmetic. Overflow wraps, as the code's does. */
static bool apply(IrOpcode opcode, int64_t a, int64_t b, int64_t *out) {
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (opcode) {
    case IR_ADD:
        *out = (int64_t)(x + y);
        return true;
    case IR_SUB:
        *out = (int64_t)(x - y);
        return true;
    case IR_MUL:
        *out = (int64_t)(x * y);
        return true;
    case IR_FLOORDIV:
        *out = floor_div(a, b);
        return true;
    case IR_MOD:
        *out = b ? a - floor_div(a, b) * b : 0;
        return true;
    case IR_MIN:
        *out = a < b ? a : b;
        return true;
    case IR_MAX:
        *out = a > b ? a : b;
        return true;
    case IR_LT:
        *out = a < b;
        return true;
    case IR_LE:
        *out = a <= b;
        return true;
    case IR_EQ:
        *out = a == b;
        return true;
    case IR_NE:
        *out = a != b;
        return true;
    case IR_AND:
        *out = a & b;
        return true;
    case IR_OR:
        *out = a | b;
        return true;
    case IR_XOR:
        *out = a ^ b;
        return true;
    case IR_SHL:
        *out = b < 64 ? (int64_t)(x << y) : 0;
        return true;
    case IR_SHR:
        *out = a >> (b < 63 ? b : 63);
        return true;
    default:
        return false;
    }
}

static bool special(Count *c, const IrOp *op) {
    IrSpecial special = ir_op_special(op);
    int64_t *lanes = set_lanes(c, &op->results[0]), cluster = c->out->cluster;
    int64_t place = (int64_t)c->place;
    for (size_t i = 0; i < c->threads; i++) {
        int64_t t = (int64_t)i;
        if (special == IR_SPECIAL_LANE)
            lanes[i] = t % WARP;
        else if (special == IR_SPECIAL_WARP)
            lanes[i] = t / WARP;
        else if (special == IR_SPECIAL_TID_X)
            lanes[i] = t;
        else if (special == IR_SPECIAL_CTAID_X)
            lanes[i] = place;
        else if (special == IR_SPECIAL_CLUSTERID_X)
            lanes[i] = place / cluster;
        else if (special == IR_SPECIAL_NCTAID_X)
            lanes[i] = (int64_t)c->grid;
        else
            lanes[i] = 0;
    }
    slot_of(c, &op->results[0])->lanes.by_block = special == IR_SPECIAL_CTAID_X || special == IR_SPECIAL_CLUSTERID_X;
    return true;
}

/* What integer arithmetic gives, thread by thread; everything else stays unknown. */
static void evaluate(Count *c, const IrOp *op) {
    if (op->result_count != 1) return;
    const IrValue *result = &op->results[0];
    if (result->type->kind != IR_TYPE_SCALAR || result->type->width > 1 || dtype_is_float(result->type->dtype)) return;
    if (op->opcode == IR_SPECIAL) {
        special(c, op);
        return;
    }
    if (op->opcode == IR_CONST) {
        const IrAttr *value = ir_attr(op, "value");
        if (value && value->kind != IR_ATTR_FLOAT) set_number(c, result, value->integer);
        return;
    }
    const Lanes *in[3] = {0};
    if (op->operand_count < 1 || op->operand_count > 3) return;
    for (unsigned i = 0; i < op->operand_count; i++) {
        in[i] = lanes_of(c, op->operands[i]);
        if (!in[i]->known) return;
    }
    int64_t probe;
    bool copy = op->opcode == IR_CAST || op->opcode == IR_UNIFORM, choice = op->opcode == IR_SELECT;
    if (!copy && !choice && op->opcode != IR_NOT && !(op->operand_count == 2 && apply(op->opcode, 0, 1, &probe))) return;
    const int64_t *a = in[0]->lanes, *b = in[1] ? in[1]->lanes : a, *d = in[2] ? in[2]->lanes : a;
    bool by_block = in[0]->by_block || (in[1] && in[1]->by_block) || (in[2] && in[2]->by_block);
    bool fixed = in[0]->fixed && (!in[1] || in[1]->fixed) && (!in[2] || in[2]->fixed);
    int64_t *lanes = set_lanes(c, result);
    slot_of(c, result)->lanes.by_block = by_block;
    slot_of(c, result)->lanes.fixed = fixed;
    for (size_t i = 0; i < c->threads; i++) {
        if (copy)
            lanes[i] = a[i];
        else if (choice)
            lanes[i] = a[i] ? b[i] : d[i];
        else if (op->opcode == IR_NOT)
            lanes[i] = !a[i];
        else
            apply(op->opcode, a[i], b[i], &lanes[i]);
    }
}

/* ---- Accesses ---- */

/* The loads that stood together are waited for. */
static void wait_for_loads(Count *c) {
    if (c->run <= 0) return;
    if (c->run > c->out->bytes_in_flight) c->out->bytes_in_flight = c->run;
    c->out->waits += c->run_times;
    c->run = c->run_times = 0;
}

typedef struct {
    double active;  /* threads that access */
    double sectors; /* of 32 bytes that their warps touch */
} Pattern;

/* The lanes of a warp that access memory at i's offset in elements. */
static bool lane_accesses(const Count *c, size_t i, const Lanes *mask) {
    return c->active[i] && !(mask && mask->known && !mask->lanes[i]);
}

static Seen *seen_by(Count *c, const IrOp *op) {
    Slot *s = slot_of(c, op);
    size_t warps = c->threads / WARP;
    s->key = op;
    if (!s->seen) {
        s->seen = ARENA_ARRAY(c->arena, Seen, 1);
        s->seen->counts = ARENA_ARRAY(c->arena, unsigned, warps);
        s->seen->sectors = arena_alloc_array(c->arena, warps, sizeof *s->seen->sectors);
    }
    if (s->seen->epoch != c->epoch) memset(s->seen->counts, 0, warps * sizeof *s->seen->counts);
    s->seen->epoch = c->epoch;
    return s->seen;
}

/* How many of the sectors are new to the warp. */
static unsigned fresh(Seen *seen, size_t warp, const int64_t *sectors, unsigned n) {
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned j = 0, had = seen->counts[warp];
        while (j < had && seen->sectors[warp][j] != sectors[i]) j++;
        if (j < had || had == INNER * WARP) continue;
        seen->sectors[warp][seen->counts[warp]++] = sectors[i];
        count++;
    }
    return count;
}

static Piece *piece_of(Count *c, const IrOp *op);
static bool joins_store(Count *c, const IrOp *op, const int64_t *offset, const Lanes *mask, int64_t size);

static Pattern pattern_of(Count *c, const IrOp *op, const Lanes *offset, const Lanes *mask, int64_t size, double bytes) {
    Pattern p = {0};
    Seen *seen = seen_by(c, op);
    /* What is stored leaves the first level at once: only elements of one instruction share sectors. */
    if (op->opcode == IR_MEM_STORE && !(offset->known && joins_store(c, op, offset->lanes, mask, size)))
        memset(seen->counts, 0, c->threads / WARP * sizeof *seen->counts);
    unsigned wide = bytes > SECTOR ? (unsigned)(bytes / SECTOR) : 1;
    for (size_t warp = 0; warp < c->threads; warp += WARP) {
        int64_t sectors[WARP];
        unsigned n = 0;
        for (size_t i = warp; i < warp + WARP && i < c->threads; i++) {
            if (!lane_accesses(c, i, mask)) continue;
            int64_t at = offset->known ? offset->lanes[i] * size : (int64_t)(i - warp) * size;
            sectors[n++] = at / SECTOR;
        }
        p.active += n;
        p.sectors += fresh(seen, warp / WARP, sectors, n) * wide;
    }
    return p;
}

static int by_place(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Is hardly any of the elements behind another one? */
static bool lie_apart(Cover *k) {
    size_t next = 0;
    qsort(k->at, k->count, sizeof *k->at, by_place);
    for (size_t i = 1; i < k->count; i++) next += k->at[i] <= k->at[i - 1] + 1;
    return next * APART < k->count;
}

/* Sectors that are stored at a distance: what the map leaves of them comes from others, too late to be one with it. Known at the last index along its inner axis; seen from the
 * first warp. */
static double sectors_in_part(Count *c, const IrOp *op, const Lanes *offset, const Lanes *mask, const Pattern *p) {
    Slot *s = slot_of(c, op);
    bool first = c->walked <= 1 || !c->inner, last = c->walked <= 1 || c->inner + 1 == c->walked;
    s->key = op;
    if (!s->cover) s->cover = ARENA_ARRAY(c->arena, Cover, 1);
    Cover *k = s->cover;
    if (first) k->count = 0, k->asked = 0;
    k->asked += p->sectors;
    for (size_t i = 0; i < WARP; i++)
        if (lane_accesses(c, i, mask) && k->count < INNER * WARP) k->at[k->count++] = offset->lanes[i];
    return last && k->count > WARP / 2 && lie_apart(k) ? k->asked : 0;
}

/* The worst accesses are kept. */
static void note_conflict(CostLaunch *l, const IrOp *op, unsigned degree, double extra) {
    CostConflict *slot = NULL;
    for (unsigned i = 0; i < l->conflict_count; i++)
        if (l->conflicts[i].op == op) slot = &l->conflicts[i];
    if (!slot && l->conflict_count < COST_CONFLICTS) {
        slot = &l->conflicts[l->conflict_count++];
        *slot = (CostConflict){.op = op};
    }
    for (unsigned i = 0; !slot && i < COST_CONFLICTS; i++)
        if (l->conflicts[i].degree < degree) *(slot = &l->conflicts[i]) = (CostConflict){.op = op};
    if (!slot) return;
    if (degree > slot->degree) slot->degree = degree;
    slot->bytes += extra;
}

typedef struct {
    double passes, least; /* of the warps' accesses: with conflicts, without */
    unsigned degree;      /* the most passes of lanes that go together */
} Banked;

/* As many lanes go together as a pass has bytes for. */
static Banked banks_of(Count *c, const int64_t *offset, const Lanes *mask, int64_t size, double bytes) {
    Banked b = {.degree = 1};
    unsigned together = bytes > 4 && bytes <= BANKS * 4 ? (unsigned)(BANKS * 4 / bytes) : BANKS;
    for (size_t warp = 0; warp < c->threads; warp += WARP) {
        int64_t words[WARP];
        unsigned n = 0;
        for (size_t i = warp; i < warp + WARP && i < c->threads; i++)
            if (lane_accesses(c, i, mask)) words[n++] = (offset ? offset[i] : (int64_t)(i - warp)) * size / 4;
        for (unsigned i = 0; i < n; i += together) {
            unsigned degree = bank_passes(words + i, n - i < together ? n - i : together);
            b.passes += degree;
            b.least += 1;
            if (degree > b.degree) b.degree = degree;
        }
    }
    return b;
}

static Piece *piece_of(Count *c, const IrOp *op) {
    Slot *s = slot_of(c, op);
    s->key = op;
    if (!s->piece) {
        s->piece = ARENA_ARRAY(c->arena, Piece, 1);
        s->piece->first = ARENA_ARRAY(c->arena, int64_t, c->threads);
    }
    return s->piece;
}

/* Is the element stored by one instruction with the one before it along the map's inner axis? */
static bool joins_store(Count *c, const IrOp *op, const int64_t *offset, const Lanes *mask, int64_t size) {
    int64_t width = 16 / size > 0 ? 16 / size : 1, at = c->inner % width;
    Piece *p = piece_of(c, op);
    if (!at || c->walked <= 1) p->up = true;
    if (!at || c->walked <= 1) memcpy(p->first, offset, c->threads * sizeof *offset);
    for (size_t i = 0; i < c->threads && at; i++)
        if (lane_accesses(c, i, mask)) p->up = p->up && offset[i] == p->first[i] + at && p->first[i] % (at < 2 ? 2 : width) == 0;
    return at && p->up;
}

/* Single elements at neighbouring offsets, the first a multiple of 8 or 16 bytes, become one access
 * in the assembler's hands. False: there is more to come of them. */
static bool join_piece(Count *c, const IrOp *op, const int64_t *offset, const Lanes *mask, int64_t size, Banked *b) {
    int64_t width = 1;
    while (width * 2 * size <= 16 && c->walked % (width * 2) == 0) width *= 2;
    if (width == 1) return true;
    Piece *p = piece_of(c, op);
    int64_t at = c->inner % width;
    if (!at) {
        *p = (Piece){.first = p->first, .degree = 1, .up = true, .down = true};
        memcpy(p->first, offset, c->threads * sizeof *offset);
    }
    for (size_t i = 0; i < c->threads; i++)
        if (lane_accesses(c, i, mask)) {
            p->up = p->up && offset[i] == p->first[i] + at && p->first[i] % width == 0;
            p->down = p->down && offset[i] == p->first[i] - at && (p->first[i] + 1) % width == 0;
        }
    p->passes += b->passes;
    p->least += b->least;
    if (b->degree > p->degree) p->degree = b->degree;
    if (at + 1 < width) return false;
    *b = (Banked){p->passes, p->least, p->degree};
    if (p->up || p->down) *b = banks_of(c, p->first, mask, size, (double)(width * size));
    return true;
}

/* What the warps' accesses of `bytes` a thread to shared memory take of it, in bytes. `alike`: the
 * mask is the same all over a map. */
static double shared_bytes(Count *c, const IrOp *op, const Lanes *at, const Lanes *mask, bool alike, int64_t size, double bytes) {
    const int64_t *offset = at->known ? at->lanes : NULL;
    Banked b = banks_of(c, offset, mask, size, bytes);
    if (!offset) c->out->unchecked++;
    if (offset && alike && c->walked > 1 && bytes == (double)size && !join_piece(c, op, offset, mask, size, &b)) return 0;
    double pass = c->times * c->blocks * BANKS * 4;
    c->out->shared_least += pass * b.least;
    if (b.degree > 1) note_conflict(c->out, op, b.degree, pass * (b.passes - b.least));
    return pass * b.passes;
}

static int param_of(const Count *c, const IrValue *pointer) {
    for (unsigned i = 0; i < c->f->param_count; i++)
        if (c->f->body->args[i] == pointer) return (int)i;
    return -1;
}

/* Bytes that the block asks memory for. What a loop asks for ahead of time is waited for when it
 * begins; whether it keeps up is what the bytes in flight say. */
static void ask(Count *c, double bytes, bool asynchronous) {
    if (bytes <= 0) return;
    c->run += c->unrolled * bytes / (double)c->threads;
    c->asynchronous |= asynchronous;
    c->run_times = c->times / c->unrolled / (asynchronous ? c->ahead : 1);
}

/* pointer[offset] of `bytes` a thread, elements of `size`. */
static void access(Count *c, const IrOp *op, const IrValue *pointer, const IrValue *offset, const IrValue *mask, int64_t size, double bytes,
                   bool writes) {
    const Lanes *at = lanes_of(c, offset), *present = mask ? lanes_of(c, mask) : NULL;
    Pattern p = pattern_of(c, op, at, present, size, bytes);
    double times = c->times * c->blocks;
    c->out->instructions += times * p.active / WARP;
    if (pointer->type->space == IR_SPACE_SHARED) {
        c->out->shared += shared_bytes(c, op, at, present, !mask || !mask->def || mask->def->block != op->block, size, bytes);
        return;
    }
    if (pointer->type->space != IR_SPACE_GLOBAL) return;
    double moved = times * p.sectors * SECTOR;
    c->out->l2 += moved;
    int param = param_of(c, pointer);
    if (param >= 0) *(writes ? &c->params[param].written : &c->params[param].read) += moved;
    if (param >= 0 && writes && at->known && bytes == (double)size && 2 * p.active > (double)c->threads)
        c->params[param].parts += times * SECTOR * sectors_in_part(c, op, at, present, &p);
    if (writes)
        wait_for_loads(c);
    else
        ask(c, bytes * p.active, op->opcode == IR_ASYNC_COPY);
}

static double count_active(const Count *c) {
    double n = 0;
    for (size_t i = 0; i < c->threads; i++) n += c->active[i];
    return n;
}

static int param_named(const Count *c, const char *name) {
    for (unsigned i = 0; i < c->f->param_count; i++)
        if (strcmp(c->f->params[i].name, name) == 0) return (int)i;
    return -1;
}

/* Bytes of the boxes that threads ask the copy engine for: what of them lies in the tensor. */
static double box_bytes(Count *c, const IrOp *op, const IrTensorMap *map, const Traffic *tensor, double size) {
    double sum = 0;
    for (size_t t = 0; t < c->threads; t++) {
        double bytes = c->active[t] ? size : 0;
        for (unsigned a = 0; a < map->rank && bytes > 0; a++) {
            const Lanes *at = lanes_of(c, op->operands[5 + a]);
            int64_t inside = map->box[a];
            if (at->known && tensor && tensor->extents) {
                int64_t begin = at->lanes[t] > 0 ? at->lanes[t] : 0, end = at->lanes[t] + map->box[a], extent = tensor->extents[a];
                if (map->joined > 1 && a + 1 == map->rank) extent *= map->joined;
                if (map->joined > 1 && a + 2 == map->rank) extent -= map->joined - 1;
                if (end > extent) end = extent;
                inside = end > begin ? end - begin : 0;
            }
            bytes *= (double)inside;
        }
        sum += bytes;
    }
    return sum;
}

static void copy_boxes(Count *c, const IrOp *op) {
    int at = param_of(c, op->operands[0]);
    if (at < 0) return;
    const IrTensorMap *map = &c->f->params[at].map;
    int param = param_named(c, map->tensor);
    Traffic *tensor = param >= 0 ? &c->params[param] : NULL;
    double size = (double)dtype_size(op->operands[0]->type->dtype), times = c->times * c->blocks, whole = size;
    double bytes = box_bytes(c, op, map, tensor, size);
    for (unsigned a = 0; a < map->rank; a++) whole *= (double)map->box[a];
    c->out->instructions += times; /* one thread's, yet its warp issues it */
    c->out->shared += times * whole * count_active(c);
    c->out->l2 += times * bytes;
    if (tensor) tensor->read += times * bytes;
    ask(c, bytes, true);
}

/* ---- Products of the tensor cores ---- */

/* A warpgroup reads its 64 rows of one factor and all of the other: as many columns as it has two
 * registers for. */
static void multiply_groups(Count *c, const IrOp *op) {
    const IrType *acc = op->results[0].type;
    double groups = c->times * c->blocks * count_active(c) / WARPGROUP, columns = 2;
    for (unsigned d = 0; d < acc->rank; d++) columns *= (double)ir_type_extent(acc, d);
    c->out->instructions += groups * (WARPGROUP / WARP);                        /* NOLINT(bugprone-integer-division): it divides */
    double rows = op->operands[0]->type->kind == IR_TYPE_FRAG ? 0 : WGMMA_ROWS; /* from registers */
    c->out->shared += groups * (rows + columns) * FACTOR_BYTES;
    c->out->products += groups * WGMMA_ROWS * columns * (FACTOR_BYTES / 2); /* NOLINT(bugprone-integer-division): it is even */
}

/* Hardware instructions of a warp. */
static void run_atom(Count *c, const IrOp *op) {
    const IrAtom atom = ir_op_atom(op);
    const unsigned matrices = ir_atom_matrices(atom);
    double warps = c->times * c->blocks * count_active(c) / WARP;
    c->out->instructions += warps * (atom == IR_ATOM_CVT_TF32_X4 ? CVT_ADDS : 1);
    if (ir_atom_multiplies(atom)) c->out->products += warps * MMA_ADDS;
    if (!matrices) return;
    /* A matrix of 8 rows of 16 bytes is a pass; the rows are where 8 lanes point. */
    shared_bytes(c, op, lanes_of(c, op->operands[1]), NULL, false, (int64_t)dtype_size(op->operands[0]->type->dtype), 16);
    c->out->shared += warps * matrices * BANKS * 4;
}

/* ---- Walking ---- */

static bool walk(Count *c, const IrBlock *block);

/* Is the second operand a power of two, by which one divides with a shift, a mask or a product? */
static bool divides_by_power(const IrOp *op) {
    const IrOp *by = op->operand_count == 2 ? op->operands[1]->def : NULL;
    const IrAttr *value = by && by->opcode == IR_CONST ? ir_attr(by, "value") : NULL;
    if (!value) return false;
    int exponent;
    return frexp(value->kind == IR_ATTR_FLOAT ? value->number : (double)value->integer, &exponent) == 0.5;
}

/* `fixed`: the result is a number in the code, once the map is unrolled. */
static double weight(const IrOp *op, bool fixed) {
    if (!op->result_count || op->results[0].type->kind != IR_TYPE_SCALAR) return 0;
    const IrType *t = op->results[0].type;
    bool slow = op->opcode == IR_DIV || op->opcode == IR_SQRT || op->opcode == IR_FLOORDIV || op->opcode == IR_MOD;
    slow = slow && !fixed && !divides_by_power(op);
    switch (op->opcode) {
    case IR_CONST:
    case IR_SPECIAL:
    case IR_FRAG_GET:
    case IR_PACK:
    case IR_EXTRACT:
    case IR_SHARED_PTR:
    case IR_BITCAST:
        return 0;
    default: /* index arithmetic is half hoisted or folded into addresses */
        return (t->is_index ? 0.5 : 1) * (slow ? 10 : 1) * (t->width ? t->width : 1);
    }
}

static double active_part(const Count *c) {
    return count_active(c) / (double)c->threads;
}

static bool walk_for(Count *c, const IrOp *op) {
    const Lanes *bounds[3];
    for (int i = 0; i < 3; i++) {
        bounds[i] = lanes_of(c, op->operands[i]);
        if (!bounds[i]->known) return false;
    }
    /* The longest of the threads. */
    double trips = 0;
    for (size_t i = 0; i < c->threads; i++) {
        int64_t step = bounds[2]->lanes[i], n = step > 0 ? floor_div(bounds[1]->lanes[i] - bounds[0]->lanes[i] + step - 1, step) : 0;
        if (c->active[i] && (double)n > trips) trips = (double)n;
    }
    bool goes_on = (double)bounds[2]->lanes[0] == c->grid; /* from tile to tile */
    c->uneven |= !goes_on && (bounds[0]->by_block || bounds[1]->by_block);
    if (trips < 1) return true;
    const IrBlock *body = op->regions[0];
    int64_t *v = set_lanes(c, body->args[0]);
    slot_of(c, body->args[0])->lanes.by_block = bounds[0]->by_block;
    for (size_t i = 0; i < c->threads; i++) v[i] = bounds[0]->lanes[i] + (int64_t)((trips - 1) / 2) * bounds[2]->lanes[i];
    double times = c->times, unrolled = c->unrolled, ahead = c->ahead;
    bool barrier = c->barrier, whole = ir_attr_int(op, "unroll", 0) < 0;
    if (c->times <= 1 && c->grid > 1 && goes_on) c->turns = trips;
    if (ir_attr_int(op, "pipeline", 1) > 1) c->ahead = trips;
    c->times *= trips;
    if (whole)
        c->unrolled *= trips;
    else
        wait_for_loads(c);
    c->barrier = false;
    c->epoch++;
    bool ok = walk(c, body);
    if (!whole && c->run > 0 && !c->barrier) { /* compilers unroll loops of loads a little */
        double more = trips < UNROLLED ? trips : UNROLLED;
        c->run *= more;
        c->run_times /= more;
    }
    if (!whole) wait_for_loads(c);
    c->times = times;
    c->unrolled = unrolled;
    c->ahead = ahead;
    c->barrier = c->barrier || barrier;
    return ok;
}

static bool has_loop(const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (op->opcode == IR_FOR) return true;
        for (unsigned i = 0; i < op->region_count; i++)
            if (has_loop(op->regions[i])) return true;
    }
    return false;
}

/* Of its own the kernel only reads it. */
static bool is_flags(const IrParam *p, const IrValue *pointer) {
    if (p->kind != IR_PARAM_WORKSPACE || dtype_is_float(pointer->type->dtype) || !pointer->uses) return false;
    for (const IrUse *u = pointer->uses; u; u = u->next)
        if (u->op->opcode != IR_MEM_LOAD) return false;
    return true;
}

static bool reads_flags(const IrFunc *f) {
    for (unsigned i = 0; i < f->param_count; i++)
        if (is_flags(&f->params[i], f->body->args[i])) return true;
    return false;
}

/* Loops behind a condition on data, in a kernel that reads whole numbers which an earlier launch
 * left in a workspace: that launch flagged what the fast way does not do. */
static bool is_exception(const Count *c, const IrOp *op) {
    return !(op->region_count > 1 && op->regions[1] && op->regions[1]->first) && has_loop(op->regions[0]) && reads_flags(c->f);
}

static bool walk_if(Count *c, const IrOp *op) {
    const Lanes *condition = lanes_of(c, op->operands[0]);
    bool ok = true;
    if (!condition->known && !c->flagged && is_exception(c, op)) {
        c->out->exceptions++;
        return true;
    }
    if (!condition->known) return walk(c, op->regions[0]);
    bool *before = c->active;
    for (int region = 0; region < 2 && ok; region++) {
        bool any = false;
        bool *part = ARENA_ARRAY(c->arena, bool, c->threads);
        for (size_t i = 0; i < c->threads; i++) {
            part[i] = before[i] && (condition->lanes[i] != 0) == (region == 0);
            any = any || part[i];
        }
        c->active = part;
        if (any && op->regions[region]) ok = walk(c, op->regions[region]);
    }
    c->active = before;
    return ok;
}

static bool walk_map(Count *c, const IrOp *op) {
    const IrAttr *extents = ir_attr(op, "extents");
    double count = 1;
    for (size_t i = 0; extents && i < extents->count; i++) {
        count *= (double)extents->ints[i];
        set_number(c, op->regions[0]->args[i], 0);
    }
    for (unsigned i = 0; i < op->result_count; i++) {
        const IrType *t = op->results[i].type;
        int64_t registers = (int64_t)(dtype_size(t->dtype) + 3) / 4;
        for (unsigned d = 0; d < t->rank; d++) registers *= ir_type_extent(t, d);
        if (registers > c->fragments[0])
            c->fragments[1] = c->fragments[0], c->fragments[0] = registers;
        else if (registers > c->fragments[1])
            c->fragments[1] = registers;
    }
    /* The inner axis index by index, so that sectors shared between them count once. */
    int64_t inner = extents && extents->count ? extents->ints[extents->count - 1] : 1;
    int64_t walked = inner < INNER ? inner : INNER;
    double times = c->times, unrolled = c->unrolled;
    int64_t at_before = c->inner, walked_before = c->walked;
    bool ok = true;
    c->times *= count / (double)walked;
    c->unrolled *= count / (double)walked;
    c->epoch++;
    c->walked = walked;
    for (int64_t i = 0; i < walked && ok; i++) {
        c->inner = i;
        if (extents && extents->count) set_number(c, op->regions[0]->args[extents->count - 1], i);
        ok = walk(c, op->regions[0]);
    }
    c->epoch++;
    c->inner = at_before;
    c->walked = walked_before;
    c->times = times;
    c->unrolled = unrolled;
    return ok;
}

static bool walk_op(Count *c, const IrOp *op) {
    const IrValue *value;
    bool fixed;
    switch (op->opcode) {
    case IR_FOR:
        return walk_for(c, op);
    case IR_IF:
        return walk_if(c, op);
    case IR_MAP:
        return walk_map(c, op);
    case IR_MEM_LOAD:
        value = &op->results[0];
        access(c, op, op->operands[0], op->operands[1], op->operand_count > 2 ? op->operands[2] : NULL,
               (int64_t)dtype_size(value->type->dtype),
               (double)dtype_size(value->type->dtype) * (value->type->width ? value->type->width : 1), false);
        return true;
    case IR_MEM_STORE:
        value = op->operands[0];
        access(c, op, op->operands[1], op->operands[2], op->operand_count > 3 ? op->operands[3] : NULL,
               (int64_t)dtype_size(value->type->dtype),
               (double)dtype_size(value->type->dtype) * (value->type->width ? value->type->width : 1), true);
        return true;
    case IR_ASYNC_COPY:
        access(c, op, op->operands[0], op->operands[1], NULL, (int64_t)dtype_size(op->operands[0]->type->dtype),
               (double)ir_attr_int(op, "bytes", 16), false);
        shared_bytes(c, op, lanes_of(c, op->operands[3]), NULL, false, (int64_t)dtype_size(op->operands[2]->type->dtype),
                     (double)ir_attr_int(op, "bytes", 16));
        return true;
    case IR_TMA_LOAD:
        copy_boxes(c, op);
        return true;
    case IR_WGMMA:
        multiply_groups(c, op);
        return true;
    case IR_ATOM:
        run_atom(c, op);
        return true;
    case IR_GRID_BARRIER_ARRIVE: /* a fence */
    case IR_GRID_BARRIER_WAIT:   /* a look at the counter, and the last of the others */
        c->out->waits += (op->opcode == IR_GRID_BARRIER_ARRIVE ? 1 : 2) * c->times;
        /* fallthrough */
    case IR_BARRIER:
    case IR_CLUSTER_BEGUN:
    case IR_CLUSTER_MEET:
    case IR_ASYNC_WAIT:
    case IR_MBAR_WAIT:
    case IR_SHUFFLE_XOR:
        wait_for_loads(c);
        c->barrier = true;
        c->out->instructions += c->times * c->blocks * (double)c->threads / WARP;
        return true;
    default:
        evaluate(c, op);
        fixed = op->result_count && lanes_of(c, &op->results[0])->fixed;
        c->out->instructions += c->times * c->blocks * active_part(c) * (double)c->threads / WARP * weight(op, fixed);
        return true;
    }
}

/* What a block has no registers for goes to local memory and comes back, each time it runs. */
static void spill(Count *c, const IrBlock *block) {
    double spilled = (double)registers_spilled(&c->registers, block);
    if (spilled <= 0) return;
    double threads = c->times * c->blocks * count_active(c);
    c->out->l2 += 2 * spilled * BANK_BYTES * threads;
    c->out->instructions += 2 * spilled * threads / WARP;
    if (spilled * BANK_BYTES > c->out->spilled) c->out->spilled = spilled * BANK_BYTES;
}

static bool walk(Count *c, const IrBlock *block) {
    spill(c, block);
    for (const IrOp *op = block->first; op; op = op->next)
        if (!walk_op(c, op)) return false;
    return true;
}

/* ---- A kernel ---- */

static size_t count_values(const IrBlock *block) {
    size_t n = block->arg_count;
    for (const IrOp *op = block->first; op; op = op->next) {
        n += 1 + op->result_count + op->operand_count;
        for (unsigned i = 0; i < op->region_count; i++) n += count_values(op->regions[i]);
    }
    return n;
}

static bool symbol_leaf(void *ctx, const Aff *leaf, int64_t *value) {
    Count *c = ctx;
    return leaf->kind == AFF_SYM && c->symbol(c->ctx, leaf->name, value);
}

static bool formula_value(Count *c, IrFuncAff attr, int64_t otherwise, int64_t *value) {
    const Aff *formula = ir_func_aff(c->f, attr);
    *value = otherwise;
    return !formula || aff_eval(formula, symbol_leaf, c, value);
}

static bool bind_params(Count *c) {
    for (unsigned i = 0; i < c->f->param_count; i++) {
        const IrParam *p = &c->f->params[i];
        int64_t value, elements = 1;
        if (p->kind == IR_PARAM_SYMBOL && c->symbol(c->ctx, p->name, &value)) set_all(c, c->f->body->args[i], value);
        const IrType *t = p->kind == IR_PARAM_TENSOR ? p->type : NULL;
        int64_t *extents = t ? ARENA_ARRAY(c->arena, int64_t, t->rank + 1) : NULL;
        for (unsigned d = 0; t && d < t->rank; d++) {
            bool known = aff_eval(t->extents[d], symbol_leaf, c, &value);
            elements = known ? elements * value : 0;
            if (known && extents)
                extents[d] = value;
            else
                extents = NULL;
        }
        c->params[i].extents = extents;
        if (p->kind == IR_PARAM_WORKSPACE && p->elements && aff_eval(p->elements, symbol_leaf, c, &value)) elements = value;
        c->params[i].bytes = (double)elements * (double)dtype_size(c->f->body->args[i]->type->dtype);
    }
    return true;
}

/* What of the traffic of a tensor has to come from device memory. */
static double from_memory(const Count *c, const Traffic *t, double asked) {
    if (!t->bytes || asked <= t->bytes) return asked;
    double cache = CACHED * (double)c->machine->l2_bytes;
    if (t->bytes <= cache) return t->bytes;
    double tiles = c->grid * c->turns;
    double share = t->bytes / tiles; /* of one tile, read again before others take its place */
    CostEstimate e = cost_estimate(c->machine, c->out);
    double resident = (double)(e.blocks_per_sm * c->machine->sms);
    return share * (resident < tiles ? resident : tiles) <= cache ? t->bytes : asked;
}

/* A sector that is stored in part is fetched to be filled, unless the cache holds all of the tensor until that is done. */
static void fill_sectors(Count *c, Traffic *t) {
    CostLaunch *l = c->out;
    if (t->bytes && t->bytes <= CACHED * (double)c->machine->l2_bytes) return;
    l->read += t->parts;
    l->l2 += t->parts;
}

static void sum_up(Count *c) {
    CostLaunch *l = c->out;
    for (unsigned i = 0; i < c->f->param_count; i++) {
        l->read += from_memory(c, &c->params[i], c->params[i].read);
        l->written += from_memory(c, &c->params[i], c->params[i].written);
        fill_sectors(c, &c->params[i]);
    }
}

/* What is asked for has registers to arrive in: all but those for addresses and sums. */
static void limit_in_flight(Count *c) {
    CostLaunch *l = c->out;
    double room = 4.0 * (double)(l->registers > REGISTERS_LEAST ? l->registers - REGISTERS_ELSE : REGISTERS_LEAST - REGISTERS_ELSE);
    if (!c->asynchronous && l->bytes_in_flight > room) l->bytes_in_flight = room;
}

#define GOLDEN 0.6180339887498949

/* The block in the middle of the grid, and others that lie evenly over it without a period: what a block does may depend on its place, as the taps of a phase do. */
static bool walk_blocks(Count *c, unsigned count) {
    CostLaunch empty = *c->out;
    bool ok = true;
    for (unsigned i = 0; i < c->f->param_count; i++) c->params[i].read = c->params[i].written = c->params[i].parts = 0;
    c->blocks = c->grid / count;
    for (unsigned i = 0; i < count && ok; i++) {
        c->place = floor(c->grid * fmod(0.5 + i * GOLDEN, 1));
        c->times = c->unrolled = c->ahead = 1;
        c->epoch++;
        ok = walk(c, c->f->body);
        wait_for_loads(c);
    }
    c->out->waits /= count;
    c->out->unchecked /= count;
    c->out->exceptions /= count;
    if (!ok || count > 1 || !c->uneven || c->grid < 2 * UNEVEN_BLOCKS) return ok;
    *c->out = empty;
    return walk_blocks(c, UNEVEN_BLOCKS);
}

/* The assembler keeps to what lets as many blocks fit as were promised, one at least. */
static int64_t most_registers(const CostMachine *machine, const IrFunc *f, size_t threads) {
    int64_t promised = ir_func_int(f, IR_FN_MIN_BLOCKS, 1);
    int64_t most = machine->registers_sm / ((int64_t)threads * (promised > 0 ? promised : 1)) / 8 * 8;
    return most > 255 ? 255 : most;
}

bool cost_kernel(const CostMachine *machine, IrFunc *f, CostSymbol symbol, void *ctx, bool flagged, CostLaunch *launch) {
    Count c = {.machine = machine, .f = f, .symbol = symbol, .ctx = ctx, .flagged = flagged, .out = launch, .turns = 1};
    int64_t grid[3], warps = ir_func_int(f, IR_FN_NUM_WARPS, 1);
    *launch = (CostLaunch){.cluster = ir_func_cluster(f)};
    if (warps < 1 || warps > 32 || !formula_value(&c, IR_FN_GRID_X, 1, &grid[0]) || !formula_value(&c, IR_FN_GRID_Y, 1, &grid[1]) ||
        !formula_value(&c, IR_FN_GRID_Z, 1, &grid[2]) || !formula_value(&c, IR_FN_MEETING, 0, &launch->meeting))
        return false;
    c.grid = (double)grid[0] * (double)grid[1] * (double)grid[2];
    c.threads = (size_t)warps * WARP;
    c.arena = arena_create();
    launch->blocks = c.grid;
    launch->threads = (int64_t)c.threads;
    launch->shared_bytes = ir_func_int(f, IR_FN_SHARED_BYTES, 0);
    c.slot_count = TABLE;
    for (size_t values = count_values(f->body); c.slot_count < 2 * values;) c.slot_count *= 2;
    c.slots = ARENA_ARRAY(c.arena, Slot, c.slot_count);
    c.params = ARENA_ARRAY(c.arena, Traffic, f->param_count + 1);
    c.active = ARENA_ARRAY(c.arena, bool, c.threads);
    memset(c.active, 1, c.threads * sizeof *c.active);
    int64_t most = most_registers(machine, f, c.threads);
    c.registers = registers_count(c.arena, f, most - REGISTERS_FIXED);
    bool ok = c.grid <= 0 || (bind_params(&c) && walk_blocks(&c, 1));
    launch->registers = 24 + c.fragments[0] + c.fragments[1];
    if (launch->registers > most) launch->registers = most;
    limit_in_flight(&c);
    if (ok) sum_up(&c);
    arena_destroy(c.arena);
    return ok;
}
