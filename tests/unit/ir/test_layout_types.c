/* Types with layouts: interned by layout, and checked against their tile. */
#include "check.h"
#include "ir.h"
#include "layout.h"

static IrModule *read_module(Arena *arena, DiagList *diags, const char *type) {
    char *text = arena_printf(arena,
                              "sketchc.ir 1\nfunc @f tile mapped () {\n"
                              "%%x = const() {value = 0.0} : %s\nreturn()\n}\n",
                              type);
    diag_list_init(diags, arena, source_map_create(arena));
    return ir_parse(arena, diags, "t.skir", text, strlen(text));
}

static bool verifies(const char *type) {
    Arena *arena = arena_create();
    DiagList diags;
    IrModule *m = read_module(arena, &diags, type);
    CHECK(m);
    bool fine = ir_verify(m, &diags);
    arena_destroy(arena);
    return fine;
}

int main(void) {
    CHECK(verifies("tile<[8, 16] x f32, #dist<[8, 16], register=[(0, 1)*4, (1, 0)*3]>>"));
    CHECK(verifies("tile<[7, 16] x f32, #dist<[8, 16], register=[(0, 1)*4, (1, 0)*3]>>"));
    CHECK(!verifies("tile<[9, 16] x f32, #dist<[8, 16], register=[(0, 1)*4, (1, 0)*3]>>"));
    CHECK(!verifies("tile<[8] x f32, #memory<[8], offset=[(1)*3]>>"));

    Arena *arena = arena_create();
    DiagList diags;
    const char *text = "tile<[8] x f32, #dist<[8], register=[(1), (2)], lane=[(4)]>>";
    IrModule *m = read_module(arena, &diags, text);
    const IrType *parsed = m->first->body->first->results[0].type;
    const Layout *layout =
        layout_blocked(ir_module_layouts(m), 1, (int64_t[]){8}, (unsigned[]){4}, (unsigned[]){2}, (unsigned[]){1}, (unsigned[]){0});
    const Aff *extent = aff_const(m->affs, 8);
    CHECK(parsed == ir_type_tile(m, DTYPE_F32, 1, &extent, layout));
    CHECK(parsed != ir_type_tile(m, DTYPE_F32, 1, &extent, NULL));
    arena_destroy(arena);
    return 0;
}
