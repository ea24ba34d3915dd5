/* How long the kernels of a sketch should take, and what binds them, as a report. */
#include "api_internal.h"

#include <math.h>
#include <string.h>

/* ---- As text ---- */

/* Which style was taken for an operator without a sketch. */
static void put_choice_text(const DesignChoice *c, Str *out) {
    if (!c->style) return;
    str_printf(out, "designed in the style \"%s\"", c->style);
    if (c->seconds > 0) str_printf(out, ": %.4g ms predicted for all cases", c->seconds * 1e3);
    if (c->next) str_printf(out, "; next, \"%s\": %.4g ms", c->next, c->next_seconds * 1e3);
    str_append_char(out, '\n');
    if (c->rewrites) str_printf(out, "rewritten first: %s\n", c->rewrites);
}

/* Many accesses of one line conflict alike. */
static bool said_before(const sketchc_unit *unit, const CostLaunch *l, unsigned at) {
    for (unsigned i = 0; i < at; i++)
        if (l->conflicts[i].degree == l->conflicts[at].degree &&
            api_line_of(unit, l->conflicts[i].op->span) == api_line_of(unit, l->conflicts[at].op->span))
            return true;
    return false;
}

static void put_notes(const sketchc_unit *unit, const PredictedLaunch *p, Str *out) {
    const CostLaunch *l = &p->launch;
    if (p->rows_together > 1) str_printf(out, "; tiles in groups of %lld rows", (long long)p->rows_together);
    if (l->exceptions) str_append(out, "; left out: what an earlier launch flags as an exception");
    if (l->spilled > 0) str_printf(out, "; %.0f bytes of a thread have no registers and go to memory and back", l->spilled);
    for (unsigned i = 0; i < l->conflict_count; i++)
        if (!said_before(unit, l, i))
            str_printf(out, "; bank conflicts of degree %u at line %u", l->conflicts[i].degree,
                       api_line_of(unit, l->conflicts[i].op->span));
}

static void put_case_text(const sketchc_unit *unit, const Prediction *p, const char *name, Str *out) {
    if (!p->known) {
        str_printf(out, "%s: not known\n", name);
        return;
    }
    str_printf(out, "%s: %.4g ms predicted, %.0f %% of the floor (%.4g ms)\n", name, p->seconds * 1e3, p->percent, p->floor_s * 1e3);
    for (size_t i = 0; i < p->launches.len; i++) {
        const PredictedLaunch *l = &p->launches.data[i];
        str_printf(out, "  %s: %.4g ms, ", l->kernel->name, l->estimate.seconds * 1e3);
        cost_explain(&l->estimate, l->floor_s, out);
        put_notes(unit, l, out);
        str_append_char(out, '\n');
    }
    api_region_times(unit, p, out);
}

/* ---- As JSON ---- */

static void put_choice_json(const DesignChoice *c, Str *out) {
    if (!c->style) return;
    str_printf(out, ",\"design\":{\"style\":\"%s\",\"seconds\":%.9g", c->style, c->seconds);
    if (c->next) str_printf(out, ",\"next\":\"%s\",\"next_seconds\":%.9g", c->next, c->next_seconds);
    if (c->rewrites) str_printf(out, ",\"rewrites\":\"%s\"", c->rewrites);
    str_append_char(out, '}');
}

static void put_launch_json(const sketchc_unit *unit, const PredictedLaunch *p, Str *out) {
    const CostLaunch *l = &p->launch;
    const CostEstimate *e = &p->estimate;
    str_printf(out, "{\"entry\":\"%s\",\"seconds\":%.9g,\"roof\":\"%s\"", p->kernel->name, isfinite(e->seconds) ? e->seconds : -1,
               cost_roof_name(e->roof));
    str_printf(out, ",\"read\":%.0f,\"written\":%.0f,\"l2\":%.0f,\"shared\":%.0f,\"instructions\":%.0f", l->read, l->written, l->l2,
               l->shared, l->instructions);
    str_printf(out, ",\"blocks\":%.0f,\"threads\":%lld,\"shared_bytes\":%lld,\"blocks_per_sm\":%lld,\"limit\":\"%s\"", l->blocks,
               (long long)l->threads, (long long)l->shared_bytes, (long long)e->blocks_per_sm, e->limit);
    str_printf(out, ",\"spilled\":%.0f,\"exceptions\":%u,\"unchecked\":%u,\"shared_least\":%.0f,\"conflicts\":[", l->spilled, l->exceptions,
               l->unchecked, l->shared_least);
    for (unsigned i = 0; i < l->conflict_count; i++)
        str_printf(out, "%s{\"op\":\"%s\",\"line\":%u,\"degree\":%u,\"bytes\":%.0f}", i ? "," : "",
                   ir_op_info(l->conflicts[i].op->opcode)->name, api_line_of(unit, l->conflicts[i].op->span), l->conflicts[i].degree,
                   l->conflicts[i].bytes);
    str_append(out, "]");
    str_printf(out, ",\"waves\":%.3f,\"bytes_in_flight\":%.0f,\"bytes_needed\":%.0f,\"text\":", e->waves, e->bytes_in_flight,
               e->bytes_needed);
    Str text;
    str_init(&text);
    cost_explain(e, p->floor_s, &text);
    str_append_json(out, text.data);
    str_release(&text);
    str_append_char(out, '}');
}

static void put_case_json(const sketchc_unit *unit, const Prediction *p, const char *name, Str *out) {
    str_append(out, "\n{\"name\":");
    str_append_json(out, name);
    str_printf(out, ",\"known\":%s,\"seconds\":%.9g,\"floor_s\":%.9g,\"percent\":%.2f,\"launches\":[", p->known ? "true" : "false",
               p->known ? p->seconds : 0, p->floor_s, p->percent);
    for (size_t i = 0; p->known && i < p->launches.len; i++) {
        if (i) str_append_char(out, ',');
        put_launch_json(unit, &p->launches.data[i], out);
    }
    str_append(out, "]}");
}

static void put_buffers_json(const Buffers *buffers, Str *out) {
    str_append(out, "],\"buffers\":[");
    for (size_t i = 0; i < buffers->len; i++) {
        const Buffer *b = &buffers->data[i];
        str_printf(out, "%s\n{\"entry\":\"%s\",\"name\":", i ? "," : "", b->kernel);
        str_append_json(out, b->name);
        str_printf(out, ",\"stages\":%u,\"stage_bytes\":%lld}", b->stages, (long long)b->stage_bytes);
    }
    str_append(out, "]}\n");
}

/* The ceilings that everything is predicted from, a second. */
static void put_machine_json(const CostMachine *m, Str *out) {
    str_printf(out, ",\"machine\":{\"copy\":%.9g,\"read\":%.9g,\"fill\":%.9g,\"l2\":%.9g", m->copy, m->read, m->fill, m->l2);
    str_printf(out, ",\"products\":%.9g,\"instructions\":%.9g,\"launch\":%.9g}", m->products, m->issue, m->launch);
}

static void put_report(const sketchc_unit *unit, IrModule *m, const Target *target, const Buffers *buffers, Arena *arena, bool json,
                       Str *out) {
    CostMachine machine;
    bool known = cost_machine(target, &machine);
    if (!json) put_choice_text(&unit->choice, out), api_regions_text(unit, out);
    if (json) {
        str_printf(out, "{\"format\":1,\"kind\":\"prediction\",\"arch\":\"%s\"", target->name);
        put_choice_json(&unit->choice, out);
        if (known) put_machine_json(&machine, out);
        if (unit->regions.len) api_regions_json(unit, out);
        str_append(out, ",\"cases\":[");
    } else if (!known)
        str_printf(out,
                   "%s: the ceilings of this target are not known, so nothing is predicted: `sketchc calibrate -t %s` measures this "
                   "machine's, and "
                   "`sketchc bench` then says what part of them a kernel reaches\n",
                   target->name, target->kind == TARGET_CPU ? "openmp" : "nvptx");
    for (size_t i = 0; known && i < m->case_count; i++) {
        Prediction p;
        api_predict_case(m, &machine, target, &m->cases[i], arena, &p);
        if (json && i) str_append_char(out, ',');
        (json ? put_case_json : put_case_text)(unit, &p, m->cases[i].name, out);
    }
    if (json) put_buffers_json(buffers, out);
}

static void predict(sketchc_unit *unit, const sketchc_options *options, bool json, Str *out) {
    static const sketchc_options none = {.size = sizeof none};
    Compile c;
    if (!options) options = &none;
    if (!api_check_with_sketch(unit, options) || !api_target(unit, options, NULL, &c)) return;
    IrModule *module = api_build(unit);
    if (!module) return;
    api_keep_level(module, IR_LEVEL_TILE);
    if (!module->first) {
        api_report_no_sketch(unit);
        return;
    }
    Buffers buffers = {0};
    if (json) api_buffers(unit, &c, &buffers);
    if (api_lower(unit, &c, module)) put_report(unit, module, c.target, &buffers, unit->arena, json, out);
}

typedef struct {
    sketchc_unit *unit;
    const sketchc_options *options;
    bool json;
    char **report;
} Predict;

static void predict_call(void *call) {
    Predict *p = call;
    Str out;
    str_init(&out);
    predict(p->unit, p->options, p->json, &out);
    if (api_status(p->unit) == SKETCHC_OK) *p->report = api_string(&out);
    str_release(&out);
}

sketchc_status sketchc_predict(sketchc_unit *unit, const sketchc_options *options, const char *format, char **report) {
    Predict p = {unit, options, format && strcmp(format, "json") == 0, report};
    *report = NULL;
    return api_call(unit, predict_call, &p) ? api_status(unit) : SKETCHC_OUT_OF_MEMORY;
}
