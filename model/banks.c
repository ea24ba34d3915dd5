#include "banks.h"
#include "gpu.h"

#include <stdbool.h>

unsigned bank_passes(const int64_t *words, unsigned count) {
    unsigned depth[BANKS] = {0}, most = 1;
    for (unsigned i = 0; i < count; i++) {
        bool repeated = false;
        for (unsigned j = 0; j < i && !repeated; j++) repeated = words[j] == words[i];
        unsigned *bank = &depth[(uint64_t)words[i] % BANKS];
        if (!repeated && ++*bank > most) most = *bank;
    }
    return most;
}
