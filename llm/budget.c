/* Limits on calls, tokens and cost, held by taking the worst case before each request. */
#include "llm_internal.h"

/* A token covers at least one byte; measured over sketches, prose and JSON one covers three to
 * four. The floor of what a reported number may claim is far below that. */
enum { BYTES_OF_TOKEN = 3, BYTES_OF_LONGEST_TOKEN = 16, TEMPLATE_TOKENS = 64 };

size_t llm_estimate_tokens(size_t bytes) {
    return (bytes + BYTES_OF_TOKEN - 1) / BYTES_OF_TOKEN;
}

bool budget_init(LlmBudget *b, const LlmConfig *config, Str *error) {
    double in = llm_config_number(config, LLM_PRICE_IN, -1), out = llm_config_number(config, LLM_PRICE_OUT, -1);
    *b = (LlmBudget){
        .max_calls = llm_config_number(config, LLM_MAX_CALLS, -1),
        .max_tokens = llm_config_number(config, LLM_MAX_TOKENS, -1),
        .max_cost = llm_config_number(config, LLM_MAX_COST, -1),
        .price_in = in < 0 ? -1 : in / 1e6,
        .price_out = out < 0 ? -1 : out / 1e6,
        .price_cached = llm_config_number(config, LLM_PRICE_CACHED, in) / 1e6,
        .price_embedding = llm_config_number(config, LLM_PRICE_EMBEDDING, in) / 1e6,
    };
    if (b->price_embedding < 0) b->price_embedding = -1;
    if (b->max_cost < 0 || (in >= 0 && out >= 0)) return true;
    str_append(error, "max_cost needs price_in and price_out (of a million tokens)");
    return false;
}

/* answer_tokens: 0 where vectors are asked for. */
static bool has_price(const LlmBudget *b, double answer_tokens) {
    return answer_tokens > 0 ? b->price_in >= 0 && b->price_out >= 0 : b->price_embedding >= 0;
}

static double cost_of(const LlmBudget *b, double answer_tokens, double in, double cached, double out) {
    if (!has_price(b, answer_tokens)) return 0;
    if (answer_tokens <= 0) return in * b->price_embedding;
    return (in - cached) * b->price_in + cached * b->price_cached + out * b->price_out;
}

static double worst_tokens(size_t prompt_bytes, double answer_tokens) {
    return (double)prompt_bytes + TEMPLATE_TOKENS + answer_tokens;
}

/* Cached tokens cost no more than others, unless someone says so. */
static double worst_cost(const LlmBudget *b, size_t prompt_bytes, double answer_tokens) {
    double in = (double)prompt_bytes + TEMPLATE_TOKENS;
    double plain = cost_of(b, answer_tokens, in, 0, answer_tokens), cached = cost_of(b, answer_tokens, in, in, answer_tokens);
    return plain > cached ? plain : cached;
}

static bool refuse(Str *error, const char *name, double limit) {
    str_printf(error, "%s=", name);
    str_append_double(error, limit);
    str_append(error, " would be passed in the worst case");
    return false;
}

bool budget_reserve(LlmBudget *b, size_t prompt_bytes, double answer_tokens, Str *error) {
    double tokens = worst_tokens(prompt_bytes, answer_tokens), cost = worst_cost(b, prompt_bytes, answer_tokens);
    if (b->max_calls >= 0 && b->calls + 1 > b->max_calls) return refuse(error, "max_calls", b->max_calls);
    if (b->max_tokens >= 0 && b->tokens + b->reserved_tokens + tokens > b->max_tokens) return refuse(error, "max_tokens", b->max_tokens);
    if (b->max_cost >= 0 && b->cost + b->reserved_cost + cost > b->max_cost) return refuse(error, "max_cost", b->max_cost);
    b->calls++;
    b->reserved_tokens += tokens;
    b->reserved_cost += cost;
    return true;
}

static double counted(int64_t reported, size_t bytes, bool any) {
    double least = (double)(bytes / BYTES_OF_LONGEST_TOKEN); /* NOLINT(bugprone-integer-division): whole tokens */
    if (!any) return 0;
    if (reported < 0) return (double)llm_estimate_tokens(bytes);
    return (double)reported > least ? (double)reported : least;
}

void budget_settle(LlmBudget *b, size_t prompt_bytes, double answer_tokens, size_t answer_bytes, ProposerReply *reply) {
    b->reserved_tokens -= worst_tokens(prompt_bytes, answer_tokens);
    b->reserved_cost -= worst_cost(b, prompt_bytes, answer_tokens);
    /* An endpoint that answered nothing, not even a number of tokens, has read nothing. */
    bool any = answer_bytes || reply->tokens_in >= 0 || reply->tokens_out >= 0;
    double in = counted(reply->tokens_in, prompt_bytes, any);
    double out = counted(reply->tokens_out, answer_bytes, any);
    double cached = reply->tokens_cached > 0 ? (double)reply->tokens_cached : 0;
    double cost = cost_of(b, answer_tokens, in, cached < in ? cached : in, out);
    b->tokens += in + out;
    b->cost += cost;
    if (has_price(b, answer_tokens)) reply->cost = (reply->cost > 0 ? reply->cost : 0) + cost;
}
