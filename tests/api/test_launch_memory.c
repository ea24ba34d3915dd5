/* A launch allocates nothing: malloc and its like are counted while plans and tensors are launched, on sizes that were launched before. */
#include "../unit/check.h"
#include "sketchc.h"

static unsigned long calls;

/* glibc's own, below those that programs may replace. */
void *__libc_malloc(size_t size);                /* NOLINT(bugprone-reserved-identifier): its name */
void *__libc_calloc(size_t count, size_t size);  /* NOLINT(bugprone-reserved-identifier): its name */
void *__libc_realloc(void *memory, size_t size); /* NOLINT(bugprone-reserved-identifier): its name */

void *malloc(size_t size) {
    calls++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    calls++;
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
    calls++;
    return __libc_realloc(memory, size);
}

static const char text[] = "operator two { symbols: M, N; tensors: X[M, N]: f32; Y[M, N]: f32; Z[M]: f32; Y = softmax(X, axis=1)\n"
                           "Z = sum(X, axis=1) }";

static sketchc_launcher *open_launcher(sketchc_artifact **artifact) {
    sketchc_unit *unit = sketchc_unit_create(NULL, text, sizeof text - 1);
    sketchc_options options = {.size = sizeof options, .target = "openmp"};
    sketchc_run_options run = {.size = sizeof run, .cache_dir = ""};
    sketchc_launcher *launcher;
    CHECK(sketchc_compile(unit, &options, artifact) == SKETCHC_OK);
    sketchc_status status = sketchc_launcher_open(*artifact, &run, &launcher, NULL);
    CHECK(status == SKETCHC_OK || status == SKETCHC_MISSING);
    sketchc_unit_destroy(unit);
    return launcher;
}

static void launch_often(sketchc_launcher *launcher, const sketchc_plan *plan, const sketchc_dltensor *const *tensors, void *workspace,
                         uint64_t bytes) {
    void *pointers[3] = {tensors[0]->data, tensors[1]->data, tensors[2]->data};
    for (int i = 0; i < 100; i++) {
        CHECK(sketchc_plan_launch(plan, pointers, 3, workspace, NULL, NULL) == SKETCHC_OK);
        CHECK(sketchc_launch(launcher, tensors, 3, workspace, bytes, NULL, NULL) == SKETCHC_OK);
    }
}

int main(void) {
    static float x[64], y[64], z[8];
    const int64_t shape[2] = {8, 8};
    sketchc_artifact *artifact;
    sketchc_launcher *launcher = open_launcher(&artifact);
    if (!launcher) {
        sketchc_artifact_destroy(artifact);
        puts("no C compiler here");
        return 77;
    }
    sketchc_dltensor t[3] = {
        {.data = x, .ndim = 2, .shape = shape}, {.data = y, .ndim = 2, .shape = shape}, {.data = z, .ndim = 1, .shape = shape}};
    const sketchc_dltensor *tensors[3] = {&t[0], &t[1], &t[2]};
    for (int i = 0; i < 3; i++) {
        t[i].device.type = 1;
        t[i].dtype.code = 2, t[i].dtype.bits = 32, t[i].dtype.lanes = 1;
    }
    sketchc_symbol sizes[2] = {{"M", 8}, {"N", 8}};
    sketchc_plan *plan;
    CHECK(sketchc_plan_create(launcher, sizes, 2, NULL, 0, &plan, NULL) == SKETCHC_OK);
    uint64_t bytes = sketchc_plan_workspace(plan);
    void *workspace = bytes ? aligned_alloc(SKETCHC_WORKSPACE_ALIGN, bytes) : NULL;
    launch_often(launcher, plan, tensors, workspace, bytes); /* OpenMP makes its threads, sketchc_launch its plan */
    unsigned long before = calls;
    CHECK(before > 0);
    launch_often(launcher, plan, tensors, workspace, bytes);
    CHECK(calls == before);
    sketchc_plan_destroy(plan);
    sketchc_launcher_close(launcher);
    sketchc_artifact_destroy(artifact);
    free(workspace);
    puts("200 launches without an allocation");
    return 0;
}
