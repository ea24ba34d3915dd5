/* A reshape behind a product that merges or moves the borders of its axes, where what is behind it folds a merged axis: a group norm of what a convolution gives, written over
 * [batch, groups, the rest]. A nest of the product has the product's axes, so a fold along the merged one would make each element from a division of its index. What is done lane by lane behind
 * the reshape, and the folds, keep the axes that both shapes have in common; a reshape to the shape that was written stands where something else reads the value. */
#include "analyzer.h"
#include "pointer_table.h"
#include "query.h"
#include "rewrite_internal.h"

/* Axes of a tensor, twice those that the reference takes; the rewrite leaves a larger rank alone. */
enum { MOST_RANK = 16 };

/* The finest axes: each axis of a shape is `count` of them, one after the other. */
typedef struct {
    unsigned rank;
    const Aff *extents[MOST_RANK];
} Shape;

/* A value whose elements a finer value has, too. */
typedef struct {
    IrValue *finer;
    unsigned first[MOST_RANK + 1]; /* of each axis of the value: the first axis of the finer one */
} Lifted;

typedef struct {
    Rewriter *r;
    PointerTable at; /* of a value: its place in `all` */
    struct {
        Lifted *data;
        size_t len, cap;
    } all;
    bool dry; /* only looks: `finer` is null */
    bool folds;
} Split;

/* ---- Axes in common ---- */

static bool divided(AffCtx *c, const Aff *whole, const Aff *part, const Aff **rest) {
    int64_t a, b;
    if (!aff_is_const(whole, &a) || !aff_is_const(part, &b) || b < 1 || a < 1 || a % b) return false;
    *rest = aff_const(c, a / b);
    return true;
}

/* How many axes of `t` from `first` on, of which `left` is left, have this extent together; 0: none do. */
static unsigned axes_of(AffCtx *c, const IrType *t, unsigned first, const Aff *left, const Aff *extent) {
    for (unsigned end = first + 1; end <= t->rank; end++) {
        if (left == extent) return end - first;
        if (end < t->rank) left = aff_mul(c, left, t->extents[end]);
    }
    return 0;
}

static void put(Shape *s, const Aff *extent) {
    if (s->rank < MOST_RANK) s->extents[s->rank] = extent;
    s->rank++;
}

static void put_axes(Shape *s, const IrType *t, unsigned first, const Aff *left, unsigned count) {
    put(s, left);
    for (unsigned i = first + 1; i < first + count; i++) put(s, t->extents[i]);
}

/* The axes that both shapes consist of. */
static bool common_axes(AffCtx *c, const IrType *a, const IrType *b, Shape *s) {
    unsigned i = 0, k = 0;
    const Aff *left_a = NULL, *left_b = NULL; /* what is left of an axis that has been divided */
    *s = (Shape){0};
    while (i < a->rank && k < b->rank && s->rank <= MOST_RANK) {
        const Aff *x = left_a ? left_a : a->extents[i], *y = left_b ? left_b : b->extents[k], *rest;
        unsigned many;
        if (x == y) {
            put(s, x);
            i++, k++, left_a = left_b = NULL;
        } else if ((many = axes_of(c, a, i, x, y))) {
            put_axes(s, a, i, x, many);
            i += many, k++, left_a = left_b = NULL;
        } else if ((many = axes_of(c, b, k, y, x))) {
            put_axes(s, b, k, y, many);
            k += many, i++, left_a = left_b = NULL;
        } else if (divided(c, x, y, &rest)) {
            put(s, y);
            left_a = rest, k++, left_b = NULL;
        } else if (divided(c, y, x, &rest)) {
            put(s, x);
            left_b = rest, i++, left_a = NULL;
        } else {
            return false;
        }
    }
    return i == a->rank && k == b->rank && s->rank <= MOST_RANK;
}

/* Where each axis of the type begins among the finest ones. */
static bool firsts(AffCtx *c, const IrType *t, const Shape *s, unsigned *first) {
    unsigned at = 0;
    for (unsigned i = 0; i < t->rank; i++) {
        const Aff *e = aff_const(c, 1);
        first[i] = at;
        do {
            if (at == s->rank) return false;
            e = aff_mul(c, e, s->extents[at++]);
        } while (e != t->extents[i]);
    }
    first[t->rank] = at;
    return at == s->rank;
}

/* ---- Lifting ---- */

static Lifted *lifted(Split *s, const IrValue *v) {
    uint32_t place;
    return pointer_table_get(&s->at, v, &place) ? &s->all.data[place] : NULL;
}

static void remember(Split *s, const IrValue *v, Lifted l) {
    pointer_table_set(&s->at, v, (uint32_t)s->all.len);
    VEC_PUSH(s->r->arena, &s->all, l);
}

static IrBuilder builder(const IrOp *op) {
    IrBuilder b = ir_builder_before((IrOp *)op);
    b.span = op->span;
    return b;
}

static IrValue *reshaped(const IrOp *before, IrValue *v, const IrType *to) {
    IrBuilder b = builder(before);
    return v->type == to ? v : ir_result(ir_op_create(&b, IR_GRAPH_RESHAPE, 1, &v, 1, &to), 0);
}

static void copy_attrs(IrOp *to, const IrOp *from) {
    for (const IrAttr *a = from->attrs; a; a = a->next) ir_attr_copy(to, from, a->key);
}

static const IrType *tensor(const Split *s, Dtype dtype, const Shape *shape) {
    return ir_type_tensor(s->r->f->module, dtype, shape->rank, shape->extents);
}

/* An operand of the value's shape over the finest axes. Broadcasts repeat along these. */
static IrValue *finer_operand(const Split *s, const IrOp *op, IrValue *v, const Lifted *like, const Shape *shape) {
    const IrType *whole = tensor(s, v->type->dtype, shape);
    IrOp *def = v->def && v->def->opcode == IR_GRAPH_BROADCAST ? v->def : NULL;
    const IrType *from = def ? def->operands[0]->type : NULL;
    const IrAttr *axes = def ? ir_attr(def, "axes") : NULL;
    int64_t to[MOST_RANK];
    Shape small = {0};
    if (!def) return reshaped(op, v, whole);
    for (unsigned i = 0; from->kind == IR_TYPE_TENSOR && i < from->rank; i++) {
        unsigned axis = (unsigned)axes->ints[i];
        if (from->extents[i] != v->type->extents[axis] && like->first[axis + 1] > like->first[axis] + 1) return reshaped(op, v, whole);
        for (unsigned k = like->first[axis]; k < like->first[axis + 1]; k++) {
            to[small.rank] = k;
            put(&small, from->extents[i] == v->type->extents[axis] ? shape->extents[k] : from->extents[i]);
        }
    }
    IrValue *part = from->kind == IR_TYPE_TENSOR ? reshaped(op, def->operands[0], tensor(s, v->type->dtype, &small)) : def->operands[0];
    IrBuilder b = builder(op);
    IrOp *broadcast = ir_op_create(&b, IR_GRAPH_BROADCAST, 1, &part, 1, &whole);
    ir_attr_copy(broadcast, def, "axes");
    if (from->kind == IR_TYPE_TENSOR) ir_attr_set_ints(broadcast, "axes", small.rank, to);
    return ir_result(broadcast, 0);
}

static bool lift_map(Split *s, const IrOp *op, const Shape *shape) {
    const Lifted *first = NULL;
    IrValue *parts[4];
    if (!ir_has_trait(op, IR_ELEMENTWISE) || op->operand_count > COUNT_OF(parts) || op->result_count != 1) return false;
    for (unsigned i = 0; i < op->operand_count && !first; i++) first = lifted(s, op->operands[i]);
    if (!first) return false;
    Lifted like = *first;
    for (unsigned i = 0; i < op->operand_count && !s->dry; i++) {
        const Lifted *l = lifted(s, op->operands[i]);
        bool number = op->operands[i]->type->kind != IR_TYPE_TENSOR;
        parts[i] = number ? op->operands[i] : l ? l->finer : finer_operand(s, op, op->operands[i], &like, shape);
    }
    if (!s->dry) {
        IrBuilder b = builder(op);
        const IrType *whole = tensor(s, op->results[0].type->dtype, shape);
        IrOp *map = ir_op_create(&b, op->opcode, op->operand_count, parts, 1, &whole);
        copy_attrs(map, op);
        like.finer = ir_result(map, 0);
    }
    remember(s, &op->results[0], like);
    return true;
}

static bool lift_reshape(Split *s, const IrOp *op, const Shape *shape) {
    const Lifted *l = op->opcode == IR_GRAPH_RESHAPE ? lifted(s, op->operands[0]) : NULL;
    if (!l) return false;
    Lifted next = {.finer = l->finer};
    if (!firsts(s->r->f->module->affs, op->results[0].type, shape, next.first)) return false;
    remember(s, &op->results[0], next);
    return true;
}

static bool is_folded(const IrAttr *axes, unsigned axis) {
    for (size_t k = 0; k < axes->count; k++)
        if (axes->ints[k] == axis) return true;
    return false;
}

/* What a fold leaves has no axis in common any more: it gets the shape that was written. */
static bool lift_fold(Split *s, const IrOp *op, const Shape *shape) {
    const Lifted *l = op->opcode == IR_GRAPH_REDUCE && !ir_attr_bool(op, "keepdim") ? lifted(s, op->operands[0]) : NULL;
    const IrAttr *axes = ir_attr(op, "axes");
    int64_t to[MOST_RANK];
    size_t count = 0;
    Shape left = {0};
    if (!l) return false;
    for (unsigned i = 0; i < op->operands[0]->type->rank; i++) {
        bool folded = is_folded(axes, i);
        s->folds |= folded && l->first[i + 1] > l->first[i] + 1;
        for (unsigned k = l->first[i]; k < l->first[i + 1]; k++) {
            if (folded)
                to[count++] = k;
            else
                put(&left, shape->extents[k]);
        }
    }
    if (s->dry) return true;
    IrBuilder b = builder(op);
    const IrType *t = tensor(s, op->results[0].type->dtype, &left);
    IrOp *fold = ir_op_create(&b, IR_GRAPH_REDUCE, 1, &l->finer, 1, &t);
    copy_attrs(fold, op);
    ir_attr_set_ints(fold, "axes", count, to);
    ir_replace_uses(&((IrOp *)op)->results[0], reshaped(op, ir_result(fold, 0), op->results[0].type));
    return true;
}

/* What else reads a value that was lifted gets it in the shape that was written. */
static void give_back(void *split, IrOp *op) {
    Split *s = split;
    const IrOp *before = op;
    while (before->block->parent) before = before->block->parent;
    for (unsigned i = 0; i < op->operand_count; i++) {
        const Lifted *l = lifted(s, op->operands[i]);
        if (l) ir_set_operand(op, i, reshaped(before, l->finer, op->operands[i]->type));
    }
}

static void give_back_in(Split *s, IrOp *op) {
    give_back(s, op);
    for (unsigned i = 0; i < op->region_count; i++) ir_walk(op->regions[i], give_back, s);
}

static void lift_all(Split *s, IrOp *first, const Shape *shape) {
    for (IrOp *op = first, *next; op; op = next) {
        next = op->next;
        if (lift_map(s, op, shape) || lift_reshape(s, op, shape) || lift_fold(s, op, shape) || s->dry) continue;
        give_back_in(s, op);
    }
}

/* ---- Where ---- */

typedef struct {
    PointerTable seen;
} Source;

static bool is_made_of_product(Source *s, const IrValue *v) {
    uint32_t known;
    const IrOp *op = v->def;
    if (!op || pointer_table_get(&s->seen, op, &known)) return false;
    pointer_table_set(&s->seen, op, 1);
    if (op->opcode == IR_GRAPH_CONTRACT || (op->opcode == IR_GRAPH_GENERIC && ir_attr(op, "kind"))) return true;
    if (!ir_has_trait(op, IR_ELEMENTWISE)) return false;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (is_made_of_product(s, op->operands[i])) return true;
    return false;
}

bool rewrite_split_axes(Rewriter *r, IrOp *op) {
    if (op->opcode != IR_GRAPH_RESHAPE || op->operands[0]->type->rank > MOST_RANK || op->results[0].type->rank > MOST_RANK) return false;
    AffCtx *c = r->f->module->affs;
    const IrType *from = op->operands[0]->type, *to = op->results[0].type;
    Source source = {.seen = pointer_table(r->arena)};
    Split looks = {.r = r, .dry = true, .at = pointer_table(r->arena)}, s = {.r = r, .at = pointer_table(r->arena)};
    Shape shape;
    Lifted l = {0};
    if (from->kind != IR_TYPE_TENSOR || !is_made_of_product(&source, op->operands[0]) || !common_axes(c, from, to, &shape) ||
        shape.rank == to->rank || !firsts(c, to, &shape, l.first))
        return false;
    remember(&looks, &op->results[0], l);
    lift_all(&looks, op->next, &shape);
    if (!looks.folds) return false;
    l.finer = reshaped(op, op->operands[0], tensor(&s, from->dtype, &shape));
    remember(&s, &op->results[0], l);
    lift_all(&s, op->next, &shape);
    return true;
}
