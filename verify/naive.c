/* Prints the evaluator's nodes as C. Reductions are stages, each wholly computed before who reads it; all else is computed for each
 * element where it is wanted. An expression is a list of single assignments, so no precedence matters and none is printed twice. */
#include "naive.h"
#include "evaluate/evaluate_internal.h"
#include "naive_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 4000, MOST_MADE = 1 << 27 };

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

const char *naive_give_up(Printer *p, const char *why) {
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

const char *naive_assign(Printer *p, bool real, double weight, const char *expression) {
    const char *name = arena_printf(p->arena, "v%u", p->names++);
    str_printf(&p->body, "        const %s %s = %s;\n", real ? "double" : "int64_t", name, expression);
    p->weight += weight;
    if (++p->lines > MOST_LINES) naive_give_up(p, "its naive form is too long");
    return name;
}

static const char *index_of(Printer *p, const Place *at, unsigned axis) {
    return at->index[axis] ? at->index[axis] : naive_give_up(p, "an index has no naive form");
}

const char *naive_flat_of(Printer *p, const Shape *shape, const Place *at) {
    const char *flat = NULL;
    for (unsigned d = 0; d < shape->rank; d++) {
        const char *index = index_of(p, at, d);
        flat = flat ? arena_printf(p->arena, "(%s * INT64_C(%lld) + %s)", flat, (long long)shape->extents[d], index) : index;
    }
    return flat ? flat : "0";
}

/* ---- Values elsewhere ---- */

static const char *print_move(Printer *p, const Node *node, size_t place) {
    const Node *from = node->operands[0];
    Place at = p->places.data[place], inner = {{NULL}};
    for (unsigned d = 0; d < from->shape.rank; d++)
        inner.index[d] = node->map[0][d] >= 0 ? index_of(p, &at, (unsigned)node->map[0][d]) : "0";
    return naive_print_value(p, from, intern(p, &inner));
}

static const char *print_flip(Printer *p, const Node *node, size_t place) {
    Place at = p->places.data[place];
    const char *text =
        arena_printf(p->arena, "INT64_C(%lld) - %s", (long long)node->shape.extents[node->axis] - 1, index_of(p, &at, node->axis));
    at.index[node->axis] = naive_assign(p, false, 1, text);
    return naive_print_value(p, node->operands[0], intern(p, &at));
}

static void unflatten(Printer *p, const Shape *shape, const char *flat, Place *at) {
    const char *rest = flat;
    for (unsigned d = shape->rank; d-- > 0;) {
        at->index[d] =
            d ? naive_assign(p, false, 1, arena_printf(p->arena, "%s %% INT64_C(%lld)", rest, (long long)shape->extents[d])) : rest;
        if (d) rest = naive_assign(p, false, 1, arena_printf(p->arena, "%s / INT64_C(%lld)", rest, (long long)shape->extents[d]));
    }
}

static const char *print_reshape(Printer *p, const Node *node, size_t place) {
    Place at = p->places.data[place], inner = {{NULL}};
    const char *flat = naive_assign(p, false, 1, naive_flat_of(p, &node->shape, &at));
    if (node->operands[0]->shape.elements) unflatten(p, &node->operands[0]->shape, flat, &inner);
    return naive_print_value(p, node->operands[0], intern(p, &inner));
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
        const char *in = naive_assign(
            p, false, 1, arena_printf(p->arena, "(uint64_t)(%s - INT64_C(%lld)) < %lldu", index, (long long)begin, (long long)extent));
        inner.index[node->axis] =
            naive_assign(p, false, 1, arena_printf(p->arena, "%s ? %s - INT64_C(%lld) : 0", in, index, (long long)begin));
        const char *there = naive_print_value(p, part, intern(p, &inner));
        value = naive_assign(p, node->is_real, 1, arena_printf(p->arena, "%s ? %s : %s", in, there, value));
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
        const char *index = naive_print_value(p, node->operands[d + 1], place);
        const char *inside =
            naive_assign(p, false, 1, arena_printf(p->arena, "(uint64_t)%s < %lldu", index, (long long)from->shape.extents[d]));
        inner.index[d] = naive_assign(p, false, 1, arena_printf(p->arena, "%s ? %s : 0", inside, index));
        in = d ? naive_assign(p, false, 1, arena_printf(p->arena, "%s & %s", in, inside)) : inside;
    }
    const char *pad = node->padded || !node->is_real ? naive_number_text(p, node, node->value, node->integer) : "NAN";
    if (!from->shape.elements) return pad;
    const char *there = naive_print_value(p, from, intern(p, &inner));
    return naive_assign(p, node->is_real, 1, arena_printf(p->arena, "%s ? %s : %s", in, there, pad));
}

static const char *print_stage_read(Printer *p, const Node *node, const Place *at) {
    size_t k = 0;
    while (k < p->stages.len && p->stages.data[k] != node) k++;
    if (k == p->stages.len) return naive_give_up(p, "a reduction inside of another has no naive form");
    if (!node->shape.elements) return "0";
    const char *text = arena_printf(p->arena, "((const %s *)args->made[%zu])[%s]", node->is_real ? "double" : "int64_t", k,
                                    naive_flat_of(p, &node->shape, at));
    return naive_assign(p, node->is_real, 1, text);
}

static const char *print_iota(Printer *p, const Node *node, const Place *at) {
    const char *index = index_of(p, at, node->axis);
    return naive_assign(p, node->is_real, 1,
                        node->is_real ? arena_printf(p->arena, "(double)%s", index) : naive_wrapped(p, node->shape.dtype, index));
}

static const char *print_new(Printer *p, const Node *node, size_t place) {
    Place at = p->places.data[place];
    switch (node->kind) {
    case NODE_SPLAT:
        return naive_number_text(p, node, node->value, node->integer);
    case NODE_INDEX:
        return index_of(p, &at, node->axis);
    case NODE_INPUT:
        return naive_print_input(p, node, &at);
    case NODE_LANEWISE:
        return naive_print_lanewise(p, node, place);
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
        return naive_print_value(p, node->operands[0], place);
    case NODE_REDUCE:
        return print_stage_read(p, node, &at);
    case NODE_SCAN:
        return naive_give_up(p, "a scan has no naive form");
    case NODE_SORT:
        return naive_give_up(p, "a sort has no naive form");
    case NODE_RANDOM:
        return naive_give_up(p, "random numbers have no naive form");
    }
    return "0";
}

const char *naive_print_value(Printer *p, const Node *node, size_t place) {
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
        str_printf(&p->body, "        %s acc = %s;\n", node->is_real ? "double" : "int64_t",
                   naive_number_text(p, node, acc.sum, acc.integer));
    }
}

static void print_arg_step(Printer *p, const Node *node, const char *x) {
    const Node *from = node->operands[0];
    bool least = node->reduce == REDUCE_ARGMIN;
    const char *a = least ? x : "best", *b = least ? "best" : x;
    const char *better = from->is_real ? arena_printf(p->arena, "(best == best && (%s != %s || %s < %s))", x, x, a, b)
                                       : naive_less_text(p, from->shape.dtype, a, b);
    str_printf(&p->body, "        if (acc < 0 || %s) acc = taken, best = %s;\n        taken++;\n", better, x);
}

static void print_step(Printer *p, const Node *node, const char *x) {
    static const IrOpcode ops[] = {IR_ADD, IR_ADD, IR_MUL, IR_MAX, IR_MIN, IR_AND, IR_OR};
    if (node->reduce >= REDUCE_ARGMAX)
        print_arg_step(p, node, x);
    else if (!node->is_real)
        str_printf(&p->body, "        acc = %s;\n", naive_integer_text(p, ops[node->reduce], node->shape.dtype, "acc", x));
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
        terms[t] = naive_print_value(p, node->operands[t], intern(p, &inner));
    }
    const char *term = terms[0];
    if (node->operand_count == 2)
        term =
            naive_assign(p, node->is_real, 1,
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
    const char *value = reduces ? print_reduction(p, node, &at) : naive_print_value(p, node, intern(p, &at));
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
    if (made > MOST_MADE) naive_give_up(p, "its intermediate results are too large");
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
