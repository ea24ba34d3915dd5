/* Recordings of answers: JSON lines, only ever appended to. A line is a part that many prompts begin with (the fixed
 * one, or the documents chosen; once each) or a call with the rest of its prompt, its answer, its time, sizes and
 * hashes; docs/schemas/cassette.schema.json. Replayed are calls whose prompt and attempt are the same, in the order in
 * which they were recorded; or, by order, the next call with the same subject and attempt. */
#define _GNU_SOURCE
#include "llm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "json.h"

enum { CASSETTE_LIMIT = 1 << 30, LINE_LIMIT = 16 << 20 };

/* What was recorded for one (prompt, attempt), or one (subject, attempt). */
typedef struct Take {
    Json *call;
    struct Take *next;
} Take;

typedef struct {
    LlmBackend base;
    Arena *arena;
    LlmBackend *inner, *vectors; /* null: replay */
    Map *takes, *by_order, *texts;
    Take used; /* stands where nothing is left */
    VEC(Json *) values;
    const char *path, *model; /* model: of vectors */
    bool replays, in_order;
    int fd;
} Cassette;

/* ---- Identity ---- */

static void hash_text(const char *text, size_t size, char hex[33]) {
    hash128_hex(hash128(text, size, (Hash128){0, 0}), hex);
}

/* How many bytes of a number lead to a unit of what is measured, which is another one each time; 0: none. */
static size_t figure_at(const char *text, const char *end) {
    const char *p = text;
    while (p < end && ((*p >= '0' && *p <= '9') || *p == '.' || (p > text && strchr("e+-", *p)))) p++;
    bool measured = end - p > 2 && (strncmp(p, " ms", 3) == 0 || strncmp(p, " %", 2) == 0);
    return measured ? (size_t)(p - text) : 0;
}

/* The prompt's hash covers both parts and where one ends, without what was measured: a prompt is the same when the machine was slower. */
static void hash_prompt(const LlmPrompt *p, char hex[33]) {
    const char *end = p->task + p->task_size;
    Str task;
    str_init(&task);
    for (const char *at = p->task; at < end;) {
        size_t figure = at == p->task || !strchr("0123456789.e+-", at[-1]) ? figure_at(at, end) : 0;
        str_append_char(&task, figure ? '#' : *at);
        at += figure ? figure : 1;
    }
    Hash128 fixed = hash128(p->fixed, p->fixed_size, (Hash128){0, 0});
    hash128_hex(hash128(task.data, task.len, fixed), hex);
    str_release(&task);
}

/* Of a request for vectors: of the model and the texts, and where each ends. */
static void hash_texts(const char *model, const LlmPrompt *p, char hex[33]) {
    Hash128 hash = hash128(model, strlen(model), (Hash128){0, 0});
    for (size_t i = 0; i < p->text_count; i++) hash = hash128(p->texts[i], strlen(p->texts[i]), hash);
    hash128_hex(hash, hex);
}

static const char *key_of(Cassette *c, const char *hex, unsigned attempt) {
    return arena_printf(c->arena, "%s %u", hex, attempt);
}

/* ---- Reading ---- */

static void append(Cassette *c, Map *map, const char *member, Json *call) {
    Take *take = ARENA_NEW(c->arena, Take), *last;
    take->call = call;
    const char *key = key_of(c, json_get_string(call, member, ""), (unsigned)json_get_int(call, "attempt", 0));
    if (!(last = map_get(map, key))) {
        map_set(map, c->arena, key, take);
        return;
    }
    while (last->next) last = last->next;
    last->next = take;
}

static void keep(Cassette *c, Json *value) {
    const char *kind = json_get_string(value, "kind", "");
    VEC_PUSH(c->arena, &c->values, value);
    if (strcmp(kind, "text") == 0) map_set(c->texts, c->arena, json_get_string(value, "hash", ""), value);
    if (strcmp(kind, "embedding") == 0)
        map_set(c->texts, c->arena, arena_printf(c->arena, "vectors %s", json_get_string(value, "request", "")), value);
    if (strcmp(kind, "call") != 0) return;
    append(c, c->takes, "prompt", value);
    append(c, c->by_order, "subject", value);
}

/* A line without an end is one whose writer was killed: it never counted as recorded. */
static bool read_all(Cassette *c, Str *error) {
    Str text;
    JsonLimits limits = {.bytes = LINE_LIMIT, .depth = 8, .values = 1000};
    str_init(&text);
    bool ok = file_read_regular(c->path, CASSETTE_LIMIT, &text);
    bool absent = !ok && errno == ENOENT && c->inner;
    if (!ok && !absent) str_printf(error, "cannot read the cassette %s: %s", c->path, strerror(errno));
    unsigned number = 0;
    for (char *p = text.data, *end; ok && (end = strchr(p, '\n')); p = end + 1) {
        char why[128];
        number++;
        if (end == p) continue;
        Json *value = json_read(p, (size_t)(end - p), &limits, why);
        if (json_kind(value) == JSON_OBJECT) {
            keep(c, value);
            continue;
        }
        json_release(value);
        str_printf(error, "%s:%u: no line of a cassette", c->path, number);
        ok = false;
    }
    str_release(&text);
    return ok || absent;
}

/* ---- Replaying ---- */

static ProposerStatus status_named(const char *name) {
    for (unsigned i = 0; i < PROPOSER_STATUS_COUNT; i++)
        if (strcmp(proposer_status_name((ProposerStatus)i), name) == 0) return (ProposerStatus)i;
    return PROPOSER_FAILED;
}

/* By prompt the last take serves for all later requests; by order each take serves once. */
static const Json *next_call(Cassette *c, const char *hex, const LlmPrompt *prompt) {
    char subject[33];
    hash128_hex(prompt->subject, subject);
    const char *key = key_of(c, c->in_order ? subject : hex, prompt->attempt);
    Map *map = c->in_order ? c->by_order : c->takes;
    Take *take = c->replays ? map_get(map, key) : NULL;
    if (!take || take == &c->used) return NULL;
    if (take->next || c->in_order) map_set(map, c->arena, key, take->next ? take->next : &c->used);
    return take->call;
}

static bool replay(Cassette *c, const char *hex, const LlmPrompt *prompt, ProposerReply *reply) {
    const Json *call = next_call(c, hex, prompt);
    if (!call) return false;
    reply->other_prompt = strcmp(json_get_string(call, "prompt", ""), hex) != 0;
    reply->status = status_named(json_get_string(call, "status", ""));
    str_append(&reply->raw, json_get_string(call, "answer", ""));
    str_append(&reply->error, json_get_string(call, "error", ""));
    reply->tokens_in = json_get_int(call, "tokens_in", -1);
    reply->tokens_out = json_get_int(call, "tokens_out", -1);
    reply->tokens_cached = json_get_int(call, "tokens_cached", -1);
    reply->cost = json_get_number(call, "cost", -1);
    reply->seconds = json_get_number(call, "seconds", 0);
    reply->replayed = true;
    return true;
}

/* ---- Recording ---- */

static bool put_line(Cassette *c, const Str *line) {
    size_t done = 0;
    while (done < line->len) {
        ssize_t n = write(c->fd, line->data + done, line->len - done);
        if (n < 0 && errno != EINTR) return false;
        if (n > 0) done += (size_t)n;
    }
    return fdatasync(c->fd) == 0 || errno == EINVAL;
}

/* A text that many prompts share; `hex` becomes its hash. */
static void put_text(Cassette *c, const char *text, size_t size, char hex[33], Str *line) {
    hash_text(text, size, hex);
    if (map_get(c->texts, hex)) return;
    map_set(c->texts, c->arena, hex, c);
    str_printf(line, "{\"kind\": \"text\", \"hash\": \"%s\", \"bytes\": %zu, \"text\": ", hex, size);
    str_append_json_n(line, text, size);
    str_append(line, "}\n");
}

static void put_number(Str *line, const char *name, double value) {
    str_printf(line, ", \"%s\": ", name);
    str_append_double(line, value);
}

static bool record(Cassette *c, const LlmPrompt *p, const char *hex, const ProposerReply *r) {
    char fixed[33], documents[33], subject[33], answer[33];
    Str line;
    str_init(&line);
    hash128_hex(p->subject, subject);
    hash_text(r->raw.data, r->raw.len, answer);
    put_text(c, p->fixed, p->fixed_size, fixed, &line);
    put_text(c, p->task, p->documents_size, documents, &line);
    str_printf(&line,
               "{\"kind\": \"call\", \"time\": %lld, \"subject\": \"%s\", \"attempt\": %u, "
               "\"prompt\": \"%s\", \"fixed\": \"%s\", \"documents\": \"%s\"",
               (long long)time(NULL), subject, p->attempt, hex, fixed, documents);
    str_printf(&line, ", \"status\": \"%s\", \"task_bytes\": %zu, \"answer_bytes\": %zu, \"answer_hash\": \"%s\"",
               proposer_status_name(r->status), p->task_size, r->raw.len, answer);
    put_number(&line, "seconds", r->seconds);
    str_printf(&line, ", \"tries\": %u, \"tokens_in\": %lld, \"tokens_out\": %lld, \"tokens_cached\": %lld", r->tries,
               (long long)r->tokens_in, (long long)r->tokens_out, (long long)r->tokens_cached);
    put_number(&line, "cost", r->cost);
    str_append(&line, ", \"error\": ");
    str_append_json(&line, r->error.data);
    str_append(&line, ", \"task\": ");
    str_append_json_n(&line, p->task + p->documents_size, p->task_size - p->documents_size);
    str_append(&line, ", \"answer\": ");
    str_append_json_n(&line, r->raw.data, r->raw.len);
    str_append(&line, "}\n");
    bool ok = put_line(c, &line);
    str_release(&line);
    return ok;
}

/* ---- Vectors ---- */

static bool replay_vectors(Cassette *c, const LlmPrompt *prompt, ProposerReply *reply) {
    char hex[33];
    hash_texts(c->model, prompt, hex);
    const Json *call = c->replays ? map_get(c->texts, arena_printf(c->arena, "vectors %s", hex)) : NULL;
    if (!call) return false;
    bool whole = str_read_base64(&reply->raw, json_get_string(call, "vectors", ""));
    reply->status = whole ? status_named(json_get_string(call, "status", "")) : PROPOSER_FAILED;
    str_append(&reply->error, json_get_string(call, "error", ""));
    reply->tokens_in = json_get_int(call, "tokens_in", -1);
    reply->tokens_out = 0;
    reply->cost = json_get_number(call, "cost", -1);
    reply->seconds = json_get_number(call, "seconds", 0);
    return reply->replayed = true;
}

static bool record_vectors(Cassette *c, const LlmPrompt *p, const ProposerReply *r) {
    char hex[33];
    Str line;
    str_init(&line);
    hash_texts(c->model, p, hex);
    str_printf(&line,
               "{\"kind\": \"embedding\", \"time\": %lld, \"request\": \"%s\", \"status\": \"%s\", \"model\": ", (long long)time(NULL), hex,
               proposer_status_name(r->status));
    str_append_json(&line, c->model);
    put_number(&line, "seconds", r->seconds);
    str_printf(&line, ", \"tries\": %u, \"tokens_in\": %lld", r->tries, (long long)r->tokens_in);
    put_number(&line, "cost", r->cost);
    str_append(&line, ", \"error\": ");
    str_append_json(&line, r->error.data);
    str_append(&line, ", \"texts\": [");
    for (size_t i = 0; i < p->text_count; i++) {
        if (i) str_append(&line, ", ");
        str_append_json(&line, p->texts[i]);
    }
    str_append(&line, "], \"vectors\": \"");
    str_append_base64(&line, r->raw.data, r->raw.len);
    str_append(&line, "\"}\n");
    bool ok = put_line(c, &line);
    str_release(&line);
    return ok;
}

/* What is no answer but the end of asking stays out: another run may have the budget. */
static bool is_worth_recording(ProposerStatus status) {
    return status != PROPOSER_BUDGET && status != PROPOSER_CANCELLED;
}

static void ask_inner(Cassette *c, const LlmPrompt *prompts, size_t count, ProposerReply *replies) {
    LlmBackend *who = prompts[0].text_count ? c->vectors : c->inner;
    who->ask(who, prompts, count, replies);
    for (size_t i = 0; i < count; i++) {
        char hex[33];
        if (!prompts[i].text_count) hash_prompt(&prompts[i], hex);
        if (!is_worth_recording(replies[i].status)) continue;
        bool recorded = prompts[i].text_count ? record_vectors(c, &prompts[i], &replies[i]) : record(c, &prompts[i], hex, &replies[i]);
        if (!recorded && !replies[i].error.len) str_printf(&replies[i].error, "not recorded: %s", strerror(errno));
    }
}

static void ask(LlmBackend *self, const LlmPrompt *prompts, size_t count, ProposerReply *replies) {
    Cassette *c = (Cassette *)self;
    LlmPrompt *open = calloc(count + 1, sizeof *open);
    size_t *places = calloc(count + 1, sizeof *places), left = 0;
    ProposerReply *answers = calloc(count + 1, sizeof *answers);
    for (size_t i = 0; open && places && answers && i < count; i++) {
        char hex[33] = "";
        if (prompts[i].text_count) {
            if (replay_vectors(c, &prompts[i], &replies[i])) continue;
            if (!c->vectors) {
                str_append(&replies[i].error, "the cassette holds no vectors of these texts");
                continue;
            }
        } else {
            hash_prompt(&prompts[i], hex);
            if (replay(c, hex, &prompts[i], &replies[i])) continue;
        }
        if (!prompts[i].text_count && !c->inner) {
            str_printf(&replies[i].error,
                       c->in_order ? "the cassette holds no further answer for this operator and "
                                     "target (prompt %s, attempt %u)"
                                   : "the cassette holds no answer to prompt %s, attempt %u",
                       hex, prompts[i].attempt);
            continue;
        }
        open[left] = prompts[i];
        answers[left] = replies[i];
        places[left++] = i;
    }
    if (left) ask_inner(c, open, left, answers);
    for (size_t i = 0; i < left; i++) replies[places[i]] = answers[i];
    free(open);
    free(places);
    free(answers);
}

static void destroy(LlmBackend *self) {
    Cassette *c = (Cassette *)self;
    if (c->inner) c->inner->destroy(c->inner);
    if (c->vectors) c->vectors->destroy(c->vectors);
    for (size_t i = 0; i < c->values.len; i++) json_release(c->values.data[i]);
    if (c->fd >= 0) close(c->fd);
    arena_destroy(c->arena);
    free(c);
}

/* Appends, never through a link; a torn last line is closed off so that the next one stands alone.
 */
static bool open_for_writing(Cassette *c, Str *error) {
    c->fd = open(c->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat info;
    char last = '\n';
    bool ok = c->fd >= 0 && fstat(c->fd, &info) == 0 && S_ISREG(info.st_mode);
    if (ok && info.st_size && pread(c->fd, &last, 1, info.st_size - 1) == 1 && last != '\n') {
        off_t at = info.st_size;
        while (at > 0 && pread(c->fd, &last, 1, at - 1) == 1 && last != '\n') at--;
        ok = ftruncate(c->fd, at) == 0;
    }
    if (!ok) str_printf(error, "cannot write the cassette %s: %s", c->path, strerror(errno));
    return ok;
}

LlmBackend *backend_cassette(const char *path, const char *mode, const char *match, const char *model, LlmBackend *inner,
                             LlmBackend *vectors, Str *error) {
    Cassette *c = calloc(1, sizeof *c);
    if (!c) {
        str_append(error, "out of memory");
        if (inner) inner->destroy(inner);
        if (vectors) vectors->destroy(vectors);
        return NULL;
    }
    Arena *arena = arena_create();
    *c = (Cassette){.base = {inner ? inner->name : "replay", "", inner ? inner->parallel : 64, ask, destroy},
                    .arena = arena,
                    .inner = inner,
                    .vectors = vectors,
                    .model = arena_strdup(arena, model),
                    .takes = map_create(arena),
                    .by_order = map_create(arena),
                    .texts = map_create(arena),
                    .path = arena_strdup(arena, path),
                    .replays = strcmp(mode, "record") != 0,
                    .in_order = strcmp(match, "order") == 0,
                    .fd = -1};
    snprintf(c->base.detail, sizeof c->base.detail, "%.180s", inner ? inner->detail : path);
    if (read_all(c, error) && (!inner || open_for_writing(c, error))) return &c->base;
    destroy(&c->base);
    return NULL;
}
