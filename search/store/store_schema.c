/* The tables of the store. Hashes are of texts: a definition's is of its text, a sketch's of the definition's and
 * its own. Devices and environments are part of the key of everything that was found out on them. */
#include "store_internal.h"

#define TABLES_2                                                                                                                                                \
    "CREATE TABLE definition(hash TEXT PRIMARY KEY, name TEXT NOT NULL, text TEXT NOT NULL)"                                                                    \
    " WITHOUT ROWID;"                                                                                                                                           \
    "CREATE TABLE op_case(definition TEXT NOT NULL REFERENCES definition, name TEXT NOT NULL,"                                                                  \
    " sizes TEXT NOT NULL, bytes REAL NOT NULL, flops REAL NOT NULL,"                                                                                           \
    " PRIMARY KEY(definition, name)) WITHOUT ROWID;"                                                                                                            \
    "CREATE TABLE device(id INTEGER PRIMARY KEY, target TEXT NOT NULL, arch TEXT NOT NULL,"                                                                     \
    " name TEXT NOT NULL, roof_bytes REAL NOT NULL, UNIQUE(target, arch, name));"                                                                               \
    "CREATE TABLE environment(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);"                                                                              \
    "CREATE TABLE sketch(hash TEXT PRIMARY KEY, definition TEXT NOT NULL REFERENCES definition,"                                                                \
    " text TEXT NOT NULL, source TEXT NOT NULL) WITHOUT ROWID;"                                                                                                 \
    "CREATE TABLE lineage(child TEXT NOT NULL REFERENCES sketch, parent TEXT NOT NULL,"                                                                         \
    " PRIMARY KEY(child, parent)) WITHOUT ROWID;"                                                                                                               \
    "CREATE TABLE artifact(sketch TEXT NOT NULL REFERENCES sketch, device INTEGER NOT NULL"                                                                     \
    " REFERENCES device, environment INTEGER NOT NULL REFERENCES environment, hash TEXT NOT NULL,"                                                              \
    " data BLOB NOT NULL, PRIMARY KEY(sketch, device, environment)) WITHOUT ROWID;"                                                                             \
    "CREATE TABLE verification(sketch TEXT NOT NULL REFERENCES sketch, device INTEGER NOT NULL"                                                                 \
    " REFERENCES device, environment INTEGER NOT NULL REFERENCES environment,"                                                                                  \
    " case_name TEXT NOT NULL, status TEXT NOT NULL, complete INTEGER NOT NULL,"                                                                                \
    " PRIMARY KEY(sketch, device, environment, case_name)) WITHOUT ROWID;"                                                                                      \
    "CREATE TABLE measurement(id INTEGER PRIMARY KEY, sketch TEXT NOT NULL REFERENCES sketch,"                                                                  \
    " device INTEGER NOT NULL REFERENCES device, environment INTEGER NOT NULL"                                                                                  \
    " REFERENCES environment, case_name TEXT NOT NULL, seconds REAL NOT NULL,"                                                                                  \
    " noise REAL NOT NULL, samples INTEGER NOT NULL, percent_of_roof REAL NOT NULL);"                                                                           \
    "CREATE INDEX measured ON measurement(sketch, device, environment, case_name, id);"                                                                         \
    "CREATE TABLE run(id INTEGER PRIMARY KEY, definition TEXT NOT NULL REFERENCES definition,"                                                                  \
    " device INTEGER NOT NULL REFERENCES device, environment INTEGER NOT NULL"                                                                                  \
    " REFERENCES environment, case_name TEXT NOT NULL, strategy TEXT NOT NULL,"                                                                                 \
    " seed TEXT NOT NULL, began TEXT NOT NULL, ended TEXT, tried INTEGER NOT NULL DEFAULT 0,"                                                                   \
    " repeated INTEGER NOT NULL DEFAULT 0, elapsed REAL NOT NULL DEFAULT 0,"                                                                                    \
    " naive_seconds REAL NOT NULL DEFAULT 0, best_seconds REAL NOT NULL DEFAULT 0,"                                                                             \
    " complete INTEGER NOT NULL DEFAULT 0, winner TEXT REFERENCES sketch);"                                                                                     \
    "CREATE TABLE trial(run INTEGER NOT NULL REFERENCES run, number INTEGER NOT NULL,"                                                                          \
    " sketch TEXT NOT NULL, source TEXT NOT NULL, at REAL NOT NULL, known INTEGER NOT NULL,"                                                                    \
    " status TEXT NOT NULL, complete INTEGER NOT NULL, seconds REAL NOT NULL,"                                                                                  \
    " percent_of_roof REAL NOT NULL, PRIMARY KEY(run, number)) WITHOUT ROWID;"                                                                                  \
    "CREATE TABLE model_call(id INTEGER PRIMARY KEY, run INTEGER REFERENCES run,"                                                                               \
    " proposer TEXT NOT NULL, status TEXT NOT NULL, tokens_in INTEGER NOT NULL,"                                                                                \
    " tokens_out INTEGER NOT NULL, tokens_cached INTEGER NOT NULL, cost REAL NOT NULL,"                                                                         \
    " seconds REAL NOT NULL, replayed INTEGER NOT NULL, began TEXT NOT NULL);" /* What is known of a sketch now: its verification with the last measurement. */ \
    "CREATE VIEW result AS SELECT v.*, coalesce(m.seconds, 0) AS seconds, coalesce(m.noise, 0)"                                                                 \
    " AS noise, coalesce(m.samples, 0) AS samples, coalesce(m.percent_of_roof, 0) AS"                                                                           \
    " percent_of_roof FROM verification v LEFT JOIN measurement m ON m.id = (SELECT max(x.id)"                                                                  \
    " FROM measurement x WHERE x.sketch = v.sketch AND x.device = v.device AND x.environment ="                                                                 \
    " v.environment AND x.case_name = v.case_name);"

/* Since the third version: what was asked of a model and what came of it. `chain` is the call that began it: the first answer,
 * whose repairs follow; `definition` is a hash as in other tables. And vectors of texts by an endpoint's model. */
#define ADDED_IN_3                                                                                                                         \
    "ALTER TABLE model_call ADD COLUMN definition TEXT NOT NULL DEFAULT '';"                                                               \
    "ALTER TABLE model_call ADD COLUMN target TEXT NOT NULL DEFAULT '';"                                                                   \
    "ALTER TABLE model_call ADD COLUMN task TEXT NOT NULL DEFAULT '';"                                                                     \
    "ALTER TABLE model_call ADD COLUMN chain INTEGER;"                                                                                     \
    "ALTER TABLE model_call ADD COLUMN round INTEGER NOT NULL DEFAULT 0;"                                                                  \
    "ALTER TABLE model_call ADD COLUMN sketch TEXT NOT NULL DEFAULT '';"                                                                   \
    "ALTER TABLE model_call ADD COLUMN outcome TEXT NOT NULL DEFAULT '';"                                                                  \
    "ALTER TABLE model_call ADD COLUMN verified INTEGER NOT NULL DEFAULT 0;"                                                               \
    "CREATE TABLE embedding(model TEXT NOT NULL, text TEXT NOT NULL, vector BLOB NOT NULL,"                                                \
    " PRIMARY KEY(model, text)) WITHOUT ROWID;"

/* Since the fourth: what was said of a sketch that was judged in all cases, as JSON, so that it is found by content with all that
 * a repair is told; and operators described by models. */
#define ADDED_IN_4                                                                                                                         \
    "CREATE TABLE verdict(sketch TEXT NOT NULL REFERENCES sketch, device INTEGER NOT NULL"                                                 \
    " REFERENCES device, environment INTEGER NOT NULL REFERENCES environment, text TEXT NOT NULL,"                                         \
    " PRIMARY KEY(sketch, device, environment)) WITHOUT ROWID;"                                                                            \
    "CREATE TABLE description(model TEXT NOT NULL, definition TEXT NOT NULL, text TEXT NOT NULL,"                                          \
    " PRIMARY KEY(model, definition)) WITHOUT ROWID;"

/* Since the fifth: what the search's baseline took when a time was measured: under another load it takes another time. */
#define ADDED_IN_5 "ALTER TABLE measurement ADD COLUMN baseline REAL NOT NULL DEFAULT 0;"

#define TABLES TABLES_2 ADDED_IN_3 ADDED_IN_4 ADDED_IN_5

const char store_schema[] = TABLES;
const char store_from_version_2[] = ADDED_IN_3 ADDED_IN_4 ADDED_IN_5;
const char store_from_version_3[] = ADDED_IN_4 ADDED_IN_5;
const char store_from_version_4[] = ADDED_IN_5;

/* The first version had definition(hash, text), sketch(hash, definition, text, source, parent) and
 * result(sketch, target, device, case_name, status, complete, seconds, noise). Which compilers made its results is
 * not known, so that they are shown and exported but not taken for results of today's. */
const char store_from_version_1[] =
    "ALTER TABLE definition RENAME TO definition_1;"
    "ALTER TABLE sketch RENAME TO sketch_1;"
    "ALTER TABLE result RENAME TO result_1;" TABLES "INSERT INTO definition SELECT hash, operator_name(text), text FROM definition_1;"
    "INSERT INTO sketch SELECT hash, definition, text, source FROM sketch_1;"
    "INSERT INTO lineage SELECT hash, parent FROM sketch_1 WHERE parent IS NOT NULL;"
    "INSERT INTO environment(text) VALUES('');"
    "INSERT INTO device(target, arch, name, roof_bytes) SELECT DISTINCT target, '', device, 0"
    " FROM result_1;"
    "INSERT INTO verification SELECT r.sketch, d.id, e.id, r.case_name, r.status, r.complete"
    " FROM result_1 r JOIN device d ON d.target = r.target AND d.name = r.device"
    " JOIN environment e;"
    "INSERT INTO measurement(sketch, device, environment, case_name, seconds, noise, samples,"
    " percent_of_roof) SELECT r.sketch, d.id, e.id, r.case_name, r.seconds, r.noise, 0, 0"
    " FROM result_1 r JOIN device d ON d.target = r.target AND d.name = r.device"
    " JOIN environment e WHERE r.seconds > 0;"
    "DROP TABLE result_1; DROP TABLE sketch_1; DROP TABLE definition_1;";
