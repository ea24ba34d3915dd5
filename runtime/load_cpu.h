/* C source to a loaded shared object. */
#ifndef RUNTIME_LOAD_CPU_H
#define RUNTIME_LOAD_CPU_H

#include "device.h"

/* The uniform entry of a CPU kernel, `int NAME_invoke(...)`: pointers are the tensors and
 * workspaces, each list in the order of the kernel's own arguments. 0: done. */
typedef int (*CpuEntry)(void *const *pointers, const int64_t *symbols, const double *scalars);

RtError cpu_load(Device *d, const Artifact *a, const RtOptions *options, Program **program);
void cpu_unload(Device *d, Program *p);
CpuEntry cpu_program_entry(const Program *p, unsigned step, unsigned version);
/* C text defining NAME_invoke for every kernel of the plan that `source` does not define it for. */
void cpu_print_wrappers(const Artifact *a, const char *source, Str *out);

#endif
