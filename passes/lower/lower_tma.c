/* Buffers that the copy engine fills: its copies and barriers, and products of warpgroups from there. */
#include "analysis/analysis.h"
#include "analysis/gemm_plan.h"
#include "lower_internal.h"

#include <string.h>

enum {
    BOX_ALIGN = 1024, /* bytes: 8 rows of 128 (PTX ISA, swizzling modes) */
    ATOM_ROWS = 8,    /* rows that a swizzle repeats after */
    STEP_BYTES = 32   /* of a factor along k, an instruction */
};

/* A buffer cut into blocks of columns, one behind the other: rows of `box` bytes. */
typedef struct {
    IrValue *shared;
    Dtype dtype;
    int64_t rows, columns, box, stage; /* box: bytes; stage: elements */
} Boxes;

static Boxes boxes_of(Lower *x, const IrValue *buf) {
    const IrType *t = buf->type;
    Boxes b = {.dtype = t->dtype, .rows = ir_type_extent(t, 0), .columns = ir_type_extent(t, 1)};
    b.box = ir_attr_int(buf->def, "tma", 0);
    b.stage = b.rows * b.columns;
    Rep *rep = lower_rep(x, (IrValue *)(uintptr_t)buf);
    b.shared = rep ? rep->value : NULL;
    return b;
}

static int64_t size_of(const Boxes *b) {
    return (int64_t)dtype_size(b->dtype);
}

void lower_box_alloc(Lower *x, IrOp *op) {
    Boxes b = boxes_of(x, &op->results[0]);
    const char *name = ir_attr_str(op, "name", "buffer");
    int64_t elements = b.stage * op->results[0].type->stages;
    lower_bind_scalar(x, &op->results[0], lower_shared_aligned(x, b.dtype, elements, BOX_ALIGN, name));
}

/* ---- One thread of the block ---- */

static bool only_pure_behind(const IrOp *op) {
    for (op = op->next; op; op = op->next)
        if (!ir_has_trait(op, IR_PURE)) return false;
    return true;
}

/* Where code of one thread goes: on in the `if` before, when nothing but arithmetic stands between. */
static IrBuilder elected(Lower *x) {
    IrOp *branch = x->elected;
    if (branch && branch->block == x->b.block && !x->b.before && only_pure_behind(branch)) {
        ir_op_erase(branch->regions[0]->last);
        ir_op_move_to_end(branch, x->b.block);
    } else {
        IrValue *first = ir_binary(&x->b, IR_EQ, lower_thread(x), ir_const_index(&x->b, 0));
        branch = x->elected = ir_op_create(&x->b, IR_IF, 1, &first, 0, NULL);
    }
    IrBuilder inner = ir_builder_at_end(branch->regions[0]);
    inner.span = x->b.span;
    return inner;
}

/* ---- Barriers ---- */

static void init_barriers(Lower *x, IrOp *op) {
    int64_t stages = op->results[0].type->stages;
    IrValue *shared = lower_shared(x, DTYPE_U64, stages, ir_attr_str(op, "name", "full"));
    lower_bind_scalar(x, &op->results[0], shared);
    IrBuilder b = elected(x);
    for (int64_t i = 0; i < stages; i++) {
        IrValue *operands[2] = {shared, ir_const_index(&b, i)};
        ir_attr_set_int(ir_op_create(&b, IR_MBAR_INIT, 2, operands, 0, NULL), "arrivals", ir_attr_int(op, "arrivals", 1));
    }
    ir_yield(&b, 0, NULL);
}

static void drop_barriers(Lower *x, IrOp *op) {
    IrBuilder b = elected(x);
    for (int64_t i = 0; i < op->operands[0]->type->stages; i++) {
        IrValue *operands[2] = {lower_scalar(x, op->operands[0]), ir_const_index(&b, i)};
        ir_op_create(&b, IR_MBAR_DROP, 2, operands, 0, NULL);
    }
    ir_yield(&b, 0, NULL);
}

static void expect_bytes(Lower *x, IrOp *op) {
    IrBuilder b = elected(x);
    IrValue *operands[2] = {lower_scalar(x, op->operands[0]), lower_scalar(x, op->operands[1])};
    ir_attr_set_int(ir_op_create(&b, IR_MBAR_EXPECT, 2, operands, 0, NULL), "bytes", ir_attr_int(op, "bytes", 0));
    ir_yield(&b, 0, NULL);
}

static void wait_phase(Lower *x, IrOp *op) {
    IrValue *operands[3];
    for (unsigned i = 0; i < 3; i++) operands[i] = lower_scalar(x, op->operands[i]);
    if (!ir_attr_bool(op, "one")) {
        ir_op_create(&x->b, IR_MBAR_WAIT, 3, operands, 0, NULL);
        return;
    }
    IrBuilder b = elected(x);
    ir_op_create(&b, IR_MBAR_WAIT, 3, operands, 0, NULL);
    ir_yield(&b, 0, NULL);
}

/* The first lane of each warp. */
static void arrive(Lower *x, IrOp *op) {
    IrValue *operands[2] = {lower_scalar(x, op->operands[0]), lower_scalar(x, op->operands[1])};
    IrValue *first = ir_binary(&x->b, IR_EQ, lower_lane(x), ir_const_index(&x->b, 0));
    IrBuilder b = ir_builder_at_end(ir_op_create(&x->b, IR_IF, 1, &first, 0, NULL)->regions[0]);
    b.span = x->b.span;
    ir_op_create(&b, IR_MBAR_ARRIVE, 2, operands, 0, NULL);
    ir_yield(&b, 0, NULL);
}

/* ---- Copies ---- */

static const IrParam *param_called(const IrFunc *f, const char *name) {
    for (unsigned i = 0; i < f->param_count; i++)
        if (strcmp(f->params[i].name, name) == 0) return &f->params[i];
    return NULL;
}

/* The function's parameter for that map; its name says all of the recipe, so that kernels share them. */
static IrValue *map_param(Lower *x, IrTensorMap map, const IrType *tensor) {
    Str name;
    str_init(&name);
    str_printf(&name, "%s_box", map.tensor);
    for (unsigned i = 0; i < map.rank; i++) str_printf(&name, "%s%lld", i ? "x" : "", (long long)map.box[i]);
    if (map.tf32) str_append(&name, "_tf32");
    if (map.joined) str_printf(&name, "_joined%u", map.joined);
    const IrParam *taken;
    while ((taken = param_called(x->to, name.data)) && taken->kind != IR_PARAM_MAP) str_append_char(&name, '_');
    IrValue *value = taken ? x->to->body->args[taken - x->to->params] : NULL;
    if (!value) {
        const IrType *type = ir_type_ptr(x->module, tensor->dtype, IR_SPACE_MAP);
        value = ir_func_add_param(x->to, IR_PARAM_MAP, name.data, type, IR_DIR_IN);
        x->to->params[x->to->param_count - 1].map = map;
        IrParam *of = &x->to->params[param_called(x->to, map.tensor) - x->to->params];
        if (!of->type) of->type = tensor; /* a workspace's shape */
    }
    str_release(&name);
    return value;
}

static void copy_boxes(Lower *x, IrOp *op) {
    Boxes to = boxes_of(x, op->operands[1]);
    IrSlice slice = ir_slice(op);
    IrValue *tensor = memory_of(op->operands[0]); /* of a view that joins rows */
    IrTensorMap map = {.tensor = tensor->name, .rank = slice.rank, .swizzle = (unsigned)to.box, .tf32 = ir_attr_bool(op, "tf32")};
    map.joined = (unsigned)view_joins_rows(x->module, op->operands[0]);
    IrValue *operands[5 + IR_MAP_RANK], **at = operands + 5;
    int64_t across = to.box / size_of(&to);
    for (unsigned a = 0; a < slice.rank; a++) {
        at[a] = lower_scalar(x, op->operands[slice.axes[a].operand]);
        map.box[a] = slice.axes[a].letter == IR_LETTER_POINT ? 1 : slice.axes[a].axis == 0 ? to.rows : across;
    }
    operands[0] = map_param(x, map, tensor->type);
    operands[1] = to.shared;
    operands[3] = lower_scalar(x, op->operands[3]);
    operands[4] = lower_scalar(x, op->operands[4]);
    IrValue *stage = lower_scalar(x, op->operands[2]),
            *column = at[slice.rank - 1]; /* NOLINT(*ArrayBound): a tensor that has a map has an axis */
    IrBuilder b = elected(x);
    IrValue *place = index_mul_const(&b, stage, to.stage);
    for (int64_t c = 0; c < to.columns; c += across) {
        operands[2] = c ? ir_binary(&b, IR_ADD, place, ir_const_index(&b, c * to.rows)) : place;
        at[slice.rank - 1] = c ? ir_binary(&b, IR_ADD, column, ir_const_index(&b, c)) : column;
        ir_op_create(&b, IR_TMA_LOAD, 5 + slice.rank, operands, 0, NULL);
    }
    ir_yield(&b, 0, NULL);
}

/* ---- Products ---- */

/* A factor: where the warpgroup's rows begin in its stage, and how the instruction finds its way from there. */
typedef struct {
    Boxes boxes;
    IrValue *place; /* null: the factor is a fragment */
    bool across;    /* k runs across the rows as they are stored */
    int64_t lead;
} Factor;

/* Elements from the stage's begin to row or column `first` (a multiple of a block's) of the product. */
static IrValue *along_offset(IrBuilder *b, const Factor *f, IrValue *first) {
    int64_t across = f->boxes.box / size_of(&f->boxes);
    if (!f->across) return index_mul_const(b, first, across); /* further down in each block */
    return index_mul_const(b, first, f->boxes.rows);          /* whole blocks */
}

/* Elements from there to depth k; of a fragment, a thread's. */
static int64_t depth_offset(const Factor *f, int64_t k) {
    if (!f->place) return k / 2;
    int64_t across = f->boxes.box / size_of(&f->boxes);
    return f->across ? k * across : k / across * across * f->boxes.rows + k % across;
}

static Factor factor_of(Lower *x, const IrOp *op, unsigned which) {
    if (is_tile(op->operands[2 * which])) {
        Dist dist = dist_of(op->operands[2 * which]->type);
        Dtype dtype = op->operands[2 * which]->type->dtype;
        return (Factor){.boxes = {.shared = rep_materialise(x, lower_rep(x, op->operands[2 * which]), &dist, dtype), .dtype = dtype}};
    }
    bool trans = ir_attr_bool(op, which ? "trans_b" : "trans_a");
    Factor f = {.boxes = boxes_of(x, op->operands[2 * which]), .across = trans ^ (which == 1)};
    f.lead = f.across ? f.boxes.rows * f.boxes.box : 0;
    f.place = index_mul_const(&x->b, lower_scalar(x, op->operands[2 * which + 1]), f.boxes.stage);
    return f;
}

/* The first row of this warpgroup's. */
static IrValue *first_row(Lower *x, const Dist *acc) {
    Dist groups = {.rank = acc->rank};
    for (unsigned i = 0; i < acc->term_count; i++) {
        DistTerm t = acc->terms[i];
        if (t.source != DIST_WARP) continue;
        int64_t below = t.shift < 2 ? (1 << (2 - t.shift)) - 1 : 0; /* a warp's place in its group */
        if (!(t.mask & ~below)) continue;
        int64_t bits = t.shift < 2 ? 2 - t.shift : 0;
        groups.terms[groups.term_count++] = (DistTerm){DIST_WARP, t.shift + (unsigned)bits, t.mask >> bits, t.axis, t.stride << bits};
    }
    return dist_base(x, &groups, 0);
}

static bool is_zero(const IrValue *v) {
    const IrAttr *value = v->def && v->def->opcode == IR_CONST ? ir_attr(v->def, "value") : NULL;
    if (v->def && v->def->opcode == IR_TILE_BROADCAST) return is_zero(v->def->operands[0]);
    return value && (value->kind == IR_ATTR_FLOAT ? value->number == 0 : value->kind == IR_ATTR_INT && value->integer == 0);
}

void lower_box_gemm(Lower *x, IrOp *op) {
    GemmPlan plan = gemm_plan_get(op);
    Dist dist = dist_of(op->results[0].type);
    const IrType *type = dist_frag_type(x->module, &dist, op->results[0].type->dtype);
    bool fresh = is_zero(op->operands[4]) && plan.pad_k;
    IrValue *acc = fresh ? NULL : rep_materialise(x, lower_rep(x, op->operands[4]), &dist, op->results[0].type->dtype);
    Factor f[2] = {factor_of(x, op, 0), factor_of(x, op, 1)};
    IrValue *row = first_row(x, &dist);
    if (row && f[0].place) f[0].place = index_add(&x->b, f[0].place, along_offset(&x->b, &f[0], row));
    ir_op_create(&x->b, IR_WGMMA_FENCE, 0, NULL, 0, NULL);
    int64_t depth = STEP_BYTES / size_of(&f[0].boxes);
    for (int64_t k = 0; k < plan.pad_k; k += depth) {
        IrValue *operands[5] = {f[0].boxes.shared, NULL, f[1].boxes.shared, NULL, acc};
        for (unsigned i = 0; i < 2; i++) {
            int64_t offset = depth_offset(&f[i], k);
            IrValue *way = offset || !f[i].place ? ir_const_index(&x->b, offset) : NULL;
            operands[2 * i + 1] = !f[i].place ? way : way ? ir_binary(&x->b, IR_ADD, f[i].place, way) : f[i].place;
        }
        IrOp *product = ir_op_create(&x->b, IR_WGMMA, acc ? 5 : 4, operands, 1, &type);
        ir_attr_set_ints(product, "swizzle", 2, (int64_t[]){f[0].boxes.box, f[1].boxes.box});
        ir_attr_set_ints(product, "lead", 2, (int64_t[]){f[0].lead, f[1].lead});
        if (f[0].across) ir_attr_set_bool(product, "trans_a", true);
        if (f[1].across) ir_attr_set_bool(product, "trans_b", true);
        acc = ir_result(product, 0);
    }
    ir_op_create(&x->b, IR_WGMMA_COMMIT, 0, NULL, 0, NULL);
    lower_bind_frag(x, &op->results[0], acc, &dist);
}

static void wait_product(Lower *x, IrOp *op) {
    Dist dist = dist_of(op->results[0].type);
    IrValue *acc = rep_materialise(x, lower_rep(x, op->operands[0]), &dist, op->results[0].type->dtype);
    IrOp *wait = ir_op_create(&x->b, IR_WGMMA_WAIT, 1, &acc, 1, &acc->type);
    ir_attr_set_int(wait, "pending", ir_attr_int(op, "pending", 0));
    if (ir_attr_bool(op, "done")) ir_attr_set_bool(wait, "done", true);
    lower_bind_frag(x, &op->results[0], ir_result(wait, 0), &dist);
}

void lower_box_op(Lower *x, IrOp *op) {
    switch (op->opcode) {
    case IR_MBAR_ALLOC:
        init_barriers(x, op);
        return;
    case IR_MBAR_DROP:
        drop_barriers(x, op);
        return;
    case IR_MBAR_EXPECT:
        expect_bytes(x, op);
        return;
    case IR_MBAR_WAIT:
        wait_phase(x, op);
        return;
    case IR_MBAR_ARRIVE:
        arrive(x, op);
        return;
    case IR_TMA_COPY:
        copy_boxes(x, op);
        return;
    default:
        wait_product(x, op);
        return;
    }
}
