/* The generated parts of docs/ir.md: the tables of function attributes, ops, words in attributes and
 * hardware instructions.
 *   ir_reference FILE            fails when a part between two markers is stale
 *   ir_reference --update FILE   rewrites them */
#include "check.h"
#include "ir.h"

static void print_count(Str *out, int least, int most) {
    if (most < 0)
        str_printf(out, "%d+", least);
    else if (least == most)
        str_printf(out, "%d", least);
    else
        str_printf(out, "%d-%d", least, most);
}

static void print_levels(Str *out, unsigned levels) {
    static const struct {
        unsigned level;
        const char *name;
    } names[] = {{IR_LEVEL_GRAPH, "graph"}, {IR_LEVEL_TILE, "tile"}, {IR_LEVEL_KERNEL, "kernel"}};
    const char *separator = "";
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (!(levels & names[i].level)) continue;
        str_printf(out, "%s%s", separator, names[i].name);
        separator = ", ";
    }
}

static void print_traits(Str *out, unsigned traits) {
    static const struct {
        unsigned trait;
        const char *name;
    } names[] = {{IR_PURE, "pure"},
                 {IR_COMMUTATIVE, "commutative"},
                 {IR_ELEMENTWISE, "elementwise"},
                 {IR_READS, "reads"},
                 {IR_WRITES, "writes"},
                 {IR_COLLECTIVE, "collective"},
                 {IR_TERMINATOR, "terminator"},
                 {IR_LOOP, "loop"},
                 {IR_FOLDS, "folds"},
                 {IR_ALONG, "along"},
                 {IR_MOVES, "moves"}};
    const char *separator = "";
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (!(traits & names[i].trait)) continue;
        str_printf(out, "%s%s", separator, names[i].name);
        separator = ", ";
    }
}

static void print_cell(Str *out, const char *text) {
    for (; *text; text++) {
        if (*text == '|') str_append_char(out, '\\');
        str_append_char(out, *text);
    }
}

static void print_ops(Str *out) {
    str_append(out, "| op | levels | operands | results | regions | traits | attributes | meaning |\n");
    str_append(out, "| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (unsigned i = 0; i < IR_OP_COUNT; i++) {
        const IrOpInfo *info = ir_op_info((IrOpcode)i);
        str_printf(out, "| `%s` | ", info->name);
        print_levels(out, info->levels);
        str_append(out, " | ");
        print_count(out, info->min_operands, info->max_operands);
        str_append(out, " | ");
        print_count(out, info->results < 0 ? 0 : info->results, info->results);
        str_printf(out, " | %d | ", info->regions);
        print_traits(out, info->traits);
        str_printf(out, " | %s%s%s | ", *info->attrs ? "`" : "", info->attrs, *info->attrs ? "`" : "");
        print_cell(out, info->summary);
        str_append(out, " |\n");
    }
}

static void print_atoms(Str *out) {
    str_append(out, "\n| instruction | results | operands | meaning |\n| --- | --- | --- | --- |\n");
#define ATOM(id, name, results, operands, ptx, is_volatile, version, summary)                                                              \
    str_printf(out, "| `%s` | `%s` | `%s` | %s |\n", name, results, operands, summary);
#include "atoms.def"
#undef ATOM
}

static void print_words(Str *out) {
    str_append(out, "\n| type | word | meaning |\n| --- | --- | --- |\n");
    for (unsigned set = 0; set < IR_ENUM_ATOM; set++) /* atoms have a table of their own */
        for (unsigned value = 1; value <= ir_enum_count((IrEnum)set); value++)
            str_printf(out, "| %s | `%s` | %s |\n", ir_enum_name((IrEnum)set), ir_enum_word((IrEnum)set, value),
                       ir_enum_summary((IrEnum)set, value));
#define IR_LETTER_ROW(id, letter, summary) str_printf(out, "| letter of `axes` | `%c` | %s |\n", letter, summary);
#include "enums.def"
}

static void print_ops_and_atoms(Str *out) {
    print_ops(out);
    print_words(out);
    print_atoms(out);
}

static void print_func_attrs(Str *out) {
    static const struct {
        unsigned kind;
        const char *name;
    } kinds[] = {
        {IR_ATTR_INT, "integer"}, {IR_ATTR_INTS, "integers"}, {IR_ATTR_STR, "text"}, {IR_ATTR_ENUM, "word"}, {IR_ATTR_AFF, "formula"}};
    str_append(out, "| attribute | type | level | who sets | who reads | meaning |\n| --- | --- | --- | --- | --- | --- |\n");
    for (unsigned i = 0; i < IR_FN_COUNT; i++) {
        const IrFuncAttrInfo *info = ir_func_attr_info(i);
        str_printf(out, "| `%s` | ", info->key);
        for (size_t k = 0; k < COUNT_OF(kinds); k++)
            if (kinds[k].kind == info->kind) str_append(out, kinds[k].name);
        str_append(out, " | ");
        print_levels(out, info->levels);
        str_printf(out, " | %s | %s | ", info->set_by, info->read_by);
        print_cell(out, info->summary);
        str_append(out, " |\n");
    }
}

/* Copies the text up to and with the marker `begin`, prints the part anew; what follows it. */
static const char *renew(const char *text, const char *name, void (*print)(Str *out), Str *fresh) {
    char begin[64], end[64];
    snprintf(begin, sizeof begin, "<!-- generated: %s -->\n", name);
    snprintf(end, sizeof end, "<!-- end of generated: %s -->\n", name);
    const char *from = strstr(text, begin), *to = strstr(text, end);
    CHECK(from && to && from < to);
    str_append_n(fresh, text, (size_t)(from - text) + strlen(begin));
    print(fresh);
    return to;
}

int main(int argc, char **argv) {
    bool update = argc == 3 && strcmp(argv[1], "--update") == 0;
    const char *path = argv[argc - 1];
    Str text, fresh;
    str_init(&text);
    str_init(&fresh);
    CHECK(argc >= 2 && file_read(path, 1 << 20, &text));
    const char *rest = renew(text.data, "function attributes", print_func_attrs, &fresh);
    str_append(&fresh, renew(rest, "ops", print_ops_and_atoms, &fresh));
    bool stale = strcmp(fresh.data, text.data) != 0;
    if (stale && update) CHECK(file_write_atomic(path, fresh.data, fresh.len, 0644));
    if (stale && !update) fprintf(stderr, "%s is stale; run %s --update %s\n", path, argv[0], path);
    str_release(&text);
    str_release(&fresh);
    return stale && !update;
}
