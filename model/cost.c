#include "cost.h"
#include "gpu.h"

#include <math.h>

/* Of a multiprocessor: the granularity in which it gives out registers to a warp and bytes of shared memory to a block; its schedulers,
 * and the warps of one that hide each other's latencies (not measured). */
enum { REGISTER_UNIT = 256, SHARED_UNIT = 1024, SCHEDULERS = 4, BUSY_WARPS = 4 };

static double giga(int64_t per_second) {
    return (double)per_second * 1e9;
}

bool cost_machine(const Target *t, CostMachine *m) {
    if (t->kind != TARGET_CUDA || !t->copy_gb_s) return false;
    double clock = (double)t->clock_mhz * 1e6, sms = (double)t->sms;
    *m = (CostMachine){.copy = giga(t->copy_gb_s),
                       .read = giga(t->read_gb_s),
                       .fill = giga(t->fill_gb_s),
                       .l2 = giga(t->l2_gb_s),
                       .shared = sms * clock * (double)t->shared_bytes_clock,
                       .sm = clock * (double)t->l2_bytes_clock,
                       .issue = sms * clock * (double)t->issue_clock,
                       .products = sms * clock * (double)t->mma_clock,
                       .latency = (double)t->latency_ns * 1e-9,
                       .launch = (double)t->launch_ns * 1e-9,
                       .sms = t->sms,
                       .l2_bytes = t->l2_bytes,
                       .threads_sm = t->threads_sm,
                       .blocks_sm = t->blocks_sm,
                       .registers_sm = t->registers_sm,
                       .shared_sm = t->shared_bytes_sm};
    return true;
}

const char *cost_roof_name(CostRoof roof) {
    static const char *const names[COST_ROOFS] = {"device memory, reading and writing",
                                                  "device memory, reading",
                                                  "the L2 cache",
                                                  "shared memory",
                                                  "issuing instructions",
                                                  "the tensor cores",
                                                  "waiting for memory",
                                                  "the launch itself"};
    return roof < COST_ROOFS ? names[roof] : "";
}

/* Between the rates of reading only, of a copy (one half written) and of writing only. */
static double moving(const CostMachine *m, double read, double written) {
    double bytes = read + written;
    if (bytes <= 0) return 0;
    double part = written / bytes, rate;
    if (part <= 0.5)
        rate = m->read + (m->copy - m->read) * part * 2;
    else
        rate = m->copy + (m->fill - m->copy) * (part * 2 - 1);
    return bytes / rate;
}

double cost_floor(const CostMachine *m, double read, double written) {
    double seconds = moving(m, read, written);
    return seconds > m->launch ? seconds : m->launch;
}

/* ---- Occupancy ---- */

static void lower(int64_t blocks, const char *why, CostEstimate *e) {
    if (blocks >= e->blocks_per_sm) return;
    e->blocks_per_sm = blocks;
    e->limit = why;
}

static void occupancy(const CostMachine *m, const CostLaunch *l, CostEstimate *e) {
    int64_t warps = (l->threads + WARP - 1) / WARP;
    e->blocks_per_sm = m->blocks_sm;
    e->limit = "blocks";
    if (warps) lower(m->threads_sm / (warps * WARP), "threads", e);
    if (warps && l->registers) {
        int64_t warp = (l->registers * WARP + REGISTER_UNIT - 1) / REGISTER_UNIT * REGISTER_UNIT;
        lower(m->registers_sm / (warp * warps), "registers", e);
    }
    int64_t shared = (l->shared_bytes + SHARED_UNIT - 1) / SHARED_UNIT * SHARED_UNIT + SYSTEM_BYTES;
    lower(m->shared_sm / shared, "shared memory", e);
}

/* ---- Time ---- */

/* Two times of which the longer one counts, and a little of the other where they are alike. */
static double longer(double a, double b) {
    double most = a > b ? a : b, least = a > b ? b : a;
    return most > 0 ? most * pow(1 + pow(least / most, 8), 0.125) : 0;
}

/* Whether multiprocessors that have no block add nothing to a roof's rate. */
static bool is_own(int roof) {
    return roof == COST_SHARED || roof == COST_ISSUE || roof == COST_PRODUCTS;
}

/* How many times as long such a roof holds up `resident` blocks. */
static double idle_factor(const CostMachine *m, double resident) {
    return resident < (double)m->sms ? (double)m->sms / resident : 1;
}

/* Seconds of `share` of the launch's blocks while `resident` of them run at a time. */
static double wave_seconds(const CostMachine *m, const CostLaunch *l, const CostEstimate *e, double resident, double share) {
    double roof = 0;
    for (int i = 0; i < COST_LATENCY; i++) {
        double seconds = e->roofs[i] * share * (is_own(i) ? idle_factor(m, resident) : 1);
        if (seconds > roof) roof = seconds;
    }
    /* One block alone: round trips in a row, as many as its dependences or its loads in flight ask
     * for, and its bytes through its part of the multiprocessor's port. */
    double active = resident < (double)m->sms ? resident : (double)m->sms, beside = resident / active;
    double flight = l->bytes_in_flight * (double)l->threads, read = l->read / l->blocks;
    double trips = flight > 0 && read / flight > l->waits ? read / flight : l->waits;
    double own = trips * m->latency + (read + l->written / l->blocks) * beside / m->sm;
    /* Of its waits the blocks beside it hide the more, the more there are. */
    return longer(roof + l->waits * m->latency / (beside * beside), own);
}

/* How many times as long instructions take where a scheduler has fewer warps than that. */
static double waiting_factor(const CostMachine *m, const CostLaunch *l, const CostEstimate *e) {
    double beside = l->blocks / (double)m->sms;
    if (beside > (double)e->blocks_per_sm) beside = (double)e->blocks_per_sm;
    if (beside < 1) beside = 1;
    double warps = beside * (double)l->threads / WARP / SCHEDULERS;
    return warps > 0 && warps < BUSY_WARPS ? BUSY_WARPS / warps : 1;
}

static void fill_roofs(const CostMachine *m, const CostLaunch *l, CostEstimate *e) {
    double bytes = l->read + l->written, l2 = l->l2 > bytes ? l->l2 : bytes;
    bool reads = l->written * 50 < bytes;
    e->roofs[reads ? COST_READ : COST_COPY] = moving(m, l->read, l->written);
    e->roofs[COST_L2] = l2 / m->l2;
    e->roofs[COST_SHARED] = l->shared / m->shared;
    e->roofs[COST_ISSUE] = l->instructions / m->issue * waiting_factor(m, l, e);
    e->roofs[COST_PRODUCTS] = m->products > 0 ? l->products / m->products : 0;
    e->roofs[COST_EMPTY] = m->launch;
}

CostEstimate cost_estimate(const CostMachine *m, const CostLaunch *l) {
    CostEstimate e = {.meeting = l->meeting};
    occupancy(m, l, &e);
    fill_roofs(m, l, &e);
    double cluster = l->cluster > 1 ? (double)l->cluster : 1;
    double slots = floor((double)(e.blocks_per_sm * m->sms) / cluster) * cluster;
    e.bytes_needed = m->read * m->latency / (double)m->sms;
    if (l->blocks <= 0) {
        e.seconds = m->launch;
        e.roof = COST_EMPTY;
        return e;
    }
    if (slots < 1) {
        e.seconds = e.roofs[COST_LATENCY] = INFINITY;
        e.roof = COST_LATENCY;
        return e;
    }
    e.waves = l->blocks / slots;
    double resident = l->blocks < slots ? l->blocks : slots;
    e.bytes_in_flight =
        l->bytes_in_flight * (double)l->threads * resident / (double)(resident < (double)m->sms ? resident : (double)m->sms);
    /* Whole waves, then what is left: fewer blocks, which may not fill the memory. */
    double whole = floor(e.waves), rest = l->blocks - whole * slots, seconds = 0;
    if (whole > 0) seconds += whole * wave_seconds(m, l, &e, slots, slots / l->blocks);
    if (rest > 0) seconds += wave_seconds(m, l, &e, rest, rest / l->blocks);
    double share = rest / l->blocks, idle = 1 - share + (rest > 0 ? share * idle_factor(m, rest) : 0), roof = 0;
    for (int i = 0; i < COST_LATENCY; i++)
        if (is_own(i)) e.roofs[i] *= idle;
    for (int i = 0; i < COST_LATENCY; i++)
        if (e.roofs[i] > roof) roof = e.roofs[i], e.roof = (CostRoof)i;
    e.roofs[COST_LATENCY] = seconds > roof ? seconds - roof : 0;
    if (e.roofs[COST_LATENCY] > roof) e.roof = COST_LATENCY;
    if (seconds < m->launch) e.roof = COST_EMPTY;
    e.seconds = m->launch + seconds; /* nothing of a launch hides behind its work */
    return e;
}

/* ---- Words ---- */

void cost_explain(const CostEstimate *e, double floor_seconds, Str *out) {
    double percent = isfinite(e->seconds) ? 100 * floor_seconds / e->seconds : 0;
    str_printf(out, "%.0f %% of the floor of its bytes: %s binds", percent, cost_roof_name(e->roof));
    str_printf(out, "; %lld blocks a multiprocessor (limited by %s), %.1f waves", (long long)e->blocks_per_sm, e->limit, e->waves);
    if (e->bytes_in_flight > 0) str_printf(out, ", %.1f of %.1f KB in flight", e->bytes_in_flight / 1024, e->bytes_needed / 1024);
    double lost = e->roofs[COST_LATENCY] / e->seconds;
    if (isfinite(e->seconds) && lost > 0.03) str_printf(out, ", %.0f %% of the time waiting for it", 100 * lost);
    if (e->meeting > 1) str_printf(out, ", %lld blocks keep a row together and wait for each other", (long long)e->meeting);
}
