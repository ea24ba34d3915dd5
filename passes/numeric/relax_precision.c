/* Pass relax_precision: says how many bits are asked of functions whose values only narrower floats are made of.
 *
 * what:   marks exp, exp2 and quotients, f32, with `bits`: a relative error below 2^-bits is all that is
 *         asked; 1 + erf(x) so asked becomes erfc(-x). The bound of an f16 or bf16 result allows 1.5 u, u being the unit roundoff of its
 *         type, of which the final rounding takes u. `bits` is the precision of that type plus five, so that two such errors are u / 16
 *         together.
 *         The pass marks an op if its value reaches only stores of such a type, or factors of a gemm of such a type, and if all ops on the
 *         way keep a relative error: products, quotients, selects, maxima, sums of values that are not negative, moved lanes, and loops
 *         that carry these, unless each iteration would add an error. A value keeps all its bits if it is subtracted, compared, passed to
 *         another function, or stored as f32. The argument x c - m of a marked exp2 becomes an fma; where c is not negative and x c has no
 *         other use but its maximum, that is the maximum of x times c.
 *         `flushed`: results below 2^-126 may become 0. The pass marks an exp or exp2 of x minus the maximum of its row, or minus a running
 *         maximum that a loop carries, if its results are only rounded to f16 or bf16 as factors of products, and summed along its row.
 *         Products and sum then lose at most N 2^-126 of a row whose greatest element is 1 (docs/notes/001-error-bounds.md).
 * needs:  tile level, static
 * keeps:  values, to that error
 * breaks: nothing
 * source: docs/notes/001-error-bounds.md (one rounding is 1.5 u, the output's type once more at the end)
 *
 *     %e = exp(%x) : tile<[64] x f32>        =>    %e = exp(%x) {bits = 16} : tile<[64] x f32>
 *     %h = cast(%e) : tile<[64] x f16>
 */
#include "analysis/analysis.h"
#include "analysis/exponentials.h"
#include "analyzer.h"
#include "row_maximum.h"

#include <math.h>
#include <string.h>

enum {
    MORE = 5,        /* bits beyond those of the result's type: an error of 1/32 of its unit (note 1) */
    MOST_ERRORS = 2, /* roundings on the way to a result (note 1) */
    DEPTH = 24       /* operations that are looked through */
};
enum { LARGE = 1 << 20 /* a factor up to here is moderate: products stay far from overflow */ };
enum { FLUSHES = 1 /* the switch */ };

typedef struct {
    PassContext *ctx;
    PointerTable seen;
    int bits;                     /* the most that a result asks for; 0: there is none */
    VEC(const IrValue *) results; /* what is rounded */
} Reach;

static bool is_float(const IrValue *v, unsigned bits) {
    ANALYZER_ASSUME(v);
    return dtype_is_float(v->type->dtype) && dtype_bits(v->type->dtype) == bits;
}

/* ---- Signs ---- */

/* The loop that carries the argument, and what it begins and goes on with; NULL: none does. */
static const IrOp *carrier_of(const IrValue *v, const IrValue *from[2]) {
    const IrOp *loop = v->def ? NULL : v->block->parent;
    if (!loop || loop->opcode != IR_FOR || !v->index) return NULL;
    from[0] = loop->operands[v->index + 2], from[1] = loop->regions[0]->last->operands[v->index - 1];
    return loop;
}

/* At least 0, or NaN; of what a loop carries by induction: `assumed` is so in the iteration before. */
static bool is_not_negative(const IrValue *v, const IrValue *assumed, int depth) {
    const IrOp *op = v->def;
    const IrValue *from[2];
    if (depth <= 0) return false;
    if (v == assumed) return true;
    if (!op) return !assumed && carrier_of(v, from) && is_not_negative(from[0], NULL, depth - 1) && is_not_negative(from[1], v, depth - 1);
    IrValue *const *x = op->operands;
    switch (op->opcode) {
    case IR_CONST: {
        const IrAttr *value = ir_attr(op, "value");
        return value && value->kind == IR_ATTR_FLOAT && !(value->number < 0);
    }
    case IR_EXP:
    case IR_EXP2:
    case IR_ERFC:
    case IR_ABS:
    case IR_SQRT:
        return true;
    case IR_MUL:
        return x[0] == x[1] || (is_not_negative(x[0], assumed, depth - 1) && is_not_negative(x[1], assumed, depth - 1));
    case IR_ADD:
    case IR_DIV:
    case IR_MAX:
    case IR_MIN:
        return is_not_negative(x[0], assumed, depth - 1) && is_not_negative(x[1], assumed, depth - 1);
    case IR_FMA:
        return is_not_negative(x[0], assumed, depth - 1) && is_not_negative(x[1], assumed, depth - 1) &&
               is_not_negative(x[2], assumed, depth - 1);
    case IR_SELECT:
        return is_not_negative(x[1], assumed, depth - 1) && is_not_negative(x[2], assumed, depth - 1);
    case IR_CAST:
    case IR_TILE_BROADCAST:
    case IR_TILE_RESHAPE:
    case IR_TILE_TRANSPOSE:
    case IR_TILE_REDUCE:
    case IR_TILE_SCALAR:
        return dtype_is_float(x[0]->type->dtype) && is_not_negative(x[0], assumed, depth - 1);
    default:
        return false;
    }
}

static bool not_negative(const IrValue *v) {
    return is_not_negative(v, NULL, DEPTH);
}

/* ---- Where a value goes ---- */

static bool reaches(Reach *r, const IrValue *v, bool rounded);

static const IrParam *param_of(const IrFunc *f, IrValue *tensor) {
    const IrValue *memory = memory_of(tensor);
    return memory->def || memory->block != f->body || memory->index >= f->param_count ? NULL : &f->params[memory->index];
}

/* Does any step load what the tensor of that name holds? */
static bool is_loaded(const Reach *r, const char *name) {
    for (const IrFunc *f = r->ctx->module->first; f; f = f->next) {
        if (f->level != IR_LEVEL_TILE) continue;
        OpList ops = ops_collect(r->ctx->scratch, f->body);
        for (size_t i = 0; i < ops.len; i++) {
            if (ops.data[i]->opcode != IR_TILE_LOAD) continue;
            const IrParam *p = param_of(f, ops.data[i]->operands[0]);
            if (!p || strcmp(p->name, name) == 0) return true;
        }
    }
    return false;
}

/* A store to a result, which nothing reads again. */
static bool is_last_store(const Reach *r, const IrOp *op, unsigned index) {
    if (op->opcode != IR_TILE_STORE || index != 0 || ir_op_mode(op) != IR_KIND_SET) return false;
    const IrBlock *body = op->block;
    while (body->parent) body = body->parent->block;
    const IrParam *p = param_of(body->func, op->operands[1]);
    return p && p->kind == IR_PARAM_TENSOR && p->direction == IR_DIR_OUT && !is_loaded(r, p->name);
}

static bool moves_lanes(const IrOp *op) {
    return op->opcode == IR_TILE_BROADCAST || op->opcode == IR_TILE_TRANSPOSE || op->opcode == IR_TILE_RESHAPE ||
           op->opcode == IR_TILE_SCALAR || op->opcode == IR_TILE_FLIP || keeps_lanes(op);
}

/* Does the op keep its operand's relative error? */
static bool keeps_error(const IrOp *op, unsigned index) {
    switch (op->opcode) {
    case IR_NEG:
    case IR_ABS:
    case IR_MUL:
    case IR_DIV:
    case IR_MAX:
    case IR_MIN:
        return true;
    case IR_SELECT:
        return index > 0;
    case IR_ADD:
    case IR_FMA:
        return not_negative(&op->results[0]);
    case IR_TILE_REDUCE: {
        IrKind kind = ir_op_kind(op);
        return kind == IR_KIND_MAX || kind == IR_KIND_MIN || (kind == IR_KIND_ADD && not_negative(op->operands[0]));
    }
    default:
        return moves_lanes(op);
    }
}

/* The argument and the result of the loop that operand `index` of the op goes on in. */
static bool is_carried(const IrUse *use, const IrValue *next[2]) {
    const IrOp *op = use->op, *loop = op->opcode == IR_FOR ? op : op->opcode == IR_YIELD ? op->block->parent : NULL;
    if (!loop || loop->opcode != IR_FOR || (loop == op && use->index < 3)) return false;
    unsigned k = loop == op ? use->index - 3 : use->index;
    next[0] = loop->regions[0]->args[k + 1], next[1] = &loop->results[k];
    return true;
}

static bool use_reaches(Reach *r, const IrUse *use, const IrValue *v, bool rounded) {
    const IrOp *op = use->op;
    const IrValue *next[2];
    if (rounded) {
        if (op->opcode == IR_TILE_GEMM && use->index < 2) return true; /* its terms are as good as the factor's type */
        return is_last_store(r, op, use->index) || (moves_lanes(op) && reaches(r, &op->results[0], true));
    }
    if (is_carried(use, next)) return reaches(r, next[0], false) && reaches(r, next[1], false);
    if (op->opcode == IR_CAST && is_float(&op->results[0], 16)) {
        int bits = (int)lround(-log2(dtype_unit_roundoff(op->results[0].type->dtype))) + MORE;
        r->bits = bits > r->bits ? bits : r->bits;
        VEC_PUSH(r->ctx->scratch, &r->results, v);
        return reaches(r, &op->results[0], true);
    }
    return keeps_error(op, use->index) && is_float(&op->results[0], 32) && reaches(r, &op->results[0], false);
}

static bool reaches(Reach *r, const IrValue *v, bool rounded) {
    uint32_t known;
    if (pointer_table_get(&r->seen, v, &known)) return true;
    pointer_table_set(&r->seen, v, 1);
    for (const IrUse *use = v->uses; use; use = use->next)
        if (!use_reaches(r, use, v, rounded)) return false;
    return true;
}

/* How many such errors the value may hold, one for each function on the way; `carried` has none yet. What a loop carries has as many as
 * an iteration makes of none, if it makes no more of those. */
static int errors_in(const IrValue *v, const IrValue *carried, int had, int depth) {
    ANALYZER_ASSUME(v);
    const IrOp *op = v->def;
    const IrValue *from[2] = {NULL, NULL};
    if (v == carried) return had;
    if (depth <= 0) return MOST_ERRORS + 1;
    if (!op && !carrier_of(v, from)) return 0;
    if (!op || op->opcode == IR_FOR) {
        if (carried) return MOST_ERRORS + 1;
        if (op) v = op->regions[0]->args[v->index + 1];
        carrier_of(v, from);
        int begun = errors_in(from[0], NULL, 0, depth - 1), once = errors_in(from[1], v, begun, depth - 1);
        return errors_in(from[1], v, once, depth - 1) > once ? MOST_ERRORS + 1 : once > begun ? once : begun;
    }
    if (op->opcode == IR_EXP || op->opcode == IR_EXP2 || op->opcode == IR_ERFC) return ir_attr(op, "bits") ? 1 : 0;
    if (op->opcode == IR_TILE_GEMM || op->opcode == IR_SUB) return 0; /* of rounded factors; of what keeps all bits */
    bool adds = op->opcode == IR_MUL || op->opcode == IR_DIV || op->opcode == IR_FMA;
    int n = 0;
    for (unsigned i = 0; i < op->operand_count && !op->region_count; i++) {
        if (!dtype_is_float(op->operands[i]->type->dtype)) continue;
        int k = errors_in(op->operands[i], carried, had, depth - 1);
        n = adds ? n + k : k > n ? k : n;
    }
    return n;
}

/* What is asked of a value: its bits, or 0 where it is all. */
static int bits_asked(Reach *r, const IrValue *v) {
    return is_tile(v) && is_float(v, 32) && reaches(r, v, false) ? r->bits : 0;
}

static bool too_many_errors(const Reach *r) {
    for (size_t i = 0; i < r->results.len; i++)
        if (errors_in(r->results.data[i], NULL, 0, DEPTH) > MOST_ERRORS) return true;
    return false;
}

static void mark(PassContext *ctx, IrOp *op) {
    Reach r = {.ctx = ctx, .seen = pointer_table(ctx->scratch)};
    int bits = bits_asked(&r, &op->results[0]);
    if (!bits) return;
    ir_attr_set_int(op, "bits", bits);
    if (too_many_errors(&r)) ir_attr_remove(op, "bits");
}

static bool is_one(const IrValue *v) {
    const IrAttr *value = v->def && v->def->opcode == IR_CONST ? ir_attr(v->def, "value") : NULL;
    return value && value->kind == IR_ATTR_FLOAT && value->number == 1;
}

/* 1 + erf(x), the only use of that erf: erfc(-x), which keeps bits of a result where erf is near -1, down to 2^-22.5. */
static void complement(PassContext *ctx, IrOp *op) {
    unsigned one = is_one(op->operands[0]) ? 0 : 1;
    IrOp *erf = op->operands[1 - one]->def;
    if (!is_one(op->operands[one]) || !erf || erf->opcode != IR_ERF || erf->results[0].uses->next) return;
    Reach r = {.ctx = ctx, .seen = pointer_table(ctx->scratch)};
    int bits = bits_asked(&r, &op->results[0]);
    if (!bits) return;
    IrBuilder at = ir_builder_before(op);
    at.span = op->span;
    IrValue *y = ir_unary(&at, IR_ERFC, ir_unary(&at, IR_NEG, erf->operands[0]));
    ir_attr_set_int(y->def, "bits", bits);
    ir_replace_uses(&op->results[0], y);
    if (!too_many_errors(&r)) {
        y->name = op->results[0].name;
        ir_op_erase(op);
        return;
    }
    ir_replace_uses(y, &op->results[0]);
    ir_op_erase(y->def);
}

/* ---- Arguments ---- */

/* The maxima of x c along axes, c the same in all lanes and positive: those of x times c, the same number. */
static void scale_maximum(IrOp *fold, IrOp *product) {
    IrValue *x = product->operands[0];
    IrBuilder b = ir_builder_before(fold);
    b.span = fold->span;
    IrOp *own = ir_op_create(&b, IR_TILE_REDUCE, 1, &x, 1, &fold->results[0].type);
    own->attrs = fold->attrs;
    IrValue *scaled = ir_binary(&b, IR_MUL, ir_result(own, 0), product->operands[1]);
    scaled->name = fold->results[0].name;
    ir_replace_uses(&fold->results[0], scaled);
    ir_op_erase(fold);
}

/* Whether lanes are numbers of products, or of memory whose type has no large ones: none stands in place of a score, such as -1e30. If all of
 * a row are such numbers, m is, too, and what its rounding left out would be the argument. */
static bool is_moderate_at(const IrValue *v, int depth) {
    const IrOp *op = v->def;
    const IrAttr *value = op && (op->opcode == IR_CONST || op->opcode == IR_TILE_FILL) ? ir_attr(op, "value") : NULL;
    if (value && value->kind == IR_ATTR_FLOAT && isfinite(value->number) && fabs(value->number) >= LARGE) return false;
    if (op && op->opcode == IR_TILE_LOAD) return dtype_max(v->type->dtype) < LARGE;
    if (!op || op->opcode == IR_CONST || op->opcode == IR_TILE_GEMM) return true;
    if (depth <= 0 || op->region_count) return false;
    for (unsigned i = 0; i < op->operand_count; i++)
        if (dtype_is_float(op->operands[i]->type->dtype) && !is_moderate_at(op->operands[i], depth - 1)) return false;
    return true;
}

/* exp2(x c - m) of few bits: x c - m is rounded once. */
static void join_argument(PassContext *ctx, IrOp *op) {
    IrOp *less = op->operands[0]->def, *product = less && less->opcode == IR_SUB ? less->operands[0]->def : NULL;
    if (!product || product->opcode != IR_MUL || !is_tile(product->operands[0]) || is_tile(product->operands[1])) return;
    if (!is_moderate_at(product->operands[0], DEPTH)) return;
    IrBuilder b = ir_builder_before(less);
    b.span = less->span;
    IrValue *operands[3] = {product->operands[0], product->operands[1], ir_unary(&b, IR_NEG, less->operands[1])};
    IrValue *sum = ir_result(ir_op_create(&b, IR_FMA, 3, operands, 1, &less->results[0].type), 0);
    if (is_below_maximum(&less->results[0])) ir_attr_set_bool(op, "not_positive", true); /* but for a rounding */
    ir_set_operand(op, 0, sum);
    if (less->results[0].uses) return;
    ir_op_erase(less);
    if (!is_positive(product->operands[1])) return;
    OpList folds = {0};
    for (const IrUse *use = product->results[0].uses; use; use = use->next) {
        if (use->op->opcode != IR_TILE_REDUCE || ir_op_kind(use->op) != IR_KIND_MAX) return;
        VEC_PUSH(ctx->scratch, &folds, use->op);
    }
    for (size_t i = 0; i < folds.len; i++) scale_maximum(folds.data[i], product);
}

/* ---- Results below the normal numbers ---- */

static bool are_factors(const IrValue *v) {
    for (const IrUse *use = v->uses; use; use = use->next)
        if (use->op->opcode != IR_TILE_GEMM || use->index > 1) return false;
    return v->uses;
}

/* The maximum of all iterations so far: the first one's is its own, or one beside which nothing is left of the others. */
static bool is_running_maximum(const IrValue *most) {
    const IrOp *op = most->def;
    const IrValue *from[2];
    for (unsigned i = 0; op && op->opcode == IR_MAX && i < 2; i++) {
        if (!carrier_of(op->operands[i], from) || from[1] != most) continue;
        const IrAttr *first = from[0]->def && from[0]->def->opcode == IR_CONST ? ir_attr(from[0]->def, "value") : NULL;
        if (first && first->kind == IR_ATTR_FLOAT && first->number < -0x1p64) return true;
    }
    return false;
}

/* exp or exp2 of what the maximum was less what it is: by as much as this, terms of the iterations before shrink, and no more. */
static bool is_rescaling(const IrValue *v, const IrValue *most) {
    const IrOp *op = v->def, *less;
    const IrValue *from[2];
    while (op && (op->opcode == IR_TILE_BROADCAST || op->opcode == IR_TILE_RESHAPE)) op = op->operands[0]->def;
    if (!op || (op->opcode != IR_EXP && op->opcode != IR_EXP2)) return false;
    less = op->operands[0]->def;
    return less && less->opcode == IR_SUB && less->operands[1] == most && carrier_of(less->operands[0], from) && from[1] == most;
}

/* total * scale + sum, carried as total: it holds the greatest element's 1, as the sum of all so far does. */
static bool is_running_total(const IrValue *sum, const IrValue *most) {
    ANALYZER_ASSUME(sum);
    const IrUse *use = sum->uses;
    const IrOp *add = use && !use->next && use->op->opcode == IR_ADD ? use->op : NULL;
    const IrValue *before = add ? add->operands[1 - use->index] : NULL, *from[2];
    const IrOp *scaled = before ? before->def : NULL;
    if (!scaled || scaled->opcode != IR_MUL) return false;
    for (unsigned i = 0; i < 2; i++)
        if (carrier_of(scaled->operands[i], from) && from[1] == &add->results[0])
            return is_rescaling(scaled->operands[1 - i], most) && not_negative(from[1]);
    return false;
}

static bool same_axes(const IrOp *a, const IrOp *b) {
    const IrAttr *x = ir_attr(a, "axes"), *y = ir_attr(b, "axes");
    return x->count == y->count && memcmp(x->ints, y->ints, x->count * sizeof *x->ints) == 0;
}

/* Of an exp or exp2 that is marked: nothing else than products of its rounded results and its rows' sums tells a 0 from what is below 2^-126. */
static bool may_flush(const IrOp *op) {
    const IrValue *x = op->operands[0];
    const IrOp *most = row_maximum(x);
    if (!FLUSHES || !most) return false;
    const IrValue *least = x->def->operands[1]->def->operands[0]; /* what is repeated over the row */
    bool own = least == &most->results[0];
    if (!own && !is_running_maximum(least)) return false;
    for (const IrUse *use = op->results[0].uses; use; use = use->next) {
        const IrValue *made = use->op->result_count ? &use->op->results[0] : NULL;
        if (use->op->opcode == IR_CAST && is_float(made, 16) && are_factors(made)) continue;
        bool adds = use->op->opcode == IR_TILE_REDUCE && ir_op_kind(use->op) == IR_KIND_ADD && same_axes(use->op, most);
        if (!adds || (!own && !is_running_total(made, least))) return false;
    }
    return true;
}

bool pass_relax_precision(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first; f; f = f->next) {
        if (f->level != IR_LEVEL_TILE || f->state != IR_STATE_STATIC) continue;
        OpList ops = ops_collect(ctx->scratch, f->body);
        for (size_t i = 0; i < ops.len; i++) {
            IrOpcode opcode = ops.data[i]->opcode;
            if (opcode == IR_EXP || opcode == IR_EXP2 || opcode == IR_DIV) mark(ctx, ops.data[i]);
            bool power = opcode == IR_EXP || opcode == IR_EXP2;
            if (power && ir_attr(ops.data[i], "bits") && may_flush(ops.data[i])) ir_attr_set_bool(ops.data[i], "flushed", true);
            if (opcode == IR_EXP2 && ir_attr(ops.data[i], "bits")) join_argument(ctx, ops.data[i]);
            if (opcode == IR_ADD) complement(ctx, ops.data[i]);
        }
    }
    return true;
}
