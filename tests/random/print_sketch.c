/* The sketch of a program: loops as the walks ask, inside them the same values over tiles. A value
 * that varies along the folded axis is made anew in each of the loops over it that needs it. */
#include "print_internal.h"

#include <math.h>
#include <string.h>

void line(Sketch *s, const char *format, ...) {
    va_list args;
    for (unsigned i = 0; i < s->depth; i++) str_append(s->out, "    ");
    va_start(args, format);
    str_vprintf(s->out, format, args);
    va_end(args);
    str_append_char(s->out, '\n');
}

/* ---- Axes ---- */

const char *extent_text(Sketch *s, unsigned axis) {
    Str text;
    str_init(&text);
    print_extent(s->p, axis, &text);
    const char *copy = arena_strdup(s->arena, text.data);
    str_release(&text);
    return copy;
}

const char *tile_text(Sketch *s, unsigned axis) {
    const Axis *a = &s->p->axes[axis];
    return a->named_tile ? arena_printf(s->arena, "T%s", axis_symbol(axis)) : arena_printf(s->arena, "%lld", (long long)a->tile);
}

char loop_variable(unsigned axis) {
    return "abcdklqhouwz"[axis];
}

/* A tile's extent along the axis; null: a single index, no axis of the tile. */
static const char *tile_extent(Sketch *s, unsigned axis) {
    switch (s->p->axes[axis].walk) {
    case WALK_ONE:
        return NULL;
    case WALK_TILES:
        return tile_text(s, axis);
    default:
        return extent_text(s, axis);
    }
}

const char *slice_text(Sketch *s, unsigned axis, bool full) {
    const Axis *a = &s->p->axes[axis];
    char v = loop_variable(axis);
    if (a->walk == WALK_ONE) return full ? arena_printf(s->arena, "%c", v) : "0";
    if (!full) return "0:1";
    if (a->walk == WALK_WHOLE) return a->clipped ? arena_printf(s->arena, "0:%s", extent_text(s, axis)) : ":";
    const char *t = tile_text(s, axis);
    if (a->by_step) return arena_printf(s->arena, "%c:%c+%s", v, v, t);
    if (a->clipped) return arena_printf(s->arena, "%c*%s:min((%c+1)*%s, %s)", v, t, v, t, extent_text(s, axis));
    return arena_printf(s->arena, "%c*%s:(%c+1)*%s", v, t, v, t);
}

static void print_loop_hint(Sketch *s, unsigned axis, bool parallel) {
    static const char *const contexts[] = {"coreidx", "grididx.x", "coreidx", "grididx", "threadidx", "coreidx", "warp", "simd"};
    const Axis *a = &s->p->axes[axis];
    if (parallel) {
        if (s->p->parallel && a->hint % 2) line(s, "@llm_hint(\"vectorize\")");
        if (s->p->parallel) line(s, "@llm_hint(\"parallel\", \"%s\")", contexts[a->hint]);
        return;
    }
    if (!s->p->hints) return;
    if (a->hint < 3) line(s, "@llm_hint(\"pipeline\", stages=%u)", 2 + a->hint);
    if (a->hint == 3) line(s, "@llm_hint(\"unroll\", factor=2)");
    if (a->hint == 4) line(s, "@llm_hint(\"pipeline\")");
}

void open_loop(Sketch *s, unsigned axis, bool parallel) {
    const Axis *a = &s->p->axes[axis];
    char v = loop_variable(axis);
    const char *extent = extent_text(s, axis);
    s->loops[s->loop_count].begin = s->out->len;
    s->loops[s->loop_count++].depth = s->depth;
    print_loop_hint(s, axis, parallel);
    if (a->walk == WALK_ONE)
        line(s, "for %c in range(%s):", v, extent);
    else if (a->by_step)
        line(s, "for %c in range(0, %s, %s):", v, extent, tile_text(s, axis));
    else
        line(s, "for %c in range(0, ceil(%s, %s)):", v, extent, tile_text(s, axis));
    s->depth++;
    s->inside[axis] = true;
}

void close_loop(Sketch *s, unsigned axis) {
    s->depth--;
    s->loop_count--;
    s->inside[axis] = false;
}

/* ---- Tiles ---- */

const char *new_name(Sketch *s) {
    return arena_printf(s->arena, "v%u", s->names++);
}

const char *shape_text(Sketch *s, const Form *form) {
    Str text;
    bool any = false;
    str_init(&text);
    for (unsigned i = 0; i < form->rank; i++) {
        const char *extent = tile_extent(s, form->dims[i].axis);
        if (!extent) continue;
        str_printf(&text, "%s%s", any ? ", " : "", form->dims[i].full ? extent : "1");
        any = true;
    }
    const char *copy = arena_strdup(s->arena, text.data);
    str_release(&text);
    return copy;
}

const char *slices_text(Sketch *s, const Form *form) {
    Str text;
    str_init(&text);
    for (unsigned i = 0; i < form->rank; i++)
        str_printf(&text, "%s%s", i ? ", " : "", slice_text(s, form->dims[i].axis, form->dims[i].full));
    const char *copy = arena_strdup(s->arena, text.data);
    str_release(&text);
    return copy;
}

/* -1: the tile has none. */
int tile_place(Sketch *s, const Form *form, unsigned axis) {
    int at = 0;
    for (unsigned i = 0; i < form->rank; i++) {
        bool kept = s->p->axes[form->dims[i].axis].walk != WALK_ONE;
        if (form->dims[i].axis == axis) return kept ? at : -1;
        at += kept;
    }
    return -1;
}

unsigned tile_rank(Sketch *s, const Form *form) {
    unsigned rank = 0;
    for (unsigned i = 0; i < form->rank; i++) rank += s->p->axes[form->dims[i].axis].walk != WALK_ONE;
    return rank;
}

static const char *alloc_hint(Sketch *s, uint32_t style) {
    static const char *const hints[] = {", llm_hint=\"fast\"", ", llm_hint=[\"fastest\", \"accumulator\"]",
                                        ", llm_hint=[\"fast\", \"input_cache\"]", ", llm_hint=[\"fastest\", \"temp_workspace\"]"};
    if (!s->p->hints || (style >> 8) % 3 == 0) return "";
    return hints[(style >> 10) % COUNT_OF(hints)];
}

/* Writes a line above an open loop. */
static void line_above(Sketch *s, unsigned loop, const char *text) {
    size_t at = s->loops[loop].begin, before = s->out->len;
    const char *behind = arena_strdup(s->arena, s->out->data + at);
    unsigned depth = s->depth;
    s->out->len = at;
    s->depth = s->loops[loop].depth;
    line(s, "%s", text);
    str_append(s->out, behind);
    s->depth = depth;
    for (unsigned i = loop; i < s->loop_count; i++) s->loops[i].begin += s->out->len - before;
}

/* Each iteration gives the tile its value, so that it may be made above any of the loops around. */
const char *declare(Sketch *s, const Node *n, Dtype dtype, const char *init) {
    const char *name = new_name(s);
    bool above = s->loop_count && (n->style >> 14) % 3 == 1;
    const char *with_init = init && !above ? arena_printf(s->arena, ", init=%s", init) : "";
    const char *text =
        arena_printf(s->arena, "%s = alloc([%s]%s%s%s%s)", name, shape_text(s, &n->form), dtype != DTYPE_NONE ? ", dtype=" : "",
                     dtype != DTYPE_NONE ? dtype_name(dtype) : "", with_init, alloc_hint(s, n->style));
    if (!above) {
        line(s, "%s", text);
        return name;
    }
    line_above(s, (n->style >> 16) % s->loop_count, text);
    if (init) line(s, "copy(%s, %s)", init, name);
    return name;
}

/* ---- Values ---- */

static bool varies(const Form *form, unsigned axis) {
    for (unsigned i = 0; i < form->rank; i++)
        if (form->dims[i].axis == axis && form->dims[i].full) return true;
    return false;
}

static const char *load_tensor(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    bool kept = node == s->workspace;
    const char *name = declare(s, n, DTYPE_NONE, NULL);
    const char *slices = slices_text(s, &n->form);
    Str source;
    str_init(&source);
    str_printf(&source, "%c%u", !kept ? 'T' : has_workspace_view(s->p, false) ? 'K' : 'w', node);
    if (n->form.rank) str_printf(&source, "[%s]", slices);
    str_printf(&source, " -> %s", name);
    if (n->padded && !kept) str_printf(&source, ", pad=%d", (int)n->number);
    line(s, "load(%s)", source.data);
    str_release(&source);
    return name;
}

static const char *number_text(Sketch *s, const Node *n) {
    Str text;
    str_init(&text);
    print_number(n->number, dtype_is_float(n->dtype), &text);
    const char *copy = arena_strdup(s->arena, text.data);
    str_release(&text);
    return copy;
}

static const char *call_text(Sketch *s, const Node *n, const char *const *operands) {
    Str text;
    str_init(&text);
    print_call(n, operands, &text);
    const char *copy = arena_strdup(s->arena, text.data);
    str_release(&text);
    return copy;
}

/* An operand's tile may take the result when nothing else needs it: it is f32 or an integer then. */
static bool may_overwrite(const Sketch *s, const Node *n, unsigned operand) {
    const Node *a = &s->p->nodes[operand];
    bool narrow = dtype_is_float(a->dtype) && dtype_size(a->dtype) < 4;
    if (node_is_bare(a) || narrow || a->dtype != n->dtype || s->uses[operand] != 1 || a->form.rank != n->form.rank || a->kind == NODE_FOLD)
        return false;
    for (unsigned i = 0; i < a->form.rank; i++)
        if (a->form.dims[i].full != n->form.dims[i].full) return false;
    return s->tile[operand] && s->tile[operand][0] == 'v';
}

static void call_into(Sketch *s, const Node *n, const char *const *operands, const char *name) {
    Str args;
    str_init(&args);
    for (unsigned i = 0; i < n->operand_count; i++) str_printf(&args, "%s, ", operands[i]);
    line(s, "%s(%s%s)", builtin_info((BuiltinId)n->op)->name, args.data, name);
    str_release(&args);
}

/* The same value in both branches: what steers must not matter. */
static const char *call_in_branches(Sketch *s, const Node *n, const char *const *operands) {
    unsigned axis = 0;
    while (axis < s->p->rank && !s->inside[axis]) axis++;
    if (axis == s->p->rank) return NULL;
    const char *name = declare(s, n, dtype_is_float(n->dtype) ? DTYPE_F32 : n->dtype, NULL);
    const char *swapped[] = {operands[1], operands[0]};
    line(s, "if %c < %u:", loop_variable(axis), 1 + (n->style >> 20) % 5);
    s->depth++;
    call_into(s, n, operands, name);
    s->depth--;
    line(s, "else:");
    s->depth++;
    call_into(s, n, swapped, name);
    s->depth--;
    return name;
}

/* `where` of a truth value of rank 0: it steers. */
static const char *choose_by_branch(Sketch *s, const Node *n, const char *const *operands) {
    if (n->op != BUILTIN_WHERE || tile_rank(s, &s->p->nodes[n->operands[0]].form)) return NULL;
    if (node_is_bare(&s->p->nodes[n->operands[0]])) return NULL;
    for (unsigned i = 1; i < 3; i++) { /* a copy broadcasts nothing */
        const Node *operand = &s->p->nodes[n->operands[i]];
        if (!node_is_bare(operand) && !form_same(&operand->form, &n->form)) return NULL;
    }
    const char *condition = new_name(s);
    line(s, "%s = %s", condition, operands[0]);
    const char *name = declare(s, n, dtype_is_float(n->dtype) ? DTYPE_F32 : n->dtype, NULL);
    for (unsigned i = 1; i < 3; i++) {
        line(s, i == 1 ? "if %s:" : "else:", condition);
        s->depth++;
        line(s, "copy(%s, %s)", operands[i], name);
        s->depth--;
    }
    return name;
}

/* The two halves of a whole axis by slices of tiles. */
static const char *call_by_halves(Sketch *s, const Node *n, const char *operand) {
    const Form *form = &n->form;
    if (n->operand_count != 1 || node_is_bare(&s->p->nodes[n->operands[0]]) || !form->rank) return NULL;
    Dim last = form->dims[form->rank - 1];
    const Axis *axis = &s->p->axes[last.axis];
    int64_t half = axis->extent / 2;
    if (!last.full || !axis->constant || axis->walk != WALK_WHOLE || !half) return NULL;
    unsigned rank = tile_rank(s, form);
    Dtype dtype = dtype_is_float(n->dtype) ? DTYPE_F32 : n->dtype;
    const char *source = new_name(s), *name = declare(s, n, dtype, NULL);
    line(s, "%s = copy(%s)", source, operand);
    line(s, "copy(%s, %s)", source, name);
    for (int64_t begin = 0; begin < axis->extent; begin += half) {
        int64_t end = begin + half > axis->extent ? axis->extent : begin + half;
        Str part;
        str_init(&part);
        for (unsigned i = 0; i + 1 < rank; i++) str_append(&part, ":, ");
        str_printf(&part, "%lld:%lld", (long long)begin, (long long)end);
        const char *piece = new_name(s), *lead = shape_text(s, &(Form){form->rank - 1, {form->dims[0], form->dims[1], form->dims[2]}});
        line(s, "%s = alloc([%s%s%lld], dtype=%s)", piece, lead, *lead ? ", " : "", (long long)(end - begin), dtype_name(dtype));
        line(s, "load(%s[%s] -> %s)", source, part.data, piece);
        line(s, "%s(%s, %s)", builtin_info((BuiltinId)n->op)->name, piece, piece);
        line(s, "store(%s -> %s[%s])", piece, name, part.data);
        str_release(&part);
    }
    return name;
}

static const char *make_call(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    const char *operands[MAX_OPERANDS];
    for (unsigned i = 0; i < n->operand_count; i++) operands[i] = sketch_value(s, n->operands[i]);
    bool commutes = n->op == BUILTIN_ADD || n->op == BUILTIN_MUL;
    unsigned way = (n->style >> 4) % 8;
    bool wide = n->dtype != DTYPE_F64 && n->dtype != DTYPE_BOOL && n->form.rank;
    if (way == 0 && commutes && wide) {
        const char *name = call_in_branches(s, n, operands);
        if (name) return name;
    }
    if (way < 4 && wide) {
        const char *name = choose_by_branch(s, n, operands);
        if (name) return name;
    }
    bool same = n->dtype == s->p->nodes[n->operands[0]].dtype && wide;
    if (way == 5 && same && s->tile[n->operands[0]]) {
        const char *name = call_by_halves(s, n, operands[0]);
        if (name) return name;
    }
    unsigned first = n->operands[0];
    if (way < 3 && may_overwrite(s, n, first)) {
        call_into(s, n, operands, operands[0]);
        s->tile[first] = NULL;
        return operands[0];
    }
    if (way == 3 && wide) {
        Dtype dtype = dtype_is_float(n->dtype) ? DTYPE_F32 : n->dtype;
        const char *name = declare(s, n, dtype, NULL);
        call_into(s, n, operands, name);
        return name;
    }
    const char *text = call_text(s, n, operands);
    if (way == 4 && s->uses[node] == 1 && strlen(text) < 100) return text;
    const char *name = new_name(s);
    line(s, "%s = %s", name, text);
    return name;
}

static const char *make_repeat(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    const char *a = sketch_value(s, n->operands[0]), *b = sketch_value(s, n->operands[1]);
    Dtype dtype = dtype_is_float(n->dtype) && dtype_size(n->dtype) < 4 ? DTYPE_F32 : n->dtype;
    const char *name = declare(s, n, dtype, NULL);
    line(s, "copy(%s, %s)", a, name);
    line(s, "for r%u in range(%u):", node, n->rounds);
    s->depth++;
    call_into(s, n, (const char *[]){n->swapped ? arena_printf(s->arena, "transpose(%s)", name) : name, b}, name);
    s->depth--;
    return name;
}

static const char *make_fold(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    const Form *form = &s->p->nodes[n->operands[0]].form;
    const char *operand = sketch_value(s, n->operands[0]), *name = new_name(s);
    int at = tile_place(s, form, n->axis);
    if (n->style & 4) at -= (int)tile_rank(s, form);
    line(s, "%s = %s(%s, axis=%d%s)", name, fold_name(n), operand, at, n->keepdim ? ", keepdim=true" : "");
    return name;
}

static const char *make_along(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    const char *operands[2] = {0};
    for (unsigned i = 0; i < n->operand_count; i++) operands[i] = sketch_value(s, n->operands[i]);
    const char *name = new_name(s);
    line(s, "%s = %s(%s, axis=%d%s)", name, builtin_info((BuiltinId)n->op)->name, along_operands(s->arena, n, operands),
         tile_place(s, &n->form, n->axis), along_attributes(n));
    return name;
}

/* ---- Products ---- */

static const char *load_operand(Sketch *s, unsigned node, bool second) {
    Node matrix = s->p->nodes[node];
    matrix.form = product_form(&s->p->nodes[node], second);
    const char *name = declare(s, &matrix, DTYPE_NONE, NULL);
    line(s, "load(P%u%c[%s] -> %s%s)", node, second ? 'b' : 'a', slices_text(s, &matrix.form), name, matrix.padded ? ", pad=0" : "");
    return name;
}

static const char *make_product(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    bool loop = s->p->axes[n->axis].walk == WALK_TILES;
    const char *acc = declare(s, n, n->dtype == DTYPE_I32 ? DTYPE_I32 : DTYPE_F32, "0");
    if (loop) open_loop(s, n->axis, false);
    const char *a = load_operand(s, node, false), *b = load_operand(s, node, true);
    line(s, "gemm(%s, %s, %s%s%s)", a, b, acc, n->trans_a ? ", trans_a=true" : "", n->trans_b ? ", trans_b=true" : "");
    if (loop) close_loop(s, n->axis);
    return acc;
}

static const char *make_value(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    switch (n->kind) {
    case NODE_TENSOR:
        return load_tensor(s, node);
    case NODE_NUMBER:
        return number_text(s, n);
    case NODE_SCALAR:
        return arena_printf(s->arena, "s%u", node);
    case NODE_EXTENT:
        return extent_text(s, n->axis);
    case NODE_CALL:
        return make_call(s, node);
    case NODE_CAST: {
        const char *operand = sketch_value(s, n->operands[0]), *name = new_name(s);
        line(s, "%s = cast(%s, dtype=%s%s)", name, operand, dtype_name(n->dtype), n->saturate ? ", sat=true" : "");
        return name;
    }
    case NODE_FOLD:
        return make_fold(s, node);
    case NODE_ALONG:
        return make_along(s, node);
    case NODE_PRODUCT:
        return make_product(s, node);
    case NODE_REPEAT:
        return make_repeat(s, node);
    default:
        return sketch_more(s, node);
    }
}

const char *sketch_value(Sketch *s, unsigned node) {
    if (!s->tile[node]) s->tile[node] = make_value(s, node);
    return s->tile[node];
}

/* ---- The folded axis ---- */

static bool folds_along(const Sketch *s, unsigned node, unsigned axis) {
    const Node *n = &s->p->nodes[node];
    return n->kind == NODE_FOLD && n->axis == axis;
}

static void number_stages(Sketch *s, unsigned folded) {
    for (unsigned i = 0; i < s->p->node_count; i++) {
        const Node *n = &s->p->nodes[i];
        for (unsigned k = 0; k < n->operand_count; k++)
            if (s->stage[n->operands[k]] > s->stage[i]) s->stage[i] = s->stage[n->operands[k]];
        s->stage[i] += folded < MAX_AXES && folds_along(s, i, folded);
    }
}

/* How the partial results of chunks join. */
typedef struct {
    BuiltinId fold;
    const char *init, *join;
} Joining;
static const Joining joinings[] = {
    {BUILTIN_REDUCE_SUM, "0", "add"},         {BUILTIN_REDUCE_MEAN, "0", "add"}, {BUILTIN_REDUCE_MAX, "-inf", "max"},
    {BUILTIN_REDUCE_MIN, "inf", "min"},       {BUILTIN_REDUCE_PROD, "1", "mul"}, {BUILTIN_REDUCE_ANY, "0", "logical_or"},
    {BUILTIN_REDUCE_ALL, "1", "logical_and"},
};

static const Joining *joining_of(BuiltinId op) {
    size_t i = 0;
    while (joinings[i].fold != op) i++;
    return &joinings[i];
}

/* The largest u64, which no literal reaches, is the complement of 0. */
static bool begins_inverted(const Node *n) {
    return n->op == BUILTIN_REDUCE_MIN && n->dtype == DTYPE_U64;
}

/* The first value of an integer's extremum: an integer has no infinity. */
static const char *first_value(Sketch *s, const Node *n) {
    if (dtype_is_float(n->dtype)) return joining_of(n->op)->init;
    if (n->op != BUILTIN_REDUCE_MAX && n->op != BUILTIN_REDUCE_MIN) return joining_of(n->op)->init;
    unsigned bits = dtype_bits(n->dtype);
    bool is_signed = dtype_is_signed(n->dtype), max = n->op == BUILTIN_REDUCE_MAX;
    if (begins_inverted(n)) return "0";
    if (!is_signed) return max ? "0" : arena_printf(s->arena, "%llu", (1ull << bits) - 1);
    long long top = (long long)((1ull << (bits - 1)) - 1);
    return max ? arena_printf(s->arena, "(-%lld - 1)", top) : arena_printf(s->arena, "%lld", top);
}

/* A mean's divisor may be counted, chunk by chunk, or be the extent. */
static bool is_counted(const Sketch *s, const Node *n) {
    return n->op == BUILTIN_REDUCE_MEAN && n->style & 32 && s->p->axes[n->axis].walk != WALK_ONE;
}

static void fold_chunk(Sketch *s, unsigned node, const char *accumulator) {
    const Node *n = &s->p->nodes[node];
    const Form *form = &s->p->nodes[n->operands[0]].form;
    const char *part = sketch_value(s, n->operands[0]);
    int at = tile_place(s, form, n->axis);
    if (at >= 0) {
        const char *name = new_name(s);
        if (is_counted(s, n)) line(s, "c%u = c%u + count(%s, axis=%d)", node, node, part, at);
        BuiltinId chunk = n->op == BUILTIN_REDUCE_MEAN ? BUILTIN_REDUCE_SUM : n->op;
        /* A sum has its operand's type, and would wrap where a mean does not. */
        if (chunk != n->op && !dtype_is_float(s->p->nodes[n->operands[0]].dtype))
            part = arena_printf(s->arena, "cast(%s, %s)", part, n->dtype == DTYPE_F64 ? "f64" : "f32");
        line(s, "%s = %s(%s, axis=%d%s)", name, builtin_info(chunk)->name, part, at, n->keepdim ? ", keepdim=true" : "");
        part = name;
    }
    const char *join = joining_of(n->op)->join;
    if (n->style & 16)
        line(s, "%s(%s, %s, %s)", join, accumulator, part, accumulator);
    else
        line(s, "%s = %s(%s, %s)", accumulator, join, accumulator, part);
}

static bool stored_in_loop(const Sketch *s, unsigned result, unsigned folded) {
    return folded < MAX_AXES && varies(&s->p->nodes[s->p->results[result].node].form, folded);
}

/* One loop over the folded axis: the reductions of this stage, and results that are ready. */
static void print_stage(Sketch *s, unsigned folded, unsigned stage, unsigned last) {
    const char *accumulators[MAX_NODES] = {0}, *kept[MAX_NODES];
    bool needed = false;
    for (unsigned i = 0; i < s->p->node_count; i++) {
        if (!s->live[i] || !folds_along(s, i, folded) || s->stage[i] != stage + 1) continue;
        const Node *n = &s->p->nodes[i];
        Dtype dtype = dtype_is_float(n->dtype) && n->dtype != DTYPE_F64 ? DTYPE_F32 : n->dtype;
        accumulators[i] = declare(s, n, dtype, first_value(s, n));
        if (begins_inverted(n)) line(s, "%s = bit_not(%s)", accumulators[i], accumulators[i]);
        if (is_counted(s, n)) line(s, "c%u = alloc([], dtype=f32, init=0)", i);
        needed = true;
    }
    for (unsigned i = 0; i < s->p->result_count; i++) needed |= stage == last && stored_in_loop(s, i, folded);
    if (!needed) return;
    memcpy(kept, s->tile, sizeof kept);
    open_loop(s, folded, false);
    for (unsigned i = 0; i < s->p->node_count; i++)
        if (accumulators[i]) fold_chunk(s, i, accumulators[i]);
    for (unsigned i = 0; i < s->p->result_count; i++)
        if (stage == last && stored_in_loop(s, i, folded)) sketch_store(s, i);
    close_loop(s, folded);
    memcpy(s->tile, kept, sizeof kept);
    for (unsigned i = 0; i < s->p->node_count; i++) {
        if (!accumulators[i]) continue;
        s->tile[i] = accumulators[i];
        if (s->p->nodes[i].op == BUILTIN_REDUCE_MEAN)
            line(s, "div(%s, %s, %s)", s->tile[i],
                 is_counted(s, &s->p->nodes[i]) ? arena_printf(s->arena, "c%u", i) : extent_text(s, folded), s->tile[i]);
    }
}

static void print_body(Sketch *s) {
    unsigned folded = program_folded(s->p), last = 0;
    number_stages(s, folded);
    for (unsigned i = 0; i < s->p->node_count; i++)
        if (s->live[i] && s->stage[i] > last) last = s->stage[i];
    if (folded < MAX_AXES)
        for (unsigned stage = 0; stage <= last; stage++) print_stage(s, folded, stage, last);
    for (unsigned i = 0; i < s->p->result_count; i++)
        if (!stored_in_loop(s, i, folded)) sketch_store(s, i);
}

static void print_constexprs(const RandomProgram *p, Str *out) {
    bool any = false;
    for (unsigned i = 0; i < p->axis_count; i++) {
        const Axis *a = &p->axes[i];
        if (!a->named_tile || a->walk != WALK_TILES || !axis_is_used(p, i)) continue;
        str_printf(out, "%sT%s = %lld", any ? ", " : "    constexpr: ", axis_symbol(i), (long long)a->tile);
        any = true;
    }
    if (any) str_append(out, ";\n");
}

static void count_uses(Sketch *s) {
    program_live(s->p, s->live);
    for (unsigned i = 0; i < s->p->node_count; i++)
        for (unsigned k = 0; s->live[i] && k < s->p->nodes[i].operand_count; k++)
            s->uses[s->p->nodes[i].operands[k]] += s->p->nodes[i].kind == NODE_CALL ? 1 : 2;
    for (unsigned i = 0; i < s->p->result_count; i++) s->uses[s->p->results[i].node]++;
}

/* The loops around everything, and in them the values of the results. */
static void print_nest(const Sketch *sketch, const RandomProgram *p, unsigned *names) {
    Sketch s = *sketch;
    unsigned opened = 0, loops[MAX_DOMAIN];
    s.p = p;
    s.names = *names;
    count_uses(&s);
    for (unsigned i = 0; i < p->rank; i++) {
        const Axis *a = &p->axes[p->order[i]];
        if (a->walk == WALK_WHOLE || a->folded) continue;
        loops[opened++] = p->order[i];
        open_loop(&s, p->order[i], true);
    }
    print_body(&s);
    while (opened) close_loop(&s, loops[--opened]);
    *names = s.names;
}

/* The node `cut` goes to a workspace in a nest of its own; what is behind it loads it in tiles of other sizes. */
static void print_nests(Sketch *s, const RandomProgram *p) {
    unsigned names = 0;
    if (p->cut == MAX_NODES) {
        print_nest(s, p, &names);
        return;
    }
    RandomProgram first = *p, second = *p;
    const Node *n = &p->nodes[p->cut];
    bool narrow = dtype_is_float(n->dtype) && dtype_size(n->dtype) < 4;
    first.result_count = 1;
    first.results[0] = (Result){.node = p->cut, .dtype = n->dtype};
    second.nodes[p->cut].kind = NODE_TENSOR;
    second.nodes[p->cut].operand_count = 0;
    for (unsigned i = 0; i < p->axis_count; i++) {
        if (p->axes[i].named_tile) continue;
        second.axes[i].tile = p->second_tile[i];
    }
    Str dims;
    str_init(&dims);
    print_dims(p, &n->form, &dims);
    line(s, "w%u = alloc([%s], dtype=%s)", p->cut, dims.data, dtype_name(narrow ? DTYPE_F32 : n->dtype));
    str_release(&dims);
    s->workspace = p->cut;
    s->to_workspace = true;
    print_nest(s, &first, &names);
    s->to_workspace = false;
    print_nest(s, &second, &names);
}

void program_print_sketch(const RandomProgram *p, const char *name, Str *out) {
    Sketch s = {.p = p, .out = out, .arena = arena_create(), .depth = 1, .workspace = MAX_NODES};
    bool live[MAX_NODES];
    program_live(p, live);
    str_printf(out, "sketch %s implements %s_operator {\n", name, name);
    print_symbols(p, out);
    print_tensors(p, out);
    print_scalars(p, false, out);
    for (unsigned i = 0; i < p->node_count; i++)
        if (live[i] && p->nodes[i].kind == NODE_VIEW) print_view(p, i, true, out);
    print_workspace_view(p, out);
    print_constexprs(p, out);
    str_append(out, "\n");
    for (unsigned i = 0; i < p->result_count; i++)
        if (p->results[i].zeroed) sketch_zero(&s, i);
    print_nests(&s, p);
    str_append(out, "}\n");
    arena_destroy(s.arena);
}
