/* C17 with OpenMP: the dialect, the functions and the choice among versions. */
#include "c_internal.h"

#include <string.h>

static void print_version(CPrinter *p, const IrFunc *f) {
    c_enter(p, f);
    c_print_call(p, "int", emit_entry_name(p->arena, &p->plan, f), c_parameters(p, f, true, NULL), ") {", false);
    p->indent++;
    c_print_checks(p, f, "return 1;");
    for (unsigned i = 0; i < f->body->arg_count; i++) {
        bool symbol = i < f->param_count && f->params[i].kind == IR_PARAM_SYMBOL;
        if (!f->body->args[i]->uses && !symbol) c_line(p, "(void)%s;", c_use(p, f->body->args[i]).text);
    }
    c_print_body(p, f);
    p->fixed_masked = p->fixed_masked || c_has_fixed_masked_access(p, f);
    c_line(p, "return 0;");
    p->indent--;
    c_line(p, "}");
}

/* The step chooses the first version whose guard holds. */
static void print_step(CPrinter *p, const IrStep *of) {
    const IrFunc *first = of->versions[0];
    const char *step = emit_step_name(p->arena, &p->plan, of);
    if (of->version_count == 1 && !first->guard && strcmp(step, emit_entry_name(p->arena, &p->plan, first)) == 0) return;
    c_enter(p, first);
    str_append_char(p->out, '\n');
    c_print_call(p, "int", step, c_parameters(p, first, true, NULL), ") {", false);
    p->indent++;
    bool open = true;
    for (unsigned v = 0; v < of->version_count && open; v++) {
        const IrFunc *f = of->versions[v];
        c_enter(p, f);
        if (strcmp(step, emit_entry_name(p->arena, &p->plan, f)) == 0) c_fail(p, NULL, "a guarded version with the name of its step");
        const char *call = arena_printf(p->arena, "%s", emit_entry_name(p->arena, &p->plan, f));
        const char *head = "return";
        if (f->guard) head = arena_printf(p->arena, "if (%s) return", c_guard(p, f));
        c_print_call(p, head, call, c_arguments(p, f), ");", false);
        open = f->guard;
    }
    if (open) c_line(p, "return 1;");
    p->indent--;
    c_line(p, "}");
}

static void print(CPrinter *p) {
    const char *separator = "";
    for (size_t i = 0; i < p->plan.func_count && !p->failed; i++) {
        str_append(p->out, separator);
        print_version(p, p->plan.funcs[i]);
        separator = "\n";
    }
    for (size_t i = 0; i < p->plan.step_count && !p->failed; i++) print_step(p, &p->plan.steps[i]);
}

/* A pass of gcc 12 that this file is compiled without, and what it gets wrong. */
static void leave_out(Str *head, const char *option, const char *fault) {
    str_printf(head,
               "// gcc 12 %s\n#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13\n"
               "#pragma GCC optimize(\"%s\")\n#endif\n\n",
               fault, option);
}

static void print_head(CPrinter *p, Str *head) {
    str_append(head, "// cc -std=c17 -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math -fopenmp -lm\n");
    str_append(head, "#include <stdbool.h>\n#include <stdint.h>\n\n");
    if (p->fixed_masked) leave_out(head, "no-ivopts", "reads a masked row elsewhere where the loops around it do not move it");
    if (p->alias_types)
        leave_out(head, "no-unswitch-loops", "loses lanes of choices for scratch memory where it splits loops by conditions");
    size_t before = head->len;
    for (unsigned t = 0; t < DTYPE_COUNT; t++)
        if (dtype_is_float((Dtype)t) && dtype_bits((Dtype)t) < 32 && p->types_used & 1u << t)
            str_printf(head, "typedef uint%u_t %s;\n", dtype_bits((Dtype)t), dtype_c_name((Dtype)t));
    for (unsigned t = 0; t < DTYPE_COUNT; t++)
        if (p->alias_types & 1u << t)
            str_printf(head, "typedef %s __attribute__((may_alias)) sk_alias_%s;\n", dtype_c_name((Dtype)t), dtype_name((Dtype)t));
    if (head->len > before) str_append_char(head, '\n');
}

const CDialect c_dialect_openmp = {
    .target = "openmp",
    .gpu = false,
    .mask = C_OPENMP,
    .index_type = "int64_t",
    .restrict_word = "restrict",
    .helper_prefix = "static inline",
    .shared_prefix = "static inline",
    .builtin = "__builtin_",
    .print = print,
    .print_head = print_head,
};

bool emit_openmp(const IrModule *m, const EmitOptions *options, Str *out, DiagList *diags) {
    return c_emit(m, &c_dialect_openmp, options, out, diags);
}
