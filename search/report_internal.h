/* Shared by the files of the report: what is read of the store, and the pictures. */
#ifndef SEARCH_REPORT_INTERNAL_H
#define SEARCH_REPORT_INTERNAL_H

#include "metrics.h"
#include "report.h"

/* A candidate of a run. Texts live in the report's arena. */
typedef struct {
    int64_t run, number;
    const char *hash, *parent, *source, *status, *sketch;
    double seconds, at, percent;
    bool complete, known;
} ReportTrial;

typedef struct {
    int64_t id;
    const char *operator_name, *target, *arch, *device, *case_name, *sizes, *strategy, *seed, *began, *ended, *winner;
    double elapsed, naive, best; /* measured in turns; 0: not known */
    double bytes, flops, roof;   /* of the case; roof: bytes a second; 0: not known */
    int64_t tried, repeated;
    bool complete;
    VEC(ReportTrial) trials;
    MetricsUse use;
} ReportRun;

typedef struct {
    Arena *arena;
    VEC(ReportRun) runs;
    MetricsUse use; /* of all calls, also those of no run */
} Report;

bool report_ran(const ReportTrial *t);
/* The winner's trial; null: none. */
const ReportTrial *report_winner(const ReportRun *run);
/* "1.82 ms"; "not known" for what is not positive. */
void report_put_time(double seconds, Str *out);
void report_put_text(const char *text, Str *out);
/* The time of a trial that ran, else its status. */
void report_put_result(const ReportTrial *t, Str *out);

/* report_charts.c: each one <svg>, or a sentence where there is nothing to draw. */
void report_curve(const ReportRun *run, Str *out);
void report_bandwidth(const ReportRun *run, Str *out);
void report_roofline(const Report *report, Str *out);
/* report_tree.c */
void report_tree(const ReportRun *run, Arena *arena, Str *out);

#endif
