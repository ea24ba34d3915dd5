/* The program of a seed: first the walks of the axes, then values over them, at last what is stored. */
#include "generate_internal.h"

#include <math.h>

/* ---- Axes ---- */

static const int64_t tiles[] = {1, 2, 3, 4, 5, 7, 8, 8, 16, 16, 17, 31, 32, 32, 33, 64, 128};

void make_axis(Rng *rng, Axis *axis, unsigned room) {
    *axis = (Axis){.constant = rng_chance(rng, 25),
                   .extent = rng_extent(rng, 64),
                   .named_tile = rng_chance(rng, 40),
                   .by_step = rng_chance(rng, 30),
                   .clipped = rng_chance(rng, 10),
                   .hint = rng_below(rng, 8)};
    unsigned walk = rng_below(rng, 10);
    axis->walk = walk < 2 ? WALK_ONE : walk < 7 ? WALK_TILES : WALK_WHOLE;
    if (rng->biased) axis->walk = walk < 6 ? WALK_TILES : WALK_WHOLE;
    do axis->tile = tiles[rng_below(rng, COUNT_OF(tiles))];
    while (axis->tile > room || (rng->biased && axis->tile < 4 && room >= 4));
    if (axis->constant && !axis->extent) axis->extent = 1;
    if (!axis->constant && axis->walk == WALK_WHOLE && rng_chance(rng, 25)) axis->most = INT64_C(1) << (2 + rng_below(rng, 6));
}

/* Lanes of such a tile can be mistaken for those of its transpose. */
static void make_square(Axis *before, Axis *a, unsigned room) {
    if (before->walk == WALK_ONE || before->tile > room) return;
    a->walk = before->walk;
    a->tile = before->tile;
    if (a->walk == WALK_TILES) return;
    before->constant = a->constant = true;
    before->extent = a->extent = 2 + before->extent % 15;
    before->most = a->most = 0;
}

/* Products of the extents that lie in one tile stay small: the passes unroll. */
static void make_axes(RandomProgram *p, Rng *rng) {
    unsigned room = 2048;
    p->rank = rng_chance(rng, 55) ? 2 : 1 + rng_below(rng, 4);
    p->axis_count = p->rank;
    for (unsigned i = 0; i < p->rank; i++) {
        make_axis(rng, &p->axes[i], room < 128 ? room : 128);
        Axis *a = &p->axes[i];
        if (rng->biased && i + 1 == p->rank && a->tile < 32 && room >= 32) a->tile = 32;
        if (rng->biased && i && rng_chance(rng, 35)) make_square(a - 1, a, room);
        if (a->walk == WALK_WHOLE && room < 256) a->walk = WALK_ONE;
        if (a->walk == WALK_TILES) room /= (unsigned)a->tile;
        if (a->walk == WALK_WHOLE) room /= a->constant ? (unsigned)a->extent : a->most ? (unsigned)a->most : 64;
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

/* Only a tile of an axis can have lanes outside of the tensor. */
static unsigned exact_axes(const RandomProgram *p, const Form *form) {
    unsigned bits = 0;
    for (unsigned i = 0; i < form->rank; i++)
        if (form->dims[i].full) bits |= 1u << form->dims[i].axis;
    for (unsigned i = 0; i < p->axis_count; i++)
        if (p->axes[i].walk != WALK_TILES) bits |= 1u << i;
    return bits;
}

/* Lanes are absent where they are in one of the operands. */
static unsigned strict_axes(const RandomProgram *p, const Node *n) {
    Form none = {0};
    unsigned bits = exact_axes(p, &none);
    bool loads = n->kind == NODE_TENSOR || n->kind == NODE_VIEW;
    if (loads && !n->padded) return exact_axes(p, &n->form);
    if (n->kind == NODE_CONCAT) return p->nodes[n->operands[0]].strict & p->nodes[n->operands[1]].strict;
    if (node_is_bare(n)) return bits;
    for (unsigned i = 0; i < n->operand_count; i++) bits |= p->nodes[n->operands[i]].strict;
    return bits;
}

unsigned add_node(RandomProgram *p, Rng *rng, const Node *node) {
    p->nodes[p->node_count] = *node;
    p->nodes[p->node_count].strict = strict_axes(p, node);
    p->nodes[p->node_count].style = (uint32_t)rng_next(rng);
    return p->node_count++;
}

bool has_room(const RandomProgram *p, unsigned nodes) {
    return p->node_count + nodes < MAX_NODES;
}

Dtype random_dtype(Rng *rng) {
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

void choose_data(Rng *rng, Node *n) {
    static const struct {
        unsigned weight;
        double magnitude, least;
        unsigned rank;
    } rows[] = {
#define DATA(weight, magnitude, least, rank, text) {weight, magnitude, least, rank},
#include "weights.def"
    };
    unsigned total = 0, row = 0;
    for (size_t i = 0; i < COUNT_OF(rows); i++) total += rows[i].weight;
    unsigned at = rng_below(rng, total);
    while (at >= rows[row].weight) at -= rows[row++].weight;
    while (rng->biased && row == 0 && rng_chance(rng, 60)) row = 1 + rng_below(rng, 2); /* of one sign */
    if (rows[row].rank > n->form.rank || rows[row].magnitude > dtype_max(n->dtype)) row = 0;
    n->data = row;
    n->magnitude = dtype_is_float(n->dtype) ? rows[row].magnitude : 8;
    n->least = dtype_is_float(n->dtype) ? rows[row].least : 0;
}

Form domain_form(const RandomProgram *p) {
    Form form = {.rank = p->rank};
    for (unsigned i = 0; i < p->rank; i++) form.dims[i] = (Dim){i, true};
    return form;
}

static unsigned make_tensor(RandomProgram *p, Rng *rng, bool complete) {
    Node n = {.kind = NODE_TENSOR, .dtype = random_dtype(rng), .magnitude = 8};
    unsigned first = complete || rng_chance(rng, 60) ? 0 : rng_below(rng, p->rank);
    for (unsigned i = first; i < p->rank; i++) n.form.dims[n.form.rank++] = (Dim){i, complete || rng_chance(rng, 75)};
    choose_data(rng, &n);
    n.padded = !complete && rng_chance(rng, 15);
    n.number = rng_below(rng, 5);
    return add_node(p, rng, &n);
}

unsigned make_number(RandomProgram *p, Rng *rng, double value, bool real) {
    Node n = {.kind = NODE_NUMBER,
              .dtype = real ? DTYPE_F32 : DTYPE_I32,
              .number = value,
              .magnitude = fabs(value),
              .least = value > 0 ? value : 0};
    return add_node(p, rng, &n);
}

static unsigned make_small_number(RandomProgram *p, Rng *rng, bool real) {
    static const double reals[] = {-2, -1, -0.5, 0, 0.25, 0.5, 1, 1.5, 2, 3, 0.1};
    return make_number(p, rng, real ? reals[rng_below(rng, COUNT_OF(reals))] : rng_below(rng, 9) - 3.0, real);
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

unsigned fit_operand(RandomProgram *p, Rng *rng, unsigned a, Need condition) {
    const Node *n = &p->nodes[a];
    bool real = dtype_is_float(n->dtype);
    double most = condition == NEED_UNIT ? 1 : 8;
    if (node_is_bare(n)) { /* a number among scalars is no tile: another number */
        bool fits = condition == NEED_ANY || (condition == NEED_POSITIVE && n->least > 0) ||
                    ((condition == NEED_SMALL || condition == NEED_UNIT) && n->magnitude <= most);
        return fits ? a : make_number(p, rng, 1 + rng_below(rng, 1 + (unsigned)most / 8), real);
    }
    switch (condition) {
    case NEED_POSITIVE:
        if (n->least >= 0.0625 || !real) return a;
        return call2(p, rng, BUILTIN_ADD, call1(p, rng, BUILTIN_ABS, a), make_number(p, rng, 0.5, true));
    case NEED_COUNT:
        return call2(p, rng, BUILTIN_MOD, a, make_number(p, rng, 8, false));
    case NEED_SMALL:
    case NEED_UNIT:
        if (n->magnitude <= most || !real) return a;
        if (n->magnitude < 1e6) return call2(p, rng, BUILTIN_MUL, a, make_number(p, rng, exp2(floor(log2(most / n->magnitude))), true));
        return call2(p, rng, BUILTIN_MIN, call2(p, rng, BUILTIN_MAX, a, make_number(p, rng, -most, true)), make_number(p, rng, most, true));
    default:
        return a;
    }
}

bool pick_value(const RandomProgram *p, Rng *rng, const Form *with, Kinds kinds, unsigned *found) {
    unsigned fitting = 0, picked = 0;
    for (unsigned i = 0; i < p->node_count; i++) {
        const Node *n = &p->nodes[i];
        if (node_is_bare(n)) continue;
        if (!kinds_hold(kinds, n->dtype) || (with && !form_joins(&n->form, with))) continue;
        unsigned likely = i + 6 >= p->node_count ? 3 : 1; /* chains rather than bushes */
        fitting += likely;
        if (rng_below(rng, fitting) < likely) picked = i;
    }
    if (fitting) *found = picked;
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

/* False: nothing to compare lines up with the form; `condition` is as it was. */
static bool make_condition(RandomProgram *p, Rng *rng, const Form *with, unsigned *condition) {
    static const BuiltinId compares[] = {BUILTIN_LT, BUILTIN_LE, BUILTIN_GT, BUILTIN_GE, BUILTIN_EQ, BUILTIN_NE};
    unsigned a = 0, b = 0;
    if (rng_chance(rng, 25) && pick_value(p, rng, with, KINDS_BOOL, condition)) return true;
    if (!pick_value(p, rng, with, KINDS_NUMBER, &a)) return false;
    bool real = dtype_is_float(p->nodes[a].dtype);
    if (rng_chance(rng, 50) || !pick_value(p, rng, with, KINDS_NUMBER, &b) || !form_joins(&p->nodes[a].form, &p->nodes[b].form) || a == b)
        b = make_small_number(p, rng, real);
    /* equality of reals hangs on a rounding */
    *condition = call2(p, rng, compares[rng_below(rng, real ? 4 : 6)], a, b);
    return true;
}

static void add_call(RandomProgram *p, Rng *rng) {
    const Operation *op = random_operation(rng);
    unsigned operands[MAX_OPERANDS] = {0};
    Form with = {0};
    for (unsigned i = 0; i < op->operand_count; i++) {
        bool condition = op->rule == RULE_WHERE && i == 0;
        const Form *lining = i ? &with : NULL;
        if (!pick_value(p, rng, lining, condition ? KINDS_NUMBER : op->kinds, &operands[i])) {
            if (op->kinds != KINDS_BOOL || !has_room(p, 8)) return;
            if (!make_condition(p, rng, lining, &operands[i])) return;
        }
        if (condition && !make_condition(p, rng, NULL, &operands[0])) return;
        bool real = i && dtype_is_float(p->nodes[operands[i ? i - 1 : 0]].dtype);
        if (i && !condition && op->kinds != KINDS_BOOL && rng_chance(rng, 30))
            operands[i] = scalar_operand(p, rng, op->kinds != KINDS_INT && (real || op->real));
        if (i < 2) operands[i] = fit_operand(p, rng, operands[i], op->needs[i]);
        if (!form_join(&with, &p->nodes[operands[i]].form, &with)) return;
    }
    make_call(p, rng, op->id, op->operand_count, operands);
}

static void add_cast(RandomProgram *p, Rng *rng) {
    unsigned a = 0;
    bool truth = rng_chance(rng, 20);
    if (!pick_value(p, rng, NULL, truth ? KINDS_BOOL : KINDS_ANY, &a)) return;
    Dtype to = random_dtype(rng);
    if (p->nodes[a].dtype == to || !has_room(p, 8)) return;
    if (dtype_is_float(to) && dtype_size(to) < 4) a = fit_operand(p, rng, a, NEED_SMALL);
    Node n = {.kind = NODE_CAST,
              .dtype = to,
              .form = p->nodes[a].form,
              .operand_count = 1,
              .operands = {a},
              .magnitude = p->nodes[a].magnitude,
              .least = 0,
              .saturate = rng_chance(rng, 25)};
    add_node(p, rng, &n);
}

static Dtype fold_dtype(const Operation *op, Dtype from) {
    if (op->rule == RULE_ARG_REDUCE) return DTYPE_I64;
    bool real = op->rule == RULE_REDUCE_REAL || op->rule == RULE_DEFINED;
    return real && !dtype_is_float(from) ? DTYPE_F32 : from;
}

/* A reduction along an axis that is whole, or folded: then lanes outside of the tensor must be absent. */
static void add_fold(RandomProgram *p, Rng *rng) {
    const Operation *op = random_fold(rng, true);
    unsigned a = 0;
    if (!has_room(p, 8) || !pick_value(p, rng, NULL, op->kinds, &a)) return;
    const Form *form = &p->nodes[a].form;
    unsigned candidates[MAX_DOMAIN], count = 0;
    for (unsigned i = 0; i < form->rank; i++) {
        const Axis *axis = &p->axes[form->dims[i].axis];
        bool strict = p->nodes[a].strict & 1u << form->dims[i].axis;
        if (form->dims[i].full && (axis->walk == WALK_WHOLE || (axis->folded && strict))) candidates[count++] = i;
    }
    if (!count) return;
    unsigned at = candidates[rng_below(rng, count)];
    if (p->axes[form->dims[at].axis].walk != WALK_WHOLE) {
        op = random_fold(rng, false);
        if (!kinds_hold(op->kinds, p->nodes[a].dtype)) return;
    }
    Node n = {
        .kind = NODE_FOLD, .op = op->id, .form = *form, .operand_count = 1, .axis = form->dims[at].axis, .keepdim = rng_chance(rng, 65)};
    a = fit_operand(p, rng, a, op->needs[0]);
    n.operands[0] = a;
    n.dtype = fold_dtype(op, p->nodes[a].dtype);
    form_fold(&n.form, at, n.keepdim);
    n.magnitude = p->nodes[a].magnitude * (n.op == BUILTIN_REDUCE_SUM ? 64 : 1);
    if (op->rule == RULE_ARG_REDUCE) n.magnitude = 8192;
    n.least = n.op == BUILTIN_REDUCE_MEAN || n.op == BUILTIN_REDUCE_MAX ? p->nodes[a].least : 0;
    add_node(p, rng, &n);
}

/* A builtin that works along an axis in place (softmax): the axis must be whole. */
static void add_along(RandomProgram *p, Rng *rng) {
    unsigned a = 0, dims[MAX_DOMAIN], count = 0;
    for (unsigned tries = 0; tries < 4 && !count; tries++) {
        if (!has_room(p, 8) || !pick_value(p, rng, NULL, KINDS_NUMBER, &a)) return;
        const Form *form = &p->nodes[a].form;
        for (unsigned i = 0; i < form->rank; i++)
            if (form->dims[i].full && p->axes[form->dims[i].axis].walk == WALK_WHOLE) dims[count++] = i;
    }
    if (!count) return;
    unsigned axis = p->nodes[a].form.dims[dims[rng_below(rng, count)]].axis;
    const Axis *along = &p->axes[axis];
    bool bounded = along->constant ? along->extent <= 64 : along->most && along->most <= 64;
    const Operation *op = random_along(rng, bounded, along->constant);
    if (!kinds_hold(op->kinds, p->nodes[a].dtype)) return;
    bool grows = builtin_info(op->id)->class == CLASS_SCAN || op->kinds == KINDS_REAL;
    if (grows) a = fit_operand(p, rng, a, op->needs[0]);
    Node n = {.kind = NODE_ALONG,
              .op = op->id,
              .form = p->nodes[a].form,
              .dtype = p->nodes[a].dtype,
              .operand_count = 1,
              .operands = {a},
              .axis = axis,
              .reverse = rng_chance(rng, 40),
              .exclusive = rng_chance(rng, 30),
              .magnitude = op->id == BUILTIN_CUMSUM ? 512 : fmax(8, p->nodes[a].magnitude)};
    add_node(p, rng, &n);
}

static void add_repeat(RandomProgram *p, Rng *rng) {
    static const BuiltinId ops[] = {BUILTIN_ADD, BUILTIN_MAX, BUILTIN_SUB, BUILTIN_MIN};
    unsigned a = 0, b = 0;
    if (!pick_value(p, rng, NULL, KINDS_NUMBER, &a)) return;
    if (!pick_value(p, rng, &p->nodes[a].form, KINDS_NUMBER, &b)) return;
    Node n = {.kind = NODE_REPEAT,
              .op = ops[rng_below(rng, COUNT_OF(ops))],
              .operand_count = 2,
              .operands = {a, b},
              .rounds = 1 + rng_below(rng, 3)};
    call_type(p, &n);
    /* The carried tile must not change its shape or type. */
    if (!form_same(&n.form, &p->nodes[a].form) || n.dtype != p->nodes[a].dtype) return;
    n.swapped = node_is_square(p, &n) && rng_chance(rng, 60);
    n.magnitude = p->nodes[a].magnitude + n.rounds * p->nodes[b].magnitude;
    add_node(p, rng, &n);
}

/* ---- Products ---- */

/* Over the last two axes; those before them make a batch, of the first factor only when the second is
 * shared. */
static void add_product(RandomProgram *p, Rng *rng) {
    static const Dtype dtypes[] = {DTYPE_F32, DTYPE_F32, DTYPE_F16, DTYPE_F16, DTYPE_BF16, DTYPE_I8};
    if (p->rank < 2 || p->axis_count == MAX_AXES) return;
    for (unsigned i = p->rank - 2; i < p->rank; i++)
        if (p->axes[i].walk == WALK_ONE) return;
    Axis *k = &p->axes[p->axis_count];
    make_axis(rng, k, 64);
    if (k->walk == WALK_ONE) k->walk = WALK_TILES;
    Node n = {.kind = NODE_PRODUCT,
              .dtype = dtypes[rng_below(rng, COUNT_OF(dtypes))],
              .axis = p->axis_count++,
              .trans_a = rng_chance(rng, 25),
              .trans_b = rng_chance(rng, 35),
              .magnitude = 64,
              .batched_b = rng_chance(rng, 60),
              .padded = rng_chance(rng, 20)};
    if (n.dtype == DTYPE_I8) { /* factors of 8 bits, summed in 32 */
        n.dtype = DTYPE_I32;
        n.magnitude = 4096;
    }
    for (unsigned i = 0; i < p->rank; i++) n.form.dims[n.form.rank++] = (Dim){i, true};
    add_node(p, rng, &n);
}

/* ---- Results ---- */

static unsigned complete_value(RandomProgram *p, Rng *rng) {
    for (unsigned i = p->node_count; i-- > 0;)
        if (!node_is_bare(&p->nodes[i]) && p->nodes[i].form.rank && program_form_complete(p, &p->nodes[i].form) &&
            (p->nodes[i].kind != NODE_TENSOR || i == 0))
            return i;
    return make_tensor(p, rng, true);
}

static bool is_result(const RandomProgram *p, unsigned node) {
    for (unsigned i = 0; i < p->result_count; i++)
        if (p->results[i].node == node) return true;
    return false;
}

/* The type of a result: a narrower one where it holds the values. */
static Dtype result_dtype(Rng *rng, const Node *n) {
    if (dtype_is_float(n->dtype) && n->magnitude > dtype_max(n->dtype) / 2 && !node_is_indexed(n))
        return n->dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
    if (!dtype_is_float(n->dtype) || node_is_indexed(n) || !rng_chance(rng, 25)) return n->dtype;
    Dtype dtype = random_dtype(rng);
    return n->magnitude > fmin(1e4, dtype_max(dtype)) ? n->dtype : dtype;
}

static void add_result(RandomProgram *p, Rng *rng, unsigned node) {
    const Node *n = &p->nodes[node];
    if (is_result(p, node) || n->form.rank == 0 || p->result_count == MAX_RESULTS) return;
    p->results[p->result_count++] = (Result){.node = node, .dtype = result_dtype(rng, n)};
}

static void make_results(RandomProgram *p, Rng *rng) {
    for (unsigned i = 0; i < p->node_count; i++)
        if (node_is_indexed(&p->nodes[i])) add_result(p, rng, i);
    unsigned most = p->result_count + 3 < MAX_RESULTS ? p->result_count + 3 : MAX_RESULTS;
    add_result(p, rng, complete_value(p, rng));
    for (unsigned tries = 0; tries < 6 && p->result_count < most; tries++) {
        unsigned node = rng_below(rng, p->node_count);
        const Node *n = &p->nodes[node];
        if (!node_is_bare(n) && n->kind != NODE_TENSOR && program_form_complete(p, &n->form) && rng_chance(rng, 40))
            add_result(p, rng, node);
    }
}

static void bound(Axis *a) {
    if (a->walk == WALK_WHOLE && !a->constant && !a->most) a->most = 64;
}

/* What a scan takes along from chunk to chunk has all lanes of the other axes, and in a loop that folds, all lanes of
 * its own are made in an iteration: they are known to be few. */
static void bound_scanned(RandomProgram *p) {
    for (unsigned i = 0; i < p->node_count; i++) {
        const Node *n = &p->nodes[i];
        if (n->kind != NODE_ALONG || builtin_info(n->op)->class != CLASS_SCAN || p->axes[n->axis].constant) continue;
        if (program_folded(p) < MAX_AXES) bound(&p->axes[n->axis]);
        for (unsigned k = 0; k < n->form.rank; k++)
            if (n->form.dims[k].full && n->form.dims[k].axis != n->axis) bound(&p->axes[n->form.dims[k].axis]);
    }
}

static void generate(RandomProgram *p, uint64_t seed, bool biased) {
    Rng rng = {(seed + 1) * UINT64_C(0xD1342543DE82EF95), biased};
    *p = (RandomProgram){.seed = seed, .cut = MAX_NODES, .biased = biased};
    make_axes(p, &rng);
    make_tensor(p, &rng, true);
    for (unsigned extra = rng_below(&rng, 3); extra; extra--) make_tensor(p, &rng, false);
    if (rng_chance(&rng, biased ? 20 : 45)) add_product(p, &rng);
    for (unsigned own = rng_below(&rng, 3); own; own--) add_own_input(p, &rng);
    unsigned steps = 1 + rng_below(&rng, biased ? 4 : rng_chance(&rng, 20) ? 16 : 7);
    for (unsigned i = 0; i < steps && has_room(p, 10); i++) {
        unsigned kind = rng_below(&rng, 100);
        if (biased && rng_chance(&rng, 40)) kind = rng_chance(&rng, 70) ? 50 : 80; /* a fold, a loop */
        if (kind < 48)
            add_call(p, &rng);
        else if (kind < 66)
            add_fold(p, &rng);
        else if (kind < 75)
            add_along(p, &rng);
        else if (kind < 80)
            add_cast(p, &rng);
        else if (kind < 84)
            add_repeat(p, &rng);
        else
            add_movement(p, &rng);
    }
    add_recurrences(p);
    bound_scanned(p);
    make_results(p, &rng);
    add_store_kinds(p, &rng);
    add_cut(p, &rng);
    add_in_place(p);
    p->hints = rng_chance(&rng, 60);
    p->parallel = rng_chance(&rng, 50);
}

void program_generate(RandomProgram *p, uint64_t seed) {
    generate(p, seed, false);
}

void program_generate_biased(RandomProgram *p, uint64_t seed) {
    generate(p, seed, true);
}
