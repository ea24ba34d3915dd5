/* Extents worth a ragged size: the sketch's tile sizes, and where a kernel's versions take over
 * from each other, so that no version goes unverified because the declared cases miss it. */
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
    bool of_launch = param->derived && param->derived->kind == AFF_SYM &&
                     strcmp(param->derived->name, param->name) == 0;
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
        if (parse_double(a->constexprs[i].value, &value) && value >= 2 && value <= 65536 &&
            value == (double)(int64_t)value)
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
