/* Runs a fuzz target without libFuzzer: every corpus file, then `-runs=N` mutations of them that are
 * a function of `-seed=S`. What the short test run uses; scripts/fuzz runs the real fuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_INPUTS = 4096, MAX_SIZE = 1 << 16 };

typedef struct {
    uint8_t *data;
    size_t size;
} Input;

static Input inputs[MAX_INPUTS];
static size_t input_count;
static uint64_t state;

static uint64_t next_random(void) {
    state += 0x9e3779b97f4a7c15u;
    uint64_t x = state;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static size_t below(size_t limit) {
    return limit ? (size_t)(next_random() % limit) : 0;
}

static void add_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || input_count == MAX_INPUTS) {
        fprintf(stderr, "%s cannot be used\n", path);
        exit(2);
    }
    Input *input = &inputs[input_count++];
    input->data = malloc(MAX_SIZE);
    if (!input->data) exit(2);
    input->size = fread(input->data, 1, MAX_SIZE, file);
    fclose(file);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void add(const char *path) {
    struct stat info;
    struct dirent **entries;
    if (stat(path, &info) || !S_ISDIR(info.st_mode)) {
        add_file(path);
        return;
    }
    int count = scandir(path, &entries, NULL, by_name); /* sorted: runs must not differ */
    for (int i = 0; i < count; i++) {
        char inner[4096];
        snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        if (stat(inner, &info) == 0 && S_ISREG(info.st_mode)) add_file(inner);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
}

/* One of: another byte, a flipped bit, a run taken out, a run repeated, a run of another input. */
static size_t mutate(uint8_t *data, size_t size) {
    size_t at = below(size + 1), length = 1 + below(32);
    switch (below(5)) {
    case 0:
        if (at < size) data[at] = (uint8_t)next_random();
        return size;
    case 1:
        if (at < size) data[at] ^= (uint8_t)(1u << below(8));
        return size;
    case 2:
        if (length > size - at) length = size - at;
        memmove(data + at, data + at + length, size - at - length);
        return size - length;
    default:
        break;
    }
    const Input *from = &inputs[below(input_count)];
    size_t begin = below(from->size);
    if (length > from->size - begin) length = from->size - begin;
    if (size + length > MAX_SIZE) return size;
    memmove(data + at + length, data + at, size - at);
    memcpy(data + at, from->data + begin, length);
    return size + length;
}

/* In a block of its exact size, so that a sanitizer sees a read past the end. */
static void run(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) exit(2);
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

int main(int argc, char **argv) {
    unsigned long runs = 0, seed = 0;
    for (int i = 1; i < argc; i++) {
        if (sscanf(argv[i], "-runs=%lu", &runs) == 1) continue;
        if (sscanf(argv[i], "-seed=%lu", &seed) == 1) continue;
        add(argv[i]);
    }
    state = seed;
    for (size_t i = 0; i < input_count; i++) run(inputs[i].data, inputs[i].size);
    if (!input_count) return 2;
    static uint8_t work[MAX_SIZE];
    for (unsigned long i = 0; i < runs; i++) {
        const Input *from = &inputs[below(input_count)];
        size_t size = from->size;
        memcpy(work, from->data, size);
        for (size_t steps = 1 + below(6); steps; steps--) size = mutate(work, size);
        run(work, size);
    }
    printf("%zu corpus files and %lu mutations of them, seed %lu\n", input_count, runs, seed);
    for (size_t i = 0; i < input_count; i++) free(inputs[i].data);
    return 0;
}
