/* Canonical forms, text, evaluation; random expressions against direct evaluation. */
#include "affine.h"
#include "check.h"

static uint64_t random_state = 0x9e3779b97f4a7c15u;
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
    size_t at = 0;
    const Aff *e = aff_parse(ctx, text, NULL, NULL, &at);
    if (!e) fprintf(stderr, "cannot parse %s at %zu\n", text, at);
    CHECK(e);
    return e;
}

static void same(const char *a, const char *b) {
    const Aff *x = parse(a), *y = parse(b);
    if (x != y) {
        Str s;
        str_init(&s);
        aff_print(x, &s);
        str_append(&s, " is not ");
        aff_print(y, &s);
        fprintf(stderr, "%s / %s: %s\n", a, b, s.data);
        str_release(&s);
    }
    CHECK(x == y);
}

static void prints(const char *text, const char *want) {
    Str s;
    str_init(&s);
    aff_print(parse(text), &s);
    CHECK_STR(s.data, want);
    str_release(&s);
}

static void test_identities(void) {
    same("i*T + T - i*T", "T");
    same("(i+1)*T - i*T", "T");
    same("(a + b)*(a - b)", "a*a - b*b");
    same("(a*8 + b)//8", "a + b//8");
    same("(a*8 + b) % 8", "b % 8");
    same("8*(x//8) + x % 8", "x");
    same("T*8*(x//8) + T*(x % 8) + 1", "T*x + 1");
    same("(x % 16)//8*8 + x % 8", "x % 16");
    same("x//4//8", "x//32");
    same("(x//4 + 3)//8", "(x + 12)//32");
    same("(6*x + 5)//4", "x + (x + 2)//2");
    same("x % 16 % 4", "x % 4");
    same("x % 4 % 16", "x % 4");
    same("x % 1", "0");
    same("(x % 4)//4", "0");
    same("i*T % T", "0");
    same("(i*T + y) % T", "y % T");
    same("x//0 + x % 0", "0");
    same("0//x", "0");
    same("x//-3", "(-x)//3");
    same("x % -3", "-((-x) % 3)");
    same("(2*x)//(2*y)", "x//y");
    same("(-x)//(-y)", "x//y");
    same("(2*x) % (2*y)", "2*(x % y)");
    same("ceildiv(x, 8)", "(x - 1)//8 + 1");
    same("ceildiv(x, y)", "(x + y - 1)//y");
    same("min(a, a)", "a");
    same("min(x + 3, x + 5)", "x + 3");
    same("max(x + 3, x + 5)", "x + 5");
    same("min(min(a, b), c)", "min(a, min(c, b))");
    same("max(max(a, b), max(a, 3))", "max(3, max(b, a))");
    same("min((i+1)*T, N) - i*T", "min(T, N - i*T)");
    same("max(a, b) + min(a, b) - a", "b");
    same("min(a, max(a, b))", "a");
    same("max(a, min(a, b))", "a");
    same("min(x % 8, 7)", "x % 8");
    same("-max(-a, -b)", "min(a, b)");
    CHECK(parse("x//x") != parse("1"));
    CHECK(parse("x//y*y + x % y") != parse("x"));
}

static void test_printing(void) {
    prints("min((i+1)*T, N) - i*T", "min(T, N - T*i)");
    prints("Z + M + N", "M + N + Z"); /* whatever was built first */
    prints("max(a, 4)", "max(a, 4)");
    prints("(D + 7)//8", "ceildiv(D, 8)");
    prints("3 - 2*(x//5)", "-2*(x//5) + 3");
    prints("x//5 - x % 3", "x//5 - x % 3");
    prints("-(x//5)", "-(x//5)");
    prints("0", "0");
    prints("-9223372036854775807 - 1", "-9223372036854775807 - 1");
}

static void test_overflow(void) {
    const Aff *big = aff_const(ctx, INT64_MAX), *x = aff_sym(ctx, "x");
    const Aff *a = aff_add(ctx, big, aff_const(ctx, 1));
    const Aff *b = aff_mul(ctx, aff_mul(ctx, x, big), aff_const(ctx, 2));
    int64_t v;
    CHECK(a->kind == AFF_OVERFLOW && b->kind == AFF_OVERFLOW && a != b);
    CHECK(aff_add(ctx, a, big)->kind == AFF_OVERFLOW);
    CHECK(aff_sub(ctx, a, a)->kind == AFF_OVERFLOW);
    CHECK(aff_mul(ctx, a, aff_const(ctx, 0))->kind == AFF_OVERFLOW);
    CHECK(aff_min(ctx, a, x)->kind == AFF_OVERFLOW);
    CHECK(aff_floordiv(ctx, aff_const(ctx, INT64_MIN), aff_const(ctx, -1))->kind == AFF_OVERFLOW);
    CHECK(!aff_eval(a, NULL, NULL, &v));
    CHECK(parse("overflow()")->kind == AFF_OVERFLOW);
    CHECK(parse("overflow")->kind == AFF_SYM);
    const Aff *sum = aff_const(ctx, 0); /* more terms than the limit */
    for (int i = 0; i < 300; i++) sum = aff_add(ctx, sum, aff_sym(ctx, arena_printf(arena, "s%d", i)));
    CHECK(sum->kind == AFF_OVERFLOW);
    const Aff *two = aff_const(ctx, 2), *three = aff_const(ctx, 3), *e = x; /* written out, thrice as long each time */
    for (int i = 0; i < 12; i++) e = aff_add(ctx, aff_mul(ctx, aff_mod(ctx, e, three), aff_floordiv(ctx, e, two)), e);
    CHECK(e->kind == AFF_OVERFLOW);
}

static void test_errors(void) {
    size_t at = 99;
    CHECK(!aff_parse(ctx, "a + ", NULL, NULL, &at) && at == 4);
    CHECK(!aff_parse(ctx, "min(a)", NULL, NULL, &at) && at == 5);
    CHECK(!aff_parse(ctx, "a b", NULL, NULL, &at) && at == 2);
    CHECK(!aff_parse(ctx, "9223372036854775808", NULL, NULL, &at) && at == 0);
    CHECK(!aff_parse(ctx, "", NULL, NULL, &at) && at == 0);
    char deep[1000];
    memset(deep, '(', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    CHECK(!aff_parse(ctx, deep, NULL, NULL, &at));
}

static int identity;
static const Aff *map_leaf(void *user, const char *name) {
    (void)user;
    return strcmp(name, "i") == 0 ? aff_var(ctx, &identity, "i") : NULL;
}
static const Aff *i_to_n(void *user, const Aff *leaf) {
    return leaf->kind == AFF_VAR ? user : NULL;
}

static void test_leaves(void) {
    const Aff *i = aff_var(ctx, &identity, "i"), *e;
    CHECK(i == aff_var(ctx, &identity, "other hint") && i != aff_sym(ctx, "i"));
    CHECK(aff_sym(ctx, "N") == aff_sym(ctx, arena_strdup(arena, "N")));
    e = aff_parse(ctx, "min(i*T, N)//8 + i % 3", map_leaf, NULL, NULL);
    CHECK(aff_depends_on(e, &identity) && aff_depends_on(e, i) && !aff_depends_on(e, &arena));
    e = aff_substitute(ctx, e, i_to_n, (void *)aff_const(ctx, 5));
    CHECK(e == parse("min(5*T, N)//8 + 2"));
}

/* ---- Random expressions ---- */

enum { LEAVES = 4 };
static const char *const leaf_names[LEAVES] = {"a", "b", "c", "d"};
static int64_t assignment[LEAVES];

typedef struct Tree {
    char op; /* k a + - * / % < > c */
    int64_t value;
    struct Tree *left, *right;
} Tree;

static Tree *random_tree(int depth, int64_t magnitude) {
    static const char ops[] = "+++--**//%%<>c";
    Tree *t = ARENA_NEW(arena, Tree);
    if (depth == 0 || random_in(0, 9) == 0) {
        t->op = random_in(0, 2) ? 'a' : 'k';
        t->value = t->op == 'a' ? random_in(0, LEAVES - 1) : random_in(-magnitude, magnitude);
        return t;
    }
    t->op = ops[random_in(0, (int64_t)sizeof ops - 2)];
    t->left = random_tree(depth - 1, magnitude);
    t->right = random_tree(depth - 1, magnitude);
    if ((t->op == '/' || t->op == '%' || t->op == 'c') && random_in(0, 2)) *t->right = (Tree){.op = 'k', .value = random_in(1, 12)};
    return t;
}

static const Aff *build(const Tree *t) {
    if (t->op == 'k') return aff_const(ctx, t->value);
    if (t->op == 'a') return aff_sym(ctx, leaf_names[t->value]);
    const Aff *x = build(t->left), *y = build(t->right);
    switch (t->op) {
    case '+':
        return aff_add(ctx, x, y);
    case '-':
        return aff_sub(ctx, x, y);
    case '*':
        return aff_mul(ctx, x, y);
    case '/':
        return aff_floordiv(ctx, x, y);
    case '%':
        return aff_mod(ctx, x, y);
    case '<':
        return aff_min(ctx, x, y);
    case '>':
        return aff_max(ctx, x, y);
    default:
        return aff_ceildiv(ctx, x, y);
    }
}

static __int128 floor_div(__int128 x, __int128 y) {
    if (y == 0) return 0;
    __int128 q = x / y;
    return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}

/* False: beyond what this evaluator holds exactly. */
static bool direct(const Tree *t, __int128 *value) {
    __int128 x, y, limit = (__int128)1 << 62;
    if (t->op == 'k' || t->op == 'a') {
        *value = t->op == 'k' ? t->value : assignment[t->value];
        return true;
    }
    if (!direct(t->left, &x) || !direct(t->right, &y)) return false;
    switch (t->op) {
    case '+':
        *value = x + y;
        break;
    case '-':
        *value = x - y;
        break;
    case '*':
        *value = x * y;
        break;
    case '/':
        *value = floor_div(x, y);
        break;
    case '%':
        *value = y == 0 ? 0 : x - y * floor_div(x, y);
        break;
    case '<':
        *value = x < y ? x : y;
        break;
    case '>':
        *value = x > y ? x : y;
        break;
    default:
        *value = floor_div(x + y - 1, y);
        break;
    }
    return *value<limit && * value> - limit;
}

static bool look_up(void *user, const Aff *leaf, int64_t *value) {
    (void)user;
    for (int i = 0; i < LEAVES; i++)
        if (strcmp(leaf->name, leaf_names[i]) == 0) *value = assignment[i];
    return true;
}

static void check_round_trip(const Aff *e) {
    Str s;
    str_init(&s);
    aff_print(e, &s);
    const Aff *again = aff_parse(ctx, s.data, NULL, NULL, NULL);
    if (again != e) {
        Str t;
        str_init(&t);
        if (again) aff_print(again, &t);
        fprintf(stderr, "printed %s\n read  %s\n", s.data, t.data);
    }
    CHECK(again == e);
    str_release(&s);
}

/* All hold exactly where e is above 0. */
static void check_conditions(const Aff *e, int64_t value) {
    AffCondition found[8];
    size_t count = aff_conditions(ctx, e, found, COUNT_OF(found));
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        int64_t left;
        if (!aff_eval(found[i].left, look_up, NULL, &left)) return;
        all = all && (found[i].relation[0] == '>'   ? left > found[i].right
                      : found[i].relation[0] == '<' ? left <= found[i].right
                                                    : left == found[i].right);
    }
    CHECK(!count || all == (value > 0));
}

static void conditions(const char *text, const char *want) {
    AffCondition found[3];
    Str s;
    str_init(&s);
    size_t count = aff_conditions(ctx, parse(text), found, COUNT_OF(found));
    for (size_t i = 0; i < count; i++) {
        if (i) str_append(&s, ", ");
        aff_print(found[i].left, &s);
        str_printf(&s, " %s %lld", found[i].relation, (long long)found[i].right);
    }
    CHECK_STR(count ? s.data : "", want);
    str_release(&s);
}

static void test_conditions(void) {
    conditions("-(N % 4) + 1", "N % 4 == 0");
    conditions("min(0, N - N % 4 - 4096) - N + 4097", "N <= 4096, N % 4 == 0");
    conditions("min(4097 - N, min(M, N - 24576))", "N <= 4096, N > 24576, M > 0");
    conditions("M - N + 3", "M - N + 3 > 0");
    conditions("min(a, min(b, min(x, y)))", ""); /* too many */
}

static void test_random(int count, int depth, int64_t magnitude, int64_t leaf_limit, int *compared) {
    for (int n = 0; n < count; n++) {
        Tree *tree = random_tree(depth, magnitude);
        const Aff *e = build(tree);
        if (e->kind != AFF_OVERFLOW) check_round_trip(e);
        for (int k = 0; k < 12; k++) {
            for (int i = 0; i < LEAVES; i++) assignment[i] = random_in(-leaf_limit, leaf_limit);
            __int128 want;
            int64_t got;
            if (!aff_eval(e, look_up, NULL, &got) || !direct(tree, &want)) continue;
            if (got != want) {
                Str s;
                str_init(&s);
                aff_print(e, &s);
                fprintf(stderr, "%s at %lld %lld %lld %lld: got %lld want %lld\n", s.data, (long long)assignment[0],
                        (long long)assignment[1], (long long)assignment[2], (long long)assignment[3], (long long)got, (long long)want);
            }
            CHECK(got == want);
            check_conditions(e, got);
            ++*compared;
        }
    }
}

int main(void) {
    arena = arena_create();
    ctx = aff_ctx_create(arena);
    test_identities();
    test_printing();
    test_overflow();
    test_errors();
    test_leaves();
    test_conditions();
    int compared = 0;
    test_random(20000, 3, 12, 30, &compared);
    test_random(6000, 4, 12, 30, &compared);
    CHECK(compared > 20000);
    compared = 0;
    test_random(8000, 3, INT64_MAX / 4, INT64_MAX / 8, &compared);
    CHECK(compared > 500);
    arena_destroy(arena);
    return 0;
}
