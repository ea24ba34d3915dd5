/* What sema decides, for the lowering to rely on: see the head of frontend/ast.h. */
#include "parse_text.h"
#include "show.h"

static Checked check_text(const char *text) {
    static const FrontendOptions OPTIONS = {0};
    Checked c = parse_text(text, strlen(text), &OPTIONS);
    if (!c.ok) show_diags(&c.diags);
    CHECK(c.ok);
    return c;
}

static const Stmt *inner(const Body *body, size_t i) {
    return body->data[i];
}

static void check_aff(const Aff *e, const char *want) {
    Str text;
    str_init(&text);
    aff_print(e, &text);
    CHECK_STR(text.data, want);
    str_release(&text);
}

/* A tile's type comes from its use. */
static void test_dtypes(void) {
    Checked c = check_text("sketch s {\n symbols: N\n tensors: X[N, 16]: f16; Y[N, 16]: f16; Q[N, 16]: i8; R[N]: i32\n"
                           " for i in range(N):\n"
                           "  x = alloc([16, 16])\n  load(X[0:16, :] -> x)\n"   /* f16: a load feeds it */
                           "  s = alloc([16, 16], init=0)\n  add(s, x, s)\n"    /* f32: accumulates narrower floats */
                           "  y = x * 2\n"                                      /* f32: a temporary */
                           "  z = alloc([16, 16], dtype=f16)\n  mul(x, x, z)\n" /* f16: said */
                           "  q = alloc([16, 16])\n  load(Q[0:16, :] -> q)\n"
                           "  g = alloc([16, 16], init=0)\n  gemm(q, q, g)\n" /* i32: int8 gemm */
                           "  b = x > 1\n  store(z -> Y[0:16, :])\n"
                           "  r = reduce_sum(g)\n  store(r -> R[i])\n}\n");
    const Body *body = &c.file->sketch->body.data[0]->u.loop.body;
    static const struct {
        size_t at;
        Dtype dtype;
    } WANT[] = {{0, DTYPE_F16}, {2, DTYPE_F32}, {4, DTYPE_F32},   {5, DTYPE_F16},
                {7, DTYPE_I8},  {9, DTYPE_I32}, {11, DTYPE_BOOL}, {13, DTYPE_I32}};
    for (size_t i = 0; i < COUNT_OF(WANT); i++) CHECK(inner(body, WANT[i].at)->targets[0]->type.dtype == WANT[i].dtype);
    CHECK(inner(body, 6)->value->compute == DTYPE_F32); /* then rounded: + - * / sqrt as in f16 */
    CHECK(inner(body, 4)->value->compute == DTYPE_F32);
    arena_destroy(c.arena);
}

static void test_slices(void) {
    Checked c = check_text("sketch s {\n symbols: M, N % 4 == 0\n tensors: X[M, N]: f32; Y[M, N]: f32\n "
                           "constexpr: T = 8\n"
                           " for i in range(ceil(M / T)):\n  x = alloc([T, N])\n"
                           "  load(X[i*T:min((i+1)*T, M)] -> x)\n  store(x -> Y[i*T:(i+1)*T, :])\n}\n");
    const Stmt *loop = c.file->sketch->body.data[0], *load = inner(&loop->u.loop.body, 1);
    check_aff(loop->loop->hi, "ceildiv(M, 8)");
    CHECK(load->action == ACTION_LOAD && load->value->axis_count == 2);
    check_aff(load->value->axes[0].start, "8*i");
    check_aff(load->value->axes[0].count, "8");
    check_aff(load->presence[0].hi, "min(8, M - 8*i)");
    CHECK(!load->presence[1].lo && loop->loop->proved_parallel);
    CHECK(c.file->sketch->decls[2]->direction == DIR_IN && c.file->sketch->decls[3]->direction == DIR_OUT);
    CHECK(aff_known_divisor(c.file->facts, c.file->sketch->decls[1]->affine, 4) == 4);
    arena_destroy(c.arena);
}

static void test_implements(void) {
    Checked c = check_text("operator o {\n symbols: A, B\n tensors: P[A, B]: f32; R[B, A]: f32\n"
                           " R[j, i] = P[i, j]\n}\n"
                           "sketch s implements o(P=X, R=Y) {\n symbols: B, A\n tensors: X[B, A]: f32; Y[A, B]: f32\n"
                           " for i in range(B):\n  x = alloc([A])\n  load(X[i] -> x)\n  store(x -> Y[:, i])\n}\n");
    const Block *s = c.file->sketch;
    CHECK(s->op == c.file->op && s->binding_count == 4);
    for (size_t i = 0; i < s->binding_count; i++) {
        const Binding *b = &s->bindings[i];
        if (b->op_decl->kind == DECL_TENSOR)
            CHECK(b->sketch_decl && !b->is_reshape);
        else
            check_aff(b->value, b->op_decl->name[0] == 'A' ? "B" : "A"); /* crosswise */
    }
    arena_destroy(c.arena);
}

static void test_carried(void) {
    Checked c = check_text("sketch s {\n symbols: N\n tensors: X[N]: f32; Y[N]: f32\n"
                           " for i in range(N):\n  acc = alloc([], init=0)\n  for k in range(4):\n   x = alloc([])\n"
                           "   load(X[k] -> x, pad=0)\n   if k > 1:\n    acc += x\n  store(acc -> Y[i])\n}\n");
    const Stmt *outer = c.file->sketch->body.data[0], *loop = inner(&outer->u.loop.body, 1);
    CHECK(loop->loop->carried_count == 1 && strcmp(loop->loop->carried[0]->name, "acc") == 0);
    CHECK(outer->loop->carried_count == 0 && outer->loop->proved_parallel && !loop->loop->proved_parallel);
    const Stmt *branch = inner(&loop->u.loop.body, 2);
    CHECK(branch->kind == STMT_IF && branch->assigned_count == 1);
    arena_destroy(c.arena);
}

/* Above the loops: `x` is overwritten in each iteration, `last` is read behind the inner loop, `sum` goes on. */
static void test_private(void) {
    Checked c = check_text("sketch s {\n symbols: N\n tensors: X[N]: f32; Y[N]: f32\n x = alloc([])\n last = alloc([])\n sum = alloc([])\n"
                           " for i in range(N):\n  copy(0, sum)\n  for k in range(4):\n   load(X[k] -> x, pad=0)\n   copy(x, last)\n"
                           "   if k > 1:\n    x = x + 1\n    sum += x\n  sum += last\n  store(sum -> Y[i])\n}\n");
    const Stmt *outer = c.file->sketch->body.data[3], *loop = inner(&outer->u.loop.body, 1), *branch = inner(&loop->u.loop.body, 2);
    CHECK(outer->written_count == 3 && outer->loop->carried_count == 0 && outer->loop->proved_parallel);
    CHECK(loop->written_count == 3 && loop->loop->carried_count == 2 && !loop->loop->proved_parallel);
    CHECK_STR(loop->loop->carried[0]->name, "sum");
    CHECK_STR(loop->loop->carried[1]->name, "last");
    CHECK(loop->loop->goes_on[0] && !loop->loop->goes_on[1]);
    CHECK(branch->written_count == 2 && branch->assigned_count == 1);
    arena_destroy(c.arena);
}

static void test_constexprs(void) {
    static const FrontendDefine DEFINES[] = {{"BN", "256"}, {"M", "64"}};
    FrontendOptions options = {.defines = DEFINES, .define_count = 2};
    const char *text = "sketch s {\n symbols: M\n tensors: X[M]: f32\n constexpr: BM in {64, 128}, "
                       "BN in 1..4, e = 2**4 - 1, f = 1 / 4\n"
                       " a, b = BM * 2, BN\n x = alloc([M], init=-inf)\n store(x -> X[:])\n}\n";
    Checked c = parse_text(text, strlen(text), &options);
    CHECK(c.ok);
    Decl **d = c.file->sketch->decls;
    CHECK(d[2]->origin == ORIGIN_SPACE && d[2]->constant.i == 64 && d[2]->choice_count == 2);
    CHECK(d[3]->origin == ORIGIN_DEFINE && d[3]->constant.i == 256 && d[3]->choice_count == 4);
    CHECK(d[4]->constant.i == 15 && d[5]->constant.f == 0.25 && d[5]->constant.kind == CONST_FLOAT);
    CHECK_STR(d[0]->define, "64");
    const Stmt *tuple = c.file->sketch->body.data[0];
    CHECK(tuple->action == ACTION_SCALAR && tuple->targets[0]->constant.i == 128);
    arena_destroy(c.arena);
}

int main(void) {
    test_dtypes();
    test_slices();
    test_implements();
    test_carried();
    test_private();
    test_constexprs();
    return 0;
}
