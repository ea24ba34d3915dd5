/* Contrastive samples of an island: which, in which order, what is said of them. */
#include "contrast.h"

#include "check.h"

static const char op[] = "operator a {\n    symbols: N;\n    tensors: X[N]: f32; Y[N]: f32;\n    Y = X + 1\n    case c { N=100 }\n}\n";

static Candidate candidate(char *sketch, const char *status, double seconds, unsigned island, bool naive) {
    static char file[512];
    snprintf(file, sizeof file,
             "%ssketch s implements a {\n    symbols: N;\n    tensors: X[N]: f32; Y[N]: f32;\n    x = alloc([N])\n"
             "    load(X[:] -> x)\n    x += 1\n    store(x -> Y[:])\n}\n",
             op);
    Candidate c = {.sketch = sketch, .file = file, .source = "test", .parent = SIZE_MAX, .island = island, .naive = naive, .judged = true};
    snprintf(c.result.status, sizeof c.result.status, "%s", status);
    c.result.seconds = seconds;
    return c;
}

static void compared(void) {
    Str out;
    str_init(&out);
    contrast_compare("constexpr: T = 64;\nfor i in\n for j in\n load(X -> x)\n", "for i in\n load(X -> x)\n load(X -> y)\n", &out);
    CHECK_STR(out.data, "loops 2 against 1, loads 1 against 2, numbers T = 64 against none");
    str_release(&out);
    str_init(&out);
    contrast_compare("load(X -> x)", "load(X -> x)", &out);
    CHECK(strncmp(out.data, "nothing that can be counted", 27) == 0);
    str_release(&out);
}

static void sampled(void) {
    char naive[] = "naive", good[] = "for i in\n for j in\n", middle[] = "for i in\n alloc([N])", slow[] = "alloc([N])", bad[] = "bad",
         elsewhere[] = "elsewhere";
    Candidate list[] = {candidate(naive, "ok", 9, 0, true),      candidate(middle, "ok", 2e-3, 0, false),
                        candidate(slow, "ok", 4e-3, 0, false),   candidate(good, "ok", 1e-3, 0, false),
                        candidate(bad, "mismatch", 0, 0, false), candidate(elsewhere, "ok", 5e-4, 1, false)};
    SearchOptions options = {.target = "openmp"};
    Search s = {.options = &options, .list = list, .count = COUNT_OF(list), .case_name = "c"};
    Contrast c;
    contrast_init(&s, 0, 1, &c);
    CHECK(c.count == 4 && c.list[0].sketch == good && c.list[1].sketch == middle && c.list[2].sketch == slow && c.list[3].sketch == bad);
    CHECK_STR(c.list[1].outcome, "Right, 2 ms, 4.00 times the fastest");
    CHECK_STR(c.list[3].outcome, "Failed: mismatch");
    CHECK(!c.list[3].verified && c.list[3].seconds == 0);
    CHECK_STR(
        c.analysis.data,
        "The fastest of these takes 0.25 of the slowest one's time. What it has against that one: loops 2 against 0, tiles 0 against 1.");
    CHECK_STR(c.roof.data, "Measured 2 ms at c.\nThe predicted time and the roof that binds are not known for openmp.\n");
    contrast_release(&c);
    /* Alone on its island it is all there is. */
    contrast_init(&s, 1, 5, &c);
    CHECK(c.count == 1 && !c.analysis.len);
    CHECK_STR(c.list[0].outcome, "Right, the fastest so far: 0.5 ms");
    contrast_release(&c);
}

/* Whom nobody says to be wrong is not said to have failed. */
static void blamed(void) {
    static const struct {
        const char *status, *said;
    } rows[] = {{"mismatch", "Failed: mismatch"},
                {"near_ties", "Not judged, and not said to be wrong: near ties"},
                {"powerless", "Not judged, and not said to be wrong: powerless"},
                {"slow reference", "Not judged, and not said to be wrong: slow reference"},
                {"compiler_crash", "Not judged, and not said to be wrong: bug"},
                {"slow", "Clearly slower than the fastest"}};
    static char best[] = "the best", other[] = "the other";
    SearchOptions options = {.target = "openmp"};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        Candidate list[] = {candidate(best, "ok", 1e-3, 0, false), candidate(other, rows[i].status, 0, 0, false)};
        Search s = {.options = &options, .list = list, .count = COUNT_OF(list), .case_name = "c"};
        Contrast c;
        contrast_init(&s, 0, 0, &c);
        CHECK(c.count == 2 && !c.list[1].verified);
        CHECK_STR(c.list[1].outcome, rows[i].said);
        contrast_release(&c);
    }
}

int main(void) {
    compared();
    blamed();
    sampled();
    return 0;
}
