/* Formatting keeps the tree, and formatting its own output changes nothing: over the files given. */
#include "parse_text.h"

static char *formatted(const char *text, size_t size, size_t *length) {
    Arena *arena = arena_create();
    SourceMap *sources = source_map_create(arena);
    DiagList diags;
    diag_list_init(&diags, arena, sources);
    uint32_t id = source_add(sources, "test.sketch", text, size);
    Str out;
    str_init(&out);
    bool ok = frontend_format(arena, sources, id, &diags, &out);
    CHECK(ok || (diags.error_count && out.len == 0));
    char *copy = ok ? malloc(out.len + 1) : NULL;
    if (copy) memcpy(copy, out.data, out.len + 1);
    *length = out.len;
    str_release(&out);
    arena_destroy(arena);
    return copy;
}

static void print_tree(const char *text, size_t size, Str *out) {
    Checked c = parse_text(text, size, NULL);
    str_init(out);
    ast_print(c.file, out);
    arena_destroy(c.arena);
}

static bool check_text(const char *path, const char *text, size_t size) {
    size_t once_size, twice_size;
    char *once = formatted(text, size, &once_size);
    if (!once) return false;
    char *twice = formatted(once, once_size, &twice_size);
    if (!twice || strcmp(once, twice) != 0) {
        fprintf(stderr, "%s: formatting again changes it:\n%s\nand then\n%s", path, once,
                twice ? twice : "does not parse");
        exit(1);
    }
    Str before, after;
    print_tree(text, size, &before);
    print_tree(once, once_size, &after);
    if (strcmp(before.data, after.data) != 0) {
        fprintf(stderr, "%s: another tree:\n%s\nand formatted\n%s", path, before.data, after.data);
        exit(1);
    }
    str_release(&before);
    str_release(&after);
    free(once);
    free(twice);
    return true;
}

/* Spellings that mean the same, and the one style. */
static const struct {
    const char *from, *to;
} pairs[] = {
    {"", ""},
    {"# only a comment", "# only a comment\n"},
    {"operator o{symbols:N;tensors:X[N]:f32;Y[N]:f32\nY=X}",
     "operator o {\n    symbols: N;\n    tensors: X[N]: f32; Y[N]: f32;\n    Y = X\n}\n"},
    {"operator o {\n  Y=a if_\n}", NULL},
    {"sketch s {\n for i in range(3): x=1;y=2\n}",
     "sketch s {\n    for i in range(3):\n        x = 1\n        y = 2\n}\n"},
    {"sketch s {\n\tfor i in range(3):\n\t\tx=-1\n\n\n\n\n\t\ty=True\n}",
     "sketch s {\n    for i in range(3):\n        x = -1\n\n        y = true\n}\n"},
    {"sketch s {\n x = a[ i * 2 : ( i+1 )*2 , : ]\n}",
     "sketch s {\n    x = a[i*2:(i+1)*2, :]\n}\n"},
    {"sketch s {\n x = f('a', \"b\", 'say \"c\"')\n}",
     "sketch s {\n    x = f(\"a\", \"b\", 'say \"c\"')\n}\n"},
    {"operator o { case c { N=1\n M=2 ; X:normal( 0,1 ) }\n}",
     "operator o {\n    case c { N=1, M=2; X: normal(0, 1) }\n}\n"},
    {"sketch s {\n x = 1 # one\n # two\n}\n# three\nsketch t {\n}\n\n\n# four",
     "sketch s {\n    x = 1  # one\n    # two\n}\n\n# three\nsketch t {\n}\n\n# four\n"},
};

int main(int count, char **paths) {
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        size_t size;
        char *text = formatted(pairs[i].from, strlen(pairs[i].from), &size);
        CHECK(!text == !pairs[i].to);
        if (text) CHECK_STR(text, pairs[i].to);
        if (text) check_text(pairs[i].from, pairs[i].from, strlen(pairs[i].from));
        free(text);
    }
    int parsed = 0;
    for (int i = 1; i < count; i++) {
        Str text;
        str_init(&text);
        CHECK(file_read(paths[i], 1 << 26, &text));
        parsed += check_text(paths[i], text.data, text.len);
        str_release(&text);
    }
    printf("%d of %d files parse; all of these keep their tree and their form\n", parsed, count - 1);
    CHECK(parsed * 2 >= count - 1);
    return 0;
}
