/* random_print SEED [COUNT]: the program of a seed as a .sketch file. */
#include "random.h"

#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    RandomProgram p;
    Str text;
    CaseOptions cases = {3, 4096};
    str_init(&text);
    program_generate(&p, strtoull(argv[1], NULL, 10));
    program_print(&p, "random", &cases, &text);
    fputs(text.data, stdout);
    str_release(&text);
    return 0;
}
