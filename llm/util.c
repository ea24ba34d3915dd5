/* Small things that several files of llm/ need. */
#include "llm_internal.h"

#include <string.h>
#include <time.h>

#include "json.h"

double llm_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const char *const *split_words(Arena *arena, const char *text) {
    VEC(const char *) words = {0};
    for (const char *p = text + strspn(text, " "); *p;) {
        size_t n = strcspn(p, " ");
        VEC_PUSH(arena, &words, arena_strndup(arena, p, n));
        p += n + strspn(p + n, " ");
    }
    VEC_PUSH(arena, &words, NULL);
    return words.data;
}

/* The JSON writer knows what is well-formed; what it wrote is read back. */
void llm_clean_text(Str *text) {
    Str json;
    char error[128];
    size_t kept = 0;
    for (size_t i = 0; i < text->len; i++)
        if (text->data[i]) text->data[kept++] = text->data[i];
    if (text->len) text->data[text->len = kept] = 0;
    str_init(&json);
    str_append_json_n(&json, text->data, text->len);
    Json *value = json_read(json.data, json.len, NULL, error);
    str_release(text);
    str_init(text);
    str_append(text, json_string(value, ""));
    json_release(value);
    str_release(&json);
}
