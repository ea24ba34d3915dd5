#include "c_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    unsigned dialects;
    const char *name, *text;
} rows[] = {
#define HELPER(id, dialects, name, text) {dialects, name, text},
#include "c_helpers.def"
#undef HELPER
};

static const char *unsigned_type(CPrinter *p, Dtype t) {
    bool wide = t == DTYPE_NONE || dtype_bits(t) == 64;
    if (p->dialect->gpu) return wide ? "unsigned long long" : "unsigned int";
    return wide ? "uint64_t" : "uint32_t";
}

static const char *type_text(CPrinter *p, Dtype t) {
    return t == DTYPE_NONE ? p->dialect->index_type : c_type(p, t);
}

/* Limits of integer type `to` as literals of float type `from`. */
static const char *limit_text(CPrinter *p, Dtype from, Dtype to, char which) {
    int bits = (int)dtype_bits(to);
    bool is_signed = dtype_is_signed(to);
    double low = is_signed ? -ldexp(1, bits - 1) : 0, high = ldexp(1, is_signed ? bits - 1 : bits);
    if (which == 'L') return c_float_text(p, from, low);
    if (which == 'I') return c_float_text(p, from, high);
    if (which == 'B') return c_float_text(p, from, from == DTYPE_F64 ? nextafter(high, 0) : (double)nextafterf((float)high, 0));
    uint64_t max = UINT64_MAX >> (64 - bits + is_signed);
    return arena_printf(p->arena, "%llu%s", (unsigned long long)max, is_signed ? bits == 64 ? "LL" : "" : bits == 64 ? "ULL" : "u");
}

static void expand(CPrinter *p, CHelperUse use, const char *text, Str *out) {
    for (const char *c = text; *c; c++) {
        if (*c != '$') {
            str_append_char(out, *c);
            continue;
        }
        switch (*++c) {
        case 'T':
            str_append(out, type_text(p, use.a));
            break;
        case 'D':
            str_append(out, type_text(p, use.b));
            break;
        case 'N':
            str_printf(out, "_%s", use.a == DTYPE_NONE ? "index" : dtype_name(use.a));
            break;
        case 'n':
            str_append(out, use.a == DTYPE_NONE ? "index" : dtype_name(use.a));
            break;
        case 'm':
            str_append(out, use.b == DTYPE_NONE ? "index" : dtype_name(use.b));
            break;
        case 'U':
            str_append(out, unsigned_type(p, use.a));
            break;
        case 'W':
            str_printf(out, "%u", use.a == DTYPE_NONE ? 64 : dtype_bits(use.a));
            break;
        case 'H':
            str_append(out, p->dialect->shared_prefix);
            break;
        case 'R':
            str_append_char(out, use.a == DTYPE_F32 ? 'f' : use.a == DTYPE_F64 ? 'd' : dtype_bits(use.a) == 64 ? 'l' : 'r');
            break;
        case 'S':
            str_append(out, p->dialect->helper_prefix);
            break;
        default:
            str_append(out, limit_text(p, use.a, use.b == DTYPE_NONE ? DTYPE_I64 : use.b, *c));
            break;
        }
    }
}

static const char *expanded(CPrinter *p, CHelperUse use, const char *text) {
    Str s;
    str_init(&s);
    expand(p, use, text, &s);
    const char *copy = arena_strdup(p->arena, s.data);
    str_release(&s);
    return copy;
}

const char *c_helper_name(CPrinter *p, CHelperUse use) {
    return expanded(p, use, rows[use.id].name);
}

static void note(CPrinter *p, CHelperUse use) {
    for (size_t i = 0; i < p->helpers.len; i++)
        if (memcmp(&p->helpers.data[i], &use, sizeof use) == 0) return;
    VEC_PUSH(p->arena, &p->helpers, use);
    static const struct {
        const char *call;
        CHelper id;
    } inner[] = {{"bits_of_f32(", C_HELPER_BITS_F32},
                 {"bits_to_f32(", C_HELPER_F32_BITS},
                 {"bits_of_f64(", C_HELPER_BITS_F64},
                 {"bits_to_f64(", C_HELPER_F64_BITS}};
    for (size_t i = 0; i < COUNT_OF(inner); i++)
        if (inner[i].id != use.id && strstr(rows[use.id].text, inner[i].call)) note(p, (CHelperUse){inner[i].id, DTYPE_NONE, DTYPE_NONE});
}

const char *c_helper(CPrinter *p, CHelper id, Dtype a, Dtype b) {
    CHelperUse use;
    memset(&use, 0, sizeof use);
    use.id = id;
    use.a = a;
    use.b = b;
    if (!(rows[id].dialects & p->dialect->mask)) c_fail(p, NULL, rows[id].name);
    note(p, use);
    return c_helper_name(p, use);
}

static int order(const void *x, const void *y) {
    const CHelperUse *a = x, *b = y;
    if (a->id != b->id) return a->id < b->id ? -1 : 1;
    if (a->a != b->a) return a->a < b->a ? -1 : 1;
    return a->b < b->b ? -1 : a->b > b->b;
}

/* The registers of a class, from `first` on, as asm operands `"=f"(d[0])`. */
static void asm_operands(Str *out, const AtomClass *cls, const char *name, bool result) {
    char letter = cls->dtype == DTYPE_F32 ? 'f' : cls->dtype == DTYPE_F64 ? 'd' : dtype_bits(cls->dtype) == 64 ? 'l' : 'r';
    for (unsigned i = 0; i < cls->count; i++) {
        str_printf(out, "%s\"%s%c\"(", i ? ", " : "", result ? "=" : "", letter);
        if (cls->shared)
            str_printf(out, "(unsigned int)__cvta_generic_to_shared(%s)", name);
        else if (cls->vector || result)
            str_printf(out, "%s[%u]", name, i);
        else
            str_append(out, name);
        str_append_char(out, ')');
    }
}

static void atom_template(const char *ptx, Str *out) {
    for (const char *c = ptx; *c; c++) {
        if (*c == '%') str_append_char(out, '%');
        str_append_char(out, *c == '$' ? '%' : *c);
    }
}

static void atom_arguments(CPrinter *p, const AtomInfo *atom, Str *out) {
    const char *text = atom->results;
    AtomClass cls;
    char name[2] = "d";
    const char *comma = "";
    for (; atom_next_class(&text, &cls); name[0]++, comma = ", ") str_printf(out, "%s%s *%s", comma, c_type(p, cls.dtype), name);
    name[0] = 'a';
    for (text = atom->operands; atom_next_class(&text, &cls); name[0]++, comma = ", ") {
        if (cls.shared || cls.map)
            str_printf(out, "%sconst void *%s", comma, name);
        else
            str_printf(out, cls.vector ? "%sconst %s *%s" : "%sconst %s %s", comma, c_type(p, cls.dtype), name);
    }
}

const char *c_atom_name(CPrinter *p, const AtomInfo *atom) {
    char *name = arena_strdup(p->arena, atom->name);
    for (char *c = name; *c; c++) *c = (char)(*c == '.' ? '_' : *c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    return name;
}

/* The text of an atom is longer than a line: clang-format shall leave it as it is. */
static void print_atom(CPrinter *p, const AtomInfo *atom, Str *out) {
    str_printf(out, "// clang-format off\n%s void %s(", p->dialect->helper_prefix, c_atom_name(p, atom));
    atom_arguments(p, atom, out);
    str_printf(out, ") {\n    asm%s(\"", atom->is_volatile ? " volatile" : "");
    atom_template(atom->ptx, out);
    str_append(out, "\"\n        : ");
    const char *text = atom->results;
    AtomClass cls;
    char name[2] = "d";
    for (; atom_next_class(&text, &cls); name[0]++) asm_operands(out, &cls, name, true);
    str_append(out, "\n        : ");
    name[0] = 'a';
    const char *comma = "";
    for (text = atom->operands; atom_next_class(&text, &cls); name[0]++, comma = ", ") {
        str_append(out, comma);
        asm_operands(out, &cls, name, false);
    }
    str_printf(out, "%s);\n}\n// clang-format on\n\n", atom->is_volatile ? "\n        : \"memory\"" : "");
}

void c_print_helpers(CPrinter *p, Str *out) {
    if (p->helpers.len) qsort(p->helpers.data, p->helpers.len, sizeof *p->helpers.data, order);
    for (size_t i = 0; i < p->helpers.len; i++) {
        expand(p, p->helpers.data[i], rows[p->helpers.data[i].id].text, out);
        str_append_char(out, '\n');
    }
    for (size_t i = 0; i < p->atoms.len; i++) print_atom(p, p->atoms.data[i], out);
    c_print_wgmmas(p, out);
}
