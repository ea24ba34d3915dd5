/* The driver's commands that ask others: --propose, config, docspec. They report on standard error and
 * return the exit status. */
#ifndef TOOLS_ASK_H
#define TOOLS_ASK_H

#include "options.h"

#include "sketchc.h"

#include <stdatomic.h>

/* `line` and `compile` as read by the driver; `path` the file with the operator. */
int command_propose(Arena *arena, const CommandLine *line, const sketchc_options *compile, const char *path, uint64_t seed,
                    double time_limit_s);
struct Proposer;
/* The search by rules; `more` is asked beside them, or null. */
int command_search(const CommandLine *line, const sketchc_options *compile, const char *path, uint64_t seed, struct Proposer *more);
struct SearchOptions;
struct SearchResult;
/* A search that prints progress alone: `options` are filled from the command line but for more, asked and seeds. The result is
 * initialised when the status is 0, and then released by search_result_release. */
int search_by_line(const CommandLine *line, const sketchc_options *compile, const char *path, uint64_t seed, struct SearchOptions *options,
                   struct SearchResult *result);
/* What the compiler makes by itself takes so long; that of the naive sketch where none but a naive one runs. */
double ask_own_seconds(const struct SearchResult *result);
/* The winner beside the compiler's own sketch and the naive one, in a line for people; `more` goes behind. */
void ask_say_found(const CommandLine *line, const struct SearchResult *result, const char *more);
struct LlmConfig;
/* The settings of the command line over environment and files; null with messages on standard error. */
struct LlmConfig *read_settings(const CommandLine *line);
/* What a search's judge is started as: the program's first word, which people have no use for. */
extern const char judge_word[];
extern const char *const judge_command[]; /* this very program, also where its file was replaced meanwhile */
void serve_as_judge(void);
/* From now on SIGINT, SIGTERM and SIGHUP set this; the second one ends the program at once. */
const atomic_int *catch_interrupts(void);
int command_db(const CommandLine *line);
int command_from_store(const CommandLine *line); /* report, export-dataset */
struct SearchProgress;
/* As --progress says, on standard error. */
void ask_progress(const CommandLine *line, const struct SearchProgress *progress);
struct Store;
/* Null, and a sentence on standard error, when it cannot be opened. */
struct Store *ask_open_store(const char *path, bool existing);
/* Where it could not: a file that is none, or a build without stores. */
int ask_store_status(void);
/* Says on standard error what it did not take. Null is allowed. */
void ask_close_store(const CommandLine *line, struct Store *store);
/* Can what -o names be written, as far as its folder says? False, and somebody was told. */
bool ask_check_output(const CommandLine *line);
/* The sketch to -o, or to standard output unless --json takes that. What -o does not take is printed. */
int ask_write_sketch(const CommandLine *line, const Str *text);
int command_config(const CommandLine *line);
/* To -o or standard output: a status. */
int ask_write_text(const CommandLine *line, const Str *text);
int command_docspec(Arena *arena, const CommandLine *line);
/* What times depend on beside the device: a JSON object of sketchc and the tools with their versions. */
void ask_environment(Str *out);
struct LlmEmbedding;
/* Why the built-in embedding served instead of the endpoint's, and why there are no descriptions, if so. */
void ask_say_vectors(const CommandLine *line, const struct LlmEmbedding *vectors);
/* The text of the user's own target document of that name, or null. */
const char *own_target(Arena *arena, const char *arch);

#endif
