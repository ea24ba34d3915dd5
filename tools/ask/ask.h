/* The driver's commands that ask others: --propose, config, docspec. They report on standard error and
 * return the exit status. */
#ifndef TOOLS_ASK_H
#define TOOLS_ASK_H

#include "options.h"

#include "sketchc.h"

/* `line` and `compile` as read by the driver; `path` the file with the operator. */
int command_propose(Arena *arena, const CommandLine *line, const sketchc_options *compile, const char *path,
                    uint64_t seed, double time_limit_s);
struct Proposer;
/* The search by rules; `more` is asked beside them, or null. */
int command_search(const CommandLine *line, const sketchc_options *compile, const char *path, uint64_t seed,
                   struct Proposer *more);
int command_db(const CommandLine *line);
int command_config(const CommandLine *line);
int command_docspec(Arena *arena, const CommandLine *line);
/* The text of the user's own target document of that name, or null. */
const char *own_target(Arena *arena, const char *arch);

#endif
