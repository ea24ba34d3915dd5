/* The checker's state and the parts it is made of:
 *   sema.c           order of work, names and scopes, implements
 *   sema_decl.c      symbols, constexprs, tensors, views      sema_case.c   cases
 *   sema_expr.c      types and values of expressions          sema_call.c   operations
 *   sema_define.c    operations defined by others          sema_axes.c   operations along axes
 *   sema_rules.c     type rules of these                      sema_products.c   products, moves of lanes
 *   sema_index.c     index notation of operators              sema_shape.c  extents and slices
 *   sema_stmt.c      statements and their actions             sema_call_form.c  calls that are statements
 *   sema_hints.c     hints
 *   sema_number.c    numbers that steer: bounds, indices      sema_memory.c workspaces
 *   sema_presence.c, sema_lanes.c, sema_values.c  definite assignment, presence, what loops carry (sema_flow.h)
 *   sema_parallel.c  whether iterations are independent       sema_use.c    use and require */
#ifndef SEMA_INTERNAL_H
#define SEMA_INTERNAL_H

#include "frontend_internal.h"

typedef struct NameEntry {
    Decl *decl;
    struct NameEntry *outer; /* shadowed */
    unsigned scope;
} NameEntry;

typedef struct Definition Definition;

typedef struct Sema {
    Arena *arena;
    DiagList *diags;
    File *file;
    const FrontendOptions *options;
    AffCtx *aff;
    bool had_syntax_errors; /* names may be missing because their declaration was lost */
    bool selected;          /* the block at hand is what is compiled: -D applies */

    Block *block;
    AffFacts *facts; /* of the innermost loop */
    Map *names;      /* name -> NameEntry*; visible when entry->scope != 0 */
    Map *ended;      /* name -> Decl* whose block has ended */
    PtrVec in_scope; /* NameEntry*, in order of declaration */
    unsigned scope, loop_depth;
    uint32_t next_order;
    uint32_t stretch; /* number of blocks begun and ended: what tiles hold is known within one */
    struct {
        Stmt **data;
        size_t len, cap;
    } loops; /* around the statement at hand */
    struct {
        const Aff **data;
        size_t len, cap;
    } guards;      /* each >= 0 where the statement at hand runs: the conditions around it */
    PtrVec values; /* OPERATOR: DECL_VALUE in order */
    bool in_index_notation;
    bool in_dims;                           /* of a tensor's declaration */
    bool incomplete;                        /* the sketch's body has errors: stores may be missing from what is known */
    Definition *definitions[BUILTIN_COUNT]; /* read on first use */
    const BuiltinInfo *defining;            /* whose definition is typed: complaints name it; else null */
    Stmt *stmt;                             /* at hand */
} Sema;

/* ---- sema.c ---- */
void sema_open_scope(Sema *s);
void sema_close_scope(Sema *s);
Decl *sema_find(Sema *s, const char *name);
/* Declares; reports a second declaration in the same scope. */
void sema_declare(Sema *s, Decl *d);
Decl *sema_new_decl(Sema *s, DeclKind kind, const char *name, Span span);
/* What a name stands for where it is used; what is proposed in place of an unknown one can stand there. */
typedef enum { USE_VALUE, USE_TILE, USE_MEMORY } NameUse;
/* Reports a name that is not visible, with the closest one. */
void sema_undeclared(Sema *s, const char *name, Span span, NameUse use);
Diag *sema_error(Sema *s, DiagId id, Span span, const char *format, ...) PRINTF_LIKE(4, 5);
const char *sema_aff_text(Sema *s, const Aff *e);
const char *sema_type_text(Sema *s, const Type *t);
const char *sema_source_text(Sema *s, Span span);

/* ---- sema_decl.c ---- */
Dtype sema_dtype(Sema *s, const char *name, Span span); /* reports; f32 when unknown */
void sema_decls(Sema *s, Block *b);
void sema_predefine(Sema *s);
/* Declares the views of a workspace that has just been made, and the views of these. */
void sema_views_of(Sema *s, const Decl *memory);
bool sema_is_viewed(const Sema *s, const char *name); /* is there a view of what has this name? */
/* What is behind a view, or behind views of views; else the tensor, workspace or tile itself. */
Decl *sema_memory(Decl *d);
void sema_define_unused(Sema *s);
bool sema_parse_const(const char *text, ConstValue *value);
const FrontendDefine *sema_find_define(const Sema *s, const char *name);
void sema_cases(Sema *s, Block *b);
void sema_implements(Sema *s, Block *sketch);

/* ---- sema_expr.c ---- */
/* Types the expression; the result also stands in e->type. `root` of a statement's value computes
 * in the join with its destination, inner nodes as temporaries. */
const Type *sema_expr(Sema *s, Expr *e);
bool sema_is_error(const Expr *e);
void sema_set_error(Expr *e);
/* An integer scalar, or tile of rank 0, as an affine expression; a value that is not affine becomes
 * a leaf of its own. Null after a report. */
const Aff *sema_scalar(Sema *s, Expr *e, const char *what); /* sema_number.c */
const Aff *sema_number(Sema *s, Expr *e);                   /* the same of a checked integer */
/* What may change between iterations of a loop: its variable, what is computed inside, and the
 * numbers in tiles from outside that the body writes. */
typedef struct {
    const Decl *variable;
    Decl *const *tiles;
    size_t tile_count;
} Changes;
bool sema_varies(const Aff *e, const Changes *c);
/* Whether it depends on more than symbols and constexprs: on a loop variable or a loaded value. */
bool sema_is_dynamic(const Aff *e);
bool sema_const_int(Sema *s, Expr *e, const char *what, int64_t *value);
bool sema_const_bool(Sema *s, Expr *e, const char *what, bool *value);
void sema_set_affine(Sema *s, Expr *e, const Aff *value);
void sema_operator(Sema *s, Expr *e);
bool const_is_true(const ConstValue *v);

/* ---- sema_call.c ---- */
typedef struct {
    BuiltinId id;
    BuiltinParam params[BUILTIN_MAX_PARAMS];
    size_t param_count;
    Expr **outputs; /* destinations in order, null where absent */
    size_t output_count;
} CallInfo;
/* Finds the operation and sorts arguments into e->bound and outputs; false after a report. */
bool sema_bind_call(Sema *s, Expr *e, bool with_outputs, CallInfo *info);
void sema_call(Sema *s, Expr *e);
/* A call whose arguments are bound: types its inputs and applies its rule. */
void sema_call_bound(Sema *s, Expr *e, const CallInfo *info);
/* The join of the operands of e, which must have been typed. */
Dtype sema_join_operands(Expr *e);
/* What `values:` says of a name; null: nothing. Its name is in scope from its equation on. */
Decl *sema_declared_value(const Sema *s, const char *name);
void sema_check_values(Sema *s, const Block *op);
/* Operands 0 and 1 of a product: one made of numbers takes the type of the other, as far as it is a float. */
void sema_factor_types(Sema *s, Expr *e);
/* A tile whose type no write has decided yet takes that of what it meets. */
void sema_settle(Expr *operand, Dtype join);
/* Numbers that were taken for f32 meet f64: they are computed in it. */
void sema_widen(Sema *s, Expr *e, Dtype dtype);
void sema_fold(Sema *s, Expr *e);        /* sema_fold.c: operations on scalars */
bool sema_folds(BuiltinId id, bool two); /* has this operation an affine form? */
const Aff *sema_fold_affine(AffCtx *c, BuiltinId id, const Aff *a, const Aff *b);
/* Types a bound call, operator or unary; operands must have been typed. */
void sema_apply(Sema *s, Expr *e, const CallInfo *info);
/* Types an operation of sema_axes.c: topk, concat, iota. */
void sema_apply_axes(Sema *s, Expr *e, const CallInfo *info);
/* axis=: one axis of x, or a list of them, as a bit set; false after a report. */
bool sema_axes(Sema *s, Expr *arg, const Type *x, uint32_t *axes);
/* Reads the truth-value attributes of scans and sorts. */
bool sema_flags(Sema *s, Expr *e, const CallInfo *info);
bool sema_dtype_arg(Sema *s, Expr *e, Dtype *dtype);
Expr *sema_argument(const Expr *e, const CallInfo *info, const char *name);

/* ---- sema_conv.c ---- */
void sema_conv(Sema *s, Expr *e, const CallInfo *info);

/* ---- sema_define.c ---- */
/* Types a call whose operation is defined by others; operands must have been typed. */
void sema_define(Sema *s, Expr *e);
/* The same again for a destination of type dst: computed in the join with it. */
void sema_define_into(Sema *s, Expr *e, Dtype dst);
/* The same again where numbers among the operands have become `dtype`. */
void sema_define_as(Sema *s, Expr *e, Dtype dtype);

/* Whether an argument is written as a shape: [M, N]. */
bool sema_is_shape(const Expr *e);

/* ---- sema_rules.c ---- */
Dtype dtype_join(Dtype a, Dtype b);
/* The type of a temporary: narrow floats become f32. */
Dtype dtype_temporary(Dtype t);
Dtype type_join(const Type *a, const Type *b);
bool type_is_number(const Type *t); /* a float made of numbers alone */
bool type_is_shaped(const Type *t);
Type type_scalar(Dtype dtype);
Type type_element(Dtype dtype); /* of a tensor, in index notation: not weak */

/* ---- sema_shape.c ---- */
bool sema_same_extent(Sema *s, const Aff *a, const Aff *b);
/* NumPy broadcasting of two shaped operands; reports and gives false when they do not fit. */
bool sema_broadcast(Sema *s, Expr *at, const Type *a, const Type *b, Type *result);
/* Whether `from` broadcasts to exactly `to`. */
bool sema_repeats_to(Sema *s, const Type *from, const Type *to);
/* An operation whose result has the shape of its operand. */
bool sema_same_shape(Sema *s, const Type *a, const Type *b);
/* Resolves e = BASE[...] for load and store: axes and the shape of the slice. */
bool sema_slice(Sema *s, Expr *e);
/* The whole of a tensor or tile as a slice. */
void sema_whole_slice(Sema *s, Expr *e);
/* sema_view.c: are any two elements of the view two elements of its tensor? */
bool sema_view_is_injective(Sema *s, const Decl *view);
/* Has each element of a tensor with strides a place of its own? */
bool sema_strides_are_injective(Sema *s, const Decl *tensor);
/* X[] is X, all of it, as S[] is of a tensor of rank 0: makes it the name. False where e is no such thing. */
bool sema_unwrap_whole(Expr *e);
/* Whether the slice has the tile's extents; reports at `span`. */
bool sema_slice_fits(Sema *s, Expr *slice, const Decl *tile, Span span);
const Aff **sema_shape_list(Sema *s, Expr *list, size_t *rank);

/* ---- sema_stmt.c ---- */
void sema_body(Sema *s, Body *body);
void sema_equations(Sema *s, Block *op);
/* Is this alloc a workspace, which loads and stores reach and nothing computes with? */
bool sema_is_memory(const Sema *s, const Decl *tile); /* sema_memory.c */

/* ---- sema_index.c ---- */
void sema_index_equation(Sema *s, Stmt *stmt);
/* Reports equation `at` when it reads elements that it, or one behind it, makes; sema_recur.c. */
bool sema_recurs(Sema *s, const Block *op, size_t at);
void sema_index_call(Sema *s, Expr *e);
void sema_index_element(Sema *s, Expr *e);
/* Is an index proved to lie in [0, dim)? */
bool sema_is_inside(Sema *s, const Aff *at, const Aff *dim);

/* ---- sema_hints.c ---- */
void sema_loop_hints(Sema *s, Stmt *loop);
void sema_other_hints(Sema *s, const Stmt *stmt);
bool sema_has_hint(const Stmt *stmt, const char *name);
void sema_alloc_hints(Sema *s, Expr *list, Decl *tile);
/* The row of an alloc's hint: a place, or else a wish; false: there is none. */
bool sema_alloc_hint(const char *name, Place *place, unsigned *wish);

/* ---- sema_use.c ---- */
void sema_uses(Sema *s, Block *b);           /* of a block that has some */
void sema_requires(Sema *s, const Block *b); /* behind its declarations */

/* ---- sema_presence.c, sema_parallel.c ---- */
void sema_presence(Sema *s, Block *sketch);
void sema_parallel(Sema *s, Block *sketch);
/* e = coefficient * var + rest; false when e is not linear in var. */
bool sema_linear_in(Sema *s, const Aff *e, const Decl *var, const Aff **coefficient, const Aff **rest);

/* ---- Type rules (sema_rules.c, sema_products.c) ---- */

/* Says what the operation needs of its operand; false. */
bool sema_bad_operand(Sema *s, Expr *operand, const char *name, const char *needs);
/* Are the operands values, not names of memory? Says it if not. */
bool sema_check_value_kinds(Sema *s, Expr *e, const char *name);
/* A lane-by-lane operation, whose operands are broadcast to one shape. */
void sema_elementwise(Sema *s, Expr *e, const BuiltinInfo *row);
/* The flag among the arguments; false: it is no constant. */
bool sema_read_flag(Sema *s, Expr *e, const CallInfo *info, const char *name, bool *flag);
/* cast(x, dtype=...). */
void sema_cast(Sema *s, Expr *e, const CallInfo *info);
/* A reduction, along the axes that the call names. */
void sema_reduce(Sema *s, Expr *e, const CallInfo *info, const BuiltinInfo *row);
/* How many lanes a reduction adds: of tiles the present ones, so that it is no affine value. */
void sema_count_lanes(Sema *s, Expr *e, const CallInfo *info, const BuiltinInfo *row);
void sema_keep_shape(Sema *s, Expr *e, const CallInfo *info, const BuiltinInfo *row);
/* h = a * h + b: one of the two may be a number or repeat. */
void sema_linear_scan(Sema *s, Expr *e, const CallInfo *info);

/* matmul, gemm and their kin. */
void sema_product(Sema *s, Expr *e, const CallInfo *info, const BuiltinInfo *row);
/* The axes in another order. */
void sema_transpose(Sema *s, Expr *e, const CallInfo *info);
/* The lanes in row-major order, with other extents. */
void sema_reshape(Sema *s, Expr *e, const BuiltinInfo *row);
/* ceil(a, b) of whole numbers, and of one tile. */
void sema_ceil_rule(Sema *s, Expr *e);

/* ---- Calls as statements (sema_call_form.c) ---- */

/* The statement's result goes to the declared name; is_new: it is defined here. */
void sema_set_target(Sema *s, Stmt *stmt, Decl *d, bool is_new);
/* target = alloc(...). */
void sema_check_alloc(Sema *s, Stmt *stmt, Expr *target, Expr *call);
/* The statement writes the value into a tile that there is; fills: lane by lane. */
void sema_write_tile(Sema *s, Stmt *stmt, Decl *d, Expr *value, bool fills);
/* target = value, of a tile that is new. */
void sema_make_tile(Sema *s, Stmt *stmt, const Expr *target, Expr *value);
/* The type of result number i: topk gives values and indices. */
Type sema_result_type(const Expr *call, size_t i);
/* A call that is a statement, with its results behind an arrow. */
void sema_check_call(Sema *s, Stmt *stmt, Expr *call);

#endif
