/* Shared by format.c (what stands on which line) and format_line.c (how a line is spelt). */
#ifndef FRONTEND_FORMAT_INTERNAL_H
#define FRONTEND_FORMAT_INTERNAL_H

#include "frontend_internal.h"

enum { FORMAT_INDENT = 4, FORMAT_WIDTH = 100 };

typedef struct {
    uint32_t begin, end; /* in the source */
    uint32_t column;
    bool own_line; /* nothing stands before it on its line */
} FormatComment;

typedef struct {
    int kind; /* as the grammar's; 0 ends the list */
    const char *text;
    uint32_t begin, end;           /* in the source */
    size_t comment, comment_count; /* that follow this token, before the next */
} FormatToken;

/* One logical line: tokens [first, first + count) at a level of indentation. */
typedef struct {
    size_t first, count;
    unsigned level;
    bool adds_semicolon; /* a declaration whose `;` was left out */
} FormatLine;

typedef struct {
    const char *source;
    FormatToken *tokens;
    FormatComment *comments;
} FormatText;

/* Appends the line, wrapped to FORMAT_WIDTH where brackets allow it, with the comments inside and
 * behind it, and a line end. */
void format_line(const FormatText *text, const FormatLine *line, Str *out);

#endif
