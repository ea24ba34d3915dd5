#include "runtime_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool try_path(const char *dir, size_t dir_length, const char *tail, char *out, size_t size) {
    struct stat st;
    int n = snprintf(out, size, "%.*s/%s", (int)dir_length, dir, tail);
    return n > 0 && (size_t)n < size && out[0] == '/' && access(out, X_OK) == 0 && stat(out, &st) == 0 && S_ISREG(st.st_mode);
}

bool tool_find(const char *name, bool cuda, char *out, size_t size) {
    if (strchr(name, '/')) {
        rt_copy(out, size, name);
        return name[0] == '/' && access(name, X_OK) == 0;
    }
    /* Relative and empty parts of PATH would run what lies in the current folder. */
    for (const char *p = env_get(ENV_PATH); p;) {
        size_t n = strcspn(p, ":");
        if (try_path(p, n, name, out, size)) return true;
        p = p[n] ? p + n + 1 : NULL;
    }
    if (!cuda) return false;
    char tail[80];
    snprintf(tail, sizeof tail, "bin/%s", name);
    const char *home = env_get(ENV_CUDA_HOME);
    if (home && try_path(home, strlen(home), tail, out, size)) return true;
    const char usual[] = "/usr/local/cuda";
    return try_path(usual, strlen(usual), tail, out, size);
}

Hash128 tool_identity(const char *path, Hash128 seed) {
    struct stat st = {0};
    seed = hash128(path, strlen(path), seed);
    if (stat(path, &st) != 0) return seed;
    int64_t facts[4] = {(int64_t)st.st_size, (int64_t)st.st_mtim.tv_sec, (int64_t)st.st_mtim.tv_nsec, (int64_t)st.st_ino};
    return hash128(facts, sizeof facts, seed);
}

size_t tool_cc(Arena *arena, const char *words[TOOL_MAX_WORDS]) {
    const char *cc = env_get(ENV_CC);
    if (!cc || !cc[strspn(cc, " ")]) cc = "cc";
    size_t count = 0;
    for (const char *p = cc; *(p += strspn(p, " ")) && count < TOOL_MAX_WORDS;) {
        size_t n = strcspn(p, " ");
        words[count++] = arena_strndup(arena, p, n);
        p += n;
    }
    char path[1024];
    if (!tool_find(words[0], false, path, sizeof path)) return 0;
    words[0] = arena_strdup(arena, path);
    return count;
}

RtError tool_run(const char *const *argv, RtStatus status, Str *messages) {
    SubprocessResult r;
    SubprocessSpec spec = {.argv = argv, .timeout_s = 300};
    if (!subprocess_run(&spec, &r)) return rt_error(RT_MISSING, "cannot start %s: %s", argv[0], strerror(errno));
    RtError e = rt_ok();
    if (r.timed_out)
        e = rt_error(status, "%s did not end within 300 s", argv[0]);
    else if (!r.exited)
        e = rt_error(status, "%s was ended by signal %d", argv[0], r.signal);
    else if (r.exit_status != 0)
        e = rt_error(status, "%s failed with status %d: %.380s", argv[0], r.exit_status, r.err.len ? r.err.data : r.out.data);
    if (messages) {
        str_append(messages, r.out.data);
        str_append(messages, r.err.data);
    }
    subprocess_release(&r);
    return e;
}
