#include "baseline.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_WORDS = 64, GOODBYE_MS = 2000 };
extern char **environ;

/* "python3 'my file.py' -x" in words; the text is cut up in place. False: a quote is not closed, or
 * too many words. */
static bool split_words(char *text, char *words[MOST_WORDS + 1]) {
    size_t count = 0;
    for (char *p = text; *p;) {
        p += strspn(p, " \t\n");
        if (!*p) break;
        if (count == MOST_WORDS) return false;
        char *to = p, quote = 0;
        words[count++] = to;
        for (; *p && (quote || !strchr(" \t\n", *p)); p++) {
            if (quote ? *p == quote : *p == '\'' || *p == '"')
                quote = quote ? 0 : *p;
            else
                *to++ = *p;
        }
        if (quote) return false;
        if (*p) p++;
        *to = '\0';
    }
    words[count] = NULL;
    return count > 0;
}

static bool make_pipe(int ends[2]) {
    if (pipe(ends) != 0) return false;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    return true;
}

static RtError spawn(Baseline *b, char *const words[], int in, int out) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    int error = posix_spawnp(&b->pid, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (!error) return rt_ok();
    b->pid = 0;
    return rt_error(error == ENOENT || error == EACCES ? RT_BAD_OPTION : RT_MISSING, "the baseline %.200s cannot be started: %s", words[0],
                    strerror(error));
}

static RtError say(Baseline *b, const char *text, size_t size) {
    while (size) {
        ssize_t n = write(b->to, text, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return rt_error(RT_ABORT, "the baseline ended");
        text += n, size -= (size_t)n;
    }
    return rt_ok();
}

/* The next line into b->line, without its end. */
static RtError hear(Baseline *b, double limit_s) {
    double until = rt_now() + limit_s;
    for (;;) {
        char *end = memchr(b->buffer, '\n', b->pending);
        if (end) {
            size_t n = (size_t)(end - b->buffer), kept = n < sizeof b->line ? n : sizeof b->line - 1;
            memcpy(b->line, b->buffer, kept);
            b->line[kept] = '\0';
            b->pending -= n + 1;
            memmove(b->buffer, end + 1, b->pending);
            return rt_ok();
        }
        if (b->pending == sizeof b->buffer)
            return rt_error(RT_BAD_INPUT, "the baseline wrote a line of more than %zu bytes", sizeof b->buffer);
        double left = until - rt_now();
        struct pollfd fd = {b->from, POLLIN, 0};
        if (left <= 0) return rt_error(RT_HANG, "the baseline did not answer within %.0f s", limit_s);
        if (poll(&fd, 1, left > 1 ? 1000 : (int)(left * 1000) + 1) <= 0) continue;
        ssize_t n = read(b->from, b->buffer + b->pending, sizeof b->buffer - b->pending);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return rt_error(RT_ABORT, "the baseline ended");
        b->pending += (size_t)n;
    }
}

static void put_case(const Binding *binding, const char *case_name, uint64_t seed, Str *out) {
    const Artifact *a = binding->a;
    str_append(out, "{\"format\":1,\"kind\":\"baseline\",\"artifact\":");
    str_append_json(out, a->name);
    str_append(out, ",\"case\":");
    str_append_json(out, case_name);
    str_printf(out, ",\"seed\":%llu,\"sizes\":{", (unsigned long long)seed);
    bool any = false;
    for (size_t i = 0; i < a->param_count; i++) {
        if (a->params[i].kind != ARTIFACT_SYMBOL || a->params[i].derived) continue;
        str_append(out, any ? "," : "");
        str_append_json(out, a->params[i].name);
        str_printf(out, ":%lld", (long long)binding->symbols[i]);
        any = true;
    }
    str_append(out, "}}\n");
}

RtError baseline_start(Baseline *b, const char *command, const Binding *binding, const char *case_name, uint64_t seed, double limit_s) {
    int in[2], out[2];
    char *words[MOST_WORDS + 1];
    *b = (Baseline){.to = -1, .from = -1};
    Arena *arena = arena_create();
    if (!split_words(arena_strdup(arena, command), words)) {
        arena_destroy(arena);
        return rt_error(RT_BAD_OPTION, "--baseline wants a command with closed quotes and at most %d words", MOST_WORDS);
    }
    RtError e = rt_error(RT_MISSING, "out of pipes");
    if (make_pipe(in)) {
        if (make_pipe(out)) {
            e = spawn(b, words, in[0], out[1]);
            b->to = in[1], b->from = out[0];
            close(out[1]);
        } else {
            close(in[1]);
        }
        close(in[0]);
    }
    arena_destroy(arena);
    signal(SIGPIPE, SIG_IGN); /* the worker's own process; a write then tells */
    Str text;
    str_init(&text);
    put_case(binding, case_name, seed, &text);
    if (!rt_failed(&e)) {
        say(b, text.data, text.len); /* one that does not listen may have answered all the same */
        e = hear(b, limit_s);
    }
    str_release(&text);
    if (!rt_failed(&e) && strcmp(b->line, "ready") != 0) e = rt_error(RT_BAD_INPUT, "the baseline answered '%.200s', not 'ready'", b->line);
    return e;
}

RtError baseline_sample(Baseline *b, double limit_s, double *seconds) {
    RT_TRY(say(b, "run\n", 4));
    RT_TRY(hear(b, limit_s));
    if (!parse_double(b->line, seconds) || !(*seconds > 0) || !isfinite(*seconds))
        return rt_error(RT_BAD_INPUT, "the baseline answered '%.200s', not a number of seconds", b->line);
    return rt_ok();
}

void baseline_stop(Baseline *b) {
    if (b->to >= 0) close(b->to);
    if (b->from >= 0) close(b->from);
    for (int waited = 0; b->pid > 0; waited += 20) {
        if (waitpid(b->pid, NULL, WNOHANG) != 0) break;
        if (waited >= GOODBYE_MS) kill(b->pid, SIGKILL);
        poll(NULL, 0, 20);
    }
    *b = (Baseline){.to = -1, .from = -1};
}
