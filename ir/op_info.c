#include "ir.h"

#include <string.h>

#include "ir_internal.h"

enum { G = IR_LEVEL_GRAPH, T = IR_LEVEL_TILE, K = IR_LEVEL_KERNEL };

static const IrOpInfo infos[IR_OP_COUNT] = {
#define OP(id, name, levels, min, max, results, regions, traits, rule, attrs, summary)                                                     \
    {name, levels, min, max, results, regions, traits, rule, attrs, summary},
#include "ops.def"
#undef OP
};

const IrOpInfo *ir_op_info(IrOpcode opcode) {
    return &infos[opcode];
}

/* The table is short and names are looked up while parsing only: a linear search will do. */
bool ir_op_find(const char *name, IrOpcode *opcode) {
    for (unsigned i = 0; i < IR_OP_COUNT; i++) {
        if (strcmp(infos[i].name, name) != 0) continue;
        *opcode = (IrOpcode)i;
        return true;
    }
    return false;
}

bool ir_has_trait(const IrOp *op, unsigned trait) {
    return (infos[op->opcode].traits & trait) != 0;
}

static const IrMathInfo functions[IR_OP_COUNT] = {
#define MATH(id, name, ulps_f32, ulps_f64, reference, slope, domain, method) [IR_##id] = {#name, ulps_f32, ulps_f64, domain, method},
#include "math.def"
#undef MATH
};

const IrMathInfo *ir_math_info(IrOpcode opcode) {
    return functions[opcode].name ? &functions[opcode] : NULL;
}

static const struct {
    const char *name;
    IrAttrKind kind;
} kinds[] = {{"int", IR_ATTR_INT},   {"float", IR_ATTR_FLOAT}, {"bool", IR_ATTR_BOOL}, {"str", IR_ATTR_STR},     {"ints", IR_ATTR_INTS},
             {"strs", IR_ATTR_STRS}, {"type", IR_ATTR_TYPE},   {"aff", IR_ATTR_AFF},   {"dtype", IR_ATTR_DTYPE}, {"word", IR_ATTR_ENUM}};

const char *ir_attr_kind_name(IrAttrKind kind) {
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (kinds[i].kind == kind) return kinds[i].name;
    return "?";
}

bool ir_attr_spec_next(const char **cursor, IrAttrSpec *spec) {
    const char *s = *cursor + strspn(*cursor, " ");
    if (!*s) return false;
    size_t key = strcspn(s, ":"), kind = strcspn(s + key + 1, "? ");
    const char *kind_text = s + key + 1;
    *spec = (IrAttrSpec){.any = true};
    memcpy(spec->key, s, key < sizeof spec->key ? key : sizeof spec->key - 1);
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        if (strlen(kinds[i].name) != kind || strncmp(kinds[i].name, kind_text, kind) != 0) continue;
        spec->any = false;
        spec->kind = kinds[i].kind;
    }
    for (unsigned set = 0; set < IR_ENUM_COUNT; set++) {
        const char *name = ir_enum_name((IrEnum)set);
        if (strlen(name) != kind || strncmp(name, kind_text, kind) != 0) continue;
        spec->any = false;
        spec->kind = IR_ATTR_ENUM;
        spec->set = (IrEnum)set;
    }
    spec->optional = kind_text[kind] == '?';
    *cursor = kind_text + kind + (spec->optional ? 1 : 0);
    return true;
}

bool ir_attr_spec_find(const IrOpInfo *info, const char *key, IrAttrSpec *spec) {
    const char *cursor = info->attrs;
    while (ir_attr_spec_next(&cursor, spec))
        if (strcmp(spec->key, key) == 0) return true;
    return false;
}
