/* design: which products have a sketch of the library, and what stands behind them.
 *
 * docs/decisions/library-sketches.md tells the whole; design_bind.c prints. */
#include "design_internal.h"
#include "pointer_table.h"
#include "query.h"

#include <string.h>

/* ---- Axes of a product, by the tensors that have them ---- */

/* Bits of a set: in which of a product's tensors an axis is. */
enum { LEFT = 1, RIGHT = 2, RESULT = 4 };

static bool stands_in(const IrAttr *list, unsigned axis, unsigned *at) {
    for (size_t i = 0; list && i < list->count; i++)
        if (list->ints[i] == (int64_t)axis) {
            *at = (unsigned)i;
            return true;
        }
    return false;
}

/* Adds the axes of the product that the tensors `in` have and the others have not. */
static void add_axes(const IrOp *op, unsigned in, LibraryAxis *a) {
    unsigned side = in & LEFT ? 0 : 1, other = 0, batch = 0, next;
    const IrAttr *batches[] = {ir_attr(op, "batch_a"), ir_attr(op, "batch_b")}, *sums[] = {ir_attr(op, "sum_a"), ir_attr(op, "sum_b")};
    batch = batches[0] ? (unsigned)batches[0]->count : 0;
    next = batch;
    if (!(in & LEFT)) next = op->results[0].type->rank - (op->operands[1]->type->rank - batch - (unsigned)sums[1]->count);
    for (unsigned i = 0; i < op->operands[side]->type->rank; i++) {
        bool batched = stands_in(batches[side], i, &other), summed = stands_in(sums[side], i, &other);
        unsigned of = batched ? LEFT | RIGHT | RESULT : summed ? LEFT | RIGHT : (side ? RIGHT : LEFT) | RESULT;
        unsigned result = batched ? other : next;
        next += !batched && !summed;
        if (of != in) continue;
        a->extents[a->count] = op->operands[side]->type->extents[i];
        a->at[side][a->count] = i;
        if (in == (LEFT | RIGHT | RESULT)) a->at[1][a->count] = (unsigned)batches[1]->ints[other];
        if (in == (LEFT | RIGHT)) a->at[1][a->count] = (unsigned)sums[1]->ints[other];
        a->at[2][a->count++] = result;
    }
}

static unsigned tensors_with(const LibrarySketch *s, const char *symbol) {
    unsigned in = 0;
    for (size_t i = 0; i < s->tensors.len; i++)
        for (unsigned k = 0; k < s->tensors.data[i].rank; k++)
            if (strcmp(s->tensors.data[i].axes[k], symbol) == 0) in |= 1u << i;
    return in;
}

static bool has_symbol(const LibraryMatch *m, const char *symbol) {
    for (unsigned i = 0; i < m->count; i++)
        if (strcmp(m->axes[i].symbol, symbol) == 0) return true;
    return false;
}

/* ---- Patterns ---- */

static bool is_half(const char *dtype) {
    return strcmp(dtype, "f16") == 0 || strcmp(dtype, "bf16") == 0;
}

/* A file says nothing of dtypes but in its tensors: what it does for one of the 16-bit floats it does for both. */
static bool has_type(const IrValue *v, const LibraryTensor *t) {
    const char *name = dtype_name(v->type->dtype);
    return v->type->kind == IR_TYPE_TENSOR && (strcmp(name, t->dtype) == 0 || (is_half(name) && is_half(t->dtype)));
}

/* Several axes of a batch, or of rows, are one; of all else there is one each. */
static bool fits(const LibraryAxis *a, unsigned in) {
    return in == (LEFT | RIGHT | RESULT) || a->count == 1 || (in == (LEFT | RESULT) && a->count > 1);
}

static LibraryAxis *axis_in(LibraryMatch *m, unsigned in) {
    for (unsigned i = 0; i < m->count; i++)
        if (tensors_with(m->sketch, m->axes[i].symbol) == in) return &m->axes[i];
    return NULL;
}

/* Is the right factor the same for all of the batch? */
static bool repeats(const IrOp *op, const LibraryAxis *batch) {
    const IrOp *from = op->operands[1]->def;
    const IrAttr *kept = from && from->opcode == IR_GRAPH_BROADCAST ? ir_attr(from, "axes") : NULL;
    unsigned at;
    for (unsigned i = 0; kept && i < batch->count; i++)
        if (stands_in(kept, batch->at[1][i], &at)) return false;
    return kept && batch->count;
}

/* Neighbours in the left factor and in the result, in this order. */
static bool follow(const LibraryAxis *a) {
    for (unsigned i = 1; i < a->count; i++)
        if (a->at[0][i] != a->at[0][0] + i || a->at[2][i] != a->at[2][0] + i) return false;
    return true;
}

/* A batch along which the right factor is repeated is more rows of the left one. */
static void make_rows(LibraryMatch *m, const IrOp *op) {
    LibraryAxis *batch = axis_in(m, LEFT | RIGHT | RESULT), *rows = axis_in(m, LEFT | RESULT);
    if (!batch || !rows || !repeats(op, batch) || batch->count + rows->count > DESIGN_RANK) return;
    LibraryAxis all = *batch;
    all.symbol = rows->symbol;
    for (unsigned i = 0; i < rows->count; i++, all.count++) {
        all.extents[all.count] = rows->extents[i];
        all.at[0][all.count] = rows->at[0][i];
        all.at[2][all.count] = rows->at[2][i];
    }
    if (!follow(&all)) return;
    *rows = all;
    batch->count = 0;
}

static bool matches(Design *d, const IrOp *op, const LibrarySketch *s, LibraryMatch *m) {
    *m = (LibraryMatch){.sketch = s, .product = op};
    d->misfit =
        arena_printf(d->arena, "%s is for factors of %s and a result of %s", s->name, s->tensors.data[0].dtype, s->tensors.data[2].dtype);
    if (op->operands[0]->type->dtype != op->operands[1]->type->dtype) return false;
    if (!has_type(op->operands[0], &s->tensors.data[0]) || !has_type(op->operands[1], &s->tensors.data[1]) ||
        !has_type(&op->results[0], &s->tensors.data[2]))
        return false;
    d->misfit = arena_printf(d->arena, "the axes of the product are not those of %s", s->name);
    for (size_t i = 0; i < s->tensors.len; i++)
        for (unsigned k = 0; k < s->tensors.data[i].rank; k++) {
            const char *symbol = s->tensors.data[i].axes[k];
            unsigned in = tensors_with(s, symbol);
            if (has_symbol(m, symbol) || m->count == LIBRARY_RANK) continue;
            LibraryAxis *a = &m->axes[m->count++];
            a->symbol = symbol;
            add_axes(op, in, a);
            if (!fits(a, in)) return false;
        }
    make_rows(m, op);
    const LibraryAxis *rows = axis_in(m, LEFT | RESULT), *batch = axis_in(m, LEFT | RIGHT | RESULT);
    return (!rows || follow(rows)) && (!rows || !batch || rows->count < 2 || batch->count < 2);
}

static bool is_wanted(const DesignOptions *o, const char *name) {
    bool wanted = !o->use_count;
    for (size_t i = 0; i < o->use_count; i++) wanted |= strcmp(o->uses[i].name, name) == 0;
    return wanted;
}

static void add_sketch(Design *d, const LibraryFile *file) {
    const LibrarySketch *s = is_wanted(d->options, file->name) ? library_sketch(d->arena, file) : NULL;
    if (s && s->tensors.len == 3) d->library[d->library_count++] = s;
}

static void read_library(Design *d) {
    const DesignOptions *o = d->options;
    d->library = ARENA_ARRAY(d->arena, const LibrarySketch *, library_count() + o->library_count);
    for (size_t i = 0; i < o->library_count; i++) add_sketch(d, &o->library[i]);
    for (size_t i = 0; i < library_count(); i++) {
        LibraryFile file = library_file(i);
        add_sketch(d, &file);
    }
}

/* ---- Which of several ---- */

/* Where the operand's axis is in what it is moved from; the rank: nowhere. */
static unsigned moved_axis(const IrOp *move, unsigned axis) {
    const IrAttr *list = ir_attr(move, move->opcode == IR_GRAPH_TRANSPOSE ? "perm" : "axes");
    unsigned at = 0;
    if (move->opcode == IR_GRAPH_TRANSPOSE) return (unsigned)list->ints[axis];
    return stands_in(list, axis, &at) ? at : move->operands[0]->type->rank;
}

/* Has the right factor its last two axes in the file's order in memory? */
static bool lies_alike(const IrOp *product, LibraryMatch *m) {
    const LibraryAxis *sum = axis_in(m, LEFT | RIGHT), *columns = axis_in(m, RIGHT | RESULT);
    const LibraryTensor *t = &m->sketch->tensors.data[1];
    if (!sum || !columns || !sum->count || !columns->count) return true;
    unsigned k = sum->at[1][0], n = columns->at[1][0];
    for (const IrOp *op = product->operands[1]->def; op && (op->opcode == IR_GRAPH_TRANSPOSE || op->opcode == IR_GRAPH_BROADCAST);
         op = op->operands[0]->def) {
        k = moved_axis(op, k);
        n = moved_axis(op, n);
    }
    return (k < n) == (strcmp(t->axes[t->rank - 1], columns->symbol) == 0);
}

typedef enum { OF_PROGRAM, BY_NAME, OWN } Kind;

/* Those that the style `library` leaves to others, and the user's own, are for the styles that ask for them, or for a use. */
static bool suits(Design *d, const LibraryMatch *m, Kind kind) {
    bool fits = kind == OWN ? m->sketch->own && !m->sketch->by_name : !m->sketch->own && m->sketch->by_name == (kind == BY_NAME);
    return (d->options->use_count || fits) && design_meets(d, m);
}

/* The first whose right factor lies as this one does, else the first. */
static bool find_match(Design *d, const IrOp *product, LibraryMatch *found, Kind kind) {
    LibraryMatch m;
    bool any = false;
    for (size_t i = 0; i < d->library_count; i++) {
        if (!matches(d, product, d->library[i], &m) || !suits(d, &m, kind)) continue;
        bool alike = lies_alike(product, &m);
        if (alike || !any) *found = m;
        if (alike) return true;
        any = true;
    }
    return any;
}

bool design_match(Design *d, const IrOp *product, LibraryMatch *m) {
    bool plain = product->opcode == IR_GRAPH_CONTRACT && design_is_matrix_product(product) && !ir_attr(product, "precision");
    if (!plain || ir_func_has(d->f, IR_FN_PRECISION)) return false;
    if (!d->library) read_library(d);
    return (d->style->staging == STAGE_LIMITED && find_match(d, product, m, BY_NAME)) ||
           (d->style->staging == STAGE_OWN && find_match(d, product, m, OWN)) || find_match(d, product, m, OF_PROGRAM);
}

/* ---- Maps behind a product ---- */

typedef struct {
    Design *d;
    PointerTable as_map, moved; /* what was looked at */
    IrOp *product;
} Search;

static bool comes_by_maps(Search *s, const IrValue *v, bool moved);

static bool operands_come(Search *s, const IrOp *op, bool moved) {
    for (unsigned i = 0; i < op->operand_count; i++)
        if (!comes_by_maps(s, op->operands[i], moved)) return false;
    for (unsigned r = 0; r < op->region_count; r++)
        for (const IrOp *inner = op->regions[r]->first; inner; inner = inner->next)
            if (!operands_come(s, inner, true)) return false;
    return true;
}

/* Is the value made without folds, and of one product at its own index? */
static bool comes_by_maps(Search *s, const IrValue *v, bool moved) {
    LibraryMatch m;
    uint32_t known;
    PointerTable *seen = moved ? &s->moved : &s->as_map;
    IrOp *op = v->def;
    if (!op || v->type->kind != IR_TYPE_TENSOR || design_home(s->d, v) || pointer_table_get(seen, v, &known)) return true;
    pointer_table_set(seen, v, 1);
    if (design_match(s->d, op, &m)) {
        if (moved || (s->product && s->product != op)) return false;
        s->product = op;
        return true;
    }
    return !design_folds(op) && op->opcode != IR_GRAPH_CONCAT && operands_come(s, op, moved || !ir_has_trait(op, IR_ELEMENTWISE));
}

IrOp *design_anchor(Design *d, const IrValue *v) {
    Search s = {.d = d, .as_map = pointer_table(d->arena), .moved = pointer_table(d->arena)};
    bool fits = comes_by_maps(&s, v, false) && s.product && ir_same_shape(s.product->results[0].type, v->type);
    return fits ? s.product : NULL;
}

/* ---- What goes to a workspace ---- */

static bool is_map_of(Design *d, const IrOp *op, const IrOp *product) {
    bool map = op == product || (ir_has_trait(op, IR_ELEMENTWISE) && op->results[0].type->kind == IR_TYPE_TENSOR);
    return map && design_anchor(d, &op->results[0]) == product;
}

/* Who reads the value besides its maps: the results, all else. */
static void find_readers(Design *d, const IrOp *product, const IrValue *v, bool *results, bool *others) {
    for (const IrUse *u = v->uses; u; u = u->next) {
        *results |= u->op == d->f->body->last;
        *others |= u->op != d->f->body->last && (u->op->block->parent || !is_map_of(d, u->op, product));
    }
}

/* The last map of the product where one value is all that is read further on, else the product; null: only results are. */
static IrValue *read_further(Design *d, IrOp *product) {
    IrValue *last = NULL;
    unsigned count = 0;
    bool results = false;
    for (IrOp *op = product; op; op = op->next) {
        bool others = false;
        if (!is_map_of(d, op, product)) continue;
        find_readers(d, product, &op->results[0], &results, &others);
        if (!others) continue;
        last = &op->results[0];
        count++;
    }
    return count > 1 || (count && results) ? &product->results[0] : last;
}

void design_stage_library(Design *d) {
    LibraryMatch m;
    bool found = false;
    if (d->inout) design_fail(d, "a tensor that is read is stored to, and sketches of the library store twice");
    for (IrOp *op = d->f->body->first; op && !d->error; op = op->next) {
        if (!design_match(d, op, &m)) continue;
        IrValue *v = read_further(d, op);
        if (v) design_stage(d, v);
        found = true;
    }
    if (!found) design_fail(d, d->misfit && d->options->use_count ? d->misfit : "no product that a sketch of the library makes");
    if (!d->error) design_check_uses(d);
    if (!d->error) design_stage_handed(d);
}
