/* store.h over SQLite: opening and writing. Every statement is prepared with parameters: text never becomes SQL. */
#include "store_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool store_sql(Store *s, const char *sql) {
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

/* ---- Statements ---- */

static bool bind_text(sqlite3_stmt *q, int at, const char *text) {
    return text ? sqlite3_bind_text(q, at, text, -1, SQLITE_TRANSIENT) == SQLITE_OK : sqlite3_bind_null(q, at) == SQLITE_OK;
}

sqlite3_stmt *store_prepare(Store *s, const char *sql, size_t count, const char *const *texts) {
    sqlite3_stmt *q = NULL;
    if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) != SQLITE_OK) return NULL;
    for (size_t i = 0; i < count; i++) bind_text(q, (int)i + 1, texts[i]);
    return q;
}

static sqlite3_stmt *with_numbers(sqlite3_stmt *q, int from, size_t count, const double *numbers) {
    for (size_t i = 0; q && i < count; i++) sqlite3_bind_double(q, from + (int)i, numbers[i]);
    return q;
}

bool store_finish(sqlite3_stmt *q) {
    bool ok = q && sqlite3_step(q) == SQLITE_DONE;
    sqlite3_finalize(q);
    return ok;
}

const char *store_fault(const Store *s) {
    return s && s->fault[0] ? s->fault : NULL;
}

static bool execute(Store *s, const char *sql, size_t count, const char *const *texts) {
    return store_finish(store_prepare(s, sql, count, texts));
}

static bool begin(Store *s) {
    return store_note_fault(s, store_sql(s, "BEGIN IMMEDIATE"));
}

static bool end(Store *s, bool ok) {
    if (store_note_fault(s, ok && store_sql(s, "COMMIT"))) return true;
    store_sql(s, "ROLLBACK");
    return false;
}

/* ---- Keys ---- */

typedef struct {
    char definition[33], sketch[33];
} Hashes;

static Hashes hashes_of(const StoreKey *key) {
    Hashes h;
    Hash128 definition = hash128(key->definition, strlen(key->definition), (Hash128){0, 0});
    const char *sketch = key->sketch ? key->sketch : "";
    hash128_hex(definition, h.definition);
    hash128_hex(hash128(sketch, strlen(sketch), definition), h.sketch);
    return h;
}

/* The parameters of what belongs to a key: ?1 sketch, ?2 target, ?3 arch, ?4 device, ?5 environment, ?6 case. */
#define DEVICE "(SELECT id FROM device WHERE target = ?2 AND arch = ?3 AND name = ?4)"

#define ENVIRONMENT "(SELECT id FROM environment WHERE text = ?5)"

static const char *or_empty(const char *text) {
    return text ? text : "";
}

static void texts_of(const StoreKey *key, const Hashes *h, const char *texts[KEY_TEXTS]) {
    const char *all[] = {
        h->sketch, or_empty(key->target), or_empty(key->arch), or_empty(key->device), or_empty(key->environment), or_empty(key->case_name)};
    memcpy(texts, all, sizeof all);
}

static bool put_definition(Store *s, const StoreKey *key, const Hashes *h) {
    const char *texts[] = {h->definition, key->definition};
    return execute(s, "INSERT OR IGNORE INTO definition VALUES(?1, operator_name(?2), ?2)", 2, texts);
}

static bool put_machine(Store *s, const char *const *texts) {
    const char *device[] = {texts[1], texts[2], texts[3]}, *environment[] = {texts[4]};
    return execute(s,
                   "INSERT OR IGNORE INTO device(target, arch, name, roof_bytes)"
                   " VALUES(?1, ?2, ?3, 0)",
                   3, device) &&
           execute(s, "INSERT OR IGNORE INTO environment(text) VALUES(?1)", 1, environment);
}

/* ---- Results ---- */

bool store_find(Store *s, const StoreKey *key, StoreResult *result) {
    Hashes h = hashes_of(key);
    const char *texts[KEY_TEXTS];
    texts_of(key, &h, texts);
    sqlite3_stmt *q = store_prepare(s,
                                    "SELECT r.status, r.complete, r.seconds, r.noise, r.samples, r.percent_of_roof, c.bytes,"
                                    " c.flops, (SELECT roof_bytes FROM device WHERE id = r.device), (SELECT m.baseline FROM measurement m"
                                    " WHERE m.sketch = r.sketch AND m.device = r.device AND m.environment = r.environment AND m.case_name ="
                                    " r.case_name ORDER BY m.id DESC LIMIT 1) FROM result r"
                                    " JOIN sketch k ON k.hash = r.sketch LEFT JOIN op_case c ON c.definition = k.definition"
                                    " AND c.name = r.case_name WHERE r.sketch = ?1 AND r.device = " DEVICE
                                    " AND r.environment = " ENVIRONMENT " AND r.case_name = ?6",
                                    KEY_TEXTS, texts);
    bool found = q && sqlite3_step(q) == SQLITE_ROW;
    if (found) {
        *result = (StoreResult){.complete = sqlite3_column_int(q, 1) != 0,
                                .seconds = sqlite3_column_double(q, 2),
                                .noise = sqlite3_column_double(q, 3),
                                .samples = (unsigned)sqlite3_column_int(q, 4),
                                .percent_of_roof = sqlite3_column_double(q, 5),
                                .bytes = sqlite3_column_double(q, 6),
                                .flops = sqlite3_column_double(q, 7),
                                .roof_bytes = sqlite3_column_double(q, 8),
                                .baseline = sqlite3_column_double(q, 9)};
        snprintf(result->status, sizeof result->status, "%s", (const char *)sqlite3_column_text(q, 0));
    }
    sqlite3_finalize(q);
    return found;
}

static bool put_sketch(Store *s, const StoreKey *key, const Hashes *h, const char *source, const char *parent) {
    const char *sketch[] = {h->sketch, h->definition, key->sketch, source};
    if (!execute(s, "INSERT OR IGNORE INTO sketch VALUES(?1, ?2, ?3, ?4)", 4, sketch)) return false;
    if (!parent) return true;
    StoreKey of = *key;
    of.sketch = parent;
    Hashes from = hashes_of(&of);
    const char *lineage[] = {h->sketch, from.sketch};
    return execute(s, "INSERT OR IGNORE INTO lineage VALUES(?1, ?2)", 2, lineage);
}

static bool put_verification(Store *s, const char *const *key, const StoreResult *r) {
    const char *texts[KEY_TEXTS + 2] = {key[0], key[1], key[2], key[3], key[4], key[5], r->status, r->complete ? "1" : "0"};
    return execute(s, "INSERT OR REPLACE INTO verification VALUES(?1, " DEVICE ", " ENVIRONMENT ", ?6, ?7, CAST(?8 AS INTEGER))",
                   KEY_TEXTS + 2, texts);
}

/* A result that is put again with the same time was not measured again. */
static bool put_measurement(Store *s, const char *const *key, const StoreResult *r) {
    double numbers[] = {r->seconds, r->noise, r->samples, r->percent_of_roof, r->baseline};
    if (r->seconds <= 0) return true;
    sqlite3_stmt *q = store_prepare(s,
                                    "INSERT INTO measurement(sketch, device, environment, case_name, seconds, noise, samples,"
                                    " percent_of_roof, baseline) SELECT ?1, " DEVICE ", " ENVIRONMENT ", ?6, ?7, ?8, ?9, ?10, ?11 WHERE"
                                    " NOT EXISTS(SELECT 1 FROM result WHERE sketch = ?1 AND device = " DEVICE
                                    " AND environment = " ENVIRONMENT " AND case_name = ?6 AND seconds = ?7 AND noise = ?8)",
                                    KEY_TEXTS, key);
    return store_finish(with_numbers(q, KEY_TEXTS + 1, COUNT_OF(numbers), numbers));
}

/* What is known of the case and the device is kept once. */
static bool put_facts(Store *s, const char *const *key, const Hashes *h, const StoreResult *r) {
    const char *case_texts[] = {h->definition, key[5]};
    double work[] = {r->bytes, r->flops};
    bool ok = true;
    if (r->bytes > 0)
        ok = store_finish(with_numbers(store_prepare(s,
                                                     "INSERT INTO op_case VALUES(?1, ?2, '', ?3, ?4) ON CONFLICT DO UPDATE"
                                                     " SET bytes = ?3, flops = ?4",
                                                     2, case_texts),
                                       3, 2, work));
    if (ok && r->roof_bytes > 0)
        ok = store_finish(with_numbers(store_prepare(s,
                                                     "UPDATE device SET roof_bytes = ?7 WHERE target = ?2 AND arch = ?3 AND"
                                                     " name = ?4",
                                                     KEY_TEXTS, key),
                                       7, 1, &r->roof_bytes));
    return ok;
}

bool store_put(Store *s, const StoreKey *key, const StoreResult *r, const char *source, const char *parent) {
    Hashes h = hashes_of(key);
    const char *texts[KEY_TEXTS];
    texts_of(key, &h, texts);
    if (!begin(s)) return false;
    return end(s, put_definition(s, key, &h) && put_machine(s, texts) && put_sketch(s, key, &h, source, parent) &&
                      put_measurement(s, texts, r) && put_verification(s, texts, r) && put_facts(s, texts, &h, r));
}

bool store_put_measurement(Store *s, const StoreKey *key, const StoreResult *r) {
    Hashes h = hashes_of(key);
    const char *texts[KEY_TEXTS];
    texts_of(key, &h, texts);
    if (!begin(s)) return false;
    return end(s, put_measurement(s, texts, r) && put_facts(s, texts, &h, r));
}

int64_t store_cases_measured(Store *s, const StoreKey *key) {
    Hashes h = hashes_of(key);
    const char *texts[KEY_TEXTS];
    texts_of(key, &h, texts);
    sqlite3_stmt *q = store_prepare(
        s, "SELECT count(DISTINCT case_name) FROM measurement WHERE sketch = ?1 AND device = " DEVICE " AND environment = " ENVIRONMENT,
        KEY_TEXTS - 1, texts);
    int64_t count = q && sqlite3_step(q) == SQLITE_ROW ? sqlite3_column_int64(q, 0) : -1;
    sqlite3_finalize(q);
    return count;
}

bool store_put_artifact(Store *s, const StoreKey *key, const void *data, size_t size) {
    Hashes h = hashes_of(key);
    const char *texts[KEY_TEXTS];
    char hash[33];
    texts_of(key, &h, texts);
    hash128_hex(hash128(data, size, (Hash128){0, 0}), hash);
    sqlite3_stmt *q = store_prepare(s, "INSERT OR REPLACE INTO artifact VALUES(?1, " DEVICE ", " ENVIRONMENT ", ?7, ?8)", KEY_TEXTS, texts);
    if (q) bind_text(q, 7, hash);
    if (q) sqlite3_bind_blob64(q, 8, data, size, SQLITE_TRANSIENT);
    return store_finish(q);
}

bool store_put_case(Store *s, const char *definition, const char *name, const char *sizes) {
    StoreKey key = {.definition = definition};
    Hashes h = hashes_of(&key);
    const char *texts[] = {h.definition, name, sizes};
    if (!begin(s)) return false;
    return end(s, put_definition(s, &key, &h) && execute(s,
                                                         "INSERT INTO op_case VALUES(?1, ?2, ?3, 0, 0) ON CONFLICT DO UPDATE"
                                                         " SET sizes = ?3",
                                                         COUNT_OF(texts), texts));
}

/* ---- Verdicts ---- */

/* Of the first row, malloc'ed, or null; frees the statement. */
static char *first_text(sqlite3_stmt *q) {
    const char *text = q && sqlite3_step(q) == SQLITE_ROW ? (const char *)sqlite3_column_text(q, 0) : NULL;
    char *found = text ? malloc(strlen(text) + 1) : NULL;
    if (found) memcpy(found, text, strlen(text) + 1);
    sqlite3_finalize(q);
    return found;
}

char *store_find_verdict(Store *s, const StoreKey *key) {
    Hashes h = hashes_of(key);
    const char *texts[KEY_TEXTS];
    texts_of(key, &h, texts);
    sqlite3_stmt *q = store_prepare(s, "SELECT text FROM verdict WHERE sketch = ?1 AND device = " DEVICE " AND environment = " ENVIRONMENT,
                                    KEY_TEXTS - 1, texts);
    return first_text(q);
}

bool store_put_verdict(Store *s, const StoreKey *key, const char *text, const char *source) {
    Hashes h = hashes_of(key);
    const char *texts[KEY_TEXTS];
    texts_of(key, &h, texts);
    texts[KEY_TEXTS - 1] = text;
    if (!begin(s)) return false;
    return end(s, put_definition(s, key, &h) && put_machine(s, texts) && put_sketch(s, key, &h, source, NULL) &&
                      execute(s, "INSERT OR REPLACE INTO verdict VALUES(?1, " DEVICE ", " ENVIRONMENT ", ?6)", KEY_TEXTS, texts));
}

/* ---- Runs ---- */

#define NOW "strftime('%Y-%m-%dT%H:%M:%SZ', 'now')"

int64_t store_run_begin(Store *s, const StoreKey *key, const char *strategy, uint64_t seed) {
    Hashes h = hashes_of(key);
    const char *machine[KEY_TEXTS];
    char number[32];
    texts_of(key, &h, machine);
    snprintf(number, sizeof number, "%llu", (unsigned long long)seed);
    const char *texts[] = {h.definition, machine[1], machine[2], machine[3], machine[4], machine[5], strategy, number};
    if (!begin(s)) return -1;
    bool ok = put_definition(s, key, &h) && put_machine(s, machine) &&
              execute(s,
                      "INSERT INTO run(definition, device, environment, case_name, strategy,"
                      " seed, began) VALUES(?1, " DEVICE ", " ENVIRONMENT ", ?6, ?7, ?8, " NOW ")",
                      COUNT_OF(texts), texts);
    int64_t run = sqlite3_last_insert_rowid(s->db);
    return end(s, ok) ? run : -1;
}

bool store_put_trial(Store *s, int64_t run, const StoreKey *key, const StoreResult *r, const StoreTrial *trial) {
    Hashes h = hashes_of(key);
    const char *texts[] = {h.sketch, trial->source, r->status};
    double numbers[] = {trial->at, trial->known, r->complete, r->seconds, r->percent_of_roof};
    sqlite3_stmt *q = with_numbers(store_prepare(s,
                                                 "INSERT INTO trial SELECT ?9, (SELECT coalesce(max(number), 0) + 1 FROM"
                                                 " trial WHERE run = ?9), ?1, ?2, ?4, CAST(?5 AS INTEGER), ?3,"
                                                 " CAST(?6 AS INTEGER), ?7, ?8",
                                                 COUNT_OF(texts), texts),
                                   4, COUNT_OF(numbers), numbers);
    if (q) sqlite3_bind_int64(q, 9, run);
    return store_finish(q);
}

/* The hashes of a call's operator and sketch; "" where there is none. */
static Hashes hashes_of_call(const char *definition, const char *sketch) {
    StoreKey key = {.definition = or_empty(definition), .sketch = sketch};
    Hashes h = hashes_of(&key);
    if (!definition || !sketch) h.sketch[0] = '\0';
    if (!definition) h.definition[0] = '\0';
    return h;
}

static bool insert_call(Store *s, int64_t run, const StoreCall *c, const Hashes *h) {
    const char *texts[] = {c->proposer, c->status, or_empty(c->task), h->definition, or_empty(c->target), h->sketch, or_empty(c->outcome)};
    double numbers[] = {c->cost, c->seconds};
    int64_t counts[] = {c->tokens_in, c->tokens_out, c->tokens_cached, c->replayed, run, c->chain, c->round, c->verified};
    sqlite3_stmt *q =
        with_numbers(store_prepare(s,
                                   "INSERT INTO model_call(proposer, status, task, definition, target, sketch, outcome, cost,"
                                   " seconds, tokens_in, tokens_out, tokens_cached, replayed, run, chain, round, verified, began)"
                                   " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, CASE WHEN ?14 < 0 THEN NULL"
                                   " ELSE ?14 END, CASE WHEN ?15 > 0 THEN ?15 END, ?16, ?17, " NOW ")",
                                   COUNT_OF(texts), texts),
                     COUNT_OF(texts) + 1, COUNT_OF(numbers), numbers);
    for (size_t i = 0; q && i < COUNT_OF(counts); i++) sqlite3_bind_int64(q, (int)(COUNT_OF(texts) + COUNT_OF(numbers) + 1 + i), counts[i]);
    return store_finish(q);
}

int64_t store_put_call(Store *s, int64_t run, const StoreCall *c) {
    Hashes h = hashes_of_call(c->definition, c->sketch);
    StoreKey key = {.definition = c->definition};
    if (!begin(s)) return -1;
    bool ok = (!c->definition || put_definition(s, &key, &h)) && insert_call(s, run, c, &h);
    int64_t call = sqlite3_last_insert_rowid(s->db);
    if (ok && c->chain <= 0) ok = store_sql(s, "UPDATE model_call SET chain = id WHERE id = last_insert_rowid()");
    return end(s, ok) ? call : -1;
}

bool store_call_result(Store *s, int64_t call, const StoreCall *c) {
    Hashes h = hashes_of_call(c->definition, c->sketch);
    const char *texts[] = {h.sketch, or_empty(c->outcome)};
    sqlite3_stmt *q =
        store_prepare(s, "UPDATE model_call SET sketch = ?1, outcome = ?2, verified = ?3 WHERE id = ?4", COUNT_OF(texts), texts);
    if (q) sqlite3_bind_int64(q, 3, c->verified);
    if (q) sqlite3_bind_int64(q, 4, call);
    return store_finish(q);
}

bool store_adopt_call(Store *s, int64_t run, int64_t call) {
    sqlite3_stmt *q = store_prepare(s, "UPDATE model_call SET run = ?1 WHERE id = ?2", 0, NULL);
    if (q) sqlite3_bind_int64(q, 1, run);
    if (q) sqlite3_bind_int64(q, 2, call);
    return store_finish(q);
}

/* ---- Vectors ---- */

static const char *const *vector_key(const char *model, const char *text, char hash[33], const char *texts[2]) {
    hash128_hex(hash128(text, strlen(text), (Hash128){0, 0}), hash);
    texts[0] = model;
    texts[1] = hash;
    return texts;
}

double *store_find_vector(Store *s, const char *model, const char *text, size_t *size) {
    char hash[33];
    const char *texts[2];
    sqlite3_stmt *q =
        store_prepare(s, "SELECT vector FROM embedding WHERE model = ?1 AND text = ?2", 2, vector_key(model, text, hash, texts));
    size_t bytes = q && sqlite3_step(q) == SQLITE_ROW ? (size_t)sqlite3_column_bytes(q, 0) : 0;
    double *vector = bytes && bytes % sizeof *vector == 0 ? malloc(bytes) : NULL;
    if (vector) memcpy(vector, sqlite3_column_blob(q, 0), bytes);
    *size = vector ? bytes / sizeof *vector : 0;
    sqlite3_finalize(q);
    return vector;
}

bool store_put_vector(Store *s, const char *model, const char *text, const double *vector, size_t size) {
    char hash[33];
    const char *texts[2];
    sqlite3_stmt *q = store_prepare(s, "INSERT OR REPLACE INTO embedding VALUES(?1, ?2, ?3)", 2, vector_key(model, text, hash, texts));
    if (q) sqlite3_bind_blob64(q, 3, vector, size * sizeof *vector, SQLITE_TRANSIENT);
    return store_note_fault(s, store_finish(q));
}

char *store_find_description(Store *s, const char *model, const char *definition) {
    char hash[33];
    const char *texts[2];
    return first_text(store_prepare(s, "SELECT text FROM description WHERE model = ?1 AND definition = ?2", 2,
                                    vector_key(model, definition, hash, texts)));
}

bool store_put_description(Store *s, const char *model, const char *definition, const char *text) {
    char hash[33];
    const char *texts[3];
    vector_key(model, definition, hash, texts);
    texts[2] = text;
    return store_note_fault(s, execute(s, "INSERT OR REPLACE INTO description VALUES(?1, ?2, ?3)", 3, texts));
}

bool store_run_end(Store *s, int64_t run, const StoreKey *key, const StoreRunEnd *e) {
    Hashes h = hashes_of(key);
    const char *texts[] = {key->sketch ? h.sketch : NULL};
    double numbers[] = {e->tried, e->repeated, e->elapsed, e->naive_seconds, e->best_seconds, e->complete};
    sqlite3_stmt *q = with_numbers(store_prepare(s,
                                                 "UPDATE run SET winner = (SELECT hash FROM sketch WHERE hash = ?1), tried ="
                                                 " CAST(?2 AS INTEGER), repeated = CAST(?3 AS INTEGER), elapsed = ?4,"
                                                 " naive_seconds = ?5, best_seconds = ?6, complete = CAST(?7 AS INTEGER),"
                                                 " ended = " NOW " WHERE id = ?8",
                                                 1, texts),
                                   2, COUNT_OF(numbers), numbers);
    if (q) sqlite3_bind_int64(q, 8, run);
    return store_finish(q);
}

bool store_find_run(Store *s, const StoreKey *key, const char *strategy, uint64_t seed, unsigned tried, StoreRunEnd *end) {
    Hashes h = hashes_of(key);
    const char *texts[KEY_TEXTS + 3];
    char number[32];
    texts_of(key, &h, texts);
    snprintf(number, sizeof number, "%llu", (unsigned long long)seed);
    texts[KEY_TEXTS] = strategy;
    texts[KEY_TEXTS + 1] = number;
    texts[KEY_TEXTS + 2] = h.definition;
    sqlite3_stmt *q = store_prepare(
        s,
        "SELECT tried, repeated, elapsed, naive_seconds, best_seconds, complete FROM run WHERE winner = ?1 AND device = " DEVICE
        " AND environment = " ENVIRONMENT " AND case_name = ?6 AND strategy = ?7 AND seed = ?8 AND definition = ?9 AND tried ="
        " ?10 AND ended IS NOT NULL ORDER BY id DESC LIMIT 1",
        COUNT_OF(texts), texts);
    if (q) sqlite3_bind_int64(q, COUNT_OF(texts) + 1, tried);
    bool found = q && sqlite3_step(q) == SQLITE_ROW;
    if (found)
        *end = (StoreRunEnd){.tried = (unsigned)sqlite3_column_int64(q, 0),
                             .repeated = (unsigned)sqlite3_column_int64(q, 1),
                             .elapsed = sqlite3_column_double(q, 2),
                             .naive_seconds = sqlite3_column_double(q, 3),
                             .best_seconds = sqlite3_column_double(q, 4),
                             .complete = sqlite3_column_int(q, 5)};
    sqlite3_finalize(q);
    return found;
}

/* ---- Upkeep ---- */

/* `kept`: sketches that a best or a run's winner is, and what they were made from. `answer`: sketches that were judged as what
 * fix-its made of them, so that they have a verdict and no result. */
static const char drop[] = "CREATE TEMP TABLE kept AS WITH RECURSIVE"
                           " best(hash) AS (SELECT sketch FROM (SELECT r.sketch, min(r.seconds) FROM result r JOIN sketch k"
                           " ON k.hash = r.sketch WHERE r.status = 'ok' AND r.complete AND r.seconds > 0"
                           " GROUP BY k.definition, r.device, r.environment, r.case_name)"
                           " UNION SELECT sketch FROM (SELECT r.sketch, min(r.seconds) FROM result r JOIN sketch k"
                           " ON k.hash = r.sketch WHERE r.status = 'ok' AND r.complete AND r.seconds > 0"
                           " GROUP BY k.definition, r.device, r.case_name)"
                           " UNION SELECT winner FROM run WHERE winner IS NOT NULL"
                           " UNION SELECT l.parent FROM lineage l JOIN best b ON l.child = b.hash) SELECT hash FROM best;"
                           "CREATE TEMP TABLE gone AS SELECT sketch, device, environment, case_name FROM (SELECT r.*,"
                           " row_number() OVER (PARTITION BY k.definition, r.device, r.environment ORDER BY"
                           " r.status <> 'ok', r.seconds = 0, r.seconds) AS place FROM result r JOIN sketch k ON"
                           " k.hash = r.sketch) WHERE (place > ";

static const char drop_rest[] =
    " OR status <> 'ok') AND sketch NOT IN (SELECT hash FROM kept);"
    "CREATE TEMP TABLE answer AS SELECT DISTINCT sketch FROM verdict WHERE sketch NOT IN (SELECT sketch FROM verification);"
    "DELETE FROM verification WHERE (sketch, device, environment, case_name) IN (SELECT * FROM gone);"
    "DELETE FROM measurement WHERE (sketch, device, environment, case_name) IN (SELECT * FROM gone);"
    "CREATE TEMP TABLE unused AS SELECT hash FROM sketch WHERE hash NOT IN (SELECT sketch FROM"
    " verification) AND hash NOT IN (SELECT hash FROM kept) AND NOT (hash IN (SELECT sketch FROM answer) AND definition IN"
    " (SELECT k.definition FROM sketch k JOIN verification v ON v.sketch = k.hash UNION SELECT definition FROM run UNION"
    " SELECT definition FROM model_call));"
    "DELETE FROM artifact WHERE sketch IN (SELECT hash FROM unused);"
    "DELETE FROM verdict WHERE sketch IN (SELECT hash FROM unused);"
    "DELETE FROM measurement WHERE sketch IN (SELECT hash FROM unused);"
    "DELETE FROM lineage WHERE child IN (SELECT hash FROM unused);"
    "DELETE FROM sketch WHERE hash IN (SELECT hash FROM unused);"
    "DELETE FROM op_case WHERE definition NOT IN (SELECT definition FROM sketch UNION SELECT"
    " definition FROM run UNION SELECT definition FROM model_call);"
    "DELETE FROM definition WHERE hash NOT IN (SELECT definition FROM sketch UNION SELECT"
    " definition FROM run UNION SELECT definition FROM model_call);";

int64_t store_gc(Store *s) {
    Str sql;
    if (!begin(s)) return -1;
    str_init(&sql);
    str_printf(&sql, "%s%d%s", drop, KEPT, drop_rest);
    bool ok = store_sql(s, sql.data);
    str_release(&sql);
    int64_t count = ok ? store_pragma(s, "SELECT count(*) FROM gone") : -1;
    ok = ok && store_sql(s, "DROP TABLE gone; DROP TABLE kept; DROP TABLE answer; DROP TABLE unused");
    return end(s, ok) && store_sql(s, "VACUUM") ? count : -1;
}

int store_check(Store *s) {
    sqlite3_stmt *q = store_prepare(s, "PRAGMA integrity_check", 0, NULL);
    bool whole = q && sqlite3_step(q) == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(q, 0), "ok") == 0;
    sqlite3_finalize(q);
    return whole ? 0 : 1;
}
