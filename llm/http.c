/* HTTP by libcurl's multi interface. The library is opened at the first request: programs that
 * never ask a model do not load it, and a machine without it says so. */
#define _GNU_SOURCE /* strcasestr */
#define CURL_DISABLE_TYPECHECK
#include "llm_internal.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The functions used, by name. */
#define CURL_FUNCTIONS(F)                                                                                                                  \
    F(global_init, CURLcode, (long))                                                                                                       \
    F(getdate, time_t, (const char *, const time_t *))                                                                                     \
    F(easy_init, CURL *, (void))                                                                                                           \
    F(easy_cleanup, void, (CURL *))                                                                                                        \
    F(easy_setopt, CURLcode, (CURL *, CURLoption, ...))                                                                                    \
    F(easy_getinfo, CURLcode, (CURL *, CURLINFO, ...))                                                                                     \
    F(easy_strerror, const char *, (CURLcode))                                                                                             \
    F(multi_init, CURLM *, (void))                                                                                                         \
    F(multi_cleanup, CURLMcode, (CURLM *))                                                                                                 \
    F(multi_add_handle, CURLMcode, (CURLM *, CURL *))                                                                                      \
    F(multi_remove_handle, CURLMcode, (CURLM *, CURL *))                                                                                   \
    F(multi_perform, CURLMcode, (CURLM *, int *))                                                                                          \
    F(multi_poll, CURLMcode, (CURLM *, struct curl_waitfd *, unsigned, int, int *))                                                        \
    F(multi_info_read, CURLMsg *, (CURLM *, int *))                                                                                        \
    F(slist_append, struct curl_slist *, (struct curl_slist *, const char *))                                                              \
    F(slist_free_all, void, (struct curl_slist *))

struct HttpClient {
    void *library;
    CURLM *multi;
#define DECLARE(name, result, arguments) result(*name) arguments;
    CURL_FUNCTIONS(DECLARE)
#undef DECLARE
};

enum { HEADER_LIMIT = 64 << 10 };

/* C has no cast from an object to a function; POSIX says that the bits are the same. */
static bool find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool load(HttpClient *c, Str *error) {
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so"};
    for (size_t i = 0; i < COUNT_OF(names) && !c->library; i++) c->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!c->library) {
        str_append(error, "libcurl is missing on this machine (Debian: apt install libcurl4)");
        return false;
    }
    bool ok = true;
#define FIND(name, result, arguments) ok &= find(c->library, "curl_" #name, &c->name);
    CURL_FUNCTIONS(FIND)
#undef FIND
    if (!ok) str_append(error, "this machine's libcurl is too old (7.85 is needed)");
    return ok;
}

HttpClient *http_create(Str *error) {
    HttpClient *c = calloc(1, sizeof *c);
    if (!c) {
        str_append(error, "out of memory");
        return NULL;
    }
    bool ok = load(c, error);
    if (ok && (c->global_init(CURL_GLOBAL_DEFAULT) || !(c->multi = c->multi_init()))) {
        str_append(error, "libcurl cannot be started");
        ok = false;
    }
    if (ok) return c;
    http_destroy(c);
    return NULL;
}

/* libcurl stays loaded: it registers what runs when a thread ends. */
void http_destroy(HttpClient *client) {
    if (client && client->multi) client->multi_cleanup(client->multi);
    free(client);
}

static size_t on_body(char *bytes, size_t one, size_t count, void *context) {
    HttpCall *call = context;
    call->connected = true;
    if (call->on_data(call, bytes, one * count)) return one * count;
    call->stopped = true;
    return CURL_WRITEFUNC_ERROR;
}

typedef struct {
    HttpClient *client;
    HttpCall *call;
    struct curl_slist *list;
    size_t header_bytes;
    char reason[CURL_ERROR_SIZE];
} Exchange;

static void read_retry_after(Exchange *x, const char *value) {
    double seconds;
    char text[128] = {0};
    memcpy(text, value, strcspn(value, "\r\n") < 127 ? strcspn(value, "\r\n") : 127);
    char *begin = text + strspn(text, " \t");
    if (parse_double(begin, &seconds)) {
        if (seconds >= 0) x->call->retry_after_s = seconds;
        return;
    }
    time_t now = time(NULL), then = x->client->getdate(begin, NULL);
    if (then != (time_t)-1) x->call->retry_after_s = then > now ? (double)(then - now) : 0;
}

static size_t on_header(char *bytes, size_t one, size_t count, void *context) {
    Exchange *x = context;
    size_t size = one * count;
    x->header_bytes += size;
    if (x->header_bytes > HEADER_LIMIT) return 0;
    char line[256] = {0};
    memcpy(line, bytes, size < sizeof line - 1 ? size : sizeof line - 1);
    if (strncasecmp(line, "content-type:", 13) == 0)
        x->call->event_stream = strcasestr(line + 13, "event-stream") != NULL;
    else if (strncasecmp(line, "retry-after:", 12) == 0)
        read_retry_after(x, line + 12);
    return size;
}

static struct curl_slist *add_header(HttpClient *c, struct curl_slist *list, const char *text, bool *ok) {
    struct curl_slist *longer = c->slist_append(list, text);
    *ok &= longer != NULL;
    return longer ? longer : list;
}

static void set_headers(Exchange *x, bool *ok) {
    HttpClient *c = x->client;
    char line[1100];
    x->list = add_header(c, x->list, "Content-Type: application/json", ok);
    x->list = add_header(c, x->list, "Accept: text/event-stream, application/json", ok);
    x->list = add_header(c, x->list, "Expect:", ok);
    if (!x->call->key[0]) return;
    snprintf(line, sizeof line, "Authorization: Bearer %s", x->call->key);
    x->list = add_header(c, x->list, line, ok);
    explicit_bzero(line, sizeof line);
}

/* No redirects: they would take the key elsewhere. No other protocols, no .netrc, no cookies, no
 * compression, which could grow without limit. */
static bool set_options(Exchange *x, CURL *h) {
    HttpClient *c = x->client;
    HttpCall *call = x->call;
    bool ok = true;
    set_headers(x, &ok);
#define SET(option, value) ok &= c->easy_setopt(h, option, value) == CURLE_OK
    SET(CURLOPT_URL, call->url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_POST, 1L);
    SET(CURLOPT_POSTFIELDS, call->body);
    SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_size);
    SET(CURLOPT_HTTPHEADER, x->list);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, call);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, x);
    SET(CURLOPT_ERRORBUFFER, x->reason);
    SET(CURLOPT_PRIVATE, x);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)(1e3 * call->connect_timeout_s));
    SET(CURLOPT_TIMEOUT_MS, (long)(1e3 * call->timeout_s));
    SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
    SET(CURLOPT_LOW_SPEED_TIME, (long)(call->idle_timeout_s < 1 ? 1 : call->idle_timeout_s));
#undef SET
    return ok;
}

static void release(HttpClient *c, HttpCall *call) {
    Exchange *x = call->headers;
    if (call->handle) c->easy_cleanup(call->handle);
    if (x) c->slist_free_all(x->list);
    free(x);
    call->handle = call->headers = NULL;
}

bool http_start(HttpClient *c, HttpCall *call) {
    call->status = 0;
    call->event_stream = call->stopped = call->timed_out = call->connected = false;
    call->retry_after_s = -1;
    call->error[0] = 0;
    Exchange *x = call->headers = calloc(1, sizeof *x);
    call->handle = x ? c->easy_init() : NULL;
    if (call->handle) {
        *x = (Exchange){.client = c, .call = call};
        if (set_options(x, call->handle) && c->multi_add_handle(c->multi, call->handle) == CURLM_OK) return true;
    }
    snprintf(call->error, sizeof call->error, "the request cannot be made");
    release(c, call);
    return false;
}

static void finish(HttpClient *c, HttpCall *call, CURLcode code) {
    Exchange *x = call->headers;
    c->easy_getinfo(call->handle, CURLINFO_RESPONSE_CODE, &call->status);
    call->timed_out = code == CURLE_OPERATION_TIMEDOUT;
    if (code != CURLE_OK && !call->stopped)
        snprintf(call->error, sizeof call->error, "%.150s", x->reason[0] ? x->reason : c->easy_strerror(code));
    c->multi_remove_handle(c->multi, call->handle);
    release(c, call);
}

static HttpCall *next_finished(HttpClient *c) {
    int left;
    for (CURLMsg *m; (m = c->multi_info_read(c->multi, &left));) {
        Exchange *x = NULL;
        CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE) continue;
        c->easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &x);
        HttpCall *call = x->call;
        finish(c, call, code);
        return call;
    }
    return NULL;
}

HttpCall *http_wait(HttpClient *c, double seconds) {
    double end = llm_now() + seconds;
    for (;;) {
        int running;
        HttpCall *call = next_finished(c);
        if (call) return call;
        c->multi_perform(c->multi, &running);
        if ((call = next_finished(c))) return call;
        double left = end - llm_now();
        if (left <= 0) return NULL;
        c->multi_poll(c->multi, NULL, 0, left < 0.1 ? (int)(1e3 * left) + 1 : 100, NULL);
    }
}

void http_stop(HttpClient *c, HttpCall *call) {
    c->multi_remove_handle(c->multi, call->handle);
    release(c, call);
}
