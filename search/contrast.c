/* contrast.h */
#include "contrast.h"

#include "conductor.h"

#include <string.h>

/* ---- What separates two sketches ---- */

static unsigned count_of(const char *text, const char *word) {
    unsigned count = 0;
    for (const char *p = text; (p = strstr(p, word)); p += strlen(word)) count++;
    return count;
}

/* The rest of the first line that begins with `word`, behind blanks; 0 bytes when there is none. */
static const char *line_of(const char *text, const char *word, size_t *size) {
    const char *p = strstr(text, word);
    *size = p ? strcspn(p += strlen(word), ";\n") : 0;
    return p ? p : "";
}

void contrast_compare(const char *good, const char *bad, Str *out) {
    static const struct {
        const char *word, *name;
    } counted[] = {{"for ", "loops"},
                   {"\"parallel\"", "parallel hints"},
                   {"\"pipeline\"", "pipeline hints"},
                   {"\"unroll\"", "unroll hints"},
                   {"alloc([", "tiles"},
                   {"load(", "loads"},
                   {"store(", "stores"},
                   {"gemm(", "gemms"},
                   {"matmul(", "plain products"},
                   {"reduce_", "reductions"},
                   {"sum(", "sums"},
                   {"exp(", "exponentials"}};
    size_t n, k, begin = out->len;
    for (size_t i = 0; i < COUNT_OF(counted); i++) {
        unsigned a = count_of(good, counted[i].word), b = count_of(bad, counted[i].word);
        if (a != b) str_printf(out, "%s%s %u against %u", out->len > begin ? ", " : "", counted[i].name, a, b);
    }
    const char *a = line_of(good, "constexpr: ", &n), *b = line_of(bad, "constexpr: ", &k);
    if (n != k || memcmp(a, b, n) != 0)
        str_printf(out, "%snumbers %.*s against %.*s", out->len > begin ? ", " : "", n ? (int)n : 4, n ? a : "none", k ? (int)k : 4,
                   k ? b : "none");
    if (out->len == begin) str_append(out, "nothing that can be counted: the order and the extents");
}

/* ---- Samples ---- */

static bool is_taken(const Contrast *c, const char *sketch) {
    for (size_t i = 0; i < c->count; i++)
        if (c->list[i].sketch == sketch) return true;
    return false;
}

static void take(const Candidate *one, double best, Contrast *c) {
    if (!one || c->count == CONTRAST_SAMPLES || is_taken(c, one->sketch)) return;
    Str *outcome = &c->outcomes[c->count];
    bool runs = candidate_runs(one);
    if (candidate_failure(one) == FAILURE_SLOW)
        str_append(outcome, "Clearly slower than the fastest");
    else if (!runs && !failure_is_sketchs(candidate_failure(one)))
        str_printf(outcome, "Not judged, and not said to be wrong: %s", failure_name(candidate_failure(one)));
    else if (!runs)
        str_printf(outcome, "Failed: %s", one->result.status);
    else if (one->result.seconds <= best)
        str_printf(outcome, "Right, the fastest so far: %.4g ms", 1e3 * one->result.seconds);
    else
        str_printf(outcome, "Right, %.4g ms, %.2f times the fastest", 1e3 * one->result.seconds, one->result.seconds / best);
    c->list[c->count++] =
        (ProposerCandidate){.sketch = one->sketch, .outcome = outcome->data, .verified = runs, .seconds = runs ? one->result.seconds : 0};
}

static const Candidate *slowest(const Search *s, unsigned island) {
    const Candidate *worst = NULL;
    for (size_t i = 0; i < s->count; i++) {
        const Candidate *c = &s->list[i];
        if (c->naive || c->island != island || !candidate_runs(c)) continue;
        if (!worst || c->result.seconds > worst->result.seconds) worst = c;
    }
    return worst;
}

/* The last of the island that was judged and does not run. */
static const Candidate *failed(const Search *s, unsigned island) {
    for (size_t i = s->count; i-- > 0;)
        if (s->list[i].judged && !s->list[i].same && s->list[i].island == island && !candidate_runs(&s->list[i])) return &s->list[i];
    return NULL;
}

static void analyse(const Contrast *c, Str *out) {
    const ProposerCandidate *good = NULL, *bad = NULL;
    for (size_t i = 0; i < c->count; i++) {
        const ProposerCandidate *one = &c->list[i];
        if (!one->verified) continue;
        if (!good || one->seconds < good->seconds) good = one;
        if (!bad || one->seconds > bad->seconds) bad = one;
    }
    if (!good || good == bad) return;
    str_printf(out,
               "The fastest of these takes %.2f of the slowest one's time. What it has against that one: ", good->seconds / bad->seconds);
    contrast_compare(good->sketch, bad->sketch, out);
    str_append(out, ".");
}

void contrast_init(const Search *s, unsigned island, size_t parent, Contrast *c) {
    *c = (Contrast){.count = 0};
    for (size_t i = 0; i < CONTRAST_SAMPLES; i++) str_init(&c->outcomes[i]);
    str_init(&c->analysis);
    str_init(&c->roof);
    const Candidate *p = &s->list[parent];
    size_t elite = search_best(s, island), best = search_best(s, SEARCH_ISLANDS);
    double fastest = best == SIZE_MAX ? 0 : s->list[best].result.seconds;
    take(elite == SIZE_MAX ? NULL : &s->list[elite], fastest, c);
    take(p, fastest, c);
    take(slowest(s, island), fastest, c);
    take(failed(s, island), fastest, c);
    analyse(c, &c->analysis);
    JudgeOptions o = {.target = s->options->target, .arch = s->options->arch};
    if (candidate_runs(p)) conductor_roof(&o, p->file, s->case_name, p->result.seconds, p->result.percent_of_roof, &c->roof);
}

void contrast_release(Contrast *c) {
    for (size_t i = 0; i < CONTRAST_SAMPLES; i++) str_release(&c->outcomes[i]);
    str_release(&c->analysis);
    str_release(&c->roof);
}
