/* The key of the endpoint: found, kept in one place, taken out of what comes back. */
#include "llm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool wrong(Str *error, const char *text) {
    str_append(error, text);
    return false;
}

/* What may stand in a header: visible ASCII. */
static bool take(LlmKey *key, const char *text, size_t size, Str *error) {
    while (size && strchr(" \t\r\n", text[size - 1])) size--;
    while (size && strchr(" \t\r\n", *text)) text++, size--;
    if (!size) return wrong(error, "the key is empty");
    if (size >= sizeof key->text) return wrong(error, "the key is longer than 1024 bytes");
    for (size_t i = 0; i < size; i++)
        if (text[i] <= 32 || text[i] >= 127) return wrong(error, "the key holds a character that no key has");
    memcpy(key->text, text, size);
    key->text[size] = 0;
    return true;
}

/* The file must be the user's alone: a key that others can read is reported, not used. */
static bool from_file(const char *path, LlmKey *key, Str *error) {
    char text[2048];
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool ok = false;
    ssize_t size = 0;
    if (fd < 0 || fstat(fd, &info) != 0)
        str_printf(error, "the key file cannot be opened: %s", strerror(errno));
    else if (!S_ISREG(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 077))
        wrong(error, "the key file must be a plain file of yours that nobody else may read (chmod 600)");
    else if ((size = read(fd, text, sizeof text)) < 0)
        str_printf(error, "the key file cannot be read: %s", strerror(errno));
    else
        ok = take(key, text, (size_t)size, error);
    if (fd >= 0) close(fd);
    explicit_bzero(text, sizeof text);
    return ok;
}

static bool from_command(const char *command, LlmKey *key, Str *error) {
    Arena *arena = arena_create();
    SubprocessSpec spec = {.argv = split_words(arena, command), .timeout_s = 30, .output_limit = 4096};
    SubprocessResult result;
    bool ok = subprocess_run(&spec, &result);
    if (!ok)
        str_printf(error, "key_command cannot be started: %s", strerror(errno));
    else if (!result.exited || result.exit_status)
        ok = wrong(error, "key_command failed");
    else
        ok = take(key, result.out.data, result.out.len, error);
    if (result.out.len) explicit_bzero(result.out.data, result.out.len);
    subprocess_release(&result);
    arena_destroy(arena);
    return ok;
}

bool key_find(const LlmConfig *config, LlmKey *key, Str *error) {
    *key = (LlmKey){{0}};
    const char *file = llm_config_get(config, LLM_KEY_FILE), *command = llm_config_get(config, LLM_KEY_COMMAND);
    const char *given = env_get(ENV_API_KEY), *endpoint = llm_config_get(config, LLM_ENDPOINT);
    /* OpenAI's own variable is OpenAI's: no other endpoint gets to see it. */
    if ((!given || !*given) && strncmp(endpoint, "https://api.openai.com/", 23) == 0) given = env_get(ENV_OPENAI_API_KEY);
    if (given && *given) return take(key, given, strlen(given), error);
    if (file[0]) return from_file(file, key, error);
    return !command[0] || from_command(command, key, error);
}

bool key_find_embedding(const LlmConfig *config, LlmKey *key, Str *error) {
    *key = (LlmKey){{0}};
    const char *file = llm_config_get(config, LLM_EMBEDDING_KEY_FILE), *given = env_get(ENV_OPENAI_API_KEY);
    bool is_openai = strncmp(llm_config_get(config, LLM_EMBEDDING_ENDPOINT), "https://api.openai.com/", 23) == 0;
    if (file[0]) return from_file(file, key, error);
    return !is_openai || !given || !*given || take(key, given, strlen(given), error);
}

void key_forget(LlmKey *key) {
    explicit_bzero(key->text, sizeof key->text);
}

void key_redact(const LlmKey *key, Str *text) {
    size_t length = strlen(key->text);
    char *found = length && text->len ? strstr(text->data, key->text) : NULL;
    if (!found) return;
    Str clean;
    str_init(&clean);
    const char *from = text->data;
    for (; found; found = strstr(from, key->text)) {
        str_append_n(&clean, from, (size_t)(found - from));
        str_append(&clean, "[key]");
        from = found + length;
    }
    str_append(&clean, from);
    str_release(text);
    *text = clean;
}
