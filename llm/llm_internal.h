/* Shared by the files of llm/ only. */
#ifndef LLM_LLM_INTERNAL_H
#define LLM_LLM_INTERNAL_H

#include "llm.h"

enum { REPLY_LIMIT = 2 << 20, TRANSFER_LIMIT = 16 << 20 };

double llm_now(void); /* seconds of the monotonic clock */
/* NUL bytes go, what is no UTF-8 becomes U+FFFD: a recording then holds just what was used. */
void llm_clean_text(Str *text);

/* ---- The key ---- */

typedef struct {
    char text[1025]; /* "" none */
} LlmKey;
/* From the environment, key_file or key_command, in this order; none is no mistake. False with a message that
 * holds nothing of the key. */
bool key_find(const LlmConfig *config, LlmKey *key, Str *error);
void key_forget(LlmKey *key);
/* The key of embedding_endpoint, where that is another host than endpoint's. */
bool key_find_embedding(const LlmConfig *config, LlmKey *key, Str *error);
/* Replaces every occurrence of the key in `text`. */
void key_redact(const LlmKey *key, Str *text);

/* ---- Limits ---- */

typedef struct {
    double max_calls, max_tokens, max_cost;                    /* negative: none */
    double price_in, price_cached, price_out, price_embedding; /* of one token; negative: not known */
    double calls, tokens, cost;
    double reserved_tokens, reserved_cost; /* of requests on their way */
} LlmBudget;
bool budget_init(LlmBudget *b, const LlmConfig *config, Str *error);
/* Takes the worst case of one request: every byte of the prompt a token, the longest answer (0 tokens: vectors, which have a price of
 * their own). False, nothing taken, when a limit would be passed; `error` says which. */
bool budget_reserve(LlmBudget *b, size_t prompt_bytes, double answer_tokens, Str *error);
/* Gives the worst case back and counts what it was. Reported numbers count when they are at least what
 * the bytes that went over the line prove; unknown ones (-1) are estimated from the bytes. */
void budget_settle(LlmBudget *b, size_t prompt_bytes, double answer_tokens, size_t answer_bytes, ProposerReply *reply);

/* ---- Server-sent events ---- */

typedef struct {
    Str line, data;
    bool after_cr, has_data, begun, too_long;
    bool (*event)(void *context, const char *data, size_t size); /* false: stop */
    void *context;
} SseParser;
void sse_init(SseParser *p, bool (*event)(void *, const char *, size_t), void *context);
void sse_release(SseParser *p);
/* Any cut of the stream gives the same events. False: stop, too_long set or the callback said so. */
bool sse_feed(SseParser *p, const char *bytes, size_t size);
bool sse_finish(SseParser *p); /* the stream ended: an event without its blank line counts */

/* ---- Chat completions ---- */

/* An answer as it comes, streamed or whole. Initialised by chat_init; belongs to one request. */
typedef struct {
    SseParser sse;
    Str text;                /* the content, at most REPLY_LIMIT bytes */
    Str body;                /* what is no event stream: one JSON value, or an error page */
    Str error;               /* what the endpoint says is wrong */
    size_t received, hidden; /* bytes; hidden: of reasoning, which is paid for and not kept */
    bool is_stream, decided, done, full, malformed, refused, filtered, cut, has_usage;
    unsigned events;
    int64_t tokens_in, tokens_out, tokens_cached;
} ChatAnswer;
void chat_init(ChatAnswer *a);
void chat_release(ChatAnswer *a);
void chat_reset(ChatAnswer *a);
/* The next bytes; `event_stream`: what the Content-Type says. False: nothing more is wanted. */
bool chat_feed(ChatAnswer *a, bool event_stream, const char *bytes, size_t size);
void chat_finish(ChatAnswer *a);
/* The JSON of a request. */
void chat_request(const LlmConfig *config, const char *fixed, const char *task, int64_t seed, Str *body);

/* ---- Vectors ---- */

enum { EMBEDDING_TEXTS = 16, EMBEDDING_NUMBERS = 8192 }; /* of one request; of one vector */
void embedding_request(const LlmConfig *config, const char *const *texts, size_t count, Str *body);
/* The next bytes of an answer; false: nothing more is wanted. */
bool embedding_feed(ChatAnswer *a, const char *bytes, size_t size);
/* a->text gets count vectors of one length, as doubles in their bytes; else malformed, or error. */
void embedding_finish(ChatAnswer *a, size_t count);

/* ---- HTTP ---- */

typedef struct HttpCall HttpCall;
struct HttpCall {
    /* in; live until the call has ended */
    const char *url, *key, *body;
    size_t body_size;
    double timeout_s, connect_timeout_s, idle_timeout_s;
    bool (*on_data)(HttpCall *call, const char *bytes, size_t size); /* false: enough */
    void *context;
    /* out */
    long status; /* 0: no answer came */
    bool event_stream, stopped, timed_out, connected;
    double retry_after_s; /* negative: not said */
    char error[160];      /* "" when the exchange went to its end */
    void *handle, *headers;
};
typedef struct HttpClient HttpClient;
HttpClient *http_create(Str *error); /* null: there is no libcurl */
void http_destroy(HttpClient *client);
bool http_start(HttpClient *client, HttpCall *call);
HttpCall *http_wait(HttpClient *client, double seconds); /* one that has ended, or null after that time */
void http_stop(HttpClient *client, HttpCall *call);      /* one on its way */

/* ---- Who is asked ---- */

typedef struct {
    const char *fixed, *task;
    size_t fixed_size, task_size, documents_size; /* documents: the beginning of the task */
    Hash128 subject;                              /* of what is asked: the operator and the target, whatever the prompt says of it */
    uint64_t seed;
    unsigned attempt;
    double time_limit_s; /* 0: the settings' */
    double deadline;     /* of seconds_now; 0: none */
    const atomic_int *cancel;
    /* Vectors are wanted of these, and nothing above but limits of time and cancel means anything. The reply's `raw` gets them as doubles in
     * their bytes, one after the other. */
    const char *const *texts;
    size_t text_count; /* at most EMBEDDING_TEXTS */
} LlmPrompt;

typedef struct LlmBackend LlmBackend;
struct LlmBackend {
    const char *name;
    char detail[192];
    unsigned parallel;
    /* Sets everything of the replies but `sketch`. */
    void (*ask)(LlmBackend *self, const LlmPrompt *prompts, size_t count, ProposerReply *replies);
    void (*destroy)(LlmBackend *self);
};
LlmBackend *backend_model(const LlmConfig *config, LlmBudget *budget, Str *error);
/* As backend_model, of embedding_model. `chat` is the other one, or null. */
LlmBackend *backend_embeddings(const LlmConfig *config, LlmBudget *budget, const LlmBackend *chat, Str *error);
LlmBackend *backend_command(const LlmConfig *config, LlmBudget *budget, const char *command, Str *error);
/* Records what `inner` answers, and `vectors` where vectors are wanted (null: nobody gives them, or mode replay); owns both. `inner` is null
 * in mode replay. match: a value of cassette_match; model: the embedding's. */
LlmBackend *backend_cassette(const char *path, const char *mode, const char *match, const char *model, LlmBackend *inner,
                             LlmBackend *vectors, Str *error);

/* Words at spaces, in `arena`, NULL-terminated. */
const char *const *split_words(Arena *arena, const char *text);

#endif
