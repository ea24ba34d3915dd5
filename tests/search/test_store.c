/* A writer of the store for store.py: puts results one after the other and says each that was
 * acknowledged.
 *
 *     test_store FILE write WRITER COUNT    writes; prints "WRITER N" behind each
 *     test_store FILE check                 reads "WRITER N" lines and looks each up; status 1 when
 * one is lost */
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static StoreKey key_of(char *sketch, size_t size, int writer, int n) {
    snprintf(sketch, size, "sketch s%d_%d { }", writer, n);
    return (StoreKey){.definition = "operator o { }",
                      .sketch = sketch,
                      .target = "openmp",
                      .device = "here",
                      .case_name = "large",
                      .environment = "{}"};
}

static int write_all(Store *store, int writer, int count) {
    char sketch[64], line[64];
    for (int n = 0; n < count; n++) {
        StoreKey key = key_of(sketch, sizeof sketch, writer, n);
        StoreResult r = {
            .status = "ok", .complete = n % 2, .seconds = 1e-3 * (n + 1), .noise = 0.1};
        if (!store_put(store, &key, &r, "test", n ? "sketch s { }" : NULL)) return 1;
        int size = snprintf(line, sizeof line, "%d %d\n", writer, n);
        if (write(STDOUT_FILENO, line, (size_t)size) != size) return 1;
    }
    return 0;
}

static int check(Store *store) {
    int writer, n, lost = 0, count = 0;
    char sketch[64];
    while (scanf("%d %d", &writer, &n) == 2) {
        StoreKey key = key_of(sketch, sizeof sketch, writer, n);
        StoreResult r = {0};
        bool right = store_find(store, &key, &r) && strcmp(r.status, "ok") == 0 &&
                     r.complete == n % 2 && r.seconds == 1e-3 * (n + 1);
        lost += !right;
        count++;
    }
    printf("%d results, %d lost, integrity %d\n", count, lost, store_check(store));
    return lost || store_check(store) ? 1 : 0;
}

int main(int argc, char **argv) {
    char *message = NULL;
    Store *store = argc > 2 ? store_open(argv[1], &message) : NULL;
    if (!store) {
        fprintf(stderr, "test_store: %s\n", message ? message : "usage");
        free(message);
        return 2;
    }
    int status =
        strcmp(argv[2], "write") == 0 && argc == 5
            ? write_all(store, (int)strtol(argv[3], NULL, 10), (int)strtol(argv[4], NULL, 10))
            : check(store);
    store_close(store);
    return status;
}
