/* The user's own library of sketches: a folder of files, and `sketchc library`. */
#ifndef TOOLS_LIBRARY_H
#define TOOLS_LIBRARY_H

#include "options.h"

/* The texts of the folder's files, in the order of their names, in the arena; those that are fit for a library alone. `given` is --library; null: the environment says
 * where it is, or it stands where `library add` puts files. */
const char *const *library_texts(Arena *arena, const char *given, size_t *count);
/* `verify` compares the small cases of a file with the reference and returns the status. */
int command_library(Arena *arena, const CommandLine *line, int (*verify)(void *context, const char *path), void *context);

#endif
