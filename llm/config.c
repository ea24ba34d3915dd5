/* Settings and where they come from. */
#include "llm_internal.h"

#include "diag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef enum { ANY, LOWER, NEVER } Trust;
enum { NO_ENV = -1, FILE_LIMIT = 64 << 10, VALUE_LIMIT = 4096 };

static const struct {
    const char *name, *otherwise;
    Trust trust;
    int environment;
    const char *summary;
} settings[LLM_SETTING_COUNT] = {
#define SETTING(id, name, otherwise, trust, environment, summary) {name, otherwise, trust, environment, summary},
#include "settings.def"
#undef SETTING
};

static const struct {
    const char *name, *endpoint;
} presets[] = {
#define PRESET(name, endpoint) {name, endpoint},
#include "presets.def"
#undef PRESET
};

typedef struct {
    const char *value, *where;
    LlmOrigin origin;
} Entry;

struct LlmConfig {
    Arena *arena;
    Entry entries[LLM_SETTING_COUNT];
    bool project_trusted;
};

LlmConfig *llm_config_create(void) {
    Arena *arena = arena_create();
    LlmConfig *config = ARENA_NEW(arena, LlmConfig);
    config->arena = arena;
    for (unsigned i = 0; i < LLM_SETTING_COUNT; i++) config->entries[i] = (Entry){settings[i].otherwise, "", LLM_FROM_DEFAULT};
    return config;
}

void llm_config_destroy(LlmConfig *config) {
    if (config) arena_destroy(config->arena);
}

const char *llm_config_get(const LlmConfig *config, LlmSetting setting) {
    return config->entries[setting].value;
}

double llm_config_number(const LlmConfig *config, LlmSetting setting, double otherwise) {
    double number;
    const char *text = config->entries[setting].value;
    return text[0] && parse_double(text, &number) ? number : otherwise;
}

/* ---- Values ---- */

static bool is_one_of(const char *value, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(words[i], value) == 0) return true;
    return false;
}

static const char *check_choice(LlmSetting id, const char *value) {
    static const char *const modes[] = {"record", "replay", "auto"}, *const flags[] = {"true", "false"},
                             *const matches[] = {"prompt", "order"};
    if (id == LLM_CASSETTE_MODE) return is_one_of(value, modes, COUNT_OF(modes)) ? NULL : "record, replay or auto";
    if (id == LLM_CASSETTE_MATCH) return is_one_of(value, matches, COUNT_OF(matches)) ? NULL : "prompt or order";
    if (id == LLM_ALLOW_PLAIN_HTTP || id == LLM_SEND_SEED || id == LLM_DESCRIBE)
        return is_one_of(value, flags, COUNT_OF(flags)) ? NULL : "true or false";
    if (id == LLM_PROPOSER) {
        bool known = strcmp(value, "design") == 0 || strcmp(value, "model") == 0;
        return known || (strncmp(value, "command:", 8) == 0 && value[8]) ? NULL : "design, model or command:PROGRAM";
    }
    if (id != LLM_PRESET) return NULL;
    for (size_t i = 0; i < COUNT_OF(presets); i++)
        if (strcmp(presets[i].name, value) == 0) return NULL;
    return "ollama, vllm, llama.cpp or openai";
}

static const struct {
    LlmSetting id;
    double minimum, maximum;
} numbers[] = {
    {LLM_TEMPERATURE, 0, 10},      {LLM_ANSWER_TOKENS, 1, 1e6},  {LLM_PROMPT_TOKENS, 500, 1e7},     {LLM_PARALLEL, 1, 64},
    {LLM_TIMEOUT, 0.01, 86400},    {LLM_IDLE_TIMEOUT, 1, 86400}, {LLM_CONNECT_TIMEOUT, 0.01, 3600}, {LLM_RETRIES, 0, 10},
    {LLM_RETRY_DELAY, 0, 3600},    {LLM_RETRY_LIMIT, 0, 86400},  {LLM_MAX_CALLS, 0, 1e12},          {LLM_MAX_TOKENS, 0, 1e15},
    {LLM_MAX_COST, 0, 1e12},       {LLM_PRICE_IN, 0, 1e9},       {LLM_PRICE_CACHED, 0, 1e9},        {LLM_PRICE_OUT, 0, 1e9},
    {LLM_PRICE_EMBEDDING, 0, 1e9},
};

static const char *check_number(Arena *arena, LlmSetting id, const char *value) {
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        double number;
        if (numbers[i].id != id) continue;
        if (parse_double(value, &number) && number >= numbers[i].minimum && number <= numbers[i].maximum) return NULL;
        return arena_printf(arena, "a number from %g to %g", numbers[i].minimum, numbers[i].maximum);
    }
    return NULL;
}

static const char *check_text(const char *value) {
    for (const char *p = value; *p; p++)
        if ((unsigned char)*p < 32 || *p == 127) return "text without control characters";
    return strlen(value) > VALUE_LIMIT ? "text of at most 4096 bytes" : NULL;
}

/* ---- Setting ---- */

static bool complain(Str *error, const char *where, const char *format, ...) PRINTF_LIKE(3, 4);
static bool complain(Str *error, const char *where, const char *format, ...) {
    va_list args;
    if (where && where[0]) str_printf(error, "%s: ", where);
    va_start(args, format);
    str_vprintf(error, format, args);
    va_end(args);
    str_append_char(error, '\n');
    return false;
}

static bool find_setting(const char *name, LlmSetting *id) {
    size_t i = 0;
    while (i < LLM_SETTING_COUNT && strcmp(settings[i].name, name) != 0) i++;
    *id = (LlmSetting)i;
    return i < LLM_SETTING_COUNT;
}

static bool unknown(LlmConfig *config, const char *name, const char *where, Str *error) {
    const char *names[LLM_SETTING_COUNT];
    for (unsigned i = 0; i < LLM_SETTING_COUNT; i++) names[i] = settings[i].name;
    const char *close = closest_name(name, names, LLM_SETTING_COUNT);
    return complain(error, where, "there is no setting \"%.40s\"%s", name,
                    close ? arena_printf(config->arena, "; did you mean %s?", close) : "");
}

/* A limit that a project may only lower. */
static bool is_lower(const LlmConfig *config, LlmSetting id, const char *value) {
    double now = llm_config_number(config, id, -1), then;
    return now < 0 || (parse_double(value, &then) && then <= now);
}

bool llm_config_set(LlmConfig *config, const char *name, const char *value, LlmOrigin origin, const char *where, Str *error) {
    LlmSetting id;
    if (!find_setting(name, &id)) return unknown(config, name, where, error);
    const char *wrong = check_text(value);
    if (!wrong && value[0]) wrong = check_choice(id, value);
    if (!wrong && value[0]) wrong = check_number(config->arena, id, value);
    if (wrong) return complain(error, where, "%s must be %s", name, wrong);
    Entry *entry = &config->entries[id];
    if (origin == LLM_FROM_PROJECT && !config->project_trusted) {
        if (settings[id].trust == NEVER)
            return complain(error, where,
                            "a project's file may not set %s; --trust-project allows it, or "
                            "trusted_projects in the user's file",
                            name);
        if (settings[id].trust == LOWER && !is_lower(config, id, value))
            return complain(error, where, "a project's file may only lower %s", name);
    }
    if (origin < entry->origin) return true;
    *entry = (Entry){arena_strdup(config->arena, value), arena_strdup(config->arena, where ? where : ""), origin};
    return true;
}

/* ---- Files ---- */

static char *trim(char *text) {
    text += strspn(text, " \t\r");
    size_t size = strlen(text);
    while (size && strchr(" \t\r", text[size - 1])) text[--size] = 0;
    return text;
}

bool llm_config_read(LlmConfig *config, const char *text, LlmOrigin origin, const char *where, Str *error) {
    bool ok = true;
    unsigned number = 0;
    for (const char *p = text; *p;) {
        size_t length = strcspn(p, "\n");
        char *line = trim(arena_strndup(config->arena, p, length));
        p += length + (p[length] == '\n');
        number++;
        if (!line[0] || line[0] == '#') continue;
        const char *place = arena_printf(config->arena, "%s:%u", where, number);
        char *equals = strchr(line, '=');
        if (equals) {
            *equals = 0;
            ok &= llm_config_set(config, trim(line), trim(equals + 1), origin, place, error);
        } else {
            ok = complain(error, place, "a line is \"name = value\"");
        }
    }
    return ok;
}

static bool read_file(LlmConfig *config, const char *path, LlmOrigin origin, Str *error) {
    Str text;
    str_init(&text);
    bool ok = file_read_regular(path, FILE_LIMIT, &text);
    if (ok)
        ok = llm_config_read(config, text.data, origin, path, error);
    else if (errno == ENOENT || errno == ENOTDIR)
        ok = true;
    else
        complain(error, path, errno == EINVAL ? "is no regular file" : "cannot be read");
    str_release(&text);
    return ok;
}

static bool read_environment(LlmConfig *config, Str *error) {
    bool ok = true;
    for (unsigned i = 0; i < LLM_SETTING_COUNT; i++) {
        if (settings[i].environment == NO_ENV) continue;
        EnvId id = (EnvId)settings[i].environment;
        const char *value = env_get(id);
        if (value && *value) ok &= llm_config_set(config, settings[i].name, value, LLM_FROM_ENVIRONMENT, env_name(id), error);
    }
    return ok;
}

static const char *user_file(LlmConfig *config) {
    const char *folder = env_get(ENV_XDG_CONFIG_HOME), *home = env_get(ENV_HOME);
    if (folder && folder[0] == '/') return arena_printf(config->arena, "%s/sketchc/config", folder);
    return home && home[0] == '/' ? arena_printf(config->arena, "%s/.config/sketchc/config", home) : NULL;
}

/* Is `folder` (absolute) among the folders that the user trusts? Only the user's file can say so.
 */
static bool is_trusted(const LlmConfig *config, const char *folder) {
    char real[4096];
    if (!realpath(folder, real)) return false;
    for (const char *p = llm_config_get(config, LLM_TRUSTED_PROJECTS); *p;) {
        size_t n = strcspn(p, ":");
        if (n == strlen(real) && memcmp(p, real, n) == 0) return true;
        p += n + (p[n] == ':');
    }
    return false;
}

bool llm_config_load(LlmConfig *config, const char *project, bool trust, Str *error) {
    const char *user = user_file(config);
    bool ok = !user || read_file(config, user, LLM_FROM_USER, error);
    if (project) {
        config->project_trusted = trust || is_trusted(config, project);
        const char *path = arena_printf(config->arena, "%s/sketchc.conf", project);
        ok &= read_file(config, path, LLM_FROM_PROJECT, error);
    }
    return read_environment(config, error) && ok;
}

void llm_config_finish(LlmConfig *config) {
    Entry *endpoint = &config->entries[LLM_ENDPOINT], *proposer = &config->entries[LLM_PROPOSER];
    const Entry *preset = &config->entries[LLM_PRESET];
    /* A preset chosen at a stronger place than the endpoint means that preset's endpoint. */
    for (size_t i = 0; i < COUNT_OF(presets); i++)
        if (strcmp(presets[i].name, preset->value) == 0 && (!endpoint->value[0] || preset->origin > endpoint->origin))
            *endpoint = (Entry){presets[i].endpoint, presets[i].name, LLM_FROM_PRESET};
    if (!proposer->value[0]) *proposer = (Entry){endpoint->value[0] ? "model" : "design", "", LLM_FROM_DEFAULT};
}

/* A recording alone answers too. */
bool llm_wanted(const LlmConfig *config) {
    const char *proposer = llm_config_get(config, LLM_PROPOSER), *mode = llm_config_get(config, LLM_CASSETTE_MODE);
    bool replays = llm_config_get(config, LLM_CASSETTE)[0] && strcmp(mode, "replay") == 0;
    return replays || (proposer[0] && strcmp(proposer, "design") != 0);
}

/* ---- Showing ---- */

static const char *const origins[] = {"default", "preset", "user file", "project file", "environment", "flag"};

/* A user and password that somebody wrote into an endpoint, which is refused when it is asked, are not shown either. */
static void show_value(LlmSetting setting, const char *value, Str *out) {
    bool address = setting == LLM_ENDPOINT || setting == LLM_EMBEDDING_ENDPOINT;
    const char *scheme = strstr(value, "://"), *at = address ? strrchr(value, '@') : NULL;
    int kept = scheme && at && scheme < at ? (int)(scheme - value) + 3 : 0;
    if (at) str_printf(out, "%.*s[redacted]", kept, value);
    str_append(out, at ? at : value);
}

void llm_config_show(const LlmConfig *config, bool origin, Str *out) {
    for (unsigned i = 0; i < LLM_SETTING_COUNT; i++) {
        const Entry *e = &config->entries[i];
        str_printf(out, "%s = ", settings[i].name);
        show_value((LlmSetting)i, e->value, out);
        if (origin) str_printf(out, "\t# %s%s%s", origins[e->origin], e->where[0] ? ": " : "", e->where);
        str_append_char(out, '\n');
    }
}

void llm_settings_reference(Str *out) {
    static const char *const rights[] = {"any value", "lower only", "only if trusted"};
    str_append(out, "| setting | default | project's file | |\n| --- | --- | --- | --- |\n");
    for (unsigned i = 0; i < LLM_SETTING_COUNT; i++)
        str_printf(out, "| `%s` | %s%s%s | %s | %s |\n", settings[i].name, settings[i].otherwise[0] ? "`" : "", settings[i].otherwise,
                   settings[i].otherwise[0] ? "`" : "", rights[settings[i].trust], settings[i].summary);
}
