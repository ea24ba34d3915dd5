/* report.h: the winner of a search at all declared cases. */
#include "report_internal.h"

MetricsRobustness report_robustness(const ReportRun *run, Arena *arena, bool of_roof) {
    double *efficiencies = ARENA_ARRAY(arena, double, run->shapes.len + 1);
    for (size_t i = 0; i < run->shapes.len; i++) {
        const ReportShape *s = &run->shapes.data[i];
        efficiencies[i] = of_roof ? s->percent : metrics_speedup(s->naive, s->seconds);
    }
    return metrics_robustness(efficiencies, run->shapes.len);
}

static void put_robustness(const MetricsRobustness *r, const char *unit, Str *out) {
    if (r->covered > 0)
        str_printf(out,
                   "%.3g%s in the geometric mean, %.3g%s at the worst size, which is %.2g of the best one; %.0f %% of the cases ran.</p>\n",
                   r->mean, unit, r->least, unit, r->worst_of_best, 100 * r->covered);
    else
        str_append(out, "not known.</p>\n");
}

static void put_row(const ReportShape *s, Str *out) {
    str_append(out, "<tr><td>");
    report_put_text(s->case_name, out);
    str_append(out, "<td>");
    report_put_text(s->sizes, out);
    double times[] = {s->naive, s->seconds};
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        str_append(out, "<td class=number>");
        report_put_time(times[i], out);
    }
    double speedup = metrics_speedup(s->naive, s->seconds);
    if (speedup > 0)
        str_printf(out, "<td class=number>%.2f&times;", speedup);
    else
        str_append(out, "<td class=number>not known");
    if (s->percent > 0)
        str_printf(out, "<td class=number>%.3g %%\n", s->percent);
    else
        str_append(out, "<td class=number>not known\n");
}

void report_shapes(const ReportRun *run, Arena *arena, Str *out) {
    MetricsRobustness speedups = report_robustness(run, arena, false), roof = report_robustness(run, arena, true);
    bool timed = false;
    for (size_t i = 0; i < run->shapes.len; i++) timed |= run->shapes.data[i].seconds > 0;
    if (!timed) {
        str_append(out, "<p>Not timed at several sizes.</p>\n");
        return;
    }
    str_append(out,
               "<div class=scroll><table><thead><tr><th>case<th>sizes<th class=number>naive<th class=number>winner<th class=number>speedup"
               "<th class=number>of the roof</thead><tbody>\n");
    for (size_t i = 0; i < run->shapes.len; i++) put_row(&run->shapes.data[i], out);
    str_append(out, "</tbody></table></div>\n<p>Robustness, over naive: ");
    put_robustness(&speedups, "&times;", out);
    str_append(out, "<p>Robustness, of the roof: ");
    put_robustness(&roof, " %", out);
}
