/* The command line of sketchc, from one table. */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include "support.h"

typedef enum {
#define COMMAND(id, ...) COMMAND_##id,
#include "commands.def"
#undef COMMAND
    COMMAND_COUNT
} CommandId;

typedef enum {
#define OPTION(id, ...) OPTION_##id,
#include "options.def"
#undef OPTION
    OPTION_COUNT
} OptionId;

typedef struct {
    OptionId id;
    const char *value; /* "" for options without argument */
} GivenOption;

typedef struct {
    CommandId command;
    VEC(GivenOption) given;
    VEC(const char *) operands;
} CommandLine;

typedef struct {
    const char *name;
    char letter; /* 0: none */
    const char *argument, *commands, *summary;
} OptionInfo;
extern const OptionInfo option_table[OPTION_COUNT];

typedef struct {
    const char *name;
    char letter; /* as in options.def */
    const char *operands, *summary;
} CommandInfo;
extern const CommandInfo command_table[COMMAND_COUNT];

/* Parses argv; a mistake gives false and a sentence in `error`. */
bool options_parse(Arena *arena, int argc, char **argv, CommandLine *line, Str *error);
/* The last value given, or null. */
const char *option_value(const CommandLine *line, OptionId id);
bool option_given(const CommandLine *line, OptionId id);

/* Each option goes with the command and its value is one that exists; else a sentence in `error`.
 */
bool options_check(const CommandLine *line, Str *error);

/* -ftime-report is spelt as in other compilers. */
static inline bool option_has_one_dash(const OptionInfo *o) {
    return o == &option_table[OPTION_TIME_REPORT];
}
static inline const char *option_dashes(const OptionInfo *o) {
    return option_has_one_dash(o) ? "-" : "--";
}

/* documents.c */
void options_help(Str *out);
/* "man", "bash", "zsh", "fish", "markdown"; false for anything else. */
bool options_document(const char *form, const char *version, Str *out);

#endif
