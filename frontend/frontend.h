/* frontend: .sketch text -> checked syntax tree -> IR. Reports into a DiagList, never prints.
 *
 *     File *file = frontend_parse(unit, sources, id, diags);
 *     frontend_check(unit, file, &options, diags);   and, when diags->error_count is 0,
 *     build.c lowers file->sketch (or file->op) to IR.
 *
 * Both may be called on any bytes; a tree with errors in it can be checked further. */
#ifndef FRONTEND_FRONTEND_H
#define FRONTEND_FRONTEND_H

#include "ast.h"

typedef struct {
    const char *name, *value; /* -D name=value, as text */
} FrontendDefine;

typedef struct {
    const FrontendDefine *defines;
    size_t define_count;
    const char *sketch; /* null: the first */
    bool allow_unbound; /* constexprs may stay unbound (editors, formatter) */
    bool deterministic; /* float additions of several iterations need an order */
    bool check;         /* what is built counts index values outside and integer divisions by zero */
} FrontendOptions;

/* Limits; beyond them a clear error (E0001, E0002, E0003). */
enum {
    FRONTEND_MAX_SOURCE = 1 << 20, /* bytes */
    FRONTEND_MAX_NESTING = 256,    /* brackets, blocks */
    FRONTEND_MAX_EXPR_DEPTH = 1000 /* operators in a chain */
};

/* Never null. What could not be parsed is left out, with errors in `diags`. */
File *frontend_parse(Arena *unit, SourceMap *sources, uint32_t file, DiagList *diags);

/* Resolves names, shapes, types, presence; picks file->sketch and file->op. True when
 * `diags` holds no error, those of parsing included. */
bool frontend_check(Arena *unit, File *file, const FrontendOptions *options, DiagList *diags);

/* What allocs may hope for on a machine. */
typedef struct {
    bool gpu;
    int64_t register_bytes, l1_bytes, l2_bytes; /* of a core, where it is no GPU */
    bool strict;                                /* --strict-hints */
} AllocMachine;

/* Reports each hint of an alloc of the checked sketch that does not hold on the machine, once. */
void frontend_report_allocs(const File *file, const AllocMachine *machine, DiagList *diags);

/* Where a tile of a checked sketch lies on the machine; *why it is no register, null where it is. */
Place frontend_tile_place(const Block *sketch, const Decl *tile, const AllocMachine *machine, const char **why);

/* Appends the source in the one style of .sketch files (docs/language.md, "Style"): the same tokens
 * but for separators that are free, comments kept. Formatting its own output changes nothing.
 * False, with the errors in `diags` and nothing appended, when the source does not parse. */
bool frontend_format(Arena *unit, SourceMap *sources, uint32_t file, DiagList *diags, Str *out);

/* The grammar of texts in that style, from the parser's own: "gbnf" or "ebnf". Static; null for another form. */
const char *frontend_grammar(const char *form);

/* `--emit=ast`: an indented tree, with types where checked. */
void ast_print(const File *file, Str *out);

#endif
