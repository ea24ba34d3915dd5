/* The head of a .npy file from any bytes: refused with a sentence, or a shape whose elements are counted. */
#include "runtime_internal.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    NpyHeader header;
    char error[RT_TEXT] = "";
    if (!npy_parse(data, size, &header, error)) {
        if (!error[0]) abort();
        return 0;
    }
    uint64_t elements = 1;
    for (unsigned i = 0; i < header.rank; i++)
        if (header.extents[i] < 0 || __builtin_mul_overflow(elements, (uint64_t)header.extents[i], &elements)) abort();
    if (elements != header.elements || header.rank > ARTIFACT_MAX_RANK) abort();
    return 0;
}
