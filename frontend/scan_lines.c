/* Lines, brackets and indentation: turns raw tokens into NEWLINE, INDENT and DEDENT.
 *
 * A line end counts unless a bracket or a set brace is open or the line ends in `,` or `->`. Braces
 * of blocks have an indentation of their own, set by their first line; a `}` closes what is open
 * inside. The stream is always balanced, whatever the input, so that the parser can recover. */
#include "analyzer.h"
#include "frontend_internal.h"

#include "parse.tab.h"

#include <string.h>

/* One less than the list keeps, so that the report itself is kept. */
static unsigned errors_given_up(const DiagList *diags) {
    return (diags->error_limit ? diags->error_limit : 50) - 1;
}

void scanner_init(Scanner *s, Arena *arena, const SourceFile *source, uint32_t file, DiagList *diags) {
    memset(s, 0, sizeof *s);
    s->arena = arena;
    s->diags = diags;
    s->file = file;
    uint32_t *offsets = NULL;
    s->size = (uint32_t)source->size;
    s->text = s->source = source->text;
    char *plain = scan_normalize(s, source->text, source->size, &offsets);
    if (plain) s->text = plain, s->size = (uint32_t)strlen(plain);
    s->offsets = offsets;
    s->cursor = s->line = s->text;
    if (strncmp(s->text, "\xef\xbb\xbf", 3) == 0) s->cursor = s->line = s->text + 3;
    s->indents[0] = 0;
    s->indent_count = 1;
    s->held = -1;
    s->line_start = true;
}

Span scan_span(const Scanner *s, const char *begin, const char *end) {
    uint32_t from = (uint32_t)(begin - s->text), to = (uint32_t)(end - s->text);
    if (s->offsets) from = s->offsets[from], to = s->offsets[to];
    return (Span){s->file, from, to};
}

bool scan_is_news(Scanner *s, uint32_t at) {
    bool news = s->quiet_until == 0 || at > s->quiet_until;
    while (s->source[at] && s->source[at] != '\n') at++;
    if (at > s->quiet_until) s->quiet_until = at;
    return news;
}

static void push_token(Scanner *s, int kind, Span span) {
    if (s->queue_len == SCAN_QUEUE) return; /* cannot be: bounded by the nesting limit */
    s->queue[(s->queue_head + s->queue_len++) % SCAN_QUEUE] = (QueuedToken){kind, span};
}

static int column(const Scanner *s) {
    int col = 0;
    for (const char *at = s->line; at < s->first; at++) col = *at == '\t' ? (col / 8 + 1) * 8 : col + 1;
    return col;
}

static Bracket *top_bracket(Scanner *s) {
    return s->bracket_count ? &s->brackets[s->bracket_count - 1] : NULL;
}

/* Whether line ends are without meaning here. */
static bool inside_line(Scanner *s) {
    Bracket *top = top_bracket(s);
    return top && (top->open != '{' || top->is_set);
}

static bool is_line_empty(const Scanner *s) {
    return s->prev == 0 || s->prev == TOK_NEWLINE || s->prev == TOK_INDENT || s->prev == TOK_DEDENT || s->prev == '{';
}

static void die(Scanner *s) {
    s->dead = true;
}

static void report_nesting(Scanner *s, Span span) {
    diag_report(s->diags, DIAG_nesting_too_deep, span, FRONTEND_MAX_NESTING);
    die(s);
}

static void open_bracket(Scanner *s, int token, Span span) {
    if (s->bracket_count == FRONTEND_MAX_NESTING) {
        report_nesting(s, span);
        return;
    }
    bool is_set = token == '{' && s->prev == TOK_IN;
    s->brackets[s->bracket_count++] = (Bracket){(char)token, is_set, (uint32_t)(s->first - s->text), s->indent_count};
    if (token != '{' || is_set) return;
    if (s->indent_count > FRONTEND_MAX_NESTING)
        report_nesting(s, span);
    else
        s->indents[s->indent_count++] = -1;
}

static void report_unclosed(Scanner *s, const Bracket *b) {
    const char *at = s->text + b->at;
    const char *close = b->open == '(' ? ")" : b->open == '[' ? "]" : "}";
    char open[2] = {b->open, 0};
    Diag *d = diag_report(s->diags, DIAG_unclosed_bracket, scan_span(s, at, at + 1), open, close);
    Span here = scan_span(s, s->first, s->first);
    if (here.begin > 0) diag_note(s->diags, d, here, "`%s` is missing before this", close);
}

static void queue_dedents(Scanner *s, uint32_t to, Span span) {
    while (s->indent_count > to)
        if (s->indents[--s->indent_count] >= 0) push_token(s, TOK_DEDENT, span);
}

/* Ends the brace on top: what is open inside, then the brace's own indentation. */
static void close_brace(Scanner *s, Span span) {
    ANALYZER_ASSUME(s->bracket_count > 0);
    Bracket *b = &s->brackets[--s->bracket_count];
    if (b->is_set) return;
    if (!is_line_empty(s)) push_token(s, TOK_NEWLINE, span);
    queue_dedents(s, b->indents + 1, span);
    s->indent_count = b->indents;
}

static int closer_of(const Bracket *b) {
    return b->open == '(' ? ')' : b->open == '[' ? ']' : '}';
}

static bool has_open(const Scanner *s, char open) {
    for (uint32_t i = 0; i < s->bracket_count; i++)
        if (s->brackets[i].open == open) return true;
    return false;
}

/* False when the token is to be dropped. */
static bool close_bracket(Scanner *s, int token, Span span) {
    char open = token == ')' ? '(' : token == ']' ? '[' : '{', shown[2] = {(char)token, 0};
    Bracket *top = top_bracket(s);
    if (top && top->open != open && has_open(s, open)) {
        while ((top = top_bracket(s)) && top->open != open) {
            report_unclosed(s, top);
            if (top->open == '{') {
                close_brace(s, span);
                push_token(s, '}', span);
            } else {
                push_token(s, closer_of(top), span);
                s->bracket_count--;
            }
        }
        s->line_error = true;
    } else if (!top || top->open != open) {
        diag_report(s->diags, DIAG_unmatched_bracket, span, shown);
        scan_is_news(s, span.begin);
        return false;
    }
    if (open == '{')
        close_brace(s, span);
    else
        s->bracket_count--;
    return true;
}

/* A line that cannot continue a bracket shows that the bracket was forgotten. */
static bool begins_statement(int token) {
    switch (token) {
    case TOK_FOR:
    case TOK_IF:
    case TOK_ELSE:
    case TOK_ELIF:
    case TOK_OPERATOR:
    case TOK_SKETCH:
    case TOK_CASE:
    case TOK_VIEW:
    case TOK_SYMBOLS:
    case TOK_TENSORS:
    case TOK_SCALARS:
    case TOK_VALUES:
    case TOK_CONSTEXPR:
    case TOK_REQUIRE:
    case TOK_USE:
    case '@':
    case '}':
        return true;
    default:
        return false;
    }
}

/* Closes what was forgotten, in the stream too, so that the line parses. */
static void drop_brackets(Scanner *s, Span span) {
    while (inside_line(s)) {
        if (!s->line_error) report_unclosed(s, top_bracket(s));
        push_token(s, closer_of(top_bracket(s)), span);
        s->bracket_count--;
    }
    s->line_error = true;
}

static void end_line_early(Scanner *s, Span span) {
    drop_brackets(s, span);
    push_token(s, TOK_NEWLINE, span);
    s->prev = TOK_NEWLINE;
    s->opener = false;
    if (span.begin > s->quiet_until) s->quiet_until = span.begin;
}

/* `for i in range(M:` at the end of a line: the bracket was forgotten, not the rest. */
static bool ends_header(Scanner *s, int token) {
    Bracket *top = top_bracket(s);
    if (token != ':' || !top || top->open != '(') return false;
    const char *at = s->cursor + strspn(s->cursor, " \t\r");
    return *at == '\n' || *at == '#';
}

static void indent(Scanner *s, int col, Span span) {
    if (s->indent_count > FRONTEND_MAX_NESTING) {
        report_nesting(s, span);
        return;
    }
    s->indents[s->indent_count++] = col;
    push_token(s, TOK_INDENT, span);
}

/* A line between two columns is reported and stays in the inner block, whose other lines then fit. */
static void dedent(Scanner *s, int col, Span span) {
    while (s->indent_count > 1 && s->indents[s->indent_count - 1] > col) {
        Bracket *brace = top_bracket(s);
        if (s->indent_count - 1 == (brace ? brace->indents : 0)) break; /* the brace's own base */
        if (s->indents[s->indent_count - 2] < col) break;
        s->indent_count--;
        push_token(s, TOK_DEDENT, span);
    }
    if (s->indents[s->indent_count - 1] != col) diag_report(s->diags, DIAG_bad_unindent, span);
}

/* The first token of a line: compares its column with the indentation in force. */
static void start_line(Scanner *s, Span span) {
    int col = column(s), *top = &s->indents[s->indent_count - 1];
    Span margin = scan_span(s, s->line, s->first);
    if (*top < 0) *top = col;
    if (col > *top && (s->opener || s->line_error))
        indent(s, col, margin);
    else if (col > *top && !s->section_line)
        diag_report(s->diags, DIAG_unexpected_indent, margin);
    else if (s->opener) {
        diag_report(s->diags, DIAG_missing_block, span);
        push_token(s, TOK_INDENT, span);
        push_token(s, TOK_DEDENT, span);
    }
    if (col < *top) dedent(s, col, margin);
    s->opener = s->line_error = false;
}

static bool opens_section(int token) {
    return token == TOK_SYMBOLS || token == TOK_TENSORS || token == TOK_SCALARS || token == TOK_VALUES || token == TOK_CONSTEXPR ||
           token == TOK_REQUIRE;
}

static void end_of_file(Scanner *s, Span span) {
    while (s->bracket_count) {
        Bracket *top = top_bracket(s);
        if (!s->dead) report_unclosed(s, top);
        if (top->open == '{' && !top->is_set) {
            close_brace(s, span);
            push_token(s, '}', span);
            s->prev = '}';
        } else {
            s->bracket_count--;
        }
    }
    if (!is_line_empty(s)) push_token(s, TOK_NEWLINE, span);
    queue_dedents(s, 1, span);
}

static void hold(Scanner *s, int token, Span span) {
    s->held = token;
    s->held_span = span;
}

/* Reads raw tokens up to one that counts; queues the structure that stands before it. */
static void advance(Scanner *s, union SK_STYPE *value) {
    for (;;) {
        int token = s->dead ? 0 : scan_raw(s, value);
        Span span = scan_span(s, s->first, s->cursor);
        if (s->diags->error_count >= errors_given_up(s->diags) && !s->dead) {
            diag_report(s->diags, DIAG_too_many_errors, span, errors_given_up(s->diags));
            die(s);
            token = 0;
        }
        if (token == TOK_LINE_END) {
            bool goes_on = inside_line(s) || s->prev == ',' || s->prev == TOK_ARROW;
            s->line = s->cursor;
            s->line_start = true;
            if (goes_on || is_line_empty(s)) continue;
            s->opener = s->prev == ':';
            hold(s, TOK_NEWLINE, span);
            return;
        }
        if (token == 0) {
            end_of_file(s, span);
            hold(s, 0, span);
            return;
        }
        bool first = s->line_start;
        s->line_start = false;
        if (first && inside_line(s) && (begins_statement(token) || s->line_error) && column(s) <= s->indents[s->indent_count - 1])
            end_line_early(s, span);
        if (ends_header(s, token)) {
            drop_brackets(s, span);
            s->line_error = false;
        }
        if (first && is_line_empty(s) && token != '}') {
            start_line(s, span);
            s->section_line = opens_section(token) || (s->section_line && s->queue_len == 0 && column(s) > s->indents[s->indent_count - 1]);
        }
        if (strchr("([{", token) && token < 128)
            open_bracket(s, token, span);
        else if (strchr(")]}", token) && token < 128 && !close_bracket(s, token, span))
            continue;
        hold(s, token, span);
        return;
    }
}

int scan_next(Scanner *s, union SK_STYPE *value, Span *span) {
    if (s->held < 0 && s->queue_len == 0) advance(s, value);
    int token;
    if (s->queue_len) {
        QueuedToken *q = &s->queue[s->queue_head];
        token = q->kind;
        *span = q->span;
        s->queue_head = (s->queue_head + 1) % SCAN_QUEUE;
        s->queue_len--;
    } else {
        token = s->held;
        *span = s->held_span;
        s->held = -1;
    }
    s->prev = token;
    return token;
}
