/* Shared by naive.c and naive_values.c: the printer of the naive form. */
#ifndef VERIFY_NAIVE_INTERNAL_H
#define VERIFY_NAIVE_INTERNAL_H

#include "support.h"

typedef struct {
    const char *index[DOMAIN_RANK]; /* C expressions; null: there is none */
} Place;

typedef struct {
    const Node *node;
    size_t place;
    const char *name;
} Printed;

typedef struct {
    Arena *arena;
    const Evaluator *ev;
    Str body;
    VEC(Place) places;
    VEC(Printed) printed;
    VEC(const Node *) stages;
    unsigned names, lines;
    double weight; /* of one run of the body's lines */
    double steps;
    const char *why;
} Printer;

/* Notes why the operator is not printed; null. */
const char *naive_give_up(Printer *p, const char *why);
/* Gives the expression a name; weight: of its time. */
const char *naive_assign(Printer *p, bool real, double weight, const char *expression);
/* The flat index; 0 for a scalar. */
const char *naive_flat_of(Printer *p, const Shape *shape, const Place *at);
/* A constant. */
const char *naive_number_text(Printer *p, const Node *node, double real, int64_t integer);
/* An element of a parameter. */
const char *naive_print_input(Printer *p, const Node *node, const Place *at);
/* The value as one of the type. */
const char *naive_wrapped(Printer *p, Dtype dtype, const char *value);
/* a < b. */
const char *naive_less_text(Printer *p, Dtype dtype, const char *a, const char *b);
/* An operation on integers; null: it has no C text. */
const char *naive_integer_text(Printer *p, IrOpcode op, Dtype dtype, const char *a, const char *b);
/* A lane-by-lane operation at the place. */
const char *naive_print_lanewise(Printer *p, const Node *node, size_t place);
/* The node's value at the place: an expression, printed once. */
const char *naive_print_value(Printer *p, const Node *node, size_t place);

#endif
