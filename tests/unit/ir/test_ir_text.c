/* parse(print(x)) == x and ir_verify for the files given, and precise places for mistakes in text. */
#include "check.h"
#include "ir.h"
#include "show.h"

typedef struct {
    Arena *arena;
    SourceMap *sources;
    DiagList diags;
} Reader;

static Reader reader(void) {
    Reader r = {.arena = arena_create()};
    r.sources = source_map_create(r.arena);
    diag_list_init(&r.diags, r.arena, r.sources);
    return r;
}

static void test_file(const char *path) {
    Str text, printed, again;
    str_init(&text);
    str_init(&printed);
    str_init(&again);
    CHECK(file_read(path, 1 << 20, &text));
    Reader r = reader();
    IrModule *m = ir_parse(r.arena, &r.diags, path, text.data, text.len);
    if (!m) show_diags(&r.diags);
    CHECK(m);
    if (!ir_verify(m, &r.diags)) show_diags(&r.diags);
    CHECK(r.diags.error_count == 0);
    ir_print(m, &printed);
    CHECK_STR(printed.data, text.data); /* the samples stand in printed form */
    IrModule *second = ir_parse(r.arena, &r.diags, path, printed.data, printed.len);
    CHECK(second);
    ir_print(second, &again);
    CHECK_STR(again.data, printed.data);
    str_release(&text);
    str_release(&printed);
    str_release(&again);
    arena_destroy(r.arena);
}

/* The first mistake of `text` is reported at line:column with this message; `count` in all. */
static void expect_mistake(const char *text, unsigned line, unsigned column, const char *message, unsigned count) {
    Reader r = reader();
    CHECK(!ir_parse(r.arena, &r.diags, "t.skir", text, strlen(text)));
    CHECK(r.diags.first);
    CHECK_STR(r.diags.first->text, message);
    uint32_t at_line = 0, at_column = 0;
    const SourceFile *file = source_file(r.sources, r.diags.first->span.file);
    source_position(file, r.diags.first->span.begin, &at_line, &at_column);
    if (at_line != line || at_column != column || r.diags.error_count != count) show_diags(&r.diags);
    CHECK(at_line == line && at_column == column);
    CHECK(r.diags.error_count == count);
    arena_destroy(r.arena);
}

static void expect_in_body(const char *body, unsigned line, unsigned column, const char *message, unsigned count) {
    Str text;
    str_init(&text);
    str_printf(&text, "sketchc.ir 1\nfunc @f kernel (symbol %%N: index) {\n%s\nreturn()\n}\n", body);
    expect_mistake(text.data, line, column, message, count);
    str_release(&text);
}

static void test_mistakes(void) {
    expect_mistake("", 1, 1, "expected the header `sketchc.ir 1`, found the end of the text", 1);
    expect_mistake("sketchc.ir 2\n", 1, 12, "this version of text IR is not known; it is 1 here", 1);
    expect_mistake("sketchc.ir 1\nfunc @f kernel (symbol %N: index) {", 2, 36, "expected `}`, found the end of the text", 1);
    expect_mistake("sketchc.ir 1\nfunc @f kernel (symbol %N: tile<[8] y f32>) {}", 2, 37, "expected `x`, found `y`", 1);
    expect_mistake("sketchc.ir 1\nfunc @f tile mapped (symbol %N: tile<[8] x f32, #dist<[17]>>) {}", 2, 59, "this is not a layout", 1);
    expect_mistake("sketchc.ir 1\nfunc @f tile mapped (symbol %N: frag<[8] x f32, #dist<[8]>>) {}", 2, 47,
                   "only tiles and buffers have layouts", 1);
    expect_mistake("sketchc.ir 1\nfunc @f kernel (symbol %N: tile<[8*] x f32>) {}", 2, 35, "this is not an affine expression", 1);
    expect_in_body("%a = adds(%N, %N) : index", 3, 6, "there is no op `adds`; did you mean `add`?", 1);
    expect_in_body("%a = add(%N, %M) : index", 3, 14, "`%M` is not defined before this place", 1);
    expect_in_body("%a = add(%N) : index", 3, 6, "`add` takes 2 operands, here are 1", 1);
    expect_in_body("%a, %b = add(%N, %N) : index, index", 3, 10, "`add` has 1 results, here are 2", 1);
    expect_in_body("%a = add(%N, %N)", 3, 6, "1 results are named, 0 types are given", 1);
    expect_in_body("%N = add(%N, %N) : index", 3, 1, "`%N` is defined twice", 1);
    expect_in_body("%a = const() {value = 99999999999999999999} : index", 3, 23, "this number cannot be read or is too large", 1);
    expect_in_body("%a = const() {value = 1, value = 2} : index", 3, 26, "the attribute `value` stands twice", 1);
    expect_in_body("barrier() {scope = \"block}", 3, 20, "this string does not end or has a bad escape", 1);
    /* Both mistakes of one text, and what stands between is skipped. */
    expect_in_body("%a = what(%N) { nonsense }\n%b = add(%N, %Q) : index\n%c = add(%b, %b) : index", 3, 6, "there is no op `what`", 2);
}

/* Deep nesting ends in a message. */
static void test_nesting(void) {
    Str text;
    str_init(&text);
    str_append(&text, "sketchc.ir 1\nfunc @f kernel (scalar %c: bool) {\n");
    for (int i = 0; i < 100000; i++) str_append(&text, "if(%c) {\n");
    Reader r = reader();
    CHECK(!ir_parse(r.arena, &r.diags, "t.skir", text.data, text.len));
    CHECK_STR(r.diags.first->text, "regions are nested deeper than 256");
    arena_destroy(r.arena);
    str_release(&text);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) test_file(argv[i]);
    test_mistakes();
    test_nesting();
    return 0;
}
