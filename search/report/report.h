/* The page about what searches found: one self-contained HTML text with pictures in SVG; fetches nothing, runs nothing. */
#ifndef SEARCH_REPORT_REPORT_H
#define SEARCH_REPORT_REPORT_H

#include "store/store.h"

/* Appends the page about all searches of a store; `title` is shown, as text. False: the store cannot be read. */
bool report_page(Store *store, const char *title, Str *out);

#endif
