/* Vectors of texts by an endpoint's model: the JSON that goes out and comes back, and who keeps them. */
#include "llm_internal.h"

#include <math.h>

#include "json.h"

static const JsonLimits limits = {.bytes = 4 << 20, .depth = 8, .values = (EMBEDDING_TEXTS + 1) * EMBEDDING_NUMBERS};

void embedding_request(const LlmConfig *config, const char *const *texts, size_t count, Str *body) {
    str_append(body, "{\"model\": ");
    str_append_json(body, llm_config_get(config, LLM_EMBEDDING_MODEL));
    str_append(body, ", \"input\": [");
    for (size_t i = 0; i < count; i++) {
        if (i) str_append(body, ", ");
        str_append_json(body, texts[i]);
    }
    str_append(body, "]}");
}

bool embedding_feed(ChatAnswer *a, const char *bytes, size_t size) {
    a->received += size;
    a->full |= a->body.len + size > limits.bytes;
    if (!a->full) str_append_n(&a->body, bytes, size);
    return !a->full;
}

/* Appends one vector; false when it is none, or of another length than those before. */
static bool read_vector(const Json *vector, size_t *size, Str *out) {
    size_t count = json_kind(vector) == JSON_ARRAY ? json_count(vector) : 0;
    if (!count || count > EMBEDDING_NUMBERS || (*size && count != *size)) return false;
    *size = count;
    for (const Json *item = json_first(vector); item; item = json_next(item)) {
        double number = json_number(item, NAN);
        if (json_kind(item) != JSON_NUMBER || !isfinite(number) || fabs(number) > 1e100) return false;
        str_append_n(out, (const char *)&number, sizeof number);
    }
    return true;
}

/* Vectors come in any order, each with the place of its text; without places in the order of the texts. */
static const Json *vector_at(const Json *data, size_t place) {
    size_t n = 0;
    const Json *found = NULL;
    for (const Json *item = json_first(data); item; item = json_next(item), n++)
        if (json_get_int(item, "index", (int64_t)n) == (int64_t)place) {
            if (found) return NULL;
            found = json_get(item, "embedding");
        }
    return found;
}

void embedding_finish(ChatAnswer *a, size_t count) {
    char why[128];
    size_t size = 0;
    if (a->full || !a->body.len) return;
    Json *root = json_read(a->body.data, a->body.len, &limits, why);
    const Json *error = json_get(root, "error"), *data = json_get(root, "data"), *usage = json_get(root, "usage");
    if (json_kind(error) != JSON_NULL) {
        const char *text = json_string(error, json_get_string(error, "message", ""));
        str_append(&a->error, text[0] ? text : "an error without a message");
    } else {
        bool ok = json_kind(data) == JSON_ARRAY && json_count(data) == count;
        for (size_t i = 0; ok && i < count; i++) ok = read_vector(vector_at(data, i), &size, &a->text);
        a->malformed = !ok;
        a->done = ok;
    }
    int64_t tokens = json_get_int(usage, "prompt_tokens", -1);
    if (tokens >= 0 && tokens <= 1000000000000) a->tokens_in = tokens;
    a->tokens_out = 0;
    json_release(root);
}
