/* Launches whose pointers are known at the launch only: sizes by plans and by tensors, what is refused, and that nothing is
 * allocated. */
#include "../unit/check.h"
#include "sketchc.h"

static const char scale_text[] = "operator scale { symbols: N; tensors: X[N]: f32; Y[N]: f32; Y = 2 * X + 1 }";
static const char two_text[] = "operator two { symbols: M, N; tensors: X[M, N]: f32; Y[M, N]: f32; Z[M]: f32; T = softmax(X, axis=1)\n"
                               "Y = T + 1\nZ = sum(X, axis=1) }";

typedef struct {
    sketchc_unit *unit;
    sketchc_artifact *artifact;
    sketchc_launcher *launcher;
} Loaded;

static sketchc_status load(Loaded *l, const char *text) {
    sketchc_options options = {.size = sizeof options, .target = "openmp"};
    sketchc_run_options run = {.size = sizeof run, .cache_dir = ""};
    char *message = NULL;
    l->unit = sketchc_unit_create(NULL, text, strlen(text));
    CHECK(sketchc_compile(l->unit, &options, &l->artifact) == SKETCHC_OK);
    sketchc_status status = sketchc_launcher_open(l->artifact, &run, &l->launcher, &message);
    if (status != SKETCHC_OK) fprintf(stderr, "%s\n", message ? message : "no message");
    CHECK((status == SKETCHC_OK) == (l->launcher != NULL) && (status == SKETCHC_OK) == (message == NULL));
    sketchc_free(message);
    return status;
}

static void unload(Loaded *l) {
    sketchc_launcher_close(l->launcher);
    sketchc_artifact_destroy(l->artifact);
    sketchc_unit_destroy(l->unit);
}

static sketchc_dltensor vector(float *data, const int64_t *n) {
    sketchc_dltensor t = {.data = data, .ndim = 1, .shape = n};
    t.device.type = 1;
    t.dtype.code = 2, t.dtype.bits = 32, t.dtype.lanes = 1;
    return t;
}

static bool scaled(const float *x, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (y[i] != 2 * x[i] + 1) return false;
    return true;
}

static float x[1000], y[1000];

static void check_plans(const Loaded *l) {
    sketchc_plan *plan, *small;
    sketchc_symbol n = {"N", 1000}, few = {"N", 3};
    int64_t shape[SKETCHC_MAX_RANK], strides[SKETCHC_MAX_RANK];
    void *pointers[2] = {x, y};
    CHECK(sketchc_launcher_tensor_count(l->launcher) == 2);
    CHECK(sketchc_launcher_tensor(l->launcher, "X") == 0 && sketchc_launcher_tensor(l->launcher, "Y") == 1);
    CHECK(sketchc_launcher_tensor(l->launcher, "Z") == -1);
    CHECK(sketchc_plan_create(l->launcher, &n, 1, NULL, 0, &plan, NULL) == SKETCHC_OK);
    CHECK(sketchc_plan_create(l->launcher, &few, 1, NULL, 0, &small, NULL) == SKETCHC_OK);
    CHECK(sketchc_plan_shape(plan, 1, shape, strides) == 1 && shape[0] == 1000 && strides[0] == 1);
    CHECK(sketchc_plan_shape(plan, 2, shape, NULL) == -1 && sketchc_plan_workspace(plan) == 0);
    CHECK(sketchc_plan_launch(small, pointers, 2, NULL, NULL, NULL) == SKETCHC_OK && scaled(x, y, 3) && y[3] == 0);
    CHECK(sketchc_plan_launch(plan, pointers, 2, NULL, NULL, NULL) == SKETCHC_OK && scaled(x, y, 1000));
    sketchc_plan_destroy(small);
    sketchc_plan_destroy(plan);
}

/* The call fails with a status and words of its message. */
#define REFUSED(call, expected, words)                                                                                                     \
    do {                                                                                                                                   \
        char *message = NULL;                                                                                                              \
        sketchc_status got = (call);                                                                                                       \
        CHECK(got == (expected) && message && strstr(message, words));                                                                     \
        if (message && !strstr(message, words)) fprintf(stderr, "%s\n", message);                                                          \
        sketchc_free(message);                                                                                                             \
    } while (0)

static void check_nulls(const Loaded *l) {
    sketchc_plan *plan;
    sketchc_launcher *launcher;
    sketchc_symbol n = {"N", 10};
    void *pointers[2] = {x, y};
    uint64_t bytes;
    REFUSED(sketchc_launcher_open(NULL, NULL, &launcher, &message), SKETCHC_USAGE_ERROR, "'artifact' is null");
    REFUSED(sketchc_launcher_open(l->artifact, NULL, NULL, &message), SKETCHC_USAGE_ERROR, "'launcher' is null");
    REFUSED(sketchc_plan_create(NULL, &n, 1, NULL, 0, &plan, &message), SKETCHC_USAGE_ERROR, "'launcher' is null");
    REFUSED(sketchc_plan_create(l->launcher, NULL, 1, NULL, 0, &plan, &message), SKETCHC_USAGE_ERROR, "'symbols' is null");
    REFUSED(sketchc_plan_create(l->launcher, NULL, 0, NULL, 0, NULL, &message), SKETCHC_USAGE_ERROR, "'plan' is null");
    REFUSED(sketchc_plan_create(l->launcher, NULL, 0, NULL, 0, &plan, &message), SKETCHC_USAGE_ERROR, "binds the symbol 'N'");
    n.value = -1;
    REFUSED(sketchc_plan_create(l->launcher, &n, 1, NULL, 0, &plan, &message), SKETCHC_SOURCE_ERROR, "symbols are >= 0");
    n.value = 10;
    CHECK(sketchc_plan_create(l->launcher, &n, 1, NULL, 0, &plan, NULL) == SKETCHC_OK);
    REFUSED(sketchc_plan_launch(NULL, pointers, 2, NULL, NULL, &message), SKETCHC_USAGE_ERROR, "'plan' is null");
    REFUSED(sketchc_plan_launch(plan, NULL, 2, NULL, NULL, &message), SKETCHC_USAGE_ERROR, "'pointers' is null");
    REFUSED(sketchc_plan_launch(plan, pointers, 1, NULL, NULL, &message), SKETCHC_SOURCE_ERROR, "2 tensors, 1 pointers");
    REFUSED(sketchc_launch(NULL, NULL, 0, NULL, 0, NULL, &message), SKETCHC_USAGE_ERROR, "'launcher' is null");
    REFUSED(sketchc_launch(l->launcher, NULL, 2, NULL, 0, NULL, &message), SKETCHC_USAGE_ERROR, "'tensors' is null");
    REFUSED(sketchc_launch_workspace(l->launcher, NULL, 2, &bytes, &message), SKETCHC_USAGE_ERROR, "'tensors' is null");
    REFUSED(sketchc_launch_workspace(l->launcher, NULL, 0, NULL, &message), SKETCHC_USAGE_ERROR, "'bytes' is null");
    CHECK(!sketchc_launcher_info(NULL) && sketchc_launcher_tensor_count(NULL) == 0 && sketchc_plan_workspace(NULL) == 0);
    sketchc_plan_destroy(plan);
    sketchc_plan_destroy(NULL);
    sketchc_launcher_close(NULL);
}

static sketchc_status launch(const Loaded *l, const sketchc_dltensor *a, const sketchc_dltensor *b, char **message) {
    const sketchc_dltensor *tensors[2] = {a, b};
    return sketchc_launch(l->launcher, tensors, 2, NULL, 0, NULL, message);
}

static void check_tensors(const Loaded *l) {
    const int64_t n = 1000, half = 500, two = 2, square[2] = {10, 100};
    sketchc_dltensor a = vector(x, &n), b = vector(y, &n), c;
    memset(y, 0, sizeof y);
    CHECK(launch(l, &a, &b, NULL) == SKETCHC_OK && scaled(x, y, 1000));
    sketchc_dltensor h = vector(x, &half), g = vector(y, &half);
    h.byte_offset = 500 * sizeof *x, g.byte_offset = 4;
    CHECK(launch(l, &h, &g, NULL) == SKETCHC_OK && scaled(x + 500, y + 1, 500));
    REFUSED(launch(l, &a, NULL, &message), SKETCHC_SOURCE_ERROR, "tensor 1 is null");
    REFUSED(launch(l, &a, &g, &message), SKETCHC_SOURCE_ERROR, "'Y' is [1000] at these sizes, the given array is [500]");
    c = b, c.device.type = 2, c.device.id = 1;
    REFUSED(launch(l, &a, &c, &message), SKETCHC_SOURCE_ERROR, "'Y' has to be on the CPU, the given tensor is on CUDA device 1");
    c = a, c.dtype.bits = 64;
    REFUSED(launch(l, &c, &b, &message), SKETCHC_SOURCE_ERROR, "'X' is f32, the given tensor has elements of float64");
    c = a, c.dtype.lanes = 4;
    REFUSED(launch(l, &c, &b, &message), SKETCHC_SOURCE_ERROR, "float32 in vectors");
    c = a, c.ndim = 2, c.shape = square;
    REFUSED(launch(l, &c, &b, &message), SKETCHC_SOURCE_ERROR, "'X' has rank 1, the given tensor has rank 2");
    c = a, c.strides = &two;
    REFUSED(launch(l, &c, &b, &message), SKETCHC_SOURCE_ERROR, "'X' has strides [1] at these sizes, the given tensor has [2]");
    c = a, c.byte_offset = 2;
    REFUSED(launch(l, &c, &b, &message), SKETCHC_SOURCE_ERROR, "'X' does not begin at a multiple of the 4 bytes");
    c = a, c.data = NULL;
    REFUSED(launch(l, &c, &b, &message), SKETCHC_SOURCE_ERROR, "its data are null");
    c = a, c.shape = NULL;
    REFUSED(launch(l, &c, &b, &message), SKETCHC_SOURCE_ERROR, "without its extents");
    REFUSED(launch(l, &a, &a, &message), SKETCHC_SOURCE_ERROR, "'Y' is written and overlaps 'X'");
    const sketchc_dltensor *one = &a;
    REFUSED(sketchc_launch(l->launcher, &one, 1, NULL, 0, NULL, &message), SKETCHC_SOURCE_ERROR, "2 tensors, given are 1");
}

/* A plan looks at ranks and extents before it reads them. */
static void check_plan_ranks(const Loaded *l) {
    const int64_t n = 1000;
    sketchc_dltensor a = vector(x, &n), b = vector(y, &n), c;
    const sketchc_dltensor *tensors[2] = {&c, &b};
    sketchc_symbol size = {"N", n};
    sketchc_plan *plan;
    CHECK(sketchc_plan_create(l->launcher, &size, 1, NULL, 0, &plan, NULL) == SKETCHC_OK);
    c = a;
    CHECK(sketchc_plan_check(plan, tensors, 2, NULL, 0, NULL) == SKETCHC_OK);
    c = a, c.shape = NULL;
    REFUSED(sketchc_plan_check(plan, tensors, 2, NULL, 0, &message), SKETCHC_SOURCE_ERROR, "without its extents");
    const int32_t ranks[] = {-1, 0, 2, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        c = a, c.ndim = ranks[i];
        REFUSED(sketchc_plan_check(plan, tensors, 2, NULL, 0, &message), SKETCHC_SOURCE_ERROR, "'X' has rank 1, the given tensor has rank");
    }
    sketchc_plan_destroy(plan);
}

/* Sizes beyond those that are kept: a plan that was dropped is made again. */
static void check_many_sizes(const Loaded *l) {
    for (int round = 0; round < 2; round++)
        for (int64_t n = 0; n <= 300; n++) {
            sketchc_dltensor a = vector(x, &n), b = vector(y, &n);
            memset(y, 0, sizeof y);
            CHECK(launch(l, &a, &b, NULL) == SKETCHC_OK && scaled(x, y, (size_t)n) && y[n] == 0);
        }
}

static void check_info(const Loaded *l) {
    char *info = sketchc_launcher_info(l->launcher);
    CHECK(info && strstr(info, "\"kind\":\"launcher\"") &&
          strstr(info, "{\"name\":\"X\",\"operator_name\":\"X\",\"dtype\":\"f32\",\"direction\":\"in\""));
    CHECK(info && strstr(info, "\"extents\":[\"N\"]") && strstr(info, "\"tensor\":0,\"axis\":0"));
    sketchc_free(info);
}

static void check_several_tensors(void) {
    Loaded l;
    if (load(&l, two_text) == SKETCHC_OK) {
        float a[6] = {0, 0, 0, 1, 2, 3}, b[6], c[2];
        const int64_t shape[2] = {2, 3};
        sketchc_dltensor t[3] = {vector(a, shape), vector(b, shape), vector(c, shape)};
        t[0].ndim = t[1].ndim = 2;
        const sketchc_dltensor *tensors[3] = {&t[0], &t[1], &t[2]};
        uint64_t bytes = 0;
        char *said = NULL;
        CHECK(sketchc_launch_workspace(l.launcher, tensors, 3, &bytes, NULL) == SKETCHC_OK);
        void *workspace = bytes ? aligned_alloc(SKETCHC_WORKSPACE_ALIGN, bytes) : NULL;
        CHECK(sketchc_launch(l.launcher, tensors, 3, workspace, bytes, NULL, &said) == SKETCHC_OK && !said);
        CHECK(c[0] == 0 && c[1] == 6 && b[0] > 1.33f && b[0] < 1.34f);
        if (bytes)
            REFUSED(sketchc_launch(l.launcher, tensors, 3, workspace, bytes - 1, NULL, &message), SKETCHC_SOURCE_ERROR, "a workspace of");
        free(workspace);
    }
    unload(&l);
}

/* The description of a kernel with all that one can have, for a check of its schema. */
static int print_info(void) {
    static const char text[] = "operator scaled { symbols: N; tensors: X[N]: f32; Y[N]: f32; scalars: s: f32 = 2.5; Y = s * X }\n"
                               "sketch scaled_wide implements scaled(X=A) {\n"
                               "    symbols: N, S >= 1; tensors: A[N]: f32 strides(S); Y[N]: f32; scalars: s: f32\n"
                               "    for i in range(ceil(N, 64)):\n"
                               "        x = alloc([64])\n"
                               "        load(A[i*64:(i+1)*64] -> x)\n"
                               "        mul(x, s, x)\n"
                               "        store(x -> Y[i*64:(i+1)*64])\n}\n";
    Loaded l;
    CHECK(load(&l, text) == SKETCHC_OK);
    char *info = sketchc_launcher_info(l.launcher);
    CHECK(strstr(info, "\"operator_name\":\"X\"") && strstr(info, "\"stride\":true") && strstr(info, "\"default\":2.5"));
    fputs(info, stdout);
    sketchc_free(info);
    unload(&l);
    return 0;
}

int main(int count, char **arguments) {
    Loaded l;
    if (count > 1 && strcmp(arguments[1], "info") == 0) return print_info();
    for (int i = 0; i < 1000; i++) x[i] = (float)i;
    sketchc_status status = load(&l, scale_text);
    if (status == SKETCHC_OK) {
        check_plans(&l);
        check_nulls(&l);
        check_tensors(&l);
        check_plan_ranks(&l);
        check_many_sizes(&l);
        check_info(&l);
        check_several_tensors();
    }
    unload(&l);
    CHECK(status == SKETCHC_OK || status == SKETCHC_MISSING);
    puts(status == SKETCHC_OK ? "launches by plans and by tensors" : "no C compiler here");
    return status == SKETCHC_OK ? 0 : 77;
}
