/* What generate.c knows of operations and forms. */
#ifndef TESTS_RANDOM_GENERATE_INTERNAL_H
#define TESTS_RANDOM_GENERATE_INTERNAL_H

#include "ast.h"
#include "random.h"

/* ---- Operations (operations.c): rows of builtins.def with those of weights.def ---- */

typedef enum { KINDS_ANY, KINDS_REAL, KINDS_INT, KINDS_BOOL, KINDS_NUMBER } Kinds;
typedef enum { NEED_ANY, NEED_SMALL, NEED_POSITIVE, NEED_UNIT, NEED_COUNT } Need;

typedef struct {
    BuiltinId id;
    BuiltinRule rule;
    unsigned weight, operand_count;
    Kinds kinds;
    bool real; /* integers become f32 */
    Need needs[2];
} Operation;

bool kinds_hold(Kinds kinds, Dtype dtype);
/* A lane by lane operation that this compiler lowers. */
const Operation *random_operation(Rng *rng);
/* One that keeps the shape and works along an axis. `constant`: along one of constant extent;
 * `bounded`: of bounded extent. */
const Operation *random_along(Rng *rng, bool bounded, bool constant);
/* A reduction; one that takes several steps, as its definition says, only when `whole`. */
const Operation *random_fold(Rng *rng, bool whole);
/* Form and dtype of a call, from its operands. */
void call_type(const RandomProgram *p, Node *n);
void call_magnitude(const RandomProgram *p, Node *n);

/* ---- Forms (program.c) ---- */

/* Whether the two line up from the last dimension, as NumPy has it, axis by axis. */
bool form_joins(const Form *a, const Form *b);
bool form_join(const Form *a, const Form *b, Form *joined);
void form_fold(Form *form, unsigned at, bool keepdim);

/* ---- Building values (generate.c) ---- */

bool has_room(const RandomProgram *p, unsigned nodes);
unsigned add_node(RandomProgram *p, Rng *rng, const Node *node);
Dtype random_dtype(Rng *rng);
void make_axis(Rng *rng, Axis *axis, unsigned room);
unsigned make_number(RandomProgram *p, Rng *rng, double value, bool real);
unsigned make_call(RandomProgram *p, Rng *rng, BuiltinId op, unsigned count, const unsigned *operands);
/* Makes an operand meet the condition by operations in front of it. */
unsigned fit_operand(RandomProgram *p, Rng *rng, unsigned a, Need condition);
/* A random earlier value whose form lines up with `with` (null: any) and is no bare number; false, and `found` as it
 * was: there is none. */
bool pick_value(const RandomProgram *p, Rng *rng, const Form *with, Kinds kinds, unsigned *found);
/* How a case fills a tensor of floats: sets its magnitude. */
void choose_data(Rng *rng, Node *n);
/* Every axis of the domain, all of its extent. */
Form domain_form(const RandomProgram *p);

/* ---- Values beyond lane by lane ones (generate_more.c) ---- */

/* Each adds one, or nothing where the program has no place for it. */
void add_own_input(RandomProgram *p, Rng *rng);
void add_movement(RandomProgram *p, Rng *rng);
void add_store_kinds(RandomProgram *p, Rng *rng);
void add_cut(RandomProgram *p, Rng *rng);

/* ---- Of a program as a whole (generate_last.c) ---- */

/* Scans become linear recurrences. */
void add_recurrences(RandomProgram *p);
/* The last result is stored over an input that it may take the place of. */
void add_in_place(RandomProgram *p);

#endif
