#include "support_internal.h"

size_t utf8_decode(const char *bytes, size_t size, uint32_t *point) {
    const unsigned char *b = (const unsigned char *)bytes;
    *point = UINT32_MAX;
    if (b[0] < 0x80) {
        *point = b[0];
        return 1;
    }
    size_t length = b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2;
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (b[0] < 0xc2 || b[0] > 0xf4 || length > size) return 1;
    uint32_t value = b[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((b[i] & 0xc0) != 0x80) return 1;
        value = value << 6 | (b[i] & 0x3fu);
    }
    bool surrogate = value >= 0xd800 && value < 0xe000;
    if (value < smallest[length] || value > 0x10ffff || surrogate) return 1;
    *point = value;
    return length;
}

/* The blocks of wide characters that turn up in source text: East Asian scripts, full-width forms
 * and emoji; and the combining marks. From Unicode's EastAsianWidth, rounded to blocks. */
int utf8_width(uint32_t point) {
    static const struct {
        uint32_t first, last;
        int width;
    } blocks[] = {
        {0x0300, 0x036f, 0}, {0x1100, 0x115f, 2}, {0x200b, 0x200f, 0},   {0x20d0, 0x20ff, 0},   {0x2e80, 0x303e, 2},
        {0x3041, 0xa4cf, 2}, {0xac00, 0xd7a3, 2}, {0xf900, 0xfaff, 2},   {0xfe00, 0xfe0f, 0},   {0xfe30, 0xfe6f, 2},
        {0xff00, 0xff60, 2}, {0xffe0, 0xffe6, 2}, {0x1f300, 0x1f64f, 2}, {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2},
    };
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        if (point >= blocks[i].first && point <= blocks[i].last) return blocks[i].width;
    return 1;
}
