/* What limits a sketch that is right, for whoever is to make it faster. */
#include "conductor.h"

#include "json.h"
#include "sketchc.h"

#include <string.h>

static const struct {
    const char *name, *advice;
} roofs[] = {
#define ROOF(name, advice) {name, advice},
#include "roofs.def"
#undef ROOF
};

static const char *advice_of(const char *roof) {
    for (size_t i = 0; i < COUNT_OF(roofs); i++)
        if (strcmp(roofs[i].name, roof) == 0) return roofs[i].advice;
    return "";
}

static const Json *find_case(const Json *root, const char *name) {
    for (const Json *c = json_first(json_get(root, "cases")); c; c = json_next(c))
        if (strcmp(json_get_string(c, "name", ""), name) == 0) return c;
    return NULL;
}

/* What the figures of a launch say beside its roof. */
static void tell_figures(const Json *launch, Str *out) {
    double waves = json_get_number(launch, "waves", 0), flying = json_get_number(launch, "bytes_in_flight", 0),
           needed = json_get_number(launch, "bytes_needed", 0), seconds = json_get_number(launch, "seconds", 0);
    if (seconds < 0) str_append(out, " A block fits nowhere: smaller tiles.");
    if (waves > 0 && waves < 0.8)
        str_printf(out, " The grid fills %.0f %% of the machine: more, smaller parallel tiles.", 100 * waves);
    else if (waves > 1 && waves < 4 && waves - (double)(int64_t)waves > 0 && waves - (double)(int64_t)waves < 0.5)
        str_printf(out, " The last of %.1f waves is mostly empty: another tile size.", waves);
    if (needed > 0 && flying < 0.8 * needed)
        str_printf(out, " %.1f of the %.1f KB in flight that fill the memory.", flying / 1024, needed / 1024);
}

static void tell_prediction(const Json *one, double seconds, Str *out) {
    double floor = json_get_number(one, "floor_s", 0);
    str_printf(out, "Predicted %.4g ms, %.0f %% of the floor (each tensor moved once, %.4g ms)", 1e3 * json_get_number(one, "seconds", 0),
               json_get_number(one, "percent", 0), 1e3 * floor);
    if (seconds > 0) str_printf(out, "; measured %.0f %% of it", 100 * floor / seconds);
    str_append(out, ".\n");
    for (const Json *l = json_first(json_get(one, "launches")); l; l = json_next(l)) {
        const char *roof = json_get_string(l, "roof", "");
        str_printf(out, "%s: %s. %s", json_get_string(l, "entry", ""), json_get_string(l, "text", ""), advice_of(roof));
        tell_figures(l, out);
        str_append_char(out, '\n');
    }
}

void conductor_roof(const JudgeOptions *o, const char *file, const char *case_name, double seconds, double percent_of_copy, Str *out) {
    sketchc_options options = {.size = sizeof options, .target = o->target, .arch = o->arch, .target_file = o->target_file};
    sketchc_unit *unit = sketchc_unit_create("candidate.sketch", file, strlen(file));
    char *report = NULL, error[128];
    bool ok = unit && sketchc_predict(unit, &options, "json", &report) == SKETCHC_OK;
    Json *root = ok ? json_read(report, strlen(report), NULL, error) : NULL;
    const Json *one = find_case(root, case_name);
    if (seconds > 0) {
        str_printf(out, "Measured %.4g ms at %s", 1e3 * seconds, case_name);
        if (percent_of_copy > 0) str_printf(out, ", %.0f %% of the rate of a copy", percent_of_copy);
        str_append(out, ".\n");
    }
    if (one && json_get_bool(one, "known", false))
        tell_prediction(one, seconds, out);
    else
        str_printf(out, "The predicted time and the roof that binds are not known for %s.\n", o->arch ? o->arch : o->target);
    json_release(root);
    sketchc_free(report);
    sketchc_unit_destroy(unit);
}
