/* store.h over SQLite. Every statement is prepared with parameters: text never becomes SQL. */
#include "store.h"

#include <sqlite3.h>

#include <stdlib.h>
#include <string.h>

struct Store {
    sqlite3 *db;
};

enum { BUSY_MS = 60000, VERSION = 1, KEPT = 100 };

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS definition(hash TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT "
    "ROWID;"
    "CREATE TABLE IF NOT EXISTS sketch(hash TEXT PRIMARY KEY, definition TEXT NOT NULL, text TEXT "
    "NOT NULL,"
    " source TEXT NOT NULL, parent TEXT) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS result(sketch TEXT NOT NULL, target TEXT NOT NULL, device TEXT NOT "
    "NULL,"
    " case_name TEXT NOT NULL, status TEXT NOT NULL, complete INTEGER NOT NULL, seconds REAL NOT "
    "NULL,"
    " noise REAL NOT NULL, PRIMARY KEY(sketch, target, device, case_name)) WITHOUT ROWID;";

static bool run(Store *s, const char *sql) {
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static char *copy(const char *text) {
    size_t n = strlen(text) + 1;
    char *result = malloc(n);
    if (result) memcpy(result, text, n);
    return result;
}

static bool has_version(Store *s) {
    sqlite3_stmt *q = NULL;
    bool ok = sqlite3_prepare_v2(s->db, "PRAGMA user_version", -1, &q, NULL) == SQLITE_OK &&
              sqlite3_step(q) == SQLITE_ROW;
    int version = ok ? sqlite3_column_int(q, 0) : -1;
    sqlite3_finalize(q);
    return version == 0 || version == VERSION;
}

Store *store_open(const char *path, char **message) {
    Store *s = calloc(1, sizeof *s);
    *message = NULL;
    if (!s) return NULL;
    bool opened = sqlite3_open(path, &s->db) == SQLITE_OK;
    if (opened) sqlite3_busy_timeout(s->db, BUSY_MS);
    bool ok = opened && run(s, "PRAGMA journal_mode=WAL") && run(s, "PRAGMA synchronous=FULL");
    if (ok && !has_version(s)) {
        *message = copy("the store is of another version of sketchc");
        ok = false;
    }
    if (ok)
        ok = run(s, "BEGIN IMMEDIATE") && run(s, schema) && run(s, "PRAGMA user_version=1") &&
             run(s, "COMMIT");
    if (ok) return s;
    if (!*message) *message = copy(s->db ? sqlite3_errmsg(s->db) : "out of memory");
    store_close(s);
    return NULL;
}

void store_close(Store *s) {
    if (!s) return;
    sqlite3_close(s->db);
    free(s);
}

/* ---- Keys ---- */

typedef struct {
    char definition[33], sketch[33];
} Hashes;

static Hashes hashes_of(const StoreKey *key) {
    Hashes h;
    Hash128 definition = hash128(key->definition, strlen(key->definition), (Hash128){0, 0});
    hash128_hex(definition, h.definition);
    hash128_hex(hash128(key->sketch, strlen(key->sketch), definition), h.sketch);
    return h;
}

static bool bind_text(sqlite3_stmt *q, int at, const char *text) {
    return text ? sqlite3_bind_text(q, at, text, -1, SQLITE_TRANSIENT) == SQLITE_OK
                : sqlite3_bind_null(q, at) == SQLITE_OK;
}

static sqlite3_stmt *prepare(Store *s, const char *sql, size_t count, const char *const *texts) {
    sqlite3_stmt *q = NULL;
    if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) != SQLITE_OK) return NULL;
    for (size_t i = 0; i < count; i++) bind_text(q, (int)i + 1, texts[i]);
    return q;
}

static bool finish(sqlite3_stmt *q) {
    bool ok = q && sqlite3_step(q) == SQLITE_DONE;
    sqlite3_finalize(q);
    return ok;
}

/* ---- Results ---- */

bool store_find(Store *s, const StoreKey *key, StoreResult *result) {
    Hashes h = hashes_of(key);
    const char *texts[] = {h.sketch, key->target, key->device, key->case_name};
    sqlite3_stmt *q =
        prepare(s,
                "SELECT status, complete, seconds, noise FROM result WHERE sketch=?1 AND"
                " target=?2 AND device=?3 AND case_name=?4",
                COUNT_OF(texts), texts);
    bool found = q && sqlite3_step(q) == SQLITE_ROW;
    if (found) {
        *result = (StoreResult){.complete = sqlite3_column_int(q, 1) != 0,
                                .seconds = sqlite3_column_double(q, 2),
                                .noise = sqlite3_column_double(q, 3)};
        snprintf(result->status, sizeof result->status, "%s",
                 (const char *)sqlite3_column_text(q, 0));
    }
    sqlite3_finalize(q);
    return found;
}

bool store_put(Store *s, const StoreKey *key, const StoreResult *r, const char *source,
               const char *parent) {
    Hashes h = hashes_of(key);
    char parent_hash[33] = "";
    if (parent) {
        StoreKey of = *key;
        of.sketch = parent;
        memcpy(parent_hash, hashes_of(&of).sketch, sizeof parent_hash);
    }
    if (!run(s, "BEGIN IMMEDIATE")) return false;
    const char *definition[] = {h.definition, key->definition};
    bool ok = finish(prepare(s, "INSERT OR IGNORE INTO definition VALUES(?1, ?2)", 2, definition));
    const char *sketch[] = {h.sketch, h.definition, key->sketch, source,
                            parent ? parent_hash : NULL};
    ok = ok &&
         finish(prepare(s, "INSERT OR IGNORE INTO sketch VALUES(?1, ?2, ?3, ?4, ?5)", 5, sketch));
    const char *texts[] = {h.sketch, key->target, key->device, key->case_name, r->status};
    sqlite3_stmt *q =
        prepare(s, "INSERT OR REPLACE INTO result VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                COUNT_OF(texts), texts);
    ok = ok && q && sqlite3_bind_int(q, 6, r->complete) == SQLITE_OK &&
         sqlite3_bind_double(q, 7, r->seconds) == SQLITE_OK &&
         sqlite3_bind_double(q, 8, r->noise) == SQLITE_OK;
    bool done = finish(q);
    if (ok && done && run(s, "COMMIT")) return true;
    run(s, "ROLLBACK");
    return false;
}

/* ---- Reports ---- */

static const struct {
    const char *name, *sql;
} reports[] = {
    {"query",
     "SELECT d.text, k.hash, r.target, r.device, r.case_name, r.status, r.complete, r.seconds, "
     "k.source, NULL"
     " FROM result r JOIN sketch k ON k.hash=r.sketch JOIN definition d ON d.hash=k.definition"
     " ORDER BY d.text, r.target, r.device, r.seconds, k.hash"},
    {"best",
     "SELECT d.text, k.hash, r.target, r.device, r.case_name, r.status, r.complete, "
     "min(r.seconds), k.source,"
     " NULL FROM result r JOIN sketch k ON k.hash=r.sketch JOIN definition d ON d.hash=k.definition"
     " WHERE r.status='ok' AND r.complete AND r.seconds>0 GROUP BY d.hash, r.target, r.device"
     " ORDER BY d.text, r.target, r.device"},
    {"export",
     "SELECT d.text, k.hash, r.target, r.device, r.case_name, r.status, r.complete, r.seconds, "
     "k.source,"
     " k.text FROM result r JOIN sketch k ON k.hash=r.sketch JOIN definition d ON "
     "d.hash=k.definition"
     " WHERE r.status='ok' AND r.complete ORDER BY d.text, r.target, r.device, r.seconds, k.hash"},
};

static const char *column(sqlite3_stmt *q, int at) {
    const unsigned char *text = sqlite3_column_text(q, at);
    return text ? (const char *)text : "";
}

/* The name behind `operator`. */
static void append_name(Str *out, const char *definition) {
    const char *p = strstr(definition, "operator ");
    p = p ? p + strlen("operator ") : definition;
    str_append_n(out, p, strcspn(p, " \n{"));
}

static void append_text_row(sqlite3_stmt *q, Str *out) {
    append_name(out, column(q, 0));
    str_printf(out, " %.8s %s %s %s %s%s %.6g ms %s\n", column(q, 1), column(q, 2), column(q, 3),
               column(q, 4), column(q, 5), sqlite3_column_int(q, 6) ? "" : " (partly verified)",
               1e3 * sqlite3_column_double(q, 7), column(q, 8));
}

static void append_json_row(sqlite3_stmt *q, bool texts, Str *out) {
    static const char *const names[] = {NULL, "hash", "target", "device", "case", "status"};
    Str name;
    str_init(&name);
    append_name(&name, column(q, 0));
    str_append(out, "{\"operator\":");
    str_append_json(out, name.data);
    str_release(&name);
    for (int i = 1; i < 6; i++) {
        str_printf(out, ",\"%s\":", names[i]);
        str_append_json(out, column(q, i));
    }
    str_printf(out, ",\"verified\":%s,\"seconds\":", sqlite3_column_int(q, 6) ? "true" : "false");
    str_append_double(out, sqlite3_column_double(q, 7));
    str_append(out, ",\"source\":");
    str_append_json(out, column(q, 8));
    if (texts) {
        str_append(out, ",\"definition\":");
        str_append_json(out, column(q, 0));
        str_append(out, ",\"sketch\":");
        str_append_json(out, column(q, 9));
    }
    str_append(out, "}\n");
}

bool store_report(Store *s, const char *what, bool json, Str *out) {
    size_t i = 0;
    while (i < COUNT_OF(reports) && strcmp(reports[i].name, what) != 0) i++;
    if (i == COUNT_OF(reports)) return false;
    bool texts = strcmp(what, "export") == 0;
    sqlite3_stmt *q = prepare(s, reports[i].sql, 0, NULL);
    int step = SQLITE_ERROR;
    while (q && (step = sqlite3_step(q)) == SQLITE_ROW)
        if (json || texts)
            append_json_row(q, texts, out);
        else
            append_text_row(q, out);
    sqlite3_finalize(q);
    return step == SQLITE_DONE;
}

int64_t store_gc(Store *s) {
    char keep[16];
    snprintf(keep, sizeof keep, "%d", KEPT);
    const char *texts[] = {keep};
    if (!run(s, "BEGIN IMMEDIATE")) return -1;
    bool ok = finish(prepare(
        s,
        "DELETE FROM result WHERE (sketch, target, device, case_name) IN (SELECT sketch, target,"
        " device, case_name FROM (SELECT r.*, row_number() OVER (PARTITION BY k.definition,"
        " r.target, r.device ORDER BY r.status<>'ok', r.seconds=0, r.seconds) n FROM result r"
        " JOIN sketch k ON k.hash=r.sketch) WHERE n>CAST(?1 AS INTEGER) OR status<>'ok')",
        1, texts));
    int64_t gone = sqlite3_changes(s->db);
    ok = ok && run(s, "DELETE FROM sketch WHERE hash NOT IN (SELECT sketch FROM result)") &&
         run(s, "DELETE FROM definition WHERE hash NOT IN (SELECT definition FROM sketch)") &&
         run(s, "COMMIT");
    if (!ok) run(s, "ROLLBACK");
    return ok && run(s, "VACUUM") ? gone : -1;
}

int store_check(Store *s) {
    sqlite3_stmt *q = prepare(s, "PRAGMA integrity_check", 0, NULL);
    bool whole = q && sqlite3_step(q) == SQLITE_ROW && strcmp(column(q, 0), "ok") == 0;
    sqlite3_finalize(q);
    return whole ? 0 : 1;
}
