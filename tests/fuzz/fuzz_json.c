/* Any bytes: a value or an error message, and what was read can be walked. */
#include "json.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t walk(const Json *json) {
    size_t count = 1;
    (void)json_string(json, "");
    (void)json_number(json, 0);
    for (const Json *member = json_first(json); member; member = json_next(member)) count += walk(member) + (json_key(member)[0] == 0);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char error[128];
    JsonLimits limits = {.bytes = 1 << 16, .depth = 20, .values = 2000};
    Json *json = json_read((const char *)data, size, &limits, error);
    if (!json && !error[0]) abort();
    if (json && walk(json) > 2 * limits.values) abort();
    json_release(json);
    return 0;
}
