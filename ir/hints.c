/* Hints of loops (enums.h): words in the attribute hints, `swizzle` with its argument as `swizzle=N`. */
#include <stdlib.h>
#include <string.h>

#include "enums.h"
#include "ir.h"

static IrHint hint_of(const char *text) {
    for (unsigned hint = 1; hint < IR_HINT_COUNT; hint++) {
        const char *word = ir_enum_word(IR_ENUM_HINT, hint);
        size_t length = strlen(word);
        if (strncmp(text, word, length) != 0) continue;
        bool argument = hint == IR_HINT_SWIZZLE && text[length] == '=';
        if (!text[length] || argument) return (IrHint)hint;
    }
    return IR_HINT_NONE;
}

unsigned ir_op_hints(const IrOp *op, IrHint found[IR_HINT_COUNT]) {
    const IrAttr *hints = ir_attr(op, "hints");
    unsigned count = 0;
    for (size_t i = 0; hints && i < hints->count && count < IR_HINT_COUNT; i++) found[count++] = hint_of(hints->strs[i]);
    return count;
}

bool ir_op_has_hint(const IrOp *op, IrHint hint) {
    IrHint found[IR_HINT_COUNT];
    unsigned count = ir_op_hints(op, found), i = 0;
    while (i < count && found[i] != hint) i++;
    return i < count;
}

int64_t ir_op_swizzle(const IrOp *op) {
    const IrAttr *hints = ir_attr(op, "hints");
    for (size_t i = 0; hints && i < hints->count; i++) {
        const char *argument = strchr(hints->strs[i], '=');
        if (hint_of(hints->strs[i]) == IR_HINT_SWIZZLE && argument) return strtoll(argument + 1, NULL, 10);
    }
    return 0;
}

void ir_set_hints(IrOp *op, unsigned count, const IrHint *hints, int64_t swizzle) {
    const char *words[IR_HINT_COUNT];
    Arena *arena = op->block->func->module->arena;
    if (!count) {
        ir_attr_remove(op, "hints");
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        words[i] = ir_enum_word(IR_ENUM_HINT, hints[i]);
        if (hints[i] == IR_HINT_SWIZZLE) words[i] = arena_printf(arena, "%s=%lld", words[i], (long long)swizzle);
    }
    ir_attr_set_strs(op, "hints", count, words);
}

const char *ir_unknown_hint(const IrOp *op) {
    const IrAttr *hints = ir_attr(op, "hints");
    for (size_t i = 0; hints && i < hints->count; i++)
        if (!hint_of(hints->strs[i])) return hints->strs[i];
    return NULL;
}
