/* Axis classes: which tile axes must be cut alike. Union-find over (value, axis) pairs, joined by
 * the ops that work lane by lane; flags say what stands against cutting a class. */
#include "analysis.h"

struct Axes {
    Arena *arena;
    IrModule *module;
    PointerTable base; /* IrValue* -> node of its axis 0 */
    struct {
        IrValue **data;
        size_t len, cap;
    } values;
    struct {
        uint32_t *data;
        size_t len, cap;
    } parent;
    AxisClass *facts; /* by node; valid at roots */
    size_t *number;   /* root -> class */
    size_t *roots;
    size_t count;
};

static void add_value(Axes *a, IrValue *v) {
    if (!is_tile(v)) return;
    pointer_table_set(&a->base, v, (uint32_t)a->parent.len);
    VEC_PUSH(a->arena, &a->values, v);
    for (unsigned i = 0; i < v->type->rank; i++) {
        uint32_t node = (uint32_t)a->parent.len;
        VEC_PUSH(a->arena, &a->parent, node);
    }
}

static void add_values(Axes *a, IrBlock *block) {
    for (unsigned i = 0; i < block->arg_count; i++) add_value(a, block->args[i]);
    for (IrOp *op = block->first; op; op = op->next) {
        for (unsigned i = 0; i < op->result_count; i++) add_value(a, &op->results[i]);
        for (unsigned r = 0; r < op->region_count; r++) add_values(a, op->regions[r]);
    }
}

static uint32_t find(Axes *a, uint32_t node) {
    while (a->parent.data[node] != node) {
        a->parent.data[node] = a->parent.data[a->parent.data[node]];
        node = a->parent.data[node];
    }
    return node;
}

static uint32_t node_of(const Axes *a, const IrValue *v, unsigned axis) {
    uint32_t base = 0;
    pointer_table_get(&a->base, v, &base);
    return base + axis;
}

static void join(Axes *a, const IrValue *x, unsigned i, const IrValue *y, unsigned j) {
    uint32_t p = find(a, node_of(a, x, i)), q = find(a, node_of(a, y, j));
    if (p != q) a->parent.data[p < q ? q : p] = p < q ? p : q;
}

static void join_all(Axes *a, const IrValue *x, const IrValue *y) {
    if (!is_tile(x) || !is_tile(y)) return;
    for (unsigned i = 0; i < x->type->rank && i < y->type->rank; i++) join(a, x, i, y, i);
}

/* ---- What the ops say ---- */

static void join_gemm(Axes *a, IrOp *op) {
    IrValue *x = op->operands[0], *y = op->operands[1], *acc = op->operands[2], *out = &op->results[0];
    unsigned r = acc->type->rank, ra = x->type->rank, rb = y->type->rank;
    bool ta = ir_attr_bool(op, "trans_a"), tb = ir_attr_bool(op, "trans_b");
    join_all(a, acc, out);
    join(a, x, ra - (ta ? 1 : 2), acc, r - 2);
    join(a, y, rb - (tb ? 2 : 1), acc, r - 1);
    join(a, x, ra - (ta ? 2 : 1), y, rb - (tb ? 1 : 2));
    for (unsigned i = 0; i + 2 < ra; i++)
        if (x->type->extents[i] == acc->type->extents[i + r - ra]) join(a, x, i, acc, i + r - ra);
    for (unsigned i = 0; i + 2 < rb; i++)
        if (y->type->extents[i] == acc->type->extents[i + r - rb]) join(a, y, i, acc, i + r - rb);
}

static void join_loop(Axes *a, IrOp *op) {
    IrBlock *body = op->regions[0];
    for (unsigned i = 0; i < op->result_count; i++) {
        join_all(a, &op->results[i], op->operands[3 + i]);
        join_all(a, &op->results[i], body->args[1 + i]);
        join_all(a, &op->results[i], body->last->operands[i]);
    }
}

static void join_if(Axes *a, IrOp *op) {
    for (unsigned i = 0; i < op->result_count; i++)
        for (unsigned r = 0; r < 2; r++) join_all(a, &op->results[i], op->regions[r]->last->operands[i]);
}

/* Axes of operands with those of every result, by their relations. */
static void join_linked(Axes *a, IrOp *op) {
    for (unsigned o = 0; o < op->operand_count; o++) {
        if (!is_tile(op->operands[o])) continue;
        for (unsigned i = 0; i < op->operands[o]->type->rank; i++) {
            IrAxisLink link = ir_axis_link(op, o, i);
            bool stays = link.relation == IR_AXIS_SAME || link.relation == IR_AXIS_MIXED;
            for (unsigned r = 0; stays && r < op->result_count; r++)
                if (is_tile(&op->results[r])) join(a, op->operands[o], i, &op->results[r], (unsigned)link.axis);
        }
    }
}

/* Index tiles give axes of the tile that is loaded or stored. */
static void join_slice(Axes *a, IrOp *op) {
    IrSlice s = ir_slice(op);
    IrValue *tile = op->opcode == IR_TILE_STORE ? op->operands[0] : &op->results[0];
    for (unsigned i = 0; i < s.rank; i++)
        for (unsigned k = 0; s.axes[i].letter == IR_LETTER_GATHER && k < s.gather_rank; k++)
            join(a, op->operands[s.axes[i].operand], k, tile, (unsigned)s.gather_axis + k);
}

static void join_op(Axes *a, IrOp *op) {
    switch (op->opcode) {
    case IR_TILE_GEMM:
        join_gemm(a, op);
        break;
    case IR_TILE_LOAD:
    case IR_TILE_STORE:
        join_slice(a, op);
        break;
    case IR_FOR:
        join_loop(a, op);
        break;
    case IR_IF:
        join_if(a, op);
        break;
    default:
        if (op->opcode == IR_TILE_FILL || op->opcode == IR_TILE_CONVERT || op->opcode == IR_TILE_COMBINE ||
            ir_has_trait(op, IR_ELEMENTWISE | IR_FOLDS | IR_ALONG | IR_MOVES))
            join_linked(a, op);
    }
}

static AxisClass *class_at(Axes *a, const IrValue *v, unsigned axis) {
    return &a->facts[find(a, node_of(a, v, axis))];
}

static void note_mixed(AxisClass *c, const IrOp *op) {
    c->scanned |= op->opcode == IR_TILE_SCAN;
    c->sorted |= op->opcode == IR_TILE_SORT;
    c->rigid |= op->opcode == IR_TILE_FLIP;
    if (!c->span.file) c->span = op->span;
}

static bool takes_part(const IrOp *op) {
    return op->opcode == IR_TILE_EXTRACT || op->opcode == IR_TILE_INSERT || op->opcode == IR_TILE_GATHER;
}

/* What an op with a relation of axes says about cutting them. */
static void note_links(Axes *a, IrOp *op) {
    uint32_t linked = 0; /* axes of the result that lanes of an operand reach in order */
    for (unsigned o = 0; o < op->operand_count; o++) {
        if (!is_tile(op->operands[o])) continue;
        for (unsigned i = 0; i < op->operands[o]->type->rank; i++) {
            IrAxisLink link = ir_axis_link(op, o, i);
            AxisClass *c = class_at(a, op->operands[o], i);
            if (link.axis >= 0) linked |= 1u << link.axis;
            if (link.relation == IR_AXIS_MIXED) note_mixed(c, op);
            c->reduced |= link.relation == IR_AXIS_FOLDED;
            if (link.relation == IR_AXIS_APART) *(takes_part(op) ? &c->sliced : &c->rigid) = true;
        }
    }
    bool repeats = op->opcode == IR_TILE_BROADCAST;
    const IrType *t = op->result_count ? op->results[0].type : NULL;
    for (unsigned i = 0; t && t->kind == IR_TYPE_TILE && !repeats && i < t->rank; i++)
        if (!(linked >> i & 1)) class_at(a, &op->results[0], i)->rigid = true;
}

static void note_op(Axes *a, IrOp *op) {
    IrValue *x = op->operand_count ? op->operands[0] : NULL;
    switch (op->opcode) {
    case IR_TILE_GEMM:
        class_at(a, x, x->type->rank - (ir_attr_bool(op, "trans_a") ? 2 : 1))->contracted = true;
        for (unsigned i = 0; i < op->results[0].type->rank; i++)
            class_at(a, &op->results[0], i)->multiplied |= op->block->parent && op->block->parent->opcode == IR_FOR;
        break;
    case IR_TILE_LOAD:
        x = &op->results[0];
        /* fall through */
    case IR_TILE_STORE:
        if (x->type->rank) class_at(a, x, x->type->rank - 1)->innermost = true;
        for (unsigned i = 0; i < x->type->rank; i++)
            if (!class_at(a, x, i)->span.file) class_at(a, x, i)->span = op->span;
        break;
    default:
        if (ir_has_trait(op, IR_FOLDS | IR_ALONG | IR_MOVES)) note_links(a, op);
        break;
    }
}

/* Classes are numbered in the order of their first value, extents of 1 included. */
static void number_classes(Axes *a) {
    size_t nodes = a->parent.len;
    a->number = ARENA_ARRAY(a->arena, size_t, nodes + 1);
    a->roots = ARENA_ARRAY(a->arena, size_t, nodes + 1);
    for (uint32_t n = 0; n < nodes; n++)
        if (find(a, n) == n) {
            a->number[n] = a->count;
            a->roots[a->count++] = n;
        }
    for (size_t i = 0; i < a->values.len; i++) {
        const IrValue *v = a->values.data[i];
        for (unsigned axis = 0; axis < v->type->rank; axis++) {
            AxisClass *c = class_at(a, v, axis);
            if (!c->extent) {
                c->extent = v->type->extents[axis];
                c->constant = ir_type_extent(v->type, axis);
            }
            /* A tile with the class on two axes (x + its transpose) cannot be cut in one. */
            for (unsigned before = 0; before < axis; before++) c->rigid |= class_at(a, v, before) == c;
        }
    }
}

/* What is stored and loaded again in one kernel is cut alike: along each axis of the tensor, the tiles
 * that are slices of one extent. */
static void join_through(Axes *a, const OpList *ops, IrOp *store) {
    for (size_t i = 0; i < ops->len; i++) {
        IrOp *load = ops->data[i];
        if (load->opcode != IR_TILE_LOAD || !is_same_tensor(a->module, load->operands[0], store->operands[1])) continue;
        IrValue *x = store->operands[0], *y = &load->results[0];
        for (unsigned k = 0; is_tile(x) && k < x->type->rank; k++)
            for (unsigned n = 0; is_tile(y) && n < y->type->rank; n++) {
                unsigned operand, from, to;
                if (slice_operand(store, k, &operand, &from) && slice_operand(load, n, &operand, &to) && from == to &&
                    x->type->extents[k] == y->type->extents[n])
                    join(a, x, k, y, n);
            }
    }
}

Axes *axes_analyse(Arena *scratch, IrFunc *f) {
    Axes *a = ARENA_NEW(scratch, Axes);
    a->arena = scratch;
    a->module = f->module;
    a->base = pointer_table(scratch);
    add_values(a, f->body);
    OpList ops = ops_collect(scratch, f->body);
    for (size_t i = 0; i < ops.len; i++) join_op(a, ops.data[i]);
    for (size_t i = 0; i < ops.len; i++)
        if (ops.data[i]->opcode == IR_TILE_STORE) join_through(a, &ops, ops.data[i]);
    a->facts = ARENA_ARRAY(scratch, AxisClass, a->parent.len + 1);
    number_classes(a);
    for (size_t i = 0; i < ops.len; i++) note_op(a, ops.data[i]);
    return a;
}

/* ---- Questions ---- */

size_t axes_count(const Axes *axes) {
    return axes->count;
}

AxisClass *axes_class(const Axes *axes, size_t index) {
    return &axes->facts[axes->roots[index]];
}

size_t axes_of(const Axes *axes, const IrValue *v, unsigned axis) {
    uint32_t base;
    if (!pointer_table_get(&axes->base, v, &base)) return SIZE_MAX;
    return axes->number[find((Axes *)axes, base + axis)];
}

int axes_find(const Axes *axes, const IrValue *v, size_t index) {
    for (unsigned i = 0; is_tile(v) && i < v->type->rank; i++)
        if (axes_of(axes, v, i) == index) return (int)i;
    return -1;
}

bool axes_touch(const Axes *axes, const IrOp *op, size_t index) {
    for (unsigned i = 0; i < op->operand_count; i++)
        if (axes_find(axes, op->operands[i], index) >= 0) return true;
    for (unsigned i = 0; i < op->result_count; i++)
        if (axes_find(axes, &op->results[i], index) >= 0) return true;
    return false;
}

static int64_t others_of(const Axes *axes, const IrValue *v, size_t index, int64_t row, int64_t gemm) {
    int64_t product = 1;
    for (unsigned i = 0; i < v->type->rank; i++) {
        size_t other = axes_of(axes, v, i);
        const AxisClass *c = axes_class(axes, other);
        int64_t extent = c->constant >= 0 ? c->constant : c->reduced ? row : c->contracted ? gemm : 1;
        if (other != index && extent > 1) product = product > INT64_MAX / extent ? INT64_MAX : product * extent;
    }
    return product;
}

int64_t axes_others(const Axes *axes, size_t index, int64_t row, int64_t gemm) {
    int64_t most = 1;
    for (size_t i = 0; i < axes->values.len; i++) {
        const IrValue *v = axes->values.data[i];
        int64_t product = axes_find(axes, v, index) >= 0 ? others_of(axes, v, index, row, gemm) : 1;
        most = product > most ? product : most;
    }
    return most;
}

void axes_set_extent(Axes *axes, size_t index, int64_t extent) {
    for (size_t i = 0; i < axes->values.len; i++) {
        IrValue *v = axes->values.data[i];
        for (unsigned axis = 0; axis < v->type->rank; axis++)
            if (axes_of(axes, v, axis) == index) v->type = type_with_extent(axes->module, v->type, axis, extent);
    }
}
