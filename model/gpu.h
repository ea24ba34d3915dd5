/* What all GPUs of CUDA have in common; what differs from one to the next is a field of Target (target_fields.def). No other source
 * of passes/ and model/ gives these a value, which tests/include_rules.py holds. */
#ifndef MODEL_GPU_H
#define MODEL_GPU_H

#include <stdint.h>

enum {
    WARP = 32,          /* threads that run in step */
    WARPGROUP = 128,    /* threads that wgmma takes together */
    BANKS = 32,         /* of shared memory, served side by side ... */
    BANK_BYTES = 4,     /* ... a word of each at a time */
    PIECE_BYTES = 16,   /* the widest access of a thread, and what the copy engine swizzles by */
    LINE_BYTES = 128,   /* of a cache, and what buffers in shared memory begin at multiples of */
    SYSTEM_BYTES = 1024 /* of shared memory that each block takes besides its own */
};

/* Bytes rounded up to whole lines. */
static inline int64_t whole_lines(int64_t bytes) {
    return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

#endif
