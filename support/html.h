/* Text inside of HTML. */
#ifndef SUPPORT_HTML_H
#define SUPPORT_HTML_H

#include "support.h"

/* Appends text such that it shows as itself, between tags and in quoted attributes; control characters that HTML has no
 * place for become U+FFFD. */
void str_append_html(Str *s, const char *text, size_t size);

#endif
