/* Decodes a function into instructions over slots, with all storage laid out: extents are over
 * symbols, so every size is known before the run. */
#include "interpret_internal.h"

#include <string.h>

typedef struct {
    const IrValue *value;
    Slot *slot;
} Entry;

typedef struct {
    Machine *m;
    size_t capacity, count; /* an open-addressing table of values */
    Entry *table;
    VEC(struct Storage {
        unsigned id;
        size_t cells;
        Cell *data;
    })
    storages;
} Decode;

static Entry *find_entry(Decode *d, const IrValue *value) {
    size_t at = ((uintptr_t)value >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 20;
    for (at %= d->capacity; d->table[at].value && d->table[at].value != value;) at = (at + 1) % d->capacity;
    return &d->table[at];
}

static void remember(Decode *d, const IrValue *value, Slot *slot) {
    if (d->count * 2 >= d->capacity) {
        Decode old = *d;
        d->capacity = old.capacity ? old.capacity * 2 : 256;
        d->table = ARENA_ARRAY(d->m->arena, Entry, d->capacity);
        for (size_t i = 0; i < old.capacity; i++)
            if (old.table[i].value) *find_entry(d, old.table[i].value) = old.table[i];
    }
    *find_entry(d, value) = (Entry){value, slot};
    d->count++;
}

/* Values that the pass `coalesce` gave one storage share their cells here too, so that a wrong
 * sharing shows. */
static Cell *storage_for(Decode *d, const IrValue *value, size_t cells) {
    for (size_t i = 0; value->storage && i < d->storages.len; i++)
        if (d->storages.data[i].id == value->storage && d->storages.data[i].cells == cells) return d->storages.data[i].data;
    Cell *data = ARENA_ARRAY(d->m->arena, Cell, cells + 1);
    if (value->storage) VEC_PUSH(d->m->arena, &d->storages, (struct Storage){value->storage, cells, data});
    return data;
}

static int64_t extent_of(Machine *m, const Aff *e) {
    int64_t extent;
    if (!sizes_eval(m->sizes, e, &extent) || extent < 0) machine_trap(m, "an extent has no value at these sizes");
    return extent;
}

static void set_strides(Machine *m, Slot *s) {
    int64_t stride = 1;
    for (unsigned i = s->rank; i-- > 0; stride *= s->extents[i])
        s->strides[i] = s->type->strides ? extent_of(m, s->type->strides[i]) : stride;
}

static Slot *new_slot(Decode *d, const IrValue *value) {
    const IrType *type = value->type;
    Slot *s = ARENA_NEW(d->m->arena, Slot);
    *s = (Slot){.type = type, .dtype = type->dtype, .n = 1, .is_tile = type->kind == IR_TYPE_TILE};
    if (type->kind == IR_TYPE_SCALAR) {
        s->n = type->width ? type->width : 1;
        if (type->is_index) s->dtype = DTYPE_I64;
    }
    s->is_real = dtype_is_float(s->dtype);
    bool ranked = s->is_tile || type->kind == IR_TYPE_TENSOR || type->kind == IR_TYPE_BUF || type->kind == IR_TYPE_FRAG;
    s->rank = ranked ? type->rank : 0;
    if (s->rank > SLOT_RANK) machine_trap(d->m, "a value has too many axes");
    int64_t cells = 1;
    for (unsigned i = 0; i < s->rank; i++) {
        s->hi[i] = s->extents[i] = extent_of(d->m, type->extents[i]);
        if (__builtin_mul_overflow(cells, s->extents[i], &cells) || cells > (int64_t)1 << 40)
            machine_trap(d->m, "a value is too large to interpret");
    }
    if (type->kind == IR_TYPE_TENSOR) set_strides(d->m, s);
    bool holds = s->is_tile || type->kind == IR_TYPE_FRAG;
    if (holds) s->n = (size_t)cells;
    bool no_cells = type->kind == IR_TYPE_TENSOR || type->kind == IR_TYPE_BUF ||
                    (type->kind == IR_TYPE_PTR && type->space != IR_SPACE_CLUSTER) || type->kind == IR_TYPE_TOKEN;
    if (!no_cells) s->cells = storage_for(d, value, d->m->threads * s->n);
    remember(d, value, s);
    return s;
}

/* Memory that an op itself stands for: staged buffers, pointers into shared memory. */
static void make_memory(Decode *d, Inst *inst) {
    Machine *m = d->m;
    Slot *r = inst->results[0];
    if (inst->op->opcode == IR_SHARED_PTR) {
        int64_t offset = ir_attr_int(inst->op, "offset", 0);
        int64_t end = offset + ir_attr_int(inst->op, "bytes", 0);
        r->memory = &m->shared;
        r->offset = offset;
        if (end > m->shared.bytes) m->shared.bytes = end;
        return;
    }
    int64_t count = r->type->stages ? r->type->stages : 1;
    for (unsigned i = 0; i < r->rank; i++) count *= r->extents[i];
    r->memory = ARENA_NEW(m->arena, Memory);
    *r->memory = (Memory){.name = ir_attr_str(inst->op, "name", "buffer"), .bytes = count * (int64_t)dtype_size(r->dtype)};
    r->memory->data = arena_alloc(m->arena, (size_t)r->memory->bytes + 16);
    poison_fill(r->dtype, r->memory->data, (size_t)r->memory->bytes);
}

static void decode_constant(Inst *inst) {
    const IrAttr *value = ir_attr(inst->op, "value");
    const Slot *r = inst->results[0];
    bool number = value->kind == IR_ATTR_FLOAT;
    Cell cell = {.i = number ? (int64_t)value->number : value->integer};
    if (r->is_real) cell.f = number ? value->number : (double)value->integer;
    inst->integers[0] = cell_round(r, cell).i;
}

static Code *decode_block(Decode *d, const IrBlock *block);

static void decode_regions(Decode *d, Inst *inst) {
    Machine *m = d->m;
    size_t carried = 0;
    for (unsigned i = 0; i < inst->op->region_count; i++) {
        inst->regions[i] = decode_block(d, inst->op->regions[i]);
        inst->masks[i] = ARENA_ARRAY(m->arena, uint8_t, m->threads);
    }
    for (unsigned i = 0; i < inst->op->result_count; i++) carried += m->threads * inst->results[i]->n;
    if (inst->op->opcode == IR_FOR) inst->carry = ARENA_ARRAY(m->arena, Cell, carried + 1);
}

static void decode_inst(Decode *d, Inst *inst, const IrOp *op) {
    Machine *m = d->m;
    *inst = (Inst){.op = op, .run = interpret_op(op->opcode)};
    m->at = op;
    if (!inst->run) machine_trap(m, "the op has no meaning here");
    inst->operands = ARENA_ARRAY(m->arena, Slot *, op->operand_count + 1);
    inst->results = ARENA_ARRAY(m->arena, Slot *, op->result_count + 1);
    for (unsigned i = 0; i < op->operand_count; i++) {
        inst->operands[i] = find_entry(d, op->operands[i])->slot;
        if (!inst->operands[i]) machine_trap(m, "operand %u is not defined before its use", i);
    }
    for (unsigned i = 0; i < op->result_count; i++) inst->results[i] = new_slot(d, &op->results[i]);
    if (op->opcode == IR_SPECIAL) inst->integers[0] = ir_attr_bool(op, "backwards");
    if (op->opcode == IR_CONST) decode_constant(inst);
    if (op->opcode == IR_SHARED_PTR || op->opcode == IR_BUF_ALLOC || op->opcode == IR_MBAR_ALLOC) make_memory(d, inst);
    if (op->region_count) decode_regions(d, inst);
}

static Code *decode_block(Decode *d, const IrBlock *block) {
    Code *code = ARENA_NEW(d->m->arena, Code);
    if (!block) return code;
    code->arg_count = block->arg_count;
    code->args = ARENA_ARRAY(d->m->arena, Slot *, block->arg_count + 1);
    for (unsigned i = 0; i < block->arg_count; i++) code->args[i] = new_slot(d, block->args[i]);
    size_t count = 0;
    for (const IrOp *op = block->first; op; op = op->next) count++;
    code->insts = ARENA_ARRAY(d->m->arena, Inst, count + 1);
    for (const IrOp *op = block->first; op; op = op->next) decode_inst(d, &code->insts[code->count++], op);
    return code;
}

static int64_t symbol_value(Machine *m, const char *name) {
    for (size_t i = 0; i < m->sizes->count; i++)
        if (strcmp(m->sizes->values[i].name, name) == 0) return m->sizes->values[i].value;
    machine_trap(m, "the symbol %s has no value", name);
}

static void bind_param(Machine *m, Slot *s, unsigned i, Memory *memory, double scalar) {
    const IrParam *param = &m->f->params[i];
    if (param->kind == IR_PARAM_TENSOR || param->kind == IR_PARAM_WORKSPACE || param->kind == IR_PARAM_MAP) {
        s->memory = memory;
        return;
    }
    Cell value = {.i = 0};
    if (param->kind == IR_PARAM_SYMBOL)
        value.i = symbol_value(m, param->name);
    else if (s->is_real)
        value.f = scalar;
    else
        value.i = (int64_t)scalar;
    for (size_t t = 0; t < m->threads; t++) s->cells[t] = cell_round(s, value);
}

Code *interpret_decode(Machine *m, Memory *const *memories, const double *scalars) {
    Decode d = {.m = m};
    d.capacity = 0;
    remember(&d, (const IrValue *)&d, NULL); /* makes the table */
    Code *code = decode_block(&d, m->f->body);
    for (unsigned i = 0; i < code->arg_count; i++) {
        unsigned of = i; /* a map's memory is its tensor's */
        for (unsigned t = 0; m->f->params[i].kind == IR_PARAM_MAP && t < i; t++)
            if (strcmp(m->f->params[t].name, m->f->params[i].map.tensor) == 0) of = t;
        bind_param(m, code->args[i], i, memories[of], scalars[i]);
    }
    return code;
}
