/* Which versions a kernel over rows of symbolic length gets on a GPU. A row that is needed again after a
 * reduction is kept in the registers of a block, or of a cluster of blocks; the number of threads and blocks
 * is that of the size class. A step has at most four versions: the classes of the sizes that the cases name
 * come first, heaviest first, and the last version serves all else. */

#include "analyzer.h"
#include "gpu.h"
#include "split.h"

enum {
    CLASS_LIMIT = 12, /* classes that a kernel is planned with: room, more are not made */
    HELD = 96,        /* registers of a thread for a row that a cluster shares, all tiles together (note 6) */
    HELD_ROW = 64,    /* the same of a row that one block keeps (note 6) */
    HELD_TWICE = 72,  /* registers of a thread up to which 8 warps do for a row (note 6) */
    STEP_HELD = 16,   /* elements of a thread, at first: longer rows get more warps before they get more elements */
    MOST_WARPS = 16,  /* of a block */
    BLOCKS = 8,       /* of a cluster: what every machine with clusters has */
    ROW_STEPS = 16,   /* steps in which the lengths of rows of one class are told apart, at most */
    FEW = 4,          /* elements: short rows are rounded up to so many, 16 bytes of f32 */
    FEW_HELD = 4,     /* elements that a thread keeps at least, before more blocks share a row */
    LONG_ROWS = 1     /* 0: rows are read again where their tiles do not fit all at once (note 32) */
};

/* ---- What a thread must hold ---- */

static bool is_fold_along(const Axes *axes, const IrOp *op, size_t index) {
    return (op->opcode == IR_TILE_REDUCE || op->opcode == IR_TILE_ARG || op->opcode == IR_TILE_SCAN) &&
           axes_find(axes, op->operands[0], index) >= 0;
}

/* The op of `block` that holds the use. */
static IrOp *in_block(IrOp *op, const IrBlock *block) {
    while (op && op->block != block) op = op->block->parent;
    return op;
}

static bool comes_before(const IrOp *a, const IrOp *b) {
    for (const IrOp *op = a->next; op; op = op->next)
        if (op == b) return true;
    return false;
}

static IrOp *first_user(const IrOp *op) {
    IrOp *first = NULL;
    for (const IrUse *use = op->results[0].uses; use; use = use->next) {
        IrOp *user = in_block(use->op, op->block);
        if (!user) return NULL;
        if (!first || comes_before(user, first)) first = user;
    }
    return first;
}

/* A load that nothing needs before a reduction waits for that reduction: until then its registers are free. One element is one register,
 * and a trip to memory less at the row's end. */
bool row_sink_loads(PassContext *ctx, IrFunc *f, const Axes *axes, size_t index) {
    OpList ops = ops_collect(ctx->scratch, f->body);
    bool moved = false;
    for (size_t i = ops.len; i-- > 0;) {
        IrOp *load = ops.data[i], *user;
        if (load->opcode != IR_TILE_LOAD || is_stored_to(load->operands[0]) || !load->results[0].type->rank || !(user = first_user(load)))
            continue;
        bool waits = false;
        for (const IrOp *op = load->next; op && op != user; op = op->next) waits |= is_fold_along(axes, op, index);
        if (waits) ir_op_move_before(load, user);
        moved |= waits;
    }
    return moved;
}

/* Is the value needed behind number `at`? */
static bool is_needed_behind(const OpList *ops, size_t at, const IrValue *v) {
    for (size_t n = at + 1; n < ops->len; n++)
        for (unsigned o = 0; o < ops->data[n]->operand_count; o++)
            if (ops->data[n]->operands[o] == v) return true;
    return false;
}

/* Instructions take the other sign or none of a register's number as they read it: such a tile needs no registers beside those of its operand. */
static bool is_read_from(const OpList *ops, size_t at, const IrValue *v) {
    const IrOp *op = v->def;
    return op && (op->opcode == IR_ABS || op->opcode == IR_NEG) && dtype_is_float(v->type->dtype) &&
           is_needed_behind(ops, at, op->operands[0]);
}

/* The most tiles of the class that are alive across one of its reductions; at least 1. least: without those that another one gives. */
static int64_t tiles_held(const OpList *ops, const Axes *axes, size_t index, bool least) {
    int64_t most = 1;
    for (size_t i = 0; i < ops->len; i++) {
        const IrOp *fold = ops->data[i];
        int64_t held = 0;
        if (!is_fold_along(axes, fold, index)) continue;
        for (size_t k = 0; k < i; k++)
            for (unsigned r = 0; r < ops->data[k]->result_count; r++) {
                const IrValue *v = &ops->data[k]->results[r];
                held += axes_find(axes, v, index) >= 0 && is_needed_behind(ops, i, v) && !(least && is_read_from(ops, i, v));
            }
        most = held > most ? held : most;
    }
    return most;
}

/* ---- Classes ---- */

/* Does the kernel take its rows apart and put them together by reductions alone, under no control of its
 * own, in tiles of one axis? */
static bool is_plain(const OpList *ops, const Axes *axes, size_t index) {
    for (size_t i = 0; i < ops->len; i++) {
        const IrOp *op = ops->data[i];
        bool control = op->opcode == IR_FOR || op->opcode == IR_IF;
        bool access = op->opcode == IR_TILE_LOAD || op->opcode == IR_TILE_STORE;
        if (control || ir_has_trait(op, IR_ALONG) || op->opcode == IR_TILE_ARG || op->opcode == IR_TILE_GEMM) return false;
        if (op->opcode == IR_TILE_STORE && ir_op_mode(op) != IR_KIND_SET) return false;
        if (access && (slice_gathers(op) || ir_attr(op, "steps"))) return false;
        if (op->opcode == IR_TILE_LOAD && is_stored_to(op->operands[0])) return false;
        bool moves = ir_has_trait(op, IR_MOVES) && op->opcode != IR_TILE_BROADCAST;
        if (moves) return false;
        for (unsigned r = 0; r < op->result_count; r++)
            if (is_tile(&op->results[r]) && op->results[r].type->rank > 1) return false;
    }
    return axes_class(axes, index)->innermost;
}

/* Can a cluster's blocks share a row? */
static bool may_spread(const PassContext *ctx, const OpList *ops, const Axes *axes, size_t index) {
    return target_has(ctx->target, TARGET_CLUSTER) && is_plain(ops, axes, index);
}

/* Does every access of the rows begin with their first lane, and does nothing ask for the number of a lane? Then
 * it does not matter which thread holds which. */
bool row_may_rotate(PassContext *ctx, IrFunc *f, const Axes *axes, size_t index) {
    OpList ops = ops_collect(ctx->scratch, f->body);
    if (axes_others(axes, index, 1, 1) > 1 || !is_plain(&ops, axes, index)) return false;
    for (size_t i = 0; i < ops.len; i++) {
        const IrOp *op = ops.data[i];
        if (op->opcode == IR_TILE_IOTA || op->opcode == IR_VIEW) return false;
        if ((op->opcode != IR_TILE_LOAD && op->opcode != IR_TILE_STORE) || !axes_touch(axes, op, index)) continue;
        unsigned operand, axis;
        int64_t begin;
        if (ir_attr(op, "pad") || !slice_operand(op, 0, &operand, &axis)) return false;
        if (!aff_is_const(ir_aff_of(ctx->module, op->operands[operand]), &begin) || begin) return false;
    }
    return true;
}

/* Is the operand put into a block's memory, all of its lanes? */
static bool passes_through_memory(const IrOp *op) {
    bool moves = ir_has_trait(op, IR_MOVES) && op->opcode != IR_TILE_BROADCAST && op->opcode != IR_TILE_TRANSPOSE;
    return op->operand_count && is_tile(op->operands[0]) && (moves || ir_has_trait(op, IR_ALONG) || op->opcode == IR_TILE_ARG);
}

/* The lanes that threads are dealt. */
static int64_t dealt(int64_t lanes) {
    int64_t n = 1;
    while (n < lanes) n *= 2;
    return n;
}

/* The longest row of which there is room for all lanes there, and for one more of each 32. */
static int64_t longest_in_memory(const PassContext *ctx, const OpList *ops, const Axes *axes, size_t index) {
    enum { BESIDE = 1024 }; /* partial results */
    int64_t longest = INT64_MAX;
    for (size_t i = 0; i < ops->len; i++) {
        const IrOp *op = ops->data[i];
        int along = passes_through_memory(op) ? axes_find(axes, op->operands[0], index) : -1;
        if (along < 0) continue;
        const IrType *t = op->operands[0]->type;
        bool pairs = op->opcode == IR_TILE_SCAN && op->operand_count > 1; /* of a recurrence both operands */
        int64_t lane = (int64_t)dtype_size(t->dtype) * (pairs ? 2 : 1);
        for (unsigned a = 0; a < t->rank; a++)
            if ((int)a != along && ir_type_extent(t, a) > 1) lane *= dealt(ir_type_extent(t, a));
        int64_t row = (ctx->target->shared_bytes_block - BESIDE) / 33 * 32 / lane;
        longest = row < longest ? row : longest;
    }
    return longest;
}

/* longest: what a row may have. */
static size_t add_class(RowClass *classes, size_t n, int64_t elements, int64_t others, int64_t warps, int64_t cluster, int64_t longest) {
    int64_t cap = elements / others;
    if (n == CLASS_LIMIT || cap < ROW_LEAST_CAP || dealt(cap) > longest) return n;
    classes[n] = (RowClass){.cap = cap, .warps = warps, .cluster = cluster, .held = elements / (32 * warps * cluster)};
    return n + 1;
}

/* Of the classes those that some row needs. */
static size_t up_to(const RowClass *classes, size_t n, int64_t most) {
    for (size_t i = 0; i < n; i++)
        if (classes[i].cap >= most) return i + 1;
    return n;
}

/* All classes that fit, shortest rows first. */
static size_t all_classes(PassContext *ctx, IrFunc *f, const Axes *axes, size_t index, RowClass *classes) {
    OpList ops = ops_collect(ctx->scratch, f->body);
    int64_t others = split_lanes_beside(axes, index), held = tiles_held(&ops, axes, index, false), most = MOST_WARPS;
    int64_t least = LONG_ROWS ? tiles_held(&ops, axes, index, true) : held; /* of rows that would be read several times else */
    int64_t longest = longest_in_memory(ctx, &ops, axes, index);
    while (most * 32 > ctx->target->max_threads_block) most /= 2;
    size_t n = 0;
    for (int64_t warps = 2; warps <= most; warps *= 2) n = add_class(classes, n, warps * 32 * STEP_HELD, others, warps, 1, longest);
    /* Two blocks of half the threads rather than one: while one waits the other computes. */
    for (int64_t each = 2 * STEP_HELD; each * least <= HELD_ROW; each *= 2) {
        int64_t halves = each == 2 * STEP_HELD && 2 * each * held <= HELD_ROW ? 2 : 1;
        n = add_class(classes, n, most * 32 * each, others, most / halves, 1, longest);
    }
    int64_t longest_row = split_most_lanes(ctx, f, axes_class(axes, index));
    if (others > 1 || !may_spread(ctx, &ops, axes, index)) return up_to(classes, n, longest_row);
    static const int64_t spread[][3] = {{4, 8, 64}, {8, 8, 64}, {8, 16, 48}, {8, 16, 64}, {8, 16, 96}};
    for (size_t i = 0; i < COUNT_OF(spread); i++)
        if (spread[i][2] * least <= HELD && spread[i][1] <= most)
            n = add_class(classes, n, spread[i][0] * spread[i][1] * 32 * spread[i][2], 1, spread[i][1], spread[i][0], longest);
    return up_to(classes, n, longest_row);
}

/* ---- Sizes that are asked for ---- */

static int64_t row_alignment(const IrFunc *f) {
    int64_t align = 1;
    for (unsigned i = 0; i < f->body->arg_count; i++) {
        const IrType *t = f->body->args[i]->type;
        int64_t width = t->kind == IR_TYPE_TENSOR ? 16 / (int64_t)dtype_size(t->dtype) : 1;
        align = width > align ? width : align;
    }
    return align;
}

typedef struct {
    int64_t row;
    double weight;
} RowSize;

/* Does the case launch no block of the kernel, where the sketch chooses by sizes (specialize_by_size)? */
static bool is_passed_over(const PassContext *ctx, const Aff *iterations, size_t asked) {
    int64_t blocks;
    return iterations && size_at_plain(ctx, asked, iterations, &blocks) && blocks <= 0;
}

bool row_of_small_sizes(const PassContext *ctx, IrFunc *f) {
    OpList ops = ops_collect(ctx->scratch, f->body);
    const Aff *iterations = parallel_iterations(ctx->module, &ops);
    size_t heaviest = 0;
    double most = 0, weight;
    for (size_t i = 0; i < sizes_asked(ctx); i++)
        if ((weight = size_weight(ctx, f, i, 1)) > most) heaviest = i, most = weight;
    return most > 0 && is_passed_over(ctx, iterations, heaviest);
}

/* Row lengths of the cases, of whole pieces or not, heaviest first. */
static size_t case_sizes(const PassContext *ctx, const IrFunc *f, const Aff *extent, int64_t piece, bool aligned, RowSize *sizes,
                         size_t limit) {
    size_t n = 0;
    OpList ops = ops_collect(ctx->scratch, f->body);
    const Aff *iterations =
        module_multiplies(ctx->module) ? NULL : parallel_iterations(ctx->module, &ops); /* steps beside products stay as they are */
    for (size_t i = 0; i < sizes_asked(ctx); i++) {
        RowSize s;
        if (!size_at_plain(ctx, i, extent, &s.row) || (s.row % piece == 0) != aligned || is_passed_over(ctx, iterations, i)) continue;
        s.weight = size_weight(ctx, f, i, (double)s.row);
        if (n == limit && sizes[n - 1].weight >= s.weight) continue;
        size_t at = n < limit ? n++ : limit - 1;
        for (; at > 0 && sizes[at - 1].weight < s.weight; at--) sizes[at] = sizes[at - 1];
        sizes[at] = s;
    }
    return n;
}

int64_t row_usual(const PassContext *ctx, const IrFunc *f, const Aff *extent) {
    RowSize heaviest = {0}, sizes[1];
    for (int aligned = 0; aligned < 2; aligned++)
        if (case_sizes(ctx, f, extent, row_alignment(f), aligned, sizes, 1) && sizes[0].weight > heaviest.weight) heaviest = sizes[0];
    return heaviest.row;
}

int64_t row_lanes_for(int64_t row, int64_t piece) {
    int64_t lanes = 1, least = WARP * piece;
    while (lanes < row) lanes *= 2;
    if (lanes <= least) return lanes;
    ANALYZER_ASSUME(least > 0);
    int64_t step = lanes / ROW_STEPS > least ? lanes / ROW_STEPS : least;
    return (row + step - 1) / step * step;
}

int64_t row_short(const PassContext *ctx, const IrFunc *f, const Aff *extent, int64_t most, int64_t *lanes, bool *aligned) {
    int64_t row = row_usual(ctx, f, extent), align = row_alignment(f);
    if (!row || row > most) return 0;
    *aligned = row % align == 0;
    *lanes = row_lanes_for(row, *aligned ? align : 1);
    return row;
}

/* Rows of a padded length may be rows of memory that begin anywhere: in the heaviest case with rows of that length. */
static bool begin_anywhere(const PassContext *ctx, const IrFunc *f, const OpList *ops, const Axes *axes, size_t index, int64_t row) {
    size_t heaviest = 0;
    double most = 0, weight;
    int64_t value;
    for (size_t i = 0; i < sizes_asked(ctx); i++) {
        if (!size_at_plain(ctx, i, axes_class(axes, index)->extent, &value) || value != row) continue;
        if ((weight = size_weight(ctx, f, i, (double)row)) > most) heaviest = i, most = weight;
    }
    for (size_t i = 0; most > 0 && i < ops->len; i++) {
        const IrOp *op = ops->data[i];
        if ((op->opcode != IR_TILE_LOAD && op->opcode != IR_TILE_STORE) || !axes_touch(axes, op, index)) continue;
        const IrType *t = op->operands[op->opcode == IR_TILE_STORE]->type;
        bool known = t->kind == IR_TYPE_TENSOR && t->rank > 1 && size_at_plain(ctx, heaviest, t->extents[t->rank - 1], &value);
        if (known && value * (int64_t)dtype_size(t->dtype) % 16) return true;
    }
    return false;
}

/* ---- The choice ---- */

static const RowClass *class_for(const RowClass *classes, size_t n, int64_t row) {
    for (size_t i = 0; i < n; i++)
        if (classes[i].cap >= row) return &classes[i];
    return NULL;
}

static size_t take(RowClass *taken, size_t n, const RowClass *c, bool aligned, size_t limit) {
    RowClass want = *c;
    want.aligned = aligned;
    for (size_t i = 0; i < n; i++)
        if (taken[i].cap == want.cap && taken[i].aligned == aligned) return n;
    if (n == limit) return n;
    size_t at = n;
    for (; at > 0 && taken[at - 1].cap > want.cap; at--) taken[at] = taken[at - 1];
    taken[at] = want;
    return n + 1;
}

/* The class that no row is too long for: it takes the place of the passes. */
static size_t take_last(RowClass *taken, size_t n, const RowClass *longest) {
    n = take(taken, n, longest, false, ROW_VERSIONS);
    if (n && taken[n - 1].cap == longest->cap && !taken[n - 1].aligned) taken[n - 1].last = true;
    return n;
}

typedef struct {
    RowClass all[CLASS_LIMIT], brief;
    size_t count;
    int64_t others, held, align;
} Classes;

/* Of tiles of several axes: rows below the least class, in steps of a few lanes. */
static const RowClass *small_class(Classes *c, int64_t row) {
    int64_t lanes = (row + FEW - 1) / FEW * FEW, warps = 1;
    while (lanes * c->others > WARP * STEP_HELD * warps && 2 * warps <= MOST_WARPS / 2) warps *= 2;
    c->brief = (RowClass){.cap = lanes, .warps = warps, .cluster = 1, .held = (lanes * c->others + WARP * warps - 1) / (WARP * warps)};
    return &c->brief;
}

/* Rows that fill less than three quarters of a block's class get one of their own length: lanes that are absent cost as much as others. By half the
 * threads where these hold it: two blocks, of which one loads while the other computes. */
static const RowClass *tightened(Classes *c, const RowClass *of, int64_t row) {
    if (!of || of->cluster > 1 || c->others > 1 || 4 * row > 3 * of->cap) return of;
    c->brief = *of;
    for (int64_t warps = of->warps / 2; warps <= of->warps; warps *= 2) {
        int64_t step = WARP * warps * c->align;
        c->brief.cap = (row + step - 1) / step * step, c->brief.warps = warps, c->brief.held = c->brief.cap / (WARP * warps);
        if (2 * warps == MOST_WARPS && c->brief.held * c->held <= HELD_TWICE) break;
    }
    return &c->brief;
}

/* The class for rows of that length: one warp's where it holds them, else the first that fits; null: none does. */
static const RowClass *class_of(Classes *c, int64_t row, int64_t piece) {
    int64_t lanes = row_lanes_for(row, piece);
    if (c->others > 1 && row && row <= ROW_LEAST_CAP - FEW && c->others * c->held * ROW_LEAST_CAP <= WARP * HELD_ROW * MOST_WARPS)
        return small_class(c, row);
    if (c->others > 1 || row > ROW_SHORT || lanes * c->held > ROW_SHORT) return tightened(c, class_for(c->all, c->count, row), row);
    c->brief = (RowClass){.cap = lanes, .warps = 1, .cluster = 1, .held = (lanes + WARP - 1) / WARP};
    return &c->brief;
}

/* Few rows leave most of the machine idle: a cluster of more blocks for each, as long as all of them run at once and threads keep a few pieces. */
static RowClass over_more_blocks(const PassContext *ctx, RowClass c, int64_t rows, int64_t align) {
    while (2 * c.cluster <= BLOCKS && 2 * c.cluster * rows <= ctx->target->sms && c.held >= 2 * FEW_HELD &&
           c.cap % (2 * c.cluster * c.warps * WARP * align) == 0)
        c.cluster *= 2, c.held /= 2;
    return c;
}

size_t row_plan(PassContext *ctx, IrFunc *f, const Axes *axes, size_t index, RowClass *taken) {
    RowSize sizes[16];
    const Aff *extent = axes_class(axes, index)->extent;
    OpList ops = ops_collect(ctx->scratch, f->body);
    Classes classes = {.others = split_lanes_beside(axes, index), .held = tiles_held(&ops, axes, index, false), .align = row_alignment(f)};
    const RowClass *all = classes.all;
    size_t count = classes.count = all_classes(ctx, f, axes, index, classes.all), n = 0;
    if (!count) return 0;
    bool spread = classes.others == 1 && may_spread(ctx, &ops, axes, index);
    RowClass passes = {.cap = INT64_MAX, .warps = spread ? 8 : 0, .cluster = spread ? BLOCKS : 1};
    int64_t piece = axes_class(axes, index)->innermost ? row_alignment(f) : 1; /* what runs across rows begins no piece */
    size_t asked = case_sizes(ctx, f, extent, piece, true, sizes, COUNT_OF(sizes));
    int64_t heaviest = row_usual(ctx, f, extent); /* its rows get a class of their length, others one that serves many */
    for (size_t i = 0; i < asked; i++) {
        bool own = sizes[i].row == heaviest;
        const RowClass *c = own ? class_of(&classes, sizes[i].row, piece) : class_for(all, count, sizes[i].row);
        n = take(taken, n, c ? c : &passes, true, ROW_VERSIONS - 2);
    }
    /* Where no case asks: rows of a few thousand, the longest that one block can keep; and rows of any alignment. */
    size_t blocks = 0;
    while (blocks < count && all[blocks].cluster == 1) blocks++;
    const RowClass *usual = class_for(all, blocks, 4096), *odd = class_for(all, blocks, 8192);
    const RowClass *longest = &all[blocks ? blocks - 1 : 0];
    n = take(taken, n, usual ? usual : longest, true, ROW_VERSIONS - 2);
    n = take(taken, n, longest, true, ROW_VERSIONS - 2);
    bool unaligned = case_sizes(ctx, f, extent, piece, false, sizes, COUNT_OF(sizes));
    if (unaligned && class_for(all, count, sizes[0].row)) odd = class_for(all, count, sizes[0].row);
    bool own = (unaligned && sizes[0].row == heaviest) || (LONG_ROWS && begin_anywhere(ctx, f, &ops, axes, index, heaviest));
    if (heaviest && (own || (!unaligned && heaviest <= ROW_SHORT))) {
        const RowClass *of = class_of(&classes, heaviest, own ? 1 : piece);
        odd = of ? of : odd;
    }
    RowClass any = odd ? *odd : *longest;
    if (any.cluster > 1 && 2 * any.warps <= MOST_WARPS && row_may_rotate(ctx, f, axes, index)) any.warps *= 2, any.held /= 2;
    if (spread && unaligned) any = over_more_blocks(ctx, any, (int64_t)(sizes[0].weight / (double)sizes[0].row), classes.align);
    n = take(taken, n, &any, false, ROW_VERSIONS - 1);
    if (longest->cap >= split_most_lanes(ctx, f, axes_class(axes, index))) n = take_last(taken, n, longest);
    return n;
}
