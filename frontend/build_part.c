/* Loads from and stores to slices of tiles: tile.extract and tile.insert. */
#include "build_internal.h"

bool build_is_part(const Expr *e) {
    return e->kind == EXPR_INDEX && e->decl && e->decl->kind == DECL_TILE && !e->decl->is_workspace;
}

typedef struct {
    IrValue *operands[2 * AST_MAX_RANK + 2];
    unsigned count, ranges;
    char axes[AST_MAX_RANK + 1];
    int64_t steps[AST_MAX_RANK];
    IrValue *inside; /* every index of a dropped axis lies in the tile; null: proved */
} Part;

static IrValue *both(Build *c, IrValue *a, IrValue *b) {
    return a ? ir_binary(&c->b, IR_AND, a, b) : b;
}

/* An index that may lie outside reads lane 0, and `inside` says so. */
static IrValue *clamped(Build *c, Part *p, IrValue *at, const Aff *extent) {
    IrValue *zero = ir_const_index(&c->b, 0), *end = ir_aff_emit(&c->b, extent);
    IrValue *ok = both(c, ir_binary(&c->b, IR_LE, zero, at), ir_binary(&c->b, IR_LT, at, end));
    p->inside = both(c, p->inside, ok);
    return ir_select(&c->b, ok, at, zero);
}

static bool part_axis(Build *c, Part *p, const AxisIndex *axis, unsigned i, const Aff *extent,
                      bool clamps) {
    if (axis->kind == AXIS_GATHER || !axis->start)
        return build_unsupported(c, axis->span, "an index tile in a slice of a tile") != NULL;
    bool range = axis->kind == AXIS_RANGE;
    IrValue *at = build_index(c, axis->start, axis->span);
    p->axes[i] = range ? 'r' : 'p';
    p->operands[p->count++] = !range && clamps ? clamped(c, p, at, extent) : at;
    if (!range) return c->ok;
    p->operands[p->count++] = build_index(c, axis->end, axis->span);
    p->steps[p->ranges] = 1;
    aff_is_const(axis->step, &p->steps[p->ranges++]);
    return c->ok;
}

static bool part_of(Build *c, const Expr *e, const IrType *whole, bool clamps, Part *p) {
    for (unsigned i = 0; i < e->axis_count; i++)
        if (!part_axis(c, p, &e->axes[i], i, whole->extents[i], clamps)) return false;
    return true;
}

static IrValue *create(Build *c, IrOpcode opcode, const Part *p, const IrType *type) {
    IrOp *op = ir_op_create(&c->b, opcode, p->count, p->operands, 1, &type);
    bool stepped = false;
    for (unsigned k = 0; k < p->ranges; k++) stepped |= p->steps[k] != 1;
    ir_attr_set_str(op, "axes", p->axes);
    if (stepped) ir_attr_set_ints(op, "steps", p->ranges, p->steps);
    return ir_result(op, 0);
}

/* The same tile with `value` in its absent lanes. */
static IrValue *filled(Build *c, IrValue *tile, double value) {
    IrOp *op = ir_op_create(&c->b, IR_TILE_FILL, 1, &tile, 1, &tile->type);
    ir_attr_set_float(op, "value", value);
    return ir_result(op, 0);
}

IrValue *build_extract(Build *c, const Stmt *s, const IrType *type) {
    IrValue *whole = build_get(c, s->value->decl);
    if (!whole) return NULL;
    type = ir_type_with_dtype(c->m, type, whole->type->dtype);
    const ConstValue *pad = s->pad ? &s->pad->value : NULL;
    double value = !pad ? 0 : pad->kind == CONST_FLOAT ? pad->f : (double)pad->i;
    c->b.span = s->span;
    Part p = {.operands = {pad ? filled(c, whole, value) : whole}, .count = 1};
    if (!part_of(c, s->value, whole->type, pad != NULL, &p)) return NULL;
    IrValue *part = create(c, IR_TILE_EXTRACT, &p, type);
    if (!pad) return part;
    if (type->rank) part = filled(c, part, value);
    if (!p.inside) return part;
    return ir_select(&c->b, p.inside, part, build_splat(c, type, value));
}

IrValue *build_insert(Build *c, const Stmt *s, IrValue *whole, IrValue *part) {
    static const IrOpcode combine[] = {[STORE_ADD] = IR_ADD, [STORE_MAX] = IR_MAX, [STORE_MIN] = IR_MIN};
    if (!whole || !part) return NULL;
    part = build_cast(c, part, whole->type->dtype);
    c->b.span = s->span;
    Part p = {.operands = {whole, part}, .count = 2};
    if (!part_of(c, s->into, whole->type, false, &p)) return NULL;
    if (s->mode != STORE_SET) {
        Part old = {.operands = {whole}, .count = 1};
        if (!part_of(c, s->into, whole->type, false, &old)) return NULL;
        IrValue *before = create(c, IR_TILE_EXTRACT, &old, part->type);
        p.operands[1] = ir_binary(&c->b, combine[s->mode], before, part);
    }
    return create(c, IR_TILE_INSERT, &p, whole->type);
}
