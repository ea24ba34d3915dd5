/* Server-sent events, as the HTML standard frames them; fields other than data mean nothing here.
 */
#include "llm_internal.h"

#include <string.h>

enum { EVENT_LIMIT = REPLY_LIMIT };

void sse_init(SseParser *p, bool (*event)(void *, const char *, size_t), void *context) {
    *p = (SseParser){.event = event, .context = context};
    str_init(&p->line);
    str_init(&p->data);
}

void sse_release(SseParser *p) {
    str_release(&p->line);
    str_release(&p->data);
}

static void empty(Str *s) {
    s->len = 0;
    if (s->cap) s->data[0] = 0;
}

static bool dispatch(SseParser *p) {
    if (!p->has_data) return true;
    p->has_data = false;
    bool more = p->event(p->context, p->data.data, p->data.len);
    empty(&p->data);
    return more;
}

/* The line's end has been seen. */
static bool end_line(SseParser *p) {
    const char *line = p->line.data;
    size_t size = p->line.len;
    if (!p->begun && size >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) line += 3, size -= 3;
    p->begun = true;
    bool more = true;
    if (!size) {
        more = dispatch(p);
    } else if (size >= 5 && memcmp(line, "data:", 5) == 0) {
        size_t skip = size > 5 && line[5] == ' ' ? 6 : 5;
        if (p->has_data) str_append_char(&p->data, '\n');
        str_append_n(&p->data, line + skip, size - skip);
        p->has_data = true;
    } else if (size == 4 && memcmp(line, "data", 4) == 0) {
        if (p->has_data) str_append_char(&p->data, '\n');
        p->has_data = true;
    }
    empty(&p->line);
    return more;
}

bool sse_feed(SseParser *p, const char *bytes, size_t size) {
    for (size_t i = 0; i < size;) {
        if (p->after_cr && bytes[i] == '\n') i++;
        p->after_cr = false;
        size_t n = 0;
        while (i + n < size && bytes[i + n] != '\n' && bytes[i + n] != '\r') n++;
        if (p->line.len + p->data.len + n > EVENT_LIMIT) {
            p->too_long = true;
            return false;
        }
        str_append_n(&p->line, bytes + i, n);
        i += n;
        if (i == size) break;
        p->after_cr = bytes[i++] == '\r';
        if (!end_line(p)) return false;
    }
    return true;
}

bool sse_finish(SseParser *p) {
    bool more = p->line.len ? end_line(p) : true;
    return more && dispatch(p);
}
