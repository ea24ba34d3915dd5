/* What the store of searches holds: db, report, export-dataset. */
#include "ask.h"

#include "fail.h"
#include "report/report.h"
#include "store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

Store *ask_open_store(const char *path, bool existing) {
    char *message = NULL;
    Store *store = existing ? store_open_existing(path, &message) : store_open(path, &message);
    if (!store) fprintf(stderr, "sketchc: cannot open the store %s\n", message ? message : path);
    free(message);
    return store;
}

int ask_store_status(void) {
    return store_is_built() ? SKETCHC_USAGE_ERROR : SKETCHC_MISSING;
}

void ask_close_store(const CommandLine *line, Store *store) {
    const char *fault = store_fault(store), *path = option_value(line, OPTION_STORE);
    if (fault) fprintf(stderr, "sketchc: the store %s did not take everything, what is missing is measured anew: %s\n", path, fault);
    store_close(store);
}

/* ---- db ---- */

static int cannot_read(void) {
    fputs("sketchc: the store cannot be read; `sketchc db check` says whether it is whole\n", stderr);
    return SKETCHC_MISSING;
}

/* db query [VIEW], db best, db export. */
static int show(Store *store, const CommandLine *line, const char *what, Str *out) {
    bool query = strcmp(what, "query") == 0, export = strcmp(what, "export") == 0;
    const char *view = !query ? what : line->operands.len > 1 ? line->operands.data[1] : "results";
    if (!store_view_known(view)) {
        Str names;
        str_init(&names);
        store_view_names(&names);
        fprintf(stderr, "sketchc: db query has no view \"%s\"; there are %s\n", view, names.data);
        str_release(&names);
        return SKETCHC_USAGE_ERROR;
    }
    if (store_report(store, view, export || option_given(line, OPTION_JSON), out)) return 0;
    return cannot_read();
}

static int sweep(Store *store, Str *out) {
    int64_t gone = store_gc(store);
    str_printf(out, "%lld results dropped\n", (long long)(gone < 0 ? 0 : gone));
    if (gone >= 0) return 0;
    fputs("sketchc: the store could not be swept: is the disk full, or a search still writing?\n", stderr);
    return SKETCHC_MISSING;
}

int command_db(const CommandLine *line) {
    static const char *const words[] = {"query", "best", "export", "gc", "check"};
    const char *what = line->operands.len ? line->operands.data[0] : "";
    size_t known = 0;
    while (known < COUNT_OF(words) && strcmp(words[known], what) != 0) known++;
    if (known == COUNT_OF(words) || line->operands.len > (known ? 1 : 2)) {
        fputs("sketchc: db knows query [VIEW], best, export, gc and check\n", stderr);
        return SKETCHC_USAGE_ERROR;
    }
    if (!option_given(line, OPTION_STORE)) {
        fputs("sketchc: db wants --store=FILE\n", stderr);
        return SKETCHC_USAGE_ERROR;
    }
    Store *store = ask_open_store(option_value(line, OPTION_STORE), true);
    if (!store) return ask_store_status();
    int status = 0;
    Str out;
    str_init(&out);
    if (strcmp(what, "gc") == 0) {
        status = sweep(store, &out);
    } else if (strcmp(what, "check") == 0) {
        status = store_check(store) ? SKETCHC_VERIFY_FAILED : 0;
        str_append(&out, status ? "the store is damaged\n" : "the store is whole\n");
    } else {
        status = show(store, line, what, &out);
    }
    fputs(out.data, stdout);
    str_release(&out);
    store_close(store);
    return status;
}

/* ---- report, export-dataset ---- */

/* The one operand, opened. */
static Store *open_operand(const CommandLine *line, const char *what, int *status) {
    *status = SKETCHC_USAGE_ERROR;
    if (line->operands.len != 1) {
        fprintf(stderr, "sketchc: %s wants one store, as --propose --store=FILE makes them\n", what);
        return NULL;
    }
    *status = ask_store_status();
    return ask_open_store(line->operands.data[0], true);
}

int ask_write_text(const CommandLine *line, const Str *out) {
    const char *path = option_value(line, OPTION_OUTPUT);
    if (path && strcmp(path, "-") != 0) {
        if (file_write_atomic(path, out->data, out->len, 0644)) return 0;
        fprintf(stderr, "sketchc: cannot write %s: %s\n", path, strerror(errno));
        return SKETCHC_USAGE_ERROR;
    }
    fwrite(out->data, 1, out->len, stdout);
    return fail_output(0);
}

/* One verified tuple. */
static void put_tuple(void *context, const StoreRow *row) {
    Str *out = context;
    static const char *const texts[] = {"operator", "definition", "sketch", "hash",          "target",     "arch",
                                        "device",   "case",       "source", "artifact_hash", "environment"};
    static const char *const numbers[] = {"seconds", "noise", "percent_of_roof"};
    str_append(out, "{\"format\":1,\"kind\":\"tuple\"");
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        str_printf(out, ",\"%s\":", texts[i]);
        str_append_json(out, store_text(row, texts[i]));
    }
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        double value = store_number(row, numbers[i]);
        str_printf(out, ",\"%s\":", numbers[i]);
        if (i == COUNT_OF(numbers) - 1 && value <= 0)
            str_append(out, "null");
        else
            str_append_double(out, value);
    }
    size_t size;
    const void *artifact = store_data(row, "artifact", &size);
    str_printf(out, ",\"samples\":%lld,\"artifact\":", (long long)store_integer(row, "samples"));
    str_append(out, artifact ? "\"" : "null");
    if (artifact) str_append_base64(out, artifact, size);
    str_append(out, artifact ? "\"}\n" : "}\n");
}

int command_from_store(const CommandLine *line) {
    bool page = line->command == COMMAND_REPORT;
    int status;
    Store *store = open_operand(line, page ? "report" : "export-dataset", &status);
    if (!store) return status;
    const char *path = line->operands.data[0], *name = strrchr(path, '/');
    Str out;
    str_init(&out);
    bool ok = page ? report_page(store, name ? name + 1 : path, &out) : store_each(store, "dataset", -1, put_tuple, &out);
    status = ok ? ask_write_text(line, &out) : cannot_read();
    str_release(&out);
    store_close(store);
    return status;
}
