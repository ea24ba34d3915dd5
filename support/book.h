/* What the processes of a search compute once: answers by key, in memory that all of them share. The search makes it, the judges that it
 * starts map it, their children have it by fork. A process that loads code of an artifact leaves it before. */
#ifndef SUPPORT_BOOK_H
#define SUPPORT_BOOK_H

#include "support.h"

/* The descriptor of this process's book, which the first call makes and maps; -1: there is none. Closed by exec. */
int book_create(void);
/* Maps the book behind a descriptor, which the caller may close then; false: it is none. */
bool book_join(int fd);
void book_leave(void);
bool book_is_open(void);

typedef enum {
    BOOK_NONE,  /* no book, or no room in it: the caller computes for itself */
    BOOK_FOUND, /* the answer was copied out */
    BOOK_YOURS  /* nobody has it: the caller computes it and puts it down; who asks meanwhile waits */
} BookAnswer;
/* `weight` is what the answer adds to the counts. A key has one size. */
BookAnswer book_ask(Hash128 key, void *answer, size_t size, uint64_t weight);
void book_put(Hash128 key, const void *answer);

typedef struct {
    uint64_t computed, found, past; /* past: computed without room to keep it */
} BookCounts;
BookCounts book_counts(void); /* 0 without a book */

#endif
