#include "diag.h"

#include <string.h>
#include <strings.h>

enum { LONGEST_NAME = 64 };

static unsigned least(unsigned a, unsigned b) {
    return a < b ? a : b;
}

/* Edits that turn a into b: insertion, deletion, replacement, swap of neighbours (the optimal
 * string alignment distance). Both at most LONGEST_NAME long. */
static unsigned edit_distance(const char *a, const char *b) {
    unsigned rows[3][LONGEST_NAME + 1];
    size_t a_length = strlen(a), b_length = strlen(b);
    for (size_t j = 0; j <= b_length; j++) rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= a_length; i++) {
        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = least(above[j], row[j - 1]) + 1;
            row[j] = least(row[j], above[j - 1] + (a[i - 1] != b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) row[j] = least(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

const char *closest_name(const char *name, const char *const *candidates, size_t count) {
    size_t length = strlen(name);
    if (!length || length > LONGEST_NAME) return NULL;
    const char *best = NULL;
    unsigned best_distance = (unsigned)(length + 1) / 3 + 1; /* a third of the name may be wrong, one letter of four */
    for (size_t i = 0; i < count; i++) {
        if (strlen(candidates[i]) > LONGEST_NAME) continue;
        bool same_letters = strcasecmp(name, candidates[i]) == 0;
        unsigned distance = same_letters ? 0 : edit_distance(name, candidates[i]);
        if (distance < best_distance && distance < least((unsigned)length, LONGEST_NAME)) {
            best = candidates[i];
            best_distance = distance;
        }
    }
    return best;
}
