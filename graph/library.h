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

/* Axes of a tensor and of a product in a file of the library: batch, rows, columns and what is summed. */
enum { LIBRARY_RANK = 4 };

typedef struct {
    const char *name, *dtype;
    unsigned rank;
    const char *axes[LIBRARY_RANK]; /* the symbols that are its extents */
} LibraryTensor;

/* Values of a constexpr that a file offers: each is compiled, so a design takes that much longer. */
enum { LIBRARY_VARIANTS = 4 };

/* NAME = value, or the values of NAME in {..}: one a variant of the sketch, the last for those behind. */
typedef struct {
    const char *name;
    unsigned count;
    int64_t values[LIBRARY_VARIANTS];
} LibraryConstexpr;

typedef struct {
    const char *name;
    const char *text;           /* of the file */
    VEC(LibraryLine) requires;  /* a condition each (require.h) */
    bool own;                   /* of the user's own library */
    bool by_name;               /* the condition `named` stands among them: the style `library` leaves it to others */
    VEC(LibraryTensor) tensors; /* of the operator: left and right factor, result */
    VEC(LibraryConstexpr) constexprs;
    VEC(LibraryLine) lines;
} LibrarySketch;

/* A file: the sketch's name, that of its file, and its text. */
typedef struct {
    const char *name, *text;
    bool own; /* of the user's own library */
} LibraryFile;

/* The files that are part of the program. */
size_t library_count(void);
LibraryFile library_file(size_t index);
/* Read from its text, in the arena; null: it has no sketch. */
LibrarySketch *library_sketch(Arena *arena, const LibraryFile *file);
/* The tokens of one line. */
LibraryLine library_line(Arena *arena, const char *text);

bool library_is_word(const char *text);
/* Is the token at `i` this text? False behind the end. */
bool library_is(const LibraryLine *line, size_t i, const char *text);
/* Behind the comma, or at the closing bracket, that ends what begins at `i` inside of brackets. */
size_t library_item_end(const LibraryLine *line, size_t i);

#endif
