/* How long the kernels of a sketch should take, and what binds them. */
#include "api_internal.h"

#include "cost_kernel.h"

#include <math.h>
#include <string.h>

typedef struct {
    const IrCase *sizes;
    const IrFunc *f;
    const Target *target;
    unsigned depth;
} Sizes;

enum { MOST_DERIVED = 16 };

static bool symbol_leaf(void *ctx, const Aff *leaf, int64_t *value);

/* From the case, else computed from the others. */
static bool symbol_value(void *ctx, const char *name, int64_t *value) {
    Sizes *s = ctx;
    for (size_t i = 0; i < s->sizes->symbol_count; i++)
        if (strcmp(s->sizes->symbols[i], name) == 0) {
            *value = s->sizes->values[i];
            return true;
        }
    if (strcmp(name, "num_sms") == 0 || strcmp(name, "num_cores") == 0) {
        *value = s->target->sms;
        return true;
    }
    for (unsigned i = 0; s->f && i < s->f->param_count; i++) {
        const IrParam *p = &s->f->params[i];
        if (p->kind != IR_PARAM_SYMBOL || !p->derived || strcmp(p->name, name) != 0 || s->depth == MOST_DERIVED) continue;
        s->depth++;
        bool ok = aff_eval(p->derived, symbol_leaf, s, value);
        s->depth--;
        return ok;
    }
    return false;
}

static bool symbol_leaf(void *ctx, const Aff *leaf, int64_t *value) {
    return leaf->kind == AFF_SYM && symbol_value(ctx, leaf->name, value);
}

/* The first version of a step whose guard holds. */
static IrFunc *chosen(IrModule *m, int64_t step, Sizes *s) {
    for (IrFunc *f = m->first; f; f = f->next) {
        int64_t value = 1;
        if (f->level != IR_LEVEL_KERNEL || ir_func_int(f, IR_FN_STEP, 0) != step) continue;
        s->f = f;
        if (f->guard && (!aff_eval(f->guard, symbol_leaf, s, &value) || value <= 0)) continue;
        return f;
    }
    return NULL;
}

/* Each tensor moved once: the case's floor. */
static double floor_of(const CostMachine *machine, const IrFunc *f, Sizes *s) {
    double read = 0, written = 0;
    for (unsigned i = 0; f && i < f->param_count; i++) {
        const IrParam *p = &f->params[i];
        if (p->kind != IR_PARAM_TENSOR || !p->type) continue;
        double bytes = (double)dtype_size(p->type->dtype);
        for (unsigned d = 0; d < p->type->rank; d++) {
            int64_t extent = 0;
            aff_eval(p->type->extents[d], symbol_leaf, s, &extent);
            bytes *= (double)extent;
        }
        if (p->direction & IR_DIR_IN) read += bytes;
        if (p->direction & IR_DIR_OUT) written += bytes;
    }
    return cost_floor(machine, read, written);
}

static int64_t last_step(const IrModule *m) {
    int64_t last = -1;
    for (const IrFunc *f = m->first; f; f = f->next)
        if (f->level == IR_LEVEL_KERNEL && ir_func_int(f, IR_FN_STEP, 0) > last) last = ir_func_int(f, IR_FN_STEP, 0);
    return last;
}

static bool add_launch(const CostMachine *machine, IrFunc *f, Sizes *s, bool flagged, Arena *arena, Prediction *p) {
    PredictedLaunch l = {.kernel = f};
    const Aff *order = ir_func_aff(f, IR_FN_ORDER);
    if (order) aff_eval(order, symbol_leaf, s, &l.rows_together);
    if (!cost_kernel(machine, f, symbol_value, s, flagged, &l.launch)) return false;
    if (l.launch.blocks <= 0) return true; /* not launched at all */
    l.estimate = cost_estimate(machine, &l.launch);
    l.floor_s = cost_floor(machine, l.launch.read, l.launch.written);
    p->seconds += l.estimate.seconds;
    VEC_PUSH(arena, &p->launches, l);
    return true;
}

static void predict_launches(IrModule *m, const CostMachine *machine, const Target *target, const IrCase *sizes, bool flagged, Arena *arena,
                             Prediction *p) {
    Sizes s = {.sizes = sizes, .target = target};
    *p = (Prediction){.known = true};
    for (int64_t step = 0; step <= last_step(m) && p->known; step++) {
        IrFunc *f = chosen(m, step, &s);
        if (!f) continue; /* a step without code: memory that is set */
        p->floor_s = floor_of(machine, f, &s);
        p->known = add_launch(machine, f, &s, flagged, arena, p);
    }
    if (!p->launches.len) p->seconds = machine->launch;
    p->known = p->known && p->seconds > 0 && isfinite(p->seconds);
    p->percent = p->known ? 100 * p->floor_s / p->seconds : 0;
}

/* Work behind flags without which not even the tensors are moved is no exception. */
void api_predict_case(IrModule *m, const CostMachine *machine, const Target *target, const IrCase *sizes, Arena *arena, Prediction *p) {
    predict_launches(m, machine, target, sizes, false, arena, p);
    bool left_out = false;
    for (size_t i = 0; i < p->launches.len; i++) left_out |= p->launches.data[i].launch.exceptions > 0;
    if (left_out && p->known && p->seconds < p->floor_s) predict_launches(m, machine, target, sizes, true, arena, p);
}

void api_predict_cases(IrModule *m, const Target *target, Arena *arena, DesignTrial *trial) {
    CostMachine machine;
    bool known = m->case_count && cost_machine(target, &machine);
    trial->seconds = trial->floor_s = 0;
    for (size_t i = 0; i < m->case_count && known; i++) {
        Prediction p;
        api_predict_case(m, &machine, target, &m->cases[i], arena, &p);
        known = p.known;
        trial->seconds += p.seconds;
        trial->floor_s += p.floor_s;
    }
    if (!known) trial->seconds = -1;
}

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
    str_printf(out, ",\"exceptions\":%u,\"unchecked\":%u,\"shared_least\":%.0f,\"conflicts\":[", l->exceptions, l->unchecked,
               l->shared_least);
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

static void put_report(const sketchc_unit *unit, IrModule *m, const Target *target, const Buffers *buffers, Arena *arena, bool json,
                       Str *out) {
    CostMachine machine;
    bool known = cost_machine(target, &machine);
    if (!json) put_choice_text(&unit->choice, out);
    if (json) {
        str_printf(out, "{\"format\":1,\"kind\":\"prediction\",\"arch\":\"%s\"", target->name);
        put_choice_json(&unit->choice, out);
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
