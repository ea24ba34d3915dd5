/* Building, folding, rewriting, cloning, and the text form of what was built. */
#include "check.h"
#include "ir.h"

#include <math.h>

typedef struct {
    Arena *arena;
    IrModule *m;
    IrFunc *f;
    IrBuilder b;
} Setup;

static Setup setup(unsigned level) {
    Setup s = {.arena = arena_create()};
    s.m = ir_module_create(s.arena, NULL);
    s.f = ir_func_create(s.m, "f", level);
    s.b = ir_builder_at_end(s.f->body);
    return s;
}

static char *print(const IrModule *m, Arena *arena) {
    Str out;
    str_init(&out);
    ir_print(m, &out);
    char *text = arena_strdup(arena, out.data);
    str_release(&out);
    return text;
}

static int64_t constant(const IrValue *v) {
    CHECK(v->def && v->def->opcode == IR_CONST);
    return ir_attr_int(v->def, "value", -12345);
}

static void test_types(void) {
    Setup s = setup(IR_LEVEL_TILE);
    AffCtx *c = s.m->affs;
    const Aff *shape[] = {aff_sym(c, "M"), aff_const(c, 8)};
    const IrType *t = ir_type_tile(s.m, DTYPE_F32, 2, shape, NULL);
    CHECK(t == ir_type_tile(s.m, DTYPE_F32, 2, shape, NULL));
    CHECK(t != ir_type_tensor(s.m, DTYPE_F32, 2, shape));
    CHECK(ir_type_with_dtype(s.m, t, DTYPE_BOOL)->dtype == DTYPE_BOOL);
    CHECK(ir_type_extent(t, 0) == -1 && ir_type_extent(t, 1) == 8);
    CHECK(ir_type_vec(s.m, DTYPE_F32, 1) == ir_type_scalar(s.m, DTYPE_F32));
    CHECK(ir_type_index(s.m) != ir_type_scalar(s.m, DTYPE_I64));
    arena_destroy(s.arena);
}

static void test_index_folding(void) {
    Setup s = setup(IR_LEVEL_KERNEL);
    IrValue *m = ir_func_add_param(s.f, IR_PARAM_SYMBOL, "M", ir_type_index(s.m), IR_DIR_IN);
    IrValue *zero = ir_const_index(&s.b, 0), *one = ir_const_index(&s.b, 1);
    IrValue *seven = ir_const_index(&s.b, -7), *two = ir_const_index(&s.b, 2);
    CHECK(constant(ir_binary(&s.b, IR_FLOORDIV, seven, two)) == -4);
    CHECK(constant(ir_binary(&s.b, IR_MOD, seven, two)) == 1);
    CHECK(constant(ir_binary(&s.b, IR_MOD, seven, zero)) == 0);
    CHECK(constant(ir_binary(&s.b, IR_FLOORDIV, seven, zero)) == 0);
    CHECK(ir_binary(&s.b, IR_ADD, zero, m) == m && ir_binary(&s.b, IR_MUL, m, one) == m);
    CHECK(constant(ir_binary(&s.b, IR_MUL, m, zero)) == 0);
    CHECK(constant(ir_binary(&s.b, IR_SUB, m, m)) == 0);
    CHECK(ir_binary(&s.b, IR_MIN, m, m) == m);
    IrValue *less = ir_binary(&s.b, IR_LT, one, two);
    CHECK(constant(less) == 1 && less->type == ir_type_scalar(s.m, DTYPE_BOOL));
    CHECK(ir_select(&s.b, less, one, two) == one);
    IrValue *least = ir_const_index(&s.b, INT64_MIN), *minus = ir_const_index(&s.b, -1);
    CHECK(constant(ir_binary(&s.b, IR_FLOORDIV, least, minus)) == INT64_MIN);
    CHECK(constant(ir_binary(&s.b, IR_MOD, least, minus)) == 0);
    IrValue *sum = ir_binary(&s.b, IR_ADD, m, one);
    CHECK(sum->def->opcode == IR_ADD && sum->type == ir_type_index(s.m));
    arena_destroy(s.arena);
}

static void test_uses_and_erasing(void) {
    Setup s = setup(IR_LEVEL_KERNEL);
    IrValue *x = ir_func_add_param(s.f, IR_PARAM_SCALAR, "x", ir_type_scalar(s.m, DTYPE_F32), 0);
    IrValue *y = ir_func_add_param(s.f, IR_PARAM_SCALAR, "y", x->type, 0);
    IrValue *sum = ir_binary(&s.b, IR_ADD, x, x);
    IrValue *product = ir_binary(&s.b, IR_MUL, sum, x);
    CHECK(x->uses && x->uses->next && x->uses->next->next && !x->uses->next->next->next);
    ir_replace_uses(x, y);
    CHECK(!x->uses && sum->def->operands[1] == y && product->def->operands[1] == y);
    CHECK(ir_dominates(sum->def, product->def) && !ir_dominates(product->def, sum->def));
    ir_op_erase(product->def);
    CHECK(!sum->uses && s.f->body->last == sum->def);
    ir_op_erase(sum->def);
    CHECK(!s.f->body->first && !s.f->body->last && !y->uses);
    arena_destroy(s.arena);
}

static void test_parameter_order(void) {
    Setup s = setup(IR_LEVEL_KERNEL);
    const IrType *pointer = ir_type_ptr(s.m, DTYPE_F32, IR_SPACE_GLOBAL);
    IrValue *scalar = ir_func_add_param(s.f, IR_PARAM_SCALAR, "s", ir_type_scalar(s.m, DTYPE_F32), 0);
    IrValue *symbol = ir_func_add_param(s.f, IR_PARAM_SYMBOL, "N", ir_type_index(s.m), 0);
    IrValue *tensor = ir_func_add_param(s.f, IR_PARAM_TENSOR, "X", pointer, IR_DIR_IN);
    CHECK(tensor->index == 0 && symbol->index == 1 && scalar->index == 2);
    CHECK(s.f->body->args[1] == symbol && ir_func_symbol(s.f, "N") == symbol);
    CHECK(!ir_func_symbol(s.f, "X") && isnan(s.f->params[2].fallback));
    arena_destroy(s.arena);
}

/* A loop built here prints as expected, and so does its clone, with names made unique. */
static void test_building_a_loop(void) {
    Setup s = setup(IR_LEVEL_KERNEL);
    IrValue *n = ir_func_add_param(s.f, IR_PARAM_SYMBOL, "N", ir_type_index(s.m), 0);
    const IrType *f32 = ir_type_scalar(s.m, DTYPE_F32);
    IrValue *zero = ir_const_index(&s.b, 0), *one = ir_const_index(&s.b, 1);
    IrValue *init = ir_const_float(&s.b, f32, 0.1);
    init->name = "x";
    IrOp *loop = ir_for(&s.b, zero, n, one, 1, &init, "i");
    IrBuilder in = ir_builder_at_end(loop->regions[0]);
    IrValue *next = ir_binary(&in, IR_ADD, loop->regions[0]->args[1], init);
    ir_yield(&in, 1, &next);
    ir_op_create(&s.b, IR_RETURN, 0, NULL, 0, NULL);
    IrFunc *copy = ir_func_clone(s.f, "g");
    CHECK(copy->next == NULL && s.m->last == copy && copy->body->args[0] != n);
    const char *body = "kernel (symbol %N: index) {\n"
                       "    %0 = const() {value = 0} : index\n"
                       "    %1 = const() {value = 1} : index\n"
                       "    %x = const() {value = 0.10000000149011612} : f32\n"
                       "    %2 = for(%0, %N, %1, %x) : f32 (%i: index, %x_1: f32) {\n"
                       "        %3 = add(%x_1, %x) : f32\n"
                       "        yield(%3)\n"
                       "    }\n"
                       "    return()\n"
                       "}\n";
    CHECK_STR(print(s.m, s.arena), arena_printf(s.arena, "sketchc.ir 1\n\nfunc @f %s\nfunc @g %s", body, body));
    Str one_op;
    str_init(&one_op);
    ir_print_op(next->def, &one_op);
    CHECK_STR(one_op.data, "%3 = add(%x_1, %x) : f32");
    str_release(&one_op);
    arena_destroy(s.arena);
}

static void test_special_floats(void) {
    Setup s = setup(IR_LEVEL_KERNEL);
    const IrType *f64 = ir_type_scalar(s.m, DTYPE_F64);
    const double values[] = {-0.0, INFINITY, -INFINITY, NAN, 5e-324, 0.1, 1e300, 123456789.0};
    const char *texts[] = {"-0.0", "inf", "-inf", "nan", "5e-324", "0.1", "1e+300", "123456789.0"};
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        IrValue *v = ir_const_float(&s.b, f64, values[i]);
        Str out;
        str_init(&out);
        ir_print_op(v->def, &out);
        char *want = arena_printf(s.arena, "%%%zu = const() {value = %s} : f64", i, texts[i]);
        CHECK_STR(out.data, want);
        str_release(&out);
    }
    IrValue *narrow = ir_const_int(&s.b, ir_type_scalar(s.m, DTYPE_U8), -1);
    CHECK(constant(narrow) == 255);
    arena_destroy(s.arena);
}

int main(void) {
    test_types();
    test_index_folding();
    test_uses_and_erasing();
    test_parameter_order();
    test_building_a_loop();
    test_special_floats();
    return 0;
}
