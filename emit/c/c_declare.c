/* Declarations of C variables, constants and arrays for values. */
#include "c_internal.h"

#include <string.h>

/* ---- Declarations ---- */

static const char *index_hint(const IrOp *op) {
    switch (op ? op->opcode : IR_ADD) {
    case IR_SUB:
        return "left";
    case IR_MUL:
        return "stride";
    case IR_FLOORDIV:
        return op->operands[1]->def && op->operands[1]->def->opcode == IR_CONST ? "count" : "outer";
    case IR_MOD:
        return "inner";
    case IR_MIN:
        return "end";
    case IR_MAX:
        return "begin";
    case IR_SELECT:
        return "size";
    case IR_AND:
    case IR_SHR:
        return "part";
    default:
        return "at";
    }
}

static const char *default_hint(CPrinter *p, const IrValue *v) {
    if (v->type->is_index) return index_hint(v->def);
    if (v->def && v->def->opcode == IR_MEM_LOAD && v->type->kind == IR_TYPE_SCALAR) {
        const char *tensor = c_use(p, v->def->operands[0]).text; /* X's element is x */
        char *name = arena_strdup(p->arena, tensor);
        for (char *c = name; *c; c++) *c = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
        if (name[0] >= 'a' && name[0] <= 'z' && strcmp(name, tensor) != 0) return name;
    }
    if (v->type->kind == IR_TYPE_SCALAR && v->type->dtype == DTYPE_BOOL) return "inside";
    return v->type->kind == IR_TYPE_FRAG ? "t" : "x";
}

const char *c_declare_var(CPrinter *p, const IrValue *v, const char *hint) {
    if (!hint) hint = v->name ? v->name : default_hint(p, v);
    const char *name = name_claim(&p->names, hint);
    CValue *c = c_value(p, v);
    c->expr = (CExpr){name, C_PREC_PRIMARY};
    c->inlined = false;
    return name;
}

void c_declare_const(CPrinter *p, const char *type, const char *name, const char *text) {
    size_t end = p->out->len;
    bool open = p->open_type && p->open_in == p->out && p->open_at == end && !p->comment && strcmp(p->open_type, type) == 0;
    if (open) {
        size_t start = end - 1;
        while (start && p->out->data[start - 1] != '\n') start--;
        if (end - start + strlen(name) + strlen(text) + 5 <= C_LINE_WIDTH) {
            p->out->len = end - 2; /* without ";\n" */
            str_printf(p->out, ", %s = %s;\n", name, text);
        } else {
            open = false;
        }
    }
    if (!open) c_line(p, "const %s %s = %s;", type, name, text);
    p->open_type = type;
    p->open_in = p->out;
    p->open_at = p->out->len;
}

/* GPU arrays are aligned for 16-byte accesses, the CPU's for its vector registers. */
static const char *declare_array(CPrinter *p, const IrType *t, const char *hint, const char *init) {
    const char *name = name_claim(&p->names, hint ? hint : "t"), *dims = "";
    size_t bytes = dtype_size(t->dtype);
    if (t->kind == IR_TYPE_SCALAR) {
        dims = arena_printf(p->arena, "[%u]", t->width);
        bytes *= t->width;
    } else {
        for (unsigned i = 0; i < t->rank; i++) {
            int64_t extent = ir_type_extent(t, i);
            dims = arena_printf(p->arena, "%s[%lld]", dims, (long long)extent);
            bytes *= (size_t)extent;
        }
    }
    const char *align = "";
    if (p->dialect->gpu && bytes >= 4 && (bytes & 3) == 0 && dtype_size(t->dtype) < 16)
        align = bytes % 16 == 0 ? "__align__(16) " : bytes % 8 == 0 ? "__align__(8) " : "__align__(4) ";
    if (!p->dialect->gpu && bytes >= 64) align = "_Alignas(64) ";
    if (p->dialect->gpu && bytes == dtype_size(t->dtype)) align = "";
    c_line(p, "%s%s %s%s%s;", align, t->dtype == DTYPE_BOOL ? "bool" : c_type(p, t->dtype), name, dims, init);
    return name;
}

const char *c_declare_array(CPrinter *p, const IrType *t, const char *hint) {
    return declare_array(p, t, hint, "");
}

const char *c_declare_zeros(CPrinter *p, const IrType *t, const char *hint) {
    static const char opening[] = "{{{{{{{{{{{{{{{{", closing[] = "}}}}}}}}}}}}}}}}";
    int braces = t->kind == IR_TYPE_FRAG && t->rank > 1 ? (int)t->rank : 1;
    if (p->dialect->gpu) return declare_array(p, t, hint, " = {}");
    return declare_array(p, t, hint, arena_printf(p->arena, " = %.*s0%.*s", braces, opening, braces, closing));
}

/* A fragment in an array of another name gets its own as an alias: the source's names stay.
 * written: its op prints that name. */
void c_bind_frag(CPrinter *p, const IrValue *v, const char *home, bool written) {
    CValue *c = c_value(p, v);
    c->home = c->array = home;
    if (!v->name || strcmp(name_legal(p->arena, v->name), home) == 0) return;
    bool named = written;
    for (const IrUse *u = v->uses; u; u = u->next) named = named || u->op->opcode == IR_FRAG_GET;
    if (!named) return;
    const char *name = name_claim(&p->names, v->name), *type = c_type(p, v->type->dtype), *dims = "";
    if (v->type->dtype == DTYPE_BOOL) type = "bool";
    for (unsigned i = p->dialect->gpu ? 0 : 1; i < v->type->rank; i++)
        dims = arena_printf(p->arena, "%s[%lld]", dims, (long long)ir_type_extent(v->type, i));
    if (p->dialect->gpu)
        c_line(p, "%s(&%s)%s = %s;", type, name, dims, home);
    else if (v->type->rank > 1)
        c_line(p, "%s(*%s)%s = %s;", type, name, dims, home);
    else
        c_line(p, "%s *%s = %s;", type, name, home);
    c->array = name;
}

static void bind_vec(CPrinter *p, const IrValue *v, const char *array) {
    CValue *c = c_value(p, v);
    c->address = array;
    c->pending = NULL;
    c->inlined = false;
    c->expr = c_make(p, C_PREC_PRIMARY, "%s[%c]", array, C_LANE);
}

void c_materialise(CPrinter *p, const IrValue *v) {
    c_materialise_as(p, v, NULL);
}

void c_materialise_as(CPrinter *p, const IrValue *v, const char *hint) {
    CValue *c = c_value(p, v);
    if (is_vec(v->type)) {
        const IrOp *op = c->pending;
        CExpr lanes = c->expr;
        const char *array = c_declare_array(p, v->type, v->name ? v->name : "x");
        if (op) {
            c_vec_into(p, op, array);
        } else {
            c->expr = lanes;
            c->address = NULL;
            c_vec_copy(p, v, array);
        }
        bind_vec(p, v, array);
        return;
    }
    if (!c->inlined) return;
    const char *text = c->expr.text, *type = c_scalar_type(p, v);
    const char *name = c_declare_var(p, v, v->name ? v->name : hint);
    c_declare_const(p, type, name, text);
}
