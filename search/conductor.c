/* Failures: their kinds, and what the compiler's diagnostics and reports say of them. */
#include "conductor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "json.h"

enum { EDIT_LIMIT = 256 }; /* edits of the fix-its of one answer; further ones wait for the next round */

typedef enum { NOBODY, SKETCH } Blame;

static const struct {
    const char *name;
    Blame blame;
    const char *codes, *statuses, *advice;
} failures[FAILURE_COUNT] = {
    [FAILURE_NONE] = {"none", NOBODY, "", "ok skipped", ""},
#define FAILURE(id, name, blame, codes, statuses, advice) [FAILURE_##id] = {name, blame, codes, statuses, advice},
#include "failures.def"
#undef FAILURE
};

const char *failure_name(FailureKind kind) {
    return failures[kind].name;
}
const char *failure_advice(FailureKind kind) {
    return failures[kind].advice;
}

bool failure_is_sketchs(FailureKind kind) {
    return failures[kind].blame == SKETCH;
}

FailureKind failure_of_code(const char *code) {
    FailureKind best = FAILURE_SYNTAX;
    size_t longest = 0;
    for (unsigned k = 1; k < FAILURE_COUNT; k++)
        for (const char *p = failures[k].codes; *p;) {
            size_t n = strcspn(p, " ");
            if (n > longest && strncmp(p, code, n) == 0) {
                longest = n;
                best = (FailureKind)k;
            }
            p += n + (p[n] == ' ');
        }
    return best;
}

FailureKind failure_of_status(const char *status) {
    size_t length = strlen(status);
    for (unsigned k = 0; k < FAILURE_COUNT; k++)
        for (const char *p = failures[k].statuses; *p;) {
            size_t n = strcspn(p, " ");
            if (n == length && strncmp(p, status, n) == 0) return (FailureKind)k;
            p += n + (p[n] == ' ');
        }
    return FAILURE_BUG;
}

/* A launch has a limit of its own within that of verifying; the compiler and the reference are not the sketch's. */
FailureKind failure_of_hang(const char *why) {
    static const struct {
        const char *at;
        FailureKind kind;
    } phases[] = {{"verifying", FAILURE_REFERENCE}, {"compiling", FAILURE_BUG}, {"formatting", FAILURE_BUG}};
    for (size_t i = 0; i < COUNT_OF(phases); i++)
        if (strncmp(why, phases[i].at, strlen(phases[i].at)) == 0) return phases[i].kind;
    return FAILURE_TIMEOUT;
}

FailureKind failure_of_result(const char *text) {
    if (strncmp(text, SAME_CODE, strlen(SAME_CODE)) == 0) return FAILURE_NONE;
    for (FailureKind kind = FAILURE_NONE; kind < FAILURE_COUNT; kind++)
        if (strcmp(failure_name(kind), text) == 0) return kind;
    return failure_of_status(text);
}

/* ---- Fix-its ---- */

typedef struct {
    size_t begin, end;
    const char *text;
} Edit;

static int by_begin(const void *a, const void *b) {
    const Edit *x = a, *y = b;
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1) : (x->end > y->end) - (x->end < y->end);
}

static bool read_edit(const Json *json, size_t from, size_t size, Edit *edit) {
    const Json *place = json_get(json, "location");
    int64_t begin = json_get_int(json_get(place, "begin"), "offset", -1);
    int64_t end = json_get_int(json_get(place, "end"), "offset", -1);
    if (begin < (int64_t)from || end < begin || end > (int64_t)size) return false;
    *edit = (Edit){(size_t)begin, (size_t)end, json_get_string(json, "text", "")};
    return true;
}

/* All edits of a fix-it or none. */
static size_t read_fix(const Json *fix, size_t from, size_t size, Edit *edits, size_t room) {
    size_t n = 0;
    for (const Json *e = json_first(json_get(fix, "edits")); e; e = json_next(e))
        if (n == room || !read_edit(e, from, size, &edits[n++])) return 0;
    return n;
}

static bool overlaps(const Edit *edits, size_t count, const Edit *more, size_t added) {
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < added; k++)
            if (edits[i].begin <= more[k].end && more[k].begin <= edits[i].end) return true;
    return false;
}

unsigned conductor_apply_fixes(const char *json, size_t from, Str *source) {
    char error[128];
    Edit edits[EDIT_LIMIT], own[EDIT_LIMIT];
    size_t count = 0;
    unsigned applied = 0;
    Json *root = json_read(json, strlen(json), NULL, error);
    for (const Json *d = json_first(json_get(root, "diagnostics")); d; d = json_next(d)) {
        if (strcmp(json_get_string(d, "severity", ""), "error") != 0) continue;
        size_t n = read_fix(json_get(d, "fix"), from, source->len, own, EDIT_LIMIT - count);
        if (!n || overlaps(edits, count, own, n)) continue;
        memcpy(edits + count, own, n * sizeof *own);
        count += n;
        applied++;
    }
    qsort(edits, count, sizeof *edits, by_begin);
    Str mended;
    str_init(&mended);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (edits[i].begin < at) continue;
        str_append_n(&mended, source->data + at, edits[i].begin - at);
        str_append(&mended, edits[i].text);
        at = edits[i].end;
    }
    str_append_n(&mended, source->data + at, source->len - at);
    str_release(source);
    *source = mended;
    json_release(root);
    return applied;
}

/* ---- Reports ---- */

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Are the two the same but for blanks? */
static bool same_text(const char *a, size_t a_size, const char *b, size_t b_size) {
    size_t i = 0, k = 0;
    for (;;) {
        while (i < a_size && is_blank(a[i])) i++;
        while (k < b_size && is_blank(b[k])) k++;
        if (i == a_size || k == b_size) return i == a_size && k == b_size;
        if (a[i++] != b[k++]) return false;
    }
}

/* Does the operator state this very constraint? Its items stand between commas, colons, semicolons
 * and line ends. */
static bool operator_states(const char *operator_text, const char *constraint, size_t size) {
    for (const char *p = operator_text; *p;) {
        size_t n = strcspn(p, ",;:\n{}#");
        if (same_text(p, n, constraint, size)) return true;
        p += n;
        if (*p == '#') p += strcspn(p, "\n");
        if (*p) p++;
    }
    return false;
}

/* A size is skipped for its bytes, or because a constraint does not hold. */
static bool evades(const Json *item, const char *operator_text) {
    if (strcmp(json_get_string(item, "status", ""), "skipped") != 0) return false;
    const char *text = json_get_string(item, "text", ""), *begin = strstr(text, "the constraint '");
    if (!begin) return false;
    begin = strchr(begin, '\'') + 1;
    const char *end = strchr(begin, '\'');
    return !end || !operator_states(operator_text, begin, (size_t)(end - begin));
}

uint64_t seed_drawn(void) {
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) return 1;
    return seed >> 11 ? seed >> 11 : 1;
}

/* What was wrong, without what would have been right: the same data judge the next answer, which must not hold results. */
static void tell_without_result(const char *said, Str *text) {
    for (const char *want; (want = strstr(said, ", want ")); said = want) {
        str_append_n(text, said, (size_t)(want - said));
        want += strcspn(want, ";\n");
    }
    str_append(text, said);
}

static void tell(const Json *item, Str *text) {
    str_printf(text, "at %s: %s", json_get_string(item, "sizes", ""), json_get_string(item, "status", ""));
    const char *check = json_get_string(item, "check", ""), *more = json_get_string(item, "text", "");
    if (check[0]) str_printf(text, " (%s)", check);
    if (more[0]) str_append(text, ": ");
    tell_without_result(more, text);
    str_append_char(text, '\n');
}

FailureKind conductor_read_report(const char *json, const char *operator_text, Str *text) {
    enum { TOLD = 4 };
    char error[128];
    FailureKind kind = FAILURE_NONE;
    unsigned told = 0, passed = 0;
    Json *root = json_read(json, strlen(json), NULL, error);
    for (const Json *item = json_first(json_get(root, "cases")); item; item = json_next(item)) {
        FailureKind one = failure_of_status(json_get_string(item, "status", "bug"));
        if (one == FAILURE_TIMEOUT && !strstr(json_get_string(item, "text", ""), "launch")) one = FAILURE_REFERENCE;
        if (evades(item, operator_text)) one = FAILURE_EVASION;
        passed += strcmp(json_get_string(item, "status", ""), "ok") == 0;
        if (one == FAILURE_NONE) continue;
        if (kind == FAILURE_NONE) kind = one;
        if (told++ < TOLD) tell(item, text);
    }
    const char *status = json_get_string(root, "status", "bug"), *whole = json_get_string(root, "text", "");
    if (kind == FAILURE_NONE) {
        kind = failure_of_status(status);
        /* Nothing wrong was found because nothing was looked at. */
        if (kind == FAILURE_NONE && !passed) kind = FAILURE_EVASION;
        if (kind != FAILURE_NONE) str_printf(text, "%s: %s\n", status, whole[0] ? whole : "no size was verified");
    }
    json_release(root);
    return kind;
}

void conductor_repair_request(const Judgement *j, ProposerCandidate *candidate, ProposerRequest *request) {
    *candidate = (ProposerCandidate){.sketch = j->sketch.data,
                                     .outcome = j->outcome.data,
                                     .verified = j->failure == FAILURE_NONE,
                                     .first_line = j->first_line,
                                     .seconds = j->seconds};
    request->task = PROPOSE_REPAIR;
    request->failed = candidate;
    request->failure = failure_name(j->failure);
    request->blameless = !failure_is_sketchs(j->failure);
    request->diagnostics = j->diagnostics.data;
    request->explanation = j->explanation.data;
    request->verdict = j->verdict.data;
    request->roof = j->roof.data;
    request->strategy = failure_advice(j->failure);
}
