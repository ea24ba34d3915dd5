/* Reading the store: the views of store_views.def, as rows, text and JSON. */
#include "store_internal.h"

#include <string.h>

static const struct {
    const char *name;
    bool of_runs;
    const char *sql;
} views[] = {
#define STORE_VIEW(name, of_runs, sql, summary) {name, of_runs, sql},
#include "store_views.def"
#undef STORE_VIEW
};

struct StoreRow {
    sqlite3_stmt *q;
};

static size_t find_view(const char *name) {
    size_t i = 0;
    while (i < COUNT_OF(views) && strcmp(views[i].name, name) != 0) i++;
    return i;
}

bool store_view_known(const char *view) {
    return find_view(view) < COUNT_OF(views);
}

void store_view_names(Str *out) {
    for (size_t i = 0; i < COUNT_OF(views); i++) str_printf(out, "%s%s", i ? ", " : "", views[i].name);
}

static int column_of(const StoreRow *row, const char *name) {
    int count = sqlite3_column_count(row->q), i = 0;
    while (i < count && strcmp(sqlite3_column_name(row->q, i), name) != 0) i++;
    return i; /* SQLite gives null for one behind the last */
}

const char *store_text(const StoreRow *row, const char *column) {
    const unsigned char *text = sqlite3_column_text(row->q, column_of(row, column));
    return text ? (const char *)text : "";
}

const void *store_data(const StoreRow *row, const char *column, size_t *size) {
    int at = column_of(row, column);
    const void *data = sqlite3_column_blob(row->q, at);
    *size = (size_t)sqlite3_column_bytes(row->q, at);
    return data;
}

double store_number(const StoreRow *row, const char *column) {
    return sqlite3_column_double(row->q, column_of(row, column));
}

int64_t store_integer(const StoreRow *row, const char *column) {
    return sqlite3_column_int64(row->q, column_of(row, column));
}

bool store_each(Store *s, const char *view, int64_t run, void (*visit)(void *context, const StoreRow *row), void *context) {
    size_t at = find_view(view);
    if (at == COUNT_OF(views)) return false;
    StoreRow row = {store_prepare(s, views[at].sql, 0, NULL)};
    int step = SQLITE_ERROR;
    if (row.q && views[at].of_runs && run >= 0) sqlite3_bind_int64(row.q, 1, run);
    while (row.q && (step = sqlite3_step(row.q)) == SQLITE_ROW) visit(context, &row);
    sqlite3_finalize(row.q);
    return step == SQLITE_DONE;
}

/* ---- As text and JSON ---- */

static const char *const booleans[] = {"verified", "known", "replayed"};

static bool is_boolean(const char *name) {
    for (size_t i = 0; i < COUNT_OF(booleans); i++)
        if (strcmp(booleans[i], name) == 0) return true;
    return false;
}

static void put_json_value(const StoreRow *row, int i, const char *name, Str *out) {
    switch (sqlite3_column_type(row->q, i)) {
    case SQLITE_INTEGER:
        if (is_boolean(name))
            str_append(out, sqlite3_column_int(row->q, i) ? "true" : "false");
        else
            str_printf(out, "%lld", (long long)sqlite3_column_int64(row->q, i));
        break;
    case SQLITE_FLOAT:
        str_append_double(out, sqlite3_column_double(row->q, i));
        break;
    case SQLITE_TEXT:
        str_append_json(out, (const char *)sqlite3_column_text(row->q, i));
        break;
    default:
        str_append(out, "null");
    }
}

static void put_json(void *out, const StoreRow *row) {
    for (int i = 0; i < sqlite3_column_count(row->q); i++) {
        const char *name = sqlite3_column_name(row->q, i);
        str_printf(out, "%s\"%s\":", i ? "," : "{", name);
        if (sqlite3_column_type(row->q, i) == SQLITE_BLOB) /* bytes have their own way out */
            str_printf(out, "%d", sqlite3_column_bytes(row->q, i));
        else
            put_json_value(row, i, name, out);
    }
    str_append(out, "}\n");
}

/* One line: hashes cut, times in ms, texts of several lines left to JSON. */
static void put_text(void *out, const StoreRow *row) {
    bool first = true;
    for (int i = 0; i < sqlite3_column_count(row->q); i++) {
        int kind = sqlite3_column_type(row->q, i); /* before the text, which may convert the value */
        const char *name = sqlite3_column_name(row->q, i), *text = (const char *)sqlite3_column_text(row->q, i);
        if (kind == SQLITE_BLOB || (text && strchr(text, '\n'))) continue;
        if (!first) str_append_char(out, ' ');
        first = false;
        if (strcmp(name, "verified") == 0)
            str_append(out, sqlite3_column_int(row->q, i)                              ? "verified"
                            : column_of(row, "outcome") < sqlite3_column_count(row->q) ? "not-verified"
                                                                                       : "partly-verified");
        else if (strstr(name, "seconds") && kind == SQLITE_FLOAT)
            str_printf(out, "%.6g ms", 1e3 * sqlite3_column_double(row->q, i));
        else if (kind == SQLITE_FLOAT)
            str_printf(out, "%s=%.4g", name, sqlite3_column_double(row->q, i));
        else if (strstr(name, "hash") || strcmp(name, "winner") == 0)
            str_printf(out, "%.8s", text && *text ? text : "-");
        else if (kind == SQLITE_TEXT)
            str_append(out, text && *text ? text : "-");
        else
            str_printf(out, "%s=%s", name, text ? text : "-");
    }
    str_append_char(out, '\n');
}

bool store_report(Store *s, const char *view, bool json, Str *out) {
    return store_each(s, view, -1, json ? put_json : put_text, out);
}
