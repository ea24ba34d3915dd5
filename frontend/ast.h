/* The syntax tree. Nodes are plain structs with a kind tag and a span, allocated in the unit's
 * arena and never freed one by one. The parser fills the upper part of a node; the part under
 * "sema" is zero until frontend_check has run and is complete when it reported no error.
 *
 * Conventions of the checked tree (what build.c relies on):
 * - Integer scalars that are quasi-affine in symbols, loop variables and scalars carry `affine`.
 *   Its leaves: AFF_SYM for symbols (named as in the block that is checked) and for the predefined
 *   num_cores, num_sms...; AFF_VAR, whose `var` is always a `const Decl *`: a loop variable, an
 *   operator index, a local whose value is not affine, or a `scalars:` entry of integer type.
 *   Constexprs and affine locals are substituted away.
 * - A shape is an array of `rank` extents, a presence an array of `rank` intervals or null
 *   ("present everywhere").
 * - A statement's meaning is its `action`; call form and expression form arrive alike. */
#ifndef FRONTEND_AST_H
#define FRONTEND_AST_H

#include "affine.h"
#include "diag.h"
#include "dtype.h"
#include "support.h"

typedef struct Expr Expr;
typedef struct Stmt Stmt;
typedef struct Decl Decl;
typedef struct Block Block;

#define AST_MAX_RANK 8

/* ---- Operations: rows of builtins.def ---- */

typedef enum {
    BUILTIN_NONE,
#define BUILTIN(id, name, signature, rule, class, ir, summary) BUILTIN_##id,
#include "builtins.def"
#undef BUILTIN
    BUILTIN_COUNT
} BuiltinId;

typedef enum {
    CLASS_NONE,
    CLASS_ELEMENTWISE, /* broadcasting, lane by lane; comparisons and logic included */
    CLASS_REDUCE,      /* over one axis or all */
    CLASS_SCAN,
    CLASS_CONTRACT, /* gemm, matmul, dot, conv2d */
    CLASS_MOVE,     /* transpose, reshape, broadcast, concat, flip */
    CLASS_SORT,
    CLASS_COMPOSITE, /* defined by other operations: softmax, layer_norm */
    CLASS_CREATE,    /* iota, random: no tile operand */
    CLASS_CORE,      /* alloc, load, store */
    CLASS_HOST,      /* on scalars of loops and sizes: ceil(a, b), range */
    CLASS_DATA       /* how a case makes input data */
} BuiltinClass;

typedef enum {
    RULE_NONE,
#define TYPE_RULE(id, shape, type) RULE_##id,
#include "type_rules.def"
#undef TYPE_RULE
} BuiltinRule;

/* One parameter of an operation, from the signature string of its row. */
typedef struct {
    const char *name;
    bool is_output;       /* a destination: `>dst` */
    bool accumulates;     /* a destination that is read too: `+dst` */
    bool is_optional;     /* `name?` */
    bool is_attribute;    /* optional compile-time value, not a tile: `name=` */
    bool is_variadic;     /* `name*` */
    const char *fallback; /* what stands for it when absent, null: none: `name=-1`, `name?1` */
} BuiltinParam;
enum { BUILTIN_MAX_PARAMS = 12 };

typedef struct {
    BuiltinId id;
    const char *name, *signature, *ir, *summary;
    BuiltinRule rule;
    BuiltinClass class;
} BuiltinInfo;
const BuiltinInfo *builtin_info(BuiltinId id);
bool builtin_is_defined(BuiltinId id);                   /* by a definition in its row */
BuiltinId builtin_find(const char *name, size_t length); /* BUILTIN_NONE when unknown */
/* Fills `params` (room for BUILTIN_MAX_PARAMS), names allocated in `arena`; returns their number. */
size_t builtin_params(BuiltinId id, Arena *arena, BuiltinParam *params);

/* ---- Types and values ---- */

typedef enum {
    TYPE_NONE,   /* not checked, or no value (a store) */
    TYPE_ERROR,  /* a diagnostic stands behind it: report nothing more */
    TYPE_SCALAR, /* weak or typed scalar */
    TYPE_TILE,   /* rank 0: a mutable or loaded scalar */
    TYPE_TENSOR, /* whole tensor or view (operators; slices of them in load and store) */
    TYPE_STRING,
    TYPE_LIST
} TypeKind;

/* Lanes [lo, hi) of one axis are present. */
typedef struct {
    const Aff *lo, *hi; /* both null: the whole axis */
} Interval;

typedef struct {
    TypeKind kind;
    Dtype dtype;
    bool weak;   /* TYPE_SCALAR: takes the type of what it meets (i64 and f64 stand for "integer", "real") */
    bool number; /* made of numbers in the text and sizes alone: a float of them is f32 unless what it meets says f64 */
    bool moves;  /* TYPE_SCALAR: hangs on a loop variable or an index, so that it is computed again and again */
    uint8_t rank;
    const Aff *const *shape;
    const Interval *presence; /* null: present everywhere */
} Type;

typedef enum { CONST_NONE, CONST_INT, CONST_FLOAT, CONST_BOOL, CONST_STRING } ConstKind;
typedef struct {
    ConstKind kind;
    int64_t i;     /* CONST_INT, CONST_BOOL */
    double f;      /* CONST_FLOAT */
    const char *s; /* CONST_STRING, CONST_FLOAT: the literal's own text when it has one */
} ConstValue;

/* ---- Expressions ---- */

typedef enum {
    EXPR_ERROR,
    EXPR_CONST,
    EXPR_NAME,
    EXPR_UNARY,
    EXPR_BINARY,
    EXPR_CALL,
    EXPR_INDEX, /* X[b, f, a:b, :] */
    EXPR_SLICE, /* only inside EXPR_INDEX and view dims: a:b:step, each part may be null */
    EXPR_IN,    /* k in 0:K, a reduction index with its range */
    EXPR_TUPLE, /* (a, b) and lists without parentheses */
    EXPR_LIST   /* [a, b] */
} ExprKind;

/* Operators; each is also a builtin (opers.def), so that one type rule serves both forms. */
typedef enum {
#define OPER(id, text, builtin) OPER_##id,
#include "opers.def"
#undef OPER
    OPER_COUNT
} Oper;
const char *oper_text(Oper op);
BuiltinId oper_builtin(Oper op);

typedef struct {
    const char *name; /* null: positional */
    Span name_span;
    Expr *value;
    bool is_output; /* stood right of `->` */
} Arg;
typedef struct {
    Arg *data;
    size_t count;
} Args;

/* One axis of a resolved subscript. */
typedef enum { AXIS_RANGE, AXIS_POINT, AXIS_GATHER } AxisKind;
typedef struct {
    AxisKind kind;
    const Aff *start; /* RANGE, POINT: in elements of the base; may be negative or past the end */
    const Aff *end;   /* RANGE: as written; lanes at or past it are absent */
    const Aff *count; /* RANGE: lanes, as proved equal to the tile's extent */
    const Aff *step;  /* RANGE: in elements, > 0; 1 unless written */
    Expr *index;      /* GATHER: the index tile */
    Span span;
} AxisIndex;

/* A call of an operation that is defined by others: what its operands and locals hold, in order
 * (DECL_PARAM; a tile or tensor is converted to the type there), and the result over them. */
typedef struct {
    Decl **names;
    size_t count;
    Expr *result;
} Expansion;

/* How the window of conv2d moves over the rows and columns of x. */
typedef struct {
    int64_t stride[2], padding[2], dilation[2];
    const Aff *group_width; /* output channels of one group */
} Window;

struct Expr {
    ExprKind kind;
    uint16_t depth; /* of nesting below; bounded by the parser */
    Span span;
    union {
        ConstValue constant;
        struct {
            const char *name;
        } name;
        struct {
            Oper op;
            Span op_span;
            Expr *a, *b; /* UNARY: b is null */
        } oper;
        struct {
            const char *callee;
            Span callee_span;
            Args args;
        } call;
        struct {
            Expr *base;
            Expr **items;
            size_t count;
        } index;
        struct {
            Expr *lo, *hi, *step;
        } slice;
        struct {
            Expr *index, *range; /* range: EXPR_SLICE */
        } in;
        struct {
            Expr **items;
            size_t count;
        } list; /* TUPLE, LIST */
    } u;

    /* sema */
    Type type;
    Dtype compute;     /* elementwise, reduce, contract: the type in which it is carried out */
    BuiltinId builtin; /* CALL, UNARY, BINARY */
    Decl *decl;        /* NAME; INDEX: the base's declaration */
    const Aff *affine; /* integer scalars: the value; null when not affine */
    ConstValue value;  /* CONST_NONE unless known when compiling (constexprs substituted) */
    Expr **bound;      /* CALL: arguments in the order of builtin_params, null where absent;
                           UNARY, BINARY: the operands. Outputs are null here (see the action) */
    size_t bound_count;
    Expr *pad;       /* INDEX: pad(X, v)[...]: the value outside; null: none */
    AxisIndex *axes; /* INDEX: one for each axis of the base */
    size_t axis_count;
    uint8_t gather_rank;  /* INDEX: axes that index tiles give, where the first of them stands */
    Expansion *expansion; /* CALL of an operation with a definition */
    int reduce_axis;      /* reductions, softmax, scans: the axis, -1 for all or several */
    uint32_t reduce_axes; /* reductions: the folded axes, a bit each */
    const int64_t *order; /* transpose: axis i of the result is axis order[i] of the operand */
    const Window *window; /* conv2d */
    Expr **many;          /* CALL: the operands of a variadic parameter */
    size_t many_count;
    bool keepdim;
    Decl **indices; /* sum(k, ...) over DECL_INDEX */
    size_t index_count;
};

/* ---- Declarations ---- */

typedef enum {
    DECL_SYMBOL,
    DECL_SCALAR, /* scalars: run-time value */
    DECL_TENSOR,
    DECL_VIEW,
    DECL_CONSTEXPR,
    DECL_LOCAL, /* single-assignment scalar */
    DECL_TILE,
    DECL_LOOP,      /* a loop variable */
    DECL_INDEX,     /* of index notation in an operator */
    DECL_PARAM,     /* an operand or a local of a definition, in one call (Expansion) */
    DECL_VALUE,     /* a whole tensor computed in an operator, not declared */
    DECL_PREDEFINED /* num_cores, num_sms, warp_size, simd_width */
} DeclKind;

typedef enum { DIR_NONE, DIR_IN, DIR_OUT, DIR_INOUT } Direction;

/* Where a constexpr's value came from; written into the artifact. */
typedef enum { ORIGIN_UNBOUND, ORIGIN_DEFINE, ORIGIN_DEFAULT, ORIGIN_SPACE, ORIGIN_OPERATOR } Origin;

typedef enum { PLACE_NONE, PLACE_FASTEST, PLACE_FAST, PLACE_MEDIUM, PLACE_SLOW } Place;
enum { /* wishes of an alloc, a bit set */
       WISH_ACCUMULATOR = 1,
       WISH_INPUT_CACHE = 2,
       WISH_OUTPUT_BUFFER = 4,
       WISH_TEMP = 8,
       WISH_SHARED = 16
};

struct Decl {
    DeclKind kind;
    const char *name;
    Span span;       /* the name where it is declared */
    uint32_t order;  /* position among the declarations of its block, from 0 */
    bool is_implied; /* SYMBOL: by a constraint */

    /* parser */
    Expr *value;            /* CONSTEXPR default, SCALAR default, SYMBOL derived value, LOCAL, VALUE */
    Expr **dims;            /* TENSOR, VIEW */
    const char **dim_names; /* VIEW */
    size_t dim_count;
    const char *dtype_name; /* TENSOR, SCALAR */
    Span dtype_span;
    Expr **strides; /* TENSOR; null: row-major */
    size_t stride_count;
    Expr *view_of, *view_pad; /* VIEW: EXPR_INDEX over the dim names; pad may be null */
    Expr **space;             /* CONSTEXPR: search space, `in {..}`; null: none */
    size_t space_count;
    Expr *space_lo, *space_hi; /* `in lo..hi`, inclusive */

    /* sema */
    Type type;
    const Aff *affine;   /* SYMBOL, LOOP, INDEX, integer SCALAR: the leaf; affine LOCAL, integer
                          CONSTEXPR, derived SYMBOL: the value; PREDEFINED: the leaf */
    ConstValue constant; /* CONSTEXPR: the value taken; SCALAR: the default; LOCAL when known */
    Origin origin;       /* CONSTEXPR */
    ConstValue *choices; /* CONSTEXPR: the search space, evaluated */
    size_t choice_count;
    const char *define;            /* SYMBOL, SCALAR: the text of its -D, null when none (fixes a case's value) */
    const Aff *const *stride_affs; /* TENSOR: in elements, outermost first; null: row-major */
    Direction direction;           /* TENSOR, VIEW */
    Stmt *loop;                    /* LOOP: its statement */
    Stmt *site;                    /* TILE, LOCAL: the statement that creates it */
    bool is_workspace;             /* TILE: a top-level alloc that is loaded from and stored to, never computed with */
    Place place;                   /* TILE */
    unsigned wishes;               /* TILE */
    const Expr *hints;             /* TILE: llm_hint= of the alloc; null: none */
    bool has_init;                 /* TILE: init= or init_zero */
    ConstValue init;
    const Aff *index_lo, *index_hi; /* INDEX: [lo, hi) */
    Decl *bound_to;                 /* operator's TENSOR, SCALAR: the sketch's; sketch's: the operator's */
    Decl *base;                     /* VIEW: what it sees: a tensor, a view or a workspace */
    bool waits;                     /* VIEW: for the alloc of the workspace behind it */
    Decl **view_indices;            /* VIEW: DECL_INDEX, one a dim */
    uint32_t loop_depth;            /* TILE, LOCAL: loops around it */
    const Aff *number;              /* TILE of rank 0: the leaf for what it holds in a stretch of statements */
    uint32_t number_stretch;
    bool lacks_dims; /* TENSOR: a dim of it was in error, and stands as 1 */
    bool used;
};

/* ---- Statements ---- */

typedef enum { STMT_ERROR, STMT_ASSIGN, STMT_EXPR, STMT_FOR, STMT_IF, STMT_HINT } StmtKind;

typedef struct {
    const char *name; /* llm_hint */
    Span span;
    Args args;
} Hint;

typedef struct {
    Stmt **data;
    size_t count;
} Body;

/* What a statement does, decided by sema. */
typedef enum {
    ACTION_NONE,    /* an error, or nothing to build */
    ACTION_ALLOC,   /* creates tile targets[0]; with Decl.has_init it is filled */
    ACTION_LOAD,    /* value: EXPR_INDEX (or a tile's name) -> into */
    ACTION_STORE,   /* value: EXPR_NAME of a tile -> into: EXPR_INDEX of a tensor, view, workspace */
    ACTION_COMPUTE, /* targets = value, an expression over tiles; gemm also reads targets[0] */
    ACTION_SCALAR,  /* targets[i] (DECL_LOCAL) = values[i] */
    ACTION_EQUATION /* in an operator: targets[0] (DECL_TENSOR or DECL_VALUE) = value; index
                        notation when `indices` are given */
} Action;

typedef enum { STORE_SET, STORE_ADD, STORE_MAX, STORE_MIN } StoreMode;

typedef enum {
    PARALLEL_NONE,
    PARALLEL_PLAIN, /* parallel without a context */
    PARALLEL_GRID,
    PARALLEL_CORE,
    PARALLEL_THREAD,
    PARALLEL_WARP,
    PARALLEL_SIMD
} ParallelContext;

typedef struct {
    Decl *var;
    const Aff *lo, *hi, *step;                                               /* step: a constant > 0; null bounds where not affine */
    const Aff *trips;                                                        /* max(0, ceildiv(hi - lo, step)) */
    ParallelContext parallel;                                                /* as hinted */
    char grid_axis;                                                          /* 'x', 'y', 'z' of grididx.x; 0 when not said */
    bool proved_parallel;                                                    /* no iteration meets another (hinted or not) */
    bool pipeline, vectorize, unroll, swizzle, split_k, cluster, persistent; /* hinted */
    int64_t stages, width, factor, group, split, cluster_size;               /* 0: not said */
    Decl **carried; /* tiles that go from one iteration to the next, or behind the loop (of Stmt.written) */
    bool *goes_on;  /* of each: an iteration reads what it held before; else it is only read behind the loop */
    size_t carried_count;
    AffFacts *facts; /* what is known inside: ranges of this and the outer variables */
} LoopInfo;

struct Stmt {
    StmtKind kind;
    Span span;
    Hint *hints; /* that stand before it */
    size_t hint_count;
    union {
        struct {
            Expr **targets;
            size_t target_count;
            Expr **values;
            size_t value_count;
        } assign;
        struct {
            Expr *value;
        } expr;
        struct {
            const char *var;
            Span var_span;
            Expr *range;
            Body body;
        } loop;
        struct {
            Expr *condition;
            Body then_body, else_body;
        } branch;
    } u;

    /* sema */
    Action action;
    Decl **targets;
    size_t target_count;
    bool *target_is_new; /* the statement makes it (expression form) */
    Expr *value, *into;
    StoreMode mode;
    bool unique;    /* store: unique=true */
    Expr *pad;      /* load: pad= */
    Decl **indices; /* EQUATION in index notation: the free indices */
    size_t index_count;
    const Interval *presence; /* of targets[0] after the statement; null: everywhere */
    LoopInfo *loop;           /* STMT_FOR */
    Decl **written;           /* STMT_FOR, STMT_IF: tiles from outside that it writes, by declaration order */
    size_t written_count;
    Decl **assigned; /* STMT_IF: those of `written` that are read behind it */
    size_t assigned_count;
};

/* ---- Cases, blocks, file ---- */

typedef enum { SETTING_VALUE, SETTING_DATA } SettingKind;
typedef struct {
    SettingKind kind; /* `B = 2`, or `X: normal(0, 1)` */
    const char *name;
    Span span;
    Expr *value; /* DATA: EXPR_CALL */
    /* sema */
    Decl *decl;
    ConstValue constant; /* VALUE */
    BuiltinId data;      /* DATA: uniform, normal, ... */
    double params[4];    /* DATA: evaluated arguments */
    const Aff *sizes[4]; /* DATA: an argument made of symbols; null: the number */
    size_t param_count;
} Setting;
typedef struct {
    const char *name;
    Span span;
    Setting *settings;
    size_t setting_count;
} Case;

typedef enum { BLOCK_OPERATOR, BLOCK_SKETCH } BlockKind;

/* `implements op(X=A)` */
typedef struct {
    const char *op; /* null: implements nothing */
    Span span;
    Args renames;
} Implements;

/* `use NAME(BM=64)`: a sketch of the library, or a style of the designer, stands here. */
typedef struct {
    const char *name;
    Span span; /* of the name */
    Args params;
    int64_t *values; /* sema: of the parameters */
} Use;

/* An operator's name in terms of the sketch that implements it. */
typedef struct {
    Decl *op_decl;     /* symbol, scalar, tensor of the operator */
    Decl *sketch_decl; /* tensor, scalar; null for a symbol */
    const Aff *value;  /* symbol: over the sketch's symbols; null when it does not occur there */
    bool is_reshape;   /* tensor: same elements, another shape */
} Binding;

/* What must hold of the symbols at launch: expr == 0 when equal, else expr >= 0. */
typedef struct {
    const Aff *expr;
    bool equal;
    Span span; /* as the user wrote it */
} Condition;

struct Block {
    BlockKind kind;
    const char *name; /* "" for a sketch without a name */
    Span span, name_span;
    Implements implements;
    Decl **decls; /* as declared; sema adds nothing here */
    size_t decl_count;
    Expr **constraints; /* of symbols */
    size_t constraint_count;
    Expr **requires; /* what the sketch is meant for: each holds, or it is not for these sizes, types or this target */
    size_t require_count;
    Use *uses; /* SKETCH: made of these, with nothing of its own */
    size_t use_count;
    const char *precision_name; /* null: not given */
    Span precision_span;
    Body body;
    Case *cases;
    size_t case_count;

    /* sema */
    bool checked;
    Block *op;         /* SKETCH: what it implements, or null */
    Binding *bindings; /* SKETCH with op: for each symbol, scalar, tensor of the operator */
    size_t binding_count;
    Condition *conditions; /* from constraints of symbols; dims that are expressions are checked
                               against the tensor's type at launch */
    size_t condition_count;
    Decl **values; /* OPERATOR: undeclared whole-tensor names, in order */
    size_t value_count;
    bool has_parallel; /* SKETCH: some loop is hinted parallel */
};

typedef struct {
    uint32_t file;   /* in the source map */
    int64_t edition; /* 1 unless said */
    Block **blocks;
    size_t block_count;
    Span *comments; /* in order, for the formatter */
    size_t comment_count;
    /* sema */
    AffCtx *aff;                   /* all affine expressions of this file */
    Block *sketch;                 /* the one to compile; null: the operator alone */
    Block *used;                   /* a sketch made of `use`, to be designed for `op`; null: none. `sketch` is null then */
    Block *op;                     /* its operator; null: none */
    int64_t warp_size, simd_width; /* of the target, for what is built; 0: not said */
    bool check;                    /* count what is defined away: index values outside, integer divisions by zero */
    AffFacts *facts;               /* symbols' ranges and constraints of `sketch` (or `op`) */
} File;

#endif
