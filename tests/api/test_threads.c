/* Several threads compile at once, each with units of its own: every output is that of one thread
 * alone.   test_threads EXAMPLE... */
#include "sketchc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 1, MAX_JOBS = 64 };

typedef struct {
    const char *path, *target;
    char *text, *want;
    size_t size, want_size;
} Job;

static Job jobs[MAX_JOBS];
static size_t job_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static char *read_text(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    char *text = file ? malloc(1 << 20) : NULL;
    *size = text ? fread(text, 1, 1 << 20, file) : 0;
    if (file) fclose(file);
    return text;
}

static char *compile(const Job *j, size_t *size) {
    sketchc_options options = {.size = sizeof options, .target = j->target};
    sketchc_unit *unit = sketchc_unit_create(j->path, j->text, j->size);
    char *data = NULL;
    *size = 0;
    if (unit) sketchc_emit(unit, &options, NULL, &data, size);
    sketchc_unit_destroy(unit);
    return data;
}

static void *work(void *argument) {
    size_t first = *(const size_t *)argument, wrong = 0;
    for (size_t i = 0; i < ROUNDS * job_count; i++) {
        const Job *j = &jobs[(first + i) % job_count];
        size_t size;
        char *data = compile(j, &size);
        if (!data || size != j->want_size || memcmp(data, j->want, size) != 0) {
            wrong++;
            fprintf(stderr, "%s to %s differs\n", j->path, j->target);
        }
        sketchc_free(data);
    }
    return wrong ? argument : NULL;
}

static void add_jobs(const char *path) {
    static const char *const targets[] = {"openmp", "cuda", "nvptx"};
    for (size_t t = 0; t < (sketchc_llvm_version() ? 3 : 2) && job_count < MAX_JOBS; t++) {
        Job *j = &jobs[job_count++];
        j->path = path;
        j->target = targets[t];
        j->text = read_text(path, &j->size);
    }
}

/* What the first thread makes of a job is what all others must make of it. */
static void *begin(void *argument) {
    Job *j = &jobs[*(const size_t *)argument];
    size_t size;
    char *data = compile(j, &size);
    pthread_mutex_lock(&lock);
    if (!j->want) {
        j->want = data;
        j->want_size = size;
        data = NULL;
    }
    pthread_mutex_unlock(&lock);
    sketchc_free(data);
    return NULL;
}

static void compile_rest(void) {
    for (size_t i = 0; i < job_count; i++) {
        Job *j = &jobs[i];
        if (j->text && !j->want) j->want = compile(j, &j->want_size);
        if (j->want) continue;
        fprintf(stderr, "%s does not compile to %s\n", j->path, j->target);
        exit(1);
    }
}

/* Before anything else was compiled in this process: what is made once (LLVM, tables) is made by several threads at once. */
static int compile_first(void) {
    pthread_t threads[THREADS];
    size_t first[THREADS];
    int failed = 0;
    for (size_t i = 0; i < THREADS; i++) {
        first[i] = i * job_count / THREADS;
        failed |= pthread_create(&threads[i], NULL, begin, &first[i]) != 0;
    }
    for (size_t i = 0; i < THREADS; i++) failed |= pthread_join(threads[i], NULL) != 0;
    return failed;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    size_t first[THREADS];
    int failed = argc < 2;
    for (int i = 1; i < argc; i++) add_jobs(argv[i]);
    failed |= failed || compile_first();
    if (!failed) compile_rest();
    for (size_t i = 0; i < THREADS; i++) {
        first[i] = i * job_count / THREADS;
        failed |= pthread_create(&threads[i], NULL, work, &first[i]) != 0;
    }
    for (size_t i = 0; i < THREADS; i++) {
        void *wrong;
        failed |= pthread_join(threads[i], &wrong) != 0 || wrong;
    }
    for (size_t i = 0; i < job_count; i++) {
        free(jobs[i].text);
        sketchc_free(jobs[i].want);
    }
    printf("%zu compilations in %d threads\n", THREADS * ROUNDS * job_count, THREADS);
    return failed ? 1 : 0;
}
