/* The sketch that stands in where a file has none: which style is taken.
 *
 * Styles are tried in the order of preference; where the cost model knows the target and the sizes of the cases, the one with the least
 * predicted time is taken, else the first that lowers. docs/decisions/sketch-design.md says how. */
#include "api_internal.h"

#include "design.h"
#include "query.h"

#include <string.h>

/* A style is taken in place of the first one that lowers where it needs so much less time: the model's error. */
#define MARGIN_MEMORY 0.05
#define MARGIN_PRODUCTS 0.20

/* Operations of all kernels together, after unrolling, that an assembler takes in a second or two: where a style has more, another one does with loops what that
 * one unrolls. Those of a product are several to one instruction of a matrix unit. Where no style has so few, some style may have less than all others. */
enum { MODEST_OPS = 32000, MODEST_PRODUCT_OPS = 100000, STEPS_OF_LIMIT = 4 };

/* Work on styles behind the first that lowers, in operations of the IR: about a second and a half at most. A trial has some for the parsing, one that is refused for its code those
 * that it had. */
enum { MOST_TRIED = 30000, TRIAL_OPS = 250, LARGE_OPS = 4000 };

typedef struct {
    sketchc_unit *unit;
    const sketchc_options *options;
    IrModule *module;
    size_t preferred; /* style */
    double margin;
    int64_t most_ops;         /* of a style; 0: no limit */
    DesignTrial first, least; /* of those that lower: in the order of preference, by predicted time */
    DesignTrial second;       /* by predicted time */
    int64_t tried;
    bool large; /* a style has more code than the limit */
} Choice;

/* ---- The order of preference ---- */

static bool has_product(const IrModule *module) {
    for (const IrFunc *f = module->first; f; f = f->next)
        for (const IrOp *op = f->body->first; op; op = op->next)
            if (design_is_matrix_product(op)) return true;
    return false;
}

/* Half the side of the smallest tile of those that have a turn; by prediction (docs/decisions/library-sketches.md). */
enum { FEW = 32 };

/* Of the largest case; an extent that no case tells is a large one. */
static bool is_few_along(const IrModule *module, const Aff *extent) {
    int64_t n;
    if (aff_is_const(extent, &n)) return n <= FEW;
    return case_within(module, extent, FEW);
}

static bool is_few(const IrModule *module, const IrType *t) {
    for (unsigned i = t->rank > 2 ? t->rank - 2 : 0; i < t->rank; i++)
        if (!is_few_along(module, t->extents[i])) return false;
    return true;
}

/* Is a product of more than a few elements along its axes? What the library has are tiles of matrix units, of which others would leave most idle. */
static bool has_large_product(const IrModule *module) {
    for (const IrFunc *f = module->first; f; f = f->next)
        for (const IrOp *op = f->body->first; op; op = op->next)
            if (design_is_matrix_product(op) &&
                !(is_few(module, op->results[0].type) && is_few(module, op->operands[0]->type) && is_few(module, op->operands[1]->type)))
                return true;
    return false;
}

static bool has_transposition(const IrModule *module) {
    for (const IrFunc *f = module->first; f; f = f->next)
        for (const IrOp *op = f->body->first; op; op = op->next)
            if (op->opcode == IR_GRAPH_TRANSPOSE) return true;
    return false;
}

static bool has_inner_products(Arena *arena, const IrModule *module) {
    for (const IrFunc *f = module->first; f; f = f->next)
        if (f->level == IR_LEVEL_GRAPH && design_has_inner_products(arena, f)) return true;
    return false;
}

static bool regroups_folds(IrModule *module) {
    for (IrFunc *f = module->first; f; f = f->next)
        if (f->level == IR_LEVEL_GRAPH && design_regroups_folds(module, f)) return true;
    return false;
}

static size_t style_named(const char *name) {
    size_t i = 0;
    while (i + 1 < design_style_count() && strcmp(design_style(i)->name, name) != 0) i++;
    return i;
}

enum { TURNS = 4 };

static bool is_of_library(size_t style) {
    DesignStaging staging = design_style(style)->staging;
    return staging == STAGE_LIBRARY || staging == STAGE_OWN || staging == STAGE_LIMITED;
}

static bool is_packed(size_t style) {
    return design_style(style)->staging == STAGE_PACKED;
}

/* When a style's turn is: the naive ones come last, those of convolutions early where the library is preferred, and nests of their own for folds where one nest
 * for all has too much code. What the library has is for matrix units: where it is not preferred it has no turn. */
static size_t turn_of(size_t style, size_t preferred, bool large) {
    const DesignStyle *s = design_style(style);
    if (style != preferred && is_of_library(style)) return is_of_library(preferred) ? 1 : TURNS;
    if (is_packed(style) && is_of_library(preferred)) return 1;
    return style == preferred ? 0 : s->naive ? 3 : large && s->staging >= STAGE_FOLDED ? 1 : 2;
}

static size_t preferred_style(sketchc_unit *unit, const sketchc_options *options, IrModule *module, bool products, bool blocks) {
    if (products && !api_for_processor(options) && has_large_product(module)) return style_named("library");
    if (regroups_folds(module)) return style_named("single_folds");
    if (has_inner_products(unit->arena, module)) return style_named("blocks_staged");
    return style_named(blocks ? "blocks" : "rows");
}

/* ---- The least time ---- */

static bool is_at_floor(const Choice *c) {
    return c->least.seconds > 0 && c->least.seconds * (1 - c->margin) <= c->least.floor_s;
}

/* Nothing is compared where no time is known. */
static bool is_decided(const Choice *c) {
    return c->first.text && (c->first.seconds < 0 || c->tried >= MOST_TRIED || is_at_floor(c));
}

static bool is_less(const DesignTrial *a, const DesignTrial *b) {
    return !b->text || a->seconds < b->seconds;
}

static void consider(Choice *c, const DesignTrial *t) {
    if (c->first.text) c->tried += (t->large ? LARGE_OPS : t->ops) + TRIAL_OPS;
    if (!t->text) return;
    bool sibling = is_packed(t->style) && is_packed(c->first.style) && t->seconds >= 0 && t->seconds < c->first.seconds;
    if (!c->first.text || sibling) c->first = *t; /* the same design in other blocks */
    if (t->seconds < 0) return;
    if (is_less(t, &c->least)) {
        c->second = c->least;
        c->least = *t;
    } else if (is_less(t, &c->second)) {
        c->second = *t;
    }
}

/* A sketch of the library is several launches, each with the maps behind the product. */
static int64_t limit_of(const Choice *c, size_t style) {
    return c->most_ops * (is_of_library(style) ? STEPS_OF_LIMIT : 1);
}

/* Those whose code is no larger than the limit. */
static void try_styles(Choice *c) {
    bool preferred_large = false;
    c->large = false;
    c->unit->reasons = NULL;
    for (size_t turn = 0; turn < TURNS; turn++)
        for (size_t i = 0; i < design_style_count() && !is_decided(c); i++) {
            DesignTrial trial = {.style = i, .seconds = -1};
            if (turn_of(i, c->preferred, preferred_large) != turn) continue;
            api_design_try(c->unit, c->options, limit_of(c, i), &trial);
            consider(c, &trial);
            c->large |= trial.large;
            if (turn == 0) preferred_large = trial.large;
        }
}

static bool is_much_less(const Choice *c) {
    return c->least.text && c->least.seconds < c->first.seconds * (1 - c->margin);
}

static bool take(const Choice *c) {
    const DesignTrial *taken = is_much_less(c) ? &c->least : &c->first;
    const DesignTrial *next = taken == &c->first && c->least.style != taken->style ? &c->least : &c->second;
    if (!taken->text) return false;
    c->unit->choice = (DesignChoice){.style = design_style(taken->style)->name,
                                     .rewrites = api_rewrites(c->unit, c->module, c->options, taken->style),
                                     .seconds = taken->seconds};
    if (next->text) c->unit->choice.next = design_style(next->style)->name, c->unit->choice.next_seconds = next->seconds;
    api_design_regions(c->unit, c->options, c->module, taken->style);
    return api_design_take(c->unit, taken->text, taken->size);
}

static bool choose(Choice *c, int64_t most_ops) {
    c->most_ops = most_ops;
    try_styles(c);
    return take(c);
}

bool api_design_missing(sketchc_unit *unit, const sketchc_options *options, IrModule *module) {
    if (options->design) return api_design_named(unit, options, module);
    /* In the module: what is asked of it below is also asked of the copy. */
    IrFunc *copy = api_rewritten(unit, module, options, style_named("blocks"), NULL);
    bool products = has_product(module), blocks = products || has_transposition(module);
    Choice c = {.unit = unit,
                .options = options,
                .module = module,
                .preferred = preferred_style(unit, options, module, products, blocks),
                .margin = products ? MARGIN_PRODUCTS : MARGIN_MEMORY};
    if (copy) ir_func_remove(copy);
    int64_t most = blocks ? MODEST_PRODUCT_OPS : MODEST_OPS;
    if (choose(&c, most)) return true;
    if (c.large && choose(&c, STEPS_OF_LIMIT * most)) return true; /* else a higher limit changes nothing */
    return c.large && choose(&c, 0);
}

static bool design_used(sketchc_unit *unit, const sketchc_options *options, IrModule *module) {
    size_t style;
    return api_use_style(unit, options, &style) && api_design_in(unit, options, module, style);
}

bool api_check_with_sketch(sketchc_unit *unit, const sketchc_options *options) {
    if (!api_check(unit, options)) return false;
    bool used = unit->file->used != NULL;
    if (unit->file->sketch || !unit->file->op || (options->sketch && !used)) return true;
    IrModule *module = api_build(unit);
    if (!module || !(used ? design_used : api_design_missing)(unit, options, module)) return !unit->diags.error_count;
    return api_check(unit, options);
}
