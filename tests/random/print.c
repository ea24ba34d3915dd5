/* The operator, the case and the declarations of a program. */
#include "print_internal.h"

#include <math.h>
#include <string.h>

const char *axis_symbol(unsigned axis) {
    static const char *const names[MAX_AXES] = {"A", "B", "C", "D", "K", "L", "Q", "H", "O", "U", "W", "Z"};
    return names[axis];
}

void print_extent(const RandomProgram *p, unsigned axis, Str *out) {
    if (p->axes[axis].constant)
        str_printf(out, "%lld", (long long)p->axes[axis].extent);
    else
        str_append(out, axis_symbol(axis));
}

void print_number(double value, bool real, Str *out) {
    str_append_double(out, value);
    if (real && value == floor(value) && fabs(value) < 1e6) str_append(out, ".0");
}

/* ---- Calls ---- */

static const char *infix(BuiltinId op) {
    static const struct {
        BuiltinId op;
        const char *text;
    } texts[] = {
#define OPER(id, text, builtin) {BUILTIN_##builtin, text},
#include "opers.def"
#undef OPER
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (texts[i].op == op) return texts[i].text;
    return NULL;
}

void print_call(const Node *n, const char *const *operands, Str *out) {
    const char *text = infix(n->op);
    if (text && n->operand_count == 2 && n->style & 1) {
        str_printf(out, "(%s %s %s)", operands[0], text, operands[1]);
        return;
    }
    str_printf(out, "%s(", builtin_info((BuiltinId)n->op)->name);
    for (unsigned i = 0; i < n->operand_count; i++) str_printf(out, "%s%s", i ? ", " : "", operands[i]);
    str_append(out, ")");
}

const char *fold_name(const Node *n) {
    static const struct {
        BuiltinId op;
        const char *name;
    } aliases[] = {{BUILTIN_REDUCE_SUM, "sum"}, {BUILTIN_REDUCE_MEAN, "mean"}, {BUILTIN_REDUCE_PROD, "prod"}};
    for (size_t i = 0; i < COUNT_OF(aliases); i++)
        if (aliases[i].op == n->op && n->style & 2) return aliases[i].name;
    return builtin_info((BuiltinId)n->op)->name;
}

/* ---- Declarations ---- */

void print_dims(const RandomProgram *p, const Form *form, Str *out) {
    for (unsigned i = 0; i < form->rank; i++) {
        str_append(out, i ? ", " : "");
        if (form->dims[i].full)
            print_extent(p, form->dims[i].axis, out);
        else
            str_append(out, "1");
    }
}

void print_tensors(const RandomProgram *p, Str *out) {
    bool live[MAX_NODES];
    program_live(p, live);
    str_append(out, "    tensors:\n");
    for (unsigned i = 0; i < p->node_count; i++)
        if (live[i]) print_own_tensors(p, i, out);
    for (unsigned i = 0; i < p->result_count; i++) print_result_tensors(p, i, out);
}

static bool has_extent(const Form *form, unsigned axis) {
    for (unsigned i = 0; i < form->rank; i++)
        if (form->dims[i].axis == axis && form->dims[i].full) return true;
    return false;
}

bool axis_is_used(const RandomProgram *p, unsigned axis) {
    bool live[MAX_NODES];
    program_live(p, live);
    for (unsigned i = 0; i < p->node_count; i++) {
        const Node *n = &p->nodes[i];
        bool summed = n->kind == NODE_PRODUCT || n->kind == NODE_EXTENT || n->kind == NODE_RAGGED;
        if (live[i] && (has_extent(&n->form, axis) || (summed && n->axis == axis))) return true;
    }
    return false;
}

void print_symbols(const RandomProgram *p, Str *out) {
    bool any = false;
    for (unsigned i = 0; i < p->axis_count; i++) {
        if (p->axes[i].constant || !axis_is_used(p, i)) continue;
        str_printf(out, "%s%s", any ? ", " : "    symbols: ", axis_symbol(i));
        if (p->axes[i].most) str_printf(out, ", %s <= %lld", axis_symbol(i), (long long)p->axes[i].most);
        any = true;
    }
    if (any) str_append(out, ";\n");
}

void print_scalars(const RandomProgram *p, bool with_value, Str *out) {
    bool live[MAX_NODES], any = false;
    program_live(p, live);
    for (unsigned i = 0; i < p->node_count; i++) {
        if (!live[i] || p->nodes[i].kind != NODE_SCALAR) continue;
        str_printf(out, "%ss%u: f32", any ? "; " : "    scalars: ", i);
        if (with_value) {
            str_append(out, " = ");
            print_number(p->nodes[i].number, true, out);
        }
        any = true;
    }
    if (any) str_append(out, ";\n");
}

/* ---- The operator ---- */

typedef struct {
    const RandomProgram *p;
    Str *out;
    Arena *arena;
    unsigned uses[MAX_NODES];
    const char *texts[MAX_NODES];
} Printer;

/* The axis's place among the dims of the operand. */
static unsigned place_of(const Form *form, unsigned axis) {
    unsigned at = 0;
    while (form->dims[at].axis != axis) at++;
    return at;
}

static void print_fold(const RandomProgram *p, const Node *n, const char *operand, Str *out) {
    const Form *form = &p->nodes[n->operands[0]].form;
    int at = (int)place_of(form, n->axis);
    if (n->style & 4) at -= (int)form->rank;
    str_printf(out, "%s(%s, axis=%d%s)", fold_name(n), operand, at, n->keepdim ? ", keepdim=true" : "");
}

static void print_product(unsigned node, const Node *n, Str *out) {
    if (!n->trans_a && !n->trans_b && n->style & 1)
        str_printf(out, "(P%ua @ P%ub)", node, node);
    else
        str_printf(out, "matmul(P%ua, P%ub%s%s)", node, node, n->trans_a ? ", trans_a=true" : "", n->trans_b ? ", trans_b=true" : "");
}

const char *along_attributes(const Node *n) {
    static const char *const texts[] = {"", ", reverse=true", ", exclusive=true", ", reverse=true, exclusive=true"};
    BuiltinClass class = builtin_info((BuiltinId)n->op)->class;
    if (class == CLASS_SORT) return n->reverse ? ", descending=true" : "";
    return class == CLASS_SCAN ? texts[n->reverse + 2 * n->exclusive] : "";
}

const char *along_operands(Arena *arena, const Node *n, const char *const *operands) {
    if (n->op != BUILTIN_LINEAR_SCAN) return operands[0];
    return n->operand_count > 1 ? arena_printf(arena, "tanh(%s), %s", operands[1], operands[0])
                                : arena_printf(arena, "0.5, %s", operands[0]);
}

static void print_value(Printer *w, unsigned node, Str *out) {
    const Node *n = &w->p->nodes[node];
    const char *operands[MAX_OPERANDS];
    for (unsigned i = 0; i < n->operand_count; i++) operands[i] = w->texts[n->operands[i]];
    switch (n->kind) {
    case NODE_TENSOR:
        str_printf(out, "T%u", node);
        break;
    case NODE_NUMBER:
        print_number(n->number, dtype_is_float(n->dtype), out);
        break;
    case NODE_SCALAR:
        str_printf(out, "s%u", node);
        break;
    case NODE_EXTENT:
        print_extent(w->p, n->axis, out);
        break;
    case NODE_CALL:
        print_call(n, operands, out);
        break;
    case NODE_CAST:
        str_printf(out, "cast(%s, dtype=%s%s)", operands[0], dtype_name(n->dtype), n->saturate ? ", sat=true" : "");
        break;
    case NODE_FOLD:
        print_fold(w->p, n, operands[0], out);
        break;
    case NODE_ALONG:
        str_printf(out, "%s(%s, axis=%u%s)", builtin_info((BuiltinId)n->op)->name, along_operands(w->arena, n, operands),
                   place_of(&n->form, n->axis), along_attributes(n));
        break;
    case NODE_COUNT:
        str_printf(out, "count(%s, axis=%u)", operands[0], place_of(&w->p->nodes[n->operands[0]].form, n->axis));
        break;
    case NODE_MATMUL:
        str_printf(out, "(%s @ M%u)", operands[0], node);
        break;
    case NODE_VIEW:
        str_printf(out, "V%u", node);
        break;
    case NODE_RAGGED:
        print_ragged(w->p, node, out);
        break;
    case NODE_TOPK:
        str_printf(w->out, "    q%u, g%u = topk(%s, %u, axis=%u)\n", node, node, operands[0], n->rounds, n->place);
        str_printf(out, "%c%u", n->second ? 'g' : 'q', node);
        break;
    case NODE_PRODUCT:
        print_product(node, n, out);
        break;
    case NODE_REPEAT: {
        const char *text = operands[0];
        for (unsigned i = 0; i < n->rounds; i++) {
            Str one;
            str_init(&one);
            if (n->swapped) text = arena_printf(w->arena, "transpose(%s)", text);
            print_call(n, (const char *[]){text, operands[1]}, &one);
            text = arena_strdup(w->arena, one.data);
            str_release(&one);
        }
        str_append(out, text);
        break;
    }
    default:
        print_movement(w->p, n, operands, out);
    }
}

static bool is_name(const Node *n) {
    return n->kind == NODE_TENSOR || n->kind == NODE_VIEW || n->kind == NODE_TOPK || node_is_bare(n);
}

static unsigned result_of(const RandomProgram *p, unsigned node) {
    unsigned i = 0;
    while (p->results[i].node != node || p->results[i].kind != STORE_WHOLE) i++;
    return i;
}

/* An operand of a call, element by element: its last indices are the call's. */
static void print_element(const Node *n, const char *text, unsigned rank, Str *out) {
    str_append(out, text);
    if (node_is_bare(n)) return;
    str_append_char(out, '[');
    for (unsigned i = 0; i < n->form.rank; i++)
        str_printf(out, n->form.dims[i].full ? "%si%u" : "%s0", i ? ", " : "", i + rank - n->form.rank);
    str_append_char(out, ']');
}

/* Is the text one of a tensor, an intermediate or a view, or a number? */
static bool is_element(const Node *n, const char *text) {
    if (node_is_bare(n)) return n->kind == NODE_NUMBER || n->kind == NODE_SCALAR || n->kind == NODE_EXTENT;
    return n->form.rank && text[1 + strspn(text + 1, "0123456789")] == '\0';
}

/* A call as an equation in index notation, whose left side is a name that nothing declares. */
static bool print_elements(Printer *w, unsigned node) {
    const Node *n = &w->p->nodes[node];
    const char *operands[MAX_OPERANDS];
    if (n->kind != NODE_CALL || !n->form.rank || (n->style >> 24) % 3) return false;
    for (unsigned i = 0; i < n->operand_count; i++)
        if (!is_element(&w->p->nodes[n->operands[i]], w->texts[n->operands[i]])) return false;
    Str text;
    for (unsigned i = 0; i < n->operand_count; i++) {
        str_init(&text);
        print_element(&w->p->nodes[n->operands[i]], w->texts[n->operands[i]], n->form.rank, &text);
        operands[i] = arena_strdup(w->arena, text.data);
        str_release(&text);
    }
    str_printf(w->out, "    t%u[", node);
    for (unsigned i = 0; i < n->form.rank; i++) {
        str_printf(w->out, "%si%u in 0:", i ? ", " : "", i);
        if (n->form.dims[i].full)
            print_extent(w->p, n->form.dims[i].axis, w->out);
        else
            str_append(w->out, "1");
    }
    str_append(w->out, "] = ");
    print_call(n, operands, w->out);
    str_append(w->out, "\n");
    w->texts[node] = arena_printf(w->arena, "t%u", node);
    return true;
}

static void print_equation(Printer *w, unsigned node) {
    const Node *n = &w->p->nodes[node];
    Str text;
    if (node_is_indexed(n)) {
        unsigned result = result_of(w->p, node);
        print_indexed(w->p, node, result, w->out);
        w->texts[node] = arena_printf(w->arena, "Y%u", result);
        return;
    }
    if (print_elements(w, node)) return;
    str_init(&text);
    print_value(w, node, &text);
    w->texts[node] = arena_strdup(w->arena, text.data);
    bool alone = is_name(n) || (w->uses[node] == 1 && n->style & 8 && text.len < 200);
    if (!alone) {
        str_printf(w->out, "    t%u = %s\n", node, text.data);
        w->texts[node] = arena_printf(w->arena, "t%u", node);
    }
    str_release(&text);
}

static void count_uses(Printer *w, const bool *live) {
    for (unsigned i = 0; i < w->p->node_count; i++)
        for (unsigned k = 0; live[i] && k < w->p->nodes[i].operand_count; k++)
            w->uses[w->p->nodes[i].operands[k]] += w->p->nodes[i].kind == NODE_REPEAT ? w->p->nodes[i].rounds + 1 : 1;
    for (unsigned i = 0; i < w->p->result_count; i++) w->uses[w->p->results[i].node]++;
}

/* A result that has its value's type may be given at once, and what is behind it reads the result. */
static void print_early(Printer *w, unsigned node, bool *given) {
    const Node *n = &w->p->nodes[node];
    bool narrow = dtype_is_float(n->dtype) && dtype_size(n->dtype) < 4;
    if (narrow || node_is_indexed(n) || (n->style >> 26) % 2) return;
    for (unsigned i = 0; i < w->p->result_count; i++) {
        const Result *r = &w->p->results[i];
        if (r->node != node || r->kind != STORE_WHOLE || r->dtype != n->dtype) continue;
        print_result(w->p, i, w->texts[node], w->out);
        w->texts[node] = arena_printf(w->arena, "Y%u", i);
        given[i] = true;
    }
}

static void print_equations(const RandomProgram *p, Str *out) {
    bool live[MAX_NODES], given[MAX_RESULTS] = {false};
    Printer w = {.p = p, .out = out, .arena = arena_create()};
    program_live(p, live);
    count_uses(&w, live);
    for (unsigned i = 0; i < p->node_count; i++) {
        if (!live[i]) continue;
        print_equation(&w, i);
        print_early(&w, i, given);
    }
    for (unsigned i = 0; i < p->result_count; i++) {
        unsigned node = p->results[i].node;
        bool printed = given[i] || (node_is_indexed(&p->nodes[node]) && result_of(p, node) == i);
        if (!printed) print_result(p, i, w.texts[node], out);
    }
    arena_destroy(w.arena);
}

/* ---- Cases ---- */

static const char *const data_texts[] = {
#define DATA(weight, magnitude, least, rank, text) text,
#include "weights.def"
};

typedef struct {
    const RandomProgram *p;
    const ProgramSizes *sizes;
    const char *between;
    Str *out;
} CasePrinter;

static void print_data(CasePrinter *c, const char *name, unsigned number, const char *suffix, const Node *n) {
    if (!dtype_is_float(n->dtype)) return;
    str_printf(c->out, "%s%s%u%s: %s", c->between, name, number, suffix, data_texts[n->data]);
    c->between = ", ";
}

static void print_indices(CasePrinter *c, char name, unsigned number, bool is_signed, int64_t end) {
    str_printf(c->out, "%s%c%u: randint(%d, %lld)", c->between, name, number, is_signed ? -2 : 0, (long long)end + 2);
    c->between = ", ";
}

static void print_node_data(CasePrinter *c, unsigned node) {
    const Node *n = &c->p->nodes[node], normal = {.dtype = DTYPE_F32};
    switch (n->kind) {
    case NODE_TENSOR:
        if (n->data == ~0u)
            print_indices(c, 'T', node, dtype_is_signed(n->dtype), (int64_t)n->number);
        else
            print_data(c, "T", node, "", n);
        break;
    case NODE_VIEW:
    case NODE_GATHER:
        print_data(c, "T", node, "", n);
        break;
    case NODE_WINDOW:
        print_data(c, "T", node, "", n);
        if (n->op == BUILTIN_REDUCE_SUM) print_data(c, "F", node, "", &normal);
        break;
    case NODE_RAGGED:
        print_data(c, "T", node, "", n);
        print_indices(c, 'L', node, true, c->sizes->extents[n->axis]);
        break;
    case NODE_MATMUL:
        print_data(c, "M", node, "", &normal);
        break;
    case NODE_PRODUCT:
        print_data(c, "P", node, "a", n);
        print_data(c, "P", node, "b", n);
        break;
    default:
        break;
    }
}

static void print_result_data(CasePrinter *c, unsigned result) {
    const Result *r = &c->p->results[result];
    const Node normal = {.dtype = r->dtype};
    if (r->kind == STORE_LIMITED) {
        print_indices(c, 'E', result, true, c->sizes->extents[r->axis]);
        print_data(c, "N", result, "", &normal);
    }
    if (r->kind == STORE_SCATTER) print_indices(c, 'I', result, true, (int64_t)r->axis);
}

static void print_case(const RandomProgram *p, unsigned number, int64_t most, Str *out) {
    bool live[MAX_NODES];
    ProgramSizes sizes;
    CasePrinter c = {p, &sizes, " ", out};
    program_live(p, live);
    program_sizes(p, number, most, &sizes);
    str_printf(out, "    case c%u {", number);
    for (unsigned i = 0; i < p->axis_count; i++) {
        if (p->axes[i].constant || !axis_is_used(p, i)) continue;
        str_printf(out, "%s%s=%lld", c.between, axis_symbol(i), (long long)sizes.extents[i]);
        c.between = ", ";
    }
    for (unsigned i = 0; i < p->node_count; i++)
        if (live[i]) print_node_data(&c, i);
    for (unsigned i = 0; i < p->result_count; i++) print_result_data(&c, i);
    str_append(out, " }\n");
}

void program_print(const RandomProgram *p, const char *name, const CaseOptions *cases, Str *out) {
    str_printf(out, "operator %s_operator {\n", name);
    print_symbols(p, out);
    print_tensors(p, out);
    print_scalars(p, true, out);
    bool live[MAX_NODES];
    program_live(p, live);
    for (unsigned i = 0; i < p->node_count; i++)
        if (live[i] && p->nodes[i].kind == NODE_VIEW) print_view(p, i, false, out);
    str_append(out, "\n");
    print_equations(p, out);
    str_append(out, "\n");
    for (unsigned i = 0; i < cases->count; i++) print_case(p, i, cases->most_elements, out);
    str_append(out, "}\n\n");
    program_print_sketch(p, name, out);
}
