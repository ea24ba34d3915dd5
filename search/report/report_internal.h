/* Shared by the files of the report: what is read of the store, and the pictures. */
#ifndef SEARCH_REPORT_REPORT_INTERNAL_H
#define SEARCH_REPORT_REPORT_INTERNAL_H

#include "metrics.h"
#include "report.h"

/* A candidate of a run. Texts live in the report's arena. */
typedef struct {
    int64_t run, number;
    const char *hash, *parent, *source, *status, *sketch;
    double seconds, at, percent;
    bool complete, known;
} ReportTrial;

/* The winner, and the naive sketch, at a declared case; 0: not timed. */
typedef struct {
    const char *case_name, *sizes;
    double seconds, naive, percent;
} ReportShape;

typedef struct {
    int64_t id;
    const char *operator_name, *definition, *target, *arch, *device, *case_name, *sizes, *strategy, *seed, *began, *ended, *winner;
    double elapsed, naive, best; /* measured in turns; 0: not known */
    double bytes, flops, roof;   /* of the case; roof: bytes a second; 0: not known */
    int64_t tried, repeated;
    bool complete;
    VEC(ReportTrial) trials;
    VEC(ReportShape) shapes;
    MetricsUse use;
} ReportRun;

/* One operator asked of one model or program: its first answers, and what repairs made of them. */
typedef struct {
    const char *proposer, *operator_name, *definition, *target;
    MetricsTask first, mended;
} ReportTask;

typedef struct {
    Arena *arena;
    VEC(ReportRun) runs;
    VEC(ReportTask) tasks;
    Map *chains;    /* of a chain's first call: its task; and "right" once it is mended */
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
/* report_answers.c: what models and programs answered. */
void report_note_answer(Report *report, const StoreRow *row);
void report_answers(const Report *report, Str *out);
/* report_shapes.c: how evenly the winner keeps up over its cases. */
MetricsRobustness report_robustness(const ReportRun *run, Arena *arena, bool of_roof); /* else over naive */
void report_shapes(const ReportRun *run, Arena *arena, Str *out);
/* report_tree.c */
void report_tree(const ReportRun *run, Arena *arena, Str *out);

#endif
