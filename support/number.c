/* Doubles as text. snprintf and strtod round correctly but take their decimal point from the
 * locale, so both run under the thread's "C" locale (uselocale changes no other thread). */
#include "memory.h"
#include "support_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The "C" locale needs no file and, in glibc and musl, no allocation. */
LocaleScope enter_c_locale(void) {
    LocaleScope scope = {newlocale(LC_ALL_MASK, "C", (locale_t)0), (locale_t)0};
    if (scope.c == (locale_t)0) memory_out();
    scope.saved = uselocale(scope.c);
    return scope;
}

void leave_c_locale(LocaleScope scope) {
    uselocale(scope.saved);
    freelocale(scope.c);
}

void str_append_double(Str *s, double value) {
    if (isnan(value)) {
        str_append(s, "nan");
        return;
    }
    if (isinf(value)) {
        str_append(s, value < 0 ? "-inf" : "inf");
        return;
    }
    char text[40];
    LocaleScope scope = enter_c_locale();
    /* Fifteen digits read back exactly wherever they suffice, and %g drops trailing zeros; only
     * subnormals, whose precision is lower, can need fewer than what is left then. */
    int digits = fabs(value) < 2.3e-308 ? 1 : 15;
    do snprintf(text, sizeof text, "%.*g", digits, value);
    while (digits++ < 17 && strtod(text, NULL) != value);
    leave_c_locale(scope);
    str_append(s, text);
}

static const char *skip_digits(const char *at) {
    while (*at >= '0' && *at <= '9') at++;
    return at;
}

/* [+-] (digits [. digits*] | . digits) [eE [+-] digits] */
static bool is_decimal(const char *text) {
    const char *at = text + (*text == '+' || *text == '-');
    const char *whole = at;
    at = skip_digits(at);
    size_t digits = (size_t)(at - whole);
    if (*at == '.') {
        const char *fraction = ++at;
        at = skip_digits(at);
        digits += (size_t)(at - fraction);
    }
    if (!digits) return false;
    if (*at == 'e' || *at == 'E') {
        at += 1 + (at[1] == '+' || at[1] == '-');
        const char *exponent = at;
        at = skip_digits(at);
        if (at == exponent) return false;
    }
    return *at == 0;
}

bool parse_int64(const char *text, int64_t *value) {
    const char *at = text + (*text == '+' || *text == '-'), *end = skip_digits(at);
    char *stop;
    if (end == at || *end) return false;
    int saved_errno = errno;
    errno = 0;
    long long read = strtoll(text, &stop, 10);
    bool ok = !errno;
    errno = saved_errno;
    if (ok) *value = read;
    return ok;
}

bool parse_double(const char *text, double *value) {
    const char *word = text + (*text == '+' || *text == '-');
    bool is_inf = strcmp(word, "inf") == 0, is_nan = strcmp(word, "nan") == 0;
    if (is_inf || is_nan) {
        *value = is_nan ? (double)NAN : *text == '-' ? -(double)INFINITY : (double)INFINITY;
        return true;
    }
    if (!is_decimal(text)) return false;
    LocaleScope scope = enter_c_locale();
    int saved_errno = errno;
    double read = strtod(text, NULL);
    errno = saved_errno;
    leave_c_locale(scope);
    if (isinf(read)) return false;
    *value = read;
    return true;
}
