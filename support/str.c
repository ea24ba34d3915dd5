#include "support_internal.h"

#include <stdlib.h>
#include <string.h>

/* An empty Str points here, so that `data` is a string without an allocation. Never written to:
 * every writer goes through reserve() first. */
static char empty_text[1] = "";

void str_init(Str *s) {
    *s = (Str){.data = empty_text};
}

void str_release(Str *s) {
    if (s->cap) free(s->data);
    str_init(s);
}

/* Room for `count` more bytes and the terminator. */
static void reserve(Str *s, size_t count) {
    if (count > SIZE_MAX / 2 - s->len) support_out_of_memory(NULL);
    size_t need = s->len + count + 1;
    if (need <= s->cap) return;
    size_t cap = s->cap ? s->cap : 32;
    while (cap < need) cap *= 2;
    char *grown = realloc(s->cap ? s->data : NULL, cap);
    if (!grown) support_out_of_memory(NULL);
    s->data = grown;
    s->cap = cap;
}

void str_append_n(Str *s, const char *bytes, size_t count) {
    reserve(s, count);
    if (count) memcpy(s->data + s->len, bytes, count);
    s->len += count;
    s->data[s->len] = 0;
}

void str_append(Str *s, const char *text) {
    str_append_n(s, text, strlen(text));
}

void str_append_char(Str *s, char c) {
    str_append_n(s, &c, 1);
}

void str_vprintf(Str *s, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length > 0) {
        reserve(s, (size_t)length);
        vsnprintf(s->data + s->len, (size_t)length + 1, format, again);
        s->len += (size_t)length;
    }
    va_end(again);
}

void str_printf(Str *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    str_vprintf(s, format, args);
    va_end(args);
}

static void append_json_ascii(Str *s, char c) {
    static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *place = c ? strchr(plain, c) : NULL;
    if (place) {
        str_append_char(s, '\\');
        str_append_char(s, letters[place - plain]);
    } else if ((unsigned char)c < 0x20 || c == 0x7f) {
        str_printf(s, "\\u%04x", (unsigned)(unsigned char)c);
    } else {
        str_append_char(s, c);
    }
}

void str_append_json_n(Str *s, const char *bytes, size_t count) {
    str_append_char(s, '"');
    for (size_t i = 0; i < count;) {
        uint32_t point;
        size_t length = utf8_decode(bytes + i, count - i, &point);
        if (point == UINT32_MAX)
            str_append(s, "\\ufffd");
        else if (length == 1)
            append_json_ascii(s, bytes[i]);
        else
            str_append_n(s, bytes + i, length);
        i += length;
    }
    str_append_char(s, '"');
}

void str_append_json(Str *s, const char *text) {
    str_append_json_n(s, text, strlen(text));
}

void str_append_member(Str *s, const char *key, const char *text) {
    if (!text) return;
    str_printf(s, ",\"%s\":", key);
    str_append_json(s, text);
}

void str_append_member_number(Str *s, const char *key, double value) {
    str_printf(s, ",\"%s\":", key);
    str_append_double(s, value);
}
