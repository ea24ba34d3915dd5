/* Decodes a graph-level function into nodes at concrete sizes; every complaint is made here. */
#include "evaluate_build.h"

#include <math.h>
#include <string.h>

bool eval_decode_fail(Build *b, const char *format, const char *what) {
    if (!b->error) b->error = arena_printf(b->arena, "%s: %s", format, what);
    return false;
}

static Node *find_node(Build *b, const IrValue *value) {
    for (size_t i = b->known.len; i-- > 0;)
        if (b->known.data[i].value == value) return b->known.data[i].node;
    return NULL;
}

/* The precision that bounds a node's own rounding: f32 unless the value is f64 or a cast says
 * otherwise. Narrow intermediate values are a storage choice of the operator's text and the
 * rounding to the output's dtype is added at the end. */
static void set_precision(Node *node) {
    Dtype dtype = node->shape.dtype;
    bool own = dtype == DTYPE_F64 || (node->opcode == IR_CAST && dtype_is_float(dtype));
    if (!own) dtype = DTYPE_F32;
    node->unit = dtype_unit_roundoff(dtype);
    node->largest = dtype_max(dtype);
    node->half = ldexp(node->unit, ilogb(node->largest));
    node->tiny = fmax(dtype_min_normal(dtype) * node->unit, 0x1p-1074); /* f64's half is no double */
}

static Node *new_node(Build *b, NodeKind kind, IrOpcode opcode, const IrType *type) {
    Node *node = ARENA_NEW(b->arena, Node);
    node->kind = kind;
    node->opcode = opcode;
    node->id = b->ev->node_count++;
    if (!shape_of(b->binding->sizes, NULL, type, &node->shape))
        eval_decode_fail(b, "a value has no valid shape at these sizes", ir_op_info(opcode)->name);
    if (type->kind == IR_TYPE_SCALAR && type->is_index) node->shape.dtype = DTYPE_I64;
    node->is_real = dtype_is_float(node->shape.dtype);
    set_precision(node);
    return node;
}

static void know(Build *b, const IrValue *value, Node *node) {
    VEC_PUSH(b->arena, &b->known, (Known){value, node});
}

/* ---- Parameters ---- */

static void bind_input(Build *b, Node *node, const IrParam *param) {
    for (size_t i = 0; i < b->binding->input_count; i++) {
        const EvalInput *input = &b->binding->inputs[i];
        if (strcmp(input->shape.name, param->name) != 0) continue;
        if (input->shape.dtype != node->shape.dtype || input->shape.rank != node->shape.rank ||
            input->shape.elements != node->shape.elements)
            eval_decode_fail(b, "the input's shape or dtype differs from the operator's", param->name);
        if (!input->data && !input->spec) break;
        node->input = input;
        return;
    }
    eval_decode_fail(b, "the input has no data", param->name);
}

static void bind_scalar(Build *b, Node *node, const IrParam *param) {
    double value = param->fallback;
    for (size_t i = 0; i < b->binding->scalar_count; i++)
        if (strcmp(b->binding->scalars[i].name, param->name) == 0) value = b->binding->scalars[i].value;
    if (isnan(value)) eval_decode_fail(b, "the scalar has no value", param->name);
    node->value = node->is_real ? dtype_round(node->shape.dtype, value) : value;
    node->integer = node->is_real ? 0 : (int64_t)value;
}

static void bind_symbol(Build *b, Node *node, const IrParam *param) {
    const Sizes *sizes = b->binding->sizes;
    for (size_t i = 0; i < sizes->count; i++)
        if (strcmp(sizes->values[i].name, param->name) == 0) {
            node->integer = sizes->values[i].value;
            return;
        }
    eval_decode_fail(b, "the symbol has no value", param->name);
}

static void decode_param(Build *b, unsigned i) {
    const IrParam *param = &b->f->params[i];
    const IrValue *arg = b->f->body->args[i];
    if (!arg->uses) return; /* an output that the graph function also lists */
    Node *node = new_node(b, param->kind == IR_PARAM_TENSOR ? NODE_INPUT : NODE_SPLAT, IR_CONST, arg->type);
    switch (param->kind) {
    case IR_PARAM_TENSOR:
        bind_input(b, node, param);
        break;
    case IR_PARAM_SYMBOL:
        bind_symbol(b, node, param);
        break;
    case IR_PARAM_SCALAR:
        bind_scalar(b, node, param);
        break;
    case IR_PARAM_WORKSPACE:
    case IR_PARAM_MAP:
        eval_decode_fail(b, "a graph has no workspaces", param->name);
        break;
    }
    know(b, arg, node);
}

/* ---- Ops ---- */

static bool decode_operands(Build *b, Node *node, const IrOp *op) {
    node->operand_count = op->operand_count;
    node->operands = ARENA_ARRAY(b->arena, Node *, op->operand_count + 1);
    for (unsigned i = 0; i < op->operand_count; i++) {
        node->operands[i] = find_node(b, op->operands[i]);
        if (!node->operands[i]) return eval_decode_fail(b, "an operand is used before it is known", ir_op_info(op->opcode)->name);
    }
    return true;
}

static void decode_const(Build *b, Node *node, const IrOp *op) {
    const IrAttr *value = ir_attr(op, "value");
    node->kind = NODE_SPLAT;
    if (!value) {
        eval_decode_fail(b, "a constant has no value", "const");
        return;
    }
    bool number = value->kind == IR_ATTR_FLOAT;
    node->integer = number ? (int64_t)value->number : value->integer;
    node->value = number ? value->number : (double)value->integer;
    if (node->is_real) node->value = dtype_round(node->shape.dtype, node->value);
}

static void decode_lanewise(Build *b, Node *node) {
    static const IrOpcode integer_only[] = {IR_AND, IR_OR, IR_XOR, IR_NOT, IR_SHL, IR_SHR};
    const char *name = ir_op_info(node->opcode)->name;
    node->kind = NODE_LANEWISE;
    if (node->operand_count == 0 || node->operand_count > 3) {
        eval_decode_fail(b, "an elementwise op has no known form", name);
        return;
    }
    for (size_t i = 0; node->is_real && i < COUNT_OF(integer_only); i++)
        if (node->opcode == integer_only[i]) eval_decode_fail(b, "bit operations need integers", name);
    bool real_only = node->opcode == IR_SQRT || ir_math_info(node->opcode);
    if (!node->is_real && real_only) eval_decode_fail(b, "this function needs floats", name);
}

static bool decode_broadcast(Build *b, Node *node, const IrOp *op) {
    const IrAttr *axes = ir_attr(op, "axes");
    const Shape *from = &node->operands[0]->shape;
    node->kind = NODE_MOVE;
    if (from->rank && (!axes || axes->count != from->rank))
        return eval_decode_fail(b, "broadcast needs one axis per operand axis", "graph.broadcast");
    for (unsigned i = 0; i < from->rank; i++) {
        unsigned axis = eval_decode_axis(axes->ints[i], node->shape.rank);
        if (axis >= node->shape.rank) return eval_decode_fail(b, "no such axis", "graph.broadcast");
        bool repeats = from->extents[i] == 1 && node->shape.extents[axis] != 1;
        if (!repeats && from->extents[i] != node->shape.extents[axis]) return eval_decode_fail(b, "extents differ", "graph.broadcast");
        node->map[0][i] = repeats ? -1 : (int)axis;
    }
    return true;
}

static bool decode_transpose(Build *b, Node *node, const IrOp *op) {
    const IrAttr *perm = ir_attr(op, "perm");
    node->kind = NODE_MOVE;
    if (!perm || perm->count != node->shape.rank) return eval_decode_fail(b, "transpose needs a permutation", "graph.transpose");
    for (unsigned i = 0; i < node->shape.rank; i++) node->map[0][eval_decode_axis(perm->ints[i], node->shape.rank)] = (int)i;
    return true;
}

/* ---- Index notation ---- */

static bool decode_block(Build *b, const IrBlock *block, const IrOp **last);

static bool decode_element(Build *b, Node *node, const IrOp *op) {
    const IrAttr *pad = ir_attr(op, "pad");
    node->kind = NODE_ELEMENT;
    if (node->operand_count != node->operands[0]->shape.rank + 1)
        return eval_decode_fail(b, "one index per axis is needed", "graph.element");
    if (!pad) return true;
    node->padded = true; /* an element of the tensor's type like the others */
    node->value = dtype_round(node->operands[0]->shape.dtype, pad->kind == IR_ATTR_FLOAT ? pad->number : (double)pad->integer);
    node->integer = (int64_t)node->value;
    return true;
}

static bool is_zero(const Node *node) {
    return node->kind == NODE_SPLAT && node->opcode == IR_CONST && node->is_real && node->value == 0;
}

/* A sum of products of two elements is a contraction, and judged as one; so is one of those that a condition leaves. */
static bool find_product(Build *b, Node *node, Node *term) {
    if (node->reduce != REDUCE_ADD || !term->is_real) return true;
    if (term->opcode == IR_SELECT && is_zero(term->operands[2])) term = term->operands[1];
    if (term->opcode != IR_MUL) return true;
    term->fused = true;
    const Node *side[2] = {term->operands[0], term->operands[1]};
    for (unsigned i = 0; i < 2; i++) {
        if (side[i]->opcode == IR_CAST && side[i]->kind == NODE_LANEWISE) side[i] = side[i]->operands[0];
        if (side[i]->kind != NODE_ELEMENT) return true;
    }
    Dtype a = side[0]->shape.dtype, c = side[1]->shape.dtype;
    Dtype from = dtype_unit_roundoff(a) < dtype_unit_roundoff(c) ? a : c;
    if (term->shape.dtype == DTYPE_F64) from = DTYPE_F64; /* multiplied in it */
    return eval_decode_judge_products(node, eval_decode_default_precision(b), from,
                                      eval_decode_narrow_float(a) && eval_decode_narrow_float(c));
}

static bool decode_generic(Build *b, Node *node, const IrOp *op) {
    unsigned outer = (unsigned)ir_attr_int(op, "outer", 0);
    const IrBlock *body = op->regions[0];
    if (op->operand_count > DOMAIN_RANK || body->arg_count != op->operand_count || outer != node->shape.rank)
        return eval_decode_fail(b, "the domain does not fit the result", "graph.generic");
    node->reduced_count = 1;
    for (unsigned i = 0; i < op->operand_count; i++) {
        const Node *extent = node->operands[i];
        if (extent->kind != NODE_SPLAT) return eval_decode_fail(b, "an extent is not a number at these sizes", "graph.generic");
        if (i < outer)
            node->map[0][i] = (int)i;
        else
            node->map[0][i] = -1 - (int)node->reduced_rank, eval_decode_add_reduced(node, extent->integer);
        Node *index = new_node(b, NODE_INDEX, IR_CONST, body->args[i]->type);
        index->axis = i;
        know(b, body->args[i], index);
    }
    const IrOp *yield;
    if (!decode_block(b, body, &yield)) return false;
    if (!yield || yield->opcode != IR_YIELD || yield->operand_count != 1)
        return eval_decode_fail(b, "the body must yield one scalar", "graph.generic");
    node->operand_count = 1;
    node->operands[0] = find_node(b, yield->operands[0]);
    if (!node->operands[0]) return eval_decode_fail(b, "the body yields an unknown value", "graph.generic");
    node->kind = NODE_BODY;
    if (outer == op->operand_count) {
        const Node *inner = node->operands[0]; /* the same values: rounded as its last op rounds */
        node->unit = inner->unit;
        node->largest = inner->largest;
        node->half = inner->half;
        node->tiny = inner->tiny;
        return true;
    }
    if (!eval_decode_reduce_kind(b, node, ir_op_kind(op))) return false;
    return find_product(b, node, node->operands[0]);
}

/* Index arithmetic of symbols and constants becomes a number. */
static void fold_integer(Build *b, Node *node) {
    double zero[3] = {0, 0, 0}, error;
    uint8_t ties[3] = {0, 0, 0}, tie;
    int64_t result = 0;
    Lanes lanes[3], out = {.i = &result, .e = &error, .tie = &tie};
    const Lanes *pointers[3] = {&lanes[0], &lanes[1], &lanes[2]};
    if (node->is_real || node->shape.rank) return;
    for (unsigned i = 0; i < node->operand_count; i++) {
        Node *operand = node->operands[i];
        if (operand->kind != NODE_SPLAT || operand->is_real) return;
        lanes[i] = (Lanes){.i = &operand->integer, .e = &zero[i], .tie = &ties[i]};
    }
    lanes_compute(b->ev, node, pointers, 1, &out);
    node->kind = NODE_SPLAT;
    node->integer = result;
}

static bool decode_axes(Build *b, Node *node, const IrOp *op) {
    const char *complaint = NULL;
    if (axes_decode(node, op, &complaint)) return true;
    return eval_decode_fail(b, complaint, ir_op_info(op->opcode)->name);
}

/* The indices share the rows of the values. */
static void know_indices(Build *b, const Node *values, const IrOp *op) {
    Node *indices = new_node(b, NODE_SORT, op->opcode, op->results[1].type);
    decode_operands(b, indices, op);
    decode_axes(b, indices, op);
    indices->second = true;
    indices->rows = values->id;
    know(b, &op->results[1], indices);
}

/* Of an input 1; factors bring each other's. */
static void count_terms(Evaluator *ev, Node *node) {
    bool multiplies = node->opcode == IR_MUL || node->kind == NODE_REDUCE;
    node->terms = 1;
    for (unsigned i = 0; i < node->operand_count; i++) {
        double own = fmax(node->operands[i]->terms, 1);
        node->terms = multiplies ? node->terms * own : fmax(node->terms, own);
    }
    if (node->kind == NODE_REDUCE && node->reduce <= REDUCE_MEAN) node->terms *= (double)node->reduced_count;
    if (node->kind == NODE_SCAN && node->reduce <= REDUCE_MEAN) node->terms *= (double)node->shape.extents[node->axis];
    ev->longest = fmax(ev->longest, node->terms);
}

static bool decode_op(Build *b, const IrOp *op) {
    Node *node = new_node(b, NODE_SPLAT, op->opcode, op->results[0].type);
    if (!decode_operands(b, node, op)) return false;
    switch (op->opcode) {
    case IR_CONST:
        decode_const(b, node, op);
        break;
    case IR_GRAPH_BROADCAST:
        decode_broadcast(b, node, op);
        break;
    case IR_GRAPH_REDUCE:
        eval_decode_reduce(b, node, op);
        break;
    case IR_GRAPH_CONTRACT:
        eval_decode_contract(b, node, op);
        break;
    case IR_GRAPH_GENERIC:
        decode_generic(b, node, op);
        break;
    case IR_GRAPH_ELEMENT:
        decode_element(b, node, op);
        break;
    case IR_GRAPH_SCAN:
    case IR_GRAPH_ARG:
    case IR_GRAPH_SORT:
    case IR_GRAPH_FLIP:
    case IR_GRAPH_CONCAT:
    case IR_GRAPH_IOTA:
    case IR_GRAPH_RANDOM:
        decode_axes(b, node, op);
        break;
    case IR_GRAPH_TRANSPOSE:
        decode_transpose(b, node, op);
        break;
    case IR_GRAPH_RESHAPE:
        node->kind = NODE_RESHAPE;
        if (node->shape.elements != node->operands[0]->shape.elements) eval_decode_fail(b, "element counts differ", "graph.reshape");
        break;
    default:
        if (!ir_has_trait(op, IR_ELEMENTWISE)) return eval_decode_fail(b, "the op has no meaning in a graph", ir_op_info(op->opcode)->name);
        decode_lanewise(b, node);
        if (evaluate_may_flush(op)) /* tiny counts for each of the half units in the last place that the function's bound has */
            node->tiny = fmax(node->tiny, dtype_min_normal(DTYPE_F32) / (2 * ir_math_info(op->opcode)->ulps_f32));
        if (!b->error) fold_integer(b, node);
    }
    count_terms(b->ev, node);
    groups_mark(node);
    b->ev->sums |= node->kind == NODE_REDUCE && node->reduce <= REDUCE_MEAN && node->reduced_count > 1;
    know(b, &op->results[0], node);
    if (op->opcode == IR_GRAPH_SORT) know_indices(b, node, op);
    return !b->error;
}

static bool decode_block(Build *b, const IrBlock *block, const IrOp **last) {
    *last = NULL;
    for (const IrOp *op = block->first; op && !b->error; op = op->next) {
        *last = op;
        if (op->opcode == IR_RETURN || op->opcode == IR_YIELD) break;
        if (!decode_op(b, op)) return false;
    }
    return !b->error;
}

static bool decode_outputs(Build *b, const IrOp *ret) {
    const IrAttr *names = ret ? ir_attr(ret, "names") : NULL;
    if (!ret || ret->opcode != IR_RETURN) return eval_decode_fail(b, "the function returns nothing", b->f->name);
    Evaluator *ev = b->ev;
    ev->output_count = ret->operand_count;
    ev->outputs = ARENA_ARRAY(b->arena, Node *, ret->operand_count + 1);
    ev->output_shapes = ARENA_ARRAY(b->arena, Shape, ret->operand_count + 1);
    for (unsigned i = 0; i < ret->operand_count; i++) {
        ev->outputs[i] = find_node(b, ret->operands[i]);
        if (!ev->outputs[i]) return eval_decode_fail(b, "an output is unknown", b->f->name);
        ev->output_shapes[i] = ev->outputs[i]->shape;
        bool named = names && i < names->count;
        ev->output_shapes[i].name = named ? names->strs[i] : arena_printf(b->arena, "out%u", i);
    }
    return true;
}

Evaluator *evaluator_build(Arena *arena, const IrFunc *f, const EvalBinding *binding, const char **error) {
    Build b = {.arena = arena, .f = f, .binding = binding, .ev = ARENA_NEW(arena, Evaluator)};
    *b.ev = (Evaluator){.arena = arena,
                        .sizes = binding->sizes,
                        .binding = binding,
                        .exact = binding->exact,
                        .trial = binding->trial,
                        .flushes = binding->flushes,
                        .fault = binding->fault};
    for (unsigned i = 0; i < f->param_count && !b.error; i++) decode_param(&b, i);
    const IrOp *last = NULL;
    if (!b.error && decode_block(&b, f->body, &last)) decode_outputs(&b, last);
    *error = b.error;
    return b.error ? NULL : b.ev;
}
