/* An endpoint's answer to a request for vectors: whatever it is, all vectors that were asked for, of one length and finite, or
 * none. The first byte says how many and where the answer is cut, which changes nothing. */
#include "llm_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_answer(const char *text, size_t size, size_t step, size_t count, ChatAnswer *a) {
    bool more = true;
    chat_init(a);
    for (size_t i = 0; i < size && more; i += step) more = embedding_feed(a, text + i, size - i < step ? size - i : step);
    embedding_finish(a, count);
}

static void check(const ChatAnswer *a, size_t count) {
    size_t numbers = a->text.len / sizeof(double);
    if (a->done + a->malformed + (a->error.len > 0) > 1 || a->tokens_out > 0 || a->tokens_in < -1) abort();
    if (!a->done) return; /* what is half there is not looked at */
    if (!numbers || a->text.len != numbers * sizeof(double) || numbers % count || numbers / count > EMBEDDING_NUMBERS) abort();
    for (size_t i = 0; i < numbers; i++) {
        double number;
        memcpy(&number, a->text.data + i * sizeof number, sizeof number);
        if (!isfinite(number)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    size_t count = 1 + data[0] % 4, step = 1 + data[0] / 4;
    ChatAnswer whole, cut;
    read_answer((const char *)data + 1, size - 1, size - 1, count, &whole);
    read_answer((const char *)data + 1, size - 1, step, count, &cut);
    check(&whole, count);
    if (whole.done != cut.done || whole.tokens_in != cut.tokens_in || whole.text.len != cut.text.len ||
        memcmp(whole.text.data, cut.text.data, cut.text.len) != 0 || strcmp(whole.error.data, cut.error.data) != 0)
        abort();
    chat_release(&whole);
    chat_release(&cut);
    return 0;
}
