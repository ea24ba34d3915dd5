/* format_check [--seed=N] [--count=N]: formatting keeps the tree of random sketches and is done when it is done; with
 * other blanks and another indentation the same text comes out. */
#include "format_text.h"
#include "random.h"

#include <ctype.h>
#include <stdlib.h>

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* The blanks at `text`, anew: none or some where no two words or signs grow together. */
static void put_blanks(Rng *rng, char before, char after, Str *out) {
    bool grow = (is_word(before) && is_word(after)) || (ispunct((unsigned char)before) && ispunct((unsigned char)after));
    unsigned count = rng_below(rng, 3) + grow;
    for (unsigned i = 0; i < count; i++) str_append_char(out, ' ');
}

/* The text with other blanks within lines and `width` blanks a level. Sketches are printed with four. */
static void scramble(Rng *rng, const char *text, Str *out) {
    unsigned width = 1 + rng_below(rng, 7);
    for (bool start = true; *text;) {
        size_t blanks = strspn(text, " ");
        char before = out->len ? out->data[out->len - 1] : '\n', after = text[blanks];
        if (start) {
            for (size_t i = 0; i < blanks / 4 * width; i++) str_append_char(out, ' ');
        } else if (blanks && after != '\n' && after) {
            put_blanks(rng, before, after, out);
        }
        text += blanks;
        start = *text == '\n';
        if (*text == '#' || *text == '"') { /* comments and strings stay */
            size_t length = *text == '#' ? strcspn(text, "\n") : strcspn(text + 1, "\"") + 2;
            str_append_n(out, text, length);
            text += length;
        } else if (*text) {
            str_append_char(out, *text++);
        }
    }
}

static void check_seed(uint64_t seed) {
    RandomProgram p;
    Rng rng = {.state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    CaseOptions cases = {3, 4096};
    char name[40];
    Str text, other;
    str_init(&text);
    str_init(&other);
    snprintf(name, sizeof name, "seed %llu", (unsigned long long)seed);
    program_generate(&p, seed);
    program_print(&p, "random", &cases, &text);
    CHECK(check_text(name, text.data, text.len));
    scramble(&rng, text.data, &other);
    CHECK(check_text(name, other.data, other.len));
    size_t a, b;
    char *plain = formatted(text.data, text.len, &a), *scrambled = formatted(other.data, other.len, &b);
    if (strcmp(plain, scrambled) != 0) {
        fprintf(stderr, "%s: blanks matter:\n%s\nand\n%s", name, plain, scrambled);
        exit(1);
    }
    free(plain);
    free(scrambled);
    str_release(&text);
    str_release(&other);
}

int main(int argc, char **argv) {
    unsigned long long seed = 1, count = 500;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--seed=", 7) == 0) seed = strtoull(argv[i] + 7, NULL, 10);
        if (strncmp(argv[i], "--count=", 8) == 0) count = strtoull(argv[i] + 8, NULL, 10);
    }
    for (unsigned long long i = 0; i < count; i++) check_seed(seed + i);
    printf("figure: formatted_sketches %llu random sketches, twice each\n", count);
    return 0;
}
