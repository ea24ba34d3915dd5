/* Copies between C arrays that are names of one value. */
#include "c_internal.h"

#include <ctype.h>
#include <string.h>

/* ---- Copies between names of one value ---- */

/* Whether `name` occurs in `text` as a whole word. */
static bool mentions(const char *text, const char *name) {
    size_t n = strlen(name);
    for (const char *c = strstr(text, name); c; c = strstr(c + 1, name)) {
        bool left = c == text || !(isalnum((unsigned char)c[-1]) || c[-1] == '_');
        bool right = !(isalnum((unsigned char)c[n]) || c[n] == '_');
        if (left && right) return true;
    }
    return false;
}

void c_copy_array(CPrinter *p, const char *to, const char *from, const IrType *t) {
    size_t names = name_mark(&p->names);
    const char *subscripts = "";
    CBody bodies[8];
    unsigned rank = t->kind == IR_TYPE_SCALAR ? 1 : t->rank;
    if (rank > 8) {
        c_fail(p, NULL, "fragments of more than 8 axes");
        return;
    }
    for (unsigned i = 0; i < rank; i++) {
        long long extent = t->kind == IR_TYPE_SCALAR ? (long long)t->width : (long long)ir_type_extent(t, i);
        const char *k = name_claim(&p->names, "i");
        subscripts = arena_printf(p->arena, "%s[%s]", subscripts, k);
        if (p->dialect->gpu) c_pragma(p, "#pragma unroll");
        c_body_begin(p, &bodies[i], arena_printf(p->arena, "for (int %s = 0; %s < %lld; ++%s)", k, k, extent, k));
    }
    c_statement(p, "%s%s = %s%s;", to, subscripts, from, subscripts);
    for (unsigned i = rank; i-- > 0;) c_body_end(p, &bodies[i]);
    name_release(&p->names, names);
}

static bool is_array(const IrType *t) {
    return t->kind == IR_TYPE_FRAG || is_vec(t);
}

static void copy_one(CPrinter *p, const CCopy *c) {
    if (c->lanes)
        c_lane_loop(p, c->type, c->to, (CExpr){c->from, C_PREC_COND});
    else if (is_array(c->type))
        c_copy_array(p, c->to, c->from, c->type);
    else
        c_statement(p, "%s = %s;", c->to, c->from);
}

/* Every copy waits for another one: keeps what the readers of copy `first`'s target need. */
static void break_cycle(CPrinter *p, CCopy *copies, size_t count, size_t first) {
    const char *old = copies[first].to, *saved = NULL;
    for (size_t j = 0; j < count; j++) {
        CCopy *c = &copies[j];
        if (j == first || c->done || !mentions(c->from, old)) continue;
        if (c->lanes) {
            const char *value = c_declare_array(p, c->type, "next");
            c_lane_loop(p, c->type, value, (CExpr){c->from, C_PREC_COND});
            c->from = value;
            c->lanes = false;
        } else if (is_array(c->type)) {
            if (!saved) {
                saved = c_declare_array(p, c->type, "saved");
                c_copy_array(p, saved, old, c->type);
            }
            c->from = saved;
        } else { /* computed now, while its operands are whole */
            const char *value = name_claim(&p->names, "next");
            c_line(p, "const %s %s = %s;", c->scalar_type, value, c->from);
            c->from = value;
        }
    }
}

void c_copy_all(CPrinter *p, CCopy *copies, size_t count) {
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        copies[i].done = strcmp(copies[i].to, copies[i].from) == 0;
        left += !copies[i].done;
    }
    while (left) {
        size_t chosen = count, first = count;
        for (size_t i = 0; i < count && chosen == count; i++) {
            if (copies[i].done) continue;
            if (first == count) first = i;
            bool read = false;
            for (size_t j = 0; j < count; j++)
                if (j != i && !copies[j].done && mentions(copies[j].from, copies[i].to)) read = true;
            if (!read) chosen = i;
        }
        if (chosen < count) {
            copy_one(p, &copies[chosen]);
            copies[chosen].done = true;
            left--;
            continue;
        }
        break_cycle(p, copies, count, first);
    }
}

static const char *storage_array(CPrinter *p, const IrValue *v) {
    if (!v->storage) return NULL;
    for (size_t i = 0; i < p->groups.len; i++) {
        CGroup *g = &p->groups.data[i];
        if (g->storage == v->storage && g->type == v->type && g->array) return g->array;
    }
    return NULL;
}

const char *c_bind_array(CPrinter *p, const IrValue *v, const char *hint) {
    const char *shared = storage_array(p, v);
    if (shared) {
        c_bind_frag(p, v, shared, v->def && v->def->opcode == IR_MAP);
        return shared;
    }
    CValue *c = c_value(p, v);
    c->home = c->array = c_declare_array(p, v->type, v->name ? v->name : hint);
    return c->home;
}

const char *c_new_array(CPrinter *p, const IrValue *v) {
    return c_bind_array(p, v, "acc");
}

const char *c_change_array(CPrinter *p, const IrValue *v, const IrValue *from) {
    const char *old = c_value(p, from)->home;
    if (!old) {
        c_fail(p, from->def, "a fragment that was not made");
        return "";
    }
    const char *array = c_bind_array(p, v, "acc");
    if (strcmp(array, old) != 0) c_copy_array(p, array, old, v->type);
    return array;
}

void c_bind_vec_array(CPrinter *p, const IrValue *v, const char *array) {
    CValue *c = c_value(p, v);
    c->address = array;
    c->expr = c_make(p, C_PREC_PRIMARY, "%s[%c]", array, C_LANE);
}

CCopy c_copy_of(CPrinter *p, const IrValue *to, const IrValue *from) {
    CCopy c = {.type = to->type};
    if (to->type->kind == IR_TYPE_FRAG) {
        c.to = c_value(p, to)->home;
        c.from = c_value(p, from)->home;
        if (!c.from) c_fail(p, from->def, "a fragment that was not made");
        if (!c.from) c.from = c.to;
    } else if (is_vec(to->type)) {
        c.to = c_value(p, to)->address;
        if (from->def && from->def->opcode == IR_CONST) {
            c.from = c_declare_array(p, from->type, "splat");
            c_vec_copy(p, from, c.from);
        } else if (!c_value(p, from)->pending && !c_value(p, from)->address && c_value(p, from)->expr.text) {
            c.from = c_value(p, from)->expr.text;
            c.lanes = true;
        } else {
            c.from = c_vec_address(p, from);
            if (c.from[0] == '&') c.from = arena_printf(p->arena, "(%s)", c.from);
        }
    } else {
        c.to = c_value(p, to)->expr.text;
        c.scalar_type = c_scalar_type(p, to);
        CExpr e = c_use(p, from);
        if (4 * p->indent + strlen(c.to) + strlen(e.text) + 4 > C_LINE_WIDTH) {
            c_materialise(p, from);
            e = c_use(p, from);
        }
        c.from = e.text;
    }
    return c;
}
