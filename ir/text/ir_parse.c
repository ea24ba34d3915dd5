/* The parser of text IR: ops, regions, modules; one shape for every op, checked by the op table.
 * After a mistake it goes on at the next op or function, so that one run shows them all. */

#include "parse_internal.h"

typedef VEC(Token) TokenList;
typedef VEC(unsigned) NumberList;
typedef VEC(IrValue *) ValueList;
typedef VEC(const IrType *) TypeList;

/* ---- Recovery ---- */

static bool at_item(const Parser *p) {
    return p->token.first_on_line && (ir_at_name(p, "func") || ir_at_name(p, "case"));
}

/* To the next token that starts a line outside the braces opened since: an op or the enclosing `}`
 * (one inside a line ends attributes). */
static void skip_op(Parser *p) {
    for (unsigned depth = 0; p->token.kind != TOKEN_END; ir_next(p)) {
        bool starts = p->token.kind == TOKEN_VALUE || p->token.kind == TOKEN_NAME || ir_at(p, '}');
        if (depth == 0 && p->token.first_on_line && starts) return;
        if (ir_at(p, '{')) depth++;
        if (ir_at(p, '}') && depth) depth--;
    }
}

static void skip_to_item(Parser *p) {
    while (p->token.kind != TOKEN_END && !at_item(p)) ir_next(p);
}

/* ---- Pieces of an op ---- */

static IrValue *use_value(Parser *p) {
    IrValue *v = map_get(p->values, p->token.text);
    if (v) return v;
    ir_error(p, "`%%%s` is not defined before this place", p->token.text);
    return p->missing;
}

static bool parse_operands(Parser *p, ValueList *operands) {
    if (!ir_expect(p, '(')) return false;
    while (!ir_at(p, ')')) {
        if (operands->len && !ir_expect(p, ',')) return false;
        if (operands->len == IR_MAX_LIST) return ir_error(p, "too many operands");
        if (p->token.kind != TOKEN_VALUE) return ir_expected(p, "an operand");
        VEC_PUSH(p->scratch, operands, use_value(p));
        ir_next(p);
    }
    ir_next(p);
    return true;
}

static bool parse_results(Parser *p, TokenList *names, NumberList *storages) {
    if (p->token.kind != TOKEN_VALUE) return true;
    do {
        Token name;
        unsigned storage;
        if (!ir_parse_definition(p, &name, &storage)) return false;
        if (names->len == IR_MAX_LIST) return ir_error(p, "too many results");
        VEC_PUSH(p->scratch, names, name);
        VEC_PUSH(p->scratch, storages, storage);
    } while (ir_accept(p, ','));
    return ir_expect(p, '=');
}

static bool parse_types(Parser *p, TypeList *types) {
    if (!ir_accept(p, ':')) return true;
    do {
        const IrType *t = ir_parse_type(p);
        if (!t) return false;
        if (types->len == IR_MAX_LIST) return ir_error(p, "too many results");
        VEC_PUSH(p->scratch, types, t);
    } while (ir_accept(p, ','));
    return true;
}

static bool parse_opcode(Parser *p, IrOpcode *opcode) {
    if (p->token.kind != TOKEN_NAME) return ir_expected(p, "an op");
    if (!ir_op_find(p->token.text, opcode)) {
        const char *names[IR_OP_COUNT];
        for (unsigned i = 0; i < IR_OP_COUNT; i++) names[i] = ir_op_info((IrOpcode)i)->name;
        const char *close = closest_name(p->token.text, names, IR_OP_COUNT);
        return close ? ir_error(p, "there is no op `%s`; did you mean `%s`?", p->token.text, close)
                     : ir_error(p, "there is no op `%s`", p->token.text);
    }
    ir_next(p);
    return true;
}

static bool check_counts(Parser *p, Span span, const IrOpInfo *info, size_t operands, size_t results) {
    if (operands < (size_t)info->min_operands || (info->max_operands >= 0 && operands > (size_t)info->max_operands))
        return ir_error_at(p, span, "`%s` takes %s%d operands, here are %zu", info->name, info->max_operands < 0 ? "at least " : "",
                           info->max_operands < 0 || operands < (size_t)info->min_operands ? info->min_operands : info->max_operands,
                           operands);
    if (info->results >= 0 && results != (size_t)info->results)
        return ir_error_at(p, span, "`%s` has %d results, here are %zu", info->name, info->results, results);
    return true;
}

/* ---- Regions ---- */

static bool parse_region_args(Parser *p, IrBlock *region) {
    if (!ir_accept(p, '(')) return true;
    while (!ir_at(p, ')')) {
        Token name;
        unsigned storage = 0;
        if (region->arg_count && !ir_expect(p, ',')) return false;
        if (region->arg_count == IR_MAX_LIST) return ir_error(p, "too many arguments");
        if (!ir_parse_definition(p, &name, &storage) || !ir_expect(p, ':')) return false;
        const IrType *type = ir_parse_type(p);
        if (!type) return false;
        IrValue *arg = ir_region_add_arg(region, type, NULL);
        arg->storage = storage;
        ir_define_value(p, &name, arg);
    }
    ir_next(p);
    return true;
}

static bool parse_regions(Parser *p, IrOp *op) {
    for (unsigned i = 0; i < op->region_count; i++)
        if (!parse_region_args(p, op->regions[i]) || !ir_parse_body(p, op->regions[i])) return false;
    return true;
}

static bool parse_op(Parser *p, IrBlock *block) {
    TokenList names = {0};
    NumberList storages = {0};
    ValueList operands = {0};
    TypeList types = {0};
    IrAttr *attrs = NULL;
    IrOpcode opcode = IR_CONST;
    if (++p->op_count > IR_MAX_OPS) return ir_error(p, "more than %d ops", (int)IR_MAX_OPS);
    if (!parse_results(p, &names, &storages)) return false;
    Span span = ir_token_span(p);
    if (!parse_opcode(p, &opcode) || !parse_operands(p, &operands)) return false;
    const IrOpInfo *info = ir_op_info(opcode);
    if (ir_at_attrs(p) && !ir_parse_attrs(p, &attrs, info)) return false;
    if (!parse_types(p, &types)) return false;
    if (types.len != names.len) return ir_error_at(p, span, "%zu results are named, %zu types are given", names.len, types.len);
    if (!check_counts(p, span, info, operands.len, names.len)) return false;
    IrBuilder b = ir_builder_at_end(block);
    b.span = span;
    IrOp *op = ir_op_create(&b, opcode, (unsigned)operands.len, operands.data, (unsigned)types.len, types.data);
    op->attrs = attrs;
    bool good = parse_regions(p, op);
    for (size_t i = 0; i < names.len; i++) {
        op->results[i].storage = storages.data[i];
        ir_define_value(p, &names.data[i], &op->results[i]);
    }
    return good;
}

bool ir_parse_body(Parser *p, IrBlock *block) {
    if (!ir_at(p, '{')) return ir_expected(p, "`{`");
    if (p->nesting == IR_MAX_NESTING) return ir_error(p, "regions are nested deeper than %d", (int)IR_MAX_NESTING);
    p->nesting++;
    ir_next(p);
    while (!ir_at(p, '}') && p->token.kind != TOKEN_END && !at_item(p)) {
        uint32_t begin = p->token.begin;
        if (parse_op(p, block)) continue;
        if (p->token.begin == begin) ir_next(p);
        skip_op(p);
    }
    p->nesting--;
    return ir_expect(p, '}');
}

/* ---- Modules ---- */

static void parse_header(Parser *p) {
    if (ir_at_name(p, "sketchc.ir")) {
        ir_next(p);
        if (p->token.kind == TOKEN_INT && p->token.integer == 1) {
            ir_next(p);
            return;
        }
        ir_error(p, "this version of text IR is not known; it is 1 here");
    } else {
        ir_expected(p, "the header `sketchc.ir 1`");
    }
    skip_to_item(p);
}

static void parse_items(Parser *p) {
    while (p->token.kind != TOKEN_END) {
        bool good = ir_at_name(p, "func")   ? ir_parse_func(p)
                    : ir_at_name(p, "case") ? ir_parse_case(p)
                                            : ir_expected(p, "`func` or `case`");
        if (good) continue;
        if (at_item(p)) continue;
        if (p->token.kind != TOKEN_END) ir_next(p);
        skip_to_item(p);
    }
}

IrModule *ir_parse(Arena *arena, DiagList *diags, const char *path, const char *text, size_t size) {
    if (size > IR_MAX_TEXT) {
        diag_report(diags, DIAG_ir_syntax, SPAN_NONE, "the text is larger than 64 MiB");
        return NULL;
    }
    uint32_t file = diags->sources ? source_add(diags->sources, path, text, size) : 0;
    Parser p = {
        .scratch = arena_create(), .module = ir_module_create(arena, diags->sources), .diags = diags, .file = file, .size = (uint32_t)size};
    p.text = arena_strndup(p.scratch, text, size);
    p.missing = ARENA_NEW(arena, IrValue);
    p.missing->type = ir_type_index(p.module);
    ir_next(&p);
    parse_header(&p);
    parse_items(&p);
    arena_destroy(p.scratch);
    return p.mistakes ? NULL : p.module;
}
