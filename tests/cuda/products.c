/* ldmatrix, stmatrix, mma.sync and wgmma, from the PTX ISA's definitions of fragments, descriptors and swizzles. Sums are made
 * in double and cut off to f32 behind every 16 bytes of factors, as sm_80 does. */
#include "machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Elements ---- */

typedef struct {
    const char *name;
    unsigned bytes;
    double (*read)(const unsigned char *p);
} Element;

static double read_f16(const unsigned char *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double x = exponent == 31 ? (fraction ? NAN : INFINITY) : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return h >> 15 ? -x : x;
}

static double read_bf16(const unsigned char *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

static double read_e4m3(const unsigned char *p) {
    int exponent = *p >> 3 & 15, fraction = *p & 7;
    double x = (*p & 0x7f) == 0x7f ? NAN : exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
    return *p >> 7 ? -x : x;
}

static double read_e5m2(const unsigned char *p) {
    int exponent = *p >> 2 & 31, fraction = *p & 3;
    double x = exponent == 31 ? (fraction ? NAN : INFINITY) : exponent ? ldexp(4 + fraction, exponent - 17) : ldexp(fraction, -16);
    return *p >> 7 ? -x : x;
}

static double read_s8(const unsigned char *p) {
    return *(const signed char *)p;
}

static double read_u8(const unsigned char *p) {
    return *p;
}

/* tf32: no table; see decoded(). */
static const Element elements[] = {{"f16", 2, read_f16}, {"bf16", 2, read_bf16}, {"e4m3", 1, read_e4m3}, {"e5m2", 1, read_e5m2},
                                   {"s8", 1, read_s8},   {"u8", 1, read_u8},     {"tf32", 4, NULL}};

/* Tables of all values: decoding is most of a product's time. */
static const float *values_of(const Element *e) {
    static float *tables[sizeof elements / sizeof *elements];
    float **table = &tables[e - elements];
    if (*table || !e->read) return *table;
    unsigned count = 1u << 8 * e->bytes;
    *table = malloc(count * sizeof **table);
    if (!*table) cpu_fault("out of memory");
    for (unsigned i = 0; i < count; i++) {
        unsigned char bytes[2] = {(unsigned char)i, (unsigned char)(i >> 8)};
        (*table)[i] = (float)e->read(bytes);
    }
    return *table;
}

typedef struct {
    const Element *factor;
    const float *values;
    bool whole; /* sums in s32 */
} Types;

/* "f32.f16.f16": both factors of one type. */
static Types types_of(const char *text, const char *what) {
    Types t = {.whole = strncmp(text, "s32.", 4) == 0};
    if (!t.whole && strncmp(text, "f32.", 4) != 0) cpu_fault("%s of %s", what, text);
    const char *name = text + 4, *dot = strchr(name, '.');
    for (size_t i = 0; dot && i < sizeof elements / sizeof *elements; i++)
        if (strncmp(name, elements[i].name, (size_t)(dot - name)) == 0 && !elements[i].name[dot - name] &&
            strncmp(dot + 1, elements[i].name, strlen(elements[i].name)) == 0)
            t.factor = &elements[i];
    if (!t.factor) cpu_fault("%s of %s", what, text);
    t.values = values_of(t.factor);
    return t;
}

/* Of a float the unit takes tf32's bits and leaves the rest out. */
static float tf32_of(const unsigned char *p) {
    uint32_t bits;
    float x;
    memcpy(&bits, p, sizeof bits);
    bits &= 0xffffe000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float decoded(const Types *t, const unsigned char *p) {
    if (!t->values) return tf32_of(p);
    return t->values[t->factor->bytes == 2 ? p[0] | (unsigned)p[1] << 8 : p[0]];
}

/* ---- ldmatrix ---- */

typedef struct {
    unsigned *d[4];
    unsigned at;
} Rows;

EXPORT void cpu_ldmatrix(unsigned *const *d, int count, int turned, unsigned at) {
    enum { ROW = 16, SIDE = 8 };
    Rows mine = {.at = at};
    for (int i = 0; i < count; i++) mine.d[i] = d[i];
    if (!warp_meet(turned ? "ldmatrix.trans" : "ldmatrix", ~0u, &mine)) return;
    Warp *w = thread_self()->warp;
    for (int m = 0; m < count; m++) {
        uint16_t tile[SIDE][SIDE];
        for (int r = 0; r < SIDE; r++) {
            unsigned row = ((const Rows *)w->arguments[m * SIDE + r])->at;
            if (row % ROW) cpu_fault("ldmatrix: the row's address %u is misaligned", row);
            memcpy(tile[r], shared_at(w->block, row, ROW, "ldmatrix"), ROW);
        }
        for (int lane = 0; lane < WARP; lane++) {
            int r = lane / 4, c = lane % 4 * 2;
            uint32_t low = turned ? tile[c][r] : tile[r][c], high = turned ? tile[c + 1][r] : tile[r][c + 1];
            *((const Rows *)w->arguments[lane])->d[m] = low | high << 16;
        }
    }
    warp_go_on(w);
}

/* ---- stmatrix ---- */

typedef struct {
    unsigned d[4], at;
} Words;

EXPORT void cpu_stmatrix(const unsigned *const *d, int count, int turned, unsigned at) {
    enum { ROW = 16, SIDE = 8 };
    Words mine = {.at = at};
    for (int i = 0; i < count; i++) mine.d[i] = *d[i];
    if (!warp_meet(turned ? "stmatrix.trans" : "stmatrix", ~0u, &mine)) return;
    Warp *w = thread_self()->warp;
    for (int m = 0; m < count; m++) {
        uint16_t tile[SIDE][SIDE];
        for (int lane = 0; lane < WARP; lane++)
            for (int h = 0; h < 2; h++) {
                int r = lane / 4, c = lane % 4 * 2 + h;
                uint16_t half = (uint16_t)(((const Words *)w->arguments[lane])->d[m] >> 16 * h);
                if (turned)
                    tile[c][r] = half;
                else
                    tile[r][c] = half;
            }
        for (int r = 0; r < SIDE; r++) {
            unsigned row = ((const Words *)w->arguments[m * SIDE + r])->at;
            if (row % ROW) cpu_fault("stmatrix: the row's address %u is misaligned", row);
            memcpy(shared_at(w->block, row, ROW, "stmatrix"), tile[r], ROW);
        }
    }
    warp_go_on(w);
}

/* ---- mma.sync: 16 rows, 8 columns, 32 bytes along k ---- */

enum { MMA_ROWS = 16, MMA_COLUMNS = 8, K_BYTES = 32, K_MOST = 32 };

typedef struct {
    void *const *d;
    const void *const *a, *const *b, *const *c;
} Operands;

/* Byte `k` of row `r` lies in register r / 8 + 2 * (k / 16) of the lane 4 * (r % 8) + k % 16 / 4. */
static void collect(const Warp *w, const Types *t, float a[MMA_ROWS][K_MOST], float b[MMA_COLUMNS][K_MOST]) {
    unsigned size = t->factor->bytes;
    for (unsigned r = 0; r < MMA_ROWS; r++)
        for (unsigned k = 0; k < K_BYTES; k += size) {
            const Operands *o = w->arguments[4 * (r % 8) + k % 16 / 4];
            a[r][k / size] = decoded(t, (const unsigned char *)o->a[r / 8 + 2 * (k / 16)] + k % 4);
            if (r < MMA_COLUMNS) b[r][k / size] = decoded(t, (const unsigned char *)o->b[k / 16] + k % 4);
        }
}

static float cut_off(double sum) {
    float nearest = (float)sum;
    return fabs(sum) < 0x1p128 && fabs((double)nearest) > fabs(sum) ? nextafterf(nearest, 0) : nearest;
}

static void sum_into(const Types *t, unsigned terms, const float *a, const float *b, const void *c, void *d) {
    if (t->whole) {
        uint32_t sum;
        memcpy(&sum, c, sizeof sum);
        for (unsigned k = 0; k < terms; k++) sum += (uint32_t)((int)a[k] * (int)b[k]);
        memcpy(d, &sum, sizeof sum);
    } else {
        float start;
        memcpy(&start, c, sizeof start);
        for (unsigned k = 0; k < terms;) {
            double sum = start;
            for (unsigned end = k + 16 / t->factor->bytes; k < end; k++) sum += (double)a[k] * (double)b[k];
            start = cut_off(sum);
        }
        memcpy(d, &start, sizeof start);
    }
}

EXPORT void cpu_mma(int shape, const char *types, void *const *d, const void *const *a, const void *const *b, const void *const *c) {
    Operands mine = {d, a, b, c};
    if (!warp_meet("mma.sync", ~0u, &mine)) return;
    Warp *w = thread_self()->warp;
    Types t = types_of(types, "mma.sync");
    unsigned terms = K_BYTES / t.factor->bytes;
    if (shape != (int)(160800 + terms)) cpu_fault("mma.sync of shape %d with factors of %u bytes", shape, t.factor->bytes);
    float left[MMA_ROWS][K_MOST], right[MMA_COLUMNS][K_MOST];
    collect(w, &t, left, right);
    for (unsigned r = 0; r < MMA_ROWS; r++)
        for (unsigned n = 0; n < MMA_COLUMNS; n++) {
            const Operands *o = w->arguments[4 * (r % 8) + n / 2];
            unsigned i = r / 8 * 2 + n % 2;
            sum_into(&t, terms, left[r], right[n], o->c[i], o->d[i]);
        }
    warp_go_on(w);
}

/* ---- wgmma ---- */

enum { WARPS = 4, GROUP_ROWS = 64, ROW_GROUP = 8, MOST_COLUMNS = 256, MOST_REGISTERS = MOST_COLUMNS / 2 };

/* A fragment of accumulators while products that change it are in flight: the program's registers hold poison. */
typedef struct Sums Sums;
struct Sums {
    Sums *next;
    void *lanes[WARP]; /* the registers, one after another */
    unsigned registers, uses;
    uint32_t values[WARP][MOST_REGISTERS];
};

typedef struct {
    Types types;
    unsigned columns, group;
    uint64_t a, b;
    bool turned[2];
    Sums *sums;
    bool from_registers; /* the left factor, as mma.sync has it */
    uint32_t left[WARP][4];
} Product;

struct Products {
    Product *list;
    size_t count, room;
    Sums *sums;
    unsigned committed;
    bool fenced; /* since the last wait */
};

typedef struct {
    void *const *d;
    const void *const *left;
    uint64_t a, b;
    int columns, add, turn_a, turn_b;
} Request;

/* The unit exchanges pieces of 16 bytes by where they lie: bits 4.. of an address with its bits 7... */
unsigned swizzled(unsigned address, unsigned span) {
    unsigned mask = span == 128 ? 7 : span == 64 ? 3 : span == 32 ? 1 : 0;
    return address ^ (address >> 7 & mask) << 4;
}

/* Address of byte `across` along the rows or columns and `k` along k: PTX ISA, "Strides" of wgmma. */
static unsigned factor_address(uint64_t descriptor, bool turned, unsigned size, unsigned row, unsigned k) {
    static const unsigned spans[] = {16, 128, 64, 32};
    unsigned span = spans[descriptor >> 62], start = (unsigned)(descriptor & 0x3fff) << 4;
    unsigned lead = (unsigned)(descriptor >> 16 & 0x3fff) << 4, stride = (unsigned)(descriptor >> 32 & 0x3fff) << 4;
    if (descriptor >> 49 & 7) cpu_fault("wgmma: a base offset in the descriptor");
    unsigned at;
    if (!turned) {
        unsigned byte = k * size;
        at = start + row / ROW_GROUP * stride + row % ROW_GROUP * span;
        at += span == 16 ? byte / 16 * lead + byte % 16 : byte;
    } else {
        unsigned byte = row * size, across = span == 16 ? stride : lead, along = span == 16 ? lead : stride;
        at = start + byte / span * across + byte % span + k % ROW_GROUP * span + k / ROW_GROUP * along;
    }
    return swizzled(at, span == 16 ? 0 : span);
}

static void read_factor(const Block *b, const Product *p, int which, unsigned first, unsigned rows, float *out) {
    unsigned size = p->types.factor->bytes, terms = K_BYTES / size;
    for (unsigned r = 0; r < rows; r++)
        for (unsigned k = 0; k < terms; k++) {
            unsigned at = factor_address(which ? p->b : p->a, p->turned[which], size, first + r, k);
            out[r * terms + k] = decoded(&p->types, shared_at(b, at, size, "wgmma"));
        }
}

static void read_registers(const Product *p, float *out) {
    unsigned size = p->types.factor->bytes;
    for (unsigned r = 0; r < MMA_ROWS; r++)
        for (unsigned k = 0; k < K_BYTES; k += size) {
            const uint32_t *word = &p->left[4 * (r % 8) + k % 16 / 4][r / 8 + 2 * (k / 16)];
            out[r * (K_BYTES / size) + k / size] = decoded(&p->types, (const unsigned char *)word + k % 4);
        }
}

/* The warp's 16 rows: register 4 * (n / 8) + 2 * (r / 8) + n % 2 of the lane 4 * (r % 8) + n % 8 / 2. */
static void multiply(const Warp *w, const Product *p) {
    static float left[MMA_ROWS * K_MOST], right[MOST_COLUMNS * K_MOST];
    unsigned warp = (unsigned)(w - w->block->warps) % WARPS, terms = K_BYTES / p->types.factor->bytes;
    if (p->from_registers)
        read_registers(p, left);
    else
        read_factor(w->block, p, 0, warp * MMA_ROWS, MMA_ROWS, left);
    read_factor(w->block, p, 1, 0, p->columns, right);
    for (unsigned r = 0; r < MMA_ROWS; r++)
        for (unsigned n = 0; n < p->columns; n++) {
            uint32_t *sum = &p->sums->values[4 * (r % 8) + n % 8 / 2][4 * (n / 8) + r / 8 * 2 + n % 2];
            sum_into(&p->types, terms, left + r * terms, right + n * terms, sum, sum);
        }
}

static Products *products_of(Warp *w) {
    if (!w->products) w->products = calloc(1, sizeof *w->products);
    if (!w->products) cpu_fault("out of memory");
    return w->products;
}

static Sums *sums_of(Products *all, const Warp *w, unsigned registers) {
    void *lanes[WARP];
    for (int i = 0; i < WARP; i++) lanes[i] = ((const Request *)w->arguments[i])->d[0];
    for (Sums *s = all->sums; s; s = s->next) {
        if (memcmp(s->lanes, lanes, sizeof lanes) == 0 && s->registers == registers) return s;
        if (s->lanes[0] == lanes[0]) cpu_fault("wgmma: registers are in flight as a fragment of another size");
    }
    if (!all->fenced) cpu_fault("wgmma: no wgmma.fence since its accumulators could be used");
    Sums *s = malloc(sizeof *s);
    if (!s) cpu_fault("out of memory");
    s->next = all->sums;
    s->registers = registers;
    s->uses = 0;
    memcpy(s->lanes, lanes, sizeof lanes);
    for (int i = 0; i < WARP; i++) {
        memcpy(s->values[i], lanes[i], registers * sizeof **s->values);
        memset(lanes[i], POISON, registers * sizeof **s->values);
    }
    return all->sums = s;
}

static void check_request(const Warp *w, const Request *first) {
    for (int i = 0; i < WARP; i++) {
        const Request *r = w->arguments[i];
        if (r->a != first->a || r->b != first->b) cpu_fault("wgmma: descriptors differ between lanes");
        for (int k = 0; k < r->columns / 2; k++)
            if ((char *)r->d[k] != (char *)r->d[0] + 4 * k) cpu_fault("wgmma: its registers are no array");
    }
}

/* left: four registers in place of the descriptor a; what they hold is taken at once. */
EXPORT void cpu_wgmma(int columns, const char *types, void *const *d, const void *const *left, uint64_t a, uint64_t b, int add, int turn_a,
                      int turn_b) {
    Request mine = {d, left, a, b, columns, add, turn_a, turn_b};
    if (!warp_meet("wgmma", ~0u, &mine)) return;
    Warp *w = thread_self()->warp;
    Products *all = products_of(w);
    check_request(w, &mine);
    Sums *sums = sums_of(all, w, (unsigned)columns / 2);
    if (!add) memset(sums->values, 0, sizeof sums->values);
    if (!add && sums->uses) cpu_fault("wgmma: a new sum where another is in flight");
    if (all->count == all->room) {
        all->room = all->room * 2 + 16;
        all->list = realloc(all->list, all->room * sizeof *all->list);
        if (!all->list) cpu_fault("out of memory");
    }
    sums->uses++;
    Product *p = &all->list[all->count++];
    *p = (Product){.types = types_of(types, "wgmma"),
                   .columns = (unsigned)columns,
                   .group = all->committed,
                   .a = a,
                   .b = b,
                   .turned = {turn_a != 0, turn_b != 0},
                   .sums = sums,
                   .from_registers = left != NULL};
    for (int i = 0; left && i < WARP; i++)
        for (int k = 0; k < 4; k++) memcpy(&p->left[i][k], ((const Request *)w->arguments[i])->left[k], sizeof p->left[i][k]);
    warp_go_on(w);
}

EXPORT void cpu_wgmma_fence(void) {
    if (!warp_meet("wgmma.fence", ~0u, NULL)) return;
    Warp *w = thread_self()->warp;
    products_of(w)->fenced = true;
    warp_go_on(w);
}

EXPORT void cpu_wgmma_commit(void) {
    if (!warp_meet("wgmma.commit_group", ~0u, NULL)) return;
    Warp *w = thread_self()->warp;
    products_of(w)->committed++;
    warp_go_on(w);
}

static void give_back(Products *all, Sums *s) {
    Sums **link = &all->sums;
    for (int i = 0; i < WARP; i++) memcpy(s->lanes[i], s->values[i], s->registers * sizeof **s->values);
    while (*link != s) link = &(*link)->next;
    *link = s->next;
    free(s);
}

EXPORT void cpu_wgmma_wait(int pending) {
    if (!warp_meet("wgmma.wait_group", ~0u, NULL)) return;
    Warp *w = thread_self()->warp;
    Products *all = products_of(w);
    size_t left = 0;
    for (size_t i = 0; i < all->count; i++) {
        Product *p = &all->list[i];
        if (p->group + (unsigned)pending >= all->committed) {
            all->list[left++] = *p;
            continue;
        }
        multiply(w, p);
        if (--p->sums->uses == 0) give_back(all, p->sums);
    }
    all->count = left;
    all->fenced = false;
    warp_go_on(w);
}

void products_end(Warp *w) {
    if (!w->products) return;
    if (w->products->count) cpu_fault("the block ends while its products are in flight");
    free(w->products->list);
    free(w->products);
    w->products = NULL;
}
