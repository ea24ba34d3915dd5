/* Writes .npy version 1 by hand, right or wrong. */
#ifndef TESTS_RUNTIME_NPY_FILE_H
#define TESTS_RUNTIME_NPY_FILE_H
#include "../unit/check.h"
#include "support.h"

static inline void npy_file_write(const char *path, const char *descr, const char *fortran, const char *shape, const void *data,
                                  size_t size) {
    char dict[200];
    int n = snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", descr, fortran, shape);
    Str s;
    str_init(&s);
    str_append_n(&s, "\x93NUMPY\x01\x00", 8);
    str_append_char(&s, (char)n);
    str_append_char(&s, 0);
    str_append(&s, dict);
    if (size) str_append_n(&s, data, size);
    CHECK(file_write_atomic(path, s.data, s.len, 0644));
    str_release(&s);
}
#endif
