/* What differs between two texts, line by line. */
#ifndef TOOLS_DIFF_H
#define TOOLS_DIFF_H

#include "support.h"

/* Appends a unified diff of `from` and `to` with three lines of context; nothing when they are
 * equal. */
void diff_lines(const char *path, const Str *from, const Str *to, Str *out);

#endif
