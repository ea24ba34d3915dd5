/* How long the kernels of a sketch should take, and what binds them. */
#include "api_internal.h"

#include "cost_kernel.h"

#include <math.h>
#include <setjmp.h>
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
        if (p->kind != IR_PARAM_SYMBOL || !p->derived || strcmp(p->name, name) != 0 ||
            s->depth == MOST_DERIVED)
            continue;
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
        if (f->level != IR_LEVEL_KERNEL || ir_func_attr_int(f, "step", 0) != step) continue;
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

typedef struct {
    Str *out;
    bool json, any;
    double seconds;
} Report;

static void put_launch(Report *r, const IrFunc *f, const CostLaunch *l, const CostEstimate *e,
                       double floor_s) {
    r->seconds += e->seconds;
    if (!r->json) {
        str_printf(r->out, "  %s: %.4g ms, ", f->name, e->seconds * 1e3);
        cost_explain(e, floor_s, r->out);
        str_append_char(r->out, '\n');
        return;
    }
    str_printf(r->out, "%s{\"entry\":\"%s\",\"seconds\":%.9g,\"roof\":\"%s\"", r->any ? "," : "",
               f->name, isfinite(e->seconds) ? e->seconds : -1, cost_roof_name(e->roof));
    str_printf(r->out,
               ",\"read\":%.0f,\"written\":%.0f,\"l2\":%.0f,\"shared\":%.0f,\"instructions\":%.0f",
               l->read, l->written, l->l2, l->shared, l->instructions);
    str_printf(r->out,
               ",\"blocks\":%.0f,\"threads\":%lld,\"blocks_per_sm\":%lld,\"waves\":%.3f,\"bytes_in_"
               "flight\":%.0f,\"bytes_needed\":%.0f,\"text\":",
               l->blocks, (long long)l->threads, (long long)e->blocks_per_sm, e->waves,
               e->bytes_in_flight, e->bytes_needed);
    Str text;
    str_init(&text);
    cost_explain(e, floor_s, &text);
    str_append_json(r->out, text.data);
    str_release(&text);
    str_append_char(r->out, '}');
    r->any = true;
}

static int64_t last_step(const IrModule *m) {
    int64_t last = -1;
    for (const IrFunc *f = m->first; f; f = f->next)
        if (f->level == IR_LEVEL_KERNEL && ir_func_attr_int(f, "step", 0) > last)
            last = ir_func_attr_int(f, "step", 0);
    return last;
}

/* The launches of one case into `lines`; false: something needs a value that is not known. */
static bool predict_case(IrModule *m, const CostMachine *machine, Sizes *s, Report *r,
                         double *floor_s) {
    for (int64_t step = 0; step <= last_step(m); step++) {
        IrFunc *f = chosen(m, step, s);
        if (!f) continue; /* a step without code: memory that is set */
        *floor_s = floor_of(machine, f, s);
        CostLaunch launch;
        if (!cost_kernel(machine, f, symbol_value, s, &launch)) return false;
        CostEstimate e = cost_estimate(machine, &launch);
        put_launch(r, f, &launch, &e, cost_floor(machine, launch.read, launch.written));
    }
    return true;
}

static void put_case(IrModule *m, const CostMachine *machine, const Target *target,
                     const IrCase *sizes, bool json, bool first, Str *out) {
    Str lines;
    str_init(&lines);
    Sizes s = {.sizes = sizes, .target = target};
    Report r = {.out = &lines, .json = json};
    double floor_s = 0;
    bool known = predict_case(m, machine, &s, &r, &floor_s) && r.seconds > 0 && isfinite(r.seconds);
    double percent = known ? 100 * floor_s / r.seconds : 0;
    if (json) {
        str_printf(out, "%s\n{\"name\":", first ? "" : ",");
        str_append_json(out, sizes->name);
        str_printf(
            out,
            ",\"known\":%s,\"seconds\":%.9g,\"floor_s\":%.9g,\"percent\":%.2f,\"launches\":[%s]}",
            known ? "true" : "false", known ? r.seconds : 0, floor_s, percent,
            known ? lines.data : "");
    } else if (known) {
        str_printf(out, "%s: %.4g ms predicted, %.0f %% of the floor (%.4g ms)\n%s", sizes->name,
                   r.seconds * 1e3, percent, floor_s * 1e3, lines.data);
    } else {
        str_printf(out, "%s: not known\n", sizes->name);
    }
    str_release(&lines);
}

static void put_report(IrModule *m, const Target *target, bool json, Str *out) {
    CostMachine machine;
    bool known = cost_machine(target, &machine);
    if (json)
        str_printf(out, "{\"format\":1,\"kind\":\"prediction\",\"arch\":\"%s\",\"cases\":[",
                   target->name);
    else if (!known)
        str_printf(out, "%s: the ceilings of this target are not known\n", target->name);
    for (size_t i = 0; known && i < m->case_count; i++)
        put_case(m, &machine, target, &m->cases[i], json, i == 0, out);
    if (json) str_append(out, "]}\n");
}

static void predict(sketchc_unit *unit, const sketchc_options *options, bool json, Str *out) {
    static const sketchc_options none = {.size = sizeof none};
    Compile c;
    if (!api_target(unit, options, NULL, &c) || !api_check(unit, options ? options : &none)) return;
    IrModule *module = api_build(unit);
    if (!module) return;
    api_keep_level(module, IR_LEVEL_TILE);
    if (api_lower(unit, &c, module)) put_report(module, c.target, json, out);
}

sketchc_status sketchc_predict(sketchc_unit *unit, const sketchc_options *options,
                               const char *format, char **report) {
    Str out;
    jmp_buf oom;
    *report = NULL;
    if (!api_begin(unit)) return SKETCHC_BUG;
    if (setjmp(oom)) return SKETCHC_BUG;
    arena_set_oom_target(unit->arena, &oom);
    str_init(&out);
    predict(unit, options, format && strcmp(format, "json") == 0, &out);
    arena_set_oom_target(unit->arena, NULL);
    sketchc_status status = api_status(unit);
    if (status == SKETCHC_OK) *report = api_string(&out);
    str_release(&out);
    return status;
}
