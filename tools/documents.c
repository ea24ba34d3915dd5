/* Help, man page, completions and the tables of docs/cli.md, from the tables of options. */
#include "options.h"

#include <string.h>

static bool is_hidden(const OptionInfo *o) {
    return !o->commands[0];
}

void options_help(Str *out) {
    str_append(out, "usage: sketchc [COMMAND] [OPTIONS] FILE\n\ncommands:\n");
    for (unsigned i = 0; i < COMMAND_COUNT; i++)
        str_printf(out, "  %-8s %-13s %s\n", command_table[i].name, command_table[i].operands, command_table[i].summary);
    str_append(out, "\noptions:\n");
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        const OptionInfo *o = &option_table[i];
        if (is_hidden(o)) continue;
        const char *dash = option_dashes(o);
        if (o->letter)
            str_printf(out, "  -%c, ", o->letter);
        else
            str_append(out, "      ");
        str_printf(out, "%s%s%s%s\n          %s\n", dash, o->name, o->argument[0] ? "=" : "", o->argument, o->summary);
    }
    str_append(out, "\nexit status: 0 ok, 1 source error, 2 usage, 3 verification failed, 4 missing on "
                    "this machine\n"
                    "(sketchc doctor says what), 5 a bug of sketchc, 124 time limit, 130 interrupted\n");
}

static void man_text(Str *out, const char *text) {
    for (; *text; text++) {
        if (*text == '-')
            str_append(out, "\\-");
        else
            str_append_char(out, *text);
    }
}

static void print_man(const char *version, Str *out) {
    str_printf(out,
               ".TH SKETCHC 1 \"\" \"sketchc %s\"\n.SH NAME\nsketchc \\- compiler for "
               "deep\\-learning kernels\n",
               version);
    str_append(out, ".SH SYNOPSIS\n.B sketchc\n[COMMAND] [OPTIONS] FILE\n.SH COMMANDS\n");
    for (unsigned i = 0; i < COMMAND_COUNT; i++) {
        str_printf(out, ".TP\n.B %s %s\n", command_table[i].name, command_table[i].operands);
        man_text(out, command_table[i].summary);
        str_append_char(out, '\n');
    }
    str_append(out, ".SH OPTIONS\n");
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        const OptionInfo *o = &option_table[i];
        if (is_hidden(o)) continue;
        str_append(out, ".TP\n.B ");
        if (o->letter) str_printf(out, "\\-%c, ", o->letter);
        man_text(out, option_dashes(o));
        man_text(out, o->name);
        if (o->argument[0]) str_append_char(out, '=');
        man_text(out, o->argument);
        str_append_char(out, '\n');
        man_text(out, o->summary);
        str_append_char(out, '\n');
    }
    str_append(out, ".SH ENVIRONMENT\n");
    for (unsigned i = 0; i < ENV_COUNT; i++) {
        str_printf(out, ".TP\n.B %s\n", env_name((EnvId)i));
        man_text(out, env_use((EnvId)i));
        str_append_char(out, '\n');
    }
    str_append(out, ".SH EXIT STATUS\n0 ok, 1 source error, 2 usage, 3 verification failed, 4 "
                    "missing on this machine, "
                    "5 a bug of sketchc, 124 time limit, 130 interrupted.\n");
}

/* The alternatives of an argument such as "text|json", or "" when it names a placeholder. */
static bool has_choices(const OptionInfo *o) {
    return strchr(o->argument, '|') != NULL;
}

static void print_bash(Str *out) {
    str_append(out, "_sketchc() {\n    local cur=${COMP_WORDS[COMP_CWORD]}\n    case $cur in\n");
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        if (is_hidden(&option_table[i]) || !has_choices(&option_table[i])) continue;
        str_printf(out, "    --%s=*) COMPREPLY=($(compgen -W \"", option_table[i].name);
        for (const char *p = option_table[i].argument; *p; p++) str_append_char(out, *p == '|' ? ' ' : *p);
        str_append(out, "\" -- \"${cur#*=}\")) ;;\n");
    }
    str_append(out, "    -*) COMPREPLY=($(compgen -W \"");
    for (unsigned i = 0; i < OPTION_COUNT; i++)
        if (!is_hidden(&option_table[i]))
            str_printf(out, "%s%s%s ", option_dashes(&option_table[i]), option_table[i].name, option_table[i].argument[0] ? "=" : "");
    str_append(out, "\" -- \"$cur\")) ;;\n    *) COMPREPLY=($(compgen -W \"");
    for (unsigned i = 0; i < COMMAND_COUNT; i++) str_printf(out, "%s ", command_table[i].name);
    str_append(out, "\" -- \"$cur\") $(compgen -f -- \"$cur\")) ;;\n    esac\n}\ncomplete -o "
                    "nospace -F _sketchc sketchc\n");
}

static void single_quoted(Str *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\'')
            str_append(out, "'\\''");
        else
            str_append_char(out, *text);
    }
}

static void print_zsh(Str *out) {
    str_append(out, "#compdef sketchc\n_arguments \\\n");
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        const OptionInfo *o = &option_table[i];
        if (is_hidden(o) || option_has_one_dash(o)) continue;
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
        const OptionInfo *o = &option_table[i];
        if (is_hidden(o)) continue;
        str_printf(out, "complete -c sketchc %s %s", option_has_one_dash(o) ? "-o" : "-l", o->name);
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
        str_printf(out, "complete -c sketchc -n __fish_use_subcommand -a %s -d '", command_table[i].name);
        single_quoted(out, command_table[i].summary);
        str_append(out, "'\n");
    }
}

/* A cell of a table: a bar would end it. */
static void cell(Str *out, const char *text) {
    for (; *text; text++) {
        if (*text == '|')
            str_append(out, "\\|");
        else
            str_append_char(out, *text);
    }
}

static void markdown_commands(const OptionInfo *o, Str *out) {
    if (o->commands[0] == '*') {
        str_append(out, "all");
        return;
    }
    bool first = true;
    for (unsigned i = 0; i < COMMAND_COUNT; i++) {
        if (!strchr(o->commands, command_table[i].letter)) continue;
        str_printf(out, "%s%s", first ? "" : ", ", command_table[i].name);
        first = false;
    }
}

static void print_markdown(Str *out) {
    str_append(out, "| command | operands | |\n| --- | --- | --- |\n");
    for (unsigned i = 0; i < COMMAND_COUNT; i++)
        str_printf(out, "| `%s` | %s | %s |\n", command_table[i].name, command_table[i].operands, command_table[i].summary);
    str_append(out, "\n| option | with | |\n| --- | --- | --- |\n");
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        const OptionInfo *o = &option_table[i];
        if (is_hidden(o)) continue;
        str_append(out, "| `");
        if (o->letter) str_printf(out, "-%c`, `", o->letter);
        str_printf(out, "%s%s%s", option_dashes(o), o->name, o->argument[0] ? "=" : "");
        cell(out, o->argument);
        str_append(out, "` | ");
        markdown_commands(o, out);
        str_append(out, " | ");
        cell(out, o->summary);
        str_append(out, " |\n");
    }
    str_append(out, "\n| variable | |\n| --- | --- |\n");
    for (unsigned i = 0; i < ENV_COUNT; i++) str_printf(out, "| `%s` | %s |\n", env_name((EnvId)i), env_use((EnvId)i));
}

bool options_document(const char *form, const char *version, Str *out) {
    if (strcmp(form, "man") == 0)
        print_man(version, out);
    else if (strcmp(form, "bash") == 0)
        print_bash(out);
    else if (strcmp(form, "zsh") == 0)
        print_zsh(out);
    else if (strcmp(form, "fish") == 0)
        print_fish(out);
    else if (strcmp(form, "markdown") == 0)
        print_markdown(out);
    else
        return false;
    return true;
}
