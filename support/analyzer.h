/* What other files guarantee and clang's analyzer, which reads one file at a time, cannot see (tests/lint_c.py). The compiler gets nothing. */
#ifndef SUPPORT_ANALYZER_H
#define SUPPORT_ANALYZER_H

#ifdef __clang_analyzer__
#define ANALYZER_ASSUME(condition) ((condition) ? (void)0 : __builtin_unreachable())
#else
#define ANALYZER_ASSUME(condition) ((void)0)
#endif

#endif
