/* Functions and cases of text IR. */
#include <math.h>
#include <string.h>

#include "analyzer.h"
#include "parse_internal.h"

/* ---- Values ---- */

static bool is_number(const char *name) {
    return name[strspn(name, "0123456789")] == '\0';
}

bool ir_define_value(Parser *p, const Token *name, IrValue *value) {
    ANALYZER_ASSUME(name->text);
    if (map_get(p->values, name->text))
        return ir_error_at(p, (Span){p->file, name->begin, name->end}, "`%%%s` is defined twice", name->text);
    map_set(p->values, p->scratch, name->text, value);
    if (!is_number(name->text)) value->name = ir_intern_string(p->module, name->text);
    return true;
}

/* `%name` or `%name!storage` */
bool ir_parse_definition(Parser *p, Token *name, unsigned *storage) {
    *storage = 0;
    if (p->token.kind != TOKEN_VALUE) return ir_expected(p, "a value's name");
    *name = p->token;
    if (strlen(name->text) > IR_MAX_NAME) return ir_error(p, "names have at most %d letters", (int)IR_MAX_NAME);
    ir_next(p);
    if (!ir_accept(p, '!')) return true;
    int64_t number = 0;
    if (p->token.kind != TOKEN_INT || p->token.integer < 1 || p->token.integer > UINT32_MAX) return ir_expected(p, "a storage number");
    if (!ir_parse_integer(p, &number)) return false;
    *storage = (unsigned)number;
    return true;
}

/* ---- Parameters ---- */

static bool parse_param_kind(Parser *p, IrParamKind *kind) {
    static const char *const names[] = {"tensor", "symbol", "scalar", "workspace", "map"};
    for (unsigned i = 0; i < COUNT_OF(names); i++) {
        if (!ir_accept_name(p, names[i])) continue;
        *kind = (IrParamKind)i;
        return true;
    }
    return ir_expected(p, "a parameter (tensor, symbol, scalar, workspace or map)");
}

static bool parse_direction(Parser *p, IrDirection *direction) {
    if (ir_accept_name(p, "in"))
        *direction = IR_DIR_IN;
    else if (ir_accept_name(p, "out"))
        *direction = IR_DIR_OUT;
    else if (ir_accept_name(p, "inout"))
        *direction = IR_DIR_INOUT;
    else
        return ir_expected(p, "a direction (in, out, inout)");
    return true;
}

/* `of A [1, 64] swizzle 128`, and `tf32`, `joined 4` */
static bool parse_map(Parser *p, IrTensorMap *map) {
    int64_t swizzle = 0, joined = 1;
    if (!ir_accept_name(p, "of")) return ir_expected(p, "`of` and the tensor of the map");
    if (p->token.kind != TOKEN_NAME) return ir_expected(p, "the name of a tensor");
    map->tensor = ir_intern_string(p->module, p->token.text);
    ir_next(p);
    if (!ir_expect(p, '[')) return false;
    while (!ir_at(p, ']')) {
        if (map->rank && !ir_expect(p, ',')) return false;
        if (map->rank == IR_MAP_RANK) return ir_error(p, "a tensor map has at most %d axes", (int)IR_MAP_RANK);
        if (!ir_parse_integer(p, &map->box[map->rank++])) return false;
    }
    ir_next(p);
    if (!ir_accept_name(p, "swizzle")) return ir_expected(p, "`swizzle`");
    if (!ir_parse_integer(p, &swizzle)) return false;
    if (swizzle < 0 || swizzle > 128) return ir_error(p, "a swizzle is of 0, 32, 64 or 128 bytes");
    map->swizzle = (unsigned)swizzle;
    map->tf32 = ir_accept_name(p, "tf32");
    if (ir_accept_name(p, "joined") && !ir_parse_integer(p, &joined)) return false;
    if (joined < 1 || joined > 256) return ir_error(p, "a map joins from 1 to 256 rows");
    map->joined = (unsigned)joined;
    return true;
}

static bool parse_param_tail(Parser *p, IrParam *param) {
    if (param->kind == IR_PARAM_TENSOR && !parse_direction(p, &param->direction)) return false;
    if (param->kind == IR_PARAM_MAP) return parse_map(p, &param->map);
    if (ir_accept_name(p, "of") && !(param->type = ir_parse_type(p))) return false;
    if (param->kind == IR_PARAM_SYMBOL && ir_accept(p, '=')) return (param->derived = ir_parse_aff(p)) != NULL;
    if (param->kind == IR_PARAM_SCALAR && ir_accept(p, '=')) return ir_parse_number(p, &param->fallback);
    if (param->kind == IR_PARAM_WORKSPACE && ir_accept_name(p, "elements")) return (param->elements = ir_parse_aff(p)) != NULL;
    return true;
}

static bool parse_param(Parser *p) {
    IrParam param = {.fallback = NAN}; /* NOLINT(bugprone-invalid-enum-default-initialization): the direction is read below */
    Token name = {0};
    unsigned storage = 0;
    if (!parse_param_kind(p, &param.kind) || !ir_parse_definition(p, &name, &storage)) return false;
    IrFunc *f = p->func;
    if (f->param_count && f->params[f->param_count - 1].kind > param.kind)
        return ir_error_at(p, (Span){p->file, name.begin, name.end},
                           "parameters stand in the order tensors, symbols, scalars, workspaces, maps");
    if (f->param_count == IR_MAX_LIST) return ir_error(p, "too many parameters");
    if (!ir_expect(p, ':')) return false;
    const IrType *type = ir_parse_type(p);
    if (!type || !parse_param_tail(p, &param)) return false;
    IrValue *arg = ir_func_add_param(f, param.kind, name.text, type, param.direction);
    param.name = arg->name;
    f->params[f->param_count - 1] = param;
    arg->storage = storage;
    return ir_define_value(p, &name, arg);
}

static bool parse_params(Parser *p) {
    if (!ir_expect(p, '(')) return false;
    while (!ir_at(p, ')')) {
        if (p->func->param_count && !ir_expect(p, ',')) return false;
        if (!parse_param(p)) return false;
    }
    ir_next(p);
    return true;
}

/* ---- Guard and constraints ---- */

static bool parse_guard(Parser *p) {
    if (!(p->func->guard = ir_parse_aff(p))) return false;
    int64_t zero = 0;
    if (!ir_expect(p, '>')) return false;
    if (p->token.kind != TOKEN_INT || p->token.integer) return ir_expected(p, "`0`");
    return ir_parse_integer(p, &zero);
}

static bool parse_require(Parser *p) {
    const Aff *e = ir_parse_aff(p);
    if (!e) return false;
    bool equal = ir_at(p, '=');
    if (!equal && !ir_at(p, '>')) return ir_expected(p, "`== 0` or `>= 0`");
    ir_next(p);
    if (!ir_expect(p, '=')) return false;
    if (p->token.kind != TOKEN_INT || p->token.integer) return ir_expected(p, "`0`");
    ir_next(p);
    const char *text = p->token.kind == TOKEN_STRING ? p->token.text : NULL;
    if (p->func->constraint_count == IR_MAX_LIST) return ir_error(p, "too many constraints");
    ir_func_add_constraint(p->func, e, equal, text);
    if (text) ir_next(p);
    return true;
}

static bool parse_conditions(Parser *p) {
    for (;;) {
        if (ir_accept_name(p, "guard")) {
            if (!parse_guard(p)) return false;
        } else if (ir_accept_name(p, "require")) {
            if (!parse_require(p)) return false;
        } else {
            return true;
        }
    }
}

/* ---- Functions ---- */

static bool parse_level(Parser *p, unsigned *level, IrState *state) {
    *state = IR_STATE_OPEN;
    if (ir_accept_name(p, "graph"))
        *level = IR_LEVEL_GRAPH;
    else if (ir_accept_name(p, "kernel"))
        *level = IR_LEVEL_KERNEL;
    else if (!ir_accept_name(p, "tile"))
        return ir_expected(p, "a level (graph, tile, kernel)");
    else {
        *level = IR_LEVEL_TILE;
        if (ir_accept_name(p, "open"))
            *state = IR_STATE_OPEN;
        else if (ir_accept_name(p, "static"))
            *state = IR_STATE_STATIC;
        else if (ir_accept_name(p, "mapped"))
            *state = IR_STATE_MAPPED;
        else
            return ir_expected(p, "a state (open, static, mapped)");
    }
    return true;
}

bool ir_parse_func(Parser *p) {
    unsigned level = 0;
    IrState state = IR_STATE_OPEN;
    ir_next(p);
    if (p->token.kind != TOKEN_SYMBOL) return ir_expected(p, "a function's name (@name)");
    for (IrFunc *f = p->module->first; f; f = f->next)
        if (strcmp(f->name, p->token.text) == 0) return ir_error(p, "`@%s` is defined twice", f->name);
    const char *name = p->token.text;
    ir_next(p);
    if (!parse_level(p, &level, &state)) return false;
    p->func = ir_func_create(p->module, name, level);
    p->func->state = state;
    p->values = map_create(p->scratch);
    if (!parse_params(p)) return false;
    if (ir_at_attrs(p) && !ir_parse_attrs(p, &p->func->attrs, NULL)) return false;
    return parse_conditions(p) && ir_parse_body(p, p->func->body);
}

/* ---- Cases ---- */

/* A number, or aff(...) of the case's symbols. */
static bool parse_case_arg(Parser *p, IrCaseArg *arg) {
    *arg = (IrCaseArg){0};
    if (!ir_at_name(p, "aff")) return ir_parse_number(p, &arg->number);
    ir_next(p);
    return ir_expect(p, '(') && (arg->size = ir_parse_aff(p)) && ir_expect(p, ')');
}

static bool parse_case_data(Parser *p, IrCase *c) {
    if (p->token.kind != TOKEN_NAME) return ir_expected(p, "a tensor's name");
    const char *tensor = p->token.text;
    ir_next(p);
    if (!ir_expect(p, '=')) return false;
    if (p->token.kind != TOKEN_NAME) return ir_expected(p, "a generator");
    const char *generator = p->token.text;
    ir_next(p);
    if (!ir_expect(p, '(')) return false;
    IrCaseArg args[16];
    size_t count = 0;
    while (!ir_at(p, ')')) {
        if (count && !ir_expect(p, ',')) return false;
        if (count == COUNT_OF(args)) return ir_error(p, "too many arguments");
        if (!parse_case_arg(p, &args[count++])) return false;
    }
    ir_next(p);
    if (c->data_count == IR_MAX_LIST) return ir_error(p, "this case is too long");
    ir_case_set_data(p->module, c, tensor, generator, count, args);
    return true;
}

static bool parse_case_symbol(Parser *p, IrCase *c) {
    if (p->token.kind != TOKEN_NAME) return ir_expected(p, "a symbol's name");
    const char *symbol = p->token.text;
    int64_t value = 0;
    ir_next(p);
    if (!ir_expect(p, '=') || !ir_parse_integer(p, &value)) return false;
    if (c->symbol_count == IR_MAX_LIST) return ir_error(p, "this case is too long");
    ir_case_set_symbol(p->module, c, symbol, value);
    return true;
}

bool ir_parse_case(Parser *p) {
    ir_next(p);
    if (p->token.kind != TOKEN_SYMBOL) return ir_expected(p, "a case's name (@name)");
    if (p->module->case_count == IR_MAX_LIST) return ir_error(p, "too many cases");
    IrCase *c = ir_module_add_case(p->module, p->token.text);
    ir_next(p);
    if (!ir_expect(p, '{')) return false;
    while (!ir_at(p, ';') && !ir_at(p, '}')) {
        if (c->symbol_count && !ir_expect(p, ',')) return false;
        if (!parse_case_symbol(p, c)) return false;
    }
    if (ir_accept(p, ';')) {
        while (!ir_at(p, '}')) {
            if (c->data_count && !ir_expect(p, ',')) return false;
            if (!parse_case_data(p, c)) return false;
        }
    }
    return ir_expect(p, '}');
}
