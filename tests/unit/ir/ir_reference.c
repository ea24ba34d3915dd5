/* The generated part of docs/ir.md: the table of ops and of hardware instructions.
 *   ir_reference FILE            fails when the part between the markers is stale
 *   ir_reference --update FILE   rewrites it */
#include "check.h"
#include "ir.h"

static const char begin_mark[] = "<!-- generated: ops -->\n";
static const char end_mark[] = "<!-- end of generated: ops -->\n";

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

int main(int argc, char **argv) {
    bool update = argc == 3 && strcmp(argv[1], "--update") == 0;
    const char *path = argv[argc - 1];
    Str text, fresh;
    str_init(&text);
    str_init(&fresh);
    CHECK(argc >= 2 && file_read(path, 1 << 20, &text));
    const char *begin = strstr(text.data, begin_mark), *end = strstr(text.data, end_mark);
    CHECK(begin && end && begin < end);
    str_append_n(&fresh, text.data, (size_t)(begin - text.data) + strlen(begin_mark));
    print_ops(&fresh);
    print_atoms(&fresh);
    str_append(&fresh, end);
    bool stale = strcmp(fresh.data, text.data) != 0;
    if (stale && update) CHECK(file_write_atomic(path, fresh.data, fresh.len, 0644));
    if (stale && !update) fprintf(stderr, "%s is stale; run %s --update %s\n", path, argv[0], path);
    str_release(&text);
    str_release(&fresh);
    return stale && !update;
}
