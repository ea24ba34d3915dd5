/* The staged buffers of a sketch's kernels, which stand in tile-level IR only: kernels have one block of shared memory. */
#include "api_internal.h"

IrModule *api_lower_to(sketchc_unit *unit, const Compile *c, PassId pass) {
    DiagList said = unit->diags;
    diag_list_init(&unit->diags, unit->arena, unit->sources);
    IrModule *module = api_build(unit);
    Compile stopped = *c;
    stopped.given.stop_after = pass_info(pass)->name;
    stopped.given.print_ir_after = NULL;
    if (module) api_keep_level(module, IR_LEVEL_TILE);
    bool lowered = module && api_lower(unit, &stopped, module);
    unit->diags = said;
    return lowered ? module : NULL;
}

typedef struct {
    Arena *arena;
    const char *kernel;
    Buffers *buffers;
} Collect;

static void collect(void *context, IrOp *op) {
    Collect *c = context;
    if (op->opcode != IR_BUF_ALLOC) return;
    const IrType *t = op->results[0].type;
    int64_t pitch = ir_attr_int(op, "pitch", ir_type_extent(t, t->rank - 1)), elements = pitch;
    for (unsigned i = 0; i + 1 < t->rank; i++) elements *= ir_type_extent(t, i);
    Buffer b = {c->kernel, ir_attr_str(op, "name", ""), t->stages, elements * (int64_t)dtype_size(t->dtype)};
    VEC_PUSH(c->arena, c->buffers, b);
}

void api_buffers(sketchc_unit *unit, const Compile *c, Buffers *buffers) {
    IrModule *module = c->target->kind == TARGET_CUDA ? api_lower_to(unit, c, PASS_STAGE_BUFFERS) : NULL;
    for (IrFunc *f = module ? module->first : NULL; f; f = f->next) {
        Collect context = {unit->arena, f->name, buffers};
        ir_walk(f->body, collect, &context);
    }
}
