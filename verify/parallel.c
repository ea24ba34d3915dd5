#include "verify.h"

#include "memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

typedef struct {
    atomic_llong next;
    int64_t count, grain;
    void (*work)(void *ctx, int64_t begin, int64_t end);
    void *ctx;
    atomic_bool no_memory;
} Job;

enum { MAX_THREADS = 256 };

static void run_pieces(void *arg) {
    Job *job = arg;
    while (!atomic_load(&job->no_memory)) {
        int64_t begin = atomic_fetch_add(&job->next, job->grain);
        if (begin >= job->count) return;
        int64_t end = job->count - begin < job->grain ? job->count : begin + job->grain;
        job->work(job->ctx, begin, end);
    }
}

static void *run_thread(void *arg) {
    Job *job = arg;
    if (!memory_try(run_pieces, job)) atomic_store(&job->no_memory, true);
    return NULL;
}

void verify_parallel(int64_t count, int64_t grain, unsigned threads, void (*work)(void *ctx, int64_t begin, int64_t end), void *ctx) {
    if (count <= 0) return;
    if (grain < 1) grain = 1;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t wanted = threads ? threads : online > 0 ? online : 1;
    int64_t pieces = (count - 1) / grain + 1;
    if (wanted > pieces) wanted = pieces;
    if (wanted > MAX_THREADS) wanted = MAX_THREADS;
    Job job = {.count = count, .grain = grain, .work = work, .ctx = ctx};
    pthread_t ids[MAX_THREADS];
    int64_t started = 0;
    while (started < wanted - 1 && pthread_create(&ids[started], NULL, run_thread, &job) == 0) started++;
    run_thread(&job); /* the caller works too, and alone if no thread could be had */
    for (int64_t i = 0; i < started; i++) pthread_join(ids[i], NULL);
    if (atomic_load(&job.no_memory)) memory_out();
}
