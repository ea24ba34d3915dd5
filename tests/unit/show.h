/* What was found wrong, for a test that goes on or ends where nothing should be. */
#ifndef TESTS_UNIT_SHOW_H
#define TESTS_UNIT_SHOW_H
#include <stdio.h>

#include "diag.h"

static inline void show_diags(const DiagList *diags) {
    Str out;
    str_init(&out);
    diag_render_text(diags, false, &out);
    fputs(out.data, stderr);
    str_release(&out);
}
#endif
