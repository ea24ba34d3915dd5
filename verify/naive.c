/* Prints the evaluator's nodes as C. Reductions are stages, each wholly computed before who reads it; all else is computed for each
 * element where it is wanted. An expression is a list of single assignments, so no precedence matters and none is printed twice. */
#include "naive.h"
#include "evaluate/evaluate_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 4000, MOST_MADE = 1 << 27 };

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

static const char preamble[] =
    "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n"
    "typedef struct {\n    const void *const *inputs;\n    void *const *made;\n    double (*read)(int, const void *);\n"
    "    int64_t (*read_int)(int, const void *);\n    int64_t (*to_integer)(int, double);\n"
    "    double (*quotient)(double, double), (*remainder)(double, double);\n} Args;\n"
    "static inline double most(double a, double b) { return a != a || b != b ? NAN : a == b ? (signbit(a) ? b : a) : a > b ? a : b; }\n"
    "static inline double number(double a, double b, double both) { return a != a ? b : b != b ? a : both; }\n"
    "static inline int64_t cut(unsigned bits, int is_signed, int64_t v) {\n"
    "    uint64_t low = (uint64_t)v << (64 - bits);\n    return is_signed ? (int64_t)low >> (64 - bits) : (int64_t)(low >> (64 - "
    "bits));\n}\n"
    "static inline int64_t floor_signed(int64_t a, int64_t b) {\n"
    "    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b - (a % b != 0 && (a % b < 0) != (b < 0));\n}\n"
    "static inline int64_t floor_unsigned(int64_t a, int64_t b) { return b == 0 ? 0 : (int64_t)((uint64_t)a / (uint64_t)b); }\n";

static const char *give_up(Printer *p, const char *why) {
    if (!p->why) p->why = why;
    return "0";
}

/* ---- Places ---- */

static size_t intern(Printer *p, const Place *place) {
    for (size_t i = 0; i < p->places.len; i++) {
        bool same = true;
        for (unsigned d = 0; d < DOMAIN_RANK && same; d++) {
            const char *a = p->places.data[i].index[d], *b = place->index[d];
            same = a == b || (a && b && strcmp(a, b) == 0);
        }
        if (same) return i;
    }
    VEC_PUSH(p->arena, &p->places, *place);
    return p->places.len - 1;
}

static const char *assign(Printer *p, bool real, double weight, const char *expression) {
    const char *name = arena_printf(p->arena, "v%u", p->names++);
    str_printf(&p->body, "        const %s %s = %s;\n", real ? "double" : "int64_t", name, expression);
    p->weight += weight;
    if (++p->lines > MOST_LINES) give_up(p, "its naive form is too long");
    return name;
}

static const char *index_of(Printer *p, const Place *at, unsigned axis) {
    return at->index[axis] ? at->index[axis] : give_up(p, "an index has no naive form");
}

/* The flat index; 0 for a scalar. */
static const char *flat_of(Printer *p, const Shape *shape, const Place *at) {
    const char *flat = NULL;
    for (unsigned d = 0; d < shape->rank; d++) {
        const char *index = index_of(p, at, d);
        flat = flat ? arena_printf(p->arena, "(%s * INT64_C(%lld) + %s)", flat, (long long)shape->extents[d], index) : index;
    }
    return flat ? flat : "0";
}

/* ---- Values ---- */

static const char *print_value(Printer *p, const Node *node, size_t place);

static const char *number_text(Printer *p, const Node *node, double real, int64_t integer) {
    if (!node->is_real) return arena_printf(p->arena, "(int64_t)UINT64_C(%llu)", (unsigned long long)integer);
    if (isnan(real)) return "NAN";
    if (isinf(real)) return real > 0 ? "INFINITY" : "(-INFINITY)";
    return arena_printf(p->arena, "(%a)", real);
}

static const char *integer_c_name(Dtype dtype) {
    static const char *const names[2][4] = {{"uint8_t", "uint16_t", "uint32_t", "uint64_t"}, {"int8_t", "int16_t", "int32_t", "int64_t"}};
    unsigned size = (unsigned)dtype_size(dtype);
    for (unsigned k = 0; k < 4; k++)
        if (dtype != DTYPE_BOOL && size == 1u << k && dtype_bits(dtype) == 8 * size) return names[dtype_is_signed(dtype)][k];
    return NULL;
}

static const char *print_input(Printer *p, const Node *node, const Place *at) {
    size_t number = 0;
    Dtype dtype = node->shape.dtype;
    while (number < p->ev->binding->input_count && node->input != &p->ev->binding->inputs[number]) number++;
    if (!node->input->data || number == p->ev->binding->input_count) return give_up(p, "its inputs are too large to be kept");
    if (!node->shape.elements) return "0";
    const char *flat = flat_of(p, &node->shape, at);
    const char *direct = dtype == DTYPE_F32 ? "float" : dtype == DTYPE_F64 ? "double" : node->is_real ? NULL : integer_c_name(dtype);
    const char *text = direct ? arena_printf(p->arena, "((const %s *)args->inputs[%zu])[%s]", direct, number, flat)
                              : arena_printf(p->arena, "args->%s(%d, (const char *)args->inputs[%zu] + %u * (%s))",
                                             node->is_real ? "read" : "read_int", (int)dtype, number, (unsigned)dtype_size(dtype), flat);
    return assign(p, node->is_real, direct ? 1 : 8, text);
}

static const char *wrapped(Printer *p, Dtype dtype, const char *value) {
    if (dtype == DTYPE_BOOL) return arena_printf(p->arena, "(%s) != 0", value);
    if (dtype_bits(dtype) >= 64) return value;
    return arena_printf(p->arena, "cut(%u, %d, %s)", dtype_bits(dtype), dtype_is_signed(dtype), value);
}

static const char *less_text(Printer *p, Dtype dtype, const char *a, const char *b) {
    return dtype_is_signed(dtype) ? arena_printf(p->arena, "%s < %s", a, b) : arena_printf(p->arena, "(uint64_t)%s < (uint64_t)%s", a, b);
}

static const char *integer_text(Printer *p, IrOpcode op, Dtype dtype, const char *a, const char *b) {
    Arena *arena = p->arena;
    const char *divide = dtype_is_signed(dtype) ? "floor_signed" : "floor_unsigned";
    switch (op) {
    case IR_ADD:
    case IR_SUB:
    case IR_MUL:
        return wrapped(p, dtype,
                       arena_printf(arena, "(int64_t)((uint64_t)%s %c (uint64_t)%s)", a,
                                    op == IR_ADD   ? '+'
                                    : op == IR_SUB ? '-'
                                                   : '*',
                                    b));
    case IR_DIV:
    case IR_FLOORDIV:
        return wrapped(p, dtype, arena_printf(arena, "%s(%s, %s)", divide, a, b));
    case IR_MOD:
        return arena_printf(arena, "%s ? (int64_t)((uint64_t)%s - (uint64_t)%s(%s, %s) * (uint64_t)%s) : 0", b, a, divide, a, b, b);
    case IR_MIN:
    case IR_MINNUM:
        return arena_printf(arena, "%s ? %s : %s", less_text(p, dtype, a, b), a, b);
    case IR_MAX:
    case IR_MAXNUM:
        return arena_printf(arena, "%s ? %s : %s", less_text(p, dtype, a, b), b, a);
    case IR_AND:
    case IR_OR:
    case IR_XOR:
        return arena_printf(arena, "%s %c %s", a, op == IR_AND ? '&' : op == IR_OR ? '|' : '^', b);
    case IR_NEG:
        return wrapped(p, dtype, arena_printf(arena, "(int64_t)(0 - (uint64_t)%s)", a));
    case IR_ABS:
        return wrapped(p, dtype, dtype_is_signed(dtype) ? arena_printf(arena, "(%s < 0 ? (int64_t)(0 - (uint64_t)%s) : %s)", a, a, a) : a);
    case IR_NOT:
        return dtype == DTYPE_BOOL ? arena_printf(arena, "!%s", a) : wrapped(p, dtype, arena_printf(arena, "~%s", a));
    case IR_FLOOR:
    case IR_CEIL:
    case IR_TRUNC:
    case IR_RINT:
        return a;
    default:
        return give_up(p, "an integer operation has no naive form");
    }
}

static const char *function_name(IrOpcode op) {
    switch (op) {
#define MATH(id, name, ulps_f32, ulps_f64, reference, slope, domain, method)                                                               \
    case IR_##id:                                                                                                                          \
        return #reference;
#include "math.def"
#undef MATH
    case IR_SQRT:
        return "sqrt";
    case IR_ABS:
        return "fabs";
    case IR_FLOOR:
        return "floor";
    case IR_CEIL:
        return "ceil";
    case IR_TRUNC:
        return "trunc";
    case IR_RINT:
        return "rint";
    case IR_NEG:
        return "-";
    case IR_FLOORDIV:
        return "args->quotient";
    case IR_MOD:
        return "args->remainder";
    case IR_MAX:
        return "most";
    default:
        return NULL;
    }
}

static const char *real_text(Printer *p, const Node *node, const char *const *x) {
    IrOpcode op = node->opcode;
    char sign = op == IR_ADD ? '+' : op == IR_SUB ? '-' : op == IR_MUL ? '*' : op == IR_DIV ? '/' : 0;
    if (sign) return arena_printf(p->arena, "%s %c %s", x[0], sign, x[1]);
    if (op == IR_FMA) return arena_printf(p->arena, "fma(%s, %s, %s)", x[0], x[1], x[2]);
    if (op == IR_MIN) return arena_printf(p->arena, "-most(-%s, -%s)", x[0], x[1]);
    if (op == IR_MAXNUM) return arena_printf(p->arena, "number(%s, %s, most(%s, %s))", x[0], x[1], x[0], x[1]);
    if (op == IR_MINNUM) return arena_printf(p->arena, "number(%s, %s, -most(-%s, -%s))", x[0], x[1], x[0], x[1]);
    const char *name = function_name(op);
    if (!name) return give_up(p, "an operation has no naive form");
    return node->operand_count == 1 ? arena_printf(p->arena, "%s(%s)", name, x[0]) : arena_printf(p->arena, "%s(%s, %s)", name, x[0], x[1]);
}

static const char *cast_text(Printer *p, const Node *node, const char *x) {
    const Node *from = node->operands[0];
    Dtype to = node->shape.dtype;
    if (node->is_real)
        return from->is_real ? x : arena_printf(p->arena, from->shape.dtype == DTYPE_U64 ? "(double)(uint64_t)%s" : "(double)%s", x);
    if (!from->is_real) return wrapped(p, to, x);
    return to == DTYPE_BOOL ? arena_printf(p->arena, "%s != 0", x) : arena_printf(p->arena, "args->to_integer(%d, %s)", (int)to, x);
}

static const char *compare_text(Printer *p, const Node *node, const char *a, const char *b) {
    const Node *from = node->operands[0];
    bool plain = from->is_real || dtype_is_signed(from->shape.dtype);
    const char *sign = node->opcode == IR_LT ? "<" : node->opcode == IR_LE ? "<=" : node->opcode == IR_EQ ? "==" : "!=";
    return arena_printf(p->arena, plain ? "%s %s %s" : "(uint64_t)%s %s (uint64_t)%s", a, sign, b);
}

static const char *print_lanewise(Printer *p, const Node *node, size_t place) {
    const char *x[3] = {"0", "0", "0"};
    for (unsigned i = 0; i < node->operand_count; i++) x[i] = print_value(p, node->operands[i], place);
    switch (node->opcode) {
    case IR_LT:
    case IR_LE:
    case IR_EQ:
    case IR_NE:
        return assign(p, false, 1, compare_text(p, node, x[0], x[1]));
    case IR_SELECT:
        return assign(p, node->is_real, 1, arena_printf(p->arena, "%s ? %s : %s", x[0], x[1], x[2]));
    case IR_CAST:
        return assign(p, node->is_real, 1, cast_text(p, node, x[0]));
    default:
        break;
    }
    if (node->is_real) return assign(p, true, ir_math_info(node->opcode) ? 16 : 1, real_text(p, node, x));
    if (node->opcode == IR_FMA) {
        const char *product = assign(p, false, 1, integer_text(p, IR_MUL, node->shape.dtype, x[0], x[1]));
        return assign(p, false, 1, integer_text(p, IR_ADD, node->shape.dtype, product, x[2]));
    }
    return assign(p, false, 1, integer_text(p, node->opcode, node->shape.dtype, x[0], x[1]));
}

/* ---- Values elsewhere ---- */

static const char *print_move(Printer *p, const Node *node, size_t place) {
    const Node *from = node->operands[0];
    Place at = p->places.data[place], inner = {{NULL}};
    for (unsigned d = 0; d < from->shape.rank; d++)
        inner.index[d] = node->map[0][d] >= 0 ? index_of(p, &at, (unsigned)node->map[0][d]) : "0";
    return print_value(p, from, intern(p, &inner));
}

static const char *print_flip(Printer *p, const Node *node, size_t place) {
    Place at = p->places.data[place];
    const char *text =
        arena_printf(p->arena, "INT64_C(%lld) - %s", (long long)node->shape.extents[node->axis] - 1, index_of(p, &at, node->axis));
    at.index[node->axis] = assign(p, false, 1, text);
    return print_value(p, node->operands[0], intern(p, &at));
}

static void unflatten(Printer *p, const Shape *shape, const char *flat, Place *at) {
    const char *rest = flat;
    for (unsigned d = shape->rank; d-- > 0;) {
        at->index[d] = d ? assign(p, false, 1, arena_printf(p->arena, "%s %% INT64_C(%lld)", rest, (long long)shape->extents[d])) : rest;
        if (d) rest = assign(p, false, 1, arena_printf(p->arena, "%s / INT64_C(%lld)", rest, (long long)shape->extents[d]));
    }
}

static const char *print_reshape(Printer *p, const Node *node, size_t place) {
    Place at = p->places.data[place], inner = {{NULL}};
    const char *flat = assign(p, false, 1, flat_of(p, &node->shape, &at));
    if (node->operands[0]->shape.elements) unflatten(p, &node->operands[0]->shape, flat, &inner);
    return print_value(p, node->operands[0], intern(p, &inner));
}

static const char *print_concat(Printer *p, const Node *node, size_t place) {
    Place at = p->places.data[place];
    const char *index = index_of(p, &at, node->axis), *value = "0";
    int64_t begin = 0;
    for (unsigned i = 0; i < node->operand_count; i++) {
        const Node *part = node->operands[i];
        int64_t extent = part->shape.extents[node->axis];
        if (!part->shape.elements) continue;
        Place inner = at;
        const char *in = assign(
            p, false, 1, arena_printf(p->arena, "(uint64_t)(%s - INT64_C(%lld)) < %lldu", index, (long long)begin, (long long)extent));
        inner.index[node->axis] = assign(p, false, 1, arena_printf(p->arena, "%s ? %s - INT64_C(%lld) : 0", in, index, (long long)begin));
        const char *there = print_value(p, part, intern(p, &inner));
        value = assign(p, node->is_real, 1, arena_printf(p->arena, "%s ? %s : %s", in, there, value));
        begin += extent;
    }
    return value;
}

/* What is outside without a pad is NaN: it differs, and the evaluator says what is wrong. */
static const char *print_element(Printer *p, const Node *node, size_t place) {
    const Node *from = node->operands[0];
    Place inner = {{NULL}};
    const char *in = "1";
    for (unsigned d = 0; d < from->shape.rank; d++) {
        const char *index = print_value(p, node->operands[d + 1], place);
        const char *inside = assign(p, false, 1, arena_printf(p->arena, "(uint64_t)%s < %lldu", index, (long long)from->shape.extents[d]));
        inner.index[d] = assign(p, false, 1, arena_printf(p->arena, "%s ? %s : 0", inside, index));
        in = d ? assign(p, false, 1, arena_printf(p->arena, "%s & %s", in, inside)) : inside;
    }
    const char *pad = node->padded || !node->is_real ? number_text(p, node, node->value, node->integer) : "NAN";
    if (!from->shape.elements) return pad;
    const char *there = print_value(p, from, intern(p, &inner));
    return assign(p, node->is_real, 1, arena_printf(p->arena, "%s ? %s : %s", in, there, pad));
}

static const char *print_stage_read(Printer *p, const Node *node, const Place *at) {
    size_t k = 0;
    while (k < p->stages.len && p->stages.data[k] != node) k++;
    if (k == p->stages.len) return give_up(p, "a reduction inside of another has no naive form");
    if (!node->shape.elements) return "0";
    const char *text =
        arena_printf(p->arena, "((const %s *)args->made[%zu])[%s]", node->is_real ? "double" : "int64_t", k, flat_of(p, &node->shape, at));
    return assign(p, node->is_real, 1, text);
}

static const char *print_iota(Printer *p, const Node *node, const Place *at) {
    const char *index = index_of(p, at, node->axis);
    return assign(p, node->is_real, 1, node->is_real ? arena_printf(p->arena, "(double)%s", index) : wrapped(p, node->shape.dtype, index));
}

static const char *print_new(Printer *p, const Node *node, size_t place) {
    Place at = p->places.data[place];
    switch (node->kind) {
    case NODE_SPLAT:
        return number_text(p, node, node->value, node->integer);
    case NODE_INDEX:
        return index_of(p, &at, node->axis);
    case NODE_INPUT:
        return print_input(p, node, &at);
    case NODE_LANEWISE:
        return print_lanewise(p, node, place);
    case NODE_MOVE:
        return print_move(p, node, place);
    case NODE_RESHAPE:
        return print_reshape(p, node, place);
    case NODE_FLIP:
        return print_flip(p, node, place);
    case NODE_CONCAT:
        return print_concat(p, node, place);
    case NODE_IOTA:
        return print_iota(p, node, &at);
    case NODE_ELEMENT:
        return print_element(p, node, place);
    case NODE_BODY:
        return print_value(p, node->operands[0], place);
    case NODE_REDUCE:
        return print_stage_read(p, node, &at);
    case NODE_SCAN:
        return give_up(p, "a scan has no naive form");
    case NODE_SORT:
        return give_up(p, "a sort has no naive form");
    case NODE_RANDOM:
        return give_up(p, "random numbers have no naive form");
    }
    return "0";
}

static const char *print_value(Printer *p, const Node *node, size_t place) {
    for (size_t i = 0; i < p->printed.len; i++)
        if (p->printed.data[i].node == node && p->printed.data[i].place == place) return p->printed.data[i].name;
    if (p->why) return "0";
    const char *name = print_new(p, node, place);
    VEC_PUSH(p->arena, &p->printed, (Printed){node, place, name});
    return name;
}

/* ---- Functions ---- */

static void print_accumulator(Printer *p, const Node *node) {
    Acc acc = acc_identity(node);
    if (node->reduce >= REDUCE_ARGMAX) {
        bool real = node->operands[0]->is_real;
        str_printf(&p->body, "        int64_t acc = -1, taken = 0;\n        %s best = 0;\n", real ? "double" : "int64_t");
    } else {
        str_printf(&p->body, "        %s acc = %s;\n", node->is_real ? "double" : "int64_t", number_text(p, node, acc.sum, acc.integer));
    }
}

static void print_arg_step(Printer *p, const Node *node, const char *x) {
    const Node *from = node->operands[0];
    bool least = node->reduce == REDUCE_ARGMIN;
    const char *a = least ? x : "best", *b = least ? "best" : x;
    const char *better = from->is_real ? arena_printf(p->arena, "(best == best && (%s != %s || %s < %s))", x, x, a, b)
                                       : less_text(p, from->shape.dtype, a, b);
    str_printf(&p->body, "        if (acc < 0 || %s) acc = taken, best = %s;\n        taken++;\n", better, x);
}

static void print_step(Printer *p, const Node *node, const char *x) {
    static const IrOpcode ops[] = {IR_ADD, IR_ADD, IR_MUL, IR_MAX, IR_MIN, IR_AND, IR_OR};
    if (node->reduce >= REDUCE_ARGMAX)
        print_arg_step(p, node, x);
    else if (!node->is_real)
        str_printf(&p->body, "        acc = %s;\n", integer_text(p, ops[node->reduce], node->shape.dtype, "acc", x));
    else if (node->reduce <= REDUCE_MUL)
        str_printf(&p->body, "        acc %c= %s;\n", node->reduce == REDUCE_MUL ? '*' : '+', x);
    else
        str_printf(&p->body, "        if (%s != %s || %s %c acc) acc = %s;\n", x, x, x, node->reduce == REDUCE_MAX ? '>' : '<', x);
}

static const char *print_reduction(Printer *p, const Node *node, const Place *at) {
    const char *reduced[DOMAIN_RANK], *terms[2] = {"0", "0"};
    print_accumulator(p, node);
    for (unsigned r = 0; r < node->reduced_rank; r++) {
        reduced[r] = arena_printf(p->arena, "r%u", r);
        str_printf(&p->body, "        for (int64_t r%u = 0; r%u < INT64_C(%lld); r%u++) {\n", r, r, (long long)node->reduced[r], r);
    }
    for (unsigned t = 0; t < node->operand_count; t++) {
        Place inner = {{NULL}};
        bool body = node->opcode == IR_GRAPH_GENERIC;
        unsigned rank = body ? node->shape.rank + node->reduced_rank : node->operands[t]->shape.rank;
        for (unsigned d = 0; d < rank; d++)
            inner.index[d] = node->map[t][d] >= 0 ? index_of(p, at, (unsigned)node->map[t][d]) : reduced[-1 - node->map[t][d]];
        terms[t] = print_value(p, node->operands[t], intern(p, &inner));
    }
    const char *term = terms[0];
    if (node->operand_count == 2)
        term = assign(p, node->is_real, 1,
                      arena_printf(p->arena, node->is_real ? "%s * %s" : "(int64_t)((uint64_t)%s * (uint64_t)%s)", terms[0], terms[1]));
    print_step(p, node, term);
    p->weight += 2;
    for (unsigned r = 0; r < node->reduced_rank; r++) str_append(&p->body, "        }\n");
    p->weight *= (double)node->reduced_count;
    return node->reduce == REDUCE_MEAN ? arena_printf(p->arena, "acc / %lld", (long long)node->reduced_count) : "acc";
}

static void print_function(Printer *p, const char *kind, size_t number, const Node *node, bool reduces) {
    Place at = {{NULL}};
    p->places.len = p->printed.len = p->names = 0;
    p->weight = 1;
    str_printf(&p->body, "void naive_%s_%zu(const Args *args, int64_t begin, int64_t end, void *out) {\n    (void)args;\n", kind, number);
    str_append(&p->body, "    for (int64_t flat = begin; flat < end; flat++) {\n");
    unflatten(p, &node->shape, "flat", &at);
    const char *value = reduces ? print_reduction(p, node, &at) : print_value(p, node, intern(p, &at));
    str_printf(&p->body, "        ((%s *)out)[flat - begin] = %s;\n    }\n}\n", node->is_real ? "double" : "int64_t", value);
    p->steps += p->weight * (double)node->shape.elements;
}

/* The reductions that a node reads, those first that others read. */
static void find_stages(Printer *p, const Node *node, bool *seen) {
    if (seen[node->id]) return;
    seen[node->id] = true;
    for (unsigned i = 0; i < node->operand_count; i++) find_stages(p, node->operands[i], seen);
    if (node->kind == NODE_REDUCE) VEC_PUSH(p->arena, &p->stages, node);
}

static void print_all(Printer *p) {
    bool *seen = ARENA_ARRAY(p->arena, bool, p->ev->node_count + 1);
    int64_t made = 0;
    for (unsigned k = 0; k < p->ev->output_count; k++) find_stages(p, p->ev->outputs[k], seen);
    for (size_t k = 0; k < p->stages.len; k++) made += p->stages.data[k]->shape.elements;
    if (made > MOST_MADE) give_up(p, "its intermediate results are too large");
    for (size_t k = 0; k < p->stages.len && !p->why; k++) print_function(p, "stage", k, p->stages.data[k], true);
    for (unsigned k = 0; k < p->ev->output_count && !p->why; k++) print_function(p, "output", k, p->ev->outputs[k], false);
}

Naive *naive_print(Arena *arena, const Evaluator *ev, const char **why) {
    Printer p = {.arena = arena, .ev = ev};
    str_init(&p.body);
    str_append(&p.body, preamble);
    print_all(&p);
    Naive *naive = ARENA_NEW(arena, Naive);
    *naive = (Naive){.ev = ev, .source = arena_strdup(arena, p.body.data), .steps = p.steps, .stage_count = p.stages.len};
    str_release(&p.body);
    naive->stages = ARENA_ARRAY(arena, NaiveStage, p.stages.len + 1);
    naive->outputs = ARENA_ARRAY(arena, NaiveFunc, ev->output_count + 1);
    naive->made = ARENA_ARRAY(arena, void *, p.stages.len + 1);
    naive->cost = ev->node_count;
    for (size_t k = 0; k < p.stages.len; k++) {
        naive->stages[k].elements = p.stages.data[k]->shape.elements;
        naive->cost += 2 * (double)p.stages.data[k]->reduced_count;
    }
    const void **inputs = ARENA_ARRAY(arena, const void *, ev->binding->input_count + 1);
    for (size_t i = 0; i < ev->binding->input_count; i++) inputs[i] = ev->binding->inputs[i].data;
    naive->args = (NaiveArgs){.inputs = inputs,
                              .made = naive->made,
                              .read = dtype_read,
                              .read_int = dtype_read_int,
                              .to_integer = scalar_to_integer,
                              .quotient = scalar_floor_quotient,
                              .remainder = scalar_floor_remainder};
    *why = p.why;
    return p.why ? NULL : naive;
}

/* ---- Running ---- */

typedef struct {
    const Naive *naive;
    size_t stage;
} StageRun;

static void run_stage(void *ctx, int64_t begin, int64_t end) {
    const StageRun *run = ctx;
    run->naive->stages[run->stage].run(&run->naive->args, begin, end,
                                       (char *)run->naive->made[run->stage] + (size_t)begin * sizeof(double));
}

bool naive_prepare(Naive *naive, unsigned threads) {
    for (size_t k = 0; k < naive->stage_count; k++) {
        int64_t elements = naive->stages[k].elements, grain = elements / 1024 + 1;
        naive->made[k] = malloc((size_t)elements * sizeof(double) + 1);
        if (!naive->made[k]) return false;
        verify_parallel(elements, grain, threads, run_stage, &(StageRun){naive, k});
    }
    return true;
}

void naive_release(Naive *naive) {
    for (size_t k = 0; naive && k < naive->stage_count; k++) free(naive->made[k]);
}
