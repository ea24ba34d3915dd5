#include "c_internal.h"

#include <string.h>

enum { MAX_NEST = 8 }; /* loops of one `collapse`: a tensor's axes (ARTIFACT_MAX_RANK) */

/* ---- for ---- */

static const char *carried_hint(const IrOp *op, unsigned k) {
    const IrValue *arg = op->regions[0]->args[k + 1], *result = &op->results[k];
    return arg->name ? arg->name : result->name ? result->name : op->operands[k + 3]->name ? op->operands[k + 3]->name : "acc";
}

static void carried_begin(CPrinter *p, const IrOp *op, unsigned k) {
    const IrValue *arg = op->regions[0]->args[k + 1], *result = &op->results[k], *init = op->operands[k + 3];
    if (arg->type->kind == IR_TYPE_FRAG) {
        const char *to = c_bind_array(p, arg, carried_hint(op, k)), *from = c_value(p, init)->home;
        if (!from) c_fail(p, op, "a fragment that was not made");
        if (from && strcmp(to, from) != 0) c_copy_array(p, to, from, arg->type);
        c_value(p, result)->home = to;
        c_value(p, result)->array = c_value(p, arg)->array;
    } else if (is_vec(arg->type)) {
        const char *array = c_declare_array(p, arg->type, carried_hint(op, k));
        c_vec_copy(p, init, array);
        c_bind_vec_array(p, arg, array);
        c_bind_vec_array(p, result, array);
    } else if (arg->type->kind == IR_TYPE_SCALAR) {
        const char *text = c_use(p, init).text, *type = c_scalar_type(p, arg);
        const char *name = c_declare_var(p, arg, carried_hint(op, k));
        c_line(p, "%s %s = %s;", type, name, text);
        c_value(p, result)->expr = (CExpr){name, C_PREC_PRIMARY};
        if (!arg->uses && !result->uses) c_line(p, "(void)%s;", name);
    } else {
        c_fail(p, op, "loop-carried pointers and tokens");
    }
}

/* A result that lives elsewhere than its loop's argument is copied out. */
static void carried_end(CPrinter *p, const IrOp *op, unsigned k) {
    const IrValue *arg = op->regions[0]->args[k + 1], *result = &op->results[k];
    if (arg->type->kind != IR_TYPE_FRAG || result->storage == arg->storage || !result->uses) return;
    const char *from = c_value(p, arg)->home, *to = c_bind_array(p, result, carried_hint(op, k));
    if (strcmp(to, from) != 0) c_copy_array(p, to, from, result->type);
}

static void yields(CPrinter *p, const IrBlock *block, IrValue *const *targets, unsigned count) {
    const IrOp *yield = block->last;
    if (!count || p->failed) return;
    if (!yield || yield->opcode != IR_YIELD || yield->operand_count != count) {
        c_fail(p, block->parent, "a region that does not yield its results");
        return;
    }
    CCopy *copies = ARENA_ARRAY(p->arena, CCopy, count);
    for (unsigned i = 0; i < count; i++) copies[i] = c_copy_of(p, targets[i], yield->operands[i]);
    c_copy_all(p, copies, count);
}

/* A bound that is no plain name or number is computed once. */
static const char *bound(CPrinter *p, const IrValue *v) {
    CExpr e = c_use(p, v);
    if (e.prec < C_PREC_ADD || strchr(e.text, '(')) {
        c_materialise_as(p, v, "end");
        e = c_use(p, v);
    }
    return c_text(p, e, C_PREC_ADD);
}

/* Bounds are declared in front of the loop: their names outlive the loop's own. */
static void declare_bounds(CPrinter *p, const IrOp *op) {
    for (unsigned i = 0; i < 3; i++) bound(p, op->operands[i]);
}

static const char *loop_head(CPrinter *p, const IrOp *op) {
    const IrValue *i = op->regions[0]->args[0];
    Range lo = c_range(p, op->operands[0]), hi = c_range(p, op->operands[1]), step = c_range(p, op->operands[2]);
    const char *lb = bound(p, op->operands[0]), *ub = bound(p, op->operands[1]), *by = bound(p, op->operands[2]);
    /* An int counter must not run past its type when the last step oversteps the bound. */
    int64_t last = hi.hi == INT64_MAX || step.hi > INT32_MAX ? INT64_MAX : hi.hi + step.hi;
    bool small = lo.lo >= INT32_MIN && last <= INT32_MAX;
    if (i->type->is_index) c_value(p, i)->range = (Range){lo.lo, hi.hi == INT64_MAX ? INT64_MAX : hi.hi - 1};
    if (i->type->is_index && range_fits_int(c_range(p, i)) && !small) c_value(p, i)->range.hi = INT64_MAX;
    const char *type = !i->type->is_index ? c_type(p, i->type->dtype) : small ? "int" : p->dialect->index_type;
    const char *name = c_declare_var(p, i, i->name ? i->name : "i");
    if (range_is_const(step) && step.lo == 1)
        return arena_printf(p->arena, "for (%s %s = %s; %s < %s; ++%s)", type, name, lb, name, ub, name);
    return arena_printf(p->arena, "for (%s %s = %s; %s < %s; %s += %s)", type, name, lb, name, ub, name, by);
}

void c_for(CPrinter *p, const IrOp *op) {
    for (unsigned k = 0; k < op->result_count; k++) carried_begin(p, op, k);
    c_factors_before(p, op);
    int64_t unroll = ir_attr_int(op, "unroll", 0);
    declare_bounds(p, op);
    size_t names = name_mark(&p->names);
    const char *head = loop_head(p, op);
    if (unroll && p->dialect->gpu) {
        if (unroll < 0)
            c_pragma(p, "#pragma unroll");
        else
            c_pragma(p, "#pragma unroll %lld", (long long)unroll);
    } else if (unroll > 1) {
        c_pragma(p, "#pragma GCC unroll %lld", (long long)unroll);
    }
    CBody b;
    c_body_begin(p, &b, head);
    c_block(p, op->regions[0]);
    yields(p, op->regions[0], op->regions[0]->args + 1, op->result_count);
    c_factors_again(p, op);
    c_body_end(p, &b);
    name_release(&p->names, names);
    for (unsigned k = 0; k < op->result_count; k++) carried_end(p, op, k);
}

/* ---- parallel: a nest of loops, shared among the cores ---- */

/* The only loop directly inside `op`, with pure ops beside it at most. */
static const IrOp *nested_parallel(const IrOp *op) {
    const IrOp *inner = NULL;
    for (const IrOp *o = op->regions[0]->first; o; o = o->next) {
        if (o->opcode == IR_PARALLEL && !inner)
            inner = o;
        else if (o->opcode != IR_YIELD && (!(ir_op_info(o->opcode)->traits & IR_PURE) || inner))
            return NULL;
    }
    if (!inner) return NULL;
    for (unsigned i = 0; i < 3; i++) { /* a rectangle: bounds from outside of the nest */
        const IrOp *def = inner->operands[i]->def;
        const IrBlock *home = def ? def->block : inner->operands[i]->block;
        if (home == op->regions[0] && !(def && def->opcode == IR_CONST)) return NULL;
    }
    return inner;
}

static bool uses_shared(const IrBlock *block) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (op->opcode == IR_SHARED_PTR) return true;
        for (unsigned r = 0; r < op->region_count; r++)
            if (uses_shared(op->regions[r])) return true;
    }
    return false;
}

static void declare_smem(CPrinter *p, const IrBlock *block) {
    if (p->smem_declared || !uses_shared(block)) return;
    c_line(p, "_Alignas(64) unsigned char smem[%lld];", (long long)ir_func_int(p->func, IR_FN_SHARED_BYTES, 0));
    p->smem_declared = true;
}

static unsigned collect_nest(CPrinter *p, const IrOp *op, const IrOp **nest) {
    unsigned n = 0;
    nest[n++] = op;
    if (p->parallel_depth) return n; /* inside another one: a plain loop */
    for (const IrOp *inner; n < MAX_NEST && (inner = nested_parallel(nest[n - 1])); n++) nest[n] = inner;
    return n;
}

void c_parallel(CPrinter *p, const IrOp *op) {
    if (p->dialect->gpu) {
        c_fail(p, op, "a parallel loop on the GPU: it is to become the grid");
        return;
    }
    const IrOp *nest[MAX_NEST];
    unsigned n = collect_nest(p, op, nest);
    CBody bodies[MAX_NEST];
    size_t names = name_mark(&p->names);
    const char *heads[MAX_NEST];
    for (unsigned i = 0; i < n; i++) heads[i] = loop_head(p, nest[i]);
    if (!p->parallel_depth && n > 1) c_pragma(p, "#pragma omp parallel for collapse(%u) schedule(static)", n);
    if (!p->parallel_depth && n == 1) c_pragma(p, "#pragma omp parallel for schedule(static)");
    for (unsigned i = 0; i < n; i++) c_body_begin(p, &bodies[i], heads[i]);
    p->parallel_depth++;
    const IrBlock *body = nest[n - 1]->regions[0];
    bool had_smem = p->smem_declared;
    declare_smem(p, body);
    for (unsigned i = 0; i + 1 < n; i++) {
        p->skip = nest[i + 1];
        c_block(p, nest[i]->regions[0]); /* what is not the inner loop is pure */
    }
    p->skip = NULL;
    c_block(p, body);
    p->smem_declared = had_smem;
    p->parallel_depth--;
    for (unsigned i = n; i-- > 0;) c_body_end(p, &bodies[i]);
    name_release(&p->names, names);
}

/* ---- if ---- */

static void result_begin(CPrinter *p, const IrValue *v) {
    if (v->type->kind == IR_TYPE_FRAG) {
        c_bind_array(p, v, "t");
    } else if (is_vec(v->type)) {
        c_bind_vec_array(p, v, c_declare_array(p, v->type, v->name ? v->name : "x"));
    } else {
        const char *type = c_scalar_type(p, v);
        c_line(p, "%s %s;", type, c_declare_var(p, v, NULL));
    }
}

/* Whether the results lie where the region's values are already. */
static bool yields_in_place(CPrinter *p, const IrOp *op, const IrBlock *region) {
    for (unsigned i = 0; i < op->result_count; i++) {
        const char *to = c_value(p, &op->results[i])->home, *from = c_value(p, region->last->operands[i])->home;
        if (op->results[i].type->kind != IR_TYPE_FRAG || !to || !from || strcmp(to, from) != 0) return false;
    }
    return true;
}

void c_if(CPrinter *p, const IrOp *op) {
    IrValue **targets = ARENA_ARRAY(p->arena, IrValue *, op->result_count);
    for (unsigned i = 0; i < op->result_count; i++) {
        targets[i] = &op->results[i];
        result_begin(p, targets[i]);
    }
    const char *cond = c_use(p, op->operands[0]).text;
    const IrBlock *otherwise = op->region_count > 1 ? op->regions[1] : NULL;
    bool has_else = otherwise && otherwise->first && (otherwise->first != otherwise->last || !yields_in_place(p, op, otherwise));
    size_t names = name_mark(&p->names);
    CBody b;
    if (has_else) {
        c_line(p, "if (%s) {", cond);
        p->indent++;
        c_block(p, op->regions[0]);
        yields(p, op->regions[0], targets, op->result_count);
        name_release(&p->names, names);
        p->indent--;
        c_line(p, "} else {");
        p->indent++;
        c_block(p, otherwise);
        yields(p, otherwise, targets, op->result_count);
        name_release(&p->names, names);
        p->indent--;
        c_line(p, "}");
        p->statements++;
    } else {
        c_body_begin(p, &b, arena_printf(p->arena, "if (%s)", cond));
        c_block(p, op->regions[0]);
        yields(p, op->regions[0], targets, op->result_count);
        c_body_end(p, &b);
    }
}

/* ---- map ---- */

/* Lanes do not depend on each other: no effects but the yields, which go to elements of their own.
 */
static bool is_simd(const CPrinter *p, const IrOp *op) {
    if (p->dialect->gpu) return false;
    if (ir_attr_bool(op, "vector")) return true;
    for (const IrOp *o = op->regions[0]->first; o; o = o->next) {
        if (o->region_count || (ir_op_info(o->opcode)->traits & (IR_WRITES | IR_COLLECTIVE))) return false;
        if (o->result_count == 1 && is_vec(o->results[0].type)) return false;
    }
    return true;
}

static const char *map_place(CPrinter *p, const IrOp *op, unsigned r, const IrValue *value) {
    const char *text = c_value(p, &op->results[r])->array;
    const IrBlock *body = op->regions[0];
    for (unsigned i = 0; i < body->arg_count; i++) {
        const char *index = c_use(p, body->args[i]).text;
        bool last = i + 1 == body->arg_count;
        if (last && is_vec(value->type))
            index = range_is_const(c_range(p, body->args[i])) ? "0" : arena_printf(p->arena, "%u * %s", value->type->width, index);
        text = arena_printf(p->arena, "%s[%s]", text, index);
    }
    return text;
}

/* Does the body read an array that result `r` overwrites? */
static bool reads_result_array(const IrOp *op, unsigned r) {
    unsigned storage = op->results[r].storage;
    if (!storage) return false;
    for (const IrOp *o = op->regions[0]->first; o; o = o->next)
        for (unsigned i = 0; i < o->operand_count; i++)
            if (o->operands[i]->type->kind == IR_TYPE_FRAG && o->operands[i]->storage == storage) return true;
    return false;
}

/* All results are computed before the first one is written: where a later one may be printed as an
 * expression over an array that an earlier one overwrites, it gets a name. */
static void settle_yields(CPrinter *p, const IrOp *op) {
    bool overwritten = false;
    for (unsigned r = 0; r + 1 < op->result_count; r++) {
        overwritten = overwritten || reads_result_array(op, r);
        if (overwritten) c_materialise(p, op->regions[0]->last->operands[r + 1]);
    }
}

static void map_yields(CPrinter *p, const IrOp *op) {
    const IrOp *yield = op->regions[0]->last;
    if (p->failed || !op->result_count) return;
    if (!yield || yield->opcode != IR_YIELD || yield->operand_count != op->result_count) {
        c_fail(p, op, "a map that does not yield its results");
        return;
    }
    settle_yields(p, op);
    for (unsigned r = 0; r < op->result_count; r++) {
        const IrValue *v = yield->operands[r];
        const char *place = map_place(p, op, r, v);
        if (is_vec(v->type)) {
            c_vec_copy(p, v, arena_printf(p->arena, "&%s", place));
            continue;
        }
        const char *text = c_use(p, v).text;
        if (strcmp(place, text) == 0) continue;
        if (4 * p->indent + strlen(place) + strlen(text) + 4 > C_LINE_WIDTH) {
            c_materialise(p, v);
            text = c_use(p, v).text;
        }
        c_statement(p, "%s = %s;", place, text);
    }
}

static void map_level(CPrinter *p, const IrOp *op, const int64_t *extents, unsigned dim, unsigned innermost) {
    const IrBlock *body = op->regions[0];
    if (dim == body->arg_count) {
        c_block(p, body);
        map_yields(p, op);
        return;
    }
    const IrValue *arg = body->args[dim];
    c_value(p, arg)->range = (Range){0, extents[dim] - 1};
    if (extents[dim] == 1) {
        map_level(p, op, extents, dim + 1, innermost);
        return;
    }
    static const char *const letters[] = {"i", "j", "k", "m", "n"};
    const char *name = c_declare_var(p, arg, arg->name ? arg->name : letters[dim < 5 ? dim : 4]);
    if (p->dialect->gpu) c_pragma(p, "#pragma unroll");
    if (dim == innermost && is_simd(p, op)) c_pragma(p, "#pragma omp simd");
    CBody b;
    c_body_begin(p, &b, arena_printf(p->arena, "for (int %s = 0; %s < %lld; ++%s)", name, name, (long long)extents[dim], name));
    map_level(p, op, extents, dim + 1, innermost);
    c_body_end(p, &b);
}

bool c_makes_zeros(const IrOp *op) {
    if (op->opcode != IR_MAP || op->result_count != 1) return false;
    const IrBlock *body = op->regions[0];
    for (const IrOp *o = body->first; o != body->last; o = o->next)
        if (o->opcode != IR_CONST) return false;
    const IrOp *yield = body->last;
    return yield && yield->opcode == IR_YIELD && yield->operand_count == 1 && yield->operands[0]->type->dtype != DTYPE_F16 &&
           yield->operands[0]->type->dtype != DTYPE_BF16 && c_is_zero(yield->operands[0]->def);
}

void c_map(CPrinter *p, const IrOp *op) {
    const IrAttr *a = ir_attr(op, "extents");
    if (!a || a->count != op->regions[0]->arg_count) {
        c_fail(p, op, "a map whose extents and indices differ in number");
        return;
    }
    for (unsigned r = 0; r < op->result_count; r++) {
        const IrType *t = op->results[r].type;
        if (t->kind != IR_TYPE_FRAG || t->rank != a->count) {
            c_fail(p, op, "a map whose result has another rank than its extents");
            return;
        }
        if (c_makes_zeros(op) && !op->results[r].storage) {
            CValue *c = c_value(p, &op->results[r]);
            c->home = c->array = c_declare_zeros(p, t, op->results[r].name ? op->results[r].name : "t");
            return;
        }
        c_bind_array(p, &op->results[r], "t");
    }
    unsigned innermost = 0;
    for (unsigned i = 0; i < a->count; i++) {
        if (a->ints[i] == 0) return;
        if (a->ints[i] > 1) innermost = i;
    }
    size_t names = name_mark(&p->names);
    bool bare = true;
    for (unsigned i = 0; i < a->count; i++) bare = bare && a->ints[i] == 1;
    if (bare) { /* no loop: its names still end here */
        for (unsigned i = 0; i < a->count; i++) c_value(p, op->regions[0]->args[i])->range = (Range){0, 0};
        c_block(p, op->regions[0]);
        map_yields(p, op);
    } else {
        map_level(p, op, a->ints, 0, innermost);
        name_release(&p->names, names);
    }
}
