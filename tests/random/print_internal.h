/* What the two printers share. */
#ifndef TESTS_RANDOM_PRINT_INTERNAL_H
#define TESTS_RANDOM_PRINT_INTERNAL_H

#include "ast.h"
#include "random.h"

const char *axis_symbol(unsigned axis); /* "A", "B", ... */
bool axis_is_used(const RandomProgram *p, unsigned axis);
void print_extent(const RandomProgram *p, unsigned axis, Str *out);
void print_number(double value, bool real, Str *out);
void print_symbols(const RandomProgram *p, Str *out);
void print_tensors(const RandomProgram *p, Str *out);
void print_scalars(const RandomProgram *p, bool with_value, Str *out);
/* `op(x, y)` or `(x op y)`; the operands are texts. */
void print_call(const Node *n, const char *const *operands, Str *out);
const char *fold_name(const Node *n);
/* The axes of an operand of a product, as its tensor has them. */
Form product_form(const Node *n, bool second);
/* The operands of an operation along an axis: of a recurrence the factors before what is added. */
const char *along_operands(Arena *arena, const Node *n, const char *const *operands);
/* What stands behind the operand in a scan or sort: ", reverse=true". */
const char *along_attributes(const Node *n);
/* The dims of a product's operands, of results, of what results need, of inputs of nodes. */
void print_dims(const RandomProgram *p, const Form *form, Str *out);
Form result_form(const RandomProgram *p, const Result *r);
/* A limit for each index of the axes that are walked one by one, of extent 1 along others. */
Form limits_form(const RandomProgram *p, const Form *form);
/* Everything of an input of a node that is no tensor alone. */
void print_own_tensors(const RandomProgram *p, unsigned node, Str *out);
void print_result_tensors(const RandomProgram *p, unsigned result, Str *out);
/* `through`: perhaps as a view of a view. */
void print_view(const RandomProgram *p, unsigned node, bool through, Str *out);
/* The cut's workspace, K, may be stored to and loaded through a view. */
bool has_workspace_view(const RandomProgram *p, bool stores);
void print_workspace_view(const RandomProgram *p, Str *out);
int view_offset(const Node *n, unsigned dim);
/* In the operator. */
void print_movement(const RandomProgram *p, const Node *n, const char *const *operands, Str *out);
void print_ragged(const RandomProgram *p, unsigned node, Str *out);
/* The equation of result `result`, whose value is `text`, or, of indexed nodes, their meaning. */
void print_result(const RandomProgram *p, unsigned result, const char *text, Str *out);
void print_indexed(const RandomProgram *p, unsigned node, unsigned result, Str *out);

/* ---- The sketch ---- */

typedef struct {
    const RandomProgram *p;
    Str *out;
    Arena *arena;
    unsigned depth;     /* of indentation */
    unsigned names;     /* tiles made so far */
    unsigned workspace; /* the node that a workspace holds, or MAX_NODES */
    bool to_workspace;  /* the one result goes there */
    bool live[MAX_NODES];
    unsigned uses[MAX_NODES];
    unsigned stage[MAX_NODES];   /* how many loops over the folded axis come before */
    const char *tile[MAX_NODES]; /* the tile or text that holds the value here; null: not yet */
    bool inside[MAX_AXES];       /* the axis is being walked */
    struct {
        size_t begin;   /* where its text begins */
        unsigned depth; /* of indentation */
    } loops[MAX_AXES];  /* that are open, outermost first */
    unsigned loop_count;
} Sketch;

void program_print_sketch(const RandomProgram *p, const char *name, Str *out);

/* print_sketch.c */
void line(Sketch *s, const char *format, ...) PRINTF_LIKE(2, 3);
const char *sketch_value(Sketch *s, unsigned node);
const char *new_name(Sketch *s);
const char *extent_text(Sketch *s, unsigned axis);
const char *tile_text(Sketch *s, unsigned axis);
char loop_variable(unsigned axis);
const char *slice_text(Sketch *s, unsigned axis, bool full);
const char *slices_text(Sketch *s, const Form *form);
const char *shape_text(Sketch *s, const Form *form);
void open_loop(Sketch *s, unsigned axis, bool parallel);
void close_loop(Sketch *s, unsigned axis);
int tile_place(Sketch *s, const Form *form, unsigned axis);
unsigned tile_rank(Sketch *s, const Form *form);
/* A new tile of the node's form. */
const char *declare(Sketch *s, const Node *n, Dtype dtype, const char *init);
/* print_nodes.c: the value of a node of the kinds behind lane by lane ones. */
const char *sketch_more(Sketch *s, unsigned node);
/* print_stores.c */
void sketch_store(Sketch *s, unsigned result);
void sketch_zero(Sketch *s, unsigned result);

#endif
