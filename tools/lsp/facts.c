/* What compiling says beyond what checking says: hints that are not followed, errors of passes, predicted times. It takes
 * longer than an editor waits and may fail in its own ways, so it runs in a process of its own, which an edit ends.
 * (support/child.h waits for its process; a server answers meanwhile.) */
#include "lsp_internal.h"

#include "sketchc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_SKETCHES = 16, MOST_SECONDS = 30, MOST_BYTES = 8 << 20, PATIENCE_MS = 150 };

/* ---- In the process of its own ---- */

static void compile_sketch(const LspServer *s, const Document *d, const Block *sketch, Str *out) {
    sketchc_unit *unit = sketchc_unit_create(d->uri, d->text.data, d->text.len);
    if (!unit) return;
    sketchc_options options = {
        .size = sizeof options, .sketch = *sketch->name ? sketch->name : NULL, .target = s->target ? s->target : "cuda", .arch = s->arch};
    char *report = NULL;
    sketchc_predict(unit, &options, "json", &report);
    char *said = sketchc_diagnostics(unit, "json");
    str_append(out, "{\"name\":");
    str_append_json(out, sketch->name);
    str_printf(out, ",\"prediction\":%s,\"said\":%s}", report ? report : "null", said ? said : "null");
    sketchc_free(report);
    sketchc_free(said);
    sketchc_unit_destroy(unit);
}

static void compile_all(const LspServer *s, const Document *d, Str *out) {
    bool first = true;
    str_append(out, "[");
    for (size_t i = 0, n = 0; i < d->file->block_count && n < MOST_SKETCHES; i++) {
        if (d->file->blocks[i]->kind != BLOCK_SKETCH) continue;
        put_next(out, &first);
        compile_sketch(s, d, d->file->blocks[i], out);
        n++;
    }
    str_append(out, "]");
}

/* The client's pipes are not this process's; it gives way to the server and ends in any case. */
static _Noreturn void work(const LspServer *s, const Document *d, int to) {
    struct rlimit limit = {MOST_SECONDS, MOST_SECONDS};
    int none = open("/dev/null", O_RDWR);
    if (none >= 0) dup2(none, STDIN_FILENO), dup2(none, STDOUT_FILENO);
    setrlimit(RLIMIT_CPU, &limit);
    if (nice(10) < 0) errno = 0;
    Str out;
    str_init(&out);
    compile_all(s, d, &out);
    for (size_t at = 0; at < out.len;) {
        ssize_t n = write(to, out.data + at, out.len - at);
        if (n < 0 && errno != EINTR) break;
        if (n > 0) at += (size_t)n;
    }
    _exit(0);
}

/* ---- In the server ---- */

/* The end of a process is not waited for but looked for: a busy machine takes its time. */
static void reap(LspServer *s, int how) {
    size_t kept = 0;
    for (size_t i = 0; i < s->ending_count; i++)
        if (waitpid(s->ending[i], NULL, how) == 0) s->ending[kept++] = s->ending[i];
    s->ending_count = kept;
}

static void drop_job(LspServer *s) {
    close(s->job.fd);
    if (s->ending_count == COUNT_OF(s->ending)) reap(s, 0);
    s->ending[s->ending_count++] = s->job.pid;
    str_release(&s->job.text);
    s->job.of = NULL;
    reap(s, WNOHANG);
}

void facts_stop(LspServer *s, const Document *d) {
    if (!s->job.of || (d && s->job.of != d)) return;
    kill(s->job.pid, SIGKILL);
    drop_job(s);
}

static bool can_compile(const Document *d) {
    return d->arena && !d->diags.error_count && d->file->sketch;
}

static void start(LspServer *s, Document *d) {
    int ends[2];
    d->wants_facts = false;
    if (pipe(ends) != 0) return;
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        work(s, d, ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return;
    }
    s->job.pid = pid;
    s->job.fd = ends[0];
    s->job.of = d;
    str_init(&s->job.text);
}

static Document *waiting(const LspServer *s) {
    for (size_t i = 0; i < s->documents.len && s->background && !s->job.of; i++)
        if (s->documents.data[i]->wants_facts && can_compile(s->documents.data[i])) return s->documents.data[i];
    return NULL;
}

bool lsp_background_waits(const LspServer *s) {
    return waiting(s) != NULL;
}

void lsp_background_start(LspServer *s) {
    Document *d = waiting(s);
    if (d) start(s, d);
}

void facts_end(LspServer *s) {
    facts_stop(s, NULL);
    reap(s, 0);
}

static void take(LspServer *s, Document *d) {
    char error[128];
    Json *facts = json_read(s->job.text.data, s->job.text.len, NULL, error);
    if (!facts) return; /* it crashed or ran out of its time */
    json_release(d->facts);
    d->facts = facts;
    d->facts_fresh = true;
    server_publish(s, d);
    if (s->can_refresh) server_ask(s, "workspace/inlayHint/refresh");
}

int lsp_background_fd(const LspServer *s) {
    return s->job.of ? s->job.fd : -1;
}

void lsp_background_read(LspServer *s) {
    char piece[1 << 16];
    if (!s->job.of) return;
    ssize_t n = read(s->job.fd, piece, sizeof piece);
    if (n < 0 && errno == EINTR) return;
    if (n > 0) str_append_n(&s->job.text, piece, (size_t)n);
    if (s->job.text.len > MOST_BYTES) facts_stop(s, NULL);
    if (n > 0) return;
    Document *d = s->job.of;
    take(s, d);
    drop_job(s);
}

const Json *facts_of(LspServer *s, const Document *d, const char *sketch, bool begin) {
    if (begin && !s->can_refresh) lsp_background_start(s);
    while (!s->can_refresh && s->job.of == d) {
        struct pollfd p = {.fd = s->job.fd, .events = POLLIN};
        if (poll(&p, 1, PATIENCE_MS) <= 0) break;
        lsp_background_read(s);
    }
    for (const Json *f = json_first(d->facts); f; f = json_next(f))
        if (strcmp(json_get_string(f, "name", ""), sketch) == 0) return f;
    return NULL;
}

/* ---- What was said ---- */

/* A hint that stands at a byte or is the last of its name before it: passes know the loop, not the word. */
static const Occurrence *hint_before(const Document *d, size_t offset, const char *message) {
    const char *name = strchr(message, '"'), *end = name ? strchr(name + 1, '"') : NULL;
    for (size_t i = d->occurrences.len; end && i-- > 0;) {
        const Occurrence *o = &d->occurrences.data[i];
        size_t length = o->span.end - o->span.begin;
        if (o->kind != OCC_HINT || o->span.begin > offset || length != (size_t)(end - name) + 1) continue;
        if (strncmp(d->text.data + o->span.begin + 1, name + 1, length - 2) == 0) return o;
    }
    return NULL;
}

static bool is_hint(const Json *said) {
    return strcmp(json_get_string(said, "name", ""), diag_name(DIAG_hint_not_followed)) == 0;
}

static size_t byte_of(const Json *location, const char *end) {
    int64_t at = json_get_int(json_get(location, end), "offset", 0);
    return at < 0 ? 0 : (size_t)at;
}

void facts_place(const Document *d, const Json *said, size_t *begin, size_t *end) {
    const Json *location = json_get(said, "location");
    *begin = byte_of(location, "begin");
    *end = byte_of(location, "end");
    if (*begin > d->text.len) *begin = d->text.len;
    if (*end > d->text.len || *end < *begin) *end = *begin;
    const Occurrence *o = is_hint(said) ? hint_before(d, *begin, json_get_string(said, "message", "")) : NULL;
    if (o) *begin = o->span.begin, *end = o->span.end;
    const char *line_end = memchr(d->text.data + *begin, '\n', *end - *begin); /* a whole loop would be too much to underline */
    if (line_end) *end = (size_t)(line_end - d->text.data);
}

/* Has checking said it, or is it about how the server compiles? */
static bool is_known(const Document *d, const Json *said, size_t begin) {
    static const DiagId ours[] = {DIAG_other_sketches, DIAG_unbound_constexpr};
    const char *code = json_get_string(said, "code", ""), *message = json_get_string(said, "message", "");
    for (size_t i = 0; i < COUNT_OF(ours); i++)
        if (strcmp(code, diag_code(ours[i])) == 0) return true;
    for (const Diag *diag = d->diags.first; diag; diag = diag->next)
        if (diag->span.begin == begin && strcmp(diag->text, message) == 0) return true;
    return false;
}

void facts_each(const Document *d, FactVisit visit, void *context) {
    if (!d->facts_fresh) return;
    for (const Json *f = json_first(d->facts); f; f = json_next(f)) {
        const Json *list = json_get(json_get(f, "said"), "diagnostics");
        for (const Json *said = json_first(list); said; said = json_next(said))
            if (!is_known(d, said, byte_of(json_get(said, "location"), "begin"))) visit(context, said);
    }
}

/* ---- A hint in words ---- */

typedef struct {
    const Document *d;
    const Occurrence *hint;
    const char *message;
} Reason;

static void match_hint(void *context, const Json *said) {
    Reason *r = context;
    size_t begin, end;
    if (!is_hint(said)) return;
    facts_place(r->d, said, &begin, &end);
    if (begin == r->hint->span.begin) r->message = json_get_string(said, "message", "");
}

void describe_hint(const Document *d, const Occurrence *o, Str *out) {
    Reason r = {.d = d, .hint = o};
    facts_each(d, match_hint, &r);
    for (const Diag *diag = d->diags.first; diag && !r.message; diag = diag->next)
        if (diag->id == DIAG_hint_not_followed && diag->span.begin == o->span.begin) r.message = diag->text;
    const char *arch = json_get_string(json_get(json_first(d->facts), "prediction"), "arch", NULL);
    if (r.message)
        str_printf(out, "\n\nNot followed%s%s: %s.", arch ? " on " : "", arch ? arch : "", strstr(r.message, ": ") + 2);
    else if (d->facts_fresh && arch)
        str_printf(out, "\n\nFollowed on %s.", arch);
}

/* ---- A prediction in words ---- */

static const Json *longest(const Json *list) {
    const Json *found = NULL;
    for (const Json *item = json_first(list); item; item = json_next(item))
        if (!found || json_get_number(item, "seconds", 0) > json_get_number(found, "seconds", 0)) found = item;
    return found;
}

static void put_time(double seconds, Str *out) {
    if (seconds < 1e-3)
        str_printf(out, "%.1f us", 1e6 * seconds);
    else
        str_printf(out, "%.2f ms", 1e3 * seconds);
}

/* Bytes of shared memory, by stages where all buffers have as many. */
static void put_shared(const Json *prediction, const Json *launch, Str *out) {
    const char *entry = json_get_string(launch, "entry", "");
    int64_t bytes = 0, stages = 0;
    for (const Json *b = json_first(json_get(prediction, "buffers")); b; b = json_next(b)) {
        if (strcmp(json_get_string(b, "entry", ""), entry) != 0) continue;
        int64_t n = json_get_int(b, "stages", 1);
        stages = !bytes || stages == n ? n : 0;
        bytes += json_get_int(b, "stage_bytes", 0);
    }
    str_printf(out, "%lld bytes of shared memory", (long long)json_get_int(launch, "shared_bytes", 0));
    if (stages > 1) str_printf(out, " (%lld stages of %lld)", (long long)stages, (long long)bytes);
}

void describe_prediction(const Json *facts, Str *out) {
    const Json *prediction = json_get(facts, "prediction"), *c = longest(json_get(prediction, "cases"));
    const Json *launch = longest(json_get(c, "launches"));
    if (!launch) {
        str_printf(out, "time: not known (%s)",
                   json_kind(prediction) != JSON_OBJECT ? "it does not compile"
                   : c                                  ? "by the cost model"
                                                        : "no case, or no rates of the target");
        return;
    }
    str_printf(out, "%s: ", json_get_string(c, "name", ""));
    put_time(json_get_number(c, "seconds", 0), out);
    str_printf(out, ", %.0f %% of the floor, %s binds; %lld blocks an SM (by %s); ", json_get_number(c, "percent", 0),
               json_get_string(launch, "roof", ""), (long long)json_get_int(launch, "blocks_per_sm", 0),
               json_get_string(launch, "limit", ""));
    put_shared(prediction, launch, out);
}

void describe_predictions(const Json *facts, Str *out) {
    const Json *prediction = json_get(facts, "prediction"), *cases = json_get(prediction, "cases");
    if (!json_count(cases)) return;
    str_printf(out, "\n\nPredicted for %s:\n\n| case | time | of the floor | launch |\n| --- | --- | --- | --- |\n",
               json_get_string(prediction, "arch", ""));
    for (const Json *c = json_first(cases); c; c = json_next(c)) {
        str_printf(out, "| %s | ", json_get_string(c, "name", ""));
        if (json_get_bool(c, "known", false))
            put_time(json_get_number(c, "seconds", 0), out);
        else
            str_append(out, "not known");
        str_printf(out, " | %.0f %% | ", json_get_number(c, "percent", 0));
        for (const Json *l = json_first(json_get(c, "launches")); l; l = json_next(l))
            str_printf(out, "`%s`: %s. ", json_get_string(l, "entry", ""), json_get_string(l, "text", ""));
        str_append(out, "|\n");
    }
}
