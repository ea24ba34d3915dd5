/* How accurately products are added up: a column of precisions.def. */
#ifndef SUPPORT_PRECISION_H
#define SUPPORT_PRECISION_H

/* Bits of the largest term that sums of products in this precision keep at least; null, or none so called: f32's. */
int precision_sums(const char *name);

#endif
