#include "c_internal.h"

#include <math.h>
#include <string.h>

const char *c_element(CPrinter *p, const IrValue *ptr, const IrValue *offset) {
    return arena_printf(p->arena, "%s[%s]", c_text(p, c_use(p, ptr), C_PREC_PRIMARY), c_use(p, offset).text);
}

/* Element `lane` counted from an address: `&x[i][4 * j]` and l give `x[i][4 * j + l]`. */
const char *c_join(CPrinter *p, const char *address, const char *lane) {
    if (address[0] != '&') return arena_printf(p->arena, "%s[%s]", address, lane);
    size_t n = strlen(address);
    if (strcmp(lane, "0") == 0) return address + 1;
    const char *open = address + n;
    for (int depth = 0; open > address; open--) {
        if (open[-1] == ']') depth++;
        if (open[-1] == '[' && --depth == 0) break;
    }
    int head = (int)(open - address) - 1, index = (int)(n - (size_t)(open - address)) - 1;
    if (index == 1 && open[0] == '0') return arena_printf(p->arena, "%.*s%s]", head, address + 1, lane);
    if (memchr(open, '?', (size_t)index)) return arena_printf(p->arena, "%.*s(%.*s) + %s]", head, address + 1, index, open, lane);
    return arena_printf(p->arena, "%.*s%.*s + %s]", head, address + 1, index, open, lane);
}

bool c_is_zero(const IrOp *op) {
    const IrAttr *a = op && op->opcode == IR_CONST ? ir_attr(op, "value") : NULL;
    if (!a) return false;
    return a->kind == IR_ATTR_FLOAT ? a->number == 0 && !signbit(a->number) : a->integer == 0;
}

static bool streams(const CPrinter *p, const IrOp *op) {
    return p->dialect->gpu && ir_op_cache(op) == IR_CACHE_STREAM;
}

static const char *mask_text(CPrinter *p, const IrValue *mask, int prec) {
    return c_text(p, c_use(p, mask), prec);
}

/* Of memory that a step before may still write when the kernel begins: the load stays behind the waiting. */
static bool is_late(const CPrinter *p, const IrOp *op) {
    const IrValue *from = op->operands[0];
    return !from->def && from->block == p->func->body && param_is_shared(p->func, from->index);
}

CExpr c_load_scalar(CPrinter *p, const IrOp *op) {
    const char *element = c_element(p, op->operands[0], op->operands[1]);
    CExpr e = {element, C_PREC_PRIMARY};
    if (streams(p, op)) e = c_make(p, C_PREC_PRIMARY, "__ldcs(&%s)", element);
    if (ir_attr_bool(op, "peeks")) e = c_make(p, C_PREC_UNARY, "*(const volatile float *)&%s", element);
    if (ir_attr_bool(op, "awaits")) e = c_make(p, C_PREC_PRIMARY, "%s(&%s)", c_helper(p, C_HELPER_AWAIT, DTYPE_NONE, DTYPE_NONE), element);
    if (op->results[0].type->dtype == DTYPE_BOOL) e = c_make(p, C_PREC_EQ, "%s != 0", e.text);
    if (op->operand_count < 3) return e;
    CExpr other = c_use(p, op->operands[3]);
    if (p->dialect->gpu && op->results[0].type->dtype == DTYPE_F32 && ir_attr_bool(op, "predicated"))
        return c_make(p, C_PREC_PRIMARY, "%s(&%s, %s, %s)",
                      c_helper(p, is_late(p, op) ? C_HELPER_LOAD_OR_F32_LATE : C_HELPER_LOAD_OR_F32, DTYPE_NONE, DTYPE_NONE), element,
                      mask_text(p, op->operands[2], 0), c_text(p, other, 0));
    return c_make(p, C_PREC_COND, "%s ? %s : %s", mask_text(p, op->operands[2], C_PREC_COND + 1), c_text(p, e, C_PREC_COND + 1),
                  c_text(p, other, C_PREC_COND + 1));
}

/* ---- Vectors: arrays of lanes, copied 16 bytes at a time ---- */

/* A long assignment goes on after its `=`. */
static void assignment(CPrinter *p, const char *text) {
    const char *equals = strstr(text, " = ");
    if (!equals || strchr(text, '?') || 4 * p->indent + strlen(text) <= C_LINE_WIDTH) {
        c_statement(p, "%s", text);
        return;
    }
    c_line(p, "%.*s =", (int)(equals - text), text);
    c_statement(p, "    %s", equals + 3);
}

/* The built-in CUDA type that moves `bytes`. */
static const char *wide_type(Dtype t, size_t bytes) {
    if (t == DTYPE_F32 && bytes >= 8) return bytes == 16 ? "float4" : "float2";
    if (t == DTYPE_F64 && bytes == 16) return "double2";
    return bytes == 16 ? "uint4" : bytes == 8 ? "uint2" : bytes == 4 ? "unsigned int" : bytes == 2 ? "unsigned short" : "unsigned char";
}

static size_t vec_bytes(const IrType *t) {
    return dtype_size(t->dtype) * t->width;
}

static bool copyable(CPrinter *p, const IrOp *op, const IrType *t) {
    size_t bytes = vec_bytes(t);
    if ((bytes & (bytes - 1)) == 0 || bytes % 16 == 0) return true;
    c_fail(p, op, "vectors of other than 2, 4, 8 or a multiple of 16 bytes");
    return false;
}

static const char *pointer_to(CPrinter *p, const char *element) {
    return arena_printf(p->arena, "&%s", element);
}

typedef struct {
    const char *to, *from; /* addresses */
    bool from_stream, to_stream, to_global;
    const char *mask, *other; /* other: the wide value where the mask is false; null: not written */
    bool predicated, late;
} WideCopy;

/* nvcc writes an assigned float4 lane by lane where divisions stand before it, so global memory is
 * written by an intrinsic. */
static const char *wide_write(const WideCopy *w, size_t bytes) {
    if (w->to_stream) return "__stcs((%s *)%s, %s);";
    return w->to_global && bytes >= 8 ? "__stwb((%s *)%s, %s);" : "*(%s *)%s = %s;";
}

static const char *load_or(CPrinter *p, Dtype t, size_t bytes, bool late) {
    static const CHelper ids[2][5] = {
        {C_HELPER_LOAD_OR_FLOAT4, C_HELPER_LOAD_OR_FLOAT2, C_HELPER_LOAD_OR_UINT4, C_HELPER_LOAD_OR_UINT2, C_HELPER_LOAD_OR_UINT},
        {C_HELPER_LOAD_OR_FLOAT4_LATE, C_HELPER_LOAD_OR_FLOAT2_LATE, C_HELPER_LOAD_OR_UINT4_LATE, C_HELPER_LOAD_OR_UINT2_LATE,
         C_HELPER_LOAD_OR_UINT_LATE}};
    unsigned form = t == DTYPE_F32 ? bytes == 16 ? 0 : 1 : bytes == 16 ? 2 : bytes == 8 ? 3 : 4;
    return c_helper(p, ids[late][form], DTYPE_NONE, DTYPE_NONE);
}

static void wide_copy_gpu(CPrinter *p, const IrType *t, const WideCopy *w) {
    size_t bytes = vec_bytes(t), part = bytes > 16 ? 16 : bytes;
    const char *type = wide_type(t->dtype, part), *write = wide_write(w, part);
    for (size_t at = 0; at < bytes; at += part) {
        const char *lane = arena_printf(p->arena, "%zu", at / dtype_size(t->dtype));
        const char *to = at ? pointer_to(p, c_join(p, w->to, lane)) : w->to;
        const char *from = at ? pointer_to(p, c_join(p, w->from, lane)) : w->from;
        const char *pointer = arena_printf(p->arena, "(const %s *)%s", type, from);
        from = arena_printf(p->arena, w->from_stream ? "__ldcs(%s)" : "*%s", pointer);
        if (w->mask && w->predicated)
            from = arena_printf(p->arena, "%s(%s, %s, %s)", load_or(p, t->dtype, part, w->late), pointer, w->mask, w->other);
        else if (w->mask && w->other)
            from = arena_printf(p->arena, "%s ? %s : %s", w->mask, from, w->other);
        const char *text = arena_printf(p->arena, write, type, to, from);
        if (!w->mask || w->other) {
            assignment(p, text);
        } else {
            CBody b;
            c_body_begin(p, &b, arena_printf(p->arena, "if (%s)", w->mask));
            assignment(p, text);
            c_body_end(p, &b);
        }
    }
}

static void wide_copy(CPrinter *p, const IrType *t, const WideCopy *w) {
    if (p->dialect->gpu) {
        wide_copy_gpu(p, t, w);
        return;
    }
    const char *text = arena_printf(p->arena, "__builtin_memcpy(%s, %s, %zu);", w->to, w->from, vec_bytes(t));
    if (!w->mask) {
        c_statement(p, "%s", text);
        return;
    }
    CBody b;
    c_body_begin(p, &b, arena_printf(p->arena, "if (%s)", w->mask));
    c_statement(p, "%s", text);
    c_body_end(p, &b);
}

void c_lane_loop(CPrinter *p, const IrType *t, const char *address, CExpr value) {
    size_t names = name_mark(&p->names);
    const char *l = name_claim(&p->names, "l");
    if (p->dialect->gpu) c_pragma(p, "#pragma unroll");
    CBody b;
    c_body_begin(p, &b, arena_printf(p->arena, "for (int %s = 0; %s < %u; ++%s)", l, l, t->width, l));
    assignment(p, arena_printf(p->arena, "%s = %s;", c_join(p, address, l), c_lane(p, value, l)));
    c_body_end(p, &b);
    name_release(&p->names, names);
}

/* What a masked wide load gives where the mask is false, as a value of the wide type; null when it
 * has no such form. */
static const char *wide_other(CPrinter *p, const IrType *t, const IrValue *other) {
    if (!p->dialect->gpu) return NULL;
    size_t bytes = vec_bytes(t);
    if (bytes > 16) bytes = 16;
    const char *type = wide_type(t->dtype, bytes), *x = NULL;
    const IrOp *def = other->def;
    if (c_is_zero(def)) return arena_printf(p->arena, bytes < 8 ? "(%s)0" : "%s()", type);
    if (t->dtype == DTYPE_F32 && bytes >= 8) {
        x = c_use(p, other).text;
    } else if (def && def->opcode == IR_CONST) {
        const IrAttr *a = ir_attr(def, "value");
        uint64_t bits = 0;
        if (!a) return NULL;
        if (dtype_is_float(t->dtype))
            dtype_write(t->dtype, &bits, a->kind == IR_ATTR_FLOAT ? a->number : (double)a->integer);
        else
            dtype_write_int(t->dtype, &bits, a->integer);
        if (t->dtype == DTYPE_F64 || dtype_size(t->dtype) == 8) return bits || t->dtype == DTYPE_F64 ? NULL : "make_uint4(0u, 0u, 0u, 0u)";
        for (unsigned n = dtype_bits(t->dtype); n < 32; n *= 2) bits |= bits << n;
        x = arena_printf(p->arena, bits ? "0x%08xu" : "%xu", (unsigned)bits);
    }
    if (!x || bytes < 8) return NULL;
    return bytes == 8 ? arena_printf(p->arena, "make_%s(%s, %s)", type, x, x)
                      : arena_printf(p->arena, "make_%s(%s, %s, %s, %s)", type, x, x, x, x);
}

/* nvcc writes a branch around a masked load, and moves no load over the one behind it: of memory that is only read, loads are
 * predicated. */
static bool is_predicated(const CPrinter *p, const IrOp *op, const WideCopy *w) {
    const IrValue *from = op->operands[0];
    const IrType *t = op->results[0].type;
    return p->dialect->gpu && w->other && !w->from_stream && vec_bytes(t) >= 4 && t->dtype != DTYPE_F64 && !from->def &&
           from->block == p->func->body && param_is_read_only(p->func, from->index);
}

static size_t load_width(const CPrinter *p, const WideCopy *w) {
    return 4 * p->indent + strlen(w->to) + strlen(w->from) + strlen(w->mask) + (w->other ? strlen(w->other) : 0) + 36;
}

static void load_into(CPrinter *p, const IrOp *op, const char *address) {
    const IrType *t = op->results[0].type;
    if (!copyable(p, op, t)) return;
    WideCopy w = {.to = address, .from_stream = streams(p, op)};
    w.from = pointer_to(p, c_element(p, op->operands[0], op->operands[1]));
    if (op->operand_count >= 3) {
        w.other = wide_other(p, t, op->operands[3]);
        w.predicated = is_predicated(p, op, &w);
        w.late = is_late(p, op);
        if (!w.other) c_lane_loop(p, t, address, c_use(p, op->operands[3]));
        w.mask = mask_text(p, op->operands[2], w.other ? C_PREC_COND + 1 : 0);
        if (load_width(p, &w) > C_LINE_WIDTH) {
            c_materialise(p, op->operands[1]);
            c_materialise(p, op->operands[2]);
            w.from = pointer_to(p, c_element(p, op->operands[0], op->operands[1]));
            w.mask = c_use(p, op->operands[2]).text;
        }
        if (w.other && load_width(p, &w) > C_LINE_WIDTH) {
            const char *name = name_claim(&p->names, "other");
            size_t bytes = vec_bytes(t) > 16 ? 16 : vec_bytes(t);
            c_line(p, "const %s %s = %s;", wide_type(t->dtype, bytes), name, w.other);
            w.other = name;
        }
    }
    wide_copy(p, t, &w);
}

static void pack_into(CPrinter *p, const IrOp *op, const char *address) {
    for (unsigned i = 0; i < op->operand_count; i++)
        c_statement(p, "%s = %s;", c_join(p, address, c_int_text(p, i)), c_use(p, op->operands[i]).text);
}

/* ---- Atoms ---- */

static const char *atom_arguments(CPrinter *p, const IrOp *op, const AtomInfo *atom, const char *text) {
    const char *classes = atom->operands;
    AtomClass cls;
    unsigned i = 0;
    if (!*text && atom_next_class(&classes, &cls) && cls.shared && op->operand_count > 1) {
        text = arena_printf(p->arena, "&%s", c_element(p, op->operands[0], op->operands[1]));
        i = 2;
    }
    while (atom_next_class(&classes, &cls)) {
        unsigned need = cls.shared ? 2 : 1;
        if (i + need > op->operand_count) {
            c_fail(p, op, "an atom with too few operands");
            return text;
        }
        const IrValue *v = op->operands[i];
        if (cls.shared)
            text = arena_printf(p->arena, "%s, &%s", text, c_element(p, v, op->operands[i + 1]));
        else if (cls.vector)
            text = arena_printf(p->arena, "%s, %s", text, c_vec_address(p, v));
        else
            text = arena_printf(p->arena, "%s, %s", text, c_use(p, v).text);
        i += need;
    }
    return text;
}

static const AtomInfo *note_atom(CPrinter *p, const IrOp *op) {
    const AtomInfo *atom = atom_of(op);
    if (!atom || !p->dialect->gpu) {
        c_fail(p, op, atom ? "GPU instructions" : "an instruction that atoms.def does not have");
        return NULL;
    }
    for (size_t i = 0; i < p->atoms.len; i++)
        if (p->atoms.data[i] == atom) return atom;
    VEC_PUSH(p->arena, &p->atoms, atom);
    return atom;
}

static void atom_into(CPrinter *p, const IrOp *op, const char *address) {
    const AtomInfo *atom = note_atom(p, op);
    if (!atom) return;
    const char *args = atom_arguments(p, op, atom, address);
    const char *name = c_atom_name(p, atom);
    if (4 * p->indent + strlen(name) + strlen(args) + 3 <= C_LINE_WIDTH) {
        c_statement(p, "%s(%s);", name, args);
        return;
    }
    c_line(p, "// clang-format off");
    c_statement(p, "%s(%s);", name, args);
    c_line(p, "// clang-format on");
}

/* An atom of several results: each gets a variable before the call. */
void c_atom(CPrinter *p, const IrOp *op) {
    const AtomInfo *atom = note_atom(p, op);
    if (!atom) return;
    const char *places = "";
    for (unsigned i = 0; i < op->result_count; i++) {
        const IrValue *v = &op->results[i];
        const char *name;
        if (is_vec(v->type)) {
            name = c_declare_array(p, v->type, v->name ? v->name : "d");
            c_value(p, v)->address = name;
            c_value(p, v)->expr = c_make(p, C_PREC_PRIMARY, "%s[%c]", name, C_LANE);
        } else {
            const char *type = c_scalar_type(p, v);
            name = c_declare_var(p, v, NULL);
            c_line(p, "%s %s;", type, name);
            name = arena_printf(p->arena, "&%s", name);
        }
        places = arena_printf(p->arena, "%s%s%s", places, i ? ", " : "", name);
    }
    atom_into(p, op, places);
}

/* ---- Vectors as values ---- */

void c_vec_into(CPrinter *p, const IrOp *op, const char *address) {
    switch (op->opcode) {
    case IR_MEM_LOAD:
        load_into(p, op, address);
        return;
    case IR_PACK:
        pack_into(p, op, address);
        return;
    case IR_ATOM:
        atom_into(p, op, address);
        return;
    case IR_BITCAST: {
        const IrType *t = op->results[0].type;
        if (!copyable(p, op, t)) return;
        if (!is_vec(op->operands[0]->type)) {
            if (!p->dialect->gpu) c_fail(p, op, "a scalar as a vector");
            c_statement(p, "*(%s *)%s = %s;", c_type(p, op->operands[0]->type->dtype), address, c_use(p, op->operands[0]).text);
            return;
        }
        WideCopy w = {.to = address, .from = c_vec_address(p, op->operands[0])};
        wide_copy(p, t, &w);
        return;
    }
    default:
        c_fail(p, op, "this operation on vectors");
        return;
    }
}

const char *c_vec_address(CPrinter *p, const IrValue *v) {
    CValue *c = c_value(p, v);
    if (!c->address) c_materialise(p, v);
    return c_value(p, v)->address;
}

void c_vec_copy(CPrinter *p, const IrValue *v, const char *address) {
    CValue *c = c_value(p, v);
    if (c->pending) {
        c_vec_into(p, c->pending, address);
    } else if (c->address && strcmp(c->address, address) != 0 && copyable(p, v->def, v->type)) {
        WideCopy w = {.to = address, .from = c->address};
        wide_copy(p, v->type, &w);
    } else if (!c->address) {
        c_lane_loop(p, v->type, address, c_use(p, v));
    }
}

/* ---- Stores ---- */

static void store_vec(CPrinter *p, const IrOp *op) {
    const IrValue *v = op->operands[0];
    if (!copyable(p, op, v->type)) return;
    WideCopy w = {.to_stream = streams(p, op), .to_global = op->operands[1]->type->space == IR_SPACE_GLOBAL};
    if (v->def && v->def->opcode == IR_CONST) {
        w.from = c_declare_array(p, v->type, "splat");
        c_lane_loop(p, v->type, w.from, c_use(p, v));
        c_value(p, v)->address = NULL;
    } else {
        w.from = c_vec_address(p, v);
    }
    w.to = pointer_to(p, c_element(p, op->operands[1], op->operands[2]));
    if (op->operand_count > 3) w.mask = mask_text(p, op->operands[3], 0);
    wide_copy(p, v->type, &w);
}

static const char *store_text(CPrinter *p, const IrOp *op) {
    const char *to = c_element(p, op->operands[1], op->operands[2]), *value = c_use(p, op->operands[0]).text;
    if (ir_attr_bool(op, "publishes"))
        return arena_printf(p->arena, "%s(&%s, %s);", c_helper(p, C_HELPER_PUBLISH, DTYPE_NONE, DTYPE_NONE), to, value);
    return arena_printf(p->arena, streams(p, op) ? "__stcs(&%s, %s);" : "%s = %s;", to, value);
}

static void shorten(CPrinter *p, const IrOp *op) {
    for (unsigned i = 0; i < op->operand_count; i++)
        if (op->operands[i]->type->kind == IR_TYPE_SCALAR) c_materialise(p, op->operands[i]);
}

void c_store(CPrinter *p, const IrOp *op) {
    if (is_vec(op->operands[0]->type)) {
        store_vec(p, op);
        return;
    }
    const char *text = store_text(p, op);
    if (4 * p->indent + strlen(text) > C_LINE_WIDTH) {
        shorten(p, op);
        text = store_text(p, op);
    }
    if (op->operand_count <= 3) {
        c_statement(p, "%s", text);
        return;
    }
    CBody b;
    c_body_begin(p, &b, arena_printf(p->arena, "if (%s)", c_use(p, op->operands[3]).text));
    c_statement(p, "%s", text);
    c_body_end(p, &b);
}

void c_async_copy(CPrinter *p, const IrOp *op) {
    long long bytes = ir_attr_int(op, "bytes", 16);
    for (int pass = 0;; pass++) {
        const char *from = c_element(p, op->operands[0], op->operands[1]), *to = c_element(p, op->operands[2], op->operands[3]);
        const char *valid = c_use(p, op->operands[4]).text, *text;
        if (p->dialect->gpu) {
            CHelper id = bytes == 4 ? C_HELPER_CP_ASYNC_4 : bytes == 8 ? C_HELPER_CP_ASYNC_8 : C_HELPER_CP_ASYNC_16;
            text = arena_printf(p->arena, "%s(&%s, &%s, %s);", c_helper(p, id, DTYPE_NONE, DTYPE_NONE), to, from, valid);
        } else {
            text = arena_printf(p->arena, "%s(&%s, &%s, %lld, %s);", c_helper(p, C_HELPER_COPY_OR_ZERO, DTYPE_NONE, DTYPE_NONE), to, from,
                                bytes, valid);
        }
        if (pass == 0 && 4 * p->indent + strlen(text) > C_LINE_WIDTH) {
            shorten(p, op);
            continue;
        }
        c_statement(p, "%s", text);
        return;
    }
}
