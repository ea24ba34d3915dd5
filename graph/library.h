/* library: the sketches of the folder library, as statements of tokens.
 *
 * A file has an operator and a sketch of the form that `sketchc fmt` gives it: one statement a line, lines broken inside of brackets
 * only. docs/decisions/library-sketches.md says what they are for. */
#ifndef GRAPH_LIBRARY_H
#define GRAPH_LIBRARY_H

#include "support.h"

typedef struct {
    const char *text;
    bool space; /* stands before it */
} LibraryToken;

typedef struct {
    unsigned level; /* of indentation: 1 for what stands in the sketch itself */
    size_t count;
    LibraryToken *tokens;
} LibraryLine;

enum { LIBRARY_RANK = 4 };

typedef struct {
    const char *name, *dtype;
    unsigned rank;
    const char *axes[LIBRARY_RANK]; /* the symbols that are its extents */
} LibraryTensor;

enum { LIBRARY_VARIANTS = 4 };

/* NAME = value, or the values of NAME in {..}: one a variant of the sketch, the last for those behind. */
typedef struct {
    const char *name;
    unsigned count;
    int64_t values[LIBRARY_VARIANTS];
} LibraryConstexpr;

/* symbol <= most: what the sketch is for. */
typedef struct {
    const char *symbol;
    int64_t most;
} LibraryLimit;

typedef struct {
    const char *name;
    VEC(LibraryLimit) limits;
    VEC(LibraryTensor) tensors; /* of the operator: left and right factor, result */
    VEC(LibraryConstexpr) constexprs;
    VEC(LibraryLine) lines;
} LibrarySketch;

size_t library_count(void);
/* Read from its text, in the arena. */
LibrarySketch *library_sketch(Arena *arena, size_t index);

bool library_is_word(const char *text);
/* Is the token at `i` this text? False behind the end. */
bool library_is(const LibraryLine *line, size_t i, const char *text);
/* Behind the comma, or at the closing bracket, that ends what begins at `i` inside of brackets. */
size_t library_item_end(const LibraryLine *line, size_t i);

#endif
