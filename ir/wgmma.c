#include "wgmma.h"

static const Wgmma rows[] = {
#define WGMMA(id, name, types, in, acc, depth, columns, sums, k_major, bits, registers)                                                    \
    {name, types, DTYPE_##in, DTYPE_##acc, depth, columns, sums, k_major, bits, registers},
#include "wgmma.def"
#undef WGMMA
};

const Wgmma *wgmma_find(Dtype in, Dtype acc) {
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].in == in && rows[i].acc == acc) return &rows[i];
    return NULL;
}
