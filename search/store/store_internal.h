/* Shared by the files of the store. */
#ifndef SEARCH_STORE_STORE_INTERNAL_H
#define SEARCH_STORE_STORE_INTERNAL_H

#include "store.h"

#include <sqlite3.h>

/* "Skch" in the file's header tells a store from other programs' databases; the first version had none. */
enum { STORE_APPLICATION = 0x536b6368, STORE_VERSION = 5 };

struct Store {
    sqlite3 *db;
    char fault[256]; /* of the first write that failed; "" none */
};

/* store_schema.c */
extern const char store_schema[];         /* makes the tables of an empty file */
extern const char store_from_version_1[]; /* in place of the first version's tables; nothing is lost */
extern const char store_from_version_2[];
extern const char store_from_version_3[];
extern const char store_from_version_4[];

/* store.c */
bool store_sql(Store *s, const char *sql); /* runs all statements */
/* The statement with texts bound to ?1, ?2, ...; null on an error. */
sqlite3_stmt *store_prepare(Store *s, const char *sql, size_t count, const char *const *texts);
bool store_finish(sqlite3_stmt *q); /* runs and frees one that has no rows; null is an error */

enum {
    BUSY_MS = 60000, /* that a writer waits for another process's lock on the file */
    KEPT = 100,      /* results of an operator on a device that upkeep leaves, fastest first (not measured) */
    KEY_TEXTS = 6    /* columns of a key */
};

/* The number that the pragma gives; -1: none. */
int64_t store_pragma(Store *s, const char *sql);
/* The first write that failed is remembered, for whoever closes the store. */
bool store_note_fault(Store *s, bool ok);

#endif
