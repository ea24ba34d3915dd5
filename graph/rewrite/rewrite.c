/* The driver of rewrites; rewrite.h says what the whole is. */
#include "query.h"
#include "rewrite_internal.h"

#include <string.h>

static const Rewrite rows[] = {
#define REWRITE(name, function, error, share, summary) {name, function, REWRITE_##error, share, false, summary},
#define REWRITE_ASKED(name, function, error, share, summary) {name, function, REWRITE_##error, share, true, summary},
#include "rewrites.def"
#undef REWRITE
};

/* A graph has some tens of operations: more than so many applications are a pair of rewrites that undo each other. */
enum { MOST_APPLIED = 1000 };

size_t rewrite_count(void) {
    return COUNT_OF(rows);
}
const Rewrite *rewrite_row(size_t index) {
    return &rows[index];
}
const char *rewrite_error_name(RewriteError error) {
    static const char *const names[] = {"exact", "order", "share"};
    return names[error];
}

static bool has_room(const Rewriter *r, const Rewrite *row) {
    return row->error != REWRITE_SHARE || r->counts.share + row->share <= 1;
}

/* Applies the row once, at the first operation where it fits. */
static bool apply_once(Rewriter *r, const Rewrite *row) {
    if (!has_room(r, row)) return false;
    for (IrOp *op = r->f->body->first; op; op = op->next)
        if (row->apply(r, op)) {
            r->counts.times[row - rows]++;
            if (row->error == REWRITE_SHARE) r->counts.share += row->share;
            remove_unused(r->arena, r->f->body);
            return true;
        }
    return false;
}

static bool apply_any(Rewriter *r) {
    const char *only = r->options->only;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if ((only ? strcmp(only, rows[i].name) == 0 : !rows[i].asked) && apply_once(r, &rows[i])) return true;
    return false;
}

RewriteCounts rewrite_graph(Arena *arena, IrFunc *f, const RewriteOptions *options) {
    Rewriter r = {.arena = arena, .f = f, .options = options, .counts = {.times = ARENA_ARRAY(arena, unsigned, COUNT_OF(rows))}};
    bool again = true;
    for (unsigned applied = 0; again && applied < MOST_APPLIED; applied++) again = apply_any(&r);
    return r.counts;
}

unsigned rewrite_counts_all(const RewriteCounts *counts) {
    unsigned all = 0;
    for (size_t i = 0; i < COUNT_OF(rows); i++) all += counts->times[i];
    return all;
}

void rewrite_counts_print(const RewriteCounts *counts, Str *out) {
    const char *between = "";
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (!counts->times[i]) continue;
        str_printf(out, "%s%s (%s)", between, rows[i].name, rewrite_error_name(rows[i].error));
        if (counts->times[i] > 1) str_printf(out, " x %u", counts->times[i]);
        between = ", ";
    }
}
