#include "c_internal.h"
#include "query.h"

#include <string.h>

/* ---- Parameters and signatures ---- */

/* All versions of a step are handed its tensors by one caller: read only is what none of them writes
 * (one for extents that cannot occur is empty and writes nothing). */
static bool read_only_in_step(const IrStep *step, const IrFunc *f, unsigned i) {
    for (unsigned v = 0; v < step->version_count; v++) {
        const IrFunc *g = step->versions[v];
        for (unsigned k = 0; k < g->param_count; k++)
            if (strcmp(g->params[k].name, f->params[i].name) == 0 && !param_is_read_only(g, k)) return false;
    }
    return true;
}

static const char *param_type(CPrinter *p, const IrFunc *f, unsigned i, bool restricted) {
    const IrValue *v = f->body->args[i];
    if (f->params[i].kind == IR_PARAM_MAP) return "const __grid_constant__ TensorMap";
    if (v->type->kind != IR_TYPE_PTR) return v->type->is_index ? p->dialect->index_type : c_type(p, v->type->dtype);
    return arena_printf(p->arena, "%s%s *%s", read_only_in_step(ir_plan_step(&p->plan, f), f, i) ? "const " : "", c_type(p, v->type->dtype),
                        restricted && !param_is_shared(f, i) ? p->dialect->restrict_word : "");
}

CList c_parameters(CPrinter *p, const IrFunc *f, bool restricted, const char *extra) {
    const char **items = ARENA_ARRAY(p->arena, const char *, f->body->arg_count + 1);
    size_t n = 0;
    for (unsigned i = 0; i < f->body->arg_count; i++) {
        if (f->params[i].kind == IR_PARAM_MAP) p->tensor_maps = true;
        if (f->params[i].kind == IR_PARAM_MAP && !restricted) continue; /* the launcher makes it */
        const char *type = param_type(p, f, i, restricted), *name = c_use(p, f->body->args[i]).text;
        bool tight = type[strlen(type) - 1] == '*';
        items[n++] = arena_printf(p->arena, "%s%s%s", type, tight ? "" : " ", name);
    }
    if (extra) items[n++] = extra;
    if (!n) items[n++] = "void";
    return (CList){items, n};
}

CList c_arguments(CPrinter *p, const IrFunc *f) {
    const char **items = ARENA_ARRAY(p->arena, const char *, f->body->arg_count + 1);
    for (unsigned i = 0; i < f->body->arg_count; i++) items[i] = c_use(p, f->body->args[i]).text;
    return (CList){items, f->body->arg_count};
}

/* Items from `column` on, filled and aligned there. */
static void fill_items(CPrinter *p, Str *s, CList items, const char *tail, size_t column) {
    size_t at = column;
    for (size_t i = 0; i < items.count; i++) {
        bool last = i + 1 == items.count;
        size_t need = strlen(items.items[i]) + (last ? strlen(tail) : 1);
        if (i && at + 1 + need > C_LINE_WIDTH) {
            str_printf(s, "\n%*s", (int)column, "");
            at = column;
        } else if (i) {
            str_append_char(s, ' ');
            at++;
        }
        str_printf(s, "%s%s", items.items[i], last ? tail : ",");
        at += need;
    }
    if (!items.count) str_append(s, tail);
    (void)p;
}

void c_print_call(CPrinter *p, const char *head, const char *name, CList items, const char *tail, bool split) {
    size_t flat = 4 * p->indent + strlen(head) + strlen(name) + 2 + strlen(tail);
    for (size_t i = 0; i < items.count; i++) flat += strlen(items.items[i]) + (i ? 2 : 0);
    Str s;
    str_init(&s);
    if (flat > C_LINE_WIDTH && split) {
        str_printf(&s, "%s\n    %s(", head, name);
        fill_items(p, &s, items, tail, 4 + strlen(name) + 1);
    } else {
        str_printf(&s, "%s%s%s(", head, head[0] ? " " : "", name);
        fill_items(p, &s, items, tail, 4 * p->indent + s.len);
    }
    c_line(p, "%s", s.data);
    str_release(&s);
}

/* ---- One function ---- */

void c_enter(CPrinter *p, const IrFunc *f) {
    p->func = f;
    p->table = (ValueMap){0};
    p->names = (NameScope){.arena = p->arena};
    p->groups.len = 0;
    p->smem_declared = false;
    p->parallel_depth = 0;
    p->skip = NULL;
    p->comment = NULL;
    p->seen.len = 0;
    p->open_type = NULL;
    for (unsigned i = 0; i < f->body->arg_count; i++) {
        const IrValue *v = f->body->args[i];
        c_declare_var(p, v, i < f->param_count ? f->params[i].name : v->name);
        if (i < f->param_count && f->params[i].kind == IR_PARAM_SYMBOL)
            c_value(p, v)->range = range_of_symbol(p->arena, f, f->params[i].name);
    }
}

static bool block_uses_shared(const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (op->opcode == IR_SHARED_PTR) return true;
        for (unsigned r = 0; r < op->region_count; r++)
            if (block_uses_shared(op->regions[r])) return true;
    }
    return false;
}

static void look_for_meeting(void *context, IrOp *op) {
    *(bool *)context |= op->opcode == IR_CLUSTER_MEET;
}

static void declare_met(CPrinter *p, const IrFunc *f) {
    bool meets = false;
    ir_walk(f->body, look_for_meeting, &meets);
    if (!meets) return;
    p->met = name_claim(&p->names, "met");
    c_line(p, "unsigned int %s = 0;", p->met);
}

static bool has_parallel(const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next)
        if (op->opcode == IR_PARALLEL) return true;
    return false;
}

void c_print_body(CPrinter *p, const IrFunc *f) {
    c_plan(p, f);
    if (p->dialect->gpu && block_uses_shared(f->body)) {
        c_line(p, "extern __shared__ __align__(%lld) unsigned char smem[];", (long long)plan_shared_align(&p->plan));
        p->smem_declared = true;
        declare_met(p, f);
    } else if (!p->dialect->gpu && !has_parallel(f->body) && block_uses_shared(f->body)) {
        c_line(p, "_Alignas(64) unsigned char smem[%lld];", (long long)ir_func_int(f, IR_FN_SHARED_BYTES, 0));
        p->smem_declared = true;
    }
    c_block(p, f->body);
    p->comment = NULL;
}

/* ---- Launch conditions ---- */

/* `if (a || b) action`, as many conditions a line as fit. */
static void print_conditions(CPrinter *p, const char *const *conditions, size_t count, const char *action) {
    for (size_t i = 0; i < count;) {
        const char *text = conditions[i++];
        while (i < count && 4 * p->indent + strlen(text) + strlen(conditions[i]) + strlen(action) + 10 <= C_LINE_WIDTH)
            text = arena_printf(p->arena, "%s || %s", text, conditions[i++]);
        c_if_line(p, text, action);
    }
}

void c_print_checks(CPrinter *p, const IrFunc *f, const char *action) {
    VEC(const char *) conditions = {0};
    for (unsigned i = 0; i < f->param_count; i++) {
        if (f->params[i].kind != IR_PARAM_SYMBOL) continue;
        const char *name = c_use(p, f->body->args[i]).text;
        VEC_PUSH(p->arena, &conditions, arena_printf(p->arena, "%s < 0", name));
    }
    for (unsigned i = 0; i < f->param_count; i++) {
        const Aff *derived = f->params[i].derived;
        if (f->params[i].kind != IR_PARAM_SYMBOL || !derived || derived->kind == AFF_SYM) continue;
        const char *name = c_use(p, f->body->args[i]).text;
        VEC_PUSH(p->arena, &conditions, arena_printf(p->arena, "%s != %s", name, c_text(p, c_aff(p, f->params[i].derived), C_PREC_ADD)));
    }
    for (size_t i = 0; i < f->constraint_count; i++) {
        const char *e = c_text(p, c_aff(p, f->constraints[i].expr), C_PREC_ADD);
        VEC_PUSH(p->arena, &conditions, arena_printf(p->arena, f->constraints[i].equal ? "%s != 0" : "%s < 0", e));
    }
    print_conditions(p, conditions.data, conditions.len, action);
}

/* ---- The module ---- */

bool c_emit(const IrModule *m, const CDialect *dialect, const EmitOptions *options, Str *out, DiagList *diags) {
    Arena *scratch = arena_create();
    Str body;
    str_init(&body);
    CPrinter p = {.arena = scratch, .dialect = dialect, .module = m, .options = options, .diags = diags, .out = &body};
    p.plan = ir_plan(scratch, m, IR_LEVEL_KERNEL);
    if (!p.plan.func_count) c_fail(&p, NULL, "a module without kernel functions");
    if (!p.failed) dialect->print(&p);
    if (!p.failed) {
        Str head;
        str_init(&head);
        dialect->print_head(&p, &head);
        c_print_helpers(&p, &head);
        str_append_n(out, head.data, head.len);
        str_append_n(out, body.data, body.len);
        str_release(&head);
    }
    str_release(&body);
    arena_destroy(scratch);
    return !p.failed;
}
