/* A table from pointers to numbers or to pointers. */
#ifndef SUPPORT_POINTER_TABLE_H
#define SUPPORT_POINTER_TABLE_H

#include "support.h"

/* Starts empty (pointer_table); what it grows by lives in the arena. Keys are not null. */
typedef struct {
    Arena *arena;
    const void **keys;
    uintptr_t *values;
    size_t capacity, used;
} PointerTable;
PointerTable pointer_table(Arena *arena);
/* Gives the key a value, in place of the one that it may have. */
void pointer_table_set(PointerTable *t, const void *key, uint32_t value);
/* False: the table does not hold the key; *value stays. */
bool pointer_table_get(const PointerTable *t, const void *key, uint32_t *value);
/* The same of pointers; null: the table does not hold the key. */
void pointer_table_put(PointerTable *t, const void *key, void *value);
void *pointer_table_find(const PointerTable *t, const void *key);

#endif
