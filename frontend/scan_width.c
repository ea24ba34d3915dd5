/* Full-width punctuation (U+FF01 to U+FF5E, some of U+3000's block, curly quotes) is read as the
 * plain character, with a warning that offers it. Comments and strings stay as they are. */
#include "frontend_internal.h"

#include <string.h>

enum { WARNINGS_SHOWN = 20 };

/* The plain character that the three bytes stand for, 0 for none. */
static char plain_of(const unsigned char *at) {
    unsigned code = ((at[0] & 15u) << 12) | ((at[1] & 63u) << 6) | (at[2] & 63u);
    if (code >= 0xFF01 && code <= 0xFF5E) {
        char c = (char)(code - 0xFEE0);
        bool is_word = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        return is_word ? 0 : c;
    }
    switch (code) {
    case 0x3000:
        return ' ';
    case 0x3001:
        return ',';
    case 0x3010:
        return '[';
    case 0x3011:
        return ']';
    case 0x201C:
    case 0x201D:
        return '"';
    case 0x2018:
    case 0x2019:
        return '\'';
    default:
        return 0;
    }
}

static bool has_wide(const char *text, size_t size) {
    return memchr(text, 0xEF, size) || memchr(text, 0xE3, size) || memchr(text, 0xE2, size);
}

static void warn_wide(Scanner *s, uint32_t at, char plain, unsigned *shown) {
    if ((*shown)++ >= WARNINGS_SHOWN || plain == ' ') return;
    Span span = {s->file, at, at + 3};
    char text[2] = {plain, 0};
    Diag *d = diag_report(s->diags, DIAG_wide_punctuation, span, text);
    diag_fix(s->diags, d, span, text, "use the plain character");
}

char *scan_normalize(Scanner *s, const char *text, size_t size, uint32_t **offsets) {
    if (!has_wide(text, size) || memchr(text, 0, size)) return NULL;
    char *out = arena_alloc(s->arena, size + 1);
    uint32_t *map = ARENA_ARRAY(s->arena, uint32_t, size + 1), len = 0;
    unsigned shown = 0;
    char quote = 0; /* inside a string of this quote; '#' in a comment */
    for (size_t i = 0; i < size;) {
        const unsigned char *at = (const unsigned char *)text + i;
        char plain = i + 2 < size && at[0] >= 0xE0 && at[0] < 0xF0 ? plain_of(at) : 0;
        bool is_quote = plain && plain == quote;
        size_t width = plain && (!quote || is_quote) ? 3 : 1;
        char c = width == 3 ? plain : text[i];
        if (width == 3) warn_wide(s, (uint32_t)i, plain, &shown);
        if (c == '\n' || (quote && quote != '#' && c == quote))
            quote = 0;
        else if (!quote && (c == '#' || c == '"' || c == '\''))
            quote = c;
        map[len] = (uint32_t)i;
        out[len++] = c;
        i += width;
    }
    map[len] = (uint32_t)size;
    *offsets = map;
    return out;
}
