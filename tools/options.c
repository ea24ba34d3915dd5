#include "options.h"

#include "diag.h"

#include <string.h>

typedef struct {
    const char *name;
    char letter;
    const char *argument, *commands, *summary;
} Option;

static const Option options[] = {
#define OPTION(id, name, letter, argument, commands, summary) {name, letter, argument, commands, summary},
#include "options.def"
#undef OPTION
};

static const struct {
    const char *name, *operands, *summary;
} commands[] = {
#define COMMAND(id, name, operands, summary) {name, operands, summary},
#include "commands.def"
#undef COMMAND
};

/* ---- Parsing ---- */

static bool unknown(const char *word, Str *error) {
    const char *names[OPTION_COUNT];
    for (unsigned i = 0; i < OPTION_COUNT; i++) names[i] = options[i].name;
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
        const Option *o = &options[id];
        size_t length = strlen(o->name);
        bool takes = o->argument[0] != 0;
        /* -ftime-report has one dash, as in other compilers. */
        bool named = (is_long || o->name[0] == 'f') && strncmp(name, o->name, length) == 0 &&
                     (name[length] == 0 || name[length] == '=');
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
            while (first && id < COMMAND_COUNT && strcmp(commands[id].name, word) != 0) id++;
            if (first && id < COMMAND_COUNT) line->command = (CommandId)id;
            else VEC_PUSH(arena, &line->operands, word);
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

bool option_given(const CommandLine *line, OptionId id) { return option_value(line, id) != NULL; }

/* ---- Documents ---- */

static bool is_hidden(const Option *o) { return !o->commands[0]; }

void options_help(Str *out) {
    str_append(out, "usage: sketchc [COMMAND] [OPTIONS] FILE\n\ncommands:\n");
    for (unsigned i = 0; i < COMMAND_COUNT; i++)
        str_printf(out, "  %-8s %-13s %s\n", commands[i].name, commands[i].operands, commands[i].summary);
    str_append(out, "\noptions:\n");
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        const Option *o = &options[i];
        if (is_hidden(o)) continue;
        const char *dash = o->name[0] == 'f' ? "-" : "--";
        if (o->letter) str_printf(out, "  -%c, ", o->letter);
        else str_append(out, "      ");
        str_printf(out, "%s%s%s%s\n          %s\n", dash, o->name, o->argument[0] ? "=" : "", o->argument, o->summary);
    }
    str_append(out, "\nexit status: 0 ok, 1 source error, 2 usage, 3 verification failed, 4 missing on this machine\n"
                    "(sketchc doctor says what), 5 a bug of sketchc, 124 time limit, 130 interrupted\n");
}

static void man_text(Str *out, const char *text) {
    for (; *text; text++) {
        if (*text == '-') str_append(out, "\\-");
        else str_append_char(out, *text);
    }
}

static void print_man(const char *version, Str *out) {
    str_printf(out, ".TH SKETCHC 1 \"\" \"sketchc %s\"\n.SH NAME\nsketchc \\- compiler for deep\\-learning kernels\n", version);
    str_append(out, ".SH SYNOPSIS\n.B sketchc\n[COMMAND] [OPTIONS] FILE\n.SH COMMANDS\n");
    for (unsigned i = 0; i < COMMAND_COUNT; i++) {
        str_printf(out, ".TP\n.B %s %s\n", commands[i].name, commands[i].operands);
        man_text(out, commands[i].summary);
        str_append_char(out, '\n');
    }
    str_append(out, ".SH OPTIONS\n");
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        const Option *o = &options[i];
        if (is_hidden(o)) continue;
        str_append(out, ".TP\n.B ");
        if (o->letter) str_printf(out, "\\-%c, ", o->letter);
        man_text(out, o->name[0] == 'f' ? "-" : "--");
        man_text(out, o->name);
        if (o->argument[0]) str_append_char(out, '=');
        man_text(out, o->argument);
        str_append_char(out, '\n');
        man_text(out, o->summary);
        str_append_char(out, '\n');
    }
    str_append(out, ".SH EXIT STATUS\n0 ok, 1 source error, 2 usage, 3 verification failed, 4 missing on this machine, "
                    "5 a bug of sketchc, 124 time limit, 130 interrupted.\n");
}

/* The alternatives of an argument such as "text|json", or "" when it names a placeholder. */
static bool has_choices(const Option *o) { return strchr(o->argument, '|') != NULL; }

static void print_bash(Str *out) {
    str_append(out, "_sketchc() {\n    local cur=${COMP_WORDS[COMP_CWORD]}\n    case $cur in\n");
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        if (is_hidden(&options[i]) || !has_choices(&options[i])) continue;
        str_printf(out, "    --%s=*) COMPREPLY=($(compgen -W \"", options[i].name);
        for (const char *p = options[i].argument; *p; p++) str_append_char(out, *p == '|' ? ' ' : *p);
        str_append(out, "\" -- \"${cur#*=}\")) ;;\n");
    }
    str_append(out, "    -*) COMPREPLY=($(compgen -W \"");
    for (unsigned i = 0; i < OPTION_COUNT; i++)
        if (!is_hidden(&options[i])) str_printf(out, "%s%s%s ", options[i].name[0] == 'f' ? "-" : "--", options[i].name, options[i].argument[0] ? "=" : "");
    str_append(out, "\" -- \"$cur\")) ;;\n    *) COMPREPLY=($(compgen -W \"");
    for (unsigned i = 0; i < COMMAND_COUNT; i++) str_printf(out, "%s ", commands[i].name);
    str_append(out, "\" -- \"$cur\") $(compgen -f -- \"$cur\")) ;;\n    esac\n}\ncomplete -o nospace -F _sketchc sketchc\n");
}

static void single_quoted(Str *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\'') str_append(out, "'\\''");
        else str_append_char(out, *text);
    }
}

static void print_zsh(Str *out) {
    str_append(out, "#compdef sketchc\n_arguments \\\n");
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        const Option *o = &options[i];
        if (is_hidden(o) || o->name[0] == 'f') continue;
        str_printf(out, "  '--%s%s[", o->name, o->argument[0] ? "=" : "");
        for (const char *p = o->summary; *p; p++)
            if (*p != '[' && *p != ']' && *p != '\'' && *p != ':') str_append_char(out, *p);
        str_append(out, "]");
        if (has_choices(o)) {
            str_append(out, ":value:(");
            for (const char *p = o->argument; *p; p++) str_append_char(out, *p == '|' ? ' ' : *p);
            str_append(out, ")");
        } else if (o->argument[0]) {
            str_append(out, ":value:_files");
        }
        str_append(out, "' \\\n");
    }
    str_append(out, "  '*:file:_files'\n");
}

static void print_fish(Str *out) {
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        const Option *o = &options[i];
        if (is_hidden(o)) continue;
        str_printf(out, "complete -c sketchc %s %s", o->name[0] == 'f' ? "-o" : "-l", o->name);
        if (o->letter) str_printf(out, " -s %c", o->letter);
        if (o->argument[0]) str_append(out, " -r");
        if (has_choices(o)) {
            str_append(out, " -f -a '");
            for (const char *p = o->argument; *p; p++) str_append_char(out, *p == '|' ? ' ' : *p);
            str_append(out, "'");
        }
        str_append(out, " -d '");
        single_quoted(out, o->summary);
        str_append(out, "'\n");
    }
    for (unsigned i = 0; i < COMMAND_COUNT; i++) {
        str_printf(out, "complete -c sketchc -n __fish_use_subcommand -a %s -d '", commands[i].name);
        single_quoted(out, commands[i].summary);
        str_append(out, "'\n");
    }
}

bool options_document(const char *form, const char *version, Str *out) {
    if (strcmp(form, "man") == 0) print_man(version, out);
    else if (strcmp(form, "bash") == 0) print_bash(out);
    else if (strcmp(form, "zsh") == 0) print_zsh(out);
    else if (strcmp(form, "fish") == 0) print_fish(out);
    else return false;
    return true;
}
