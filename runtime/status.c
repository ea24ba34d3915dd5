#include "runtime_internal.h"

#include <stdlib.h>
#include <time.h>

static const struct {
    const char *name;
    int code;
    const char *summary;
} rows[RT_STATUS_COUNT] = {
#define RT_STATUS(id, name, code, summary) [RT_##id] = {name, code, summary},
#include "statuses.def"
#undef RT_STATUS
};

const char *rt_status_name(RtStatus status) {
    return (unsigned)status < RT_STATUS_COUNT ? rows[status].name : "unknown";
}

int rt_status_exit_code(RtStatus status) {
    return (unsigned)status < RT_STATUS_COUNT ? rows[status].code : 5;
}

RtError rt_ok(void) {
    RtError e = {.status = RT_OK};
    return e;
}

RtError rt_error(RtStatus status, const char *format, ...) {
    RtError e = {.status = status};
    va_list args;
    va_start(args, format);
    vsnprintf(e.text, sizeof e.text, format, args);
    va_end(args);
    return e;
}

void rt_copy(char *out, size_t size, const char *text) {
    snprintf(out, size, "%s", text);
}

double rt_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void *rt_alloc(size_t size) {
    return malloc(size ? size : 1);
}
