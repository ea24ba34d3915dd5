#include "support.h"

#include <stdlib.h>

static const struct {
    const char *name;
    bool secret;
    const char *use;
} variables[ENV_COUNT] = {
#define ENVIRONMENT(id, name, secret, use) {name, secret, use},
#include "environment.def"
#undef ENVIRONMENT
};

const char *env_get(EnvId id) { return getenv(variables[id].name); }
const char *env_name(EnvId id) { return variables[id].name; }
const char *env_use(EnvId id) { return variables[id].use; }
bool env_is_secret(EnvId id) { return variables[id].secret; }
