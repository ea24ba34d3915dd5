/* The report's tree: who was made from whom. Generations stand in columns, leaves below each other. */
#include "report_internal.h"

#include <string.h>

/* Pixels of the picture of a search's tree. */
enum { COLUMN = 150, ROW = 22, MARGIN = 14, ROOT_WIDTH = 90 };

typedef struct {
    const ReportRun *run;
    size_t *parent; /* of each trial: another trial, or `count`: the operator itself */
    double *y;
    unsigned *depth;
    size_t count, leaves;
    unsigned deepest;
} Tree;

static size_t find(const ReportRun *run, const char *hash) {
    size_t i = 0;
    while (i < run->trials.len && strcmp(run->trials.data[i].hash, hash) != 0) i++;
    return i;
}

/* A parent is an earlier trial, so that there are no circles, whatever the file says. */
static void link_up(Tree *t) {
    for (size_t i = 0; i < t->count; i++) {
        const char *hash = t->run->trials.data[i].parent;
        size_t p = *hash ? find(t->run, hash) : t->count;
        t->parent[i] = p < i ? p : t->count;
        t->depth[i] = t->parent[i] == t->count ? 0 : t->depth[t->parent[i]] + 1;
        if (t->depth[i] > t->deepest) t->deepest = t->depth[i];
    }
}

static size_t next_child(const Tree *t, size_t parent, size_t from) {
    while (from < t->count && t->parent[from] != parent) from++;
    return from;
}

/* Rows for leaves, in the order of a walk from the roots; without recursion, as chains may be long. */
static void place(Tree *t) {
    size_t at = t->count, from = 0;
    for (;;) {
        size_t child = next_child(t, at, from);
        if (child < t->count) {
            at = child;
            from = 0;
            continue;
        }
        if (at == t->count) return;
        size_t first = next_child(t, at, 0), last = first;
        for (size_t c = first; c < t->count; c = next_child(t, at, c + 1)) last = c;
        t->y[at] = first == t->count ? (double)t->leaves++ : (t->y[first] + t->y[last]) / 2;
        from = at + 1;
        at = t->parent[at];
    }
}

static double x_of(const Tree *t, size_t i) {
    return i == t->count ? MARGIN : MARGIN + ROOT_WIDTH + COLUMN * (double)t->depth[i];
}

static double y_of(const Tree *t, size_t i) {
    return MARGIN + ROW * (i == t->count ? ((double)t->leaves - 1) / 2 : t->y[i]);
}

static void put_node(const Tree *t, size_t i, Str *out) {
    const ReportTrial *trial = &t->run->trials.data[i];
    double x = x_of(t, i), y = y_of(t, i);
    const char *class = trial == report_winner(t->run) ? "won" : report_ran(trial) ? "ran" : "lost";
    str_printf(out, "<circle class=%s cx=%.1f cy=%.1f r=%s></circle><text class=%s x=%.1f y=%.1f>", class, x, y,
               strcmp(class, "won") == 0 ? "5.5" : "4", class, x + 9, y + 4);
    report_put_text(trial->source, out);
    str_append_char(out, ' ');
    report_put_result(trial, out);
    str_append(out, "</text>\n");
}

void report_tree(const ReportRun *run, Arena *arena, Str *out) {
    size_t count = run->trials.len;
    Tree t = {.run = run,
              .parent = ARENA_ARRAY(arena, size_t, count + 1),
              .y = ARENA_ARRAY(arena, double, count + 1),
              .depth = ARENA_ARRAY(arena, unsigned, count + 1),
              .count = count};
    if (!count) {
        str_append(out, "<p>Nothing was tried.</p>\n");
        return;
    }
    link_up(&t);
    place(&t);
    double width = MARGIN + ROOT_WIDTH + COLUMN * (t.deepest + 1.0), height = 2 * MARGIN + ROW * ((double)t.leaves - 1);
    str_printf(out,
               "<div class=scroll><svg class=tree width=%.0f height=%.0f viewBox=\"0 0 %.0f %.0f\" role=img aria-label=\"who was made from "
               "whom\">\n",
               width, height, width, height);
    for (size_t i = 0; i < count; i++) {
        double x0 = x_of(&t, t.parent[i]), y0 = y_of(&t, t.parent[i]), x1 = x_of(&t, i), y1 = y_of(&t, i), bend = x1 - 40;
        str_printf(out, "<path class=link d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"/>\n", x0, y0, bend, y0, x0 + 40, y1, x1, y1);
    }
    str_printf(out, "<circle class=root cx=%.1f cy=%.1f r=6></circle>\n", x_of(&t, count), y_of(&t, count));
    for (size_t i = 0; i < count; i++) put_node(&t, i, out);
    str_append(out, "</svg></div>\n");
}
