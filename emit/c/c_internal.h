/* The C family printer: shared by its files. One printer, a dialect table per language. */
#ifndef EMIT_C_C_INTERNAL_H
#define EMIT_C_C_INTERNAL_H

#include "emit_internal.h"

/* Columns of a line of emitted text. Where an expression is longer, a part of it gets a name, so that people can read it. */
enum { C_LINE_WIDTH = 100 };

/* ---- Dialect ---- */

struct CPrinter;
typedef struct {
    const char *target; /* in diagnostics */
    bool gpu;
    unsigned mask;          /* bit of c_helpers.def */
    const char *index_type; /* the 64-bit index type */
    const char *restrict_word;
    const char *helper_prefix;                         /* of device helpers */
    const char *shared_prefix;                         /* of helpers that host code uses as well */
    const char *builtin;                               /* prefix of library functions: "__builtin_" */
    void (*print)(struct CPrinter *p);                 /* all functions */
    void (*print_head)(struct CPrinter *p, Str *head); /* what stands before the helpers */
} CDialect;
extern const CDialect c_dialect_cuda, c_dialect_openmp;

/* ---- Helpers that the emitted text needs (c_helpers.c) ---- */

/* Bits of a set of dialects. */
enum { C_OPENMP = 1, C_CUDA = 2 };
typedef enum {
#define HELPER(id, ...) C_HELPER_##id,
#include "c_helpers.def"
#undef HELPER
    C_HELPER_COUNT
} CHelper;

typedef struct {
    CHelper id;
    Dtype a, b; /* DTYPE_NONE as `a`: the index type */
} CHelperUse;

/* ---- Expressions ---- */

/* How tight C's operators bind, from loose to tight; 3 leaves room for the comma and assignments. */
enum {
    C_PREC_COND = 3,
    C_PREC_OR,
    C_PREC_AND,
    C_PREC_BIT_OR,
    C_PREC_BIT_XOR,
    C_PREC_BIT_AND,
    C_PREC_EQ,
    C_PREC_REL,
    C_PREC_SHIFT,
    C_PREC_ADD,
    C_PREC_MUL,
    C_PREC_UNARY,
    C_PREC_PRIMARY
};

/* Where a vector's lane number goes in its lane expression. */
#define C_LANE '\1'

typedef struct {
    const char *text;
    int prec;
} CExpr;

/* What the printer knows of an IR value. */
typedef struct {
    const IrValue *value;
    bool deferrable;     /* may be printed where it is used */
    bool inlined;        /* expr is a formula, not a variable: it may be replaced by one */
    CExpr expr;          /* scalar: its expression; vec: the lane C_LANE of it; null text: unbound */
    const char *address; /* vec: address of its first lane, when they lie in memory in a row */
    const char *array;   /* frag: its array, by the name that the value is printed under */
    const char *home;    /* frag: the array that this name stands for */
    const char *words;   /* frag: its elements as registers of a product's factor, null: made at the product */
    const IrOp *pending; /* vec: the op that makes it, printed straight into its place */
    Range range;         /* of an integer scalar */
    uint64_t varies;     /* c_masked.c: with which loops, from outside in */
} CValue;

/* Arrays that several fragments share (IrValue.storage). */
typedef struct {
    unsigned storage;
    const IrType *type;
    const char *hint;
    const IrBlock *block; /* the innermost one around all its values and their uses */
    const IrOp *first;    /* declared before this op of `block` */
    const char *array;    /* null until declared */
    bool carried;         /* hint is a loop argument's */
} CGroup;

/* The registers of a product's first factor. */
typedef struct {
    const IrOp *product;
    const char *array;
} CWords;

typedef struct CPrinter {
    Arena *arena;
    const CDialect *dialect;
    const IrModule *module;
    IrPlan plan;
    const IrFunc *func;
    const char *met; /* the parity of each cluster.meet, a bit each */
    const EmitOptions *options;
    DiagList *diags;
    bool failed;
    Str *out;
    unsigned indent;
    size_t statements; /* complete statements printed so far, to know a single one */
    size_t lines;
    NameScope names;
    ValueMap table; /* IrValue -> CValue */
    VEC(CGroup) groups;
    VEC(CHelperUse) helpers;
    VEC(const AtomInfo *) atoms;
    VEC(WgmmaForm) wgmmas;
    VEC(CWords) words;
    bool tensor_maps;      /* some kernel has one */
    uint32_t types_used;   /* bit per Dtype */
    const char *comment;   /* to be printed before the next line */
    VEC(uint64_t) seen;    /* lines that have had their comment, with their file */
    const char *open_type; /* of the declaration that ends the output, at open_at */
    size_t open_at;
    const Str *open_in;
    unsigned parallel_depth;
    const IrOp *skip; /* the inner loop of a nest whose outer body is being printed */
    bool smem_declared;
    bool fixed_masked;    /* c_has_fixed_masked_access of some function */
    uint32_t alias_types; /* bit per Dtype: pointers into shared memory on the CPU */
} CPrinter;

void c_fail(CPrinter *p, const IrOp *op, const char *what);

/* c_expr.c */
CValue *c_value(CPrinter *p, const IrValue *v);
CExpr c_use(CPrinter *p, const IrValue *v); /* of an operand; constants included */
Range c_range(CPrinter *p, const IrValue *v);
const char *c_text(CPrinter *p, CExpr e, int min_prec); /* in parentheses when it binds less */
CExpr c_make(CPrinter *p, int prec, const char *format, ...) PRINTF_LIKE(3, 4);
CExpr c_pure(CPrinter *p, const IrOp *op);                  /* value of an elementwise or pure scalar op */
const char *c_lane(CPrinter *p, CExpr e, const char *lane); /* with C_LANE replaced */
const char *c_type(CPrinter *p, Dtype t);                   /* in memory and arrays */
const char *c_scalar_type(CPrinter *p, const IrValue *v);   /* of a variable */
const char *c_int_text(CPrinter *p, int64_t value);
const char *c_float_text(CPrinter *p, Dtype t, double value);
const char *c_helper(CPrinter *p, CHelper id, Dtype a, Dtype b); /* its name, noted as used */
CExpr c_aff(CPrinter *p, const Aff *e);                          /* over symbols, for the host */
bool c_aff_nonneg(const Aff *e);
const char *c_guard(CPrinter *p, const IrFunc *f); /* the conditions of a version; null: none */

/* c_memory.c: loads, stores, vectors, atoms, shared memory */
const char *c_element(CPrinter *p, const IrValue *ptr, const IrValue *offset); /* p[off] */
CExpr c_load_scalar(CPrinter *p, const IrOp *op);
void c_store(CPrinter *p, const IrOp *op);
void c_vec_into(CPrinter *p, const IrOp *op, const char *address); /* makes op's vec at address */
const char *c_vec_address(CPrinter *p, const IrValue *v);          /* materialised if need be */
/* The lanes of a vec at `address`, one by one, each by the lane expression. */
void c_lane_loop(CPrinter *p, const IrType *t, const char *address, CExpr value);
void c_vec_copy(CPrinter *p, const IrValue *v, const char *address);
void c_atom(CPrinter *p, const IrOp *op);
void c_atomic(CPrinter *p, const IrOp *op); /* c_atomic.c */
void c_async_copy(CPrinter *p, const IrOp *op);
bool c_is_zero(const IrOp *op);                                         /* a constant whose bits are all zero */
const char *c_join(CPrinter *p, const char *address, const char *lane); /* element of an address */

/* c_stmt.c */
void c_if_line(CPrinter *p, const char *condition, const char *action);   /* on one line if it fits */
void c_line(CPrinter *p, const char *format, ...) PRINTF_LIKE(2, 3);      /* one line */
void c_statement(CPrinter *p, const char *format, ...) PRINTF_LIKE(2, 3); /* a complete statement */
void c_pragma(CPrinter *p, const char *format, ...) PRINTF_LIKE(2, 3);
void c_loop_open(CPrinter *p, const char *format, ...) PRINTF_LIKE(2, 3);
void c_block(CPrinter *p, const IrBlock *block); /* all but the terminator */
const char *c_declare_var(CPrinter *p, const IrValue *v, const char *hint);
void c_bind_frag(CPrinter *p, const IrValue *v, const char *home, bool written);
const char *c_declare_array(CPrinter *p, const IrType *t, const char *hint);
const char *c_declare_zeros(CPrinter *p, const IrType *t, const char *hint);
/* `const type name = text;`, on the line of the declaration right before it when it fits. */
void c_declare_const(CPrinter *p, const char *type, const char *name, const char *text);
void c_materialise(CPrinter *p, const IrValue *v);
void c_materialise_as(CPrinter *p, const IrValue *v, const char *hint); /* its name when it has none */
/* A body of one short statement goes on the line of its head. */
typedef struct {
    Str *saved, body;
    size_t statements, lines, names;
    const char *head;
} CBody;
void c_body_begin(CPrinter *p, CBody *b, const char *head);
void c_body_end(CPrinter *p, CBody *b);

/* c_loops.c */
void c_for(CPrinter *p, const IrOp *op);
void c_parallel(CPrinter *p, const IrOp *op);
void c_if(CPrinter *p, const IrOp *op);
void c_map(CPrinter *p, const IrOp *op);
bool c_product(CPrinter *p, const IrOp *map); /* c_product.c; false: not printed, it is to be loops */
bool c_makes_zeros(const IrOp *op);           /* a map that fills one fragment with zeros */

/* The array of `v`, which an instruction makes of that of `from` in place: the same, or a copy. */
const char *c_change_array(CPrinter *p, const IrValue *v, const IrValue *from);
/* An array for what an instruction makes. */
const char *c_new_array(CPrinter *p, const IrValue *v);

/* c_async.c */
void c_instruction(CPrinter *p, const IrOp *op); /* of async.def */
void c_wgmma(CPrinter *p, const IrOp *op);       /* wgmma and its wait */
/* The registers of factors that the loop's products find made, in front of the loop or at the end of the iteration before: nvcc keeps those
 * that a product makes anew beside the elements, and copies. To be called with the loop's arguments bound, and behind its yields. */
void c_factors_before(CPrinter *p, const IrOp *loop);
void c_factors_again(CPrinter *p, const IrOp *loop);
void c_print_wgmmas(CPrinter *p, Str *out); /* their functions */

/* c_plan.c */
void c_plan(CPrinter *p, const IrFunc *f); /* what is deferrable, shared arrays */

/* c_masked.c: a masked access whose address a loop around it does not change */
bool c_has_fixed_masked_access(CPrinter *p, const IrFunc *f);

/* c_helpers.c */
void c_print_helpers(CPrinter *p, Str *out);
const char *c_helper_name(CPrinter *p, CHelperUse use);
const char *c_atom_name(CPrinter *p, const AtomInfo *atom);

/* c_family.c */
typedef struct {
    const char *const *items;
    size_t count;
} CList;
/* Prints `head name(items...)tail` as clang-format breaks it; `split`: the name may stand on a line
 * of its own. */
void c_print_call(CPrinter *p, const char *head, const char *name, CList items, const char *tail, bool split);
CList c_parameters(CPrinter *p, const IrFunc *f, bool restricted, const char *extra);
CList c_arguments(CPrinter *p, const IrFunc *f);
/* Makes `f` the printer's function: forgets the last one, names the parameters. */
void c_enter(CPrinter *p, const IrFunc *f);
void c_print_body(CPrinter *p, const IrFunc *f); /* between the function's braces */
/* The conditions under which a launch is refused, each an `if` with `action`. */
void c_print_checks(CPrinter *p, const IrFunc *f, const char *action);
bool c_emit(const IrModule *m, const CDialect *dialect, const EmitOptions *options, Str *out, DiagList *diags);

/* c_launch.c */
extern const char c_make_map_text[]; /* the host function that makes a tensor map */
void c_print_launchers(CPrinter *p);

/* ---- Arithmetic (c_arithmetic.c) ---- */

/* FUNCTION(the first `count` operands). */
CExpr c_call(CPrinter *p, const char *function, unsigned count, const IrOp *op);
/* The same of a helper, which is then part of the text. */
CExpr c_helper_call(CPrinter *p, CHelper id, const IrOp *op);
/* Its two operands around a symbol of C. */
CExpr c_infix(CPrinter *p, const IrOp *op, const char *symbol, int prec, int left, int right);
/* An operation on integers. */
CExpr c_integer(CPrinter *p, const IrOp *op, Dtype t);
/* An operation on floats. */
CExpr c_floating(CPrinter *p, const IrOp *op, Dtype t);

/* ---- Copies (c_copies.c) ---- */

typedef struct {
    const char *to, *from; /* arrays, or a variable and an expression */
    const IrType *type;
    const char *scalar_type;
    bool lanes; /* vec: `from` is its lane C_LANE, an expression */
    bool done;
} CCopy;

/* Copies all of an array. */
void c_copy_array(CPrinter *p, const char *to, const char *from, const IrType *t);
/* Parallel assignment: a copy waits while another one still reads its target; a cycle is broken by
 * a temporary. */
void c_copy_all(CPrinter *p, CCopy *copies, size_t count);
/* Gives `v` an array: its storage's, else a new one. */
const char *c_bind_array(CPrinter *p, const IrValue *v, const char *hint);
/* Binds a vector of many lanes to the array. */
void c_bind_vec_array(CPrinter *p, const IrValue *v, const char *array);
/* The copy of `from` into what `to` is bound to. */
CCopy c_copy_of(CPrinter *p, const IrValue *to, const IrValue *from);

#endif
