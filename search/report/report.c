/* report.h: reads the store and writes the page. Everything that comes from the store is text of strangers and escaped. */
#include "report_internal.h"

#include "conductor.h"
#include "html.h"
#include "report_style.h"

#include <math.h>
#include <string.h>

bool report_ran(const ReportTrial *t) {
    return t->seconds > 0 && strcmp(t->status, "ok") == 0;
}

const ReportTrial *report_winner(const ReportRun *run) {
    for (size_t i = 0; i < run->trials.len; i++)
        if (*run->winner && strcmp(run->trials.data[i].hash, run->winner) == 0) return &run->trials.data[i];
    return NULL;
}

void report_put_text(const char *text, Str *out) {
    str_append_html(out, text, strlen(text));
}

void report_put_result(const ReportTrial *t, Str *out) {
    if (report_ran(t))
        report_put_time(t->seconds, out);
    else
        report_put_text(t->status, out);
}

void report_put_time(double seconds, Str *out) {
    if (!(seconds > 0))
        str_append(out, "not known");
    else if (seconds < 1e-3)
        str_printf(out, "%.4g &micro;s", 1e6 * seconds);
    else if (seconds < 1)
        str_printf(out, "%.4g ms", 1e3 * seconds);
    else
        str_printf(out, "%.4g s", seconds);
}

/* ---- Reading ---- */

typedef struct {
    Report *report;
    Arena *arena;
} Reader;

static const char *text_of(const Reader *r, const StoreRow *row, const char *column) {
    return arena_strdup(r->arena, store_text(row, column));
}

static void read_run(void *context, const StoreRow *row) {
    const Reader *r = context;
    ReportRun run = {.id = store_integer(row, "run"),
                     .elapsed = store_number(row, "elapsed"),
                     .naive = store_number(row, "naive_seconds"),
                     .best = store_number(row, "best_seconds"),
                     .bytes = store_number(row, "bytes"),
                     .flops = store_number(row, "flops"),
                     .roof = store_number(row, "roof_bytes"),
                     .tried = store_integer(row, "tried"),
                     .repeated = store_integer(row, "repeated"),
                     .complete = store_integer(row, "verified") != 0};
    const struct {
        const char **to, *column;
    } texts[] = {{&run.operator_name, "operator"},
                 {&run.definition, "definition_hash"},
                 {&run.target, "target"},
                 {&run.arch, "arch"},
                 {&run.device, "device"},
                 {&run.case_name, "case"},
                 {&run.sizes, "sizes"},
                 {&run.strategy, "strategy"},
                 {&run.seed, "seed"},
                 {&run.began, "began"},
                 {&run.ended, "ended"},
                 {&run.winner, "winner"}};
    for (size_t i = 0; i < COUNT_OF(texts); i++) *texts[i].to = text_of(r, row, texts[i].column);
    VEC_PUSH(r->arena, &r->report->runs, run);
}

static ReportRun *run_of(Report *report, int64_t id) {
    for (size_t i = 0; i < report->runs.len; i++)
        if (report->runs.data[i].id == id) return &report->runs.data[i];
    return NULL;
}

static void read_trial(void *context, const StoreRow *row) {
    const Reader *r = context;
    ReportRun *run = run_of(r->report, store_integer(row, "run"));
    ReportTrial t = {.run = store_integer(row, "run"),
                     .number = store_integer(row, "number"),
                     .hash = text_of(r, row, "hash"),
                     .parent = text_of(r, row, "parent"),
                     .source = text_of(r, row, "source"),
                     .status = text_of(r, row, "status"),
                     .sketch = text_of(r, row, "sketch"),
                     .seconds = store_number(row, "seconds"),
                     .at = store_number(row, "at"),
                     .percent = store_number(row, "percent_of_roof"),
                     .complete = store_integer(row, "verified") != 0,
                     .known = store_integer(row, "known") != 0};
    if (run) VEC_PUSH(r->arena, &run->trials, t);
}

static void read_shape(void *context, const StoreRow *row) {
    const Reader *r = context;
    ReportRun *run = run_of(r->report, store_integer(row, "run"));
    ReportShape shape = {.case_name = text_of(r, row, "case"),
                         .sizes = text_of(r, row, "sizes"),
                         .seconds = store_number(row, "seconds"),
                         .naive = store_number(row, "naive_seconds"),
                         .percent = store_number(row, "percent_of_roof")};
    if (run) VEC_PUSH(r->arena, &run->shapes, shape);
}

static void read_call(void *context, const StoreRow *row) {
    const Reader *r = context;
    report_note_answer(r->report, row);
    ReportRun *run = run_of(r->report, store_integer(row, "run"));
    MetricsUse *uses[] = {&r->report->use, run ? &run->use : NULL};
    for (size_t i = 0; i < COUNT_OF(uses); i++)
        if (uses[i])
            metrics_add_call(uses[i], store_number(row, "tokens_in"), store_number(row, "tokens_out"), store_number(row, "tokens_cached"),
                             store_number(row, "cost"));
}

/* ---- Parts of the page ---- */

static void put_ratio(double value, const char *unit, Str *out) {
    if (value > 0)
        str_printf(out, "%.2f%s", value, unit);
    else
        str_append(out, "not known");
}

static void put_tile(const char *name, Str *out) {
    str_printf(out, "</b><span>%s</span></div>\n", name);
}

static void put_count_tile(double count, const char *name, Str *out) {
    str_printf(out, "<div><b>%.0f", count);
    put_tile(name, out);
}

static void put_use(const MetricsUse *use, Str *out) {
    if (!use->calls) {
        str_append(out, "<p>No model was asked: no tokens, no cost.</p>\n");
        return;
    }
    str_printf(out, "<p>%zu calls; tokens %.0f in (%.0f cached), %.0f out", use->calls, use->tokens_in, use->tokens_cached,
               use->tokens_out);
    if (use->without_tokens) str_printf(out, " (of %zu calls not known)", use->without_tokens);
    if (use->without_cost == use->calls)
        str_append(out, "; cost not known");
    else
        str_printf(out, "; cost %.6g", use->cost);
    if (use->without_cost && use->without_cost < use->calls) str_printf(out, " (of %zu calls not known)", use->without_cost);
    str_append(out, ".</p>\n");
}

static bool same_task(const ReportRun *a, const ReportRun *b) {
    return strcmp(a->definition, b->definition) == 0 && strcmp(a->target, b->target) == 0 && strcmp(a->device, b->device) == 0;
}

/* Of an operator on a device the search with the fastest verified winner counts, or the first where there is none. */
static bool counts(const Report *report, size_t at) {
    const ReportRun *own = &report->runs.data[at];
    for (size_t i = 0; i < report->runs.len; i++) {
        const ReportRun *r = &report->runs.data[i];
        if (i == at || !same_task(own, r)) continue;
        bool better = r->complete && (!own->complete || r->best < own->best);
        bool equal = r->complete == own->complete && (!r->complete || r->best == own->best);
        if (better || (equal && i < at)) return false;
    }
    return true;
}

static void put_overview(const Report *report, Str *out) {
    size_t count = 0, verified = 0, trials = 0;
    double *speedups = ARENA_ARRAY(report->arena, double, report->runs.len + 1);
    for (size_t i = 0; i < report->runs.len; i++) {
        const ReportRun *r = &report->runs.data[i];
        trials += r->trials.len;
        if (!counts(report, i)) continue;
        speedups[count++] = r->complete ? metrics_speedup(r->naive, r->best) : NAN;
        verified += r->complete;
    }
    str_append(out, "<div class=tiles>\n");
    put_count_tile((double)report->runs.len, "searches", out);
    put_count_tile((double)count, "operators, each on a device", out);
    put_count_tile((double)verified, "of them with a winner verified in all cases", out);
    put_count_tile((double)trials, "candidates judged", out);
    str_append(out, "<div><b>");
    put_ratio(metrics_geometric_mean(speedups, count), "&times;", out);
    put_tile("geometric mean of the winners over naive", out);
    static const double levels[] = {1, 1.5, 2};
    for (size_t i = 0; i < COUNT_OF(levels); i++) {
        double fast = metrics_fast(speedups, count, levels[i]);
        str_printf(out, "<div><b>%.0f %%</b><span>fast<sub>%g</sub>: at least %g times naive</span></div>\n",
                   100 * (isnan(fast) ? 0 : fast), levels[i], levels[i]);
    }
    str_append(out, "</div>\n");
    put_use(&report->use, out);
}

static void put_index(const Report *report, Str *out) {
    str_append(out, "<div class=\"pane wide\"><h3>Searches</h3><div class=scroll><table><thead><tr><th>operator<th>target, device"
                    "<th>case<th class=number>naive<th class=number>best<th class=number>speedup<th class=number>at the worst size"
                    "<th class=number>candidates<th>verified</thead><tbody>\n");
    for (size_t i = 0; i < report->runs.len; i++) {
        const ReportRun *r = &report->runs.data[i];
        str_printf(out, "<tr><td><a href=\"#run%lld\">", (long long)r->id);
        report_put_text(*r->operator_name ? r->operator_name : "(no name)", out);
        str_append(out, "</a><td>");
        report_put_text(r->target, out);
        str_append(out, ", ");
        report_put_text(r->device, out);
        str_append(out, "<td>");
        report_put_text(r->case_name, out);
        str_append(out, "<td class=number>");
        report_put_time(r->naive, out);
        str_append(out, "<td class=number>");
        report_put_time(r->best, out);
        str_append(out, "<td class=number>");
        put_ratio(metrics_speedup(r->naive, r->best), "&times;", out);
        str_append(out, "<td class=number>");
        put_ratio(report_robustness(r, report->arena, false).least, "&times;", out);
        str_printf(out, "<td class=number>%zu<td>%s\n", r->trials.len, r->complete ? "all cases" : *r->ended ? "no" : "not ended");
    }
    str_append(out, "</tbody></table></div></div>\n");
}

static void put_failures(const ReportRun *run, Str *out) {
    size_t counts[FAILURE_COUNT] = {0}, most = 0;
    for (size_t i = 0; i < run->trials.len; i++) {
        FailureKind kind = failure_of_result(run->trials.data[i].status);
        if (kind && ++counts[kind] > most) most = counts[kind];
    }
    if (!most) {
        str_append(out, "<p>None failed.</p>\n");
        return;
    }
    str_append(out, "<table>\n");
    for (FailureKind kind = FAILURE_NONE + 1; kind < FAILURE_COUNT; kind++)
        if (counts[kind])
            str_printf(out, "<tr><td>%s<td class=number>%zu<td style=\"width:60%%\"><span class=bar style=\"width:%.0f%%\"></span>\n",
                       failure_name(kind), counts[kind], 100.0 * (double)counts[kind] / (double)most);
    str_append(out, "</table>\n");
}

static void put_candidates(const ReportRun *run, Str *out) {
    double naive = run->trials.len ? run->trials.data[0].seconds : 0;
    str_append(out, "<div class=scroll><table><thead><tr><th class=number>no.<th>made by<th>result<th class=number>time"
                    "<th class=number>over naive<th class=number>of the roof<th class=number>after<th>hash</thead><tbody>\n");
    for (size_t i = 0; i < run->trials.len; i++) {
        const ReportTrial *t = &run->trials.data[i];
        str_printf(out, "<tr class=%s><td class=number>%lld<td>",
                   t == report_winner(run) ? "won"
                   : report_ran(t)         ? "ran"
                                           : "lost",
                   (long long)t->number);
        report_put_text(t->source, out);
        str_append(out, "<td>");
        report_put_text(!report_ran(t) ? t->status : t->complete ? "verified" : "right at small cases", out);
        str_append(out, t->known ? ", from the store<td class=number>" : "<td class=number>");
        if (report_ran(t)) report_put_time(t->seconds, out);
        str_append(out, "<td class=number>");
        if (report_ran(t)) put_ratio(metrics_speedup(naive, t->seconds), "&times;", out);
        str_append(out, "<td class=number>");
        if (report_ran(t)) put_ratio(t->percent, " %", out);
        str_printf(out, "<td class=number>%.1f s<td><code>", t->at);
        str_append_html(out, t->hash, strnlen(t->hash, 8));
        str_append(out, "</code>\n");
    }
    str_append(out, "</tbody></table></div>\n");
}

#define KEY "<p class=key><span><i style=\"background:var(--won)\"></i>winner</span><span><i style=\"background:var(--ran)\"></i>ran</span>"
static const char key[] = KEY "</p>\n", key_with_failed[] = KEY "<span><i style=\"background:var(--failed)\"></i>failed</span></p>\n";

static void put_pane(const char *class, const char *title, Str *out) {
    str_printf(out, "<section class=\"pane %s\"><h3>%s</h3>\n", class, title);
}

static void put_heading(const ReportRun *r, Str *out) {
    str_printf(out, "<h2 id=run%lld>", (long long)r->id);
    report_put_text(*r->operator_name ? r->operator_name : "(no name)", out);
    str_append(out, "</h2><p class=faint>");
    const char *parts[] = {r->target, r->arch, r->device, r->case_name, r->sizes, r->strategy};
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        if (!*parts[i]) continue;
        report_put_text(parts[i], out);
        str_append(out, " &middot; ");
    }
    str_append(out, "seed ");
    report_put_text(r->seed, out);
    str_append(out, " &middot; ");
    report_put_text(r->began, out);
    str_append(out, "</p><p>");
    if (*r->ended) {
        str_append(out, "Measured in turns at the end: naive ");
        report_put_time(r->naive, out);
        str_append(out, ", best <b>");
        report_put_time(r->best, out);
        str_append(out, "</b>, speedup <b>");
        put_ratio(metrics_speedup(r->naive, r->best), "&times;", out);
        str_printf(out, "</b>; %lld tried, %lld repeated, %.1f s.", (long long)r->tried, (long long)r->repeated, r->elapsed);
    } else {
        str_append(out, "This search has not ended, or was broken off.");
    }
    str_append(out, "</p>\n");
}

static void put_run(const Report *report, const ReportRun *r, Str *out) {
    put_heading(r, out);
    str_append(out, "<div class=panes>\n");
    put_pane("", "Best so far", out);
    str_append(out, key_with_failed);
    report_curve(r, out);
    str_append(out, "</section>\n");
    put_pane("", "Bytes a second, and the roof", out);
    str_append(out, key);
    report_bandwidth(r, out);
    str_append(out, "</section>\n");
    put_pane("", "Failures by kind", out);
    put_failures(r, out);
    str_append(out, "</section>\n");
    put_pane("", "Cost", out);
    put_use(&r->use, out);
    str_append(out, "</section>\n");
    put_pane("", "Over its shapes", out);
    report_shapes(r, report->arena, out);
    str_append(out, "</section>\n");
    put_pane("wide", "Lineage: who was made from whom", out);
    report_tree(r, report->arena, out);
    str_append(out, "</section>\n");
    put_pane("wide", "Candidates", out);
    put_candidates(r, out);
    const ReportTrial *winner = report_winner(r);
    if (winner && *winner->sketch) {
        str_append(out, "<details><summary>The winner's text</summary><pre>");
        report_put_text(winner->sketch, out);
        str_append(out, "</pre></details>\n");
    }
    str_append(out, "</section></div>\n");
}

static void put_page(const Report *report, const char *title, Str *out) {
    str_append(
        out,
        "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\n<title>Searches: ");
    report_put_text(title, out);
    str_printf(out, "</title>\n<style>\n%s</style></head><body>\n<h1>Searches: ", report_css);
    report_put_text(title, out);
    str_append(out, "</h1>\n<p class=faint>Times are medians of checked launches at the largest case; the roof is the rate at which the "
                    "device copies memory.</p>\n");
    put_overview(report, out);
    str_append(out, "<div class=panes>\n");
    put_index(report, out);
    put_pane("wide", "Roofline: from the naive sketch to the winner", out);
    report_roofline(report, out);
    str_append(out, "</section>\n");
    put_pane("wide", "Answers of models and programs", out);
    report_answers(report, out);
    str_append(out, "</section></div>\n");
    for (size_t i = 0; i < report->runs.len; i++) put_run(report, &report->runs.data[i], out);
    str_append(out, "</body></html>\n");
}

bool report_page(Store *store, const char *title, Str *out) {
    Report report = {.arena = arena_create()};
    report.chains = map_create(report.arena);
    Reader reader = {&report, report.arena};
    bool ok = store_each(store, "runs", -1, read_run, &reader) && store_each(store, "trials", -1, read_trial, &reader) &&
              store_each(store, "shapes", -1, read_shape, &reader) && store_each(store, "calls", -1, read_call, &reader);
    if (ok) put_page(&report, title, out);
    arena_destroy(report.arena);
    return ok;
}
