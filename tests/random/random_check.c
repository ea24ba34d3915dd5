/* Checks random programs and shrinks those that fail.
 *
 *   random_check [--count=N] [--seed=S] [--jobs=N] [--sizes=N] [--elements=N] [--out=FOLDER]
 *                [--most-failures=N] [--stop] [--artifacts=FOLDER [--arch=sm_90a] [--assemble]] [--passes]
 *                [--biased] [--optimise=-O1]
 *
 * RandomProgram number i has the seed S + i; --seed=day is 1000 times SKETCHC_TEST_SEED, and 1. A failing one is printed at once with the command that runs it
 * again; at the end the first --most-failures of them are shrunk and written to FOLDER (default: the current
 * one) as NAME.sketch, to be put into tests/bugs. With --stop the first failure ends the run. With
 * --artifacts nothing is run: each is compiled to PTX and CUDA C, for a machine with a GPU
 * (bench/gpu_check.py), with a list unordered.txt of what is not to be compared bit for bit; --assemble hands
 * both to CUDA's compilers. With --passes the interpreter runs before and after every pass. With --biased the
 * programs are those of program_generate_biased. C is compiled with the flags that artifacts ask for, -O3 among
 * them, which --optimise replaces. Prints a line of totals for every tenth of the programs (at
 * most 500) and at the end `figure:` lines with the counts. */
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 32 };

typedef struct {
    uint64_t seed;
    size_t count;
    unsigned jobs, most_failures;
    bool stop; /* at the first failure */
    void (*generate)(RandomProgram *p, uint64_t seed);
    const char *program; /* argv[0] */
    Str again;           /* the options that run a program again, but for its seed */
    size_t done, counts[OUTCOME_COUNT];
    struct timespec began;
    const char *out, *folder;
    CheckOptions check;
    Outcome *outcomes; /* shared with the workers */
    void (*work)(const RandomProgram *programs, size_t count, const CheckOptions *options, Outcome *outcomes);
} Run;

static void run_range(const Run *r, size_t begin, size_t end) {
    RandomProgram *programs = calloc(BATCH, sizeof *programs);
    for (size_t i = begin; programs && i < end; i++) r->generate(&programs[i - begin], r->seed + i);
    if (programs) r->work(programs, end - begin, &r->check, &r->outcomes[begin]);
    free(programs);
}

/* In a process of its own: what brings the compiler down must not end the run. */
static pid_t start(Run *r, unsigned job, size_t begin, size_t end) {
    char folder[600];
    fflush(stdout);
    pid_t pid = fork();
    if (pid != 0) return pid;
    snprintf(folder, sizeof folder, "%s/%u", r->folder, job);
    if (r->work == check_batch) r->check.folder = folder;
    run_range(r, begin, end);
    _exit(0);
}

/* After a batch that ended early: each of its programs alone. */
static void run_missing(Run *r, unsigned job, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) {
        int status;
        if (r->outcomes[i].kind != OUTCOME_NONE) continue;
        waitpid(start(r, job, i, i + 1), &status, 0);
        if (r->outcomes[i].kind == OUTCOME_NONE)
            outcome_set(&r->outcomes[i], OUTCOME_BUG, "the compiler crashes or hangs: status %d", status);
    }
}

/* ---- Progress ---- */

static void print_failure(const Run *r, size_t index) {
    unsigned long long seed = r->seed + index;
    const Outcome *o = &r->outcomes[index];
    printf("seed %llu: %s: %s\n  again: %s --seed=%llu --count=1%s\n", seed, outcome_name(o->kind), o->what, r->program, seed,
           r->again.data);
}

static void print_progress(const Run *r) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%zu of %zu after %lld s:", r->done, r->count, (long long)(now.tv_sec - r->began.tv_sec));
    for (unsigned k = OUTCOME_OK; k < OUTCOME_COUNT; k++)
        if (r->counts[k] || k == OUTCOME_OK) printf(" %zu %s", r->counts[k], outcome_name((OutcomeKind)k));
    putchar('\n');
}

static size_t failures(const Run *r) {
    return r->counts[OUTCOME_INVALID] + r->counts[OUTCOME_BUG] + r->counts[OUTCOME_WRONG];
}

static void count_batch(Run *r, size_t begin, size_t end) {
    size_t step = r->count / 10 < 500 ? r->count / 10 + 1 : 500, before = r->done / step;
    for (size_t i = begin; i < end; i++) {
        r->counts[r->outcomes[i].kind]++;
        if (outcome_failed(r->outcomes[i].kind)) print_failure(r, i);
    }
    r->done += end - begin;
    if (r->done / step != before || r->done == r->count) print_progress(r);
    fflush(stdout);
}

typedef struct {
    pid_t pid;
    size_t begin, end;
} Job;

/* Many share a library; what only the interpreter runs may end at once. */
static size_t batch_of(const Run *r) {
    return r->stop && r->work == check_passes ? 1 : BATCH;
}

static void run_all(Run *r) {
    Job jobs[64] = {{0}};
    size_t next = 0;
    unsigned active = 0;
    while (next < r->count || active) {
        if (r->stop && failures(r)) next = r->count;
        for (unsigned j = 0; j < r->jobs && next < r->count; j++) {
            if (jobs[j].pid) continue;
            size_t end = next + batch_of(r) < r->count ? next + batch_of(r) : r->count;
            jobs[j] = (Job){start(r, j, next, end), next, end};
            next = end;
            active++;
        }
        int status;
        if (!active) break;
        pid_t done = wait(&status);
        for (unsigned j = 0; j < r->jobs; j++) {
            if (jobs[j].pid != done) continue;
            run_missing(r, j, jobs[j].begin, jobs[j].end);
            count_batch(r, jobs[j].begin, jobs[j].end);
            jobs[j].pid = 0;
            active--;
        }
    }
}

/* ---- Shrinking ---- */

typedef struct {
    Run *run;
    OutcomeKind kind;
    char what[8]; /* what is said must begin alike: one fault must not turn into another */
} Failure;

static Outcome check_one(Run *r, const RandomProgram *p) {
    Outcome *shared = &r->outcomes[r->count];
    *shared = (Outcome){0};
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        char folder[600];
        snprintf(folder, sizeof folder, "%s/0", r->folder);
        if (r->work == check_batch) r->check.folder = folder;
        r->work(p, 1, &r->check, shared);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    if (shared->kind == OUTCOME_NONE) outcome_set(shared, OUTCOME_BUG, "crash");
    return *shared;
}

static bool still_fails(void *ctx, const RandomProgram *p) {
    Failure *f = ctx;
    Outcome o = check_one(f->run, p);
    return o.kind == f->kind && strncmp(o.what, f->what, strlen(f->what)) == 0;
}

static void write_program(const Run *r, const RandomProgram *p, const Outcome *o) {
    Str text;
    char name[64], path[700];
    str_init(&text);
    snprintf(name, sizeof name, "random_%llu", (unsigned long long)p->seed);
    str_printf(&text, "# %s: %s\n", outcome_name(o->kind), o->what);
    program_print(p, name, &r->check.cases, &text);
    snprintf(path, sizeof path, "%s/%s.sketch", r->out, name);
    if (file_write_atomic(path, text.data, text.len, 0644)) printf("  written: %s\n", path);
    str_release(&text);
}

static void shrink_failure(Run *r, size_t index) {
    RandomProgram p;
    r->generate(&p, r->seed + index);
    Outcome first = check_one(r, &p);
    Outcome o = outcome_failed(first.kind) ? first : r->outcomes[index];
    printf("shrinking seed %llu: %s: %s\n", (unsigned long long)p.seed, outcome_name(o.kind), o.what);
    if (outcome_failed(first.kind)) {
        Failure f = {.run = r, .kind = o.kind};
        snprintf(f.what, sizeof f.what, "%.5s", o.what);
        unsigned tries = program_shrink(&p, still_fails, &f);
        o = check_one(r, &p);
        printf("  shrunk in %u tries: %s\n", tries, o.what);
    } else {
        printf("  alone it does not fail\n");
    }
    write_program(r, &p, &o);
    fflush(stdout);
}

/* For gpu_check.py --unordered: sums of floats that meet in memory come in no fixed order. */
static void list_unordered(const Run *r) {
    char path[700];
    Str text;
    RandomProgram *p = malloc(sizeof *p);
    str_init(&text);
    for (size_t i = 0; p && i < r->count; i++) {
        r->generate(p, r->seed + i);
        if (r->outcomes[i].kind == OUTCOME_OK && program_is_unordered(p))
            str_printf(&text, "r%llu floats are added in memory\n", (unsigned long long)p->seed);
    }
    snprintf(path, sizeof path, "%s/unordered.txt", r->check.folder);
    if (!file_write_atomic(path, text.data ? text.data : "", text.len, 0644)) printf("%s cannot be written\n", path);
    str_release(&text);
    free(p);
}

static int summarise(Run *r) {
    size_t shrunk = 0;
    for (size_t i = 0; i < r->count; i++)
        if (r->outcomes[i].kind == OUTCOME_REFUSED)
            printf("refused: seed %llu: %s\n", (unsigned long long)(r->seed + i), r->outcomes[i].what);
    for (size_t i = 0; i < r->count && shrunk < r->most_failures; i++)
        if (outcome_failed(r->outcomes[i].kind)) {
            shrink_failure(r, i);
            shrunk++;
        }
    printf("figure: random-sketches %zu\n", r->done);
    for (unsigned k = OUTCOME_OK; k < OUTCOME_COUNT; k++)
        if (r->counts[k]) printf("figure: random-sketches-%s %zu\n", outcome_name((OutcomeKind)k), r->counts[k]);
    return failures(r) ? 1 : 0;
}

static bool number(const char *arg, const char *name, unsigned long long *value) {
    size_t length = strlen(name);
    if (strncmp(arg, name, length) != 0) return false;
    *value = strtoull(arg + length, NULL, 10);
    return true;
}

/* What decides how a program is checked, and not which or how many. */
static bool says_how(const char *arg) {
    static const char *const others[] = {"--count=", "--seed=", "--jobs=", "--most-failures=", "--out=", "--stop"};
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (strncmp(arg, others[i], strlen(others[i])) == 0) return false;
    return true;
}

/* A thousand programs a day, of the seed that scripts/test draws by. */
static uint64_t seed_of_day(void) {
    const char *day = getenv("SKETCHC_TEST_SEED");
    return 1000 * (day ? strtoull(day, NULL, 10) : 0) + 1;
}

static bool parse_options(Run *r, int argc, char **argv) {
    unsigned long long v;
    for (int i = 1; i < argc; i++) {
        if (says_how(argv[i])) str_printf(&r->again, " %s", argv[i]);
        if (number(argv[i], "--count=", &v))
            r->count = v;
        else if (strcmp(argv[i], "--seed=day") == 0)
            r->seed = seed_of_day();
        else if (number(argv[i], "--seed=", &v))
            r->seed = v;
        else if (number(argv[i], "--jobs=", &v))
            r->jobs = v < 64 ? (unsigned)v : 64;
        else if (number(argv[i], "--sizes=", &v))
            r->check.cases.count = (unsigned)v;
        else if (number(argv[i], "--elements=", &v))
            r->check.cases.most_elements = (int64_t)v;
        else if (number(argv[i], "--most-failures=", &v))
            r->most_failures = (unsigned)v;
        else if (strcmp(argv[i], "--stop") == 0)
            r->stop = true;
        else if (strcmp(argv[i], "--biased") == 0)
            r->generate = program_generate_biased;
        else if (strncmp(argv[i], "--out=", 6) == 0)
            r->out = argv[i] + 6;
        else if (strncmp(argv[i], "--arch=", 7) == 0)
            r->check.arch = argv[i] + 7;
        else if (strncmp(argv[i], "--optimise=", 11) == 0)
            r->check.optimise = argv[i] + 11;
        else if (strcmp(argv[i], "--passes") == 0) {
            r->work = check_passes;
            r->check.arch = NULL;
            r->check.cases.most_elements = 1000;
        } else if (strcmp(argv[i], "--assemble") == 0)
            r->check.assemble = true;
        else if (strncmp(argv[i], "--artifacts=", 12) == 0) {
            r->work = check_artifacts;
            r->check.folder = argv[i] + 12;
            r->check.arch = "sm_90a";
        } else
            return false;
    }
    return r->count > 0 && r->jobs > 0;
}

static bool make_folders(Run *r, char folder[64]) {
    char path[80];
    snprintf(folder, 64, "/tmp/sketchc-random-XXXXXX");
    if (!mkdtemp(folder)) return false;
    r->folder = folder;
    for (unsigned j = 0; j < r->jobs; j++) {
        snprintf(path, sizeof path, "%s/%u", folder, j);
        if (mkdir(path, 0700) != 0) return false;
    }
    return true;
}

static void remove_folders(const Run *r) {
    char path[80];
    for (unsigned j = 0; j < r->jobs; j++) {
        snprintf(path, sizeof path, "%s/%u", r->folder, j);
        rmdir(path);
    }
    rmdir(r->folder);
}

int main(int argc, char **argv) {
    Run r = {.seed = 1,
             .count = 100,
             .jobs = 2,
             .most_failures = 5,
             .out = ".",
             .check = {.cases = {3, 20000}, .target = "openmp", .arch = "x86-64-v3", .optimise = "-O3"},
             .work = check_batch,
             .generate = program_generate,
             .program = argv[0]};
    char folder[64];
    str_init(&r.again);
    clock_gettime(CLOCK_MONOTONIC, &r.began);
    if (!parse_options(&r, argc, argv)) {
        fputs("see the head of tests/random/random_check.c\n", stderr);
        return 2;
    }
    size_t bytes = (r.count + 1) * sizeof *r.outcomes;
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !make_folders(&r, folder)) return 2;
    r.outcomes = shared;
    run_all(&r);
    if (r.work == check_artifacts) list_unordered(&r);
    int status = summarise(&r);
    remove_folders(&r);
    str_release(&r.again);
    return status;
}
