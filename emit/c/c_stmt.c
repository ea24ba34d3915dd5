#include "c_internal.h"

#include <string.h>

/* ---- Lines ---- */

static void indent_text(CPrinter *p, unsigned depth) {
    for (unsigned i = 0; i < depth; i++) str_append(p->out, "    ");
}

static void flush_comment(CPrinter *p, unsigned depth) {
    if (!p->comment) return;
    indent_text(p, depth);
    str_printf(p->out, "// %s\n", p->comment);
    p->comment = NULL;
    p->lines++;
}

static void line_v(CPrinter *p, const char *format, va_list args) {
    flush_comment(p, p->indent);
    indent_text(p, p->indent);
    str_vprintf(p->out, format, args);
    str_append_char(p->out, '\n');
    p->lines++;
}

void c_line(CPrinter *p, const char *format, ...) {
    va_list args;
    va_start(args, format);
    line_v(p, format, args);
    va_end(args);
}

void c_statement(CPrinter *p, const char *format, ...) {
    va_list args;
    va_start(args, format);
    line_v(p, format, args);
    va_end(args);
    p->statements++;
}

void c_if_line(CPrinter *p, const char *condition, const char *action) {
    if (4 * p->indent + strlen(condition) + strlen(action) + 6 <= C_LINE_WIDTH) {
        c_line(p, "if (%s) %s", condition, action);
    } else {
        c_line(p, "if (%s)", condition);
        c_line(p, "    %s", action);
    }
}

/* clang-format puts directives, and a comment right before one, at the line's start. */
void c_pragma(CPrinter *p, const char *format, ...) {
    flush_comment(p, 0);
    va_list args;
    va_start(args, format);
    str_vprintf(p->out, format, args);
    va_end(args);
    str_append_char(p->out, '\n');
    p->lines++;
}

void c_fail(CPrinter *p, const IrOp *op, const char *what) {
    if (!p->failed) {
        Span span = op ? op->span : SPAN_NONE;
        diag_report(p->diags, DIAG_emit_unsupported, span, p->dialect->target, what, op ? ir_op_info(op->opcode)->name : "module");
    }
    p->failed = true;
}

/* The source line of what takes effect, at its first occurrence in a function. */
static void note_line(CPrinter *p, const IrOp *op) {
    if (p->options->no_lines || !p->module->sources || !op->span.file) return;
    const SourceFile *file = source_file(p->module->sources, op->span.file);
    if (!file) return;
    uint32_t line, column;
    source_position(file, op->span.begin, &line, &column);
    uint64_t key = (uint64_t)op->span.file << 32 | line;
    for (size_t i = 0; i < p->seen.len; i++)
        if (p->seen.data[i] == key) return;
    VEC_PUSH(p->arena, &p->seen, key);
    const char *path = p->options->source_path ? p->options->source_path : file->path;
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    char *name = arena_strndup(p->arena, base, strnlen(base, 60));
    for (char *c = name; *c; c++) /* the path is the user's text: nothing of it may end the comment */
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *c)) *c = '_';
    p->comment = arena_printf(p->arena, "%s:%u", name, line);
}

/* ---- Bodies ---- */

void c_body_begin(CPrinter *p, CBody *b, const char *head) {
    flush_comment(p, p->indent);
    b->saved = p->out;
    str_init(&b->body);
    p->out = &b->body;
    p->indent++;
    b->statements = p->statements;
    b->lines = p->lines;
    b->names = name_mark(&p->names);
    b->head = head;
}

static bool starts(const char *text, const char *word) {
    return strncmp(text, word, strlen(word)) == 0;
}

void c_body_end(CPrinter *p, CBody *b) {
    bool single = p->statements == b->statements + 1 && p->lines == b->lines + 1;
    p->indent--;
    p->out = b->saved;
    name_release(&p->names, b->names);
    const char *text = b->body.data + 4 * (p->indent + 1);
    size_t width = 4 * p->indent + strlen(b->head) + 1 + (single ? strlen(text) - 1 : 0);
    indent_text(p, p->indent);
    if (single && width <= C_LINE_WIDTH && !starts(text, "for") && !starts(text, "if")) {
        str_printf(p->out, "%s %s", b->head, text);
    } else {
        str_printf(p->out, "%s {\n%s", b->head, b->body.data);
        indent_text(p, p->indent);
        str_append(p->out, "}\n");
        p->lines += 2;
    }
    p->statements++;
    str_release(&b->body);
}

/* ---- Ops ---- */

static CExpr frag_element(CPrinter *p, const IrOp *op) {
    const IrValue *frag = op->operands[0];
    bool vec = is_vec(op->results[0].type);
    const char *text = c_value(p, frag)->array;
    if (!text || op->operand_count != frag->type->rank + 1) {
        c_fail(p, op, "an element of a fragment that was not made, or not all of its indices");
        return (CExpr){"0", C_PREC_PRIMARY};
    }
    for (unsigned i = 1; i < op->operand_count; i++) text = arena_printf(p->arena, "%s[%s]", text, c_use(p, op->operands[i]).text);
    if (vec) {
        c_value(p, &op->results[0])->address = arena_printf(p->arena, "&%s", text);
        text = c_join(p, arena_printf(p->arena, "&%s", text), "\1");
    }
    return (CExpr){text, C_PREC_PRIMARY};
}

static CExpr special(CPrinter *p, const IrOp *op) {
    IrSpecial which = ir_op_special(op);
    CValue *c = c_value(p, &op->results[0]);
    if (!p->dialect->gpu) {
        if (which != IR_SPECIAL_LANE && which != IR_SPECIAL_WARP && which != IR_SPECIAL_TID_X) c_fail(p, op, "grid indices on the CPU");
        c->range = (Range){0, 0};
        return (CExpr){"0", C_PREC_PRIMARY};
    }
    int64_t threads = func_threads(p->func);
    c->range = (Range){0, threads - 1};
    if (which == IR_SPECIAL_LANE) {
        c->range = (Range){0, 31};
        return (CExpr){"(int)threadIdx.x % 32", C_PREC_MUL};
    }
    if (which == IR_SPECIAL_WARP) {
        c->range = (Range){0, threads / 32 - 1};
        return (CExpr){"(int)threadIdx.x / 32", C_PREC_MUL};
    }
    if (which == IR_SPECIAL_TID_X) return (CExpr){"(int)threadIdx.x", C_PREC_UNARY};
    if (which == IR_SPECIAL_CLUSTER_RANK) {
        c->range = (Range){0, ir_func_cluster(p->func) - 1};
        return c_make(p, C_PREC_PRIMARY, "%s()", c_helper(p, C_HELPER_CLUSTER_RANK, DTYPE_NONE, DTYPE_NONE));
    }
    if (which == IR_SPECIAL_CLUSTERID_X) {
        c->range = (Range){0, INT32_MAX};
        return c_make(p, C_PREC_PRIMARY, "%s()", c_helper(p, C_HELPER_CLUSTER_ID, DTYPE_NONE, DTYPE_NONE));
    }
    const char *word = ir_enum_word(IR_ENUM_SPECIAL, which);
    c->range = (Range){0, INT32_MAX};
    if (ir_attr_bool(op, "backwards")) return c_make(p, C_PREC_UNARY, "(int)(gridDim.x - 1 - blockIdx.x)");
    return c_make(p, C_PREC_UNARY, "(int)%s%s", ir_is_block_count(which) ? "gridDim" : "blockIdx", strchr(word, '.'));
}

static CExpr shuffle(CPrinter *p, const IrOp *op) {
    long long mask = ir_attr_int(op, "mask", 0);
    CExpr x = c_use(p, op->operands[0]);
    if (mask == 0) return x;
    unsigned bits = dtype_bits(op->operands[0]->type->dtype);
    if (!p->dialect->gpu || (bits != 32 && bits != 64)) c_fail(p, op, p->dialect->gpu ? "shuffles of narrow types" : "shuffles on the CPU");
    return c_make(p, C_PREC_PRIMARY, "__shfl_xor_sync(0xffffffffu, %s, %lld)", x.text, mask);
}

static CExpr value_expr(CPrinter *p, const IrOp *op) {
    switch (op->opcode) {
    case IR_FRAG_GET:
        return frag_element(p, op);
    case IR_MEM_LOAD:
        return c_load_scalar(p, op);
    case IR_SHUFFLE_XOR:
        return shuffle(p, op);
    case IR_SPECIAL:
        return special(p, op);
    case IR_EXTRACT: {
        CExpr v = c_use(p, op->operands[0]);
        v.text = c_lane(p, v, c_int_text(p, ir_attr_int(op, "lane", 0)));
        return v;
    }
    default:
        return c_pure(p, op);
    }
}

static void set_range(CPrinter *p, const IrOp *op) {
    const IrType *t = op->results[0].type;
    if (t->kind != IR_TYPE_SCALAR || t->width > 1 || dtype_is_float(t->dtype) || op->opcode == IR_SPECIAL) return;
    Range x[3] = {RANGE_ALL, RANGE_ALL, RANGE_ALL};
    for (unsigned i = 0; i < op->operand_count && i < 3; i++)
        if (op->operands[i]->type->kind == IR_TYPE_SCALAR && !dtype_is_float(op->operands[i]->type->dtype))
            x[i] = c_range(p, op->operands[i]);
    if (op->opcode == IR_CAST && t->is_index && dtype_is_int(op->operands[0]->type->dtype)) {
        Dtype from = op->operands[0]->type->dtype;
        Range all = dtype_is_signed(from)
                        ? RANGE_ALL
                        : (Range){0, dtype_bits(from) < 64 ? (int64_t)(UINT64_MAX >> (64 - dtype_bits(from))) : INT64_MAX};
        if (dtype_is_signed(from) && dtype_bits(from) < 64)
            all = (Range){-((int64_t)1 << (dtype_bits(from) - 1)), ((int64_t)1 << (dtype_bits(from) - 1)) - 1};
        c_value(p, &op->results[0])->range = all;
        return;
    }
    /* Index arithmetic does not overflow; typed arithmetic may wrap, so that its bounds hold only
     * as long as nothing reaches the type's ends. */
    if (t->is_index) c_value(p, &op->results[0])->range = range_of_op(op, x);
}

static void materialise_operands(CPrinter *p, const IrOp *op) {
    for (unsigned i = 0; i < op->operand_count; i++) {
        const IrValue *v = op->operands[i];
        if (v->type->kind == IR_TYPE_SCALAR && v->type->width == 1 && c_value(p, v)->inlined) c_materialise(p, v);
    }
}

/* An inlined expression leaves room for the rest of its statement. */
static bool short_enough(const CPrinter *p, CExpr e) {
    size_t used = 4 * p->indent + 32, room = used + 40 < C_LINE_WIDTH ? C_LINE_WIDTH - used : 40;
    return strlen(e.text) <= (room > 72 ? 72 : room);
}

static void bind_inline(CPrinter *p, const IrValue *v, CExpr e) {
    CValue *c = c_value(p, v);
    c->expr = e;
    c->inlined = true;
    if (is_vec(v->type) && !c->address && !c->deferrable) c_materialise(p, v);
}

static const char *hint_of(IrSpecial special) {
    if (special == IR_SPECIAL_TID_X) return "tid";
    if (ir_is_block_number(special)) return "block";
    if (special == IR_SPECIAL_CLUSTER_RANK) return "rank";
    if (special == IR_SPECIAL_CLUSTERID_X) return "cluster";
    return ir_enum_word(IR_ENUM_SPECIAL, special);
}

static void define(CPrinter *p, const IrOp *op) {
    const IrValue *v = &op->results[0];
    CValue *c = c_value(p, v);
    if (!v->uses) return;
    set_range(p, op);
    CExpr e = value_expr(p, op);
    bool constant = v->type->is_index && range_is_const(c->range);
    if (constant || is_vec(v->type) || (c->deferrable && short_enough(p, e))) {
        bind_inline(p, v, e);
        return;
    }
    const char *type = c_scalar_type(p, v);
    if (4 * p->indent + strlen(type) + strlen(e.text) + 24 > C_LINE_WIDTH) {
        materialise_operands(p, op);
        e = value_expr(p, op);
        if (c->deferrable && short_enough(p, e)) {
            bind_inline(p, v, e);
            return;
        }
    }
    const char *hint = v->name;
    if (!hint && op->opcode == IR_SPECIAL) hint = hint_of(ir_op_special(op));
    const char *name = c_declare_var(p, v, hint);
    c_declare_const(p, type, name, e.text);
}

/* Ops that make a whole vec at once wait for the place where it is wanted. */
static void define_vec(CPrinter *p, const IrOp *op) {
    CValue *c = c_value(p, &op->results[0]);
    if (!op->results[0].uses && op->opcode != IR_ATOM) return;
    c->pending = op;
    const IrUse *use = op->results[0].uses;
    if (!c->deferrable || use->op->opcode != IR_YIELD) c_materialise(p, &op->results[0]);
}

static void shared_pointer(CPrinter *p, const IrOp *op) {
    const IrValue *v = &op->results[0];
    if (!v->uses) return;
    if (!p->smem_declared) c_fail(p, op, "shared memory outside of the innermost parallel loop");
    const char *name = name_claim(&p->names, v->name ? v->name : ir_attr_str(op, "name", "tile"));
    const char *type = c_type(p, v->type->dtype);
    if (!p->dialect->gpu) type = arena_printf(p->arena, "sk_alias_%s", dtype_name(v->type->dtype));
    long long offset = ir_attr_int(op, "offset", 0);
    c_value(p, v)->expr = (CExpr){name, C_PREC_PRIMARY};
    if (offset)
        c_line(p, "%s *const %s = (%s *)(smem + %lld);", type, name, type, offset);
    else
        c_line(p, "%s *const %s = (%s *)smem;", type, name, type);
    if (!p->dialect->gpu) p->alias_types |= 1u << v->type->dtype;
}

static void cluster_pointer(CPrinter *p, const IrOp *op) {
    const IrValue *v = &op->results[0];
    if (!v->uses) return;
    if (!p->dialect->gpu) {
        c_fail(p, op, "clusters");
        return;
    }
    const char *name = name_claim(&p->names, v->name ? v->name : "theirs"), *type = c_type(p, v->type->dtype);
    const char *own = c_use(p, op->operands[0]).text, *rank = c_use(p, op->operands[1]).text;
    c_line(p, "%s *const %s = %s(%s, %s);", type, name, c_helper(p, C_HELPER_CLUSTER_PTR, v->type->dtype, DTYPE_NONE), own, rank);
    c_value(p, v)->expr = (CExpr){name, C_PREC_PRIMARY};
}

static void cluster_exchange(CPrinter *p, const IrOp *op) {
    if (!p->dialect->gpu) {
        c_fail(p, op, "clusters");
        return;
    }
    bool send = op->opcode == IR_CLUSTER_SEND;
    if (op->opcode == IR_CLUSTER_BEGIN) {
        for (unsigned i = 0; i < op->operand_count; i++)
            c_statement(p, "%s(%s);", c_helper(p, C_HELPER_CLUSTER_MAKE, DTYPE_NONE, DTYPE_NONE), c_use(p, op->operands[i]).text);
        c_statement(p, "asm volatile(\"barrier.cluster.arrive.relaxed.aligned;\" ::: \"memory\");");
        return;
    }
    if (op->opcode == IR_CLUSTER_BEGUN) {
        c_statement(p, "asm volatile(\"barrier.cluster.wait.aligned;\" ::: \"memory\");");
        return;
    }
    const char *bar = c_use(p, op->operands[send ? 3 : 0]).text;
    if (send) {
        const char *guard = op->operand_count > 4 ? arena_printf(p->arena, "if (%s) ", c_use(p, op->operands[4]).text) : "";
        const char *name = c_helper(p, C_HELPER_CLUSTER_SEND, op->operands[0]->type->dtype, DTYPE_NONE);
        c_statement(p, "%s%s<%lld>(&%s, %s, %s);", guard, name, (long long)ir_func_cluster(p->func),
                    c_element(p, op->operands[1], op->operands[2]), c_use(p, op->operands[0]).text, bar);
    } else {
        long long number = ir_attr_int(op, "number", 0);
        const char *name = c_helper(p, C_HELPER_CLUSTER_MEET, DTYPE_NONE, DTYPE_NONE);
        c_statement(p, "%s(%s, %lld, %s >> %lld & 1);", name, bar, (long long)ir_attr_int(op, "bytes", 0), p->met, number);
        c_statement(p, "%s ^= %llu;", p->met, 1ull << number);
    }
}

static void synchronise(CPrinter *p, const IrOp *op) {
    if (!p->dialect->gpu) return; /* one thread: copies are done when they return */
    if (op->opcode == IR_ASYNC_COMMIT) {
        c_statement(p, "asm volatile(\"cp.async.commit_group;\" ::: \"memory\");");
    } else if (op->opcode == IR_ASYNC_WAIT) {
        c_statement(p, "asm volatile(\"cp.async.wait_group %lld;\" ::: \"memory\");", (long long)ir_attr_int(op, "pending", 0));
    } else {
        IrScope scope = ir_op_scope(op);
        if (scope == IR_SCOPE_WARPGROUP) {
            /* Named barriers 1 on: 0 is the block's. */
            c_statement(p, "asm volatile(\"bar.sync %%0, 128;\" ::\"r\"(threadIdx.x / 128 + 1) : \"memory\");");
            return;
        }
        c_statement(p, "%s();",
                    scope == IR_SCOPE_WARP      ? "__syncwarp"
                    : scope == IR_SCOPE_CLUSTER ? c_helper(p, C_HELPER_CLUSTER_BARRIER, DTYPE_NONE, DTYPE_NONE)
                                                : "__syncthreads");
    }
}

static bool is_whole_vec(const IrOp *op) {
    if (op->opcode == IR_ATOM) return op->result_count == 1 && is_vec(op->results[0].type);
    if (op->result_count != 1 || !is_vec(op->results[0].type)) return false;
    if (op->opcode == IR_BITCAST) return op->operands[0]->type->width != op->results[0].type->width;
    return op->opcode == IR_MEM_LOAD || op->opcode == IR_PACK;
}

static void statement(CPrinter *p, const IrOp *op) {
    switch (op->opcode) {
    case IR_CONST:
        if (op->results[0].type->kind != IR_TYPE_SCALAR) c_fail(p, op, "constants that are no scalars or vectors");
        return;
    case IR_FOR:
        c_for(p, op);
        return;
    case IR_PARALLEL:
        c_parallel(p, op);
        return;
    case IR_IF:
        c_if(p, op);
        return;
    case IR_MAP:
        if (!c_product(p, op)) c_map(p, op);
        return;
    case IR_MEM_STORE:
        c_store(p, op);
        return;
    case IR_MEM_ATOMIC:
        c_atomic(p, op);
        return;
    case IR_SHARED_PTR:
        shared_pointer(p, op);
        return;
    case IR_CLUSTER_PTR:
        cluster_pointer(p, op);
        return;
    case IR_CLUSTER_BEGIN:
    case IR_CLUSTER_BEGUN:
    case IR_CLUSTER_SEND:
    case IR_CLUSTER_MEET:
        cluster_exchange(p, op);
        return;
    case IR_ASYNC_COPY:
        c_async_copy(p, op);
        return;
    case IR_ASYNC_COMMIT:
    case IR_ASYNC_WAIT:
    case IR_BARRIER:
        synchronise(p, op);
        return;
    case IR_STEPS_WAIT:
        c_statement(p, "%s();", c_helper(p, C_HELPER_WAIT_FOR_STEPS, DTYPE_NONE, DTYPE_NONE));
        return;
    case IR_STEPS_RELEASE:
        c_statement(p, "%s();", c_helper(p, C_HELPER_RELEASE_STEPS, DTYPE_NONE, DTYPE_NONE));
        return;
    case IR_GRID_BARRIER_ARRIVE:
        c_statement(p, "%s(&%s);", c_helper(p, C_HELPER_ARRIVE, DTYPE_NONE, DTYPE_NONE), c_element(p, op->operands[0], op->operands[1]));
        return;
    case IR_GRID_BARRIER_WAIT:
        c_statement(p, "%s(&%s, %s);", c_helper(p, C_HELPER_MEET, DTYPE_NONE, DTYPE_NONE), c_element(p, op->operands[0], op->operands[1]),
                    c_use(p, op->operands[2]).text);
        return;
    case IR_WGMMA:
    case IR_WGMMA_WAIT:
        c_wgmma(p, op);
        return;
    case IR_YIELD:
    case IR_RETURN:
        return;
    default:
        break;
    }
    if (async_find(op))
        c_instruction(p, op);
    else if (is_whole_vec(op))
        define_vec(p, op);
    else if (op->opcode == IR_ATOM)
        c_atom(p, op);
    else if (op->result_count == 1 && op->results[0].type->kind == IR_TYPE_SCALAR)
        define(p, op);
    else
        c_fail(p, op, "this operation at kernel level");
}

void c_block(CPrinter *p, const IrBlock *block) {
    for (const IrOp *op = block->first; op && !p->failed; op = op->next) {
        if (op == p->skip) continue;
        if (op->region_count || (ir_op_info(op->opcode)->traits & (IR_WRITES | IR_COLLECTIVE))) note_line(p, op);
        const char *made = NULL;
        for (size_t i = 0; i < p->groups.len; i++) {
            CGroup *g = &p->groups.data[i];
            if (g->first != op || g->array) continue;
            bool zeros = c_makes_zeros(op) && op->results[0].storage == g->storage && op->results[0].type == g->type;
            g->array = zeros ? c_declare_zeros(p, g->type, g->hint) : c_declare_array(p, g->type, g->hint);
            if (zeros) made = g->array;
        }
        if (made)
            c_bind_frag(p, &op->results[0], made, false);
        else
            statement(p, op);
    }
}
