/* A table of keys and the answers behind it, in a file without a name. Whoever holds the lock may be killed: each change of the table
 * ends with the one store that makes it valid. */
#define _GNU_SOURCE /* memfd_create */
#include "book.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 1 << 16, MOST_SLOTS = SLOTS / 4 * 3, ALIGN = 16 };
static const size_t book_bytes = (size_t)128 << 20;
static const uint64_t book_magic = UINT64_C(0x736b626f6f6b3031);
static const double most_wait_s = 120; /* for what another one computes */

typedef enum { SLOT_EMPTY, SLOT_CLAIMED, SLOT_READY } SlotState;
typedef struct {
    Hash128 key;
    uint64_t offset, size;
    SlotState state;
    pid_t by; /* who computes it */
} Slot;

typedef struct {
    uint64_t magic, used;
    pthread_mutex_t mutex;
    BookCounts counts;
    unsigned taken;
    Slot slots[SLOTS];
} Book;

static Book *book;
static int book_fd = -1;

/* ---- The memory ---- */

static bool prepare(Book *b) {
    pthread_mutexattr_t attributes;
    if (pthread_mutexattr_init(&attributes) != 0) return false;
    bool ok = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0 &&
              pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0 && pthread_mutex_init(&b->mutex, &attributes) == 0;
    pthread_mutexattr_destroy(&attributes);
    b->used = (sizeof *b + ALIGN - 1) / ALIGN * ALIGN;
    b->magic = book_magic;
    return ok;
}

static Book *map(int fd) {
    void *memory = mmap(NULL, book_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void book_leave(void) {
    if (book) munmap(book, book_bytes);
    if (book_fd >= 0) close(book_fd);
    book = NULL;
    book_fd = -1;
}

int book_create(void) {
    if (book_fd >= 0) return book_fd;
    book_fd = memfd_create("sketchc-book", MFD_CLOEXEC);
    if (book_fd < 0) return -1;
    if (ftruncate(book_fd, (off_t)book_bytes) != 0 || !(book = map(book_fd)) || !prepare(book)) book_leave();
    return book_fd;
}

bool book_join(int fd) {
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != book_bytes || !(book = map(fd))) return false;
    if (book->magic != book_magic) book_leave();
    return book != NULL;
}

bool book_is_open(void) {
    return book != NULL;
}

/* ---- The table ---- */

/* False: it cannot be had. An owner that died left the table valid. */
static bool lock(void) {
    int error = pthread_mutex_lock(&book->mutex);
    if (error == EOWNERDEAD) error = pthread_mutex_consistent(&book->mutex);
    return error == 0;
}

static void unlock(void) {
    pthread_mutex_unlock(&book->mutex);
}

/* The key's place, or the empty one where it goes. */
static Slot *find(Hash128 key) {
    uint64_t at = key.lo % SLOTS;
    while (book->slots[at].state != SLOT_EMPTY && (book->slots[at].key.lo != key.lo || book->slots[at].key.hi != key.hi))
        at = (at + 1) % SLOTS;
    return &book->slots[at];
}

static bool claim(Slot *s, Hash128 key, size_t size) {
    uint64_t rounded = (size + ALIGN - 1) / ALIGN * ALIGN;
    if (book->taken >= MOST_SLOTS || rounded > book_bytes - book->used) return false;
    *s = (Slot){.key = key, .offset = book->used, .size = size, .by = getpid()};
    book->used += rounded;
    book->taken++;
    atomic_signal_fence(memory_order_seq_cst); /* the stores above stay above, as a kill may come between any two */
    s->state = SLOT_CLAIMED;
    return true;
}

static bool is_abandoned(const Slot *s) {
    return s->by == getpid() || (kill(s->by, 0) != 0 && errno == ESRCH);
}

static void *answer_of(const Slot *s) {
    return (unsigned char *)book + s->offset;
}

typedef enum { LOOK_WAIT = BOOK_YOURS + 1 } LookAgain;

/* One look under the lock: a BookAnswer or LOOK_WAIT. */
static int look(Hash128 key, void *answer, size_t size, uint64_t weight) {
    Slot *s = find(key);
    bool fresh = s->state == SLOT_EMPTY;
    if (fresh && !claim(s, key, size)) {
        book->counts.past += weight;
        return BOOK_NONE;
    }
    if (s->size != size) return BOOK_NONE;
    if (s->state == SLOT_READY) {
        memcpy(answer, answer_of(s), size);
        book->counts.found += weight;
        return BOOK_FOUND;
    }
    if (!fresh && !is_abandoned(s)) return LOOK_WAIT;
    s->by = getpid();
    book->counts.computed += weight;
    return BOOK_YOURS;
}

BookAnswer book_ask(Hash128 key, void *answer, size_t size, uint64_t weight) {
    const struct timespec pause = {0, 2000000};
    double end = seconds_now() + most_wait_s;
    while (book && lock()) {
        int found = look(key, answer, size, weight);
        unlock();
        if (found != LOOK_WAIT) return (BookAnswer)found;
        if (seconds_now() > end) break;
        nanosleep(&pause, NULL);
    }
    return BOOK_NONE;
}

void book_put(Hash128 key, const void *answer) {
    if (!book || !lock()) return;
    Slot *s = find(key);
    if (s->state == SLOT_CLAIMED) {
        memcpy(answer_of(s), answer, s->size);
        atomic_signal_fence(memory_order_seq_cst);
        s->state = SLOT_READY;
    }
    unlock();
}

BookCounts book_counts(void) {
    BookCounts counts = {0};
    if (!book || !lock()) return counts;
    counts = book->counts;
    unlock();
    return counts;
}
