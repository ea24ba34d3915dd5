/* Calls what test_export.py exports, a block of a ResNet with its weights: input.bin into output.bin. Neither Python nor libsketchc is here. */
#include "residual.h"
#include "residual_weights.h"

#include <stdio.h>
#include <stdlib.h>

enum { IN = 2 * 3 * 9 * 8, OUT = 2 * 4 * 5 * 4 };

static void *read_file(const char *name, size_t bytes) {
    FILE *file = fopen(name, "rb");
    void *data = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!file || !data || fread(data, 1, bytes, file) != bytes) exit(3);
    fclose(file);
    return data;
}

#define WEIGHT(place) ((const float *)(const void *)(weights + (place)))

int main(void) {
    static float result[OUT];
    char *weights = read_file("residual.weights", RESIDUAL_WEIGHT_BYTES);
    float *image = read_file("input.bin", IN * sizeof(float));
    int64_t bytes = residual_workspace();
    void *workspace = bytes > 0 ? aligned_alloc(256, ((size_t)bytes + 255) / 256 * 256) : NULL;
    if (CALL(WEIGHT, image, result, workspace)) return 1;
    FILE *file = fopen("output.bin", "wb");
    if (!file || fwrite(result, sizeof(float), OUT, file) != OUT || fclose(file)) return 2;
    free(workspace);
    free(weights);
    free(image);
    return 0;
}
