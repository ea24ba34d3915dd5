#include "memory.h"
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
    if (s->cap) memory_free(s->data);
    str_init(s);
}

/* Room for `count` more bytes and the terminator. */
static void reserve(Str *s, size_t count) {
    if (count > SIZE_MAX / 2 - s->len) memory_out();
    size_t need = s->len + count + 1;
    if (need <= s->cap) return;
    size_t cap = s->cap ? s->cap : 32;
    while (cap < need) cap *= 2;
    s->data = memory_resize(s->cap ? s->data : NULL, cap);
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

/* ---- Base64 ---- */

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void str_append_base64(Str *s, const void *data, size_t size) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        unsigned bits = (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) | (left > 2 ? bytes[i + 2] : 0);
        for (size_t k = 0; k < 4; k++) str_append_char(s, k <= left ? base64_digits[bits >> (18 - 6 * k) & 63] : '=');
    }
}

bool str_read_base64(Str *s, const char *text) {
    size_t size = strlen(text), padding = 0;
    while (padding < 2 && size > padding && text[size - 1 - padding] == '=') padding++;
    if (size % 4) return false;
    for (size_t i = 0; i < size; i += 4) {
        unsigned bits = 0;
        for (size_t k = 0; k < 4; k++) {
            bool pad = i + k >= size - padding;
            const char *digit = pad ? base64_digits : strchr(base64_digits, text[i + k]);
            if (!digit) return false;
            bits = bits << 6 | (unsigned)(digit - base64_digits);
        }
        size_t count = i + 4 == size ? 3 - padding : 3;
        for (size_t k = 0; k < count; k++) str_append_char(s, (char)(bits >> (16 - 8 * k) & 255));
    }
    return true;
}
