/* Values that are more than an operation on each lane: inputs read through index arithmetic, movements
 * of whole axes, and the ways in which results are stored. */
#include "generate_internal.h"

#include <math.h>

/* ---- Inputs of their own ---- */

static IndexMap random_map(const RandomProgram *p, Rng *rng, unsigned axis) {
    unsigned kind = rng_below(rng, 8);
    bool folded = p->axes[axis].folded;
    if (kind < 2) return (IndexMap){.kind = MAP_REVERSED};
    if (kind < 4 && !folded) return (IndexMap){MAP_SHIFTED, (int)rng_below(rng, 7) - 3};
    if (kind < 6) return (IndexMap){MAP_STRIDED, 2 + (int)rng_below(rng, 2)};
    return (IndexMap){.kind = kind == 6 ? MAP_HALVED : MAP_SAME};
}

/* Read by a slice with offsets and steps, or by a view: a slice reads the padding beyond the axis, too. */
static void add_view(RandomProgram *p, Rng *rng) {
    Node n = {.kind = NODE_VIEW, .dtype = random_dtype(rng), .number = rng_below(rng, 4)};
    unsigned first = rng_chance(rng, 60) ? 0 : rng_below(rng, p->rank);
    for (unsigned i = first; i < p->rank; i++) {
        Dim dim = {i, rng_chance(rng, 85)};
        if (dim.full && rng_chance(rng, 60)) n.maps[n.form.rank] = random_map(p, rng, i);
        n.form.dims[n.form.rank++] = dim;
    }
    n.swapped = n.form.rank > 1 && rng_chance(rng, 25);
    choose_data(rng, &n);
    n.least = 0;
    n.padded = rng_chance(rng, rng->biased ? 25 : 50);
    add_node(p, rng, &n);
}

static unsigned add_const_axis(RandomProgram *p, int64_t extent) {
    p->axes[p->axis_count] = (Axis){.constant = true, .extent = extent, .walk = WALK_WHOLE, .tile = 1};
    return p->axis_count++;
}

/* Rows of a table: positions as likely outside as beside its ends. */
static void add_gather(RandomProgram *p, Rng *rng) {
    static const Dtype indices[] = {DTYPE_I32, DTYPE_I32, DTYPE_I64, DTYPE_I16, DTYPE_U8};
    if (p->axis_count == MAX_AXES) return;
    unsigned first = rng_below(rng, p->rank), count = 1 + rng_below(rng, 2);
    if (first + count > p->rank) count = p->rank - first;
    Node at = {.kind = NODE_TENSOR, .dtype = indices[rng_below(rng, COUNT_OF(indices))], .magnitude = 40, .number = 1 + rng_below(rng, 33)};
    for (unsigned i = 0; i < count; i++) at.form.dims[at.form.rank++] = (Dim){first + i, true};
    Node n = {.kind = NODE_GATHER,
              .dtype = random_dtype(rng),
              .form = domain_form(p),
              .operand_count = 1,
              .place = first,
              .axis = add_const_axis(p, (int64_t)at.number),
              .number = rng_below(rng, 4)};
    at.data = ~0u;
    choose_data(rng, &n);
    if (p->rank - count + 1 < 2) { /* the table's rank */
        n.data = 0;
        n.magnitude = 8;
    }
    n.least = 0;
    n.padded = n.number != 0;
    n.operands[0] = add_node(p, rng, &at);
    add_node(p, rng, &n);
}

static void add_window(RandomProgram *p, Rng *rng) {
    Node n = {.kind = NODE_WINDOW,
              .op = rng_chance(rng, 60) ? BUILTIN_REDUCE_SUM : BUILTIN_REDUCE_MAX,
              .dtype = DTYPE_F32,
              .form = domain_form(p),
              .axis = rng_below(rng, p->rank),
              .rounds = 1 + rng_below(rng, 4),
              .stride = 1 + (int)(rng_below(rng, 4) / 3),
              .dilation = 1 + (int)(rng_below(rng, 4) / 3)};
    choose_data(rng, &n);
    n.magnitude *= 8;
    n.least = 0;
    add_node(p, rng, &n);
}

static void add_ragged(RandomProgram *p, Rng *rng) {
    static const BuiltinId folds[] = {BUILTIN_REDUCE_SUM, BUILTIN_REDUCE_MAX, BUILTIN_REDUCE_MIN};
    if (p->axis_count == MAX_AXES) return;
    Axis *k = &p->axes[p->axis_count];
    make_axis(rng, k, 32);
    k->walk = WALK_TILES;
    k->most = 0;
    Node n = {.kind = NODE_RAGGED,
              .op = folds[rng_below(rng, COUNT_OF(folds))],
              .dtype = DTYPE_F32,
              .form = domain_form(p),
              .axis = p->axis_count++};
    choose_data(rng, &n);
    n.magnitude = fmax(8, n.magnitude * (n.op == BUILTIN_REDUCE_SUM ? 32 : 1));
    n.least = 0;
    add_node(p, rng, &n);
}

void add_own_input(RandomProgram *p, Rng *rng) {
    static void (*const makers[])(RandomProgram *, Rng *) = {add_view, add_view, add_gather, add_window, add_ragged};
    if (rng->biased && rng_chance(rng, 40))
        add_view(p, rng);
    else
        makers[rng_below(rng, COUNT_OF(makers))](p, rng);
}

/* ---- Positions and numbers of lanes ---- */

static void call2(RandomProgram *p, Rng *rng, BuiltinId op, unsigned a, unsigned b) {
    make_call(p, rng, op, 2, (unsigned[]){a, b});
}

/* Present everywhere, so that it is joined with a value at once. */
static void add_positions(RandomProgram *p, Rng *rng) {
    static const BuiltinId ops[] = {BUILTIN_ADD, BUILTIN_MUL, BUILTIN_LT, BUILTIN_GE, BUILTIN_MAX};
    unsigned a = 0;
    if (!pick_value(p, rng, NULL, KINDS_REAL, &a)) return;
    const Form *form = &p->nodes[a].form;
    if (dtype_size(p->nodes[a].dtype) < 4 || !form->rank) return;
    unsigned at = rng_below(rng, form->rank);
    if (!form->dims[at].full) return;
    Node n = {.kind = NODE_IOTA, .dtype = DTYPE_I32, .axis = form->dims[at].axis, .magnitude = 8192};
    for (unsigned i = at; i < form->rank; i++) {
        n.form.dims[n.form.rank] = form->dims[i];
        n.form.dims[n.form.rank++].full = i == at;
    }
    call2(p, rng, ops[rng_below(rng, COUNT_OF(ops))], a, add_node(p, rng, &n));
}

static void add_random(RandomProgram *p, Rng *rng) {
    static const BuiltinId ops[] = {BUILTIN_ADD, BUILTIN_MUL, BUILTIN_LT};
    unsigned a = 0;
    bool tile = false;
    if (!pick_value(p, rng, NULL, KINDS_REAL, &a)) return;
    Node n = {.kind = NODE_RANDOM, .dtype = DTYPE_F32, .form = p->nodes[a].form, .magnitude = 1, .number = rng_below(rng, 1000)};
    for (unsigned i = 0; i < n.form.rank; i++) {
        if (!n.form.dims[i].full) return;
        tile |= p->axes[n.form.dims[i].axis].walk != WALK_ONE;
    }
    if (!tile) return;
    call2(p, rng, ops[rng_below(rng, COUNT_OF(ops))], a, add_node(p, rng, &n));
}

static bool whole_dim(const RandomProgram *p, const Form *form, unsigned at, bool constant) {
    const Axis *axis = &p->axes[form->dims[at].axis];
    return form->dims[at].full && axis->walk == WALK_WHOLE && (axis->constant || !constant);
}

static void add_count(RandomProgram *p, Rng *rng) {
    unsigned a = 0;
    if (!pick_value(p, rng, NULL, KINDS_REAL, &a)) return;
    const Form *form = &p->nodes[a].form;
    if (dtype_size(p->nodes[a].dtype) < 4) return;
    for (unsigned i = 0; i < form->rank; i++) {
        if (!whole_dim(p, form, i, false)) continue;
        Node n = {
            .kind = NODE_COUNT, .dtype = DTYPE_I32, .axis = form->dims[i].axis, .operand_count = 1, .operands = {a}, .magnitude = 8192};
        call2(p, rng, BUILTIN_MUL, a, add_node(p, rng, &n));
        return;
    }
}

/* ---- Movements ---- */

/* One of the values that fit: a random one may have no such dim. */
static bool find_value(const RandomProgram *p, Rng *rng, bool (*fits)(const RandomProgram *, const Node *), unsigned *found) {
    unsigned fitting = 0;
    for (unsigned i = 0; i < p->node_count; i++)
        if (!node_is_bare(&p->nodes[i]) && fits(p, &p->nodes[i]) && rng_below(rng, ++fitting) == 0) *found = i;
    return fitting > 0;
}

static bool has_constant_dim(const RandomProgram *p, const Node *n) {
    for (unsigned i = 0; i < n->form.rank; i++)
        if (n->dtype != DTYPE_BOOL && whole_dim(p, &n->form, i, true)) return true;
    return false;
}

static bool is_vector(const RandomProgram *p, const Node *n) {
    return n->dtype == DTYPE_F32 && n->form.rank == 1 && whole_dim(p, &n->form, 0, false);
}

static void add_topk(RandomProgram *p, Rng *rng) {
    unsigned a = 0;
    if (p->axis_count == MAX_AXES || !find_value(p, rng, has_constant_dim, &a)) return;
    const Form *form = &p->nodes[a].form;
    for (unsigned i = 0; i < form->rank; i++) {
        if (!whole_dim(p, form, i, true)) continue;
        int64_t extent = p->axes[form->dims[i].axis].extent;
        Node n = {.kind = NODE_TOPK,
                  .op = BUILTIN_TOPK,
                  .dtype = p->nodes[a].dtype,
                  .form = *form,
                  .operand_count = 1,
                  .operands = {a},
                  .axis = form->dims[i].axis,
                  .rounds = 1 + rng_below(rng, extent < 5 ? (unsigned)extent : 5),
                  .place = i,
                  .second = rng_chance(rng, 40),
                  .magnitude = p->nodes[a].magnitude};
        n.form.dims[i].axis = add_const_axis(p, n.rounds);
        if (n.second) n.dtype = DTYPE_I64, n.magnitude = 64;
        add_node(p, rng, &n);
        return;
    }
}

static void add_transpose(RandomProgram *p, Rng *rng) {
    unsigned a = 0;
    if (!pick_value(p, rng, NULL, KINDS_ANY, &a) || p->nodes[a].form.rank < 2) return;
    Node n = p->nodes[a];
    unsigned rank = n.form.rank;
    n = (Node){.kind = NODE_TRANSPOSE,
               .op = BUILTIN_TRANSPOSE,
               .dtype = n.dtype,
               .form = n.form,
               .operand_count = 1,
               .operands = {a},
               .magnitude = n.magnitude,
               .least = n.least};
    for (unsigned i = 0; i < rank; i++) n.perm[i] = i;
    unsigned i = rng_below(rng, rank - 1), j = rng_chance(rng, 70) ? rank - 1 : i + 1;
    n.perm[i] = j;
    n.perm[j] = i;
    for (unsigned k = 0; k < rank; k++) n.form.dims[k] = p->nodes[a].form.dims[n.perm[k]];
    add_node(p, rng, &n);
}

static bool same_elsewhere(const Form *a, const Form *b, unsigned place) {
    if (a->rank != b->rank) return false;
    for (unsigned i = 0; i < a->rank; i++)
        if (i != place && (a->dims[i].axis != b->dims[i].axis || a->dims[i].full != b->dims[i].full)) return false;
    return true;
}

/* Lanes are surely absent along the same dims, but for `place`: what is present of both is one interval. */
static bool absent_alike(const Node *a, const Node *b, unsigned place) {
    for (unsigned i = 0; i < a->form.rank; i++)
        if (i != place && a->form.dims[i].full && (a->strict ^ b->strict) & 1u << a->form.dims[i].axis) return false;
    return true;
}

static void add_concat(RandomProgram *p, Rng *rng) {
    unsigned a = 0, b = 0, place = 0;
    if (p->axis_count == MAX_AXES || !pick_value(p, rng, NULL, KINDS_ANY, &a)) return;
    const Form *form = &p->nodes[a].form;
    while (place < form->rank && !whole_dim(p, form, place, true)) place++;
    if (place == form->rank) return;
    for (unsigned i = 0; i < p->node_count; i++) {
        const Node *n = &p->nodes[i];
        bool fits = !node_is_bare(n) && n->dtype == p->nodes[a].dtype && same_elsewhere(form, &n->form, place) &&
                    whole_dim(p, &n->form, place, true) && absent_alike(&p->nodes[a], n, place);
        if (fits && (i == a || rng_chance(rng, 60))) b = i;
    }
    const Form *second = &p->nodes[b].form;
    if (second->rank != form->rank || p->nodes[b].dtype != p->nodes[a].dtype || !same_elsewhere(form, second, place) ||
        !whole_dim(p, second, place, true) || !absent_alike(&p->nodes[a], &p->nodes[b], place))
        return;
    int64_t extent = p->axes[form->dims[place].axis].extent + p->axes[second->dims[place].axis].extent;
    if (extent > 128) return;
    Node n = {.kind = NODE_CONCAT,
              .op = BUILTIN_CONCAT,
              .dtype = p->nodes[a].dtype,
              .form = *form,
              .operand_count = 2,
              .operands = {a, b},
              .place = place,
              .magnitude = fmax(p->nodes[a].magnitude, p->nodes[b].magnitude)};
    n.form.dims[place].axis = add_const_axis(p, extent);
    add_node(p, rng, &n);
}

/* The last two dims become one, or the last one becomes two. */
static void add_reshape(RandomProgram *p, Rng *rng) {
    unsigned a = 0;
    if (p->axis_count + 2 > MAX_AXES || !pick_value(p, rng, NULL, KINDS_ANY, &a)) return;
    const Form *form = &p->nodes[a].form;
    unsigned rank = form->rank;
    if (!rank || !whole_dim(p, form, rank - 1, true)) return;
    Node n = {.kind = NODE_RESHAPE,
              .op = BUILTIN_RESHAPE,
              .dtype = p->nodes[a].dtype,
              .form = *form,
              .operand_count = 1,
              .operands = {a},
              .magnitude = p->nodes[a].magnitude,
              .least = p->nodes[a].least};
    int64_t last = p->axes[form->dims[rank - 1].axis].extent;
    if (rank > 1 && whole_dim(p, form, rank - 2, true)) {
        int64_t merged = last * p->axes[form->dims[rank - 2].axis].extent;
        if (merged > 256) return;
        n.form.rank--;
        n.form.dims[rank - 2].axis = add_const_axis(p, merged);
    } else if (rank < MAX_DOMAIN) {
        int64_t part = 2;
        while (part < last && last % part) part++;
        if (part >= last) return;
        n.form.dims[rank - 1].axis = add_const_axis(p, part);
        n.form.dims[n.form.rank++] = (Dim){add_const_axis(p, last / part), true};
    } else {
        return;
    }
    add_node(p, rng, &n);
}

static void add_broadcast(RandomProgram *p, Rng *rng) {
    unsigned a = 0;
    if (!pick_value(p, rng, NULL, KINDS_ANY, &a)) return;
    Node n = {.kind = NODE_BROADCAST,
              .op = BUILTIN_BROADCAST,
              .dtype = p->nodes[a].dtype,
              .form = p->nodes[a].form,
              .operand_count = 1,
              .operands = {a},
              .magnitude = p->nodes[a].magnitude,
              .least = p->nodes[a].least};
    bool any = false;
    for (unsigned i = 0; i < n.form.rank; i++) {
        if (n.form.dims[i].full || rng_chance(rng, 20)) continue;
        n.form.dims[i].full = any = true;
    }
    if (any) add_node(p, rng, &n);
}

/* By a matrix of its own: the operand's last dim is summed. */
static void add_matmul(RandomProgram *p, Rng *rng) {
    unsigned a = 0;
    if (p->axis_count == MAX_AXES || !pick_value(p, rng, NULL, KINDS_REAL, &a)) return;
    if (p->nodes[a].dtype != DTYPE_F32) return;
    const Form *form = &p->nodes[a].form;
    if (!form->rank || !whole_dim(p, form, form->rank - 1, false)) return;
    a = fit_operand(p, rng, a, NEED_SMALL);
    Node n = {.kind = NODE_MATMUL,
              .op = BUILTIN_MATMUL,
              .dtype = DTYPE_F32,
              .form = p->nodes[a].form,
              .operand_count = 1,
              .operands = {a},
              .axis = form->dims[form->rank - 1].axis,
              .magnitude = 512};
    n.form.dims[n.form.rank - 1] = (Dim){add_const_axis(p, 1 + rng_below(rng, 33)), true};
    add_node(p, rng, &n);
}

/* An input along the first axis that is walked as a whole. */
static bool add_vector(RandomProgram *p, Rng *rng, unsigned *result) {
    for (unsigned i = 0; i < p->rank; i++) {
        Node n = {.kind = NODE_TENSOR, .dtype = DTYPE_F32, .magnitude = 8};
        n.form.dims[n.form.rank++] = (Dim){i, true};
        if (!whole_dim(p, &n.form, 0, false)) continue;
        choose_data(rng, &n);
        *result = add_node(p, rng, &n);
        return true;
    }
    return false;
}

static void add_dot(RandomProgram *p, Rng *rng) {
    unsigned a = 0, b = 0;
    if (!find_value(p, rng, is_vector, &a) && !add_vector(p, rng, &a)) return;
    if (!find_value(p, rng, is_vector, &b)) b = a;
    if (!form_same(&p->nodes[a].form, &p->nodes[b].form)) b = a;
    Node n = {.kind = NODE_DOT,
              .op = BUILTIN_DOT,
              .dtype = DTYPE_F32,
              .operand_count = 2,
              .operands = {a, b},
              .axis = p->nodes[a].form.dims[0].axis,
              .magnitude = 64 * p->nodes[a].magnitude * p->nodes[b].magnitude};
    add_node(p, rng, &n);
}

void add_movement(RandomProgram *p, Rng *rng) {
    static void (*const makers[])(RandomProgram *, Rng *) = {add_positions, add_random,    add_count,  add_topk,
                                                             add_transpose, add_transpose, add_concat, add_reshape,
                                                             add_broadcast, add_matmul,    add_dot};
    for (unsigned tries = 0, before = p->node_count; tries < 3 && p->node_count == before; tries++)
        (rng->biased && rng_chance(rng, 40) ? add_transpose : makers[rng_below(rng, COUNT_OF(makers))])(p, rng);
}

/* ---- Stores ---- */

static bool updates_in(Dtype t) {
    return t == DTYPE_F32 || t == DTYPE_F64 || dtype_is_int(t);
}

/* Reduced along some dims before it is added: lanes outside of the tensor must be absent there. */
static void store_by_mode(RandomProgram *p, Rng *rng, Result *r) {
    static const BuiltinId modes[] = {BUILTIN_ADD, BUILTIN_ADD, BUILTIN_MAX, BUILTIN_MIN};
    const Node *n = &p->nodes[r->node];
    unsigned kept = 0;
    if (!updates_in(n->dtype)) return;
    for (unsigned i = 0; i < n->form.rank; i++) {
        Dim d = n->form.dims[i];
        bool drops = d.full && n->strict & 1u << d.axis && rng_chance(rng, 50);
        /* Sums over several dims are bounded one by one; updates of memory round all in one row. */
        if (dtype_is_float(n->dtype) && r->dropped) drops = false;
        if (drops) r->dropped |= 1u << d.axis;
        kept += !drops;
    }
    if (!kept) r->dropped = 0;
    r->kind = STORE_MODE;
    r->dtype = n->dtype;
    r->mode = modes[rng_below(rng, COUNT_OF(modes))];
    r->zeroed = r->mode == BUILTIN_ADD && rng_chance(rng, 50);
}

static void store_along(RandomProgram *p, Rng *rng, Result *r, StoreKind kind) {
    const Form *form = &p->nodes[r->node].form;
    unsigned at = rng_below(rng, form->rank);
    const Axis *axis = &p->axes[form->dims[at].axis];
    if (!form->dims[at].full || axis->walk == WALK_ONE) return;
    if (kind == STORE_LIMITED && !updates_in(p->nodes[r->node].dtype)) return;
    if (kind == STORE_FLIPPED && axis->walk != WALK_TILES) return;
    r->kind = kind;
    r->axis = form->dims[at].axis;
    r->dtype = kind == STORE_LIMITED ? p->nodes[r->node].dtype : r->dtype;
}

static void store_scattered(RandomProgram *p, Rng *rng, Result *r) {
    const Node *n = &p->nodes[r->node];
    if (!updates_in(n->dtype) || n->form.rank > 3 || !n->form.dims[0].full) return;
    r->kind = STORE_SCATTER;
    r->mode = BUILTIN_ADD;
    r->axis = 1 + rng_below(rng, 9); /* the target's extent */
    r->dtype = n->dtype;
}

void add_store_kinds(RandomProgram *p, Rng *rng) {
    for (unsigned i = 0; i < p->result_count; i++) {
        Result *r = &p->results[i];
        unsigned kind = rng_below(rng, 100);
        if (node_is_indexed(&p->nodes[r->node])) continue;
        if (kind < 16)
            store_by_mode(p, rng, r);
        else if (kind < 24)
            store_along(p, rng, r, STORE_LIMITED);
        else if (kind < 30)
            store_along(p, rng, r, STORE_FLIPPED);
        else if (kind < 36)
            store_along(p, rng, r, STORE_INDEXED);
        else if (kind < 42)
            store_scattered(p, rng, r);
    }
}

void add_cut(RandomProgram *p, Rng *rng) {
    bool live[MAX_NODES];
    program_live(p, live);
    if (!rng_chance(rng, 20)) return;
    for (unsigned tries = 0; tries < 8 && p->cut == MAX_NODES; tries++) {
        unsigned node = rng_below(rng, p->node_count);
        const Node *n = &p->nodes[node];
        if (live[node] && !node_is_bare(n) && n->kind != NODE_TENSOR && !node_is_indexed(n) && n->form.rank &&
            program_form_complete(p, &n->form))
            p->cut = node;
    }
    for (unsigned i = 0; i < p->axis_count; i++) {
        int64_t tile = p->axes[i].tile;
        p->second_tile[i] = rng_chance(rng, 50) ? tile : tile > 1 ? tile / 2 : 2;
    }
}
