/* The store of a build without SQLite: there is none. */
#include "store.h"

#include <stdlib.h>
#include <string.h>

bool store_is_built(void) {
    return false;
}
Store *store_open(const char *path, char **message) {
    static const char text[] = "this sketchc was built without SQLite; build it with -Dstore=enabled";
    (void)path;
    *message = malloc(sizeof text);
    if (*message) memcpy(*message, text, sizeof text);
    return NULL;
}
Store *store_open_existing(const char *path, char **message) {
    return store_open(path, message);
}
void store_close(Store *s) {
    (void)s;
}
char *store_find_description(Store *s, const char *model, const char *definition) {
    (void)s, (void)model, (void)definition;
    return NULL;
}
bool store_put_description(Store *s, const char *model, const char *definition, const char *text) {
    (void)s, (void)model, (void)definition, (void)text;
    return false;
}
const char *store_fault(const Store *s) {
    (void)s;
    return NULL;
}
char *store_find_verdict(Store *s, const StoreKey *key) {
    (void)s, (void)key;
    return NULL;
}
bool store_put_verdict(Store *s, const StoreKey *key, const char *text, const char *source) {
    (void)s, (void)key, (void)text, (void)source;
    return false;
}
bool store_find(Store *s, const StoreKey *key, StoreResult *result) {
    (void)s, (void)key, (void)result;
    return false;
}
bool store_put(Store *s, const StoreKey *key, const StoreResult *r, const char *source, const char *parent) {
    (void)s, (void)key, (void)r, (void)source, (void)parent;
    return false;
}
bool store_put_measurement(Store *s, const StoreKey *key, const StoreResult *r) {
    (void)s, (void)key, (void)r;
    return false;
}
int64_t store_cases_measured(Store *s, const StoreKey *key) {
    (void)s, (void)key;
    return -1;
}
bool store_put_artifact(Store *s, const StoreKey *key, const void *data, size_t size) {
    (void)s, (void)key, (void)data, (void)size;
    return false;
}
bool store_put_case(Store *s, const char *definition, const char *name, const char *sizes) {
    (void)s, (void)definition, (void)name, (void)sizes;
    return false;
}
int64_t store_run_begin(Store *s, const StoreKey *key, const char *strategy, uint64_t seed) {
    (void)s, (void)key, (void)strategy, (void)seed;
    return -1;
}
bool store_put_trial(Store *s, int64_t run, const StoreKey *key, const StoreResult *r, const StoreTrial *trial) {
    (void)s, (void)run, (void)key, (void)r, (void)trial;
    return false;
}
int64_t store_put_call(Store *s, int64_t run, const StoreCall *call) {
    (void)s, (void)run, (void)call;
    return -1;
}
bool store_call_result(Store *s, int64_t call, const StoreCall *result) {
    (void)s, (void)call, (void)result;
    return false;
}
bool store_adopt_call(Store *s, int64_t run, int64_t call) {
    (void)s, (void)run, (void)call;
    return false;
}
double *store_find_vector(Store *s, const char *model, const char *text, size_t *size) {
    (void)s, (void)model, (void)text;
    *size = 0;
    return NULL;
}
bool store_put_vector(Store *s, const char *model, const char *text, const double *vector, size_t size) {
    (void)s, (void)model, (void)text, (void)vector, (void)size;
    return false;
}
bool store_run_end(Store *s, int64_t run, const StoreKey *key, const StoreRunEnd *end) {
    (void)s, (void)run, (void)key, (void)end;
    return false;
}
bool store_find_run(Store *store, const StoreKey *key, const char *strategy, uint64_t seed, unsigned tried, StoreRunEnd *end) {
    (void)store, (void)key, (void)strategy, (void)seed, (void)tried, (void)end;
    return false;
}
const char *store_text(const StoreRow *row, const char *column) {
    (void)row, (void)column;
    return "";
}
const void *store_data(const StoreRow *row, const char *column, size_t *size) {
    (void)row, (void)column;
    *size = 0;
    return NULL;
}
double store_number(const StoreRow *row, const char *column) {
    (void)row, (void)column;
    return 0;
}
int64_t store_integer(const StoreRow *row, const char *column) {
    (void)row, (void)column;
    return 0;
}
bool store_each(Store *s, const char *view, int64_t run, void (*visit)(void *context, const StoreRow *row), void *context) {
    (void)s, (void)view, (void)run, (void)visit, (void)context;
    return false;
}
bool store_view_known(const char *view) {
    (void)view;
    return false;
}
void store_view_names(Str *out) {
    (void)out;
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
