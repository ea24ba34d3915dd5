#include "json.h"
#include "memory.h"
#include "support_internal.h"

#include <cjson/cJSON.h>
#include <pthread.h>
#include <string.h>

enum { DEFAULT_BYTES = 16 << 20, DEFAULT_DEPTH = 64, DEFAULT_VALUES = 500000 };

/* cJSON notes the place of its last failure in a global, which parallel readers would race on. */
static pthread_mutex_t parse_lock = PTHREAD_MUTEX_INITIALIZER;

/* A Json is a cJSON; the type keeps cJSON out of the other folders. */
static const cJSON *node(const Json *json) {
    return (const cJSON *)(const void *)json;
}
static const Json *wrap(const cJSON *item) {
    return (const Json *)(const void *)item;
}

static size_t or_default(size_t limit, size_t otherwise) {
    return limit ? limit : otherwise;
}

/* The end of the string that begins at text[at] == '"', or `size`. */
static size_t skip_string(const char *text, size_t size, size_t at) {
    for (at++; at < size && text[at] != '"'; at++)
        if (text[at] == '\\') at++;
    return at;
}

/* Counts brackets and commas outside strings: an upper bound of the values and the depth, without
 * memory. What is no JSON is left to cJSON. */
static bool within_limits(const char *text, size_t size, JsonLimits limits, char error[128]) {
    size_t depth = 0, values = 1;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (c == '"') i = skip_string(text, size, i);
        if (c == '[' || c == '{') depth++;
        if ((c == ']' || c == '}') && depth) depth--;
        values += c == '[' || c == '{' || c == ',';
        if (depth > limits.depth || values > limits.values) {
            snprintf(error, 128, "more than %zu %s at byte %zu", depth > limits.depth ? limits.depth : limits.values,
                     depth > limits.depth ? "levels of nesting" : "values", i);
            return false;
        }
    }
    return true;
}

/* ---- Validity without memory ----
 * cJSON says the same of a text that is none and of one for which it gets no memory. Here is a subset of what it takes, so that what is
 * found valid here and not read there met the end of memory. */

static bool skip_blanks(const char **at, const char *end) {
    while (*at < end && strchr(" \t\r\n", **at) && **at) ++*at;
    return *at < end;
}

static bool skip_word(const char **at, const char *end, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(end - *at) < n || memcmp(*at, word, n) != 0) return false;
    *at += n;
    return true;
}

/* Four hexadecimal digits; the pairs of UTF-16 and the character 0 are left out. */
static bool skip_code(const char **at, const char *end) {
    unsigned code = 0;
    if (end - *at < 4) return false;
    for (int i = 0; i < 4; i++, ++*at) {
        const char *digits = "0123456789abcdef", *digit = **at ? strchr(digits, **at | 32) : NULL;
        if (!digit) return false;
        code = code * 16 + (unsigned)(digit - digits);
    }
    return code && (code < 0xd800 || code > 0xdfff);
}

static bool valid_string(const char **at, const char *end) {
    for (++*at; *at < end && **at != '"'; ++*at) {
        if ((unsigned char)**at < ' ') return false;
        if (**at != '\\') continue;
        if (++*at == end || !**at || !strchr("\"\\/bfnrtu", **at)) return false;
        if (**at != 'u') continue;
        ++*at;
        if (!skip_code(at, end)) return false;
        --*at;
    }
    return *at < end && *(*at)++ == '"';
}

static bool skip_digits(const char **at, const char *end) {
    const char *first = *at;
    while (*at < end && **at >= '0' && **at <= '9') ++*at;
    return *at > first;
}

static bool valid_number(const char **at, const char *end) {
    enum { LONGEST = 60 }; /* cJSON's buffer holds a little more */
    const char *first = *at;
    if (*at < end && **at == '-') ++*at;
    if (!skip_digits(at, end)) return false;
    if (*at < end && **at == '.' && (++*at, !skip_digits(at, end))) return false;
    if (*at < end && (**at | 32) == 'e') {
        if (++*at < end && (**at == '+' || **at == '-')) ++*at;
        if (!skip_digits(at, end)) return false;
    }
    return *at - first <= LONGEST;
}

static bool valid_value(const char **at, const char *end);

/* The members of an object or an array; within_limits has looked at the depth. */
static bool valid_members(const char **at, const char *end, char last) {
    ++*at;
    if (!skip_blanks(at, end)) return false;
    if (**at == last) return ++*at, true;
    for (;; ++*at) {
        if (!skip_blanks(at, end)) return false;
        if (last == '}') {
            if (**at != '"' || !valid_string(at, end) || !skip_blanks(at, end) || **at != ':') return false;
            ++*at;
        }
        if (!valid_value(at, end) || !skip_blanks(at, end)) return false;
        if (**at == last) return ++*at, true;
        if (**at != ',') return false;
    }
}

static bool valid_value(const char **at, const char *end) {
    if (!skip_blanks(at, end)) return false;
    if (**at == '"') return valid_string(at, end);
    if (**at == '{') return valid_members(at, end, '}');
    if (**at == '[') return valid_members(at, end, ']');
    return skip_word(at, end, "null") || skip_word(at, end, "true") || skip_word(at, end, "false") || valid_number(at, end);
}

static bool is_valid(const char *text, size_t size) {
    const char *at = text, *end = text + size;
    return valid_value(&at, end) && !skip_blanks(&at, end);
}

/* What keeps a tree in the scope that read it. */
static void end_tree(void *owner) {
    cJSON_Delete(*(cJSON **)owner);
    memory_free(owner);
}

Json *json_read(const char *text, size_t size, const JsonLimits *given, char error[128]) {
    JsonLimits limits = given ? *given : (JsonLimits){0, 0, 0};
    limits.bytes = or_default(limits.bytes, DEFAULT_BYTES);
    limits.depth = or_default(limits.depth, DEFAULT_DEPTH);
    limits.values = or_default(limits.values, DEFAULT_VALUES);
    error[0] = 0;
    if (size > limits.bytes) {
        snprintf(error, 128, "%zu bytes are more than the limit of %zu", size, limits.bytes);
        return NULL;
    }
    if (!within_limits(text, size, limits, error)) return NULL;
    const char *end = text;
    cJSON **owner = memory_alloc(sizeof *owner);
    memory_ends_by(owner, end_tree);
    LocaleScope scope = enter_c_locale(); /* which may leave */
    pthread_mutex_lock(&parse_lock);
    cJSON *item = cJSON_ParseWithLengthOpts(text, size, &end, 0);
    pthread_mutex_unlock(&parse_lock);
    leave_c_locale(scope);
    const char *limit = text + size;
    while (item && end < limit && (*end == ' ' || *end == '\t' || *end == '\r' || *end == '\n')) end++;
    if (item && end == limit) {
        *owner = item;
        item->string = (char *)owner; /* the root has no key */
        item->type |= cJSON_StringIsConst;
        return (Json *)(void *)item;
    }
    memory_free(owner);
    if (!item && is_valid(text, size)) memory_out();
    snprintf(error, 128, "not valid JSON at byte %zu", (size_t)(end - text));
    cJSON_Delete(item);
    return NULL;
}

void json_release(Json *json) {
    if (json) end_tree(((cJSON *)(void *)json)->string);
}

JsonKind json_kind(const Json *json) {
    const cJSON *item = node(json);
    if (cJSON_IsBool(item)) return JSON_BOOL;
    if (cJSON_IsNumber(item)) return JSON_NUMBER;
    if (cJSON_IsString(item)) return JSON_STRING;
    if (cJSON_IsArray(item)) return JSON_ARRAY;
    return cJSON_IsObject(item) ? JSON_OBJECT : JSON_NULL;
}

const Json *json_get(const Json *object, const char *key) {
    if (json_kind(object) != JSON_OBJECT) return NULL;
    return wrap(cJSON_GetObjectItemCaseSensitive(node(object), key));
}

const Json *json_first(const Json *container) {
    JsonKind kind = json_kind(container);
    return kind == JSON_ARRAY || kind == JSON_OBJECT ? wrap(node(container)->child) : NULL;
}

const Json *json_next(const Json *member) {
    return member ? wrap(node(member)->next) : NULL;
}

const char *json_key(const Json *member) {
    return member && node(member)->string ? node(member)->string : "";
}

size_t json_count(const Json *container) {
    size_t count = 0;
    for (const Json *member = json_first(container); member; member = json_next(member)) count++;
    return count;
}

const char *json_string(const Json *json, const char *otherwise) {
    return json_kind(json) == JSON_STRING ? node(json)->valuestring : otherwise;
}

double json_number(const Json *json, double otherwise) {
    return json_kind(json) == JSON_NUMBER ? node(json)->valuedouble : otherwise;
}

bool json_bool(const Json *json, bool otherwise) {
    return json_kind(json) == JSON_BOOL ? (bool)cJSON_IsTrue(node(json)) : otherwise;
}

bool json_int(const Json *json, int64_t *value) {
    double number = json_number(json, 0.5);
    if (!(number >= -0x1p53 && number <= 0x1p53)) return false;
    int64_t whole = (int64_t)number;
    if ((double)whole < number || (double)whole > number) return false;
    *value = whole;
    return true;
}

const char *json_get_string(const Json *object, const char *key, const char *otherwise) {
    return json_string(json_get(object, key), otherwise);
}

double json_get_number(const Json *object, const char *key, double otherwise) {
    return json_number(json_get(object, key), otherwise);
}

bool json_get_bool(const Json *object, const char *key, bool otherwise) {
    return json_bool(json_get(object, key), otherwise);
}

int64_t json_get_int(const Json *object, const char *key, int64_t otherwise) {
    int64_t value;
    return json_int(json_get(object, key), &value) ? value : otherwise;
}
