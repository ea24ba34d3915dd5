/* A whole answer of an endpoint, as JSON or as whatever it is, and the search for a sketch in its text. An odd first
 * byte: the text of an answer alone. */
#include "llm_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is found is one block of the text, and finding it again changes nothing. */
static void extract(const char *text, size_t size) {
    Str block, again;
    str_init(&block);
    str_init(&again);
    bool begun;
    if (proposer_extract_sketch(text, size, &block, &begun)) {
        if (strncmp(block.data, "sketch", 6) != 0 || block.len > size + 1) abort();
        if (!proposer_extract_sketch(block.data, block.len, &again, NULL) || strcmp(block.data, again.data) != 0) abort();
    } else if (block.len) {
        abort();
    }
    str_release(&block);
    str_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    const char *text = (const char *)data + 1;
    size--;
    if (data[0] % 2) {
        extract(text, size);
        Str clean;
        str_init(&clean);
        str_append_n(&clean, text, size);
        llm_clean_text(&clean);
        if (strlen(clean.data) != clean.len) abort();
        str_release(&clean);
        return 0;
    }
    ChatAnswer a;
    chat_init(&a);
    if (chat_feed(&a, data[0] % 4 == 2, text, size)) chat_finish(&a);
    if (a.text.len > REPLY_LIMIT || a.tokens_in < -1 || a.tokens_out < -1 || a.tokens_cached > (a.tokens_in < 0 ? 0 : a.tokens_in))
        if (a.tokens_cached != -1) abort();
    extract(a.text.data, a.text.len);
    chat_release(&a);
    return 0;
}
