/* What one process of a search has evaluated the others read: values are the same with and without the book, a key says all that they hang on, and of many
 * processes that ask one computes, also where the first of them is killed. */
#include "book.h"
#include "graph.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *const rows = "sketchc.ir 1\n"
                                "func @g graph (tensor %X: tensor<[M, N] x f32> in, symbol %M: index, symbol %N: index) {\n"
                                "  %e = exp(%X) : tensor<[M, N] x f32>\n"
                                "  %s = graph.reduce(%e) {kind = \"add\", axes = [1], keepdim = false} : tensor<[M] x f32>\n"
                                "  return(%e, %s) {names = [\"E\", \"S\"]}\n}\n";

static Evaluator *bind(Arena *arena, int64_t m, const char *generator, bool exact) {
    const IrFunc *f = graph_parse(arena, rows)->first;
    SymbolValue values[] = {{"M", m}, {"N", 700}};
    return graph_bind(arena, f, graph_sizes(arena, f, 2, values), generator, false, exact, NULL);
}

static void check_equal(Arena *arena, Evaluator *a, Evaluator *b) {
    for (unsigned k = 0; k < 2; k++) {
        size_t n = (size_t)evaluator_output(a, k)->elements;
        EvalResult x = graph_all(arena, a, k), y = graph_all(arena, b, k);
        CHECK(memcmp(x.value, y.value, n * sizeof *x.value) == 0);
        CHECK(memcmp(x.bound, y.bound, n * sizeof *x.bound) == 0);
        CHECK(memcmp(x.undecided, y.undecided, n) == 0 && memcmp(x.way, y.way, n) == 0);
    }
}

static void test_same_values(Arena *arena) {
    Evaluator *without = bind(arena, 3, "normal", false);
    CHECK(book_create() >= 0);
    Evaluator *first = bind(arena, 3, "normal", false), *second = bind(arena, 3, "normal", false);
    check_equal(arena, without, first);
    BookCounts before = book_counts();
    CHECK(before.computed == 3 * 700 + 3 && before.found == 0 && before.past == 0);
    check_equal(arena, without, second);
    BookCounts after = book_counts();
    CHECK(after.computed == before.computed && after.found == before.computed);
}

/* Other sizes, data or kinds of bounds are other elements. */
static void test_keys(Arena *arena) {
    BookCounts before = book_counts();
    Evaluator *others[] = {bind(arena, 2, "normal", false), bind(arena, 3, "uniform", false), bind(arena, 3, "normal", true)};
    for (size_t i = 0; i < COUNT_OF(others); i++) graph_all(arena, others[i], 0);
    BookCounts after = book_counts();
    CHECK(after.computed - before.computed == 2 * 700 + 3 * 700 + 3 * 700 && after.found == before.found);
}

static const Hash128 key = {77, 78};

static void nap(long ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* In a child: status 0 where the answer is right. */
static pid_t ask_in_child(long delay_ms, bool die) {
    pid_t pid = fork();
    if (pid) return pid;
    int answer[4] = {0};
    BookAnswer found = book_ask(key, answer, sizeof answer, 1);
    if (found == BOOK_YOURS) {
        if (die) kill(getpid(), SIGKILL);
        nap(delay_ms);
        for (int i = 0; i < 4; i++) answer[i] = 5 + i;
        book_put(key, answer);
    }
    _exit(found != BOOK_NONE && answer[0] == 5 && answer[3] == 8 ? 0 : 1);
}

static void test_many_ask(void) {
    enum { MANY = 8 };
    pid_t pids[MANY];
    int status;
    BookCounts before = book_counts();
    pid_t killed = ask_in_child(0, true); /* claims it, and leaves nothing */
    CHECK(waitpid(killed, &status, 0) == killed && WIFSIGNALED(status));
    for (int i = 0; i < MANY; i++) pids[i] = ask_in_child(100, false);
    for (int i = 0; i < MANY; i++) CHECK(waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    BookCounts after = book_counts();
    CHECK(after.computed - before.computed == 2); /* by the killed one, and by one of the others */
    CHECK(after.found - before.found == MANY - 1);
}

/* What does not fit is computed by whoever wants it, and counted. */
static void test_no_room(void) {
    static unsigned char large[64 << 20];
    unsigned past = 0;
    for (uint64_t i = 0; i < 4; i++) past += book_ask((Hash128){1000 + i, 1}, large, sizeof large, 3) == BOOK_NONE;
    CHECK(past >= 2 && book_counts().past == 3 * past);
    int answer[4] = {0};
    CHECK(book_ask(key, answer, sizeof answer, 1) == BOOK_FOUND && answer[0] == 5);
}

/* Who has left knows nothing of it. */
static void test_left(void) {
    int answer[4];
    book_leave();
    CHECK(!book_is_open() && book_counts().computed == 0 && book_ask(key, answer, sizeof answer, 1) == BOOK_NONE);
    CHECK(!book_join(STDIN_FILENO) && !book_is_open());
}

int main(void) {
    Arena *arena = arena_create();
    test_same_values(arena);
    test_keys(arena);
    test_many_ask();
    test_no_room();
    test_left();
    arena_destroy(arena);
    return 0;
}
