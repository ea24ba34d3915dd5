#include "check.h"
#include "json.h"
#include "memory.h"

#include <cjson/cJSON.h>
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
    static const char *const bad[] = {"", "{", "{\"a\" 1}", "1 2", "nul", "\"open", "[1]]", "{a: 1}", "'x'", "\"\\"};
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

static long left; /* allocations of cJSON until one fails */

static void *allocate(size_t size) {
    return left-- > 0 ? malloc(size) : NULL;
}

typedef struct {
    const char *text;
    bool valid;
} Attempt;

static void attempt(void *ctx) {
    Attempt *a = ctx;
    char error[128];
    Json *json = read(a->text, error);
    a->valid = json != NULL;
    json_release(json);
}

/* Where memory runs out, at each allocation in turn, a text that is JSON is not called invalid; one that is none still is. */
static void check_out_of_memory(void) {
    static const char *const texts[] = {
        "{}", "[]",   " [ 1 , -2.5e+3 , \"a\\u00e9\\n\\\"\", true, false, null ] ", "{\"a\": {\"b\": [[], {}, \"\"]}, \"c\": 0.5}",
        "7",  "\"x\""};
    static const char *const bad[] = {"{\"a\": [1, 2}", "[1,]", "[\"\\x\"]", "[1 2]", "{\"a\"}", "[-]", "tru", "[\"a]"};
    cJSON_InitHooks(&(cJSON_Hooks){allocate, free});
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        long last = 0;
        for (bool ended = false; !ended; last++) {
            Attempt a = {texts[i], false};
            left = last;
            ended = memory_try(attempt, &a);
            CHECK(!ended || a.valid);
        }
        CHECK(last > 1);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        for (left = 0; left < 9; left++) {
            Attempt a = {bad[i], true};
            long at = left;
            CHECK(memory_try(attempt, &a) && !a.valid);
            left = at;
        }
    cJSON_InitHooks(NULL);
}

int main(void) {
    check_out_of_memory();
    check_values();
    check_refused();
    check_limits();
    if (setlocale(LC_ALL, "de_DE.UTF-8")) check_values();
    return 0;
}
