/* Chat completions: the JSON that goes out and the answers that come back, whole or streamed. */
#include "llm_internal.h"

#include <string.h>

#include "json.h"

static const JsonLimits limits = {.bytes = REPLY_LIMIT + (64 << 10), .depth = 32, .values = 20000};

/* More pieces than an answer of REPLY_LIMIT bytes has tokens carry nothing. */
enum { EVENT_COUNT_LIMIT = 500000 };

static bool on_event(void *context, const char *data, size_t size);

void chat_init(ChatAnswer *a) {
    *a = (ChatAnswer){.tokens_in = -1, .tokens_out = -1, .tokens_cached = -1};
    sse_init(&a->sse, on_event, NULL);
    str_init(&a->text);
    str_init(&a->body);
    str_init(&a->error);
}

void chat_release(ChatAnswer *a) {
    sse_release(&a->sse);
    str_release(&a->text);
    str_release(&a->body);
    str_release(&a->error);
}

void chat_reset(ChatAnswer *a) {
    chat_release(a);
    chat_init(a);
}

/* A count that can be meant: a whole number from 0 to 10^12, else -1. */
static int64_t read_count(const Json *usage, const char *key) {
    int64_t n;
    return json_int(json_get(usage, key), &n) && n >= 0 && n <= 1000000000000 ? n : -1;
}

static void read_usage(ChatAnswer *a, const Json *usage) {
    if (json_kind(usage) != JSON_OBJECT) return;
    a->has_usage = true;
    a->tokens_in = read_count(usage, "prompt_tokens");
    a->tokens_out = read_count(usage, "completion_tokens");
    int64_t cached = read_count(json_get(usage, "prompt_tokens_details"), "cached_tokens");
    /* No more can have been cached than there were. */
    a->tokens_cached = cached > a->tokens_in ? a->tokens_in : cached;
}

static void read_error(ChatAnswer *a, const Json *error) {
    if (json_kind(error) == JSON_NULL || a->error.len) return;
    const char *text = json_string(error, json_get_string(error, "message", "an error without a message"));
    str_append(&a->error, text[0] ? text : "an error without a message");
}

static void append_content(ChatAnswer *a, const char *text) {
    size_t size = strlen(text), room = REPLY_LIMIT - a->text.len;
    a->full |= size > room;
    str_append_n(&a->text, text, size < room ? size : room);
}

/* content is a text, or a list of parts of which some are texts. */
static void read_message(ChatAnswer *a, const Json *message) {
    const Json *content = json_get(message, "content");
    if (json_kind(content) == JSON_STRING) append_content(a, json_string(content, ""));
    if (json_kind(content) == JSON_ARRAY)
        for (const Json *part = json_first(content); part; part = json_next(part)) append_content(a, json_get_string(part, "text", ""));
    a->hidden += strlen(json_get_string(message, "reasoning_content", ""));
    a->hidden += strlen(json_get_string(message, "reasoning", ""));
    if (json_get_string(message, "refusal", "")[0]) a->refused = true;
}

static void read_finish(ChatAnswer *a, const Json *choice) {
    const char *reason = json_get_string(choice, "finish_reason", "");
    if (!reason[0]) return;
    a->done = true;
    a->cut |= strcmp(reason, "length") == 0;
    a->filtered |= strcmp(reason, "content_filter") == 0;
}

/* One completion, or one piece of it: they differ in the member that holds the message. */
static bool read_completion(ChatAnswer *a, const char *data, size_t size) {
    char why[128];
    Json *root = json_read(data, size, &limits, why);
    if (json_kind(root) != JSON_OBJECT) {
        json_release(root);
        a->malformed = true;
        return false;
    }
    read_error(a, json_get(root, "error"));
    const Json *choice = json_first(json_get(root, "choices"));
    if (!a->is_stream && !a->error.len && (json_kind(json_get(root, "choices")) != JSON_ARRAY || !choice)) a->malformed = true;
    read_message(a, json_get(choice, "message"));
    read_message(a, json_get(choice, "delta"));
    read_finish(a, choice);
    read_usage(a, json_get(root, "usage"));
    json_release(root);
    return !a->malformed;
}

static bool on_event(void *context, const char *data, size_t size) {
    ChatAnswer *a = context;
    if (++a->events > EVENT_COUNT_LIMIT) {
        a->full = true;
        return false;
    }
    if (size == 6 && memcmp(data, "[DONE]", 6) == 0) {
        a->done = true;
        return false;
    }
    return read_completion(a, data, size) && !a->full && !a->error.len;
}

/* A JSON value begins with a brace, no line of an event stream does. */
static void decide(ChatAnswer *a, bool event_stream, const char *bytes, size_t size) {
    if (a->decided) return;
    size_t i = 0;
    while (i < size && strchr(" \t\r\n", bytes[i]) && bytes[i]) i++;
    if (i == size && !event_stream) return;
    a->decided = true;
    a->is_stream = event_stream || (bytes[i] != '{' && bytes[i] != '<' && bytes[i] != '[');
}

bool chat_feed(ChatAnswer *a, bool event_stream, const char *bytes, size_t size) {
    a->received += size;
    if (a->received > TRANSFER_LIMIT) {
        a->full = true;
        return false;
    }
    decide(a, event_stream, bytes, size);
    if (a->is_stream) {
        a->sse.context = a;
        bool more = sse_feed(&a->sse, bytes, size);
        a->full |= a->sse.too_long;
        return more;
    }
    if (a->body.len + size > limits.bytes) {
        a->full = true;
        return false;
    }
    str_append_n(&a->body, bytes, size);
    return true;
}

void chat_finish(ChatAnswer *a) {
    a->sse.context = a;
    if (a->is_stream && !a->done && !a->full && !a->malformed && !a->error.len) sse_finish(&a->sse);
    if (!a->is_stream && a->body.len && !a->full) {
        if (read_completion(a, a->body.data, a->body.len) && !a->error.len) a->done = true;
    }
}

/* ---- Requests ---- */

static void message(Str *body, const char *role, const char *text) {
    str_printf(body, "{\"role\": \"%s\", \"content\": ", role);
    str_append_json(body, text);
    str_append(body, "}");
}

void chat_request(const LlmConfig *config, const char *fixed, const char *task, int64_t seed, Str *body) {
    str_append(body, "{\"model\": ");
    str_append_json(body, llm_config_get(config, LLM_MODEL));
    str_append(body, ", \"messages\": [");
    message(body, "system", fixed);
    str_append(body, ", ");
    message(body, "user", task);
    str_append(body, "], \"stream\": true, \"stream_options\": {\"include_usage\": true}");
    double temperature = llm_config_number(config, LLM_TEMPERATURE, -1);
    if (temperature >= 0) {
        str_append(body, ", \"temperature\": ");
        str_append_double(body, temperature);
    }
    if (strcmp(llm_config_get(config, LLM_SEND_SEED), "true") == 0) str_printf(body, ", \"seed\": %lld", (long long)(seed & 0x7fffffff));
    str_printf(body, ", \"max_tokens\": %lld}", (long long)llm_config_number(config, LLM_ANSWER_TOKENS, 8192));
}
