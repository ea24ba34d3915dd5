/* Reading JSON, over cJSON. For text from outside: size, depth and the number of values are limited
 * before anything is allocated. Writing is done with Str (str_append_json, str_append_double).
 *
 * Numbers are doubles: integers are exact up to 2^53, larger ones travel as strings. */
#ifndef SUPPORT_JSON_H
#define SUPPORT_JSON_H

#include "support.h"

typedef enum { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } JsonKind;

typedef struct Json Json; /* a value; the whole tree belongs to the one from json_read */

typedef struct {
    size_t bytes, depth, values; /* 0: 16 MiB, 64, 500,000 (some 64 bytes of memory each) */
} JsonLimits;

/* Reads one value that fills the whole of `text`. On a mistake returns null and says in `error`
 * what is wrong and at which byte. `limits` may be null. */
Json *json_read(const char *text, size_t size, const JsonLimits *limits, char error[128]);
void json_release(Json *json); /* null is allowed */

/* All of these take a null value, which has kind JSON_NULL and no members. */
JsonKind json_kind(const Json *json);
const Json *json_get(const Json *object, const char *key); /* null when absent; case matters */
const Json *json_first(const Json *container);             /* of an array or object */
const Json *json_next(const Json *member);
const char *json_key(const Json *member); /* "" in an array */
size_t json_count(const Json *container);

/* The value itself; `otherwise` when it is of another kind. */
const char *json_string(const Json *json, const char *otherwise);
double json_number(const Json *json, double otherwise);
bool json_bool(const Json *json, bool otherwise);
/* False when it is not a number, not integral, or beyond 2^53. */
bool json_int(const Json *json, int64_t *value);

/* The member of that name, typed. */
const char *json_get_string(const Json *object, const char *key, const char *otherwise);
double json_get_number(const Json *object, const char *key, double otherwise);
bool json_get_bool(const Json *object, const char *key, bool otherwise);
int64_t json_get_int(const Json *object, const char *key, int64_t otherwise);

#endif
