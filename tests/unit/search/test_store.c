/* The store's tables: keys tell devices and environments apart, measurements add up, runs keep their order, gc leaves all
 * that a best needs. */
#include "store/store.h"

#include "check.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static Store *fresh(char *path) {
    char *message = NULL;
    int file = mkstemp(path);
    CHECK(file >= 0);
    close(file);
    Store *store = store_open(path, &message);
    CHECK(store && !message);
    return store;
}

static void discard(Store *store, char *path) {
    char other[64];
    store_close(store);
    unlink(path);
    snprintf(other, sizeof other, "%s-wal", path);
    unlink(other);
    snprintf(other, sizeof other, "%s-shm", path);
    unlink(other);
}

static StoreKey key_of(const char *sketch) {
    return (StoreKey){.definition = "operator add_one {\n}\n",
                      .sketch = sketch,
                      .target = "openmp",
                      .arch = "x86-64-v3",
                      .device = "a processor",
                      .environment = "{\"cc\": \"1\"}",
                      .case_name = "large"};
}

static bool put(Store *s, const char *sketch, double seconds, const char *parent) {
    StoreKey key = key_of(sketch);
    StoreResult r = {.status = "ok",
                     .complete = true,
                     .seconds = seconds,
                     .noise = 0.01,
                     .bytes = 64,
                     .flops = 8,
                     .percent_of_roof = 50,
                     .samples = 7,
                     .roof_bytes = 1e9};
    return store_put(s, &key, &r, "test", parent);
}

typedef struct {
    int count;
    double first, last, sum;
    char text[256];
} Seen;

static void see(void *context, const StoreRow *row) {
    Seen *seen = context;
    double seconds = store_number(row, "seconds");
    if (!seen->count++) seen->first = seconds;
    seen->last = seconds;
    seen->sum += seconds;
    snprintf(seen->text, sizeof seen->text, "%s|%s|%s|%s", store_text(row, "operator"), store_text(row, "source"),
             store_text(row, "status"), store_text(row, "no such column"));
}

static Seen seen_of(Store *s, const char *view, int64_t run) {
    Seen seen = {0};
    CHECK(store_each(s, view, run, see, &seen));
    return seen;
}

static void check_keys(void) {
    char path[] = "/tmp/sketchc-store-XXXXXX";
    Store *s = fresh(path);
    StoreResult r;
    StoreKey key = key_of("sketch a {}");
    CHECK(!store_find(s, &key, &r));
    CHECK(put(s, "sketch a {}", 2e-3, NULL));
    CHECK(store_find(s, &key, &r) && r.seconds == 2e-3 && r.complete && r.samples == 7 && r.bytes == 64 && r.flops == 8 &&
          r.percent_of_roof == 50 && r.roof_bytes == 1e9);
    const char **parts[] = {&key.definition, &key.sketch, &key.target, &key.arch, &key.device, &key.environment, &key.case_name};
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        const char *was = *parts[i];
        *parts[i] = "another";
        CHECK(!store_find(s, &key, &r));
        *parts[i] = was;
    }
    CHECK(store_find(s, &key, &r));
    CHECK(put(s, "sketch a {}", 2e-3, NULL)); /* not measured again */
    CHECK(seen_of(s, "measurements", -1).count == 1);
    CHECK(put(s, "sketch a {}", 1e-3, NULL));
    CHECK(seen_of(s, "measurements", -1).count == 2);
    CHECK(store_find(s, &key, &r) && r.seconds == 1e-3);
    CHECK_STR(seen_of(s, "best", -1).text, "add_one|test|ok|");
    CHECK(!store_each(s, "no such view", -1, see, NULL));
    discard(s, path);
}

static void check_runs(void) {
    char path[] = "/tmp/sketchc-store-XXXXXX";
    Store *s = fresh(path);
    StoreKey key = key_of("sketch a {}");
    CHECK(put(s, key.sketch, 1e-3, NULL));
    int64_t one = store_run_begin(s, &key, "islands", UINT64_MAX), two = store_run_begin(s, &key, "greedy", 1);
    CHECK(one > 0 && two > one);
    StoreResult r = {.status = "ok"};
    for (int i = 1; i <= 3; i++) {
        r.seconds = i;
        CHECK(store_put_trial(s, one, &key, &r, &(StoreTrial){.source = "rows", .at = i}));
    }
    CHECK(store_put_trial(s, two, &key, &r, &(StoreTrial){.source = "rows", .known = true}));
    Seen trials = seen_of(s, "trials", one);
    CHECK(trials.count == 3 && trials.first == 1 && trials.last == 3);
    CHECK(seen_of(s, "trials", -1).count == 4);
    CHECK(store_put_call(s, one, &(StoreCall){.proposer = "m", .status = "proposed", .cost = -1}) == 1);
    StoreCall call = {.proposer = "m", .status = "proposed", .cost = 2, .task = "first", .definition = key.definition, .target = "openmp"};
    int64_t number = store_put_call(s, -1, &call);
    CHECK(number == 2 && seen_of(s, "calls", one).count == 1 && seen_of(s, "calls", -1).count == 2);
    CHECK(store_adopt_call(s, two, number) && seen_of(s, "calls", two).count == 1);
    call.sketch = key.sketch;
    call.outcome = "ok";
    call.verified = true;
    CHECK(store_call_result(s, number, &call));
    Str calls;
    str_init(&calls);
    CHECK(store_report(s, "calls", true, &calls));
    CHECK(strstr(calls.data, "\"operator\":\"add_one\"") && strstr(calls.data, "\"chain\":2") && strstr(calls.data, "\"outcome\":\"ok\"") &&
          strstr(calls.data, "\"verified\":true"));
    str_release(&calls);
    CHECK(store_run_end(s, one, &key, &(StoreRunEnd){.tried = 3, .naive_seconds = 2, .best_seconds = 1, .complete = true}));
    Str out;
    str_init(&out);
    CHECK(store_report(s, "runs", true, &out));
    CHECK(strstr(out.data, "\"seed\":\"18446744073709551615\"") && strstr(out.data, "\"verified\":true") &&
          strstr(out.data, "\"ended\":null"));
    str_release(&out);
    discard(s, path);
}

static void check_vectors(void) {
    char path[] = "/tmp/sketchc-store-XXXXXX";
    Store *s = fresh(path);
    const double one[] = {1, -2.5, 1e-300}, two[] = {4};
    size_t size = 9;
    CHECK(!store_find_vector(s, "m", "text", &size) && size == 0);
    CHECK(store_put_vector(s, "m", "text", one, 3) && store_put_vector(s, "other", "text", two, 1));
    double *found = store_find_vector(s, "m", "text", &size);
    CHECK(found && size == 3 && memcmp(found, one, sizeof one) == 0);
    free(found);
    CHECK(store_put_vector(s, "m", "text", two, 1));
    free(found = store_find_vector(s, "m", "text", &size));
    CHECK(found && size == 1);
    discard(s, path);
}

/* What a full disk did not take of vectors and descriptions is remembered. */
static void check_full_disk(void) {
    const double one[] = {1};
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < 2; i++) {
        char path[] = "/tmp/sketchc-store-XXXXXX";
        Store *s = fresh(path);
        struct rlimit was, none;
        CHECK(getrlimit(RLIMIT_FSIZE, &was) == 0);
        none = (struct rlimit){512, was.rlim_max};
        CHECK(!store_fault(s) && setrlimit(RLIMIT_FSIZE, &none) == 0);
        bool taken = i ? store_put_vector(s, "m", "text", one, 1) : store_put_description(s, "m", "operator o {}", "words");
        CHECK(setrlimit(RLIMIT_FSIZE, &was) == 0);
        CHECK(!taken && store_fault(s));
        discard(s, path);
    }
}

/* An answer that fix-its changed has a verdict and no result: its verdict stays as long as something is known of the operator. */
static void check_changed_answers(void) {
    char path[] = "/tmp/sketchc-store-XXXXXX", *found;
    Store *s = fresh(path);
    StoreKey answer = key_of("sketch answer {}"), alone = answer;
    alone.definition = "operator alone {\n}\n";
    CHECK(put(s, "sketch a {}", 1e-3, NULL));
    CHECK(store_put_verdict(s, &answer, "{1}", "test") && store_put_verdict(s, &alone, "{2}", "test"));
    CHECK(store_gc(s) == 0 && store_gc(s) == 0 && store_check(s) == 0 && !store_fault(s));
    CHECK((found = store_find_verdict(s, &answer)) && strcmp(found, "{1}") == 0);
    free(found);
    CHECK(!store_find_verdict(s, &alone));
    discard(s, path);
}

/* What was said of a sketch belongs to operator, sketch, device and environment, and goes with the failure. */
static void check_verdicts(void) {
    char path[] = "/tmp/sketchc-store-XXXXXX", *found;
    Store *s = fresh(path);
    StoreKey failed = key_of("sketch f {}"), other = key_of("sketch f {}");
    CHECK(!store_find_verdict(s, &failed));
    CHECK(store_put(s, &failed, &(StoreResult){.status = "hang"}, "test", NULL));
    CHECK(store_put_verdict(s, &failed, "{1}", "test") && store_put_verdict(s, &failed, "{2}", "test"));
    CHECK((found = store_find_verdict(s, &failed)) && strcmp(found, "{2}") == 0);
    free(found);
    other.device = "another";
    CHECK(!store_find_verdict(s, &other));
    other = failed;
    other.environment = "{}";
    CHECK(!store_find_verdict(s, &other));
    CHECK(store_gc(s) == 1 && !store_find_verdict(s, &failed) && store_check(s) == 0 && !store_fault(s));
    discard(s, path);
}

/* A time at another case is no result of that case: it is neither best nor verified there, and goes with its sketch. */
static void check_shapes(void) {
    char path[] = "/tmp/sketchc-store-XXXXXX";
    Store *s = fresh(path);
    StoreResult r = {.seconds = 1e-6, .samples = 5};
    CHECK(put(s, "sketch a {}", 2e-3, NULL));
    StoreKey key = key_of("sketch a {}");
    CHECK(store_cases_measured(s, &key) == 1);
    key.case_name = "small";
    CHECK(store_put_measurement(s, &key, &r) && store_cases_measured(s, &key) == 2);
    CHECK(!store_find(s, &key, &r));
    CHECK(seen_of(s, "best", -1).count == 1 && seen_of(s, "best", -1).first == 2e-3);
    StoreKey failed = key_of("sketch f {}");
    CHECK(store_put(s, &failed, &(StoreResult){.status = "hang"}, "test", NULL));
    failed.case_name = "small";
    CHECK(store_put_measurement(s, &failed, &(StoreResult){.seconds = 1}));
    CHECK(store_gc(s) == 1 && seen_of(s, "measurements", -1).count == 2 && store_check(s) == 0);
    discard(s, path);
}

/* 150 sketches, each made from the one before; the last is the fastest. */
static void check_gc(void) {
    enum { COUNT = 150, LATER = 160 };
    char path[] = "/tmp/sketchc-store-XXXXXX", name[64], before[64];
    Store *s = fresh(path);
    StoreResult r;
    for (int i = 0; i < LATER; i++) {
        snprintf(name, sizeof name, "sketch s%d {}", i);
        snprintf(before, sizeof before, "sketch s%d {}", i - 1);
        CHECK(put(s, name, i < COUNT ? 2.0 - 0.01 * i : 9, i && i < COUNT ? before : NULL));
    }
    StoreKey best = key_of("sketch s149 {}"), slow = key_of("sketch s159 {}"), failed = key_of("sketch f {}");
    CHECK(store_put_artifact(s, &best, "SKA", 3) && store_put_artifact(s, &slow, "SKA", 3));
    CHECK(store_put(s, &failed, &(StoreResult){.status = "hang"}, "test", NULL));
    int64_t gone = store_gc(s);
    /* Beyond the fastest 100 are 60 of 160, of which 50 are ancestors of the best; and one failure. */
    CHECK(gone == 11);
    CHECK(store_find(s, &best, &r) && !store_find(s, &slow, &r) && !store_find(s, &failed, &r));
    CHECK(seen_of(s, "sketches", -1).count == COUNT && seen_of(s, "artifacts", -1).count == 1);
    CHECK(seen_of(s, "measurements", -1).count == COUNT);
    CHECK(store_gc(s) == 0 && store_check(s) == 0);
    discard(s, path);
}

int main(void) {
    check_keys();
    check_runs();
    check_vectors();
    check_full_disk();
    check_verdicts();
    check_changed_answers();
    check_shapes();
    check_gc();
    char *message = NULL;
    CHECK(!store_open(":memory:", &message) && message);
    free(message);
    return 0;
}
