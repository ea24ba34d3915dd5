/* Event framing, completions, limits, recordings. */
#include "llm_internal.h"

#include "check.h"

#include <math.h>
#include <unistd.h>

/* ---- Framing ---- */

static Str events;

static bool take(void *context, const char *data, size_t size) {
    (void)context;
    str_append_n(&events, data, size);
    str_append_char(&events, '|');
    return strcmp(data, "stop") != 0;
}

/* The events of `text`, fed in pieces of `step` bytes. */
static const char *framed(const char *text, size_t step) {
    SseParser p;
    str_release(&events);
    str_init(&events);
    sse_init(&p, take, NULL);
    size_t size = strlen(text);
    bool more = true;
    for (size_t i = 0; i < size && more; i += step) more = sse_feed(&p, text + i, size - i < step ? size - i : step);
    if (more) sse_finish(&p);
    sse_release(&p);
    return events.data;
}

static void framing(void) {
    for (size_t step = 1; step < 9; step++) {
        CHECK_STR(framed("data: a\n\ndata:b\n\n", step), "a|b|");
        CHECK_STR(framed("data: a\r\ndata:  b\r\n\r\n", step), "a\n b|");
        CHECK_STR(framed("data: a\rdata\r\rdata: c", step), "a\n|c|");
        CHECK_STR(framed("\xef\xbb\xbf"
                         "data: a\n\n: no\nevent: x\n\n\n\ndata: b\n\n",
                         step),
                  "a|b|");
        CHECK_STR(framed("data: stop\n\ndata: b\n\n", step), "stop|");
        CHECK_STR(framed("dat: a\nxdata: b\n\n", step), "");
    }
    SseParser p;
    char block[4096];
    memset(block, 'x', sizeof block);
    sse_init(&p, take, NULL);
    size_t fed = 0;
    while (fed < (8u << 20) && sse_feed(&p, block, sizeof block)) fed += sizeof block;
    CHECK(p.too_long && fed <= REPLY_LIMIT && p.line.cap <= 2 * REPLY_LIMIT);
    sse_release(&p);
}

/* ---- Completions ---- */

static void answer(ChatAnswer *a, bool event_stream, const char *text) {
    chat_reset(a);
    if (chat_feed(a, event_stream, text, strlen(text))) {
    }
    chat_finish(a);
}

static void completions(void) {
    ChatAnswer a;
    chat_init(&a);
    answer(&a, true,
           "data: {\"choices\":[{\"delta\":{\"content\":\"ab\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"c\"},"
           "\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,"
           "\"prompt_tokens_details\":{\"cached_tokens\":5}}}\n\ndata: [DONE]\n\n");
    CHECK_STR(a.text.data, "abc");
    CHECK(a.done && !a.cut && a.tokens_in == 7 && a.tokens_out == 2 && a.tokens_cached == 5);
    answer(&a, false, "{\"choices\":[{\"message\":{\"content\":\"x\"},\"finish_reason\":\"length\"}]}");
    CHECK(a.done && a.cut && a.tokens_in == -1);
    answer(&a, true, "data: {\"error\":{\"message\":\"boom\"}}\n\n");
    CHECK_STR(a.error.data, "boom");
    answer(&a, false, "{}");
    CHECK(a.malformed && !a.done);
    answer(&a, false, "[1]");
    CHECK(a.malformed);
    answer(&a, true, "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm hm\"}}],\"usage\":{\"prompt_tokens\":-1}}\n\n");
    CHECK(!a.done && a.hidden == 5 && a.tokens_in == -1);
    chat_release(&a);
}

/* ---- Limits ---- */

static LlmConfig *config_of(const char *calls, const char *tokens, const char *cost, const char *price) {
    LlmConfig *c = llm_config_create();
    Str e;
    str_init(&e);
    CHECK(llm_config_set(c, "max_calls", calls, LLM_FROM_FLAG, NULL, &e));
    CHECK(llm_config_set(c, "max_tokens", tokens, LLM_FROM_FLAG, NULL, &e));
    CHECK(llm_config_set(c, "max_cost", cost, LLM_FROM_FLAG, NULL, &e));
    CHECK(llm_config_set(c, "price_in", price, LLM_FROM_FLAG, NULL, &e));
    CHECK(llm_config_set(c, "price_out", price, LLM_FROM_FLAG, NULL, &e));
    str_release(&e);
    return c;
}

/* How many requests of 1000 bytes and 100 tokens of answer pass, when each answer claims `claimed` tokens. */
static unsigned passing(LlmConfig *config, int64_t claimed) {
    LlmBudget b;
    Str e;
    unsigned n = 0;
    str_init(&e);
    CHECK(budget_init(&b, config, &e));
    while (n < 1000 && budget_reserve(&b, 1000, 100, &e)) {
        ProposerReply r;
        proposer_reply_init(&r);
        r.tokens_in = r.tokens_out = claimed;
        budget_settle(&b, 1000, 100, 400, &r);
        proposer_reply_release(&r);
        n++;
    }
    CHECK(n == 1000 || strstr(e.data, "would be passed"));
    str_release(&e);
    llm_config_destroy(config);
    return n;
}

static void limits(void) {
    CHECK(passing(config_of("7", "", "", ""), 10) == 7);
    CHECK(passing(config_of("", "1163", "", ""), 10) == 0); /* one less than the worst case of one */
    CHECK(passing(config_of("", "1164", "", ""), 10) == 1);
    /* Claims below what the bytes prove count as what they prove: 1000/16 + 400/16 a request. */
    CHECK(passing(config_of("", "10000", "", ""), 0) == 1 + (10000 - 1164) / 87);
    CHECK(passing(config_of("", "100000", "", ""), 1000000000) == 1);
    CHECK(passing(config_of("", "", "0.01", "1"), 100) > passing(config_of("", "", "0.01", "2"), 100));
    /* Vectors have no answer and a price of their own: 1064 bytes at most, 1000/16 tokens at least. */
    LlmConfig *vectors = config_of("", "", "0.01", "1");
    Str wrong;
    LlmBudget own;
    str_init(&wrong);
    CHECK(llm_config_set(vectors, "price_embedding", "9", LLM_FROM_FLAG, NULL, &wrong) && budget_init(&own, vectors, &wrong));
    CHECK(budget_reserve(&own, 1000, 0, &wrong) && !budget_reserve(&own, 1000, 0, &wrong) && strstr(wrong.data, "max_cost"));
    ProposerReply r;
    proposer_reply_init(&r);
    r.tokens_in = 100;
    r.tokens_out = 0;
    budget_settle(&own, 1000, 0, 1, &r);
    CHECK(fabs(r.cost - 9e-4) < 1e-12 && own.tokens == 100 && own.reserved_tokens == 0);
    proposer_reply_release(&r);
    str_release(&wrong);
    llm_config_destroy(vectors);
    LlmConfig *free_of_price = config_of("1", "", "1", "");
    LlmBudget b;
    Str e;
    str_init(&e);
    CHECK(!budget_init(&b, free_of_price, &e) && e.len);
    str_release(&e);
    llm_config_destroy(free_of_price);
}

/* ---- Recordings ---- */

static unsigned asked;

static void fake_ask(LlmBackend *self, const LlmPrompt *prompts, size_t count, ProposerReply *replies) {
    (void)self;
    for (size_t i = 0; i < count; i++) {
        replies[i].status = PROPOSED;
        str_printf(&replies[i].raw, "answer %u to %s", asked++, prompts[i].task);
        replies[i].tokens_in = 3;
        replies[i].seconds = 0.25;
    }
}
static void fake_destroy(LlmBackend *self) {
    (void)self;
}
static LlmBackend fake = {"fake", "fake", 1, fake_ask, fake_destroy};

static bool differs; /* the answer was recorded for another prompt */

/* The answer to (task, attempt), or the error. */
static const char *get(LlmBackend *b, const char *task, unsigned attempt) {
    static char text[256];
    LlmPrompt p = {
        .fixed = "F", .task = task, .fixed_size = 1, .task_size = strlen(task), .documents_size = 1, .subject = {1, 2}, .attempt = attempt};
    ProposerReply r;
    proposer_reply_init(&r);
    b->ask(b, &p, 1, &r);
    snprintf(text, sizeof text, "%s%s", r.raw.data, r.error.data);
    differs = r.other_prompt;
    if (r.replayed) CHECK(r.tokens_in == 3 && r.seconds == 0.25);
    proposer_reply_release(&r);
    return text;
}

static void recordings(void) {
    char path[] = "/tmp/cassetteXXXXXX";
    int fd = mkstemp(path);
    Str e, text;
    str_init(&e);
    str_init(&text);
    LlmBackend *tape = backend_cassette(path, "auto", "prompt", "m", &fake, NULL, &e);
    CHECK_STR(get(tape, "one", 0), "answer 0 to one");
    CHECK_STR(get(tape, "one", 1), "answer 1 to one");
    CHECK_STR(get(tape, "one", 0), "answer 2 to one"); /* recorded in this run: the next run replays it */
    tape->destroy(tape);
    CHECK(lseek(fd, 0, SEEK_END) > 0 && write(fd, "{\"kind\": \"call\", \"torn", 22) == 22);

    tape = backend_cassette(path, "replay", "prompt", "m", NULL, NULL, &e);
    CHECK(tape != NULL);
    CHECK_STR(get(tape, "one", 0), "answer 0 to one");
    CHECK_STR(get(tape, "one", 0), "answer 2 to one");
    CHECK_STR(get(tape, "one", 1), "answer 1 to one");
    CHECK(strstr(get(tape, "one", 2), "holds no answer"));
    CHECK(strstr(get(tape, "two", 0), "holds no answer"));
    tape->destroy(tape);

    tape = backend_cassette(path, "auto", "prompt", "m", &fake, NULL, &e);
    CHECK_STR(get(tape, "one", 1), "answer 1 to one");
    CHECK_STR(get(tape, "two", 0), "answer 3 to two");
    tape->destroy(tape);
    CHECK(file_read(path, 1 << 20, &text) && !strstr(text.data, "torn")); /* cut off before the next line */
    tape = backend_cassette(path, "replay", "prompt", "m", NULL, NULL, &e);
    CHECK_STR(get(tape, "two", 0), "answer 3 to two");
    tape->destroy(tape);

    /* By order prompts do not matter, and nothing serves twice. */
    tape = backend_cassette(path, "replay", "order", "m", NULL, NULL, &e);
    CHECK_STR(get(tape, "one", 0), "answer 0 to one");
    CHECK(!differs);
    CHECK_STR(get(tape, "changed", 0), "answer 2 to one");
    CHECK(differs);
    CHECK_STR(get(tape, "changed", 1), "answer 1 to one");
    CHECK_STR(get(tape, "two", 0), "answer 3 to two");
    CHECK(strstr(get(tape, "two", 0), "no further answer"));
    CHECK(strstr(get(tape, "one", 1), "no further answer"));
    tape->destroy(tape);
    CHECK(!e.len);
    CHECK(!backend_cassette("/nowhere/x", "replay", "prompt", "m", NULL, NULL, &e) && e.len);
    close(fd);
    unlink(path);
    str_release(&e);
    str_release(&text);
}

int main(void) {
    str_init(&events);
    framing();
    completions();
    limits();
    recordings();
    str_release(&events);
    return 0;
}
