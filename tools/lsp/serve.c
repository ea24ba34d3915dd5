/* The server on file descriptors. */
#include "lsp.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum { PIECE = 1 << 16, PAUSE_MS = 100 };

typedef struct {
    int out;
    bool failed;
} Sink;

static void write_all(void *context, const char *bytes, size_t size) {
    Sink *sink = context;
    while (size && !sink->failed) {
        ssize_t n = write(sink->out, bytes, size);
        if (n < 0 && errno == EINTR) continue;
        sink->failed = n <= 0;
        if (n > 0) bytes += n, size -= (size_t)n;
    }
}

static bool has_input(int in, int patience_ms) {
    struct pollfd p = {.fd = in, .events = POLLIN};
    return poll(&p, 1, patience_ms) > 0;
}

/* Until the client or the work in the background has something to say. Such work begins when the client pauses. */
static void wait_for_either(LspServer *s, int in) {
    struct pollfd p[] = {{.fd = in, .events = POLLIN}, {.fd = lsp_background_fd(s), .events = POLLIN}};
    int ready = poll(p, 2, lsp_background_waits(s) ? PAUSE_MS : -1);
    if (ready == 0) lsp_background_start(s);
    if (ready > 0 && p[1].revents) lsp_background_read(s);
}

/* Everything that has arrived is read before work begins, so that a cancellation is seen in time. */
int lsp_serve(int in, int out) {
    Sink sink = {.out = out};
    LspServer *s = lsp_create(write_all, &sink);
    if (!s) return 1;
    lsp_set_background(s);
    char piece[PIECE];
    int status = 1;
    bool more = true;
    while (!lsp_has_ended(s, &status) && !sink.failed) {
        if (more && has_input(in, 0)) {
            ssize_t n = read(in, piece, sizeof piece);
            if (n < 0 && errno == EINTR) continue;
            more = n > 0 && lsp_receive(s, piece, (size_t)n);
            if (n > 0 && !more)
                fputs("sketchc: lsp: what came is no message with a Content-Length of at most 1 GiB: the connection is closed\n", stderr);
        } else if (!lsp_step(s)) {
            if (!more) break;
            wait_for_either(s, in);
        }
    }
    lsp_has_ended(s, &status);
    lsp_destroy(s);
    return status;
}
