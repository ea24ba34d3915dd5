/* The regions of a designed sketch, for --explain and the page: what each stores, by which sketch, why it stands apart, and its time. */
#include "api_internal.h"

#include <string.h>

/* ---- Which region a kernel is of ---- */

static void find_line(void *context, IrOp *op) {
    Span *span = context;
    if (!span->end && op->span.end) *span = op->span;
}

/* How many loop nests of the sketch begin in its lines up to this one. */
static unsigned nests_until(const char *text, uint32_t line) {
    unsigned count = 0;
    bool inside = false;
    for (const char *at = text; at && *at && line; at = strchr(at, '\n'), at += at != NULL, line--) {
        inside |= strncmp(at, "sketch ", 7) == 0;
        count += inside && (strncmp(at, "    for ", 8) == 0 || strncmp(at, "    if ", 7) == 0);
    }
    return count;
}

size_t api_region_of(const sketchc_unit *unit, const IrFunc *kernel) {
    Span span = SPAN_NONE;
    ir_walk(kernel->body, find_line, &span);
    unsigned nest = span.end && unit->designed ? nests_until(unit->designed, api_line_of(unit, span)) : 0, seen = 0;
    for (size_t i = 0; nest && i < unit->regions.len; i++) {
        seen += unit->regions.data[i].nests;
        if (nest <= seen) return i;
    }
    return unit->regions.len;
}

static double seconds_of(const sketchc_unit *unit, const Prediction *p, size_t region, double *floor_s) {
    double sum = 0;
    *floor_s = 0;
    for (size_t i = 0; i < p->launches.len; i++) {
        if (api_region_of(unit, p->launches.data[i].kernel) != region) continue;
        sum += p->launches.data[i].estimate.seconds;
        *floor_s += p->launches.data[i].floor_s;
    }
    return sum;
}

/* ---- Text and JSON ---- */

static void put_how(const DesignRegion *r, Str *out) {
    if (r->sketch)
        str_printf(out, "by the library's %s (%s)", r->sketch, r->how);
    else
        str_printf(out, "walked: %s", r->how);
}

void api_regions_text(const sketchc_unit *unit, Str *out) {
    for (size_t i = 0; i < unit->regions.len; i++) {
        const DesignRegion *r = &unit->regions.data[i];
        str_printf(out, "region %zu: %s of %s, ", i + 1, r->values, *r->reads ? r->reads : "nothing");
        put_how(r, out);
        str_printf(out, "; apart, as %s\n", r->why);
    }
}

void api_region_times(const sketchc_unit *unit, const Prediction *p, Str *out) {
    double floor_s;
    for (size_t i = 0; unit->regions.len > 1 && i < unit->regions.len; i++) {
        double seconds = seconds_of(unit, p, i, &floor_s);
        str_printf(out, "  region %zu: %.4g ms, its launches' bytes take %.4g\n", i + 1, seconds * 1e3, floor_s * 1e3);
    }
}

void api_regions_json(const sketchc_unit *unit, Str *out) {
    str_append(out, ",\"regions\":[");
    for (size_t i = 0; i < unit->regions.len; i++) {
        const DesignRegion *r = &unit->regions.data[i];
        const char *const fields[][2] = {
            {"values", r->values}, {"reads", r->reads}, {"how", r->how}, {"why", r->why}, {"sketch", r->sketch}};
        str_append(out, i ? ",{" : "{");
        for (size_t k = 0; k < COUNT_OF(fields); k++) {
            if (!fields[k][1]) continue;
            str_printf(out, "%s\"%s\":", k ? "," : "", fields[k][0]);
            str_append_json(out, fields[k][1]);
        }
        str_append_char(out, '}');
    }
    str_append_char(out, ']');
}

/* ---- The picture ---- */

enum { BOX_WIDTH = 520, BOX_HEIGHT = 56, GAP = 22, LANE = 16, LEFT = 8 };

static void put_escaped(const char *text, Str *out) {
    for (; *text; text++)
        if (*text == '<')
            str_append(out, "&lt;");
        else if (*text == '&')
            str_append(out, "&amp;");
        else
            str_append_char(out, *text);
}

static void put_box(const DesignRegion *r, size_t i, Str *out) {
    unsigned y = (unsigned)i * (BOX_HEIGHT + GAP) + GAP / 2;
    Str how;
    str_init(&how);
    put_how(r, &how);
    str_printf(out, "<rect x=%d y=%u width=%d height=%d rx=6 fill=none stroke=currentColor />", LEFT, y, BOX_WIDTH, BOX_HEIGHT);
    str_printf(out, "<text x=%d y=%u fill=currentColor>%zu: ", LEFT + 8, y + 18, i + 1);
    put_escaped(r->values, out);
    str_append(out, " of ");
    put_escaped(r->reads, out);
    str_printf(out, "</text><text x=%d y=%u fill=currentColor>", LEFT + 8, y + 34);
    put_escaped(how.data, out);
    str_printf(out, "</text><text x=%d y=%u fill=currentColor>apart, as ", LEFT + 8, y + 50);
    put_escaped(r->why, out);
    str_append(out, "</text>\n");
    str_release(&how);
}

/* Does the list, with commas between, hold a name of the other? */
static bool shares(const char *list, const char *other) {
    for (const char *at = other; *at; at += strspn(at, ", ")) {
        size_t n = strcspn(at, ",");
        for (const char *in = list; *in; in += strspn(in, ", ")) {
            size_t m = strcspn(in, ",");
            if (m == n && strncmp(in, at, n) == 0) return true;
            in += m;
        }
        at += n;
    }
    return false;
}

static void put_edge(size_t from, size_t to, unsigned lane, Str *out) {
    unsigned right = LEFT + BOX_WIDTH, x = right + LANE * lane, y = (unsigned)from * (BOX_HEIGHT + GAP) + GAP / 2 + BOX_HEIGHT / 2;
    unsigned end = (unsigned)to * (BOX_HEIGHT + GAP) + GAP / 2 + BOX_HEIGHT / 2 - 8;
    str_printf(out, "<path d=\"M%u %u H%u V%u H%u l6 -4 v8 l-6 -4\" fill=none stroke=currentColor />\n", right, y, x, end, right);
}

void api_regions_picture(const sketchc_unit *unit, Str *out) {
    size_t n = unit->regions.len;
    const DesignRegion *r = unit->regions.data;
    if (!n) return;
    str_printf(out, "<div class=regions><svg width=%zu height=%zu font-size=12>\n", LEFT + BOX_WIDTH + LANE * (n + 1),
               n * (BOX_HEIGHT + GAP));
    for (size_t i = 0; i < n; i++) put_box(&r[i], i, out);
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++)
            if (shares(r[k].reads, r[i].values)) put_edge(i, k, (unsigned)i + 1, out);
    str_append(out, "</svg></div>\n");
}
