/* Loops in the walk. A loop of few iterations is walked iteration by iteration; any other one until a fixed point is reached at its head.
 * The walk distinguishes iterations by their number modulo the length of the rings that the loop uses. */
#include <string.h>

#include "barrier_check.h"

enum {
    FEW = 64,             /* iterations: of up to 16 times as many a light loop is walked one by one */
    MANY_PLACES = 1 << 21 /* that a walk one by one may touch: it is to stay short (note 14) */
};
enum { LONGEST = 64 /* ring whose numbers are told apart */ };

static int64_t constant_of(const IrValue *v) {
    const IrAttr *value = v->def && v->def->opcode == IR_CONST ? ir_attr(v->def, "value") : NULL;
    return value && value->kind == IR_ATTR_INT ? value->integer : 0;
}

static int64_t common_multiple(int64_t a, int64_t b) {
    int64_t x = a, y = b;
    while (y) {
        int64_t rest = x % y;
        x = y, y = rest;
    }
    return a / x * b;
}

/* What a mask of low bits divides by; 0: no such mask, or one of the thread's own number. */
static int64_t masked_by(const IrOp *op) {
    int64_t mask = constant_of(op->operands[1]);
    return mask > 0 && mask < LONGEST && (mask & (mask + 1)) == 0 && !barrier_check_of_thread(op->operands[0]) ? mask + 1 : 0;
}

/* After so many iterations the numbers come again that index rings: those modulo something, and how often modulo 2. */
static int64_t period_of(BarrierCheck *r, const IrBlock *block, int64_t period) {
    for (const IrOp *op = block->first; op; op = op->next) {
        for (unsigned g = 0; g < op->region_count && r->relevant[op->mark]; g++)
            /* NOLINTNEXTLINE(*ArrayBound): an op has two regions at most */
            if (op->regions[g]) period = period_of(r, op->regions[g], period);
        if ((op->opcode != IR_MOD && op->opcode != IR_AND) || !barrier_check_needed(r, &op->results[0])) continue;
        if (op->opcode == IR_MOD && !barrier_check_uniform(r, &op->results[0])) continue;
        int64_t by = op->opcode == IR_AND ? masked_by(op) : constant_of(op->operands[1]);
        const IrOp *inner = op->operands[0]->def;
        int64_t held = inner && inner->opcode == IR_FLOORDIV ? constant_of(inner->operands[1]) : 1;
        if (by < 1 || by > LONGEST || held < 1 || held > LONGEST || by * held < 2 || by * held > LONGEST) continue;
        by *= held;
        int64_t longer = common_multiple(period, by);
        if (longer <= LONGEST) period = longer;
    }
    return period;
}

/* How often the walk goes through a loop's body: as often as it runs, or round its period till nothing new comes in. */
static int64_t iterations_to_walk(BarrierCheck *r, const IrOp *op) {
    int64_t step = constant_of(op->operands[2]), end = constant_of(op->operands[1]);
    if (step > 0 && end > 0) return (end - 1) / step < INT32_MAX ? (end - 1) / step + 1 : INT32_MAX;
    return 2 * period_of(r, op->regions[0], 1);
}

static int64_t weight(BarrierCheck *r, const IrBlock *block) {
    int64_t sum = 0;
    for (const IrOp *op = block->first; op; op = op->next) {
        if (!r->relevant[op->mark]) continue;
        int64_t times = 1, inner = 1;
        const IrAttr *extents = op->opcode == IR_MAP ? ir_attr(op, "extents") : NULL;
        for (size_t i = 0; extents && i < extents->count; i++) times *= extents->ints[i];
        if (op->opcode == IR_FOR) times = iterations_to_walk(r, op);
        for (unsigned g = 0; g < op->region_count; g++)
            if (op->regions[g]) inner += weight(r, op->regions[g]);
        sum += times * inner;
        if (sum > INT32_MAX) return INT32_MAX;
    }
    return sum;
}

/* The number of iterations of each thread in *trips; false where it is not known. */
static bool count_trips(BarrierCheck *r, const IrOp *op, int64_t **trips, int64_t *most) {
    const Value *lb = barrier_check_value(r, op->operands[0]), *ub = barrier_check_value(r, op->operands[1]),
                *step = barrier_check_value(r, op->operands[2]);
    bool known = lb->kind == VALUE_LINEAR && ub->kind == VALUE_LINEAR && step->kind == VALUE_LINEAR && step->flat && !step->rest &&
                 step->number[0] > 0;
    if (!known || lb->rest != ub->rest) return false;
    *trips = ARENA_ARRAY(r->arena, int64_t, (size_t)r->threads);
    *most = 0;
    for (int64_t t = 0; t < r->threads; t++) {
        int64_t way = number_of(ub, t) - number_of(lb, t);
        (*trips)[t] = way > 0 ? (way - 1) / step->number[0] + 1 : 0;
        if (r->active[t] && (*trips)[t] > *most) *most = (*trips)[t];
    }
    return true;
}

static bool is_counted(const IrValue *v) {
    return v->type->kind == IR_TYPE_SCALAR && v->type->width == 1 && !dtype_is_float(v->type->dtype);
}

static void walk_each(BarrierCheck *r, const IrOp *op, State **s, const int64_t *trips, int64_t most) {
    const IrBlock *body = op->regions[0];
    uint8_t *before = ARENA_ARRAY(r->arena, uint8_t, (size_t)r->threads);
    Value *carried = ARENA_ARRAY(r->arena, Value, op->result_count + 1);
    bool together = r->together, same = true;
    memcpy(before, r->active, (size_t)r->threads);
    for (unsigned k = 0; k < op->result_count; k++)
        if (is_counted(&op->results[k])) barrier_check_copy_value(r, &carried[k], barrier_check_value(r, op->operands[k + 3]));
    for (unsigned k = 0; k < op->result_count; k++) barrier_check_pass_sum(r, *s, op->operands[k + 3], body->args[k + 1]);
    for (int64_t n = 0; n < most && !r->failed; n++) {
        for (int64_t t = 0; t < r->threads; t++) {
            r->active[t] = before[t] && n < trips[t];
            same = same && r->active[t] == before[t];
        }
        r->together = together && same;
        r->iterations[op->mark] = (Iteration){.number = n};
        barrier_check_enter(r, op, 0);
        for (unsigned k = 0; k < op->result_count; k++)
            if (is_counted(&op->results[k])) barrier_check_set(r, body->args[k + 1], &carried[k]);
        (*s)->fenced = false;
        barrier_check_walk_block(r, body, s);
        if (r->failed) return;
        for (unsigned k = 0; k < op->result_count; k++)
            if (is_counted(&op->results[k])) barrier_check_copy_value(r, &carried[k], barrier_check_value(r, body->last->operands[k]));
        barrier_check_leave_sums(r, *s, op, body, n + 1 < most ? body->args + 1 : NULL);
    }
    memcpy(r->active, before, (size_t)r->threads);
    r->together = together;
    for (unsigned k = 0; k < op->result_count && same; k++)
        if (is_counted(&op->results[k])) barrier_check_set(r, &op->results[k], &carried[k]);
    if (!most)
        for (unsigned k = 0; k < op->result_count; k++) barrier_check_pass_sum(r, *s, op->operands[k + 3], &op->results[k]);
}

/* Before the loop: what happened only where iterations exist. */
static void see_ahead(BarrierCheck *r, State *s, const IrOp *op) {
    for (size_t i = 0; i < s->flights.len; i++)
        if (barrier_check_iterations_ahead(r, op, s->flights.data[i].guard, true, &s->flights.data[i].ahead))
            s->flights.data[i].loop = op, s->flights.data[i].guard = NULL;
    for (size_t i = 0; i < s->mbarriers.len; i++)
        if (barrier_check_iterations_ahead(r, op, s->mbarriers.data[i].guard, true, &s->mbarriers.data[i].ahead))
            s->mbarriers.data[i].loop = op, s->mbarriers.data[i].guard = NULL;
}

static void step_ahead(State *s, const IrOp *op) {
    for (size_t i = 0; i < s->flights.len; i++)
        if (s->flights.data[i].loop == op) s->flights.data[i].ahead--;
    for (size_t i = 0; i < s->mbarriers.len; i++)
        if (s->mbarriers.data[i].loop == op) s->mbarriers.data[i].ahead--;
}

/* The number of the iteration becomes another one: what was said of it is no longer so. */
static void forget_turn(State *s, const Aff *turn) {
    for (size_t i = 0; turn && i < s->flights.len; i++)
        if (s->flights.data[i].guard && aff_depends_on(s->flights.data[i].guard, turn)) s->flights.data[i].guard = NULL;
    for (size_t i = 0; turn && i < s->mbarriers.len; i++)
        if (s->mbarriers.data[i].guard && aff_depends_on(s->mbarriers.data[i].guard, turn)) s->mbarriers.data[i].guard = NULL;
}

/* No iteration follows: what happened only where there is one did not. */
static void leave_loop(State *s, const IrOp *op) {
    size_t kept = 0;
    for (size_t i = 0; i < s->flights.len; i++) {
        Flight f = s->flights.data[i];
        if (f.loop == op && f.ahead >= 0) continue;
        if (f.loop == op) f.loop = NULL;
        s->flights.data[kept++] = f;
    }
    s->flights.len = kept;
    for (size_t i = 0; i < s->mbarriers.len; i++) {
        Mbarrier *m = &s->mbarriers.data[i];
        if (m->armed && m->loop == op && m->ahead >= 0) m->armed = 0, m->expected = m->issued = 0;
        if (m->loop == op) m->loop = NULL;
    }
}

static void add_state(BarrierCheck *r, State **to, State *s, bool *changed) {
    if (!*to) {
        *to = s;
        *changed = true;
    } else if (state_join(r, *to, s)) {
        *changed = true;
    }
}

static bool at_least_zero(const BarrierCheck *r, const Aff *e) {
    return e->kind != AFF_OVERFLOW && aff_prove_nonneg(r->facts, e);
}

/* Does it say that another iteration follows? */
static bool walk_iteration(BarrierCheck *r, const IrOp *op, State **s, int64_t number, int64_t period, const Aff *turn) {
    AffFacts *facts = r->facts;
    bool follows = false;
    r->iterations[op->mark] = (Iteration){number, period, turn};
    barrier_check_enter(r, op, 0);
    r->facts = r->loop_facts[op->mark] = aff_facts_fork(facts);
    const Value *i = barrier_check_value(r, op->regions[0]->args[0]), *ub = barrier_check_value(r, op->operands[1]),
                *step = barrier_check_value(r, op->operands[2]);
    if (i->kind == VALUE_LINEAR && ub->kind == VALUE_LINEAR && i->flat && ub->flat) {
        const Aff *zero = aff_const(r->affs, 0), *room = aff_sub(r->affs, ub->rest ? ub->rest : zero, i->rest ? i->rest : zero);
        room = aff_add(r->affs, room, aff_const(r->affs, ub->number[0] - i->number[0] - 1));
        if (room->kind != AFF_OVERFLOW) aff_facts_nonneg(r->facts, room);
        bool steady = step->kind == VALUE_LINEAR && step->flat && !step->rest;
        follows = steady && at_least_zero(r, aff_sub(r->affs, room, aff_const(r->affs, step->number[0])));
    }
    (*s)->fenced = false;
    barrier_check_walk_block(r, op->regions[0], s);
    r->facts = facts;
    r->loop_facts[op->mark] = NULL;
    return follows;
}

/* From the lower bound to the upper one; null where it is not one way for all threads. */
static const Aff *way_of(BarrierCheck *r, const IrOp *op) {
    const Value *lb = barrier_check_value(r, op->operands[0]), *ub = barrier_check_value(r, op->operands[1]);
    if (lb->kind != VALUE_LINEAR || ub->kind != VALUE_LINEAR || !lb->flat || !ub->flat) return NULL;
    const Aff *zero = aff_const(r->affs, 0), *way = aff_sub(r->affs, ub->rest ? ub->rest : zero, lb->rest ? lb->rest : zero);
    way = aff_add(r->affs, way, aff_const(r->affs, ub->number[0] - lb->number[0]));
    return way->kind == AFF_OVERFLOW ? NULL : way;
}

static bool surely_runs(BarrierCheck *r, const IrOp *op) {
    const Aff *way = way_of(r, op);
    return way && at_least_zero(r, aff_sub(r->affs, way, aff_const(r->affs, 1)));
}

static bool is_number(const Value *v) {
    return v->kind == VALUE_LINEAR && v->flat && !v->rest;
}

/* The number of iterations that there are at most, 0: not known. */
static int64_t most_trips(BarrierCheck *r, const IrOp *op) {
    const Aff *way = way_of(r, op);
    const Value *lb = barrier_check_value(r, op->operands[0]), *step = barrier_check_value(r, op->operands[2]);
    const IrOp *ub = op->operands[1]->def;
    int64_t longest = INT64_MAX, bound;
    if (!is_number(step) || step->number[0] <= 0) return 0;
    if (way && aff_upper_bound(r->facts, way, &bound)) longest = bound;
    for (unsigned i = 0; i < 2 && ub && ub->opcode == IR_MIN && is_number(lb); i++) { /* expressions lose what each part says */
        const Value *part = barrier_check_value(r, ub->operands[i]);
        if (is_number(part) && part->number[0] - lb->number[0] < longest) longest = part->number[0] - lb->number[0];
    }
    for (int64_t n = 0; way && n < longest && n < LONGEST; n++)
        if (at_least_zero(r, aff_sub(r->affs, aff_const(r->affs, n), way))) longest = n;
    if (longest == INT64_MAX) return 0;
    return longest > 0 ? (longest - 1) / step->number[0] + 1 : 0;
}

static void walk_any(BarrierCheck *r, const IrOp *op, State **s) {
    const IrBlock *body = op->regions[0];
    int64_t period = period_of(r, body, 1), most = most_trips(r, op);
    const Aff *turn = barrier_check_new_variable(r, "turn");
    bool bounded = most > 0 && most <= LONGEST / 4;
    if (bounded) {
        period = most, turn = NULL;
    } else {
        VEC_PUSH(r->arena, &r->varying, turn);
        aff_facts_range(r->func_facts, turn, aff_const(r->affs, 0), NULL), aff_facts_range(r->facts, turn, aff_const(r->affs, 0), NULL);
    }
    State **head = ARENA_ARRAY(r->arena, State *, (size_t)period), *left = NULL;
    bool *open = ARENA_ARRAY(r->arena, bool, (size_t)period), together = r->together, ignored = false;
    for (unsigned i = 0; i < 3; i++) r->together = r->together && barrier_check_value(r, op->operands[i])->flat;
    see_ahead(r, *s, op);
    if (!surely_runs(r, op)) {
        left = state_copy(r, *s);
        leave_loop(left, op);
        for (unsigned k = 0; k < op->result_count; k++) barrier_check_pass_sum(r, left, op->operands[k + 3], &op->results[k]);
    }
    for (unsigned k = 0; k < op->result_count; k++) barrier_check_pass_sum(r, *s, op->operands[k + 3], body->args[k + 1]);
    head[0] = *s;
    open[0] = true;
    VEC_PUSH(r->arena, &r->loops, op);
    for (int64_t n = 0; !r->failed; n = (n + 1) % period) {
        int64_t waiting = 0;
        while (waiting < period && !open[(n + waiting) % period]) waiting++;
        if (waiting == period) break;
        n = (n + waiting) % period;
        open[n] = false;
        State *now = state_copy(r, head[n]);
        bool follows = walk_iteration(r, op, &now, n, period, turn);
        if (r->failed) break;
        step_ahead(now, op);
        forget_turn(now, turn);
        if (!follows) {
            State *out = state_copy(r, now);
            leave_loop(out, op);
            barrier_check_leave_sums(r, out, op, body, NULL);
            add_state(r, &left, out, &ignored);
        }
        barrier_check_leave_sums(r, now, op, body, body->args + 1);
        if (bounded && n + 1 == period)
            state_free(r, now);
        else
            add_state(r, &head[(n + 1) % period], now, &open[(n + 1) % period]);
        if (r->work > r->work_limit) barrier_check_fail(r, op, NULL, "the kernel is too long to be walked");
    }
    r->loops.len--;
    for (int64_t n = 0; n < period; n++)
        if (head[n]) state_free(r, head[n]);
    if (!left) left = state_new(r), left->dead = true;
    r->together = together;
    *s = left;
}

void barrier_check_walk_for(BarrierCheck *r, const IrOp *op, State **s) {
    int64_t *trips, most;
    if (count_trips(r, op, &trips, &most) &&
        (most <= 2 || (most <= FEW * 16 && most * weight(r, op->regions[0]) * r->threads <= MANY_PLACES)))
        walk_each(r, op, s, trips, most);
    else
        walk_any(r, op, s);
}
