/* The verifier: structure, levels and states, order of definitions, functions. What an op means for
 * types stands in the other verify_*.c, driven by ops.def. */
#include <string.h>

#include "verify_internal.h"

/* ---- Findings ---- */

static void append_place(const Verifier *v, const IrOp *op, Str *out) {
    if (v->func) str_printf(out, "in @%s", v->func->name);
    if (v->func && op) {
        size_t start = out->len + 3;
        str_append(out, ", `");
        ir_print_op(op, out);
        size_t line = strcspn(out->data + start, "\n");
        if (line > 160) line = 160;
        out->len = start + line;
        out->data[out->len] = '\0';
        str_append_char(out, '`');
    }
    if (v->func) str_append(out, ": ");
}

bool ir_finding(Verifier *v, const IrOp *op, const char *format, ...) {
    Str text;
    va_list args;
    v->findings++;
    str_init(&text);
    if (v->findings <= 50) append_place(v, op, &text); /* printing is slow, later ones are not shown */
    va_start(args, format);
    str_vprintf(&text, format, args);
    va_end(args);
    diag_report(v->diags, DIAG_ir_invalid, op ? op->span : SPAN_NONE, text.data);
    str_release(&text);
    return false;
}

/* ---- Order of definitions ---- */

/* Ops are numbered in program order; a definition is visible when it stands before and its block
 * encloses the use. */
static bool visible(const IrValue *value, const IrOp *user) {
    const IrBlock *home = value->def ? value->def->block : value->block;
    if (!home || (value->def && value->def->mark >= user->mark)) return false;
    const IrBlock *block = user->block;
    while (block && block != home) block = block->parent ? block->parent->block : NULL;
    return block != NULL;
}

static bool check_operands(Verifier *v, const IrOp *op) {
    for (unsigned i = 0; i < op->operand_count; i++) {
        NEED(v, op, op->operands[i], "operand %u is missing", i);
        NEED(v, op, visible(op->operands[i], op), "operand %u is not defined before this op, or inside a region that has ended", i);
        NEED(v, op, op->operand_uses[i].op == op && op->operand_uses[i].index == i, "the use list of operand %u is broken", i);
    }
    return true;
}

/* ---- Shape of the structure ---- */

static bool check_counts(Verifier *v, const IrOp *op, const IrOpInfo *info) {
    unsigned n = op->operand_count;
    NEED(v, op, n >= (unsigned)info->min_operands, "needs at least %d operands", info->min_operands);
    NEED(v, op, info->max_operands < 0 || n <= (unsigned)info->max_operands, "takes at most %d operands", info->max_operands);
    NEED(v, op, info->results < 0 || op->result_count == (unsigned)info->results, "has %d results", info->results);
    NEED(v, op, op->region_count == (unsigned)info->regions, "has %d regions", info->regions);
    for (unsigned i = 0; i < op->result_count; i++) {
        NEED(v, op, op->results[i].type, "result %u has no type", i);
        NEED(v, op, op->results[i].def == op && op->results[i].index == i, "result %u is broken", i);
    }
    return true;
}

static bool check_level(Verifier *v, const IrOp *op, const IrOpInfo *info) {
    NEED(v, op, info->levels & v->func->level, "this op does not exist at the function's level");
    bool staged = strncmp(info->name, "buf.", 4) == 0 || strncmp(info->name, "async.", 6) == 0 || strncmp(info->name, "mbar.", 5) == 0 ||
                  strncmp(info->name, "tma.", 4) == 0 || strncmp(info->name, "wgmma", 5) == 0 || op->opcode == IR_BARRIER ||
                  op->opcode == IR_TILE_CONVERT || op->opcode == IR_TILE_COMBINE;
    bool before_mapping = v->func->level == IR_LEVEL_TILE && v->func->state != IR_STATE_MAPPED;
    NEED(v, op, !staged || !before_mapping, "this op exists in state mapped only");
    return true;
}

static bool check_region_end(Verifier *v, const IrOp *parent, const IrBlock *block) {
    IrOpcode want = parent ? IR_YIELD : IR_RETURN;
    bool may_be_empty = parent && !parent->result_count && (parent->opcode == IR_IF || parent->opcode == IR_MEM_ATOMIC);
    if (may_be_empty && !block->first) return true;
    NEED(v, parent, block->last && block->last->opcode == want, "%s does not end with %s", parent ? "a region" : "the body",
         ir_op_info(want)->name);
    for (const IrOp *op = block->first; op && op != block->last; op = op->next)
        NEED(v, op, !ir_has_trait(op, IR_TERMINATOR), "stands in the middle of a region");
    return true;
}

/* ---- Collectives ---- */

static IrUniformity control_uniformity(Verifier *v, IrOp *op) {
    uintptr_t known = (uintptr_t)pointer_table_find(&v->control, op);
    if (known) return (IrUniformity)(known - 1);
    IrUniformity worst = IR_UNIFORM_GRID;
    unsigned deciding = op->opcode == IR_IF ? 1 : op->opcode == IR_FOR || op->opcode == IR_PARALLEL ? 3 : 0;
    for (unsigned i = 0; i < deciding && i < op->operand_count; i++) {
        IrUniformity u = ir_uniformity(op->operands[i]);
        if (u > worst) worst = u;
    }
    pointer_table_put(&v->control, op, (void *)(uintptr_t)(worst + 1));
    return worst;
}

static bool check_collective(Verifier *v, const IrOp *op) {
    static const IrUniformity needed[] = {[IR_SCOPE_CLUSTER] = IR_UNIFORM_CLUSTER,
                                          [IR_SCOPE_BLOCK] = IR_UNIFORM_BLOCK,
                                          [IR_SCOPE_WARPGROUP] = IR_UNIFORM_ROLE,
                                          [IR_SCOPE_WARP] = IR_UNIFORM_WARP};
    IrScope scope = op->opcode == IR_BARRIER                                                                            ? ir_op_scope(op)
                    : op->opcode == IR_GRID_BARRIER_WAIT || op->opcode == IR_GRID_BARRIER_ARRIVE                        ? IR_SCOPE_BLOCK
                    : op->opcode == IR_CLUSTER_MEET || op->opcode == IR_CLUSTER_BEGIN || op->opcode == IR_CLUSTER_BEGUN ? IR_SCOPE_CLUSTER
                    : op->opcode == IR_BUF_GEMM || strncmp(ir_op_info(op->opcode)->name, "wgmma", 5) == 0               ? IR_SCOPE_BLOCK
                                                                                                                        : IR_SCOPE_WARP;
    IrUniformity allowed = needed[scope];
    static const char *const groups[] = {[IR_UNIFORM_GRID] = "grid", [IR_UNIFORM_CLUSTER] = "cluster", [IR_UNIFORM_BLOCK] = "block",
                                         [IR_UNIFORM_ROLE] = "role", [IR_UNIFORM_WARP] = "warp",       [IR_UNIFORM_LANE] = "lane"};
    for (IrOp *parent = op->block->parent; parent; parent = parent->block->parent)
        NEED(v, op, control_uniformity(v, parent) <= allowed,
             "all threads of the %s must reach this op, but an enclosing `%s` depends on the %s", ir_enum_word(IR_ENUM_SCOPE, scope),
             ir_op_info(parent->opcode)->name, groups[control_uniformity(v, parent)]);
    return true;
}

/* ---- Walk ---- */

static void check_block(Verifier *v, IrOp *parent, IrBlock *block, unsigned depth);

static bool check_links(Verifier *v, IrOp *parent, IrBlock *block) {
    const IrOp *previous = NULL;
    for (const IrOp *op = block->first; op; previous = op, op = op->next)
        NEED(v, parent, op->block == block && op->prev == previous, "the list of ops is broken");
    NEED(v, parent, block->last == previous, "the list of ops is broken");
    NEED(v, parent, block->parent == parent && block->func == v->func, "a region's owner is wrong");
    return true;
}

static bool check_values(Verifier *v, const IrOp *op) {
    for (unsigned i = 0; i < op->result_count; i++)
        if (!ir_check_type(v, op, op->results[i].type)) return false;
    for (unsigned r = 0; r < op->region_count; r++)
        for (unsigned i = 0; i < op->regions[r]->arg_count; i++)
            if (!ir_check_type(v, op, op->regions[r]->args[i]->type)) return false;
    return true;
}

static bool check_own_rule(Verifier *v, const IrOp *op) {
    IrCheck check = ir_control_check(op->opcode);
    if (!check) check = ir_tensor_check(op->opcode);
    if (!check) check = ir_axes_check(op->opcode);
    if (!check) check = ir_kernel_check(op->opcode);
    return !check || check(v, op);
}

static void check_op(Verifier *v, IrOp *op, unsigned depth) {
    const IrOpInfo *info = ir_op_info(op->opcode);
    op->mark = ++v->clock;
    bool sound = check_counts(v, op, info) && check_operands(v, op);
    for (unsigned i = 0; i < op->region_count && i < COUNT_OF(op->regions) && sound; i++) check_block(v, op, op->regions[i], depth + 1);
    if (!sound || !check_level(v, op, info) || !check_values(v, op) || !ir_check_attrs(v, op)) return;
    if (!ir_check_type_rule(v, op) || !check_own_rule(v, op)) return;
    if (info->traits & IR_COLLECTIVE) check_collective(v, op);
}

static void check_block(Verifier *v, IrOp *parent, IrBlock *block, unsigned depth) {
    if (depth > IR_MAX_NESTING) {
        ir_finding(v, NULL, "regions are nested deeper than %d", (int)IR_MAX_NESTING);
        return;
    }
    if (!check_links(v, parent, block)) return;
    for (IrOp *op = block->first; op; op = op->next) check_op(v, op, depth);
    check_region_end(v, parent, block);
}

/* ---- Functions ---- */

static bool check_param_type(Verifier *v, const IrParam *p, const IrType *t) {
    bool kernel = v->func->level == IR_LEVEL_KERNEL;
    switch (p->kind) {
    case IR_PARAM_SYMBOL:
        return ir_type_is_index(t);
    case IR_PARAM_SCALAR:
        return ir_type_is_scalar(t) && !t->is_index;
    case IR_PARAM_TENSOR:
    case IR_PARAM_WORKSPACE:
        return kernel ? t->kind == IR_TYPE_PTR && t->space == IR_SPACE_GLOBAL : t->kind == IR_TYPE_TENSOR;
    case IR_PARAM_MAP:
        return kernel && t->kind == IR_TYPE_PTR && t->space == IR_SPACE_MAP;
    }
    return false;
}

static bool name_is_fine(const char *name) {
    size_t length = name ? strlen(name) : 0;
    bool digit = length && name[0] >= '0' && name[0] <= '9';
    return length >= 1 && length <= IR_MAX_NAME && !digit &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == length;
}

/* Of a tensor of the function; the machine's limits. */
static bool check_map_param(Verifier *v, const IrParam *p, const IrType *t) {
    const IrFunc *f = v->func;
    const IrTensorMap *map = &p->map;
    unsigned at = 0;
    while (at < f->param_count && ((f->params[at].kind != IR_PARAM_TENSOR && f->params[at].kind != IR_PARAM_WORKSPACE) || !map->tensor ||
                                   strcmp(f->params[at].name, map->tensor) != 0))
        at++;
    NEED(v, NULL, at < f->param_count, "the map %s is of no tensor of the function", p->name);
    const IrType *tensor = f->params[at].type;
    NEED(v, NULL, f->body->args[at]->type->dtype == t->dtype, "the map %s has another dtype than its tensor", p->name);
    NEED(v, NULL, !tensor || tensor->kind != IR_TYPE_TENSOR || tensor->rank == map->rank, "the map %s has another rank than its tensor",
         p->name);
    NEED(v, NULL, map->rank >= 1 && (!map->swizzle || map->swizzle == 32 || map->swizzle == 64 || map->swizzle == 128),
         "the map %s has from 1 to 5 axes and a swizzle of 0, 32, 64 or 128 bytes", p->name);
    NEED(v, NULL, map->joined <= 1 || map->rank > 1, "the map %s joins rows of a tensor of one axis", p->name);
    NEED(v, NULL, !map->tf32 || t->dtype == DTYPE_F32, "the map %s rounds to tf32 what is no f32", p->name);
    for (unsigned a = 0; a < map->rank; a++)
        NEED(v, NULL, map->box[a] >= 1 && map->box[a] <= 256, "the box of the map %s is from 1 to 256 along an axis", p->name);
    int64_t bytes = map->box[map->rank - 1] * (int64_t)dtype_size(t->dtype);
    NEED(v, NULL, bytes % 16 == 0 && (!map->swizzle || bytes <= (int64_t)map->swizzle),
         "a row of the box of the map %s is a multiple of 16 bytes, and within the swizzle", p->name);
    return true;
}

static bool check_param(Verifier *v, unsigned i) {
    const IrFunc *f = v->func;
    const IrParam *p = &f->params[i];
    NEED(v, NULL, name_is_fine(p->name), "parameter %u has no usable name", i);
    for (unsigned k = 0; k < i; k++) NEED(v, NULL, strcmp(f->params[k].name, p->name) != 0, "two parameters are called %s", p->name);
    NEED(v, NULL, !i || f->params[i - 1].kind <= p->kind, "parameter %s is out of order", p->name);
    NEED(v, NULL, check_param_type(v, p, f->body->args[i]->type), "parameter %s has a type of the wrong kind", p->name);
    if (p->kind == IR_PARAM_MAP && !check_map_param(v, p, f->body->args[i]->type)) return false;
    NEED(v, NULL, p->kind != IR_PARAM_TENSOR || (p->direction >= IR_DIR_IN && p->direction <= IR_DIR_INOUT),
         "parameter %s has no direction", p->name);
    if (p->elements && !ir_check_aff(v, NULL, p->elements)) return false;
    if (p->derived && !ir_check_aff(v, NULL, p->derived)) return false;
    NEED(v, NULL, !p->type || p->type->dtype == f->body->args[i]->type->dtype, "parameter %s is declared with another dtype", p->name);
    for (unsigned k = 0; p->type && k < p->type->rank; k++)
        if (!ir_check_aff(v, NULL, p->type->extents[k])) return false;
    return ir_check_type(v, NULL, f->body->args[i]->type);
}

static bool check_attr(Verifier *v, const IrAttr *attr) {
    const IrFuncAttrInfo *info = ir_func_attr_find(attr->key);
    NEED(v, NULL, info, "functions have no attribute %s", attr->key);
    NEED(v, NULL, info->kind == attr->kind, "the attribute %s is of kind %s, not %s", attr->key, ir_attr_kind_name(attr->kind),
         ir_attr_kind_name(info->kind));
    NEED(v, NULL, info->levels & v->func->level, "the attribute %s is not for functions of this level", attr->key);
    return attr->kind != IR_ATTR_AFF || ir_check_aff(v, NULL, attr->aff);
}

static bool check_header(Verifier *v) {
    const IrFunc *f = v->func;
    NEED(v, NULL, f->level == IR_LEVEL_GRAPH || f->level == IR_LEVEL_TILE || f->level == IR_LEVEL_KERNEL, "the function has no level");
    NEED(v, NULL, f->body->arg_count == f->param_count, "the body's arguments are not the parameters");
    for (unsigned i = 0; i < f->param_count; i++)
        if (!check_param(v, i)) return false;
    for (size_t i = 0; i < f->constraint_count; i++)
        if (!ir_check_aff(v, NULL, f->constraints[i].expr)) return false;
    for (const IrAttr *attr = f->attrs; attr; attr = attr->next)
        if (!check_attr(v, attr)) return false;
    return !f->guard || ir_check_aff(v, NULL, f->guard);
}

static void check_func(Verifier *v, IrFunc *f) {
    v->func = f;
    v->clock = 0;
    v->types = pointer_table(v->scratch);
    v->control = pointer_table(v->scratch);
    if (check_header(v)) check_block(v, NULL, f->body, 0);
}

static bool names_are_unique(Verifier *v) {
    Map *seen = map_create(v->scratch);
    for (const IrFunc *f = v->module->first; f; f = f->next) {
        NEED(v, NULL, f->name && *f->name, "a function has no name");
        NEED(v, NULL, !map_get(seen, f->name), "two functions are called @%s", f->name);
        map_set(seen, v->scratch, f->name, (void *)f);
    }
    return true;
}

bool ir_verify(const IrModule *m, DiagList *diags) {
    Verifier v = {.module = (IrModule *)m, .diags = diags, .scratch = arena_create()};
    if (names_are_unique(&v))
        for (IrFunc *f = m->first; f; f = f->next) check_func(&v, f);
    arena_destroy(v.scratch);
    return v.findings == 0;
}
