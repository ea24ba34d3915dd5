/* Sources, spans, the diagnostic list and its three renderings. */
#include "check.h"
#include "diag.h"

static Arena *arena;
static SourceMap *sources;

static uint32_t add(const char *path, const char *text) {
    return source_add(sources, path, text, strlen(text));
}

static void check_positions(void) {
    uint32_t id = add("p", "ab\ncd\n\nlast"), line, column;
    const SourceFile *file = source_file(sources, id);
    static const uint32_t want[][3] = {{0, 1, 1}, {2, 1, 3}, {3, 2, 1}, {6, 3, 1}, {7, 4, 1}, {11, 4, 5}, {99, 4, 5}};
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        source_position(file, want[i][0], &line, &column);
        CHECK(line == want[i][1] && column == want[i][2]);
    }
    CHECK(!source_file(sources, 0) && !source_file(sources, 1000));
    Span joined = span_join((Span){1, 4, 6}, (Span){1, 1, 5});
    CHECK(joined.begin == 1 && joined.end == 6 && joined.file == 1);
    CHECK(span_join(SPAN_NONE, (Span){2, 3, 4}).file == 2);
    CHECK(span_join((Span){1, 0, 1}, (Span){2, 3, 4}).file == 1);
}

static Str render(const DiagList *list, bool color) {
    Str out;
    str_init(&out);
    diag_render_text(list, color, &out);
    return out;
}

static void check_text(const char *path, const char *text, uint32_t begin, uint32_t end, const char *want) {
    DiagList list;
    diag_list_init(&list, arena, sources);
    diag_report(&list, DIAG_syntax_error, (Span){add(path, text), begin, end}, "text");
    Str out = render(&list, false);
    CHECK_STR(out.data, want);
    str_release(&out);
}

static void check_excerpts(void) {
    check_text("a.sketch", "one\ntwo three\n", 8, 13, "a.sketch:2:5: error[E0101]: text\n  2 | two three\n    |     ^~~~~\n");
    /* Tabs stay tabs, a wide character takes two columns, é (two bytes) takes one. */
    check_text("t", "\t\xc3\xa9\xef\xbc\x88x", 6, 7, "t:1:7: error[E0101]: text\n  1 | \t\xc3\xa9\xef\xbc\x88x\n    | \t   ^\n");
    /* At the end of the input, and over a line end. */
    check_text("e", "ab", 2, 2, "e:1:3: error[E0101]: text\n  1 | ab\n    |   ^\n");
    check_text("m", "abc\r\nd", 1, 6, "m:1:2: error[E0101]: text\n  1 | abc\n    |  ^~\n");
    check_text("z", "", 0, 0, "z:1:1: error[E0101]: text\n  1 | \n    | ^\n");
    /* Nothing of the source or of a path drives the terminal. */
    check_text("\033[2J", "\033[31m\xe2\x80\xae\xff", 0, 1,
               "\xef\xbf\xbd[2J:1:1: error[E0101]: text\n"
               "  1 | \xef\xbf\xbd[31m\xef\xbf\xbd\xef\xbf\xbd\n    | ^\n");
}

static void check_long_line(void) {
    char *text = arena_alloc(arena, 100001);
    memset(text, 'x', 100000);
    memcpy(text + 50000, "HERE", 4);
    DiagList list;
    diag_list_init(&list, arena, sources);
    diag_report(&list, DIAG_syntax_error, (Span){add("l", text), 50000, 50004}, "text");
    Str out = render(&list, false);
    CHECK(out.len < 600);
    const char *here = strstr(out.data, "HERE"), *mark = strstr(out.data, "^~~~\n");
    CHECK(here && mark);
    const char *second = strchr(out.data, '\n') + 1, *third = strchr(second, '\n') + 1;
    CHECK(here - second == mark - third);
    str_release(&out);
}

static void check_notes_and_fixes(void) {
    uint32_t file = add("f", "for i in rnge(4):\n  a\n");
    DiagList list;
    diag_list_init(&list, arena, sources);
    Diag *diag = diag_report(&list, DIAG_syntax_error, (Span){file, 9, 13}, "no function `rnge`");
    diag_note(&list, diag, (Span){file, 0, 3}, "in this %s", "loop");
    diag_note(&list, diag, SPAN_NONE, "said once");
    diag_fix(&list, diag, (Span){file, 9, 13}, "range", "did you mean `range`?");
    diag_fix(&list, diag, (Span){file, 14, 15}, "0, 4", NULL);
    Str out = render(&list, false);
    CHECK_STR(out.data, "f:1:10: error[E0101]: no function `rnge`\n"
                        "  1 | for i in rnge(4):\n    |          ^~~~\n"
                        "f:1:1: note: in this loop\n"
                        "  1 | for i in rnge(4):\n    | ^~~\n"
                        "sketchc: note: said once\n"
                        "fix: did you mean `range`?\n"
                        "  1 + for i in range(0, 4):\n");
    diag_fix(&list, diag, (Span){file, 20, 20}, "b\n", NULL); /* a second line: as a list */
    str_release(&out);
    out = render(&list, true);
    CHECK(strstr(out.data, "    1:10: replace by range\n") && strstr(out.data, "    2:3: insert b\n"));
    CHECK(strstr(out.data, "\033[1;31merror[E0101]: "));
    str_release(&out);
}

static void check_limit(void) {
    DiagList list;
    diag_list_init(&list, arena, sources);
    list.error_limit = 2;
    uint32_t file = add("n", "x");
    for (int i = 0; i < 5; i++) diag_note(&list, diag_report(&list, DIAG_syntax_error, (Span){file, 0, 1}, "again"), SPAN_NONE, "a note");
    CHECK(list.error_count == 5 && list.first && list.first->next && !list.first->next->next);
    Str out = render(&list, false);
    CHECK(strstr(out.data, "sketchc: 3 more errors are not shown\n"));
    str_release(&out);
}

static void check_exports(void) {
    DiagList list;
    diag_list_init(&list, arena, sources);
    uint32_t file = add("dir/a b.sketch", "\xc3\xa9x");
    Diag *diag = diag_report(&list, DIAG_syntax_error, (Span){file, 2, 3}, "say \"x\"");
    diag_note(&list, diag, SPAN_NONE, "why");
    diag_fix(&list, diag, (Span){file, 2, 3}, "y", "use y");
    Str out;
    str_init(&out);
    diag_render_json(&list, &out);
    CHECK_STR(out.data, "{\"version\":1,\"errors\":1,\"warnings\":0,\"diagnostics\":[{\"code\":\"E0101\","
                        "\"name\":\"syntax_error\",\"severity\":\"error\",\"message\":\"say \\\"x\\\"\","
                        "\"location\":{\"file\":\"dir/a b.sketch\",\"begin\":{\"line\":1,\"column\":3,"
                        "\"offset\":2},\"end\":{\"line\":1,\"column\":4,\"offset\":3}},\"notes\":[{"
                        "\"message\":\"why\",\"location\":null}],\"fix\":{\"title\":\"use y\",\"edits\":[{"
                        "\"location\":{\"file\":\"dir/a b.sketch\",\"begin\":{\"line\":1,\"column\":3,"
                        "\"offset\":2},\"end\":{\"line\":1,\"column\":4,\"offset\":3}},\"text\":\"y\"}]}}]}\n");
    str_release(&out);
    diag_render_sarif(&list, "1.2.3", &out);
    CHECK(strstr(out.data, "\"uri\":\"dir/a%20b.sketch\""));
    /* Columns in code points: the second character of the line. */
    CHECK(strstr(out.data, "\"startColumn\":2,\"endLine\":1,\"endColumn\":3"));
    CHECK(strstr(out.data, "\"version\":\"1.2.3\"") && strstr(out.data, "\"ruleId\":\"E0101\""));
    CHECK(strstr(out.data, "\"insertedContent\":{\"text\":\"y\"}"));
    str_release(&out);
}

static void check_rows(void) {
    DiagId id;
    CHECK(diag_find("E0101", &id) && id == DIAG_syntax_error);
    CHECK(diag_find("syntax_error", &id) && !diag_find("E9999", &id));
    for (int i = 0; i < DIAG_COUNT; i++) {
        CHECK(diag_find(diag_code((DiagId)i), &id) && id == (DiagId)i); /* codes are unique */
        CHECK(*diag_explanation((DiagId)i));
    }
}

static void check_closest(void) {
    static const char *const names[] = {"range", "reduce_sum", "exp", "TILE_SIZE", "m0"};
    size_t count = COUNT_OF(names);
    CHECK_STR(closest_name("rnage", names, count), "range");
    CHECK_STR(closest_name("reduce_sun", names, count), "reduce_sum");
    CHECK_STR(closest_name("tile_size", names, count), "TILE_SIZE");
    CHECK_STR(closest_name("exo", names, count), "exp");
    CHECK(!closest_name("completely_else", names, count) && !closest_name("", names, count));
    CHECK(!closest_name("eyes", names, count)); /* two of four letters are another word */
    CHECK(!closest_name("q", names, count) && !closest_name("x", NULL, 0));
    char *huge = arena_alloc(arena, 100001);
    memset(huge, 'r', 100000);
    CHECK(!closest_name(huge, names, count));
}

/* `test_diag json|sarif` prints a list for the tests that check it against a schema. */
static void print_list(const char *form) {
    DiagList list;
    diag_list_init(&list, arena, sources);
    uint32_t file = add("dir/a \"b\".sketch", "\xc3\xa9x\nsecond\xff\n");
    Diag *diag = diag_report(&list, DIAG_syntax_error, (Span){file, 2, 3}, "say \"x\" \xff\n");
    diag_note(&list, diag, SPAN_NONE, "no place");
    diag_note(&list, diag, (Span){file, 4, 9}, "a place");
    diag_fix(&list, diag, (Span){file, 2, 3}, "y\t", "use y");
    diag_fix(&list, diag, (Span){file, 4, 4}, "z", NULL);
    diag_report(&list, DIAG_syntax_error, SPAN_NONE, "bare");
    Str out;
    str_init(&out);
    if (strcmp(form, "json") == 0)
        diag_render_json(&list, &out);
    else
        diag_render_sarif(&list, "1.2.3", &out);
    fwrite(out.data, 1, out.len, stdout);
    str_release(&out);
}

int main(int argc, char **argv) {
    arena = arena_create();
    sources = source_map_create(arena);
    if (argc > 1) {
        print_list(argv[1]);
        arena_destroy(arena);
        return 0;
    }
    check_positions();
    check_excerpts();
    check_long_line();
    check_notes_and_fixes();
    check_limit();
    check_exports();
    check_rows();
    check_closest();
    arena_destroy(arena);
    return 0;
}
