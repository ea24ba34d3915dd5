/* The IR of sketchc: SSA with structured regions, one data structure for three levels.
 *
 *   graph   whole-tensor values: what an `operator` computes
 *   tile    values are tiles; states: open (symbolic extents), static, mapped (layouts, buffers)
 *   kernel  one thread's or core's program: scalars, short vectors, register fragments, pointers
 *
 * A module owns its arena; every node lives as long as the module. Ops hold operands, results,
 * attributes and regions; a region is one block, ended by `yield` (or `return` in a function).
 * The closed set of ops, with operands, attributes, traits and levels, is ops.def; builder,
 * printer, parser and verifier are driven by it. docs/ir.md is the reference. */
#ifndef IR_IR_H
#define IR_IR_H

#include "affine.h"
#include "diag.h"
#include "dtype.h"
#include "enums.h"
#include "func_attr.h"
#include "support.h"

typedef struct IrModule IrModule;
typedef struct IrFunc IrFunc;
typedef struct IrBlock IrBlock;
typedef struct IrOp IrOp;
typedef struct IrValue IrValue;
typedef struct IrType IrType;
typedef struct Layout Layout; /* layout.h */

/* ---- Types: interned in the module, compared by pointer ---- */

typedef enum {
    IR_TYPE_SCALAR, /* dtype, or index when is_index; width > 1: vec<width x dtype> */
    IR_TYPE_TILE,   /* extents (Aff over symbols), dtype; layout in state mapped */
    IR_TYPE_TENSOR, /* extents (Aff over symbols), dtype: value in graph, reference in tile */
    IR_TYPE_BUF,    /* stages x extents, dtype, space, layout: staged storage (mapped) */
    IR_TYPE_FRAG,   /* constant extents, dtype: a thread's register array (CPU: L1 buffer) */
    IR_TYPE_PTR,    /* dtype, space (kernel) */
    IR_TYPE_TOKEN   /* an async operation in flight */
} IrTypeKind;

/* MAP: a tensor map, which only tma.load reads; its pointer has the tensor's dtype. */
typedef enum { IR_SPACE_GLOBAL, IR_SPACE_SHARED, IR_SPACE_LOCAL, IR_SPACE_CLUSTER, IR_SPACE_MAP } IrSpace;

struct IrType {
    IrTypeKind kind;
    Dtype dtype;
    bool is_index;  /* SCALAR: the 64-bit index type (dtype is DTYPE_I64) */
    unsigned width; /* SCALAR: lanes, 1 for a plain scalar */
    unsigned rank;  /* TILE, TENSOR, BUF, FRAG */
    const Aff **extents;
    const Aff **strides;  /* TENSOR: in elements, one an axis; null: row-major */
    unsigned stages;      /* BUF */
    IrSpace space;        /* BUF, PTR */
    const Layout *layout; /* TILE (mapped), BUF; may be null */
};

const IrType *ir_type_index(IrModule *m);
const IrType *ir_type_scalar(IrModule *m, Dtype dtype);
const IrType *ir_type_vec(IrModule *m, Dtype dtype, unsigned width); /* width 1: the scalar */
const IrType *ir_type_tile(IrModule *m, Dtype dtype, unsigned rank, const Aff *const *extents, const Layout *layout);
const IrType *ir_type_tensor(IrModule *m, Dtype dtype, unsigned rank, const Aff *const *extents);
/* The tensor `t` with these strides, none of them negative. */
const IrType *ir_type_strided(IrModule *m, const IrType *t, const Aff *const *strides);
const IrType *ir_type_buf(IrModule *m, Dtype dtype, unsigned rank, const Aff *const *extents, unsigned stages, IrSpace space,
                          const Layout *layout);
const IrType *ir_type_frag(IrModule *m, Dtype dtype, unsigned rank, const int64_t *extents);
const IrType *ir_type_ptr(IrModule *m, Dtype dtype, IrSpace space);
const IrType *ir_type_token(IrModule *m);
bool ir_same_shape(const IrType *a, const IrType *b);                        /* extents only */
const IrType *ir_type_with_dtype(IrModule *m, const IrType *t, Dtype dtype); /* same shape */
int64_t ir_type_extent(const IrType *t, unsigned axis);                      /* constant extent, or -1 when symbolic */
/* By how many elements of memory neighbours along an axis of a tensor lie apart. */
const Aff *ir_type_stride(IrModule *m, const IrType *t, unsigned axis);

/* ---- Ops ---- */

typedef enum {
#define OP(id, ...) IR_##id,
#include "ops.def"
#undef OP
    IR_OP_COUNT
} IrOpcode;

enum { IR_LEVEL_GRAPH = 1, IR_LEVEL_TILE = 2, IR_LEVEL_KERNEL = 4 };
typedef enum { IR_STATE_OPEN, IR_STATE_STATIC, IR_STATE_MAPPED } IrState; /* of tile functions */

enum {
    IR_PURE = 1, /* no effect; may be moved, merged, deleted */
    IR_COMMUTATIVE = 2,
    IR_ELEMENTWISE = 4, /* works lane by lane on scalars, vectors, tiles, tensors of one shape */
    IR_READS = 8,       /* reads memory */
    IR_WRITES = 16,     /* writes memory or synchronises */
    IR_COLLECTIVE = 32, /* must be reached by all threads of its scope */
    IR_TERMINATOR = 64,
    IR_LOOP = 128, /* region may run any number of times */
    /* How tile and tensor axes relate; none of them: lane by lane. */
    IR_FOLDS = 256, /* the axes named by `axis` or `axes` are gone (1 with keepdim) */
    IR_ALONG = 512, /* axes stay in place; lanes along `axis` depend on each other */
    IR_MOVES = 1024 /* by a rule of the op's own (axis_link.c) */
};

typedef struct {
    const char *name;               /* text form */
    unsigned levels;                /* IR_LEVEL_* */
    int min_operands, max_operands; /* max -1: variadic */
    int results;                    /* -1: any number */
    int regions;                    /* 0..2 */
    unsigned traits;
    const char *type_rule; /* names a rule of verify.c: "same", "compare", "any", ... */
    const char *attrs;     /* "kind:kind axes:ints keepdim:bool?" ('?' optional) */
    const char *summary;
} IrOpInfo;
const IrOpInfo *ir_op_info(IrOpcode opcode);
bool ir_op_find(const char *name, IrOpcode *opcode);

/* A transcendental function: a row of math.def. */
typedef struct {
    const char *name;
    double ulps_f32, ulps_f64; /* of the expansion, at most */
    const char *domain, *method;
} IrMathInfo;
const IrMathInfo *ir_math_info(IrOpcode opcode); /* null: no such function */

/* ---- Attributes ---- */

typedef enum {
    IR_ATTR_INT,
    IR_ATTR_FLOAT,
    IR_ATTR_BOOL,
    IR_ATTR_STR,
    IR_ATTR_INTS,
    IR_ATTR_STRS,
    IR_ATTR_TYPE,
    IR_ATTR_AFF,
    IR_ATTR_DTYPE,
    IR_ATTR_ENUM /* a word of enums.def: string and integer */
} IrAttrKind;
typedef struct IrAttr {
    const char *key;
    IrAttrKind kind;
    int64_t integer;    /* INT, BOOL, DTYPE, ENUM */
    double number;      /* FLOAT */
    const char *string; /* STR, ENUM */
    size_t count;       /* INTS, STRS */
    const int64_t *ints;
    const char *const *strs;
    const IrType *type;
    const Aff *aff;
    struct IrAttr *next;
} IrAttr;

/* ---- Structure ---- */

typedef struct IrUse {
    IrOp *op;
    unsigned index;
    struct IrUse *next, **prev; /* intrusive list of a value's uses */
} IrUse;

struct IrValue {
    const IrType *type;
    IrOp *def;        /* null for block arguments */
    IrBlock *block;   /* block arguments: their block */
    unsigned index;   /* result or argument number */
    const char *name; /* source name as a hint, may be null; [A-Za-z0-9_]{1,40} */
    IrUse *uses;
    unsigned storage; /* kernel level: values of one non-zero storage share an array (coalesce) */
};

struct IrOp {
    IrOpcode opcode;
    IrBlock *block;
    IrOp *prev, *next;
    unsigned operand_count, result_count, region_count;
    IrUse *operand_uses; /* operand i is used through operand_uses[i] */
    IrValue **operands;
    IrValue *results; /* array of result_count */
    IrBlock *regions[2];
    IrAttr *attrs;
    Span span;
    uint32_t mark; /* scratch for analyses */
};

struct IrBlock {
    IrOp *parent; /* the op whose region this is; null for a function body */
    IrFunc *func;
    unsigned arg_count;
    IrValue **args;
    IrOp *first, *last;
};

typedef enum { IR_PARAM_TENSOR, IR_PARAM_SYMBOL, IR_PARAM_SCALAR, IR_PARAM_WORKSPACE, IR_PARAM_MAP } IrParamKind;

/* Begins the name of a workspace of one number that counts what the language defines away (--check): what, line and
 * column follow, as in sk_count_division_12_5. */
#define IR_COUNTER "sk_count_"

/* How the machine's copy engine sees a tensor of the function: in boxes of so many elements along each of
 * its axes (1 to 256, at most 5 axes), which land in shared memory with their 16-byte pieces permuted within
 * `swizzle` bytes (32, 64, 128; 0: not); what lies outside of the tensor is zero. tf32: each f32 is rounded to the
 * nearest number of 11 bits on the way, ties to even. joined: a row of the map is so many rows of the tensor, one behind the other in
 * memory; the next one begins a row of the tensor further on, so that rows overlap and there are joined - 1 fewer of them. */
enum { IR_MAP_RANK = 5 };
typedef struct {
    const char *tensor;
    unsigned rank;
    int64_t box[IR_MAP_RANK];
    unsigned swizzle, joined; /* joined: 0 and 1 are the same */
    bool tf32;
} IrTensorMap;

typedef enum { IR_DIR_IN = 1, IR_DIR_OUT = 2, IR_DIR_INOUT = 3 } IrDirection;
typedef struct {
    IrParamKind kind;
    const char *name;
    IrDirection direction; /* TENSOR */
    const IrType *type;    /* as declared; a tensor keeps its shape here when the kernel-level
                              argument is a pointer (text: `in of tensor<...>`). Set by
                              ir_func_add_param; may be null */
    const Aff *elements;   /* WORKSPACE: its size in elements, over symbols */
    const Aff *derived;    /* SYMBOL computed from others (never bound by a tensor); itself: a
                              constant of the launch such as num_sms; else null */
    double fallback;       /* SCALAR: its default, NaN when it has none */
    IrTensorMap map;       /* MAP */
} IrParam;

/* What must hold of the symbols at launch: expr == 0 when equal, else expr >= 0. */
typedef struct {
    const Aff *expr;
    bool equal;
    const char *text; /* as the user wrote it */
} IrConstraint;

/* Arguments of the body block are the parameters, in order: tensors (kernel level: pointers), then
 * symbols (index), then scalars, then workspaces, then tensor maps. */
struct IrFunc {
    IrModule *module;
    const char *name;
    unsigned level; /* IR_LEVEL_* */
    IrState state;
    unsigned param_count;
    IrParam *params;
    IrBlock *body;
    size_t constraint_count;
    IrConstraint *constraints;
    IrAttr *attrs;    /* func_attrs.def */
    const Aff *guard; /* this version runs when guard > 0; null: always */
    IrFunc *next;
};

/* Sizes and data on which an operator is tested and timed (`case` blocks). */
typedef struct {
    const Aff *size; /* over the case's symbols; null: the number */
    double number;
} IrCaseArg;
typedef struct {
    const char *tensor;    /* or a scalar, whose generator is const */
    const char *generator; /* uniform, normal, randint, ... */
    size_t arg_count;
    const IrCaseArg *args;
} IrCaseData;
typedef struct {
    const char *name;
    size_t symbol_count;
    const char **symbols;
    int64_t *values;
    size_t data_count;
    IrCaseData *data;
} IrCase;

struct IrModule {
    Arena *arena;
    AffCtx *affs;
    SourceMap *sources; /* may be null */
    IrFunc *first, *last;
    size_t case_count;
    IrCase *cases;
    struct LayoutCtx *layouts;
    void *interned; /* private: types, strings */
};

/* Where the module's layouts are interned; made at first use. */
struct LayoutCtx *ir_module_layouts(IrModule *m);

/* ---- Building ---- */

IrModule *ir_module_create(Arena *arena, SourceMap *sources);
IrFunc *ir_func_create(IrModule *m, const char *name, unsigned level);
IrValue *ir_func_add_param(IrFunc *f, IrParamKind kind, const char *name, const IrType *type, IrDirection direction);
IrValue *ir_func_symbol(IrFunc *f, const char *name); /* the index parameter of a symbol, or null */
void ir_func_add_constraint(IrFunc *f, const Aff *expr, bool equal, const char *text);
IrCase *ir_module_add_case(IrModule *m, const char *name);
void ir_case_set_symbol(IrModule *m, IrCase *c, const char *symbol, int64_t value);
void ir_case_set_data(IrModule *m, IrCase *c, const char *tensor, const char *generator, size_t arg_count, const IrCaseArg *args);
void ir_func_remove(IrFunc *f);
IrFunc *ir_func_clone(IrFunc *f, const char *name); /* appended after f */
/* Copies of the functions of these levels, as a module that shares the arena, types and expressions of `m` and has its cases. */
IrModule *ir_module_copy(IrModule *m, unsigned levels);

/* Where ops are inserted: before `before`, or at the end of `block` when null. */
typedef struct {
    IrModule *module;
    IrBlock *block;
    IrOp *before;
    Span span;
} IrBuilder;
IrBuilder ir_builder_at_end(IrBlock *block);
IrBuilder ir_builder_before(IrOp *op);
IrBuilder ir_builder_after(IrOp *op);

/* Creates and inserts an op. Result types must be given when the type rule does not determine
 * them ("any"); pass null to infer. Regions start with empty blocks (ir_region_add_arg). */
IrOp *ir_op_create(IrBuilder *b, IrOpcode opcode, unsigned operand_count, IrValue *const *operands, unsigned result_count,
                   const IrType *const *result_types);
IrValue *ir_region_add_arg(IrBlock *region, const IrType *type, const char *name);
IrValue *ir_result(IrOp *op, unsigned index);

void ir_attr_set_int(IrOp *op, const char *key, int64_t value);
void ir_attr_set_float(IrOp *op, const char *key, double value);
void ir_attr_set_bool(IrOp *op, const char *key, bool value);
/* Where ops.def says so, a word of enums.def. */
void ir_attr_set_str(IrOp *op, const char *key, const char *value);
void ir_attr_set_ints(IrOp *op, const char *key, size_t count, const int64_t *values);
void ir_attr_set_strs(IrOp *op, const char *key, size_t count, const char *const *values);
void ir_attr_set_aff(IrOp *op, const char *key, const Aff *value);
const IrAttr *ir_attr(const IrOp *op, const char *key); /* null when absent */
int64_t ir_attr_int(const IrOp *op, const char *key, int64_t fallback);
const char *ir_attr_str(const IrOp *op, const char *key, const char *fallback);
bool ir_attr_bool(const IrOp *op, const char *key); /* absent: false */
void ir_attr_remove(IrOp *op, const char *key);
bool ir_attrs_equal(const IrOp *a, const IrOp *b);
/* Do two ops do the same: are opcode, attributes and types of results equal, whatever the operands and regions are? */
bool ir_same_op(const IrOp *a, const IrOp *b);
/* Do two values come to the same: are they one, or alike by `same`, or computed by the same pure ops from values that come to the same? */
typedef bool (*IrSame)(void *ctx, const IrValue *a, const IrValue *b);
bool ir_equivalent(const IrValue *a, const IrValue *b, IrSame same, void *ctx);
void ir_attr_copy(IrOp *to, const IrOp *from, const char *key); /* nothing where it is absent */
/* Does a step before that of `f`, both of kernel level, write the memory behind parameter `index`, a tensor map's tensor? */
bool ir_param_is_written_before(const IrFunc *f, unsigned index);
/* Does one read or write it? */
bool ir_param_is_used_before(const IrFunc *f, unsigned index);

/* Short forms. Index arithmetic folds constants as it builds. */
IrValue *ir_const_index(IrBuilder *b, int64_t value);
IrValue *ir_const_int(IrBuilder *b, const IrType *type, int64_t value);
IrValue *ir_const_float(IrBuilder *b, const IrType *type, double value);
IrValue *ir_special(IrBuilder *b, IrSpecial special);
IrValue *ir_unary(IrBuilder *b, IrOpcode opcode, IrValue *a);
IrValue *ir_binary(IrBuilder *b, IrOpcode opcode, IrValue *x, IrValue *y);
IrValue *ir_select(IrBuilder *b, IrValue *cond, IrValue *x, IrValue *y);
IrValue *ir_cast(IrBuilder *b, IrValue *x, const IrType *to);
/* for(lb, ub, step, inits...): the region has args (i, carried...); the caller fills it and ends
 * it with ir_yield. */
IrOp *ir_for(IrBuilder *b, IrValue *lb, IrValue *ub, IrValue *step, unsigned carried, IrValue *const *inits, const char *name);
/* map over constant extents; region args are the indices. Result types: frags. */
IrOp *ir_map(IrBuilder *b, unsigned rank, const int64_t *extents, unsigned result_count, const IrType *const *result_types);
void ir_yield(IrBuilder *b, unsigned count, IrValue *const *values);

/* ---- Relations of axes (axis_link.c) ---- */

typedef enum {
    IR_AXIS_SAME,     /* lane i gives lane i */
    IR_AXIS_MIXED,    /* in place, but its lanes depend on each other: scan, sort, flip */
    IR_AXIS_FOLDED,   /* gone, or of extent 1 */
    IR_AXIS_REPEATED, /* its one lane gives all */
    IR_AXIS_APART     /* no axis of the result is made of its lanes alone, in order */
} IrAxisRelation;
typedef struct {
    IrAxisRelation relation;
    int axis; /* of the result, -1: none */
} IrAxisLink;
/* For an elementwise op or one with a trait IR_FOLDS, IR_ALONG or IR_MOVES: what becomes of an axis
 * of a tile or tensor operand. */
IrAxisLink ir_axis_link(const IrOp *op, unsigned operand, unsigned axis);

/* ---- Affine view of index values (affine_of.c) ---- */

/* The canonical expression of an index value: symbols as AFF_SYM by name, every other leaf (loop
 * variable, loaded scalar, special) as AFF_VAR with the IrValue as identity. */
const Aff *ir_aff_of(IrModule *m, IrValue *value);
/* Emits ops that compute `e`; AFF_SYM leaves become the function's symbol parameters. */
IrValue *ir_aff_emit(IrBuilder *b, const Aff *e);
/* What is known at `op`: symbol constraints, ranges of enclosing loop variables, guards. */
AffFacts *ir_facts_at(Arena *scratch, IrOp *op);

/* ---- Slices (slice.c): tile.load, tile.store, buf.copy, tile.extract, tile.insert ---- */

enum { IR_SLICE_MAX_RANK = 16 };
typedef struct {
    char letter;      /* IR_LETTER_*: which operands */
    unsigned operand; /* the first of its operands */
    int axis;         /* the tile's axis; g: the first of the index tiles' axes; p: -1 */
    int64_t step;     /* r: in elements */
} IrSliceAxis;
/* Index tiles have one shape; their axes stand once, where the first of them stood. */
typedef struct {
    unsigned base, rank; /* the operand that is accessed, its rank */
    IrSliceAxis axes[IR_SLICE_MAX_RANK];
    unsigned kept, ranges; /* axes of the tile; axes r */
    int gather_axis;       /* -1: no index tile */
    unsigned gather_rank;
    unsigned operand_count; /* that the op must have */
} IrSlice;
IrSlice ir_slice(const IrOp *op);
/* The range that gives the tile's axis; null where it comes from index tiles. */
const IrSliceAxis *ir_slice_range(const IrSlice *s, unsigned tile_axis, unsigned *base_axis);

/* ---- Rewriting ---- */

void ir_replace_uses(IrValue *old_value, IrValue *new_value);
void ir_set_operand(IrOp *op, unsigned index, IrValue *value);
void ir_op_erase(IrOp *op); /* results must be unused */
void ir_op_move_before(IrOp *op, IrOp *before);
void ir_op_move_to_end(IrOp *op, IrBlock *block);
/* Clones with operands mapped by `map` (value -> value, absent: itself); results are added. */
typedef struct IrValueMap IrValueMap;
IrValueMap *ir_value_map_create(Arena *scratch);
void ir_value_map_set(IrValueMap *map, IrValue *from, IrValue *to);
IrValue *ir_value_map_get(IrValueMap *map, IrValue *from); /* `from` itself when absent */
IrOp *ir_op_clone(IrBuilder *b, const IrOp *op, IrValueMap *map);
bool ir_dominates(const IrOp *a, const IrOp *b); /* a is before b in b's block or an enclosing one */
/* Visits ops in program order, regions inside; the callback may erase the op it is given. */
typedef void (*IrVisit)(void *ctx, IrOp *op);
void ir_walk(IrBlock *block, IrVisit visit, void *ctx);
bool ir_has_trait(const IrOp *op, unsigned trait);
/* Local cleanups used by many passes: constant folding, CSE, dead code, region simplification. */
bool ir_simplify(IrFunc *f);

/* ---- Text ---- */

void ir_print(const IrModule *m, Str *out); /* "sketchc.ir 1" header, all functions */
/* As ir_print; and where each op's text begins, with its span, in the text's order. */
typedef struct {
    size_t offset;
    Span span;
} IrPlace;
typedef struct {
    IrPlace *data;
    size_t len, cap;
} IrPlaces;
void ir_print_places(const IrModule *m, Arena *arena, Str *out, IrPlaces *places);
void ir_print_func(const IrFunc *f, Str *out);
void ir_print_op(const IrOp *op, Str *out);
void ir_print_type(const IrType *t, Str *out);
/* Parses text form; mistakes go to `diags` and give null. */
IrModule *ir_parse(Arena *arena, DiagList *diags, const char *path, const char *text, size_t size);

/* ---- Verification ---- */

/* Structure, types, levels and states, attributes, dominance, collectives under uniform control.
 * False with a bug diagnostic per finding. */
bool ir_verify(const IrModule *m, DiagList *diags);

/* Uniformity of a scalar: over which group of threads it is the same. */
typedef enum { IR_UNIFORM_GRID, IR_UNIFORM_CLUSTER, IR_UNIFORM_BLOCK, IR_UNIFORM_ROLE, IR_UNIFORM_WARP, IR_UNIFORM_LANE } IrUniformity;
IrUniformity ir_uniformity(IrValue *value);

#endif
