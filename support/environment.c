#include "support.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static const struct {
    const char *name;
    bool secret;
    const char *use;
} variables[ENV_COUNT] = {
#define ENVIRONMENT(id, name, secret, use) {name, secret, use},
#include "environment.def"
#undef ENVIRONMENT
};

const char *env_get(EnvId id) {
    return getenv(variables[id].name);
}
const char *env_name(EnvId id) {
    return variables[id].name;
}
const char *env_use(EnvId id) {
    return variables[id].use;
}
bool env_is_secret(EnvId id) {
    return variables[id].secret;
}

/* Beside the variables of environment.def that are no secrets; with * what begins so. */
static const char *const allowed[] = {
    "LANG",    "LANGUAGE",       "LC_*",         "LOCPATH",       "TZ",     "USER",     "LOGNAME",  "SHELL",  "TERM", /* a person's */
    "LD_*",    "OMP_*",          "GOMP_*",       "KMP_*",         "CUDA_*", "NVIDIA_*", "MALLOC_*", "ASAN_*", "UBSAN_*",
    "LSAN_*",  "TSAN_*",                                                                /* run-time libraries' */
    "CPATH",   "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_*",  "CCACHE_*", /* compilers' */
    "PYTHON*", "VIRTUAL_ENV",    "CONDA_*",                                             /* a baseline's */
};

static bool is_called(const char *entry, const char *name) {
    size_t length = strcspn(name, "*");
    return strncmp(entry, name, length) == 0 && (name[length] || entry[length] == '=');
}

static bool is_allowed(const char *entry) {
    for (size_t i = 0; i < ENV_COUNT; i++)
        if (is_called(entry, variables[i].name)) return !variables[i].secret;
    for (size_t i = 0; i < COUNT_OF(allowed); i++)
        if (is_called(entry, allowed[i])) return true;
    return false;
}

/* By way of the process's own file: a string that the program gave to putenv may lie in memory that is only read. */
static void wipe(int memory, const char *entry) {
    static const char nothing[256];
    for (size_t done = 0, length = strlen(entry); memory >= 0 && done < length;) {
        size_t n = length - done < sizeof nothing ? length - done : sizeof nothing;
        if (pwrite(memory, nothing, n, (off_t)(uintptr_t)(entry + done)) <= 0) return;
        done += n;
    }
}

/* Where the system put the variables that the program began with, which it shows to others (/proc/PID/environ): those that
 * have been set anew since are there still. */
static bool find_first_block(uintptr_t *begin, uintptr_t *end) {
    char text[2048] = "";
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0) close(fd);
    char *p = n > 0 ? strrchr(text, ')') : NULL; /* ends the second field */
    for (int field = 2; p && field < 50; field++) p = strchr(p + 1, ' ');
    if (!p) return false;
    char *next;
    *begin = (uintptr_t)strtoull(p, &next, 10);
    *end = (uintptr_t)strtoull(next, NULL, 10);
    return *begin && *begin < *end;
}

static void wipe_first_block(int memory) {
    uintptr_t at, end;
    if (!find_first_block(&at, &end)) return;
    for (size_t length; at < end; at += length + 1) {
        const char *entry = (const char *)at;
        length = strnlen(entry, end - at);
        if (length && !is_allowed(entry)) wipe(memory, entry);
    }
}

void environment_clean(void) {
    int memory = open("/proc/self/mem", O_WRONLY | O_CLOEXEC);
    size_t kept = 0;
    for (size_t i = 0; environ && environ[i]; i++) {
        if (is_allowed(environ[i]))
            environ[kept++] = environ[i];
        else
            wipe(memory, environ[i]);
    }
    if (environ) environ[kept] = NULL;
    wipe_first_block(memory);
    if (memory >= 0) close(memory);
}
