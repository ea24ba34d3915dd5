/* Registers of a kernel's fragments: what lives through a loop that does not use it, what a loop carries, and what the assembler computes at its use. */
#include "check.h"
#include "registers.h"

#include <string.h>

/* %kept lives through the loop; %sum is carried by it and %more is added in it: 64 registers each. %size is made of %more, which lives as long. */
static const char kernel[] =
    "sketchc.ir 1\n\n"
    "func @k kernel (tensor %X: ptr<f32, global> in of tensor<[N] x f32>, tensor %Y: ptr<f32, global> out of tensor<[N] x f32>, "
    "symbol %N: index) {kernel = \"k\", step = 0, target = \"cuda\", grid_x = aff(1), num_warps = 4} {\n"
    "    %zero = const() {value = 0} : index\n"
    "    %one = const() {value = 1} : index\n"
    "    %kept, %first = map() {extents = [64]} : frag<[64] x f32>, frag<[64] x f32> (%i: index) {\n"
    "        %x = mem.load(%X, %i) : f32\n"
    "        yield(%x, %x)\n"
    "    }\n"
    "    %sum = for(%zero, %N, %one, %first) {pipeline = 1} : frag<[64] x f32> (%n: index, %before: frag<[64] x f32>) {\n"
    "        %more = map() {extents = [64]} : frag<[64] x f32> (%j: index) {\n"
    "            %y = mem.load(%X, %j) : f32\n"
    "            yield(%y)\n"
    "        }\n"
    "        %size = map() {extents = [64]} : frag<[64] x f32> (%l: index) {\n"
    "            %m = frag.get(%more, %l) : f32\n"
    "            %abs = abs(%m) : f32\n"
    "            yield(%abs)\n"
    "        }\n"
    "        %after = map() {extents = [64]} : frag<[64] x f32> (%o: index) {\n"
    "            %b = frag.get(%before, %o) : f32\n"
    "            %q = frag.get(%more, %o) : f32\n"
    "            %s = frag.get(%size, %o) : f32\n"
    "            %bq = mul(%b, %q) : f32\n"
    "            %bqs = add(%bq, %s) : f32\n"
    "            yield(%bqs)\n"
    "        }\n"
    "        yield(%after)\n"
    "    }\n"
    "    map() {extents = [64]} (%w: index) {\n"
    "        %u = frag.get(%sum, %w) : f32\n"
    "        %v = frag.get(%kept, %w) : f32\n"
    "        %uv = add(%u, %v) : f32\n"
    "        mem.store(%uv, %Y, %w)\n"
    "        yield()\n"
    "    }\n"
    "    return()\n"
    "}\n";

static const IrBlock *loop_of(const IrFunc *f) {
    for (const IrOp *op = f->body->first; op; op = op->next)
        if (op->opcode == IR_FOR) return op->regions[0];
    return NULL;
}

static void check_room(const IrModule *m, int64_t room, int64_t in_loop, int64_t outside) {
    Arena *arena = arena_create();
    Registers r = registers_count(arena, m->first, room);
    CHECK(registers_spilled(&r, loop_of(m->first)) == in_loop);
    CHECK(registers_spilled(&r, m->first->body) == outside);
    arena_destroy(arena);
}

int main(void) {
    Arena *arena = arena_create();
    DiagList diags;
    diag_list_init(&diags, arena, NULL);
    IrModule *m = ir_parse(arena, &diags, "k.skir", kernel, strlen(kernel));
    CHECK(m);
    check_room(m, 192, 0, 0);
    check_room(m, 191, 0, 1);
    check_room(m, 128, 0, 64); /* once in front of the loop */
    check_room(m, 100, 28, 64);
    arena_destroy(arena);
    return 0;
}
