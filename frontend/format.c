/* `sketchc fmt`: one style for .sketch files.
 *
 * Works on the scanner's tokens, so that every token and comment comes out again: lines follow from
 * the structure (one statement a line, blocks indented by four), spaces from the tokens beside them,
 * breaks from the width. Blank lines of the source are kept, at most one at a time. */
#include "format_internal.h"

#include "parse.tab.h"

#include <string.h>

typedef struct {
    Arena *arena;
    FormatText text;
    size_t token_count, token_limit, comment_count;
    uint32_t columns[2 * FRONTEND_MAX_NESTING + 4]; /* of each level, in the source */
    unsigned level;
    size_t at;          /* the next token */
    bool in_section;    /* inside the indented block of `symbols:` and the like */
    bool suite_on_line; /* behind `for ...:` on the same line */
    FormatLine line;
    uint32_t last_end; /* of what was put last, in the source */
    size_t next_comment;
    bool opened;      /* the last line opened a block */
    bool block_ended; /* the last line closed an operator or sketch */
    unsigned last_level;
    Str *out;
} Format;

/* ---- Tokens ---- */

static uint32_t column_at(const char *source, uint32_t offset) {
    uint32_t begin = offset, column = 0;
    while (begin > 0 && source[begin - 1] != '\n') begin--;
    for (; begin < offset; begin++) column = source[begin] == '\t' ? (column / 8 + 1) * 8 : column + 1;
    return column;
}

static bool is_structure(int kind) {
    return kind == TOK_NEWLINE || kind == TOK_INDENT || kind == TOK_DEDENT;
}

static void add_comments(Format *f, const Scanner *s) {
    f->comment_count = s->comments.len;
    f->text.comments = ARENA_ARRAY(f->arena, FormatComment, s->comments.len + 1);
    for (size_t i = 0; i < s->comments.len; i++) {
        uint32_t begin = s->comments.data[i].begin, at = begin;
        while (at > 0 && strchr(" \t", f->text.source[at - 1])) at--;
        bool own = at == 0 || f->text.source[at - 1] == '\n';
        f->text.comments[i] = (FormatComment){begin, s->comments.data[i].end, column_at(f->text.source, begin), own};
    }
}

static void read_tokens(Format *f, Scanner *s) {
    struct {
        FormatToken *data;
        size_t len, cap;
    } tokens = {0};
    union SK_STYPE value;
    Span span;
    int kind;
    do {
        kind = scan_next(s, &value, &span);
        FormatToken t = {.kind = kind, .begin = span.begin, .end = span.end};
        t.text = f->text.source + span.begin;
        VEC_PUSH(f->arena, &tokens, t);
    } while (kind != 0);
    f->text.tokens = tokens.data;
    f->token_count = f->token_limit = tokens.len;
}

/* Gives each comment that stands beside or between the tokens of a line to the token before it; the
 * others stand alone between two lines. The settings of a case are one line. */
static void place_comments(Format *f) {
    size_t c = 0;
    FormatToken *last = NULL;
    bool line_ended = true, in_case = false, names_case = false;
    for (size_t i = 0; i < f->token_count; i++) {
        FormatToken *t = &f->text.tokens[i];
        if (is_structure(t->kind)) {
            line_ended = true;
            continue;
        }
        for (; c < f->comment_count && f->text.comments[c].begin < t->begin; c++) {
            bool alone = f->text.comments[c].own_line && (line_ended || last->kind == '{') && !in_case;
            if (!last || alone) continue;
            if (!last->comment_count++) last->comment = c;
        }
        names_case |= t->kind == TOK_CASE;
        in_case = names_case && (in_case || t->kind == '{') && t->kind != '}';
        names_case &= t->kind != '}';
        last = t;
        line_ended = false;
    }
}

/* ---- Output ---- */

static bool is_blank_between(const Format *f, uint32_t from, uint32_t to) {
    unsigned ends = 0;
    for (; from < to; from++) ends += f->text.source[from] == '\n';
    return ends > 1;
}

static void separate(Format *f, uint32_t begin, bool closes) {
    bool kept = !f->opened && !closes && is_blank_between(f, f->last_end, begin);
    if (f->out->len && (f->block_ended || kept)) str_append_char(f->out, '\n');
    f->opened = f->block_ended = false;
}

/* The level that a comment's column says, between that of the line before and that of the next. */
static unsigned comment_level(const Format *f, const FormatComment *c, unsigned next) {
    unsigned level = next;
    while (level < f->last_level && f->columns[level + 1] <= c->column) level++;
    return level;
}

/* Comments between the last line and the token at `begin`. */
static void put_alone(Format *f, uint32_t begin, unsigned next) {
    for (; f->next_comment < f->comment_count; f->next_comment++) {
        const FormatComment *c = &f->text.comments[f->next_comment];
        if (c->begin >= begin) return;
        if (c->begin < f->last_end) continue;
        separate(f, c->begin, false);
        unsigned level = comment_level(f, c, next);
        for (unsigned k = 0; k < level * FORMAT_INDENT; k++) str_append_char(f->out, ' ');
        uint32_t end = c->end;
        while (end > c->begin && strchr(" \t\r", f->text.source[end - 1])) end--;
        str_append_n(f->out, f->text.source + c->begin, end - c->begin);
        str_append_char(f->out, '\n');
        f->last_end = c->end;
        f->last_level = level;
    }
}

static void flush(Format *f) {
    FormatLine *line = &f->line;
    if (!line->count) return;
    const FormatToken *first = &f->text.tokens[line->first], *last = first + line->count - 1;
    put_alone(f, first->begin, line->level);
    separate(f, first->begin, first->kind == '}');
    format_line(&f->text, line, f->out);
    f->last_end = last->end;
    if (last->comment_count) f->last_end = f->text.comments[last->comment + last->comment_count - 1].end;
    f->opened = last->kind == '{' || last->kind == ':';
    f->last_level = line->level;
    line->count = 0;
    line->adds_semicolon = false;
}

/* ---- Lines ---- */

static bool opens_section_kind(int kind) {
    return kind == TOK_SYMBOLS || kind == TOK_TENSORS || kind == TOK_SCALARS || kind == TOK_VALUES || kind == TOK_CONSTEXPR;
}

static int depth_change(int kind) {
    return kind == '(' || kind == '[' || kind == '{' ? 1 : kind == ')' || kind == ']' || kind == '}' ? -1 : 0;
}

/* Whether a `:` outside of brackets comes before the end of the line that begins at token `i`: then
 * it declares tensors or scalars, where no word says so. */
static bool is_typed(const Format *f, size_t i) {
    if (f->text.tokens[i].kind != TOK_NAME) return false;
    for (int depth = 0; i < f->token_count; i++) {
        int kind = f->text.tokens[i].kind;
        depth += depth_change(kind);
        if (depth == 0 && kind == ':') return true;
        if (depth < 0 || (depth == 0 && (kind == '=' || kind == ';' || kind == TOK_UPDATE)) || is_structure(kind) || kind == 0)
            return false;
    }
    return false;
}

static bool is_declaration(const Format *f) {
    const int kind = f->text.tokens[f->line.first].kind;
    if (f->in_section || !f->line.count) return false;
    return opens_section_kind(kind) || kind == TOK_VIEW || kind == TOK_PRECISION || kind == TOK_REQUIRE || is_typed(f, f->line.first);
}

static void begin_line(Format *f) {
    f->line.first = f->at;
    f->line.count = 0;
    f->line.level = f->level;
    if (f->columns[f->level] == UINT32_MAX) f->columns[f->level] = column_at(f->text.source, f->text.tokens[f->at].begin);
}

static void take(Format *f) {
    if (!f->line.count) begin_line(f);
    f->line.count++;
    f->at++;
}

static void enter_level(Format *f) {
    f->columns[++f->level] = UINT32_MAX;
}

/* Whether the setting that begins at token `i` is a size (`B = 2`) and not data (`X: normal()`). */
static bool is_size(const Format *f, size_t i) {
    return f->text.tokens[i + 1].kind == '=';
}

/* Moves the tokens from f->at on up, by so much that this costs little however often it comes. */
static void make_room(Format *f) {
    size_t gap = 16 + (f->at - f->line.first);
    if (f->token_count + gap > f->token_limit) {
        f->token_limit = 2 * (f->token_count + gap);
        FormatToken *more = ARENA_ARRAY(f->arena, FormatToken, f->token_limit);
        memcpy(more, f->text.tokens, f->token_count * sizeof *more);
        f->text.tokens = more;
    }
    FormatToken *rest = f->text.tokens + f->at;
    memmove(rest + gap, rest, (f->token_count - f->at) * sizeof *rest);
    f->token_count += gap;
    f->at += gap;
}

/* `,` between sizes, else `;`; a comment behind the setting goes behind it. There is room for it where the
 * source had one. */
static void put_separator(Format *f, size_t *to, bool between_sizes) {
    if (*to + 1 >= f->at) make_room(f);
    FormatToken *last = &f->text.tokens[*to - 1], sign = {.end = 1};
    sign.kind = between_sizes ? ',' : ';';
    sign.text = between_sizes ? "," : ";";
    sign.comment = last->comment;
    sign.comment_count = last->comment_count;
    last->comment_count = 0;
    f->text.tokens[(*to)++] = sign;
}

/* The rest of `case NAME { ... }`, whatever its lines: its tokens move together. */
static void take_case(Format *f) {
    size_t to = f->at;
    int depth = 0;
    bool was_size = false, any = false;
    do {
        const FormatToken t = f->text.tokens[f->at++];
        int kind = t.kind;
        depth += depth_change(kind);
        if (depth == 1 && (is_structure(kind) || kind == ',' || kind == ';')) {
            FormatToken *last = &f->text.tokens[to - 1];
            if (t.comment_count && !last->comment_count) last->comment = t.comment;
            last->comment_count += t.comment_count;
            continue;
        }
        if (depth == 1 && kind == TOK_NAME && strchr("=:", f->text.tokens[f->at].kind)) {
            bool size = is_size(f, f->at - 1);
            if (any) put_separator(f, &to, size && was_size);
            was_size = size;
            any = true;
        }
        f->text.tokens[to++] = t;
    } while (depth > 0);
    f->line.count = to - f->line.first;
}

static bool opens_typed(int kind) {
    return kind == TOK_TENSORS || kind == TOK_SCALARS || kind == TOK_VALUES;
}

/* A `;`, or the end of a line: does the declaration go on behind it? */
static bool goes_on(const Format *f, size_t next) {
    int first = f->text.tokens[f->line.first].kind;
    return opens_typed(first) && is_typed(f, next);
}

static void drop(Format *f) {
    f->at++;
}

static void at_semicolon(Format *f) {
    bool declares = is_declaration(f);
    if (declares)
        take(f);
    else
        drop(f);
    if (!declares || !goes_on(f, f->at)) flush(f);
}

static void at_newline(Format *f) {
    drop(f);
    f->line.adds_semicolon = is_declaration(f) && f->text.tokens[f->line.first + f->line.count - 1].kind != ';';
    flush(f);
    if (f->suite_on_line) f->level--;
    f->suite_on_line = false;
}

static bool is_header(const Format *f) {
    int kind = f->text.tokens[f->line.first].kind;
    return f->line.count && (kind == TOK_FOR || kind == TOK_IF || kind == TOK_ELIF || kind == TOK_ELSE);
}

/* The `:` that ends `for ...:` or `symbols:` with a block behind it. */
static void at_block_colon(Format *f) {
    bool header = is_header(f);
    take(f);
    if (f->text.tokens[f->at].kind == TOK_NEWLINE) {
        drop(f);
        f->in_section = !header;
        flush(f);
    } else {
        flush(f);
        enter_level(f);
        f->suite_on_line = true;
    }
}

static bool has_block_behind(const Format *f) {
    if (is_header(f)) return true;
    return f->line.count == 1 && opens_section_kind(f->text.tokens[f->line.first].kind) && f->text.tokens[f->at + 1].kind == TOK_NEWLINE;
}

static void at_brace(Format *f) {
    if (f->line.count && f->text.tokens[f->line.first].kind == TOK_CASE) {
        take_case(f);
        flush(f);
        return;
    }
    take(f);
    flush(f);
    enter_level(f);
}

static void at_close(Format *f) {
    flush(f);
    f->level--;
    take(f);
    flush(f);
    f->block_ended = f->level == 0;
}

static void format_tokens(Format *f) {
    int depth = 0;
    while (f->at < f->token_count && f->text.tokens[f->at].kind != 0) {
        int kind = f->text.tokens[f->at].kind;
        bool is_set = kind == '{' && f->at > 0 && f->text.tokens[f->at - 1].kind == TOK_IN;
        if (depth == 0 && kind == TOK_NEWLINE)
            at_newline(f);
        else if (depth == 0 && kind == TOK_INDENT)
            drop(f), enter_level(f);
        else if (depth == 0 && kind == TOK_DEDENT)
            drop(f), f->level--, f->in_section = false;
        else if (depth == 0 && kind == ';')
            at_semicolon(f);
        else if (depth == 0 && kind == ':' && has_block_behind(f))
            at_block_colon(f);
        else if (depth == 0 && kind == '{' && !is_set)
            at_brace(f);
        else if (depth == 0 && kind == '}')
            at_close(f);
        else
            depth += depth_change(kind), take(f);
    }
    flush(f);
    put_alone(f, f->text.tokens[f->token_count - 1].end + 1, 0);
}

/* `tensors:` that goes on in the next line becomes one line. */
static void join_declarations(Format *f) {
    size_t to = 0;
    int first = 0;
    for (size_t i = 0; i < f->token_count; i++) {
        FormatToken t = f->text.tokens[i];
        bool joins = opens_typed(first);
        if (t.kind == TOK_NEWLINE && joins && is_typed(f, i + 1)) {
            if (f->text.tokens[to - 1].kind == ';') continue;
            t = (FormatToken){.kind = ';', .text = ";", .begin = t.begin, .end = t.begin + 1};
        } else if (is_structure(t.kind)) {
            first = 0;
        } else if (!first || opens_section_kind(t.kind)) {
            first = t.kind;
        }
        f->text.tokens[to++] = t;
    }
    f->token_count = to;
}

/* Full-width punctuation is made plain first: the text to format has one byte a character. */
static const SourceFile *plain_source(Arena *arena, SourceMap *sources, uint32_t *file, DiagList *diags) {
    const SourceFile *source = source_file(sources, *file);
    Scanner *s = ARENA_NEW(arena, Scanner);
    scanner_init(s, arena, source, *file, diags);
    if (!s->offsets) return source;
    *file = source_add(sources, source->path, s->text, s->size);
    return source_file(sources, *file);
}

bool frontend_format(Arena *unit, SourceMap *sources, uint32_t file, DiagList *diags, Str *out) {
    frontend_parse(unit, sources, file, diags);
    if (diags->error_count) return false;
    DiagList quiet = {0};
    diag_list_init(&quiet, unit, sources);
    const SourceFile *source = plain_source(unit, sources, &file, &quiet);
    Format *f = ARENA_NEW(unit, Format);
    f->arena = unit;
    f->out = out;
    f->text.source = source->text;
    Scanner *s = ARENA_NEW(unit, Scanner);
    scanner_init(s, unit, source, file, &quiet);
    f->columns[0] = 0;
    read_tokens(f, s);
    join_declarations(f);
    add_comments(f, s);
    place_comments(f);
    format_tokens(f);
    return true;
}
