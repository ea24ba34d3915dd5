/* What all proposers share: replies and the search for a sketch in free text. */
#include "proposer.h"

#include <string.h>

enum { UNCLOSED_LIMIT = 64 }; /* fences that an answer leaves open; each costs a look through the rest of it */

static const struct {
    const char *name;
    bool final;
} statuses[PROPOSER_STATUS_COUNT] = {
    [PROPOSED] = {"proposed", false},         [PROPOSED_TRUNCATED] = {"truncated", false}, [PROPOSED_NOTHING] = {"nothing", false},
    [PROPOSED_REFUSED] = {"refused", false},  [PROPOSER_EXHAUSTED] = {"exhausted", true},  [PROPOSER_FAILED] = {"failed", false},
    [PROPOSER_REJECTED] = {"rejected", true}, [PROPOSER_BUDGET] = {"budget", true},        [PROPOSER_CANCELLED] = {"cancelled", true},
};

const char *proposer_status_name(ProposerStatus status) {
    return statuses[status].name;
}
bool proposer_status_is_final(ProposerStatus status) {
    return statuses[status].final;
}

void proposer_reply_init(ProposerReply *reply) {
    *reply = (ProposerReply){.status = PROPOSER_FAILED, .tokens_in = -1, .tokens_out = -1, .tokens_cached = -1, .cost = -1};
    str_init(&reply->sketch);
    str_init(&reply->raw);
    str_init(&reply->error);
}

void proposer_reply_release(ProposerReply *reply) {
    str_release(&reply->sketch);
    str_release(&reply->raw);
    str_release(&reply->error);
}

void proposer_destroy(Proposer *proposer) {
    if (proposer) proposer->destroy(proposer);
}

/* ---- The sketch in an answer ---- */

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The header of a block: the word at the beginning of a line, then no more than a header holds up
 * to the brace. Prose such as "sketch below:" has none. */
static const char *header_end(const char *p, const char *end, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(end - p) <= n || memcmp(p, word, n) != 0 || is_word(p[n])) return NULL;
    for (p += n; p < end && *p != '{'; p++)
        if (!*p || (!is_word(*p) && !strchr(" \t\r\n(),=.+-*/", *p))) return NULL;
    return p < end ? p : NULL;
}

/* Behind a string or comment that begins at p; a string ends with its line at the latest. */
static const char *skip_text(const char *p, const char *end) {
    char quote = *p++;
    while (p < end && *p != '\n' && (quote == '#' || *p != quote)) p += quote != '#' && *p == '\\' && p + 1 < end ? 2 : 1;
    return p < end && *p == quote ? p + 1 : p;
}

/* Behind the brace that closes the one at p, or null. */
static const char *block_end(const char *p, const char *end) {
    int depth = 0;
    while (p < end) {
        if (*p == '"' || *p == '\'' || *p == '#') {
            p = skip_text(p, end);
            continue;
        }
        if (*p == '{') depth++;
        if (*p == '}' && --depth == 0) return p + 1;
        p++;
    }
    return NULL;
}

/* Each block that never ends is read to the end of the text: more of them are no answer but an
 * attack. */

bool proposer_extract_sketch(const char *text, size_t size, Str *block, bool *begun) {
    str_release(block);
    str_init(block);
    if (begun) *begun = false;
    const char *end = text + size;
    int unclosed = 0;
    for (const char *line = text; line < end && unclosed < UNCLOSED_LIMIT;) {
        const char *p = line;
        while (p < end && (*p == ' ' || *p == '\t')) p++;
        const char *brace = header_end(p, end, "sketch"), *after = brace ? block_end(brace, end) : NULL;
        if (after) {
            str_release(block);
            str_init(block);
            str_append_n(block, p, (size_t)(after - p));
            str_append_char(block, '\n');
            line = after;
        }
        if (brace && !after) unclosed++;
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        line = newline ? newline + 1 : end;
    }
    if (begun) *begun = unclosed > 0;
    return block->len > 0;
}

bool proposer_extract_operator(const char *text, size_t size, Str *block, Str *name) {
    static const char word[] = "operator";
    const char *end = text + size;
    for (const char *line = text; line < end;) {
        const char *p = line;
        while (p < end && (*p == ' ' || *p == '\t')) p++;
        const char *brace = header_end(p, end, word), *after = brace ? block_end(brace, end) : NULL;
        if (after) {
            str_append_n(block, p, (size_t)(after - p));
            str_append_char(block, '\n');
            for (p += sizeof word - 1; p < brace && !is_word(*p);) p++;
            while (p < brace && is_word(*p)) str_append_char(name, *p++);
            return true;
        }
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        line = newline ? newline + 1 : end;
    }
    return false;
}

StoreCall proposer_call(const char *proposer, const ProposerReply *reply) {
    return (StoreCall){.proposer = proposer,
                       .status = proposer_status_name(reply->status),
                       .tokens_in = reply->tokens_in,
                       .tokens_out = reply->tokens_out,
                       .tokens_cached = reply->tokens_cached,
                       .cost = reply->cost,
                       .seconds = reply->seconds,
                       .replayed = reply->replayed};
}
