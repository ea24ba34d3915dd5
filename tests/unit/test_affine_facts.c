/* Bounds, proofs, divisibility and simplification under facts: the cases that lowering needs, and
 * random expressions against brute force. */
#include "affine.h"
#include "check.h"

static uint64_t random_state = 0x123456789abcdefu;
static uint64_t random_next(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state >> 11;
}
static int64_t random_in(int64_t lo, int64_t hi) {
    return lo + (int64_t)(random_next() % (uint64_t)(hi - lo + 1));
}

static Arena *arena;
static AffCtx *ctx;

static const Aff *parse(const char *text) {
    const Aff *e = aff_parse(ctx, text, NULL, NULL, NULL);
    CHECK(e);
    return e;
}
static AffFacts *facts_new(void) {
    return aff_facts_create(arena, ctx);
}
static void range(AffFacts *f, const char *leaf, const char *lo, const char *hi) {
    aff_facts_range(f, parse(leaf), lo ? parse(lo) : NULL, hi ? parse(hi) : NULL);
}
static bool proves(const AffFacts *f, const char *e) {
    return aff_prove_nonneg(f, parse(e));
}
static bool equal(const AffFacts *f, const char *a, const char *b) {
    return aff_prove_eq(f, parse(a), parse(b));
}

static void test_tile_loops(void) {
    AffFacts *f = facts_new();
    range(f, "v", "0", "ceildiv(D, 8) - 1");
    CHECK(proves(f, "D - 1 - 8*v"));
    CHECK(!proves(f, "D - 2 - 8*v"));
    CHECK(proves(f, "8*v + 8 - min((v+1)*8, D)"));
    CHECK(proves(f, "D - min((v+1)*8, D)"));
    CHECK(proves(f, "min((v+1)*8, D) - v*8 - 1"));
    CHECK(proves(f, "8 - (min((v+1)*8, D) - v*8)"));
    CHECK(!proves(f, "D - (v+1)*8"));
    aff_facts_multiple(f, parse("D"), 8);
    CHECK(equal(f, "ceildiv(D, 8)*8", "D"));
    CHECK(proves(f, "D - (v+1)*8"));
}

static void test_symbolic_tiles(void) {
    AffFacts *f = facts_new();
    range(f, "T", "1", NULL);
    range(f, "i", "0", "ceildiv(N, T) - 1");
    CHECK(proves(f, "N - 1 - i*T"));
    CHECK(proves(f, "min((i+1)*T, N) - i*T - 1"));
    range(f, "h", "0", "H - 1");
    range(f, "w", "0", "W - 1");
    CHECK(proves(f, "H*W - 1 - h*W - w"));
    CHECK(!proves(f, "H*W - 2 - h*W - w"));
    CHECK(!proves(f, "i*T - N"));
    range(f, "W", "1", NULL);
    range(f, "H", "1", NULL);
    CHECK(equal(f, "(n*H*W + h*W + w)//(H*W)", "n"));
    CHECK(equal(f, "(n*H*W + h*W + w)//W % H", "h"));
    CHECK(equal(f, "(n*H*W + h*W + w) % W", "w"));
    CHECK(!equal(f, "(n*H*W + h*W + w)//(H*W)", "n + 1"));
    range(f, "m", "0", "N*H*W - 1");
    CHECK(proves(f, "N - 1 - m//(H*W)"));
    CHECK(proves(f, "W - 1 - m % W"));
    CHECK(equal(f, "m//W*W + m % W", "m"));
}

static void test_simplify(void) {
    AffFacts *f = facts_new();
    range(f, "b", "0", "7");
    CHECK(aff_simplify(f, parse("(a*8 + b)//8")) == parse("a"));
    CHECK(aff_simplify(f, parse("(a*8 + b) % 8")) == parse("b"));
    CHECK(aff_simplify(f, parse("min(b, 7) + max(b, 0)")) == parse("2*b"));
    CHECK(aff_simplify(f, parse("(b + 8)//8")) == parse("1"));
    CHECK(aff_simplify(f, parse("(b + 9)//8")) != parse("1"));
    aff_facts_multiple(f, parse("N"), 16);
    CHECK(aff_simplify(f, parse("N % 8")) == parse("0"));
    CHECK(aff_simplify(f, parse("(N + b)//8")) == parse("N//8"));
    CHECK(aff_simplify(f, parse("N//8*8 + N//16*32")) == parse("3*N"));
    CHECK(aff_simplify(f, parse("(N + 15)//16*16")) == parse("N"));
}

static void test_bounds(void) {
    AffFacts *f = facts_new(), *inner;
    int64_t v;
    range(f, "i", "0", "9");
    range(f, "j", "i", "i + 3");
    CHECK(aff_lower_bound(f, parse("j"), &v) && v == 0);
    CHECK(aff_upper_bound(f, parse("j"), &v) && v == 12);
    CHECK(aff_upper_bound(f, parse("j - i"), &v) && v == 3);
    CHECK(aff_lower_bound(f, parse("j - i"), &v) && v == 0);
    CHECK(aff_lower_bound(f, parse("N"), &v) && v == 0);
    CHECK(!aff_upper_bound(f, parse("N"), &v));
    CHECK(aff_upper_bound(f, parse("min(N, i)"), &v) && v == 9);
    CHECK(aff_upper_bound(f, parse("N % 4 + 2*(i//3)"), &v) && v == 9);
    CHECK(!aff_lower_bound(f, aff_var(ctx, &v, "x"), &v));
    inner = aff_facts_fork(f);
    range(inner, "N", NULL, "100");
    CHECK(aff_upper_bound(inner, parse("N"), &v) && v == 100);
    CHECK(aff_lower_bound(inner, parse("N"), &v) && v == 0);
    CHECK(!aff_upper_bound(f, parse("N"), &v));
    range(inner, "s", "-5", NULL);
    CHECK(aff_lower_bound(inner, parse("s"), &v) && v == -5);
    aff_facts_multiple(inner, parse("M"), 32);
    range(inner, "M", "1", NULL);
    CHECK(aff_lower_bound(inner, parse("M - 2"), &v) && v == 30);
    CHECK(!aff_upper_bound(f, parse("overflow()"), &v));
    CHECK(!aff_prove_eq(f, parse("overflow()"), parse("overflow()")));
    aff_facts_nonneg(inner, parse("N - 2*q - 3"));
    CHECK(aff_prove_nonneg(inner, parse("N - 2*q - 2")));
    CHECK(!aff_prove_nonneg(inner, parse("N - 2*q - 4")));
    CHECK(aff_prove_le(inner, parse("q"), parse("N//2")));
}

static void test_divisors(void) {
    AffFacts *f = facts_new();
    aff_facts_multiple(f, parse("N"), 24);
    aff_facts_multiple(f, parse("N"), 16);
    CHECK(aff_known_divisor(f, parse("N"), 1000) == 48);
    CHECK(aff_known_divisor(f, parse("N"), 20) == 16);
    CHECK(aff_known_divisor(f, parse("N*x + 32"), 64) == 16);
    CHECK(aff_known_divisor(f, parse("N//4"), 64) == 12);
    CHECK(aff_known_divisor(f, parse("min(N, 8) + 4*x"), 64) == 4);
    CHECK(aff_known_divisor(f, parse("8*(x % 3)"), 64) == 8);
    CHECK(aff_known_divisor(f, parse("x"), 64) == 1);
    CHECK(aff_known_divisor(f, parse("0"), 64) == 64);
    /* What is stated of a product holds of products that contain it. */
    aff_facts_multiple(f, parse("H*W"), 4);
    CHECK(aff_known_divisor(f, parse("H*W"), 64) == 4);
    CHECK(aff_known_divisor(f, parse("B*H*W + 8*x"), 64) == 4);
    CHECK(aff_known_divisor(f, parse("2*C*H*W"), 64) == 8);
    CHECK(aff_known_divisor(f, parse("H*C"), 64) == 1);
    CHECK(aff_known_divisor(f, parse("min(8*x + 8, H*W)"), 64) == 4);
    aff_facts_multiple(f, parse("H"), 8);
    CHECK(aff_known_divisor(f, parse("H*W"), 64) == 8);
}

/* ---- Brute force: a in [0, A], b in [lo, hi(a)], c a multiple, d any symbol <= 6 ---- */

static int64_t values[4];
static bool look_up(void *user, const Aff *leaf, int64_t *value) {
    (void)user;
    *value = values[leaf->name[0] - 'a'];
    return true;
}

static char *random_text(int depth) {
    static const char *const names[] = {"a", "b", "c", "d"};
    if (depth == 0)
        return random_in(0, 2) ? arena_strdup(arena, names[random_in(0, 3)]) : arena_printf(arena, "(%d)", (int)random_in(-9, 9));
    char *x = random_text(depth - 1), *y = random_text(depth - 1);
    switch (random_in(0, 8)) {
    case 0:
    case 1:
        return arena_printf(arena, "(%s + %s)", x, y);
    case 2:
    case 3:
        return arena_printf(arena, "(%s - %s)", x, y);
    case 4:
        return arena_printf(arena, "%d*%s", (int)random_in(1, 8), x);
    case 5:
        return arena_printf(arena, "(%s//%d)", x, (int)random_in(1, 8));
    case 6:
        return arena_printf(arena, "(%s %% %d)", x, (int)random_in(1, 8));
    case 7:
        return arena_printf(arena, random_in(0, 1) ? "min(%s, %s)" : "max(%s, %s)", x, y);
    default:
        return arena_printf(arena, random_in(0, 2) ? "(%s*%s)" : "(%s//%s)", x, y);
    }
}

typedef struct {
    int64_t lo, hi, gcd;
    bool equal;
} Truth;

static int64_t gcd(int64_t a, int64_t b) {
    return b == 0 ? (a < 0 ? -a : a) : gcd(b, a % b);
}

static int64_t b_limit(int shape) {
    switch (shape) {
    case 0:
        return values[0] + 2;
    case 1:
        return (values[0] + 3) / 4 - 1;
    case 2:
        return 3 * values[3] - 1;
    default:
        return 5;
    }
}
static const char *const b_limits[] = {"a + 2", "ceildiv(a, 4) - 1", "3*d - 1", "5"};

static Truth brute_force(const Aff *e, const Aff *simple, int shape, bool *any) {
    Truth t = {INT64_MAX, INT64_MIN, 0, true};
    *any = false;
    for (values[0] = 0; values[0] <= 9; values[0]++)
        for (values[3] = 1; values[3] <= 4; values[3]++)
            for (values[1] = 0; values[1] <= b_limit(shape); values[1]++)
                for (values[2] = 0; values[2] <= 12; values[2] += 4) {
                    int64_t v, w;
                    if (values[2] > 3 * values[0]) continue;
                    CHECK(aff_eval(e, look_up, NULL, &v) && aff_eval(simple, look_up, NULL, &w));
                    t.equal = t.equal && v == w;
                    if (v < t.lo) t.lo = v;
                    if (v > t.hi) t.hi = v;
                    t.gcd = gcd(t.gcd, v);
                    *any = true;
                }
    return t;
}

static void test_random(int count) {
    int lower_found = 0, lower_exact = 0, proofs = 0, simplified = 0;
    for (int n = 0; n < count; n++) {
        int shape = (int)random_in(0, 3);
        AffFacts *f = facts_new();
        range(f, "a", NULL, "9");
        range(f, "b", NULL, b_limits[shape]);
        range(f, "c", "0", "12");
        aff_facts_multiple(f, parse("c"), 4);
        range(f, "d", "1", "4");
        aff_facts_nonneg(f, parse("3*a - c"));
        char *text = random_text(3);
        const Aff *e = parse(text), *simple = aff_simplify(f, e);
        bool any;
        Truth truth = brute_force(e, simple, shape, &any);
        int64_t lo, hi, d = aff_known_divisor(f, e, 64);
        if (!truth.equal) fprintf(stderr, "simplify changed %s\n", text);
        CHECK(truth.equal && any);
        if (aff_lower_bound(f, e, &lo)) {
            if (lo > truth.lo) fprintf(stderr, "%s >= %lld\n", text, (long long)lo);
            CHECK(lo <= truth.lo);
            lower_found++;
            lower_exact += lo == truth.lo;
        }
        if (aff_upper_bound(f, e, &hi)) {
            if (hi < truth.hi) fprintf(stderr, "%s <= %lld\n", text, (long long)hi);
            CHECK(hi >= truth.hi);
        }
        CHECK(d >= 1 && d <= 64 && truth.gcd % d == 0);
        const Aff *shifted = aff_sub(ctx, e, aff_const(ctx, truth.lo));
        const Aff *beyond = aff_sub(ctx, shifted, aff_const(ctx, 1));
        CHECK(!aff_prove_nonneg(f, beyond));
        proofs += aff_prove_nonneg(f, shifted);
        CHECK(!aff_prove_eq(f, e, aff_add(ctx, simple, aff_const(ctx, 1))));
        CHECK(aff_prove_eq(f, e, e));
        simplified += simple != e;
    }
    printf("%d expressions: %d lower bounds, %d exact, %d proofs, %d simplified\n", count, lower_found, lower_exact, proofs, simplified);
    CHECK(lower_found > count * 9 / 10 && lower_exact > count / 2 && proofs > count / 2 && simplified > 0);
}

int main(void) {
    arena = arena_create();
    ctx = aff_ctx_create(arena);
    test_bounds();
    test_divisors();
    test_tile_loops();
    test_symbolic_tiles();
    test_simplify();
    test_random(1500);
    arena_destroy(arena);
    return 0;
}
