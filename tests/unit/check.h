/* A failing CHECK prints its place and ends the test program with status 1. */
#ifndef TESTS_UNIT_CHECK_H
#define TESTS_UNIT_CHECK_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define CHECK(condition)                                                                                                                   \
    do {                                                                                                                                   \
        if (!(condition)) {                                                                                                                \
            fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition);                                                  \
            exit(1);                                                                                                                       \
        }                                                                                                                                  \
    } while (0)
#define CHECK_STR(got, want)                                                                                                               \
    do {                                                                                                                                   \
        const char *got_ = (got), *want_ = (want);                                                                                         \
        if (strcmp(got_, want_) != 0) {                                                                                                    \
            fprintf(stderr, "%s:%d: got  %s\n       want %s\n", __FILE__, __LINE__, got_, want_);                                          \
            exit(1);                                                                                                                       \
        }                                                                                                                                  \
    } while (0)
#endif
