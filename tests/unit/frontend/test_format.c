/* Formatting keeps the tree, and formatting its own output changes nothing: over the files given. */
#include "format_text.h"

/* Spellings that mean the same, and the one style. */
static const struct {
    const char *from, *to;
} pairs[] = {
    {"", ""},
    {"# only a comment", "# only a comment\n"},
    {"operator o{symbols:N;tensors:X[N]:f32;Y[N]:f32\nY=X}",
     "operator o {\n    symbols: N;\n    tensors: X[N]: f32; Y[N]: f32;\n    Y = X\n}\n"},
    {"operator o {\n  Y=a if_\n}", NULL},
    {"sketch s {\n for i in range(3): x=1;y=2\n}", "sketch s {\n    for i in range(3):\n        x = 1\n        y = 2\n}\n"},
    {"sketch s {\n\tfor i in range(3):\n\t\tx=-1\n\n\n\n\n\t\ty=True\n}",
     "sketch s {\n    for i in range(3):\n        x = -1\n\n        y = true\n}\n"},
    {"sketch s {\n x = a[ i * 2 : ( i+1 )*2 , : ]\n}", "sketch s {\n    x = a[i*2:(i+1)*2, :]\n}\n"},
    {"sketch s {\n x = f('a', \"b\", 'say \"c\"')\n}", "sketch s {\n    x = f(\"a\", \"b\", 'say \"c\"')\n}\n"},
    {"operator o { case c { N=1\n M=2 ; X:normal( 0,1 ) }\n}", "operator o {\n    case c { N=1, M=2; X: normal(0, 1) }\n}\n"},
    {"operator o { case c { N=1 M=2 X:normal(0,1) Y:normal(0,1) K=3 }\n}\n",
     "operator o {\n    case c { N=1, M=2; X: normal(0, 1); Y: normal(0, 1); K=3 }\n}\n"},
    {"sketch s {\n x = 1 # one\n # two\n}\n# three\nsketch t {\n}\n\n\n# four",
     "sketch s {\n    x = 1  # one\n    # two\n}\n\n# three\nsketch t {\n}\n\n# four\n"},
};

/* More settings without separators than the list of tokens has room for. */
static void check_many_settings(void) {
    Str text;
    str_init(&text);
    str_append(&text, "operator o {\n    case c {");
    for (int i = 0; i < 20000; i++) str_printf(&text, " N%d=%d", i, i);
    str_append(&text, " }\n}\n");
    CHECK(check_text("many settings", text.data, text.len));
    str_release(&text);
}

int main(int count, char **paths) {
    check_many_settings();
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
