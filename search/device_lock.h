/* What a judge may take how long, and the lock under which it times. */
#ifndef SEARCH_DEVICE_LOCK_H
#define SEARCH_DEVICE_LOCK_H

#include "child.h"

/* Seconds of a step, on a machine that does other things too. */
enum { JUDGE_COMPILE_S = 60, JUDGE_VERIFY_S = 180, JUDGE_TIME_S = 180 };

/* The lock's file: of the processor, or of the GPU that CUDA_VISIBLE_DEVICES names first (numbers and UUIDs of one GPU are two names). */
void device_lock_file(const char *target, char *out, size_t size);
/* Waits for the lock of the target's device, which all searches of this machine share: nothing is timed beside something
 * else. It goes with its process. -1: there is no place for it. */
int device_lock(const char *target, ChildChannel *channel);
void device_unlock(int lock);

#endif
