/* What a long command is doing, on standard error: from the third second on, on one line of a terminal that is written anew, else one
 * line every few seconds. */
#ifndef TOOLS_PROGRESS_H
#define TOOLS_PROGRESS_H

#include <stdbool.h>

typedef struct {
    int to; /* the process that tells; -1: nobody does */
    int process;
} Progress;

/* `command`: the word that the lines begin with. Nothing is told if not `wanted`. */
void progress_begin(Progress *p, const char *command, bool wanted);
/* As sketchc_options.on_progress. */
void progress_say(void *progress, const char *doing);
/* Before anything else is written: takes the line of the terminal away. */
void progress_end(Progress *p);

#endif
