#ifndef EMIT_ARTIFACT_ARTIFACT_INTERNAL_H
#define EMIT_ARTIFACT_ARTIFACT_INTERNAL_H

#include "artifact.h"

/* File layout, little endian: magic, u32 format, u32 header bytes, u64 file bytes, 16 bytes of
 * checksum over all the rest, JSON header, blobs at 16-byte aligned offsets. */
enum {
    SKA_MAGIC_SIZE = 8,
    SKA_CHECKED_PREFIX = 24, /* magic .. file size */
    SKA_FIXED = 40,
    SKA_ALIGN = 16,
    SKA_MAX_HEADER = 1 << 20,
    SKA_MAX_FORMULA = 4096,
    SKA_MAX_TEXT = 4096
};
/* A byte above 127, CR LF and ^Z show transfers that change text. */
extern const unsigned char artifact_magic[SKA_MAGIC_SIZE];
void artifact_checksum(const unsigned char *data, size_t size, unsigned char out[16]);

const char *artifact_param_kind_name(ArtifactParamKind kind);
const char *artifact_step_kind_name(ArtifactStepKind kind);
const char *artifact_direction_name(unsigned direction); /* null when out of range */
/* True for what launch formulas may name besides the artifact's symbols: num_sms, num_cores. */
bool artifact_is_launch_constant(const char *name);

#endif
