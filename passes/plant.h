/* Faults planted into passes, one at a time, to show that the tests find them: the meson option
 * `plant` is its number (-1: the environment variable SKETCHC_PLANT says which, so that one build serves
 * them all). With 0, the default, PLANTED(n) is the constant false. tests/random/plant.py lists them. */
#ifndef PASSES_PLANT_H
#define PASSES_PLANT_H

#ifndef SKETCHC_PLANT
#define SKETCHC_PLANT 0
#endif

#if SKETCHC_PLANT < 0
#include <stdlib.h>
static inline int planted_number(void) {
    static int kept = -1;
    const char *number = kept < 0 ? getenv("SKETCHC_PLANT") : NULL;
    if (kept < 0) kept = number ? atoi(number) : 0;
    return kept;
}
#define PLANTED(n) (planted_number() == (n))
#else
#define PLANTED(n) (SKETCHC_PLANT == (n))
#endif

#endif
