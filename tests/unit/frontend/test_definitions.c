/* Every definition of builtins.def is read and typed; its names are not the user's. */
#include "parse_text.h"

static const FrontendOptions OPTIONS = {0};

static void report(const Checked *c, const char *text) {
    Str out;
    str_init(&out);
    diag_render_text(&c->diags, false, &out);
    fprintf(stderr, "%s\n%s", text, out.data);
    str_release(&out);
}

/* `Y = name(X, ...)`, with every operand that is not optional. */
static const char *call_text(Arena *arena, BuiltinId id) {
    BuiltinParam params[BUILTIN_MAX_PARAMS];
    size_t count = builtin_params(id, arena, params);
    const char *args = "";
    for (size_t i = 0; i < count; i++)
        if (!params[i].is_output && !params[i].is_optional) args = arena_printf(arena, "%s%sX", args, *args ? ", " : "");
    return arena_printf(arena, "operator o {\n symbols: M, N\n tensors: X[M, N]: f32\n Z = %s(%s)\n}\n", builtin_info(id)->name, args);
}

static void test_all(void) {
    unsigned defined = 0;
    for (int id = 1; id < BUILTIN_COUNT; id++) {
        if (!builtin_is_defined((BuiltinId)id)) continue;
        Arena *arena = arena_create();
        const char *text = call_text(arena, (BuiltinId)id);
        Checked c = parse_text(text, strlen(text), &OPTIONS);
        if (!c.ok) report(&c, text);
        CHECK(c.ok);
        const Stmt *stmt = c.file->blocks[0]->body.data[0];
        CHECK(stmt->value->expansion && stmt->value->expansion->result);
        defined++;
        arena_destroy(c.arena);
        arena_destroy(arena);
    }
    CHECK(defined >= 20);
}

/* The operand's value is an operand of the result, typed by it; an attribute is taken over. */
static void test_types(void) {
    static const char *const TEXT = "operator o {\n symbols: e\n tensors: x[e, 8]: f16; K[e]: i32; y[e, 8]: f32; v[8]: f64\n"
                                    " y = softmax(x, axis=0)\n z = relu(K)\n v = reduce_var(x, axis=0)\n}\n";
    Checked c = parse_text(TEXT, strlen(TEXT), &OPTIONS);
    if (!c.ok) report(&c, TEXT);
    CHECK(c.ok);
    const Body *body = &c.file->blocks[0]->body;
    CHECK(body->data[0]->value->type.dtype == DTYPE_F32);
    CHECK(body->data[0]->value->type.rank == 2);
    CHECK(body->data[1]->value->type.dtype == DTYPE_I32);
    CHECK(body->data[2]->value->type.rank == 1);
    CHECK(body->data[0]->value->expansion->count == 2);
    CHECK_STR(body->data[0]->value->expansion->names[1]->name, "e");
    arena_destroy(c.arena);
}

static void test_mistakes(void) {
    static const struct {
        const char *value, *says;
    } CASES[] = {
        {"softmax(X, axis=5)", "axis"},
        {"layer_norm(X, X, X, X)", "axis"},
        {"leaky_relu(X, negative_slope=\"a\")", "leaky_relu"},
        {"relu(X > 0)", "relu"},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        char text[256];
        snprintf(text, sizeof text, "operator o {\n symbols: N\n tensors: X[N, 4]: f32\n Z = %s\n}\n", CASES[i].value);
        Checked c = parse_text(text, strlen(text), &OPTIONS);
        CHECK(!c.ok);
        bool said = false;
        for (const Diag *d = c.diags.first; d; d = d->next) {
            CHECK(d->span.file == 1); /* the user's text, not the definition's */
            said |= strstr(d->text, CASES[i].says) != NULL;
        }
        if (!said) report(&c, text);
        CHECK(said);
        arena_destroy(c.arena);
    }
}

int main(void) {
    test_all();
    test_types();
    test_mistakes();
    return 0;
}
