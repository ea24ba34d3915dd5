/* Reads text IR for tests; a mistake in the text fails the test. */
#ifndef TESTS_UNIT_IR_READER_H
#define TESTS_UNIT_IR_READER_H

#include "check.h"
#include "ir.h"

typedef struct {
    Arena *arena;
    DiagList diags;
    IrModule *m;
} Reader;

static inline Reader read_ir(const char *text) {
    Reader r = {.arena = arena_create()};
    diag_list_init(&r.diags, r.arena, source_map_create(r.arena));
    r.m = ir_parse(r.arena, &r.diags, "test.skir", text, strlen(text));
    if (!r.m) {
        Str out;
        str_init(&out);
        diag_render_text(&r.diags, false, &out);
        fprintf(stderr, "%s\n%s", text, out.data);
        exit(1);
    }
    return r;
}

/* A function of this header ("kernel (symbol %N: index)") and body, `return` added. */
static inline Reader read_func(const char *header, const char *body) {
    Str text;
    str_init(&text);
    str_printf(&text, "sketchc.ir 1\nfunc @f %s {\n%s\nreturn()\n}\n", header, body);
    Reader r = read_ir(text.data);
    str_release(&text);
    return r;
}

/* The value of this name; the test fails when there is none. */
typedef struct {
    const char *name;
    IrValue *found;
} ValueSearch;

static inline void visit_for_value(void *ctx, IrOp *op) {
    ValueSearch *s = ctx;
    for (unsigned i = 0; i < op->result_count; i++)
        if (op->results[i].name && strcmp(op->results[i].name, s->name) == 0) s->found = &op->results[i];
    for (unsigned r = 0; r < op->region_count; r++)
        for (unsigned i = 0; i < op->regions[r]->arg_count; i++) {
            IrValue *arg = op->regions[r]->args[i];
            if (arg->name && strcmp(arg->name, s->name) == 0) s->found = arg;
        }
}

static inline IrValue *find_value(IrFunc *f, const char *name) {
    ValueSearch s = {.name = name};
    ir_walk(f->body, visit_for_value, &s);
    for (unsigned i = 0; i < f->body->arg_count; i++)
        if (strcmp(f->body->args[i]->name, name) == 0) s.found = f->body->args[i];
    if (!s.found) fprintf(stderr, "there is no value %s\n", name);
    CHECK(s.found);
    return s.found;
}

#endif
