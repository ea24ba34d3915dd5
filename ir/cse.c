/* Merges equal pure ops: one is replaced by the other where that dominates it. Index values are
 * equal when their canonical affine forms are. */
#include <string.h>

#include "ir_internal.h"

/* A scoped hash table: entries of a region are dropped when the region ends. */
typedef struct Entry {
    uint64_t hash;
    IrOp *op;
    const Aff *form; /* of index values; else null */
    struct Entry *next;
} Entry;

enum { BUCKETS = 1024 };

typedef struct {
    IrModule *m;
    Arena *scratch;
    Entry *buckets[BUCKETS];
    VEC(unsigned) trail; /* buckets in order of insertion */
    bool changed;
} Merger;

static uint64_t mix(uint64_t h, uint64_t v) {
    h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    return (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9u;
}

/* ---- Equality ---- */

static bool bits_equal(double a, double b) {
    return memcmp(&a, &b, sizeof a) == 0; /* NOLINT(bugprone-suspicious-memory-comparison): bits, as the name says */
}

static bool attr_equal(const IrAttr *a, const IrAttr *b) {
    if (a->kind != b->kind || a->integer != b->integer || !bits_equal(a->number, b->number) || a->string != b->string ||
        a->type != b->type || a->aff != b->aff || a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        if (a->kind == IR_ATTR_INTS && a->ints[i] != b->ints[i]) return false;
        if (a->kind == IR_ATTR_STRS && a->strs[i] != b->strs[i]) return false; /* interned */
    }
    return true;
}

static bool attrs_equal(const IrAttr *a, const IrAttr *b) {
    size_t count = 0;
    for (const IrAttr *attr = a; attr; attr = attr->next, count++) {
        const IrAttr *other = ir_attr_in(b, attr->key);
        if (!other || !attr_equal(attr, other)) return false;
    }
    for (; b; b = b->next) count--;
    return count == 0;
}

bool ir_same_op(const IrOp *a, const IrOp *b) {
    if (a->opcode != b->opcode || a->operand_count != b->operand_count || a->result_count != b->result_count) return false;
    for (unsigned i = 0; i < a->result_count; i++)
        if (a->results[i].type != b->results[i].type || a->results[i].storage != b->results[i].storage) return false;
    return attrs_equal(a->attrs, b->attrs);
}

static bool ops_equal(const IrOp *a, const IrOp *b) {
    for (unsigned i = 0; i < a->operand_count && i < b->operand_count; i++)
        if (a->operands[i] != b->operands[i]) return false;
    return ir_same_op(a, b);
}

bool ir_equivalent(const IrValue *a, const IrValue *b, IrSame same, void *ctx) {
    if (a == b || same(ctx, a, b)) return true;
    if (!a->def || !b->def || a->index != b->index || !ir_same_op(a->def, b->def)) return false;
    if (!ir_has_trait(a->def, IR_PURE) || a->def->region_count) return false;
    for (unsigned i = 0; i < a->def->operand_count; i++)
        if (!ir_equivalent(a->def->operands[i], b->def->operands[i], same, ctx)) return false;
    return true;
}

bool ir_attrs_equal(const IrOp *a, const IrOp *b) {
    return attrs_equal(a->attrs, b->attrs);
}

static uint64_t op_hash(const IrOp *op) {
    uint64_t h = mix((uint64_t)op->opcode, op->operand_count);
    for (unsigned i = 0; i < op->operand_count; i++) h = mix(h, (uint64_t)(uintptr_t)op->operands[i]);
    for (unsigned i = 0; i < op->result_count; i++) h = mix(h, (uint64_t)(uintptr_t)op->results[i].type);
    const IrAttr *value = ir_attr(op, "value");
    return value ? mix(h, (uint64_t)value->integer) : h;
}

/* ---- Merging ---- */

static bool is_candidate(const IrOp *op) {
    return ir_has_trait(op, IR_PURE) && op->result_count == 1 && op->region_count == 0;
}

static const Aff *form_of(Merger *g, IrOp *op) {
    if (!ir_type_is_index(ir_result(op, 0)->type)) return NULL;
    const Aff *form = ir_aff_of(g->m, ir_result(op, 0));
    bool itself = form->kind == AFF_VAR && form->var == ir_result(op, 0);
    return itself ? NULL : form;
}

static Entry *find_equal(const Merger *g, const IrOp *op, const Aff *form, uint64_t hash) {
    for (Entry *e = g->buckets[hash % BUCKETS]; e; e = e->next) {
        if (e->hash != hash || e->form != form) continue;
        if (form || ops_equal(e->op, op)) return e;
    }
    return NULL;
}

static void insert(Merger *g, IrOp *op, const Aff *form, uint64_t hash) {
    unsigned bucket = (unsigned)(hash % BUCKETS);
    Entry *e = ARENA_NEW(g->scratch, Entry);
    *e = (Entry){.hash = hash, .op = op, .form = form, .next = g->buckets[bucket]};
    g->buckets[bucket] = e;
    VEC_PUSH(g->scratch, &g->trail, bucket);
}

static void merge_op(Merger *g, IrOp *op) {
    const Aff *form = form_of(g, op);
    uint64_t hash = form ? mix(1, form->id) : op_hash(op);
    Entry *found = find_equal(g, op, form, hash);
    if (!found) {
        insert(g, op, form, hash);
        return;
    }
    ir_replace_uses(ir_result(op, 0), ir_result(found->op, 0));
    ir_op_erase(op);
    g->changed = true;
}

static void merge_block(Merger *g, IrBlock *block) {
    size_t mark = g->trail.len;
    for (IrOp *op = block->first, *next; op; op = next) {
        next = op->next;
        for (unsigned i = 0; i < op->region_count; i++) merge_block(g, op->regions[i]);
        if (is_candidate(op)) merge_op(g, op);
    }
    while (g->trail.len > mark) {
        unsigned bucket = g->trail.data[--g->trail.len];
        g->buckets[bucket] = g->buckets[bucket]->next;
    }
}

bool ir_merge_equal(IrFunc *f, Arena *scratch) {
    Merger *g = ARENA_NEW(scratch, Merger);
    g->m = f->module;
    g->scratch = scratch;
    merge_block(g, f->body);
    return g->changed;
}
