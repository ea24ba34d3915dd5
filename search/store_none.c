/* The store of a build without SQLite: there is none. */
#include "store.h"

#include <stdlib.h>
#include <string.h>

Store *store_open(const char *path, char **message) {
    static const char text[] = "this sketchc was built without SQLite";
    (void)path;
    *message = malloc(sizeof text);
    if (*message) memcpy(*message, text, sizeof text);
    return NULL;
}
void store_close(Store *s) {
    (void)s;
}
bool store_find(Store *s, const StoreKey *key, StoreResult *result) {
    (void)s, (void)key, (void)result;
    return false;
}
bool store_put(Store *s, const StoreKey *key, const StoreResult *r, const char *source,
               const char *parent) {
    (void)s, (void)key, (void)r, (void)source, (void)parent;
    return false;
}
bool store_report(Store *s, const char *what, bool json, Str *out) {
    (void)s, (void)what, (void)json, (void)out;
    return false;
}
int64_t store_gc(Store *s) {
    (void)s;
    return -1;
}
int store_check(Store *s) {
    (void)s;
    return 1;
}
