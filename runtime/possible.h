/* What no machine does in less time: bytes that have to move and products that have to be made, whatever a kernel is like
 * (docs/decisions/verification.md). */
#ifndef RUNTIME_POSSIBLE_H
#define RUNTIME_POSSIBLE_H

#include "device.h"
#include "verdict/verify_plan.h"

typedef struct {
    double written, read;  /* bytes of the outputs; of inputs, where each of their elements has to be read */
    double products;       /* multiply-adds of the one contraction that the results are; 0: fewer may do */
    unsigned factor_bytes; /* of its narrower factors */
} NecessaryWork;

/* At most, per second; 0: not known. */
typedef struct {
    double bytes, products;
    double cache; /* bytes of results that may still be in a cache when the clock is stopped */
} Peaks;

NecessaryWork possible_work(const TaskPlan *plan, const Task *task, const Binding *b);
/* The machine's description where it is of this device's kind, and what was measured where that is more; of a processor what its cores could store
 * and multiply at 6 GHz. */
Peaks possible_peaks(const Device *d, const RtOptions *o, const RtCeilings *measured, double copy_gb_per_s, unsigned factor_bytes);
/* IMPOSSIBLE_TIME where the work would take longer than `seconds` at POSSIBLE_MARGIN times the peaks. `warm`: inputs may be in the cache, too. */
RtError possible_check(const NecessaryWork *w, const Peaks *p, bool warm, double seconds);
#define POSSIBLE_MARGIN 1.25

#endif
