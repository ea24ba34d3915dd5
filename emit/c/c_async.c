/* The copy engine, its barriers and wgmma in CUDA C: each instruction is a small function. */
#include "c_internal.h"

#include <string.h>

enum { KEEP_FACTORS = 1 }; /* a switch: 0 makes the words of a factor at each product */

static const char *join(CPrinter *p, const char *list, const char *item) {
    return *list ? arena_printf(p->arena, "%s, %s", list, item) : item;
}

static const AtomInfo *noted(CPrinter *p, const AtomInfo *atom) {
    for (size_t i = 0; i < p->atoms.len; i++)
        if (p->atoms.data[i] == atom) return atom;
    VEC_PUSH(p->arena, &p->atoms, atom);
    return atom;
}

static const char *argument(CPrinter *p, const IrOp *op, unsigned *at) {
    const IrValue *v = op->operands[*at];
    *at += v->type->kind == IR_TYPE_PTR && v->type->space == IR_SPACE_SHARED ? 2 : 1;
    if (v->type->kind != IR_TYPE_PTR) return c_use(p, v).text;
    if (v->type->space == IR_SPACE_MAP) return arena_printf(p->arena, "&%s", c_use(p, v).text);
    return arena_printf(p->arena, "&%s", c_element(p, v, op->operands[*at - 1]));
}

static void call(CPrinter *p, const char *name, const char *arguments) {
    bool wide = 4 * p->indent + strlen(name) + strlen(arguments) + 3 > C_LINE_WIDTH;
    if (wide) c_line(p, "// clang-format off");
    c_statement(p, "%s(%s);", name, arguments);
    if (wide) c_line(p, "// clang-format on");
}

static const char *make_words(CPrinter *p, const IrOp *product);

void c_instruction(CPrinter *p, const IrOp *op) {
    const AtomInfo *atom = async_find(op);
    if (!atom || !p->dialect->gpu) {
        c_fail(p, op, "GPU instructions");
        return;
    }
    const IrOp *product = op->opcode == IR_WGMMA_FENCE ? wgmma_next_of_registers(op) : NULL;
    for (; product; product = wgmma_next_of_registers(product))
        if (!c_value(p, product->operands[0])->words) make_words(p, product);
    const char *arguments = "";
    for (unsigned at = 0; at < op->operand_count;) arguments = join(p, arguments, argument(p, op, &at));
    int64_t attribute;
    if (async_attribute(op, &attribute)) arguments = join(p, arguments, c_int_text(p, attribute));
    call(p, c_atom_name(p, noted(p, atom)), arguments);
}

/* ---- wgmma ---- */

static void note_form(CPrinter *p, WgmmaForm form) {
    const char *name = wgmma_name(p->arena, form);
    for (size_t i = 0; i < p->wgmmas.len; i++)
        if (strcmp(wgmma_name(p->arena, p->wgmmas.data[i]), name) == 0) return;
    VEC_PUSH(p->arena, &p->wgmmas, form);
}

/* The address of the fragment's first element. */
static const char *flat(CPrinter *p, const IrType *t, const char *array) {
    if (t->rank <= 1) return array;
    for (unsigned i = 0; i < t->rank; i++) array = arena_printf(p->arena, "%s[0]", array);
    return arena_printf(p->arena, "&%s", array);
}

static const char *make_words(CPrinter *p, const IrOp *product) {
    const IrValue *factor = product->operands[0];
    const char *array = name_claim(&p->names, "words"), *from = flat(p, factor->type, c_value(p, factor)->array);
    c_statement(p, "unsigned int %s[%u];", array, wgmma_form(product).words);
    c_statement(p, "wgmma_words_%s(%s, %s + %lld);", dtype_name(factor->type->dtype), array, from,
                (long long)ir_attr_int(product->operands[1]->def, "value", 0));
    VEC_PUSH(p->arena, &p->words, ((CWords){product, array}));
    return array;
}

static const char *words_of(CPrinter *p, const IrOp *product) {
    const char *whole = c_value(p, product->operands[0])->words;
    long long first = ir_attr_int(product->operands[1]->def, "value", 0) / 2;
    if (whole) return first ? arena_printf(p->arena, "%s + %lld", whole, first) : whole;
    for (size_t i = p->words.len; i-- > 0;)
        if (p->words.data[i].product == product) return p->words.data[i].array;
    return make_words(p, product);
}

/* ---- Factors that loops keep in registers ---- */

static int64_t elements_of(const IrType *t) {
    int64_t elements = 1;
    for (unsigned i = 0; i < t->rank; i++) elements *= ir_type_extent(t, i);
    return elements;
}

static void fill_words(CPrinter *p, const IrValue *v) {
    enum { ELEMENTS = 8 /* of an instruction */ };
    size_t names = name_mark(&p->names);
    const char *i = name_claim(&p->names, "i"), *words = c_value(p, v)->words;
    CBody b;
    c_pragma(p, "#pragma unroll");
    c_body_begin(p, &b, arena_printf(p->arena, "for (int %s = 0; %s < %lld; ++%s)", i, i, (long long)elements_of(v->type) / ELEMENTS, i));
    c_statement(p, "wgmma_words_%s(%s + 4 * %s, %s + 8 * %s);", dtype_name(v->type->dtype), words, i,
                flat(p, v->type, c_value(p, v)->array), i);
    c_body_end(p, &b);
    name_release(&p->names, names);
}

static void declare_words(CPrinter *p, const IrValue *v) {
    const char *words = name_claim(&p->names, "words");
    c_statement(p, "unsigned int %s[%lld];", words, (long long)elements_of(v->type) / 2);
    c_value(p, v)->words = words;
    fill_words(p, v);
}

static bool is_within(const IrBlock *block, const IrOp *op) {
    for (; block; block = block->parent ? block->parent->block : NULL)
        if (block->parent == op) return true;
    return false;
}

static bool is_factor(const IrValue *v) {
    for (const IrUse *use = v->uses; use; use = use->next)
        if (use->op->opcode == IR_WGMMA && use->index == 0) return true;
    return false;
}

/* Those of the block's products that are made outside of the loop. */
static void keep_outer(CPrinter *p, const IrBlock *block, const IrOp *loop) {
    for (const IrOp *op = block->first; op; op = op->next) {
        for (unsigned r = 0; r < op->region_count; r++) keep_outer(p, op->regions[r], loop);
        const IrValue *v = op->opcode == IR_WGMMA ? op->operands[0] : NULL;
        if (!v || v->type->kind != IR_TYPE_FRAG || is_within(v->def ? v->def->block : v->block, loop)) continue;
        if (!c_value(p, v)->words) declare_words(p, v);
    }
}

void c_factors_before(CPrinter *p, const IrOp *loop) {
    if (!KEEP_FACTORS || !p->dialect->gpu || p->failed) return;
    keep_outer(p, loop->regions[0], loop);
    for (unsigned k = 0; k < loop->result_count; k++) {
        const IrValue *arg = loop->regions[0]->args[k + 1], *result = &loop->results[k];
        if (arg->type->kind != IR_TYPE_FRAG || !is_factor(arg)) continue;
        declare_words(p, arg);
        if (result->storage == arg->storage) c_value(p, result)->words = c_value(p, arg)->words;
    }
}

void c_factors_again(CPrinter *p, const IrOp *loop) {
    for (unsigned k = 0; k < loop->result_count && !p->failed; k++) {
        const IrValue *arg = loop->regions[0]->args[k + 1];
        if (arg->type->kind == IR_TYPE_FRAG && c_value(p, arg)->words) fill_words(p, arg);
    }
}

/* A factor as an argument: the array of its registers, or its descriptor. */
static const char *factor_argument(CPrinter *p, const IrOp *op, unsigned which) {
    const IrValue *at = op->operands[2 * which];
    if (at->type->kind == IR_TYPE_FRAG) return words_of(p, op);
    const char *factor =
        c_helper(p, ir_func_cluster(p->func) > 1 ? C_HELPER_WGMMA_FACTOR_IN_CLUSTER : C_HELPER_WGMMA_FACTOR, DTYPE_NONE, DTYPE_NONE);
    uint64_t form = wgmma_descriptor(op, which);
    const IrValue *offset = wgmma_offset(op, which, &form);
    return arena_printf(p->arena, "%s(&%s, 0x%llxull)", factor, c_element(p, at, offset), (unsigned long long)form);
}

void c_wgmma(CPrinter *p, const IrOp *op) {
    if (!p->dialect->gpu) {
        c_fail(p, op, "GPU instructions");
        return;
    }
    WgmmaForm form = wgmma_form(op);
    const IrValue *acc = form.fresh ? NULL : op->operands[op->operand_count - 1];
    const char *array = acc ? c_change_array(p, &op->results[0], acc) : c_new_array(p, &op->results[0]);
    note_form(p, form);
    const char *arguments = form.registers ? flat(p, op->results[0].type, array) : "";
    for (unsigned i = 0; i < 2 && !form.wait; i++) arguments = arena_printf(p->arena, "%s, %s", arguments, factor_argument(p, op, i));
    call(p, wgmma_name(p->arena, form), arguments);
}

/* Pairs of elements as the registers that the instruction takes. Volatile: it stays in front of the fence. */
static void print_words(CPrinter *p, Dtype dtype, Str *out) {
    const char *bits = dtype == DTYPE_F16 ? "__half_as_ushort" : "__bfloat16_as_ushort", *name = dtype_name(dtype);
    str_printf(out, "// clang-format off\n%s void wgmma_words_%s(unsigned int *w, const %s *a) {\n", p->dialect->helper_prefix, name,
               c_type(p, dtype));
    str_append(out, "#pragma unroll\n    for (int i = 0; i < 4; i++)\n");
    str_printf(out, "        asm volatile(\"mov.b32 %%0, {%%1, %%2};\" : \"=r\"(w[i]) : \"h\"(%s(a[2 * i])), \"h\"(%s(a[2 * i + 1])));\n",
               bits, bits);
    str_append(out, "}\n// clang-format on\n\n");
}

static void print_form(CPrinter *p, WgmmaForm form, Str *out) {
    str_printf(out, "// clang-format off\n%s void %s(", p->dialect->helper_prefix, wgmma_name(p->arena, form));
    bool real = dtype_is_float(form.acc);
    if (form.registers) str_append(out, real ? "float *d" : "int *d");
    if (form.words)
        str_append(out, ", const unsigned int *a, unsigned long long b");
    else if (!form.wait)
        str_append(out, ", unsigned long long a, unsigned long long b");
    str_append(out, ") {\n");
    str_printf(out, "    asm volatile(\"%s\"\n        : ", wgmma_text(p->arena, form, '%', form.registers));
    for (unsigned i = 0; i < form.registers; i++)
        str_printf(out, "%s\"%c%c\"(d[%u])", i ? ", " : "", form.fresh ? '=' : '+', real ? 'f' : 'r', i);
    str_append(out, "\n        :");
    for (unsigned i = 0; i < form.words; i++) str_printf(out, " \"r\"(a[%u]),", i);
    if (!form.wait) str_append(out, form.words ? " \"l\"(b)" : " \"l\"(a), \"l\"(b)");
    str_append(out, "\n        : \"memory\");\n}\n// clang-format on\n\n");
}

void c_print_wgmmas(CPrinter *p, Str *out) {
    uint32_t printed = 0;
    for (size_t i = 0; i < p->wgmmas.len; i++) {
        WgmmaForm form = p->wgmmas.data[i];
        if (form.words && !(printed >> form.factors & 1)) print_words(p, form.factors, out);
        if (form.words) printed |= UINT32_C(1) << form.factors;
    }
    for (size_t i = 0; i < p->wgmmas.len; i++) print_form(p, p->wgmmas.data[i], out);
}
