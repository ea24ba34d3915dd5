/* design: values as tiles. A value is asked for at index expressions over the nest's axes; what
 * comes back is the name of a tile and the axes along which it varies. */
#include "analyzer.h"
#include "design_internal.h"

#include <math.h>
#include <string.h>

/* ---- Text ---- */

bool design_fail(Design *d, const char *what) {
    if (d->error) return false;
    d->error = what;
    d->error_at = d->at;
    return false;
}

void design_line(Design *d, const char *format, ...) {
    va_list args;
    for (unsigned i = 0; i <= d->depth; i++) str_append(d->body, "    ");
    va_start(args, format);
    str_vprintf(d->body, format, args);
    va_end(args);
    str_append_char(d->body, '\n');
}

const char *design_name(Design *d) {
    return arena_printf(d->arena, "t%u", d->names++);
}

const char *design_aff_text(Design *d, const Aff *e) {
    Str text;
    str_init(&text);
    aff_print(e, &text);
    const char *copy = arena_strdup(d->arena, text.data);
    str_release(&text);
    return copy;
}

const char *design_extent(Design *d, const DesignAxis *axis) {
    return axis->walk == WALK_TILE ? axis->tile : design_aff_text(d, axis->extent);
}

const char *design_number(Design *d, double value, Dtype dtype) {
    if (dtype == DTYPE_BOOL) return value != 0 ? "true" : "false";
    if (isnan(value)) return "nan";
    Str text;
    str_init(&text);
    str_append_double(&text, value);
    bool fraction = strpbrk(text.data, ".eni") != NULL;
    if (dtype_is_float(dtype) && !fraction) str_append(&text, ".0");
    const char *copy = arena_printf(d->arena, signbit(value) ? "(%s)" : "%s", text.data);
    str_release(&text);
    return copy;
}

DesignTile design_let(Design *d, const char *expression, unsigned rank, DesignAxis *const *axes, Dtype dtype) {
    DesignTile t = {.text = design_name(d), .rank = rank, .is_tile = true, .dtype = dtype};
    for (unsigned i = 0; i < rank; i++) t.axes[i] = axes[i];
    design_line(d, "%s = %s", t.text, expression);
    return t;
}

/* ---- Axes of tiles ---- */

static int position(const DesignAxis *axis, unsigned rank, DesignAxis *const *axes) {
    for (unsigned i = 0; i < rank; i++)
        if (axes[i] == axis) return (int)i;
    return -1;
}

static bool contains(const DesignTile *a, const DesignTile *b) {
    for (unsigned i = 0; i < b->rank; i++)
        if (position(b->axes[i], a->rank, a->axes) < 0) return false;
    return true;
}

unsigned design_union(const DesignTile *a, const DesignTile *b, DesignAxis **axes) {
    const DesignTile *large = contains(a, b) ? a : contains(b, a) ? b : NULL;
    if (large == a && b->is_loaded && contains(b, a)) large = b; /* a transposition of what was loaded costs more */
    unsigned n = 0;
    if (large) {
        for (; n < large->rank; n++) axes[n] = large->axes[n];
        return n;
    }
    for (unsigned id = 0; id < DESIGN_AXES && n < DESIGN_RANK; id++)
        for (unsigned side = 0; side < 2; side++) {
            const DesignTile *t = side ? b : a;
            for (unsigned i = 0; i < t->rank; i++)
                if (t->axes[i]->id == id && position(t->axes[i], n, axes) < 0) axes[n++] = t->axes[i];
        }
    return n;
}

/* The tile with its axes in the order in which they stand in `axes`. */
static const char *reorder(Design *d, const DesignTile *t, unsigned rank, DesignAxis *const *axes, DesignAxis **ordered) {
    unsigned n = 0;
    bool moved = false;
    Str order;
    str_init(&order);
    for (unsigned i = 0; i < rank; i++) {
        int at = position(axes[i], t->rank, t->axes);
        if (at < 0) continue;
        moved |= (unsigned)at != n;
        str_printf(&order, "%s%d", n ? ", " : "", at);
        ordered[n++] = axes[i];
    }
    if (n != t->rank) design_fail(d, "a tile varies along an axis that its use has not");
    const char *text = t->text;
    if (moved && t->rank == 2)
        text = arena_printf(d->arena, "transpose(%s)", text);
    else if (moved)
        text = arena_printf(d->arena, "transpose(%s, axes=[%s])", text, order.data);
    str_release(&order);
    return text;
}

const char *design_align(Design *d, const DesignTile *t, unsigned rank, DesignAxis *const *axes) {
    if (!t->rank) return t->text;
    DesignAxis *ordered[DESIGN_RANK] = {0};
    const char *text = reorder(d, t, rank, axes, ordered);
    unsigned first = 0; /* leading axes line up by themselves */
    while (first < rank && position(axes[first], t->rank, t->axes) < 0) first++;
    if (rank - first == t->rank) return text;
    Str shape;
    str_init(&shape);
    for (unsigned i = first; i < rank; i++) {
        bool has = position(axes[i], t->rank, t->axes) >= 0;
        str_printf(&shape, "%s%s", i > first ? ", " : "", has ? design_extent(d, axes[i]) : "1");
    }
    text = arena_printf(d->arena, "reshape(%s, [%s])", text, shape.data);
    str_release(&shape);
    return text;
}

/* ---- Lane by lane ---- */

/* How an operation is written: infix, or as a call. */
static const struct {
    IrOpcode opcode;
    const char *text;
    bool infix;
} spellings[] = {
    {IR_ADD, "+", true},       {IR_SUB, "-", true},         {IR_MUL, "*", true},       {IR_DIV, "/", true},
    {IR_FLOORDIV, "//", true}, {IR_MOD, "%", true},         {IR_LT, "<", true},        {IR_LE, "<=", true},
    {IR_EQ, "==", true},       {IR_NE, "!=", true},         {IR_SHL, "<<", true},      {IR_SHR, ">>", true},
    {IR_XOR, "^", true},       {IR_SELECT, "where", false}, {IR_RINT, "round", false}, {IR_CEIL, "ceiling", false},
};

static const char *spelling(const IrOp *op, bool *infix) {
    bool logic = op->results[0].type->dtype == DTYPE_BOOL;
    *infix = op->opcode == IR_AND || op->opcode == IR_OR;
    if (op->opcode == IR_AND) return logic ? "and" : "&";
    if (op->opcode == IR_OR) return logic ? "or" : "|";
    if (op->opcode == IR_NOT) return logic ? "logical_not" : "bit_not";
    for (size_t i = 0; i < COUNT_OF(spellings); i++)
        if (spellings[i].opcode == op->opcode) {
            *infix = spellings[i].infix;
            return spellings[i].text;
        }
    return ir_op_info(op->opcode)->name;
}

/* Is only the second operand made of a product? It comes first, so that no other tile lives through the product's loop. */
static bool is_product_behind(const Design *d, const IrOp *op) {
    return op->operand_count == 2 && design_has_product(d, op->operands[1]) && !design_has_product(d, op->operands[0]);
}

static DesignTile lanewise(Design *d, IrOp *op, const Aff *const *index) {
    DesignTile parts[3] = {0}, all = {0};
    DesignAxis *axes[DESIGN_RANK];
    bool counts = op->opcode == IR_CAST && op->operands[0]->type->kind == IR_TYPE_SCALAR && op->operands[0]->type->is_index;
    const Aff *at = counts ? design_index(d, op->operands[0]) : NULL;
    if (at) return design_index_tile(d, at, op->results[0].type->dtype);
    if (is_product_behind(d, op)) design_value(d, op->operands[1], index);
    for (unsigned i = 0; i < op->operand_count && i < 3; i++) {
        parts[i] = design_value(d, op->operands[i], index);
        if (d->error) return all;
        all.rank = design_union(&all, &parts[i], axes);
        memcpy(all.axes, axes, sizeof axes);
        all.is_tile |= parts[i].is_tile;
    }
    all.dtype = op->results[0].type->dtype;
    bool infix;
    const char *name = spelling(op, &infix), *text[3] = {0};
    for (unsigned i = 0; i < op->operand_count; i++) text[i] = design_align(d, &parts[i], all.rank, all.axes);
    if (infix)
        all.text = arena_printf(d->arena, "%s %s %s", text[0], name, text[1]);
    else if (op->opcode == IR_CAST)
        all.text = arena_printf(d->arena, "cast(%s, dtype=%s)", text[0], dtype_name(all.dtype));
    else
        all.text = arena_printf(d->arena, "%s(%s%s%s%s%s)", name, text[0], text[1] ? ", " : "", text[1] ? text[1] : "", text[2] ? ", " : "",
                                text[2] ? text[2] : "");
    if (all.is_tile) return design_let(d, all.text, all.rank, all.axes, all.dtype);
    all.text = arena_printf(d->arena, "(%s)", all.text);
    return all;
}

static DesignTile constant(Design *d, const IrOp *op) {
    const IrAttr *value = ir_attr(op, "value");
    Dtype dtype = op->results[0].type->dtype;
    DesignTile t = {.dtype = dtype};
    if (value && value->kind != IR_ATTR_FLOAT && dtype_is_int(dtype))
        t.text = arena_printf(d->arena, value->integer < 0 ? "(%lld)" : "%lld", (long long)value->integer);
    else
        t.text = design_number(d, !value ? 0 : value->kind == IR_ATTR_FLOAT ? value->number : (double)value->integer, dtype);
    return t;
}

/* ---- Moves: only the index changes ---- */

static bool is_one(const Aff *extent) {
    int64_t one;
    return aff_is_const(extent, &one) && one == 1;
}

static DesignTile moved(Design *d, IrOp *op, const Aff *const *index) {
    AffCtx *c = d->module->affs;
    const IrType *from = op->operands[0]->type;
    const Aff *inner[DESIGN_RANK] = {0};
    const IrAttr *axes = ir_attr(op, op->opcode == IR_GRAPH_TRANSPOSE ? "perm" : "axes");
    if (op->opcode == IR_GRAPH_RESHAPE) {
        design_reshaped(d, op->results[0].type, index, from, inner);
        return design_value(d, op->operands[0], inner);
    }
    for (unsigned i = 0; i < from->rank; i++) {
        if (op->opcode == IR_GRAPH_TRANSPOSE) {
            inner[axes->ints[i]] = index[i];
        } else if (op->opcode == IR_GRAPH_FLIP) {
            bool here = ir_attr_int(op, "axis", 0) == (int64_t)i;
            inner[i] = !here ? index[i] : aff_sub(c, aff_sub(c, from->extents[i], aff_const(c, 1)), index[i]);
        } else { /* a broadcast */
            inner[i] = is_one(from->extents[i]) ? aff_const(c, 0) : index[axes->ints[i]];
        }
    }
    return design_value(d, op->operands[0], inner);
}

static DesignTile sequence(Design *d, const IrOp *op, const Aff *const *index) {
    ANALYZER_ASSUME(index);
    return design_index_tile(d, index[ir_attr_int(op, "axis", 0)], op->results[0].type->dtype);
}

static DesignTile random_numbers(Design *d, IrOp *op, const Aff *const *index) {
    const IrType *t = op->results[0].type;
    DesignTile seed = design_value(d, op->operands[0], NULL);
    DesignTile offset = design_value(d, op->operands[1], NULL);
    DesignTile at = design_index_tile(d, design_linear(d, t->extents, index, t->rank), DTYPE_I64);
    const char *text =
        arena_printf(d->arena, "random(%s, seed=%s, offset=%s, dtype=%s)", at.text, seed.text, offset.text, dtype_name(t->dtype));
    return design_let(d, text, at.rank, at.axes, t->dtype);
}

/* ---- Dispatch ---- */

static DesignTile parameter(Design *d, IrValue *v, const Aff *const *index) {
    for (unsigned i = 0; i < d->f->param_count; i++) {
        const IrParam *p = &d->f->params[i];
        if (d->f->body->args[i] != v) continue;
        if (p->kind == IR_PARAM_TENSOR) return design_load(d, design_source(d, v, index), v->type, index, NULL);
        return (DesignTile){.text = p->name, .dtype = v->type->dtype};
    }
    return design_index_tile(d, design_index(d, v), DTYPE_I64);
}

static DesignTile element(Design *d, IrOp *op) {
    const Aff *index[DESIGN_RANK] = {0};
    const IrAttr *pad = ir_attr(op, "pad");
    IrValue *tensor = op->operands[0];
    for (unsigned i = 0; i < tensor->type->rank; i++) {
        index[i] = design_index(d, op->operands[i + 1]);
        if (!index[i]) return design_gather(d, op);
    }
    if (design_is_stored(tensor) && !design_stage(d, tensor)) return (DesignTile){0};
    if (!pad && !d->bounded) return design_value(d, tensor, index);
    const double zero = 0;
    const char *name = design_source(d, tensor, index);
    if (!name && !design_stage(d, tensor)) return (DesignTile){0};
    if (!name) name = design_staged_name(d, tensor);
    return design_load(d, name, tensor->type, index, pad ? &pad->number : &zero);
}

/* Is the value 0 where what it is made of is? */
static bool keeps_zeros(const IrOp *op) {
    switch (op->opcode) {
    case IR_CAST:
    case IR_GRAPH_BROADCAST:
    case IR_GRAPH_TRANSPOSE:
    case IR_GRAPH_RESHAPE:
    case IR_GRAPH_FLIP:
    case IR_GRAPH_ELEMENT:
        return true;
    default:
        return false;
    }
}

static DesignTile compute(Design *d, IrValue *v, const Aff *const *index) {
    IrOp *op = v->def;
    const char *home = design_home(d, v);
    if (home) return design_load(d, home, v->type, index, NULL);
    if (!op) return parameter(d, v, index);
    if (op == d->bound) design_fail(d, "a product is read at other elements than those that its sketch stores");
    if (d->error) return (DesignTile){0};
    if (v->type->kind == IR_TYPE_SCALAR && v->type->is_index) {
        const Aff *e = design_index(d, v);
        if (e) return design_index_tile(d, e, DTYPE_I64);
    }
    switch (op->opcode) {
    case IR_CONST:
        return constant(d, op);
    case IR_GRAPH_BROADCAST:
    case IR_GRAPH_TRANSPOSE:
    case IR_GRAPH_RESHAPE:
    case IR_GRAPH_FLIP:
        return moved(d, op, index);
    case IR_GRAPH_IOTA:
        return sequence(d, op, index);
    case IR_GRAPH_RANDOM:
        return random_numbers(d, op, index);
    case IR_GRAPH_ELEMENT:
        return element(d, op);
    case IR_GRAPH_REDUCE:
        return design_reduce(d, op, index);
    case IR_GRAPH_GENERIC:
        return design_generic(d, op, index);
    case IR_GRAPH_CONTRACT:
        return design_contract(d, op, index);
    case IR_GRAPH_SCAN:
    case IR_GRAPH_ARG:
    case IR_GRAPH_SORT:
    case IR_GRAPH_CONCAT:
        return design_along(d, v, index);
    default:
        if (ir_has_trait(op, IR_ELEMENTWISE)) return lanewise(d, op, index);
        design_fail(d, arena_printf(d->arena, "%s is not designed for", ir_op_info(op->opcode)->name));
        return (DesignTile){0};
    }
}

/* What distinguishes one use of a value from another: its index, or what the indices around mean.
 */
static unsigned key_of(Design *d, const IrValue *v, const Aff *const *index, const Aff **key) {
    unsigned n = 0;
    if (v->type->kind == IR_TYPE_TENSOR) {
        for (; n < v->type->rank; n++) key[n] = index[n];
        return n;
    }
    for (size_t i = 0; v->def && i < d->bindings.len; i++)
        if (v->def->block == d->bindings.data[i].arg->block && n < 2 * DESIGN_RANK) key[n++] = d->bindings.data[i].index;
    return n;
}

DesignTile design_value(Design *d, IrValue *v, const Aff *const *index) {
    const Aff *key[2 * DESIGN_RANK] = {0};
    if (d->error) return (DesignTile){0};
    unsigned n = key_of(d, v, index, key);
    for (size_t i = d->known.len; i-- > 0;) {
        const DesignKnown *k = &d->known.data[i];
        if (k->value == v && k->count == n && (!k->direct || d->direct) && memcmp(k->index, key, n * sizeof *key) == 0) return k->tile;
    }
    DesignKnown k = {.value = v, .count = n, .direct = d->direct};
    memcpy(k.index, key, n * sizeof *key);
    Span around = d->at;
    if (v->def) d->at = v->def->span;
    if (v->def && !keeps_zeros(v->def) && !design_home(d, v)) d->direct = false;
    k.tile = compute(d, v, index);
    d->direct = k.direct;
    d->at = around;
    if (d->error) return (DesignTile){0};
    VEC_PUSH(d->arena, &d->known, k);
    return k.tile;
}
