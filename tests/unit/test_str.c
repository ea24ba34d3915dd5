/* Str, UTF-8 and JSON strings, doubles as text. */
#include "check.h"
#include "support.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

static void check_growth(void) {
    Str s;
    str_init(&s);
    CHECK_STR(s.data, "");
    str_append(&s, "");
    CHECK_STR(s.data, "");
    for (int i = 0; i < 1000; i++) str_printf(&s, "%d,", i % 10);
    CHECK(s.len == 2000 && strlen(s.data) == 2000);
    str_append_n(&s, "a\0b", 3);
    CHECK(s.len == 2003 && s.data[2001] == 0 && s.data[2002] == 'b' && s.data[2003] == 0);
    str_release(&s);
    CHECK(s.len == 0);
    CHECK_STR(s.data, "");
}

static void check_json(const char *text, const char *want) {
    Str s;
    str_init(&s);
    str_append_json(&s, text);
    CHECK_STR(s.data, want);
    str_release(&s);
}

static void check_json_strings(void) {
    check_json("plain", "\"plain\"");
    check_json("a\"b\\c\n\t\x01\x7f", "\"a\\\"b\\\\c\\n\\t\\u0001\\u007f\"");
    check_json("\xc3\xa9\xef\xbc\x88\xf0\x9f\x98\x80", "\"\xc3\xa9\xef\xbc\x88\xf0\x9f\x98\x80\"");
    /* A stray byte, an overlong form, a surrogate, a cut sequence, beyond U+10FFFF. */
    check_json("\x80.", "\"\\ufffd.\"");
    check_json("\xc0\xaf", "\"\\ufffd\\ufffd\"");
    check_json("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");
    check_json("\xe2\x82", "\"\\ufffd\\ufffd\"");
    check_json("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
    Str s;
    str_init(&s);
    str_append_json_n(&s, "\0", 1);
    CHECK_STR(s.data, "\"\\u0000\"");
    str_release(&s);
}

static void check_double(double value, const char *want) {
    Str s;
    str_init(&s);
    str_append_double(&s, value);
    CHECK_STR(s.data, want);
    double back;
    CHECK(parse_double(s.data, &back));
    CHECK(memcmp(&back, &value, sizeof back) == 0 || isnan(value));
    str_release(&s);
}

static void check_doubles(void) {
    check_double(0.1, "0.1");
    check_double(-0.0, "-0");
    check_double(1e-5, "1e-05");
    check_double(3, "3");
    check_double(1e20, "1e+20");
    check_double(1.0 / 3, "0.3333333333333333");
    check_double(0.1 + 0.2, "0.30000000000000004");
    check_double(5e-324, "5e-324");
    check_double(2.2250738585072014e-308, "2.2250738585072014e-308");
    check_double(1.7976931348623157e308, "1.7976931348623157e+308");
    check_double(INFINITY, "inf");
    check_double(-INFINITY, "-inf");
    check_double(NAN, "nan");
}

static void check_random_round_trips(void) {
    uint64_t bits = 88172645463325252u;
    Str s;
    str_init(&s);
    for (int i = 0; i < 20000; i++) {
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        double value, back;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        s.len = 0;
        str_append_double(&s, value);
        CHECK(parse_double(s.data, &back) && memcmp(&back, &value, sizeof back) == 0);
    }
    str_release(&s);
}

static void check_refused_numbers(void) {
    static const char *const bad[] = {"",      " 1", "1 ",       "1,5",    "0x10", "1e",    "1e+", ".",
                                      "1.2.3", "1f", "infinity", "nan(1)", "--1",  "1e999", "e5",  "+"};
    double value = 7;
    for (size_t i = 0; i < COUNT_OF(bad); i++) CHECK(!parse_double(bad[i], &value) && value == 7);
    CHECK(parse_double("+.5e1", &value) && value == 5);
    CHECK(parse_double("1.", &value) && value == 1);
    CHECK(parse_double("1e-999", &value) && value == 0);
}

static void *convert_in_thread(void *unused) {
    (void)unused;
    for (int i = 0; i < 200; i++) check_doubles();
    return NULL;
}

static void check_base64(void) {
    static const char *const pairs[][2] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}};
    static const char *const wrong[] = {"Z", "Zg=", "Z===", "Zm9v=", "Zg==Zg==", "Z m9", "Zm9v\n"};
    unsigned char bytes[256];
    Str s, back;
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        str_init(&s);
        str_append_base64(&s, pairs[i][0], strlen(pairs[i][0]));
        CHECK_STR(s.data, pairs[i][1]);
        str_release(&s);
    }
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        str_init(&s);
        CHECK(!str_read_base64(&s, wrong[i]));
        str_release(&s);
    }
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(37 * i);
    for (size_t size = 0; size <= sizeof bytes; size++) {
        str_init(&s);
        str_init(&back);
        str_append_base64(&s, bytes, size);
        CHECK(str_read_base64(&back, s.data) && back.len == size && memcmp(back.data, bytes, size) == 0);
        str_release(&s);
        str_release(&back);
    }
}

int main(void) {
    check_growth();
    check_base64();
    check_json_strings();
    check_doubles();
    check_random_round_trips();
    check_refused_numbers();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK(!pthread_create(&threads[i], NULL, convert_in_thread, NULL));
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    /* A locale with a decimal comma, where the machine has one: nothing changes. */
    const char *comma = setlocale(LC_ALL, "de_DE.UTF-8");
    char text[16];
    snprintf(text, sizeof text, "%.1f", 0.5);
    check_doubles();
    check_refused_numbers();
    CHECK_STR(text, comma ? "0,5" : "0.5");
    printf("decimal comma locale: %s\n", comma ? comma : "not installed");
    return 0;
}
