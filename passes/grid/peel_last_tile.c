/* Peeling of the last tile, for align_versions: tensors of one axis whose extent is not a multiple of 16 bytes. All tiles but the last are
 * whole. The body becomes `if (begin + T <= extent) { body for a whole tile } else { body as it was }`. In the first branch no lane is
 * absent, so that its accesses are wide at any extent. */

#include "peel_last_tile.h"
#include "analysis/analysis.h"
#include "analyzer.h"

typedef struct {
    PassContext *ctx;
    IrFunc *func;
    const Aff *begin, *extent; /* of all tiles, of all tensors */
    int64_t tile, piece;       /* lanes of each tile; of a 16-byte piece of the widest elements */
} Flat;

/* A slice of the one axis, tile by tile, or a single number. */
static bool read_access(Flat *w, IrOp *op) {
    IrModule *m = w->ctx->module;
    bool store = op->opcode == IR_TILE_STORE;
    const IrValue *tensor = op->operands[store], *tile = store ? op->operands[0] : &op->results[0];
    unsigned operand, axis;
    int64_t lanes;
    if (is_view(tensor) || ir_op_mode(op) != IR_KIND_SET) return false;
    if (!is_tile(tile) || !tile->type->rank) return true;
    if (tensor->type->rank != 1 || tensor->type->strides || tile->type->rank != 1 || !slice_operand(op, 0, &operand, &axis) ||
        slice_step(op, 0) != 1)
        return false;
    const Aff *begin = ir_aff_of(m, op->operands[operand]), *end = ir_aff_of(m, op->operands[operand + 1]);
    if (!aff_is_const(tile->type->extents[0], &lanes)) return false;
    if (w->extent && (w->begin != begin || w->extent != tensor->type->extents[0] || w->tile != lanes)) return false;
    if (end != tensor->type->extents[0] && end != aff_add(m->affs, begin, tile->type->extents[0])) return false;
    int64_t piece = 16 / (int64_t)dtype_size(tensor->type->dtype);
    w->begin = begin, w->extent = tensor->type->extents[0], w->tile = lanes;
    w->piece = w->piece > piece ? w->piece : piece;
    return lanes % piece == 0 && aff_known_divisor(ir_facts_at(w->ctx->scratch, op), begin, piece) % piece == 0;
}

static bool is_scalar_from_outside(const IrOp *op) {
    for (unsigned i = 0; i < op->operand_count; i++)
        if (op->operands[i]->def && !is_scalar_arithmetic(op->operands[i]->def)) return false;
    return true;
}

static bool read_body(Flat *w) {
    for (IrOp *op = w->func->body->first; op; op = op->next) {
        if (op->region_count || op->opcode == IR_BARRIER || (is_scalar_arithmetic(op) && !is_scalar_from_outside(op))) return false;
        if ((op->opcode == IR_TILE_LOAD || op->opcode == IR_TILE_STORE) && !read_access(w, op)) return false;
    }
    ANALYZER_ASSUME(!w->extent || w->piece > 0); /* read_access sets both */
    return w->extent && aff_known_divisor(ir_facts_at(w->ctx->scratch, w->func->body->first), w->extent, w->piece) % w->piece != 0;
}

/* Does a case ask for an extent with a last piece that is not whole? */
static bool is_asked_for(const Flat *w) {
    int64_t value;
    for (size_t i = 0; i < sizes_asked(w->ctx); i++)
        if (size_at_plain(w->ctx, i, w->extent, &value) && value % w->piece) return true;
    return false;
}

bool has_whole_tiles(PassContext *ctx, IrFunc *f) {
    Flat w = {.ctx = ctx, .func = f};
    return !ir_func_has(f, IR_FN_ROTATED) && read_body(&w) && is_asked_for(&w);
}

void part_whole_tiles(PassContext *ctx, IrFunc *f) {
    Flat w = {.ctx = ctx, .func = f};
    if (!read_body(&w)) return;
    AffCtx *affs = ctx->module->affs;
    IrBuilder b = ir_builder_before(f->body->last);
    IrValue *end = ir_aff_emit(&b, aff_add(affs, w.begin, aff_const(affs, w.tile)));
    IrValue *whole = ir_binary(&b, IR_LE, end, ir_aff_emit(&b, w.extent));
    IrOp *branch = ir_op_create(&b, IR_IF, 1, &whole, 0, NULL);
    IrBuilder otherwise = ir_builder_at_end(branch->regions[1]);
    IrValueMap *map = ir_value_map_create(ctx->scratch);
    for (IrOp *op = f->body->first, *next; op != branch; op = next) {
        next = op->next;
        if (is_scalar_arithmetic(op)) continue;
        ir_op_clone(&otherwise, op, map);
        ir_op_move_to_end(op, branch->regions[0]);
    }
    IrBuilder inside = ir_builder_at_end(branch->regions[0]);
    ir_yield(&inside, 0, NULL);
    otherwise = ir_builder_at_end(branch->regions[1]);
    ir_yield(&otherwise, 0, NULL);
}
