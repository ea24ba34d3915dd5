/* cp.async, barriers in memory, the copy engine with its tensor maps. */
#include "maps.h"

#include <stdlib.h>
#include <string.h>

/* ---- cp.async ---- */

typedef struct {
    unsigned char *to;
    const unsigned char *from;
    int bytes, valid;
    unsigned group;
} Copy;

struct Copies {
    Copy *list;
    size_t count, room;
    unsigned committed; /* groups so far */
};

static void *grown(void *list, size_t count, size_t *room, size_t size) {
    if (count < *room) return list;
    *room = *room * 2 + 16;
    list = realloc(list, *room * size);
    if (!list) cpu_fault("out of memory");
    return list;
}

static Copies *copies_of(Thread *t) {
    if (!t->copies) t->copies = calloc(1, sizeof *t->copies);
    if (!t->copies) cpu_fault("out of memory");
    return t->copies;
}

EXPORT void cpu_copy_async(unsigned to, const void *from, int bytes, int valid) {
    Thread *t = thread_self();
    Copies *c = copies_of(t);
    if (valid < 0 || valid > bytes) cpu_fault("cp.async of %d bytes of %d", valid, bytes);
    if (to % (unsigned)bytes || (uintptr_t)from % (unsigned)bytes) cpu_fault("cp.async of %d bytes is misaligned", bytes);
    unsigned char *place = shared_at(t->block, to, (unsigned)bytes, "cp.async");
    memset(place, POISON, (size_t)bytes);
    c->list = grown(c->list, c->count, &c->room, sizeof *c->list);
    c->list[c->count++] = (Copy){place, from, bytes, valid, c->committed};
}

EXPORT void cpu_copy_commit(void) {
    copies_of(thread_self())->committed++;
}

EXPORT void cpu_copy_wait(int pending) {
    Copies *c = copies_of(thread_self());
    size_t left = 0;
    for (size_t i = 0; i < c->count; i++) {
        const Copy *copy = &c->list[i];
        if (copy->group + (unsigned)pending >= c->committed) {
            c->list[left++] = *copy;
            continue;
        }
        if (copy->valid) memcpy(copy->to, copy->from, (size_t)copy->valid);
        memset(copy->to + copy->valid, 0, (size_t)(copy->bytes - copy->valid));
    }
    c->count = left;
}

void copies_end(Thread *t) {
    if (t->copies) free(t->copies->list);
    free(t->copies);
}

/* ---- Barriers in memory ---- */

struct Mbar {
    Mbar *next;
    unsigned address;
    unsigned count, pending;
    int64_t bytes; /* that are still to come in this phase */
    unsigned phase;
    Waiting waiting;
};
enum { MBAR_BYTE = 0xb7, MBAR_SIZE = 8 };

static Mbar *find_mbar(Block *b, unsigned address) {
    for (Mbar *m = b->mbars; m; m = m->next)
        if (m->address == address) return m;
    return NULL;
}

static Mbar *mbar_at(Block *b, unsigned address) {
    Mbar *m = find_mbar(b, address);
    if (!m) cpu_fault("an mbarrier at %u that was not begun", address - shared_base());
    const unsigned char *memory = shared_at(b, address, MBAR_SIZE, "mbarrier");
    for (int i = 0; i < MBAR_SIZE; i++)
        if (memory[i] != MBAR_BYTE) cpu_fault("the mbarrier at %u was written over", address - shared_base());
    return m;
}

EXPORT void cpu_mbar_init(unsigned at, unsigned arrivals) {
    Block *b = thread_self()->block;
    if (at % MBAR_SIZE || !arrivals) cpu_fault("an mbarrier at %u for %u arrivals", at, arrivals);
    if (find_mbar(b, at)) cpu_fault("the mbarrier at %u is begun a second time", at - shared_base());
    Mbar *m = calloc(1, sizeof *m);
    if (!m) cpu_fault("out of memory");
    *m = (Mbar){.next = b->mbars, .address = at, .count = arrivals, .pending = arrivals};
    b->mbars = m;
    memset(shared_at(b, at, MBAR_SIZE, "mbarrier"), MBAR_BYTE, MBAR_SIZE);
}

EXPORT void cpu_mbar_drop(unsigned at) {
    Block *b = thread_self()->block;
    Mbar *m = mbar_at(b, at), **link = &b->mbars;
    if (m->waiting.count || m->bytes) cpu_fault("an mbarrier that is waited for is ended");
    while (*link != m) link = &(*link)->next;
    *link = m->next;
    memset(shared_at(b, at, MBAR_SIZE, "mbarrier"), POISON, MBAR_SIZE);
    free(m);
}

static void look_at_phase(Mbar *m) {
    if (m->pending || m->bytes) return;
    m->pending = m->count;
    m->phase++;
    wake_all(&m->waiting);
}

/* A place of the window of shared memory of another block of the cluster, as cpu_mapa_address gives it. */
enum { WINDOW = 1 << 24 };

static void arrive(Mbar *m, unsigned bytes) {
    m->bytes += bytes;
    if (!m->pending) cpu_fault("an mbarrier has more arrivals than it was begun for");
    m->pending--;
    look_at_phase(m);
}

EXPORT void cpu_mbar_arrive(unsigned at, unsigned bytes) {
    arrive(mbar_at(thread_self()->block, at), bytes);
}

EXPORT void cpu_mbar_arrive_at(unsigned at) {
    const Cluster *c = thread_self()->block->cluster;
    if (at / WINDOW >= (unsigned)c->count) cpu_fault("an arrival at block %u of a cluster of %d", at / WINDOW, c->count);
    arrive(mbar_at(&c->blocks[at / WINDOW], at % WINDOW), 0);
}

EXPORT int cpu_mbar_try(unsigned at, int parity) {
    Mbar *m = mbar_at(thread_self()->block, at);
    if ((int)(m->phase & 1) == parity) thread_wait(&m->waiting, "barrier in memory");
    m = mbar_at(thread_self()->block, at);
    return (int)(m->phase & 1) != parity;
}

void mbars_end(Block *b) {
    for (Mbar *m = b->mbars, *next; m; m = next) {
        if (m->bytes) cpu_fault("the block ends while bytes are to come for an mbarrier");
        next = m->next;
        free(m);
    }
    b->mbars = NULL;
}

/* ---- The copy engine ---- */

typedef struct {
    Block *block;
    TensorMap map; /* the thread that asked may have ended */
    unsigned to, mbar;
    int at[MAP_RANK];
    unsigned sent; /* bytes of a value that a thread sent; 0: a box */
    unsigned char value[8];
} Box;

static struct {
    Box *boxes;
    size_t room;
} engine;

static unsigned box_bytes(const TensorMap *m) {
    unsigned n = m->size;
    for (unsigned i = 0; i < m->rank; i++) n *= m->box[i];
    return n;
}

/* blocks: a bit for each of the cluster's that get the box; 0: the thread's own. */
EXPORT void cpu_tma_load(unsigned to, const void *map, unsigned mbar, int rank, const int *at, unsigned blocks) {
    enum { ALIGNMENT = 128, PIECE = 16 };
    Block *b = thread_self()->block;
    const TensorMap *m = map;
    if ((uintptr_t)map % 64 || m->magic != MAP_MAGIC) cpu_fault("a load through what is no tensor map");
    if ((unsigned)rank != m->rank) cpu_fault("a load of %d axes through a map of %u", rank, m->rank);
    if (to % ALIGNMENT) cpu_fault("a box to address %u, which is not aligned", to);
    /* docs/notes/013-convolutions.md: an H200 stops the kernel. */
    if (at[0] * m->size % PIECE) cpu_fault("a box that begins at byte %d of a row", at[0] * m->size);
    const Cluster *c = b->cluster;
    if (blocks >> c->count) cpu_fault("a box for blocks %#x of a cluster of %d", blocks, c->count);
    if (!blocks) blocks = 1u << b->rank;
    for (int k = 0; k < c->count; k++) {
        if (!(blocks >> k & 1)) continue;
        memset(shared_at(&c->blocks[k], to, box_bytes(m), "a box"), POISON, box_bytes(m));
        mbar_at(&c->blocks[k], mbar);
        engine.boxes = grown(engine.boxes, machine.in_flight, &engine.room, sizeof *engine.boxes);
        Box *box = &engine.boxes[machine.in_flight++];
        *box = (Box){.block = &c->blocks[k], .map = *m, .to = to, .mbar = mbar};
        for (int i = 0; i < rank; i++) box->at[i] = at[i];
    }
}

EXPORT unsigned cpu_mapa_address(unsigned own, int rank) {
    const Block *b = thread_self()->block;
    if (rank < 0 || rank >= b->cluster->count) cpu_fault("block %d of a cluster of %d", rank, b->cluster->count);
    shared_at(b, own, 1, "mapa");
    return own + (unsigned)rank * WINDOW;
}

/* Lands whenever the copy engine's boxes do. */
EXPORT void cpu_send(unsigned to, const void *value, unsigned bytes, unsigned mbar) {
    const Cluster *c = thread_self()->block->cluster;
    if (to / WINDOW != mbar / WINDOW || to / WINDOW >= (unsigned)c->count)
        cpu_fault("a value is sent to one block, its barrier is another's");
    if (to % bytes) cpu_fault("a value of %u bytes to address %u", bytes, to % WINDOW);
    Block *b = &c->blocks[to / WINDOW];
    memset(shared_at(b, to % WINDOW, bytes, "a sent value"), POISON, bytes);
    mbar_at(b, mbar % WINDOW);
    engine.boxes = grown(engine.boxes, machine.in_flight, &engine.room, sizeof *engine.boxes);
    Box *box = &engine.boxes[machine.in_flight++];
    *box = (Box){.block = b, .to = to % WINDOW, .mbar = mbar % WINDOW, .sent = bytes};
    memcpy(box->value, value, bytes);
}

/* The nearest float of 11 bits; infinities and NaNs stay. */
static void round_tf32(unsigned char *element) {
    uint32_t bits;
    memcpy(&bits, element, sizeof bits);
    uint32_t low = bits & 0x1fff, even = bits >> 13 & 1;
    bits -= low;
    if ((bits & 0x7f800000) != 0x7f800000 && (low > 0x1000 || (low == 0x1000 && even)))
        bits += 0x2000;
    else if ((bits & 0x7f800000) == 0x7f800000)
        bits += low;
    memcpy(element, &bits, sizeof bits);
}

/* One row of the box, along the innermost axis: element by element, for parts of it may lie outside. */
static void bring_row(const Box *x, const unsigned *index, unsigned offset) {
    const TensorMap *m = &x->map;
    int64_t row = 0;
    bool inside = true;
    for (unsigned i = 1; i < m->rank; i++) {
        int64_t k = (int64_t)x->at[i] + index[i];
        inside = inside && k >= 0 && k < (int64_t)m->extents[i];
        row += k * (int64_t)m->strides[i - 1];
    }
    for (unsigned e = 0; e < m->box[0]; e++) {
        int64_t k = (int64_t)x->at[0] + e;
        unsigned address = swizzled(x->to + offset + e * m->size, m->swizzle);
        unsigned char *to = shared_at(x->block, address, m->size, "a box");
        if (inside && k >= 0 && k < (int64_t)m->extents[0])
            memcpy(to, (const char *)(uintptr_t)m->base + row + k * (int64_t)m->size, m->size);
        else
            memset(to, 0, m->size);
        if (m->tf32) round_tf32(to);
    }
}

static void bring(const Box *x) {
    if (x->sent) {
        memcpy(shared_at(x->block, x->to, x->sent, "a sent value"), x->value, x->sent);
        Mbar *counts = mbar_at(x->block, x->mbar);
        counts->bytes -= x->sent;
        look_at_phase(counts);
        return;
    }
    const TensorMap *m = &x->map;
    unsigned index[MAP_RANK] = {0}, row = m->box[0] * m->size, rows = box_bytes(m) / row;
    for (unsigned r = 0; r < rows; r++) {
        bring_row(x, index, r * row);
        for (unsigned i = 1; i < m->rank && ++index[i] == m->box[i]; i++) index[i] = 0;
    }
    Mbar *bar = mbar_at(x->block, x->mbar);
    bar->bytes -= box_bytes(m);
    look_at_phase(bar);
}

bool copy_engine_step(void) {
    if (!machine.in_flight) return false;
    size_t i = (size_t)machine_draw(machine.in_flight);
    Box box = engine.boxes[i];
    engine.boxes[i] = engine.boxes[--machine.in_flight];
    bring(&box);
    return true;
}
