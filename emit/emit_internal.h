/* What the emitters share: legal names, scopes, atoms, small analyses of kernel functions. */
#ifndef EMIT_EMIT_INTERNAL_H
#define EMIT_EMIT_INTERNAL_H

#include "emit.h"

/* ---- names.c ---- */

/* Letters of an emitted name; what is longer is cut, and told apart by a hash or number. */
enum { NAME_MAX_LENGTH = 40 };

/* `hint` as an identifier of [A-Za-z0-9_]{1,40} that is no keyword, macro or CUDA name. */
const char *name_legal(Arena *arena, const char *hint);

typedef struct {
    const char *text;
    bool visible;
    unsigned next; /* where the search for another name like this one begins: 0 it, 1 its `_2`, 2 its `_3` ... */
} ScopeName;

/* The names visible at one place, innermost last. */
typedef struct {
    Arena *arena;
    Map *by_text;
    struct ScopeClaim {
        ScopeName *name, *base;
        unsigned next; /* the base's before */
    } * data;          /* in the order of their claims, by which they end */
    size_t len, cap;
} NameScope;
/* A legal name like `hint` that differs from all visible ones. */
const char *name_claim(NameScope *scope, const char *hint);
size_t name_mark(const NameScope *scope);
void name_release(NameScope *scope, size_t mark); /* forgets the names claimed since `mark` */

/* ---- value_map.c: what an emitter knows of each value ---- */

typedef struct {
    const IrValue **keys;
    void **values;
    size_t size, used;
} ValueMap;
/* The place for `v`, null at first; valid until the next call. */
void **value_map_at(ValueMap *m, Arena *arena, const IrValue *v);

/* ---- atoms.c ---- */

typedef struct {
    const char *name;    /* "mma.m16n8k16.f32.f16" */
    const char *results; /* classes, see ir/atoms.def */
    const char *operands;
    const char *ptx;
    bool is_volatile;
    unsigned version; /* of PTX, times ten, beyond its architecture's first; else 0 */
} AtomInfo;
/* The instruction that an op of async.def is; null when it is none. */
const AtomInfo *async_find(const IrOp *op);
/* Its i-th attribute operand, behind the op's own operands; false when there is none. */
bool async_attribute(const IrOp *op, int64_t *value);
/* wgmma with accumulators of `registers` each, or the wait for them. */
typedef struct {
    bool wait;
    unsigned registers, pending; /* pending: of the wait; then it has registers only where its products are done */
    bool fresh;                  /* accumulators are made, not added to */
    unsigned words;              /* registers of the first factor; 0: it is in shared memory */
    Dtype factors, acc;
    bool trans[2]; /* k runs across the rows: the instruction's transposition */
} WgmmaForm;
WgmmaForm wgmma_form(const IrOp *op);
const char *wgmma_name(Arena *arena, WgmmaForm form); /* of a function */
/* Its PTX: `mark` and a number stands for a register, the accumulators' from 0, those of a (words, or its descriptor) and
 * then b's descriptor from `factors` on. */
const char *wgmma_text(Arena *arena, WgmmaForm form, char mark, unsigned factors);
/* The next wgmma behind `op` and in front of its group's commit whose first factor is in registers; null: none. These registers are
 * made in front of the group's fence: the PTX ISA leaves products undefined that read registers written behind it. */
const IrOp *wgmma_next_of_registers(const IrOp *op);
/* Bits of a factor's descriptor beside its address. */
uint64_t wgmma_descriptor(const IrOp *op, unsigned which);
/* A factor's offset less what is fixed of it, which is added to *descriptor in its unit of 16 bytes: the steps of a stage are one sum apart
 * there, and a shift and a mask each otherwise. The rest is never negative. */
const IrValue *wgmma_offset(const IrOp *op, unsigned which, uint64_t *descriptor);
/* Bytes that the shared memory of the plan's kernels must be aligned to. */
int64_t plan_shared_align(const IrPlan *plan);
const AtomInfo *atom_of(const IrOp *op); /* null: it is no instruction of atoms.def */

/* One operand class of an atom: `count` registers of `dtype`; shared: a (pointer, offset) pair. */
typedef struct {
    unsigned count;
    Dtype dtype;
    bool vector, shared, map;
} AtomClass;
/* Reads the next class from *text and advances it; false at the end. */
bool atom_next_class(const char **text, AtomClass *cls);

/* ---- facts.c ---- */

typedef struct {
    int64_t lo, hi; /* inclusive; INT64_MIN / INT64_MAX: unknown */
} Range;
#define RANGE_ALL ((Range){INT64_MIN, INT64_MAX})
/* Bounds of an integer op from those of its operands. */
Range range_of_op(const IrOp *op, const Range *operands);
/* What the function's guard leaves of a symbol, in kernels whose products take factors from registers. */
Range range_of_symbol(Arena *scratch, const IrFunc *f, const char *name);
bool range_fits_int(Range r);
bool range_is_const(Range r);

/* Whether memory behind parameter `index` is only read. */
bool param_is_read_only(const IrFunc *f, unsigned index);
/* Do others touch it while the kernel runs, and one of them or the kernel writes: blocks that it meets, a step before that had not ended when
 * it began? Then no compiler may move an access over the waiting, nor may the access go past what keeps the caches coherent. */
bool param_is_shared(const IrFunc *f, unsigned index);
/* The widest access through parameter `index` in bytes (what its pointer must be aligned to). */
size_t param_access_bytes(const IrFunc *f, unsigned index);
int64_t func_threads(const IrFunc *f);
bool is_vec(const IrType *t);

#endif
