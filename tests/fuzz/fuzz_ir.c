/* Text IR on any bytes: an error, or a module whose text is a fixed point: parse(print(x)) prints
 * the same. The verifier takes any module; what it accepts is still accepted after simplification. */
#include "ir.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static IrModule *parse(Arena *arena, const char *text, size_t size) {
    DiagList diags;
    diag_list_init(&diags, arena, source_map_create(arena));
    IrModule *module = ir_parse(arena, &diags, "fuzz", text, size);
    if (!module && !diags.error_count) abort();
    return module;
}

static void simplify(Arena *arena, IrModule *module) {
    DiagList diags;
    diag_list_init(&diags, arena, source_map_create(arena));
    if (!ir_verify(module, &diags)) return;
    for (IrFunc *f = module->first; f; f = f->next) ir_simplify(f);
    if (!ir_verify(module, &diags)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Arena *arena = arena_create();
    IrModule *module = parse(arena, (const char *)data, size);
    if (module) {
        Str first, second;
        str_init(&first);
        str_init(&second);
        ir_print(module, &first);
        IrModule *again = parse(arena, first.data, first.len);
        if (!again) abort();
        ir_print(again, &second);
        if (strcmp(first.data, second.data) != 0) abort();
        str_release(&first);
        str_release(&second);
        simplify(arena, module);
    }
    arena_destroy(arena);
    return 0;
}
