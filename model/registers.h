/* How many registers a thread's fragments take, from kernel-level IR: what does not fit is spilled to local memory. */
#ifndef MODEL_REGISTERS_H
#define MODEL_REGISTERS_H

#include "ir.h"
#include "pointer_table.h"

/* 32-bit registers of the fragments that are live at once where most are, by block: of the kernel's body and of each loop that is not unrolled, of
 * which what it does not use is left out (that is spilled in front of it). What is more than `room` inside of a loop counts there alone. */
typedef struct {
    PointerTable blocks;
    int64_t room;
    Arena *arena;
} Registers;

Registers registers_count(Arena *arena, const IrFunc *kernel, int64_t room);
/* Beyond the room, in a block; 0 in those that are not counted by themselves. */
int64_t registers_spilled(const Registers *registers, const IrBlock *block);

#endif
