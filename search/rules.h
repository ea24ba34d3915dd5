/* The proposer that needs no model: the compiler's own designs, and mutations of what was tried. */
#ifndef SEARCH_RULES_H
#define SEARCH_RULES_H

#include "proposer.h"

/* Without parents attempt n is design number n (PROPOSER_EXHAUSTED behind the last); with parents the first is
 * mutated, in the way that `strategy` names (a row of mutations.def), else in any. Equal requests get equal
 * answers. Null when out of memory. */
Proposer *proposer_rules_create(void);

#endif
