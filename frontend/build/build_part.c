/* Loads from and stores to slices of tiles: tile.extract, tile.gather and tile.insert. */
#include "build_internal.h"

bool build_is_part(const Expr *e) {
    return e->kind == EXPR_INDEX && e->decl && e->decl->kind == DECL_TILE && !e->decl->is_workspace;
}

typedef struct {
    IrValue *operands[2 * AST_MAX_RANK + 2];
    unsigned count, ranges;
    char axes[AST_MAX_RANK + 1];
    int64_t steps[AST_MAX_RANK];
    IrValue *inside;                         /* every index of a dropped axis lies in the tile; null: proved */
    IrValue *index;                          /* the index tile, or null */
    unsigned kept, gather_axis, gather_from; /* kept axes so far; where the index tile stands among them, and in the tile */
    bool cuts;                               /* takes less than the whole of an axis */
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

static void add_range(Part *p, IrValue *end, const Aff *step) {
    p->operands[p->count++] = end;
    p->steps[p->ranges] = 1;
    if (step) aff_is_const(step, &p->steps[p->ranges]);
    p->ranges++;
    p->kept++;
}

/* The axis stays whole until the index tile takes its lanes. */
static bool index_axis(Build *c, Part *p, const AxisIndex *axis, unsigned i, const Aff *extent) {
    p->index = build_expr(c, axis->index);
    build_count_index(c, p->index, extent, axis->span);
    p->gather_axis = p->kept;
    p->gather_from = i;
    p->axes[i] = IR_LETTER_RANGE;
    p->operands[p->count++] = ir_const_index(&c->b, 0);
    add_range(p, ir_aff_emit(&c->b, extent), NULL);
    return p->index != NULL;
}

static bool part_axis(Build *c, Part *p, const AxisIndex *axis, unsigned i, const Aff *extent, bool clamps) {
    if (axis->kind == AXIS_GATHER) return index_axis(c, p, axis, i, extent);
    bool range = axis->kind == AXIS_RANGE;
    IrValue *at = build_index(c, axis->start, axis->span);
    p->cuts |= !range || axis->start->kind != AFF_CONST || axis->start->value != 0;
    p->axes[i] = range ? IR_LETTER_RANGE : IR_LETTER_POINT;
    p->operands[p->count++] = !range && clamps ? clamped(c, p, at, extent) : at;
    if (!range) return c->ok;
    IrValue *end = build_index(c, axis->end, axis->span);
    add_range(p, end, axis->step);
    p->cuts |= p->steps[p->ranges - 1] != 1 || ir_aff_of(c->m, end) != extent;
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
    if (dtype_is_float(tile->type->dtype))
        ir_attr_set_float(op, "value", value);
    else
        ir_attr_set_int(op, "value", (int64_t)dtype_round(tile->type->dtype, value));
    return ir_result(op, 0);
}

/* The tile's type without its index tile: the gathered axis whole. */
static const IrType *ungathered(Build *c, const Part *p, const IrType *type, const IrType *whole) {
    const Aff *extents[AST_MAX_RANK + 1] = {0};
    unsigned more = p->index->type->rank - 1;
    for (unsigned i = 0; i < p->kept; i++)
        extents[i] = i == p->gather_axis ? whole->extents[p->gather_from] : i < p->gather_axis ? type->extents[i] : type->extents[i + more];
    return ir_type_tile(c->m, whole->dtype, p->kept, extents, NULL);
}

static IrValue *gathered(Build *c, const Part *p, IrValue *from, const ConstValue *pad, double value) {
    const IrType *t = from->type, *index = p->index->type;
    const Aff *extents[AST_MAX_RANK + 1] = {0};
    unsigned rank = t->rank - 1 + index->rank;
    for (unsigned i = 0; i < rank; i++)
        extents[i] = i < p->gather_axis                 ? t->extents[i]
                     : i < p->gather_axis + index->rank ? index->extents[i - p->gather_axis]
                                                        : t->extents[i + 1 - index->rank];
    const IrType *type = ir_type_tile(c->m, t->dtype, rank, extents, NULL);
    IrOp *op = ir_op_create(&c->b, IR_TILE_GATHER, 2, (IrValue *[]){from, p->index}, 1, &type);
    ir_attr_set_int(op, "axis", p->gather_axis);
    if (pad) ir_attr_set_float(op, "pad", value);
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
    if (p.index) type = ungathered(c, &p, type, whole->type);
    IrValue *part = p.index && !p.cuts ? p.operands[0] : create(c, IR_TILE_EXTRACT, &p, type);
    if (pad && type->rank) part = filled(c, part, value);
    if (p.inside) part = ir_select(&c->b, p.inside, part, build_splat(c, type, value));
    return p.index ? gathered(c, &p, part, pad, value) : part;
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
