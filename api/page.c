/* The page of `sketchc explain FILE --html`: what a sketch becomes, for people to look at. One file, no other is fetched;
 * without a script it can still be read. */
#include "api_internal.h"

#include "cost.h"
#include "html.h"
#include "page_parts.h"
#include "sketchc_config.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static void put_text(const char *text, Str *out) {
    str_append_html(out, text, strlen(text));
}

/* ---- Code with colours ---- */

typedef struct {
    const char *title, *id;
    const char *comment; /* what begins a comment */
    const char *const *words;
} Language;

static const char *const sketch_words[] = {"operator", "sketch",    "implements", "symbols", "tensors", "scalars", "constexpr", "view",
                                           "case",     "precision", "edition",    "for",     "in",      "if",      "elif",      "else",
                                           "and",      "or",        "not",        "values",  "require", "use",     NULL};
static const char *const ir_words[] = {"func",    "tile", "kernel", "graph",  "open",   "static",    "mapped",   "guard",
                                       "require", "case", "tensor", "symbol", "scalar", "workspace", "parallel", "for",
                                       "if",      "map",  "yield",  "return", "roles",  NULL};
static const char *const c_words[] = {
    "const",    "static",     "int",        "long",       "unsigned", "float",        "double",        "bool",
    "void",     "char",       "for",        "if",         "else",     "return",       "extern",        "inline",
    "struct",   "__shared__", "__global__", "__device__", "__host__", "__restrict__", "__syncthreads", "__forceinline__",
    "restrict", "while",      "break",      NULL};

static bool is_word_of(const Language *l, const char *text, size_t length) {
    for (size_t i = 0; l->words[i]; i++)
        if (strlen(l->words[i]) == length && strncmp(l->words[i], text, length) == 0) return true;
    return false;
}

static bool is_name(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static void put_classed(const char *class, const char *text, size_t length, Str *out) {
    if (class) str_printf(out, "<i class=%s>", class);
    str_append_html(out, text, length);
    if (class) str_append(out, "</i>");
}

/* The piece at `text`, of one colour; its length. */
static size_t put_piece(const Language *l, const char *text, size_t left, Str *out) {
    size_t n = 1, comment = strlen(l->comment);
    const char *class = NULL;
    if (left >= comment && strncmp(text, l->comment, comment) == 0 && !(l->comment[0] == '#' && text[1] == 'd')) {
        n = left;
        class = "c";
    } else if (*text == '"') {
        while (n < left && text[n] != '"') n++;
        n += n < left;
        class = "s";
    } else if (isdigit((unsigned char)*text)) {
        while (n < left && (is_name(text[n]) || text[n] == '.')) n++;
        class = "n";
    } else if (is_name(*text) || *text == '%' || *text == '@') {
        while (n < left && is_name(text[n])) n++;
        class = is_word_of(l, text, n) ? "w" : n < left && text[n] == '(' ? "f" : NULL;
    }
    put_classed(class, text, n, out);
    return n;
}

/* One pane: each line an element that names the line of the source it belongs to. */
static void put_pane(const Language *l, const Str *text, const LineMap *lines, Str *out) {
    str_printf(out, "<section class=pane id=%s><h2><button type=button aria-pressed=false>%s</button></h2><ol class=code>\n", l->id,
               l->title);
    size_t number = 0;
    for (const char *at = text->data; at && *at; number++) {
        size_t length = strcspn(at, "\n");
        uint32_t line = !lines ? (uint32_t)number + 1 : number < lines->len ? lines->data[number] : 0;
        if (line)
            str_printf(out, "<li data-l=%u>", line);
        else
            str_append(out, "<li>");
        for (size_t i = 0; i < length;) i += put_piece(l, at + i, length - i, out);
        str_append(out, "</li>\n");
        at += length;
        at += *at == '\n';
    }
    str_append(out, "</ol></section>\n");
}

/* ---- Numbers ---- */

static void put_count(double value, const char *unit, Str *out) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T"};
    unsigned p = 0;
    for (; value >= 1000 && p + 1 < COUNT_OF(prefixes); p++) value /= 1000;
    str_printf(out, value < 10 && p ? "%.2f %s%s" : value < 100 && p ? "%.1f %s%s" : "%.0f %s%s", value, prefixes[p], unit);
}

static void put_seconds(double seconds, Str *out) {
    if (seconds < 1e-3)
        str_printf(out, "%.1f &micro;s", 1e6 * seconds);
    else
        str_printf(out, "%.2f ms", 1e3 * seconds);
}

/* ---- Launches ---- */

static void put_grid(const IrFunc *f, IrFuncAff axis, Str *out) {
    const Aff *blocks = ir_func_aff(f, axis);
    Str text;
    str_init(&text);
    if (blocks) aff_print(blocks, &text);
    put_text(blocks ? text.data : "1", out);
    str_release(&text);
}

/* Blocks of the kernel that a multiprocessor holds at a time, were registers no matter: those the assembler deals out. */
static void put_occupancy(const IrFunc *f, int64_t threads, const CostMachine *machine, Str *out) {
    if (!machine) {
        str_append(out, "not known");
        return;
    }
    CostLaunch launch = {.blocks = 1, .threads = threads, .shared_bytes = ir_func_int(f, IR_FN_SHARED_BYTES, 0)};
    CostEstimate e = cost_estimate(machine, &launch);
    str_printf(out, "%lld, by %s", (long long)e.blocks_per_sm, e.limit);
}

/* Bytes of shared memory, and how many of them are stages of which buffers. */
static void put_shared(const IrFunc *f, const Buffers *buffers, Str *out) {
    str_printf(out, "%lld", (long long)ir_func_int(f, IR_FN_SHARED_BYTES, 0));
    for (size_t i = 0; i < buffers->len; i++) {
        const Buffer *b = &buffers->data[i];
        if (strcmp(b->kernel, f->name) != 0) continue;
        str_append(out, "<br>");
        put_text(b->name, out);
        str_printf(out, ": %u &times; %lld", b->stages, (long long)b->stage_bytes);
    }
}

/* ---- When a version runs ---- */

enum { MOST_CONDITIONS = 16 };

static void put_guard(sketchc_unit *unit, const IrFunc *f, Str *out) {
    AffCtx *a = aff_ctx_create(unit->arena);
    Str text, words;
    size_t at;
    str_init(&text);
    str_init(&words);
    if (f->guard) aff_print(f->guard, &text);
    const Aff *guard = f->guard ? aff_parse(a, text.data, NULL, NULL, &at) : NULL;
    AffCondition found[MOST_CONDITIONS];
    size_t count = guard ? aff_conditions(a, guard, found, COUNT_OF(found)) : 0;
    for (size_t i = 0; i < count; i++) {
        if (i) str_append(&words, ", ");
        aff_print(found[i].left, &words);
        str_printf(&words, " %s %lld", found[i].relation, (long long)found[i].right);
    }
    put_text(count ? words.data : f->guard ? text.data : "always", out);
    str_release(&words);
    str_release(&text);
}

static void put_launch(sketchc_unit *unit, const IrFunc *f, int warp_size, const CostMachine *machine, const Buffers *buffers, Str *out) {
    int64_t threads = ir_func_int(f, IR_FN_NUM_WARPS, 1) * warp_size;
    str_append(out, "<tr><th>");
    put_text(f->name, out);
    str_append(out, "</th><td>");
    put_grid(f, IR_FN_GRID_X, out);
    static const IrFuncAff others[] = {IR_FN_GRID_Y, IR_FN_GRID_Z};
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (ir_func_has(f, others[i])) {
            str_append(out, " &times; ");
            put_grid(f, others[i], out);
        }
    str_printf(out, "</td><td>%lld</td><td>", (long long)threads);
    put_shared(f, buffers, out);
    str_append(out, "</td><td>");
    put_occupancy(f, threads, machine, out);
    str_append(out, "</td><td>");
    put_guard(unit, f, out);
    str_append(out, "</td></tr>\n");
}

static void put_launches(sketchc_unit *unit, const Compile *c, const IrModule *kernels, Str *out) {
    const Target *target = c->target;
    if (target->kind != TARGET_CUDA) return;
    CostMachine machine;
    Buffers buffers = {0};
    api_buffers(unit, c, &buffers);
    const CostMachine *known = cost_machine(target, &machine) ? &machine : NULL;
    str_append(out, "<section class=\"facts whole\"><h2>Launches</h2><div class=scroll><table "
                    "class=launches><tr><th>kernel</th><th>blocks</th><th>threads</th>"
                    "<th>shared bytes (stages)</th><th>blocks an SM, registers aside</th><th>runs when</th></tr>\n");
    for (const IrFunc *f = kernels->first; f; f = f->next) put_launch(unit, f, (int)target->warp_size, known, &buffers, out);
    str_append(out, "</table></div></section>\n");
}

/* ---- What the cases must move, at the least ---- */

typedef struct {
    const IrCase *sizes;
    const IrFunc *sketch;
    unsigned depth;
} Sizes;

static bool size_of(void *context, const Aff *leaf, int64_t *value) {
    Sizes *s = context;
    if (leaf->kind != AFF_SYM) return false;
    for (size_t i = 0; i < s->sizes->symbol_count; i++)
        if (strcmp(s->sizes->symbols[i], leaf->name) == 0) {
            *value = s->sizes->values[i];
            return true;
        }
    for (unsigned i = 0; i < s->sketch->param_count; i++) {
        const IrParam *p = &s->sketch->params[i];
        if (strcmp(p->name, leaf->name) != 0 || !p->derived || s->depth > 8) continue;
        Sizes inner = {s->sizes, s->sketch, s->depth + 1};
        return aff_eval(p->derived, size_of, &inner, value);
    }
    return false;
}

/* Bytes of the tensors of a direction in a case; negative when a size is not known. */
static double tensor_bytes(const IrFunc *sketch, const IrCase *sizes, unsigned direction) {
    double sum = 0;
    Sizes context = {sizes, sketch, 0};
    for (unsigned i = 0; i < sketch->param_count; i++) {
        const IrParam *p = &sketch->params[i];
        const IrType *t = p->type ? p->type : sketch->body->args[i]->type;
        if (p->kind != IR_PARAM_TENSOR || !(p->direction & direction)) continue;
        double bytes = (double)dtype_size(t->dtype);
        for (unsigned k = 0; k < t->rank; k++) {
            int64_t extent;
            if (!aff_eval(t->extents[k], size_of, &context, &extent)) return -1;
            bytes *= (double)extent;
        }
        sum += bytes;
    }
    return sum;
}

static void put_moved(const IrCase *c, const IrFunc *sketch, const CostMachine *machine, Str *out) {
    double read = tensor_bytes(sketch, c, IR_DIR_IN), written = tensor_bytes(sketch, c, IR_DIR_OUT);
    if (read < 0 || written < 0) {
        str_append(out, "<td>not known</td><td>not known</td><td>not known</td>");
        return;
    }
    str_append(out, "<td>");
    put_count(read, "B", out);
    str_append(out, "</td><td>");
    put_count(written, "B", out);
    str_append(out, "</td><td>");
    if (machine)
        put_seconds(cost_floor(machine, read, written), out);
    else
        str_append(out, "not known");
    str_append(out, "</td>");
}

/* Predicted time, its part of the floor, and a line for each launch that says what binds it. */
static void put_prediction(const Prediction *p, Str *out) {
    if (!p->known) {
        str_append(out, "<td>not known</td><td></td><td></td>");
        return;
    }
    str_append(out, "<td>");
    put_seconds(p->seconds, out);
    str_printf(out, "</td><td>%.0f&nbsp;%%</td><td class=why>", p->percent);
    for (size_t i = 0; i < p->launches.len; i++) {
        const PredictedLaunch *l = &p->launches.data[i];
        Str text;
        str_init(&text);
        str_printf(&text, "%s: ", l->kernel->name);
        cost_explain(&l->estimate, l->floor_s, &text);
        if (l->rows_together > 1) str_printf(&text, "; tiles in groups of %lld rows", (long long)l->rows_together);
        if (i) str_append(out, "<br>");
        put_text(text.data, out);
        str_release(&text);
    }
    str_append(out, "</td>");
}

static void put_roofs(sketchc_unit *unit, const IrModule *tile, IrModule *kernels, const Target *target, Str *out) {
    CostMachine machine;
    bool known = cost_machine(target, &machine);
    str_append(out, "<section class=facts><h2>Predicted time</h2>\n<p>");
    str_append(
        out, known
                 ? "The memory roof is what moving every tensor once takes at the rates of this target&rsquo;s document; the time is that "
                   "of the launches by the cost model, and its part of the roof.</p>\n"
                 : "This target&rsquo;s document states no rates.</p>\n");
    str_append(out, "<div class=scroll><table><tr><th>case</th><th>read</th><th>written</th><th>memory roof</th><th>predicted</th>"
                    "<th>of the roof</th><th>what binds</th></tr>\n");
    for (size_t i = 0; i < tile->case_count; i++) {
        Prediction p = {0};
        if (known) api_predict_case(kernels, &machine, target, &kernels->cases[i], unit->arena, &p);
        str_append(out, "<tr><th>");
        put_text(tile->cases[i].name, out);
        str_append(out, "</th>");
        put_moved(&tile->cases[i], tile->first, known ? &machine : NULL, out);
        put_prediction(&p, out);
        str_append(out, "</tr>\n");
    }
    if (!tile->case_count) str_append(out, "<tr><td colspan=7>the file has no cases</td></tr>\n");
    str_append(out, "</table></div></section>\n");
}

/* ---- The parts from the compiler ---- */

typedef struct {
    Str text;
    LineMap lines;
} Part;

static void print_part(sketchc_unit *unit, const IrModule *module, Part *part) {
    IrPlaces places = {0};
    ir_print_places(module, unit->arena, &part->text, &places);
    api_lines_of_ir(unit, &part->text, &places, &part->lines);
}

static void put_layouts(sketchc_unit *unit, const Compile *c, Str *out) {
    IrModule *module = c->target->kind == TARGET_CUDA ? api_lower_to(unit, c, PASS_ASSIGN_LAYOUTS) : NULL;
    str_append(out, "<section class=facts><h2>Layouts</h2>\n");
    Str pictures;
    str_init(&pictures);
    if (module) api_pictures(unit, module, &pictures);
    if (pictures.len)
        str_printf(out, "<div class=pictures>\n%s</div>\n", pictures.data);
    else
        str_append(out, "<p>Tiles are plain arrays of one core here, or single values.</p>\n");
    str_release(&pictures);
    str_append(out, "</section>\n");
}

static void put_regions(const sketchc_unit *unit, Str *out) {
    if (!unit->regions.len) return;
    str_append(out, "<section class=facts><h2>Regions</h2>\n");
    api_regions_picture(unit, out);
    str_append(out, "</section>\n");
}

static void put_messages(const sketchc_unit *unit, Str *out) {
    Str text;
    str_init(&text);
    diag_render_text(&unit->diags, false, &text);
    if (text.len) {
        str_append(out, "<section class=facts><h2>What the compiler says</h2><pre>");
        str_append_html(out, text.data, text.len);
        str_append(out, "</pre></section>\n");
    }
    str_release(&text);
}

static void put_head(const sketchc_unit *unit, const char *name, const Target *target, Str *out) {
    str_append(out,
               "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\n<title>");
    put_text(name, out);
    str_printf(out, " for %s</title>\n<style>\n%s", target->arch, page_css);
    for (unsigned k = 0; k < 32; k++) str_printf(out, ".k%u{--h:%u}", k, k * 360 / 32);
    str_append(out, "\n</style></head><body>\n<header><h1>");
    put_text(name, out);
    str_append(out, "</h1><p>");
    put_text(unit->path, out);
    str_printf(out,
               " for %s, by sketchc " SKETCHC_VERSION
               ". Point at a line to see what becomes of it; click to hold it. A heading widens its pane.%s</p></header>\n",
               target->arch, unit->designed ? " The file has no sketch: the one shown was designed by rules." : "");
}

static const Language languages[] = {
    {"Source", "source", "#", sketch_words},
    {"Tile IR", "tile", "//", ir_words},
    {"Kernel IR", "kernel", "//", ir_words},
    {"Code", "code", "//", c_words},
};

static void put_page(sketchc_unit *unit, const Compile *c, const IrModule *tile, IrModule *kernels, Part parts[4], Str *out) {
    put_head(unit, tile->first->name, c->target, out);
    str_append(out, "<main>\n");
    for (size_t i = 0; i < 4; i++) put_pane(&languages[i], &parts[i].text, i ? &parts[i].lines : NULL, out);
    str_append(out, "</main>\n<div class=below>\n");
    put_regions(unit, out);
    put_launches(unit, c, kernels, out);
    put_roofs(unit, tile, kernels, c->target, out);
    put_layouts(unit, c, out);
    put_messages(unit, out);
    str_printf(out, "</div>\n<script>\n%s</script>\n</body></html>\n", page_js);
}

void api_page(sketchc_unit *unit, const Compile *c, Str *out) {
    IrModule *kernels = api_build(unit);
    if (!kernels) return;
    api_keep_level(kernels, IR_LEVEL_TILE);
    IrModule *tile = ir_module_copy(kernels, IR_LEVEL_TILE);
    if (!tile->first) {
        api_report_no_sketch(unit);
        return;
    }
    Part parts[4] = {0};
    for (size_t i = 0; i < COUNT_OF(parts); i++) str_init(&parts[i].text);
    if (unit->designed)
        str_append_n(&parts[0].text, unit->designed, unit->designed_size);
    else
        str_append_n(&parts[0].text, unit->text, unit->size);
    print_part(unit, tile, &parts[1]);
    Compile with_lines = *c;
    with_lines.line_directives = true;
    if (api_lower(unit, c, kernels) && api_code(unit, &with_lines, kernels, api_form(c), &parts[3].text)) {
        print_part(unit, kernels, &parts[2]);
        api_lines_of_code(unit, &with_lines, &parts[3].text, &parts[3].lines);
        put_page(unit, c, tile, kernels, parts, out);
    }
    for (size_t i = 0; i < COUNT_OF(parts); i++) str_release(&parts[i].text);
}
