/* Reports as JSON (docs/schemas) and as text. */
#include "runtime_internal.h"

#include <math.h>
#include <string.h>

/* JSON has no infinities. */
static void put_number(Str *s, const char *key, double value) {
    str_printf(s, ",\"%s\":", key);
    if (isfinite(value))
        str_append_double(s, value);
    else
        str_append(s, isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"");
}

static void put_count(Str *s, const char *key, uint64_t value) {
    str_printf(s, ",\"%s\":%llu", key, (unsigned long long)value);
}
static void put_bool(Str *s, const char *key, bool value) {
    str_printf(s, ",\"%s\":%s", key, value ? "true" : "false");
}

static void put_head(Str *s, const char *kind, const Artifact *a, const RtError *error) {
    str_printf(s, "{\"format\":1,\"kind\":\"%s\"", kind);
    str_append_member(s, "artifact", a->name);
    str_append_member(s, "target", artifact_target_name(a->target));
    str_append_member(s, "arch", a->arch);
    str_append_member(s, "status", rt_status_name(error->status));
    str_append_member(s, "text", error->text);
}

void rt_run_json(const Artifact *a, const RtError *error, Str *out) {
    put_head(out, "run", a, error);
    str_append(out, "}\n");
}

static void put_verdict(Str *s, const RtVerdict *v) {
    str_append(s, "{\"name\":");
    str_append_json(s, v->name);
    str_append_member(s, "sizes", v->sizes);
    str_append_member(s, "status", rt_status_name(v->status));
    str_append_member(s, "check", v->check);
    str_append_member(s, "text", v->text);
    str_append_member(s, "tensor", v->tensor);
    put_number(s, "worst_ratio", v->worst_ratio);
    put_number(s, "rms_ratio", v->rms_ratio);
    put_number(s, "max_error", v->max_error);
    put_count(s, "elements", v->elements);
    put_count(s, "compared", v->compared);
    put_count(s, "undecided", v->undecided);
    put_count(s, "unknown", v->unknown);
    put_bool(s, "sampled", v->sampled);
    put_bool(s, "by_naive", v->by_naive);
    put_number(s, "within", v->within);
    put_number(s, "hidden_element", v->hidden_element);
    put_number(s, "hidden_tile", v->hidden_tile);
    str_printf(s, ",\"tile\":[%lld,%lld]", (long long)v->tile[0], (long long)v->tile[1]);
    str_append_member(s, "why_sampled", v->why_sampled);
    put_bool(s, "paper_rule", v->paper_rule);
    put_bool(s, "kernelbench_rule", v->kernelbench_rule);
    str_append_member(s, "digest", v->digest);
    put_number(s, "seconds", v->seconds);
    str_append_char(s, '}');
}

void rt_verify_json(const Artifact *a, const RtVerifyReport *report, Str *out) {
    put_head(out, "verify", a, &report->error);
    put_count(out, "passed", report->passed);
    put_count(out, "failed", report->failed);
    put_count(out, "skipped", report->skipped);
    str_append(out, ",\"incomplete\":[");
    for (size_t i = 0; i < report->missing_count; i++) {
        str_append(out, i ? "," : "");
        str_append_json(out, report->missing[i]);
    }
    str_append(out, "]");
    str_append(out, ",\"cases\":[");
    for (size_t i = 0; i < report->count; i++) {
        str_append(out, i ? ",\n" : "\n");
        put_verdict(out, &report->verdicts[i]);
    }
    str_append(out, "]}\n");
}

static void put_timing(Str *s, const RtTiming *t) {
    str_append(s, "{\"name\":");
    str_append_json(s, t->name);
    str_append_member(s, "sizes", t->sizes);
    str_append_member(s, "status", rt_status_name(t->status));
    str_append_member(s, "text", t->text);
    put_count(s, "samples", t->samples);
    put_number(s, "median_s", t->median_s);
    put_number(s, "p5_s", t->p5_s);
    put_number(s, "p95_s", t->p95_s);
    put_number(s, "noise", t->noise);
    put_number(s, "first_s", t->first_s);
    put_count(s, "bytes", t->bytes);
    put_number(s, "flops", t->flops);
    put_number(s, "gb_per_s", t->gb_per_s);
    put_number(s, "tflop_per_s", t->tflop_per_s);
    put_number(s, "copy_gb_per_s", t->copy_gb_per_s);
    put_number(s, "percent_of_copy", t->percent_of_copy);
    put_number(s, "percent_of_read", t->percent_of_read);
    put_number(s, "null_s", t->null_s);
    put_number(s, "baseline_s", t->baseline_s);
    put_number(s, "baseline_noise", t->baseline_noise);
    put_number(s, "speedup", t->speedup);
    put_bool(s, "warm", t->warm);
    put_bool(s, "checked", t->checked);
    str_append_char(s, '}');
}

void rt_bench_json(const Artifact *a, const RtBenchReport *report, Str *out) {
    Str products;
    str_init(&products);
    rt_products(a, &products);
    put_head(out, "bench", a, &report->error);
    str_append_member(out, "device", report->device);
    str_append_member(out, "code", report->code);
    str_append_member(out, "products", products.len ? products.data : "");
    str_release(&products);
    str_append(out, ",\"kernels\":[");
    for (unsigned i = 0; i < report->kernel_count; i++) {
        const RtKernelInfo *k = &report->kernels[i];
        str_append(out, i ? ",\n{\"entry\":" : "\n{\"entry\":");
        str_append_json(out, k->entry);
        str_printf(out,
                   ",\"registers\":%d,\"shared_bytes\":%d,\"local_bytes\":%d,\"max_threads\":%d,"
                   "\"blocks_per_sm\":%d,\"threads\":%d,\"occupancy\":%.4f}",
                   k->registers, k->shared_bytes, k->local_bytes, k->max_threads, k->blocks_per_sm, k->threads, k->occupancy);
    }
    str_append(out, "],\"cases\":[");
    for (size_t i = 0; i < report->count; i++) {
        str_append(out, i ? ",\n" : "\n");
        put_timing(out, &report->timings[i]);
    }
    str_append(out, "]}\n");
}

/* ---- Text ---- */

/* A chance in percent, that is never rounded to 0 or 100. */
static void put_percent(Str *out, double part) {
    double percent = 100 * part;
    str_printf(out, percent > 99.99 && part < 1 ? "%.6f %%" : percent > 99 && part < 1 ? "%.2f %%" : "%.2g %%", percent);
}

/* How the elements were compared, and what could hide. */
static void put_coverage(Str *out, const RtVerdict *v) {
    str_printf(out, "%llu of %llu elements compared", (unsigned long long)v->compared, (unsigned long long)v->elements);
    if (v->sampled) {
        str_printf(out, " (sampled, the naive form was not compiled: %s; one wrong element would hide with ", v->why_sampled);
        put_percent(out, v->hidden_element);
        str_printf(out, ", a wrong tile of %lldx%lld with ", (long long)v->tile[0], (long long)v->tile[1]);
        put_percent(out, v->hidden_tile);
        str_append_char(out, ')');
    } else if (v->by_naive) {
        str_append(out, " (with the naive form in f64; by the evaluator what differs");
        if (v->within > 0) str_printf(out, " by more than %.3g roundings", v->within);
        str_append_char(out, ')');
    }
    if (v->unknown) str_printf(out, ", nothing is known of %llu of them", (unsigned long long)v->unknown);
}

static void put_verdict_line(Str *out, const RtVerdict *v) {
    str_printf(out, "%-14s %-12s %s", rt_status_name(v->status), v->name, v->sizes);
    if (v->status == RT_OK) str_printf(out, "  worst %.2g of the bound, rms %.2g, ", v->worst_ratio, v->rms_ratio);
    if (v->status == RT_OK) put_coverage(out, v);
    if (v->status == RT_OK)
        str_printf(out, "%s%s", v->text[0] ? "; " : "", v->text);
    else
        str_printf(out, "  %s%s%s", v->check, v->check[0] ? ": " : "", v->text);
    str_append_char(out, '\n');
}

static bool is_kind(const RtVerdict *v, const char *kind) {
    return strncmp(v->name, kind, strlen(kind)) == 0 && v->name[strlen(kind)] == ' ';
}
static bool is_derived(const RtVerdict *v) {
    return is_kind(v, "ragged") || is_kind(v, "special");
}
static bool is_fine(const RtVerdict *v) {
    return v->status == RT_OK || v->status == RT_SKIPPED;
}

static void put_line_of(Str *out, const RtVerifyReport *report, const char *kind, const char *what) {
    size_t passed = 0, skipped = 0;
    double worst = 0;
    uint64_t unknown = 0;
    for (size_t i = 0; i < report->count; i++) {
        const RtVerdict *v = &report->verdicts[i];
        if (!is_kind(v, kind)) continue;
        passed += v->status == RT_OK;
        unknown += v->unknown;
        skipped += v->status == RT_SKIPPED;
        if (v->status == RT_OK && v->worst_ratio > worst) worst = v->worst_ratio;
    }
    if (!passed && !skipped) return;
    str_printf(out, "%-14s %-12s %zu %s", rt_status_name(passed ? RT_OK : RT_SKIPPED), kind, passed ? passed : skipped, what);
    if (passed) str_printf(out, ", worst %.2g of the bound", worst);
    if (unknown && strcmp(kind, "ragged") == 0) str_printf(out, "; nothing is known of %llu elements", (unsigned long long)unknown);
    if (passed && skipped) str_printf(out, "; %zu skipped%s", skipped, strcmp(kind, "ragged") == 0 ? " for their size" : "");
    str_append_char(out, '\n');
}

void rt_verify_text(const Artifact *a, const RtVerifyReport *report, bool verbose, Str *out) {
    for (size_t i = 0; i < report->count; i++) {
        const RtVerdict *v = &report->verdicts[i];
        if (verbose || !is_derived(v) || !is_fine(v)) put_verdict_line(out, v);
    }
    if (!verbose) put_line_of(out, report, "ragged", "ragged sizes");
    if (!verbose) put_line_of(out, report, "special", "sets of special values");
    for (size_t i = 0; i < report->missing_count; i++) str_printf(out, "%-14s %s\n", rt_status_name(RT_INCOMPLETE), report->missing[i]);
    str_printf(out, "%s for %s: %zu passed, %zu failed, %zu skipped\n", a->name, a->arch, report->passed, report->failed, report->skipped);
    if (rt_failed(&report->error) && !report->failed && !report->missing_count)
        str_printf(out, "%s: %s\n", rt_status_name(report->error.status), report->error.text);
}

static void put_time(Str *out, double s) {
    if (s >= 1)
        str_printf(out, "%.3f s", s);
    else if (s >= 1e-3)
        str_printf(out, "%.3f ms", s * 1e3);
    else
        str_printf(out, "%.2f us", s * 1e6);
}

static void put_timing_line(Str *out, const RtTiming *t) {
    str_printf(out, "%-12s %s  ", t->name, t->sizes);
    if (t->status != RT_OK) {
        str_printf(out, "%s: %s\n", rt_status_name(t->status), t->text);
        return;
    }
    put_time(out, t->median_s);
    str_append(out, " (");
    put_time(out, t->p5_s);
    str_append(out, " to ");
    put_time(out, t->p95_s);
    str_printf(out, ", %u samples, %s)", t->samples, t->warm ? "warm" : "cold");
    if (t->flops > 0) str_printf(out, "  %.2f TFLOP/s", t->tflop_per_s);
    str_printf(out, "  %.1f GB/s", t->gb_per_s);
    if (t->copy_gb_per_s > 0) str_printf(out, ", %.0f %% of copy (%.1f GB/s)", t->percent_of_copy, t->copy_gb_per_s);
    if (t->percent_of_read > 0) str_printf(out, ", %.0f %% of read", t->percent_of_read);
    if (t->baseline_s > 0) {
        str_append(out, "; baseline ");
        put_time(out, t->baseline_s);
        str_printf(out, " (noise %.1f %%), %.3f times as fast", 100 * t->baseline_noise, t->speedup);
    }
    if (t->text[0]) str_printf(out, "; %s", t->text);
    str_append_char(out, '\n');
}

void rt_bench_text(const Artifact *a, const RtBenchReport *report, Str *out) {
    Str products;
    str_init(&products);
    rt_products(a, &products);
    const char *by = products.len ? "; products: " : "";
    if (report->device[0])
        str_printf(out, "%s on %s, %s%s%s\n", a->name, report->device, report->code, by, products.len ? products.data : "");
    str_release(&products);
    for (unsigned i = 0; i < report->kernel_count; i++) {
        const RtKernelInfo *k = &report->kernels[i];
        str_printf(out,
                   "  %s: %d threads, %d registers, %d bytes shared, %d bytes spilled or indexed, %d blocks "
                   "an SM (occupancy %.0f %%)\n",
                   k->entry, k->threads, k->registers, k->shared_bytes, k->local_bytes, k->blocks_per_sm, 100 * k->occupancy);
    }
    for (size_t i = 0; i < report->count; i++) put_timing_line(out, &report->timings[i]);
    if (rt_failed(&report->error)) str_printf(out, "%s: %s\n", rt_status_name(report->error.status), report->error.text);
}
