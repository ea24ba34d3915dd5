#include "emit_internal.h"

#include "wgmma.h"

#include <stdlib.h>
#include <string.h>

static const AtomInfo atoms[IR_ATOM_COUNT] = {
#define ATOM(id, name, results, operands, ptx, is_volatile, version, summary)                                                              \
    [IR_ATOM_##id] = {name, results, operands, ptx, is_volatile, version},
#include "atoms.def"
#undef ATOM
};

const AtomInfo *atom_of(const IrOp *op) {
    const AtomInfo *atom = &atoms[op->opcode == IR_ATOM ? ir_op_atom(op) : IR_ATOM_NONE];
    return atom->name ? atom : NULL;
}

bool atom_next_class(const char **text, AtomClass *cls) {
    const char *s = *text;
    while (*s == ' ') s++;
    if (!*s) return false;
    *cls = (AtomClass){.count = 1};
    if (*s == 'v') {
        char *end;
        cls->count = (unsigned)strtoul(s + 1, &end, 10);
        cls->vector = true;
        s = end + 1; /* the dot */
    }
    char word[16];
    size_t n = 0;
    while (*s && *s != ' ' && n + 1 < sizeof word) word[n++] = *s++;
    word[n] = 0;
    if (strcmp(word, "shared") == 0)
        cls->shared = true;
    else if (strcmp(word, "map") == 0)
        cls->map = true, cls->dtype = DTYPE_U64;
    else if (!dtype_find(word, &cls->dtype))
        return false;
    *text = s;
    return true;
}

/* ---- Ops that are one instruction ---- */

static const struct {
    IrOpcode opcode;
    unsigned axes;
    bool cluster;
    AtomInfo info;
} asyncs[] = {
#define BLOCK false, ""
#define CLUSTER true, "_CLUSTER"
#define ROW(op, axes, cluster, suffix, operands, ptx) {IR_##op, axes, cluster, {#op suffix, "", operands, ptx, true, 0}},
#define ASYNC(op, axes, reach, operands, ptx) ROW(op, axes, reach, operands, ptx)
#include "async.def"
#undef ASYNC
#undef ROW
#undef CLUSTER
#undef BLOCK
};

static bool reaches_cluster(const IrOp *op) {
    return ir_attr_bool(op, "multicast") || (op->opcode == IR_MBAR_ARRIVE && op->operand_count == 3);
}

const AtomInfo *async_find(const IrOp *op) {
    unsigned axes = op->opcode == IR_TMA_LOAD ? op->operand_count - 5 : 0;
    for (size_t i = 0; i < COUNT_OF(asyncs); i++)
        if (asyncs[i].opcode == op->opcode && asyncs[i].axes == axes && asyncs[i].cluster == reaches_cluster(op)) return &asyncs[i].info;
    return NULL;
}

bool async_attribute(const IrOp *op, int64_t *value) {
    if (op->opcode == IR_TMA_LOAD && ir_attr_bool(op, "multicast")) {
        *value = (INT64_C(1) << ir_func_cluster(op->block->func)) - 1; /* all of the cluster's blocks */
        return true;
    }
    const char *key = op->opcode == IR_MBAR_INIT ? "arrivals" : op->opcode == IR_MBAR_EXPECT ? "bytes" : NULL;
    if (key) *value = ir_attr_int(op, key, 0);
    return key;
}

/* ---- wgmma ---- */

WgmmaForm wgmma_form(const IrOp *op) {
    const IrType *acc = op->results[0].type;
    WgmmaForm form = {.wait = op->opcode == IR_WGMMA_WAIT, .registers = 1, .acc = acc->dtype};
    for (unsigned i = 0; i < acc->rank; i++) form.registers *= (unsigned)ir_type_extent(acc, i);
    form.pending = (unsigned)ir_attr_int(op, "pending", 0);
    if (form.wait && form.pending && !ir_attr_bool(op, "done")) form.registers = 0; /* what is in flight may not be touched */
    if (form.wait) return form;
    form.fresh = op->operand_count == 4;
    form.factors = op->operands[0]->type->dtype;
    if (op->operands[0]->type->kind == IR_TYPE_FRAG) form.words = 4;
    form.trans[0] = ir_attr_bool(op, "trans_a");
    form.trans[1] = ir_attr_bool(op, "trans_b");
    return form;
}

const IrOp *wgmma_next_of_registers(const IrOp *op) {
    for (op = op->next; op && op->opcode != IR_WGMMA_COMMIT; op = op->next)
        if (op->opcode == IR_WGMMA && op->operands[0]->type->kind == IR_TYPE_FRAG) return op;
    return NULL;
}

const char *wgmma_name(Arena *arena, WgmmaForm form) {
    if (form.wait && !form.registers) return arena_printf(arena, "wgmma_wait_%u", form.pending);
    const char *acc = dtype_name(form.acc);
    if (form.wait && form.pending) return arena_printf(arena, "wgmma_wait_%u_%u_%s", form.pending, form.registers, acc);
    if (form.wait) return arena_printf(arena, "wgmma_wait_all_%u_%s", form.registers, acc);
    return arena_printf(arena, "wgmma_%sm64n%uk%u_%s_%s%s%s%s", form.fresh ? "new_" : "", 2 * form.registers,
                        wgmma_find(form.factors, form.acc)->depth, acc, dtype_name(form.factors), form.words ? "_ra" : "",
                        form.trans[0] ? "_ta" : "", form.trans[1] ? "_tb" : "");
}

const char *wgmma_text(Arena *arena, WgmmaForm form, char mark, unsigned factors) {
    Str s;
    str_init(&s);
    if (form.wait) {
        str_printf(&s, "wgmma.wait_group.sync.aligned %u;", form.pending);
    } else {
        const Wgmma *kind = wgmma_find(form.factors, form.acc);
        str_printf(&s, "wgmma.mma_async.sync.aligned.m64n%uk%u.%s {", 2 * form.registers, kind->depth, kind->types);
        for (unsigned i = 0; i < form.registers; i++) str_printf(&s, "%s%c%u", i ? "," : "", mark, i);
        str_append(&s, form.words ? "}, {" : "}, ");
        for (unsigned i = 0; i < form.words; i++) str_printf(&s, "%s%c%u", i ? "," : "", mark, factors + i);
        if (form.words)
            str_printf(&s, "}, %c%u, %d", mark, factors + form.words, !form.fresh);
        else
            str_printf(&s, "%c%u, %c%u, %d", mark, factors, mark, factors + 1, !form.fresh);
        if (dtype_is_float(form.acc)) str_append(&s, ", 1, 1"); /* signs of the factors */
        if (!kind->k_major && !form.words) str_printf(&s, ", %d", form.trans[0]);
        if (!kind->k_major) str_printf(&s, ", %d", form.trans[1]);
        str_append(&s, ";");
    }
    const char *text = arena_strdup(arena, s.data);
    str_release(&s);
    return text;
}

/* PTX ISA, "Matrix descriptor": all lengths in 16 bytes; eight rows make a pattern. */
uint64_t wgmma_descriptor(const IrOp *op, unsigned which) {
    enum { LEAD = 16, STRIDE = 32, MODE = 62, ROWS = 8 };
    uint64_t swizzle = (uint64_t)ir_attr(op, "swizzle")->ints[which], lead = (uint64_t)ir_attr(op, "lead")->ints[which];
    uint64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
    return lead / 16 << LEAD | swizzle * ROWS / 16 << STRIDE | mode << MODE;
}

/* The remainder of a division by a positive number is never negative here; neither are sums and products of what is not. */
static bool is_offset_not_negative(const IrValue *v) {
    const IrOp *op = v->def;
    if (!op) return false;
    switch (op->opcode) {
    case IR_CONST:
        return ir_attr_int(op, "value", -1) >= 0;
    case IR_MOD:
        return op->operands[1]->def && op->operands[1]->def->opcode == IR_CONST && ir_attr_int(op->operands[1]->def, "value", 0) > 0;
    case IR_ADD:
    case IR_MUL:
        return is_offset_not_negative(op->operands[0]) && is_offset_not_negative(op->operands[1]);
    default:
        return false;
    }
}

const IrValue *wgmma_offset(const IrOp *op, unsigned which, uint64_t *descriptor) {
    enum { UNIT = 16 /* bytes */ };
    const IrValue *offset = op->operands[2 * which + 1];
    int64_t size = (int64_t)dtype_size(op->operands[2 * which]->type->dtype);
    while (offset->def && offset->def->opcode == IR_ADD) {
        const IrOp *sum = offset->def, *fixed = sum->operands[1]->def;
        int64_t bytes = fixed && fixed->opcode == IR_CONST ? ir_attr_int(fixed, "value", 0) * size : 0;
        if (bytes <= 0 || bytes % UNIT || !is_offset_not_negative(sum->operands[0])) break;
        *descriptor += (uint64_t)(bytes / UNIT);
        offset = sum->operands[0];
    }
    return offset;
}

static void widest_align(const IrBlock *block, int64_t *align) {
    for (const IrOp *op = block->first; op; op = op->next) {
        int64_t own = op->opcode == IR_SHARED_PTR ? ir_attr_int(op, "align", 0) : 0;
        if (own > *align) *align = own;
        for (unsigned r = 0; r < op->region_count; r++) widest_align(op->regions[r], align);
    }
}

int64_t plan_shared_align(const IrPlan *plan) {
    int64_t align = 128;
    for (size_t i = 0; i < plan->func_count; i++) widest_align(plan->funcs[i]->body, &align);
    return align;
}
