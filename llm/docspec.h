/* Documents: what a proposer may need to know, in the four categories of DocSpec (basic, api, expert,
 * example), each with a front matter that says for what it holds:
 *
 *     ---
 *     title: Blocked products
 *     category: expert
 *     scope: language              language, or targets and architectures: cuda, nvptx, openmp, sm_90a
 *     operations: gemm, "@"        optional: only for operators that call one of them or hold the text in quotes; "[[": an index in an index
 *     priority: 6                  optional, 0 to 9, default 5: what goes in first when not all fits
 *     fixed: true                  optional: in the fixed part of every prompt of its scope
 *     ---
 *
 * The built-in ones are docspec/documents/; the user's own stand in the folder docspec of
 * llm_documents_folder. Documents are data: nothing in them sets, allows or runs anything. */
#ifndef LLM_DOCSPEC_H
#define LLM_DOCSPEC_H

#include "support.h"

typedef enum { DOC_BASIC, DOC_API, DOC_EXPERT, DOC_EXAMPLE, DOC_CATEGORY_COUNT } DocCategory;

typedef struct {
    const char *name;                              /* the file's, without .md */
    const char *title, *scope, *operations, *body; /* scope, operations: as written; "" none */
    DocCategory category;
    int priority;
    bool fixed, own; /* own: the user's */
} Document;

typedef struct {
    Arena *arena;
    VEC(Document) list; /* built-in first, each by name */
} Documents;

/* Reads the built-in documents and those in `folder` (null: none; absent: none). Mistakes are reported a line
 * each in `problems`, their documents left out. */
void docspec_load(Documents *d, const char *folder, Str *problems);
void docspec_release(Documents *d);
/* Where the user's documents and target tables are: $XDG_DATA_HOME or ~/.local/share, sketchc/docspec. Null
 * when neither is set. */
const char *docspec_folder(Arena *arena);

const char *doc_category_name(DocCategory c);
/* Reads one document; false with messages, a line each, that begin with `path`. */
bool document_parse(Arena *arena, const char *path, const char *text, size_t size, Document *doc, Str *problems);
/* The standard form of raw documentation: front matter (kept, or made from the heading and file name), one
 * blank line between paragraphs, no trailing blanks, HTML and markup that carries nothing taken out, long lines
 * wrapped, code kept as it is. A fixed point: fmt of its result is the same. */
void document_format(const char *path, const char *text, size_t size, Str *out);

/* `formed` is a result of document_format. Is `shorter` (a text without front matter, from a model) fit to stand for its body: not
 * empty, shorter, with every code block of the body as it was and no other? If so `out` gets the document with it, in the form. */
bool document_shortened(const char *path, const char *formed, const char *shorter, Str *out);

/* Does a scope such as "cuda, sm_90a" cover a target or its architecture? */
bool document_covers(const Document *doc, const char *target, const char *arch);
/* The first operation of the document that occurs in `text`, or null; "" when it names none. */
const char *document_matches(Arena *arena, const Document *doc, const char *text);

#endif
