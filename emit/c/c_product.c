/* Products of matrices in blocks that vector registers hold: a map that is marked `product` is printed as one call. */
#include "c_internal.h"

typedef struct {
    const IrValue *left, *right, *start; /* fragments: factors, what is added to */
    long long rows, columns, terms;
} Product;

static const IrOp *get_of(const IrValue *v) {
    return v->def && v->def->opcode == IR_FRAG_GET && v->def->operand_count == 3 ? v->def : NULL;
}

/* acc = start[i][j...]; for k: acc = fma(left[i][k], right[k][j...], acc), the only form in which the mark is given. */
static bool read_product(const IrOp *map, Product *r) {
    const IrBlock *body = map->regions[0];
    const IrValue *value = map->result_count == 1 && body->last->operand_count == 1 ? body->last->operands[0] : NULL;
    const IrOp *loop = value ? value->def : NULL;
    if (!loop || loop->opcode != IR_FOR || loop->block != body || loop->result_count != 1) return false;
    const IrBlock *inner = loop->regions[0];
    const IrOp *fma = inner->last->operands[0]->def, *start = get_of(loop->operands[3]);
    if (!fma || fma->opcode != IR_FMA || fma->operands[2] != inner->args[1] || !start) return false;
    const IrOp *left = get_of(fma->operands[0]), *right = get_of(fma->operands[1]);
    if (!left || !right) return false;
    const IrType *a = left->operands[0]->type, *c = map->results[0].type;
    *r = (Product){left->operands[0],    right->operands[0],   start->operands[0],
                   ir_type_extent(c, 0), ir_type_extent(c, 1), ir_type_extent(a, 1)};
    const IrType *t = loop->results[0].type;
    return t->dtype == DTYPE_F32 && right->results[0].type->width == t->width && start->results[0].type->width == t->width &&
           ir_type_extent(r->right->type, 0) == r->terms && ir_type_extent(r->right->type, 1) == r->columns;
}

bool c_product(CPrinter *p, const IrOp *map) {
    Product r;
    if (!ir_attr_bool(map, "product") || p->dialect->gpu || map->regions[0]->arg_count != 2 || !read_product(map, &r)) return false;
    const char *left = c_value(p, r.left)->home, *right = c_value(p, r.right)->home, *start = c_value(p, r.start)->home;
    if (!left || !right || !start) return false;
    const char *name = c_helper(p, C_HELPER_PRODUCT, DTYPE_F32, DTYPE_NONE), *to = c_new_array(p, &map->results[0]);
    const char *arguments =
        arena_printf(p->arena, "(%s[0], %s[0], %s[0], %s[0], %lld, %lld, %lld);", left, right, start, to, r.rows, r.columns, r.terms);
    c_statement(p, "%s%s", name, arguments);
    return true;
}
