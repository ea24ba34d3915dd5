/* The sketch of a program: loops as the walks ask, inside them the same values over tiles. A value
 * that varies along the folded axis is made anew in each of the loops over it that needs it. */
#include "print_internal.h"

#include <math.h>
#include <string.h>

typedef struct {
    const RandomProgram *p;
    Str *out;
    Arena *arena;
    unsigned depth; /* of indentation */
    unsigned names; /* tiles made so far */
    bool live[MAX_NODES];
    unsigned uses[MAX_NODES];
    unsigned stage[MAX_NODES];  /* how many loops over the folded axis come before */
    const char *tile[MAX_NODES]; /* the tile or text that holds the value here; null: not yet */
    bool inside[MAX_AXES];      /* the axis is being walked */
} Sketch;

static void line(Sketch *s, const char *format, ...) PRINTF_LIKE(2, 3);
static void line(Sketch *s, const char *format, ...) {
    va_list args;
    for (unsigned i = 0; i < s->depth; i++) str_append(s->out, "    ");
    va_start(args, format);
    str_vprintf(s->out, format, args);
    va_end(args);
    str_append_char(s->out, '\n');
}

static const char *value(Sketch *s, unsigned node);

/* ---- Axes ---- */

static const char *extent_text(Sketch *s, unsigned axis) {
    Str text;
    str_init(&text);
    print_extent(s->p, axis, &text);
    const char *copy = arena_strdup(s->arena, text.data);
    str_release(&text);
    return copy;
}

static const char *tile_text(Sketch *s, unsigned axis) {
    const Axis *a = &s->p->axes[axis];
    return a->named_tile ? arena_printf(s->arena, "T%s", axis_symbol(axis))
                         : arena_printf(s->arena, "%lld", (long long)a->tile);
}

static char loop_variable(unsigned axis) {
    return "abcdklq"[axis];
}

/* A tile's extent along the axis; null: a single index, no axis of the tile. */
static const char *tile_extent(Sketch *s, unsigned axis) {
    switch (s->p->axes[axis].walk) {
    case WALK_ONE: return NULL;
    case WALK_TILES: return tile_text(s, axis);
    default: return extent_text(s, axis);
    }
}

static const char *slice_text(Sketch *s, unsigned axis, bool full) {
    const Axis *a = &s->p->axes[axis];
    char v = loop_variable(axis);
    if (a->walk == WALK_ONE) return full ? arena_printf(s->arena, "%c", v) : "0";
    if (!full) return "0:1";
    if (a->walk == WALK_WHOLE)
        return a->clipped ? arena_printf(s->arena, "0:%s", extent_text(s, axis)) : ":";
    const char *t = tile_text(s, axis);
    if (a->by_step) return arena_printf(s->arena, "%c:%c+%s", v, v, t);
    if (a->clipped)
        return arena_printf(s->arena, "%c*%s:min((%c+1)*%s, %s)", v, t, v, t, extent_text(s, axis));
    return arena_printf(s->arena, "%c*%s:(%c+1)*%s", v, t, v, t);
}

static void print_loop_hint(Sketch *s, unsigned axis, bool parallel) {
    static const char *const contexts[] = {"coreidx", "grididx.x", "coreidx", "grididx",
                                           "threadidx", "coreidx", "warp", "simd"};
    const Axis *a = &s->p->axes[axis];
    if (parallel) {
        if (s->p->parallel) line(s, "@llm_hint(\"parallel\", \"%s\")", contexts[a->hint]);
        return;
    }
    if (!s->p->hints) return;
    if (a->hint < 3) line(s, "@llm_hint(\"pipeline\", stages=%u)", 2 + a->hint);
    if (a->hint == 3) line(s, "@llm_hint(\"unroll\", factor=2)");
    if (a->hint == 4) line(s, "@llm_hint(\"pipeline\")");
}

static void open_loop(Sketch *s, unsigned axis, bool parallel) {
    const Axis *a = &s->p->axes[axis];
    char v = loop_variable(axis);
    const char *extent = extent_text(s, axis);
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

static void close_loop(Sketch *s, unsigned axis) {
    s->depth--;
    s->inside[axis] = false;
}

/* ---- Tiles ---- */

static bool is_bare(const Node *n) {
    return n->kind == NODE_NUMBER || n->kind == NODE_SCALAR || n->kind == NODE_EXTENT;
}

static const char *new_name(Sketch *s) {
    return arena_printf(s->arena, "v%u", s->names++);
}

static const char *shape_text(Sketch *s, const Form *form) {
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

static const char *slices_text(Sketch *s, const Form *form) {
    Str text;
    str_init(&text);
    for (unsigned i = 0; i < form->rank; i++)
        str_printf(&text, "%s%s", i ? ", " : "",
                   slice_text(s, form->dims[i].axis, form->dims[i].full));
    const char *copy = arena_strdup(s->arena, text.data);
    str_release(&text);
    return copy;
}

/* The place of the axis among the tile's dims; -1: the tile has none. */
static int tile_place(Sketch *s, const Form *form, unsigned axis) {
    int at = 0;
    for (unsigned i = 0; i < form->rank; i++) {
        bool kept = s->p->axes[form->dims[i].axis].walk != WALK_ONE;
        if (form->dims[i].axis == axis) return kept ? at : -1;
        at += kept;
    }
    return -1;
}

static unsigned tile_rank(Sketch *s, const Form *form) {
    unsigned rank = 0;
    for (unsigned i = 0; i < form->rank; i++)
        rank += s->p->axes[form->dims[i].axis].walk != WALK_ONE;
    return rank;
}

static const char *alloc_hint(Sketch *s, uint32_t style) {
    static const char *const hints[] = {
        ", llm_hint=\"fast\"", ", llm_hint=[\"fastest\", \"accumulator\"]",
        ", llm_hint=[\"fast\", \"input_cache\"]", ", llm_hint=[\"fastest\", \"temp_workspace\"]"};
    if (!s->p->hints || (style >> 8) % 3 == 0) return "";
    return hints[(style >> 10) % COUNT_OF(hints)];
}

static const char *declare(Sketch *s, const Node *n, Dtype dtype, const char *init) {
    const char *name = new_name(s);
    line(s, "%s = alloc([%s]%s%s%s%s%s)", name, shape_text(s, &n->form),
         dtype != DTYPE_NONE ? ", dtype=" : "", dtype != DTYPE_NONE ? dtype_name(dtype) : "",
         init ? ", init=" : "", init ? init : "", alloc_hint(s, n->style));
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
    const char *name = declare(s, n, DTYPE_NONE, NULL);
    const char *slices = slices_text(s, &n->form);
    if (n->form.rank)
        line(s, "load(T%u[%s] -> %s)", node, slices, name);
    else
        line(s, "load(T%u -> %s)", node, name);
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
    if (is_bare(a) || narrow || a->dtype != n->dtype || s->uses[operand] != 1 ||
        a->form.rank != n->form.rank || a->kind == NODE_FOLD)
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

static const char *make_call(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    const char *operands[MAX_OPERANDS];
    for (unsigned i = 0; i < n->operand_count; i++) operands[i] = value(s, n->operands[i]);
    bool commutes = n->op == BUILTIN_ADD || n->op == BUILTIN_MUL;
    unsigned way = (n->style >> 4) % 8;
    bool wide = n->dtype != DTYPE_F64 && n->dtype != DTYPE_BOOL && n->form.rank;
    if (way == 0 && commutes && wide) {
        const char *name = call_in_branches(s, n, operands);
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
    const char *a = value(s, n->operands[0]), *b = value(s, n->operands[1]);
    Dtype dtype = dtype_is_float(n->dtype) && dtype_size(n->dtype) < 4 ? DTYPE_F32 : n->dtype;
    const char *name = declare(s, n, dtype, NULL);
    line(s, "copy(%s, %s)", a, name);
    line(s, "for r%u in range(%u):", node, n->rounds);
    s->depth++;
    call_into(s, n, (const char *[]){name, b}, name);
    s->depth--;
    return name;
}

static const char *make_fold(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    const Form *form = &s->p->nodes[n->operands[0]].form;
    const char *operand = value(s, n->operands[0]), *name = new_name(s);
    int at = tile_place(s, form, n->axis);
    if (n->style & 4) at -= (int)tile_rank(s, form);
    line(s, "%s = %s(%s, axis=%d%s)", name, fold_name(n), operand, at,
         n->keepdim ? ", keepdim=true" : "");
    return name;
}

static const char *make_along(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    const char *operand = value(s, n->operands[0]), *name = new_name(s);
    line(s, "%s = %s(%s, axis=%d)", name, builtin_info((BuiltinId)n->op)->name, operand,
         tile_place(s, &n->form, n->axis));
    return name;
}

/* ---- Products ---- */

static const char *load_operand(Sketch *s, unsigned node, bool second) {
    const Node *n = &s->p->nodes[node];
    unsigned axes[MAX_DOMAIN], rank = n->form.rank;
    product_axes(s->p, n, second, axes);
    Form form = {.rank = rank};
    for (unsigned i = 0; i < rank; i++) form.dims[i] = (Dim){axes[i], true};
    Node matrix = *n;
    matrix.form = form;
    const char *name = declare(s, &matrix, DTYPE_NONE, NULL);
    line(s, "load(P%u%c[%s] -> %s)", node, second ? 'b' : 'a', slices_text(s, &form), name);
    return name;
}

static const char *make_product(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    bool loop = s->p->axes[n->axis].walk == WALK_TILES;
    const char *acc = declare(s, n, DTYPE_F32, "0");
    if (loop) open_loop(s, n->axis, false);
    const char *a = load_operand(s, node, false), *b = load_operand(s, node, true);
    line(s, "gemm(%s, %s, %s%s%s)", a, b, acc, n->trans_a ? ", trans_a=true" : "",
         n->trans_b ? ", trans_b=true" : "");
    if (loop) close_loop(s, n->axis);
    return acc;
}

static const char *make_value(Sketch *s, unsigned node) {
    const Node *n = &s->p->nodes[node];
    switch (n->kind) {
    case NODE_TENSOR: return load_tensor(s, node);
    case NODE_NUMBER: return number_text(s, n);
    case NODE_SCALAR: return arena_printf(s->arena, "s%u", node);
    case NODE_EXTENT: return extent_text(s, n->axis);
    case NODE_CALL: return make_call(s, node);
    case NODE_CAST: {
        const char *operand = value(s, n->operands[0]), *name = new_name(s);
        line(s, "%s = cast(%s, dtype=%s)", name, operand, dtype_name(n->dtype));
        return name;
    }
    case NODE_FOLD: return make_fold(s, node);
    case NODE_ALONG: return make_along(s, node);
    case NODE_PRODUCT: return make_product(s, node);
    default: return make_repeat(s, node);
    }
}

static const char *value(Sketch *s, unsigned node) {
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
    {BUILTIN_REDUCE_SUM, "0", "add"},  {BUILTIN_REDUCE_MEAN, "0", "add"},
    {BUILTIN_REDUCE_MAX, "-inf", "max"}, {BUILTIN_REDUCE_MIN, "inf", "min"},
    {BUILTIN_REDUCE_PROD, "1", "mul"},
};

static const Joining *joining_of(BuiltinId op) {
    size_t i = 0;
    while (joinings[i].fold != op) i++;
    return &joinings[i];
}

/* The first value of an integer's extremum: an integer has no infinity. */
static const char *first_value(Sketch *s, const Node *n) {
    if (dtype_is_float(n->dtype)) return joining_of(n->op)->init;
    if (n->op != BUILTIN_REDUCE_MAX && n->op != BUILTIN_REDUCE_MIN) return joining_of(n->op)->init;
    unsigned bits = dtype_bits(n->dtype);
    bool is_signed = dtype_is_signed(n->dtype), max = n->op == BUILTIN_REDUCE_MAX;
    if (!is_signed) return max ? "0" : arena_printf(s->arena, "%llu", (1ull << bits) - 1);
    long long top = (long long)((1ull << (bits - 1)) - 1);
    return max ? arena_printf(s->arena, "(-%lld - 1)", top) : arena_printf(s->arena, "%lld", top);
}

static void fold_chunk(Sketch *s, unsigned node, const char *accumulator) {
    const Node *n = &s->p->nodes[node];
    const Form *form = &s->p->nodes[n->operands[0]].form;
    const char *part = value(s, n->operands[0]);
    int at = tile_place(s, form, n->axis);
    if (at >= 0) {
        const char *name = new_name(s);
        BuiltinId chunk = n->op == BUILTIN_REDUCE_MEAN ? BUILTIN_REDUCE_SUM : n->op;
        line(s, "%s = %s(%s, axis=%d%s)", name, builtin_info(chunk)->name, part, at,
             n->keepdim ? ", keepdim=true" : "");
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

static void store_result(Sketch *s, unsigned result) {
    unsigned node = s->p->results[result].node;
    const Form *form = &s->p->nodes[node].form;
    const char *tile = value(s, node);
    if (tile[0] != 'v' || strchr(tile, ' ')) {
        const char *name = new_name(s);
        line(s, "%s = %s", name, tile);
        tile = s->tile[node] = name;
    }
    line(s, "store(%s -> Y%u[%s])", tile, result, slices_text(s, form));
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
        needed = true;
    }
    for (unsigned i = 0; i < s->p->result_count; i++)
        needed |= stage == last && stored_in_loop(s, i, folded);
    if (!needed) return;
    memcpy(kept, s->tile, sizeof kept);
    open_loop(s, folded, false);
    for (unsigned i = 0; i < s->p->node_count; i++)
        if (accumulators[i]) fold_chunk(s, i, accumulators[i]);
    for (unsigned i = 0; i < s->p->result_count; i++)
        if (stage == last && stored_in_loop(s, i, folded)) store_result(s, i);
    close_loop(s, folded);
    memcpy(s->tile, kept, sizeof kept);
    for (unsigned i = 0; i < s->p->node_count; i++) {
        if (!accumulators[i]) continue;
        s->tile[i] = accumulators[i];
        if (s->p->nodes[i].op == BUILTIN_REDUCE_MEAN)
            line(s, "div(%s, %s, %s)", s->tile[i], extent_text(s, folded), s->tile[i]);
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
        if (!stored_in_loop(s, i, folded)) store_result(s, i);
}

static void print_constexprs(const RandomProgram *p, Str *out) {
    bool any = false;
    for (unsigned i = 0; i < p->axis_count; i++) {
        const Axis *a = &p->axes[i];
        if (!a->named_tile || a->walk != WALK_TILES || !axis_is_used(p, i)) continue;
        str_printf(out, "%sT%s = %lld", any ? ", " : "    constexpr: ", axis_symbol(i),
                   (long long)a->tile);
        any = true;
    }
    if (any) str_append(out, ";\n");
}

void program_print_sketch(const RandomProgram *p, const char *name, Str *out) {
    Sketch s = {.p = p, .out = out, .arena = arena_create(), .depth = 1};
    program_live(p, s.live);
    for (unsigned i = 0; i < p->node_count; i++)
        for (unsigned k = 0; s.live[i] && k < p->nodes[i].operand_count; k++)
            s.uses[p->nodes[i].operands[k]] += p->nodes[i].kind == NODE_CALL ? 1 : 2;
    for (unsigned i = 0; i < p->result_count; i++) s.uses[p->results[i].node]++;
    str_printf(out, "sketch %s implements %s_operator {\n", name, name);
    print_symbols(p, out);
    print_tensors(p, out);
    print_scalars(p, false, out);
    print_constexprs(p, out);
    str_append(out, "\n");
    unsigned opened = 0, loops[MAX_DOMAIN];
    for (unsigned i = 0; i < p->rank; i++) {
        const Axis *a = &p->axes[p->order[i]];
        if (a->walk == WALK_WHOLE || a->folded) continue;
        loops[opened++] = p->order[i];
        open_loop(&s, p->order[i], true);
    }
    print_body(&s);
    while (opened) close_loop(&s, loops[--opened]);
    str_append(out, "}\n");
    arena_destroy(s.arena);
}
