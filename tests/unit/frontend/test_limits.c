/* The limits of the front end hold, with a clear error and in time. */
#include "parse_text.h"

static const FrontendOptions OPTIONS = {0};

static void repeat(Str *s, const char *text, size_t count) {
    for (size_t i = 0; i < count; i++) str_append(s, text);
}

/* The text has an error of this code, found within a second. */
static void expect(const Str *text, const char *code) {
    Checked c = parse_text(text->data, text->len, &OPTIONS);
    if (!has_code(&c, code)) fprintf(stderr, "no %s\n", code);
    CHECK(has_code(&c, code));
    CHECK(c.diags.error_count > 0); /* what takes for ever meets the time limit of the test */
    arena_destroy(c.arena);
}

static void test_repeated(const char *head, const char *text, size_t count, const char *tail, const char *code) {
    Str s;
    str_init(&s);
    str_append(&s, head);
    repeat(&s, text, count);
    str_append(&s, tail);
    expect(&s, code);
    str_release(&s);
}

static void test_garbage(void) {
    Str s;
    str_init(&s);
    uint64_t state = 1;
    while (s.len < (1u << 20) - 8) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        str_append_char(&s, (char)(state >> 33));
    }
    expect(&s, "E0005");
    str_release(&s);
}

static void nested_blocks(Str *s, int depth) {
    str_append(s, "sketch s {\n");
    for (int i = 1; i <= depth; i++) {
        repeat(s, " ", (size_t)i);
        str_printf(s, "for i%d in range(2):\n", i);
    }
    repeat(s, " ", (size_t)depth + 1);
    str_append(s, "x = 1\n}\n");
}

static void test_nesting(void) {
    Str s;
    str_init(&s);
    nested_blocks(&s, 300);
    expect(&s, "E0002");
    str_release(&s);
    str_init(&s);
    nested_blocks(&s, 200);
    Checked c = parse_text(s.data, s.len, &OPTIONS);
    CHECK(c.ok);
    arena_destroy(c.arena);
    str_release(&s);
}

/* Every statement that stores is compared with every other on the same tensor. */
static void test_many_stores(void) {
    Str s;
    str_init(&s);
    str_append(&s, "sketch s {\nsymbols: N\ntensors: Y[N]: f32\nfor i in range(N):\n x = alloc([], init=0)\n");
    repeat(&s, " store(x -> Y[i])\n", 300);
    str_append(&s, "}\n");
    expect(&s, "E0504");
    str_release(&s);
}

/* 10,000 lines of an ordinary sketch parse; the times are a figure (under 100 ms where nothing else runs), no condition. */
static void test_speed(void) {
    Str s;
    str_init(&s);
    size_t lines = 0;
    for (int i = 0; lines < 10000; i++, lines += 10) {
        str_printf(&s, "sketch s%d {\n    symbols: M, N;\n    tensors: X[M, N]: f32; Y[M, N]: f32;\n", i);
        str_append(&s, "    @llm_hint(\"parallel\", \"coreidx\")\n    for i in range(0, ceil(M, 8)):\n"
                       "        x = alloc([8, N], llm_hint=[\"fast\", \"input_cache\"])\n"
                       "        load(X[i*8:(i+1)*8, 0:N] -> x)\n        mul(x, x, x)\n"
                       "        store(x -> Y[i*8:(i+1)*8, 0:N])\n}\n");
    }
    double best = 1e9, checked = 0;
    for (int run = 0; run < 5; run++) {
        double start = seconds();
        Checked c = parse_text(s.data, s.len, NULL);
        double took = seconds() - start;
        if (took < best) best = took;
        CHECK(c.diags.error_count == 0);
        start = seconds();
        CHECK(frontend_check(c.arena, c.file, &OPTIONS, &c.diags));
        checked = seconds() - start;
        arena_destroy(c.arena);
    }
    printf("figure: parse_%zu_lines %.1f ms, checked in %.1f ms\n", lines, best * 1e3, checked * 1e3);
    str_release(&s);
}

int main(void) {
    test_repeated("sketch s {\n a = ", "(", 100000, "\n}\n", "E0002");
    test_repeated("sketch s {\n a = ", "[", 100000, "\n}\n", "E0002");
    test_repeated("sketch s {\n a = ", "- ", 100000, "1\n}\n", "E0002");
    test_repeated("sketch s {\n a = 1", " + 1", 100000, "\n}\n", "E0003");
    test_repeated("sketch s {\n a = X", "[0]", 2000, "\n}\n", "E0003");
    test_repeated("sketch s {\n", "a = = 1\n", 1000, "}\n", "E0004");
    test_repeated("#", "x", (1u << 20) + 1, "\n", "E0001");
    test_repeated("sketch s {\n if 1 > 2: a = 1\n", " elif 1 > 2: a = 1\n", 20000, "}\n", "E0002");
    test_nesting();
    test_garbage();
    test_many_stores();
    test_speed();
    return 0;
}
