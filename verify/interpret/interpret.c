#include "interpret_internal.h"
#include "plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void machine_trap(Machine *m, const char *format, ...) {
    Str text;
    va_list args;
    str_init(&text);
    str_printf(&text, "@%s", m->f->name);
    if (m->at) str_printf(&text, ", %s", ir_op_info(m->at->opcode)->name);
    if (m->at && m->at->result_count && m->at->results[0].name) str_printf(&text, " %%%s", m->at->results[0].name);
    str_append(&text, ": ");
    va_start(args, format);
    str_vprintf(&text, format, args);
    va_end(args);
    m->error = arena_strdup(m->arena, text.data);
    str_release(&text);
    longjmp(m->trap, 1);
}

void slot_copy(const Machine *m, Slot *to, const Slot *from, const uint8_t *active) {
    for (size_t t = 0; t < m->threads && to->cells && to->cells != from->cells; t++)
        if (active[t]) memcpy(&to->cells[t * to->n], &from->cells[t * from->n], to->n * sizeof(Cell));
    memcpy(to->lo, from->lo, sizeof to->lo);
    memcpy(to->hi, from->hi, sizeof to->hi);
    to->memory = to->memory ? to->memory : from->memory;
}

InstRun interpret_op(IrOpcode op) {
    static InstRun (*const tables[])(IrOpcode) = {interpret_lanes_op, interpret_control_op, interpret_tile_op, interpret_axes_op,
                                                  interpret_slice_op, interpret_memory_op,  interpret_warp_op, interpret_async_op};
    for (size_t i = 0; i < COUNT_OF(tables); i++) {
        InstRun run = tables[i](op);
        if (run) return run;
    }
    return NULL;
}

void run_code(Machine *m, const Code *code, const uint8_t *active) {
    for (size_t i = 0; i < code->count; i++) {
        Inst *inst = &code->insts[i];
        m->at = inst->op;
        if (m->steps++ >= m->step_limit) machine_trap(m, "the step limit is reached");
        inst->run(m, inst, active);
    }
}

/* ---- Binding ---- */

typedef struct {
    const char *name;
    Memory *memory;
} Workspace;

/* A tensor with strides: the caller's elements, placed in memory of the launch. */
typedef struct {
    const InterpretTensor *tensor;
    Memory *memory;
    Dtype dtype;
    Placement place;
} Placed;

/* One launch: workspaces and placed tensors by name, over all kernels. */
typedef struct {
    Arena *arena;
    const InterpretArgs *args;
    VEC(Workspace) workspaces;
    VEC(Placed) placed;
} Launch;

static void read_placement(Machine *m, const IrType *type, const Memory *from, Placement *place) {
    int64_t strides[VERIFY_MAX_RANK];
    Shape shape;
    bool ok = shape_of(m->sizes, NULL, type, &shape);
    for (unsigned i = 0; ok && i < type->rank; i++) ok = sizes_eval(m->sizes, type->strides[i], &strides[i]);
    if (!ok || !placement_init(place, type->rank, shape.extents, strides))
        machine_trap(m, "the strides of %s have no valid value", from->name);
    if (shape.elements > from->bytes / (int64_t)dtype_size(type->dtype))
        machine_trap(m, "the memory of %s is smaller than the tensor", from->name);
}

static Memory *place_tensor(Launch *l, Machine *m, const IrType *type, const InterpretTensor *tensor, Memory *dense) {
    Placed placed = {.tensor = tensor, .dtype = type->dtype};
    for (size_t i = 0; i < l->placed.len; i++)
        if (l->placed.data[i].tensor == tensor) return l->placed.data[i].memory;
    read_placement(m, type, dense, &placed.place);
    Memory *memory = placed.memory = ARENA_NEW(l->arena, Memory);
    *memory = (Memory){.name = dense->name, .bytes = placed.place.memory * (int64_t)dtype_size(type->dtype)};
    memory->data = arena_alloc(l->arena, (size_t)memory->bytes + 16);
    poison_fill(type->dtype, memory->data, (size_t)memory->bytes);
    placement_spread(&placed.place, dtype_size(type->dtype), dense->data, memory->data);
    VEC_PUSH(l->arena, &l->placed, placed);
    return memory;
}

/* Back to the caller, and whether memory between the elements was left alone. */
static bool return_placed(Launch *l, const char **error) {
    for (size_t i = 0; i < l->placed.len; i++) {
        const Placed *p = &l->placed.data[i];
        placement_collect(&p->place, dtype_size(p->dtype), p->memory->data, p->tensor->data);
        int64_t stray = placement_find_stray(&p->place, p->dtype, 0, p->memory->data);
        if (stray < 0) continue;
        *error = arena_printf(l->arena, "element %lld of the memory of %s, which is none of the tensor's, was written", (long long)stray,
                              p->tensor->name);
        return false;
    }
    return true;
}

static Memory *find_tensor(Launch *l, Machine *m, unsigned param) {
    const IrType *arg = m->f->body->args[param]->type, *type = m->f->params[param].type;
    if (!type) type = arg;
    for (size_t i = 0; i < l->args->tensor_count; i++) {
        const InterpretTensor *tensor = &l->args->tensors[i];
        if (strcmp(tensor->name, m->f->params[param].name) != 0) continue;
        Memory *memory = ARENA_NEW(l->arena, Memory);
        *memory = (Memory){.name = tensor->name, .data = tensor->data, .bytes = (int64_t)tensor->bytes};
        return type->strides ? place_tensor(l, m, type, tensor, memory) : memory;
    }
    return NULL;
}

static Memory *find_workspace(Launch *l, Machine *m, const IrParam *param, Dtype dtype) {
    int64_t elements = 0;
    for (size_t i = 0; i < l->workspaces.len; i++)
        if (strcmp(l->workspaces.data[i].name, param->name) == 0) return l->workspaces.data[i].memory;
    if (!param->elements || !sizes_eval(m->sizes, param->elements, &elements) || elements < 0)
        machine_trap(m, "the workspace %s has no size", param->name);
    Memory *memory = ARENA_NEW(l->arena, Memory);
    *memory = (Memory){.name = param->name, .bytes = elements * (int64_t)dtype_size(dtype)};
    memory->data = arena_alloc(l->arena, (size_t)memory->bytes + 16);
    poison_fill(dtype, memory->data, (size_t)memory->bytes);
    VEC_PUSH(l->arena, &l->workspaces, (Workspace){param->name, memory});
    return memory;
}

static void check_size(Machine *m, const IrValue *arg, const Memory *memory) {
    Shape shape;
    if (arg->type->kind != IR_TYPE_TENSOR || arg->type->strides) return; /* a pointer's accesses are checked */
    if (!shape_of(m->sizes, NULL, arg->type, &shape) || shape.elements > memory->bytes / (int64_t)dtype_size(shape.dtype))
        machine_trap(m, "the memory of %s is smaller than the tensor", memory->name);
}

enum { RACE_LIMIT = 1 << 20 }; /* bytes of a tensor in which races are looked for */

/* Threads of one block may race in global memory too; blocks are not held against each other. */
static void watch(Machine *m, Memory *memory) {
    if (m->threads > 1 && memory->bytes <= RACE_LIMIT)
        memory_watch(m, memory);
    else
        memory->shadow = NULL;
}

static void mark_late(Machine *m, Memory **memories) {
    bool dependent = ir_func_int(m->f, IR_FN_DEPENDENT, 0) != 0;
    for (unsigned i = 0; i < m->f->param_count; i++)
        if (memories[i]) memories[i]->late = dependent && ir_param_is_written_before(m->f, i);
}

static void bind_params(Launch *l, Machine *m, Memory **memories, double *scalars) {
    for (unsigned i = 0; i < m->f->param_count; i++) {
        const IrParam *param = &m->f->params[i];
        const IrValue *arg = m->f->body->args[i];
        if (param->kind == IR_PARAM_TENSOR) {
            memories[i] = find_tensor(l, m, i);
            if (!memories[i]) machine_trap(m, "the tensor %s has no memory", param->name);
            check_size(m, arg, memories[i]);
            watch(m, memories[i]);
        } else if (param->kind == IR_PARAM_WORKSPACE) {
            memories[i] = find_workspace(l, m, param, arg->type->dtype);
            watch(m, memories[i]);
        } else if (param->kind == IR_PARAM_SCALAR) {
            scalars[i] = param->fallback;
            for (size_t k = 0; k < l->args->scalar_count; k++)
                if (strcmp(l->args->scalars[k].name, param->name) == 0) scalars[i] = l->args->scalars[k].value;
            if (isnan(scalars[i])) machine_trap(m, "the scalar %s has no value", param->name);
        }
    }
}

/* ---- Running ---- */

/* Blocks that meet run in lockstep, all of the launch, which may have any number of blocks that is enough: whole meetings, but
 * where they await each other's elements. */
static void gather_meeting(Machine *m) {
    int64_t meeting = 0;
    if (!sizes_eval(m->sizes, ir_func_aff(m->f, IR_FN_MEETING), &meeting)) machine_trap(m, "how many blocks meet has no value");
    if (m->grid[0] > 0 && m->grid[0] < meeting) machine_trap(m, "fewer blocks than are to meet");
    if (meeting > 0 && !ir_func_int(m->f, IR_FN_PIPELINED_CONSUMER, 0)) m->grid[0] -= m->grid[0] % meeting;
    m->blocks = m->grid[0] > 0 ? (size_t)m->grid[0] : 1;
}

static void set_machine(Machine *m) {
    static const IrFuncAff axes[] = {IR_FN_GRID_X, IR_FN_GRID_Y, IR_FN_GRID_Z};
    bool gpu = m->f->level == IR_LEVEL_KERNEL && ir_func_is_cuda(m->f);
    m->block_threads = gpu ? (size_t)ir_func_int(m->f, IR_FN_NUM_WARPS, 1) * WARP : 1;
    m->blocks = gpu ? (size_t)ir_func_cluster(m->f) : 1;
    for (unsigned d = 0; d < 3; d++) {
        const Aff *grid = ir_func_aff(m->f, axes[d]);
        m->grid[d] = 1;
        if (grid && !sizes_eval(m->sizes, grid, &m->grid[d]))
            machine_trap(m, "%s has no value at these sizes", ir_func_attr_info(axes[d])->key);
    }
    if (ir_func_has(m->f, IR_FN_MEETING)) gather_meeting(m);
    m->threads = m->block_threads * m->blocks;
    if (m->grid[0] % (int64_t)m->blocks) machine_trap(m, "the grid is no multiple of its clusters");
    m->block_barriers = ARENA_ARRAY(m->arena, uint32_t, m->blocks);
    m->sent = ARENA_ARRAY(m->arena, int64_t, m->blocks);
    m->group_barriers = ARENA_ARRAY(m->arena, uint32_t, m->threads / WARPGROUP + 1);
    m->warp_barriers = ARENA_ARRAY(m->arena, uint32_t, m->threads / WARP + 1);
    m->behind = ARENA_ARRAY(m->arena, uint32_t, m->threads + 1);
    m->behind_all = ARENA_ARRAY(m->arena, uint32_t, m->threads + 1);
    m->open_group = ARENA_ARRAY(m->arena, int64_t, m->threads);
    m->open_batch = ARENA_ARRAY(m->arena, int64_t, m->threads);
    m->shared.name = "shared memory";
    m->shared.bytes = ir_func_int(m->f, IR_FN_SHARED_BYTES, 0);
}

static void make_shared(Machine *m) {
    m->shared_block = m->shared.bytes;
    m->shared.bytes *= (int64_t)m->blocks;
    size_t bytes = (size_t)m->shared.bytes;
    m->shared.data = arena_alloc(m->arena, bytes + 16);
    if (m->threads > 1) memory_watch(m, &m->shared);
}

static void start_block(Machine *m) {
    memset(m->shared.data, 0xFF, (size_t)m->shared.bytes); /* a NaN of whatever float type its bytes are read as */
    memory_forget(&m->shared);
    m->begun = false;
    m->cluster_start = ++m->cluster_barriers; /* what earlier blocks did is no race */
    m->early = ir_func_int(m->f, IR_FN_DEPENDENT, 0) != 0;
    for (size_t i = 0; i < m->pending.len; i++) free(m->pending.data[i].data);
    m->pending.len = 0;
    for (size_t i = 0; i < m->boxes.len; i++) free(m->boxes.data[i].data);
    async_free_box(m);
    m->boxes.len = m->barriers.len = m->products.len = 0;
}

static void run_blocks(Machine *m, const Code *code) {
    uint8_t *active = ARENA_ARRAY(m->arena, uint8_t, m->threads);
    int64_t total = 1;
    memset(active, 1, m->threads);
    for (unsigned d = 0; d < 3; d++)
        if (m->grid[d] < 0 || __builtin_mul_overflow(total, m->grid[d], &total)) machine_trap(m, "the grid is too large");
    int64_t together = (int64_t)m->blocks; /* a cluster's blocks, along x */
    for (int64_t k = 0; k < total; k += together) {
        int64_t at = m->args->reverse ? total - together - k : k;
        m->block[0] = at % m->grid[0];
        m->block[1] = at / m->grid[0] % m->grid[1];
        m->block[2] = at / m->grid[0] / m->grid[1];
        start_block(m);
        run_code(m, code, active);
        if (m->early) machine_trap(m, "a block ends that has not waited for the steps before");
        if (m->blocks > 1) async_check_end(m);
    }
}

static bool run_func(Launch *l, const IrFunc *f, const char **error) {
    Machine *m = ARENA_NEW(l->arena, Machine);
    *m = (Machine){.arena = l->arena, .f = f, .args = l->args};
    m->step_limit = l->args->step_limit ? l->args->step_limit : UINT64_C(1) << 36;
    m->sizes = sizes_bind(l->arena, f, l->args->sizes, error);
    if (!m->sizes) return false;
    Memory **memories = ARENA_ARRAY(l->arena, Memory *, f->param_count + 1);
    double *scalars = ARENA_ARRAY(l->arena, double, f->param_count + 1);
    if (setjmp(m->trap) == 0) {
        set_machine(m);
        bind_params(l, m, memories, scalars);
        mark_late(m, memories);
        const Code *code = interpret_decode(m, memories, scalars);
        make_shared(m);
        run_blocks(m, code);
    }
    for (size_t i = 0; i < m->pending.len; i++) free(m->pending.data[i].data);
    for (size_t i = 0; i < m->boxes.len; i++) free(m->boxes.data[i].data);
    async_free_box(m);
    *error = m->error;
    return !m->error;
}

bool interpret_func(Arena *arena, const IrFunc *f, const InterpretArgs *args, const char **error) {
    Launch launch = {.arena = arena, .args = args};
    return run_func(&launch, f, error) && return_placed(&launch, error);
}

static bool guard_holds(const IrFunc *f, const Sizes *sizes) {
    int64_t value = 0;
    return !f->guard || (sizes_eval(sizes, f->guard, &value) && value > 0);
}

static bool run_step(Launch *l, const IrStep *step, const char **error) {
    for (unsigned i = 0; i < step->version_count; i++) {
        const Sizes *sizes = sizes_bind(l->arena, step->versions[i], l->args->sizes, error);
        if (!sizes) return false;
        if (guard_holds(step->versions[i], sizes)) return run_func(l, step->versions[i], error);
    }
    *error = arena_printf(l->arena, "no version of the kernel %s serves these sizes", step->name);
    return false;
}

bool interpret_module(Arena *arena, const IrModule *m, const InterpretArgs *args, const char **error) {
    Launch launch = {.arena = arena, .args = args};
    IrPlan plan = ir_plan(arena, m, IR_LEVEL_TILE | IR_LEVEL_KERNEL);
    for (size_t i = 0; i < plan.step_count; i++)
        if (!run_step(&launch, &plan.steps[i], error)) return false;
    return return_placed(&launch, error);
}
