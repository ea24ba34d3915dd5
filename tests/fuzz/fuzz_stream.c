/* Stream framing: however a stream is cut, the events and the answer are the same. The first bytes say where the cuts are. */
#include "llm_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool collect(void *context, const char *data, size_t size) {
    Str *events = context;
    if (strlen(data) > size) abort();
    str_append_n(events, data, size);
    str_append_char(events, '\n');
    return size != 4 || memcmp(data, "stop", 4) != 0;
}

static void frame(const char *text, size_t size, size_t step, Str *events) {
    SseParser p;
    sse_init(&p, collect, events);
    bool more = true;
    for (size_t i = 0; i < size && more; i += step) more = sse_feed(&p, text + i, size - i < step ? size - i : step);
    if (more) sse_finish(&p);
    sse_release(&p);
}

static void answer(const char *text, size_t size, size_t step, Str *out) {
    ChatAnswer a;
    chat_init(&a);
    bool more = true;
    for (size_t i = 0; i < size && more; i += step) more = chat_feed(&a, true, text + i, size - i < step ? size - i : step);
    chat_finish(&a);
    str_printf(out, "%d%d%d%d%d %lld %lld %s|%s", a.done, a.full, a.malformed, a.refused, a.cut, (long long)a.tokens_in,
               (long long)a.tokens_out, a.text.data, a.error.data);
    chat_release(&a);
}

static void same(void (*run)(const char *, size_t, size_t, Str *), const char *text, size_t size, size_t step) {
    Str whole, cut;
    str_init(&whole);
    str_init(&cut);
    run(text, size, size, &whole);
    run(text, size, step, &cut);
    if (whole.len != cut.len || memcmp(whole.data, cut.data, cut.len) != 0) abort();
    str_release(&whole);
    str_release(&cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    size_t step = 1 + data[0] % 31;
    same(frame, (const char *)data + 1, size - 1, step);
    same(answer, (const char *)data + 1, size - 1, step);
    return 0;
}
