#include "compare_internal.h"

#include <math.h>
#include <string.h>

typedef struct {
    const char *name, *summary;
    bool judges;
} CheckInfo;
static const CheckInfo check_infos[CHECK_COUNT] = {
#define VERIFY_CHECK(id, name, judges, summary) {name, summary, judges},
#include "checks.def"
#undef VERIFY_CHECK
};

const char *check_name(CheckId id) {
    return check_infos[id].name;
}

void verdict_init(Verdict *v, Arena *arena) {
    *v = (Verdict){.arena = arena};
}

bool verdict_passed(const Verdict *v) {
    for (int i = 0; i < CHECK_COUNT; i++)
        if (check_infos[i].judges && v->checks[i].status == CHECK_FAILED) return false;
    return v->checks[CHECK_BOUND].status == CHECK_PASSED;
}

void verdict_pass(Verdict *v, CheckId id) {
    if (v->checks[id].status == CHECK_NOT_RUN) v->checks[id].status = CHECK_PASSED;
}

/* The first failure's sentence stays. */
void verdict_fail(Verdict *v, CheckId id, int64_t count, const char *format, ...) {
    CheckResult *check = &v->checks[id];
    check->count += count;
    if (check->status == CHECK_FAILED) return;
    check->status = CHECK_FAILED;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    check->detail = arena_strdup(v->arena, text);
}

void verdict_check_second(Verdict *v, const Shape *shape, const void *first, const void *second, bool deterministic) {
    size_t size = dtype_size(shape->dtype), bytes = (size_t)shape->elements * size;
    const unsigned char *a = first, *b = second;
    bool equal = !bytes || memcmp(a, b, bytes) == 0;
    int64_t left = 0, at = 0;
    for (int64_t i = 0; i < shape->elements && !equal; i++) {
        const unsigned char *x = a + (size_t)i * size, *y = b + (size_t)i * size;
        left += memcmp(x, y, size) != 0 && poison_at(shape->dtype, 1, y) && !poison_at(shape->dtype, 0, x);
    }
    if (left)
        verdict_fail(v, CHECK_SECOND_LAUNCH, left, "%s: the second launch left %lld elements unwritten", shape->name, (long long)left);
    else if (deterministic && !equal) {
        while (memcmp(a + (size_t)at * size, b + (size_t)at * size, size) == 0) at++;
        verdict_fail(v, CHECK_SECOND_LAUNCH, 1, "%s: the second launch differs first at %lld", shape->name, (long long)at);
    }
    verdict_pass(v, CHECK_SECOND_LAUNCH);
}

void verdict_check_input(Verdict *v, const InputSpec *spec, const void *buffer, unsigned threads) {
    int64_t at = input_find_difference(spec, buffer, 0, spec->shape.elements, threads);
    if (at >= 0) verdict_fail(v, CHECK_INPUT_MODIFIED, 1, "%s: the input was modified, first at %lld", spec->shape.name, (long long)at);
    verdict_pass(v, CHECK_INPUT_MODIFIED);
}

/* ---- Printing ---- */

static const char *status_name(CheckStatus status) {
    static const char *const names[] = {"not_run", "passed", "failed"};
    return names[status];
}

static void print_number(Str *out, const char *key, double value) {
    str_printf(out, ", \"%s\": ", key);
    if (!isfinite(value))
        str_append_json(out, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    else
        str_append_double(out, value);
}

static void print_output(const OutputVerdict *o, Str *out) {
    str_append(out, "{\"name\": ");
    str_append_json(out, o->name);
    str_printf(out,
               ", \"dtype\": \"%s\", \"elements\": %lld, \"checked\": %lld, "
               "\"undecided\": %lld, \"unknown\": %lld, \"outside\": %lld",
               dtype_name(o->dtype), (long long)o->elements, (long long)o->checked, (long long)o->undecided, (long long)o->unknown,
               (long long)o->outside);
    print_number(out, "rms", o->rms);
    print_number(out, "max_ratio", o->max_ratio);
    print_number(out, "max_error", o->max_error);
    str_printf(out, ", \"worst\": {\"index\": %lld", (long long)o->worst);
    print_number(out, "got", o->worst_got);
    print_number(out, "want", o->worst_want);
    print_number(out, "bound", o->worst_bound);
    str_append(out, "}");
    print_number(out, "paper_fraction", o->paper_fraction);
    print_number(out, "paper_tau", o->paper_tau);
    str_append(out, "}");
}

void verdict_print_json(const Verdict *v, Str *out) {
    str_printf(out, "{\"schema\": \"sketchc.verify 1\", \"passed\": %s, \"checks\": {", verdict_passed(v) ? "true" : "false");
    for (int i = 0; i < CHECK_COUNT; i++) {
        const CheckResult *check = &v->checks[i];
        str_printf(out, "%s\"%s\": {\"status\": \"%s\", \"judges\": %s, \"count\": %lld", i ? ", " : "", check_infos[i].name,
                   status_name(check->status), check_infos[i].judges ? "true" : "false", (long long)check->count);
        if (check->detail) {
            str_append(out, ", \"detail\": ");
            str_append_json(out, check->detail);
        }
        str_append(out, "}");
    }
    str_append(out, "}, \"outputs\": [");
    for (size_t i = 0; i < v->output_count; i++) {
        if (i) str_append(out, ", ");
        print_output(&v->outputs[i], out);
    }
    str_append(out, "]}\n");
}

void verdict_print_text(const Verdict *v, Str *out) {
    for (int i = 0; i < CHECK_COUNT; i++) {
        const CheckResult *check = &v->checks[i];
        if (check->status == CHECK_NOT_RUN) continue;
        const char *said = check->status == CHECK_PASSED ? "ok" : "FAILED";
        if (!check_infos[i].judges) said = check->status == CHECK_PASSED ? "ok" : "not met";
        str_printf(out, "  %-14s %s", check_infos[i].name, said);
        if (check->detail) str_printf(out, ": %s", check->detail);
        str_append(out, "\n");
    }
}
