/* The text form (docs/decisions/ir-levels.md): one shape for every op, driven by the op table.
 */
#include <math.h>
#include <string.h>

#include "ir_internal.h"
#include "layout.h"

/* Names of one function's values: hints made unique in order of first sight, numbers without. */
typedef struct {
    Arena *arena;
    PointerTable names; /* IrValue* -> char* */
    Map *taken;         /* name -> counter of the last suffix */
    unsigned next_number;
    Str *out;
    Arena *places_arena;
    IrPlaces *places; /* null: not wanted */
} Printer;

static void printer_init(Printer *p, Str *out) {
    *p = (Printer){.arena = arena_create(), .out = out};
    p->taken = map_create(p->arena);
    p->names = pointer_table(p->arena);
}

static void printer_release(Printer *p) {
    arena_destroy(p->arena);
}

/* ---- Names ---- */

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool usable_hint(const char *name) {
    if (!name || !is_letter(name[0])) return false;
    size_t length = 0;
    for (; name[length]; length++)
        if (!is_letter(name[length]) && !is_digit(name[length])) return false;
    return length <= IR_MAX_NAME;
}

/* x, x_1, x_2 ...; the base of a hint "x_1" that is taken is x, so that suffixes do not pile up. */
static const char *unique_name(Printer *p, const char *hint) {
    if (!map_get(p->taken, hint)) return hint;
    size_t base = strlen(hint);
    while (base > 1 && is_digit(hint[base - 1])) base--;
    base = base > 1 && hint[base - 1] == '_' ? base - 1 : strlen(hint);
    if (base > IR_MAX_NAME - 8) base = IR_MAX_NAME - 8;
    char *stem = arena_strndup(p->arena, hint, base);
    unsigned *counter = map_get(p->taken, stem);
    if (!counter) {
        counter = ARENA_NEW(p->arena, unsigned);
        map_set(p->taken, p->arena, stem, counter);
    }
    for (;;) {
        const char *name = arena_printf(p->arena, "%s_%u", stem, ++*counter);
        if (!map_get(p->taken, name)) return name;
    }
}

static const char *name_of(Printer *p, const IrValue *v) {
    const char *name = pointer_table_find(&p->names, v);
    if (name) return name;
    if (usable_hint(v->name)) {
        name = unique_name(p, v->name);
        map_set(p->taken, p->arena, name, ARENA_NEW(p->arena, unsigned));
    } else {
        name = arena_printf(p->arena, "%u", p->next_number++);
    }
    pointer_table_put(&p->names, v, (void *)name);
    return name;
}

static void print_value(Printer *p, const IrValue *v) {
    str_printf(p->out, "%%%s", name_of(p, v));
}

static void print_definition(Printer *p, const IrValue *v) {
    print_value(p, v);
    if (v->storage) str_printf(p->out, "!%u", v->storage);
}

/* ---- Types ---- */

static void print_affs(const Aff *const *list, unsigned count, Str *out) {
    str_append_char(out, '[');
    for (unsigned i = 0; i < count; i++) {
        if (i) str_append(out, ", ");
        aff_print(list[i], out);
    }
    str_append_char(out, ']');
}

static void print_extents(const IrType *t, Str *out) {
    print_affs(t->extents, t->rank, out);
    str_printf(out, " x %s", dtype_name(t->dtype));
    if (!t->strides) return;
    str_append(out, ", strides ");
    print_affs(t->strides, t->rank, out);
}

static void print_layout(const IrType *t, Str *out) {
    if (!t->layout) return;
    str_append(out, ", ");
    layout_print(t->layout, out);
}

void ir_print_type(const IrType *t, Str *out) {
    switch (t->kind) {
    case IR_TYPE_SCALAR:
        if (t->is_index)
            str_append(out, "index");
        else if (t->width > 1)
            str_printf(out, "vec<%u x %s>", t->width, dtype_name(t->dtype));
        else
            str_append(out, dtype_name(t->dtype));
        return;
    case IR_TYPE_TOKEN:
        str_append(out, "token");
        return;
    case IR_TYPE_PTR:
        str_printf(out, "ptr<%s, %s>", dtype_name(t->dtype), ir_space_name(t->space));
        return;
    case IR_TYPE_TILE:
    case IR_TYPE_TENSOR:
    case IR_TYPE_FRAG:
        str_append(out, t->kind == IR_TYPE_TILE ? "tile<" : t->kind == IR_TYPE_FRAG ? "frag<" : "tensor<");
        print_extents(t, out);
        break;
    case IR_TYPE_BUF:
        str_printf(out, "buf<%u x ", t->stages);
        print_extents(t, out);
        str_printf(out, ", %s", ir_space_name(t->space));
        break;
    }
    print_layout(t, out);
    str_append_char(out, '>');
}

static void print_types_of(const IrOp *op, Str *out) {
    for (unsigned i = 0; i < op->result_count; i++) {
        str_append(out, i ? ", " : " : ");
        ir_print_type(op->results[i].type, out);
    }
}

/* ---- Attributes ---- */

/* A point, exponent, inf or nan marks a float. */
static void print_float(double value, Str *out) {
    size_t start = out->len;
    if (isnan(value))
        str_append(out, "nan");
    else
        str_append_double(out, value);
    if (!strpbrk(out->data + start, ".enif")) str_append(out, ".0");
}

static void print_string(const char *text, Str *out) {
    str_append_char(out, '"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            str_printf(out, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            str_printf(out, "\\x%02x", c);
        else
            str_append_char(out, (char)c);
    }
    str_append_char(out, '"');
}

static void print_list(const IrAttr *attr, Str *out) {
    str_append_char(out, '[');
    for (size_t i = 0; i < attr->count; i++) {
        if (i) str_append(out, ", ");
        if (attr->kind == IR_ATTR_INTS)
            str_printf(out, "%lld", (long long)attr->ints[i]);
        else
            print_string(attr->strs[i], out);
    }
    str_append_char(out, ']');
}

static void print_attr(const IrAttr *attr, Str *out) {
    str_printf(out, "%s = ", attr->key);
    switch (attr->kind) {
    case IR_ATTR_INT:
        str_printf(out, "%lld", (long long)attr->integer);
        break;
    case IR_ATTR_FLOAT:
        print_float(attr->number, out);
        break;
    case IR_ATTR_BOOL:
        str_append(out, attr->integer ? "true" : "false");
        break;
    case IR_ATTR_STR:
    case IR_ATTR_ENUM:
        print_string(attr->string, out);
        break;
    case IR_ATTR_INTS:
    case IR_ATTR_STRS:
        print_list(attr, out);
        break;
    case IR_ATTR_DTYPE:
        str_printf(out, "dtype(%s)", dtype_name((Dtype)attr->integer));
        break;
    case IR_ATTR_TYPE:
        str_append(out, "type(");
        ir_print_type(attr->type, out);
        str_append_char(out, ')');
        break;
    case IR_ATTR_AFF:
        str_append(out, "aff(");
        aff_print(attr->aff, out);
        str_append_char(out, ')');
        break;
    }
}

static void print_attrs(const IrAttr *list, Str *out) {
    if (!list) return;
    str_append(out, " {");
    for (const IrAttr *attr = list; attr; attr = attr->next) {
        if (attr != list) str_append(out, ", ");
        print_attr(attr, out);
    }
    str_append_char(out, '}');
}

/* ---- Ops ---- */

static void print_indent(Str *out, unsigned depth) {
    for (unsigned i = 0; i < depth; i++) str_append(out, "    ");
}

static void print_block(Printer *p, const IrBlock *block, unsigned depth);

static void print_region(Printer *p, const IrBlock *region, unsigned depth) {
    str_append_char(p->out, ' ');
    if (region->arg_count) {
        for (unsigned i = 0; i < region->arg_count; i++) {
            str_append(p->out, i ? ", " : "(");
            print_definition(p, region->args[i]);
            str_append(p->out, ": ");
            ir_print_type(region->args[i]->type, p->out);
        }
        str_append(p->out, ") ");
    }
    print_block(p, region, depth);
}

static void print_op(Printer *p, const IrOp *op, unsigned depth) {
    for (unsigned i = 0; i < op->result_count; i++) {
        if (i) str_append(p->out, ", ");
        print_definition(p, &op->results[i]);
    }
    if (op->result_count) str_append(p->out, " = ");
    str_printf(p->out, "%s(", ir_op_info(op->opcode)->name);
    for (unsigned i = 0; i < op->operand_count; i++) {
        if (i) str_append(p->out, ", ");
        print_value(p, op->operands[i]);
    }
    str_append_char(p->out, ')');
    print_attrs(op->attrs, p->out);
    print_types_of(op, p->out);
    for (unsigned i = 0; i < op->region_count; i++) print_region(p, op->regions[i], depth);
}

static void print_block(Printer *p, const IrBlock *block, unsigned depth) {
    str_append_char(p->out, '{');
    if (block->first) str_append_char(p->out, '\n');
    for (const IrOp *op = block->first; op; op = op->next) {
        print_indent(p->out, depth + 1);
        if (p->places) {
            IrPlace place = {p->out->len, op->span};
            VEC_PUSH(p->places_arena, p->places, place);
        }
        print_op(p, op, depth + 1);
        str_append_char(p->out, '\n');
    }
    if (block->first) print_indent(p->out, depth);
    str_append_char(p->out, '}');
}

/* ---- Functions ---- */

static const char *level_name(unsigned level) {
    return level == IR_LEVEL_GRAPH ? "graph" : level == IR_LEVEL_TILE ? "tile" : "kernel";
}

static void print_map(const IrTensorMap *map, Str *out) {
    str_printf(out, " of %s [", map->tensor);
    for (unsigned i = 0; i < map->rank; i++) str_printf(out, i ? ", %lld" : "%lld", (long long)map->box[i]);
    str_printf(out, "] swizzle %u%s", map->swizzle, map->tf32 ? " tf32" : "");
    if (map->joined > 1) str_printf(out, " joined %u", map->joined);
}

static void print_param(Printer *p, const IrParam *param, const IrValue *arg) {
    static const char *const kinds[] = {"tensor", "symbol", "scalar", "workspace", "map"};
    static const char *const directions[] = {"", " in", " out", " inout"};
    str_printf(p->out, "%s ", kinds[param->kind]);
    print_definition(p, arg);
    str_append(p->out, ": ");
    ir_print_type(arg->type, p->out);
    if (param->kind == IR_PARAM_TENSOR) str_append(p->out, directions[param->direction & 3]);
    if (param->type && param->type != arg->type) {
        str_append(p->out, " of ");
        ir_print_type(param->type, p->out);
    }
    if (param->derived) {
        str_append(p->out, " = ");
        aff_print(param->derived, p->out);
    }
    if (param->kind == IR_PARAM_SCALAR && !isnan(param->fallback)) {
        str_append(p->out, " = ");
        print_float(param->fallback, p->out);
    }
    if (param->elements) {
        str_append(p->out, " elements ");
        aff_print(param->elements, p->out);
    }
    if (param->kind == IR_PARAM_MAP) print_map(&param->map, p->out);
}

static void print_conditions(const IrFunc *f, Str *out) {
    if (f->guard) {
        str_append(out, "\n    guard ");
        aff_print(f->guard, out);
        str_append(out, " > 0");
    }
    for (size_t i = 0; i < f->constraint_count; i++) {
        const IrConstraint *c = &f->constraints[i];
        str_append(out, "\n    require ");
        aff_print(c->expr, out);
        str_append(out, c->equal ? " == 0" : " >= 0");
        if (!c->text) continue;
        str_append_char(out, ' ');
        print_string(c->text, out);
    }
    str_append_char(out, f->guard || f->constraint_count ? '\n' : ' ');
}

static void print_func(Printer *p, const IrFunc *f) {
    static const char *const states[] = {" open", " static", " mapped"};
    str_printf(p->out, "func @%s %s%s (", f->name, level_name(f->level), f->level == IR_LEVEL_TILE ? states[f->state] : "");
    for (unsigned i = 0; i < f->param_count; i++) {
        if (i) str_append(p->out, ", ");
        print_param(p, &f->params[i], f->body->args[i]);
    }
    str_append_char(p->out, ')');
    print_attrs(f->attrs, p->out);
    print_conditions(f, p->out);
    print_block(p, f->body, 0);
    str_append_char(p->out, '\n');
}

void ir_print_func(const IrFunc *f, Str *out) {
    Printer p;
    printer_init(&p, out);
    print_func(&p, f);
    printer_release(&p);
}

/* Names as in the whole function, found by printing it aside. */
void ir_print_op(const IrOp *op, Str *out) {
    Printer p;
    Str aside;
    str_init(&aside);
    printer_init(&p, &aside);
    if (op->block) print_func(&p, op->block->func);
    p.out = out;
    print_op(&p, op, 0);
    printer_release(&p);
    str_release(&aside);
}

/* ---- Modules ---- */

static void print_case(const IrCase *c, Str *out) {
    str_printf(out, "case @%s {", c->name);
    for (size_t i = 0; i < c->symbol_count; i++) str_printf(out, "%s%s = %lld", i ? ", " : "", c->symbols[i], (long long)c->values[i]);
    for (size_t i = 0; i < c->data_count; i++) {
        const IrCaseData *d = &c->data[i];
        str_printf(out, "%s%s = %s(", i ? ", " : "; ", d->tensor, d->generator);
        for (size_t k = 0; k < d->arg_count; k++) {
            if (k) str_append(out, ", ");
            if (!d->args[k].size) {
                print_float(d->args[k].number, out);
                continue;
            }
            str_append(out, "aff(");
            aff_print(d->args[k].size, out);
            str_append_char(out, ')');
        }
        str_append_char(out, ')');
    }
    str_append(out, "}\n");
}

void ir_print(const IrModule *m, Str *out) {
    ir_print_places(m, NULL, out, NULL);
}

void ir_print_places(const IrModule *m, Arena *arena, Str *out, IrPlaces *places) {
    str_append(out, "sketchc.ir 1\n");
    if (m->case_count) str_append_char(out, '\n');
    for (size_t i = 0; i < m->case_count; i++) print_case(&m->cases[i], out);
    for (const IrFunc *f = m->first; f; f = f->next) {
        str_append_char(out, '\n');
        Printer p;
        printer_init(&p, out);
        p.places_arena = arena;
        p.places = places;
        print_func(&p, f);
        printer_release(&p);
    }
}
