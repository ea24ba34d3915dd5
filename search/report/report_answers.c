/* report.h: pass@k of first answers, and what repairs add. */
#include "report_internal.h"

#include <math.h>
#include <string.h>

static bool is_one_of(const char *text, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(text, words[i]) == 0) return true;
    return false;
}

static ReportTask *task_of(Report *report, const StoreRow *row) {
    const char *proposer = store_text(row, "proposer"), *definition = store_text(row, "hash"), *target = store_text(row, "target");
    for (size_t i = 0; i < report->tasks.len; i++) {
        ReportTask *t = &report->tasks.data[i];
        if (strcmp(t->proposer, proposer) == 0 && strcmp(t->definition, definition) == 0 && strcmp(t->target, target) == 0) return t;
    }
    Arena *arena = report->arena;
    ReportTask task = {arena_strdup(arena, proposer),
                       arena_strdup(arena, store_text(row, "operator")),
                       arena_strdup(arena, definition),
                       arena_strdup(arena, target),
                       {0, 0},
                       {0, 0}};
    VEC_PUSH(arena, &report->tasks, task);
    return &report->tasks.data[report->tasks.len - 1];
}

/* A question that nobody answered is no sample; a refusal is a wrong one. Rows come in the order of the calls. */
void report_note_answer(Report *report, const StoreRow *row) {
    static const char *const answered[] = {"proposed", "truncated", "nothing", "refused"};
    bool first = strcmp(store_text(row, "task"), "first") == 0, repair = strcmp(store_text(row, "task"), "repair") == 0;
    bool right = store_integer(row, "verified") != 0;
    if ((!first && !repair) || !is_one_of(store_text(row, "status"), answered, COUNT_OF(answered))) return;
    const char *chain = arena_printf(report->arena, "%lld", (long long)store_integer(row, "chain"));
    ReportTask *task = task_of(report, row);
    bool begun = map_get(report->chains, chain), done = map_get(report->chains, chain) == report;
    if (first) {
        task->first.samples++;
        task->mended.samples++;
        task->first.correct += right;
    } else if (!begun) {
        return; /* of a chain whose first question was not answered */
    }
    task->mended.correct += right && !done;
    if (!done) map_set(report->chains, report->arena, chain, right ? (void *)report : (void *)report->chains);
}

static void put_figure(double value, Str *out) {
    if (isnan(value))
        str_append(out, "<td class=number>&ndash;");
    else
        str_printf(out, "<td class=number>%.3f", value);
}

static const unsigned ks[] = {1, 2, 4, 8};

static void put_task(const ReportTask *t, Str *out) {
    str_append(out, "<tr><td>");
    report_put_text(*t->operator_name ? t->operator_name : "(no name)", out);
    str_append(out, "<td>");
    report_put_text(t->target, out);
    str_printf(out, "<td class=number>%u of %u<td class=number>%u of %u", t->first.correct, t->first.samples, t->mended.correct,
               t->mended.samples);
    for (size_t i = 0; i < COUNT_OF(ks); i++) put_figure(metrics_pass_at(t->first, ks[i]), out);
    str_append_char(out, '\n');
}

static void put_proposer(const Report *report, const char *proposer, Str *out) {
    MetricsTask *first = ARENA_ARRAY(report->arena, MetricsTask, report->tasks.len),
                *mended = ARENA_ARRAY(report->arena, MetricsTask, report->tasks.len);
    size_t count = 0;
    str_append(out, "<h4>");
    report_put_text(proposer, out);
    str_append(out, "</h4><div class=scroll><table><thead><tr><th>operator<th>target<th class=number>first answers right"
                    "<th class=number>after repairs");
    for (size_t i = 0; i < COUNT_OF(ks); i++) str_printf(out, "<th class=number>pass@%u", ks[i]);
    str_append(out, "</thead><tbody>\n");
    for (size_t i = 0; i < report->tasks.len; i++) {
        const ReportTask *t = &report->tasks.data[i];
        if (strcmp(t->proposer, proposer) != 0) continue;
        put_task(t, out);
        first[count] = t->first;
        mended[count++] = t->mended;
    }
    const MetricsTask *lists[] = {first, mended};
    static const char *const names[] = {"mean", "mean, with repairs"};
    for (size_t l = 0; l < COUNT_OF(lists); l++) {
        str_printf(out, "<tr><td><b>%s</b><td><td><td>", names[l]);
        for (size_t i = 0; i < COUNT_OF(ks); i++) put_figure(metrics_mean_pass_at(lists[l], count, ks[i]), out);
        str_append_char(out, '\n');
    }
    str_append(out, "</tbody></table></div>\n");
}

void report_answers(const Report *report, Str *out) {
    if (!report->tasks.len) {
        str_append(out, "<p>No model or program was asked for first answers.</p>\n");
        return;
    }
    for (size_t i = 0; i < report->tasks.len; i++) {
        bool shown = false;
        for (size_t k = 0; k < i; k++) shown |= strcmp(report->tasks.data[k].proposer, report->tasks.data[i].proposer) == 0;
        if (!shown) put_proposer(report, report->tasks.data[i].proposer, out);
    }
    str_append(
        out,
        "<p class=faint>pass@k: the chance that of k first answers one is verified in all cases, without bias (1 - C(n-c, k) / C(n, k)); "
        "&ndash; where an operator has fewer than k answers.</p>\n");
}
