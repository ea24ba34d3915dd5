/* Regions in which a loop's copies are issued, whose addresses LLVM is to make there: it knows nothing of the indices they are made of. */
#include "ptx_internal.h"

#include <string.h>

enum {
    HIDE_ELEMENTS = 1, /* the switch of the second kind */
    ELEMENT = 4,       /* bytes: the least that cp.async takes */
    MANY = 16          /* copies of a thread whose addresses may stay in registers */
};

bool ptx_multiplies_from_registers(const IrOp *loop) {
    for (const IrOp *op = loop->regions[0]->first; op; op = op->next)
        if (op->opcode == IR_WGMMA && op->operands[0]->type->kind == IR_TYPE_FRAG) return true;
    return false;
}

static const IrOp *loop_around(const IrBlock *region) {
    const IrOp *loop = region->parent;
    while (loop && loop->opcode != IR_FOR) loop = loop->block->parent;
    return loop;
}

/* The region in which a thread issues copies for a loop that multiplies from registers. Sums that it makes are those of a later iteration's
 * products. LLVM would make them in the other way of its branch, too, and keep them: ptxas no longer sees then that all threads have one
 * address, moves every descriptor from vector registers, and the arithmetic that stands beside the products in front of them. */
static bool issues_boxes(const IrBlock *region) {
    bool copies = false;
    for (const IrOp *op = region->first; op && !copies; op = op->next) copies = op->opcode == IR_TMA_LOAD;
    const IrOp *loop = copies ? loop_around(region) : NULL;
    return loop && ptx_multiplies_from_registers(loop);
}

static bool multiplies(const IrBlock *block, bool by_warpgroups) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (by_warpgroups && op->opcode == IR_WGMMA) return true;
        if (op->opcode == IR_ATOM && ir_atom_multiplies(ir_op_atom(op))) return true;
        for (unsigned r = 0; r < op->region_count; r++)
            if (op->regions[r] && multiplies(op->regions[r], by_warpgroups)) return true;
    }
    return false;
}

bool ptx_multiplies(const IrFunc *f) {
    return multiplies(f->body, true);
}

static int64_t lanes_of(const IrOp *map) {
    const IrAttr *extents = ir_attr(map, "extents");
    int64_t lanes = 1;
    for (unsigned i = 0; extents && i < extents->count; i++) lanes *= extents->ints[i];
    return lanes;
}

/* Copies of single elements that a thread issues in the region. */
static int64_t elements_copied(const IrBlock *region) {
    int64_t count = 0;
    for (const IrOp *op = region->first; op; op = op->next) {
        count += op->opcode == IR_ASYNC_COPY && ir_attr_int(op, "bytes", 0) == ELEMENT;
        if (op->opcode == IR_MAP) count += lanes_of(op) * elements_copied(op->regions[0]);
    }
    return count;
}

/* The region in which all threads copy many single elements for a loop that multiplies. Each has an address in global memory and one in
 * shared memory; LLVM would carry them all from iteration to iteration, three registers each beside the sums, and add to each of them. */
static bool issues_elements(const IrBlock *region) {
    const IrOp *loop = HIDE_ELEMENTS && elements_copied(region) > MANY ? loop_around(region) : NULL;
    return loop && multiplies(loop->regions[0], false);
}

static bool is_hidden(const PtxHidden *hidden, const IrValue *v) {
    for (size_t i = 0; i < hidden->len; i++)
        if (hidden->data[i].value == v) return true;
    return false;
}

static bool is_of(const IrBlock *block, const IrValue *v) {
    for (unsigned i = 0; i < block->arg_count; i++)
        if (block->args[i] == v) return true;
    return v->def && v->def->block == block;
}

/* Made in the region or one within it that holds `block`? */
static bool is_inside(const IrBlock *region, const IrBlock *block, const IrValue *v) {
    for (; block != region; block = block->parent->block)
        if (is_of(block, v)) return true;
    return is_of(region, v);
}

static void hide(Ptx *p, const IrValue *v, PtxHidden *hidden) {
    LLVMValueRef x = ptx_use(p, v);
    if (LLVMIsConstant(x)) return;
    VEC_PUSH(p->arena, hidden, ((PtxHiding){v, x}));
    ptx_bind(p, v, ptx_asm(p, LLVMTypeOf(x), 1, &x, "mov.b64 $0, $1;", "=l,l", true));
}

static void hide_in(Ptx *p, const IrBlock *region, const IrBlock *block, bool deep, PtxHidden *hidden) {
    for (const IrOp *op = block->first; op; op = op->next) {
        for (unsigned i = 0; i < op->operand_count; i++) {
            const IrValue *v = op->operands[i];
            if (v->type->is_index && !is_inside(region, block, v) && !is_hidden(hidden, v)) hide(p, v, hidden);
        }
        for (unsigned r = 0; deep && r < op->region_count; r++) hide_in(p, region, op->regions[r], deep, hidden);
    }
}

void ptx_hide_indices(Ptx *p, const IrBlock *region, PtxHidden *hidden) {
    bool elements = issues_elements(region);
    if (elements || issues_boxes(region)) hide_in(p, region, region, elements, hidden);
}

void ptx_show_indices(Ptx *p, const PtxHidden *hidden) {
    for (size_t i = hidden->len; i-- > 0;) ptx_bind(p, hidden->data[i].value, hidden->data[i].outside);
}
