/* `run` on .npy files: results, and mistakes in the files named. */
#include "npy_file.h"
#include "plant.h"

#include <unistd.h>

static char dir[] = "/tmp/sketchc-test-XXXXXX";

static const char *in_dir(Arena *arena, const char *name) {
    return arena_printf(arena, "%s/%s", dir, name);
}

static RtError run(Arena *arena, const char *body, const char *input) {
    RtOptions options = {.cache_dir = "", .time_limit_s = 5};
    RtFile in = {"X", in_dir(arena, input)}, out = {"Y", in_dir(arena, "y.npy")};
    return rt_run(plant(arena, body), &options, 1, &in, 1, &out);
}

static void write_floats(Arena *arena, const char *name, const char *descr, const char *shape,
                         size_t count) {
    float *data = arena_alloc_array(arena, count + 1, sizeof *data);
    for (size_t i = 0; i < count; i++) data[i] = (float)i * 0.5f;
    npy_file_write(in_dir(arena, name), descr, "False", shape, data, count * sizeof *data);
}

static void test_result(Arena *arena) {
    Str file;
    str_init(&file);
    write_floats(arena, "x.npy", "<f4", "(3, 4)", 12);
    RtError e = run(arena, PLANT_GOOD, "x.npy");
    CHECK_STR(e.text, "");
    CHECK(e.status == RT_OK);
    CHECK(file_read(in_dir(arena, "y.npy"), 1 << 20, &file));
    CHECK(file.len >= 64 && (file.len - 48) % 64 == 0); /* the data starts aligned */
    CHECK(strstr(file.data + 10, "'shape': (3, 4,)") && strstr(file.data + 10, "'<f4'"));
    for (size_t i = 0; i < 12; i++) {
        float y;
        memcpy(&y, file.data + file.len - 48 + 4 * i, 4);
        CHECK(y == (float)i);
    }
    write_floats(arena, "empty.npy", "<f4", "(0, 4)", 0);
    CHECK(run(arena, PLANT_GOOD, "empty.npy").status == RT_OK);
    str_release(&file);
}

static void refused(Arena *arena, const char *input, const char *a, const char *b) {
    RtError e = run(arena, PLANT_GOOD, input);
    if (e.status != RT_BAD_INPUT || !strstr(e.text, a) || !strstr(e.text, b))
        fprintf(stderr, "%s\n", e.text);
    CHECK(e.status == RT_BAD_INPUT && strstr(e.text, a) && strstr(e.text, b));
}

static void test_mistakes(Arena *arena) {
    write_floats(arena, "wide.npy", "<f8", "(3, 2)", 12);
    refused(arena, "wide.npy", "f32", "<f8");
    write_floats(arena, "flat.npy", "<f4", "(12,)", 12);
    refused(arena, "flat.npy", "rank 2", "rank 1");
    write_floats(arena, "short.npy", "<f4", "(3, 5)", 12);
    refused(arena, "short.npy", "the shape needs", "48 bytes");
    npy_file_write(in_dir(arena, "fortran.npy"), "<f4", "True", "(1, 1)", "abcd", 4);
    CHECK(run(arena, PLANT_GOOD, "fortran.npy").status == RT_BAD_INPUT);
    refused(arena, "missing.npy", "cannot open", "missing.npy");
    npy_file_write(in_dir(arena, "text.npy"), "<f4", "False", "(", "abcd", 4);
    refused(arena, "text.npy", "no valid .npy", "shape");
}

static void test_names(Arena *arena) {
    RtOptions options = {.cache_dir = ""};
    RtFile in = {"X", in_dir(arena, "x.npy")}, out = {"Q", in_dir(arena, "q.npy")};
    RtError e = rt_run(plant(arena, PLANT_GOOD), &options, 1, &in, 1, &out);
    CHECK(e.status == RT_BAD_INPUT && strstr(e.text, "'Q' is no tensor"));
    out.name = "X";
    e = rt_run(plant(arena, PLANT_GOOD), &options, 1, &in, 1, &out);
    CHECK(e.status == RT_BAD_INPUT && strstr(e.text, "not written"));
    e = rt_run(plant(arena, PLANT_GOOD), &options, 0, NULL, 0, NULL);
    CHECK(e.status == RT_BAD_INPUT && strstr(e.text, "no file is given for the tensor 'X'"));
    RtSymbol n = {"N", 9};
    options.symbols = &n;
    options.symbol_count = 1;
    out.name = "Y";
    e = rt_run(plant(arena, PLANT_GOOD), &options, 1, &in, 1, &out);
    CHECK(e.status == RT_BAD_INPUT && strstr(e.text, "both 3 and 9"));
}

/* A wrong kernel leaves an existing output file as it was. */
static void test_faults(Arena *arena) {
    CHECK(file_write_atomic(in_dir(arena, "y.npy"), "old", 3, 0644));
    CHECK(run(arena, "X[0] = 9;\n" PLANT_GOOD, "x.npy").status == RT_INPUT_MODIFIED);
    CHECK(run(arena, "Y[N * M] = 9;\n" PLANT_GOOD, "x.npy").status == RT_OUT_OF_BOUNDS);
    CHECK(run(arena, "return 0;", "x.npy").status == RT_NOT_WRITTEN);
    CHECK(run(arena, "abort();", "x.npy").status == RT_ABORT);
    Str file;
    str_init(&file);
    CHECK(file_read(in_dir(arena, "y.npy"), 100, &file));
    CHECK_STR(file.data, "old");
    str_release(&file);
}

int main(void) {
    Arena *arena = arena_create();
    CHECK(mkdtemp(dir));
    test_result(arena);
    test_mistakes(arena);
    test_names(arena);
    test_faults(arena);
    CHECK(system(arena_printf(arena, "rm -r %s", dir)) == 0);
    arena_destroy(arena);
    return 0;
}
