/* Opens a store: its file, its version, and what is wrong with it. */
#include "store_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Opening ---- */

int64_t store_pragma(Store *s, const char *sql) {
    sqlite3_stmt *q = store_prepare(s, sql, 0, NULL);
    int64_t value = q && sqlite3_step(q) == SQLITE_ROW ? sqlite3_column_int64(q, 0) : -1;
    sqlite3_finalize(q);
    return value;
}

static bool has_table(Store *s, const char *name) {
    const char *texts[] = {name};
    sqlite3_stmt *q = store_prepare(s, "SELECT 1 FROM sqlite_master WHERE ?1 IN (name, '')", 1, texts);
    bool found = q && sqlite3_step(q) == SQLITE_ROW;
    sqlite3_finalize(q);
    return found;
}

/* The version of the file: 0 is an empty one, -1 no store, -2 cannot be read. */
static int64_t version_of(Store *s) {
    int64_t version = store_pragma(s, "PRAGMA user_version"), application = store_pragma(s, "PRAGMA application_id");
    if (version < 0 || application < 0) return -2;
    if (application == STORE_APPLICATION) return version;
    if (version == 1 && !application && has_table(s, "result")) return 1;
    return !version && !application && !has_table(s, "") ? 0 : -1;
}

static char *complaint(const char *path, const char *what) {
    Str text;
    str_init(&text);
    str_printf(&text, "%s: %s", path, what);
    char *result = malloc(text.len + 1);
    if (result) memcpy(result, text.data, text.len + 1);
    str_release(&text);
    return result;
}

/* What may be done about an error of SQLite. */
static const char *remedy(int code) {
    switch (code & 0xff) {
    case SQLITE_CANTOPEN:
        return "its folder must be there and may be written in: make it, or name another file";
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return "file and folder must be writable: change their rights, or name another file";
    case SQLITE_FULL:
        return "free some space, or name a file on another disk";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return "another program holds it: wait for that, or name another file";
    default:
        return "look at the file's folder, its rights and the space on the disk";
    }
}

bool store_note_fault(Store *s, bool ok) {
    if (!ok && !s->fault[0]) snprintf(s->fault, sizeof s->fault, "%s; %s", sqlite3_errmsg(s->db), remedy(sqlite3_errcode(s->db)));
    return ok;
}

/* Of the fault that is remembered: a rollback behind it has an error of its own, or none. */
static char *sqlite_complaint(Store *s, const char *path) {
    store_note_fault(s, false);
    return complaint(path, s->fault);
}

/* What to say of a file that cannot be used; null when it can be. Nothing is written to it before. */
static char *fault_of(Store *s, const char *path, int64_t version) {
    int code = sqlite3_errcode(s->db);
    if (code == SQLITE_NOTADB || version == -1)
        return complaint(path, "this file is no store of sketchc and stays as it is; name another "
                               "file, which is made if it is not there");
    if (version > STORE_VERSION)
        return complaint(path, "this store was written by a later sketchc and stays as it is; use "
                               "that one, or name another file");
    if (version == -2 && code != SQLITE_CORRUPT) return sqlite_complaint(s, path);
    if (code == SQLITE_CORRUPT || (version > 0 && store_check(s)))
        return complaint(path, "this store is damaged and stays as it is; take it back from a copy, "
                               "save what can be read with `sqlite3 FILE .recover`, or name another "
                               "file");
    return NULL;
}

static void operator_name(sqlite3_context *context, int count, sqlite3_value **values) {
    const char *text = (const char *)sqlite3_value_text(values[0]);
    (void)count;
    const char *p = text ? strstr(text, "operator ") : NULL;
    p = p ? p + strlen("operator ") : text ? text : "";
    sqlite3_result_text(context, p, (int)strcspn(p, " \n{"), SQLITE_TRANSIENT);
}

/* Makes or migrates the tables; the version is looked at again, as another process may have been first. */
static bool bring_up(Store *s) {
    char mark[96];
    if (!store_sql(s, "BEGIN IMMEDIATE")) return false;
    int64_t version = version_of(s);
    snprintf(mark, sizeof mark, "PRAGMA application_id=%d; PRAGMA user_version=%d", STORE_APPLICATION, STORE_VERSION);
    bool ok = version == 0   ? store_sql(s, store_schema)
              : version == 1 ? store_sql(s, store_from_version_1)
              : version == 2 ? store_sql(s, store_from_version_2)
              : version == 3 ? store_sql(s, store_from_version_3)
              : version == 4 ? store_sql(s, store_from_version_4)
                             : version == STORE_VERSION;
    if (ok && version != STORE_VERSION) ok = store_sql(s, mark);
    if (store_note_fault(s, ok && store_sql(s, "COMMIT"))) return true;
    store_sql(s, "ROLLBACK");
    return false;
}

static bool prepare_file(Store *s, const char *path, char **message) {
    int64_t version = version_of(s);
    if ((*message = fault_of(s, path, version))) return false;
    return store_sql(s, "PRAGMA journal_mode=WAL") && store_sql(s, "PRAGMA synchronous=FULL") && store_sql(s, "PRAGMA foreign_keys=ON") &&
           sqlite3_create_function(s->db, "operator_name", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, operator_name, NULL, NULL) ==
               SQLITE_OK &&
           (version == STORE_VERSION || bring_up(s));
}

static Store *open_file(const char *path, int flags, char **message) {
    Store *s = calloc(1, sizeof *s);
    *message = NULL;
    if (!s) return NULL;
    /* ":memory:" and "" would be stores that are on no disk. */
    if (!*path || *path == ':') {
        *message = complaint(path, "a store is a file; name one");
        free(s);
        return NULL;
    }
    bool ok = sqlite3_open_v2(path, &s->db, flags, NULL) == SQLITE_OK;
    if (ok) {
        sqlite3_busy_timeout(s->db, BUSY_MS);
        ok = prepare_file(s, path, message);
    }
    if (ok) return s;
    if (!*message) *message = s->db ? sqlite_complaint(s, path) : complaint(path, "out of memory");
    store_close(s);
    return NULL;
}

bool store_is_built(void) {
    return true;
}

Store *store_open(const char *path, char **message) {
    return open_file(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, message);
}

Store *store_open_existing(const char *path, char **message) {
    if (access(path, F_OK) == 0) return open_file(path, SQLITE_OPEN_READWRITE, message);
    *message = complaint(path, "there is no such store; `sketchc --propose --store=FILE` makes one");
    return NULL;
}

void store_close(Store *s) {
    if (!s) return;
    sqlite3_close(s->db);
    free(s);
}
