/* Declarations and equations of the values that are more than an operation on each lane. */
#include "print_internal.h"

#include <string.h>

/* ---- Dims ---- */

Form product_form(const Node *n, bool second) {
    Form form = n->form;
    unsigned rank = form.rank;
    bool sum_first = second != (second ? n->trans_b : n->trans_a);
    Dim outer = form.dims[second ? rank - 1 : rank - 2], sum = {n->axis, true};
    form.dims[rank - 2] = sum_first ? sum : outer;
    form.dims[rank - 1] = sum_first ? outer : sum;
    if (!second || n->batched_b) return form;
    Form shared = {.rank = 2, .dims = {form.dims[rank - 2], form.dims[rank - 1]}};
    return shared;
}

Form result_form(const RandomProgram *p, const Result *r) {
    const Form *from = &p->nodes[r->node].form;
    Form form = {0};
    if (r->kind != STORE_MODE) return *from;
    for (unsigned i = 0; i < from->rank; i++)
        if (!(r->dropped & 1u << from->dims[i].axis)) form.dims[form.rank++] = from->dims[i];
    return form;
}

Form limits_form(const RandomProgram *p, const Form *form) {
    Form limits = *form;
    for (unsigned i = 0; i < form->rank; i++) limits.dims[i].full = form->dims[i].full && p->axes[form->dims[i].axis].walk == WALK_ONE;
    return limits;
}

static void print_extent_or_one(const RandomProgram *p, Dim dim, Str *out) {
    if (dim.full)
        print_extent(p, dim.axis, out);
    else
        str_append(out, "1");
}

/* ---- Tensors ---- */

static void print_tensor(const char *name, unsigned number, const RandomProgram *p, const Form *form, const char *behind, Dtype dtype,
                         Str *out) {
    str_printf(out, "        %s%u[", name, number);
    print_dims(p, form, out);
    str_printf(out, "%s]: %s\n", behind, dtype_name(dtype));
}

int view_offset(const Node *n, unsigned dim) {
    const IndexMap *map = &n->maps[dim];
    return map->kind == MAP_SHIFTED ? map->amount : (int)((n->style >> 16) % (unsigned)map->amount);
}

static void print_source_extent(const RandomProgram *p, const Node *n, unsigned dim, Str *out) {
    const IndexMap *map = &n->maps[dim];
    if (map->kind == MAP_STRIDED) str_printf(out, "%d*", map->amount);
    print_extent_or_one(p, n->form.dims[dim], out);
    if (map->kind == MAP_HALVED) str_append(out, " // 2 + 1");
}

/* The dim of the view that the source's dim follows. */
static unsigned source_dim(const Node *n, unsigned i) {
    unsigned rank = n->form.rank;
    return n->swapped && i + 2 >= rank ? 2 * rank - 3 - i : i;
}

static void print_view_source(const RandomProgram *p, unsigned node, Str *out) {
    const Node *n = &p->nodes[node];
    str_printf(out, "        T%u[", node);
    for (unsigned i = 0; i < n->form.rank; i++) {
        str_append(out, i ? ", " : "");
        print_source_extent(p, n, source_dim(n, i), out);
    }
    str_printf(out, "]: %s\n", dtype_name(n->dtype));
}

/* The source's index in dim `dim`; `moved` is behind the view's own. */
static void print_index(const RandomProgram *p, const Node *n, unsigned dim, const char *moved, Str *out) {
    switch (n->maps[dim].kind) {
    case MAP_REVERSED:
        print_extent_or_one(p, n->form.dims[dim], out);
        str_printf(out, " - 1 - (i%u%s)", dim, moved);
        break;
    case MAP_SHIFTED:
        str_printf(out, "i%u%s + (%d)", dim, moved, view_offset(n, dim));
        break;
    case MAP_STRIDED:
        str_printf(out, "%d*(i%u%s) + %d", n->maps[dim].amount, dim, moved, view_offset(n, dim));
        break;
    case MAP_HALVED:
        str_printf(out, "(i%u%s) // 2", dim, moved);
        break;
    default:
        str_printf(out, "i%u%s", dim, moved);
    }
}

/* "view V3[i0: M + more, i1: N]" */
static void print_view_head(const RandomProgram *p, char letter, unsigned node, const char *more, Str *out) {
    const Form *form = &p->nodes[node].form;
    str_printf(out, "    view %c%u[", letter, node);
    for (unsigned i = 0; i < form->rank; i++) {
        str_printf(out, "%si%u: ", i ? ", " : "", i);
        print_extent_or_one(p, form->dims[i], out);
        if (i == 0) str_append(out, more);
    }
    str_append(out, "] = ");
}

/* Of memory that has the view's own axes, along the first one `moved`. */
static void print_view_same(const RandomProgram *p, char of, unsigned node, const char *moved, Str *out) {
    str_printf(out, "%c%u[", of, node);
    for (unsigned i = 0; i < p->nodes[node].form.rank; i++) str_printf(out, "%si%u%s", i ? ", " : "", i, i ? "" : moved);
    str_append(out, "]");
}

void print_view(const RandomProgram *p, unsigned node, bool through, Str *out) {
    const Node *n = &p->nodes[node];
    through = through && n->form.rank && n->style >> 24 & 1;
    print_view_head(p, through ? 'U' : 'V', node, through ? " + 2" : "", out);
    str_printf(out, "T%u[", node);
    for (unsigned i = 0; i < n->form.rank; i++) {
        unsigned dim = source_dim(n, i);
        str_append(out, i ? ", " : "");
        print_index(p, n, dim, through && dim == 0 ? " - 2" : "", out);
    }
    str_append(out, "]");
    if (n->number != 0) str_printf(out, " pad %d", (int)n->number);
    str_append(out, ";\n");
    if (!through) return;
    print_view_head(p, 'V', node, "", out);
    print_view_same(p, 'U', node, " + 2", out);
    str_append(out, " pad 3;\n");
}

bool has_workspace_view(const RandomProgram *p, bool stores) {
    if (p->cut >= MAX_NODES) return false;
    const Node *n = &p->nodes[p->cut];
    return n->form.rank && n->style >> (stores ? 26 : 25) & 1;
}

void print_workspace_view(const RandomProgram *p, Str *out) {
    if (!has_workspace_view(p, false) && !has_workspace_view(p, true)) return;
    print_view_head(p, 'K', p->cut, "", out);
    print_view_same(p, 'w', p->cut, "", out);
    str_append(out, ";\n");
}

/* The table's dims: those that the indices stand for are one. */
static Form table_form(const RandomProgram *p, const Node *n) {
    Form form = {.rank = n->place};
    unsigned indices = p->nodes[n->operands[0]].form.rank;
    memcpy(form.dims, n->form.dims, sizeof form.dims);
    form.dims[form.rank++] = (Dim){n->axis, true};
    for (unsigned i = n->place + indices; i < n->form.rank; i++) form.dims[form.rank++] = n->form.dims[i];
    return form;
}

static void print_window_source(const RandomProgram *p, unsigned node, Str *out) {
    const Node *n = &p->nodes[node];
    str_printf(out, "        T%u[", node);
    for (unsigned i = 0; i < n->form.rank; i++) {
        bool windowed = n->form.dims[i].axis == n->axis;
        str_append(out, i ? ", " : "");
        if (windowed && n->stride > 1) str_printf(out, "%d*", n->stride);
        print_extent(p, n->form.dims[i].axis, out);
        if (windowed) str_printf(out, " + %u", n->rounds * (unsigned)n->dilation);
    }
    str_printf(out, "]: %s\n", dtype_name(n->dtype));
    if (n->op == BUILTIN_REDUCE_SUM) str_printf(out, "        F%u[%u]: f32\n", node, n->rounds);
}

void print_own_tensors(const RandomProgram *p, unsigned node, Str *out) {
    const Node *n = &p->nodes[node];
    Form form = n->form;
    switch (n->kind) {
    case NODE_TENSOR:
        print_tensor("T", node, p, &n->form, "", n->dtype, out);
        break;
    case NODE_PRODUCT:
        for (unsigned second = 0; second < 2; second++) {
            form = product_form(n, second);
            str_printf(out, "        P%u%c[", node, second ? 'b' : 'a');
            print_dims(p, &form, out);
            str_printf(out, "]: %s\n", dtype_name(n->dtype == DTYPE_I32 ? DTYPE_I8 : n->dtype));
        }
        break;
    case NODE_MATMUL:
        form = (Form){.rank = 2, .dims = {{n->axis, true}, n->form.dims[n->form.rank - 1]}};
        print_tensor("M", node, p, &form, "", n->dtype, out);
        break;
    case NODE_VIEW:
        print_view_source(p, node, out);
        break;
    case NODE_GATHER:
        form = table_form(p, n);
        print_tensor("T", node, p, &form, "", n->dtype, out);
        break;
    case NODE_WINDOW:
        print_window_source(p, node, out);
        break;
    case NODE_RAGGED: {
        Str last;
        str_init(&last);
        str_append(&last, ", ");
        print_extent(p, n->axis, &last);
        print_tensor("T", node, p, &form, last.data, n->dtype, out);
        form = limits_form(p, &form);
        print_tensor("L", node, p, &form, ", 1", DTYPE_I32, out);
        str_release(&last);
        break;
    }
    default:
        break;
    }
}

void print_result_tensors(const RandomProgram *p, unsigned result, Str *out) {
    const Result *r = &p->results[result];
    if (r->kind == STORE_IN_PLACE) return; /* the input is declared */
    Form form = result_form(p, r);
    if (r->kind == STORE_SCATTER) {
        Form rest = form;
        str_printf(out, "        Y%u[%u", result, r->axis);
        for (unsigned i = 1; i < rest.rank; i++) {
            str_append(out, ", ");
            print_extent_or_one(p, rest.dims[i], out);
        }
        str_printf(out, "]: %s\n", dtype_name(r->dtype));
        rest.rank = 1;
        print_tensor("I", result, p, &rest, "", DTYPE_I32, out);
        return;
    }
    print_tensor("Y", result, p, &form, "", r->dtype, out);
    if (r->kind != STORE_LIMITED) return;
    print_tensor("N", result, p, &form, "", r->dtype, out);
    form = limits_form(p, &form);
    print_tensor("E", result, p, &form, "", DTYPE_I32, out);
}

/* ---- Values of the operator ---- */

static unsigned place_of(const Form *form, unsigned axis) {
    unsigned at = 0;
    while (form->dims[at].axis != axis) at++;
    return at;
}

static void print_list(const RandomProgram *p, const Form *form, Str *out) {
    str_append(out, "[");
    print_dims(p, form, out);
    str_append(out, "]");
}

static void print_axes(const Node *n, Str *out) {
    str_append(out, ", axes=[");
    for (unsigned i = 0; i < n->form.rank; i++) str_printf(out, "%s%u", i ? ", " : "", n->perm[i]);
    str_append(out, "]");
}

void print_movement(const RandomProgram *p, const Node *n, const char *const *operands, Str *out) {
    str_printf(out, "%s(", n->kind == NODE_IOTA ? "iota" : n->kind == NODE_RANDOM ? "random" : builtin_info((BuiltinId)n->op)->name);
    for (unsigned i = 0; i < n->operand_count; i++) str_printf(out, "%s%s", i ? ", " : "", operands[i]);
    if (n->kind == NODE_TRANSPOSE) print_axes(n, out);
    if (n->kind == NODE_CONCAT) str_printf(out, ", axis=%u", n->place);
    if (n->kind == NODE_RESHAPE || n->kind == NODE_BROADCAST) str_append(out, ", ");
    if (n->kind == NODE_RESHAPE || n->kind == NODE_BROADCAST || node_is_bare(n)) print_list(p, &n->form, out);
    if (n->kind == NODE_IOTA) str_append(out, ", axis=0");
    if (n->kind == NODE_RANDOM) str_printf(out, ", seed=%d", (int)n->number);
    str_append(out, ")");
}

static const char *ragged_identity(const Node *n) {
    return n->op == BUILTIN_REDUCE_SUM ? "0" : n->op == BUILTIN_REDUCE_MAX ? "-8" : "8";
}

void print_ragged(const RandomProgram *p, unsigned node, Str *out) {
    const Node *n = &p->nodes[node];
    const char *identity = ragged_identity(n);
    const char *join = n->op == BUILTIN_REDUCE_SUM ? "" : n->op == BUILTIN_REDUCE_MAX ? "max" : "min";
    str_printf(out, "%s(%s(where(iota([", join, builtin_info((BuiltinId)n->op)->name);
    for (unsigned i = 0; i < n->form.rank; i++) str_append(out, "1, ");
    print_extent(p, n->axis, out);
    str_printf(out, "], axis=%u) < L%u, T%u, %s), axis=-1)", n->form.rank, node, node, identity);
    if (*join) str_printf(out, ", %s", identity);
    str_append(out, ")");
}

/* ---- Results ---- */

void print_indexed(const RandomProgram *p, unsigned node, unsigned result, Str *out) {
    const Node *n = &p->nodes[node];
    unsigned indices = n->operand_count ? p->nodes[n->operands[0]].form.rank : 0;
    str_printf(out, "    Y%u[", result);
    for (unsigned i = 0; i < n->form.rank; i++) str_printf(out, "%si%u", i ? ", " : "", i);
    if (n->kind == NODE_WINDOW) {
        bool sum = n->op == BUILTIN_REDUCE_SUM;
        str_printf(out, "] = %s(k in 0:%u, T%u[", sum ? "sum" : "max", n->rounds, node);
        for (unsigned i = 0; i < n->form.rank; i++)
            if (n->form.dims[i].axis == n->axis)
                str_printf(out, "%s%d*i%u + %d*k", i ? ", " : "", n->stride, i, n->dilation);
            else
                str_printf(out, "%si%u", i ? ", " : "", i);
        if (sum) str_printf(out, "] * F%u[k", node);
        str_append(out, "])\n");
        return;
    }
    str_printf(out, "] = pad(T%u, %d)[", node, (int)n->number);
    for (unsigned i = 0; i < n->form.rank; i++) {
        if (i == n->place) {
            str_printf(out, "%sT%u[", i ? ", " : "", n->operands[0]);
            for (unsigned k = 0; k < indices; k++) str_printf(out, "%si%u", k ? ", " : "", i + k);
            str_append(out, "]");
            i += indices - 1;
        } else {
            str_printf(out, "%si%u", i ? ", " : "", i);
        }
    }
    str_append(out, "]\n");
}

static void print_mode(const RandomProgram *p, unsigned result, const char *text, Str *out) {
    const Result *r = &p->results[result];
    const Form *form = &p->nodes[r->node].form;
    const char *fold = r->mode == BUILTIN_ADD ? "sum" : r->mode == BUILTIN_MAX ? "reduce_max" : "reduce_min";
    const char *join = r->mode == BUILTIN_ADD ? "add" : r->mode == BUILTIN_MAX ? "max" : "min";
    str_printf(out, "    Y%u = ", result);
    if (!r->zeroed) str_printf(out, "%s(Y%u, ", join, result);
    for (unsigned i = 0; i < form->rank; i++)
        if (r->dropped & 1u << form->dims[i].axis) str_printf(out, "%s(", fold);
    str_append(out, text);
    for (unsigned i = form->rank; i-- > 0;)
        if (r->dropped & 1u << form->dims[i].axis) str_printf(out, ", axis=%u)", i);
    str_append(out, r->zeroed ? "\n" : ")\n");
}

static void print_limited(const RandomProgram *p, unsigned result, const char *text, Str *out) {
    const Result *r = &p->results[result];
    const Form *form = &p->nodes[r->node].form;
    Form positions = *form;
    unsigned at = place_of(form, r->axis);
    for (unsigned i = 0; i < form->rank; i++) positions.dims[i].full = i == at;
    str_printf(out, "    Y%u = where(iota(", result);
    print_list(p, &positions, out);
    str_printf(out, ", axis=%u) < E%u, %s + N%u, Y%u)\n", at, result, text, result, result);
}

/* Y[v, ...] += the sum over i where I[i] == v. */
static void print_scatter(const RandomProgram *p, unsigned result, const char *text, Str *out) {
    const Result *r = &p->results[result];
    const Form *form = &p->nodes[r->node].form;
    Form rows = {.rank = 1, .dims = {form->dims[0]}};
    str_printf(out, "    Y%u = Y%u + sum(where(reshape(I%u, [", result, result, result);
    print_dims(p, &rows, out);
    for (unsigned i = 0; i < form->rank; i++) str_append(out, ", 1");
    str_append(out, "]) == iota([");
    print_dims(p, &rows, out);
    str_printf(out, ", %u", r->axis);
    for (unsigned i = 1; i < form->rank; i++) str_append(out, ", 1");
    /* Memory adds in the result's type. */
    bool cast = dtype_is_float(r->dtype) && !dtype_is_float(p->nodes[r->node].dtype);
    str_append(out, "], axis=1), reshape(");
    str_printf(out, cast ? "cast(%s, dtype=%s)" : "%s", text, dtype_name(r->dtype));
    str_append(out, ", [");
    print_dims(p, &rows, out);
    str_append(out, ", 1");
    for (unsigned i = 1; i < form->rank; i++) {
        str_append(out, ", ");
        print_extent_or_one(p, form->dims[i], out);
    }
    str_append(out, "]), 0), axis=0)\n");
}

void print_result(const RandomProgram *p, unsigned result, const char *text, Str *out) {
    const Result *r = &p->results[result];
    switch (r->kind) {
    case STORE_MODE:
        print_mode(p, result, text, out);
        break;
    case STORE_LIMITED:
        print_limited(p, result, text, out);
        break;
    case STORE_SCATTER:
        print_scatter(p, result, text, out);
        break;
    case STORE_FLIPPED:
        str_printf(out, "    Y%u = flip(%s, axis=%u)\n", result, text, place_of(&p->nodes[r->node].form, r->axis));
        break;
    case STORE_IN_PLACE:
        str_printf(out, "    T%u = %s\n", r->axis, text);
        break;
    default:
        str_printf(out, "    Y%u = %s\n", result, text);
    }
}
