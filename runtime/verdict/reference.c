#include "reference.h"
#include "analyzer.h"
#include "runtime_internal.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

/* Steps of about a nanosecond for each thread, up to so many threads: some seconds. */
#define STEPS_OF_THREAD 4e9
enum { MOST_THREADS = 16 };

static double most_steps(unsigned threads) {
    long online = threads ? (long)threads : sysconf(_SC_NPROCESSORS_ONLN);
    return STEPS_OF_THREAD * (double)(online < 1 ? 1 : online > MOST_THREADS ? MOST_THREADS : online);
}

/* It is not kept in the cache, where a kernel that ran before could have put another. */
static RtError compile(Arena *arena, const TempDir *dir, const char *source, const char *so) {
    char input[640];
    const char *words[TOOL_MAX_WORDS], *argv[TOOL_MAX_WORDS + 16];
    size_t n = tool_cc(arena, words), count = 0;
    if (n == 0) return rt_error(RT_MISSING, "there is no C compiler");
    for (size_t i = 0; i < n; i++) argv[count++] = words[i];
    const char *const rest[] = {
        "-std=c17", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared", "-Wl,-Bsymbolic", "-o", so};
    for (size_t i = 0; i < COUNT_OF(rest); i++) argv[count++] = rest[i];
    RT_TRY(temp_dir_write(dir, "naive.c", source, strlen(source)));
    temp_dir_file(dir, "naive.c", input, sizeof input);
    argv[count++] = input;
    argv[count++] = "-lm";
    argv[count] = NULL;
    return tool_run(argv, RT_BUILD_FAILED, NULL);
}

static bool find(void *library, const char *kind, size_t number, NaiveFunc *func) {
    char name[48];
    snprintf(name, sizeof name, "naive_%s_%zu", kind, number);
    void *symbol = dlsym(library, name);
    memcpy(func, &symbol, sizeof symbol); /* ISO C has no such cast */
    return symbol != NULL;
}

/* The library stays loaded: the process is disposable. */
static bool load(Naive *naive, const char *so) {
    void *library = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    bool ok = library != NULL;
    for (size_t k = 0; k < naive->stage_count && ok; k++) ok = find(library, "stage", k, &naive->stages[k].run);
    for (unsigned k = 0; k < evaluator_output_count(naive->ev) && ok; k++) ok = find(library, "output", k, &naive->outputs[k]);
    return ok;
}

static const char *build(Arena *arena, Naive *naive) {
    TempDir dir;
    char so[640];
    RtError e = temp_dir_create(&dir);
    if (rt_failed(&e)) return "no temporary folder";
    temp_dir_file(&dir, "naive.so", so, sizeof so);
    e = compile(arena, &dir, naive->source, so);
    const char *why = e.status == RT_MISSING ? "there is no C compiler" : rt_failed(&e) ? "the C compiler refused it" : NULL;
    if (!why && !load(naive, so)) why = "it could not be loaded";
    temp_dir_remove(&dir);
    return why;
}

void reference_open(Reference *reference, Arena *arena, const Evaluator *ev, unsigned threads) {
    *reference = (Reference){.why = NULL};
    Naive *naive = naive_print(arena, ev, &reference->why);
    if (naive && naive->steps > most_steps(threads)) reference->why = "it would take too long";
    ANALYZER_ASSUME(naive || reference->why);
    if (!reference->why) reference->why = build(arena, naive);
    if (reference->why) return;
    reference->naive = naive;
    if (naive_prepare(naive, threads)) return;
    reference_close(reference);
    reference->why = "out of memory";
}

void reference_close(Reference *reference) {
    naive_release(reference->naive);
    reference->naive = NULL;
}
