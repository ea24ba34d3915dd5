/* Order of the checks; names and scopes. */
#include "sema_internal.h"

#include <string.h>

/* ---- Reports ---- */

Diag *sema_error(Sema *s, DiagId id, Span span, const char *format, ...) {
    va_list args;
    Str text;
    str_init(&text);
    va_start(args, format);
    str_vprintf(&text, format, args);
    va_end(args);
    Diag *d = diag_report(s->diags, id, span, text.data);
    str_release(&text);
    return d;
}

const char *sema_aff_text(Sema *s, const Aff *e) {
    Str text;
    str_init(&text);
    aff_print(e, &text);
    const char *copy = arena_strndup(s->arena, text.data, text.len);
    str_release(&text);
    return copy;
}

const char *sema_type_text(Sema *s, const Type *t) {
    const char *dtype = t->dtype ? dtype_name(t->dtype) : "tile";
    if (t->kind == TYPE_STRING) return "a string";
    if (t->kind == TYPE_LIST) return "a list";
    if (t->kind == TYPE_SCALAR) return arena_printf(s->arena, "a scalar %s", dtype);
    if (!type_is_shaped(t)) return "no value";
    const char *text = arena_printf(s->arena, "%s[", dtype);
    for (unsigned i = 0; i < t->rank; i++) text = arena_printf(s->arena, "%s%s%s", text, i ? ", " : "", sema_aff_text(s, t->shape[i]));
    return arena_printf(s->arena, "%s]", text);
}

const char *sema_source_text(Sema *s, Span span) {
    const SourceFile *file = source_file(s->diags->sources, span.file);
    if (!file || span.end > file->size || span.begin > span.end) return "";
    return arena_strndup(s->arena, file->text + span.begin, span.end - span.begin);
}

/* ---- Scopes ---- */

void sema_open_scope(Sema *s) {
    s->scope++;
}

void sema_close_scope(Sema *s) {
    while (s->in_scope.len) {
        NameEntry *entry = s->in_scope.data[s->in_scope.len - 1];
        if (entry->scope < s->scope) break;
        map_set(s->ended, s->arena, entry->decl->name, entry->decl);
        map_set(s->names, s->arena, entry->decl->name, entry->outer);
        s->in_scope.len--;
    }
    s->scope--;
}

static NameEntry *find_entry(Sema *s, const char *name) {
    return map_get(s->names, name);
}

Decl *sema_find(Sema *s, const char *name) {
    NameEntry *entry = find_entry(s, name);
    return entry ? entry->decl : NULL;
}

void sema_declare(Sema *s, Decl *d) {
    NameEntry *outer = find_entry(s, d->name);
    if (outer && outer->scope == s->scope) {
        Diag *diag = diag_report(s->diags, DIAG_redeclared, d->span, d->name);
        diag_note(s->diags, diag, outer->decl->span, "`%s` is declared here", d->name);
        return;
    }
    if (outer && outer->scope > 0 && outer->decl->kind != DECL_PREDEFINED) {
        Diag *diag = diag_report(s->diags, DIAG_shadowed, d->span, d->name);
        diag_note(s->diags, diag, outer->decl->span, "the other `%s` is declared here", d->name);
    }
    NameEntry *entry = ARENA_NEW(s->arena, NameEntry);
    *entry = (NameEntry){d, outer, s->scope};
    map_set(s->names, s->arena, d->name, entry);
    VEC_PUSH(s->arena, &s->in_scope, entry);
}

Decl *sema_new_decl(Sema *s, DeclKind kind, const char *name, Span span) {
    Decl *d = ARENA_NEW(s->arena, Decl);
    d->kind = kind;
    d->name = name;
    d->span = span;
    d->order = s->next_order++;
    d->loop_depth = s->loop_depth;
    return d;
}

static bool in_capitals(const char *name) {
    for (const char *c = name; *c; c++)
        if (!((*c >= 'A' && *c <= 'Z') || *c == '_' || (c > name && *c >= '0' && *c <= '9'))) return false;
    return true;
}

/* What the operator that the sketch implements declares by this name; null: nothing. */
static const Decl *operators_own(const Sema *s, const char *name) {
    const Block *op = s->block->op;
    for (size_t i = 0; op && i < op->decl_count; i++)
        if (strcmp(op->decls[i]->name, name) == 0) return op->decls[i];
    return NULL;
}

/* What may be missing is the name's declaration, as the block's first line. */
static void offer_declaration(Sema *s, Diag *d, const char *name) {
    const SourceFile *file = source_file(s->diags->sources, s->block->name_span.file);
    const Decl *theirs = operators_own(s, name);
    DeclKind kind = theirs ? theirs->kind : s->in_dims ? DECL_SYMBOL : DECL_CONSTEXPR;
    bool is_sketch = s->block->kind == BLOCK_SKETCH;
    if (theirs && kind == DECL_TENSOR)
        diag_note(s->diags, d, theirs->span, "the operator's `%s` is not declared in this sketch, which lists its tensors itself", name);
    const char *what = kind == DECL_SYMBOL ? "symbols" : kind == DECL_SCALAR ? "scalars" : kind == DECL_CONSTEXPR ? "constexpr" : NULL;
    if (!what || !file || (!theirs && !s->in_dims && !(is_sketch && in_capitals(name)))) return;
    const char *brace = strchr(file->text + s->block->name_span.end, '{');
    if (!brace) return;
    uint32_t at = (uint32_t)(brace + 1 - file->text);
    const char *type = kind == DECL_SCALAR ? arena_printf(s->arena, ": %s", theirs->dtype_name ? theirs->dtype_name : "f32") : "";
    diag_fix(s->diags, d, (Span){s->block->name_span.file, at, at}, arena_printf(s->arena, "\n    %s: %s%s;", what, name, type),
             kind == DECL_SYMBOL   ? "declare it as a size"
             : kind == DECL_SCALAR ? "declare it as a scalar"
             : theirs              ? "declare it, with the operator's value"
                                   : "declare it as a constexpr, to be given by -D");
}

/* Whether what is declared by this name can stand where it is used. */
static bool can_stand(const Sema *s, const Decl *d, NameUse use) {
    bool is_memory = d->kind == DECL_TENSOR || d->kind == DECL_VIEW || (d->kind == DECL_TILE && d->is_workspace);
    if (d->type.kind == TYPE_ERROR) return false;
    if (use == USE_TILE) return d->kind == DECL_TILE && !d->is_workspace;
    if (use == USE_MEMORY) return is_memory || d->kind == DECL_VALUE;
    return !is_memory || s->block->kind == BLOCK_OPERATOR;
}

void sema_undeclared(Sema *s, const char *name, Span span, NameUse use) {
    if (s->had_syntax_errors) return;
    const Decl *gone = map_get(s->ended, name);
    const char **names = ARENA_ARRAY(s->arena, const char *, s->in_scope.len + 1);
    size_t count = 0;
    for (size_t i = 0; i < s->in_scope.len; i++) {
        const Decl *d = ((NameEntry *)s->in_scope.data[i])->decl;
        if (can_stand(s, d, use)) names[count++] = d->name;
    }
    const char *close = gone || operators_own(s, name) || sema_declared_value(s, name) ? NULL : closest_name(name, names, count);
    const Decl *later = sema_declared_value(s, name);
    Diag *d = diag_report(s->diags, later ? DIAG_value_before_equation : DIAG_undeclared_name, span, name);
    if (later) diag_note(s->diags, d, later->span, "`%s` is declared here", name);
    if (gone) diag_note(s->diags, d, gone->span, "`%s` is declared here, but its block has ended", name);
    if (close) {
        diag_note(s->diags, d, SPAN_NONE, "did you mean `%s`?", close);
        diag_fix(s->diags, d, span, close, "use the declared name");
    } else if (!gone && !later) {
        offer_declaration(s, d, name);
    }
    Decl *known = sema_new_decl(s, DECL_LOCAL, name, span); /* one report a name */
    known->type.kind = TYPE_ERROR;
    NameEntry *entry = ARENA_NEW(s->arena, NameEntry);
    *entry = (NameEntry){known, find_entry(s, name), s->scope};
    map_set(s->names, s->arena, name, entry);
    VEC_PUSH(s->arena, &s->in_scope, entry);
}

/* ---- Blocks ---- */

static void enter_block(Sema *s, Block *b) {
    s->block = b;
    s->names = map_create(s->arena);
    s->ended = map_create(s->arena);
    s->facts = aff_facts_create(s->arena, s->aff);
    s->in_scope.len = 0;
    s->loops.len = 0;
    s->values = (PtrVec){0};
    s->scope = s->loop_depth = 0;
    s->next_order = (uint32_t)b->decl_count;
    s->selected = b == s->file->sketch || b == s->file->op;
    sema_predefine(s);
    s->scope = 1;
}

static void find_directions(Block *b) {
    for (size_t i = 0; i < b->decl_count; i++)
        if (b->decls[i]->type.kind == TYPE_TENSOR && b->decls[i]->direction == DIR_NONE && b->decls[i]->used)
            b->decls[i]->direction = DIR_IN;
    for (size_t i = 0; i < b->decl_count; i++) {
        Decl *d = b->decls[i], *memory = sema_memory(d);
        if (d->kind != DECL_VIEW) continue;
        d->direction = memory->direction;
        d->type.dtype = memory->type.dtype; /* a workspace's is settled by its uses */
    }
}

static void report_unused_tensors(Sema *s, Block *b, bool clean) {
    for (size_t i = 0; i < b->decl_count && clean && !s->had_syntax_errors; i++) {
        const Decl *d = b->decls[i];
        if (d->kind == DECL_TENSOR && d->direction == DIR_NONE && !d->used) diag_report(s->diags, DIAG_unused_tensor, d->span, d->name);
    }
}

static bool same_errors(const Sema *s, unsigned before) {
    return s->diags->error_count == before;
}

static void check_operator(Sema *s, Block *op) {
    if (op->checked) return;
    unsigned before = s->diags->error_count;
    op->checked = true;
    enter_block(s, op);
    sema_decls(s, op);
    sema_requires(s, op);
    if (op->use_count) sema_uses(s, op);
    sema_equations(s, op);
    if (!s->had_syntax_errors) sema_check_values(s, op);
    op->values = (Decl **)s->values.data;
    op->value_count = s->values.len;
    find_directions(op);
    report_unused_tensors(s, op, same_errors(s, before));
    sema_cases(s, op);
    if (op == s->file->op && !s->file->sketch) s->file->facts = s->facts;
}

static void check_sketch(Sema *s, Block *sketch) {
    unsigned before = s->diags->error_count;
    sketch->checked = true;
    enter_block(s, sketch);
    sema_decls(s, sketch);
    sema_requires(s, sketch);
    if (sketch->use_count) {
        sema_uses(s, sketch);
        return;
    }
    sema_open_scope(s);
    sema_body(s, &sketch->body);
    sema_close_scope(s);
    bool clean = !s->had_syntax_errors && same_errors(s, before); /* else writes may be missing */
    s->incomplete = !clean;
    if (clean) sema_presence(s, sketch);
    if (clean && same_errors(s, before)) sema_parallel(s, sketch);
    find_directions(sketch);
    report_unused_tensors(s, sketch, same_errors(s, before));
    sema_cases(s, sketch);
    if (sketch->op) sema_implements(s, sketch);
    if (sketch == s->file->sketch) s->file->facts = s->facts;
}

static void report_duplicates(Sema *s) {
    File *f = s->file;
    for (size_t i = 0; i < f->block_count; i++)
        for (size_t k = 0; k < i; k++) {
            const Block *a = f->blocks[k], *b = f->blocks[i];
            if (a->kind != b->kind || !b->name[0] || strcmp(a->name, b->name) != 0) continue;
            Diag *d = diag_report(s->diags, DIAG_duplicate_block, b->name_span, b->name);
            diag_note(s->diags, d, a->name_span, "the first one is here");
            break;
        }
}

static Block *find_block(const Sema *s, BlockKind kind, const char *name) {
    for (size_t i = 0; i < s->file->block_count; i++) {
        Block *b = s->file->blocks[i];
        if (b->kind == kind && (!name || strcmp(b->name, name) == 0)) return b;
    }
    return NULL;
}

static const char *closest_block(Sema *s, BlockKind kind, const char *name) {
    const char **names = ARENA_ARRAY(s->arena, const char *, s->file->block_count + 1);
    size_t count = 0;
    for (size_t i = 0; i < s->file->block_count; i++)
        if (s->file->blocks[i]->kind == kind) names[count++] = s->file->blocks[i]->name;
    return closest_name(name, names, count);
}

static void link_operators(Sema *s) {
    for (size_t i = 0; i < s->file->block_count; i++) {
        Block *b = s->file->blocks[i];
        const char *name = b->implements.op;
        if (!name) continue;
        b->op = find_block(s, BLOCK_OPERATOR, name);
        if (b->op || s->had_syntax_errors) continue;
        const char *close = closest_block(s, BLOCK_OPERATOR, name);
        Diag *d = diag_report(s->diags, DIAG_unknown_operator, b->implements.span, name);
        if (close) diag_note(s->diags, d, SPAN_NONE, "did you mean `%s`?", close);
    }
}

static void name_others(Sema *s) {
    const char *others = NULL;
    for (size_t i = 0; i < s->file->block_count; i++) {
        const Block *b = s->file->blocks[i];
        if (b->kind != BLOCK_SKETCH || b == s->file->sketch) continue;
        others = others ? arena_printf(s->arena, "%s, %s", others, b->name) : b->name;
    }
    if (others) diag_report(s->diags, DIAG_other_sketches, s->file->sketch->name_span, s->file->sketch->name, others);
}

static void select_blocks(Sema *s) {
    File *f = s->file;
    const char *wanted = s->options->sketch;
    f->sketch = find_block(s, BLOCK_SKETCH, wanted);
    if (wanted && !f->sketch) {
        const char *close = closest_block(s, BLOCK_SKETCH, wanted);
        Diag *d = diag_report(s->diags, DIAG_unknown_sketch, (Span){f->file, 0, 0}, wanted);
        if (close) diag_note(s->diags, d, SPAN_NONE, "did you mean `%s`?", close);
        for (size_t i = 0; !close && i < f->block_count; i++)
            if (f->blocks[i]->kind == BLOCK_SKETCH && f->blocks[i]->name)
                diag_note(s->diags, d, f->blocks[i]->name_span, "it has `%s`", f->blocks[i]->name);
    }
    if (f->sketch && !wanted) name_others(s);
    bool made_of_uses = f->sketch && f->sketch->use_count;
    f->op = f->sketch ? f->sketch->op : find_block(s, BLOCK_OPERATOR, NULL);
    if (made_of_uses) f->used = f->sketch, f->sketch = NULL;
    if (!f->sketch && !f->op && !f->used && !wanted && !s->had_syntax_errors)
        diag_report(s->diags, DIAG_nothing_to_compile, (Span){f->file, 0, 0});
}

bool frontend_check(Arena *unit, File *file, const FrontendOptions *options, DiagList *diags) {
    Sema *s = ARENA_NEW(unit, Sema);
    s->arena = unit;
    s->diags = diags;
    s->file = file;
    s->options = options;
    file->check = options->check;
    s->had_syntax_errors = diags->error_count > 0;
    s->aff = file->aff = aff_ctx_create(unit);
    report_duplicates(s);
    link_operators(s);
    select_blocks(s);
    for (size_t i = 0; i < file->block_count; i++)
        if (file->blocks[i]->kind == BLOCK_OPERATOR) check_operator(s, file->blocks[i]);
    for (size_t i = 0; i < file->block_count; i++)
        if (file->blocks[i]->kind == BLOCK_SKETCH) check_sketch(s, file->blocks[i]);
    sema_define_unused(s);
    return diags->error_count == 0;
}
