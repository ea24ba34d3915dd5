/* Layouts as pictures: an SVG grid of a tile's first elements, each with the lane that holds it or the bank it lies in. */
#include "api_internal.h"

#include "html.h"

#include "layout.h"

#include <string.h>

enum {
    ROWS = 16,
    COLUMNS = 32,
    CELL = 22,
    MARGIN = 40,
    INPUTS = 1 << 20, /* looked at before a picture is given up */
    BANKS = 32,
    NAMES = 6
};

typedef struct {
    const Layout *layout;
    unsigned bytes; /* of an element */
    Dtype dtype;
    unsigned stages; /* of a buffer; 0: registers */
    const char *names[NAMES];
    size_t name_count;
    bool more_names;
} Picture;

typedef struct {
    Arena *arena;
    Picture *data;
    size_t len, cap;
} Pictures;

/* ---- Collecting ---- */

static void add_name(Picture *p, const char *name) {
    if (!name) return;
    for (size_t i = 0; i < p->name_count; i++)
        if (strcmp(p->names[i], name) == 0) return;
    if (p->name_count == NAMES)
        p->more_names = true;
    else
        p->names[p->name_count++] = name;
}

static void add_value(Pictures *list, const IrValue *v) {
    const IrType *t = v->type;
    if (!t || !t->layout || !t->layout->rank) return;
    unsigned stages = t->kind == IR_TYPE_BUF ? t->stages : 0;
    for (size_t i = 0; i < list->len; i++) {
        Picture *p = &list->data[i];
        if (p->layout != t->layout || p->stages != stages || (stages && p->dtype != t->dtype)) continue;
        add_name(p, v->name);
        return;
    }
    Picture p = {.layout = t->layout, .dtype = t->dtype, .bytes = (unsigned)dtype_size(t->dtype), .stages = stages};
    add_name(&p, v->name);
    VEC_PUSH(list->arena, list, p);
}

static void add_block(Pictures *list, const IrBlock *block) {
    for (unsigned i = 0; i < block->arg_count; i++) add_value(list, block->args[i]);
    for (const IrOp *op = block->first; op; op = op->next) {
        for (unsigned i = 0; i < op->result_count; i++) add_value(list, &op->results[i]);
        for (unsigned i = 0; i < op->region_count; i++) add_block(list, op->regions[i]);
    }
}

/* ---- The window of a tile that is drawn ---- */

typedef struct {
    bool filled;
    uint32_t in[LAYOUT_DIMS];
} Cell;

typedef struct {
    const Layout *layout;
    bool flat; /* one axis: its elements go on in the next row */
    int64_t rows, columns;
    Cell cells[ROWS][COLUMNS];
} Excerpt;

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The cell of an element; null outside of the window. The axes before the last two stay at 0. */
static Cell *cell_of(Excerpt *w, const int64_t *index) {
    unsigned rank = w->layout->rank;
    for (unsigned i = 0; i + 2 < rank; i++)
        if (index[i]) return NULL;
    int64_t column = index[rank - 1], row = rank > 1 ? index[rank - 2] : 0;
    if (w->flat) row = column / COLUMNS, column %= COLUMNS;
    return row < w->rows && column < w->columns ? &w->cells[row][column] : NULL;
}

/* Goes over all places and notes, for each element in the window, the first that holds it. */
static void fill_window(Excerpt *w, const Layout *l) {
    *w = (Excerpt){.layout = l, .flat = l->rank == 1};
    int64_t last = l->extents[l->rank - 1];
    w->columns = smaller(last, COLUMNS);
    w->rows = w->flat ? smaller((last + COLUMNS - 1) / COLUMNS, ROWS / 2) : smaller(l->extents[l->rank - 2], ROWS);
    int64_t registers = layout_register_count(l);
    unsigned lanes = l->is_memory ? 0 : l->in_bits[LAYOUT_LANE], warps = l->is_memory ? 0 : l->in_bits[LAYOUT_WARP];
    uint64_t inputs = 0;
    for (uint32_t warp = 0; warp < UINT32_C(1) << warps; warp++)
        for (uint32_t lane = 0; lane < UINT32_C(1) << lanes; lane++)
            for (uint32_t r = 0; r < registers && inputs < INPUTS; r++, inputs++) {
                uint32_t in[LAYOUT_DIMS] = {0};
                int64_t index[LAYOUT_RANK_LIMIT];
                in[l->is_memory ? LAYOUT_OFFSET : LAYOUT_REGISTER] = r;
                in[LAYOUT_LANE] = lane;
                in[LAYOUT_WARP] = warp;
                layout_apply(l, in, index);
                Cell *cell = cell_of(w, index);
                if (!cell || cell->filled) continue;
                cell->filled = true;
                memcpy(cell->in, in, sizeof in);
            }
}

/* ---- Drawing ---- */

static void put_cell(const Picture *p, const Excerpt *w, int64_t row, int64_t column, Str *out) {
    const Cell *c = &w->cells[row][column];
    int64_t x = MARGIN + column * CELL, y = CELL + row * CELL;
    if (!c->filled) return;
    bool memory = p->layout->is_memory;
    uint32_t offset = c->in[LAYOUT_OFFSET], bank = (uint32_t)((uint64_t)offset * p->bytes / 4 % BANKS);
    uint32_t shown = memory ? bank : c->in[LAYOUT_LANE], odd = memory ? 0 : c->in[LAYOUT_WARP] % 2;
    str_printf(out,
               "<g class=\"k%u%s\"><rect x=\"%lld\" y=\"%lld\" width=\"%d\" height=\"%d\"/>"
               "<text x=\"%lld\" y=\"%lld\">%u</text><title>",
               shown % 32, odd ? " odd" : "", (long long)x, (long long)y, CELL - 1, CELL - 1, (long long)(x + CELL / 2),
               (long long)(y + CELL / 2 + 4), shown);
    if (w->flat)
        str_printf(out, "element %lld: ", (long long)(row * COLUMNS + column));
    else
        str_printf(out, "row %lld, column %lld: ", (long long)row, (long long)column);
    if (memory)
        str_printf(out, "offset %u, bank %u", offset, bank);
    else
        str_printf(out, "warp %u, lane %u, register %u", c->in[LAYOUT_WARP], c->in[LAYOUT_LANE], c->in[LAYOUT_REGISTER]);
    str_append(out, "</title></g>");
}

static void put_scales(const Excerpt *w, Str *out) {
    for (int64_t c = 0; c < w->columns; c += 4)
        str_printf(out, "<text class=\"scale\" x=\"%lld\" y=\"14\">%lld</text>", (long long)(MARGIN + c * CELL + CELL / 2), (long long)c);
    for (int64_t r = 0; r < w->rows; r++)
        str_printf(out, "<text class=\"scale end\" x=\"%d\" y=\"%lld\">%lld</text>", MARGIN - 6,
                   (long long)(CELL + r * CELL + CELL / 2 + 4), (long long)(w->flat ? r * COLUMNS : r));
}

static void put_extents(const Layout *l, Str *out) {
    for (unsigned i = 0; i < l->rank; i++) str_printf(out, "%s%lld", i ? " &times; " : "", (long long)l->extents[i]);
}

static void put_caption(const Picture *p, const Excerpt *w, Str *out) {
    const Layout *l = p->layout;
    str_append(out, "<figcaption><b>");
    for (size_t i = 0; i < p->name_count; i++) {
        str_append(out, i ? ", " : "");
        str_append_html(out, p->names[i], strlen(p->names[i]));
    }
    str_append(out, p->name_count ? p->more_names ? ", &hellip;</b> " : "</b> " : "values without a name</b> ");
    put_extents(l, out);
    if (l->is_memory)
        str_printf(out, " %s: shared memory, %u stage%s; cells show the bank.", dtype_name(p->dtype), p->stages ? p->stages : 1,
                   p->stages > 1 ? "s" : "");
    else
        str_printf(out, ": %lld registers in each of %u lanes of %u warp%s; cells show the lane.", (long long)layout_register_count(l),
                   1u << l->in_bits[LAYOUT_LANE], 1u << l->in_bits[LAYOUT_WARP], l->in_bits[LAYOUT_WARP] ? "s" : "");
    int64_t all = 1, drawn = w->rows * w->columns;
    for (unsigned i = 0; i < l->rank; i++) all *= l->extents[i];
    if (drawn < all) str_printf(out, " The first %lld of %lld elements.", (long long)drawn, (long long)all);
    str_append(out, "<br><code>");
    Str text;
    str_init(&text);
    layout_print(l, &text);
    str_append_html(out, text.data, text.len);
    str_release(&text);
    str_append(out, "</code></figcaption>");
}

static void put_picture(const Picture *p, Str *out) {
    Excerpt w;
    fill_window(&w, p->layout);
    int64_t width = MARGIN + w.columns * CELL + 2, height = CELL + w.rows * CELL + 2;
    str_printf(out, "<figure><div class=\"scroll\"><svg viewBox=\"0 0 %lld %lld\" width=\"%lld\" height=\"%lld\" role=\"img\">",
               (long long)width, (long long)height, (long long)width, (long long)height);
    put_scales(&w, out);
    for (int64_t r = 0; r < w.rows; r++)
        for (int64_t c = 0; c < w.columns; c++) put_cell(p, &w, r, c, out);
    str_append(out, "</svg></div>");
    put_caption(p, &w, out);
    str_append(out, "</figure>\n");
}

void api_pictures(sketchc_unit *unit, const IrModule *module, Str *out) {
    Pictures list = {.arena = unit->arena};
    for (const IrFunc *f = module->first; f; f = f->next) add_block(&list, f->body);
    for (size_t i = 0; i < list.len; i++) put_picture(&list.data[i], out);
}
