/* Pass stencil_reuse: what the iterations of short loops load of a tensor is loaded once, ahead of them.
 *
 * what:   a map of loads in a nest of loops with few iterations (a window's elements) moves in front of the nest: a
 *         fragment holds the elements that all iterations read. If the iterations' step along an axis of the tensor is
 *         commensurable with the fragment's, an element that several iterations read is held once. Bounds are
 *         checked once a thread: lanes whose whole window lies inside load without masks. The loops are unrolled.
 *         Elements that a block's threads read many times are staged in shared memory (window_stage.c); partial results that
 *         neighbouring windows share are computed once. If an enclosing loop moves the window, partial results that
 *         its iterations share are computed once, and boxes are copied ahead (rolling_window.c).
 * needs:  kernel level, target cuda, before fuse_elementwise; nobody stores to the tensor in the kernel
 * keeps:  values but for the grouping of what is combined; order of effects
 * breaks: nothing
 * source: own; register reuse of stencils (Callahan, Carr, Kennedy: scalar replacement)
 *
 *   for(0, 3) (%r) {
 *     %v = map [4] (%i) { yield(load(%X, %base + (%i + %r) * %W, mask(%i + %r))) } ...
 *   }
 * becomes
 *   %w = if(corners inside) { map [6] (%u) { yield(load(%X, %base + %u * %W)) } } { ... masked ... }
 *   for(0, 3) (%r) { %v = map [4] (%i) { yield(frag.get(%w, %i + %r)) } ... }    unroll = -1
 */
#include "gpu.h"
#include "window_internal.h"

#include <string.h>

/* ---- Linear forms ---- */

typedef struct {
    const Window *w;
    const Aff *const *values; /* per variable; null: the variable's first */
    bool foreign;             /* a leaf is computed within the loops */
} Rename;

static const Aff *rename_leaf(void *ctx, const Aff *leaf) {
    Rename *r = ctx;
    if (leaf->kind != AFF_VAR) return NULL;
    for (unsigned i = 0; i < r->w->var_count; i++)
        if (r->w->vars[i].value == leaf->var) return r->values[i];
    if (is_inside_op(home_of((const IrValue *)leaf->var), r->w->outermost)) r->foreign = true;
    return NULL;
}

static bool at_numbers(Window *w, const Aff *e, const Aff *const *values, const Aff **out) {
    Rename r = {w, values, false};
    *out = aff_substitute(w->m->affs, e, rename_leaf, &r);
    return !r.foreign && (*out)->kind != AFF_OVERFLOW;
}

/* e = fixed + sum of slope * number; false where it is no such sum. The difference of neighbours
 * must not depend on any number: it is taken at the first and symbolically, in all of them. */
static bool linear_form(Window *w, const Aff *e, const Aff **fixed, const Aff **slopes) {
    AffCtx *c = w->m->affs;
    const Aff *first[WINDOW_VARS], *symbolic[WINDOW_VARS], *moved[WINDOW_VARS], *plain, *general, *next;
    for (unsigned i = 0; i < w->var_count; i++) {
        first[i] = aff_const(c, w->vars[i].first);
        symbolic[i] = aff_var(c, w->vars[i].value, w->vars[i].value->name);
    }
    if (!at_numbers(w, e, first, &plain) || !at_numbers(w, e, symbolic, &general)) return false;
    *fixed = plain;
    for (unsigned i = 0; i < w->var_count; i++) {
        for (unsigned k = 0; k < w->var_count; k++) moved[k] = symbolic[k];
        moved[i] = aff_add(c, symbolic[i], aff_const(c, 1));
        if (!at_numbers(w, e, moved, &next)) return false;
        slopes[i] = aff_sub(c, next, general);
        if (slopes[i]->kind == AFF_OVERFLOW) return false;
        for (unsigned k = 0; k < w->var_count; k++)
            if (aff_depends_on(slopes[i], w->vars[k].value)) return false;
    }
    return true;
}

static int64_t gcd(int64_t a, int64_t b) {
    a = a < 0 ? -a : a, b = b < 0 ? -b : b;
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* The greatest integer that divides every coefficient. */
static int64_t content(const Aff *e) {
    if (e->kind == AFF_CONST) return gcd(e->value, 0);
    if (e->kind != AFF_SUM) return 1;
    int64_t d = gcd(e->value, 0);
    for (size_t i = 0; i < e->count; i++) d = gcd(d, e->coefs[i]);
    return d;
}

static const Aff *divided(AffCtx *c, const Aff *e, int64_t d) {
    if (d == 1) return e;
    if (e->kind == AFF_CONST) return aff_const(c, e->value / d);
    const Aff *sum = aff_const(c, e->value / d);
    for (size_t i = 0; i < e->count; i++) sum = aff_add(c, sum, aff_mul(c, aff_const(c, e->coefs[i] / d), e->args[i]));
    return sum;
}

/* ---- What is loaded, under which conditions ---- */

static bool is_read_only(const IrValue *pointer) {
    if (pointer->def || pointer->type->kind != IR_TYPE_PTR) return false;
    for (const IrUse *u = pointer->uses; u; u = u->next)
        if (u->index != 0 || (u->op->opcode != IR_MEM_LOAD && u->op->opcode != IR_ASYNC_COPY)) return false;
    return true;
}

IrOp *window_load_of(const IrOp *map) {
    if (map->opcode != IR_MAP || map->result_count != 1) return NULL;
    IrOp *load = map->regions[0]->last->operands[0]->def;
    if (!load || load->opcode != IR_MEM_LOAD || load->block != map->regions[0] || load->results[0].type->width > 1) return NULL;
    for (const IrOp *op = map->regions[0]->first; op != map->regions[0]->last; op = op->next)
        if (op != load && (!ir_has_trait(op, IR_PURE) || op->region_count)) return NULL;
    return is_read_only(load->operands[0]) ? load : NULL;
}

static bool constant_bounds(IrModule *m, const IrOp *loop, int64_t *first, int64_t *count) {
    int64_t ub, step;
    if (!aff_is_const(ir_aff_of(m, loop->operands[0]), first) || !aff_is_const(ir_aff_of(m, loop->operands[1]), &ub) ||
        !aff_is_const(ir_aff_of(m, loop->operands[2]), &step) || step != 1 || ub - *first < 1 || ub - *first > MAX_TRIPS)
        return false;
    *count = ub - *first;
    return true;
}

static bool add_atoms(Window *w, IrValue *mask) {
    IrOp *op = mask->def;
    if (op && op->opcode == IR_AND) return add_atoms(w, op->operands[0]) && add_atoms(w, op->operands[1]);
    if (w->atom_count == WINDOW_ATOMS) return false;
    WindowAtom *a = &w->atoms[w->atom_count++];
    *a = (WindowAtom){0};
    if (!is_inside_op(home_of(mask), w->outermost)) {
        a->other = mask;
        return true;
    }
    if (!op || (op->opcode != IR_LT && op->opcode != IR_LE) || op->operands[0]->type != ir_type_index(w->m)) return false;
    AffCtx *c = w->m->affs;
    const Aff *e = aff_sub(c, ir_aff_of(w->m, op->operands[1]), ir_aff_of(w->m, op->operands[0])), *slopes[WINDOW_VARS];
    if (op->opcode == IR_LT) e = aff_sub(c, e, aff_const(c, 1));
    if (!linear_form(w, e, &a->fixed, slopes)) return false;
    for (unsigned i = 0; i < w->var_count; i++)
        if (!aff_is_const(slopes[i], &a->slope[i])) return false; /* NOLINT(*CallAndMessage): linear_form has set them */
    return true;
}

/* ---- The fragment's axes ---- */

/* May the variables share an axis: do their steps fit every condition alike? */
static bool atoms_allow(const Window *w, unsigned i, unsigned k, int64_t scale_i, int64_t scale_k) {
    for (unsigned a = 0; a < w->atom_count; a++) {
        int64_t x = w->atoms[a].slope[i], y = w->atoms[a].slope[k];
        if (x % scale_i != 0 || y % scale_k != 0 || x / scale_i != y / scale_k) return false;
    }
    return true;
}

static int64_t lowest(int64_t scale, int64_t count) {
    return scale < 0 ? scale * (count - 1) : 0;
}

static int64_t span_of(int64_t scale, int64_t count) {
    return (scale < 0 ? -scale : scale) * (count - 1);
}

bool window_common_step(AffCtx *c, const Aff *a, const Aff *b, int64_t *p, int64_t *q, const Aff **step) {
    *p = content(a), *q = content(b);
    int64_t d = gcd(*p, *q);
    if (!*p || !*q || *p > INT32_MAX || *q > INT32_MAX) return false;
    *p /= d, *q /= d;
    const Aff *left = aff_mul(c, a, aff_const(c, *q)), *right = aff_mul(c, b, aff_const(c, *p));
    if (left != right) {
        *p = -*p;
        if (left != aff_mul(c, b, aff_const(c, *p))) return false;
    }
    *step = divided(c, b, *q);
    return true;
}

/* One axis for a loop and an axis of the map whose strides are commensurable, where that holds
 * fewer elements. */
static bool share_axis(Window *w, unsigned i, unsigned k) {
    WindowVar *x = &w->vars[i], *y = &w->vars[k];
    int64_t p, q;
    const Aff *step;
    if (!window_common_step(w->m->affs, y->stride, x->stride, &q, &p, &step)) return false;
    int64_t extent = span_of(p, x->count) + span_of(q, y->count) + 1;
    if (extent >= x->count * y->count || !atoms_allow(w, i, k, p, q)) return false;
    x->axis = y->axis = (int)w->axis_count;
    x->scale = p, y->scale = q;
    w->axes[w->axis_count++] = (WindowAxis){extent, -lowest(p, x->count) - lowest(q, y->count), step};
    return true;
}

/* Is it one element, under the same conditions, at all numbers? */
static bool stays(const Window *w, unsigned i) {
    int64_t stride;
    bool same = aff_is_const(w->vars[i].stride, &stride) && stride == 0;
    for (unsigned a = 0; a < w->atom_count && same; a++) same = w->atoms[a].slope[i] == 0;
    return same || w->vars[i].count == 1;
}

static void choose_axes(Window *w) {
    w->axis_count = 0;
    for (unsigned i = 0; i < w->var_count; i++) w->vars[i].axis = -1;
    for (unsigned i = 0; i < w->map_rank; i++)
        for (unsigned k = w->map_rank; k < w->var_count && w->vars[i].axis < 0; k++)
            if (w->vars[k].axis < 0) share_axis(w, i, k);
    for (unsigned i = 0; i < w->var_count; i++) {
        if (w->vars[i].axis >= 0 || stays(w, i)) continue;
        w->vars[i].axis = (int)w->axis_count;
        w->vars[i].scale = 1;
        w->axes[w->axis_count++] = (WindowAxis){w->vars[i].count, 0, w->vars[i].stride};
    }
    for (unsigned a = 0; a < w->atom_count; a++)
        for (unsigned i = 0; i < w->var_count; i++)
            if (w->vars[i].axis >= 0) w->atoms[a].held[w->vars[i].axis] = w->atoms[a].slope[i] / w->vars[i].scale;
}

int64_t window_held_elements(const Window *w) {
    int64_t n = 1;
    for (unsigned a = 0; a < w->axis_count; a++) n *= w->axes[a].extent;
    return n;
}

int64_t window_held_registers(const Window *w) {
    return window_held_elements(w) * ((int64_t)(dtype_size(w->load->results[0].type->dtype) + 3) / 4);
}

int64_t window_reads(const Window *w) {
    int64_t n = 1;
    for (unsigned i = 0; i < w->var_count; i++) n *= w->vars[i].count;
    return n;
}

static int64_t count_ops(const IrBlock *block) {
    int64_t n = 0;
    for (const IrOp *op = block->first; op; op = op->next) {
        int64_t inside = 1, copies = 1;
        const IrAttr *extents = op->opcode == IR_MAP ? ir_attr(op, "extents") : NULL;
        for (size_t i = 0; extents && i < extents->count; i++) copies *= extents->ints[i];
        for (unsigned r = 0; r < op->region_count; r++)
            if (op->regions[r]) inside += count_ops(op->regions[r]);
        n += inside * copies;
    }
    return n;
}

bool window_find(PassContext *ctx, IrOp *map, IrOp *load, unsigned depth, Window *w, int64_t *unrolled) {
    *w = (Window){.ctx = ctx, .m = ctx->module, .map = map, .load = load, .outermost = map};
    const IrAttr *extents = ir_attr(map, "extents");
    w->map_rank = map->regions[0]->arg_count;
    if (w->map_rank + depth > WINDOW_VARS) return false;
    for (unsigned i = 0; i < w->map_rank; i++)
        w->vars[w->var_count++] = (WindowVar){.value = map->regions[0]->args[i], .count = extents->ints[i]};
    int64_t trips = 1;
    for (unsigned d = 0; d < depth; d++) {
        IrOp *loop = w->outermost->block->parent;
        WindowVar v = {0};
        if (!loop || loop->opcode != IR_FOR || !constant_bounds(w->m, loop, &v.first, &v.count)) return false;
        v.value = loop->regions[0]->args[0];
        w->vars[w->var_count++] = v;
        w->loops[w->loop_count++] = loop;
        w->outermost = loop;
        trips *= v.count;
    }
    *unrolled = count_ops(w->outermost->regions[0]) * trips;
    const Aff *slopes[WINDOW_VARS];
    if (!linear_form(w, ir_aff_of(w->m, load->operands[1]), &w->base, slopes)) return false;
    for (unsigned i = 0; i < w->var_count; i++) w->vars[i].stride = slopes[i];
    if (load->operand_count > 2 && !add_atoms(w, load->operands[2])) return false;
    if (load->operand_count > 3 && is_inside_op(home_of(load->operands[3]), w->outermost) &&
        (!load->operands[3]->def || load->operands[3]->def->opcode != IR_CONST))
        return false;
    choose_axes(w);
    return w->axis_count > 0;
}

void window_line_of(const Window *w, Window *line) {
    AffCtx *c = w->m->affs;
    const WindowVar *v = &w->vars[w->var_count - 1];
    const Aff *steps = aff_sub(c, aff_var(c, v->value, v->value->name), aff_const(c, v->first));
    *line = *w;
    line->var_count--, line->loop_count--;
    line->outermost = w->loops[line->loop_count - 1];
    line->base = aff_add(c, w->base, aff_mul(c, v->stride, steps));
    for (unsigned a = 0; a < w->atom_count; a++) {
        WindowAtom *atom = &line->atoms[a];
        if (!atom->other) atom->fixed = aff_add(c, atom->fixed, aff_mul(c, aff_const(c, atom->slope[line->var_count]), steps));
        memset(atom->held, 0, sizeof atom->held);
    }
    choose_axes(line);
}

bool window_fits(const Window *w, int64_t unrolled) {
    return window_reads(w) <= MAX_READS && unrolled <= MAX_UNROLLED && window_held_registers(w) <= MAX_HELD;
}

/* Is its fragment small enough, and worth it? */
static bool fits(const Window *w, int64_t unrolled) {
    return window_fits(w, unrolled) && (w->atom_count || window_held_elements(w) < window_reads(w));
}

/* ---- The nests of a function ---- */

/* How often the loops around the fragment's make it anew. */
static int64_t times_made(const Window *all, const Window *w) {
    int64_t n = 1;
    for (unsigned i = w->loop_count; i < all->loop_count; i++) n *= all->vars[all->map_rank + i].count;
    return n;
}

typedef struct {
    const IrBlock *block;
    int64_t registers; /* of the fragments of that block */
    WindowMemory memory;
    bool lasting; /* a box there is read later than right behind its fill: no other may come */
} Held;

/* The deepest nest that fits. What the block reads in that nest, or in a deeper one, is staged in shared memory where
 * that is less than what its threads load. */
static void visit(PassContext *ctx, IrOp *map, Held *held) {
    IrOp *load = window_load_of(map);
    Window nests[WINDOW_LOOPS], best = {0}, folded = {0};
    unsigned deepest = 0;
    int64_t unrolled;
    while (load && deepest < WINDOW_LOOPS && window_find(ctx, map, load, deepest + 1, &nests[deepest], &unrolled)) {
        const Window *w = &nests[deepest++];
        if (best.loop_count + 1 == deepest && fits(w, unrolled)) best = *w;
        if (window_fits_folded(w, unrolled)) folded = *w;
    }
    if (!best.map) return;
    WindowStage *stage = NULL;
    bool lasting = false;
    unsigned limit = held->memory.bytes ? best.loop_count : deepest; /* other fills may stand in deeper nests */
    for (unsigned f = folded.loop_count > best.loop_count ? 0 : 1; f < 2 && !stage && !held->lasting; f++) {
        const Window *read = f ? &best : &folded;
        for (unsigned depth = limit; depth >= read->loop_count && !stage; depth--) {
            /* NOLINTNEXTLINE(*ArrayBound): no nest is deeper than `deepest` */
            stage = window_stage_plan(&nests[depth - 1], window_held_elements(read) * times_made(&nests[depth - 1], read), &held->memory);
            lasting = depth > read->loop_count;
        }
        if (stage) best = *read;
    }
    if (held->block != best.outermost->block) held->block = best.outermost->block, held->registers = 0;
    if (held->registers + window_held_registers(&best) > MAX_ALL_HELD) return;
    held->registers += window_held_registers(&best);
    held->lasting = held->lasting || (stage && lasting);
    if (stage) window_stage_fill(stage), window_put_words_last(&best);
    IrValue *loaded = stage ? window_stage_read(stage, &best, NULL, NULL) : window_load_window(&best);
    window_take(&best, loaded);
}

static int64_t frag_elements(const IrType *t) {
    int64_t n = 1;
    for (unsigned i = 0; i < t->rank; i++) n *= ir_type_extent(t, i);
    return n;
}

/* Blocks that copy, wait, compute and store once each stand beside as many others as boxes and registers leave room for: some copy while others
 * store. Registers are those of what loops carry and OTHERS more, so that no compiler keeps a whole window in them, which lies in shared memory. */
static void ask_for_blocks(PassContext *ctx, IrFunc *f, const OpList *ops) {
    const Target *t = ctx->target;
    int64_t carried = 0;
    for (size_t i = 0; i < ops->len; i++) {
        const IrOp *op = ops->data[i];
        int64_t here = 0;
        if (op->opcode == IR_ATOM || op->opcode == IR_WGMMA) return; /* what a product needs is not known from what it carries */
        for (unsigned k = 0; op->opcode == IR_FOR && k < op->result_count; k++)
            if (op->results[k].type->kind == IR_TYPE_FRAG) here += frag_elements(op->results[k].type);
        if (here > carried) carried = here;
    }
    int64_t threads = 32 * ir_func_int(f, IR_FN_NUM_WARPS, 1), shared = ir_func_int(f, IR_FN_SHARED_BYTES, 0) + SYSTEM_BYTES;
    int64_t by_registers = t->registers_sm / ((carried + OTHERS) * threads), by_shared = t->shared_bytes_sm / shared;
    int64_t blocks = by_registers < by_shared ? by_registers : by_shared;
    if (blocks > t->threads_sm / threads) blocks = t->threads_sm / threads;
    if (blocks > t->blocks_sm) blocks = t->blocks_sm;
    if (carried && blocks > 1 && !ir_func_has(f, IR_FN_MIN_BLOCKS)) ir_func_set_int(f, IR_FN_MIN_BLOCKS, blocks);
}

bool pass_stencil_reuse(PassContext *ctx) {
    for (IrFunc *f = ctx->module->first, *next; f; f = next) {
        next = f->next;
        if (f->level != IR_LEVEL_KERNEL) continue;
        Held held = {.lasting = window_make_rolling(ctx, f)};
        OpList ops = ops_collect(ctx->scratch, f->body);
        for (size_t i = 0; i < ops.len; i++)
            if (ops.data[i]->opcode == IR_MAP) visit(ctx, ops.data[i], &held);
        if (ir_func_has(f, IR_FN_MISALIGNED_BASE) && !ir_func_int(f, IR_FN_MISALIGNED_BASE, 0))
            ir_func_remove(f); /* as the version behind it */
        else if (held.memory.bytes && ctx->target->kind == TARGET_CUDA)
            ask_for_blocks(ctx, f, &ops);
    }
    return true;
}
