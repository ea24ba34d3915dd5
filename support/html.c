#include "html.h"

void str_append_html(Str *s, const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) switch (text[i]) {
        case '&':
            str_append(s, "&amp;");
            break;
        case '<':
            str_append(s, "&lt;");
            break;
        case '>':
            str_append(s, "&gt;");
            break;
        case '"':
            str_append(s, "&quot;");
            break;
        case '\'':
            str_append(s, "&#39;");
            break;
        case '\t':
        case '\n':
            str_append_char(s, text[i]);
            break;
        default:
            if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
                str_append(s, "\xef\xbf\xbd");
            else
                str_append_char(s, text[i]);
        }
}
