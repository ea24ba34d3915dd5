/* Bank conflicts of shared memory: 32 banks of 4-byte words that are served side by side. */
#ifndef MODEL_BANKS_H
#define MODEL_BANKS_H

#include <stdint.h>

/* Passes that lanes served together (at most 32) take for the words they begin at: the most different words of any
 * bank; lanes that want the same word share it. Wider accesses are aligned to their size, so that their first words
 * tell. 1 where nothing is accessed. */
unsigned bank_passes(const int64_t *words, unsigned count);

#endif
