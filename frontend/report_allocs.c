/* Hints of allocs against what becomes of the tiles: a place is a promise "at worst this slow", a role
 * says how the tile is used. What does not hold is reported where the hint stands. */
#include "sema/sema_internal.h"

/* ---- How tiles are used ---- */

static bool reads(const Expr *e, const Decl *tile);

static bool reads_any(Expr *const *items, size_t count, const Decl *tile) {
    for (size_t i = 0; i < count; i++)
        if (reads(items[i], tile)) return true;
    return false;
}

static bool reads(const Expr *e, const Decl *tile) {
    if (!e) return false;
    switch (e->kind) {
    case EXPR_NAME:
        return e->decl == tile;
    case EXPR_INDEX:
        return e->decl == tile || reads_any(e->u.index.items, e->u.index.count, tile);
    case EXPR_SLICE:
        return reads(e->u.slice.lo, tile) || reads(e->u.slice.hi, tile) || reads(e->u.slice.step, tile);
    case EXPR_TUPLE:
    case EXPR_LIST:
        return reads_any(e->u.list.items, e->u.list.count, tile);
    default: /* bound holds operands only, no destinations */
        return reads_any(e->bound, e->bound_count, tile) || reads_any(e->many, e->many_count, tile);
    }
}

static bool writes(const Stmt *s, const Decl *tile) {
    for (size_t i = 0; i < s->target_count; i++)
        if (s->targets[i] == tile) return true;
    return false;
}

/* A write that keeps some of what the tile held: of a gemm's sum, or of a part. */
static bool adds_to(const Stmt *s) {
    return s->action == ACTION_STORE || (s->value && s->value->builtin == BUILTIN_GEMM);
}

typedef enum { ACCESS_NONE, ACCESS_READ, ACCESS_WRITE } Access;

static Access first_access(const Body *body, const Decl *tile);

static Access access_of(const Stmt *s, const Decl *tile) {
    if (s->kind == STMT_FOR) return first_access(&s->u.loop.body, tile);
    if (s->kind == STMT_IF) {
        Access a = first_access(&s->u.branch.then_body, tile), b = first_access(&s->u.branch.else_body, tile);
        if (reads(s->u.branch.condition, tile) || a == ACCESS_READ || b == ACCESS_READ) return ACCESS_READ;
        return a == ACCESS_WRITE && b == ACCESS_WRITE ? ACCESS_WRITE : ACCESS_NONE;
    }
    if (reads(s->value, tile) || (writes(s, tile) && adds_to(s))) return ACCESS_READ;
    return writes(s, tile) ? ACCESS_WRITE : ACCESS_NONE;
}

static Access first_access(const Body *body, const Decl *tile) {
    for (size_t i = 0; i < body->count; i++) {
        Access a = access_of(body->data[i], tile);
        if (a != ACCESS_NONE) return a;
    }
    return ACCESS_NONE;
}

static bool is_factor(const Expr *e, const Decl *tile) {
    if (!e) return false;
    bool product = e->builtin == BUILTIN_GEMM || e->builtin == BUILTIN_MATMUL || e->builtin == BUILTIN_DOT;
    for (size_t i = 0; i < e->bound_count; i++) {
        const Expr *operand = e->bound[i];
        if (product && i < 2 && operand && operand->kind == EXPR_NAME && operand->decl == tile) return true;
        if (is_factor(operand, tile)) return true;
    }
    return false;
}

typedef struct {
    const Decl *tile;
    bool loaded, stored, carried, updated, factor;
} TileUses;

static void find_uses(TileUses *u, const Body *body);

static void find_in_loop(TileUses *u, const Stmt *s) {
    bool carried = false;
    for (size_t i = 0; i < s->loop->carried_count; i++) carried |= s->loop->carried[i] == u->tile;
    bool kept = carried && first_access(&s->u.loop.body, u->tile) == ACCESS_READ;
    u->carried |= carried;
    u->updated |= kept;
    find_uses(u, &s->u.loop.body);
}

static void find_in_stmt(TileUses *u, const Stmt *s) {
    if (s->kind == STMT_FOR) {
        find_in_loop(u, s);
    } else if (s->kind == STMT_IF) {
        find_uses(u, &s->u.branch.then_body);
        find_uses(u, &s->u.branch.else_body);
    } else {
        u->loaded |= s->action == ACTION_LOAD && writes(s, u->tile);
        u->stored |= s->action == ACTION_STORE && reads(s->value, u->tile);
        u->factor |= is_factor(s->value, u->tile);
    }
}

static void find_uses(TileUses *u, const Body *body) {
    for (size_t i = 0; i < body->count; i++) find_in_stmt(u, body->data[i]);
}

/* ---- Roles ---- */

/* Why the tile cannot play the role; null: it can. */
static const char *role_fault(const TileUses *u, unsigned wish, const AllocMachine *m) {
    bool workspace = u->tile->is_workspace;
    switch (wish) {
    case WISH_ACCUMULATOR:
        return u->updated ? NULL : "no loop updates the tile";
    case WISH_INPUT_CACHE:
        return u->loaded ? NULL : "no load fills the tile";
    case WISH_OUTPUT_BUFFER:
        return u->stored ? NULL : "the tile is not stored";
    case WISH_TEMP:
        if (workspace) return "a workspace lives from its loop nest to those that read it";
        return u->updated ? "the tile lives through all iterations of a loop" : NULL;
    case WISH_SHARED:
        return m->gpu || workspace ? NULL : "a core keeps its tiles to itself";
    default:
        return NULL;
    }
}

/* ---- Places ---- */

/* Bytes of a tile; -1 when they depend on symbols. */
static int64_t bytes_of(const Decl *tile) {
    int64_t bytes = (int64_t)dtype_size(tile->type.dtype), extent;
    for (unsigned i = 0; i < tile->type.rank; i++)
        if (!aff_is_const(tile->type.shape[i], &extent) || __builtin_mul_overflow(bytes, extent, &bytes)) return -1;
    return bytes;
}

/* Where the tile lies. */
static Place place_of(const TileUses *u, const AllocMachine *m, const char **why) {
    int64_t bytes = bytes_of(u->tile);
    *why = "the tile is a workspace, in global memory";
    if (u->tile->is_workspace) return PLACE_SLOW;
    *why = "a loaded factor of a product is read from shared memory";
    if (m->gpu) return u->loaded && u->factor ? PLACE_FAST : PLACE_FASTEST;
    *why = "a tile cut from symbolic extents lies in the L1 cache";
    if (bytes < 0) return PLACE_FAST;
    *why = "the tile is larger than a core's vector registers";
    if (bytes <= m->l1_bytes) return bytes <= m->register_bytes ? PLACE_FASTEST : PLACE_FAST;
    *why = bytes <= m->l2_bytes ? "the tile is larger than the L1 cache" : "the tile is larger than the L2 cache";
    return bytes <= m->l2_bytes ? PLACE_MEDIUM : PLACE_SLOW;
}

/* ---- Reports ---- */

static void report(DiagList *diags, bool strict, Span span, const char *hint, const char *reason) {
    DiagId id = strict ? DIAG_hint_refused : DIAG_hint_not_followed;
    for (const Diag *d = diags->first; d; d = d->next)
        if (d->id == id && d->span.begin == span.begin && d->span.file == span.file) return;
    diag_report(diags, id, span, hint, reason);
}

static void check_hint(const TileUses *u, const Expr *item, const AllocMachine *m, DiagList *diags) {
    Place asked;
    unsigned wish;
    const char *name = item->kind == EXPR_CONST && item->u.constant.kind == CONST_STRING ? item->u.constant.s : NULL;
    if (!name || !sema_alloc_hint(name, &asked, &wish)) return;
    const char *fault = wish ? role_fault(u, wish, m) : NULL, *why;
    if (!wish && place_of(u, m, &why) > asked) fault = why;
    if (fault) report(diags, m->strict, item->span, name, fault);
}

static void check_alloc(const Decl *tile, const Body *all, const AllocMachine *m, DiagList *diags) {
    const Expr *hints = tile->hints;
    if (!hints) return;
    TileUses uses = {.tile = tile};
    find_uses(&uses, all);
    bool list = hints->kind == EXPR_LIST || hints->kind == EXPR_TUPLE;
    if (!list) check_hint(&uses, hints, m, diags);
    for (size_t i = 0; list && i < hints->u.list.count; i++) check_hint(&uses, hints->u.list.items[i], m, diags);
}

static void check_body(const Body *body, const Body *all, const AllocMachine *m, DiagList *diags) {
    for (size_t i = 0; i < body->count; i++) {
        const Stmt *s = body->data[i];
        if (s->kind == STMT_FOR) check_body(&s->u.loop.body, all, m, diags);
        if (s->kind == STMT_IF) check_body(&s->u.branch.then_body, all, m, diags);
        if (s->kind == STMT_IF) check_body(&s->u.branch.else_body, all, m, diags);
        if (s->action == ACTION_ALLOC) check_alloc(s->targets[0], all, m, diags);
    }
}

void frontend_report_allocs(const File *file, const AllocMachine *machine, DiagList *diags) {
    if (file->sketch) check_body(&file->sketch->body, &file->sketch->body, machine, diags);
}

Place frontend_tile_place(const Block *sketch, const Decl *tile, const AllocMachine *machine, const char **why) {
    TileUses uses = {.tile = tile};
    find_uses(&uses, &sketch->body);
    Place place = place_of(&uses, machine, why);
    if (place == PLACE_FASTEST) *why = NULL;
    return place;
}
