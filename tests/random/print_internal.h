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
void product_axes(const RandomProgram *p, const Node *n, bool second, unsigned axes[MAX_DOMAIN]);
void program_print_sketch(const RandomProgram *p, const char *name, Str *out);

#endif
