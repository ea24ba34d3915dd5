/* The memory ceilings of a device, measured once. */
#ifndef RUNTIME_CEILINGS_H
#define RUNTIME_CEILINGS_H

#include "device.h"

/* Child: what was measured of this device and driver; false when nothing was. */
bool ceilings_recall(const Device *d, const char *cache_dir, RtCeilings *ceilings);
/* Child: measures an open device (a GPU takes some milliseconds) and keeps the result. */
RtError ceilings_measure(Device *d, const char *cache_dir, RtCeilings *ceilings);

#endif
