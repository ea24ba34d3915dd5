/* `run` on .npy files: results, and mistakes in the files named. */
#include "npy_file.h"
#include "plant.h"

#include <sys/stat.h>
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

static void write_floats(Arena *arena, const char *name, const char *descr, const char *shape, size_t count) {
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

static void refused(Arena *arena, const char *input, RtStatus status, const char *a, const char *b) {
    RtError e = run(arena, PLANT_GOOD, input);
    if (e.status != status || !strstr(e.text, a) || !strstr(e.text, b)) fprintf(stderr, "%s\n", e.text);
    CHECK(e.status == status && strstr(e.text, a) && strstr(e.text, b));
}

static void test_mistakes(Arena *arena) {
    write_floats(arena, "wide.npy", "<f8", "(3, 2)", 12);
    refused(arena, "wide.npy", RT_BAD_INPUT, "f32", "<f8");
    write_floats(arena, "flat.npy", "<f4", "(12,)", 12);
    refused(arena, "flat.npy", RT_BAD_INPUT, "rank 2", "rank 1");
    write_floats(arena, "short.npy", "<f4", "(3, 5)", 12);
    refused(arena, "short.npy", RT_BAD_INPUT, "the shape needs", "48 bytes");
    npy_file_write(in_dir(arena, "fortran.npy"), "<f4", "True", "(1, 1)", "abcd", 4);
    CHECK(run(arena, PLANT_GOOD, "fortran.npy").status == RT_BAD_INPUT);
    refused(arena, "missing.npy", RT_BAD_OPTION, "cannot open", "missing.npy");
    npy_file_write(in_dir(arena, "text.npy"), "<f4", "False", "(", "abcd", 4);
    refused(arena, "text.npy", RT_BAD_INPUT, "no valid .npy", "shape");
}

static void test_names(Arena *arena) {
    RtOptions options = {.cache_dir = ""};
    RtFile in = {"X", in_dir(arena, "x.npy")}, out = {"Q", in_dir(arena, "q.npy")};
    RtError e = rt_run(plant(arena, PLANT_GOOD), &options, 1, &in, 1, &out);
    CHECK(e.status == RT_BAD_OPTION && strstr(e.text, "'Q' is no tensor"));
    out.name = "X";
    e = rt_run(plant(arena, PLANT_GOOD), &options, 1, &in, 1, &out);
    CHECK(e.status == RT_BAD_OPTION && strstr(e.text, "not written"));
    e = rt_run(plant(arena, PLANT_GOOD), &options, 0, NULL, 0, NULL);
    CHECK(e.status == RT_BAD_OPTION && strstr(e.text, "no file is given for the tensor 'X'"));
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

/* The code finds no way to speak in the name of what judges it, nor does it answer for its process. */
static void test_no_channel_to_the_judge(Arena *arena) {
    RtError e = run(arena, PLANT_LOOKS_FOR_CHANNELS "if (channels > 1) return 1;\n" PLANT_GOOD, "x.npy");
    CHECK_STR(e.text, "");
    CHECK(e.status == RT_OK);
    e = run(
        arena,
        "static char well[1 << 16]; for (int fd = 3; fd < 1024; fd++) send(fd, well, sizeof well, MSG_DONTWAIT | MSG_NOSIGNAL); return 0;",
        "x.npy");
    CHECK(rt_failed(&e)); /* nothing was written, whatever it said */
    /* Memory that is read beside a tensor ends it, as in verify. */
    CHECK(run(arena, "volatile float next = X[N * M]; (void)next;\n" PLANT_GOOD, "x.npy").status == RT_OUT_OF_BOUNDS);
}

enum { PATTERNS = 1 << 16 };

/* Copies of each pattern of 16 bits, again and again in a wider element: among them is every poison that repeats. */
static RtError copy_patterns(Arena *arena, Dtype dtype, const char *left_out, Str *got, Str *want) {
    size_t size = dtype_size(dtype), bytes = PATTERNS * size;
    unsigned char *data = arena_alloc_array(arena, bytes, 1);
    for (size_t i = 0; i < PATTERNS; i++)
        for (size_t b = 0; b < size; b++) data[i * size + b] = (unsigned char)(i >> 8 * (b % 2));
    npy_file_write(in_dir(arena, "bytes.npy"), dtype_npy(dtype), "False", "(65536, 1)", data, bytes);
    Artifact *a = plant(arena, arena_printf(arena, "memcpy(Y, X, (size_t)((N * M - (%s)) * %zu)); return 0;", left_out, size));
    a->params[0].dtype = a->params[1].dtype = dtype;
    RtOptions options = {.cache_dir = in_dir(arena, "cache"), .time_limit_s = 5};
    RtFile in = {"X", in_dir(arena, "bytes.npy")}, out = {"Y", in_dir(arena, "copy.npy")};
    str_append_n(want, (const char *)data, bytes);
    RtError e = rt_run(a, &options, 1, &in, 1, &out);
    if (e.status == RT_OK) CHECK(file_read(out.path, 1 << 20, got));
    return e;
}

/* No byte is the poison when it is the result; and where nothing is written no type hides it. */
static void test_every_byte(Arena *arena) {
    CHECK(mkdir(in_dir(arena, "cache"), 0700) == 0);
    for (int d = DTYPE_NONE + 1; d < DTYPE_COUNT; d++) {
        Str got, want;
        str_init(&got);
        str_init(&want);
        RtError e = copy_patterns(arena, (Dtype)d, "0", &got, &want);
        if (e.status != RT_OK) fprintf(stderr, "%s: %s\n", dtype_name((Dtype)d), e.text);
        CHECK(e.status == RT_OK && got.len > want.len);
        CHECK(memcmp(got.data + got.len - want.len, want.data, want.len) == 0);
        e = copy_patterns(arena, (Dtype)d, "1", &got, &want);
        CHECK(e.status == RT_NOT_WRITTEN && strstr(e.text, "1 elements of 'Y'") && strstr(e.text, "65535"));
        str_release(&got);
        str_release(&want);
    }
    CHECK(system(arena_printf(arena, "rm -r %s/cache", dir)) == 0);
}

/* The doubtful byte's second launch starts from the given contents of an inout tensor. */
static void test_second_launch_of_inout(Arena *arena) {
    Artifact *a = plant(arena, "for (int64_t i = 0; i < N * M; i++) ((uint32_t *)Y)[i] = 0xFFDADADA, X[i] += 1; return 0;");
    a->params[0].direction = ARTIFACT_INOUT;
    RtOptions options = {.cache_dir = ""};
    RtFile in = {"X", in_dir(arena, "x.npy")}, outs[] = {{"Y", in_dir(arena, "poison.npy")}, {"X", in_dir(arena, "sum.npy")}};
    RtError e = rt_run(a, &options, 1, &in, 2, outs);
    CHECK_STR(e.text, "");
    Str file;
    str_init(&file);
    CHECK(file_read(outs[1].path, 1 << 20, &file) && file.len > 48);
    for (size_t i = 0; i < 12; i++) {
        float x;
        memcpy(&x, file.data + file.len - 48 + 4 * i, 4);
        CHECK(x == (float)i * 0.5f + 1);
    }
    str_release(&file);
}

int main(void) {
    Arena *arena = arena_create();
    CHECK(mkdtemp(dir));
    test_result(arena);
    test_mistakes(arena);
    test_names(arena);
    test_faults(arena);
    test_no_channel_to_the_judge(arena);
    test_every_byte(arena);
    test_second_launch_of_inout(arena);
    CHECK(system(arena_printf(arena, "rm -r %s", dir)) == 0);
    arena_destroy(arena);
    return 0;
}
