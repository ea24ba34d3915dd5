/* coverage [--count=N] [--seed=S]: which rows of builtins.def random programs use, and which parts of the
 * language; the status is 1 when one that they should use is in none of N. */
#include "ast.h"
#include "random.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    BuiltinId id;
    const char *why;
} Unreached;
static const Unreached unreached[] = {
#define UNREACHED(id, why) {BUILTIN_##id, why},
#include "weights.def"
};

/* What a text has to hold so that a part of the language was used. */
static const char *const parts[] = {
#define PART(text) text,
#include "weights.def"
};

typedef struct {
    size_t rows[BUILTIN_COUNT], parts[COUNT_OF(parts)], dtypes[DTYPE_COUNT];
} Coverage;

static void count_word(Coverage *c, const char *word, size_t length, bool call) {
    BuiltinId id = builtin_find(word, length);
    if (id != BUILTIN_NONE && (call || builtin_info(id)->class == CLASS_DATA)) c->rows[id]++;
    for (int t = 1; t < DTYPE_COUNT; t++) {
        const char *name = dtype_name((Dtype)t);
        if (strlen(name) == length && strncmp(name, word, length) == 0) c->dtypes[t]++;
    }
}

static void count_program(Coverage *c, const char *text) {
    for (size_t i = 0; i < COUNT_OF(parts); i++) c->parts[i] += strstr(text, parts[i]) != NULL;
    for (const char *at = text; *at;) {
        size_t length = 0;
        while (isalnum((unsigned char)at[length]) || at[length] == '_') length++;
        if (length) count_word(c, at, length, at[length] == '(');
        at += length ? length : 1;
    }
}

static const char *reason(BuiltinId id) {
    for (size_t i = 0; i < COUNT_OF(unreached); i++)
        if (unreached[i].id == id) return unreached[i].why;
    return NULL;
}

static int report(const Coverage *c) {
    int missing = 0, reached = 0, excused = 0;
    for (int id = 1; id < BUILTIN_COUNT; id++) {
        const char *name = builtin_info((BuiltinId)id)->name, *why = reason((BuiltinId)id);
        printf("%-14s %zu%s%s\n", name, c->rows[id], why ? "  " : "", why ? why : "");
        reached += c->rows[id] > 0;
        excused += why != NULL;
        if ((c->rows[id] > 0) == (why == NULL)) continue;
        printf("%s: %s\n", name, why ? "is reached after all: take its reason out of weights.def" : "NOT REACHED");
        missing++;
    }
    for (int t = 1; t < DTYPE_COUNT; t++)
        if (!c->dtypes[t]) printf("%s: NOT REACHED\n", dtype_name((Dtype)t)), missing++;
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        printf("%-14s %zu\n", parts[i], c->parts[i]);
        if (!c->parts[i]) printf("%s: NOT REACHED\n", parts[i]), missing++;
    }
    printf("figure: random-builtins-reached %d, %d not for a stated reason\n", reached, excused);
    return missing ? 1 : 0;
}

int main(int argc, char **argv) {
    unsigned long long seed = 1, count = 1000;
    for (int i = 1; i < argc; i++)
        if (sscanf(argv[i], "--count=%llu", &count) != 1 && sscanf(argv[i], "--seed=%llu", &seed) != 1) return 2;
    Coverage *c = calloc(1, sizeof *c);
    RandomProgram *p = malloc(sizeof *p);
    CaseOptions cases = {3, 4096};
    for (unsigned long long i = 0; c && p && i < count; i++) {
        Str text;
        str_init(&text);
        program_generate(p, seed + i);
        program_print(p, "r", &cases, &text);
        count_program(c, text.data);
        str_release(&text);
    }
    int status = c && p ? report(c) : 2;
    free(c);
    free(p);
    return status;
}
