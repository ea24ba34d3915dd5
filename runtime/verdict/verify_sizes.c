/* Sizes worth a run: the sketch's tile sizes, the numbers in its text, where a kernel's versions take over
 * from each other, so that no version goes unverified because the declared cases miss it, and sizes that take the branches
 * of the sketch which no other takes. */
#include "verify_plan.h"

#include <string.h>

enum { LARGEST = 1 << 20 };

typedef struct {
    const Artifact *a;
    const Sizes *base;
    const char *name; /* as the operator calls it; it has `value`, the others their base size */
    int64_t value;
} Probe;

static bool size_of(void *ctx, const Aff *leaf, int64_t *value) {
    const Probe *p = ctx;
    int i = leaf->kind == AFF_SYM ? artifact_find_param(p->a, leaf->name) : -1;
    if (i < 0) return false;
    const ArtifactParam *param = &p->a->params[i];
    if (param->kind != ARTIFACT_SYMBOL) return false;
    bool of_launch = param->derived && param->derived->kind == AFF_SYM && strcmp(param->derived->name, param->name) == 0;
    if (of_launch) return false; /* known only where it runs */
    if (param->derived) return aff_eval(param->derived, size_of, ctx, value);
    const char *name = task_graph_name(param);
    for (size_t k = 0; k < p->base->count; k++)
        if (strcmp(p->base->values[k].name, name) == 0) {
            *value = strcmp(name, p->name) == 0 ? p->value : p->base->values[k].value;
            return true;
        }
    return false;
}

static bool holds(Probe *p, const Aff *guard, int64_t value, bool *known) {
    int64_t result = 0;
    p->value = value;
    if (!aff_eval(guard, size_of, p, &result)) *known = false;
    return result > 0;
}

/* The first extent at which the guard differs from extent 0, taken to differ from there on; 0: none
 * up to LARGEST. */
static int64_t boundary(Probe *p, const Aff *guard) {
    bool known = true;
    bool at_zero = holds(p, guard, 0, &known);
    if (holds(p, guard, LARGEST, &known) == at_zero || !known) return 0;
    int64_t same = 0, other = LARGEST;
    while (known && other - same > 1) {
        int64_t middle = same + (other - same) / 2;
        *(holds(p, guard, middle, &known) == at_zero ? &same : &other) = middle;
    }
    return known ? other : 0;
}

static void add(int64_t *tiles, size_t limit, size_t *count, int64_t value) {
    for (size_t i = 0; i < *count; i++)
        if (tiles[i] == value) return;
    if (*count < limit) tiles[(*count)++] = value;
}

size_t task_tile_sizes(const Artifact *a, const Sizes *base, int64_t *tiles, size_t limit) {
    size_t count = 0;
    for (size_t i = 0; i < a->constexpr_count; i++) {
        double value;
        if (parse_double(a->constexprs[i].value, &value) && value >= 2 && value <= 65536 && value == (double)(int64_t)value)
            add(tiles, limit, &count, (int64_t)value);
    }
    for (size_t i = 0; i < a->step_count; i++)
        for (size_t j = 0; j < a->steps[i].version_count; j++)
            for (size_t k = 0; a->steps[i].versions[j].guard && k < base->count; k++) {
                Probe p = {a, base, base->values[k].name, 0};
                int64_t at = boundary(&p, a->steps[i].versions[j].guard);
                if (at > 0) add(tiles, limit, &count, at);
            }
    return count;
}

/* ---- The sketch's branches ---- */

RtError task_read_sketch(TaskPlan *plan) {
    if (!plan->a->sketch) return rt_ok();
    DiagList diags;
    diag_list_init(&diags, plan->arena, source_map_create(plan->arena));
    IrModule *m = ir_parse(plan->arena, &diags, "sketch", plan->a->sketch, strlen(plan->a->sketch));
    if (!m || !ir_verify(m, &diags))
        return rt_error(RT_BAD_ARTIFACT, "the artifact's sketch is not valid: %.300s", diags.first ? diags.first->text : "");
    plan->sketch = m;
    plan->branches = branches_create(plan->arena, m);
    return rt_ok();
}

/* The sizes of the sketch's own symbols; those that only a device gives have none. */
static const Sizes *own_sizes(const TaskPlan *plan, Arena *arena, const Sizes *sizes, const IrCase *own) {
    const Artifact *a = plan->a;
    Binding b;
    Task task = {.sizes = sizes, .own = own, .data = plan->tasks[0].data};
    binding_init(&b, arena, a, 1, 1);
    RtError e = task_bind(plan, &task, &b);
    if (rt_failed(&e)) return NULL;
    Sizes *all = ARENA_NEW(arena, Sizes);
    all->values = ARENA_ARRAY(arena, SymbolValue, a->param_count + 1);
    for (size_t i = 0; i < a->param_count; i++) {
        const ArtifactParam *p = &a->params[i];
        bool of_launch = p->derived && p->derived->kind == AFF_SYM && strcmp(p->derived->name, p->name) == 0;
        if (p->kind != ARTIFACT_SYMBOL || of_launch) continue;
        all->values[all->count++] = (SymbolValue){p->name, b.symbols[i]};
    }
    return all;
}

void task_walk_branches(const TaskPlan *plan, const Sizes *sizes, const IrCase *own, uint8_t *seen) {
    Arena *scratch = arena_create();
    const Sizes *symbols = own_sizes(plan, scratch, sizes, own);
    if (symbols) branches_walk(plan->branches, symbols, seen);
    arena_destroy(scratch);
}

static bool is_anything_missing(const TaskPlan *plan, const uint8_t *seen) {
    for (size_t i = 0; i < branches_count(plan->branches); i++)
        if (branches_missing(plan->branches, i, seen)) return true;
    return false;
}

/* Tries sizes until every branch on sizes is taken, or for so long. */
static SizeList seek_branches(const TaskPlan *plan, const SizeList *before, const SizeLiterals *literals, int64_t max_elements) {
    enum { TRIES = 4000, MOST = 24 };
    size_t sites = branches_count(plan->branches);
    uint8_t *seen = ARENA_ARRAY(plan->arena, uint8_t, sites + 1), *next = ARENA_ARRAY(plan->arena, uint8_t, sites + 1);
    VEC(const Sizes *) found = {0};
    uint64_t state = plan->options->seed ^ UINT64_C(0x6272616E63686573);
    for (size_t i = 0; i < plan->count; i++)
        if (plan->tasks[i].sizes) task_walk_branches(plan, plan->tasks[i].sizes, plan->tasks[i].own, seen);
    for (size_t i = 0; i < before->count; i++) task_walk_branches(plan, before->sizes[i], NULL, seen);
    for (int try = 0; try < TRIES && found.len < MOST && is_anything_missing(plan, seen); try++) {
        const Sizes *sizes = samples_draw_sizes(plan->arena, plan->graph, plan->tasks[0].sizes, before, literals, max_elements, &state);
        if (!sizes) continue;
        bool news = false;
        memcpy(next, seen, sites);
        task_walk_branches(plan, sizes, NULL, next);
        for (size_t i = 0; i < sites; i++)
            news |= next[i] != seen[i] && (!seen[i] || (branches_missing(plan->branches, i, seen) & next[i]));
        if (!news) continue;
        memcpy(seen, next, sites);
        VEC_PUSH(plan->arena, &found, sizes);
    }
    return (SizeList){found.len, found.data};
}

static SizeList join_lists(Arena *arena, SizeList a, SizeList b) {
    SizeList both = {a.count + b.count, ARENA_ARRAY(arena, const Sizes *, a.count + b.count + 1)};
    if (a.count) memcpy(both.sizes, a.sizes, a.count * sizeof *a.sizes);
    if (b.count) memcpy(both.sizes + a.count, b.sizes, b.count * sizeof *b.sizes);
    return both;
}

SizeList task_more_sizes(TaskPlan *plan, int64_t max_elements) {
    enum { MAX_TILES = 32 };
    int64_t tiles[MAX_TILES];
    SizeList none = {0};
    SizeLiterals literals = {0};
    const Sizes *base = plan->count ? plan->tasks[0].sizes : NULL;
    if (!base) return none;
    size_t count = task_tile_sizes(plan->a, base, tiles, MAX_TILES);
    SizeList list = samples_ragged_sizes(plan->arena, plan->graph, base, count, tiles, max_elements);
    if (plan->sketch) branches_literals(plan->sketch, &literals);
    list = join_lists(plan->arena, list,
                      samples_middle_sizes(plan->arena, plan->graph, base, &list, &literals, max_elements, plan->options->seed));
    if (!plan->branches) return list;
    return join_lists(plan->arena, list, seek_branches(plan, &list, &literals, max_elements));
}
