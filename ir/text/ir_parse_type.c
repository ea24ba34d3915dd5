/* Types and attributes of text IR. */
#include <string.h>

#include "layout.h"
#include "parse_internal.h"

/* ---- Types ---- */

static bool parse_dtype(Parser *p, Dtype *t) {
    if (p->token.kind != TOKEN_NAME || !dtype_find(p->token.text, t)) return ir_expected(p, "a dtype");
    ir_next(p);
    return true;
}

typedef struct {
    const Aff *extents[IR_MAX_RANK], *strides[IR_MAX_RANK];
} Shape;

/* `[affs]` */
static bool parse_affs(Parser *p, const Aff **list, unsigned *count) {
    *count = 0;
    if (!ir_expect(p, '[')) return false;
    while (!ir_at(p, ']')) {
        if (*count && !ir_expect(p, ',')) return false;
        if (*count == IR_MAX_RANK) return ir_error(p, "the rank is limited to %d", (int)IR_MAX_RANK);
        if (!(list[*count] = ir_parse_aff(p))) return false;
        ++*count;
    }
    ir_next(p);
    return true;
}

/* `[affs] x dtype` */
static bool parse_shape(Parser *p, IrType *t, Shape *shape) {
    if (!parse_affs(p, shape->extents, &t->rank)) return false;
    if (!ir_accept_name(p, "x")) return ir_expected(p, "`x`");
    return parse_dtype(p, &t->dtype);
}

/* Behind the comma: `strides [affs]` of a tensor. */
static bool parse_strides(Parser *p, IrType *t, Shape *shape) {
    unsigned count;
    if (!ir_accept_name(p, "strides")) return ir_expected(p, "`strides`");
    if (!parse_affs(p, shape->strides, &count)) return false;
    t->strides = shape->strides;
    return count == t->rank || ir_error(p, "%u strides for %u axes", count, t->rank);
}

static bool parse_count(Parser *p, unsigned *count, int64_t limit) {
    if (p->token.kind != TOKEN_INT || p->token.integer < 1 || p->token.integer > limit)
        return ir_error(p, "expected a count from 1 to %lld", (long long)limit);
    *count = (unsigned)p->token.integer;
    ir_next(p);
    return ir_accept_name(p, "x") || ir_expected(p, "`x`");
}

static bool parse_space(Parser *p, IrSpace *space) {
    if (p->token.kind != TOKEN_NAME || !ir_space_find(p->token.text, space))
        return ir_expected(p, "a memory space (global, shared, local, cluster, map)");
    ir_next(p);
    return true;
}

/* At the comma before a layout, which has a text form of its own. */
static bool parse_layout(Parser *p, IrType *t) {
    if (t->kind != IR_TYPE_TILE && t->kind != IR_TYPE_BUF) return ir_error(p, "only tiles and buffers have layouts");
    uint32_t start = p->at;
    while (start < p->size && p->text[start] == ' ') start++;
    size_t length = 0;
    t->layout = layout_parse(ir_module_layouts(p->module), p->text + start, &length);
    uint32_t end = start + (uint32_t)length;
    if (!t->layout) return ir_error_at(p, (Span){p->file, end, end}, "this is not a layout");
    p->at = end;
    ir_next(p);
    if (t->layout->rank != t->rank) return ir_error(p, "the layout before has %u axes, the tile %u", t->layout->rank, t->rank);
    return true;
}

static bool parse_inside(Parser *p, IrType *t, Shape *shape) {
    if (t->kind == IR_TYPE_SCALAR) return parse_count(p, &t->width, 1024) && parse_dtype(p, &t->dtype);
    if (t->kind == IR_TYPE_PTR) return parse_dtype(p, &t->dtype) && ir_expect(p, ',') && parse_space(p, &t->space);
    if (t->kind == IR_TYPE_BUF && !parse_count(p, &t->stages, 4096)) return false;
    if (!parse_shape(p, t, shape)) return false;
    if (t->kind == IR_TYPE_BUF && (!ir_expect(p, ',') || !parse_space(p, &t->space))) return false;
    if (!ir_at(p, ',')) return true;
    if (t->kind != IR_TYPE_TENSOR) return parse_layout(p, t);
    ir_next(p);
    return parse_strides(p, t, shape);
}

static const IrType *make_type(Parser *p, const IrType *t, const Shape *shape) {
    IrModule *m = p->module;
    const Aff *const *extents = shape->extents;
    const IrType *dense;
    switch (t->kind) {
    case IR_TYPE_SCALAR:
        return ir_type_vec(m, t->dtype, t->width);
    case IR_TYPE_PTR:
        return ir_type_ptr(m, t->dtype, t->space);
    case IR_TYPE_TILE:
        return ir_type_tile(m, t->dtype, t->rank, extents, t->layout);
    case IR_TYPE_TENSOR:
        dense = ir_type_tensor(m, t->dtype, t->rank, extents);
        return t->strides ? ir_type_strided(m, dense, t->strides) : dense;
    case IR_TYPE_BUF:
        return ir_type_buf(m, t->dtype, t->rank, extents, t->stages, t->space, t->layout);
    default:
        break;
    }
    int64_t sizes[IR_MAX_RANK];
    for (unsigned i = 0; i < t->rank; i++) { /* NOLINTNEXTLINE(*CallAndMessage): the shape has as many extents */
        if (aff_is_const(extents[i], &sizes[i]) && sizes[i] >= 1) continue;
        ir_error(p, "the extents of a frag are constants of at least 1");
        return NULL;
    }
    return ir_type_frag(m, t->dtype, t->rank, sizes);
}

static bool type_kind(const char *name, IrTypeKind *kind) {
    static const struct {
        const char *name;
        IrTypeKind kind;
    } kinds[] = {{"vec", IR_TYPE_SCALAR}, {"tile", IR_TYPE_TILE}, {"tensor", IR_TYPE_TENSOR},
                 {"buf", IR_TYPE_BUF},    {"frag", IR_TYPE_FRAG}, {"ptr", IR_TYPE_PTR}};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        if (strcmp(kinds[i].name, name) != 0) continue;
        *kind = kinds[i].kind;
        return true;
    }
    return false;
}

const IrType *ir_parse_type(Parser *p) {
    IrType t = {.width = 1};
    Shape shape;
    if (ir_accept_name(p, "index")) return ir_type_index(p->module);
    if (ir_accept_name(p, "token")) return ir_type_token(p->module);
    if (p->token.kind == TOKEN_NAME && dtype_find(p->token.text, &t.dtype)) {
        ir_next(p);
        return ir_type_scalar(p->module, t.dtype);
    }
    if (p->token.kind != TOKEN_NAME || !type_kind(p->token.text, &t.kind)) {
        ir_expected(p, "a type");
        return NULL;
    }
    ir_next(p);
    if (!ir_expect(p, '<') || !parse_inside(p, &t, &shape)) return NULL;
    const IrType *made = make_type(p, &t, &shape);
    return made && ir_expect(p, '>') ? made : NULL;
}

/* ---- Attributes ---- */

bool ir_at_attrs(const Parser *p) {
    if (!ir_at(p, '{')) return false;
    uint32_t at = p->at;
    while (at < p->size && strchr(" \t\r\n", p->text[at]) && p->text[at]) at++;
    uint32_t word = at;
    while (at < p->size && (p->text[at] == '_' || (p->text[at] >= 'a' && p->text[at] <= 'z') ||
                            (p->text[at] >= 'A' && p->text[at] <= 'Z') || (p->text[at] >= '0' && p->text[at] <= '9')))
        at++;
    if (at == word) return false;
    while (at < p->size && (p->text[at] == ' ' || p->text[at] == '\t')) at++;
    return at < p->size && p->text[at] == '=';
}

bool ir_parse_number(Parser *p, double *value) {
    if (p->token.kind == TOKEN_INT)
        *value = (double)p->token.integer;
    else if (p->token.kind == TOKEN_FLOAT)
        *value = p->token.number;
    else if (ir_at_name(p, "inf") || ir_at_name(p, "nan"))
        parse_double(p->token.text, value);
    else
        return ir_expected(p, "a number");
    ir_next(p);
    return true;
}

bool ir_parse_integer(Parser *p, int64_t *value) {
    if (p->token.kind != TOKEN_INT) return ir_expected(p, "an integer");
    *value = p->token.integer;
    ir_next(p);
    return true;
}

/* `[...]` of integers or of strings; an empty list takes the kind that the op's row says. */
static bool parse_list(Parser *p, IrAttr *attr, bool empty_is_strs) {
    VEC(int64_t) ints = {0};
    VEC(const char *) strs = {0};
    ir_next(p);
    while (!ir_at(p, ']')) {
        if (ints.len + strs.len && !ir_expect(p, ',')) return false;
        if (ints.len + strs.len == IR_MAX_LIST) return ir_error(p, "this list is too long");
        if (p->token.kind == TOKEN_STRING && !ints.len)
            VEC_PUSH(p->module->arena, &strs, ir_intern_string(p->module, p->token.text));
        else if (p->token.kind == TOKEN_INT && !strs.len)
            VEC_PUSH(p->module->arena, &ints, p->token.integer);
        else
            return ir_expected(p, strs.len ? "a string" : "an integer");
        ir_next(p);
    }
    ir_next(p);
    bool is_strs = strs.len || (!ints.len && empty_is_strs);
    attr->kind = is_strs ? IR_ATTR_STRS : IR_ATTR_INTS;
    attr->count = is_strs ? strs.len : ints.len;
    attr->ints = ints.data;
    attr->strs = strs.data;
    return true;
}

/* aff(...), type(...), dtype(...) */
static bool parse_wrapped(Parser *p, IrAttr *attr) {
    bool is_aff = ir_at_name(p, "aff"), is_type = ir_at_name(p, "type");
    if (!is_aff && !is_type && !ir_at_name(p, "dtype")) return ir_expected(p, "an attribute's value");
    ir_next(p);
    if (!ir_expect(p, '(')) return false;
    Dtype dtype = DTYPE_NONE;
    attr->kind = is_aff ? IR_ATTR_AFF : is_type ? IR_ATTR_TYPE : IR_ATTR_DTYPE;
    if (is_aff && !(attr->aff = ir_parse_aff(p))) return false;
    if (is_type && !(attr->type = ir_parse_type(p))) return false;
    if (!is_aff && !is_type && !parse_dtype(p, &dtype)) return false;
    attr->integer = (int64_t)dtype;
    return ir_expect(p, ')');
}

static bool parse_attr_value(Parser *p, IrAttr *attr, const IrAttrSpec *spec) {
    if (ir_at(p, '[')) return parse_list(p, attr, spec && spec->kind == IR_ATTR_STRS);
    if (p->token.kind == TOKEN_STRING) {
        bool is_enum = spec && !spec->any && spec->kind == IR_ATTR_ENUM;
        unsigned word = is_enum ? ir_enum_find(spec->set, p->token.text) : 0;
        if (is_enum && !word) return ir_error(p, "there is no %s `%s`", ir_enum_name(spec->set), p->token.text);
        attr->kind = IR_ATTR_STR;
        attr->string = ir_intern_string(p->module, p->token.text);
        if (word) ir_attr_fill_enum(attr, spec->set, word);
        ir_next(p);
        return true;
    }
    if (ir_at_name(p, "true") || ir_at_name(p, "false")) {
        attr->kind = IR_ATTR_BOOL;
        attr->integer = ir_at_name(p, "true");
        ir_next(p);
        return true;
    }
    bool wants_float = spec && !spec->any && spec->kind == IR_ATTR_FLOAT;
    if (p->token.kind == TOKEN_INT && !wants_float) {
        attr->kind = IR_ATTR_INT;
        return ir_parse_integer(p, &attr->integer);
    }
    if (p->token.kind != TOKEN_NAME || ir_at_name(p, "inf") || ir_at_name(p, "nan")) {
        attr->kind = IR_ATTR_FLOAT;
        return ir_parse_number(p, &attr->number);
    }
    return parse_wrapped(p, attr);
}

/* What is known of an attribute of an op, of one of a function where `info` is null. */
static bool find_spec(const IrOpInfo *info, const char *key, IrAttrSpec *spec) {
    if (info) return ir_attr_spec_find(info, key, spec);
    const IrFuncAttrInfo *row = ir_func_attr_find(key);
    if (row)
        *spec = (IrAttrSpec){.kind = row->kind, .optional = true, .set = row->kind == IR_ATTR_ENUM ? ir_enum_named(key) : IR_ENUM_KIND};
    return row;
}

bool ir_parse_attrs(Parser *p, IrAttr **list, const IrOpInfo *info) {
    ir_next(p);
    while (!ir_at(p, '}')) {
        if (*list && !ir_expect(p, ',')) return false;
        if (p->token.kind != TOKEN_NAME) return ir_expected(p, "an attribute's name");
        if (strlen(p->token.text) > IR_MAX_NAME) return ir_error(p, "this name is too long");
        if (ir_attr_in(*list, p->token.text)) return ir_error(p, "the attribute `%s` stands twice", p->token.text);
        IrAttrSpec spec;
        bool known = find_spec(info, p->token.text, &spec);
        if (!known && !info) return ir_error(p, "functions have no attribute `%s`", p->token.text);
        IrAttr *attr = ir_attr_slot(p->module, list, p->token.text, IR_ATTR_INT);
        ir_next(p);
        if (!ir_expect(p, '=') || !parse_attr_value(p, attr, known ? &spec : NULL)) return false;
        if (!info && attr->kind == IR_ATTR_INT && spec.kind == IR_ATTR_AFF) {
            attr->kind = IR_ATTR_AFF;
            attr->aff = aff_const(p->module->affs, attr->integer);
        }
    }
    ir_next(p);
    return true;
}
