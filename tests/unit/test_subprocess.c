#include "check.h"
#include "support.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static SubprocessResult shell(const char *script, SubprocessSpec spec) {
    const char *argv[] = {"sh", "-c", script, NULL};
    spec.argv = argv;
    SubprocessResult result;
    CHECK(subprocess_run(&spec, &result));
    return result;
}

static void check_status(void) {
    SubprocessResult r = shell("echo out; echo err >&2; exit 3", (SubprocessSpec){0});
    CHECK(r.exited && r.exit_status == 3 && !r.signaled && !r.timed_out);
    CHECK_STR(r.out.data, "out\n");
    CHECK_STR(r.err.data, "err\n");
    subprocess_release(&r);
    r = shell("kill -TERM $$", (SubprocessSpec){0});
    CHECK(r.signaled && r.signal == SIGTERM && !r.exited);
    subprocess_release(&r);
    const char *argv[] = {"sketchc-no-such-program", NULL};
    CHECK(!subprocess_run(&(SubprocessSpec){.argv = argv}, &r) && errno == ENOENT);
    subprocess_release(&r);
}

static void check_input(void) {
    static char big[1 << 20];
    memset(big, 'x', sizeof big);
    SubprocessSpec spec = {.input = big, .input_size = sizeof big, .output_limit = 2 << 20};
    SubprocessResult r = shell("cat", spec);
    CHECK(r.exited && r.exit_status == 0 && r.out.len == sizeof big);
    CHECK(memcmp(r.out.data, big, sizeof big) == 0);
    subprocess_release(&r);
    r = shell("head -c 1; exec <&-; echo", spec); /* a reader that stops is no SIGPIPE for us */
    CHECK(r.exited && r.exit_status == 0);
    CHECK_STR(r.out.data, "x\n");
    subprocess_release(&r);
    r = shell("cat | wc -c", (SubprocessSpec){0}); /* no input: end of file at once */
    CHECK(atoi(r.out.data) == 0 && r.exit_status == 0);
    subprocess_release(&r);
    r = shell("cat", (SubprocessSpec){.input = "", .input_size = 0});
    CHECK(r.exited && r.out.len == 0);
    subprocess_release(&r);
}

static void check_limits(void) {
    SubprocessResult r = shell("yes | head -c 300000; yes | head -c 7 >&2", (SubprocessSpec){.output_limit = 1000});
    CHECK(r.exited && r.exit_status == 0 && r.out.len == 1000 && r.err.len == 7);
    subprocess_release(&r);
    double begin = now_s();
    /* A grandchild that holds the pipes does not outlive the limit. */
    r = shell("sleep 30 & echo started; sleep 30", (SubprocessSpec){.timeout_s = 0.3});
    CHECK(r.timed_out && r.signaled && r.signal == SIGKILL && now_s() - begin < 10);
    CHECK_STR(r.out.data, "started\n");
    subprocess_release(&r);
    begin = now_s();
    r = shell("sleep 30 & echo $!", (SubprocessSpec){0}); /* left behind in the group */
    CHECK(r.exited && r.exit_status == 0 && now_s() - begin < 10);
    pid_t left = atoi(r.out.data);
    CHECK(left > 0);
    for (int i = 0; i < 500 && kill(left, 0) == 0; i++) {
        char path[64], state = 0;
        snprintf(path, sizeof path, "/proc/%d/stat", (int)left);
        FILE *stat = fopen(path, "r");
        if (!stat || fscanf(stat, "%*d %*s %c", &state) != 1 || state == 'Z') i = 500;
        if (stat) fclose(stat);
        CHECK(i != 499);
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    subprocess_release(&r);
}

static atomic_int cancel_flag;

static void *cancel_soon(void *unused) {
    (void)unused;
    nanosleep(&(struct timespec){0, 200000000}, NULL);
    cancel_flag = 1;
    return NULL;
}

static void check_cancel(void) {
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, cancel_soon, NULL));
    double begin = now_s();
    SubprocessResult r = shell("exec sleep 30", (SubprocessSpec){.cancel = &cancel_flag});
    CHECK(r.cancelled && !r.timed_out && r.signaled && now_s() - begin < 2);
    subprocess_release(&r);
    pthread_join(thread, NULL);
}

static void check_environment(void) {
    setenv("SKETCHC_TEST_KEPT", "yes", 1);
    setenv("SKETCHC_TEST_KEPT_NOT", "secret", 1);
    const char *const keep[] = {"PATH", "SKETCHC_TEST_KEPT", NULL};
    const char *script = "echo $SKETCHC_TEST_KEPT,$SKETCHC_TEST_KEPT_NOT";
    SubprocessResult r = shell(script, (SubprocessSpec){.env_keep = keep});
    CHECK_STR(r.out.data, "yes,\n");
    subprocess_release(&r);
    r = shell(script, (SubprocessSpec){0});
    CHECK_STR(r.out.data, "yes,secret\n");
    subprocess_release(&r);
    /* Keys reach no child, asked for or not. */
    const char *const key[] = {"PATH", "SKETCHC_API_KEY", NULL};
    setenv("SKETCHC_API_KEY", "secret", 1);
    r = shell("echo x$SKETCHC_API_KEY", (SubprocessSpec){.env_keep = key});
    CHECK_STR(r.out.data, "x\n");
    subprocess_release(&r);
    r = shell("echo x$SKETCHC_API_KEY", (SubprocessSpec){0});
    CHECK_STR(r.out.data, "x\n");
    subprocess_release(&r);
    unsetenv("SKETCHC_API_KEY");
}

/* No descriptor of ours reaches the child but the three standard ones. */
static void check_descriptors(void) {
    CHECK(dup(STDOUT_FILENO) >= 0);
    SubprocessResult r = shell("ls /proc/self/fd | wc -l", (SubprocessSpec){.input = "", .input_size = 0});
    CHECK(atoi(r.out.data) <= 4); /* and the one by which ls reads the folder */
    subprocess_release(&r);
}

int main(void) {
    check_status();
    check_input();
    check_limits();
    check_cancel();
    check_environment();
    check_descriptors();
    return 0;
}
