/* Interprets a kernel on memory kept in files: interpret_tool FILE.skir N=COUNT NAME=PATH...
 * Every tensor parameter NAME is read from PATH and, when the kernel writes it, written back. */
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ITEMS = 64 };

typedef struct {
    size_t tensor_count, symbol_count;
    InterpretTensor tensors[MAX_ITEMS];
    const char *paths[MAX_ITEMS];
    SymbolValue symbols[MAX_ITEMS];
} Launch;

static bool read_argument(Arena *arena, char *text, Launch *l) {
    char *is = strchr(text, '='), *end;
    if (!is || l->tensor_count == MAX_ITEMS || l->symbol_count == MAX_ITEMS) return false;
    *is++ = 0;
    int64_t value = strtoll(is, &end, 10);
    if (!*end) {
        l->symbols[l->symbol_count++] = (SymbolValue){text, value};
        return true;
    }
    Str data;
    str_init(&data);
    bool ok = file_read(is, 64 << 20, &data);
    void *memory = arena_alloc(arena, data.len + 16);
    if (ok) memcpy(memory, data.data, data.len);
    l->paths[l->tensor_count] = is;
    l->tensors[l->tensor_count++] = (InterpretTensor){text, memory, data.len};
    str_release(&data);
    return ok;
}

static bool write_back(const Launch *l) {
    for (size_t i = 0; i < l->tensor_count; i++) {
        FILE *f = fopen(l->paths[i], "wb");
        if (!f) return false;
        size_t written = fwrite(l->tensors[i].data, 1, l->tensors[i].bytes, f);
        if (fclose(f) != 0 || written != l->tensors[i].bytes) return false;
    }
    return true;
}

static IrModule *load(Arena *arena, DiagList *diags, const char *path) {
    Str text;
    str_init(&text);
    IrModule *m = file_read(path, 64 << 20, &text) ? ir_parse(arena, diags, path, text.data, text.len) : NULL;
    str_release(&text);
    return m;
}

int main(int argc, char **argv) {
    Arena *arena = arena_create();
    DiagList diags;
    diag_list_init(&diags, arena, source_map_create(arena));
    Launch l = {0};
    if (argc < 2) return 2;
    IrModule *m = load(arena, &diags, argv[1]);
    for (int i = 2; m && i < argc; i++)
        if (!read_argument(arena, argv[i], &l)) return 2;
    const char *error = m ? NULL : "unreadable IR";
    Sizes given = {l.symbol_count, l.symbols};
    const Sizes *sizes = m ? sizes_bind(arena, m->first, &given, &error) : NULL;
    InterpretArgs args = {.sizes = sizes, .tensor_count = l.tensor_count, .tensors = l.tensors};
    bool ok = sizes && interpret_module(arena, m, &args, &error) && write_back(&l);
    if (!ok) fprintf(stderr, "%s\n", error ? error : "cannot write");
    arena_destroy(arena);
    return ok ? 0 : 1;
}
