#include "check.h"
#include "json.h"

#include <locale.h>

static Json *read(const char *text, char error[128]) {
    return json_read(text, strlen(text), NULL, error);
}

static void check_values(void) {
    char error[128];
    Json *json = read(" {\"s\": \"a\\u00e9\", \"n\": 1.5, \"i\": 9007199254740992, \"b\": true,\n"
                      "\"list\": [1, [2], {}], \"z\": null, \"neg\": -3} \n",
                      error);
    CHECK(json && json_kind(json) == JSON_OBJECT && json_count(json) == 7);
    CHECK_STR(json_get_string(json, "s", "?"), "a\xc3\xa9");
    CHECK_STR(json_get_string(json, "n", "?"), "?");
    CHECK_STR(json_get_string(json, "S", "?"), "?");
    CHECK(json_get_number(json, "n", 0) > 1.4 && json_get_number(json, "n", 0) < 1.6);
    CHECK(json_get_int(json, "i", 0) == 9007199254740992 && json_get_int(json, "neg", 0) == -3);
    CHECK(json_get_int(json, "n", 7) == 7 && json_get_int(json, "none", 7) == 7);
    CHECK(json_get_bool(json, "b", false) && json_get_bool(json, "none", true));
    const Json *list = json_get(json, "list");
    CHECK(json_count(list) == 3 && json_kind(json_next(json_first(list))) == JSON_ARRAY);
    CHECK_STR(json_key(list), "list");
    CHECK_STR(json_key(json_first(list)), "");
    CHECK(json_kind(json_get(json, "z")) == JSON_NULL && json_get(json, "z"));
    CHECK(!json_get(list, "s") && !json_first(json_get(json, "s")) && !json_get(NULL, "s"));
    json_release(json);
}

static void check_refused(void) {
    static const char *const bad[] = {"", "{", "[1,]", "{\"a\" 1}", "1 2", "nul", "\"open", "[1]]", "{a: 1}", "'x'", "\"\\"};
    char error[128];
    for (size_t i = 0; i < COUNT_OF(bad); i++) CHECK(!read(bad[i], error) && error[0]);
    CHECK(!json_read("[1]\0[2]", 7, NULL, error));
}

static void check_limits(void) {
    char error[128];
    JsonLimits limits = {.bytes = 40, .depth = 3, .values = 5};
    static const char *const over[] = {"[[[[1]]]]", "[1,2,3,4,5]", "\"0123456789012345678901234567890123456789\""};
    static const char *const within[] = {"[[[1]]]", "[1,2,3,4]", "\"[[[[[,,,,,,,\\\"[[[[\""};
    for (size_t i = 0; i < COUNT_OF(over); i++) {
        CHECK(!json_read(over[i], strlen(over[i]), &limits, error) && strstr(error, "more than"));
        Json *json = json_read(within[i], strlen(within[i]), &limits, error);
        CHECK(json);
        json_release(json);
    }
    char *deep = malloc(100000);
    memset(deep, '[', 100000);
    CHECK(!json_read(deep, 100000, NULL, error));
    memset(deep, ',', 100000);
    CHECK(!json_read(deep, 100000, NULL, error));
    free(deep);
}

int main(void) {
    check_values();
    check_refused();
    check_limits();
    if (setlocale(LC_ALL, "de_DE.UTF-8")) check_values();
    return 0;
}
