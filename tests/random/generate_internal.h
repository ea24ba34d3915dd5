/* What generate.c knows of operations and forms. */
#ifndef TESTS_RANDOM_GENERATE_INTERNAL_H
#define TESTS_RANDOM_GENERATE_INTERNAL_H

#include "ast.h"
#include "random.h"

/* ---- Operations (operations.c): rows of builtins.def with those of weights.def ---- */

typedef enum { KINDS_ANY, KINDS_REAL, KINDS_INT, KINDS_BOOL, KINDS_NUMBER } Kinds;
typedef enum {
    NEED_ANY,
    NEED_SMALL,
    NEED_POSITIVE,
    NEED_UNIT,
    NEED_COUNT
} Need;

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
/* One that keeps the shape and works along an axis; null when there is none. */
const Operation *random_along(Rng *rng);
/* Form and dtype of a call, from its operands. */
void call_type(const RandomProgram *p, Node *n);
void call_magnitude(const RandomProgram *p, Node *n);

/* ---- Forms (program.c) ---- */

/* Whether the two line up from the last dimension, as NumPy has it, axis by axis. */
bool form_joins(const Form *a, const Form *b);
bool form_join(const Form *a, const Form *b, Form *joined);
bool form_same(const Form *a, const Form *b);
void form_fold(Form *form, unsigned at, bool keepdim);

#endif
