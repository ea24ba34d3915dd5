/* The program of a seed: first the walks of the axes, then values over them, at last what is stored. */
#include "generate_internal.h"

#include <math.h>

/* ---- Axes ---- */

static const int64_t tiles[] = {1, 2, 3, 4, 5, 7, 8, 8, 16, 16, 17, 31, 32, 32, 33, 64, 128};

static void make_axis(RandomProgram *p, Rng *rng, Axis *axis, unsigned room) {
    *axis = (Axis){.constant = rng_chance(rng, 20),
                   .extent = rng_extent(rng, 64),
                   .named_tile = rng_chance(rng, 40),
                   .by_step = rng_chance(rng, 30),
                   .clipped = rng_chance(rng, 10),
                   .hint = rng_below(rng, 8)};
    unsigned walk = rng_below(rng, 10);
    axis->walk = walk < 2 ? WALK_ONE : walk < 7 ? WALK_TILES : WALK_WHOLE;
    do axis->tile = tiles[rng_below(rng, COUNT_OF(tiles))];
    while (axis->tile > room);
    if (axis->constant && !axis->extent) axis->extent = 1;
    (void)p;
}

/* Products of the extents that lie in one tile stay small: the passes unroll. */
static void make_axes(RandomProgram *p, Rng *rng) {
    unsigned room = 2048;
    p->rank = rng_chance(rng, 55) ? 2 : 1 + rng_below(rng, 4);
    p->axis_count = p->rank;
    for (unsigned i = 0; i < p->rank; i++) {
        make_axis(p, rng, &p->axes[i], room < 128 ? room : 128);
        Axis *a = &p->axes[i];
        if (a->walk == WALK_WHOLE && room < 256) a->walk = WALK_ONE;
        if (a->walk == WALK_TILES) room /= (unsigned)a->tile;
        if (a->walk == WALK_WHOLE) room /= a->constant ? (unsigned)a->extent : 64;
        if (room < 1) room = 1;
    }
    unsigned folded = rng_below(rng, p->rank);
    if (p->axes[folded].walk != WALK_WHOLE && rng_chance(rng, 40)) p->axes[folded].folded = true;
    for (unsigned i = 0; i < p->rank; i++) p->order[i] = i;
    for (unsigned i = 1; i < p->rank; i++) {
        unsigned j = rng_chance(rng, 30) ? rng_below(rng, i + 1) : i, kept = p->order[i];
        p->order[i] = p->order[j];
        p->order[j] = kept;
    }
}

/* ---- Values ---- */

static unsigned add_node(RandomProgram *p, Rng *rng, const Node *node) {
    p->nodes[p->node_count] = *node;
    p->nodes[p->node_count].style = (uint32_t)rng_next(rng);
    return p->node_count++;
}

static bool has_room(const RandomProgram *p, unsigned nodes) {
    return p->node_count + nodes < MAX_NODES;
}

static Dtype random_dtype(Rng *rng) {
    static const struct {
        Dtype dtype;
        unsigned weight;
    } rows[] = {
#define DTYPE_WEIGHT(id, weight) {DTYPE_##id, weight},
#include "weights.def"
    };
    unsigned total = 0;
    for (size_t i = 0; i < COUNT_OF(rows); i++) total += rows[i].weight;
    unsigned at = rng_below(rng, total);
    for (size_t i = 0;; i++) {
        if (at < rows[i].weight) return rows[i].dtype;
        at -= rows[i].weight;
    }
}

static bool is_bare(const Node *n) {
    return n->kind == NODE_NUMBER || n->kind == NODE_SCALAR || n->kind == NODE_EXTENT;
}

static unsigned make_tensor(RandomProgram *p, Rng *rng, bool complete) {
    Node n = {.kind = NODE_TENSOR, .dtype = random_dtype(rng), .magnitude = 8};
    unsigned first = complete || rng_chance(rng, 60) ? 0 : rng_below(rng, p->rank);
    for (unsigned i = first; i < p->rank; i++)
        n.form.dims[n.form.rank++] = (Dim){i, complete || rng_chance(rng, 75)};
    return add_node(p, rng, &n);
}

static unsigned make_number(RandomProgram *p, Rng *rng, double value, bool real) {
    Node n = {.kind = NODE_NUMBER,
              .dtype = real ? DTYPE_F32 : DTYPE_I32,
              .number = value,
              .magnitude = fabs(value),
              .least = value > 0 ? value : 0};
    return add_node(p, rng, &n);
}

static unsigned make_small_number(RandomProgram *p, Rng *rng, bool real) {
    static const double reals[] = {-2, -1, -0.5, 0, 0.25, 0.5, 1, 1.5, 2, 3, 0.1};
    return make_number(p, rng,
                       real ? reals[rng_below(rng, COUNT_OF(reals))] : rng_below(rng, 9) - 3.0,
                       real);
}

/* The value `op(operands)`; its dtype by the type rule. */
unsigned make_call(RandomProgram *p, Rng *rng, BuiltinId op, unsigned count, const unsigned *operands) {
    Node n = {.kind = NODE_CALL, .op = op, .operand_count = count};
    for (unsigned i = 0; i < count; i++) n.operands[i] = operands[i];
    call_type(p, &n);
    call_magnitude(p, &n);
    return add_node(p, rng, &n);
}

static unsigned call1(RandomProgram *p, Rng *rng, BuiltinId op, unsigned a) {
    return make_call(p, rng, op, 1, &a);
}
static unsigned call2(RandomProgram *p, Rng *rng, BuiltinId op, unsigned a, unsigned b) {
    return make_call(p, rng, op, 2, (unsigned[]){a, b});
}

/* Makes an operand meet the condition by operations in front of it. */
static unsigned fit(RandomProgram *p, Rng *rng, unsigned a, Need condition) {
    const Node *n = &p->nodes[a];
    bool real = dtype_is_float(n->dtype);
    double most = condition == NEED_UNIT ? 1 : 8;
    if (is_bare(n)) { /* a number among scalars is no tile: another number */
        bool fits = condition == NEED_ANY || (condition == NEED_POSITIVE && n->least > 0) ||
                    ((condition == NEED_SMALL || condition == NEED_UNIT) && n->magnitude <= most);
        return fits ? a : make_number(p, rng, 1 + rng_below(rng, 1 + (unsigned)most / 8), real);
    }
    switch (condition) {
    case NEED_POSITIVE:
        if (n->least >= 0.0625 || !real) return a;
        return call2(p, rng, BUILTIN_ADD, call1(p, rng, BUILTIN_ABS, a),
                     make_number(p, rng, 0.5, true));
    case NEED_COUNT:
        return call2(p, rng, BUILTIN_MOD, a, make_number(p, rng, 8, false));
    case NEED_SMALL:
    case NEED_UNIT:
        if (n->magnitude <= most || !real) return a;
        if (n->magnitude < 1e6)
            return call2(p, rng, BUILTIN_MUL, a,
                         make_number(p, rng, exp2(floor(log2(most / n->magnitude))), true));
        return call2(p, rng, BUILTIN_MIN,
                     call2(p, rng, BUILTIN_MAX, a, make_number(p, rng, -most, true)),
                     make_number(p, rng, most, true));
    default:
        return a;
    }
}

/* A random earlier value whose form lines up with `with` (null: any) and is no bare number. */
static bool pick(const RandomProgram *p, Rng *rng, const Form *with, Kinds kinds, unsigned *found) {
    unsigned fitting = 0;
    for (unsigned i = 0; i < p->node_count; i++) {
        const Node *n = &p->nodes[i];
        if (is_bare(n)) continue;
        if (!kinds_hold(kinds, n->dtype) || (with && !form_joins(&n->form, with))) continue;
        unsigned likely = i + 6 >= p->node_count ? 3 : 1; /* chains rather than bushes */
        fitting += likely;
        if (rng_below(rng, fitting) < likely) *found = i;
    }
    return fitting > 0;
}

static unsigned scalar_operand(RandomProgram *p, Rng *rng, bool real) {
    unsigned kind = rng_below(rng, 10);
    if (kind < 7) return make_small_number(p, rng, real);
    if (kind < 8) {
        unsigned axis = rng_below(rng, p->rank);
        Node n = {.kind = NODE_EXTENT, .dtype = DTYPE_I32, .axis = axis, .magnitude = 512};
        return add_node(p, rng, &n);
    }
    Node n = {.kind = NODE_SCALAR, .dtype = DTYPE_F32, .number = 1.5, .magnitude = 1.5, .least = 1.5};
    return real ? add_node(p, rng, &n) : make_small_number(p, rng, real);
}

static void make_condition(RandomProgram *p, Rng *rng, const Form *with, unsigned *condition) {
    static const BuiltinId compares[] = {BUILTIN_LT, BUILTIN_LE, BUILTIN_GT, BUILTIN_GE, BUILTIN_EQ,
                                         BUILTIN_NE};
    unsigned a = 0, b;
    if (!pick(p, rng, with, KINDS_NUMBER, &a)) return;
    bool real = dtype_is_float(p->nodes[a].dtype);
    if (rng_chance(rng, 50) || !pick(p, rng, with, KINDS_NUMBER, &b) ||
        !form_joins(&p->nodes[a].form, &p->nodes[b].form) || a == b)
        b = make_small_number(p, rng, real);
    /* equality of reals hangs on a rounding */
    *condition = call2(p, rng, compares[rng_below(rng, real ? 4 : 6)], a, b);
}

static void add_call(RandomProgram *p, Rng *rng) {
    const Operation *op = random_operation(rng);
    unsigned operands[MAX_OPERANDS] = {0};
    Form with = {0};
    for (unsigned i = 0; i < op->operand_count; i++) {
        bool condition = op->rule == RULE_WHERE && i == 0;
        if (!pick(p, rng, i ? &with : NULL, condition ? KINDS_NUMBER : op->kinds, &operands[i]))
            return;
        if (condition) make_condition(p, rng, NULL, &operands[0]);
        if (condition && p->nodes[operands[0]].dtype != DTYPE_BOOL) return;
        bool real = i && dtype_is_float(p->nodes[operands[i ? i - 1 : 0]].dtype);
        if (i && !condition && op->kinds != KINDS_BOOL && rng_chance(rng, 30))
            operands[i] = scalar_operand(p, rng, op->kinds != KINDS_INT && (real || op->real));
        if (i < 2) operands[i] = fit(p, rng, operands[i], op->needs[i]);
        if (!form_join(&with, &p->nodes[operands[i]].form, &with)) return;
    }
    make_call(p, rng, op->id, op->operand_count, operands);
}

static void add_cast(RandomProgram *p, Rng *rng) {
    unsigned a = 0;
    if (!pick(p, rng, NULL, KINDS_ANY, &a)) return;
    Dtype to = random_dtype(rng);
    if (p->nodes[a].dtype == to) return;
    if (dtype_is_float(to) && dtype_size(to) < 4) a = fit(p, rng, a, NEED_SMALL);
    Node n = {.kind = NODE_CAST, .dtype = to, .form = p->nodes[a].form, .operand_count = 1,
              .operands = {a}, .magnitude = p->nodes[a].magnitude, .least = 0};
    add_node(p, rng, &n);
}

/* A reduction along an axis that is whole, or folded. */
static void add_fold(RandomProgram *p, Rng *rng) {
    static const BuiltinId folds[] = {BUILTIN_REDUCE_SUM, BUILTIN_REDUCE_SUM,  BUILTIN_REDUCE_MAX,
                                      BUILTIN_REDUCE_MIN, BUILTIN_REDUCE_MEAN, BUILTIN_REDUCE_PROD};
    unsigned a = 0;
    if (!pick(p, rng, NULL, KINDS_NUMBER, &a)) return;
    const Form *form = &p->nodes[a].form;
    unsigned candidates[MAX_DOMAIN], count = 0;
    for (unsigned i = 0; i < form->rank; i++) {
        const Axis *axis = &p->axes[form->dims[i].axis];
        if (form->dims[i].full && (axis->walk == WALK_WHOLE || axis->folded))
            candidates[count++] = i;
    }
    if (!count) return;
    unsigned at = candidates[rng_below(rng, count)];
    Node n = {.kind = NODE_FOLD, .op = folds[rng_below(rng, COUNT_OF(folds))],
              .form = *form, .operand_count = 1, .axis = form->dims[at].axis,
              .keepdim = rng_chance(rng, 65)};
    if (n.op == BUILTIN_REDUCE_PROD) a = fit(p, rng, a, NEED_UNIT);
    n.operands[0] = a;
    n.dtype = p->nodes[a].dtype;
    if (n.op == BUILTIN_REDUCE_MEAN && !dtype_is_float(n.dtype)) n.dtype = DTYPE_F32;
    form_fold(&n.form, at, n.keepdim);
    bool grows = n.op == BUILTIN_REDUCE_SUM;
    n.magnitude = p->nodes[a].magnitude * (grows ? 64 : 1);
    n.least = n.op == BUILTIN_REDUCE_MEAN || n.op == BUILTIN_REDUCE_MAX ? p->nodes[a].least : 0;
    add_node(p, rng, &n);
}

/* A builtin that works along an axis in place (softmax): the axis must be whole. */
static void add_along(RandomProgram *p, Rng *rng) {
    const Operation *op = random_along(rng);
    unsigned a = 0;
    if (!op || !pick(p, rng, NULL, op->kinds, &a)) return;
    const Form *form = &p->nodes[a].form;
    for (unsigned i = 0; i < form->rank; i++) {
        unsigned axis = form->dims[i].axis;
        if (!form->dims[i].full || p->axes[axis].walk != WALK_WHOLE || rng_chance(rng, 20)) continue;
        a = fit(p, rng, a, NEED_SMALL);
        Node n = {.kind = NODE_ALONG, .op = op->id, .form = p->nodes[a].form,
                  .dtype = p->nodes[a].dtype, .operand_count = 1, .operands = {a}, .axis = axis,
                  .magnitude = 8};
        add_node(p, rng, &n);
        return;
    }
}

static void add_repeat(RandomProgram *p, Rng *rng) {
    static const BuiltinId ops[] = {BUILTIN_ADD, BUILTIN_MAX, BUILTIN_SUB, BUILTIN_MIN};
    unsigned a = 0, b = 0;
    if (!pick(p, rng, NULL, KINDS_NUMBER, &a)) return;
    if (!pick(p, rng, &p->nodes[a].form, KINDS_NUMBER, &b)) return;
    Node n = {.kind = NODE_REPEAT, .op = ops[rng_below(rng, COUNT_OF(ops))], .operand_count = 2,
              .operands = {a, b}, .rounds = 1 + rng_below(rng, 3)};
    call_type(p, &n);
    /* The carried tile must not change its shape or type. */
    if (!form_same(&n.form, &p->nodes[a].form) || n.dtype != p->nodes[a].dtype) return;
    n.magnitude = p->nodes[a].magnitude + n.rounds * p->nodes[b].magnitude;
    add_node(p, rng, &n);
}

/* ---- Products ---- */

/* Over the last two axes; those before them are walked one by one. */
static void add_product(RandomProgram *p, Rng *rng) {
    static const Dtype dtypes[] = {DTYPE_F32, DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    if (p->rank < 2 || p->axis_count == MAX_AXES) return;
    for (unsigned i = 0; i < p->rank; i++) {
        bool inner = i + 2 >= p->rank;
        if (inner == (p->axes[i].walk == WALK_ONE)) return;
    }
    Axis *k = &p->axes[p->axis_count];
    make_axis(p, rng, k, 64);
    if (k->walk == WALK_ONE) k->walk = WALK_TILES;
    Node n = {.kind = NODE_PRODUCT, .dtype = dtypes[rng_below(rng, COUNT_OF(dtypes))],
              .axis = p->axis_count++, .trans_a = rng_chance(rng, 25),
              .trans_b = rng_chance(rng, 35), .magnitude = 64};
    for (unsigned i = 0; i < p->rank; i++) n.form.dims[n.form.rank++] = (Dim){i, true};
    add_node(p, rng, &n);
}

/* ---- Results ---- */

static unsigned complete_value(RandomProgram *p, Rng *rng) {
    for (unsigned i = p->node_count; i-- > 0;)
        if (!is_bare(&p->nodes[i]) && p->nodes[i].form.rank && p->nodes[i].dtype != DTYPE_BOOL &&
            program_form_complete(p, &p->nodes[i].form) &&
            (p->nodes[i].kind != NODE_TENSOR || i == 0))
            return i;
    return make_tensor(p, rng, true);
}

static bool is_result(const RandomProgram *p, unsigned node) {
    for (unsigned i = 0; i < p->result_count; i++)
        if (p->results[i].node == node) return true;
    return false;
}

static void add_result(RandomProgram *p, Rng *rng, unsigned node) {
    Dtype dtype = p->nodes[node].dtype;
    if (is_result(p, node) || p->nodes[node].form.rank == 0) return;
    if (dtype_is_float(dtype) && rng_chance(rng, 25)) dtype = random_dtype(rng);
    bool narrow = !dtype_is_float(dtype) || dtype_size(dtype) < 4;
    if (dtype_is_float(p->nodes[node].dtype) && narrow && p->nodes[node].magnitude > 1e4)
        dtype = p->nodes[node].dtype;
    p->results[p->result_count++] = (Result){node, dtype};
}

static void make_results(RandomProgram *p, Rng *rng) {
    add_result(p, rng, complete_value(p, rng));
    for (unsigned tries = 0; tries < 6 && p->result_count < MAX_RESULTS; tries++) {
        unsigned node = rng_below(rng, p->node_count);
        const Node *n = &p->nodes[node];
        if (!is_bare(n) && n->dtype != DTYPE_BOOL && n->kind != NODE_TENSOR &&
            program_form_complete(p, &n->form) && rng_chance(rng, 40))
            add_result(p, rng, node);
    }
}

void program_generate(RandomProgram *p, uint64_t seed) {
    Rng rng = {(seed + 1) * UINT64_C(0xD1342543DE82EF95)};
    *p = (RandomProgram){.seed = seed};
    make_axes(p, &rng);
    make_tensor(p, &rng, true);
    for (unsigned extra = rng_below(&rng, 3); extra; extra--) make_tensor(p, &rng, false);
    if (rng_chance(&rng, 50)) add_product(p, &rng);
    unsigned steps = 1 + rng_below(&rng, rng_chance(&rng, 20) ? 16 : 7);
    for (unsigned i = 0; i < steps && has_room(p, 8); i++) {
        unsigned kind = rng_below(&rng, 100);
        if (kind < 62)
            add_call(p, &rng);
        else if (kind < 82)
            add_fold(p, &rng);
        else if (kind < 88)
            add_along(p, &rng);
        else if (kind < 93)
            add_cast(p, &rng);
        else
            add_repeat(p, &rng);
    }
    make_results(p, &rng);
    p->hints = rng_chance(&rng, 60);
    p->parallel = rng_chance(&rng, 50);
}
