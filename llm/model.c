/* A model behind an OpenAI-compatible endpoint: requests side by side, retries, limits. */
#include "llm_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct {
    LlmBackend base;
    const LlmConfig *config;
    LlmBudget *budget;
    HttpClient *http;
    LlmKey key;
    Str url;
    double answer_tokens, retry_delay, retry_limit;
    unsigned retries;
    uint64_t jitter;
} Model;

typedef enum { WAITING, FLYING, ENDED } Stage;

typedef struct {
    HttpCall http; /* first: http_wait gives it back */
    const LlmPrompt *prompt;
    ProposerReply *reply;
    ChatAnswer answer;
    Str body;
    Stage stage;
    double not_before, begun, deadline;
} Request;

/* ---- One answer ---- */

static bool on_data(HttpCall *call, const char *bytes, size_t size) {
    Request *r = call->context;
    if (r->prompt->text_count) return embedding_feed(&r->answer, bytes, size);
    return chat_feed(&r->answer, call->event_stream, bytes, size);
}

static void add(int64_t *sum, int64_t n) {
    if (n >= 0) *sum = (*sum < 0 ? 0 : *sum) + n;
}

static void settle(Model *m, Request *r) {
    ProposerReply one;
    proposer_reply_init(&one);
    one.tokens_in = r->answer.tokens_in;
    one.tokens_out = r->answer.tokens_out;
    one.tokens_cached = r->answer.tokens_cached;
    bool read = r->http.status >= 200 && r->http.status < 300;
    size_t bytes = r->answer.text.len + r->answer.hidden + (r->answer.received > 0);
    budget_settle(m->budget, r->body.len, m->answer_tokens, read ? bytes : 0, &one);
    add(&r->reply->tokens_in, one.tokens_in);
    add(&r->reply->tokens_out, one.tokens_out);
    add(&r->reply->tokens_cached, one.tokens_cached);
    if (one.cost >= 0) r->reply->cost = (r->reply->cost < 0 ? 0 : r->reply->cost) + one.cost;
    proposer_reply_release(&one);
}

static void end(Model *m, Request *r, ProposerStatus status, const char *error) {
    r->stage = ENDED;
    r->reply->status = status;
    r->reply->seconds = llm_now() - r->begun;
    str_append(&r->reply->error, error);
    if (!r->prompt->text_count || status == PROPOSED) str_append_n(&r->reply->raw, r->answer.text.data, r->answer.text.len);
    llm_clean_text(&r->reply->error);
    if (!r->prompt->text_count) {
        llm_clean_text(&r->reply->raw);
        key_redact(&m->key, &r->reply->raw);
    }
    key_redact(&m->key, &r->reply->error);
}

/* What the endpoint said went wrong, short and on one line. */
static const char *reason(const Request *r, char out[400]) {
    const char *said = r->answer.error.data;
    if (!r->answer.error.len) return r->http.error;
    size_t n = 0;
    for (; said[n] && n < 300; n++) out[n] = (unsigned char)said[n] < 32 ? ' ' : said[n];
    out[n] = 0;
    return out;
}

static bool may_pass(long status) {
    static const long passing[] = {408, 409, 425, 429, 500, 502, 503, 504, 529};
    for (size_t i = 0; i < COUNT_OF(passing); i++)
        if (passing[i] == status) return true;
    return false;
}

static double next_jitter(Model *m) {
    m->jitter = m->jitter * 6364136223846793005u + 1442695040888963407u;
    return 0.5 + (double)(m->jitter >> 40) / (double)(1 << 24);
}

/* Later, unless there were enough tries or the wait is too long. */
static void try_again(Model *m, Request *r, ProposerStatus otherwise, const char *why) {
    double wait = m->retry_delay * (double)(1u << (r->reply->tries - 1)) * next_jitter(m);
    double asked = r->http.retry_after_s;
    if (asked > wait) wait = asked;
    bool too_long = asked > m->retry_limit || llm_now() + wait > r->deadline;
    if (r->reply->tries > m->retries || too_long) {
        end(m, r, otherwise, why);
        return;
    }
    r->stage = WAITING;
    r->not_before = llm_now() + wait;
}

static void judge_answer(Model *m, Request *r) {
    ChatAnswer *a = &r->answer;
    char text[400];
    if (a->refused || a->filtered)
        end(m, r, PROPOSED_REFUSED, a->filtered ? "the endpoint's filter ended the answer" : "the model declined");
    else if (a->full)
        end(m, r, PROPOSED_TRUNCATED, r->prompt->text_count ? "the answer is longer than 4 MiB" : "the answer is longer than 2 MiB");
    else if (a->cut)
        end(m, r, PROPOSED_TRUNCATED, "the answer reached its limit of tokens");
    else if (a->error.len)
        try_again(m, r, PROPOSER_FAILED, reason(r, text));
    else if (a->malformed)
        try_again(m, r, PROPOSER_FAILED,
                  r->prompt->text_count ? "the answer holds no vectors of the texts" : "the answer is no chat completion");
    else if (!a->done)
        try_again(m, r, a->text.len ? PROPOSED_TRUNCATED : PROPOSER_FAILED, "the answer broke off");
    else
        end(m, r, PROPOSED, "");
}

static void finish_answer(Request *r) {
    if (r->prompt->text_count)
        embedding_finish(&r->answer, r->prompt->text_count);
    else
        chat_finish(&r->answer);
}

static void judge(Model *m, Request *r) {
    char text[400], line[500];
    HttpCall *h = &r->http;
    bool answered = h->status >= 200 && h->status < 300 && !(h->error[0] && !r->answer.received);
    if (answered || r->answer.body.len) finish_answer(r);
    settle(m, r);
    if (h->status >= 200 && h->status < 300) {
        if (h->error[0] && !r->answer.done && !r->answer.full)
            try_again(m, r, r->answer.text.len ? PROPOSED_TRUNCATED : PROPOSER_FAILED, h->error);
        else
            judge_answer(m, r);
        return;
    }
    if (!h->status) {
        try_again(m, r, PROPOSER_FAILED, h->error[0] ? h->error : "no answer");
        return;
    }
    const char *why = reason(r, text);
    snprintf(line, sizeof line, "HTTP status %ld%s%s", h->status, why[0] ? ": " : "", why);
    if (h->status >= 300 && h->status < 400)
        end(m, r, PROPOSER_REJECTED, "the endpoint redirects, which is not followed: name the place itself");
    else if (may_pass(h->status))
        try_again(m, r, PROPOSER_FAILED, line);
    else
        end(m, r, PROPOSER_REJECTED, line);
}

/* ---- All requests ---- */

static void launch(Model *m, Request *r) {
    Str error;
    str_init(&error);
    if (!budget_reserve(m->budget, r->body.len, m->answer_tokens, &error)) {
        end(m, r, PROPOSER_BUDGET, error.data);
    } else {
        chat_reset(&r->answer);
        r->reply->tries++;
        double left = r->deadline - llm_now(), limit = llm_config_number(m->config, LLM_TIMEOUT, 300);
        r->http.timeout_s = left < limit ? (left > 0.01 ? left : 0.01) : limit;
        r->stage = FLYING;
        if (!http_start(m->http, &r->http)) {
            settle(m, r);
            end(m, r, PROPOSER_FAILED, r->http.error);
        }
    }
    str_release(&error);
}

static void prepare(Model *m, Request *r, const LlmPrompt *prompt, ProposerReply *reply) {
    *r = (Request){.prompt = prompt, .reply = reply, .begun = llm_now()};
    chat_init(&r->answer);
    str_init(&r->body);
    if (prompt->text_count)
        embedding_request(m->config, prompt->texts, prompt->text_count, &r->body);
    else
        chat_request(m->config, prompt->fixed, prompt->task, (int64_t)(prompt->seed + prompt->attempt), &r->body);
    double all = llm_config_number(m->config, LLM_TIMEOUT, 300) * (1 + m->retries) + 2 * m->retry_limit;
    r->deadline = r->begun + (prompt->time_limit_s > 0 ? prompt->time_limit_s : all);
    if (prompt->deadline > 0 && prompt->deadline < r->deadline) r->deadline = prompt->deadline;
    r->http = (HttpCall){.url = m->url.data,
                         .key = m->key.text,
                         .body = r->body.data,
                         .body_size = r->body.len,
                         .connect_timeout_s = llm_config_number(m->config, LLM_CONNECT_TIMEOUT, 10),
                         .idle_timeout_s = llm_config_number(m->config, LLM_IDLE_TIMEOUT, 120),
                         .on_data = on_data,
                         .context = r};
}

static bool is_cancelled(const Request *r) {
    return r->prompt->cancel && atomic_load(r->prompt->cancel);
}

/* Starts what may start; the number that is on its way. */
static unsigned start_due(Model *m, Request *requests, size_t count, size_t *open) {
    unsigned flying = 0;
    double now = llm_now();
    for (size_t i = 0; i < count; i++) flying += requests[i].stage == FLYING;
    for (size_t i = 0; i < count && flying < m->base.parallel; i++) {
        if (requests[i].stage != WAITING || requests[i].not_before > now) continue;
        launch(m, &requests[i]);
        flying += requests[i].stage == FLYING;
    }
    *open = 0;
    for (size_t i = 0; i < count; i++) *open += requests[i].stage != ENDED;
    return flying;
}

static void cancel_all(Model *m, Request *requests, size_t count) {
    for (size_t i = 0; i < count; i++) {
        Request *r = &requests[i];
        if (r->stage == ENDED || !is_cancelled(r)) continue;
        if (r->stage == FLYING) {
            http_stop(m->http, &r->http);
            settle(m, r);
        }
        end(m, r, PROPOSER_CANCELLED, "");
    }
}

static void ask(LlmBackend *self, const LlmPrompt *prompts, size_t count, ProposerReply *replies) {
    Model *m = (Model *)self;
    Request *requests = calloc(count ? count : 1, sizeof *requests);
    if (!requests) return;
    for (size_t i = 0; i < count; i++) prepare(m, &requests[i], &prompts[i], &replies[i]);
    size_t open = count;
    while (open) {
        cancel_all(m, requests, count);
        start_due(m, requests, count, &open);
        HttpCall *call = open ? http_wait(m->http, 0.05) : NULL;
        if (call) judge(m, call->context);
    }
    for (size_t i = 0; i < count; i++) {
        chat_release(&requests[i].answer);
        str_release(&requests[i].body);
    }
    free(requests);
}

static void destroy(LlmBackend *self) {
    Model *m = (Model *)self;
    key_forget(&m->key);
    http_destroy(m->http);
    str_release(&m->url);
    free(m);
}

/* ---- Setting up ---- */

static bool is_loopback(const char *host) {
    static const char *const own[] = {"localhost", "127.", "[::1]"};
    for (size_t i = 0; i < COUNT_OF(own); i++) {
        size_t n = strlen(own[i]);
        if (strncmp(host, own[i], n) != 0) continue;
        /* "127." is only an address when digits and points follow; "localhost.example.com" is not
         * here. */
        if (i == 1) n += strspn(host + n, "0123456789.");
        if (!host[n] || host[n] == ':' || host[n] == '/') return true;
    }
    return false;
}

/* scheme://host[:port]/path, nothing else: no user, query or fragment. */
static bool check_endpoint(const LlmConfig *config, const char *url, bool has_key, Str *error) {
    bool plain = strncmp(url, "http://", 7) == 0, secure = strncmp(url, "https://", 8) == 0;
    if (!url[0]) {
        str_append(error, "no endpoint is set: --preset=ollama or --endpoint=http://HOST:PORT/v1");
        return false;
    }
    const char *host = url + (plain ? 7 : 8);
    if ((!plain && !secure) || !isalnum((unsigned char)*host + (*host == '[' ? 'a' - '[' : 0)) || strpbrk(host, "@?# \"<>\\")) {
        str_append(error, "the endpoint must be http://HOST[:PORT]/PATH or https://..., without "
                          "user, query or fragment");
        return false;
    }
    bool allowed = strcmp(llm_config_get(config, LLM_ALLOW_PLAIN_HTTP), "true") == 0;
    if (!plain || !has_key || allowed || is_loopback(host)) return true;
    str_append(error, "the key would travel readable for all; use https, or set allow_plain_http = true");
    return false;
}

static const char chat_path[] = "/chat/completions", embedding_path[] = "/embeddings";

/* Takes `path` off the end of an address. */
static void drop_path(Str *url, const char *path) {
    size_t n = strlen(path);
    if (url->len > n && strcmp(url->data + url->len - n, path) == 0) url->data[url->len -= n] = 0;
}

static void describe(Model *m, const char *url, const char *model, const char *path) {
    const char *host = strstr(url, "://") + 3;
    snprintf(m->base.detail, sizeof m->base.detail, "%.90s at %.*s", model, (int)strcspn(host, "/") < 90 ? (int)strcspn(host, "/") : 90,
             host);
    str_append(&m->url, url);
    while (m->url.len && m->url.data[m->url.len - 1] == '/') m->url.data[--m->url.len] = 0;
    drop_path(&m->url, chat_path);
    drop_path(&m->url, embedding_path);
    str_append(&m->url, path);
}

/* The same scheme, host and port. */
static bool same_origin(const char *a, const char *b) {
    const char *rest = strstr(a, "://");
    size_t n = rest ? (size_t)(rest - a) + 3 + strcspn(rest + 3, "/") : 0;
    return n && strncmp(a, b, n) == 0 && (!b[n] || b[n] == '/');
}

/* Forgets the key that it is given. */
static LlmBackend *make(const LlmConfig *config, LlmBudget *budget, LlmKey *key, double answer_tokens, Str *error) {
    Model *m = calloc(1, sizeof *m);
    HttpClient *http = m ? http_create(error) : NULL;
    if (!http) {
        free(m);
        key_forget(key);
        return NULL;
    }
    *m = (Model){.base = {"model", "", (unsigned)llm_config_number(config, LLM_PARALLEL, 4), ask, destroy},
                 .config = config,
                 .budget = budget,
                 .http = http,
                 .key = *key,
                 .answer_tokens = answer_tokens,
                 .retry_delay = llm_config_number(config, LLM_RETRY_DELAY, 1),
                 .retry_limit = llm_config_number(config, LLM_RETRY_LIMIT, 60),
                 .retries = (unsigned)llm_config_number(config, LLM_RETRIES, 3),
                 .jitter = (uint64_t)(1e9 * llm_now())};
    key_forget(key);
    str_init(&m->url);
    return &m->base;
}

LlmBackend *backend_model(const LlmConfig *config, LlmBudget *budget, Str *error) {
    LlmKey key;
    const char *url = llm_config_get(config, LLM_ENDPOINT), *model = llm_config_get(config, LLM_MODEL);
    if (!model[0]) {
        str_append(error, "no model is named: --model=NAME");
        return NULL;
    }
    if (!key_find(config, &key, error) || !check_endpoint(config, url, key.text[0], error)) return NULL;
    LlmBackend *b = make(config, budget, &key, llm_config_number(config, LLM_ANSWER_TOKENS, 8192), error);
    if (b) describe((Model *)b, url, model, chat_path);
    return b;
}

/* The endpoint's key goes to the endpoint alone. Where the chat model has it, it is not asked for again. */
static bool find_key(const LlmConfig *config, const char *url, const LlmBackend *chat, LlmKey *key, Str *error) {
    if (!same_origin(url, llm_config_get(config, LLM_ENDPOINT))) return key_find_embedding(config, key, error);
    if (!chat || strcmp(chat->name, "model") != 0) return key_find(config, key, error);
    *key = ((const Model *)chat)->key;
    return true;
}

LlmBackend *backend_embeddings(const LlmConfig *config, LlmBudget *budget, const LlmBackend *chat, Str *error) {
    LlmKey key;
    const char *url = llm_config_get(config, LLM_EMBEDDING_ENDPOINT), *model = llm_config_get(config, LLM_EMBEDDING_MODEL);
    if (!url[0]) url = llm_config_get(config, LLM_ENDPOINT);
    if (!url[0]) {
        str_append(error, "embedding_model needs an endpoint: embedding_endpoint = http://HOST:PORT/v1");
        return NULL;
    }
    if (!find_key(config, url, chat, &key, error) || !check_endpoint(config, url, key.text[0], error)) return NULL;
    LlmBackend *b = make(config, budget, &key, 0, error);
    if (b) describe((Model *)b, url, model, embedding_path);
    return b;
}
