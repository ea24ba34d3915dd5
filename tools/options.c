#include "options.h"

#include "diag.h"

#include <string.h>

const OptionInfo option_table[OPTION_COUNT] = {
#define OPTION(id, name, letter, argument, commands, summary) {name, letter, argument, commands, summary},
#include "options.def"
#undef OPTION
};

const CommandInfo command_table[COMMAND_COUNT] = {
#define COMMAND(id, name, letter, operands, summary) {name, letter, operands, summary},
#include "commands.def"
#undef COMMAND
};

/* ---- Parsing ---- */

static bool unknown(const char *word, Str *error) {
    const char *names[OPTION_COUNT];
    for (unsigned i = 0; i < OPTION_COUNT; i++) names[i] = option_table[i].name;
    size_t length = strcspn(word, "=");
    char name[64] = {0};
    memcpy(name, word, length < 63 ? length : 63);
    const char *close = closest_name(name + strspn(name, "-"), names, OPTION_COUNT);
    str_printf(error, "unknown option %s", name);
    if (close) str_printf(error, "; did you mean --%s?", close);
    return false;
}

static bool give(Arena *arena, CommandLine *line, unsigned id, const char *value) {
    VEC_PUSH(arena, &line->given, (GivenOption){(OptionId)id, value});
    return true;
}

/* argv[*i] is an option; takes its argument from the word itself or the next one. */
static bool parse_option(Arena *arena, int argc, char **argv, int *i, CommandLine *line, Str *error) {
    const char *word = argv[*i];
    bool is_long = word[1] == '-';
    const char *name = word + (is_long ? 2 : 1), *equals = strchr(name, '=');
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const OptionInfo *o = &option_table[id];
        size_t length = strlen(o->name);
        bool takes = o->argument[0] != 0;
        bool named =
            (is_long || option_has_one_dash(o)) && strncmp(name, o->name, length) == 0 && (name[length] == 0 || name[length] == '=');
        bool lettered = !is_long && !named && o->letter && name[0] == o->letter;
        if (!named && !lettered) continue;
        if (!takes) {
            if (named ? equals != NULL : name[1] != 0) {
                str_printf(error, "%s takes no argument", word);
                return false;
            }
            return give(arena, line, id, "");
        }
        if (named && equals) return give(arena, line, id, equals + 1);
        if (lettered && name[1]) return give(arena, line, id, name + 1 + (name[1] == '='));
        if (*i + 1 >= argc) {
            str_printf(error, "%s needs an argument: %s", word, o->argument);
            return false;
        }
        return give(arena, line, id, argv[++*i]);
    }
    return unknown(word, error);
}

bool options_parse(Arena *arena, int argc, char **argv, CommandLine *line, Str *error) {
    *line = (CommandLine){.command = COMMAND_COMPILE};
    bool options_end = false, first = true;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!options_end && strcmp(word, "--") == 0) {
            options_end = true;
        } else if (!options_end && word[0] == '-' && word[1]) {
            if (!parse_option(arena, argc, argv, &i, line, error)) return false;
        } else {
            unsigned id = 0;
            while (first && id < COMMAND_COUNT && strcmp(command_table[id].name, word) != 0) id++;
            if (first && id < COMMAND_COUNT)
                line->command = (CommandId)id;
            else
                VEC_PUSH(arena, &line->operands, word);
            first = false;
        }
    }
    return true;
}

const char *option_value(const CommandLine *line, OptionId id) {
    for (size_t i = line->given.len; i-- > 0;)
        if (line->given.data[i].id == id) return line->given.data[i].value;
    return NULL;
}

bool option_given(const CommandLine *line, OptionId id) {
    return option_value(line, id) != NULL;
}

/* ---- Checks ---- */

/* Is the argument one of a closed set, such as "text|json"? Upper case marks a placeholder. */
static bool is_closed(const OptionInfo *o) {
    if (!strchr(o->argument, '|')) return false;
    return strcspn(o->argument, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == strlen(o->argument);
}

static bool is_choice(const OptionInfo *o, const char *value) {
    size_t length = strlen(value);
    for (const char *p = o->argument; *p;) {
        size_t n = strcspn(p, "|");
        if (n == length && strncmp(p, value, n) == 0) return true;
        p += n + (p[n] == '|');
    }
    return false;
}

bool options_check(const CommandLine *line, Str *error) {
    const CommandInfo *command = &command_table[line->command];
    for (size_t i = 0; i < line->given.len; i++) {
        const GivenOption *g = &line->given.data[i];
        const OptionInfo *o = &option_table[g->id];
        bool fits = !o->commands[0] || o->commands[0] == '*' || strchr(o->commands, command->letter);
        if (!fits)
            str_printf(error, "--%s does not go with sketchc %s", o->name, command->name);
        else if (o->argument[0] && !g->value[0])
            str_printf(error, "--%s wants %s, not nothing", o->name, o->argument);
        else if (g->id != OPTION_ARCH && is_closed(o) && !is_choice(o, g->value))
            str_printf(error, "--%s is one of %s, not \"%s\"", o->name, o->argument, g->value);
        else
            continue;
        return false;
    }
    return true;
}
