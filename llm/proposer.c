/* The proposer over whoever is asked: prompt, question, the sketch in the answer, sums. */
#include "llm_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    Proposer base;
    Arena *arena;
    const LlmConfig *config;
    LlmBackend *backend;
    LlmBackend *vectors; /* who is asked for vectors: one of its own, or `backend` where that is a cassette; null: nobody */
    LlmBudget budget;
    LlmTotals totals;
    Map *sent;        /* hashes of prompts */
    size_t described; /* questions about operators, of this run */
} Asker;

typedef struct {
    Str fixed, task;
} Texts;

static Hash128 subject_of(const ProposerRequest *r) {
    const char *arch = r->arch ? r->arch : "";
    Hash128 machine = hash128(arch, strlen(arch), hash128(r->target, strlen(r->target), (Hash128){0, 0}));
    return hash128(r->operator_text, strlen(r->operator_text), machine);
}

static void make_prompt(const Asker *a, const ProposerRequest *request, Texts *texts, LlmPrompt *prompt) {
    ProposerRequest sized = *request;
    if (!sized.token_budget) sized.token_budget = (size_t)llm_config_number(a->config, LLM_PROMPT_TOKENS, 12000);
    str_init(&texts->fixed);
    str_init(&texts->task);
    size_t documents = llm_prompt(&sized, &texts->fixed, &texts->task, NULL);
    llm_clean_text(&texts->fixed);
    llm_clean_text(&texts->task);
    *prompt = (LlmPrompt){.fixed = texts->fixed.data,
                          .task = texts->task.data,
                          .fixed_size = texts->fixed.len,
                          .task_size = texts->task.len,
                          .documents_size = documents,
                          .subject = subject_of(request),
                          .seed = request->seed,
                          .attempt = request->attempt,
                          .time_limit_s = request->time_limit_s,
                          .deadline = request->deadline,
                          .cancel = request->cancel};
}

static void note_sent(Asker *a, const LlmPrompt *p) {
    char hex[33];
    Hash128 seed = {p->attempt, p->fixed_size};
    hash128_hex(hash128(p->task, p->task_size, seed), hex);
    if (map_get(a->sent, hex))
        a->totals.equal_prompts++;
    else
        map_set(a->sent, a->arena, hex, a);
}

static void add(int64_t *sum, int64_t n) {
    if (n > 0) *sum += n;
}

static void count_reply(Asker *a, bool answered, const ProposerReply *r) {
    LlmTotals *t = &a->totals;
    t->calls++;
    t->tries += r->tries;
    t->replayed += r->replayed;
    t->other_prompts += r->other_prompt;
    t->failures += !answered;
    add(&t->tokens_in, r->tokens_in);
    add(&t->tokens_out, r->tokens_out);
    add(&t->tokens_cached, r->tokens_cached);
    t->seconds += r->seconds;
    if (r->cost >= 0) t->cost = (t->cost < 0 ? 0 : t->cost) + r->cost;
}

static void read_reply(Asker *a, bool words, ProposerReply *r) {
    bool begun, answered = r->status == PROPOSED || r->status == PROPOSED_TRUNCATED;
    bool found = answered && !words && proposer_extract_sketch(r->raw.data, r->raw.len, &r->sketch, &begun);
    if (r->status == PROPOSED && !found && !words) {
        r->status = begun ? PROPOSED_TRUNCATED : PROPOSED_NOTHING;
        str_append(&r->error, begun ? "the sketch block is not closed" : "the answer holds no sketch block");
    }
    count_reply(a, answered, r);
}

static void propose(Proposer *self, const ProposerRequest *requests, size_t count, ProposerReply *replies) {
    Asker *a = (Asker *)self;
    Texts *texts = calloc(count + 1, sizeof *texts);
    LlmPrompt *prompts = calloc(count + 1, sizeof *prompts);
    if (texts && prompts) {
        for (size_t i = 0; i < count; i++) {
            make_prompt(a, &requests[i], &texts[i], &prompts[i]);
            note_sent(a, &prompts[i]);
        }
        a->backend->ask(a->backend, prompts, count, replies);
        for (size_t i = 0; i < count; i++) {
            read_reply(a, requests[i].task == PROPOSE_SHORTEN || requests[i].task == PROPOSE_DESCRIBE, &replies[i]);
            str_release(&texts[i].fixed);
            str_release(&texts[i].task);
        }
    }
    free(texts);
    free(prompts);
}

static void destroy(Proposer *self) {
    Asker *a = (Asker *)self;
    if (a->backend) a->backend->destroy(a->backend);
    if (a->vectors && a->vectors != a->backend) a->vectors->destroy(a->vectors);
    arena_destroy(a->arena);
}

static LlmBackend *open_backend(Asker *a, Str *error) {
    const LlmConfig *config = a->config;
    const char *who = llm_config_get(config, LLM_PROPOSER), *path = llm_config_get(config, LLM_CASSETTE),
               *match = llm_config_get(config, LLM_CASSETTE_MATCH);
    const char *mode = llm_config_get(config, LLM_CASSETTE_MODE);
    LlmBackend *inner = NULL;
    if (strcmp(match, "order") == 0 && (!path[0] || strcmp(mode, "replay") != 0)) {
        str_append(error, "--cassette-match=order is for --cassette-mode=replay: what is asked anew "
                          "is matched by its prompt");
        return NULL;
    }
    const char *model = llm_config_get(config, LLM_EMBEDDING_MODEL);
    if (path[0] && strcmp(mode, "replay") == 0) return backend_cassette(path, mode, match, model, NULL, NULL, error);
    if (strncmp(who, "command:", 8) == 0)
        inner = backend_command(config, &a->budget, who + 8, error);
    else if (strcmp(who, "model") == 0)
        inner = backend_model(config, &a->budget, error);
    else
        str_append(error, "no proposer of this kind is asked");
    if (inner && model[0] && !(a->vectors = backend_embeddings(config, &a->budget, inner, error))) {
        inner->destroy(inner);
        return NULL;
    }
    if (!inner || !path[0]) return inner;
    LlmBackend *vectors = a->vectors;
    a->vectors = NULL;
    return backend_cassette(path, mode, match, model, inner, vectors, error);
}

static bool check_embedding(const LlmConfig *config, Str *error) {
    static const LlmSetting others[] = {LLM_EMBEDDING_ENDPOINT, LLM_EMBEDDING_KEY_FILE};
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (llm_config_get(config, others[i])[0] && !llm_config_get(config, LLM_EMBEDDING_MODEL)[0]) {
            str_append(error, "embedding_endpoint and embedding_key_file need embedding_model");
            return false;
        }
    return true;
}

Proposer *llm_proposer_create(const LlmConfig *config, Str *error) {
    Arena *arena = arena_create();
    Asker *a = ARENA_NEW(arena, Asker);
    *a = (Asker){.arena = arena, .config = config, .sent = map_create(arena), .totals = {.cost = -1}};
    if (budget_init(&a->budget, config, error) && check_embedding(config, error)) a->backend = open_backend(a, error);
    if (!a->backend) {
        arena_destroy(arena);
        return NULL;
    }
    bool taped = llm_config_get(config, LLM_CASSETTE)[0] && llm_config_get(config, LLM_EMBEDDING_MODEL)[0];
    if (taped) a->vectors = a->backend;
    a->base = (Proposer){a->backend->name, a->backend->detail, a->backend->parallel, propose, destroy};
    return &a->base;
}

void llm_totals(const Proposer *proposer, LlmTotals *totals) {
    *totals = ((const Asker *)proposer)->totals;
}

/* ---- Vectors ---- */

typedef struct {
    const char **texts; /* each once */
    double **vectors;   /* null: not there */
    size_t count, size;
} Wanted;

/* Which of the wanted texts it is. */
static size_t place_of(Wanted *w, const char *text) {
    size_t i = 0;
    while (i < w->count && strcmp(w->texts[i], text) != 0) i++;
    if (i == w->count) w->texts[w->count++] = text;
    return i;
}

static void keep_call(const LlmEmbedding *e, const char *who, const char *task, const ProposerReply *r) {
    StoreCall call = proposer_call(who, r);
    call.task = task;
    if (e->store) store_put_call(e->store, -1, &call);
}

/* The vectors of one answer; false when they are not as long as the others. */
static bool take_vectors(Wanted *w, const size_t *places, size_t count, const ProposerReply *r) {
    size_t size = r->raw.len / sizeof(double) / count;
    if (r->status != PROPOSED || !size || r->raw.len != size * count * sizeof(double) || (w->size && size != w->size)) return false;
    w->size = size;
    for (size_t i = 0; i < count; i++) {
        double *vector = malloc(size * sizeof *vector);
        if (!vector) return false;
        memcpy(vector, r->raw.data + i * size * sizeof *vector, size * sizeof *vector);
        free(w->vectors[places[i]]);
        w->vectors[places[i]] = vector;
    }
    return true;
}

/* Asks for all that are not there, some texts a request, side by side. */
static bool ask_vectors(LlmEmbedding *e, Wanted *w) {
    Asker *a = (Asker *)e->proposer;
    size_t *places = calloc(w->count + 1, sizeof *places), left = 0, requests = 0;
    const char **texts = calloc(w->count + 1, sizeof *texts);
    LlmPrompt *prompts = calloc(w->count / EMBEDDING_TEXTS + 1, sizeof *prompts);
    ProposerReply *replies = calloc(w->count / EMBEDDING_TEXTS + 1, sizeof *replies);
    bool ok = places && texts && prompts && replies;
    for (size_t i = 0; ok && i < w->count; i++) {
        if (w->vectors[i]) continue;
        if (left % EMBEDDING_TEXTS == 0) {
            proposer_reply_init(&replies[requests]);
            prompts[requests++] = (LlmPrompt){.texts = texts + left, .cancel = e->cancel};
        }
        prompts[requests - 1].text_count++;
        texts[left] = w->texts[i];
        places[left++] = i;
    }
    if (requests) a->vectors->ask(a->vectors, prompts, requests, replies);
    for (size_t i = 0; i < requests; i++) {
        count_reply(a, replies[i].status == PROPOSED, &replies[i]);
        replies[i].tokens_out = 0;
        keep_call(e, llm_config_get(a->config, LLM_EMBEDDING_MODEL), "embed", &replies[i]);
        bool taken = take_vectors(w, places + i * EMBEDDING_TEXTS, prompts[i].text_count, &replies[i]);
        if (!taken && !e->error.len) str_append(&e->error, replies[i].error.len ? replies[i].error.data : "vectors of different lengths");
        ok = ok && taken;
        proposer_reply_release(&replies[i]);
    }
    free(places);
    free(texts);
    free(prompts);
    free(replies);
    return ok;
}

/* Those that the store knows; none where they are not of one length, as when a model's name has got another meaning. */
static void find_vectors(const LlmEmbedding *e, const char *model, Wanted *w) {
    bool one_length = true;
    for (size_t i = 0; e->store && i < w->count; i++) {
        size_t size;
        w->vectors[i] = store_find_vector(e->store, model, w->texts[i], &size);
        one_length &= !w->vectors[i] || !w->size || size == w->size;
        if (w->vectors[i]) w->size = size;
    }
    for (size_t i = 0; !one_length && i < w->count; i++) {
        free(w->vectors[i]);
        w->vectors[i] = NULL;
        w->size = 0;
    }
}

static double *embed(void *context, const char *const *texts, size_t count, size_t *size) {
    LlmEmbedding *e = context;
    const Asker *a = (const Asker *)e->proposer;
    const char *model = llm_config_get(a->config, LLM_EMBEDDING_MODEL);
    Wanted w = {calloc(count + 1, sizeof *w.texts), calloc(count + 1, sizeof *w.vectors), 0, 0};
    size_t *places = calloc(count + 1, sizeof *places);
    double *all = NULL;
    if (w.texts && w.vectors && places) {
        for (size_t i = 0; i < count; i++) places[i] = place_of(&w, texts[i]);
        find_vectors(e, model, &w);
        if (ask_vectors(e, &w)) all = malloc((count * w.size + 1) * sizeof *all);
    }
    for (size_t i = 0; all && i < count; i++) memcpy(all + i * w.size, w.vectors[places[i]], w.size * sizeof *all);
    for (size_t i = 0; all && e->store && i < w.count; i++) store_put_vector(e->store, model, w.texts[i], w.vectors[i], w.size);
    for (size_t i = 0; w.vectors && i < w.count; i++) free(w.vectors[i]);
    *size = w.size;
    free(w.texts);
    free(w.vectors);
    free(places);
    return all;
}

bool llm_embedder(LlmEmbedding *embedding, Embedder *embedder) {
    const Asker *a = (const Asker *)embedding->proposer;
    *embedder = (Embedder){embed, embedding};
    return a && a->vectors;
}

/* ---- Descriptions ---- */

/* Questions about operators leave most of a run's questions to sketches. */
enum { DESCRIPTION_WORDS = 80, DESCRIBED_A_RUN = 16, SHARE_OF_CALLS = 4 };

/* The first words of an answer in small letters: text of others, of which nothing but words is used. "" where it has none: asking again
 * is of no use. */
static char *words_of(const Str *raw) {
    char *text = malloc(raw->len + 2);
    size_t n = 0, words = 0;
    for (size_t i = 0; text && i < raw->len && words < DESCRIPTION_WORDS; i++) {
        char c = raw->data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (letter)
            text[n++] = (char)(c | 0x20);
        else if (n && text[n - 1] != ' ')
            text[n++] = ' ', words++;
    }
    if (text) text[n] = '\0';
    return text;
}

/* How many may still be asked for in this run. */
static size_t describable(const Asker *a) {
    double most = llm_config_number(a->config, LLM_MAX_CALLS, -1), share = (most - a->totals.calls) / SHARE_OF_CALLS;
    size_t left = DESCRIBED_A_RUN - a->described;
    if (most < 0 || share >= (double)left) return left;
    return share > 0 ? (size_t)share : 0;
}

/* Asks for the first `most` that are not there; false: one could not be had. */
static bool ask_descriptions(LlmEmbedding *e, const char *const *operators, size_t count, size_t most, char **texts) {
    Proposer *p = e->proposer;
    ProposerRequest requests[DESCRIBED_A_RUN];
    ProposerReply replies[DESCRIBED_A_RUN];
    size_t places[DESCRIBED_A_RUN], n = 0;
    bool ok = true;
    for (size_t i = 0; i < count && n < most; i++) {
        if (texts[i]) continue;
        requests[n] = (ProposerRequest){
            .task = PROPOSE_DESCRIBE, .operator_name = "", .operator_text = operators[i], .target = "", .arch = "", .cancel = e->cancel};
        proposer_reply_init(&replies[n]);
        places[n++] = i;
    }
    if (n) p->propose(p, requests, n, replies);
    ((Asker *)p)->described += n;
    for (size_t i = 0; i < n; i++) {
        char **text = &texts[places[i]];
        keep_call(e, p->detail, "describe", &replies[i]);
        if (replies[i].status == PROPOSED) *text = words_of(&replies[i].raw);
        if (!*text && !e->undescribed.len)
            str_printf(&e->undescribed, "%s; graphs alone are compared",
                       replies[i].error.len ? replies[i].error.data : "the answer was cut");
        if (*text && !**text && !e->undescribed.len) str_append(&e->undescribed, "a description without words");
        ok = ok && *text;
        if (*text && e->store) store_put_description(e->store, p->detail, operators[places[i]], *text);
        proposer_reply_release(&replies[i]);
    }
    return ok;
}

static bool describe(void *context, const char *const *operators, size_t count, char **texts) {
    LlmEmbedding *e = context;
    size_t missing = 0;
    for (size_t i = 0; i < count; i++) {
        texts[i] = e->store ? store_find_description(e->store, e->proposer->detail, operators[i]) : NULL;
        missing += !texts[i];
    }
    size_t most = describable((const Asker *)e->proposer);
    bool ok = ask_descriptions(e, operators, count, most, texts);
    if (ok && missing > most) {
        ok = false;
        str_printf(&e->undescribed, "%s%zu of %zu operators are still without; later runs ask for them, graphs alone are compared",
                   e->undescribed.len ? "; " : "", missing - most, count);
    }
    for (size_t i = 0; !ok && i < count; i++) free(texts[i]);
    return ok;
}

bool llm_describer(LlmEmbedding *embedding, Describer *describer) {
    const Asker *a = (const Asker *)embedding->proposer;
    *describer = (Describer){describe, embedding};
    return a && strcmp(llm_config_get(a->config, LLM_DESCRIBE), "true") == 0;
}
