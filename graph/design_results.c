/* design: which results share a nest. Those of one shape do, so that what they are made of is read once. A result that is several tensors one behind the other, some of them to be made, is stored part by part, each
 * to a view of its place: no part goes through a workspace, and none asks for the others' elements in vain. */
#include "design_internal.h"

/* What is stored: a result, or a part of one. */
typedef struct {
    IrValue *value;
    const char *name;
    uint64_t bit; /* the result's own; of a part one that no result has */
    bool part;    /* of a result */
} Item;

typedef struct {
    Item data[DESIGN_NESTS];
    size_t len;
} Items;

/* Are there parts that have to be made? Tensors that are read as they are are joined by loads; nothing that is updated in place is stored by parts. */
static bool goes_by_parts(const Design *d, const IrValue *v, const Items *items) {
    const IrOp *op = v->def;
    bool made = false;
    if (!op || op->opcode != IR_GRAPH_CONCAT || d->style->naive || d->inout || design_staged_name(d, v)) return false;
    for (unsigned i = 0; i < op->operand_count; i++) made |= op->operands[i]->def != NULL;
    return made && items->len + op->operand_count + d->f->body->last->operand_count < DESIGN_NESTS;
}

/* The part of the tensor that begins there along the axis, with the part's own shape. */
static const char *part_view(Design *d, const char *tensor, const IrType *t, unsigned axis, const Aff *begin) {
    const char *name = arena_printf(d->arena, "V%u", d->view_count++);
    str_printf(d->all_views, "    view %s[", name);
    for (unsigned i = 0; i < t->rank; i++) str_printf(d->all_views, "%sp%u: %s", i ? ", " : "", i, design_aff_text(d, t->extents[i]));
    str_printf(d->all_views, "] = %s[", tensor);
    for (unsigned i = 0; i < t->rank; i++) {
        str_printf(d->all_views, "%sp%u", i ? ", " : "", i);
        if (i == axis) str_printf(d->all_views, " + %s", design_aff_text(d, begin));
    }
    str_append(d->all_views, "]\n");
    return name;
}

static void add_parts(Design *d, Items *items, const IrOp *op, const char *tensor) {
    AffCtx *c = d->module->affs;
    unsigned axis = (unsigned)ir_attr_int(op, "axis", 0);
    const Aff *begin = aff_const(c, 0);
    for (unsigned i = 0; i < op->operand_count; i++) {
        IrValue *v = op->operands[i];
        const char *view = part_view(d, tensor, v->type, axis, begin);
        uint64_t bit = (uint64_t)1 << (DESIGN_NESTS - 1 - items->len); /* results count from the other end */
        items->data[items->len++] = (Item){v, view, bit, true};
        begin = aff_add(c, begin, v->type->extents[axis]);
    }
}

static void list_items(Design *d, Items *items) {
    const IrOp *last = d->f->body->last;
    const IrAttr *names = ir_attr(last, "names");
    for (unsigned i = 0; i < last->operand_count; i++) {
        IrValue *v = last->operands[i];
        if (goes_by_parts(d, v, items))
            add_parts(d, items, v->def, names->strs[i]);
        else
            items->data[items->len++] = (Item){v, names->strs[i], (uint64_t)1 << i, false};
    }
}

static bool anchors_differ(Design *d, const IrValue *a, const IrValue *b) {
    return design_of_library(d->style) && design_anchor(d, a) != design_anchor(d, b);
}

size_t design_group_results(Design *d, uint64_t apart, DesignResults *nests) {
    Items items = {.len = 0};
    bool done[DESIGN_NESTS] = {false};
    size_t count = 0;
    list_items(d, &items);
    for (size_t i = 0; i < items.len; i++) {
        DesignResults *r = &nests[count];
        bool has_part = false;
        *r = (DesignResults){0};
        for (size_t k = i; k < items.len && r->count < DESIGN_AXES; k++) {
            const Item *item = &items.data[k];
            bool alone = k != i && (apart & (item->bit | items.data[i].bit) || anchors_differ(d, items.data[i].value, item->value));
            if (alone || done[k] || !ir_same_shape(items.data[i].value->type, item->value->type)) continue;
            done[k] = true;
            r->unique |= item->part && has_part;
            has_part |= item->part;
            r->bits |= item->bit;
            r->values[r->count] = item->value;
            r->names[r->count++] = item->name;
        }
        count += r->count > 0;
    }
    return count;
}
