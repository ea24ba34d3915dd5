/* Text in, every text target out: code, or diagnostics; never an internal error. */
#include "sketchc.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const targets[] = {"openmp", "cuda"};
    sketchc_unit *unit = sketchc_unit_create("fuzz.sketch", (const char *)data, size);
    for (size_t i = 0; unit && i < 2; i++) {
        sketchc_options options = {.size = sizeof options, .target = targets[i]};
        char *code = NULL;
        size_t length = 0;
        sketchc_status status = sketchc_emit(unit, &options, NULL, &code, &length);
        if (status == SKETCHC_BUG || (status == SKETCHC_OK && !length)) abort();
        sketchc_free(code);
    }
    sketchc_unit_destroy(unit);
    return 0;
}
