/* Hints of loops and allocs against hints.def. Hints change speed only: what is unknown is warned
 * about, never refused. */
#include "sema_internal.h"

#include <string.h>

static const char *const LOOP_HINTS[] = {
#define LOOP_HINT(id, name, argument, summary) name,
#include "hints.def"
#undef LOOP_HINT
};

static const struct {
    const char *name;
    ParallelContext context;
} CONTEXTS[] = {
#define PARALLEL_CONTEXT(id, name, summary) {name, PARALLEL_##id},
#include "hints.def"
#undef PARALLEL_CONTEXT
};

static const struct {
    const char *name;
    Place place;
    unsigned wish;
} ALLOC_HINTS[] = {
#define ALLOC_HINT(name, place, wish, summary) {name, place, wish},
#include "hints.def"
#undef ALLOC_HINT
};

static const char *string_of(const Expr *e) {
    return e->kind == EXPR_CONST && e->u.constant.kind == CONST_STRING ? e->u.constant.s : NULL;
}

static const char *hint_kind(const Hint *h) {
    return h->args.count && !h->args.data[0].name ? string_of(h->args.data[0].value) : NULL;
}

bool sema_has_hint(const Stmt *stmt, const char *name) {
    for (size_t i = 0; i < stmt->hint_count; i++) {
        const char *kind = hint_kind(&stmt->hints[i]);
        if (kind && strcmp(kind, name) == 0) return true;
    }
    return false;
}

static void warn_unknown(Sema *s, Span span, const char *name, const char *const *names, size_t count) {
    const char *close = closest_name(name, names, count);
    Diag *d = diag_report(s->diags, DIAG_unknown_hint, span, name);
    if (!close) return;
    diag_note(s->diags, d, SPAN_NONE, "did you mean \"%s\"?", close);
    diag_fix(s->diags, d, span, arena_printf(s->arena, "\"%s\"", close), "use the hint of this name");
}

static void warn_value(Sema *s, const Arg *arg, const char *text) {
    diag_report(s->diags, DIAG_bad_hint_value, arg->value->span, text);
}

static void read_context(Sema *s, const Arg *arg, LoopInfo *loop) {
    const char *text = string_of(arg->value), *names[COUNT_OF(CONTEXTS)];
    if (!text) {
        warn_value(s, arg, "a context is a string such as \"grididx\"");
        return;
    }
    for (size_t i = 0; i < COUNT_OF(CONTEXTS); i++) {
        size_t length = strlen(CONTEXTS[i].name);
        names[i] = CONTEXTS[i].name;
        if (strncmp(text, names[i], length) != 0) continue;
        bool axis = text[length] == '.' && strchr("xyz", text[length + 1]) && text[length + 1] && !text[length + 2];
        if (text[length] && !axis) continue;
        loop->parallel = CONTEXTS[i].context;
        if (axis) loop->grid_axis = text[length + 1];
        return;
    }
    warn_unknown(s, arg->value->span, text, names, COUNT_OF(names));
}

static void read_number(Sema *s, const Arg *arg, const char *name, int64_t *value) {
    int64_t number;
    if (arg->name && strcmp(arg->name, name) != 0) {
        diag_report(s->diags, DIAG_unknown_hint, arg->name_span, arg->name);
        return;
    }
    if (sema_expr(s, arg->value)->kind == TYPE_ERROR) return;
    if (!arg->value->affine || !aff_is_const(arg->value->affine, &number) || number <= 0)
        warn_value(s, arg, "it must be a constant above 0");
    else
        *value = number;
}

typedef struct {
    bool *flag;
    int64_t *number;
    const char *argument;
} HintSlot;

static HintSlot find_slot(LoopInfo *l, const char *kind) {
    static const char *const ARGUMENTS[] = {
#define LOOP_HINT(id, name, argument, summary) argument,
#include "hints.def"
#undef LOOP_HINT
    };
    HintSlot slots[] = {{NULL, NULL, NULL},
                        {&l->pipeline, &l->stages, NULL},
                        {&l->vectorize, &l->width, NULL},
                        {&l->unroll, &l->factor, NULL},
                        {&l->swizzle, &l->group, NULL},
                        {&l->split_k, &l->split, NULL},
                        {&l->cluster, &l->cluster_size, NULL},
                        {&l->persistent, NULL, NULL}};
    for (size_t i = 1; i < COUNT_OF(slots); i++) {
        if (strcmp(kind, LOOP_HINTS[i]) != 0) continue;
        slots[i].argument = ARGUMENTS[i];
        return slots[i];
    }
    return slots[0];
}

static void read_loop_hint(Sema *s, const Hint *h, LoopInfo *loop) {
    const char *kind = hint_kind(h);
    if (strcmp(h->name, "llm_hint") != 0 && strcmp(h->name, "hint") != 0) {
        static const char *const NAMES[] = {"llm_hint"};
        warn_unknown(s, h->span, h->name, NAMES, 1);
        return;
    }
    if (!kind) {
        diag_report(s->diags, DIAG_bad_hint_value, h->span, "a hint begins with its name as a string");
        return;
    }
    bool parallel = strcmp(kind, "parallel") == 0;
    HintSlot slot = find_slot(loop, kind);
    if (parallel && !loop->parallel) loop->parallel = PARALLEL_PLAIN;
    if (!parallel && !slot.flag) {
        warn_unknown(s, h->args.data[0].value->span, kind, LOOP_HINTS, COUNT_OF(LOOP_HINTS));
        return;
    }
    if (slot.flag) *slot.flag = true;
    for (size_t i = 1; i < h->args.count; i++) {
        const Arg *arg = &h->args.data[i];
        if (parallel)
            read_context(s, arg, loop);
        else if (slot.number)
            read_number(s, arg, slot.argument, slot.number);
        else
            warn_value(s, arg, "this hint takes no argument");
    }
}

void sema_loop_hints(Sema *s, Stmt *stmt) {
    for (size_t i = 0; i < stmt->hint_count; i++) read_loop_hint(s, &stmt->hints[i], stmt->loop);
}

void sema_other_hints(Sema *s, const Stmt *stmt) {
    for (size_t i = 0; i < stmt->hint_count; i++) {
        const char *kind = hint_kind(&stmt->hints[i]);
        if (!kind || strcmp(kind, "sliding_window") != 0) diag_report(s->diags, DIAG_misplaced_hint, stmt->hints[i].span);
    }
}

bool sema_alloc_hint(const char *name, Place *place, unsigned *wish) {
    for (size_t i = 0; i < COUNT_OF(ALLOC_HINTS); i++) {
        if (strcmp(name, ALLOC_HINTS[i].name) != 0) continue;
        *place = ALLOC_HINTS[i].place;
        *wish = ALLOC_HINTS[i].wish;
        return true;
    }
    return false;
}

static void read_alloc_hint(Sema *s, const Expr *item, Decl *tile) {
    const char *text = string_of(item), *names[COUNT_OF(ALLOC_HINTS) + 1];
    if (!text) {
        diag_report(s->diags, DIAG_bad_hint_value, item->span, "llm_hint= takes a string or a list of strings");
        return;
    }
    names[COUNT_OF(ALLOC_HINTS)] = "init_zero";
    if (strcmp(text, "init_zero") == 0) {
        tile->has_init = true;
        tile->init = (ConstValue){CONST_INT, 0, 0, NULL};
        return;
    }
    for (size_t i = 0; i < COUNT_OF(ALLOC_HINTS); i++) {
        names[i] = ALLOC_HINTS[i].name;
        if (strcmp(text, names[i]) != 0) continue;
        if (ALLOC_HINTS[i].place) tile->place = ALLOC_HINTS[i].place;
        tile->wishes |= ALLOC_HINTS[i].wish;
        return;
    }
    warn_unknown(s, item->span, text, names, COUNT_OF(names));
}

void sema_alloc_hints(Sema *s, Expr *list, Decl *tile) {
    bool is_list = list->kind == EXPR_LIST || list->kind == EXPR_TUPLE;
    for (size_t i = 0; is_list && i < list->u.list.count; i++) read_alloc_hint(s, list->u.list.items[i], tile);
    if (!is_list) read_alloc_hint(s, list, tile);
}
