/* A device in a process of its own: what loads and runs an artifact's code is not what judges its results. The other process
 * has an allow-listed environment and no descriptor of this one but its end of a socket; it answers requests with bytes. */
#ifndef RUNTIME_REMOTE_H
#define RUNTIME_REMOTE_H

#include "device.h"

/* Forks and opens the device there; its `load` loads the artifact's code. `a` and `options` stay in use. */
RtError remote_open(Device *d, const Artifact *a, const RtOptions *options);
/* What the process is at, for the sentence that tells of its end. */
void remote_phase(Device *d, const char *what);

#endif
