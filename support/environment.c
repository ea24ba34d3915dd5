#include "support.h"

#include <stdlib.h>

static const struct {
    const char *name, *use;
} variables[ENV_COUNT] = {
#define ENVIRONMENT(id, name, use) {name, use},
#include "environment.def"
#undef ENVIRONMENT
};

const char *env_get(EnvId id) { return getenv(variables[id].name); }
const char *env_name(EnvId id) { return variables[id].name; }
const char *env_use(EnvId id) { return variables[id].use; }
