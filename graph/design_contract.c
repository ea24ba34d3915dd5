/* design: products (contractions, and index notation that sums them), and what else index notation says. */
#include "analyzer.h"
#include "design_fold_internal.h"
#include "design_internal.h"
#include "query.h"

#include <string.h>

enum { STAGES_BESIDE = 3 };  /* where each phase's product has buffers of its own */
enum { LONG_CHAIN = 16384 }; /* products of f32 that are added in order */

/* ---- Products ---- */

typedef struct {
    IrValue *a, *b;
    const Aff *index_a[DESIGN_RANK], *index_b[DESIGN_RANK]; /* of whole tensors */
} Product;

static IrValue *without_cast(IrValue *v) {
    bool widens = v->def && v->def->opcode == IR_CAST && v->type->kind == IR_TYPE_SCALAR &&
                  v->def->operands[0]->type->kind == IR_TYPE_SCALAR && !v->def->operands[0]->type->is_index &&
                  dtype_size(v->def->operands[0]->type->dtype) < dtype_size(v->type->dtype);
    return widens ? v->def->operands[0] : v;
}

static const IrOp *yielded_product(const IrOp *op) {
    IrValue *v = op->regions[0] ? design_bounded_value(op) : NULL;
    return v && v->def && v->def->opcode == IR_MUL ? v->def : NULL;
}

bool design_is_product(const IrOp *op) {
    if (op->opcode == IR_GRAPH_CONTRACT) return true;
    return op->opcode == IR_GRAPH_GENERIC && ir_op_kind(op) == IR_KIND_ADD && yielded_product(op);
}

/* Which indices of the notation a value is made of, a bit each. */
static uint32_t indices_of(const IrOp *notation, const IrValue *v) {
    uint32_t found = 0;
    for (unsigned i = 0; i < notation->operand_count && i < 32; i++)
        if (notation->regions[0]->args[i] == v) found |= (uint32_t)1 << i;
    if (!v->def || v->def->block != notation->regions[0]) return found;
    for (unsigned i = 0; i < v->def->operand_count; i++) found |= indices_of(notation, v->def->operands[i]);
    return found;
}

static bool in_list(const IrAttr *list, unsigned axis, size_t *at) {
    for (size_t i = 0; list && i < list->count; i++)
        if (list->ints[i] == (int64_t)axis) {
            *at = i;
            return true;
        }
    return false;
}

bool design_is_contraction(const IrOp *op) {
    if (op->opcode == IR_GRAPH_CONTRACT) return true;
    const IrOp *mul = design_is_product(op) ? yielded_product(op) : NULL;
    if (!mul) return false;
    uint32_t a = indices_of(op, mul->operands[0]), b = indices_of(op, mul->operands[1]);
    uint32_t outer = ((uint32_t)1 << ir_attr_int(op, "outer", 0)) - 1;
    return ((a ^ b) & outer) && (a & b & ~outer);
}

/* Does the factor add axes of more than one index to the result? */
static bool adds_axes(const IrOp *op, unsigned factor) {
    const IrType *t = op->operands[factor]->type;
    const IrAttr *sum = ir_attr(op, factor ? "sum_b" : "sum_a"), *batch = ir_attr(op, factor ? "batch_b" : "batch_a");
    size_t at;
    for (unsigned i = 0; i < t->rank; i++) {
        int64_t extent = 0;
        aff_is_const(t->extents[i], &extent);
        if (extent != 1 && !in_list(sum, i, &at) && !in_list(batch, i, &at)) return true;
    }
    return false;
}

bool design_is_matrix_product(const IrOp *op) {
    if (op->opcode == IR_GRAPH_CONTRACT) return adds_axes(op, 0) && adds_axes(op, 1);
    return design_is_contraction(op);
}

static DesignTile factor(Design *d, const Product *p, bool second) {
    bool outside = !d->in_product, direct = d->direct;
    d->in_product = d->direct = true;
    DesignTile t = second ? design_value(d, p->b, p->index_b) : design_value(d, p->a, p->index_a);
    if (outside) d->in_product = false;
    d->direct = direct;
    return t;
}

static DesignTile product_body(Design *d, void *context) {
    const Product *p = context;
    bool lanes = d->lanes;
    d->lanes = true;
    DesignTile a = factor(d, p, false), b = factor(d, p, true);
    d->lanes = lanes;
    DesignAxis *axes[DESIGN_RANK];
    if (d->error) return a;
    unsigned rank = design_union(&a, &b, axes);
    const char *left = design_align(d, &a, rank, axes), *right = design_align(d, &b, rank, axes);
    Dtype dtype = design_accumulator(a.dtype);
    if (dtype != a.dtype || dtype != b.dtype) { /* narrow factors */
        dtype = design_product_accumulator(dtype);
        left = arena_printf(d->arena, "cast(%s, dtype=%s)", left, dtype_name(dtype));
        right = arena_printf(d->arena, "cast(%s, dtype=%s)", right, dtype_name(dtype));
    }
    return design_let(d, arena_printf(d->arena, "%s * %s", left, right), rank, axes, dtype);
}

/* How a pair of factors goes together: [batch, rows, sum] by [batch, sum, columns]. */
typedef struct {
    DesignAxis *sum, *rows, *columns;
    bool fits, swapped; /* swapped: the first factor gives the columns */
} Pairing;

static void mark_sides(const DesignTile *a, const DesignTile *b) {
    for (unsigned i = 0; i < a->rank; i++)
        if (design_axis_position(b, a->axes[i]) < 0) a->axes[i]->product |= 1;
    for (unsigned i = 0; i < b->rank; i++)
        if (design_axis_position(a, b->axes[i]) < 0) b->axes[i]->product |= 2;
}

static Pairing pair(const DesignTile *a, const DesignTile *b, const DesignFold *f) {
    Pairing p = {.fits = a->is_tile && b->is_tile && a->dtype == b->dtype && a->rank >= 2 && a->rank == b->rank};
    unsigned sums = 0, batch = a->rank - 2;
    for (unsigned i = 0; i < f->count; i++) {
        if (f->axes[i]->walk == WALK_POINT) continue;
        p.sum = f->axes[i];
        sums++;
    }
    p.fits = p.fits && sums == 1 && design_axis_position(a, p.sum) >= (int)batch && design_axis_position(b, p.sum) >= (int)batch;
    for (unsigned i = 0; p.fits && i < batch; i++) p.fits = a->axes[i] == b->axes[i];
    for (unsigned i = batch; p.fits && i < a->rank; i++) {
        if (a->axes[i] != p.sum) p.rows = a->axes[i];
        if (b->axes[i] != p.sum) p.columns = b->axes[i];
    }
    p.fits = p.fits && p.rows && p.columns && p.rows != p.columns;
    p.swapped = p.fits && p.rows->id > p.columns->id;
    if (p.swapped) {
        DesignAxis *rows = p.rows;
        p.rows = p.columns;
        p.columns = rows;
    }
    return p;
}

/* What the operator asks of factors of this type; elsewhere every bit counts. */
static const char *precision_text(Design *d, Dtype dtype) {
    unsigned own = ir_func_enum(d->f, IR_FN_PRECISION);
    bool sums = own == IR_PRECISION_F8 && dtype_size(dtype) == 1;
    bool says = own && own != IR_PRECISION_F32 && own != IR_PRECISION_F64 && dtype_is_float(dtype) && (dtype == DTYPE_F32 || sums);
    return says ? arena_printf(d->arena, ", precision=%s", ir_enum_word(IR_ENUM_PRECISION, own)) : "";
}

static const char *factors_text(Design *d, const Pairing *p, const DesignTile *a, const DesignTile *b, const char *acc) {
    const DesignTile *first = p->swapped ? b : a, *second = p->swapped ? a : b;
    ANALYZER_ASSUME(first->rank >= 2 && first->rank <= DESIGN_RANK && second->rank == first->rank); /* else they do not fit */
    bool trans_a = first->axes[first->rank - 1] != p->sum;
    bool trans_b = second->axes[second->rank - 1] == p->sum;
    return arena_printf(d->arena, "%s(%s, %s%s%s%s%s%s)", acc ? "gemm" : "matmul", first->text, second->text, acc ? ", " : "",
                        acc ? acc : "", trans_a ? ", trans_a=true" : "", trans_b ? ", trans_b=true" : "", precision_text(d, a->dtype));
}

static DesignTile product(Design *d, Product *p, DesignFold *f) {
    DesignTile a = factor(d, p, false), b = factor(d, p, true);
    if (d->error) return a;
    mark_sides(&a, &b);
    Pairing how = pair(&a, &b, f);
    bool open = how.fits && how.sum->walk == WALK_TILE && !how.sum->ends; /* neither factor ends where the sum does */
    if (!how.fits || open) return (DesignTile){0};
    DesignAxis *axes[DESIGN_RANK];
    unsigned rank = 0;
    for (; rank < a.rank - 2; rank++) axes[rank] = a.axes[rank];
    axes[rank++] = how.rows;
    axes[rank++] = how.columns;
    if (!design_has_loops(f)) return design_let(d, factors_text(d, &how, &a, &b, NULL), rank, axes, design_accumulator(a.dtype));
    DesignTile shape = {.text = "", .rank = rank, .is_tile = true, .dtype = a.dtype};
    memcpy(shape.axes, axes, rank * sizeof *axes);
    return shape;
}

static DesignTile product_probe(Design *d, void *context) {
    void **both = context;
    return product(d, both[0], both[1]);
}

/* Would a case have more products added in order than f32 keeps the promise for? A GPU's passes divide such a sum; a CPU's code adds as it is written,
 * so each chunk's products are summed apart there. */
static bool has_long_chain(const Design *d, const DesignFold *f) {
    return design_most_turns(d, f, false) > LONG_CHAIN;
}

static DesignTile product_loop(Design *d, Product *p, DesignFold *f, const DesignTile *shape) {
    Dtype dtype = design_product_accumulator(shape->dtype);
    DesignTile acc = design_new_accumulator(d, shape->rank, shape->axes, dtype, "0");
    size_t known = d->known.len;
    bool apart = dtype == DTYPE_F32 && has_long_chain(d, f);
    int64_t stages = d->beside && d->style->stages > STAGES_BESIDE ? STAGES_BESIDE : d->style->stages;
    DesignLoops loops = design_open_loops(d, f, stages, acc, design_parts_of(d, f, dtype));
    acc = loops.inner;
    d->ahead |= d->style->stages > 0;
    DesignTile a = factor(d, p, false), b = factor(d, p, true);
    Pairing how = pair(&a, &b, f);
    if (how.fits && apart)
        design_line(d, "%s += %s", acc.text, factors_text(d, &how, &a, &b, NULL));
    else if (how.fits)
        design_line(d, "%s", factors_text(d, &how, &a, &b, acc.text));
    design_close_loops(d, &loops);
    d->known.len = known;
    return loops.acc;
}

static DesignTile any_product(Design *d, Product *p, DesignFold *f) {
    void *both[] = {p, f};
    DesignTile shape = design_probe(d, product_probe, both);
    if (d->error) return shape;
    if (!shape.is_tile) return design_folded(d, f, product_body, p);
    return design_has_loops(f) ? product_loop(d, p, f, &shape) : product(d, p, f);
}

/* A product that a factor of another one is made of: would each tile along one of the output's axes make it anew, as it does not vary along that axis? */
static bool is_made_again(const Design *d, const IrOp *op, const Aff *const *index) {
    if (!d->in_product || d->dry || d->style->naive || !design_is_matrix_product(op)) return false;
    for (unsigned i = 0; i < d->outer_count; i++) {
        const DesignAxis *axis = d->axes[i];
        bool varies = axis->walk == WALK_WHOLE || axis->single;
        for (unsigned k = 0; k < op->results[0].type->rank; k++) varies |= aff_depends_on(index[k], axis);
        if (!varies) return true;
    }
    return false;
}

static bool refuse_again(Design *d, const IrOp *op, const Aff *const *index) {
    return is_made_again(d, op, index) && !design_fail(d, "a product inside of another one would be made anew for each of its tiles");
}

DesignTile design_contract(Design *d, IrOp *op, const Aff *const *index) {
    if (refuse_again(d, op, index)) return (DesignTile){0};
    Product p = {.a = op->operands[0], .b = op->operands[1]};
    DesignFold f = {.kind = IR_KIND_ADD, .dtype = op->results[0].type->dtype, .product = true};
    const IrAttr *sum_a = ir_attr(op, "sum_a"), *batch_a = ir_attr(op, "batch_a");
    const IrAttr *sum_b = ir_attr(op, "sum_b"), *batch_b = ir_attr(op, "batch_b");
    unsigned rank = op->results[0].type->rank, next = batch_a ? (unsigned)batch_a->count : 0;
    size_t at = 0;
    for (size_t i = 0; i < sum_a->count; i++) {
        f.axes[f.count] = design_fold_axis(d, p.a->type->extents[sum_a->ints[i]], index, rank, &f, false);
        if (!f.axes[f.count++]) return (DesignTile){0};
    }
    /* NOLINTBEGIN(*NullDereference): each axis that is summed has been made */
    for (unsigned i = 0; i < p.a->type->rank; i++)
        p.index_a[i] = in_list(sum_a, i, &at) ? f.axes[at]->var : in_list(batch_a, i, &at) ? index[at] : index[next++];
    for (unsigned i = 0; i < p.b->type->rank; i++)
        p.index_b[i] = in_list(sum_b, i, &at) ? f.axes[at]->var : in_list(batch_b, i, &at) ? index[at] : index[next++];
    /* NOLINTEND(*NullDereference) */
    if (f.count == 1) design_set_range(d, op, index, f.axes[0]);
    return any_product(d, &p, &f);
}

/* ---- Index notation ---- */

static DesignTile region_body(Design *d, void *context) {
    return design_value(d, context, NULL);
}

/* The largest of the extents that the notation folds along; 0: none. */
static int64_t longest_fold(Design *d, const IrOp *op) {
    int64_t longest = 0;
    for (unsigned i = (unsigned)ir_attr_int(op, "outer", 0); i < op->operand_count; i++) {
        const Aff *e = design_index(d, op->operands[i]);
        int64_t extent = INT64_MAX;
        if (e) aff_is_const(e, &extent);
        if (extent > longest) longest = extent;
    }
    return longest;
}

static FoldRole role_of(const IrOp *op, unsigned i) {
    const IrBlock *body = op->regions[0];
    FoldRole role = FOLD_ANY;
    for (const IrOp *e = body->first; e; e = e->next)
        for (unsigned k = 1; e->opcode == IR_GRAPH_ELEMENT && k < e->operand_count; k++) {
            if (e->operands[k] == body->args[i])
                role = FOLD_CHANNEL;
            else if (indices_of(op, e->operands[k]) & ((uint32_t)1 << i))
                return FOLD_TAP;
        }
    return role;
}

/* Is the product summed along a window? */
static bool has_taps(const IrOp *op) {
    unsigned outer = (unsigned)ir_attr_int(op, "outer", 0);
    bool taps = false, channels = false;
    for (unsigned i = outer; i < op->operand_count && i < 32; i++) {
        FoldRole role = role_of(op, i);
        taps |= role == FOLD_TAP;
        channels |= role == FOLD_CHANNEL;
    }
    return taps && channels;
}

/* Gives each index of the notation its meaning here. */
static bool bind_indices(Design *d, IrOp *op, const Aff *const *index, DesignFold *f) {
    unsigned outer = (unsigned)ir_attr_int(op, "outer", 0);
    bool window = f->longest && has_taps(op);
    for (unsigned i = 0; i < op->operand_count; i++) {
        const Aff *at = i < outer ? index[i] : NULL;
        if (!at) {
            f->role = window && i < 32 ? role_of(op, i) : FOLD_ANY;
            const Aff *extent = design_index(d, op->operands[i]);
            if (!extent) return design_fail(d, "an extent that depends on data");
            bool rigid = f->kind == IR_KIND_OR || (f->kind != IR_KIND_ADD && f->kind != IR_KIND_AND && !dtype_is_float(f->dtype));
            DesignAxis *axis = design_fold_axis(d, extent, index, outer, f, rigid);
            if (!axis) return false;
            f->axes[f->count++] = axis;
            at = axis->var;
        }
        VEC_PUSH(d->arena, &d->bindings, (DesignBinding){op->regions[0]->args[i], at});
    }
    return true;
}

DesignTile design_generic(Design *d, IrOp *op, const Aff *const *index) {
    size_t bindings = d->bindings.len;
    IrKind kind = ir_op_kind(op);
    DesignFold f = {.kind = kind, .dtype = op->results[0].type->dtype};
    DesignTile t = {0};
    if (kind && refuse_again(d, op, index)) return t;
    if (kind && design_is_product(op)) f.longest = longest_fold(d, op);
    if (bind_indices(d, op, index, &f)) {
        IrValue *folded = design_folded_value(d, op, f.axes);
        const IrOp *mul = folded->def;
        if (f.longest && mul && mul->opcode == IR_MUL) {
            Product p = {.a = without_cast(mul->operands[0]), .b = without_cast(mul->operands[1])};
            if (p.a->type->dtype != p.b->type->dtype) p.a = mul->operands[0], p.b = mul->operands[1];
            if (f.count == 1) design_set_range(d, op, index, f.axes[0]);
            t = any_product(d, &p, &f);
        } else {
            bool bounded = d->bounded;
            d->bounded |= folded != design_bounded_value(op);
            t = f.count ? design_folded(d, &f, region_body, folded) : region_body(d, folded);
            d->bounded = bounded;
        }
    }
    d->bindings.len = bindings;
    return t;
}
