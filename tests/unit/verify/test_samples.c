/* Samples hold the places where tiles go wrong; ragged sizes keep the constraints. */
#include "graph.h"

static bool holds(const Samples *s, int64_t flat) {
    for (size_t i = 0; i < s->count; i++)
        if (s->flat[i] == flat) return true;
    return false;
}

static void check_samples(void) {
    Arena *arena = arena_create();
    Shape shape = {"Y", DTYPE_F32, 3, {1000, 1000, 1000}, 1000000000};
    Samples s = samples_choose(arena, &shape, 20000, 3);
    CHECK(s.count > 10000 && s.count <= 20000);
    for (size_t i = 0; i < s.count; i++) {
        CHECK(s.flat[i] >= 0 && s.flat[i] < shape.elements);
        CHECK(i == 0 || s.flat[i] > s.flat[i - 1]);
    }
    for (int corner = 0; corner < 8; corner++) {
        int64_t at = 0;
        for (int d = 0; d < 3; d++) at = at * 1000 + (corner >> d & 1 ? 999 : 0);
        CHECK(holds(&s, at));
    }
    size_t last_row = 0, last_tile = 0, boundary = 0, columns[8] = {0};
    for (size_t i = 0; i < s.count; i++) {
        int64_t column = s.flat[i] % 1000;
        last_row += s.flat[i] / 1000000 == 999;
        last_tile += column >= 896; /* the partial tile of 128 */
        boundary += column % 128 == 127 || column % 128 == 0;
        columns[column / 125]++;
    }
    CHECK(last_row > 500 && last_tile > s.count / 10 && boundary > s.count / 20);
    for (int k = 0; k < 8; k++) CHECK(columns[k] > s.count / 40);
    Samples all = samples_choose(arena, &shape, SIZE_MAX, 3);
    CHECK(!all.flat && all.count == 1000000000);
    Shape empty = {"E", DTYPE_F32, 2, {0, 5}, 0}, scalar = {"S", DTYPE_F32, 0, {0}, 1};
    CHECK(samples_choose(arena, &empty, 10, 1).count == 0);
    CHECK(samples_choose(arena, &scalar, 10, 1).count == 1);
    arena_destroy(arena);
}

static int64_t value_of(const Sizes *sizes, const char *name) {
    for (size_t i = 0; i < sizes->count; i++)
        if (strcmp(sizes->values[i].name, name) == 0) return sizes->values[i].value;
    CHECK(!"the symbol is bound");
    return -1;
}

static void check_ragged(void) {
    Arena *arena = arena_create();
    const IrFunc *f = graph_parse(arena, "sketchc.ir 1\n"
                                         "func @g graph (tensor %X: tensor<[M, K] x f32> in, symbol %M: index, symbol "
                                         "%K: index, "
                                         "symbol %H: index = K//2)\n    require K - 16*(K//16) == 0 \"K % 16 == 0\"\n{\n"
                                         "  return(%X) {names = [\"Y\"]}\n}\n")
                          ->first;
    const Sizes *base = graph_sizes(arena, f, 2, (SymbolValue[]){{"M", 4096}, {"K", 4096}});
    const int64_t tiles[] = {64, 128};
    SizeList list = samples_ragged_sizes(arena, f, base, 2, tiles, 1 << 20);
    static const int64_t wanted[] = {0, 1, 2, 3, 7, 31, 63, 64, 65, 127, 128, 129, 257, 1009};
    bool seen[COUNT_OF(wanted)] = {false}, k_zero = false, k_tile = false;
    for (size_t i = 0; i < list.count; i++) {
        int64_t m = value_of(list.sizes[i], "M"), k = value_of(list.sizes[i], "K");
        CHECK(k % 16 == 0 && value_of(list.sizes[i], "H") == k / 2 && m * k <= 1 << 20);
        for (size_t w = 0; w < COUNT_OF(wanted); w++) seen[w] |= m == wanted[w];
        k_zero |= k == 0;
        k_tile |= k == 128;
    }
    for (size_t w = 0; w < COUNT_OF(wanted); w++) CHECK(seen[w]);
    CHECK(k_zero && k_tile);
    arena_destroy(arena);
}

int main(void) {
    check_samples();
    check_ragged();
    return 0;
}
