#include "sema/sema_internal.h"

#include "generate_internal.h"

#include <math.h>
#include <string.h>

enum { DEFAULT_WEIGHT = 4, ARENA_NAMES = BUILTIN_MAX_PARAMS };

typedef struct {
    BuiltinId id;
    unsigned weight;
    Kinds kinds;
    Need first, second;
} Row;
static const Row rows[] = {
#define OPERATION(id, weight, types, first, second) {BUILTIN_##id, weight, KINDS_##types, NEED_##first, NEED_##second},
#include "weights.def"
};

bool kinds_hold(Kinds kinds, Dtype dtype) {
    switch (kinds) {
    case KINDS_REAL:
        return dtype_is_float(dtype);
    case KINDS_INT:
        return dtype_is_int(dtype);
    case KINDS_BOOL:
        return dtype == DTYPE_BOOL;
    case KINDS_NUMBER:
        return dtype != DTYPE_BOOL;
    default:
        return dtype != DTYPE_BOOL;
    }
}

static unsigned operands_of_rule(BuiltinRule rule) {
    switch (rule) {
    case RULE_UNARY:
    case RULE_UNARY_REAL:
        return 1;
    case RULE_BINARY:
    case RULE_BINARY_REAL:
    case RULE_COMPARE:
    case RULE_LOGIC:
    case RULE_BITS:
        return 2;
    case RULE_TERNARY:
    case RULE_WHERE:
        return 3;
    default:
        return 0;
    }
}

/* Operands of the signature: `x`, and no `x?`, `x*` or destination. */
static unsigned operands_of_signature(const char *signature) {
    unsigned count = 0;
    for (const char *at = signature; *at;) {
        size_t length = strcspn(at, " ");
        count += *at != '>' && *at != '+' && strcspn(at, "=?*") >= length;
        at += length;
        at += *at == ' ';
    }
    return count;
}

static Kinds kinds_of_rule(BuiltinRule rule) {
    if (rule == RULE_LOGIC) return KINDS_BOOL;
    if (rule == RULE_BITS) return KINDS_INT;
    if (rule == RULE_DEFINED) return KINDS_REAL;
    return KINDS_ANY;
}

static bool make_operation(BuiltinId id, BuiltinClass class, Operation *op) {
    const BuiltinInfo *info = builtin_info(id);
    if (info->class != class) return false;
    *op = (Operation){.id = id,
                      .rule = info->rule,
                      .weight = DEFAULT_WEIGHT,
                      .operand_count = operands_of_signature(info->signature),
                      .kinds = kinds_of_rule(info->rule),
                      .real = info->rule == RULE_UNARY_REAL || info->rule == RULE_BINARY_REAL};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].id == id) {
            op->weight = rows[i].weight;
            if (rows[i].kinds != KINDS_ANY) op->kinds = rows[i].kinds;
            op->needs[0] = rows[i].first;
            op->needs[1] = rows[i].second;
        }
    return true;
}

typedef struct {
    bool ready;
    size_t count;
    unsigned total;
    Operation operations[BUILTIN_COUNT];
} Menu;

static const Operation *choose(Menu *menu, Rng *rng) {
    if (!menu->total) return NULL;
    unsigned at = rng_below(rng, menu->total);
    for (size_t i = 0;; i++) {
        if (at < menu->operations[i].weight) return &menu->operations[i];
        at -= menu->operations[i].weight;
    }
}

static void add_operation(Menu *menu, const Operation *op) {
    menu->operations[menu->count++] = *op;
    menu->total += op->weight;
}

const Operation *random_operation(Rng *rng) {
    static Menu menu;
    for (int id = 1; id < BUILTIN_COUNT && !menu.ready; id++) {
        Operation op;
        if (make_operation((BuiltinId)id, CLASS_ELEMENTWISE, &op) && op.operand_count && op.rule != RULE_CAST &&
            (operands_of_rule(op.rule) || op.rule == RULE_DEFINED || op.operand_count == 1) && op.operand_count <= MAX_OPERANDS)
            add_operation(&menu, &op);
    }
    menu.ready = true;
    return choose(&menu, rng);
}

static bool keeps_shape(const Operation *op) {
    bool rule = op->rule == RULE_SAME_SHAPE || op->rule == RULE_DEFINED;
    return rule && op->operand_count == 1 && !strstr(builtin_info(op->id)->signature, "keepdim");
}

const Operation *random_along(Rng *rng, bool bounded, bool constant) {
    static Menu menus[3];
    static const BuiltinClass classes[] = {CLASS_COMPOSITE, CLASS_SCAN, CLASS_SORT, CLASS_MOVE};
    unsigned which = constant && bounded ? 2 : bounded;
    Menu *menu = &menus[which];
    for (int id = 1; id < BUILTIN_COUNT && !menu->ready; id++)
        for (size_t c = 0; c < 2 + which; c++) {
            Operation op;
            if (!make_operation((BuiltinId)id, classes[c], &op) || !keeps_shape(&op)) continue;
            if (classes[c] == CLASS_COMPOSITE) op.kinds = KINDS_REAL;
            if (classes[c] == CLASS_COMPOSITE || classes[c] == CLASS_SCAN) op.needs[0] = NEED_SMALL;
            add_operation(menu, &op);
        }
    menu->ready = true;
    return choose(menu, rng);
}

static bool reduces(const Operation *op) {
    return op->rule == RULE_REDUCE || op->rule == RULE_REDUCE_REAL || op->rule == RULE_ARG_REDUCE ||
           (op->rule == RULE_DEFINED && strstr(builtin_info(op->id)->signature, "keepdim"));
}

/* Chunks join by one operation: no index, no definition. */
static bool joins_chunks(const Operation *op) {
    return op->rule == RULE_REDUCE || op->rule == RULE_REDUCE_REAL;
}

const Operation *random_fold(Rng *rng, bool whole) {
    static Menu menus[2];
    static const BuiltinClass classes[] = {CLASS_REDUCE, CLASS_COMPOSITE};
    Menu *menu = &menus[whole];
    for (int id = 1; id < BUILTIN_COUNT && !menu->ready; id++)
        for (size_t c = 0; c < COUNT_OF(classes); c++) {
            Operation op;
            if (!make_operation((BuiltinId)id, classes[c], &op) || !reduces(&op)) continue;
            if (!whole && !joins_chunks(&op)) continue;
            if (op.rule == RULE_DEFINED) op.kinds = KINDS_REAL;
            if (op.kinds == KINDS_ANY) op.kinds = KINDS_NUMBER;
            add_operation(menu, &op);
        }
    menu->ready = true;
    return rng->biased ? &menu->operations[rng_below(rng, (unsigned)menu->count)] : choose(menu, rng);
}

/* ---- Types ---- */

/* Of no type of its own, but for the class. */
static bool is_scalar(const Node *n) {
    return node_is_bare(n) && n->kind != NODE_RANDOM && n->kind != NODE_IOTA;
}

static Dtype join(const RandomProgram *p, const Node *n, unsigned from) {
    Dtype strong = DTYPE_NONE, weak = DTYPE_NONE;
    for (unsigned i = from; i < n->operand_count; i++) {
        const Node *operand = &p->nodes[n->operands[i]];
        Dtype *to = is_scalar(operand) ? &weak : &strong;
        *to = dtype_join(*to, operand->dtype);
    }
    if (strong == DTYPE_NONE) return weak;
    bool raised = weak == DTYPE_F32 && !dtype_is_float(strong);
    return raised ? DTYPE_F32 : strong;
}

/* A definition that compares, and chooses nothing by it, gives a truth value. */
static bool is_test(BuiltinId op) {
    const BuiltinInfo *info = builtin_info(op);
    return info->rule == RULE_DEFINED && strpbrk(info->ir, "<>!") && !strstr(info->ir, "where");
}

void call_type(const RandomProgram *p, Node *n) {
    BuiltinRule rule = builtin_info((BuiltinId)n->op)->rule;
    n->form = p->nodes[n->operands[0]].form;
    for (unsigned i = 1; i < n->operand_count; i++) form_join(&n->form, &p->nodes[n->operands[i]].form, &n->form);
    n->dtype = join(p, n, rule == RULE_WHERE);
    bool real = rule == RULE_UNARY_REAL || rule == RULE_BINARY_REAL;
    if (real && !dtype_is_float(n->dtype)) n->dtype = DTYPE_F32;
    if (rule == RULE_COMPARE || rule == RULE_LOGIC || is_test((BuiltinId)n->op)) n->dtype = DTYPE_BOOL;
}

void call_magnitude(const RandomProgram *p, Node *n) {
    double m[MAX_OPERANDS] = {0}, least[MAX_OPERANDS] = {0};
    for (unsigned i = 0; i < n->operand_count; i++) {
        m[i] = p->nodes[n->operands[i]].magnitude;
        least[i] = p->nodes[n->operands[i]].least;
    }
    n->magnitude = 2 * fmax(m[0], fmax(m[1], m[2]));
    n->least = 0;
    switch (n->op) {
    case BUILTIN_ADD:
        n->magnitude = m[0] + m[1];
        n->least = least[0] > 0 && least[1] > 0 ? least[0] + least[1] : 0;
        /* |x| + 0.5, as `fit` makes it */
        if (p->nodes[n->operands[0]].op == BUILTIN_ABS && least[1] > 0) n->least = least[1];
        break;
    case BUILTIN_MUL:
        n->magnitude = m[0] * m[1];
        break;
    case BUILTIN_DIV:
        n->magnitude = m[0] / (least[1] > 0 ? least[1] : 0.0625);
        break;
    case BUILTIN_FMA:
        n->magnitude = m[0] * m[1] + m[2];
        break;
    case BUILTIN_EXP:
    case BUILTIN_EXP2:
        n->magnitude = exp(fmin(m[0], 88));
        break;
    case BUILTIN_SQRT:
        n->magnitude = sqrt(m[0]);
        n->least = sqrt(least[0]);
        break;
    case BUILTIN_MIN:
        n->magnitude = fmax(m[0], m[1]);
        break;
    case BUILTIN_MAX:
        n->magnitude = fmax(m[0], m[1]);
        n->least = fmax(least[0], least[1]);
        break;
    case BUILTIN_ABS:
        n->magnitude = m[0];
        break;
    default:
        break;
    }
}
