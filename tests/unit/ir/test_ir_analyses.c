/* Affine view, facts, uniformity, simplification. */
#include "ir_reader.h"

static void prints(const Aff *e, const char *want) {
    Str s;
    str_init(&s);
    aff_print(e, &s);
    CHECK_STR(s.data, want);
    str_release(&s);
}

static const Aff *view(Reader *r, const char *name) {
    return ir_aff_of(r->m, find_value(r->m->first, name));
}

static const char loops[] = "kernel (tensor %X: ptr<f32, global> in, symbol %N: index, symbol %M: index) {num_warps = 4, grid_x = aff(M)}\n"
                            "guard min(N - 99, 1 - M % 8) > 0\nrequire N % 16 == 0\nrequire N - 128*(N//128) == 0\n";
static const char loop_body[] =
    "%zero = const() {value = 0} : index\n%eight = const() {value = 8} : index\n"
    "%tid = special() {name = \"tid.x\"} : index\n%block = special() {name = \"ctaid.x\"} : index\n"
    "%two = const() {value = 2} : index\n"
    "for(%zero, %N, %eight) (%i: index) {\n"
    "  %twice = mul(%i, %two) : index\n%sum = add(%twice, %tid) : index\n%row = mul(%block, %N) : index\n"
    "  %at = add(%row, %sum) : index\n%half = floordiv(%at, %two) : index\n%low = min(%half, %N) : index\n"
    "  %high = max(%low, %tid) : index\n"
    "  map() {extents = [4]} (%k: index) {\n%in = add(%i, %k) : index\n%c = lt(%in, %M) : bool\n"
    "    if(%c) {\n%deep = add(%in, %two) : index\nyield()\n} {\n%else = add(%in, %eight) : index\nyield()\n}\nyield()\n}\n"
    "yield()\n}";

static void test_affine_view(void) {
    Reader r = read_func(loops, loop_body);
    AffCtx *c = r.m->affs;
    CHECK(view(&r, "N") == aff_sym(c, "N"));
    prints(view(&r, "sum"), "2*i + tid");
    prints(view(&r, "at"), "2*i + tid + N*block");
    IrFunc *f = r.m->first;
    const Aff *e = view(&r, "high");
    IrBuilder b = ir_builder_after(find_value(f, "high")->def);
    IrValue *again = ir_aff_emit(&b, e);
    CHECK(ir_aff_of(r.m, again) == e);
    CHECK(ir_verify(r.m, &r.diags));
    arena_destroy(r.arena);
}

static void test_facts(void) {
    Reader r = read_func(loops, loop_body);
    AffCtx *c = r.m->affs;
    IrFunc *f = r.m->first;
    const AffFacts *outer = ir_facts_at(r.arena, find_value(f, "two")->def);
    const AffFacts *inner = ir_facts_at(r.arena, find_value(f, "deep")->def);
    const AffFacts *other = ir_facts_at(r.arena, find_value(f, "else")->def);
    const Aff *i = view(&r, "i"), *n = view(&r, "N"), *m = view(&r, "M"), *k = view(&r, "k"), *in = view(&r, "in");
    const Aff *hundred = aff_const(c, 100), *eight = aff_const(c, 8), *one = aff_const(c, 1);
    CHECK(aff_prove_le(outer, hundred, n) && !aff_prove_le(outer, aff_const(c, 1000), n));
    CHECK(aff_known_divisor(outer, n, 1024) % 128 == 0 && aff_known_divisor(outer, m, 64) == 8);
    CHECK(aff_prove_le(inner, i, aff_sub(c, n, eight)) && aff_prove_nonneg(inner, i));
    CHECK(!aff_prove_le(inner, i, aff_sub(c, n, hundred)));
    CHECK(aff_known_divisor(inner, i, 64) == 8 && aff_known_divisor(inner, in, 64) == 1);
    CHECK(aff_prove_le(inner, k, aff_const(c, 3)) && aff_prove_le(inner, aff_add(c, in, one), n));
    CHECK(aff_prove_le(inner, aff_add(c, in, one), m) && !aff_prove_le(other, aff_add(c, in, one), m));
    CHECK(aff_prove_le(other, m, in) && !aff_prove_le(inner, m, in));
    CHECK(aff_prove_le(inner, view(&r, "tid"), aff_const(c, 127)));
    CHECK(aff_prove_le(inner, aff_add(c, view(&r, "block"), one), m));
    arena_destroy(r.arena);
}

static void test_uniformity(void) {
    Reader r = read_func("kernel (tensor %X: ptr<f32, global> in, symbol %N: index, scalar %s: f32)",
                         "%tid = special() {name = \"tid.x\"} : index\n%warp = special() {name = \"warp\"} : index\n"
                         "%block = special() {name = \"ctaid.y\"} : index\n%grid = special() {name = \"nctaid.x\"} : index\n"
                         "%a = add(%block, %N) : index\n%b = add(%a, %warp) : index\n%x = mem.load(%X, %b) : f32\n"
                         "%sh = shuffle.xor(%s) {mask = 1} : f32\n"
                         "%r1, %r2 = for(%N, %N, %N, %s, %s) : f32, f32 (%i: index, %c1: f32, %c2: f32) {\n"
                         "%n1 = add(%c1, %s) : f32\n%n2 = add(%c2, %x) : f32\nyield(%n1, %n2)\n}\n"
                         "%late = for(%N, %tid, %N, %s) : f32 (%j: index, %c3: f32) {\nyield(%c3)\n}");
    const struct {
        const char *name;
        IrUniformity want;
    } rows[] = {{"N", IR_UNIFORM_GRID},  {"s", IR_UNIFORM_GRID},    {"grid", IR_UNIFORM_GRID}, {"a", IR_UNIFORM_BLOCK},
                {"b", IR_UNIFORM_WARP},  {"x", IR_UNIFORM_WARP},    {"tid", IR_UNIFORM_LANE},  {"sh", IR_UNIFORM_LANE},
                {"r1", IR_UNIFORM_GRID}, {"r2", IR_UNIFORM_WARP},   {"c1", IR_UNIFORM_GRID},   {"c2", IR_UNIFORM_WARP},
                {"i", IR_UNIFORM_GRID},  {"late", IR_UNIFORM_LANE}, {"j", IR_UNIFORM_LANE}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (ir_uniformity(find_value(r.m->first, rows[i].name)) != rows[i].want) fprintf(stderr, "%s\n", rows[i].name);
        CHECK(ir_uniformity(find_value(r.m->first, rows[i].name)) == rows[i].want);
    }
    arena_destroy(r.arena);
}

/* ---- Simplification: the body before and after ---- */

static void becomes(const char *header, const char *before, const char *after) {
    Reader r = read_func(header, before), want = read_func(header, after);
    Str got_text, want_text;
    str_init(&got_text);
    str_init(&want_text);
    ir_simplify(r.m->first);
    CHECK(ir_verify(r.m, &r.diags));
    CHECK(!ir_simplify(r.m->first)); /* once more changes nothing */
    ir_print_func(r.m->first, &got_text);
    ir_print_func(want.m->first, &want_text);
    CHECK_STR(got_text.data, want_text.data);
    str_release(&got_text);
    str_release(&want_text);
    arena_destroy(r.arena);
    arena_destroy(want.arena);
}

static const char header[] = "kernel (tensor %X: ptr<f32, global> inout, symbol %N: index, scalar %s: f32, scalar %c: bool)";

static void test_folding(void) {
    becomes(header,
            "%a = const() {value = 0.5} : f32\n%b = const() {value = 1.5} : f32\n%d = mul(%a, %b) : f32\n"
            "%e = add(%d, %a) : f32\nmem.store(%e, %X, %N)",
            "%e = const() {value = 1.25} : f32\nmem.store(%e, %X, %N)");
    /* 16777217 is no f32: the sum rounds as the target's does */
    becomes(header,
            "%a = const() {value = 16777216.0} : f32\n%b = const() {value = 1.0} : f32\n%d = add(%a, %b) : f32\n"
            "mem.store(%d, %X, %N)",
            "%a = const() {value = 16777216.0} : f32\nmem.store(%a, %X, %N)");
    /* x + 0 is not x for x = -0; x - 0 and x * 1 are */
    becomes(header, "%z = const() {value = 0.0} : f32\n%a = add(%s, %z) : f32\nmem.store(%a, %X, %N)",
            "%z = const() {value = 0.0} : f32\n%a = add(%s, %z) : f32\nmem.store(%a, %X, %N)");
    becomes(header,
            "%z = const() {value = 0.0} : f32\n%a = sub(%s, %z) : f32\n%o = const() {value = 1.0} : f32\n"
            "%b = mul(%o, %a) : f32\nmem.store(%b, %X, %N)",
            "mem.store(%s, %X, %N)");
    becomes(header, "%a = sub(%s, %s) : f32\nmem.store(%a, %X, %N)", "%a = sub(%s, %s) : f32\nmem.store(%a, %X, %N)");
    becomes(header, "%e = exp(%s) : f32\n%t = const() {value = 1} : bool\n%a = select(%t, %s, %e) : f32\nmem.store(%a, %X, %N)",
            "mem.store(%s, %X, %N)");
    becomes(header, "%v = const() {value = 2.0} : vec<4 x f32>\n%w = mul(%v, %v) : vec<4 x f32>\nmem.store(%w, %X, %N)",
            "%w = const() {value = 4.0} : vec<4 x f32>\nmem.store(%w, %X, %N)");
}

static void test_index_folding(void) {
    becomes(header, "%two = const() {value = 2} : index\n%a = mul(%N, %two) : index\n%b = sub(%a, %N) : index\nmem.store(%s, %X, %b)",
            "mem.store(%s, %X, %N)");
    becomes(header,
            "%one = const() {value = 1} : index\n%a = add(%N, %one) : index\n%b = max(%a, %N) : index\n"
            "%d = min(%a, %N) : index\n%l = lt(%N, %a) : bool\nif(%l) {\nmem.store(%s, %X, %b)\nmem.store(%s, %X, %d)\nyield()\n} {}",
            "%one = const() {value = 1} : index\n%a = add(%N, %one) : index\nmem.store(%s, %X, %a)\nmem.store(%s, %X, %N)");
    becomes(header,
            "%z = const() {value = 0} : index\n%four = const() {value = 4} : index\n%one = const() {value = 1} : index\n"
            "for(%z, %four, %one) (%i: index) {\n%k = mod(%i, %four) : index\n%q = floordiv(%i, %four) : index\n"
            "%e = add(%k, %q) : index\nmem.store(%s, %X, %e)\nyield()\n}",
            "%z = const() {value = 0} : index\n%four = const() {value = 4} : index\n%one = const() {value = 1} : index\n"
            "for(%z, %four, %one) (%i: index) {\nmem.store(%s, %X, %i)\nyield()\n}");
}

static void test_merging(void) {
    /* In two branches nothing dominates; the outer value reaches both. */
    becomes(
        header,
        "if(%c) {\n%a = add(%s, %s) : f32\nmem.store(%a, %X, %N)\nyield()\n} {\n%b = add(%s, %s) : f32\nmem.store(%b, %X, %N)\nyield()\n}",
        "if(%c) {\n%a = add(%s, %s) : f32\nmem.store(%a, %X, %N)\nyield()\n} {\n%b = add(%s, %s) : f32\nmem.store(%b, %X, %N)\nyield()\n}");
    becomes(header, "%o = add(%s, %s) : f32\nmem.store(%o, %X, %N)\nif(%c) {\n%a = add(%s, %s) : f32\nmem.store(%a, %X, %N)\nyield()\n} {}",
            "%o = add(%s, %s) : f32\nmem.store(%o, %X, %N)\nif(%c) {\nmem.store(%o, %X, %N)\nyield()\n} {}");
    /* Loads are kept apart: a store may stand between. Zeros of different sign are not equal. */
    becomes(
        header,
        "%a = mem.load(%X, %N) : f32\nmem.store(%s, %X, %N)\n%b = mem.load(%X, %N) : f32\n%d = add(%a, %b) : f32\nmem.store(%d, %X, %N)",
        "%a = mem.load(%X, %N) : f32\nmem.store(%s, %X, %N)\n%b = mem.load(%X, %N) : f32\n%d = add(%a, %b) : f32\nmem.store(%d, %X, %N)");
    becomes(header, "%a = const() {value = 0.0} : f32\n%b = const() {value = -0.0} : f32\nmem.store(%a, %X, %N)\nmem.store(%b, %X, %N)",
            "%a = const() {value = 0.0} : f32\n%b = const() {value = -0.0} : f32\nmem.store(%a, %X, %N)\nmem.store(%b, %X, %N)");
}

static void test_loops(void) {
    const char *zero = "%z = const() {value = 0} : index\n%e = const() {value = 8} : index\n";
    Str before;
    str_init(&before);
    str_printf(&before,
               "%s%%r = for(%%e, %%z, %%e, %%s) : f32 (%%i: index, %%x: f32) {\n%%y = add(%%x, %%x) : f32\nyield(%%y)\n}\n"
               "mem.store(%%r, %%X, %%N)",
               zero);
    becomes(header, before.data, "mem.store(%s, %X, %N)");
    before.len = 0;
    str_printf(&before,
               "%s%%r = for(%%z, %%e, %%e, %%s) : f32 (%%i: index, %%x: f32) {\n%%y = add(%%x, %%x) : f32\n"
               "mem.store(%%y, %%X, %%i)\nyield(%%y)\n}\nmem.store(%%r, %%X, %%N)",
               zero);
    becomes(header, before.data, "%z = const() {value = 0} : index\n%y = add(%s, %s) : f32\nmem.store(%y, %X, %z)\nmem.store(%y, %X, %N)");
    str_release(&before);
    /* Nothing inside has an effect: gone. A trip count that is not known stays. */
    becomes(header, "for(%N, %N, %N) (%i: index) {\nyield()\n}\n%a = mem.load(%X, %N) : f32", "");
    becomes(header,
            "%one = const() {value = 1} : index\n%z = const() {value = 0} : index\nfor(%z, %N, %one) (%i: index) {\nmem.store(%s, %X, "
            "%i)\nyield()\n}",
            "%one = const() {value = 1} : index\n%z = const() {value = 0} : index\nfor(%z, %N, %one) (%i: index) {\nmem.store(%s, %X, "
            "%i)\nyield()\n}");
    becomes(
        header,
        "%f = const() {value = 0} : bool\n%r = if(%f) : f32 {\nyield(%s)\n} {\n%y = add(%s, %s) : f32\nyield(%y)\n}\nmem.store(%r, %X, %N)",
        "%y = add(%s, %s) : f32\nmem.store(%y, %X, %N)");
}

static void test_maps(void) {
    becomes(header, "map() {extents = [2, 1]} (%i: index, %j: index) {\n%a = add(%i, %j) : index\nmem.store(%s, %X, %a)\nyield()\n}",
            "map() {extents = [2, 1]} (%i: index, %j: index) {\nmem.store(%s, %X, %i)\nyield()\n}");
    becomes(header, "map() {extents = [1]} (%i: index) {\n%a = add(%i, %N) : index\nmem.store(%s, %X, %a)\nyield()\n}",
            "mem.store(%s, %X, %N)");
}

/* Shifts and masks are seen as arithmetic, those that are none stay opaque. */
static void test_bits(void) {
    Reader r = read_func(header, "%three = const() {value = 3} : index\n%six = const() {value = 6} : index\n"
                                 "%q = shr(%N, %three) : index\n%p = shl(%q, %three) : index\n%m = and(%N, %three) : index\n"
                                 "%sum = add(%p, %m) : index\n%odd = and(%N, %six) : index");
    prints(view(&r, "sum"), "8*(N//8) + N % 4");
    prints(view(&r, "odd"), "odd");
    arena_destroy(r.arena);
}

int main(void) {
    test_affine_view();
    test_maps();
    test_bits();
    test_facts();
    test_uniformity();
    test_folding();
    test_index_folding();
    test_merging();
    test_loops();
    return 0;
}
