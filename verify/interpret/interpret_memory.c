/* Loads, stores, asynchronous copies and barriers. Every access is checked against the memory's
 * bounds and alignment; in shared memory also against other threads' accesses since the last
 * barrier that orders them. */
#include "analyzer.h"
#include "interpret_internal.h"

#include <stdlib.h>
#include <string.h>

/* reader: a thread; WARP_READERS - w: threads of warp w; GROUP_READERS - g: of warpgroup g; SEVERAL_GROUPS: of one block's
 * warpgroups; ANYBODY: of several blocks */
enum { SEVERAL_GROUPS = -2, ANYBODY = -3, WARP_READERS = -4, GROUP_READERS = -65536 };

/* Barrier counts when something was done. */
typedef struct {
    uint32_t cluster, block, group, warp;
} Counts;

void memory_check(Machine *m, Memory *memory, int64_t offset, int64_t bytes, int64_t align) {
    if (m->early && memory->late) machine_trap(m, "%s, which a step before writes, is touched before that is waited for", memory->name);
    if (offset < 0 || bytes > memory->bytes || offset > memory->bytes - bytes)
        machine_trap(m, "bytes %lld to %lld are outside %s of %lld bytes", (long long)offset, (long long)(offset + bytes), memory->name,
                     (long long)memory->bytes);
    if (align > 1 && offset % align)
        machine_trap(m, "byte %lld of %s is not aligned to %lld", (long long)offset, memory->name, (long long)align);
}

/* An earlier access of thread `other` happened before one of `thread` now. */
static bool ordered(const Machine *m, size_t other, Counts then, size_t thread) {
    if (other == thread || m->cluster_barriers > then.cluster) return true;
    size_t home = thread / m->block_threads, group = thread / WARPGROUP;
    if (other / m->block_threads != home) return false;
    if (m->block_barriers[home] > then.block) return true;
    if (other / WARPGROUP == group && m->group_barriers[group] > then.group) return true;
    return other / WARP == thread / WARP && m->warp_barriers[thread / WARP] > then.warp;
}

/* A thread that stands for those who read: the one, the first of the warp or warpgroup. */
static size_t some_reader(const Shadow *s) {
    if (s->reader >= 0) return (size_t)s->reader;
    return s->reader <= GROUP_READERS ? (size_t)(GROUP_READERS - s->reader) * WARPGROUP : (size_t)(WARP_READERS - s->reader) * WARP;
}

static bool readers_ordered(const Machine *m, const Shadow *s, size_t thread) {
    if (s->reader == -1 || m->cluster_barriers > s->read_cluster || s->read_arrivals < m->behind_all[thread]) return true;
    if (s->reader == ANYBODY) return false;
    if (m->behind_fence && s->read_block < m->behind_fence[thread * m->blocks + s->read_home]) return true;
    if (s->read_home == thread / m->block_threads && s->read_arrivals < m->behind[thread]) return true;
    size_t first = some_reader(s), group = thread / WARPGROUP;
    bool block = s->read_home == thread / m->block_threads && m->block_barriers[s->read_home] > s->read_block;
    if (s->reader == SEVERAL_GROUPS) return block;
    bool own_group = first / WARPGROUP == group && m->group_barriers[group] > s->read_group;
    if (s->reader <= GROUP_READERS) return block || own_group;
    if (s->reader < 0 && first == thread / WARP * WARP) return block || own_group || m->warp_barriers[thread / WARP] > s->read_warp;
    return ordered(m, first, (Counts){s->read_cluster, s->read_block, s->read_group, s->read_warp}, thread);
}

/* Nothing that was read before is forgotten but what all threads have left behind. */
static void note_read(Machine *m, Shadow *s, size_t thread) {
    size_t warp = thread / WARP, group = thread / WARPGROUP, home = thread / m->block_threads;
    bool own = s->reader != ANYBODY && s->read_home == home;
    bool old = s->reader == -1 || m->cluster_barriers > s->read_cluster || (own && m->block_barriers[home] > s->read_block);
    int32_t same_warp = WARP_READERS - (int32_t)warp, same_group = GROUP_READERS - (int32_t)group;
    if (old || s->reader == (int32_t)thread)
        s->reader = (int32_t)thread;
    else if (!own)
        s->reader = ANYBODY;
    else if (s->reader == same_warp || (s->reader >= 0 && (size_t)s->reader / WARP == warp))
        s->reader = same_warp;
    else if (s->reader != SEVERAL_GROUPS && some_reader(s) / WARPGROUP == group)
        s->reader = same_group;
    else
        s->reader = SEVERAL_GROUPS;
    s->read_home = (uint32_t)home;
    s->read_cluster = m->cluster_barriers;
    s->read_block = m->block_barriers[home];
    s->read_group = m->group_barriers[group];
    s->read_warp = m->warp_barriers[warp];
    s->read_arrivals = m->arrivals;
}

void memory_need_begun(Machine *m) {
    if (!m->begun && m->cluster_barriers == m->cluster_start)
        machine_trap(m, "another block's memory, with no barrier since the cluster began");
}

int64_t memory_address(Machine *m, const Slot *ptr, int64_t index, int64_t bytes, int64_t align, size_t thread) {
    int64_t at = ptr->offset + index * (int64_t)dtype_size(ptr->dtype);
    if (ptr->memory != &m->shared || m->blocks == 1) {
        memory_check(m, ptr->memory, at, bytes, align);
        return at;
    }
    int64_t rank = ptr->cells ? ptr->cells[thread].i : (int64_t)(thread / m->block_threads);
    Memory own = {.name = m->shared.name, .bytes = m->shared_block};
    memory_check(m, &own, at, bytes, align);
    if (rank < 0 || rank >= (int64_t)m->blocks) machine_trap(m, "the cluster has no block of rank %lld", (long long)rank);
    if (rank != (int64_t)(thread / m->block_threads)) memory_need_begun(m);
    return at + rank * m->shared_block;
}

enum { COARSE = 16 };

static size_t shadow_count(const Memory *memory) {
    return (size_t)(memory->bytes / memory->grain + 1);
}

void memory_forget(Memory *memory) {
    for (size_t i = 0; memory->shadow && i < shadow_count(memory); i++) memory->shadow[i] = (Shadow){.writer = -1, .reader = -1};
}

void memory_watch(Machine *m, Memory *memory) {
    memory->grain = COARSE;
    memory->shadow = ARENA_ARRAY(m->arena, Shadow, shadow_count(memory));
    memory_forget(memory);
}

/* Notes of smaller pieces from now on, for an access that begins or ends within one. */
static void refine(Machine *m, Memory *memory, int64_t places) {
    int64_t grain = places & -places, ratio = memory->grain / grain;
    if (ratio <= 1) return;
    const Shadow *coarse = memory->shadow;
    memory->grain = grain;
    Shadow *fine = ARENA_ARRAY(m->arena, Shadow, shadow_count(memory));
    for (size_t i = 0; i < shadow_count(memory); i++) fine[i] = coarse[i / (size_t)ratio];
    memory->shadow = fine;
}

void memory_landed(Machine *m, Memory *memory, int64_t offset, int64_t bytes) {
    if (!memory->shadow || bytes <= 0) return;
    refine(m, memory, offset | bytes);
    for (int64_t i = offset; i < offset + bytes; i += memory->grain) memory->shadow[i / memory->grain].writer = -1;
}

void memory_note(Machine *m, Memory *memory, int64_t offset, int64_t bytes, size_t thread, bool writes) {
    if (m->early && writes && memory != &m->shared) machine_trap(m, "%s is written before the steps before are waited for", memory->name);
    if (!memory->shadow || bytes <= 0) return;
    refine(m, memory, offset | bytes);
    for (int64_t i = offset; i < offset + bytes; i += memory->grain) {
        Shadow *s = &memory->shadow[i / memory->grain];
        Counts then = {s->write_cluster, s->write_block, s->write_group, s->write_warp};
        bool fine = s->writer < 0 || ordered(m, (size_t)s->writer, then, thread) ||
                    ((size_t)s->writer / m->block_threads == thread / m->block_threads && s->write_arrivals < m->behind[thread]);
        if (writes) fine = fine && readers_ordered(m, s, thread);
        if (!fine)
            machine_trap(m,
                         "race: thread %zu %s byte %lld of %s that thread %d %s with no barrier "
                         "between",
                         thread, writes ? "writes" : "reads", (long long)i, memory->name, s->writer >= 0 ? s->writer : s->reader,
                         s->writer >= 0 ? "wrote" : "read");
        if (!writes) {
            note_read(m, s, thread);
            continue;
        }
        s->writer = (int32_t)thread;
        s->write_cluster = m->cluster_barriers;
        s->write_block = m->block_barriers[thread / m->block_threads];
        s->write_group = m->group_barriers[thread / WARPGROUP];
        s->write_warp = m->warp_barriers[thread / WARP];
        s->write_arrivals = m->arrivals;
        s->reader = -1;
    }
}

/* All blocks of the launch run in lockstep: what nobody has published by now is not coming. */
static void await(Machine *m, const Memory *memory, int64_t at) {
    uint32_t bits;
    memcpy(&bits, memory->data + at, sizeof bits);
    if (!bits) machine_trap(m, "byte %lld of %s is awaited, and nobody has published it", (long long)at, memory->name);
}

static void run_mem_load(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *ptr = inst->operands[0];
    Slot *r = inst->results[0];
    bool masked = inst->op->operand_count > 2, awaits = ir_attr_bool(inst->op, "awaits"), peeks = ir_attr_bool(inst->op, "peeks");
    int64_t size = (int64_t)dtype_size(r->dtype), bytes = size * (int64_t)r->n;
    int64_t align = ir_attr_int(inst->op, "align", 1);
    for (size_t t = 0; t < m->threads; t++) {
        if (!active[t]) continue;
        Cell *to = &r->cells[t * r->n];
        if (masked && !inst->operands[2]->cells[t].i) {
            for (size_t e = 0; e < r->n; e++) to[e] = inst->operands[3]->cells[t];
            continue;
        }
        int64_t at = memory_address(m, ptr, inst->operands[1]->cells[t].i, bytes, align, t);
        if (awaits)
            await(m, ptr->memory, at);
        else if (!peeks)
            memory_note(m, ptr->memory, at, bytes, t, false);
        for (size_t e = 0; e < r->n; e++) to[e] = cell_load(r->dtype, ptr->memory->data + at + (int64_t)e * size);
    }
}

static void publish(unsigned char *to, Cell value) {
    uint32_t bits;
    cell_store(DTYPE_F32, to, value);
    memcpy(&bits, to, sizeof bits);
    if (!bits) cell_store(DTYPE_F32, to, (Cell){.f = -0.0});
}

static void run_mem_store(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *value = inst->operands[0], *ptr = inst->operands[1];
    bool masked = inst->op->operand_count > 3, publishes = ir_attr_bool(inst->op, "publishes");
    int64_t size = (int64_t)dtype_size(value->dtype), bytes = size * (int64_t)value->n;
    int64_t align = ir_attr_int(inst->op, "align", 1);
    for (size_t t = 0; t < m->threads; t++) {
        if (!active[t] || (masked && !inst->operands[3]->cells[t].i)) continue;
        int64_t at = memory_address(m, ptr, inst->operands[2]->cells[t].i, bytes, align, t);
        memory_note(m, ptr->memory, at, bytes, t, true); /* who does not await it races */
        if (publishes) {
            publish(ptr->memory->data + at, value->cells[t]);
            continue;
        }
        for (size_t e = 0; e < value->n; e++)
            cell_store(value->dtype, ptr->memory->data + at + (int64_t)e * size, value->cells[t * value->n + e]);
    }
}

/* One thread after the other: each sees what the one before left. */
static void run_mem_atomic(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *value = inst->operands[0], *ptr = inst->operands[1];
    Code *body = inst->regions[0];
    uint8_t *alone = inst->masks[0];
    bool masked = inst->op->operand_count > 3;
    IrOpcode kind = interpret_update(ir_op_kind(inst->op));
    int64_t size = (int64_t)dtype_size(value->dtype);
    memset(alone, 0, m->threads);
    for (size_t t = 0; t < m->threads; t++) {
        if (!active[t] || (masked && !inst->operands[3]->cells[t].i)) continue;
        int64_t at = ptr->offset + inst->operands[2]->cells[t].i * size;
        memory_check(m, ptr->memory, at, size, size);
        if (m->early && ptr->memory != &m->shared)
            machine_trap(m, "%s is written before the steps before are waited for", ptr->memory->name);
        unsigned char *element = ptr->memory->data + at;
        Cell old = cell_load(value->dtype, element), now;
        if (body->count) {
            body->args[0]->cells[t] = old;
            alone[t] = 1;
            run_code(m, body, alone);
            alone[t] = 0;
            now = body->insts[body->count - 1].operands[0]->cells[t];
        } else {
            now = cell_binary(kind, value->dtype, old, value->cells[t]);
        }
        cell_store(value->dtype, element, now);
    }
}

static void run_async_copy(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *from = inst->operands[0], *to = inst->operands[2];
    int64_t bytes = ir_attr_int(inst->op, "bytes", 0), size = (int64_t)dtype_size(to->dtype);
    for (size_t t = 0; t < m->threads; t++) {
        if (!active[t]) continue;
        int64_t source = from->offset + inst->operands[1]->cells[t].i * size;
        int64_t target = memory_address(m, to, inst->operands[3]->cells[t].i, bytes, bytes, t);
        int64_t valid = inst->operands[4]->cells[t].i;
        if (valid < 0 || valid > bytes) machine_trap(m, "the count of valid bytes is wrong");
        if (valid) memory_check(m, from->memory, source, valid, bytes);
        unsigned char *data = calloc(1, (size_t)bytes);
        if (!data) machine_trap(m, "out of memory");
        if (valid) memcpy(data, from->memory->data + source, (size_t)valid);
        PendingCopy copy = {.data = data, .memory = to->memory, .offset = target, .bytes = bytes, .group = m->open_group[t], .thread = t};
        VEC_PUSH(m->arena, &m->pending, copy);
    }
}

static void run_commit(Machine *m, Inst *inst, const uint8_t *active) {
    (void)inst;
    for (size_t t = 0; t < m->threads; t++) m->open_group[t] += active[t];
}

/* The copies land now, as late as they may. */
static void run_wait(Machine *m, Inst *inst, const uint8_t *active) {
    int64_t pending = ir_attr_int(inst->op, "pending", 0);
    size_t kept = 0;
    for (size_t i = 0; i < m->pending.len; i++) {
        PendingCopy *c = &m->pending.data[i];
        if (!active[c->thread] || c->group >= m->open_group[c->thread] - pending) {
            m->pending.data[kept++] = *c;
            continue;
        }
        memory_note(m, c->memory, c->offset, c->bytes, c->thread, true);
        memcpy(c->memory->data + c->offset, c->data, (size_t)c->bytes);
        free(c->data);
    }
    m->pending.len = kept;
}

/* A cluster's barrier needs all threads, a block's, a warpgroup's or a warp's those of each that arrives. */
static void run_barrier(Machine *m, Inst *inst, const uint8_t *active) {
    IrScope scope = ir_op_scope(inst->op);
    bool block = scope == IR_SCOPE_BLOCK, cluster = scope == IR_SCOPE_CLUSTER, warpgroup = scope == IR_SCOPE_WARPGROUP;
    size_t group = cluster ? m->threads : block ? m->block_threads : warpgroup ? WARPGROUP : WARP;
    for (size_t t = 0; t < m->threads; t++) {
        bool wanted = m->threads == 1 || cluster || (block && m->blocks == 1) || active[t / group * group];
        if (active[t] != wanted) machine_trap(m, "a barrier under divergent control");
        if (!active[t] || t % group) continue;
        if (block) m->block_barriers[t / group]++;
        if (warpgroup) m->group_barriers[t / group]++;
        if (!block && !cluster && !warpgroup) m->warp_barriers[t / group]++;
    }
    m->cluster_barriers += cluster;
}

/* A block's counter; its first thread has the operands. */
static uint8_t *counter_of(Machine *m, Inst *inst, size_t first, const uint8_t *active) {
    const Slot *counters = inst->operands[0];
    for (size_t k = first; k < first + m->block_threads; k++)
        if (active[k] != active[first]) machine_trap(m, "a meeting under divergent control");
    if (!active[first]) return NULL;
    int64_t at = counters->offset + inst->operands[1]->cells[first].i * 4;
    memory_check(m, counters->memory, at, 4, 4);
    ANALYZER_ASSUME(counters->memory->data); /* memory_check traps else */
    return counters->memory->data + at;
}

static void run_arrive(Machine *m, Inst *inst, const uint8_t *active) {
    for (size_t t = 0; t < m->threads; t += m->block_threads) {
        uint8_t *counter = counter_of(m, inst, t, active);
        if (!counter) continue;
        cell_store(DTYPE_I32, counter, (Cell){.i = cell_load(DTYPE_I32, counter).i + 1});
        m->block_barriers[t / m->block_threads]++;
    }
}

/* All blocks of the launch run in lockstep: those that are to meet have all come (interpret.c). */
static void run_meet(Machine *m, Inst *inst, const uint8_t *active) {
    for (size_t t = 0; t < m->threads; t += m->block_threads) {
        const uint8_t *counter = counter_of(m, inst, t, active);
        if (!counter) continue;
        long long count = (long long)cell_load(DTYPE_I32, counter).i, wanted = (long long)inst->operands[2]->cells[t].i;
        if (count != wanted) machine_trap(m, "%lld blocks have come where %lld are to meet", count, wanted);
        m->block_barriers[t / m->block_threads]++;
    }
    m->cluster_barriers++;
}

static void run_steps_wait(Machine *m, Inst *inst, const uint8_t *active) {
    (void)inst, (void)active;
    m->early = false;
}

/* When the next step begins is not this one's: it waits. */
static void run_steps_release(Machine *m, Inst *inst, const uint8_t *active) {
    (void)m, (void)inst, (void)active;
}

/* Into the memory of each block of the cluster. */
static void run_cluster_send(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *value = inst->operands[0], *to = inst->operands[1];
    bool masked = inst->op->operand_count > 4;
    int64_t size = (int64_t)dtype_size(value->dtype);
    for (size_t t = 0; t < m->threads; t++) {
        if (!active[t] || (masked && !inst->operands[4]->cells[t].i)) continue;
        int64_t at = to->offset + inst->operands[2]->cells[t].i * size;
        Memory own = {.name = m->shared.name, .bytes = m->shared_block};
        memory_check(m, &own, at, size, size);
        memory_need_begun(m);
        for (size_t rank = 0; rank < m->blocks; rank++) {
            int64_t there = at + (int64_t)rank * m->shared_block;
            memory_note(m, to->memory, there, size, t, true);
            cell_store(value->dtype, to->memory->data + there, value->cells[t]);
            m->sent[rank] += size;
        }
    }
}

/* All blocks are here, and what they sent is. The watch over memory takes it for a barrier of the cluster; what it does not order, between
 * the block's barrier and a send, check_barriers knows. */
static void run_cluster_meet(Machine *m, Inst *inst, const uint8_t *active) {
    for (size_t t = 0; t < m->threads; t++)
        if (!active[t]) machine_trap(m, "a meeting of the cluster under divergent control");
    int64_t bytes = ir_attr_int(inst->op, "bytes", 0);
    for (size_t rank = 0; rank < m->blocks; rank++) {
        if (m->sent[rank] != bytes)
            machine_trap(m, "%lld bytes have come to a block where %lld are to", (long long)m->sent[rank], (long long)bytes);
        m->sent[rank] = 0;
    }
    m->cluster_barriers++;
}

static void run_cluster_begun(Machine *m, Inst *inst, const uint8_t *active) {
    (void)inst;
    for (size_t t = 0; t < m->threads; t++)
        if (!active[t]) machine_trap(m, "a cluster's begin under divergent control");
    m->begun = true;
}

static void run_cluster_ptr(Machine *m, Inst *inst, const uint8_t *active) {
    const Slot *from = inst->operands[0], *rank = inst->operands[1];
    Slot *r = inst->results[0];
    r->memory = from->memory;
    r->offset = from->offset;
    for (size_t t = 0; t < m->threads; t++)
        if (active[t]) r->cells[t] = rank->cells[t];
}

static void run_decoded(Machine *m, Inst *inst, const uint8_t *active) {
    (void)m, (void)inst, (void)active; /* shared.ptr: made when the function was decoded; cluster.begin: bytes are counted a block */
}

InstRun interpret_memory_op(IrOpcode op) {
    switch (op) {
    case IR_MEM_LOAD:
        return run_mem_load;
    case IR_MEM_STORE:
        return run_mem_store;
    case IR_MEM_ATOMIC:
        return run_mem_atomic;
    case IR_ASYNC_COPY:
        return run_async_copy;
    case IR_ASYNC_COMMIT:
        return run_commit;
    case IR_ASYNC_WAIT:
        return run_wait;
    case IR_BARRIER:
        return run_barrier;
    case IR_GRID_BARRIER_ARRIVE:
        return run_arrive;
    case IR_GRID_BARRIER_WAIT:
        return run_meet;
    case IR_STEPS_WAIT:
        return run_steps_wait;
    case IR_STEPS_RELEASE:
        return run_steps_release;
    case IR_SHARED_PTR:
        return run_decoded;
    case IR_CLUSTER_PTR:
        return run_cluster_ptr;
    case IR_CLUSTER_SEND:
        return run_cluster_send;
    case IR_CLUSTER_MEET:
        return run_cluster_meet;
    case IR_CLUSTER_BEGUN:
        return run_cluster_begun;
    case IR_CLUSTER_BEGIN:
        return run_decoded;
    default:
        return NULL;
    }
}
