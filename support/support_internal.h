/* Shared by the files of support/ only. */
#ifndef SUPPORT_SUPPORT_INTERNAL_H
#define SUPPORT_SUPPORT_INTERNAL_H

#include "support.h"

#include <locale.h>

typedef struct MemoryScope MemoryScope;
/* A failed memory_try ends what memory_alloc returned by `end` in place of memory_free. */
void memory_ends_by(void *memory, void (*end)(void *memory));

/* Decodes the UTF-8 sequence at `bytes` (size > 0). Returns its length and sets *point; a byte that
 * starts no well-formed sequence has length 1 and *point == UINT32_MAX. */
size_t utf8_decode(const char *bytes, size_t size, uint32_t *point);

/* Columns a code point takes on a terminal: 0, 1 or 2. Not wcwidth, which depends on the locale. */
int utf8_width(uint32_t point);

/* Numbers are read and written between these two: the thread's locale is "C" meanwhile. */
typedef struct {
    locale_t c, saved;
} LocaleScope;
LocaleScope enter_c_locale(void);
void leave_c_locale(LocaleScope scope);

#endif
