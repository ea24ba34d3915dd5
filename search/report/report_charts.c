/* The report's charts: axes with round steps, and what stands on them. Colours are classes of report.css. */
#include "report_internal.h"

#include <math.h>

/* Pixels of a chart and its margins; marks of an axis. */
enum { WIDTH = 640, HEIGHT = 300, LEFT = 64, RIGHT = 18, TOP = 18, BOTTOM = 46, MOST_STEPS = 8 };

typedef struct {
    double low, high;
    bool log;
    const char *name;
} Axis;

static double part(const Axis *a, double value) {
    double p = a->log ? (log(value) - log(a->low)) / (log(a->high) - log(a->low)) : (value - a->low) / (a->high - a->low);
    return p < 0 ? 0 : p > 1 ? 1 : p;
}

static double at_x(const Axis *a, double value) {
    return LEFT + part(a, value) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const Axis *a, double value) {
    return HEIGHT - BOTTOM - part(a, value) * (HEIGHT - TOP - BOTTOM);
}

/* 1, 2 or 5 times a power of ten, so that at most MOST_STEPS fit. */
static double step_of(double span) {
    static const double tens[] = {1, 2, 5, 10};
    double power = pow(10, floor(log10(span / MOST_STEPS)));
    for (size_t i = 0; i < COUNT_OF(tens); i++)
        if (span / (tens[i] * power) <= MOST_STEPS) return tens[i] * power;
    return 10 * power;
}

static size_t add_step(double *steps, size_t count, size_t most, double value, const Axis *a) {
    bool inside = value >= a->low * (1 - 1e-9) && value <= a->high * (1 + 1e-9);
    if (inside && count < most) steps[count++] = value == 0 ? 0 : value; /* no -0 */
    return count;
}

/* Round values on the axis: on a long logarithmic one powers of ten, on a shorter one 1, 2, 5, on a short one even steps. */
static size_t steps_of(const Axis *a, double *steps, size_t most) {
    size_t count = 0;
    if (!a->log || a->high / a->low < 4) {
        double step = step_of(a->high - a->low);
        /* NOLINTNEXTLINE(bugprone-float-loop-counter,*FloatLoopCounter): a mark more or less at an end is no fault */
        for (double v = ceil(a->low / step - 1e-9) * step; v <= a->high * (1 + 1e-9); v += step) count = add_step(steps, count, most, v, a);
        return count;
    }
    static const double tens[] = {1, 2, 5};
    double decades = log10(a->high / a->low), stride = ceil(decades / MOST_STEPS);
    size_t of_ten = decades < 3 ? 3 : 1;
    /* NOLINTNEXTLINE(bugprone-float-loop-counter,*FloatLoopCounter): whole numbers */
    for (double p = floor(log10(a->low)); p <= ceil(log10(a->high)); p += stride)
        for (size_t i = 0; i < of_ten; i++) count = add_step(steps, count, most, tens[i] * pow(10, p), a);
    return count;
}

static void put_axes(const Axis *x, const Axis *y, const char *label, Str *out) {
    double steps[32];
    str_printf(out, "<svg class=chart viewBox=\"0 0 %d %d\" role=img aria-label=\"%s\">\n", WIDTH, HEIGHT, label);
    size_t count = steps_of(y, steps, COUNT_OF(steps));
    for (size_t i = 0; i < count; i++) {
        double at = at_y(y, steps[i]);
        str_printf(out, "<path class=grid d=\"M%d %.1fH%d\"/><text class=end x=%d y=%.1f>%g</text>\n", LEFT, at, WIDTH - RIGHT, LEFT - 8,
                   at + 4, steps[i]);
    }
    count = steps_of(x, steps, COUNT_OF(steps));
    for (size_t i = 0; i < count; i++) {
        double at = at_x(x, steps[i]);
        str_printf(out, "<path class=grid d=\"M%.1f %dV%d\"/><text class=mid x=%.1f y=%d>%g</text>\n", at, TOP, HEIGHT - BOTTOM, at,
                   HEIGHT - BOTTOM + 17, steps[i]);
    }
    str_printf(out, "<path class=axis d=\"M%d %dV%dH%d\"/>", LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT);
    str_printf(out, "<text class=\"name mid\" x=%d y=%d>%s</text>", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x->name);
    str_printf(out, "<text class=\"name mid\" transform=\"translate(15 %d) rotate(-90)\">%s</text>\n", (TOP + HEIGHT - BOTTOM) / 2,
               y->name);
}

/* A horizontal line across the chart with its name above, at the right. */
static void put_level(const Axis *y, double value, const char *class, const char *name, Str *out) {
    double at = at_y(y, value);
    str_printf(out, "<path class=%s d=\"M%d %.1fH%d\"/><text class=\"end %s\" x=%d y=%.1f>%s</text>\n", class, LEFT, at, WIDTH - RIGHT,
               class, WIDTH - RIGHT - 4, at - 5 < TOP + 8 ? at + 14 : at - 5, name);
}

static void put_title(const ReportTrial *t, Str *out) {
    str_printf(out, "<title>%lld: ", (long long)t->number);
    report_put_text(t->source, out);
    str_append(out, ", ");
    report_put_result(t, out);
    str_printf(out, ", after %.1f s%s</title>", t->at, t->known ? ", from the store" : "");
}

static void put_dot(const ReportRun *run, const ReportTrial *t, double x, double y, Str *out) {
    bool winner = t == report_winner(run);
    if (report_ran(t))
        str_printf(out, "<circle class=\"%s\" cx=%.1f cy=%.1f r=%s>", winner ? "won" : "ran", x, y, winner ? "5.5" : "3.5");
    else
        str_printf(out, "<path class=failed d=\"M%.1f %.1fl7 7m0 -7l-7 7\">", x - 3.5, y - 3.5);
    put_title(t, out);
    str_append(out, report_ran(t) ? "</circle>\n" : "</path>\n");
}

/* Least and largest of what ran; false when nothing did. */
static bool extent_of(const ReportRun *run, double *low, double *high) {
    *low = INFINITY;
    *high = 0;
    for (size_t i = 0; i < run->trials.len; i++) {
        double s = run->trials.data[i].seconds;
        if (!report_ran(&run->trials.data[i])) continue;
        *low = fmin(*low, s);
        *high = fmax(*high, s);
    }
    return *high > 0;
}

static Axis candidates_axis(const ReportRun *run) {
    return (Axis){0, fmax(4, (double)run->trials.len + 1), false, "candidate, in the order they were taken"};
}

void report_curve(const ReportRun *run, Str *out) {
    double low, high, best = INFINITY;
    if (!extent_of(run, &low, &high)) {
        str_append(out, "<p>Nothing ran.</p>\n");
        return;
    }
    Axis x = candidates_axis(run), y = {low * 1e3 / 1.25, high * 1e3 * 1.25, true, "time, ms (logarithmic)"};
    put_axes(&x, &y, "time of the best candidate so far", out);
    Str line;
    str_init(&line);
    for (size_t i = 0; i < run->trials.len; i++) {
        const ReportTrial *t = &run->trials.data[i];
        if (!report_ran(t) || t->seconds >= best) continue;
        if (isinf(best))
            str_printf(&line, "M%.1f %.1f", at_x(&x, (double)t->number), at_y(&y, 1e3 * t->seconds));
        else
            str_printf(&line, "H%.1fV%.1f", at_x(&x, (double)t->number), at_y(&y, 1e3 * t->seconds));
        best = t->seconds;
    }
    str_printf(out, "<path class=best d=\"%sH%.1f\"/>\n", line.data, at_x(&x, (double)run->trials.len));
    str_release(&line);
    if (run->trials.len && report_ran(&run->trials.data[0])) put_level(&y, 1e3 * run->trials.data[0].seconds, "base", "naive", out);
    for (size_t i = 0; i < run->trials.len; i++) {
        const ReportTrial *t = &run->trials.data[i];
        put_dot(run, t, at_x(&x, (double)t->number), report_ran(t) ? at_y(&y, 1e3 * t->seconds) : TOP + 6, out);
    }
    str_append(out, "</svg>\n");
}

void report_bandwidth(const ReportRun *run, Str *out) {
    double low, high;
    if (run->bytes <= 0 || run->roof <= 0 || !extent_of(run, &low, &high)) {
        str_append(out, "<p>The roof of this device is not known.</p>\n");
        return;
    }
    char name[64];
    double scale = 1e-9 * run->bytes, top = fmax(1e-9 * run->roof, scale / low);
    Axis x = candidates_axis(run), y = {fmin(scale / high, 1e-9 * run->roof) / 1.4, top * 1.4, true, "memory, GB/s (logarithmic)"};
    put_axes(&x, &y, "bytes a second of each candidate, and the roof", out);
    snprintf(name, sizeof name, "roof: copying, %.3g GB/s", 1e-9 * run->roof);
    put_level(&y, 1e-9 * run->roof, "roof", name, out);
    for (size_t i = 0; i < run->trials.len; i++) {
        const ReportTrial *t = &run->trials.data[i];
        if (report_ran(t)) put_dot(run, t, at_x(&x, (double)t->number), at_y(&y, scale / t->seconds), out);
    }
    str_append(out, "</svg>\n");
}

/* ---- The roofline of all searches ---- */

static bool on_roofline(const ReportRun *r) {
    return r->flops > 0 && r->bytes > 0 && r->best > 0 && r->naive > 0;
}

static void put_roof(const Report *report, const Axis *x, const Axis *y, Str *out) {
    double done = 0; /* each roof once: devices differ, runs on one do not */
    for (size_t i = 0; i < report->runs.len; i++) {
        double roof = 1e-9 * report->runs.data[i].roof, from = x->low, to = x->high;
        if (!on_roofline(&report->runs.data[i]) || roof <= 0 || roof == done) continue;
        done = roof;
        from = fmax(from, y->low / roof);
        to = fmin(to, y->high / roof);
        str_printf(out, "<path class=roof d=\"M%.1f %.1fL%.1f %.1f\"/>", at_x(x, from), at_y(y, from * roof), at_x(x, to),
                   at_y(y, to * roof));
        /* Its name stands below the line, however steep that is. */
        double slope = (at_y(y, from * roof) - at_y(y, to * roof)) / (at_x(x, to) - at_x(x, from));
        str_printf(out, "<text class=\"roof end\" x=%.1f y=%.1f>memory, %.3g GB/s</text>\n", at_x(x, to) - 4,
                   fmin(at_y(y, to * roof) + 110 * slope + 16, HEIGHT - BOTTOM - 6), roof);
    }
}

void report_roofline(const Report *report, Str *out) {
    double low_x = INFINITY, high_x = 0, low_y = INFINITY, high_y = 0;
    for (size_t i = 0; i < report->runs.len; i++) {
        const ReportRun *r = &report->runs.data[i];
        if (!on_roofline(r)) continue;
        double intensity = r->flops / r->bytes, roof = 1e-9 * r->roof * intensity;
        low_x = fmin(low_x, intensity);
        high_x = fmax(high_x, intensity);
        low_y = fmin(low_y, 1e-9 * r->flops / r->naive);
        high_y = fmax(high_y, fmax(roof, 1e-9 * r->flops / r->best));
    }
    if (high_x <= 0) {
        str_append(out,
                   "<p>Not known: for none of these operators are floating-point operations counted; the bytes a second are below.</p>\n");
        return;
    }
    Axis x = {low_x / 4, high_x * 4, true, "operations for each byte of the tensors, flop/byte"},
         y = {low_y / 2, high_y * 4, true, "speed, Gflop/s"};
    put_axes(&x, &y, "roofline of all searches", out);
    put_roof(report, &x, &y, out);
    for (size_t i = 0; i < report->runs.len; i++) {
        const ReportRun *r = &report->runs.data[i];
        if (!on_roofline(r)) continue;
        double at = at_x(&x, r->flops / r->bytes), from = at_y(&y, 1e-9 * r->flops / r->naive), to = at_y(&y, 1e-9 * r->flops / r->best);
        str_printf(out, "<path class=gain d=\"M%.1f %.1fV%.1f\"/><circle class=ran cx=%.1f cy=%.1f r=3.5></circle>", at, from, to, at,
                   from);
        str_printf(out, "<circle class=won cx=%.1f cy=%.1f r=5.5><title>", at, to);
        report_put_text(r->operator_name, out);
        str_printf(out, ": %.3g Gflop/s, naive %.3g</title></circle><text class=label x=%.1f y=%.1f>", 1e-9 * r->flops / r->best,
                   1e-9 * r->flops / r->naive, at + 9, to + 4);
        report_put_text(r->operator_name, out);
        str_append(out, "</text>\n");
    }
    str_append(out, "</svg>\n");
}
