/* A simulated run over the search's own judges: of COUNT candidates one in EVERY crashes, hangs, floods or eats memory.
 * All others must be judged, none blamed for another one's fault, and none run again where the store knows it.
 *
 *     test_pool FOLDER COUNT EVERY     FOLDER: empty; status 1 when something is wrong
 *     test_pool judge FOLDER EVERY     a judge */
#include "search_internal.h"

#include "json.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEMORY = 512 << 20 };

/* ---- What candidates do ---- */

/* Where each start of a candidate leaves a file; test_pool serves one folder, as a judge or as the search. */
static const char *folder;
static unsigned every; /* so manieth candidate has a fault */

/* How often the candidate was begun, this time included. */
static unsigned count_start(unsigned number) {
    char path[600];
    for (unsigned n = 1;; n++) {
        snprintf(path, sizeof path, "%s/start-%u-%u", folder, number, n);
        int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
        if (fd < 0) continue;
        close(fd);
        return n;
    }
}

static volatile char *volatile eaten;
static volatile int depth;

static int recurse(int n) {
    volatile char frame[4096];
    frame[0] = (char)n;
    depth = n;
    if (depth < 0) return 0;
    return recurse(n + 1) + frame[0];
}

static void do_segfault(unsigned starts) {
    (void)starts;
    raise(SIGSEGV);
}
static void do_abort(unsigned starts) {
    (void)starts;
    abort();
}
static void do_exit(unsigned starts) {
    (void)starts;
    _exit(0);
}
static void do_stack(unsigned starts) {
    (void)starts;
    recurse(0);
}
static void do_loop(unsigned starts) {
    (void)starts;
    for (;;) depth = 1; /* no sum: it would overflow before the limit on a fast machine */
}
static void do_sleep(unsigned starts) {
    (void)starts;
    for (;;) pause();
}
/* Output without end. */
static void do_flood(unsigned starts) {
    static const char text[1 << 16];
    (void)starts;
    for (;;)
        for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) (void)!write(fd, text, sizeof text);
}
/* Nonsense into everything that is open, as after damage to memory. */
static void do_scribble(unsigned starts) {
    char text[256];
    memset(text, 0x5a, sizeof text);
    (void)starts;
    for (int fd = STDERR_FILENO + 1; fd < 64; fd++) (void)!write(fd, text, sizeof text);
}
static void do_eat(unsigned starts) {
    (void)starts;
    for (;;) {
        eaten = malloc(1 << 20);
        if (eaten) memset((void *)(uintptr_t)eaten, 1, 1 << 20);
    }
}
/* Dies and leaves somebody behind in a group of its own. */
static void do_leave(unsigned starts) {
    char path[600];
    (void)starts;
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        for (;;) pause();
    }
    snprintf(path, sizeof path, "%s/left-%ld", folder, (long)pid);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    if (fd >= 0) close(fd);
    raise(SIGBUS);
}
/* Ended from outside the first time, as the system does with the wrong one when memory runs out. */
static void do_killed(unsigned starts) {
    if (starts == 1) raise(SIGKILL);
}
/* The judge is ended while it is judged. */
static void do_orphan(unsigned starts) {
    if (starts > 1) return;
    kill(getppid(), SIGKILL);
    for (;;) pause();
}

/* What each does, and what must be said of it. */
static const struct {
    const char *name, *status;
    void (*act)(unsigned starts);
    double limit_s;
    unsigned starts;
} faults[] = {{"segfault", "compiler_crash", do_segfault, 60, 1},
              {"loop", "hang", do_loop, 1, 1},
              {"abort", "compiler_crash", do_abort, 60, 1},
              {"flood", "hang", do_flood, 1, 1},
              {"exit", "compiler_crash", do_exit, 60, 1},
              {"eat", "compiler_memory", do_eat, 60, 1},
              {"scribble", "compiler_crash", do_scribble, 60, 1},
              {"leave", "compiler_crash", do_leave, 60, 1},
              {"killed", "ok", do_killed, 60, 2},
              {"stack", "compiler_crash", do_stack, 60, 1},
              {"orphan", "ok", do_orphan, 60, 2},
              {"sleep", "hang", do_sleep, 1, 1}};

static size_t fault_of(unsigned number) {
    return number % every ? SIZE_MAX : number / every % COUNT_OF(faults);
}

static double seconds_of(unsigned number) {
    return 1e-3 * (number % 97 + 1);
}

static void simulate(const char *request, size_t size, ChildChannel *channel, Str *answer) {
    char error[128];
    Json *root = json_read(request, size, NULL, error);
    unsigned number = (unsigned)strtoul(json_get_string(root, "file", "0"), NULL, 10);
    json_release(root);
    size_t fault = fault_of(number);
    unsigned starts = count_start(number);
    child_phase(channel, fault == SIZE_MAX ? 60 : faults[fault].limit_s, "the simulation");
    if (fault != SIZE_MAX) faults[fault].act(starts);
    str_append(answer, "{\"status\":\"ok\",\"seconds\":");
    str_append_double(answer, seconds_of(number));
    str_printf(answer, ",\"code\":\"%u\"}", number);
}

/* ---- The search's side ---- */

static unsigned problems;

static void complain(unsigned number, const char *what, const char *got) {
    size_t fault = fault_of(number);
    if (problems++ < 10) fprintf(stderr, "candidate %u (%s): %s %s\n", number, fault == SIZE_MAX ? "well" : faults[fault].name, what, got);
}

static unsigned starts_of(unsigned number) {
    char path[600];
    for (unsigned n = 1;; n++) {
        snprintf(path, sizeof path, "%s/start-%u-%u", folder, number, n);
        if (access(path, F_OK) != 0) return n - 1;
    }
}

static void make(Search *s, unsigned count) {
    s->list = calloc(count, sizeof *s->list);
    s->count = count;
    for (unsigned i = 0; i < count; i++) {
        char text[64];
        snprintf(text, sizeof text, "%u", i);
        s->list[i].file = strdup(text);
        snprintf(text, sizeof text, "sketch number_%u { }", i);
        s->list[i].sketch = strdup(text);
        s->list[i].source = "simulated";
    }
}

static void release(Search *s) {
    for (size_t i = 0; i < s->count; i++) {
        free(s->list[i].file);
        free(s->list[i].sketch);
    }
    free(s->list);
    pool_destroy(s->pool);
}

static void check(const Search *s, unsigned i, bool again) {
    const Candidate *c = &s->list[i];
    size_t fault = fault_of(i);
    const char *want = fault == SIZE_MAX ? "ok" : faults[fault].status;
    bool right = strcmp(want, "ok") == 0; /* what is right is started once more: it is timed */
    if (!c->judged) complain(i, "was not judged", "");
    if (strcmp(c->result.status, want) != 0) complain(i, "was said to be", c->result.status);
    if (right && c->result.seconds != seconds_of(i)) complain(i, "has another one's time", "");
    if (starts_of(i) != (fault == SIZE_MAX ? 1 : faults[fault].starts) + right) complain(i, "was run", "another number of times");
    if (again && !c->stored) complain(i, "was not found in the store", "");
}

static void run(unsigned count, SearchOptions *options, bool again) {
    Search s = {.options = options, .operator_text = (char[]){"operator o { }"}, .case_name = "large"};
    s.pool_options = (PoolOptions){.argv = options->judge, .slots = 4, .memory_limit = MEMORY};
    s.pool = pool_create(&s.pool_options);
    make(&s, count);
    search_evaluate(&s, 0, 0);
    for (unsigned i = 0; i < count; i++) {
        check(&s, i, again);
        StoreKey key = search_key(&s, s.list[i].sketch);
        if (options->store && !again) store_put(options->store, &key, &s.list[i].result, "simulated", NULL);
    }
    release(&s);
}

/* Is a process still there that a candidate left behind? */
static void check_left(void) {
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, "left-", 5) == 0) {
            char path[64], state = 'X';
            snprintf(path, sizeof path, "/proc/%.20s/stat", e->d_name + 5);
            FILE *f = fopen(path, "r");
            if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = 'X';
            if (f) fclose(f);
            if (!strchr("XZ", state)) complain(0, "left a process:", e->d_name);
        }
    if (d) closedir(d);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    folder = argv[2];
    every = (unsigned)strtoul(argv[3], NULL, 10);
    if (strcmp(argv[1], "judge") == 0) {
        pool_serve(simulate);
        _exit(0);
    }
    folder = argv[1];
    unsigned count = (unsigned)strtoul(argv[2], NULL, 10);
    const char *judge[] = {"/proc/self/exe", "judge", folder, argv[3], NULL};
    char path[600], *message = NULL;
    snprintf(path, sizeof path, "%s/store.db", folder);
    Store *store = store_open(path, &message);
    SearchOptions options = {.target = "openmp", .judge = judge, .store = store};
    free(message);
    double begin = seconds_now();
    run(count, &options, false);
    double took = seconds_now() - begin;
    if (store) run(count, &options, true);
    check_left();
    printf("figure: simulated_jobs %u, %u with a fault, %u problems, %.1f s%s\n", count, (count + every - 1) / every, problems, took,
           store ? "" : ", no store");
    store_close(store);
    return problems || count < every * COUNT_OF(faults) ? 1 : 0;
}
