#include "emit_internal.h"

#include <ctype.h>
#include <string.h>

/* Keywords of C17 and C++20, macros of the C headers and of the compilers, CUDA's names, and the
 * names that the printers themselves use. In strcmp order. */
static const char *const reserved[] = {
    "EOF",          "FILE",
    "INFINITY",     "NAN",
    "NULL",         "abs",
    "alignas",      "alignof",
    "and",          "and_eq",
    "asm",          "assert",
    "atomicAdd",    "auto",
    "bitand",       "bitor",
    "blockDim",     "blockIdx",
    "bool",         "break",
    "case",         "catch",
    "char",         "char16_t",
    "char32_t",     "char8_t",
    "class",        "co_await",
    "co_return",    "co_yield",
    "compl",        "complex",
    "concept",      "const",
    "const_cast",   "consteval",
    "constexpr",    "constinit",
    "continue",     "cp_async_16",
    "cp_async_4",   "cp_async_8",
    "cudaError_t",  "cudaStream_t",
    "decltype",     "default",
    "delete",       "dim3",
    "div",          "do",
    "double",       "double2",
    "dynamic_cast", "else",
    "enum",         "errno",
    "exp",          "explicit",
    "export",       "extern",
    "fabs",         "fabsf",
    "false",        "float",
    "float2",       "float4",
    "floor",        "floorf",
    "fma",          "fmaf",
    "fmax",         "fmaxf",
    "fmin",         "fminf",
    "for",          "friend",
    "goto",         "gridDim",
    "half",         "half2",
    "i386",         "if",
    "imaginary",    "inline",
    "int",          "int16_t",
    "int2",         "int32_t",
    "int4",         "int64_t",
    "int8_t",       "linux",
    "log",          "long",
    "main",         "make_float2",
    "make_float4",  "max",
    "memcpy",       "memset",
    "min",          "mutable",
    "namespace",    "new",
    "noexcept",     "noreturn",
    "not",          "not_eq",
    "nullptr",      "operator",
    "or",           "or_eq",
    "pow",          "private",
    "protected",    "public",
    "register",     "reinterpret_cast",
    "requires",     "restrict",
    "return",       "rint",
    "rintf",        "short",
    "signed",       "size_t",
    "sizeof",       "smem",
    "sqrt",         "sqrtf",
    "static",       "static_assert",
    "static_cast",  "stderr",
    "stdin",        "stdout",
    "stream",       "struct",
    "switch",       "template",
    "this",         "threadIdx",
    "thread_local", "throw",
    "true",         "try",
    "typedef",      "typeid",
    "typename",     "typeof",
    "uint16_t",     "uint2",
    "uint32_t",     "uint4",
    "uint64_t",     "uint8_t",
    "union",        "unix",
    "unsigned",     "using",
    "virtual",      "void",
    "volatile",     "warpSize",
    "wchar_t",      "while",
    "xor",          "xor_eq",
};

static bool is_reserved(const char *name) {
    size_t lo = 0, hi = COUNT_OF(reserved);
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        int order = strcmp(name, reserved[mid]);
        if (order == 0) return true;
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return false;
}

/* The helpers of c_helpers.def: a stem and a storage type, or a conversion between two. */
static bool is_helper(const char *name) {
    static const char *const stems[] = {"floordiv_", "floormod_", "udiv_", "umod_", "min_", "max_", "minnum_", "maxnum_",
                                        "add_",      "sub_",      "mul_",  "neg_",  "abs_", "shl_", "shr_"};
    static const char *const prefixes[] = {"floordiv", "floormod", "index_", "sk_",      "bits_",
                                           "mma_",     "ldmatrix", "copy_",  "cp_async", "make_"};
    Dtype t;
    for (size_t i = 0; i < COUNT_OF(stems); i++) {
        size_t n = strlen(stems[i]);
        if (strncmp(name, stems[i], n) == 0 && (dtype_find(name + n, &t) || strcmp(name + n, "index") == 0)) return true;
    }
    for (size_t i = 0; i < COUNT_OF(prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return strstr(name, "_to_") != NULL;
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

const char *name_legal(Arena *arena, const char *hint) {
    char text[NAME_MAX_LENGTH + 1];
    size_t n = 0;
    for (const char *c = hint ? hint : ""; *c && n < NAME_MAX_LENGTH - 2; c++) text[n++] = is_word(*c) ? *c : '_';
    text[n] = 0;
    bool leading = n && (isalpha((unsigned char)text[0]) || (text[0] == '_' && n > 1 && islower((unsigned char)text[1])));
    if (leading && !is_reserved(text) && !is_helper(text)) return arena_strdup(arena, text);
    return arena_printf(arena, "v_%s", n ? text : "x");
}

/* The entry of `text`, which lives as long as the scope. */
static ScopeName *entry_of(NameScope *s, const char *text) {
    if (!s->by_text) s->by_text = map_create(s->arena);
    ScopeName *e = map_get(s->by_text, text);
    if (!e) {
        e = ARENA_NEW(s->arena, ScopeName);
        e->text = text;
        map_set(s->by_text, s->arena, text, e);
    }
    return e;
}

enum { NUMBERED_LENGTH = NAME_MAX_LENGTH - 8 }; /* of a name that a number follows */

static const char *numbered(Arena *arena, const char *base, unsigned number) {
    return arena_printf(arena, "%.*s_%u", NUMBERED_LENGTH, base, number);
}

const char *name_claim(NameScope *scope, const char *hint) {
    ScopeName *base = entry_of(scope, name_legal(scope->arena, hint)), *name = base;
    unsigned next = base->next;
    for (;; base->next++) {
        if (base->next) name = entry_of(scope, numbered(scope->arena, base->text, base->next + 1));
        if (!name->visible) break;
    }
    name->visible = true;
    VEC_PUSH(scope->arena, scope, (struct ScopeClaim){name, base, next});
    return name->text;
}

size_t name_mark(const NameScope *scope) {
    return scope->len;
}

void name_release(NameScope *scope, size_t mark) {
    while (scope->len > mark) {
        const struct ScopeClaim *claim = &scope->data[--scope->len];
        claim->name->visible = false;
        claim->base->next = claim->next;
    }
}

static bool is_cut(const char *text) {
    return strlen(text) > NAME_MAX_LENGTH - 2;
}

static bool is_alike(Arena *arena, const char *other, const char *text, const char *legal) {
    return strcmp(other, text) != 0 && strcmp(name_legal(arena, other), legal) == 0;
}

/* The symbol of a function or step of the plan, one for one text: what is cut where another name of the plan then is the same ends in a hash of the whole. */
static const char *symbol_of(Arena *arena, const IrPlan *plan, const char *text) {
    const char *legal = name_legal(arena, text);
    bool alike = false;
    char hash[33];
    if (!is_cut(text)) return legal;
    for (size_t i = 0; i < plan->func_count && !alike; i++) alike = is_alike(arena, plan->funcs[i]->name, text, legal);
    for (size_t i = 0; i < plan->step_count && !alike; i++) alike = is_alike(arena, plan->steps[i].name, text, legal);
    if (!alike) return legal;
    hash128_hex(hash128(text, strlen(text), (Hash128){0}), hash);
    return arena_printf(arena, "%.*s_%.8s", NAME_MAX_LENGTH - 11, legal, hash);
}

const char *emit_entry_name(Arena *arena, const IrPlan *plan, const IrFunc *f) {
    return symbol_of(arena, plan, f->name);
}

const char *emit_step_name(Arena *arena, const IrPlan *plan, const IrStep *step) {
    return symbol_of(arena, plan, step->name);
}
