/* The printed grammar; grammar.py makes the text when this is built. */
#include "frontend.h"

#include "grammar_text.h"

#include <string.h>

const char *frontend_grammar(const char *form) {
    if (strcmp(form, "gbnf") == 0) return gbnf_text;
    return strcmp(form, "ebnf") == 0 ? ebnf_text : NULL;
}
